"""Which registers will be read before they are written again."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from tclint.analyses.tensor_memory import TensorMemory
from tclint.dataflow.engine import Analysis
from tclint.ir.nodes import Instruction
from tclint.model import KernelModel

__all__ = ["LoadLiveness", "ResultLiveness"]


class LoadLiveness(Analysis[int]):
    """Liveness of the registers that ``tcgen05.ld`` fills, one bit each.

    Only these are tracked: a bit for every register of a function would make
    the states grow with it.
    """

    direction = "backward"

    def __init__(self, model: KernelModel) -> None:
        loaded = self.registers(model)
        self.bits = {register: 1 << at for at, register in enumerate(sorted(loaded))}
        self.of_load: dict[int, int] = {}
        """Load -> the bits of its registers."""
        for register, sites in loaded.items():
            for site in sites:
                self.of_load[site] = self.of_load.get(site, 0) | self.bits[register]

    def registers(self, model: KernelModel) -> Mapping[int, AbstractSet[int]]:
        """The registers that are tracked, and the loads that each belongs to."""
        return model.solved(TensorMemory)[0].filled

    def boundary(self) -> int:
        return 0

    def bottom(self) -> int:
        return 0

    def join(self, a: int, b: int) -> int:
        return a | b

    def relevant(self, instruction: Instruction) -> bool:
        bits = self.bits
        return any(r in bits for r in instruction.reads) or any(r in bits for r in instruction.writes)

    def transfer(self, state: int, at: int, instruction: Instruction) -> int:
        bits = self.bits
        for register in instruction.writes:
            state &= ~bits.get(register, 0)
        for register in instruction.reads:
            state |= bits.get(register, 0)
        return state


class ResultLiveness(LoadLiveness):
    """The same of all registers that are computed from what was loaded."""

    def registers(self, model: KernelModel) -> Mapping[int, AbstractSet[int]]:
        return model.solved(TensorMemory)[0].derived
