"""Ranges of bytes in a source."""

from __future__ import annotations

from tclint._dataclass import dataclass

__all__ = ["Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes ``start`` (inclusive) to ``end`` (exclusive) of a Source."""

    start: int
    end: int
