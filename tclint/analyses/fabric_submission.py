"""The fabric operations that a thread has issued and not submitted (PTX ISA 9.3, ``fabric.submit``)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction
from tclint.isa.effects import FABRIC, TRANSACTIONS

__all__ = ["FabricSubmission", "is_fabric"]

FabricState = frozenset[tuple[int]]


def is_fabric(instruction: Instruction) -> bool:
    """Whether it is an operation on the memory of an endpoint that a later instruction has to submit."""
    match = instruction.match
    return match is not None and match.form.effects.begins is not None and match.form.proxy == "fabric"


class FabricSubmission(FactSet[tuple[int]]):
    """The operations without a submission by their thread since. A call may submit all."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self._fetches = {
            site
            for site in model.begins(TRANSACTIONS)
            if (match := model.instruction(site).match) is not None and match.form.async_writes
        }

    def affecting(self, instruction: Instruction) -> bool:
        submits = FABRIC in (instruction.effects.submits, instruction.effects.commits)
        return submits or is_fabric(instruction) or instruction.flow == "call"

    def transfer(self, state: FabricState, at: int, instruction: Instruction) -> FabricState:
        if is_fabric(instruction):
            return state | {(at,)}
        if instruction.match is not None and instruction.match.modes.of_fetches:
            # A fetch has a destination in shared memory; the others remain.
            return frozenset(fact for fact in state if fact[0] not in self._fetches)
        if state and instruction.flow == "call":
            self.model.drop_facts(self, at)
        return frozenset()
