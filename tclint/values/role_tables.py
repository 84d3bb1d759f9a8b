"""Tables of warp roles in shared memory: constants that a kernel stores, one byte for each warp.

Warp-specialised Triton stores two such tables; the second one ends the roles that the first one began. Which of them a
warp reads is not tracked: it may find the number of either.

One assumption is unsound: a store of at least whole words at an unknown offset of the same variable does not touch a
table but a tile beside it. This holds for Triton, which allocates all its shared memory as one variable, and is known
of no other compiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint.ir.nodes import Immediate, Instruction, Memory, Operand, Site, Vector
from tclint.isa.widths import width_of
from tclint.values import thread_masks as T
from tclint.values.nodes import AddressOf, Loaded, Masked, Value
from tclint.values.ssa import Registers
from tclint.values.thread_predicates import ThreadSets
from tclint.values.value_table import ValueTable

__all__ = ["RoleTables"]

_SHARED = "global_smem"
"""The variable that is all shared memory of a Triton kernel."""
_BYTE = (".b8", ".u8")
_NARROW = (*_BYTE, ".s8", ".b16", ".u16", ".s16")
"""Types that are never part of a tile, so a store of one to an unknown address may change a table."""
Table = dict[int, set[int | None]]
"""Offset -> the bytes that may be stored there; None among them: an unknown one."""


class RoleTables:
    """What threads may load from tables of constants."""

    def __init__(self, table: ValueTable, thread_sets: ThreadSets, registers: Registers) -> None:
        self.table, self.thread_sets, self.registers = table, thread_sets, registers
        self.function = table.function
        self._table: Table | None = None
        self._looked_up: dict[int, list[tuple[int, int]]] = {}

    def looked_up(self, value: Value) -> list[tuple[int, T.Threads]]:
        """``(number, threads)`` for each number that a table may hold for these threads; empty without a table.

        A thread that is in none of the entries may load any number.
        """
        value = self.table.representative(value)
        node = self.table.nodes[value]
        if type(node) is Masked and node.mask & 255 == 255:
            value = self.table.representative(node.value)
        if value not in self._looked_up:
            self._looked_up[value] = list(self._look_up(value))
        return self._looked_up[value]

    def _look_up(self, value: Value) -> Iterator[tuple[int, T.Threads]]:
        node = self.table.nodes[value]
        if type(node) is not Loaded or not node.space.startswith(".shared"):
            return
        match = self.function.instructions[node.site].match
        rest, offset = self._shared_offset(node.address)
        if match is None or match.element not in _BYTE or rest is None:
            return
        offsets, every = self.thread_sets.bit_slices(rest), T.full(self.thread_sets.threads)
        if offsets is None or not any(offsets) or any(T.partial_groups(o, every, 32) for o in offsets):
            return  # not one entry per warp
        table = self._contents()
        for own, threads in T.numbers(offsets, every):
            found = table.get(offset + own, {None})
            if None not in found:
                yield from ((number, threads) for number in sorted(n for n in found if n is not None))

    def _shared_offset(self, address: Value) -> tuple[Value | None, int]:
        """The address relative to the beginning of shared memory, as a variable part and a constant.

        The variable part is None if the address does not begin there.
        """
        terms, offset = self.table.linear(address)
        begin = next((t for t, factor in terms if factor == 1 and self._is_shared(t)), -1)
        return None if begin < 0 else self.table.total(tuple(t for t in terms if t[0] != begin), 0), offset

    def _is_shared(self, term: Value) -> bool:
        """Whether *term* is the beginning of all shared memory of a Triton kernel."""
        node = self.table.nodes[term]
        return type(node) is AddressOf and node.name == _SHARED

    def _contents(self) -> Table:
        """The bytes that may be stored at each constant offset.

        Empty if some store may change a table at an unknown offset.
        """
        if self._table is None:
            self._table = {}
            for at, instruction in enumerate(self.function.instructions):
                if not self._record_store(at, instruction, self._table):
                    self._table = {}
                    break
        return self._table

    def _record_store(self, at: Site, instruction: Instruction, table: Table) -> bool:
        """Record what an instruction stores; False if it may change a table at an unknown offset."""
        match = instruction.match
        if match is None or not match.space.startswith(".shared"):
            return True
        address = next((instruction.named(name) for verb, name in match.form.memory if verb == "write"), None)
        if not isinstance(address, Memory) or not match.element:
            return True
        rest, offset = self._shared_offset(self.registers.operand(address, at))
        if rest is None or self.table.constant_of(rest) != 0:
            return match.element not in _NARROW or match.scope == "warp"  # a row of a matrix is wide
        stored = instruction.operands[-1]
        size = (width_of(match.element) or 64) // 8
        items = stored.items if isinstance(stored, Vector) else (stored,)
        for k, byte in enumerate(b for item in items for b in _bytes(item, size, match.form.name == "st")):
            table.setdefault(offset + k, set()).add(byte)
        return True


def _bytes(item: Operand, size: int, plain: bool) -> list[int] | list[None]:
    """The bytes of what is stored if it is a constant; otherwise as many None."""
    if not plain or not isinstance(item, Immediate) or not isinstance(item.value, int):
        return [None] * size
    return list((item.value & (1 << 8 * size) - 1).to_bytes(size, "little"))
