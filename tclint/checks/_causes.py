"""Conflicts with one cause: a barrier or a wait that is missing at one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tclint.analyses.overlaps import Conflict
from tclint.checks import grouped

__all__ = ["by_place"]

T = TypeVar("T")


def by_place(block_of: Sequence[int], found: Iterable[tuple[Conflict, T]]) -> Iterator[list[T]]:
    """The second elements of *found* by the place where something is missing that would order the two accesses.

    As few places are named as can order them all, each just before a use. In a block that a compiler has made by unrolling a
    loop, each copy has a place of its own; the accesses that come together before the first use have one. *block_of* gives
    the block of each instruction.
    """
    for block, left in grouped((block_of[each[0].use.site], each) for each in found).items():
        while left:
            place = min(conflict.use.site for conflict, _ in left)
            ordered = grouped((_ordered_at(each[0], place, block, block_of), each) for each in left)
            yield [each for _, each in ordered[True]]
            left = ordered.get(False, [])


def _ordered_at(conflict: Conflict, place: int, block: int, block_of: Sequence[int]) -> bool:
    """Whether what is missing before *place* orders the two; *place* and the use, which is not before it, are in *block*.

    A path with edges enters the block at its start, even if its operation is in the block too.
    """
    first = conflict.operation.site
    return block_of[first] != block or bool(conflict.path.edges) or first < place
