"""Scalar instructions in all lanes, against ``semantics.py``, exact fractions, and an H200.

The references are written from the manual's definitions in Python ints and fractions; what the manual leaves
open (NaNs, zeros, the OOB-NaN) is as an H200 answered and is given here as literals. All but the sm_100 forms were
also compared with an H200, each in up to a hundred spellings on 4096 operands.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from tclint.executor.errors import Unsupported
from tclint.executor.formats import REGISTERS, decode, encode, types
from tclint.executor.lanes import LANES, carry, signed, sources
from tclint.executor.missing import MISSING
from tclint.isa.forms import Match
from tclint.isa.semantics import COMPUTE
from tclint.isa.table import table

Array = Any


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def matched(instruction: str) -> Match:
    """The form of *instruction*: an opcode and operands, or an opcode alone with those of its syntax."""
    opcode, _, operands = instruction.rstrip(";").partition(" ")
    if operands:
        words = re.findall(r"\{[^}]*\}|[^,\s]+", operands)
        shapes = [f"v{w.count(',') + 1}" if w[0] == "{" else _scalar(w) for w in words]
    else:
        form, syntax, binding = table().candidates(opcode)[0]
        shapes = []
        for operand in syntax.operands:
            spec = form.operands.get(operand.name)
            length = form.vector_length(spec, binding) if spec else None
            immediate = spec is not None and spec.immediates is not None
            shapes.append(f"v{length}" if length else "i" if immediate else "r")
            shapes[-1] += (
                "|r" if operand.style == "pair" and "single" not in (spec.access if spec else "") else ""
            )
    match = table().match(opcode, tuple(shapes))
    assert match is not None
    assert not match.problem, (instruction, match.problem)
    return match


def _scalar(word: str) -> str:
    if "|" in word:
        return "|".join(_scalar(part) for part in word.split("|"))
    if word.startswith("!"):
        return "n"
    return "r" if word[0] == "%" else "_" if word == "_" else "i" if word[:2] != "0d" else "f"


def column(values: list[int], dtype: np.dtype[Any]) -> Array:
    return np.array(values, dtype=dtype)


def run(instruction: str, *columns: list[int]) -> Any:
    """What the lanes hold after *instruction*, as ints; the columns are repeated to fill the 32 lanes."""
    match = matched(instruction)
    arrays = [column((list(c) * 32)[:32], d) for c, d in zip(columns, sources(match), strict=True)]
    found = LANES[match.form.name](match)(*arrays)
    length = max(map(len, columns))
    if isinstance(found, tuple):
        return tuple(f.tolist()[:length] for f in found)
    return found.tolist()[:length]


def one(instruction: str, *values: int) -> Any:
    found = run(instruction, *([v] for v in values))
    return tuple(f[0] for f in found) if isinstance(found, tuple) else found[0]


RANDOM = np.random.default_rng(20)
EDGES = (
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    -1,
    -2,
    -7,
    -8,
    -127,
    -128,
    -129,
    0x5410,
    0x8765,
)


def draws(dtype: np.dtype[Any], count: int) -> Array:
    """Numbers of all sizes, half of them at the edges of a type."""
    if dtype == bool:
        return RANDOM.integers(0, 2, count).astype(bool)
    bits = 8 * dtype.itemsize
    tops = (1 << bits - 1, (1 << bits - 1) - 1, (1 << bits) - 0x8000, (1 << bits // 2) - 1, 1 << bits // 2)
    edges = np.array([e & (1 << bits) - 1 for e in (*EDGES, *tops)], dtype=dtype)
    some = RANDOM.integers(0, 1 << bits, count, dtype=dtype) >> RANDOM.integers(0, bits, count).astype(dtype)
    return np.where(RANDOM.integers(0, 2, count).astype(bool), RANDOM.choice(edges, count), some)


# ---------------------------------------------------------------- the table and the registry

CARRY = frozenset("add.cc addc sub.cc subc mad.cc madc".split())
"""Forms that read or write CC.CF: :func:`tclint.executor.lanes.carry` computes them."""
PURE = frozenset("integer logic float half convert compare extended video".split())


def test_every_pure_form_is_here_or_has_a_reason() -> None:
    pure = {form.name for form in table() if form.family in PURE or form.name.partition(".")[0] == "mov"}
    assert pure == set(LANES) | CARRY | (pure & set(MISSING))
    assert not set(LANES) & (CARRY | set(MISSING))


def test_every_example_has_a_function_whose_sources_are_its_operands() -> None:
    for form in table():
        for example in form.examples if form.name in LANES else ():
            match = matched(example)
            assert callable(LANES[form.name](match)), example
            assert len(sources(match)) == len(match.reads), example


@pytest.mark.parametrize(
    ("instruction", "bits"),
    [
        ("add.s64", (64, 64)), ("mul.wide.u16", (16, 16)), ("mad.wide.s32", (32, 32, 64)), ("shl.b64", (64, 32)),
        ("bfe.s64", (64, 32, 32)), ("bfi.b64", (64, 64, 32, 32)), ("selp.b16", (16, 16, 1)), ("and.pred", (1, 1)),
        ("setp.lt.and.u16 %p, %h, %h, %p", (16, 16, 1)), ("slct.u64.f32", (64, 64, 32)), ("popc.b64", (64,)),
        ("lop3.or.b32", (32, 32, 32, 32, 1)), ("fma.rn.f32.bf16", (16, 16, 32)), ("sub.f32.f16", (16, 32)),
        ("set.eq.f16.f64", (64, 64)), ("cvt.rn.f16x2.e2m1x2", (8,)), ("cvt.u16.u8", (8,)),
        ("cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.f32", (32, 32, 16)), ("fma.rn.f32x2", (64, 64, 64)),
        ("mov.b128 %q, %q", (128,)),
    ],
)  # fmt: skip
def test_sources(instruction: str, bits: tuple[int, ...]) -> None:
    assert sources(matched(instruction)) == tuple(REGISTERS[b] for b in bits)


def test_signed() -> None:
    assert signed(matched("cvt.s8.u32"))
    assert signed(matched("cvt.rzi.s16.f32"))
    assert not signed(matched("cvt.u16.s8"))
    assert not signed(matched("cvt.rn.bf16x2.s2f6x2"))
    assert not signed(matched("cvt.pack.sat.s8.s32.b32"))


# ---------------------------------------------------------------- integers: what semantics.py says

INTEGERS = """
    add.s32 add.u16 add.s64 add.u16x2 add.s16x2 add.sat.s32 add.u8x4 add.sat.u8x4 sub.s32 sub.u16 sub.s64 sub.s8x4
    sub.sat.s32 mul.lo.s16 mul.lo.u32 mul.lo.s64 mul.hi.u16 mul.hi.s16 mul.hi.u32 mul.hi.s32 mul.hi.u64 mul.hi.s64
    mul.wide.u16 mul.wide.s16 mul.wide.u32 mul.wide.s32 mad.lo.s32 mad.lo.s64 mad.lo.u16 mad.hi.s32 mad.hi.u64
    mad.hi.sat.s32 mad.wide.u16 mad.wide.s16 mad.wide.u32 mad.wide.s32 mul24.lo.s32 mad24.hi.u32 sad.s32
    abs.s16 abs.s32 abs.s64 neg.s16 neg.s32 neg.s64 neg.s8x4 min.u16 min.s16 min.u32 min.s32 min.u64 min.s64
    min.relu.s32 min.u16x2 min.relu.s8x4 max.u16 max.s32 max.u32 max.s64 max.u16x2 max.relu.s16x2 max.u8x4
    popc.b32 popc.b64 clz.b32 clz.b64 bfind.u32 bfind.s32 bfind.u64 bfind.s64 bfind.shiftamt.u32 bfind.shiftamt.s64
    fns.b32 brev.b32 brev.b64 bfe.u32 bfe.s32 bfe.u64 bfe.s64 bfi.b32 bfi.b64 szext.wrap.s32 bmsk.clamp.b32
    bmsk.wrap.b32 dp4a.u32.u32 dp4a.s32.s32 dp4a.u32.s32 dp4a.s32.u32 dp2a.lo.u32.s32
    and.b16 and.b32 and.b64 and.pred or.b32 or.b64 or.pred xor.b16 xor.b32 xor.pred not.b16 not.b32 not.b64 not.pred
    cnot.b16 cnot.b32 cnot.b64 shf.l.wrap.b32 shf.r.clamp.b32 shf.l.clamp.b32 shf.r.wrap.b32 shl.b16 shl.b32 shl.b64
    shr.u16 shr.s16 shr.b16 shr.u32 shr.s32 shr.b32 shr.u64 shr.s64 prmt.b32 prmt.b32.f4e prmt.b32.ecl prmt.b32.rc16
    selp.b16 selp.b32 selp.s64 selp.f32 selp.f64 mov.b16 mov.u32 mov.f32 mov.b64 mov.pred div.u16 div.s16 div.u32
    div.s32 div.u64 div.s64 rem.u16 rem.s16 rem.u32 rem.s32 rem.u64 rem.s64
    setp.eq.b16 setp.ne.b32 setp.lt.s32 setp.lt.u32 setp.ge.s64 setp.hi.u64 setp.ls.u16 setp.le.s16
    cvt.u64.u32 cvt.u32.u64 cvt.s64.s32 cvt.u64.s32 cvt.u16.u32 cvt.s16.s8 cvt.u32.s8 cvt.s32.u8 cvt.s8.s32 cvt.u8.u8
    cvt.sat.u8.s32 cvt.sat.s16.u64 cvt.sat.u64.s64 cvt.sat.s32.u32 cvt.sat.u32.s8 cvt.sat.s64.u64
