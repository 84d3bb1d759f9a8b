from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tclint.findings.finding import FileReport, Finding, SourceLocation
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.findings.verdicts import HazardClass, Status, Verdict
from tclint.report.fold import fold
from tclint.report.formats import renderer
from tclint.report.locate import Locator
from tclint.report.summary import FormatContext, Summary, present, tally
from tclint.syntax.source import Source
from tests.tools.findings import finding, report, span, step

TEXT = b"start commit other use1 use2 use3"
LINE = SourceLocation("mma.cuh", 10, 3, (SourceLocation("/src/gemm.cu", 50),))


def source(path: str) -> Source:
    return Source.from_bytes(TEXT, path)


def used(of: Source, words: str, *causes: str, **changes: Any) -> Finding:
    steps = tuple(step(of, cause, "begins") for cause in causes)
    return finding(of, words, steps=(*steps, step(of, words, "used")), **changes)


def folded(*reports: FileReport) -> tuple[list[FileReport], Summary]:
    """What people see: the reports without duplicates, and the counts."""
    shown, summary = fold(*present(reports, Selected()))
    kept = [tuple(f for f in report.findings if f.duplicate_of is None) for report in shown]
    return [replace(report, findings=f) for report, f in zip(shown, kept, strict=True)], summary


def test_to_a_program_no_file_with_a_finding_looks_clean() -> None:
    made = [report(s, finding(s, "use1", source_location=LINE)) for s in map(source, ("a", "b", "c"))]
    shown, summary = fold(*present(made, Selected()))
    first, *others = (f for each in shown for f in each.findings)
    assert first.duplicate_of is None
    assert [f.duplicate_of and f.duplicate_of.path for f in others] == ["a", "a"]
    context = FormatContext(summary, locate=Locator("ptx", "/"))
    by_file = {
        file["path"]: file["findings"] for file in json.loads(renderer("json")(shown, context))["files"]
    }
    assert [by_file[name][0]["duplicate_of"] is None for name in "abc"] == [True, False, False]
    (run,) = json.loads(renderer("sarif")(shown, context))["runs"]
    assert (
        len({r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]}) == 3
    )
    assert [r["properties"].get("tclint/duplicateOf", {}).get("line") for r in run["results"]] == [None, 1, 1]
    gitlab = json.loads(renderer("gitlab")(shown, context))
    assert len({entry["location"]["path"] for entry in gitlab}) == len(gitlab) == 3
    assert renderer("junit")(shown, context).count('failures="1"') == 3
    for name in ("text", "concise", "github"):
        assert renderer(name)(shown, context).count("WG001") == renderer(name)(shown[:1], context).count(
            "WG001"
        )


def test_a_verdict_names_the_finding_that_another_file_has_of_its_defect() -> None:
    made = [
        replace(
            report(s, finding(s, "use1", source_location=LINE, entry="k")),
            verdicts=(Verdict("k", HazardClass.WGMMA, Status.VIOLATED, rules=("WG001",)),),
        )
        for s in map(source, ("a", "b"))
    ]
    shown, summary = fold(*present(made, Selected()))
    lines = renderer("text")(shown, FormatContext(summary, locate=Locator("ptx", "/"))).splitlines()
    assert [line for line in lines if line.startswith("kernel")] == [
        "kernel k in a: wgmma violated (WG001)",
        "kernel k in b: wgmma violated (WG001, reported at a:1)",
    ]


def test_duplicates_at_one_source_line_are_listed_once_by_location() -> None:
    made = [report(s, finding(s, "use1", source_location=LINE)) for s in map(source, ("a", "b"))]
    shown, summary = fold(*present(made, Selected()))
    context = FormatContext(summary, locate=Locator("source", "/"))
    assert len(json.loads(renderer("gitlab")(shown, context))) == 1
    assert len(json.loads(renderer("sarif")(shown, context))["runs"][0]["results"]) == 1
    assert renderer("junit")(shown, context).count('failures="1"') == 2


def test_the_uses_of_one_cause_are_one_finding() -> None:
    a = source("a.ptx")
    made = report(
        a,
        used(a, "use1", "start", "commit", count=2),
        used(a, "use2", "other", "commit"),
        used(a, "use3", "other"),
    )
    (shown,), summary = folded(made)
    assert [(f.span, f.count, [(v.path, v.line, v.column) for v in f.variants]) for f in shown.findings] == [
        (span(a, "use1"), 3, [("a.ptx", 1, 25)]),
        (span(a, "use3"), 1, []),
    ]
    assert (summary.by_severity[Severity.ERROR], summary.by_rule, summary.folded) == (2, {"WG001": 2}, 1)
    assert tally(summary) == "Found 2 errors in 1 file; 1 duplicate merged."


