"""Accesses to shared and tensor memory that a replay did not order, of which one writes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from tclint.replay.machine import Access, Touch
from tclint.replay.program import Program
from tclint.replay.vector_clocks import Actor, Clock, heard_of
from tclint.replay.warp_overlaps import Touching

__all__ = ["Race", "races"]

Behind = Callable[[Clock, Actor, int], bool]
"""Whether who has heard of so much comes later than an event of an actor."""
_LEAST = 16
"""Bytes that a copy brings at least."""


class Race(NamedTuple):
    """Two accesses of which nothing says that the first is over when the second is made."""

    first: Access
    second: Access

    @property
    def early(self) -> bool:
        """Whether the second overwrites what the first reads, or has written."""
        return self.second.writes

    @property
    def key(self) -> tuple[int, int]:
        """The instructions of both."""
        return self.first.site, self.second.site

    @property
    def together(self) -> bool:
        """Whether it is one of several warps that go the same way together."""
        return not _apart(*self)


@dataclass(slots=True)
class _Place:
    """Where copies go: the last one, and who has read it since."""

    end: int
    copy: Access | None = None
    reads: dict[object, Access] = field(default_factory=dict)


_NOWHERE: tuple[list[int], list[_Place]] = [], []

_Found = tuple[Race, Access, Clock, Sequence[Actor]]
"""A race, the access of it that comes later in the replay, what that has heard of, and of whom it has not."""


def races(accesses: list[Access], behind: Behind, program: Program) -> Iterator[Race]:
    """The first race of each two instructions: of asynchronous writes with reads, then of plain stores with all else.

    Where what races with a store is not steady, since launch or memory has a part in where it begins or ends, it proves
    nothing.
    """
    yield from _once(_copied(accesses), behind)
    for race in _once(chain(_stored(accesses), _together(accesses, program)), behind):
        if program.steady(race.first.site) and program.steady(race.second.site):
            yield race


def _once(found: Iterable[_Found], behind: Behind) -> Iterator[Race]:
    """The first race of each two instructions of which the access that comes later in the replay need not always do so."""
    told = set()
    for race, later, heard, unheard in found:
        before = race.first if race.second is later else race.second
        if race.key not in told and not all(behind(heard, a, before.number) for a in unheard):
            told.add(race.key)
            yield race


def _copied(accesses: list[Access]) -> Iterator[_Found]:
    """The races of asynchronous writes with reads, each with the access that comes later."""
    sizes = _sizes(accesses)
    accesses = [a for a in accesses if not a.stores]
    regions: dict[tuple[int, int], dict[int, int]] = {}
    for access in accesses:
        if access.writes:
            own = regions.setdefault(access.memory, {})
            own[access.offset] = max(sizes[access.site], own.get(access.offset, 0))
    places = {
        memory: (sorted(own), [_Place(start + own[start]) for start in sorted(own)])
        for memory, own in regions.items()
    }
    for access in accesses:
        starts, there = places.get(access.memory, _NOWHERE)
        at = bisect_right(starts, access.offset) - 1
        if at >= 0 and access.offset < there[at].end:
            for race, unheard in _unordered(access, there[at], sizes):
                yield race, access, access.clock, unheard


@dataclass(slots=True)
class _Spot:
    """A place that threads store to: who has done so, who has read it since, and what was copied there last."""

    stores: dict[object, Access] = field(default_factory=dict)
    reads: dict[object, Access] = field(default_factory=dict)
    copy: Access | None = None


def _stored(accesses: list[Access]) -> Iterator[_Found]:
    """The races of plain stores with reads and copies, each with the access that comes later."""
    by_memory: dict[tuple[int, int], set[int]] = {}
    for access in accesses:
        if access.stores:
            by_memory.setdefault(access.memory, set()).add(access.offset)
    if not by_memory:
        return
    starts = {memory: sorted(own) for memory, own in by_memory.items()}
    spots = {(memory, start): _Spot() for memory, own in starts.items() for start in own}
    for access in accesses:
        own = starts.get(access.memory, ())
        # Where a copy of unknown size ends is a guess, good enough where nothing but copies is.
        size = 1 if access.plain else access.size or _LEAST
        for at in range(bisect_left(own, access.offset), bisect_left(own, access.offset + size)):
            for race, unheard in _crossing(access, spots[access.memory, own[at]]):
                yield race, access, access.clock, unheard


def _crossing(access: Access, spot: _Spot) -> Iterator[tuple[Race, Sequence[Actor]]]:
    """The races of an access with plain stores before it, or of a store with what is before it; *spot* takes it in."""
    before = [
        (s, unheard) for s in spot.stores.values() if (unheard := _unheard(s, access)) and _apart(s, access)
    ]
    if access.stores:
        for read in spot.reads.values():
            if (unheard := _unheard(read, access)) and _apart(read, access):
                # What nobody wrote before is read too early.
                yield Race(read, access) if spot.stores or spot.copy else Race(access, read), unheard
        copy = spot.copy
        if copy is not None and (unheard := _unheard(copy, access)) and _apart(copy, access):
            yield Race(copy, access), unheard
        spot.reads, spot.copy = {}, None
        spot.stores = {**{s.actor: s for s, _ in before}, access.actor: access}
    elif access.writes:
        for store, unheard in before:
            yield Race(store, access), unheard
        spot.stores, spot.reads, spot.copy = {}, {}, access
    else:
        for store, unheard in before:
            yield Race(store, access), unheard
        spot.reads[access.actor] = access


def _together(accesses: list[Access], program: Program) -> Iterator[_Found]:
    """The races of loads with stores of threads that go the same way together, in different warps."""
    if not any(access.stores for access in accesses):
        return
    touching = program.model.made(Touching)
    last: dict[int, Access] = {}
    touch: Touch | None = None
    for access in accesses:
        if access.touch is None or access.touch is touch or not program.steady(access.site):
            continue
        touch = access.touch
        number = touching.number(access.site, touch)
        if number < 0:
            continue
        for other, warps in touching.meeting[number].items():
            before = last.get(other)
            if before is not None and not _apart(before, access):
                unheard = [
                    p
                    for p in before.actor.each
                    if p.threads[0] >> 5 in warps and not heard_of(touch.heard, p, before.number)
                ]
                if unheard:
                    yield Race(before, access), access, touch.heard, unheard
        last[number] = access


def _apart(a: Access, b: Access) -> bool:
    """Whether two accesses of threads are in different warps: how lanes of one order what they do is not followed."""
    return not (a.own and b.own) or set(a.group.warps).isdisjoint(b.group.warps)


def _unordered(
    access: Access, place: _Place, sizes: Mapping[int, int]
) -> Iterator[tuple[Race, Sequence[Actor]]]:
    """The races of an access with those before it; *place* takes it in."""
    if not access.writes:
        copy = place.copy
        if (
            copy is not None
            and access.offset < copy.offset + sizes[copy.site]
            and (unheard := _unheard(copy, access))
            and _apart(copy, access)
        ):
            yield Race(copy, access), unheard
        place.reads[access.actor] = access
        return
    for read in place.reads.values():
        end = access.offset + sizes[access.site]
        if read.offset < end and (unheard := _unheard(read, access, end)) and _apart(read, access):
            # What nothing was copied to before is read too early, and not filled again.
            yield Race(read, access) if place.copy is not None else Race(access, read), unheard
    place.copy, place.reads = access, {}


def _unheard(before: Access, access: Access, high: int = 0) -> Sequence[Actor]:
    """Of whose part of what was done *before* who does something has not heard: where it begins, or up to *high*."""
    if before.actor is access.actor:
        return ()
    return before.unheard(
        access.clock, *((access.offset, high) if high else (before.offset, before.offset + 1))
    )


def _sizes(accesses: Iterable[Access]) -> dict[int, int]:
    """How many bytes each copy fills: as it says, or up to where the next one begins, or what threads store."""
    copies = [a for a in accesses if a.writes]
    by_memory: dict[tuple[int, int], list[int]] = {}
    for copy in copies:
        by_memory.setdefault(copy.memory, []).append(copy.offset)
    starts = {memory: sorted(set(offsets)) for memory, offsets in by_memory.items()}
    found: dict[object, int] = {}
    for copy in copies:
        size = copy.size
        if size is None:
            own = starts[copy.memory]
            at = bisect_right(own, copy.offset)
            size = own[at] - copy.offset if at < len(own) else None
            if size is not None and copy.mbarrier is not None:
                expected = copy.mbarrier.expected
                size = min(size, expected[copy.phase] or max(expected) or size)
        if size is not None:
            found[copy.box] = min(size, found.get(copy.box, size))
    return {copy.site: found.get(copy.box, _LEAST) for copy in copies}
