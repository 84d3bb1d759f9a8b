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
from typing import NamedTuple

from tclint.dataflow.reachability import Reachability
from tclint.ir.cfg import CFG, Edge
from tclint.isa.widths import width_of
from tclint.values.nodes import Phi, Value

__all__ = ["refuted_comparisons"]

MAX_EDGES_PER_NEST = 256
"""Edges that may be followed to find the segments between the headers of one loop nest."""
MAX_PAIRS_PER_NEST = 8
"""Pairs of values for which one loop nest may be searched: each is tried with every candidate constant."""


class _Candidate(NamedTuple):
    """The claim that a value is at least another value plus a constant."""

    head: int
    """The inner one of the loops that carry the two values."""
    below: Value
    """The comparison that contradicts the claim."""


class _Segment(NamedTuple):
    """A path from one loop header to the next, possibly the same; *source* is -1 for an edge into the nest."""

    source: int
    target: int
    edges: tuple[Edge, ...]


def refuted_comparisons(reachability: Reachability, root: int) -> dict[int, list[Value]]:
    """For each loop header in the nest with outermost header *root*, the comparisons that are false in all iterations.

    The comparisons are in terms of the values of the current iteration.
    """
    candidates, kept = _candidates(reachability, root), list[_Candidate]()
    segments = _segments(reachability.cfg, root) if candidates else None
    while segments is not None:
        kept = candidates
        for segment in segments:
            kept = _preserved(reachability, segment, kept, candidates)
        if len(kept) == len(candidates):
            break
        candidates = kept
    heads = reachability.cfg.loops.keys() & reachability.cfg.loops[root]
    return {head: [b.below for b in kept if b.head == head] for head in heads}


def _candidates(reachability: Reachability, root: int) -> list[_Candidate]:
    """Bounds of the differences that branches test: 0, and the differences before the first iteration."""
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
        return []
    numbers = {0}
    for source in cfg.sources[root]:
        for both in pairs if source not in loop else ():
            x, y = (values.after_block(values.phi(v).register, source) for v in both)
            difference = values.constant_of(values.add(x, values.times(y, -1)))
            numbers |= {difference, -difference} if difference is not None else set()
    found = []
    for x, y in sorted(pairs, key=lambda pair: [(values.phi(v).block, values.phi(v).register) for v in pair]):
        width = width_of(values.function.registers[values.phi(x).register].type) or 32
        for more, less in ((x, y), (y, x)):
            for number in sorted(numbers):
                least = values.add(less, values.constant(number))
                below = values.representative(values.compare("lt", more, least, True, width))
                found.append(_Candidate(pairs[x, y], below))
    return found


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


def _preserved(
    reachability: Reachability, segment: _Segment, tested: list[_Candidate], assumed: list[_Candidate]
) -> list[_Candidate]:
    """The candidates among *tested* that hold at the end of a segment if those *assumed* hold at its start."""
    if not any(b.head == segment.target for b in tested):
        return tested
    cfg, values = reachability.cfg, reachability.values
    passed = (range(cfg.blocks[e.source].start, cfg.blocks[e.source].end) for e in segment.edges)
    along = values.along(segment.edges, frozenset(chain.from_iterable(passed)))
    literals = list(reachability.path_condition(segment.edges[0].source, in_iteration=True).items())
    if segment.source >= 0:
        literals += [(b.below, False) for b in assumed if cfg.dominates(b.head, segment.source)]
    for k, edge in enumerate(segment.edges):
        p = reachability.edge_predicate(edge)
        if p is not None:
            literals.append((values.representative(along.walk(p, k)), edge.value))
    return [b for b in tested if b.head != segment.target or values.contradicts(along(b.below), literals)]
