"""What one instruction computes from its operands: a function of unsigned bit patterns, by the tables of the ISA."""

from __future__ import annotations

from collections.abc import Callable

from tclint._named_tuple import NamedTuple
from tclint.ir.nodes import (
    Function,
    Immediate,
    Instruction,
    Memory,
    Negated,
    Operand,
    OperandPair,
    Special,
    Symbol,
    Vector,
)
from tclint.isa.forms import Match, floating
from tclint.isa.semantics import COMPUTE, bind
from tclint.isa.widths import width_of

__all__ = [
    "SHARED_WINDOW",
    "ScalarOperation",
    "elected_lane",
    "is_of_call",
    "is_shuffle",
    "operation",
    "read_lane",
]

SHARED_WINDOW = 1 << 24
"""The size of the address range in which shared memory of a CTA is found; that of rank r in its cluster begins r times as
far."""
_COPIES = ("cvta", "cvta.to")
"""Conversions of an address. One location has one number here, whatever the state space of its address."""
_MOVING = frozenset(("mov", "selp", "pack"))
"""Operations that leave bits as they are, so that they also compute with types of floating point."""


class ScalarOperation(NamedTuple):
    """A value computed from operands alone."""

    compute: Callable[..., int]
    sources: tuple[Operand, ...]


def elected_lane(membermask: int) -> int:
    """The lane that ``elect.sync`` elects: the lowest one of a mask that is not empty (``elect`` in docs/assumptions.md)."""
    return (membermask & -membermask).bit_length() - 1


def read_lane(own: int, index: int, bounds: int) -> int:
    """The lane that ``shfl.sync.idx`` reads in lane *own*: its own where *index* is outside of its segment (9.7.9.6)."""
    segment, clamp = bounds >> 8 & 31, bounds & 31
    low = own & segment
    other = low | (index & ~segment & 31)
    return other if other <= (low | (clamp & ~segment)) else own


def is_shuffle(match: Match) -> bool:
    """Whether an instruction is the shuffle of which :func:`read_lane` names the lane."""
    return match.shuffle == "idx"


def is_of_call(function: Function, address: Memory, space: str) -> bool:
    """Whether an address in a state *space* is that of a result or an argument of a call, not of a parameter."""
    base = address.base
    return (
        space.startswith(".param")
        and isinstance(base, Symbol)
        and base.name not in (p.name for p in function.parameters)
    )


def operation(function: Function, instruction: Instruction, register: int) -> ScalarOperation | None:
    """How *instruction* computes *register*; None if not from its operands alone, or if that is not modelled."""
    match, operands = instruction.match, instruction.operands
    if match is None or match.problem:
        return None
    name, sources = match.form.compute, operands[1:]
    width = width_of(function.registers[register].type)
    if match.form.name == "isspacep":
        inside = match.binding["ss"].startswith(".shared")
        return ScalarOperation(lambda a: int((a < SHARED_WINDOW) is inside), sources)
    if not name or (floating(match.modifiers) and name not in _MOVING):
        return None
    if any(
        isinstance(o, Negated) or (isinstance(o, Immediate) and isinstance(o.value, float)) for o in sources
    ):
        return None
    mask = (1 << width) - 1
    if name in _COPIES:
        return ScalarOperation(lambda a: a & mask, sources)
    if name == "mapa":
        return ScalarOperation(
            lambda a, rank, own: a + (rank - own) * SHARED_WINDOW & mask,
            (*sources, Special("%cluster_ctarank")),
        )
    if name == "unpack":
        items = operands[0].items if isinstance(operands[0], Vector) else ()
        at = items.index(register) * width
        return ScalarOperation(lambda a: a >> at & mask, sources)
    if name == "pack":
        items = operands[1].items if isinstance(operands[1], Vector) else ()
        return ScalarOperation(bind(name, match.binding, width), items)
    if isinstance(operands[0], OperandPair):
        if name != "setp":
            return None
        name = name if operands[0].first == register else "setp.q"
    if name not in COMPUTE or any(isinstance(o, Vector) for o in operands):
        return None
    return ScalarOperation(bind(name, match.binding, width), sources)
