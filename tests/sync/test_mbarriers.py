"""The phases of an mbarrier, as replays and executions count them."""

from __future__ import annotations

from tclint.sync.mbarriers import Mbarrier


def test_a_phase_is_complete_when_it_lacks_neither_arrivals_nor_bytes() -> None:
    mbarrier = Mbarrier(2)
    mbarrier.arrive(1)
    mbarrier.expect_tx(32)
    mbarrier.arrive(1)
    assert not mbarrier.complete_phase()
    mbarrier.complete_tx(32)
    assert mbarrier.complete_phase()
    assert (mbarrier.phase, mbarrier.pending, mbarrier.bytes) == (1, 2, 0)


def test_an_arrival_that_drops_out_counts_in_its_own_phase_and_is_not_expected_in_the_next_one() -> None:
    mbarrier = Mbarrier(2)
    mbarrier.arrive(1, drop=True)
    mbarrier.arrive(1)
    assert mbarrier.complete_phase()
    mbarrier.arrive(1)
    assert mbarrier.complete_phase()


def test_arrivals_that_are_expected_once_more_are_not_expected_in_the_next_phase() -> None:
    mbarrier = Mbarrier(1)
    mbarrier.expect_arrivals(1)
    mbarrier.arrive(1)
    assert not mbarrier.complete_phase()
    mbarrier.arrive(1)
    assert mbarrier.complete_phase()
    assert mbarrier.pending == 1


def test_an_unknown_number_of_bytes_completes_a_phase_only_where_it_is_taken_to_suffice() -> None:
    mbarrier = Mbarrier(1)
    mbarrier.expect_tx(32)
    mbarrier.arrive(1)
    mbarrier.complete_tx(None)
    assert not mbarrier.complete_phase()
    assert mbarrier.complete_phase(suffices=True)
    mbarrier.arrive(1)
    assert mbarrier.complete_phase()


def test_a_test_answers_for_the_phase_that_it_names() -> None:
    mbarrier = Mbarrier(1)
    assert mbarrier.complete(1)  # the phase before the first
    assert not mbarrier.complete(0)
    assert not mbarrier.passed(0)
    mbarrier.arrive(1)
    assert mbarrier.complete_phase()
    assert mbarrier.complete(0)
    assert mbarrier.passed(0)
    assert not mbarrier.passed(1)
