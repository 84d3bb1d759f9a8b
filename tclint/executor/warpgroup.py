"""``wgmma.mma_async`` and ``wgmma.mma_async.sp`` (9.7.15.5, 9.7.15.6): their result, and the bytes that they read.

The arithmetic is that of :mod:`tclint.executor.matrices`. B, and A unless it is in registers, are in shared memory as
their descriptors specify. Each warp holds 16 rows of A, D and the sparsity metadata, in the fragments of an ``m16n8``
tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from tclint._named_tuple import NamedTuple
from tclint.executor import descriptors
from tclint.executor.descriptors import Major, Matrix, Read
from tclint.executor.matrices import (
    WIDTHS,
    accumulators,
    expand,
    multiplicand,
    positions,
    result,
    split,
    spread,
    types,
    values,
)
from tclint.isa.effects import WGMMA
from tclint.isa.forms import Match

__all__ = ["LANES", "WGMMA", "Immediates", "Wgmma"]

Array = NDArray[Any]
Intervals = tuple[tuple[int, int], ...]
LANES = 128
"""Threads of a warpgroup. Registers are arrays (registers, 128), one warp after another."""

_MAJOR: tuple[Major, Major] = ("K", "MN")
"""The majorness of a matrix, by its ``imm-trans-`` operand (9.7.15.5.1.2)."""


class Immediates(NamedTuple):
    """The immediate operands of a multiplication, with the values that absent ones have."""

    scale_a: int = 1
    scale_b: int = 1
    trans_a: int = 0
    trans_b: int = 0
    selector: int = 0
    """The sparsity selector."""


class Wgmma:
    """The multiplication of one ``wgmma.mma_async{.sp}`` opcode."""

    def __init__(self, match: Match) -> None:
        self.m, self.n, self.k = match.shape
        self.d_type, self.a_type, self.b_type = types(match)
        self.stored = self.k // 2 if match.modes.sparse else self.k
        """Elements in a stored row of A."""
        self.bits = WIDTHS[self.a_type]
        self.saturate = match.modes.saturates_finite
        self.read_a = multiplicand(self.a_type, self.m, self.stored, LANES)

    def execute(
        self,
        read: Read,
        a: int | Array,
        b: int,
        d: Array | None,
        immediates: Immediates,
        metadata: Array | None = None,
    ) -> Array:
        """The new D, uint32 (registers, 128).

        *a* is a descriptor (an int) or registers, uint32 (4, 128); *b* is a descriptor; *d* is the accumulators if they
        are inputs (``scale-d``); a sparse multiplication has *metadata* (128,).
        """
        if isinstance(a, int):
            left = self._values(read, self.a_type, a, self._a(immediates.trans_a))
        else:
            left = self.read_a(a)
        right = self._values(read, self.b_type, b, self._b(immediates.trans_b)).T
        if metadata is not None:
            left = expand(left, positions(metadata, immediates.selector, self.m, self.k, self.bits))
        if immediates.scale_a * immediates.scale_b < 0:
            left = -left
        numbers = spread(left @ right, LANES)
        if d is not None:
            numbers = numbers + accumulators(self.d_type, d)
        return result(self.d_type, numbers, self.saturate)

    def reads(self, a: int | Array, b: int, immediates: Immediates) -> tuple[Intervals, Intervals]:
        """The bytes of shared memory that A and B occupy, as sorted, disjoint ``(start, end)``; none for registers."""
        *left, right = (descriptors.intervals(*one) for one in self.matrices(a, b, immediates))
        return (left[0] if left else ()), right

    def matrices(self, a: int | Array, b: int, immediates: Immediates) -> list[tuple[int, Matrix]]:
        """The matrices in shared memory, A unless it is in registers and B, with their descriptors."""
        left = [(a, self._a(immediates.trans_a))] if isinstance(a, int) else []
        return [*left, (b, self._b(immediates.trans_b))]

    def _a(self, trans: int) -> Matrix:
        return self._matrix(self.m, self.stored, trans)

    def _b(self, trans: int) -> Matrix:
        return self._matrix(self.n, self.k, trans)

    def _matrix(self, rows: int, columns: int, trans: int) -> Matrix:
        """A matrix in shared memory; single bits are loaded as bytes."""
        bits = max(self.bits, 8)
        return Matrix(rows, columns * self.bits // bits, bits, _MAJOR[trans], WGMMA)

    def _values(self, read: Read, name: str, descriptor: int, matrix: Matrix) -> Array:
        codes = descriptors.load(read, descriptor, matrix)
        return values(name, split(codes, self.bits) if self.bits < 8 else codes)


INSTRUCTIONS: dict[str, Callable[[Match], Wgmma]] = {
    f"wgmma.mma_async.{sparse}{kind}": Wgmma
    for sparse, kinds in (("", "f16 tf32 f8 s32 b1"), ("sp.", "f16 tf32 f8 s32"))
    for kind in kinds.split()
}
"""Form name -> class: ``INSTRUCTIONS[name](match).execute(...)``."""
