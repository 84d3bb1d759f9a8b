"""Formatting of a document, as ``tclint format`` does it."""

from __future__ import annotations

from lsprotocol import types

from tclint.findings.spans import Span
from tclint.lsp.text import DocumentText
from tclint.syntax import TextChange
from tclint.syntax.source import BYTE_ORDER_MARK, SourceError
from tclint.text.layout import formatted

__all__ = ["formats"]


def formats(text: DocumentText, host: bool) -> list[types.TextEdit] | None:
    """The edit that formats a document; none if it is formatted. None for one with a syntax error, or of a *host*
    language."""
    old = text.data.removeprefix(BYTE_ORDER_MARK)
    try:
        new = old if host else formatted(old)
    except SourceError:
        return None
    if new == old:
        return None if host else []
    shift = len(text.data) - len(old)
    change = TextChange.between(old, new)
    span = Span(change.start + shift, change.old_end + shift)
    return [types.TextEdit(text.range(span), new[change.start : change.new_end].decode())]
