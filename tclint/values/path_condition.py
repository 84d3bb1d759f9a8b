"""What is known of predicates at a place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tclint.values.integers import Range
from tclint.values.value_table import Comparisons

__all__ = ["Facts"]


class Facts(dict[int, bool]):
    """Predicate values known to hold or not; immutable once made, so what follows from it is kept with it."""

    __slots__ = ("bits", "bounds", "decided", "followed", "known", "lasting", "points", "ranges")

    def __init__(self, known: Mapping[int, bool] | Iterable[tuple[int, bool]] = ()) -> None:
        super().__init__(known)
        self.decided: dict[int, bool | None] = {}
        self.followed: dict[tuple[int, bool], Facts] = {}
        """What else is known when one predicate more is."""
        self.bounds: Comparisons | None = None
        """The comparisons with constants, by what is compared; None: not collected yet."""
        self.ranges: dict[int, Range] | None = None
        """What the comparisons say of sums; None: not collected yet."""
        self.points: dict[int, dict[int, bool]] | None = None
        """What sums are or are not equal to, as comparisons of two numbers say; None: not collected yet."""
        self.bits: dict[int, tuple[int, int]] | None = None
        """Bits of values that are known to be 0 and 1, as comparisons of some of them say; None: not collected yet."""
        self.known: frozenset[tuple[int, bool]] | None = None
        self.lasting: Facts | None = None

    def pairs(self) -> frozenset[tuple[int, bool]]:
        """The same as a set, to compare with another one."""
        if self.known is None:
            self.known = frozenset(self.items())
        return self.known
