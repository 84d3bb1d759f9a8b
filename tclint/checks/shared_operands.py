"""Checks of shared memory that a tensor core still reads through a descriptor (PTX ISA 9.7.15.5.2, 9.7.16.6.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tclint.analyses.groups import OPEN, WgmmaGroups
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.tcgen05 import ISSUED, Outstanding
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._pending import PendingReason
from tclint.values import thread_masks as T
from tclint.values.shared_memory import Access

TC012 = RuleId("TC012")
WG011 = RuleId("WG011")


def _operations(model: KernelModel, group: str) -> frozenset[int]:
    """The operations whose threads may also write shared memory: a role that only multiplies overwrites nothing."""
    operations = model.sites("issue", group)
    if not operations:
        return frozenset()
    reach, block_of = model.reachability.threads_at, model.cfg.block_of
    writing = 0
    for block in {block_of[i] for i in model.shared.writers}:
        writing |= reach.get(block, 0)
    return frozenset(i for i in operations if model.views.context_of(i).threads & writing)


def _writes(access: Access) -> bool:
    return access.writes


def _meet(model: KernelModel, size: int, operand: Access, use: Access, route: Route) -> bool:
    """Whether threads that go with the issuing one, *size* of them, write bytes that the operation reads."""
    together = T.whole(route.path.threads, size)
    issuers, writers = (together & model.views.context_of(a.site).threads for a in (operand, use))
    return model.shared.overlap(operand, use, issuers, writers)


@check(WG011, needs="wgmma", analyses=(WgmmaGroups,))
def wgmma_operand_overwritten(model: KernelModel) -> Iterator[Hit]:
    """Shared memory written while a wgmma of the same warpgroup may still read it as a matrix."""
    operations = _operations(model, "wgmma")
    if not operations:
        return
    groups, results = model.solution(WgmmaGroups)
    meetings = OverlapSearch(
        model,
        results,
        operations,
        lambda state: (s for s, _ in state[0]),
        groups.lasting,
        lambda site: OPEN,
        groups.follow,
        _writes,
        partial(_meet, model, 128),
    )
    for meeting, uses, _ in _folded(model, meetings):
        operation, age = meeting.operation.site, meeting.path.state
        flight = PendingReason.of(model, groups, meeting.path, operation, age)
        yield replace(
            _hit(WG011, model, meeting, uses, "wgmma.mma_async", flight),
            about=frozenset((operation if flight.wait is None else flight.wait,)),
            before_it=age >= 0 and flight.wait is None,
        )


@check(TC012, needs="tcgen05", analyses=(Outstanding,))
def tcgen05_operand_overwritten(model: KernelModel) -> Iterator[Hit]:
    """Shared memory written while a tcgen05.mma or tcgen05.cp of the thread may still read it."""
    operations = _operations(model, "tcgen05")
    if not operations:
        return
    tmem, results = model.solution(Outstanding)
    meetings = OverlapSearch(
        model,
        results,
        operations,
        lambda state: (s for s, _ in state if s in operations),
        lambda state, site: False,  # another thread may have waited, and passed the news on
        lambda site: frozenset(((site, ISSUED),)),
        lambda site, state, i, instruction: state if i == site else tmem.follow(site, state, i, instruction),
        _writes,
        partial(_meet, model, 1024),
    )
    for meeting, uses, told in _folded(model, meetings):
        name = model.name(meeting.operation.site)
        committed = any(status != ISSUED for _, status in meeting.path.state)
        why = "it was committed, and nothing waits for the mbarrier" if committed else "it was not committed"
        remedy = "commit to an mbarrier and wait for it (mbarrier.try_wait) before this instruction"
        hit = _hit(TC012, model, meeting, uses, name, PendingReason(why, remedy, (), None))
        yield replace(hit, about=tmem.untold((m.operation.site, m.path) for m in told))


def _folded(model: KernelModel, meetings: OverlapSearch) -> Iterator[tuple[Conflict, int, list[Conflict]]]:
    """One meeting for each block that writes, the number of instructions there, and all: a missing wait shows at all."""
    block_of = model.cfg.block_of
    for alike in grouped((block_of[meeting.use.site], meeting) for meeting in meetings).values():
        yield alike[0], len({meeting.use.site for meeting in alike}), alike


def _hit(
    rule: RuleId, model: KernelModel, meeting: Conflict, count: int, name: str, flight: PendingReason
) -> Hit:
    site, use = meeting.operation.site, meeting.use.site
    verb = "starts to overwrite" if meeting.use.later else "overwrites"
    role = model.describe_threads(meeting.path.threads)
    return rule.hit(
        site=use,
        message=f"{verb} shared memory that {name} may still read as a matrix: {flight.why}",
        steps=(
            Mark(site, f"{name} starts to read it through a descriptor", role=role),
            *flight.steps,
            Mark(use, f"{verb} it", role=role),
        ),
        count=count,
        help=flight.remedy,
        fixes=flight.fixes,
        confidence=model.confidence(meeting.path, site),
    )
