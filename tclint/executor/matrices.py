"""Matrix instructions of a warp (9.7.14): ``mma``, ``mma.sp``, ``ldmatrix``, ``stmatrix`` and ``movmatrix``.

A fragment is a stack of registers: an unsigned array (registers, lanes). A multiplication gathers A and B from their
fragments, multiplies them, and adds the product to C in the element order of C's fragment. The fragments of ``wgmma``
are those of an ``m16n8`` tile too, with 128 lanes.

Arithmetic. Products of floating-point elements are exact; they are summed, with C, in float64, and the sum is rounded
once to the type of D. The ISA guarantees less: it leaves open the order of the additions, their rounding, and the
treatment of subnormal inputs (9.7.14.5.14). On an H200, an ``mma`` or ``wgmma`` that adds to ``.f32`` was within 2^-21
of the sum of the magnitudes, but a ``wgmma`` of 8-bit floats, and any instruction that adds to ``.f16``, only within
2^-10. Integers are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tclint.executor.descriptors import unpack
from tclint.executor.floats import FLOATS, rounding_of
from tclint.executor.formats import decode, encode
from tclint.isa.forms import Match
from tclint.isa.table import table

__all__ = [
    "MMA", "ROW", "WIDTHS", "Array", "Run", "a_places", "accumulators", "b_places", "codes", "d_places", "expand", "load",
    "movmatrix", "multiplicand", "positions", "result", "split", "spread", "store", "types", "values",
]  # fmt: skip

Array = NDArray[Any]

Run = Callable[..., Array]
"""Executes an instruction: from arrays of registers, stacked if the operand is a vector, to the registers of D."""

ROW = 16
"""Bytes of each row of a matrix that ``ldmatrix`` and ``stmatrix`` move."""

WIDTHS = {
    "f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8,
    "e2m1": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
"""Bits that an element of each type occupies in a register; ``e2m1`` occupies 4 with ``.kind::mxf4*``."""

_INTEGERS = {"s8": np.int8, "u8": np.uint8, "s4": np.int8, "u4": np.uint8, "b1": np.uint8}


# ---------------------------------------------------------------- the opcode


def types(match: Match) -> list[str]:
    """The element types among the modifiers, in order: of D, A, B and, for ``mma``, C."""
    return [m[1:] for m in match.modifiers if m[1:] in WIDTHS]


# ---------------------------------------------------------------- elements


def values(name: str, codes: Array, width: int = 0) -> Array:
    """The values of elements: float32 for integers, float64 for all others, so that products are exact.

    *codes* are unsigned integers of at least *width* bits; 0 means the width that the type occupies in a register.
    """
    if name == "s4":
        return ((codes << np.uint8(4)).view(np.int8) >> 4).astype(np.float32)
    if name in _INTEGERS:
        return codes.view(_INTEGERS[name]).astype(np.float32)
    if name == "e2m1" and width != 4:
        codes = codes >> 2  # it is in the middle of its container (9.7.14.5.14)
    return decode(name, codes).astype(np.float64)


def split(data: Array, width: int) -> Array:
    """The elements of one or four bits that are packed in bytes, lowest bits first, along the last axis."""
    if width == 1:
        return np.unpackbits(data, axis=-1, bitorder="little")
    return np.stack((data & 15, data >> 4), -1).reshape(*data.shape[:-1], -1)


def codes(registers: Array, width: int) -> Array:
    """All elements of a fragment in one dimension: by register, then by lane, then lowest bits first."""
    registers = np.ascontiguousarray(registers)
    if width >= 32:
        return registers.reshape(-1)
    if width >= 8:
        return registers.view(f"<u{width // 8}").reshape(-1)
    return split(registers.view(np.uint8), width).reshape(-1)


def accumulators(name: str, registers: Array) -> Array:
    """The elements of C, as float64 or int64 of shape (elements per lane, lanes)."""
    if name == "f16":
        count, lanes = registers.shape
        pairs = np.ascontiguousarray(registers).view("<u2").reshape(count, lanes, 2)
        return decode("f16", pairs).astype(np.float64).transpose(0, 2, 1).reshape(-1, lanes)
    if name == "s32":
        return registers.view(np.int32).astype(np.int64)
    return registers.view(np.float32).astype(np.float64)


def result(name: str, numbers: Array, saturate: bool = False) -> Array:
    """The registers of D for the elements *numbers*: the inverse of :func:`accumulators`.

    Floating-point numbers are rounded to nearest and overflow to infinity, NaNs are canonical; integers wrap unless
    *saturate* (``.satfinite``).
    """
    if name == "s32":
        if saturate:
            numbers = np.clip(numbers, -(1 << 31), (1 << 31) - 1)
        return numbers.astype(np.int64, copy=False).astype(np.int32).view(np.uint32)
    if name == "f16":
        halves = encode("f16", numbers).astype(np.uint32)
        return halves[0::2] | halves[1::2] << np.uint32(16)
    singles = numbers.astype(np.float32).view(np.uint32)
    singles[np.isnan(numbers)] = 0x7FFFFFFF
    return singles


# ---------------------------------------------------------------- fragments (9.7.14.5.2 to 9.7.14.5.13)


@cache
def a_places(m: int, k: int, width: int, lanes: int) -> Array:
    """The index of each element of A among the codes of its fragment: (m, k).

    A group of four lanes holds a row, and each lane as many adjacent elements as fit a register. Successive registers
    of a lane hold the rows that are 8 apart, then the next elements along K; successive warps hold successive rows.
    """
    size = max(1, 32 // width)
    height = m * 32 // lanes
    row, column = np.ogrid[:m, :k]
    warp, row = np.divmod(row, height)
    lane = 32 * warp + row % 8 * 4 + column // size % 4
    register = row // 8 + height // 8 * (column // (4 * size))
    index: Array = (register * lanes + lane) * size + column % size
    return index


@cache
def b_places(k: int, width: int) -> Array:
    """The index of each element of B among the codes of its fragment: (k, 8). A group of four lanes holds a column."""
    size = max(1, 32 // width)
    row, column = np.ogrid[:k, :8]
    index: Array = (row // (4 * size) * 32 + column * 4 + row // size % 4) * size + row % size
    return index


@cache
def d_places(m: int, n: int, lanes: int) -> Array:
    """The index in the m x n matrix D of each element of each lane: (elements per lane, lanes).

    A lane holds pairs of adjacent elements: first in the rows that are 8 apart, then in every eighth column.
    """
    element, lane = np.ogrid[: m * n // lanes, :lanes]
    height = m * 32 // lanes
    tile, group = np.divmod(element // 2, height // 8)
    row = lane // 32 * height + group * 8 + lane % 32 // 4
    index: Array = row * n + tile * 8 + lane % 4 * 2 + element % 2
    return index


def multiplicand(name: str, m: int, k: int, lanes: int = 32, width: int = 0) -> Run:
    """A function that reads A: from its registers (registers, *lanes*) to its :func:`values`, (*m*, *k*)."""
    width = width or WIDTHS[name]
    index = a_places(m, k, width, lanes)
    return lambda registers: values(name, codes(registers, width).take(index), width)


def spread(matrix: Array, lanes: int = 32) -> Array:
    """The elements of an m x n matrix in the layout of C and D: (elements per lane, *lanes*)."""
    return matrix.take(d_places(*matrix.shape, lanes))


def _product(match: Match) -> Callable[[Array, Array], Array]:
    """The product of A and B; for single bits, the number of common (``.and``) or different (``.xor``) bits."""
    if not match.modes.counts_differences:
        return np.matmul
    return lambda a, b: a.sum(1, keepdims=True) + b.sum(0) - 2 * (a @ b)


# ---------------------------------------------------------------- sparse A (9.7.14.6)


@cache
def _metadata_index(m: int, k: int, width: int, selector: int, lanes: int) -> tuple[Array, Array]:
    """For each chunk of each row of A, the lane whose metadata contains its four bits, and their bit position.

    Elements of 32 and 16 bits: a lane has four chunks of a row in its low half, and four of the row 8 below in its high
    half. Narrower elements: a lane has eight chunks of a row, and the next lane those of the row 8 below. Successive
    lanes of a group continue along K; if not all four lanes participate, the sparsity selector chooses those that do.
    """
    chunks = k // _chunk(width)
    row, chunk = np.ogrid[:m, :chunks]
    warp, row = np.divmod(row, m * 32 // lanes)
    first = 32 * warp + row % 8 * 4 + chunks // 4 * selector
    if width >= 16:
        return first + chunk // 4, (row // 8 * 16 + chunk % 4 * 4).astype(np.uint32)
    return first + chunk // 8 * 2 + row // 8, (chunk % 8 * 4 + 0 * row).astype(np.uint32)


def _chunk(width: int) -> int:
    """The elements of A, half of them stored, that four bits of metadata describe."""
    return {32: 2, 16: 4, 8: 4, 4: 8}[width]


def positions(metadata: Array, selector: int, m: int, k: int, width: int) -> Array:
    """The column in A of each stored element of a row: (*m*, *k* / 2). *metadata* is that of all lanes.

    Two bits give the position of an element of 16 or 8 bits, or of a pair of 4-bit ones, in its chunk. An element of 32
    bits has four bits, 0b0100 or 0b1110, and bit 1 decides.
    """
    lane, shift = _metadata_index(m, k, width, selector, len(metadata))
    bits = (metadata.take(lane) >> shift & np.uint32(15)).astype(np.intp)
    start = np.arange(0, k, _chunk(width))
    if width == 32:
        return start + (bits >> 1 & 1)
    within = np.stack((bits & 3, bits >> 2), -1)
    if width == 4:
        within = (within[..., None] * 2 + np.arange(2)).reshape(m, -1, 4)
    columns: Array = (start[:, None] + within).reshape(m, -1)
    return columns


def expand(stored: Array, columns: Array) -> Array:
    """The dense A: zeros, and the *stored* elements of each row at their *columns*."""
    m, half = stored.shape
    full = np.zeros((m, 2 * half), stored.dtype)
    np.put_along_axis(full, columns, stored, 1)
    return full


# ---------------------------------------------------------------- mma and mma.sp


def _mma(match: Match) -> Run:
    """All shapes with one matrix per warp: ``run(a, b, c)``, followed by ``e, f`` (sparse) and the scales."""
    m, _, k = match.shape
    to, a_type, b_type, of = types(match)[:4]
    packed = any(modifier.startswith(".kind::mxf4") for modifier in match.modifiers)
    a_width, b_width = (4 if packed else WIDTHS[name] for name in (a_type, b_type))
    sparse = match.form.name.startswith("mma.sp.")
    scale = _scales(match) if match.form.name.endswith(".block_scale") else None
    read_a = multiplicand(a_type, m, k // 2 if sparse else k, width=a_width)
    b_index = b_places(k, b_width)
    multiply = _product(match)
    saturate = match.modes.saturates_finite

    def run(a: Array, b: Array, c: Array, *others: Array) -> Array:
        left = read_a(a)
        right = values(b_type, codes(b, b_width).take(b_index), b_width)
        if sparse:
            metadata, selector = others[:2]
            left = expand(left, positions(metadata.reshape(-1), int(selector.flat[0]), m, k, a_width))
        if scale:
            left, right = scale(left, right, *others[2 * sparse :])
        return result(to, spread(multiply(left, right)) + accumulators(of, c), saturate)

    return run


def _scales(match: Match) -> Callable[..., tuple[Array, Array]]:
    """Block scaling (9.7.14.3): a scale for each chunk along K of every row of A and every column of B.

    In each group of four lanes, two have the scales of A, for rows that are 8 apart, and one has those of B. A selector
    is a pair: the first byte in the data, and which lanes have it.
    """
    given = match.binding.get("scale_vec")
    count = int(given[-2]) if given else 1 if "kind_f8" in match.binding else 2
    name = match.binding.get("stype", ".ue8m0")[1:]
    row, column = np.arange(16), np.arange(8)

    def pick(data: Array, lanes: Array, byte: int) -> Array:
        quads = np.ascontiguousarray(data).view(np.uint8).reshape(-1, 4)
        return decode(name, quads[lanes, byte : byte + count])

    def scale(
        a: Array, b: Array, a_data: Array, a_selector: Array, b_data: Array, b_selector: Array
    ) -> tuple[Array, Array]:
        a_byte, a_lanes = a_selector[:, 0].tolist()
        b_byte, b_lane = b_selector[:, 0].tolist()
        of_a = pick(a_data, row % 8 * 4 + a_lanes * 2 + row // 8, a_byte)
        of_b = pick(b_data, column * 4 + b_lane, b_byte)
        each = a.shape[1] // count
        return a * of_a.repeat(each, 1), b * of_b.T.repeat(each, 0)

    return scale


def _four(match: Match) -> Run:
    """``m8n8k4`` with ``.f16``: four products of 8x4 by 4x8, each in the lanes 4i to 4i+3 and those 16 above."""
    to, _, _, of = types(match)
    a_index, b_index = (_quarters(side + match.binding[f"{side}layout"]) for side in "ab")
    c_index, d_index = _quarters(of), _quarters(to)

    def run(a: Array, b: Array, c: Array) -> Array:
        left, right, total = np.empty((4, 8, 4)), np.empty((4, 4, 8)), np.empty((4, 8, 8))
        left.put(a_index, accumulators("f16", a))
        right.put(b_index, accumulators("f16", b))
        total.put(c_index, accumulators(of, c))
        return result(to, (total + left @ right).take(d_index))

    return run


@cache
def _quarters(fragment: str) -> Array:
    """The index in the four matrices of each element of each lane: (elements per lane, 32) (9.7.14.5.1)."""
    element, lane = np.ogrid[: 8 if fragment[0] == "f" else 4, :32]
    low, high, quarter = lane % 4, lane // 16 * 4, lane % 16 // 4
    row, column = {
        "a.row": (low + high, element),
        "a.col": (element + high, low),
        "b.row": (low, element + high),
        "b.col": (element, low + high),
        "f16": (low + high, element),
        "f32": (lane % 2 + (element & 2) + high, (element & 4) + (lane & 2) + element % 2),
    }[fragment]
    height, width = {"a": (8, 4), "b": (4, 8), "f": (8, 8)}[fragment[0]]
    index: Array = (quarter * height + row) * width + column
    return index


def _double(match: Match) -> Run:
    """``.f64``: a chain of ``fma`` from k = 0 up, each one rounded, as on an H200; the ISA leaves the order open."""
    m, _, k = match.shape
    scalar = table().match(f"fma{rounding_of(match)}.f64", ("r", "r", "r", "r"))
    assert scalar is not None
    fma = FLOATS[scalar.form.name](scalar)
    d_index = d_places(m, 8, 32)
    a_index, b_index = a_places(m, k, 64, 32), b_places(k, 64)

    def run(a: Array, b: Array, c: Array) -> Array:
        left, right = a.take(a_index), b.take(b_index)
        total = c.reshape(-1)
        for step in range(k):
            factors = np.broadcast_arrays(left[:, step, None], right[step])
            total = fma(*(factor.take(d_index).reshape(-1) for factor in factors), total)
        return total.reshape(c.shape)

    return run


MMA: dict[str, Callable[[Match], Run]] = {
    "mma.m8n8k4.f16": _four,
    "mma.m8n8k4.f32": _four,
    "mma.f16": _mma,
    "mma.f32": _mma,
    "mma.f8": _mma,
    "mma.s32": _mma,
    "mma.b1": _mma,
    "mma.f64": _double,
    "mma.block_scale": _mma,
    "mma.sp.f16": _mma,
    "mma.sp.f32": _mma,
    "mma.sp.f8": _mma,
    "mma.sp.s32": _mma,
    "mma.sp.block_scale": _mma,
    "wmma.mma.b1": _mma,
    "wmma.mma.f64": _double,
    "wmma.mma.s4": _mma,
}
"""Form name -> factory: ``MMA[name](match)(a, b, c, ...)`` returns D; the arguments are the other operands in order."""


# ---------------------------------------------------------------- ldmatrix, stmatrix, movmatrix


_STORED_BITS = {".b4x16_p64": 4, ".b6x16_p32": 6}
"""Bits of an element that ``ldmatrix`` widens to 8."""


def load(match: Match) -> Run:
    """``ldmatrix`` (9.7.14.5.15): rows in shared memory, uint8 (rows, bytes), to registers, uint32 (registers, 32).

    A row has :func:`row_size` bytes.
    """
    signed = _signed_nibbles(match)
    narrow = 4 if signed else _STORED_BITS.get(match.binding.get("src_fmt", ""), 0)
    # For a 16 x 16 matrix, one register holds columns 0 to 7 and the next 8 to 15: four rows of a column in each lane.
    side, element = (16, np.uint8) if match.shape == (16, 16) else (8, np.uint16)
    transpose = match.modes.transposes

    def run(data: Array) -> Array:
        if narrow:
            data = unpack(data, narrow, padded=not signed)  # one element in the low bits of each byte
        if signed:
            data = (data ^ np.uint8(8)) - np.uint8(8)  # extends the sign
        return _transposed(data, side, element) if transpose else _registers(data)

    return run


def row_size(match: Match) -> int:
    """Bytes of a row of ``ldmatrix``: of ``.s8.s4`` (PTX ISA 9.4), 16 elements of 4 bits without padding."""
    return ROW // 2 if _signed_nibbles(match) else ROW


def _signed_nibbles(match: Match) -> bool:
    return match.form.name == "ldmatrix.s4"


def store(match: Match) -> Run:
    """``stmatrix`` (9.7.14.5.16): registers, uint32 (registers, 32), to rows in shared memory, uint8 (rows, 16)."""
    if match.shape == (16, 8):
        # A register holds two adjacent elements of a row of the 16 x 8 matrix, and two of the row 8 below, as in C.
        return lambda registers: (
            np.ascontiguousarray(registers)
            .view(np.uint8)
            .reshape(-1, 8, 4, 2, 2)  # matrix, row, pair of columns, row + 8, column
            .transpose(0, 2, 4, 3, 1)
            .reshape(-1, ROW)
        )
    if match.modes.transposes:
        return lambda registers: _transposed(registers).view(np.uint8).reshape(-1, ROW)
    return lambda registers: np.ascontiguousarray(registers).view(np.uint8).reshape(-1, ROW)


def movmatrix(match: Match) -> Run:
    """``movmatrix`` (9.7.14.5.17): from the register (32,) of an 8 x 8 matrix to that of its transpose."""
    return lambda register: _transposed(register)[0]


def _transposed(data: Array, side: int = 8, element: type[np.unsignedinteger[Any]] = np.uint16) -> Array:
    """The registers of the transposes of square matrices, given one after another as rows or as registers."""
    matrices = np.ascontiguousarray(data).view(element).reshape(-1, side, side)
    return _registers(matrices.transpose(0, 2, 1))


def _registers(data: Array) -> Array:
    """Bytes as registers (registers, 32) with four bytes per lane."""
    return np.ascontiguousarray(data).view(np.uint32).reshape(-1, 32)
