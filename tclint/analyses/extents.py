"""The bytes of shared memory that an instruction may access, over all threads and all iterations.

Each role of a kernel addresses a stage of a ring by its own loop counter, so the expressions of two addresses cannot be
compared. The ranges of the addresses can: an access inside the bytes that copies fill reads copied bytes, whatever the
iteration.

A range bounds where an access may be. Two disjoint ranges show that accesses do not overlap. That they do overlap is
shown only by a range of which every byte is accessed (:attr:`Extent.attained`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

from tclint._named_tuple import NamedTuple
from tclint.analyses.attained import AttainedValues
from tclint.analyses.model import KernelModel
from tclint.values import thread_masks as T
from tclint.values.nodes import AddressOf, Terms
from tclint.values.shared_memory import SharedAccess

__all__ = ["Extent", "Extents"]


class Extent(NamedTuple):
    """The half-open range of bytes that an access may touch, as offsets from a base."""

    base: int
    """An address that is CTA-uniform and does not vary in any loop."""
    low: int
    high: int
    """The offset after the last byte."""
    stride: int
    """A divisor of the distance between the accesses of two iterations; 0: all are at one location."""
    width: int
    """The bytes of one iteration, from the first one on."""
    attained: bool
    """Whether loops and threads are certain to access these bytes at each location; else they are an upper bound."""

    def inside(self, other: Extent) -> bool:
        """Whether all bytes are certain to be accessed by what *other* is the extent of; False for different bases."""
        if not other.attained or self.base != other.base or self.low < other.low or self.high > other.high:
            return False
        if other.width >= other.stride:
            return True
        offset = (self.low - other.low) % other.stride
        return self.stride % other.stride == 0 and offset + self.width <= other.width

    def may_overlap(self, other: Extent) -> bool:
        """Whether the two may overlap; True for different bases."""
        return self.base != other.base or (self.low < other.high and other.low < self.high)


class Extents:
    """The extents of the accesses to shared memory of one function."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._attained = model.fact(AttainedValues)
        self._known: dict[tuple[int, int, int, bool], Extent | None] = {}

    @cached_property
    def _accesses(self) -> list[SharedAccess]:
        rank, block_of = self.model.cfg.rank, self.model.cfg.block_of
        shared = self.model.shared
        return [a for i in sorted(shared.sites) if block_of[i] in rank for a in shared.accesses(i)]

    @cached_property
    def reads(self) -> list[SharedAccess]:
        """The reachable reads of shared memory, in program order."""
        return [a for a in self._accesses if not a.writes]

    @cached_property
    def writes(self) -> list[SharedAccess]:
        """The reachable writes to shared memory, in program order."""
        return [a for a in self._accesses if a.writes]

    def of(self, access: SharedAccess, *, attained: bool = True) -> Extent | None:
        """The extent of *access*, else all of the variable that it is in; None if neither is known.

        Without *attained*, it is taken to be an upper bound: whether loops and threads access all of it takes longer.
        """
        threads = self.model.shared.addressing(access, self.model.views.context_of(access.site).threads)
        key = access.address, access.size, threads, attained
        if key not in self._known:
            self._known[key] = self._find(access, threads, attained)
        return self._known[key]

    def may_overlap(self, a: Extent, b: Extent) -> bool:
        """Whether the two may overlap."""
        return not self.model.values.separate(a.base, b.base) and a.may_overlap(b)

    def _find(self, access: SharedAccess, threads: T.Threads, attained: bool) -> Extent | None:
        values = self.model.values
        found = self.reach(access.address, access.size, threads, attained=attained)
        if found is not None and any(
            type(values.node(t)) is AddressOf for t, _ in values.linear(found.base)[0]
        ):
            return found
        return self._whole(values.linear(values.addresses.over_iterations(access.address).base)[0])

    def reach(self, address: int, size: int, threads: T.Threads, *, attained: bool = True) -> Extent | None:
        """The range of *size* bytes, or columns of tensor memory, at *address*, over *threads* and all iterations.

        None if the number of stages that the address selects, or its dependence on the thread index, is unknown.
        """
        addresses = self.model.values.addresses
        form = addresses.over_iterations(address)
        span = addresses.span(form, size, threads)
        if span is None:
            return None
        assert form.count is not None
        low, high = span
        width = high - low - (form.count - 1) * form.stride
        attained = attained and self._attained.sum(form.moving)
        attained = attained and self._gapless(form.index, size, threads)
        return Extent(form.base, low, high, form.stride, width, attained)

    def _gapless(self, index: int, size: int, threads: T.Threads) -> bool:
        """Whether *threads* access, *size* bytes each, every byte between the first and the last one."""
        offsets = sorted(self.model.values.addresses.offsets(index, threads) or ())
        return all(b - a <= size for a, b in pairwise(offsets))

    def _whole(self, invariant: Terms) -> Extent | None:
        """All bytes of the variable *invariant*, which addresses based on it do not leave; None if it is not one."""
        size = self.model.size(invariant[0][0]) if len(invariant) == 1 and invariant[0][1] == 1 else 0
        return Extent(invariant[0][0], 0, size, 0, size, attained=False) if size else None
