"""Accumulators of ``wgmma`` that may not have been written yet."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from tclint.dataflow.kernel import Kernel
from tclint.dataflow.solver import Analysis
from tclint.ir.nodes import Instruction
from tclint.isa.effects import WGMMA

__all__ = ["UnwrittenAccumulators", "ignores_accumulator"]


class UnwrittenAccumulators(Analysis[int]):
    """The accumulator registers that may be uninitialised, one bit each."""

    def __init__(self, model: Kernel) -> None:
        written = (model.instruction(site).writes for site in model.begins(WGMMA))
        self._registers = list(dict.fromkeys(chain.from_iterable(written)))
        self.written: dict[int, int] = {}
        """Instruction -> the bits of the accumulator registers that it writes; a ``wgmma`` writes all of its
        accumulator."""
        for k, register in enumerate(self._registers):
            for site in model.values.defs[register]:
                self.written[site] = self.written.get(site, 0) | 1 << k

    def register(self, bits: int) -> int:
        """The register of the lowest bit that is set in *bits*."""
        return self._registers[(bits & -bits).bit_length() - 1]

    def boundary(self) -> int:
        return (1 << len(self._registers)) - 1

    def bottom(self) -> int:
        return 0

    def join(self, a: int, b: int) -> int:
        return a | b

    def affecting_sites(self) -> Iterable[int]:
        return self.written

    def transfer(self, state: int, at: int, instruction: Instruction) -> int:
        return state & ~self.written.get(at, 0)

    def left(self, state: int, at: int, instruction: Instruction) -> int | None:
        """:meth:`transfer` along a path; None when all registers are written."""
        return self.transfer(state, at, instruction) or None


def ignores_accumulator(model: Kernel, site: int) -> bool:
    """Whether scale-d is known to be false, so that the accumulator is only written."""
    value = model.value(site, "scale")
    return value is not None and model.values.constant_of(value) == 0
