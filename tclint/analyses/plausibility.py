"""Whether launches take a feasible path: the doubts that remain, and the search for the path with the least of them.

No fact excludes the paths that are found, but real launches may never take them: a path skips what waits on other paths
between the same instructions, depends on a trip count or on data, or contradicts how often its loops have iterated. The
heuristics over-approximate: a doubtful path may well be the one on which the kernel fails. A doubt therefore lowers the
confidence of a hit and never drops it, and another path is preferred where there is one.

Each function answers one question about a path with a :class:`Doubt`, which is false if there is none; ``or`` combines
them, the most serious first. A check passes such a combination to :func:`most_plausible_path` or to
:class:`~tclint.analyses.overlaps.OverlapSearch`, and its reason to :meth:`~tclint.checks.Hit.doubted`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from tclint._named_tuple import NamedTuple
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.pretty import ValuePrinter
from tclint.dataflow import Answer, Decision, Found, Guard, Path, next_answer
from tclint.dataflow.kernel import Kernel
from tclint.ir.cfg import CFG, Edge
from tclint.isa.effects import Barrier
from tclint.values import PathCondition, UniformityScope
from tclint.values.nodes import (
    CollectiveResult,
    Compare,
    Loaded,
    Negation,
    Node,
    ParameterRead,
    Phi,
    SpecialRead,
    Unmodelled,
)

__all__ = [
    "NO_DOUBT",
    "Doubt",
    "DoubtAbout",
    "assumes_sentinel",
    "depends_on_what_skips",
    "differ_by_data",
    "has_unused_result",
    "infeasible_branch",
    "leaves_iteration",
    "most_plausible_path",
    "returns_to_start",
    "runs_past_array",
    "skips",
    "skips_for_launch",
    "synchronises_lanes",
    "tests_launch",
]

_CONTRADICTED = "given how often the loops on this path have iterated, one of its branches is not taken"
_REMAINDER_LOOP = (
    "the path depends on the trip count of a remainder loop, which is not related to the unrolled loop"
)
_SENTINEL = "the path assumes that an unknown value equals the sentinel that a loop starts with; otherwise the thread waits"
_BACK_AT_START = "the path assumes that a loop counter, whose step is unknown, has its first value again in a later iteration"
_NEXT_ITERATION = "the copy may be for the next iteration of a loop only, and the path leaves that loop"
_OUT_OF_ARRAY = (
    "the path repeats a loop whose trip count is unknown, and that many iterations may run past the array"
)
_UNUSED_RESULT = "the value read is not used on this path"
_PART_OF_A_WARP = (
    "only lanes of one warp synchronise between the two (bar.warp.sync), "
    "and they may use their own part of the memory"
)
_DATA = frozenset((ParameterRead, Loaded, Unmodelled))
"""The kinds of nodes whose value neither the text nor the thread index determines."""
_RUNTIME = _DATA | {SpecialRead}
"""The kinds of nodes whose value the text does not determine."""
_MIN_SWITCH_CASES = 4
"""Mutually exclusive blocks that make a branch a switch, the one on the path included."""


class Doubt(NamedTuple):
    """Why launches may never take a path; false if nothing suggests that."""

    why: str = ""
    edge: Decision | None = None
    """The branch or guard in doubt, without which another path may be free of the doubt. None if none is to blame."""

    def __bool__(self) -> bool:
        return bool(self.why)


NO_DOUBT = Doubt()
DoubtAbout = Callable[[int, Path], Doubt]
"""The doubt about a path, given the instruction at which it starts (-1: the entry)."""


def most_plausible_path(
    model: KernelModel, query: FactQuery, also: DoubtAbout = lambda start, path: NO_DOUBT
) -> Answer[tuple[Path, Doubt]]:
    """The first path of *query* that is not in doubt, else the first path; with the doubt about it.

    A path is in doubt if one of its branches is infeasible in the first iteration (:func:`infeasible_branch`),
    depends on how a remainder loop relates to the unrolled loop before it, or *also* doubts it.
    """
    closed = set[Decision]()
    first: Found[tuple[Path, Doubt]] | None = None
    while True:
        found = next_answer(model.paths(query, closed, together=True))
        if not isinstance(found, Found):
            return first or found
        path = found.witness
        doubt = (
            _contradicts_iterations(model, query, path)
            or returns_to_start(model, path)
            or _depends_on_remainder(model, path, query.start)
            or also(query.start, path)
        )
        if not doubt:
            return Found((path, doubt))
        first = first or Found((path, doubt))
        if doubt.edge is None or not path.assumes(doubt.edge):
            return first
        closed.add(doubt.edge)


def _contradicts_iterations(model: KernelModel, query: FactQuery, path: Path) -> Doubt:
    """The doubt about a *path* with an :func:`infeasible_branch`."""
    decision = infeasible_branch(model, query.start, path, query.results.affecting)
    return NO_DOUBT if decision is None else Doubt(_CONTRADICTED, decision)


def infeasible_branch(
    model: KernelModel, start: int, path: Path, relevant: Sequence[Sequence[int]]
) -> Decision | None:
    """The first branch or guard of *path* that is not as the path assumes when *start* executes for the first time, or None.

    An edge that leaves a loop without *relevant* instructions is not one, since a later iteration may take it.
    """
    for decision, holds in _evaluated_at_first(model, start, path):
        if holds is not False:
            continue
        if isinstance(decision, Guard):
            return decision
        loop = model.cfg.innermost(decision.source)
        if decision.target in loop or not loop or any(relevant[block] for block in loop):
            return decision
    return None


def _evaluated_at_first(model: KernelModel, start: int, path: Path) -> Iterator[tuple[Decision, bool | None]]:
    """What *path* assumes, each with whether it holds when *start* is executed for the first time.

    If no path from the entry to *start* is known, that of any iteration.
    """
    first = model.at_first(start).witness if start >= 0 else None
    prefix = () if first is None else (*first.edges,)
    guards = [(len(prefix) + k, guard) for k, guard in path.guards]
    return model.evaluated((*prefix, *path.edges), model.views.context_of(start).facts, len(prefix), guards)


def _depends_on_remainder(model: KernelModel, path: Path, start: int) -> Doubt:
    """The doubt about a branch on *path*, or that *start* is control-dependent on, decided by a remainder loop's counter.

    A branch that ends the remainder loop is not one.
    """
    cfg, values = model.cfg, model.values
    controlling = cfg.control_dependences(cfg.block_of[start]) if start >= 0 else ()
    for edge in (*path.edges, *controlling):
        p = model.reachability.edge_predicate(edge)
        if p is not None and any(
            values.is_remainder_loop(head, p)
            and any(
                type(node) is Phi and node.block == head
                for node in map(values.node, values.subexpressions(p))
            )
            for head in cfg.enclosing_loops(edge.source)
        ):
            return Doubt(_REMAINDER_LOOP, edge)
    return NO_DOUBT


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


class Skipped(NamedTuple):
    """What keeps a path from executing an instruction that other paths between the same points execute."""

    branch: int
    """The branch; the instruction itself if its guard is false."""
    site: int
    condition: str
    """When the path does so, as an expression; empty if that cannot be written."""


def skipped(model: Kernel, path: Path, sites: Iterable[int]) -> Skipped | None:
    """The last of *sites* that *path* would have executed but for a branch or a guard; None if there is none."""
    sites, cfg, values = sorted(sites), model.cfg, model.values
    branch, site, decided = -1, -1, -1
    for _, guard in path.guards:
        if guard.site in sites and not guard.executes:
            instruction = model.instruction(guard.site)
            p = values.before(instruction.guard, guard.site)
            branch, site, decided = guard.site, guard.site, p if instruction.negated else values.negate(p)
    for _, edge, own, passed, _ in _forks(cfg, path, sites):
        if passed and not own:
            taken = model.reachability.edge_predicate(edge)
            branch = cfg.blocks[edge.source].end - 1
            site = next(i for i in sites if cfg.block_of[i] in passed)
            decided = -1 if taken is None else taken if edge.value else values.negate(taken)
    if branch < 0:
        return None
    return Skipped(branch, site, (ValuePrinter(values).text(decided) if decided >= 0 else None) or "")


def skips(model: KernelModel, path: Path, sites: Iterable[int], why: str) -> Doubt:
    """The doubt *why* about a *path* that skips a loop, or all cases of a switch, that contain one of *sites*.

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
            return Doubt(why, edge)
        if (passed and not own and _idle(model, edge)) or cases >= (_MIN_SWITCH_CASES if own else 2):
            return Doubt(why, edge)
    return NO_DOUBT


