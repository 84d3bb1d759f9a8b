"""From the bytes of one text to its report: build, check, drop subsumed hits, apply suppressions.

Owns :func:`tclint.linting.check.check_source`, the subsumption of hits that are consequences of others, comments that
hide findings (``suppress``), and the cache for runs over an edited text (``cache``). Imports ``checks`` and the layers
below it.

Change this package when the same defect is reported twice, or when a comment does not hide what it should.
"""
