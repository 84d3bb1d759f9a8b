"""The output formats, one module each, found by discovery.

A format is a module ``tclint/output/<format>.py`` with a function ``render(reports, context) -> str``. It gets the
reports as they are to be shown: what is hidden is left out already, and ``context.summary`` says how much that was.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from tclint.finding import FileReport
    from tclint.report import Context


class Renderer(Protocol):
    """The function ``render`` of a format; its text ends with a line feed or is empty."""

    def __call__(self, reports: Sequence[FileReport], context: Context) -> str: ...


def formats() -> list[str]:
    """The names of all formats; a module whose name starts with an underscore is none."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def renderer(name: str) -> Renderer:
    """The render function of a format that ``formats`` names."""
    return cast(Renderer, import_module(f"{__name__}.{name}").render)
