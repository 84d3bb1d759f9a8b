"""What a check reports, as data: rules, findings, severity and confidence, locations, edits, and source vocabulary.

Owns one finding type for every rule, the rule pages as objects (``rules``), the two scales, spans and the lines that
they are shown at, the edits of a fix, and the words for what a finding means in CUTLASS, CuTe DSL, CUDA C++ and Triton.
Nothing here decides anything about a kernel. Imports ``syntax``, ``isa`` and ``ir``.

Change this package when a finding has to carry something new; the formats in ``report`` then show it.
"""
