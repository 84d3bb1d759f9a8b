"""Vector clocks: what somebody has heard of, in one number with a field for each actor (PTX ISA 8.9).

A clock has to be joined with another one at each wait, and a kernel may have hundreds of actors. Numbers are compared and
joined field by field in a few operations on whole integers, which no dict can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

__all__ = ["NOTHING", "Actor", "Clock", "event", "joined", "known_by", "last", "news", "of"]

_WIDTH = 32
"""Bits of a field. The highest is never set, so that fields can be subtracted from each other all at once."""
_FIELD = (1 << _WIDTH - 1) - 1
_SOME = 16
"""Fields for which the same constants serve, so that few of these are made and kept."""

Clock = int
"""How many events of each actor somebody has heard of, those that came before them included."""
NOTHING: Clock = 0


class Actor:
    """Who does things one after the other; there is one of each in a replay, as clocks ask for them all the time.

    *kind* is empty for *threads* themselves, and else the engine that works for them, or ``copy`` for the copies
    that report to one mbarrier: who hears of one of them has heard of those before it. *index* tells the actors of a replay apart, and counts from 0.
    """

    __slots__ = ("cta", "index", "kind", "threads")

    def __init__(self, index: int, kind: str, cta: int, threads: tuple[int, ...] = ()) -> None:
        self.index = index
        self.kind = kind
        self.cta = cta
        self.threads = threads


def event(actor: Actor, number: int) -> Clock:
    """What says that event *number* of an *actor*, counted from 0, is over."""
    return number + 1 << actor.index * _WIDTH


def last(clock: Clock, actor: Actor) -> int:
    """The number of the last event of *actor* that was heard of; -1: none was."""
    return (clock >> actor.index * _WIDTH & _FIELD) - 1


def joined(a: Clock, b: Clock) -> Clock:
    """What both have heard of together."""
    if a == b or not b:
        return a
    if not a:
        return b
    more = _at_least(a, b)
    # All bits of the fields in which *a* is no less than *b*.
    kept = more - (more >> _WIDTH - 1)
    return b ^ ((a ^ b) & kept)


def known_by(a: Clock, b: Clock) -> bool:
    """Whether *b* has heard of all that *a* has."""
    return a == b or _at_least(b, a) == _guards(max(a, b))


def news(known: Clock, told: Clock) -> Iterator[tuple[int, int]]:
    """The indices of the actors of whom *told* says more than is *known*, each with the number of its last event."""
    index = 0
    while told:
        if (count := told & _FIELD) > known & _FIELD:
            yield index, count - 1
        known, told, index = known >> _WIDTH, told >> _WIDTH, index + 1


def of(actors: Iterable[Actor], clock: Clock) -> Clock:
    """What *clock* says of some *actors*."""
    return clock & sum(_FIELD << actor.index * _WIDTH for actor in actors)


def _at_least(a: Clock, b: Clock) -> int:
    """The highest bits of the fields in which *a* is no less than *b*."""
    guards = _guards(max(a, b))
    return (a | guards) - b & guards


def _guards(clock: Clock) -> int:
    """The highest bits of as many fields as a *clock* has, or some more."""
    return _guards_of(clock.bit_length() // (_SOME * _WIDTH) + 1)


@cache
def _guards_of(some: int) -> int:
    return ((1 << some * _SOME * _WIDTH) - 1) // ((1 << _WIDTH) - 1) << _WIDTH - 1
