"""Alignment of two sequences: pairs of equal elements, in order.

A shortest edit script is searched for (Myers 1986) up to a number of edits. Beyond it, the sequences are divided
recursively at elements that occur once in both, as in a patience diff. Where there are none, the n-th element of a kind
is paired with the n-th. So the work is linear, not quadratic, in the length for all sequences.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

__all__ = ["align", "increasing"]

Pair = tuple[int, int]

_MAX_EDITS = 100
"""Length of the edit scripts that are searched for. Sequences with more edits are different code."""
_MAX_DIVISIONS = 12
"""Depth of the recursive division at unique elements."""


def align(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """Pairs of indices of equal elements, increasing in both components."""
    found: list[Pair] = []
    work = [(0, len(old), 0, len(new), _MAX_DIVISIONS)]
    while work:
        a, b, c, d, divisions = work.pop()
        while a < b and c < d and old[a] == new[c]:
            found.append((a, c))
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
            found.append((b, d))
        if a == b or c == d:
            continue
        pairs = _shortest(old[a:b], new[c:d])
        unique = _unique(old, new, a, b, c, d) if pairs is None and divisions else []
        if unique:
            for x, y in [*unique, (b, d)]:
                work.append((a, x, c, y, divisions - 1))
                a, c = x + 1, y + 1
            found += unique
            continue
        if pairs is None:
            pairs = _in_turn(old[a:b], new[c:d])
        found += ((a + x, c + y) for x, y in pairs)
    return sorted(found)


def _unique(old: Sequence[Hashable], new: Sequence[Hashable], a: int, b: int, c: int, d: int) -> list[Pair]:
    """The elements that occur once in both ranges, restricted to those in the same order."""
    there = Counter(new[c:d])
    here = Counter(old[a:b])
    where = {new[i]: i for i in range(c, d) if there[new[i]] == 1}
    return increasing((i, where[old[i]]) for i in range(a, b) if here[old[i]] == 1 and old[i] in where)


def _in_turn(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """The n-th element of each kind paired with the n-th, restricted to those in the same order."""
    where: dict[Hashable, list[int]] = {}
    for i, token in enumerate(new):
        where.setdefault(token, []).append(i)
    taken: Counter[Hashable] = Counter()
    pairs = []
    for i, token in enumerate(old):
        indices = where.get(token, ())
        if taken[token] < len(indices):
            pairs.append((i, indices[taken[token]]))
            taken[token] += 1
    return increasing(pairs)


def increasing(pairs: Iterator[Pair] | Sequence[Pair]) -> list[Pair]:
    """A longest subsequence of *pairs* whose second components increase; the first components must already increase."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    every = list(pairs)
    for index, (_, y) in enumerate(every):
        at = bisect_left(ends, y)
        before.append(last[at - 1] if at else -1)
        if at == len(ends):
            ends.append(y)
            last.append(index)
        else:
            ends[at], last[at] = y, index
    chain = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(every[index])
        index = before[index]
    return chain[::-1]


def _shortest(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair] | None:
    """The pairs that a shortest edit script keeps; None if it has more than ``_MAX_EDITS`` edits."""
    n, m = len(old), len(new)
    if abs(n - m) > _MAX_EDITS:
        return None
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(n + m, _MAX_EDITS) + 1):
        trail.append(reach)
        reach = dict(reach)
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            y = x - k
            while x < n and y < m and old[x] == new[y]:
                x, y = x + 1, y + 1
            reach[k] = x
            if x >= n and y >= m:
                return _back(trail, n, m)
    return None


def _back(trail: list[dict[int, int]], x: int, y: int) -> list[Pair]:
    """The pairs on the diagonals of the path to (x, y), from the furthest points *trail* after each edit."""
    pairs = []
    for edits in range(len(trail) - 1, -1, -1):
        reach, k = trail[edits], x - y
        down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        k = k + 1 if down else k - 1
        x_before = reach[k]
        y_before = x_before - k
        x_start, y_start = (x_before, y_before + 1) if down else (x_before + 1, y_before)
        while x > x_start and y > y_start:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = x_before, y_before
    return pairs[::-1]
