"""What the steps of a replay do: a function for each kind of step, in one file per kind of instruction.

A function takes the machine, the threads that execute the step together, and the step; it changes their registers and
clocks, and the state of the machine. Imports the rest of ``replay`` up to the machine; only
:mod:`tclint.replay.launch_search` imports it, which registers the functions.

Change this package when a replay models an instruction wrongly, or does not execute one that synchronises.
"""

from __future__ import annotations

from tclint.replay.instructions import (
    barriers,
    copies,
    exchange,
    groups,
    matrix,
    mbarriers,
    memory,
    scalar,
    tensor,
)

__all__ = [
    "barriers",
    "copies",
    "exchange",
    "groups",
    "matrix",
    "mbarriers",
    "memory",
    "scalar",
    "tensor",
]
