"""Whether a fact generated at one site survives to another, and along which path.

A dataflow solution over-approximates where a fact arrives: a join forgets which branches exclude each other. Before
anything is reported, :func:`find_paths` searches for a path that the threads that generated the fact can take. A search
state is a position, the analysis's state of the fact, a path condition, and the threads still on the path:

- a branch is closed if its predicate is false under the path condition, or no remaining thread may take it;
- an instruction under a guard that changes the fact has both outcomes, unless the path condition decides the guard;
- a predicate tested twice has one truth; a fact is dropped when an instruction on the path may change its value, and a
  fact about a loop counter is restated for the next iteration at a back edge;
- a dispatcher of roles ends the path.

To keep the number of states small, a predicate is remembered only if a *leaf* of it (a value on which its truth
depends) decides more than once in the region between start and goals, and only up to the last strongly connected
component in which it does. A state is subsumed by an earlier one at the same position with a weaker path condition and
at least the same threads. The iterations of a loop are not distinguished; :func:`concrete_entry_path` is the complement
that follows paths from the entry and evaluates each predicate with the values of its iteration.

A path that is found may still be infeasible, where entailment is too weak; one that is not found is infeasible up to
the assumptions of :mod:`tclint.values`. Each search has a budget, and its answer says whether it is exhaustive
(:mod:`tclint.dataflow.answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain
from typing import Any, NamedTuple

from tclint.dataflow.answers import Answer, Found, Infeasible, Ledger, Search
from tclint.dataflow.views import ThreadContext, Views
from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Instruction
from tclint.values import PathCondition, PathSubstitution, Values
from tclint.values import thread_masks as T

__all__ = [
    "ENTRY_PATH",
    "FEASIBLE_PATH",
    "Path",
    "PathSearchCache",
    "assume_on_path",
    "concrete_entry_path",
    "find_paths",
]

EXIT = -1
"""The goal "the function is left" (also: a role returns to its dispatcher)."""
_NO_COMPONENT = 1 << 62
"""Greater than the number of any strongly connected component."""

FEASIBLE_PATH, ENTRY_PATH = "feasible path", "path from the entry"
"""The names of this module's two questions in a ledger."""
MAX_STATES_PER_PATH = 500
"""The states that :func:`find_paths` may visit, and the edges that may separate its start from a goal."""
MAX_EDGES_PER_ENTRY_PATH = 96
"""The length in edges of a path that :func:`concrete_entry_path` may find."""
MAX_BLOCKS_PER_ENTRY_PATH, MAX_BLOCKS_PER_CONTINUED_ENTRY_PATH = 256, 1024
"""The blocks that :func:`concrete_entry_path` may visit, without and with edges along which the path must continue."""
MAX_FLAG_CONSTANTS = 4
"""Constants among which a flag may be chosen; a phi with more of them is a value and not a flag."""

_DISPATCHED = "a branch table selects the role by a value in memory, and paths are not followed past it"
_NO_THREAD = Infeasible("no thread executes the start")
_CUT_OFF = Infeasible("no path in the control-flow graph carries the fact to the goal")
_ENDED = Infeasible("the fact ends on every path")
_UNREACHED = Infeasible("it is unreachable in the control-flow graph")


