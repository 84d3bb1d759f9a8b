"""Paths on which threads do not do what they do on other ways to the same place."""

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

OUT_OF_ARRAY = "so many rounds of a loop may lead out of the array, and nothing shows that there are as many"
"""What there is to say where :func:`runs_on` holds."""
PART_OF_A_WARP = (
    "lanes of a warp wait for each other between the two, and may each have their part of the memory"
)
"""What there is to say where :func:`in_warps` holds, and nothing shows that it is otherwise."""
_DATA = frozenset(("parameter", "load", "unknown"))
"""What neither the text nor the number of a thread says the value of."""
_GIVEN = _DATA | {"special"}
"""What the text does not say the value of."""
_MANY = 4
"""So many cases, the present one among them, make a switch."""


class _Fork(NamedTuple):
    """Where a path takes one of several ways that meet again on it."""

    at: int
    """The number of the edge that is taken."""
    edge: Edge
    own: set[int]
    """Blocks asked about that the path passes before the ways meet."""
    passed: set[int]
    """Those that it would have passed on other ways."""
    cases: int
    """How many of both are cases of which one goes on past the others."""


def _forks(cfg: CFG, path: Path, sites: Iterable[int]) -> Iterator[_Fork]:
    """The forks of *path*, with the blocks of *sites* on the ways."""
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
    """The edge by which *path* goes past a loop with one of *sites*, or past several cases that each have one; None: none.

    Whoever waits in each round of a loop, or in the cases of a switch, thought of waiting: that the loop has no rounds, or
    that none of the cases is the present one, is not known. Nor is it that there are CTAs with nothing to do, which wait
    for nothing.
    """
    cfg = model.cfg
    for at, edge, own, passed, cases in _forks(cfg, path, sites):
        if not own and any(
            not passed.isdisjoint(loop)
            for head, loop in cfg.loops.items()
            # A loop may ask before its first round, or at its head.
            if edge.source not in loop
            or (edge.source == head and edge.target not in loop and not _again(loop, head, path.edges[:at]))
        ):
            return edge
        if (passed and not own and _idle(model, edge)) or cases >= (_MANY if own else 2):
            return edge
    return None


def none_yet(model: KernelModel, path: Path) -> Edge | None:
    """The branch on which *path* takes a number for the one that a loop begins with, and which is negative; None: none.

    A loop that knows what it has got last begins with -1 for nothing, which is not what it needs first.
    """
    values = model.values
    along = values.along(path.edges, frozenset())
    for k, edge in enumerate(path.edges):
        p = model.reachability.edge_predicate(edge)
        node, truth = ((), False) if p is None else (values.node(p), edge.value)
        if node[:1] == ("not",):
            node, truth = values.node(node[1]), not truth
        if truth and node[:2] == ("compare", "eq") and values.constant_of(node[3]) is None:
            numbers = [values.constant_of(along.walk(side, k)) for side in node[2:4]]
            if None in numbers and any(n is not None and n < 0 for n in numbers):
                return edge
    return None


def spared(model: KernelModel, path: Path, sites: Iterable[int], start: int | None = None) -> Edge | None:
    """The edge by which *path* goes past one of *sites* because of a number that the text does not say; None: none.

    It is the same in the whole CTA: where there is nothing to wait for, as there are no tiles, nobody waits. With *start*,
    where the path begins, that may be the number of a round as well, unless it is known on this way: nothing comes before
    the first, or behind the last one.
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


def _again(loop: frozenset[int], head: int, edges: Iterable[Edge]) -> bool:
    """Whether *edges* come back to the *head* of a *loop*."""
    return any(edge.target == head and edge.source in loop for edge in edges)


def leaves_its_round(model: KernelModel, path: Path, start: int) -> bool:
    """Whether *path* leaves the loop that *start* is in, in a round in which a branch let *start* be executed.

    What is fetched for the next round is fetched if there is one: the branch may ask what the end of the loop asks, in other
    words.
    """
    cfg = model.cfg
    block = cfg.block_of[start]
    loop = cfg.innermost(block)
    leaving = next((at for at, edge in enumerate(path.edges) if edge.target not in loop), None)
    if not loop or leaving is None or any(edge.target in cfg.loops for edge in path.edges[:leaving]):
        return False
    source = path.edges[leaving].source
    let = any(edge.source in loop and edge.source != source for edge in cfg.control_dependences(block))
    return let and not cfg.dominates(block, source)


def unused(model: KernelModel, path: Path, read: int, end: int) -> bool:
    """Whether nothing on *path*, nor behind its *end*, uses what the instruction *read* gives, but to compute what nothing uses."""
    passed, defs = path.passed(model.cfg, read), model.values.defs
    computing, before = [read], 0
    while before < len(computing):
        before = len(computing)
        for register in {r for i in computing for r in model.instruction(i).writes}:
            # What is computed of it anew, as a sum of all that is read, still holds it.
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
    """Whether a number that the text does not say is in the address of one of two accesses, and not of the other one."""
    values = model.values
    apart = _terms(model, first) ^ _terms(model, second)
    return any(values.node(v)[0] in _DATA for term in apart for v in values.subexpressions(term))


def in_warps(model: KernelModel, path: Path, start: int) -> bool:
    """Whether the lanes of a warp wait for each other on *path*."""
    return any(model.instruction(i).opcode == "bar.warp.sync" for i in path.sites(model.cfg, start))


def runs_on(model: KernelModel, path: Path, *sites: int) -> bool:
    """Whether *path* goes round a loop, each round of which moves as far the address of one of *sites*.

    Such an address leaves its array at last; the number of rounds keeps it there, and is not known.
    """
    cfg, values = model.cfg, model.values
    heads = {e.target for e in path.edges if e.source in cfg.loops.get(e.target, ())}
    terms = set[int]().union(*(_terms(model, site) for site in sites))
    rising = {values.node(term)[1] for term in terms if values.steps(term)}
    return any(not _counted(model, head) for head in heads & rising)


def _terms(model: KernelModel, site: int) -> set[int]:
    """What is added up to the addresses in shared memory that *site* accesses."""
    linear = model.values.linear
    return {term for access in model.shared.accesses(site) for term, _ in linear(access.address)[0]}


def _counted(model: KernelModel, head: int) -> bool:
    """Whether the text says how often the loop with this head goes round."""
    cfg, values = model.cfg, model.values
    loop = cfg.loops[head]
    ends = (
        model.reachability.edge_predicate(e) for b in loop for e in cfg.successors[b] if e.target not in loop
    )
    return any(
        p is not None and all(values.node(v)[0] not in _GIVEN for v in values.subexpressions(p)) for p in ends
    )


def _idle(model: KernelModel, edge: Edge) -> bool:
    """Whether CTAs take *edge* whose index in the grid is too large for what the kernel is given.

    A launch need not have any.
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
    """How many of *blocks* are cases of which one goes on past the others."""
    behind = {block: _between(cfg, [block], ends) for block in blocks}
    cases: list[int] = []
    for block in sorted(blocks):
        if all(block not in behind[case] and case not in behind[block] for case in cases):
            cases.append(block)
    return len(cases)


def _between(cfg: CFG, starts: Iterable[int], ends: set[int]) -> set[int]:
    """The blocks on ways from *starts* that pass none of *ends*."""
    found = set[int]()
    work = [b for b in starts if b not in ends]
    while work:
        block = work.pop()
        if block not in found:
            found.add(block)
            work += [e.target for e in cfg.successors[block] if e.target not in ends]
    return found
