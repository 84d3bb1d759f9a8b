"""Threads that go the same way together: where they part at branches, where they meet again, who runs next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import chain, repeat
from operator import attrgetter
from typing import NamedTuple, NoReturn

from tclint.ir.nodes import Immediate, Memory, Not, Operand, Special, Symbol
from tclint.replay.abstract_lanes import ALL_BITS, Lanes, apply, broadcast, gather, immediate, merge, select
from tclint.replay.launch import CANCELLED, Launch, LaunchWord
from tclint.replay.program import Program, Step
from tclint.replay.sync import Barrier, Mbarrier
from tclint.replay.vector_clocks import (
    BOTTOM,
    Agent,
    Clock,
    WarpClocks,
    event,
    field_mask,
    join,
    join_all,
    join_warps,
    mask_warps,
    reconverge_clocks,
    select_warps,
)

__all__ = [
    "Limits",
    "OutOfSteps",
    "Stuck",
    "ThreadGroup",
    "ThreadGroupScheduler",
    "TooManyIterations",
    "UninitialisedMbarrier",
    "Unresolved",
]

_MANY = 32
"""Rounds of a loop that need not be waited for: rings of a few stages have come round several times."""
_SOME = 3
"""Rounds of a loop that has to be seen to go round."""
_FAR = 2
"""How many times the steps that there are, or the rounds that are enough, must lie ahead for a loop to be cut short."""


class Unresolved(Exception):
    """The replay cannot go on: *site* depends on what is not known."""

    def __init__(self, site: int, why: str) -> None:
        super().__init__(why)
        self.site = site
        self.why = why


class UninitialisedMbarrier(Unresolved):
    """Threads name an mbarrier that none of them made: the launch is none of this kernel, or an address is not known."""

    def __init__(self, site: int, why: str, address: int = -1, made: Mapping[int, int] | None = None) -> None:
        super().__init__(site, why)
        self.address = address
        """Where they look for it, in the memory of whatever CTA; -1: in one that there is not."""
        self.made = made or {}
        """Where there are mbarriers by then, and which ``mbarrier.init`` has made each."""


class OutOfSteps(Exception):
    """The replay has been cut short: what it saw is true, and what would have come is not known."""


class TooManyIterations(Exception):
    """A loop goes round more often than anybody has to see; other numbers for *words* would make it end earlier."""

    def __init__(self, words: frozenset[LaunchWord], excess: int = 0) -> None:
        super().__init__("a loop goes round many times")
        self.launch_words = words
        self.excess = excess
        """How many times as often as need be the loop will go round, if that is foreseen; 0: it is not, and has gone round so often."""


class Limits(NamedTuple):
    """How long a replay may take."""

    steps: int
    irreducible: Collection[LaunchWord] = ()
    """Words of the launch that it is no use to change."""
    extrapolates: bool = False
    """It gives up as soon as a loop is seen to go round too often."""
    extra_steps: int = 0
    """How many steps more it may take where no other numbers would make them fewer."""


class Stuck(NamedTuple):
    """Threads that wait for what does not come."""

    site: int
    threads: tuple[int, ...]
    what: Mbarrier | Barrier


class _MergedRegisters:
    """What groups that met hold together, put together when somebody asks for it."""

    __slots__ = ("_parts", "_size")

    def __init__(self, parts: Sequence[tuple[Sequence[int], Registers]], size: int) -> None:
        self._parts = parts
        self._size = size

    def value(self, register: int) -> Lanes:
        """What *register* holds."""
        return merge([(positions, part[register]) for positions, part in self._parts], self._size)


class Registers(dict[int, Lanes]):
    """What the threads of a group hold: what was written, and else what there was where they parted.

    ``registers[number]`` tells it, and None where it is not known; what :class:`dict` itself knows was written since.
    """

    __slots__ = ("_seen", "merged", "outer", "positions")

    def __init__(self, outer: Registers | None = None, positions: Sequence[int] = ()) -> None:
        self.outer = outer
        self.positions = positions
        """Of these threads among those of *outer*."""
        self.merged: dict[int, _MergedRegisters] = {}
        """What was written before threads met, and by nobody since."""
        self._seen: dict[int, Lanes] = {}

    def written(self, since: Registers) -> Iterator[int]:
        """What was written since threads parted that held *since*, behind whatever branches."""
        here: Registers | None = self
        while here is not None and here is not since:
            yield from here
            yield from here.merged
            here = here.outer

    def __missing__(self, register: int) -> Lanes:
        if register in self.merged:
            self[register] = value = self.merged[register].value(register)
            return value
        outer = self.outer
        if outer is None:
            return None
        if register not in self._seen:
            self._seen[register] = gather(outer[register], self.positions)
        return self._seen[register]

    def copy(self) -> Registers:
        """The same, for threads that write to them next."""
        made = Registers(self.outer, self.positions)
        made.update(self)
        made.merged.update(self.merged)
        return made

    def meet(self, written: Collection[int], together: _MergedRegisters) -> None:
        """Takes in what was *written* by threads that met."""
        for register in written:
            self.pop(register, None)
        self.merged.update(dict.fromkeys(written, together))


@dataclass(eq=False, slots=True)
class DivergencePoint:
    """Threads that parted at a branch, and where they meet again."""

    reconvergence: int
    outer: DivergencePoint | None
    before: Registers
    threads: tuple[int, ...]
    """All that parted."""
    missing: int
    """How many of them have neither come to the join nor ended."""
    parked: list[ThreadGroup] = field(default_factory=list)
    released: bool = False
    """They wait for each other no longer."""

    @property
    def splits_a_warp(self) -> bool:
        """Whether lanes that are parked wait for others of their warp."""
        parked = {t for group in self.parked for t in group.threads}
        warps = {t >> 5 for t in parked}
        return any(t >> 5 in warps and t not in parked for t in self.threads)


@cache
def warps_of(threads: tuple[int, ...]) -> tuple[int, ...]:
    """The warps that *threads* are in."""
    return tuple(dict.fromkeys([t >> 5 for t in threads]))


@cache
def positions_of(threads: tuple[int, ...]) -> tuple[Sequence[int], ...]:
    """The places of the threads of each warp among *threads*."""
    found: dict[int, list[int]] = {}
    for position, thread in enumerate(threads):
        found.setdefault(thread >> 5, []).append(position)
    return tuple(found.values())


def _threads_by_warp(threads: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The threads of each warp."""
    return (tuple(map(threads.__getitem__, positions)) for positions in positions_of(threads))


