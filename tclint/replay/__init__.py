"""Replays: abstract execution of a kernel's synchronisation for launches that are made up.

Who waits for whom depends on loop counters, ring stages and parities. A replay executes these, and neither arithmetic
nor data. Threads that take the same path move together. Copies complete and commits arrive only when no thread can
continue without them, and vector clocks record what each thread has observed, so a read that no wait orders after a
copy is detected although it comes later in this run (PTX ISA 8, 9.7.13.15).

Numbers stand for parameters and for the contents of global memory, one for each kind. The threads then do what they do
for *some* launch, if the kernel accepts any. A kernel that ends or deadlocks for one set of numbers only proves
nothing, so a verdict needs all launches that reach the same code. Imports ``analyses`` and what is below.

Change this package when a replay stops early, or when it reports a race or a deadlock that no launch can have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from math import prod

from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import whole_program
from tclint.ir.nodes import MOST_THREADS
from tclint.replay.launch import LaunchWord
from tclint.replay.launch_search import BUDGET, TOO_LONG, LaunchSearch, Shape
from tclint.replay.launches import ODD, SIZES, LaunchHypothesis, LaunchResults, Run, next_hypothesis
from tclint.replay.machine import Access
from tclint.replay.program import Program
from tclint.replay.races import Race
from tclint.replay.scheduler import Stuck, UninitialisedMbarrier
from tclint.replay.sync import Mbarrier

__all__ = ["Access", "Race", "Replay", "Run", "Stuck", "UninitialisedMbarrier"]

_USUAL: tuple[Shape, ...] = ((128,), (256,), (384,), (512,))
"""Threads of a CTA that are tried first where the kernel does not say."""
_CLUSTERS: tuple[Shape, ...] = (
    (1,), (2,), (1, 2), (2, 2), (4,), (1, 4), (4, 2), (2, 4), (8,), (1, 8), (3,), (1, 3), (3, 2), (2, 3), (6,), (1, 6),
    (5,), (1, 5), (7,), (1, 7), (1, 1, 2), (2, 1, 2), (1, 2, 2), (1, 1, 4), (2, 2, 2), (4, 1, 2), (1, 4, 2), (2, 1, 4),
    (1, 2, 4), (1, 1, 8), (4, 4), (8, 2), (2, 8), (16,), (1, 16),
)  # fmt: skip
"""Clusters that are tried where the kernel does not say, the usual ones first: up to 8 CTAs, and 16 where a device allows it."""
_SEARCH = 400_000
"""Steps of all replays together with which clusters of other shapes are tried."""
_NO_CLUSTER = "the kernel does not say how many CTAs a cluster has"


class Replay:
    """What happens in the replays of one kernel."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.cluster: Shape | None = model.function.directives.get(".reqnctapercluster")
        """The CTAs of a cluster; None: the kernel does not say."""
        self.assumed = False
        """It goes wrong with clusters of all shapes, and gets farthest with that one."""
        self.reason = ""
        """Why there is none, or one that did not come to its end, so that nothing is proved."""
        self.site = -1
        """The instruction at which it could not go on, or its longest loop begins; -1: about the whole kernel."""
        self.truncated = False
        """It was cut short: nothing was in its way."""
        self.uninitialised: UninitialisedMbarrier | None = None
        """Where threads named an mbarrier that nobody had made so far, in the first launch in which they did."""
        self._bounds: Mapping[int, frozenset[LaunchWord]] = {}
        """The words of the launch that decide how often each loop goes round, by its header."""
        self.runs: list[Run] = []
        """How those went that were replayed to their end, or until something went wrong."""

    @cached_property
    def run(self) -> Run | None:
        """A replay that went wrong, if all do, or two at least and all that come to the same instructions."""
        if not self.model.function.entry or not self.model.sites("mbarrier-init"):
            return None
        if not whole_program(self.model):
            self.reason = "it calls what is not seen"
            return None
        program = Program(self.model)
        self._bounds = program.bounds
        if not program.counts_known:
            self.reason = "the launch says how many arrivals there are"
            return None
        if not program.phases_known:
            self.reason = "the launch says which phases are waited for"
            return None
        if program.clustered and self.cluster is None:
            search = self._search_clusters(program)
        else:
            search = LaunchSearch(program, self.cluster or (1,))
        return None if search is None else self._verdict(search)

    def _verdict(self, search: LaunchSearch) -> Run | None:
        """What goes wrong in clusters of one shape."""
        try:
            return self._find_fault(search)
        except UninitialisedMbarrier as error:
            self.reason, self.site = error.why, error.site
            return None

    def _find_fault(self, search: LaunchSearch) -> Run | None:
        """One of the runs that prove a fault. Raises Unmade when the first launch is none of the kernel."""
        program = search.program
        found: dict[LaunchHypothesis, Run] = {}
        bounded = self.model.function.most_threads is not None
        for shape, usual in self._cta_shapes():
            if found and bounded and prod(shape) <= 32 and all(run.between_warps for run in found.values()):
                continue  # a warp alone waits for no other, and is not what the bound is for
            launches, asked, cut = LaunchResults(self.model, program), set[LaunchHypothesis](), False
            wanted = set(SIZES) if usual else {next(iter(found), SIZES[0])}
            while left := wanted - asked:
                hypothesis = next_hypothesis(left)
                asked.add(hypothesis)
                try:
                    run = None if usual else search.preview(hypothesis, shape)
                    run = run or search.replay(hypothesis, shape)
                except UninitialisedMbarrier as error:
                    self._note(error)
                    if found or launches.conclusive:
                        break  # so many threads are none of the launches that the kernel is made for
                    raise
                if run is None:
                    self._note_ended(search)
                    if found and not usual:
                        # Threads that get farther may be those that the kernel is made for.
                        if any(
                            not launches.covered((run.entered, run.repeated), search.entered, search.repeated)
                            for run in found.values()
                        ):
                            return None
                        break
                    if not (search.truncated and usual and launches.wrong):
                        return None
                    wanted, cut = wanted.union(ODD), True
                    continue
                self.runs.append(run)
                more = launches.add(hypothesis, run)
                if launches.unexcused or (found and not run.wrong):
                    continue
                if run.wrong or not (usual and launches.completed_mbarriers) or more <= asked:
                    return None
                wanted = more
            if usual and not cut:
                self._explore_further(search, launches, shape, asked)
            unexcused = launches.unexcused
            if cut and len(unexcused) < len(SIZES):
                return None
            if launches.entered and len(unexcused) < 2:
                # So many threads say nothing of what only more of them come to.
                found = {
                    hypothesis: run
                    for hypothesis, run in found.items()
                    if not (launches.excuses(run) or launches.covers(run))
                }
                if not found:
                    return None
                continue
            for hypothesis, run in unexcused.items():
                if run.uneven:
                    continue
                # The threads that the kernel is made for get farthest.
                found[hypothesis] = max(
                    found.get(hypothesis, run), run, key=lambda run: len(run.entered & program.synchronising)
                )
        return next((run for run in found.values() if run.races), next(iter(found.values()), None))

    def _explore_further(
        self, search: LaunchSearch, launches: LaunchResults, shape: Shape, asked: Collection[LaunchHypothesis]
    ) -> None:
        """Tries launches that come to what all of those that went wrong leave out, where that may be what they lack.

        One counts if it goes right, or wrong at the same place.
        """
        wrong = next(iter(launches.wrong.values()), None)
        if wrong is None or launches.entered or not self.misses_loop(wrong):
            return
        left = launches.unexplored().difference(asked)
        while left:
            hypothesis = next_hypothesis(left)
            left.remove(hypothesis)
            with suppress(UninitialisedMbarrier):
                run = search.replay(hypothesis, shape)
                if run is not None and (not run.wrong or wrong.again(run)):
                    self.runs.append(run)
                    launches.add(hypothesis, run)

    def _search_clusters(self, program: Program) -> LaunchSearch | None:
        """The clusters that the kernel is made for: its ranks, masks and counts of arrivals fit no others.

        If it goes wrong with all of them, those with which it gets farthest; None when that cannot be told.
        """
        shape, usual = next(self._cta_shapes(), ((), False))
        if not usual or not self.model.function.most_threads:
            self.reason = _NO_CLUSTER
            return None
        wrong: list[tuple[Run, LaunchSearch]] = []
        search, steps = LaunchSearch(program), 0
        for cluster in _CLUSTERS:
            budget = BUDGET * max(1, prod(cluster) // 2)
            search = LaunchSearch(program, cluster, budget, search.reductions)
            try:
                run = search.replay(SIZES[0], shape)
            except UninitialisedMbarrier as error:
                self._note(error)
                continue  # it may name an mbarrier of a CTA that there is not
            steps += search.steps
            if run is None:
                self._note_ended(search)
                return None
            if not run.wrong:
                self.cluster, self.uninitialised = cluster, None
                return search
            wrong.append((run, search))
            if steps > _SEARCH:
                self.reason, self.truncated = TOO_LONG, True
                return None
        if not wrong:
            self.reason = _NO_CLUSTER
            return None
        # Where mbarriers of the others count arrivals that never come, nobody gets far.
        farthest = max(
            wrong,
            key=lambda w: (
                not (w[0].stuck or w[0].overrun),
                len(w[0].completed_mbarriers) / prod(w[1].cluster),
            ),
        )
        self.cluster, self.assumed = farthest[1].cluster, True
        return farthest[1]

    def _note_ended(self, search: LaunchSearch) -> None:
        """A launch was not replayed to its end."""
        self.reason, self.site, self.truncated = search.reason, search.site, search.truncated

    def _note(self, error: UninitialisedMbarrier) -> None:
        if self.uninitialised is None and error.address >= 0:
            self.uninitialised = error

    def misses_loop(self, run: Run) -> bool:
        """Whether no launch that was replayed comes to a loop of the kernel that may be what *run* lacks.

        Then the numbers may be to blame: sizes that go with each other in no real launch leave nothing to do. It is a loop in
        which threads wait, on the way to where it goes wrong, or in which there is what others stand and wait for.
        """
        model = self.model
        block_of = model.cfg.block_of
        entered = frozenset[int]().union(*(run.entered for run in self.runs))
        waits = {block_of[i] for i in model.sites("mbarrier-wait")}
        deeds: dict[int, list[int]] = {}
        for event in model.events:
            if event.kind != "mbarrier-wait":
                deeds.setdefault(block_of[event.site], []).append(event.site)
        for head, loop in model.cfg.loops.items():
            if loop.isdisjoint(waits) or not loop.isdisjoint(entered):
                continue
            if done := [i for block in loop for i in deeds.get(block, ())]:
                start = model.cfg.blocks[head].start
                if (
                    self._may_be_missing(run.stuck, start, done)
                    if not run.races
                    else self._precedes_race(run.races, start)
                ):
                    return True
        return False

    def mixes_trip_counts(self, run: Run) -> bool:
        """Whether other numbers of the launch say how often those go round that are stuck than how often others do by whom they wait.

        A number of tiles that is passed beside the size that it follows from has nothing to do with it in a replay.
        """
        events = [event.site for event in self.model.events if event.kind != "mbarrier-wait"]
        for s in run.stuck:
            if isinstance(s.what, Mbarrier):
                words = self._trip_count_words(s.site)
                others = {self._trip_count_words(i) for i in events if self._may_unblock(s, i)} - {
                    frozenset()
                }
                if words and others and not any(words <= o or o <= words for o in others):
                    return True
        return False

    def _trip_count_words(self, site: int) -> frozenset[LaunchWord]:
        """The words that decide how often threads come to *site*."""
        cfg = self.model.cfg
        return frozenset().union(*map(self._bounds.__getitem__, cfg.around(cfg.block_of[site])))

    def _precedes_race(self, races: list[Race], start: int) -> bool:
        """Whether a loop that begins at *start* lies before where threads race."""
        return any(self.model.reaches(start, race.second.site) for race in races)

    def _may_be_missing(self, stuck: list[Stuck], start: int, done: list[int]) -> bool:
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
            and any(self._may_unblock(s, i) for s in stuck for i in done)
        )

    def _may_unblock(self, stuck: Stuck, site: int) -> bool:
        """Whether those that are *stuck* may wait for what is done at *site*."""
        instruction, mbarriers = self.model.instruction(site), self.model.made(Mbarriers)
        if not isinstance(stuck.what, Mbarrier):
            return instruction.event in ("barrier-sync", "barrier-arrive")
        rings, others = mbarriers.rings_at(stuck.site), mbarriers.rings_at(site)
        return instruction.role("mbarrier") is not None and not (
            rings and others and rings.isdisjoint(others)
        )

    def _cta_shapes(self) -> Iterator[tuple[tuple[int, ...], bool]]:
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
        next_hypothesis = (bound,) if bound else _USUAL
        yield from ((shape, True) for shape in next_hypothesis if not bound)
        if self.model.values.may_be_alone:
            yield (1,), False
        for threads in range(32, (prod(bound) if bound else MOST_THREADS) + 1, 32):
            if (threads,) not in next_hypothesis:
                yield (threads,), False
