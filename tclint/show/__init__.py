"""``tclint show``: one kernel as one HTML page.

``kernel`` collects the content as JSON data, ``flight`` the operations in flight at each instruction, ``layout`` places
the blocks of the graph, and ``page`` puts the data into ``page.html``. Imports ``inspect``, ``linting`` and packages
below these.

Change this package to show more on the page. Tests check the data rather than the HTML.
"""
