"""A rule, and findings, steps and reports made by hand."""

from __future__ import annotations

from typing import Any

from tclint.findings.finding import FileReport, Finding, Step
from tclint.findings.rules import Rule
from tclint.findings.scales import Confidence, Severity
from tclint.findings.spans import Span
from tclint.syntax.source import Source

RULE = Rule(
    id="WG001",
    name="wgmma-unwaited-accumulator-read",
    family="wgmma",
    hazards=("wgmma",),
    severity=Severity.ERROR,
    confidence=Confidence.HIGH,
    since="0.1.0",
    manual=("9.7.15.7.3",),
    words={},
    summary="An accumulator is read too early.",
    body="",
    examples=(),
    corrections=(),
)


def finding(source: Source, words: str, **changes: Any) -> Finding:
    """A finding on the first occurrence of ``words`` in the source."""
    fields: dict[str, Any] = {
        "rule": RULE,
        "severity": RULE.severity,
        "confidence": RULE.confidence,
        "span": span(source, words),
        "message": f"{words} is wrong",
        "entry": "gemm",
        "fingerprint": "0123456789abcdef:1",
    }
    return Finding(**(fields | changes))


def span(source: Source, words: str) -> Span:
    """The bytes of the first occurrence of ``words`` in the source."""
    start = source.data.index(words.encode())
    return Span(start, start + len(words.encode()))


def step(source: Source, words: str, message: str, **changes: Any) -> Step:
    """A step with *message* on the first occurrence of ``words`` in the source."""
    return Step(span(source, words), message, **({"entry": "gemm"} | changes))


def report(source: Source, *findings: Finding, **changes: Any) -> FileReport:
    """The report of a source with these findings."""
    return FileReport(path=source.path, findings=findings, source=source, **changes)