def test_an_instruction_after_the_bad_use_is_not_a_cause() -> None:
    a = source("a.ptx")
    made = report(
        a, *(finding(a, use, steps=(step(a, use, "bad"), step(a, "use3", "end"))) for use in ("use1", "use2"))
    )
    assert len(folded(made)[0][0].findings) == 2


def test_other_advice_or_another_kernel_is_another_cause() -> None:
    a = source("a.ptx")
    made = report(
        a,
        used(a, "use1", "commit"),
        used(a, "use2", "commit", help="wait"),
        used(a, "use3", "commit", entry="other"),
    )
    assert len(folded(made)[0][0].findings) == 3


def test_a_source_line_of_many_variants_is_one_finding() -> None:
    reports = [report(s, finding(s, "use1", source_location=LINE)) for s in map(source, ("a", "b", "c"))]
    shown, summary = folded(*reports)
    assert [len(r.findings) for r in shown] == [1, 0, 0]
    assert [(v.path, v.entry, v.fingerprint) for v in shown[0].findings[0].variants] == [
        ("b", "gemm", "0123456789abcdef:1"),
        ("c", "gemm", "0123456789abcdef:1"),
    ]
    assert summary.folded == 2
    assert tally(summary) == "Found 1 error in 3 of 3 files; 2 duplicates merged."


def test_what_is_not_known_to_be_one_line_is_not_folded() -> None:
    elsewhere = SourceLocation("mma.cuh", 10, 3, (SourceLocation("gemm.cu", 51),))
    locations = [None, None, LINE, elsewhere]
    reports = [
        report(s, finding(s, "use1", source_location=location))
        for s, location in zip(map(source, "abcd"), locations, strict=True)
    ]
    assert [len(r.findings) for r in folded(*reports)[0]] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("file", "other", "kept"),
    [("default_program", "gemm", 1), ("default_program", "attention", 2), ("src/gemm.cu", "attention", 1)],
)
def test_a_bare_file_name_needs_the_same_kernel(file: str, other: str, kept: int) -> None:
    reports = [
        report(s, finding(s, "use1", entry=entry, source_location=SourceLocation(file, 12)))
        for s, entry in zip(map(source, "ab"), ("gemm", other), strict=True)
    ]
    assert sum(len(r.findings) for r in folded(*reports)[0]) == kept


def test_two_defects_at_one_line_of_a_kernel_stay_two() -> None:
    reports = [
        report(
            s,
            used(s, "use1", "start", source_location=LINE),
            used(s, "use2", "commit", source_location=LINE),
        )
        for s in map(source, "ab")
    ]
    shown, summary = folded(*reports)
    assert [[len(f.variants) for f in r.findings] for r in shown] == [[1, 1], []]
    assert summary.folded == 2


def test_the_gravest_and_surest_is_kept_and_a_suppressed_one_is_apart() -> None:
    a, b, c, d = map(source, "abcd")
    shown, _ = folded(
        report(a, finding(a, "use1", source_location=LINE, severity=Severity.WARNING)),
        report(b, finding(b, "use1", source_location=LINE, confidence=Confidence.MEDIUM)),
        report(c, finding(c, "use1", source_location=LINE)),
        report(d, finding(d, "use1", source_location=LINE, suppressed="known")),
    )
    assert [[f.severity.label for f in r.findings] for r in shown] == [[], [], ["error"], ["error"]]
    assert [v.path for v in shown[2].findings[0].variants] == ["a", "b"]
    assert shown[3].findings[0].variants == ()


def test_the_uses_of_a_cause_and_its_variants_fold_together() -> None:
    reports = [
        report(
            s,
            used(s, "use1", "commit", source_location=LINE),
            used(s, "use2", "commit", source_location=SourceLocation("gemm.cu", 60)),
        )
        for s in map(source, "ab")
    ]
    shown, summary = folded(*reports)
    ((kept,), nothing) = (r.findings for r in shown)
    assert not nothing
    assert [(v.path, v.column) for v in kept.variants] == [("a", 25), ("b", 20), ("b", 25)]
    assert summary.folded == 3
