"""Text for people: each finding as a frame with the lines of its path in execution order.

::

    error[WG001] wgmma-unwaited-accumulator-read: %f1 is read while a wgmma may still write it
      --> gemm.ptx:42:27 in kernel gemm
       |
    36 |     wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd4, %rd5, 1, 1, 1, 0, 0;
       |     ------------------------------------------------- 1. starts to write %f1
    .. |
    42 |     st.global.f32 [%rd1], %f1;
       |                           ^^^ 2. %f1 is read with no intervening wait
       |
       = help: put wgmma.wait_group.sync.aligned 0 before it
       = note: PTX ISA 9.1, §9.7.15.7.3
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tclint.findings.finding import FileReport, Finding, Span
from tclint.findings.places import displayed_name, region
from tclint.findings.rules import manual_reference, page, url
from tclint.findings.scales import Severity
from tclint.report.formats._details import NO_LINE, chain, variant_notes, where
from tclint.report.formats._style import BLUE, BOLD, CYAN, RED, YELLOW, Style, file_url, printable, shortened
from tclint.report.locate import Target
from tclint.report.summary import Context, count, tally
from tclint.syntax.source import Source

if TYPE_CHECKING:
    from tclint.report.baseline import Entry

_COLORS = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: CYAN}
_TAB = 4
_MIN_WIDTH = 60
_MIN_LABEL = 30
_MAX_SPAN_LINES = 4
"""Of a longer span, only the first and the last line are shown."""
_MAX_GONE = 20
"""Baseline findings that are gone and listed; the remaining ones are only counted."""
_MAX_CALLS, _FIRST_CALLS = 6, 2
"""Of a longer chain of inlined calls, the first are the innermost ones, and the others lead up to the kernel."""


class _Mark(NamedTuple):
    """A span of the excerpt with its label; the primary one is the location of the finding."""

    span: Span
    label: str
    primary: bool


def render(reports: Sequence[FileReport], context: Context) -> str:
    """The errors of inputs and the findings, with the tally as the last line."""
    frames = _Frames(context)
    blocks: list[str] = []
    for report in reports:
        if report.problems:
            blocks.append("\n".join(frames.problems(report)) + "\n")
        blocks.extend("\n".join(frames.finding(report, finding)) + "\n" for finding in report.findings)
    if context.summary.gone:
        blocks.append("\n".join(_gone(context.summary.gone)) + "\n")
    return "\n".join([*blocks, Style(context.color)(BOLD, tally(context.summary)) + "\n"])


class _Frames:
    def __init__(self, context: Context) -> None:
        self._style = Style(context.color, context.links)
        self._width = max(context.width, _MIN_WIDTH)
        self._locate = context.locate

    def problems(self, report: FileReport) -> Iterator[str]:
        path = displayed_name(report)
        for problem in report.problems:
            at = f"{path}:{problem.line}" if problem.line else path
            yield f"{self._style(RED, 'error')}: {printable(f'{at}: {problem.message}')}"

    def finding(self, report: FileReport, finding: Finding) -> Iterator[str]:
        style, color = self._style, _COLORS[finding.severity]
        marks = list(_marks(finding))
        lines = [point.line for mark in marks for point in region(report, mark.span)]
        gutter = " " * len(str(max(lines)))
        bar = style(BLUE, f"{gutter} |")
        rule = self._style.link(url(finding.rule) or file_url(str(page(finding.rule))), finding.rule.id)
        yield (
            style(color, f"{finding.severity.label}[{rule}]")
            + style(BOLD, printable(f" {finding.rule.name}: {finding.message}"))
        )
        yield from self._head(report, finding, gutter)
        yield bar
        assert report.source is not None  # guaranteed by FileReport
        yield from self._excerpt(report.source, marks, gutter, color)
        yield bar
        for title, text in _footers(report, finding):
            yield from self._footer(gutter, title, text)
        if self._locate.mode == "source" and finding.source_location is None:
            yield from self._footer(gutter, "note", NO_LINE)

    def _head(self, report: FileReport, finding: Finding, gutter: str) -> Iterator[str]:
        """The location: the source line if requested and known, then the line of the PTX."""
        style = self._style
        target = self._locate(report, finding)
        start, _ = region(report, finding.span)
        kernel = f" in {shortened(finding.entry)}" if finding.entry else ""
        origin = f" ({report.origin})" if report.origin else ""
        arrow = "-->"
        if target.source is not None:
            named = self._link(target.path, where(target))
            yield f"{gutter}{style(BLUE, arrow)} {named}"
            arrow = ":::"
        named = self._link(
            report.path, where(Target(displayed_name(report), start.line, start.column, None, None))
        )
        yield f"{gutter}{style(BLUE, arrow)} {named}{printable(kernel + origin)}"

    def _link(self, path: str, text: str) -> str:
        """The text, linked to the file if it exists; standard input and source files of libraries may not."""
        return self._style.link(file_url(path), printable(text)) if os.path.exists(path) else printable(text)

    def _excerpt(self, source: Source, marks: list[_Mark], gutter: str, color: str) -> Iterator[str]:
        """The marked lines in the order of the marks, with a line of dots between lines that are not adjacent."""
        style = self._style
        bar = style(BLUE, f"{gutter} |")
        shown, printed = 0, ""
        for mark in marks:
            start, end = source.position(mark.span.start), source.position(mark.span.end)
            lines: Sequence[int] = range(start.line, end.line + 1)
            if len(lines) > _MAX_SPAN_LINES:
                lines = (start.line, end.line)
            for line in lines:
                if shown and line != shown + 1 and line != shown:
                    yield style(BLUE, f"{'.' * len(gutter)} |")
                text = source.line_text(line)
                first = start.column - 1 if line == start.line else len(text) - len(text.lstrip())
                last = end.column - 1 if line == end.line else len(text.rstrip())
                excerpt, offset, length = self._trim(text, first, last, len(gutter) + 3)
                if line != shown or excerpt != printed:  # another part of a long line
                    yield f"{style(BLUE, f'{line:>{len(gutter)}} |')} {excerpt}".rstrip()
                shown, printed = line, excerpt
                paint = color if mark.primary else BLUE
                carets = " " * offset + style(paint, ("^" if mark.primary else "-") * length)
                label = printable(mark.label) if line == end.line else ""
                room = self._width - len(gutter) - 4 - offset - length
                if len(label) <= room or room >= _MIN_LABEL:
                    first_line, *rest = textwrap.wrap(label, max(room, 1), break_on_hyphens=False) or [""]
                    yield f"{bar} {carets} {style(paint, first_line)}".rstrip()
                    indent = " " * (offset + length + 1)
                else:
                    yield f"{bar} {carets}"
                    indent = " " * min(offset, _TAB)
                    rest = textwrap.wrap(
                        label, self._width - len(gutter) - 3 - len(indent), break_on_hyphens=False
                    )
                yield from (f"{bar} {indent}{style(paint, more)}" for more in rest)

    def _trim(self, text: str, first: int, last: int, used: int) -> tuple[str, int, int]:
        """The part of a line around ``[first, last)`` that fits, and the offset and length of this range in it."""
        reach = self._width - used
        # Cut first, since a line may be a megabyte long.
        before = printable(text[max(0, first - reach - 1) : first])
        inner = before.lstrip()
        before = before.removesuffix(inner).expandtabs(_TAB) + inner.replace("\t", " ")
        marked = printable(text[first : min(last, first + reach + 1)]).replace("\t", " ")
        after = printable(text[last : last + reach + 1]).replace("\t", " ")
        keep = max(reach // 4, reach - len(marked) - min(len(after), reach // 4))
        if len(before) > keep:
            before = "…" + before[len(before) - keep + 1 :]
        marked = _cut(marked, reach - len(before))
        after = _cut(after, reach - len(before) - len(marked))
        return before + marked + after, len(before), max(len(marked), 1)

    def _footer(self, gutter: str, title: str, text: str) -> Iterator[str]:
        head = f"{gutter} = {title}: "
        room = max(self._width - len(head), _MIN_LABEL)
        first, *rest = [
            line
            for part in text.split("\n")
            for line in textwrap.wrap(printable(part), room, break_on_hyphens=False, break_long_words=False)
        ] or [""]
        yield f"{gutter} {self._style(BLUE, '=')} {self._style(BOLD, title)}: {first}"
        yield from (" " * len(head) + more for more in rest)


def _gone(entries: Sequence[Entry]) -> Iterator[str]:
    """A note that lists the first ``_MAX_GONE`` entries of the baseline that are no longer found."""
    yield "note: baseline findings that are gone:"
    for entry in entries[:_MAX_GONE]:
        kernel = f" in {shortened(entry.entry)}" if entry.entry else ""
        yield printable(
            f"  {entry.rule}{kernel}, {entry.path}, recorded at line {entry.line}: {entry.message}"
        )
    if len(entries) > _MAX_GONE:
        yield f"  and {len(entries) - _MAX_GONE} more"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…" if room else ""


def _marks(finding: Finding) -> Iterator[_Mark]:
    """The steps, numbered; the location of the finding is one of them or follows them."""
    steps = finding.steps
    if not steps:
        yield _Mark(finding.span, "", primary=True)
        return
    at_primary = [index for index, step in enumerate(steps) if step.span == finding.span]
    primary = at_primary[-1] if at_primary else len(steps)
    for index, step in enumerate(steps):
        role = f"[{step.role}] " if step.role else ""
        where = f" (in {shortened(step.entry)})" if step.entry and step.entry != finding.entry else ""
        number = f"{index + 1}. " if len(steps) > 1 or not at_primary else ""
        yield _Mark(step.span, f"{number}{role}{step.message}{where}", index == primary)
    if not at_primary:
        yield _Mark(finding.span, "", primary=True)


def _footers(report: FileReport, finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.help:
        yield "help", finding.help
    if finding.help_source is not None:
        yield "help", f"{finding.help_source.producer}: {finding.help_source.text}"
    if finding.fixes and report.member is None:
        fix = finding.fixes[0]
        yield "fix", f"{fix.message} ({'--fix' if fix.safe else '--fix --unsafe-fixes'})"
    if finding.count > 1:
        yield "note", f"{count(finding.count, 'use')} with this cause; only the first is shown"
    yield from (("note", text) for text in variant_notes(report, finding))
    notes = [manual_reference(finding.rule.manual)]
    if finding.confidence.label != "high":
        reason = f", since {finding.doubt}" if finding.doubt else ""
        notes.append(f"confidence: {finding.confidence.label}{reason}")
    yield "note", "; ".join(notes)
    if finding.confirmation:
        yield "note", f"executed: {finding.confirmation}"
    if finding.source_location:
        first, *calls = chain(finding)
        if len(calls) > _MAX_CALLS:
            middle = len(calls) - _MAX_CALLS
            calls[_FIRST_CALLS : _FIRST_CALLS + middle] = [f"… {count(middle, 'more call')}"]
        yield "source", "\n".join([first, *calls])
