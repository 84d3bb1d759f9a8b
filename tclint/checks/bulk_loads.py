"""Checks of bulk loads into shared memory: read before they are complete (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.bulk_rings import BulkRings, Filled
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarriers import first_parity
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import whole_program
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._doubts import spared
from tclint.dataflow.feasible_paths import Path
from tclint.values.shared_memory import Access

BK001 = RuleId("BK001")

_NOTHING = "a number of the launch decides over the wait, and may decide over the copy"
"""What there is to say where :func:`spared` holds."""


@check(BK001, needs="cp", analyses=(BulkRings, HappensBefore))
def read_before_complete(model: KernelModel) -> Iterator[Hit]:
    """Shared memory that bulk loads fill, read on a way that passes no wait for their mbarrier."""
    if not model.sites("issue", "mbarrier") or not whole_program(model):
        return
    order = model.fact(HappensBefore)
    for filled in model.fact(BulkRings).filled:
        idle = frozenset(i for i in filled.waits if _passes_at_once(model, filled, i))
        written = filled.writers | order.observers_of(filled.writers)
        told = [order.completed(filled.copies) | written]
        if idle:
            told.append((order.completed(filled.copies, idle) | written) - idle)
        for read in filled.reads:
            found = _unwaited(model, filled, read, told)
            if found is not None:
                start, path = found
                passed = next((i for i in path.sites(model.cfg, start) if i in filled.waits), -1)
                unsure = start < 0 and spared(model, path, filled.waits) is not None
                doubt = _NOTHING if unsure else ""
                yield _hit(model, filled, read, passed if passed in idle else None).doubted(doubt)
                break


def _unwaited(
    model: KernelModel, filled: Filled, read: Access, told: list[frozenset[int]]
) -> tuple[int, Path] | None:
    """A way to the read that hears of nothing, and where it starts: at a copy, or at the entry (-1).

    None when all ways are right.
    """
    order, into = model.fact(HappensBefore), model.fact(BulkRings).feeding(filled, read)
    given = order.common_facts(into)
    # What follows a copy on its own way must wait for it, unless that fills another place meanwhile.
    places = {i: model.value(i, "destination") for i in into if len(filled.ring.stages) == 1}
    own = [i for i, place in places.items() if place is not None and not model.values.varying_at(place)]
    for start in (-1, *own):
        for heard in told:
            path = order.unsynchronised_path(read.site, heard, start, given=given)
            if path is not None:
                return start, path
    return None


def _passes_at_once(model: KernelModel, filled: Filled, wait: int) -> bool:
    """Whether a wait is the first of a thread for the ring, and is for the phase before the first: it does not wait."""
    before = [i for i in filled.waits if i != wait and model.reaches(i, wait)]
    return (
        all(model.reaches(wait, i) for i in before)
        and model.reaches(-1, wait, before)
        and first_parity(model, wait) == 1
    )


def _hit(model: KernelModel, filled: Filled, read: Access, idle: int | None) -> Hit:
    """*idle*: the wait on the way that does not wait."""
    copy = min(filled.places)
    role = model.describe_threads(model.views.context_of(read.site).threads)
    if idle is None:
        why = "nothing on this way waits for its mbarrier"
        remedy = "wait for the phase of the mbarrier that the copy completes (mbarrier.try_wait) before this instruction"
    else:
        why = (
            "the first wait for its mbarrier is for parity 1, the phase before the first, and returns at once"
        )
        remedy = "wait for parity 0 first; the parity flips each time the stage is used again"
    return BK001.hit(
        site=read.site,
        message=f"reads shared memory that a bulk copy may still be writing: {why}",
        steps=(
            Mark(
                copy, "starts to fill it", role=model.describe_threads(model.views.context_of(copy).threads)
            ),
            *(() if idle is None else (Mark(idle, "returns at once on a fresh mbarrier", role=role),)),
            Mark(read.site, "reads it", role=role),
        ),
        help=remedy,
        count=len({a.site for a in filled.reads}),
        about=frozenset(filled.waits),
    )
