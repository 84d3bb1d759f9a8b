"""Which warps of a thread group access the same bytes of shared memory as others."""

from __future__ import annotations

from dataclasses import field
from math import gcd

from tclint._dataclass import dataclass
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OVERLAP
from tclint.analyses.warp_memory import plain
from tclint.replay.abstract_lanes import broadcast
from tclint.replay.accesses import LaneAddresses
from tclint.values.shared_memory import SharedAccess

__all__ = ["WarpOverlaps"]

MAX_KINDS = 600
"""Kinds of accesses of one kernel that are compared. Each is compared with all others, and an unrolled kernel has thousands."""

_Warps = dict[int, set[int]]
"""The warps that access each aligned block of a size, by the number of the block."""


@dataclass(slots=True, eq=False)
class _AccessKind:
    """Equal loads or stores: one instruction, executed by the same threads with the same addresses."""

    access: SharedAccess
    lane_addresses: LaneAddresses
    executed: ExecutionGuarantee
    low: int
    high: int
    """The end of the range that all threads access; *low* is its start."""
    _blocks: dict[int, _Warps] = field(default_factory=dict)

    def warps_by_block(self, size: int) -> _Warps:
        """The warps that access each block of *size* bytes, of which the access is a multiple."""
        if size not in self._blocks:
            found, places, lanes = dict[int, set[int]](), set[tuple[int, int]](), self.access.lanes
            threads, address = self.lane_addresses.threads, self.lane_addresses.address
            # A load counts only in threads that use its result.
            takers = -1 if self.access.writes else self.executed.takers(self.access.site)
            for thread, a in zip(threads, broadcast(address, len(threads)), strict=True):
                if a is not None and lanes >> (thread & 31) & 1 and takers >> thread & 1:
                    places.add((a // size, thread >> 5))
            for first, warp in places:
                for block in range(first, first + self.access.size // size):
                    found.setdefault(block, set()).add(warp)
            self._blocks[size] = found
        return self._blocks[size]


class WarpOverlaps:
    """The loads and stores that overlap, by the addresses of their threads.

    One table serves all replays of a kernel: a key names all that an entry depends on.
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._executed = model.fact(ExecutionGuarantee)
        self._numbers: dict[tuple[int, LaneAddresses], int] = {}
        self._kinds: tuple[dict[int, _AccessKind], dict[int, _AccessKind]] = {}, {}
        """The loads, and the stores, by number."""
        self.overlapping: list[dict[int, dict[int, frozenset[int]]]] = []
        """For each kind of access the overlapping ones by their instruction, and the warps of these that share bytes with
        another warp.
        """

    def number(self, site: int, lane_addresses: LaneAddresses) -> int:
        """The number of the kind of access; -1: its addresses are unknown, it is not a plain access, or there are too many."""
        key = site, lane_addresses._replace(observed=0)
        if key not in self._numbers:
            kind = self._kind(*key)
            if kind is not None and len(self.overlapping) >= MAX_KINDS:
                self.model.ledger.drop(OVERLAP, site, f"more than {MAX_KINDS} kinds of accesses")
                kind = None
            self._numbers[key] = -1 if kind is None else self._register(kind)
        return self._numbers[key]

    def _kind(self, site: int, lane_addresses: LaneAddresses) -> _AccessKind | None:
        accesses = self.model.shared.accesses(site) if plain(self.model, site) else ()
        address = lane_addresses.address
        known = [a for a in address if a is not None] if isinstance(address, tuple) else [address or 0]
        if len(accesses) != 1 or not known:
            return None
        return _AccessKind(
            accesses[0], lane_addresses, self._executed, min(known), max(known) + accesses[0].size
        )

    def _register(self, kind: _AccessKind) -> int:
        number, own = len(self.overlapping), dict[int, dict[int, frozenset[int]]]()
        for other, before in self._kinds[not kind.access.writes].items():
            if before.low < kind.high and kind.low < before.high:
                mine, theirs = (
                    _overlapping_warps(kind, before)
                    if kind.access.writes
                    else reversed(_overlapping_warps(before, kind))
                )
                if theirs:
                    own.setdefault(before.access.site, {})[other] = theirs
                if mine:
                    self.overlapping[other].setdefault(kind.access.site, {})[number] = mine
        self._kinds[kind.access.writes][number] = kind
        self.overlapping.append(own)
        return number


def _overlapping_warps(store: _AccessKind, load: _AccessKind) -> tuple[frozenset[int], frozenset[int]]:
    """The warps that store what another warp loads, and those that load what another warp stores.

    Each is aligned to what divides both sizes: an access of one thread to its own size (6.4.1, 9.7.9.8), a matrix to no more
    than a row.
    """
    size = gcd(store.access.size, load.access.size)
    stores, loads = store.warps_by_block(size), load.warps_by_block(size)
    writing, reading = set[int](), set[int]()
    for block in stores.keys() & loads.keys():
        writers, readers = stores[block], loads[block]
        # A warp that stores beside others reads its own value, or any of theirs.
        if not readers <= writers:
            writing |= writers
        reading |= readers if len(writers) > 1 else readers - writers
    return frozenset(writing), frozenset(reading)
