"""Feasible paths that are implausible, so that a hit along them gets low confidence.

No fact excludes these paths, but real launches may never take them: the path skips what waits on other paths between
the same instructions, or depends on a trip count, a guard or an address that is unknown. The heuristics
over-approximate: a doubtful path may well be the one on which the kernel fails, so they lower the confidence and never
drop a hit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.dataflow.feasible_paths import Path
from tclint.ir.cfg import CFG, Edge
from tclint.values import UniformityScope

__all__ = [
    "OUT_OF_ARRAY",
    "PART_OF_A_WARP",
    "in_warps",
    "leaves_its_round",
    "left_out",
    "none_yet",
    "placed",
    "runs_on",
    "spared",
    "unused",
]

OUT_OF_ARRAY = (
    "the path repeats a loop whose trip count is unknown, and that many iterations may run past the array"
)
"""The doubt where :func:`runs_on` holds."""
PART_OF_A_WARP = (
    "only lanes of one warp synchronise between the two (bar.warp.sync), "
    "and they may use their own part of the memory"
)
"""The doubt where :func:`in_warps` holds and nothing shows that the warps share the memory."""
_DATA = frozenset(("parameter", "load", "unknown"))
"""The kinds of nodes whose value neither the text nor the thread index determines."""
_RUNTIME = _DATA | {"special"}
"""The kinds of nodes whose value the text does not determine."""
_MIN_SWITCH_CASES = 4
"""Mutually exclusive blocks that make a branch a switch, the one on the path included."""


class _Fork(NamedTuple):
    """A branch on a path, of which the path also passes the join."""

    at: int
    """The index in the path of the edge that is taken."""
    edge: Edge
    own: set[int]
    """The blocks asked about that the path passes before the join."""
    passed: set[int]
    """The blocks asked about on the other paths from the branch to the join."""
    cases: int
    """How many of the blocks asked about are mutually exclusive between the branch and the join."""


def _forks(cfg: CFG, path: Path, sites: Iterable[int]) -> Iterator[_Fork]:
    """The forks of *path*, with the blocks of *sites* on either side."""
    holding = {cfg.block_of[i] for i in sites}.intersection(cfg.rank)
    entered = [edge.target for edge in path.edges]
    for at, edge in enumerate(path.edges):
        join, rest = cfg.ipdom.get(edge.source, -1), entered[at:]
        if join in rest:
            ends = {join, edge.source}
            others = {e.target for e in cfg.successors[edge.source]} - {edge.target}
            passed = holding & _between(cfg, others, ends)
            either = passed | (holding & _between(cfg, [edge.target], ends))
            yield _Fork(
                at, edge, holding.intersection(rest[: rest.index(join)]), passed, _cases(cfg, either, ends)
            )


def left_out(model: KernelModel, path: Path, sites: Iterable[int]) -> Edge | None:
    """The edge by which *path* skips a loop, or all cases of a switch, that contain one of *sites*; None if none.

    A kernel that waits in each iteration of a loop, or in the cases of a switch, is synchronised by design. A trip
    count of zero, or a value that matches no case, is not evidence of a defect. Nor is a CTA with no work, which waits
    for nothing.
    """
    cfg = model.cfg
    for at, edge, own, passed, cases in _forks(cfg, path, sites):
        if not own and any(
            not passed.isdisjoint(loop)
            for head, loop in cfg.loops.items()
            # The trip count is tested before the loop, or at its header before the first iteration.
            if edge.source not in loop
            or (
                edge.source == head and edge.target not in loop and not _iterated(loop, head, path.edges[:at])
            )
        ):
            return edge
        if (passed and not own and _idle(model, edge)) or cases >= (_MIN_SWITCH_CASES if own else 2):
            return edge
    return None


def none_yet(model: KernelModel, path: Path) -> Edge | None:
    """The edge on which *path* assumes that an unknown value equals the negative sentinel a loop starts with, or None.

    A loop that remembers what it loaded last starts with -1 for "nothing yet", which no first value equals.
    """
    values = model.values
    along = values.along(path.edges, frozenset())
    for k, edge in enumerate(path.edges):
        p = model.reachability.edge_predicate(edge)
        node, truth = ((), False) if p is None else (values.node(p), edge.value)
        if node[:1] == ("not",):
            node, truth = values.node(node[1]), not truth
        if truth and node[:2] == ("compare", "eq") and values.constant_of(node[3]) is None:
            constants = [values.constant_of(along.walk(side, k)) for side in node[2:4]]
            if None in constants and any(n is not None and n < 0 for n in constants):
                return edge
    return None


def spared(model: KernelModel, path: Path, sites: Iterable[int], start: int | None = None) -> Edge | None:
    """The edge by which *path* skips one of *sites* because of a CTA-uniform value that the text does not determine.

    None if there is none. If a CTA has nothing to wait for, because it has no tiles, none of its threads waits. With
    *start*, the first instruction of the path, the value may also be a loop counter, unless it is known on this path:
    the first iteration has no predecessor to wait for and the last one no successor.
    """
    open_ = _DATA if start is None else _DATA | {"phi"}
    values = model.values
    for _, edge, own, passed, _ in _forks(model.cfg, path, sites):
        p = model.reachability.edge_predicate(edge) if passed and not own else None
        if p is None or values.uniformity(p) is not UniformityScope.CTA:
            continue
        if any(values.node(v)[0] in open_ for v in values.subexpressions(p)) and (
            start is None or edge not in model.settled(start, path)
        ):
            return edge
    return None


def _iterated(loop: frozenset[int], head: int, edges: Iterable[Edge]) -> bool:
    """Whether *edges* contain a back edge to the *head* of a *loop*."""
    return any(edge.target == head and edge.source in loop for edge in edges)


def leaves_its_round(model: KernelModel, path: Path, start: int) -> bool:
    """Whether *path* leaves the loop that contains *start* in the same iteration, in which a branch admitted *start*.

    A prefetch for the next iteration is executed only if there is one: the branch may test the exit condition of the
    loop in another form, in which case the path is infeasible.
    """
    cfg = model.cfg
    block = cfg.block_of[start]
    loop = cfg.innermost(block)
    leaving = next((at for at, edge in enumerate(path.edges) if edge.target not in loop), None)
    if not loop or leaving is None or any(edge.target in cfg.loops for edge in path.edges[:leaving]):
        return False
    source = path.edges[leaving].source
    conditional = any(
        edge.source in loop and edge.source != source for edge in cfg.control_dependences(block)
    )
    return conditional and not cfg.dominates(block, source)


def unused(model: KernelModel, path: Path, read: int, end: int) -> bool:
    """Whether the result of the instruction *read* is dead on *path* and after its *end*.

    Uses that only compute other dead values do not count. False if *read* writes no register that any instruction
    reads.
    """
    passed, defs = path.passed(model.cfg, read), model.values.defs
    computing, before = [read], 0
    while before < len(computing):
        before = len(computing)
        for register in {r for i in computing for r in model.instruction(i).writes}:
            # A redefinition that uses the value, such as a running sum, still depends on it.
            ends = [i for i in defs[register] if i == read or i not in computing]
            for i in model.readers.get(register, ()):
                if i in computing or not (i in passed or model.reaches(end, i, ends)):
                    continue
                instruction = model.instruction(i)
                form = None if instruction.match is None else instruction.match.form
                if form is None or form.memory or form.event or instruction.flow or not instruction.writes:
                    return False
                computing.append(i)
    return any(r in model.readers for r in model.instruction(read).writes)


def placed(model: KernelModel, first: int, second: int) -> bool:
    """Whether the address of exactly one of two accesses has a term that depends on a value unknown to the text."""
    values = model.values
    differing = _terms(model, first) ^ _terms(model, second)
    return any(values.node(v)[0] in _DATA for term in differing for v in values.subexpressions(term))


def in_warps(model: KernelModel, path: Path, start: int) -> bool:
    """Whether *path*, from *start*, passes a ``bar.warp.sync``."""
    return any(model.instruction(i).opcode == "bar.warp.sync" for i in path.sites(model.cfg, start))


def runs_on(model: KernelModel, path: Path, *sites: int) -> bool:
    """Whether *path* takes a back edge of a loop that moves the address of one of *sites* by a constant per iteration.

    Only the trip count, which is unknown, keeps such an address in its array.
    """
    cfg, values = model.cfg, model.values
    heads = {e.target for e in path.edges if e.source in cfg.loops.get(e.target, ())}
    terms = set[int]().union(*(_terms(model, site) for site in sites))
    rising = {values.node(term)[1] for term in terms if values.steps(term)}
    return any(not _counted(model, head) for head in heads & rising)


def _terms(model: KernelModel, site: int) -> set[int]:
    """The terms of the linear forms of all shared memory addresses that *site* accesses."""
    linear = model.values.linear
    return {term for access in model.shared.accesses(site) for term, _ in linear(access.address)[0]}


def _counted(model: KernelModel, head: int) -> bool:
    """Whether the text determines an exit condition of the loop with this head, and thus bounds its trip count."""
    cfg, values = model.cfg, model.values
    loop = cfg.loops[head]
    ends = (
        model.reachability.edge_predicate(e) for b in loop for e in cfg.successors[b] if e.target not in loop
    )
    return any(
        p is not None and all(values.node(v)[0] not in _RUNTIME for v in values.subexpressions(p))
        for p in ends
    )


def _idle(model: KernelModel, edge: Edge) -> bool:
    """Whether only CTAs whose index in the grid is beyond a kernel parameter take *edge*.

    A launch need not have any such CTA.
    """
    values = model.values
    p = model.reachability.edge_predicate(edge)
    if p is None or values.loop_varying_at(p):
        return False
    node = values.node(p)
    truth = edge.value
    if node[0] == "not":
        node, truth = values.node(node[1]), not truth
    if node[:2] != ("compare", "lt"):
        return False
    less, more = ({values.node(v) for v in values.subexpressions(side)} for side in node[2:4])
    if not truth:
        less, more = more, less
    indices = {("special", f"%ctaid.{axis}") for axis in "xyz"}
    return (
        less.isdisjoint(indices) and not more.isdisjoint(indices) and any(n[0] == "parameter" for n in less)
    )


def _cases(cfg: CFG, blocks: set[int], ends: set[int]) -> int:
    """How many of *blocks* are mutually unreachable before *ends*; chosen greedily, so it may not be the maximum."""
    after = {block: _between(cfg, [block], ends) for block in blocks}
    cases: list[int] = []
    for block in sorted(blocks):
        if all(block not in after[case] and case not in after[block] for case in cases):
            cases.append(block)
    return len(cases)


def _between(cfg: CFG, starts: Iterable[int], ends: set[int]) -> set[int]:
    """The blocks reachable from *starts* without passing one of *ends*."""
    found = set[int]()
    work = [b for b in starts if b not in ends]
    while work:
        block = work.pop()
        if block not in found:
            found.add(block)
            work += [e.target for e in cfg.successors[block] if e.target not in ends]
    return found
