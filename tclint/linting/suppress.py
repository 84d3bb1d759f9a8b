"""Comments that hide findings: ``// tclint: ignore[WG001] reason`` and ``// tclint: ignore-entry[WG001] reason``.

The first applies to the statement on its line or, if it is alone on its line, to the next statement; the second to the
function that contains or follows it. A comment that hides nothing is reported by SU001, an invalid one by SU002. A text
without ``tclint:`` costs one search for these bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from tclint._dataclass import dataclass
from tclint._pattern import pattern
from tclint.findings.edits import Repair, removed, resolve
from tclint.findings.finding import MARK, Edit, Finding, Fingerprints
from tclint.findings.rules import Rule, UnknownRule, all_rules, nearest
from tclint.findings.selection import Selected, meant
from tclint.findings.spans import Span
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import LEXICAL, Source

__all__ = ["INVALID", "RULES", "UNUSED", "Audit", "Directive", "Suppression", "apply", "directives"]

UNUSED, INVALID = RULES = ("SU001", "SU002")

_DIRECTIVE = pattern(r"(?:^|//)\s*tclint:\s*")
"""The mark at the start of a comment, or after ``//`` inside it; a reason may contain the ``//`` of a URL."""
_FORM = pattern(r"(?P<verb>[\w-]*)\s*(?:\[(?P<rules>[^\]]*)(?P<closed>\]?))?[\s:-]*(?P<reason>.*)", re.DOTALL)
_MEANT = r"did you mean ([\w-]+)\?"
_VERBS = ("ignore", "ignore-entry")
_NO_STATEMENT = pattern(rb"\s*(?:\.loc\b.*\n?|[\w$%]+:\s*)?")
"""A line that may separate a comment from its statement: blank, a label, or a ``.loc``."""

MAX_INLINE_ASSEMBLY = 1 << 16
"""The number of bytes before a comment in which the start of its inline assembly is searched."""


@dataclass(slots=True)
class Suppression:
    """One directive."""

    span: Span
    reason: str
    rules: dict[str, frozenset[str]]
    line: int
    """The line to which it applies; 0 if it applies to ``function``."""
    function: Function | None
    unused: set[str]
    """Those of its selectors that have hidden nothing yet; copies made by a compiler share this set."""

    def hides(self, finding: Finding) -> bool:
        """Whether it applies to *finding*; the selectors that do are then used."""
        hit = {selector for selector, subjects in self.rules.items() if finding.subject in subjects}
        self.unused -= hit
        return bool(hit)

    def names_former(self, finding: Finding) -> bool:
        """Whether no selector applies to *finding* but those that name its former rule."""
        return not any(finding.rule.id in subjects for subjects in self.rules.values())


def apply(
    source: Source, module: Module, findings: tuple[Finding, ...], selected: Selected, *, complete: bool
) -> tuple[Finding, ...]:
    """The findings, with those marked that a comment suppresses, and the findings about the comments.

    No comment is reported as unused unless *complete*: the whole input was analysed.
    """
    if MARK not in source.data:
        return findings
    return Audit(source, module, selected).run(findings, complete)


