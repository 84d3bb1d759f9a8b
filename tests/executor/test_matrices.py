"""Matrix instructions against the manual's tables, written out as loops; memory is filled as TMA would fill it.

Elements are small integers as a rule, so that every sum is exact. What the manual gives in figures only (metadata of
sparse matrices, fragments of wgmma) was also compared with an H200, on random operands, bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tclint.executor import descriptors, matrices, warpgroup
from tclint.executor.descriptors import Matrix
from tclint.executor.errors import Unsupported
from tclint.isa.forms import Match
from tclint.isa.table import table
from tests.tools.execution import run as run_kernel

Array = Any


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def matched(opcode: str) -> Match:
    """The form of *opcode*, with as many registers as its syntax says."""
    form, syntax, binding = next(iter(table().candidates(opcode)))
    shapes = []
    for operand in syntax.operands:
        spec = form.operands.get(operand.name)
        length = form.vector_length(spec, binding) if spec else None
        scalar = "m" if operand.style == "memory" else "i" if spec and spec.immediates else "r"
        shapes.append(scalar if length is None else f"v{length}")
    match = table().match(opcode, tuple(shapes))
    assert match is not None
    assert not match.problem, (opcode, match.problem)
    return match


# ---------------------------------------------------------------- number formats, from their fields


def fields(code: int, exponent: int, mantissa: int, bias: int) -> Fraction:
    """The value of a finite floating-point code."""
    e, f = code >> mantissa & (1 << exponent) - 1, code & (1 << mantissa) - 1
    value = Fraction(f + (1 << mantissa if e else 0), 1 << mantissa) * Fraction(2) ** (max(e, 1) - bias)
    return -value if code >> exponent + mantissa & 1 else value


FORMATS = {
    "f32": (8, 23, 127),
    "tf32": (8, 23, 127),
    "f16": (5, 10, 15),
    "bf16": (8, 7, 127),
    "e4m3": (4, 3, 7),
    "e5m2": (5, 2, 15),
    "e3m2": (3, 2, 3),
    "e2m3": (2, 3, 1),
    "e2m1": (2, 1, 1),
    "ue4m3": (4, 3, 7),
}
BITS = {"f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s4": 4, "u4": 4, "b1": 1}  # others: 8


def number(name: str, code: int) -> Fraction:
    if name == "ue8m0":
        return Fraction(2) ** (code - 127)
    if name in FORMATS:
        return fields(code & ~0x1FFF if name == "tf32" else code, *FORMATS[name])
    bits = BITS.get(name, 8)
    return Fraction(code - (1 << bits) if name[0] == "s" and code >> bits - 1 else code)


def random_codes(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Array:
    """Codes of small numbers, of ``tf32`` with noise in the bits that do not count; of ``s32`` of the largest ones."""
    small = rng.integers(-4, 5, shape)
    if name in ("f32", "tf32"):
        pattern = small.astype(np.float32).view(np.uint32).astype(np.int64)
        return pattern | rng.integers(0, 1 << 13, shape) if name == "tf32" else pattern
    if name == "f16":
        return small.astype(np.float16).view(np.uint16).astype(np.int64)
    if name == "bf16":
        return (small.astype(np.float32).view(np.uint32) >> 16).astype(np.int64)
    if name == "s32":
        return rng.integers(0x7FFFFE00, 0x80000200, shape)  # many a sum overflows
    if name in FORMATS:
        exponent, mantissa, bias = FORMATS[name]
        near = rng.integers(bias - 1, bias + 2, shape) << mantissa
        sign = rng.integers(0, 2, shape) << exponent + mantissa
        return near & (1 << exponent + mantissa) - 1 | sign | rng.integers(0, 1 << mantissa, shape)
    return rng.integers(0, 1 << BITS.get(name, 8), shape)


def numbers(name: str, codes: Array) -> list[list[Fraction]]:
    return [[number(name, int(code)) for code in row] for row in codes]


def exact(a: list[list[Fraction]], b: list[list[Fraction]]) -> list[list[Fraction]]:
    """The product of an m x k and a k x n matrix."""
    columns = list(zip(*b, strict=True))
    return [
        [sum((x * y for x, y in zip(row, column, strict=True) if x and y), Fraction()) for column in columns]
        for row in a
    ]


def encoded(name: str, value: Fraction, satfinite: bool = False) -> int:
    """The code of a number that *name* holds exactly; an integer wraps or saturates."""
    if name == "f32":
        return int(np.float32(float(value)).view(np.uint32))
    if name == "f16":
        return int(np.float16(float(value)).view(np.uint16))
    whole = int(value)
    assert whole == value
    return (min(max(whole, -(1 << 31)), (1 << 31) - 1) if satfinite else whole) & 0xFFFFFFFF


def packed(registers: int, lanes: int, bits: int, codes: Callable[[int, int], int]) -> Array:
    """Registers (registers, lanes) whose element i of a lane, counted from the lowest bit of the first one, is codes(i, lane)."""
    each = 32 // bits
    found = np.zeros((registers, lanes), np.uint32)
    for lane in range(lanes):
        for i in range(registers * each):
            found[i // each, lane] |= np.uint32(codes(i, lane) << i % each * bits)
    return found


# ---------------------------------------------------------------- fragments of mma: 9.7.14.5, section by section

Cell = Callable[[int, int, int], tuple[int, int]]
"""(i, groupID, threadID_in_group) -> (row, column)"""

A_CELLS: dict[tuple[str, int], Cell] = {
    ("m8n8k16", 8): lambda i, g, t: (g, t * 4 + i),
    ("m8n8k32", 4): lambda i, g, t: (g, t * 8 + i),
    ("m8n8k128", 1): lambda i, g, t: (g, t * 32 + i),
    ("m16n8k4", 32): lambda i, g, t: (g + 8 * (i == 1), t),
    ("m16n8k8", 16): lambda i, g, t: (g if i in (0, 1) else g + 8, t * 2 + (i & 1)),
    ("m16n8k8", 32): lambda i, g, t: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
    ("m16n8k16", 16): lambda i, g, t: (g if i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + 8 * (i >= 4)),
    ("m16n8k16", 8): lambda i, g, t: (g if i < 4 else g + 8, t * 4 + (i & 3)),
    ("m16n8k32", 4): lambda i, g, t: (g if i < 8 else g + 8, t * 8 + (i & 7)),
    ("m16n8k32", 8): lambda i, g, t: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + 16 * (i >= 8)),
    ("m16n8k64", 4): lambda i, g, t: (
        g if i < 8 or 16 <= i < 24 else g + 8,
        t * 8 + (i & 7) + 32 * (i >= 16),
    ),
    ("m16n8k128", 1): lambda i, g, t: (g if i < 32 else g + 8, t * 32 + (i & 31)),
    ("m16n8k256", 1): lambda i, g, t: (
        g if i < 32 or 64 <= i < 96 else g + 8,
        t * 32 + (i & 31) + 128 * (i >= 64),
    ),
}
B_CELLS: dict[tuple[str, int], Cell] = {
    ("m8n8k16", 8): lambda i, g, t: (t * 4 + i, g),
    ("m8n8k32", 4): lambda i, g, t: (t * 8 + i, g),
    ("m8n8k128", 1): lambda i, g, t: (t * 32 + i, g),
    ("m16n8k4", 32): lambda i, g, t: (t, g),
    ("m16n8k8", 16): lambda i, g, t: (t * 2 + i, g),
    ("m16n8k8", 32): lambda i, g, t: (t if i == 0 else t + 4, g),
    ("m16n8k16", 16): lambda i, g, t: (t * 2 + (i & 1) + 8 * (i >= 2), g),
    ("m16n8k16", 8): lambda i, g, t: (t * 4 + i, g),
    ("m16n8k32", 4): lambda i, g, t: (t * 8 + (i & 7), g),
    ("m16n8k32", 8): lambda i, g, t: (t * 4 + (i & 3) + 16 * (i >= 4), g),
    ("m16n8k64", 4): lambda i, g, t: (t * 8 + (i & 7) + 32 * (i >= 8), g),
    ("m16n8k128", 1): lambda i, g, t: (t * 32 + i, g),
    ("m16n8k256", 1): lambda i, g, t: (t * 32 + (i & 31) + 128 * (i >= 32), g),
    # B of sparse multiplications (9.7.14.6.2): four registers, a quarter of the rows in each
    ("m16n8k16", 32): lambda i, g, t: (t + 4 * i, g),
    ("m16n8k32", 16): lambda i, g, t: (t * 2 + (i & 1) + 8 * (i >> 1), g),
    ("m16n8k64", 8): lambda i, g, t: (t * 4 + (i & 3) + 16 * (i >> 2), g),
    ("m16n8k128", 4): lambda i, g, t: (t * 8 + (i & 7) + 32 * (i >> 3), g),
}


def c_cell(i: int, g: int, t: int) -> tuple[int, int]:
    return (g if i < 2 else g + 8, t * 2 + (i & 1))


def fragment(cell: Cell, bits: int, matrix: Array, registers: int) -> Array:
    """The fragment of a matrix of codes."""
    return packed(registers, 32, bits, lambda i, lane: int(matrix[cell(i, lane >> 2, lane % 4)]))


def operands(opcode: str) -> tuple[int, int, int, list[str]]:
    m, n, k = map(int, re.findall(r"\.m(\d+)n(\d+)k(\d+)", opcode)[0])
    names = [w for w in opcode.split(".") if w in FORMATS or w in BITS or w in ("s8", "u8", "ue8m0")]
    return m, n, k, names


def check_mma(opcode: str, seed: int = 0) -> None:
    """Run a dense multiplication of one matrix per warp on random operands."""
    m, n, k, (d, a, b, c) = operands(opcode)
    rng = np.random.default_rng(seed)
    shape = f"m{m}n{n}k{k}"
    wide_a, wide_b = BITS.get(a, 8), BITS.get(b, 8)
    codes_a, codes_b = random_codes(rng, a, (m, k)), random_codes(rng, b, (k, n))
    codes_c = random_codes(rng, c, (m, n))
    count = m * n // 32 * BITS[c] // 32
    shift = 2 if ".kind::f8f6f4" in opcode else 0  # e2m1 is in the middle of its container
    got = matrices.MMA[matched(opcode).form.name](matched(opcode))(
        fragment(
            A_CELLS[shape, wide_a], wide_a, codes_a << (shift if a == "e2m1" else 0), m * k * wide_a // 1024
        ),
        fragment(
            B_CELLS[shape, wide_b], wide_b, codes_b << (shift if b == "e2m1" else 0), k * n * wide_b // 1024
        ),
        fragment(c_cell, BITS[c], codes_c, count),
    )
    left, right = numbers(a, codes_a), numbers(b, codes_b)
    if ".xor" in opcode:
        product = [
            [Fraction(sum(x != y[j] for x, y in zip(row, right, strict=True))) for j in range(n)]
            for row in left
        ]
    else:
        product = exact(left, right)
    full = [[p + q for p, q in zip(*r, strict=True)] for r in zip(product, numbers(c, codes_c), strict=True)]
    want = np.array([[encoded(d, x, ".satfinite" in opcode) for x in row] for row in full])
    assert got.dtype == np.uint32
    assert np.array_equal(got, fragment(c_cell, BITS[d], want, count))


DENSE = [
    *(
        f"m16n8k{k}.row.col.f32.{t}.{t}.f32"
        for t, ks in (("f16", (8, 16)), ("bf16", (8, 16)), ("tf32", (4, 8)))
        for k in ks
    ),
    *(f"m16n8k{k}.row.col.f16.f16.f16.f16" for k in (8, 16)),
    *(f"m16n8k{k}.row.col.f32.e4m3.e5m2.f32" for k in (16, 32)),
    "m16n8k32.row.col.f16.e5m2.e4m3.f16",
    "m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
    "m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m3.f32",
    *(
        f"m{m}n8k{k}.row.col{s}.s32.s8.u8.s32"
        for m, k in ((8, 16), (16, 16), (16, 32))
        for s in ("", ".satfinite")
    ),
    *(
        f"m{m}n8k{k}.row.col{s}.s32.u4.s4.s32"
        for m, k in ((8, 32), (16, 32), (16, 64))
        for s in ("", ".satfinite")
    ),
    *(
        f"m{m}n8k{k}.row.col.s32.b1.b1.s32.{o}.popc"
        for m, k in ((8, 128), (16, 128), (16, 256))
        for o in ("and", "xor")
    ),
]


@pytest.mark.parametrize("opcode", DENSE)
def test_a_dense_multiplication(opcode: str) -> None:
    check_mma(f"mma.sync.aligned.{opcode}")


def test_a_sum_is_rounded_once_and_special_values_are_canonical() -> None:
    run = matrices.MMA["mma.f32"](matched("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"))

    def first(a: list[int], b: list[int], c: float) -> int:
        """Element (0, 0) of D, of the first elements of row 0 of A and of column 0 of B, and of C."""
        left, right = np.zeros((4, 32), np.uint32), np.zeros((2, 32), np.uint32)
        left[0, :2], right[0, :2] = ([x[0] | x[1] << 16, x[2] | x[3] << 16] for x in (a, b))
        third = np.zeros((4, 32), np.uint32)
        third[0, 0] = np.float32(c).view(np.uint32)
        return int(run(left, right, third)[0, 0])

    one, tiny, inf, zero = 0x3C00, 0x0001, 0x7C00, 0
    infinite, largest = 0x7F800000, 0x7F7FFFFF
    # 1 + 2^-24 + 2^-48 lies above the middle between two numbers; without the last term it is the middle.
    assert first([one, tiny, tiny, zero], [one, one, tiny, zero], 0.0) == 0x3F800001
    assert first([one, tiny, tiny, zero], [one, one, tiny, zero], -(2.0**-48)) == 0x3F800000
    assert first([inf, zero, zero, zero], [one, one, one, one], 0.0) == infinite
    assert first([inf, zero, zero, zero], [zero, one, one, one], 0.0) == 0x7FFFFFFF
    assert first([inf, zero, zero, zero], [one, one, one, one], -np.inf) == 0x7FFFFFFF
    assert first([one, zero, zero, zero], [one, zero, zero, zero], 3.4028235e38) == largest
    assert first([zero, zero, zero, zero], [zero, zero, zero, zero], -0.0) == 0  # -0 + 0
    half = matrices.MMA["mma.f16"](matched("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16"))
    big, ones = np.full((2, 32), 0x7BFF7BFF, np.uint32), np.full((1, 32), 0x3C003C00, np.uint32)
    assert (half(big, ones, np.zeros((2, 32), np.uint32)) == 0x7C007C00).all()


@pytest.mark.parametrize(("d", "c"), [("f32", "f32"), ("f16", "f16"), ("f32", "f16")])
@pytest.mark.parametrize("layouts", ["row.row", "row.col", "col.row", "col.col"])
def test_four_small_multiplications(layouts: str, d: str, c: str) -> None:
    """9.7.14.5.1: matrix q belongs to the lanes 4q to 4q + 3 and those 16 above."""
    a_layout, b_layout = layouts.split(".")
    rng = np.random.default_rng(7)
    codes_a, codes_b = random_codes(rng, "f16", (4, 8, 4)), random_codes(rng, "f16", (4, 4, 8))
    codes_c = random_codes(rng, c, (4, 8, 8))

    def a_cell(i: int, lane: int) -> tuple[int, int]:
        if a_layout == "row":
            return (lane % 4 if lane < 16 else lane % 4 + 4), i
        return (i % 4 if lane < 16 else i % 4 + 4), lane % 4

    def b_cell(i: int, lane: int) -> tuple[int, int]:
        if b_layout == "row":
            return lane % 4, (i if lane < 16 else i + 4)
        return i, (lane % 4 if lane < 16 else lane % 4 + 4)

    def small(i: int, lane: int, name: str) -> tuple[int, int]:
        if name == "f16":
            return (lane % 4 if lane < 16 else lane % 4 + 4), i
        x = (lane & 1) + (i & 2)
        return (x if lane < 16 else x + 4), (i & 4) + (lane & 2) + (i & 1)

    q = [lane % 16 // 4 for lane in range(32)]
    opcode = f"mma.sync.aligned.m8n8k4.{layouts}.{d}.f16.f16.{c}"
    got = matrices.MMA[matched(opcode).form.name](matched(opcode))(
        packed(2, 32, 16, lambda i, lane: int(codes_a[q[lane]][a_cell(i, lane)])),
        packed(2, 32, 16, lambda i, lane: int(codes_b[q[lane]][b_cell(i, lane)])),
        packed(8 if c == "f32" else 4, 32, BITS[c], lambda i, lane: int(codes_c[q[lane]][small(i, lane, c)])),
    )
    full = [exact(numbers("f16", codes_a[j]), numbers("f16", codes_b[j])) for j in range(4)]
    adds = [numbers(c, codes_c[j]) for j in range(4)]

    def want(i: int, lane: int) -> int:
        row, column = small(i, lane, d)
        return encoded(d, full[q[lane]][row][column] + adds[q[lane]][row][column])

    assert np.array_equal(got, packed(8 if d == "f32" else 4, 32, BITS[d], want))


def rounded(x: Fraction, rounding: str) -> float:
    nearest = float(x)
    if rounding == ".rz" and abs(Fraction(nearest)) > abs(x):
        return float(np.nextafter(nearest, 0.0))
    if rounding == ".rm" and Fraction(nearest) > x:
        return float(np.nextafter(nearest, -np.inf))
    if rounding == ".rp" and Fraction(nearest) < x:
        return float(np.nextafter(nearest, np.inf))
    return nearest


@pytest.mark.parametrize("rounding", ["", ".rz", ".rm", ".rp"])
@pytest.mark.parametrize(("m", "k"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_a_multiplication_of_doubles(m: int, k: int, rounding: str) -> None:
    """9.7.14.5.2, and those of m16n8k4 to m16n8k16: one element in a register, rows 8 apart, then every 4 columns."""
    rng = np.random.default_rng(k)
    a, b, c = rng.standard_normal((m, k)), rng.standard_normal((k, 8)), rng.standard_normal((m, 8))
    left, right = np.zeros((m * k // 32, 32)), np.zeros((k // 4, 32))
    third, want = np.zeros((m // 4, 32)), np.zeros((m // 4, 32))
    for lane in range(32):
        g, t = lane >> 2, lane % 4
        for i in range(m * k // 32):
            row = g if m == 8 or i % 2 == 0 else g + 8
            column = t if m == 8 else i * 2 + t if i % 2 == 0 else i * 2 - 2 + t
            left[i, lane] = a[row, column]
        for i in range(k // 4):
            right[i, lane] = b[t + i * 4, g]
        for i in range(m // 4):
            row, column = c_cell(i, g, t)
            third[i, lane] = total = c[row, column]
            for x, y in zip(a[row], b[:, column], strict=True):
                total = rounded(Fraction(x) * Fraction(y) + Fraction(total), rounding)
            want[i, lane] = total
    match = matched(f"mma.sync.aligned.m{m}n8k{k}.row.col{rounding}.f64.f64.f64.f64")
    got = matrices.MMA[match.form.name](match)(*(x.view(np.uint64) for x in (left, right, third)))
    assert got.dtype == np.uint64
    assert np.array_equal(got.view(np.float64), want)


# ---------------------------------------------------------------- sparse A: 9.7.14.6

Metadata = Callable[[int, int, int], tuple[int, int]]
"""(row of 16, chunk, selector) -> the lane that has its four bits, and the lowest of these"""


def halves(row: int, chunk: int, first: int) -> tuple[int, int]:
    """A lane has four chunks of row g below bit 16, and of row g + 8 above."""
    return row % 8 * 4 + first + chunk // 4, (16 if row >= 8 else 0) + chunk % 4 * 4


def whole(row: int, chunk: int, first: int) -> tuple[int, int]:
    """A lane has eight chunks of a row; the lanes T0 and T2 those of row g, T1 and T3 those of row g + 8."""
    return row % 8 * 4 + first + (1 if row >= 8 else 0) + (2 if chunk >= 8 else 0), chunk % 8 * 4


SPARSE: list[tuple[str, int, Metadata, int, int]] = [
    # opcode, selector, metadata, first lane of a group, elements of a chunk
    *(("m16n8k16.row.col.f32.f16.f16.f32", s, halves, s, 4) for s in range(4)),
    *(("m16n8k32.row.col.f32.bf16.bf16.f32", s, halves, 2 * s, 4) for s in range(2)),
    ("m16n8k32.row.col.f16.f16.f16.f16", 0, halves, 0, 4),
    *(("m16n8k8.row.col.f32.tf32.tf32.f32", s, halves, s, 2) for s in range(4)),
    *(("m16n8k16.row.col.f32.tf32.tf32.f32", s, halves, 2 * s, 2) for s in range(2)),
    ("m16n8k64.row.col.f32.e4m3.e5m2.f32", 0, whole, 0, 4),
    ("m16n8k64.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32", 0, whole, 0, 4),
    *(("m16n8k32.row.col.s32.s8.u8.s32", s, whole, 2 * s, 4) for s in range(2)),
    ("m16n8k64.row.col.satfinite.s32.u8.s8.s32", 0, whole, 0, 4),
    *(("m16n8k64.row.col.s32.s4.u4.s32", s, whole, 2 * s, 8) for s in range(2)),
    ("m16n8k128.row.col.s32.u4.s4.s32", 0, whole, 0, 8),
]


def thinned(
    rng: np.random.Generator,
    stored: Array,
    chunk: int,
    place: Metadata,
    first: int,
    ordered: bool,
    lanes: int = 32,
) -> tuple[Array, Array]:
    """A in full, with the *stored* elements at random places, and the metadata that say where."""
    m, half = stored.shape
    full, metadata = np.zeros((m, 2 * half), stored.dtype), np.zeros(lanes, np.uint32)
    for row in range(m):
        for c in range(2 * half // chunk):
            places = [int(x) for x in rng.choice(4, 2, replace=False)]
            if ordered:
                places.sort()
            if chunk == 2:  # 0b0100 is the first of two elements, 0b1110 the second
                at = int(rng.integers(0, 2))
                places = [2, 3] if at else [0, 1]
                full[row, 2 * c + at] = stored[row, c]
            elif chunk == 4:
                for j in range(2):
                    full[row, 4 * c + places[j]] = stored[row, 2 * c + j]
            else:
                for j in range(4):
                    full[row, 8 * c + 2 * places[j // 2] + j % 2] = stored[row, 4 * c + j]
            lane, low = place(row % 16, c, first)
            metadata[row // 16 * 32 + lane] |= np.uint32((places[0] | places[1] << 2) << low)
    return full, metadata


@pytest.mark.parametrize(
    ("variant", "tail", "selector", "place", "first", "chunk"),
    [
        (variant, *case)
        for variant in ("sp", "sp::ordered_metadata")
        for case in SPARSE
        if variant != "sp" or ".kind::" not in case[0]
    ],
)
def test_a_sparse_multiplication(
    variant: str, tail: str, selector: int, place: Metadata, first: int, chunk: int
) -> None:
    opcode = f"mma.{variant}.sync.aligned.{tail}"
    m, n, k, (d, a, b, c) = operands(opcode)
    rng = np.random.default_rng(11)
    wide_a, wide_b = BITS.get(a, 8), BITS.get(b, 8)
    stored, codes_b = random_codes(rng, a, (m, k // 2)), random_codes(rng, b, (k, n))
    codes_c = random_codes(rng, c, (m, n))
    full, metadata = thinned(rng, stored, chunk, place, first, "ordered" in variant)
    # A of sparse mxnxk is stored as that of the dense shape with half the K: firstcol counts elements twice (9.7.14.6.2).
    shape_a, shape_b = f"m{m}n{n}k{k // 2}", f"m{m}n{n}k{k}"
    shift = 2 if ".kind::f8f6f4" in opcode else 0
    count = m * n // 32 * BITS[c] // 32
    noise = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
    users = {place(row, x, first)[0] for row in range(16) for x in range(k // chunk)}
    metadata = np.array([metadata[i] if i in users else noise[i] for i in range(32)])
    got = matrices.MMA[matched(opcode).form.name](matched(opcode))(
        fragment(
            A_CELLS[shape_a, wide_a],
            wide_a,
            stored << (shift if a == "e2m1" else 0),
            m * k // 2 * wide_a // 1024,
        ),
        fragment(
            B_CELLS[shape_b, wide_b], wide_b, codes_b << (shift if b == "e2m1" else 0), k * n * wide_b // 1024
        ),
        fragment(c_cell, BITS[c], codes_c, count),
        metadata,
        np.full(32, selector, np.uint32),
    )
    product = exact(numbers(a, full), numbers(b, codes_b))
    sums = [[p + q for p, q in zip(*r, strict=True)] for r in zip(product, numbers(c, codes_c), strict=True)]
    want = np.array([[encoded(d, x, ".satfinite" in opcode) for x in row] for row in sums])
    assert np.array_equal(got, fragment(c_cell, BITS[d], want, count))


# ---------------------------------------------------------------- block scaling: 9.7.14.3

SCALED = [
    ("m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0", 1),
    ("m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e3m2.e5m2.f32.ue8m0", 1),
    ("m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", 2),
    ("m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", 2),
    ("m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", 4),
]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("tail", "count"), SCALED)
def test_a_block_scaled_multiplication(tail: str, count: int, sparse: bool) -> None:
    if sparse:
        tail = tail.replace("k64", "k128").replace("k32", "k64")
    opcode = f"mma.{'sp::ordered_metadata.' if sparse else ''}sync.aligned.{tail}"
    m, n, k, (_, a, b, c, scale) = operands(opcode)
    rng = np.random.default_rng(count)
    wide = 8 if "mxf8f6f4" in tail else 4
    stored, codes_b = random_codes(rng, a, (m, k // 2 if sparse else k)), random_codes(rng, b, (k, n))
    full, metadata = thinned(rng, stored, 4 if wide == 8 else 8, whole, 0, True) if sparse else (stored, None)
    shift = 2 if wide == 8 else 0
    kept = f"m16n8k{stored.shape[1]}"
    codes_c = random_codes(rng, c, (m, n))
    data = {
        x: rng.integers(120, 130, (32, 4)) if scale == "ue8m0" else rng.integers(0x30, 0x48, (32, 4))
        for x in "ab"
    }
    byte = {"a": 0 if count == 4 else 2, "b": 0 if count != 1 else 3}
    thread = {"a": 1, "b": 2}

    def scale_a(row: int, column: int) -> Fraction:
        lane = row % 8 * 4 + 2 * thread["a"] + (1 if row >= 8 else 0)
        return number(scale, int(data["a"][lane, byte["a"] + column // (k // count)]))

    def scale_b(row: int, column: int) -> Fraction:
        lane = column * 4 + thread["b"]
        return number(scale, int(data["b"][lane, byte["b"] + row // (k // count)]))

    scaled_a = [[x * scale_a(i, j) for j, x in enumerate(row)] for i, row in enumerate(numbers(a, full))]
    scaled_b = [[x * scale_b(i, j) for j, x in enumerate(row)] for i, row in enumerate(numbers(b, codes_b))]
    selectors = {x: np.array([[byte[x]] * 32, [thread[x]] * 32], np.uint16) for x in "ab"}
    words = {x: data[x].astype(np.uint8).view(np.uint32).reshape(32) for x in "ab"}
    got = matrices.MMA[matched(opcode).form.name](matched(opcode))(
        fragment(A_CELLS[kept, wide], wide, stored << (shift if a == "e2m1" else 0), 4),
        fragment(
            B_CELLS[f"m16n8k{k}", wide], wide, codes_b << (shift if b == "e2m1" else 0), 4 if sparse else 2
        ),
        fragment(c_cell, 32, codes_c, 4),
        *((metadata, np.zeros(32, np.uint32)) if sparse else ()),
        *(words["a"], selectors["a"], words["b"], selectors["b"]),
    )
    sums = [
        [p + q for p, q in zip(*r, strict=True)]
        for r in zip(exact(scaled_a, scaled_b), numbers(c, codes_c), strict=True)
    ]
    want = np.array([[encoded("f32", x) for x in row] for row in sums])
    assert np.array_equal(got, fragment(c_cell, 32, want, 4))


# ---------------------------------------------------------------- ldmatrix, stmatrix, movmatrix


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_moving_8_by_8_matrices(number: int, trans: str) -> None:
    """9.7.14.5.15 and .16: a group of four lanes holds a row of a matrix, or a column when transposed."""
    rng = np.random.default_rng(number)
    cells = rng.integers(0, 1 << 16, (number, 8, 8), dtype=np.uint16)
    registers = np.zeros((number, 32), np.uint32)
    for i in range(number):
        for lane in range(32):
            line, first = lane // 4, lane % 4 * 2
            low, high = (
                (cells[i, first, line], cells[i, first + 1, line])
                if trans
                else cells[i, line, first : first + 2]
            )
            registers[i, lane] = int(low) | int(high) << 16
    memory = cells.reshape(-1, 8).view(np.uint8)
    load = matched(f"ldmatrix.sync.aligned.m8n8.x{number}{trans}.shared.b16")
    store = matched(f"stmatrix.sync.aligned.m8n8.x{number}{trans}.shared.b16")
    assert load.address_lanes == store.address_lanes == 8 * number
    assert np.array_equal(matrices.load(load)(memory), registers)
    stored = matrices.store(store)(registers)
    assert stored.dtype == np.uint8
    assert np.array_equal(stored, memory)


@pytest.mark.parametrize("source", [".b8", ".b8x16.b4x16_p64", ".b8x16.b6x16_p32"])
@pytest.mark.parametrize("number", [1, 2])
def test_loading_16_by_16_matrices(number: int, source: str) -> None:
    """Register 2i has column g of matrix i, rows 4t to 4t + 3; register 2i + 1 column g + 8."""
    match = matched(f"ldmatrix.sync.aligned.m16n16.x{number}.trans.shared{source}")
    cells, memory = narrow_rows(np.random.default_rng(3), 16 * number, source)
    registers = matrices.load(match)(memory)
    assert match.address_lanes == 16 * number
    assert registers.shape == (2 * number, 32)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for register in range(2 * number):
            rows = [16 * (register // 2) + 4 * t + j for j in range(4)]
            want = [int(cells[row, g + 8 * (register % 2)]) for row in rows]
            assert list(int(registers[register, lane]).to_bytes(4, "little")) == want


@pytest.mark.parametrize("source", [".b4x16_p64", ".b6x16_p32"])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_loading_8_by_16_matrices(number: int, source: str) -> None:
    match = matched(f"ldmatrix.sync.aligned.m8n16.x{number}.shared.b8x16{source}")
    cells, memory = narrow_rows(np.random.default_rng(4), 8 * number, source)
    registers = matrices.load(match)(memory)
    assert match.address_lanes == 8 * number
    for lane in range(32):
        for register in range(number):
            want = cells[8 * register + lane // 4, lane % 4 * 4 :][:4].tolist()
            assert list(int(registers[register, lane]).to_bytes(4, "little")) == want


@pytest.mark.parametrize("number", [1, 2, 4])
def test_loading_8_by_16_matrices_of_signed_4_bit_elements(number: int) -> None:
    """9.7.16.5.15 of PTX ISA 9.4: a row is 16 elements without padding, and each becomes a byte with its sign."""
    match = matched(f"ldmatrix.sync.aligned.m8n16.x{number}.shared.s8.s4")
    memory = np.random.default_rng(7).integers(0, 256, (8 * number, 8), dtype=np.uint8)
    registers = matrices.load(match)(memory)
    assert (match.address_lanes, matrices.row_size(match)) == (8 * number, 8)
    for lane in range(32):
        for register in range(number):
            row = memory[8 * register + lane // 4].tolist()
            cells = [row[column // 2] >> 4 * (column % 2) & 15 for column in range(16)]
            want = [cell if cell < 8 else cell - 16 + 256 for cell in cells[lane % 4 * 4 :][:4]]
            assert list(int(registers[register, lane]).to_bytes(4, "little")) == want


@pytest.mark.parametrize(("offset", "end"), [(0, "done"), (8, "unsupported"), (4, "fault")])
def test_ldmatrix_of_4_bit_elements_reads_8_bytes_of_each_row(offset: int, end: str) -> None:
    """Row i is at 16 * i + *offset*; all its bytes are 0x87, but nothing has written the 8 that follow."""
    body = f"""
    .shared .align 128 .b8 tile[256];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 4;
    and.b32 %r2, %r2, 127;
    add.u32 %r3, %r1, %r2;
    mov.b64 %rd0, 0x8787878787878787;
    st.shared.b64 [%r3], %rd0;
    bar.warp.sync 0xffffffff;
    ldmatrix.sync.aligned.m8n16.x1.shared.s8.s4 {{%r4}}, [%r3+{offset}];
    st.global.b32 [%rd62], %r4;
    ret;
    """
    found = run_kernel(body, header=".version 9.4\n.target sm_90a\n.address_size 64\n")
    assert found.execution.end == end, found.execution.reason
    assert not offset or "ldmatrix" in found.execution.reason
    assert found.kinds == []
    assert offset or found.out == [0xF807F807] * 32


def narrow_rows(rng: np.random.Generator, rows: int, source: str) -> tuple[Array, Array]:
    """Rows of 16 elements, and the 16 bytes of each in memory: elements from the lowest bit on, then padding."""
    bits = 4 if "b4" in source else 6 if "b6" in source else 8
    cells = rng.integers(0, 1 << bits, (rows, 16))
    memory = rng.integers(0, 256, (rows, 16), dtype=np.uint8)
    for row in range(rows):
        whole = sum(int(x) << bits * i for i, x in enumerate(cells[row]))
        memory[row, : 2 * bits] = list(whole.to_bytes(2 * bits, "little"))
    return cells, memory


@pytest.mark.parametrize("number", [1, 2, 4])
def test_storing_16_by_8_matrices(number: int) -> None:
    """Row i in memory is column i; a lane's bytes are (g, 2t), (g, 2t + 1), (g + 8, 2t) and (g + 8, 2t + 1)."""
    match = matched(f"stmatrix.sync.aligned.m16n8.x{number}.trans.shared.b8")
    cells = np.random.default_rng(5).integers(0, 256, (number, 16, 8))
    registers = np.vstack([fragment(c_cell, 8, matrix, 1) for matrix in cells])
    assert match.address_lanes == 8 * number
    assert np.array_equal(matrices.store(match)(registers), cells.transpose(0, 2, 1).reshape(-1, 16))


