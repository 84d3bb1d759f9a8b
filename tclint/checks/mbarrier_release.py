"""Checks of arrivals on an mbarrier that speak for threads that have not come so far (PTX ISA 8.8, 9.7.13.15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from tclint.analyses import threads as T
from tclint.analyses.mbarriers import Array, array_of
from tclint.analyses.order import Order, Scope
from tclint.analyses.shared_memory import Access
from tclint.analyses.since_barrier import SharedByWarps, plain
from tclint.analyses.warps import calls, last, way
from tclint.checks import Hit, Mark, check
from tclint.checks._repairs import barrier_between, place
from tclint.finding import Confidence
from tclint.fixes import Repair, before
from tclint.model import KernelModel

_MOST = 16
"""Arrivals, and waits, at one mbarrier that are looked at: the others are those of an unrolled loop."""


@check("MB014", "MB015", needs="mbarrier")
def arrives_for_others(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """One lane arrives on an mbarrier for threads whose accesses nothing has ordered before its arrival."""
    arrivals = [i for i in model.sites("mbarrier-arrive") if _alone(model, i)]
    waits = model.sites("mbarrier-wait")
    if not arrivals or not waits or not model.function.entry or model.views.unread:
        return
    release = _Release(model)
    if not release.plain:
        return
    alike: Counter[tuple[object, int]] = Counter()
    for arrival in arrivals:
        key = release.ring(arrival), model.views.at(arrival).threads
        alike[key] += 1
        if key[0] in release.waits and alike[key] <= _MOST:
            hit = release.writes(arrival) or release.reads(arrival)
            if hit is not None:
                yield hit


def _alone(model: KernelModel, arrival: int) -> bool:
    """Whether one lane of a warp at most arrives, by an instruction of its own."""
    instruction = model.instruction(arrival)
    return instruction.group != "cp.async" and T.at_most_one_lane(model.views.at(arrival).threads)


class _Release:
    """What arrivals release, and to whom."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.memory = model.made(SharedByWarps)
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
            writes: [(a, model.views.at(i).threads) for i, a in reached if a.writes is writes]
            for writes in (False, True)
        }
        order = model.made(Order)
        self.barriers = order.meets(Scope.WARPS)
        self.lanes = order.meets(Scope.LANES).union(calls(model))
        """Where the lanes of a warp wait for each other."""
        self.warps = order.hears(Scope.WARPS)
        """Where warps do."""
        self.barring = self.barriers.union(calls(model))
        self._ways: dict[tuple[int, int, int, frozenset[Array]], bool] = {}
        self._found: dict[tuple[Array | None, int, bool], list[tuple[int, Access]]] = {}
        self.waits: dict[Array | None, list[int]] = {}
        for site in model.sites("mbarrier-wait"):
            self.waits.setdefault(self.ring(site), []).append(site)
        self.waits.pop(None, None)
        self._arrivals: dict[Array, list[int]] = {}
        for site in model.sites("mbarrier-arrive"):
            barrier = self.ring(site)
            if barrier is not None and barrier in self.waits:
                self._arrivals.setdefault(barrier, []).append(site)

    def writes(self, arrival: int) -> tuple[str, Hit] | None:
        """Other lanes have written what a waiting thread reads."""
        found = self._passed_over(arrival, True)
        if found is None:
            return None
        write, wait, use = found
        return "MB014", Hit(
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

    def reads(self, arrival: int) -> tuple[str, Hit] | None:
        """Other warps may still read what a waiting thread writes, and the arrival completes the phase."""
        arriving = self.model.views.at(arrival).threads
        if arriving & (arriving - 1) or self._count(arrival) != 1:
            return None
        found = self._passed_over(arrival, False)
        if found is None:
            return None
        read, wait, use = found
        return "MB015", Hit(
            site=arrival,
            message="one thread arrives and completes the phase, while other warps may still read the shared memory"
            " that this releases",
            steps=(
                Mark(read, "several warps read shared memory", role=self._who(read)),
                Mark(arrival, "one thread arrives for all of them", role=self._who(arrival)),
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
        return self.model.who(self.model.views.at(site).threads)

    def _passed_over(self, arrival: int, writes: bool) -> tuple[int, int, int] | None:
        """What others than the arriving thread do that nothing orders before the *arrival*, the wait for it, and a use behind that.

        Others write in other lanes of its warp, or read in other warps.
        """
        views = self.model.views
        arriving = views.at(arrival).threads
        warp = T.whole(arriving, 32)
        ends, rest = (self.lanes, warp & ~arriving) if writes else (self.warps, ~warp)
        uses = self._uses(arrival, not writes)
        for access in islice(self._before(arrival, ends, writes), _MOST) if uses else ():
            others = views.at(access.site).threads & rest
            found = self._met(arrival, access, others, uses, ends) if others else None
            if found is not None:
                wait, use = found
                return access.site, wait, use.site
        return None

    def _told(self, arrival: int, access: int, others: int, ends: frozenset[int]) -> frozenset[Array]:
        """The other mbarriers that the *others* arrive on themselves, on every way from their *access* to the *arrival*."""
        model = self.model
        arriving = model.views.at(arrival).threads
        return frozenset(
            barrier
            for barrier, sites in self._arrivals.items()
            if (own := [i for i in sites if not others & ~model.views.at(i).threads])
            and any(model.reaches(access, i) and model.reaches(i, arrival) for i in own)
            and way(model, access, arriving, (arrival,), ends.union(own)) is None
        )

    def _before(self, arrival: int, ends: frozenset[int], writes: bool) -> Iterator[Access]:
        """The plain accesses from which the arriving thread comes to the *arrival* without waiting for others."""
        model = self.model
        block_of = model.cfg.block_of
        accesses = [a for a in self.plain if a.writes is writes]
        arriving = model.views.at(arrival).threads
        for site in last(model, [a.site for a in accesses], ends, (arrival,)):
            if way(model, site, arriving, (arrival,), ends) is not None:
                # Those before it in the block stand behind the same barrier.
                block = block_of[site]
                first = max((end for end in ends if end < site and block_of[end] == block), default=-1)
                yield from (a for a in accesses if block_of[a.site] == block and first < a.site <= site)

    def _uses(self, arrival: int, writes: bool) -> list[tuple[int, Access]]:
        """The waits for the *arrival*, each with the reads or writes that may come behind it."""
        views, barrier = self.model.views, self.ring(arrival)
        key = barrier, T.whole(views.at(arrival).threads, 32), writes
        if key not in self._found:
            self._found[key] = [
                (wait, use)
                for wait in self.waits.get(barrier, ())[:_MOST]
                if (waiting := self._waiting(arrival, wait))
                for use, threads in self.accesses[writes]
                if threads & waiting and self.model.reaches(wait, use.site)
            ]
        return self._found[key]

    def _waiting(self, arrival: int, wait: int) -> int:
        """The threads that wait, but for those of the warps that arrive."""
        views = self.model.views
        return views.at(wait).threads & ~T.whole(views.at(arrival).threads, 32)

    def _met(
        self, arrival: int, access: Access, others: int, uses: list[tuple[int, Access]], ends: frozenset[int]
    ) -> tuple[int, Access] | None:
        """The first of the *uses* that are of the bytes that *others* access, and no barrier orders."""
        told: frozenset[Array] | None = None
        for wait, use in uses:
            waiting = self._waiting(arrival, wait)
            there = self.model.views.at(use.site).threads & waiting
            if (
                self._same(access, use, others, there)
                and self._follows(wait, waiting, use.site)
                and not self._parted(access.site, use.site, others | there)
            ):
                if told is None:
                    told = self._told(arrival, access.site, others, ends)
                if not told or self._follows(wait, waiting, use.site, told):
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
                threads & ~model.views.at(b).threads
                or model.reaches(access, use, (b,))
                or model.reaches(-1, b, (first,))
                or model.reaches(b, b, (first,))
            )

        return any(map(between, self.barriers))

    def _follows(self, wait: int, waiting: int, use: int, told: frozenset[Array] = frozenset()) -> bool:
        """Whether a way leads from a wait to a use that no barrier bars, and no wait for an mbarrier of *told*.

        Those may tell the thread more.
        """
        key = wait, waiting, use, told
        if key not in self._ways:
            barring = self.barring.union(*(self.waits[barrier] for barrier in told))
            self._ways[key] = way(self.model, wait, waiting, (use,), barring) is not None
        return self._ways[key]

    def _same(self, one: Access, two: Access, threads: int, others: int) -> bool:
        """Whether both are in the same stage of a ring, if it is the same stage, and share bytes there."""
        if two.later and not two.writes:
            threads = self.model.views.at(one.site).threads  # a matrix is more than the bytes at its start
        first, second = (self.memory.footprint(a, t) for a, t in ((one, threads), (two, others)))
        if first is None or second is None or not first.meets(second):
            return False
        bases = [self.memory.split(a.address)[0] for a in (one, two)]
        return bases[0] == bases[1] or array_of(self.model.values, bases[0]) == array_of(
            self.model.values, bases[1]
        )

    def ring(self, site: int) -> Array | None:
        address = self.model.value(site, "mbarrier")
        return None if address is None else array_of(self.model.values, address)

    def _count(self, arrival: int) -> int | None:
        """The arrivals that a phase of the mbarrier takes; None when that is not known."""
        model = self.model
        mine = self.ring(arrival)
        counts = {
            model.known(i, "count")
            for i in model.sites("mbarrier-init")
            if mine is not None and (found := self.ring(i)) is not None and found[:2] == mine[:2]
        }
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
