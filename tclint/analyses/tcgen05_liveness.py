"""Liveness: the registers that may be read before they are written again."""

from __future__ import annotations

from collections.abc import Mapping

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
        registers = self.registers()
        self.bits = {register: 1 << at for at, register in enumerate(sorted(registers))}
        self._by_loads: dict[int, int] = {}
        """Set of loads -> the bits of the registers that belong to just these."""
        for register, bit in self.bits.items():
            loads = registers[register]
            self._by_loads[loads] = self._by_loads.get(loads, 0) | bit
        self._of_load: dict[int, int] = {}

    def registers(self) -> Mapping[int, int]:
        """The registers that are tracked, each with the loads that fill it, as a bit set (:attr:`Tcgen05.bits`)."""
        bits = self.tmem.bits
        return {register: sum(map(bits.__getitem__, loads)) for register, loads in self.tmem.filled.items()}

    def of_load(self, load: int) -> int:
        """The bits of the registers that belong to *load*."""
        if load not in self._of_load:
            one = self.tmem.bits[load]
            self._of_load[load] = sum(mine for loads, mine in self._by_loads.items() if loads & one)
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

    def registers(self) -> Mapping[int, int]:
        return self.tmem.derived
