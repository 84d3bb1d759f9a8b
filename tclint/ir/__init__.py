"""The intermediate representation: modules, functions and instructions, with their control-flow graph.

Owns the step from a syntax tree to :class:`Module` (``build``, ``rebuild`` after an edit, ``frontend`` with the
problems of a whole module), the nodes, inlining of calls, and the CFG with dominators, loops and the call graph.
Imports ``syntax`` and ``isa``.

Change this package when instructions need a new property for every later stage, or when control flow is modelled
differently.
"""

from tclint.ir.build import build
from tclint.ir.nodes import (
    SINK,
    Function,
    Immediate,
    Instruction,
    Location,
    Memory,
    Module,
    Not,
    Operand,
    OperandPair,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
)

__all__ = [
    "SINK",
    "Function",
    "Immediate",
    "Instruction",
    "Location",
    "Memory",
    "Module",
    "Not",
    "Operand",
    "OperandPair",
    "Register",
    "Special",
    "Symbol",
    "Variable",
    "Vector",
    "build",
]
