"""What follows from comparisons, and from the form of what is compared."""

from __future__ import annotations

from itertools import product

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
