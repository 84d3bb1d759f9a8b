"""The types of the numbers that a kernel stores in global memory, by the pointer through which it does.

A store of PTX often has bits for its type. What they are follows from the instructions that have made them: moves, packing,
selections, shuffles, and loads from shared memory that other threads have written, are followed back to what computes. An
answer is given only if all that a pointer is used to store has one floating-point type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise

from tclint._dataclass import dataclass
from tclint._pattern import pattern
from tclint.analyses.global_memory import global_operands
from tclint.dataflow.kernel import Kernel
from tclint.executor.assume import Field, ParameterUses
from tclint.executor.recorded import map_type
from tclint.ir.nodes import Function, Immediate, Instruction, Memory, Module, Operand, Site, registers
from tclint.isa.accesses import Access, StateSpace
from tclint.isa.effects import Exchange
from tclint.recording import Recording
from tclint.values.nodes import AddressOf

__all__ = ["Piece", "pieces"]

_TYPE = pattern(r"\.(?:([busf]|bf|tf)(\d+)|(e\dm\d))(?:x\d)?")
_COMPARED = ("f64", "f32", "f16", "bf16", "e4m3", "e5m2")
"""The types whose elements are compared as numbers."""
_PASSED_ON = ("mov", "pack", "unpack", "selp", "prmt")
"""Computations whose result has the bits of their first two operands."""
_UNKNOWN = ""
_SEVERAL = "what is stored there has several types ({})"
_NOT_KNOWN = "the type of what is stored there is not known"
_ANYWHERE = "the kernel stores through an address that is not a parameter"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an allocation that one pointer of the parameters is to."""

    start: int
    """Bytes from the beginning of the allocation."""
    stop: int
    type: str
    """One of :data:`~tclint.executor.launch.TYPES`; empty if bytes have to be compared."""
    why: str = ""
    """Why the type is not known; empty if it is, or if nothing is stored there."""


def pieces(function: Function, module: Module, recording: Recording) -> Mapping[int, tuple[Piece, ...]]:
    """By address, the pieces of each allocation of a recorded launch of *function*, which has its callees inlined.

    A pointer is to everything up to the next one.
    """
    stored = _Stores(function, module, recording)
    types, anywhere = stored.types, stored.anywhere
    found = {}
    for allocation in recording.allocations:
        end = allocation.address + allocation.size
        inside = {at for at in (*stored.pointers, *types) if allocation.address < at < end}
        bounds = sorted({allocation.address, end, *inside})
        found[allocation.address] = tuple(
            Piece(
                start - allocation.address,
                stop - allocation.address,
                *_named(types.get(start, set()), anywhere),
            )
            for start, stop in pairwise(bounds)
        )
    return found


def _named(types: set[str], anywhere: bool) -> tuple[str, str]:
    """The type to compare a piece as, and why there is none, for the *types* of what is stored there."""
    if anywhere:
        return "", _ANYWHERE
    if _UNKNOWN in types:
        return "", _NOT_KNOWN
    if len(types) > 1:
        return "", _SEVERAL.format(", ".join(sorted(types)))
    return next(iter(types), ""), ""


