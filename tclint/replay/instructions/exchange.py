"""What the lanes of a warp exchange: elections, shuffles, votes, matches and reductions (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from collections.abc import Sequence

from tclint.ir.nodes import OperandPair
from tclint.isa.effects import Exchange
from tclint.isa.lane_exchange import match_result, reduced, vote_result
from tclint.replay.abstract_lanes import Lanes, broadcast, collapse
from tclint.replay.lane_exchange import elected_lanes, shuffle_sources
from tclint.replay.machine import ReplayMachine, executes
from tclint.replay.reasons import NotReplayed
from tclint.replay.scheduler import Unresolved
from tclint.replay.steps import ReplayStep
from tclint.replay.sync import ReplayBarrier
from tclint.replay.thread_groups import Stuck, ThreadGroup

__all__: list[str] = []


@executes(Exchange.ELECT)
def _elect(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> bool:
    """The lowest lane of the mask, in each warp (9.7.13.14)."""
    destination = step.instruction.operands[0]
    mask = machine.operand(group, step.instruction.operands[1])
    if not isinstance(mask, int):
        raise Unresolved(step.site, NotReplayed.UNKNOWN_MASK)
    key = group.threads, group.threads_at(positions), mask
    if key not in machine.elected:
        machine.elected[key] = elected_lanes(*key, machine.launch.shape.threads)
    elected = machine.elected[key]
    if elected is None:
        return _await_lanes(machine, group, step, mask)
    if isinstance(destination, OperandPair):
        for register, value in zip(destination, elected, strict=True):
            if isinstance(register, int):
                machine.assign(group, register, value, where)
    return True


def _await_lanes(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, mask: int) -> bool:
    """Blocks until the missing lanes of *mask* arrive (9.7.13.14)."""
    warps = {thread >> 5 for thread in group.threads}
    away = {w * 32 + lane for w in warps for lane in range(32) if mask >> lane & 1}.difference(group.threads)

    def arrived() -> bool:
        others = [g for g in machine.living() if g.cta == group.cta and not away.isdisjoint(g.threads)]
        alive = away.issubset(t for g in others for t in g.threads)
        if not alive or any(g.stuck is not None and g.stuck.site == step.site for g in others):
            raise Unresolved(step.site, NotReplayed.LANES_ELSEWHERE)
        return False

    group.stuck = Stuck(step.site, group.threads, ReplayBarrier())
    group.waits = arrived
    return arrived()


@executes(Exchange.SHUFFLE)
def _shuffle(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    instruction, match = step.instruction, step.instruction.match
    assert match is not None
    source, *lanes = (machine.operand(group, o) for o in instruction.operands[1:4])
    destination = instruction.operands[0]
    value: Lanes = source if isinstance(source, int) else None
    inside: Lanes = None
    if (
        where == 1
        and None not in lanes
        and (isinstance(source, tuple) or isinstance(destination, OperandPair))
    ):
        key = match.modifiers, group.threads, *lanes
        if key not in machine.program.plans.shuffles:
            machine.program.plans.shuffles[key] = shuffle_sources(match, group.threads, lanes)
        inside, froms = machine.program.plans.shuffles[key]
        if isinstance(source, tuple):
            value = collapse([None if p is None else source[p] for p in froms])
    if isinstance(destination, OperandPair):
        if isinstance(destination.second, int):
            machine.assign(group, destination.second, inside, where)
        destination = destination.first
    if isinstance(destination, int):
        machine.assign(group, destination, value, where)


@executes(Exchange.VOTE)
def _vote(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    instruction, match = step.instruction, step.instruction.match
    assert match is not None
    source = machine.operand(group, instruction.operands[1])
    value: Lanes = None
    if source is not None:
        answers = {warp: vote_result(match, lanes) for warp, lanes in _by_warp(group, source).items()}
        value = collapse([answers[t >> 5] for t in group.threads])
    for register in instruction.writes:
        machine.assign(group, register, value, where)


@executes(Exchange.MATCH)
def _match(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    instruction, match = step.instruction, step.instruction.match
    assert match is not None
    source, mask = machine.role(group, step, "source"), machine.role(group, step, "mask")
    found: list[tuple[int | None, int | None]] = [(None, None)] * len(group.threads)
    if where == 1 and source is not None and isinstance(mask, int):
        answers = {warp: match_result(match, lanes, mask) for warp, lanes in _by_warp(group, source).items()}
        found = [(answers[t >> 5] or {}).get(t & 31, (None, None)) for t in group.threads]
    destination = instruction.operands[0]
    both = destination if isinstance(destination, OperandPair) else (destination,)
    for register, value in zip(both, zip(*found, strict=True), strict=False):
        if isinstance(register, int):
            machine.assign(group, register, collapse(value), where)


@executes(Exchange.REDUCTION)
def _redux(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    match = step.instruction.match
    assert match is not None
    source, mask = machine.role(group, step, "source"), machine.role(group, step, "mask")
    value: Lanes = None
    if where == 1 and source is not None and isinstance(mask, int):
        answers = {warp: reduced(match, lanes, mask) for warp, lanes in _by_warp(group, source).items()}
        value = collapse([answers[t >> 5] for t in group.threads])
    for register in step.instruction.writes:
        machine.assign(group, register, value, where)


@executes("activemask")
def _activemask(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    active: dict[int, int] = {}
    for thread in group.threads_at(positions):
        active[thread >> 5] = active.get(thread >> 5, 0) | 1 << (thread & 31)
    for register in step.instruction.writes:
        machine.assign(group, register, collapse([active.get(t >> 5, 0) for t in group.threads]), where)


def _by_warp(group: ThreadGroup, value: Lanes) -> dict[int, dict[int, int | None]]:
    """The value of each lane of each warp of a group."""
    warps: dict[int, dict[int, int | None]] = {}
    for thread, own in zip(group.threads, broadcast(value, len(group.threads)), strict=True):
        warps.setdefault(thread >> 5, {})[thread & 31] = own
    return warps
