"""GitLab's Code Quality report: one object per finding, in the part of the Code Climate format that GitLab reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from tclint._json import clean, to_json
from tclint.findings.finding import FileReport, Finding
from tclint.findings.places import unreported
from tclint.findings.scales import Severity
from tclint.report.formats._details import listed, variant_notes
from tclint.report.locate import ShownLocation
from tclint.report.summary import FormatContext

DUPLICATES = True
_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(reports: Sequence[FileReport], context: FormatContext) -> str:
    """The errors of inputs and the findings as one array, in which fingerprints are unique."""
    seen: Counter[str] = Counter()
    entries = [
        entry for report, found in listed(reports, context) for entry in _entries(report, found, context)
    ]
    for entry in entries:
        name = entry["fingerprint"]
        seen[name] += 1
        if seen[name] > 1:
            entry["fingerprint"] = _fingerprint(name, str(seen[name]))
    return to_json(entries)


def _entries(
    report: FileReport, findings: Sequence[tuple[Finding, ShownLocation]], context: FormatContext
) -> Iterator[dict[str, Any]]:
    path = context.locate.relative(report.path)
    member = [f"in member {report.member}"] if report.member else []
    for problem in unreported(report):
        yield _entry(
            "tclint-problem",
            "; ".join([problem.message, *member]),
            "blocker",
            _fingerprint("problem", path, report.member or "", problem.message),
            path,
            max(problem.line, 1),
        )
    for finding, target in findings:
        advice = [f"help: {finding.help}"] if finding.help else []
        advice += [f"executed: {finding.confirmation}"] if finding.confirmation is not None else []
        yield _entry(
            finding.rule.id,
            "; ".join([finding.message, *member, *advice, *variant_notes(report, finding)]),
            _SEVERITIES[finding.severity],
            _fingerprint(path, report.member or "", finding.fingerprint),
            context.locate.relative(target.path),
            target.line,
        )


def _entry(
    check: str, description: str, severity: str, fingerprint: str, path: str, line: int
) -> dict[str, Any]:
    return {
        "description": clean(description),
        "check_name": check,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": clean(path), "lines": {"begin": line}},
    }


def _fingerprint(*parts: str) -> str:
    return sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]
