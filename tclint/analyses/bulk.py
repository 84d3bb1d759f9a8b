"""Bulk copies and reductions from shared to global memory that one thread has in flight (PTX ISA 9.7.9.27.2).

A bulk group completes in two steps: its sources have been read, then its results have been written.
``wait_group.read`` waits for the first step, ``wait_group`` for both.
"""

from __future__ import annotations

from tclint.analyses.groups import Groups, GroupsState
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction
from tclint.isa.effects import BULK

__all__ = ["KNOWN", "KNOWN_TO_WARP", "READ", "BulkReads"]

READ = -3
"""The source has been read, and only the waiting thread knows it."""
KNOWN_TO_WARP = -4
"""The source has been read, and the whole warp of the waiting thread knows it."""
KNOWN = (READ, KNOWN_TO_WARP)
"""The ages of an operation whose source has been read."""


class BulkReads(Groups):
    """Bulk groups until their sources have been read.

    An operation that the thread has waited for stays as :data:`READ` until the thread synchronises with its warp, and
    as :data:`KNOWN_TO_WARP` until it synchronises with other warps by any means.
    """

    group = BULK
    until_read = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        order = model.fact(HappensBefore)
        self.lanes = order.points.collectives
        self.add_sites(order.points.release_points | self.lanes)

    def aged(self, age: int, at: int, instruction: Instruction) -> int | None:
        if age in KNOWN:
            if at in self.added_sites:
                return KNOWN_TO_WARP if at in self.lanes else None
            return age
        after = super().aged(age, at, instruction)
        return READ if after is None and age >= 0 else after

    def stays_pending(self, state: GroupsState, site: int) -> bool:
        return any(age not in KNOWN and (age < 0 or age == self.deepest) for age in state[0].of(site))
