"""The stages of asynchronous operations."""

from __future__ import annotations

import pytest

from tclint.isa.effects import BULK, WGMMA, Effects
from tclint.sync.operations import NO_GROUPS, OPEN, OVERDUE, UNCLEAR, completed, oldest, step

COMMIT, WAIT = Effects(commits=WGMMA), Effects(waits=WGMMA)
WAIT_READ = Effects(waits=BULK, sources=True)


@pytest.mark.parametrize(("stage", "after"), [(OPEN, 0), (OVERDUE, 0), (0, 1), (1, 2), (3, 3)])
def test_a_commit_makes_an_operation_one_group_older(stage: int, after: int) -> None:
    assert step(stage, COMMIT, UNCLEAR, 3) == after


@pytest.mark.parametrize(
    ("left", "after"),
    [
        (OPEN, [None, None, None, None]),
        (NO_GROUPS, [OVERDUE, OVERDUE, None, None]),
        (1, [OVERDUE, OVERDUE, 0, None]),
        (UNCLEAR, [OVERDUE, OVERDUE, 0, 1]),
    ],
)
def test_a_wait_completes_the_groups_that_it_does_not_leave(left: int, after: list[int | None]) -> None:
    assert [step(stage, WAIT, left, 2) for stage in (OVERDUE, OPEN, 0, 1)] == after


def test_a_wait_for_sources_completes_no_result() -> None:
    assert step(0, WAIT_READ, NO_GROUPS, 1) == 0
    assert step(OPEN, WAIT_READ, NO_GROUPS, 1) == OPEN
    assert step(0, WAIT_READ, NO_GROUPS, 1, sources=True) is None


@pytest.mark.parametrize("left", [OPEN, NO_GROUPS, 1, 2, UNCLEAR])
def test_groups_in_a_row_are_as_complete_as_each_of_them(left: int) -> None:
    """The newest group has age 0, and the open one follows."""
    for closed in range(4):
        stages = [*range(closed - 1, OPEN - 1, -1)]
        alone = [stage for stage in stages if step(stage, WAIT, left, 9) is None]
        assert alone == stages[: completed(closed, left)]


def test_ages_saturate_where_every_wait_completes_them() -> None:
    assert oldest(()) == oldest((OPEN, UNCLEAR)) == 1
    assert oldest((2, 0, UNCLEAR)) == 3
