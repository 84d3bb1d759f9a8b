"""What a register holds in the threads of a group: one number for all of them, one for each, or something unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

__all__ = ["Lanes", "apply", "collapse", "merge", "pick", "spread", "take"]

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


def apply(
    function: Callable[..., int],
    values: Sequence[Lanes],
    known: dict[tuple[Lanes, ...], Lanes] | None = None,
) -> Lanes:
    """*function* in every thread; *known* are results of it by its arguments."""
    if None in values:
        return None
    if known is None:
        known = {}
    key: tuple[Any, ...] = tuple(values)
    if key in known:
        return known[key]
    if tuple not in map(type, values):
        known[key] = function(*key)
        return known[key]
    columns = [v if isinstance(v, tuple) else repeat(v) for v in values]
    found: list[Any] = []
    for row in zip(*columns, strict=False):
        if row not in known:
            known[row] = None if None in row else function(*row)
        found.append(known[row])
    known[key] = collapse(found)
    return known[key]


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