""".split()


@pytest.mark.parametrize("opcode", INTEGERS)
def test_integers(opcode: str) -> None:
    match = matched(opcode)
    columns = [draws(d, 480) for d in sources(match)]
    if opcode.startswith(("div", "rem")):
        columns[1] |= columns[1] == 0
    function, compute = LANES[match.form.name](match), COMPUTE[match.form.compute]
    for first in range(0, 480, 32):
        operands = [c[first : first + 32] for c in columns]
        kept = [o.copy() for o in operands]
        found = function(*operands)
        rows = zip(*(o.tolist() for o in operands), strict=True)
        expected = [compute(match.binding, *map(int, row)) for row in rows]
        assert found.tolist() == expected, [(row, got) for row, got in zip(rows, found.tolist(), strict=True)]
        assert all((o == k).all() for o, k in zip(operands, kept, strict=True))
        assert found.dtype == width(opcode), opcode


def width(opcode: str) -> np.dtype[Any]:
    """What holds the result, from the opcode's spelling."""
    root, *modifiers = opcode.split(".")
    if root in ("setp", "popc", "clz", "bfind"):
        return REGISTERS[1 if root == "setp" else 32]
    bits = types(tuple("." + m for m in modifiers))[0].register.itemsize * 8
    first = next(m for m in modifiers if m == "pred" or m[-1].isdigit())
    return REGISTERS[1 if first == "pred" else 2 * bits if "wide" in modifiers else bits]


def test_the_smallest_number_has_no_quotient() -> None:
    assert one("div.s32", 1 << 31, 0xFFFFFFFF) == 1 << 31
    assert one("rem.s64", 1 << 63, (1 << 64) - 1) == 0


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_division_by_zero_gives_all_ones(kind: str) -> None:
    ones = (1 << int(kind[1:])) - 1
    assert run(f"div.{kind}", [0, 1, ones], [0, 0, 0]) == [ones] * 3
    assert run(f"rem.{kind}", [0, 1, ones], [0, 0, 0]) == [ones] * 3


def test_lop3_has_every_truth_table() -> None:
    a, b, c = 0xF0F0_F0F0, 0xCCCC_CCCC, 0xAAAA_AAAA  # bit 4a + 2b + c of a byte is that of the table
    for number in range(256):
        assert one("lop3.b32", a, b, c, number) == number * 0x01010101
    assert one("lop3.or.b32", a, b, c, 0, 1) == (0, True)
    assert one("lop3.or.b32", a, b, c, 1, 0) == (0x01010101, True)
    assert one("lop3.and.b32", a, b, c, 1, 0) == (0x01010101, False)


def test_both_predicates_of_setp() -> None:
    """q is of the negated comparison; the Boolean operator is not negated (9.7.6.2)."""
    assert run("setp.lt.s32 %p|%q, %r, %r", [-1 & 0xFFFFFFFF, 2], [1, 1]) == ([True, False], [False, True])
    assert run("setp.lt.and.s32 %p|%q, %r, %r, %c", [0, 0, 2, 2], [1] * 4, [0, 1, 0, 1]) == (
        [False, True, False, False], [False, False, False, True],
    )  # fmt: skip
    assert run("setp.eq.xor.u16 %p|_, %h, %h, !%c", [3, 3], [3, 4], [1, 1]) == ([False, True], [True, False])


def test_set_and_slct() -> None:
    assert run("set.lt.u32.s32", [0xFFFFFFFF, 1], [0, 0]) == [0xFFFFFFFF, 0]
    assert run("set.ge.and.f32.u64 %f, %rd, %rd, %p", [5, 5, 4], [5, 5, 5], [1, 0, 1]) == [0x3F800000, 0, 0]
    assert run("set.eq.bf16.b16", [5, 6], [5, 5]) == [0x3F80, 0]
    assert run("set.gt.s16.f16", [0x4000, 0x3C00], [0x3C00, 0x3C00]) == [0xFFFF, 0]
    # A pair of halves: 1.0 or 16 ones for each (9.7.7.1).
    assert run("set.eq.f16x2.f16x2", [0x3C004000], [0x3C003C00]) == [0x3C000000]
    assert run("set.eq.u32.bf16x2", [0x3C004000], [0x3C004001]) == [0xFFFF0000]
    assert run("set.eq.and.u32.f16x2 %r, %a, %b, %p", [0x3C004000] * 2, [0x3C003C00] * 2, [1, 0]) == [
        0xFFFF0000,
        0,
    ]
    minus, tiny = 0x80000001, 0x80000000
    assert run("slct.b64.s32", [7] * 3, [8] * 3, [0, 5, 0x80000000]) == [7, 7, 8]
    assert run("slct.u16.f32", [7] * 4, [8] * 4, [tiny, 0x7FC00000, 0x3F800000, minus]) == [7, 8, 7, 8]
    assert run("slct.ftz.u16.f32", [7], [8], [minus]) == [7]


def test_moves_of_vectors() -> None:
    for opcode, parts in (
        ("b16", 2),
        ("b32", 2),
        ("b32", 4),
        ("b64", 2),
        ("b64", 4),
        ("b128", 2),
        ("b128", 4),
    ):
        bits = int(opcode[1:]) // parts
        whole = matched(f"mov.{opcode} %r, {{{', '.join(['%r'] * parts)}}}")
        split = matched(f"mov.{opcode} {{{', '.join(['%r'] * parts)}}}, %r")
        elements = tuple(draws(REGISTERS[bits], 32) for _ in range(parts))
        packed = LANES["mov.pack"](whole)(elements)
        assert packed.dtype == REGISTERS[bits * parts]
        assert packed.tolist() == [
            sum(int(e[i]) << bits * k for k, e in enumerate(elements)) for i in range(32)
        ]
        unpacked = LANES["mov.unpack"](split)(packed, parts)
        assert [u.dtype for u in unpacked] == [REGISTERS[bits]] * parts
        assert [u.tolist() for u in unpacked] == [e.tolist() for e in elements]
        assert all(u.flags.c_contiguous for u in unpacked)
    vector = tuple(draws(REGISTERS[32], 32) for _ in range(2))
    assert LANES["mov.vector"](matched("mov.v2.f32 {%f, %f}, {%f, %f}"))(vector) == vector


def test_mov_takes_the_width_of_its_type() -> None:
    """Special registers and addresses are as wide as they are."""
    match = matched("mov.u64")
    assert LANES["mov"](match)(np.full(32, 7, np.uint32)).dtype == np.uint64


@pytest.mark.parametrize("kind", ["u32", "s64"])
def test_carry_chains(kind: str) -> None:
    """Sums, differences and products of two words in each number, as 9.7.2 chains them."""
    bits = int(kind[1:])
    word, mask = REGISTERS[bits], (1 << bits) - 1
    a, b, c = ([int(v) for v in draws(word, 64)] for _ in range(3))
    x, y, z = (np.array(v, dtype=word).reshape(2, 32) for v in (a, b, c))
    y[1, ::2] = x[1, ::2]  # a carry or a borrow goes all the way
    y[1, ::4] = ~x[1, ::4]

    def step(opcode: str) -> Any:
        return carry(matched(f"{opcode}.{kind}"))

    unknown = np.ones(32, bool)
    numbers = [[int(v[0, i]) + (int(v[1, i]) << bits) for i in range(32)] for v in (x, y, z)]
    for first, second, sign in (("add.cc", "addc.cc", 1), ("sub.cc", "subc.cc", -1)):
        low, flag = step(first)(x[0], y[0], unknown)
        high, out = step(second)(x[1], y[1], flag)
        total = [p + sign * q for p, q in zip(numbers[0], numbers[1], strict=True)]
        assert [int(h) << bits | int(v) for h, v in zip(high, low, strict=True)] == [
            t & mask << bits | t & mask for t in total
        ]
        assert [bool(o) for o in out] == [not 0 <= t < 1 << 2 * bits for t in total]
        assert low.dtype == high.dtype == word
    low, flag = step("mad.lo.cc")(x[0], y[0], z[0], unknown)
    high, out = step("madc.hi.cc")(x[0], y[0], z[1], flag)
    half = 1 << bits - 1
    for i in range(32):
        p, q = (int(v[0, i]) - (2 * half if kind[0] == "s" and int(v[0, i]) >= half else 0) for v in (x, y))
        product = (p * q & (1 << 2 * bits) - 1) + numbers[2][i]
        assert int(high[i]) << bits | int(low[i]) == product & (1 << 2 * bits) - 1
        assert bool(out[i]) == (product >> 2 * bits > 0)


