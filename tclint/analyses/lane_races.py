"""Accesses of two lanes of one warp to the same bytes, at least one of them a write, that nothing orders (8.7.1).

From ``sm_70`` on, the lanes of a warp are scheduled independently, and no access of one is ordered with one of another
by being next to it in the text. Hardware makes a difference that the manual does not make:

- *Converged*: one lane executes both accesses, the other one the second on the same way. Where lanes run together,
  accesses are performed in order.
- *Diverged*: a branch sends the two lanes different ways, and each access is on one of these, before they join again.
  Which way is executed first is up to the hardware.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product

from tclint._named_tuple import NamedTuple
from tclint.analyses.lane_memory import SharedByLanes
from tclint.analyses.overlaps import Conflict, OverlapSearch, Route
from tclint.analyses.plausibility import NO_DOUBT, Doubt, has_unused_result, skips
from tclint.analyses.since_barrier import SinceBarrier, lane_synchronising_sites
from tclint.analyses.unchanging_stores import same_value, written_back
from tclint.dataflow import Path
from tclint.dataflow.kernel import Kernel
from tclint.ir.cfg import Edge
from tclint.isa.effects import Exchange
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.shared_memory import SharedAccess

__all__ = [
    "INDEPENDENT_LANES",
    "Diverged",
    "conflict_on",
    "converged",
    "diverged",
    "exchanges_on",
    "on_two_sides",
]

_SYNCHRONISED = "on other paths between the two, the lanes synchronise"
_PAIRS = "lanes on two sides of a branch"
"""What the ledger calls the question whether accesses of these conflict."""
INDEPENDENT_LANES = 70
"""The first target on which the lanes of a warp are scheduled independently."""
MAX_PAIRS = 4096
"""Pairs of accesses on two sides of one branch that are compared."""


def converged(memory: SharedByLanes, kind: type[SinceBarrier]) -> OverlapSearch:
    """The conflicts in *memory* of what lanes have accessed since they synchronised, as *kind* has it, on one path."""
    model = memory.model
    since, _ = model.solution(kind)

    def doubt(start: int, path: Path) -> Doubt:
        stored = since.writes or any(user == path.end for user, _ in model.transitive_users(start))
        return skips(model, path, since.ends, _SYNCHRONISED) or (
            NO_DOUBT if stored else has_unused_result(model, path, start, path.end)
        )

    return since.conflicts(
        since.firsts,
        lambda access: not access.later and (access.writes or since.writes) and access.site not in since.ends,
        partial(_conflict, memory),
        begins=lambda access: not model.instruction(access.site).event,
        doubt=doubt,
    )


def exchanges_on(memory: SharedByLanes, conflict: Conflict) -> list[int]:
    """The votes, shuffles and elections on the path of a *conflict*."""
    path = conflict.path.sites(memory.model.cfg, conflict.operation.site)
    return [i for i in path if isinstance(memory.model.instruction(i).effects.exchange, Exchange)]


def _conflict(memory: SharedByLanes, first: SharedAccess, second: SharedAccess, route: Route) -> bool:
    """Whether a lane accesses what another lane of its warp has accessed, and one of the two takes the path."""
    if memory.atomic(first.site) and memory.atomic(second.site):
        return False
    if memory.compared(first) and memory.compared(second):
        return False
    if _of_copies(memory, first, second) or (not first.writes and memory.by_warp(first.site)):
        return False
    here, there = (_needing(memory, access) for access in (first, second))
    if second.writes and not memory.atomic(second.site):
        there &= ~(same_value if first.writes else written_back)(memory, first, second, route)
    return conflict_on(memory, first, second, route, (here, there))


def _of_copies(memory: SharedByLanes, first: SharedAccess, second: SharedAccess) -> bool:
    """Whether the same lanes make both accesses at their own address, which some of them have in common.

    They do the same work several times, as a compiler has lanes do which it has no other work for.
    """
    same = first.address == second.address and first.size == second.size
    context_of = memory.model.views.context_of
    return (
        same
        and context_of(first.site).threads == context_of(second.site).threads
        and not (memory.atomic(first.site) or memory.atomic(second.site))
    )


def conflict_on(
    memory: SharedByLanes,
    first: SharedAccess,
    second: SharedAccess,
    route: Route,
    lanes: tuple[int, int] | None = None,
) -> bool:
    """Whether two accesses of two lanes of a warp provably overlap, and one of the two takes the route.

    *lanes* are the threads that make each of them, if not all that may.
    """
    context_of = memory.model.views.context_of
    here, there = lanes or (context_of(first.site).threads, context_of(second.site).threads)
    taking = route.path.threads
    pairs = {(here & taking, there), (here, there & taking)}
    return any(memory.overlap_between_lanes(first, second, *pair) for pair in pairs if all(pair))


def _needing(memory: SharedByLanes, access: SharedAccess) -> int:
    """The threads for which it matters when *access* is performed."""
    threads = memory.model.views.context_of(access.site).threads
    return threads if access.writes else threads & memory.executed.takers(access.site)


class Diverged(NamedTuple):
    """Two conflicting accesses of lanes that a branch has sent different ways."""

    first: SharedAccess
    second: SharedAccess
    branch: int


def diverged(memory: SharedByLanes) -> Iterator[Diverged]:
    """The conflicts of lanes that a branch, which the thread index decides, sends different ways."""
    cfg, partings = memory.model.cfg, memory.model.fact(_Partings)
    accessing = frozenset(cfg.block_of[i] for i in memory.sites if cfg.block_of[i] in cfg.rank)
    several = sum(1 << block for block in accessing)
    for block in cfg.order:
        ways = cfg.successors[block]
        if (
            len(ways) != 2
            or ways[0].predicate < 0
            or not all((cfg.reachable_from[way.target] | 1 << way.target) & several for way in ways)
        ):
            continue
        parting = partings.at(block)
        if parting is not None:
            yield from _across(memory, parting)


class _Parting(NamedTuple):
    """A branch that sends lanes of one warp different ways, and what holds for each of these."""

    ways: tuple[Edge, Edge]
    lanes: tuple[int, int]
    """The threads that go each way."""
    sides: tuple[frozenset[int], frozenset[int]]
    """The blocks that lanes may be in before they join those that go the other way."""

    def apart(self, side: int) -> frozenset[int]:
        """The blocks of one side that are not on the other as well."""
        return self.sides[side] - self.sides[1 - side]


class _Partings:
    """The branches that send lanes of one warp different ways, and how far these come before they synchronise.

    One branch is asked about for each pair of an access and an arrival below it.
    """

    def __init__(self, model: Kernel) -> None:
        self.model = model
        self._at: dict[int, _Parting | None] = {}
        self._reached: dict[tuple[int, int, frozenset[int]], Mapping[int, int]] = {}
        self._first_ends: dict[frozenset[int], Mapping[int, int]] = {}

    def at(self, block: int) -> _Parting | None:
        """The branch at the end of *block*; None unless the thread index splits a warp there."""
        if block not in self._at:
            self._at[block] = self._found(block)
        return self._at[block]

    def _found(self, block: int) -> _Parting | None:
        model, ways = self.model, self.model.cfg.successors[block]
        if len(ways) != 2 or ways[0].predicate < 0:
            return None
        first, second = ways
        p = model.reachability.edge_predicate(first)
        mask = None if p is None else model.values.mask(p)
        if mask is None:
            return None
        threads = model.reachability.threads_at.get(block, 0)
        taking = threads & (mask if first.value else ~mask)
        if not T.partial_groups(taking, threads, 32):
            return None
        sides = (self._until_joined(first), self._until_joined(second))
        return _Parting((first, second), (taking, threads & ~taking), sides)

    def _until_joined(self, way: Edge) -> frozenset[int]:
        """The blocks that lanes may be in which take *way*, before they join those that do not."""
        cfg = self.model.cfg
        join = cfg.ipdom.get(way.source, -1)
        found, work = set[int](), [way.target]
        while work:
            block = work.pop()
            if block != join and block not in found:
                found.add(block)
                work += cfg.targets[block]
        return frozenset(found)

    def reached(self, parting: _Parting, side: int, ends: frozenset[int]) -> Mapping[int, int]:
        """The blocks apart on one *side* that lanes reach without synchronising at *ends*, each with its last instruction
        that they do.
        """
        key = parting.ways[side].source, side, ends
        if key not in self._reached:
            cfg, blocks, first = self.model.cfg, parting.apart(side), self._first_end(ends)
            found, work = dict[int, int](), [parting.ways[side].target]
            while work:
                block = work.pop()
                if block in blocks and block not in found:
                    found[block] = first.get(block, cfg.blocks[block].end - 1)
                    if block not in first:
                        work += cfg.targets[block]
            self._reached[key] = found
        return self._reached[key]

    def on_two_sides(self, first: int, second: int, ends: frozenset[int]) -> bool:
        """The answer of :func:`on_two_sides`."""
        cfg = self.model.cfg
        here, there = cfg.block_of[first], cfg.block_of[second]
        block = cfg.idom.get(here, -1)
        while block >= 0:
            parting = self.at(block)
            if parting is not None:
                sides = [self.reached(parting, side, ends) for side in (0, 1)]
                for own, its in (sides, sides[::-1]):
                    if first <= own.get(here, -1) and second <= its.get(there, -1):
                        return True
            above = cfg.idom.get(block, -1)
            block = above if above != block else -1
        return False

    def _first_end(self, ends: frozenset[int]) -> Mapping[int, int]:
        """The first of *ends* in each block."""
        if ends not in self._first_ends:
            block_of = self.model.cfg.block_of
            self._first_ends[ends] = {block_of[i]: i for i in sorted(ends, reverse=True)}
        return self._first_ends[ends]


def _across(memory: SharedByLanes, parting: _Parting) -> Iterator[Diverged]:
    """The conflicts of accesses on two sides of a branch."""
    model = memory.model
    here, there = ([*_unsynchronised(memory, parting, side)] for side in (0, 1))
    branch = model.cfg.blocks[parting.ways[0].source].end - 1
    if len(here) * len(there) > MAX_PAIRS:
        model.ledger.give_up(_PAIRS, branch, f"more than {MAX_PAIRS} pairs")
        return
    blocks = parting.sides[0] | parting.sides[1]
    for a, b in product(here, there):
        if (
            _differ(memory, a, b, parting.lanes)
            and not _changes(memory, a, blocks)
            and not _excluded(memory, a.site, b.site)
        ):
            yield Diverged(a, b, branch)


def _unsynchronised(memory: SharedByLanes, parting: _Parting, side: int) -> Iterator[SharedAccess]:
    """The accesses on one *side* of a branch that lanes may make there without synchronising with others before."""
    model = memory.model
    reached = model.fact(_Partings).reached(parting, side, model.fact(lane_synchronising_sites))
    for block, last in sorted(reached.items(), key=lambda each: model.cfg.blocks[each[0]].start):
        for i in range(model.cfg.blocks[block].start, last + 1):
            yield from (a for a in memory.accesses(i) if _plain_now(memory, a))


def _plain_now(memory: SharedByLanes, access: SharedAccess) -> bool:
    ends = memory.model.fact(lane_synchronising_sites)
    return not access.later and memory.counts(access) and access.site not in ends


def on_two_sides(memory: SharedByLanes, first: int, second: int, ends: frozenset[int] | None = None) -> bool:
    """Whether a branch sends lanes of a warp to *first* and to *second*, and they do not synchronise before that.

    They do at *ends*: without these, where they may become ordered with others, or give them a signal.
    """
    model = memory.model
    ends = model.fact(lane_synchronising_sites) if ends is None else ends
    return model.fact(_Partings).on_two_sides(first, second, ends)


def _differ(memory: SharedByLanes, a: SharedAccess, b: SharedAccess, lanes: tuple[int, int]) -> bool:
    """Whether *a* and *b* conflict, and their order makes a difference."""
    if not (a.writes or b.writes) or (memory.atomic(a.site) and memory.atomic(b.site)):
        return False
    model = memory.model
    here, there = (_needing(memory, access) & threads for access, threads in zip((a, b), lanes, strict=True))
    if not (here and there and memory.overlap_between_lanes(a, b, here, there)):
        return False
    if a.writes and b.writes:
        as_is = model.values.representative
        return not same_value(memory, a, b, Route(Path((), (), b.site, here | there), as_is, as_is))
    return True


def _changes(memory: SharedByLanes, access: SharedAccess, blocks: frozenset[int]) -> bool:
    """Whether the address of *access* may change in *blocks*."""
    values, block_of = memory.model.values, memory.model.cfg.block_of
    return any(
        (at if kind == "block" else block_of[at]) in blocks for kind, at in values.varying_at(access.address)
    )


def _excluded(memory: SharedByLanes, a: int, b: int) -> bool:
    """Whether a condition that is the same in all lanes of a warp excludes one of two instructions."""
    values, views = memory.model.values, memory.model.views
    facts = views.context_in_iteration(b).facts
    return any(
        values.uniformity(p) <= UniformityScope.WARP and values.entails(p, facts) is (not truth)
        for p, truth in views.context_in_iteration(a).facts.items()
    )
