"""Which values are quotients by constants."""

from __future__ import annotations

from tclint.values.integers import type_width
from tclint.values.nodes import Applied, Value
from tclint.values.ranges import Division
from tclint.values.value_table import ValueTable

__all__ = ["Divisions"]

_DIVISIONS = ("shr", "div")
"""Operations that divide; a shift divides by a power of two."""


class Divisions:
    """The divisions among the values of a table."""

    def __init__(self, table: ValueTable) -> None:
        self._table = table
        self._found: dict[int, Division | None] = {}

    def of(self, value: Value) -> Division | None:
        """*value* as a quotient, rounded as its instruction does; None if it is not a division by a constant."""
        if value not in self._found:
            found: Division | None = None
            node = self._table.node(value)
            if isinstance(node, Applied) and node.name in _DIVISIONS and len(node.operands) == 2:
                number, divisor = node.operands
                kind, shifts = node.type, node.name == "shr"
                width, signed = type_width(kind), kind[1] == "s"
                by = self._table.constant_of(divisor) or 0
                by = (1 << by if 0 < by < width else 0) if shifts else by
                if kind[1] in "bus" and 1 < by < 1 << width - (signed and not shifts):
                    found = Division(number, by, width, signed, shifts)
            self._found[value] = found
        return self._found[value]
