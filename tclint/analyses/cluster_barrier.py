"""Whether a thread has arrived at the cluster barrier and not waited yet (PTX ISA 9.7.13.3)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction
from tclint.isa.callees import SYSTEM_CALLS
from tclint.isa.effects import Barrier

__all__ = ["START", "ClusterBarrier"]

ClusterBarrierState = frozenset[tuple[int]]
"""The arrivals and waits that may be the last one executed, with :data:`START` for none since the entry."""

START = -1


class ClusterBarrier(FactSet[tuple[int]]):
    """The last arrival or wait of a thread. A call may do either, so the facts end there, except at a system call."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.quiet = SYSTEM_CALLS

    def boundary(self) -> ClusterBarrierState:
        return frozenset(((START,),) if self.model.function.entry else ())

    def affecting(self, instruction: Instruction) -> bool:
        return instruction.effects.barrier is Barrier.CLUSTER or instruction.flow == "call"

    def transfer(self, state: ClusterBarrierState, at: int, instruction: Instruction) -> ClusterBarrierState:
        if instruction.flow == "call":
            if not state or instruction.callee in self.quiet:
                return state
            self.model.drop_facts(self, at)
            return frozenset()
        return frozenset(((at,),))
