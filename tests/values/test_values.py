"""The values of registers: folding, predicates, thread sets, uniformity, induction, addresses."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tclint.analyses.model import KernelModel
from tclint.values import PathCondition, UniformityScope
from tclint.values import thread_masks as T
from tclint.values.integers import as_signed
from tclint.values.nodes import Allocated, Constant, Logic, Phi, Select, Sum, Undefined, Unmodelled
from tclint.values.ssa import MAX_DEFINITION_DEPTH
from tests.tools.support import label, model, value
from tests.tools.support import register as number_of

END = "\nend: ret;"


def of(body: str, **options: str) -> KernelModel:
    return model(body + END, **options)


def same(body: str, a: str, b: str) -> bool:
    """Whether two registers get the same value number."""
    m = of(body)
    return value(m, a) == value(m, b)


def decided(m: KernelModel, known: Mapping[str, bool], asked: str) -> bool | None:
    """What the predicates whose truth is known say of another."""
    facts = PathCondition()
    for name, truth in known.items():
        facts = m.values.refine(value(m, name), truth, facts)
    return m.values.entails(value(m, asked), facts)


def next_one(m: KernelModel, truths: Sequence[bool]) -> bool | None:
    """What %p1, %p2, ... of these truths say of the predicate after them."""
    return decided(m, {f"%p{n}": truth for n, truth in enumerate(truths, 1)}, f"%p{len(truths) + 1}")


def known(body: str, name: str) -> int | None:
    m = of(body)
    return m.values.constant_of(value(m, name))


# ---------------------------------------------------------------- constants and sums


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.u32 %r1, 7;", 7),
        ("mov.u32 %r1, 0xffffffff; add.s32 %r1, %r1, 1;", 0),
        ("mov.u32 %r2, 5; shl.b32 %r3, %r2, 4; add.s32 %r1, %r3, -16;", 64),
        ("mov.u32 %r2, 5; mul.lo.s32 %r3, %r2, 6; sub.s32 %r1, %r3, %r2;", 25),
        ("mov.u32 %r2, 5; mad.lo.s32 %r1, %r2, 6, 7;", 37),
        ("mov.u32 %r2, -8; shr.s32 %r1, %r2, 1;", -4),
        ("mov.u32 %r2, -8; shr.u32 %r1, %r2, 31;", 1),
        ("mov.u32 %r2, -7; rem.s32 %r1, %r2, 3;", -1),
        ("mov.u32 %r2, -7; div.s32 %r1, %r2, 3;", -2),
        ("mov.u32 %r2, 12; and.b32 %r3, %r2, 10; or.b32 %r4, %r3, 1; xor.b32 %r1, %r4, 3;", 10),
        ("mov.u32 %r2, -5; neg.s32 %r1, %r2;", 5),
        ("mov.u32 %r2, -1; min.u32 %r1, %r2, 9;", 9),
        ("mov.u32 %r2, -1; min.s32 %r1, %r2, 9;", -1),
        ("mov.b64 %rd1, 0x100000005; cvt.u32.u64 %r1, %rd1;", 5),
        ("mov.u32 %r2, 0x18000; cvt.s32.s16 %r1, %r2;", -32768),
        ("mov.u32 %r2, 3; mov.u32 %r3, 3; setp.eq.s32 %p1, %r2, %r3; selp.b32 %r1, 11, 12, %p1;", 11),
    ],
)  # fmt: skip
def test_constants_fold(code: str, expected: int) -> None:
    assert known(code, "%r1") == expected


@pytest.mark.parametrize(("mask", "alike"), [(24, True), (31, True), (25, True), (56, False), (16, False)])
def test_a_stage_by_the_bits_of_a_shifted_counter(mask: int, alike: bool) -> None:
    """nvcc makes 16384 times a stage of 8 times it, which it has for an mbarrier, and the rest."""
    made = f"shl.b32 %r3, %r1, 3; and.b32 %r4, %r3, {mask}; mad.lo.s32 %r5, %r2, 16376, %r4;"
    plain = "mov.u32 %r1, %clock; and.b32 %r2, %r1, 3; shl.b32 %r6, %r2, 14;"
    assert same(f"{plain} {made}", "%r5", "%r6") is alike


@pytest.mark.parametrize(
    ("code", "number", "factor"),
    [
        ("mul.wide.u32 %rd1, %r1, -1431655765; cvt.u64.u32 %rd2, %r1;", "%rd2", 2863311531),
        ("mul.wide.s32 %rd1, %r1, -3;", "%r1", -3),
        ("mad.wide.u32 %rd1, %r1, -1, 0; cvt.u64.u32 %rd2, %r1;", "%rd2", 0xFFFFFFFF),
        ("and.b32 %r2, %r1, 0x7fffffff; mad.wide.u32 %rd1, %r2, -1, 0;", "%r2", 0xFFFFFFFF),
    ],
)
def test_a_constant_is_widened_like_the_other_factor(code: str, number: str, factor: int) -> None:
    """Division by a constant is a multiplication by one that is negative when it is read with its sign."""
    m = of(f"ld.param.u32 %r1, [n]; {code}", parameters=".param .u32 n")
    assert m.values.linear(value(m, "%rd1")) == (((value(m, number), factor),), 0)


@pytest.mark.parametrize(
    "code",
    [
        "add.sat.s32 %r1, %r2, 1;",
        "cvt.sat.u8.s32 %r1, %r2;",
        "addc.s32 %r1, %r2, 1;",
        "mul.hi.s32 %r1, %r2, 4;",
    ],
)
def test_what_is_not_a_plain_sum_does_not_fold_into_one(code: str) -> None:
    m = of(f"mov.u32 %r2, 0x7fffffff;\n{code}")
    assert m.values.constant_of(value(m, "%r1")) in (
        None,
        {"add": 0x7FFFFFFF, "cvt": 255, "mul": 1}.get(code[:3]),
    )


def test_a_selected_constant_multiple_is_a_sum() -> None:
    code = """
    ld.param.u32 %r1, [number];
    shl.b32 %r2, %r1, 3;
    add.s32 %r3, %r2, 24;
    add.s32 %r4, %r1, 3;
    mul.lo.s32 %r5, %r4, 8;
    """
    assert same(code, "%r3", "%r5")
    m = of(code)
    terms, constant = m.values.linear(value(m, "%r3"))
    assert [factor for _, factor in terms] == [8]
    assert constant == 24


def test_a_sum_of_very_many_terms_is_made_of_all() -> None:
    """Kernels of cudf add up more words than a sum keeps apart."""
    code = "mov.u32 %r1, %tid.x;\n" + "".join(
        f"ld.global.u32 %r{k}, [%rd1+{4 * k}];\nadd.u32 %r1, %r1, %r{k};\n" for k in range(2, 18)
    )
    m = of(code)
    total = value(m, "%r1")
    assert m.values.special("%tid.x") in m.values.subexpressions(total)
    assert m.values.along((), frozenset())(total) == total


def test_a_difference_cancels() -> None:
    assert known("ld.param.u32 %r1, [number]; add.s32 %r2, %r1, 9; sub.s32 %r3, %r2, %r1;", "%r3") == 9


# ---------------------------------------------------------------- predicates


def test_r_above_0_is_not_r_below_1() -> None:
    m = of("ld.param.u32 %r1, [number]; setp.gt.s32 %p1, %r1, 0; setp.lt.s32 %p2, %r1, 1;")
    assert value(m, "%p1") == m.values.negate(value(m, "%p2"))


def test_unsigned_above_and_below_are_complements() -> None:
    m = of(
        "ld.param.u32 %r1, [number]; setp.gt.u32 %p1, %r1, 5; setp.ls.u32 %p2, %r1, 5; setp.lo.u32 %p3, %r1, 6;"
    )
    assert value(m, "%p1") == m.values.negate(value(m, "%p2"))
    assert value(m, "%p2") == value(m, "%p3")


def test_signed_and_unsigned_comparisons_differ() -> None:
    assert not same(
        "ld.param.u32 %r1, [number]; setp.lt.s32 %p1, %r1, 5; setp.lt.u32 %p2, %r1, 5;", "%p1", "%p2"
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("setp.eq.s32 %p1, %r1, 3;", "setp.eq.s32 %p2, 3, %r1;"),
        ("setp.eq.s32 %p1, %r1, %r2;", "setp.eq.s32 %p2, %r2, %r1;"),
        ("setp.eq.s32 %p1, %r1, 3;", "add.s32 %r3, %r1, 1; setp.eq.s32 %p2, %r3, 4;"),
        ("setp.eq.s32 %p1, %r1, -1;", "setp.eq.u32 %p2, %r1, 0xffffffff;"),
        ("setp.lt.s32 %p1, %r1, 3;", "setp.le.s32 %p2, %r1, 2;"),
        ("setp.lt.s32 %p1, %r1, 3;", "setp.gt.s32 %p2, 3, %r1;"),
        ("setp.lt.s32 %p1, %r1, 3;", "setp.ge.s32 %p3, %r1, 3; not.pred %p2, %p3;"),
        (
            "setp.lt.s32 %p1, %r1, 3;",
            "setp.lt.s32 %p3, %r1, 3; selp.b32 %r3, 1, 0, %p3; setp.ne.s32 %p2, %r3, 0;",
        ),
        (
            "setp.lt.s32 %p1, %r1, 3;",
            "setp.lt.s32 %p3, %r1, 3; selp.b32 %r3, -1, 0, %p3; setp.eq.u32 %p2, %r3, 0xffffffff;",
        ),
        (
            "setp.lt.s32 %p1, %r1, 3;",
            "setp.lt.s32 %p3, %r1, 3; selp.b32 %r3, 1, 0, %p3; add.s32 %r4, %r3, 2; setp.eq.s32 %p2, %r4, 3;",
        ),
        ("setp.lt.s32 %p1, %r1, 3;", "setp.lt.s32 %p3, %r1, 3; and.pred %p2, %p3, %p3;"),
        (
            "and.b32 %r3, %r1, 31; setp.eq.s32 %p1, %r3, 0;",
            (
                "shr.s32 %r4, %r1, 31; shr.u32 %r5, %r4, 27; add.s32 %r6, %r1, %r5; and.b32 %r7, %r6, -32;"
                "sub.s32 %r8, %r1, %r7; setp.eq.s32 %p2, %r8, 0;"
            ),
        ),
        ("and.b32 %r3, %r1, 7; setp.eq.s32 %p1, %r3, 0;", "rem.s32 %r4, %r1, 8; setp.eq.s32 %p2, %r4, 0;"),
        (
            "and.b32 %r3, %r1, 31; setp.eq.s32 %p1, %r3, 0;",
            (
                "shl.b32 %r4, %r2, 5; and.b32 %r5, %r1, 31; or.b32 %r6, %r4, %r5; and.b32 %r7, %r6, 31;"
                "setp.eq.s32 %p2, %r7, 0;"
            ),
        ),
        (
            "setp.lt.s32 %p3, %r1, 3; setp.eq.s32 %p4, %r2, 3; and.pred %p1, %p3, %p4;",
            "setp.lt.s32 %p5, %r1, 3; setp.eq.and.s32 %p2, %r2, 3, %p5;",
        ),
    ],
)
def test_one_test_spelled_twice_is_one_predicate(first: str, second: str) -> None:
    assert same(f"ld.param.u32 %r1, [number]; ld.param.u32 %r2, [pointer]; {first} {second}", "%p1", "%p2")


@pytest.mark.parametrize(
    "second",
    [
        "rem.s32 %r4, %r1, 12; setp.eq.s32 %p2, %r4, 0;",
        "rem.s32 %r4, %r1, 8; setp.eq.s32 %p2, %r4, 1;",
        (
            "shr.s32 %r4, %r1, 31; shr.u32 %r5, %r4, 28; add.s32 %r6, %r1, %r5; and.b32 %r7, %r6, -8;"
            "sub.s32 %r8, %r1, %r7; setp.eq.s32 %p2, %r8, 0;"
        ),
        "and.b32 %r5, %r2, 3; or.b32 %r6, %r1, %r5; and.b32 %r7, %r6, 7; setp.eq.s32 %p2, %r7, 0;",
    ],
)
def test_what_is_not_a_remainder_by_a_power_of_two_is_another_predicate(second: str) -> None:
    masked = "and.b32 %r3, %r1, 7; setp.eq.s32 %p1, %r3, 0;"
    assert not same(
        f"ld.param.u32 %r1, [number]; ld.param.u32 %r2, [pointer]; {masked} {second}", "%p1", "%p2"
    )


def test_the_second_result_of_setp_negates_the_comparison_only() -> None:
    m = of(
        """
    ld.param.u32 %r1, [number];
    setp.eq.s32 %p9, %r1, 9;
    setp.lt.and.s32 %p1|%p2, %r1, 3, %p9;
    setp.ge.and.s32 %p3, %r1, 3, %p9;
    setp.lt.s32 %p4|%p5, %r1, 3;
    """
    )
    assert value(m, "%p2") == value(m, "%p3")
    assert value(m, "%p5") == m.values.negate(value(m, "%p4"))


@pytest.mark.parametrize(
    ("logic", "other", "whole", "expected"),
    [
        ("and", True, False, False),
        ("and", False, False, None),
        ("or", False, True, True),
        ("or", True, True, None),
        ("and", True, True, True),
    ],
)
def test_where_one_of_two_predicates_does_not_settle_it_the_other_does(
    logic: str, other: bool, whole: bool, expected: bool | None
) -> None:
    m = of(f"setp.eq.s32 %p1, %ctaid.x, 1; setp.eq.s32 %p2, %ctaid.y, 1; {logic}.pred %p3, %p1, %p2;")
    assert decided(m, {"%p2": other, "%p3": whole}, "%p1") is expected


# What a comparison is of a value with a constant: every pair must agree with arithmetic.
RELATIONS: dict[str, tuple[str, Callable[[int, int], bool]]] = {
    "eq": ("s", lambda a, b: a == b),
    "ne": ("s", lambda a, b: a != b),
    "lt.s": ("s", lambda a, b: a < b),
    "le.s": ("s", lambda a, b: a <= b),
    "gt.s": ("s", lambda a, b: a > b),
    "ge.s": ("s", lambda a, b: a >= b),
    "lt.u": ("u", lambda a, b: a < b),
    "le.u": ("u", lambda a, b: a <= b),
    "gt.u": ("u", lambda a, b: a > b),
    "ge.u": ("u", lambda a, b: a >= b),
}
POINTS = [0, 1, 2, 3, 4, 5, 6, -1, -2, -3, -4, 2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1]


def holds(relation: str, number: int, bound: int) -> bool:
    sign, compare = RELATIONS[relation]
    if sign == "u":
        return compare(number & 0xFFFFFFFF, bound & 0xFFFFFFFF)
    return compare(_signed(number), _signed(bound))


def _signed(number: int) -> int:
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


TESTS = st.tuples(
    st.sampled_from(sorted(RELATIONS)),
    st.sampled_from([0, 1, 2, 4, -1, -3, 2**31 - 1, 0xFFFFFFFF, 0x80000000]),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TESTS, st.booleans()), min_size=1, max_size=3), TESTS)
def test_what_comparisons_decide_of_each_other_is_true(
    assumed: list[tuple[tuple[str, int], bool]], asked: tuple[str, int]
) -> None:
    lines = ["ld.param.u32 %r1, [number];"]
    for n, (relation, bound) in enumerate([*(t for t, _ in assumed), asked], 1):
        name, _, sign = relation.partition(".")
        lines.append(f"setp.{name}.{sign or 'b'}32 %p{n}, %r1, {bound};")
    m = of("\n".join(lines))
    answer = next_one(m, [truth for _, truth in assumed])
    possible = [x for x in POINTS if all(holds(r, x, b) is truth for (r, b), truth in assumed)]
    answers = {holds(asked[0], x, asked[1]) for x in possible}
    if answer is not None:
        assert answers <= {answer}


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        ({"%p1": False}, "%p2", False),  # not 0 is not below 1
        ({"%p2": False}, "%p1", False),
        ({"%p1": False, "%p3": False}, "%p4", False),  # neither 0 nor 1: not below 2
        ({"%p1": False, "%p3": False, "%p5": True}, "%p6", True),
        ({"%p1": False}, "%p4", None),
        ({"%p1": False}, "%p7", None),  # may be below 0
    ],
)
def test_what_a_number_is_not_shortens_its_range(
    known: dict[str, bool], asked: str, answer: bool | None
) -> None:
    m = of("""
        ld.param.u32 %r1, [number];
        setp.eq.u32 %p1, %r1, 0;
        setp.lt.u32 %p2, %r1, 1;
        setp.eq.u32 %p3, %r1, 1;
        setp.lt.u32 %p4, %r1, 2;
        setp.lt.u32 %p5, %r1, 3;
        setp.eq.u32 %p6, %r1, 2;
        setp.lt.s32 %p7, %r1, 1;
    """)
    assert decided(m, known, asked) is answer


STEPS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("add.s32 {to}, {a}, {n};", lambda a, n: a + n),
    "from": ("sub.s32 {to}, {n}, {a};", lambda a, n: n - a),
    "max": ("max.s32 {to}, {a}, {n};", max),
    "min": ("min.s32 {to}, {a}, {n};", min),
    "mask": ("and.b32 {to}, {a}, 3;", lambda a, n: a & 3),
    "half": ("shr.s32 {to}, {a}, 1;", lambda a, n: a >> 1),
    "else": (
        "setp.lt.s32 {p}, {a}, {n};\nadd.s32 {to}, {a}, 1;\nselp.b32 {to}, {to}, 3, {p};",
        lambda a, n: a + 1 if a < n else 3,
    ),
}
CHAIN = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 4), st.integers(-4, 4)), min_size=1, max_size=4
)
ASKED = st.tuples(st.integers(0, 5), st.sampled_from(sorted(RELATIONS)), st.integers(-5, 5))


@settings(max_examples=200, deadline=None)
@given(CHAIN, st.lists(st.tuples(ASKED, st.booleans()), min_size=1, max_size=3), ASKED)
def test_what_ranges_decide_is_true(
    chain: list[tuple[str, int, int]],
    assumed: list[tuple[tuple[int, str, int], bool]],
    asked: tuple[int, str, int],
) -> None:
    """Numbers made of one number, compared with constants: whatever is decided is so for each number that is left."""
    lines = ["ld.param.u32 %r1, [number];"]
    for n, (name, source, number) in enumerate(chain, 1):
        names = {"to": f"%r{n + 1}", "a": f"%r{min(source, n - 1) + 1}", "n": number, "p": f"%p{n + 10}"}
        lines.append(STEPS[name][0].format(**names))

    def made(k: int) -> list[int]:
        found = [k]
        for name, source, number in chain:
            found.append(STEPS[name][1](found[min(source, len(found) - 1)], number))
        return found

    def holds_for(test: tuple[int, str, int], k: int) -> bool:
        index, relation, bound = test
        return holds(relation, made(k)[min(index, len(chain))], bound)

    for n, (index, relation, bound) in enumerate([*(t for t, _ in assumed), asked], 1):
        name, _, sign = relation.partition(".")
        lines.append(f"setp.{name}.{sign or 'b'}32 %p{n}, %r{min(index, len(chain)) + 1}, {bound};")
    m = of("\n".join(lines))
    answer = next_one(m, [truth for _, truth in assumed])
    possible = [k for k in range(-40, 41) if all(holds_for(t, k) is truth for t, truth in assumed)]
    if answer is not None:
        assert {holds_for(asked, k) for k in possible} <= {answer}


PAIRS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "or": ("or.b32", lambda a, b: a | b),
    "and": ("and.b32", lambda a, b: a & b),
    "add": ("add.s32", lambda a, b: a + b),
    "sub": ("sub.s32", lambda a, b: a - b),
    "max": ("max.s32", max),
    "min": ("min.s32", min),
    "umax": ("max.u32", lambda a, b: _signed(max(a & 0xFFFFFFFF, b & 0xFFFFFFFF))),
    "umin": ("min.u32", lambda a, b: _signed(min(a & 0xFFFFFFFF, b & 0xFFFFFFFF))),
}
PAIR = st.tuples(st.sampled_from(sorted(PAIRS)), st.integers(0, 9), st.integers(0, 9))
ABOUT = st.tuples(
    st.integers(0, 9), st.sampled_from([r for r in sorted(RELATIONS) if "u" not in r]), st.integers(0, 9)
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(PAIR, min_size=1, max_size=5),
    st.lists(st.tuples(ABOUT, st.booleans()), min_size=1, max_size=3),
    ABOUT,
)
@example(
    [("max", 1, 1), ("min", 0, 0)], [((0, "eq", 2), True), ((0, "lt.s", 4), True)], (5, "ge.s", 1)
)  # a comparison that is negated where it is one of a difference
def test_what_ranges_decide_of_two_numbers_is_true(
    chain: list[tuple[str, int, int]],
    assumed: list[tuple[tuple[int, str, int], bool]],
    asked: tuple[int, str, int],
) -> None:
    """The same of numbers made of two numbers and two constants, compared with each other."""
    lines = [
        "ld.param.u32 %r1, [number];",
        "ld.param.u32 %r2, [pointer];",
        "mov.u32 %r3, 3;",
        "mov.u32 %r4, -1;",
    ]
    for n, (name, one, two) in enumerate(chain, 5):
        lines.append(f"{PAIRS[name][0]} %r{n}, %r{one % (n - 1) + 1}, %r{two % (n - 1) + 1};")
    every = len(lines)

    def made(k: int, j: int) -> list[int]:
        found = [k, j, 3, -1]
        for name, one, two in chain:
            found.append(PAIRS[name][1](found[one % len(found)], found[two % len(found)]))
        return found

    def holds_for(test: tuple[int, str, int], numbers: list[int]) -> bool:
        one, relation, two = test
        return holds(relation, numbers[one % every], numbers[two % every])

    for n, (one, relation, two) in enumerate([*(t for t, _ in assumed), asked], 1):
        name, _, sign = relation.partition(".")
        lines.append(f"setp.{name}.{sign or 'b'}32 %p{n}, %r{one % every + 1}, %r{two % every + 1};")
    m = of("\n".join(lines))
    answer = next_one(m, [truth for _, truth in assumed])
    possible = [n for k in range(-5, 6) for j in range(-5, 6) if (n := made(k, j))]
    left = [n for n in possible if all(holds_for(t, n) is truth for t, truth in assumed)]
    if answer is not None:
        assert {holds_for(asked, n) for n in left} <= {answer}


ROUNDS_OF_FOUR = """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, -2;
    sub.s32 %r3, %r2, %r1;
    max.s32 %r4, %r3, -4;
    add.s32 %r5, %r4, 4;
    and.b32 %r6, %r5, 3;
    setp.gt.s32 %p1, %r1, 1;
    setp.gt.u32 %p2, %r4, -4;
    setp.eq.s32 %p3, %r6, 0;
    add.s32 %r7, %r5, -1;
    setp.lt.u32 %p4, %r7, 3;
    setp.eq.s32 %p5, %r4, -3;
    sub.s32 %r8, %r2, %r4;
    and.b32 %r9, %r8, 1;
    sub.s32 %r10, %r8, %r9;
    setp.eq.s32 %p6, %r10, 2;
    setp.lt.s32 %p7, %r1, 1;