def assumes_sentinel(model: KernelModel, path: Path) -> Doubt:
    """The doubt about a *path* that assumes that an unknown value equals the sentinel a loop starts with.

    A loop that remembers what it loaded last starts with a value that denotes "nothing yet", which no first value
    equals: a negative number, or the largest one of a type.
    """
    values = model.values
    along = values.along(path.edges, frozenset())
    for k, edge in enumerate(path.edges):
        p = model.reachability.edge_predicate(edge)
        if p is None:
            continue
        node, truth = values.node(p), edge.value
        if type(node) is Negation:
            node, truth = values.node(node.operand), not truth
        if truth and _is_equality(node) and values.constant_of(node.operands[1]) is None:
            constants = [values.constant_of(along.walk(side, k)) for side in node.operands]
            if None in constants and any(n is not None and _is_sentinel(n) for n in constants):
                return Doubt(_SENTINEL, edge)
    return NO_DOUBT


def _is_sentinel(number: int) -> bool:
    """Whether *number* is negative, or the largest one of a type of 16 bits at least."""
    return number < 0 or (number >= (1 << 15) - 1 and not number & number + 1)


def returns_to_start(model: KernelModel, path: Path) -> Doubt:
    """The doubt about a *path* that assumes that a counter whose step is unknown has its first value again after a step.

    With a step of 0 the loop does not end, and a counter of a loop that ends at a bound does not wrap.
    """
    values = model.values
    along = values.along(path.edges, frozenset())
    for k, p, truth, decision in model.decisions(path.edges, path.guards):
        node = values.node(along.walk(p, k))
        if type(node) is Negation:
            node, truth = values.node(node.operand), not truth
        if not truth or not _is_equality(node):
            continue
        left, right = node.operands
        number = values.constant_of(right)
        if number is not None and _has_advanced(model, left, number):
            return Doubt(_BACK_AT_START, decision)
    return NO_DOUBT


