"""What scalar instructions compute, against the manual's definitions bit by bit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.isa.semantics import COMPUTE, bind, widen
from tclint.isa.table import table

U8, U32, U64 = (st.integers(0, (1 << n) - 1) for n in (8, 32, 64))
AMOUNT = st.one_of(st.integers(0, 70), U32)
WIDTHS = st.sampled_from((16, 32, 64))


def binding(opcode: str) -> Mapping[str, str]:
    """What the ISA table binds for *opcode*: the functions are tested through it."""
    return next(b for form, _, b in table().candidates(opcode) if form.compute)


def run(opcode: str, *values: int) -> int:
    form, bound = next((f, b) for f, _, b in table().candidates(opcode) if f.compute)
    result = COMPUTE[form.compute](bound, *values)
    assert result >= 0
    return result


def signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def bits(value: int, width: int) -> list[int]:
    return [value >> i & 1 for i in range(width)]


def number(found: list[int]) -> int:
    return sum(bit << i for i, bit in enumerate(found))


def test_table_and_functions_name_each_other() -> None:
    # cvta and mapa need the address windows of a launch: no functions of their operands alone.
    named = {form.compute for form in table()} - {"", "cvta", "cvta.to", "mapa", "unpack"}
    assert named == set(COMPUTE) - {"setp.q"}


@given(U64, U64, WIDTHS, st.sampled_from("us"))
def test_sums_and_choices(a: int, b: int, width: int, sign: str) -> None:
    mask, type_ = (1 << width) - 1, f".{sign}{width}"
    a, b = a & mask, b & mask
    x, y = (signed(a, width), signed(b, width)) if sign == "s" else (a, b)
    assert run("add" + type_, a, b) == (x + y) & mask
    assert run("sub" + type_, a, b) == (x - y) & mask
    assert run("min" + type_, a, b) == min(x, y) & mask
    assert run("max" + type_, a, b) == max(x, y) & mask
    assert run("sad" + type_, a, b, 5) == (abs(x - y) + 5) & mask
    assert run("mul.lo" + type_, a, b) == x * y & mask
    assert run("mul.hi" + type_, a, b) == x * y >> width & mask
    assert run("mad.lo" + type_, a, b, 7) == (x * y + 7) & mask
    if width < 64:
        assert run("mad.wide" + type_, a, b, 7) == (x * y + 7) & ((1 << 2 * width) - 1)
    assert run(f"selp.b{width}", a, b, 1) == a
    assert run(f"selp.b{width}", a, b, 0) == b
    if sign == "s":
        assert run("abs" + type_, a) == abs(x) & mask
        assert run("neg" + type_, a) == -x & mask


@given(U64, U64, WIDTHS, st.sampled_from("us"))
def test_division_rounds_towards_zero(a: int, b: int, width: int, sign: str) -> None:
    mask = (1 << width) - 1
    a, b = a & mask, b & mask
    if b == 0:
        with pytest.raises(ZeroDivisionError):
            run(f"div.{sign}{width}", a, b)
        return
    x, y = (signed(a, width), signed(b, width)) if sign == "s" else (a, b)
    quotient, remainder = run(f"div.{sign}{width}", a, b), run(f"rem.{sign}{width}", a, b)
    assert (quotient * y + remainder - a) & mask == 0
    remainder = signed(remainder, width) if sign == "s" else remainder
    assert abs(remainder) < abs(y)
    assert remainder == 0 or (remainder < 0) == (x < 0)


def test_saturation() -> None:
    assert run("add.sat.s32", 0x7FFFFFFF, 1) == 0x7FFFFFFF
    assert run("sub.sat.s32", 0x80000000, 1) == 0x80000000
    assert run("mad.hi.sat.s32", 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF) == 0x7FFFFFFF
    assert run("add.sat.u8x4", 0xFF_01_80_00, 0x01_01_80_00) == 0xFF_02_FF_00
    assert run("add.u16x2", 0xFFFF_0001, 0x0001_0001) == 0x0000_0002
    assert run("min.relu.s16x2", 0xFFFF_0005, 0x0003_0004) == 0x0000_0004


@given(U32, U32, U32, st.sampled_from("us"))
def test_24_bit_products(a: int, b: int, c: int, sign: str) -> None:
    x, y = ((signed(v, 24) if sign == "s" else v & 0xFFFFFF) for v in (a, b))
    assert run(f"mul24.lo.{sign}32", a, b) == x * y & 0xFFFFFFFF
    assert run(f"mad24.hi.{sign}32", a, b, c) == ((x * y >> 16) + c) & 0xFFFFFFFF


@given(U32, U32, U32, st.sampled_from("us"), st.sampled_from("us"))
def test_dot_products(a: int, b: int, c: int, sa: str, sb: str) -> None:
    def parts(value: int, width: int, sign: str) -> list[int]:
        found = [value >> i & ((1 << width) - 1) for i in range(0, 32, width)]
        return [signed(v, width) for v in found] if sign == "s" else found

    bytes_ = parts(b, 8, sb)
    expected = c + sum(map(operator.mul, parts(a, 8, sa), bytes_))
    assert run(f"dp4a.{sa}32.{sb}32", a, b, c) == expected & 0xFFFFFFFF
    for mode, half in ((".lo", bytes_[:2]), (".hi", bytes_[2:])):
        expected = c + sum(map(operator.mul, parts(a, 16, sa), half))
        assert run(f"dp2a{mode}.{sa}32.{sb}32", a, b, c) == expected & 0xFFFFFFFF


@given(U64, U64, WIDTHS)
def test_logic(a: int, b: int, width: int) -> None:
    mask = (1 << width) - 1
    for name, operation in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        assert run(f"{name}.b{width}", a, b) == operation(a, b) & mask
    assert run(f"not.b{width}", a) == ~a & mask
    assert run(f"cnot.b{width}", a) == (a & mask == 0)
    assert run("not.pred", 1) == 0
    assert run("and.pred", 1, 1) == 1


@given(U64, AMOUNT, WIDTHS)
def test_shifts_clamp_the_amount(a: int, n: int, width: int) -> None:
    mask, limited = (1 << width) - 1, min(n, width)
    a &= mask
    assert run(f"shl.b{width}", a, n) == a << limited & mask
    assert run(f"shr.u{width}", a, n) == run(f"shr.b{width}", a, n) == a >> limited
    assert run(f"shr.s{width}", a, n) == signed(a, width) >> limited & mask


@given(U32, U32, AMOUNT)
def test_funnel_shift(a: int, b: int, c: int) -> None:
    for mode, n in (("clamp", min(c, 32)), ("wrap", c & 31)):
        assert run(f"shf.l.{mode}.b32", a, b, c) == (b << n | a >> (32 - n)) & 0xFFFFFFFF
        assert run(f"shf.r.{mode}.b32", a, b, c) == (b << (32 - n) | a >> n) & 0xFFFFFFFF


@given(U64, AMOUNT, AMOUNT, st.sampled_from((".u32", ".s32", ".u64", ".s64")))
def test_bit_field_extract(a: int, b: int, c: int, type_: str) -> None:
    top = int(type_[2:]) - 1
    source, position, length = bits(a, top + 1), b & 255, c & 255
    sign = 0 if type_[1] == "u" or length == 0 else source[min(position + length - 1, top)]
    expected = [source[position + i] if i < length and position + i <= top else sign for i in range(top + 1)]
    assert run("bfe" + type_, a, b, c) == number(expected)


@given(U64, U64, AMOUNT, AMOUNT, st.sampled_from((32, 64)))
def test_bit_field_insert(a: int, b: int, c: int, n: int, width: int) -> None:
    source, expected, position, length = bits(a, width), bits(b, width), c & 255, n & 255
    for i in range(width):
        if i < length and position + i < width:
            expected[position + i] = source[i]
    assert run(f"bfi.b{width}", a, b, c, n) == number(expected)


@given(U32, AMOUNT)
def test_extension(a: int, b: int) -> None:
    for mode, n in (("clamp", min(b, 32)), ("wrap", b & 31)):
        low = a & ((1 << n) - 1)
        assert run(f"szext.{mode}.u32", a, b) == low
        assert run(f"szext.{mode}.s32", a, b) == (signed(low, n) & 0xFFFFFFFF if n else 0)


@given(AMOUNT, AMOUNT)
def test_bit_mask(a: int, b: int) -> None:
    ones = [i for i in range(32) if a <= i < a + b]
    assert run("bmsk.clamp.b32", a, b) == sum(1 << i for i in ones)
    ones = [i for i in range(32) if a % 32 <= i < a % 32 + b % 32]
    assert run("bmsk.wrap.b32", a, b) == sum(1 << i for i in ones)


@given(U64, st.sampled_from((32, 64)))
def test_bit_counts(a: int, width: int) -> None:
    text = format(a & ((1 << width) - 1), f"0{width}b")
    assert run(f"popc.b{width}", a) == text.count("1")
    assert run(f"clz.b{width}", a) == len(text) - len(text.lstrip("0"))
    assert run(f"brev.b{width}", a) == int(text[::-1], 2)
    for type_, searched in ((".u", "1"), (".s", "1" if text[0] == "0" else "0")):
        at = text.find(searched)
        assert run(f"bfind{type_}{width}", a) == (0xFFFFFFFF if at < 0 else width - 1 - at)
        assert run(f"bfind.shiftamt{type_}{width}", a) == (0xFFFFFFFF if at < 0 else at)


@given(U32, st.integers(0, 31), st.integers(-33, 33))
def test_find_nth_set(mask: int, base: int, offset: int) -> None:
    order = range(base, 32) if offset >= 0 else range(base, -1, -1)
    ones = [i for i in order if mask >> i & 1]
    if offset == 0:
        expected = base if mask >> base & 1 else 0xFFFFFFFF
    else:
        expected = ones[abs(offset) - 1] if len(ones) >= abs(offset) else 0xFFFFFFFF
    assert run("fns.b32", mask, base, offset & 0xFFFFFFFF) == expected


@given(U32, U32, U32)
def test_three_input_logic(a: int, b: int, c: int) -> None:
    functions: tuple[Callable[[int, int, int], int], ...] = (
        lambda a, b, c: a & b & ~c,
        lambda a, b, c: (a & b | c) ^ a,
        lambda a, b, c: a ^ b ^ c,
    )
    for function in functions:
        table_ = function(0xF0, 0xCC, 0xAA) & 0xFF
        assert run("lop3.b32", a, b, c, table_) == function(a, b, c) & 0xFFFFFFFF


@given(U32, U32, st.integers(0, 0xFFFF))
def test_byte_permutation(a: int, b: int, c: int) -> None:
    source = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    expected = []
    for i in range(4):
        select = c >> 4 * i & 15
        byte = source[select & 7]
        expected.append((255 if byte > 127 else 0) if select & 8 else byte)
    assert run("prmt.b32", a, b, c) == int.from_bytes(bytes(expected), "little")


@pytest.mark.parametrize(
    ("mode", "rows"),
    # Rows of the manual's table: bytes d.b3 to d.b0 for the selectors 0 to 3.
    [
        (".f4e", ("3210", "4321", "5432", "6543")),
        (".b4e", ("5670", "6701", "7012", "0123")),
        (".rc8", ("0000", "1111", "2222", "3333")),
        (".ecl", ("3210", "3211", "3222", "3333")),
        (".ecr", ("0000", "1110", "2210", "3210")),
        (".rc16", ("1010", "3232", "1010", "3232")),
    ],
)
def test_byte_permutation_modes(mode: str, rows: tuple[str, ...]) -> None:
    for selector, row in enumerate(rows):
        expected = int("".join("0" + digit for digit in row), 16)
        assert run("prmt.b32" + mode, 0x03020100, 0x07060504, selector) == expected


COMPARISONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


@given(U32, U32, st.integers(0, 1))
def test_comparisons(a: int, b: int, c: int) -> None:
    for name, compare in COMPARISONS.items():
        assert run(f"setp.{name}.u32", a, b) == compare(a, b)
        if name[1] not in "osi":
            assert run(f"setp.{name}.s32", a, b) == compare(signed(a, 32), signed(b, 32))
    for name, combine in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        bound = binding(f"setp.lt.{name}.u32")
        assert COMPUTE["setp"](bound, a, b, c) == combine(int(a < b), c)
        assert COMPUTE["setp.q"](bound, a, b, c) == combine(int(a >= b), c)


@given(U64, st.sampled_from((8, 16, 32, 64)), st.sampled_from((8, 16, 32, 64)))
def test_integer_conversion(a: int, to: int, from_: int) -> None:
    value = signed(a, from_)
    assert run(f"cvt.s{to}.s{from_}", a) == value & ((1 << to) - 1)
    assert run(f"cvt.sat.u{to}.s{from_}", a) == min(max(value, 0), (1 << to) - 1)
    if to < from_:
        top = (1 << (to - 1)) - 1
        assert signed(run(f"cvt.sat.s{to}.s{from_}", a), to) == min(max(value, -top - 1), top)
    narrow = run(f"cvt.s{to}.s{from_}", a)
    assert widen(binding(f"cvt.s{to}.s{from_}"), narrow, 64) == signed(narrow, to) & ((1 << 64) - 1)
    assert widen(binding(f"cvt.u{to}.s{from_}"), narrow, 64) == narrow


def test_types_keep_their_order() -> None:
    assert run("cvt.sat.u8.s32", 300) == run("cvt.u8.sat.s32", 300) == 255
    assert table().candidates("cvt.rn.f16.f64")
    assert not table().candidates("cvt.rn.f64.f16")


@given(U32, U32)
def test_moves(a: int, b: int) -> None:
    assert run("mov.b16", a) == a & 0xFFFF
    assert run("mov.pred", 1) == 1
    bound = binding("mov.b64")
    assert COMPUTE["pack"](bound, a, b) == b << 32 | a
    assert COMPUTE["pack"](bound, 1, 2, 3, 4) == 0x0004_0003_0002_0001


class Lanes:
    """What a numpy array does with operators, and no more: asking it for a truth value fails."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __bool__(self) -> bool:
        raise TypeError("the truth value of lanes is ambiguous")


