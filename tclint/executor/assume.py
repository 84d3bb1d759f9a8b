"""Assumed launches for kernels without a launch file: CTA and cluster sizes, and a value for every parameter.

Each pointer gets a large buffer of zeros, each integer a typical size, and tensor maps stay *unknown*
(:data:`~tclint.executor.tensor_maps.UNKNOWN`): a copy through such a map moves nothing and completes as many bytes as
its mbarrier expects. An observation in such a launch is real for these sizes and contents of memory, provided that the
kernel accepts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod

import numpy as np

from tclint._dataclass import dataclass
from tclint.executor.launch import Metadata
from tclint.executor.memory import RESERVED, Array
from tclint.executor.state import Geometry, as_dim3
from tclint.executor.tensor_maps import UNKNOWN
from tclint.ir.nodes import (
    MAX_CTA_THREADS,
    MAX_SHARED_BYTES,
    Function,
    Immediate,
    Instruction,
    Memory,
    Module,
    Operand,
    Special,
    Symbol,
    Vector,
    registers,
)
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import Barrier
from tclint.isa.forms import Match, floating

__all__ = ["Assumed", "ParameterUses"]

_SIZES = (512, 8, 128, 7, 1280, 64, 1)
"""Values of integer parameters, in the order in which launches try them."""
MAX_COMPARED_CONSTANTS = 9
"""Further values to try, taken from the constants that parameters are compared with."""
_BLOCKS = ((128, 1, 1), (256, 1, 1), (384, 1, 1), (512, 1, 1), (32, 1, 1))
"""CTA sizes to try if no directive of the kernel specifies one."""
_BUFFER_SIZE = 32 << 20
"""Bytes of the buffer for each pointer."""
_DESCRIPTOR = 1 << 46 | 16 << 32 | 8 << 16 | RESERVED >> 4
"""A descriptor parameter: a matrix without swizzling at the beginning of shared memory (9.7.15.5, 9.7.16.4.1)."""
MAX_ASSUMED_RANKS = 8
"""CTAs of the largest cluster to try; a larger one needs an attribute of the kernel."""
_FORWARDING = ("mov", "add.int", "sub.int", "cvta", "cvta.to", "selp", "cvt.int", "shfl.sync")
"""Forms whose result may be an address derived from one of their operands."""

_DETERMINES_ADDRESSES = ("size", "cp-size", "txCount", "a-desc", "b-desc", "s-desc")
"""Operands other than addresses on which it depends which bytes of shared memory an instruction accesses or expects.