@dataclass(frozen=True)
class Path:
    """A feasible path: the edges taken, and the instructions on it that changed the fact (*marks*)."""

    edges: tuple[Edge, ...]
    marks: tuple[int, ...]
    end: int
    """The instruction reached, or ``EXIT``."""
    threads: int
    """The threads that can take the path."""
    state: Any = None
    """The analysis's state of the fact at the end."""

    def sites(self, cfg: CFG, start: int) -> Iterator[int]:
        """The instructions on the path between *start* and the end, both excluded."""
        return chain.from_iterable(self._spans(cfg, start))

    def passed(self, cfg: CFG, start: int) -> Passed:
        """The instructions of :meth:`sites`, for membership tests."""
        return Passed(frozenset(self._spans(cfg, start)))

    def _spans(self, cfg: CFG, start: int) -> Iterator[range]:
        begin = start + 1
        for edge in self.edges:
            yield range(begin, cfg.blocks[edge.source].end)
            begin = cfg.blocks[edge.target].start
        yield range(begin, self.last(cfg, start) + 1 if self.end == EXIT else self.end)

    def block(self, cfg: CFG, start: int) -> int:
        """The block in which a path from *start* ends."""
        return self.edges[-1].target if self.edges else cfg.block_of[max(start, 0)]

    def last(self, cfg: CFG, start: int) -> int:
        """The last instruction of that block, by which a path leaves the function."""
        return cfg.blocks[self.block(cfg, start)].end - 1


class Passed:
    """The instructions on a path as ranges, since few of them are ever tested."""

    def __init__(self, spans: Iterable[range]) -> None:
        self._spans = spans

    def __contains__(self, site: object) -> bool:
        return any(site in span for span in self._spans)


class Flag(NamedTuple):
    """A phi whose incoming values include a few constants, so that the edge taken may determine it."""

    phis: frozenset[int]
    """The phis through which the constants reach it; empty if there are none, or too many constants."""
    numbers: frozenset[int]
    """The constants."""


class Branch(NamedTuple):
    """An edge out of a block, with all that decides which threads may take it."""

    edge: Edge
    predicate: int | None
    """The predicate that decides whether it is taken; None: it has no condition."""
    threads: int
    """The threads that may take it."""
    arrival: Edge | None
    """The edge itself if the branch that follows depends on its having been taken, else None."""
    leaves: bool
    """Whether it leaves its strongly connected component."""
    never: Sequence[int]
    """Predicates that are false at its target."""


