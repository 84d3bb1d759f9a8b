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
from tclint.replay.groups import Stuck, Unmade
from tclint.replay.launch import Word
from tclint.replay.launch_search import MAX_STEPS_PER_REPLAY, TOO_LONG, Fitting, Shape
from tclint.replay.launches import ODD, SIZES, Launches, Run, Try, first
from tclint.replay.machine import Access
from tclint.replay.program import Program
from tclint.replay.races import Race
from tclint.replay.sync import Mbarrier

__all__ = ["Access", "Race", "Replay", "Run", "Stuck", "Unmade"]

_USUAL: tuple[Shape, ...] = ((128,), (256,), (384,), (512,))
"""Threads of a CTA that are tried first where the kernel does not say."""
_CLUSTERS: tuple[Shape, ...] = (
    (1,), (2,), (1, 2), (2, 2), (4,), (1, 4), (4, 2), (2, 4), (8,), (1, 8), (3,), (1, 3), (3, 2), (2, 3), (6,), (1, 6),
    (5,), (1, 5), (7,), (1, 7), (1, 1, 2), (2, 1, 2), (1, 2, 2), (1, 1, 4), (2, 2, 2), (4, 1, 2), (1, 4, 2), (2, 1, 4),
    (1, 2, 4), (1, 1, 8), (4, 4), (8, 2), (2, 8), (16,), (1, 16),
)  # fmt: skip
"""Clusters that are tried where the kernel does not say, the usual ones first: up to 8 CTAs, and 16 where a device allows it."""
MAX_STEPS_PER_CLUSTER_SEARCH = 400_000
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
        self.short = False
        """It was cut short: nothing was in its way."""
        self.limit = 0
        """The steps after which it was cut short."""
        self.unmade: Unmade | None = None
        """Where threads named an mbarrier that nobody had made so far, in the first launch in which they did."""
        self._bounds: Mapping[int, frozenset[Word]] = {}
        """The words of the launch that decide how often each loop goes round, by its header."""
        self.runs: list[Run] = []
        """How those went that were replayed to their end, or until something went wrong."""

    @cached_property
    def run(self) -> Run | None:
        """A replay that went wrong, if all do, or two at least and all that come to the same instructions."""
        found = self._run()
        if found is None and self.reason:
            limit = f": more than {self.limit} steps" if self.short else ""
            self.model.ledger.give_up("replay", self.site, self.reason + limit)
        return found

    def _run(self) -> Run | None:
        if not self.model.function.entry or not self.model.sites("mbarrier-init"):
            return None
        if not whole_program(self.model):
            self.reason = "it calls what is not seen"
            return None
        program = Program(self.model)
        self._bounds = program.bounds
        if not program.counted:
            self.reason = "the launch says how many arrivals there are"
            return None
        if not program.phased:
            self.reason = "the launch says which phases are waited for"
            return None
        if program.clustered and self.cluster is None:
            fitting = self._whichever(program)
        else:
            fitting = Fitting(program, self.cluster or (1,))
        return None if fitting is None else self._verdict(fitting)

    def _verdict(self, fitting: Fitting) -> Run | None:
        """What goes wrong in clusters of one shape."""
        try:
            return self._convicted(fitting)
        except Unmade as error:
            self.reason, self.site = error.why, error.site
            return None

    def _convicted(self, fitting: Fitting) -> Run | None:
        """One of the runs that prove a fault. Raises Unmade when the first launch is none of the kernel."""
        program = fitting.program
        found: dict[Try, Run] = {}
        bounded = self.model.function.most_threads is not None
        for shape, usual in self._shapes():
            if found and bounded and prod(shape) <= 32 and all(run.between_warps for run in found.values()):
                continue  # a warp alone waits for no other, and is not what the bound is for
            launches, asked, cut = Launches(self.model, program), set[Try](), False
            wanted = set(SIZES) if usual else {next(iter(found), SIZES[0])}
            while left := wanted - asked:
                tried = first(left)
                asked.add(tried)
                try:
                    run = None if usual else fitting.glance(tried, shape)
                    run = run or fitting.launched(tried, shape)
                except Unmade as error:
                    self._note(error)
                    if found or launches.some:
                        break  # so many threads are none of the launches that the kernel is made for
                    raise
                if run is None:
                    self._ended(fitting)
                    if found and not usual:
                        # Threads that get farther may be those that the kernel is made for.
                        if any(
                            not launches.within(
                                (run.entered, run.repeated), fitting.entered, fitting.repeated
                            )
                            for run in found.values()
                        ):
                            return None
                        break
                    if not (fitting.short and usual and launches.wrong):
                        return None
                    wanted, cut = wanted.union(ODD), True
                    continue
                self.runs.append(run)
                more = launches.add(tried, run)
                if launches.standing or (found and not run.wrong):
                    continue
                if run.wrong or not (usual and launches.used) or more <= asked:
                    return None
                wanted = more
            if usual and not cut:
                self._look_further(fitting, launches, shape, asked)
            standing = launches.standing
            if cut and len(standing) < len(SIZES):
                return None
            if launches.entered and len(standing) < 2:
                # So many threads say nothing of what only more of them come to.
                found = {
                    tried: run
                    for tried, run in found.items()
                    if not (launches.excuses(run) or launches.fits(run))
                }
                if not found:
                    return None
                continue
            for tried, run in standing.items():
                if run.uneven:
                    continue
                # The threads that the kernel is made for get farthest.
                found[tried] = max(
                    found.get(tried, run), run, key=lambda run: len(run.entered & program.telling)
                )
        return next((run for run in found.values() if run.races), next(iter(found.values()), None))

    def _look_further(
        self, fitting: Fitting, launches: Launches, shape: Shape, asked: Collection[Try]
    ) -> None:
        """Tries launches that come to what all of those that went wrong leave out, where that may be what they lack.

        One counts if it goes right, or wrong at the same place.
        """
        wrong = next(iter(launches.wrong.values()), None)
        if wrong is None or launches.entered or not self.idle(wrong):
            return
        left = launches.beyond().difference(asked)
        while left:
            tried = first(left)
            left.remove(tried)
            with suppress(Unmade):
                run = fitting.launched(tried, shape)
                if run is not None and (not run.wrong or wrong.again(run)):
                    self.runs.append(run)
                    launches.add(tried, run)

    def _whichever(self, program: Program) -> Fitting | None:
        """The clusters that the kernel is made for: its ranks, masks and counts of arrivals fit no others.

        If it goes wrong with all of them, those with which it gets farthest; None when that cannot be told.
        """
        shape, usual = next(self._shapes(), ((), False))
        if not usual or not self.model.function.most_threads:
            self.reason = _NO_CLUSTER
            return None
        wrong: list[tuple[Run, Fitting]] = []
        fitting, steps = Fitting(program), 0
        for cluster in _CLUSTERS:
            budget = MAX_STEPS_PER_REPLAY * max(1, prod(cluster) // 2)
            fitting = Fitting(program, cluster, budget, fitting.lowered)
            try:
                run = fitting.launched(SIZES[0], shape)
            except Unmade as error:
                self._note(error)
                continue  # it may name an mbarrier of a CTA that there is not
            steps += fitting.steps
            if run is None:
                self._ended(fitting)
                return None
            if not run.wrong:
                self.cluster, self.unmade = cluster, None
                return fitting
            wrong.append((run, fitting))
            if steps > MAX_STEPS_PER_CLUSTER_SEARCH:
                self.reason, self.short, self.limit = TOO_LONG, True, MAX_STEPS_PER_CLUSTER_SEARCH
                return None
        if not wrong:
            self.reason = _NO_CLUSTER
            return None
        # Where mbarriers of the others count arrivals that never come, nobody gets far.
        farthest = max(
            wrong, key=lambda w: (not (w[0].stuck or w[0].overrun), len(w[0].used) / prod(w[1].cluster))
        )
        self.cluster, self.assumed = farthest[1].cluster, True
        return farthest[1]

    def _ended(self, fitting: Fitting) -> None:
        """A launch was not replayed to its end."""
        self.reason, self.site = fitting.reason, fitting.site
        self.short, self.limit = fitting.short, fitting.limit

    def _note(self, error: Unmade) -> None:
        if self.unmade is None and error.address >= 0:
            self.unmade = error

    def idle(self, run: Run) -> bool:
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
                if self._lacks(run.stuck, start, done) if not run.races else self._before(run.races, start):
                    return True
        return False

    def unrelated(self, run: Run) -> bool:
        """Whether other numbers of the launch say how often those go round that are stuck than how often others do by whom they wait.

        A number of tiles that is passed beside the size that it follows from has nothing to do with it in a replay.
        """
        events = [event.site for event in self.model.events if event.kind != "mbarrier-wait"]
        for s in run.stuck:
            if isinstance(s.what, Mbarrier):
                words = self._deciding(s.site)
                others = {self._deciding(i) for i in events if self._helps(s, i)} - {frozenset()}
                if words and others and not any(words <= o or o <= words for o in others):
                    return True
        return False

    def _deciding(self, site: int) -> frozenset[Word]:
        """The words that decide how often threads come to *site*."""
        cfg = self.model.cfg
        return frozenset().union(*map(self._bounds.__getitem__, cfg.around(cfg.block_of[site])))

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
        if self.model.values.may_be_alone:
            yield (1,), False
        for threads in range(32, (prod(bound) if bound else MOST_THREADS) + 1, 32):
            if (threads,) not in first:
                yield (threads,), False
