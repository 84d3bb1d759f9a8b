"""Liveness: the registers that may be read before they are written again."""

from __future__ import annotations

from collections.abc import Iterable

from tclint.analyses.model import KernelModel
from tclint.analyses.tcgen05 import TensorMemory
from tclint.dataflow.solver import Analysis
from tclint.ir.nodes import Instruction

__all__ = ["LoadLiveness", "ResultLiveness"]


class LoadLiveness(Analysis[int]):
    """Liveness of the registers that ``tcgen05.ld`` fills, one bit each; no others, so that the states stay small."""

    direction = "backward"

    def __init__(self, model: KernelModel) -> None:
        self.tmem = model.solution(TensorMemory)[0]
        self.bits = {register: 1 << at for at, register in enumerate(sorted(self.registers()))}
        self._of_load: dict[int, int] = {}

    def registers(self) -> Iterable[int]:
        """The registers that are tracked."""
        return self.tmem.filled

    def belongs(self, register: int, load: int) -> bool:
        """Whether *load* is among the loads that fill a tracked register."""
        return load in self.tmem.filled[register]

    def of_load(self, load: int) -> int:
        """The bits of the registers that belong to *load*."""
        if load not in self._of_load:
            mine = (bit for register, bit in self.bits.items() if self.belongs(register, load))
            self._of_load[load] = sum(mine)
        return self._of_load[load]

    def boundary(self) -> int:
        return 0

    def bottom(self) -> int:
        return 0

    def join(self, a: int, b: int) -> int:
        return a | b

    def affecting(self, instruction: Instruction) -> bool:
        bits = self.bits.keys()
        return not bits.isdisjoint(instruction.reads) or not bits.isdisjoint(instruction.writes)

    def transfer(self, state: int, at: int, instruction: Instruction) -> int:
        bits = self.bits
        for register in instruction.writes:
            state &= ~bits.get(register, 0)
        for register in instruction.reads:
            state |= bits.get(register, 0)
        return state


class ResultLiveness(LoadLiveness):
    """Liveness of all registers that are loaded by ``tcgen05.ld`` or computed from such registers."""

    def registers(self) -> Iterable[int]:
        return self.tmem.derived

    def belongs(self, register: int, load: int) -> bool:
        return bool(self.tmem.derived[register] & self.tmem.bits[load])
