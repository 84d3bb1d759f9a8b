"""Accesses to shared memory since the warps of a CTA last synchronised (PTX ISA 8.5, 9.7.13).

If one warp writes bytes and another one accesses them, only synchronisation between the two orders the accesses;
without it, they are a data race. :class:`SinceBarrier` is a may analysis of the accesses with no acquire point since.
:class:`~tclint.analyses.overlaps.OverlapSearch` then decides which of these conflict with a later access, with the
footprints of :class:`SharedByWarps`, so only accesses of different warps count.

Two accesses in one barrier interval race only if the warps can be there at the same time. Where a wait other than a
barrier may have admitted one warp long after another, the fact :data:`THREADS_MAY_HAVE_DIVERGED` records it.

The result under-approximates. An access counts only if its threads and bytes are known (:meth:`SharedByWarps.counts`),
and every instruction at which a warp *may* observe another one, a call included, ends the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property, reduce
from math import prod
from operator import or_

from tclint.analyses.access_classes import AccessClasses
from tclint.analyses.ages import Numbering
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.fact_set import FactSet
from tclint.analyses.happens_before import HappensBefore, Scope, Unsynchronised, strong
from tclint.analyses.mbarrier_addresses import may_leave
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OverlapSearch, Route
from tclint.analyses.plausibility import Doubt, DoubtAbout, skips, skips_for_launch
from tclint.dataflow import Path, Results
from tclint.ir.nodes import Instruction, Variable
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.cta_shape import AXES
from tclint.values.nodes import Phi, SpecialRead
from tclint.values.shared_memory import Access, Footprint, SharedMemory

__all__ = [
    "THREADS_MAY_HAVE_DIVERGED",
    "LaneWritesSince",
    "ReadsSince",
    "SharedByBound",
    "SharedByWarps",
    "SinceBarrier",
    "SinceBarrierState",
    "WritesSince",
    "atomic",
    "lane_synchronising_sites",
    "plain",
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


class SharedByWarps(SharedMemory):
    """Shared memory in CTAs of two warps at least, if the kernel does not determine their number."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model.function, model.values)
        self.model = model
        self.executed = model.fact(ExecutionGuarantee)
        self._counts: dict[Access, bool] = {}
        self._member_footprints: dict[tuple[int, int, int, int], list[tuple[int, Footprint]]] = {}
        self._extremes: dict[int, tuple[int, int]] = {}

    def certain_threads(self, threads: int, beside: int = 0) -> int:
        """Those of *threads* that every launch has, or that are in the first two warps: one warp needs no barrier."""
        return (super().certain_threads(threads, beside) | threads & (1 << 64) - 1) & self.room

    @cached_property
    def room(self) -> int:
        """The threads that the kernel allows, up to the first one whose accesses are out of bounds: no launch has more."""
        cta = self.model.cta
        if self.function.threads is not None:
            return cta
        outside = reduce(
            or_, (self._outside(access) & threads for access, threads in self._by_the_last()), cta + 1
        )
        return T.full((outside & -outside).bit_length() - 1)

    def _by_the_last(self) -> Iterator[tuple[Access, int]]:
        """The accesses that all threads from some index on make, with these threads."""
        every = T.full(self.values.threads)
        for site in self.sites:
            if self.model.cfg.block_of[site] not in self.model.cfg.rank:
                continue
            threads = self.model.views.context_of(site).threads
            if threads and threads == every & -(threads & -threads) and self.executed.certainly(site):
                yield from ((access, threads) for access in self.accesses(site))

    @property
    def fits(self) -> bool:
        """Whether the kernel may be meant for CTAs of this shape.

        All accesses of all threads are in bounds; where all threads store by their position in the CTA, no two of them
        store to the same address; and they read nothing that none of them stores.
        """
        if self._reads_unstored():
            return False
        accesses = list[Access]()
        for access in self._everywhere():
            if self._outside(access) or (access.writes and not self._distinct(access.address)):
                return False
            accesses.append(access)
        return self._stored(accesses)

    def _reads_unstored(self) -> bool:
        """Whether threads read a variable that only threads which the CTA does not have store before."""
        stores: dict[Variable | None, list[tuple[int, bool]]] = {}
        reads: list[tuple[Variable | None, int]] = []
        for site in self.sites:
            made = self.model.views.context_of(site).threads != 0
            for access in self.accesses(site) if self.model.cfg.block_of[site] in self.model.cfg.rank else ():
                terms = self.values.linear(access.address)[0]
                variable = next(filter(None, (self.values.variable(term) for term, _ in terms)), None)
                if access.writes:
                    stores.setdefault(variable, []).append((site, made))
                elif made and variable is not None:
                    reads.append((variable, site))
        if None in stores or all(made for own in stores.values() for _, made in own):
            return False
        for variable, read in reads:
            before = [made for site, made in stores.get(variable, ()) if self.model.reaches(site, read)]
            if before and not any(before):
                return True
        return False

    def _stored(self, accesses: list[Access]) -> bool:
        """Whether what all threads read is stored; True if some stores are not by all threads."""
        if not {access.site for access in accesses if access.writes}.issuperset(self.writers):
            return True
        stored = self.combined_footprints((a for a in accesses if a.writes), self.model.cta)
        for base, here in self.combined_footprints(
            (a for a in accesses if not a.writes), self.model.cta
        ).items():
            there = stored.get(base)
            if here is not None and there is not None and there.union(here) != there:
                return False
        return True

    def _distinct(self, address: int) -> bool:
        """Whether threads at different positions have different values of *address*, if it is a sum of positions."""
        values, shape = self.values, self.values.shape
        per_thread = self.split(address)[1]
        axes = set[int]()
        for term, _ in values.linear(per_thread)[0]:
            node = values.node(term)
            if type(node) is SpecialRead and node.name in AXES:
                axes.add(AXES.index(node.name))
            elif any(values.bit_slices(term) or ()):
                return True
        offsets = self.offsets(per_thread, self.model.cta)
        return shape is None or offsets is None or len(offsets) == prod(shape[axis] for axis in axes)

    def _everywhere(self) -> Iterator[Access]:
        """The accesses that all threads make."""
        every = T.full(self.values.threads)
        return (access for access, threads in self._by_the_last() if threads == every)

    def _outside(self, access: Access) -> int:
        """The threads whose *access* is out of bounds of the variable; none if that is unknown."""
        base, per_thread, constant = self.split(access.address)
        values, size, every = self.values, self.model.size(base), self.model.cta
        planes = values.bit_slices(per_thread) if size and values.constant_of(per_thread) is None else None
        if planes is None:
            return 0
        if per_thread not in self._extremes:
            minimum, maximum = T.extreme(planes, every, least=True), T.extreme(planes, every, least=False)
            self._extremes[per_thread] = minimum, maximum
        low, high = -constant, size - constant - access.size
        least, greatest = self._extremes[per_thread]
        if low <= least and greatest <= high:
            return 0
        n = values.threads
        below = T.compare("lt", planes, T.constant(low, n), n)
        return self.checked(access, every & (below | T.compare("lt", T.constant(high, n), planes, n)))

    def across(self, a: Access, b: Access, threads_a: int, threads_b: int) -> bool:
        """Whether bytes of *a* in one of *threads_a* are provably bytes of *b* in a thread of another warp."""
        if not self.overlap(a, b, threads_a, threads_b):
            return False
        first = self.warps(a, self.certain_threads(threads_a, threads_b))
        second = self.warps(b, self.certain_threads(threads_b, threads_a))
        distance = self.split(b.address)[2] - self.split(a.address)[2]
        moved = [(j, two.moved(distance)) for j, two in second]
        return any(self.shares(k, j) and one.meets(two) for k, one in first for j, two in moved)

    @staticmethod
    def shares(first: int, other: int) -> bool:
        """Whether accesses of two warps, given by their first threads, may race: they are not the same warp."""
        return first != other

    def warps(self, access: Access, threads: int) -> list[tuple[int, Footprint]]:
        """The bytes that each warp touches, relative to the common base, without the constant offset."""
        per_thread = self.split(access.address)[1]
        key = per_thread, access.size, access.lanes, threads
        if key not in self._member_footprints:
            warps = T.by_warp(threads)
            found = (
                (first, self._spread_of(per_thread, access, self.certain_threads(warp)))
                for first, warp in warps
            )
            self._member_footprints[key] = [
                (first, touched) for first, touched in found if touched is not None
            ]
        return self._member_footprints[key]

    def placed(self, access: Access, threads: int) -> bool:
        """Whether the bytes that *threads* touch are known, or may be known on a given path."""
        base = self.split(access.address)[0]
        return self.footprint(access, threads) is not None or (
            bool(self.values.varying_at(base)) and not self._path_dependent(base)
        )

    def _path_dependent(self, base: int) -> bool:
        """Whether *base* depends on the path of each warp, so its value on one path is not that of warps on another."""
        values, loops = self.values, self.model.cfg.loops
        nodes = ((values.node(t), t) for t, _ in values.linear(base)[0])
        return any(
            type(n) is Phi and n.block not in loops and values.uniformity(t) > UniformityScope.CTA
            for n, t in nodes
        )

    def counts(self, access: Access) -> bool:
        """Whether *access* can be part of a proven race: its bytes and threads are known, and it is plain or atomic.

        That several threads may execute an atomic operation at the same time is what it is for, so data may select them.
        """
        if access not in self._counts:
            model, site = self.model, access.site
            self._counts[access] = (
                self.executed.certainly(site)
                if plain(model, site)
                else atomic(model, site) and self.executed.by_data(site)
            ) and self.placed(access, model.views.context_of(site).threads)
        return self._counts[access]


