"""Presentation of the reports of a run: summary, folding, locations, baseline, and the output formats.

Owns the counts of a run (``summary``), the merging of duplicates of one defect (``fold``), the decision whether a
finding is shown in the PTX or in its source (``locate``), the comments in sources (``in_source``), and the baseline.
``formats`` has one module per output format. Imports ``findings`` and what is below it, how comments are read from
``linting``, and no analysis and no check.

Change this package to show findings differently.
"""
