"""The check of shared memory that several warps access with no intervening barrier (PTX ISA 8.5, 9.7.13.1).

Each part has one question:

- :mod:`~tclint.analyses.warp_memory`: which bytes do threads of different warps have in common?
- :mod:`~tclint.analyses.since_barrier`: which accesses has no synchronisation followed yet?
- :mod:`~tclint.analyses.data_indices`, :mod:`~tclint.analyses.lookups`: the same, where the data select the element;
- :mod:`~tclint.analyses.unchanging_stores`: does a store change what another thread reads?
- :mod:`~tclint.analyses.warp_races`: which two accesses race, by these, and why may they not?
- :mod:`~tclint.analyses.parted_threads`: which two accesses does no thread make both of?
- :mod:`~tclint.analyses.cta_shapes`: do they race in every shape that the CTA may have, whatever a launch passes?

Here, the races that one missing barrier explains become one finding. What the lanes of a warp do to each other is left
to :mod:`.lane_races`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, product

from tclint.analyses.cta_shapes import ShapedConflict, in_all_launches, undoubted_races
from tclint.analyses.data_indices import SharedByData
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.extents import Extent, Extents
from tclint.analyses.lookups import Lookup
from tclint.analyses.model import KernelModel
from tclint.analyses.warp_memory import atomic, volatile
from tclint.analyses.warp_races import race_doubt, warp_races
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._causes import by_place
from tclint.checks._repairs import barrier_between
from tclint.checks._wording import if_repeated, of_warps, only_if
from tclint.findings.scales import Confidence, Severity

SM001 = RuleId("SM001")


@check(SM001, analyses=(ExecutionGuarantee, Extents, SharedByData))
def reused_without_barrier(model: KernelModel) -> Iterator[Hit]:
    """Report shared memory that two warps access, at least one of them writing, with no intervening barrier."""
    if model.values.threads <= 32 or not model.function.entry or not model.shared.writers:
        return
    direct = warp_races(model) if model.values.shape is not None else ()
    races = ((each.conflict, each) for each in in_all_launches(model, direct, undoubted_races))
    for equivalent in chain.from_iterable(
        _alike(model, some) for some in by_place(model.cfg.block_of, races)
    ):
        doubts = ((each, race_doubt(each.model, each.conflict)) for each in equivalent)
        first = next(doubts)
        shown, doubt = next((each for each in chain((first,), doubts) if not each[1]), first)
        pairs = tuple(each.conflict.sites for each in equivalent)
        uses = {use for _, use in pairs}
        fixes = barrier_between(model, shown.conflict.operation.site, min(uses))
        about = frozenset(chain.from_iterable(pairs))
        hit = replace(_hit(model, shown), count=len(uses), pairs=pairs, about=about, fixes=fixes)
        yield hit.doubted(doubt.why)


def _alike(model: KernelModel, found: list[ShapedConflict]) -> Iterable[list[ShapedConflict]]:
    """The parts of *found* that differ in the kind of race, and have no bytes in common.

    Where one barrier could order two buffers, it is missing once if both are written and then read, and twice if one is read too
    early and the other one overwritten too early.
    """
    extents, parts = model.fact(Extents), list[tuple[set[Extent | None], list[ShapedConflict]]]()
    kinds = grouped(((each.conflict.operation.writes, each.conflict.use.writes), each) for each in found)
    for conflicts in kinds.values():
        uses = {each.conflict.use.site for each in conflicts}
        used = {extents.of(access) for use in uses for access in model.shared.accesses(use)}
        apart = list[tuple[set[Extent | None], list[ShapedConflict]]]()
        for other, before in parts:
            if any(a is None or b is None or extents.may_overlap(a, b) for a, b in product(used, other)):
                used, conflicts = used | other, [*before, *conflicts]
            else:
                apart.append((other, before))
        parts = [*apart, (used, conflicts)]
    return (conflicts for _, conflicts in parts)


def _hit(model: KernelModel, found: ShapedConflict) -> Hit:
    """The finding about a conflict in *model*, without what others have the same cause."""
    shaped, meeting = found.model, found.conflict
    first, second = meeting.operation, meeting.use
    before = "writes" if first.writes else "reads"
    verb = "overwrites" if second.writes else "reads"
    only_some = (
        ""
        if isinstance(meeting.path.state, bool)
        else "; a barrier on the path is not for all of these warps"
    )
    why = "may still be writing" if first.writes else "may still be reading"
    sites = first.site, second.site
    contended = any(atomic(model, site) or volatile(model, site) for site in sites)
    indexed = not shaped.fact(SharedByData).indexed.isdisjoint(sites)
    selected = any(map(shaped.fact(SharedByData).selected, (first, second)))
    data = ", if the data select the same element" * indexed or (
        ", if the data select a thread of another warp" * selected
    )
    repeated = if_repeated(model, meeting.path) if second.later else ""
    condition = " and ".join(filter(None, (repeated, found.condition)))
    assumed = (
        contended
        or bool(shaped.function.arguments)
        or indexed
        or selected
        or isinstance(meeting, Lookup)
        or any(map(model.fact(ExecutionGuarantee).by_stride, sites))
    )
    return SM001.hit(
        site=second.site,
        message=f"{model.name(second.site)} {verb} shared memory that another warp {why}{data}{only_if(condition)}: no barrier orders the two{only_some}",
        steps=(
            Mark(
                first.site,
                f"one warp {before} it",
                role=of_warps(shaped, first.site),
            ),
            Mark(
                second.site,
                f"another warp {verb} the same bytes",
                role=of_warps(shaped, second.site),
            ),
        ),
        help="add a barrier that both warps execute (bar.sync, __syncthreads()) between the two",
        severity=Severity.ERROR if second.later else None,
        condition=condition,
        confidence=Confidence.MEDIUM if assumed or not model.function.threads else None,
    )
