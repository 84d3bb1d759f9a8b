"""Accesses to global memory: where they are, what their addresses derive from, and which of them are disjoint."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from math import gcd

from tclint._named_tuple import NamedTuple
from tclint.dataflow.kernel import Kernel
from tclint.ir.nodes import Site
from tclint.isa.accesses import Access, Proxy, Via
from tclint.isa.forms import Match
from tclint.isa.special_registers import SPECIAL_REGISTERS, Scope
from tclint.values import Values
from tclint.values.nodes import (
    COMPUTED,
    AddressOf,
    Constant,
    Loaded,
    Packed,
    ParameterRead,
    Phi,
    Select,
    SpecialRead,
)
from tclint.values.shared_memory import SharedMemory

__all__ = [
    "GlobalMemory",
    "GlobalRanges",
    "Source",
    "addressed",
    "depends_on",
    "from_driver",
    "global_operands",
    "origins",
    "sources",
]

_POINTER = 8
"""The size in bytes of a pointer."""


_OF_THE_DRIVER = "%envreg"
"""The special registers in which the driver may pass a pointer, in halves (10.27)."""
_COMPOSED = COMPUTED | {Constant}
_COMPUTED = COMPUTED | {AddressOf, Constant, ParameterRead, Phi}


class Source(Enum):
    """What an address depends on, beside what all threads of the grid have in common."""

    CTA = "CTA"
    """The index of the CTA, or of its cluster."""
    THREAD = "thread"
    """The index of the thread in its CTA, or of its warp."""
    DATA = "data"
    """What is loaded from global memory."""
    UNKNOWN = "unknown"


class GlobalMemory(SharedMemory):
    """Accesses to global memory, whose addresses are compared like those of shared memory."""

    @staticmethod
    def within(access: Access) -> bool:
        """Whether an access is one of data that may be in this memory, at the address of an operand."""
        data = access.outside and access.via is Via.ADDRESS and access.proxy is not Proxy.MAP
        return data and (access.later or not access.writes)


def global_operands(match: Match, verb: str) -> tuple[str, ...]:
    """The operands that determine where in global memory an instruction reads, or writes, as *verb* says."""
    return tuple(
        a.operand
        for a in match.accesses
        if a.outside and a.operand and a.writes is (verb == "write") and a.proxy is not Proxy.MAP
    )


def origins(model: Kernel, site: Site, verb: str) -> frozenset[int]:
    """The values from which *site* derives the addresses that it reads or writes (*verb*) in global memory.

    They are the addresses of parameters and of variables, and what the driver passes in a special register, such as the
    workspace of a cooperative grid. A pointer that was loaded from global memory derives from
    the address of that load, so the buffers of several devices in one table have one origin. A pointer that is composed
    of halves derives from its lower half. Empty if the addresses derive from anything else.
    """
    values = model.values
    work = [(address, _POINTER) for address, _ in addressed(model, site, verb)]
    found, seen = set[int](), set[int]()
    while work:
        address, size = work.pop()
        terms = [term for term, _ in values.linear(address)[0]]
        bases = {base for term in terms if (base := _base(model, term, size)) is not None}
        found |= bases
        for term in terms if not bases else ():  # else the others are what is added to a pointer
            if term not in seen:
                seen.add(term)
                work += _derived_from(values, term, size)
    return frozenset(found)


def _base(model: Kernel, term: int, size: int) -> int | None:
    """The address of the parameter of *size* bytes that *term* is, or *term* itself if it is the address of a variable
    or a pointer that the driver passes."""
    node = model.values.node(term)
    if type(node) is ParameterRead and node.size == size:
        return node.address
    known = model.space(term).startswith((".global", ".param")) or from_driver(model.values, term)
    return term if known else None


def from_driver(values: Values, term: int) -> bool:
    """Whether *term* is composed of special registers in which the driver passes a pointer, and of constants."""
    if type(values.node(term)) not in COMPUTED:
        return False
    read = set[str]()
    for node in map(values.node, values.subexpressions(term)):
        if type(node) is SpecialRead:
            read.add(node.name)
        elif type(node) not in _COMPOSED:
            return False
    return bool(read) and all(name.startswith(_OF_THE_DRIVER) for name in read)


def _derived_from(values: Values, term: int, size: int) -> Iterator[tuple[int, int]]:
    """The values that *term*, a pointer or a half of one of *size* bytes, derives from, each with its size."""
    node = values.node(term)
    if type(node) is Phi:
        yield from ((argument, size) for argument in values.arguments(term))
    elif type(node) is Select:
        yield from ((choice, size) for choice in node.arms)
    elif type(node) is Packed:
        yield node.operands[0], node.width // 8
    elif type(node) is Loaded and node.space.startswith(".global"):
        yield node.address, _POINTER


def addressed(model: Kernel, site: Site, verb: str) -> Iterator[tuple[int, int]]:
    """The addresses in global memory that *site* reads or writes, with the bytes from each on; 0 if unknown."""
    instruction = model.instruction(site)
    names = () if instruction.match is None else global_operands(instruction.match, verb)
    extents = {access.operand: access.extent for access in instruction.accesses}
    for name in names:
        operand = instruction.named(name)
        if operand is not None:
            extent = extents[name]
            yield model.values.operand(operand, site), extent if isinstance(extent, int) else 0


class _Range(NamedTuple):
    """Bytes through one pointer: *distance* and multiples of *step* after *pointer*, *size* from each on."""

    pointer: int
    step: int
    distance: int
    size: int

    def disjoint(self, other: _Range) -> bool:
        """Whether the two share no byte, whatever multiples are added."""
        if self.pointer != other.pointer:
            return False
        step, distance = gcd(self.step, other.step), other.distance - self.distance
        if not step:
            return distance >= self.size or -distance >= other.size
        return distance % step >= self.size and -distance % step >= other.size


class GlobalRanges:
    """What the instructions of a kernel access in global memory, each worked out once."""

    def __init__(self, model: Kernel) -> None:
        self._model = model
        self._known: dict[tuple[Site, str], tuple[_Range, ...]] = {}

    def disjoint(self, a: Site, verb_a: str, b: Site, verb_b: str) -> bool:
        """Whether what *a* accesses in global memory (*verb_a*) is certainly not what *b* does (*verb_b*), in any two threads.

        Two words of a structure are disjoint whichever element of an array of such structures each thread accesses.
        """
        here, there = self._ranges(a, verb_a), self._ranges(b, verb_b)
        return bool(here and there) and all(one.disjoint(two) for one in here for two in there)

    def _ranges(self, site: Site, verb: str) -> tuple[_Range, ...]:
        """Where *site* reads or writes; empty if that is not known of every operand."""
        key = site, verb
        if key not in self._known:
            found = [self._range(address, size) for address, size in addressed(self._model, site, verb)]
            self._known[key] = tuple(r for r in found if r is not None) if all(found) else ()
        return self._known[key]

    def _range(self, address: int, size: int) -> _Range | None:
        values = self._model.values
        terms, distance = values.linear(address)
        pointers = {term for term, _ in terms if _is_pointer(values, term)}
        if not size or len(pointers) != 1:
            return None
        step = gcd(*(f * values.addresses.unit(t) for t, f in terms if t not in pointers))
        return _Range(pointers.pop(), step, distance, size)


def _is_pointer(values: Values, term: int) -> bool:
    node = values.node(term)
    return type(node) is AddressOf or (type(node) is ParameterRead and node.size == _POINTER)


def depends_on(values: Values, address: int) -> set[Source]:
    """What *address* depends on, in all iterations of a loop. What the address of a load depends on does not count."""
    return set(sources(values, address))


def sources(values: Values, address: int) -> Iterator[Source]:
    """:func:`depends_on`, in the order in which its expressions are met, so that a test for one source need not follow the others."""
    seen, work = set[int](), [address]
    while work:
        value = values.representative(work.pop())
        if value in seen:
            continue
        seen.add(value)
        node = values.node(value)
        if type(node) is Loaded:
            yield Source.DATA if node.space.startswith(".global") else Source.UNKNOWN
        elif type(node) is SpecialRead and node.name.startswith(_OF_THE_DRIVER):
            pass  # the workspace of a cooperative grid, which all CTAs share
        elif type(node) is SpecialRead:
            register = SPECIAL_REGISTERS[node.name]
            if register.distinguishes_threads:
                yield Source.THREAD
            elif register.scope < Scope.GRID:
                yield Source.CTA
        elif type(node) not in _COMPUTED:
            yield Source.UNKNOWN
        else:
            work += values.arguments(value) if type(node) is Phi else node.operands
