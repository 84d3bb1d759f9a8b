"""Constant expressions."""

from __future__ import annotations

import pytest

from tclint.ir.build import build
from tclint.ir.constants import evaluate
from tclint.ir.nodes import Immediate
from tclint.syntax import parse


def value(text: str) -> int | float | None:
    return evaluate(text, lambda word: float(word) if "." in word else int(word.rstrip("U"), 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 - 3 - 4", -5),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("1 << 2 + 1", 8),
        ("1 << 65", 2),
        ("6 & 3 == 3", 0),
        ("4 | 1 ^ 1 & 3", 4),
        ("!0 + ~1", -1),
        ("- -1", 1),
        ("0 ? 1 : 2 ? 3 : 4", 3),
        ("1 < 2 && 2 >= 2 || 0", 1),
        ("(.u64) 5", 5),
        ("1.5 + 2.0", 3.5),
        ("-(1.5)", -1.5),
    ],
)
def test_operators_bind_as_in_c(text: str, expected: float) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "1 / 0",
        "1 % 0",
        "(1",
        "1)",
        "~1.5",
        "1.5 + 1",
        "1 2",
        "x",
        "1 ? 2",
        "(1, 2)",
        "1) + (1",
        "1 : 2",
        "(1 ? 2) : 3",
    ],
)
def test_what_is_not_an_expression_has_no_value(text: str) -> None:
    assert value(text) is None


def test_an_expression_of_any_length_and_depth_is_evaluated() -> None:
    assert value("(" * 5000 + "1" + ")" * 5000) == 1
    assert value("-" * 5001 + "1") == -1
    assert value("+".join(["1"] * 5000)) == 5000
    assert value("1 ? 2 : " * 5000 + "3") == 2
    assert value("(" * 5000 + "1" + ")" * 4999) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 << 63 << 63", 0),
        ("(0xFFFFFFFFFFFFFFFF + 2) >> 1", 0),
        ("(0xFFFFFFFFFFFFFFFF * 3) / 2", 0x7FFFFFFFFFFFFFFE),
        ("1 << 63" + " << 63" * 5000, 0),
    ],
)
def test_results_have_64_bits(text: str, expected: int) -> None:
    assert value(text) == expected


def test_a_long_expression_is_not_an_undeclared_name() -> None:
    text = (
        ".version 8.0\n.target sm_90\n.entry k() { .reg .b32 %r<2>; mov.u32 %r1, "
        + "+".join(["1"] * 150)
        + "; }"
    )
    module = build(parse(text.encode()), text.encode())
    assert not module.functions[0].errors
    assert module.functions[0].instructions[0].operands[1] == Immediate(150)
