"""Shared memory overwritten while a tensor core may read it through a descriptor (PTX ISA 9.7.15.5.2, 9.7.16.6.5).

Only writes by threads that follow the same path as the issuing thread: its warpgroup for wgmma, its CTA for tcgen05.
``refills.py`` decides the same rules between roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from tclint.analyses.ages import Numbering
from tclint.analyses.groups import WgmmaGroups
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.tcgen05 import ISSUED, OperationsState, Outstanding
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._pending import PendingReason
from tclint.ir.nodes import Instruction
from tclint.isa.effects import TCGEN05, WGMMA, Engine
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedAccess

TC012 = RuleId("TC012")
WG011 = RuleId("WG011")


def _operations(model: KernelModel, group: Engine) -> frozenset[int]:
    """The operations of *group* whose threads may also write shared memory."""
    operations = model.begins(group)
    if not operations:
        return frozenset()
    reach, block_of = model.reachability.threads_at, model.cfg.block_of
    writing = 0
    for block in {block_of[i] for i in model.shared.writers}:
        writing |= reach.get(block, 0)
    return frozenset(i for i in operations if model.views.context_of(i).threads & writing)


def _writes(access: SharedAccess) -> bool:
    return access.writes


def _overlaps(model: KernelModel, size: int, operand: SharedAccess, use: SharedAccess, route: Route) -> bool:
    """Whether threads in the group of *size* threads that issues the operation provably write bytes that it reads."""
    together = T.whole(route.path.threads, size)
    issuers, writers = (together & model.views.context_of(a.site).threads for a in (operand, use))
    return model.shared.overlap(operand, use, issuers, writers)


@check(WG011, analyses=(ObjectNames, WgmmaGroups))
def wgmma_operand_overwritten(model: KernelModel) -> Iterator[Hit]:
    """Shared memory written while a wgmma of the same warpgroup may still read it as a matrix."""
    operations = _operations(model, WGMMA)
    if not operations:
        return
    groups, results = model.solution(WgmmaGroups)
    conflicts = OverlapSearch(
        model,
        results,
        groups,
        operations,
        _writes,
        partial(_overlaps, model, 128),
    )
    for conflict, equivalent in _folded(model, conflicts):
        operation, age = conflict.operation.site, conflict.path.state
        reason = PendingReason.of(groups, conflict.path, operation, age)
        yield replace(
            _hit(WG011, model, conflict, equivalent, "wgmma.mma_async", reason),
            about=frozenset((operation if reason.wait is None else reason.wait,)),
            missing_before=age >= 0 and reason.wait is None,
        )


class _Unfinished:
    """Operations until the thread has waited for them; another one may wait and notify it, so none is sure to last."""

    def __init__(self, tmem: Outstanding, operations: Iterable[int]) -> None:
        self.tmem, self.numbering = tmem, Numbering(operations)

    def pending(self, state: OperationsState) -> int:
        return self.numbering.bits(site for site, _ in state)

    def stays_pending(self, state: OperationsState, site: int) -> bool:
        return False

    def begun(self, site: int) -> OperationsState:
        return self.tmem.issued(site)

    def follow(
        self, site: int, state: OperationsState, at: int, instruction: Instruction
    ) -> OperationsState | None:
        return state if at == site else self.tmem.follow(site, state, at, instruction)


@check(TC012, analyses=(ObjectNames, Outstanding))
def tcgen05_operand_overwritten(model: KernelModel) -> Iterator[Hit]:
    """Shared memory written while a tcgen05.mma or tcgen05.cp of the thread may still read it."""
    operations = _operations(model, TCGEN05)
    if not operations:
        return
    tmem, results = model.solution(Outstanding)
    conflicts = OverlapSearch(
        model,
        results,
        _Unfinished(tmem, operations),
        operations,
        _writes,
        partial(_overlaps, model, 1024),
    )
    for conflict, equivalent in _folded(model, conflicts):
        name = model.name(conflict.operation.site)
        committed = sorted({status - 1 for _, status in conflict.path.state if status != ISSUED})
        steps = tuple(Mark(commit, "committed here") for commit in committed[:1])
        if committed:
            why = "it was committed, but with no intervening wait for the mbarrier"
            remedy = "wait for the mbarrier of its commit"
        else:
            why, remedy = "it was not committed", "commit it to an mbarrier and wait for that"
        reason = PendingReason(why, f"{remedy} (mbarrier.try_wait) before this instruction", steps, None)
        hit = _hit(TC012, model, conflict, equivalent, name, reason)
        yield replace(hit, about=tmem.pending_causes((m.operation.site, m.path) for m in equivalent))


def _folded(model: KernelModel, conflicts: OverlapSearch) -> Iterator[tuple[Conflict, list[Conflict]]]:
    """The first conflict of each block that writes, and all its conflicts.

    A missing wait causes a conflict at every write of a block, so these are reported together.
    """
    block_of = model.cfg.block_of
    for equivalent in grouped((block_of[conflict.use.site], conflict) for conflict in conflicts).values():
        yield equivalent[0], equivalent


def _hit(
    rule: RuleId,
    model: KernelModel,
    conflict: Conflict,
    equivalent: list[Conflict],
    name: str,
    reason: PendingReason,
) -> Hit:
    site, use = conflict.operation.site, conflict.use.site
    verb = "starts to overwrite" if conflict.use.later else "overwrites"
    role = model.describe_threads(conflict.path.threads)
    matrices = model.fact(ObjectNames).accessed(site, writes=False)
    return rule.hit(
        site=use,
        message=f"{model.name(use)} {verb} shared memory that {name} may still read as an operand: {reason.why}",
        steps=(
            Mark(site, "starts to read these bytes through a descriptor", role=role, object=matrices),
            *reason.steps,
            Mark(use, f"{verb} the same bytes", role=role),
        ),
        count=len({each.use.site for each in equivalent}),
        pairs=tuple(each.sites for each in equivalent),
        help=reason.remedy,
        fixes=reason.fixes,
        confidence=model.confidence(conflict.path, site)
        or model.size_confidence(conflict.operation, conflict.use, *[conflict.path.threads] * 2),
    )
