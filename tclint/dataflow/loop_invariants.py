"""Loop invariants: differences of two loop-carried values that stay within a bound in every iteration.

A ring buffer that is filled ahead has a counter of the stages filled and one of the stages used, and the first is never
less than the second. That holds before the first iteration and, on whatever path an iteration takes, after it if before
it. The proof is that of Houdini (Flanagan and Leino, *Houdini, an Annotation Assistant for ESC/Java*, 2001): guess
candidates, assume all of them, drop those that some path segment does not preserve, and repeat until all are preserved.
A candidate is assumed as the fact of a branch would be, and only inside the proof.

A *segment* is a path from a loop header, or from before the nest, to the next loop header. The result is sound up to
the assumption of :mod:`tclint.values` that signed numbers do not wrap; beyond the limits below, nothing is proven.
"""

from __future__ import annotations

from itertools import chain

from tclint._named_tuple import NamedTuple
from tclint.dataflow.reachability import Reachability
from tclint.ir.cfg import CFG, Edge
from tclint.isa.widths import width_of
from tclint.values import PathSubstitution, Values
from tclint.values.nodes import Literal, Phi, Value

__all__ = ["Invariant", "loop_invariants"]


MAX_EDGES_PER_NEST = 256
"""Edges that may be followed to find the segments between the headers of one loop nest."""
MAX_PAIRS_PER_NEST = 8
"""Pairs of values for which one loop nest may be searched: each is tried with every candidate constant."""


class Invariant(NamedTuple):
    """The claim that a value is at least another value plus a number: one that holds, or a candidate.

    The two values are those of the current iteration, each given by the header of the loop that carries it and its register.
    """

    head: int
    """The inner one of the two loops."""
    more: tuple[int, int]
    less: tuple[int, int]
    number: int

    def contradicted_by(self, values: Values, cfg: CFG) -> Value:
        """The comparison that contradicts the claim."""
        more, less = (
            values.before(register, cfg.blocks[head].start) for head, register in (self.more, self.less)
        )
        width = width_of(values.function.registers[self.more[1]].type) or 32
        least = values.add(less, values.constant(self.number))
        return values.representative(values.compare("lt", more, least, True, width))


class _Segment(NamedTuple):
    """A path from one loop header to the next, possibly the same; *source* is -1 for an edge into the nest."""

    source: int
    target: int
    edges: tuple[Edge, ...]


class _Assumptions(NamedTuple):
    """What a path along a segment assumes, and what values become on it."""

    segment: _Segment
    along: PathSubstitution
    before: tuple[Literal, ...]
    """At its start."""
    passed: tuple[Literal, ...]
    """At its branches."""


def loop_invariants(reachability: Reachability, root: int) -> list[Invariant]:
    """What holds in all iterations of the loops in the nest with outermost header *root*."""
    candidates = _candidates(reachability, root)
    segments = _segments(reachability.cfg, root) if candidates else None
    if segments is None:
        return []
    paths = [path for path in (_assumptions(reachability, each) for each in segments) if path is not None]
    while True:
        kept = candidates
        for path in paths:
            kept = _preserved(reachability, path, kept, candidates)
        if len(kept) == len(candidates):
            return [*kept]
        candidates = kept


def _candidates(reachability: Reachability, root: int) -> dict[Invariant, Value]:
    """Bounds of the differences that branches test: 0, and the differences before the first iteration.

    Each has the comparison that contradicts it.
    """
    cfg, values = reachability.cfg, reachability.values
    loop = cfg.loops[root]
    pairs: dict[tuple[int, int], int] = {}
    for block in loop:
        edges = cfg.successors[block]
        p = reachability.edge_predicate(edges[0]) if len(edges) > 1 else None
        for base in values.differences(p) if p is not None else ():
            x, y = (term for term, _ in values.linear(base)[0])
            heads = [node.block for node in map(values.node, (x, y)) if type(node) is Phi]
            if len(heads) == 2 and all(h in loop and h in cfg.loops for h in heads):
                inner, outer = sorted(heads, key=lambda h: len(cfg.loops[h]))
                if inner in cfg.loops[outer]:
                    pairs[x, y] = inner
    if len(pairs) > MAX_PAIRS_PER_NEST:
        return {}
    numbers = {0}
    for source in cfg.sources[root]:
        for both in pairs if source not in loop else ():
            x, y = (values.after_block(values.phi(v).register, source) for v in both)
            difference = values.constant_of(values.add(x, values.times(y, -1)))
            numbers |= {difference, -difference} if difference is not None else set()
    found: list[Invariant] = []
    for x, y in sorted(pairs, key=lambda pair: [(values.phi(v).block, values.phi(v).register) for v in pair]):
        places = [(values.phi(v).block, values.phi(v).register) for v in (x, y)]
        for more, less in (places, places[::-1]):
            found += [Invariant(pairs[x, y], more, less, number) for number in sorted(numbers)]
    return {each: each.contradicted_by(values, cfg) for each in found}


def _segments(cfg: CFG, root: int) -> list[_Segment] | None:
    """The segments that enter a loop nest and those inside it; None if there are too many."""
    loop = cfg.loops[root]
    found = [
        _Segment(-1, root, (edge,))
        for edge in cfg.predecessors[root]
        if edge.source in cfg.rank and edge.source not in loop
    ]
    work = [_Segment(h, e.target, (e,)) for h in cfg.loops.keys() & loop for e in cfg.successors[h]]
    budget = MAX_EDGES_PER_NEST
    while work and budget:
        budget -= 1
        segment = work.pop()
        if segment.target in cfg.loops:
            found += [segment] if segment.target in loop else []
        elif segment.target in loop:
            work += [
                _Segment(segment.source, e.target, (*segment.edges, e))
                for e in cfg.successors[segment.target]
            ]
    return None if work else found


def _assumptions(reachability: Reachability, segment: _Segment) -> _Assumptions | None:
    """What a path along *segment* assumes apart from invariants; None if no path does."""
    cfg, values = reachability.cfg, reachability.values
    sites = (range(cfg.blocks[e.source].start, cfg.blocks[e.source].end) for e in segment.edges)
    along = values.along(segment.edges, frozenset(chain.from_iterable(sites)))
    before = tuple(reachability.path_condition(segment.edges[0].source, in_iteration=True).items())
    predicates = ((k, edge, reachability.edge_predicate(edge)) for k, edge in enumerate(segment.edges))
    passed = tuple(
        (values.representative(along.walk(p, k)), edge.value) for k, edge, p in predicates if p is not None
    )
    if not values.satisfiable((*before, *passed)):
        return None
    return _Assumptions(segment, along, before, passed)


def _preserved(
    reachability: Reachability,
    path: _Assumptions,
    tested: dict[Invariant, Value],
    assumed: dict[Invariant, Value],
) -> dict[Invariant, Value]:
    """The candidates among *tested* that hold at the end of a segment if those *assumed* hold at its start."""
    segment, along, before, passed = path
    concerned = [b for b in tested if b.head == segment.target]
    if not concerned:
        return tested
    if segment.source >= 0:
        dominates = reachability.cfg.dominates
        before += tuple((below, False) for b, below in assumed.items() if dominates(b.head, segment.source))
    after = [along(tested[b]) for b in concerned]
    holds = reachability.values.contradicted(after, (*before, *passed))
    lost = {b for b, held in zip(concerned, holds, strict=True) if not held}
    return {b: below for b, below in tested.items() if b not in lost} if lost else tested
