"""What two numbers that loops carry are to each other in every round.

A ring that is filled ahead has a counter of what is filled and one of what is used, and the first is never behind the
second: not before the first round, and, whatever segment a round takes, not after it if not before it. Of all that is
suggested, what some segment does not keep is left out until the segments keep the rest (Flanagan and Leino, *Houdini, an
Annotation Assistant for ESC/Java*, 2001). What is assumed meanwhile is a fact like that of a branch, and known nowhere
else.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from tclint.dataflow.reachability import Reachability
from tclint.ir.cfg import CFG, Edge
from tclint.isa.widths import width_of

__all__ = ["refuted_comparisons"]

MAX_EDGES_PER_NEST = 256
"""Edges that are followed at most to find the segments between the heads of the loops of one nest."""
MAX_PAIRS_PER_NEST = 8
"""Pairs of numbers that are looked at in one nest of loops at most."""


class _Candidate(NamedTuple):
    """That a number is not below another one by more than a constant."""

    head: int
    """The inner one of the loops that carry the two."""
    below: int
    """The comparison that says that it is."""


class _Segment(NamedTuple):
    """A segment from the head of a loop to the next head, which may be the same; from -1 where no round is before."""

    source: int
    target: int
    edges: tuple[Edge, ...]


def refuted_comparisons(reachability: Reachability, root: int) -> dict[int, list[int]]:
    """For the head of each loop in the outermost one with head *root*, comparisons that do not hold in any of its rounds.

    They are of the numbers in that round.
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
    """Bounds of the differences that branches ask about: 0, and those before the first round."""
    cfg, values = reachability.cfg, reachability.values
    loop = cfg.loops[root]
    pairs: dict[tuple[int, int], int] = {}
    for block in loop:
        edges = cfg.successors[block]
        p = reachability.edge_value(edges[0]) if len(edges) > 1 else None
        for base in values.differences(p) if p is not None else ():
            x, y = (term for term, _ in values.linear(base)[0])
            heads = [values.node(v)[1] for v in (x, y) if values.node(v)[0] == "phi"]
            if len(heads) == 2 and all(h in loop and h in cfg.loops for h in heads):
                inner, outer = sorted(heads, key=lambda h: len(cfg.loops[h]))
                if inner in cfg.loops[outer]:
                    pairs[x, y] = inner
    if len(pairs) > MAX_PAIRS_PER_NEST:
        return []
    numbers = {0}
    for source in cfg.sources[root]:
        for both in pairs if source not in loop else ():
            x, y = (values.after_block(values.node(v)[2], source) for v in both)
            apart = values.known(values.add(x, values.times(y, -1)))
            numbers |= {apart, -apart} if apart is not None else set()
    found = []
    for x, y in sorted(pairs, key=lambda pair: [values.node(v)[1:] for v in pair]):
        width = width_of(values.function.registers[values.node(x)[2]].type) or 32
        for more, less in ((x, y), (y, x)):
            for number in sorted(numbers):
                least = values.add(less, values.constant(number))
                below = values.find(values.compare("lt", more, least, True, width))
                found.append(_Candidate(pairs[x, y], below))
    return found


def _segments(cfg: CFG, root: int) -> list[_Segment] | None:
    """The segments into a nest of loops and within it, each up to the first head; None: there are too many."""
    loop = cfg.loops[root]
    found = [
        _Segment(-1, root, (edge,))
        for edge in cfg.predecessors[root]
        if edge.source in cfg.rank and edge.source not in loop
    ]
    work = [_Segment(h, e.target, (e,)) for h in cfg.loops.keys() & loop for e in cfg.successors[h]]
    left = MAX_EDGES_PER_NEST
    while work and left:
        left -= 1
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
    """Those of the candidates *tested* that hold at the end of a segment, where those that are assumed hold before."""
    if not any(b.head == segment.target for b in tested):
        return tested
    cfg, values = reachability.cfg, reachability.values
    passed = (range(cfg.blocks[e.source].start, cfg.blocks[e.source].end) for e in segment.edges)
    along = values.along(segment.edges, frozenset(chain.from_iterable(passed)))
    literals = list(reachability.decided(segment.edges[0].source, passing=True).items())
    if segment.source >= 0:
        literals += [(b.below, False) for b in assumed if cfg.dominates(b.head, segment.source)]
    for k, edge in enumerate(segment.edges):
        p = reachability.edge_value(edge)
        if p is not None:
            literals.append((values.find(along.walk(p, k)), edge.value))
    return [b for b in tested if b.head != segment.target or values.contradicts(along(b.below), literals)]
