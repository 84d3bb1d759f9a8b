"""The cycle of waits in a hang, or the chain of waits that ends where nothing more can come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from functools import reduce
from operator import or_

from tclint._dataclass import dataclass
from tclint.hang.stops import Stop
from tclint.hang.waits import CompletionStatus, Share, Waiter

__all__ = ["Chain", "End", "chain", "gone"]


_PAST = (CompletionStatus.PASSED, CompletionStatus.ABSENT)


class End(Enum):
    """Why a chain of waits is never resolved, or why that is unknown."""

    CYCLE = "cycle"
    """The last waiter waits for the first one."""
    SHORT = "short"
    """The last wait is for a CTA barrier that counts more threads than use it."""
    NOTHING = "no operation"
    """No instruction would complete the last wait."""
    GONE = "gone"
    """All threads that would complete the last wait have executed that operation, have passed it, or have exited."""
    UNDECIDED = "undecided"
    """An operation may still complete the last wait."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Waiters of which each waits for an operation that follows the wait of the next one."""

    waiters: tuple[int, ...]
    end: End


def chain(waiters: Sequence[Waiter], stops: Sequence[Stop]) -> Chain | None:
    """What the hang comes down to; None if no thread waits.

    A chain that ends is preferred to a cycle: without its end, the other waits would complete. Of several, one that ends
    at a barrier that never completes, wherever the threads are, then the one with the most waits that depend on it.
    """
    if not waiters:
        return None
    ends = [
        n
        for n, waiter in enumerate(waiters)
        if waiter.short or not waiter.next or (waiter.next == (n,) and gone(waiter, stops))
    ]
    decided = [n for n in ends if waiters[n].short and waiters[n].placed] or [
        n for n in ends if not waiters[n].open
    ]
    if decided:
        best: list[int] = max((_longest(waiters, end) for end in decided), key=len)
        last = waiters[best[-1]]
        return Chain(tuple(best), End.SHORT if last.short else End.GONE if any(last.shares) else End.NOTHING)
    cycles = [found for n in range(len(waiters)) if (found := _cycle(waiters, n))]
    closed = [found for found in cycles if not any(waiters[n].open for n in found)]
    if closed:
        several = [found for found in closed if len(found) > 1] or closed
        cycle: list[int] = min(several, key=len)
        return Chain(tuple(cycle), End.CYCLE)
    shortest = min(cycles or [_longest(waiters, ends[0])], key=len)
    return Chain(tuple(shortest), End.UNDECIDED)


def gone(waiter: Waiter, stops: Sequence[Stop]) -> int:
    """The threads that execute no more operation that would complete the wait, and have not arrived."""
    found = 0
    for share in waiter.shares:
        if share.status in _PAST:
            others = (s for s in waiter.shares if s.status not in _PAST and _together(share, s, stops))
            found |= share.threads & ~reduce(or_, (s.threads for s in others), 0)
    return found


def _together(a: Share, b: Share, stops: Sequence[Stop]) -> bool:
    """Whether two shares may be about the same CTA: threads of different CTAs have the same numbers."""
    one, other = (stops[s.at].ctas if s.at >= 0 else frozenset[int]() for s in (a, b))
    return not one or not other or not one.isdisjoint(other)


def _longest(waiters: Sequence[Waiter], end: int) -> list[int]:
    """The path that leads to *end*, from the waiter that is farthest from it, of those whose wait is known."""
    before: dict[int, list[int]] = {}
    for n, waiter in enumerate(waiters):
        for after in waiter.next if waiter.placed else ():
            before.setdefault(after, []).append(n)
    found, work = {end: [end]}, deque([end])
    while work:
        here = work.popleft()
        for n in before.get(here, ()):
            if n not in found:
                found[n] = [n, *found[here]]
                work.append(n)
    return max(found.values(), key=len)


def _cycle(waiters: Sequence[Waiter], start: int) -> list[int]:
    """A shortest cycle through *start*; empty if there is none."""
    work, found = deque([start]), {start: [start]}
    while work:
        here = work.popleft()
        for after in waiters[here].next:
            if after == start:
                return found[here]
            if after not in found:
                found[after] = [*found[here], after]
                work.append(after)
    return []
