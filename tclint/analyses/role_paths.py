"""Paths of the warps of a kernel that avoid given instructions, and what its calls may do (PTX ISA 9.7.13)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator

from tclint.analyses.model import KernelModel
from tclint.analyses.plausibility import infeasible_branch
from tclint.dataflow import (
    EXIT,
    Answer,
    Decision,
    Found,
    Infeasible,
    Path,
    PathQuery,
    find_paths,
    next_answer,
)
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.dataflow.views import ThreadContext
from tclint.ir.nodes import Instruction, Module
from tclint.isa.callees import SYSTEM_CALLS
from tclint.values import PathCondition
from tclint.values import thread_masks as T

_NO_PATH = Infeasible("one of the instructions to avoid is on every path")


def known_functions(module: Module) -> frozenset[str]:
    """The names of the functions whose effect is known: those with a body in the module, and the system calls."""
    return SYSTEM_CALLS.union(f.name for f in module.functions if f.instructions)


def whole_program(model: KernelModel) -> bool:
    """Whether all that the kernel executes is visible.

    Every call is to a function of the module or a system call, and the ISA table has every instruction.
    """
    if not model.function.entry or any(use.match is None for use in model.function.uses):
        return False
    called = {model.instruction(i).callee for i in calls(model)} - SYSTEM_CALLS
    bodies = model.module.by_name
    return all(any(f.instructions for f in bodies.get(name, ())) for name in called)


def dominated_by(model: KernelModel, first: int, site: int) -> bool:
    """Whether *first* dominates *site*; guards are ignored."""
    block_of = model.cfg.block_of
    if block_of[first] == block_of[site]:
        return first < site
    return model.cfg.dominates(block_of[first], block_of[site])


def calls(model: KernelModel) -> list[int]:
    """The calls of the function."""
    return [
        i
        for use in model.function.uses
        if use.match is not None and use.match.form.flow == "call"
        for i in use.sites
    ]


def controlling_predicates(model: KernelModel, site: int) -> Iterator[int]:
    """The predicates that *site* is control-dependent on, and its guard; that of a branch table is unknown."""
    cfg, values = model.cfg, model.values
    for edge in cfg.control_dependences(cfg.block_of[site]):
        yield values.before(edge.predicate, cfg.blocks[edge.source].end - 1)
    guard = model.instruction(site).guard
    if guard >= 0:
        yield values.before(guard, site)


def path_avoiding(
    model: KernelModel,
    start: int,
    threads: T.Threads,
    to: Collection[int],
    ends: Collection[int],
    facts: PathCondition | None = None,
) -> Answer[Path]:
    """A path of *threads* from *start* to one of *to* (an exit if empty) that passes none of *ends*.

    Each warp is represented by lane 0, which is taken to do whatever a single lane does for the warp.
    """
    searches = model.search_cache
    if searches.spent:
        return model.ledger.give_up(FEASIBLE_PATH, start, searches.spent)
    searches.count(len(to) + len(ends))
    here = model.views.context_in_iteration(start)
    context = ThreadContext(here.threads & threads & T.lane_zero(model.values.threads), facts or here.facts)
    others = frozenset(ends).difference((start,)) if start in ends else ends  # a path begins after its start
    if not context.threads or (start >= 0 and not last(model, (start,), others, to)):
        return _NO_PATH
    return follow(model, start, context, to, ends)


def follow(
    model: KernelModel, start: int, view: ThreadContext, to: Collection[int], ends: Collection[int]
) -> Answer[Path]:
    """A path of the context *view* from *start* to one of *to* (an exit if empty) that passes none of *ends*."""
    query = _query(model, start, view, to, ends)
    return _NO_PATH if query is None else next_answer(find_paths(model.search_cache, query))


def follow_first(
    model: KernelModel,
    start: int,
    view: ThreadContext,
    to: Collection[int],
    ends: Collection[int],
    closed: Iterable[Decision] = (),
) -> Answer[Path]:
    """As :func:`follow`, if *start* is executed for the first time: no branch of the path is infeasible then.

    It takes no edge that is *closed*.
    """
    query = _query(model, start, view, to, ends)
    if query is None:
        return _NO_PATH
    excluded = set(closed)
    query = query._replace(closed=excluded)
    while True:
        found = next_answer(find_paths(model.search_cache, query))
        infeasible = (
            infeasible_branch(model, start, found.witness, query.relevant)
            if isinstance(found, Found)
            else None
        )
        if infeasible is None:
            return found
        excluded.add(infeasible)


def _query(
    model: KernelModel, start: int, view: ThreadContext, to: Collection[int], ends: Collection[int]
) -> PathQuery | None:
    """The query for the paths of :func:`follow`; None if the graph has none."""
    cfg = model.cfg
    if start < 0 and to and 0 not in to and not last(model, (0,), ends, to):
        return None
    relevant: list[list[int]] = [[] for _ in cfg.blocks]
    for i in sorted({*to, *ends}):
        relevant[cfg.block_of[i]].append(i)
    blocks = {cfg.block_of[i] for i in to} or cfg.exits

    def step(state: object, i: int, instruction: Instruction) -> object:
        return None if i in ends else state

    def goal(state: object, i: int) -> bool:
        return i in to if to else i == EXIT

    return PathQuery(start, view, True, relevant, step, goal, blocks)


def last(
    model: KernelModel, sites: Iterable[int], barring: Collection[int], to: Collection[int] = ()
) -> list[int]:
    """The last of *sites* in each block from which *to*, or an exit if empty, can be reached without passing *barring*.

    Only unguarded instructions of *barring* bar a path, and branches are not evaluated.
    """
    block_of = model.cfg.block_of
    return list({block_of[site]: site for site in unbarred(model, sites, barring, to)}.values())


class _Unguarded:
    """The unguarded instructions of a set, by block.

    The last set is remembered: a check asks about one set for each of many instructions.
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._last: tuple[frozenset[int], dict[int, list[int]]] = frozenset(), {}

    def by_block(self, sites: Collection[int]) -> dict[int, list[int]]:
        """Block -> those of *sites* in it that have no guard, in order."""
        if sites is not self._last[0]:
            found: dict[int, list[int]] = {}
            for i in sorted(sites):
                if self.model.instruction(i).guard < 0:
                    found.setdefault(self.model.cfg.block_of[i], []).append(i)
            if not isinstance(sites, frozenset):  # it may change
                return found
            self._last = sites, found
        return self._last[1]


