"""A kernel decoded for one launch: a function for each instruction, and the tables that the machine needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tclint.executor.costs import Count
from tclint.executor.memory import Array
from tclint.executor.special import special
from tclint.executor.state import Warp
from tclint.ir.nodes import Function

__all__ = ["Code", "Op"]

Op = Callable[[Warp], "int | None"]
"""Executes an instruction for the lanes ``warp.mask``. Returns None to continue with the next instruction, the number
of another one to branch to, or a signal of :mod:`tclint.executor.signals`."""


class Code:
    """A kernel, decoded for one launch."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.ops: list[Op] = []
        self.touches: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Registers that an instruction reads and writes when it executes; not those of an asynchronous operation."""
        self.unfenced: dict[int, dict[int, int]] = {}
        """For each instruction that writes operands of ``wgmma`` or reads its accumulators: these registers, each mapped to
        the instruction."""
        self.template: list[Array] = []
        """Initial registers of a warp, followed by constants and special registers."""
        self.specials: list[tuple[int, str]] = []
        """Special registers: the index among the registers, and the name."""
        self.shared_size = 0
        self.local_size = 0
        self.parameters: Array = np.zeros(0, np.uint8)
        self.place: Callable[[int], str] = str
        """The location of an instruction, for messages."""
        self.symbols: dict[str, int] = {}
        """The address of each variable and parameter in its state space."""
        self.counts: dict[int, Count] = {}
        """By instruction, what its accesses to memory have cost, if that is counted."""
        self.reached: set[int] = set()
        """Of the watched instructions, those that some lane has executed."""

    def registers(self, warp: Warp) -> list[Array]:
        """The registers of a new warp: zeros (:attr:`~tclint.executor.policy.Policy.filled`), constants and special registers."""
        found = list(self.template)
        for at, name in self.specials:
            found[at] = special(warp, name)
        return found
