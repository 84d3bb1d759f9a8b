"""What threads wait for each other by: barriers and mbarrier objects, and the clocks that order them (9.7.13).

A *clock* is a vector: what a warp has heard of each warp of its cluster, as the number of that warp's last step that
is known to have happened before. Releasing operations leave a clock behind, acquiring ones take it up (8.8).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tclint.executor.memory import Array

__all__ = ["Clocks", "Mbarrier"]


@dataclass
class Clocks:
    """What is known to have happened (``seen``), and of it what the async proxy sees too (``fenced``).

    A generic write is visible to the async proxy when a proxy fence stands between (8.7): after the write, and before
    the operation of the async proxy. So the fence copies ``seen`` to ``fenced``, and both travel together.
    """

    seen: Array
    fenced: Array

    @classmethod
    def new(cls, warps: int) -> Clocks:
        """Of a cluster of so many warps: the last place is that of asynchronous copies."""
        return cls(np.zeros(warps + 1, np.int64), np.zeros(warps + 1, np.int64))

    def join(self, other: Clocks) -> None:
        np.maximum(self.seen, other.seen, out=self.seen)
        np.maximum(self.fenced, other.fenced, out=self.fenced)

    def copy(self) -> Clocks:
        return Clocks(self.seen.copy(), self.fenced.copy())


@dataclass
class Mbarrier:
    """An mbarrier object (9.7.13.15.1): arrivals that are pending in the phase, and bytes that are expected."""

    address: int
    """In the shared window of the cluster."""
    count: int
    clocks: Clocks
    pending: int = 0
    tx: int = 0
    phase: int = 0
    """Phases that are complete."""
    released: Clocks | None = None
    """What the waiters of the last complete phase take up."""
    site: int = -1
    """Who initialised it."""
    unknown: int = 0
    """Copies of an unknown number of bytes that are to report to it."""
    elastic: bool = False
    """Whether such a copy has: then any number of bytes is what was expected."""
    users: set[int] = field(default_factory=set)
    """The instructions that named it."""

    def __post_init__(self) -> None:
        self.pending = self.count

    @property
    def quiet(self) -> bool:
        return self.pending == 0 and (self.tx == 0 or self.elastic) and not self.unknown

    def turn(self) -> bool:
        """Complete the phase if nothing is left to wait for."""
        if not self.quiet:
            return False
        self.phase += 1
        self.tx, self.elastic = 0, False
        self.pending = self.count
        self.released = self.clocks.copy()
        return True
