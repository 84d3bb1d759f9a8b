"""What follows from comparisons, and from the form of what is compared."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.values import PathCondition
from tests.tools.support import model, value

# ---------------------------------------------------------------- maxima and minima of one value

Expression = tuple[object, ...]
"""``("x",)`` or ``("y",)``, a parameter; ``("add", expression, constant)``; ``("min" or "max", one, two)``."""


def written(expression: Expression, into: list[str]) -> str:
    """The register that holds *expression*, whose instructions are appended *into*."""
    kind, *operands = expression
    if kind in ("x", "y"):
        return {"x": "%r1", "y": "%r2"}[str(kind)]
    if kind == "number":
        return str(operands[0])
    one, two = (written(part, into) if isinstance(part, tuple) else str(part) for part in operands)
    result = f"%r{len(into) + 10}"
    into.append(f"{kind}.s32 {result}, {one}, {two};")
    return result


def evaluated(expression: Expression, x: int, y: int) -> int:
    """The value of *expression*."""
    kind, *operands = expression
    if kind in ("x", "y"):
        return x if kind == "x" else y
    if kind == "number":
        assert isinstance(operands[0], int)
        return operands[0]
    one, two = (evaluated(part, x, y) if isinstance(part, tuple) else part for part in operands)
    assert isinstance(one, int)
    assert isinstance(two, int)
    return {"min": min(one, two), "max": max(one, two), "add": one + two}[str(kind)]


def decided(left: Expression, right: Expression) -> bool | None:
    """Whether the form of the two implies ``left < right``, or excludes it."""
    code: list[str] = []
    sides = [written(side, code) for side in (left, right)]
    m = model(
        "ld.param.u32 %r1, [number]; ld.param.u32 %r2, [pointer];\n"
        + "\n".join(code)
        + f"\nmov.u32 %r8, {sides[0]}; mov.u32 %r9, {sides[1]};"
        + "\nsetp.lt.s32 %p1, %r8, %r9;\nend: ret;",
        parameters=".param .u32 pointer, .param .u32 number",
    )
    return m.values.entails(value(m, "%p1"), PathCondition())


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    st.sampled_from([("x",), ("y",)]),
    lambda inner: st.one_of(
        st.tuples(st.just("add"), inner, st.integers(-3, 3)),
        st.tuples(
            st.sampled_from(["min", "max"]), inner, st.tuples(st.just("number"), st.integers(-4, 4)) | inner
        ),
    ),
    max_leaves=5,
)
X: Expression = ("x",)


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_a_decided_order_of_maxima_and_minima_holds_for_all_values(
    left: Expression, right: Expression
) -> None:
    answer = decided(left, right)
    for x, y in product(range(-9, 10), repeat=2):
        assert answer in (None, evaluated(left, x, y) < evaluated(right, x, y)), (x, y)


def window(before: int, after: int, low: int, high: int) -> tuple[Expression, Expression]:
    """The first and the last index of a window around x within [low, high]."""
    first: Expression = ("max", ("min", ("add", X, -before), ("number", high)), ("number", low))
    last: Expression = ("min", ("max", ("add", X, after), ("number", low)), ("number", high))
    return first, last


@given(st.integers(-2, 3), st.integers(-2, 3), st.integers(0, 2), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_whether_a_window_is_empty_is_decided_if_all_values_agree(
    before: int, after: int, low: int, high: int
) -> None:
    first, last = window(before, after, low, high)
    truths = {evaluated(last, x, 0) < evaluated(first, x, 0) for x in range(-9, 15)}
    assert decided(last, first) is (truths.pop() if len(truths) == 1 else None)


@pytest.mark.parametrize(("least", "expected"), [(0, False), (-1, None)])
def test_an_unsigned_minimum_is_a_lower_bound_only_of_what_is_not_negative(
    least: int, expected: bool | None
) -> None:
    m = model(
        f"""
    ld.param.u32 %r1, [number];
    max.s32 %r2, %r1, {least};
    min.u32 %r3, %r2, 5;
    setp.gt.s32 %p1, %r3, %r2;
end: ret;"""
    )
    assert m.values.entails(value(m, "%p1"), PathCondition()) is expected


@pytest.mark.parametrize("name", ["max.s32.relu", "min.s32.relu"])
@pytest.mark.parametrize("compared", ["%r1, %r3", "%r2, %r1"])
def test_nothing_is_concluded_from_a_maximum_that_is_also_clamped_at_zero(name: str, compared: str) -> None:
    m = model(
        f"""
    ld.param.u32 %r1, [number];
    {name} %r2, %r1, -5;
    add.s32 %r3, %r2, 1;
    setp.lt.s32 %p1, {compared};
