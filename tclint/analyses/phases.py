"""The code that a thread goes through from one wait to the next, and what lies in one stretch of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from tclint.ir.cfg import CFG

__all__ = ["Stretches"]

_Stretch = tuple[int, int]
"""A block, and how many waits of it come before."""


class Stretches:
    """The parts of a graph between some waits. One ends in a block, or goes on to blocks behind it until their first wait."""

    def __init__(self, cfg: CFG, waits: Iterable[int]) -> None:
        self._cfg = cfg
        self._waits: dict[int, list[int]] = {}
        for wait in sorted(waits):
            self._waits.setdefault(cfg.block_of[wait], []).append(wait)
        self._ahead: dict[int, frozenset[int]] = {}

    def _of(self, site: int) -> _Stretch:
        block = self._cfg.block_of[site]
        return block, bisect_left(self._waits.get(block, ()), site)

    def _goes_on(self, stretch: _Stretch) -> bool:
        """Whether no wait of its block comes behind."""
        return stretch[1] == len(self._waits.get(stretch[0], ()))

    def _behind(self, block: int) -> frozenset[int]:
        """The blocks to whose start a thread may come from the end of *block* without a wait."""
        found = self._ahead.get(block)
        if found is None:
            work, seen = [block], set[int]()
            while work:
                for edge in self._cfg.successors[work.pop()]:
                    if edge.target not in seen:
                        seen.add(edge.target)
                        if edge.target not in self._waits:
                            work.append(edge.target)
            found = self._ahead[block] = frozenset(seen)
        return found

    def returns(self, site: int) -> bool:
        """Whether a thread may come from *site* back to it without a wait."""
        stretch = self._of(site)
        return not stretch[1] and self._goes_on(stretch) and stretch[0] in self._behind(stretch[0])

    def alike(self, a: int, b: int) -> bool:
        """Whether both are in one stretch of one block."""
        return self._of(a) == self._of(b)

    def together(self, sites: Iterable[int]) -> list[list[int]]:
        """*sites* in parts: one holds those that a thread may pass without a wait between."""
        inside: dict[_Stretch, list[int]] = {}
        for site in sorted(sites):
            inside.setdefault(self._of(site), []).append(site)
        leader = {stretch: stretch for stretch in inside}

        def find(stretch: _Stretch) -> _Stretch:
            while leader[stretch] != stretch:
                stretch = leader[stretch]
            return stretch

        for stretch in inside:
            for block in self._behind(stretch[0]) if self._goes_on(stretch) else ():
                if (block, 0) in inside:
                    leader[find((block, 0))] = find(stretch)
        parts: dict[_Stretch, list[int]] = {}
        for stretch, own in inside.items():
            parts.setdefault(find(stretch), []).extend(own)
        return [sorted(part) for part in parts.values()]
