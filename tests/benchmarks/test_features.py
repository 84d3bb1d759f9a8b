"""The grid of special registers, directives and other features: its modules have what they are samples of."""

from __future__ import annotations

import pytest

from benchmarks.features import KINDS, Sample, available, figure, samples, tables
from benchmarks.ptxas import before
from tclint.isa.target import INTRODUCED, Target

LATE = [s for s in samples() if s.available.since > (7, 8) and s.available.on(Target(100, "a"))]


@pytest.mark.parametrize("sample", LATE, ids=lambda sample: sample.name)
def test_each_module_has_what_it_is_a_sample_of(sample: Sample) -> None:
    """It is available from the first version on, and not one step below it."""
    target = Target(100, "a")
    first = max(sample.available.version_for(target), INTRODUCED["sm_100a"])
    assert available(sample.module(first, "sm_100a"), target, first)
    if first == sample.available.since:
        assert not available(sample.module(before(first), "sm_100a"), target, before(first))


def test_every_kind_has_samples() -> None:
    assert {sample.kind for sample in samples()} == set(KINDS)


def test_differences_are_in_the_tables() -> None:
    data = {
        "kinds": {"features": {"samples": 1, "points": 4, "agreed": 3}},
        "differences": [{"name": ".weak", "who": "table: NO, ptxas: accepts", "places": "3.0 sm_20"}],
    }
    assert "3 of 4 points of 1 modules agree (75.0000%)" in figure(data)
    page = "\n".join(tables(data))
    assert "| `.weak` | table: NO, ptxas: accepts | 3.0 sm_20 |" in page
