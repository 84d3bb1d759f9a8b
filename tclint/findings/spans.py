"""Ranges of bytes in a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tclint._dataclass import dataclass

if TYPE_CHECKING:
    from tclint.ir.nodes import Function

__all__ = ["Span", "span"]


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes ``start`` (inclusive) to ``end`` (exclusive) of a Source."""

    start: int
    end: int


def span(function: Function, site: int) -> Span:
    """The bytes of an instruction of *function* in its module."""
    instruction = function.instructions[site]
    return Span(function.start + instruction.start, function.start + instruction.end)
