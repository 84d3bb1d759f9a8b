"""CTA barriers in which only some of the warps take part, and what they leave unordered (PTX ISA 9.7.13.1).

A CTA barrier orders the threads that wait at it after those that arrive at it, and no others. If no thread of a warp
reaches a barrier with a given number, the barrier does not order what that warp has done; only a chain of signals
through third threads may. The result under-approximates: with any barrier whose number is unknown, no barrier is
partial.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property

from tclint.analyses.happens_before.points import ANY, CtaBarrier, SynchronisationPoints
from tclint.values import thread_masks as T

__all__ = ["PartialBarriers", "Unsynchronised"]

Unsynchronised = tuple[tuple[int, int], ...]
"""Pairs of thread sets: no thread of the first is ordered after what the threads of the second have done."""


class PartialBarriers:
    """The barriers of a function that some warps of the CTA do not reach."""

    def __init__(self, points: SynchronisationPoints) -> None:
        self.points = points
        self.model = points.model
        self._every = T.full(self.model.values.threads)
        self._may_know: dict[tuple[int, int], dict[int, int]] = {}

    @cached_property
    def full(self) -> frozenset[int]:
        """The barriers that all threads of the CTA pass together, whatever their guards."""
        views, instruction = self.model.views, self.model.instruction
        return frozenset(
            site
            for site in self.points.waits
            if self.points.releases_together(site)
            and instruction(site).guard < 0
            and views.context_of(site).threads == self._every
            and len(self._threads_by_number.get(site, {0: 0})) == 1
        )

    @cached_property
    def _threads_by_number(self) -> dict[int, dict[int, T.Threads]]:
        """CTA barrier or arrival at one -> its numbers, each with the threads that use it; empty: unknown."""
        sites = {*self.points.signals, *self.points.waits}
        return {
            site: {n: T.whole(threads, 32) for n, threads in self.points.barrier_numbers(site).items()}
            for site in sorted(sites)
            if self.model.instruction(site).role("id") is not None
        }

    @cached_property
    def sites(self) -> dict[int, Unsynchronised]:
        """Partial barrier -> which waiting threads it does not order after which others."""
        participants = dict[int, int]()
        for numbers in self._threads_by_number.values():
            if not numbers:
                return {}
            for number, threads in numbers.items():
                participants[number] = participants.get(number, 0) | threads
        found = {
            site: tuple(
                (threads, rest)
                for number, threads in numbers.items()
                if (rest := self._every & ~participants[number])
            )
            for site, numbers in self._threads_by_number.items()
            if site in self.points.waits
        }
        return {site: pairs for site, pairs in found.items() if pairs}

    def after(self, barrier: int, first: int, before: Unsynchronised) -> Unsynchronised:
        """The pairs of *before* that remain for what threads have done at *first* where others have passed *barrier*."""
        left = [
            (waiting & threads, done & others)
            for waiting, done in before
            for threads, others in self.sites.get(barrier, ())
            if waiting & threads and done & others
        ]
        return tuple(
            (waiting, done)
            for waiting, done in left
            if not self._known(first, done).get(barrier, 0) & waiting
        )

    def _known(self, first: int, threads: T.Threads) -> dict[int, T.Threads]:
        """The waits after which a thread may know that *threads* have executed *first*, each with those that may.

        No thread passes one of the :attr:`full` barriers in between, since all threads would have.
        """
        if (first, threads) not in self._may_know:
            found, work = dict[int, int](), [(first, threads)]
            while work:
                site, known = work.pop()
                for wait, informed in self._signalled(site, known):
                    if new := informed & ~found.get(wait, 0):
                        found[wait] = found.get(wait, 0) | new
                        work.append((wait, new))
            self._may_know[first, threads] = found
        return self._may_know[first, threads]

    def _signalled(self, site: int, threads: T.Threads) -> Iterator[tuple[int, T.Threads]]:
        """The waits that *threads* may complete after *site*, each with the threads that wait."""
        signals = self.points.signals.keys() - self.full
        reached = self.model.reached_from((site,), signals, self.full) | signals.intersection((site,))
        for signal in reached:
            for channel, signalling in self._channels(signal, self.points.signals[signal]):
                if signalling & threads:
                    yield from self._waiting.get(channel, ())
                    if channel == ANY:
                        yield from (each for waiting in self._waiting.values() for each in waiting)
                    else:
                        yield from self._waiting.get(ANY, ())

    def _channels(self, site: int, channels: frozenset[Hashable]) -> Iterator[tuple[Hashable, T.Threads]]:
        """The channels of a signal or wait, each with the threads that use it."""
        numbers = self._threads_by_number.get(site)
        if numbers:
            yield from ((CtaBarrier(n), threads) for n, threads in numbers.items())
        else:
            threads = T.whole(self.model.views.context_of(site).threads, 32)
            yield from ((channel, threads) for channel in channels)

    @cached_property
    def _waiting(self) -> dict[Hashable, list[tuple[int, T.Threads]]]:
        """Channel -> its waits, each with the threads that wait."""
        found: dict[Hashable, list[tuple[int, int]]] = {}
        for wait in sorted(self.points.waits.keys() - self.full):
            for channel, threads in self._channels(wait, self.points.waits[wait]):
                found.setdefault(channel, []).append((wait, threads))
        return found