def _is_equality(node: Node) -> bool:
    return type(node) is Compare and node.relation == "eq"


def _has_advanced(model: KernelModel, value: int, first: int) -> bool:
    """Whether *value* is that of a counter that starts at *first*, plus some of the unknown steps of that counter."""
    cfg, values = model.cfg, model.values
    for counter, _ in values.linear(value)[0]:
        node = values.node(counter)
        if type(node) is not Phi:
            continue
        loop, arguments = cfg.loops.get(node.block, ()), values.arguments(counter)
        incoming = list(zip(cfg.sources[node.block], arguments, strict=True)) if loop and arguments else []
        starts = {values.constant_of(argument) for source, argument in incoming if source not in loop}
        ends = {argument for source, argument in incoming if source in loop}
        if starts != {first} or len(ends) != 1:
            continue
        own = values.times(counter, -1)
        (step, by), (added, more) = (values.linear(values.add(end, own)) for end in (ends.pop(), value))
        if by == more == 0 and len(step) == len(added) == 1 and step[0][0] == added[0][0]:
            return step[0][1] * added[0][1] > 0
    return False


def depends_on_what_skips(model: KernelModel, path: Path, sites: Iterable[int], why: str) -> Doubt:
    """The doubt *why* about a *path* whose end depends on data that also made the path skip one of *sites*.

    What is not waited for is then not read either, if the two conditions agree: a row that is padding, or a key that
    marks the end. No doubt if the one follows from the other, or if they have no parameter and no load in common.
    """
    values = model.values
    for at, edge, own, passed, _ in _forks(model.cfg, path, sites):
        p = model.reachability.edge_predicate(edge) if passed and not own else None
        if p is None:
            continue
        skipping = _data(model, p)
        for test, truth in _tests_after(model, path, at) if skipping else ():
            shared = skipping.intersection(_data(model, test))
            if shared and values.entails(test, PathCondition({p: edge.value})) is not truth:
                return Doubt(why, edge)
    return NO_DOUBT