def test_carry_is_for_its_forms_alone() -> None:
    with pytest.raises(Unsupported):
        carry(matched("add.u32"))


# ---------------------------------------------------------------- number formats, by enumeration

LAYOUTS = {  # exponent bits, mantissa bits, bias; the codes above the largest number (5.2.3)
    "f16": (5, 10, 15), "bf16": (8, 7, 127), "e5m2": (5, 2, 15), "e4m3": (4, 3, 7), "e3m2": (3, 2, 3),
    "e2m3": (2, 3, 1), "e2m1": (2, 1, 1), "f32": (8, 23, 127), "f64": (11, 52, 1023), "tf32": (8, 10, 127),
}  # fmt: skip


def number(name: str, code: int) -> Fraction:
    """The value of a finite code without its sign."""
    _, mantissa, bias = LAYOUTS[name]
    exponent, fraction = divmod(code, 1 << mantissa)
    return Fraction(fraction + (1 << mantissa if exponent else 0)) * Fraction(2) ** (
        max(exponent, 1) - bias - mantissa
    )


@cache
def numbers(name: str) -> tuple[Fraction, ...]:
    """All finite magnitudes, upwards."""
    exponents, mantissa, _ = LAYOUTS[name]
    count = 1 << exponents + mantissa
    if name in ("f16", "bf16", "e5m2"):
        count -= 1 << mantissa  # infinity and NaNs
    elif name == "e4m3":
        count -= 1  # one NaN
    return tuple(number(name, code) for code in range(count))


def rounded(x: Fraction, name: str, mode: str) -> int:
    """The code of a magnitude in a format of any size; past the largest number, that of what follows it.

    *mode* is ``.rn``, ``.rna``, ``.rz``, or ``up``: away from zero.
    """
    _, mantissa, bias = LAYOUTS[name]
    exponent = 1 - bias
    if x:
        exponent = max(exponent, x.numerator.bit_length() - x.denominator.bit_length())
        exponent -= exponent > 1 - bias and Fraction(2) ** exponent > x
    steps = x / Fraction(2) ** (exponent - mantissa)
    n, rest = divmod(steps, 1)
    half = Fraction(1, 2)
    if (
        (mode == "up" and rest)
        or (mode == ".rna" and rest >= half)
        or (mode == ".rn" and (rest, n % 2) > (half, 0))
    ):
        n += 1
    return (exponent - 1 + bias << mantissa) + int(n)


def test_reference_rounds_to_the_nearest_of_all_numbers() -> None:
    for name in ("e2m1", "e3m2", "e2m3", "e4m3"):
        all_ = numbers(name)
        for k in range(0, 4000, 7):
            x = Fraction(k, 100)
            if x <= all_[-1]:
                nearest = min(range(len(all_)), key=lambda c: (abs(all_[c] - x), c % 2))
                assert rounded(x, name, ".rn") == nearest


def test_decode() -> None:
    for name in ("f16", "bf16", "e5m2", "e4m3", "e3m2", "e2m3", "e2m1"):
        exponents, mantissa, _ = LAYOUTS[name]
        bits = exponents + mantissa
        codes = np.arange(2 << bits, dtype=np.uint16 if bits > 7 else np.uint8)
        found = decode(name, codes)
        assert found.dtype == np.float32
        for code, value in enumerate(found.tolist()):
            magnitude = code & (1 << bits) - 1
            assert math.copysign(1, value) == (-1 if code >> bits else 1) or math.isnan(value)
            if magnitude < len(numbers(name)):
                assert abs(Fraction(value)) == numbers(name)[magnitude]
            elif name != "e4m3" and magnitude == len(numbers(name)):
                assert math.isinf(value)
            else:
                assert math.isnan(value)
    assert decode("ue8m0", np.array([0, 127, 254, 255], np.uint8)).tolist()[:3] == [2.0**-127, 1, 2.0**127]
    assert math.isnan(decode("ue8m0", np.array([255], np.uint8))[0])
    assert decode("s2f6", np.array([0x7F, 0x80, 0xC0], np.uint8)).tolist() == [1.984375, -2, -1]
    assert decode("ue4m3", np.array([0x7E, 0x38, 1], np.uint8)).tolist() == [448, 1, 2.0**-9]
    assert decode("tf32", np.array([0x3F801FFF], np.uint32)).tolist() == [1]
    assert decode("e2m1", np.array([0xF7], np.uint8)).tolist() == [6]  # the upper bits do not count


TOPS = {
    "f16": 0x7BFF,
    "bf16": 0x7F7F,
    "e5m2": 0x7B,
    "e4m3": 0x7E,
    "e3m2": 0x1F,
    "e2m3": 0x1F,
    "e2m1": 7,
    "tf32": 0x3FBFF,
}


def probes(name: str) -> list[float]:
    """Numbers of a format, the ties between them, and what is just beside both."""
    codes = {0, 1, 2, TOPS[name] - 1, TOPS[name], *RANDOM.integers(0, TOPS[name], 40).tolist()}
    found: list[float] = [0.0, 1e-300, 1e300, math.inf]
    for code in codes:
        low, high = number(name, code), number(name, code + 1)
        for x in (float(low), float(low + high) / 2):
            found += [
                x,
                math.nextafter(x, math.inf),
                math.nextafter(x, 0),
                x * (1 + 2**-24),
                x * (1 - 2**-24),
            ]
    return [s * x for x in found for s in (1, -1)]


@pytest.mark.parametrize("name", list(TOPS))
@pytest.mark.parametrize("mode", [".rn", ".rna", ".rz", ".rm", ".rp"])
@pytest.mark.parametrize("saturate", [False, True])
def test_encode_rounds_doubles_once(name: str, mode: str, saturate: bool) -> None:
    exponents, mantissa, _ = LAYOUTS[name]
    top = TOPS[name]
    values = probes(name)
    found = encode(name, np.array(values), mode, saturate=saturate).tolist()
    for value, got in zip(values, found, strict=True):
        negative = math.copysign(1, value) < 0
        way = mode if mode in (".rn", ".rna", ".rz") else "up" if negative == (mode == ".rm") else ".rz"
        code = rounded(abs(Fraction(value)), name, way) if math.isfinite(value) else top + 1
        if code > top:
            finite = saturate or name in ("e3m2", "e2m3", "e2m1")
            inwards = way == ".rz" and math.isfinite(value) and name != "e4m3"
            code = top if finite or inwards else top + 1
        expected = code | negative << exponents + mantissa
        assert got == (expected << 13 if name == "tf32" else expected), value
    singles = np.array(values, dtype=np.float32)
    again = encode(name, singles.astype(np.float64), mode, saturate=saturate)
    assert encode(name, singles, mode, saturate=saturate).tolist() == again.tolist()


def test_encode_of_nan_and_of_formats_without_a_sign() -> None:
    nan = np.array([math.nan, -math.nan])
    canonical = {"f16": 0x7FFF, "bf16": 0x7FFF, "e5m2": 0x7F, "e4m3": 0x7F, "ue8m0": 0xFF, "e3m2": 0x1F, "e2m3": 0x1F,
                 "e2m1": 7, "s2f6": 127}  # fmt: skip
    for name, code in canonical.items():
        for saturate in (False, True):
            assert encode(name, nan, saturate=saturate).tolist() == [code] * 2
    values = np.array(
        [0, 2.0**-127, 1.5 * 2.0**-127, 2.0**-126, 1, 1.1, 2.0**127, 1.5 * 2.0**127, math.inf, -1.1]
    )
    assert encode("ue8m0", values, ".rp").tolist() == [0, 0, 1, 1, 127, 128, 254, 255, 255, 128]
    assert encode("ue8m0", values, ".rz").tolist() == [0, 0, 0, 1, 127, 127, 254, 254, 255, 127]
    assert encode("ue8m0", values, ".rp", saturate=True).tolist()[-3:] == [254, 254, 128]
    fixed = np.array([0.0, 1 / 128, 3 / 128, -3 / 128, 1.99, 5, -1.999, -5])
    assert encode("s2f6", fixed).view(np.int8).tolist() == [0, 0, 2, -2, 127, 127, -128, -128]
    assert encode("s2f6", fixed, ".rz").view(np.int8).tolist() == [0, 0, 1, -1, 127, 127, -127, -128]
    with pytest.raises(Unsupported):
        encode("f16", fixed, ".rs")