end: ret;"""
    )
    assert m.values.entails(value(m, "%p1"), PathCondition()) is None


@pytest.mark.parametrize(
    ("masked", "operation", "compared"),
    [
        (1, "max.u16x2 %r2, %r1, 0x10000;", "gt.u32 %p1, %r2, 0x10000"),  # 0x10001 of 1
        (1, "max.s16x2 %r2, %r1, 0x10000;", "gt.s32 %p1, %r2, 0x10000"),
        (0xFFFF, "add.u16x2 %r2, %r1, 1;", "eq.u32 %p1, %r2, 0"),  # 0 of 0xffff
    ],
)
def test_an_operation_on_two_halves_is_none_on_the_whole(masked: int, operation: str, compared: str) -> None:
    m = model(
        f"""
    ld.param.u32 %r3, [number];
    and.b32 %r1, %r3, {masked};
    {operation}
    setp.{compared};
end: ret;"""
    )
    assert m.values.entails(value(m, "%p1"), PathCondition()) is None


# ---------------------------------------------------------------- what a loop adds


def below(changes: str, first: str, known: str, asked: str) -> bool | None:
    """Whether ``less, more`` (*asked*) holds in an iteration in which that *known* does not.

    The loop starts with the registers as *first* sets them, and ends with *changes*.
    """
    m = model(
        f"""
    ld.param.u32 %r1, [number];
    ld.param.u32 %r2, [other];
    {first}
loop:
    mov.u32 %r9, 0;
    setp.lt.s32 %p1, {known};
    setp.lt.s32 %p2, {asked};
    {changes}
    ld.shared.u32 %r8, [%r9];
    setp.ne.s32 %p9, %r8, 0;
    @%p9 bra loop;
end: ret;""",
        parameters=".param .u32 number, .param .u32 other",
    )
    facts = m.values.refine(value(m, "%p1"), False, PathCondition())
    return m.values.entails(value(m, "%p2"), facts)


TEST = "ld.shared.u32 %r7, [%r9]; setp.eq.s32 %p8, %r7, 0; @%p8 bra over;"


@pytest.mark.parametrize(
    ("changes", "grows"),
    [
        (f"{TEST} add.s32 %r5, %r5, 1; over:", True),
        (f"{TEST} add.s32 %r5, %r5, 1; bra both; over: add.s32 %r5, %r5, 4; both:", True),
        (f"{TEST} over: @%p8 add.s32 %r5, %r5, 1;", True),
        (f"inner: {TEST} add.s32 %r5, %r5, 1; bra inner; over:", True),
        # It shrinks, starts again or is something else on one path, or grows by an unknown amount.
        (f"{TEST} add.s32 %r5, %r5, -1; over:", False),
        (f"{TEST} add.s32 %r5, %r5, 1; bra both; over: add.s32 %r5, %r5, -4; both:", False),
        (f"{TEST} add.s32 %r5, %r5, 1; bra both; over: mov.u32 %r5, -1; both:", False),
        (f"{TEST} add.s32 %r5, %r5, 1; bra both; over: mov.u32 %r5, %r7; both:", False),
        (f"inner: {TEST} add.s32 %r5, %r5, -1; bra inner; over:", False),
        (f"{TEST} xor.b32 %r5, %r5, 1; over:", False),
        (f"{TEST} add.s32 %r5, %r5, %r1; over:", False),
    ],
)
@pytest.mark.parametrize("start", [0, -5])
def test_a_counter_that_some_iterations_advance_is_never_below_its_start(
    changes: str, grows: bool, start: int
) -> None:
    first, known = f"mov.u32 %r5, {start};", "%r1, 0"
    assert below(changes, first, known, f"%r5, {start}") is (False if grows else None)
    assert below(changes, first, known, f"%r5, {start + 1}") is not False


@pytest.mark.parametrize(
    ("joined", "grows"),
    [
        ("mov.u32 %r6, %r5; @%p8 bra over; add.s32 %r6, %r5, 1; over:", True),
        (
            "add.s32 %r6, %r5, 2; @%p8 bra over; add.s32 %r6, %r5, 1; over: setp.eq.s32 %p7, %r7, 1; @%p7 bra on; add.s32 %r6, %r6, 3; on:",
            True,
        ),
        ("mov.u32 %r6, %r5; @%p8 bra over; add.s32 %r6, %r5, -1; over:", False),
        ("mov.u32 %r6, %r5; @%p8 bra over; mov.u32 %r6, %r7; over:", False),
        ("mov.u32 %r6, %r5; @%p8 bra over; shl.b32 %r6, %r5, 1; over:", True),
        ("mov.u32 %r6, %r5; @%p8 bra over; add.s32 %r6, %r5, %r1; over:", False),
    ],
)
def test_what_branches_add_to_a_value_that_only_grows_is_never_below_its_start(
    joined: str, grows: bool
) -> None:
    changes = f"""ld.shared.u32 %r7, [%r9]; setp.eq.s32 %p8, %r7, 0; {joined}
    setp.lt.s32 %p3, %r6, 0; setp.lt.s32 %p4, %r6, 1; add.s32 %r5, %r5, 1;"""
    m = model(
        f"""
    ld.param.u32 %r1, [number];
    mov.u32 %r5, 0;
