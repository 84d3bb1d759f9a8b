"""tclint, a linter for NVIDIA PTX.

Bytes become a syntax tree, the tree becomes instructions whose effects are read from one ISA table, the instructions
become a control-flow graph, analyses put a state before every instruction, and checks report findings with the path
that leads to them. :func:`check` does all of it; :mod:`tclint.api` has what it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tclint.api import Report, SettingsError, check, check_paths
    from tclint.finding import (
        Confidence,
        Edit,
        FileReport,
        Finding,
        Fix,
        Problem,
        Severity,
        SourceLocation,
        Span,
        Step,
    )

__version__ = "0.1.0"
__all__ = [
    "Confidence",
    "Edit",
    "FileReport",
    "Finding",
    "Fix",
    "Problem",
    "Report",
    "SettingsError",
    "Severity",
    "SourceLocation",
    "Span",
    "Step",
    "__version__",
    "check",
    "check_paths",
]

_API = frozenset(("Report", "SettingsError", "check", "check_paths"))


def __getattr__(name: str) -> Any:
    """The names of the API, imported when they are asked for: ``tclint --version`` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("tclint.api" if name in _API else "tclint.finding"), name)
