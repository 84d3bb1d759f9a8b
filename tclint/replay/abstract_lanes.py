"""What a register holds in the threads of a group: one number for all of them, one for each, or something unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from tclint.ir.nodes import Immediate

__all__ = [
    "EVERY",
    "Lanes",
    "Results",
    "apply",
    "collapse",
    "immediate",
    "merge",
    "pick",
    "spread",
    "take",
]

EVERY = (1 << 64) - 1
"""All bits of the widest register."""

Lanes = int | tuple[int | None, ...] | None
"""A bit pattern that all threads share, one for each thread, or None: not known."""


def collapse(numbers: Sequence[int | None]) -> Lanes:
    """One number where all are the same."""
    return numbers[0] if numbers.count(numbers[0]) == len(numbers) else tuple(numbers)


def spread(value: Lanes, size: int) -> tuple[int | None, ...]:
    """One number for each of *size* threads."""
    return value if isinstance(value, tuple) else (value,) * size


def take(value: Lanes, places: Sequence[int]) -> Lanes:
    """What the threads at *places* hold."""
    return collapse([value[i] for i in places]) if isinstance(value, tuple) else value


def apply(function: Callable[..., int], values: Sequence[Lanes]) -> Lanes:
    """*function* in every thread; None where what it is given is not known."""
    if None in values:
        return None
    if tuple not in map(type, values):
        return function(*values)
    columns = [v if isinstance(v, tuple) else repeat(v) for v in values]
    if any(isinstance(v, tuple) and None in v for v in values):
        rows = zip(*columns, strict=False)
        return collapse([None if None in row else function(*row) for row in rows])
    return collapse([*map(function, *columns)])


def immediate(operand: Immediate) -> Lanes:
    """The bits of a constant; None for one that is not an integer."""
    return operand.value & EVERY if isinstance(operand.value, int) else None


class Results(dict[Any, Lanes]):
    """What an instruction gives, by what those of its sources hold that are no constants: one alone, several as a tuple.

    It is computed when it is asked for first.
    """

    __slots__ = ("_decisive", "_function", "_places", "_sources")

    def __init__(
        self,
        function: Callable[..., int],
        sources: Sequence[object],
        decisive: int | None = None,
    ) -> None:
        self._function = function
        self._sources: list[Lanes] = [immediate(o) if isinstance(o, Immediate) else None for o in sources]
        self._places = [i for i, o in enumerate(sources) if not isinstance(o, Immediate)]
        self._decisive = decisive
        """The value of one of two predicates that decides alone."""

    def __missing__(self, held: Any) -> Lanes:
        values = self._sources.copy()
        for place, value in zip(self._places, (held,) if len(self._places) == 1 else held, strict=True):
            values[place] = value
        self[held] = found = self._computed(values)
        return found

    def _computed(self, values: list[Lanes]) -> Lanes:
        if self._decisive is not None and self._decisive in values:
            return self._decisive
        try:
            return apply(self._function, values)
        except ZeroDivisionError:  # left open by the ISA (9.7.1.8)
            return None


def pick(chosen: Lanes, yes: Lanes, no: Lanes, size: int) -> Lanes:
    """*yes* where *chosen* holds, *no* elsewhere."""
    if yes == no:
        return yes
    if isinstance(chosen, int):
        return yes if chosen else no
    if chosen is None:
        return None
    both = zip(chosen, spread(yes, size), spread(no, size), strict=True)
    return collapse([None if c is None else y if c else n for c, y, n in both])


def merge(parts: Sequence[tuple[Sequence[int], Lanes]], size: int) -> Lanes:
    """What groups hold together; each comes with the places of its threads. What a place lacks does not matter."""
    first = parts[0][1]
    if not isinstance(first, tuple) and all(value == first for _, value in parts):
        return first
    whole: list[int | None] = [None] * size
    for places, value in parts:
        for place, number in zip(places, spread(value, len(places)), strict=True):
            whole[place] = number
    return collapse(whole)