class PathSearchCache:
    """What searches need to know of a function, cached between them."""

    def __init__(self, cfg: CFG, values: Values, views: Views, ledger: Ledger) -> None:
        self.cfg = cfg
        self.values = values
        self.views = views
        self.ledger = ledger
        self.reachability = views.reachability
        self._branch_leaves: dict[int, tuple[int, ...]] = {}
        self._arriving: dict[Edge, int | None] = {}
        self._guards: dict[int, tuple[int, ...]] = {}
        self._facts: dict[int, list[int]] = {}
        self._flags: dict[int, Flag] = {}
        self._entry_prefixes: dict[tuple[int, frozenset[tuple[int, bool]]], _EntryPrefix] = {}
        self._branch_cache: dict[int, tuple[Branch, ...]] = {}

    def entry_prefix(self, context: ThreadContext) -> _EntryPrefix:
        """The empty prefix of a *context*, shared by all searches, so that each extends what others have evaluated."""
        key = context.threads, context.facts.pairs()
        if key not in self._entry_prefixes:
            self._entry_prefixes[key] = _EntryPrefix(
                self.values.along((), frozenset()), context.facts, context.threads
            )
        return self._entry_prefixes[key]

    def branches(self, block: int) -> tuple[Branch, ...]:
        """The edges out of *block*."""
        found = self._branch_cache.get(block)
        if found is None:
            found = self._branch_cache[block] = tuple(map(self._branch, self.cfg.successors[block]))
        return found

    def _branch(self, edge: Edge) -> Branch:
        component, p = self.cfg.component, self.reachability.edge_predicate(edge)
        return Branch(
            edge,
            p,
            -1 if p is None else self.values.feasible_threads(p, edge.value),
            None if self.arriving(edge.target, edge) is None else edge,
            component[edge.target] != component[edge.source],
            self.views.never_true(edge.target),
        )

    def branch_leaves(self, block: int) -> tuple[int, ...]:
        """The leaves of the predicate of the branch at the end of *block*."""
        found = self._branch_leaves.get(block)
        if found is None:
            edges = self.cfg.successors[block]
            p = self.reachability.edge_predicate(edges[0]) if edges else None
            found = self._branch_leaves[block] = () if p is None else tuple(set(_leaves(self.values, p)))
        return found

    def arriving(self, block: int, edge: Edge | None) -> int | None:
        """The predicate of the branch at the end of *block* after *edge* was taken, in terms of the values before.

        ``i < n`` is ``0 < n`` on entry to a loop. None if it does not depend on the edge, or still on a phi of the
        block.
        """
        if edge is None or edge.target != block or len(self.cfg.sources[block]) < 2:
            return None
        if edge not in self._arriving:
            edges, found = self.cfg.successors[block], None
            p = self.reachability.edge_predicate(edges[0]) if edges else None
            if p is not None and ("block", block) in self.values.varying_at(p):
                there = self.values.along((edge,), frozenset())(p)
                found = there if ("block", block) not in self.values.varying_at(there) else None
            self._arriving[edge] = found
        return self._arriving[edge]

    def guard_leaves(self, site: int) -> tuple[int, ...]:
        """The leaves of the guard of an instruction."""
        found = self._guards.get(site)
        if found is None:
            guard = self.cfg.function.instructions[site].guard
            leaves = _leaves(self.values, self.values.before(guard, site)) if guard >= 0 else []
            found = self._guards[site] = tuple(set(leaves))
        return found

    def region(
        self, start: int, goals: Iterable[int], alive: AbstractSet[int] | None, max_edges: int
    ) -> dict[int, int] | None:
        """The blocks on paths from block *start* to a block of *goals*, each with its distance in edges from a goal.

        Only blocks that the fact may enter according to the solver (*alive*; None: all) are considered. Empty if no
        path leads to a goal; None if *start* is more than *max_edges* edges away from one.
        """
        sources, successors = self.cfg.sources, self.cfg.successors
        distance: dict[int, int] = {}
        layer = list(goals)
        depth = 0
        while layer and (depth <= max_edges or start in distance):
            following: list[int] = []
            for b in layer:
                if b not in distance:
                    distance[b] = depth
                    if alive is None or b in alive or (b == start and depth == 0):
                        following += sources[b]
            layer = following
            depth += 1
        if start not in distance:
            return None if layer else {}
        forward: dict[int, int] = {}
        work = [start]
        while work:
            b = work.pop()
            if b not in forward:
                forward[b] = distance[b]
                if b not in self.reachability.dispatchers:
                    work += [
                        e.target for e in successors[b] if e.target in distance and e.target not in forward
                    ]
        return forward

    def watched(
        self, region: Iterable[int], relevant: Sequence[Sequence[int]]
    ) -> tuple[set[int], dict[int, int]]:
        """The leaves that decide more than once in *region*, and for every leaf the last component in which it decides.

        A leaf decides more than once at several sites, in a loop if its value does not change there, or if it is a phi,
        which depends on the path taken before. Components are numbered backwards: the last one has the smallest number.
        """
        repeated: set[int] = set()
        last: dict[int, int] = {}
        component = self.cfg.component
        cyclic, instructions = self.cfg.in_cycle, self.cfg.function.instructions
        for b in region:
            number = component[b]
            leaves = self.branch_leaves(b)
            for site in relevant[b]:
                if instructions[site].guard >= 0:
                    leaves += self.guard_leaves(site)
            for leaf in leaves:
                before = last.get(leaf)
                if before is None or number < before:
                    last[leaf] = number
                if (
                    before is not None
                    or (b in cyclic and not self.values.varying_at(leaf))
                    or self.values.node(leaf)[0] == "phi"
                ):
                    repeated.add(leaf)
        return repeated, last

    def flag(self, phi: int) -> Flag:
        """The constants that a tested phi may have, as in ``if (pending)`` after a loop that may have set it."""
        found = self._flags.get(phi)
        if found is None:
            values = self.values
            phis, numbers, work = set[int](), set[int](), [phi]
            while work:
                value = work.pop()
                number = values.constant_of(value)
                if number is not None:
                    numbers.add(number)
                elif values.node(value)[0] == "phi" and value not in phis:
                    phis.add(value)
                    work += values.arguments(value)
            few = 0 < len(numbers) <= MAX_FLAG_CONSTANTS
            found = self._flags[phi] = Flag(frozenset(phis if few else ()), frozenset(numbers))
        return found

    def leaves(self, fact: int) -> list[int]:
        """The leaves of a predicate with known truth."""
        found = self._facts.get(fact)
        if found is None:
            found = self._facts[fact] = _leaves(self.values, fact)
        return found


