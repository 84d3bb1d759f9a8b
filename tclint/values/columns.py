"""Predicates about %tid.x alone in CTAs whose shape is unknown: for which of its values they hold.

The number of a thread in such a CTA is unknown, but its %tid.x is one value as long as it lives. Two predicates that
hold for no common value exclude each other, whichever operations compute the number of the warp from it. Rows are taken
to be whole warps, as a kernel assumes that broadcasts such a number: a proof does not use this module.
"""

from __future__ import annotations

from tclint.values import thread_masks as T
from tclint.values.nodes import Elected, SpecialRead, Value
from tclint.values.path_condition import PathCondition
from tclint.values.thread_predicates import ThreadSets

__all__ = ["Columns"]


class Columns(ThreadSets):
    """Expressions evaluated for each value that %tid.x may have. All other positions of a thread are unknown."""

    def _compute_planes(self, value: Value) -> T.BitSlices | None:
        node = self.table.nodes[value]
        if type(node) is SpecialRead:
            return T.digit(self.threads, 1, self.threads) if node.name == "%tid.x" else None
        return super()._compute_planes(value)

    def _compute_mask(self, p: Value) -> int | None:
        return None if type(self.table.nodes[p]) is Elected else super()._compute_mask(p)

    def decide(self, p: Value, facts: PathCondition) -> bool | None:
        """Whether *p* holds under *facts* for each value of %tid.x that these admit; None if neither answer follows."""
        here = self.mask(p)
        if here is None:
            return None
        if facts.columns is None:
            facts.columns = every = T.full(self.threads)
            for fact, truth in facts.items():
                there = self.mask(fact)
                if there is not None:
                    facts.columns &= there if truth else every ^ there
        admitted = facts.columns
        if not admitted & here:
            return False
        return True if not admitted & ~here else None
