"""Which warps touch the same bytes of shared memory in a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from tclint.analyses.execution import Executed
from tclint.analyses.model import KernelModel
from tclint.analyses.since_barrier import plain
from tclint.replay.abstract_lanes import broadcast
from tclint.replay.machine import LaneAddresses
from tclint.values.shared_memory import Access

__all__ = ["WarpOverlaps"]

_Warps = dict[int, set[int]]
"""The warps that touch each block of so many bytes, by its number."""


@dataclass(slots=True, eq=False)
class _AccessKind:
    """Loads or stores that are the same: an instruction, executed by some threads at an address each."""

    access: Access
    lane_addresses: LaneAddresses
    executed: Executed
    low: int
    high: int
    """Where they begin and end, all of them."""
    _blocks: dict[int, _Warps] = field(default_factory=dict)

    def warps_by_block(self, size: int) -> _Warps:
        """The warps that touch each block of *size* bytes, which may be more than one of them accesses.

        Each is aligned to its size (6.4.1, 9.7.9.8), so what meets a smaller one contains it.
        """
        if size not in self._blocks:
            found, lanes = dict[int, set[int]](), self.access.lanes
            threads, address = self.lane_addresses.threads, self.lane_addresses.address
            # Of loads, those count that need what they load.
            takers = -1 if self.access.writes else self.executed.takers(self.access.site)
            for thread, a in zip(threads, broadcast(address, len(threads)), strict=True):
                if a is not None and lanes >> (thread & 31) & 1 and takers >> thread & 1:
                    found.setdefault(a // size, set()).add(thread >> 5)
            self._blocks[size] = found
        return self._blocks[size]


class WarpOverlaps:
    """Which loads meet which stores, by what addresses their threads have."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._executed = model.made(Executed)
        self._numbers: dict[tuple[int, LaneAddresses], int] = {}
        self._kinds: tuple[dict[int, _AccessKind], dict[int, _AccessKind]] = {}, {}
        """Those of loads, and those of stores, by their numbers."""
        self.overlapping: list[dict[int, frozenset[int]]] = []
        """For each kind of access those that meet it, and the warps of these that meet another warp."""

    def number(self, site: int, lane_addresses: LaneAddresses) -> int:
        """The number of the kind of access that this is; -1: it is none that says anything."""
        key = site, lane_addresses._replace(observed=0)
        if key not in self._numbers:
            kind = self._kind(*key)
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
        number, own = len(self.overlapping), dict[int, frozenset[int]]()
        for other, before in self._kinds[not kind.access.writes].items():
            if before.low < kind.high and kind.low < before.high:
                mine, theirs = (
                    _overlapping_warps(kind, before)
                    if kind.access.writes
                    else reversed(_overlapping_warps(before, kind))
                )
                if theirs:
                    own[other] = theirs
                if mine:
                    self.overlapping[other][number] = mine
        self._kinds[kind.access.writes][number] = kind
        self.overlapping.append(own)
        return number


def _overlapping_warps(store: _AccessKind, load: _AccessKind) -> tuple[frozenset[int], frozenset[int]]:
    """The warps that store what another warp loads, and those that load what another one stores."""
    size = max(store.access.size, load.access.size)
    stores, loads = store.warps_by_block(size), load.warps_by_block(size)
    writing, reading = set[int](), set[int]()
    for block in stores.keys() & loads.keys():
        writers, readers = stores[block], loads[block]
        # Who has stored there beside others reads what it has stored, or else what they may all have.
        if not readers <= writers:
            writing |= writers
        reading |= readers if len(writers) > 1 else readers - writers
    return frozenset(writing), frozenset(reading)
