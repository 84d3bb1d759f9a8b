"""``cp.async`` operations that one thread has in flight (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from collections.abc import Callable

from tclint.analyses.groups import Groups, GroupsState
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.overlaps import OverlapSearch, Route
from tclint.analyses.plausibility import NO_DOUBT, DoubtAbout
from tclint.analyses.since_barrier import lane_synchronising_sites, synchronising_sites
from tclint.analyses.warp_memory import SharedByWarps
from tclint.ir.nodes import Instruction
from tclint.isa.effects import CP_ASYNC, Barrier
from tclint.values.shared_memory import SharedAccess

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

    group = CP_ASYNC

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        tracked = model.tracks(self.group)
        self.completions = model.fact(HappensBefore).completed(tracked) if tracked else frozenset[int]()
        """The waits after which the thread may know that tracked operations are complete."""
        self.add_sites(self.completions)

    def aged(self, age: int, at: int, instruction: Instruction) -> int | None:
        if at in self.completions:
            return None if age == TRACKED else age
        if instruction.group == self.group:
            if instruction.effects.arrives is Barrier.MBARRIER:
                return TRACKED
            if age == TRACKED:
                return None if instruction.effects.waits is not None else TRACKED
        return super().aged(age, at, instruction)


class WaitedCopies(CopyGroups):
    """:class:`CopyGroups`, and the complete operations until the thread synchronises with others (9.7.9.25.3.3)."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.synchronising = self._synchronising()
        self.add_sites(self.synchronising)

    def _synchronising(self) -> frozenset[int]:
        """Where the thread synchronises with those that the analysis is about."""
        return self.model.fact(synchronising_sites)

    def aged(self, age: int, at: int, instruction: Instruction) -> int | None:
        if at in self.synchronising:
            return None if age == WAITED else super().aged(age, at, instruction)
        if age == WAITED:
            return WAITED
        after = super().aged(age, at, instruction)
        waited = after is None and age != TRACKED and instruction.effects.waits is not None
        return WAITED if waited else after

    def pending(self, state: GroupsState) -> int:
        """The bit set of the operations of *state* for which only their own thread has waited."""
        return state[0].having(WAITED)

    def stays_pending(self, state: GroupsState, site: int) -> bool:
        return (site, WAITED) in state[0]

    def conflicts(
        self,
        is_use: Callable[[SharedAccess], bool],
        overlap: Callable[[SharedAccess, SharedAccess, Route], bool],
        memory: SharedByWarps,
        doubt: DoubtAbout = lambda start, path: NO_DOUBT,
        whole_loops: bool = False,
    ) -> OverlapSearch:
        """The search for accesses that *is_use* admits and that conflict with copies only their own thread has waited for.

        Their bytes must be known in *memory*. *overlap* decides whether a copy and an access conflict; *doubt* and
        *whole_loops* are about the paths between the two.
        """
        context_of = self.model.views.context_of
        return OverlapSearch(
            self.model,
            self.model.solution(type(self))[1],
            self,
            frozenset(self.model.begins(self.group)),
            lambda access: is_use(access) and memory.placed(access, context_of(access.site).threads),
            overlap,
            memory=memory,
            ready=lambda age: age == WAITED,
            doubt=doubt,
            whole_loops=whole_loops,
        )


class LaneWaitedCopies(WaitedCopies):
    """:class:`WaitedCopies`, until the lanes of the warp synchronise."""

    def _synchronising(self) -> frozenset[int]:
        return self.model.fact(lane_synchronising_sites)
