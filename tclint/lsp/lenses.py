"""Code lenses: above each kernel, its findings, and its verdicts if the settings ask for them."""

from __future__ import annotations

from collections import Counter

from lsprotocol import types

from tclint.findings.finding import FileReport
from tclint.findings.scales import Severity
from tclint.findings.spans import Span
from tclint.findings.verdicts import Status
from tclint.ir.nodes import Function, Module
from tclint.lsp.diagnostics import merged
from tclint.lsp.document import Lint
from tclint.report.summary import count

__all__ = ["lenses"]

_SAID = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def lenses(lint: Lint, module: Module) -> list[types.CodeLens]:
    """A lens above each kernel with a body, and above each other function with findings.

    It does nothing when it is chosen: its command has no name.
    """
    found = Counter((finding.entry, finding.severity) for finding, _ in merged(lint))
    shown = []
    for function in module.bodies:
        said = [count(n, word) for severity, word in _SAID.items() if (n := found[function.name, severity])]
        if not function.entry and not said:
            continue
        title = ", ".join(said) or "no findings"
        if function.name in lint.stale:
            title += " before the last edit"
        title = "; ".join((title, *_verdicts(lint.report, function)))
        place = lint.text.range(Span(function.start, function.start))
        shown.append(types.CodeLens(place, types.Command(title, "")))
    return shown


def _verdicts(report: FileReport, function: Function) -> list[str]:
    """The classes of hazards of a kernel by what is known of them: ``proved wgmma, proxies``."""
    known = [verdict for verdict in report.verdicts if verdict.kernel == function.name]
    return [
        f"{status.value} {', '.join(names)}"
        for status in Status
        if (names := [verdict.hazard.value for verdict in known if verdict.status is status])
    ]
