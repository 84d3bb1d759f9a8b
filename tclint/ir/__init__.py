"""Modules, functions and instructions as the later stages see them."""

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
    Pair,
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
    "Pair",
    "Register",
    "Special",
    "Symbol",
    "Variable",
    "Vector",
    "build",
]
