"""What lanes of a warp exchange, as functions of their values: shuffles, votes, matches and reductions (PTX ISA 9.7.9.6,
9.7.13.9 to 9.7.13.12).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor

from tclint.isa.forms import Match

__all__ = ["match_result", "reduced", "shuffled", "vote_result"]


def shuffled(match: Match, thread: int, by: int, bounds: int) -> tuple[int, bool]:
    """The thread whose value *thread* gets in a shuffle, and whether that is in its segment of the warp (9.7.9.6)."""
    lane, by, clamp, mask = thread & 31, by & 31, bounds & 31, bounds >> 8 & 31
    last = lane & mask | clamp & ~mask
    if match.shuffle == "up":
        other = lane - by
        inside = other >= last
    else:
        other = lane + by if match.shuffle == "down" else lane ^ by
        if match.shuffle == "idx":
            other = lane & mask | by & ~mask
        inside = other <= last
    return thread - lane + (other if inside else lane), inside


def vote_result(match: Match, lanes: dict[int, int | None]) -> int | None:
    """The result of a vote (9.7.13.10); None if the predicate of some lane is unknown, or lanes are missing."""
    votes = {lane: p for lane, p in lanes.items() if p is not None}
    if len(votes) < 32:
        return None
    if match.modes.ballot:
        return sum(p << lane for lane, p in votes.items())
    different = set(votes.values())
    if match.modes.existential:
        return int(1 in different)
    return int(different == {1} if match.modes.unanimous else len(different) == 1)


def match_result(match: Match, lanes: dict[int, int | None], mask: int) -> dict[int, tuple[int, int]] | None:
    """For each lane of *mask*, the lanes that hold its value, and whether all do (9.7.13.10); None if some value is unknown.

    With ``.all``, there are no such lanes unless all of them hold it.
    """
    values = {lane: lanes.get(lane) for lane in range(32) if mask >> lane & 1}
    if None in values.values():
        return None
    same = {
        lane: sum(1 << other for other, v in values.items() if v == value) for lane, value in values.items()
    }
    every = match.form.name == "match.all"
    return {
        lane: (found if found == mask or not every else 0, int(found == mask)) for lane, found in same.items()
    }


_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "min": min, "max": max, "and": and_, "or": or_, "xor": xor,
}  # fmt: skip


def reduced(match: Match, lanes: dict[int, int | None], mask: int) -> int | None:
    """What ``redux.sync`` computes of the values of the lanes of *mask* (9.7.13.12); None if one is unknown or floating."""
    values = [lanes.get(lane) for lane in range(32) if mask >> lane & 1]
    operation = _REDUCTIONS.get(match.reduction)
    if operation is None or not values or match.element[1] == "f":
        return None
    known = [v & 0xFFFFFFFF for v in values if v is not None]
    if len(known) < len(values):
        return None
    if match.element == ".s32":
        known = [v - (v >> 31 << 32) for v in known]
    return reduce(operation, known) & 0xFFFFFFFF
