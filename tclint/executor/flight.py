"""Asynchronous operations on their way, and the schedules that complete them.

Until an operation completes, what it writes holds poison and what it reads is still to be read: a *flight* keeps both,
and says how to read (``capture``) and how to write (``finish``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tclint.executor.memory import Array, Shared
from tclint.executor.sync import Mbarrier

if TYPE_CHECKING:
    from tclint.executor.warp import Warp

__all__ = ["Flight", "Range", "Schedule", "schedule", "stretch", "stretches"]


class Range(NamedTuple):
    """Words of four bytes of the shared memory of a CTA: a stretch of them, or some, by their numbers."""

    memory: Shared
    words: slice | Array


def stretch(memory: Shared, start: int, end: int) -> Range:
    """The words of the bytes from *start* to before *end*."""
    return Range(memory, slice(start >> 2, end + 3 >> 2))


def stretches(memory: Shared, pieces: tuple[tuple[int, int], ...]) -> Range:
    """The words of several disjoint pieces. Raises :class:`Fault` for one that is not there."""
    memory.check(np.array([min(start for start, _ in pieces), max(end for _, end in pieces) - 1]), 1)
    return stretch(memory, *pieces[0]) if len(pieces) == 1 else Range(memory, _numbers(pieces))


@lru_cache(1024)
def _numbers(pieces: tuple[tuple[int, int], ...]) -> Array:
    """Rows of a swizzled matrix lie apart, and the same ones come in every round of a loop."""
    return np.unique(np.concatenate([np.arange(start >> 2, end + 3 >> 2) for start, end in pieces]))


@dataclass(eq=False)
class Flight:
    """An asynchronous operation between its issue and its completion."""

    site: int
    warp: Warp
    what: str
    number: int = 0
    reads: list[Range] = field(default_factory=list)
    writes: list[Range] = field(default_factory=list)
    capture: Callable[[], None] | None = None
    """Read the sources."""
    finish: Callable[[], None] | None = None
    """Write the results, and signal."""
    mbarrier: Mbarrier | None = None
    """That its completion is signalled on."""
    filling: dict[Warp, tuple[int, ...]] = field(default_factory=dict)
    draining: dict[Warp, tuple[int, ...]] = field(default_factory=dict)
    """Registers that it writes and reads, by warp."""
    before: list[Flight] = field(default_factory=list)
    """Operations of the same pipeline that complete first."""
    ready: Callable[[], bool] | None = None
    """Whether all that take part in it have come."""
    dependent: bool = False
    """Whether using its registers waits for it, as for ``tcgen05.ld`` and ``.st`` (9.7.16.6.4.5)."""
    adds: bool = False
    """Whether it combines with what is there, so that it may meet others that do."""
    stamp: int = 0
    """Of the reads of its sources, when whoever waits for it learns no more than its issue; 0: of whoever waits."""
    written: int = 0
    """Of its writes; 0: they are not plain ones."""
    locked: bool = False
    """Whether what it uses counts as used: not when it completes at its issue."""
    captured: bool = False
    done: bool = False
    unseen: list[Range] = field(default_factory=list)
    """What it reads of generic writes that no proxy fence has made visible to it."""
    note: dict[str, Any] = field(default_factory=dict)
    """What the instructions that make such an operation keep with it."""


class Schedule:
    """When asynchronous operations complete: at their issue (``eager``), when somebody cannot go on without it
    (``lazy``), at any time (``random:SEED``), or as ``eager`` but for those of some instructions (``targeted``)."""

    def __init__(self, name: str, late: Iterable[int] = ()) -> None:
        kind, _, seed = name.partition(":")
        if kind not in ("eager", "lazy", "random", "targeted") or (
            seed and not (kind == "random" and seed.isdigit())
        ):
            raise ValueError(f"no schedule is called {name!r}: eager, lazy, random:SEED")
        self.name = name
        self.kind = kind
        self.late = frozenset(late)
        self._random = random.Random(int(seed or 0))

    def at_once(self, flight: Flight) -> bool:
        """Whether *flight* completes as soon as it can."""
        return self.kind == "eager" or (self.kind == "targeted" and flight.site not in self.late)

    def quantum(self, most: int) -> int:
        """Instructions that a warp executes until another one has its turn."""
        return self._random.randint(1, 64) if self.kind == "random" else most

    def choose(self, count: int) -> int:
        """Which of *count* warps or operations is next."""
        return self._random.randrange(count) if self.kind == "random" else 0

    def lands(self) -> bool:
        """Whether some operation completes now although nobody waits for it."""
        return self.kind == "random" and self._random.random() < 0.25


def schedule(name: str | Schedule) -> Schedule:
    return name if isinstance(name, Schedule) else Schedule(name)