def _leaves(values: Values, p: int) -> list[int]:
    """The values on which the truth of *p* depends. Comparisons of one value, or one difference, share their leaves."""
    found: list[int] = []
    work = [p]
    while work:
        q = values.representative(work.pop())
        node = values.nodes[q]
        if node[0] == "not":
            work.append(node[1])
        elif node[0] == "logic":
            work += [node[2], node[3]]
        elif node[0] == "compare":
            found += values.compared(q)
        else:
            found.append(q)
    return found


def assume_on_path(
    values: Values, p: int, wanted: bool, facts: PathCondition, threads: int
) -> tuple[PathCondition, int] | None:
    """The path condition and the threads after *p* had the *wanted* truth.

    *p* is in terms of the values at that point. None if no thread may have it so, or if only a launch decides it.
    """
    threads &= values.feasible_threads(p, wanted)
    truth = values.entails(p, facts)
    if not threads or truth is (not wanted):
        return None
    if (
        truth is None
        and values.depends_on_unmodelled_position(p)
        and not values.holds_in_large_ctas(p, wanted)
    ):
        return None
    return values.refine(p, wanted, facts), threads


class _EntryPrefix:
    """A path from the entry on which every branch is evaluated, not assumed."""

    __slots__ = ("_extensions", "along", "facts", "threads")

    def __init__(self, along: PathSubstitution, facts: PathCondition, threads: int) -> None:
        self.along = along
        """The values of expressions at its end."""
        self.facts = facts
        self.threads = threads
        self._extensions: dict[Edge, _EntryPrefix | None] = {}

    def extended(self, edge: Edge, views: Views) -> _EntryPrefix | None:
        """The prefix extended by *edge*; None if no thread on it can take that edge."""
        if edge not in self._extensions:
            self._extensions[edge] = self._extend(edge, views)
        return self._extensions[edge]

    def _extend(self, edge: Edge, views: Views) -> _EntryPrefix | None:
        facts, threads, p = self.facts, self.threads, views.reachability.edge_predicate(edge)
        if p is not None:
            held = assume_on_path(views.values, self.along(p), edge.value, facts, threads)
            if held is None:
                return None
            facts, threads = held
        return _EntryPrefix(self.along.extended(edge), facts, threads)


