"""The classes of accesses that a search for overlaps compares, and which of them may have bytes in common."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from tclint._dataclass import dataclass
from tclint.analyses.ages import ones
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint
from tclint.values.shared_memory import SharedAccess, SharedMemory

__all__ = ["LocatedAccess", "Members", "SameBase", "Uses", "may_overlap"]

LocatedAccess = tuple[SharedAccess, Footprint | None]
"""An access, and the bytes that threads are certain to touch, relative to the base of its address; None if unknown."""
_GRANULE = 256
"""Bytes by which footprints are looked up."""
_CHUNK = 64
"""Classes of uses whose pending operations are also known together; a power of two."""
_CHUNK_MASK = (1 << _CHUNK) - 1


@dataclass(slots=True, eq=False)
class SameBase:
    """The accesses of one class whose addresses have the same base, and what was asked about them.

    Where thousands of operations are in flight, most classes have one access, so this is what the search is made of.
    """

    accesses: list[SharedAccess] = field(default_factory=list)
    has_union: bool = False
    """Whether :attr:`union` is known."""
    union: Footprint | None = None
    """All bytes that they touch if all threads have the base in common."""
    footprints: dict[T.Threads, list[LocatedAccess]] = field(default_factory=dict)
    """Threads of the other class -> the footprints of the accesses, given that those threads exist."""
    resolved: tuple[int, int | None] | None = None
    """The base without its constant, and the constant, on every path; None if not asked, or if the base varies.

    The constant is None where a pointer may have a different initial value in each thread.
    """


@dataclass(slots=True, eq=False)
class Members:
    """The accesses of one class, either operations or uses."""

    accesses: list[SharedAccess] = field(default_factory=list)
    pending: int = 0
    """The bit set of the operations that may be in flight at these uses."""
    by_base: dict[int, SameBase] = field(default_factory=dict)
    """Base of an address -> the accesses that have it."""


def may_overlap(one: Footprint | None, other: Footprint | None, distance: int) -> bool:
    """Whether the two may overlap if the base of *other* is *distance* bytes after that of *one*; True if unknown."""
    return one is None or other is None or one.overlaps(other.moved(distance))


class Uses:
    """The classes of uses of one search, numbered in the order of their last accesses.

    A class is looked up by the bases of its addresses and the bytes that it touches: to compare each class of operations
    with each class of uses would take a time that is quadratic in their number.
    """

    def __init__(
        self,
        uses: Sequence[Members],
        shared: SharedMemory,
        union: Callable[[Members, int], Footprint | None],
    ) -> None:
        self._shared = shared
        self._union = union
        order = sorted(range(len(uses)), key=lambda k: uses[k].accesses[-1].site)
        self._found = order
        """Number -> the position in *uses*."""
        self._uses = [uses[k] for k in order]
        self._ends = [use.accesses[-1].site for use in self._uses]
        self._with_base: dict[int, int] = {}
        """Base -> the bit set of the classes that have it."""
        for number, use in enumerate(self._uses):
            for base in use.by_base:
                self._with_base[base] = self._with_base.get(base, 0) | 1 << number
        volatile = shared.values.varying_at
        self._varying = [base for base in self._with_base if volatile(base)]
        self._granules: dict[int, dict[int | None, int]] = {}
        """Base -> granule -> the bit set of the classes that touch it; None -> that of the classes with unknown bytes."""
        self._aliases: dict[int, int] = {}
        self.pending_by_chunk: dict[int, int] = {}
        """Every number that is a multiple of _CHUNK -> the operations that may be in flight at the classes from it on."""
        for number, use in enumerate(self._uses):
            begin = number & -_CHUNK
            self.pending_by_chunk[begin] = self.pending_by_chunk.get(begin, 0) | use.pending

    def overlapping(self, operations: Members, bits: int) -> Overlapping:
        """The classes that may overlap *operations*, whose bit set is *bits*, while one of these is in flight."""
        found = 0
        for base in operations.by_base:
            found |= self._aliasing(base)
            if base in self._with_base and not self._shared.values.varying_at(base):
                granules = self._by_granule(base)
                found |= granules.get(None, 0)
                for granule in _granules(self._union(operations, base)):
                    found |= self._with_base[base] if granule is None else granules.get(granule, 0)
        return Overlapping(self, operations, bits, found)

    def _aliasing(self, base: int) -> int:
        """The bit set of the classes with a base that may be equal to *base* on some path, or varies with it."""
        found = self._aliases.get(base)
        if found is None:
            varying = self._shared.values.varying_at(base)
            found = self._with_base.get(base, 0) if varying else 0
            for other in self._with_base if varying else self._varying:
                if other != base and self._shared.may_alias(base, other):
                    found |= self._with_base[other]
            self._aliases[base] = found
        return found

    def _by_granule(self, base: int) -> dict[int | None, int]:
        if base not in self._granules:
            granules = self._granules[base] = dict[int | None, int]()
            for number in ones(self._with_base[base]):
                for granule in _granules(self._union(self._uses[number], base)):
                    granules[granule] = granules.get(granule, 0) | 1 << number
        return self._granules[base]

    def overlap(self, operations: Members, number: int) -> bool:
        """Whether some bytes of *operations* and of the class may be the same on some path."""
        uses, volatile = self._uses[number], self._shared.values.varying_at
        for base in operations.by_base:
            for other in uses.by_base:
                if base != other:
                    if self._shared.may_alias(base, other):
                        return True
                elif volatile(base) or may_overlap(self._union(operations, base), self._union(uses, base), 0):
                    return True
        return False

    def __getitem__(self, number: int) -> Members:
        return self._uses[number]

    def ending(self, start: int, end: int) -> tuple[int, int]:
        """The numbers of the classes whose last access is after *start* and before *end*: the first one, and the end."""
        return bisect_right(self._ends, start), bisect_left(self._ends, end)

    def in_order(self, numbers: Iterator[int]) -> dict[int, Members]:
        """Last access -> class, for the classes of *numbers*, in the order in which their first accesses were found."""
        return {self._ends[n]: self._uses[n] for n in sorted(numbers, key=self._found.__getitem__)}


class Overlapping:
    """The classes of uses that may overlap a class of operations in flight."""

    def __init__(self, uses: Uses, operations: Members, bits: int, candidates: int) -> None:
        self._uses = uses
        self._operations = operations
        self._bits = bits
        self._candidates = candidates

    def __len__(self) -> int:
        """The number of classes at most."""
        return self._candidates.bit_count()

    def _selected(self, candidates: int) -> Iterator[int]:
        uses, bits = self._uses, self._bits
        for begin, pending in uses.pending_by_chunk.items():
            if pending & bits:
                for number in ones(candidates >> begin & _CHUNK_MASK):
                    at = begin + number
                    if uses[at].pending & bits and uses.overlap(self._operations, at):
                        yield at

    def every(self) -> dict[int, Members]:
        """Last access -> class, for all of them."""
        return self._uses.in_order(self._selected(self._candidates))

    def between(self, start: int, end: int) -> Iterator[Members]:
        """The classes whose last access is after *start* and before *end*, in the order of these."""
        first, after = self._uses.ending(start, end)
        inside = (1 << after) - (1 << first)
        return (self._uses[number] for number in self._selected(self._candidates & inside))


def _granules(footprint: Footprint | None) -> Iterator[int | None]:
    """The granules that *footprint* touches; None if its bytes are unknown."""
    if footprint is None:
        yield None
        return
    first, shift = divmod(footprint.low, _GRANULE)
    touched = footprint.bytes << shift
    data = touched.to_bytes((touched.bit_length() + 7) // 8, "little")
    for at in range(0, len(data), _GRANULE // 8):
        if any(data[at : at + _GRANULE // 8]):
            yield first + at * 8 // _GRANULE
