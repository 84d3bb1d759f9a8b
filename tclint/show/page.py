"""The page: one self-contained HTML file, made of a template, a style sheet, a script, and the data."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["render"]

_HERE = Path(__file__).resolve().parent


def render(data: dict[str, Any]) -> str:
    """The page for the data from :func:`tclint.show.kernel.kernel`.

    The data are embedded as JSON without any character that is special in HTML, and the script inserts them as text,
    never as markup. The content security policy of the page allows only its own style and script, by their hashes.
    """
    style, script = _read("page.css"), _read("page.js")
    parts = {
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
        "form-action 'none'",
        "title": escape(f"{data['name']} - tclint"),
        "style": style,
        "script": script,
        "data": _json(data),
    }
    pieces = _read("page.html").split("{{")
    return pieces[0] + "".join(
        parts[name] + rest for name, _, rest in (piece.partition("}}") for piece in pieces[1:])
    )


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _json(data: dict[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
