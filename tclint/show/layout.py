"""The layout of a control-flow graph: blocks in layers from top to bottom, with edges between them.

Sugiyama's method: back edges are reversed, the layer of a block is the length of the longest path from the entry, long
edges get a dummy node in each layer that they pass, and the order in a layer follows that of the neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tclint._dataclass import dataclass

__all__ = ["GAP_X", "GAP_Y", "HEIGHT", "WIDTH", "Layout", "layout"]

WIDTH, HEIGHT = 176, 58
"""The size of a block's box in pixels."""
GAP_X, GAP_Y = 22, 40
"""The horizontal and vertical distance between boxes."""
_EDGE_WIDTH = 14
"""The width of a dummy node, where an edge passes a layer."""
_SWEEPS = 8
"""Passes over the layers to order them; further passes change little."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions in pixels, from the top left."""

    boxes: dict[int, Point]
    """The top left corners of the boxes."""
    edges: list[tuple[int, int, bool, list[Point]]]
    """``(from, to, whether it is a back edge, points)``, in the given order."""
    width: float
    height: float


def layout(order: Sequence[int], edges: Sequence[tuple[int, int]]) -> Layout:
    """The layout of the blocks *order*, which starts with the entry and is topological except for back edges."""
    if not order:
        return Layout({}, [], 0, 0)
    rank = {b: n for n, b in enumerate(order)}
    layer = _layers(order, rank, edges)
    graph = _Layers(order, rank, layer, edges)
    graph.arrange()
    xs = graph.coordinates()
    left = min(x - graph.half[n] for n, x in xs.items())
    boxes = {b: (xs[b] - WIDTH / 2 - left, float(layer[b] * (HEIGHT + GAP_Y))) for b in order}
    routed = [(a, b, rank[b] <= rank[a], graph.route(k, a, b, xs, left)) for k, (a, b) in enumerate(edges)]
    right = max(x + graph.half[n] for n, x in xs.items()) - left
    points = [p for *_, route in routed for p in route]
    width = max([right, *(x for x, _ in points)])
    height = max([(layer[b] + 1) * (HEIGHT + GAP_Y) for b in order]) - GAP_Y
    return Layout(boxes, routed, width, max([height, *(y for _, y in points)]))


def _layers(
    order: Sequence[int], rank: Mapping[int, int], edges: Sequence[tuple[int, int]]
) -> dict[int, int]:
    """The length of the longest path from the entry to each block, without back edges."""
    into: dict[int, list[int]] = {b: [] for b in order}
    for a, b in edges:
        if rank[a] < rank[b]:
            into[b].append(a)
    layer: dict[int, int] = {}
    for b in order:
        layer[b] = max((layer[a] + 1 for a in into[b]), default=0)
    return layer


