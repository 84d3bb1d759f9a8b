"""Facts about launches, as ``--what-if`` writes them."""

from __future__ import annotations

import pytest

from tclint.findings.facts import Fact, fact
from tclint.findings.verdicts import Assumption


@pytest.mark.parametrize(
    ("words", "expected", "text"),
    [
        (["full-cta"], Fact(frozenset((Assumption.FULL_CTA,))), "full-cta"),
        (["reqntid=256"], Fact(shape=(256, 1, 1)), "reqntid=256"),
        ([".reqntid 16, 8"], Fact(shape=(16, 8, 1)), "reqntid=16,8"),
        (["reqntid=4,1,2"], Fact(shape=(4, 1, 2)), "reqntid=4,1,2"),
        (["k_param_0=4"], Fact(numbers=frozenset((("k_param_0", 0, 4),))), "k_param_0=4"),
        (["n=m"], Fact(equal=frozenset((("n", "m"),))), "n=m"),
        (
            ["n=m", "elect,shape", "reqntid=32", "n=1"],
            Fact(
                frozenset((Assumption.ELECT, Assumption.SHAPE)),
                (32, 1, 1),
                frozenset((("n", 0, 1),)),
                frozenset((("n", "m"),)),
            ),
            "elect shape reqntid=32 n=1 n=m",
        ),
    ],
)
def test_a_fact_is_read_as_it_is_written(words: list[str], expected: Fact, text: str) -> None:
    assert fact(words) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("luck", "unknown assumption 'luck'"),
        ("n=2147483648", "less than 2147483648"),
        ("n=", "unknown assumption"),
    ],
)
def test_another_word_is_refused(word: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fact([word])
