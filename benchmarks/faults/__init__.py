"""Faults to plant in real kernels: one change each, where the ISA table says what an instruction means.

An operator looks at one function and yields every place at which its fault can be planted. It knows events, groups and
roles of the table, never opcodes, so a new instruction is covered by its form. Nothing here decides whether tclint
should find the fault: that a change is harmless after all is shown by :mod:`benchmarks.mutation`.

The operators are in one file for each kind of change, and :mod:`~benchmarks.faults.kernel` has what they share.
"""

from __future__ import annotations

# In this order, which is that of the operators in records and reports.
# isort: off
from benchmarks.faults import deleted, weakened, moved, threads, module, operands, added
from benchmarks.faults.kernel import OPERATORS, Fault, Kernel, Operator, Plant, apply
# isort: on

__all__ = [
    "OPERATORS",
    "Fault",
    "Kernel",
    "Operator",
    "Plant",
    "added",
    "apply",
    "deleted",
    "module",
    "moved",
    "operands",
    "threads",
    "weakened",
]
