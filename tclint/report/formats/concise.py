"""One line per finding, ``file:line:column: severity RULE message [name]``, for editors and grep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tclint.findings.finding import FileReport
from tclint.findings.places import displayed_name, unreported
from tclint.report.formats._details import where
from tclint.report.formats._style import printable
from tclint.report.summary import FormatContext, closing, count


def render(reports: Sequence[FileReport], context: FormatContext) -> str:
    """The findings and the errors of inputs, with the tally as the last line."""
    lines = [line for report in reports for line in _lines(report, context)]
    return "".join(f"{line}\n" for line in (*lines, *closing(context)))


def _lines(report: FileReport, context: FormatContext) -> Iterator[str]:
    path = displayed_name(report)
    for problem in unreported(report):
        at = f"{path}:{problem.line}" if problem.line else path
        yield _one_line(f"{at}: error: {problem.message}")
    for finding in report.findings:
        target = context.locate(report, finding)
        at = where(target if target.source else target._replace(path=path))
        more = f" (and {count(len(finding.variants), 'duplicate')})" if finding.variants else ""
        if finding.confirmation is not None:
            more += f" ({finding.confirmation.status})"
        rule = finding.rule
        yield _one_line(f"{at}: {finding.severity.label} {rule.id} {finding.message} [{rule.name}]{more}")


def _one_line(text: str) -> str:
    return printable(" ".join(text.splitlines()))
