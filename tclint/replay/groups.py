"""Threads that go the same way together: where they part at branches, where they meet again, who runs next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import chain, repeat
from operator import attrgetter
from typing import NamedTuple, NoReturn

from tclint.ir.nodes import Immediate, Memory, Not, Operand, Special, Symbol
from tclint.replay.abstract_lanes import EVERY, Lanes, apply, immediate, merge, pick, spread, take
from tclint.replay.launch import CANCELLED, Launch, Word
from tclint.replay.program import Program, Step
from tclint.replay.sync import Barrier, Mbarrier
from tclint.replay.vector_clocks import (
    NOTHING,
    Actor,
    Clock,
    Heard,
    among,
    both,
    event,
    every,
    joined,
    met,
    only,
    together,
)

__all__ = [
    "Group",
    "Groups",
    "Limits",
    "ManyRounds",
    "OutOfSteps",
    "Stuck",
    "Unmade",
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


class Unmade(Unresolved):
    """Threads name an mbarrier that none of them made: the launch is none of this kernel, or an address is not known."""

    def __init__(self, site: int, why: str, address: int = -1, made: Mapping[int, int] | None = None) -> None:
        super().__init__(site, why)
        self.address = address
        """Where they look for it, in the memory of whatever CTA; -1: in one that there is not."""
        self.made = made or {}
        """Where there are mbarriers by then, and which ``mbarrier.init`` has made each."""


class OutOfSteps(Exception):
    """The replay has been cut short: what it saw is true, and what would have come is not known."""


class ManyRounds(Exception):
    """A loop goes round more often than anybody has to see; other numbers for *words* would make it end earlier."""

    def __init__(self, words: frozenset[Word], excess: int = 0) -> None:
        super().__init__("a loop goes round many times")
        self.words = words
        self.excess = excess
        """How many times as often as need be the loop will go round, if that is foreseen; 0: it is not, and has gone round so often."""


class Limits(NamedTuple):
    """How long a replay may take."""

    steps: int
    settled: Collection[Word] = ()
    """Words of the launch that it is no use to change."""
    hasty: bool = False
    """It gives up as soon as a loop is seen to go round too often."""
    patience: int = 0
    """How many steps more it may take where no other numbers would make them fewer."""


class Stuck(NamedTuple):
    """Threads that wait for what does not come."""

    site: int
    threads: tuple[int, ...]
    what: Mbarrier | Barrier


class _Later:
    """What groups that met hold together, put together when somebody asks for it."""

    __slots__ = ("_parts", "_size")

    def __init__(self, parts: Sequence[tuple[Sequence[int], Registers]], size: int) -> None:
        self._parts = parts
        self._size = size

    def value(self, register: int) -> Lanes:
        """What *register* holds."""
        return merge([(places, part[register]) for places, part in self._parts], self._size)


class Registers(dict[int, Lanes]):
    """What the threads of a group hold: what was written, and else what there was where they parted.

    ``registers[number]`` tells it, and None where it is not known; what :class:`dict` itself knows was written since.
    """

    __slots__ = ("_seen", "met", "outer", "places")

    def __init__(self, outer: Registers | None = None, places: Sequence[int] = ()) -> None:
        self.outer = outer
        self.places = places
        """Of these threads among those of *outer*."""
        self.met: dict[int, _Later] = {}
        """What was written before threads met, and by nobody since."""
        self._seen: dict[int, Lanes] = {}

    def written(self, since: Registers) -> Iterator[int]:
        """What was written since threads parted that held *since*, behind whatever branches."""
        here: Registers | None = self
        while here is not None and here is not since:
            yield from here
            yield from here.met
            here = here.outer

    def __missing__(self, register: int) -> Lanes:
        if register in self.met:
            self[register] = value = self.met[register].value(register)
            return value
        outer = self.outer
        if outer is None:
            return None
        if register not in self._seen:
            self._seen[register] = take(outer[register], self.places)
        return self._seen[register]

    def copy(self) -> Registers:
        """The same, for threads that write to them next."""
        made = Registers(self.outer, self.places)
        made.update(self)
        made.met.update(self.met)
        return made

    def meet(self, written: Collection[int], together: _Later) -> None:
        """Takes in what was *written* by threads that met."""
        for register in written:
            self.pop(register, None)
        self.met.update(dict.fromkeys(written, together))


@dataclass(eq=False, slots=True)
class Fork:
    """Threads that parted at a branch, and where they meet again."""

    join: int
    outer: Fork | None
    before: Registers
    threads: tuple[int, ...]
    """All that parted."""
    missing: int
    """How many of them have neither come to the join nor ended."""
    parked: list[Group] = field(default_factory=list)
    apart: bool = False
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
def places_of(threads: tuple[int, ...]) -> tuple[Sequence[int], ...]:
    """The places of the threads of each warp among *threads*."""
    found: dict[int, list[int]] = {}
    for place, thread in enumerate(threads):
        found.setdefault(thread >> 5, []).append(place)
    return tuple(found.values())


def _by_warp(threads: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The threads of each warp."""
    return (tuple(map(threads.__getitem__, places)) for places in places_of(threads))


