"""Accesses to memory that overlap the bytes of an asynchronous operation while it is in flight.

The state of an analysis gives the operations that *may* be in flight at an access, the *use*. :class:`OverlapSearch`
turns such pairs into *conflicts*, which are proven:

1. Operations and uses are grouped by :mod:`access class <tclint.analyses.access_classes>`. Pairs of classes whose bytes
   differ on every path are dropped.
2. A feasible path from an operation to the next use is searched for. Where a stage of a ring is used some iterations
   after it was filled, the path has to return to the operation, or to a use, a few times.
3. Both addresses are compared as they are on that path: first in terms of the values at the operation; then, if they
   vary in a loop, with a path from the entry put before it (``Route.entry_prefix``), on which the stage is often a
   constant.
4. Every branch of the route is decided again with the values of its own iteration. If one cannot be taken, the path is
   extended by the iterations that make a loop exit there, or the search continues without that edge.

The result under-approximates: paths, iterations and failed searches have budgets (the ``MAX_`` constants below), and
the ledger of the model records where one was exhausted. No operation spends the budget of another one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Protocol

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.analyses.access_classes import AccessClass, AccessClasses
from tclint.analyses.ages import Numbering
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.overlap_classes import LocatedAccess, Members, Overlapping, SameBase, Uses, may_overlap
from tclint.analyses.plausibility import NO_DOUBT, Doubt, DoubtAbout
from tclint.dataflow import Answer, Decision, Found, Guard, Infeasible, Path, Results, Search, next_answer
from tclint.dataflow.feasible_paths import concrete_entry_path
from tclint.dataflow.path_search_cache import assume_on_path
from tclint.dataflow.views import ThreadContext
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction
from tclint.values import PathCondition
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint
from tclint.values.shared_memory import SharedAccess, SharedMemory

__all__ = ["OVERLAP", "Conflict", "FollowedOperations", "OverlapSearch", "Resolve", "Route"]

Resolve = Callable[[int], int]
"""The substitution of an expression along a path (:meth:`Values.along`)."""

OVERLAP = "overlap"
"""The name of this module's question in the ledger: whether a use overlaps an operation in flight."""
MAX_PATHS_PER_OPERATION = 8
"""Paths that are examined for the operations of one class, besides one for each class of uses."""
MAX_PATHS_PER_USE = 2
"""Paths of these that may lead to one class of uses."""
MAX_ITERATIONS_PER_LOOP = 32
"""Iterations of a loop that are added to a path so that the loop exits there."""
MAX_FAILED_ENTRY_PATHS_PER_OPERATION = 2
"""Failed searches for an entry path that continues along a path from one operation. Each search is long, and the next
one is similar."""
MAX_FAILED_ENTRY_PATHS = 4
"""The same for all operations of one search together. They are asked in the order of their sites, so which of them are left
open does not depend on the order of the checks; each that is left open is in the ledger."""
MAX_RETURNS_PER_PATH = 4
"""Returns of a path to the operation, or to a use, before it ends at a use."""
_DECISIONS_PER_STATE = 2
"""The branches of a route that take as long to decide again as a search takes for a state."""
LONG = 200
"""Uses of an operation and changes of the state in its block above which the next use in the block is tried first."""


class Route(NamedTuple):
    """A path from an operation to a use, with the substitutions that hold at both."""

    path: Path
    before: Resolve
    """The values of expressions at the operation."""
    after: Resolve
    """The values of expressions at the use."""
    entry_prefix: tuple[Edge, ...] = ()
    """The path from the entry to the operation by which *before* is known; empty if *before* is the identity."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A use that provably overlaps bytes of an operation in flight, and the path to it."""

    operation: SharedAccess
    use: SharedAccess
    path: Path
    """It ends at the use."""
    doubt: Doubt = NO_DOUBT
    """Why launches may never take the path, by :attr:`OverlapSearch.doubt`."""

    @property
    def sites(self) -> tuple[int, int]:
        """The instructions of the operation and of the use."""
        return self.operation.site, self.use.site


