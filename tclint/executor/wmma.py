"""``wmma.load``, ``wmma.mma`` and ``wmma.store`` (9.7.14.4) as functions on arrays.

The ISA leaves open which register of which lane holds which element. Here each fragment is that of sm_80 and later: a
multiplication consists of ``mma`` of 16 rows and 8 columns, and the fragments of these follow one another. The matrices
of ``m8n32k16`` are transposed, so that its 32 columns are the rows of two such multiplications. Where a fragment has
more registers than its elements need (``.f16``), the first ones are repeated.

A *line* is a row of a matrix that is stored by rows, or a column of one that is stored by columns.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tclint.executor import matrices
from tclint.executor.matrices import WIDTHS, Array, Run
from tclint.isa.forms import Match

__all__ = ["MMA", "lines", "load", "store"]


@cache
def _order(m: int, n: int) -> Array:
    """The index in the m x n matrix C of each element of each lane: (elements per lane, 32)."""
    if n < 32:
        return matrices.d_places(m, n, 32)
    column, row = np.divmod(matrices.d_places(n, m, 32), m)
    index: Array = row * n + column
    return index


@cache
def _index(role: str, shape: tuple[int, ...], width: int) -> Array:
    """The index of each element of A, B or C among the codes of its fragment, by row and column."""
    m, n, k = shape
    if role not in ("a", "b"):
        size = max(1, 32 // width)
        element, lane = np.ogrid[: m * n // 32, :32]
        index = np.empty(m * n, np.intp)
        index[_order(m, n)] = (element // size * 32 + lane) * size + element % size
        return index.reshape(m, n)
    if n == 32:
        return _index("b" if role == "a" else "a", (n, m, k), width).T
    tile = matrices.a_places(min(m, 16), k, width, 32) if role == "a" else matrices.b_places(k, width)
    count = m // 16 if role == "a" else n // 8
    return np.concatenate([tile + i * tile.size for i in range(max(1, count))], 0 if role == "a" else 1)


def _described(match: Match) -> tuple[str, str, tuple[int, ...], bool]:
    """The matrix that an instruction moves: its role, the type of its elements, the shape, whether lines are columns."""
    role = next(m[1:] for m in match.modifiers if m in (".a", ".b", ".c", ".d"))
    return role, matrices.types(match)[0], match.shape, match.modes.by_columns


def lines(match: Match) -> tuple[int, int]:
    """How many lines a load or a store moves, and the bytes of each: their stride unless an operand gives it."""
    role, name, (m, n, k), columns = _described(match)
    rows, length = {"a": (m, k), "b": (k, n)}.get(role, (m, n))
    if columns:
        rows, length = length, rows
    return rows, length * WIDTHS[name] // 8


def load(match: Match) -> Run:
    """``wmma.load``: from lines, uint8 (lines, bytes), to as many *registers* as the fragment has, (registers, 32)."""
    role, name, shape, columns = _described(match)
    width = WIDTHS[name]
    index = _index(role, shape, width)
    places = index.T if columns else index

    def run(data: Array, registers: int) -> Array:
        elements = matrices.split(data, width) if width < 8 else data.view(f"<u{width // 8}")
        codes = np.empty(index.size, elements.dtype)
        codes[places] = elements
        if width == 1:
            codes = np.packbits(codes, bitorder="little")
        elif width == 4:
            codes = codes[0::2] | codes[1::2] << np.uint8(4)
        fragment = codes.view(np.uint64 if width == 64 else np.uint32).reshape(-1, 32)
        return np.tile(fragment, (registers // len(fragment), 1))

    return run


def store(match: Match) -> Run:
    """``wmma.store``: from registers (registers, 32) to lines, uint8 (lines, bytes)."""
    role, name, shape, columns = _described(match)
    width = WIDTHS[name]
    index = _index(role, shape, width)
    places = np.ascontiguousarray(index.T if columns else index)

    def run(registers: Array) -> Array:
        return matrices.codes(registers, width).take(places).view(np.uint8)

    return run


def _mma(match: Match) -> Run:
    """``run(a, b, c)``: what an ``mma`` of the whole shape would give (:mod:`tclint.executor.matrices`)."""
    shape, given = match.shape, matrices.types(match)
    to, a_type, b_type, of = given if len(given) == 4 else (given[0], "f16", "f16", given[1])
    a_width, b_width = WIDTHS[a_type], WIDTHS[b_type]
    a_index, b_index = _index("a", shape, a_width), _index("b", shape, b_width)
    order = _order(*shape[:2])
    saturate = match.modes.saturates_finite

    def run(a: Array, b: Array, c: Array) -> Array:
        left = matrices.values(a_type, matrices.codes(a, a_width).take(a_index))
        right = matrices.values(b_type, matrices.codes(b, b_width).take(b_index))
        return matrices.result(to, (left @ right).take(order) + matrices.accumulators(of, c), saturate)

    return run


MMA = {"wmma.mma.f16": _mma, "wmma.mma.f32": _mma, "wmma.mma.s8": _mma}
"""Form name -> factory, as :data:`tclint.executor.matrices.MMA`, of the shapes that ``mma`` does not have."""
