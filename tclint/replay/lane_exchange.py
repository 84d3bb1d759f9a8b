"""What threads exchange: elections, shuffles, votes, matches and reductions of a warp, and reductions of a CTA barrier
(PTX ISA 9.7.9.6, 9.7.13.1, 9.7.13.8 to 9.7.13.14).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce
from operator import and_, or_, xor

from tclint.isa.forms import Match
from tclint.replay.abstract_lanes import Lanes, broadcast, collapse

__all__ = [
    "barrier_result",
    "elected_lanes",
    "match_result",
    "reduced",
    "shuffle_sources",
    "shuffled",
    "vote_result",
]


def elected_lanes(
    group: tuple[int, ...], threads: tuple[int, ...], mask: int, size: int
) -> tuple[Lanes, Lanes] | None:
    """The elected lane of each warp of a *group*, and whether it is the thread itself; None if *threads* lack lanes
    of *mask*.
    """
    present = set(threads)
    leaders: dict[int, int] = {}
    for thread in threads:
        if mask >> (thread & 31) & 1:
            leaders.setdefault(thread >> 5, thread)
    lanes = [lane for lane in range(min(32, size)) if mask >> lane & 1]
    if not all(warp * 32 + lane in present for warp in leaders for lane in lanes):
        return None
    chosen = set(leaders.values())
    first = collapse([leaders.get(t >> 5, 0) & 31 for t in group])
    return first, collapse([int(t in chosen) for t in group])


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


def shuffle_sources(
    match: Match, threads: tuple[int, ...], lanes: Sequence[Lanes]
) -> tuple[Lanes, list[int | None]]:
    """For a shuffle among *threads*: which get a value from inside their segment, and the positions of the threads
    they get it from.
    """
    rows = list(zip(threads, *(broadcast(v, len(threads)) for v in lanes), strict=True))
    if any(None in row for row in rows):
        return None, [None] * len(threads)
    at = {thread: position for position, thread in enumerate(threads)}
    froms = [shuffled(match, *row) for row in rows]
    return collapse([int(p) for _, p in froms]), [at.get(thread) for thread, _ in froms]


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


def barrier_result(match: Match, votes: Collection[int | None]) -> int | None:
    """The result of a CTA barrier that reduces a predicate over its threads (9.7.13.1); None if it is unknown.

    One known predicate may decide it alone: a false one with ``.and``, a true one with ``.or``.
    """
    known = [p for p in votes if p is not None]
    if match.modes.population:
        return sum(known) if len(known) == len(votes) else None
    decisive = int(match.binding["op"] == ".or")
    if decisive in known:
        return decisive
    return 1 - decisive if len(known) == len(votes) else None


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
