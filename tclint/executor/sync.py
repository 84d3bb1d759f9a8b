"""What threads wait for each other by: barriers and mbarrier objects, and the clocks that order them (9.7.13).

A *clock* is a vector: what a warp has heard of each warp of its cluster, as the number of that warp's last step that
is known to have happened before. Releasing operations leave a clock behind, acquiring ones take it up (8.8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tclint.executor.memory import Array

if TYPE_CHECKING:
    from tclint.executor.warp import Split, Warp

__all__ = ["Barrier", "Clocks", "Mbarrier"]


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
class Barrier:
    """A named barrier of a CTA, or the barrier of a cluster: who arrived in this round."""

    clocks: Clocks
    threads: int = 0
    """That have arrived."""
    waiting: list[Split] = field(default_factory=list)
    votes: list[Array] = field(default_factory=list)
    """Predicates that ``bar.red`` brought."""
    results: dict[int, Callable[[list[Array]], None]] = field(default_factory=dict)
    needed: int = 0
    """Threads of this round; 0 for all of the CTA."""
    parts: dict[Warp, Array] = field(default_factory=dict)
    """Lanes that have come of warps that are not counted yet."""
    round: int = 0

    @property
    def busy(self) -> bool:
        """Whether some thread has come in this round."""
        return bool(self.threads or self.parts)

    def come(self, w: Warp) -> None:
        """Count the lanes that execute; a barrier of so many threads counts whole warps once all their lanes came."""
        if not self.needed:
            self.threads += int(np.count_nonzero(w.mask))
            return
        self.parts[w] = self.parts.get(w, w.mask) | w.mask
        self.count(w)

    def count(self, w: Warp) -> None:
        """Count a warp, if all its lanes that have not left have come."""
        part = self.parts.get(w)
        if part is not None and not (w.alive & ~part).any():
            del self.parts[w]
            self.threads += len(part)


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
