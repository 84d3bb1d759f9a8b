"""Replays of one launch after the other, each with numbers with which the loops of the kernel end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property

from tclint.replay.launch import GRID, Launch, LaunchValues, LaunchWord
from tclint.replay.launches import LaunchHypothesis, Run
from tclint.replay.machine import Machine, Overrun
from tclint.replay.program import Program
from tclint.replay.races import races
from tclint.replay.scheduler import (
    Limits,
    OutOfSteps,
    Stuck,
    TooManyIterations,
    UninitialisedMbarrier,
    Unresolved,
)
from tclint.replay.sync import Mbarrier

__all__ = ["BUDGET", "TOO_LONG", "LaunchSearch", "Shape"]

Shape = tuple[int, ...]
"""How many threads a CTA has, or CTAs a cluster, in up to three dimensions."""

BUDGET = 5_000
"""Steps of one replay."""
_PATIENCE = 15_000
"""Steps more for a kernel that is so large, or that says itself how often its loops go round."""
_PATIENT = 3
"""How many launches may take so many, as long as they come to their end."""
_ROUND = 60
"""Steps for each round of a loop that goes as often as the launch says."""
_GLANCE = 1_000
"""Steps after which a replay that only repeats others may show the same."""
_TRIES = 12
"""Launches of which each makes fewer rounds of a loop than the one before."""
TOO_LONG = "the replay takes too long"
_TOO_OFTEN = "a loop goes round too often to be followed to its end"


class LaunchSearch:
    """Replays of a kernel in clusters of one shape. What was made fewer for one launch is so for those behind it."""

    def __init__(
        self,
        program: Program,
        cluster: Shape = (1,),
        budget: int = BUDGET,
        reductions: list[frozenset[LaunchWord]] | None = None,
    ) -> None:
        self.program = program
        self.cluster = cluster
        self.reason = ""
        """Why the last launch was not replayed to its end."""
        self.site = -1
        """The instruction at which it could not go on, or its longest loop begins; -1: about the whole kernel."""
        self.truncated = False
        """It was cut short: nothing was in its way."""
        self.entered = frozenset[int]()
        """The blocks that it came to."""
        self.repeated = frozenset[int]()
        """The loops, by their headers, that somebody went round again in it."""
        self.steps = 0
        """How many steps all replays have taken."""
        self._budget = budget
        self._out_of_steps = False
        """There were no steps left, and nothing to make fewer."""
        self._extensions_left = _PATIENT
        self._increasing = False
        self.reductions = [] if reductions is None else reductions
        """What was made fewer for the launches before, so that their loops end."""
        self._extrapolates = True
        """Loops are foreseen to go round too often; nothing has gone wrong so far with numbers that were guessed so."""
        self._extrapolated = False
        """The last launch has numbers that nothing but foresight asked for."""
        self._runs: dict[tuple[LaunchHypothesis, Shape], Run] = {}

    def replay(self, hypothesis: LaunchHypothesis, shape: Shape) -> Run | None:
        """How a launch goes with CTAs of that *shape*, with memory in which something is to be done if there is such a one.

        None when it is cut short before anything goes wrong. Raises Unmade when threads name an mbarrier that none of them
        made.
        """
        if (hypothesis, shape) in self._runs:
            return self._runs[hypothesis, shape]
        run = self._replay_once(hypothesis, shape)
        idle = run is not None and not run.wrong and not run.completed_mbarriers
        if idle and not self._increasing and self.program.reads_memory:
            self._increasing = True
            run = self._replay_once(hypothesis, shape)
        if run is not None:
            self._runs[hypothesis, shape] = run
        return run

    def preview(self, hypothesis: LaunchHypothesis, shape: Shape) -> Run | None:
        """What goes wrong soon in a replay, as it did with fewer threads or more; None: nothing did."""
        machine = self._machine(self._values(hypothesis), shape, Limits(_GLANCE))
        with suppress(TooManyIterations, OutOfSteps, Overrun, Unresolved):
            machine.run()
        run = _observed_run(machine)
        return run if run and run.races else None

    def _values(self, hypothesis: LaunchHypothesis) -> LaunchValues:
        """What a launch brings, with a grid of the size that the kernel itself says."""
        values = hypothesis.values(self._increasing)
        if self._grid is None:
            return values
        return values._replace(grid=self._grid, cta=self._grid - 1 if hypothesis.cta else 0)

    @cached_property
    def _grid(self) -> int | None:
        """How many clusters there are, if the kernel says so."""
        strides = self.program.strides
        clusters, ctas = strides.get("%clusterid.x"), strides.get("%ctaid.x")
        return clusters or (max(ctas // self.cluster[0], 1) if ctas else None)

    def _machine(self, values: LaunchValues, shape: Shape, limits: Limits) -> Machine:
        return Machine(self.program, Launch(self.program.model, values, shape, self.cluster), limits)

    def _replay_once(self, hypothesis: LaunchHypothesis, shape: Shape) -> Run | None:
        """One replay; numbers that only foresight has made fewer convict nobody."""
        values = soon = self._values(hypothesis)
        for words in self.reductions if self._extrapolates else ():
            soon = soon.reduced(words)
        self._extrapolated = soon != values
        try:
            run = self._replay_to_end(soon, shape)
        except UninitialisedMbarrier:
            if not self._extrapolated:
                raise
            run, self.truncated = None, True
        if self._extrapolated and (self.truncated and not self._out_of_steps if run is None else run.wrong):
            # So few rounds may be none of the launches that the kernel is made for: no verdict rests on them.
            self._extrapolates = False
            run = self._replay_to_end(values, shape)
        return run

    def _replay_to_end(self, values: LaunchValues, shape: Shape) -> Run | None:
        """A replay with *numbers*, or with others with which its loops end."""
        self.reason, self.site, self.truncated, self._out_of_steps = "", -1, False, False
        irreducible = {GRID} if self._grid else set[LaunchWord]()
        reached: dict[tuple[int, int], int] = {}
        finished, often, made = values, 0, 0
        iteration_counts: tuple[object, ...] = ()
        for _ in range(_TRIES):
            extra_steps = _PATIENCE if self._extensions_left else 0
            machine = self._machine(
                values, shape, Limits(self._budget, irreducible, self._extrapolates, extra_steps)
            )
            try:
                run = self._run_machine(machine)
                if run is None or not any(_blocked_early(s, reached) for s in run.stuck):
                    return run
                if self._trip_counts_related:
                    return self._replay_unreduced(finished, shape)
                self._note_truncation(machine)  # the numbers may be to blame
                return None
            except TooManyIterations as error:
                if run := _observed_run(machine):
                    return run
                reached.update(
                    (at, phase)
                    for at, phase in machine.completed_phases.items()
                    if phase > reached.get(at, 0)
                )
                times, excess = int(not error.excess), error.excess
                if machine.iteration_counts == iteration_counts:
                    # What was made fewer made no difference.
                    irreducible.add(GRID)
                    times = 2 * made if self._extrapolates else 1
                elif self._extrapolates and not excess:
                    # So many steps more than once: the end is far, and each try costs all there are.
                    times = often = often + 1
                iteration_counts, made, words = machine.iteration_counts, 0, error.launch_words - irreducible
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
                self.entered, self.repeated = frozenset(machine.entered), machine.repeated
                self.steps += machine.limits.steps - max(machine.budget, 0)
                if machine.limits.steps > self._budget:
                    self._extensions_left = 0 if self._out_of_steps else self._extensions_left - 1
        self._note_truncation(machine)
        return None

    @cached_property
    def _trip_counts_related(self) -> bool:
        """Whether the same words of the launch say how often all loops go round in which threads wait."""
        bounds = {self.program.bounds[header] for header in self.program.waiting_loops}
        return len(bounds - {frozenset()}) == 1

    def _replay_unreduced(self, values: LaunchValues, shape: Shape) -> Run | None:
        """A replay with as many rounds as the *numbers* say, where fewer let a wait stand."""
        words = frozenset[LaunchWord]().union(*self.program.bounds.values())
        machine = self._machine(values, shape, Limits(values.size * _ROUND, words))
        try:
            return self._run_machine(machine)
        except TooManyIterations:
            self._note_truncation(machine)
            return None
        finally:
            self.steps += machine.limits.steps - max(machine.budget, 0)

    def _note_truncation(self, machine: Machine) -> None:
        """A replay took too long."""
        self.site, self.truncated = machine.longest_loop, True
        self.reason = TOO_LONG if self.site < 0 else _TOO_OFTEN

    def _run_machine(self, machine: Machine) -> Run | None:
        """How the replay of one launch goes."""
        stuck: list[Stuck] = []
        overrun = None
        finished = False
        try:
            stuck = machine.run()
            finished = True
        except (TooManyIterations, UninitialisedMbarrier):
            raise
        except Unresolved as error:
            self.reason, self.site = error.why, error.site
        except Overrun as error:
            overrun = error.at
        except OutOfSteps:
            self._note_truncation(machine)
            self._out_of_steps = True
        return _observed_run(machine, stuck, overrun, finished)


def _blocked_early(stuck: Stuck, reached: Mapping[tuple[int, int], int]) -> bool:
    """Whether a wait stands before a phase that it *reached* with more rounds."""
    what = stuck.what
    return isinstance(what, Mbarrier) and what.phase < reached.get((stuck.site, what.address), 0)


def _observed_run(
    machine: Machine, stuck: list[Stuck] | None = None, overrun: Stuck | None = None, finished: bool = False
) -> Run | None:
    """What a replay has shown; None when it was cut short before anything went wrong."""
    run = Run(
        stuck or [],
        list(races(machine.accesses, machine.ordered_in_time, machine.program)),
        overrun,
        finished,
        machine.late,
        frozenset(machine.entered),
        machine.repeated,
        machine.completed_mbarriers,
        frozenset(machine.acquiring_waits),
        machine.uneven,
    )
    return run if run.wrong or finished else None
