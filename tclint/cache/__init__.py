"""Results of earlier runs, kept between processes in the user's cache folder.

Owns the key of a result (``key``: the text, the settings and tclint's own code), a report as data (``record``), the folder
(``store``), and the question whether a report is known (``results``). Imports ``config`` and the layers below it that make
no findings, so that a run whose inputs are all known imports no analysis.

Change this package when a report gets a new type of field, or when something new decides what a report says.
"""
