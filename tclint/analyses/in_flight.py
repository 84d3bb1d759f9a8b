"""What may be in flight if nothing but a wait of the issuing thread completes it (PTX ISA 9.7.9.25.3, 9.7.15.7, 9.7.16.6.4).

The analyses of :mod:`tclint.analyses.groups` end a fact where the values of predicates exclude a path, because a finding
needs a path that is feasible. A statement that *nothing* is in flight needs the opposite: here a branch, a dispatcher of
roles and a guard end no fact.
"""

from __future__ import annotations

from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.dataflow.solver import Analysis
from tclint.ir.nodes import Instruction
from tclint.isa.effects import BULK, CP_ASYNC, TCGEN05_LD, TCGEN05_ST, WGMMA

__all__ = ["ALL", "GROUPS", "OPEN", "UNCLEAR", "InFlight", "Operation", "depth", "waits_for_sources"]

GROUPS = (WGMMA, CP_ASYNC, BULK, TCGEN05_LD, TCGEN05_ST)
"""The groups of operations that the issuing thread waits for itself."""
OPEN = -1
"""The age of an operation that is not committed. Loads and stores of tensor memory have no other age."""
ALL, UNCLEAR = -1, -2
"""The depth of a wait for all operations, committed or not, and of one that is not known to wait for any."""


class Operation(NamedTuple):
    """An operation that may be in flight, or a group that may be."""

    site: int
    age: int
    read: bool = False
    """Whether a bulk copy has read its source, so that only its result is pending."""


State = frozenset[Operation]


def depth(wait: Instruction) -> int:
    """The groups that *wait* may leave pending; :data:`ALL` or :data:`UNCLEAR`."""
    match = wait.match
    if match is None or match.problem or any("sync_restrict" in modifier for modifier in match.modifiers):
        return UNCLEAR
    if "depth" not in match.form.roles:
        return ALL
    left = wait.groups_left
    return UNCLEAR if left is None else left


def waits_for_sources(wait: Instruction) -> bool:
    """Whether *wait* is for the sources of bulk copies alone."""
    return wait.match is not None and wait.match.form.completion == "read"


class InFlight(Analysis[State]):
    """The operations of all :data:`GROUPS` that may be in flight, with every age that they may have.

    A kernel is taken to begin without any. What a function that is not inlined leaves in flight is not followed. A commit
    counts as an operation of its group, which may be empty: ``ptxas`` inserts a wait for an empty group of ``wgmma`` where
    there is none (C7517), and kernels that change tensor maps commit a bulk group for copies that belong to none.
    """

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        self.instructions = model.function.instructions
        self.oldest = 1 + max((depth(self.instructions[i]) for i in model.waits()), default=0)
        """The age at which ages saturate, which every wait completes."""

    def boundary(self) -> State:
        return frozenset()

    def bottom(self) -> State:
        return frozenset()

    def join(self, a: State, b: State) -> State:
        return a | b

    def affecting(self, instruction: Instruction) -> bool:
        return instruction.group in GROUPS and (
            instruction.effects.begins is not None
            or instruction.effects.commits is not None
            or instruction.effects.waits is not None
        )

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        if instruction.effects.begins is not None:
            return state | {Operation(at, OPEN)}
        mine = frozenset(o for o in state if self.instructions[o.site].group == instruction.group)
        if instruction.effects.commits is not None:
            older = {o._replace(age=min(o.age + 1, self.oldest)) for o in mine}
            return (state - mine) | older | {Operation(at, 0)}
        completed = frozenset(o for o in mine if _completes(instruction, o))
        read = {o._replace(read=True) for o in completed} if waits_for_sources(instruction) else set()
        return (state - completed) | read

    def waited_for(self, state: State, wait: Instruction) -> frozenset[Operation]:
        """The operations that *wait* completes, given what may be in flight before it, and those not yet committed."""
        return frozenset(
            o
            for o in state
            if self.instructions[o.site].group == wait.group
            and (o.age == OPEN or _completes(wait, o))
            and not (o.read and waits_for_sources(wait))
        )


def _completes(wait: Instruction, operation: Operation) -> bool:
    groups = depth(wait)
    return groups == ALL or 0 <= groups <= operation.age
