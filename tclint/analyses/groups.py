"""Asynchronous operations in flight, with the possible ages of their groups (PTX ISA 9.7.15.7, 9.7.9.25.3).

An operation is open until a commit puts it into a group. The newest group has age 0, each later commit makes it one
older, and ``wait_group N`` completes all groups but the newest N, those of age N or more.

A state holds one fact for each age that an operation *may* have, so it over-approximates what is in flight. Keeping
ages and not counts makes ``wait_group 1`` exact in a pipelined loop: the group of this iteration has age 0 there and
stays, that of the previous one has age 1 and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, cached_property

from tclint.analyses.ages import Ages, Numbering
from tclint.analyses.model import KernelModel
from tclint.dataflow.solver import Analysis
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction
from tclint.isa.effects import BULK, INERT, NO_ENGINE, WGMMA, Engine
from tclint.sync.operations import NO_GROUPS, OPEN, oldest, step

__all__ = ["BulkGroups", "Depth", "Groups", "GroupsState", "Waited", "WgmmaGroups", "groups_of"]

_NONE: frozenset[int] = frozenset()
"""The registers of an operation that has none: each empty set made anew takes 216 bytes."""

Copy = tuple[int, int, int, int]
"""A copy of a result: the register that holds it, the operation, the register copied from, and an age of the
operation."""
GroupsState = tuple[Ages, frozenset[Copy]]


class Groups(Analysis[GroupsState]):
    """Facts ``(site, age)`` for the operations of one completion group, and copies of their results."""

    group: Engine = NO_ENGINE
    until_read = False
    """Whether an operation is complete when its sources have been read."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.left = {i: model.instruction(i).leaves(NO_GROUPS) for i in model.waits(self.group)}
        """Wait -> the groups that it leaves pending."""
        self.deepest = oldest(self.left.values())
        """The age at which ages saturate."""
        self.results: dict[int, frozenset[int]] = {}
        """Operation -> the registers that it writes asynchronously."""
        self.sources: dict[int, frozenset[int]] = {}
        """Operation -> the registers that it reads asynchronously and does not write."""
        for site in model.begins(self.group):
            instruction = model.instruction(site)
            self.results[site] = instruction.results or _NONE
            self.sources[site] = instruction.fragments or _NONE
        self.numbering = Numbering(self.results)
        self._empty: GroupsState = Ages(self.numbering, {}), frozenset()
        self.tracked = frozenset().union(*self.results.values()) if self.results else frozenset()
        self.copied = model.function.copies(self.tracked)
        self.by_opcode = not self.copied
        self.added_sites: frozenset[int] = frozenset()
        """Instructions outside the group that change a state, such as acquire and release points of the thread."""
        self._added_instructions: frozenset[Instruction] = frozenset()

    def add_sites(self, sites: Iterable[int]) -> None:
        """Adds *sites* to the instructions at which the transfer function of a subclass changes a state."""
        self.added_sites |= frozenset(sites)
        self._added_instructions = frozenset(map(self.model.instruction, self.added_sites))
        self.by_opcode = self.by_opcode and not self.added_sites

    def affecting_sites(self) -> Iterable[int] | None:
        if self.copied or not self.added_sites:
            return None
        function = self.model.function
        affecting = (
            u for u in function.uses if u.sites and self.affecting(function.instructions[u.sites[0]])
        )
        return self.added_sites.union(i for use in affecting for i in use.sites)

    def aged(self, age: int, at: int, instruction: Instruction) -> int | None:
        """What *instruction* makes of an *age*, if its guard is true; None if it completes the operation."""
        match = instruction.match
        if match is None or match.form.group != self.group:
            return age
        return step(
            age, match.form.effects, self.left.get(at, NO_GROUPS), self.deepest, sources=self.until_read
        )

    def boundary(self) -> GroupsState:
        return self._empty

    def bottom(self) -> GroupsState:
        return self._empty

    def join(self, a: GroupsState, b: GroupsState) -> GroupsState:
        if a is b:
            return a
        return a[0] | b[0], a[1] | b[1]

    def affecting(self, instruction: Instruction) -> bool:
        match = instruction.match
        if match is not None and match.form.group == self.group:
            return True
        return instruction in self._added_instructions or not self.copied.isdisjoint(instruction.writes)

    def transfer(self, state: GroupsState, at: int, instruction: Instruction) -> GroupsState:
        facts, copies = state
        effects = instruction.effects if instruction.group == self.group else INERT
        if effects.begins is not None:
            return facts.issued(at, OPEN), copies
        if not facts:
            return state
        after = facts.moved(lambda age: self.aged(age, at, instruction))
        if not self.copied:
            return state if after is facts else (after, copies)
        if effects.commits is not None or effects.waits is not None:
            aged = ((c, self.aged(c[3], at, instruction)) for c in copies)
            return after, frozenset((*c[:3], age) for c, age in aged if age is not None)
        written = instruction.writes
        kept = frozenset(c for c in copies if c[0] not in written)
        if instruction.renames:
            source, target = instruction.reads[0], written[0]
            made = {(target, s, source, age) for s, age in facts if source in self.results[s]}
            made |= {(target, s, origin, age) for register, s, origin, age in copies if register == source}
            kept |= {c for c in made if c[0] != c[2]}
        return (facts, kept) if kept != copies else state

    @cached_property
    def _kinds(self) -> dict[int, int]:
        """The operations by the contexts of their threads (:meth:`Views.kind`): one of them -> the bits of all of them."""
        first: dict[int, int] = {}
        kinds: dict[int, int] = {}
        for number, site in enumerate(self.numbering.sites):
            one = first.setdefault(self.model.views.kind(site), site)
            kinds[one] = kinds.get(one, 0) | 1 << number
        return kinds

    def guarded(self, state: GroupsState, after: GroupsState, at: int) -> GroupsState:
        executes = self.model.views.executes
        changed = state[0].differing(after[0])
        certain = never = 0
        for site, bits in self._kinds.items():
            if bits & changed:
                outcome = executes(site, at)
                certain |= bits if outcome is True else 0
                never |= bits if outcome is False else 0
        never &= ~self.numbering.bit(at)
        return state[0].joined(after[0], certain, never), state[1] | after[1]

    def edge(self, state: GroupsState, edge: Edge) -> GroupsState:
        facts, copies = state
        if not facts:
            return state
        views = self.model.views
        if edge.source in views.reachability.dispatchers:
            self.model.drop_facts(self, self.model.cfg.blocks[edge.source].end - 1)
            return self._empty
        if edge.predicate < 0:
            return state
        present = facts.operations
        kinds = {site: bits for site, bits in self._kinds.items() if bits & present}
        gone = 0
        for site in views.unreachable_after(edge, kinds.keys()):
            gone |= kinds[site]
        if not gone:
            return state
        return facts.without(gone), frozenset(c for c in copies if not self.numbering.bit(c[1]) & gone)

    def originating_sites(self, state: GroupsState) -> Iterable[int]:
        return self.numbering.members(state[0].operations)

    def pending(self, state: GroupsState) -> int:
        """The bit set of the operations in flight in *state*."""
        return state[0].operations

    def begun(self, site: int) -> int:
        """The stage of an operation when it begins."""
        return OPEN

    def stays_pending(self, state: GroupsState, site: int) -> bool:
        """Whether the operation *site* may have an age that no commit changes."""
        return any(age < 0 or age == self.deepest for age in state[0].of(site))

    def start(self, site: int) -> GroupsState:
        """The state just after *site*, restricted to that operation."""
        return self._empty[0].issued(site, OPEN), frozenset()

    def only(self, state: GroupsState, site: int) -> GroupsState | None:
        """*state* restricted to the operation *site*; None if the operation has completed."""
        facts = state[0].without(~self.numbering.bit(site))
        return (facts, frozenset(c for c in state[1] if c[1] == site)) if facts else None

    def following(self, site: int) -> Callable[[GroupsState, int, Instruction], GroupsState | None]:
        """A step function for a path search that follows the operation *site* alone."""

        def step(state: GroupsState, at: int, instruction: Instruction) -> GroupsState | None:
            return self.only(self.transfer(state, at, instruction), site)

        return step

    def follow(self, site: int, age: int, at: int, instruction: Instruction) -> int | None:
        """The age after one more instruction of the operation that *site* issued; None if it has completed.

        When *site* executes again, in the next iteration of a loop, it issues another operation, and the age stays.
        """
        return age if at == site else self.aged(age, at, instruction)


