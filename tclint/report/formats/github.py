"""Annotations of GitHub Actions: one workflow command per finding, the gravest first.

GitHub shows ten of each level per step. In data, ``%``, CR and LF are escaped; in properties also ``:`` and ``,``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tclint._json import clean
from tclint.findings.finding import FileReport, Finding
from tclint.findings.places import displayed_name, unreported
from tclint.findings.scales import Severity
from tclint.report.formats._details import details
from tclint.report.formats._style import printable
from tclint.report.summary import FormatContext

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def render(reports: Sequence[FileReport], context: FormatContext) -> str:
    """The errors of inputs, then the findings by severity."""
    findings = [(report, finding) for report in reports for finding in report.findings]
    findings.sort(key=lambda item: -item[1].severity)
    lines = [
        *(line for report in reports for line in _problems(report, context)),
        *(_annotation(report, finding, context) for report, finding in findings),
    ]
    return "".join(line + "\n" for line in lines)


def _problems(report: FileReport, context: FormatContext) -> Iterator[str]:
    for problem in unreported(report):
        at = {"file": context.locate.relative(report.path)}
        if problem.line:
            at["line"] = str(problem.line)
        yield _command("error", at | {"title": "tclint"}, f"{displayed_name(report)}: {problem.message}")


def _annotation(report: FileReport, finding: Finding, context: FormatContext) -> str:
    target = context.locate(report, finding)
    properties = {"file": context.locate.relative(target.path), "line": str(target.line)}
    if target.end is not None:
        properties["endLine"] = str(target.end.line)
    if target.column and (target.end is None or target.end.line == target.line):
        properties["col"] = str(target.column)
        if target.end is not None:
            properties["endColumn"] = str(target.end.column)
    properties["title"] = f"tclint ({finding.rule.id})"
    lines = [finding.message, *details(report, finding, context)]
    return _command(_LEVELS[finding.severity], properties, "\n".join(lines))


def _command(level: str, properties: dict[str, str], message: str) -> str:
    listed = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    return f"::{level} {listed}::{_escaped(message, _DATA)}"


def _escaped(text: str, table: dict[str, str]) -> str:
    return printable("".join(table.get(character, character) for character in clean(text)))