"""


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        ({"%p2": True}, "%p3", False),  # fewer than four rounds, and some
        ({"%p4": True}, "%p3", False),
        ({"%p4": False}, "%p3", None),
        ({"%p5": True}, "%p1", False),  # the maximum is more than the bound: it is the number
        ({"%p7": False, "%p5": False}, "%p6", True),  # it is the bound
        ({"%p7": False}, "%p6", None),
        ({"%p1": True}, "%p2", False),
    ],
)
def test_ranges_of_what_is_computed(known: dict[str, bool], asked: str, answer: bool | None) -> None:
    m = of(ROUNDS_OF_FOUR)
    assert decided(m, known, asked) is answer


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        ({"%p1": True, "%p2": True, "%p3": False}, "%p4", True),  # four rounds at least
        ({"%p1": True, "%p3": False}, "%p4", None),  # the other one may be the greater one, without a sign
        ({"%p1": True, "%p2": True, "%p4": False, "%p5": True}, "%p6", True),  # one, or five: not so many
        ({"%p1": True, "%p2": True, "%p5": True}, "%p6", None),
        ({"%p4": False, "%p7": False}, "%p8", True),
        ({"%p7": False}, "%p8", None),
        ({"%p1": True, "%p2": True, "%p3": False, "%p9": False}, "%p10", True),  # more than four, then
    ],
)
def test_rounds_that_are_counted_below_zero(known: dict[str, bool], asked: str, answer: bool | None) -> None:
    """nvcc has -max(i - n, i - m) rounds for ``i < n && i < m``."""
    m = of("""
        ld.shared.u32 %r1, [%r0];
        ld.shared.u32 %r2, [%r0+4];
        max.u32 %r3, %r1, %r2;
        neg.s32 %r4, %r3;
        and.b32 %r5, %r4, 3;
        setp.lt.s32 %p1, %r1, 0;
        setp.lt.s32 %p2, %r2, 0;
        setp.gt.u32 %p3, %r3, -4;
        setp.lt.s32 %p4, %r1, -3;
        setp.eq.s32 %p5, %r5, 1;
        setp.eq.s32 %p6, %r3, -1;
        setp.eq.s32 %p7, %r1, -3;
        setp.ge.s32 %p8, %r1, -2;
        setp.eq.s32 %p9, %r1, -4;
        setp.lt.s32 %p10, %r1, -4;
    """)
    assert decided(m, known, asked) is answer


def test_a_counter_and_its_copy_in_step_are_one_value() -> None:
    m = of("""
        mov.u32 %r1, 0;
        mov.u32 %r2, %r1;
        mov.u32 %r3, 1;
    round:
        st.shared.v2.u32 [%r0], {%r1, %r2};
        st.shared.u32 [%r0+8], %r3;
        setp.ge.s32 %p1, %r2, 9;
        @%p1 bra on;
        add.s32 %r2, %r2, 2;
    on:
        mov.u32 %r1, %r2;
        mov.u32 %r3, %r2;
        setp.lt.s32 %p2, %r1, 7;
        @%p2 bra round;
    """)
    one, copy, other = (value(m, name, "round") for name in ("%r1", "%r2", "%r3"))
    assert one == copy != other


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        ({"%p1": True, "%p2": False}, "%p3", False),  # two rounds: there is a second tile
        ({"%p1": True, "%p2": True}, "%p3", True),
        ({"%p2": True}, "%p3", True),  # one, or no tile at all
        ({"%p1": True}, "%p3", None),
    ],
)
def test_an_odd_trip_count_decides_the_remainder_iteration(
    known: dict[str, bool], asked: str, answer: bool | None
) -> None:
    """cuBLASLt has a loop unrolled by two, and a single iteration before it for an odd trip count."""
    m = of("""
        ld.param.u32 %r1, [number];
        add.s32 %r2, %r1, 1;
        min.s32 %r3, %r2, 2;
        max.s32 %r4, %r3, 1;
        and.b32 %r5, %r4, 1;
        setp.ge.s32 %p1, %r1, 0;
        setp.eq.s32 %p2, %r5, 1;
        setp.lt.s32 %p3, %r1, 1;
    """)
    assert decided(m, known, asked) is answer


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        ({"%p1": True}, "%p2", True),  # the 16th round
        ({"%p1": False}, "%p2", False),
        ({"%p3": True}, "%p2", False),  # one before it
        ({"%p3": True}, "%p4", True),
        ({"%p4": False}, "%p3", False),
        ({"%p1": True}, "%p5", None),  # changed in some iterations only
        ({"%p1": True}, "%p6", None),  # begins with any number
    ],
)
def test_what_a_loop_counts_in_step(known: dict[str, bool], asked: str, answer: bool | None) -> None:
    """A loop of cuStateVec ends by one counter, and leaves out the last barrier by another."""
    m = of("""
        mov.u32 %r1, -16;
        mov.u32 %r2, 1920;
        mov.u32 %r3, 0;
        mov.u32 %r4, 5;
        ld.param.u32 %r5, [number];
    loop:
        add.s32 %r1, %r1, 1;
        setp.eq.s32 %p1, %r1, 0;
        setp.lt.s32 %p3, %r1, 0;
        add.s32 %r2, %r2, -128;
        setp.lt.s32 %p2, %r2, 0;
        add.s32 %r4, %r4, 3;
        setp.lt.s32 %p4, %r4, 51;
        @%p9 add.s32 %r3, %r3, 1;
        setp.lt.s32 %p5, %r3, 16;
        add.s32 %r5, %r5, 1;
        setp.lt.s32 %p6, %r5, 16;
        @!%p1 bra loop;
    """)
    assert decided(m, known, asked) is answer


@pytest.mark.parametrize(("step", "answer"), [("mov.u32 %r3, %r1;", True), ("add.s32 %r1, %r1, 1;", None)])
def test_a_loop_that_ends_where_a_number_is_that_moves_as_well(step: str, answer: bool | None) -> None:
    """It continues until the counter is there; if the other one changes in some iterations only, that may be on either side."""
    m = of(f"""
        ld.param.u32 %r1, [number];
        mov.u32 %r2, 0;
    loop:
        add.s32 %r4, %r2, 1;
        setp.lt.s32 %p1, %r1, %r4;
        setp.eq.s32 %p2, %r1, %r2;
        @%p2 bra end;
        setp.eq.s32 %p3, %r3, 7;
        @%p3 bra skip;
        {step}
    skip:
        add.s32 %r2, %r2, 1;
        bra loop;
    """)
    assert decided(m, {"%p1": True}, "%p2") is answer


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        ({"%p2": True}, "%p1", True),  # as many iterations as there are stages, then
        ({"%p1": False}, "%p2", False),  # less tiles than stages: groups with nothing in them follow
        ({"%p1": True}, "%p2", True),
        ({"%p3": True, "%p4": True}, "%p5", False),  # the least of unsigned numbers that are none below zero
        ({"%p4": True}, "%p5", None),
    ],
)
def test_ranges_of_the_least_of_several_sums(known: dict[str, bool], asked: str, answer: bool | None) -> None:
    """cuBLASLt fills the stages of a ring that there are tiles for, and commits nothing for the others."""
    m = of("""
        ld.param.u32 %r1, [number];
        max.s32 %r2, %r1, 1;
        add.s32 %r3, %r1, 1;
        add.s32 %r4, %r2, 1;
        min.s32 %r5, %r3, %r4;
        setp.lt.s32 %p1, %r2, %r5;
        setp.ge.s32 %p2, %r3, %r4;
        add.s32 %r6, %r1, -7;
        min.u32 %r7, %r6, 3;
        setp.ge.s32 %p3, %r1, 8;
        setp.eq.s32 %p4, %r7, 1;
        setp.gt.s32 %p5, %r1, 9;
    """)
    assert decided(m, known, asked) is answer


@pytest.mark.parametrize(
    ("logic", "result"),
    [
        ("setp.lt.s32 %p2, %r1, 5; and.pred %p3, %p1, %p2;", "%p1"),
        ("setp.lt.s32 %p2, %r1, 5; or.pred %p3, %p1, %p2;", "%p2"),
        ("setp.ge.s32 %p2, %r1, 1; or.pred %p3, %p1, %p2;", "1"),
        ("setp.ge.s32 %p2, %r1, 3; and.pred %p3, %p1, %p2;", "0"),
        ("setp.ge.s32 %p2, %r1, 1; and.pred %p3, %p1, %p2;", ""),
        ("setp.lt.s32 %p2, %r2, 5; and.pred %p3, %p1, %p2;", ""),
        ("setp.lt.u32 %p2, %r1, 5; and.pred %p3, %p1, %p2;", ""),
    ],
)
def test_one_of_two_tests_of_a_value_may_imply_the_other(logic: str, result: str) -> None:
    m = of(f"ld.param.u32 %r1, [number]; ld.param.u32 %r2, [pointer]; setp.lt.s32 %p1, %r1, 3; {logic}")
    found = value(m, "%p3")
    if result.startswith("%"):
        assert found == value(m, result)
    elif result:
        assert m.values.constant_of(found) == int(result)
    else:
        assert type(m.values.node(found)) is Logic


ORDERS = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
DISTANCES = st.tuples(st.sampled_from(sorted(ORDERS)), st.integers(-3, 3), st.integers(-3, 3), st.booleans())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(DISTANCES, st.booleans()), min_size=1, max_size=3), DISTANCES)
def test_what_differences_decide_of_each_other_is_true(
    assumed: list[tuple[tuple[str, int, int, bool], bool]], asked: tuple[str, int, int, bool]
) -> None:
    """i + 7 < n and i + 8 >= n are about n - i, where nothing wraps."""
    lines = ["ld.param.u32 %r1, [number];", "ld.param.u32 %r2, [pointer];"]
    for n, (relation, a, b, swapped) in enumerate([*(t for t, _ in assumed), asked], 1):
        lines += [f"add.s32 %r{3 * n}, %r1, {a};", f"add.s32 %r{3 * n + 1}, %r2, {b};"]
        first, second = (3 * n + 1, 3 * n) if swapped else (3 * n, 3 * n + 1)
        lines.append(f"setp.{relation}.s32 %p{n}, %r{first}, %r{second};")

    def holds_for(test: tuple[str, int, int, bool], x: int, y: int) -> bool:
        relation, a, b, swapped = test
        ours, theirs = (y + b, x + a) if swapped else (x + a, y + b)
        return bool(ORDERS[relation](ours, theirs))

    m = of("\n".join(lines))
    answer = next_one(m, [truth for _, truth in assumed])
    pairs = [(x, 0) for x in range(-20, 21)]
    answers = {
        holds_for(asked, x, y) for x, y in pairs if all(holds_for(t, x, y) is truth for t, truth in assumed)
    }
    if len(answers) == 2:
        assert answer is None
    elif answers and (answer is not None or not {"eq", "ne"} & {asked[0], *(t[0] for t, _ in assumed)}):
        assert {answer} == answers


# ---------------------------------------------------------------- elected lanes


@pytest.mark.parametrize(
    ("code", "beyond"),
    [
        ("div.u32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 4;", False),
        ("mov.u32 %r2, %nwarpid; add.u32 %r3, %r1, %r2; shr.u32 %r3, %r3, 2; setp.eq.u32 %p1, %r3, 4;", True),
        ("shr.u32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 4;", False),
        ("ld.param.u32 %r2, [n]; div.u32 %r3, %r1, %r2; setp.eq.u32 %p1, %r3, 4;", False),
        (
            "mov.u32 %r2, %ctaid.x; add.u32 %r3, %r1, %r2; shr.u32 %r3, %r3, 2; setp.eq.u32 %p1, %r3, 4;",
            False,
        ),
        ("ld.shared.u32 %r2, [%r1]; shr.u32 %r3, %r2, 2; setp.eq.u32 %p1, %r3, 4;", False),
    ],
)
def test_what_the_thread_index_decides_beyond_what_is_computed(code: str, beyond: bool) -> None:
    m = of(f"mov.u32 %r1, %tid.x; {code}", parameters=".param .u32 n")
    assert m.values.depends_on_unmodelled_position(value(m, "%p1")) is beyond


def test_two_elections_with_one_mask_are_one_predicate() -> None:
    code = "elect.sync _|%p1, -1; elect.sync %r2|%p2, -1; mov.b32 %r1, 0xffff; elect.sync _|%p3, %r1;"
    assert same(code, "%p1", "%p2")
    assert not same(code, "%p1", "%p3")


def test_an_election_through_an_integer_is_found_again() -> None:
    code = """
    elect.sync _|%p1, -1;
    mov.u32 %r1, 0;
    @%p1 mov.u32 %r1, 1;
    setp.ne.s32 %p2, %r1, 0;
    elect.sync %r2|%p3, -1;
    selp.b32 %r3, 1, 0, %p3;
    setp.eq.s32 %p4, %r3, 0;
    @!%p4 bra mine;
    bra end;
