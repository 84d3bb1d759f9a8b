"""The lines of a frame: those of the PTX, or those of the sources from which it was compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tclint._named_tuple import NamedTuple
from tclint._pattern import pattern
from tclint.findings.finding import FileReport, Finding, SourceLocation
from tclint.findings.mangled import source_name
from tclint.findings.places import displayed_name, region
from tclint.findings.spans import Span
from tclint.report.formats._details import source_of, step_words, where
from tclint.report.formats._style import shortened
from tclint.report.locate import Locator, ShownLocation, calls

_OPCODE = pattern(rb"(?:@\s*!?\s*[\w$%]+\s+)?[^\s;{}()\[\],]+")
"""The guard and the opcode of a statement."""
_MAX_OPCODE = 300
"""Bytes of a statement that are searched for its opcode."""
MAX_LINE = 4000
"""Characters of a line or a statement in which lists of registers are elided."""
_ARGUMENTS = pattern(r"<[^<>]*>")
"""The innermost arguments of a template."""
_NEAR = 1 << 16
"""Bytes before an instruction in which the ``.loc`` is searched that applies to it."""
_LISTED = pattern(r"\{([^{},]*),[^{}]*?,[^{}]*?,[^{}]*?,([^{},]*)\}")
"""A list of at least five registers, of which the first and the last are shown."""
_WORD = pattern(r"(?://|/\*|#).*\S|\w+(?:(?:::|\.)\w+)*|\S")
"""What is underlined of a source line: a comment, or a name with its namespaces or module."""


class Row(NamedTuple):
    """A line of an excerpt, with columns ``[first, last)`` underlined; the primary one is the location of the finding."""

    path: str
    line: int
    text: str
    first: int
    last: int
    label: str
    primary: bool
    ptx: bool = False


def ptx_rows(report: FileReport, finding: Finding, locate: Locator) -> Iterator[Row]:
    """The steps, numbered; the location of the finding is one of them or follows them."""
    for span, label, primary in _marks(report, finding, locate):
        yield _ptx_row(report, span, label, primary)


def source_rows(report: FileReport, finding: Finding, locate: Locator) -> Iterator[Row]:
    """As :func:`ptx_rows`, in the sources; a step of which no source line was read is in the PTX.

    Successive steps that differ in number only, those of copies that a compiler made of a statement, are one row.
    """
    last = None
    for row in _source_rows(report, finding, locate):
        number, _, words = row.label.partition(". ")
        if last is not None and words and row._replace(label=last.label, primary=last.primary) == last:
            first, _, before = last.label.partition(". ")
            if words == before:
                label = f"{first.partition('-')[0]}-{number}. {words}"
                last = row._replace(label=label, primary=row.primary or last.primary)
                continue
        if last is not None:
            yield last
        last = row
    if last is not None:
        yield last


def _source_rows(report: FileReport, finding: Finding, locate: Locator) -> Iterator[Row]:
    """The rows of :func:`source_rows`, one for each step."""
    spans: dict[Span, SourceLocation | None] = {step.span: step.source_location for step in finding.steps}
    spans[finding.span] = finding.source_location
    whole = {_underlined(report, span): location for span, location in spans.items()}
    for span, label, primary in _marks(report, finding, None):
        location = whole[span]
        line = locate.user_line(location) if location is not None else None
        if location is None or line is None or line.text is None:
            yield _ptx_row(report, span, label, primary)
            continue
        callee = _callee_columns(report, span, line) if line in location.inlined_at else None
        first, last = callee or _underlined_columns(line)
        called = _called(location, line)
        yield Row(locate.local(line.file), line.line, line.text, first, last, label + called, primary)


def ptx_line(report: FileReport, finding: Finding) -> str:
    """Where the finding is in the PTX, and its statement: ``gemm.ptx:42:5: st.global.f32 [%rd1], %f1;``."""
    assert report.source is not None  # guaranteed by FileReport
    start, _ = region(report, finding.span)
    at = where(ShownLocation(displayed_name(report), start.line, start.column, None, None))
    text = report.source.data[finding.span.start : min(finding.span.end, finding.span.start + MAX_LINE)]
    return f"{at}: {elided(' '.join(text.decode(errors='replace').split()))}"


def elided(text: str) -> str:
    """PTX with its long lists of registers shortened: ``{%r1, …, %r64}``."""
    return _LISTED.sub(r"{\1, …,\2}", text)


def kernel_words(report: FileReport, entry: str | None, demangled: bool) -> str:
    """`` in gemm<float> (origin)``: the function of a finding, by its name in the source if *demangled*."""
    name = "" if entry is None else source_name(entry) if demangled else entry
    kernel = f" in {shortened(name)}" if name else ""
    return f"{kernel}{f' ({report.origin})' if report.origin else ''}"


def _marks(report: FileReport, finding: Finding, locate: Locator | None) -> Iterator[tuple[Span, str, bool]]:
    """What is underlined in the PTX, with its label, and with the source line if *locate* is given."""
    steps = finding.steps
    at_primary = [index for index, step in enumerate(steps) if step.span == finding.span]
    primary = at_primary[-1] if at_primary else len(steps)
    for index, step in enumerate(steps):
        inside = f" (in {shortened(step.entry)})" if step.entry and step.entry != finding.entry else ""
        number = f"{index + 1}. " if len(steps) > 1 or not at_primary else ""
        source = source_of(step, locate) if locate is not None else ""
        label = f"{number}{step_words(step)}{inside}{f' [{source}]' if source else ''}"
        yield _underlined(report, step.span), label, index == primary
    if not at_primary:
        yield _underlined(report, finding.span), "", True


def _ptx_row(report: FileReport, span: Span, label: str, primary: bool) -> Row:
    """A row of the PTX. Of a span over several lines, the first one is shown."""
    assert report.source is not None  # guaranteed by FileReport
    start, end = region(report, span)
    text = report.source.line_text(start.line)
    last = end.column - 1 if start.line == end.line else len(text.rstrip())
    return Row(displayed_name(report), start.line, text, start.column - 1, last, label, primary, ptx=True)


def _underlined(report: FileReport, span: Span) -> Span:
    """The guard and the opcode of a statement; any other span as it is."""
    assert report.source is not None  # guaranteed by FileReport
    data = report.source.data
    if data[span.end - 1 : span.end] != b";":
        return span
    opcode = _OPCODE.match(data, span.start, min(span.end, span.start + _MAX_OPCODE))
    return span if opcode is None else Span(*opcode.span())


def _callee_columns(report: FileReport, span: Span, line: SourceLocation) -> tuple[int, int] | None:
    """The columns in *line* of the name of the function from which the instruction at *span* was inlined there; None if it is
    not known, or not in the line.

    Compilers give the position of the statement: under ``if (last) copy(to, from);`` that is the ``if``.
    """
    assert report.source is not None  # guaranteed by FileReport
    data = report.source.data
    # The last one is that of the instruction, which is inlined there.
    inlined = rb"function_name\s+([\w$]+)[^\n]*,\s*inlined_at\s+\d+\s+%d\s+%d\b" % (line.line, line.column)
    called = [*re.finditer(inlined, data[max(span.start - _NEAR, 0) : span.start])][-1:]
    for label in (re.escape(found[1]) for found in called):
        stored = re.search(rb"^[ \t]*%s:((?:\s*\.b8[\d, \t]+)+)" % label, data, re.MULTILINE)
        codes = map(int, re.findall(rb"\b\d{1,3}\b", stored[1])) if stored else ()
        name = source_name(bytes(code for code in codes if 0 < code < 128).decode())
        while (shorter := _ARGUMENTS.sub("", name)) != name:
            name = shorter
        name = name.rpartition("::")[2]
        word = re.compile(rf"\b{re.escape(name)}(?=\s*[<(])").search(line.text or "", max(line.column - 1, 0))
        if name and word is not None:
            return word.span()
    return None


def _underlined_columns(line: SourceLocation) -> tuple[int, int]:
    """The columns of the word at a source position; those of the whole line if the column is unknown or outside."""
    text = line.text or ""
    word = _WORD.match(text, line.column - 1) if 0 < line.column <= len(text) else None
    if word is not None:
        return word.span()
    return len(text) - len(text.lstrip()), len(text.rstrip())


def _called(location: SourceLocation, shown: SourceLocation) -> str:
    """`` [called in gemm.cu:50]``, for a shown line that was inlined from another one which is at hand; else empty."""
    chain = calls(location)
    outer = chain[chain.index(shown) + 1 :]
    called = next((call for call in outer if call.text is not None), None)
    return f" [called in {os.path.basename(called.file)}:{called.line}]" if called is not None else ""
