"""tclint, a linter for NVIDIA PTX.

Bytes become a syntax tree, the tree becomes instructions whose effects are read from one ISA table, the instructions
become a control-flow graph, analyses put a state before every instruction, and checks report findings with the path
that leads to them. :func:`check` does all of it; :mod:`tclint.api` has what it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tclint._version import __version__

if TYPE_CHECKING:
    from tclint.api import ExecutorError, Report, SettingsError, check, check_many, check_paths
    from tclint.findings.finding import (
        BlockedWait,
        Edit,
        FileReport,
        Finding,
        Fix,
        SourceLocation,
        Step,
    )
    from tclint.findings.scales import Confidence, Method, Severity
    from tclint.findings.spans import Span
    from tclint.injection.build import CaptureError
    from tclint.injection.region import capture
    from tclint.syntax.source import Problem

__all__ = [
    "BlockedWait",
    "CaptureError",
    "Confidence",
    "Edit",
    "ExecutorError",
    "FileReport",
    "Finding",
    "Fix",
    "Method",
    "Problem",
    "Report",
    "SettingsError",
    "Severity",
    "SourceLocation",
    "Span",
    "Step",
    "__version__",
    "capture",
    "check",
    "check_many",
    "check_paths",
]

_ELSEWHERE = {
    **dict.fromkeys(
        ("ExecutorError", "Report", "SettingsError", "check", "check_many", "check_paths"), "tclint.api"
    ),
    "CaptureError": "tclint.injection.build",
    "Confidence": "tclint.findings.scales",
    "Method": "tclint.findings.scales",
    "Severity": "tclint.findings.scales",
    "Problem": "tclint.syntax.source",
    "capture": "tclint.injection.region",
}


def __getattr__(name: str) -> Any:
    """The names of the API, imported when they are asked for: ``tclint --version`` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ELSEWHERE.get(name, "tclint.findings.finding")), name)