mine:
    nop;
    """
    m = of(code.replace("nop;", "mov.u32 %r9, 1;"))
    assert value(m, "%p2") == value(m, "%p1")
    assert m.values.negate(value(m, "%p4")) == value(m, "%p1")
    mine = m.cfg.block_of[label(m.function, "mine")]
    assert m.views.reachability.threads_at[mine] == T.lane_zero(128)


def test_an_elected_lane_is_one_of_the_mask() -> None:
    m = of("elect.sync _|%p1, 0xffff0000;")
    mask = m.values.mask(value(m, "%p1"))
    assert mask is None or mask & 0xFFFF0000


# ---------------------------------------------------------------- shuffles


def test_a_shuffle_takes_one_lane_for_the_whole_warp() -> None:
    m = of("mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;")
    assert value(m, "%r3") == value(m, "%r2"), "the warp index is uniform already"
    m = of("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r3, %r1, 7, 31, -1;")
    planes = m.values.bit_slices(value(m, "%r3"))
    assert planes is not None
    assert read(planes, 128) == [t // 32 * 32 + 7 for t in range(128)]
    assert m.values.uniformity(value(m, "%r3")) is UniformityScope.WARP


@pytest.mark.parametrize(("lane", "level"), [("%r4", UniformityScope.WARP), ("%r1", UniformityScope.UNKNOWN)])
def test_a_shuffle_from_a_lane_that_the_warp_agrees_on(lane: str, level: UniformityScope) -> None:
    m = of(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 7; vote.sync.ballot.b32 %r4, %p1, -1; "
        f"shfl.sync.idx.b32 %r3, %r1, {lane}, 31, -1;"
    )
    assert m.values.uniformity(value(m, "%r3")) is level


def test_a_shuffle_within_parts_of_a_warp_is_not_a_broadcast() -> None:
    m = of("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r3, %r1, 0, 0x181f, -1;")
    planes = m.values.bit_slices(value(m, "%r3"))
    assert planes is None or read(planes, 128) == [t // 8 * 8 for t in range(128)]
    assert m.values.uniformity(value(m, "%r3")) > UniformityScope.WARP


@pytest.mark.parametrize(("source", "same"), [("%r1", True), ("%r4", False)])
def test_a_shuffle_of_what_is_computed_from_a_symbol(source: str, same: bool) -> None:
    """As a warp makes the start of a matrix descriptor."""
    m = of(
        "mov.u32 %r0, %tid.x; mov.u32 %r1, a; shr.u32 %r1, %r1, 4; and.b32 %r1, %r1, 16383; add.u32 %r4, %r1, %r0;"
        f"shfl.sync.idx.b32 %r3, {source}, 0, 31, -1;",
        before=".shared .align 1024 .b8 a[4096];",
    )
    assert (value(m, "%r3") == value(m, source)) == same


@pytest.mark.parametrize("source", ["a", "%p"])
def test_a_shuffled_symbol_is_that_symbol(source: str) -> None:
    m = model(".shared .b32 a[4];\nmov.u32 %r1, a; shfl.sync.idx.b32 %r2|%p1, %r1, 0, 31, -1;" + END)
    assert value(m, "%r2") == value(m, "%r1")


# ---------------------------------------------------------------- clocks and calls


def test_a_clock_is_read_anew_every_time() -> None:
    m = of("mov.u32 %r1, %clock; mov.u32 %r2, %clock; setp.eq.s32 %p1, %r1, %r2;")
    assert value(m, "%r1") != value(m, "%r2")
    assert m.values.constant_of(value(m, "%p1")) is None
    assert m.values.varying_at(value(m, "%p1"))


def test_two_calls_return_two_values() -> None:
    m = of(
        """
    { .param .b32 retval; call.uni (retval), get; ld.param.b32 %r1, [retval]; }
    { .param .b32 retval; call.uni (retval), get; ld.param.b32 %r2, [retval]; }
    ld.param.u32 %r3, [number];
    ld.param.u32 %r4, [number];
    """,
        before=".extern .func (.param .b32 result) get;",
    )
    assert value(m, "%r1") != value(m, "%r2")
    assert value(m, "%r3") == value(m, "%r4")
    assert m.values.uniformity(value(m, "%r3")) is UniformityScope.CTA
    assert m.values.uniformity(value(m, "%r1")) is UniformityScope.UNKNOWN


@pytest.mark.parametrize(
    "wrong", ["and.pred %p1, %p2;", "add.s32 %r1;", "selp.b32 %r1, %r2;", "shfl.sync.idx.b32 %r1, %r2;"]
)
def test_an_instruction_with_too_few_operands_has_no_value(wrong: str) -> None:
    m = of(f"{wrong}\nsetp.eq.s32 %p3, %r1, 0;\nand.pred %p4, %p1, %p3;")
    assert type(m.values.node(value(m, "%p4"))) in (Logic, Unmodelled)


def test_two_loads_are_two_values() -> None:
    m = of("ld.param.u64 %rd1, [pointer]; ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1];")
    assert value(m, "%r1") != value(m, "%r2")
    assert m.values.varying_at(value(m, "%r1")) == {("site", 1)}


def test_what_a_value_is_made_of() -> None:
    m = of(
        "ld.param.u64 %rd1, [pointer]; ld.global.u32 %r1, [%rd1]; add.s32 %r2, %r1, 4; mul.lo.s32 %r3, %r2, %r1;"
    )
    product, load = value(m, "%r3"), value(m, "%r1")
    found = list(m.values.subexpressions(product))
    assert found[0] == product
    (address,) = m.values.node(load).operands
    assert {load, m.values.representative(address)} <= set(found)
    assert len(found) == len(set(found))
    inside = list(m.values.subexpressions(product, until=lambda v: v == load))
    assert load in inside
    assert address not in inside


def test_facts_end_where_a_loop_makes_their_values_anew() -> None:
    body = """
    ld.param.u64 %rd1, [pointer]; ld.param.u32 %r9, [number]; setp.eq.s32 %p1, %r9, 0; mov.u32 %r4, 0;
head:
    mov.u32 %r5, %r4;
    setp.eq.s32 %p2, %r5, 0;
load: ld.global.u32 %r1, [%rd1];
    setp.eq.s32 %p3, %r1, 0;
    add.s32 %r4, %r4, 1;
    @%p3 bra head;
"""
    m = of(body)
    values = m.values
    invariant, counted, loaded = (value(m, p) for p in ("%p1", "%p2", "%p3"))
    facts = PathCondition()
    for p in (invariant, counted, loaded):
        facts = values.refine(p, True, facts)
    head, load = (label(m.function, name) for name in ("head", "load"))
    entry, back = sorted(m.cfg.predecessors[m.cfg.block_of[head]])
    counter, _ = values.node(counted).operands
    incremented = values.compare("eq", counter, values.constant(1), True, 32)
    for edge, restated in ((entry, []), (back, [(incremented, True)])):
        survivors, comparisons = values.crossing(facts, edge)
        assert set(survivors) == {invariant, loaded}
        assert list(comparisons) == restated
    assert set(values.surviving_sites(facts, head, load + 1)) == {invariant, counted}
    assert values.surviving_sites(facts, head, load) is facts
    assert values.crossing(facts, entry._replace(target=0))[0] is facts
    assert set(values.invariant(facts)) == {invariant}


def test_a_fact_about_what_a_loop_carries_is_kept_on_the_back_edges_that_carry_it() -> None:
    body = """
    ld.param.u32 %r9, [number]; setp.eq.s32 %p1, %r9, 0; selp.b32 %r4, 1, 0, %p1; mov.u32 %r6, 0;
head:
    and.b32 %r5, %r4, 255;
    setp.eq.s32 %p2, %r5, 0;
    add.s32 %r7, %r4, %r6;
    setp.lt.s32 %p3, %r7, %r9;
    add.s32 %r6, %r6, 1;
    setp.lt.s32 %p4, %r6, %r9;
    @%p4 bra head;
    mov.u32 %r4, 1;
    bra head;
