"""Data races in a replay: two accesses to the same shared or tensor memory, at least one of them a write, that are
unordered.

Terms. An access *happens before* another if the clock of the second contains the event of the first
(``vector_clocks``). The order of execution in this one replay means nothing: accesses that the clocks do not order
race even if the replay executed them far apart. Accesses are *ordered in time* if one cannot be executed before the
other in any run although no clock orders them, such as an asynchronous copy and what its issuing thread did before
it; these do not race.

Per location, the last write and the reads since it are kept (as FastTrack does, Flanagan and Freund 2009), so of each
pair of instructions the first race is found, and a race that is hidden by an intervening write may be missed.

Unsound, towards silence: lanes of one warp do not race (how a warp orders its lanes is not modelled); of plain
accesses only the outermost are recorded (``program``); plain stores race only if no address depends on the launch or
on memory; the size of a tensor copy is unknown and taken from its neighbours. Unsound, towards a report: the values
of a launch may be those of no real launch, which ``launches`` and ``verdict`` guard against.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.replay.accesses import LaneAddresses, ReplayAccess
from tclint.replay.program import ReplaySlice
from tclint.replay.vector_clocks import Agent, Clock, happens_before
from tclint.replay.warp_overlaps import WarpOverlaps

__all__ = ["Race", "races"]

OrderedInTime = Callable[[Clock, Agent, int], bool]
"""Whether a point with a clock follows an event of an agent in every run (``IssuedOperations.ordered_in_time``)."""
_LEAST = 16
"""The least number of bytes of a bulk copy (9.7.9.25.4.1)."""


class Race(NamedTuple):
    """Two accesses of which the first need not be complete when the second is made."""

    first: ReplayAccess
    second: ReplayAccess

    @property
    def early(self) -> bool:
        """Whether the second overwrites what the first reads or writes."""
        return self.second.writes

    @property
    def key(self) -> tuple[int, int]:
        """The two instructions."""
        return self.first.site, self.second.site

    @property
    def together(self) -> bool:
        """Whether the accesses are of different warps of one thread group."""
        return not _in_different_warps(*self)


@dataclass(slots=True)
class _CopyRegion:
    """A region that copies write: the last copy, and the reads since."""

    end: int
    copy: ReplayAccess | None = None
    reads: dict[object, ReplayAccess] = field(default_factory=dict)


_NO_REGIONS: tuple[list[int], list[_CopyRegion]] = [], []

_Found = tuple[Race, ReplayAccess, Clock, Sequence[Agent]]
"""A race, its access that is later in the replay, the clock of that, and the agents whose part of the earlier one is
not in the clock.
"""


def races(
    accesses: list[ReplayAccess], ordered_in_time: OrderedInTime, program: ReplaySlice
) -> Iterator[Race]:
    """The first race of each pair of instructions: of asynchronous writes with reads, then of plain stores with all
    else.

    A plain access by an index that global memory holds may be anywhere, so it does not race with a copy. Neither does a
    copy to such an index with an access that is elsewhere.
    A race with a store counts only if neither address depends on the launch or on memory. In a kernel without mbarriers
    it must also be known which threads make the two accesses, and a read before the store counts only if its result is
    used.
    """
    for race in _first_of_each(_async_races(accesses), ordered_in_time, set()):
        indexed = [program.accesses.indexed_by_memory(a.site) for a in race]
        if not any(indexed) or (all(indexed) and not any(a.plain for a in race)):
            yield race
    if not any(access.stores for access in accesses):
        return
    reported = set[tuple[int, int]]()
    for race in _first_of_each(
        chain(_store_races(accesses), _lockstep_races(accesses, program, reported)),
        ordered_in_time,
        reported,
    ):
        sites = race.key
        if all(map(program.accesses.is_strong, sites)):
            continue  # conflicting accesses that are both strong do not race (8.7.1)
        if all(map(program.accesses.launch_independent, sites)) and (
            program.has_mbarriers
            or (
                all(map(program.accesses.threads_known, sites))
                and (race.first.writes or program.accesses.uses_result(sites[0]))
            )
        ):
            yield race


def _first_of_each(
    found: Iterable[_Found], ordered_in_time: OrderedInTime, reported: set[tuple[int, int]]
) -> Iterator[Race]:
    """The first race of each pair of instructions whose accesses are not ordered in time.

    The pairs are added to *reported*.
    """
    for race, later, observed, unordered in found:
        before = race.first if race.second is later else race.second
        if race.key not in reported and not all(
            ordered_in_time(observed, a, before.number) for a in unordered
        ):
            reported.add(race.key)
            yield race


def _async_races(accesses: list[ReplayAccess]) -> Iterator[_Found]:
    """The races of asynchronous writes with reads."""
    sizes = _sizes(accesses)
    accesses = [a for a in accesses if not a.stores]
    regions: dict[tuple[int, int], dict[int, int]] = {}
    for access in accesses:
        if access.writes:
            own = regions.setdefault(access.memory, {})
            own[access.offset] = max(sizes[access.site], own.get(access.offset, 0))
    sorted_regions = {
        memory: (sorted(own), [_CopyRegion(start + own[start]) for start in sorted(own)])
        for memory, own in regions.items()
    }
    for access in accesses:
        starts, found = sorted_regions.get(access.memory, _NO_REGIONS)
        at = bisect_right(starts, access.offset) - 1
        if at >= 0 and access.offset < found[at].end:
            for race, unordered in _copy_races(access, found[at], sizes):
                yield race, access, access.clock, unordered


@dataclass(slots=True)
class _StoreLocation:
    """A location that threads store to: the stores, the reads since, and the last copy."""

    stores: dict[object, ReplayAccess] = field(default_factory=dict)
    reads: dict[object, ReplayAccess] = field(default_factory=dict)
    copy: ReplayAccess | None = None


def _store_races(accesses: list[ReplayAccess]) -> Iterator[_Found]:
    """The races of plain stores with reads and copies."""
    by_memory: dict[tuple[int, int], set[int]] = {}
    for access in accesses:
        if access.stores:
            by_memory.setdefault(access.memory, set()).add(access.offset)
    starts = {memory: sorted(own) for memory, own in by_memory.items()}
    locations = {(memory, start): _StoreLocation() for memory, own in starts.items() for start in own}
    for access in accesses:
        own = starts.get(access.memory)
        if own is None:
            continue
        # The end of a copy of unknown size is a guess: good enough for copies among themselves.
        size = 1 if access.plain else access.size or _LEAST
        for at in range(bisect_left(own, access.offset), bisect_left(own, access.offset + size)):
            for race, unordered in _races_at(access, locations[access.memory, own[at]]):
                yield race, access, access.clock, unordered


def _races_at(access: ReplayAccess, location: _StoreLocation) -> Iterator[tuple[Race, Sequence[Agent]]]:
    """The races of an access with earlier plain stores, or of a store with all that is earlier.

    Records the access at *location*.
    """
    before = [
        (s, unordered)
        for s in location.stores.values()
        if (unordered := _unordered_agents(s, access)) and _in_different_warps(s, access)
    ]
    if access.stores:
        for read in location.reads.values():
            if (unordered := _unordered_agents(read, access)) and _in_different_warps(read, access):
                # A location that nothing wrote before is read too early.
                yield (
                    Race(read, access) if location.stores or location.copy else Race(access, read),
                    unordered,
                )
        copy = location.copy
        if (
            copy is not None
            and (unordered := _unordered_agents(copy, access))
            and _in_different_warps(copy, access)
        ):
            yield Race(copy, access), unordered
        location.reads, location.copy = {}, None
        location.stores = {**{s.agent: s for s, _ in before}, access.agent: access}
    elif access.writes:
        for store, unordered in before:
            yield Race(store, access), unordered
        location.stores, location.reads, location.copy = {}, {}, access
    else:
        for store, unordered in before:
            yield Race(store, access), unordered
        location.reads[access.agent] = access


def _lockstep_races(
    accesses: list[ReplayAccess], program: ReplaySlice, reported: Container[tuple[int, int]]
) -> Iterator[_Found]:
    """The races of loads with stores of other warps of the same thread group, but of pairs that are *reported*."""
    overlaps = program.model.fact(WarpOverlaps)
    last: dict[int, ReplayAccess] = {}
    lane_addresses: LaneAddresses | None = None
    for access in accesses:
        if (
            access.lane_addresses is None
            or access.lane_addresses is lane_addresses
            or not program.accesses.launch_independent(access.site)
        ):
            continue
        lane_addresses = access.lane_addresses
        number = overlaps.number(access.site, lane_addresses)
        if number < 0:
            continue
        observed = lane_addresses.observed
        for site, kinds in overlaps.overlapping[number].items():
            for other, warps in kinds.items():
                if (site, access.site) in reported:
                    break
                before = last.get(other)
                # Most are ordered as a whole, which is one comparison.
                if before is None or happens_before(observed, before.agent, before.number):
                    continue
                unordered = [
                    p
                    for p in before.agent.components
                    if p.threads[0] >> 5 in warps and not happens_before(observed, p, before.number)
                ]
                if unordered and not _in_different_warps(before, access):
                    yield Race(before, access), access, observed, unordered
        last[number] = access


def _in_different_warps(a: ReplayAccess, b: ReplayAccess) -> bool:
    """Whether no warp makes both accesses. The order of lanes within a warp is not modelled."""
    return not (a.own and b.own) or set(a.group.warps).isdisjoint(b.group.warps)


def _copy_races(
    access: ReplayAccess, region: _CopyRegion, sizes: Mapping[int, int]
) -> Iterator[tuple[Race, Sequence[Agent]]]:
    """The races of an access with those before it. Records the access in *region*."""
    if not access.writes:
        copy = region.copy
        if (
            copy is not None
            and access.offset < copy.offset + sizes[copy.site]
            and (unordered := _unordered_agents(copy, access))
            and _in_different_warps(copy, access)
        ):
            yield Race(copy, access), unordered
        region.reads[access.agent] = access
        return
    for read in region.reads.values():
        end = access.offset + sizes[access.site]
        if (
            read.offset < end
            and (unordered := _unordered_agents(read, access, end))
            and _in_different_warps(read, access)
        ):
            # A region that no copy wrote before is read too early.
            yield Race(read, access) if region.copy is not None else Race(access, read), unordered
    region.copy, region.reads = access, {}


def _unordered_agents(before: ReplayAccess, access: ReplayAccess, high: int = 0) -> Sequence[Agent]:
    """The agents whose part of the access *before* does not happen before *access*: at its start, or up to *high*."""
    if before.agent is access.agent:
        return ()
    return before.unordered_agents(
        access.clock, *((access.offset, high) if high else (before.offset, before.offset + 1))
    )


def _sizes(accesses: Iterable[ReplayAccess]) -> dict[int, int]:
    """The bytes that each copy writes: as stated, or up to the next copy or store."""
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