Not src-size: the rest of cp-size is filled with zeros (9.7.9.25.3.1).
"""

Three = tuple[int, int, int]
Field = tuple[str, int]
"""A parameter, and an offset in it in bytes."""


@dataclass(frozen=True)
class Assumed:
    """An assumed launch: its geometry, the contents of buffers, and the value of integer parameters (``number``)."""

    geometry: Geometry
    buffers: Mapping[str, Array]
    parameters: ParameterUses
    number: int
    assumes: frozenset[str]
    """Of ``threads``, ``cluster`` and ``integers``, what neither the kernel nor its metadata determines."""

    def values(self, addresses: Mapping[str, int]) -> list[bytes]:
        """The bytes of each parameter, given the *addresses* of the buffers."""
        return self.parameters.values(self.number, addresses)

    @property
    def assumptions(self) -> str:
        """What is assumed, for a verdict that rests on it."""
        x, y, z = self.geometry.block
        stated = ["a grid of one cluster" if self.geometry.ranks > 1 else "a grid of one CTA"]
        if "threads" in self.assumes:
            stated.append(f"{x * y * z} threads")
        if "cluster" in self.assumes:
            shape = " by ".join(str(n) for n in self.geometry.cluster if n > 1)
            stated.append(f"clusters of {shape} CTAs" if shape else "no cluster")
        if "integers" in self.assumes:
            stated.append(f"{self.number} for integer parameters")
        if self.buffers:
            stated.append("zeros in global memory")
        return ", ".join(stated)

    def __str__(self) -> str:
        x, y, z = self.geometry.block
        shape = " by ".join(str(n) for n in self.geometry.cluster if n > 1)
        ctas = f", clusters of {shape} CTAs" if shape else ""
        return f"{x * y * z} threads{ctas}, {self.number} for integer parameters"


class ParameterUses:
    """How the instructions of a kernel use its parameters, and the launches that follow from that."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.instructions = function.instructions
        self.definitions: dict[int, list[Instruction]] = {}
        for instruction in self.instructions:
            for register in instruction.writes:
                self.definitions.setdefault(register, []).append(instruction)
        self._names = {p.name for p in function.parameters}

    def launches(self, module: Module, metadata: Metadata | None = None) -> Iterator[Assumed]:
        """Launches to try, the most plausible ones first.

        *metadata*, what the compiler recorded of the launch, takes precedence over the directives of the kernel.
        """
        directives = self.function.directives
        variables = (*module.variables.values(), *self.function.variables.values())
        static = sum(v.size + v.align for v in variables if v.space == ".shared")
        dynamic = max(0, MAX_SHARED_BYTES - static)
        block = directives.get(".reqntid") or directives.get(".maxntid")
        cluster = directives.get(".reqnctapercluster")
        stated = metadata is not None and metadata.entry == self.function.name
        if metadata is not None and stated:
            block, cluster, dynamic = metadata.block, metadata.cluster, metadata.shared
        blocks = [as_dim3(block)] if block else self._blocks
        clusters = [as_dim3(cluster)] if cluster else self._clusters
        assumes = frozenset(
            what
            for what, open_ in (
                ("threads", not (stated or ".reqntid" in directives or (block and not self._reads("%ntid")))),
                ("cluster", len(clusters) > 1),
                ("integers", bool(self._integers)),
            )
            if open_
        )
        for number in dict.fromkeys((*_SIZES, *self._compared)):
            for shape in clusters:
                for threads in blocks:
                    geometry = Geometry(shape, threads, shape, dynamic, bool(cluster) or prod(shape) > 1)
                    yield Assumed(geometry, self.buffers, self, number, assumes)

    @property
    def _blocks(self) -> list[Three]:
        """CTA sizes to try, first those that have enough threads for the named barriers of the kernel."""
        counts = [
            count.value
            for instruction in self.instructions
            if instruction.effects.at_barrier
            and isinstance(count := instruction.named("b"), Immediate)
            and isinstance(count.value, int)
        ]
        needed = min(max(counts, default=0), MAX_CTA_THREADS)
        return sorted(_BLOCKS, key=lambda block: block[0] < needed)

    @property
    def _clusters(self) -> list[Three]:
        """Cluster shapes to try if none is stated: those that CTA masks, ranks and CTA pairs require, then others."""
        if not self._clustered:
            return [(1, 1, 1)]
        pairs = any(match.of_pair for match in self._matches)
        remote = pairs or any(match.multicast or match.form.compute == "mapa" for match in self._matches)
        masks = {
            mask for mask in self._constants("mask") if 0 < mask < 0xFFFF
        }  # all ones: any number of CTAs
        ranks = max([2 if remote else 1, *(mask.bit_length() for mask in masks)])
        ranks = 1 << (ranks - 1).bit_length()
        # A mask of every second CTA multicasts along the second dimension of the cluster.
        steps = {_step(mask) for mask in masks if mask.bit_count() > 1}
        shapes = [(step, ranks // step, 1) for step in sorted(steps) if 1 < step < ranks]
        most = self.function.directives.get(".maxclusterrank", (MAX_ASSUMED_RANKS,))[0]
        sizes = [n for n in (ranks, 2, 4, 8, 1) if n >= ranks and n <= most and not (pairs and n == 1)]
        return list(dict.fromkeys([*shapes, *((n, 1, 1) for n in sizes)])) or [(1, 1, 1)]

    def _constants(self, role: str) -> set[int]:
        """The constants from which the operands of a *role* are made by moves, shifts and other bit operations."""
        found: set[int] = set()
        work = [o for i in self.instructions if (o := i.role(role)) is not None]
        seen: set[int] = set()
        while work:
            operand = work.pop()
            if isinstance(operand, Immediate) and isinstance(operand.value, int):
                found.add(operand.value)
            elif isinstance(operand, int) and operand not in seen:
                seen.add(operand)
                for definition in self.definitions.get(operand, ()):
                    name = definition.match.form.name if definition.match is not None else ""
                    if name in ("mov", "cvt.int", "shl", "selp"):
                        work += definition.operands[1 : 3 if name == "selp" else 2]
        return found

    @cached_property
    def _compared(self) -> list[int]:
        """Constants that parameters are compared with, and their neighbours: values on both sides of a branch."""
        found: dict[int, None] = {}
        for instruction in self.instructions:
            if instruction.match is None or instruction.match.form.name != "setp.int":
                continue
            sides = instruction.operands[1:3]
            constants = [o.value for o in sides if isinstance(o, Immediate) and isinstance(o.value, int)]
            loaded = any(
                self._load(definition) is not None
                for side in sides
                if isinstance(side, int)
                for definition in self.definitions.get(side, ())
            )
            if loaded:
                found |= dict.fromkeys(n + step for n in constants for step in (0, 1, -1) if n + step > 0)
        return list(found)[:MAX_COMPARED_CONSTANTS]

    @cached_property
    def _clustered(self) -> bool:
        """Whether the kernel does anything that has a meaning in clusters only."""
        return self._reads("%cluster") or any(
            match.multicast
            or match.of_pair
            or match.form.name in ("mapa", "getctarank")
            or match.form.effects.barrier is Barrier.CLUSTER
            for match in self._matches
        )

    @property
    def _matches(self) -> list[Match]:
        return [use.match for use in self.function.uses if use.match is not None]

    # ------------------------------------------------------------ what depends on an assumption

    @cached_property
    def _integers(self) -> frozenset[Field]:
        """The fields that hold integers, whose values are assumed."""
        known = self._pointers | self._map_pointers | self._descriptors
        return frozenset(field for field, (_, real) in self._loads.items() if not real and field not in known)

    def _reads(self, special: str) -> bool:
        """Whether an instruction reads a special register, or a component of it."""
        return any(self._uses(instruction, special) for instruction in self.instructions)

    @staticmethod
    def _uses(instruction: Instruction, *specials: str) -> bool:
        return any(isinstance(o, Special) and o.name.startswith(specials) for o in instruction.operands)

    @cached_property
    def guessed(self) -> frozenset[int]:
        """Registers whose value is computed from what a launch assumes.

        That is an integer or a descriptor parameter, the contents of global memory, the size of the grid, and the size of the CTA
        unless ``.reqntid`` sets it. Shared memory counts if such a value is stored there, or if a copy fills it.
        """
        sizes = ("%nctaid",) if ".reqntid" in self.function.directives else ("%nctaid", "%ntid")
        return self._computed_from(self._integers | self._descriptors, sizes)

    @cached_property
    def branches_on_memory(self) -> bool:
        """Whether the contents of global memory decide which path a thread takes, such as the number of its items."""
        loaded = self._computed_from(frozenset(), ())
        return any(
            i.guard in loaded or (i.flow and not loaded.isdisjoint(i.reads))
            for i in self.instructions
            if i.flow or i.event
        )

    def _computed_from(self, integers: frozenset[Field], sizes: tuple[str, ...]) -> frozenset[int]:
        """Registers whose value is computed from these parameters, special registers, or the contents of memory."""
        copied = any(
            a.later and a.writes and a.space is StateSpace.SHARED
            for i in self.instructions
            for a in i.accesses
        )
        found: set[int] = set()
        while True:
            before = len(found), copied
            for instruction in self.instructions:
                match = instruction.match
                name = match.form.name if match is not None else ""
                depends = found.intersection((*instruction.reads, instruction.guard))
                if name.startswith(("st", "red")) and match is not None and match.space.startswith(".shared"):
                    copied = copied or bool(depends)
                elif (
                    depends
                    or self._is_guess(instruction, copied, integers)
                    or self._uses(instruction, *sizes)
                ):
                    found.update(instruction.writes)
            if (len(found), copied) == before:
                return frozenset(found)

    def _is_guess(self, instruction: Instruction, copied: bool, integers: frozenset[Field]) -> bool:
        """Whether an instruction loads a value that a launch assumes."""
        match = instruction.match
        if match is None or not match.form.name.startswith(("ld", "atom")) or match.form.name == "ldmatrix":
            return False
        if match.space.startswith(".param"):
            return self._load(instruction) in integers
        return copied if match.space.startswith(".shared") else match.space in ("", ".global")

    def is_guessed(self, site: int, everywhere: bool = False) -> bool:
        """Whether an address in shared memory, a size or a descriptor of an instruction depends on an assumption.

        *everywhere*: or an address in global memory, on more than its pointers.
        """
        instruction = self.instructions[site]
        match = instruction.match
        if match is None:
            return True
        for name, at in match.named.items():
            operand = instruction.operands[at]
            if name == "taddr" or name.endswith("-tmem"):
                continue
            if isinstance(operand, Memory):
                operand = operand.base
                if not everywhere and isinstance(operand, int) and self.origins(operand) & self._pointers:
                    continue
            elif name not in _DETERMINES_ADDRESSES:
                continue
            if self.guessed.intersection(registers(operand)):
                return True
        return False

    # ------------------------------------------------------------ values of parameters

    @cached_property
    def buffers(self) -> Mapping[str, Array]:
        """A buffer of zeros for each pointer, or of unknown tensor maps for a pointer to maps."""
        found: dict[str, Array] = {}
        for field in sorted(self._pointers | self._map_pointers):
            if field in self._map_pointers:
                found[_name(field)] = np.frombuffer(UNKNOWN * 512, np.uint8)
            else:
                found[_name(field)] = np.zeros(_BUFFER_SIZE, np.uint8)
        return found

    def values(self, number: int, addresses: Mapping[str, int]) -> list[bytes]:
        """The bytes of each parameter; bytes that no instruction loads hold unknown tensor maps."""
        found = []
        for parameter in self.function.parameters:
            piece = bytearray((UNKNOWN * (parameter.size // len(UNKNOWN) + 1))[: parameter.size])
            for (name, offset), (size, real) in self._loads.items():
                if name != parameter.name or offset + size > parameter.size:
                    continue
                field = (name, offset)
                if field in self._pointers or field in self._map_pointers:
                    value = addresses[_name(field)].to_bytes(8, "little")[:size]
                elif field in self._descriptors:
                    value = _DESCRIPTOR.to_bytes(8, "little")[:size]
                elif real:
                    value = np.ones(1, {2: "f2", 4: "f4", 8: "f8"}.get(size, "u1")).tobytes()
                else:
                    value = (number & (1 << 8 * size) - 1).to_bytes(size, "little")
                piece[offset : offset + size] = value
            found.append(bytes(piece))
        return found

    @cached_property
    def _loads(self) -> dict[Field, tuple[int, bool]]:
        """The fields that are loaded, with their size in bytes and whether they are floating-point numbers."""
        found: dict[Field, tuple[int, bool]] = {}
        for instruction in self.instructions:
            field = self._load(instruction)
            if field is None:
                continue
            assert instruction.match is not None
            element = instruction.match.element
            size = int(element[2:]) // 8
            first = instruction.operands[0]
            targets = first.items if isinstance(first, Vector) else (first,)
            for n, target in enumerate(targets):
                real = element.startswith(".f") or (
                    isinstance(target, int) and target in self._float_registers
                )
                found[field[0], field[1] + n * size] = (size, real)
        return found

    @cached_property
    def _float_registers(self) -> frozenset[int]:
        """Registers that floating-point instructions read, apart from loads, stores, moves and conversions of integers."""
        return frozenset(
            register
            for instruction in self.instructions
            if instruction.match is not None
            and floating(instruction.match.modifiers)
            and not instruction.match.form.name.startswith(("ld", "st", "mov"))
            and not (instruction.match.form.name.startswith("cvt") and instruction.match.element[1] in "us")
            for register in instruction.reads
        )

    def _load(self, instruction: Instruction) -> Field | None:
        """The field that an instruction loads; None if it is not a load from a parameter."""
        match = instruction.match
        if match is None or not match.form.name.startswith("ld") or not match.space.startswith(".param"):
            return None
        address = instruction.operands[1]
        return self.field(address, 0) if isinstance(address, Memory) else None

    def field(self, operand: Operand, depth: int) -> Field | None:
        """The field that an address refers to; None if that is unknown. *depth* bounds the chain of definitions."""
        if isinstance(operand, Memory):
            field = self.field(operand.base, depth)
            return (field[0], field[1] + operand.offset) if field else None
        if isinstance(operand, Symbol):
            return (operand.name, operand.offset) if operand.name in self._names else None
        if isinstance(operand, int) and depth < 16:
            for definition in self.definitions.get(operand, ())[:1]:
                match = definition.match
                name = match.form.name if match is not None else ""
                extended = match is not None and name == "cvt.int" and match.binding["from"] == ".u32"
                if name in ("mov", "cvta", "cvta.to") or extended:
                    return self.field(definition.operands[1], depth + 1)
                step = definition.operands[2] if name == "add.int" else None
                if isinstance(step, Immediate) and isinstance(step.value, int):
                    field = self.field(definition.operands[1], depth + 1)
                    return (field[0], field[1] + step.value) if field else None
        return None

    # ------------------------------------------------------------ which parameters are pointers

    @cached_property
    def _pointers(self) -> frozenset[Field]:
        """Fields that hold addresses of global memory."""
        found: set[Field] = set()
        for instruction in self.instructions:
            match = instruction.match
            if match is None:
                continue
            own = match.space.startswith((".shared", ".param", ".local", ".const"))
            named = (
                {a.operand for a in match.accesses if a.space is StateSpace.GLOBAL} if own else match.named
            )
            for name in named:
                operand = instruction.named(name)
                if (
                    isinstance(operand, Memory)
                    and name != match.form.roles.get("tensormap")
                    and not operand.extras
                ):
                    found |= self.origins(operand.base)
        return frozenset(found - self._map_pointers)

    @cached_property
    def _descriptors(self) -> frozenset[Field]:
        """Fields that hold descriptors of matrices in shared memory."""
        operands = (i.named(name) for i in self.instructions for name in ("a-desc", "b-desc", "s-desc"))
        found = {field for o in operands if isinstance(o, int) for field in self.origins(o)}
        return frozenset(found - self._pointers - self._map_pointers)

    @cached_property
    def _map_pointers(self) -> frozenset[Field]:
        """Fields that hold addresses of tensor maps."""
        found: set[Field] = set()
        for instruction in self.instructions:
            operand = instruction.role("tensormap")
            if isinstance(operand, Memory) and self.field(operand.base, 0) is None:
                found |= self.origins(operand.base)
        return frozenset(found)

    def origins(self, operand: Operand) -> set[Field]:
        """The fields of 64 bits that an address is derived from.

        Those that pass through ``cvta.to`` are certainly pointers, and if there are any, only they are returned.
        """
        found: set[Field] = set()
        certain: set[Field] = set()
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
                field = self._load(definition)
                if field is not None:
                    assert isinstance(definition.operands, tuple)
                    index = _index(definition, at) * int(match.element[2:]) // 8
                    (certain if converted else found).add((field[0], field[1] + index))
                elif match.form.name in _FORWARDING:
                    names = match.form.name == "cvta.to"
                    work += [(r, converted or names) for o in definition.operands[1:] for r in registers(o)]
                elif match.form.name == "mad.int":
                    work += [(r, converted) for r in registers(definition.operands[3])]
        return certain or found


def _index(instruction: Instruction, register: int) -> int:
    """The element of a loaded vector that goes to *register*; 0 for a scalar load."""
    first = instruction.operands[0]
    return first.items.index(register) if isinstance(first, Vector) and register in first.items else 0


def _step(mask: int) -> int:
    """The distance between the two lowest CTAs of a mask."""
    low = (mask & -mask).bit_length()
    rest = mask & (mask - 1)
    return (rest & -rest).bit_length() - low


def _name(field: Field) -> str:
    """The name of the buffer for a pointer."""
    return f"{field[0]}+{field[1]}"