@dataclass(eq=False, slots=True)
class Group:
    """Threads of one CTA that go the same way together."""

    cta: int
    threads: tuple[int, ...]
    registers: Registers
    clock: Heard
    """What its warps have heard of."""
    own: Clock = NOTHING
    """What they have done, of which each knows what it has done itself."""
    block: int = 0
    at: int = 0
    fork: Fork | None = None
    waits: Callable[[], bool] | None = None
    """Tells whether what the group waits for has come."""
    stuck: Stuck | None = None
    asked: tuple[object, ...] = ()
    """The question about an mbarrier that was answered with no, if nothing was done since."""
    cluster: int = 0
    """The generation of the cluster barrier that it arrived for."""
    committed: Mapping[str, tuple[Clock, ...]] = field(default_factory=dict)
    """What each committed group of wgmma, or of bulk copies, completes with all before it; never changed once made."""
    waited: Mapping[int, int] = field(default_factory=dict)
    """Where it last waited for each mbarrier, by address, the latest last; never changed once made."""
    fenced: Heard = NOTHING
    """What had been heard of and done before the last fence: what a relaxed arrival tells."""
    actor: Actor | None = None
    rumours: Heard = NOTHING
    """What relaxed waits told: it is known behind the next fence."""
    warps: tuple[int, ...] = field(init=False)
    """The warps of which it has lanes."""

    def __post_init__(self) -> None:
        self.warps = warps_of(self.threads)

    def warps_at(self, places: Sequence[int]) -> tuple[int, ...]:
        """The warps of the threads at *places*."""
        if len(places) == len(self.threads):
            return self.warps
        return tuple(dict.fromkeys([self.threads[i] >> 5 for i in places]))

    def among(self, heard: Heard, some: Group) -> Heard:
        """What *some* of its threads have heard of what its own have."""
        return heard if isinstance(heard, int) else among(heard, self.warps, some.warps)

    def only(self, heard: Heard, places: Sequence[int]) -> Heard:
        """What is *heard* if none but the warps of the threads at *places* do."""
        return heard if len(places) == len(self.threads) else only(heard, self.warps, self.warps_at(places))


_KNOWN = attrgetter("clock"), attrgetter("fenced"), attrgetter("rumours")


def _committed(one: tuple[Clock, ...], other: tuple[Clock, ...]) -> tuple[Clock, ...]:
    """The groups that two parts of some threads have committed, the newest of both at the end.

    Who has committed nothing since they parted did not come by: one thread of many issues bulk copies.
    """
    more, fewer = sorted((one, other), key=len, reverse=True)
    if more[: len(fewer)] == fewer:
        return more
    apart = len(more) - len(fewer)
    return (*more[:apart], *map(joined, more[apart:], fewer))


