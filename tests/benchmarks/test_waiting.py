"""What is measured of waiting is what the page of the benchmark says."""

from __future__ import annotations

import pytest

pytest.importorskip("resource", reason="the benchmark measures processes as Unix does")

from benchmarks import waiting
from benchmarks.processes import Run
from tclint.api import check
from tclint.ir.frontend import analyse
from tclint.ir.rebuild import Builds
from tclint.syntax.source import Source


def test_the_module_has_32_kernels() -> None:
    text = waiting.module()
    module, problems = analyse(Source.from_bytes(text.encode(), "module.ptx"), Builds(edited=False))
    assert not problems
    assert len([f for f in module.functions if f.entry]) == 32


def test_its_kernels_work() -> None:
    assert check(waiting.module(2)).ok


def test_the_least_of_some_runs_counts() -> None:
    made = iter([Run(0, 3.0, 1.0, 0, ""), Run(0, 2.0, 1.5, 0, "")])
    assert waiting.least(lambda: next(made), 2) == (2.0, 1.0)
