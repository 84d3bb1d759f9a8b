"""The control-flow graph of a function: blocks, edges, dominators, loops.

Everything is plain integers: blocks are numbered in program order, and block 0 is the entry. Guarded instructions that
do not transfer control stay inside their block; the analyses handle guards.

The algorithms are our own, because every function that is linted needs them. For the 20 largest functions at hand (36
to 672 blocks), reverse postorder, dominators and components take 14 ms, and 29 ms with networkx including the
construction of its graph; the blocks reachable from each block take 6 ms as bit sets, and 2,190 ms as its transitive
closure. The import of networkx alone takes more than 100 ms, so code that only displays a graph imports it locally.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import filterfalse
from operator import attrgetter
from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.ir.loops import Loop, LoopNest, strongly_connected
from tclint.ir.nodes import Function

if TYPE_CHECKING:
    import networkx

__all__ = ["CFG", "LEAVING", "Edge", "call_graph"]

LEAVING = ("return", "exit", "trap")
"""The flow of an instruction after which a thread executes nothing more of the function."""


class Edge(NamedTuple):
    """An edge between two blocks.

    The edge is taken if the register ``predicate`` has the truth value ``value``; -1 means unconditionally. ``case`` is
    the index of the entry in a branch table, -1 for any other edge.
    """

    source: int
    target: int
    predicate: int = -1
    value: bool = True
    case: int = -1


@dataclass
class Block:
    """A basic block: instructions ``start`` (inclusive) to ``end`` (exclusive)."""

    start: int
    end: int


_SOURCE = attrgetter("source")


class CFG:
    """The control-flow graph of one function.

    ``exits`` are the blocks that leave the function by ``ret``, ``exit`` or the end of the body, which has no edge (PTX
    ISA 9.7.12.6 and 9.7.12.7). A ``trap`` ends the program and does not count as an exit. A guarded exit also has an edge
    to the following block.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        instructions = function.instructions
        count = len(instructions)
        leaders = {0}
        for use in function.uses:
            if use.flow and use.match is not None and use.match.form.flow != "call":
                for i in use.sites:
                    leaders.add(i + 1)
                    leaders.update(t for t in instructions[i].targets if t >= 0)
        starts = sorted(s for s in leaders if s < count)
        self.blocks = (
            [Block(s, e) for s, e in zip(starts, [*starts[1:], count], strict=True)] if count else []
        )
        self.index = {block.start: b for b, block in enumerate(self.blocks)}
        self.successors: list[list[Edge]] = [[] for _ in self.blocks]
        self.predecessors: list[list[Edge]] = [[] for _ in self.blocks]
        self.exits: set[int] = set()
        self._controllers: dict[int, list[Edge]] = {}
        for b, block in enumerate(self.blocks):
            last = instructions[block.end - 1]
            flow = last.flow
            guard, taken = last.guard, not last.negated
            following = b + 1 if b + 1 < len(self.blocks) else -1
            if flow == "branch":
                if last.targets and last.targets[0] >= 0:
                    self._edge(b, last.targets[0], guard, taken)
                if guard >= 0:
                    self._follow(b, following, guard, not taken)
            elif flow == "branch-table":
                for case, target in enumerate(last.targets):
                    if target >= 0:
                        self._edge(b, target, guard, taken, case)
                if guard >= 0:
                    self._follow(b, following, guard, not taken)
            elif flow in LEAVING:
                if flow != "trap":
                    self.exits.add(b)
                if guard >= 0:
                    self._follow(b, following, guard, not taken)
            else:
                self._follow(b, following)

    def _edge(
        self, source: int, target: int, predicate: int = -1, value: bool = True, case: int = -1
    ) -> None:
        block = self.index.get(target)
        if block is None:  # a label at the very end of the body
            self.exits.add(source)
            return
        edge = Edge(source, block, predicate, value, case)
        self.successors[source].append(edge)
        self.predecessors[block].append(edge)

    def _follow(self, source: int, following: int, predicate: int = -1, value: bool = True) -> None:
        if following < 0:
            self.exits.add(source)
            return
        edge = Edge(source, following, predicate, value)
        self.successors[source].append(edge)
        self.predecessors[following].append(edge)

    # ------------------------------------------------------------ order and dominance

    @cached_property
    def block_of(self) -> list[int]:
        """The block number of every instruction."""
        numbers: list[int] = []
        for b, block in enumerate(self.blocks):
            numbers.extend([b] * (block.end - block.start))
        return numbers

    @cached_property
    def order(self) -> list[int]:
        """The reachable blocks in reverse postorder."""
        if not self.blocks:
            return []
        seen = [False] * len(self.blocks)
        seen[0] = True
        post: list[int] = []
        stack: list[tuple[int, Iterator[Edge]]] = [(0, iter(self.successors[0]))]
        while stack:
            block, edges = stack[-1]
            for edge in edges:
                if not seen[edge.target]:
                    seen[edge.target] = True
                    stack.append((edge.target, iter(self.successors[edge.target])))
                    break
            else:
                stack.pop()
                post.append(block)
        post.reverse()
        return post

    @cached_property
    def rank(self) -> dict[int, int]:
        """Position of each reachable block in :attr:`order`."""
        return {block: at for at, block in enumerate(self.order)}

    @cached_property
    def sources(self) -> list[tuple[int, ...]]:
        """For every block, its reachable predecessors in ascending order."""
        rank = self.rank
        return [tuple(sorted({e.source for e in edges if e.source in rank})) for edges in self.predecessors]

    @cached_property
    def targets(self) -> list[tuple[int, ...]]:
        """For every block, its successors, each once."""
        return [tuple({e.target: None for e in edges}) for edges in self.successors]

    @cached_property
    def idom(self) -> dict[int, int]:
        """The immediate dominator of every reachable block; that of the entry is itself."""
        return _dominators(self.order, self.rank, self.sources.__getitem__)

    @cached_property
    def frontiers(self) -> dict[int, set[int]]:
        """The dominance frontier of every reachable block: the joins of paths through it with paths that avoid it."""
        children: dict[int, list[int]] = {b: [] for b in self.order}
        for b in self.order:
            children[self.idom[b]].append(b)  # the entry is one of its own
        found: dict[int, set[int]] = {}
        for b in reversed(self.order):
            below = children[b]
            beyond = (found[child] for child in below if child != b)
            found[b] = set(self.targets[b]).union(*beyond).difference(below)
        return found

    def joins(self, blocks: Iterable[int]) -> set[int]:
        """The joins of paths on which different ones of *blocks* are the last: their iterated dominance frontier.

        A path from the entry that passes none of them counts as well. Unreachable blocks are ignored.
        """
        found, new = set[int](), self.frontiers.keys() & blocks
        while new:
            new = set[int]().union(*map(self.frontiers.__getitem__, new)) - found
            found |= new
        return found

    def aborts(self, block: int) -> bool:
        """Whether *block* ends the program (``trap``)."""
        return self.function.instructions[self.blocks[block].end - 1].flow == "trap"

    def dominates(self, a: int, b: int) -> bool:
        """Whether block *a* dominates block *b*: every path from the entry to *b* passes *a*.

        False if either is unreachable.
        """
        first, last = self.dominated
        return first[a] <= first[b] < last[a]

    @cached_property
    def dominated(self) -> tuple[list[int], list[int]]:
        """For each block, the range of the numbers of the blocks that it dominates, as in preorder of the dominator tree.

        The range is empty for an unreachable block, and no other range has its number.
        """
        first, last = [-1] * len(self.blocks), [-1] * len(self.blocks)
        for block, (begin, end) in _preorder(self.order, self.idom).items():
            first[block], last[block] = begin, end
        return first, last

    @cached_property
    def ipdom(self) -> dict[int, int]:
        """The immediate post-dominator of every block that reaches an end of the function; -1 is the end itself.

        A block that aborts the kernel is not an end: if one thread aborts, no thread continues.
        """
        return self._post_dominators(
            self.order,
            [b for b in self.order if b in self.exits or not (self.successors[b] or self.aborts(b))],
        )

    @cached_property
    def _ipdom_of_aborts(self) -> dict[int, int]:
        """The immediate post-dominators of the blocks that reach no end, with blocks that abort the kernel as the
        ends."""
        blocks = [b for b in self.order if b not in self.ipdom]
        return self._post_dominators(blocks, [b for b in blocks if self.aborts(b)])

    def _post_dominators(self, blocks: list[int], ends: list[int]) -> dict[int, int]:
        """The immediate post-dominators within *blocks*, with edges from *ends* to one artificial end, -1."""
        inside = set(blocks)
        reverse: dict[int, list[int]] = {-1: ends}
        for b in blocks:
            reverse[b] = [e.source for e in self.predecessors[b] if e.source in inside]
        seen = {-1}
        post: list[int] = []
        stack: list[tuple[int, Iterator[int]]] = [(-1, iter(ends))]
        while stack:
            node, rest = stack[-1]
            for nxt in rest:
                if nxt not in seen:
                    seen.add(nxt)
                    stack.append((nxt, iter(reverse[nxt])))
                    break
            else:
                stack.pop()
                post.append(node)
        post.reverse()
        rank = {node: at for at, node in enumerate(post)}
        end_set = set(ends)

        def before(b: int) -> list[int]:
            found = [e.target for e in self.successors[b] if e.target in rank] if b >= 0 else []
            if b in end_set:
                found.append(-1)
            return found

        return _dominators(post, rank, before)

    @cached_property
    def reachable_from(self) -> list[int]:
        """For every block, the set of blocks that can be executed after it, with one bit per block."""
        following = [0] * len(self.blocks)
        # Exits first, so that only loops need more than one iteration.
        blocks = [*reversed(self.order), *(b for b in range(len(self.blocks)) if b not in self.rank)]
        changed = True
        while changed:
            changed = False
            for b in blocks:
                found = following[b]
                for edge in self.successors[b]:
                    found |= following[edge.target] | 1 << edge.target
                if found != following[b]:
                    following[b], changed = found, True
        return following

    def in_later_iteration(self, first: int, second: int) -> bool:
        """Whether instruction *second* can be executed after *first*, another one, but only after a back edge."""
        begin, end, rank = self.block_of[first], self.block_of[second], self.rank
        if first == second or not self.reachable_from[begin] >> end & 1 or begin not in rank:
            return False
        if begin == end:
            return second < first
        seen, work = {begin}, [begin]
        while work and end not in seen:
            at = rank[work[-1]]
            onward = [b for b in self.targets[work.pop()] if at < rank[b] <= rank[end] and b not in seen]
            seen.update(onward)
            work += onward
        return end not in seen

    @cached_property
    def back_edges(self) -> dict[int, list[Edge]]:
        """Loop header -> the edges that return to it from blocks that it dominates."""
        rank = self.rank
        found: dict[int, list[Edge]] = {}
        for b in self.order:
            for edge in self.successors[b]:
                if rank[edge.target] <= rank[b] and self.dominates(edge.target, b):
                    found.setdefault(edge.target, []).append(edge)
        return found

    def in_every_iteration(self, block: int, header: int) -> bool:
        """Whether every path around the loop of *header* passes *block*."""
        return all(self.dominates(block, edge.source) for edge in self.back_edges[header])

    @cached_property
    def nest(self) -> LoopNest:
        """The natural loops, and how they are nested."""
        latches = {header: [edge.source for edge in edges] for header, edges in self.back_edges.items()}
        return LoopNest(self.order, self.sources, latches)

    @cached_property
    def loops(self) -> dict[int, Loop]:
        """Loop header -> the blocks of its natural loop."""
        return self.nest.loops

    def innermost(self, *blocks: int) -> AbstractSet[int]:
        """The blocks of the smallest loop that contains all of *blocks*; empty if there is none."""
        first, *others = blocks
        loops = map(self.loops.__getitem__, self.nest.around(first))
        return next((loop for loop in loops if all(b in loop for b in others)), frozenset())

    def enclosing_loops(self, *blocks: int) -> list[int]:
        """The headers of the loops that contain all of *blocks*, in the order of :attr:`loops`."""
        first, *others = blocks
        around = sorted(self.nest.around(first), key=self.nest.number.__getitem__)
        return [h for h in around if all(b in self.loops[h] for b in others)] if others else around

    @cached_property
    def leaving(self) -> dict[int, list[Edge]]:
        """Loop header -> the edges that leave the loop, in the order of their blocks."""
        found: dict[int, list[Edge]] = {header: [] for header in self.loops}
        for block in sorted(self.order):
            for edge in self.successors[block]:
                for header in self.nest.around(block):
                    if edge.target in self.loops[header]:
                        break
                    found[header].append(edge)
        return found

    @cached_property
    def in_cycle(self) -> frozenset[int]:
        """The blocks that can be executed more than once."""
        component = self.component
        size = Counter(component.values())
        return frozenset(
            b
            for b, number in component.items()
            if size[number] > 1 or any(e.target == b for e in self.successors[b])
        )

    @cached_property
    def component(self) -> dict[int, int]:
        """For every reachable block, the number of its strongly connected component; no edge leads to a larger
        number."""
        parts = strongly_connected(self.order, lambda b: (edge.target for edge in self.successors[b]))
        return {block: number for number, part in enumerate(parts) for block in part}

    def control_dependences(self, block: int) -> list[Edge]:
        """The branch edges on which *block* is control-dependent, transitively."""
        known = self._controllers.get(block)
        if known is not None:
            return known
        found: list[Edge] = self._controllers.setdefault(block, [])
        seen: set[int] = set()
        work = [block]
        while work:
            b = work.pop()
            if b in seen:
                continue
            seen.add(b)
            edges = self._dependence.get(b, ())
            found += edges
            work += filterfalse(seen.__contains__, map(_SOURCE, edges))
        return found

    def selecting(self, block: int) -> list[Edge]:
        """The edges that decide by which edge *block* is entered: its incoming edges, and those on which the source of
        one is control-dependent, but not *block* itself.
        """
        own = {(edge.source, edge.target) for edge in self.control_dependences(block)}
        found: dict[Edge, None] = {}
        for last in self.predecessors[block]:
            before = self.control_dependences(last.source)
            found.update(dict.fromkeys(edge for edge in before if (edge.source, edge.target) not in own))
            found[last] = None
        return list(found)

    @cached_property
    def _dependence(self) -> dict[int, list[Edge]]:
        """Block -> the edges on which it is directly control-dependent (Ferrante, Ottenstein and Warren).

        Blocks that only lead to an abort of the kernel reach no end; they get post-dominators of their own.
        """
        parents = self.ipdom
        if len(parents) <= len(self.order):  # if every block reaches an end, -1 makes it one more
            parents = self._ipdom_of_aborts | parents
        found: defaultdict[int, list[Edge]] = defaultdict(list)
        for b in self.order:
            edges = self.successors[b]
            if len(edges) + (b in self.exits) < 2:
                continue
            stop = parents.get(b)
            for edge in edges:
                node = edge.target if edge.target in parents else -1
                while node not in (stop, -1):
                    found[node].append(edge)
                    node = parents[node]
        return found


