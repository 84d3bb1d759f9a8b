"""The results of checks as data: rules, findings, severity and confidence, locations, edits, and source vocabulary.

Owns one finding type for every rule, the rule pages as objects (``rules``), the two scales, spans and the lines at which
they are shown, the edits of a fix, the help in terms of CUTLASS, CuTe DSL, CUDA C++ and Triton, and what is selected and shown
(``selection``). Nothing here decides anything about a kernel. Imports ``syntax``, ``isa`` and ``ir``.

Change this package when a finding has to carry something new; the formats in ``report`` then show it.
"""
