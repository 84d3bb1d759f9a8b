"""What threads meet at in a replay, and what they learn there: mbarriers and barriers (PTX ISA 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tclint.replay.vector_clocks import BOTTOM, Agent, Clock, happens_before, join, leq

__all__ = ["Arrival", "Barrier", "Mbarrier", "ReleasedWaiter", "Transfer"]


@dataclass(slots=True)
class Transfer:
    """What is under way to an mbarrier: the bytes of a copy, or the arrivals of a commit."""

    clock: Clock
    """What is complete when it is there."""
    bytes: int | None = 0
    """None: the box of a tensor map says it, which is not seen."""
    arrivals: int = 0
    site: int = -1
    threads: tuple[int, ...] = ()
    """Who sent it."""


class ReleasedWaiter(NamedTuple):
    """A wait for a phase that is complete."""

    site: int
    agent: Agent
    threads: tuple[int, ...]
    number: int
    """The event by which others first hear from these threads that they have passed it."""
    phase: int
    """The phase that the mbarrier was in."""

    def may_be_late(self, ordered: Callable[[Agent, int], bool]) -> bool:
        """Whether none of the warps was *heard* of. Where one was, others that go the same way are not taken to be far behind it."""
        return not any(ordered(part, self.number) for part in self.agent.components)


@dataclass(slots=True)
class Mbarrier:
    """An mbarrier object (9.7.13.15.2): what its current phase waits for, and what the phases before it tell."""

    site: int
    """Where it was initialised."""
    address: int
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0
    """Expected in this phase, and not yet brought."""
    expected: list[int] = field(default_factory=lambda: [0])
    """All bytes that each phase so far has expected."""
    expects_unknown: bool = False
    """The launch says how many it expects: as many as come."""
    received_unknown: bool = False
    """Copies of unknown size have reported: they brought what was expected by then."""
    tx_guessed: bool = False
    """They did in this phase, or the launch says how many bytes it expects: who knows how many are left."""
    transfers: list[Transfer] = field(default_factory=list)
    pending_clock: Clock = BOTTOM
    release_clocks: list[Clock] = field(default_factory=lambda: [BOTTOM])
    """What those hear who know that so many phases are complete."""
    released_waiters: dict[Agent, ReleasedWaiter] = field(default_factory=dict)
    """Who was let go in this phase, because the one before is complete."""
    overtaken: list[tuple[ReleasedWaiter, Clock]] = field(default_factory=list)
    """Of these, whom the next phase has not heard of when it completes; and what it has heard."""

    @property
    def untouched(self) -> bool:
        """Whether nothing has come yet in the present phase."""
        return (
            self.pending == self.count and not self.bytes and not self.received_unknown and not self.transfers
        )

    def expect(self, bytes_: int | None) -> None:
        """Expects so many bytes more in this phase; None: some."""
        self.bytes += 1 if bytes_ is None else bytes_
        self.expected[-1] += bytes_ or 0
        self.expects_unknown |= bytes_ is None
        self.tx_guessed |= self.expects_unknown
        self.received_unknown &= bytes_ == 0  # another thread may have a copy to come

    def arrive(self, times: int, clock: Clock) -> None:
        self.pending -= times
        self.pending_clock = join(self.pending_clock, clock)
        self.advance_phase()

    def complete_transfers(self, commits: bool = True) -> Iterator[Transfer]:
        """What is in flight comes, one after the other; commits only if that is said."""
        if not self.transfers and self.pending:
            return
        transfers = [f for f in self.transfers if commits or not f.arrivals]
        self.transfers = [f for f in self.transfers if f.arrivals and not commits]
        for transfer in transfers:
            self.bytes -= transfer.bytes or 0
            self.received_unknown |= transfer.bytes is None or self.expects_unknown
            self.pending -= transfer.arrivals
            self.pending_clock = join(self.pending_clock, transfer.clock)
            if transfer.arrivals:
                self.advance_phase()
            yield transfer
        self.advance_phase()

    def advance_phase(self) -> None:
        """Begins the next phase when nothing is left to wait for."""
        self.tx_guessed |= self.received_unknown
        if (
            self.pending == 0
            and (self.bytes == 0 or self.received_unknown)
            and not (self.bytes and self.transfers)
        ):
            self.phase += 1
            self.expected.append(0)
            self.pending, self.bytes = self.count, 0
            self.received_unknown = self.tx_guessed = self.expects_unknown = False
            clock = self.pending_clock
            self.overtaken += [
                (p, clock)
                for p in self.released_waiters.values()
                if p.may_be_late(partial(happens_before, clock))
            ]
            self.release_clocks.append(join(self.release_clocks[-1], clock))
            self.pending_clock, self.released_waiters = BOTTOM, {}

    def acquired_clock(self, parity: int, known: Clock) -> Clock:
        """What a wait tells a thread that it may be sure of: it may have asked as early as it could, knowing what it did."""
        phase = self.phase
        while phase and not leq(self.release_clocks[phase], known):
            phase -= 1
        return self.release_clocks[phase if (phase ^ parity) & 1 else phase + 1]

    def complete(self, parity: int) -> bool:
        """Whether the phase of *parity* is complete: the present one is of the other (9.7.13.15.16)."""
        return (self.phase ^ parity) & 1 == 1


@dataclass(slots=True)
class Arrival:
    """Warps that come to a barrier, each as soon as all of its lanes that have not ended are there (9.7.13.1)."""

    lanes: set[int] = field(default_factory=set)
    """The threads that are there."""
    clock: Clock = BOTTOM
    generation: int = -1
    """That of the barrier when they arrived; -1: some lanes are still to come."""
    _seen: tuple[int, int] = (0, 0)

    def add(self, threads: Iterable[int], clock: Clock) -> None:
        self.lanes.update(threads)
        self.clock = join(self.clock, clock)

    def changed(self, alive: int) -> bool:
        """Whether lanes have come since this was last asked, or ended, with so many threads *alive*."""
        before, self._seen = self._seen, (len(self.lanes), alive)
        return self._seen != before

    def arrive_at(self, barrier: Barrier, warps: bool) -> None:
        """They arrive; where *warps* are counted, lanes that have ended are counted as well."""
        barrier.add_threads(32 * len({t >> 5 for t in self.lanes}) if warps else len(self.lanes), self.clock)
        self.generation = barrier.generation


@dataclass(slots=True)
class Barrier:
    """A barrier of a CTA or a cluster: who has come, and what they tell each other."""

    number: int = -1
    """Which one of the CTA it is; -1: that of the cluster, or none at all."""
    arrived: int = 0
    wanted: int = 0
    """So many threads open it, as far as one that came has asked."""
    generation: int = 0
    pending_clock: Clock = BOTTOM
    release_clock: Clock = BOTTOM
    lanes: dict[int, Arrival] = field(default_factory=dict)
    """Of each warp that is not here as a whole, those lanes that are."""

    @property
    def missing(self) -> int:
        """How many threads are still to come."""
        return self.wanted - self.arrived

    def add_threads(self, threads: int, clock: Clock) -> None:
        self.arrived += threads
        self.pending_clock = join(self.pending_clock, clock)

    def open_if_complete(self, wanted: int) -> bool:
        """Opens when *wanted* threads have come; whether it did."""
        self.wanted = wanted
        if self.arrived < wanted:
            return False
        self.arrived, self.generation = self.arrived - wanted, self.generation + 1
        self.release_clock, self.pending_clock = join(self.release_clock, self.pending_clock), BOTTOM
        return True
