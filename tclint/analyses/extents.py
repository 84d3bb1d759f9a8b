"""Which bytes of shared memory an instruction may touch, in all threads and rounds of all loops.

Roles address the same stage of a ring by loop counters of their own, so the
values of two addresses say nothing about each other. The range of all that an
address may be does: what lies inside the bytes that copies fill reads copied
bytes, whatever the round.
"""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.values import Level, Values
from tclint.values import thread_masks as T
from tclint.values.shared_memory import Access

__all__ = ["Extent", "Extents", "Terms", "steps"]

Terms = tuple[tuple[int, int], ...]
"""A sum: values with their factors."""


class Extent(NamedTuple):
    """All bytes that an access may touch, relative to an address that stays."""

    base: int
    low: int
    high: int
    """The first byte behind."""
    stride: int
    """How far apart the places of two rounds are; 0: there is one place."""

    def inside(self, other: Extent) -> bool:
        return self.base == other.base and other.low <= self.low and self.high <= other.high

    def meets(self, other: Extent) -> bool:
        return self.base != other.base or (self.low < other.high and other.low < self.high)


class Extents:
    """The extents of all accesses to shared memory."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._known: dict[tuple[int, int, int], Extent | None] = {}

    @cached_property
    def _accesses(self) -> list[Access]:
        rank, block_of = self.model.cfg.rank, self.model.cfg.block_of
        shared = self.model.shared
        return [a for i in sorted(shared.sites) if block_of[i] in rank for a in shared.accesses(i)]

    @cached_property
    def reads(self) -> list[Access]:
        return [a for a in self._accesses if not a.writes]

    @cached_property
    def writes(self) -> list[Access]:
        return [a for a in self._accesses if a.writes]

    def of(self, access: Access) -> Extent | None:
        """The extent of *access*; None when it is not known."""
        threads = self.model.views.at(access.site).threads
        key = access.address, access.size, threads
        if key not in self._known:
            self._known[key] = self._find(access, threads)
        return self._known[key]

    def meet(self, a: Extent, b: Extent) -> bool:
        """Whether the two may have bytes in common."""
        return not self.model.separate(a.base, b.base) and a.meets(b)

    def _find(self, access: Access, threads: int) -> Extent | None:
        values = self.model.values
        found = self.reach(access.address, access.size, threads)
        if found is not None and any(values.node(t)[0] == "symbol" for t, _ in values.linear(found.base)[0]):
            return found
        return self._whole(self._parts(access.address)[0])

    def reach(self, address: int, size: int, threads: int) -> Extent | None:
        """All *size* bytes, or columns of tensor memory, at *address* in *threads*, in all rounds of all loops."""
        values = self.model.values
        stays, mine, moves = self._parts(address)
        stride, low, count = steps(values, moves)
        own = self._bounds(values.total(mine, 0), threads)
        if count is None or own is None:
            return None
        low += values.linear(address)[1]
        high = low + (count - 1) * stride + size
        return Extent(values.total(stays, 0), low + own[0], high + own[1], stride)

    def _parts(self, address: int) -> tuple[Terms, Terms, Terms]:
        """The terms of *address* that stay, that depend on the thread index alone, and the others."""
        values = self.model.values
        terms = values.linear(address)[0]
        mine = tuple(t for t in terms if values.planes(t[0]) is not None)
        stays = tuple(
            t
            for t in terms
            if t not in mine and not values.volatile(t[0]) and values.level(t[0]) is Level.CTA
        )
        return stays, mine, tuple(t for t in terms if t not in mine and t not in stays)

    def _whole(self, stays: Terms) -> Extent | None:
        """All bytes of a variable: no address that is made of it leads out of it."""
        size = self.model.size(stays[0][0]) if len(stays) == 1 and stays[0][1] == 1 else 0
        return Extent(stays[0][0], 0, size, 0) if size else None

    def _bounds(self, mine: int, threads: int) -> tuple[int, int] | None:
        """The least and the greatest of what depends on the thread index alone."""
        number = self.model.values.known(mine)
        if number is not None:
            return number, number
        planes = self.model.values.planes(mine)
        if planes is None or not threads:
            return None
        return T.extreme(planes, threads, least=True), T.extreme(planes, threads, least=False)


def steps(values: Values, terms: Terms) -> tuple[int, int, int | None]:
    """Of a sum that changes: the distance of its values, the least, and how many there are."""
    if not terms:
        return 0, 0, 1
    ring = values.remainder(terms)
    if ring is not None:
        return ring
    stride, low, high = 0, 0, 0
    known = True
    for term, factor in terms:
        zeros, _ = values.known_bits(term)
        stride = gcd(stride, factor * (~zeros & (zeros + 1)))
        bounds = values.interval(term)
        if bounds is None:
            known = False
        else:
            low += min(bounds[0] * factor, bounds[1] * factor)
            high += max(bounds[0] * factor, bounds[1] * factor)
    if not known or not stride:
        return stride, 0, None
    return stride, low, (high - low) // stride + 1
