"""Whether a fact generated at one site survives to another, and along which path.

A dataflow solution over-approximates where a fact arrives: a join forgets which branches exclude each other. Before
anything is reported, :func:`find_paths` searches for a path that the threads that generated the fact can take.

**Algorithm.** A best-first search over states, nearest to a goal first. A state is a position, the analysis's state of
the fact, a path condition, and the threads still on the path. The search stays in the *region*: the blocks on paths
from the start to a goal that the fact may enter according to the solver. Expanding a state executes its block:

- a branch is closed if its predicate is false under the path condition, or no remaining thread may take it;
- an instruction under a guard that changes the fact has both outcomes, unless the path condition decides the guard;
  the path states which one it assumes;
- a predicate tested twice has one truth; a fact is dropped when an instruction on the path may change its value, and a
  fact about a loop counter is restated for the next iteration at a back edge;
- a dispatcher of roles ends the path.

To keep the number of states small, a predicate is remembered only if a *leaf* of it (a value on which its truth
depends) decides more than once in the region, and only up to the last strongly connected component in which it does. A
state is subsumed by an earlier one at the same position with a weaker path condition and at least the same threads.

A search that has visited some states looks *ahead*: at all positions and states of the fact from which the graph leads to
a goal, whatever the branches depend on. Most searches without an answer have none there, since the fact ends on the way.

A search that has visited many states also computes what each block *requires*: the predicates that have one truth on
all paths from there to a goal. A state that contradicts one of them is dropped at once, where it would otherwise be
multiplied by every independent branch up to the test that closes its paths.

**What it over-approximates.** A path that is found may still be infeasible: where entailment is too weak, where a
predicate was forgotten, and because the iterations of a loop are not distinguished. :func:`concrete_entry_path` is the
complement for the last of these: it follows paths from the entry and evaluates each predicate with the values of its
iteration. A path that is not found is infeasible up to the assumptions of :mod:`tclint.values`.

**Budgets.** A search visits at most ``MAX_STATES_PER_PATH`` states; a path from the entry has at most
``MAX_EDGES_PER_ENTRY_PATH`` edges. An answer says whether its search was exhaustive (:mod:`tclint.dataflow.answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from itertools import chain, count
from typing import Any

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.dataflow.answers import Answer, Decision, Found, Guard, Infeasible, Search
from tclint.dataflow.path_search_cache import BranchEdge, EntryPrefix, PathSearchCache
from tclint.dataflow.views import ThreadContext
from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Instruction, Site
from tclint.values import PathCondition
from tclint.values import thread_masks as T

__all__ = [
    "ENTRY_PATH",
    "FEASIBLE_PATH",
    "Path",
    "PathQuery",
    "concrete_entry_path",
    "find_paths",
]

EXIT = -1
"""The goal "the function is left" (also: a role returns to its dispatcher)."""

FEASIBLE_PATH, ENTRY_PATH = "feasible path", "path from the entry"
"""The names of this module's two questions in a ledger."""
MAX_STATES_PER_PATH = 500
"""The states that :func:`find_paths` may visit, and the edges that may separate its start from a goal."""
STATES_BEFORE_LOOKING_AHEAD = 200
"""The states after which a search looks ahead; most searches that find a path visit fewer."""
MAX_POSITIONS_AHEAD = 10_000
"""The positions at which a search may look; with more, it has no :attr:`_PathSearch.ahead`."""
STATES_BEFORE_REQUIREMENTS = 100
"""The states after which a search computes what each block requires; few searches visit as many."""
MAX_EDGES_PER_ENTRY_PATH = 96
"""The length in edges of a path that :func:`concrete_entry_path` may find."""
MAX_BLOCKS_PER_ENTRY_PATH, MAX_BLOCKS_PER_CONTINUED_ENTRY_PATH = 256, 1024
"""The blocks that :func:`concrete_entry_path` may visit, without and with edges along which the path must continue."""
_SUMS_PER_BLOCK = 8
"""The comparisons of sums for contradictions that take as long as a block; almost all paths need none."""