# ---------------------------------------------------------------- floating point, in fractions

CODES = {"f16": "<e", "f32": "<f", "f64": "<d"}


def value(kind: str, pattern: int) -> float:
    """What a pattern stands for, as a double, which holds all of them."""
    if kind == "bf16":
        kind, pattern = "f32", pattern << 16
    size = int(kind[1:]) // 8
    found: float = struct.unpack(CODES[kind], pattern.to_bytes(size, "little"))[0]
    return found


def pattern(x: Fraction | float, kind: str, mode: str = ".rn", *, negative_zero: bool = False) -> int:
    """The pattern of an exact result; *negative_zero* is the sign of nothing. NaN is the canonical one."""
    exponents, mantissa, _ = LAYOUTS[kind]
    infinity = (1 << exponents) - 1 << mantissa
    sign = 1 << exponents + mantissa
    if isinstance(x, float) and not math.isfinite(x):
        return (1 << exponents + mantissa) - 1 if math.isnan(x) else infinity | (sign if x < 0 else 0)
    negative = x < 0 or (x == 0 and negative_zero)
    way = mode if mode in (".rn", ".rz") else "up" if negative == (mode == ".rm") else ".rz"
    code = rounded(abs(Fraction(x)), kind, way)
    return min(code, infinity - (way == ".rz")) | (sign if negative else 0)


def reference(name: str, x: float, y: float, z: float, kind: str, mode: str) -> int:
    """x * y + z, x / y or the square root of x, by fractions; infinities and NaNs by doubles."""
    finite = all(map(math.isfinite, (x, y, z)))
    sign = math.copysign(1, x) * math.copysign(1, y) < 0
    if name == "div":
        if finite and x and y:
            return pattern(Fraction(x) / Fraction(y), kind, mode)
        quotient = float(np.float64(x) / np.float64(y))
        return pattern(quotient, kind, mode, negative_zero=sign)
    if name == "sqrt":
        if not math.isfinite(x) or x <= 0:
            return pattern(x if x == 0 or x > 0 else math.nan, kind, mode, negative_zero=sign)
        top = Fraction(x) * 4**600  # an integer
        root = math.isqrt(int(top))
        exact = Fraction(2 * root + (root * root != top), 2 * 2**600)
        return pattern(exact, kind, mode)
    if not finite:
        return pattern(float(np.float64(x) * np.float64(y) + np.float64(z)), kind, mode)
    total = Fraction(x) * Fraction(y) + Fraction(z)
    zeros = (sign, math.copysign(1, z) < 0)
    return pattern(total, kind, mode, negative_zero=all(zeros) or (any(zeros) and mode == ".rm"))


def floats(kind: str, count: int) -> list[int]:
    """Patterns at the edges of a format, and of near exponents, and any."""
    exponents, mantissa, bias = LAYOUTS[kind]
    one_, top = bias << mantissa, ((1 << exponents) - 1) << mantissa
    edges = [0, 1, (1 << mantissa) - 1, 1 << mantissa, one_, one_ + 1, one_ - 1, one_ + (1 << mantissa), top - 1, top,
             top + 1, one_ + (1 << mantissa - 1), one_ - (mantissa + 1 << mantissa)]  # fmt: skip
    found = []
    for k in range(count):
        sign = int(RANDOM.integers(0, 2)) << exponents + mantissa
        if k % 3 == 0:
            found.append(edges[int(RANDOM.integers(0, len(edges)))] | sign)
        elif k % 3 == 1:
            found.append(int(RANDOM.integers(0, 1 << exponents + mantissa, dtype=np.uint64)) | sign)
        else:
            exponent = bias + int(RANDOM.integers(-4, 5))
            short = int(RANDOM.integers(0, 1 << mantissa)) & -(1 << int(RANDOM.integers(0, mantissa)))
            found.append((exponent << mantissa) | short | sign)
    return found


DIRECTIONS = (".rn", ".rz", ".rm", ".rp")
ARITHMETIC = [
    *((f"{op}{mode}.{kind}", op, mode, kind) for kind in ("f32", "f64") for mode in DIRECTIONS
      for op in ("add", "sub", "mul", "fma", "div", "rcp", "sqrt")),
    *((f"{op}.rn.{kind}", op, ".rn", kind) for kind in ("f16", "bf16") for op in ("add", "sub", "mul", "fma")),
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "op", "mode", "kind"), ARITHMETIC)
def test_arithmetic_rounds_once(opcode: str, op: str, mode: str, kind: str) -> None:
    count = 256 if kind == "f64" else 768
    operands = len(sources(matched(opcode)))
    columns = [floats(kind, count) for _ in range(operands)]
    if operands == 3:  # sums that nearly cancel, or nearly meet a tie
        for i in range(0, count, 5):
            columns[2][i] = pattern(-value(kind, columns[0][i]) * value(kind, columns[1][i]), kind)
    found: list[int] = []
    for first in range(0, count, 32):
        found += run(opcode, *(c[first : first + 32] for c in columns))
    one_ = LAYOUTS[kind][2] << LAYOUTS[kind][1]
    for row, got in zip(zip(*columns, strict=True), found, strict=True):
        x, *rest = (value(kind, p) for p in row)
        y = rest[0] if rest else 1.0
        if op == "rcp":
            expected = reference("div", 1.0, x, 0.0, kind, mode)
        elif op in ("add", "sub"):
            expected = reference("fma", x, value(kind, one_), y if op == "add" else -y, kind, mode)
        elif op == "mul":  # adding a zero of the product's sign changes nothing
            expected = reference(
                "fma", x, y, math.copysign(0, math.copysign(1, x) * math.copysign(1, y)), kind, mode
            )
        else:
            expected = reference(op, x, y, rest[1] if op == "fma" else 0.0, kind, mode)
        if kind == "f64" and math.isnan(value(kind, expected)):
            assert math.isnan(value(kind, got))  # its payload is up to the hardware
        else:
            assert got == expected, [hex(p) for p in row]


F = {
    name: pattern(x, "f32")
    for name, x in {"1": 1.0, "2^-24": 2.0**-24, "2^-60": 2.0**-60, "1+": 1 + 2.0**-23}.items()
}


def test_fma_is_not_fooled_by_double_rounding() -> None:
    """1 + 2^-24 is a tie, which what is added beyond the 53rd bit decides."""
    tie, tiny = pattern(2.0**-12, "f32"), F["2^-60"]
    for kind, half, last in (
        ("f32", 2.0**-24, 2.0**-23),
        ("f16", 2.0**-11, 2.0**-10),
        ("bf16", 2.0**-8, 2.0**-7),
    ):
        smallest = {"f32": 2.0**-140, "f16": 2.0**-24, "bf16": 2.0**-130}[kind]
        above = pattern(1 + half + smallest, kind)
        x, y = pattern(1 + last, kind), pattern(1 - half, kind)
        product = Fraction(1 + last) * Fraction(1 - half)
        for addend in (smallest, -smallest):
            found = one(f"fma.rn.{kind}", x, y, pattern(addend, kind))
            assert found == pattern(product + Fraction(addend), kind)
        assert above in (pattern(1.0, kind), pattern(1 + last, kind))
    assert one("fma.rn.f32", tie, tie, F["1"]) == one("fma.rn.ftz.f32", tie, tie, F["1"]) == F["1"]
    assert one("fma.rn.ftz.f32", F["1+"], pattern(1 - 2.0**-24, "f32"), TINY) == F["1"]
    assert one("fma.rn.f32", F["1+"], pattern(1 - 2.0**-24, "f32"), TINY) == F["1"]
    assert one("fma.rn.f32.f16", 0x0C00, 0x0C00, F["1"]) == F["1"]
    assert one("fma.rn.f32x2", tie << 32 | tiny, tie << 32 | tiny, F["1"] << 32 | tiny) == F["1"] << 32 | tiny


