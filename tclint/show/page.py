"""The page: one self-contained HTML file, made of a template, a style sheet, a script, and the data."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["filled", "hashed", "read", "render"]

_HERE = Path(__file__).resolve().parent


def render(data: dict[str, Any], index: str = "") -> str:
    """The page for the data from :func:`tclint.show.kernel.kernel`, with a link to the page *index*, if there is one.

    The data are embedded as JSON without any character that is special in HTML, and the script inserts them as text,
    never as markup. The content security policy of the page allows only its own style and script, by their hashes.
    """
    style, script = read("colors.css") + read("page.css"), read("page.js")
    return filled(
        "page.html",
        {
            "policy": f"default-src 'none'; style-src {hashed(style)}; script-src {hashed(script)}; base-uri 'none'; "
            "form-action 'none'",
            "title": escape(f"{data['name']} - tclint"),
            "style": style,
            "script": script,
            "data": _json(data),
            "up": f'<a class="up" href="{escape(index)}">All kernels</a>\n  ' if index else "",
        },
    )


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The *template* with each of the *parts* in the place of its name; what the parts contain is not replaced."""
    pieces = read(template).split("{{")
    return pieces[0] + "".join(
        parts[name] + rest for name, _, rest in (piece.partition("}}") for piece in pieces[1:])
    )


def read(name: str) -> str:
    """A file of this package."""
    return (_HERE / name).read_text(encoding="utf-8")


def hashed(text: str) -> str:
    """How a content security policy allows a style or a script."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _json(data: dict[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
