"""The page: one HTML file that needs nothing else, made of a template, its style, its script, and the data."""

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
    """The page for what :func:`tclint.show.kernel.kernel` says.

    The data stand in it as JSON in which no character means anything to HTML, and the script makes text of them, never
    markup. A policy (CSP) in the page allows its own style and script, by their hashes, and nothing else.
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