loop:
    mov.u32 %r9, 0;
    {changes}
    setp.ne.s32 %p9, %r7, 5;
    @%p9 bra loop;
end: ret;""",
        parameters=".param .u32 number",
    )
    facts = m.values.refine(value(m, "%p9"), False, PathCondition())
    assert m.values.entails(value(m, "%p3"), facts) is (False if grows else None)
    assert m.values.entails(value(m, "%p4"), facts) is not False


@pytest.mark.parametrize(
    ("first", "step", "test", "holds"),
    [
        ("mov.u32 %r5, 0;", "1", "setp.eq.s32 %p3, %r6, 0;", False),
        ("mov.u32 %r5, 0;", "1", "setp.eq.s32 %p3, %r6, 1;", None),
        ("mov.u32 %r5, 0;", "64", "setp.eq.s32 %p3, %r6, 0;", False),
        ("mov.u32 %r5, 0;", "-1", "setp.eq.s32 %p3, %r6, -2;", None),
        ("ld.shared.u32 %r5, [%r9];", "1", "setp.eq.s32 %p3, %r6, 0;", None),
        ("mov.u32 %r5, %r1;", "1", "setp.eq.s32 %p3, %r6, %r1;", False),
        ("mov.u32 %r5, %r1;", "1", "setp.le.s32 %p3, %r6, %r1;", False),
        ("mov.u32 %r5, %r1;", "-1", "setp.eq.s32 %p3, %r6, %r1;", False),
        ("mov.u32 %r5, %r1;", "-1", "setp.lt.s32 %p3, %r6, %r1;", True),
        ("mov.u32 %r5, %r2;", "-1", "setp.eq.s32 %p3, %r6, %r1;", None),
    ],
)
def test_the_counter_of_a_remainder_loop_is_not_on_the_wrong_side_of_where_the_unrolled_loop_started(
    first: str, step: str, test: str, holds: bool | None
) -> None:
    m = model(
        f"""
    ld.param.u32 %r1, [number];
    ld.shared.u32 %r2, [%r9];
    {first}
    setp.lt.u32 %p8, %r1, 4;
    @%p8 bra rest;
    and.b32 %r3, %r1, -4;
unrolled:
    add.s32 %r5, %r5, {4 * int(step)};
    add.s32 %r3, %r3, -4;
    setp.ne.s32 %p7, %r3, 0;
    @%p7 bra unrolled;
rest:
    and.b32 %r4, %r1, 3;
remainder:
    add.s32 %r6, %r5, {step};
    {test}
    mov.u32 %r5, %r6;
    add.s32 %r4, %r4, -1;
    setp.ne.s32 %p9, %r4, 0;
    @%p9 bra remainder;
