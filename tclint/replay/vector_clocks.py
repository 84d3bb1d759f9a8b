"""Vector clocks: which events happen before a point of a replay (PTX ISA 8.9).

Terms. An *agent* performs *events* one after another: a warp, some lanes of one, or an asynchronous engine. Its
events are numbered from 0; an event is an epoch of FastTrack (Flanagan and Freund, 2009), the pair of an agent and a
number. A *clock* maps each agent to the number of its events that happen before a point; it is closed: with an event
it contains all that happen before that event (Fidge 1988, Mattern 1989). Program order is part of that only for what
threads do themselves: the completion of an asynchronous copy releases the copy, not what its thread did before. Clocks are ordered field by field
(:func:`leq`), the least upper bound of two is :func:`join`, and the least clock is :data:`BOTTOM`. An event happens
before a point if the clock of the point contains it (:func:`happens_before`).

Representation. A kernel may have hundreds of agents, and each wait joins clocks. A clock is therefore one integer
with a field of 32 bits for each agent; comparing and joining take a few operations on whole integers.

Precision. The domain is exact for the events that it is given. What is imprecise is decided by its users: which
operations are events and what a wait acquires (``machine``), and that lanes of one warp share a clock where they
reconverge (:func:`reconverge_clocks`), which orders accesses within a warp that the ISA does not order. Races between
lanes of one warp are therefore not found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, reduce
from itertools import repeat
from struct import unpack

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
"""Bits of a field.

The highest is never set, so that all fields can be subtracted at once without a borrow between them.
"""
_FIELD_MAX = (1 << _FIELD_BITS - 1) - 1
_BITS_PER_CONSTANT = 16 * _FIELD_BITS
"""Masks are made for multiples of this many bits, so that few of them are made and kept."""

Clock = int
"""For each agent the number of its events that happen before a point."""
BOTTOM: Clock = 0
WarpClocks = Clock | tuple[Clock, ...]
"""The clocks of the warps of a thread group: one if all are equal, else one for each warp."""


class Agent:
    """A sequential performer of events. Each agent exists once in a replay, as identity decides equality.

    *kind* is empty for *threads* themselves. Otherwise it names the asynchronous engine that works for them, or is
    ``copy`` for all copies that complete on one mbarrier: one that is complete implies that those before it are.
    *index* is the field of the agent in clocks, counted from 0. Threads of several warps are not an agent of their
    own but one for each warp, *warps*: each of them performs the event.
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
        """The agents that have a field: one for each warp, or this agent."""
        return self.warps or (self,)


def event(agent: Agent, number: int) -> Clock:
    """The clock that contains event *number* of *agent*, and of that agent the events before it."""
    return (number + 1) * agent.fields


def last_event(clock: Clock, agent: Agent) -> int:
    """The number of the last event of *agent*, which has a field, in *clock*; -1: none."""
    return (clock >> agent.index * _FIELD_BITS & _FIELD_MAX) - 1


def happens_before(clock: Clock, agent: Agent, number: int) -> bool:
    """Whether event *number* of *agent* is in *clock*; of an agent of several warps, the event of each."""
    return leq(event(agent, number), clock) if agent.warps else last_event(clock, agent) >= number


