"""Tensor maps that a kernel writes, and the fences that make them visible to copies (PTX ISA 9.7.13.4)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Instruction, Memory
from tclint.isa.effects import Fence
from tclint.values.nodes import AddressOf

__all__ = ["RELEASED", "WRITTEN", "TensorMaps"]

WRITTEN = 0
"""Written through the generic proxy, and not released."""
RELEASED = 1
"""Released to the tensormap proxy, and not acquired."""

TensorMapsState = frozenset[tuple[int, int]]
"""``(site, status)`` of the writes of maps that are not visible yet to the copies that use them."""

_SIZE = 128
"""Bytes of a tensor map."""


class TensorMaps(FactSet[tuple[int, int]]):
    """Facts ``(site, status)`` about the writes of maps in global memory."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.uses = [
            (site, self._address(site, "tensormap"))
            for use in model.function.uses
            if use.match is not None
            and not use.match.problem
            and "tensormap" in use.match.form.roles
            and not use.match.form.memory
            and use.match.form.effects.fence is not Fence.PROXY
            for site in use.sites
            if model.cfg.block_of[site] in model.cfg.rank
        ]
        self.writes = dict(self._writes()) if any(map(self._modifiable, {a for _, a in self.uses})) else {}

    def _address(self, site: int, role: str) -> int:
        address = self.model.value(site, role)
        assert address is not None
        return address

    def _modifiable(self, address: int) -> bool:
        """Whether the map at *address* may be in global memory; a parameter or a constant never changes."""
        base = self.model.values.addresses.form(address).base
        return type(self.model.values.node(base)) is not AddressOf or self.model.space(base) == ".global"

    def _writes(self) -> Iterable[tuple[int, int]]:
        """The instructions that write a map which some copy may use, each with the address of the map."""
        model, values = self.model, self.model.values
        maps: dict[int, set[int]] = {}
        for _, address in self.uses:
            maps.setdefault(model.values.addresses.form(address).base, set()).add(address)
        for use in model.function.uses:
            match = use.match
            if match is None or match.problem:
                continue
            for name in [name for verb, name in match.form.memory if verb == "write"]:
                if match.space.startswith(".shared") and "tensormap" not in match.form.roles:
                    continue
                for site in use.sites:
                    operand = model.instruction(site).named(name)
                    if not isinstance(operand, Memory) or model.cfg.block_of[site] not in model.cfg.rank:
                        continue
                    written = values.operand(operand, site)
                    for address in maps.get(model.values.addresses.form(written).base, ()):
                        distance = self.distance(written, address)
                        if distance is not None and 0 <= distance < _SIZE:
                            yield site, address

    def distance(self, address: int, other: int) -> int | None:
        """The distance in bytes from *other* to *address*; None if it is not a constant."""
        values = self.model.values
        terms, constant = values.linear(values.minus(address, other))
        return None if terms else constant

    @cached_property
    def _fences(self) -> list[int]:
        return [i for i in self.model.sites(Fence.PROXY) if self.affecting(self.model.instruction(i))]

    def passes_by(self, write: int, use: int, status: int) -> bool:
        """Whether the fence that a write of *status* needs is on some path of the CFG to *use*.

        Kernels acquire a map only if it has changed, and record that in a variable. A path search does not know how
        that variable relates to the condition under which the map is written.
        """
        cfg, address = self.model.cfg, self.writes[write]
        wanted = [
            i
            for i in self._fences
            if _releases(self.model.instruction(i)) is (status == WRITTEN)
            and (status == WRITTEN or not self.distance(self._address(i, "tensormap"), address))
        ]
        block, target = cfg.block_of[write], cfg.block_of[use]
        if block == target and write < use:
            return any(write < i < use for i in wanted)
        seen, work = {block}, [block]
        while work:
            here = work.pop()
            if here == target:
                continue
            fresh = {edge.target for edge in cfg.successors[here]} - seen
            seen |= fresh
            work += fresh
        return any(
            (b := cfg.block_of[i]) in seen
            and (b != target or i < use)
            and (b != block or i > write)
            and self.model.reaches(
                i, use
            )  # excludes a fence in another role, which is reached through a dispatcher
            for i in wanted
        )

    @cached_property
    def _writing(self) -> frozenset[int]:
        return frozenset(id(self.model.instruction(site)) for site in self.writes)

    def affecting_sites(self) -> Iterable[int] | None:
        return None if self.writes else ()

    def affecting(self, instruction: Instruction) -> bool:
        match = instruction.match
        return (
            id(instruction) in self._writing
            or instruction.flow == "call"
            or (
                match is not None
                and not match.problem
                and match.form.effects.fence is Fence.PROXY
                and match.form.proxy == "tensormap"
            )
        )

    def transfer(self, state: TensorMapsState, at: int, instruction: Instruction) -> TensorMapsState:
        if instruction.flow == "call":
            if state:
                self.model.drop_facts(self, at)
            return frozenset()
        fence = instruction.effects.fence is Fence.PROXY
        if fence and _releases(instruction):
            state = frozenset((site, RELEASED) for site, _ in state)
        elif fence:
            acquired = self._address(at, "tensormap")
            state = frozenset(
                (site, status)
                for site, status in state
                if status == WRITTEN or self.distance(self.writes[site], acquired)
            )
        if at in self.writes:
            state |= {(at, RELEASED if fence else WRITTEN)}
        return state

    def follow(self, site: int, status: int, at: int, instruction: Instruction) -> int | None:
        """The status of one write after one more instruction; None if the write has become visible or is repeated."""
        if at in self.writes and instruction.effects.fence is not Fence.PROXY:
            return None if at == site else status
        state = self.transfer(frozenset(((site, status),)), at, instruction)
        return next((after for s, after in state if s == site), None)


def _releases(instruction: Instruction) -> bool:
    """Whether a fence releases the writes of maps; the other fences acquire one map."""
    match = instruction.match
    return match is not None and ("tensormap" not in match.form.roles or bool(match.form.memory))
