"""A difference as text for people, as JSON for programs, and as SARIF.

docs/diff.md shows the text; docs/diff.schema.json is the schema of the JSON. ``schema`` is incremented when a key is
removed or changes its meaning, not when one is added.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tclint._json import to_json
from tclint.config.config import Config
from tclint.diff.compare import STATUSES, OpChange, OpPair, Status
from tclint.diff.pairs import Difference, How, KernelPair, ReportedFinding, total
from tclint.diff.skeleton import Op
from tclint.findings.finding import FileReport, Finding, Fingerprints, SourceLocation
from tclint.findings.places import displayed_name, region
from tclint.findings.rules import Rule
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.findings.spans import Span
from tclint.report.formats._style import BOLD, CYAN, RED, YELLOW, Style, printable, shortened
from tclint.report.summary import count

if TYPE_CHECKING:
    from tclint.diff.assembled import Assembly

__all__ = ["FORMATS", "render"]

FORMATS = ("text", "json", "sarif")
SCHEMA = 1
_COLORS = {"lost": RED, "weakened": RED, "changed": YELLOW, "moved": YELLOW}
_MAX_INSTRUCTIONS = 3
"""Instructions of a change that are shown; the remaining ones are counted."""
_MAX_OPCODE_WORDS = 4
"""Words of the opcode of a neighbouring instruction."""


def render(found: Sequence[Difference], output_format: str, config: Config, color: bool = False) -> str:
    """All differences in one of ``FORMATS``."""
    if output_format == "json":
        return _json(found)
    if output_format == "sarif":
        return _sarif(found, config)
    return "\n".join(_Text(Style(color)).lines(found)) + "\n"


# ---------------------------------------------------------------- text


class _Text:
    def __init__(self, style: Style) -> None:
        self._style = style

    def lines(self, found: Sequence[Difference]) -> Iterator[str]:
        for difference in found:
            if (
                difference.changed
                or difference.problems
                or difference.figures
                or any(k.comparison.operations for k in difference.kernels)
            ):
                yield from self._file(difference)
                yield ""
        yield self._style(BOLD, _tally(found))

    def _file(self, difference: Difference) -> Iterator[str]:
        old, new = difference.old, difference.new
        if old is None or new is None:
            yield (
                self._style(BOLD, printable(f"{old or new}"))
                + f": {'new file' if old is None else 'removed file'}"
            )
        else:
            how = "" if difference.how == "name" else f" ({_how(difference.how)})"
            yield self._style(BOLD, printable(f"{old} -> {new}")) + how
        for path, problem in difference.problems:
            at = f"{path}:{problem.line}" if problem.line else path
            yield f"  {self._style(RED, 'error')}: {printable(f'{at}: {problem.message}')}"
        for names, word in ((difference.only_old, "removed"), (difference.only_new, "new")):
            yield from (f"  {word} kernel {_short(name)}" for name in names)
        for kernel in difference.kernels:
            yield from self._kernel(kernel)
        for one in (*difference.assembled, *difference.figures):
            name = _short(one.old) if one.old == one.new else f"{_short(one.old)} -> {_short(one.new)}"
            yield f"  kernel {name}: ptxas"
            yield from (f"    {what}: {a} -> {b}" for what, a, b in one.changes)
        for findings, word in ((difference.came, "new"), (difference.went, "resolved")):
            if findings:
                yield f"  {count(len(findings), f'{word} finding')}:"
                yield from (f"    {_finding(found)}" for found in findings)

    def _kernel(self, kernel: KernelPair) -> Iterator[str]:
        old, new = kernel.comparison.old.name, kernel.comparison.new.name
        name = _short(old) if old == new else f"{_short(old)} -> {_short(new)}"
        how = f" ({_how(kernel.how)})" if kernel.how != "name" else ""
        changes = kernel.comparison.changes
        yield f"  kernel {printable(name)}{how}{'' if changes else ': no change in synchronisation'}"
        for change in changes:
            yield from self._change(change)
        if operations := kernel.comparison.operations:
            words = ", ".join(f"{name} {a} -> {b}" for name, (a, b) in operations.items())
            yield f"    operations: {words}"

    def _change(self, change: OpChange) -> Iterator[str]:
        status = self._style(_COLORS.get(change.status, CYAN), change.status)
        number = len(change.op_pairs)
        times = f" {number} times" if number > 1 and _same(change.op_pairs) else ""
        message = f": {change.message}" if change.message else ""
        yield f"    {status} {change.what}{times}{printable(message)}"
        both = change.op_pairs[0].old is not None and change.op_pairs[0].new is not None
        for at in change.op_pairs[:_MAX_INSTRUCTIONS]:
            op = at.op
            if both and at.old is not None and at.new is not None:
                yield f"      old {_line(at.old)}: {printable(at.old.text)}"
                yield f"      new {_line(at.new)}: {printable(at.new.text)}"
            else:
                yield f"      {'old' if at.old is not None else 'new'} {_line(op)}: {printable(op.text)}"
        if number > _MAX_INSTRUCTIONS:
            yield f"      and {number - _MAX_INSTRUCTIONS} more"
        if change.between is not None:
            for side, (before, after) in zip(("old", "new"), change.between, strict=True):
                yield f"      {side}: {_where(before, after)}"


def _same(pairs: Sequence[OpPair]) -> bool:
    return len({at.op.token for at in pairs}) == 1


def _line(op: Op) -> str:
    return f"line {op.line}{_source(op.source)}"


def _source(source: SourceLocation | None) -> str:
    return printable(f" ({os.path.basename(source.file)}:{source.line})") if source is not None else ""


def _where(before: Op | None, after: Op | None) -> str:
    """``between line 12 bar.sync and line 20 wgmma.wait_group``."""
    if before is None:
        return f"before {_named(after)}" if after is not None else "alone"
    return f"between {_named(before)} and {_named(after)}" if after is not None else f"after {_named(before)}"


def _named(op: Op) -> str:
    words = [word for word in op.text.split() if not word.startswith("@")]
    opcode = words[0].rstrip(";") if words else op.kind
    return printable(f"line {op.line} {'.'.join(opcode.split('.')[:_MAX_OPCODE_WORDS])}")


def _finding(found: ReportedFinding) -> str:
    finding, report = found.finding, found.report
    line, column = region(report, finding.span)[0]
    text = f"{displayed_name(report)}:{line}:{column}: {finding.severity.label} {finding.rule.id} {finding.message}"
    more = f" (and {count(len(finding.variants), 'duplicate')})" if finding.variants else ""
    return printable(f"{text}{_source(finding.source_location)}{more}")


def _short(name: str) -> str:
    return printable(shortened(name))


def _how(how: How) -> str:
    return {"only one": "the only kernel in both versions", "likeness": "paired by similarity"}.get(
        how, f"paired by {how}"
    )


def _tally(found: Sequence[Difference]) -> str:
    compared = sum(difference.compared for difference in found)
    numbers = total(found)
    words = ", ".join(f"{numbers[status]} {status}" for status in STATUSES if numbers[status])
    parts = [
        f"{count(compared, 'kernel')} compared: {words or 'no change in synchronisation'}"
        if compared
        else "No kernel was compared"
    ]
    for nouns, added, removed, word in (
        ("findings", sum(len(d.came) for d in found), sum(len(d.went) for d in found), "resolved"),
        ("kernels", sum(len(d.only_new) for d in found), sum(len(d.only_old) for d in found), "removed"),
        ("files", sum(d.old is None for d in found), sum(d.new is None for d in found), "removed"),
    ):
        if added or removed:
            parts.append(f"{nouns}: {added} new, {removed} {word}")
    if assembled := sum(len(d.assembled) for d in found):
        parts.append(f"{count(assembled, 'kernel')} assembled differently")
    if broken := len({path for difference in found for path, _ in difference.problems}):
        parts.append(f"{count(broken, 'input')} could not be fully analysed")
    return "; ".join(parts) + "."


# ---------------------------------------------------------------- json


def _json(found: Sequence[Difference]) -> str:
    numbers = total(found)
    document = {
        "schema": SCHEMA,
        "files": [_file_object(difference) for difference in found],
        "summary": {
            "files": len(found),
            "kernels": sum(difference.compared for difference in found),
            "changes": {status: numbers[status] for status in STATUSES},
            "came": sum(len(difference.came) for difference in found),
            "went": sum(len(difference.went) for difference in found),
        },
    }
    return to_json(document)


def _file_object(difference: Difference) -> dict[str, Any]:
    return {
        "old": difference.old,
        "new": difference.new,
        "paired_by": difference.how if difference.old and difference.new else None,
        "problems": [
            {"path": path, "line": problem.line or None, "message": problem.message}
            for path, problem in difference.problems
        ],
        "kernels": [_kernel_object(kernel) for kernel in difference.kernels],
        "only_old": difference.only_old,
        "only_new": difference.only_new,
        "came": [_finding_object(one) for one in difference.came],
        "went": [_finding_object(one) for one in difference.went],
        "assembled": _assemblies(difference.assembled),
        **({"figures": _assemblies(difference.figures)} if difference.figures else {}),
    }


def _assemblies(found: Sequence[Assembly]) -> list[dict[str, Any]]:
    return [
        {
            "old": one.old,
            "new": one.new,
            "changes": [{"what": what, "old": a, "new": b} for what, a, b in one.changes],
        }
        for one in found
    ]


def _kernel_object(kernel: KernelPair) -> dict[str, Any]:
    comparison = kernel.comparison
    return {
        "old": comparison.old.name,
        "new": comparison.new.name,
        "paired_by": kernel.how,
        "changes": [
            {
                "status": change.status,
                "class": change.what,
                "message": change.message or None,
                "instructions": [
                    {"old": _op_object(at.old), "new": _op_object(at.new)} for at in change.op_pairs
                ],
                "between": change.between
                and {
                    side: [_op_object(op) for op in ops]
                    for side, ops in zip(("old", "new"), change.between, strict=True)
                },
            }
            for change in comparison.changes
        ],
        "operations": [{"name": name, "old": a, "new": b} for name, (a, b) in comparison.operations.items()],
    }


def _op_object(op: Op | None) -> dict[str, Any] | None:
    if op is None:
        return None
    return {
        "line": op.line,
        "source": _source_object(op.source),
        "text": op.text,
        "loops": op.loops,
        "threads": op.role,
    }


def _source_object(source: SourceLocation | None) -> dict[str, Any] | None:
    return (
        None
        if source is None
        else {"file": source.file, "line": source.line, "column": source.column or None}
    )


def _finding_object(found: ReportedFinding) -> dict[str, Any]:
    finding, report = found.finding, found.report
    line, column = region(report, finding.span)[0]
    return {
        "id": finding.rule.id,
        "name": finding.rule.name,
        "severity": finding.severity.label,
        "path": report.path,
        "member": report.member,
        "entry": finding.entry,
        "line": line,
        "column": column,
        "message": finding.message,
        "fingerprint": finding.fingerprint,
        "source": _source_object(finding.source_location),
        "variants": [asdict(variant) for variant in finding.variants],
    }


# ---------------------------------------------------------------- sarif


def _sarif(found: Sequence[Difference], config: Config) -> str:
    """The new findings, and each change as a note.

    Resolved findings are left out, since GitHub would open an alert for each.
    """
    from tclint.report.formats import renderer
    from tclint.report.locate import Locator
    from tclint.report.summary import FormatContext, present

    reports = [report for difference in found if (report := _report(difference)) is not None]
    shown, summary = present(reports, Selected(min_confidence=Confidence.LOW))
    locate = Locator.of("auto", shown)
    return renderer("sarif")(
        shown, FormatContext(summary, locate=locate, fail_on=config.failing, baseline=True)
    )


def _report(difference: Difference) -> FileReport | None:
    """The report on the new file: new findings and changes; None if it is unchanged or there is no new file."""
    problems = tuple(problem for _, problem in difference.problems)
    source = difference.source
    if source is None:
        path = difference.new or difference.old or ""
        return FileReport(path=path, status="failed", problems=problems) if problems else None
    prints = Fingerprints()
    notes = [
        _note(kernel, change, prints) for kernel in difference.kernels for change in kernel.comparison.changes
    ]
    return FileReport(
        path=source.path,
        member=source.member,
        status="partial" if problems else "analysed",
        problems=problems,
        findings=(*(one.finding for one in difference.came), *notes),
        source=source,
    )


def _note(kernel: KernelPair, change: OpChange, prints: Fingerprints) -> Finding:
    """A change as a finding at its location in the new file; a lost instruction is located at its neighbour there."""
    at = change.op_pairs[0]
    op = at.new
    if op is None and change.between is not None:
        op = next((near for near in change.between[1] if near is not None), None)
    function = kernel.comparison.new.function
    span = op.span if op is not None else Span(function.start, function.start + 1)
    rule = _rule(change.status)
    words = [f"{change.what} {change.status}"]
    if change.message:
        words.append(change.message)
    if at.old is not None:
        words.append(f"line {at.old.line} in the old version{_source(at.old.source)}: {at.old.text}")
    return Finding(
        rule=rule,
        severity=rule.severity,
        confidence=rule.confidence,
        span=span,
        message="; ".join(words),
        entry=function.name,
        count=len(change.op_pairs),
        fingerprint=prints.make(rule.id, function.name, (change.what, change.message, at.op.kind)),
        source_location=op.source if op is not None else None,
    )


def _rule(status: Status) -> Rule:
    """A change of a status as a rule, which SARIF requires."""
    summary = f"Synchronisation that was {status} between two versions of a kernel."
    return Rule(
        id=f"DIFF-{status.upper()}",
        name=f"synchronisation-{status}",
        family="diff",
        hazards=(),
        severity=Severity.INFO,
        confidence=Confidence.HIGH,
        since="0.1.0",
        manual=(),
        words={},
        summary=summary,
        body=summary,
        examples=(),
        corrections=(),
    )