class FollowedOperations(Protocol):
    """The operations that a search follows, in the states of an analysis."""

    @property
    def numbering(self) -> Numbering:
        """Their numbers."""
        ...

    def pending(self, state: Any) -> int:
        """Those in flight in a *state*, as a bit set."""
        ...

    def stays_pending(self, state: Any, site: int) -> bool:
        """Whether the operation *site* stays in flight in a *state*, unchanged, however often a loop iterates."""
        ...

    def begun(self, site: int) -> Hashable:
        """The state of one operation when it begins."""
        ...

    def follow(self, site: int, state: Any, at: int, instruction: Instruction) -> Hashable:
        """The state of one operation after one more instruction; None if it is complete."""
        ...


@dataclass(frozen=True)
class OverlapSearch:
    """A search for conflicts: the operations, and the accesses that must not overlap them while they are in flight.

    Iterating over it yields the conflicts: for each operation, those with the nearest uses on a path.
    """

    model: KernelModel
    results: Results[Any]
    followed: FollowedOperations
    operations: Collection[int]
    """Those of them that count."""
    is_use: Callable[[SharedAccess], bool]
    """Whether an access counts as a use."""
    overlap: Callable[[SharedAccess, SharedAccess, Route], bool]
    """Whether an operation and a use, as they are on the route, provably touch the same bytes."""
    may_meet: Callable[[SharedAccess, SharedAccess], bool] = lambda operation, use: True
    """Whether *overlap* may be true of an operation and a use on some path: a test that costs less than a search."""
    begins: Callable[[SharedAccess], bool] = lambda access: access.later
    """Whether an access of an operation is one that no use may overlap."""
    memory: SharedMemory | None = None
    """The memory that both access, if it is not :attr:`KernelModel.shared`."""
    tries: int | None = None
    """Paths that are examined for the operations of one class; None for the default budget."""
    ready: Callable[[Any], bool] = lambda state: True
    """Whether a use counts in a state of an operation."""
    doubt: DoubtAbout = lambda start, path: NO_DOUBT
    """The doubt about a path from an operation; a path without its edge is preferred."""
    varies: Callable[[int], bool] = lambda site: False
    """Whether *overlap* depends on what the path makes of an instruction, even if no address does."""
    own_entries: bool = False
    """Whether the threads that continue along a path may have come from the entry by another path than that for all threads."""
    whole_loops: bool = False
    """Whether a path that leaves a loop too early is extended to the trip count of the loop."""
    _substitutions: dict[tuple[Edge, ...], Resolve] = field(default_factory=dict)
    """Entry path -> the substitution at its end."""
    _own_prefixes: dict[tuple[int, int, tuple[Edge, ...], bool], tuple[Edge, ...] | None] = field(
        default_factory=dict
    )
    """The results of :meth:`_own_prefix`, by operation, context of the use, path, and *contradicted*."""
    _failed: Counter[int] = field(default_factory=Counter)
    """Operation -> the failed searches for such a path. No operation spends the budget of another one."""

    @property
    def shared(self) -> SharedMemory:
        return self.memory or self.model.shared

    @cached_property
    def _counting(self) -> int:
        return self.followed.numbering.bits(self.operations)

    def _pending(self, state: Any) -> int:
        """The operations in flight in a *state* that count, as a bit set."""
        return self.followed.pending(state) & self._counting

    def __iter__(self) -> Iterator[Conflict]:
        operations, found = self._collect()
        uses = Uses(found, self.shared, self._union)
        operations.reverse()
        while operations:  # what is known of each is needed no more when it has been searched
            members = operations.pop()
            bits = self.followed.numbering.bits(a.site for a in members.accesses)
            yield from self._search(members, uses.overlapping(members, bits))

    def _collect(self) -> tuple[list[Members], list[Members]]:
        """The classes of operations, and those of accesses that execute while one of them may be in flight."""
        model, results, shared = self.model, self.results, self.shared
        classes = AccessClasses(model, self._changes.difference(self.operations))
        operations: dict[AccessClass, Members] = {}
        uses: dict[tuple[AccessClass, bool], Members] = {}
        sites = sorted(shared.sites)
        for b in model.cfg.order:
            block = model.cfg.blocks[b]
            inside = sites[bisect_left(sites, block.start) : bisect_left(sites, block.end)]
            if not inside:
                continue
            walk = results.walk_to_end(b)
            relevant, state = next(walk)
            if relevant == block.end and not self._pending(results.entry[b]):
                continue
            pending: int | None = None
            for i in inside:
                while relevant < i:
                    (relevant, state), pending = next(walk), None
                begun = [a for a in shared.accesses(i) if self.begins(a)] if i in self.operations else []
                if pending is None and (not begun or any(map(self.is_use, shared.accesses(i)))):
                    pending = self._pending(state)  # most operations are no uses, so they do not ask
                if begun:
                    operations.setdefault(classes.of(i), Members()).accesses.extend(begun)
                if not pending:
                    continue
                for access in filter(self.is_use, shared.accesses(i)):
                    use = uses.setdefault((classes.of(i), access.writes), Members())
                    use.accesses.append(access)
                    use.pending |= pending
        for members in (*operations.values(), *uses.values()):
            for access in members.accesses:
                base = shared.addresses.form(access.address).base
                same = members.by_base.get(base)
                if same is None:
                    same = members.by_base[base] = SameBase()
                same.accesses.append(access)
        return list(operations.values()), list(uses.values())

    def _union(self, members: Members, base: int) -> Footprint | None:
        """All bytes that the accesses of *members* with that base touch; None if unknown."""
        same = members.by_base[base]
        if not same.has_union:
            threads = self.model.views.context_of(members.accesses[0].site).threads
            same.union = self.shared.combined_footprints(same.accesses, threads)[base]
            same.has_union = True
        return same.union

    def _search(self, operations: Members, overlapping: Overlapping) -> list[Conflict]:
        """The conflicts of *operations* with the nearest uses on a feasible path; longer loop paths come last.

        A stage of a ring is used some iterations after it was filled: on a path that returns to the operation each time
        or, when the loop has no more to fill, on one that returns to the reads of other stages.
        """
        start, cfg = operations.accesses[0].site, self.model.cfg
        if len(overlapping) + len(self.results.affecting[cfg.block_of[start]]) > LONG:
            found = self._next_in_block(start, operations, overlapping)
            if found:
                return found
        searches = self.model.search_cache
        if searches.spent:
            self.model.ledger.give_up(OVERLAP, start, searches.spent)
            return []
        searches.count(len(overlapping))
        uses = {end: use for end, use in overlapping.every().items() if self._may_meet(operations, use)}
        found = self._nearest(start, operations, uses) if uses else []
        if uses and not found and self.followed.stays_pending(self.results.entry[cfg.block_of[start]], start):
            found = self._nearest(start, operations, uses, start)
            reads = {end: use for end, use in uses.items() if not use.accesses[0].writes}
            again = next((end for end in reads if cfg.block_of[end] in cfg.in_cycle), None)
            if not found and again is not None:
                found = self._nearest(start, operations, reads, again)
        return found

    def _may_meet(self, operations: Members, uses: Members) -> bool:
        return any(self.may_meet(a, b) for a in operations.accesses for b in uses.accesses)

    def _next_in_block(self, start: int, operations: Members, overlapping: Overlapping) -> list[Conflict]:
        """What :meth:`_nearest` would find first, if that is in the block of the operation and no doubt is about it.

        Where thousands of operations are in flight, most conflict with a use that follows soon, and to put a question
        about all of the uses takes a time that is linear in their number.
        """
        model, follow = self.model, self.followed.follow
        model.pause()
        number = model.cfg.block_of[start]
        block, changes = model.cfg.blocks[number], self.results.affecting[number]
        after, state = bisect_right(changes, start), self.followed.begun(start)
        marks: list[int] = []
        threads = model.views.context_in_iteration(start).threads
        for use in overlapping.between(start, block.end) if threads else ():
            end = use.accesses[-1].site
            until = bisect_left(changes, end, after)
            for site in (*changes[after:until], end):
                if site == end and self.ready(state):
                    if model.instruction(end).guard >= 0:
                        return []
                    found, _ = self._conflicts(
                        start, operations, use, Path((), tuple(marks), end, threads, state)
                    )
                    doubt = self.doubt(start, found[0].path) if found else NO_DOUBT
                    return [] if doubt.edge is not None else [replace(c, doubt=doubt) for c in found]
                instruction = model.instruction(site)
                following = follow(start, state, site, instruction)
                if following is None or (following != state and instruction.guard >= 0):
                    return []
                if following != state:
                    marks.append(site)
                state = following
            after = bisect_right(changes, end, until)
        return []

    def _nearest(
        self, start: int, operations: Members, uses: dict[int, Members], again: int | None = None
    ) -> list[Conflict]:
        """The conflicts on paths that return to *again*, at most MAX_RETURNS_PER_PATH times; None: on all paths."""
        max_returns = 0 if again is None else MAX_RETURNS_PER_PATH
        max_per_use = max(max_returns, MAX_PATHS_PER_USE)
        max_paths = self.tries or MAX_PATHS_PER_OPERATION + len(uses)
        tried: set[tuple[int, Hashable]] = set()
        left = dict.fromkeys(uses, max_per_use)
        closed = set[Decision]()
        reached: tuple[int, Hashable] = start, None

        def goal(state: Any, i: int) -> bool:
            return (
                i in left
                and self.ready(state[0])
                and state[1] >= min(max_returns, 1)
                and (i, state) not in tried
            )

        step = partial(self._counting_returns, start, again)
        paths: Search[Path] | None = None
        doubted: list[Conflict] = []
        for _ in range(max_paths):
            if paths is None:
                paths = self.model.paths(
                    FactQuery(start, (self.followed.begun(start), 0), self.results, step, goal, left), closed
                )
            path = next_answer(paths).witness
            if path is not None:
                reached = path.end, path.state
                path = replace(path, state=path.state[0])
                found, infeasible = self._conflicts(start, operations, uses[path.end], path)
                doubt = self.doubt(start, found[0].path) if found else NO_DOUBT
                found = [replace(conflict, doubt=doubt) for conflict in found]
                if found and doubt.edge is None:
                    return found
                doubted = doubted or found
                if doubt.edge is not None or infeasible is not None:
                    closed.update(each for each in (doubt.edge, infeasible) if each is not None)
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
                    self.model.ledger.give_up(OVERLAP, reached[0], f"more than {max_per_use} paths to a use")
                if not left:
                    break
        else:
            if not doubted:
                self.model.ledger.give_up(OVERLAP, start, f"more than {max_paths} paths")
        return doubted

    def _counting_returns(
        self, start: int, again: int | None, state: tuple[Any, int], i: int, instruction: Instruction
    ) -> Hashable:
        """The state of the fact after an instruction, with the times that *again* was executed, up to a limit."""
        fact, returns = state
        after = self.followed.follow(start, fact, i, instruction)
        if i == again and returns < MAX_RETURNS_PER_PATH:
            returns += 1
        elif after == fact:
            return state
        return None if after is None else (after, returns)

    def _conflicts(
        self, start: int, operations: Members, uses: Members, path: Path
    ) -> tuple[list[Conflict], Decision | None]:
        """The conflicts at the end of *path*; and what it assumes wrongly, if only that rules some out.

        If the path could be extended so that an edge of it can be taken, both are returned.
        """
        first: Decision | None = None
        for route, found in self._routes(start, operations, uses, path):
            if found:
                at, infeasible = _first_infeasible(self.model, start, route)
                if infeasible is None and (route.entry_prefix or self.model.fact(_EntryPaths).reached(start)):
                    return found, None
                if infeasible is not None and at >= len(route.entry_prefix) and path.assumes(infeasible):
                    longer = (
                        self._extended(start, route, at - len(route.entry_prefix))
                        if self.whole_loops and isinstance(infeasible, Edge)
                        else None
                    )
                    found = [] if longer is None else list(self._pairs(operations, uses, longer))
                    if found or not (self.whole_loops or self.own_entries):
                        return found, infeasible
                    first = first or infeasible
        return [], first

    def _extended(self, start: int, route: Route, leaving: int) -> Route | None:
        """*route* with as many iterations of the loop that its edge number *leaving* leaves as make that edge feasible.

        None if more than MAX_ITERATIONS_PER_LOOP are needed, another branch then contradicts, or the state at the end
        is not the same.
        """
        path = route.path
        iteration = self._iteration(path.edges[leaving])
        iterations = MAX_ITERATIONS_PER_LOOP
        for _ in range(2 if iteration else 0):
            added = iteration * iterations
            longer = replace(
                path,
                edges=path.edges[:leaving] + added + path.edges[leaving:],
                guards=tuple((k + len(added) if k > leaving else k, guard) for k, guard in path.guards),
            )
            found = _route(longer, self.model.along(longer, start), route.before, route.entry_prefix)
            at, infeasible = _first_infeasible(self.model, start, found)
            if infeasible is None:
                return found if self._state(start, found.path) == path.state else None
            iterations = max((at - len(route.entry_prefix) - leaving) // len(iteration), 0)
            if iterations >= MAX_ITERATIONS_PER_LOOP:
                why = f"more than {MAX_ITERATIONS_PER_LOOP} iterations of a loop"
                self.model.ledger.give_up(OVERLAP, start, why)
                return None
        return None

    def _state(self, start: int, path: Path) -> Any:
        """The state at the end of *path* of the operation that begins at *start*; None if it is complete."""
        state: Any = self.followed.begun(start)
        for i in path.sites(self.model.cfg, start):
            if state is not None and i in self._changes:
                state = self.followed.follow(start, state, i, self.model.instruction(i))
        return state

    @cached_property
    def _changes(self) -> frozenset[int]:
        """The instructions that may change a state."""
        return frozenset(chain.from_iterable(self.results.affecting))

    def _iteration(self, leaving: Edge) -> tuple[Edge, ...]:
        """The shortest path around the loop that *leaving* leaves, from the source of that edge; () if none."""
        cfg, exiting = self.model.cfg, leaving.source
        around = map(cfg.loops.__getitem__, cfg.nest.around(exiting))
        loop = next((loop for loop in around if leaving.target not in loop), frozenset[int]())
        paths: dict[int, tuple[Edge, ...]] = {}
        work = [exiting]
        for block in work:
            for edge in cfg.successors[block]:
                if edge.target in loop and edge.target not in paths:
                    paths[edge.target] = (*paths.get(block, ()), edge) if block != exiting else (edge,)
                    work += [edge.target] if edge.target != exiting else []
        return paths.get(exiting, ())

    def _routes(
        self, start: int, operations: Members, uses: Members, path: Path
    ) -> Iterator[tuple[Route, list[Conflict]]]:
        """The routes of *path*, each with its conflicts, from the most general one to the most specific.

        First in terms of the values at *start*; then for its first execution; then for the first execution by the
        threads that continue along the path. The caller stops at the first route whose conflicts it accepts.
        """
        model, values = self.model, self.model.values
        along = model.along(path, start)

        def conflicts(before: Resolve, prefix: tuple[Edge, ...] = ()) -> tuple[Route, list[Conflict]]:
            route = _route(path, along, before, prefix)
            return route, list(self._pairs(operations, uses, route))

        yield conflicts(values.representative)
        bases = (*operations.by_base, *map(along, uses.by_base))
        if not any(map(values.varying_at, bases)) and not any(map(self.varies, (start, path.end))):
            return
        prefix = model.fact(_EntryPaths).to(start)
        if prefix is None:
            return
        first = conflicts(self._substitution(prefix), prefix)
        yield first
        # If there were conflicts and the caller continues, a branch of this route has ruled them out.
        if not (self.whole_loops or (self.own_entries and first[1])):
            return
        own = self._own_prefix(start, path, contradicted=bool(first[1]))
        if own is not None and own != prefix:
            yield conflicts(self._substitution(own), own)

    def _substitution(self, edges: tuple[Edge, ...]) -> Resolve:
        """The substitution at the end of *edges*, a path from the entry."""
        if edges not in self._substitutions:
            self._substitutions[edges] = self.model.values.along(edges, frozenset())
        return self._substitutions[edges]

    def _own_prefix(self, start: int, path: Path, contradicted: bool) -> tuple[Edge, ...] | None:
        """An entry path of just the threads that continue along *path* to its end; None if none was found or is needed.

        It is needed if these are fewer than the threads of *start*, or if the entry path for all threads is
        *contradicted*: a branch on it implies that the path is not taken, as where only the elected thread sets a flag.
        """
        model = self.model
        end = model.views.context_of(path.end)
        key = start, id(end), path.edges, contradicted
        if key not in self._own_prefixes:
            context = ThreadContext(path.threads & end.threads, end.invariant(model.values))
            fewer = context.threads not in (0, model.views.context_of(start).threads)
            needed = fewer or contradicted
            self._own_prefixes[key] = self._prefix_of(start, context, path.edges) if needed else None
        return self._own_prefixes[key]

    def _prefix_of(
        self, start: int, context: ThreadContext, onward: tuple[Edge, ...]
    ) -> tuple[Edge, ...] | None:
        """An entry path of *context* to *start* that can continue along *onward*; None after too many failures."""
        failed, total = self._failed[start], sum(self._failed.values())
        if failed == MAX_FAILED_ENTRY_PATHS_PER_OPERATION or total == MAX_FAILED_ENTRY_PATHS:
            why = f"{max(failed, total)} searches for a path from the entry failed"
            self.model.ledger.give_up(OVERLAP, start, why)
            return None
        found = _entry_path(self.model, start, context, onward).witness
        self._failed[start] += found is None
        return found

    def _pairs(self, operations: Members, uses: Members, route: Route) -> Iterator[Conflict]:
        """For each operation, the conflict with the first use at or after the end of the path that overlaps it."""
        shared, values = self.shared, self.model.values

        def resolved(members: Members, resolve: Resolve) -> Iterator[tuple[int, int, int | None]]:
            for base, same in members.by_base.items():
                found = same.resolved
                if found is None:
                    form = shared.addresses.form(resolve(base))
                    # A pointer that a loop advances may have a different initial value in each thread.
                    found = form.base, form.offset if values.constant_of(form.index) == 0 else None
                    if not values.varying_at(base):
                        same.resolved = found
                yield base, *found

        by_common: dict[int, list[tuple[int, int | None]]] = {}
        for other, common, offset in resolved(uses, route.after):
            by_common.setdefault(common, []).append((other, offset))
        for base, common, offset in resolved(operations, route.before):
            for other, other_offset in by_common.get(common, ()):
                distance = None if offset is None or other_offset is None else other_offset - offset
                if distance is None or may_overlap(
                    self._union(operations, base), self._union(uses, other), distance
                ):
                    exact = distance is None
                    first = self._footprints(operations, base, uses, route.before if exact else None)
                    second = self._footprints(uses, other, operations, route.after if exact else None)
                    yield from self._matched(first, second, distance or 0, route)

    def _footprints(
        self, members: Members, base: int, beside: Members, resolve: Resolve | None
    ) -> list[LocatedAccess]:
        """The footprints of the accesses of *members* with *base*, given that some thread executes those of *beside*.

        They are relative to the base or, with *resolve*, to its value on a path.
        """
        shared, views = self.shared, self.model.views
        threads, others = (views.context_of(b.accesses[0].site).threads for b in (members, beside))
        same = members.by_base[base]
        if resolve is not None:
            return [(a, shared.footprint(shared.along(a, resolve), threads, others)) for a in same.accesses]
        found = same.footprints.get(others)
        if found is None:
            found = [(a, shared.footprint(a, threads, others)) for a in same.accesses]
            same.footprints[others] = found
        return found

    def _matched(
        self, operations: list[LocatedAccess], uses: list[LocatedAccess], distance: int, route: Route
    ) -> Iterator[Conflict]:
        """The *operations*, each with the first of *uses* that overlaps it; *distance* is that of their bases."""
        shared = self.shared
        following: Footprint | None = (
            None  # the union of the uses after the operation; None: none, or unknown
        )
        known, left = True, len(uses)
        for operation, own in reversed(operations):
            first = 0 if route.path.edges else bisect_right(uses, operation.site, key=lambda use: use[0].site)
            for _, touched in uses[first:left]:
                if known:
                    following = touched if following is None else touched and following.union(touched)
                    known = following is not None
            left = min(left, first)
            if first == len(uses) or not may_overlap(own, following, distance):
                continue
            here = shared.along(operation, route.before)
            for use, touched in uses[first:]:
                if may_overlap(own, touched, distance) and self.overlap(
                    here, shared.along(use, route.after), route
                ):
                    path = route.path
                    path = path if path.end == use.site else replace(path, end=use.site)
                    yield Conflict(operation, use, path)
                    break


def _route(path: Path, along: Resolve, before: Resolve, prefix: tuple[Edge, ...] = ()) -> Route:
    return Route(path, before, lambda value: before(along(value)), prefix)


class _EntryPaths:
    """Paths by which instructions of a function are reached for the first time, shared by all searches."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._known: dict[tuple[int, int, bool], Answer[tuple[Edge, ...]]] = {}

    def to(self, start: int) -> tuple[Edge, ...] | None:
        """A path from the entry to *start* on which each branch is evaluated, not assumed; None if none was found."""
        return self._to(start).witness

    def reached(self, start: int) -> bool:
        """Whether some path reaches *start* when each branch is evaluated; True if the search gave up."""
        return not isinstance(self._to(start), Infeasible)

    def _to(self, start: int) -> Answer[tuple[Edge, ...]]:
        key = self.model.guarded_block(start)
        if key not in self._known:
            self._known[key] = _entry_path(self.model, start)
        return self._known[key]


def _entry_path(
    model: KernelModel, start: int, context: ThreadContext | None = None, onward: tuple[Edge, ...] = ()
) -> Answer[tuple[Edge, ...]]:
    """A path from the entry to *start* on which each branch is evaluated, not assumed.

    It is a path of the threads of *context*, if that is given, and can continue along the edges *onward*.
    """
    path = model.entry_path(start, context)
    if not isinstance(path, Found):
        return path
    here = Path(onward, (), start, T.full(model.values.threads))
    taken = Route(here, model.values.representative, model.values.representative, path.witness.edges)
    if _first_infeasible(model, start, taken)[1] is None:
        return Found(path.witness.edges)
    return concrete_entry_path(model.search_cache, model.cfg.block_of[start], context, onward)


def _first_infeasible(model: KernelModel, start: int, route: Route) -> tuple[int, Decision | None]:
    """``(k, decision)`` for the first branch or guard of *route* that excludes it; k edges precede.

    ``(number of all edges, None)`` if there is none. Each predicate has the value of its own iteration. A predicate of
    the kernel's arguments or of data can have either value, since some launch provides it. One that depends on the
    thread index alone excludes the route if no thread has the value, or if its values are not computed and none may
    have it.
    """
    values = model.values
    facts, threads = PathCondition(), T.full(values.threads)
    if not route.entry_prefix:
        # Copied, so that what is concluded on the route is kept no longer than the route.
        facts, threads = PathCondition(model.views.context_in_iteration(start).facts), route.path.threads
    edges = [*route.entry_prefix, *route.path.edges]
    along = values.along(edges, frozenset())
    before = len(route.entry_prefix)
    guards = [(before + k, guard) for k, guard in route.path.guards]
    # The guard of the operation counts only if the route comes from the entry: otherwise it holds by assumption.
    if route.entry_prefix:
        guards.insert(0, (before, Guard(start, True)))
    if route.entry_prefix or route.path.end != start:
        guards.append((len(edges), Guard(route.path.end, True)))
    model.search_cache.states += (len(edges) + len(guards)) // _DECISIONS_PER_STATE
    for k, p, required, decision in model.decisions(edges, guards):
        held = assume_on_path(values, along.walk(p, k), required, facts, threads)
        if held is None:
            return k, decision
        facts, threads = held
    return len(edges), None
