"""What a kernel may write to shared memory that it loads later (PTX ISA 8.2, 9.7.9.12, 9.7.9.25)."""

from __future__ import annotations

from functools import cached_property

from tclint._named_tuple import NamedTuple
from tclint.analyses.extents import Extent, Extents
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Vector
from tclint.isa.effects import TRANSACTIONS, Query, Resource
from tclint.values.nodes import AddressOf, Loaded, ParameterRead
from tclint.values.shared_memory import SharedAccess

__all__ = ["SharedStores"]

_STORES = frozenset(("st", "st.volatile", "st.sync", "st.mmio"))


class _Location(NamedTuple):
    """The location of an access."""

    variables: frozenset[int]
    """The variables of shared memory that its address may point into, as far as it is computed from any."""
    extent: Extent | None
    size_known: bool
    """Whether the number of bytes is known."""


class SharedStores:
    """The instructions that may write what a load from shared memory reads."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._extents = model.fact(Extents)
        self._writers: dict[int, list[int]] = {}
        self._values: dict[int, list[int]] = {}
        self._variables: dict[int, frozenset[int]] = {}

    def writers(self, load: int) -> list[int]:
        """The instructions that may write what the load at *load* reads."""
        found = self._writers.get(load)
        if found is None:
            reads = [self._location(access) for access in self.model.shared.accesses(load)]
            met = (
                sites
                for location, sites in (self._writes.items() if reads else ())
                if any(self._may_meet(location, r) for r in reads)
            )
            found = self._writers[load] = sorted(set().union(*met))
        return found

    @cached_property
    def _writes(self) -> dict[_Location, list[int]]:
        """The instructions that may write to shared memory, by location: thousands of stores may share one."""
        found: dict[_Location, list[int]] = {}
        for site in self.model.shared.writers:
            for access in self.model.shared.accesses(site):
                if access.writes and self.is_shared(access):
                    found.setdefault(self._location(access), []).append(site)
        return found

    def is_shared(self, access: SharedAccess) -> bool:
        """Whether an access may be to shared memory, as it is not by a generic address that comes with the launch."""
        return bool(self._variables_of(access)) or not self._outside_shared(access)

    def _location(self, access: SharedAccess) -> _Location:
        return _Location(self._variables_of(access), self._extents.of(access), self._size_known(access.site))

    def values_known(self, load: int) -> bool:
        """Whether a replay models everything that may write there."""
        return all(self.is_plain(i) or self.is_copy(i) or self._is_allocation(i) for i in self.writers(load))

    def is_plain(self, site: int) -> bool:
        """Whether it stores the value of registers."""
        match = self.model.instruction(site).match
        return match is not None and match.form.name in _STORES

    def is_copy(self, site: int) -> bool:
        """Whether it is a copy that completes on an mbarrier."""
        instruction = self.model.instruction(site)
        return (
            instruction.effects.begins is not None or instruction.effects.query is Query.CANCEL
        ) and instruction.group == TRANSACTIONS

    def _is_allocation(self, site: int) -> bool:
        """Whether it allocates tensor memory, and so stores its address."""
        return self.model.instruction(site).effects.resource is Resource.TMEM_ALLOC

    def values(self, load: int) -> list[int]:
        """The values that plain stores may have left there."""
        if load not in self._values:
            found = dict[int, None]()
            for site in filter(self.is_plain, self.writers(load)):
                operand = self.model.instruction(site).operands[-1]
                for item in operand.items if isinstance(operand, Vector) else (operand,):
                    found[self.model.values.operand(item, site)] = None
            self._values[load] = list(found)
        return self._values[load]

    def _may_meet(self, write: _Location, read: _Location) -> bool:
        """Whether both may access the same byte, in any iterations of loops."""
        mine, others = write.variables, read.variables
        if mine and others and mine.isdisjoint(others) and any(map(self.model.size, mine | others)):
            return False  # only variables that get their size from the launch alias
        written, loaded = write.extent, read.extent
        if written is None or loaded is None or written.base != loaded.base:
            return True
        return written.low < loaded.high and (loaded.low < written.high or not write.size_known)

    def _variables_of(self, access: SharedAccess) -> frozenset[int]:
        """The variables of shared memory that an address may point into, as far as it is computed from any."""
        address = access.address
        if address not in self._variables:
            shared, values = self.model.shared, self.model.values
            found = shared.origins(shared.addresses.form(address).base)
            self._variables[address] = frozenset(v for v in found if type(values.node(v)) is AddressOf)
        return self._variables[address]

    def _outside_shared(self, access: SharedAccess) -> bool:
        """Whether a generic address comes with the launch, as those of global memory do."""
        values, match = self.model.values, self.model.instruction(access.site).match
        if match is None or match.space:
            return False
        made = map(values.node, values.subexpressions(access.address))
        return any(
            type(n) is ParameterRead or (type(n) is Loaded and not n.space.startswith(".shared"))
            for n in made
        )

    def _size_known(self, site: int) -> bool:
        """Whether the number of bytes is known; of a tensor copy only a lower bound is."""
        match = self.model.instruction(site).match
        open_ = self.is_copy(site) or (match is not None and "bytes" in match.form.roles)
        return not open_ or self.model.constant_of(site, "bytes") is not None
