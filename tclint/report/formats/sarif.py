"""SARIF 2.1.0, for GitHub code scanning and for viewers.

The objects are those of sarif-om, which follows a draft of the schema, validates nothing and cannot write JSON, so they
are serialised here. No other module uses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs
import sarif_om as om

from tclint._json import clean, to_json
from tclint.findings.finding import FileReport, Finding, Fix, SourceLocation
from tclint.findings.places import region
from tclint.findings.rules import Rule, docs_url, url
from tclint.findings.scales import Confidence, Severity
from tclint.findings.spans import Span
from tclint.report.formats._details import listed, parties, step_words, variant_notes
from tclint.report.locate import calls
from tclint.report.summary import FormatContext

SUPPRESSED = DUPLICATES = True
"""Suppressed findings and duplicates are wanted: a result has a property for either."""

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = "https://pypi.org/project/tclint-ptx/"
"""About tclint, unless the documentation is published elsewhere."""
_MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/"
"""What every rule rests on: the help of a rule if its page is not published."""
_BASE = "%SRCROOT%"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_PRIORITIES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "recommendation"}
_PRECISIONS = {
    Confidence.LOW: "low",
    Confidence.MEDIUM: "medium",
    Confidence.HIGH: "high",
    Confidence.CONFIRMED: "very-high",
}
_MAX_VARIANTS = 100
"""Related locations per result for its variants. GitHub accepts a thousand, more than a reader can use."""
_PROBLEM = om.ReportingDescriptor(
    id="TCLINT-INPUT",
    name="InputNotAnalysed",
    short_description=om.MultiformatMessageString(text="An input was not analysed, or not all of it."),
    full_description=om.MultiformatMessageString(
        text="An input could not be read, is not PTX, or has parts that could not be analysed. "
        "The absence of findings in these parts does not mean that they are correct."
    ),
    help=om.MultiformatMessageString(text="The message gives the reason; ptxas may report details."),
)
_LINK = re.compile(r"\[([^\[\]]*)\](?=\()")


def render(reports: Sequence[FileReport], context: FormatContext) -> str:
    """The whole run as one log."""
    # Only these, since the pages of all rules make a log of a megabyte.
    rules = {finding.rule.id: finding.rule for report in reports for finding in report.findings}
    ordered = [rules[id] for id in sorted(rules)]
    log = om.SarifLog(version="2.1.0", schema_uri=_SCHEMA, runs=[_Run(ordered, context).of(reports)])
    return to_json(_encoded(log))


class _Run:
    """Builds the SARIF objects of one run."""

    def __init__(self, rules: list[Rule], context: FormatContext) -> None:
        self._context = context
        self._rules = rules
        self._no_ptx: dict[int, bool] = {}
        self._index = {rule.id: index for index, rule in enumerate(rules)}

    def of(self, reports: Sequence[FileReport]) -> Any:
        """The SARIF run for *reports*."""
        version = self._context.summary.version
        return om.Run(
            tool=om.Tool(
                driver=om.ToolComponent(
                    name="tclint",
                    full_name=f"tclint {version}",
                    version=version,
                    semantic_version=version,
                    information_uri=docs_url() or _HOME,
                    rules=[_rule(rule) for rule in self._rules],
                    notifications=[_PROBLEM],
                )
            ),
            automation_details=om.RunAutomationDetails(id="tclint/"),
            column_kind="unicodeCodePoints",
            original_uri_base_ids={_BASE: om.ArtifactLocation(uri=_folder_uri(self._context.locate.root))},
            artifacts=self._artifacts(reports),
            invocations=[
                om.Invocation(
                    execution_successful=not (self._context.summary.failed or self._context.summary.partial),
                    working_directory=om.ArtifactLocation(uri=_folder_uri(os.getcwd())),
                    tool_execution_notifications=[
                        n for report in reports for n in self._notifications(report)
                    ],
                )
            ],
            results=[
                self._result(report, finding)
                for report, found in listed(reports, self._context)
                for finding, _ in found
            ],
            properties=self._properties(reports),
        )

    def _properties(self, reports: Sequence[FileReport]) -> dict[str, Any] | None:
        """The properties of the run: what ptxas makes of each kernel, the verdicts on it, and what ``tclint merge`` needs; None
        without any."""
        part = {} if self._context.part is None else {"tclint/part": dict(self._context.part)}
        return {**self._figures(reports), **self._verdicts(reports), **part} or None

    def _figures(self, reports: Sequence[FileReport]) -> dict[str, Any]:
        """The property with what ptxas makes of each kernel; empty without any."""
        from tclint.report.formats import _figures

        found = [
            {"uri": self._artifact(report.path).uri, "member": report.member, **_figures.as_object(made)}
            for report in reports
            if (made := report.assembled) is not None
        ]
        return {"tclint/ptxas": found} if found else {}

    def _verdicts(self, reports: Sequence[FileReport]) -> dict[str, Any]:
        """The property with the verdicts on each kernel; empty without any."""
        if not any(report.verdicts for report in reports):
            return {}
        from tclint.report.formats._verdicts import reason_words

        found = [
            {
                "uri": self._artifact(report.path).uri,
                "member": report.member,
                "kernel": clean(verdict.kernel),
                "class": verdict.hazard.value,
                "status": verdict.status.value,
                "assumptions": [assumption.value for assumption in verdict.assumptions],
                "launches": list(verdict.launches),
                "rules": list(verdict.rules),
                "reasons": [clean(reason_words(report, reason)) for reason in verdict.reasons],
            }
            for report in reports
            for verdict in report.verdicts
        ]
        return {"tclint/verdicts": found}

    def _artifacts(self, reports: Sequence[FileReport]) -> list[Any]:
        """The inputs, with a hash where the text is available."""
        found: dict[str, Any] = {}
        for report in reports:
            artifact = om.Artifact(location=self._artifact(report.path), roles=["analysisTarget"])
            if report.member is None:
                artifact.source_language = "ptx"
                if report.source is not None:
                    artifact.hashes = {"sha-256": report.source.sha256}
            found.setdefault(report.path, artifact)
        return list(found.values())

    def _notifications(self, report: FileReport) -> Iterator[Any]:
        for problem in report.problems:
            member = f"{report.member}: " if report.member else ""
            yield om.Notification(
                message=om.Message(text=_plain(f"{member}{problem.message}")),
                level="error",
                descriptor=om.ReportingDescriptorReference(id=_PROBLEM.id, index=0),
                locations=[self._at(report.path, line=problem.line)],
            )

    def _result(self, report: FileReport, finding: Finding) -> Any:
        related = list(self._related(report, finding))
        result = om.Result(
            rule_id=finding.rule.id,
            rule_index=self._index[finding.rule.id],
            level=_LEVELS[finding.severity],
            message=om.Message(text=_message(report, finding, related)),
            locations=[self._location(report, finding)],
            related_locations=[location for location, _ in related] or None,
            code_flows=self._code_flows(report, finding),
            partial_fingerprints={
                # GitHub reads only this key; without it, it hashes the line, including register names.
                "primaryLocationLineHash": finding.fingerprint,
                "tclint/v1": finding.fingerprint,
            },
            # The lines of an edit are those of the PTX, which a member of another file does not have.
            fixes=[self._fix(report, fix) for fix in finding.fixes if report.member is None] or None,
            properties={
                "tclint/confidence": finding.confidence.label,
                "tclint/method": finding.method.value,
                "tclint/replayed": finding.replayed,
                "tclint/uses": finding.count,
                "tclint/variants": len(finding.variants),
            },
        )
        if self._context.baseline:  # baselined findings are left out: GitHub would open an alert for each
            result.baseline_state = "new"
        if (first := finding.duplicate_of) is not None:
            result.properties["tclint/duplicateOf"] = {
                **asdict(first),
                "path": self._artifact(first.path).uri,
                "entry": clean(first.entry) if first.entry else None,
            }
        if finding.doubt:
            result.properties["tclint/doubt"] = finding.doubt
        if finding.help_source is not None:
            result.properties["tclint/helpSource"] = asdict(finding.help_source)
        if finding.suppressed is not None:
            # sarif-om calls the status "state", which the final schema does not have. Without one, it is accepted.
            result.suppressions = [
                om.Suppression(kind="inSource", justification=clean(finding.suppressed) or None)
            ]
        if finding.confirmation is not None:
            result.properties["tclint/confirmation"] = {
                "status": finding.confirmation.status,
                "reason": clean(finding.confirmation.reason),
                "schedule": finding.confirmation.schedule,
                "launch": clean(finding.confirmation.launch),
                "observation": clean(finding.confirmation.observation),
            }
        return result

    def _location(self, report: FileReport, finding: Finding) -> Any:
        """The location of the finding: in the source if requested and known, else in the PTX."""
        target = self._context.locate(report, finding)
        if target.source is not None:
            location = self._line(target.source)
            if target.source.text is not None:
                snippet = om.ArtifactContent(text=clean(target.source.text))
                location.physical_location.region.snippet = snippet
        else:
            location = self._span(report, finding.span)
            if location.physical_location.region is not None:
                snippet = om.ArtifactContent(text=_text(report, finding.span))
                location.physical_location.region.snippet = snippet
        if finding.entry is not None:
            name = clean(finding.entry)
            qualified = clean(f"{report.member}::{finding.entry}") if report.member else name
            location.logical_locations = [
                om.LogicalLocation(name=name, fully_qualified_name=qualified, kind="function")
            ]
        return location

    def _related(self, report: FileReport, finding: Finding) -> Iterator[tuple[Any, str]]:
        """Other locations with their ids, each with the words of the message that link to it, or an empty string."""
        number = 0

        def numbered(location: Any, words: str, link: str = "") -> tuple[Any, str]:
            nonlocal number
            number += 1
            location.id = number
            location.message = om.Message(text=_plain(words))
            return location, link

        target = self._context.locate(report, finding)
        for step in finding.steps:
            words = step_words(step)
            yield numbered(self._span(report, step.span), f"{words}{self._inside(report, step.span)}", words)
        if target.source is not None and all(step.span != finding.span for step in finding.steps):
            words = f"the instruction in the PTX{self._inside(report, finding.span)}"
            yield numbered(self._span(report, finding.span), words, "PTX")
        if finding.source_location is not None:
            for call in calls(finding.source_location):
                if call != target.source:
                    yield numbered(self._line(call), "the source line or a call through which it was inlined")
        for _, step in parties(finding):
            yield numbered(self._span(report, step.span), f"in the deadlock: {step_words(step)}")
        first = () if finding.duplicate_of is None else (finding.duplicate_of,)
        for variant in (*first, *finding.variants[:_MAX_VARIANTS]):
            entry = f" in {variant.entry}" if variant.entry else ""
            location = self._at(variant.path, line=variant.line, column=variant.column)
            yield numbered(location, f"the same defect{entry}")

    def _code_flows(self, report: FileReport, finding: Finding) -> list[Any] | None:
        if not finding.steps:
            return None
        flow = []
        for index, step in enumerate(finding.steps, 1):
            line = self._context.locate(report, step).source
            location = self._line(line) if line is not None else self._span(report, step.span)
            location.message = om.Message(text=_plain(step_words(step)))
            if step.entry is not None:
                name = clean(step.entry)
                location.logical_locations = [
                    om.LogicalLocation(name=name, fully_qualified_name=name, kind="function")
                ]
            importance = "essential" if index in (1, len(finding.steps)) else "important"
            flow.append(
                om.ThreadFlowLocation(location=location, execution_order=index, importance=importance)
            )
        return [om.CodeFlow(thread_flows=[om.ThreadFlow(locations=flow)])]

    def _fix(self, report: FileReport, fix: Fix) -> Any:
        replacements = [
            om.Replacement(
                deleted_region=_region(report, edit.span),
                inserted_content=om.ArtifactContent(text=clean(edit.text)) if edit.text else None,
            )
            for edit in fix.edits
        ]
        change = om.ArtifactChange(artifact_location=self._artifact(report.path), replacements=replacements)
        return om.Fix(description=om.Message(text=_plain(fix.message)), artifact_changes=[change])

    def _span(self, report: FileReport, span: Span) -> Any:
        """The place of *span*: the file alone if its lines are not those of the PTX."""
        return self._physical(report.path, None if self._has_no_ptx(report) else _region(report, span))

    def _has_no_ptx(self, report: FileReport) -> bool:
        if id(report) not in self._no_ptx:
            self._no_ptx[id(report)] = self._context.locate.has_no_ptx(report)
        return self._no_ptx[id(report)]

    def _inside(self, report: FileReport, span: Span) -> str:
        """Where *span* is in PTX that is no file: `` (gemm.ptx:42)``; else empty."""
        if not self._has_no_ptx(report):
            return ""
        return f" ({report.member}:{region(report, span)[0].line})"

    def _line(self, location: SourceLocation) -> Any:
        return self._at(location.file, line=location.line, column=location.column)

    def _at(self, path: str, *, line: int, column: int = 0) -> Any:
        region = om.Region(start_line=line, start_column=column or None) if line else None
        return self._physical(path, region)

    def _physical(self, path: str, region: Any) -> Any:
        return om.Location(
            physical_location=om.PhysicalLocation(artifact_location=self._artifact(path), region=region)
        )

    def _artifact(self, path: str) -> Any:
        relative = self._context.locate.relative(path)
        if os.path.isabs(relative):
            return om.ArtifactLocation(uri=Path(relative).as_uri())
        return om.ArtifactLocation(uri=quote(os.fsencode(relative)), uri_base_id=_BASE)


def _rule(rule: Rule) -> Any:
    body = rule.body.strip() or rule.summary
    return om.ReportingDescriptor(
        id=rule.id,
        name=rule.name,
        short_description=om.MultiformatMessageString(text=rule.summary),
        full_description=om.MultiformatMessageString(text=_first_paragraph(body)),
        help=om.MultiformatMessageString(
            text=f"{rule.summary} Run tclint explain {rule.id} for details.", markdown=body
        ),
        help_uri=url(rule) or _MANUAL,
        default_configuration=om.ReportingConfiguration(level=_LEVELS[rule.severity], enabled=rule.default),
        properties={
            "tags": list(dict.fromkeys(("ptx", rule.family, "correctness"))),
            "precision": _PRECISIONS[rule.confidence],
            "problem.severity": _PRIORITIES[rule.severity],
        },
    )


def _first_paragraph(body: str) -> str:
    """The first paragraph of a page in plain text, cut to the thousand characters that GitHub shows."""
    paragraphs = (" ".join(text.split()) for text in body.split("\n\n") if not text.startswith("#"))
    return next(paragraphs, body).replace("`", "")[:1000]


def _message(report: FileReport, finding: Finding, related: list[tuple[Any, str]]) -> str:
    """The message, the path with a link for each step, the help, and notes on variants."""
    links = [f"[{_bracketed(words)}]({location.id})" for location, words in related if words]
    parts = [
        _plain(finding.message),
        *([f"Path: {', then '.join(links[: len(finding.steps)])}"] if finding.steps else []),
        *(f"In the {link}" for link in links[len(finding.steps) :]),
        *([f"Help: {_plain(finding.help)}"] if finding.help else []),
        *([f"In {source.producer}: {_plain(source.text)}"] if (source := finding.help_source) else []),
        *(_plain(note[0].upper() + note[1:]) for note in variant_notes(report, finding)),
    ]
    return ". ".join(part.rstrip(".") for part in parts) + "."


def _plain(text: str) -> str:
    """*text* with everything escaped that SARIF would read as a link."""
    return _LINK.sub(r"\\[\1\\]", clean(text))


def _bracketed(text: str) -> str:
    """*text* escaped for use as the text of a link."""
    return clean(text).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _region(report: FileReport, span: Span) -> Any:
    start, end = region(report, span)
    return om.Region(
        start_line=start.line, start_column=start.column, end_line=end.line, end_column=end.column
    )


def _text(report: FileReport, span: Span) -> str:
    assert report.source is not None  # guaranteed by FileReport
    return report.source.data[span.start : span.end].decode(errors="replace")


def _folder_uri(path: str) -> str:
    return Path(path).as_uri().rstrip("/") + "/"


@cache
def _fields(kind: type[Any]) -> list[tuple[str, str, Any]]:
    """The attributes of a sarif-om class, their names in the schema, and the values to omit."""
    return [
        (
            field.name,
            field.metadata["schema_property_name"],
            () if field.name == "level" else (field.default, None),
        )
        for field in attrs.fields(kind)
    ]


def _encoded(value: Any) -> Any:
    """*value* as objects that ``json`` can write. A level is never omitted: it would default to that of the rule."""
    if attrs.has(type(value)):
        fields = ((key, getattr(value, name), omitted) for name, key, omitted in _fields(value.__class__))
        return {key: _encoded(item) for key, item, omitted in fields if item not in omitted}
    if isinstance(value, dict):
        return {key: _encoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    return value
