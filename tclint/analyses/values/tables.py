"""Numbers that a kernel stores for its warps in shared memory, a byte for each: the parts that they are to take.

Warp-specialised Triton stores two such tables, the second one to end what the
first one began. Which of them is there when a warp looks is not followed: it
may find the number of either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tclint.analyses import threads as T
from tclint.analyses.values.thread_sets import ThreadSets
from tclint.cfg import CFG
from tclint.ir.nodes import Function, Immediate, Memory, Operand, Symbol, Variable, Vector

__all__ = ["Tables"]

_BYTE = (".b8", ".u8")


class Tables(ThreadSets):
    """What threads may load from tables of constants."""

    def __init__(self, function: Function, cfg: CFG, variables: Mapping[str, Variable]) -> None:
        super().__init__(function, cfg, variables)
        self._tables: dict[str, dict[int, set[int]]] | None = None
        self._looked_up: dict[int, list[tuple[int, int]]] = {}

    def looked_up(self, value: int) -> list[tuple[int, int]]:
        """The numbers that threads may find in a table, and in which of them each may be; none where *value* is of no table."""
        value = self.find(value)
        node = self.nodes[value]
        if node[:2] == ("op", "mask"):
            value = self.find(node[2])
        if value not in self._looked_up:
            self._looked_up[value] = list(self._look_up(value))
        return self._looked_up[value]

    def _look_up(self, value: int) -> Iterator[tuple[int, int]]:
        node = self.nodes[value]
        if node[0] != "load" or not node[2].startswith(".shared"):
            return
        match = self.function.instructions[node[1]].match
        terms, offset = self.linear(node[3])
        name = next((str(self.nodes[t][1]) for t, f in terms if f == 1 and self.nodes[t][0] == "symbol"), "")
        if match is None or match.element not in _BYTE or not name:
            return
        rest = tuple(t for t in terms if self.nodes[t[0]][:2] != ("symbol", name))
        place, table, every = self.planes(self.total(rest, 0)), self.tables.get(name), T.full(self.threads)
        if place is None or table is None or not any(place):
            return
        if any(T.partial_groups(plane, every, 32) for plane in place):
            return  # not a number for each warp
        for own, threads in T.numbers(place, every):
            for number in sorted(table.get(offset + own, ())):
                yield number, threads

    @property
    def tables(self) -> dict[str, dict[int, set[int]]]:
        """The bytes that are stored as constants at places that the text says, by variable and offset."""
        if self._tables is None:
            self._tables = {}
            stores = (
                i for i in self.function.instructions if i.match is not None and i.match.form.name == "st"
            )
            for instruction in stores:
                match, (place, *stored) = instruction.match, instruction.operands
                if match is None or not match.space.startswith(".shared") or not isinstance(place, Memory):
                    continue
                if isinstance(place.base, Symbol):
                    table = self._tables.setdefault(place.base.name, {})
                    at = place.base.offset + place.offset
                    for offset, byte in enumerate(_bytes(stored[0], int(match.element[2:]) // 8)):
                        table.setdefault(at + offset, set()).add(byte)
                elif match.element in _BYTE:  # threads may store a number each
                    self._tables = {}
                    break
        return self._tables


def _bytes(operand: Operand, size: int) -> Iterator[int]:
    """The bytes that are stored, as far as all of them are constants."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if all(isinstance(item, Immediate) and isinstance(item.value, int) for item in items):
        for item in items:
            assert isinstance(item, Immediate)
            yield from (int(item.value) & (1 << 8 * size) - 1).to_bytes(size, "little")