def _dominators(
    order: list[int], rank: dict[int, int], before: Callable[[int], Iterable[int]]
) -> dict[int, int]:
    """Node -> immediate dominator, by the algorithm of Cooper, Harvey and Kennedy over *order*, whose first node is the
    root."""
    if not order:
        return {}
    root = order[0]
    idom: dict[int, int] = {root: root}
    # The nearest predecessor comes first: each other one then ends higher in the tree, and no part of it is passed twice.
    preds = {b: sorted(before(b), key=rank.__getitem__, reverse=True) for b in order}
    retreating = [(b, p) for b in order for p in preds[b] if rank[p] >= rank[b]]
    changed = True
    while changed:
        changed = False
        for b in order[1:]:
            new = -2
            for p in preds[b]:
                if p not in idom:
                    continue
                if new == -2:
                    new = p
                    continue
                a = p
                while a != new:
                    while rank[a] > rank[new]:
                        a = idom[a]
                    while rank[new] > rank[a]:
                        new = idom[new]
            if new != -2 and idom.get(b) != new:
                idom[b] = new
                changed = True
        # A predecessor that the block itself dominates changes nothing: with no other ones that follow it, one pass is enough.
        ranges = _preorder(order, idom) if retreating else {}
        if all(ranges[b][0] <= ranges[p][0] < ranges[b][1] for b, p in retreating):
            break
    return idom


def _preorder(order: list[int], idom: dict[int, int]) -> dict[int, tuple[int, int]]:
    """Node -> the range of the numbers of the nodes that it dominates, itself the first, in preorder of the tree *idom*."""
    children: dict[int, list[int]] = {}
    for node in order[1:]:
        children.setdefault(idom[node], []).append(node)
    size = dict.fromkeys(order, 1)
    for node in reversed(order[1:]):
        size[idom[node]] += size[node]
    found: dict[int, tuple[int, int]] = {}
    work = [(order[0], 0)] if order else []
    while work:
        node, number = work.pop()
        found[node] = number, number + size[node]
        number += 1
        for child in children.get(node, ()):
            work.append((child, number))
            number += size[child]
    return found


def call_graph(functions: list[Function]) -> networkx.DiGraph[str]:
    """The call graph of *functions* by name; an indirect call adds an edge to ``?``."""
    import networkx

    graph: networkx.DiGraph[str] = networkx.DiGraph()
    for function in functions:
        graph.add_node(function.name)
        for instruction in function.instructions:
            if instruction.flow == "call":
                graph.add_edge(function.name, instruction.callee or "?")
    return graph
