"""Rings of stages that tests make at random."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Selector"]


@dataclass(frozen=True)
class Selector:
    """A stage and a parity: those of iteration *k* + *ahead* of a ring with *stages*."""

    ahead: int
    stages: int
    flipped: bool

    def at(self, k: int) -> tuple[int, int]:
        turn, stage = divmod(k + self.ahead, self.stages)
        return stage, turn & 1 ^ self.flipped

    def registers(self, n: int) -> tuple[str, str]:
        return f"%r{20 + 2 * n}", f"%r{21 + 2 * n}"

    def start(self, n: int) -> str:
        stage, parity = self.registers(n)
        first, turn = self.at(0)
        return f"mov.b32 {stage}, {first};\nmov.b32 {parity}, {turn};\n"

    def step(self, n: int) -> str:
        stage, parity = self.registers(n)
        return f"""add.s32 %r50, {stage}, 1;
setp.eq.s32 %p3, %r50, {self.stages};
selp.b32 {stage}, 0, %r50, %p3;
selp.b32 %r51, 1, 0, %p3;
xor.b32 {parity}, {parity}, %r51;
"""
