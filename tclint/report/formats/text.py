"""Text for people: each finding as a frame with the lines of its path in execution order.

::

    error[WG001] wgmma-unwaited-accumulator-read (high confidence, static): %f1 is read while a wgmma may still write it
      --> gemm.ptx:42:5 in kernel gemm
       |
    36 |     wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd4, %rd5, 1, 1, 1, 0, 0;
       |     ------------------------------------------------- 1. [warps 4-7] starts to write %f1 (tile+0; tile+8192)
    .. |
    42 |     st.global.f32 [%rd1], %f1;
       |     ^^^^^^^^^^^^^ 2. [warps 4-7] %f1 is read with no intervening wait [gemm.cu:31]
       |
       = help: put wgmma.wait_group.sync.aligned 0 before it
       = note: PTX ISA 9.1, §9.7.15.7.3; tclint explain WG001

A step has the threads that execute it, what they do, the object by its name in the kernel, and the source line. Of a
statement, its opcode is underlined; long lists of registers are elided.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tclint.findings.finding import FileReport, Finding
from tclint.findings.places import displayed_name, region, unreported
from tclint.findings.rules import Rule, manual_reference, page, url
from tclint.findings.scales import Severity
from tclint.report.formats._details import (
    NO_LINE,
    certainty,
    chain,
    in_lines,
    parties,
    source_of,
    step_words,
    variant_notes,
    where,
)
from tclint.report.formats._rows import MAX_LINE, Row, elided, kernel_words, ptx_line, ptx_rows, source_rows
from tclint.report.formats._style import BLUE, BOLD, CYAN, RED, YELLOW, Style, file_url, printable, shortened
from tclint.report.locate import ShownLocation
from tclint.report.summary import FormatContext, closing, count, of_text

if TYPE_CHECKING:
    from tclint.report.baseline import Entry

DUPLICATES = True
"""A verdict names the finding that another file has of the same defect; no duplicate is shown itself."""
_COLORS = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: CYAN}
_TAB = 4
_MIN_WIDTH = 60
_MIN_FOOTER = 30
_MAX_GONE = 20
"""Baseline findings that are gone and listed; the remaining ones are only counted."""
_MAX_CALLS, _FIRST_CALLS = 3, 1
"""Of a longer chain of inlined calls, the first are the innermost ones, and the others lead up to the kernel."""


def render(reports: Sequence[FileReport], context: FormatContext) -> str:
    """The errors of inputs, the findings, and figures and verdicts if these were asked for, with the tally as the last line."""
    reports, context = of_text(reports, context)
    frames = _Frames(context)
    blocks: list[str] = []
    for report in reports:
        if problems := list(frames.problems(report)):
            blocks.append("\n".join(problems) + "\n")
        shown = (finding for finding in report.findings if finding.duplicate_of is None)
        blocks.extend("\n".join(frames.finding(report, finding)) + "\n" for finding in shown)
    if figures := [line for report in reports for line in _figures(report, context)]:
        blocks.append("\n".join(figures) + "\n")
    if verdicts := [line for report in reports for line in _verdicts(report)]:
        blocks.append("\n".join(verdicts) + "\n")
    if context.summary.unmet:
        from tclint.report.formats._verdicts import unmet_words

        error = Style(context.color)(RED, "error")
        blocks.append("".join(f"{error}: {printable(unmet_words(one))}\n" for one in context.summary.unmet))
    if context.summary.gone:
        blocks.append("\n".join(_gone(context.summary.gone)) + "\n")
    blocks += [Style(context.color)(BOLD, line) + "\n" for line in closing(context)]
    return "\n".join(blocks)


class _Frames:
    def __init__(self, context: FormatContext) -> None:
        self._style = Style(context.color, context.links)
        self._width = max(context.width, _MIN_WIDTH)
        self._locate = context.locate
        self._verbose = context.verbose

    def problems(self, report: FileReport) -> Iterator[str]:
        path = displayed_name(report)
        for problem in unreported(report):
            at = f"{path}:{problem.line}" if problem.line else path
            yield f"{self._style(RED, 'error')}: {printable(f'{at}: {problem.message}')}"

    def finding(self, report: FileReport, finding: Finding) -> Iterator[str]:
        """The frame of a finding: in the source if its line there was read, else in the PTX."""
        style, color = self._style, _COLORS[finding.severity]
        target = self._locate(report, finding)
        at_hand = target.source is not None and target.source.text is not None
        rows = list((source_rows if at_hand else ptx_rows)(report, finding, self._locate))
        ptx = list(ptx_rows(report, finding, self._locate)) if at_hand and self._verbose else []
        gutter = " " * len(str(max(row.line for row in (*rows, *ptx))))
        bar = style(BLUE, f"{gutter} |")
        rule = self._style.link(partial(_documentation, finding.rule), finding.rule.id)
        yield (
            style(color, f"{finding.severity.label}[{rule}]")
            + style(BOLD, printable(f" {finding.rule.name} ({certainty(finding)}): {finding.message}"))
        )
        yield from self._head(report, finding, gutter, target)
        yield bar
        yield from self._excerpt(rows, gutter, color, target.path if at_hand else rows[0].path)
        yield bar
        if ptx:
            yield self._ptx_head(report, finding, gutter, ":::")
            yield bar
            yield from self._excerpt(ptx, gutter, color, ptx[0].path)
            yield bar
        elif at_hand:
            yield from self._footer(gutter, "PTX", ptx_line(report, finding))
        for title, text in self._footers(report, finding):
            yield from self._footer(gutter, title, text)

    def _head(
        self, report: FileReport, finding: Finding, gutter: str, target: ShownLocation
    ) -> Iterator[str]:
        """The location: the source line if requested and known, then the line of the PTX unless the frame is in the source."""
        if target.source is None:
            yield self._ptx_head(report, finding, gutter, "-->")
            return
        at_hand = target.source.text is not None
        kernel = kernel_words(report, finding.entry, demangled=True) if at_hand else ""
        named = self._link(target.path, where(target))
        yield f"{gutter}{self._style(BLUE, '-->')} {named}{printable(kernel)}"
        if not at_hand:
            yield self._ptx_head(report, finding, gutter, ":::")

    def _ptx_head(self, report: FileReport, finding: Finding, gutter: str, arrow: str) -> str:
        start, _ = region(report, finding.span)
        named = self._link(
            report.path, where(ShownLocation(displayed_name(report), start.line, start.column, None, None))
        )
        kernel = kernel_words(report, finding.entry, demangled=False)
        return f"{gutter}{self._style(BLUE, arrow)} {named}{printable(kernel)}"

    def _link(self, path: str, text: str) -> str:
        """The text, linked to the file if it exists; standard input and source files of libraries may not."""
        printed = printable(text)
        return self._style.link(partial(file_url, path), printed) if os.path.exists(path) else printed

    def _excerpt(self, rows: list[Row], gutter: str, color: str, path: str) -> Iterator[str]:
        """The *rows* in their order, with a line of dots between lines that are not adjacent, and the path where that changes.

        A label is beside the underlined words if it fits there, and otherwise below them.
        """
        style = self._style
        bar = style(BLUE, f"{gutter} |")
        shown, printed = 0, ""
        for row in rows:
            if row.path != path:
                yield f"{gutter}{style(BLUE, ':::')} {printable(row.path)}"
                shown, path = 0, row.path
            if shown and row.line not in (shown, shown + 1):
                yield style(BLUE, f"{'.' * len(gutter)} |")
            excerpt, offset, length = self._trim(row, len(gutter) + 3)
            if row.line != shown or excerpt != printed:  # another part of a long line
                yield f"{style(BLUE, f'{row.line:>{len(gutter)}} |')} {excerpt}".rstrip()
            shown, printed = row.line, excerpt
            paint = color if row.primary else BLUE
            carets = " " * offset + style(paint, ("^" if row.primary else "-") * length)
            label, room = printable(row.label), self._width - len(gutter) - 4
            if len(label) <= room - offset - length:
                yield f"{bar} {carets} {style(paint, label)}".rstrip()
                continue
            yield f"{bar} {carets}"
            from textwrap import wrap

            indent = " " * min(offset, _TAB)
            for part in wrap(label, room + 1 - len(indent), break_on_hyphens=False):
                yield f"{bar} {indent}{style(paint, part)}"

    def _trim(self, row: Row, used: int) -> tuple[str, int, int]:
        """The part of a line around the underlined columns that fits, and the offset and length of these in it."""
        text, first, last = row.text, row.first, row.last
        reach = self._width - used
        # Cut first, since a line may be a megabyte long.
        before = printable(text[max(0, first - reach - 1) : first])
        inner = before.lstrip()
        before = before.removesuffix(inner).expandtabs(_TAB) + inner.replace("\t", " ")
        marked = printable(text[first : min(last, first + reach + 1)]).replace("\t", " ")
        after = text[last : last + MAX_LINE]
        after = elided(after) if row.ptx else after
        after = printable(after[: reach + 1]).replace("\t", " ")
        keep = max(reach // 4, reach - len(marked) - min(len(after), reach // 4))
        if len(before) > keep:
            before = "…" + before[len(before) - keep + 1 :]
        marked = _cut(marked, reach - len(before))
        after = _cut(after, reach - len(before) - len(marked))
        return before + marked + after, len(before), max(len(marked), 1)

    def _footers(self, report: FileReport, finding: Finding) -> Iterator[tuple[str, str]]:
        """Titles and texts: the cycle of a deadlock, how to fix the finding, what limits it, and where to read more."""
        target = self._locate(report, finding).source
        at_hand = target is not None and target.text is not None
        if finding.deadlock:
            yield "deadlock", "\n".join(dict.fromkeys(self._cycle(report, finding)))
        if finding.help:
            yield "help", finding.help
        if finding.help_source is not None:
            yield "help", f"{finding.help_source.producer}: {finding.help_source.text}"
        if finding.fixes and report.member is None:
            fix = finding.fixes[0]
            at = in_lines(sorted({region(report, edit.span)[0].line for edit in fix.edits}))
            option = "--fix" if fix.safe else "--fix --unsafe-fixes"
            yield "fix", f"{'PTX ' if at_hand else ''}{at}: {fix.message} ({option})"
        if finding.doubt:
            yield "doubt", finding.doubt
        yield from (("note", text) for text in variant_notes(report, finding, ptx=at_hand, counted=True))
        if at_hand and target is not None and target.file in report.newer:
            name = self._locate.local(target.file)
            yield "note", f"{name} is newer than the PTX: its lines may have moved"
        if finding.confirmation:
            yield "note", f"executed: {finding.confirmation}"
        if finding.source_location and not (at_hand and not finding.source_location.inlined_at):
            first, *calls = chain(finding)
            if len(calls) > _MAX_CALLS + 1:
                middle = len(calls) - _MAX_CALLS
                calls[_FIRST_CALLS : _FIRST_CALLS + middle] = [f"… {count(middle, 'more call')}"]
            yield "source", "\n".join([first, *calls])
        if self._locate.mode == "source" and finding.source_location is None:
            yield "note", NO_LINE
        yield "note", f"{manual_reference(finding.rule.manual)}; tclint explain {finding.rule.id}"

    def _cycle(self, report: FileReport, finding: Finding) -> Iterator[str]:
        """A line for each party of a deadlock, and below it a line for each operation that would complete its wait."""
        for indented, step in parties(finding):
            source = source_of(step, self._locate)
            line = self._locate(report, step).source
            if line is not None and line.text is not None:
                yield f"{'  ' * indented}{source}: {step_words(step)}"
                continue
            at = f" [{source}]" if source else ""
            yield f"{'  ' * indented}line {region(report, step.span)[0].line}: {step_words(step)}{at}"

    def _footer(self, gutter: str, title: str, text: str) -> Iterator[str]:
        from textwrap import wrap  # no run without findings needs it

        head = f"{gutter} = {title}: "
        room = max(self._width - len(head), _MIN_FOOTER)
        first, *rest = [
            line
            for part in map(printable, text.split("\n"))
            for line in wrap(
                part,
                room,
                subsequent_indent=" " * (len(part) - len(part.lstrip())) + "  " * (title == "deadlock"),
                break_on_hyphens=False,
                break_long_words=False,
            )
        ] or [""]
        yield f"{gutter} {self._style(BLUE, '=')} {self._style(BOLD, title)}: {first}"
        yield from (" " * len(head) + more for more in rest)


def _verdicts(report: FileReport) -> Iterator[str]:
    """A line for each kernel, if verdicts were asked for."""
    if report.verdicts:
        from tclint.report.formats._verdicts import by_kernel, line

        for kernel, verdicts in by_kernel(report):
            yield printable(line(report, kernel, verdicts))


def _figures(report: FileReport, context: FormatContext) -> Iterator[str]:
    """A line for each kernel, if the settings have a budget for it."""
    if report.assembled is not None and not context.quiet:
        from tclint.report.formats import _figures

        yield from map(printable, _figures.lines(report, report.assembled))


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


def _documentation(rule: Rule) -> str:
    """The URL of the page of *rule*: on the web where it is published, else the file that comes with tclint."""
    return url(rule) or file_url(str(page(rule)))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…" if room else ""
