"""Replays of launches whose loops end: trip counts are reduced until a replay fits its budget.

Terms. A launch is *reduced* by smaller values for the words that bound its loops (``Loops.bounds``). A reduction is
*forced* if the replay has executed more iterations than need be, and *extrapolated* if the first iterations show that
it would. A replay that exhausts a budget is *truncated*.

Soundness. No fault rests on an extrapolated reduction: the kernel may be made for launches with more iterations, so a
fault is replayed with the original values, and extrapolation stops for this search
(:meth:`LaunchSearch._replay_once`). A forced reduction may deadlock a wait that passed with more iterations; where
one set of words bounds all loops that wait, the launch is replayed with its full trip counts, and elsewhere it is
given up (:meth:`LaunchSearch._replay_to_end`). What remains unsound: values that go together in no real launch.
``launches`` and ``verdict`` hold several launches against each other for that reason.

State. A search carries three facts from one launch to the next: the reductions that were needed, whether extrapolation
has failed, and how many replays may still take extra steps. They decide how soon a launch ends and whether it is given
up, and a launch that is reduced beyond need may have too few iterations to show its fault; none of them adds a fault.
A search belongs to one kernel and one cluster shape and asks its launches in a fixed order, so a kernel has the same
answers in any process and after any other kernel (``tests/replay/test_state.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property

import tclint.replay.instructions  # noqa: F401  registers the functions for steps
from tclint._named_tuple import NamedTuple
from tclint.dataflow import GaveUp
from tclint.replay import hypotheses
from tclint.replay.accesses import OFFSET
from tclint.replay.hypotheses import GRID, LaunchHypothesis, LaunchWord, Shape
from tclint.replay.launch import LaunchValues, ReplayLaunch
from tclint.replay.launches import ReplayRun
from tclint.replay.machine import Overrun, ReplayMachine
from tclint.replay.program import ReplaySlice
from tclint.replay.races import races
from tclint.replay.reasons import NotReplayed
from tclint.replay.scheduler import (
    Limits,
    OutOfSteps,
    TooManyIterations,
    TooManyMbarriers,
    UninitialisedMbarrier,
    Unresolved,
)
from tclint.replay.sync import ReplayMbarrier
from tclint.replay.thread_groups import Stuck

__all__ = ["LaunchSearch"]


class _Effect(NamedTuple):
    """What a replay changes in the search, however it ends."""

    entered: frozenset[int]
    repeated: frozenset[int]
    parts_lanes: bool
    steps: int
    extended: bool
    """It took extra steps."""


class _Ended(NamedTuple):
    """A replay that came to its end, or to that of its budget."""

    launch: ReplayLaunch
    limits: Limits
    run: ReplayRun | None
    gave_up: GaveUp[NotReplayed] | None
    out_of_steps: bool
    effect: _Effect


class LaunchSearch:
    """The replays of a kernel with one cluster shape. Reductions of one launch are tried at once for the next."""

    def __init__(
        self,
        program: ReplaySlice,
        cluster: Shape,
        budget: int,
        reductions: list[frozenset[LaunchWord]] | None = None,
        *,
        distinct: bool = False,
    ) -> None:
        self.program = program
        self.cluster = cluster
        self.gave_up: GaveUp[NotReplayed] | None = None
        """Why the last launch was not replayed to its end."""
        self.entered = frozenset[int]()
        """The blocks that the last launch executed."""
        self.repeated = frozenset[int]()
        """The headers of loops that the last launch executed more than once."""
        self.steps = 0
        """The steps of all replays."""
        self._budget = budget
        self._distinct = distinct
        """No two words of global memory are equal."""
        self._parts_lanes = False
        """The last replay ended where the launch decides which lanes of a warp take a branch."""
        self._out_of_steps = False
        """The last replay exhausted its steps, and no reduction would have shortened it."""
        self._extensions_left = hypotheses.MAX_EXTENDED_REPLAYS.value
        self._increasing = False
        self.reductions = [] if reductions is None else reductions
        """The reductions of the launches so far; cluster shapes share them, as the words that bound a loop do not
        depend on the cluster.
        """
        self._extrapolates = True
        """Trip counts are extrapolated. False from the first fault or truncation on that extrapolated values show."""
        self._extrapolated = False
        """The last launch has a reduction that was not forced."""
        self._runs: dict[tuple[LaunchHypothesis, Shape], ReplayRun] = {}
        self._ended: list[_Ended] = []
        """The replays so far that ended with the values that a launch began with."""

    @property
    def truncated(self) -> bool:
        """Whether only a budget kept the last launch from its end."""
        return self.gave_up is not None and self.gave_up.why.truncated

    def replay(self, hypothesis: LaunchHypothesis, shape: Shape) -> ReplayRun | None:
        """Replays a launch with CTAs of *shape*. Memory holds increasing values if equal ones leave the kernel
        without work, and bounds that only some threads are below are larger.

        Returns None if the launch was given up before a fault (:attr:`gave_up`). Raises UninitialisedMbarrier if
        threads use an address where no mbarrier was initialised.
        """
        asked = hypothesis
        if (asked, shape) in self._runs:
            return self._runs[asked, shape]
        run = self._replay_once(hypothesis, shape)
        if run is None and self._warps_without_work:
            hypothesis = asked._replace(work=hypotheses.WORK_FOR_ALL.value)
            run = self._replay_once(hypothesis, shape)
        idle = run is not None and not run.wrong and not run.completed_mbarriers
        if idle and not (self._increasing or self._distinct) and self.program.reads_memory:
            self._increasing = True
            run = self._replay_once(hypothesis, shape)
        if run is not None:
            self._runs[asked, shape] = run
        return run

    @property
    def _warps_without_work(self) -> bool:
        """Whether the last launch was given up because it has work for some warps only, and never for a part of one."""
        return (
            self.gave_up is not None
            and self.gave_up.why is NotReplayed.ROLES_FROM_LAUNCH
            and not self._parts_lanes
        )

    def preview(self, hypothesis: LaunchHypothesis, shape: Shape) -> ReplayRun | None:
        """A run that shows a race within its first steps; None: there is no such run."""
        machine = self._machine(self._values(hypothesis), shape, Limits(hypotheses.MAX_PREVIEW_STEPS.value))
        with suppress(TooManyIterations, TooManyMbarriers, OutOfSteps, Overrun, Unresolved):
            machine.run()
        run = _observed_run(machine)
        return run if run and run.races else None

    def _values(self, hypothesis: LaunchHypothesis) -> LaunchValues:
        """The values of a launch, with the size of the grid that the kernel itself implies."""
        values = LaunchValues(
            hypothesis.size,
            hypothesis.grid,
            hypothesis.cta,
            self._increasing,
            self._distinct,
            hypotheses.CANCELLED_CLUSTERS.value,
            {**dict.fromkeys(hypothesis.large, hypotheses.MANY_TILES.value), **dict(hypothesis.others)},
        )
        if recorded := self.program.inputs.recorded:
            values = values._replace(others={**values.others, **recorded}, recorded=recorded)
        if count := hypothesis.roles or hypothesis.work:
            guessed = self.program.dispatch.words - recorded.keys()
            counts = {w: 0 if w.high else count for w in guessed}
            values = values._replace(others={**values.others, **counts}, roles_vary=hypothesis.roles > 0)
        if self._grid is None:
            return values
        last = hypothesis.cta == hypothesis.grid - 1
        return values._replace(
            grid=self._grid, cta=self._grid - 1 if last else min(hypothesis.cta, self._grid // 2)
        )

    @cached_property
    def _grid(self) -> int | None:
        """The number of clusters, or of CTAs without clusters, along x, if it is recorded or the stride of a loop states it."""
        if self.program.model.recorded is not None:
            return max(self.program.model.recorded.grid[0] // self.cluster[0], 1)
        strides = self.program.loops.strides
        clusters, ctas = strides.get("%clusterid.x"), strides.get("%ctaid.x")
        return clusters or (max(ctas // self.cluster[0], 1) if ctas else None)

    def _machine(self, values: LaunchValues, shape: Shape, limits: Limits) -> ReplayMachine:
        return ReplayMachine(
            self.program, ReplayLaunch(self.program.model, values, shape, self.cluster), limits
        )

    def _replay_once(self, hypothesis: LaunchHypothesis, shape: Shape) -> ReplayRun | None:
        """Replays a launch with the known reductions, and with its original values if those show a fault."""
        values = soon = self._values(hypothesis)
        for words in self.reductions if self._extrapolates else ():
            # A word that is larger than others which bound the same loop stays so.
            soon = soon.reduced(words if words <= hypothesis.large else words - hypothesis.large)
        self._extrapolated = soon != values
        try:
            run = self._replay_to_end(soon, shape)
        except UninitialisedMbarrier:
            if not self._extrapolated:
                raise
            run, self.gave_up = None, GaveUp(NotReplayed.TOO_LONG)
        if self._extrapolated and (self.truncated and not self._out_of_steps if run is None else run.wrong):
            # The kernel may be made for launches with more iterations only: no verdict rests on extrapolated values.
            self._extrapolates = False
            run = self._replay_to_end(values, shape)
        return run

    def _replay_to_end(self, values: LaunchValues, shape: Shape) -> ReplayRun | None:
        """Replays a launch, again with smaller values as long as its loops do not end."""
        self.gave_up, self._out_of_steps = None, False
        irreducible = {GRID} if self._grid else set[LaunchWord]()
        reached: dict[tuple[int, int], int] = {}
        original, often, made = values, 0, 0
        iteration_counts: tuple[object, ...] = ()
        for attempt in range(hypotheses.MAX_REDUCTIONS.value):
            extra_steps = hypotheses.MAX_EXTRA_STEPS.value if self._extensions_left else 0
            limits = Limits(self._budget, frozenset(irreducible), self._extrapolates, extra_steps)
            machine = self._machine(values, shape, limits)
            if not attempt and (same := self._same_replay(machine.launch, limits)) is not None:
                return self._repeated(same, machine.launch)
            try:
                run = self._run_machine(machine)
                if run is None or not any(_blocked_early(s, reached) for s in run.deadlocks):
                    if not attempt:
                        self._remember(machine, limits, run)
                    return run
                if self._trip_counts_related:
                    return self._replay_unreduced(original, shape)
                self._note_truncation(machine)  # the reduction may have caused it
                return None
            except TooManyMbarriers as error:
                if run := _observed_run(machine):
                    return run
                words, depth = self._deepest(values, shape, error, machine.spent)
                values, original = values.capped(words, depth), original.capped(words, depth)
                irreducible |= words
            except TooManyIterations as error:
                if run := _observed_run(machine):
                    return run
                reached.update(
                    (at, phase)
                    for at, phase in machine.completed_phases.items()
                    if phase > reached.get(at, 0) and not machine.oversized
                )
                times, excess = int(not error.excess), error.excess
                if machine.iteration_counts == iteration_counts:
                    # The reduction made no difference.
                    irreducible.add(GRID)
                    times = 2 * made if self._extrapolates else 1
                elif self._extrapolates and not excess:
                    # The end is far, and each further replay costs a whole budget: reduce by more each time.
                    times = often = often + 1
                iteration_counts, made, words = machine.iteration_counts, 0, error.words - irreducible
                while made < times or excess > 1:
                    reduced = values.reduced(words)
                    if reduced == values:
                        irreducible |= words
                        break
                    excess //= values.reduction_factor(words)
                    self.reductions.append(words)
                    values, made = reduced, made + 1
                self._extrapolated |= error.excess > 0 or made > 1
            finally:
                self._apply(self._effect_of(machine))
        self._note_truncation(machine)
        return None

    def _same_replay(self, launch: ReplayLaunch, limits: Limits) -> _Ended | None:
        """An earlier replay that ended, and that asked nothing to which *launch* gives another answer."""
        return next(
            (each for each in self._ended if each.limits == limits and launch.agrees(each.launch)), None
        )

    def _repeated(self, same: _Ended, launch: ReplayLaunch) -> ReplayRun | None:
        """What replaying *launch* yields, like the *same* replay before."""
        self.gave_up, self._out_of_steps = same.gave_up, same.out_of_steps
        self._apply(same.effect)
        return None if same.run is None else same.run._replace(launch=launch)

    def _remember(self, machine: ReplayMachine, limits: Limits, run: ReplayRun | None) -> None:
        """Keep a replay that ended, for launches that it holds for as well."""
        effect = self._effect_of(machine)
        self._ended.append(_Ended(machine.launch, limits, run, self.gave_up, self._out_of_steps, effect))

    def _effect_of(self, machine: ReplayMachine) -> _Effect:
        return _Effect(
            frozenset(machine.entered),
            machine.repeated,
            machine.parts_lanes,
            machine.spent,
            machine.limits.steps > self._budget,
        )

    def _apply(self, effect: _Effect) -> None:
        self.entered, self.repeated, self._parts_lanes = effect.entered, effect.repeated, effect.parts_lanes
        self.steps += effect.steps
        if effect.extended:
            self._extensions_left = 0 if self._out_of_steps else self._extensions_left - 1

    def _deepest(
        self, values: LaunchValues, shape: Shape, error: TooManyMbarriers, steps: int
    ) -> tuple[frozenset[LaunchWord], int]:
        """The words that decide the depth of a ring, and their greatest value for which there is room.

        With *values*, one ring overlaps another after *steps*. A kernel may be sound with deep rings alone. Raises
        UninitialisedMbarrier if there is no room for a ring of one stage.
        """
        words = frozenset(w for w in error.words if w != GRID and not w.high)
        fitting, overlapping = 0, max(map(values.word, words), default=0)
        while overlapping - fitting > 1:
            depth = (fitting + overlapping) // 2
            machine = self._machine(values.capped(words, depth), shape, Limits(2 * steps, self._bounding))
            try:
                with suppress(TooManyIterations, OutOfSteps, Overrun, Unresolved):
                    machine.run()
                fitting = depth
            except TooManyMbarriers:
                overlapping = depth
            self.steps += machine.spent
        if not fitting:
            raise UninitialisedMbarrier(error.site, NotReplayed.TOO_MANY_MBARRIERS)
        return words, fitting

    @cached_property
    def _bounding(self) -> frozenset[LaunchWord]:
        """The words that bound loops."""
        return frozenset[LaunchWord]().union(*self.program.loops.bounds.values())

    @cached_property
    def _trip_counts_related(self) -> bool:
        """Whether one set of words bounds all loops in which threads wait."""
        bounds = {self.program.loops.bounds[header] for header in self.program.loops.waiting}
        return len(bounds - {frozenset()}) == 1

    def _replay_unreduced(self, values: LaunchValues, shape: Shape) -> ReplayRun | None:
        """Replays a launch with its full trip counts, to confirm a deadlock that a reduction shows."""
        steps = values.size * hypotheses.STEPS_PER_ITERATION.value
        machine = self._machine(values, shape, Limits(steps, self._bounding))
        try:
            return self._run_machine(machine)
        except (TooManyIterations, TooManyMbarriers):
            self._note_truncation(machine)
            return None
        finally:
            self.steps += machine.spent

    def _note_truncation(self, machine: ReplayMachine) -> None:
        """Records that a budget ended the replay."""
        site = machine.longest_loop
        self.gave_up = GaveUp(NotReplayed.TOO_LONG if site < 0 else NotReplayed.TOO_MANY_ITERATIONS, site)

    def _run_machine(self, machine: ReplayMachine) -> ReplayRun | None:
        """Executes one launch."""
        stuck: list[Stuck] = []
        overrun = None
        finished = False
        try:
            stuck = machine.run()
            finished = True
        except UninitialisedMbarrier:
            raise
        except Unresolved as error:
            self.gave_up = GaveUp(error.why, error.site)
        except Overrun as error:
            overrun = error.at
        except OutOfSteps:
            self._note_truncation(machine)
            self._out_of_steps = True
        return _observed_run(machine, stuck, overrun, finished)


def _blocked_early(stuck: Stuck, reached: Mapping[tuple[int, int], int]) -> bool:
    """Whether threads are blocked before a phase that a replay with more iterations *reached* at the same wait."""
    what = stuck.what
    return isinstance(what, ReplayMbarrier) and what.phase < reached.get((stuck.site, what.address), 0)


def _misfit(machine: ReplayMachine) -> bool:
    """Whether the kernel is made for CTAs of another size.

    Threads access bytes beyond the end of an array by their index; or, if no directive bounds the number of threads,
    a warp arrives twice in one phase of a barrier that then ends with arrivals that complete no phase.
    """
    if machine.model.function.threads is not None:
        return False
    barriers = () if machine.phase_overlaps else machine.barriers.values()
    if machine.model.function.most_threads is None and any(b.doubled and b.arrived for b in barriers):
        return True
    for access in machine.accesses:
        array = machine.program.accesses.array(access.site) if access.plain else None
        if array is not None and access.offset >= (machine.launch.address(array[0], 0) & OFFSET) + array[1]:
            return True
    return False


def _observed_run(
    machine: ReplayMachine,
    stuck: list[Stuck] | None = None,
    overrun: Stuck | None = None,
    finished: bool = False,
) -> ReplayRun | None:
    """The result of a replay; None: it was given up before a fault."""
    run = ReplayRun(
        stuck or [],
        list(races(machine.accesses, machine.operations.ordered_in_time, machine.program)),
        overrun,
        finished,
        machine.late,
        frozenset(machine.entered),
        machine.repeated,
        machine.completed_mbarriers,
        frozenset(machine.acquiring_waits),
        machine.uneven,
        machine.overlaps,
        machine.launch,
        frozenset(machine.executed),
        tuple(machine.misused.items()),
        machine.dispatched,
        _misfit(machine),
        machine.unsettled,
        machine.completed_phases,
    )
    return run if run.wrong or finished else None
