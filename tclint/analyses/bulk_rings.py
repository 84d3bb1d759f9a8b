"""The bytes that the bulk loads of a ring of mbarriers fill, and the accesses that read them (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from math import gcd

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.analyses.extents import Extent, Extents
from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.model import KernelModel
from tclint.isa.accesses import Via
from tclint.isa.effects import TCGEN05, WGMMA
from tclint.values.shared_memory import SharedAccess

__all__ = ["SWIZZLE_SPANS", "WIDEST", "BulkRings", "Filled", "Rooms", "filled_extent", "rows"]

SWIZZLE_SPANS = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}
"""Bytes that a swizzle mode of a matrix descriptor permutes (9.7.15.5.1.2.2, 9.7.16.4.1): a row has at least as
many."""
_UNSWIZZLED = SWIZZLE_SPANS[0]
WIDEST = 128
"""The largest swizzle span: a multiple of it is a multiple of every span."""
_MODE_SHIFT = 61
"""The lowest bit of the swizzle mode in a matrix descriptor; the mode has two bits for wgmma, three for tcgen05."""


@dataclass(frozen=True, slots=True)
class Filled:
    """The bytes that the bulk loads of one ring fill, and the other accesses to them."""

    ring: Ring
    copies: list[int]
    extents: dict[int, Extent]
    """Load -> the bytes that it fills. Loads whose extent is unknown are left out."""
    reads: list[SharedAccess]
    """The reads that lie inside the bytes of one of the loads."""
    writers: frozenset[int]
    """The other instructions that may write these bytes, including those whose extent is unknown."""

    @property
    def waits(self) -> list[int]:
        """The waits for an mbarrier of the ring."""
        return self.ring.waits


class BulkRings:
    """The rings of a function whose bulk loads fill bytes that are read."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model

    @cached_property
    def filled(self) -> list[Filled]:
        model = self.model
        mbarriers, extents = model.fact(Mbarriers), model.fact(Extents)
        unknown = [a.site for a in extents.writes if extents.of(a) is None]
        found = []
        for ring in mbarriers.rings:
            copies = mbarriers.copies(ring)
            own = [a for i in copies for a in model.shared.accesses(i) if a.writes]
            filled = {a.site: p for a in own if (p := filled_extent(model, ring, a)) is not None}
            reads = [a for a in extents.reads if any(_lies_in(extents, a, p) for p in filled.values())]
            if reads:
                others = [a for a in extents.writes if a.site not in copies]
                writers = [
                    a.site for a in others if any(_may_overlap(extents, a, p) for p in filled.values())
                ]
                rest = frozenset([*writers, *unknown]) - frozenset(copies)
                found.append(Filled(ring, copies, filled, reads, rest))
        return found

    @cached_property
    def matrices(self) -> dict[tuple[Extent, int], int]:
        """``(extent, swizzle span)`` of each matrix that is read from shared memory -> an instruction that reads it."""
        model, found = self.model, dict[tuple[Extent, int], int]()
        for site in (i for group in (WGMMA, TCGEN05) for i in model.begins(group)):
            for access, span in _matrices(model, site):
                extent = model.fact(Extents).of(access)
                if extent is not None:
                    found.setdefault((extent, span), site)
        return found

    def feeding(self, filled: Filled, read: SharedAccess) -> list[int]:
        """The loads that each fill all the bytes that *read* may read."""
        extents = self.model.fact(Extents)
        return [i for i, extent in filled.extents.items() if _lies_in(extents, read, extent)]


def _lies_in(extents: Extents, access: SharedAccess, within: Extent) -> bool:
    extent = extents.of(access)
    return extent is not None and extent.inside(within)


def _may_overlap(extents: Extents, access: SharedAccess, within: Extent) -> bool:
    extent = extents.of(access)
    return extent is not None and extents.may_overlap(extent, within)


def filled_extent(model: KernelModel, ring: Ring, copy: SharedAccess) -> Extent | None:
    """The bytes that the bulk load *copy* fills over all iterations; None if unknown.

    The size of one stage is the load's byte count, else the stride of the ring or the bytes that its mbarrier expects for
    this load alone, whichever is less. A stage is no larger than the distance from the first one to the next write that starts
    after it, and the last stage ends before an mbarrier.
    """
    extents = model.fact(Extents)
    extent = extents.of(copy)
    if extent is None:
        return None
    size = model.constant_of(copy.site, "bytes")
    if not size:
        size = min((n for n in (extent.stride, _expected(model, ring, copy)) if n), default=None)
    if not size:
        return None
    starts = model.fact(_Starts)
    next_write = _next(starts.writes, extent.base, extent.low)
    near = size if next_write is None else next_write - extent.low
    more = min(size, near) - copy.size
    high, next_mbarrier = extent.high + more, _next(starts.mbarriers, extent.base, extent.low)
    return extent._replace(
        high=high if next_mbarrier is None else min(high, next_mbarrier), width=extent.width + more
    )


class _Starts:
    """Where writes and mbarriers begin, by the base of their addresses, in ascending order."""

    def __init__(self, model: KernelModel) -> None:
        extents = model.fact(Extents)
        self.writes: dict[int, list[int]] = {}
        for extent in filter(None, map(extents.of, extents.writes)):
            self.writes.setdefault(extent.base, []).append(extent.low)
        self.mbarriers: dict[int, list[int]] = {}
        for base, offset in model.fact(Mbarriers).objects:
            self.mbarriers.setdefault(base, []).append(offset)
        for known in (*self.writes.values(), *self.mbarriers.values()):
            known.sort()


def _next(starts: Mapping[int, list[int]], base: int, low: int) -> int | None:
    """The first of the *starts* after *low*; None if there is none."""
    known = starts.get(base, ())
    at = bisect_right(known, low)
    return known[at] if at < len(known) else None