"""
    m = of(body)
    values = m.values
    flag, mixed = (value(m, p) for p in ("%p2", "%p3"))
    _, carries, sets = sorted(m.cfg.predecessors[m.cfg.block_of[label(m.function, "head")]])
    facts = values.refine(mixed, True, values.refine(flag, True, PathCondition()))
    for _ in range(2):  # the answer is the same each time
        survivors, restated = values.crossing(facts, carries)
        assert dict(survivors) == {flag: True}
        assert len(restated) == 1
        assert values.crossing(facts, sets) == ({}, [])


@pytest.mark.parametrize(
    ("first", "last", "step", "wraps"),
    [(0, 1, 1, True), (0, 2, 1, None), (0, 3, 3, True), (7, 1, 1, False), (0, 1, 2, None)],
)
def test_a_counter_that_reaches_its_limit_wraps_in_the_next_iteration(
    first: int, last: int, step: int, wraps: bool | None
) -> None:
    """If ``i == n - last`` and ``i`` becomes ``i + step``, whether the next ``i == n ? first : i`` is 0."""
    body = f"""
    ld.param.u32 %r9, [number];
    sub.s32 %r7, %r9, {last};
    mov.u32 %r4, 0;
head:
    setp.eq.s32 %p1, %r4, %r9;
    selp.b32 %r8, {first}, %r4, %p1;
    setp.eq.s32 %p2, %r8, 0;
    setp.eq.s32 %p3, %r8, %r7;
    add.s32 %r4, %r8, {step};
    setp.lt.s32 %p4, %r9, 100;
    @%p4 bra head;
"""
    m = of(body)
    values = m.values
    starts, reached = (value(m, p) for p in ("%p2", "%p3"))
    _, back = sorted(m.cfg.predecessors[m.cfg.block_of[label(m.function, "head")]])
    _, restated = values.crossing(values.refine(reached, True, PathCondition()), back)
    facts = PathCondition()
    for p, truth in restated:
        facts = values.refine(p, truth, facts)
    assert restated
    assert values.entails(starts, facts) is wraps


# ---------------------------------------------------------------- joins and loops

LOOP = """
    mov.u32 %r1, {start};
loop:
    {body}
    setp.lt.s32 %p9, {counter}, 100;
    @%p9 bra loop;
"""


@pytest.mark.parametrize("probe", ["condition first", "counter first"])
@pytest.mark.parametrize("counter", ["%r1", "%r2"])
def test_a_loop_counter(probe: str, counter: str) -> None:
    m = of(LOOP.format(start=4, body="add.s32 %r2, %r1, 3;\nmov.u32 %r1, %r2;", counter=counter))
    if probe == "condition first":
        value(m, "%p9")  # what a view asks first must not spoil the answer
    phi = value(m, "%r1", "loop")
    found = m.values.induction(phi)
    assert found is not None
    start, stride, modulus = found
    assert (m.values.constant_of(start), stride, modulus) == (4, 3, None)


@pytest.mark.parametrize("first", ["%r2", "%r1", "%p9"])
def test_a_counter_that_each_iteration_copies_is_an_induction(first: str) -> None:
    m = of(LOOP.format(start=4, body="mov.u32 %r2, %r1;\nadd.s32 %r1, %r2, 3;", counter="%r2"))
    value(m, first)
    counted = m.values.induction(value(m, "%r1", "loop"))
    assert counted is not None
    assert (m.values.constant_of(counted[0]), counted[1]) == (4, 3)


RING = """
    mov.u32 %r1, {start};
    mov.u32 %r7, 0;
    mov.u32 %r8, 0;
loop:
    add.s32 %r8, %r8, 2;
    add.s32 %r2, %r1, 1;
    {test}
    add.s32 %r7, %r7, 1;
    setp.lt.s32 %p9, %r7, 100;
    @%p9 bra loop;
"""


@pytest.mark.parametrize("probe", ["", "%p9", "%r1"])
@pytest.mark.parametrize(
    "test",
    [
        "setp.eq.s32 %p1, %r2, 5; selp.b32 %r1, 0, %r2, %p1;",
        "setp.ne.s32 %p1, %r2, 5; selp.b32 %r1, %r2, 0, %p1;",
        "setp.eq.s32 %p1, %r1, 4; selp.b32 %r1, 0, %r2, %p1;",
        "setp.eq.s32 %p1, %r2, 5; mov.u32 %r1, %r2; @%p1 mov.u32 %r1, 0;",
    ],
)
def test_a_cyclic_stage_has_a_modulus(test: str, probe: str) -> None:
    m = of(RING.format(start=0, test=test))
    if probe:
        value(m, probe)
    phi = value(m, "%r1", "loop")
    found = m.values.induction(phi)
    assert found is not None
    assert (m.values.constant_of(found[0]), found[1], found[2]) == (0, 1, 5)
    assert m.values.interval(phi) == (0, 4)


def test_two_iterations_of_a_ring_in_one() -> None:
    """nvcc computes the remainder by a multiplication where a loop of ThunderKittens is unrolled by two."""
    m = of("""
        mov.u32 %r1, 0;
    loop:
        add.s32 %r2, %r1, 1;
        mul.hi.u32 %r3, %r2, -858993459;
        shr.u32 %r3, %r3, 2;
        mul.lo.s32 %r3, %r3, 5;
        sub.s32 %r4, %r2, %r3;
        add.s32 %r5, %r4, 1;
        setp.eq.b32 %p1, %r5, 5;
        selp.b32 %r1, 0, %r5, %p1;
        @%p9 bra loop;
    """)
    assert m.values.interval(value(m, "%r1", "loop")) == (0, 4)
    assert m.values.interval(value(m, "%r4")) == (0, 4)


def test_a_ring_that_starts_again_before_a_limit() -> None:
    m = of("""
        mov.u32 %r1, 0;
    loop:
        mul.hi.u32 %r3, %r1, -858993459;
        shr.u32 %r3, %r3, 2;
        mul.lo.s32 %r3, %r3, 5;
        sub.s32 %r4, %r1, %r3;
        setp.lt.s32 %p1, %r4, 3;
        selp.b32 %r1, %r4, 0, %p1;
        @%p9 bra loop;
    """)
    assert m.values.interval(value(m, "%r1", "loop")) == (0, 2)


def test_a_count_that_a_branch_keeps_below_a_limit() -> None:
    """``if (++i == 4) { ...; i = 3; }`` twice in one iteration, as nvcc unrolls it."""
    m = of("""
        mov.u32 %r1, 0;
    loop:
        add.s32 %r2, %r1, 1;
        setp.ne.s32 %p1, %r2, 4;
        @%p1 bra second;
        mov.u32 %r2, 3;
    second:
        add.s32 %r1, %r2, 1;
        setp.ne.s32 %p1, %r1, 4;
        @%p1 bra next;
        mov.u32 %r1, 3;
    next:
        @%p9 bra loop;
    """)
    assert m.values.interval(value(m, "%r1", "loop")) == (0, 3)
    assert m.values.interval(value(m, "%r2", "second")) == (1, 3)
    assert m.values.interval(value(m, "%r1", "next")) == (2, 3)


def counted(first: int, step: int, test: str) -> tuple[int, ...]:
    """The values of a counter, one in each iteration: what *test* is before and after, as a function of both."""
    numbers, now = [first], first
    while eval(test, {"r1": now, "r2": now + step}) and len(numbers) < 100:
        now += step
        numbers.append(now)
    return tuple(numbers)


@pytest.mark.parametrize("first", [0, 1, 4])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("limit", [0, 1, 5, 6, 12])
@pytest.mark.parametrize(
    ("setp", "test"),
    [
        ("setp.lt.s32 %p1, %r2, {};\n@%p1", "r2 < {}"),
        ("setp.lt.u32 %p1, %r1, {};\n@%p1", "r1 < {}"),
        ("setp.le.u32 %p1, %r2, {};\n@%p1", "r2 <= {}"),
        ("setp.ge.s32 %p1, %r2, {};\n@!%p1", "r2 < {}"),
        ("setp.gt.s32 %p1, %r2, {};\n@!%p1", "r2 <= {}"),
        ("setp.ne.u32 %p1, %r2, {};\n@%p1", "r2 != {}"),
        ("setp.eq.s32 %p1, %r1, {};\n@!%p1", "r1 != {}"),
    ],
)
def test_trip_counts_from_a_constant(first: int, step: int, limit: int, setp: str, test: str) -> None:
    """Where they are said to be known, they are what counting shows."""
    m = of(f"mov.u32 %r1, {first};\nloop:\nadd.s32 %r2, %r1, {step};\n" +
           setp.format(limit).replace("\n", "\nmov.u32 %r3, %r1;\nmov.u32 %r1, %r2;\n") + " bra loop;")  # fmt: skip
    phi = value(m, "%r1", "loop")
    rounds, numbers = m.values.trip_count(m.values.phi(phi).block), counted(first, step, test.format(limit))
    if rounds is not None:
        assert rounds == len(numbers)
        assert m.values.interval(phi) == (numbers[0], numbers[-1])
    elif "!=" not in test:
        assert len(numbers) == 1  # the test is never true: nothing is counted
    else:
        assert (limit - first) % step or limit < first + step


@pytest.mark.parametrize(
    ("body", "rounds"),
    [
        ("add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 4;", 4),
        ("add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, %r9;", None),
        ("add.s32 %r1, %r1, %r9;\nsetp.lt.s32 %p1, %r1, 4;", None),
        ("add.s32 %r1, %r1, 1;\n@%p2 add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 4;", None),
        ("add.s32 %r1, %r1, 1;\n@%p2 bra loop;\nsetp.lt.s32 %p1, %r1, 4;", None),
        ("add.s32 %r1, %r1, 1;\nsetp.eq.s32 %p2, %r1, 9;\n@!%p2 bra loop;\nsetp.lt.s32 %p1, %r1, 4;", 9),
        ("add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p1, %r1, -4;", 4),
        ("add.s32 %r1, %r1, -1;\nsetp.ne.s32 %p1, %r1, 4;", None),
        ("add.s32 %r1, %r1, -1;\nsetp.gt.s32 %p1, %r1, -4;", None),
    ],
)
def test_trip_counts_tested_on_every_back_edge(body: str, rounds: int | None) -> None:
    m = of(f"mov.u32 %r1, 0;\nloop:\n{body}\n@%p1 bra loop;")
    assert m.values.trip_count(m.values.phi(value(m, "%r1", "loop")).block) == rounds


@pytest.mark.parametrize(
    ("first", "limit", "most", "exact"),
    [
        ("0", 160, 5, 5),
        ("%tid.x", 512, None, 16),
        ("%tid.x", 514, None, None),  # two threads have one iteration more
        ("%r9", 160, None, None),
    ],
)
@pytest.mark.parametrize("left", ["at the end", "in the middle"])
def test_trip_counts_that_all_threads_have(
    first: str, limit: int, most: int | None, exact: int | None, left: str
) -> None:
    """A loop may be left where it is repeated, or before; a thread that strides to a limit starts at its index."""
    test = f"add.s32 %r2, %r1, 32;\nsetp.ge.s32 %p1, %r2, {limit};"
    rest = (
        "@!%p1 bra loop;"
        if left == "at the end"
        else "@%p1 bra left;\nst.shared.u32 [%r5], %r2;\nbra loop;\nleft:"
    )
    m = of(
        f"mov.u32 %r1, {first};\nloop:\n{test}\nmov.u32 %r3, %r1;\nmov.u32 %r1, %r2;\n{rest}",
        directives=".reqntid 8",
    )
    head = m.values.phi(value(m, "%r1", "loop")).block
    assert m.values.trip_count(head) == most
    assert m.values.exact_trip_count(head) == exact


def test_a_loop_with_two_ends_has_no_exact_trip_count() -> None:
    m = of(
        "mov.u32 %r1, 0;\nloop:\n@%p2 bra left;\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 4;\n@%p1 bra loop;\nleft:"
    )
    head = m.values.phi(value(m, "%r1", "loop")).block
    assert m.values.trip_count(head) == 4
    assert m.values.exact_trip_count(head) is None


def test_a_stage_that_another_counter_resets_has_no_modulus() -> None:
    m = of(RING.format(start=0, test="setp.eq.s32 %p1, %r8, 10; selp.b32 %r1, 0, %r2, %p1;"))
    phi = value(m, "%r1", "loop")
    found = m.values.induction(phi)
    assert found is None or found[2] is None
    assert m.values.interval(phi) is None


def test_a_stage_that_starts_beyond_its_wrap_has_no_bounds() -> None:
    m = of(RING.format(start=7, test="setp.eq.s32 %p1, %r2, 5; selp.b32 %r1, 0, %r2, %p1;"))
    assert m.values.interval(value(m, "%r1", "loop")) is None


def test_what_both_sides_of_a_branch_agree_on_is_one_value() -> None:
    m = of(
        """
    ld.param.u32 %r1, [number];
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra other;
    mov.u32 %r2, 5; mov.u32 %r3, 1;
    bra join;
other:
    mov.u32 %r2, 5; mov.u32 %r3, 2;
join:
    mov.u32 %r4, %r3;
    """
    )
    assert m.values.constant_of(value(m, "%r2")) == 5
    assert {m.values.constant_of(a) for a in m.values.arguments(value(m, "%r3"))} == {1, 2}
    assert m.values.varying_at(value(m, "%r4")) == {("block", m.cfg.block_of[label(m.function, "join")])}


def test_a_value_through_a_loop_that_does_not_change_it_is_the_same() -> None:
    m = of(
        """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, %r1;
loop:
    setp.eq.s32 %p1, %r2, 0;
    @%p1 mov.u32 %r2, %r2;
    ld.param.u32 %r3, [number];
    setp.lt.s32 %p2, %r3, 0;
    @%p2 bra loop;
    """
    )
    assert value(m, "%r2") == value(m, "%r1")


@pytest.mark.parametrize("asked", ["inner", "outer", "past"])
def test_a_value_through_loops_within_each_other_is_the_same(asked: str) -> None:
    """cuDNN's kernels elect a lane once: an inner loop, or what follows it, may be the first site that is asked about."""
    m = of(
        """
    mov.u32 %r1, 0;
    elect.sync %r9|%p1, -1;
    @%p1 mov.u32 %r1, 1;
outer:
    mov.u32 %r2, %r1;
inner:
    setp.eq.s32 %p2, %r1, 0;
    @%p2 bra on;
    add.u32 %r2, %r2, 1;
on:
    ld.param.u32 %r3, [number];
    setp.lt.s32 %p3, %r3, 0;
    @%p3 bra inner;
past:
    setp.lt.s32 %p4, %r3, -9;
    @%p4 bra outer;
    """
    )
    assert type(m.values.node(value(m, "%r1", asked))) is Select
    assert value(m, "%r1", "inner") == value(m, "%r1", "outer") == value(m, "%r1", "past")


def test_a_register_that_no_branch_of_a_loop_writes_is_one_value_after_any_number_of_joins() -> None:
    joins = "\n".join(f"@%p9 bra J{n}; mov.u32 %r3, {n}; J{n}:" for n in range(MAX_DEFINITION_DEPTH + 20))
    m = of(
        f"""
    setp.ne.u32 %p1, %r1, 0;
    @%p8 bra loop;
    setp.ne.u32 %p1, %r2, 0;
loop:
    setp.eq.u32 %p2, %r5, 0;
    and.pred %p3, %p1, %p2;
    {joins}
    not.pred %p4, %p1;
    @%p7 bra loop;"""
    )
    assert decided(m, {"%p2": True, "%p4": False}, "%p3") is True
    assert decided(m, {"%p2": True, "%p4": True}, "%p3") is False


