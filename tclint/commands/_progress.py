"""How far a long run is, on a terminal only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from tclint.report.formats._style import printable

if TYPE_CHECKING:
    from tclint.driver.pool import Checked

_PATIENCE = 1.0
"""Seconds before anything is said."""
_PERIOD = 0.1
_CLEAR = "\r\x1b[2K"
_WIDTH = 78
"""At most; a line that is wider than the terminal could not be cleared."""


def shown_on(stream: TextIO, items: Iterable[Checked]) -> Iterator[Checked]:
    """The items, while a line on *stream* says how many there were; it is gone when they are."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield from items
        return
    due = monotonic() + _PATIENCE
    visible = False
    try:
        for number, item in enumerate(items, 1):
            if monotonic() >= due:
                text = printable(f"tclint: {number} checked, the last one {item.report.path}")
                width = min(_WIDTH, _columns(stream) - 1)
                stream.write(_CLEAR + (text if len(text) <= width else text[: width - 1] + "…"))
                stream.flush()
                visible, due = True, monotonic() + _PERIOD
            yield item
    finally:
        if visible:
            stream.write(_CLEAR)
            stream.flush()


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH
    except OSError:
        return _WIDTH