_DISPATCHED = "a branch table selects the role by a value in memory, and paths are not followed past it"
_NO_THREAD = Infeasible("no thread executes the start")
_CUT_OFF = Infeasible("no path in the control-flow graph carries the fact to the goal")
_ENDED = Infeasible("the fact ends on every path")
_UNREACHED = Infeasible("it is unreachable in the control-flow graph")


@dataclass(frozen=True)
class Path:
    """A feasible path: the edges taken, and the instructions on it that changed the fact (*marks*)."""

    edges: tuple[Edge, ...]
    marks: tuple[Site, ...]
    end: Site
    """The instruction reached, or ``EXIT``."""
    threads: T.Threads
    """The threads that can take the path."""
    state: Any = None
    """The analysis's state of the fact at the end."""
    guards: tuple[tuple[int, Guard], ...] = ()
    """The guards of instructions that may change the fact, as far as the path assumes an outcome; each with the number of
    edges before it."""

    def assumes(self, decision: Decision) -> bool:
        """Whether the path takes that edge, or assumes that outcome of a guard."""
        return decision in self.edges or any(guard == decision for _, guard in self.guards)

    def sites(self, cfg: CFG, start: Site) -> Iterator[Site]:
        """The instructions on the path between *start* and the end, both excluded."""
        return chain.from_iterable(self._spans(cfg, start))

    def passed(self, cfg: CFG, start: Site) -> Passed:
        """The instructions of :meth:`sites`, for membership tests."""
        return Passed(frozenset(self._spans(cfg, start)))

    def _spans(self, cfg: CFG, start: Site) -> Iterator[range]:
        begin = start + 1
        for edge in self.edges:
            yield range(begin, cfg.blocks[edge.source].end)
            begin = cfg.blocks[edge.target].start
        yield range(begin, self.last(cfg, start) + 1 if self.end == EXIT else self.end)

    def block(self, cfg: CFG, start: Site) -> int:
        """The block in which a path from *start* ends."""
        return self.edges[-1].target if self.edges else cfg.block_of[max(start, 0)]

    def last(self, cfg: CFG, start: Site) -> Site:
        """The last instruction of that block, by which a path leaves the function."""
        return cfg.blocks[self.block(cfg, start)].end - 1


class Passed:
    """The instructions on a path as ranges, since few of them are ever tested."""

    def __init__(self, spans: Iterable[range]) -> None:
        self._spans = spans

    def __contains__(self, site: object) -> bool:
        return any(site in span for span in self._spans)


class PathQuery(NamedTuple):
    """A question: along which feasible paths does a fact survive from a start to a goal?"""

    start: Site
    """The paths begin just after this instruction; -1: at the entry of the function."""
    context: ThreadContext
    """The threads that may take the paths, and the path condition that holds for them at the start."""
    fact: Hashable
    """The analysis's state of the fact at the start."""
    relevant: Sequence[Sequence[int]]
    """Block -> the instructions that may change the fact or meet the goal, ascending."""
    step: Callable[[Any, Site, Instruction], Hashable]
    """The state of the fact after a relevant instruction whose guard is true; None if the fact ends there."""
    goal: Callable[[Any, Site], bool]
    """Whether a path ends with this state before this relevant instruction, or (``EXIT``) where the function is left.

    A caller that wants more than one path rejects here what was met before: the search continues from there.
    """
    goals: Iterable[int]
    """The blocks in which the goal can be met."""
    alive: AbstractSet[int] | None = None
    """The blocks that the fact may enter according to the solver; None: all."""
    closed: AbstractSet[Decision] = frozenset()
    """Edges that no path takes, and outcomes of guards that none assumes."""
    together: bool = False
    """Whether facts that contradict each other only jointly, three at a time, close a branch too.

    This is expensive, and for callers with few paths.
    """


