"""What only shows a kernel and decides nothing: ``tclint barriers``, ``dump``, ``explain`` and ``isa``.

Owns the protocol of a kernel as a table, dumps of each stage, texts about rules and instructions, readable names of
values, and what is in flight at each instruction. Imports anything below; no rule depends on it.

Change this package to show more of what the analyses know.
"""
