"""Reads of shared memory that nothing can have written (PTX ISA 5.1.7): neither a store nor a copy, by no thread.

A read counts if no write of the kernel may be to its bytes, or if each that may be is executed only by threads that have
executed the read before, and never before it: then the first thread that reads finds what an earlier CTA left. A write to an
unknown address, by a call, or by way of another CTA leaves the question open.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint._named_tuple import NamedTuple
from tclint.analyses.extents import Extent, Extents
from tclint.analyses.gaps import ambiguous
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction, Site, Variable
from tclint.isa.accesses import Access, StateSpace, Via
from tclint.isa.callees import SYSTEM_CALLS
from tclint.values.shared_memory import SharedAccess

__all__ = ["UnwrittenRead", "UnwrittenShared"]

MAX_COMPARISONS = 20_000
"""The pairs of reads and writes of one kernel whose bytes are compared."""
_QUESTION = "unwritten shared memory"
_Room = Variable | None
"""A variable, or all of those without a size, which begin at one address."""


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
        """The reads, in program order; none if a write may be anywhere, or a name is that of several variables."""
        model = self.model
        if not model.function.entry or not self._variables() or self._is_open() or ambiguous(model):
            return
        writes = self._writes()
        if writes is None:
            return
        for site in sorted(model.shared.sites):
            if model.cfg.block_of[site] not in model.cfg.rank or not self._observed(model.instruction(site)):
                continue
            for access in model.shared.accesses(site):
                variable = None if access.writes else self._variable(access.address)
                if variable is not None and (found := self._unwritten(access, variable, writes)) is not None:
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

    def _writes(self) -> dict[_Room, list[_Write]] | None:
        """Variable -> the writes to it; None if some write may be to any of them."""
        model, found = self.model, dict[_Room, list[_Write]]()
        generic = self._makes_generic()
        for site in model.matching(lambda match: any(a.writes and a.shared for a in match.accesses)):
            for access in model.instruction(site).accesses:
                if not (access.writes and access.shared):
                    continue
                address = model.named_value(site, access.operand) if access.via is Via.ADDRESS else None
                variable = None if address is None else self._variable(address)
                if address is not None and variable is not None:
                    write = _Write(site, self._extent(site, access, address))
                    found.setdefault(_room(variable), []).append(write)
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

    def _extent(self, site: Site, access: Access, address: int) -> Extent | None:
        """The bytes that an access is to; None if they are not known."""
        model = self.model
        size = None if access.object or access.extent == "" else model.shared.extent(site, access.extent)
        if size is None:
            return None
        return model.fact(Extents).of(SharedAccess(site, True, address, size or 1), attained=False)

    def _variable(self, address: int) -> Variable | None:
        """The variable in shared memory that an address is in; None if it is not known."""
        values = self.model.values
        base = values.based_on(values.addresses.over_iterations(address).base)
        variable = None if base is None else values.variable(base)
        return variable if variable is not None and variable.space.startswith(".shared") else None

    def _observed(self, instruction: Instruction) -> bool:
        """Whether what an instruction reads is used: by itself, or as what it loads."""
        loaded = instruction.writes
        return not loaded or any(self.model.readers.get(r) for r in loaded)

    def _unwritten(
        self, read: SharedAccess, variable: Variable, writes: dict[_Room, list[_Write]]
    ) -> UnwrittenRead | None:
        """The read, if no write to its bytes can precede it."""
        extents, to_variable = self.model.fact(Extents), writes.get(_room(variable), [])
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
        return UnwrittenRead(read.site, variable.name, tuple(sorted(later)))

    def _follows(self, read: Site, write: Site) -> bool:
        """Whether each thread that executes *write* has executed *read* before, and none does so again afterwards."""
        cfg, match = self.model.cfg, self.model.instruction(write).match
        if self.model.instruction(read).guard >= 0 or match is None or match.multicast:
            return False
        first, second = cfg.block_of[read], cfg.block_of[write]
        before = read <= write if first == second else cfg.dominates(first, second)
        return before and not (read != write and self.model.reaches(write, read))


def _room(variable: Variable) -> _Room:
    return variable if variable.size else None
