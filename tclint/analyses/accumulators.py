"""Accumulators of wgmma that nothing has written yet."""

from __future__ import annotations

from tclint.dataflow.engine import Analysis
from tclint.ir.nodes import Instruction
from tclint.model import KernelModel

__all__ = ["UnwrittenAccumulators"]


class UnwrittenAccumulators(Analysis[int]):
    """The accumulator registers that may be without a value, one bit each."""

    def __init__(self, model: KernelModel) -> None:
        self._bits: dict[int, int] = {}
        self._registers: list[int] = []
        self.accumulators: dict[int, int] = {}
        """wgmma -> the bits of its accumulator."""
        for site in model.sites("issue", "wgmma"):
            self.accumulators[site] = sum(map(self._bit, set(model.instruction(site).writes)))

    def _bit(self, register: int) -> int:
        if register not in self._bits:
            self._bits[register] = 1 << len(self._registers)
            self._registers.append(register)
        return self._bits[register]

    def register(self, bits: int) -> int:
        """The register of the lowest of *bits*."""
        return self._registers[(bits & -bits).bit_length() - 1]

    def boundary(self) -> int:
        return (1 << len(self._registers)) - 1

    def bottom(self) -> int:
        return 0

    def join(self, a: int, b: int) -> int:
        return a | b

    def relevant(self, instruction: Instruction) -> bool:
        bits = self._bits
        return any(register in bits for register in instruction.writes)

    def transfer(self, state: int, at: int, instruction: Instruction) -> int:
        for register in instruction.writes:
            state &= ~self._bits.get(register, 0)
        return state

    def left(self, state: int, at: int, instruction: Instruction) -> int | None:
        """:meth:`transfer` along a path, which ends where all are written."""
        return self.transfer(state, at, instruction) or None