def unbarred(
    model: KernelModel, sites: Iterable[int], barring: Collection[int], to: Collection[int] = ()
) -> list[int]:
    """All *sites* of which :func:`last` gives the last in each block, in order."""
    cfg = model.cfg
    unguarded = model.fact(_Unguarded).by_block(barring)
    work = [(cfg.block_of[i], i) for i in to] or [(b, cfg.blocks[b].end) for b in cfg.exits if b in cfg.rank]
    seen, whole = set(work), set[int]()
    free: dict[int, list[int]] = {}
    """Block -> the ends before which a path is free, from the last unguarded instruction that bars it on."""

    def begin(b: int, end: int) -> int:
        barred = unguarded.get(b, ())
        before = bisect_left(barred, end)
        return barred[before - 1] if before else -1

    while work:
        b, end = work.pop()
        insort(free.setdefault(b, []), end)
        if begin(b, end) < 0:
            for edge in cfg.predecessors[b]:
                if edge.source not in whole:
                    whole.add(edge.source)
                    before = edge.source, cfg.blocks[edge.source].end
                    if before not in seen:
                        work.append(before)
    found = []
    for site in sorted(sites):
        b = cfg.block_of[site]
        ends = free.get(b, ())
        after = bisect_right(ends, site)  # the first end after it has the least begin
        if after < len(ends) and begin(b, ends[after]) < site:
            found.append(site)
    return found
