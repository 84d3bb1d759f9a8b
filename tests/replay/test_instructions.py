"""That each kind of step has one function which executes it."""

from __future__ import annotations

import pytest

import tclint.replay.instructions  # noqa: F401  registers the functions for steps
from tclint.isa.effects import Exchange
from tclint.replay.machine import DATA, SYNCHRONISATION, executes, executes_data
from tclint.replay.steps import DEFINING, FOLLOWED, Sync


def test_all_that_synchronises_can_be_executed() -> None:
    assert SYNCHRONISATION.keys() == {*FOLLOWED, *DEFINING, "activemask"}


def test_no_kind_of_step_is_both_data_and_synchronisation() -> None:
    assert SYNCHRONISATION.keys().isdisjoint(DATA)


@pytest.mark.parametrize("what", [Exchange.ELECT, Sync.JOIN])
def test_a_second_function_for_a_kind_of_step_is_refused(what: Exchange | Sync) -> None:
    with pytest.raises(ValueError, match=f"two functions for {what}"):
        executes(what)(lambda *_: True)


def test_a_second_function_for_a_kind_of_data_is_refused() -> None:
    with pytest.raises(ValueError, match="two functions for store"):
        executes_data("store")(lambda *_: None)