def test_packed_forms_are_two_scalar_ones() -> None:
    for kind, bits in (("f16", 16), ("bf16", 16), ("f32", 32)):
        for op, count in (
            ("add", 2),
            ("mul", 2),
            ("fma.rn", 3),
            *(() if bits == 32 else (("max", 2), ("neg", 1))),
        ):
            low, high = ([floats(kind, 32) for _ in range(count)] for _ in range(2))
            both = [
                [h << bits | v for v, h in zip(*pair, strict=True)] for pair in zip(low, high, strict=True)
            ]
            expected = zip(run(f"{op}.{kind}", *low), run(f"{op}.{kind}", *high), strict=True)
            assert run(f"{op}.{kind}x2", *both) == [h << bits | v for v, h in expected], (op, kind)


def test_mixed_precision() -> None:
    for half in ("f16", "bf16"):
        a, b, c = floats(half, 96), floats(half, 96), floats("f32", 96)
        for first in range(0, 96, 32):
            columns = [v[first : first + 32] for v in (a, b, c)]
            x, y, z = ([value(k, p) for p in v] for k, v in zip((half, half, "f32"), columns, strict=True))
            for mode in DIRECTIONS:
                found = run(f"fma{mode}.f32.{half}", *columns)
                assert found == [reference("fma", *row, "f32", mode) for row in zip(x, y, z, strict=True)]
                found = run(f"sub{mode}.f32.{half}", columns[0], columns[2])
                assert found == [reference("fma", p, 1.0, -r, "f32", mode) for p, r in zip(x, z, strict=True)]
                found = run(f"add{mode}.f32.{half}", columns[0], columns[2])
                assert found == [reference("fma", p, 1.0, r, "f32", mode) for p, r in zip(x, z, strict=True)]


# Of e4m3, 0x38 is 1, 0x39 is 1.125, 0x58 is 16 and 0x7e is 448, the largest; of e5m2, 0x3c is 1 and 0x7b is 57344.
SMALL = [
    # 1 + 1 = 2; 1.5 + 2**-9 = 1.5; 16 + 1 is midway between 16 and 18, and 16 is even; 16 + 1.125 is nearer to 18
    ("add.rn.e4m3x4.e4m3x4", (0x58583C38, 0x39380138), 0x59583C40),
    ("add.rn.satfinite.e4m3x4.e4m3x4", (0x7EFE7E38, 0x7EFEFE00), 0x7EFE0038),
    ("add.e5m2x4.e5m2x4", (0x7BFB7C01, 0x7BFB3C01), 0x7CFC7C02),
    ("add.e5m2x4.e5m2x4.satfinite", (0x7BFB7CFC, 0x7BFB3C3C), 0x7BFB7BFB),
    # 1 - 1 = +0; 448 - 2**-16 = 448; 1 + 1 = 2; -0 - +0 = -0
    ("sub.e5m2x4.e4m3x4", (0x80387E38, 0x00BC013C), 0x80405F00),
    # the nibbles of a, lowest first: 1, 2, 6 and -0.5; other bits of a padded byte do not count
    ("add.e4m3x4.e2m1x4", (0x9742, 0x38383838), 0x304E4440),
    ("add.e4m3x4.e2m1p4x4", (0xF9A75402, 0x38383838), 0x304E4440),
    # e3m2 by ue8m0: 28 * 2 = 56; 2**-4 * 2**-10 = 0; 1 * 2**-127 = 0; -28 * 16 = -448
    ("mul.e4m3x4.e3m2x4.ue8m0x4", (0x3F0C011F, 0x83007580), 0xFE000066),
    # e2m3 by e2m1: 7.5 * 6 = 45, nearest to 44; 1 * -0.5; 0.125 * 1.5; 7.5 * 0 = 0
    ("mul.e4m3x4.e2m3x4.e2m1x4", (0x1F01081F, 0x0397), 0x0024B063),
    # 1.125 in e5m2 is midway between 1 and 1.25: 2**-16 more or less decides, and so does the even neighbour
    ("fma.e5m2x4.e4m3x4.e4m3x4", (0x39393939, 0x38383838, 0x80008101), 0x3C3C3C3D),
    ("fma.rn.satfinite.e4m3x4.e4m3x4.e5m2x4", (0x7EFE3838, 0x7B7B3C3C, 0x38385880), 0x7EFE5838),
]


@pytest.mark.parametrize(("opcode", "values", "expected"), SMALL)
def test_arithmetic_of_four_small_floats(opcode: str, values: tuple[int, ...], expected: int) -> None:
    """9.7.6.1 to 9.7.6.4 of PTX ISA 9.4."""
    assert f"{one(opcode, *values):08x}" == f"{expected:08x}"


def test_small_floats_become_nan_where_the_manual_requires_it() -> None:
    """An overflow of ``e4m3`` without ``.satfinite``, NaN as a source, and what IEEE 754 leaves undefined."""
    nans = [
        ("add.e4m3x4.e4m3x4", (0x7EFEFF7F, 0x7EFE3838), "e4m3"),
        ("mul.satfinite.e4m3x4.ue8m0x4.e5m2x4", (0xFFFFFF7F, 0x3C003C7F), "e4m3"),
        ("sub.satfinite.e5m2x4.e5m2x4", (0x7CFC7E7C, 0x7CFC3C7C), "e5m2"),
        ("fma.e5m2x4.e5m2x4.e2m1p4x4", (0x7CFC7C7C, 0x00000000, 0x3C3C3C3C), "e5m2"),
    ]
    for opcode, values, kind in nans:
        result = np.array([one(opcode, *values)], np.uint32).view(np.uint8)
        assert np.isnan(decode(kind, result)).all(), opcode


@pytest.mark.parametrize(
    ("opcode", "values", "expected"),
    [
        ("set.lt.u8x4", (0x01FF7F80, 0x02007F81), 0xFF0000FF),
        ("set.lt.s8x4", (0x01FF7F80, 0x02007F81), 0xFFFF00FF),
        ("set.ge.s16x2", (0x80007FFF, 0x0001FFFF), 0x0000FFFF),
        ("set.hs.u16x2", (0x80007FFF, 0x0001FFFF), 0xFFFF0000),
        ("set.ne.s8x4", (0x01FF7F80, 0x02FF7F81), 0xFF0000FF),
    ],
)
def test_comparisons_of_packed_integers(opcode: str, values: tuple[int, ...], expected: int) -> None:
    """9.7.7.1 of PTX ISA 9.4: all ones where the comparison holds."""
    assert f"{one(opcode, *values):08x}" == f"{expected:08x}"


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(kind: str, op: str) -> None:
    """9.3.1.2: the ordered ones are false for NaN, those with a u true."""
    a, b = floats(kind, 32), floats(kind, 32)
    a[:8] = b[:8]
    holds = {"eq": float.__eq__, "ne": float.__ne__, "lt": float.__lt__, "le": float.__le__, "gt": float.__gt__,
             "ge": float.__ge__}[op]  # fmt: skip
    pairs = [(value(kind, x), value(kind, y)) for x, y in zip(a, b, strict=True)]
    nan = [math.isnan(x) or math.isnan(y) for x, y in pairs]
    plain = [holds(x, y) for x, y in pairs]
    assert run(f"setp.{op}.{kind} %p, %a, %b", a, b) == [p and not n for p, n in zip(plain, nan, strict=True)]
    assert run(f"setp.{op}u.{kind} %p, %a, %b", a, b) == [p or n for p, n in zip(plain, nan, strict=True)]
    assert run(f"setp.num.{kind} %p, %a, %b", a, b) == [not n for n in nan]
    assert run(f"setp.nan.{kind} %p, %a, %b", a, b) == nan


def test_pairs_of_half_precision_comparisons() -> None:
    assert one("setp.lt.f16x2 %p|%q, %a, %b", 0x3C004000, 0x40003C00) == (False, True)
    assert one("setp.lt.or.bf16x2 %p|%q, %a, %b, %c", 0x3C004000, 0x40003C00, 1) == (True, True)
    assert one("setp.lt.f16x2 %p, %a, %b", 0x3C004000, 0x40003C00) is False


@pytest.mark.parametrize(("kind", "bits"), [("f32", 32), ("f64", 64), ("f16", 16), ("bf16", 16)])
def test_extremes(kind: str, bits: int) -> None:
    """A NaN gives way to a number; -0 is less than +0 (9.7.3.11)."""
    a, b = floats(kind, 320), floats(kind, 320)
    for name, sign in (("max", 1), ("min", -1)):
        found: list[int] = []
        for first in range(0, 320, 32):
            found += run(f"{name}.{kind}", a[first : first + 32], b[first : first + 32])
        for p, q, got in zip(a, b, found, strict=True):
            x, y = value(kind, p), value(kind, q)
            if math.isnan(x) and math.isnan(y):
                assert math.isnan(value(kind, got))
                continue
            key = (sign * x, sign * math.copysign(1, x)), (sign * y, sign * math.copysign(1, y))
            assert got == (q if math.isnan(x) else p if math.isnan(y) else p if key[0] >= key[1] else q)


