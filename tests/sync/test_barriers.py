"""The phases of CTA barriers and of the cluster barrier."""

from __future__ import annotations

from tclint.sync.barriers import BarrierArrivals


def test_a_phase_is_complete_when_enough_threads_have_arrived() -> None:
    barrier = BarrierArrivals()
    barrier.arrive(32)
    assert not barrier.complete_phase(64)
    barrier.arrive(32)
    assert barrier.complete_phase(64)
    assert (barrier.phase, barrier.arrived) == (1, 0)


def test_those_that_are_too_many_count_for_the_next_phase() -> None:
    barrier = BarrierArrivals()
    barrier.arrive(96)
    assert barrier.complete_phase(64)
    assert barrier.arrived == 32
    assert not barrier.complete_phase(64)