class Groups:
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
        self._entered: dict[int, int] = {}
        self._rounds: dict[int, int] = {}
        """How often groups came to the header of a loop: from outside, and again."""
        self._before: dict[tuple[int, Actor], list[tuple[int, int]]] = {}
        """How far groups were from the end of a loop at the end of a round, and how many steps were left then."""
        self._asked: dict[tuple[int, int, int], int] = {}
        self._told: dict[tuple[int, int, int], int] = {}
        """How often each thread has asked whether a loop has rounds left for it, and what the first was told who asked so often."""
        self.uneven = False
        """Warps that share the rounds of a loop have not equally many of them."""
        self._actors: dict[tuple[object, ...], Actor] = {}
        self._lanes: dict[tuple[int, int], Clock] = {}
        """Of the actors that are lanes of a warp, by its CTA and its number: the first event of each."""
        self._parts: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Actor] = {}
        """Those of some threads that are in some warps."""
        self.time = 0
        """How often threads have told others something: so many events of them are over."""
        self.alive = dict.fromkeys(range(launch.shape.ranks), launch.shape.threads)
        self.groups = [
            Group(cta, tuple(range(launch.shape.threads)), Registers(), NOTHING)
            for cta in range(launch.shape.ranks)
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
        return progress or self._land() or self._part()

    def _land(self) -> bool:
        """Nobody can go on: what is under way completes; whether anything was."""
        raise NotImplementedError

    def _execute(self, group: Group, step: Step) -> bool:
        """Executes one instruction; whether the group goes on behind it."""
        raise NotImplementedError

    def _forks(self) -> list[Fork]:
        """Where the threads that are left have parted."""
        forks: dict[int, Fork] = {}
        for group in self.groups:
            fork = group.fork
            while fork is not None and id(fork) not in forks:
                forks[id(fork)] = fork
                fork = fork.outer
        return list(forks.values())

    def living(self) -> Iterator[Group]:
        """The groups that have not ended, those that are parked as well."""
        yield from self.groups
        for fork in self._forks():
            yield from fork.parked

    def _part(self) -> bool:
        """Threads that wait for others at the end of a branch go on without them."""
        parked = [f for f in self._forks() if f.parked]
        # Lanes of a warp go apart last: they meet again at instructions that all of them execute.
        for fork in [f for f in parked if not f.splits_a_warp] or parked:
            fork.apart = True
            groups, fork.parked = fork.parked, []
            for group in groups:
                self.groups.append(group)
                self._go(group, fork.join)
        return bool(parked)

    def _run(self, group: Group) -> None:
        """Executes a group until it waits, parks or ends."""
        while True:
            parts = self.program.parts(group.block)
            while group.at < len(parts):
                steps, sums, step = parts[group.at]
                self.budget -= steps
                if self.budget < 0:
                    self._give_up()
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
                self._give_up()
            if not self._leave(group):
                return

    # ------------------------------------------------------------ control flow

    def _leave(self, group: Group) -> bool:
        """Where the threads go at the end of a block; whether this group goes on."""
        block, program = group.block, self.program
        ways = self._ways(group, block) if block in program.branching else program.onward(block)
        if block in program.sharing:
            self._share(group, block, ways)
        if isinstance(ways, int):
            self._count(group, ways)
            return self._go(group, ways)
        for target in ways:
            self._count(group, target)
        if len(ways) > 1:
            self._fork(group, ways)
            return False
        return self._go(group, next(iter(ways)))

    def _share(self, group: Group, block: int, ways: int | dict[int, list[int]]) -> None:
        """Warps that share the rounds of a loop ask whether some are left: where all have equally many, all are told the same."""
        for target, places in {ways: None}.items() if isinstance(ways, int) else ways.items():
            for thread in group.threads if places is None else map(group.threads.__getitem__, places):
                asked = group.cta, block, thread
                self._asked[asked] = often = self._asked.get(asked, 0) + 1
                self.uneven |= self._told.setdefault((group.cta, block, often), target) != target

    def _count(self, group: Group, target: int) -> None:
        """A group comes to the header of a loop, perhaps once more than anybody has to see."""
        body = self.cfg.loops.get(target)
        if body is None:
            return
        if group.block not in body:
            self._entered[target] = self._entered.get(target, 0) + 1
            return
        self._rounds[target] = self._rounds.get(target, 0) + 1
        if self._average(target) > _MANY and not self.program.bounds[target].issubset(self.limits.settled):
            self._shorten(target)
        self._foresee(group, target)

    def _foresee(self, group: Group, header: int) -> None:
        """Asks for other numbers as soon as a loop is seen to have far more rounds ahead than need be, or than there are steps for.

        How far it is from its end, the test says at which each round ends: what is compared there comes nearer.
        """
        words = self.program.bounds[header]
        test = self.program.tests.get(group.block)
        if not self.limits.hasty or test is None or words.issubset(self.limits.settled):
            return
        a, b = (take(self._operand(group, o), (0,)) for o in (test.a, test.b))
        if not isinstance(a, int) or not isinstance(b, int):
            return
        distance = min(a - b & (1 << test.bits) - 1, b - a & (1 << test.bits) - 1)
        rounds = self._before.setdefault((header, self._actor(group)), [])
        rounds.append((distance, self.budget))
        if len(rounds) < _SOME:
            return
        (_, first), (before, second), (now, third) = rounds[-_SOME:]
        if now < before:
            ahead = now // (before - now)
            steps = self.limits.steps - self.budget + ahead * min(first - second, second - third)
            excess = max(steps // self.limits.steps, ahead // _MANY)
            if excess >= _FAR:
                raise ManyRounds(words, excess)

    @property
    def repeated(self) -> frozenset[int]:
        """The loops that groups went round again, by their headers."""
        return frozenset(self._rounds)

    @property
    def way(self) -> tuple[object, ...]:
        """How often loops went round: replays in which they do so equally often went the same way."""
        return self.budget, self._rounds, self._entered

    @property
    def longest(self) -> int:
        """Where the loop begins that groups went round most often; -1: none more often than has to be seen."""
        header = max(self._rounds, key=self._average, default=-1)
        often = header >= 0 and self._average(header) > _SOME
        return self.cfg.blocks[header].start if often else -1

    def _average(self, header: int) -> float:
        """How often groups went round a loop."""
        return self._rounds[header] / self._entered.get(header, 1)

    def _shorten(self, header: int) -> NoReturn:
        """Asks for numbers with which a loop goes round less often, and those that go round about as often with it."""
        often = self._average(header) / 2
        words = (self.program.bounds[h] for h in self._rounds if self._average(h) >= often)
        raise ManyRounds(frozenset().union(*words))

    def _give_up(self) -> None:
        """There are no steps left: the loops go round too often, or the kernel is large and needs more of them.

        Raises ManyRounds in the one case, and OutOfSteps in the other when patience is at its end, too.
        """
        # Of the steps that are executed at once, those are still to come for which there are none.
        ahead, self.budget = -1 - self.budget, -1
        bounds = self.program.bounds
        open_ = [
            h
            for h in self._rounds
            if self._average(h) > _SOME and not bounds[h].issubset(self.limits.settled)
        ]
        if open_:
            self._shorten(max(open_, key=self._average))
        if self.program.answered and self.launch.numbers.cancelled:
            raise ManyRounds(frozenset((CANCELLED,)))
        more = self.limits.patience
        if not more:
            raise OutOfSteps
        self.budget += more - ahead
        self.limits = self.limits._replace(steps=self.limits.steps + more, patience=0)

    def _ways(self, group: Group, block: int) -> int | dict[int, list[int]]:
        """The block that all threads go to, or each with the places of those who do; -1 is the end."""
        branch = self.program.branch(block)
        site, size = branch.site, len(group.threads)
        if block in self.program.dispatching and block not in self.program.sharing:
            raise Unresolved(site, "which threads go where depends on what comes with the launch")
        guard: Lanes = 1 if branch.guard < 0 else group.registers[branch.guard]
        if guard is None:
            guard = self._likely(block)
        case = -1 if branch.selector is None else self._operand(group, branch.selector)
        taken, other, negated = branch.taken, branch.other, branch.negated
        if isinstance(guard, int) and isinstance(case, int):
            return taken.get(case, -1) if guard ^ negated else other
        key = block, guard, case
        found = self.program.parted.get(key)
        if found is not None:
            return found
        ways: dict[int, list[int]] = {}
        for place, (p, k) in enumerate(zip(spread(guard, size), spread(case, size), strict=True)):
            if p is None or k is None:
                raise Unresolved(site, "a branch depends on what is not known")
            ways.setdefault(taken.get(k, -1) if p ^ negated else other, []).append(place)
        self.program.parted[key] = ways
        return ways

    def _likely(self, block: int) -> Lanes:
        """What an unknown condition is taken to be: that which does not lead to a trap; None: either may be."""
        instructions, cfg = self.program.instructions, self.cfg
        good = [e for e in cfg.successors[block] if instructions[cfg.blocks[e.target].end - 1].flow != "trap"]
        if len(good) == 1 and good[0].predicate >= 0:
            return int(good[0].value)
        return None

    def _go(self, group: Group, target: int) -> bool:
        """Moves a group to the start of a block; whether it goes on from there: it may have to wait for others, or to end."""
        if target < 0:
            self._end(group)
            return False
        group.block, group.at = target, 0
        self.entered.add(target)
        while group.fork is not None and group.fork.join == target and group.fork.apart:
            group.fork = group.fork.outer
        fork = group.fork
        if fork is None or fork.join != target:
            return True
        self.groups.remove(group)
        fork.parked.append(group)
        fork.missing -= len(group.threads)
        self._join(fork)
        return False

    def _end(self, group: Group) -> None:
        """Takes threads out that have ended: nobody waits for them any longer."""
        self.groups.remove(group)
        self.alive[group.cta] -= len(group.threads)
        fork = group.fork
        while fork is not None:
            fork.missing -= len(group.threads)
            outer = fork.outer
            self._join(fork)
            fork = outer

    def _fork(self, group: Group, ways: dict[int, list[int]]) -> None:
        """Threads part at the end of a block."""
        for target, child in zip(ways, self._part_from(group, ways.values()), strict=True):
            self._go(child, target)

    def split(self, group: Group, value: tuple[int | None, ...]) -> None:
        """Threads for which *value* differs go on one by one from where they are."""
        places: dict[int | None, list[int]] = {}
        for place, v in enumerate(value):
            places.setdefault(v, []).append(place)
        for child in self._part_from(group, places.values()):
            child.block, child.at = group.block, group.at

    def _part_from(self, group: Group, parts: Iterable[list[int]]) -> list[Group]:
        """The groups that the threads of one make, of which the places are given."""
        self._publish(group)
        join = self.cfg.ipdom.get(group.block, -1)
        fork = Fork(join, group.fork, group.registers, group.threads, len(group.threads))
        self.groups.remove(group)
        children = []
        for places in parts:
            registers = Registers(group.registers, places)
            threads = tuple(map(group.threads.__getitem__, places))
            child = Group(group.cta, threads, registers, NOTHING, fork=fork, cluster=group.cluster)
            child.clock, child.fenced, child.rumours = map(
                group.among, (group.clock, group.fenced, group.rumours), repeat(child)
            )
            child.own = self._own(group, child.warps)
            child.committed, child.waited = group.committed, group.waited
            children.append(child)
        self.groups += children
        return children

    def _join(self, fork: Fork) -> None:
        """Those who parted meet again, as far as they have not ended."""
        if fork.missing or not fork.parked or fork.apart:
            return
        parts, fork.parked = fork.parked, []
        first = parts[0]
        threads, places = self._gathered([part.threads for part in parts])
        for part in parts if len(parts) > 1 else ():
            self._publish(part)
        held = [(where, part.registers) for where, part in zip(places, parts, strict=True)]
        before = fork.before
        if threads == fork.threads:
            registers = before.copy()
        else:  # some have ended
            index = {t: i for i, t in enumerate(fork.threads)}
            registers = Registers(before, [index[t] for t in threads])
        written = {r for part in parts for r in part.registers.written(before)}
        registers.meet(written, _Later(held, len(threads)))
        whole = Group(
            first.cta, threads, registers, NOTHING, block=fork.join, fork=fork.outer, cluster=first.cluster
        )
        whole.own = reduce(joined, [part.own for part in parts])
        whole.clock, whole.fenced, whole.rumours = (
            met([(part.warps, heard(part)) for part in parts], whole.warps) for heard in _KNOWN
        )
        for part in parts:
            both = {k: _committed(whole.committed.get(k, ()), c) for k, c in part.committed.items()}
            whole.committed = {**whole.committed, **both}
            whole.waited = {**whole.waited, **part.waited}
        self.groups.append(whole)
        self._go(whole, fork.join)

    def _gathered(self, parts: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[list[int]]]:
        """All threads of some *parts*, and the places of each part among them."""
        key = tuple(parts)
        if key not in self.program.gathered:
            threads = tuple(sorted(chain.from_iterable(parts)))
            at = dict(zip(threads, range(len(threads)), strict=True))
            self.program.gathered[key] = threads, [list(map(at.__getitem__, part)) for part in parts]
        return self.program.gathered[key]

    # ------------------------------------------------------------ clocks

    def actor(self, kind: str, cta: int, threads: tuple[int, ...] = (), mbarrier: int = -1) -> Actor:
        """The engine of a *kind* that works for *threads*, or for an *mbarrier*; "": the threads themselves."""
        key = kind, cta, threads, mbarrier
        found = self._actors.get(key)
        if found is None:
            warps = () if kind else warps_of(threads)
            parts = [self.actor("", cta, own) for own in _by_warp(threads)] if len(warps) > 1 else ()
            found = self._actors[key] = Actor(len(self._actors), kind, cta, threads, parts)
            if len(warps) == 1:
                warp = cta, *warps
                self._lanes[warp] = self._lanes.get(warp, NOTHING) + found.fields
        return found

    def _some(self, group: Group, warps: Collection[int]) -> Actor:
        """The threads of a group that are in some of its *warps*."""
        if len(warps) == len(group.warps):
            return self._actor(group)
        key = group.cta, group.threads, tuple(warps)
        if key not in self._parts:
            self._parts[key] = self.actor("", group.cta, tuple(t for t in group.threads if t >> 5 in warps))
        return self._parts[key]

    def _own(self, group: Group, warps: Sequence[int]) -> Clock:
        """What some *warps* of a group have done themselves."""
        if len(warps) == len(group.warps):
            return group.own
        return group.own & every(sum([self._lanes.get((group.cta, warp), NOTHING) for warp in warps]))

    def _actor(self, group: Group) -> Actor:
        if group.actor is None:
            group.actor = self.actor("", group.cta, group.threads)
        return group.actor

    def _publish(self, group: Group) -> None:
        """Others may hear from a group now; of what it does from now on they do not."""
        group.own = joined(group.own, event(self._actor(group), self.time))
        self.time += 1

    def _say(self, group: Group, places: Sequence[int]) -> Clock:
        """What the warps of the threads at *places* have heard of, and done, together."""
        warps = group.warps_at(places)
        return joined(together(among(group.clock, group.warps, warps)), self._own(group, warps))

    def _known(self, group: Group) -> Heard:
        """What each warp has heard of, and done."""
        warps = group.warps
        if len(warps) == 1 and isinstance(group.clock, int):
            return joined(group.clock, group.own)
        return both(group.clock, tuple(self._own(group, (warp,)) for warp in warps))

    def _fence(self, group: Group) -> None:
        """Orders what comes before with what comes behind (8.8)."""
        self._publish(group)
        if self.program.relaxed:
            group.fenced = both(self._known(group), group.rumours)
            group.clock = both(group.clock, group.rumours)

    # ------------------------------------------------------------ operands

    def _operand(self, group: Group, operand: Operand | None) -> Lanes:
        if isinstance(operand, int):
            return group.registers[operand]
        if isinstance(operand, Memory):
            base, offset = self._operand(group, operand.base), operand.offset
            if not offset or base is None:
                return base
            if isinstance(base, int):
                return base + offset & EVERY
            return tuple([None if a is None else a + offset & EVERY for a in base])
        if isinstance(operand, Immediate):
            return immediate(operand)
        if isinstance(operand, Symbol):
            return self.launch.address(operand.name, group.cta) + operand.offset
        if isinstance(operand, Special):
            return self.launch.special(operand.name, group.cta, group.threads)
        if isinstance(operand, Not):
            return apply(lambda p: 1 - p, [group.registers[operand.register]])
        return None

    def _role(self, group: Group, step: Step, name: str, default: Lanes = None) -> Lanes:
        operand = step.instruction.role(name)
        return default if operand is None else self._operand(group, operand)

    def _set(self, group: Group, register: int, value: Lanes, where: Lanes = 1) -> None:
        if where != 1:
            value = pick(where, value, group.registers[register], len(group.threads))
        group.registers[register] = value
