"""Constant expressions."""

from __future__ import annotations

import pytest

from tclint.ir.constants import evaluate


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
    "text", ["", "1 +", "1 / 0", "1 % 0", "(1", "1)", "~1.5", "1.5 + 1", "1 2", "x", "1 ? 2", "(1, 2)"]
)
def test_what_is_not_an_expression_has_no_value(text: str) -> None:
    assert value(text) is None


def test_a_deep_expression_is_not_evaluated() -> None:
    assert value("(" * 50 + "1" + ")" * 50) == 1
    assert value("(" * 5000 + "1" + ")" * 5000) is None
    assert value("-" * 5000 + "1") is None
