"""``tclint check --add-ignore``: a comment at the statement of each finding, which suppresses it.

A comment follows its statement: in the list of an ``ignore`` that is there, at the end of the line, or directly after
the statement if a part of another one follows in the line. As with a fix, the new text is checked, and a comment is
kept only if it suppresses its finding.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tclint.config.config import Config
from tclint.driver.fixing import Fixed, RefusedFix, moved, shown
from tclint.findings.edits import joined
from tclint.findings.finding import Edit, Finding
from tclint.findings.spans import Span
from tclint.syntax.source import LEXICAL, Source

if TYPE_CHECKING:
    from tclint.report.baseline import Baseline

__all__ = ["add_ignores"]

_IGNORE = re.compile(rb"tclint:\s*ignore\[(?P<rules>[^\]\n]*)\]")
_HOST = "a comment in CUDA C++ or Python is not added: write it on the line before the string"
_USELESS = "a comment does not suppress it"


def add_ignores(source: Source, config: Config, unsafe: bool = False, known: Baseline | None = None) -> Fixed:
    """*source* with a comment for each finding that is shown and not *known*, except those about comments.

    It takes the arguments of :func:`~tclint.driver.fixing.apply_fixes`, of which it does not use *unsafe*.
    """
    from dataclasses import replace

    config = replace(config, confirm=False, execute=False)
    before = shown(source, config, known)
    found = [finding for finding in before.findings if finding.rule.family != "suppression"]
    if before.asm is not None:
        return Fixed(source, before, refused=tuple(RefusedFix(finding, _HOST) for finding in found))
    refused: tuple[Finding, ...] = ()
    while True:
        wanted = [finding for finding in found if finding not in refused]
        edits = _Comments(source).edits(wanted)
        text = Source(joined(source.data, edits), source.path, source.container, source.member)
        after = shown(text, config, known) if edits else before
        left, move = {(f.rule.id, f.entry, f.span.start) for f in after.findings}, moved(edits)
        kept = tuple(f for f in wanted if (f.rule.id, f.entry, move(f.span.start)) in left)
        if not kept:
            break
        refused = (*refused, *kept)
    if len(after.findings) > len(before.findings) - len(
        wanted
    ):  # something new, such as a comment without use
        return Fixed(source, before, refused=tuple(RefusedFix(finding, _USELESS) for finding in found))
    return Fixed(
        text, after, before, tuple(wanted), tuple(RefusedFix(finding, _USELESS) for finding in refused)
    )


class _Comments:
    """Where comments of a text may be added."""

    def __init__(self, source: Source) -> None:
        from tclint.ir.frontend import analyse

        self.data = source.data
        self.comments = [m.span() for m in LEXICAL.finditer(self.data) if m["comment"]]
        module, _ = analyse(source)
        self.statements = sorted(
            (function.start + instruction.start, function.start + instruction.end)
            for function in module.functions
            for instruction in function.instructions
        )

    def edits(self, findings: Sequence[Finding]) -> set[Edit]:
        """The insertions that add the comments for *findings*, one for each place."""
        rules: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for finding in findings:
            place = self._place(finding.span)
            if finding.rule.id not in rules[place]:
                rules[place].append(finding.rule.id)
        return {Edit(Span(at, at), form.format(", ".join(ids))) for (at, form), ids in rules.items()}

    def _place(self, span: Span) -> tuple[int, str]:
        """The offset at which to add to the text for a finding, and what to add around the ids of its rules."""
        end = self._end(span)
        line_end = self.data.find(b"\n", end)
        line_end = len(self.data) if line_end < 0 else line_end
        line_end = end + len(self.data[end:line_end].rstrip())
        last = self.comments[
            bisect_left(self.comments, (end, end)) : bisect_left(self.comments, (line_end, 0))
        ][-1:]
        if self._inside(line_end) or any(b"\n" in self.data[slice(*comment)] for comment in last):
            return end, " /* tclint: ignore[{}] */"
        for comment in last:
            if present := _IGNORE.search(self.data, *comment):
                return present.end("rules"), ", {}"
        return line_end, " // tclint: ignore[{}]"

    def _end(self, span: Span) -> int:
        """The end of the statement that contains *span*, or of *span* itself outside of all statements."""
        at = bisect_left(self.statements, (span.start + 1,)) - 1
        if at >= 0 and span.start < self.statements[at][1]:
            return max(self.statements[at][1], span.end)
        return span.end

    def _inside(self, offset: int) -> bool:
        """Whether *offset* is inside a statement, which began before it and ends after it."""
        at = bisect_left(self.statements, (offset,)) - 1
        return at >= 0 and offset < self.statements[at][1]
