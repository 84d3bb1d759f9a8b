"""Where findings point: lines and columns of spans, and the source line that PTX was made from."""

from __future__ import annotations

from tclint.findings.finding import FileReport, SourceLocation, Span
from tclint.ir.nodes import Location, Module
from tclint.syntax.source import Position

__all__ = ["place", "region", "source_location"]


def source_location(module: Module, location: Location | None) -> SourceLocation | None:
    """The place that ``.loc`` gives, with the calls through which it was inlined; None where there is none."""
    if location is None:
        return None
    chain = [location]
    while chain[-1].inlined_at is not None:
        chain.append(chain[-1].inlined_at)
    chain = [place for place in chain if place.line > 0]  # line 0: the compiler made it
    if not chain:
        return None
    places = [SourceLocation(module.files.get(l.file, f"file {l.file}"), l.line, l.column) for l in chain]
    first, *rest = places
    return SourceLocation(first.file, first.line, first.column, tuple(rest))


def region(report: FileReport, span: Span) -> tuple[Position, Position]:
    """Where a span of a report's findings starts, and the place after its last character."""
    assert report.source is not None  # FileReport makes sure
    return report.source.position(span.start), report.source.position(span.end)


def place(report: FileReport) -> str:
    """How the input of a report is called: ``kernels.fatbin(gemm.ptx)`` for a member of a container."""
    return report.path if report.member is None else f"{report.path}({report.member})"
