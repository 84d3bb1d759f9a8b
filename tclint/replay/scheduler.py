"""Thread groups: threads of one CTA that execute the same path together, where they diverge and reconverge, which runs
next.

Threads diverge where a branch depends on the thread and reconverge at the immediate post-dominator of the branch. If
other threads need them earlier, they continue without reconverging: warps first, then lanes of a warp. A group runs
until it waits, reconverges or exits; after each successful wait the others run first. This is one schedule. It is
enough, as what counts is the order that clocks establish, not the order of this run (``races``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain, compress
from typing import NoReturn

from tclint._named_tuple import NamedTuple
from tclint.ir.nodes import Immediate, Memory, Not, Operand, Special, Symbol
from tclint.replay import hypotheses
from tclint.replay.abstract_lanes import ALL_BITS, Lanes, broadcast, gather, immediate, negated, select
from tclint.replay.epochs import Epochs
from tclint.replay.hypotheses import CANCELLED, LaunchWord
from tclint.replay.launch import ReplayLaunch
from tclint.replay.program import ReplaySlice
from tclint.replay.reasons import NotReplayed
from tclint.replay.steps import ReplayStep, Sync
from tclint.replay.thread_groups import (
    DivergencePoint,
    GroupRegisters,
    MergedRegisters,
    Stuck,
    ThreadGroup,
    committed_groups,
)
from tclint.replay.vector_clocks import (
    BOTTOM,
    Agent,
    join,
    join_warps,
    reconverge_clocks,
)

__all__ = [
    "Limits",
    "OutOfSteps",
    "ThreadGroupScheduler",
    "TooManyIterations",
    "TooManyMbarriers",
    "UninitialisedMbarrier",
    "Unresolved",
]


class Unresolved(Exception):
    """The replay cannot continue: the instruction at *site* depends on an unknown value."""

    def __init__(self, site: int, why: NotReplayed) -> None:
        super().__init__(why)
        self.site = site
        self.why = why


class UninitialisedMbarrier(Unresolved):
    """Threads use an address where no mbarrier was initialised: the kernel is not made for this launch, or is faulty."""

    def __init__(
        self, site: int, why: NotReplayed, address: int = -1, made: Mapping[int, int] | None = None
    ) -> None:
        super().__init__(site, why)
        self.address = address
        """The offset of the address in shared memory; -1: the CTA does not exist."""
        self.made = made or {}
        """The mbarriers that exist: the ``mbarrier.init`` of each, by offset."""


class OutOfSteps(Exception):
    """The steps are used up. What was observed is true; what would have followed is unknown."""


class TooManyIterations(Exception):
    """A loop iterates more often than need be. Smaller values for *words* would end it earlier."""

    def __init__(self, words: frozenset[LaunchWord], excess: int = 0) -> None:
        super().__init__("a loop has too many iterations")
        self.words = words
        self.excess = excess
        """By what factor the extrapolated trip count is too large; 0: it was not extrapolated, the loop has iterated
        too often.
        """


class TooManyMbarriers(Exception):
    """A loop initialises one mbarrier over another at *site*. With smaller values for *words* it initialises fewer."""

    def __init__(self, site: int, words: frozenset[LaunchWord]) -> None:
        super().__init__("a ring has more mbarriers than there is room for")
        self.site = site
        self.words = words


class Limits(NamedTuple):
    """The budgets of one replay."""

    steps: int
    irreducible: Collection[LaunchWord] = ()
    """Words of the launch whose reduction has no effect."""
    extrapolates: bool = False
    """Whether trip counts are extrapolated from the first iterations."""
    extra_steps: int = 0
    """Further steps if no reduction would shorten the replay."""


def _targets(targets: int | dict[int, list[int]], threads: int) -> list[int]:
    """Where each of so many threads continues."""
    if isinstance(targets, int):
        return [targets] * threads
    return [target for _, target in sorted((p, t) for t, positions in targets.items() for p in positions)]


def _never() -> bool:
    return False


class ThreadGroupScheduler(ABC):
    """The threads of a cluster: their positions in the code, registers and clocks, and the order in which they run."""

    def __init__(self, program: ReplaySlice, launch: ReplayLaunch, limits: Limits) -> None:
        self.program = program
        self.model = program.model
        self.cfg = program.model.cfg
        self.launch = launch
        self.limits = limits
        self.budget = limits.steps
        """Steps that are left."""
        self.entered = {0}
        """The blocks that were executed."""
        self._loop_entries: dict[int, int] = {}
        self._iterations: dict[int, int] = {}
        """How often groups entered each loop from outside, and how often they reached its header again."""
        self._distances: dict[tuple[int, Agent], list[tuple[int, int]]] = {}
        """For each back edge that was taken, how far the compared values were apart, and the steps left then."""
        self._loop_tests: dict[tuple[int, int, int], int] = {}
        self._loop_answers: dict[tuple[int, int, int, int], object] = {}
        """How often each thread was compared with a value of the launch, and the answer of the first one that was as often:
        in the CTA, and in each warp.
        """
        self.parts_lanes = False
        """A value of the launch decides for which lanes of a warp a branch is taken."""
        self.uneven = False
        """Warps that share the iterations of a loop have different trip counts."""
        self.dispatched = False
        """Threads were compared with a value of the launch, and all of them took the same branch."""
        self._polling: list[tuple[ThreadGroup, int]] = []
        """The groups that poll memory, each with the block where it continues."""
        self.epochs = Epochs(program)
        self._clocks = ("clock", "fenced", "fenced_cluster", "unfenced") if program.relaxed else ("clock",)
        """What each warp of a group has acquired and released. Without relaxed operations fences are not followed."""
        self.alive = dict.fromkeys(range(launch.shape.ranks), launch.shape.threads)
        self.groups = [
            ThreadGroup(cta, tuple(range(launch.shape.threads)), GroupRegisters(), BOTTOM)
            for cta in range(launch.shape.ranks)
        ]

    @property
    def spent(self) -> int:
        """Steps that were executed."""
        return self.limits.steps - max(self.budget, 0)

    # ------------------------------------------------------------ scheduling

    def run(self) -> list[Stuck]:
        """Executes until all threads have exited or are blocked. Returns those that are blocked."""
        try:
            while self.groups and self._step():
                self.model.pause()
            return [g.stuck for g in self.groups if g.stuck is not None]
        finally:
            for group in self.groups:
                group.waits = None  # it refers to all other groups: break the cycle

    def _step(self) -> bool:
        """Runs each group that can continue. Returns whether anything happened."""
        progress = False
        for group in list(self.groups):
            if group.waits is not None:
                if not group.waits():
                    continue
                group.waits = group.stuck = None
            self._run(group)
            progress = True
        return progress or self._complete_transfers() or self._end_polls() or self._release_parked()

    @abstractmethod
    def _complete_transfers(self) -> bool:
        """No thread can continue: completes pending operations. Returns whether any was pending."""

    def _end_polls(self) -> bool:
        """Ends the loop in which a group polls memory, as no thread can continue otherwise. Returns whether any polls.

        The group observes all that happened: it may have waited for any of it, or have acquired a lock.
        """
        if not self._polling:
            return False
        group, target = self._polling.pop(0)
        group.waits = None
        group.clock = join_warps(group.clock, self.epochs.all_events())
        self._enter(group, target)
        return True

    @abstractmethod
    def _execute(self, group: ThreadGroup, step: ReplayStep) -> bool:
        """Executes one instruction. Returns whether the group continues after it."""

    def _divergence_points(self) -> list[DivergencePoint]:
        """Where the remaining threads have diverged."""
        points: dict[int, DivergencePoint] = {}
        for group in self.groups:
            divergence = group.divergence
            while divergence is not None and id(divergence) not in points:
                points[id(divergence)] = divergence
                divergence = divergence.outer
        return list(points.values())

    def living(self) -> Iterator[ThreadGroup]:
        """The groups that have not exited, including parked ones."""
        yield from self.groups
        for divergence in self._divergence_points():
            yield from divergence.parked

    def _release_parked(self) -> bool:
        """Lets threads that wait for reconvergence continue without it. Returns whether there were any."""
        parked = [f for f in self._divergence_points() if f.parked]
        # Lanes of a warp are released last: an instruction that all of them execute may follow.
        for divergence in [f for f in parked if not f.splits_a_warp] or parked:
            divergence.released = True
            groups, divergence.parked = divergence.parked, []
            for group in groups:
                self.groups.append(group)
                self._enter(group, divergence.reconvergence)
        return bool(parked)

    def _run(self, group: ThreadGroup) -> None:
        """Executes a group until it waits, reconverges or exits."""
        while True:
            parts, registers = self.program.plans.batches(group.block), group.registers
            for at in range(group.at, len(parts)):
                steps, sums, step = parts[at]
                self.budget -= steps
                if self.budget < 0:
                    self._extend_or_stop()
                for held, results, destination in sums:
                    registers[destination] = results[held(registers)]
                if step is None:
                    continue
                group.at = at
                if not self._execute(group, step):
                    return
                if step.what is Sync.TEST:
                    group.at = at + 1
                    return  # others run before it reaches the next phase
            self.budget -= 1
            if self.budget < 0:
                self._extend_or_stop()
            if not self._leave_block(group):
                return

    # ------------------------------------------------------------ control flow

    def _leave_block(self, group: ThreadGroup) -> bool:
        """Executes the branch at the end of a block. Returns whether this group continues."""
        block, program = group.block, self.program
        if block in program.loops.poll_exits:
            group.waits = _never
            self._polling.append((group, program.loops.poll_exits[block]))
            return False
        targets = (
            self._successors(group, block)
            if block in program.branching
            else program.plans.reconvergence(block)
        )
        if block in program.dispatch.blocks:
            if not self._answers_agree(group, block, targets):
                if block not in program.dispatch.sharing and not self.launch.values.roles_vary:
                    raise Unresolved(program.plans.branch(block).site, NotReplayed.ROLES_FROM_LAUNCH)
                self.uneven |= block in program.dispatch.sharing
            self.dispatched |= block not in program.dispatch.sharing
        if isinstance(targets, int):
            self._count_iteration(group, targets)
            return self._enter(group, targets)
        for target in targets:
            self._count_iteration(group, target)
        if len(targets) > 1:
            self._diverge(group, targets)
            return False
        return self._enter(group, next(iter(targets)))

    def _answers_agree(self, group: ThreadGroup, block: int, targets: int | dict[int, list[int]]) -> bool:
        """Whether a group gets the answers that others have got when they executed a branch as often."""
        agree, tests = True, self.program.dispatch.tests(block)
        held = [broadcast(group.registers[test], len(group.threads)) for test in tests]
        answers: Iterable[object] = zip(*held, strict=True) if held else _targets(targets, len(group.threads))
        for thread, answer in zip(group.threads, answers, strict=True):
            key = group.cta, block, thread
            self._loop_tests[key] = times = self._loop_tests.get(key, 0) + 1
            agree &= self._loop_answers.setdefault((group.cta, -1, block, times), answer) == answer
            warp = group.cta, thread >> 5, block, times
            self.parts_lanes |= self._loop_answers.setdefault(warp, answer) != answer
        return agree

    def _count_iteration(self, group: ThreadGroup, target: int) -> None:
        """Counts an iteration of a loop, and stops the replay if there have been enough."""
        body = self.cfg.loops.get(target)
        if body is None:
            return
        if group.block not in body:
            self._loop_entries[target] = self._loop_entries.get(target, 0) + 1
            return
        self._iterations[target] = self._iterations.get(target, 0) + 1
        if self._average(target) > hypotheses.MAX_ITERATIONS.value and not self.program.loops.bounds[
            target
        ].issubset(self.limits.irreducible):
            self._request_fewer_iterations(target)
        self._extrapolate_trip_count(group, target)

    def _extrapolate_trip_count(self, group: ThreadGroup, header: int) -> None:
        """Stops the replay as soon as a loop has far more iterations ahead than need be, or than there are steps for.

        The values that the back edge compares approach each other; their distance in the last iterations gives the
        trip count.
        """
        words = self.program.loops.bounds[header]
        test = self.program.loops.tests.get(group.block)
        if not self.limits.extrapolates or test is None or words.issubset(self.limits.irreducible):
            return
        a, b = (gather(self.operand(group, o), (0,)) for o in (test.a, test.b))
        if not isinstance(a, int) or not isinstance(b, int):
            return
        distance = min(a - b & (1 << test.bits) - 1, b - a & (1 << test.bits) - 1)
        iterations = self._distances.setdefault((header, self.epochs.agent_of(group)), [])
        iterations.append((distance, self.budget))
        if len(iterations) < hypotheses.MIN_ITERATIONS.value:
            return
        (_, first), (before, second), (now, third) = iterations[-3:]
        if now < before:
            ahead = now // (before - now)
            steps = self.limits.steps - self.budget + ahead * min(first - second, second - third)
            excess = max(steps // self.limits.steps, ahead // hypotheses.MAX_ITERATIONS.value)
            if excess >= hypotheses.MIN_EXCESS.value:
                raise TooManyIterations(words, excess)

    @property
    def repeated(self) -> frozenset[int]:
        """The headers of loops that were executed more than once."""
        return frozenset(self._iterations)

    @property
    def iteration_counts(self) -> tuple[object, ...]:
        """The counts of steps and iterations: replays in which they are equal have taken the same paths."""
        return self.budget, self._iterations, self._loop_entries

    @property
    def longest_loop(self) -> int:
        """The start of the loop with the most iterations; -1: no loop has more than a few."""
        header = max(self._iterations, key=self._average, default=-1)
        often = header >= 0 and self._average(header) > hypotheses.MIN_ITERATIONS.value
        return self.cfg.blocks[header].start if often else -1

    def _average(self, header: int) -> float:
        """How often a loop iterated for each time that it was entered."""
        return self._iterations[header] / self._loop_entries.get(header, 1)

    def _request_fewer_iterations(self, header: int) -> NoReturn:
        """Stops the replay for values with which a loop, and those with about as many iterations, iterate less often."""
        often = self._average(header) / 2
        words = (self.program.loops.bounds[h] for h in self._iterations if self._average(h) >= often)
        raise TooManyIterations(frozenset().union(*words))

    def _extend_or_stop(self) -> None:
        """Extends an exhausted budget, or stops the replay.

        Raises TooManyIterations if smaller values would end a loop earlier, and OutOfSteps if the extra steps are
        used up too.
        """
        # Of steps that are executed together, some are beyond the budget.
        ahead, self.budget = -1 - self.budget, -1
        bounds = self.program.loops.bounds
        open_ = [
            h
            for h in self._iterations
            if self._average(h) > hypotheses.MIN_ITERATIONS.value
            and not bounds[h].issubset(self.limits.irreducible)
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
        """The block where all threads continue, or the positions of the threads that continue at each; -1: exit."""
        branch = self.program.plans.branch(block)
        site, size = branch.site, len(group.threads)
        guard: Lanes = 1 if branch.guard < 0 else group.registers[branch.guard]
        if guard is None:
            guard = self._non_trapping_value(block)
        case = -1 if branch.selector is None else self.operand(group, branch.selector)
        taken, other = branch.taken, branch.other
        if isinstance(guard, int) and isinstance(case, int):
            return taken.get(case, -1) if guard ^ branch.negated else other
        key = block, guard, case
        found = self.program.plans.divergences.get(key)
        if found is not None:
            return found
        decided = [*zip(broadcast(guard, size), broadcast(case, size), strict=True)]
        target_of: dict[tuple[int | None, int | None], int] = {}
        for p, k in dict.fromkeys(decided):
            if p is None or k is None:
                raise Unresolved(site, NotReplayed.UNKNOWN_BRANCH)
            target_of[p, k] = taken.get(k, -1) if p ^ branch.negated else other
        each = [*map(target_of.__getitem__, decided)]
        targets = {
            target: [*compress(range(size), map(target.__eq__, each))] for target in dict.fromkeys(each)
        }
        self.program.plans.divergences[key] = targets
        return targets

    def _non_trapping_value(self, block: int) -> Lanes:
        """The value of an unknown condition for which threads do not trap; None: either may be."""
        instructions, cfg = self.program.instructions, self.cfg
        good = [e for e in cfg.successors[block] if instructions[cfg.blocks[e.target].end - 1].flow != "trap"]
        if len(good) == 1 and good[0].predicate >= 0:
            return int(good[0].value)
        return None

    def _enter(self, group: ThreadGroup, target: int) -> bool:
        """Moves a group to the start of a block.

        Returns whether it continues there: it may wait for reconvergence, or exit.
        """
        if target < 0:
            last = self.cfg.blocks[group.block].end - 1
            if self.program.instructions[last].flow == "trap":
                raise Unresolved(last, NotReplayed.ABORTED)
            self._end(group)
            return False
        group.block, group.at = target, 0
        self.entered.add(target)
        divergence = group.divergence
        while divergence is not None and divergence.reconvergence == target and divergence.released:
            divergence = group.divergence = divergence.outer
        if divergence is None or divergence.reconvergence != target:
            return True
        self.groups.remove(group)
        divergence.parked.append(group)
        divergence.missing -= len(group.threads)
        self._reconverge(divergence)
        return False

    def _end(self, group: ThreadGroup) -> None:
        """Removes threads that have exited: others no longer wait for them."""
        self.groups.remove(group)
        self.alive[group.cta] -= len(group.threads)
        divergence = group.divergence
        while divergence is not None:
            divergence.missing -= len(group.threads)
            outer = divergence.outer
            self._reconverge(divergence)
            divergence = outer

    def _diverge(self, group: ThreadGroup, targets: dict[int, list[int]]) -> None:
        """Splits a group at the end of a block."""
        for target, child in zip(targets, self._split_off(group, targets.values()), strict=True):
            self._enter(child, target)

    def split(self, group: ThreadGroup, value: tuple[int | None, ...]) -> None:
        """Splits a group before an instruction by a *value* that differs between its threads."""
        positions: dict[int | None, list[int]] = {}
        for position, v in enumerate(value):
            positions.setdefault(v, []).append(position)
        for child in self._split_off(group, positions.values()):
            child.block, child.at = group.block, group.at

    def _split_off(self, group: ThreadGroup, parts: Iterable[list[int]]) -> list[ThreadGroup]:
        """Splits a group into *parts*, given by the positions of their threads."""
        self.epochs.end(group)
        reconvergence = self.cfg.ipdom.get(group.block, -1)
        divergence = DivergencePoint(
            reconvergence, group.divergence, group.registers, group.threads, len(group.threads)
        )
        self.groups.remove(group)
        children = []
        for positions in parts:
            registers = GroupRegisters(group.registers, positions)
            threads = tuple(map(group.threads.__getitem__, positions))
            child = ThreadGroup(
                group.cta, threads, registers, BOTTOM, divergence=divergence, cluster=group.cluster
            )
            for name in self._clocks:
                setattr(child, name, group.clocks_of(getattr(group, name), child))
            child.own = self.epochs.own_clock(group, child.warps)
            child.committed, child.waited = group.committed, group.waited
            children.append(child)
        self.groups += children
        return children

    def _reconverge(self, divergence: DivergencePoint) -> None:
        """Merges the groups that have diverged, as far as their threads have not exited."""
        if divergence.missing or not divergence.parked or divergence.released:
            return
        parts, divergence.parked = divergence.parked, []
        first = parts[0]
        threads, positions = self._merge_threads([part.threads for part in parts])
        for part in parts if len(parts) > 1 else ():
            self.epochs.end(part)
        held = [(where, part.registers) for where, part in zip(positions, parts, strict=True)]
        before = divergence.before
        if threads == divergence.threads:
            registers = before.copy()
        else:  # some have exited
            index = {t: i for i, t in enumerate(divergence.threads)}
            registers = GroupRegisters(before, [index[t] for t in threads])
        written = {r for part in parts for r in part.registers.written(before)}
        registers.meet(written, MergedRegisters(held, len(threads)))
        whole = ThreadGroup(
            first.cta,
            threads,
            registers,
            BOTTOM,
            block=divergence.reconvergence,
            divergence=divergence.outer,
            cluster=first.cluster,
            waited=first.waited,
        )
        whole.own = reduce(join, [part.own for part in parts])
        for name in self._clocks:
            clocks = [(part.warps, getattr(part, name)) for part in parts]
            setattr(whole, name, reconverge_clocks(clocks, whole.warps))
        for part in parts:
            if part.committed:
                both = {k: committed_groups(whole.committed.get(k, ()), c) for k, c in part.committed.items()}
                whole.committed = {**whole.committed, **both}
            if part.waited and part.waited is not whole.waited:
                whole.waited = {**whole.waited, **part.waited}
        self.groups.append(whole)
        self._enter(whole, divergence.reconvergence)

    def _merge_threads(self, parts: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[list[int]]]:
        """All threads of some *parts*, and the positions of each part."""
        key = tuple(parts)
        if key not in self.program.plans.merged_threads:
            threads = tuple(sorted(chain.from_iterable(parts)))
            at = dict(zip(threads, range(len(threads)), strict=True))
            self.program.plans.merged_threads[key] = (
                threads,
                [list(map(at.__getitem__, part)) for part in parts],
            )
        return self.program.plans.merged_threads[key]

    # ------------------------------------------------------------ operands

    def operand(self, group: ThreadGroup, operand: Operand | None) -> Lanes:
        """The value of an operand in the threads of a group."""
        if isinstance(operand, int):
            return group.registers[operand]
        if isinstance(operand, Memory):
            base, offset = self.operand(group, operand.base), operand.offset
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
            return negated(group.registers[operand.register])
        return None

    def role(self, group: ThreadGroup, step: ReplayStep, name: str, default: Lanes = None) -> Lanes:
        """The value of the operand that plays a role in an instruction; *default* if there is none."""
        operand = step.instruction.role(name)
        return default if operand is None else self.operand(group, operand)

    def assign(self, group: ThreadGroup, register: int, value: Lanes, where: Lanes = 1) -> None:
        """Writes a register in the threads *where* the instruction is executed."""
        if where != 1:
            value = select(where, value, group.registers[register], len(group.threads))
        group.registers[register] = value
