"""Which warps touch the same bytes of shared memory in a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from tclint.analyses.execution import Executed
from tclint.analyses.model import KernelModel
from tclint.analyses.since_barrier import plain
from tclint.replay.abstract_lanes import spread
from tclint.replay.machine import Touch
from tclint.values.shared_memory import Access

__all__ = ["Touching"]

_Warps = dict[int, set[int]]
"""The warps that touch each block of so many bytes, by its number."""


@dataclass(slots=True, eq=False)
class _Kind:
    """Loads or stores that are the same: an instruction, executed by some threads at an address each."""

    access: Access
    touch: Touch
    executed: Executed
    low: int
    high: int
    """Where they begin and end, all of them."""
    _blocks: dict[int, _Warps] = field(default_factory=dict)

    def by(self, size: int) -> _Warps:
        """The warps that touch each block of *size* bytes, which may be more than one of them accesses.

        Each is aligned to its size (6.4.1, 9.7.9.8), so what meets a smaller one contains it.
        """
        if size not in self._blocks:
            found, lanes = dict[int, set[int]](), self.access.lanes
            threads, address = self.touch.threads, self.touch.address
            # Of loads, those count that need what they load.
            takers = -1 if self.access.writes else self.executed.takers(self.access.site)
            for thread, a in zip(threads, spread(address, len(threads)), strict=True):
                if a is not None and lanes >> (thread & 31) & 1 and takers >> thread & 1:
                    found.setdefault(a // size, set()).add(thread >> 5)
            self._blocks[size] = found
        return self._blocks[size]


class Touching:
    """Which loads meet which stores, by what addresses their threads have."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._executed = model.made(Executed)
        self._numbers: dict[tuple[int, Touch], int] = {}
        self._kinds: tuple[dict[int, _Kind], dict[int, _Kind]] = {}, {}
        """Those of loads, and those of stores, by their numbers."""
        self.meeting: list[dict[int, frozenset[int]]] = []
        """For each kind of access those that meet it, and the warps of these that meet another warp."""

    def number(self, site: int, touch: Touch) -> int:
        """The number of the kind of access that this is; -1: it is none that says anything."""
        key = site, touch._replace(heard=0)
        if key not in self._numbers:
            kind = self._kind(*key)
            self._numbers[key] = -1 if kind is None else self._take_in(kind)
        return self._numbers[key]

    def _kind(self, site: int, touch: Touch) -> _Kind | None:
        accesses = self.model.shared.accesses(site) if plain(self.model, site) else ()
        address = touch.address
        known = [a for a in address if a is not None] if isinstance(address, tuple) else [address or 0]
        if len(accesses) != 1 or not known:
            return None
        return _Kind(accesses[0], touch, self._executed, min(known), max(known) + accesses[0].size)

    def _take_in(self, kind: _Kind) -> int:
        number, own = len(self.meeting), dict[int, frozenset[int]]()
        for other, before in self._kinds[not kind.access.writes].items():
            if before.low < kind.high and kind.low < before.high:
                mine, theirs = _met(kind, before) if kind.access.writes else reversed(_met(before, kind))
                if theirs:
                    own[other] = theirs
                if mine:
                    self.meeting[other][number] = mine
        self._kinds[kind.access.writes][number] = kind
        self.meeting.append(own)
        return number


def _met(store: _Kind, load: _Kind) -> tuple[frozenset[int], frozenset[int]]:
    """The warps that store what another warp loads, and those that load what another one stores."""
    size = max(store.access.size, load.access.size)
    stored, loaded = store.by(size), load.by(size)
    tell, hear = set[int](), set[int]()
    for block in stored.keys() & loaded.keys():
        writers, readers = stored[block], loaded[block]
        # Who has stored there beside others reads what it has stored, or else what they may all have.
        if not readers <= writers:
            tell |= writers
        hear |= readers if len(writers) > 1 else readers - writers
    return frozenset(tell), frozenset(hear)
