"""Checks of mbarrier arrivals on behalf of threads whose accesses are not ordered before them (PTX ISA 8.8, 9.7.13.15).

One thread often arrives for its whole warp, or one warp for several. Its release covers the accesses of other threads
only if something orders these before the arrival: a warp barrier for the other lanes, a barrier or another mbarrier for
other warps. A waiting thread may become ordered after those accesses in other ways; waits for other mbarriers on which
the accessing threads arrive later are assumed to do so, which under-reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import groupby
from operator import itemgetter, or_
from typing import TypeVar

from tclint._named_tuple import NamedTuple
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.lane_memory import SharedByLanes
from tclint.analyses.lane_races import on_two_sides
from tclint.analyses.mbarrier_addresses import array_of
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, follow, last, path_avoiding
from tclint.analyses.warp_memory import SharedByWarps, plain
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import barrier_between, insertion_site
from tclint.checks._wording import copied_from
from tclint.dataflow.views import ThreadContext
from tclint.findings.edits import Repair, before
from tclint.findings.scales import Confidence, Severity
from tclint.isa.effects import Barrier, Resource
from tclint.isa.special_registers import ALL_LANES
from tclint.replay.faults import replayed_without_fault
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedAccess

MB014 = RuleId("MB014")
MB015 = RuleId("MB015")

Item = TypeVar("Item")

_QUESTION = "release of other threads' accesses"
"""What :attr:`KernelModel.ledger` calls the question whether an arrival releases accesses of other threads."""
_WHOLE_WARPS = ("warp", "warpgroup")
"""What executes an instruction together for which all lanes of a warp wait for each other."""
MAX_OPERATIONS_PER_MBARRIER = 16
"""Arrivals, waits and accesses that are compared for one mbarrier. More are copies made by unrolling a loop."""


@check(MB014, MB015, analyses=(HappensBefore, SharedByLanes, SharedByWarps))
def arrives_for_others(model: KernelModel) -> Iterator[Hit]:
    """Report arrivals by one lane for threads whose accesses nothing orders before the arrival."""
    arrivals = [i for i in model.arrives(Barrier.MBARRIER) if _by_one_lane(model, i)]
    waits = model.awaits(Barrier.MBARRIER)
    if not arrivals or not waits or not model.function.entry or model.reachability.unresolved_dispatchers:
        return
    release = _Release(model)
    if not release.plain:
        return
    alike: Counter[tuple[tuple[int, ...], int]] = Counter()
    compared = []
    for arrival in arrivals:
        key = release.waits(arrival), model.views.context_of(arrival).threads
        alike[key] += 1
        if key[0] and alike[key] > MAX_OPERATIONS_PER_MBARRIER:
            model.ledger.give_up(_QUESTION, arrival, f"more than {MAX_OPERATIONS_PER_MBARRIER} arrivals")
        elif key[0]:
            compared.append(arrival)
    written = release.by_lanes(compared, True)
    rest = [arrival for arrival in compared if arrival not in written]
    read = {arrival: release.reads(arrival) for arrival in rest}
    read |= release.by_lanes([arrival for arrival, hit in read.items() if hit is None], False)
    hits = (hit for arrival in compared if (hit := written.get(arrival) or read.get(arrival)) is not None)
    copies = grouped(((*_place(model, hit), hit.message, hit.severity), hit) for hit in hits)
    for first, *others in copies.values():
        sites = frozenset(hit.site for hit in (first, *others))
        yield replace(first, count=len(sites), about=sites)


def _place(model: KernelModel, hit: Hit) -> tuple[int, ...]:
    """What hits with one cause have in common: a line of the source or, without line information, the arrival.

    The notes about a kernel without line information are one: in an unrolled loop, each stage has an arrival.
    """
    return copied_from(model, hit.site) or ((hit.site,) if hit.severity is None else ())


def _by_one_lane(model: KernelModel, arrival: int) -> bool:
    """True if at most one lane of each warp executes the *arrival*, which tracks no operations."""
    instruction = model.instruction(arrival)
    return instruction.effects.tracks is None and T.at_most_one_lane(model.views.context_of(arrival).threads)


class _Run(NamedTuple):
    """Accesses of one block that follow each other and have the same threads."""

    block: int
    threads: T.Threads
    accesses: list[SharedAccess]

    def after(self, model: KernelModel, site: int) -> _Run:
        """Those to which a path of the CFG leads from *site*."""
        cfg = model.cfg
        block = cfg.block_of[site]
        if cfg.reachable_from[block] >> self.block & 1:
            return self
        return self._replace(accesses=[a for a in self.accesses if block == self.block and site < a.site])


def _runs(model: KernelModel, accesses: list[tuple[int, SharedAccess]], writes: bool) -> list[_Run]:
    """The reads, or the writes, among *accesses*, which are in order."""
    block_of, context_of = model.cfg.block_of, model.views.context_of
    wanted = ((block_of[i], context_of(i).threads, a) for i, a in accesses if a.writes is writes)
    return [
        _Run(block, threads, [a for *_, a in alike])
        for (block, threads), alike in groupby(wanted, key=itemgetter(0, 1))
    ]


class _Release:
    """The accesses that arrivals release, and the waits that acquire them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.memory = model.fact(SharedByWarps)
        self.lane_memory = model.fact(SharedByLanes)
        every = [(i, a) for i in sorted(model.shared.sites) for a in model.shared.accesses(i)]
        reached = [(i, a) for i, a in every if model.cfg.block_of[i] in model.cfg.rank]
        # tcgen05.alloc is collective: the arriving lane takes part in its write.
        allocated = model.sites(Resource.TMEM_ALLOC)
        self.plain = [
            a
            for i, a in reached
            if not a.later and plain(model, i) and i not in allocated and self.memory.executed.certainly(i)
        ]
        self._plain_at = {
            writes: grouped((a.site, a) for a in self.plain if a.writes is writes) for writes in (False, True)
        }
        self.accesses = {writes: _runs(model, reached, writes) for writes in (False, True)}
        """The reads, and the writes, in order."""
        self.order = order = model.fact(HappensBefore)
        self.barriers = order.points.barrier_sites(OrderScope.WARPS)
        self.lanes = order.points.barrier_sites(OrderScope.LANES).union(calls(model))
        """Where the lanes of a warp synchronise."""
        self._meetings = frozenset(
            i
            for i in order.points.collectives
            if (mask := model.constant_of(i, "mask")) is not None and mask & ALL_LANES == ALL_LANES
        ).union(
            i
            for use in model.function.uses
            if use.match is not None and use.match.scope in _WHOLE_WARPS
            for i in use.sites
        )
        """Where all lanes of a warp wait for each other, which need not order their accesses."""
        self.warps = order.points.acquire_points(OrderScope.WARPS)
        """Where a warp may become ordered after another one."""
        self.barring = self.barriers.union(calls(model))
        self._follow_cache: dict[tuple[int, int, int, frozenset[int]], bool] = {}
        self._found: dict[tuple[tuple[int, ...], int, bool], list[tuple[int, _Run]]] = {}
        handovers = order.synchronised_pairs(
            model.arrives(Barrier.MBARRIER), frozenset(model.awaits(Barrier.MBARRIER))
        )
        self._waits = {arrival: tuple(waits) for arrival, waits in grouped(handovers).items()}
        self._arrivals = grouped((waits, arrival) for arrival, waits in self._waits.items())
        """The arrivals that are awaited by the same waits."""

    def by_lanes(self, arrivals: list[int], writes: bool) -> dict[int, Hit | None]:
        """The *arrivals* after which a waiting thread accesses what other lanes of the arriving warp access before.

        It reads what these write, or overwrites what they read. A finding is about the arrival that publishes an access
        first: what orders it before that one also orders it before the arrivals that follow, which have None.
        """
        every = self._publishing(arrivals, writes, self.lanes)
        held = self._first_publishing(list(every), writes, self.lanes | self._meetings)
        # Past a collective, all lanes have issued their accesses, and the arrival was never performed before these.
        met = self._first_publishing([i for i in every if i not in held], writes, self.lanes.union(held))
        return {
            i: self._unsynced(i, *held[i], writes)
            if i in held
            else self._unsynced(i, *met[i], writes).unshown(Severity.WARNING)
            if i in met
            else None
            for i in every
        }

    def _publishing(
        self, arrivals: list[int], writes: bool, ends: frozenset[int]
    ) -> dict[int, tuple[int, int, int]]:
        """Those of *arrivals* that publish a write, or a read, of other lanes without passing *ends*.

        Each comes with the result of :meth:`_unordered_before`.
        """
        found = ((i, self._unordered_before([i], writes, ends, lanes=True)) for i in arrivals)
        return {i: unordered for i, unordered in found if unordered is not None}

    def _first_publishing(
        self, arrivals: list[int], writes: bool, ends: frozenset[int]
    ) -> dict[int, tuple[int, int, int]]:
        """:meth:`_publishing`, without the arrivals that follow another one on every path from the accesses."""
        found = self._publishing(arrivals, writes, ends)
        if len(found) < 2:
            return found
        first = {
            i: unordered
            for i in found
            if (unordered := self._unordered_before([i], writes, ends | (found.keys() - {i}), lanes=True))
            is not None
        }
        for i in sorted(found.keys() - first.keys()):
            first |= self._publishing([i], writes, ends.union(first))
        return first

    def _unsynced(self, arrival: int, access: int, wait: int, use: int, writes: bool) -> Hit:
        """The finding that nothing orders the *access* of other lanes before the *arrival*."""
        views = self.model.views
        among = views.context_of(access).threads & views.context_of(arrival).threads
        plural, verb = ("writes", "write") if writes else ("reads", "read")
        return MB014.hit(
            site=arrival,
            message=f"{self.model.name(arrival)} of one lane arrives for its warp, but nothing orders the {plural} of the other lanes before the "
            "arrival: its release covers its own accesses only",
            steps=(
                Mark(access, f"several lanes {verb} shared memory", role=self._threads_in_words(access)),
                Mark(
                    arrival,
                    "one of them arrives" if among else "another lane of the warp arrives",
                    role=self._threads_in_words(arrival),
                ),
                Mark(wait, "another thread waits for this arrival", role=self._threads_in_words(wait)),
                Mark(use, "reads what the lanes have written" if writes else "overwrites the same bytes"),
            ),
            help="add bar.warp.sync (__syncwarp()) for these lanes before the arrival, or let every lane arrive",
            fixes=_warp_barrier_before(self.model, access, arrival),
            confidence=None if writes else Confidence.MEDIUM,
            about=frozenset((arrival,)),
        )

    def reads(self, arrival: int) -> Hit | None:
        """The finding that a waiting thread overwrites what other warps than the arriving one may read; or None."""
        alone = self._count(arrival) == 1
        together = [arrival] if alone else self._together(arrival)
        arriving = self.model.views.context_of(arrival).threads
        if not together or (alone and arriving & (arriving - 1)):
            return None
        found = self._unordered_before(together, False, self.warps)
        if found is None:
            return None
        read, wait, use = found
        if replayed_without_fault(self.model, (read, arrival, wait, use)):
            return None
        how = (
            "one thread completes the phase"
            if alone
            else "the arriving threads complete the phase for other warps too"
        )
        return MB015.hit(
            site=arrival,
            message=f"{self.model.name(arrival)}: {how}, while other warps may still read the shared memory that this arrival releases",
            steps=(
                Mark(read, "several warps read shared memory", role=self._threads_in_words(read)),
                Mark(arrival, "one thread arrives for several warps", role=self._threads_in_words(arrival)),
                Mark(wait, "another thread waits for this arrival", role=self._threads_in_words(wait)),
                Mark(use, "overwrites the same bytes"),
            ),
            help="add a barrier of the reading warps before the arrival, or let every warp arrive and count all of them"
            " in mbarrier.init",
            fixes=barrier_between(self.model, read, arrival),
            confidence=None if self.model.function.threads else Confidence.MEDIUM,
            about=frozenset((arrival,)),
        )

    def _threads_in_words(self, site: int) -> str:
        return self.model.describe_threads(self.model.views.context_of(site).threads)

    def _together(self, arrival: int) -> list[int]:
        """All arrivals on the mbarriers of *arrival*, itself first.

        Empty if there may be arrivals that are not seen (a callee, an unresolved address), or if their waits differ.
        """
        mbarriers = self.order.points.mbarriers
        rings = mbarriers.rings_at(arrival)
        found = [
            i for i in mbarriers.arriving if i != arrival and not rings.isdisjoint(mbarriers.rings_at(i))
        ]
        seen = not mbarriers.has_unseen_arrivals and all(self.waits(i) == self.waits(arrival) for i in found)
        return [arrival, *found] if seen else []

    def _unordered_before(
        self, arrivals: list[int], writes: bool, ends: frozenset[int], *, lanes: bool = False
    ) -> tuple[int, int, int] | None:
        """An access that nothing orders before the *arrivals*, a wait for these, and a conflicting use after the wait.

        The access is a write or a read by other warps or, with *lanes*, by other lanes of the arriving warps. None without
        one. A path through one of *ends* does not count.
        """
        arrival, views = arrivals[0], self.model.views
        arriving = reduce(or_, (views.context_of(i).threads for i in arrivals))
        warps = T.whole(arriving, 32)
        rest = self._other_lanes(arrivals[0], writes) if lanes else ~warps
        if len(arrivals) > 1 or self._count(arrival) != 1:
            rest &= self._existing(arrivals)
        uses = self._uses(arrival, not writes)
        for access in self._at_most(arrival, self._before(arrival, ends, writes), "accesses") if uses else ():
            others = views.context_of(access.site).threads & rest
            if lanes and not writes and self.model.shared.sites[access.site].scope in _WHOLE_WARPS:
                continue  # the lanes wait for each other until all have read
            found = self._conflict(arrival, access, others, uses) if others else None
            if found is not None and self._all_reach(access, arrivals, ends):
                wait, use = found
                if not lanes or writes or not self._pass_one_barrier(access.site, use.site):
                    return access.site, wait, use.site
        return None

    def _pass_one_barrier(self, first: int, then: int) -> bool:
        """Whether threads may pass a barrier after *first* that other threads pass before *then*."""
        reaches, channels = self.model.reaches, self.order.points.channels
        after, before = (
            frozenset[Hashable]().union(*map(channels, barriers))
            for barriers in (
                [i for i in self.barriers if reaches(first, i)],
                [i for i in self.barriers if reaches(i, then)],
            )
        )
        return not after.isdisjoint(before)

    def _other_lanes(self, arrival: int, writes: bool) -> int:
        """The threads of the arriving warps that do not arrive, for reads at no other arrival on the mbarrier either."""
        context_of = self.model.views.context_of
        arriving = context_of(arrival).threads
        others = [] if writes else self._together(arrival)
        if not (writes or others):
            return 0
        return T.whole(arriving, 32) & ~reduce(or_, (context_of(i).threads for i in others), arriving)

    def _existing(self, arrivals: list[int]) -> int:
        """The threads that a CTA is assumed to have: up to its bound, or to the last warp that arrives or waits."""
        every, views = T.full(self.model.values.threads), self.model.views
        if self.model.function.most_threads is not None:
            return every
        sites = {*arrivals, *(wait for i in arrivals for wait in self.waits(i))}
        firsts = [threads & -threads for site in sites if (threads := views.context_of(site).threads)]
        return every & T.whole(T.full(max(firsts, default=0).bit_length()), 32)

    def _all_reach(self, access: SharedAccess, arrivals: list[int], ends: frozenset[int]) -> bool:
        """True if every arriving warp can reach its arrival from the *access* without passing one of *ends*."""
        return all(
            self._leads(access, warp, i, ends)
            for i in arrivals
            for _, warp in T.by_warp(self.model.views.context_of(i).threads)
        )

    def _leads(self, access: SharedAccess, arriving: int, arrival: int, ends: frozenset[int]) -> bool:
        """Whether *arriving* can reach *arrival* after the *access* without passing one of *ends*.

        Lanes that skip an access continue where they rejoin the lanes that execute it, or arrive on the other side of a
        branch. They may then be ordered after these by way of another warp, so their path passes no wait either.
        """
        model, site = self.model, access.site
        here = model.views.context_of(site).threads
        if here & arriving or not here & T.whole(arriving, 32):
            return path_avoiding(model, site, arriving, (arrival,), ends).witness is not None
        if on_two_sides(self.lane_memory, site, arrival):
            return True
        cfg, reached = model.cfg, model.reachability.threads_at
        block = cfg.block_of[site]
        while block >= 0 and not reached.get(block, 0) & arriving:
            block = cfg.ipdom.get(block, -1)
        if block < 0:
            return False
        start = site if block == cfg.block_of[site] else cfg.blocks[block].start
        ends |= self.warps
        if start != site and (start in ends or not model.reaches(site, start, ends)):
            return False
        context = ThreadContext(
            reached[block] & arriving, model.reachability.path_condition(block, in_iteration=True)
        )
        return start == arrival or follow(model, start, context, (arrival,), ends).witness is not None

    def waits(self, arrival: int) -> tuple[int, ...]:
        """The waits for the mbarriers of *arrival*."""
        return self._waits.get(arrival, ())

    def _other_observers(self, arrival: int, access: int, others: T.Threads) -> frozenset[int]:
        """Waits for other mbarriers on which the threads *others* arrive after their *access*."""
        model = self.model
        return frozenset(
            wait
            for waits, sites in self._arrivals.items()
            if any(others & model.views.context_of(i).threads and model.reaches(access, i) for i in sites)
            for wait in waits
        ).difference(self.waits(arrival))

    def _before(self, arrival: int, ends: frozenset[int], writes: bool) -> Iterator[SharedAccess]:
        """The plain accesses from which the arriving thread can reach the *arrival* without passing one of *ends*."""
        model = self.model
        block_of = model.cfg.block_of
        arriving = model.views.context_of(arrival).threads
        by_site = self._plain_at[writes]
        beside = [i for i in by_site if on_two_sides(self.lane_memory, i, arrival)]
        for site in (*last(model, by_site, ends, (arrival,)), *beside):
            if self._leads(by_site[site][0], arriving, arrival, ends):
                # Earlier accesses of its block follow the same barrier.
                block = block_of[site]
                first = max((end for end in ends if end < site and block_of[end] == block), default=-1)
                for at, accesses in by_site.items():
                    if block_of[at] == block and first < at <= site:
                        yield from accesses

    def _at_most(self, arrival: int, items: Iterable[Item], what: str) -> Iterator[Item]:
        """The first *items* that are compared for the *arrival*."""
        ledger = self.model.ledger
        return ledger.at_most(MAX_OPERATIONS_PER_MBARRIER, items, _QUESTION, arrival, what)

    def _uses(self, arrival: int, writes: bool) -> list[tuple[int, _Run]]:
        """The waits for the *arrival*, each with the writes, or reads, that may follow it."""
        waits = self.waits(arrival)
        key = waits, T.whole(self.model.views.context_of(arrival).threads, 32), writes
        if key not in self._found:
            self._found[key] = [
                (wait, after)
                for wait in self._at_most(arrival, waits, "waits")
                if (waiting := self._waiting(arrival, wait))
                for run in self.accesses[writes]
                if run.threads & waiting and (after := run.after(self.model, wait)).accesses
            ]
        return self._found[key]

    def _waiting(self, arrival: int, wait: int) -> T.Threads:
        """The threads that wait, except those of the arriving warps."""
        views = self.model.views
        return views.context_of(wait).threads & ~T.whole(views.context_of(arrival).threads, 32)

    def _conflict(
        self, arrival: int, access: SharedAccess, others: T.Threads, uses: list[tuple[int, _Run]]
    ) -> tuple[int, SharedAccess] | None:
        """The first of *uses*, with its wait, that overlaps the *access* of *others* and is not ordered after it."""
        observers: frozenset[int] | None = None
        for wait, run in uses:
            waiting = self._waiting(arrival, wait)
            there = run.threads & waiting
            for use in run.accesses:
                if (
                    self._same(access, use, others, there)
                    and self._follows(wait, waiting, use.site)
                    and not any(
                        self.order.must.separates(b, access.site, use.site, others | there)
                        for b in self.barriers
                    )
                ):
                    if observers is None:
                        observers = self._other_observers(arrival, access.site, others)
                    if not observers or self._avoids(wait, waiting, use.site, observers):
                        return wait, use
        return None

    def _avoids(self, wait: int, waiting: int, use: int, observers: frozenset[int]) -> bool:
        """True if *waiting* threads can reach *use* from its previous execution, or the entry, without *observers*."""
        start = use if self.model.reaches(use, wait) else -1
        reached = path_avoiding(self.model, start, waiting, (wait,), observers).witness is not None
        return reached and self._follows(wait, waiting, use, observers)

    def _follows(self, wait: int, waiting: int, use: int, avoided: frozenset[int] = frozenset()) -> bool:
        """True if there is a path from *wait* to *use* that passes no barrier, no call and none of *avoided*."""
        key = wait, waiting, use, avoided
        if key not in self._follow_cache:
            found = path_avoiding(self.model, wait, waiting, (use,), self.barring | avoided)
            self._follow_cache[key] = found.witness is not None
        return self._follow_cache[key]

    def _same(self, one: SharedAccess, two: SharedAccess, threads: T.Threads, others: T.Threads) -> bool:
        """True if the two accesses share bytes, in one array or, for rings, if they are in the same stage."""
        if two.later and not two.writes:
            threads = self.model.views.context_of(
                one.site
            ).threads  # a matrix extends beyond the bytes at its start
        first, second = (self.memory.footprint(a, t) for a, t in ((one, threads), (two, others)))
        if first is None or second is None or not first.overlaps(second):
            return False
        bases = [self.memory.addresses.form(a.address).base for a in (one, two)]
        return bases[0] == bases[1] or array_of(self.model.values, bases[0]) == array_of(
            self.model.values, bases[1]
        )

    def _count(self, arrival: int) -> int | None:
        """The arrivals that complete a phase of the mbarrier of *arrival*; None if unknown."""
        counts = {ring.count for ring in self.order.points.mbarriers.rings_at(arrival)}
        return counts.pop() if len(counts) == 1 else None


def _warp_barrier_before(model: KernelModel, write: int, arrival: int) -> tuple[Repair, ...]:
    """The fix that adds a warp barrier between the two; empty if there is no location that all lanes reach."""
    at = insertion_site(model, (write,), arrival, "warp")
    if at is None:
        return ()
    return (
        Repair(
            "add bar.warp.sync where all lanes reach it", (before(at, "bar.warp.sync 0xffffffff;"),), True
        ),
    )
