"""Outstanding ``cp.async`` operations of one thread (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from collections.abc import Iterable

from tclint.analyses.groups import Groups, State
from tclint.analyses.since_barrier import news
from tclint.analyses.warps import calls
from tclint.ir.nodes import Instruction
from tclint.model import KernelModel

__all__ = ["TRACKED", "WAITED", "CopyGroups", "WaitedCopies"]

TRACKED = -3
"""An mbarrier tells when it is done: ``cp.async.mbarrier.arrive`` came after it (9.7.13.15.15)."""

WAITED = -4
"""It is complete, and its own thread alone has waited for it."""

_NEWS = frozenset(("mbarrier-wait", "barrier-sync", "barrier-wait"))


class CopyGroups(Groups):
    """cp.async-groups.

    What an mbarrier tracks is taken to be complete after any wait for an
    mbarrier or a group, and after a CTA barrier: another thread may have
    waited and passed the news on, if one waits before such a barrier at all.
    """

    group = "cp.async"

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.tracks = bool(model.sites("mbarrier-arrive", self.group))
        self.told = not self.tracks or self._told()
        """Whether a barrier may bring news of what an mbarrier tracks."""

    def _told(self) -> bool:
        """Whether a thread of an entry may come to a barrier from a wait for an mbarrier; callers may do what they like."""
        model = self.model
        if not model.function.entry or calls(model):
            return True
        barriers = [
            b for kind in ("barrier-sync", "barrier-arrive", "barrier-wait") for b in model.sites(kind)
        ]
        return any(model.reaches(w, b) for w in model.sites("mbarrier-wait") for b in barriers)

    def relevant(self, instruction: Instruction) -> bool:
        return (self.tracks and instruction.event in _NEWS) or super().relevant(instruction)

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        facts, copies = state
        event = instruction.event
        if event in _NEWS:
            if not self.told and event != "mbarrier-wait":
                return state
            return frozenset(f for f in facts if f[1] != TRACKED), copies
        if instruction.group != self.group or event == "issue":
            return super().transfer(state, at, instruction)
        if event == "mbarrier-arrive":
            return frozenset((s, TRACKED) for s, _ in facts), copies
        tracked = frozenset(f for f in facts if f[1] == TRACKED)
        facts, copies = super().transfer((facts - tracked, copies), at, instruction)
        return (facts | tracked if event == "commit" else facts), copies


class WaitedCopies(CopyGroups):
    """The same, and the copies that other threads have not been told of (9.7.9.25.3.3)."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.by_opcode = False
        self.news = news(model)
        self._telling = frozenset(map(model.instruction, self.news))

    def places(self) -> Iterable[int] | None:
        if self.copied:
            return None
        function = self.model.function
        asked = ((use, function.instructions[use.sites[0]]) for use in function.uses if use.sites)
        return self.news.union(*(use.sites for use, first in asked if CopyGroups.relevant(self, first)))

    def relevant(self, instruction: Instruction) -> bool:
        return instruction in self._telling or super().relevant(instruction)

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        waited = frozenset(f for f in state[0] if f[1] == WAITED)
        facts = state[0] - waited
        after, copies = super().transfer((facts, state[1]), at, instruction)
        if at in self.news:
            return after, copies
        if instruction.event == "wait":
            waited |= {
                (fact[0], WAITED)
                for fact in facts
                if fact[1] != TRACKED
                and not super(WaitedCopies, self).transfer((frozenset((fact,)), copies), at, instruction)[0]
            }
        return after | waited, copies
