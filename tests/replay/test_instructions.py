"""That each kind of step has one function which executes it."""

from __future__ import annotations

import pytest

import tclint.replay.instructions  # noqa: F401  registers the functions for steps
from tclint.replay.machine import DATA, SYNCHRONISATION, executes, executes_data
from tclint.replay.program import _FOLLOWED
from tclint.replay.steps import EXCHANGES


def test_each_event_that_is_followed_can_be_executed() -> None:
    assert SYNCHRONISATION.keys() == {*_FOLLOWED, *EXCHANGES, "elect", "activemask", "clc-query"}


def test_no_kind_of_step_is_both_data_and_synchronisation() -> None:
    assert SYNCHRONISATION.keys().isdisjoint(DATA)


@pytest.mark.parametrize("what", ["elect", "barrier-sync"])
def test_a_second_function_for_a_kind_of_step_is_refused(what: str) -> None:
    with pytest.raises(ValueError, match=f"two functions for {what}"):
        executes(what)(lambda *_: True)


def test_a_second_function_for_a_kind_of_data_is_refused() -> None:
    with pytest.raises(ValueError, match="two functions for store"):
        executes_data("store")(lambda *_: None)
