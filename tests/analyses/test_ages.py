"""Sets of operations with ages, held against sets of pairs."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from tclint.analyses.ages import Ages, Numbering

SITES = (3, 5, 8, 13, 90)
NUMBERING = Numbering(SITES)
PAIRS = st.frozensets(st.tuples(st.sampled_from(SITES), st.integers(-2, 3)))
CHOSEN = st.frozensets(st.sampled_from(SITES))


def ages(pairs: frozenset[tuple[int, int]]) -> Ages:
    return reduce(lambda made, pair: made.issued(*pair), sorted(pairs), Ages(NUMBERING, {}))


@given(PAIRS, PAIRS)
def test_ages_are_a_set_of_pairs(one: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]) -> None:
    first, second = ages(one), ages(other)
    assert sorted(first) == sorted(one)
    assert all((pair in first) is (pair in one) for pair in one | other)
    assert bool(first) is bool(one)
    assert (first == second) is (one == other)
    assert (hash(first) == hash(second)) or one != other
    assert set(first | second) == one | other
    assert set(NUMBERING.members(first.operations)) == {site for site, _ in one}
    assert set(NUMBERING.members(first.differing(second))) == {site for site, _ in one ^ other}
    assert {age for site in SITES for age in first.of(site)} == {age for _, age in one}
    assert set(NUMBERING.members(first.having(2))) == {site for site, age in one if age == 2}


@given(PAIRS, CHOSEN)
def test_an_age_moves_for_all_operations_at_once(
    pairs: frozenset[tuple[int, int]], gone: frozenset[int]
) -> None:
    after = {-2: -2, -1: 0, 0: 1, 1: 1, 2: None, 3: 0}
    moved = ages(pairs).moved(after.__getitem__)
    assert set(moved) == {(site, new) for site, age in pairs if (new := after[age]) is not None}
    assert ages(pairs).moved(lambda age: age) == ages(pairs)
    assert set(ages(pairs).without(NUMBERING.bits(gone))) == {pair for pair in pairs if pair[0] not in gone}


@given(PAIRS, PAIRS, CHOSEN, CHOSEN)
def test_a_guard_ends_a_fact_of_threads_that_certainly_execute_and_generates_none_of_threads_that_never_do(
    before: frozenset[tuple[int, int]],
    after: frozenset[tuple[int, int]],
    certain: frozenset[int],
    never: frozenset[int],
) -> None:
    kept = {pair for pair in before if pair in after or pair[0] not in certain}
    made = {pair for pair in after if pair in before or pair[0] not in never}
    joined = ages(before).joined(ages(after), NUMBERING.bits(certain), NUMBERING.bits(never))
    assert set(joined) == kept | made


def test_an_instruction_without_a_number_is_in_no_set() -> None:
    assert NUMBERING.bit(4) == 0
    assert NUMBERING.bits((4, 5)) == NUMBERING.bit(5)
    assert (4, 0) not in ages(frozenset(((5, 0),)))