class _Layers:
    """The nodes of each layer: blocks, and dummy nodes of long edges, which are numbered from -2 downwards."""

    def __init__(
        self,
        order: Sequence[int],
        rank: Mapping[int, int],
        layer: Mapping[int, int],
        edges: Sequence[tuple[int, int]],
    ) -> None:
        self.layer = dict(layer)
        self.rows: list[list[int]] = [[] for _ in range(max(layer.values()) + 1)]
        for b in order:
            self.rows[layer[b]].append(b)
        self.above: dict[int, list[int]] = {b: [] for b in order}
        self.below: dict[int, list[int]] = {b: [] for b in order}
        self.chains: dict[int, list[int]] = {}
        self.half: dict[int, float] = dict.fromkeys(order, WIDTH / 2)
        following = -2
        for k, (a, b) in enumerate(edges):
            if a == b:
                continue
            top, bottom = (a, b) if rank[a] < rank[b] else (b, a)
            chain = []
            last = top
            for row in range(layer[top] + 1, layer[bottom]):
                self.layer[following] = row
                self.rows[row].append(following)
                self.half[following] = _EDGE_WIDTH / 2
                self.above[following], self.below[following] = [], []
                self._join(last, following)
                chain.append(following)
                last = following
                following -= 1
            self._join(last, bottom)
            self.chains[k] = chain if (a, b) == (top, bottom) else chain[::-1]

    def _join(self, upper: int, lower: int) -> None:
        self.below[upper].append(lower)
        self.above[lower].append(upper)

    def arrange(self) -> None:
        """Orders each layer by the median position of the neighbours, sweeping downwards and upwards in turn."""
        at = {n: float(k) for row in self.rows for k, n in enumerate(row)}
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for row in self.rows if down else reversed(self.rows):
                middle = {n: _median([at[m] for m in near[n]], at[n]) for n in row}
                row.sort(key=lambda n: (middle[n], at[n]))
                at.update((n, float(k)) for k, n in enumerate(row))

    def coordinates(self) -> dict[int, float]:
        """The x coordinate of the centre of every node: near its neighbours, without overlaps in a layer."""
        xs: dict[int, float] = {}
        for row in self.rows:
            x = 0.0
            for n in row:
                x += self.half[n]
                xs[n] = x
                x += self.half[n] + GAP_X
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for row in self.rows if down else reversed(self.rows):
                wanted = [_median([xs[m] for m in near[n]], xs[n]) for n in row]
                for n, x in zip(row, self._without_overlap(row, wanted), strict=True):
                    xs[n] = x
        return xs

    def _without_overlap(self, row: Sequence[int], wanted: Sequence[float]) -> list[float]:
        """The coordinates nearest to *wanted* (least squares) that keep the order and the minimum distances.

        After subtracting the distances, this is isotonic regression, solved by pooling adjacent violators.
        """
        offsets, offset = [], 0.0
        for k, n in enumerate(row):
            if k:
                offset += self.half[row[k - 1]] + GAP_X + self.half[n]
            offsets.append(offset)
        pools: list[tuple[float, int]] = []
        for want, offset in zip(wanted, offsets, strict=True):
            total, size = want - offset, 1
            while pools and pools[-1][0] / pools[-1][1] >= total / size:
                more, many = pools.pop()
                total, size = total + more, size + many
            pools.append((total, size))
        bases = [total / size for total, size in pools for _ in range(size)]
        return [base + offset for base, offset in zip(bases, offsets, strict=True)]

    def route(self, k: int, a: int, b: int, xs: Mapping[int, float], left: float) -> list[Point]:
        """The points of an edge: from the bottom of its source through its dummy nodes to the top of its target."""
        top = {n: self.layer[n] * (HEIGHT + GAP_Y) for n in (a, b, *self.chains.get(k, ()))}
        x, y = xs[a] - left, xs[b] - left
        if a == b:
            side = x + WIDTH / 2
            return [
                (x + WIDTH / 4, top[a] + HEIGHT),
                (x + WIDTH / 4, top[a] + HEIGHT + 12),
                (side + 10, top[a] + HEIGHT + 12),
                (side + 10, top[a] - 12),
                (x + WIDTH / 4, top[a] - 12),
                (x + WIDTH / 4, top[a]),
            ]
        through = [(xs[n] - left, top[n] + HEIGHT / 2) for n in self.chains[k]]
        if self.layer[a] < self.layer[b]:
            return [(x, top[a] + HEIGHT), *through, (y, top[b])]
        # A back edge leaves at the bottom right, goes up beside the boxes, and enters at the top.
        beside = through or [(max(x, y) + WIDTH / 2 + GAP_X / 2, (top[a] + top[b] + HEIGHT) / 2)]
        return [
            (x + WIDTH / 4, top[a] + HEIGHT),
            (x + WIDTH / 4, top[a] + HEIGHT + 12),
            (beside[0][0], top[a] + HEIGHT + 12),
            *beside,
            (beside[-1][0], top[b] - 12),
            (y + WIDTH / 4, top[b] - 12),
            (y + WIDTH / 4, top[b]),
        ]


def _median(values: list[float], otherwise: float) -> float:
    if not values:
        return otherwise
    values.sort()
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
