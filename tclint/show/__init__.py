"""``tclint show``: one kernel as one page of HTML.

``kernel.py`` says what there is to show, as data that JSON can hold; ``flight.py`` what is in flight at each
instruction; ``layout.py`` where the blocks of the graph stand; ``page.py`` puts the data into ``page.html``.
"""