def join(a: Clock, b: Clock) -> Clock:
    """The least upper bound of two clocks."""
    if a == b or not b:
        return a
    if not a:
        return b
    guards = _guards((a | b).bit_length() // _BITS_PER_CONSTANT)
    more = (a | guards) - b & guards
    # All bits of the fields in which *a* is at least *b*.
    kept = more - (more >> _FIELD_BITS - 1)
    return b ^ ((a ^ b) & kept)


def leq(a: Clock, b: Clock) -> bool:
    """Whether *b* contains all events that *a* contains."""
    guards = _guards((a | b).bit_length() // _BITS_PER_CONSTANT)
    return a == b or (b | guards) - a & guards == guards


def difference(clock_before: Clock, clock_after: Clock) -> Iterator[tuple[int, int]]:
    """The agents of which *clock_after* contains more events than *clock_before*: their indices, and the number of
    the last event.
    """
    fields = -(-clock_after.bit_length() // _FIELD_BITS)
    before = _counts(clock_before & (1 << fields * _FIELD_BITS) - 1, fields)
    for index, (known, count) in enumerate(zip(before, _counts(clock_after, fields), strict=True)):
        if count > known:
            yield index, count - 1


def _counts(clock: Clock, fields: int) -> tuple[int, ...]:
    """How many events of each agent a clock with so many *fields* contains."""
    return unpack(f"<{fields}I", clock.to_bytes(fields * _FIELD_BITS // 8, "little"))


def field_mask(first: Clock) -> Clock:
    """A mask of the fields of some agents, given the sum of their fields."""
    return _FIELD_MAX * first


def project(agents: Iterable[Agent], clock: Clock) -> Clock:
    """*clock* without the events of all but some *agents*."""
    return clock & field_mask(sum([agent.fields for agent in agents]))


def join_warps(a: WarpClocks, b: WarpClocks) -> WarpClocks:
    """The least upper bound of two clocks for each warp."""
    if isinstance(a, int) and isinstance(b, int):
        return join(a, b)
    if isinstance(a, int):
        a, b = b, a
    assert not isinstance(a, int)
    return _collapse([*map(join, a, repeat(b) if isinstance(b, int) else b)])


def map_warps(function: Callable[[Clock], Clock], observed: WarpClocks) -> WarpClocks:
    """The result of *function* for the clock of each warp."""
    return function(observed) if isinstance(observed, int) else _collapse([*map(function, observed)])


def mask_warps(observed: WarpClocks, warps: Sequence[int], subset: Collection[int]) -> WarpClocks:
    """The clocks with :data:`BOTTOM` for all *warps* that are not in *subset*."""
    if all(map(subset.__contains__, warps)):
        return observed
    clock_after = repeat(observed) if isinstance(observed, int) else observed
    return _collapse([h if w in subset else BOTTOM for w, h in zip(warps, clock_after, strict=False)])


def select_warps(observed: WarpClocks, warps: Sequence[int], subset: Collection[int]) -> WarpClocks:
    """The clocks of a *subset* of the *warps*."""
    return (
        observed
        if isinstance(observed, int)
        else _collapse([h for w, h in zip(warps, observed, strict=True) if w in subset])
    )


def join_all(observed: WarpClocks) -> Clock:
    """The least upper bound of the clocks of all warps."""
    return observed if isinstance(observed, int) else reduce(join, observed)


def reconverge_clocks(parts: Sequence[tuple[Sequence[int], WarpClocks]], warps: Sequence[int]) -> WarpClocks:
    """The clocks of *warps* whose *parts* reconverge.

    Reconvergence does not synchronise warps, but lanes of one warp share a clock.
    """
    first = parts[0][1]
    if isinstance(first, int) and all(observed == first for _, observed in parts):
        return first
    found = dict.fromkeys(warps, BOTTOM)
    for own, observed in parts:
        for warp, h in zip(own, repeat(observed) if isinstance(observed, int) else observed, strict=False):
            found[warp] = join(found[warp], h)
    return _collapse([*found.values()])


def _collapse(clocks: list[Clock]) -> WarpClocks:
    """One clock if all are equal."""
    return clocks[0] if clocks.count(clocks[0]) == len(clocks) else tuple(clocks)


@cache
def _guards(constants: int) -> Clock:
    """A mask of the highest bit of each field, for clocks with this many times :data:`_BITS_PER_CONSTANT` bits and
    less than that in addition.
    """
    return ((1 << (constants + 1) * _BITS_PER_CONSTANT) - 1) // ((1 << _FIELD_BITS) - 1) << _FIELD_BITS - 1
