"""Which threads can reach a block, and which path condition holds there.

For each block, the set of threads that may reach it: all of them at the entry, narrowed at every edge to those in which
the predicate of the edge may be true. In addition, the predicates whose truth every path from the entry implies.
"""

from __future__ import annotations

from functools import cached_property

from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Site
from tclint.values import PathCondition, Values
from tclint.values import thread_masks as T
from tclint.values.nodes import Arithmetic, Compare, Loaded, Masked, Opaque, Packed, PartOf, Sum, Value

_OF_A_NUMBER = frozenset((PartOf, Packed, Sum, Masked, Arithmetic, Opaque))
"""What a loaded number of a role may be computed by."""

__all__ = ["Reachability"]


class Reachability:
    """The threads that reach each block of one function, and the path conditions there."""

    def __init__(self, cfg: CFG, values: Values) -> None:
        self.cfg = cfg
        self.values = values
        self._facts: dict[tuple[int, bool], PathCondition] = {}
        self._closed: set[int] = set()
        """Blocks whose dominating branch conditions are jointly unsatisfiable."""
        self._edge_predicates: dict[int, int] = {}

    def closed(self, block: int) -> bool:
        """Whether the branch conditions that dominate *block* contradict each other.

        :meth:`path_condition` must have been called for the block.
        """
        return block in self._closed

    def edge_predicate(self, edge: Edge) -> Value | None:
        """The predicate that decides whether *edge* is taken; None for an edge without a condition."""
        if edge.predicate < 0:
            return None
        p = self._edge_predicates.get(edge.source)
        if p is None:
            p = self.values.before(edge.predicate, self.cfg.blocks[edge.source].end - 1)
            self._edge_predicates[edge.source] = p
        return self.values.representative(p)

    def incoming(self, phi: Value) -> tuple[Value, ...]:
        """The arguments of *phi* on edges that some thread may take: not that of the back edge of a loop that is never
        entered. Empty if the arguments were not followed."""
        block, arguments = self.values.phi(phi).block, self.values.arguments(phi)
        entered = {
            edge.source
            for edge in self.cfg.predecessors[block]
            if self.threads_at.get(edge.source, 0) & self._may_take.get(edge, 0)
        }
        pairs = zip(self.cfg.sources[block], arguments, strict=False)
        return tuple(argument for source, argument in pairs if source in entered) or arguments

    @cached_property
    def threads_at(self) -> dict[int, T.Threads]:
        """The threads that may reach each block."""
        cfg = self.cfg
        # If their number is stated, no thread completes the last warp.
        every = T.full(cfg.function.threads or self.values.threads)
        reach: dict[int, int] = {0: every} if cfg.blocks else {}
        work = list(cfg.order)
        while work:
            changed = []
            for b in work:
                here = reach.get(b, 0)
                for edge in cfg.successors[b]:
                    there = reach.get(edge.target, 0)
                    new = there | (here & self._may_take[edge])
                    if new != there or (edge.target not in reach and new):
                        reach[edge.target] = new
                        changed.append(edge.target)
            work = sorted(set(changed), key=lambda b: cfg.rank[b])
        return reach

    @cached_property
    def _may_take(self) -> dict[Edge, T.Threads]:
        """The threads that may take each edge, however they got to its source."""
        return {edge: self._taking(edge) for b in self.cfg.order for edge in self.cfg.successors[b]}

    def _taking(self, edge: Edge) -> T.Threads:
        values, p = self.values, self.edge_predicate(edge)
        threads = T.full(values.threads) if p is None else values.feasible_threads(p, edge.value)
        # What decides a comparison without a path condition decides it for all threads.
        if p is not None and threads and type(values.node(p)) is Compare:
            threads = 0 if values.entails(p, PathCondition()) is (not edge.value) else threads
        if edge.case >= 0:
            threads &= values.threads_where_equal(self._selected(edge.source), edge.case)
        return threads

    def _selected(self, block: int) -> Value:
        """The value that selects the case of the branch table at the end of *block*."""
        last = self.cfg.blocks[block].end - 1
        return self.values.operand(self.cfg.function.instructions[last].operands[0], last)

    @cached_property
    def dispatchers(self) -> frozenset[int]:
        """Blocks that dispatch warp roles: ``brx.idx`` over a number loaded from shared memory.

        Warp-specialised Triton keeps a table of role numbers there, and every role ends by branching back. No fact may
        pass through such a block from one role to another. Any other branch table is a switch of one thread, which
        keeps all facts on every branch.
        """
        found = set()
        for b in self.cfg.order:
            last = self.cfg.function.instructions[self.cfg.blocks[b].end - 1]
            if last.flow == "branch-table":
                node = self.values.node(self._selected(b))
                while type(node) in _OF_A_NUMBER and node.operands:
                    node = self.values.node(node.operands[0])
                if type(node) is Loaded and self._from_shared(node.site):
                    found.add(b)
        return frozenset(found)

    def _from_shared(self, load: Site) -> bool:
        """Whether the instruction *load* may read shared memory."""
        match = self.cfg.function.instructions[load].match
        return match is None or match.space == "" or match.space.startswith(".shared")

    @cached_property
    def unresolved_dispatchers(self) -> frozenset[int]:
        """The dispatchers for which it is unknown which warps take which role."""
        return frozenset(b for b in self.dispatchers if not self.values.looked_up(self._selected(b)))

    @cached_property
    def aborted(self) -> bool:
        """Whether some thread aborts the kernel (``trap``) in every launch, so that no result of the kernel counts."""
        cfg, values = self.cfg, self.values
        aborting = sum(1 << b for b in cfg.order if cfg.aborts(b))
        visited: dict[int, int] = {}
        work = [(0, T.full(values.threads))] if aborting else []
        while work:
            block, threads = work.pop()
            threads &= ~visited.get(block, 0)
            if not threads or block < 0:
                continue
            visited[block] = visited.get(block, 0) | threads
            left = staying = threads
            edges = cfg.successors[block]
            for edge in edges:
                p = self.edge_predicate(edge)
                sure = threads if len(edges) == 1 and p is None else 0
                if p is not None and edge.case < 0:
                    sure = threads & ~values.feasible_threads(p, not edge.value)
                work.append((edge.target, sure))
                left &= ~sure
                staying &= 0 if p is None else ~values.feasible_threads(p, edge.value)
            if staying and cfg.aborts(block):
                return True
            if left and block not in cfg.ipdom and cfg.reachable_from[block] & aborting:
                return True  # no path leads to an exit
            work.append((cfg.ipdom.get(block, -1), left))
        return False

    def path_condition(self, block: int, in_iteration: bool = False) -> PathCondition:
        """What the branches on every path from the entry to *block* imply.

        Only what holds for the whole life of a thread, unless *in_iteration*: then also what holds for the current
        iteration. The operands of a branch's predicate are computed before it, so a thread that recomputes them passes
        the branch again.
        """
        cfg, values = self.cfg, self.values
        chain = []
        b = block
        while (b, in_iteration) not in self._facts and cfg.idom.get(b, b) != b:
            chain.append(b)
            b = cfg.idom[b]
        facts = self._facts.get((b, in_iteration), PathCondition())
        for b in reversed(chain):
            # A back edge starts at a block that the loop header dominates, so it adds no condition.
            incoming = [
                e for e in cfg.predecessors[b] if e.source in cfg.rank and not cfg.dominates(b, e.source)
            ]
            if cfg.idom[b] in self._closed:
                self._closed.add(b)
            if len(incoming) == 1:
                p = self.edge_predicate(incoming[0])
                implied = (
                    PathCondition() if p is None else values.refine(p, incoming[0].value, PathCondition())
                )
                if not in_iteration:
                    implied = values.invariant(implied)
                for q, truth in implied.items():
                    if not in_iteration and values.entails(q, facts) is (not truth):
                        self._closed.add(b)
                    facts = values.refine(q, truth, facts)
            self._facts[b, in_iteration] = facts
        return facts
