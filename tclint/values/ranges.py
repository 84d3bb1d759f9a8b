"""Ranges of numbers whose ends may be unbounded, and what reading and dividing does to them."""

from __future__ import annotations

from collections.abc import Sequence

from tclint._named_tuple import NamedTuple
from tclint.values.integers import Range
from tclint.values.nodes import Value

__all__ = [
    "INFINITY",
    "MAX_FINITE_BOUND",
    "UNBOUNDED",
    "Division",
    "as_read",
    "intersect",
    "may_be_congruent",
    "ordered_as_unsigned",
]

INFINITY = 1 << 80
"""The absolute value of an unbounded end of a range."""
UNBOUNDED: Range = (-INFINITY, INFINITY)
MAX_FINITE_BOUND = 1 << 70
"""An end of a range beyond this is unbounded, and not a value that would have to wrap in a register."""


def intersect(a: Range, b: Range) -> Range:
    """The intersection of two ranges; the first one if they are disjoint, so a contradiction implies nothing."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


def as_read(a: Range, width: int, signed: bool, step: int = 1) -> Range:
    """The range of a register of *width* bits that holds a value in *a*, a multiple of *step* plus a constant.

    An unbounded end does not make a signed number wrap, nor one that is read as unsigned if *step* is 1.
    """
    half = 1 << width - 1
    least, most = (-half, half - 1) if signed else (0, 2 * half - 1)
    reach = half if signed else half * step
    low = a[0] if a[0] > -MAX_FINITE_BOUND else -reach
    high = a[1] if a[1] < MAX_FINITE_BOUND else reach - 1 if low >= 0 else most
    if not signed and high < 0:
        low, high = low + 2 * half, high + 2 * half
    return (low, high) if least <= low <= high <= most else (least, most)


def ordered_as_unsigned(ranges: Sequence[Range], width: int) -> bool:
    """Whether registers of *width* bits that hold values in *ranges* compare as unsigned as these values do.

    So they do if none of the values wraps, or all of them once. A range whose end nearer to 0 is a signed number of
    *width* bits is taken to be one of signed numbers, which do not wrap, however far its other end is.
    """
    half = 1 << width - 1
    return all(low >= 0 and (low < half or high < 2 * half) for low, high in ranges) or all(
        high < 0 and (high >= -half or low >= -2 * half) for low, high in ranges
    )


def may_be_congruent(one: Range, two: Range, width: int, step: int = 1) -> bool:
    """Whether values of two disjoint ranges can still be equal modulo the size of a register.

    They differ by multiples of *step*, a power of two. An unbounded end is a signed number of *width* bits, times *step*.
    """
    reach = step << width - 1
    return any(
        1 << width <= (difference if difference < MAX_FINITE_BOUND else reach)
        for difference in (one[1] - two[0], two[1] - one[0])
    )


class Division(NamedTuple):
    """A value divided by a constant."""

    number: Value
    by: int
    width: int
    signed: bool
    floor: bool
    """Whether the quotient is rounded down, and not towards zero."""

    def quotients(self, numbers: Range) -> Range:
        """The range of the quotients of *numbers*."""
        low, high = (x // self.by if self.floor or x >= 0 else -(-x // self.by) for x in numbers)
        return low, high

    def numbers(self, quotients: Range) -> Range:
        """The range of the dividends whose quotients are in *quotients*."""
        low, high = (x * self.by if abs(x) < MAX_FINITE_BOUND else x for x in quotients)
        rest = self.by - 1
        return low - (0 if self.floor or low > 0 else rest), high + (rest if self.floor or high >= 0 else 0)
