"""Programs that an H200 computed wrongly because a stage was refilled too early, and their corrected twins."""

from __future__ import annotations

import re

import pytest

from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Request
from tclint.findings.verdicts import HazardClass, Status
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.support import lint

PROGRAMS = ROOT.parent / "shared" / "cases" / "convicted"
NOTE = ("PR004", Severity.INFO)


HERE = pytest.mark.skipif(not PROGRAMS.is_dir(), reason="the programs that were run on a GPU are not here")


@HERE
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


@HERE
@pytest.mark.parametrize(("tiles", "status"), [("", Status.UNKNOWN), ("mov.b32 %r{n}, 4;", Status.VIOLATED)])
def test_the_class_is_violated_only_if_the_loop_is_known_to_run_twice(tiles: str, status: Status) -> None:
    text = (PROGRAMS / "c19_war_generic_tma.bug2.ptx").read_text()
    loaded = re.search(r"ld\.param\.u32\s+%r(\d+), \[k_param_2\];", text)
    assert loaded is not None
    if tiles:
        text = text.replace(loaded[0], tiles.format(n=loaded[1]))
    report = check_source(Source(text.encode(), "k.ptx"), Request(assume=ALL_ASSUMPTIONS))
    verdicts = [v for v in report.verdicts if v.hazard is HazardClass.SHARED_MEMORY and v.kernel == "k"]
    assert [v.status for v in verdicts] == [status]
