"""Accesses to memory that meet the bytes of an asynchronous operation while it is in flight.

The state of an analysis says which operations may be in flight at an access.
A path from one to the other is then searched for, and both addresses are
compared as they are on that path: a stage of a ring is a number there. A path
with a branch that cannot be taken in that round of a loop is replaced by one
without it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from tclint.analyses.access_classes import AccessClass, AccessClasses
from tclint.analyses.model import KernelModel
from tclint.dataflow import Answer, Found, Infeasible, Path, Results, Search, next_answer
from tclint.dataflow.feasible_paths import find_lead, held_there
from tclint.dataflow.views import View
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction
from tclint.values import Facts
from tclint.values import thread_masks as T
from tclint.values.shared_memory import Access, Footprint, SharedMemory

__all__ = ["Meeting", "Meetings", "Route"]

Resolve = Callable[[int], int]
"""What an expression stands for at the end of a path (:meth:`Values.along`)."""

OVERLAP = "overlap"
"""The question of this module, as a ledger names it: whether a use overlaps an operation in flight."""
MAX_PATHS_PER_OPERATION = 8
"""Paths that are looked at for operations that begin together, and one more for each location of a use."""
MAX_PATHS_PER_USE = 2
"""Those of them that may lead to one use."""
MAX_ITERATIONS_PER_LOOP = 32
"""Iterations of a loop that are added to a path so that the loop exits there."""
MAX_FAILED_ENTRY_PATHS_PER_OPERATION = 2
"""Failed searches for a path from the entry that continues along a path from one operation: each is long, and the next is
alike."""
MAX_RETURNS_PER_PATH = 4
"""How often a path may return to the instruction where the operations begin, or to a use."""

_Touching = tuple[Access, Footprint | None]
"""An access, and the bytes that threads touch for certain, relative to the base of its address."""


@dataclass(slots=True, eq=False)
class _Members:
    """Accesses of one class."""

    accesses: list[Access] = field(default_factory=list)
    pending: set[int] = field(default_factory=set)
    """The operations that may be in flight."""
    based: dict[int, list[Access]] = field(default_factory=dict)
    """The same by the bases of their addresses."""
    footprints: dict[int, Footprint | None] = field(default_factory=dict)
    """All bytes that those with a base touch, when all threads have the base in common; found when asked for."""
    touching: dict[tuple[int, int], list[_Touching]] = field(default_factory=dict)
    """Those with a base, as threads touch them of which others are there for certain."""
    lasting: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    """Of bases that stay what they are on every path: the base without a constant, and the constant.

    None for that where a pointer may have begun in another place for each thread.
    """


class Route(NamedTuple):
    """A path from an operation to a use, and what the expressions of both stand for on it."""

    path: Path
    before: Resolve
    after: Resolve
    lead: tuple[Edge, ...] = ()
    """How the operation is reached from the entry, when that says what its expressions are."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """A use that provably meets bytes of an operation in flight, and the path to it."""

    operation: Access
    use: Access
    path: Path


@dataclass(frozen=True)
class Meetings:
    """The question: which operations, what follows one of them along a path, and what must not meet it."""

    model: KernelModel
    results: Results[Any]
    operations: Collection[int]
    pending: Callable[[Any], Iterable[int]]
    """The operations that a state says are in flight."""
    lasting: Callable[[Any, int], bool]
    """Whether a state says that one stays in flight, as it is, however often a loop is gone through."""
    start: Callable[[int], Hashable]
    """The state of one operation when it begins."""
    follow: Callable[[int, Any, int, Instruction], Hashable]
    """The state of one operation after one more instruction; None when it is complete."""
    wanted: Callable[[Access], bool]
    """The accesses that count."""
    meet: Callable[[Access, Access, Route], bool]
    """Whether an operation and a use, as they are on the route, provably touch the same bytes."""
    begins: Callable[[Access], bool] = lambda access: access.later
    """Which accesses of an operation are what must not be met."""
    memory: SharedMemory | None = None
    """What both access, where it is not :attr:`KernelModel.shared`."""
    tries: int | None = None
    """Paths that are looked at for operations that begin together; None: some, and one for each place of a use."""
    ready: Callable[[Any], bool] = lambda state: True
    """The states of an operation in which a use counts."""
    doubtful: Callable[[int, Path], Edge | None] = lambda start, path: None
    """An edge of a path from an operation that it is not known whether anybody takes: one without it is looked for first."""
    rounds: bool = False
    """Whether a path that leaves a loop too early is looked at with as many rounds as the loop has."""
    _firsts: dict[tuple[Edge, ...], Resolve] = field(default_factory=dict)
    """What expressions stand for at the end of a way from the entry."""
    _own_leads: dict[tuple[int, int, tuple[Edge, ...], bool], tuple[Edge, ...] | None] = field(
        default_factory=dict
    )
    """For each operation, view of those that the path leads to, path, and whether the way of all is astray."""
    _failed: Counter[int] = field(default_factory=Counter)
    """How many searches for such a path failed, by operation: no operation spends the budget of another one."""

    @property
    def shared(self) -> SharedMemory:
        return self.memory or self.model.shared

    def __iter__(self) -> Iterator[Meeting]:
        """For each operation the uses that are nearest on a path."""
        first, second = self._collect()
        for members in first:
            mine = {a.site for a in members.accesses}
            uses = {
                use.accesses[-1].site: use
                for use in second
                if not mine.isdisjoint(use.pending) and self._may_meet(members, use)
            }
            if uses:
                yield from self._search(members, uses)

    def _collect(self) -> tuple[list[_Members], list[_Members]]:
        """The operations, and the accesses that happen while one may be in flight, by their classes."""
        model, results, shared = self.model, self.results, self.shared
        classes = AccessClasses(model, self._changes.difference(self.operations))
        first: dict[AccessClass, _Members] = {}
        second: dict[tuple[AccessClass, bool], _Members] = {}
        sites = sorted(shared.sites)
        for b in model.cfg.order:
            block = model.cfg.blocks[b]
            inside = sites[bisect_left(sites, block.start) : bisect_left(sites, block.end)]
            if not inside:
                continue
            states = list(results.walk(b))
            if not states and not set(self.pending(results.entry[b])):
                continue
            relevant = [i for i, _ in states]
            states.append((block.end, results.leave(b)))
            known: dict[int, set[int]] = {}
            for i in inside:
                following = bisect_left(relevant, i)
                pending = known.get(following)
                if pending is None:
                    pending = known[following] = set(self.pending(states[following][1]))
                if i not in self.operations and not pending:
                    continue
                begun = [a for a in shared.accesses(i) if self.begins(a)] if i in self.operations else []
                wanted = [a for a in shared.accesses(i) if self.wanted(a)] if pending else []
                if not begun and not wanted:
                    continue
                alike = classes.of(i)
                if begun:
                    first.setdefault(alike, _Members()).accesses.extend(begun)
                for access in wanted:
                    use = second.setdefault((alike, access.writes), _Members())
                    use.accesses.append(access)
                    use.pending |= pending
        for members in (*first.values(), *second.values()):
            for access in members.accesses:
                members.based.setdefault(shared.split(access.address)[0], []).append(access)
        return list(first.values()), list(second.values())

    def _may_meet(self, operations: _Members, uses: _Members) -> bool:
        """Whether some bytes of the two may be the same on some path."""
        volatile = self.model.values.volatile
        for base in operations.based:
            for other in uses.based:
                if base != other:
                    if self.shared.may_meet(base, other):
                        return True
                elif volatile(base) or _may(self._all(operations, base), self._all(uses, base), 0):
                    return True
        return False

    def _all(self, members: _Members, base: int) -> Footprint | None:
        """All bytes that the accesses of *members* with that base touch."""
        if base not in members.footprints:
            threads = self.model.views.at(members.accesses[0].site).threads
            members.footprints.update(self.shared.together(members.based[base], threads))
        return members.footprints[base]

    def _search(self, operations: _Members, uses: dict[int, _Members]) -> list[Meeting]:
        """The uses next to the *operations* that meet one of them on a feasible path; one around a loop comes last.

        A stage of a ring is used some rounds after it is filled: on a path that begins to fill it again each time,
        or on one that passes what uses the other stages, when the loop has no more to fill.
        """
        start, cfg = operations.accesses[0].site, self.model.cfg
        found = self._nearest(start, operations, uses)
        if not found and self.lasting(self.results.entry[cfg.block_of[start]], start):
            found = self._nearest(start, operations, uses, start)
            reads = {end: use for end, use in uses.items() if not use.accesses[0].writes}
            again = next((end for end in reads if cfg.block_of[end] in cfg.in_cycle), None)
            if not found and again is not None:
                found = self._nearest(start, operations, reads, again)
        return found

    def _nearest(
        self, start: int, operations: _Members, uses: dict[int, _Members], again: int | None = None
    ) -> list[Meeting]:
        """The same on paths that come back to *again*, a few times at most; None: on paths that need not."""
        rounds = 0 if again is None else MAX_RETURNS_PER_PATH
        each, most = max(rounds, MAX_PATHS_PER_USE), self.tries or MAX_PATHS_PER_OPERATION + len(uses)
        tried: set[tuple[int, Hashable]] = set()
        left = dict.fromkeys(uses, each)
        closed: set[Edge] = set()
        reached: tuple[int, Hashable] = start, None

        def step(state: tuple[Any, int], i: int, instruction: Instruction) -> Hashable:
            fact, times = state
            after = self.follow(start, fact, i, instruction)
            if i == again and times < rounds:
                times += 1
            elif after == fact:
                return state
            return None if after is None else (after, times)

        def goal(state: Any, i: int) -> bool:
            return (
                i in left and self.ready(state[0]) and state[1] >= min(rounds, 1) and (i, state) not in tried
            )

        paths: Search[Path] | None = None
        doubted: list[Meeting] = []
        for _ in range(most):
            if paths is None:
                paths = self.model.paths(
                    start, (self.start(start), 0), self.results, step, goal, left, closed
                )
            path = next_answer(paths).witness
            if path is not None:
                reached = path.end, path.state
                path = replace(path, state=path.state[0])
                found, wrong = self._met(start, operations, uses[path.end], path)
                doubt = self.doubtful(start, path) if found else None
                if found and doubt is None:
                    return found
                doubted = doubted or found
                if doubt is not None or wrong is not None:
                    closed.update(edge for edge in (doubt, wrong) if edge is not None)
                    paths = None
                    continue
            elif doubted or not closed:
                break
            tried.add(reached)
            left[reached[0]] -= 1
            if closed or not left[reached[0]]:
                paths = None
            closed.clear()
            if not left[reached[0]]:
                del left[reached[0]]
                if not doubted:
                    self.model.ledger.give_up(OVERLAP, reached[0], f"more than {each} paths to a use")
                if not left:
                    break
        else:
            if not doubted:
                self.model.ledger.give_up(OVERLAP, start, f"more than {most} paths")
        return doubted

    def _met(
        self, start: int, operations: _Members, uses: _Members, path: Path
    ) -> tuple[list[Meeting], Edge | None]:
        """What meets at the end of the path, or else the branch that it takes and cannot, were it not for which it would."""
        first: Edge | None = None
        for route, found in self._routes(start, operations, uses, path):
            if found:
                at, wrong = _wrong(self.model, start, route)
                if wrong is None and (route.lead or self.model.made(_Leads).reached(start)):
                    return found, None
                if at >= len(route.lead) and isinstance(wrong, Edge):
                    longer = self._longer(start, route, at - len(route.lead)) if self.rounds else None
                    found = [] if longer is None else list(self._pairs(operations, uses, longer))
                    if found or not self.rounds:
                        return found, wrong
                    first = first or wrong
        return [], first

    def _longer(self, start: int, route: Route, leaving: int) -> Route | None:
        """The route with as many rounds of the loop that its edge *leaving* leaves as it takes to be let out there."""
        path = route.path
        around = self._around(path.edges[leaving])
        edges = path.edges[:leaving] + around * MAX_ITERATIONS_PER_LOOP + path.edges[leaving:]
        for _ in range(2 if around else 0):
            longer = replace(path, edges=edges)
            found = _route(longer, self.model.along(longer, start), route.before, route.lead)
            at, wrong = _wrong(self.model, start, found)
            if wrong is None:
                return found if self._state(start, found.path) == path.state else None
            turns = (at - len(route.lead) - leaving) // len(around)
            if turns >= MAX_ITERATIONS_PER_LOOP:
                why = f"more than {MAX_ITERATIONS_PER_LOOP} iterations of a loop"
                self.model.ledger.give_up(OVERLAP, start, why)
                return None
            edges = path.edges[:leaving] + around * max(turns, 0) + path.edges[leaving:]
        return None

    def _state(self, start: int, path: Path) -> Any:
        """The state at the end of *path* of an operation that begins at *start*; None when it is complete."""
        state: Any = self.start(start)
        for i in path.sites(self.model.cfg, start):
            if state is not None and i in self._changes:
                state = self.follow(start, state, i, self.model.instruction(i))
        return state

    @cached_property
    def _changes(self) -> frozenset[int]:
        """The instructions that may change a state."""
        return frozenset(chain.from_iterable(self.results.relevant))

    def _around(self, leaving: Edge) -> tuple[Edge, ...]:
        """The shortest way through the loop that *leaving* leaves; or none."""
        cfg, head = self.model.cfg, leaving.source
        inside = min(
            (loop for loop in cfg.loops.values() if head in loop and leaving.target not in loop),
            key=lambda loop: len(loop),
            default=frozenset[int](),
        )
        ways: dict[int, tuple[Edge, ...]] = {}
        work = [head]
        for block in work:
            for edge in cfg.successors[block]:
                if edge.target in inside and edge.target not in ways:
                    ways[edge.target] = (*ways.get(block, ()), edge) if block != head else (edge,)
                    work += [edge.target] if edge.target != head else []
        return ways.get(head, ())

    def _routes(
        self, start: int, operations: _Members, uses: _Members, path: Path
    ) -> Iterator[tuple[Route, list[Meeting]]]:
        """The path with both addresses in terms of the values at *start*, then as they are when it is executed first.

        And what meets on it.
        """
        model, values = self.model, self.model.values
        along = model.along(path, start)

        def met(before: Resolve, lead: tuple[Edge, ...] = ()) -> tuple[Route, list[Meeting]]:
            route = _route(path, along, before, lead)
            return route, list(self._pairs(operations, uses, route))

        yield met(values.find)
        bases = (*operations.based, *map(along, uses.based))
        if not any(map(values.volatile, bases)):
            return
        edges = model.made(_Leads).to(start)
        if edges is None:
            return
        first = met(self._first(edges), edges)
        yield first
        if not self.rounds:
            return
        # What met cannot go on so.
        own = self._own_lead(start, path, astray=bool(first[1]))
        if own is not None and own != edges:
            yield met(self._first(own), own)

    def _first(self, edges: tuple[Edge, ...]) -> Resolve:
        """What expressions stand for at the end of *edges*, a way from the entry."""
        if edges not in self._firsts:
            self._firsts[edges] = self.model.values.along(edges, frozenset())
        return self._firsts[edges]

    def _own_lead(self, start: int, path: Path, astray: bool) -> tuple[Edge, ...] | None:
        """The way of the threads that go on by the path, where not all do: only these issue what is at its end.

        That is so where there are fewer of them, or where the way that all come by is *astray*: a branch on it has
        decided the path otherwise, as where a flag is only set by who is elected.
        """
        model = self.model
        end = model.views.at(path.end)
        key = start, id(end), path.edges, astray
        if key not in self._own_leads:
            view = View(path.threads & end.threads, end.lasting(model.values))
            fewer = view.threads not in (0, model.views.at(start).threads)
            self._own_leads[key] = self._found_lead(start, view, path.edges) if fewer or astray else None
        return self._own_leads[key]

    def _found_lead(self, start: int, view: View, onward: tuple[Edge, ...]) -> tuple[Edge, ...] | None:
        """A path of a *view* from the entry to *start* that continues along *onward*; None after too many failures."""
        if self._failed[start] == MAX_FAILED_ENTRY_PATHS_PER_OPERATION:
            why = f"{MAX_FAILED_ENTRY_PATHS_PER_OPERATION} searches for a path from the entry failed"
            self.model.ledger.give_up(OVERLAP, start, why)
            return None
        found = _lead(self.model, start, view, onward).witness
        self._failed[start] += found is None
        return found

    def _pairs(self, operations: _Members, uses: _Members, route: Route) -> Iterator[Meeting]:
        """For each operation the first use at the end of the path, and after it, that meets it."""
        shared, values = self.shared, self.model.values

        def moved(members: _Members, resolve: Resolve) -> Iterator[tuple[int, int, int | None]]:
            for base in members.based:
                found = members.lasting.get(base)
                if found is None:
                    common, mine, constant = shared.split(resolve(base))
                    # A pointer that a loop moves may have begun in another place for each thread.
                    found = common, constant if values.known(mine) == 0 else None
                    if not values.volatile(base):
                        members.lasting[base] = found
                yield base, *found

        there: dict[int, list[tuple[int, int | None]]] = {}
        for other, same, by in moved(uses, route.after):
            there.setdefault(same, []).append((other, by))
        for base, common, by in moved(operations, route.before):
            for other, beyond in there.get(common, ()):
                apart = None if by is None or beyond is None else beyond - by
                if apart is None or _may(self._all(operations, base), self._all(uses, other), apart):
                    mine = self._touching(operations, base, uses, route.before if apart is None else None)
                    near = self._touching(uses, other, operations, route.after if apart is None else None)
                    yield from self._matched(mine, near, apart or 0, route)

    def _touching(
        self, members: _Members, base: int, beside: _Members, resolve: Resolve | None
    ) -> list[_Touching]:
        """The accesses of *members* with that base, and what threads touch if some of those that make *beside* are there.

        Relative to the base, or to what it is on a path, where *resolve* says that.
        """
        shared, views = self.shared, self.model.views
        threads, others = (views.at(b.accesses[0].site).threads for b in (members, beside))
        those = members.based[base]
        if resolve is not None:
            return [(a, shared.footprint(shared.along(a, resolve), threads, others)) for a in those]
        if (base, others) not in members.touching:
            members.touching[base, others] = [(a, shared.footprint(a, threads, others)) for a in those]
        return members.touching[base, others]

    def _matched(
        self, operations: list[_Touching], uses: list[_Touching], apart: int, route: Route
    ) -> Iterator[Meeting]:
        """The operations, each with the first of the *uses* that meets it; their bases are so many bytes *apart*."""
        shared = self.shared
        behind: Footprint | None = None  # what the uses after an operation touch
        left = len(uses)
        for operation, own in reversed(operations):
            first = 0 if route.path.edges else bisect_right(uses, operation.site, key=lambda use: use[0].site)
            for _, touched in uses[first:left]:
                behind = touched if behind is None else touched and behind.union(touched)
            left = min(left, first)
            if first == len(uses) or not _may(own, behind, apart):
                continue
            here = shared.along(operation, route.before)
            for use, touched in uses[first:]:
                if _may(own, touched, apart) and self.meet(here, shared.along(use, route.after), route):
                    yield Meeting(operation, use, route.path)
                    break


def _may(one: Footprint | None, other: Footprint | None, apart: int) -> bool:
    """Whether bytes may be the same where the bases of both are so many *apart*."""
    return one is None or other is None or one.meets(other.moved(apart))


def _route(path: Path, along: Resolve, before: Resolve, lead: tuple[Edge, ...] = ()) -> Route:
    return Route(path, before, lambda value: before(along(value)), lead)


class _Leads:
    """How instructions of a function are reached for the first time; found once for all questions."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._known: dict[tuple[int, int, bool], Answer[tuple[Edge, ...]]] = {}

    def to(self, start: int) -> tuple[Edge, ...] | None:
        """The path from the entry to *start*, each branch taken as it is there; None: none is found."""
        return self._to(start).witness

    def reached(self, start: int) -> bool:
        """Whether a thread may come to *start* at all, each branch taken as it is there."""
        return not isinstance(self._to(start), Infeasible)

    def _to(self, start: int) -> Answer[tuple[Edge, ...]]:
        key = self.model.place(start)
        if key not in self._known:
            self._known[key] = _lead(self.model, start)
        return self._known[key]