def _data(model: KernelModel, p: int) -> frozenset[int]:
    """The parameters, loads and unknown values that *p* is computed from, in this thread or in others of its warp."""
    values, found, work, seen = model.values, set[int](), [p], set[int]()
    while work:
        for value in values.subexpressions(work.pop(), until=lambda v: type(values.node(v)) in _DATA):
            node = values.node(value)
            if value in seen:
                continue
            seen.add(value)
            if type(node) in _DATA:
                found.add(value)
            if isinstance(node, CollectiveResult | Unmodelled):
                work += [values.before(r, node.site) for r in model.instruction(node.site).reads]
    return frozenset(found)


def _tests_after(model: KernelModel, path: Path, at: int) -> Iterator[tuple[int, bool]]:
    """The predicates after edge number *at* of *path* that decide whether its end executes, with their truth."""
    cfg, values, end = model.cfg, model.values, path.end
    controlling, work = set[Edge](), [cfg.block_of[end]]
    while work:
        found = frozenset(cfg.control_dependences(work.pop())) - controlling
        controlling |= found
        work += (edge.source for edge in found)
    for edge in dict.fromkeys(path.edges[at + 1 :]):
        p = model.reachability.edge_predicate(edge) if edge in controlling else None
        if p is not None:
            yield p, edge.value
    instruction = model.instruction(end)
    if instruction.guard >= 0:
        yield values.before(instruction.guard, end), not instruction.negated


def skips_for_launch(
    model: KernelModel,
    path: Path,
    sites: Iterable[int],
    why: str,
    start: int | None = None,
    scope: UniformityScope = UniformityScope.CTA,
) -> Doubt:
    """The doubt *why* about a *path* that skips one of *sites* for a value that the text does not determine.

    The value is uniform within *scope*: if a CTA has nothing to wait for, because it has no tiles, none of its threads
    waits. If one thread waits and then uses the result, the values of other warps do not matter. With *start*, the
    first instruction of the path, the value may also be a loop counter, unless it is known on this path: the first
    iteration has no predecessor to wait for and the last one no successor.
    """
    open_ = _DATA if start is None else _DATA | {Phi}
    values = model.values
    for _, edge, own, passed, _ in _forks(model.cfg, path, sites):
        p = model.reachability.edge_predicate(edge) if passed and not own else None
        if p is None or values.uniformity(p) > scope:
            continue
        if any(type(values.node(v)) in open_ for v in values.subexpressions(p)) and (
            start is None or not _settled(model, start, path, edge)
        ):
            return Doubt(why, edge)
    return NO_DOUBT


def tests_launch(model: KernelModel, path: Path, after: Edge) -> bool:
    """Whether the instruction at the end of *path* executes only for some values that the text does not determine.

    Branches on the path up to and including the edge *after* do not count.
    """
    cfg, values, end = model.cfg, model.values, path.end
    controlling = frozenset(cfg.control_dependences(cfg.block_of[end]))
    later = controlling.intersection(path.edges[path.edges.index(after) + 1 :])
    tests = [p for edge in later if (p := model.reachability.edge_predicate(edge)) is not None]
    guard = model.instruction(end).guard
    if guard >= 0:
        tests.append(values.before(guard, end))
    return any(type(values.node(v)) in _DATA for v in values.subexpressions(*tests))


def _settled(model: KernelModel, start: int, path: Path, edge: Edge) -> bool:
    """Whether *path* is certain to take *edge* when *start* is executed for the first time."""
    evaluated = _evaluated_at_first(model, start, path)
    return any(taken == edge and truth is edge.value for taken, truth in evaluated)


def _iterated(loop: Container[int], head: int, edges: Iterable[Edge]) -> bool:
    """Whether *edges* contain a back edge to the *head* of a *loop*."""
    return any(edge.target == head and edge.source in loop for edge in edges)


def leaves_iteration(model: KernelModel, path: Path, start: int) -> Doubt:
    """The doubt about a *path* that leaves the loop of *start* in an iteration in which a condition admitted *start*.

    A prefetch for the next iteration is executed only if there is one: a branch or the guard of *start* may test the exit
    condition of the loop in another form, such as a mask that an earlier iteration clears. Then the path is infeasible.
    """
    cfg = model.cfg
    block = cfg.block_of[start]
    loop = cfg.innermost(block)
    leaving = next((at for at, edge in enumerate(path.edges) if edge.target not in loop), None)
    if not loop or leaving is None or any(edge.target in cfg.loops for edge in path.edges[:leaving]):
        return NO_DOUBT
    source = path.edges[leaving].source
    _, guard, _ = model.guarded_block(start)
    if guard >= 0 and any(kind == "block" and at in loop for kind, at in model.values.varying_at(guard)):
        return Doubt(_NEXT_ITERATION)
    branches = (
        edge for edge in cfg.control_dependences(block) if edge.source in loop and edge.source != source
    )
    return Doubt(_NEXT_ITERATION) if any(branches) and not cfg.dominates(block, source) else NO_DOUBT


