"""One line per finding, ``file:line:column: severity RULE message [name]``, as editors and grep read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tclint.finding import FileReport
from tclint.report import Context, place, region, tally


def render(reports: Sequence[FileReport], context: Context) -> str:
    """The findings and problems, and the tally as the last line."""
    lines = [line for report in reports for line in _lines(report)]
    return "\n".join([*lines, tally(context.summary)]) + "\n"


def _lines(report: FileReport) -> Iterator[str]:
    path = place(report)
    for problem in report.problems:
        at = f"{path}:{problem.line}" if problem.line else path
        yield _one_line(f"{at}: problem: {problem.message}")
    for finding in report.findings:
        line, column = region(report, finding.span)[0]
        rule = finding.rule
        yield _one_line(
            f"{path}:{line}:{column}: {finding.severity.label} {rule.id} {finding.message} [{rule.name}]"
        )


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
