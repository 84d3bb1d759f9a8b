"""The natural loops of a control-flow graph.

Of two of them, one contains the other or they have no block in common: with an order in which the blocks of every loop
are consecutive, a loop is a range. A thousand nested loops as sets of blocks would take a hundred megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

__all__ = ["Loop", "LoopNest", "strongly_connected"]


class Loop(AbstractSet[int]):
    """The blocks of one natural loop."""

    __slots__ = ("_begin", "_end", "_nest")

    def __init__(self, nest: LoopNest, begin: int, end: int) -> None:
        self._nest = nest
        self._begin = begin
        self._end = end

    def __contains__(self, block: object) -> bool:
        return self._begin <= self._nest.position.get(block, -1) < self._end

    def __iter__(self) -> Iterator[int]:
        return iter(self._nest.blocks[self._begin : self._end])

    def __len__(self) -> int:
        return self._end - self._begin

    __hash__ = AbstractSet._hash

    # Each passes over the smaller of the two sets, as those of the built-in sets do.

    def isdisjoint(self, other: Iterable[object]) -> bool:
        if isinstance(other, (frozenset, set)) and len(self) < len(other):
            return other.isdisjoint(self)
        return super().isdisjoint(other)

    def __and__(self, other: AbstractSet[object]) -> AbstractSet[int]:
        if len(self) < len(other):
            return frozenset(block for block in self if block in other)
        return super().__and__(other)

    __rand__ = __and__

    @classmethod
    def _from_iterable(cls, blocks: Iterable[int]) -> frozenset[int]:  # type: ignore[override]
        return frozenset(blocks)


class LoopNest:
    """All natural loops, and how they are nested.

    *order* is a reverse postorder of the reachable blocks, *sources* are the reachable predecessors of a block, and
    *latches* the headers with the blocks from which control returns to them, each dominated by its header.
    """

    def __init__(
        self, order: Sequence[int], sources: Sequence[Iterable[int]], latches: Mapping[int, Iterable[int]]
    ) -> None:
        self._parent = _parents(order, sources, latches)
        children: dict[int, list[int]] = {}
        size = dict.fromkeys(order, 1)
        for block in order:
            if block in self._parent:
                children.setdefault(self._parent[block], []).append(block)
        for block in reversed(order):
            if block in self._parent:
                size[self._parent[block]] += size[block]
        self.blocks: list[int] = []
        """The reachable blocks, those of each loop one after the other, its header first."""
        work = [block for block in reversed(order) if block not in self._parent]
        while work:
            block = work.pop()
            self.blocks.append(block)
            work += reversed(children.get(block, ()))
        self.position: Mapping[object, int] = {block: at for at, block in enumerate(self.blocks)}
        begin = self.position
        self.loops = {header: Loop(self, begin[header], begin[header] + size[header]) for header in latches}
        """Header -> its loop, in the order of *latches*."""
        self.number = {header: number for number, header in enumerate(latches)}

    def around(self, block: int) -> Iterator[int]:
        """The headers of the loops that contain *block*, the innermost one first."""
        header = block if block in self.loops else self._parent.get(block)
        while header is not None:
            yield header
            header = self._parent.get(header)

    def having(self, blocks: Iterable[int]) -> set[int]:
        """The headers of the loops that contain one of *blocks*."""
        found = set[int]()
        for block in blocks:
            for header in self.around(block):
                if header in found:
                    break
                found.add(header)
        return found


def _parents(
    order: Sequence[int], sources: Sequence[Iterable[int]], latches: Mapping[int, Iterable[int]]
) -> dict[int, int]:
    """Block -> the header of the innermost loop that contains it; for a header, of the innermost other one."""
    parent: dict[int, int] = {}
    above: dict[int, int] = {}

    def outermost(block: int) -> int:
        """The header of the largest loop so far that contains *block*; the block itself if there is none."""
        path = []
        while block in above:
            path.append(block)
            block = above[block]
        for passed in path:
            above[passed] = block
        return block

    headers = [block for block in order if block in latches]
    for header in reversed(headers):  # an inner loop before those around it
        work = list(latches[header])
        while work:
            block = outermost(work.pop())
            if block != header:
                parent[block] = above[block] = header
                work += sources[block]
    return parent


def strongly_connected(
    roots: Iterable[int], successors: Callable[[int], Iterable[int]]
) -> Iterator[list[int]]:
    """The strongly connected components of what can be reached from *roots*; no edge leads from one to a later one."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on: set[int] = set()
    path: list[int] = []
    for root in roots:
        work = [(root, iter(successors(root)))] if root not in index else []
        while work:
            node, following = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                path.append(node)
                on.add(node)
            for target in following:
                if target not in index:
                    work.append((target, iter(successors(target))))
                    break
                if target in on:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    part = [path.pop()]
                    while part[-1] != node:
                        part.append(path.pop())
                    on.difference_update(part)
                    yield part
