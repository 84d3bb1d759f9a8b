"""What a proof takes for granted when it searches for a feasible path.

The search rests on :mod:`tclint.values`, some of whose assumptions no proof may name: what a table in memory dispatches,
and special registers that change while a thread runs. A kernel with these is not searched.
"""

from __future__ import annotations

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption
from tclint.ir.nodes import specials

__all__ = ["PATH_ASSUMPTIONS", "path_assumptions"]

PATH_ASSUMPTIONS = frozenset((Assumption.NO_OVERFLOW, Assumption.SAME_LOADS, Assumption.THREADS))
"""What the search for a feasible path may take for granted."""
_CHANGING = frozenset(("%warpid", "%nwarpid", "%smid", "%nsmid"))
"""Special registers that may change while a thread runs (10.3-10.4, 10.8-10.9), and that values take for constant."""


def path_assumptions(model: KernelModel) -> frozenset[Assumption] | None:
    """The assumptions of a search in the kernel of *model*; None if it would need others."""
    if model.reachability.dispatchers:
        return None
    read = {s.name for instruction in model.function.instructions for s in specials(instruction.operands)}
    if not read.isdisjoint(_CHANGING):
        return None
    return PATH_ASSUMPTIONS | {Assumption.ELECT} if model.sites("elect") else PATH_ASSUMPTIONS
