"""What may be pending if nothing but a wait of the issuing thread completes it (PTX ISA 9.7.9.25.3, 9.7.15.7, 9.7.16.6.4).

The analyses of :mod:`tclint.analyses.groups` end a fact where the values of predicates exclude a path, because a finding
needs a path that is feasible. A statement that *nothing* is pending needs the opposite, and so does a proof: here a branch,
a dispatcher of roles and a guard end no fact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tclint._named_tuple import NamedTuple
from tclint.dataflow.kernel import Kernel
from tclint.dataflow.may import May
from tclint.ir.nodes import Function, Instruction
from tclint.isa.effects import SELF_AWAITED
from tclint.sync.operations import OPEN, UNCLEAR, oldest, step

__all__ = ["InFlight", "Pending", "SourcesInFlight", "State", "Strict", "depth"]


class Pending(NamedTuple):
    """An operation that may be pending, a group that may be, or a copy of a register that an operation may still write."""

    site: int
    age: int
    copy: int = -1
    """The register that holds a copy; -1: this is about the operation itself."""
    origin: int = -1
    """The register that it is a copy of; OTHER: it may hold something else than a copy."""


State = frozenset[Pending]


def depth(wait: Instruction) -> int:
    """The groups that *wait* may leave pending: ``OPEN`` if it leaves nothing, ``UNCLEAR`` if it may wait for nothing."""
    match = wait.match
    if match is None or match.problem or match.restricted:
        return UNCLEAR
    return wait.leaves(UNCLEAR)


class Strict:
    """The operations of *groups* that may be pending after an instruction, given those that may be pending before it.

    With *sources*, an operation is complete when its sources have been read.
    """

    def __init__(
        self, function: Function, groups: Collection[str], sites: Iterable[int], *, sources: bool = False
    ) -> None:
        self.instructions, self.groups, self.sources = function.instructions, groups, sources
        mine = [i for i in sites if self.instructions[i].group in groups]
        self.begun = frozenset(i for i in mine if self.instructions[i].effects.begins is not None)
        self.left = {
            i: depth(self.instructions[i]) for i in mine if self.instructions[i].effects.waits is not None
        }
        """Wait -> the groups that it may leave pending."""
        self.oldest = oldest(self.left.values())
        """The age at which ages saturate."""
        self.affecting = frozenset(i for i, each in enumerate(self.instructions) if each.group in groups)
        """The instructions that can change a state."""

    def after(self, state: State, at: int) -> State:
        """The state after instruction *at*, whose guard may be true or false."""
        instruction = self.instructions[at]
        after = self.executed(state, at, instruction)
        return state | after if instruction.guard >= 0 else after

    def executed(self, state: State, at: int, instruction: Instruction) -> State:
        """The state after an instruction whose guard is true."""
        if at in self.begun:
            return state | {Pending(at, OPEN)}
        if not state or instruction.group not in self.groups:
            return state
        mine = [p for p in state if self.instructions[p.site].group == instruction.group]
        ages = [self.stage(p.age, at, instruction) for p in mine]
        after = {p._replace(age=age) for p, age in zip(mine, ages, strict=True) if age is not None}
        return state.difference(mine) | after

    def stage(self, age: int, at: int, instruction: Instruction) -> int | None:
        """What an instruction of its group makes of the *age* of an operation; None if it completes the operation.

        Open operations are not distinguished by whether a wait has followed.
        """
        left = self.left.get(at, UNCLEAR)
        after = step(age, instruction.effects, left, self.oldest, sources=self.sources)
        return None if after is None else max(after, OPEN)


class InFlight(May[Pending]):
    """The operations that may be in flight and that their thread waits for, with every age that they may have.

    A kernel is taken to begin without any. What a function that is not inlined leaves in flight is not followed. A commit
    counts as an operation of its group, which may be empty: ``ptxas`` inserts a wait for an empty group of ``wgmma`` where
    there is none (C7517), and kernels that change tensor maps commit a bulk group for copies that belong to none.
    """

    until_read = False
    """Whether an operation is complete when its sources have been read."""

    def __init__(self, model: Kernel) -> None:
        self.instructions = model.function.instructions
        sites = range(len(self.instructions))
        self.strict = Strict(model.function, SELF_AWAITED, sites, sources=self.until_read)
        super().__init__(self.strict.affecting, self._executed)

    def _executed(self, state: State, at: int, instruction: Instruction) -> State:
        after = self.strict.executed(state, at, instruction)
        return after | {Pending(at, 0)} if instruction.effects.commits is not None else after

    def waited_for(self, state: State, wait: Instruction) -> State:
        """The operations that *wait* completes, given what may be in flight before it, and those not yet committed."""
        left = depth(wait)
        return frozenset(
            o
            for o in state
            if self.instructions[o.site].group == wait.group and (o.age == OPEN or left <= o.age)
        )


class SourcesInFlight(InFlight):
    """:class:`InFlight`, until their sources have been read: for a wait that is for these alone."""

    until_read = True
