"""Vector clocks: what somebody has heard of, in one number with a field for each actor (PTX ISA 8.9).

A clock has to be joined with another one at each wait, and a kernel may have hundreds of actors. Numbers are compared and
joined field by field in a few operations on whole integers, which no dict can do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, reduce
from itertools import repeat

__all__ = [
    "NOTHING",
    "Actor",
    "Clock",
    "Heard",
    "among",
    "both",
    "each",
    "event",
    "every",
    "heard_of",
    "joined",
    "known_by",
    "last",
    "met",
    "news",
    "of",
    "only",
    "together",
]

_WIDTH = 32
"""Bits of a field. The highest is never set, so that fields can be subtracted from each other all at once."""
_FIELD = (1 << _WIDTH - 1) - 1
_SOME = 16
"""Fields for which the same constants serve, so that few of these are made and kept."""

Clock = int
"""How many events of each actor somebody has heard of, those that came before them included."""
NOTHING: Clock = 0
Heard = Clock | tuple[Clock, ...]
"""What the warps of a group have heard of: all the same, or each something of its own."""


class Actor:
    """Who does things one after the other; there is one of each in a replay, as clocks ask for them all the time.

    *kind* is empty for *threads* themselves, and else the engine that works for them, or ``copy`` for the copies
    that report to one mbarrier: who hears of one of them has heard of those before it. *index* tells the actors of a replay apart, and counts from 0.
    Threads of several warps are as many actors, their *parts*: each warp does for itself what all of them do.
    """

    __slots__ = ("cta", "fields", "index", "kind", "parts", "threads")

    def __init__(
        self, index: int, kind: str, cta: int, threads: tuple[int, ...] = (), parts: Sequence[Actor] = ()
    ) -> None:
        self.index = index
        self.kind = kind
        self.cta = cta
        self.threads = threads
        self.parts = parts
        self.fields: Clock = sum(part.fields for part in parts) or 1 << index * _WIDTH

    @property
    def each(self) -> Sequence[Actor]:
        """The actors that it is: its parts, or itself alone."""
        return self.parts or (self,)


def event(actor: Actor, number: int) -> Clock:
    """What says that event *number* of an *actor*, counted from 0, is over."""
    return (number + 1) * actor.fields


def last(clock: Clock, actor: Actor) -> int:
    """The number of the last event of *actor*, which has no parts, that was heard of; -1: none was."""
    return (clock >> actor.index * _WIDTH & _FIELD) - 1


def heard_of(clock: Clock, actor: Actor, number: int) -> bool:
    """Whether event *number* of an *actor* was heard of, of all of its parts."""
    return known_by(event(actor, number), clock) if actor.parts else last(clock, actor) >= number


def joined(a: Clock, b: Clock) -> Clock:
    """What both have heard of together."""
    if a == b or not b:
        return a
    if not a:
        return b
    guards = _guards(max(b, a))
    more = (a | guards) - b & guards
    # All bits of the fields in which *a* is no less than *b*.
    kept = more - (more >> _WIDTH - 1)
    return b ^ ((a ^ b) & kept)


def known_by(a: Clock, b: Clock) -> bool:
    """Whether *b* has heard of all that *a* has."""
    guards = _guards(max(b, a))
    return a == b or (b | guards) - a & guards == guards


def news(known: Clock, told: Clock) -> Iterator[tuple[int, int]]:
    """The indices of the actors of whom *told* says more than is *known*, each with the number of its last event."""
    index = 0
    while told:
        if (count := told & _FIELD) > known & _FIELD:
            yield index, count - 1
        known, told, index = known >> _WIDTH, told >> _WIDTH, index + 1


def every(first: Clock) -> Clock:
    """All that there is to hear of some actors, of each of whom the *first* event is given."""
    return _FIELD * first


def of(actors: Iterable[Actor], clock: Clock) -> Clock:
    """What *clock* says of some *actors*."""
    return clock & every(sum([actor.fields for actor in actors]))


def both(a: Heard, b: Heard) -> Heard:
    """What each warp has heard of that has heard of *a* and of *b*."""
    if isinstance(a, int) and isinstance(b, int):
        return joined(a, b)
    if isinstance(a, int):
        a, b = b, a
    assert not isinstance(a, int)
    return _shared([*map(joined, a, repeat(b) if isinstance(b, int) else b)])


def each(function: Callable[[Clock], Clock], heard: Heard) -> Heard:
    """*function* of what each warp has heard of."""
    return function(heard) if isinstance(heard, int) else _shared([*map(function, heard)])


def only(heard: Heard, warps: Sequence[int], some: Collection[int]) -> Heard:
    """What is *heard* if none but *some* of the *warps* do."""
    if all(map(some.__contains__, warps)):
        return heard
    told = repeat(heard) if isinstance(heard, int) else heard
    return _shared([h if w in some else NOTHING for w, h in zip(warps, told, strict=False)])


def among(heard: Heard, warps: Sequence[int], some: Collection[int]) -> Heard:
    """What *some* of the *warps* have heard of."""
    return (
        heard
        if isinstance(heard, int)
        else _shared([h for w, h in zip(warps, heard, strict=True) if w in some])
    )


def together(heard: Heard) -> Clock:
    """What all warps have heard of together."""
    return heard if isinstance(heard, int) else reduce(joined, heard)


def met(parts: Sequence[tuple[Sequence[int], Heard]], warps: Sequence[int]) -> Heard:
    """What *warps* have heard of whose *parts* meet: that tells nobody anything, but lanes of one warp what others of it have heard."""
    first = parts[0][1]
    if isinstance(first, int) and all(heard == first for _, heard in parts):
        return first
    found = dict.fromkeys(warps, NOTHING)
    for own, heard in parts:
        for warp, h in zip(own, repeat(heard) if isinstance(heard, int) else heard, strict=False):
            found[warp] = joined(found[warp], h)
    return _shared([*found.values()])


def _shared(clocks: list[Clock]) -> Heard:
    """One clock where all are the same."""
    return clocks[0] if clocks.count(clocks[0]) == len(clocks) else tuple(clocks)


def _guards(clock: Clock) -> int:
    """The highest bits of as many fields as a *clock* has, or some more."""
    return _guards_of(clock.bit_length() // (_SOME * _WIDTH) + 1)


@cache
def _guards_of(some: int) -> int:
    return ((1 << some * _SOME * _WIDTH) - 1) // ((1 << _WIDTH) - 1) << _WIDTH - 1
