"""Accesses to shared memory since the warps of a CTA last synchronised (PTX ISA 8.5, 9.7.13).

If one warp writes bytes and another one accesses them, only synchronisation between the two orders the accesses;
without it, they are a data race. :class:`SinceBarrier` is a may analysis of the accesses with no acquire point since.
:class:`~tclint.analyses.overlaps.OverlapSearch` then decides which of these conflict with a later access, with the
footprints of :class:`~tclint.analyses.warp_memory.SharedByWarps`, so only accesses of different warps count.

Two accesses in one barrier interval race only if the warps can be there at the same time. Where a wait other than a
barrier may have admitted one warp long after another, the fact :data:`THREADS_MAY_HAVE_DIVERGED` records it.

The result under-approximates. An access counts only if its threads and bytes are known (:meth:`~tclint.analyses.warp_memory.SharedByWarps.counts`),
and every instruction at which a warp *may* observe another one, a call included, ends the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from tclint.analyses.access_classes import AccessClasses
from tclint.analyses.ages import Numbering
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.fact_set import FactSet
from tclint.analyses.happens_before import HappensBefore, OrderScope, Unsynchronised
from tclint.analyses.lane_memory import GlobalByLanes, SharedByLanes
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OverlapSearch, Route
from tclint.analyses.plausibility import Doubt, DoubtAbout, skips, skips_for_launch
from tclint.analyses.warp_memory import SharedByBound
from tclint.dataflow import Path, Results
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Barrier, Effects, Fence, Order
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedAccess

__all__ = [
    "THREADS_MAY_HAVE_DIVERGED",
    "GlobalLaneReadsSince",
    "GlobalLaneWritesSince",
    "LaneReadsSince",
    "LaneWritesSince",
    "ReadsSince",
    "SinceBarrier",
    "SinceBarrierState",
    "WritesSince",
    "lane_synchronising_sites",
    "synchronising_sites",
    "unordered_threads",
]

Since = bool | Unsynchronised
"""What a thread has done since an access: nothing (False), or signalled (True). After a barrier that some warps do not
reach, the threads that are still not ordered after accesses of others."""
SinceBarrierState = frozenset[tuple[int, Since]]
"""``(access, since)``."""

_NOTHING: SinceBarrierState = frozenset()


def unordered_threads(here: int, there: int, path: Path) -> set[tuple[int, int]]:
    """The pairs of thread sets of which one may execute the start of *path* unordered with the end in the other.

    *here* may execute the start, *there* the end, and one of the two takes the path. If it has signalled others since
    the start, they may be ordered after that; their own executions of the start are still unordered with its end.
    """
    taking, since = path.threads, path.state
    if isinstance(since, tuple):
        return {(here & done, there & taking & waiting) for waiting, done in since}
    return {(here, there & taking)} if since else {(here & taking, there), (here, there & taking)}


def synchronising_sites(model: KernelModel) -> frozenset[int]:
    """The acquire and release points between warps, including instructions of unknown effect.

    A volatile store is one only where some thread polls.
    """
    order = model.fact(HappensBefore)
    alone = order.points.spin_loads.union(
        i for i in model.awaits(Barrier.MBARRIER) if not _by_warps(model, i)
    )
    # One lane may wait on behalf of its warp, which then passes a barrier of the warp.
    after = model.reached_from(
        alone, model.where(lambda effects: effects.synchronises is not None), order.partial_barriers.full
    )
    released = order.points.release_points
    if not order.points.spin_loads:
        released = _without(released, model, Order.VOLATILE)
    return order.points.acquire_points(OrderScope.WARPS) | released | after


def lane_synchronising_sites(model: KernelModel) -> frozenset[int]:
    """Where a lane may become ordered with others of its warp, or give them a signal.

    Besides what synchronises warps, these are the barriers of a warp, and fences, which order strong accesses. Votes,
    shuffles and elections order no memory. A relaxed or volatile store is a signal only where some thread polls.
    """
    points = model.fact(HappensBefore).points
    polls = frozenset(filter(partial(_decides_exit, model), points.spin_loads))
    sites = (points.acquire_points(OrderScope.LANES) - points.spin_loads).union(
        polls, points.release_points, model.sites(Fence.MEMORY)
    )
    return sites if polls else _without(sites, model, Order.RELAXED, Order.VOLATILE)


def _without(sites: frozenset[int], model: KernelModel, *orders: Order) -> frozenset[int]:
    """The *sites* without the accesses of these *orders*."""
    return frozenset(i for i in sites if model.instruction(i).order not in orders)


def _decides_exit(model: KernelModel, load: int) -> bool:
    """Whether the result of *load* decides how often a loop around it iterates."""
    cfg = model.cfg
    leaving = {edge.source for head in cfg.enclosing_loops(cfg.block_of[load]) for edge in cfg.leaving[head]}
    return any(
        model.instruction(user).flow and cfg.block_of[user] in leaving
        for user, _ in model.transitive_users(load)
    )


def _by_warps(model: KernelModel, site: int) -> bool:
    """Whether *site* is executed by all lanes of a warp or by none."""
    threads = model.views.context_of(site).threads
    return threads == T.whole(threads, 32) and model.fact(ExecutionGuarantee).certainly(site)


THREADS_MAY_HAVE_DIVERGED = -1
"""The site of the fact that threads may have diverged: a wait may have admitted them one after the other."""


def _continues(effects: Effects) -> bool:
    """Whether a thread signals and continues without waiting."""
    return effects.synchronises is None and (effects.arrives_for_threads or effects.commits is not None)


def of_one_phase(model: KernelModel, site: int) -> bool:
    """Whether all threads wait at *site* for the same phase of one mbarrier, so that the wait admits them together."""
    operands = [model.mbarrier(site), model.value(site, "parity")]
    return all(
        value is not None and model.values.uniformity(value) is UniformityScope.CTA for value in operands
    )


_SYNCHRONISED = "on other paths between the two, the warps synchronise"
_SYNCHRONISED_BY_LAUNCH = (
    "whether the warps synchronise depends on a CTA-uniform value that may exclude this path"
)
_DIVERGED: SinceBarrierState = frozenset(((THREADS_MAY_HAVE_DIVERGED, False),))


class SinceBarrier(FactSet[tuple[int, Since]]):
    """The accesses with no acquire point since, one fact for the first access of each class.

    A CTA barrier that some warps do not reach is not an acquire point for what those have done, if they did it between
    the same two barriers of the whole CTA (:attr:`after_full_barrier`).

    They count only where the threads execute them together (:meth:`together`): after a wait that is not a barrier, one
    warp may be there much later than another, when it is its turn.
    """

    writes = False
    kind: type[SharedByBound] = SharedByBound
    """The memory that is accessed."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.ends = self._ends()
        """Where facts end, or become those of a thread that has signalled."""
        self.joining = frozenset(filter(model.fact(HappensBefore).points.releases_together, self.ends))
        """The barriers that all their threads leave together."""
        self.signalling = self.ends.intersection(model.where(_continues))
        """The signals, which do not separate threads that arrive together."""
        common_waits = frozenset(i for i in model.awaits(Barrier.MBARRIER) if of_one_phase(model, i))
        self._separating = self.ends - self.joining - self.signalling - common_waits
        """The instructions after which threads may have diverged."""
        self.memory = model.fact(self.kind)
        self.executed = self.memory.executed
        self.counts = self.memory.may_count
        self.operations = frozenset(
            i
            for i in self.memory.sites
            if model.cfg.block_of[i] in model.cfg.rank
            and any(
                a.writes == self.writes and not a.later and self.counts(a) for a in self.memory.accesses(i)
            )
        )
        self.firsts = frozenset(AccessClasses(model, self.ends).partition(self.operations))
        order = model.fact(HappensBefore)
        self._partial = order.partial_barriers
        full = self._partial.full
        self._everyone: Unsynchronised = ((T.full(model.values.threads),) * 2,)
        self.after_full_barrier = (
            self.firsts - model.reached_from(self.ends - self.signalling - full, self.firsts, full)
            if self._partial.sites
            else frozenset()
        )
        """The first accesses of classes that no wait precedes since all threads of the CTA were at one barrier."""
        self._changing = frozenset(map(model.instruction, self.ends | self.firsts))

    def _ends(self) -> frozenset[int]:
        return self.model.fact(synchronising_sites)

    def affecting_sites(self) -> frozenset[int]:
        return self.ends | self.firsts

    def affecting(self, instruction: Instruction) -> bool:
        return instruction in self._changing

    def transfer(self, state: SinceBarrierState, at: int, instruction: Instruction) -> SinceBarrierState:
        if at in self.signalling:
            return frozenset((site, since or site != THREADS_MAY_HAVE_DIVERGED) for site, since in state)
        if at in self.ends:
            kept = (
                _NOTHING if at in self.joining else _DIVERGED if at in self._separating else state & _DIVERGED
            )
            return kept.union(
                (site, rest) for site, since in state if (rest := self._unsynchronised(site, since, at))
            )
        return state | {(at, False)} if at in self.firsts else state

    def _unsynchronised(self, site: int, since: Since, at: int) -> Unsynchronised:
        """Which threads are not ordered after *site* in which others at the acquire point *at*."""
        if site not in self.after_full_barrier:
            return ()
        return self._partial.after(at, site, self._everyone if isinstance(since, bool) else since)

    def follow(self, site: int, since: Since, at: int, instruction: Instruction) -> Since | None:
        """What the thread has done since *site*, after one more instruction; None if it is ordered after *site*."""
        if at in self.signalling:
            return since or True
        return (self._unsynchronised(site, since, at) or None) if at in self.ends else since

    def follow_to_wait(self, site: int, since: Since, at: int, instruction: Instruction) -> Since | None:
        """:meth:`follow`, up to the first acquire point."""
        ends = at in self.ends and at not in self.signalling
        return None if ends else self.follow(site, since, at, instruction)

    def by_warps(self, first: int, then: int, path: Path) -> Path:
        """*path* from *first* to *then*, taken by whole warps if nothing but CTA barriers may order the two.

        All lanes of a warp pass the same CTA barriers, so lanes that another branch leads to *then* are there in the
        same barrier interval.
        """
        reaches = self.model.reaches
        single = any(reaches(first, i) and reaches(i, then) for i in self.ends - self.joining)
        return path if single else replace(path, threads=T.whole(path.threads, 32))

    @staticmethod
    def loose(state: SinceBarrierState) -> bool:
        """Whether threads may have diverged in *state*, so that they execute what follows one after the other."""
        return not _DIVERGED.isdisjoint(state)

    def conflicts(
        self,
        starts: Collection[int],
        is_use: Callable[[SharedAccess], bool],
        overlap: Callable[[SharedAccess, SharedAccess, Route], bool],
        begins: Callable[[SharedAccess], bool] = lambda access: True,
        doubt: DoubtAbout | None = None,
        of_interest: Callable[[SharedAccess, SharedAccess], bool] | None = None,
    ) -> OverlapSearch:
        """The search for accesses that satisfy *is_use* and that conflict with accesses *starts* that *begins* admits.

        *overlap* decides whether two conflict; *doubt* is that about a path, :meth:`synchronised_elsewhere` if None.
        With *of_interest*, other pairs are not searched for.
        """
        may_meet = self.memory.may_meet
        return OverlapSearch(
            self.model,
            self.model.solution(type(self))[1],
            _From(self, starts),
            self.operations,
            lambda access: is_use(access) and self.counts(access),
            overlap,
            may_meet if of_interest is None else lambda a, b: of_interest(a, b) and may_meet(a, b),
            begins=lambda access: access.writes is self.writes and not access.later and begins(access),
            memory=self.memory,
            doubt=doubt or self.synchronised_elsewhere,
            own_entries=self.memory.on_paths,
            varies=self.memory.varies,
        )

    def synchronised_elsewhere(self, start: int, path: Path) -> Doubt:
        """The doubt about a path between two accesses if the warps synchronise on other paths between them."""
        return skips(self.model, path, self.ends, _SYNCHRONISED) or skips_for_launch(
            self.model, path, self.ends, _SYNCHRONISED_BY_LAUNCH, start
        )

    def together(self, results: Results[SinceBarrierState]) -> frozenset[int]:
        """The first accesses of classes that the threads execute together."""
        return frozenset(site for site in sorted(self.firsts) if not self.loose(results.before(site)))


