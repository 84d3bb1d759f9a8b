"""JSON that every reader accepts: ASCII, without lone surrogates."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["clean", "to_json"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_NON_ASCII = re.compile("[^\0-\x7f]+")


def clean(text: str) -> str:
    """The text without lone surrogates, which stand for bytes of file names that are not UTF-8."""
    return _SURROGATE.sub("\ufffd", text)


def to_json(document: Any, indent: int | None = 2) -> str:
    """*document* as JSON text that ends with a line feed; *indent* as for ``json.dumps``.

    ``json.dumps`` would write a lone surrogate as an escape sequence, which strict readers refuse.
    """
    text = clean(json.dumps(document, indent=indent, ensure_ascii=False))
    return _NON_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n"