def test_a_register_that_one_branch_of_a_loop_writes_is_another_value_after_the_join() -> None:
    m = of(
        """
    setp.ne.u32 %p1, %r1, 0;
loop:
    setp.eq.u32 %p2, %r5, 0;
    and.pred %p3, %p1, %p2;
    @%p9 bra J;
    setp.ne.u32 %p1, %r2, 0;
J:
    not.pred %p4, %p1;
    @%p7 bra loop;"""
    )
    assert decided(m, {"%p2": True, "%p4": False}, "%p3") is None


# ---------------------------------------------------------------- allocations and addresses

ALLOC = """
    .shared .align 4 .b32 slot;
    .shared .align 4 .b32 other;
    .shared .align 16 .b8 words[64];
    mov.u32 %r20, words;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{place}], 128;
    bar.sync 0;
    ld.shared.b32 %r1, [{place}];
    ld.shared.b32 %r2, [{place}];
    ld.shared.b32 %r3, [other];
    ld.shared.b32 %r4, [other];
"""


@pytest.mark.parametrize("place", ["slot", "words+16", "%r20", "%r20+4"])
def test_the_word_of_an_allocation_is_one_value(place: str) -> None:
    m = of(ALLOC.format(place=place))
    assert value(m, "%r1") == value(m, "%r2")
    assert type(m.values.node(value(m, "%r1"))) is Allocated
    assert m.values.uniformity(value(m, "%r1")) is UniformityScope.CTA
    assert value(m, "%r3") != value(m, "%r4")


ONE_ALLOCATION = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;"


@pytest.mark.parametrize(
    ("code", "allocated"),
    [
        (f"{ONE_ALLOCATION}\nld.shared.b32 %r1, [slot];", True),
        (f"ld.shared.b32 %r1, [slot];\n{ONE_ALLOCATION}", False),
        (f"again:\n{ONE_ALLOCATION}\nld.shared.b32 %r1, [slot];\n@%p1 bra again;", False),
        (f"again:\n{ONE_ALLOCATION}\n@%p1 bra again;\nld.shared.b32 %r1, [slot];", True),
        (f"{ONE_ALLOCATION}\n{ONE_ALLOCATION}\nld.shared.b32 %r1, [slot];", False),
        (f"{ONE_ALLOCATION}\nld.shared.b32 %r1, [slot];\n{ONE_ALLOCATION}", False),
        (f"{ONE_ALLOCATION}\nst.shared.b32 [slot], 5;\nld.shared.b32 %r1, [slot];", False),
        (f"{ONE_ALLOCATION}\n@%p1 st.shared.v2.b32 [slot+-4], {{%r7, %r8}};\nld.shared.b32 %r1, [slot];", False),
        (f"st.shared.b32 [slot], 5;\n{ONE_ALLOCATION}\nld.shared.b32 %r1, [slot];", True),
        (f"{ONE_ALLOCATION}\nst.shared.b32 [slot+4], 5;\nld.shared.b32 %r1, [slot];", True),
        (f"@%p1 bra one;\n{ONE_ALLOCATION}\nbra both;\none:\n{ONE_ALLOCATION}\nboth:\nld.shared.b32 %r1, [slot];", True),
        # roles: the first warp allocates, after the code of the second one that loads or instead of it
        (f"@%p2 bra one;\nld.shared.b32 %r1, [slot];\none:\n@!%p2 bra past;\n{ONE_ALLOCATION}\npast:", True),
        (f"@%p1 bra one;\nld.shared.b32 %r1, [slot];\none:\n@!%p2 bra past;\n{ONE_ALLOCATION}\npast:", False),
        (f"@!%p1 bra one;\nld.shared.b32 %r1, [slot];\nbra past;\none:\n{ONE_ALLOCATION}\npast:", True),
    ],
)  # fmt: skip
def test_which_loads_find_what_was_allocated(code: str, allocated: bool) -> None:
    tests = (
        "ld.param.u32 %r7, [n];\nsetp.ne.u32 %p1, %r7, 3;\nmov.u32 %r8, %tid.x;\nsetp.lt.u32 %p2, %r8, 32;\n"
    )
    m = of(f".shared .align 4 .b32 slot;\n{tests}{code}", parameters=".param .u32 n")
    (load,) = (i for i, one in enumerate(m.function.instructions) if one.opcode.startswith("ld.shared"))
    found = m.values.after(m.function.instructions[load].writes[0], load)
    assert (type(m.values.node(found)) is Allocated) is allocated


@pytest.mark.parametrize(
    ("code", "known"),
    [
        ("cvt.u64.u32 %rd1, %r1;", False),
        ("mul.wide.u32 %rd1, %r1, 1;", False),
        ("mov.b64 %rd1, {%r1, 0};", False),
        ("add.u32 %r2, %r1, -1;\ncvt.u64.u32 %rd1, %r2;\nadd.s64 %rd1, %rd1, 1;", False),
        ("cvt.s64.s32 %rd1, %r1;", True),
        ("and.b32 %r1, %r1, 0x7fffffff;\ncvt.u64.u32 %rd1, %r1;", True),
        ("and.b32 %r1, %r1, 0x80000000;\ncvt.s64.s32 %rd1, %r1;", False),
        ("shr.u32 %r1, %r1, 1;\ncvt.u64.u32 %rd1, %r1;", True),
        ("shr.s32 %r1, %r1, 1;\ncvt.u64.u32 %rd1, %r1;", False),
        ("max.s32 %r1, %r1, 0;\ncvt.u64.u32 %rd1, %r1;", True),
        ("mov.u32 %r1, variable;\nadd.u32 %r1, %r1, 4;\ncvt.u64.u32 %rd1, %r1;", True),
        (
            "mov.u32 %r1, variable;\nmov.u32 %r2, other;\nsub.u32 %r1, %r1, %r2;\ncvt.u64.u32 %rd1, %r1;",
            False,
        ),
        ("ld.global.u8 %r1, [%rd2];\ncvt.u64.u32 %rd1, %r1;", True),
        ("ld.global.s8 %r1, [%rd2];\ncvt.u64.u32 %rd1, %r1;", False),
    ],
)
def test_a_number_is_the_same_in_64_bits_only_if_its_sign_is_known(code: str, known: bool) -> None:
    m = of(
        f".shared .b32 variable[4];\n.shared .b32 other[4];\nld.param.u32 %r1, [n];\n{code}",
        parameters=".param .u32 n",
    )
    assert (m.values.linear(value(m, "%rd1")) == m.values.linear(value(m, "%r1"))) is known


@pytest.mark.parametrize(
    ("a", "size_a", "b", "size_b", "expected"),
    [
        ("%r1", 4, "%r2", 4, True),  # word and word + 4
        ("%r1", 5, "%r2", 4, False),
        ("%r2", 4, "%r1", 4, True),
        ("%r1", 1, "%r1", 1, False),
        ("%r1", 4, "%r3", 4, True),  # two variables
        ("%r1", 4, "%r7", 4, True),  # one without a size follows it
        ("%r7", 4, "%r8", 4, None),  # all those without a size name the same memory
        ("%r1", 4, "%r4", 4, None),  # a parameter
        ("%r5", 4, "%r2", 4, None),  # tid against 4
        ("%r6", 4, "%r1", 64, True),  # 64 + 4 * (tid & 15)
        ("%r6", 4, "%r1", 65, None),
    ],
)
def test_apart(a: str, size_a: int, b: str, size_b: int, expected: bool | None) -> None:
    m = model(
        """
    .shared .b8 x[256]; .shared .b8 y[256];
    mov.u32 %r1, x;
    add.s32 %r2, %r1, 4;
    mov.u32 %r3, y;
    mov.u32 %r7, dynamic;
    mov.u32 %r8, dynamic_too;
    ld.param.u32 %r4, [number];
    mov.u32 %r10, %tid.x;
    add.s32 %r5, %r1, %r10;
    and.b32 %r11, %r10, 15;
    mad.lo.s32 %r12, %r11, 4, %r1;
    add.s32 %r6, %r12, 64;
    """
        + END,
        before=".extern .shared .b8 dynamic[]; .extern .shared .b8 dynamic_too[];",
    )
    assert m.values.addresses.disjoint((value(m, a), size_a), (value(m, b), size_b)) is expected
    assert m.values.addresses.disjoint((value(m, b), size_b), (value(m, a), size_a)) is expected


# ---------------------------------------------------------------- uniformity


@pytest.mark.parametrize(
    ("code", "level"),
    [
        ("ld.param.u32 %r1, [number];", UniformityScope.CTA),
        ("mov.u32 %r1, %ctaid.x;", UniformityScope.CTA),
        ("mov.u32 %r1, %tid.x;", UniformityScope.DIVERGENT),
        ("mov.u32 %r1, %laneid;", UniformityScope.DIVERGENT),
        ("mov.u32 %r2, %tid.x; shr.u32 %r1, %r2, 5;", UniformityScope.WARP),
        ("mov.u32 %r2, %tid.x; shr.u32 %r1, %r2, 7;", UniformityScope.WARPGROUP),
        ("mov.u32 %r2, %tid.x; shr.u32 %r1, %r2, 9;", UniformityScope.CTA),
        ("mov.u32 %r2, %tid.x; and.b32 %r1, %r2, 0;", UniformityScope.CTA),
        ("mov.u32 %r2, %tid.x; sub.s32 %r1, %r2, %r2;", UniformityScope.CTA),
        ("ld.param.u64 %rd1, [pointer]; ld.global.u32 %r1, [%rd1];", UniformityScope.CTA),
        (
            "mov.u32 %r2, %tid.x; ld.param.u64 %rd1, [pointer]; mad.wide.u32 %rd2, %r2, 4, %rd1; ld.global.u32 %r1, [%rd2];",
            UniformityScope.DIVERGENT,
        ),
        (
            (
                "mov.u32 %r2, %tid.x; ld.param.u64 %rd1, [pointer]; mad.wide.u32 %rd2, %r2, 4, %rd1; ld.global.u32 %r3, [%rd2];"
                "and.b32 %r1, %r3, 7;"
            ),
            UniformityScope.UNKNOWN,
        ),
        ("ld.param.u64 %rd1, [pointer]; atom.global.add.u32 %r1, [%rd1], 1;", UniformityScope.UNKNOWN),
        (
            "mov.u32 %r2, %tid.x; setp.eq.s32 %p1, %r2, 0; vote.sync.ballot.b32 %r1, %p1, -1;",
            UniformityScope.WARP,
        ),
        ("mov.u32 %r2, %tid.x; match.any.sync.b32 %r1, %r2, -1;", UniformityScope.UNKNOWN),
        ("mov.u32 %r1, %clock;", UniformityScope.UNKNOWN),
        (
            "ld.param.u32 %r2, [number]; cvt.rn.f32.u32 %f1, %r2; setp.gt.f32 %p1, %f1, 0f3F800000; selp.u32 %r1, 1, 0, %p1;",
            UniformityScope.CTA,
        ),
        (
            "mov.u32 %r2, %tid.x; cvt.rn.f32.u32 %f1, %r2; setp.gt.f32 %p1, %f1, 0f3F800000; selp.u32 %r1, 1, 0, %p1;",
            UniformityScope.UNKNOWN,
        ),
        (
            "ld.param.u32 %r2, [number]; add.cc.u32 %r3, %r2, 1; addc.u32 %r1, %r2, 0;",
            UniformityScope.UNKNOWN,
        ),
        (
            "ld.param.u32 %r2, [number]; setp.eq.s32 %p1, %r2, 0; mov.u32 %r1, 1; @%p1 bra end; mov.u32 %r1, 2;",
            UniformityScope.CTA,
        ),
        (
            "mov.u32 %r2, %tid.x; setp.eq.s32 %p1, %r2, 0; mov.u32 %r1, 1; @%p1 bra end; mov.u32 %r1, 2;",
            UniformityScope.UNKNOWN,
        ),
        (
            "mov.u32 %r1, 0;\nloop:\nadd.s32 %r1, %r1, 1; ld.param.u32 %r2, [number]; setp.lt.s32 %p1, %r1, %r2; @%p1 bra loop;",
            UniformityScope.CTA,
        ),
    ],
)
def test_uniformity(code: str, level: UniformityScope) -> None:
    m = of(code, directives=".reqntid 512")
    assert m.values.uniformity(value(m, "%r1")) is level