def _lanes_operator(name: str, reflected: bool = False) -> None:
    def apply(self: Lanes, other: Any = None) -> Lanes:
        operation = getattr(operator, name)
        if other is None:
            return Lanes(*map(operation, self.values))
        others = other.values if isinstance(other, Lanes) else [other] * len(self.values)
        pairs = zip(others, self.values, strict=True) if reflected else zip(self.values, others, strict=True)
        return Lanes(*(operation(x, y) for x, y in pairs))

    word = name.strip("_")
    setattr(Lanes, f"__{'r' * reflected}{word}__", apply)


for _name in "add sub mul floordiv and_ or_ xor lshift rshift".split():
    _lanes_operator(_name)
    _lanes_operator(_name, reflected=True)
for _name in "lt le gt ge eq ne neg invert".split():
    _lanes_operator(_name)


@pytest.mark.parametrize("name", sorted(COMPUTE))
@pytest.mark.parametrize("width", [16, 32, 64])
def test_what_is_bound_computes_what_a_register_holds(name: str, width: int) -> None:
    form = next(f for f in table() if f.compute == name.removesuffix(".q"))
    for example in form.examples:
        opcode, _, operands = example.partition(" ")
        bound = next(b for f, _, b in table().candidates(opcode) if f is form)
        for row in [(0x8000_00F1, 7, 0x6A, 9), (3, 0x7FFF_0102, 5, 0x6A), (0xFFFF_FFFF_FFFF_0000, 40, 1, 2)]:
            values = row[: operands.count(",")]
            result = COMPUTE[name](bound, *values)
            expected = result if name.startswith("setp") else widen(bound, result, width)
            assert bind(name, bound, width)(*values) == expected


def test_both_lanes_of_a_packed_result_are_kept() -> None:
    bound = binding("add.u16x2")
    assert bind("add", bound, 32)(0x10002, 0x30004) == widen(bound, 0x40006, 32) == 0x40006


@pytest.mark.parametrize("name", sorted(set(COMPUTE) - {"fns"}))
def test_lanes_compute_what_ints_compute(name: str) -> None:
    form = next(f for f in table() if f.compute == name.removesuffix(".q"))
    for example in form.examples:
        opcode, _, operands = example.partition(" ")
        bound = next(b for f, _, b in table().candidates(opcode) if f is form)
        count = operands.count(",")
        columns = [(0x8000_00F1, 7, 0xFFFF_FFFF), (3, 0x7FFF_0102, 5), (1, 40, 0x1234), (2, 9, 1)][:count]
        values: list[Any] = [Lanes(*column) for column in columns]
        if name == "lop3":
            values[-1], columns[-1] = 0x6A, (0x6A, 0x6A, 0x6A)
        together: Any = COMPUTE[name](bound, *values)
        assert list(together.values) == [COMPUTE[name](bound, *row) for row in zip(*columns, strict=True)]
