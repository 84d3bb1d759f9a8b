"""Outstanding bulk copies and reductions from shared to global memory, of one thread (PTX ISA 9.7.9.27.2).

A bulk group gets done twice: first its sources are read, then its results are
written. ``wait_group.read`` waits for the first, ``wait_group`` for both.
"""

from __future__ import annotations

from tclint.analyses.groups import Groups, State
from tclint.analyses.happens_before import Order
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction

__all__ = ["KNOWN", "READ", "TOLD", "BulkReads", "BulkWrites"]

READ = -3
"""Its source is read, which no thread but the waiting one knows."""
TOLD = -4
"""The same, and the warp of that thread knows it."""
KNOWN = (READ, TOLD)


class BulkReads(Groups):
    """Bulk groups as far as their sources are read.

    What the thread has waited for stays known as :data:`READ` until it
    synchronises with its warp, and as :data:`TOLD` until it does so with other
    warps, in whatever way.
    """

    group = "bulk"

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        order = model.made(Order)
        self.lanes = order.collectives
        self.heed(order.tells | self.lanes)

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        facts, copies = state
        if at in self.heeded:
            told = {(s, TOLD) for s, age in facts if age in KNOWN and at in self.lanes}
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
