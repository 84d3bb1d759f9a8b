"""Programs that an H200 computed wrongly because a stage was refilled too early, and their corrected twins."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence, Severity
from tests.tools.project import ROOT
from tests.tools.support import lint

PROGRAMS = ROOT.parent / "shared" / "cases" / "convicted"
NOTE = ("PR004", Severity.INFO)


@pytest.mark.skipif(not PROGRAMS.is_dir(), reason="the programs that were run on a GPU are not here")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("c19_war_generic_tma.good", set()),
        ("c19_war_generic_tma.bug1", {NOTE}),
        ("c19_war_generic_tma.bug2", {NOTE, ("SM001", Severity.ERROR)}),
        ("c23_ring_no_proxy_fence.good", set()),
        ("c23_ring_no_proxy_fence.bug1", {NOTE}),
    ],
)
def test_a_refill_that_hardware_computes_wrongly(name: str, expected: set[tuple[str, Severity]]) -> None:
    report = lint((PROGRAMS / f"{name}.ptx").read_text())
    shown = [f for f in report.findings if f.confidence > Confidence.LOW and f.rule.id != "CV009"]
    assert {(f.rule.id, f.severity) for f in shown} == expected
    assert len(shown) == len(expected)
    assert all(", if the loop runs twice:" in f.message for f in shown if f.rule.id == "SM001")
