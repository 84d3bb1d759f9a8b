"""Where a thread stands with the barrier of its cluster (PTX ISA 9.7.13.3)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import SYSTEM_CALLS
from tclint.ir.nodes import Instruction

__all__ = ["START", "ClusterBarrier"]

State = frozenset[tuple[int]]
"""The arrival or the wait that may have been the last one; -1: none since the kernel was entered."""

START = -1


class ClusterBarrier(FactSet[tuple[int]]):
    """A thread arrives and waits by turns; what a call does to the barrier is not known."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.quiet = SYSTEM_CALLS

    def boundary(self) -> State:
        return frozenset(((START,),) if self.model.function.entry else ())

    def relevant(self, instruction: Instruction) -> bool:
        return instruction.group == "cluster" or instruction.flow == "call"

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        if instruction.flow == "call":
            if not state or instruction.callee in self.quiet:
                return state
            self.model.drop_facts(self, at)
            return frozenset()
        return frozenset(((at,),))
