"""Ordinary CUDA in ``fixtures/cuda``, compiled by nvcc: a missing barrier is reported without launch bounds too."""

from __future__ import annotations

import re

import pytest

from tclint.findings.scales import Severity
from tests.tools.project import ROOT
from tests.tools.support import lint

FOLDER = ROOT / "fixtures" / "cuda"
TEXTBOOK = {
    "bound_by_tid",
    "bound_by_grid",
    "early_return",
    "dynamic_one",
    "dynamic_two",
    "tree",
    "tree_first",
    "tiles",
    "halo",
    "scalar",
    "histogram",
}
"""The kernels of ``textbook.cu`` in which warps race in shared memory."""
UNSEEN = {"bitonic"}
"""A kernel of which data select the threads that store, one pair of elements each, at places that an xor pairs."""


def racy(name: str) -> set[str]:
    """The kernels of a file with a race between warps."""
    return {f.entry for f in lint((FOLDER / name).read_text()).findings if f.rule.id == "SM001"}


def test_textbook_mistakes() -> None:
    assert racy("textbook.bad.ptx") >= TEXTBOOK


def test_deleted_barriers() -> None:
    kernels = set(re.findall(r"^KERNEL (\w+)", (FOLDER / "deleted.cu").read_text(), re.MULTILINE))
    assert racy("deleted.bad.ptx") == kernels


@pytest.mark.parametrize("bound", ["", "bound."])
def test_exchanges_without_a_barrier(bound: str) -> None:
    kernels = set(re.findall(r"^KERNEL\(\d+\) (\w+)", (FOLDER / "exchanges.cu").read_text(), re.MULTILINE))
    assert racy(f"exchanges.{bound}bad.ptx") == kernels - UNSEEN


@pytest.mark.parametrize(
    "name",
    [
        "textbook.fixed.ptx",
        "exchanges.fixed.ptx",
        "exchanges.bound.fixed.ptx",
        "deleted.fixed.ptx",
        "apart.ptx",
    ],
)
def test_what_is_correct(name: str) -> None:
    """The last steps of a sum read and write the elements of other lanes in one step, which is a note."""
    findings = lint((FOLDER / name).read_text()).findings
    assert not [f for f in findings if f.confidence.label != "low" and f.severity is not Severity.INFO]
