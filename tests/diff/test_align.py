"""Alignment of sequences: what it pairs is equal and in order, as much as can be, and in linear time."""

from __future__ import annotations

import random
from itertools import pairwise
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.diff.align import align, increasing

TOKENS = st.lists(st.integers(0, 3), max_size=20)


def longest(a: list[int], b: list[int]) -> int:
    """The length of a longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for j, y in enumerate(b):
            before, row[j + 1] = row[j + 1], before + 1 if x == y else max(row[j], row[j + 1])
    return row[-1]


@given(TOKENS, TOKENS)
def test_pairs_are_equal_and_in_order(a: list[int], b: list[int]) -> None:
    pairs = align(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(x < z and y < w for (x, y), (z, w) in pairwise(pairs))
    assert len(pairs) == longest(a, b)


@given(TOKENS, st.integers(0, 20))
def test_one_that_was_taken_out_is_one_that_is_missing(a: list[int], at: int) -> None:
    b = a[:at] + a[at + 1 :]
    assert len(align(a, b)) == len(align(b, a)) == len(b)


@given(TOKENS)
def test_a_sequence_is_itself(a: list[int]) -> None:
    assert align(a, a) == [(i, i) for i in range(len(a))]


def test_increasing_keeps_the_most() -> None:
    assert increasing([(0, 5), (1, 0), (2, 1), (3, 4), (4, 2)]) in (
        [(1, 0), (2, 1), (3, 4)],
        [(1, 0), (2, 1), (4, 2)],
    )


@pytest.mark.parametrize("kinds", [2, 30, 10**6])
def test_unrelated_long_sequences_do_not_take_quadratic_time(kinds: int) -> None:
    rng = random.Random(kinds)
    a, b = ([rng.randrange(kinds) for _ in range(20_000)] for _ in "ab")
    began = perf_counter()
    align(a, b)
    assert perf_counter() - began < 5
