"""Replays: each row of the table of hypotheses is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import product
from pkgutil import iter_modules
from typing import Any

import pytest

import tests.replay as package
from tclint.replay import hypotheses
from tclint.replay.hypotheses import rows
from tests.tools.replay import alter

ALTERED: dict[str, object] = {
    "SIZES": hypotheses.SIZES.value[:1],
    "ODD_SIZES": (),
    "LAST_CTAS": (),
    "MIDDLE_CTAS": (),
    "ALTERNATING_ITEMS": (),
    "ROLES": (),
    "WORK_FOR_ALL": 512,
    "RELATED_WORDS": (),
    "FEW_CTAS": (),
    "MANY_TILES": 1,
    "ELEMENTS_THAT_INCREASE": 0,
    "COUNTER_READS": 0,
    "DISTINCT_ELEMENTS": 0,
    "DISTINCT_BUFFERS": 0,
    "CANCELLED_CLUSTERS": 0,
    "CTA_SHAPES": (),
    "CLUSTER_SHAPES": ((1,),),
    "MAX_STEPS": 100,
    "MAX_EXTRA_STEPS": 100,
    "MAX_EXTENDED_REPLAYS": 2,
    "MAX_PREVIEW_STEPS": 1,
    "MAX_CLUSTER_SEARCH_STEPS": 1,
    "MAX_RELATED_STEPS": 1,
    "STEPS_PER_ITERATION": 1,
    "MAX_REDUCTIONS": 2,
    "MAX_ITERATIONS": 1,
    "MIN_ITERATIONS": 1_000,
    "MIN_EXCESS": 1 << 20,
    "MAX_GRID": 1,
    "GRID_FACTOR": 2,
    "VALUE_DIVISOR": 2,
    "MIN_FAILING_LAUNCHES": 3,
}
"""A value for each row with which the test that it names must fail."""


def cases(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The arguments of a parametrised test."""
    axes = []
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            single = isinstance(mark.args[0], str)
            names = (mark.args[0],) if single else mark.args[0]
            values = [getattr(v, "values", (v,) if single else v) for v in mark.args[1]]
            axes.append([dict(zip(names, v, strict=True)) for v in values])
    for choice in product(*axes):
        yield {name: value for part in choice for name, value in part.items()}


@cache
def by_name() -> dict[str, Callable[..., None]]:
    """The tests of replays by name, those of this module excepted."""
    found: dict[str, Callable[..., None]] = {}
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        if module.name != __name__:
            found.update((n, f) for n, f in vars(import_module(module.name)).items() if n.startswith("test_"))
    return found


def run(test: Callable[..., None]) -> None:
    """Runs a test with all of its arguments."""
    for arguments in cases(test):
        with pytest.MonkeyPatch.context() as patch:
            own = {"monkeypatch": patch} if "monkeypatch" in inspect.signature(test).parameters else {}
            test(**arguments, **own)


def test_every_row_is_altered() -> None:
    assert ALTERED.keys() == rows().keys()


@pytest.mark.parametrize("row", ALTERED)
def test_a_row_is_needed_by_the_test_that_it_names(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(monkeypatch, row, ALTERED[row])
    test = by_name()[rows()[row].needed_by]
    with pytest.raises((AssertionError, StopIteration, ValueError)):
        run(test)
