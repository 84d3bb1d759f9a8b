"""Matrix operations (PTX ISA 9.7.15, 9.7.16.10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tclint.ir.nodes import Memory
from tclint.isa.accesses import Via
from tclint.replay.accesses import SHARED, ReplayAccess
from tclint.replay.instructions.tensor import COLUMN
from tclint.replay.machine import ReplayMachine
from tclint.replay.steps import ReplayStep
from tclint.replay.thread_groups import ThreadGroup
from tclint.replay.vector_clocks import Agent, Clock

__all__ = ["multiply", "warpgroups"]

_DESCRIPTOR = (1 << 14) - 1
"""The part of a matrix descriptor that is the start address, in units of 16 bytes (9.7.15.5.1.2.2, 9.7.16.4.1)."""
_BEYOND = 0b11 << 14
"""Bits after it, which are 0. An address that does not fit sets them, in a kernel that asks for more shared memory than a
CTA can have; the matrix that it names instead is not where the kernel put one."""


def multiply(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int]) -> None:
    """A multiplication that the threads at *positions* issue together."""
    kind = step.instruction.group
    agent, number, clock = machine.operations.begin(kind, group, positions)
    for start in _matrix_addresses(machine, group, step):
        machine.record(
            ReplayAccess(
                step.site, False, (group.cta, SHARED), start, None, agent, number, clock, group, group.waited
            )
        )
    if kind == "tcgen05":
        _access_tensor_memory(machine, group, step, agent, number, clock)
    else:
        # All four warps issue it together, and it is complete only after each has.
        machine.operations.precede(agent, number, clock)


def _access_tensor_memory(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, agent: Agent, number: int, clock: Clock
) -> None:
    """The accesses to tensor memory: A is read, D is written, and read before if it is accumulated (9.7.16.10.7)."""
    ctas = (
        (group.cta, group.cta ^ 1)
        if step.instruction.match and step.instruction.match.of_pair
        else (group.cta,)
    )
    memories = [(cta, lanes) for cta in ctas for lanes in range(machine.program.warps)]
    adds = machine.program.warps > 1 and machine.role(group, step, "enable") == 1
    for role, writes in (("a", False), *((("d", False),) if adds else ()), ("d", True)):
        operand = step.instruction.role(role)
        address = machine.operand(group, operand) if isinstance(operand, Memory) else None
        size = machine.program.columns.get((step.site, role))
        if isinstance(address, int) and size is not None:
            for memory in memories:
                machine.record(
                    ReplayAccess(
                        step.site, writes, memory, address & COLUMN, size, agent, number, clock, group,
                        group.waited, box=step.site,
                    )
                )  # fmt: skip


def _matrix_addresses(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep) -> Iterable[int]:
    """The start addresses of the matrices in shared memory."""
    for access in step.instruction.accesses:
        operand = step.instruction.named(access.operand) if access.via is Via.DESCRIPTOR else None
        value = machine.operand(group, operand) if operand is not None else None
        if isinstance(value, int) and not value & _BEYOND:
            yield (value & _DESCRIPTOR) * 16


def warpgroups(group: ThreadGroup, positions: Sequence[int]) -> Iterable[Sequence[int]]:
    """The positions of each warpgroup, which multiplies matrices of its own (9.7.15)."""
    threads, found = group.threads, dict[int, list[int]]()
    if threads[positions[0]] >> 7 == threads[positions[-1]] >> 7:
        return (positions,)
    for position in positions:
        found.setdefault(threads[position] >> 7, []).append(position)
    return found.values()
