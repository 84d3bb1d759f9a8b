"""Results of earlier runs, kept between processes in the user's cache folder.

Owns the key of a result and the question whether its report is known (``results``), the digest of tclint's own code in that
key (``program``), a report as data (``record``), and the folder (``store``). Imports ``config`` and the layers below it that make
no findings, so that a run whose inputs are all known imports no analysis.

Change this package when a report gets a new type of field, or when something new decides what a report says.
"""
