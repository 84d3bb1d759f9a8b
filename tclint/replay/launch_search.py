"""Replays of one launch after the other, each with numbers with which the loops of the kernel end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property

from tclint.replay.groups import Limits, ManyRounds, OutOfSteps, Stuck, Unmade, Unresolved
from tclint.replay.launch import GRID, Launch, Numbers, Word
from tclint.replay.launches import Run, Try
from tclint.replay.machine import Machine, Overrun
from tclint.replay.program import Program
from tclint.replay.races import races
from tclint.replay.sync import Mbarrier

__all__ = ["MAX_STEPS_PER_REPLAY", "TOO_LONG", "Fitting", "Shape"]

Shape = tuple[int, ...]
"""How many threads a CTA has, or CTAs a cluster, in up to three dimensions."""

MAX_STEPS_PER_REPLAY = 5_000
"""Steps of one replay."""
MAX_EXTRA_STEPS_PER_REPLAY = 15_000
"""Steps more for a kernel that is so large, or that says itself how often its loops go round."""
MAX_PATIENT_LAUNCHES = 3
"""How many launches may take so many, as long as they come to their end."""
STEPS_PER_ITERATION = 60
"""Steps for each round of a loop that goes as often as the launch says."""
MAX_STEPS_PER_GLANCE = 1_000
"""Steps after which a replay that only repeats others may show the same."""
MAX_REPLAYS_PER_LAUNCH = 12
"""Launches of which each makes fewer rounds of a loop than the one before."""
TOO_LONG = "the replay takes too long"
_TOO_OFTEN = "a loop goes round too often to be followed to its end"


class Fitting:
    """Replays of a kernel in clusters of one shape. What was made fewer for one launch is so for those behind it."""

    def __init__(
        self,
        program: Program,
        cluster: Shape = (1,),
        budget: int = MAX_STEPS_PER_REPLAY,
        lowered: list[frozenset[Word]] | None = None,
    ) -> None:
        self.program = program
        self.cluster = cluster
        self.reason = ""
        """Why the last launch was not replayed to its end."""
        self.site = -1
        """The instruction at which it could not go on, or its longest loop begins; -1: about the whole kernel."""
        self.short = False
        """It was cut short: nothing was in its way."""
        self.limit = 0
        """The steps after which it was cut short."""
        self.entered = frozenset[int]()
        """The blocks that it came to."""
        self.repeated = frozenset[int]()
        """The loops, by their headers, that somebody went round again in it."""
        self.steps = 0
        """How many steps all replays have taken."""
        self._budget = budget
        self._spent = False
        """There were no steps left, and nothing to make fewer."""
        self._patient = MAX_PATIENT_LAUNCHES
        self._rising = False
        self.lowered = [] if lowered is None else lowered
        """What was made fewer for the launches before, so that their loops end."""
        self._hasty = True
        """Loops are foreseen to go round too often; nothing has gone wrong so far with numbers that were guessed so."""
        self._guessed = False
        """The last launch has numbers that nothing but foresight asked for."""
        self._done: dict[tuple[Try, Shape], Run] = {}

    def launched(self, tried: Try, shape: Shape) -> Run | None:
        """How a launch goes with CTAs of that *shape*, with memory in which something is to be done if there is such a one.

        None when it is cut short before anything goes wrong. Raises Unmade when threads name an mbarrier that none of them
        made.
        """
        if (tried, shape) in self._done:
            return self._done[tried, shape]
        run = self._replay(tried, shape)
        idle = run is not None and not run.wrong and not run.used
        if idle and not self._rising and self.program.reads_memory:
            self._rising = True
            run = self._replay(tried, shape)
        if run is not None:
            self._done[tried, shape] = run
        return run

    def glance(self, tried: Try, shape: Shape) -> Run | None:
        """What goes wrong soon in a replay, as it did with fewer threads or more; None: nothing did."""
        machine = self._machine(self._numbers(tried), shape, Limits(MAX_STEPS_PER_GLANCE))
        with suppress(ManyRounds, OutOfSteps, Overrun, Unresolved):
            machine.run()
        run = _seen(machine)
        return run if run and run.races else None

    def _numbers(self, tried: Try) -> Numbers:
        """What a launch brings, with a grid of the size that the kernel itself says."""
        numbers = tried.numbers(self._rising)
        if self._grid is None:
            return numbers
        return numbers._replace(grid=self._grid, cta=self._grid - 1 if tried.cta else 0)

    @cached_property
    def _grid(self) -> int | None:
        """How many clusters there are, if the kernel says so."""
        strides = self.program.strides
        clusters, ctas = strides.get("%clusterid.x"), strides.get("%ctaid.x")
        return clusters or (max(ctas // self.cluster[0], 1) if ctas else None)

    def _machine(self, numbers: Numbers, shape: Shape, limits: Limits) -> Machine:
        return Machine(self.program, Launch(self.program.model, numbers, shape, self.cluster), limits)

    def _replay(self, tried: Try, shape: Shape) -> Run | None:
        """One replay; numbers that only foresight has made fewer convict nobody."""
        numbers = soon = self._numbers(tried)
        for words in self.lowered if self._hasty else ():
            soon = soon.fewer(words)
        self._guessed = soon != numbers
        try:
            run = self._fitted(soon, shape)
        except Unmade:
            if not self._guessed:
                raise
            run, self.short = None, True
        if self._guessed and (self.short and not self._spent if run is None else run.wrong):
            # So few rounds may be none of the launches that the kernel is made for: no verdict rests on them.
            self._hasty = False
            run = self._fitted(numbers, shape)
        return run

    def _fitted(self, numbers: Numbers, shape: Shape) -> Run | None:
        """A replay with *numbers*, or with others with which its loops end."""
        self.reason, self.site, self.short, self._spent = "", -1, False, False
        settled = {GRID} if self._grid else set[Word]()
        reached: dict[tuple[int, int], int] = {}
        whole, often, made = numbers, 0, 0
        way: tuple[object, ...] = ()
        for _ in range(MAX_REPLAYS_PER_LAUNCH):
            patience = MAX_EXTRA_STEPS_PER_REPLAY if self._patient else 0
            machine = self._machine(numbers, shape, Limits(self._budget, settled, self._hasty, patience))
            try:
                run = self._ran(machine)
                if run is None or not any(_soon(s, reached) for s in run.stuck):
                    return run
                if self._related:
                    return self._at_length(whole, shape)
                self._cut(machine)  # the numbers may be to blame
                return None
            except ManyRounds as error:
                if run := _seen(machine):
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
                    self.lowered.append(words)
                    numbers, made = fewer, made + 1
                self._guessed |= error.excess > 0 or made > 1
            finally:
                self.entered, self.repeated = frozenset(machine.entered), machine.repeated
                self.steps += machine.limits.steps - max(machine.budget, 0)
                if machine.limits.steps > self._budget:
                    self._patient = 0 if self._spent else self._patient - 1
        self._cut(machine)
        return None

    @cached_property
    def _related(self) -> bool:
        """Whether the same words of the launch say how often all loops go round in which threads wait."""
        bounds = {self.program.bounds[header] for header in self.program.waiting}
        return len(bounds - {frozenset()}) == 1

    def _at_length(self, numbers: Numbers, shape: Shape) -> Run | None:
        """A replay with as many rounds as the *numbers* say, where fewer let a wait stand."""
        words = frozenset[Word]().union(*self.program.bounds.values())
        machine = self._machine(numbers, shape, Limits(numbers.size * STEPS_PER_ITERATION, words))
        try:
            return self._ran(machine)
        except ManyRounds:
            self._cut(machine)
            return None
        finally:
            self.steps += machine.limits.steps - max(machine.budget, 0)

    def _cut(self, machine: Machine) -> None:
        """A replay took too long."""
        self.site, self.short, self.limit = machine.longest, True, machine.limits.steps
        self.reason = TOO_LONG if self.site < 0 else _TOO_OFTEN

    def _ran(self, machine: Machine) -> Run | None:
        """How the replay of one launch goes."""
        stuck: list[Stuck] = []
        overrun = None
        whole = False
        try:
            stuck = machine.run()
            whole = True
        except (ManyRounds, Unmade):
            raise
        except Unresolved as error:
            self.reason, self.site = error.why, error.site
        except Overrun as error:
            overrun = error.at
        except OutOfSteps:
            self._cut(machine)
            self._spent = True
        return _seen(machine, stuck, overrun, whole)


def _soon(stuck: Stuck, reached: Mapping[tuple[int, int], int]) -> bool:
    """Whether a wait stands before a phase that it *reached* with more rounds."""
    what = stuck.what
    return isinstance(what, Mbarrier) and what.phase < reached.get((stuck.site, what.address), 0)


def _seen(
    machine: Machine, stuck: list[Stuck] | None = None, overrun: Stuck | None = None, whole: bool = False
) -> Run | None:
    """What a replay has shown; None when it was cut short before anything went wrong."""
    run = Run(
        stuck or [],
        list(races(machine.accesses, machine.behind, machine.program)),
        overrun,
        whole,
        machine.late,
        frozenset(machine.entered),
        machine.repeated,
        machine.used,
        frozenset(machine.informed),
        machine.uneven,
    )
    return run if run.wrong or whole else None
