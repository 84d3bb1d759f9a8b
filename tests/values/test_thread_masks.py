"""Sets of threads and bit-sliced numbers, against the same arithmetic thread by thread."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.values import thread_masks as T

N = 96
MASK = 0xFFFFFFFF
EDGES = (0, 1, 0x7FFFFFFF, 0x80000000, MASK)


def _numbers(seed: int) -> list[int]:
    random = Random(seed)
    return [
        random.choice(EDGES) if random.random() < 0.2 else random.getrandbits(random.randint(1, 32))
        for _ in range(N)
    ]


NUMBERS = st.builds(_numbers, st.integers(0, 1 << 32))
FEW = settings(max_examples=40, deadline=None)


def planes(numbers: list[int]) -> T.BitSlices:
    return tuple(sum((n >> bit & 1) << t for t, n in enumerate(numbers)) for bit in range(32))


def numbers(of: T.BitSlices) -> list[int]:
    assert len(of) == 32
    return [sum((plane >> t & 1) << bit for bit, plane in enumerate(of)) for t in range(N)]


def signed(n: int) -> int:
    return n - (1 << 32) if n >> 31 else n


@FEW
@given(NUMBERS, NUMBERS)
def test_addition_and_comparison(a: list[int], b: list[int]) -> None:
    x, y = planes(a), planes(b)
    assert numbers(T.add(x, y)) == [(i + j) & MASK for i, j in zip(a, b, strict=True)]
    for words, result in (
        (("eq", True), [i == j for i, j in zip(a, b, strict=True)]),
        (("lt", False), [i < j for i, j in zip(a, b, strict=True)]),
        (("lt", True), [signed(i) < signed(j) for i, j in zip(a, b, strict=True)]),
    ):
        relation, is_signed = words
        taken = T.compare(relation, x, y, is_signed, N)
        assert [bool(taken >> t & 1) for t in range(N)] == result
        assert taken >> N == 0


@FEW
@given(NUMBERS, st.integers(-(1 << 33), 1 << 33))
def test_negation_and_scaling(a: list[int], factor: int) -> None:
    x = planes(a)
    assert numbers(T.negate(x, N)) == [-i & MASK for i in a]
    assert numbers(T.scale(x, factor, N)) == [i * factor & MASK for i in a]


@FEW
@given(NUMBERS, st.integers(0, 70))
def test_shifts(a: list[int], by: int) -> None:
    x = planes(a)
    assert numbers(T.shift_left(x, by)) == [i << by & MASK for i in a]
    assert numbers(T.shift_right(x, by, False)) == [i >> by for i in a]
    assert numbers(T.shift_right(x, by, True)) == [signed(i) >> by & MASK for i in a]


@FEW
@given(NUMBERS, st.integers(1, 32))
def test_narrowing(a: list[int], width: int) -> None:
    low = (1 << width) - 1
    assert numbers(T.narrow(planes(a), width, False)) == [i & low for i in a]
    extended = [(i & low) - (1 << width) * (i >> (width - 1) & 1) for i in a]
    assert numbers(T.narrow(planes(a), width, True)) == [i & MASK for i in extended]


@FEW
@given(NUMBERS, st.integers(0, 31))
def test_broadcast(a: list[int], lane: int) -> None:
    assert numbers(T.broadcast(planes(a), lane, N)) == [a[t // 32 * 32 + lane] for t in range(N)]


def test_digits_of_the_index_and_constants() -> None:
    assert numbers(T.digit(N, 1, N)) == list(range(N))
    assert numbers(T.digit(N, 6, 4)) == [t // 6 % 4 for t in range(N)]
    assert numbers(T.constant(-2, N)) == [MASK - 1] * N
    index = T.digit(T.LIMIT, 1, T.LIMIT)
    assert sum(plane >> 1023 << bit for bit, plane in enumerate(index)) == 1023


@FEW
@given(st.integers(0, (1 << N) - 1), st.integers(0, (1 << N) - 1), st.sampled_from([1, 32, 64, 96]))
def test_groups(taken: int, active: int, size: int) -> None:
    groups = [[t for t in range(g, g + size) if t < N] for g in range(0, N, size)]

    def has(mask: int, t: int) -> bool:
        return bool(mask >> t & 1)

    split = any(
        any(has(taken, t) and has(active, t) for t in g)
        and any(has(active, t) and not has(taken, t) for t in g)
        for g in groups
    )
    assert T.partial_groups(taken, active, size) is split
    touched = {t for g in groups if any(has(taken, t) for t in g) for t in g}
    assert {t for t in range(N) if has(T.whole(taken, size), t)} == touched


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        ((1 << 128) - 1, "all threads"),
        (0, "no thread"),
        (1, "thread 0"),
        (1 << 5, "thread 5"),
        (1 << 64, "lane 0 of warp 2"),
        (0xFFFFFFFF, "warp 0"),
        (0xFFFFFFFF << 32, "warp 1"),
        ((1 << 64) - 1 << 64, "warps 2-3"),
        (0xFFFFFFFF | 0xFFFFFFFF << 64, "warps 0, 2"),
        (1 | 1 << 32, "lane 0 of warps 0-1"),
        (3, "lanes 0-1 of warp 0"),
    ],
)
def test_thread_sets_in_words(taken: int, words: str) -> None:
    assert T.describe(taken, 128) == words


@FEW
@given(st.lists(st.integers(0, 40), min_size=N, max_size=N), st.integers(0, MASK))
def test_a_constant_shifted_by_what_differs(by: list[int], number: int) -> None:
    assert numbers(T.shifted(number, planes(by), N)) == [number << n & MASK for n in by]


@FEW
@given(NUMBERS, st.integers(1, (1 << N) - 1))
def test_the_least_and_the_greatest_number(a: list[int], some: int) -> None:
    among = [signed(n) for t, n in enumerate(a) if some >> t & 1]
    assert T.extreme(planes(a), some, least=True) == min(among)
    assert T.extreme(planes(a), some, least=False) == max(among)
