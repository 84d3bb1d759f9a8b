"""The abstract value of a register in a thread group: one constant for all threads, a constant for each, or unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from tclint.ir.nodes import Immediate

__all__ = [
    "ALL_BITS",
    "LaneResults",
    "Lanes",
    "apply",
    "broadcast",
    "collapse",
    "gather",
    "immediate",
    "merge",
    "negated",
    "select",
]

ALL_BITS = (1 << 64) - 1
"""A mask of the widest register."""

Lanes = int | tuple[int | None, ...] | None
"""A bit pattern that all threads share, or one for each thread, in which None is an unknown one; None: unknown in all
threads.
"""


def collapse(values: Sequence[int | None]) -> Lanes:
    """One value if all are equal."""
    return values[0] if values.count(values[0]) == len(values) else tuple(values)


def broadcast(value: Lanes, size: int) -> tuple[int | None, ...]:
    """The value of each of *size* threads."""
    return value if isinstance(value, tuple) else (value,) * size


def gather(value: Lanes, positions: Sequence[int]) -> Lanes:
    """The value in the threads at *positions*."""
    return collapse([value[i] for i in positions]) if isinstance(value, tuple) else value


def apply(function: Callable[..., int], values: Sequence[Lanes]) -> Lanes:
    """*function* in every thread; unknown where an argument is."""
    if None in values:
        return None
    if tuple not in map(type, values):
        return function(*values)
    columns = [v if isinstance(v, tuple) else repeat(v) for v in values]
    if any(isinstance(v, tuple) and None in v for v in values):
        rows = zip(*columns, strict=False)
        return collapse([None if None in row else function(*row) for row in rows])
    return collapse([*map(function, *columns)])


def negated(predicate: Lanes) -> Lanes:
    """The negation of a predicate in every thread."""
    return 1 - predicate if isinstance(predicate, int) else apply(lambda p: 1 - p, [predicate])


def immediate(operand: Immediate) -> Lanes:
    """The bits of an integer constant; None for a floating-point one."""
    return operand.value & ALL_BITS if isinstance(operand.value, int) else None


class LaneResults(dict[Any, Lanes]):
    """The results of one operation, by the values of its sources that are not constants: one value, or a tuple of
    several.

    A result is computed when it is asked for first. Values are immutable, so all replays of a kernel share the
    results.
    """

    __slots__ = ("_decisive", "_function", "_positions", "_sources")

    def __init__(
        self,
        function: Callable[..., int],
        sources: Sequence[object],
        decisive: int | None = None,
    ) -> None:
        self._function = function
        self._sources: list[Lanes] = [immediate(o) if isinstance(o, Immediate) else None for o in sources]
        self._positions = [i for i, o in enumerate(sources) if not isinstance(o, Immediate)]
        self._decisive = decisive
        """The value of a predicate that decides the result whatever the other source is."""

    def __missing__(self, held: Any) -> Lanes:
        values = self._sources.copy()
        for position, value in zip(
            self._positions, (held,) if len(self._positions) == 1 else held, strict=True
        ):
            values[position] = value
        self[held] = found = self._computed(values)
        return found

    def _computed(self, values: list[Lanes]) -> Lanes:
        if self._decisive is not None and self._decisive in values:
            return self._decisive
        try:
            return apply(self._function, values)
        except ZeroDivisionError:  # undefined by the ISA (9.7.1.8)
            return None


def select(chosen: Lanes, yes: Lanes, no: Lanes, size: int) -> Lanes:
    """*yes* where *chosen* holds, *no* elsewhere."""
    if yes == no:
        return yes
    if isinstance(chosen, int):
        return yes if chosen else no
    if chosen is None:
        return None
    both = zip(chosen, broadcast(yes, size), broadcast(no, size), strict=True)
    return collapse([None if c is None else y if c else n for c, y, n in both])


def merge(parts: Sequence[tuple[Sequence[int], Lanes]], size: int) -> Lanes:
    """The value in threads that reconverge, each part with the positions of its threads.

    Positions without a part are undefined.
    """
    first = parts[0][1]
    if not isinstance(first, tuple) and all(value == first for _, value in parts):
        return first
    whole: list[int | None] = [None] * size
    for positions, value in parts:
        for position, number in zip(positions, broadcast(value, len(positions)), strict=True):
            whole[position] = number
    return collapse(whole)
