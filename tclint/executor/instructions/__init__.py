"""What instructions do: a factory for each form of the ISA table, in a file for each kind of instruction."""

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
]
