"""tclint, a linter for NVIDIA PTX.

Bytes become a syntax tree, the tree becomes instructions whose effects are read from one ISA table, the instructions
become a control-flow graph, analyses put a state before every instruction, and checks report findings with the path
that leads to them.
"""

from __future__ import annotations

__version__ = "0.1.0"
