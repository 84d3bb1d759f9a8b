"""Type agreement: the registers and constants that an operand accepts (PTX ISA 9.2, 9.4.1), as in ptxas 13.5.

A register of bit type agrees with every type of its size, and an operand of bit type with every register. Otherwise
integers, floating-point numbers and packed values do not agree with each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from tclint._named_tuple import NamedTuple
from tclint.isa.forms import Match
from tclint.isa.notation import TYPE

__all__ = ["ADDRESSES", "SPECIAL", "Width", "needed", "width_of"]

_BITS = re.compile(r"\.(?:[usb]|b?f)(\d{1,3})(?:x(\d))?")
_OTHERS = {".pred": 1, ".tf32": 32}
_NAMED = re.compile(r"\.([a-z]+?)(\d+)(x\d)?")
_PLAIN = frozenset("dabc")
"""Operands that have the type of an opcode with one type, unless the form specifies another (key ``types``)."""


SPECIAL = frozenset(("mov", "cvt"))
"""The instructions of which an operand may be a special register."""
ADDRESSES = frozenset(("mov", "cvta", "mapa", "getctarank"))
"""The instructions of which an operand of known type may be the address of a variable."""


class Width(NamedTuple):
    """The required type of a register."""

    bits: int
    """Its size; 1 is a predicate, not a register of one bit."""
    wider: bool
    """The register may be wider: of a source the low bits are used, and a result is extended (9.4.1)."""
    type: str = ""
    """The type of the operand; empty if only the size is known."""
    predicate: bool = False
    """It may be a predicate instead."""

    def takes(self, register: str) -> bool:
        """Whether the operand may be a register of that type; one of unknown size is accepted."""
        return _takes(self, register)

    def takes_constant(self, constant: str) -> bool:
        """Whether the operand may be a *constant*: ``integer``, ``single`` or ``double`` (4.5)."""
        if self.type in _PRECISIONS:
            return constant in ("integer", _PRECISIONS[self.type])
        if not self.type:
            return True
        kind, _, packed = _kind(self.type)
        if kind in ("s", "u", "b", "pred"):
            return constant == "integer" and not packed
        return constant != "integer" and self.type in (".f32", ".f64")


_PRECISIONS = {".b32": "single", ".b64": "double"}
"""The floating-point constants that an operand of bit type may be."""


@cache
def _takes(width: Width, register: str) -> bool:
    bits = width_of(register)
    if bits == 1 and width.predicate:
        return True
    if bits and bits != width.bits and not (width.wider and bits > width.bits):
        return False
    return not width.type or not bits or _agrees(width.type, register, bits == width.bits)


def _agrees(operand: str, register: str, same_size: bool) -> bool:
    """Whether a register agrees with the type of an operand that its size allows."""
    kind, size, packed = _kind(operand)
    other, _, packed_other = _kind(register)
    if kind in ("b", "pred") or other in ("b", "pred"):
        return True
    if kind in ("s", "u"):
        return (other in ("s", "u") and not packed) or packed_other != ""
    if kind == "f" and size == "16" and packed:
        return packed_other != ""
    return kind == "f" and other == "f" and same_size and not packed and not packed_other


@cache
def _kind(type_: str) -> tuple[str, str, str]:
    """The letters, the size and ``x2`` of a type; empty where it has none."""
    match = _NAMED.fullmatch(type_)
    return (match[1], match[2], match[3] or "") if match else (type_[1:], "", "")


@cache
def width_of(type_: str) -> int:
    """The size of a register of a type in bits: 32 for ``.b32`` and ``.f16x2``, 1 for ``.pred``, 0 if unknown."""
    match = _BITS.fullmatch(type_)
    return int(match[1]) * int(match[2] or 1) if match else _OTHERS.get(type_, 0)


def needed(match: Match, lengths: Mapping[int, int] | None = None) -> dict[int, Width]:
    """Operand index -> the required type of its registers; operands for which it is unknown are omitted.

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
    """The required type that *declared*, a value of the key ``types``, denotes (see ``README.md``); None if it denotes
    none for these modifiers."""
    if declared.startswith("."):
        type_, *predicate = declared.split()
        return Width(width_of(type_), False, type_, bool(predicate))
    if not declared or int(declared[0]) > len(types):
        return None
    type_ = types[int(declared[0]) - 1]
    bits = width_of(type_)
    if declared.endswith("w") and ".wide" in modifiers:
        bits *= 2
        type_ = f".{_kind(type_)[0]}{bits}"
    if declared.endswith("/"):
        bits, type_ = bits // length if length else 0, ""
    return Width(bits, declared.endswith("+"), type_)
