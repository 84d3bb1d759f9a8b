"""Threads that signal, or wait, for others: what these access, and whether anything orders it (PTX ISA 8.9.4, 8.9.5).

One thread often signals for its CTA, or for its warp, and one thread waits for both. A fence orders what its own thread
has done, so only what joins the threads orders the accesses of the others: a CTA barrier for other warps, one of the warp
for other lanes. Lanes that a branch has sent different ways may go first or last; where they have gone the same way,
hardware performs their accesses in order, although the manual does not promise it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tclint._named_tuple import NamedTuple
from tclint.analyses import role_paths
from tclint.analyses.global_memory import global_operands
from tclint.analyses.global_signals import GlobalSignals
from tclint.analyses.happens_before import HappensBefore, OrderScope, Unordered
from tclint.analyses.lane_memory import GlobalByLanes
from tclint.analyses.lane_races import INDEPENDENT_LANES, on_two_sides
from tclint.dataflow import Path
from tclint.ir.nodes import Site
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.nodes import Arithmetic, Compare, Elected, Logic, Masked, Negation, SpecialRead

__all__ = ["Beside", "Leaders"]


class Beside(NamedTuple):
    """An access that other threads than a leader execute, and that nothing orders with what the leader does for them."""

    access: Site
    others: int
    """These threads."""
    path: Path | None
    """From the earlier of the two to the later one; none if the other threads are on the other side of a branch."""
    lanes: bool
    """Whether they are lanes of the warp of the leader, not other warps."""


class Leaders:
    """What the threads beside those that signal or wait access with nothing that orders it."""

    def __init__(self, signals: GlobalSignals) -> None:
        self.signals, self.model = signals, signals.model

    def beside(self, leader: Site, accesses: Iterable[Site]) -> Beside | None:
        """One of *accesses* that other threads of the CTA execute, too, and that nothing orders with *leader* there.

        It signals for these threads, or waits for them: other warps if no lane of them does so itself, or else other lanes.
        """
        found = sorted(set(accesses))
        return self._of_other_warps(leader, found) or self._of_its_warp(leader, found)

    def _of_other_warps(self, leader: Site, accesses: list[Site]) -> Beside | None:
        model = self.model
        own = T.whole(model.views.context_of(leader).threads, WARP)
        for access in accesses:
            threads = model.views.context_of(access).threads
            others = threads & ~own & T.full(model.values.threads)
            if not others or not threads & own or not self._by_several(access, elected=True):
                continue
            path = self._unordered(leader, access, others, OrderScope.WARPS)
            if path is not None:
                return Beside(access, others, path, False)
        return None

    def _of_its_warp(self, leader: Site, accesses: list[Site]) -> Beside | None:
        others = self._other_lanes(leader)
        for access in accesses if others else ():
            theirs = self.model.views.context_of(access).threads & others
            if not theirs or not self._by_several(access, elected=False):
                continue
            if access in self.signals.writes and not self._each_its_own(access):
                continue
            path = self._unordered(leader, access, others, OrderScope.LANES)
            if path is not None:
                return Beside(access, theirs, path, True)
        return None

    def _unordered(self, leader: Site, access: Site, others: int, scope: OrderScope) -> Path | None:
        """A path that leads to a *leader* from a write, or from it to a read, and on which nothing joins it with *others*."""
        after = access not in self.signals.writes
        first, then = (leader, access) if after else (access, leader)
        ends = self._joining(scope) - {leader}
        if not self.model.reaches(first, then, ends):  # costs far less than a search for a path
            return None
        if after and not self._waits_for_nothing(leader, access, others, scope):
            return None
        start = self.model.views.context_of(first)
        return role_paths.follow_first(self.model, first, start, (then,), ends).witness

    def apart(self, signal: Site, writes: Iterable[Site]) -> Beside | None:
        """One of *writes* by lanes that a branch sends another way than the one that signals for them, before they join.

        What leads to a later release, which may be the one that announces it, does not count.
        """
        model, others = self.model, self._other_lanes(signal)
        memory = model.fact(GlobalByLanes) if others else None
        for write in sorted(set(writes)) if others else ():
            theirs = model.views.context_of(write).threads & others
            later = any(i != signal and model.reaches(write, i) for i in self._releasing)
            if (
                memory
                and theirs
                and not later
                and on_two_sides(memory, write, signal, self._joining(OrderScope.LANES))
            ):
                return Beside(write, theirs, None, True)
        return None

    def _joining(self, scope: OrderScope) -> frozenset[Site]:
        """Where a thread may become ordered with others at a distance of *scope*."""
        return self.model.fact(HappensBefore).points.acquire_points(scope)

    @cached_property
    def _releasing(self) -> frozenset[Site]:
        return self.model.fact(HappensBefore).points.release_points

    def for_lanes(self, leader: Site) -> bool:
        """Whether a leader leads other lanes of its warp."""
        return bool(self._other_lanes(leader))

    def _other_lanes(self, leader: Site) -> int:
        """The lanes of the warps of a leader that are not leaders themselves; none where lanes run in step."""
        target = self.model.function.target
        if target is None or target.number < INDEPENDENT_LANES:
            return 0
        leading = self.model.views.context_of(leader).threads
        return T.whole(leading, WARP) & ~leading & T.full(self.model.values.threads)

    def _waits_for_nothing(self, leader: Site, access: Site, others: int, scope: OrderScope) -> bool:
        """Whether *others* may reach *access* with nothing that they wait for in place of what the *leader* waits for.

        They do so from the entry; or the leader waits for the first time, and they do so from where it leaves them.
        """
        order = self.model.fact(HappensBefore)
        if isinstance(order.order((leader,), access, scope=scope), Unordered):
            return True
        return self._waits_first(leader) and self._around(leader, access, others, scope)

    def _waits_first(self, leader: Site) -> bool:
        """Whether no wait comes before that of *leader*: else the others may read what an earlier one was for."""
        cfg, polls = self.model.cfg, self.model.fact(HappensBefore).points.spin_loads
        once = len(list(cfg.nest.around(cfg.block_of[leader]))) == 1
        return once and not any(i != leader and self.model.reaches(i, leader) for i in polls)

    def _around(self, leader: Site, access: Site, others: int, scope: OrderScope) -> bool:
        """Whether *others* have a way to *access* from the branch at which the leader leaves them, and synchronise nowhere."""
        model, cfg = self.model, self.model.cfg
        block = cfg.block_of[leader]
        while (above := cfg.idom.get(block, -1)) not in (-1, block):
            block, at = above, cfg.blocks[above].end - 1
            context = model.views.context_of(at)
            if context.threads & others:
                ends = self._joining(scope) | {leader}
                return role_paths.follow_first(model, at, context, (access,), ends).witness is not None
        return False

    def _each_its_own(self, write: Site) -> bool:
        """Whether the lanes of a warp may write to different places, and not all of them the same word."""
        operands = (
            self.model.instruction(write).named(name)
            for match in (self.model.instruction(write).match,)
            if match is not None
            for name in global_operands(match, "write")
        )
        values = self.model.values
        addresses = [values.operand(each, write) for each in operands if each is not None]
        nodes = map(values.node, values.subexpressions(*addresses, until=self._of_whole_warps))
        return any(
            type(node) is SpecialRead and SPECIAL_REGISTERS[node.name].distinguishes_threads for node in nodes
        )

    def _of_whole_warps(self, value: int) -> bool:
        """Whether the lowest bits of an index, which number the lanes of a warp, are not in *value*."""
        values = self.model.values
        node = values.node(value)
        if type(node) is Masked:
            return not node.mask & WARP - 1
        if type(node) is Arithmetic and node.name == "shr":
            return (values.constant_of(node.operands[1]) or 0) >= (WARP - 1).bit_length()
        return values.uniformity(value) <= UniformityScope.WARP

    def _by_several(self, site: Site, elected: bool) -> bool:
        """Whether the conditions under which *site* is executed may hold in several warps at once, or in several lanes.

        *elected*: in warps, each of which may have elected a lane.
        """
        values = self.model.values
        return all(
            values.mask(p) is not None
            or (not elected and values.uniformity(p) <= UniformityScope.WARP)
            or self._holds_in_several(p, truth, elected)
            for p, truth in self.model.views.context_of(site).facts.items()
        )

    def _holds_in_several(self, p: int, truth: bool, elected: bool) -> bool:
        """Whether *p* may be *truth* in several of them: whatever it compares, it does not single out one thread."""
        values = self.model.values
        node = values.node(p)
        if type(node) is Negation:
            return self._holds_in_several(node.operand, not truth, elected)
        if type(node) is Logic:
            return all(self._holds_in_several(operand, truth, elected) for operand in node.operands)
        if type(node) is Elected:
            return elected
        if type(node) is not Compare:
            return False
        if node.relation != "eq" or not truth:
            return True
        if not elected and any(self._of_neighbours(operand) for operand in node.operands):
            return True
        indexed = (
            type(n) is SpecialRead and SPECIAL_REGISTERS[n.name].distinguishes_threads
            for n in map(values.node, values.subexpressions(*node.operands))
        )
        return not any(indexed)

    def _of_neighbours(self, value: int) -> bool:
        """Whether lanes whose numbers differ in the lowest bit have the same *value*."""
        node = self.model.values.node(value)
        return type(node) is Masked and not node.mask & 1
