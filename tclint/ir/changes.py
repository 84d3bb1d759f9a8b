"""The blocks at which something that is carried along paths changes, such as the value of a register."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tclint.ir.cfg import CFG

__all__ = ["Changes"]


class Changes:
    """The blocks that change something, and the joins of paths on which different ones of them are the last.

    Between the end of the nearest of them that dominates a block (:meth:`above`) and the entry of that block, nothing
    changes on any path. Unreachable blocks are ignored.
    """

    def __init__(self, cfg: CFG, blocks: set[int]) -> None:
        self.joins = cfg.joins(blocks)
        self._first, self._last = first, last = cfg.dominated
        ordered = sorted(blocks | self.joins, key=first.__getitem__)
        numbers = [*map(first.__getitem__, ordered)]
        reachable = slice(bisect_left(numbers, 0), None)
        self._blocks, self._numbers = ordered[reachable], numbers[reachable]
        self._outer: list[int] = []
        """For each of them, the position of the nearest that dominates it, or -1."""
        nested: list[int] = []
        for at, number in enumerate(self._numbers):
            while nested and last[self._blocks[nested[-1]]] <= number:
                nested.pop()
            self._outer.append(nested[-1] if nested else -1)
            nested.append(at)

    def above(self, block: int) -> int | None:
        """The nearest of the blocks that dominates *block* and is another; None if there is none."""
        number = self._first[block]
        at = bisect_left(self._numbers, number) - 1
        while at >= 0 and self._last[self._blocks[at]] <= number:
            at = self._outer[at]
        return self._blocks[at] if at >= 0 else None