def find_paths(cache: PathSearchCache, query: PathQuery, budget: int = MAX_STATES_PER_PATH) -> Search[Path]:
    """The paths that answer *query*, each searched for on demand.

    Returns :class:`Infeasible` once all paths are exhausted: no path avoids the closed edges. Returns
    :class:`~tclint.dataflow.answers.GaveUp`, which is recorded, after *budget* states, or if a path ends at a
    dispatcher of roles that may lead to a goal.
    """
    if not query.context.threads:
        return _NO_THREAD
    cfg, goals = cache.cfg, tuple(query.goals)
    if cache.spent:
        return cache.ledger.give_up(FEASIBLE_PATH, query.start, cache.spent)
    first = cfg.block_of[query.start] if query.start >= 0 else 0
    region = cache.region(first, goals, query.alive, budget)
    cache.count(len(region or ()))
    if region:
        ended = yield from _PathSearch(cache, query, budget, region).run(first)
    else:
        ended = f"more than {budget} edges away" if region is None else _CUT_OFF
    if isinstance(ended, Infeasible):
        return ended
    if query.start >= 0:
        return cache.ledger.give_up(FEASIBLE_PATH, query.start, ended)
    return cache.ledger.give_up(ENTRY_PATH, cfg.blocks[min(goals, default=0)].start, ended)


_Position = tuple[int, int, Hashable]
"""Block, index in ``relevant[block]`` of the next instruction, and state of the fact."""


class _State(NamedTuple):
    """A position on a path, with all that its continuations depend on. The first two fields order states."""

    distance: int
    """The number of edges to the nearest goal."""
    number: int
    """In order of creation."""
    block: int
    at: int
    """The index in ``relevant[block]`` of the next instruction."""
    fact: Any
    condition: PathCondition
    threads: T.Threads
    parent: _State | None
    """The state from which this one was reached; None at the start."""
    branch: BranchEdge | None
    """The branch taken from there; None if this state continues in the same block."""
    marks: tuple[Site, ...]
    """The instructions from there that changed the fact."""
    guards: tuple[Guard, ...]
    """The outcomes of guards that were assumed from there."""

    @property
    def position(self) -> _Position:
        return self.block, self.at, self.fact


