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
from tclint.sync.operations import OPEN, UNCLEAR, oldest, step

__all__ = ["GROUPS", "InFlight", "Operation", "depth"]

GROUPS = (WGMMA, CP_ASYNC, BULK, TCGEN05_LD, TCGEN05_ST)
"""The groups of operations that the issuing thread waits for itself."""


class Operation(NamedTuple):
    """An operation that may be in flight, or a group that may be."""

    site: int
    age: int
    read: bool = False
    """Whether a bulk copy has read its source, so that only its result is pending."""


State = frozenset[Operation]


def depth(wait: Instruction) -> int:
    """The groups that *wait* may leave pending: ``OPEN`` if it leaves nothing, ``UNCLEAR`` if it may wait for nothing."""
    match = wait.match
    if match is None or match.problem or any("sync_restrict" in modifier for modifier in match.modifiers):
        return UNCLEAR
    return wait.leaves(UNCLEAR)


class InFlight(Analysis[State]):
    """The operations of all :data:`GROUPS` that may be in flight, with every age that they may have.

    A kernel is taken to begin without any. What a function that is not inlined leaves in flight is not followed. A commit
    counts as an operation of its group, which may be empty: ``ptxas`` inserts a wait for an empty group of ``wgmma`` where
    there is none (C7517), and kernels that change tensor maps commit a bulk group for copies that belong to none.
    """

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        self.instructions = model.function.instructions
        self.left = {i: depth(self.instructions[i]) for i in model.waits()}
        """Wait -> the groups that it may leave pending."""
        self.oldest = oldest(self.left.values())
        """The age at which ages saturate."""

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
        left, effects = self.left.get(at, UNCLEAR), instruction.effects
        after = {o: step(o.age, effects, left, self.oldest, sources=True) for o in mine}
        kept = {o._replace(age=max(age, OPEN)) for o, age in after.items() if age is not None}
        if effects.commits is not None:
            kept.add(Operation(at, 0))
        elif effects.sources:
            kept |= {o._replace(read=True) for o, age in after.items() if age is None}
        return (state - mine) | kept

    def waited_for(self, state: State, wait: Instruction) -> frozenset[Operation]:
        """The operations that *wait* completes, given what may be in flight before it, and those not yet committed."""
        return frozenset(
            o
            for o in state
            if self.instructions[o.site].group == wait.group
            and (o.age == OPEN or depth(wait) <= o.age)
            and not (o.read and wait.effects.sources)
        )
