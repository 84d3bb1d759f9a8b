"""JUnit XML: one suite per input, one test case per finding, valid for the schemas of Jenkins and of Ant.

A finding that does not fail the run (``--fail-on``) is a skipped test, and a problem of an input is an error. An input
without findings has one test that passed. The name of a test does not depend on line numbers, so CI systems can follow
its history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from xml.sax.saxutils import escape, quoteattr

from tclint._named_tuple import NamedTuple
from tclint.findings.finding import FileReport, Finding
from tclint.findings.places import displayed_name, unreported
from tclint.report.formats._details import details, where
from tclint.report.summary import FormatContext

DUPLICATES = True
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Case(NamedTuple):
    name: str
    outcome: str
    """``failure``, ``error`` or ``skipped``; empty if passed."""
    type: str = ""
    message: str = ""
    text: str = ""


def render(reports: Sequence[FileReport], context: FormatContext) -> str:
    """The whole run as one ``testsuites`` element."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    suites = [line for number, report in enumerate(reports) for line in _suite(number, report, now, context)]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", *suites, "</testsuites>", ""])


def _suite(number: int, report: FileReport, now: str, context: FormatContext) -> Iterator[str]:
    path = context.locate.relative(report.path) + (f"({report.member})" if report.member else "")
    cases = [*_problems(report), *(_case(report, finding, context) for finding in report.findings)]
    cases = cases or [_Case("tclint", "")]
    outcomes = [case.outcome for case in cases]
    yield _tag(
        "testsuite",
        {
            "name": path,
            "package": "tclint",
            "id": str(number),
            "timestamp": now,
            "hostname": "localhost",
            "tests": str(len(cases)),
            "failures": str(outcomes.count("failure")),
            "errors": str(outcomes.count("error")),
            "skipped": str(outcomes.count("skipped")),
            "time": "0",
        },
    )
    yield from _properties(report)
    for case in cases:
        yield _tag("testcase", {"name": case.name, "classname": path, "time": "0"})
        if case.outcome:
            kind = {"type": case.type} if case.type else {}
            tag = _tag(case.outcome, kind | {"message": case.message})
            yield f"{tag}{escape(_legal(case.text))}</{case.outcome}>"
        yield "</testcase>"
    yield "<system-out/>"
    yield "<system-err/>"
    yield "</testsuite>"


def _properties(report: FileReport) -> Iterator[str]:
    """What ptxas makes of the kernels, if the settings have a budget for it."""
    if report.assembled is None:
        yield "<properties/>"
        return
    from tclint.report.formats import _figures

    yield "<properties>"
    for name, value in (("ptxas", report.assembled.ptxas), *_figures.names(report.assembled)):
        yield f"{_tag('property', {'name': name, 'value': value})}</property>"
    yield "</properties>"


def _problems(report: FileReport) -> Iterator[_Case]:
    for number, problem in enumerate(unreported(report), 1):
        at = f"{displayed_name(report)}:{problem.line}" if problem.line else displayed_name(report)
        yield _Case(f"problem {number}", "error", "problem", problem.message, f"{at}: {problem.message}")


def _case(report: FileReport, finding: Finding, context: FormatContext) -> _Case:
    fails = context.fail_on is not None and finding.severity >= context.fail_on
    at = where(context.locate(report, finding))
    return _Case(
        f"{finding.rule.id} {finding.rule.name} [{finding.fingerprint}]",
        "failure" if fails else "skipped",
        finding.severity.label if fails else "",  # Ant's schema does not allow a type for skipped tests
        finding.message,
        "\n".join([f"{at}: {finding.message}", *details(report, finding, context)]),
    )


def _tag(name: str, attributes: dict[str, str]) -> str:
    return f"<{name} {' '.join(f'{key}={quoteattr(_legal(value))}' for key, value in attributes.items())}>"


def _legal(text: str) -> str:
    """The text with the characters replaced that XML 1.0 forbids even as character references."""
    return _ILLEGAL.sub("\ufffd", text)
