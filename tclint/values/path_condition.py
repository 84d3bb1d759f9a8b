"""Path conditions: sets of predicates with known truth, and the ranges of values that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tclint.values.integers import Range
from tclint.values.value_table import Comparisons

__all__ = ["KnownRanges", "PathCondition"]


class KnownRanges(dict[int, Range]):
    """Known ranges: by base, or by a number read as unsigned (:meth:`ValueTable.plain`)."""

    __slots__ = ("computed",)

    def __init__(self, ranges: Mapping[int, Range] | None = None) -> None:
        super().__init__(ranges or {})
        self.computed: dict[tuple[int, int], Range] | None = None
        """``(value, depth)`` -> range, as of :meth:`ConditionalIntervals.range_of`; None until they are complete."""


class PathCondition(dict[int, bool]):
    """Predicate -> its truth. Immutable once built, so the conclusions cached with it stay valid."""

    __slots__ = (
        "bits",
        "bounds",
        "columns",
        "consistent",
        "decided",
        "followed",
        "invariant",
        "known",
        "points",
        "ranges",
    )

    def __init__(self, known: Mapping[int, bool] | Iterable[tuple[int, bool]] = ()) -> None:
        super().__init__(known)
        self.decided: dict[int, bool | None] = {}
        """Predicate -> whether it follows; None: neither answer does."""
        self.followed: dict[tuple[int, bool], PathCondition] = {}
        """``(predicate, truth)`` -> this path condition extended by it."""
        self.bounds: Comparisons | None = None
        """Compared value -> its comparisons with constants; None: not collected yet."""
        self.ranges: KnownRanges | None = None
        """Sum -> its range, as the comparisons imply; None: not collected yet."""
        self.points: dict[int, dict[int, bool]] | None = None
        """Difference -> constants that it is known to equal or not to equal; None: not collected yet."""
        self.bits: dict[int, tuple[int, int]] | None = None
        """Value -> its bits known to be 0 and to be 1 from tests of some of them; None: not collected yet."""
        self.columns: int | None = None
        """The values of %tid.x that they admit, if the shape of the CTA is unknown; None: not computed yet."""
        self.consistent = False
        """Whether no sum or difference of known values is known to have another one. See :meth:`Contradictions.excluded`."""
        self.known: frozenset[tuple[int, bool]] | None = None
        """The contents as a set of pairs; None: not built yet. See :meth:`pairs`."""
        self.invariant: PathCondition | None = None
        """The facts that hold for the whole life of a thread; None: not built yet. See :meth:`Values.invariant`."""

    def pairs(self) -> frozenset[tuple[int, bool]]:
        """The contents as a set, for comparison with other path conditions."""
        if self.known is None:
            self.known = frozenset(self.items())
        return self.known
