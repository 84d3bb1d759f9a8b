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
        self._blocks = sorted((b for b in blocks | self.joins if first[b] >= 0), key=first.__getitem__)
        self._numbers = [first[b] for b in self._blocks]
        self._outer: list[int] = []
        """For each of them, the position of the nearest that dominates it, or -1."""
        nested: list[int] = []
        for at, block in enumerate(self._blocks):
            while nested and last[self._blocks[nested[-1]]] <= first[block]:
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
