"""The progress line of a long run, on a terminal only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from tclint.report.formats._style import printable

if TYPE_CHECKING:
    from tclint.driver.pool import Checked

_DELAY_SECONDS = 1.0
"""A run that is shorter than this shows no progress."""
_UPDATE_SECONDS = 0.1
_CLEAR = "\r\x1b[2K"
_MAX_WIDTH = 78
"""Columns of the line, which must not be wider than the terminal, since only one row is cleared."""


class Line:
    """A line on a terminal that is replaced by the next one; nothing is shown anywhere else, or in a short run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._due = monotonic() + _DELAY_SECONDS
        self._visible = False

    @property
    def due(self) -> bool:
        """Whether the line is to be replaced."""
        return self._shown and monotonic() >= self._due

    def show(self, text: str) -> None:
        """Replaces the line."""
        shown = printable(f"tclint: {text}")
        width = min(_MAX_WIDTH, _columns(self._stream) - 1)
        self._stream.write(_CLEAR + (shown if len(shown) <= width else shown[: width - 1] + "…"))
        self._stream.flush()
        self._visible, self._due = True, monotonic() + _UPDATE_SECONDS

    def clear(self) -> None:
        """Removes the line."""
        if self._visible:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._visible = False


def shown_on(stream: TextIO, items: Iterable[Checked], total: int) -> Iterator[Checked]:
    """*items*, while a line on *stream* shows how many of *total* files are checked, and how long the others will take.

    The line is removed at the end.

    Items with the same path, the modules of a container, must be adjacent and count as one file.
    """
    began = monotonic()
    line = Line(stream)
    number, path = 0, None
    try:
        for item in items:
            number, path = number + (item.report.path != path), item.report.path
            if line.due:
                line.show(f"{number}/{total} files{_left(monotonic() - began, number, total)}, {path}")
            yield item
    finally:
        line.clear()


def _left(took: float, number: int, total: int) -> str:
    """How long the files that are left will take, if each takes as long as one did so far; "" below a second."""
    minutes, seconds = divmod(round(took / number * (total - number)), 60)
    if minutes or seconds:
        return f", about {f'{minutes} min' if minutes else f'{seconds} s'} left"
    return ""


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _MAX_WIDTH
    except OSError:
        return _MAX_WIDTH
