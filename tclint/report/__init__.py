"""Presentation of the reports of a run: summary, folding, locations, baseline, and the output formats.

Owns the counts of a run (``summary``), the merging of duplicates of one defect (``fold``), the decision whether a
finding is shown in the PTX or in its source (``locate``), and the baseline. ``formats`` has one module per output
format. Imports ``findings`` and what is below it, but no analysis and no check.

Change this package to show findings differently.
"""