ONE, NAN, TINY, INF = 0x3F800000, 0x7FFFFFFF, 0x00000001, 0x7F800000
SIGN = 0x80000000

HARDWARE = [  # an H200's answers, where the manual leaves them open or could be read in two ways
    ("add.f32", (0x7F800001, ONE), NAN),
    ("add.f32", (INF, INF | SIGN), NAN),
    ("fma.rn.f32", (0, INF, ONE), NAN),
    ("mul.f16", (0x0000, 0x7C00), 0x7FFF),
    ("add.bf16", (0xFFC0, 0x3F80), 0x7FFF),
    ("add.rm.f32", (ONE, ONE | SIGN), SIGN),
    ("add.rn.f32", (ONE, ONE | SIGN), 0),
    ("add.rz.f32", (0x7F7FFFFF, 0x7F7FFFFF), 0x7F7FFFFF),
    ("add.ftz.f32", (0x807FFFFF, SIGN), SIGN),
    ("mul.ftz.f32", (0x007FFFFF, 0x7F000000), 0),
    ("add.ftz.f16", (0x03FF, 0x8001), 0),
    ("mul.sat.f32", (0xFFC00000, ONE), 0),
    ("add.sat.f32", (SIGN, SIGN), 0),
    ("add.sat.f32", (ONE, ONE), ONE),
    ("fma.rn.relu.f16", (0xBC00, 0x3C00, 0x0000), 0),
    ("fma.rn.relu.bf16", (0xBF80, 0x3F80, 0x0000), 0),
    ("fma.rn.relu.bf16", (0x7FC0, 0x3F80, 0x0000), 0x7FFF),
    ("fma.rn.oob.f16", (0x7FF7, 0x3C00, 0x3C00), 0),
    ("fma.rn.oob.bf16", (0x3F80, 0xFFF7, 0x3F80), 0),
    ("fma.rn.oob.f16", (0x3C00, 0x3C00, 0x7FF7), 0x7FFF),
    ("fma.rn.oob.f16x2", (0x7FF73C00, 0x3C003C00, 0x3C003C00), 0x00004000),
    ("max.f32", (NAN, NAN | SIGN), NAN),
    ("max.f32", (0x7F800001, ONE | SIGN), ONE | SIGN),
    ("max.NaN.f32", (0x7F800001, ONE), NAN),
    ("max.ftz.f32", (0x807FFFFF, 0xBF800000), SIGN),
    ("min.f32", (0, SIGN), SIGN),
    ("max.xorsign.abs.f32", (0xC0000000, ONE), 0xC0000000),
    ("max.xorsign.abs.f32", (0xC0000000, ONE | SIGN), 0x40000000),
    ("max.NaN.xorsign.abs.bf16x2", (0x3F80BF80, 0xC0007FC1), 0xC0007FFF),
    ("abs.ftz.f32", (0x807FFFFF,), 0),
    ("neg.ftz.f32", (0x807FFFFF,), 0),
    ("neg.f16", (0x3C01,), 0xBC01),
    ("neg.bf16x2", (0x3F80BF80,), 0xBF803F80),
    ("abs.f64", (0xFFF8000000000001,), 0xFFF8000000000001),
    ("abs.f64", (0xBFF0000000000000,), 0x3FF0000000000000),
    ("copysign.f32", (SIGN, 0x3FC00000), 0xBFC00000),
    ("copysign.f64", (0, 0xBFF8000000000000), 0x3FF8000000000000),
    ("testp.normal.f32", (SIGN,), True),
    ("testp.normal.f32", (TINY,), False),
    ("testp.subnormal.f32", (0x807FFFFF,), True),
    ("testp.subnormal.f32", (0,), False),
    ("testp.finite.f64", (0x7FF0000000000000,), False),
    ("testp.infinite.f32", (INF | SIGN,), True),
    ("testp.number.f32", (0xFF800001,), False),
    ("testp.notanumber.f32", (0xFF800001,), True),
    ("div.approx.f32", (ONE, 0x7F000000), 0),
    ("div.approx.f32", (INF, 0x7F000000), NAN),
    ("div.approx.f32", (ONE | SIGN, 0x7E800000), 0x80800000),
    ("div.full.f32", (ONE, 0x7F000000), 0x00400000),
    ("rcp.approx.ftz.f32", (0x80000001,), 0xFF800000),
    ("rcp.approx.f32", (INF | SIGN,), SIGN),
    ("sqrt.approx.f32", (SIGN,), SIGN),
    ("sqrt.approx.f32", (ONE | SIGN,), NAN),
    ("rsqrt.approx.f32", (SIGN,), 0xFF800000),
    ("rsqrt.approx.f32", (INF,), 0),
    ("rcp.approx.ftz.f64", (0x8000000000000001,), 0xFFF0000000000000),
    ("rcp.approx.ftz.f64", (0x000FFFFFFFFFFFFF,), 0x7FF0000000000000),
    ("rcp.approx.ftz.f64", (0x4000000012345678,), 0x3FE0000000000000),
    ("rcp.approx.ftz.f64", (0xFFF8000000000000,), 0x7FFFFFFF00000000),
    ("rsqrt.approx.ftz.f64", (0x4010000000000000,), 0x3FE0000000000000),
    ("rsqrt.approx.f64", (0x4010000000000000,), 0x3FE0000000000000),
    ("sin.approx.f32", (SIGN,), SIGN),
    ("sin.approx.f32", (INF,), NAN),
    ("cos.approx.f32", (SIGN,), ONE),
    ("lg2.approx.f32", (SIGN,), 0xFF800000),
    ("lg2.approx.f32", (0x80000001,), NAN),
    ("lg2.approx.ftz.f32", (0x80000001,), 0xFF800000),
    ("ex2.approx.f32", (0xFF800000,), 0),
    ("ex2.approx.ftz.f32", (TINY,), ONE),
    ("ex2.approx.ftz.f32", (0xC3000000,), 0),
    ("ex2.approx.f32", (0xC3000000,), 0x00200000),
    ("tanh.approx.f32", (0xFF800000,), ONE | SIGN),
    ("tanh.approx.f32", (TINY,), TINY),
    ("tanh.approx.f16x2", (0x7C00FC00,), 0x3C00BC00),
    ("ex2.approx.f16", (0xFC00,), 0),
    ("ex2.approx.ftz.bf16x2", (0x7F800000,), 0x7F803F80),
    ("cvt.rzi.s32.f32", (0x7FC00000,), 0),
    ("cvt.rzi.s32.f64", (0x7FF8000000000000,), 0x80000000),
    ("cvt.rzi.u64.f32", (0x7FC00000,), 1 << 63),
    ("cvt.rni.u8.f16", (0x7E00,), 0),
    ("cvt.rni.s64.f16", (0x7E00,), 1 << 63),
    ("cvt.rzi.u32.f32", (ONE | SIGN,), 0),
    ("cvt.rzi.s32.f32", (0x4F000000,), 0x7FFFFFFF),
    ("cvt.rni.s8.f32", (0xC3010000,), 0x80),
    ("cvt.rzi.u64.f64", (0x43F0000000000000,), (1 << 64) - 1),
    ("cvt.rpi.ftz.s32.f32", (TINY,), 0),
    ("cvt.rpi.s32.f32", (TINY,), 1),
    ("cvt.f32.f16", (0x7E00,), NAN),
    ("cvt.rmi.f32.f32", (0x7F800001,), NAN),
    ("cvt.f32.bf16", (0x7F81,), 0x7F810000),
    ("cvt.rn.ftz.f32.f64", (0xB7D0000000000000,), SIGN),
    ("cvt.rn.f32.f64", (0xB7D0000000000000,), 0x80080000),
    ("fma.rn.ftz.f32", (0x7F800001, ONE, TINY), NAN),
    ("cvt.f64.f32", (0xFF800001,), 0xFFF8000020000000),
    ("cvt.sat.f32.f32", (0x7FC00000,), 0),
    ("cvt.sat.f32.f32", (SIGN,), 0),
    ("cvt.rn.relu.bf16.f32", (SIGN,), 0),
    ("cvt.rn.relu.bf16.f32", (0xFFC00000,), 0x7FFF),
    ("cvt.rn.bf16.f32", (0x7F7FFFFF,), 0x7F80),
    ("cvt.rn.satfinite.bf16x2.f32", (INF, INF | SIGN), 0x7F7FFF7F),
    ("cvt.rn.bf16x2.f32", (ONE, 0x40000000), 0x3F804000),
    ("cvt.rz.f16x2.f32", (0x47800000, 0x33000000), 0x7BFF0000),
    ("cvt.rna.tf32.f32", (0x3F801000,), 0x3F802000),
    ("cvt.rn.tf32.f32", (0x3F801000,), 0x3F800000),
    ("cvt.rn.satfinite.e4m3x2.f32", (0x43E80000, 0xC4000000), 0x7EFE),
    ("cvt.rn.satfinite.e5m2x2.f32", (NAN, 0x80000000), 0x7F80),
    ("cvt.rn.satfinite.relu.e4m3x2.f16x2", (0xBC003C00,), 0x0038),
    ("cvt.rn.f16x2.e4m3x2", (0x7FB8,), 0x7FFFBC00),
    ("cvt.rn.f16x2.e5m2x2", (0xFC3C,), 0xFC003C00),
    ("cvt.pack.sat.s16.s32", (0x12345, 0xFFFF0000), 0x7FFF8000),
    ("cvt.pack.sat.u8.s32.b32", (300, 0xFFFFFFFF, 0xABCD1234), 0x1234FF00),
    ("cvt.pack.sat.s4.s32.b32", (7, 0xFFFFFFF0, 0x123456), 0x12345678),
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "operands", "result"), HARDWARE)
def test_as_the_hardware(opcode: str, operands: tuple[int, ...], result: int) -> None:
    assert one(opcode, *operands) == result


