"""Checking of inline assembly: builds a module from the strings of a source, and maps its findings back to the
source."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tclint._dataclass import dataclass
from tclint.findings.finding import AsmCount, BlockedWait, FileReport, Finding, Fingerprints, Fix, Step
from tclint.findings.rules import declared
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.findings.spans import Span
from tclint.inline.hosts import is_python, may_have_ptx
from tclint.ir.operands import HEAD
from tclint.syntax.source import Problem, Source

if TYPE_CHECKING:
    from tclint.checks import Hit
    from tclint.inline.asm import Asm, Ptx
    from tclint.inline.statement import Defect
    from tclint.ir.nodes import Function, Module
    from tclint.isa.target import Version

__all__ = ["STATEMENT", "check", "has_findings", "is_ptx", "modules", "strings"]

STATEMENT = frozenset(rule for rule, known in declared("inline").items() if known == "statement")
"""The rules about the statement around a string; none of them applies to other PTX."""

_WORD = re.compile(rb"\.(?:[busf](?:8|16|32|64|128)|f16x2|bf16x2?|pred|b128|sync|aligned|reg)\b")
_STATEMENT = re.compile(
    rb"(?:^|[;{}:\n])\s*(?:@\s*!?\s*[\w$%]+\s+)?([a-z]\w*)((?:::\d+:\d+|(?:\.|::)\w+)*)(?=[\s;])",
    re.MULTILINE,
)
_BRACES = re.compile(rb"[\s{}]*[{}][\s{}]*")
_PLAIN = re.compile(r"[\w.:, \[\]+-]*")
"""Text of a fix that means the same in a string literal, in a template and in PTX."""
_BARE = frozenset((b"ret", b"exit", b"trap", b"brkpt", b"bra"))


def check(
    source: Source, selected: Selected | None = None, toolkit: Version | None = None, arch: str | None = None
) -> FileReport:
    """See :func:`tclint.inline.check`."""
    selected = selected or Selected()
    cpp = int(not is_python(source.path))
    if not may_have_ptx(source.path, source.data):
        return FileReport(path=source.path, source=source, asm=AsmCount(cpp=cpp))
    found, comments = _found(source.data, source.path)
    fragments = [asm for asm in found if asm.dialect != "module" and is_ptx(asm)]
    whole = [asm for asm in found if asm.dialect == "module"]
    asked = _asked(selected, arch)
    report = _Fragments(source, asked, toolkit, arch, fragments).report()
    for asm in whole:
        report = _merged(report, _whole(source, selected, toolkit, asm))
    from tclint.inline.suppress import apply

    assert report.asm is not None
    complete = not report.problems and not report.asm.unknown
    findings = apply(source, found, comments, report.findings, asked, complete=complete)
    return replace(report, findings=findings, asm=replace(report.asm, cpp=cpp))


def _asked(selected: Selected, arch: str | None) -> Selected:
    """What is *selected*, without the rules that are not checked in inline assembly."""
    rules = {rule for rule, known in declared("inline").items() if arch or known != "architecture"}
    return replace(selected, rules=selected.on & rules)


def _found(data: bytes, path: str) -> tuple[list[Asm], list[Span]]:
    if is_python(path):
        from tclint.inline.python import find
    else:
        from tclint.inline.cpp import find
    return find(data)


def string_at(data: bytes, path: str, offset: int) -> Span | None:
    """The piece of a PTX string that *offset* is in, as the package says."""
    if not may_have_ptx(path, data):
        return None
    found, _ = _found(data, path)
    return next((piece for asm in found if (piece := asm.template.piece(offset)) is not None), None)


def is_ptx(asm: Asm) -> bool:
    """Whether a string is PTX: a source may also contain assembly of the host or of other GPUs."""
    from tclint.inline.asm import kind_of
    from tclint.isa.table import table

    operands = asm.operands or ()
    if any(operand.constraint and not kind_of(operands, operand) for operand in operands):
        return False
    roots = table().roots
    for match in _STATEMENT.finditer(bytes(asm.template.data)):
        root, modifiers = match[1], match[2]
        if modifiers and (_WORD.search(modifiers) or root.decode() in roots):
            return True
        if root in _BARE and not operands:
            return True
    # A string may consist of the brace that closes a scope of another one.
    return _WORD.search(asm.template.data) is not None or _BRACES.fullmatch(asm.template.data) is not None


@dataclass(slots=True)
class _Placed:
    """A string and the offsets of its text in the module."""

    asm: Asm
    ptx: Ptx
    start: int
    end: int


def strings(source: Source) -> list[tuple[Asm, Ptx]]:
    """The inline assembly strings of a source, each with its PTX."""
    from tclint.inline.asm import ptx_of

    if not may_have_ptx(source.path, source.data):
        return []
    found = [asm for asm in _found(source.data, source.path)[0] if asm.dialect != "module" and is_ptx(asm)]
    made = [(asm, ptx_of(asm)) for asm in found]
    _lend(made)
    return made


def has_findings(asm: Asm) -> bool:
    """Whether a string by itself has a problem or a finding of more than low confidence."""
    fragments = _Fragments(Source(bytes(asm.template.data), "string.cu"), Selected(), None, None, [asm])
    report = fragments.report()
    return bool(report.problems) or any(f.confidence > Confidence.LOW for f in report.findings)


def modules(fragments: Sequence[Asm], target: str, version: tuple[int, int]) -> tuple[bytes, list[_Placed]]:
    """A module with a function for each string."""
    from tclint.inline.asm import ptx_of

    made = [(asm, ptx_of(asm)) for asm in fragments]
    _lend(made)
    return _module(made, target, version)


def _lend(made: Sequence[tuple[Asm, Ptx]]) -> frozenset[str]:
    """Share declarations and scopes between the strings of each function (see ``together``), and return the shared
    names."""
    from tclint.inline.asm import together

    return frozenset().union(*map(together, _by_function(made)))


def _by_function(made: Sequence[tuple[Asm, Ptx]]) -> list[list[Ptx]]:
    """The strings grouped by function; each string outside a function is a group of its own."""
    functions: dict[Span | None, list[Ptx]] = {}
    for asm, ptx in made:
        functions.setdefault(asm.scope, []).append(ptx)
    alone = functions.pop(None, [])
    return [*functions.values(), *([ptx] for ptx in alone)]


def _module(
    made: Sequence[tuple[Asm, Ptx]], target: str, version: tuple[int, int]
) -> tuple[bytes, list[_Placed]]:
    from tclint.isa.target import dotted

    data = bytearray(f".version {dotted(version)}\n.target {target}\n.address_size 64\n".encode())
    placed = []
    for number, (asm, ptx) in enumerate(made):
        data += f".func asm_{number}()\n{{\n{' '.join((*ptx.declarations, *ptx.borrowed))}\n".encode()
        data += b"{" * ptx.opened
        start = len(data)
        data += ptx.text.data
        placed.append(_Placed(asm, ptx, start, len(data)))
        data += b"\n" + b"}" * ptx.closed + b"}\n"
    return bytes(data), placed


class _Fragments:
    """Checks the inline assembly strings of one source."""

    def __init__(
        self,
        source: Source,
        selected: Selected,
        toolkit: Version | None,
        arch: str | None,
        found: Sequence[Asm],
    ) -> None:
        from tclint.findings.rules import all_rules
        from tclint.inline.asm import ptx_of
        from tclint.inline.conditions import compiled
        from tclint.isa.target import KNOWN, TOOLKITS, Target

        self.source = source
        self.toolkit = toolkit
        self.rules, self.strict = selected.on, selected.strict
        self.all_rules = all_rules()
        self.target = Target.parse(arch) if arch else None
        # Without a toolkit, no version is stated.
        self.version = TOOLKITS.get(toolkit, KNOWN) if toolkit else KNOWN
        found = [asm for asm in found if selected.wants(asm.entry or "")]
        self.made = [(asm, ptx_of(asm)) for asm in found]
        self.declared = _lend(self.made)
        self.compiled = {
            id(asm): compiled(asm.conditions, self.target) if self.target is not None else None
            for asm in found
        }
        self.problems: list[Problem] = []
        self.found: list[Finding] = []
        self.prints = Fingerprints()

    def report(self) -> FileReport:
        """The report for all strings."""
        self.check(self.made)
        self._exposed()
        unknown = sum(not ptx.whole and ptx.unknown for _, ptx in self.made)
        unsure = sum(self.compiled[id(asm)] is None for asm, _ in self.made)
        return FileReport(
            path=self.source.path,
            status="partial" if self.problems else "analysed",
            problems=tuple(self.problems),
            findings=tuple(self.found),
            source=self.source,
            entries=tuple(dict.fromkeys(asm.entry for asm, _ in self.made if asm.entry)),
            asm=AsmCount(len(self.made), unknown, unsure),
        )

    def check(self, made: Sequence[tuple[Asm, Ptx]]) -> None:
        """Check these strings in one module.

        If it has syntax errors, they are split until the others are unaffected.
        """
        from tclint.ir.build import build
        from tclint.syntax import parse, problems

        if not made:
            return
        target = str(self.target) if self.target is not None else _ANY
        data, placed = _module(made, target, self.version)
        tree = parse(data)
        wrong = problems(tree)
        if wrong and len(made) > 1:
            middle = len(made) // 2
            self.check(made[:middle])
            self.check(made[middle:])
            return
        for problem in wrong:
            one = placed[0]
            if one.ptx.whole and not one.ptx.missing:
                at = min(max(problem.start_byte, one.start), max(one.end - 1, one.start)) - one.start
                line = self.source.position(one.ptx.text.host(at, at + 1).start).line
                self.problems.append(Problem(line, problem.message))
        self.take(build(tree, data), data, placed)

    def take(self, module: Module, data: bytes, placed: Sequence[_Placed]) -> None:
        """Run the checks on a module, and add their findings about the strings."""
        from tclint.checks import module_checks
        from tclint.linting.check import as_findings

        by_function = {id(f): one for f, one in zip(module.functions, placed, strict=False)}
        hits: list[tuple[Function | None, Hit]] = []
        for check in module_checks():
            wanted = self.rules.intersection(check.rules)
            for hit in check.run(module, self.toolkit) if wanted else ():
                function = hit.function
                if hit.rule not in wanted or function is None or function.damaged:
                    continue
                if self._holds(hit, function, by_function[id(function)]):
                    hits.append((function, _at_its_word(hit, function, data)))
        for function in module.functions:  # the fingerprint uses the name of the host function
            function.name = by_function[id(function)].asm.entry or ""
        begins = [one.start for one in placed]
        for finding in as_findings(
            Source(data, self.source.path), module, hits, self.prints, strict=self.strict
        ):
            self._add(finding, placed[bisect_right(begins, finding.span.start) - 1], data)
        for one in placed:
            self._missing(one)
        if self.rules & STATEMENT:
            for function in module.functions:
                self._statement(by_function[id(function)], function)

    def _statement(self, one: _Placed, function: Function) -> None:
        from tclint.inline.statement import defects

        if function.damaged:
            return
        for defect in defects(one.asm, one.ptx, function, one.start, self.declared):
            if defect.rule in self.rules:
                self._report(defect, one.asm)

    def _holds(self, hit: Hit, function: Function, one: _Placed) -> bool:
        """Whether a hit holds independently of the code around the string and of its unknown pieces."""
        if declared("inline")[hit.rule] == "architecture":
            return bool(self.compiled[id(one.asm)]) and (hit.rule == "AV001" or self.toolkit is not None)
        if hit.rule in ("PX005", "PX006"):
            return self._undefined(hit, function, one)
        if hit.rule == "PX004":
            ins = function.instructions[hit.site]
            begin, end = function.start + ins.start - one.start, function.start + ins.end - one.start
            return not any(begin <= at < end for at, _ in one.ptx.values)
        return True

    def _undefined(self, hit: Hit, function: Function, one: _Placed) -> bool:
        """Whether a name cannot be defined elsewhere, in another string of the file or in the surrounding program."""
        assert hit.span is not None
        begin = hit.span[0] - function.start
        match = re.search(r"(?:register|name|label) (\S+) is", hit.message)
        if not one.ptx.whole or match is None or match[1] in self.declared:
            return False
        site = next((i for i in function.instructions if i.start <= begin < i.end), None)
        if site is None or site.match is None:  # the kinds of its operands are unknown
            return False
        # A name may be a variable or a function of the program, unless the operand does not accept one.
        return not hit.message.startswith("name") or bool(site.match.problem)

    def _missing(self, one: _Placed) -> None:
        from tclint.inline.statement import Defect

        for span, message in one.ptx.missing if "PX005" in self.rules else ():
            self._report(Defect("PX005", span, message), one.asm)

    def _exposed(self) -> None:
        """Report the names that a statement defines again in each copy that the compiler makes."""
        from tclint.inline.asm import braces, exposed
        from tclint.inline.statement import Defect

        if "PX007" not in self.rules:
            return
        owners = {id(ptx): asm for asm, ptx in self.made}
        for strings in _by_function(self.made):
            for ptx, span, what in exposed(strings):
                message = f"{what} is outside braces: it is defined twice if the statement is inlined twice"
                # The message of the first releases, so that fingerprints in baselines stay valid.
                key = f"{what} stands outside of braces: it is defined twice where the statement is inlined twice"
                remedy = "enclose the text of the statement in braces { }"
                asm = owners[id(ptx)]
                defect = Defect(
                    "PX007", span, message, remedy, braces(asm, ptx), Severity.INFO, Confidence.MEDIUM
                )
                self._report(defect, asm, key)

    def _report(self, defect: Defect, asm: Asm, key: str = "") -> None:
        """Add a finding that does not come from a check of the module; its fingerprint is that of *key*, or the message."""
        rule = self.all_rules[defect.rule]
        finding = Finding(
            rule=rule, severity=defect.severity or rule.severity_if(self.strict),
            confidence=defect.confidence or rule.confidence, span=defect.span, message=defect.message, help=defect.help,
            entry=asm.entry, fixes=defect.fixes, steps=defect.steps,
            fingerprint=self.prints.make(defect.rule, asm.entry, [key or defect.message]),
        )  # fmt: skip
        self.found.append(finding)

    def _add(self, finding: Finding, one: _Placed, data: bytes) -> None:
        span = one.ptx.text.host(finding.span.start - one.start, finding.span.end - one.start)
        fixes = tuple(filter(None, (self._carried(fix, one, data) for fix in finding.fixes)))
        confidence = finding.confidence
        if finding.rule.id.startswith("AV"):
            confidence = min(
                confidence, Confidence.MEDIUM
            )  # the function may not be used on that architecture
        self.found.append(
            replace(finding, span=span, entry=one.asm.entry, confidence=confidence, fixes=fixes)
        )

    def _carried(self, fix: Fix, one: _Placed, data: bytes) -> Fix | None:
        """The fix mapped to the host; None unless the host has the same bytes there and the new text needs no
        escapes."""
        edits = []
        for edit in fix.edits:
            start, end = edit.span.start, edit.span.end
            span = one.ptx.text.whole(start - one.start, end - one.start) if one.start <= start else None
            if (
                span is None
                or self.source.data[span.start : span.end] != data[start:end]
                or not _PLAIN.fullmatch(edit.text)
            ):
                return None
            edits.append(replace(edit, span=span))
        return replace(fix, edits=tuple(edits))


def _at_its_word(hit: Hit, function: Function, data: bytes) -> Hit:
    """The hit with the span of the wrong word, because a string may have many instructions on one line."""
    if hit.rule not in ("PX001", "PX002"):
        return hit
    ins = function.instructions[hit.site]
    start = function.start + ins.start
    head = HEAD.match(data[start : function.start + ins.end].decode("latin-1"))
    if head is None:
        return hit
    begin, end = head.span(3)
    modifier = re.search(r" does not accept the modifier (\S+) here", hit.message)
    if modifier and (at := head[3].find(modifier[1])) >= 0:
        begin, end = begin + at, begin + at + len(modifier[1])
    return replace(hit, span=(start + begin, start + end))


_ANY = "sm_90a"
"""The ``.target`` of the module if no architecture is given; the matching of instructions does not depend on it."""


def _whole(source: Source, selected: Selected, toolkit: Version | None, asm: Asm) -> FileReport | None:
    """The report of a string that is a whole module; None if a piece of it is unknown."""
    from tclint.findings.selection import Request
    from tclint.inline.text import UNKNOWN
    from tclint.linting.check import check_source

    text = asm.template
    if UNKNOWN in text.data:
        return None
    report = check_source(Source(bytes(text.data), source.path), Request(selected, toolkit))
    inner = report.source
    assert inner is not None

    def step(one: Step) -> Step:
        return replace(one, span=text.host(one.span.start, one.span.end))

    starts = [0, *(match.end() for match in re.finditer(rb"\n", text.data)), len(text.data)]
    problems = tuple(
        Problem(source.position(text.host(starts[p.line - 1], starts[p.line - 1] + 1).start).line, p.message)
        if p.line
        else p
        for p in report.problems
    )
    findings = tuple(
        replace(
            one,
            span=text.host(one.span.start, one.span.end),
            steps=tuple(map(step, one.steps)),
            deadlock=tuple(
                BlockedWait(step(party.wait), tuple(map(step, party.arrivals))) for party in one.deadlock
            ),
            fixes=(),
        )
        for one in report.findings
    )
    return replace(report, findings=findings, problems=problems, source=source)


def _merged(report: FileReport, other: FileReport | None) -> FileReport:
    assert report.asm is not None
    if other is None:
        count = replace(report.asm, strings=report.asm.strings + 1, unknown=report.asm.unknown + 1)
        return replace(report, asm=count)
    problems = (*report.problems, *other.problems)
    return replace(
        report,
        status="partial" if problems else "analysed",
        problems=problems,
        findings=(*report.findings, *other.findings),
        entries=(*report.entries, *other.entries),
        asm=replace(report.asm, modules=report.asm.modules + 1),
    )
