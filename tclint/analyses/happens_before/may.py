"""The may-order: which acquire points may observe an event (PTX ISA 8.9).

An event reaches every release point that may follow it in program order, and through the channel of that release point
every acquire point on the channel. From there it continues in the thread that waited, and so on through any number of
threads. The acquire points that it reaches are its *observers*.

Releases and acquires are matched by channel, not by iteration or phase, so the observers are over-approximated. Two
restrictions keep them few: a load counts as an acquire point only if it polls in a loop, and threads are assumed to
pass a barrier equally often (``_paired_waits``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from functools import cached_property

from tclint.analyses.happens_before.answers import OrderScope
from tclint.analyses.happens_before.points import ANY, CLUSTER, CtaBarrier, SynchronisationPoints
from tclint.values import thread_masks as T

__all__ = ["MayOrder"]

_NONE: frozenset[int] = frozenset()
_END = 1 << 62
"""Greater than the number of any instruction."""
_Targets = tuple[frozenset[int], frozenset[Hashable]]
"""Waits that signals may complete, and channels of which they may complete every wait."""


class MayOrder:
    """The observers of events. Answers are cached and do not depend on the order of the questions."""

    def __init__(self, points: SynchronisationPoints) -> None:
        self.points = points
        self.model = points.model
        self._observed: dict[tuple[frozenset[int], frozenset[int]], frozenset[int]] = {}
        self._targets_of: dict[int, _Targets] = {}
        self._targets_of_block: dict[int, _Targets] = {}
        self._paired: dict[tuple[int, Hashable], frozenset[int]] = {}
        self._others: dict[tuple[int, int], int] = {}
        """The contexts of two instructions (:meth:`Views.kind`) -> see :meth:`threads_elsewhere`."""
        self._of_others: dict[tuple[int, int], tuple[frozenset[int], ...]] = {}
        """Threads, and the number of their context where it matters -> the waits and the signals of other threads."""
        self._elsewhere: dict[tuple[frozenset[int], tuple[int, int], bool], frozenset[int]] = {}
        self._completed: dict[Hashable, frozenset[int]] = {}
        """Answers of :meth:`_completed_by`: signals with the same targets and the same address have the same."""
        self._distinct: dict[frozenset[int], frozenset[int]] = {}
        """Each answer by itself: those of hundreds of signals are equal."""

    def observed_after(self, sources: frozenset[int], waits: frozenset[int]) -> frozenset[int]:
        """*waits*, and the waits that signals reach from *sources*, through any number of threads."""
        key = frozenset(map(self._next_in_block, sources)), waits
        if key not in self._observed:
            found = self._observed_from(*key)
            self._observed[key] = self._distinct.setdefault(found, found)
        return self._observed[key]

    def _next_in_block(self, site: int) -> int:
        """The first of :attr:`_signals_in` its block that follows *site* or is it, else the end of the block.

        No signal is between the two, so the same waits observe an event of either.
        """
        cfg = self.model.cfg
        block = cfg.block_of[site]
        signals = self._signals_in.get(block, ())
        at = bisect_left(signals, site)
        return signals[at] if at < len(signals) else cfg.blocks[block].end - 1

    def _observed_from(self, sources: frozenset[int], waits: frozenset[int]) -> frozenset[int]:
        """:meth:`observed_after`, not cached. A thread that passes an instruction in ``work`` knows of the event."""
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
        for site in sorted({*self.points.signals, *self.points.collectives}):
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
        for wait, channels in self.points.waits.items():
            for channel in channels:
                found.setdefault(channel, []).append(wait)
        return found

    def _targets(self, signal: int) -> _Targets:
        """The waits and channels that a signal may complete; a collective, itself for the other lanes."""
        if signal not in self._targets_of:
            waits, channels, own = {signal}, set[Hashable](), frozenset[Hashable]()
            if signal not in self.points.collectives:
                # A wait on an unresolved channel may be completed by any signal.
                waits, own = {*self._waits_on.get(ANY, ())}, self.points.signals[signal]
            for channel in own:
                if isinstance(channel, CtaBarrier) or channel == CLUSTER:
                    waits |= self._paired_waits(self.model.cfg.block_of[signal], channel)
                    waits |= {signal} if signal in self.points.waits else self.next_waits(signal, channel)
                elif channel != ANY:
                    channels.add(channel)
                elif self.model.instruction(signal).effects.at_barrier:
                    waits |= self.points.barrier_sites(OrderScope.WARPS)  # its number is unknown
                elif not self._writes(signal):
                    waits.update(self.points.waits)
            # Most signals complete no wait by itself, and have one set of channels, which is shared.
            shared = own if channels == own else frozenset(channels)
            self._targets_of[signal] = frozenset(waits) or _NONE, shared
        return self._targets_of[signal]

    def _writes(self, signal: int) -> bool:
        """Whether *signal* is a strong write: polling loads can observe it, barrier and mbarrier waits cannot."""
        match = self.model.instruction(signal).match
        return (
            match is not None
            and match.form.effects.only_accesses
            and not match.form.flow
            and not match.form.mbarrier
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

    def next_waits(self, arrival: int, channel: Hashable) -> set[int]:
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

    def threads_elsewhere(self, site: int, own: int) -> T.Threads:
        """The threads that execute *site* and belong to no warp that executes *own*; 0 if there are none.

        If the thread index does not distinguish the roles, the threads of *site* count if none of them executes *own*.
        """
        views = self.model.views
        kinds = views.kind(site), views.kind(own)
        if kinds not in self._others:
            here, there = (views.context_of(i).threads for i in (own, site))
            if T.full(self.model.values.threads) & ~here:
                self._others[kinds] = there & ~T.whole(here, 32)
            else:
                self._others[kinds] = there if views.mutually_exclusive(own, site) else 0
        return self._others[kinds]

    @cached_property
    def _signals_of_kind(self) -> list[list[int]]:
        """The signals, those with equal contexts together."""
        return self._by_kind(self.points.signals)

    @cached_property
    def _waits_of_kind(self) -> list[list[int]]:
        """The waits, those with equal contexts together."""
        return self._by_kind(self.points.waits)

    def _by_kind(self, sites: Iterable[int]) -> list[list[int]]:
        """*sites*, those with equal contexts (:meth:`Views.kind`) together."""
        found: dict[int, list[int]] = {}
        for site in sites:
            found.setdefault(self.model.views.kind(site), []).append(site)
        return list(found.values())

    def _completed_by(self, signal: int) -> frozenset[int]:
        """The waits that *signal* itself may complete, without those for other mbarriers of its ring."""
        waits, channels = self._targets(signal)
        addresses = self.points.mbarriers.addresses
        named = (addresses.locations(signal), self.model.mbarrier(signal)) if channels else None
        key = waits, channels, named
        if key not in self._completed:
            alike = {wait for channel in channels for wait in self._waits_on.get(channel, ())} - waits
            self._completed[key] = waits.union(
                wait for wait in alike if addresses.same(signal, wait) is not False
            )
        return self._completed[key]

    def signalled_elsewhere(self, signals: AbstractSet[int], own: int, *, through: bool) -> frozenset[int]:
        """The waits of threads other than those of *own* that one of *signals* itself may complete.

        Signals that follow in the thread of *own* do not count. With *through*, waits are included that may be ordered
        after those, through any number of such other threads.
        """
        views = self.model.views
        threads = views.context_of(own).threads
        distinct = T.full(self.model.values.threads) & ~threads
        role = threads, -1 if distinct else views.kind(own)
        key = frozenset(signals), role, through
        if key not in self._elsewhere:
            if role not in self._of_others:
                self._of_others[role] = tuple(
                    frozenset(i for alike in kinds if self.threads_elsewhere(alike[0], own) for i in alike)
                    for kinds in (self._waits_of_kind, self._signals_of_kind)
                )
            self._elsewhere[key] = self._signalled_elsewhere(signals, own, through, *self._of_others[role])
        return self._elsewhere[key]

    def _signalled_elsewhere(
        self,
        signals: AbstractSet[int],
        own: int,
        through: bool,
        waits: frozenset[int],
        others: frozenset[int],
    ) -> frozenset[int]:
        """:meth:`signalled_elsewhere`, not cached; *waits* and *others* are those of other threads than *own*."""
        cfg, found, work = self.model.cfg, set[int](), list[int]()
        left: dict[int, dict[int, list[int]]] = {}
        """Threads of signals of others -> block -> the signals that have not been taken."""
        for i in sorted(others) if through else ():
            by_block = left.setdefault(self.threads_elsewhere(i, own), {})
            by_block.setdefault(cfg.block_of[i], []).append(i)

        def complete(signal: int) -> None:
            fresh = (self._completed_by(signal) & waits) - found
            found.update(fresh)
            work.extend(fresh)

        for signal in signals:
            complete(signal)
        while work and left:
            wait = work.pop()
            threads, block = self.threads_elsewhere(wait, own), cfg.block_of[wait]
            reachable = cfg.reachable_from[block]
            for theirs, by_block in left.items():
                if not threads & theirs:
                    continue
                for there in [b for b in by_block if reachable >> b & 1 or b == block]:
                    signals_there = by_block.pop(there)
                    if not reachable >> there & 1:  # only those that follow in the block itself
                        at = bisect_left(signals_there, wait)
                        if at:
                            by_block[there] = signals_there[:at]
                        signals_there = signals_there[at:]
                    for signal in signals_there:
                        complete(signal)
        return frozenset(found)
