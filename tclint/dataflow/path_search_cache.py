"""What the searches for a feasible path need to know about a function, cached between them.

:class:`PathSearchCache` has the parts of a search that do not depend on its fact: the blocks between a start and a
goal, the branches out of a block with the predicates that decide them, and the values on which the predicates depend.
:class:`Retention` has what a branch makes of a path condition, for all searches that remember the same predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from tclint._named_tuple import NamedTuple
from tclint.dataflow.answers import Ledger
from tclint.dataflow.reachability import Reachability
from tclint.dataflow.views import ThreadContext, Views
from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Site
from tclint.values import PathCondition, PathSubstitution, Values
from tclint.values import thread_masks as T
from tclint.values.nodes import Compare, Logic, Negation, Phi, Value

__all__ = ["BranchEdge", "EntryPrefix", "Flag", "PathSearchCache", "Retention", "assume_on_path"]

_NO_COMPONENT = 1 << 62
"""Greater than the number of any strongly connected component."""
MIN_STATES_PER_KERNEL, MAX_STATES_PER_INSTRUCTION = 10_000, 10
"""The states that all searches of a kernel may visit together: so many, and so many more for each of its instructions.
No check of the 930 real kernels at hand reaches it. A text of which a compiler has unrolled everything, or one made for
it, does, and each search left has no answer."""
STRICT_FACTOR = 100
"""How many times as many they may visit for proofs, which ask about each obligation and not about candidates alone: the
real kernels at hand visit up to 740 states for each instruction."""
_BLOCKS_PER_STATE = 32
"""The blocks of a region that take as long to find as a state."""
MAX_FLAG_CONSTANTS = 4
"""Constants among which a flag may be chosen; a phi with more of them is a value and not a flag."""


class Flag(NamedTuple):
    """A phi whose incoming values include a few constants, so that the edge taken may determine it."""

    phis: frozenset[Value]
    """The phis through which the constants reach it; empty if there are none, or too many constants."""
    numbers: frozenset[int]
    """The constants."""


class BranchEdge(NamedTuple):
    """An edge out of a block, with all that decides which threads may take it."""

    edge: Edge
    predicate: Value | None
    """The predicate that decides whether it is taken; None: it has no condition."""
    threads: T.Threads
    """The threads that may take it."""
    on_arrival: Value | None
    """The predicate of the branch at the end of the target if that depends on the edge, in terms of the values before.

    ``i < n`` is ``0 < n`` on entry to a loop. None if it does not depend on the edge, or still on a phi of the target.
    """
    leaves: bool
    """Whether it leaves its strongly connected component."""
    never: Sequence[Value]
    """Predicates that are false at its target."""
    invariant: frozenset[tuple[Value, bool]]
    """The predicate with its truth, if it has one value in each execution of the function; empty if a loop changes it."""


class Leaves:
    """The values on which branches, guards and predicates of known truth depend: their leaves."""

    def __init__(self, cfg: CFG, values: Values, reachability: Reachability) -> None:
        self.cfg, self.values, self.reachability = cfg, values, reachability
        self._branches: dict[int, tuple[int, ...]] = {}
        self._guards: dict[int, tuple[int, ...]] = {}
        self._facts: dict[int, list[int]] = {}

    def of_branch(self, block: int) -> tuple[Value, ...]:
        """Those of the predicate of the branch at the end of *block*."""
        found = self._branches.get(block)
        if found is None:
            edges = self.cfg.successors[block]
            p = self.reachability.edge_predicate(edges[0]) if edges else None
            found = self._branches[block] = () if p is None else tuple(set(_leaves(self.values, p)))
        return found

    def of_guard(self, site: Site) -> tuple[Value, ...]:
        """Those of the guard of an instruction."""
        found = self._guards.get(site)
        if found is None:
            guard = self.cfg.function.instructions[site].guard
            leaves = _leaves(self.values, self.values.before(guard, site)) if guard >= 0 else []
            found = self._guards[site] = tuple(set(leaves))
        return found

    def of_fact(self, fact: Value) -> list[Value]:
        """Those of a predicate with known truth."""
        found = self._facts.get(fact)
        if found is None:
            found = self._facts[fact] = _leaves(self.values, fact)
        return found


class PathSearchCache:
    """What searches need to know of a function, cached between them."""

    def __init__(
        self, cfg: CFG, values: Values, views: Views, ledger: Ledger, *, strict: bool = False
    ) -> None:
        """*strict*: the searches are those of proofs."""
        self.cfg = cfg
        self.values = values
        self.views = views
        self.ledger = ledger
        self.states = 0
        """The states that searches have visited so far, and work that takes as long."""
        states = MIN_STATES_PER_KERNEL + MAX_STATES_PER_INSTRUCTION * len(cfg.function.instructions)
        self.max_states = states * STRICT_FACTOR if strict else states
        self.reachability = views.reachability
        self.leaves = Leaves(cfg, values, views.reachability)
        self._flags: dict[int, Flag] = {}
        self._entry_prefixes: dict[tuple[int, frozenset[tuple[int, bool]]], EntryPrefix] = {}
        self._branch_cache: dict[int, tuple[BranchEdge, ...]] = {}
        self._retentions: dict[tuple[frozenset[int], frozenset[tuple[int, int]], bool], Retention] = {}

    def count(self, blocks: int) -> None:
        """Counts a walk over so many blocks, or the like, among the states."""
        self.states += 1 + blocks // _BLOCKS_PER_STATE

    @property
    def spent(self) -> str:
        """Why no further search is made, in words; "" if one may be."""
        return (
            f"more than {self.max_states} states in all searches of the kernel"
            if self.states > self.max_states
            else ""
        )

    def entry_prefix(self, context: ThreadContext) -> EntryPrefix:
        """The empty prefix of a *context*, shared by all searches, so that each extends what others have evaluated."""
        key = context.threads, context.facts.pairs()
        if key not in self._entry_prefixes:
            self._entry_prefixes[key] = EntryPrefix(
                self.values.along((), frozenset()), context.facts, context.threads
            )
        return self._entry_prefixes[key]

    def branches(self, block: int) -> tuple[BranchEdge, ...]:
        """The edges out of *block*."""
        found = self._branch_cache.get(block)
        if found is None:
            found = self._branch_cache[block] = tuple(map(self._branch, self.cfg.successors[block]))
        return found

    def _branch(self, edge: Edge) -> BranchEdge:
        component, p = self.cfg.component, self.reachability.edge_predicate(edge)
        return BranchEdge(
            edge,
            p,
            -1 if p is None else self.values.feasible_threads(p, edge.value),
            self._on_arrival(edge),
            component[edge.target] != component[edge.source],
            self.views.never_true(edge.target),
            frozenset(((p, edge.value),)) if p is not None and self._unchanging(p) else frozenset(),
        )

    def _unchanging(self, p: Value) -> bool:
        """Whether *p* has one value in each execution of the function."""
        cfg = self.cfg
        return all(
            (at if kind == "block" else cfg.block_of[at]) not in cfg.in_cycle
            for kind, at in self.values.varying_at(p)
        )

    def _on_arrival(self, edge: Edge) -> Value | None:
        """See :attr:`BranchEdge.on_arrival`."""
        block = edge.target
        edges = self.cfg.successors[block]
        p = self.reachability.edge_predicate(edges[0]) if edges and len(self.cfg.sources[block]) > 1 else None
        if p is None or ("block", block) not in self.values.varying_at(p):
            return None
        there = self.values.along((edge,), frozenset())(p)
        return there if ("block", block) not in self.values.varying_at(there) else None

    def region(
        self, start: int, goals: Iterable[int], alive: AbstractSet[int] | None, max_edges: int
    ) -> dict[int, int] | None:
        """The blocks on paths from block *start* to a block of *goals*, each with its distance in edges from a goal.

        Only blocks that the fact may enter according to the solver (*alive*; None: all) are considered. Empty if no
        path leads to a goal; None if *start* is more than *max_edges* edges away from one.
        """
        sources, targets, dispatchers = self.cfg.sources, self.cfg.targets, self.reachability.dispatchers
        ahead = self.cfg.reachable_from[start] | 1 << start
        distance: dict[int, int] = {}
        layer = list(goals)
        depth = 0
        while layer and (depth <= max_edges or start in distance):
            following: list[int] = []
            for b in layer:
                if b not in distance and ahead >> b & 1:
                    distance[b] = depth
                    if alive is None or b in alive or (b == start and depth == 0):
                        following += sources[b]
            layer = following
            depth += 1
        if start not in distance:
            return None if layer else {}
        if alive is None and dispatchers.isdisjoint(distance):
            return distance  # a path from the start to any of these blocks stays among them
        forward: dict[int, int] = {}
        work = [start]
        while work:
            b = work.pop()
            if b not in forward:
                forward[b] = distance[b]
                if b not in dispatchers:
                    work += [t for t in targets[b] if t in distance and t not in forward]
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
            leaves = self.leaves.of_branch(b)
            for site in relevant[b]:
                if instructions[site].guard >= 0:
                    leaves += self.leaves.of_guard(site)
            for leaf in leaves:
                before = last.get(leaf)
                if before is None or number < before:
                    last[leaf] = number
                if (
                    before is not None
                    or (b in cyclic and not self.values.varying_at(leaf))
                    or self.values.is_phi(leaf)
                ):
                    repeated.add(leaf)
        return repeated, last

    def retention(
        self, region: Iterable[int], relevant: Sequence[Sequence[int]], together: bool
    ) -> Retention:
        """What is remembered in *region*, shared by all searches that remember the same."""
        watched, latest = self.watched(region, relevant)
        key = frozenset(watched), frozenset(latest.items()), together
        found = self._retentions.get(key)
        if found is None:
            found = self._retentions[key] = Retention(self, watched, latest, together)
        return found

    def flag(self, phi: Value) -> Flag:
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
                elif values.is_phi(value) and value not in phis:
                    phis.add(value)
                    work += values.arguments(value)
            few = 0 < len(numbers) <= MAX_FLAG_CONSTANTS
            found = self._flags[phi] = Flag(frozenset(phis if few else ()), frozenset(numbers))
        return found


class Retention:
    """Which predicates of a path condition are remembered: those that may decide again in the region of a search."""

    def __init__(
        self, cache: PathSearchCache, watched: set[int], latest: dict[int, int], together: bool
    ) -> None:
        # Not the cache, which refers to this: the collector rests, so a cycle would stay in memory.
        self.leaves, self.values, self.component = cache.leaves, cache.values, cache.cfg.component
        self.watched, self.latest = watched, latest
        """The leaves that decide more than once, and leaf -> the last component in which it decides."""
        self.together = together
        """Whether facts that contradict each other only jointly close a branch, and none is forgotten."""
        self._after: dict[tuple[int, Edge, int | None], PathCondition | None] = {}
        """The results of :meth:`after`, by identity of the path condition, which is interned."""
        self.last_use: dict[int, int] = {}
        """Predicate -> the last component in which a leaf of it decides."""
        self.predicates_until = _NO_COMPONENT
        """The last component in which a phi of predicates decides: any known predicate may be an argument of it."""
        self.joined: dict[int, list[int]] = {}
        """Block -> the phis of predicates at its entry."""
        self.chosen: dict[int, dict[int, frozenset[int]]] = {}
        """Block -> the flags at its entry -> the constants that each may have."""
        for leaf in list(self.latest):
            node = self.values.node(leaf)
            if type(node) is not Phi:
                continue
            if cache.cfg.function.registers[node.register].type == ".pred":
                self.predicates_until = min(self.predicates_until, self.latest[leaf])
                if leaf in self.watched:
                    self.joined.setdefault(node.block, []).append(leaf)
            else:
                flag = cache.flag(leaf)
                for phi in flag.phis:
                    self.latest[phi] = min(self.latest.get(phi, _NO_COMPONENT), self.latest[leaf])
                    self.chosen.setdefault(self.values.phi(phi).block, {})[phi] = flag.numbers

    def decisive(self, p: Value) -> bool:
        """Whether a leaf of *p* decides more than once."""
        return not self.watched.isdisjoint(self.leaves.of_fact(p))

    def needed(self, condition: PathCondition, block: int) -> PathCondition:
        """*condition* without the facts that decide nothing from *block* on, to merge states that differ in them only."""
        here = self.component[block]
        if self.predicates_until <= here or not condition:
            return condition
        unneeded, last_use = [], self.last_use
        for p in condition:
            end = last_use.get(p)
            if end is None:
                uses = (self.latest.get(leaf, _NO_COMPONENT) for leaf in self.leaves.of_fact(p))
                end = last_use[p] = min(uses, default=_NO_COMPONENT)
            if end > here:
                unneeded.append(p)
        return (
            PathCondition((p, v) for p, v in condition.items() if p not in unneeded)
            if unneeded
            else condition
        )

    def after(
        self, condition: PathCondition, branch: BranchEdge, on_arrival: Value | None
    ) -> PathCondition | None:
        """The path condition, interned as *condition* is, after *branch*; None if it cannot be taken.

        *on_arrival* is the predicate in terms of the values before the block was entered, if these decide it.
        """
        key = id(condition), branch.edge, on_arrival
        try:
            return self._after[key]
        except KeyError:
            after = self._taken(condition, branch, on_arrival)
            if after is not None:
                after = self.entering(after, branch)
                if branch.leaves and not self.together:  # inside a component, nothing ceases to decide
                    after = self.needed(after, branch.edge.target)
                after = self.values.interned(after)
            self._after[key] = after
            return after

    def _taken(
        self, condition: PathCondition, branch: BranchEdge, on_arrival: Value | None
    ) -> PathCondition | None:
        """The path condition after *branch*, in terms of the values before it; None if it cannot be taken."""
        values, truth, predicate, after = self.values, branch.edge.value, branch.predicate, condition
        if predicate is None:
            return condition
        if values.entails(predicate, condition) is (not truth):
            return None
        if self.together or not self.watched.isdisjoint(self.leaves.of_branch(branch.edge.source)):
            after = values.refine(predicate, truth, condition)
        if self.together and values.unsatisfiable(after):
            return None
        if on_arrival is not None:
            if values.entails(on_arrival, condition) is (not truth):
                return None
            if self.decisive(on_arrival):
                after = values.refine(on_arrival, truth, after)
        return after

    def entering(self, condition: PathCondition, branch: BranchEdge) -> PathCondition:
        """*condition* in terms of the values after *branch*, with the predicates that it decides at its target."""
        values, edge = self.values, branch.edge
        arrived: list[tuple[int, bool | None]] = []
        if edge.target in self.chosen:
            for phi, numbers in self.chosen[edge.target].items():
                incoming = values.after_block(values.phi(phi).register, edge.source)
                number = values.choice_among(incoming, numbers, condition)
                if number is not None:
                    arrived.append((values.equals_constant(phi, number), True))
        if edge.target in self.joined:
            for leaf in self.joined[edge.target]:
                incoming = values.after_block(values.phi(leaf).register, edge.source)
                arrived.append((leaf, values.entails(incoming, condition)))
        if condition:
            condition, restated = values.crossing(condition, edge)
            if restated:
                arrived += [(q, held) for q, held in restated if self.decisive(q)]
        if branch.never:
            arrived += [(q, False) for q in branch.never if self.decisive(q)]
        for leaf, held in arrived:
            if held is not None:
                condition = values.refine(leaf, held, condition)
        return condition


def _leaves(values: Values, p: Value) -> list[Value]:
    """The values on which the truth of *p* depends. Comparisons of one value, or one difference, share their leaves."""
    found: list[int] = []
    work = [p]
    while work:
        q = values.representative(work.pop())
        node = values.nodes[q]
        if type(node) is Negation:
            work.append(node.operand)
        elif type(node) is Logic:
            work += node.operands
        elif type(node) is Compare:
            found += values.compared(q)
        else:
            found.append(q)
    return found


def assume_on_path(
    values: Values, p: Value, required: bool, facts: PathCondition, threads: T.Threads
) -> tuple[PathCondition, T.Threads] | None:
    """The path condition and the threads after *p* had the *required* truth.

    *p* is in terms of the values at that point. None if no thread may have it so, if it contradicts *facts* taken
    together, or if only a launch decides it.
    """
    threads &= values.feasible_threads(p, required)
    truth = values.entails(p, facts)
    if not threads or truth is (not required):
        return None
    if (
        truth is None
        and values.depends_on_unmodelled_position(p)
        and not values.holds_in_large_ctas(p, required)
    ):
        return None
    after = values.refine(p, required, facts)
    return None if values.unsatisfiable(after, facts) else (after, threads)


class EntryPrefix:
    """A path from the entry on which every branch is evaluated, not assumed."""

    __slots__ = ("_extensions", "along", "facts", "threads")

    def __init__(self, along: PathSubstitution, facts: PathCondition, threads: T.Threads) -> None:
        self.along = along
        """The values of expressions at its end."""
        self.facts = facts
        self.threads = threads
        self._extensions: dict[Edge, EntryPrefix | None] = {}

    def extended(self, edge: Edge, views: Views) -> EntryPrefix | None:
        """The prefix extended by *edge*; None if no thread on it can take that edge."""
        if edge not in self._extensions:
            self._extensions[edge] = self._extend(edge, views)
        return self._extensions[edge]

    def _extend(self, edge: Edge, views: Views) -> EntryPrefix | None:
        facts, threads, p = self.facts, self.threads, views.reachability.edge_predicate(edge)
        if p is not None:
            held = assume_on_path(views.values, self.along(p), edge.value, facts, threads)
            if held is None:
                return None
            facts, threads = held
        return EntryPrefix(self.along.extended(edge), facts, threads)
