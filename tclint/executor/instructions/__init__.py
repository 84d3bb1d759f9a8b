"""The semantics of instructions: a factory for each form of the ISA table, in one file per kind of instruction.

A factory takes the decoder and an instruction, and returns the function that executes it for the active lanes. Imports
the rest of ``executor``; only :mod:`tclint.executor.run` imports it, which registers the factories.

Change this package to execute an instruction that ``tclint run`` cannot.
"""

from __future__ import annotations

from tclint.executor.instructions import (
    barriers,
    control,
    copies,
    exchange,
    matrix,
    mbarriers,
    memory,
    scalar,
    tensor,
    wgmma,
    wmma,
)

__all__ = [
    "barriers",
    "control",
    "copies",
    "exchange",
    "matrix",
    "mbarriers",
    "memory",
    "scalar",
    "tensor",
    "wgmma",
    "wmma",
]
