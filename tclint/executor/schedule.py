"""When asynchronous operations complete, and which warp executes next."""

from __future__ import annotations

import random
from collections.abc import Iterable

__all__ = ["Schedule", "schedule"]


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

    def at_once(self, site: int) -> bool:
        """Whether the operation issued at *site* completes as soon as it can."""
        return self.kind == "eager" or (self.kind == "targeted" and site not in self.late)

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
