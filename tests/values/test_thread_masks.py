"""Sets of threads and bit-sliced numbers, against the same arithmetic thread by thread."""

from __future__ import annotations

import operator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.values import thread_masks as T

N = 96
WIDTHS = st.sampled_from([1, 7, 16, 31, 32, 33, 63, 64])
EDGES = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, (1 << 63) - 1, 1 << 63)


def _numbers(seed: int) -> list[int]:
    random = Random(seed)
    return [
        random.choice((1, -1))
        * (random.choice(EDGES) if random.random() < 0.2 else random.getrandbits(random.randint(1, 64)))
        for _ in range(N)
    ]


NUMBERS = st.builds(_numbers, st.integers(0, 1 << 32))
FEW = settings(max_examples=40, deadline=None)


def planes(numbers: list[int]) -> T.BitSlices:
    return T.gathered((n, 1 << t) for t, n in enumerate(numbers))


def numbers(of: T.BitSlices) -> list[int]:
    """The number in each thread. No plane repeats the one above it at the end."""
    assert len(of) == 1 or of[-1] != of[-2]
    assert all(plane >> N == 0 for plane in of)
    *low, sign = ([plane >> t & 1 for t in range(N)] for plane in of)
    weighted = [(1 << bit, plane) for bit, plane in enumerate(low)] + [(-1 << len(low), sign)]
    return [sum(weight * plane[t] for weight, plane in weighted) for t in range(N)]


def read(n: int, width: int, signed: bool) -> int:
    n &= (1 << width) - 1
    return n - (n >> width - 1 << width) if signed else n


@FEW
@given(NUMBERS)
def test_numbers_and_their_planes(a: list[int]) -> None:
    assert numbers(planes(a)) == a
    found = dict(T.numbers(planes(a), T.full(N)))
    assert found == {n: sum(1 << t for t, m in enumerate(a) if m == n) for n in a}


@FEW
@given(NUMBERS, NUMBERS)
def test_arithmetic_and_comparison(a: list[int], b: list[int]) -> None:
    x, y = planes(a), planes(b)
    assert numbers(T.add(x, y)) == [i + j for i, j in zip(a, b, strict=True)]
    assert numbers(T.bitwise(operator.xor, x, y)) == [i ^ j for i, j in zip(a, b, strict=True)]
    for relation, result in (
        ("eq", [i == j for i, j in zip(a, b, strict=True)]),
        ("lt", [i < j for i, j in zip(a, b, strict=True)]),
    ):
        taken = T.compare(relation, x, y, N)
        assert [bool(taken >> t & 1) for t in range(N)] == result
        assert taken >> N == 0
        assert numbers(T.choose(taken, x, y)) == [i if r else j for i, j, r in zip(a, b, result, strict=True)]


@FEW
@given(NUMBERS, st.integers(-(1 << 66), 1 << 66))
def test_negation_and_scaling(a: list[int], factor: int) -> None:
    x = planes(a)
    assert numbers(T.negate(x, N)) == [-i for i in a]
    assert numbers(T.scale(x, factor, N)) == [i * factor for i in a]


@FEW
@given(NUMBERS, st.integers(1, 1 << 40))
def test_division_rounds_towards_zero(a: list[int], by: int) -> None:
    quotient, rest = map(numbers, T.divide(planes(a), by, N))
    assert quotient == [abs(i) // by * (-1 if i < 0 else 1) for i in a]
    assert [q * by + r for q, r in zip(quotient, rest, strict=True)] == a


@FEW
@given(NUMBERS, st.integers(0, 70))
def test_shifts(a: list[int], by: int) -> None:
    x = planes(a)
    assert numbers(T.shift_left(x, by)) == [i << by for i in a]
    assert numbers(T.shift_right(x, by)) == [i >> by for i in a]


@FEW
@given(NUMBERS, WIDTHS, st.booleans())
def test_what_an_instruction_reads(a: list[int], width: int, signed: bool) -> None:
    assert numbers(T.narrow(planes(a), width, signed)) == [read(i, width, signed) for i in a]


@FEW
@given(NUMBERS, st.integers(0, 31))
def test_broadcast(a: list[int], lane: int) -> None:
    assert numbers(T.broadcast(planes(a), lane, N)) == [a[t // 32 * 32 + lane] for t in range(N)]


def test_digits_of_the_index_and_constants() -> None:
    assert numbers(T.digit(N, 1, N)) == list(range(N))
    assert numbers(T.digit(N, 6, 4)) == [t // 6 % 4 for t in range(N)]
    assert numbers(T.constant(-2, N)) == [-2] * N
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
        ((1 << 100) - 1, "threads 0-99"),
        ((1 << 100) - 1 ^ 15 << 40, "threads 0-39, 44-99"),
        ((1 << 100) - 1 ^ 5 << 40, "some lanes of warps 0-3"),
    ],
)
def test_thread_sets_in_words(taken: int, words: str) -> None:
    assert T.describe(taken, 128) == words


@FEW
@given(NUMBERS, st.integers(1, (1 << N) - 1))
def test_the_least_and_the_greatest_number(a: list[int], some: int) -> None:
    among = [n for t, n in enumerate(a) if some >> t & 1]
    assert T.extreme(planes(a), some, least=True) == min(among)
    assert T.extreme(planes(a), some, least=False) == max(among)