def test_movmatrix_transposes() -> None:
    cells = np.random.default_rng(6).integers(0, 1 << 16, (8, 8))
    pair: Cell = lambda i, g, t: (g, t * 2 + i)
    before, after = fragment(pair, 16, cells, 1)[0], fragment(pair, 16, cells.T, 1)[0]
    assert np.array_equal(matrices.movmatrix(matched("movmatrix.sync.aligned.m8n8.trans.b16"))(before), after)


# ---------------------------------------------------------------- descriptors

PATTERNS = {
    # which 16 bytes of a line of 128 are in each of its eight positions, line by line
    0: ["01234567"],
    32: ["01234567", "10325476"],
    64: ["01234567", "10325476", "23016745", "32107654"],
    128: ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
    "128 by 32": ["01234567", "23016745", "45670123", "67452301"],
}
WGMMA_MODE = {0: 0, 128: 1, 64: 2, 32: 3}
TCGEN05_MODE = {0: 0, "128 by 32": 1, 128: 2, 64: 4, 32: 6}
WIDTH = {0: 16, 32: 32, 64: 64, 128: 128, "128 by 32": 128}


def written_by_tma(box: Array, mode: int | str) -> Array:
    """What a copy of a *box* (rows, bytes of a row) leaves in shared memory, from the start of the pattern on."""
    whole = np.ascontiguousarray(box).reshape(-1)
    lines = np.append(whole, np.zeros(-len(whole) % 128, np.uint8)).reshape(-1, 8, 16)
    orders = [[int(place) for place in pattern] for pattern in PATTERNS[mode]]
    return np.stack([line[orders[i % len(orders)]] for i, line in enumerate(lines)]).reshape(-1)


