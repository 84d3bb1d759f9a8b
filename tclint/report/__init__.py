"""What a run found, as it is to be shown: summary, folding, locations, baseline, and the output formats.

Owns the numbers of a run (``summary``), the merging of one defect in many variants (``fold``), whether a finding is
shown in the PTX or in its source (``locate``), and the baseline. ``formats`` has one module per output format. Imports
``findings`` and ``config``, no analysis and no check.

Change this package to show findings differently.
"""
