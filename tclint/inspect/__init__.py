"""Views of a kernel on which no finding depends: ``tclint barriers``, ``targets``, ``dump``, ``explain`` and ``isa``.

Owns the synchronisation protocol of a kernel as a table, dumps of each stage, texts about rules and instructions, and
the operations in flight at each instruction. May import anything below it; no
rule depends on it.

Change this package to show more of what the analyses know.
"""
