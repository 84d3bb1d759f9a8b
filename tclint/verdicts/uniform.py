"""Accepts or refuses a certificate that registers are uniform, and that threads execute collective instructions together.

A certificate claims, for each register, the largest group of threads in which it always has one value (:class:`Level`).
The checker trusts neither it nor what made it. From the instructions and the edges of the control-flow graph alone, it
verifies by one pass that each claim follows from the others; by induction over the steps of an execution, all hold.

**Divergence.** The threads of a group may leave a block by different edges if what decides the branch is not uniform in
the group. They are in its *region* until they reach its immediate post-dominator: all blocks that can follow the branch
before that one, including those of a loop that the branch may leave, and all that follow if some of the threads exit. An
instruction in the region is not executed by all threads of the group together, nor as often by each. So a register that it
writes is not uniform, wherever it is read. The blocks of a region that only lead to an abort of the kernel, which ends all
threads, are not considered.

**Uniform values.** Constants, parameters, ``.const`` memory at a uniform address, and special registers of the group are
uniform, and in a CTA the addresses of variables, each CTA of a cluster having shared memory of its own; so is what is
computed from uniform operands alone, and what depends on the index of the thread in its CTA alone and is the same for the
threads of each group (:attr:`UniformQuestions.by_index`). A vote or a reduction of a whole warp is warp-uniform, and so is the value
of a lane that a warp-uniform index selects; what lanes exchange that is uniform in a wider group stays so. Memory that no thread
writes while the kernel runs is uniform like ``.const`` memory, if that may be assumed (:attr:`UniformQuestions.read_only`). Shared memory is in the CTA where a certificate about its accesses
proves that no thread may write what a load reads while others load it (:attr:`Uniform.stable`). Nothing that is read from other
memory is uniform, whatever its address, and no elected lane, carry or result of a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from enum import IntEnum
from functools import cached_property

from tclint._dataclass import dataclass
from tclint.ir.nodes import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Special,
    Symbol,
    specials,
    symbols,
)
from tclint.isa.effects import BARRIERS, Barrier, Exchange
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, Scope
from tclint.verdicts.checker import Graph, Refused
from tclint.verdicts.undefined import undefined

__all__ = [
    "MOVED",
    "MOVES",
    "Collective",
    "Holding",
    "Level",
    "Uniform",
    "UniformQuestions",
    "check_levels",
    "check_uniform",
    "collective",
    "collectives",
    "narrowed",
]

_ALL_LANES = 0xFFFFFFFF
_BARRIERS = 16
"""The number of CTA barriers (9.7.13.1)."""
MOVES = ("mov", "cvta", "mapa")
"""The first words of instructions in other families that compute from their operands alone."""


class Level(IntEnum):
    """The largest group of threads in which a value is always the same; a smaller level is a wider group."""

    CLUSTER = 0
    CTA = 1
    WARPGROUP = 2
    WARP = 3
    NONE = 4


MOVED = frozenset(("%warpid", "%smid"))
"""Special registers that change when a warp is moved (10.4, 10.8), so that threads may read different values."""
_OF_REGISTER = {
    Scope.GRID: Level.CLUSTER,
    Scope.CLUSTER: Level.CLUSTER,
    Scope.CTA: Level.CTA,
    Scope.WARP: Level.WARP,
}
_OF_SCOPE = {"warp": Level.WARP, "lanes": Level.WARP, "warpgroup": Level.WARPGROUP, "cta": Level.CTA}


Holding = Callable[[int, int], int | None]
"""The threads in which a register is true just before an instruction, if their index alone decides; else None."""


@dataclass(frozen=True)
class UniformQuestions:
    """What is asked of the values of registers; each answer is a proof."""

    by_index: Callable[[int, int, bool], Level]
    """The level of a register just before an instruction, or just after it with True, by the index of the thread alone."""
    constant: Callable[[Operand, int], int | None]
    """The number that an operand of an instruction always is; None if it is not known to be one."""
    read_only: Callable[[int], bool]
    """Whether a load is from memory that no thread writes while the kernel runs."""
    threads: Callable[[], int | None]
    """The number of threads of the CTA; None if it is not known."""
    partial_warp: Callable[[], str]
    """Why a warp of the CTA may not have all its threads; "" if each has, or may be assumed to."""


@dataclass(frozen=True)
class Collective:
    """An instruction that all threads of a group must execute together."""

    site: int
    level: Level
    """The group."""
    together: bool
    """Whether the threads of a warp must have converged before it; the instruction waits for them otherwise."""


def collectives(function: Function, reachable: Iterable[int]) -> Iterator[Collective]:
    """The instructions among *reachable* that need other threads."""
    found = (collective(site, function.instructions[site]) for site in reachable)
    return (each for each in found if each is not None)


def collective(site: int, instruction: Instruction) -> Collective | None:
    """The threads that an instruction needs; None if it needs no others. A barrier needs them with or without
    ``.aligned``."""
    match = instruction.match
    if match is None:
        return None
    barrier = match.form.effects.barrier
    scope = match.form.scope if barrier in BARRIERS else match.scope
    if barrier is Barrier.CLUSTER:
        return Collective(site, Level.CLUSTER, match.scope != "thread")
    if scope in _OF_SCOPE:
        return Collective(site, _OF_SCOPE[scope], scope != "lanes" and match.scope != "thread")
    return None


class Uniform:
    """What is uniform in one function, as far as it follows from claims about its registers."""

    def __init__(
        self,
        function: Function,
        graph: Graph,
        questions: UniformQuestions,
        stable: frozenset[int] = frozenset(),
    ) -> None:
        self.function, self.graph, self.ask = function, graph, questions
        self.stable = stable
        """The loads of shared memory that read one value in all threads which execute them in one epoch, at one address. Whether
        they do is for :mod:`tclint.verdicts.epochs` to check."""
        self.instructions = function.instructions
        self.order = sorted(graph.reached((0,)))
        self.regions = {b: self._region(b) for b in self.order if self._decides(b)}
        """Block that ends in a branch -> the blocks that not all threads execute together if they take different edges."""
        self.parameters = frozenset(p.name for p in function.parameters)
        self.calls = any(i.flow == "call" for i in self.instructions)
        self.block_of = {i: b for b in self.order for i in graph.blocks[b]}

    def asking(self, by_index: Callable[[int, int, bool], Level]) -> Uniform:
        """The same function, for a group of threads about which *by_index* answers."""
        other = copy(self)
        other.ask = replace(self.ask, by_index=by_index)
        return other

    # ------------------------------------------------------------ regions

    def _decides(self, block: int) -> bool:
        return len(self.graph.successors[block]) + (block in self.graph.exits) > 1

    def _not_aborting(self) -> frozenset[int]:
        """The reachable blocks from which a path leads to an exit, or to a loop without one: not only to aborts."""
        ends = {b for b in self.order if not self.graph.successors[b] and b not in self.graph.exits}
        before: dict[int, set[int]] = {b: set() for b in self.order}
        for b in self.order:
            for edge in self.graph.successors[b]:
                before[edge.target].add(b)
        aborting = set(ends)
        work = [p for b in ends for p in before[b]]
        while work:
            b = work.pop()
            if b in aborting or b in self.graph.exits:
                continue
            if all(edge.target in aborting for edge in self.graph.successors[b]):
                aborting.add(b)
                work += before[b]
        return frozenset(self.order) - aborting

    @cached_property
    def _posts(self) -> dict[int, int]:
        """The post-dominators of each block that does not abort, with one bit for each; an endless loop may end anywhere."""
        surviving = self._not_aborting()
        following = {
            b: [e.target for e in self.graph.successors[b] if e.target in surviving] for b in surviving
        }
        leaving = {b for b in surviving if b in self.graph.exits}
        work = list(leaving)
        before: dict[int, list[int]] = {b: [] for b in surviving}
        for b, targets in following.items():
            for target in targets:
                before[target].append(b)
        ending = set(leaving)
        while work:
            for b in before[work.pop()]:
                if b not in ending:
                    ending.add(b)
                    work.append(b)
        everything = sum(1 << b for b in surviving)
        post = {b: 1 << b if b in leaving or b not in ending else everything for b in surviving}
        changed = True
        while changed:
            changed = False
            for b in sorted(surviving, reverse=True):
                if b in leaving or b not in ending:
                    continue
                common = everything
                for target in following[b]:
                    common &= post[target]
                if post[b] != common | 1 << b:
                    post[b], changed = common | 1 << b, True
        return post

    def _region(self, branch: int) -> frozenset[int]:
        """The blocks that can follow *branch* before its immediate post-dominator."""
        mine = self._posts.get(branch, 0)
        others = [b for b in self.order if mine >> b & 1 and b != branch]
        join = max(others, key=lambda b: self._posts[b].bit_count(), default=-1)
        found, work = set[int](), [edge.target for edge in self.graph.successors[branch]]
        while work:
            block = work.pop()
            if block not in found and block != join:
                found.add(block)
                work += [edge.target for edge in self.graph.successors[block]]
        return frozenset(found)

    # ------------------------------------------------------------ levels

    @cached_property
    def _undefined(self) -> int:
        """The registers that may be read before anything has written them, one bit for each."""
        return undefined(self.instructions, self.graph, self.order)

    def branch(self, block: int, levels: Mapping[int, Level]) -> Level:
        """The level of what decides by which edge threads leave *block*."""
        last = self.graph.blocks[block][-1]
        instruction = self.instructions[last]
        found = Level.CLUSTER
        if instruction.guard >= 0:
            found = self.read(instruction.guard, last, levels)
        if instruction.flow == "branch-table":
            found = max(found, self._operands(instruction, last, levels))
        return found

    def read(self, register: int, at: int, levels: Mapping[int, Level]) -> Level:
        """The level of a register that the instruction *at* reads."""
        if self._undefined >> register & 1:
            return Level.NONE
        level = levels.get(register, Level.NONE)
        return level if level is Level.CLUSTER else min(level, self.ask.by_index(register, at, False))

    def written(self, register: int, at: int, levels: Mapping[int, Level]) -> Level:
        """The level of what the instruction *at* writes to *register*, if all threads of the group execute it or none."""
        instruction = self.instructions[at]
        found = self._computed(register, instruction, at, levels)
        if found > Level.CLUSTER:
            found = min(found, self.ask.by_index(register, at, True))
        return max(found, self.read(instruction.guard, at, levels)) if instruction.guard >= 0 else found

    def _computed(
        self, register: int, instruction: Instruction, at: int, levels: Mapping[int, Level]
    ) -> Level:
        match = instruction.match
        if match is None or match.problem:
            return Level.NONE
        form = match.form
        if (
            form.effects.exchange is Exchange.SHUFFLE
            or form.effects.exchange is Exchange.VOTE
            or form.effects.exchange is Exchange.REDUCTION
        ):
            return self._of_warp(register, instruction, at, levels)
        if form.event or form.flow or form.async_writes:
            return Level.NONE
        if form.memory:
            if any(verb != "read" for verb, _ in form.memory):
                return Level.NONE
            level = self._operands(instruction, at, levels)
            if at in self.stable:
                return max(level, Level.CTA)
            return level if level is Level.NONE or self.unchanging(at) else Level.NONE
        if form.from_operands or form.name.split(".")[0] in MOVES:
            level = self._operands(instruction, at, levels)
            return max(level, Level.CTA) if self._names_variable(instruction) else level
        return Level.NONE

    def unchanging(self, at: int) -> bool:
        """Whether a load is from memory that no thread writes while the kernel runs: constants, parameters, or what may be assumed
        to be read only."""
        instruction = self.instructions[at]
        space = "" if instruction.match is None else instruction.match.space
        constant = space == ".const" or (space.startswith(".param") and self._parameter(instruction))
        return constant or self.ask.read_only(at)

    def _parameter(self, load: Instruction) -> bool:
        """Whether a load from ``.param`` memory reads a parameter of the kernel, not the result of a call."""
        bases = [o.base for o in load.operands if isinstance(o, Memory)]
        named = all(isinstance(base, Symbol) and base.name in self.parameters for base in bases)
        return self.function.entry and bool(bases) and (named or not self.calls)

    def _names_variable(self, instruction: Instruction) -> bool:
        """Whether it computes from the address of a variable: if that is in shared memory, each CTA has its own (5.1.7)."""
        return not self.parameters.issuperset(symbols(instruction.operands))

    def _of_warp(
        self, register: int, instruction: Instruction, at: int, levels: Mapping[int, Level]
    ) -> Level:
        """The level of a result that lanes of a warp exchange: uniform if all lanes take part and get one value."""
        match = instruction.match
        assert match is not None
        mask = instruction.role("mask")
        number = None if mask is None else self.ask.constant(mask, at)
        if number is None or number & _ALL_LANES != _ALL_LANES or register != instruction.writes[0]:
            return Level.NONE
        if self.ask.partial_warp():
            return Level.NONE
        if match.form.effects.exchange is not Exchange.SHUFFLE:
            return min(Level.WARP, self._operands(instruction, at, levels))
        width, lane = instruction.named("c"), instruction.named("b")
        source = instruction.named("a")
        if source is not None and (wider := self._operand(source, at, levels)) < Level.WARP:
            return wider  # whichever lane is read
        whole = width is not None and self.ask.constant(width, at) == WARP - 1
        if not whole or match.shuffle != "idx" or lane is None:
            return Level.NONE
        return Level.WARP if self._operand(lane, at, levels) <= Level.WARP else Level.NONE

    def _operands(self, instruction: Instruction, at: int, levels: Mapping[int, Level]) -> Level:
        """The level of all that an instruction reads but its guard."""
        found = max((self.read(r, at, levels) for r in instruction.reads), default=Level.CLUSTER)
        return max((found, *map(self._operand_level, specials(instruction.operands))))

    def _operand(self, operand: Operand, at: int, levels: Mapping[int, Level]) -> Level:
        if isinstance(operand, Immediate):
            return Level.CLUSTER
        return self.read(operand, at, levels) if isinstance(operand, int) else Level.NONE

    @staticmethod
    def _operand_level(special: Special) -> Level:
        register = SPECIAL_REGISTERS.get(special.name)
        if register is None or register.varies or register.name in MOVED:
            return Level.NONE
        return _OF_REGISTER.get(register.scope, Level.NONE)

    def outer(self, levels: Mapping[int, Level]) -> dict[int, Level]:
        """Block -> the level of the branches in whose regions it is: that of the groups which execute it together."""
        found = dict.fromkeys(self.order, Level.CLUSTER)
        for block, region in self.regions.items():
            level = self.branch(block, levels)
            for b in region:
                found[b] = max(found[b], level)
        return found

    # ------------------------------------------------------------ collective instructions

    def divergence(self, of: Collective, levels: Mapping[int, Level], outer: Mapping[int, Level]) -> str:
        """Why the threads of a group may not execute a collective instruction together; "" if they do."""
        instruction = self.instructions[of.site]
        if why := self._unlike(of, instruction):
            return why
        if instruction.guard >= 0 and self.read(instruction.guard, of.site, levels) > of.level:
            return "its guard may differ between the threads that it needs"
        if outer[self.block_of[of.site]] > of.level:
            return "a branch that decides whether it executes may differ between the threads that it needs"
        return ""

    def decider(self, of: Collective, levels: Mapping[int, Level]) -> int:
        """The instruction whose guard decides whether a collective instruction executes and may differ between its threads:
        the first such branch, or itself."""
        at, guard = of.site, self.instructions[of.site].guard
        if guard >= 0 and self.read(guard, at, levels) > of.level:
            return at
        inside = (b for b in self.regions if self.block_of[at] in self.regions[b])
        return next((self.graph.blocks[b][-1] for b in inside if self.branch(b, levels) > of.level), at)

    def _unlike(self, of: Collective, instruction: Instruction) -> str:
        """Why the operands of a collective instruction may not name the threads that execute it; "" if they do."""
        mask = instruction.role("mask")
        if mask is not None:
            number = self.ask.constant(mask, of.site)
            if number is None or number & _ALL_LANES != _ALL_LANES:
                return "its membermask is not known to be that of a whole warp"
        if of.level in (Level.WARP, Level.WARPGROUP) and (why := self.ask.partial_warp()):
            return why
        most = self.function.most_threads
        if of.level is Level.WARPGROUP and (most is None or most % (4 * WARP)):
            return "the CTA is not known to consist of whole warpgroups"
        if of.level is not Level.CTA:
            return ""
        if instruction.effects.synchronises is None:
            return "it counts threads that wait elsewhere"
        count = instruction.role("count")
        if count is not None:
            number, size = self.ask.constant(count, of.site), self.ask.threads()
            if size is None:
                return "how many threads it counts of the CTA is not known"
            if number != -(-size // WARP) * WARP:  # an incomplete warp counts as a whole one (9.7.13.1)
                return "it is not known to count all threads of the CTA"
        return self.number_of_barrier(of.site)

    def number_of_barrier(self, site: int) -> str:
        """Why it is not known which CTA barrier an instruction names; "" if it is."""
        barrier = self.instructions[site].role("id")
        number = None if barrier is None else self.ask.constant(barrier, site)
        return (
            "" if number is not None and 0 <= number < _BARRIERS else "the number of its barrier is unknown"
        )

    def diverged(self, levels: Mapping[int, Level]) -> frozenset[int]:
        """The blocks that threads of a warp may reach after they have diverged, converged again or not."""
        return self.graph.reached(b for b in self.regions if self.branch(b, levels) > Level.WARP)

    def phases(self) -> Iterator[tuple[int, str]]:
        """Where a thread may arrive twice in one phase of the cluster barrier, or wait there without having arrived."""
        entry: dict[int, frozenset[bool]] = {b: frozenset() for b in self.order}
        work, found = [(0, frozenset((False,)))], dict[int, str]()
        while work:
            block, state = work.pop()
            if state <= entry[block]:
                continue
            state = entry[block] = entry[block] | state
            for at in self.graph.blocks[block]:
                instruction = self.instructions[at]
                if instruction.effects.barrier is not Barrier.CLUSTER:
                    continue
                waits = instruction.effects.awaits is Barrier.CLUSTER
                if (not waits) in state:
                    found[at] = (
                        "the thread may not have arrived" if waits else "the thread may have arrived before"
                    )
                after = frozenset((not waits,))
                state = state | after if instruction.guard >= 0 else after
            work += [(edge.target, state) for edge in self.graph.successors[block]]
        yield from sorted(found.items())


def narrowed(threads: int, holding: Holding, at: int, register: int, value: bool) -> int:
    """Those of *threads* in which a predicate may have a *value* just before an instruction; all for the register -1."""
    mask = holding(register, at) if register >= 0 else None
    return threads if mask is None else threads & (mask if value else ~mask)


def check_levels(of: Uniform, levels: Mapping[int, Level]) -> Mapping[int, Level]:
    """Block -> the level of the branches that decide whether it executes, if *levels* hold.

    Raises :class:`~tclint.verdicts.checker.Refused` if one of them does not follow from the others.
    """
    outer = of.outer(levels)
    for b in of.order:
        for at in of.graph.blocks[b]:
            for register in of.instructions[at].writes:
                level = levels.get(register, Level.NONE)
                if level < Level.NONE and max(outer[b], of.written(register, at, levels)) > level:
                    raise Refused(
                        at, "the certificate claims that what it writes is uniform in too large a group"
                    )
    return outer


def check_uniform(
    of: Uniform,
    levels: Mapping[int, Level],
    claimed: Iterable[Collective],
    elsewhere: Callable[[Collective], bool] = lambda each: False,
) -> tuple[Collective, ...]:
    """The collective instructions of a function, which *levels* prove to be executed together.

    Those *elsewhere* need a proof of another kind. Raises :class:`~tclint.verdicts.checker.Refused` if a level does not
    follow, or *claimed* are not all of them.
    """
    outer = check_levels(of, levels)
    needed = tuple(collectives(of.function, (at for b in of.order for at in of.graph.blocks[b])))
    if set(claimed) != set(needed):
        raise Refused(0, "the certificate does not list the collective instructions of the kernel")
    for each in needed:
        if not elsewhere(each) and (why := of.divergence(each, levels, outer)):
            raise Refused(each.site, why)
    for site, why in of.phases():
        raise Refused(site, why)
    return needed
