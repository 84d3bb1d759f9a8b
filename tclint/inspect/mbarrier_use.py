"""What a thread did last at the mbarriers of its kernel, and so how far it knows their phases (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction

__all__ = ["MbarrierUse"]


class MbarrierUse(FactSet[tuple[int, int]]):
    """Facts ``(site, ring)``: the last wait for a ring of mbarriers, and what signalled it since.

    A ring is a number in :attr:`Mbarriers.rings_by_init`. The stages of a ring are not told apart, and a wait counts as one
    whether or not it has seen the phase end: what follows a loop of ``try_wait`` is executed when it has.
    """

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        mbarriers = model.fact(Mbarriers)
        self.rings: dict[int, tuple[int, ...]] = {}
        """What names an mbarrier, and which rings it may mean; what is not resolved is left out."""
        for number, ring in enumerate(mbarriers.rings_by_init):
            for event, sites in ring.uses.items():
                for site in sites if event not in ("mbarrier-init", "mbarrier-inval") else ():
                    self.rings[site] = (*self.rings.get(site, ()), number)

    def affecting_sites(self) -> list[int]:
        return list(self.rings)

    def affecting(self, instruction: Instruction) -> bool:
        match = instruction.match
        return match is not None and "mbarrier" in match.form.roles

    def transfer(
        self, state: frozenset[tuple[int, int]], at: int, instruction: Instruction
    ) -> frozenset[tuple[int, int]]:
        rings = self.rings.get(at, ())
        if instruction.event == "mbarrier-wait" and len(rings) == 1:
            state = frozenset(fact for fact in state if fact[1] != rings[0])
        return state | {(at, ring) for ring in rings}
