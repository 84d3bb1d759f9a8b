"""Tensor memory: loads and stores, and its allocation (PTX ISA 9.7.16.7, 9.7.16.8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from tclint.isa.effects import TCGEN05_ST
from tclint.replay.abstract_lanes import Lanes
from tclint.replay.machine import Machine, executes, executes_data
from tclint.replay.steps import Step
from tclint.replay.thread_groups import ThreadGroup
from tclint.replay.vector_clocks import Agent, Clock

__all__ = ["record_tensor"]

_COLUMN = (1 << 21) - 1
"""The part of a tensor-memory address that is the column. Each warp has 32 lanes of its own (9.7.16.8.1)."""


@executes_data("tensor")
def _tensor(machine: Machine, group: ThreadGroup, step: Step, where: Lanes) -> None:
    """A load or a store of tensor memory, in the lanes of each warp (9.7.16.8.1)."""
    instruction, followed = step.instruction, machine.program.sliced_registers
    for register in instruction.writes:
        if register in followed:
            machine.assign(group, register, None)
    address = machine.role(group, step, "taddr")
    writes = instruction.group == TCGEN05_ST
    if address is None or (writes and where != 1):
        return
    # Whole warps execute it.
    columns = address[::32] if isinstance(address, tuple) else repeat(address)
    clocks = repeat(group.clock) if isinstance(group.clock, int) else group.clock
    found: dict[tuple[int, int, Clock], list[int]] = {}
    for warp, column, clock in zip(group.warps, columns, clocks, strict=False):
        if column is not None:
            found.setdefault((warp % machine.program.warps, column & _COLUMN, clock), []).append(warp)
    for (lanes, column, clock), warps in found.items():
        agent, known = machine.epochs.access(group, warps, clock)
        locations = [(group.cta, lanes)]
        record_tensor(
            machine, group, step, "taddr", column, locations, agent, machine.epochs.time, known, writes
        )


@executes("tmem-alloc")
def _tmem_alloc(
    machine: Machine, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
) -> None:
    address, columns = machine.role(group, step, "destination"), machine.role(group, step, "columns")
    if isinstance(address, int):
        start = machine.columns.get(group.cta, 0)
        machine.memory.store(address, start, 4)
        machine.columns[group.cta] = start + (columns if isinstance(columns, int) else 0)


def record_tensor(
    machine: Machine,
    group: ThreadGroup,
    step: Step,
    role: str,
    address: int,
    locations: Iterable[tuple[int, int]],
    agent: Agent,
    number: int,
    clock: Clock,
    writes: bool,
) -> None:
    """Records an access to tensor memory at *locations*: a CTA and a quarter of the lanes each."""
    size = machine.program.columns.get((step.site, role))
    for cta, lanes in locations if size is not None else ():
        location = cta, address & _COLUMN
        machine.record(
            group, step.site, location, agent, number, clock, writes, size, box=step.site, lanes=lanes
        )
