"""Groups of threads that execute the same path together: their registers and clocks, and where they diverged.

Registers hold one value per group or per thread (``abstract_lanes``). The clock of each warp is kept separately as
soon as the warps of a group differ in what they have observed; lanes of a warp share one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.replay.abstract_lanes import Lanes, gather, merge
from tclint.replay.sync import ReplayBarrier, ReplayMbarrier
from tclint.replay.vector_clocks import BOTTOM, Agent, Clock, WarpClocks, join, mask_warps, select_warps

__all__ = [
    "DivergencePoint",
    "GroupRegisters",
    "MergedRegisters",
    "Stuck",
    "ThreadGroup",
    "committed_groups",
    "positions_of",
    "threads_by_warp",
    "warps_of",
]


class Stuck(NamedTuple):
    """Threads that are blocked at an mbarrier or a barrier."""

    site: int
    threads: tuple[int, ...]
    what: ReplayMbarrier | ReplayBarrier


class MergedRegisters:
    """The registers of groups that reconverged, merged when a register is read."""

    __slots__ = ("_parts", "_size")

    def __init__(self, parts: Sequence[tuple[Sequence[int], GroupRegisters]], size: int) -> None:
        self._parts = parts
        self._size = size

    def value(self, register: int) -> Lanes:
        """The value of *register*."""
        return merge([(positions, part[register]) for positions, part in self._parts], self._size)


class GroupRegisters(dict[int, Lanes]):
    """The registers of a group: what it has written, and otherwise the values from before it diverged.

    ``registers[number]`` is the value, None if it is unknown. The items of the :class:`dict` are what was written
    since.
    """

    __slots__ = ("_seen", "merged", "outer", "positions")

    def __init__(self, outer: GroupRegisters | None = None, positions: Sequence[int] = ()) -> None:
        self.outer = outer
        self.positions = positions
        """The positions of these threads among those of *outer*."""
        self.merged: dict[int, MergedRegisters] = {}
        """Registers that were written before the threads reconverged, and not since."""
        self._seen: dict[int, Lanes] = {}

    def written(self, since: GroupRegisters) -> Iterator[int]:
        """The registers written since the threads diverged that held *since*, at any depth of nested branches."""
        here: GroupRegisters | None = self
        while here is not None and here is not since:
            yield from here
            yield from here.merged
            here = here.outer

    def __missing__(self, register: int) -> Lanes:
        if register in self.merged:
            self[register] = value = self.merged[register].value(register)
            return value
        outer = self.outer
        if outer is None:
            return None
        if register not in self._seen:
            self._seen[register] = gather(outer[register], self.positions)
        return self._seen[register]

    def copy(self) -> GroupRegisters:
        """A copy to write to."""
        made = GroupRegisters(self.outer, self.positions)
        made.update(self)
        made.merged.update(self.merged)
        return made

    def meet(self, written: Collection[int], together: MergedRegisters) -> None:
        """Takes over the registers *written* by threads that reconverged."""
        for register in written:
            self.pop(register, None)
        self.merged.update(dict.fromkeys(written, together))


@dataclass(eq=False, slots=True)
class DivergencePoint:
    """Threads that diverged at a branch, and the block where they reconverge."""

    reconvergence: int
    outer: DivergencePoint | None
    before: GroupRegisters
    threads: tuple[int, ...]
    """All threads that diverged."""
    missing: int
    """How many of them have neither reached the block nor exited."""
    parked: list[ThreadGroup] = field(default_factory=list)
    released: bool = False
    """They no longer wait for each other."""

    @property
    def splits_a_warp(self) -> bool:
        """Whether parked lanes wait for other lanes of their warp."""
        warps = {warp for group in self.parked for warp in group.warps}
        lanes = zip(warps_of(self.threads), positions_of(self.threads), strict=True)
        return sum([len(group.threads) for group in self.parked]) < sum(
            [len(own) for warp, own in lanes if warp in warps]
        )


@cache
def warps_of(threads: tuple[int, ...]) -> tuple[int, ...]:
    """The warps of *threads*."""
    return tuple(dict.fromkeys([t >> 5 for t in threads]))


@cache
def positions_of(threads: tuple[int, ...]) -> tuple[Sequence[int], ...]:
    """The positions of the threads of each warp among *threads*."""
    found: dict[int, list[int]] = {}
    for position, thread in enumerate(threads):
        found.setdefault(thread >> 5, []).append(position)
    return tuple(found.values())


def threads_by_warp(threads: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The threads of each warp."""
    return (tuple(map(threads.__getitem__, positions)) for positions in positions_of(threads))


