"""``cp.async`` operations that one thread has in flight (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from tclint.analyses.groups import Groups, GroupsState
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.since_barrier import lane_synchronising_sites, synchronising_sites
from tclint.ir.nodes import Instruction

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


class LaneWaitedCopies(WaitedCopies):
    """:class:`WaitedCopies`, until the lanes of the warp synchronise."""

    def _synchronising(self) -> frozenset[int]:
        return lane_synchronising_sites(self.model)
