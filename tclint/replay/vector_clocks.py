"""Vector clocks: what somebody has heard of, in one number with a field for each actor (PTX ISA 8.9).

A clock has to be joined with another one at each wait, and a kernel may have hundreds of actors. Numbers are compared and
joined field by field in a few operations on whole integers, which no dict can do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, reduce
from itertools import repeat

__all__ = [
    "BOTTOM",
    "Agent",
    "Clock",
    "WarpClocks",
    "difference",
    "event",
    "field_mask",
    "happens_before",
    "join",
    "join_all",
    "join_warps",
    "last_event",
    "leq",
    "map_warps",
    "mask_warps",
    "project",
    "reconverge_clocks",
    "select_warps",
]

_FIELD_BITS = 32
"""Bits of a field. The highest is never set, so that fields can be subtracted from each other all at once."""
_FIELD_MAX = (1 << _FIELD_BITS - 1) - 1
_FIELDS_PER_CONSTANT = 16
"""Fields for which the same constants serve, so that few of these are made and kept."""

Clock = int
"""How many events of each actor somebody has heard of, those that came before them included."""
BOTTOM: Clock = 0
WarpClocks = Clock | tuple[Clock, ...]
"""What the warps of a group have heard of: all the same, or each something of its own."""


class Agent:
    """Who does things one after the other; there is one of each in a replay, as clocks ask for them all the time.

    *kind* is empty for *threads* themselves, and else the engine that works for them, or ``copy`` for the copies
    that report to one mbarrier: who hears of one of them has heard of those before it. *index* tells the actors of a replay apart, and counts from 0.
    Threads of several warps are as many actors, their *parts*: each warp does for itself what all of them do.
    """

    __slots__ = ("cta", "fields", "index", "kind", "threads", "warps")

    def __init__(
        self, index: int, kind: str, cta: int, threads: tuple[int, ...] = (), parts: Sequence[Agent] = ()
    ) -> None:
        self.index = index
        self.kind = kind
        self.cta = cta
        self.threads = threads
        self.warps = parts
        self.fields: Clock = sum(part.fields for part in parts) or 1 << index * _FIELD_BITS

    @property
    def components(self) -> Sequence[Agent]:
        """The actors that it is: its parts, or itself alone."""
        return self.warps or (self,)


def event(agent: Agent, number: int) -> Clock:
    """What says that event *number* of an *actor*, counted from 0, is over."""
    return (number + 1) * agent.fields


def last_event(clock: Clock, agent: Agent) -> int:
    """The number of the last event of *actor*, which has no parts, that was heard of; -1: none was."""
    return (clock >> agent.index * _FIELD_BITS & _FIELD_MAX) - 1


def happens_before(clock: Clock, agent: Agent, number: int) -> bool:
    """Whether event *number* of an *actor* was heard of, of all of its parts."""
    return leq(event(agent, number), clock) if agent.warps else last_event(clock, agent) >= number


def join(a: Clock, b: Clock) -> Clock:
    """What both have heard of together."""
    if a == b or not b:
        return a
    if not a:
        return b
    guards = _guards(max(b, a))
    more = (a | guards) - b & guards
    # All bits of the fields in which *a* is no less than *b*.
    kept = more - (more >> _FIELD_BITS - 1)
    return b ^ ((a ^ b) & kept)


def leq(a: Clock, b: Clock) -> bool:
    """Whether *b* has heard of all that *a* has."""
    guards = _guards(max(b, a))
    return a == b or (b | guards) - a & guards == guards


def difference(clock_before: Clock, clock_after: Clock) -> Iterator[tuple[int, int]]:
    """The indices of the actors of whom *told* says more than is *known*, each with the number of its last event."""
    index = 0
    while clock_after:
        if (count := clock_after & _FIELD_MAX) > clock_before & _FIELD_MAX:
            yield index, count - 1
        clock_before, clock_after, index = clock_before >> _FIELD_BITS, clock_after >> _FIELD_BITS, index + 1


def field_mask(first: Clock) -> Clock:
    """All that there is to hear of some actors, of each of whom the *first* event is given."""
    return _FIELD_MAX * first


def project(agents: Iterable[Agent], clock: Clock) -> Clock:
    """What *clock* says of some *actors*."""
    return clock & field_mask(sum([agent.fields for agent in agents]))


def join_warps(a: WarpClocks, b: WarpClocks) -> WarpClocks:
    """What each warp has heard of that has heard of *a* and of *b*."""
    if isinstance(a, int) and isinstance(b, int):
        return join(a, b)
    if isinstance(a, int):
        a, b = b, a
    assert not isinstance(a, int)
    return _collapse([*map(join, a, repeat(b) if isinstance(b, int) else b)])


def map_warps(function: Callable[[Clock], Clock], observed: WarpClocks) -> WarpClocks:
    """*function* of what each warp has heard of."""
    return function(observed) if isinstance(observed, int) else _collapse([*map(function, observed)])


def mask_warps(observed: WarpClocks, warps: Sequence[int], subset: Collection[int]) -> WarpClocks:
    """What is *heard* if none but *some* of the *warps* do."""
    if all(map(subset.__contains__, warps)):
        return observed
    clock_after = repeat(observed) if isinstance(observed, int) else observed
    return _collapse([h if w in subset else BOTTOM for w, h in zip(warps, clock_after, strict=False)])


def select_warps(observed: WarpClocks, warps: Sequence[int], subset: Collection[int]) -> WarpClocks:
    """What *some* of the *warps* have heard of."""
    return (
        observed
        if isinstance(observed, int)
        else _collapse([h for w, h in zip(warps, observed, strict=True) if w in subset])
    )


def join_all(observed: WarpClocks) -> Clock:
    """What all warps have heard of together."""
    return observed if isinstance(observed, int) else reduce(join, observed)


def reconverge_clocks(parts: Sequence[tuple[Sequence[int], WarpClocks]], warps: Sequence[int]) -> WarpClocks:
    """What *warps* have heard of whose *parts* meet: that tells nobody anything, but lanes of one warp what others of it have heard."""
    first = parts[0][1]
    if isinstance(first, int) and all(observed == first for _, observed in parts):
        return first
    found = dict.fromkeys(warps, BOTTOM)
    for own, observed in parts:
        for warp, h in zip(own, repeat(observed) if isinstance(observed, int) else observed, strict=False):
            found[warp] = join(found[warp], h)
    return _collapse([*found.values()])


def _collapse(clocks: list[Clock]) -> WarpClocks:
    """One clock where all are the same."""
    return clocks[0] if clocks.count(clocks[0]) == len(clocks) else tuple(clocks)


def _guards(clock: Clock) -> int:
    """The highest bits of as many fields as a *clock* has, or some more."""
    return _guards_of(clock.bit_length() // (_FIELDS_PER_CONSTANT * _FIELD_BITS) + 1)


@cache
def _guards_of(subset: int) -> int:
    return ((1 << subset * _FIELDS_PER_CONSTANT * _FIELD_BITS) - 1) // (
        (1 << _FIELD_BITS) - 1
    ) << _FIELD_BITS - 1
