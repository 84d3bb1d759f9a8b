"""Accesses to shared memory at an index that is loaded: a histogram, a lookup table, a permutation (PTX ISA 8.7.1).

Where such an access goes is not in the text, so its bytes cannot be compared with those of another thread. But some
launch has any data, in particular an index of 0 in every thread. :class:`SharedByData` takes the access for one to the
first element, and compares it with accesses whose addresses are known. Two accesses by loaded indices are not compared:
the data may give each warp elements of its own.

An index counts only if it is computed from what is loaded from global or constant memory or a texture, and from nothing that
distinguishes threads in another way: not from a thread index, not from what lanes exchange, and not from shared memory,
where the offsets of a warp may be.
"""

from __future__ import annotations

from functools import cached_property

from tclint.analyses.since_barrier import ReadsSince, WritesSince
from tclint.analyses.warp_memory import SharedByBound
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.values import UniformityScope, Values
from tclint.values import thread_masks as T
from tclint.values.nodes import (
    COMPUTED,
    AddressOf,
    Constant,
    Loaded,
    ParameterRead,
    Phi,
    SpecialRead,
    Unmodelled,
)
from tclint.values.shared_memory import SharedAccess

__all__ = ["DataReadsSince", "DataWritesSince", "SharedByData", "from_outside"]

_COMPUTED = COMPUTED | {Constant, ParameterRead, Phi, AddressOf}
"""The kinds of expressions that an index may be computed with, besides loads and special registers."""
_SPACES = (".global", ".const")
"""The memories that an index may be loaded from."""
_POINTER = 8
"""The size in bytes of a parameter that may be a pointer, which a generic load takes for one to global memory."""
_LANES = T.full(32)


def from_outside(values: Values, space: str, address: int) -> bool:
    """Whether a load from *space* is from memory that threads of the CTA do not exchange indices through."""
    return space in _SPACES or (
        not space
        and any(
            type(node) is ParameterRead and node.size == _POINTER
            for node in map(values.node, values.subexpressions(address))
        )
    )


class SharedByData(SharedByBound):
    """:class:`SharedByBound`, with the first element for each one that loaded data select."""

    @cached_property
    def _index_free(self) -> dict[int, tuple[SharedAccess, ...]]:
        """Site -> its accesses, with indices that are loaded taken for 0."""
        return {
            i: tuple(a if a.later else self._first(a) for a in super(SharedByData, self).accesses(i))
            for i in self.sites
        }

    @cached_property
    def indexed(self) -> frozenset[int]:
        """The sites of which an access is at a loaded index."""
        return frozenset(
            i for i in self.sites if self._index_free[i] != super(SharedByData, self).accesses(i)
        )

    def accesses(self, site: int) -> tuple[SharedAccess, ...]:
        return self._index_free.get(site, ())

    def _first(self, access: SharedAccess) -> SharedAccess:
        """*access*, at the first element if data select the element, and alike in all warps."""
        values = self.values
        form = self.addresses.form(access.address)
        terms = values.linear(form.base)[0]
        kept = tuple((t, f) for t, f in terms if not self._is_index(t))
        if kept == terms or not self._alike_in_warps(form.index):
            return access
        address = values.add(values.total(kept, form.offset), form.index)
        return access._replace(address=address)

    def _alike_in_warps(self, per_thread: int) -> bool:
        """Whether the part of an address that depends on the thread index is the same in the first two warps."""
        first, second = (self.addresses.offsets(per_thread, _LANES << start) for start in (0, 32))
        return first is not None and first == second

    def _is_index(self, value: int) -> bool:
        """Whether *value* is an index that differs between threads because of what they load, and may be 0."""
        values = self.values
        if values.uniformity(value) is UniformityScope.CTA or values.known_bits(value)[1]:
            return False
        loaded = False
        for v in values.subexpressions(value, until=self._is_load):
            node = values.node(v)
            if type(node) is Loaded:
                if not from_outside(values, node.space, node.address):
                    return False
                loaded = True
            elif type(node) is SpecialRead:
                if SPECIAL_REGISTERS[node.name].distinguishes_threads:
                    return False
            elif type(node) is Unmodelled and self._is_sampled(node):
                loaded = True
            elif type(node) not in _COMPUTED:
                return False
        return loaded

    def _is_sampled(self, node: Unmodelled) -> bool:
        """Whether *node* is what a thread reads from a texture or a surface."""
        match = self.function.instructions[node.site].match if node.register >= 0 else None
        return match is not None and match.form.handled and bool(match.accesses)

    def _is_load(self, value: int) -> bool:
        return type(self.values.node(value)) is Loaded


class DataReadsSince(ReadsSince):
    """:class:`ReadsSince`, with loaded indices taken for 0."""

    kind = SharedByData


class DataWritesSince(WritesSince):
    """:class:`WritesSince`, with loaded indices taken for 0."""

    kind = SharedByData