class _From:
    """The accesses *starts*, until an acquire point of their thread."""

    def __init__(self, since: SinceBarrier, starts: Collection[int]) -> None:
        self.since, self.starts = since, starts
        self.numbering = Numbering(since.operations)

    def pending(self, state: SinceBarrierState) -> int:
        return self.numbering.bits(site for site, _ in state if site in self.starts)

    def stays_pending(self, state: SinceBarrierState, site: int) -> bool:
        return (site, False) in state

    def begun(self, site: int) -> Since:
        return False

    def follow(self, site: int, since: Since, at: int, instruction: Instruction) -> Since | None:
        return self.since.follow(site, since, at, instruction)


class ReadsSince(SinceBarrier):
    """The reads with no acquire point since."""


class WritesSince(SinceBarrier):
    """The writes with no acquire point since."""

    writes = True


class _OfLanes:
    """What differs for accesses since which the lanes of a warp have not synchronised: all of them reach the same barriers."""

    kind: type[SharedByBound] = SharedByLanes
    model: KernelModel

    def _ends(self) -> frozenset[int]:
        return self.model.fact(lane_synchronising_sites)

    def _unsynchronised(self, site: int, since: Since, at: int) -> Unsynchronised:
        return ()


class LaneReadsSince(_OfLanes, ReadsSince):
    """The reads since which the lanes of a warp have not synchronised."""


class LaneWritesSince(_OfLanes, WritesSince):
    """The writes since which the lanes of a warp have not synchronised."""


class GlobalLaneReadsSince(LaneReadsSince):
    """:class:`LaneReadsSince`, of global memory."""

    kind = GlobalByLanes


class GlobalLaneWritesSince(LaneWritesSince):
    """:class:`LaneWritesSince`, of global memory."""

    kind = GlobalByLanes
