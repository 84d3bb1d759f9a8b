"""Findings as the diagnostics of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from tclint.findings.finding import Finding, Span
from tclint.findings.rules import page, url
from tclint.findings.scales import Severity
from tclint.lsp.document import Document, Lint
from tclint.lsp.text import Text
from tclint.syntax.source import Problem

__all__ = ["SOURCE", "diagnostics", "of_error", "of_finding"]

SOURCE = "tclint"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}


def diagnostics(document: Document, lint: Lint) -> list[types.Diagnostic]:
    """What a document's editor shows: the findings, and why not all of it could be analysed."""
    findings = [f for f in lint.report.findings if f.suppressed is None]
    told = {(lint.text.line_of(f.span.start) + 1, f.message) for f in findings}
    problems = (p for p in lint.report.problems if not _told(p, told))
    return [
        *(of_problem(lint.text, problem) for problem in problems),
        *(of_finding(document.uri, lint.text, finding) for finding in findings),
    ]


def _told(problem: Problem, told: set[tuple[int, str]]) -> bool:
    """Whether a finding says the same: a name that nothing declares is both."""
    return any(line == problem.line and problem.message.endswith(message) for line, message in told)


def of_problem(text: Text, problem: Problem) -> types.Diagnostic:
    return types.Diagnostic(
        range=text.range(_content(text, max(problem.line - 1, 0))),
        message=problem.message,
        severity=types.DiagnosticSeverity.Error,
        source=SOURCE,
    )


def of_error(text: Text, error: Exception) -> types.Diagnostic:
    """An internal error: what is shown otherwise may be out of date."""
    message = f"internal error: {type(error).__name__}: {error}; TCLINT_DEBUG=1 logs where it came from"
    return of_problem(text, Problem(0, message))


def of_finding(uri: str, text: Text, finding: Finding) -> types.Diagnostic:
    """One finding; the steps of its path are its related information, in their order."""
    rule = finding.rule
    return types.Diagnostic(
        range=text.range(finding.span),
        message=f"{finding.message}\n{finding.help}" if finding.help else finding.message,
        severity=_SEVERITIES[finding.severity],
        code=rule.id,
        code_description=types.CodeDescription(url(rule) or page(rule).absolute().as_uri()),
        source=SOURCE,
        related_information=list(_path(uri, text, finding)),
        data={"fingerprint": finding.fingerprint},
    )


def _path(uri: str, text: Text, finding: Finding) -> Iterator[types.DiagnosticRelatedInformation]:
    for number, step in enumerate(finding.steps, 1):
        who = f" ({step.role})" if step.role else ""
        where = step.source_location
        place = f" [{where.file}:{where.line}]" if where is not None else ""
        yield types.DiagnosticRelatedInformation(
            types.Location(uri, text.range(step.span)), f"{number}. {step.message}{who}{place}"
        )


def _content(text: Text, number: int) -> Span:
    """A line without the blanks around its words."""
    line = text.line(number)
    content = text.data[line.start : line.end]
    return Span(line.start + len(content) - len(content.lstrip()), line.start + len(content.rstrip()))