def has_unused_result(model: KernelModel, path: Path, read: int, end: int) -> Doubt:
    """The doubt about a *path* on which, at whose *end*, and after it, the result of the instruction *read* is dead.

    Uses that only compute other dead values do not count. No doubt if *read* writes no register that any instruction
    reads.
    """
    passed, defs = path.passed(model.cfg, read), model.values.defs
    computing, before = [read], 0
    while before < len(computing):
        before = len(computing)
        for register in {r for i in computing for r in model.instruction(i).writes}:
            # A redefinition that uses the value, such as a running sum, still depends on it.
            ends = [i for i in defs[register] if i == read or i not in computing]
            readers = [i for i in model.readers.get(register, ()) if i not in computing]
            later = model.reached_from((end,), readers, ends)
            for i in readers:
                if i in computing or not (i in passed or i in later or i == end):
                    continue
                instruction = model.instruction(i)
                form = None if instruction.match is None else instruction.match.form
                if form is None or form.memory or form.event or instruction.flow or not instruction.writes:
                    return NO_DOUBT
                computing.append(i)
    read_again = any(r in model.readers for r in model.instruction(read).writes)
    return Doubt(_UNUSED_RESULT) if read_again else NO_DOUBT


def differ_by_data(model: KernelModel, first: int, second: int) -> bool:
    """Whether the address of exactly one of two accesses has a term that depends on a value unknown to the text."""
    values = model.values
    differing = _terms(model, first) ^ _terms(model, second)
    return any(type(values.node(v)) in _DATA for term in differing for v in values.subexpressions(term))


def synchronises_lanes(model: KernelModel, path: Path, start: int) -> Doubt:
    """The doubt about a *path* that passes a ``bar.warp.sync``, where nothing shows that the warps share the memory."""
    passes = any(model.instruction(i).effects.arrives is Barrier.WARP for i in path.sites(model.cfg, start))
    return Doubt(_PART_OF_A_WARP) if passes else NO_DOUBT


def runs_past_array(model: KernelModel, path: Path, *sites: int) -> Doubt:
    """The doubt about a *path* that repeats a loop which moves the address of one of *sites* by a constant each time.

    Only the trip count, which is unknown, keeps such an address in its array.
    """
    cfg, values = model.cfg, model.values
    heads = {e.target for e in path.edges if e.source in cfg.loops.get(e.target, ())}
    terms = set[int]().union(*(_terms(model, site) for site in sites))
    rising = {values.phi(term).block for term in terms if values.steps(term)}
    uncounted = any(not _counted(model, head) for head in heads & rising)
    return Doubt(_OUT_OF_ARRAY) if uncounted else NO_DOUBT


def _terms(model: KernelModel, site: int) -> set[int]:
    """The terms of the linear forms of all shared memory addresses that *site* accesses."""
    linear = model.values.linear
    return {term for access in model.shared.accesses(site) for term, _ in linear(access.address)[0]}


def _counted(model: KernelModel, head: int) -> bool:
    """Whether the text determines an exit condition of the loop with this head, and thus bounds its trip count."""
    cfg, values = model.cfg, model.values
    ends = map(model.reachability.edge_predicate, cfg.leaving[head])
    return any(
        p is not None and all(type(values.node(v)) not in _RUNTIME for v in values.subexpressions(p))
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
    if type(node) is Negation:
        node, truth = values.node(node.operand), not truth
    if type(node) is not Compare or node.relation != "lt":
        return False
    less, more = (list(map(values.node, values.subexpressions(side))) for side in node.operands)
    if not truth:
        less, more = more, less
    return (
        not any(map(_is_cta_index, less))
        and any(map(_is_cta_index, more))
        and any(type(n) is ParameterRead for n in less)
    )


def _is_cta_index(node: Node) -> bool:
    return type(node) is SpecialRead and node.name in ("%ctaid.x", "%ctaid.y", "%ctaid.z")


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
