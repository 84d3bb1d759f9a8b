"""Elections and shuffles among the threads of a replay, and reductions of a CTA barrier (PTX ISA 9.7.9.6, 9.7.13.1,
9.7.13.14). What lanes exchange is computed by :mod:`tclint.isa.lane_exchange`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tclint.isa.forms import Match
from tclint.isa.lane_exchange import shuffled
from tclint.replay.abstract_lanes import Lanes, broadcast, collapse

__all__ = ["barrier_result", "elected_lanes", "shuffle_sources"]


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