def concrete_entry_path(
    cache: PathSearchCache,
    target: int,
    context: ThreadContext | None = None,
    continuation: Sequence[Edge] = (),
) -> Answer[tuple[Edge, ...]]:
    """A path from the entry to block *target* on which each branch is evaluated with the values of its iteration.

    It starts with all threads, or those of *context*, and must be able to continue along the edges of *continuation*. A
    loop with a constant trip count is iterated that often, whereas :func:`find_paths` does not distinguish iterations.
    """
    cfg, views = cache.cfg, cache.views
    site = cfg.blocks[target].start
    too_long = f"more than {MAX_EDGES_PER_ENTRY_PATH} edges"
    distance = cache.region(0, (target,), None, MAX_EDGES_PER_ENTRY_PATH)
    if distance is None:
        return cache.ledger.give_up(ENTRY_PATH, site, too_long)
    if target not in distance:
        return cache.ledger.give_up(ENTRY_PATH, site, _DISPATCHED) if distance else _UNREACHED
    budget = limit = MAX_BLOCKS_PER_CONTINUED_ENTRY_PATH if continuation else MAX_BLOCKS_PER_ENTRY_PATH
    work = [(0, cache.entry_prefix(context or ThreadContext(T.full(cache.values.threads))))]
    cut = False
    by: Edge | None = None
    while work and budget:
        block, here = work.pop()
        if block == target:
            there: _EntryPrefix | None = here
            for edge in continuation:
                there = there and there.extended(edge, views)
            if there is not None:
                return Found(tuple(here.along.edges))
        budget -= 1
        if len(here.along.edges) == MAX_EDGES_PER_ENTRY_PATH:
            cut = True
            continue
        edges = [e for e in cfg.successors[block] if e.target in distance]
        for edge in sorted(edges, key=lambda e: -distance[e.target]):  # the nearest one is popped first
            if (there := here.extended(edge, views)) is not None:
                work.append((edge.target, there))
            else:
                by = edge
    if work:
        return cache.ledger.give_up(ENTRY_PATH, site, f"more than {limit} blocks")
    if cut:
        return cache.ledger.give_up(ENTRY_PATH, site, too_long)
    return Infeasible(by or "no path continues along the requested edges")