class _PathSearch:
    """The search for the paths of one query in a region, the distance of each block from a goal. It runs once."""

    def __init__(self, cache: PathSearchCache, query: PathQuery, budget: int, region: dict[int, int]) -> None:
        self.cache, self.query, self.budget, self.region = cache, query, budget, region
        self.cfg = cfg = cache.cfg
        self.blocks, self.exits, self.instructions = cfg.blocks, cfg.exits, cfg.function.instructions
        self.values, self.dispatchers = cache.values, cache.reachability.dispatchers
        self.queue: list[_State] = []
        """The states to be expanded, the nearest to a goal first."""
        self.seen: dict[
            tuple[int, int, Hashable, Edge | None], list[tuple[frozenset[tuple[int, bool]], int]]
        ] = {}
        """Position, fact and edge that decides the next branch -> path condition and threads of each state there."""
        self.events: dict[tuple[int, int, Hashable], tuple[int, Any]] = {}
        """The results of :meth:`_next_event`."""
        self.created = 0
        """The number of states."""
        self.numbers = count()
        """Numbers states, those that are subsumed too."""
        self.closed_by: Decision | None = None
        """What was closed last."""
        self.required: dict[int, frozenset[tuple[int, bool]]] | None = None
        """What each block requires (:meth:`_requirements`); None: not computed yet."""
        self.ahead: frozenset[_Position] | None = None
        """The positions from which a goal can be reached (:meth:`_look_ahead`); None: not computed."""
        self.dispatched = False
        """Whether a path ended at a dispatcher of roles that may lead to a goal."""

    def run(self, first: int) -> Generator[Path, None, Infeasible | str]:
        """The paths from block *first*; returns why there are no more, in words if the search is not exhaustive."""
        query, sites = self.query, self.query.relevant[first]
        self.retention = self.cache.retention({first, *self.region}, query.relevant, query.together)
        position = next((k for k, i in enumerate(sites) if i > query.start), len(sites))
        condition = self.values.interned(self.retention.needed(query.context.facts, first))
        threads = query.context.threads
        distance, number = self.region.get(first, 0), next(self.numbers)
        self._push(
            _State(distance, number, first, position, query.fact, condition, threads, None, None, (), ())
        )
        looked = False
        while self.queue and self.created <= self.budget:
            if not looked and self.created > STATES_BEFORE_LOOKING_AHEAD:
                looked = True
                self._look_ahead((first, position, query.fact))
                continue
            if self.required is None and self.created > STATES_BEFORE_REQUIREMENTS:
                self.required = self._requirements()
            state = heappop(self.queue)
            if not self._hopeless(state.block, state.condition):
                yield from self._expand(state)
        if self.queue:
            return f"more than {self.budget} states"
        if self.dispatched:
            return _DISPATCHED
        return _ENDED if self.closed_by is None else Infeasible(self.closed_by)

    def _look_ahead(self, start: _Position) -> None:
        """Set :attr:`ahead`, unless there are too many positions, and drop the states from which no goal can be reached."""
        before: dict[_Position, list[_Position]] = {start: []}
        reaching, work = list[_Position](), [start]
        while work:
            here = work.pop()
            ends, following = self._following(here)
            if ends:
                reaching.append(here)
            for there in following:
                if there not in before:
                    before[there] = []
                    work.append(there)
                before[there].append(here)
            if len(before) > MAX_POSITIONS_AHEAD:
                return
        self.cache.count(len(before))
        ahead = set(reaching)
        while reaching:
            new = [there for there in before[reaching.pop()] if there not in ahead]
            ahead.update(new)
            reaching += new
        self.ahead = frozenset(ahead)
        self.queue = [state for state in self.queue if state.position in ahead]
        heapify(self.queue)

    def _following(self, here: _Position) -> tuple[bool, list[_Position]]:
        """Whether a path may end at the next event after a position, and the positions after that, if every branch may be
        taken and every guard may be true or false."""
        (number, at, fact), query = here, self.query
        sites = query.relevant[number]
        k, after = self._next_event(number, at, fact)
        if k < len(sites):
            i = sites[k]
            following = [(number, k + 1, after)] if after is not None else []
            if after != fact and self.instructions[i].guard >= 0:
                following.append((number, k + 1, fact))
            return query.goal(fact, i), following
        if number in self.dispatchers:
            return True, []  # there may be a goal beyond
        ends = number in self.exits and query.goal(fact, EXIT)
        edges = (branch.edge for branch in self.cache.branches(number))
        return ends, [(e.target, 0, fact) for e in edges if e.target in self.region and e not in query.closed]

    def _hopeless(self, block: int, condition: PathCondition) -> bool:
        """Whether *condition* contradicts a predicate that all paths from *block* to a goal require."""
        required = self.required.get(block, ()) if self.required and condition else ()
        return any(self.values.entails(p, condition) is (not truth) for p, truth in required)

    def _requirements(self) -> dict[int, frozenset[tuple[int, bool]]]:
        """Block -> the predicates that have one truth on all paths from its end to a goal, by backward intersection.

        Only predicates that no loop changes are considered, so they mean the same at every block.
        """
        branches, sources, rank, region = self.cache.branches, self.cfg.sources, self.cfg.rank, self.region
        closed, ends = self.query.closed, {*self.query.goals}
        required: dict[int, frozenset[tuple[int, bool]]] = {
            block: frozenset() for block in ends & region.keys()
        }
        work = [(-rank[block], block) for goal in required for block in sources[goal] if block in region]
        heapify(work)
        waiting = {block for _, block in work}
        while work:  # the last block first, so that most are visited once
            _, block = heappop(work)
            if block in ends or block not in waiting:
                continue
            waiting.remove(block)
            found: frozenset[tuple[int, bool]] | None = None
            for branch in branches(block):
                after = required.get(branch.edge.target)
                if after is None or branch.edge in closed:
                    continue
                if not branch.invariant <= after:
                    after |= branch.invariant
                found = after if found is None else found & after
            if found is not None and found != required.get(block):
                required[block] = found
                for source in sources[block]:
                    if source in region and source not in waiting:
                        waiting.add(source)
                        heappush(work, (-rank[source], source))
        return required

    def _push(self, state: _State) -> None:
        """Queue a state unless no goal is ahead of it, or an earlier one subsumes it, with the same last edge if the next branch depends on it.

        Its path condition is interned.
        """
        if self.ahead is not None and state.position not in self.ahead:
            return
        known, threads, branch = state.condition.pairs(), state.threads, state.branch
        arrival = None if branch is None or branch.on_arrival is None else branch.edge
        before = self.seen.setdefault((state.block, state.at, state.fact, arrival), [])
        for fewer, more in before:
            if fewer <= known and not threads & ~more:
                return  # that state can continue wherever this one could
        before.append((known, threads))
        self.created += 1
        self.cache.states += 1
        heappush(self.queue, state)

    def _expand(self, state: _State) -> Iterator[Path]:
        """Execute the rest of the state's block: yields the paths that end in it, and queues the states after it."""
        query, values, block = self.query, self.values, self.blocks[state.block]
        sites, at, fact = query.relevant[state.block], state.at, state.fact
        condition, threads = state.condition, state.threads
        cursor = query.start + 1 if state.parent is None else sites[at - 1] + 1 if at else block.start
        marks, guards = list[int](), list[Guard]()
        while True:
            k, after = self._next_event(state.block, at, fact)
            if k == len(sites):
                break
            at, i = k + 1, sites[k]
            condition = values.surviving_sites(condition, cursor, i)
            cursor = i
            if query.goal(fact, i):
                executes, taken = self._guarded(i, threads, condition)
                if executes is not False:
                    yield self._path(state, i, taken, fact, marks, guards)
            if after == fact:
                continue
            instruction = self.instructions[i]
            executes, taken = self._guarded(i, threads, condition)
            if executes is False:
                continue
            if executes is None:
                p = values.before(instruction.guard, i)
                if others := threads & values.feasible_threads(p, instruction.negated):
                    # Both outcomes: the one that skips the instruction is queued, the other one continues here.
                    skips, runs = Guard(i, False), Guard(i, True)
                    if skips in query.closed:
                        self.closed_by = skips
                    else:
                        skipped = values.interned(values.refine(p, instruction.negated, condition))
                        chosen = (*guards, skips)
                        self._push(
                            _State(
                                self.region.get(state.block, 0), next(self.numbers), state.block, at, fact, skipped,
                                others, state, None, tuple(marks), chosen,
                            )
                        )  # fmt: skip
                    if runs in query.closed:
                        self.closed_by = runs
                        return
                    condition = values.refine(p, not instruction.negated, condition)
                    guards.append(runs)
            threads = taken
            if after is None:
                return
            fact = after
            marks.append(i)
        condition = values.surviving_sites(condition, cursor, block.end)
        if state.block in self.dispatchers or state.block in self.exits:
            leaving = self._leaving(state.block, fact, condition, threads)
            if leaving is not None:
                yield self._path(state, EXIT, leaving, fact, marks, guards)
        if state.block not in self.dispatchers:
            self._branch(state, fact, condition, threads, tuple(marks), tuple(guards))

    def _leaving(
        self, number: int, fact: Any, condition: PathCondition, threads: T.Threads
    ) -> T.Threads | None:
        """The threads that leave the function, or the known part of it, at the end of a block, if that meets the goal."""
        dispatches = number in self.dispatchers
        if not self.query.goal(fact, EXIT):
            self.dispatched |= dispatches
            return None
        if dispatches:
            return threads
        executes, taken = self._guarded(self.blocks[number].end - 1, threads, condition)
        return None if executes is False else taken

    def _next_event(self, block: int, at: int, fact: Any) -> tuple[int, Any]:
        """The index from *at* on of the next instruction of *block* that meets the goal or changes *fact*; the fact after it.

        ``(number of relevant instructions, fact)`` if there is none. The answer does not depend on the path condition, in
        which most states at a position differ. An instruction that meets the goal now may not do so later.
        """
        key = block, at, fact
        found = self.events.get(key)
        if found is None:
            query, sites, after = self.query, self.query.relevant[block], fact
            while at < len(sites):
                i = sites[at]
                after = query.step(fact, i, self.instructions[i])
                if after != fact or query.goal(fact, i):
                    break
                at += 1
            found = self.events[key] = at, after
        return found

    def _guarded(
        self, i: Site, threads: T.Threads, condition: PathCondition
    ) -> tuple[bool | None, T.Threads]:
        """Whether an instruction executes (None: unknown), and the threads that may execute it."""
        instruction = self.instructions[i]
        if instruction.guard < 0:
            return True, threads
        p = self.values.before(instruction.guard, i)
        truth = self.values.entails(p, condition)
        taken = threads & self.values.feasible_threads(p, not instruction.negated)
        if not taken:
            return False, 0
        return None if truth is None else truth is not instruction.negated, taken

    def _branch(
        self,
        state: _State,
        fact: Hashable,
        condition: PathCondition,
        threads: T.Threads,
        marks: tuple[Site, ...],
        guards: tuple[Guard, ...],
    ) -> None:
        """Queue the states after the branches that can be taken at the end of the state's block."""
        retention, region, closed = self.retention, self.region, self.query.closed
        on_arrival = state.branch and state.branch.on_arrival
        if condition is not state.condition:
            condition = self.values.interned(condition)
        for branch in self.cache.branches(state.block):
            edge = branch.edge
            if edge.target not in region:
                continue
            taken = threads & branch.threads
            after = retention.after(condition, branch, on_arrival) if taken and edge not in closed else None
            if after is None:
                self.closed_by = edge
            else:
                distance, number = region[edge.target], next(self.numbers)
                self._push(
                    _State(distance, number, edge.target, 0, fact, after, taken, state, branch, marks, guards)
                )

    def _path(
        self,
        state: _State,
        end: Site,
        threads: T.Threads,
        fact: Any,
        marks: Sequence[Site],
        guards: Sequence[Guard],
    ) -> Path:
        """The path to *state*, and on to the instruction *end* by way of *marks*."""
        edges: list[Edge] = []
        changed = [tuple(marks)]
        assumed = [(0, guard) for guard in reversed(guards)]  # with the number of edges after it
        here: _State | None = state
        while here is not None:
            if here.branch is not None:
                edges.append(here.branch.edge)
            changed.append(here.marks)
            assumed += [(len(edges), guard) for guard in reversed(here.guards)]
            here = here.parent
        outcomes = tuple((len(edges) - after, guard) for after, guard in reversed(assumed))
        return Path(tuple(reversed(edges)), tuple(chain(*reversed(changed))), end, threads, fact, outcomes)


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
    if cache.spent:
        return cache.ledger.give_up(ENTRY_PATH, site, cache.spent)
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
    contradictions = cache.values.contradictions
    compared = contradictions.compared
    while work and budget > 0:
        block, here = work.pop()
        if block == target:
            there: EntryPrefix | None = here
            for edge in continuation:
                there = there and there.extended(edge, views)
            if there is not None:
                return Found(tuple(here.along.edges))
        cost = 1 + (contradictions.compared - compared) // _SUMS_PER_BLOCK
        compared = contradictions.compared
        budget -= cost
        cache.states += cost
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
        return cache.ledger.give_up(
            ENTRY_PATH, site, f"more than {limit} blocks, or comparisons that take as long"
        )
    if cut:
        return cache.ledger.give_up(ENTRY_PATH, site, too_long)
    return Infeasible(by or "no path continues along the requested edges")