@cache
def groups_of(engine: Engine) -> type[Groups]:
    """The analysis of the operations of *engine* until their results are written."""

    class Of(Groups):
        group = engine

    Of.__name__ = "".join(map(str.title, engine.split("."))) + Groups.__name__
    return Of


WgmmaGroups, BulkGroups = map(groups_of, (WGMMA, BULK))


class _Outstanding(Analysis[int]):
    """An upper bound, at most ``limit``, of a number of committed wgmma-groups that are pending."""

    by_opcode = True
    limit = 64

    def __init__(self, model: KernelModel) -> None:
        self.model = model

    def bottom(self) -> int:
        return 0

    def join(self, a: int, b: int) -> int:
        return max(a, b)

    def affecting(self, instruction: Instruction) -> bool:
        return instruction.group == WGMMA and (
            instruction.effects.commits is not None or instruction.effects.waits is not None
        )


class Depth(_Outstanding):
    """The maximum number of committed wgmma-groups that may be pending, saturating at ``limit``.

    The caller of a function may leave any number of groups pending.
    """

    def boundary(self) -> int:
        return 0 if self.model.function.entry else self.limit

    def transfer(self, state: int, at: int, instruction: Instruction) -> int:
        if instruction.effects.commits is not None:
            return min(state + 1, self.limit)
        return min(state, instruction.leaves(NO_GROUPS))


class Waited(_Outstanding):
    """The maximum number of groups that the waits since the last commit leave pending; ``limit`` without a wait."""

    def boundary(self) -> int:
        return self.limit

    def transfer(self, state: int, at: int, instruction: Instruction) -> int:
        committed = instruction.effects.commits is not None
        return self.limit if committed else min(state, instruction.leaves(NO_GROUPS))
