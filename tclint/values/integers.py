"""Integers as registers hold them."""

from __future__ import annotations

from collections.abc import Sequence

from tclint.isa.forms import floating
from tclint.isa.modes import Modes
from tclint.isa.semantics import COMPUTE

__all__ = ["EVERY", "SHORT", "Range", "applied", "as_signed", "trailing_zeros", "type_width"]

Range = tuple[int, int]
"""The least and the greatest value. Either may lie far outside what a register can hold, which means unbounded."""
EVERY = (1 << 64) - 1
"""All 64 bits, the width of the widest integer register that is tracked."""
SHORT = (1 << 32) - 1
"""All 32 bits."""
_WIDTHS = {"8": 8, "16": 16, "32": 32, "64": 64, "128": 128}


def type_width(type_name: str) -> int:
    """The width in bits of a type such as ``.u32``."""
    return _WIDTHS.get(type_name.lstrip(".busf"), 32)


def as_signed(value: int, width: int) -> int:
    """The low *width* bits of *value*, read as a two's complement number."""
    every = (1 << width) - 1
    value &= every
    return value - every - 1 if value >> (width - 1) else value


def trailing_zeros(number: int) -> int:
    """The number of zero bits below the lowest set bit of *number*, at most 64."""
    return min((number & -number).bit_length() - 1, 64) if number else 64


def applied(name: str, modifiers: Sequence[str], numbers: Sequence[int]) -> int | None:
    """What the integer instruction *name* computes from *numbers*; None if the ISA leaves that open, or for any other.

    A result of less than 32 bits is extended as its type is (9.4.1), any other is read as a signed number.
    """
    compute = COMPUTE.get(name)
    if compute is None or floating(modifiers):
        return None
    try:
        pattern = compute(dict(enumerate(modifiers)), *(n & EVERY for n in numbers))
    except ZeroDivisionError:  # unspecified by the ISA (9.7.1.8)
        return None
    kind = next((m for m in modifiers if m[1:2] in "bus"), ".b32")
    width = 64 if Modes(tuple(modifiers)).widens else type_width(kind)
    return pattern & (1 << width) - 1 if width < 32 and kind[1] != "s" else as_signed(pattern, width)
