"""Which values are quotients by constants."""

from __future__ import annotations

from tclint.values.integers import type_width
from tclint.values.ranges import Division
from tclint.values.value_table import ValueTable

__all__ = ["Divisions"]

_DIVISIONS = (("op", "shr"), ("op", "div"))
"""Operations that divide; a shift divides by a power of two."""


class Divisions:
    """The divisions among the values of a table."""

    def __init__(self, table: ValueTable) -> None:
        self._table = table
        self._found: dict[int, Division | None] = {}

    def of(self, value: int) -> Division | None:
        """*value* as a quotient, rounded as its instruction does; None if it is not a division by a constant."""
        if value not in self._found:
            found: Division | None = None
            node = self._table.node(value)
            by = self._table.constant_of(node[4]) if node[:2] in _DIVISIONS and len(node) == 5 else None
            if by is not None and by > 0:
                kind = node[2] if isinstance(node[2], str) else node[2][-1]
                width, signed, shifts = type_width(kind), kind[1] == "s", node[1] == "shr"
                by = (1 << by if by < width else 0) if shifts else by
                if kind[1] in "bus" and 1 < by < 1 << width - (signed and not shifts):
                    found = Division(node[3], by, width, signed, shifts)
            self._found[value] = found
        return self._found[value]
