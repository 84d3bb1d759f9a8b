"""What tests of some bits of a value imply for other tests of its bits."""

from __future__ import annotations

from tclint.values.divisions import Divisions
from tclint.values.nodes import Compare, Masked, Value
from tclint.values.path_condition import PathCondition
from tclint.values.value_table import ValueTable

__all__ = ["BitTests"]


class BitTests:
    """Comparisons of masked values with constants, under a path condition."""

    def __init__(self, table: ValueTable, divisions: Divisions) -> None:
        self._table, self._divisions = table, divisions
        self._found: dict[int, tuple[int, int, int] | None] = {}

    def decide(self, p: Value, facts: PathCondition) -> bool | None:
        """Whether the equality test *p* of some bits of a value follows from tests of other bits of it; None if not.

        ``n & 1 != 0`` implies ``n & 3 != 2``.
        """
        tested = self._tested(p)
        if tested is None:
            return None
        if facts.bits is None:
            facts.bits = {}
            for fact, truth in facts.items():
                test = self._tested(fact)
                if test is None:
                    continue
                value, mask, bits = test
                # For a single bit, an inequality determines it as well.
                if truth or not mask & mask - 1:
                    zeros, ones = facts.bits.get(value, (0, 0))
                    bits = bits if truth else bits ^ mask
                    facts.bits[value] = zeros | mask & ~bits, ones | bits
        value, mask, bits = tested
        zeros, ones = facts.bits.get(value, (0, 0))
        if zeros & bits or ones & mask & ~bits:
            return False
        return True if mask & ~(zeros | ones) == 0 else None

    def _tested(self, p: Value) -> tuple[int, int, int] | None:
        """``(value, mask, bits)`` if *p* tests ``value & mask == bits``; None for any other predicate."""
        if p not in self._found:
            found, table = None, self._table
            node = table.nodes[p]
            if type(node) is not Compare or node.relation != "eq":
                self._found[p] = None
                return None
            number, masked = table.constant_of(node.right), table.node(node.left)
            if number is not None and type(masked) is Masked:
                every = (1 << node.width) - 1
                value, mask, bits = table.representative(masked.value), masked.mask & every, number & every
                division = self._divisions.of(value)
                if division is not None and division.floor and mask * division.by < 1 << division.width:
                    value, mask, bits = (
                        table.representative(division.number),
                        mask * division.by,
                        bits * division.by,
                    )
                found = (value, mask, bits) if not bits & ~mask else None
            self._found[p] = found
        return self._found[p]
