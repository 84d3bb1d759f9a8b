"""Outstanding bulk copies and reductions from shared to global memory, of one thread (PTX ISA 9.7.9.27.2).

A bulk group gets done twice: first its sources are read, then its results are
written. ``wait_group.read`` waits for the first, ``wait_group`` for both.
"""

from __future__ import annotations

from tclint.analyses.groups import Groups, State
from tclint.ir.nodes import Instruction

__all__ = ["KNOWN", "READ", "TOLD", "BulkReads", "BulkWrites"]

READ = -3
"""Its source is read, which no thread but the waiting one knows."""
TOLD = -4
"""The same, and the warp of that thread knows it."""
KNOWN = (READ, TOLD)

_NEWS = frozenset("barrier-sync barrier-arrive barrier-wait mbarrier-arrive vote shuffle match redux".split())
_STRONG = frozenset((".relaxed", ".release", ".acq_rel", ".volatile"))


class BulkReads(Groups):
    """Bulk groups as far as their sources are read.

    What the thread has waited for stays known as :data:`READ` until it
    synchronises with its warp, and as :data:`TOLD` until it does so with other
    warps, in whatever way.
    """

    group = "bulk"

    def relevant(self, instruction: Instruction) -> bool:
        return _tells(instruction) or super().relevant(instruction)

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        facts, copies = state
        if instruction.group != self.group:
            if not _tells(instruction):
                return state
            inside = instruction.match is not None and instruction.match.form.scope == "lanes"
            told = {(s, TOLD) for s, age in facts if age in KNOWN and inside}
            return frozenset(f for f in facts if f[1] not in KNOWN) | told, copies
        known = frozenset(f for f in facts if f[1] in KNOWN)
        after, copies = super().transfer((facts - known, copies), at, instruction)
        if instruction.event == "wait":
            known |= {(s, READ) for s, age in facts - known if age >= self.depth(instruction)}
        return after | known, copies

    def lasting(self, state: State, site: int) -> bool:
        return super().lasting((frozenset(f for f in state[0] if f[1] not in KNOWN), frozenset()), site)


class BulkWrites(Groups):
    """Bulk groups as far as their results are written: a wait for the sources says nothing about them."""

    group = "bulk"

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        match = instruction.match
        return (
            state
            if match is not None and match.form.completion == "read"
            else super().transfer(state, at, instruction)
        )


def _tells(instruction: Instruction) -> bool:
    """Whether other threads may learn from *instruction* how far the thread has come."""
    match = instruction.match
    if match is None or match.form.flow == "call":
        return True
    stores = any(verb == "write" for verb, _ in match.form.memory)
    return match.form.event in _NEWS or (stores and not _STRONG.isdisjoint(match.modifiers))