class _Stores:
    """What the instructions of a kernel store in global memory."""

    def __init__(self, function: Function, module: Module, recording: Recording) -> None:
        self._uses = ParameterUses(function)
        self._kernel = Kernel(function, module)
        self._instructions = function.instructions
        self._recording = recording
        self._numbers = {p.name: n for n, p in enumerate(function.parameters)}
        self._variables: dict[Site, str | None] = {}
        self.anywhere = False
        """Whether it is unknown to which pointer some address belongs."""

    @cached_property
    def pointers(self) -> frozenset[int]:
        """The words of the parameters, which may be addresses."""
        values = self._recording.values
        words = (v[at : at + 8] for v in values for at in range(0, len(v) - 7, 8))
        return frozenset(int.from_bytes(word, "little") for word in words)

    @cached_property
    def types(self) -> dict[int, set[str]]:
        """Address -> the types of what is stored there; the empty name for one that is not known."""
        found: dict[int, set[str]] = {}
        for site, instruction in enumerate(self._instructions):
            match = instruction.match
            for name in global_operands(match, "write") if match is not None else ():
                operand = instruction.named(name)
                if isinstance(operand, Memory):
                    written = self._written(site, instruction, operand)
                    self.anywhere |= not written
                    for address, types in written.items():
                        found.setdefault(address, set()).update(types)
        return found

    def _written(self, site: Site, instruction: Instruction, operand: Memory) -> dict[int, set[str]]:
        """What an instruction stores at *operand*, by the addresses of the parameters that this derives from."""
        if operand is instruction.role("tensormap"):
            field = self._uses.field(operand.base, 0)
            recorded = None if field is None else self._recording.map_at(self._numbers[field[0]], field[1])
            return {} if recorded is None else {recorded.address: {_as_compared(map_type(recorded))}}
        addresses = [self._pointer(field) for field in self._uses.origins(operand.base)]
        types = self._types_of(site, instruction)
        return {address: types for address in addresses if self._is_recorded(address)}

    def _pointer(self, field: Field) -> int:
        value = self._recording.values[self._numbers[field[0]]]
        return int.from_bytes(value[field[1] : field[1] + 8], "little")

    def _is_recorded(self, address: int) -> bool:
        return any(a.address <= address < a.address + a.size for a in self._recording.allocations)

    # ------------------------------------------------------------ what is stored

    def _types_of(self, site: Site, instruction: Instruction) -> set[str]:
        """The types of what an instruction writes to memory."""
        own = _result_type(instruction)
        match = instruction.match
        assert match is not None
        if own != _UNKNOWN or match.combination:
            return {own}
        return self._leaves(site, _data(instruction), copies=instruction.event != "")

    def _leaves(self, site: Site, operands: Iterable[Operand], copies: bool) -> set[str]:
        """The types of the instructions that compute *operands*; with *copies*, of what is in shared memory at *site*, too."""
        found, seen = set[str](), set[Operand]()
        work, loads = list(operands), [site] if copies else []
        written = set[Site]()
        while (work or loads) and _UNKNOWN not in found:
            if not work:
                for store in self._stores_before(loads.pop(), written):
                    own = _result_type(self._instructions[store])
                    if own != _UNKNOWN or self._instructions[store].event:
                        found.add(own)
                    else:
                        work += _data(self._instructions[store])
                continue
            operand = work.pop()
            if isinstance(operand, Immediate) or operand in seen:
                continue  # a constant is of any type
            seen.add(operand)
            if not isinstance(operand, int):
                work += registers(operand)
                continue
            for at in self._definitions.get(operand, ()):
                instruction = self._instructions[at]
                passed, own = _passed_on(instruction), _result_type(instruction)
                if passed is not None and own == _UNKNOWN:
                    work += passed
                elif own == _UNKNOWN and _loads_shared(instruction):
                    loads.append(at)
                else:
                    found.add(own)
        return found

    @cached_property
    def _definitions(self) -> dict[int, list[Site]]:
        found: dict[int, list[Site]] = {}
        for at, instruction in enumerate(self._instructions):
            for register in instruction.writes:
                found.setdefault(register, []).append(at)
        return found

    def _stores_before(self, load: Site, seen: set[Site]) -> Iterator[Site]:
        """What may have written the shared memory that *load* reads, and is not among *seen*, to which it is added.

        These are the accesses of the same variable, as far as it is known: stores, and copies. As code generators reuse the memory
        of tiles for the results, what they write is taken to be overwritten if a store follows on every path: after a copy at
        once, after another store beyond a barrier, since what lies between two barriers is written together.
        """
        at_once, later = ([i for i in sites if self._may_share(i, load)] for sites in self._shared_writes)
        reaches = self._kernel.reaches
        renewed = [b for b in self._barriers if not reaches(b, load, at_once)]
        found = [i for i in at_once if i not in seen and reaches(i, load, renewed)]
        found += (i for i in later if i not in seen and reaches(i, load, at_once))
        seen.update(found)
        yield from found

    def _may_share(self, one: Site, other: Site) -> bool:
        """Whether two accesses may be of one variable of shared memory."""
        names = [self._variable(site) for site in (one, other)]
        return None in names or names[0] == names[1]

    def _variable(self, site: Site) -> str | None:
        """The variable of shared memory that an instruction accesses; None if it is not known, or not the only one."""
        if site not in self._variables:
            values = self._kernel.values
            terms = [
                [
                    node.name
                    for term, _ in values.linear(access.address)[0]
                    if type(node := values.node(term)) is AddressOf
                ]
                for access in self._kernel.shared.accesses(site)
            ]
            names = {names[0] if len(names) == 1 else None for names in terms}
            self._variables[site] = names.pop() if len(names) == 1 else None
        return self._variables[site]

    @cached_property
    def _barriers(self) -> list[Site]:
        """The barriers at which threads meet."""
        return [i for i, each in enumerate(self._instructions) if each.effects.synchronises is not None]

    @cached_property
    def _shared_writes(self) -> tuple[list[Site], list[Site]]:
        """The instructions that write shared memory: at once, and later."""
        writes: tuple[list[Site], list[Site]] = [], []
        for at, instruction in enumerate(self._instructions):
            for a in instruction.accesses:
                if a.writes and a.space is StateSpace.SHARED and _is_data(instruction, a):
                    writes[a.later].append(at)
        return writes


def _is_data(instruction: Instruction, access: Access) -> bool:
    """Whether an access is not one of an mbarrier."""
    match = instruction.match
    return match is None or access.operand != match.form.mbarrier


def _data(instruction: Instruction) -> list[Operand]:
    """The operands of a store other than its addresses."""
    match = instruction.match
    assert match is not None
    addresses = {a.operand for a in instruction.accesses}
    return [instruction.operands[at] for name, at in match.named.items() if name not in addresses]


def _passed_on(instruction: Instruction) -> list[Operand] | None:
    """The operands whose bits are in the result, where an instruction does not compute; else None."""
    match = instruction.match
    if match is None:
        return None
    if match.form.effects.exchange is Exchange.SHUFFLE:
        return [instruction.operands[match.named["a"]]]
    return list(instruction.operands[1:3]) if match.form.compute in _PASSED_ON else None


def _loads_shared(instruction: Instruction) -> bool:
    accesses = instruction.accesses
    return bool(accesses) and all(
        not a.writes and not a.later and a.space is StateSpace.SHARED for a in accesses
    )


def _result_type(instruction: Instruction) -> str:
    """The floating-point type of the result, which is the first type among the modifiers; empty for any other type."""
    match = instruction.match
    types = (_TYPE.fullmatch(m) for m in match.modifiers) if match is not None else ()
    first = next((m for m in types if m is not None), None)
    if first is None:
        return _UNKNOWN
    return _as_compared(first[3] or first[1] + first[2])


def _as_compared(type: str) -> str:
    """A type of PTX as one of :data:`_COMPARED`; empty for another one."""
    type = "f32" if type.startswith("tf32") else type.partition(".")[0]
    return type if type in _COMPARED else _UNKNOWN
