"""Wait-free regions: the code that a thread may execute from one wait to the next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from tclint.ir.cfg import CFG

__all__ = ["WaitFreeRegions"]

_Segment = tuple[int, int]
"""A part of a block between two of its waits: the block, and the number of its waits that precede the part."""


class WaitFreeRegions:
    """The regions into which *waits* divide a graph. A region extends into successor blocks up to their first wait.

    With the mbarrier waits of a thread as *waits*, two operations of one region on one mbarrier belong to the same
    phase.
    """

    def __init__(self, cfg: CFG, waits: Iterable[int]) -> None:
        self._cfg = cfg
        self._waits: dict[int, list[int]] = {}
        for wait in sorted(waits):
            self._waits.setdefault(cfg.block_of[wait], []).append(wait)
        self._reached: dict[int, frozenset[int]] = {}

    def _segment(self, site: int) -> _Segment:
        block = self._cfg.block_of[site]
        return block, bisect_left(self._waits.get(block, ()), site)

    def _is_last(self, segment: _Segment) -> bool:
        """Whether no wait of the block follows *segment*."""
        return segment[1] == len(self._waits.get(segment[0], ()))

    def _reachable(self, block: int) -> frozenset[int]:
        """The blocks whose start a thread may reach from the end of *block* without a wait."""
        found = self._reached.get(block)
        if found is None:
            work, seen = [block], set[int]()
            while work:
                for edge in self._cfg.successors[work.pop()]:
                    if edge.target not in seen:
                        seen.add(edge.target)
                        if edge.target not in self._waits:
                            work.append(edge.target)
            found = self._reached[block] = frozenset(seen)
        return found

    def last_waits(self, site: int) -> frozenset[int]:
        """The waits after which a thread may reach *site* with no other wait."""
        block, before = self._segment(site)
        if before:
            return frozenset((self._waits[block][before - 1],))
        return frozenset(waits[-1] for at, waits in self._waits.items() if block in self._reachable(at))

    def returns(self, site: int) -> bool:
        """Whether a thread may execute *site* again without a wait."""
        segment = self._segment(site)
        return not segment[1] and self._is_last(segment) and segment[0] in self._reachable(segment[0])

    def same_segment(self, a: int, b: int) -> bool:
        """Whether both are in one block with no wait between them."""
        return self._segment(a) == self._segment(b)

    def together(self, sites: Iterable[int]) -> list[list[int]]:
        """The *sites* of each region, in program order."""
        by_segment: dict[_Segment, list[int]] = {}
        for site in sorted(sites):
            by_segment.setdefault(self._segment(site), []).append(site)
        leader = {segment: segment for segment in by_segment}

        def find(segment: _Segment) -> _Segment:
            while leader[segment] != segment:
                segment = leader[segment]
            return segment

        for segment in by_segment:
            for block in self._reachable(segment[0]) if self._is_last(segment) else ():
                if (block, 0) in by_segment:
                    leader[find((block, 0))] = find(segment)
        regions: dict[_Segment, list[int]] = {}
        for segment, members in by_segment.items():
            regions.setdefault(find(segment), []).extend(members)
        return [sorted(region) for region in regions.values()]
