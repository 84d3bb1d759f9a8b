"""Reads of shared memory that nothing can have written (PTX ISA 5.1.7): neither a store nor a copy, by no thread.

A read counts if no write of the kernel may be to its bytes, or if each that may be is executed only by threads that have
executed the read before, and never before it: then the first thread that reads finds what an earlier CTA left. A write to an
unknown address, by a call, or by way of another CTA leaves the question open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tclint.analyses.extents import Extent, Extents
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction, Site
from tclint.isa.accesses import Access, StateSpace, Via
from tclint.isa.callees import SYSTEM_CALLS
from tclint.values.nodes import AddressOf
from tclint.values.shared_memory import SharedAccess

__all__ = ["UnwrittenRead", "UnwrittenShared"]

MAX_COMPARISONS = 20_000
"""The pairs of reads and writes of one kernel whose bytes are compared."""
_QUESTION = "unwritten shared memory"
_DYNAMIC = ""
"""What all variables without a size are called here: they begin at one address."""


class UnwrittenRead(NamedTuple):
    """A read of bytes that nothing has written."""

    site: Site
    variable: str
    """Its name; that of one of them if they have no size."""
    later: tuple[Site, ...]
    """The writes to these bytes, all of which come after it."""


class _Write(NamedTuple):
    """A write to a variable in shared memory."""

    site: Site
    extent: Extent | None
    """None if any byte of the variable may be written: the number of bytes is not known, or it is an mbarrier."""


class UnwrittenShared:
    """The reads of one kernel that find what nothing has written."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._compared = 0

    def reads(self) -> Iterator[UnwrittenRead]:
        """The reads, in program order; none if a write may be anywhere."""
        model = self.model
        if not model.function.entry or not self._variables() or self._is_open():
            return
        writes = self._writes()
        if writes is None:
            return
        for site in sorted(model.shared.sites):
            if model.cfg.block_of[site] not in model.cfg.rank or not self._observed(model.instruction(site)):
                continue
            for access in model.shared.accesses(site):
                name = None if access.writes else self._name(access.address)
                if name is not None and (found := self._unwritten(access, name, writes)) is not None:
                    yield found

    def _variables(self) -> bool:
        """Whether there are variables in shared memory."""
        declared = (self.model.function.variables, self.model.module.variables)
        return any(v.space.startswith(".shared") for variables in declared for v in variables.values())

    def _is_open(self) -> bool:
        """Whether what is not known here may write: a callee, an unknown instruction, another CTA of the cluster."""
        for use in self.model.function.uses:
            if not use.sites:
                continue
            if use.match is None or use.match.problem or use.match.form.compute == "mapa":
                return True
            if use.flow and any(self._calls(self.model.instruction(site)) for site in use.sites):
                return True
        return False

    @staticmethod
    def _calls(instruction: Instruction) -> bool:
        return instruction.flow == "call" and instruction.callee not in SYSTEM_CALLS

    def _writes(self) -> dict[str, list[_Write]] | None:
        """Variable -> the writes to it; None if some write may be to any of them."""
        model, found = self.model, dict[str, list[_Write]]()
        generic = self._makes_generic()
        for use in model.function.uses:
            writing = [a for a in use.match.accesses if a.writes and a.shared] if use.match else []
            if not writing:
                continue
            for site in use.sites:
                for access in writing if model.cfg.block_of[site] in model.cfg.rank else ():
                    name = self._written(site, access)
                    if name is not None:
                        write = _Write(site, self._extent(site, access))
                        found.setdefault(self._called(name), []).append(write)
                    elif access.space is StateSpace.SHARED or generic:
                        return None
        return found

    def _makes_generic(self) -> bool:
        """Whether a generic address may be in shared memory: one is converted."""
        matches = (use.match for use in self.model.function.uses if use.sites)
        return any(
            m is not None and m.form.compute == "cvta" and m.binding.get("ss", "").startswith(".shared")
            for m in matches
        )

    def _written(self, site: Site, access: Access) -> str | None:
        """The name of the variable that an access is to; None if it is not known."""
        operand = self.model.instruction(site).named(access.operand)
        if operand is None or access.via is not Via.ADDRESS:
            return None
        return self._name(self.model.values.operand(operand, site))

    def _extent(self, site: Site, access: Access) -> Extent | None:
        """The bytes that an access is to; None if they are not known."""
        model = self.model
        size = None if access.object or access.extent == "" else model.shared.extent(site, access.extent)
        if size is None:
            return None
        address = model.values.operand(model.instruction(site).named(access.operand), site)
        return model.fact(Extents).of(SharedAccess(site, True, address, size or 1), attained=False)

    def _name(self, address: int) -> str | None:
        """The name of the variable in shared memory that an address is in; None if it is not known."""
        values = self.model.values
        terms = values.linear(values.addresses.over_iterations(address).base)[0]
        names = [(node.name, factor) for t, factor in terms if type(node := values.node(t)) is AddressOf]
        if len(names) != 1 or names[0][1] != 1:
            return None
        name = names[0][0]
        return name if self.model.space_of(name).startswith(".shared") else None

    def _called(self, name: str) -> str:
        variable = self.model.variable(name)
        return name if variable is not None and variable.size else _DYNAMIC

    def _observed(self, instruction: Instruction) -> bool:
        """Whether what an instruction reads is used: by itself, or as what it loads."""
        loaded = instruction.writes
        return not loaded or any(self.model.readers.get(r) for r in loaded)

    def _unwritten(
        self, read: SharedAccess, name: str, writes: dict[str, list[_Write]]
    ) -> UnwrittenRead | None:
        """The read, if no write to its bytes can precede it."""
        extents, to_variable = self.model.fact(Extents), writes.get(self._called(name), [])
        mine = extents.of(read, attained=False)
        later: list[Site] = []
        if self._compared > MAX_COMPARISONS:
            self.model.ledger.give_up(_QUESTION, read.site, f"more than {MAX_COMPARISONS} pairs of accesses")
            return None
        for k, write in enumerate(to_variable):
            self._compared += 1
            if mine is not None and write.extent is not None and not extents.may_overlap(mine, write.extent):
                continue
            if not self._follows(read.site, write.site):
                to_variable.insert(0, to_variable.pop(k))  # the next read is likely to be of the same bytes
                return None
            later.append(write.site)
        return UnwrittenRead(read.site, name, tuple(sorted(later)))

    def _follows(self, read: Site, write: Site) -> bool:
        """Whether each thread that executes *write* has executed *read* before, and none does so again afterwards."""
        cfg, match = self.model.cfg, self.model.instruction(write).match
        if self.model.instruction(read).guard >= 0 or match is None or match.multicast:
            return False
        first, second = cfg.block_of[read], cfg.block_of[write]
        before = read <= write if first == second else cfg.dominates(first, second)
        return before and not (read != write and self.model.reaches(write, read))
