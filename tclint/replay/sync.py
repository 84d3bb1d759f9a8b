"""The objects that threads synchronise with, and what they release and acquire: mbarriers and barriers (PTX ISA
9.7.13).

A thread that arrives at an object releases its clock to it; the object joins these clocks until its phase is complete.
A thread that waits for the phase acquires the join.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from itertools import chain

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.replay.vector_clocks import BOTTOM, Agent, Clock, happens_before, join, leq
from tclint.sync import barriers, mbarriers

__all__ = [
    "ORDER_OF_ARRIVALS",
    "BarrierArrival",
    "PendingTransfer",
    "PhaseOverlap",
    "ReleasedWaiter",
    "ReplayBarrier",
    "ReplayMbarrier",
    "WarpArrival",
]

ORDER_OF_ARRIVALS = "order of arrivals at a barrier"
"""What the ledger calls the question whether an arrival follows the completion of the phase before."""


@dataclass(slots=True)
class PendingTransfer:
    """A pending operation on an mbarrier: the complete_tx of a copy, or the arrivals of a commit."""

    clock: Clock
    """The events that are complete with it."""
    bytes: int | None = 0
    """In units of the tx-count. None: unknown, as the box of a tensor map decides it."""
    arrivals: int = 0
    site: int = -1
    threads: tuple[int, ...] = ()
    """The threads that issued it."""


class ReleasedWaiter(NamedTuple):
    """A thread that a wait by parity has let continue, since the phase before the current one is complete."""

    site: int
    agent: Agent
    threads: tuple[int, ...]
    number: int
    """The first event of the agent after the wait: only agents that are ordered after it know that the wait is over."""
    phase: int
    """The phase that was current when it waited."""

    def may_be_late(self, ordered: Callable[[Agent, int], bool]) -> bool:
        """Whether the phase may complete before the wait: no warp is *ordered* before its completion.

        If one warp is, others of its thread group are not taken to be a whole phase late.
        """
        return not any(ordered(part, self.number) for part in self.agent.components)


@dataclass(slots=True)
class ReplayMbarrier(mbarriers.Mbarrier):
    """An mbarrier object (9.7.13.15.2), what is pending on it, and the clocks that completed phases release.

    A copy of unknown size is assumed to complete all bytes that were expected.
    """

    site: int
    """The ``mbarrier.init``."""
    address: int
    expected: list[int] = field(default_factory=lambda: [0])
    """The sum of the bytes that each phase so far has expected."""
    expects_unknown: bool = False
    """The launch decides how many bytes the phase expects: any number completes it."""
    tx_guessed: bool = False
    """The tx-count of this phase is a guess, since the size of a copy or the expected bytes are unknown."""
    transfers: list[PendingTransfer] = field(default_factory=list)
    pending_clock: Clock = BOTTOM
    release_clocks: list[Clock] = field(default_factory=lambda: [BOTTOM])
    """What a wait acquires that observes the completion of so many phases."""
    released_waiters: dict[Agent, ReleasedWaiter] = field(default_factory=dict)
    """The threads that waited in this phase for the phase before it."""
    signalled: int = 0
    """The phases that must complete before no asynchronous operation signals it any more."""
    observed: int = 0
    """The phases that a thread is certain to have waited for."""
    overtaken: list[tuple[ReleasedWaiter, Clock]] = field(default_factory=list)
    """Waits whose phase completed without their being ordered before its completion, each with the clock of the
    completion.
    """

    @property
    def untouched(self) -> bool:
        """Whether nothing has arrived in the current phase."""
        return (
            self.pending == self.count and not self.bytes and not self.received_unknown and not self.transfers
        )

    @property
    def settled(self) -> bool:
        """Whether a thread knows that each asynchronous operation has signalled it."""
        return not self.transfers and not self.bytes and self.observed >= self.signalled

    def expect(self, bytes_: int | None) -> None:
        """Performs expect_tx of so many bytes; None: an unknown number."""
        self.expect_tx(1 if bytes_ is None else bytes_)
        self.expected[-1] += bytes_ or 0
        self.expects_unknown |= bytes_ is None
        self.tx_guessed |= self.expects_unknown
        self.received_unknown &= bytes_ == 0  # another thread may issue a copy later

    def release(self, clock: Clock) -> None:
        """Releases *clock* with an arrival or a complete_tx, which may complete the phase."""
        self.pending_clock = join(self.pending_clock, clock)
        self.advance_phase()

    def complete_transfers(self, commits: bool = True) -> Iterator[PendingTransfer]:
        """Completes what is pending, one operation after the other: copies, and with *commits* the arrivals of
        commits too.
        """
        if not self.transfers and self.pending:
            return
        transfers = [f for f in self.transfers if commits or not f.arrivals]
        self.transfers = [f for f in self.transfers if f.arrivals and not commits]
        for transfer in transfers:
            self.signalled = self.phase + 1
            self.complete_tx(transfer.bytes)
            self.received_unknown |= self.expects_unknown
            self.arrive(transfer.arrivals)
            self.pending_clock = join(self.pending_clock, transfer.clock)
            if transfer.arrivals:
                self.advance_phase()
            yield transfer
        self.advance_phase()

    def advance_phase(self) -> None:
        """Completes the current phase if it lacks nothing; one of unknown size only after the copies that are pending."""
        self.tx_guessed |= self.received_unknown
        if self.complete_phase(suffices=not (self.bytes and self.transfers)):
            self.expected.append(0)
            self.tx_guessed = self.expects_unknown = False
            clock = self.pending_clock
            self.overtaken += [
                (p, clock)
                for p in self.released_waiters.values()
                if p.may_be_late(partial(happens_before, clock))
            ]
            self.release_clocks.append(join(self.release_clocks[-1], clock))
            self.pending_clock, self.released_waiters = BOTTOM, {}

    def acquired_clock(self, parity: int, known: Clock) -> Clock:
        """What a wait for the phase of *parity* guarantees to a thread with the clock *known*.

        The thread may have waited at the earliest point that its clock permits, so it observes the first phase of
        that parity whose completion it does not know of.
        """
        phase = self.phase
        if not leq(self.release_clocks[phase], known):  # each has what the one before it has
            phase = (
                bisect_left(self.release_clocks, True, hi=phase, key=lambda clock: not leq(clock, known)) - 1
            )
        phase += not (phase ^ parity) & 1
        self.observed = max(self.observed, phase)
        return self.release_clocks[phase]


@dataclass(slots=True)
class WarpArrival:
    """The arrival of warps at a barrier.

    A warp arrives when all of its lanes that have not exited are there (9.7.13.1).
    """

    lanes: set[int] = field(default_factory=set)
    """The threads that have arrived."""
    clock: Clock = BOTTOM
    votes: list[int | None] = field(default_factory=list)
    """Their predicates, if the barrier reduces them; None: unknown."""
    phase: int = -1
    """The phase of the barrier that they arrived for; -1: some lanes are missing."""
    _seen: tuple[int, int] = (0, 0)

    def add(self, threads: Iterable[int], clock: Clock, votes: Iterable[int | None] = ()) -> None:
        self.lanes.update(threads)
        self.votes += votes
        self.clock = join(self.clock, clock)

    def changed(self, alive: int) -> bool:
        """Whether lanes have arrived or exited since the last call, given the number of threads *alive*."""
        before, self._seen = self._seen, (len(self.lanes), alive)
        return self._seen != before

    def arrive_at(self, barrier: ReplayBarrier, warps: bool) -> None:
        """Arrives at the barrier. If *warps* are counted, exited lanes count too."""
        barrier.arrive(32 * len({t >> 5 for t in self.lanes}) if warps else len(self.lanes))
        barrier.release(self.clock)
        self.phase = barrier.phase
        if self.votes:
            barrier.votes.setdefault(self.phase, []).extend(self.votes)


class BarrierArrival(NamedTuple):
    """The arrival of whole warps at a CTA barrier with a thread count, as an event of these warps."""

    site: int
    agent: Agent
    number: int
    """The number of the event among those of the agent."""
    threads: tuple[int, ...]
    expected: int
    """The thread count that it names."""

    def known_to(self, clocks: Iterable[Clock], ordered: Callable[[Clock, Agent, int], bool]) -> bool:
        """Whether the warps with these *clocks* are all *ordered* after the arrival."""
        return all(
            happens_before(clock, self.agent, self.number)  # all warps at once
            or all(ordered(clock, part, self.number) for part in self.agent.components)
            for clock in clocks
        )


class PhaseOverlap(NamedTuple):
    """Two arrivals at a CTA barrier of which the *second* may count for the phase that the *first* belongs to.

    That phase then has more arrivals than its thread count, or completes without a warp that it was meant for, or has
    arrivals with two thread counts.
    """

    barrier: int
    first: BarrierArrival
    second: BarrierArrival

    @property
    def counts_differ(self) -> bool:
        """Whether the two name different thread counts."""
        return self.first.expected != self.second.expected


@dataclass(slots=True)
class ReplayBarrier(barriers.BarrierArrivals):
    """A CTA barrier or the cluster barrier: how many threads have arrived, and the clocks that they release."""

    number: int = -1
    """The number of a CTA barrier; -1: the cluster barrier, or an ``elect.sync`` that waits for lanes."""
    expected: int = 0
    """The threads that open it, as the last arrival computed them."""
    pending_clock: Clock = BOTTOM
    release_clock: Clock = BOTTOM
    lanes: dict[int, WarpArrival] = field(default_factory=dict)
    """The lanes that have arrived of each warp that has not arrived as a whole."""
    votes: dict[int, list[int | None]] = field(default_factory=dict)
    """The predicates that it reduces, by the phase for which their threads have arrived."""
    arrivals: list[BarrierArrival] = field(default_factory=list)
    """The arrivals of whole warps in the current phase, if it has a thread count."""
    previous: list[BarrierArrival] = field(default_factory=list)
    """Those of the phase before it."""
    oldest: dict[tuple[int, Agent], BarrierArrival] = field(default_factory=dict)
    """The first arrival in a completed phase of each agent at each instruction."""
    latest: dict[Agent, BarrierArrival] = field(default_factory=dict)
    """Of each agent, the last of these: what is ordered after it is ordered after the others of the agent."""
    doubled: bool = False
    """Some phase had two arrivals of one warp."""

    @property
    def missing(self) -> int:
        """How many threads have not arrived."""
        return self.expected - self.arrived

    def release(self, clock: Clock) -> None:
        """Releases *clock* with an arrival."""
        self.pending_clock = join(self.pending_clock, clock)

    def overlapping(
        self,
        arrival: BarrierArrival,
        clocks: Iterable[Clock],
        ordered: Callable[[Clock, Agent, int], bool],
    ) -> PhaseOverlap | None:
        """Notes an arrival in the current phase, after it was counted, by warps with these *clocks*.

        Returns the arrival that it may share a phase with although it should not: one of an earlier phase that it is not
        *ordered* after, one with another thread count, or one that leaves no room for it; None if there is none. A warp
        may arrive several times in a phase that counts each of its arrivals.
        """
        clocks = list(clocks)
        oldest = (
            () if all(a.known_to(clocks, ordered) for a in self.latest.values()) else self.oldest.values()
        )
        early = [a for a in chain(oldest, self.previous) if not a.known_to(clocks, ordered)]
        mixed = (a for a in chain(self.arrivals, early) if a.expected != arrival.expected)
        excess = self.arrivals[-1:] or [arrival] if self.arrived > arrival.expected else []
        first = next(chain(mixed, early, excess), None)
        self.doubled |= not set(arrival.threads).isdisjoint(
            chain.from_iterable(a.threads for a in self.arrivals)
        )
        self.arrivals.append(arrival)
        return None if first is None else PhaseOverlap(self.number, first, arrival)

    def open_if_complete(self, expected: int) -> bool:
        """Opens the barrier if *expected* threads have arrived. Returns whether it opened."""
        self.expected = expected
        if not self.complete_phase(expected):
            return False
        for arrival in self.previous:
            if self.oldest.setdefault((arrival.site, arrival.agent), arrival) is arrival:
                self.latest[arrival.agent] = arrival
        self.previous, self.arrivals = self.arrivals, []
        self.release_clock, self.pending_clock = join(self.release_clock, self.pending_clock), BOTTOM
        return True
