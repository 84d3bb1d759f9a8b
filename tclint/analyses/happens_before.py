"""Happens-before between the threads of a kernel: where one may observe what another did (PTX ISA 8.8, 9.7.13).

A *release point* (:attr:`HappensBefore.release_points`) makes known what a thread has done so far: a barrier, an
arrival, a commit, a strong write. At an *acquire point* (:meth:`HappensBefore.acquire_points`) a thread *observes* such
events: a barrier, an mbarrier wait, a cluster barrier wait, a loop that polls memory. A *channel* connects the two: one
ring of mbarriers, one barrier number, the cluster barrier, or :data:`_ANY` for everything that is not resolved, such as
a call.

An event reaches every release point that may follow it in program order, and through the channel of that release point
every acquire point on the channel. From there it continues in the thread that waited, and so on through any number of
threads. The acquire points that it reaches are its *observers*; ``_observed_from`` computes them with a worklist.

Releases and acquires are matched by channel, not by iteration or phase, so the observers are over-approximated. A path
on which a thread passes none of them proves that it is not ordered after the event; passing one proves nothing. Only
:meth:`HappensBefore.synchronised_pairs` are certain to match. Two restrictions keep the observers few: a load counts as
an acquire point only if it polls in a loop, and threads are assumed to pass a barrier equally often
(``_paired_waits``).

Checks ask at which instructions threads at some distance (:class:`Scope`) may observe each other, and search for paths
that pass none of these. Which of them ends the facts of an analysis is up to that analysis.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import IntEnum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, follow
from tclint.dataflow import Path
from tclint.dataflow.views import ThreadContext
from tclint.isa.table import Match
from tclint.values import PathCondition, UniformityScope
from tclint.values import thread_masks as T

__all__ = ["HappensBefore", "Ordering", "Scope", "SynchronisedPair", "strong"]


class Scope(IntEnum):
    """How far apart two threads are."""

    LANES = 0
    """In one warp."""
    WARPS = 1
    """In different warps of a CTA."""
    CTAS = 2
    """In different CTAs of a cluster."""


_BARRIER_WAITS = ("barrier-sync", "barrier-wait")
"""Events at which threads wait for each other: a thread that continues has observed what all of them have done."""
_SIGNALS = ("barrier-sync", "barrier-arrive", "mbarrier-arrive")
_RELEASE = frozenset((".release", ".acq_rel", ".volatile"))
_STRONG = _RELEASE | {".relaxed", ".acquire"}

_END = 1 << 62
"""Greater than the number of any instruction."""
_Targets = tuple[frozenset[int], frozenset[Hashable]]
"""Waits that signals may complete, and channels of which they may complete every wait."""


class _CtaBarrier(NamedTuple):
    """The channel of a CTA barrier."""

    number: int


_ANY = "any"
"""The channel of what cannot be resolved: a call, an access that releases or acquires, an address from memory."""


def strong(match: Match) -> frozenset[str]:
    """The memory orders of an access by which threads may synchronise (8.6); empty for a weak access.

    An atomic operation that states none is ``.relaxed`` (9.7.13.5).
    """
    stated = _STRONG.intersection(match.modifiers)
    atomic = len({verb for verb, _ in match.form.memory}) > 1
    return stated or frozenset((".relaxed",) if atomic else ())


class SynchronisedPair(NamedTuple):
    """A synchronised pair: what a thread does before *arrival* happens before what another does after *wait*."""

    arrival: int
    wait: int


class Ordering(NamedTuple):
    """Whether a thread may have observed an event by the time it reaches an instruction."""

    path: Path | None
    """A path to the instruction on which the thread cannot observe the event; None if none was found."""
    at: tuple[int, ...]
    """The acquire points at which it may observe the event, the last one on each path."""
    resolved: bool
    """Whether each path passes an acquire point whose signals are known."""

    @property
    def ordered(self) -> bool | None:
        """Whether every path passes an acquire point that may observe the event; None if unknown."""
        if self.path is not None:
            return False
        return True if self.at and self.resolved else None


class HappensBefore:
    """The release and acquire points of a function, and the channels that connect them.

    A *signal* is a release point or the completion of a copy; a *wait* is an acquire point between warps.
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._observed: dict[tuple[frozenset[int], frozenset[int]], frozenset[int]] = {}
        self._completed_waits: dict[int, frozenset[int]] = {}
        self._targets_of: dict[int, _Targets] = {}
        self._targets_of_block: dict[int, _Targets] = {}
        self._unsynchronised: dict[
            tuple[int, frozenset[int], int, tuple[tuple[int, bool], ...]], Path | None
        ] = {}
        self._paired: dict[tuple[int, Hashable], frozenset[int]] = {}

    def acquire_points(self, scope: Scope) -> frozenset[int]:
        """The acquire points by which a thread may observe one at the distance *scope*.

        They are barriers, mbarrier waits, polling loads and, since a callee may wait, calls.
        """
        return self._acquire_points[scope]

    def barrier_sites(self, scope: Scope) -> frozenset[int]:
        """The acquire points of *scope* that are barriers, at which all threads, or as many as are counted, wait."""
        return self._barriers[scope]

    def releases_together(self, site: int) -> bool:
        """Whether the threads that reach the CTA barrier *site* leave it together: it waits for as many or more."""
        model = self.model
        if site not in self._barriers[Scope.WARPS]:
            return False
        if model.instruction(site).role("count") is None:
            return True
        count = model.constant_of(site, "count")
        return count is not None and count >= model.views.context_of(site).threads.bit_count()

    @cached_property
    def cta_wide_barriers(self) -> list[int]:
        """The barriers that every thread of the CTA waits at, once: with no count, no guard and no loop around them."""
        model = self.model
        return [
            i
            for i in sorted(self._barriers[Scope.WARPS].intersection(model.sites("barrier-sync")))
            if model.instruction(i).role("count") is None
            and model.instruction(i).guard < 0
            and model.cfg.block_of[i] not in model.cfg.in_cycle
        ]

    @cached_property
    def release_points(self) -> frozenset[int]:
        """The release points between warps: barriers, arrivals, commits, releasing writes and calls.

        If some thread polls, every strong write is one, since a fence may precede it.
        """
        found = [*calls(self.model), *self._strong("write", _STRONG if self.spin_loads else _RELEASE)]
        for event in _SIGNALS:
            found += (i for i in self.model.sites(event) if self._scope(i) >= Scope.WARPS)
        # A commit without an mbarrier closes a group of the thread itself and signals nothing.
        found += (
            i for i in self.model.sites("commit") if self.model.instruction(i).role("mbarrier") is not None
        )
        return frozenset(found)

    @cached_property
    def collectives(self) -> frozenset[int]:
        """The events that the lanes of a warp execute together, and so synchronise at."""
        return frozenset(
            i
            for use in self.model.function.uses
            if use.match is not None and use.match.form.scope == "lanes" and use.match.form.event
            for i in use.sites
        )

    @cached_property
    def _acquire_points(self) -> tuple[frozenset[int], ...]:
        """The acquire points by :class:`Scope`."""
        return tuple(barriers | self._other_waits for barriers in self._barriers)

    @cached_property
    def _other_waits(self) -> frozenset[int]:
        """The acquire points that are not barriers, of any scope: mbarrier waits, polling loads and calls."""
        called = calls(self.model)
        for site in called:
            self.model.ledger.drop("order past a call", site, "a callee may synchronise with any thread")
        return self.spin_loads.union(self.model.sites("mbarrier-wait"), called)

    @cached_property
    def spin_loads(self) -> frozenset[int]:
        """Strong loads and atomics in loops whose result decides a branch: they wait until another thread writes."""
        model, cfg = self.model, self.model.cfg
        reads = (i for i in self._strong("read", _STRONG) if cfg.block_of[i] in cfg.in_cycle)
        return frozenset(
            i for i in reads if any(model.instruction(j).flow for j, _ in model.transitive_users(i))
        )

    @cached_property
    def _barriers(self) -> tuple[frozenset[int], ...]:
        """The barriers at which threads wait, by the :class:`Scope` that they have at least."""
        scopes = {i: self._scope(i) for event in _BARRIER_WAITS for i in self.model.sites(event)}
        return tuple(frozenset(i for i, scope in scopes.items() if scope >= least) for least in Scope)

    def _scope(self, site: int) -> Scope:
        """How far apart the threads may be that the barrier or signal *site* synchronises."""
        match = self.model.instruction(site).match
        assert match is not None
        form = match.form
        if form.scope == "lanes":
            return Scope.LANES
        of_cta = form.event in ("barrier-sync", "barrier-arrive") and form.group != "cluster"
        return Scope.WARPS if of_cta else Scope.CTAS

    def _strong(self, verb: str, orders: frozenset[str]) -> Iterator[int]:
        """The accesses that *verb*, ``read`` or ``write``, memory in one of the memory *orders*."""
        for use in self.model.function.uses:
            match = use.match
            if match is None or match.form.event not in ("", "issue"):
                continue
            if any(v == verb for v, _ in match.form.memory) and not orders.isdisjoint(strong(match)):
                yield from use.sites

    @cached_property
    def mbarriers(self) -> Mbarriers:
        return self.model.fact(Mbarriers)

    @cached_property
    def _signals(self) -> dict[int, frozenset[Hashable]]:
        # The completion of a copy implies that its thread has issued it.
        return {i: self._channels(i) for i in (*self.release_points, *self.model.sites("issue", "mbarrier"))}

    @cached_property
    def _waits(self) -> dict[int, frozenset[Hashable]]:
        return {i: self._channels(i) for i in self._acquire_points[Scope.WARPS]}

    def _channels(self, site: int) -> frozenset[Hashable]:
        """The channels of a signal or a wait: rings of mbarriers, a CTA barrier, the cluster barrier, or any."""
        model = self.model
        instruction = model.instruction(site)
        match = instruction.match
        if match is None or not match.form.event or match.form.flow:
            return frozenset((_ANY,))
        if "mbarrier" in match.form.roles:
            return frozenset(self.mbarriers.rings_at(site)) or frozenset((self._variable(site),))
        if "id" in match.form.roles:
            barrier = model.constant_of(site, "id")
            return frozenset((_ANY if barrier is None else _CtaBarrier(barrier),))
        return frozenset(("cluster",)) if match.form.event.startswith("barrier") else frozenset((_ANY,))

    def _variable(self, site: int) -> Hashable:
        """The channel of an mbarrier in a shared variable that the kernel does not initialise; any if unresolved."""
        places = self.mbarriers.addresses.locations(site) or ()
        if len(places) == 1 and self.model.space((place := min(places)).base).startswith(".shared"):
            return place
        return _ANY

    def observers_of(self, sites: Iterable[int]) -> frozenset[int]:
        """The waits after which a thread may know that another has executed one of *sites*.

        An event of *sites* has happened when its thread continues. For asynchronous operations, see :meth:`completed`.
        """
        return self._observed_after(frozenset(sites), frozenset())

    def transitive_observers(self, waits: Iterable[int]) -> frozenset[int]:
        """*waits*, and all waits that may be ordered after one of them; :attr:`unknown` waits are included."""
        own = self.unknown.union(waits)
        return self._observed_after(own, own)

    @cached_property
    def unknown(self) -> frozenset[int]:
        """The waits whose signals are unknown: on an unresolved channel, or one that nothing in the kernel signals."""
        signalled = frozenset((_ANY, "cluster")).union(*self._signals.values())
        return frozenset(
            i for i, channels in self._waits.items() if _ANY in channels or signalled.isdisjoint(channels)
        )

    def completed(self, copies: Iterable[int], idle: Collection[int] = ()) -> frozenset[int]:
        """The waits after which a thread may know that one of *copies* is complete.

        These are the waits for its mbarrier, without those in *idle*, and the waits that may be ordered after one of
        them.
        """
        own = self.waits_for(copies).difference(idle)
        return self._observed_after(own, own)

    def waits_for(self, copies: Iterable[int]) -> frozenset[int]:
        """The waits that may be for an mbarrier on which one of the *copies* completes."""
        return frozenset[int]().union(*map(self.waits_completed_by, copies))

    def waits_completed_by(self, signal: int) -> frozenset[int]:
        """The waits that may be for the mbarrier of a *signal*."""
        if signal not in self._completed_waits:
            signalled = self._signals.get(signal) or self._channels(signal)
            self._completed_waits[signal] = frozenset(
                wait
                for wait in self._other_waits
                if (
                    _ANY in signalled
                    or _ANY in (waited := self._waits[wait])
                    or not signalled.isdisjoint(waited)
                )
                and self.mbarriers.addresses.same(signal, wait) is not False
            )
        return self._completed_waits[signal]

    def completion_points(self, sites: Iterable[int]) -> frozenset[int]:
        """The waits after which a thread may know that what *sites* do, at once or asynchronously, is complete."""
        groups: dict[str, list[int]] = {}
        for site in sites:
            instruction = self.model.instruction(site)
            groups.setdefault(instruction.group if instruction.event == "issue" else "", []).append(site)
        found = frozenset[int]()
        for group, started in groups.items():
            if group == "mbarrier":
                found |= self.completed(started)
            else:
                ends = self.completion_signals(started, group)
                found |= self.observers_of(ends) | ends.intersection(self.model.sites("wait", group))
        return found

    def completion_signals(self, sites: Collection[int], group: str) -> frozenset[int]:
        """Where a thread knows or signals that the operations *sites* of *group* are complete.

        Ordinary accesses, the group ``""``, are complete when they have executed.
        """
        if not group:
            return frozenset(sites)
        model = self.model
        found = [*model.sites("wait", group), *model.sites("mbarrier-arrive", group)]
        if group == "tcgen05":
            found += model.sites("commit", group)
        return frozenset(e for e in found if any(model.reaches(i, e) for i in sites))

    def relaxed_cluster_waits(self, site: int, fences: Collection[int]) -> dict[int, int]:
        """The cluster barrier waits that may not order what a thread did at *site*, each with the arrival to blame.

        The arrival is ``.relaxed``, which orders no memory, and a path from *site* to it passes none of *fences*.
        """
        model, cluster = self.model, self._barriers[Scope.CTAS]
        arrivals = model.sites("barrier-arrive", "cluster")
        found: dict[int, int] = {}
        for arrival in arrivals:
            match = model.instruction(arrival).match
            if match is None or ".relaxed" not in match.modifiers:
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

    def _observed_after(self, sources: frozenset[int], waits: frozenset[int]) -> frozenset[int]:
        """*waits*, and the waits that signals reach from *sources*, through any number of threads."""
        if (sources, waits) not in self._observed:
            self._observed[sources, waits] = self._observed_from(sources, waits)
        return self._observed[sources, waits]

    def _observed_from(self, sources: frozenset[int], waits: frozenset[int]) -> frozenset[int]:
        """:meth:`_observed_after`, not cached. A thread that passes an instruction in ``work`` knows of the event."""
        cfg = self.model.cfg
        found, work = set(waits), list(sources)
        visited = 0  # the blocks all of whose signals have been taken
        visited_from: dict[int, int] = {}  # other blocks, and the instruction from which on they have been
        channels: set[Hashable] = set()
        while work:
            site = work.pop()
            block = cfg.block_of[site]
            reachable = cfg.reachable_from[block] & self._signalling_blocks & ~visited
            visited |= reachable
            targets = []
            if not visited >> block & 1 and site < (end := visited_from.get(block, _END)):
                targets = [self._targets(i) for i in self._signals_in.get(block, ()) if site <= i < end]
                visited_from[block] = site
            while reachable:
                targets.append(self._targets_in((reachable & -reachable).bit_length() - 1))
                reachable &= reachable - 1
            completed = set[int]()
            for single, whole in targets:
                completed |= single
                for channel in whole - channels:
                    completed.update(self._waits_on.get(channel, ()))
                channels |= whole
            work += completed - found
            found |= completed
        return frozenset(found)

    @cached_property
    def _signals_in(self) -> dict[int, list[int]]:
        """Block -> its signals and the collectives of its lanes."""
        found: dict[int, list[int]] = {}
        for site in sorted({*self._signals, *self.collectives}):
            found.setdefault(self.model.cfg.block_of[site], []).append(site)
        return found

    @cached_property
    def _signalling_blocks(self) -> int:
        """The blocks with such an instruction, one bit each."""
        return sum(1 << block for block in self._signals_in)

    @cached_property
    def _waits_on(self) -> dict[Hashable, list[int]]:
        """Channel -> its waits."""
        found: dict[Hashable, list[int]] = {}
        for wait, channels in self._waits.items():
            for channel in channels:
                found.setdefault(channel, []).append(wait)
        return found

    def _targets(self, signal: int) -> _Targets:
        """The waits and channels that a signal may complete; a collective, itself for the other lanes."""
        if signal not in self._targets_of:
            waits, channels, own = {signal}, set[Hashable](), frozenset[Hashable]()
            if signal not in self.collectives:
                # A wait on an unresolved channel may be completed by any signal.
                waits, own = {*self._waits_on.get(_ANY, ())}, self._signals[signal]
            for channel in own:
                if isinstance(channel, _CtaBarrier) or channel == "cluster":
                    waits |= self._paired_waits(self.model.cfg.block_of[signal], channel)
                    waits |= {signal} if signal in self._waits else self._next_waits(signal, channel)
                elif channel != _ANY:
                    channels.add(channel)
                elif not self._writes(signal):
                    waits.update(self._waits)
            self._targets_of[signal] = frozenset(waits), frozenset(channels)
        return self._targets_of[signal]

    def _writes(self, signal: int) -> bool:
        """Whether *signal* is a strong write: polling loads can observe it, barrier and mbarrier waits cannot."""
        match = self.model.instruction(signal).match
        return (
            match is not None
            and match.form.event in ("", "issue")
            and not match.form.flow
            and "mbarrier" not in match.form.roles
        )

    def _targets_in(self, block: int) -> _Targets:
        """The union of the targets of all signals in a block."""
        if block not in self._targets_of_block:
            targets = [self._targets(i) for i in self._signals_in[block]]
            self._targets_of_block[block] = (
                frozenset[int]().union(*(waits for waits, _ in targets)),
                frozenset[Hashable]().union(*(channels for _, channels in targets)),
            )
        return self._targets_of_block[block]

    def _next_waits(self, arrival: int, channel: Hashable) -> set[int]:
        """Where a thread that arrives at a barrier may wait for it next; by then, other threads have arrived too."""
        waits = {*self._waits_on.get(channel, ())}
        return {w for w in waits if self.model.reaches(arrival, w, waits - {w})}

    def _paired_waits(self, block: int, channel: Hashable) -> frozenset[int]:
        """The waits in other blocks at which threads may be while a thread in *block* waits at the barrier *channel*.

        All threads of a barrier pass it equally often. So if a path connects two of its waits, a thread at one of them
        has passed the other or will pass it, and the threads at the second one meet there. Only waits that no path
        connects can pair. Roles that a dispatcher selects reach each other through it, and none of them is certain to
        run; there, only a wait that dominates the other counts as connected.
        """
        key = block, channel
        if key not in self._paired:
            cfg = self.model.cfg
            dispatched = self.model.reachability.dispatchers

            def precedes(a: int, b: int) -> bool:
                return cfg.dominates(a, b) if dispatched else bool(cfg.reachable_from[a] >> b & 1)

            self._paired[key] = frozenset(
                wait
                for wait in self._waits_on.get(channel, ())
                if (b := cfg.block_of[wait]) != block and not precedes(block, b) and not precedes(b, block)
            )
        return self._paired[key]

    def synchronised_pairs(
        self, arrivals: Iterable[int], waits: AbstractSet[int]
    ) -> Iterator[SynchronisedPair]:
        """The pairs of *arrivals* and *waits* that are certain to match: on one ring of mbarriers, or at one barrier.

        Where the threads of one side reach a CTA barrier at several sites, which of these match which sites of the
        other side is unknown. At the cluster barrier, all threads must arrive at one site, and wait after it.
        """
        by_channel: dict[Hashable, list[int]] = {}
        for wait in sorted(waits):
            for channel in self._waits.get(wait, ()):
                by_channel.setdefault(channel, []).append(wait)
        for arrival in arrivals:
            if self.model.instruction(arrival).group == "cp.async":
                continue  # it signals copies, not its thread
            for channel in self._signals.get(arrival, frozenset()) - {_ANY}:
                for wait in by_channel.get(channel, ()):
                    if self._matches(arrival, wait, channel):
                        yield SynchronisedPair(arrival, wait)

    def _matches(self, a: int, b: int, channel: Hashable) -> bool:
        """Whether the wait *b* is certain to be for the arrival *a*."""
        if channel == "cluster":
            every = self.model.views.context_of(a).threads == T.full(self.model.values.threads)
            return every and b in self._next_waits(a, channel)
        return a == b or not isinstance(channel, _CtaBarrier) or self._only_sites(a, b, channel)

    def _only_sites(self, a: int, b: int, barrier: Hashable) -> bool:
        """Whether the threads of *a* and those of *b* synchronise at one CTA barrier, and reach it at no other site."""
        model = self.model
        exclusive, count = model.views.mutually_exclusive, model.constant_of(a, "count")
        if count is None or count != model.constant_of(b, "count") or not exclusive(a, b):
            return False
        if any(model.views.context_of(site).threads.bit_count() >= count for site in (a, b)):
            return False
        sites = {i for i, channels in (*self._signals.items(), *self._waits.items()) if barrier in channels}
        return all(site in (a, b) or (exclusive(a, site) and exclusive(b, site)) for site in sites)

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
    ) -> Path | None:
        """A path to *use*, from *start* or the entry, that passes none of *stops*; None: none was found.

        *stops* are the waits at which some event may be observed, so a thread on the path is not ordered after that
        event. The facts *given* hold on the whole path.
        """
        key = use, frozenset(stops), start, tuple(given.items())
        if key not in self._unsynchronised:
            self._unsynchronised[key] = self._path_avoiding(use, key[1] - {use}, start, given)
        return self._unsynchronised[key]

    def verdict(
        self,
        use: int,
        observers: Collection[int],
        start: int = -1,
        given: Mapping[int, bool] = MappingProxyType({}),
        scope: Scope = Scope.WARPS,
    ) -> Ordering:
        """Whether a thread that reaches *use* has, on every path, passed one of *observers* of an event.

        Other arguments are those of :meth:`unsynchronised_path`. The event is that of a thread at the distance *scope*.
        """
        path = self.unsynchronised_path(use, observers, start, given)
        if path is not None:
            return Ordering(path, (), True)
        resolved = frozenset(i for i in observers if _ANY not in self._waits.get(i, ()))
        all_resolved = (
            len(resolved) == len(observers) or self.unsynchronised_path(use, resolved, start, given) is None
        )
        # A collective is an observer for what another lane has observed before it, and is not where that happened.
        nearest = self._nearest(
            use, self.acquire_points(scope).intersection(resolved if all_resolved else observers)
        )
        views = self.model.views
        at = tuple(
            sorted({i for i in nearest if views.context_of(i).threads & views.context_of(use).threads})
        )
        return Ordering(None, at, all_resolved)

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

    def _path_avoiding(
        self, use: int, stops: frozenset[int], start: int, given: Mapping[int, bool]
    ) -> Path | None:
        model = self.model
        here = model.views.context_in_iteration(start)
        context = ThreadContext(here.threads, PathCondition({**here.facts, **given})) if given else here
        unguarded = {i for i in stops if model.instruction(i).guard < 0}
        if not context.threads or start in unguarded or not model.reaches(start, use, unguarded):
            return None
        return follow(model, start, context, (use,), stops, likely=True).witness