@dataclass(eq=False, slots=True)
class ThreadGroup:
    """Threads of one CTA that go the same way together."""

    cta: int
    threads: tuple[int, ...]
    registers: Registers
    clock: WarpClocks
    """What its warps have heard of."""
    own: Clock = BOTTOM
    """What they have done, of which each knows what it has done itself."""
    block: int = 0
    at: int = 0
    divergence: DivergencePoint | None = None
    waits: Callable[[], bool] | None = None
    """Tells whether what the group waits for has come."""
    stuck: Stuck | None = None
    failed_test: tuple[object, ...] = ()
    """The question about an mbarrier that was answered with no, if nothing was done since."""
    cluster: int = 0
    """The generation of the cluster barrier that it arrived for."""
    committed: Mapping[str, tuple[Clock, ...]] = field(default_factory=dict)
    """What each committed group of wgmma, or of bulk copies, completes with all before it; never changed once made."""
    waited: Mapping[int, int] = field(default_factory=dict)
    """Where it last waited for each mbarrier, by address, the latest last; never changed once made."""
    fenced: WarpClocks = BOTTOM
    """What had been heard of and done before the last fence: what a relaxed arrival tells."""
    agent: Agent | None = None
    unfenced: WarpClocks = BOTTOM
    """What relaxed waits told: it is known behind the next fence."""
    warps: tuple[int, ...] = field(init=False)
    """The warps of which it has lanes."""

    def __post_init__(self) -> None:
        self.warps = warps_of(self.threads)

    def warps_at(self, positions: Sequence[int]) -> tuple[int, ...]:
        """The warps of the threads at *places*."""
        if len(positions) == len(self.threads):
            return self.warps
        return tuple(dict.fromkeys([self.threads[i] >> 5 for i in positions]))

    def clocks_of(self, observed: WarpClocks, some: ThreadGroup) -> WarpClocks:
        """What *some* of its threads have heard of what its own have."""
        return observed if isinstance(observed, int) else select_warps(observed, self.warps, some.warps)

    def only_at(self, observed: WarpClocks, positions: Sequence[int]) -> WarpClocks:
        """What is *heard* if none but the warps of the threads at *places* do."""
        return (
            observed
            if len(positions) == len(self.threads)
            else mask_warps(observed, self.warps, self.warps_at(positions))
        )


