"""Numbers that a kernel stores for its warps in shared memory, a byte for each: the roles that they are to take.

Warp-specialised Triton stores two such tables, the second one to end what the
first one began. Which of them is there when a warp looks is not followed: it
may find the number of either. Other stores to the same variable, of whole
words at least, are taken to be to tiles beside the table: so it is with Triton,
which has one variable for all that it allocates, and known of nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tclint.ir.cfg import CFG
from tclint.ir.nodes import Function, Immediate, Instruction, Memory, Operand, Variable, Vector
from tclint.isa.widths import width_of
from tclint.values import thread_masks as T
from tclint.values.substitution import Lifetimes

__all__ = ["Tables"]

_SHARED = "global_smem"
"""What Triton calls its shared memory."""
_BYTE = (".b8", ".u8")
_NARROW = (*_BYTE, ".s8", ".b16", ".u16", ".s16")
"""What is no part of a tile: who stores such a number to where nobody knows may change a table."""
Table = dict[int, set[int | None]]
"""The bytes that may be stored at each offset; None: one that is not known."""


class Tables(Lifetimes):
    """What threads may load from tables of constants."""

    def __init__(self, function: Function, cfg: CFG, variables: Mapping[str, Variable]) -> None:
        super().__init__(function, cfg, variables)
        self._table: Table | None = None
        self._looked_up: dict[int, list[tuple[int, int]]] = {}

    def looked_up(self, value: int) -> list[tuple[int, int]]:
        """The numbers that threads may find in a table, and in which of them each may be; none where *value* is of no table.

        Threads that have no number may find any.
        """
        value = self.find(value)
        node = self.nodes[value]
        if node[:2] == ("op", "mask") and node[3] & 255 == 255:
            value = self.find(node[2])
        if value not in self._looked_up:
            self._looked_up[value] = list(self._look_up(value))
        return self._looked_up[value]

    def _look_up(self, value: int) -> Iterator[tuple[int, int]]:
        node = self.nodes[value]
        if node[0] != "load" or not node[2].startswith(".shared"):
            return
        match = self.function.instructions[node[1]].match
        rest, offset = self._placed(node[3])
        if match is None or match.element not in _BYTE or rest is None:
            return
        place, every = self.planes(rest), T.full(self.threads)
        if place is None or not any(place) or any(T.partial_groups(plane, every, 32) for plane in place):
            return  # not a number for each warp
        table = self._stored()
        for own, threads in T.numbers(place, every):
            found = table.get(offset + own, {None})
            if None not in found:
                yield from ((number, threads) for number in sorted(n for n in found if n is not None))

    def _placed(self, address: int) -> tuple[int | None, int]:
        """What an address adds to the beginning of shared memory, and a constant; None: it begins elsewhere."""
        terms, offset = self.linear(address)
        begin = next(
            (t for t, factor in terms if factor == 1 and self.nodes[t][:2] == ("symbol", _SHARED)), -1
        )
        return None if begin < 0 else self.total(tuple(t for t in terms if t[0] != begin), 0), offset

    def _stored(self) -> Table:
        """What is stored at offsets that the text says."""
        if self._table is None:
            self._table = {}
            for at, instruction in enumerate(self.function.instructions):
                if not self._store(at, instruction, self._table):
                    self._table = {}
                    break
        return self._table

    def _store(self, at: int, instruction: Instruction, table: Table) -> bool:
        """Takes down what an instruction stores; whether it changes no table of which nobody knows."""
        match = instruction.match
        if match is None or not match.space.startswith(".shared"):
            return True
        place = next((instruction.named(name) for verb, name in match.form.memory if verb == "write"), None)
        if not isinstance(place, Memory) or not match.element:
            return True
        rest, offset = self._placed(self.operand(place, at))
        if rest is None or self.known(rest) != 0:
            return match.element not in _NARROW or match.scope == "warp"  # a row of a matrix is wide
        stored = instruction.operands[-1]
        size = (width_of(match.element) or 64) // 8
        items = stored.items if isinstance(stored, Vector) else (stored,)
        for k, byte in enumerate(b for item in items for b in _bytes(item, size, match.form.name == "st")):
            table.setdefault(offset + k, set()).add(byte)
        return True


def _bytes(item: Operand, size: int, plain: bool) -> list[int] | list[None]:
    """The bytes of what is stored, if that is a constant."""
    if not plain or not isinstance(item, Immediate) or not isinstance(item.value, int):
        return [None] * size
    return list((item.value & (1 << 8 * size) - 1).to_bytes(size, "little"))
