"""The contents of the collector buffers of the tensor core (PTX ISA 9.7.16.10, 9.7.16.10.9)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction
from tclint.isa.effects import TCGEN05

__all__ = ["ENTRY", "Collector", "usage"]

ENTRY = -1
CollectorState = frozenset[tuple[int, str]]
"""``(site, buffer)``: *site* may be the last MMA that filled or emptied the buffer; :data:`ENTRY`: it is empty since
entry."""


def usage(instruction: Instruction) -> tuple[str, str]:
    """The collector buffer that an MMA names, and what it does with it; ``discard`` if the opcode does not state it."""
    match = instruction.match
    if match is None:
        return "a", "discard"
    words = match.binding.get("collector_usage", "").split("::")
    if len(words) == 3:
        return words[1], words[2]
    return ("b0" if match.modes.weight_stationary else "a"), "discard"


class Collector(FactSet[tuple[int, str]]):
    """Facts ``(site, buffer)`` of the buffers that the kernel uses."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        mmas = [model.instruction(i) for i in model.begins(TCGEN05)]
        self.used = frozenset(b for b, what in map(usage, filter(self.affecting, mmas)) if what != "discard")

    def boundary(self) -> CollectorState:
        return frozenset((ENTRY, buffer) for buffer in self.used)

    def affecting(self, instruction: Instruction) -> bool:
        return instruction.match is not None and instruction.match.multiplies

    def transfer(self, state: CollectorState, at: int, instruction: Instruction) -> CollectorState:
        buffer, what = usage(instruction)
        if what == "use" or buffer not in self.used:
            return state
        return frozenset(f for f in state if f[1] != buffer) | {(at, buffer)}
