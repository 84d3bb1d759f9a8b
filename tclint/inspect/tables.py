"""Tables of plain text for people: ``tclint barriers`` and ``tclint targets``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tclint.report.formats._style import printable

__all__ = ["Cells", "columns", "few", "printable_line", "short_name"]

Cells = tuple[str, ...]
_COLOURS = re.compile(r"(\x1b\[[\d;]*m)")
_MAX_ITEMS = 4
"""Line numbers, or names, that are listed; the remaining ones are counted."""
_MAX_NAME = 80
"""Characters of a name that are shown as text."""


def columns(rows: Iterable[Cells]) -> list[str]:
    """Rows as lines with aligned columns."""
    rows = list(rows)
    if not rows:
        return []
    wide = max(map(len, rows))
    widths = [max((len(row[k]) for row in rows if k < len(row)), default=0) for k in range(wide)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False) if width]
        lines.append("  ".join(cells).rstrip())
    return lines


def few(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_ITEMS
    return ", ".join(names[:_MAX_ITEMS]) + (f" and {rest} more" if rest > 0 else "")


def short_name(name: str) -> str:
    """The name of a kernel with its middle elided if it is long; names of templates may have a thousand characters."""
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 21]}...{name[-18:]}"


def printable_line(line: str, color: bool) -> str:
    """*line* without characters that could control the terminal, except for our own colours."""
    if not color:
        return printable(line)
    return "".join(part if n % 2 else printable(part) for n, part in enumerate(_COLOURS.split(line)))
