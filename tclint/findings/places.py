"""Locations of findings: lines and columns of spans, and the source line from which the PTX was generated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tclint.findings.finding import FileReport, SourceLocation
from tclint.findings.spans import Span
from tclint.syntax.source import Position

if TYPE_CHECKING:  # a run that reuses its results needs no IR
    from tclint.ir.nodes import Location, Module

__all__ = ["displayed_name", "region", "source_location"]


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


def displayed_name(report: FileReport) -> str:
    """The displayed name of the input of a report: ``kernels.fatbin(gemm.ptx)`` for a member of a container."""
    return report.path if report.member is None else f"{report.path}({report.member})"
