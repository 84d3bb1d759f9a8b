"""Happens-before between the threads of a kernel: what orders two events (PTX ISA 8.8, 8.9, 8.9.5, 9.7.13).

Two relations over one graph, the *must-order* within the true order within the *may-order*:

- The may-order (:mod:`.may`) has every pair that synchronisation may order. A pair that it lacks is unordered on some
  path, so a finding rests on :class:`Unordered`: no channel leads from the event to any acquire point on the path.
- The must-order (:mod:`.must`) has the pairs that are ordered in every execution. A proof, a redundant barrier, or "no
  wait is needed" rests on :class:`Ordered` without assumptions.
- Everything else is :class:`Unknown`, or :class:`Ordered` under assumptions that are named.

The graph has the release and acquire points of :mod:`.points` and the channels between them. It knows no addresses and
no rule: a check supplies the two events and decides whether their bytes meet. Proxies are labels of a path and not
edges: :mod:`.proxy_fences` answers whether a path of causality may pass a proxy fence (8.9.5).

Every answer is a function of the kernel and the question alone. Which of the acquire points end the facts of an
analysis is up to that analysis.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from types import MappingProxyType

from tclint.analyses.happens_before.answers import (
    Ordered,
    Ordering,
    OrderScope,
    SynchronisedPair,
    Unknown,
    Unordered,
)
from tclint.analyses.happens_before.may import MayOrder
from tclint.analyses.happens_before.must import MustOrder
from tclint.analyses.happens_before.partial_barriers import PartialBarriers, Unsynchronised
from tclint.analyses.happens_before.points import (
    ANY,
    CLUSTER,
    CtaBarrier,
    SynchronisationPoints,
)
from tclint.analyses.happens_before.proxy_fences import fences_between, returns_at_once
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import follow, follow_first
from tclint.dataflow import Decision, Path
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.dataflow.views import ThreadContext
from tclint.isa.effects import NO_ENGINE, TCGEN05, TRANSACTIONS, Barrier, Engine, Order
from tclint.values import PathCondition, UniformityScope
from tclint.values import thread_masks as T

__all__ = [
    "HappensBefore",
    "OrderScope",
    "Ordered",
    "Ordering",
    "SynchronisedPair",
    "Unknown",
    "Unordered",
    "Unsynchronised",
]

PHASES = "each wait is for the phase, and each barrier for the generation, that the event belongs to"
"""The assumption of an order that rests on the may-order."""
_UNRESOLVED = "on some path, only a call or an object that is not resolved may order the two"
_NO_POINT = "no acquire point of these threads is on the paths"


class HappensBefore:
    """What orders two events of a function. Questions are by instruction; a site stands for each of its executions."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.points = SynchronisationPoints(model)
        self.may = MayOrder(self.points)
        self.must = MustOrder(self.points)
        self.partial_barriers = PartialBarriers(self.points)
        self._completed_waits: dict[int, frozenset[int]] = {}
        self._unsynchronised: dict[
            tuple[int, frozenset[int], int, tuple[tuple[int, bool], ...], frozenset[Decision]], Path | None
        ] = {}
        self._cuts: dict[tuple[int, int], list[frozenset[int]]] = {}
        """Start and use -> sets of unguarded instructions that each cut off all paths of the CFG between the two."""

    def observers_of(self, sites: Iterable[int]) -> frozenset[int]:
        """The waits after which a thread may know that another has executed one of *sites*.

        An event of *sites* has happened when its thread continues. For asynchronous operations, see :meth:`completed`.
        """
        return self.may.observed_after(frozenset(sites), frozenset())

    def transitive_observers(self, waits: Iterable[int]) -> frozenset[int]:
        """*waits*, and all waits that may be ordered after one of them; :attr:`unknown` waits are included."""
        own = self.unknown.union(waits)
        return self.may.observed_after(own, own)

    @cached_property
    def unknown(self) -> frozenset[int]:
        """The waits whose signals are unknown: on an unresolved channel, or one that nothing in the kernel signals."""
        signalled = frozenset((ANY, CLUSTER)).union(*self.points.signals.values())
        return frozenset(
            i
            for i, channels in self.points.waits.items()
            if ANY in channels or signalled.isdisjoint(channels)
        )

    def completed(self, copies: Iterable[int], idle: Collection[int] = ()) -> frozenset[int]:
        """The waits after which a thread may know that one of *copies* is complete.

        These are the waits for its mbarrier, without those in *idle*, and the waits that may be ordered after one of
        them.
        """
        own = self.waits_for(copies).difference(idle)
        return self.may.observed_after(own, own)

    def waits_for(self, copies: Iterable[int]) -> frozenset[int]:
        """The waits that may be for an mbarrier on which one of the *copies* completes."""
        return frozenset[int]().union(*map(self.waits_completed_by, copies))

    def waits_completed_by(self, signal: int) -> frozenset[int]:
        """The waits that may be for the mbarrier of a *signal*."""
        if signal not in self._completed_waits:
            signalled = self.points.signals.get(signal) or self.points.channels(signal)
            self._completed_waits[signal] = frozenset(
                wait
                for wait in self.points.other_waits
                if (
                    ANY in signalled
                    or ANY in (waited := self.points.waits[wait])
                    or not signalled.isdisjoint(waited)
                )
                and self.points.mbarriers.addresses.same(signal, wait) is not False
            )
        return self._completed_waits[signal]

    def completion_points(self, sites: Iterable[int]) -> frozenset[int]:
        """The waits after which a thread may know that what *sites* do, at once or asynchronously, is complete."""
        groups: dict[Engine, list[int]] = {}
        for site in sites:
            groups.setdefault(self.model.instruction(site).effects.begins or NO_ENGINE, []).append(site)
        found = frozenset[int]()
        for group, started in groups.items():
            if group == TRANSACTIONS:
                found |= self.completed(started)
            else:
                ends = self.completion_signals(started, group)
                found |= self.observers_of(ends) | ends.intersection(self.model.waits(group))
        return found

    def completion_signals(self, sites: Collection[int], group: Engine) -> frozenset[int]:
        """Where a thread knows or signals that the operations *sites* of *group* are complete.

        Ordinary accesses, the group ``""``, are complete when they have executed.
        """
        if not group:
            return frozenset(sites)
        model = self.model
        found = [*model.waits(group), *model.tracks(group)]
        if group == TCGEN05:
            found += model.commits(group)
        return frozenset(e for e in found if any(model.reaches(i, e) for i in sites))

    def relaxed_cluster_waits(self, site: int, fences: Collection[int]) -> dict[int, int]:
        """The cluster barrier waits that may not order what a thread did at *site*, each with the arrival to blame.

        The arrival is ``.relaxed``, which orders no memory, and a path from *site* to it passes none of *fences*.
        """
        model, cluster = self.model, self.points.barrier_sites(OrderScope.CTAS)
        arrivals = model.arrives(Barrier.CLUSTER)
        found: dict[int, int] = {}
        for arrival in arrivals:
            if model.instruction(arrival).order is not Order.RELAXED:
                continue
            others = [i for i in arrivals if i != arrival]
            if (
                follow(model, site, model.views.context_of(site), (arrival,), (*fences, *others)).witness
                is None
            ):
                continue
            for wait in cluster:
                ends = (*(w for w in cluster if w != wait), *others)
                if follow(model, arrival, model.views.context_of(arrival), (wait,), ends).witness is not None:
                    found[wait] = arrival
        return found

    def synchronised_pairs(
        self, arrivals: Iterable[int], waits: AbstractSet[int], *, of_copies: bool = False
    ) -> Iterator[SynchronisedPair]:
        """The pairs of *arrivals* and *waits* that are certain to match: on one ring of mbarriers, or at one barrier.

        A ``cp.async.mbarrier.arrive`` signals copies, not its thread, and counts only with *of_copies*.

        Where the threads of one side reach a CTA barrier at several sites, which of these match which sites of the
        other side is unknown. At the cluster barrier, all threads must arrive at one site, and wait after it.
        """
        by_channel: dict[Hashable, list[int]] = {}
        for wait in sorted(waits):
            for channel in self._single_barrier(self.points.waits.get(wait, frozenset())):
                by_channel.setdefault(channel, []).append(wait)
        for arrival in arrivals:
            if self.model.instruction(arrival).effects.tracks is not None and not of_copies:
                continue
            for channel in self._single_barrier(self.points.signals.get(arrival, frozenset())) - {ANY}:
                for wait in by_channel.get(channel, ()):
                    if self._matches(arrival, wait, channel):
                        yield SynchronisedPair(arrival, wait)

    @staticmethod
    def _single_barrier(channels: frozenset[Hashable]) -> frozenset[Hashable]:
        """*channels*, unless they are CTA barriers of which each thread uses another one."""
        several = len(channels) > 1 and any(isinstance(channel, CtaBarrier) for channel in channels)
        return frozenset() if several else channels

    def _matches(self, a: int, b: int, channel: Hashable) -> bool:
        """Whether the wait *b* is certain to be for the arrival *a*."""
        if channel == CLUSTER:
            every = self.model.views.context_of(a).threads == T.full(self.model.values.threads)
            return every and b in self.may.next_waits(a, channel)
        return a == b or not isinstance(channel, CtaBarrier) or self._only_sites(a, b, channel)

    def _only_sites(self, a: int, b: int, barrier: Hashable) -> bool:
        """Whether the threads of *a* and those of *b* synchronise at one CTA barrier, and reach it at no other site."""
        model = self.model
        exclusive, count = model.views.mutually_exclusive, model.constant_of(a, "count")
        if count is None or count != model.constant_of(b, "count") or not exclusive(a, b):
            return False
        if any(model.views.context_of(site).threads.bit_count() >= count for site in (a, b)):
            return False
        sites = {
            i
            for i, channels in (*self.points.signals.items(), *self.points.waits.items())
            if barrier in channels
        }
        return all(site in (a, b) or (exclusive(a, site) and exclusive(b, site)) for site in sites)

    def fences_between(self, first: int, then: int, fences: Collection[int]) -> Iterator[int]:
        """Those of the proxy *fences* by which third threads may order *first* before *then* (8.9.5)."""
        return fences_between(self.may, first, then, fences)

    def returns_at_once(self, start: int, wait: int) -> bool:
        """Whether the first execution of *wait* returns at once, before *start* has been executed (9.7.13.15.16)."""
        return returns_at_once(self.may, start, wait)

    def common_facts(self, sites: Collection[int]) -> PathCondition:
        """The CTA-uniform, invariant facts that hold whenever any of *sites* executes.

        One such fact is that a loop has an iteration to run.
        """
        values = self.model.values
        each = [self.model.views.context_of(i).invariant(values) for i in sites]
        uniform = {
            fact
            for facts in each
            for fact in facts.items()
            if values.uniformity(fact[0]) is UniformityScope.CTA
        }
        return PathCondition(
            (p, truth) for p, truth in sorted(uniform) if all(values.entails(p, f) is truth for f in each)
        )

    def unsynchronised_path(
        self,
        use: int,
        stops: Collection[int],
        start: int = -1,
        given: Mapping[int, bool] = MappingProxyType({}),
        closed: frozenset[Decision] = frozenset(),
    ) -> Path | None:
        """A path to *use*, from *start* or the entry, that passes none of *stops*; None: none was found.

        *stops* are the waits at which some event may be observed, so a thread on the path is not ordered after that
        event. The facts *given* hold on the whole path, which takes no edge that is *closed*.
        """
        avoided = frozenset(stops)
        if use in avoided:
            avoided -= {use}
        path = self._continued(use, avoided, start, given, closed)
        if path is not None or start >= 0:
            return path
        # A search ends at a dispatcher of roles, so a path is tried from the start of each role, if the dispatcher
        # itself is reached without passing *stops*.
        for dispatcher, first in self._roles:
            path = self._continued(use, avoided, first, given, closed)
            if path is not None and self._continued(dispatcher, avoided, start, given, closed) is not None:
                return path
        return None

    def order(
        self,
        first: Collection[int],
        then: int,
        start: int = -1,
        scope: OrderScope = OrderScope.WARPS,
    ) -> Ordering:
        """Whether a thread that reaches *then* is ordered after the completion of *first* in other threads.

        *first* are the sites of accesses or asynchronous operations, of which one has happened. The paths begin at
        *start*, or at the entry. *scope* is the distance between the threads.
        """
        observers = self.completion_points(first)
        # What holds in the whole CTA may not hold in another one.
        given = self.common_facts(first) if scope < OrderScope.CTAS else PathCondition()
        path = self.unsynchronised_path(then, observers, start, given)
        if path is not None:
            return Unordered(path)
        resolved = frozenset(i for i in observers if ANY not in self.points.waits.get(i, ()))
        all_resolved = (
            len(resolved) == len(observers) or self.unsynchronised_path(then, resolved, start, given) is None
        )
        # A collective is an observer for what another lane has observed before it, and is not where that happened.
        nearest = self._nearest(
            then, self.points.acquire_points(scope).intersection(resolved if all_resolved else observers)
        )
        views = self.model.views
        threads = views.context_of(then).threads
        at = tuple(sorted({i for i in nearest if views.context_of(i).threads & threads}))
        certain = self.must.ordering_barriers(first, then, scope)
        if certain is not None:
            return Ordered(at or certain, ())
        if all_resolved and at:
            return Ordered(at, (PHASES,))
        return Unknown(at, (_NO_POINT if all_resolved else _UNRESOLVED,))

    def _nearest(self, use: int, waits: Collection[int]) -> Iterator[int]:
        """The last of *waits* on each path to *use*; if that has a guard, also the one before it."""
        cfg = self.model.cfg
        by_block: dict[int, list[int]] = {}
        for wait in sorted(waits):
            by_block.setdefault(cfg.block_of[wait], []).append(wait)
        work = [(cfg.block_of[use], use)]
        seen = set(work)
        while work:
            block, end = work.pop()
            for wait in reversed([i for i in by_block.get(block, ()) if i < end]):
                yield wait
                if self.model.instruction(wait).guard < 0:
                    break
            else:
                before = {(e.source, cfg.blocks[e.source].end) for e in cfg.predecessors[block]} - seen
                seen |= before
                work += before

    @cached_property
    def _roles(self) -> list[tuple[int, int]]:
        """The dispatching branch and the first instruction of each role whose warps are known."""
        cfg, reachability = self.model.cfg, self.model.reachability
        return [
            (cfg.blocks[block].end - 1, cfg.blocks[edge.target].start)
            for block in sorted(reachability.dispatchers - reachability.unresolved_dispatchers)
            for edge in cfg.successors[block]
        ]

    def _continued(
        self,
        use: int,
        stops: frozenset[int],
        start: int,
        given: Mapping[int, bool],
        closed: frozenset[Decision] = frozenset(),
    ) -> Path | None:
        """A path from *start* to *use* that passes none of *stops* and no dispatcher."""
        model = self.model
        cuts = self._cuts.setdefault((start, use), [])
        if any(map(stops.issuperset, cuts)):
            return None
        key = use, stops, start, tuple(given.items()), closed
        if key not in self._unsynchronised:
            searches = model.search_cache
            if searches.spent:
                model.ledger.give_up(FEASIBLE_PATH, start, searches.spent)
                return None
            searches.count(len(stops))
            here = model.views.context_in_iteration(start)
            context = ThreadContext(here.threads, PathCondition({**here.facts, **given})) if given else here
            unguarded = {i for i in stops if model.instruction(i).guard < 0}
            cut = frozenset((start,)) if start in unguarded else model.cut(start, use, unguarded)
            if cut is not None:
                cuts.append(cut)  # and not the answer by itself: thousands of sets of stops have this cut
                return None
            self._unsynchronised[key] = (
                follow_first(model, start, context, (use,), stops, closed).witness
                if context.threads
                else None
            )
        return self._unsynchronised[key]