class Audit:
    """Applies the comments of one source to its findings, and checks the comments."""

    def __init__(self, source: Source, module: Module, selected: Selected, code: bytes | None = None) -> None:
        """*code* is the source with its comments blanked, if the source is not PTX."""
        self.source = source
        self.module = module
        self.selected = selected
        self.on = selected.on
        self.functions = sorted(module.functions, key=lambda function: function.start)
        self.code = LEXICAL.sub(_without_comment, source.data) if code is None else code
        self.code_after: dict[int, int] = {}
        """Start of a line without a statement -> start of the next line with one."""
        self.prints = Fingerprints()
        self.copies: dict[tuple[str, ...], set[str]] = {}
        self.wrong: list[Finding] = []

    def run(self, findings: tuple[Finding, ...], complete: bool) -> tuple[Finding, ...]:
        """The findings, with the suppressed ones marked, and those about the comments."""
        suppressions = [s for comment in self._comments() for s in self._read(comment)]
        marked = tuple(self._marked(finding, suppressions) for finding in findings)
        if complete:
            self._report_unused(suppressions)
        return tuple(sorted((*marked, *self.wrong), key=lambda f: (f.span.start, f.rule.id)))

    # ---------------------------------------------------------------- reading

    def _comments(self) -> Iterable[Span]:
        found = LEXICAL.finditer(self.source.data)
        return [Span(*m.span()) for m in found if m["comment"] and MARK in m["comment"]]

    def _read(self, comment: Span) -> Iterator[Suppression]:
        text = self.source.data[comment.start : comment.end].decode(errors="replace")
        text = text[2:].removesuffix("*/") if text.startswith("/*") else text.removeprefix("//").lstrip("#")
        for directive in _DIRECTIVE.split(text)[1:]:
            form = _FORM.match(directive.strip())
            assert form is not None  # every part of the pattern may be empty
            if error := _malformed(form):
                remedy = "write // tclint: ignore[WG001], followed by the reason"
                self._invalid(comment, error, remedy, self._corrected(comment, error))
                continue
            rules = self._rules(comment, form["rules"])
            if rules:
                yield from self._placed(comment, form["verb"], rules, " ".join(form["reason"].split()))

    def _rules(self, comment: Span, text: str) -> dict[str, frozenset[str]]:
        rules: dict[str, frozenset[str]] = {}
        for selector in (word.strip() for word in text.split(",")):
            try:
                ids = meant(selector)[0] - set(RULES) if selector else frozenset()
            except UnknownRule as error:
                remedy = "correct it, or remove it from the list"
                self._invalid(comment, str(error), remedy, self._respelled(comment, selector, str(error)))
                continue
            if ids:
                rules[selector] = ids
            elif selector:
                message = f"{selector} cannot be ignored by a comment"
                self._invalid(comment, message, "remove it from the list, or disable the rule with --ignore")
        return rules

    def _placed(
        self, comment: Span, verb: str, rules: dict[str, frozenset[str]], reason: str
    ) -> Iterator[Suppression]:
        function = self._function(comment.start)
        line = 0
        if verb == "ignore":
            line = self._line(comment)
        else:
            function = function or next((f for f in self.functions if f.start >= comment.end), None)
            if function is None:
                remedy = "move it before the function to which it applies"
                self._invalid(comment, "no function follows", remedy)
                return
        unused = set(rules)
        if self._in_inline_assembly(comment):
            unused = self.copies.setdefault((verb, *rules, reason), unused)
            if function is not None and not self.selected.wants(function.name):
                unused.clear()  # the function is not checked, so it is unknown whether this copy is used
        yield Suppression(comment, reason, rules, line, function, unused)

    def _in_inline_assembly(self, comment: Span) -> bool:
        """Whether it comes from inline assembly, of which a compiler makes copies (unrolled loops, template
        instances)."""
        begin, end = (
            self.source.data.rfind(mark, max(0, comment.start - MAX_INLINE_ASSEMBLY), comment.start)
            for mark in (b"// begin inline asm", b"// end inline asm")
        )
        return begin > end

    def _line(self, comment: Span) -> int:
        """The line of the statement beside a comment, or of the next statement."""
        start = self.code.rfind(b"\n", 0, comment.start) + 1
        passed = []
        while start < len(self.code) and start not in self.code_after:
            end = self.code.find(b"\n", start) + 1 or len(self.code)
            if not _NO_STATEMENT.fullmatch(self.code, start, end):
                break
            passed.append(start)
            start = end
        start = self.code_after.get(start, start)
        self.code_after.update(dict.fromkeys(passed, start))
        return self.source.position(start).line

    def _function(self, offset: int) -> Function | None:
        at = bisect_right(self.functions, offset, key=lambda function: function.start) - 1
        return self.functions[at] if at >= 0 and offset < self.functions[at].end else None

    # ---------------------------------------------------------------- matching

    def _marked(self, finding: Finding, suppressions: Iterable[Suppression]) -> Finding:
        lines = self._lines(finding)
        owner = self._function(finding.span.start)
        reason: str | None = None
        former = finding.former
        for s in suppressions:
            if s.line:
                covers = s.line in lines
            else:
                assert s.function is not None  # see _placed
                covers = s.function is owner or s.function.name == finding.entry
            # Every matching comment counts as used, so that none of them is reported as unused.
            if covers and s.hides(finding) and reason is None:
                reason = s.reason
                if former is not None and s.names_former(finding):
                    former = former._replace(named_by="a comment")
        return finding if reason is None else replace(finding, suppressed=reason, former=former)

    def _lines(self, finding: Finding) -> Collection[int]:
        """The lines of the statement that contains a finding."""
        start, end = finding.span.start, finding.span.end
        function = self._function(start)
        if function is not None and function.instructions:
            at = bisect_right(function.instructions, start - function.start, key=lambda i: i.start) - 1
            ins = function.instructions[max(at, 0)]
            if ins.start <= start - function.start < ins.end:
                start, end = function.start + ins.start, max(end, function.start + ins.end)
        return range(self.source.position(start).line, self.source.position(max(start, end - 1)).line + 1)

    def _report_unused(self, suppressions: Iterable[Suppression]) -> None:
        for s in suppressions:
            unused = [
                selector for selector in s.rules if selector in s.unused and s.rules[selector] <= self.on
            ]
            if unused:
                s.unused.difference_update(unused)  # copies are reported once
                verb = "ignore" if s.line else "ignore-entry"
                message = f"{verb}[{', '.join(unused)}] hides nothing"
                remedy = "remove the comment" if len(unused) == len(s.rules) else "remove this from the list"
                fixes = self._without(s.span, unused, all_of_it=len(unused) == len(s.rules))
                self._found(UNUSED, s.span, message, remedy, s.function, fixes)

    # ---------------------------------------------------------------- fixes

    def _text(self, comment: Span) -> str | None:
        """The text of a comment that consists of one directive, so that an edit affects only that; else None."""
        text = self.source.data[comment.start : comment.end].decode(errors="replace")
        return (
            text
            if len(_DIRECTIVE.findall(text[2:])) == 1 and text[2:].lstrip().startswith("tclint:")
            else None
        )

    def _without(self, comment: Span, unused: list[str], all_of_it: bool) -> tuple[Repair, ...]:
        """The repair that removes the comment (*all_of_it*), or the selectors *unused* from its list."""
        text = self._text(comment)
        if text is None:
            return ()
        if all_of_it:
            return (Repair("remove the comment", (removed(comment),), True),)
        start, end = text.index("[") + 1, text.index("]")
        kept = [word.strip() for word in text[start:end].split(",") if word.strip() not in unused]
        first = comment.start + len(text[:start].encode())
        span = Span(first, first + len(text[start:end].encode()))
        return (Repair(f"remove {', '.join(unused)} from the list", (Edit(span, ", ".join(kept)),), True),)

    def _respelled(self, comment: Span, wrong: str, message: str) -> tuple[Repair, ...]:
        """The repair that replaces the word *wrong* by the suggestion in *message*, or removes it if there is none."""
        text = self._text(comment)
        meant = re.search(_MEANT, message)
        if text is None:
            return ()
        if meant is None:
            others = [w for w in text[text.find("[") + 1 : text.find("]")].split(",") if w.strip()]
            return self._without(comment, [wrong], len(others) == 1) if wrong and "]" in text else ()
        first = comment.start + len(text[: text.index(wrong)].encode())
        edit = Edit(Span(first, first + len(wrong.encode())), meant[1])
        return (Repair(f"write {meant[1]}", (edit,)),)

    def _corrected(self, comment: Span, error: str) -> tuple[Repair, ...]:
        """The repair of a malformed directive: the suggested verb, or removal of the comment."""
        if re.search(_MEANT, error):
            return self._respelled(comment, error.split()[2].rstrip(";"), error)
        return (Repair("remove the comment", (removed(comment),), True),) if self._text(comment) else ()

    def _invalid(self, comment: Span, message: str, remedy: str, fixes: tuple[Repair, ...] = ()) -> None:
        self._found(INVALID, comment, message, remedy, self._function(comment.start), fixes)

    def _found(
        self,
        rule_id: str,
        comment: Span,
        message: str,
        remedy: str,
        function: Function | None,
        fixes: tuple[Repair, ...],
    ) -> None:
        entry = function.name if function is not None else None
        if rule_id not in self.on or (entry is not None and not self.selected.wants(entry)):
            return
        rule: Rule = all_rules()[rule_id]
        text = self.source.data[comment.start : comment.end].decode(errors="replace")
        self.wrong.append(
            Finding(
                rule=rule,
                severity=rule.severity,
                confidence=rule.confidence,
                span=comment,
                message=message,
                help=remedy,
                fixes=resolve(self.source, function, fixes),
                entry=entry,
                fingerprint=self.prints.make(rule_id, entry, [" ".join(text.split())]),
            )
        )


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive in a source from which PTX was compiled."""

    span: Span
    """The comment."""
    line: int = 0
    """The line of code to which it applies; 0 if it applies to functions."""
    begins: int = 0
    """The last line at which a function can begin that it precedes."""
    rules: tuple[str, ...] = ()
    reason: str = ""
    problem: str = ""
    """What is wrong with it; a problem of one selector leaves the others valid."""
    remedy: str = ""


_CPP = pattern(
    rb"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)"""
    rb"""|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'""",
    re.DOTALL,
)
_PYTHON = pattern(
    rb"""(?P<comment>\#[^\n]*)|\"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z)|'{3}(?:\\.|[^\\])*?(?:'{3}|\Z)"""
    rb"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.DOTALL,
)
"""A comment, or a string; digits may be separated by quotes."""
_DECLARED = pattern(rb"[^;{}]*[;{}]?")
_DEFINED = pattern(rb"(?:(?:[@ \t)\]}][^\n]*)?\n)*(?:async\s+)?def\b")
"""What may be between a comment and the function that it precedes."""
_PTX_MARK = pattern(rb"#\s*tclint:\s*ptx\b")


