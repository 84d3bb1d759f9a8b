from __future__ import annotations

import pytest

from tclint.findings.finding import FileReport, Fingerprints
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.report.summary import present, tally
from tclint.syntax.source import Problem, Source
from tests.tools.findings import finding, report

SOURCE = Source.from_bytes(b"first second third", "a.ptx")


def test_labels_and_order() -> None:
    assert [severity.label for severity in Severity] == ["info", "warning", "error"]
    assert Severity.INFO < Severity.WARNING < Severity.ERROR
    assert [confidence.label for confidence in Confidence] == ["low", "medium", "high", "confirmed"]


def test_fingerprints_number_equal_findings() -> None:
    prints = Fingerprints()
    first = prints.make("WG001", "gemm", ["st.global", "r0"])
    second = prints.make("WG001", "gemm", ["st.global", "r0"])
    digest, ordinal = first.split(":")
    assert (len(digest), ordinal) == (16, "1")
    assert second == f"{digest}:2"
    assert Fingerprints().make("WG001", "gemm", ["st.global", "r0"]) == first


def test_fingerprints_depend_on_every_part_and_its_borders() -> None:
    cases = [
        ("WG001", "gemm", ["ab", "c"]),
        ("WG001", "gemm", ["a", "bc"]),
        ("WG001", "gemm", ["abc"]),
        ("WG001", "other", ["ab", "c"]),
        ("WG002", "gemm", ["ab", "c"]),
        ("WG001", None, ["gemm", "ab", "c"]),
    ]
    assert len({Fingerprints().make(*case) for case in cases}) == len(cases)


def test_a_report_that_is_not_complete_says_why_and_findings_have_their_source() -> None:
    with pytest.raises(ValueError, match="partial with 0"):
        FileReport(path="a", status="partial")
    with pytest.raises(ValueError, match="analysed with 1"):
        FileReport(path="a", problems=(Problem(1, "no"),))
    with pytest.raises(ValueError, match="without their source"):
        FileReport(path="a", findings=(finding(SOURCE, "first"),))
    assert FileReport.failed("a", "no", 3).problems == (Problem(3, "no"),)


def test_low_confidence_is_counted_and_hidden_unless_pedantic() -> None:
    low = finding(SOURCE, "first", confidence=Confidence.LOW)
    high = finding(SOURCE, "third", severity=Severity.WARNING)
    reports = [report(SOURCE, high, low)]

    shown, summary = present(reports, Selected())
    assert shown[0].findings == (high,)
    assert summary.hidden == {"WG001": 1}
    assert summary.by_rule == {"WG001": 1}
    assert (
        tally(summary) == "Found 1 warning in 1 file; 1 low-confidence finding hidden (--pedantic shows it)."
    )

    shown, summary = present(reports, Selected(min_confidence=Confidence.LOW))
    assert shown[0].findings == (low, high), "in the order of the text"
    assert summary.hidden == {}
    assert tally(summary) == "Found 1 error, 1 warning in 1 file."


def test_the_tally_never_makes_a_failure_look_clean() -> None:
    def tally_of(*reports: FileReport) -> str:
        return tally(present(reports, Selected())[1])

    clean = report(SOURCE)
    failed = FileReport.failed("b.ptx", "no")
    partial = report(SOURCE, status="partial", problems=(Problem(1, "no"),))
    assert tally_of(clean) == "No findings in 1 file."
    assert tally_of(failed) == "Nothing was analysed; 1 input could not be analysed."
    assert tally_of(clean, failed) == "No findings in 1 file; 1 input could not be analysed."
    assert tally_of(clean, partial) == "No findings in 2 files; 1 input only partly analysed."
    info = finding(SOURCE, "first", severity=Severity.INFO)
    assert tally_of(clean, report(SOURCE, info)) == "Found 1 note in 1 of 2 files."
