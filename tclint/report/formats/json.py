"""JSON for programs, as docs/check.schema.json describes it.

``schema`` is incremented when a key is removed or changes its meaning, not when one is added.

Lines and columns are 1-based and count code points; an end is exclusive. The ``line`` of a problem is null if it
concerns the whole input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tclint._json import to_json
from tclint.findings.finding import (
    Confirmation,
    FileReport,
    Finding,
    Fix,
    KernelExecution,
    SourceLocation,
    Step,
)
from tclint.findings.places import region
from tclint.findings.scales import Severity
from tclint.findings.spans import Span
from tclint.report.summary import FormatContext, Summary, exit_code

if TYPE_CHECKING:
    from tclint.findings.verdicts import Verdict

SCHEMA = 1
OUTCOMES = ("clean", "findings", "not-analysed")
"""By exit code; a run without inputs exits with 0 and is not clean."""
SUPPRESSED = True
DUPLICATES = True


def render(reports: Sequence[FileReport], context: FormatContext) -> str:
    """The whole run as one object."""
    document = {
        "schema": SCHEMA,
        "outcome": OUTCOMES[exit_code(reports, context.fail_on, context.summary.unmet)]
        if reports
        else OUTCOMES[-1],
        "files": [_file(report, context) for report in reports],
        "summary": _summary(context.summary),
    }
    if context.part is not None:
        document["part"] = context.part
    return to_json(document)


def _file(report: FileReport, context: FormatContext) -> dict[str, Any]:
    found: dict[str, Any] = {
        "path": report.path,
        "member": report.member,
        "origin": report.origin,
        "status": report.status,
        "problems": [
            {"line": problem.line or None, "message": problem.message} for problem in report.problems
        ],
        "findings": [_finding(report, finding, context) for finding in report.findings],
        "open_questions": [asdict(question) for question in report.open_questions],
    }
    if report.executions:
        found["executions"] = [_execution(run) for run in report.executions]
    if report.assembled is not None:
        from tclint.report.formats import _figures

        found["ptxas"] = _figures.as_object(report.assembled)
    if report.verdicts:
        found["verdicts"] = [_verdict(report, verdict) for verdict in report.verdicts]
    return found


def _execution(run: KernelExecution) -> dict[str, Any]:
    return {
        "entry": run.entry,
        "line": run.line,
        "end": run.end,
        "reason": run.reason or None,
        "launch": run.launch or None,
        "instructions": run.instructions,
    }


def _verdict(report: FileReport, verdict: Verdict) -> dict[str, Any]:
    from tclint.report.formats._verdicts import reason_fields

    return {
        "kernel": verdict.kernel,
        "class": verdict.hazard.value,
        "status": verdict.status.value,
        "rules": list(verdict.rules),
        "obligations": len(verdict.obligations),
        "discharged": sum(one.discharge is not None for one in verdict.obligations),
        "assumptions": [assumption.value for assumption in verdict.assumptions],
        "launches": list(verdict.launches),
        "reasons": [reason_fields(report, reason) for reason in verdict.reasons],
    }


def _finding(report: FileReport, finding: Finding, context: FormatContext) -> dict[str, Any]:
    target = context.locate(report, finding)
    return {
        "id": finding.rule.id,
        "name": finding.rule.name,
        "severity": finding.severity.label,
        "confidence": finding.confidence.label,
        "doubt": finding.doubt or None,
        "fails": context.fails(finding),
        "entry": finding.entry,
        **_region(report, finding.span),
        "shown_at": {
            "kind": "source" if target.source or report.asm is not None else "ptx",
            "path": target.path,
            "line": target.line,
            "column": target.column or None,
        },
        "message": finding.message,
        "help": finding.help or None,
        "help_source": asdict(finding.help_source) if finding.help_source else None,
        "manual": list(finding.rule.manual),
        "method": finding.method.value,
        "replayed": finding.replayed,
        "steps": [_step(report, step) for step in finding.steps],
        "deadlock": [
            {
                "wait": _step(report, party.wait),
                "arrivals": [_step(report, arrival) for arrival in party.arrivals],
            }
            for party in finding.deadlock
        ],
        "count": finding.count,
        "fingerprint": finding.fingerprint,
        "source_location": _source_location(finding.source_location),
        "variants": [asdict(variant) for variant in finding.variants],
        "duplicate_of": asdict(finding.duplicate_of) if finding.duplicate_of is not None else None,
        "fixes": [_fix(report, finding, fix) for fix in finding.fixes],
        "verify": _verification(report, finding),
        "suppressed": finding.suppressed,
        "confirmation": _confirmation(finding.confirmation),
    }


def _step(report: FileReport, step: Step) -> dict[str, Any]:
    return {
        **_region(report, step.span),
        "entry": step.entry,
        "role": step.role,
        "message": step.message,
        "object": step.object,
        "source_location": _source_location(step.source_location),
    }


def _confirmation(confirmation: Confirmation | None) -> dict[str, str | None] | None:
    if confirmation is None:
        return None
    return {
        "status": confirmation.status,
        "reason": confirmation.reason or None,
        "schedule": confirmation.schedule or None,
        "launch": confirmation.launch or None,
        "observation": confirmation.observation or None,
    }


def _region(report: FileReport, span: Span) -> dict[str, int]:
    start, end = region(report, span)
    return {
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
    }


def _source_location(location: SourceLocation | None) -> dict[str, Any] | None:
    if location is None:
        return None
    return {
        "file": location.file,
        "line": location.line,
        "column": location.column or None,
        "inlined_at": [_source_location(call) for call in location.inlined_at],
    }


def _verification(report: FileReport, finding: Finding) -> list[str]:
    """The command that checks the function of a finding again, after a change or another compilation."""
    from glob import escape  # the value of --entry is a pattern

    entry = [] if finding.entry is None or report.asm is not None else ["--entry", escape(finding.entry)]
    return ["tclint", "check", *entry, "-" if report.path.startswith("<") else report.path]


def _fix(report: FileReport, finding: Finding, fix: Fix) -> dict[str, Any]:
    return {
        "message": fix.message,
        "safe": fix.safe,
        "verified": finding.severity > Severity.INFO,
        "edits": [{**_region(report, edit.span), "text": edit.text} for edit in fix.edits],
    }


def _summary(summary: Summary) -> dict[str, Any]:
    found: dict[str, Any] = {
        "version": summary.version,
        "files": summary.files,
        "analysed": summary.files - summary.partial - summary.failed,
        "partial": summary.partial,
        "failed": summary.failed,
        "severities": {severity.label: number for severity, number in summary.by_severity.items()},
        "rules": summary.by_rule,
        "folded": summary.folded,
        "hidden": _total(summary.hidden),
        "below_severity": _total(summary.below_severity),
        "ignored": _total(summary.ignored),
        "suppressed": _total(summary.suppressed),
        "baselined": _total(summary.baselined),
        "gone": [asdict(entry) for entry in summary.gone],
        "excluded": summary.excluded,
        "fixed": sum(summary.fixed.values()),
        "fixed_duplicates": summary.fixed_duplicates,
        "fixable": summary.fixable,
        "unsafe_fixable": summary.unsafe_fixable,
        "asm": {**asdict(summary.asm), "arch": summary.arch},
        "executed": {"kernels": summary.executed, "incomplete": summary.incomplete},
    }
    if summary.unmet:
        found["unmet"] = [
            {
                "path": one.report.path,
                "member": one.report.member,
                "kernel": one.verdict.kernel,
                "required": str(one.requirement),
                "status": one.verdict.status.value,
            }
            for one in summary.unmet
        ]
    return found


def _total(by_rule: dict[str, int]) -> dict[str, Any]:
    return {"total": sum(by_rule.values()), "rules": by_rule}
