"""Merges findings that one change fixes: one cause with many uses, or one source line that was compiled many times.

The finding that is kept lists the others in ``variants``. Those of other kernels remain in the reports as duplicates of it
(``duplicate_of``), so that to a program no file with a finding looks clean; for people they are left out. Two findings of
one kernel are merged if the rule, its help and the last step before the bad use are the same: the commit that is never
waited for is reported, not each register that is read too early. They are also merged if a compiler has made one from the
other, as of an unrolled loop (:func:`_source`, :func:`_text`). Findings of several kernels are merged if the rule, the
source line and all calls through which it was inlined are the same and, where the file is given without a folder, the
kernel has the same name. The second defect of a kernel at a source line is merged only with the second one of another
kernel.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from typing import TYPE_CHECKING

from tclint._pattern import pattern
from tclint.findings.finding import (
    LATER,
    FileReport,
    Finding,
    Fix,
    SourceLocation,
    Step,
    Variant,
    overlapping,
)
from tclint.findings.places import region
from tclint.findings.selection import Selected
from tclint.report.in_source import suppressed
from tclint.report.locate import calls
from tclint.report.summary import Summary, present

if TYPE_CHECKING:
    from tclint.report.baseline import Baseline

_STAGE = pattern(
    r"\+\d+(?:\.\.\d*)?|\[\d+(?:\.\.\d+)?\]|, (?:stage \d+ of \d+|\d+ stages)| columns \d+\.\.\d+"
)
"""What an object is called by besides its variable: ``+0..2048``, ``[1]``, ``, stage 1 of 4``, `` columns 0..128``."""
_BARRIER = "barrier "
_CHOSEN = pattern(rf"%[\w$]+|\d+|{LATER}")
"""The words of a message that differ between copies of a line: registers, numbers, such as those of stages, and whether it is
reached by the back edge of an unrolled loop."""
_OPCODE = pattern(rb"(?:@!?[%\w$]+\s+)?([\w.:]+)")


def presented(
    reports: Sequence[FileReport],
    selected: Selected,
    paths: Iterable[str | os.PathLike[str]] = (),
    known: Baseline | None = None,
    arch: str | None = None,
) -> tuple[list[FileReport], Summary]:
    """The reports to show for a run over *paths*, without the findings in *known* and each defect once; its counts."""
    reports = suppressed(reports, selected)
    if known is not None:
        reports, known = known.compared(reports, selected, paths)
    return fold(*present(reports, selected, known.gone if known is not None else (), arch))


def fold(reports: Sequence[FileReport], summary: Summary) -> tuple[list[FileReport], Summary]:
    """The reports with each defect once, and the counts of the findings that remain."""
    same_line: dict[Hashable, list[tuple[int, Finding]]] = {}
    for number, report in enumerate(reports):
        seen: Counter[Hashable] = Counter()
        for index, finding in enumerate(causes(report)):
            key: Hashable = (number, index)
            if finding.source_location is not None:
                line = _line(finding, finding.source_location)
                seen[line, finding.entry] += 1
                key = (line, seen[line, finding.entry])
            same_line.setdefault(key, []).append((number, finding))
    kept: list[list[Finding]] = [[] for _ in reports]
    for duplicates in same_line.values():
        number, finding = max(duplicates, key=lambda found: _gravity(found[1]))  # the first of the gravest
        merged = [(n, other) for n, other in duplicates if other is not finding]
        others = [v for n, other in merged for v in _variants(reports[n], other)]
        kept[number].append(replace(finding, variants=(*finding.variants, *others)))
        for n, other in merged:
            kept[n].append(replace(other, duplicate_of=_variant(reports[number], finding)))
    folded = [
        replace(report, findings=tuple(sorted(findings, key=lambda f: (f.span.start, f.span.end, f.rule.id))))
        for report, findings in zip(reports, kept, strict=True)
    ]
    return folded, _recount(folded, summary)


def _line(finding: Finding, location: SourceLocation) -> Hashable:
    """The key under which findings of several kernels at one source line are merged.

    A bare file name does not distinguish sources, since NVRTC calls everything it compiles ``default_program``: the
    kernel is then part of the key.
    """
    name = calls(location)[-1].file
    kernel = None if "/" in name or "\\" in name else finding.entry
    return finding.rule.id, location, kernel, finding.suppressed is None


def causes(report: FileReport) -> Iterable[Finding]:
    """The findings of one input, each defect once, with the others in its ``variants``."""
    if len(report.findings) < 2:
        return report.findings
    uses = _merged(report, report.findings, _cause)
    return _merged(report, uses, lambda finding: _source(finding) or _text(report, finding), copies=True)


def _merged(
    report: FileReport, findings: Iterable[Finding], key: Callable[[Finding], Hashable], copies: bool = False
) -> list[Finding]:
    """The *findings*, those of one rule and kernel with the same *key* merged; one whose key is None stays alone."""
    same: dict[Hashable, list[Finding]] = {}
    for index, finding in enumerate(findings):
        alike = key(finding)
        suppressed = finding.suppressed is not None
        whole = index if alike is None else (finding.rule.id, finding.entry, suppressed, alike)
        same.setdefault(whole, []).append(finding)
    return [group[0] if len(group) == 1 else _one(report, group, copies) for group in same.values()]


def _one(report: FileReport, findings: Sequence[Finding], copies: bool) -> Finding:
    """The first of the gravest *findings*, which are one defect; if they are *copies*, its fixes change all of them."""
    first = max(findings, key=_gravity)
    others = [finding for finding in findings if finding is not first]
    return replace(
        first,
        count=sum(finding.count for finding in findings),
        variants=(*first.variants, *(v for other in others for v in _variants(report, other))),
        fixes=tuple(_everywhere(fix, others) for fix in first.fixes) if copies else first.fixes,
    )


def _everywhere(fix: Fix, others: Iterable[Finding]) -> Fix:
    """*fix* with the edits of the same fix of the *others*; without them if these have no such fix, or the edits overlap."""
    edits = set(fix.edits)
    for other in others:
        same = next((f for f in other.fixes if (f.message, f.safe) == (fix.message, fix.safe)), None)
        if same is None:
            return fix
        edits.update(same.edits)
    ordered = tuple(sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)))
    return fix if overlapping(ordered) else replace(fix, edits=ordered)


def _source(finding: Finding) -> Hashable | None:
    """What findings have in common that were compiled from the same lines: what happens in each of them, to which variable.

    As in :func:`_cause`, it begins with the last step before the bad use. Each stage of a ring is the same variable, and each
    copy may use registers and numbers of its own. None without line information.
    """
    steps = _events(finding)
    use = next((n for n, step in enumerate(steps) if step.span == finding.span), 0)
    steps = steps[max(use - 1, 0) :]
    places = [finding.source_location, *(step.source_location for step in steps)]
    if None in places:
        return None
    happens = tuple((_said(step.message), _STAGE.sub("", step.object or "")) for step in steps)
    return tuple(places), happens or _said(finding.message), _said(finding.help)


def _text(report: FileReport, finding: Finding) -> Hashable | None:
    """What findings without line information have in common if one is a copy of the other: the opcodes, threads and objects
    of all steps.

    None if no object is known but the number of a barrier, of which most kernels have one: two may then be different.
    """
    steps = _events(finding)
    objects = tuple(step.object for step in steps)
    if all(object is None or object.startswith(_BARRIER) for object in objects):
        return None
    assert report.source is not None  # guaranteed by FileReport
    data = report.source.data
    spans = [finding.span, *(step.span for step in steps)]
    opcodes = [match[1] for span in spans if (match := _OPCODE.match(data, span.start, span.end))]
    happens = tuple((step.role, _said(step.message)) for step in steps)
    return tuple(opcodes), happens, objects, _said(finding.help)


def _events(finding: Finding) -> list[Step]:
    """The steps of a finding that identify it, and the parties of a deadlock."""
    parties = chain.from_iterable((party.wait, *party.arrivals) for party in finding.deadlock)
    return [*(step for step in finding.steps if not step.aside), *parties]


def _said(message: str) -> str:
    """*message* without what the compiler chose."""
    return _CHOSEN.sub("", message)


def _cause(finding: Finding) -> Hashable | None:
    """The help, and the span of the last step before the bad use; None if the bad use is the first step."""
    before = list(takewhile(lambda step: step.span != finding.span, _events(finding)))
    return (finding.help, before[-1].span) if before else None


def _gravity(finding: Finding) -> tuple[int, int]:
    return finding.severity, finding.confidence


def _variants(report: FileReport, finding: Finding) -> list[Variant]:
    """A finding that is merged into another one, and those that were merged into it before."""
    return [_variant(report, finding), *finding.variants]


def _variant(report: FileReport, finding: Finding) -> Variant:
    line, column = region(report, finding.span)[0]
    return Variant(report.path, report.member, finding.entry, line, column, finding.fingerprint)


def _recount(reports: Iterable[FileReport], summary: Summary) -> Summary:
    """*summary* with the counts of the findings that remain. The number of files with findings does not change."""
    counted = [
        (report, finding)
        for report in reports
        for finding in report.findings
        if finding.suppressed is None and finding.duplicate_of is None
    ]
    found = [finding for _, finding in counted]
    fixes = [
        any(fix.safe for fix in finding.fixes)
        for report, finding in counted
        if report.member is None and finding.fixes
    ]
    severities = Counter(finding.severity for finding in found)
    return replace(
        summary,
        by_severity={severity: severities[severity] for severity in summary.by_severity},
        by_rule=dict(sorted(Counter(finding.rule.id for finding in found).items())),
        folded=sum(len(finding.variants) for finding in found),
        fixable=sum(fixes),
        unsafe_fixable=len(fixes) - sum(fixes),
    )
