"""A launch for a kernel whose launch nobody knows: threads, clusters, and something for every parameter.

Pointers get a large buffer of zeros each, numbers a size that kernels are launched with, and tensor maps are left
*unknown* (:data:`~tclint.executor.tensor_maps.UNKNOWN`): a copy by such a map moves nothing, and completes whatever its mbarrier expects. What
is seen under such a launch happens for some contents of memory and some sizes, if the kernel takes these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tclint.executor.launch import Metadata
from tclint.executor.memory import Array
from tclint.executor.state import Geometry, three
from tclint.executor.tensor_maps import UNKNOWN
from tclint.ir.nodes import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Module,
    Operand,
    Symbol,
    Vector,
    registers,
)
from tclint.isa.table import floating

__all__ = ["Assumed", "Parameters"]

_SIZES = (512, 128, 1280, 64, 1)
"""What integers are, one launch after another."""
_MOST_NUMBERS = 9
"""Of those that parameters are compared with, how many are tried."""
_BLOCKS = ((128, 1, 1), (256, 1, 1), (384, 1, 1), (512, 1, 1), (32, 1, 1))
"""Threads of a CTA where the kernel does not say."""
_BUFFER = 32 << 20
"""Bytes behind each pointer."""
_MOST_SHARED = 227 << 10
_PASSED_ON = ("mov", "add.int", "sub.int", "cvta", "cvta.to", "selp", "cvt.int", "shfl.sync")
"""Forms whose result may be the address that one of their operands is."""

Place = tuple[str, int]
"""A parameter, and bytes from its start."""


@dataclass(frozen=True)
class Assumed:
    """A launch: its geometry, the contents of buffers, and what parameters are once these have addresses."""

    geometry: Geometry
    buffers: Mapping[str, Array]
    parameters: Parameters
    number: int

    def values(self, addresses: Mapping[str, int]) -> list[bytes]:
        """The bytes of each parameter when the buffers lie at *addresses*."""
        return self.parameters.values(self.number, addresses)

    def __str__(self) -> str:
        x, y, z = self.geometry.block
        ctas = f", cluster of {self.geometry.ranks}" if self.geometry.ranks > 1 else ""
        return f"{x * y * z} threads{ctas}, integers {self.number}"


class Parameters:
    """What the parameters of a kernel are used for, as its instructions tell."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.instructions = function.instructions
        self.definitions: dict[int, list[Instruction]] = {}
        for instruction in self.instructions:
            for register in instruction.writes:
                self.definitions.setdefault(register, []).append(instruction)
        self._names = {p.name for p in function.parameters}

    def launches(self, module: Module, metadata: Metadata | None = None) -> Iterator[Assumed]:
        """Launches to try, the most usual ones first; *metadata* is what the compiler says of them."""
        directives = self.function.directives
        variables = (*module.variables.values(), *self.function.variables.values())
        static = sum(v.size + v.align for v in variables if v.space == ".shared")
        dynamic = max(0, _MOST_SHARED - static)
        block = directives.get(".reqntid") or directives.get(".maxntid")
        cluster = directives.get(".reqnctapercluster")
        if metadata is not None and metadata.entry == self.function.name:
            block, cluster, dynamic = metadata.block, metadata.cluster, metadata.shared
        blocks = [three(block)] if block else list(_BLOCKS)
        clusters = [three(cluster)] if cluster else [(1, 1, 1), (2, 1, 1)] if self._clustered else [(1, 1, 1)]
        for number in dict.fromkeys((*_SIZES, *self._compared)):
            for shape in clusters:
                for threads in blocks:
                    geometry = Geometry(shape, threads, shape, dynamic, bool(cluster) or shape[0] > 1)
                    yield Assumed(geometry, self.buffers, self, number)

    @cached_property
    def _compared(self) -> list[int]:
        """Numbers that parameters are compared with, and their neighbours: they decide which way a guard goes."""
        found: dict[int, None] = {}
        for instruction in self.instructions:
            if instruction.match is None or instruction.match.form.name != "setp.int":
                continue
            sides = instruction.operands[1:3]
            numbers = [o.value for o in sides if isinstance(o, Immediate) and isinstance(o.value, int)]
            loaded = any(
                self._load(definition) is not None
                for side in sides
                if isinstance(side, int)
                for definition in self.definitions.get(side, ())
            )
            if loaded:
                found |= dict.fromkeys(n + step for n in numbers for step in (0, 1, -1) if n + step > 0)
        return list(found)[:_MOST_NUMBERS]

    @cached_property
    def _clustered(self) -> bool:
        return any(
            use.match is not None
            and (
                use.match.space == ".shared::cluster"
                or use.match.form.group == "cluster"
                or use.opcode.startswith("mapa")
            )
            for use in self.function.uses
        )

    # ------------------------------------------------------------ what parameters are

    @cached_property
    def buffers(self) -> Mapping[str, Array]:
        """A buffer for each pointer; of unknown tensor maps, if it points to maps."""
        found: dict[str, Array] = {}
        for place in sorted(self._pointers | self._map_pointers):
            if place in self._map_pointers:
                found[_name(place)] = np.frombuffer(UNKNOWN * 512, np.uint8)
            else:
                found[_name(place)] = np.zeros(_BUFFER, np.uint8)
        return found

    def values(self, number: int, addresses: Mapping[str, int]) -> list[bytes]:
        """The bytes of each parameter: unknown maps wherever nothing else is read."""
        found = []
        for parameter in self.function.parameters:
            piece = bytearray((UNKNOWN * (parameter.size // len(UNKNOWN) + 1))[: parameter.size])
            for (name, offset), (size, real) in self._loads.items():
                if name != parameter.name or offset + size > parameter.size:
                    continue
                place = (name, offset)
                if place in self._pointers or place in self._map_pointers:
                    value = addresses[_name(place)].to_bytes(8, "little")[:size]
                elif real:
                    value = np.ones(1, {2: "f2", 4: "f4", 8: "f8"}.get(size, "u1")).tobytes()
                else:
                    value = (number & (1 << 8 * size) - 1).to_bytes(size, "little")
                piece[offset : offset + size] = value
            found.append(bytes(piece))
        return found

    @cached_property
    def _loads(self) -> dict[Place, tuple[int, bool]]:
        """What is loaded from parameters: bytes, and whether it is a floating-point number."""
        found: dict[Place, tuple[int, bool]] = {}
        for instruction in self.instructions:
            place = self._load(instruction)
            if place is None:
                continue
            assert instruction.match is not None
            element = instruction.match.element
            size = int(element[2:]) // 8
            first = instruction.operands[0]
            targets = first.items if isinstance(first, Vector) else (first,)
            for n, target in enumerate(targets):
                real = element.startswith(".f") or (isinstance(target, int) and target in self._reals)
                found[place[0], place[1] + n * size] = (size, real)
        return found

    @cached_property
    def _reals(self) -> frozenset[int]:
        """Registers that floating-point instructions read."""
        return frozenset(
            register
            for instruction in self.instructions
            if instruction.match is not None
            and floating(instruction.match.modifiers)
            and not instruction.match.form.name.startswith(("ld", "st", "mov"))
            for register in instruction.reads
        )

    def _load(self, instruction: Instruction) -> Place | None:
        """Where in the parameters an instruction loads from."""
        match = instruction.match
        if match is None or not match.form.name.startswith("ld") or not match.space.startswith(".param"):
            return None
        address = instruction.operands[1]
        return self._place(address, 0) if isinstance(address, Memory) else None

    def _place(self, operand: Operand, depth: int) -> Place | None:
        """The place in the parameters that an address names."""
        if isinstance(operand, Memory):
            place = self._place(operand.base, depth)
            return (place[0], place[1] + operand.offset) if place else None
        if isinstance(operand, Symbol):
            return (operand.name, operand.offset) if operand.name in self._names else None
        if isinstance(operand, int) and depth < 16:
            for definition in self.definitions.get(operand, ())[:1]:
                name = definition.match.form.name if definition.match is not None else ""
                if name in ("mov", "cvta", "cvta.to"):
                    return self._place(definition.operands[1], depth + 1)
                step = definition.operands[2] if name == "add.int" else None
                if isinstance(step, Immediate) and isinstance(step.value, int):
                    place = self._place(definition.operands[1], depth + 1)
                    return (place[0], place[1] + step.value) if place else None
        return None

    # ------------------------------------------------------------ what pointers are

    @cached_property
    def _pointers(self) -> frozenset[Place]:
        """Parameters that are addresses of global memory."""
        found: set[Place] = set()
        for instruction in self.instructions:
            match = instruction.match
            own = match is None or match.space.startswith((".shared", ".param", ".local", ".const"))
            if match is None or (own and match.form.group not in ("cp.async", "bulk", "mbarrier")):
                continue
            for name, at in match.named.items():
                operand = instruction.operands[at]
                if (
                    isinstance(operand, Memory)
                    and name != match.form.roles.get("tensormap")
                    and not operand.extras
                ):
                    found |= self._origins(operand.base)
        return frozenset(found - self._map_pointers)

    @cached_property
    def _map_pointers(self) -> frozenset[Place]:
        """Parameters that are addresses of tensor maps."""
        found: set[Place] = set()
        for instruction in self.instructions:
            operand = instruction.role("tensormap")
            if isinstance(operand, Memory) and self._place(operand.base, 0) is None:
                found |= self._origins(operand.base)
        return frozenset(found)

    def _origins(self, operand: Operand) -> set[Place]:
        """The parameters of 64 bits that an address comes from."""
        found: set[Place] = set()
        sure: set[Place] = set()
        seen: set[int] = set()
        work = [(operand, False)]
        while work:
            at, converted = work.pop()
            if not isinstance(at, int) or at in seen or not self.function.registers[at].type.endswith("64"):
                continue
            seen.add(at)
            for definition in self.definitions.get(at, ()):
                match = definition.match
                if match is None:
                    continue
                place = self._load(definition)
                if place is not None:
                    assert isinstance(definition.operands, tuple)
                    index = _index(definition, at) * int(match.element[2:]) // 8
                    (sure if converted else found).add((place[0], place[1] + index))
                elif match.form.name in _PASSED_ON:
                    names = match.form.name == "cvta.to"
                    work += [(r, converted or names) for o in definition.operands[1:] for r in registers(o)]
                elif match.form.name == "mad.int":
                    work += [(r, converted) for r in registers(definition.operands[3])]
        return sure or found


def _index(instruction: Instruction, register: int) -> int:
    first = instruction.operands[0]
    return first.items.index(register) if isinstance(first, Vector) and register in first.items else 0


def _name(place: Place) -> str:
    return f"{place[0]}+{place[1]}"
