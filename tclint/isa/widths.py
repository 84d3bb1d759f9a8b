"""The required sizes of an instruction's registers: the part of type agreement (PTX ISA 9.2, 9.4.1) that is about size.

The kind of type, signed or floating-point, is not checked: compilers declare untyped registers, which agree with all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from tclint.isa.notation import TYPE
from tclint.isa.table import Match

__all__ = ["Width", "needed", "width_of"]

_BITS = re.compile(r"\.(?:[usb]|b?f)(\d+)(?:x(\d))?")
_OTHERS = {".pred": 1, ".tf32": 32}
_SIZES = (0, 1, 8, 16, 32, 64, 128)
_PLAIN = frozenset("dabc")
"""Operands that have the type of an opcode with one type, unless the form specifies another (key ``types``)."""


class Width(NamedTuple):
    """The required size of a register in bits; 1 for a predicate."""

    bits: int
    wider: bool
    """The register may be wider: of a source the low bits are used, and a result is extended (9.4.1)."""

    @property
    def fits(self) -> frozenset[int]:
        """The sizes of registers that are accepted, including 0 for an unknown size; 1 is a predicate, not a register
        of one bit."""
        return _fits(self.bits, self.wider)


@cache
def _fits(least: int, wider: bool) -> frozenset[int]:
    return frozenset(bits for bits in _SIZES if bits in (0, least) or (wider and bits > least))


@cache
def width_of(type_: str) -> int:
    """The size of a register of a type in bits: 32 for ``.b32`` and ``.f16x2``, 1 for ``.pred``, 0 if unknown."""
    match = _BITS.fullmatch(type_)
    return int(match[1]) * int(match[2] or 1) if match else _OTHERS.get(type_, 0)


def needed(match: Match, lengths: Mapping[int, int] | None = None) -> dict[int, Width]:
    """Operand index -> the required size of its registers; operands for which it is unknown are omitted.

    It applies to each register of a vector and to the first of a pair; addresses are omitted. *lengths* are the numbers
    of elements of the vectors, by operand index.
    """
    types = _types(match.modifiers)
    found = {}
    for operand in match.syntax.operands:
        at = match.named.get(operand.name)
        if at is None or operand.style == "memory":
            continue
        declared = match.form.types.get(
            operand.name, "1" if operand.name in _PLAIN and len(types) == 1 else ""
        )
        if declared.isalpha():
            declared = f".b{match.number(declared)}"
        width = _width(declared, types, match.modifiers, (lengths or {}).get(at, 0))
        if width is not None and width.bits:
            found[at] = width
    return found


@cache
def _types(modifiers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(modifier for modifier in modifiers if TYPE.fullmatch(modifier))


def _width(declared: str, types: Sequence[str], modifiers: tuple[str, ...], length: int) -> Width | None:
    """The size that a value of the key ``types`` denotes (see ``README.md``); None if it denotes none here."""
    if declared.startswith("."):
        return Width(width_of(declared), False)
    if not declared or int(declared[0]) > len(types):
        return None
    bits = width_of(types[int(declared[0]) - 1])
    if declared.endswith("w") and ".wide" in modifiers:
        bits *= 2
    if declared.endswith("/"):
        bits = bits // length if length else 0
    return Width(bits, declared.endswith("+"))
