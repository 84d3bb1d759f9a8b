"""What a run found, as the output formats see it: the findings to show, the numbers, and where a span is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tclint import __version__
from tclint.finding import Confidence, FileReport, Finding, Severity, Span
from tclint.locate import Locator
from tclint.rules import Rule
from tclint.source import Position


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run found, in numbers. Hidden findings are in ``hidden`` only."""

    files: int
    partial: int
    failed: int
    files_with_findings: int
    by_severity: dict[Severity, int]
    """Every severity has an entry, the gravest first."""
    by_rule: dict[str, int]
    """By rule id, in the order of the ids; only rules that found something."""
    folded: int = field(default=0, kw_only=True)
    """Findings that are shown only as variants of another one."""
    hidden: dict[str, int]
    """Findings of low confidence that are not shown, by rule id."""
    version: str = __version__


@dataclass(frozen=True, slots=True)
class Context:
    """What a format may know about the run and the place its text goes to."""

    summary: Summary
    color: bool = False
    width: int = 120
    """Columns of the terminal; where there is none, a width that reads well."""
    links: bool = False
    """The terminal is likely to know hyperlinks (OSC 8)."""
    locate: Locator = field(default_factory=Locator)
    fail_on: Severity | None = Severity.WARNING
    """The lowest severity that fails the run."""
    rules: tuple[Rule, ...] | None = None
    """The rules that were enabled; None: all."""


def present(reports: Iterable[FileReport], *, pedantic: bool) -> tuple[list[FileReport], Summary]:
    """The reports as they are to be shown, and what there is in numbers."""
    shown: list[FileReport] = []
    by_severity = dict.fromkeys(sorted(Severity, reverse=True), 0)
    by_rule: Counter[str] = Counter()
    hidden: Counter[str] = Counter()
    for report in reports:
        visible: list[Finding] = []
        for finding in sorted(report.findings, key=lambda f: (f.span.start, f.span.end, f.rule.id)):
            if finding.confidence > Confidence.LOW or pedantic:
                visible.append(finding)
                by_severity[finding.severity] += 1
                by_rule[finding.rule.id] += 1
            else:
                hidden[finding.rule.id] += 1
        shown.append(replace(report, findings=tuple(visible)))
    summary = Summary(
        files=len(shown),
        partial=sum(report.status == "partial" for report in shown),
        failed=sum(report.status == "failed" for report in shown),
        files_with_findings=sum(bool(report.findings) for report in shown),
        by_severity=by_severity,
        by_rule=dict(sorted(by_rule.items())),
        hidden=dict(sorted(hidden.items())),
    )
    return shown, summary


def region(report: FileReport, span: Span) -> tuple[Position, Position]:
    """Where a span of a report's findings starts, and the place after its last character."""
    assert report.source is not None  # FileReport makes sure
    return report.source.position(span.start), report.source.position(span.end)


def place(report: FileReport) -> str:
    """How the input of a report is called: ``kernels.fatbin(gemm.ptx)`` for a member of a container."""
    return report.path if report.member is None else f"{report.path}({report.member})"


def tally(summary: Summary) -> str:
    """The run in one honest sentence: what was found, what is hidden, what could not be analysed."""
    found = [
        count(number, "note" if severity is Severity.INFO else severity.label)
        for severity, number in summary.by_severity.items()
        if number
    ]
    readable = summary.files - summary.failed
    files = count(readable, "file")
    if found:
        where = f"{summary.files_with_findings} of {files}" if readable > 1 else files
        parts = [f"Found {', '.join(found)} in {where}"]
        if summary.folded:
            parts.append(f"{count(summary.folded, 'more place')} folded into them")
    else:
        parts = [f"No findings in {files}" if readable else "Nothing was analysed"]
    if hidden := sum(summary.hidden.values()):
        parts.append(f"{count(hidden, 'low-confidence finding')} hidden (--pedantic shows them)")
    if summary.failed:
        parts.append(f"{count(summary.failed, 'input')} could not be analysed")
    if summary.partial:
        parts.append(f"{count(summary.partial, 'input')} analysed only in part")
    return "; ".join(parts) + "."


def count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