def directives(source: Source, python: bool) -> Iterator[Directive]:
    """The directives of a source in CUDA C++, or in *python*, for what is compiled from it."""
    return _Reader(source, python).directives()


class _Reader(Audit):
    """Reads the directives of a source without knowing its code."""

    def __init__(self, source: Source, python: bool) -> None:
        language = _PYTHON if python else _CPP
        self.listed = [Span(*m.span()) for m in language.finditer(source.data) if m["comment"] is not None]
        self.problems: list[Directive] = []
        self.python = python
        super().__init__(source, Module(), Selected(), language.sub(_without_comment, source.data))

    def directives(self) -> Iterator[Directive]:
        for comment in self.listed:
            text = self.source.data[comment.start : comment.end]
            if MARK in text and not _PTX_MARK.match(text):
                for s in self._read(comment):
                    begins = 0 if s.line else self._begins(comment.end)
                    yield Directive(comment, s.line, begins, tuple(s.rules), s.reason)
        yield from self.problems

    def _placed(
        self, comment: Span, verb: str, rules: dict[str, frozenset[str]], reason: str
    ) -> Iterator[Suppression]:
        line = self._line(comment) if verb == "ignore" else 0
        yield Suppression(comment, reason, rules, line, None, set(rules))

    def _begins(self, offset: int) -> int:
        form, start = (_DEFINED, self.code.find(b"\n", offset) + 1) if self.python else (_DECLARED, offset)
        found = form.match(self.code, start)
        return self.source.position(max(found.end() - 1, offset) if found is not None else offset).line

    def _invalid(self, comment: Span, message: str, remedy: str, fixes: tuple[Repair, ...] = ()) -> None:
        self.problems.append(Directive(comment, self._line(comment), problem=message, remedy=remedy))


def _without_comment(match: re.Match[bytes]) -> bytes:
    """Blanks for a comment, so that offsets and lines stay the same; a string unchanged."""
    return re.sub(rb"[^\n]", b" ", match[0]) if match["comment"] else match[0]


def _malformed(form: re.Match[str]) -> str:
    """What is wrong with a directive; empty if it is well formed."""
    verb, rules = form["verb"], form["rules"]
    if verb not in _VERBS:
        return f"unknown directive {verb}{nearest(verb, _VERBS)}" if verb else "a directive is missing"
    if rules is None:
        return f"{verb} names no rule"
    if not form["closed"]:
        return f"the list of rules after {verb} has no closing ]"
    return "" if rules.strip(" ,") else f"{verb}[] names no rule"
