"""Which accesses of shared memory meet an operation that a phase of an mbarrier tracks, while it may be underway.

Two threads that have passed the same CTA barrier last may be anywhere before the next one. So an operation meets

- what a thread accesses while the operation is underway for it (:mod:`tclint.verdicts.phases`); or, through the generic proxy,
  while it is stale;
- what a thread accesses before it passes the position of the operation in the same epoch: the issuing thread may be ahead;
- what a thread accesses later, such as by a ``cp.async``, and has not waited for when the epoch begins in which the operation is
  issued;
- what a thread has accessed through the generic proxy in an earlier epoch, with no proxy fence since on some path: by that
  thread, or by the one that issues the operation. When an epoch begins, what is unfenced for one thread is for all.

Two operations that mbarriers track meet at the position of the later one, if the earlier one is underway there: the thread that
issues the later one has itself waited for the earlier one otherwise, or a barrier is between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Protocol

from tclint.verdicts.checker import Graph
from tclint.verdicts.phases import Known, Numbers, Phases, positions

__all__ = ["Meetings"]

Begun = tuple[int, Numbers]
"""An epoch: where it began, and the counters there."""
Met = set[tuple[Numbers, Numbers]]


class Executed(Protocol):
    """An access that no mbarrier tracks."""

    @property
    def site(self) -> int:
        """The instruction."""

    @property
    def fenced(self) -> bool:
        """Whether it is through the async proxy, and needs a proxy fence after what is through the generic one."""

    @property
    def object(self) -> bool:
        """Whether it is an operation on an mbarrier, which needs no proxy fence here."""


class Meetings:
    """The operations of one function that are underway, and what they meet.

    *in_step* says of a block whether all threads execute it together; *ends* of an instruction whether each thread that executes
    it begins an epoch.
    """

    def __init__(
        self,
        graph: Graph,
        phases: Phases,
        in_step: Callable[[int], bool],
        ends: Callable[[int, int], bool],
    ) -> None:
        self.graph, self.phases, self.events, self.ends = graph, phases, phases.ask.events, ends
        self.at, self.last = positions(graph, self.events, in_step)
        """The events that all threads pass at the instruction, and those that they pass at the end of a block."""
        self._met: dict[tuple[int, int], Met] = {}
        self._issued: dict[int, dict[Begun, set[Numbers]]] = {}
        self._executed: dict[int, dict[Begun, set[Numbers]]] = {}
        self._carried: dict[int, dict[Begun, set[Numbers]]] = {}
        self._following: dict[int, frozenset[int]] = {}

    @property
    def passed(self) -> frozenset[int]:
        """The events that all threads pass somewhere."""
        return frozenset((*self.at, *(site for sites in self.last.values() for site in sites)))

    def accessed(self, access: Executed, epoch: Begun, known: Known, now: Numbers) -> Known:
        """Notes an access that no mbarrier tracks, and returns what is known after it."""
        for each in known.underway:
            if not (each.stale and access.fenced):
                self._met.setdefault((each.site, access.site), set()).add((each.at, now))
        self._executed.setdefault(access.site, {}).setdefault(epoch, set()).add(now)
        if access.fenced:
            self._unfenced(access.site, known, now)
        elif not access.object:
            return known._replace(unfenced=known.unfenced | {(access.site, now)})
        return known

    def _unfenced(self, site: int, known: Known, now: Numbers) -> None:
        """Notes what no fence separates from an access through the async proxy."""
        for access, at in known.unfenced:
            self._met.setdefault((access, site), set()).add((at, now))

    def reached(self, site: int, epoch: Begun, now: Numbers) -> None:
        """Notes an instruction of which only the epochs matter."""
        self._executed.setdefault(site, {}).setdefault(epoch, set()).add(now)

    def issued(self, site: int, epoch: Begun, known: Known, now: Numbers) -> Known:
        """Notes that threads pass an event, and returns what is known after it."""
        for each in known.underway:
            if not each.stale:
                self._met.setdefault((each.site, site), set()).add((each.at, now))
        self._unfenced(site, known, now)
        self._issued.setdefault(site, {}).setdefault(epoch, set()).add(now)
        return self.phases.issued(known, site, now)

    def begins(self, epoch: Begun, pending: Iterable[tuple[int, Numbers]]) -> None:
        """Notes what may be pending when an epoch begins, and what threads wait for themselves, each at another time."""
        for site, at in pending:
            self._carried.setdefault(site, {}).setdefault(epoch, set()).add(at)

    def epochs(self, site: int) -> AbstractSet[Begun]:
        """The epochs in which an event is passed, or an access executed."""
        return {*self._issued.get(site, ()), *self._executed.get(site, ())}

    def of(self, first: int, then: int) -> Met:
        """The numbers of the counters at two instructions, at least one of which is tracked, where the two meet."""
        found = set(self._met.get((first, then), ()))
        found |= {(here, there) for there, here in self._met.get((then, first), ())}
        found |= set(self._early(first, then))
        return found | {(here, there) for there, here in self._early(then, first)}

    def _early(self, operation: int, access: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Where an access meets an operation which the thread that accesses has not yet passed in their epoch, or before which
        it may not have waited."""
        issued = self._issued.get(operation, {})
        ahead = issued and access in self._executed and operation in self._ahead(access)
        for found in (self._executed.get(access, {}) if ahead else {}, self._carried.get(access, {})):
            for epoch, numbers in found.items():
                for here in issued.get(epoch, ()):
                    yield from ((here, there) for there in numbers)

    def _ahead(self, site: int) -> frozenset[int]:
        """The events that a thread may pass after an instruction, in the same epoch."""
        if site not in self._following:
            found, seen = set[int](), set[int]()
            work = [(b, site + 1) for b in range(len(self.graph.blocks)) if site in self.graph.blocks[b]]
            while work:
                block, start = work.pop()
                sites = range(start, self.graph.blocks[block].stop)
                stop = next((i for i in sites if self.ends(block, i)), None)
                found.update(i for i in sites if i in self.at and (stop is None or i < stop))
                if stop is None:
                    found.update(self.last.get(block, ()))
                    fresh = {edge.target for edge in self.graph.successors[block]} - seen
                    seen |= fresh
                    work += [(target, self.graph.blocks[target].start) for target in fresh]
            self._following[site] = frozenset(found)
        return self._following[site]
