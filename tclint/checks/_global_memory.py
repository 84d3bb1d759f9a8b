"""Which operands of an instruction determine where in global memory it reads or writes, and what they are based on."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.model import KernelModel
from tclint.isa.accesses import Proxy
from tclint.isa.forms import Match
from tclint.values import Values
from tclint.values.nodes import Loaded, Packed, ParameterRead, Phi, Select

__all__ = ["global_operands", "origins"]

_POINTER = 8
"""The size in bytes of a pointer."""


def global_operands(match: Match, verb: str) -> tuple[str, ...]:
    """The operands that determine where in global memory an instruction reads, or writes, as *verb* says."""
    return tuple(
        a.operand
        for a in match.accesses
        if a.outside and a.operand and a.writes is (verb == "write") and a.proxy is not Proxy.MAP
    )


def origins(model: KernelModel, site: int, verb: str) -> frozenset[int]:
    """The values from which *site* derives the addresses that it reads or writes (*verb*) in global memory.

    They are the addresses of parameters and of variables. A pointer that was loaded from global memory derives from
    the address of that load, so the buffers of several devices in one table have one origin. A pointer that is composed
    of halves derives from its lower half. Empty if the addresses derive from anything else.
    """
    instruction, values = model.instruction(site), model.values
    names = () if instruction.match is None else global_operands(instruction.match, verb)
    operands = [operand for name in names if (operand := instruction.named(name)) is not None]
    work = [(values.operand(operand, site), _POINTER) for operand in operands]
    found, seen = set[int](), set[int]()
    while work:
        address, size = work.pop()
        for term, _ in values.linear(address)[0]:
            node = values.node(term)
            if type(node) is ParameterRead and node.size == size:
                found.add(node.address)
            elif model.space(term).startswith((".global", ".param")):
                found.add(term)
            elif term not in seen:
                seen.add(term)
                work += _derived_from(values, term, size)
    return frozenset(found)


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
