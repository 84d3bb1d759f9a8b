"""Locations of findings: lines and columns of spans, and the source line from which the PTX was generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tclint.findings.finding import FileReport, SourceLocation
from tclint.findings.spans import Span
from tclint.syntax.source import Position, Problem

if TYPE_CHECKING:  # a run that reuses its results needs no IR
    from tclint.ir.nodes import Location, Module

__all__ = ["displayed_name", "region", "source_location", "unreported"]


def source_location(module: Module, location: Location | None) -> SourceLocation | None:
    """The source position of a ``.loc``, with the calls through which it was inlined; None if there is none.

    A position in a file that no ``.file`` names is left out: it would lead nowhere.
    """
    if location is None:
        return None
    chain = [location]
    while chain[-1].inlined_at is not None:
        chain.append(chain[-1].inlined_at)
    named = [
        (module.files.get(l.file), l) for l in chain if l.line > 0
    ]  # line 0 is code without a source line
    known = [SourceLocation(file, l.line, l.column) for file, l in named if file is not None]
    if not known:
        return None
    first, *rest = known
    return SourceLocation(first.file, first.line, first.column, tuple(rest))


def region(report: FileReport, span: Span) -> tuple[Position, Position]:
    """The position of the first character of *span*, and the position after its last one."""
    assert report.source is not None  # guaranteed by FileReport
    return report.source.position(span.start), report.source.position(span.end)


def unreported(report: FileReport, line_of: Callable[[int], int] | None = None) -> Iterator[Problem]:
    """The problems of a report that none of its findings reports: an undeclared name is both a problem and a finding.

    *line_of* gives the 1-based line of an offset; by default the source of the report does.
    """
    if line_of is None:
        line_of = lambda offset: region(report, Span(offset, offset))[0].line
    reported = [
        (line_of(finding.span.start), finding.message)
        for finding in (report.findings if report.problems else ())
        if finding.suppressed is None
    ]
    for problem in report.problems:
        if not any(line == problem.line and problem.message.endswith(said) for line, said in reported):
            yield problem


def displayed_name(report: FileReport) -> str:
    """The displayed name of the input of a report: ``kernels.fatbin(gemm.ptx)`` for a member of a container."""
    return report.path if report.member is None else f"{report.path}({report.member})"
