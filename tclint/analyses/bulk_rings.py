"""What the bulk loads of a ring of mbarriers fill, and who reads it (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tclint.analyses.extents import Extent, Extents
from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.shared_memory import Access
from tclint.model import KernelModel

__all__ = ["BulkRings", "Filled", "place_of"]


@dataclass(frozen=True, slots=True)
class Filled:
    """The bytes that the bulk loads of one ring fill, and what else touches them."""

    ring: Ring
    copies: list[int]
    places: dict[int, Extent]
    """By the load; of some it may not be known."""
    reads: list[Access]
    writers: frozenset[int]
    """What else may write there."""

    @property
    def waits(self) -> list[int]:
        return self.ring.uses.get("mbarrier-wait", [])


class BulkRings:
    """The rings of a function whose bulk loads fill something that is read."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model

    @cached_property
    def filled(self) -> list[Filled]:
        model = self.model
        mbarriers, extents = model.made(Mbarriers), model.made(Extents)
        unknown = [a.site for a in extents.writes if extents.of(a) is None]
        found = []
        for ring in mbarriers.rings:
            copies = mbarriers.copies(ring)
            own = [a for i in copies for a in model.shared.accesses(i) if a.writes]
            places = {a.site: p for a in own if (p := place_of(model, ring, a)) is not None}
            reads = [a for a in extents.reads if any(_lies_in(extents, a, p) for p in places.values())]
            if reads:
                others = [a for a in extents.writes if a.site not in copies]
                writers = [a.site for a in others if any(_may_meet(extents, a, p) for p in places.values())]
                rest = frozenset([*writers, *unknown]) - frozenset(copies)
                found.append(Filled(ring, copies, places, reads, rest))
        return found

    def feeding(self, filled: Filled, read: Access) -> list[int]:
        """The loads that fill all that *read* may read."""
        extents = self.model.made(Extents)
        return [i for i, place in filled.places.items() if _lies_in(extents, read, place)]


def _lies_in(extents: Extents, access: Access, place: Extent) -> bool:
    extent = extents.of(access)
    return extent is not None and extent.inside(place)


def _may_meet(extents: Extents, access: Access, place: Extent) -> bool:
    extent = extents.of(access)
    return extent is not None and extent.meets(place)


def place_of(model: KernelModel, ring: Ring, copy: Access) -> Extent | None:
    """The bytes that a bulk load fills in all rounds: as many as it says, or as are expected, or as lie between stages."""
    extents = model.made(Extents)
    place = extents.of(copy)
    if place is None:
        return None
    size = model.known(copy.site, "bytes") or place.stride or _expected(model, ring, copy)
    if not size:
        return None
    starts = (e.low for a in extents.writes if (e := extents.of(a)) is not None and e.base == place.base)
    near = min((start - place.low for start in starts if start > place.low), default=size)
    return place._replace(high=place.high - copy.size + min(size, near))


def _expected(model: KernelModel, ring: Ring, copy: Access) -> int | None:
    """The bytes that are expected for nothing but this copy."""
    for delivery in model.made(Mbarriers).deliveries(ring.stages[0]) or ():
        if delivery.copies == [copy.site] and len(delivery.expects) == 1:
            return model.known(delivery.expects[0], "tx")
    return None
