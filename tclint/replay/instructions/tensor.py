"""Tensor memory: loads and stores, and its allocation (PTX ISA 9.7.16.7, 9.7.16.8)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from tclint.isa.effects import TCGEN05_ST, Resource
from tclint.replay.abstract_lanes import Lanes
from tclint.replay.accesses import ReplayAccess
from tclint.replay.machine import ReplayMachine, executes, executes_data
from tclint.replay.steps import ReplayStep
from tclint.replay.thread_groups import ThreadGroup
from tclint.replay.vector_clocks import Clock

__all__ = ["COLUMN"]

COLUMN = (1 << 21) - 1
"""The part of a tensor-memory address that is the column. Each warp has 32 lanes of its own (9.7.16.8.1)."""


@executes_data("tensor")
def _tensor(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    """A load or a store of tensor memory, in the lanes of each warp (9.7.16.8.1)."""
    instruction, followed = step.instruction, machine.program.sliced_registers
    for register in instruction.writes:
        if register in followed:
            machine.assign(group, register, None)
    address = machine.role(group, step, "taddr")
    writes = instruction.group == TCGEN05_ST
    if address is None or (writes and where != 1):
        return
    size = machine.program.columns.get((step.site, "taddr"))
    # Whole warps execute it.
    columns = address[::32] if isinstance(address, tuple) else repeat(address)
    clocks = repeat(group.clock) if isinstance(group.clock, int) else group.clock
    found: dict[tuple[int, int, Clock], list[int]] = {}
    for warp, column, clock in zip(group.warps, columns, clocks, strict=False):
        if column is not None:
            found.setdefault((warp % machine.program.warps, column & COLUMN, clock), []).append(warp)
    for (lanes, column, clock), warps in found.items():
        agent, known = machine.epochs.access(group, warps, clock)
        if size is not None:
            machine.record(
                ReplayAccess(
                    step.site, writes, (group.cta, lanes), column, size, agent, machine.epochs.time, known,
                    group, group.waited, box=step.site,
                )
            )  # fmt: skip


@executes(Resource.TMEM_ALLOC)
def _tmem_alloc(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    address, columns = machine.role(group, step, "destination"), machine.role(group, step, "columns")
    if isinstance(address, int):
        start = machine.columns.get(group.cta, 0)
        machine.memory.store(address, start, 4)
        machine.columns[group.cta] = start + (columns if isinstance(columns, int) else 0)