_CLOCKS = attrgetter("clock"), attrgetter("fenced"), attrgetter("unfenced")


def _committed(one: tuple[Clock, ...], other: tuple[Clock, ...]) -> tuple[Clock, ...]:
    """The groups that two parts of some threads have committed, the newest of both at the end.

    Who has committed nothing since they parted did not come by: one thread of many issues bulk copies.
    """
    more, fewer = sorted((one, other), key=len, reverse=True)
    if more[: len(fewer)] == fewer:
        return more
    released = len(more) - len(fewer)
    return (*more[:released], *map(join, more[released:], fewer))


class ThreadGroupScheduler:
    """The threads of a cluster: where they are, what they hold, and what they have heard of."""

    def __init__(self, program: Program, launch: Launch, limits: Limits) -> None:
        self.program = program
        self.model = program.model
        self.cfg = program.model.cfg
        self.launch = launch
        self.limits = limits
        self.budget = limits.steps
        """Steps that are left."""
        self.entered = {0}
        """The blocks that groups came to."""
        self._loop_entries: dict[int, int] = {}
        self._iterations: dict[int, int] = {}
        """How often groups came to the header of a loop: from outside, and again."""
        self._distances: dict[tuple[int, Agent], list[tuple[int, int]]] = {}
        """How far groups were from the end of a loop at the end of a round, and how many steps were left then."""
        self._loop_tests: dict[tuple[int, int, int], int] = {}
        self._loop_answers: dict[tuple[int, int, int], int] = {}
        """How often each thread has asked whether a loop has rounds left for it, and what the first was told who asked so often."""
        self.uneven = False
        """Warps that share the rounds of a loop have not equally many of them."""
        self._agents: dict[tuple[object, ...], Agent] = {}
        self._warp_fields: dict[tuple[int, int], Clock] = {}
        """Of the actors that are lanes of a warp, by its CTA and its number: the first event of each."""
        self._sub_agents: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Agent] = {}
        """Those of some threads that are in some warps."""
        self.time = 0
        """How often threads have told others something: so many events of them are over."""
        self.alive = dict.fromkeys(range(launch.ctas), launch.threads)
        self.groups = [
            ThreadGroup(cta, tuple(range(launch.threads)), Registers(), BOTTOM) for cta in range(launch.ctas)
        ]

    # ------------------------------------------------------------ scheduling

    def run(self) -> list[Stuck]:
        """Executes until all threads have ended; those that wait for ever are told."""
        try:
            while self.groups and self._step():
                self.model.pause()
            return [g.stuck for g in self.groups if g.stuck is not None]
        finally:
            for group in self.groups:
                group.waits = None  # it knows all the others

    def _step(self) -> bool:
        """Executes each group that can go on, until it waits, parks or ends; whether there was one."""
        progress = False
        for group in list(self.groups):
            if group.waits is not None:
                if not group.waits():
                    continue
                group.waits = group.stuck = None
            self._run(group)
            progress = True
        return progress or self._complete_transfers() or self._release_parked()

    def _complete_transfers(self) -> bool:
        """Nobody can go on: what is under way completes; whether anything was."""
        raise NotImplementedError

    def _execute(self, group: ThreadGroup, step: Step) -> bool:
        """Executes one instruction; whether the group goes on behind it."""
        raise NotImplementedError

    def _divergence_points(self) -> list[DivergencePoint]:
        """Where the threads that are left have parted."""
        points: dict[int, DivergencePoint] = {}
        for group in self.groups:
            divergence = group.divergence
            while divergence is not None and id(divergence) not in points:
                points[id(divergence)] = divergence
                divergence = divergence.outer
        return list(points.values())

    def living(self) -> Iterator[ThreadGroup]:
        """The groups that have not ended, those that are parked as well."""
        yield from self.groups
        for divergence in self._divergence_points():
            yield from divergence.parked

    def _release_parked(self) -> bool:
        """Threads that wait for others at the end of a branch go on without them."""
        parked = [f for f in self._divergence_points() if f.parked]
        # Lanes of a warp go apart last: they meet again at instructions that all of them execute.
        for divergence in [f for f in parked if not f.splits_a_warp] or parked:
            divergence.released = True
            groups, divergence.parked = divergence.parked, []
            for group in groups:
                self.groups.append(group)
                self._enter(group, divergence.reconvergence)
        return bool(parked)

    def _run(self, group: ThreadGroup) -> None:
        """Executes a group until it waits, parks or ends."""
        while True:
            parts = self.program.batches(group.block)
            while group.at < len(parts):
                steps, sums, step = parts[group.at]
                self.budget -= steps
                if self.budget < 0:
                    self._extend_or_stop()
                registers = group.registers
                for held, results, destination in sums:
                    registers[destination] = results[held(registers)]
                if step is not None and not self._execute(group, step):
                    return
                group.at += 1
                if step is not None and step.what == "mbarrier-wait":
                    return  # others go on, too, before it comes to the next phase
            self.budget -= 1
            if self.budget < 0:
                self._extend_or_stop()
            if not self._leave_block(group):
                return

    # ------------------------------------------------------------ control flow

    def _leave_block(self, group: ThreadGroup) -> bool:
        """Where the threads go at the end of a block; whether this group goes on."""
        block, program = group.block, self.program
        targets = (
            self._successors(group, block) if block in program.branching else program.reconvergence(block)
        )
        if block in program.sharing:
            self._check_shared_iterations(group, block, targets)
        if isinstance(targets, int):
            self._count_iteration(group, targets)
            return self._enter(group, targets)
        for target in targets:
            self._count_iteration(group, target)
        if len(targets) > 1:
            self._diverge(group, targets)
            return False
        return self._enter(group, next(iter(targets)))

    def _check_shared_iterations(
        self, group: ThreadGroup, block: int, targets: int | dict[int, list[int]]
    ) -> None:
        """Warps that share the rounds of a loop ask whether some are left: where all have equally many, all are told the same."""
        for target, positions in {targets: None}.items() if isinstance(targets, int) else targets.items():
            for thread in group.threads if positions is None else map(group.threads.__getitem__, positions):
                key = group.cta, block, thread
                self._loop_tests[key] = times = self._loop_tests.get(key, 0) + 1
                self.uneven |= self._loop_answers.setdefault((group.cta, block, times), target) != target

    def _count_iteration(self, group: ThreadGroup, target: int) -> None:
        """A group comes to the header of a loop, perhaps once more than anybody has to see."""
        body = self.cfg.loops.get(target)
        if body is None:
            return
        if group.block not in body:
            self._loop_entries[target] = self._loop_entries.get(target, 0) + 1
            return
        self._iterations[target] = self._iterations.get(target, 0) + 1
        if self._average(target) > _MANY and not self.program.bounds[target].issubset(
            self.limits.irreducible
        ):
            self._request_fewer_iterations(target)
        self._extrapolate_trip_count(group, target)

    def _extrapolate_trip_count(self, group: ThreadGroup, header: int) -> None:
        """Asks for other numbers as soon as a loop is seen to have far more rounds ahead than need be, or than there are steps for.

        How far it is from its end, the test says at which each round ends: what is compared there comes nearer.
        """
        words = self.program.bounds[header]
        test = self.program.loop_tests.get(group.block)
        if not self.limits.extrapolates or test is None or words.issubset(self.limits.irreducible):
            return
        a, b = (gather(self._operand(group, o), (0,)) for o in (test.a, test.b))
        if not isinstance(a, int) or not isinstance(b, int):
            return
        distance = min(a - b & (1 << test.bits) - 1, b - a & (1 << test.bits) - 1)
        rounds = self._distances.setdefault((header, self._agent(group)), [])
        rounds.append((distance, self.budget))
        if len(rounds) < _SOME:
            return
        (_, first), (before, second), (now, third) = rounds[-_SOME:]
        if now < before:
            ahead = now // (before - now)
            steps = self.limits.steps - self.budget + ahead * min(first - second, second - third)
            excess = max(steps // self.limits.steps, ahead // _MANY)
            if excess >= _FAR:
                raise TooManyIterations(words, excess)

    @property
    def repeated(self) -> frozenset[int]:
        """The loops that groups went round again, by their headers."""
        return frozenset(self._iterations)

    @property
    def iteration_counts(self) -> tuple[object, ...]:
        """How often loops went round: replays in which they do so equally often went the same way."""
        return self.budget, self._iterations, self._loop_entries

    @property
    def longest_loop(self) -> int:
        """Where the loop begins that groups went round most often; -1: none more often than has to be seen."""
        header = max(self._iterations, key=self._average, default=-1)
        often = header >= 0 and self._average(header) > _SOME
        return self.cfg.blocks[header].start if often else -1

    def _average(self, header: int) -> float:
        """How often groups went round a loop."""
        return self._iterations[header] / self._loop_entries.get(header, 1)

    def _request_fewer_iterations(self, header: int) -> NoReturn:
        """Asks for numbers with which a loop goes round less often, and those that go round about as often with it."""
        often = self._average(header) / 2
        words = (self.program.bounds[h] for h in self._iterations if self._average(h) >= often)
        raise TooManyIterations(frozenset().union(*words))

    def _extend_or_stop(self) -> None:
        """There are no steps left: the loops go round too often, or the kernel is large and needs more of them.

        Raises ManyRounds in the one case, and OutOfSteps in the other when patience is at its end, too.
        """
        # Of the steps that are executed at once, those are still to come for which there are none.
        ahead, self.budget = -1 - self.budget, -1
        bounds = self.program.bounds
        open_ = [
            h
            for h in self._iterations
            if self._average(h) > _SOME and not bounds[h].issubset(self.limits.irreducible)
        ]
        if open_:
            self._request_fewer_iterations(max(open_, key=self._average))
        if self.program.answered and self.launch.values.cancelled:
            raise TooManyIterations(frozenset((CANCELLED,)))
        more = self.limits.extra_steps
        if not more:
            raise OutOfSteps
        self.budget += more - ahead
        self.limits = self.limits._replace(steps=self.limits.steps + more, extra_steps=0)

    def _successors(self, group: ThreadGroup, block: int) -> int | dict[int, list[int]]:
        """The block that all threads go to, or each with the places of those who do; -1 is the end."""
        branch = self.program.branch(block)
        site, size = branch.site, len(group.threads)
        if block in self.program.dispatching and block not in self.program.sharing:
            raise Unresolved(site, "which threads go where depends on what comes with the launch")
        guard: Lanes = 1 if branch.guard < 0 else group.registers[branch.guard]
        if guard is None:
            guard = self._non_trapping_value(block)
        case = -1 if branch.selector is None else self._operand(group, branch.selector)
        taken, other, negated = branch.taken, branch.other, branch.negated
        if isinstance(guard, int) and isinstance(case, int):
            return taken.get(case, -1) if guard ^ negated else other
        key = block, guard, case
        found = self.program.divergences.get(key)
        if found is not None:
            return found
        targets: dict[int, list[int]] = {}
        for position, (p, k) in enumerate(zip(broadcast(guard, size), broadcast(case, size), strict=True)):
            if p is None or k is None:
                raise Unresolved(site, "a branch depends on what is not known")
            targets.setdefault(taken.get(k, -1) if p ^ negated else other, []).append(position)
        self.program.divergences[key] = targets
        return targets

    def _non_trapping_value(self, block: int) -> Lanes:
        """What an unknown condition is taken to be: that which does not lead to a trap; None: either may be."""
        instructions, cfg = self.program.instructions, self.cfg
        good = [e for e in cfg.successors[block] if instructions[cfg.blocks[e.target].end - 1].flow != "trap"]
        if len(good) == 1 and good[0].predicate >= 0:
            return int(good[0].value)
        return None

    def _enter(self, group: ThreadGroup, target: int) -> bool:
        """Moves a group to the start of a block; whether it goes on from there: it may have to wait for others, or to end."""
        if target < 0:
            self._end(group)
            return False
        group.block, group.at = target, 0
        self.entered.add(target)
        while (
            group.divergence is not None
            and group.divergence.reconvergence == target
            and group.divergence.released
        ):
            group.divergence = group.divergence.outer
        divergence = group.divergence
        if divergence is None or divergence.reconvergence != target:
            return True
        self.groups.remove(group)
        divergence.parked.append(group)
        divergence.missing -= len(group.threads)
        self._reconverge(divergence)
        return False

    def _end(self, group: ThreadGroup) -> None:
        """Takes threads out that have ended: nobody waits for them any longer."""
        self.groups.remove(group)
        self.alive[group.cta] -= len(group.threads)
        divergence = group.divergence
        while divergence is not None:
            divergence.missing -= len(group.threads)
            outer = divergence.outer
            self._reconverge(divergence)
            divergence = outer

    def _diverge(self, group: ThreadGroup, targets: dict[int, list[int]]) -> None:
        """Threads part at the end of a block."""
        for target, child in zip(targets, self._split_off(group, targets.values()), strict=True):
            self._enter(child, target)

    def split(self, group: ThreadGroup, value: tuple[int | None, ...]) -> None:
        """Threads for which *value* differs go on one by one from where they are."""
        positions: dict[int | None, list[int]] = {}
        for position, v in enumerate(value):
            positions.setdefault(v, []).append(position)
        for child in self._split_off(group, positions.values()):
            child.block, child.at = group.block, group.at

    def _split_off(self, group: ThreadGroup, parts: Iterable[list[int]]) -> list[ThreadGroup]:
        """The groups that the threads of one make, of which the places are given."""
        self._end_epoch(group)
        reconvergence = self.cfg.ipdom.get(group.block, -1)
        divergence = DivergencePoint(
            reconvergence, group.divergence, group.registers, group.threads, len(group.threads)
        )
        self.groups.remove(group)
        children = []
        for positions in parts:
            registers = Registers(group.registers, positions)
            threads = tuple(map(group.threads.__getitem__, positions))
            child = ThreadGroup(
                group.cta, threads, registers, BOTTOM, divergence=divergence, cluster=group.cluster
            )
            child.clock, child.fenced, child.unfenced = map(
                group.clocks_of, (group.clock, group.fenced, group.unfenced), repeat(child)
            )
            child.own = self._own_clock(group, child.warps)
            child.committed, child.waited = group.committed, group.waited
            children.append(child)
        self.groups += children
        return children

    def _reconverge(self, divergence: DivergencePoint) -> None:
        """Those who parted meet again, as far as they have not ended."""
        if divergence.missing or not divergence.parked or divergence.released:
            return
        parts, divergence.parked = divergence.parked, []
        first = parts[0]
        threads, positions = self._merge_threads([part.threads for part in parts])
        for part in parts if len(parts) > 1 else ():
            self._end_epoch(part)
        held = [(where, part.registers) for where, part in zip(positions, parts, strict=True)]
        before = divergence.before
        if threads == divergence.threads:
            registers = before.copy()
        else:  # some have ended
            index = {t: i for i, t in enumerate(divergence.threads)}
            registers = Registers(before, [index[t] for t in threads])
        written = {r for part in parts for r in part.registers.written(before)}
        registers.meet(written, _MergedRegisters(held, len(threads)))
        whole = ThreadGroup(
            first.cta,
            threads,
            registers,
            BOTTOM,
            block=divergence.reconvergence,
            divergence=divergence.outer,
            cluster=first.cluster,
        )
        whole.own = reduce(join, [part.own for part in parts])
        whole.clock, whole.fenced, whole.unfenced = (
            reconverge_clocks([(part.warps, observed(part)) for part in parts], whole.warps)
            for observed in _CLOCKS
        )
        for part in parts:
            both = {k: _committed(whole.committed.get(k, ()), c) for k, c in part.committed.items()}
            whole.committed = {**whole.committed, **both}
            whole.waited = {**whole.waited, **part.waited}
        self.groups.append(whole)
        self._enter(whole, divergence.reconvergence)

    def _merge_threads(self, parts: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[list[int]]]:
        """All threads of some *parts*, and the places of each part among them."""
        key = tuple(parts)
        if key not in self.program.merged_threads:
            threads = tuple(sorted(chain.from_iterable(parts)))
            at = dict(zip(threads, range(len(threads)), strict=True))
            self.program.merged_threads[key] = threads, [list(map(at.__getitem__, part)) for part in parts]
        return self.program.merged_threads[key]

    # ------------------------------------------------------------ clocks

    def agent(self, kind: str, cta: int, threads: tuple[int, ...] = (), mbarrier: int = -1) -> Agent:
        """The engine of a *kind* that works for *threads*, or for an *mbarrier*; "": the threads themselves."""
        key = kind, cta, threads, mbarrier
        found = self._agents.get(key)
        if found is None:
            warps = () if kind else warps_of(threads)
            parts = [self.agent("", cta, own) for own in _threads_by_warp(threads)] if len(warps) > 1 else ()
            found = self._agents[key] = Agent(len(self._agents), kind, cta, threads, parts)
            if len(warps) == 1:
                warp = cta, *warps
                self._warp_fields[warp] = self._warp_fields.get(warp, BOTTOM) + found.fields
        return found

    def _sub_agent(self, group: ThreadGroup, warps: Collection[int]) -> Agent:
        """The threads of a group that are in some of its *warps*."""
        if len(warps) == len(group.warps):
            return self._agent(group)
        key = group.cta, group.threads, tuple(warps)
        if key not in self._sub_agents:
            self._sub_agents[key] = self.agent(
                "", group.cta, tuple(t for t in group.threads if t >> 5 in warps)
            )
        return self._sub_agents[key]

    def _own_clock(self, group: ThreadGroup, warps: Sequence[int]) -> Clock:
        """What some *warps* of a group have done themselves."""
        if len(warps) == len(group.warps):
            return group.own
        return group.own & field_mask(
            sum([self._warp_fields.get((group.cta, warp), BOTTOM) for warp in warps])
        )

    def _agent(self, group: ThreadGroup) -> Agent:
        if group.agent is None:
            group.agent = self.agent("", group.cta, group.threads)
        return group.agent

    def _end_epoch(self, group: ThreadGroup) -> None:
        """Others may hear from a group now; of what it does from now on they do not."""
        group.own = join(group.own, event(self._agent(group), self.time))
        self.time += 1

    def _release_clock(self, group: ThreadGroup, positions: Sequence[int]) -> Clock:
        """What the warps of the threads at *places* have heard of, and done, together."""
        warps = group.warps_at(positions)
        return join(join_all(select_warps(group.clock, group.warps, warps)), self._own_clock(group, warps))

    def _full_clocks(self, group: ThreadGroup) -> WarpClocks:
        """What each warp has heard of, and done."""
        warps = group.warps
        if len(warps) == 1 and isinstance(group.clock, int):
            return join(group.clock, group.own)
        return join_warps(group.clock, tuple(self._own_clock(group, (warp,)) for warp in warps))

    def _fence(self, group: ThreadGroup) -> None:
        """Orders what comes before with what comes behind (8.8)."""
        self._end_epoch(group)
        if self.program.relaxed:
            group.fenced = join_warps(self._full_clocks(group), group.unfenced)
            group.clock = join_warps(group.clock, group.unfenced)

    # ------------------------------------------------------------ operands

    def _operand(self, group: ThreadGroup, operand: Operand | None) -> Lanes:
        if isinstance(operand, int):
            return group.registers[operand]
        if isinstance(operand, Memory):
            base, offset = self._operand(group, operand.base), operand.offset
            if not offset or base is None:
                return base
            if isinstance(base, int):
                return base + offset & ALL_BITS
            return tuple([None if a is None else a + offset & ALL_BITS for a in base])
        if isinstance(operand, Immediate):
            return immediate(operand)
        if isinstance(operand, Symbol):
            return self.launch.address(operand.name, group.cta) + operand.offset
        if isinstance(operand, Special):
            return self.launch.special(operand.name, group.cta, group.threads)
        if isinstance(operand, Not):
            return apply(lambda p: 1 - p, [group.registers[operand.register]])
        return None

    def _role(self, group: ThreadGroup, step: Step, name: str, default: Lanes = None) -> Lanes:
        operand = step.instruction.role(name)
        return default if operand is None else self._operand(group, operand)

    def _set(self, group: ThreadGroup, register: int, value: Lanes, where: Lanes = 1) -> None:
        if where != 1:
            value = select(where, value, group.registers[register], len(group.threads))
        group.registers[register] = value
