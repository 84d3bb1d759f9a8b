"""``tclint show``: one kernel as one page of HTML.

``kernel`` collects what there is to show as data that JSON can hold, ``flight`` what is in flight at each instruction,
``layout`` places the blocks of the graph, and ``page`` puts the data into ``page.html``. Imports ``inspect``,
``linting`` and what is below.

Change this package to show more on the page; the tests look at the data, not at the HTML.
"""
