"""Asynchronous operations of each group: their issue, commits and waits (PTX ISA 9.7.9.25, 9.7.15, 9.7.16)."""

from __future__ import annotations

from collections.abc import Sequence

from tclint.isa.effects import BULK, TCGEN05, WGMMA
from tclint.replay.abstract_lanes import Lanes
from tclint.replay.instructions.copies import copy, copy_out
from tclint.replay.instructions.matrix import multiply, warpgroups
from tclint.replay.instructions.mbarriers import by_operands, ctas_of, signalled
from tclint.replay.machine import Overrun, ReplayMachine, executes
from tclint.replay.reasons import NotReplayed
from tclint.replay.scheduler import Unresolved
from tclint.replay.steps import ReplayStep, Sync
from tclint.replay.sync import PendingTransfer
from tclint.replay.thread_groups import Stuck, ThreadGroup
from tclint.replay.vector_clocks import join, join_warps
from tclint.sync.operations import completed

__all__: list[str] = []


@executes(Sync.BEGIN)
def _issue(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    kind = step.instruction.group
    if kind == "mbarrier":
        copy(machine, group, step, positions)
    elif kind == BULK:
        copy_out(machine, group, step, positions, where)
    else:
        machine.epochs.end(group)
        for who in warpgroups(group, positions) if kind == WGMMA else (positions,):
            multiply(machine, group, step, who)


@executes(Sync.COMMIT)
def _commit(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    kind = step.instruction.group
    issued = machine.operations.issued(kind, group, positions)
    if kind != TCGEN05:
        group.committed = {**group.committed, kind: (*group.committed.get(kind, ()), issued)}
    else:
        machine.epochs.end(group)
        clock = join(machine.epochs.release_clock(group, positions), issued)
        address, ctas = machine.operand(group, step.instruction.mbarrier), ctas_of(machine, group, step)
        for (at, mask), who in by_operands(step, positions, address, ctas).items():
            threads = len(who)
            for mbarrier in signalled(machine, step, at, mask):
                transfer = PendingTransfer(clock, arrivals=threads, site=step.site, threads=group.threads)
                mbarrier.transfers.append(transfer)
                if threads > mbarrier.count:  # in any order
                    raise Overrun(Stuck(step.site, group.threads, mbarrier))


@executes(Sync.WAIT)
def _wait(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    left, kind = step.instruction.groups_left, step.instruction.group
    if left is None:
        raise Unresolved(step.site, NotReplayed.UNKNOWN_OPERAND)
    committed = group.committed.get(kind, ())
    if count := completed(len(committed), left):
        closed = count <= len(committed)
        awaited = committed[count - 1] if closed else machine.operations.issued(kind, group, positions)
        group.clock = join_warps(group.clock, machine.operations.completed_clocks(group, positions, awaited))
