"""When asynchronous operations complete, and which warp executes next."""

from __future__ import annotations

import random
from collections.abc import Iterable

__all__ = ["Schedule", "schedule"]


class Schedule:
    """When asynchronous operations complete, and how warps are interleaved.

    ``eager``: when they are issued, and a missing proxy fence hides no data. ``lazy``: when a thread cannot continue without them. ``random:SEED``: at any time
    in between. ``held``: as ``eager``, except that threads which have executed one of the instructions *late* continue
    only when no others can. ``targeted``: as ``held``, except that the operations of these instructions are lazy.
    Raises ValueError for any other name.
    """

    def __init__(self, name: str, late: Iterable[int] = ()) -> None:
        kind, _, seed = name.partition(":")
        if kind not in ("eager", "held", "lazy", "random", "targeted") or (
            seed and not (kind == "random" and seed.isdigit())
        ):
            raise ValueError(f"unknown schedule {name!r}; available: eager, lazy, random:SEED")
        self.name = name
        self.kind = kind
        self.late = frozenset(late)
        self._random = random.Random(int(seed or 0))

    def at_once(self, site: int) -> bool:
        """Whether the operation issued at *site* completes as soon as it can."""
        return self.kind in ("eager", "held") or (self.kind == "targeted" and site not in self.late)

    def quantum(self, default: int) -> int:
        """Instructions that a warp executes before another one is scheduled."""
        return self._random.randint(1, 64) if self.kind == "random" else default

    def choose(self, count: int) -> int:
        """The index of the next one of *count* warps or operations."""
        return self._random.randrange(count) if self.kind == "random" else 0

    def lands(self) -> bool:
        """Whether some operation completes now although no thread waits for it."""
        return self.kind == "random" and self._random.random() < 0.25


def schedule(name: str | Schedule) -> Schedule:
    """The schedule of that name. Raises ValueError for an unknown one."""
    return name if isinstance(name, Schedule) else Schedule(name)
