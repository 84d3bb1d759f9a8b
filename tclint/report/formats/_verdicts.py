"""Verdicts in words: one line for each kernel, and what a requirement lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from tclint.findings.finding import FileReport
from tclint.findings.places import displayed_name, region
from tclint.findings.verdicts import LIMITS, Reason, Status, Verdict
from tclint.report.formats._details import named
from tclint.report.formats._style import shortened
from tclint.report.gate import Unmet

__all__ = ["by_kernel", "details", "line", "reason_fields", "reason_lines", "reason_words", "unmet_words"]


def by_kernel(report: FileReport) -> Iterator[tuple[str, list[Verdict]]]:
    """The name of each kernel with its verdicts, in the order of the text."""
    for kernel, verdicts in groupby(report.verdicts, key=lambda verdict: verdict.kernel):
        yield kernel, list(verdicts)


def line(report: FileReport, kernel: str, verdicts: Iterable[Verdict]) -> str:
    """The verdicts on one kernel on one line; classes of which the same is known are named together."""
    groups: dict[str, list[str]] = {}
    for verdict in verdicts:
        known = f"{verdict.status.value}{details(report, verdict)}"
        groups.setdefault(known, []).append(verdict.hazard.value)
    words = "; ".join(f"{', '.join(names)} {known}" for known, names in groups.items())
    return f"kernel {shortened(kernel)} in {displayed_name(report)}: {words}"


def details(report: FileReport, verdict: Verdict) -> str:
    """What supports the status, in parentheses after a space; empty for a proof without assumptions and limits."""
    if verdict.status is Status.VIOLATED:
        words = ", ".join(_rule(report, verdict, rule) for rule in verdict.rules)
    elif verdict.status in (Status.PROVED, Status.BOUNDED):
        number = len(verdict.launches)
        launches = f"{number} launch{'es' * (number != 1)}" if verdict.status is Status.BOUNDED else ""
        assumed = ", ".join(assumption.value for assumption in verdict.assumptions)
        limit = LIMITS.get(verdict.hazard, "")
        words = ", ".join(filter(None, (launches, limit, assumed and f"assuming {assumed}")))
    else:
        words = "; ".join(reason_words(report, reason) for reason in verdict.reasons[:1])
        if len(verdict.reasons) > 1:
            words += f"; and {len(verdict.reasons) - 1} more"
    return f" ({words})" if words else ""


def _rule(report: FileReport, verdict: Verdict, rule: str) -> str:
    """A rule that a kernel violates, with the location of the finding if it is reported for another kernel alone."""
    own = [
        f for f in report.findings if (f.rule.id, f.entry) == (rule, verdict.kernel) and f.suppressed is None
    ]
    elsewhere = [f.duplicate_of for f in own if f.duplicate_of is not None]
    return f"{rule}, reported at {named(elsewhere[0])}" if own and len(elsewhere) == len(own) else rule


def reason_words(report: FileReport, reason: Reason) -> str:
    """``line 12 and 3 more: what is not known; what would make it known``."""
    first, *others = reason_lines(report, reason) or (0,)
    more = f" and {len(others)} more" if others else ""
    at = f"line {first}{more}: " if first else ""
    return f"{at}{reason.what}{f'; {reason.help}' if reason.help else ''}"


def reason_lines(report: FileReport, reason: Reason) -> tuple[int, ...]:
    """The lines of the instructions of which a reason is true, without repetition; none if it is about the whole kernel."""
    at = () if reason.at is None else (reason.at, *reason.also)
    return tuple(dict.fromkeys(region(report, span)[0].line for span in at))


def reason_fields(report: FileReport, reason: Reason) -> dict[str, Any]:
    """A reason as JSON."""
    lines = reason_lines(report, reason)
    return {
        "line": lines[0] if lines else None,
        "lines": list(lines),
        "what": reason.what,
        "help": reason.help or None,
    }


def unmet_words(unmet: Unmet) -> str:
    """``gemm.ptx: gemm: wgmma is unknown (line 12: ...), but proved:wgmma is required``."""
    report, verdict, requirement = unmet
    known = f"{verdict.status.value}{details(report, verdict)}"
    return (
        f"{displayed_name(report)}: {shortened(verdict.kernel)}: {verdict.hazard.value} is {known}, "
        f"but {requirement} is required"
    )
