"""Parameters of calls: where caller and callee store and load them, and which of them can become registers.

A caller stores arguments in the straight-line code that leads to the call, and loads results in the straight-line code
that follows it (PTX ISA 7.1). A callee accesses its own parameters anywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from tclint._named_tuple import NamedTuple
from tclint.ir.nodes import Function, Immediate, Instruction, Memory, Operand, Symbol, Vector, symbols
from tclint.isa.widths import width_of

__all__ = ["ParameterAccess", "Parameters", "access_of", "passed_by", "same_parts"]

_SIZES = (2, 4, 8)
"""The sizes in bytes of the parts that a single move can copy."""


class ParameterAccess(NamedTuple):
    """A load from a parameter, or a store to it (``stores``): elements of ``size`` bytes, the first at byte
    ``start``."""

    site: int
    start: int
    size: int
    stores: bool
    items: tuple[Operand, ...]

    def parts(self) -> Iterator[tuple[int, Operand]]:
        """The byte offset of each element, and its register or the stored operand."""
        return ((self.start + k * self.size, item) for k, item in enumerate(self.items))

    def moves(self, function: Function) -> bool:
        """Whether moves are equivalent to it: nothing is extended or truncated."""
        return self.size in _SIZES and all(
            width_of(function.registers[item].type) == self.size * 8
            if isinstance(item, int)
            else isinstance(item, Immediate) and (isinstance(item.value, int) or self.size > 2)
            for item in self.items
        )


class Parameters:
    """How a function accesses its own parameters and those of its calls."""

    def __init__(self, function: Function) -> None:
        self._accesses: dict[str, list[ParameterAccess]] = {}
        self._memory: set[str] = set()
        """Parameters that must stay in memory, because their address is taken or they are passed on."""
        own = {parameter.name for parameter in function.parameters}
        flow = [i for use in function.uses if use.flow for i in use.sites]
        for i, instruction in enumerate(function.instructions):
            access = access_of(i, instruction)
            if access is not None:
                self._accesses.setdefault(access[0], []).append(access[1])
            else:
                named = symbols(instruction.operands)
                self._memory |= own.intersection(named) if instruction.flow == "call" else {*named}
        targets = (t for i in flow for t in function.instructions[i].targets)
        self._ends = sorted({0, *targets, *(i + 1 for i in flow), len(function.instructions)})
        """The boundaries of straight-line code, as instruction indices."""
        passed = {
            access.site
            for i in flow
            for name, result in passed_by(function.instructions[i])
            for access in self.around(i, name, result) or ()
        }
        for name, accesses in self._accesses.items():
            if name not in own and not all(access.site in passed for access in accesses):
                self._memory.add(name)

    def start(self, call: int) -> int:
        """The first instruction of the straight-line code that leads to a call."""
        return self._ends[bisect_right(self._ends, call) - 1]

    def around(self, call: int, name: str, result: bool) -> list[ParameterAccess] | None:
        """The stores of an argument of a call, or the loads of a *result*; None if it must stay in memory."""
        if name in self._memory:
            return None
        end = self._ends[min(bisect_right(self._ends, call + 1), len(self._ends) - 1)]
        line = range(call, end) if result else range(self.start(call), call)
        return [a for a in self._accesses.get(name, ()) if a.site in line and a.stores is not result]

    def of(self, name: str) -> list[ParameterAccess] | None:
        """The accesses of a callee to its own parameter; None if it must stay in memory."""
        return None if name in self._memory else self._accesses.get(name, [])


def access_of(site: int, instruction: Instruction) -> tuple[str, ParameterAccess] | None:
    """The name of the parameter that an instruction loads or stores, and the access; None if it does neither."""
    match = instruction.match
    if match is None or match.problem or match.form.name not in ("ld", "st"):
        return None
    if not match.space.startswith(".param"):
        return None
    first, second = instruction.operands[:2]
    stores = isinstance(first, Memory)
    address, value = (first, second) if stores else (second, first)
    if not isinstance(address, Memory) or not isinstance(address.base, Symbol):
        return None
    items = value.items if isinstance(value, Vector) else (value,)
    start = address.base.offset + address.offset
    return address.base.name, ParameterAccess(site, start, int(match.element[2:]) // 8, stores, items)


def passed_by(call: Instruction) -> list[tuple[str, bool]]:
    """The parameters of a call, results first: the name in the caller, and whether it is a result (9.7.13.5).

    The name is empty for an argument that is not a symbol.
    """
    return [
        (item.name if isinstance(item, Symbol) else "", at == 0)
        for at, operand in enumerate(call.operands)
        if isinstance(operand, Vector)
        for item in operand.items
    ]


def same_parts(
    given: list[ParameterAccess], caller: Function, taken: list[ParameterAccess], callee: Function
) -> bool:
    """Whether caller and callee access the same parts of a parameter, and every part that one loads the other
    stores."""
    if not all(a.moves(caller) for a in given) or not all(a.moves(callee) for a in taken):
        return False
    accesses = [*given, *taken]
    parts = sorted({(at, a.size) for a in accesses for at, _ in a.parts()})
    loaded, stored = (
        {at for a in accesses if a.stores is stores for at, _ in a.parts()} for stores in (False, True)
    )
    return loaded <= stored and all(at + size <= next_ for (at, size), (next_, _) in pairwise(parts))
