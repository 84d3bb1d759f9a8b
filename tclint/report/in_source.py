"""Comments in CUDA C++ and Python that suppress findings in the PTX compiled from their line, or from their kernel.

They are written as in PTX (:mod:`tclint.linting.suppress`). One in a line applies to code of it, also where that was inlined
elsewhere. All inputs of a run that were compiled from a file count together: a comment is unused if its line, or its kernel,
was checked in one of them, and it hides nothing in any.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tclint.findings.finding import FileReport, Finding, Fingerprints, SourceComment
from tclint.findings.rules import all_rules
from tclint.findings.selection import Selected, meant
from tclint.report.locate import calls, place

__all__ = ["suppressed"]

Use = tuple[tuple[str, int, int], str]
"""The place of a comment, and one of its selectors."""


def suppressed(reports: Sequence[FileReport], selected: Selected) -> Sequence[FileReport]:
    """*reports* with the findings marked that a comment in a source suppresses, and with those about the comments."""
    if not any(report.comments for report in reports):
        return reports
    used: set[Use] = set()
    marked = [_marked(report, used) for report in reports]
    wrong = _Wrong(marked, selected, used)
    return [
        replace(report, findings=(*report.findings, *wrong.of(report))) if report.comments else report
        for report in marked
    ]


def _marked(report: FileReport, used: set[Use]) -> FileReport:
    if not report.comments:
        return report
    findings = tuple(_suppressed(finding, report.comments, used) for finding in report.findings)
    return replace(report, findings=findings)


def _suppressed(finding: Finding, comments: Iterable[SourceComment], used: set[Use]) -> Finding:
    for comment in comments:
        if not _covers(comment, finding):
            continue
        hit = [selector for selector in comment.rules if finding.subject in meant(selector)[0]]
        used.update((_place(comment), selector) for selector in hit)
        if hit and finding.suppressed is None:
            former = finding.former
            if former is not None and not any(finding.rule.id in meant(selector)[0] for selector in hit):
                former = former._replace(named_by="a comment")
            finding = replace(finding, suppressed=comment.reason, former=former)
    return finding


def _covers(comment: SourceComment, finding: Finding) -> bool:
    if not comment.line:
        return finding.entry in comment.entries
    location = place(finding)
    return location is not None and any(
        call.line == comment.line and call.file == comment.location.file for call in calls(location)
    )


def _place(comment: SourceComment) -> tuple[str, int, int]:
    location = comment.location
    return os.path.abspath(location.file), location.line, location.column


class _Wrong:
    """The findings about comments, each in the first report with the comment."""

    def __init__(self, reports: Iterable[FileReport], selected: Selected, used: set[Use]) -> None:
        self.selected = selected
        self.used = used
        self.told: set[tuple[tuple[str, int, int], str]] = set()
        self.undecided = {
            _place(comment)
            for report in reports
            for comment in report.comments
            if report.problems or comment.location.file in report.newer
        }
        """The comments of which it is unknown whether they hide something."""

    def of(self, report: FileReport) -> Iterator[Finding]:
        """The findings about the comments in the sources of *report*."""
        from tclint.linting.suppress import INVALID, UNUSED  # few runs have comments

        prints = Fingerprints()
        for comment in report.comments:
            if comment.problem:
                yield from self._found(INVALID, report, comment, (comment.problem, comment.remedy), prints)
            elif unused := self._unused(comment):
                verb = "ignore" if comment.line else "ignore-entry"
                message = f"{verb}[{', '.join(unused)}] hides nothing"
                whole = len(unused) == len(comment.rules)
                remedy = "remove the comment" if whole else "remove this from the list"
                yield from self._found(UNUSED, report, comment, (message, remedy), prints)

    def _unused(self, comment: SourceComment) -> list[str]:
        place = _place(comment)
        if place in self.undecided or not all(map(self.selected.wants, comment.entries)):
            return []
        return [
            selector
            for selector in comment.rules
            if (place, selector) not in self.used and meant(selector)[0] <= self.selected.on
        ]

    def _found(
        self,
        rule_id: str,
        report: FileReport,
        comment: SourceComment,
        words: tuple[str, str],
        prints: Fingerprints,
    ) -> Iterator[Finding]:
        message, remedy = words
        if rule_id not in self.selected.on or (_place(comment), message) in self.told:
            return
        self.told.add((_place(comment), message))
        rule = all_rules()[rule_id]
        name = os.path.basename(comment.location.file)
        yield Finding(
            rule=rule,
            severity=rule.severity,
            confidence=rule.confidence,
            span=comment.span,
            message=f"{name}:{comment.location.line}: {message}",
            help=remedy,
            fingerprint=prints.make(rule_id, None, [name, comment.location.text or ""]),
            source_location=comment.location,
        )