ALIKE = [  # forms of sm_100 and later, from the manual: 9.7.9.21, 5.2.3, 5.2.4
    ("min.f32 %d, %a, %b, %c", (ONE, NAN, 0xC0000000), 0xC0000000),
    ("max.NaN.abs.f32 %d, %a, %b, %c", (ONE, ONE, 0xC0000000), 0x40000000),
    ("max.NaN.f32 %d, %a, %b, %c", (ONE, 0x7FC00000, ONE), NAN),
    ("cvt.rn.satfinite.e2m1x2.f32", (0x40A00000, 0xBF000000), 0x69),
    ("cvt.rn.satfinite.e2m1x2.f32", (NAN, 0xFF800000), 0x7F),
    ("cvt.rn.satfinite.e3m2x2.f32", (ONE, 0xC2000000), 0x0C3F),
    ("cvt.rn.satfinite.e2m3x2.f16x2", (0x3C00C800,), 0x083F),
    ("cvt.rn.satfinite.relu.e2m1x2.bf16x2", (0xBF804000,), 0x04),
    ("cvt.rn.f16x2.e2m1x2", (0x2F,), 0x3C00C600),
    ("cvt.rn.f16x2.e3m2x2", (0x0C20,), 0x3C008000),
    ("cvt.rn.bf16x2.e4m3x2", (0x38B8,), 0x3F80BF80),
    ("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2", (0x3838, 0x807E), 0x40003F00),
    ("cvt.rp.satfinite.ue8m0x2.f32", (0x3F800001, INF), 0x80FE),
    ("cvt.rz.ue8m0x2.bf16x2", (0x3FC07FC0,), 0x7FFF),
    ("cvt.rn.bf16x2.ue8m0x2", (0x7F00,), 0x3F800040),
    ("cvt.rn.satfinite.s2f6x2.f32", (ONE, 0xC0400000), 0x4080),
    ("cvt.rn.satfinite.relu.s2f6x2.bf16x2", (0xBF807FC0,), 0x007F),
    ("cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.f32", (0x40000000, ONE, 0x807E), 0x407F),
    ("cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.bf16x2", (0x40003F80, 0x807E), 0x407F),
    ("cvt.rn.scaled::n2::ue8m0.bf16x2.s2f6x2", (0x40C0, 0x807F), 0x4000BF80),
    ("add.rz.ftz.f32x2", (0x0000000133800000, 0x000000013F800000), 0x000000003F800000),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "operands", "result"), ALIKE)
def test_as_the_manual(instruction: str, operands: tuple[int, ...], result: int) -> None:
    assert one(instruction, *operands) == result


def test_approximations_are_within_the_manuals_bounds() -> None:
    """9.7.3.8 to 9.7.3.22, 9.7.4.9 and 9.7.4.10."""
    xs = [float(np.float32(x)) for x in (*RANDOM.uniform(-6, 6, 24), *RANDOM.uniform(-300, 300, 8))]
    positive = [abs(x) for x in xs]
    for opcode, function, operands, relative, absolute in (
        ("sin.approx.f32", math.sin, xs, 0.0, 2.0**-20.5),
        ("cos.approx.ftz.f32", math.cos, xs, 0.0, 2.0**-20.5),
        ("lg2.approx.ftz.f32", math.log2, positive, 2.0**-22, 2.0**-22),
        ("ex2.approx.ftz.f32", lambda x: 2.0**x, [x / 4 for x in xs], 2.0**-22, 0.0),
        ("tanh.approx.f32", math.tanh, xs, 2.0**-11, 0.0),
        ("rsqrt.approx.f32", lambda x: 1 / math.sqrt(x), positive, 2.0**-22.9, 0.0),
        ("sqrt.approx.ftz.f32", math.sqrt, positive, 2.0**-23, 0.0),
        ("rcp.approx.f32", lambda x: 1 / x, xs, 2.0**-23, 0.0),
    ):
        found = run(opcode, [pattern(x, "f32") for x in operands])
        for x, got in zip(operands, found, strict=True):
            exact = function(value("f32", pattern(x, "f32")))
            assert abs(value("f32", got) - exact) <= max(abs(exact) * relative, absolute), (opcode, x)
    doubles = [pattern(x, "f64") for x in positive]
    for opcode, function in (
        ("rcp.approx.ftz.f64", lambda x: 1 / x),
        ("rsqrt.approx.ftz.f64", lambda x: 1 / math.sqrt(x)),
    ):
        for p, got in zip(doubles, run(opcode, doubles), strict=True):
            assert got & 0xFFFFFFFF == 0
            assert value("f64", got) == pytest.approx(function(value("f64", p)), rel=2.0**-19)
    for kind, tanh, ex2 in (("f16", 2.0**-10.987, 2.0**-9.9), ("bf16", 2.0**-8, 2.0**-7)):
        halves = [pattern(x / 2, kind) for x in xs[:24]]
        ftz = ".ftz" if kind == "bf16" else ""
        tanhs, powers = run(f"tanh.approx.{kind}", halves), run(f"ex2.approx{ftz}.{kind}", halves)
        for half, t, power in zip(halves, tanhs, powers, strict=True):
            x = value(kind, half)
            assert abs(value(kind, t) - math.tanh(x)) <= tanh
            assert abs(value(kind, power) - 2**x) <= ex2 * 2**x


# ---------------------------------------------------------------- conversions between numbers

ROUND: dict[str, Any] = {".rni": round, ".rzi": math.trunc, ".rmi": math.floor, ".rpi": math.ceil}


