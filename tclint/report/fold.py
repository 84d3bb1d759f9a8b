"""Merges findings that one change fixes: one cause with many uses, or one source line that was compiled many times.

The finding that is kept lists the others in ``variants``. Those of other kernels remain in the reports as duplicates of it
(``duplicate_of``), so that to a program no file with a finding looks clean; for people they are left out. Two findings of
one kernel are merged if the rule, its help and the last step before the bad use are the same: the commit that is never
waited for is reported, not each register that is read too early. Findings of several kernels are merged if the rule, the
source line and all calls through which it was inlined are the same and, where the file is given without a folder, the
kernel has the same name. The second defect of a kernel at a source line is merged only with the second one of another
kernel.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from tclint.findings.finding import FileReport, Finding, SourceLocation, Variant
from tclint.findings.places import region
from tclint.findings.selection import Selected
from tclint.findings.spans import Span
from tclint.report.locate import calls
from tclint.report.summary import Summary, present

if TYPE_CHECKING:
    from tclint.report.baseline import Baseline


def presented(
    reports: Sequence[FileReport],
    selected: Selected,
    paths: Iterable[str | os.PathLike[str]] = (),
    known: Baseline | None = None,
    arch: str | None = None,
) -> tuple[list[FileReport], Summary]:
    """The reports to show for a run over *paths*, without the findings in *known* and each defect once; its counts."""
    if known is not None:
        reports, known = known.compared(reports, selected, paths)
    return fold(*present(reports, selected, known.gone if known is not None else (), arch))


def fold(reports: Sequence[FileReport], summary: Summary) -> tuple[list[FileReport], Summary]:
    """The reports with each defect once, and the counts of the findings that remain."""
    same_line: dict[Hashable, list[tuple[int, Finding]]] = {}
    for number, report in enumerate(reports):
        seen: Counter[Hashable] = Counter()
        for index, finding in enumerate(_causes(report)):
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


def _causes(report: FileReport) -> Iterable[Finding]:
    """The findings of one input, merged to one per cause."""
    same: dict[Hashable, list[Finding]] = {}
    for index, finding in enumerate(report.findings):
        cause = _cause(finding)
        key: Hashable = index
        if cause is not None:
            key = (finding.rule.id, finding.entry, finding.help, cause, finding.suppressed is None)
        same.setdefault(key, []).append(finding)
    for findings in same.values():
        first = max(findings, key=_gravity)
        others = [v for other in findings if other is not first for v in _variants(report, other)]
        yield replace(
            first, count=sum(finding.count for finding in findings), variants=(*first.variants, *others)
        )


def _cause(finding: Finding) -> Span | None:
    """The span of the last step before the bad use; None if the bad use is the first step."""
    before = list(takewhile(lambda step: step.span != finding.span, finding.steps))
    return before[-1].span if before else None


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