def described(start: int, leading: int, stride: int, mode: int | str, generation: str, base: int = 0) -> int:
    value = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49
    if generation == "wgmma":
        return value | WGMMA_MODE[mode] << 62  # type: ignore[index]
    return value | 1 << 46 | TCGEN05_MODE[mode] << 61


def unpacked(memory: Array, addresses: Array, bits: int) -> Array:
    """The elements at *addresses*, byte by byte."""
    return sum(memory[addresses + i].astype(np.uint32) << 8 * i for i in range(bits // 8))


@pytest.mark.parametrize("generation", ["wgmma", "tcgen05"])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("mode", [32, 64, 128])
def test_a_k_major_tile_that_tma_wrote(mode: int, bits: int, generation: Any) -> None:
    """Slices of 32 bytes along K, the descriptor advanced inside the atom by adding to its start address."""
    rng = np.random.default_rng(bits)
    tile = rng.integers(0, 256, (64, mode), dtype=np.uint8)
    memory = np.zeros(16384, np.uint8)
    memory[4096 : 4096 + 64 * mode] = written_by_tma(tile, mode)
    for step in range(mode // 32):
        at = described(4096 + 32 * step, 16, 8 * mode, mode, generation)
        addresses = descriptors.offsets(at, Matrix(64, 256 // bits, bits, "K", generation))
        want = np.ascontiguousarray(tile[:, 32 * step : 32 * step + 32]).view(f"<u{bits // 8}")
        assert addresses.dtype == np.int64
        assert np.array_equal(unpacked(memory, addresses, bits), want)
        assert np.array_equal(
            descriptors.load(lambda a: memory[a], at, Matrix(64, 256 // bits, bits, "K", generation)), want
        )


@pytest.mark.parametrize(
    ("mode", "bits", "generation"),
    [
        *((mode, 16, generation) for mode in (32, 64, 128) for generation in ("wgmma", "tcgen05")),
        *((mode, 8, "tcgen05") for mode in (32, 64, 128)),
        ("128 by 32", 32, "tcgen05"),
    ],
)
def test_an_mn_major_tile_that_tma_wrote(mode: int | str, bits: int, generation: Any) -> None:
    """Boxes of as many bytes along MN as the swizzle is wide, one after the other; 32 columns along K."""
    rng = np.random.default_rng(bits)
    width, size = WIDTH[mode], bits // 8
    columns = 32
    boxes = rng.integers(0, 256, (3, columns, width), dtype=np.uint8)
    memory = np.zeros(32768, np.uint8)
    for i, box in enumerate(boxes):
        memory[2048 + 8192 * i : 2048 + 8192 * i + box.size] = written_by_tma(box, mode)
    group = 4 if mode == "128 by 32" else 8
    rows = 3 * width // size
    at = described(2048, 8192, group * width, mode, generation)
    found = unpacked(memory, descriptors.offsets(at, Matrix(rows, columns, bits, "MN", generation)), bits)
    for row in range(rows):
        for column in range(columns):
            box, place = divmod(row * size, width)
            want = int.from_bytes(bytes(boxes[box, column, place : place + size]), "little")
            assert found[row, column] == want


@pytest.mark.parametrize("generation", ["wgmma", "tcgen05"])
def test_layouts_without_swizzling(generation: Any) -> None:
    """9.7.15.5.1.2.1: cores of 8 x 16 bytes; K-major, the leading offset goes along K, MN-major, from 8 columns to the next."""
    at = described(0x38200, 4096, 256, 0, generation)
    k_major = descriptors.offsets(at, Matrix(32, 16, 16, "K", generation))
    mn_major = descriptors.offsets(at, Matrix(32, 16, 16, "MN", generation))
    for row in range(32):
        for column in range(16):
            core = 0x38200 + row // 8 * 256 + column // 8 * 4096
            assert k_major[row, column] == core + row % 8 * 16 + column % 8 * 2
            assert mn_major[row, column] == core + column % 8 * 16 + row % 8 * 2


@pytest.mark.parametrize("mode", [32, 64, 128])
def test_a_pattern_off_its_boundary_has_a_base_offset(mode: int) -> None:
    tile = np.random.default_rng(mode).integers(0, 256, (64, mode), dtype=np.uint8)
    for line in range(8):
        start = 1024 + 128 * line
        memory = np.zeros(16384, np.uint8)
        memory[start : start + tile.size] = written_by_tma(tile, mode)
        at = described(start, 16, 8 * mode, mode, "wgmma", base=start >> 7 & 7)
        addresses = descriptors.offsets(at, Matrix(64, 32, 8, "K", "wgmma"))
        assert np.array_equal(memory[addresses], tile[:, :32])


def test_a_row_wider_than_its_atom() -> None:
    """The manual leaves it open; an H200 continues at the leading dimension offset."""
    at = described(1024, 4096, 256, 32, "wgmma")
    found = descriptors.offsets(at, Matrix(8, 32, 16, "K", "wgmma"))
    assert np.array_equal(found[:, 16:], found[:, :16] + 4096)
    with pytest.raises(Unsupported, match="leaves its 32-byte"):
        descriptors.offsets(described(1024, 4096, 256, 32, "tcgen05"), Matrix(8, 32, 16, "K", "tcgen05"))


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, "0b001"),
        (1 << 46 | 1 << 52, "absolute"),
        (1 << 46 | 3 << 61, "swizzling mode 3"),
        (1 << 46 | 1 << 61, "32-byte swizzle atoms"),
    ],
)
def test_invalid_descriptors_are_unsupported(bits: int, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        descriptors.offsets(bits, Matrix(64, 16, 16, "K", "tcgen05"))


def test_the_intervals_are_the_bytes_of_the_elements() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        start, leading, stride = (int(x) * 16 for x in rng.integers(0, 64, 3))
        at = described(start, leading, stride, int(rng.choice([0, 32, 64, 128])), "wgmma")
        major: Any = rng.choice(["K", "MN"])
        addresses = descriptors.offsets(at, Matrix(64, 16, 16, major, "wgmma"))
        intervals = descriptors.intervals(at, Matrix(64, 16, 16, major, "wgmma"))
        want = {int(a) + i for a in addresses.flat for i in range(2)}
        assert sum(end - start for start, end in intervals) == len(want)
        assert {x for start, end in intervals for x in range(start, end)} == want
        assert all(a[1] < b[0] for a, b in pairwise(intervals))


@pytest.mark.parametrize(("source", "bits"), [(".b4x16_p64", 4), (".b6x16_p32", 6)])
def test_unpacking_padded_elements(source: str, bits: int) -> None:
    cells, memory = narrow_rows(np.random.default_rng(8), 6, source)
    assert np.array_equal(descriptors.unpack(memory.reshape(3, 32), bits, True), cells.reshape(3, 32))


def test_unpacking_pairs() -> None:
    assert descriptors.unpack(np.array([[0x21, 0x43], [0xF0, 0x0F]], np.uint8), 4, False).tolist() == [
        [1, 2, 3, 4],
        [0, 15, 15, 0],
    ]


# ---------------------------------------------------------------- wgmma


def warpgroup_fragment(matrix: Array, bits: int, registers: int) -> Array:
    """A, 64 x k: each warp has 16 rows, as A of an m16n8 multiplication with the same elements (figures of 9.7.15.5.1.1)."""
    k = matrix.shape[1]
    cell = A_CELLS[f"m16n8k{k}", bits]
    return np.hstack([fragment(cell, bits, matrix[16 * w : 16 * w + 16], registers) for w in range(4)])


def warpgroup_accumulators(matrix: Array, bits: int) -> Array:
    """D, 64 x n: each warp has 16 rows, and register pairs go through the tiles of eight columns."""
    parts = [
        np.vstack(
            [
                fragment(c_cell, bits, matrix[16 * w : 16 * w + 16, column : column + 8], bits // 8)
                for column in range(0, matrix.shape[1], 8)
            ]
        )
        for w in range(4)
    ]
    return np.hstack(parts)


def byte_matrix(codes: Array, bits: int) -> Array:
    """Rows of elements as rows of bytes."""
    if bits == 1:
        return np.packbits(codes.astype(np.uint8), axis=1, bitorder="little")
    return np.ascontiguousarray(codes.astype(f"<u{bits // 8}")).view(np.uint8)


def laid_out(codes: Array, bits: int, major: str, mode: int, start: int, memory: Array) -> int:
    """Put a matrix (rows along MN, columns along K) into memory as TMA would, box by box; gives its descriptor."""
    data = byte_matrix(codes if major == "K" else codes.T, bits)
    width = WIDTH[mode] if mode else 16
    boxes = [data[:, x : x + width] for x in range(0, data.shape[1], width)]
    at, size = start, 0
    for box in boxes:
        full = np.zeros((box.shape[0], width), np.uint8)
        full[:, : box.shape[1]] = box
        written = written_by_tma(full, mode)
        size = -(-len(written) // 1024) * 1024
        memory[at : at + len(written)] = written
        at += size
    if mode == 0 and major == "MN":
        return described(start, 8 * width, size, mode, "wgmma")  # the offsets change places
    return described(start, size, 8 * width, mode, "wgmma")


WGMMA = [
    "m64n64k16.f32.f16.f16", "m64n8k16.f32.bf16.bf16", "m64n24k16.f16.f16.f16", "m64n16k8.f32.tf32.tf32",
    "m64n16k32.f32.e4m3.e5m2", "m64n8k32.f16.e5m2.e4m3", "m64n16k32.s32.s8.u8", "m64n8k32.satfinite.s32.u8.s8",
    "m64n8k256.s32.b1.b1.and.popc",
]  # fmt: skip


def check_wgmma(
    opcode: str, registers: bool, mode: tuple[int, int] = (128, 64), trans: tuple[int, int] = (0, 0), scale_d: bool = True,
    signs: tuple[int, int] = (1, 1), selector: int | None = None,
) -> None:  # fmt: skip
    match = matched(opcode)
    m, n, k, (d, a, b) = operands(opcode)
    rng = np.random.default_rng(n)
    wide = BITS.get(a, 8)
    stored = random_codes(rng, a, (m, k if selector is None else k // 2))
    codes_b, codes_d = random_codes(rng, b, (n, k)), random_codes(rng, d, (m, n))
    full, metadata = stored, None
    if selector is not None:
        place, first = (halves, 2 * selector) if wide >= 16 else (whole, 0)
        full, metadata = thinned(rng, stored, 2 if wide == 32 else 4, place, first, False, 128)
    memory = rng.integers(0, 256, 65536, dtype=np.uint8)
    operand: Any = (
        warpgroup_fragment(stored, wide, 4)
        if registers
        else laid_out(stored, wide, "K" if not trans[0] else "MN", mode[0], 1024, memory)
    )
    b_descriptor = laid_out(codes_b, wide, "K" if not trans[1] else "MN", mode[1], 32768, memory)
    accumulators = warpgroup_accumulators(codes_d, BITS[d])
    got = warpgroup.INSTRUCTIONS[match.form.name](match).execute(
        lambda addresses: memory[addresses],
        operand,
        b_descriptor,
        accumulators if scale_d else None,
        warpgroup.Immediates(*signs, *trans, selector or 0),
        metadata,
    )
    product = exact(numbers(a, full), [list(x) for x in zip(*numbers(b, codes_b), strict=True)])
    want = np.zeros((m, n), np.int64)
    for i in range(m):
        for j in range(n):
            sum_ = signs[0] * signs[1] * product[i][j] + (number(d, int(codes_d[i, j])) if scale_d else 0)
            want[i, j] = encoded(d, sum_, ".satfinite" in opcode)
    assert got.dtype == np.uint32
    assert np.array_equal(got, warpgroup_accumulators(want, BITS[d]))


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize("opcode", WGMMA)
def test_wgmma(opcode: str, registers: bool) -> None:
    signs = (1, 1) if "s32" in opcode else (-1, 1)
    check_wgmma(f"wgmma.mma_async.sync.aligned.{opcode}", registers, signs=signs)


@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("mode", [(0, 128), (32, 64), (64, 0), (128, 32)])
def test_wgmma_from_all_layouts(mode: tuple[int, int], trans: tuple[int, int]) -> None:
    check_wgmma("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", False, mode, trans, False, (-1, -1))


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize(
    ("opcode", "selector"),
    [
        ("m64n16k32.f32.f16.f16", 0), ("m64n16k32.f32.bf16.bf16", 1), ("m64n8k16.f32.tf32.tf32", 0),
        ("m64n8k16.f32.tf32.tf32", 1), ("m64n8k64.f32.e4m3.e4m3", 0), ("m64n8k64.s32.s8.u8", 0),
    ],
)  # fmt: skip
def test_sparse_wgmma(opcode: str, selector: int, registers: bool) -> None:
    check_wgmma(f"wgmma.mma_async.sp.sync.aligned.{opcode}", registers, (128, 128), selector=selector)


def test_what_a_wgmma_reads() -> None:
    match = matched("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16")
    multiplication = warpgroup.INSTRUCTIONS[match.form.name](match)
    a, b = described(4096 + 32, 16, 1024, 128, "wgmma"), described(65536, 4096, 1024, 0, "wgmma")
    of_a, of_b = multiplication.reads(a, b, warpgroup.Immediates())
    assert sum(end - start for start, end in of_a) == 64 * 32
    assert (of_a[0][0], of_a[-1][1]) == (4096 + 32, 4096 + 8 * 1024 - 32)
    assert of_b == tuple((65536 + 1024 * i, 65536 + 1024 * i + 128) for i in range(20))
    assert multiplication.reads(np.zeros((4, 128), np.uint32), b, warpgroup.Immediates())[0] == ()


def test_every_opcode_of_the_table_is_understood() -> None:
    for form in table():
        registry: Any = matrices.MMA if form.name.startswith("mma.") else warpgroup.INSTRUCTIONS
        if not form.name.startswith(("mma.", "wgmma.mma_async.")):
            continue
        for example in form.examples:
            registry[form.name](matched(example.split()[0]))


@pytest.mark.parametrize(
    ("target", "last", "end"),
    [
        ("sm_75", "1", "fault"),
        ("sm_75", "0", "done"),
        ("sm_80", "1", "done"),
    ],
)
def test_lanes_without_a_row_must_have_valid_addresses_on_sm_75(target: str, last: str, end: str) -> None:
    body = f"""
    .shared .align 128 .b8 tile[128];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    and.b32 %r2, %r0, 7;
    shl.b32 %r3, %r2, 4;
    add.u32 %r3, %r3, %r1;
    setp.ge.u32 %p1, %r0, 8;
    @%p1 add.u32 %r3, %r1, {last};
    st.shared.u32 [%r1], %r0;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r4}}, [%r3];
    ret;
    """
    found = run_kernel(body, header=f".version 7.0\n.target {target}\n.address_size 64\n")
    assert found.execution.end == end, found.execution.reason
