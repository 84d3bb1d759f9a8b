"""The verdict on a kernel: which launches are replayed, in which order, and what they prove together.

A fault is proved if every launch that reaches the code shows it. Launches that end without a fault excuse the others
(:class:`~tclint.replay.launches.LaunchResults`); a launch that cannot be replayed makes the verdict :class:`GaveUp`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import product
from math import prod

from tclint._dataclass import dataclass
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import whole_program
from tclint.dataflow import GaveUp
from tclint.ir.nodes import MAX_CTA_THREADS
from tclint.isa.effects import Barrier, Resource
from tclint.replay import hypotheses
from tclint.replay.empty_items import empty_item
from tclint.replay.hypotheses import CANCELLED, GRID, MEMORY, LaunchHypothesis, LaunchWord, Shape
from tclint.replay.interface import EqualWords, Faulty, NoFault, ReplayAnswers, Verdict
from tclint.replay.launch_search import LaunchSearch
from tclint.replay.launches import LaunchResults, ReplayRun, next_hypothesis
from tclint.replay.program import ReplaySlice
from tclint.replay.races import Race
from tclint.replay.reasons import NotReplayed
from tclint.replay.replayed import replayed
from tclint.replay.scheduler import UninitialisedMbarrier
from tclint.replay.sync import ReplayMbarrier
from tclint.replay.thread_groups import Stuck
from tclint.values.nodes import Loaded

__all__ = ["QUESTION", "Replay"]

QUESTION = "replay"
"""What :attr:`KernelModel.ledger` calls the question whether the synchronisation of a kernel is faulty."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """What launches in CTAs of one shape show."""

    launches: LaunchResults
    asked: set[LaunchHypothesis]
    cut: bool
    """Whether a replay was too long, so that odd sizes were tried as well."""


class Replay(ReplayAnswers):
    """The replays of one kernel."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._cluster: Shape | None = _recorded_cluster(model) or model.function.cluster
        """The shape of a cluster; None: the kernel does not state one that a launch can have, and it has not been found."""
        self._gave_up: GaveUp[NotReplayed] | None = None
        """Why the last launch that was tried has no result."""
        self.uninitialised: UninitialisedMbarrier | None = None
        """The first use of an address where no mbarrier had been initialised, in the first launch with such a use."""
        self._bounds: Mapping[int, frozenset[LaunchWord]] = {}
        """The words of the launch that bound each loop, by its header."""
        self.runs: list[ReplayRun] = []
        """The launches that ended, or showed a fault."""
        self.verdict: Verdict = self._replayed() or self._gave_up or NoFault()
        """Whether the synchronisation is faulty."""
        if isinstance(self.verdict, GaveUp):
            model.ledger.give_up(QUESTION, self.verdict.site, self.verdict.why)

    @property
    def run(self) -> ReplayRun | None:
        """The launch that shows the fault, if the kernel is faulty."""
        return self.verdict.run if isinstance(self.verdict, Faulty) else None

    @property
    def incomplete(self) -> str:
        """Why the synchronisation was not replayed to the end for all launches that are tried; empty if it was."""
        if not isinstance(self.verdict, GaveUp):
            return ""
        return f"not replayed{' for all launches' if self.runs else ''}: {self.verdict.why}"

    def _replayed(self) -> Faulty | None:
        """The fault, if launches prove one.

        Otherwise :attr:`_gave_up` is why there is no verdict, if there is none.
        """
        model = self.model
        if not replayed(model):
            return None
        if not whole_program(self.model):
            self._gave_up = GaveUp(NotReplayed.UNSEEN_CALL)
            return None
        program = ReplaySlice(self.model)
        self._bounds = program.loops.bounds
        if not (program.operands.counts_known and program.operands.phases_known):
            self._gave_up = GaveUp(
                NotReplayed.PHASE_FROM_LAUNCH
                if program.operands.counts_known
                else NotReplayed.COUNT_FROM_LAUNCH
            )
            return None
        search: LaunchSearch | None = None
        assumed = None
        if program.clustered and self._cluster is None:
            search, assumed = self._search_clusters(program)
        else:
            search = LaunchSearch(program, self._cluster or (1,), hypotheses.MAX_STEPS.value)
        try:
            hypothesis, run = (None, None) if search is None else self._find_fault(search)
        except UninitialisedMbarrier as error:
            self._gave_up = GaveUp(error.why, error.site)
            return None
        if hypothesis is None or run is None or search is None:
            return None if self._gave_up or search is None else self._empty_items(search)
        if self._depends_on_roles(search, hypothesis, run):
            return None
        if (wait := self._excused_by_trip_counts(search, hypothesis, run)) is not None:
            self._gave_up = GaveUp(NotReplayed.UNRELATED_TRIP_COUNTS, wait)
            return None
        if not program.reads_memory or not self._needs_equal_words(search, run):
            return Faulty(run, assumed)
        equal = self._equal_words(run)
        return None if equal is None else Faulty(run, assumed, equal)

    def _depends_on_roles(self, search: LaunchSearch, launch: LaunchHypothesis, run: ReplayRun) -> bool:
        """Whether launches with other counts of warps or threads than *launch* execute what is at fault in *run* without
        a fault.
        """
        if not run.dispatched:
            return False
        if not search.program.has_mbarriers and not run.races:
            return True  # counts of barriers fit one division of the roles only
        launches = LaunchResults(self.model, search.program)
        for shape in [shape for shape, often in self._cta_shapes() if often]:
            for count in hypotheses.ROLES.value:
                with suppress(UninitialisedMbarrier):
                    hypothesis = launch._replace(roles=count)
                    other = search.replay(hypothesis, shape) if count < prod(shape) else None
                    if other is not None and not other.wrong:
                        launches.add(hypothesis, other)
                        if launches.excuses(run):
                            return True
        return False

    def _excused_by_trip_counts(
        self, search: LaunchSearch, launch: LaunchHypothesis, run: ReplayRun
    ) -> int | None:
        """The wait at which *run* deadlocks, if it passes that phase in a launch whose words are related otherwise.

        Only words count that bound the loops of the wait, or of what could end it: all words of a launch are equal, so one
        role may have work for which the other has none.
        """
        stuck = [(s.what, s) for s in run.deadlocks if isinstance(s.what, ReplayMbarrier)]
        if not stuck or run.launch is None or self.model.recorded is not None:
            return None
        awaited, first = min(stuck, key=lambda each: (each[0].phase, each[1].site))
        own = self._trip_count_words(first.site)
        events = self.model.where(lambda effects: effects.awaits is not Barrier.MBARRIER)
        sides = {own, *(self._trip_count_words(i) for i in events if self._may_unblock(first, i))}
        words = [w for w in frozenset().union(*sides) - {GRID, MEMORY, CANCELLED} if not w.high]
        if len(sides) < 2 and len(words) < 2:
            return None  # one word decides all trip counts, and each of its values is that of a launch
        size, steps = max(h.size for h in hypotheses.SIZES.value), 0
        for value, word in product(hypotheses.RELATED_WORDS.value, sorted(words, key=repr)):
            # Reductions that other launches needed would change how the words are related.
            alone = LaunchSearch(search.program, search.cluster, hypotheses.MAX_STEPS.value)
            with suppress(UninitialisedMbarrier):
                other = alone.replay(
                    launch._replace(size=size, others=((word, value),)), run.launch.shape.block
                )
                passed = {} if other is None or other.wrong else other.completed_phases
                if passed.get((first.site, awaited.address), 0) > awaited.phase:
                    return first.site
            steps += alone.steps
            if steps > hypotheses.MAX_RELATED_STEPS.value:
                break
        return None

    def _needs_equal_words(self, search: LaunchSearch, run: ReplayRun) -> bool:
        """Whether launches in which no two words of memory are equal execute what is at fault in *run* without a fault."""
        distinct = LaunchSearch(search.program, search.cluster, hypotheses.MAX_STEPS.value, distinct=True)
        kept = self._gave_up, self.runs
        self.runs = []
        try:
            if self._find_fault(distinct)[1] is not None:
                return False
            entered = frozenset[int]().union(*(other.entered for other in self.runs if not other.wrong))
        except UninitialisedMbarrier:
            return False
        finally:
            self._gave_up, self.runs = kept
        block_of = self.model.cfg.block_of
        return entered.issuperset(block_of[i] for i in run.sites)

    def _empty_items(self, search: LaunchSearch) -> Faulty | None:
        """The fault that every launch shows in which items alternate whose size is 0 and is not, if the kernel tests for it.

        Each element that the kernel loads is then a word of its own: both roles find one item empty, or neither does.
        """
        program = search.program
        item = empty_item(program) if program.has_mbarriers and not program.clustered else None
        shape, usual = next(self._cta_shapes(), ((), False))
        if item is None or not usual or self.model.recorded is not None:
            return None
        indexed = ReplaySlice(self.model, indexed=True)
        runs = list[ReplayRun]()
        for launch in hypotheses.ALTERNATING_ITEMS.value:
            try:
                run = LaunchSearch(indexed, search.cluster, hypotheses.MAX_STEPS.value).replay(launch, shape)
            except UninitialisedMbarrier:
                return None
            if run is None or not run.wrong or run.uneven or run.misfit:
                return None
            runs.append(run)
        return Faulty(runs[0], None, item) if runs else None

    def _equal_words(self, run: ReplayRun) -> EqualWords | None:
        """Words that differ by a constant address and whose difference decides a branch that *run* executes; or None."""
        model, values = self.model, self.model.values
        for block in sorted(run.entered):
            for edge in model.cfg.successors[block]:
                predicate = model.reachability.edge_predicate(edge)
                for difference in () if predicate is None else values.differences(predicate):
                    first, second = (values.node(t) for t, _ in values.linear(difference)[0])
                    if type(first) is not Loaded or type(second) is not Loaded:
                        continue
                    if not all(load.space.startswith(".global") for load in (first, second)):
                        continue
                    if values.linear(first.address)[0] != values.linear(second.address)[0]:
                        continue
                    sites = (first.site, second.site)
                    names = tuple(
                        model.function.registers[model.instruction(load.site).writes[load.index]].name
                        for load in (first, second)
                    )
                    looped = any(
                        block in loop and not {model.cfg.block_of[i] for i in sites} & loop
                        for loop in model.cfg.loops.values()
                    )
                    branch = model.cfg.blocks[block].end - 1
                    return EqualWords(sites, (names[0], names[1]), branch, not looped)
        return None

    def _find_fault(self, search: LaunchSearch) -> tuple[LaunchHypothesis, ReplayRun] | tuple[None, None]:
        """The run that shows the fault best, and its launch, if launches prove one.

        Raises UninitialisedMbarrier if the first launch has no mbarriers.
        """
        program = search.program
        found: dict[LaunchHypothesis, ReplayRun] = {}
        for shape, usual in self._shapes_to_try(program, found):
            if not (usual or found):
                self._gave_up = GaveUp(NotReplayed.NO_CTA_SHAPE)  # all usual CTAs are too large
                return None, None
            tried = self._try_shape(search, shape, usual, found)
            if tried is None:
                return None, None
            if usual and not tried.cut:
                self._explore_further(search, tried.launches, shape, tried.asked)
            unexcused = tried.launches.unexcused
            if tried.cut and len(unexcused) < len(hypotheses.SIZES.value):
                return None, None
            if tried.launches.entered and len(unexcused) < hypotheses.MIN_FAILING_LAUNCHES.value:
                # CTAs of this size are no evidence for code that only larger ones reach.
                for hypothesis, run in list(found.items()):
                    if tried.launches.excuses(run) or tried.launches.covers(run):
                        del found[hypothesis]
                if not found:
                    return None, None
                continue
            for hypothesis, run in unexcused.items():
                if run.uneven:
                    continue
                # The CTAs that the kernel is made for get farthest.
                found[hypothesis] = max(
                    found.get(hypothesis, run), run, key=lambda run: len(run.entered & program.synchronising)
                )
        best = next((pair for pair in found.items() if pair[1].races), next(iter(found.items()), None))
        return best or (None, None)

    def _try_shape(
        self, search: LaunchSearch, shape: Shape, usual: bool, found: Mapping[LaunchHypothesis, ReplayRun]
    ) -> _Tried | None:
        """The launches in CTAs of one shape; None if they prove that no fault can be shown.

        Raises UninitialisedMbarrier if the first launch has no mbarriers.
        """
        program, sizes = search.program, hypotheses.SIZES.value
        launches, asked, cut = LaunchResults(self.model, program), set[LaunchHypothesis](), False
        wanted = set(sizes) if usual else {next(iter(found), sizes[0])}
        previewed = not usual and any(run.races for run in found.values())  # a preview shows no other fault
        while left := wanted - asked:
            hypothesis = next_hypothesis(left)
            asked.add(hypothesis)
            try:
                run = search.preview(hypothesis, shape) if previewed else None
                run = run or search.replay(hypothesis, shape)
            except UninitialisedMbarrier as error:
                self._note(error)
                if found or launches.conclusive:
                    break  # the kernel is not made for CTAs of this size
                raise
            if run is None:
                self._gave_up = search.gave_up
                if found and not usual:
                    # The kernel may be made for the CTAs whose threads get farther.
                    if any(
                        not launches.covered((run.entered, run.repeated), search.entered, search.repeated)
                        for run in found.values()
                    ):
                        return None
                    break
                if not (search.truncated and usual and launches.wrong):
                    return None
                wanted, cut = wanted.union(hypotheses.ODD_SIZES.value), True
                continue
            if run.misfit:
                launches = LaunchResults(self.model, program)
                break
            self.runs.append(run)
            more = launches.add(hypothesis, run)
            if launches.unexcused or (found and not run.wrong):
                continue
            if run.wrong or not (usual and launches.completed_mbarriers) or more <= asked:
                return None
            wanted = more
        return _Tried(launches, asked, cut)

    def _shapes_to_try(
        self, program: ReplaySlice, found: Mapping[LaunchHypothesis, ReplayRun]
    ) -> Iterator[tuple[Shape, bool]]:
        """The shapes of :meth:`_cta_shapes` that may excuse what was *found* in those before.

        One warp does not wait for another, so it excuses no race between warps of a kernel that is made for several.
        Without mbarriers, a race must show in one launch of each power of two.
        """
        barriers = not program.has_mbarriers
        several = self.model.function.most_threads is not None or (barriers and _waits_for_warps(self.model))
        for shape, usual in self._cta_shapes():
            size, runs = prod(shape), found.values()
            if runs and several and size <= 32 and all(run.between_warps for run in runs):
                continue
            if runs and barriers:
                if size & (size - 1) and all(run.races and not run.deadlocks for run in runs):
                    continue
                usual = False
            yield shape, usual

    def _explore_further(
        self, search: LaunchSearch, launches: LaunchResults, shape: Shape, asked: Collection[LaunchHypothesis]
    ) -> None:
        """Replays launches that enter a loop which all faulty ones miss, and whose absence may cause the fault.

        Such a launch counts if it has no fault, or the same.
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

    def _search_clusters(self, program: ReplaySlice) -> tuple[LaunchSearch | None, Shape | None]:
        """The search with the cluster shape that the kernel is made for: its ranks, masks and arrival counts fit no
        other.

        If every shape shows a fault, the one that gets farthest, and that shape; (None, None) if that is undecided.
        """
        shape, usual = next(self._cta_shapes(), ((), False))
        if not usual or not self.model.function.most_threads:
            self._gave_up = GaveUp(NotReplayed.NO_CLUSTER_SHAPE)
            return None, None
        wrong: list[tuple[ReplayRun, LaunchSearch]] = []
        reductions, steps = list[frozenset[LaunchWord]](), 0
        for cluster in hypotheses.CLUSTER_SHAPES.value:
            budget = hypotheses.MAX_STEPS.value * max(1, prod(cluster) // 2)
            search = LaunchSearch(program, cluster, budget, reductions)
            try:
                run = search.replay(hypotheses.SIZES.value[0], shape)
            except UninitialisedMbarrier as error:
                self._note(error)
                continue  # it may use an mbarrier of a CTA that this cluster does not have
            steps += search.steps
            if run is None:
                self._gave_up = search.gave_up
                return None, None
            if not run.wrong:
                self.uninitialised = None
                return search, None
            wrong.append((run, search))
            if steps > hypotheses.MAX_CLUSTER_SEARCH_STEPS.value:
                self._gave_up = GaveUp(NotReplayed.TOO_LONG)
                return None, None
        if not wrong:
            self._gave_up = GaveUp(NotReplayed.NO_CLUSTER_SHAPE)
            return None, None
        # Where mbarriers count arrivals of CTAs that this cluster does not have, threads deadlock early.
        farthest = max(
            wrong,
            key=lambda w: (
                not (w[0].deadlocks or w[0].overrun),
                len(w[0].completed_mbarriers) / prod(w[1].cluster),
            ),
        )
        return farthest[1], farthest[1].cluster

    def _note(self, error: UninitialisedMbarrier) -> None:
        if self.uninitialised is None and error.address >= 0:
            self.uninitialised = error

    def misses_loop(self, run: ReplayRun) -> bool:
        """Whether no launch enters some loop that could prevent the fault of *run*.

        Then the values may be at fault: sizes that go together in no real launch leave no work. The loop waits, and
        lies before the race, or contains what the deadlocked threads wait for.
        """
        model = self.model
        block_of = model.cfg.block_of
        entered = frozenset[int]().union(*(run.entered for run in self.runs))
        waits = {block_of[i] for i in model.awaits(Barrier.MBARRIER)}
        deeds: dict[int, list[int]] = {}
        for site in model.where(lambda effects: effects.awaits is not Barrier.MBARRIER):
            deeds.setdefault(block_of[site], []).append(site)
        for head, loop in model.cfg.loops.items():
            if loop.isdisjoint(waits) or not loop.isdisjoint(entered):
                continue
            if done := [i for block in loop for i in deeds.get(block, ())]:
                start = model.cfg.blocks[head].start
                if (
                    self._may_be_missing(run.deadlocks, start, done)
                    if not run.races
                    else self._precedes_race(run.races, start)
                ):
                    return True
        return False

    def mixes_trip_counts(self, run: ReplayRun) -> bool:
        """Whether unrelated words of the launch bound the loops of a deadlocked wait and of those that could end it.

        A number of tiles that is passed beside the size that it follows from is unrelated to it in a replay.
        """
        events = self.model.where(lambda effects: effects.awaits is not Barrier.MBARRIER)
        for s in run.deadlocks:
            if isinstance(s.what, ReplayMbarrier):
                words = self._trip_count_words(s.site)
                others = {self._trip_count_words(i) for i in events if self._may_unblock(s, i)} - {
                    frozenset()
                }
                if words and others and not any(words <= o or o <= words for o in others):
                    return True
        return False

    def _trip_count_words(self, site: int) -> frozenset[LaunchWord]:
        """The words that bound the loops around *site*."""
        cfg = self.model.cfg
        return frozenset().union(*map(self._bounds.__getitem__, cfg.enclosing_loops(cfg.block_of[site])))

    def _precedes_race(self, races: list[Race], start: int) -> bool:
        """Whether a race is reachable from the loop that begins at *start*."""
        return any(self.model.reaches(start, race.second.site) for race in races)

    def _may_be_missing(self, stuck: list[Stuck], start: int, done: list[int]) -> bool:
        """Whether the events *done* in the loop that begins at *start* may be what the *stuck* threads wait for.

        The loop must be one that the stuck threads, or others, bypass: a deadlocked thread does not reach what
        follows its wait.
        """
        model = self.model
        threads = model.views.context_of(start).threads
        for s in stuck:
            if not model.reaches(start, s.site):
                threads &= ~sum(1 << thread for thread in s.threads)
        return (
            threads != 0
            and model.reaches(-1, start, [s.site for s in stuck])
            and any(self._may_unblock(s, i) for s in stuck for i in done)
        )

    def _may_unblock(self, stuck: Stuck, site: int) -> bool:
        """Whether the event at *site* may be what the *stuck* threads wait for."""
        instruction, mbarriers = self.model.instruction(site), self.model.fact(Mbarriers)
        if not isinstance(stuck.what, ReplayMbarrier):
            return instruction.effects.at_barrier
        rings, others = mbarriers.rings_at(stuck.site), mbarriers.rings_at(site)
        return instruction.mbarrier is not None and not (rings and others and rings.isdisjoint(others))

    def _cta_shapes(self) -> Iterator[tuple[tuple[int, ...], bool]]:
        """The shapes of a CTA to replay, and whether with all values.

        Shapes that the kernel does not ask for are replayed once.
        """
        function = self.model.function
        if self.model.recorded is not None:
            yield self.model.recorded.block, True
            return
        required, bound = function.directives.get(".reqntid"), function.directives.get(".maxntid")
        if not function.most_threads:
            required = bound = None  # no launch can have the shape, if any is stated
        if required:
            yield required, True
            return
        one_dimensional = self.model.values.one_dimensional
        # One of a single dimension bounds the product of several where the kernel has them.
        if bound and (one_dimensional or function.bounds_several_dimensions):
            yield bound, True
            if self.model.values.cta_size is not None and not self.model.sites(Resource.MBARRIER_INIT):
                return  # threads that are absent excuse no deadlock
        if not one_dimensional:
            self._gave_up = self._gave_up or GaveUp(NotReplayed.NO_CTA_SHAPE)
            return
        usual = (bound,) if bound else hypotheses.CTA_SHAPES.value
        yield from ((shape, True) for shape in usual if not bound)
        if self.model.values.may_be_alone:
            yield (1,), False
        for threads in range(32, (prod(bound) if bound else MAX_CTA_THREADS) + 1, 32):
            if (threads,) not in usual:
                yield (threads,), False


def _recorded_cluster(model: KernelModel) -> Shape | None:
    """The shape of a cluster in the recorded launch; None without one, and if the kernel states it."""
    if model.recorded is None:
        return None
    return model.recorded.cluster or model.function.cluster or (1, 1, 1)


def _waits_for_warps(model: KernelModel) -> bool:
    """Whether the kernel has a CTA barrier, which one warp alone does not need."""
    return bool(model.awaits(Barrier.CTA))
