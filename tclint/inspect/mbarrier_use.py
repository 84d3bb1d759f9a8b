"""The last operations of a thread on each mbarrier, which determine what it knows of the phases (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Barrier

__all__ = ["MbarrierUse"]


class MbarrierUse(FactSet[tuple[int, int]]):
    """Facts ``(site, ring)``: the last wait on a ring of mbarriers, and the operations that signalled it since.

    A ring is an index in :attr:`Mbarriers.rings_by_init`. The stages of a ring are not distinguished. A ``try_wait``
    counts as a wait even if it may return false, since what follows its loop is executed only after the phase has
    completed.
    """

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        mbarriers = model.fact(Mbarriers)
        self.rings: dict[int, tuple[int, ...]] = {}
        """Site of an operation on an mbarrier -> the rings that it may refer to; unresolved operations are absent."""
        for number, ring in enumerate(mbarriers.rings_by_init):
            for site in ring.where(lambda effects: not effects.bounds_mbarrier):
                self.rings[site] = (*self.rings.get(site, ()), number)

    def affecting_sites(self) -> list[int]:
        return list(self.rings)

    def affecting(self, instruction: Instruction) -> bool:
        match = instruction.match
        return match is not None and bool(match.form.mbarrier)

    def transfer(
        self, state: frozenset[tuple[int, int]], at: int, instruction: Instruction
    ) -> frozenset[tuple[int, int]]:
        rings = self.rings.get(at, ())
        if instruction.effects.awaits is Barrier.MBARRIER and len(rings) == 1:
            state = frozenset(fact for fact in state if fact[1] != rings[0])
        return state | {(at, ring) for ring in rings}
