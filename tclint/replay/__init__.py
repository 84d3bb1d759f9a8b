"""Replays of a kernel: its synchronisation executed with numbers for what the launch decides.

Who waits for whom depends on counters that loops carry, stages that take turns
and parities that flip. Here they are executed, and nothing else is: neither
arithmetic nor data. Threads that go the same way go together. Copies complete
and commits arrive only when nobody can go on without them, and vector clocks
tell what each thread has heard of, so a read that no wait orders with the copy
before it is seen although it comes later in this run (PTX ISA 8, 9.7.13.15).

Numbers stand for parameters and for what is in global memory: the same one for
all of a kind. What the threads do then is what they do for *some* launch, if
the kernel takes any. A kernel that ends or gets stuck for one set of numbers
only proves nothing, so a verdict needs all of them that come to the same
place: what is left over of a loop is executed for some numbers only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import prod
from typing import NamedTuple

from tclint.analyses.mbarriers import Mbarriers
from tclint.cfg import CFG
from tclint.ir.nodes import MOST_THREADS
from tclint.model import KernelModel
from tclint.replay.groups import Limits, ManyRounds, OutOfSteps, Stuck, Unmade, Unresolved
from tclint.replay.launch import GRID, Launch, Numbers, Word
from tclint.replay.machine import Access, Machine, Overrun
from tclint.replay.program import Program
from tclint.replay.races import Race, races
from tclint.replay.sync import Mbarrier, Passed

__all__ = ["Access", "Race", "Replay", "Run", "Stuck"]


class _Try(NamedTuple):
    """Numbers that a launch may bring."""

    size: int
    """What 32-bit parameters and words of global memory are: sizes of matrices, from which rounds of loops are computed."""
    grid: int
    """How many CTAs or clusters there are."""
    cta: int = 0
    """Which one is replayed."""
    large: frozenset[Word] = frozenset()
    """Words that are ``_LARGE`` instead: how many tiles there are for a grid of which the text says the size."""

    def numbers(self, rising: bool) -> Numbers:
        return Numbers(self.size, self.grid, self.cta, rising, others=dict.fromkeys(self.large, _LARGE))


_SIZES = (_Try(512, 8), _Try(1280, 24), _Try(1098, 5))
_ODD = (_Try(832, 13), _Try(1088, 3), _Try(640, 7))
"""Numbers of which halves and quarters are left over, for what the others do not come to."""
_LAST = tuple(t._replace(cta=t.grid - 1) for t in _SIZES)
"""The last CTA, for what the first does not come to."""
_TILES = (_Try(1098, 3), _Try(1280, 2))
"""Few CTAs for much to do, so that each goes round once more."""
_ALL = (_SIZES[0], *_ODD, *_LAST, *_TILES, *_SIZES[1:])
_LARGE = 4096
_DECIDE: dict[tuple[str, ...], tuple[_Try, ...]] = {
    ("op", "mask"): _ODD,
    ("op", "rem"): _ODD,
    ("special", "%ctaid.x"): _LAST,
    ("special", "%clusterid.x"): _LAST,
}
"""What decides that something is come to with other numbers."""
_USUAL = ((128,), (256,), (384,), (512,))
"""Threads of a CTA that are tried first where the kernel does not say."""
_CLUSTERS = (
    (1,), (2,), (1, 2), (2, 2), (4,), (1, 4), (4, 2), (2, 4), (8,), (1, 8), (3,), (1, 3), (3, 2), (2, 3), (6,), (1, 6),
    (5,), (1, 5), (7,), (1, 7), (1, 1, 2), (2, 1, 2), (1, 2, 2), (1, 1, 4), (2, 2, 2), (4, 1, 2), (1, 4, 2), (2, 1, 4),
    (1, 2, 4), (1, 1, 8), (4, 4), (8, 2), (2, 8), (16,), (1, 16),
)  # fmt: skip
"""Clusters that are tried where the kernel does not say, the usual ones first: up to 8 CTAs, and 16 where a device allows it."""
_BUDGET = 5_000
"""Steps of one replay."""
_PATIENCE = 15_000
"""Steps more for a kernel that is so large, or that says itself how often its loops go round."""
_PATIENT = 3
"""How many launches may take so many, as long as they come to their end."""
_SEARCH = 400_000
"""Steps of all replays together with which clusters of other shapes are tried."""
_GLANCE = 1_000
"""Steps after which a replay that only repeats others may show the same."""
_TRIES = 12
"""Launches of which each makes fewer rounds of a loop than the one before."""


def _alike(numbers: _Try) -> tuple[_Try, ...]:
    """Those that are tried for the same reason."""
    return next((kind for kind in (_SIZES, _ODD, _LAST, _TILES) if numbers in kind), (numbers,))


class Run(NamedTuple):
    """How one replay went."""

    stuck: list[Stuck]
    races: list[Race]
    overrun: Stuck | None
    whole: bool
    """Whether it came to an end."""
    late: list[tuple[Mbarrier, Passed]]
    """Waits that would be for a phase later, had they been asked a little later."""
    entered: frozenset[int]
    """The blocks that were executed."""
    repeated: frozenset[int]
    """The loops, by their headers, that somebody went round again."""
    used: frozenset[int]
    """The addresses of mbarriers of which a phase has completed."""

    @property
    def wrong(self) -> bool:
        return bool(self.stuck or self.races or self.overrun or self.late)

    @property
    def sites(self) -> set[int]:
        """The instructions at which it went wrong."""
        if self.races:
            return set(self.races[0].key)
        if self.overrun is not None:
            return {self.overrun.site}
        return {s.site for s in self.stuck} or {wait.site for _, wait in self.late}

    @property
    def mbarriers(self) -> set[int]:
        """The addresses of the mbarriers by which it went wrong."""
        stuck = [self.overrun] if self.overrun is not None else self.stuck
        whats = [a.mbarrier for a in self.races[0]] if self.races else [s.what for s in stuck]
        return {what.address for what in whats or [m for m, _ in self.late] if isinstance(what, Mbarrier)}


@dataclass
class _Launches:
    """How a kernel goes with CTAs of one shape and several numbers."""

    cfg: CFG
    counts: bool
    """Whether later rounds of a loop are told from the first; where memory says what there is to do, they may go together in none."""
    asked: set[_Try] = field(default_factory=set)
    wrong: dict[_Try, Run] = field(default_factory=dict)
    entered: set[int] = field(default_factory=set)
    """The blocks in which it went right."""
    repeated: set[int] = field(default_factory=set)
    """The loops that went right more than once."""
    used: set[int] = field(default_factory=set)
    """The mbarriers that went right."""

    @property
    def some(self) -> bool:
        return bool(self.wrong or self.entered)

    def add(self, numbers: _Try, run: Run) -> bool:
        """Takes in one launch; whether it went right where none did before."""
        if run.wrong:
            self.wrong[numbers] = run
            return False
        news = not (self.entered.issuperset(run.entered) and self.repeated.issuperset(run.repeated))
        self.entered |= run.entered
        self.repeated |= run.repeated
        self.used |= run.used
        return news

    @property
    def standing(self) -> dict[_Try, Run]:
        """The launches that go wrong where none goes right, though by mbarriers that others use and go right."""
        return {
            numbers: run
            for numbers, run in self.wrong.items()
            if not self.excuses(run) and (not self.entered or self.used.issuperset(run.mbarriers))
        }

    def excuses(self, run: Run) -> bool:
        """Whether launches go right in all blocks in which *run* goes wrong, and in later rounds if it makes such."""
        blocks = {self.cfg.block_of[i] for i in run.sites}
        rounds = {
            head for head in run.repeated if self.counts and not blocks.isdisjoint(self.cfg.loops[head])
        }
        return self.entered.issuperset(blocks) and self.repeated.issuperset(rounds)


class Replay:
    """What happens in the replays of one kernel."""

    def __init__(self, model: KernelModel, cluster: tuple[int, ...] | None = None) -> None:
        self.model = model
        self.cluster = cluster or model.function.directives.get(".reqnctapercluster")
        """The CTAs of a cluster; None: the kernel does not say."""
        self.assumed = False
        """It goes wrong with clusters of all shapes, and soonest goes right with that one."""
        self.reason = ""
        """Why there is none, or none that came to an end."""
        self.site = -1
        """The instruction at which it could not go on; -1: about the whole kernel."""
        self.short = False
        """It was cut short: nothing was in its way."""
        self.steps = 0
        """How many steps all replays have taken."""
        self.runs: list[Run] = []
        """How those went that were replayed to their end, or until something went wrong."""
        self._spent = False
        """There were no steps left, and nothing to make fewer."""
        self._budget = _BUDGET
        self._patient = _PATIENT
        self._rising = False
        self._lowered: list[frozenset[Word]] = []
        """What was made fewer for the launches before, so that their loops end."""
        self._hasty = True
        """Loops are foreseen to go round too often; nothing has gone wrong so far with numbers that were guessed so."""
        self._guessed = False
        """The last launch has numbers that nothing but foresight asked for."""
        self._first: tuple[_Try, tuple[int, ...], Run] | None = None
        """A launch that was replayed to find out about clusters."""

    @cached_property
    def program(self) -> Program:
        return Program(self.model)

    @cached_property
    def run(self) -> Run | None:
        """A replay that went wrong, if all do, or two at least and all that come to the same instructions."""
        model = self.model
        if not model.function.entry or not model.sites("mbarrier-init"):
            return None
        program = self.program
        if not program.counted:
            self.reason = "the launch says how many arrivals there are"
            return None
        if program.clustered and self.cluster is None:
            return self._whichever()
        found: dict[_Try, Run] = {}
        for shape, usual in self._shapes():
            launches, wanted, cut = _Launches(model.cfg, not program.reads_memory), set(_SIZES), False
            if not usual:
                wanted = {next(iter(found), _SIZES[0])}
            while left := wanted - launches.asked:
                numbers = next((n for n in _ALL if n in left), None) or min(left)
                launches.asked.add(numbers)
                try:
                    run = None if usual else self._glance(program, numbers, shape)
                    run = run or self._launched(program, numbers, shape)
                except Unmade as error:
                    if found or launches.some:
                        break  # so many threads are none of the launches that the kernel is made for
                    self.reason, self.site = error.why, error.site
                    return None
                if run is None:
                    if found and not usual:
                        break
                    if not (self.short and usual and launches.wrong):
                        return None
                    wanted, cut = wanted.union(_ODD), True
                    continue
                self.runs.append(run)
                news = launches.add(numbers, run)
                if launches.standing or (found and not run.wrong):
                    continue
                if run.wrong or not (usual and launches.used):
                    return None
                wanted = self._open(program, launches).difference(() if news else _alike(numbers))
                if wanted <= launches.asked:
                    return None
            standing = launches.standing
            if cut and len(standing) < len(_SIZES):
                return None
            if launches.entered and len(standing) < 2:
                # So many threads say nothing of what only more of them come to.
                found = {numbers: run for numbers, run in found.items() if not launches.excuses(run)}
                if not found:
                    return None
                continue
            for numbers, run in standing.items():
                # The threads that the kernel is made for get farthest.
                found[numbers] = max(
                    found.get(numbers, run), run, key=lambda run: len(run.entered & program.telling)
                )
        return next((run for run in found.values() if run.races), next(iter(found.values()), None))

    def _whichever(self) -> Run | None:
        """What goes wrong with clusters of all shapes. Ranks, masks and counts in the text fit those that it is made for alone."""
        known = Replay(self.model, (1,))
        shape, usual = next(known._shapes(), ((), False))
        if not usual or not self.model.function.most_threads:
            self.reason = "the kernel does not say how many CTAs a cluster has"
            return None
        wrong: list[tuple[Run, Replay]] = []
        for cluster in _CLUSTERS:
            other = Replay(self.model, cluster)
            other.program, other._lowered = self.program, self._lowered
            other._budget = _BUDGET * max(1, prod(cluster) // 2)
            try:
                run = other._launched(self.program, _SIZES[0], shape)
            except Unmade:
                continue  # it names an mbarrier of a CTA that there is not
            self.steps += other.steps
            if run is None or not run.wrong:
                other._first = None if run is None else (_SIZES[0], shape, run)
                return self._as(other)
            wrong.append((run, other))
            if self.steps > _SEARCH:
                self.reason, self.short = "the replay takes too long", True
                return None
        if not wrong:
            self.reason = "the kernel does not say how many CTAs a cluster has"
            return None
        # Where mbarriers of the others count arrivals that never come, nobody gets far.
        farthest = max(wrong, key=lambda w: (not (w[0].stuck or w[0].overrun), w[1].share(w[0])))
        self.assumed = True
        return self._as(farthest[1])

    def share(self, run: Run) -> float:
        """How many mbarriers of a CTA have completed a phase."""
        return len(run.used) / prod(self.cluster or (1,))

    def _as(self, other: Replay) -> Run | None:
        """What *other*, with clusters of one shape, finds."""
        run, self.cluster = other.run, other.cluster
        self.reason, self.site, self.short, self.runs = other.reason, other.site, other.short, other.runs
        return run

    def idle(self, run: Run) -> bool:
        """Whether no launch that was replayed comes to a loop of the kernel that may be what *run* lacks.

        Then the numbers may be to blame: sizes that go with each other in no real launch leave nothing to do. It is a loop in
        which threads wait, on the way to where it goes wrong, or in which there is what others stand and wait for.
        """
        model = self.model
        block_of = model.cfg.block_of
        entered = frozenset[int]().union(*(run.entered for run in self.runs))
        waits = {block_of[i] for i in model.sites("mbarrier-wait")}
        deeds = [e.site for e in model.events if e.kind != "mbarrier-wait"]
        for head, loop in model.cfg.loops.items():
            done = [i for i in deeds if block_of[i] in loop]
            if done and not loop.isdisjoint(waits) and loop.isdisjoint(entered):
                start = model.cfg.blocks[head].start
                if self._lacks(run.stuck, start, done) if not run.races else self._before(run.races, start):
                    return True
        return False

    def _before(self, races: list[Race], start: int) -> bool:
        """Whether a loop that begins at *start* lies before where threads race."""
        return any(self.model.reaches(start, race.second.site) for race in races)

    def _lacks(self, stuck: list[Stuck], start: int, done: list[int]) -> bool:
        """Whether what is *done* in a loop that begins at *start* may be what those that are *stuck* wait for.

        And others, or they before, go by it: who waits for ever does not come to what is behind for that reason.
        """
        model = self.model
        threads = model.views.at(start).threads
        for s in stuck:
            if not model.reaches(start, s.site):
                threads &= ~sum(1 << thread for thread in s.threads)
        return (
            threads != 0
            and model.reaches(-1, start, [s.site for s in stuck])
            and any(self._helps(s, i) for s in stuck for i in done)
        )

    def _helps(self, stuck: Stuck, site: int) -> bool:
        """Whether those that are *stuck* may wait for what is done at *site*."""
        instruction, mbarriers = self.model.instruction(site), self.model.made(Mbarriers)
        if not isinstance(stuck.what, Mbarrier):
            return instruction.event in ("barrier-sync", "barrier-arrive")
        rings, others = mbarriers.rings_at(stuck.site), mbarriers.rings_at(site)
        return instruction.role("mbarrier") is not None and not (
            rings and others and rings.isdisjoint(others)
        )

    def _open(self, program: Program, launches: _Launches) -> set[_Try]:
        """Numbers with which blocks may be come to that were not entered, or loops gone round that were left at once.

        It is the rest of a division of what comes with the launch, or which CTA it is, that decides over the blocks.
        """
        model, entered = self.model, launches.entered
        cfg, values = model.cfg, model.values
        deciding = {
            model.views.edge_value(edge)
            for block in program.telling - entered
            for edge in cfg.controllers(block)
            if edge.source in entered
        }
        found = set[_Try]()
        once = [h for h in program.waiting if h in entered and h not in launches.repeated]
        if words := frozenset().union(*(program.bounds[h] for h in once)) if launches.counts else None:
            found.update(_TILES if GRID in words else [t._replace(large=words) for t in _ODD[:2]])
        for predicate in deciding:
            if predicate is None:
                continue
            of = [values.node(v)[:2] for v in values.made_of(predicate)]
            if any(node[0] == "parameter" for node in of):
                found.update(chain.from_iterable(_DECIDE.get(node, ()) for node in of))
        return found

    def _shapes(self) -> Iterator[tuple[tuple[int, ...], bool]]:
        """The shapes of a CTA that are tried, and whether with all numbers: whoever may launch it otherwise is asked once."""
        function = self.model.function
        required, bound = function.directives.get(".reqntid"), function.directives.get(".maxntid")
        if required:
            yield required, True
            return
        if bound:
            yield bound, True
        if not self.model.values.one_dimensional:
            self.reason = self.reason or "the kernel does not say how its threads are arranged"
            return
        first = (bound,) if bound else _USUAL
        yield from ((shape, True) for shape in first if not bound)
        for threads in range(32, (prod(bound) if bound else MOST_THREADS) + 1, 32):
            if (threads,) not in first:
                yield (threads,), False

    def _glance(self, program: Program, numbers: _Try, shape: tuple[int, ...]) -> Run | None:
        """What goes wrong soon in a replay, as it did with fewer threads or more; None: nothing did."""
        machine = Machine(program, self._launch(numbers.numbers(self._rising), shape), Limits(_GLANCE))
        with suppress(ManyRounds, OutOfSteps, Overrun, Unresolved):
            machine.run()
        run = self._seen(machine)
        return run if run and run.races else None

    def _launch(self, numbers: Numbers, shape: tuple[int, ...]) -> Launch:
        return Launch(self.model, numbers, shape, self.cluster or (1,))

    def _launched(self, program: Program, numbers: _Try, shape: tuple[int, ...]) -> Run | None:
        """One replay, with memory in which something is to be done if there is such a one."""
        if self._first is not None and self._first[:2] == (numbers, shape):
            return self._first[2]
        run = self._replay(program, numbers, shape)
        idle = run is not None and not run.wrong and not run.used
        if idle and not self._rising and program.reads_memory:
            self._rising = True
            return self._replay(program, numbers, shape)
        return run

    def _replay(self, program: Program, tried: _Try, shape: tuple[int, ...]) -> Run | None:
        """One replay; None when it is cut short before anything goes wrong.

        Raises Unmade when threads name an mbarrier that none of them made.
        """
        numbers = soon = tried.numbers(self._rising)
        for words in self._lowered if self._hasty else ():
            soon = soon.fewer(words)
        self._guessed = soon != numbers
        try:
            run = self._fitted(program, soon, shape)
        except Unmade:
            if not self._guessed:
                raise
            run, self.short = None, True
        if self._guessed and (self.short and not self._spent if run is None else run.wrong):
            # So few rounds may be none of the launches that the kernel is made for: no verdict rests on them.
            self._hasty = False
            run = self._fitted(program, numbers, shape)
        return run

    def _fitted(self, program: Program, numbers: Numbers, shape: tuple[int, ...]) -> Run | None:
        """A replay with *numbers*, or with others with which its loops end."""
        self.short, self._spent, settled = False, False, set[Word]()
        reached: dict[tuple[int, int], int] = {}
        often, made = 0, 0
        way: tuple[object, ...] = ()
        for _ in range(_TRIES):
            launch = self._launch(numbers, shape)
            patience = _PATIENCE if self._patient else 0
            machine = Machine(program, launch, Limits(self._budget, settled, self._hasty, patience))
            try:
                return self._ran(machine, reached)
            except ManyRounds as error:
                if run := self._seen(machine):
                    return run
                reached.update(
                    (at, phase) for at, phase in machine.passed.items() if phase > reached.get(at, 0)
                )
                times, excess = int(not error.excess), error.excess
                if machine.way == way:
                    # What was made fewer made no difference.
                    settled.add(GRID)
                    times = 2 * made if self._hasty else 1
                elif self._hasty and not excess:
                    # So many steps more than once: the end is far, and each try costs all there are.
                    times = often = often + 1
                way, made, words = machine.way, 0, error.words - settled
                while made < times or excess > 1:
                    fewer = numbers.fewer(words)
                    if fewer == numbers:
                        settled |= words
                        break
                    excess //= numbers.weight(words)
                    self._lowered.append(words)
                    numbers, made = fewer, made + 1
                self._guessed |= error.excess > 0 or made > 1
            finally:
                self.steps += machine.limits.steps - max(machine.budget, 0)
                if machine.limits.steps > self._budget:
                    self._patient = 0 if self._spent else self._patient - 1
        self.reason, self.short = "the replay takes too long", True
        return None

    def _ran(self, machine: Machine, reached: Mapping[tuple[int, int], int]) -> Run | None:
        """How the replay of one launch goes.

        Where fewer rounds let a wait stand before a phase that it *reached* with more, the numbers are to blame.
        """
        stuck: list[Stuck] = []
        overrun = None
        whole = False
        try:
            stuck = machine.run()
            if any(
                isinstance(s.what, Mbarrier) and s.what.phase < reached.get((s.site, s.what.address), 0)
                for s in stuck
            ):
                self.reason, self.short = "the replay takes too long", True
                return None
            whole = True
        except (ManyRounds, Unmade):
            raise
        except Unresolved as error:
            self.reason, self.site = error.why, error.site
        except Overrun as error:
            overrun = error.at
        except OutOfSteps:
            self.reason, self.short, self._spent = "the replay takes too long", True, True
        return self._seen(machine, stuck, overrun, whole)

    def _seen(
        self,
        machine: Machine,
        stuck: list[Stuck] | None = None,
        overrun: Stuck | None = None,
        whole: bool = False,
    ) -> Run | None:
        """What a replay has shown; None when it was cut short before anything went wrong."""
        found = list(races(machine.accesses, machine.behind, machine.program.steady))
        run = Run(
            stuck or [],
            found,
            overrun,
            whole,
            machine.late,
            frozenset(machine.entered),
            machine.repeated,
            machine.used,
        )
        return run if run.wrong or whole else None
