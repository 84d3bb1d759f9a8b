"""Checks of arrivals on an mbarrier that speak for threads that have not come so far (PTX ISA 8.8, 9.7.13.15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from itertools import islice
from operator import or_

from tclint.analyses.happens_before import HappensBefore, Scope
from tclint.analyses.mbarrier_addresses import array_of
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, last, path_avoiding
from tclint.analyses.since_barrier import SharedByWarps, plain
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import barrier_between, place
from tclint.findings.edits import Repair, before
from tclint.findings.scales import Confidence
from tclint.values import thread_masks as T
from tclint.values.shared_memory import Access

MB014 = RuleId("MB014")
MB015 = RuleId("MB015")

_MOST = 16
"""Arrivals, and waits, at one mbarrier that are looked at: the others are those of an unrolled loop."""


@check(MB014, MB015, needs="mbarrier", analyses=(HappensBefore, SharedByWarps))
def arrives_for_others(model: KernelModel) -> Iterator[Hit]:
    """One lane arrives on an mbarrier for threads whose accesses nothing has ordered before its arrival."""
    arrivals = [i for i in model.sites("mbarrier-arrive") if _alone(model, i)]
    waits = model.sites("mbarrier-wait")
    if not arrivals or not waits or not model.function.entry or model.reachability.unresolved_dispatchers:
        return
    release = _Release(model)
    if not release.plain:
        return
    alike: Counter[tuple[tuple[int, ...], int]] = Counter()
    for arrival in arrivals:
        key = release.waits(arrival), model.views.context_of(arrival).threads
        alike[key] += 1
        if key[0] and alike[key] <= _MOST:
            hit = release.writes(arrival) or release.reads(arrival)
            if hit is not None:
                yield hit


def _alone(model: KernelModel, arrival: int) -> bool:
    """Whether one lane of a warp at most arrives, by an instruction of its own."""
    instruction = model.instruction(arrival)
    return instruction.group != "cp.async" and T.at_most_one_lane(model.views.context_of(arrival).threads)


class _Release:
    """What arrivals release, and to whom."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.memory = model.fact(SharedByWarps)
        every = [(i, a) for i in sorted(model.shared.sites) for a in model.shared.accesses(i)]
        reached = [(i, a) for i, a in every if model.cfg.block_of[i] in model.cfg.rank]
        # A warp allocates as one: its write is one of the lane that arrives as well.
        allocated = model.sites("tmem-alloc")
        self.plain = [
            a
            for i, a in reached
            if not a.later and plain(model, i) and i not in allocated and self.memory.executed.certainly(i)
        ]
        self.accesses = {
            writes: [(a, model.views.context_of(i).threads) for i, a in reached if a.writes is writes]
            for writes in (False, True)
        }
        self.order = order = model.fact(HappensBefore)
        self.barriers = order.barrier_sites(Scope.WARPS)
        self.lanes = order.barrier_sites(Scope.LANES).union(calls(model))
        """Where the lanes of a warp wait for each other."""
        self.warps = order.acquire_points(Scope.WARPS)
        """Where warps do."""
        self.barring = self.barriers.union(calls(model))
        self._ways: dict[tuple[int, int, int, frozenset[int]], bool] = {}
        self._found: dict[tuple[tuple[int, ...], int, bool], list[tuple[int, Access]]] = {}
        handovers = order.synchronised_pairs(
            model.sites("mbarrier-arrive"), frozenset(model.sites("mbarrier-wait"))
        )
        self._waits = {arrival: tuple(waits) for arrival, waits in grouped(handovers).items()}
        self._arrivals = grouped((waits, arrival) for arrival, waits in self._waits.items())
        """The arrivals that the same waits are for."""

    def writes(self, arrival: int) -> Hit | None:
        """Other lanes have written what a waiting thread reads."""
        found = self._passed_over([arrival], True)
        if found is None:
            return None
        write, wait, use = found
        return MB014.hit(
            site=arrival,
            message="one lane arrives for its warp, and nothing orders what the other lanes have written before that:"
            " its release covers its own accesses only",
            steps=(
                Mark(write, "all lanes write shared memory", role=self._who(write)),
                Mark(arrival, "one of them arrives", role=self._who(arrival)),
                Mark(wait, "another thread waits for that", role=self._who(wait)),
                Mark(use, "and reads what the lanes have written"),
            ),
            help="put bar.warp.sync (__syncwarp()) of these lanes before the arrival, or let every lane arrive",
            fixes=_met_before(self.model, write, arrival),
            about=frozenset((arrival,)),
        )

    def reads(self, arrival: int) -> Hit | None:
        """Other warps may still read what a waiting thread writes, and whoever arrives does so without them."""
        alone = self._count(arrival) == 1
        together = [arrival] if alone else self._together(arrival)
        arriving = self.model.views.context_of(arrival).threads
        if not together or (alone and arriving & (arriving - 1)):
            return None
        found = self._passed_over(together, False)
        if found is None:
            return None
        read, wait, use = found
        how = "one thread arrives and completes the phase" if alone else "threads arrive for others as well"
        return MB015.hit(
            site=arrival,
            message=f"{how}, while other warps may still read the shared memory that this releases",
            steps=(
                Mark(read, "several warps read shared memory", role=self._who(read)),
                Mark(arrival, "one thread arrives for several warps", role=self._who(arrival)),
                Mark(wait, "another thread waits for that", role=self._who(wait)),
                Mark(use, "and writes the same bytes"),
            ),
            help="put a barrier of the reading warps before the arrival, or let every warp arrive and count them in"
            " mbarrier.init",
            fixes=barrier_between(self.model, read, arrival),
            confidence=None if self.model.function.threads else Confidence.MEDIUM,
            about=frozenset((arrival,)),
        )

    def _who(self, site: int) -> str:
        return self.model.describe_threads(self.model.views.context_of(site).threads)

    def _together(self, arrival: int) -> list[int]:
        """All arrivals at the mbarriers of an *arrival*, itself first; none when others may arrive there, or operations do."""
        mbarriers = self.order.mbarriers
        rings = mbarriers.rings_at(arrival)
        found = [
            i for i in mbarriers.arriving if i != arrival and not rings.isdisjoint(mbarriers.rings_at(i))
        ]
        seen = not mbarriers.has_unseen_arrivals and all(self.waits(i) == self.waits(arrival) for i in found)
        return [arrival, *found] if seen else []

    def _passed_over(self, arrivals: list[int], writes: bool) -> tuple[int, int, int] | None:
        """What others than the arriving threads do that nothing orders before the *arrivals*, a wait for these, and a use behind it.

        Others write in other lanes of their warps, or read in other warps.
        """
        arrival, views = arrivals[0], self.model.views
        arriving = reduce(or_, (views.context_of(i).threads for i in arrivals))
        warps = T.whole(arriving, 32)
        ends, rest = (self.lanes, warps & ~arriving) if writes else (self.warps, ~warps)
        if len(arrivals) > 1 or self._count(arrival) != 1:
            rest &= self._there(arrivals)
        uses = self._uses(arrival, not writes)
        for access in islice(self._before(arrival, ends, writes), _MOST) if uses else ():
            others = views.context_of(access.site).threads & rest
            found = self._met(arrival, access, others, uses) if others else None
            if found is not None and self._all_come(access, arrivals, ends):
                wait, use = found
                return access.site, wait, use.site
        return None

    def _there(self, arrivals: list[int]) -> int:
        """The threads of a CTA that the kernel is made for: as many as it says, or up to the last warp that arrives or waits."""
        every, views = T.full(self.model.values.threads), self.model.views
        if self.model.function.most_threads is not None:
            return every
        sites = {*arrivals, *(wait for i in arrivals for wait in self.waits(i))}
        firsts = [threads & -threads for site in sites if (threads := views.context_of(site).threads)]
        return every & T.whole(T.full(max(firsts, default=0).bit_length()), 32)

    def _all_come(self, access: Access, arrivals: list[int], ends: frozenset[int]) -> bool:
        """Whether all warps that arrive come from the *access* and need not have heard of others."""
        return all(
            path_avoiding(self.model, access.site, warp, (i,), ends).witness is not None
            for i in arrivals
            for _, warp in T.by_warp(self.model.views.context_of(i).threads)
        )

    def waits(self, arrival: int) -> tuple[int, ...]:
        """The waits for the *arrival*."""
        return self._waits.get(arrival, ())

    def _told(self, arrival: int, access: int, others: int) -> frozenset[int]:
        """Where else one may hear of the *others*: they arrive on other mbarriers behind their *access*."""
        model = self.model
        return frozenset(
            wait
            for waits, sites in self._arrivals.items()
            if any(others & model.views.context_of(i).threads and model.reaches(access, i) for i in sites)
            for wait in waits
        ).difference(self.waits(arrival))

    def _before(self, arrival: int, ends: frozenset[int], writes: bool) -> Iterator[Access]:
        """The plain accesses from which the arriving thread comes to the *arrival* without waiting for others."""
        model = self.model
        block_of = model.cfg.block_of
        accesses = [a for a in self.plain if a.writes is writes]
        arriving = model.views.context_of(arrival).threads
        for site in last(model, [a.site for a in accesses], ends, (arrival,)):
            if path_avoiding(model, site, arriving, (arrival,), ends).witness is not None:
                # Those before it in the block stand behind the same barrier.
                block = block_of[site]
                first = max((end for end in ends if end < site and block_of[end] == block), default=-1)
                yield from (a for a in accesses if block_of[a.site] == block and first < a.site <= site)

    def _uses(self, arrival: int, writes: bool) -> list[tuple[int, Access]]:
        """The waits for the *arrival*, each with the reads or writes that may come behind it."""
        waits = self.waits(arrival)
        key = waits, T.whole(self.model.views.context_of(arrival).threads, 32), writes
        if key not in self._found:
            self._found[key] = [
                (wait, use)
                for wait in waits[:_MOST]
                if (waiting := self._waiting(arrival, wait))
                for use, threads in self.accesses[writes]
                if threads & waiting and self.model.reaches(wait, use.site)
            ]
        return self._found[key]

    def _waiting(self, arrival: int, wait: int) -> int:
        """The threads that wait, but for those of the warps that arrive."""
        views = self.model.views
        return views.context_of(wait).threads & ~T.whole(views.context_of(arrival).threads, 32)

    def _met(
        self, arrival: int, access: Access, others: int, uses: list[tuple[int, Access]]
    ) -> tuple[int, Access] | None:
        """The first of the *uses* that are of the bytes that *others* access, and no barrier orders."""
        told: frozenset[int] | None = None
        for wait, use in uses:
            waiting = self._waiting(arrival, wait)
            there = self.model.views.context_of(use.site).threads & waiting
            if (
                self._same(access, use, others, there)
                and self._follows(wait, waiting, use.site)
                and not self._parted(access.site, use.site, others | there)
            ):
                if told is None:
                    told = self._told(arrival, access.site, others)
                if not told or self._untold(wait, waiting, use.site, told):
                    return wait, use
        return None

    def _parted(self, access: int, use: int, threads: int) -> bool:
        """Whether all *threads* come by the *access*, then to a barrier, and then to the *use*, in each round of a loop."""
        model = self.model
        cfg, block = model.cfg, model.cfg.block_of[access]

        def between(b: int) -> bool:
            own = cfg.dominates(block, cfg.block_of[b])
            first = access if own else cfg.blocks[cfg.idom[block]].end - 1  # where it is decided who does it
            return not (
                threads & ~model.views.context_of(b).threads
                or model.reaches(access, use, (b,))
                or model.reaches(-1, b, (first,))
                or model.reaches(b, b, (first,))
            )

        return any(map(between, self.barriers))

    def _untold(self, wait: int, waiting: int, use: int, told: frozenset[int]) -> bool:
        """Whether the *waiting* threads come from one *use*, or the start, to the next and pass none of the waits *told*."""
        start = use if self.model.reaches(use, wait) else -1
        comes = path_avoiding(self.model, start, waiting, (wait,), told).witness is not None
        return comes and self._follows(wait, waiting, use, told)

    def _follows(self, wait: int, waiting: int, use: int, told: frozenset[int] = frozenset()) -> bool:
        """Whether a way leads from a wait to a use that no barrier bars, nor one of the waits *told*."""
        key = wait, waiting, use, told
        if key not in self._ways:
            self._ways[key] = (
                path_avoiding(self.model, wait, waiting, (use,), self.barring | told).witness is not None
            )
        return self._ways[key]

    def _same(self, one: Access, two: Access, threads: int, others: int) -> bool:
        """Whether both are in the same stage of a ring, if it is the same stage, and share bytes there."""
        if two.later and not two.writes:
            threads = self.model.views.context_of(
                one.site
            ).threads  # a matrix is more than the bytes at its start
        first, second = (self.memory.footprint(a, t) for a, t in ((one, threads), (two, others)))
        if first is None or second is None or not first.meets(second):
            return False
        bases = [self.memory.split(a.address)[0] for a in (one, two)]
        return bases[0] == bases[1] or array_of(self.model.values, bases[0]) == array_of(
            self.model.values, bases[1]
        )

    def _count(self, arrival: int) -> int | None:
        """The arrivals that a phase of the mbarrier takes; None when that is not known."""
        counts = {ring.count for ring in self.order.mbarriers.rings_at(arrival)}
        return counts.pop() if len(counts) == 1 else None


def _met_before(model: KernelModel, write: int, arrival: int) -> tuple[Repair, ...]:
    """A barrier of the warp between the two, where all of its lanes come."""
    at = place(model, (write,), arrival, "warp")
    if at is None:
        return ()
    return (
        Repair(
            "add bar.warp.sync, which all lanes reach there", (before(at, "bar.warp.sync 0xffffffff;"),), True
        ),
    )