class SharedByBound(SharedByWarps):
    """:class:`SharedByWarps`, with a bound of the kernel on the CTA size taken for the size itself."""

    def certain_threads(self, threads: int, beside: int = 0) -> int:
        bounded = self.function.most_threads is not None
        return threads & self.room if bounded else super().certain_threads(threads, beside)


def plain(model: KernelModel, site: int) -> bool:
    """Whether an access to shared memory is plain: neither atomic nor volatile, and to the memory of this CTA.

    Without ``mapa`` and a multicast, an address in the ``shared::cluster`` window is one of this CTA (5.1.6).
    """
    match = model.shared.sites[site]
    if strong(match) or ".multicast::cluster" in match.modifiers or not match.space.startswith(".shared"):
        return False
    return match.own_shared or not any(
        may_leave(model.values, access.address) for access in model.shared.accesses(site)
    )


def atomic(model: KernelModel, site: int) -> bool:
    """Whether a site is a relaxed atomic operation or reduction, which orders nothing, on memory of this CTA."""
    match = model.shared.sites[site]
    read, written = (
        {name for verb, name in match.form.memory if verb == which} for which in ("read", "write")
    )
    return bool(read & written) and strong(match) == {".relaxed"} and match.own_shared


def synchronising_sites(model: KernelModel) -> frozenset[int]:
    """The acquire and release points between warps, including instructions of unknown effect."""
    order = model.fact(HappensBefore)
    alone = order.points.spin_loads.union(i for i in model.sites("mbarrier-wait") if not _by_warps(model, i))
    # One lane may wait on behalf of its warp, which then passes a barrier of the warp.
    after = model.reached_from(alone, model.sites("barrier-sync"), order.partial_barriers.full)
    return order.points.acquire_points(Scope.WARPS) | order.points.release_points | after


