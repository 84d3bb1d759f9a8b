"""Comments in C++ and Python that hide findings, like those of PTX in :mod:`tclint.linting.suppress`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from tclint.findings.finding import MARK, Finding
from tclint.findings.selection import Selected
from tclint.findings.spans import Span
from tclint.inline.asm import Asm
from tclint.inline.python import MARKER
from tclint.ir.nodes import Function, Module
from tclint.linting.suppress import Audit, Suppression
from tclint.syntax.source import LEXICAL, Source

__all__ = ["apply"]


def apply(
    source: Source,
    found: Sequence[Asm],
    comments: Sequence[Span],
    findings: tuple[Finding, ...],
    selected: Selected,
    *,
    complete: bool,
) -> tuple[Finding, ...]:
    """The findings, with those marked that a comment suppresses, and the findings about the comments.

    A comment applies to its line, or to the next line with code; on the first or the last line of a statement it applies
    to the whole statement.
    """
    if MARK not in source.data:
        return tuple(sorted(findings, key=lambda f: (f.span.start, f.rule.id)))
    return _HostAudit(source, found, comments, selected).run(findings, complete)


class _HostAudit(Audit):
    def __init__(
        self,
        source: Source,
        found: Sequence[Asm],
        comments: Sequence[Span],
        selected: Selected,
    ) -> None:
        scopes = {asm.scope: asm.entry for asm in found if asm.scope is not None and asm.entry is not None}
        functions = [
            Function(name=name, entry=False, start=scope.start, end=scope.end)
            for scope, name in scopes.items()
        ]
        code = bytearray(source.data)
        for span in comments:
            code[span.start : span.end] = re.sub(rb"[^\n]", b" ", source.data[span.start : span.end])
        super().__init__(source, Module(functions=functions), selected, bytes(code))
        self.statements = [asm.statement for asm in found]
        self.listed = [*comments, *_inside(found)]

    def _comments(self) -> Iterable[Span]:
        for span in self.listed:
            text = self.source.data[span.start : span.end]
            if MARK in text and not MARKER.match(text):
                yield span

    def _placed(
        self, comment: Span, verb: str, rules: dict[str, frozenset[str]], reason: str
    ) -> Iterator[Suppression]:
        """One for a kernel is not about its strings if it names none of their rules: it is for what is compiled from it."""
        if verb == "ignore" or any(ids & self.on for ids in rules.values()):
            yield from super()._placed(comment, verb, rules, reason)

    def _lines(self, finding: Finding) -> Collection[int]:
        at = self.source.position
        start, end = finding.span.start, finding.span.end
        lines = set(range(at(start).line, at(max(start, end - 1)).line + 1))
        for statement in self.statements:
            if statement.start <= start < statement.end:
                lines |= {at(statement.start).line, at(statement.end - 1).line}
        return lines


def _inside(found: Iterable[Asm]) -> Iterable[Span]:
    """The PTX comments in the strings."""
    for asm in found:
        for match in LEXICAL.finditer(bytes(asm.template.data)):
            if match["comment"]:
                yield asm.template.host(*match.span())
