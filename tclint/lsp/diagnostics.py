"""Findings and problems as LSP diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lsprotocol import types

from tclint.findings.finding import Finding
from tclint.findings.places import unreported
from tclint.findings.rules import page, url
from tclint.findings.scales import Severity
from tclint.findings.spans import Span
from tclint.lsp.document import Document, Lint
from tclint.lsp.text import DocumentText
from tclint.report.fold import causes
from tclint.report.formats._details import parties, step_words
from tclint.report.locate import Locator
from tclint.syntax.source import Problem

__all__ = ["SOURCE", "STALE", "diagnostics", "merged", "of_error", "of_finding"]

SOURCE = "tclint"
STALE = "(before the last edit; the function is being checked again)"
"""What the message of a finding ends with if the checks of its function have not run since it was edited."""
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}


def diagnostics(document: Document, lint: Lint) -> list[types.Diagnostic]:
    """The diagnostics of a document: its findings, and the problems that prevented a complete analysis."""
    problems = unreported(lint.report, lambda offset: lint.text.line_of(offset) + 1)
    return [
        *(of_problem(lint.text, problem) for problem in problems),
        *(of_finding(document.uri, lint, *found) for found in merged(lint)),
    ]


def merged(lint: Lint) -> Iterator[tuple[Finding, list[Span]]]:
    """The findings that no comment suppresses, each defect once, with its other places."""
    spans = {finding.fingerprint: finding.span for finding in lint.report.findings}
    for finding in causes(lint.report):
        if finding.suppressed is None:
            yield finding, [spans[variant.fingerprint] for variant in finding.variants]


def of_problem(text: DocumentText, problem: Problem) -> types.Diagnostic:
    return types.Diagnostic(
        range=text.range(_content(text, max(problem.line - 1, 0))),
        message=problem.message,
        severity=types.DiagnosticSeverity.Error,
        source=SOURCE,
    )


def of_error(text: DocumentText, error: Exception) -> types.Diagnostic:
    """The diagnostic for an internal error, after which other diagnostics may be out of date."""
    message = f"internal error: {type(error).__name__}: {error}; TCLINT_DEBUG=1 logs where it came from"
    return of_problem(text, Problem(0, message))


def of_finding(uri: str, lint: Lint, finding: Finding, others: Iterable[Span] = ()) -> types.Diagnostic:
    """The diagnostic for a finding, with the steps of its path and its *others* places as related information.

    It says so if the checks of its function have still to run for the last edit.
    """
    rule, text, stale = finding.rule, lint.text, finding.entry in lint.stale
    message = f"{finding.message}\n{finding.help}" if finding.help else finding.message
    return types.Diagnostic(
        range=text.range(finding.span),
        message=f"{message}\n{STALE}" if stale else message,
        severity=_SEVERITIES[finding.severity],
        code=rule.id,
        code_description=types.CodeDescription(url(rule) or page(rule).absolute().as_uri()),
        source=SOURCE,
        related_information=[
            *_in_source(finding),
            *_path(uri, text, finding),
            *(
                types.DiagnosticRelatedInformation(
                    types.Location(uri, text.range(span)), "the same cause is also reported here"
                )
                for span in others
            ),
        ],
        data={"fingerprint": finding.fingerprint, "stale": stale},
    )


def _in_source(finding: Finding) -> Iterator[types.DiagnosticRelatedInformation]:
    """The line of the user's source from which the place of a finding was compiled, if that was read."""
    location = finding.source_location
    line = Locator("source").user_line(location) if location is not None else None
    if line is None or line.text is None:
        return
    start = types.Position(line.line - 1, max(line.column - 1, 0))
    end = types.Position(line.line - 1, len(line.text.encode("utf-16-le")) // 2)
    yield types.DiagnosticRelatedInformation(
        types.Location(Path(line.file).absolute().as_uri(), types.Range(start, end)), line.text.strip()
    )


def _path(uri: str, text: DocumentText, finding: Finding) -> Iterator[types.DiagnosticRelatedInformation]:
    for number, step in enumerate(finding.steps, 1):
        location = step.source_location
        source = f" [{location.file}:{location.line}]" if location is not None else ""
        yield types.DiagnosticRelatedInformation(
            types.Location(uri, text.range(step.span)), f"{number}. {step_words(step)}{source}"
        )
    for _, step in parties(finding):
        yield types.DiagnosticRelatedInformation(
            types.Location(uri, text.range(step.span)), f"deadlock: {step_words(step)}"
        )


def _content(text: DocumentText, number: int) -> Span:
    """A 0-based line without leading and trailing blanks."""
    line = text.line(number)
    content = text.data[line.start : line.end]
    return Span(line.start + len(content) - len(content.lstrip()), line.start + len(content.rstrip()))
