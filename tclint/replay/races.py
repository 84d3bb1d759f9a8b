"""Reads of shared memory that a replay did not order with the copies that fill it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tclint.replay.machine import Access
from tclint.replay.sync import Actor, Worker

__all__ = ["Race", "races"]

_LEAST = 16
"""Bytes that a copy brings at least."""


class Race(NamedTuple):
    """A copy and a read that are not ordered; *early*: the read comes first, and the copy overwrites what it reads."""

    copy: Access
    read: Access
    early: bool


@dataclass(slots=True)
class _Place:
    """Where copies go: the last one, and who has read it since."""

    copy: Access | None = None
    reads: dict[object, Access] = field(default_factory=dict)


def races(accesses: list[Access]) -> Iterator[Race]:
    """The first race of each copy with each read, by their instructions."""
    sizes = _sizes(accesses)
    regions: dict[int, dict[int, int]] = {}
    for access in accesses:
        if access.writes:
            own = regions.setdefault(access.cta, {})
            own[access.offset] = max(sizes[access.site], own.get(access.offset, 0))
    starts = {cta: sorted(own) for cta, own in regions.items()}
    places = {(cta, start): _Place() for cta, own in regions.items() for start in own}
    told = set()
    for access in accesses:
        own = regions.get(access.cta, {})
        at = bisect_right(starts.get(access.cta, ()), access.offset) - 1
        start = starts[access.cta][at] if at >= 0 else 0
        if at < 0 or access.offset >= start + own[start]:
            continue
        for race in _unordered(access, places[access.cta, start]):
            key = race.copy.site, race.read.site, race.early
            if key not in told:
                told.add(key)
                yield race


def _unordered(access: Access, place: _Place) -> Iterator[Race]:
    """The races of an access with those before it; *place* takes it in."""
    if not access.writes:
        copy = place.copy
        if copy is not None and access.clock.get(copy.actor, -1) < copy.number:
            yield Race(copy, access, False)
        place.reads[access.actor] = access
        return
    for read in place.reads.values():
        if access.clock.get(read.actor, -1) < read.number and not _issues(read.actor, access):
            # What nothing was copied to before is read too early, and not filled again.
            yield Race(access, read, place.copy is not None)
    place.copy, place.reads = access, {}


def _issues(actor: Actor, copy: Access) -> bool:
    """Whether those who read are those who issue the copy."""
    return (
        isinstance(actor, Worker)
        and not actor.kind
        and (actor.cta, actor.threads) == (copy.cta, copy.group.threads)
    )


def _sizes(accesses: Iterable[Access]) -> dict[int, int]:
    """How many bytes each copy fills: as it says, or up to where the next one begins."""
    copies = [a for a in accesses if a.writes]
    by_cta: dict[int, list[int]] = {}
    for copy in copies:
        by_cta.setdefault(copy.cta, []).append(copy.offset)
    starts = {cta: sorted(set(offsets)) for cta, offsets in by_cta.items()}
    found: dict[object, int] = {}
    for copy in copies:
        size = copy.size
        if size is None:
            own = starts[copy.cta]
            at = bisect_right(own, copy.offset)
            size = own[at] - copy.offset if at < len(own) else None
            if size is not None and copy.mbarrier is not None:
                size = min(size, copy.mbarrier.most)
        if size is not None:
            found[copy.box] = min(size, found.get(copy.box, size))
    return {copy.site: found.get(copy.box, _LEAST) for copy in copies}