def find_paths(
    cache: PathSearchCache,
    start: int,
    context: ThreadContext,
    state: Hashable,
    relevant: Sequence[Sequence[int]],
    step: Callable[[Hashable, int, Instruction], Hashable],
    goal: Callable[[Hashable, int], bool],
    goals: Iterable[int],
    alive: AbstractSet[int] | None = None,
    closed: AbstractSet[Edge] = frozenset(),
    budget: int = MAX_STATES_PER_PATH,
    *,
    together: bool = False,
) -> Search[Path]:
    """The feasible paths from just after instruction *start* on which the fact survives until *goal* is met.

    *start* -1 is the entry of the function. *step* returns the fact's state after an affecting instruction whose guard
    is true, or None if the fact ends there. *goal* is called before every affecting instruction, and with ``EXIT``
    where the function is left; *goals* are the blocks in which it can be met. No edge of *closed* is taken. A caller
    that wants more than one path makes *goal* reject what was met before: the search continues from there. With
    *together*, facts that contradict each other only jointly, three at a time, close a branch as well. This is
    expensive, and for callers with few paths.

    Returns :class:`Infeasible` once all paths are exhausted: no path avoids the edges of *closed*. Returns
    :class:`GaveUp`, which is recorded, after *budget* states, or if a path ends at a dispatcher of roles that may lead
    to a goal.
    """
    if not context.threads:
        return _NO_THREAD
    cfg, values, views = cache.cfg, cache.values, cache.views
    instructions, component = cfg.function.instructions, cfg.component
    first = cfg.block_of[start] if start >= 0 else 0

    # Nearest to the goal first: (distance, number, block, index in relevant[block], state, facts, threads, node).
    queue: list[tuple[int, int, int, int, Hashable, PathCondition, int, int]] = []
    # Parent, edge taken, sites that changed the fact.
    trail: list[tuple[int, Edge | None, tuple[int, ...]]] = []
    seen: dict[tuple[int, int, Hashable, Edge | None], list[tuple[frozenset[tuple[int, bool]], int]]] = {}
    goals = tuple(goals)
    question, site = (
        (FEASIBLE_PATH, start) if start >= 0 else (ENTRY_PATH, cfg.blocks[min(goals, default=0)].start)
    )
    region = cache.region(first, goals, alive, budget)
    if region is None:
        return cache.ledger.give_up(question, site, f"more than {budget} edges away")
    if not region:
        return _CUT_OFF
    watched, latest = cache.watched({first, *region}, relevant)
    spent = 0
    by: Edge | None = None  # the edge closed last
    dispatched = False

    def push(
        block: int,
        at: int,
        state: Hashable,
        facts: PathCondition,
        threads: int,
        parent: int,
        edge: Edge | None,
        marks: tuple[int, ...],
        arrival: Edge | None = None,
    ) -> None:
        nonlocal spent
        facts = values.interned(facts)
        known = facts.pairs()
        # A state with fewer facts and more threads can continue wherever this one could, so it subsumes this one. It
        # must have arrived by the same edge if the next branch depends on that.
        before = seen.setdefault((block, at, state, arrival), [])
        for fewer, more in before:
            if fewer <= known and not threads & ~more:
                return
        spent += 1
        before.append((known, threads))
        trail.append((parent, edge, marks))
        heappush(queue, (region.get(block, 0), spent, block, at, state, facts, threads, len(trail) - 1))

    def result(node: int, end: int, threads: int, state: Hashable, marks: list[int]) -> Path:
        edges: list[Edge] = []
        changed: list[int] = list(reversed(marks))
        while node >= 0:
            node, edge, passed = trail[node]
            if edge is not None:
                edges.append(edge)
            changed.extend(reversed(passed))
        edges.reverse()
        changed.reverse()
        return Path(tuple(edges), tuple(changed), end, threads, state)

    joined: dict[int, list[int]] = {}  # block -> phis of predicates at its entry
    chosen: dict[int, dict[int, frozenset[int]]] = {}  # block -> flag phis at its entry -> their constants
    predicates_until = _NO_COMPONENT
    for leaf in list(latest):
        kind, *where = values.node(leaf)
        if kind != "phi":
            continue
        if cfg.function.registers[where[1]].type == ".pred":
            # Any known predicate may be an argument of this phi, so none may be dropped before its last use.
            predicates_until = min(predicates_until, latest[leaf])
            if leaf in watched:
                joined.setdefault(where[0], []).append(leaf)
        else:
            flag = cache.flag(leaf)
            for phi in flag.phis:
                latest[phi] = min(latest.get(phi, _NO_COMPONENT), latest[leaf])
                chosen.setdefault(values.node(phi)[1], {})[phi] = flag.numbers

    last_use: dict[int, int] = {}  # predicate -> the last component in which a leaf of it decides

    def needed(facts: PathCondition, block: int) -> PathCondition:
        """*facts* without those that decide nothing from *block* on, so states that differ only in them are merged."""
        here = component[block]
        if predicates_until <= here or not facts:
            return facts
        unneeded = []
        for p in facts:
            end = last_use.get(p)
            if end is None:
                end = last_use[p] = min(
                    (latest.get(leaf, _NO_COMPONENT) for leaf in cache.leaves(p)), default=_NO_COMPONENT
                )
            if end > here:
                unneeded.append(p)
        return PathCondition((p, v) for p, v in facts.items() if p not in unneeded) if unneeded else facts

    def decisive(p: int) -> bool:
        """Whether a leaf of *p* decides more than once."""
        return not watched.isdisjoint(cache.leaves(p))

    def condition(i: int, threads: int, facts: PathCondition) -> tuple[int, bool | None, int]:
        """The predicate of a guarded instruction, whether it executes, and the threads that may execute it."""
        instruction = instructions[i]
        p = values.before(instruction.guard, i)
        truth = values.entails(p, facts)
        taken = threads & values.feasible_threads(p, not instruction.negated)
        if not taken:
            return p, False, 0
        return p, None if truth is None else truth is not instruction.negated, taken

    executes: bool | None
    position = next((k for k, i in enumerate(relevant[first]) if i > start), len(relevant[first]))
    push(first, position, state, needed(context.facts, first), context.threads, -1, None, ())
    while queue and spent <= budget:
        _, _, block, at, here, facts, threads, node = heappop(queue)
        sites = relevant[block]
        cursor = sites[at - 1] + 1 if at else cfg.blocks[block].start
        if not node:
            cursor = start + 1
        marks: list[int] = []
        for k in range(at, len(sites)):
            i = sites[k]
            facts = values.surviving_sites(facts, cursor, i)
            cursor = i
            instruction = instructions[i]
            if goal(here, i):
                executes, taken = None, threads
                if instruction.guard >= 0:
                    _, executes, taken = condition(i, threads, facts)
                if executes is not False:
                    yield result(node, i, taken, here, marks)
            after = step(here, i, instruction)
            if after == here:
                continue
            if instruction.guard >= 0:
                p, executes, taken = condition(i, threads, facts)
                if executes is False:
                    continue
                others = threads & values.feasible_threads(p, instruction.negated)
                if executes is None and others:
                    # Both outcomes: the one that skips the instruction is queued, the other one continues here.
                    skipped = values.refine(p, instruction.negated, facts)
                    push(block, k + 1, here, skipped, others, node, None, tuple(marks))
                    facts = values.refine(p, not instruction.negated, facts)
                threads = taken
            if after is None:
                break
            here = after
            marks.append(i)
        else:
            facts = values.surviving_sites(facts, cursor, cfg.blocks[block].end)
            last = cfg.blocks[block].end - 1
            ends = block in views.reachability.dispatchers
            met = (ends or block in cfg.exits) and goal(here, EXIT)
            if met:
                executes, taken = True, threads
                if instructions[last].guard >= 0 and not ends:
                    _, decided, taken = condition(last, threads, facts)
                    executes = decided is not False
                if executes:
                    yield result(node, EXIT, taken, here, marks)
            if ends:
                dispatched = dispatched or not met
                continue
            decides = not watched.isdisjoint(cache.branch_leaves(block))
            predicate_on_arrival = cache.arriving(block, trail[node][1])
            passed = tuple(marks)
            for edge, predicate, edge_threads, arrival, leaves, never in cache.branches(block):
                target = edge.target
                if target not in region:
                    continue
                if edge in closed:
                    by = edge
                    continue
                next_facts, next_threads = facts, threads
                if predicate is not None:
                    if values.entails(predicate, facts) is (not edge.value):
                        by = edge
                        continue
                    next_threads = threads & edge_threads
                    if not next_threads:
                        by = edge
                        continue
                    if decides or together:
                        next_facts = values.refine(predicate, edge.value, facts)
                    if together and values.unsatisfiable(next_facts):
                        by = edge
                        continue
                    if predicate_on_arrival is not None:
                        if values.entails(predicate_on_arrival, facts) is (not edge.value):
                            by = edge
                            continue
                        if decisive(predicate_on_arrival):
                            next_facts = values.refine(predicate_on_arrival, edge.value, next_facts)
                arrived: list[tuple[int, bool | None]] = []
                for phi, numbers in chosen[target].items() if target in chosen else ():
                    incoming = values.after_block(values.node(phi)[2], block)
                    number = values.choice_among(incoming, numbers, next_facts)
                    if number is not None:
                        arrived.append((values.equals_constant(phi, number), True))
                for leaf in joined.get(target, ()):
                    incoming = values.after_block(values.node(leaf)[2], block)
                    arrived.append((leaf, values.entails(incoming, next_facts)))
                if next_facts:
                    arrived += [
                        (q, held) for q, held in values.next_iteration(next_facts, edge) if decisive(q)
                    ]
                    next_facts = values.surviving_entry(next_facts, target)
                if never:
                    arrived += [(q, False) for q in never if decisive(q)]
                for leaf, held in arrived:
                    if held is not None:
                        next_facts = values.refine(leaf, held, next_facts)
                if leaves and not together:
                    next_facts = needed(next_facts, target)  # inside a component, nothing ceases to decide
                push(target, 0, here, next_facts, next_threads, node, edge, passed, arrival)
    if queue:
        return cache.ledger.give_up(question, site, f"more than {budget} states")
    if dispatched:
        return cache.ledger.give_up(question, site, _DISPATCHED)
    return _ENDED if by is None else Infeasible(by)
