"""Reads of shared and tensor memory that a replay did not order with the operations that fill it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tclint.replay.machine import Access
from tclint.replay.sync import Actor, Clock, Worker

__all__ = ["Race", "races"]

Behind = Callable[[Clock, Actor, int], bool]
"""Whether who has heard of so much comes later than an event of an actor."""
_LEAST = 16
"""Bytes that a copy brings at least."""


class Race(NamedTuple):
    """A copy, or a multiplication, and a read that are not ordered.

    *early*: the read comes first, and what it reads is overwritten.
    """

    copy: Access
    read: Access
    early: bool


@dataclass(slots=True)
class _Place:
    """Where copies go: the last one, and who has read it since."""

    copy: Access | None = None
    reads: dict[object, Access] = field(default_factory=dict)


def races(accesses: list[Access], behind: Behind) -> Iterator[Race]:
    """The first race of each copy with each read, by their instructions."""
    sizes = _sizes(accesses)
    regions: dict[tuple[int, int], dict[int, int]] = {}
    for access in accesses:
        if access.writes:
            own = regions.setdefault(access.memory, {})
            own[access.offset] = max(sizes[access.site], own.get(access.offset, 0))
    starts = {memory: sorted(own) for memory, own in regions.items()}
    places = {(memory, start): _Place() for memory, own in regions.items() for start in own}
    told = set()
    for access in accesses:
        own = regions.get(access.memory, {})
        at = bisect_right(starts.get(access.memory, ()), access.offset) - 1
        start = starts[access.memory][at] if at >= 0 else 0
        if at < 0 or access.offset >= start + own[start]:
            continue
        for race in _unordered(access, places[access.memory, start], sizes):
            key = race.copy.site, race.read.site, race.early
            first = race.read if race.copy is access else race.copy
            if key not in told and not behind(access.clock, first.actor, first.number):
                told.add(key)
                yield race


def _unordered(access: Access, place: _Place, sizes: Mapping[int, int]) -> Iterator[Race]:
    """The races of an access with those before it; *place* takes it in."""
    if not access.writes:
        copy = place.copy
        if copy is not None and _unheard(copy, access) and access.offset < copy.offset + sizes[copy.site]:
            yield Race(copy, access, False)
        place.reads[access.actor] = access
        return
    for read in place.reads.values():
        if _unheard(read, access) and read.offset < access.offset + sizes[access.site]:
            # What nothing was copied to before is read too early, and not filled again.
            yield Race(access, read, place.copy is not None)
    place.copy, place.reads = access, {}


def _unheard(before: Access, access: Access) -> bool:
    """Whether who does something has not heard of what was done *before*, and has not done that itself."""
    actor = before.actor
    if actor is access.actor or access.clock.get(actor, -1) >= before.number:
        return False
    # What a group does itself it does in order: others hear of it, not the group.
    return not (
        isinstance(actor, Worker)
        and not actor.kind
        and (actor.cta, actor.threads) == (access.group.cta, access.group.threads)
    )


def _sizes(accesses: Iterable[Access]) -> dict[int, int]:
    """How many bytes each copy fills: as it says, or up to where the next one begins."""
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
                size = min(size, copy.mbarrier.most)
        if size is not None:
            found[copy.box] = min(size, found.get(copy.box, size))
    return {copy.site: found.get(copy.box, _LEAST) for copy in copies}