def lane_synchronising_sites(model: KernelModel) -> frozenset[int]:
    """:func:`synchronising_sites`, and the events that the lanes of a warp execute together."""
    return model.fact(synchronising_sites) | model.fact(HappensBefore).points.collectives


def _by_warps(model: KernelModel, site: int) -> bool:
    """Whether *site* is executed by all lanes of a warp or by none."""
    threads = model.views.context_of(site).threads
    return threads == T.whole(threads, 32) and model.fact(ExecutionGuarantee).certainly(site)


_SIGNALS = ("barrier-arrive", "mbarrier-arrive", "commit")
"""Events after which a thread continues without waiting."""
THREADS_MAY_HAVE_DIVERGED = -1
"""The site of the fact that threads may have diverged: a wait may have admitted them one after the other."""


def of_one_phase(model: KernelModel, site: int) -> bool:
    """Whether all threads wait at *site* for the same phase of one mbarrier, so that the wait admits them together."""
    operands = [model.value(site, role) for role in ("mbarrier", "parity")]
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
        self.signalling = self.ends.intersection(i for event in _SIGNALS for i in model.sites(event))
        """The signals, which do not separate threads that arrive together."""
        common_waits = frozenset(i for i in model.sites("mbarrier-wait") if of_one_phase(model, i))
        self._separating = self.ends - self.joining - self.signalling - common_waits
        """The instructions after which threads may have diverged."""
        self.memory = model.fact(self.kind)
        self.executed = self.memory.executed
        self.counts = self.memory.counts
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
        wanted: Callable[[Access], bool],
        meet: Callable[[Access, Access, Route], bool],
        begins: Callable[[Access], bool] = lambda access: True,
        doubt: DoubtAbout | None = None,
    ) -> OverlapSearch:
        """The search for the *wanted* accesses that conflict with accesses *starts* that *begins* admits.

        *meet* decides whether two conflict; *doubt* is that about a path, :meth:`synchronised_elsewhere` if None.
        """
        numbering = Numbering(self.operations)
        return OverlapSearch(
            self.model,
            self.model.solution(type(self))[1],
            self.operations,
            numbering,
            lambda state: numbering.bits(site for site, _ in state if site in starts),
            lambda state, site: (site, False) in state,
            lambda site: False,
            self.follow,
            lambda access: wanted(access) and self.counts(access),
            meet,
            begins=lambda access: access.writes is self.writes and not access.later and begins(access),
            memory=self.memory,
            doubt=doubt or self.synchronised_elsewhere,
        )

    def synchronised_elsewhere(self, start: int, path: Path) -> Doubt:
        """The doubt about a path between two accesses if the warps synchronise on other paths between them."""
        return skips(self.model, path, self.ends, _SYNCHRONISED) or skips_for_launch(
            self.model, path, self.ends, _SYNCHRONISED_BY_LAUNCH, start
        )

    def together(self, results: Results[SinceBarrierState]) -> frozenset[int]:
        """The first accesses of classes that the threads execute together."""
        return frozenset(site for site in sorted(self.firsts) if not self.loose(results.before(site)))


class ReadsSince(SinceBarrier):
    """The reads with no acquire point since."""


class WritesSince(SinceBarrier):
    """The writes with no acquire point since."""

    writes = True


class LaneWritesSince(WritesSince):
    """The writes since which the lanes of a warp have not synchronised either."""

    def _ends(self) -> frozenset[int]:
        return self.model.fact(lane_synchronising_sites)