def _lead(
    model: KernelModel, start: int, view: View | None = None, onward: tuple[Edge, ...] = ()
) -> Answer[tuple[Edge, ...]]:
    """A path from the entry to *start*, each branch taken as it is there.

    It is one of a *view*, if given, that may continue along the edges of *onward*.
    """
    path = model.lead(start, view)
    if not isinstance(path, Found):
        return path
    here = Path(onward, (), start, T.full(model.values.threads))
    taken = Route(here, model.values.find, model.values.find, path.witness.edges)
    if _wrong(model, start, taken)[1] is None:
        return Found(path.witness.edges)
    return find_lead(model.survey, model.cfg.block_of[start], view, onward)


def _wrong(model: KernelModel, start: int, route: Route) -> tuple[int, Edge | int | None]:
    """What on the whole route goes the other way, or may do so in all threads, after how many edges.

    That is a branch, or the guard of an instruction.

    Each predicate is taken as it is there. One that depends on the kernel's arguments, or on data, goes either
    way in some launch; one that depends on the thread index alone does not.
    """
    values = model.values
    facts, threads = Facts(), T.full(values.threads)
    if not route.lead:
        facts, threads = model.views.at(start).facts, route.path.threads
    edges = [*route.lead, *route.path.edges]
    along = values.along(edges, frozenset())
    decisions: list[tuple[int, int | None, bool, Edge | int]] = [
        (k, model.reachability.edge_value(edge), edge.value, edge) for k, edge in enumerate(edges)
    ]
    for k, site in ((len(route.lead), start), (len(edges), route.path.end)):
        instruction = model.instruction(site)
        if instruction.guard >= 0 and (route.lead or site != start):
            guard = values.before(instruction.guard, site)
            decisions.append((k, guard, not instruction.negated, site))
    for k, p, wanted, where in sorted(decisions, key=lambda decision: decision[0]):
        if p is None:
            continue
        held = held_there(values, along.walk(p, k), wanted, facts, threads)
        if held is None:
            return k, where
        facts, threads = held
    return len(edges), None
