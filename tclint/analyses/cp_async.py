"""``cp.async`` operations that one thread has in flight (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tclint.analyses.groups import OPEN, Groups, GroupsState
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OverlapSearch, Route
from tclint.analyses.plausibility import NO_DOUBT, DoubtAbout
from tclint.analyses.since_barrier import SharedByWarps, lane_synchronising_sites, synchronising_sites
from tclint.ir.nodes import Instruction
from tclint.values.shared_memory import Access

__all__ = ["TRACKED", "WAITED", "CopyGroups", "LaneWaitedCopies", "WaitedCopies"]

TRACKED = -3
"""An mbarrier signals the completion: ``cp.async.mbarrier.arrive`` has followed the operation (9.7.13.15.15)."""

WAITED = -4
"""The operation is complete, and only the thread that issued it has waited for it."""


class CopyGroups(Groups):
    """Operations of cp.async-groups.

    An operation that an mbarrier tracks is taken to be complete after a wait for that mbarrier or for a group, and at
    every acquire point where the thread may observe that another thread has waited.
    """

    group = "cp.async"

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        tracked = model.sites("mbarrier-arrive", self.group)
        self.completions = model.fact(HappensBefore).completed(tracked) if tracked else frozenset[int]()
        """The waits after which the thread may know that tracked operations are complete."""
        self.add_sites(self.completions)

    def transfer(self, state: GroupsState, at: int, instruction: Instruction) -> GroupsState:
        facts, copies = state
        event = instruction.event
        if at in self.completions:
            return frozenset(f for f in facts if f[1] != TRACKED), copies
        if instruction.group != self.group or event == "issue":
            return super().transfer(state, at, instruction)
        if event == "mbarrier-arrive":
            return frozenset((s, TRACKED) for s, _ in facts), copies
        tracked = frozenset(f for f in facts if f[1] == TRACKED)
        facts, copies = super().transfer((facts - tracked, copies), at, instruction)
        return (facts | tracked if event == "commit" else facts), copies


class WaitedCopies(CopyGroups):
    """:class:`CopyGroups`, and the complete operations until the thread synchronises with others (9.7.9.25.3.3)."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.synchronising = self._synchronising()
        self.add_sites(self.synchronising)

    def _synchronising(self) -> frozenset[int]:
        """Where the thread synchronises with those that the analysis is about."""
        return synchronising_sites(self.model)

    def transfer(self, state: GroupsState, at: int, instruction: Instruction) -> GroupsState:
        waited = frozenset(f for f in state[0] if f[1] == WAITED)
        facts = state[0] - waited
        after, copies = super().transfer((facts, state[1]), at, instruction)
        if at in self.synchronising:
            return after, copies
        if instruction.event == "wait":
            waited |= {
                (fact[0], WAITED)
                for fact in facts
                if fact[1] != TRACKED
                and not super(WaitedCopies, self).transfer((frozenset((fact,)), copies), at, instruction)[0]
            }
        return after | waited, copies

    @staticmethod
    def waited(state: GroupsState) -> Iterator[int]:
        """The operations of *state* for which only their own thread has waited."""
        return (site for site, age in state[0] if age == WAITED)

    def conflicts(
        self,
        wanted: Callable[[Access], bool],
        meet: Callable[[Access, Access, Route], bool],
        memory: SharedByWarps,
        doubt: DoubtAbout = lambda start, path: NO_DOUBT,
        whole_loops: bool = False,
    ) -> OverlapSearch:
        """The search for the *wanted* accesses that conflict with copies for which only their own thread has waited.

        Their bytes must be known in *memory*. *meet* decides whether a copy and an access conflict; *doubt* and
        *whole_loops* are about the paths between the two.
        """
        context_of = self.model.views.context_of
        return OverlapSearch(
            self.model,
            self.model.solution(type(self))[1],
            frozenset(self.model.sites("issue", self.group)),
            self.waited,
            lambda state, site: (site, WAITED) in state[0],
            lambda site: OPEN,
            self.follow,
            lambda access: wanted(access) and memory.placed(access, context_of(access.site).threads),
            meet,
            memory=memory,
            ready=lambda age: age == WAITED,
            doubt=doubt,
            whole_loops=whole_loops,
        )


class LaneWaitedCopies(WaitedCopies):
    """:class:`WaitedCopies`, until the lanes of the warp synchronise."""

    def _synchronising(self) -> frozenset[int]:
        return lane_synchronising_sites(self.model)
