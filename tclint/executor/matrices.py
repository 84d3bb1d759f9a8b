"""Matrix instructions of a warp (9.7.14): ``mma``, ``mma.sp``, ``ldmatrix``, ``stmatrix`` and ``movmatrix``.

A fragment is a stack of registers: an unsigned array (registers, lanes). A multiplication gathers A and B from their
fragments, multiplies them once, and adds the product to C in the order in which the lanes hold C. The fragments of
``wgmma`` are those of an ``m16n8`` tile as well, with 128 lanes.

Arithmetic. Products of floating-point elements are exact; their sum, C included, is one of float64 and rounded once to
the type of D. The ISA promises less: it leaves open in which order is added, how that rounds and what happens to
subnormal inputs (9.7.14.5.14). Of an H200, one ``mma`` or ``wgmma`` that adds to ``.f32`` was within 2^-21 of the
sum of the magnitudes, but a ``wgmma`` of 8-bit floats, and what adds to ``.f16``, only within 2^-10. Integers are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tclint.executor.descriptors import unpack
from tclint.executor.floats import FLOATS
from tclint.executor.formats import decode, encode
from tclint.isa.table import Match, table

__all__ = [
    "MMA", "ROW", "WIDTHS", "Array", "Run", "accumulators", "expand", "load", "movmatrix", "multiplicand", "positions",
    "result", "rows", "shape", "split", "spread", "store", "types", "values",
]  # fmt: skip

Array = NDArray[Any]

Run = Callable[..., Array]
"""What executes an instruction: arrays of registers, stacked where the operand is a vector -> those of D."""

ROW = 16
"""Bytes of every row of a matrix in shared memory that ``ldmatrix`` and ``stmatrix`` move."""

WIDTHS = {
    "f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8,
    "e2m1": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
"""Bits that an element of each type takes in a register; ``e2m1`` takes 4 with ``.kind::mxf4*``."""

_INTEGERS = {"s8": np.int8, "u8": np.uint8, "s4": np.int8, "u4": np.uint8, "b1": np.uint8}
_SHAPE = re.compile(r"\.m(\d+)n(\d+)k(\d+)")


# ---------------------------------------------------------------- what the opcode says


def shape(match: Match) -> tuple[int, int, int]:
    """M, N and K."""
    m, n, k = next(found for found in map(_SHAPE.fullmatch, match.modifiers) if found).groups()
    return int(m), int(n), int(k)


def types(match: Match) -> list[str]:
    """The element types among the modifiers, in their order: of D, A, B and, for ``mma``, C."""
    return [m[1:] for m in match.modifiers if m[1:] in WIDTHS]


# ---------------------------------------------------------------- elements


def values(name: str, codes: Array, width: int = 0) -> Array:
    """The numbers that elements stand for: float32 for integers, float64 for all others, so that products are exact.

    *codes* are unsigned integers of *width* bits (by default those that the type takes in a register) or more.
    """
    if name == "s4":
        return ((codes << np.uint8(4)).view(np.int8) >> 4).astype(np.float32)
    if name in _INTEGERS:
        return codes.view(_INTEGERS[name]).astype(np.float32)
    if name == "e2m1" and width != 4:
        codes = codes >> 2  # it stands in the middle of its container (9.7.14.5.14)
    return decode(name, codes).astype(np.float64)


def split(data: Array, width: int) -> Array:
    """The elements of one or four bits in bytes, from the lowest bits up, along the last axis."""
    if width == 1:
        return np.unpackbits(data, axis=-1, bitorder="little")
    return np.stack((data & 15, data >> 4), -1).reshape(*data.shape[:-1], -1)


def _codes(registers: Array, width: int) -> Array:
    """Every element of a fragment, one after another: by register, then lane, then from the lowest bits up."""
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
    """The registers of D for its elements, the inverse of :func:`accumulators`.

    Floating-point numbers are rounded to the nearest and overflow to infinity, NaNs are canonical; integers wrap
    unless *saturate* (``.satfinite``).
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
def _a_index(m: int, k: int, width: int, lanes: int) -> Array:
    """Where the elements of A are among the codes of its fragment: (m, k).

    A group of four lanes holds a row, each of them as many neighbours as a register does. The registers of a lane go
    through the rows that are 8 apart first, and then along K; the warps through the rows of the whole matrix.
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
def _b_index(k: int, width: int) -> Array:
    """Where the elements of B are among the codes of its fragment: (k, 8). A group of four lanes holds a column."""
    size = max(1, 32 // width)
    row, column = np.ogrid[:k, :8]
    index: Array = (row // (4 * size) * 32 + column * 4 + row // size % 4) * size + row % size
    return index


@cache
def _d_index(m: int, n: int, lanes: int) -> Array:
    """Which element of the m x n matrix D each lane holds: (elements per lane, lanes).

    A lane holds pairs of neighbours: in the rows that are 8 apart first, and then in every eighth column.
    """
    element, lane = np.ogrid[: m * n // lanes, :lanes]
    height = m * 32 // lanes
    tile, group = np.divmod(element // 2, height // 8)
    row = lane // 32 * height + group * 8 + lane % 32 // 4
    index: Array = row * n + tile * 8 + lane % 4 * 2 + element % 2
    return index


def multiplicand(name: str, m: int, k: int, lanes: int = 32, width: int = 0) -> Run:
    """What reads A: its registers (registers, *lanes*) -> its elements as :func:`values`, (*m*, *k*)."""
    width = width or WIDTHS[name]
    index = _a_index(m, k, width, lanes)
    return lambda registers: values(name, _codes(registers, width).take(index), width)


def spread(matrix: Array, lanes: int = 32) -> Array:
    """The elements of an m x n matrix in the places of C and D: (elements per lane, *lanes*)."""
    return matrix.take(_d_index(*matrix.shape, lanes))


def _product(match: Match) -> Callable[[Array, Array], Array]:
    """What multiplies A by B: their product, or how many bits two vectors have in common (``.and``) or not (``.xor``)."""
    if ".xor" not in match.modifiers:
        return np.matmul
    return lambda a, b: a.sum(1, keepdims=True) + b.sum(0) - 2 * (a @ b)


# ---------------------------------------------------------------- sparse A (9.7.14.6)


@cache
def _metadata_index(m: int, k: int, width: int, selector: int, lanes: int) -> tuple[Array, Array]:
    """For each chunk of each row of A, the lane whose metadata hold its four bits, and how far up these stand.

    Elements of 32 and 16 bits: a lane has four chunks of a row in its low half, and of the row 8 below in its high
    half. Narrower ones: it has eight chunks of a row, and the next lane those of the row 8 below. The lanes of a group
    go along K; where not all four take part, the sparsity selector says which ones do.
    """
    chunks = k // _chunk(width)
    row, chunk = np.ogrid[:m, :chunks]
    warp, row = np.divmod(row, m * 32 // lanes)
    first = 32 * warp + row % 8 * 4 + chunks // 4 * selector
    if width >= 16:
        return first + chunk // 4, (row // 8 * 16 + chunk % 4 * 4).astype(np.uint32)
    return first + chunk // 8 * 2 + row // 8, (chunk % 8 * 4 + 0 * row).astype(np.uint32)


def _chunk(width: int) -> int:
    """How many elements of A, half of them stored, share four bits of metadata."""
    return {32: 2, 16: 4, 8: 4, 4: 8}[width]


def positions(metadata: Array, selector: int, m: int, k: int, width: int) -> Array:
    """The column of A at which each stored element of a row stands: (*m*, *k* / 2). *metadata* is that of all lanes.

    Two bits place an element of 16 or 8 bits, or a pair of 4-bit ones, in its chunk. Of the four bits for an element
    of 32 bits, 0b0100 or 0b1110, one tells.
    """
    lane, shift = _metadata_index(m, k, width, selector, len(metadata))
    bits = (metadata.take(lane) >> shift & np.uint32(15)).astype(np.intp)
    start = np.arange(0, k, _chunk(width))
    if width == 32:
        return start + (bits >> 1 & 1)
    places = np.stack((bits & 3, bits >> 2), -1)
    if width == 4:
        places = (places[..., None] * 2 + np.arange(2)).reshape(m, -1, 4)
    columns: Array = (start[:, None] + places).reshape(m, -1)
    return columns


def expand(stored: Array, columns: Array) -> Array:
    """A with its zeros: the *stored* elements of each row at their *columns*."""
    m, half = stored.shape
    full = np.zeros((m, 2 * half), stored.dtype)
    np.put_along_axis(full, columns, stored, 1)
    return full


# ---------------------------------------------------------------- mma and mma.sp


def _mma(match: Match) -> Run:
    """All shapes that have one matrix per warp: ``run(a, b, c)``, then ``e, f`` (sparse) and the scales."""
    m, _, k = shape(match)
    to, a_type, b_type, of = types(match)[:4]
    packed = any(modifier.startswith(".kind::mxf4") for modifier in match.modifiers)
    a_width, b_width = (4 if packed else WIDTHS[name] for name in (a_type, b_type))
    sparse = match.form.name.startswith("mma.sp.")
    scale = _scales(match) if match.form.name.endswith(".block_scale") else None
    read_a = multiplicand(a_type, m, k // 2 if sparse else k, width=a_width)
    b_index = _b_index(k, b_width)
    multiply = _product(match)
    saturate = ".satfinite" in match.modifiers

    def run(a: Array, b: Array, c: Array, *others: Array) -> Array:
        left = read_a(a)
        right = values(b_type, _codes(b, b_width).take(b_index), b_width)
        if sparse:
            metadata, selector = others[:2]
            left = expand(left, positions(metadata.reshape(-1), int(selector.flat[0]), m, k, a_width))
        if scale:
            left, right = scale(left, right, *others[2 * sparse :])
        return result(to, spread(multiply(left, right)) + accumulators(of, c), saturate)

    return run


def _scales(match: Match) -> Callable[..., tuple[Array, Array]]:
    """Block scaling (9.7.14.3): a scale for each of so many chunks along K of every row of A and column of B.

    Of each group of four lanes, two have the scales of A, those of rows 8 apart, and one has those of B. A selector is
    a pair: the first byte in the data, and which lanes.
    """
    given = re.findall(r"\.scale_vec::(\d)X", "".join(match.modifiers))
    count = int(given[0]) if given else 1 if ".kind::mxf8f6f4" in match.modifiers else 2
    name = next(m[1:] for m in match.modifiers if m in (".ue8m0", ".ue4m3"))
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
    """``m8n8k4`` with ``.f16``: four products of 8x4 by 4x8, each by the lanes 4i to 4i+3 and those 16 above."""
    to, _, _, of = types(match)
    a_layout, b_layout = (modifier for modifier in match.modifiers if modifier in (".row", ".col"))
    a_place, b_place = _quarters("a" + a_layout), _quarters("b" + b_layout)
    c_place, d_place = _quarters(of), _quarters(to)

    def run(a: Array, b: Array, c: Array) -> Array:
        left, right, total = np.empty((4, 8, 4)), np.empty((4, 4, 8)), np.empty((4, 8, 8))
        left.put(a_place, accumulators("f16", a))
        right.put(b_place, accumulators("f16", b))
        total.put(c_place, accumulators(of, c))
        return result(to, (total + left @ right).take(d_place))

    return run


@cache
def _quarters(fragment: str) -> Array:
    """Where each element of each lane stands in the four matrices of a fragment: (elements per lane, 32) (9.7.14.5.1)."""
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
    """``.f64``: a chain of ``fma`` from k = 0 on, each rounded, as on an H200; the ISA leaves the order open."""
    m, _, k = shape(match)
    rounding = next((modifier for modifier in match.modifiers if modifier in (".rz", ".rm", ".rp")), ".rn")
    scalar = table().match(f"fma{rounding}.f64", ("r", "r", "r", "r"))
    assert scalar is not None
    fma = FLOATS[scalar.form.name](scalar)
    place = _d_index(m, 8, 32)
    a_index, b_index = _a_index(m, k, 64, 32), _b_index(k, 64)

    def run(a: Array, b: Array, c: Array) -> Array:
        left, right = a.take(a_index), b.take(b_index)
        total = c.reshape(-1)
        for step in range(k):
            factors = np.broadcast_arrays(left[:, step, None], right[step])
            total = fma(*(factor.take(place).reshape(-1) for factor in factors), total)
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
}
"""What executes each form: ``MMA[form name](match)(a, b, c, ...)``, the operands behind d in their order."""


# ---------------------------------------------------------------- ldmatrix, stmatrix, movmatrix


def rows(match: Match) -> int:
    """How many rows are moved: lane i gives the address of row i, where :data:`ROW` bytes stand."""
    number = int(next(m[2:] for m in match.modifiers if m in (".x1", ".x2", ".x4")))
    return number * (16 if ".m16n16" in match.modifiers else 8)


def load(match: Match) -> Run:
    """``ldmatrix`` (9.7.14.5.15): the rows in shared memory, uint8 (rows, 16) -> registers, uint32 (registers, 32)."""
    narrow = next((bits for f, bits in ((".b4x16_p64", 4), (".b6x16_p32", 6)) if f in match.modifiers), 0)
    # Of a 16 x 16 matrix, one register holds columns 0 to 7 and the next one 8 to 15, four rows of one in each lane.
    side, element = (16, np.uint8) if ".m16n16" in match.modifiers else (8, np.uint16)
    transpose = ".trans" in match.modifiers

    def run(data: Array) -> Array:
        if narrow:
            data = unpack(data, narrow, padded=True)  # each element into the low bits of a byte
        return _transposed(data, side, element) if transpose else _registers(data)

    return run


def store(match: Match) -> Run:
    """``stmatrix`` (9.7.14.5.16): registers, uint32 (registers, 32) -> the rows in shared memory, uint8 (rows, 16)."""
    if ".m16n8" in match.modifiers:
        # A register holds two neighbours of a row of the 16 x 8 matrix, and two of the row 8 below, as C of an mma.
        return lambda registers: (
            np.ascontiguousarray(registers)
            .view(np.uint8)
            .reshape(-1, 8, 4, 2, 2)  # matrix, row, pair of columns, row + 8, column
            .transpose(0, 2, 4, 3, 1)
            .reshape(-1, ROW)
        )
    if ".trans" in match.modifiers:
        return lambda registers: _transposed(registers).view(np.uint8).reshape(-1, ROW)
    return lambda registers: np.ascontiguousarray(registers).view(np.uint8).reshape(-1, ROW)


def movmatrix(match: Match) -> Run:
    """``movmatrix`` (9.7.14.5.17): the register (32,) of an 8 x 8 matrix -> that of the transposed one."""
    return lambda register: _transposed(register)[0]


def _transposed(data: Array, side: int = 8, element: type[np.unsignedinteger[Any]] = np.uint16) -> Array:
    """Square matrices, a row or a lane's part of one after the other -> the registers of the transposed ones."""
    matrices = np.ascontiguousarray(data).view(element).reshape(-1, side, side)
    return _registers(matrices.transpose(0, 2, 1))


def _registers(data: Array) -> Array:
    """Bytes as registers (registers, 32), four bytes to each lane."""
    return np.ascontiguousarray(data).view(np.uint32).reshape(-1, 32)