end: ret;""",
        parameters=".param .u32 number",
    )
    facts = m.values.refine(value(m, "%p9"), False, PathCondition())
    assert m.values.entails(value(m, "%p3"), facts) is holds


ONE_EACH = f"{TEST} add.s32 %r5, %r5, 1; add.s32 %r6, %r6, 1;"


@pytest.mark.parametrize(
    ("changes", "first", "lockstep"),
    [
        ("add.s32 %r5, %r5, %r1; add.s32 %r6, %r6, %r1;", "add.s32 %r6, %r2, 3;", True),
        ("add.s32 %r6, %r6, %r7; add.s32 %r5, %r5, %r7;", "add.s32 %r6, %r2, 3;", True),
        (
            f"{ONE_EACH} bra loop; over: add.s32 %r5, %r5, %r7; add.s32 %r6, %r6, %r7;",
            "add.s32 %r6, %r2, 3;",
            True,
        ),
        # One of them starts elsewhere, adds another amount, or does not add in each iteration.
        ("add.s32 %r5, %r5, %r1; add.s32 %r6, %r6, %r1;", "add.s32 %r6, %r1, 3;", False),
        ("add.s32 %r5, %r5, %r1; add.s32 %r6, %r6, %r2;", "add.s32 %r6, %r2, 3;", False),
        ("add.s32 %r5, %r5, %r1; sub.s32 %r6, %r6, %r1;", "add.s32 %r6, %r2, 3;", False),
        (f"add.s32 %r5, %r5, %r1; {TEST} add.s32 %r6, %r6, %r1; over:", "add.s32 %r6, %r2, 3;", False),
        ("add.s32 %r5, %r5, %r1; shl.b32 %r6, %r6, 1;", "add.s32 %r6, %r2, 3;", False),
        (
            f"{ONE_EACH} bra loop; over: add.s32 %r5, %r5, %r7; add.s32 %r6, %r6, %r1;",
            "add.s32 %r6, %r2, 3;",
            False,
        ),
    ],
)
@pytest.mark.parametrize(("known", "asked"), [("%r6, %r1", "%r5, %r12"), ("%r5, %r12", "%r6, %r1")])
def test_values_to_which_a_loop_adds_the_same_unknown_stay_as_far_apart(
    changes: str, first: str, lockstep: bool, known: str, asked: str
) -> None:
    """%r6 is 3 more than %r5, so it is below %r1 exactly where %r5 is below %r1 less 3."""
    start = f"mov.u32 %r5, %r2; {first} mov.u32 %r7, 1; sub.s32 %r12, %r1, 3;"
    assert below(changes, start, known, asked) is (False if lockstep else None)


AMOUNTS = st.lists(
    st.tuples(st.sampled_from(["%r5", "%r6"]), st.sampled_from(["1", "-1", "2", "%r1", "%r7"])), max_size=3
)


@settings(max_examples=100, deadline=None)
@given(
    AMOUNTS,
    AMOUNTS,
    st.tuples(st.sampled_from(["0", "%r2", "%r1"]), st.integers(-1, 3)),
    st.permutations(["%r5", "%r6"]),
    st.sampled_from(["%r1", "%r2", "0", "2"]),
    st.integers(-3, 3),
    st.randoms(use_true_random=False),
)
def test_what_follows_for_values_of_a_loop_holds_in_each_of_its_iterations(
    one: list[tuple[str, str]],
    other: list[tuple[str, str]],
    start: tuple[str, int],
    sides: list[str],
    limit: str,
    more: int,
    random: Random,
) -> None:
    adds = ["\n".join(f"add.s32 {to}, {to}, {by};" for to, by in path) for path in (one, other)]
    first = f"mov.u32 %r5, %r2; mov.u32 %r6, {start[0]}; add.s32 %r6, %r6, {start[1]};"
    first += f" mov.u32 %r12, {limit}; add.s32 %r12, %r12, {more};"
    changes = f"{TEST} {adds[0]} bra both; over: {adds[1]} both:"
    answer = below(changes, first, f"{sides[0]}, {limit}", f"{sides[1]}, %r12")
    for r1, r2 in product(range(-2, 4), repeat=2):
        now = {"%r1": r1, "%r2": r2, "%r5": r2, "0": 0, "2": 2, "1": 1, "-1": -1}
        now["%r6"] = now[start[0]] + start[1]
        for _ in range(12):
            if now[sides[0]] >= now[limit]:
                assert answer in (None, now[sides[1]] < now[limit] + more), now
            now["%r7"] = random.choice((0, random.randint(-3, 3)))
            for to, by in other if now["%r7"] == 0 else one:
                now[to] += now[by]


# ---------------------------------------------------------------- comparisons that no path condition decides


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("rem.u32 %r2, %r1, 7; shr.s32 %r3, %r2, 5; setp.le.u32 %p1, %r3, 1;", True),
        ("rem.u32 %r2, %r1, 7; setp.gt.u32 %p1, %r2, 6;", False),
        ("rem.u32 %r2, %r1, 7; setp.gt.u32 %p1, %r2, 5;", None),
        ("rem.s32 %r2, %r1, 7; setp.gt.s32 %p1, %r2, 6;", False),
        ("rem.s32 %r2, %r1, 7; setp.gt.u32 %p1, %r2, 6;", None),
        ("and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 4;", False),
        ("and.b32 %r2, %r1, 3; rem.u32 %r3, %r1, 4; setp.lt.u32 %p1, %r2, %r3;", None),
        ("cvt.u64.u32 %rd1, %r1; shl.b64 %rd2, %rd1, 32; setp.eq.s64 %p1, %rd2, 32;", False),
        ("cvt.u64.u32 %rd1, %r1; shl.b64 %rd2, %rd1, 32; setp.eq.s64 %p1, %rd2, 4294967296;", None),
        ("cvt.u64.u32 %rd1, %r1; shl.b64 %rd2, %rd1, 32; setp.eq.s32 %p1, %r1, 4;", None),
        ("setp.lt.u32 %p1, %r1, 0;", False),
        ("setp.ge.u32 %p1, %r1, 0;", True),
        ("setp.lt.s32 %p1, %r1, 0;", None),
    ],
)
def test_ranges_and_bits_decide_a_comparison_on_every_path(code: str, expected: bool | None) -> None:
    m = model(
        f"ld.param.u32 %r1, [number];\n{code}\nend: ret;",
        parameters=".param .u32 pointer, .param .u32 number",
    )
    assert m.values.entails(value(m, "%p1"), PathCondition()) is expected
