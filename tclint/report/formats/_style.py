"""The few ANSI sequences that a report needs, and sanitising of text for a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable

from tclint._pattern import pattern

BOLD = "1"
RED = "1;31"
YELLOW = "1;33"
BLUE = "1;34"
CYAN = "1;36"

_CONTROL = pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Style:
    """Colours text and makes it a hyperlink (OSC 8), where the terminal supports that."""

    def __init__(self, color: bool, links: bool = False) -> None:
        self._color = color
        self._links = links

    def __call__(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and text else text

    def link(self, url: Callable[[], str], text: str) -> str:
        """The text, linked to what *url* returns where the terminal supports hyperlinks; elsewhere, it is not called."""
        return f"\x1b]8;;{url()}\x1b\\{text}\x1b]8;;\x1b\\" if self._links and text else text


def file_url(path: str) -> str:
    """The URL of a file on this host. It contains no character that could end the escape sequence."""
    import socket
    from urllib.parse import quote

    return f"file://{quote(socket.gethostname())}{quote(os.fsencode(os.path.abspath(path)))}"


def shortened(name: str, limit: int = 80) -> str:
    """*name*, with its middle elided beyond *limit* characters; mangled names may have thousands."""
    return name if len(name) <= limit else f"{name[: limit - 21]}…{name[-20:]}"


def printable(text: str) -> str:
    """The text with every character replaced that could control the terminal or reorder the line."""
    return _CONTROL.sub("\ufffd", text)
