"""The output formats, one module each, discovered by file name.

A format is a module ``tclint/report/formats/<format>.py`` with a function ``render(reports, context) -> str``. Hidden
findings have been removed from the reports that it gets, and ``context.summary`` has the counts. Suppressed findings
are removed too, unless the module sets ``SUPPRESSED = True`` and marks them itself, and duplicates of a finding
(:mod:`tclint.report.fold`), unless it sets ``DUPLICATES = True``: formats for programs do, so that no file with a finding
looks clean.

Add a module here to add a format (CONTRIBUTING.md, "Add an output format").
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from tclint._data import modules

if TYPE_CHECKING:
    from tclint.findings.finding import FileReport
    from tclint.report.summary import FormatContext


class Renderer(Protocol):
    """The function ``render`` of a format; its text ends with a line feed or is empty."""

    def __call__(self, reports: Sequence[FileReport], context: FormatContext) -> str: ...


def formats() -> list[str]:
    """The names of all formats. Modules whose name starts with an underscore are not formats."""
    return modules(__path__)


def renderer(name: str) -> Renderer:
    """The ``render`` function of a format that ``formats`` lists."""
    module = import_module(f"{__name__}.{name}")
    render = cast(Renderer, module.render)
    suppressed, duplicates = (getattr(module, name, False) for name in ("SUPPRESSED", "DUPLICATES"))
    return lambda reports, context: render(
        [_without(report, suppressed, duplicates) for report in reports], context
    )


def _without(report: FileReport, suppressed: bool, duplicates: bool) -> FileReport:
    """*report* without suppressed findings and duplicates, unless these are wanted."""
    from dataclasses import replace

    findings = tuple(
        finding
        for finding in report.findings
        if (suppressed or finding.suppressed is None) and (duplicates or finding.duplicate_of is None)
    )
    return report if len(findings) == len(report.findings) else replace(report, findings=findings)
