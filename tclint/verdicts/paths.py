"""What a proof takes for granted when it searches for a feasible path.

The search rests on :mod:`tclint.values`, some of whose assumptions no proof may name: that special registers do not change while
a thread runs. A kernel with these is not searched, and neither is one that dispatches roles by a table in memory, because a search
ends there.
"""

from __future__ import annotations

from tclint.dataflow.kernel import Kernel
from tclint.findings.verdicts import Assumption
from tclint.ir.cfg import CFG
from tclint.ir.nodes import specials
from tclint.isa.effects import Exchange, Resource

__all__ = ["PATH_ASSUMPTIONS", "RelevantSites", "path_assumptions", "thread_assumptions", "value_assumptions"]

PATH_ASSUMPTIONS = frozenset((Assumption.NO_OVERFLOW, Assumption.SAME_LOADS, Assumption.THREADS))
"""What the search for a feasible path may take for granted."""
_CHANGING = frozenset(("%warpid", "%nwarpid", "%smid", "%nsmid"))
"""Special registers that may change while a thread runs (10.3-10.4, 10.8-10.9), and that values take for constant."""


def path_assumptions(model: Kernel) -> frozenset[Assumption] | None:
    """The assumptions of a search in the kernel of *model*; None if it would need others."""
    return None if model.reachability.dispatchers else thread_assumptions(model)


def thread_assumptions(model: Kernel) -> frozenset[Assumption] | None:
    """What it rests on which threads of a kernel get to an instruction; None if special registers that change decide.

    No search passes a block that dispatches roles, so what follows paths beyond one needs no more than this.
    """
    read = {s.name for instruction in model.function.instructions for s in specials(instruction.operands)}
    assumed = value_assumptions(model)
    if assumed is None or not read.isdisjoint(_CHANGING):
        return None
    reachability = model.reachability
    resolved = reachability.dispatchers - reachability.unresolved_dispatchers
    tables = (Assumption.TABLES,) if resolved else ()
    return PATH_ASSUMPTIONS | assumed | {*tables}


def value_assumptions(model: Kernel) -> frozenset[Assumption] | None:
    """What the values of a kernel take for granted of elected lanes and of allocated addresses of tensor memory.

    None if the mask of an election is not constant.
    """
    sites, values = model.sites(Exchange.ELECT), model.values
    for site in sites:
        mask = model.instruction(site).role("mask")
        if mask is None or values.constant_operand(mask, site) is None:
            return None
    elected = (Assumption.ELECT,) if sites else ()
    return frozenset((*elected, Assumption.ALLOCATED) if model.sites(Resource.TMEM_ALLOC) else elected)


class RelevantSites:
    """The instructions that matter to a search for a use, by block."""

    def __init__(self, cfg: CFG) -> None:
        self.cfg = cfg
        self._affecting: dict[frozenset[int], list[list[int]]] = {}

    def of(self, affecting: frozenset[int], use: int) -> list[list[int]]:
        """For each block, the instructions that can change a state, which are *affecting*, and the *use*."""
        if affecting not in self._affecting:
            blocks = (range(block.start, block.end) for block in self.cfg.blocks)
            self._affecting[affecting] = [[i for i in block if i in affecting] for block in blocks]
        found, there = list(self._affecting[affecting]), self.cfg.block_of[use]
        found[there] = sorted({*found[there], use})
        return found
