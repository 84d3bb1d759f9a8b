"""Vector clocks that order the warps of a cluster, and mbarrier objects (PTX ISA 8.8, 9.7.13).

A vector clock has one component per warp of the cluster, one for asynchronous copies, and one per warpgroup for its
multiplications: the latest *epoch* of that agent that happens before the current point. A warp begins a new epoch at
each release; those of a warpgroup are its ``wgmma``, which complete in order. A release joins the clock of the warp
into that of the barrier, mbarrier or address, and an acquire joins that clock into the one of the acquiring warp.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

import numpy as np

from tclint._dataclass import dataclass
from tclint.executor.memory import Array
from tclint.sync import mbarriers

__all__ = ["Box", "Clocks", "ExecutorMbarrier"]

Box = tuple[object, ...]
"""What determines how many bytes a copy through an unknown tensor map moves: the address of the map, and the mode."""


@dataclass
class Clocks:
    """What happens before the current point (``seen``), and the part that is visible to the async proxy (``fenced``).

    A generic write is visible to an operation of the async proxy only if a proxy fence follows the write and precedes
    the operation (8.7). The fence therefore joins ``seen`` into ``fenced``, and both are released and acquired
    together.
    """

    seen: Array
    fenced: Array

    @classmethod
    def new(cls, agents: int) -> Clocks:
        """The zero clocks of a cluster of so many *agents*."""
        return cls(np.zeros(agents, np.int64), np.zeros(agents, np.int64))

    def join(self, other: Clocks) -> None:
        np.maximum(self.seen, other.seen, out=self.seen)
        np.maximum(self.fenced, other.fenced, out=self.fenced)

    def copy(self) -> Clocks:
        return Clocks(self.seen.copy(), self.fenced.copy())


@dataclass
class ExecutorMbarrier(mbarriers.Mbarrier):
    """An mbarrier object (9.7.13.15.1), and what its phases release."""

    address: int
    """In the shared window of the cluster."""
    clocks: Clocks
    """The join of the clocks that arrivals and copies have released to it."""
    released: Clocks | None = None
    """The clock that waiters of the last complete phase acquire."""
    site: int = -1
    """The instruction that initialised it."""
    made: int = 0
    """The stamp of the initialisation."""
    offered: int | None = None
    """The phase of the cluster barrier at which the initialising warp arrived first, with ``.relaxed``: that orders no
    memory, but in practice a later phase shows the initialisation to every CTA (rules/MB002.md)."""
    unknown: int = 0
    """Pending copies on it whose number of bytes is unknown."""
    boxes: Counter[Box] = field(default_factory=Counter)
    """Such copies that have completed in this phase."""
    expects: int = -1
    """The instruction that performed the last expect_tx of this phase; -1 if none did."""
    users: set[int] = field(default_factory=set)
    """The instructions that have used it."""
    layout: int = 0
    """The version of its layout, which ``mbarrier.init`` states."""

    def advance_phase(self, settled: bool = False) -> bool:
        """Complete the phase if nothing is pending in it: whether it did.

        *settled*: a phase with copies of unknown size is complete as well if none of them is pending, since no further
        one can be issued before the phase completes. A phase that expects no bytes waits for none, and those of any
        such copy are too many.
        """
        if self.unknown and self.expects >= 0:
            return False
        if not self.complete_phase(suffices=settled and self.expects >= 0):
            return False
        self.expects = -1
        self.boxes.clear()
        self.released = self.clocks.copy()
        return True
