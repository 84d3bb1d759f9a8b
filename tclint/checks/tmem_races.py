"""The check of tensor memory that two warps of the same lanes access with no intervening barrier (PTX ISA 9.7.16.8)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.since_barrier import unordered_threads
from tclint.analyses.tmem_by_warps import TmemReadsSince, TmemWritesSince
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import barrier_between
from tclint.findings.scales import Confidence
from tclint.isa.effects import TCGEN05_ST
from tclint.values.shared_memory import SharedAccess

TC025 = RuleId("TC025")


@check(TC025, analyses=(TmemReadsSince, TmemWritesSince))
def reused_by_another_warp(model: KernelModel) -> Iterator[Hit]:
    """Report columns that one warp stores while another warp of the same lanes may load them."""
    if not model.function.entry or not model.begins(TCGEN05_ST) or model.values.threads <= 128:
        return
    block_of = model.cfg.block_of
    found = ((block_of[meeting.use.site], meeting) for meeting in _meetings(model))
    for equivalent in grouped(found).values():
        first = next((each for each in equivalent if not each.doubt), equivalent[0])
        yield _hit(model, first, len({each.use.site for each in equivalent})).doubted(first.doubt.why)


def _meetings(model: KernelModel) -> Iterator[Conflict]:
    """Loads after stores of another warp, and stores after its loads, that no acquire point separates."""
    kinds: tuple[type[TmemReadsSince | TmemWritesSince], ...] = TmemWritesSince, TmemReadsSince
    for kind in kinds:
        since, results = model.solution(kind)
        starts = since.together(results)
        if starts:
            yield from _meetings_of(model, since, starts)


def _meetings_of(
    model: KernelModel, since: TmemReadsSince | TmemWritesSince, starts: frozenset[int]
) -> OverlapSearch:
    """The search for conflicts with the accesses *starts*."""

    def overlap(first: SharedAccess, second: SharedAccess, route: Route) -> bool:
        here, there = (model.views.context_of(access.site).threads for access in (first, second))
        pairs = unordered_threads(here, there, route.path)
        return any(since.memory.across(first, second, *pair) for pair in pairs)

    return since.conflicts(starts, lambda access: access.writes is not since.writes, overlap)


def _hit(model: KernelModel, meeting: Conflict, count: int) -> Hit:
    first, second = meeting.operation, meeting.use
    verbs = ("stores", "loads") if first.writes else ("loads", "stores to")
    verb, why = ("overwrites", "loading") if second.writes else ("loads", "storing to")
    return TC025.hit(
        site=second.site,
        message=f"{model.name(second.site)} {verb} columns of Tensor Memory that another warp of the same lanes may still be {why}: no barrier orders "
        "the two",
        steps=tuple(
            Mark(
                access.site,
                text,
                role=model.describe_threads(model.views.context_of(access.site).threads),
            )
            for access, text in (
                (first, f"one warp {verbs[0]} them"),
                (second, f"a warp of the same rank in another warpgroup {verbs[1]} the same columns"),
            )
        ),
        count=count,
        help="add a barrier that both warps execute (bar.sync) between the two, after the tcgen05.wait of the first",
        fixes=barrier_between(model, first.site, second.site),
        confidence=None if model.function.threads else Confidence.MEDIUM,
    )
