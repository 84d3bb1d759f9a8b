"""Checks of shared memory that a tensor core still reads through a descriptor (PTX ISA 9.7.15.5.2, 9.7.16.6.5)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tclint.analyses import threads as T
from tclint.analyses.groups import OPEN, WgmmaGroups
from tclint.analyses.meetings import Meeting, Meetings, Route
from tclint.analyses.shared_memory import Access
from tclint.analyses.tensor_memory import ISSUED, TensorMemory
from tclint.checks import Hit, Mark, check
from tclint.dataflow import solve
from tclint.model import KernelModel


def _operations(model: KernelModel, group: str) -> frozenset[int]:
    """The operations whose threads may also write shared memory: a role that only multiplies overwrites nothing."""
    operations = model.sites("issue", group)
    if not operations:
        return frozenset()
    reach, block_of = model.views.reach, model.cfg.block_of
    writing = 0
    for block in {block_of[i] for i in model.shared.writers}:
        writing |= reach.get(block, 0)
    return frozenset(i for i in operations if model.views.at(i).threads & writing)


def _writes(access: Access) -> bool:
    return access.writes


def _meet(model: KernelModel, size: int, operand: Access, use: Access, route: Route) -> bool:
    """Whether threads that go with the issuing one, *size* of them, write bytes that the operation reads."""
    together = T.whole(route.path.threads, size)
    issuers, writers = (together & model.views.at(a.site).threads for a in (operand, use))
    return model.shared.meet(operand, use, issuers, writers)


@check("WG011", needs="wgmma")
def wgmma_operand_overwritten(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Shared memory written while a wgmma of the same warpgroup may still read it as a matrix."""
    operations = _operations(model, "wgmma")
    if not operations:
        return
    groups, results = model.solved(WgmmaGroups)
    meetings = Meetings(
        model,
        results,
        operations,
        lambda state: (s for s, _ in state[0]),
        lambda site: OPEN,
        groups.follow,
        _writes,
        partial(_meet, model, 128),
    )
    for meeting, count in _folded(model, meetings):
        waits = [
            i
            for i in meeting.path.sites(model.cfg, meeting.operation.site)
            if model.instruction(i).group == "wgmma" and model.instruction(i).event == "wait"
        ]
        why = "no wgmma.wait_group completes it before"
        if waits:
            depth = groups.depth(model.instruction(waits[-1]))
            why = f"wgmma.wait_group {depth} leaves the newest {depth} groups in flight, this one among them"
        remedy = "wait for the wgmma (wgmma.commit_group, wgmma.wait_group) before this instruction"
        yield "WG011", _hit(model, meeting, count, "wgmma.mma_async", why, remedy, waits[-1:])


@check("TC012", needs="tcgen05")
def tcgen05_operand_overwritten(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Shared memory written while a tcgen05.mma or tcgen05.cp of the thread may still read it."""
    operations = _operations(model, "tcgen05")
    if not operations:
        return
    tmem = _outstanding(model)
    meetings = Meetings(
        model,
        solve(tmem, model.cfg),
        operations,
        lambda state: (s for s, _ in state if s in operations),
        lambda site: frozenset(((site, ISSUED),)),
        lambda site, state, i, instruction: state if i == site else tmem.follow(site, state, i, instruction),
        _writes,
        partial(_meet, model, 1024),
    )
    for meeting, count in _folded(model, meetings):
        name = ".".join(model.instruction(meeting.operation.site).opcode.split(".")[:2])
        committed = any(status != ISSUED for _, status in meeting.path.state)
        why = "it was committed, and nothing waits for the mbarrier" if committed else "it was not committed"
        remedy = "commit to an mbarrier and wait for it (mbarrier.try_wait) before this instruction"
        yield "TC012", _hit(model, meeting, count, name, why, remedy, [])


def _outstanding(model: KernelModel) -> TensorMemory:
    """The operations alone, each until it is known to be complete, whoever uses its result."""
    tmem = TensorMemory(model)
    tmem.loads = tmem.stores = frozenset()
    tmem.filled = {}
    tmem.compared = tmem.operations
    return tmem


def _folded(model: KernelModel, meetings: Meetings) -> Iterator[tuple[Meeting, int]]:
    """One meeting for each block that writes, and the number of instructions there: a missing wait shows at all."""
    told: dict[int, tuple[Meeting, set[int]]] = {}
    for meeting in meetings:
        block = model.cfg.block_of[meeting.use.site]
        told.setdefault(block, (meeting, set()))[1].add(meeting.use.site)
    for meeting, sites in told.values():
        yield meeting, len(sites)


def _hit(
    model: KernelModel, meeting: Meeting, count: int, name: str, why: str, remedy: str, waits: list[int]
) -> Hit:
    site, use = meeting.operation.site, meeting.use.site
    verb = "starts to overwrite" if meeting.use.later else "overwrites"
    role = T.describe(meeting.path.threads, model.values.threads)
    return Hit(
        site=use,
        message=f"{verb} shared memory that {name} may still read as a matrix: {why}",
        steps=(
            Mark(site, f"{name} starts to read it through a descriptor", role=role),
            *(Mark(i, "does not wait for it") for i in waits),
            Mark(use, f"{verb} it", role=role),
        ),
        count=count,
        help=remedy,
        confidence=model.confidence(meeting.path, site),
    )