@dataclass(eq=False, slots=True)
class ThreadGroup:
    """Threads of one CTA that execute the same path together."""

    cta: int
    threads: tuple[int, ...]
    registers: GroupRegisters
    clock: WarpClocks
    """What its warps have acquired."""
    own: Clock = BOTTOM
    """The events of its own threads, of which each warp has observed only its own."""
    block: int = 0
    at: int = 0
    divergence: DivergencePoint | None = None
    waits: Callable[[], bool] | None = None
    """Whether what the group waits for has happened."""
    stuck: Stuck | None = None
    failed_test: tuple[object, ...] = ()
    """The test of an mbarrier that has just failed; empty if the group has done anything since."""
    cluster: int = 0
    """The phase of the cluster barrier that it has arrived for."""
    committed: Mapping[str, tuple[Clock, ...]] = field(default_factory=dict)
    """The clock of each committed group of wgmma or of bulk copies, with all before it. Not modified once created."""
    waited: Mapping[int, int] = field(default_factory=dict)
    """The last wait for each mbarrier, by address, the latest last. Not modified once created."""
    fenced: WarpClocks = BOTTOM
    """What happens before the last fence, which is what a relaxed arrival in this CTA releases."""
    fenced_cluster: WarpClocks = BOTTOM
    """What happens before the last fence whose scope includes other CTAs, for relaxed arrivals there."""
    agent: Agent | None = None
    unfenced: WarpClocks = BOTTOM
    """What relaxed waits have observed: it is acquired by the next fence."""
    warps: tuple[int, ...] = field(init=False)
    """The warps that it has lanes of."""

    def __post_init__(self) -> None:
        self.warps = warps_of(self.threads)

    def threads_at(self, positions: Sequence[int]) -> tuple[int, ...]:
        """The threads at *positions*."""
        threads = self.threads
        return threads if len(positions) == len(threads) else tuple(map(threads.__getitem__, positions))

    def warps_at(self, positions: Sequence[int]) -> tuple[int, ...]:
        """The warps of the threads at *positions*."""
        if len(positions) == len(self.threads):
            return self.warps
        return tuple(dict.fromkeys([self.threads[i] >> 5 for i in positions]))

    def clocks_of(self, observed: WarpClocks, some: ThreadGroup) -> WarpClocks:
        """The clocks of the threads of *some*, a part of this group."""
        return observed if isinstance(observed, int) else select_warps(observed, self.warps, some.warps)

    def only_at(self, observed: WarpClocks, positions: Sequence[int]) -> WarpClocks:
        """The clocks *observed* if only the warps of the threads at *positions* observe them."""
        return (
            observed
            if len(positions) == len(self.threads)
            else mask_warps(observed, self.warps, self.warps_at(positions))
        )


def committed_groups(one: tuple[Clock, ...], other: tuple[Clock, ...]) -> tuple[Clock, ...]:
    """The groups that two parts of some threads have committed, the newest of both last.

    A part that has committed nothing since they diverged did not reach the commit: one thread of many issues bulk
    copies.
    """
    more, fewer = sorted((one, other), key=len, reverse=True)
    if more[: len(fewer)] == fewer:
        return more
    surplus = len(more) - len(fewer)
    return (*more[:surplus], *map(join, more[surplus:], fewer))
