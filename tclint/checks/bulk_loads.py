"""Checks of bulk loads into shared memory: read before they are complete (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tclint.analyses.extents import Extent, Extents
from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.order import Order
from tclint.analyses.shared_memory import Access
from tclint.analyses.warps import whole_program
from tclint.checks import Hit, Mark, check
from tclint.checks.mbarrier_phases import first_parity
from tclint.model import KernelModel


@dataclass(frozen=True, slots=True)
class _Filled:
    """The bytes that the bulk loads of one ring fill, and what else touches them."""

    ring: Ring
    places: dict[int, Extent]
    """By the load; of some it may not be known."""
    reads: list[Access]
    writers: frozenset[int]
    """What else may write there."""

    @property
    def waits(self) -> list[int]:
        return self.ring.uses.get("mbarrier-wait", [])


@check("BK001", needs="cp")
def read_before_complete(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Shared memory that bulk loads fill, read on a way that passes no wait for their mbarrier."""
    if not model.sites("issue", "mbarrier") or not whole_program(model):
        return
    order = model.made(Order)
    for filled in _filled(model):
        idle = frozenset(i for i in filled.waits if _passes_at_once(model, filled, i))
        written = filled.writers | order.heard(filled.writers)
        copies = model.made(Mbarriers).copies(filled.ring)
        told = [order.completed(copies) | written]
        if idle:
            told.append((order.completed(copies, idle) | written) - idle)
        for read in filled.reads:
            passed = _unwaited(model, filled, read, told)
            if passed is not None:
                yield "BK001", _hit(model, filled, read, passed if passed in idle else None)
                break


def _filled(model: KernelModel) -> Iterator[_Filled]:
    """What the bulk loads of each ring fill, where something reads that."""
    mbarriers, extents = model.made(Mbarriers), model.made(Extents)
    unknown = [a.site for a in extents.writes if extents.of(a) is None]
    for ring in mbarriers.rings:
        copies = mbarriers.copies(ring)
        own = [a for i in copies for a in model.shared.accesses(i) if a.writes]
        places = {a.site: p for a in own if (p := _place(model, ring, a)) is not None}
        reads = [a for a in extents.reads if any(_lies_in(extents, a, p) for p in places.values())]
        if reads:
            others = [a for a in extents.writes if a.site not in copies]
            writers = [a.site for a in others if any(_may_meet(extents, a, p) for p in places.values())]
            yield _Filled(ring, places, reads, frozenset([*writers, *unknown]) - frozenset(copies))


def _lies_in(extents: Extents, access: Access, place: Extent) -> bool:
    extent = extents.of(access)
    return extent is not None and extent.inside(place)


def _may_meet(extents: Extents, access: Access, place: Extent) -> bool:
    extent = extents.of(access)
    return extent is not None and extent.meets(place)


def _place(model: KernelModel, ring: Ring, copy: Access) -> Extent | None:
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


def _unwaited(model: KernelModel, filled: _Filled, read: Access, told: list[frozenset[int]]) -> int | None:
    """The first wait for the mbarrier on a way to the read that hears of nothing, or -1; None when all ways are right."""
    order, extents = model.made(Order), model.made(Extents)
    into = [i for i, place in filled.places.items() if _lies_in(extents, read, place)]
    given = order.certain(into)
    # What follows a copy on its own way must wait for it, unless that fills another stage meanwhile.
    own = [i for i in into if len(filled.ring.stages) == 1 and not filled.places[i].stride]
    for start in (-1, *own):
        for heard in told:
            path = order.unheard(read.site, heard, start, given=given)
            if path is not None:
                return next((i for i in path.sites(model.cfg, start) if i in filled.waits), -1)
    return None


def _passes_at_once(model: KernelModel, filled: _Filled, wait: int) -> bool:
    """Whether a wait is the first of a thread for the ring, and is for the phase before the first: it does not wait."""
    before = (i for i in filled.waits if i != wait and model.reaches(i, wait))
    return all(model.reaches(wait, i) for i in before) and first_parity(model, wait) == 1


def _hit(model: KernelModel, filled: _Filled, read: Access, idle: int | None) -> Hit:
    """*idle*: the wait on the way that does not wait."""
    copy = min(filled.places)
    role = model.who(model.views.at(read.site).threads)
    if idle is None:
        why = "nothing on this way waits for its mbarrier"
        remedy = "wait for the phase of the mbarrier that the copy completes (mbarrier.try_wait) before this instruction"
    else:
        why = (
            "the first wait for its mbarrier is for parity 1, the phase before the first, and returns at once"
        )
        remedy = "wait for parity 0 first; the parity flips each time the stage is used again"
    return Hit(
        site=read.site,
        message=f"reads shared memory that a bulk copy may still be writing: {why}",
        steps=(
            Mark(copy, "starts to fill it", role=model.who(model.views.at(copy).threads)),
            *(() if idle is None else (Mark(idle, "returns at once on a fresh mbarrier", role=role),)),
            Mark(read.site, "reads it", role=role),
        ),
        help=remedy,
        count=len({a.site for a in filled.reads}),
        about=frozenset(filled.waits),
    )
