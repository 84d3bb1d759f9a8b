"""What threads meet at in a replay, and what they learn there: mbarriers and barriers (PTX ISA 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tclint.replay.vector_clocks import NOTHING, Actor, Clock, heard_of, joined, known_by

__all__ = ["Arrival", "Barrier", "Flight", "Mbarrier", "Passed"]


@dataclass(slots=True)
class Flight:
    """What is under way to an mbarrier: the bytes of a copy, or the arrivals of a commit."""

    clock: Clock
    """What is complete when it is there."""
    bytes: int | None = 0
    """None: the box of a tensor map says it, which is not seen."""
    arrivals: int = 0
    site: int = -1
    threads: tuple[int, ...] = ()
    """Who sent it."""


class Passed(NamedTuple):
    """A wait for a phase that is complete."""

    site: int
    actor: Actor
    threads: tuple[int, ...]
    number: int
    """The event by which others first hear from these threads that they have passed it."""
    phase: int
    """The phase that the mbarrier was in."""

    def overtaken(self, heard: Callable[[Actor, int], bool]) -> bool:
        """Whether none of the warps was *heard* of. Where one was, others that go the same way are not taken to be far behind it."""
        return not any(heard(part, self.number) for part in self.actor.each)


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
    unsaid: bool = False
    """The launch says how many it expects: as many as come."""
    open: bool = False
    """Copies of unknown size have reported: they brought what was expected by then."""
    guessed: bool = False
    """They did in this phase, or the launch says how many bytes it expects: who knows how many are left."""
    flights: list[Flight] = field(default_factory=list)
    gathering: Clock = NOTHING
    told: list[Clock] = field(default_factory=lambda: [NOTHING])
    """What those hear who know that so many phases are complete."""
    passed: dict[Actor, Passed] = field(default_factory=dict)
    """Who was let go in this phase, because the one before is complete."""
    overtaken: list[tuple[Passed, Clock]] = field(default_factory=list)
    """Of these, whom the next phase has not heard of when it completes; and what it has heard."""

    @property
    def untouched(self) -> bool:
        """Whether nothing has come yet in the present phase."""
        return self.pending == self.count and not self.bytes and not self.open and not self.flights

    def expect(self, bytes_: int | None) -> None:
        """Expects so many bytes more in this phase; None: some."""
        self.bytes += 1 if bytes_ is None else bytes_
        self.expected[-1] += bytes_ or 0
        self.unsaid |= bytes_ is None
        self.guessed |= self.unsaid
        self.open &= bytes_ == 0  # another thread may have a copy to come

    def arrive(self, times: int, clock: Clock) -> None:
        self.pending -= times
        self.gathering = joined(self.gathering, clock)
        self.settle()

    def land(self, commits: bool = True) -> Iterator[Flight]:
        """What is in flight comes, one after the other; commits only if that is said."""
        if not self.flights and self.pending:
            return
        flights = [f for f in self.flights if commits or not f.arrivals]
        self.flights = [f for f in self.flights if f.arrivals and not commits]
        for flight in flights:
            self.bytes -= flight.bytes or 0
            self.open |= flight.bytes is None or self.unsaid
            self.pending -= flight.arrivals
            self.gathering = joined(self.gathering, flight.clock)
            if flight.arrivals:
                self.settle()
            yield flight
        self.settle()

    def settle(self) -> None:
        """Begins the next phase when nothing is left to wait for."""
        self.guessed |= self.open
        if self.pending == 0 and (self.bytes == 0 or self.open) and not (self.bytes and self.flights):
            self.phase += 1
            self.expected.append(0)
            self.pending, self.bytes = self.count, 0
            self.open = self.guessed = self.unsaid = False
            heard = self.gathering
            self.overtaken += [
                (p, heard) for p in self.passed.values() if p.overtaken(partial(heard_of, heard))
            ]
            self.told.append(joined(self.told[-1], heard))
            self.gathering, self.passed = NOTHING, {}

    def hears(self, parity: int, known: Clock) -> Clock:
        """What a wait tells a thread that it may be sure of: it may have asked as early as it could, knowing what it did."""
        phase = self.phase
        while phase and not known_by(self.told[phase], known):
            phase -= 1
        return self.told[phase if (phase ^ parity) & 1 else phase + 1]

    def complete(self, parity: int) -> bool:
        """Whether the phase of *parity* is complete: the present one is of the other (9.7.13.15.16)."""
        return (self.phase ^ parity) & 1 == 1


@dataclass(slots=True)
class Arrival:
    """Warps that come to a barrier, each as soon as all of its lanes that have not ended are there (9.7.13.1)."""

    lanes: set[int] = field(default_factory=set)
    """The threads that are there."""
    clock: Clock = NOTHING
    generation: int = -1
    """That of the barrier when they arrived; -1: some lanes are still to come."""
    _seen: tuple[int, int] = (0, 0)

    def add(self, threads: Iterable[int], clock: Clock) -> None:
        self.lanes.update(threads)
        self.clock = joined(self.clock, clock)

    def changed(self, alive: int) -> bool:
        """Whether lanes have come since this was last asked, or ended, with so many threads *alive*."""
        before, self._seen = self._seen, (len(self.lanes), alive)
        return self._seen != before

    def at(self, barrier: Barrier, warps: bool) -> None:
        """They arrive; where *warps* are counted, lanes that have ended are counted as well."""
        barrier.come(32 * len({t >> 5 for t in self.lanes}) if warps else len(self.lanes), self.clock)
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
    gathering: Clock = NOTHING
    told: Clock = NOTHING
    lanes: dict[int, Arrival] = field(default_factory=dict)
    """Of each warp that is not here as a whole, those lanes that are."""

    @property
    def lacking(self) -> int:
        """How many threads are still to come."""
        return self.wanted - self.arrived

    def come(self, threads: int, clock: Clock) -> None:
        self.arrived += threads
        self.gathering = joined(self.gathering, clock)

    def settle(self, wanted: int) -> bool:
        """Opens when *wanted* threads have come; whether it did."""
        self.wanted = wanted
        if self.arrived < wanted:
            return False
        self.arrived, self.generation = self.arrived - wanted, self.generation + 1
        self.told, self.gathering = joined(self.told, self.gathering), NOTHING
        return True
