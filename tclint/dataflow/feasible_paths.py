"""Whether a fact made at one instruction survives to another, and along which path.

The solver says where a fact *may* arrive. Before anything is reported, the
path is searched for again, followed by the very threads that made the fact:
branches that they do not take are closed, a predicate tested twice has one
value, and a guarded operation that ends the fact is taken whenever its guard
follows from what is known. Without such a path there is no finding.

Each search has a budget, and its answer says whether it is exhaustive (:mod:`tclint.dataflow.answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain
from typing import Any, NamedTuple

from tclint.dataflow.answers import Answer, Found, Infeasible, Ledger, Search
from tclint.dataflow.views import View, Views
from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Instruction
from tclint.values import Along, Facts, Values
from tclint.values import thread_masks as T

__all__ = ["ENTRY_PATH", "FEASIBLE_PATH", "Path", "Survey", "find_lead", "find_paths", "held_there"]

EXIT = -1
"""The goal "the function is left" (also: a role returns to its dispatcher)."""
_NO_COMPONENT = 1 << 62
"""Beyond the number of any component."""

FEASIBLE_PATH, ENTRY_PATH = "feasible path", "path from the entry"
"""The two questions of this module, as a ledger names them."""
MAX_STATES_PER_PATH = 500
"""The states that :func:`find_paths` may visit, and the edges between its start and a goal."""
MAX_EDGES_PER_ENTRY_PATH = 96
"""The edges of a path that :func:`find_lead` may take."""
MAX_BLOCKS_PER_ENTRY_PATH, MAX_BLOCKS_PER_CONTINUED_ENTRY_PATH = 256, 1024
"""The blocks that :func:`find_lead` may visit, and those for a path that must continue along certain edges."""

_DISPATCHED = "a branch table selects the role by a number in memory, and no path is followed past it"
_NO_THREAD = Infeasible("no thread executes the start")
_CUT_OFF = Infeasible("the fact does not reach the goal over any edges")
_ENDED = Infeasible("the fact ends on every path")
_UNREACHED = Infeasible("no edges lead there")


@dataclass(frozen=True)
class Path:
    """A feasible path: the edges taken, and the instructions on it that changed the fact."""

    edges: tuple[Edge, ...]
    marks: tuple[int, ...]
    end: int
    """The instruction reached, or ``EXIT``."""
    threads: int
    """The threads that can take it."""
    state: Any = None
    """The fact as it arrives."""

    def sites(self, cfg: CFG, start: int) -> Iterator[int]:
        """The instructions on the arrival from *start* to the end, neither of them included."""
        return chain.from_iterable(self._spans(cfg, start))

    def passed(self, cfg: CFG, start: int) -> Passed:
        """The same, to ask whether some instruction is among them."""
        return Passed(frozenset(self._spans(cfg, start)))

    def _spans(self, cfg: CFG, start: int) -> Iterator[range]:
        begin = start + 1
        for edge in self.edges:
            yield range(begin, cfg.blocks[edge.source].end)
            begin = cfg.blocks[edge.target].start
        yield range(begin, self.last(cfg, start) + 1 if self.end == EXIT else self.end)

    def block(self, cfg: CFG, start: int) -> int:
        """The block that a path from *start* ends in."""
        return self.edges[-1].target if self.edges else cfg.block_of[max(start, 0)]

    def last(self, cfg: CFG, start: int) -> int:
        """The last instruction of that block, by which a path leaves the function."""
        return cfg.blocks[self.block(cfg, start)].end - 1


class Passed:
    """The instructions on a path, of which hardly any is ever asked for."""

    def __init__(self, spans: Iterable[range]) -> None:
        self._spans = spans

    def __contains__(self, site: object) -> bool:
        return any(site in span for span in self._spans)


class Flag(NamedTuple):
    """A number that is chosen among constants, by the arrival that is taken, and perhaps something else."""

    phis: frozenset[int]
    """Where ways join, and what comes by them is chosen."""
    numbers: frozenset[int]


class Onward(NamedTuple):
    """An edge, and what decides who takes it."""

    edge: Edge
    by: int | None
    """The predicate that does."""
    threads: int
    """The threads that may take it."""
    arrival: Edge | None
    """The edge itself, where one who comes by it goes on otherwise than others."""
    leaves: bool
    """Whether it leads out of its component."""
    never: Sequence[int]
    """Predicates that do not hold where it leads to."""


class Survey:
    """What a search needs of a function, kept between searches."""

    def __init__(self, cfg: CFG, values: Values, views: Views, ledger: Ledger) -> None:
        self.cfg = cfg
        self.values = values
        self.views = views
        self.ledger = ledger
        self.reachability = views.reachability
        self._branches: dict[int, tuple[int, ...]] = {}
        self._arriving: dict[Edge, int | None] = {}
        self._guards: dict[int, tuple[int, ...]] = {}
        self._facts: dict[int, list[int]] = {}
        self._flags: dict[int, Flag] = {}
        self._entry_prefixes: dict[tuple[int, frozenset[tuple[int, bool]]], _EntryPrefix] = {}
        self._branch_cache: dict[int, tuple[Onward, ...]] = {}

    def ways(self, view: View) -> _EntryPrefix:
        """The ways of a *view* from the entry, as far as searches have gone them: each goes on where others have been."""
        key = view.threads, view.facts.pairs()
        if key not in self._entry_prefixes:
            self._entry_prefixes[key] = _EntryPrefix(
                self.values.along((), frozenset()), view.facts, view.threads
            )
        return self._entry_prefixes[key]

    def onward(self, block: int) -> tuple[Onward, ...]:
        """Where one may go from *block*."""
        found = self._branch_cache.get(block)
        if found is None:
            found = self._branch_cache[block] = tuple(map(self._branch, self.cfg.successors[block]))
        return found

    def _branch(self, edge: Edge) -> Onward:
        component, p = self.cfg.component, self.reachability.edge_value(edge)
        return Onward(
            edge,
            p,
            -1 if p is None else self.values.may(p, edge.value),
            None if self.arriving(edge.target, edge) is None else edge,
            component[edge.target] != component[edge.source],
            self.views.never_true(edge.target),
        )

    def branch_leaves(self, block: int) -> tuple[int, ...]:
        """What the branch at the end of *block* decides by."""
        found = self._branches.get(block)
        if found is None:
            edges = self.cfg.successors[block]
            p = self.reachability.edge_value(edges[0]) if edges else None
            found = self._branches[block] = () if p is None else tuple(set(_leaves(self.values, p)))
        return found

    def arriving(self, block: int, edge: Edge | None) -> int | None:
        """What the branch at the end of *block* decides by, as it is where one comes by *edge*: in terms of what was before.

        ``i < n`` is ``0 < n`` where a loop begins. None: it depends on no such arrival, or on what was different before.
        """
        if edge is None or edge.target != block or len(self.cfg.sources[block]) < 2:
            return None
        if edge not in self._arriving:
            edges, found = self.cfg.successors[block], None
            p = self.reachability.edge_value(edges[0]) if edges else None
            if p is not None and ("block", block) in self.values.volatile(p):
                there = self.values.along((edge,), frozenset())(p)
                found = there if ("block", block) not in self.values.volatile(there) else None
            self._arriving[edge] = found
        return self._arriving[edge]

    def guard_leaves(self, site: int) -> tuple[int, ...]:
        """What the guard of an instruction decides by."""
        found = self._guards.get(site)
        if found is None:
            guard = self.cfg.function.instructions[site].guard
            leaves = _leaves(self.values, self.values.before(guard, site)) if guard >= 0 else []
            found = self._guards[site] = tuple(set(leaves))
        return found

    def region(
        self, start: int, goals: Iterable[int], alive: AbstractSet[int] | None, most: int
    ) -> dict[int, int] | None:
        """The blocks on the paths from block *start* to a block of *goals*, and how many edges each is away from one.

        Only the blocks in which the fact is *alive*, according to the solver, count; None: all. It is empty where no path
        leads to a goal, and None where *start* is more than *most* edges away.
        """
        sources, successors = self.cfg.sources, self.cfg.successors
        distance: dict[int, int] = {}
        layer = list(goals)
        depth = 0
        while layer and (depth <= most or start in distance):
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
        """The leaves that decide more than once in *region*: only these need to be remembered.

        That is at more than one place, in a loop by a value that stays, or by
        one that depends on the arrival taken before. For every leaf that decides, also the last component that it
        decides in.
        """
        twice: set[int] = set()
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
                    or (b in cyclic and not self.values.volatile(leaf))
                    or self.values.node(leaf)[0] == "phi"
                ):
                    twice.add(leaf)
        return twice, last

    def flag(self, phi: int) -> Flag:
        """What a number is joined from that a branch asks for: ``if (pending)`` behind a loop that may have set it."""
        found = self._flags.get(phi)
        if found is None:
            values = self.values
            phis, numbers, work = set[int](), set[int](), [phi]
            while work:
                value = work.pop()
                number = values.known(value)
                if number is not None:
                    numbers.add(number)
                elif values.node(value)[0] == "phi" and value not in phis:
                    phis.add(value)
                    work += values.arguments(value)
            few = 0 < len(numbers) <= MAX_FLAG_CONSTANTS
            found = self._flags[phi] = Flag(frozenset(phis if few else ()), frozenset(numbers))
        return found

    def leaves(self, fact: int) -> list[int]:
        """What a predicate that is known decides by."""
        found = self._facts.get(fact)
        if found is None:
            found = self._facts[fact] = _leaves(self.values, fact)
        return found


def _leaves(values: Values, p: int) -> list[int]:
    """The predicates that *p* is made of; comparisons of one value, or one difference, with constants count as one."""
    found: list[int] = []
    work = [p]
    while work:
        q = values.find(work.pop())
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


def held_there(values: Values, p: int, wanted: bool, facts: Facts, threads: int) -> tuple[Facts, int] | None:
    """What is known, and of which threads, where a predicate had the *wanted* value.

    *p* is the predicate as it is there. None where no thread may have it so, or where a launch decides.
    """
    threads &= values.may(p, wanted)
    truth = values.decide(p, facts)
    if not threads or truth is (not wanted):
        return None
    if truth is None and values.depends_on_unmodelled_position(p) and not values.holds_in_large_ctas(p, wanted):
        return None
    return values.assume(p, wanted, facts), threads


MAX_FLAG_CONSTANTS = 4
"""Constants among which a flag is chosen at most."""


class _EntryPrefix:
    """A arrival from the entry on which each predicate is taken as it is there."""

    __slots__ = ("_extensions", "along", "facts", "threads")

    def __init__(self, along: Along, facts: Facts, threads: int) -> None:
        self.along = along
        """What expressions stand for at its end."""
        self.facts = facts
        self.threads = threads
        self._extensions: dict[Edge, _EntryPrefix | None] = {}

    def extended(self, edge: Edge, views: Views) -> _EntryPrefix | None:
        """The arrival that is longer by *edge*; None where nobody goes on by that."""
        if edge not in self._extensions:
            self._extensions[edge] = self._extend(edge, views)
        return self._extensions[edge]

    def _extend(self, edge: Edge, views: Views) -> _EntryPrefix | None:
        facts, threads, p = self.facts, self.threads, views.reachability.edge_value(edge)
        if p is not None:
            held = held_there(views.values, self.along(p), edge.value, facts, threads)
            if held is None:
                return None
            facts, threads = held
        return _EntryPrefix(self.along.onward(edge), facts, threads)


def find_lead(
    survey: Survey,
    target: int,
    view: View | None = None,
    onward: Sequence[Edge] = (),
) -> Answer[tuple[Edge, ...]]:
    """A path from the entry to block *target* on which each predicate is taken as it is there; that of a *view*, if given.

    It continues along the edges of *onward*.

    So a loop with a constant trip count is iterated that often, which :func:`find_paths`, to which two iterations are
    alike, does not do.
    """
    cfg, views = survey.cfg, survey.views
    site = cfg.blocks[target].start
    too_long = f"more than {MAX_EDGES_PER_ENTRY_PATH} edges"
    distance = survey.region(0, (target,), None, MAX_EDGES_PER_ENTRY_PATH)
    if distance is None:
        return survey.ledger.give_up(ENTRY_PATH, site, too_long)
    if target not in distance:
        return survey.ledger.give_up(ENTRY_PATH, site, _DISPATCHED) if distance else _UNREACHED
    budget = most = MAX_BLOCKS_PER_CONTINUED_ENTRY_PATH if onward else MAX_BLOCKS_PER_ENTRY_PATH
    work = [(0, survey.ways(view or View(T.full(survey.values.threads))))]
    cut = False
    by: Edge | None = None
    while work and budget:
        block, here = work.pop()
        if block == target:
            there: _EntryPrefix | None = here
            for edge in onward:
                there = there and there.extended(edge, views)
            if there is not None:
                return Found(tuple(here.along.edges))
        budget -= 1
        if len(here.along.edges) == MAX_EDGES_PER_ENTRY_PATH:
            cut = True
            continue
        ways = [e for e in cfg.successors[block] if e.target in distance]
        for edge in sorted(ways, key=lambda e: -distance[e.target]):  # the nearest is taken first
            if (there := here.extended(edge, views)) is not None:
                work.append((edge.target, there))
            else:
                by = edge
    if work:
        return survey.ledger.give_up(ENTRY_PATH, site, f"more than {most} blocks")
    if cut:
        return survey.ledger.give_up(ENTRY_PATH, site, too_long)
    return Infeasible(by or "no path continues as asked")


def find_paths(
    survey: Survey,
    start: int,
    view: View,
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
    """The feasible paths from just after instruction *start* on which the fact lives and *goal* is met.

    *start* -1 is the entry of the function. *step* gives the fact's state after a relevant instruction (guard true),
    None when it ends there. *goal* is asked before every relevant instruction,
    and with ``EXIT`` where the function is left; *goals* are the blocks where
    it can be met. No edge of *closed* is taken. Gives up after *budget* states. Who asks for more than one path has
    *goal* say no to what was met: the search goes on from there. What three comparisons say *together*, of which any two go
    with each other, takes longer to look at, and is for those with few paths.

    Returns :class:`Infeasible` once all paths are exhausted: no path avoids the edges of *closed*. Returns :class:`GaveUp`,
    recorded, after *budget* states, or where a path ends at a dispatcher of roles that may lead to a goal.
    """
    if not view.threads:
        return _NO_THREAD
    cfg, values, views = survey.cfg, survey.values, survey.views
    instructions, component = cfg.function.instructions, cfg.component
    first = cfg.block_of[start] if start >= 0 else 0

    # Nearest to the goal first: (distance, number, block, position in its relevant list, state, facts, threads, node).
    queue: list[tuple[int, int, int, int, Hashable, Facts, int, int]] = []
    trail: list[tuple[int, Edge | None, tuple[int, ...]]] = []  # parent, edge taken, changes on the arrival
    seen: dict[tuple[int, int, Hashable, Edge | None], list[tuple[frozenset[tuple[int, bool]], int]]] = {}
    goals = tuple(goals)
    question, site = (
        (FEASIBLE_PATH, start) if start >= 0 else (ENTRY_PATH, cfg.blocks[min(goals, default=0)].start)
    )
    region = survey.region(first, goals, alive, budget)
    if region is None:
        return survey.ledger.give_up(question, site, f"more than {budget} edges away")
    if not region:
        return _CUT_OFF
    watched, latest = survey.watched({first, *region}, relevant)
    spent = 0
    by: Edge | None = None  # what was closed last
    dispatched = False

    def push(
        block: int,
        at: int,
        state: Hashable,
        facts: Facts,
        threads: int,
        parent: int,
        edge: Edge | None,
        marks: tuple[int, ...],
        arrival: Edge | None = None,
    ) -> None:
        nonlocal spent
        facts = values.once(facts)
        known = facts.pairs()
        # A state that knows less and has more threads goes wherever this one could, if it has come the same *arrival* where
        # that decides the branch.
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

    joined: dict[int, list[int]] = {}  # block -> predicates that the arrival into it decides
    chosen: dict[int, dict[int, frozenset[int]]] = {}  # block -> numbers that it chooses, and among which
    predicates_until = _NO_COMPONENT
    for leaf in list(latest):
        kind, *where = values.node(leaf)
        if kind != "phi":
            continue
        if cfg.function.registers[where[1]].type == ".pred":
            # What is known of any predicate can tell what is joined from it.
            predicates_until = min(predicates_until, latest[leaf])
            if leaf in watched:
                joined.setdefault(where[0], []).append(leaf)
        else:
            flag = survey.flag(leaf)
            for phi in flag.phis:
                latest[phi] = min(latest.get(phi, _NO_COMPONENT), latest[leaf])
                chosen.setdefault(values.node(phi)[1], {})[phi] = flag.numbers

    last_use: dict[int, int] = {}  # what is known -> the last component in which it decides

    def needed(facts: Facts, block: int) -> Facts:
        """Drop the facts that decide nothing from *block* on: states that differ in them only are one."""
        here = component[block]
        if predicates_until <= here or not facts:
            return facts
        over = []
        for p in facts:
            end = last_use.get(p)
            if end is None:
                end = last_use[p] = min(
                    (latest.get(leaf, _NO_COMPONENT) for leaf in survey.leaves(p)), default=_NO_COMPONENT
                )
            if end > here:
                over.append(p)
        return Facts((p, v) for p, v in facts.items() if p not in over) if over else facts

    def decisive(p: int) -> bool:
        """Whether what decides *p* decides more than once."""
        return not watched.isdisjoint(survey.leaves(p))

    def condition(i: int, threads: int, facts: Facts) -> tuple[int, bool | None, int]:
        """Of a guarded instruction: its predicate, whether it executes, and the threads that may execute it."""
        instruction = instructions[i]
        p = values.before(instruction.guard, i)
        truth = values.decide(p, facts)
        taken = threads & values.may(p, not instruction.negated)
        if not taken:
            return p, False, 0
        return p, None if truth is None else truth is not instruction.negated, taken

    executes: bool | None
    position = next((k for k, i in enumerate(relevant[first]) if i > start), len(relevant[first]))
    push(first, position, state, needed(view.facts, first), view.threads, -1, None, ())
    while queue and spent <= budget:
        _, _, block, at, here, facts, threads, node = heappop(queue)
        sites = relevant[block]
        cursor = sites[at - 1] + 1 if at else cfg.blocks[block].start
        if not node:
            cursor = start + 1
        marks: list[int] = []
        for k in range(at, len(sites)):
            i = sites[k]
            facts = values.passing(facts, cursor, i)
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
                others = threads & values.may(p, instruction.negated)
                if executes is None and others:
                    # Both outcomes: the one that skips the instruction is queued, this one goes on.
                    skipped = values.assume(p, instruction.negated, facts)
                    push(block, k + 1, here, skipped, others, node, None, tuple(marks))
                    facts = values.assume(p, not instruction.negated, facts)
                threads = taken
            if after is None:
                break
            here = after
            marks.append(i)
        else:
            facts = values.passing(facts, cursor, cfg.blocks[block].end)
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
            decides = not watched.isdisjoint(survey.branch_leaves(block))
            as_it_came = survey.arriving(block, trail[node][1])
            passed = tuple(marks)
            for edge, decided_by, takers, arrival, leaves, never in survey.onward(block):
                target = edge.target
                if target not in region:
                    continue
                if edge in closed:
                    by = edge
                    continue
                next_facts, next_threads = facts, threads
                if decided_by is not None:
                    if values.decide(decided_by, facts) is (not edge.value):
                        by = edge
                        continue
                    next_threads = threads & takers
                    if not next_threads:
                        by = edge
                        continue
                    if decides or together:
                        next_facts = values.assume(decided_by, edge.value, facts)
                    if together and values.impossible(next_facts):
                        by = edge
                        continue
                    if as_it_came is not None:
                        if values.decide(as_it_came, facts) is (not edge.value):
                            by = edge
                            continue
                        if decisive(as_it_came):
                            next_facts = values.assume(as_it_came, edge.value, next_facts)
                arrived: list[tuple[int, bool | None]] = []
                for phi, numbers in chosen[target].items() if target in chosen else ():
                    incoming = values.after_block(values.node(phi)[2], block)
                    number = values.choice_among(incoming, numbers, next_facts)
                    if number is not None:
                        arrived.append((values.equals_constant(phi, number), True))
                for leaf in joined.get(target, ()):
                    incoming = values.after_block(values.node(leaf)[2], block)
                    arrived.append((leaf, values.decide(incoming, next_facts)))
                if next_facts:
                    arrived += [(q, held) for q, held in values.turned(next_facts, edge) if decisive(q)]
                    next_facts = values.entering(next_facts, target)
                if never:
                    arrived += [(q, False) for q in never if decisive(q)]
                for leaf, held in arrived:
                    if held is not None:
                        next_facts = values.assume(leaf, held, next_facts)
                if leaves and not together:
                    next_facts = needed(next_facts, target)  # within one, what decides still does
                push(target, 0, here, next_facts, next_threads, node, edge, passed, arrival)
    if queue:
        return survey.ledger.give_up(question, site, f"more than {budget} states")
    if dispatched:
        return survey.ledger.give_up(question, site, _DISPATCHED)
    return _ENDED if by is None else Infeasible(by)