def _expected(model: KernelModel, ring: Ring, copy: SharedAccess) -> int | None:
    """The bytes that a phase expects for this copy alone; None if unknown, or if other copies share the phase.

    Threads that expect bytes without a copy of their own may expect a part of those of this one.
    """
    deliveries = model.fact(Mbarriers).deliveries(ring.stages[0]) or ()
    if any(delivery.expects and not delivery.copies for delivery in deliveries):
        return None
    for delivery in deliveries:
        if delivery.copies == [copy.site] and len(delivery.expects) == 1:
            return model.constant_of(delivery.expects[0], "tx")
    return None


class Rooms:
    """The maximum bytes that loads of a ring can transfer without an overrun.

    What a load must not overrun is the start of another load of the same phase, a later stage of any load of the ring,
    an mbarrier, or the end of the variable. The first stage of the other loads does not count, since loads of other
    phases may divide it differently.
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._rings: dict[Ring, _Layout | None] = {}
        self._every: dict[Ring, dict[int, int]] = {}

    def every(self, ring: Ring) -> dict[int, int]:
        """The room of each load of *ring*, if all of them belong to one phase."""
        if ring not in self._every:
            self._every[ring] = self.of(ring, self.model.fact(Mbarriers).copies(ring))
        return self._every[ring]

    def of(self, ring: Ring, together: Collection[int]) -> dict[int, int]:
        """The room of each load of *together*, the loads of one phase.

        Empty unless every stage of every load of the ring has a known location.
        """
        if ring not in self._rings:
            self._rings[ring] = self._layout(ring)
        layout = self._rings[ring]
        if layout is None:
            return {}
        firsts: dict[int, list[int]] = {}
        for e in (e for site in together for e in layout.loads.get(site, ())):
            firsts.setdefault(e.base, []).append(e.low)
        for known in firsts.values():
            known.sort()
        mbarriers, found = self.model.fact(_Starts).mbarriers, dict[int, int]()
        for site in together:
            for e in layout.loads.get(site, ())[-1:]:
                nexts = (_next(starts, e.base, e.low) for starts in (firsts, layout.ends, mbarriers))
                if ends := [end for end in nexts if end is not None]:
                    found[site] = min(ends) - e.low
        return found

    def _layout(self, ring: Ring) -> _Layout | None:
        """Where the loads of *ring* write; None unless every stage of each has a known location."""
        model, extents = self.model, self.model.fact(Extents)
        loads: dict[int, list[Extent]] = {}
        ends: dict[int, set[int]] = {}
        for access in (
            a for i in model.fact(Mbarriers).copies(ring) for a in model.shared.accesses(i) if a.writes
        ):
            extent = extents.of(access)
            if extent is None:
                return None
            to_last_stage = extent.high - extent.low - access.size
            if to_last_stage and (
                not extent.stride or to_last_stage != extent.stride * (len(ring.stages) - 1)
            ):
                return None
            stages = range(extent.low, extent.low + to_last_stage + 1, extent.stride or 1)
            ends.setdefault(extent.base, set()).update(stages[1:])
            loads.setdefault(access.site, []).append(extent)
        for base, known in ends.items():
            if size := model.size(base):
                known.add(size)
        return _Layout(loads, {base: sorted(known) for base, known in ends.items()})


class _Layout(NamedTuple):
    """Where the loads of a ring write."""

    loads: dict[int, list[Extent]]
    """Load -> the bytes of its writes, from the first stage on."""
    ends: dict[int, list[int]]
    """Base -> where the later stages of the loads begin, and where the variable ends, in ascending order."""


def rows(model: KernelModel, ring: Ring) -> tuple[int, int]:
    """A divisor of the bytes of every load of the ring, and an instruction that shows it; -1 if none does.

    A box is contiguous in shared memory, so where a matrix with rows of 128 bytes is read, each row of the box has 128.
    """
    common, shown = 0, -1
    matrices = model.fact(BulkRings).matrices
    copies = [a for i in model.fact(Mbarriers).copies(ring) for a in model.shared.accesses(i) if a.writes]
    filled = {_filled_by(model, ring, access) for access in copies}
    for extent in filled:
        read = [
            m
            for m in matrices
            if extent is not None and m[0].base == extent.base and m[0].may_overlap(extent)
        ]
        common = gcd(common, *(span for _, span in read)) if read else _UNSWIZZLED
        shown = matrices[read[0]] if read else shown
    return common, shown


def _filled_by(model: KernelModel, ring: Ring, copy: SharedAccess) -> Extent | None:
    """The bytes that a bulk load fills; where only their start is known, all from there to the end of the variable."""
    extents = model.fact(Extents)
    extent = filled_extent(model, ring, copy) or extents.of(copy)
    if extent is not None and extent.high - extent.low == copy.size:
        return extent._replace(high=max(model.size(extent.base), extent.high))
    return extent


def _matrices(model: KernelModel, site: int) -> Iterator[tuple[SharedAccess, int]]:
    """The matrices that an instruction reads through descriptors, each with its swizzle span; 16 if unknown."""
    instruction, values = model.instruction(site), model.values
    for each in instruction.accesses:
        operand = instruction.named(each.operand) if each.via is Via.DESCRIPTOR else None
        if operand is None:
            continue
        descriptor = values.operand(operand, site)
        zeros, ones = values.known_bits(descriptor)
        known = (zeros | ones) >> _MODE_SHIFT & 7 == 7
        span = SWIZZLE_SPANS.get(ones >> _MODE_SHIFT & 7 if known else 0, _UNSWIZZLED)
        yield (
            SharedAccess(
                site, False, model.shared.start(descriptor), _UNSWIZZLED, later=True, proxy=each.proxy
            ),
            span,
        )
