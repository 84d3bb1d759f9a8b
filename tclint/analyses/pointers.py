"""Which pointers among the parameters of a kernel an address derives from, and what memory the kernel only reads.

What different pointers give access to may overlap; that it does not is for the caller to assume.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from tclint.analyses.global_memory import from_driver
from tclint.dataflow.kernel import Kernel
from tclint.isa.accesses import StateSpace, Via
from tclint.isa.effects import Barrier, Order
from tclint.isa.widths import width_of
from tclint.values.nodes import (
    AddressOf,
    Allocated,
    CollectiveResult,
    Loaded,
    Packed,
    ParameterRead,
    Phi,
    Select,
    Sum,
    Unmodelled,
)

__all__ = ["Pointer", "Pointers"]

_BYTES = 8
"""The size of a pointer."""
_INDEX = (16, 32)
"""The bits of a register that has no room for one."""
_HIDING = Loaded | Unmodelled | CollectiveResult | Allocated | AddressOf | Packed
_ELSEWHERE = (".param", ".const", ".local")
_MAX_DEPTH = 16
"""The nested phis and selects around a pointer."""
Pointer = tuple[str, int]
"""A parameter, and the offset in it of a pointer or a tensor map, in bytes."""
Pair = tuple[frozenset[Pointer], frozenset[Pointer]]
"""The pointers that an address may derive from, and all that is read of parameters to compute it."""


class Pointers:
    """The pointers in the parameters of one kernel."""

    def __init__(self, model: Kernel) -> None:
        self.model, self.values = model, model.values
        self._unwritten: dict[int, bool] = {}
        self._hiding: dict[int, bool] = {}

    def at(self, address: int) -> Pointer | None:
        """The pointer or tensor map at an address in the parameters; None if it is elsewhere, or its offset is not constant."""
        terms, offset = self.values.linear(address)
        if len(terms) != 1 or terms[0][1] != 1 or not self.model.space(terms[0][0]).startswith(".param"):
            return None
        node = self.values.node(terms[0][0])
        return (node.name, offset) if type(node) is AddressOf else None

    def derived(self, address: int) -> frozenset[Pointer]:
        """The pointers from which an address may derive, or the tensor map that it is of; empty if it may derive from anything else."""
        if (map_ := self.at(address)) is not None:
            return frozenset((map_,))
        return frozenset(each for each in self._origins(address, frozenset()) if each is not None)

    def read(self, address: int) -> frozenset[Pointer] | None:
        """All that is read of parameters to compute an address; None if something is unknown, or a pointer is subtracted."""
        found = set[Pointer]()
        for node in map(self.values.node, self.values.subexpressions(address)):
            if type(node) is ParameterRead:
                pointer = self.at(node.address)
                if pointer is None:
                    return None
                found.add(pointer)
            elif type(node) is Sum and any(f < 0 and self._is_pointer(term) for term, f in node.terms):
                return None
        return frozenset(found)

    def apart(self, address: int, other: int) -> bool:
        """Whether two addresses derive from different pointers, and neither depends on a pointer from which the other derives."""
        return _apart(self._pair(address), self._pair(other))

    def outside_shared(self, site: int) -> bool:
        """Whether the generic addresses of an instruction are no addresses of shared memory: they derive from pointers that the kernel
        gets, as parameters or in memory that it does not write."""
        accesses = self.model.instruction(site).accesses
        generic = (access.operand for access in accesses if access.space is StateSpace.GENERIC)
        return all(map(self._leads_elsewhere, (self.model.named_value(site, operand) for operand in generic)))

    def _leads_elsewhere(self, address: int | None) -> bool:
        """Whether a generic address derives from what the kernel gets, or is one of a variable that is not in shared memory."""
        if address is None:
            return False
        return bool(self._origins(address, frozenset(), loaded=True)) or self._space(address) in _ELSEWHERE

    def map_of(self, site: int) -> int | None:
        """The address of the tensor map that an instruction uses, if it is a parameter: another map may be of any memory."""
        address = self.model.value(site, "tensormap")
        return None if address is None or self.at(address) is None else address

    def sites_apart(self, write: int, other: int) -> bool:
        """Whether an instruction writes no global memory that another one accesses, unless different pointers give access to the
        same."""
        mine, its = [*self._pairs(write, writes=True)], [*self._pairs(other)]
        return bool(mine and its) and all(_apart(a, b) for a in mine for b in its)

    def unwritten(self, load: int) -> bool:
        """Whether a weak load reads global memory that no instruction of the kernel writes, unless different pointers give access to
        the same, and that no grid on which this one depends may still write (9.7.13.13)."""
        if load not in self._unwritten:
            self._unwritten[load] = self._reads_alone(load)
        return self._unwritten[load]

    # ------------------------------------------------------------ what it rests on

    def _pair(self, address: int) -> Pair | None:
        derived, read = self.derived(address), self.read(address)
        return (derived, derived | read) if derived and read is not None else None

    def _is_pointer(self, term: int) -> bool:
        """Whether a term may be a pointer that is a parameter."""
        node = self.values.node(term)
        return type(node) is ParameterRead and node.size == _BYTES

    def _origins(self, value: int, within: frozenset[int], *, loaded: bool = False) -> set[Pointer | None]:
        """The pointers from which *value* may derive; None among them for the phis that it is an argument of.

        With *loaded*, what is loaded from memory that the kernel does not write is one as well, named by its load.
        """
        terms, _ = self.values.linear(value)
        found, pointers = set[Pointer | None](), 0
        for term, factor in ((self.values.representative(t), factor) for t, factor in terms):
            node = self.values.node(term)
            if factor != 1:
                if self._may_hide(term) and not self._is_index(term):
                    return set()
                continue
            if type(node) is ParameterRead and node.size == _BYTES:
                pointer = self.at(node.address)
                if pointer is None:
                    return set()
                found.add(pointer)
                pointers += 1
            elif isinstance(node, Phi | Select) and term not in within and len(within) < _MAX_DEPTH:
                parts = node.arms if type(node) is Select else self.values.arguments(term)
                inner = [self._origins(part, within | {term}, loaded=loaded) for part in parts]
                if all(inner):
                    found = found.union(*inner)
                pointers += 1
            elif term in within:
                found.add(None)
                pointers += 1
            elif loaded and self._is_given(term):
                found.add(("", term))
                pointers += 1
            elif self._may_hide(term):
                return set()
        return found if pointers == 1 else set()

    def _is_index(self, term: int) -> bool:
        """Whether a term is 32 bits that memory or another lane holds: a multiple of it is not a pointer."""
        node = self.values.node(term)
        if type(node) is Loaded:
            written, registers = self.model.instruction(node.site).writes, self.model.function.registers
            return all(width_of(registers[register].type) in _INDEX for register in written)
        return type(node) is CollectiveResult

    def _may_hide(self, term: int) -> bool:
        """Whether another pointer than one of a parameter may be a part of what is added to a pointer: what is computed from the
        address of a variable, or from what memory or other lanes hold."""
        if term not in self._hiding:
            parts = self.values.subexpressions(term, until=self._is_parameter)
            self._hiding[term] = any(isinstance(self.values.node(part), _HIDING) for part in parts)
        return self._hiding[term]

    def _is_parameter(self, value: int) -> bool:
        return type(self.values.node(value)) is ParameterRead

    def _is_given(self, term: int) -> bool:
        """Whether a term is a pointer in memory that the kernel does not write, or the one that the driver gives (10.27)."""
        node = self.values.node(term)
        if type(node) is Loaded:
            match = self.model.instruction(node.site).match
            return self.unwritten(node.site) or (match is not None and match.modes.read_only)
        return from_driver(self.values, term)

    def _reads_alone(self, load: int) -> bool:
        instruction = self.model.instruction(load)
        reads = [each for each in instruction.accesses if each.space is StateSpace.GLOBAL]
        if len(reads) != 1 or reads[0].writes or reads[0].later or instruction.order is not Order.WEAK:
            return False
        waits, address = self.model.awaits(Barrier.GRIDS), self.model.named_value(load, reads[0].operand)
        certain = [wait for wait in waits if self.model.instruction(wait).guard < 0]
        if address is None or self._written is None or (waits and self.model.reaches(-1, load, certain)):
            return False
        mine = self._pair(address)
        return all(_apart(mine, other) for other in self._written)

    @cached_property
    def _written(self) -> list[Pair] | None:
        """Of each instruction that may write to global memory, what its address derives from; None if that is not known of one."""
        if any(use.match is None or use.match.form.flow == "call" for use in self.model.function.uses):
            return None
        found = dict[Pair, None]()
        for site in range(len(self.model.function.instructions)):
            for pair in self._pairs(site, writes=True):
                if pair is None:
                    return None
                found[pair] = None
        return list(found)

    def _pairs(self, site: int, *, writes: bool = False) -> Iterator[Pair | None]:
        """What the addresses derive from at which an instruction may access global memory; None for an unknown one."""
        return (None if each is None else self._pair(each) for each in self._addresses(site, writes=writes))

    def _addresses(self, site: int, *, writes: bool) -> Iterator[int | None]:
        """The addresses at which an instruction may access global memory, or those of its tensor maps; None for an unknown one."""
        for access in self.model.instruction(site).accesses:
            if access.space not in (StateSpace.GLOBAL, StateSpace.GENERIC) or access.writes < writes:
                continue
            if access.via is Via.MAP:
                yield self.map_of(site)
                continue
            address = self.model.named_value(site, access.operand)
            if address is None or access.space is StateSpace.GLOBAL or not self._is_elsewhere(address):
                yield address

    def _is_elsewhere(self, address: int) -> bool:
        """Whether a generic address is one of a variable that is not in global memory."""
        return self._space(address).startswith((".shared", ".local"))

    def _space(self, address: int) -> str:
        """The state space of the one variable whose address is in a sum; "" if there is none, or what may be another pointer."""
        terms = [term for term, _ in self.values.linear(address)[0]]
        found = [term for term in terms if self.model.space(term)]
        others = (term for term in terms if term not in found)
        if len(found) != 1 or any(self._may_hide(term) or self._is_pointer(term) for term in others):
            return ""
        return self.model.space(found[0])


def _apart(mine: Pair | None, other: Pair | None) -> bool:
    """Whether nothing leads from what one address derives from to the other one."""
    return (
        mine is not None
        and other is not None
        and mine[1].isdisjoint(other[0])
        and other[1].isdisjoint(mine[0])
    )