@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("of", ["f16", "bf16", "f32", "f64"])
def test_float_to_integer(to: str, of: str) -> None:
    if of == "bf16" and to[1:] == "8":
        pytest.skip("no ptxas has it")
    bits = int(to[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    near = [
        pattern(s * (x + d), of)
        for x in (low, high, 0)
        for d in (-1, -0.5, 0, 0.5, 1, 1.5, 2.5)
        for s in (1, -1)
    ]
    patterns = [*near, *floats(of, 54)]
    for mode, integral in ROUND.items():
        found: list[int] = []
        for first in range(0, len(patterns), 32):
            found += run(f"cvt{mode}.{to}.{of}", patterns[first : first + 32])
        for p, got in zip(patterns, found, strict=True):
            x = value(of, p)
            if math.isnan(x):
                expected = 1 << bits - 1 if 64 in (bits, int(of.lstrip("bf"))) else 0
            else:
                expected = min(max(integral(x), low), high) if math.isfinite(x) else high if x > 0 else low
            assert got == expected & (1 << bits) - 1, (mode, x)


@pytest.mark.parametrize("of", ["u8", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
def test_integer_to_float(of: str, to: str) -> None:
    if to == "bf16" and of[1:] == "8":
        pytest.skip("no ptxas has it")
    bits = int(of[1:])
    columns = [int(v) for v in draws(REGISTERS[bits], 128)]
    for mantissa in (8, 11, 24, 53):  # ties, and just beside them
        if bits > mantissa + 8:
            tie = ((1 << mantissa) + 1) << bits - mantissa - 3
            columns += [tie, tie + 1, tie - 1, -tie & (1 << bits) - 1, (-tie - 1) & (1 << bits) - 1]
    for mode in DIRECTIONS:
        found: list[int] = []
        for first in range(0, len(columns), 32):
            found += run(f"cvt{mode}.{to}.{of}", columns[first : first + 32])
        for v, got in zip(columns, found, strict=True):
            exact = v - (1 << bits) if of[0] == "s" and v >> bits - 1 else v
            assert got == pattern(Fraction(exact), to, mode), (mode, v)


@pytest.mark.parametrize(("of", "to"), [("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f64", "bf16"), ("f64", "f32"),
                                        ("f16", "bf16"), ("bf16", "f16")])  # fmt: skip
def test_narrowing(of: str, to: str) -> None:
    mantissa = LAYOUTS[to][1]
    ties = [
        pattern((number(to, c) + number(to, c + 1)) / 2, of) for c in (0, 1, 2, 1 << mantissa, 0x3C00, 0x7BFF)
    ]
    patterns = [*ties, *(t + 1 for t in ties), *(t - 1 for t in ties if t), *floats(of, 110)]
    for mode in DIRECTIONS:
        found: list[int] = []
        for first in range(0, len(patterns), 32):
            found += run(f"cvt{mode}.{to}.{of}", patterns[first : first + 32])
        for p, got in zip(patterns, found, strict=True):
            x = value(of, p)
            if math.isnan(x):
                assert math.isnan(value(to, got))
            else:
                exact = x if math.isinf(x) else Fraction(x)
                assert got == pattern(exact, to, mode, negative_zero=math.copysign(1, x) < 0), (mode, hex(p))


def test_widening_and_integral_values() -> None:
    halves = floats("f16", 32)
    for got, h in zip(run("cvt.f64.f16", halves), halves, strict=True):
        assert value("f64", got) == value("f16", h) or math.isnan(value("f16", h))
    xs = [2.5, -2.5, 0.3, -0.3, 1e10, -0.0]
    for mode, expected in ((".rni", [2, -2, 0, -0.0, 1e10, -0.0]), (".rzi", [2, -2, 0, -0.0, 1e10, -0.0]),
                           (".rmi", [2, -3, 0, -1, 1e10, -0.0]), (".rpi", [3, -2, 1, -0.0, 1e10, -0.0])):  # fmt: skip
        for kind in ("f32", "f64"):
            patterns = [pattern(x, kind, negative_zero=math.copysign(1, x) < 0) for x in xs]
            found = [value(kind, p) for p in run(f"cvt{mode}.{kind}.{kind}", patterns)]
            assert [math.copysign(1, x) for x in found] == [math.copysign(1, x) for x in expected]
            assert found == [value(kind, pattern(x, kind)) for x in expected]


@pytest.mark.parametrize(("instruction", "result"), [
    ("cvt.u32.u8", 0xFE), ("cvt.s32.s8", 0xFFFFFFFE), ("cvt.u8.u16", 0xFE), ("cvt.f32.f16", 0xC77FC000),
    ("cvt.rn.f32.s8", 0xC0000000), ("cvt.sat.u8.s16", 0),
])  # fmt: skip
def test_cvt_takes_the_low_bits_of_a_wider_register(instruction: str, result: int) -> None:
    match = matched(instruction)
    wide = np.full(32, 0x12345678_9ABCFBFE, dtype=np.uint64)
    narrow = wide.astype(sources(match)[0])
    function = LANES[match.form.name](match)
    assert function(wide).tolist() == function(narrow).tolist() == [result] * 32


HALVES = [0x7C01, 0x7DFF, 0x7E00, 0x7E01, 0x7FFF, 0xFC01, 0xFE00, 0xFFFF]
BRAIN = [0x7F81, 0x7FC0, 0x7FC1, 0x7FFF, 0xFF81, 0xFFC0, 0xFFFF]
SINGLE = [
    0x7F800001,
    0x7FBFFFFF,
    0x7FC00000,
    0x7FC00001,
    0x7FFFFFFF,
    0xFF800001,
    0xFFC00000,
    0xFFC12345,
    0xFFFFFFFF,
]
DOUBLE = [
    0x7FF0000000000001, 0x7FF7FFFFFFFFFFFF, 0x7FF8000000000000, 0x7FF8000000012345, 0x7FFFFFFFFFFFFFFF,
    0xFFF0000000000001, 0xFFF8000000000000, 0xFFF8ABCDEF012345, 0xFFFFFFFFFFFFFFFF,
]  # fmt: skip
QUIET = [x | 1 << 51 for x in DOUBLE]
LARGE = [0x7FFFFFFF]
NANS: dict[str, tuple[list[int], list[int]]] = {
    "neg.f16": (HALVES, [0x7FFF]),
    "neg.bf16": (BRAIN, [0x7FFF]),
    "neg.f16x2": ([0x7C01FE01, 0x3C00FFFF, 0xFFFFBC00], [0x7FFF7FFF, 0xBC007FFF, 0x7FFF3C00]),
    "neg.bf16x2": ([0x7C01FE01, 0x3C00FFFF, 0xFFFFBC00], [0xFC017E01, 0xBC007FFF, 0x7FFF3C00]),
    "neg.f32": (SINGLE, LARGE),
    "neg.ftz.f32": (SINGLE, LARGE),
    "neg.f64": (DOUBLE, QUIET),
    "abs.f16": (HALVES, [0x7FFF]),
    "abs.bf16": (BRAIN, [0x7FFF]),
    "abs.f16x2": ([0x7C01FE01, 0x3C00FFFF, 0xFFFFBC00], [0x7FFF7FFF, 0x3C007FFF, 0x7FFF3C00]),
    "abs.bf16x2": ([0x7C01FE01, 0x3C00FFFF, 0xFFFFBC00], [0x7C017E01, 0x3C007FFF, 0x7FFF3C00]),
    "abs.f32": (SINGLE, LARGE),
    "abs.f64": (DOUBLE, QUIET),
    "cvt.rn.tf32.f32": (SINGLE, [0x7FFFE000]),
    "cvt.rz.relu.tf32.f32": (SINGLE, [0x7FFFE000]),
    "cvt.f64.f32": (
        SINGLE,
        [
            0x7FF8000020000000, 0x7FFFFFFFE0000000, 0x7FF8000000000000, 0x7FF8000020000000, 0x7FFFFFFFE0000000,
            0xFFF8000020000000, 0xFFF8000000000000, 0xFFF82468A0000000, 0xFFFFFFFFE0000000,
        ],
    ),
    "cvt.ftz.f64.f32": (SINGLE, [0x7FFFFFFFE0000000]),
    "cvt.rn.f32.f64": (
        DOUBLE,
        [0x7FC00000, 0x7FFFFFFF, 0x7FC00000, 0x7FC00000, 0x7FFFFFFF, 0xFFC00000, 0xFFC00000, 0xFFC55E6F, 0xFFFFFFFF],
    ),
    "cvt.rn.f16.f64": (DOUBLE, [0x7E00, 0x7FFF, 0x7E00, 0x7E00, 0x7FFF, 0xFE00, 0xFE00, 0xFE2A, 0xFFFF]),
    "cvt.rp.f16.f64": (DOUBLE, [0x7E00, 0x7FFF, 0x7E00, 0x7E00, 0x7FFF, 0xFE00, 0xFE00, 0xFE2A, 0xFFFF]),
    "cvt.rn.bf16.f64": (DOUBLE, [0x7FC0, 0x7FFF, 0x7FC0, 0x7FC0, 0x7FFF, 0xFFC0, 0xFFC0, 0xFFC5, 0xFFFF]),
    "cvt.rn.f16.f32": (SINGLE, [0x7FFF]),
    "cvt.f32.f16": (HALVES, LARGE),
    "cvt.f32.bf16": (BRAIN, [x << 16 for x in BRAIN]),
    "cvt.rni.f64.f64": (DOUBLE, QUIET),
    "tanh.approx.f32": (SINGLE, LARGE),
    "sqrt.rn.f64": (DOUBLE, QUIET),
}  # fmt: skip
"""An opcode -> NaNs, and the results; a single result is that of each."""


@pytest.mark.parametrize("opcode", NANS)
def test_the_nan_is_that_of_the_hardware(opcode: str) -> None:
    """Of each conversion, negation and absolute value of a NaN, as an H200 answered (driver 580.159.04)."""
    operands, results = NANS[opcode]
    assert run(opcode, operands) == results * (len(operands) // len(results))
