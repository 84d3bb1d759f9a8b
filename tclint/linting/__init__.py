"""One text from its bytes to its report: build, check, drop consequences, apply suppressions.

Owns :func:`tclint.linting.check.check_source`, the subsumption of hits that follow from others, comments that hide
findings (``suppress``), and what is kept between runs over an edited text (``cache``). Imports ``checks`` and what is
below.

Change this package when the same defect is reported twice, or when a comment does not hide what it should.
"""