@pytest.mark.parametrize(
    ("directives", "shape"),
    [(".reqntid 4, 8, 2", (4, 8, 2)), (".reqntid 16, 6", (16, 6, 1)), (".reqntid 96", (96, 1, 1))],
)
def test_the_index_of_a_thread_in_its_cta(directives: str, shape: tuple[int, int, int]) -> None:
    """Threads are numbered along x first, and warps take them in that order."""
    code = "".join(
        f"mov.u32 %r{10 * k + i}, %{name}.{axis};\n"
        for k, name in enumerate(("tid", "ntid"), 1)
        for i, axis in enumerate("xyz")
    )
    m = of(f"{code}mov.u32 %r3, %laneid;\nmov.u32 %r4, %warpid;", directives=directives)
    x, y, z = shape
    threads = range(x * y * z)
    expected = {
        "%r10": [t % x for t in threads],
        "%r11": [t // x % y for t in threads],
        "%r12": [t // (x * y) for t in threads],
        "%r3": [t % 32 for t in threads],
        "%r4": [t // 32 for t in threads],
    }
    for register, places in expected.items():
        planes = m.values.bit_slices(value(m, register))
        assert planes is not None
        assert read(planes, len(threads)) == places
    assert [m.values.constant_of(value(m, f"%r2{i}")) for i in range(3)] == list(shape)


@pytest.mark.parametrize("directives", [".reqntid 64", ".reqntid 4, 16", ".maxntid 64", ""])
def test_the_fourth_dimension_is_not_an_axis(directives: str) -> None:
    """ptxas takes %tid.w, and %tid as a whole (10.1): neither is a position along x, y or z."""
    code = "mov.u32 %r1, %tid.w; mov.u32 %r2, %ntid.w; mov.v4.u32 {%r3, %r4, %r5, %r6}, %tid;"
    m = of(code, directives=directives)
    assert [m.values.bit_slices(value(m, f"%r{i}")) for i in (1, 2, 3)] == [None] * 3


def test_the_index_of_a_thread_in_a_cta_of_unknown_shape_is_unknown() -> None:
    code = "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.y; add.u32 %r4, %r1, %r2;"
    m = of(code, directives=".maxntid 64")
    assert [m.values.bit_slices(value(m, f"%r{i}")) for i in (1, 2, 3)] == [None] * 3
    m = of("mov.u32 %r1, %ntid.x;", directives=".maxntid 64")
    assert m.values.constant_of(value(m, "%r1")) is None


def test_a_divergent_loop_makes_its_counter_unknown_after_it() -> None:
    m = of(
        """
    mov.u32 %r3, %tid.x;
    mov.u32 %r1, 0;
loop:
    add.s32 %r1, %r1, 1;
    setp.lt.s32 %p1, %r1, %r3;
    @%p1 bra loop;
    """
    )
    assert m.values.uniformity(value(m, "%r1")) is UniformityScope.UNKNOWN


def read(planes: T.BitSlices, threads: int) -> list[int]:
    """The number in every thread."""
    found = {t: n for n, who in T.numbers(planes, T.full(threads)) for t in range(threads) if who >> t & 1}
    return [found[t] for t in range(threads)]


@pytest.mark.parametrize(
    ("other", "asked", "threads"),
    [
        pytest.param("selp.b32 %r1, 1, 0, %p3;", "setp.ne.s32 %p2, %r1, 0;", 0xF, id="not zero"),
        pytest.param("selp.b32 %r1, 1, 0, %p3;", "setp.eq.s32 %p2, %r1, 0;", T.full(64), id="zero"),
        pytest.param("mov.u32 %r1, 3;", "setp.lt.u32 %p2, %r1, 3;", T.full(64) ^ 0xF, id="below"),
        pytest.param("mov.u32 %r1, %r2;", "setp.ne.s32 %p2, %r1, 0;", 0xF, id="what is not known"),
        pytest.param("mov.u32 %r1, %r0;", "setp.eq.s32 %p2, %r1, 2;", 0x4, id="own index"),
        pytest.param("again: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p3, %r2, %r1;\n@%p3 bra again;", "setp.eq.u32 %p2, %r1, 4;", T.full(64),
                     id="counted"),
    ],
)  # fmt: skip
def test_which_threads_may_have_a_value_that_is_joined(other: str, asked: str, threads: int) -> None:
    """Threads 0 to 3 come another way than the others, which have 0."""
    code = f"""
    ld.param.u32 %r2, [number];
    setp.eq.u32 %p3, %r2, 7;
    mov.u32 %r0, %tid.x;
    setp.gt.u32 %p1, %r0, 3;
    mov.u32 %r1, 0;
    @%p1 bra joined;
    {other}
joined:
    {asked}
    ret;
    """
    m = of(code, directives=".reqntid 64")
    assert m.values.feasible_threads(value(m, "%p2"), True) == threads


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("setp.eq.s64 %p1, %rd1, 5;", "setp.eq.s32 %p2, %r1, 5;"),
        ("setp.lt.s64 %p1, %rd1, 5;", "setp.lt.u32 %p2, %r1, 5;"),
        ("setp.gt.u64 %p1, %rd1, 5;", "setp.gt.u32 %p2, %r1, 5;"),
        ("cvt.u32.u64 %r3, %rd1; setp.lt.s32 %p1, %r3, 5;", "setp.lt.s32 %p2, %r1, 5;"),
    ],
)
def test_a_widened_number_is_compared_as_what_it_was(wide: str, narrow: str) -> None:
    assert same(f"ld.param.u32 %r1, [number]; cvt.u64.u32 %rd1, %r1; {wide} {narrow}", "%p1", "%p2")


def test_a_register_that_is_taken_apart_and_put_together_again_is_the_same() -> None:
    assert same(
        "ld.param.u64 %rd1, [pointer]; add.s64 %rd2, %rd1, 8; mov.b64 {%r1, %r2}, %rd2; mov.b64 %rd3, {%r1, %r2};",
        "%rd2",
        "%rd3",
    )
    assert same("ld.param.u32 %r1, [number]; mov.b64 %rd1, {%r1, %r1}; mov.b64 {_, %r2}, %rd1;", "%r1", "%r2")


def test_a_32_bit_value_does_not_decide_the_sign_of_64_bits() -> None:
    m = of(
        "ld.param.u32 %r1, [number]; cvt.u64.u32 %rd1, %r1; setp.lt.s32 %p1, %r1, 0; setp.lt.s64 %p2, %rd1, 0;"
    )
    facts = m.values.refine(value(m, "%p1"), True, PathCondition())
    assert m.values.entails(value(m, "%p2"), facts) is not True


def test_what_was_narrowed_may_get_a_sign_when_it_is_widened() -> None:
    m = of(
        "ld.param.u32 %r1, [n]; ld.param.u64 %rd5, [m]; cvt.u64.u32 %rd1, %r1; cvt.u32.u64 %r2, %rd1;"
        "cvt.s64.s32 %rd2, %r2; shr.u64 %rd3, %rd5, 20; cvt.u32.u64 %r3, %rd3; cvt.s64.s32 %rd4, %r3;",
        parameters=".param .u32 n, .param .u64 m",
    )
    above = -1 << 32 & (1 << 64) - 1
    zeros = {
        register: m.values.known_bits(value(m, register))[0] for register in ("%rd1", "%rd2", "%rd3", "%rd4")
    }
    assert zeros["%rd1"] == above
    assert zeros["%rd3"] == -1 << 44 & (1 << 64) - 1
    assert zeros["%rd2"] == zeros["%rd4"] == 0
    assert value(m, "%r2") == value(m, "%r1")


_STEPS = (
    "add.s32 {r}, {a}, {b};", "add.s32 {r}, {a}, {c};", "sub.s32 {r}, {a}, {b};", "mul.lo.s32 {r}, {a}, {c};",
    "shl.b32 {r}, {a}, {n};", "shr.u32 {r}, {a}, {n};", "shr.s32 {r}, {a}, {n};", "bfe.u32 {r}, {a}, {n}, 9;",
    "and.b32 {r}, {a}, {c};", "or.b32 {r}, {a}, {c};", "xor.b32 {r}, {a}, {b};", "or.b32 {r}, {a}, {b};",
    "cvt.u64.u32 {w}, {a};", "cvt.s64.s32 {w}, {a};", "mov.b64 {w}, {{{a}, {b}}};", "mov.b64 {w}, {{{a}, 0}};",
    "mov.b64 {{{r}, _}}, {v};", "mov.b64 {{_, {r}}}, {v};", "cvt.u32.u64 {r}, {v};", "or.b64 {w}, {v}, {d};",
    "add.s64 {w}, {v}, {d};", "add.s64 {w}, {v}, {c};", "and.b64 {w}, {v}, {d};", "shr.u64 {w}, {v}, {n};",
    "shl.b64 {w}, {v}, {n};", "bfe.u64 {w}, {v}, {n}, 20;",
)  # fmt: skip
_CONSTANTS = st.sampled_from((1, 2, 6, 0x3FFF, 0x30, 0x0820_0490, 0x7FFF_FFF0, -1, -16, 3072, 0xFFFF0))
_LONG = st.sampled_from(
    (0x4000_4040_0000_0000, 0x4000_4040_0000_0002, 0xFFFF_FFFF, 1 << 46, 0x3FFF_0000_0000)
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_known_bits_are_those_of_every_run(data: st.DataObject) -> None:
    """The same steps from parameters, of which nothing is known, and from the numbers that they may be."""
    number = data.draw(st.integers(0, (1 << 32) - 1) | _CONSTANTS.map(lambda n: n & 0xFFFF_FFFF))
    body, r, w = [], 3, 1
    for _ in range(data.draw(st.integers(1, 7))):
        step = data.draw(st.sampled_from(_STEPS))
        a, b = (f"%r{data.draw(st.integers(1, r - 1))}" for _ in "ab")
        v, c, d = f"%rd{data.draw(st.integers(0, w - 1))}", data.draw(_CONSTANTS), data.draw(_LONG)
        n = data.draw(st.integers(0, 23))
        body.append(step.format(r=f"%r{r}", w=f"%rd{w}", a=a, b=b, c=c, d=d, v=v, n=n))
        r, w = r + ("{r}" in step), w + ("{w}" in step)
    text = " ".join(body)
    unknown = of(
        f"ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; cvt.u64.u32 %rd0, %r1; {text}",
        parameters=".param .u32 n",
    )
    known = of(f"mov.b32 %r1, {number}; mov.b32 %r2, 77; cvt.u64.u32 %rd0, %r1; {text}")
    for names, width, count in (("%r", 32, r), ("%rd", 64, w)):
        for i in range(1, count):
            (zeros, ones), name = unknown.values.known_bits(value(unknown, f"{names}{i}")), f"{names}{i}"
            exact = known.values.constant_of(value(known, name))
            assert exact is not None, (name, text)
            bits = exact & ((1 << width) - 1)
            assert not bits & zeros & ((1 << width) - 1), (name, text, hex(bits), hex(zeros))
            assert not ~bits & ones & ((1 << width) - 1), (name, text, hex(bits), hex(ones))


def test_a_sum_that_wraps_before_it_is_widened() -> None:
    """Above its sign there is no carry, but the sign: of thread 77 it is negative."""
    m = of("mov.u32 %r2, %tid.x; add.s32 %r3, %r2, 0x7ffffff0; cvt.s64.s32 %rd2, %r3; shl.b64 %rd3, %rd2, 2;")
    for name in ("%rd2", "%rd3"):
        zeros, _ = m.values.known_bits(value(m, name))
        assert not zeros >> 40


@pytest.mark.parametrize(
    ("code", "may", "must"),
    [
        (
            "bfe.u32 %r2, %r1, 4, 14; mov.b64 %rd1, {%r2, 0x40004040};",
            0x4000_4040_0000_3FFF,
            0x4000_4040 << 32,
        ),
        ("cvt.u64.u32 %rd2, %r1; or.b64 %rd1, %rd2, 0x400000000000;", 0x4000_FFFF_FFFF, 1 << 46),
        ("cvt.u64.u32 %rd2, %r1; add.s64 %rd1, %rd2, 0x400000000000;", 0x4000_FFFF_FFFF, 1 << 46),
        ("and.b32 %r2, %r1, 0xff; add.s32 %r3, %r2, 0x400; cvt.s64.s32 %rd1, %r3;", 0x4FF, 0x400),
        ("mov.b64 %rd2, {%r1, 5}; mov.b64 {%r2, %r3}, %rd2; mov.b64 %rd1, {0, %r3};", 5 << 32, 5 << 32),
    ],
)
def test_known_bits_of_numbers_that_are_put_together(code: str, may: int, must: int) -> None:
    m = of(f"ld.param.u32 %r1, [n]; {code}", parameters=".param .u32 n")
    zeros, ones = m.values.known_bits(value(m, "%rd1"))
    assert (~zeros & (1 << 64) - 1, ones) == (may, must)


def test_known_bits_of_a_pointer_that_strides_by_the_threads_of_the_cta() -> None:
    m = of(
        """
        mov.u32 %r1, %ntid.x;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r1, 2;
        shl.b32 %r4, %r2, 2;
        loop: add.s32 %r4, %r4, %r3;
        setp.lt.s32 %p1, %r4, 1024;
        @%p1 bra loop;
        add.s32 %r5, %r4, 2;
        """
    )
    zeros, ones = m.values.known_bits(value(m, "%r5"))
    assert (zeros & 3, ones & 3) == (1, 2)


def test_known_bits_of_a_descriptor_that_a_loop_moves_on() -> None:
    m = of(
        """
        ld.param.u32 %r1, [n];
        bfe.u32 %r2, %r1, 4, 10;
        mov.b64 %rd1, {%r2, 0x40004040};
        mov.b32 %r3, 0;
        loop: add.s64 %rd1, %rd1, 2;
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, %r1;
        @%p1 bra loop;
        """,
        parameters=".param .u32 n",
    )
    zeros, ones = m.values.known_bits(value(m, "%rd1"))
    assert not (zeros | ones) & 2
    assert zeros & ones == 0


@pytest.mark.parametrize(
    ("next_number", "bounds"),
    [
        ("add.u32 %r4, %r3, 1; setp.eq.u32 %p1, %r4, 4; selp.b32 %r3, 0, %r4, %p1;", (0, 3)),
        ("add.u32 %r4, %r3, 1; setp.lt.s32 %p1, %r4, 4; selp.b32 %r3, %r4, 0, %p1;", (0, 3)),
        ("add.u32 %r4, %r3, 1; setp.ne.u32 %p1, %r4, 4; selp.b32 %r3, %r4, 0, %p1;", (0, 3)),
        ("setp.eq.u32 %p1, %r3, 3; add.u32 %r4, %r3, 1; selp.b32 %r3, 0, %r4, %p1;", (0, 3)),
        ("add.u32 %r4, %r3, 1; setp.eq.u32 %p1, %r4, %r1; selp.b32 %r3, 0, %r4, %p1;", None),
        ("add.u32 %r4, %r3, 2; setp.eq.u32 %p1, %r4, 5; selp.b32 %r3, 0, %r4, %p1;", None),
        ("add.u32 %r4, %r3, 1; setp.eq.u32 %p1, %r1, 4; selp.b32 %r3, 0, %r4, %p1;", None),
        ("add.u32 %r3, %r3, 1;", None),
        ("xor.b32 %r3, %r3, 1;", None),
        ("and.b32 %r3, %r1, 7;", (0, 7)),
        ("setp.eq.u32 %p1, %r1, 4; selp.b32 %r3, 9, %r3, %p1;", (0, 9)),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_bounds_of_what_a_loop_carries(
    next_number: str, bounds: tuple[int, int] | None, nested: bool
) -> None:
    """The stage of a ring continues from where it was when the outer loop iterates again."""
    m = of(
        f"""
        ld.param.u32 %r1, [n];
        mov.b32 %r3, 0;
        outer: mov.b32 %r9, 0;
        inner: mov.b32 %r5, %r3;
        {next_number}
        add.u32 %r9, %r9, 1;
        setp.lt.u32 %p2, %r9, %r1;
        @%p2 bra inner;
        setp.ne.u32 %p3, %r9, 7;
        {"@%p3 bra outer;" if nested else ""}
        """,
        parameters=".param .u32 n",
    )
    assert m.values.interval(value(m, "%r5")) == bounds


@pytest.mark.parametrize(
    ("rest", "bounds"),
    [
        ("rem.u32 %r5, %r1, 3;", (0, 2)),
        ("rem.s32 %r5, %r1, 3;", (-2, 2)),
        ("and.b32 %r2, %r1, 255; rem.s32 %r5, %r2, 7;", (0, 6)),
        ("rem.u32 %r5, %r1, %r6;", None),
        ("rem.u32 %r5, %r1, 0;", None),
        ("rem.u32 %r5, %r1, 0x80000001;", None),
        ("rem.u32 %r2, %r1, 3; mad.lo.u32 %r5, %r2, 8, 4;", (4, 20)),
    ],
)
def test_bounds_of_what_a_division_leaves(rest: str, bounds: tuple[int, int] | None) -> None:
    m = of(f"ld.param.u32 %r1, [n]; ld.param.u32 %r6, [n+4]; {rest}", parameters=".param .align 8 .b8 n[8]")
    assert m.values.interval(value(m, "%r5")) == bounds


def test_known_bits_distinguish_addresses() -> None:
    """Rings of 16-byte slots: the barrier at 8 of one slot is never the one at 0 of another."""
    m = of(
        """
        ld.param.u32 %r1, [n];
        mov.u32 %r2, %tid.x;
        shl.b32 %r4, %r1, 4;
        shl.b32 %r6, %r2, 4;
        add.u32 %r8, %r6, 8;
        and.b32 %r9, %r2, 7;
        shl.b32 %r10, %r9, 2;
        or.b32 %r11, %r10, 1;
        """,
        parameters=".param .u32 n",
    )
    full, there, other = (value(m, name) for name in ("%r4", "%r8", "%r6"))
    assert m.values.addresses.disjoint((full, 8), (there, 8)) is True
    assert m.values.addresses.disjoint((full, 9), (there, 8)) is None
    assert m.values.addresses.disjoint((full, 8), (other, 8)) is None
    every = (1 << 64) - 1
    for name, may, must in (("%r9", 7, 0), ("%r11", 0b11101, 1), ("%r4", every & ~15, 0)):
        zeros, ones = m.values.known_bits(value(m, name))
        assert (~zeros & every, ones) == (may, must), name


SWIZZLE = """
    .shared .align {align} .b8 ring[8192];
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r1, [number];
    mov.u32 %r2, ring;
    mad.lo.u32 %r3, %r0, 144, %r2;
    shl.b32 %r4, %r1, 12;
    shr.u32 %r5, %r3, 3;
    and.b32 %r6, %r5, 112;
    xor.b32 %r7, %r6, %r3;
    add.u32 %r8, %r7, %r4;
"""


@pytest.mark.parametrize(("align", "known"), [(1024, True), (512, False)])
def test_a_swizzle_of_an_aligned_address_is_a_distance_from_the_variable(align: int, known: bool) -> None:
    m = of(SWIZZLE.format(align=align))
    terms, constant = m.values.linear(value(m, "%r8"))
    distances = [planes for term, _ in terms if (planes := m.values.bit_slices(term)) is not None]
    assert [m.space(term) for term, _ in terms].count(".shared") == 1
    assert len(distances) == known
    if known:
        offsets = [t * 144 for t in range(64)]
        assert read(distances[0], 64) == [x ^ x >> 3 & 112 for x in offsets]
        assert constant == 0


# ---------------------------------------------------------------- fields of bits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bfe.s32 %r3, %r1, 5, 1;", lambda t: -(t >> 5 & 1)),
        ("bfe.s32 %r3, %r1, 2, 3;", lambda t: ((t >> 2 & 7) ^ 4) - 4),
        ("bfe.u32 %r3, %r1, 2, 3;", lambda t: t >> 2 & 7),
        ("mov.u32 %r2, 0x85; bfi.b32 %r3, %r1, %r2, 3, 4;", lambda t: 0x85 & ~0x78 | (t & 15) << 3),
        ("mov.u32 %r2, 6; bfi.b32 %r3, %r2, %r1, 5, 29;", lambda t: t & 31 | 6 << 5),
        ("div.s32 %r3, %r1, 8;", lambda t: t // 8),
        ("rem.s32 %r3, %r1, 8;", lambda t: t % 8),
        ("not.b32 %r2, %r1; div.u32 %r3, %r2, 64;", lambda t: (~t & 0xFFFFFFFF) // 64),
        ("not.b32 %r2, %r1; rem.u32 %r3, %r2, 64;", lambda t: ~t & 63),
        ("not.b32 %r2, %r1; div.s32 %r3, %r2, 64;", lambda t: -((t + 1) // 64)),
        ("rem.u32 %r3, %r1, 24;", lambda t: t % 24),
    ],
)
def test_a_field_of_the_thread_index(text: str, expected: Callable[[int], int]) -> None:
    m = of(f"mov.u32 %r1, %tid.x; {text}")
    planes = m.values.bit_slices(value(m, "%r3"))
    assert planes is not None
    assert read(planes, 128) == [expected(t) for t in range(128)]


NUMBERED = """
mov.u32 %r0, %ntid.x; mov.u32 %r1, %ntid.y; mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z;
mad.lo.s32 %r5, %r1, %r4, %r3; mul.lo.s32 %r6, %r5, %r0; or.b32 %r7, %r6, %r2;
"""


@pytest.mark.parametrize(
    ("directives", "flat"), [(".maxntid 128", True), (".maxntid 128, 1, 1", True), (".maxntid 32, 4", False)]
)
def test_a_bound_of_several_dimensions_is_of_a_launch_that_may_have_them(directives: str, flat: bool) -> None:
    m = of("mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;", directives=directives)
    assert m.values.one_dimensional == flat


@pytest.mark.parametrize("directives", [".maxntid 64", ""])
@pytest.mark.parametrize("axis", ["%tid.y", "%tid.z"])
def test_a_kernel_that_selects_the_first_of_several_rows_is_not_made_for_one(
    axis: str, directives: str
) -> None:
    code = f"mov.u32 %r1, {axis};\nsetp.eq.u32 %p1, %r1, 0;\nmov.u32 %r7, %tid.x;"
    assert not of(code, directives=directives).values.one_dimensional


@pytest.mark.parametrize(
    ("code", "flat"),
    [
        (NUMBERED, True),
        # the row is used by itself; another register than the height; the height alone
        (f"{NUMBERED} add.u32 %r7, %r3, 1;", False),
        (NUMBERED.replace("mad.lo.s32 %r5, %r1", "mad.lo.s32 %r5, %r0"), False),
        (NUMBERED.replace("mul.lo.s32 %r6, %r5, %r0", "mul.lo.s32 %r6, %r5, 3"), False),
        ("mov.u32 %r1, %tid.y; add.u32 %r2, %r1, 1; mov.u32 %r7, %tid.x;", False),
        ("mov.u32 %r1, %tid.z; add.u32 %r2, %r1, 1; mov.u32 %r7, %tid.x;", False),
        # it elects the first thread, besides; another one; the sum serves for something else
        (f"{NUMBERED} or.b32 %r8, %r3, %r4; add.u32 %r9, %r8, %r2; setp.eq.u32 %p1, %r9, 0;", True),
        (f"{NUMBERED} or.b32 %r8, %r3, %r4; setp.eq.u32 %p1, %r8, 0;", False),
        (f"{NUMBERED} add.u32 %r8, %r3, %r9; add.u32 %r10, %r8, %r2; setp.eq.u32 %p1, %r10, 0;", False),
        (f"{NUMBERED} or.b32 %r8, %r3, %r4; setp.eq.u32 %p1, %r8, 1;", False),
        (f"{NUMBERED} add.u32 %r8, %r3, 1; setp.eq.u32 %p1, %r8, 0;", False),
        (f"{NUMBERED} or.b32 %r8, %r3, %r4; setp.eq.u32 %p1, %r8, 0; mul.lo.u32 %r9, %r8, 3;", False),
        ("mov.u32 %r1, %tid.y; mov.u32 %r7, %tid.x; or.b32 %r2, %r1, %r7; setp.ne.u32 %p1, %r2, 0;", True),
        # it elects the first thread by comparing the offset of a row with -x; another thread
        (f"{NUMBERED} neg.s32 %r8, %r2; setp.ne.s32 %p1, %r6, %r8;", True),
        (f"{NUMBERED} neg.s32 %r8, %r2; setp.eq.s32 %p1, %r8, %r6;", True),
        (f"{NUMBERED} neg.s32 %r8, %r2; setp.lt.s32 %p1, %r6, %r8;", False),
        (f"{NUMBERED} neg.s32 %r8, %r2; setp.eq.s32 %p1, %r5, %r8;", False),
        (f"{NUMBERED} neg.s32 %r8, %r3; setp.eq.s32 %p1, %r6, %r8;", False),
        (f"{NUMBERED} setp.eq.s32 %p1, %r6, %r2;", False),
        # the offset of a row serves for something else than the index of a thread; the index of a row does
        (f"{NUMBERED} setp.eq.u32 %p1, %r6, 0;", False),
        (f"{NUMBERED} mad.lo.s32 %r8, %r0, 3, %r5;", False),
        (NUMBERED.replace("or.b32 %r7, %r6, %r2", "or.b32 %r7, %r2, %r2; add.s32 %r8, %r6, 5"), False),
        (NUMBERED.replace("mul.lo.s32 %r6, %r5, %r0", "mad.lo.s32 %r6, %r5, %r0, %r3"), False),
        # the size in another dimension; all dimensions at once
        ("mov.u32 %r1, %ntid.y; mov.u32 %r7, %tid.x; setp.eq.u32 %p1, %r1, 1;", False),
        ("mov.u32 %r1, %ntid.z; mov.u32 %r7, %tid.x; setp.eq.u32 %p1, %r1, 1;", False),
        # the number of threads, in two orders; a part of it
        (f"{NUMBERED} mov.u32 %r8, %ntid.z; mul.lo.s32 %r9, %r0, %r1; mul.lo.s32 %r10, %r9, %r8;", True),
        (f"{NUMBERED} mov.u32 %r8, %ntid.z; mul.lo.s32 %r9, %r8, %r1; mul.lo.s32 %r10, %r9, %r0;", True),
        (f"{NUMBERED} mov.u32 %r8, %ntid.z; mul.lo.s32 %r9, %r8, %r1;", True),
        (f"{NUMBERED} mul.lo.s32 %r9, %r0, %r1; add.s32 %r10, %r9, 1;", False),
        ("mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid; mov.u32 %r7, %tid.x;", False),
    ],
)
def test_a_cta_whose_threads_are_only_numbered_may_have_one_dimension(code: str, flat: bool) -> None:
    m = of(code.replace("; ", ";\n"), directives=".maxntid 64")
    planes = m.values.bit_slices(value(m, "%r7"))
    assert m.values.one_dimensional == flat
    assert (planes is not None) == flat
    assert planes is None or read(planes, 64) == list(range(64))


@pytest.mark.parametrize(
    ("directives", "code", "size"),
    [
        (".reqntid 96", "mov.u32 %r1, %ntid.x;", 96),
        (".maxntid 96", "mov.u32 %r1, %tid.x;", 96),
        (".maxntid 16, 6", "mov.u32 %r1, %tid.y;", 96),
        (".maxntid 96", "mov.u32 %r1, %ntid.x;", None),
        (".maxntid 96", "mov.u32 %r1, %ntid.y;", None),
        ("", "mov.u32 %r1, %tid.x;", None),
    ],
)
def test_a_bound_is_the_size_of_a_kernel_that_never_reads_its_size(
    directives: str, code: str, size: int | None
) -> None:
    assert of(code, directives=directives).values.cta_size == size


TABLE = """
    .shared .align 8 .b8 global_smem[64];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    mov.u32 %r2, global_smem;
    add.s32 %r3, %r2, %r1;
    st.shared.v2.b32 [global_smem+16], {{{first}, 0x01010101}};
    bar.sync 0;
    ld.shared.b8 %r4, [%r3+{offset}];
    {more}
    setp.eq.s32 %p1, %r4, {number};
"""


def warps(*numbers: int) -> int:
    return sum(0xFFFFFFFF << 32 * n for n in numbers)


@pytest.mark.parametrize(
    ("first", "offset", "more", "number", "may"),
    [
        ("0x03020100", 16, "", 0, warps(0)),
        ("0x03020100", 16, "", 1, warps(1, 4, 5, 6, 7)),
        ("0x03020100", 16, "", 2, warps(2)),
        ("0x03020100", 16, "", 9, 0),
        ("0x03020100", 12, "", 0, warps(0, 1, 2, 3, 4)),  # what the first four find is unknown
        ("0x03020100", 16, "st.shared.b32 [global_smem+16], 0;", 0, warps(0, 1, 2, 3)),
        ("0x03020100", 16, "st.shared.b32 [global_smem+16], 0;", 3, warps(3)),
        ("0x03020100", 16, "st.shared.b32 [global_smem+16], %r0;", 1, -1),  # which word is unknown
        ("0x03020100", 16, "mov.u32 %r5, global_smem; st.shared.b32 [%r5+20], %r0;", 1, warps(1, 4, 5, 6, 7)),
        ("0x03020100", 16, "mov.u32 %r5, global_smem; st.shared.b32 [%r5+20], 2;", 2, warps(2, 4)),
        ("0x03020100", 16, "atom.shared.or.b32 %r5, [global_smem+16], 1;", 1, -1),
        ("0x03020100", 16, "red.shared.add.noftz.f16x2 [global_smem+32], %r0;", 2, warps(2)),
        (
            "0x03020100",
            16,
            "shl.b32 %r5, %r0, 2; add.s32 %r5, %r2, %r5; st.shared.b32 [%r5], %r0;",
            2,
            warps(2),
        ),  # a tile
        ("0x03020100", 16, "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r9], {%r0};", 2, warps(2)),
        ("0x03020100", 16, "st.shared.b8 [%r3], %r4;", 0, -1),  # a number of each thread
        ("%r0", 16, "", 0, warps(0, 1, 2, 3)),  # what is stored is not said
        ("0x03020100", 16, "add.s32 %r4, %r4, 1;", 1, warps(0)),
        ("0x03020100", 16, "xor.b32 %r4, %r4, %r0;", 0, -1),
        ("0x03020100", 16, "and.b32 %r4, %r4, 255;", 2, warps(2)),
        ("0x03020100", 16, "and.b32 %r4, %r4, 1;", 1, -1),  # a part of it
    ],
)
def test_a_table_of_global_smem(first: str, offset: int, more: str, number: int, may: int) -> None:
    """Triton stores which warps take which part as constants, and each warp loads its byte (test of what it may be)."""
    m = of(TABLE.format(first=first, offset=offset, more=more, number=number), directives=".reqntid 256")
    every = T.full(256)
    assert m.values.feasible_threads(value(m, "%p1"), True) == may & every


def test_a_table_with_unknown_stores_decides_no_threads() -> None:
    """Only in Triton's variable are stores to unknown addresses assumed to be to something else."""
    body = TABLE.format(first=0, offset=16, more="", number=0).replace("global_smem", "flags")
    m = of(body, directives=".reqntid 256")
    assert m.values.feasible_threads(value(m, "%p1"), True) == T.full(256)


def test_a_table_that_each_thread_reads_for_itself() -> None:
    body = TABLE.format(first=0, offset=16, more="", number=0).replace(
        "shr.u32 %r1, %r0, 5;", "mov.u32 %r1, %r0;"
    )
    m = of(body, directives=".reqntid 256")
    assert m.values.feasible_threads(value(m, "%p1"), True) == T.full(256)


def test_cases_of_a_table_of_global_smem() -> None:
    """Which threads take which case of a branch table, too."""
    m = of(
        TABLE.format(first="0x00020100", offset=16, more="", number=0)
        + "table: .branchtargets none, one, two;\nbrx.idx %r4, table;\nnone: mov.u32 %r5, 0;\nret;\n"
        "one: mov.u32 %r5, 1;\nret;\ntwo: mov.u32 %r5, 2;\nret;",
        directives=".reqntid 256",
    )
    found = [
        m.views.context_of(i).threads
        for i, ins in enumerate(m.function.instructions)
        if ins.opcode == "mov.u32"
    ][-3:]
    assert found == [warps(0, 3), warps(1, 4, 5, 6, 7), warps(2)]
    assert m.views.reachability.dispatchers
    assert not m.views.reachability.unresolved_dispatchers


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("bfe.u32 %r4, %r0, 5, 5;", [warps(0), warps(1, 3), warps(2)]),
        ("shr.u32 %r4, %r0, 6;", [warps(0, 1), warps(2, 3, 6, 7), warps(4, 5)]),
        ("ld.param.u32 %r4, [n];", [warps(*range(8))] * 3),
    ],
)
def test_cases_that_the_thread_index_selects(selector: str, found: list[int]) -> None:
    """``switch`` over the number of a warp becomes a branch table (nvcc)."""
    m = of(
        f"mov.u32 %r0, %tid.x; {selector}\n"
        "table: .branchtargets none, one, two, one;\nbrx.idx %r4, table;\nnone: mov.u32 %r5, 0;\nret;\n"
        "one: mov.u32 %r5, 1;\nret;\ntwo: mov.u32 %r5, 2;\nret;",
        directives=".reqntid 256",
        parameters=".param .u32 n",
    )
    moves = [i for i, ins in enumerate(m.function.instructions) if ins.opcode == "mov.u32"]
    assert [m.views.context_of(i).threads for i in moves[-3:]] == found


ROUND = """
    mov.u32 %r1, 0;
    mov.u32 %r2, %r9;
    mov.u32 %r3, 0;
round:
    st.shared.u32 [%r1], %r2;
    add.u32 %r1, %r1, 1;
    setp.eq.u32 %p1, %r1, 3;
    selp.b32 %r1, 0, %r1, %p1;
    selp.b32 %r4, 1, 0, %p1;
    xor.b32 %r2, %r2, %r4;
    add.u32 %r3, %r3, %r1;
    @%p1 add.u32 %r3, %r3, %r2;
    setp.lt.u32 %p2, %r3, 99;
    @%p2 bra round;
    st.shared.u32 [%r3], %r1;
"""


@pytest.mark.parametrize("first", range(12))
def test_what_a_loop_computes_is_the_same_wherever_one_begins_to_ask(first: int) -> None:
    """The parity of a ring is made of its counter, which it asks for in the midst of a round."""

    def picture(m: KernelModel, value: int) -> object:
        """What a value is made of, whatever the numbers of its parts are."""
        node = m.values.node(value)
        if type(node) in (Phi, Constant, Undefined):
            return repr(node)
        parts = sorted(repr(picture(m, part)) for part in node.operands)
        return type(node), parts, node.constant if type(node) is Sum else ""

    def asked(*order: int) -> list[object]:
        m = of(ROUND)
        reads = [(r, i) for i, ins in enumerate(m.function.instructions) for r in ins.reads]
        for n in order:
            m.values.before(*reads[n])
        found = [m.values.before(*read) for read in reads]
        return [picture(m, v) for value in found for v in (value, *m.values.arguments(value))]

    assert asked(first) == asked()
    assert "Unmodelled" not in repr(asked(first))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("most", "less"), [(2, True), (1, False)])
def test_one_of_two_numbers_and_how_far_the_other_one_is_from_it(
    order: tuple[int, int], most: int, less: bool
) -> None:
    """The first CTA that is the last one as well is alone."""
    values = model("ret;").values
    own, count = values.special("%ctaid.x"), values.special("%nctaid.x")
    said = [
        values.compare("eq", own, values.constant(0), True),
        values.compare("eq", own, values.add(count, values.constant(-1)), True),
    ]
    facts = PathCondition()
    for k in order:
        facts = values.refine(said[k], True, facts)
    assert values.entails(values.compare("lt", count, values.constant(most), False), facts) is less


@pytest.mark.parametrize(
    ("address", "space", "answer"),
    [
        ("mov.u64 %rd1, tile;", ".shared", 1),
        ("mov.u64 %rd2, tile; cvta.shared.u64 %rd1, %rd2; add.u64 %rd1, %rd1, 8;", ".shared", 1),
        ("mov.u64 %rd1, tile;", ".shared::cta", 1),
        ("mov.u64 %rd1, tile;", ".global", 0),
        ("mov.u64 %rd1, table;", ".global", 1),
        ("mov.u64 %rd1, table;", ".shared", 0),
        ("ld.param.u64 %rd1, [pointer];", ".shared", None),
    ],
)
def test_the_state_space_of_an_address_is_asked_once(address: str, space: str, answer: int | None) -> None:
    """Two questions about one address have one answer."""
    m = model(
        f".shared .align 8 .b8 tile[64];\n{address}\nisspacep{space} %p0, %rd1;\nisspacep{space} %p1, %rd1;\nend: ret;",
        before=".global .align 8 .b8 table[64];",
    )
    first, second = (
        m.values.before(number_of(m.function, name), label(m.function, "end")) for name in ("%p0", "%p1")
    )
    assert first == second
    assert m.values.constant_of(first) == answer


_BITS = 16
_OPERATIONS = {
    "shr.u16": lambda x, c: x >> min(c, _BITS),
    "shr.s16": lambda x, c: as_signed(x, _BITS) >> min(c, _BITS),
    "shl.b16": lambda x, c: x << c,
    "div.u16": lambda x, c: x // max(c, 1),
    "div.s16": lambda x, c: abs(as_signed(x, _BITS)) // max(c, 1) * (-1 if as_signed(x, _BITS) < 0 else 1),
    "and.b16": lambda x, c: x & c,
}  # fmt: skip
_NUMBERS = [x for x in range(1 << _BITS) if x < 1024 or (x + 32) % 4096 < 160]
_TESTS = {"lt": int.__lt__, "ge": int.__ge__, "eq": int.__eq__, "gt": int.__gt__}


_operations = st.lists(
    st.tuples(st.sampled_from(sorted(_OPERATIONS)), st.sampled_from([0, 1, 2, 3, 4, 6, 15])), max_size=2
)
_limits = st.sampled_from(
    [0, 1, 2, 3, 4, 7, 8, 100, 8192, 16384, 32767, 32768, 32769, 49152, 65528, 65534, 65535]
)


@settings(max_examples=60, deadline=None)
@given(
    known=st.lists(st.tuples(_operations, st.sampled_from("us"), st.sampled_from(sorted(_TESTS)), _limits), max_size=3),
    asked=st.tuples(_operations, st.sampled_from("us"), st.sampled_from(sorted(_TESTS)), _limits),
)  # fmt: skip
@example(known=[([("div.s16", 0)], "s", "ge", 0)], asked=([("div.s16", 0), ("shl.b16", 1)], "u", "eq", 0))
def test_what_comparisons_imply_holds_for_every_value(
    known: list[tuple[Any, ...]], asked: tuple[Any, ...]
) -> None:
    """Of shifts, quotients and masks of one number: read with and without a sign, and where they wrap.

    But for an order of signed numbers, which are taken not to wrap (``no-overflow``).
    """
    lines = ["ld.param.u16 %h0, [number];"]
    for n, (steps, sign, relation, limit) in enumerate((*known, asked)):
        lines.append(f"mov.b16 %h{n + 1}, %h0;")
        lines += [f"{name} %h{n + 1}, %h{n + 1}, {max(by, int(name[:3] == 'div'))};" for name, by in steps]
        number = as_signed(limit, _BITS) if sign == "s" else limit
        lines.append(f"setp.{relation}.{sign}16 %p{n}, %h{n + 1}, {number};")
    m = model("\n".join([*lines, "end: ret;"]), parameters=".param .u16 number")

    def holds(test: tuple[Any, ...], x: int) -> bool:
        steps, sign, relation, limit = test
        for name, by in steps:
            x = _OPERATIONS[name](x, by) & (1 << _BITS) - 1
        return _TESTS[relation](
            *((as_signed(x, _BITS), as_signed(limit, _BITS)) if sign == "s" else (x, limit))
        )

    def wraps(test: tuple[Any, ...], x: int) -> bool:
        steps, sign, relation, _ = test
        for name, by in steps:
            before, x = x, _OPERATIONS[name](x, by) & (1 << _BITS) - 1
            if name == "shl.b16" and as_signed(before, _BITS) << by != as_signed(x, _BITS):
                return bool(sign == "s" and relation != "eq")
        return False

    tests = (*known, asked)
    numbers = (x for x in _NUMBERS if not any(wraps(test, x) for test in tests))
    seen = {tuple(holds(test, x) for test in tests) for x in numbers}
    for truths in {row[:-1] for row in seen}:
        answer = decided(m, {f"%p{n}": truth for n, truth in enumerate(truths)}, f"%p{len(known)}")
        assert answer is None or (*truths, not answer) not in seen


_TWO = {
    "n": ("", lambda n, k: n),
    "k": ("mov.b16 {0}, %h9;", lambda n, k: k),
    "n + 3": ("add.u16 {0}, %h8, 3;", lambda n, k: n + 3),
    "n - 3": ("sub.u16 {0}, %h8, 3;", lambda n, k: n - 3),
    "n - k": ("sub.u16 {0}, %h8, %h9;", lambda n, k: n - k),
    "min(n, 2)": ("min.u16 {0}, %h8, 2;", lambda n, k: min(n, 2)),
    "max(n, 2)": ("max.u16 {0}, %h8, 2;", lambda n, k: max(n, 2)),
    "n - min(n, 2)": ("min.u16 {0}, %h8, 2; sub.u16 {0}, %h8, {0};", lambda n, k: n - min(n, 2)),
    "n - min(n, k)": ("min.u16 {0}, %h8, %h9; sub.u16 {0}, %h8, {0};", lambda n, k: n - min(n, k)),
    "k - min(n, k)": ("min.u16 {0}, %h8, %h9; sub.u16 {0}, %h9, {0};", lambda n, k: k - min(n, k)),
}  # fmt: skip
_of_two = st.sampled_from(sorted(_TWO))
_compared = st.tuples(
    _of_two,
    st.sampled_from(sorted(_TESTS)),
    _of_two | st.sampled_from([0, 1, 2, 3, 5, 32767, 32768, 65533, 65534, 65535]),
)
_FEW = [x % (1 << _BITS) for edge in (0, 1 << _BITS - 1) for x in range(edge - 7, edge + 9)]


@settings(max_examples=60, deadline=None)
@given(known=st.lists(_compared, max_size=3), asked=_compared)
@example(known=[("n + 3", "ge", 32768), ("n - k", "eq", 32767)], asked=("k - min(n, k)", "eq", 0))
def test_what_is_known_of_two_numbers_without_a_sign_holds_for_all(
    known: list[tuple[Any, ...]], asked: tuple[Any, ...]
) -> None:
    lines = ["ld.param.u16 %h8, [n];", "ld.param.u16 %h9, [k];"]
    for n, (left, relation, right) in enumerate((*known, asked)):
        for register, side in (("%h1", left), ("%h2", right)):
            lines.append(f"mov.b16 {register}, {side if isinstance(side, int) else '%h8'};")
            lines += [] if isinstance(side, int) else [_TWO[side][0].format(register)]
        lines.append(f"setp.{relation}.u16 %p{n}, %h1, %h2;")
    m = model("\n".join([*lines, "end: ret;"]), parameters=".param .u16 n, .param .u16 k")

    def holds(test: tuple[Any, ...], n: int, k: int) -> bool:
        left, relation, right = test
        sides = (x if isinstance(x, int) else _TWO[x][1](n, k) & (1 << _BITS) - 1 for x in (left, right))
        return _TESTS[relation](*sides)

    seen = {tuple(holds(test, n, k) for test in (*known, asked)) for n in _FEW for k in _FEW}
    for truths in {row[:-1] for row in seen}:
        answer = decided(m, {f"%p{n}": truth for n, truth in enumerate(truths)}, f"%p{len(known)}")
        assert answer is None or (*truths, not answer) not in seen


@pytest.mark.parametrize("deep_first", [True, False])
def test_a_range_does_not_depend_on_how_deep_it_was_asked_for_first(deep_first: bool) -> None:
    loads = "".join(f"ld.global.u32 %r{k}, [%rd1+{4 * k}];" for k in range(1, 9))
    nested = "".join(f"max.s32 %r{20 + k}, %r{19 + k}, %r{k + 2};" for k in range(1, 7))
    m = of(
        f"""{loads} and.b32 %r18, %r1, 255; mul.lo.s32 %r20, %r18, 3; {nested}
        setp.lt.s32 %p1, %r8, 5; setp.lt.s32 %p2, %r26, 0;
        max.s32 %r30, %r18, %r8; setp.lt.s32 %p3, %r30, 256;"""
    )
    known = {"%p1": True}
    found = {asked: decided(m, known, asked) for asked in (("%p2", "%p3") if deep_first else ("%p3", "%p2"))}
    assert found == {"%p2": None, "%p3": True}


def test_a_constant_of_a_signed_type_is_read_as_a_signed_number() -> None:
    """0x80000000 is the least 32-bit number, and not one above the greatest."""
    m = model(
        "setp.eq.s32 %p1, %r9, 0;\nselp.b32 %r1, 0x80000000, 1, %p1;\nshr.s32 %r2, %r1, 3;\nmov.b32 %r3, 0xffffffff;\nend: ret;"
    )
    interval = m.values.interval(value(m, "%r2"))
    assert interval is None or interval[0] <= -1 << 28
    assert m.values.constant_of(value(m, "%r3")) == -1


@pytest.mark.parametrize(
    ("operation", "facts", "expected"),
    [
        ("or", {"%p3": True, "%p1": False}, True),
        ("or", {"%p3": True, "%p1": True}, None),
        ("or", {"%p1": False, "%p3": True}, True),
        ("and", {"%p3": False, "%p1": True}, False),
        ("and", {"%p3": False, "%p1": False}, None),
        ("xor", {"%p3": True, "%p1": False}, None),
    ],
)
def test_one_operand_of_a_known_combination_implies_the_other(
    operation: str, facts: dict[str, bool], expected: bool | None
) -> None:
    m = of(
        "ld.param.u32 %r1, [number]; xor.b32 %r2, %r1, 12; setp.eq.s32 %p1, %r1, 5; setp.lt.s32 %p2, %r2, 3;"
        f"{operation}.pred %p3, %p1, %p2;",
        parameters=".param .u32 pointer, .param .u32 number",
    )
    assert decided(m, facts, "%p2") is expected
