"""How wide the registers of an instruction must be: the agreement of types (PTX ISA 9.2, 9.4.1), as far as it is about size.

What kind of type it is, signed or floating, is left out: compilers declare untyped registers, which go with all of them.
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
"""Operands that have the type of an opcode with one type, where a form does not say otherwise (key ``types``)."""


class Width(NamedTuple):
    """What a register must be: so many bits wide, 1 for a predicate."""

    bits: int
    wider: bool
    """It may have more bits, of which a source gives the low ones, and a destination is extended (9.4.1)."""

    @property
    def fits(self) -> frozenset[int]:
        """The widths of registers that fit, among them 0: one that is not known. A predicate is no register of one bit."""
        return _fits(self.bits, self.wider)


@cache
def _fits(least: int, wider: bool) -> frozenset[int]:
    return frozenset(bits for bits in _SIZES if bits in (0, least) or (wider and bits > least))


@cache
def width_of(type_: str) -> int:
    """The bits of a register of a type: 32 for ``.b32`` and ``.f16x2``, 1 for ``.pred``, 0 where they are not known."""
    match = _BITS.fullmatch(type_)
    return int(match[1]) * int(match[2] or 1) if match else _OTHERS.get(type_, 0)


def needed(match: Match, lengths: Mapping[int, int] | None = None) -> dict[int, Width]:
    """For each operand, by its place, what its registers must be; one of which that is not known is left out.

    Of a vector it is what each of its registers must be, of a pair the first one, of an address nothing. *lengths* are
    those of the vectors.
    """
    types = _types(match.modifiers)
    found = {}
    for operand in match.syntax.operands:
        at = match.named.get(operand.name)
        if at is None or operand.style == "memory":
            continue
        said = match.form.types.get(operand.name, "1" if operand.name in _PLAIN and len(types) == 1 else "")
        width = _width(said, types, match.modifiers, (lengths or {}).get(at, 0))
        if width is not None and width.bits:
            found[at] = width
    return found


@cache
def _types(modifiers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(modifier for modifier in modifiers if TYPE.fullmatch(modifier))


def _width(said: str, types: Sequence[str], modifiers: tuple[str, ...], length: int) -> Width | None:
    if said.startswith("."):
        return Width(width_of(said), False)
    if not said or int(said[0]) > len(types):
        return None
    bits = width_of(types[int(said[0]) - 1])
    if said.endswith("w") and ".wide" in modifiers:
        bits *= 2
    if said.endswith("/"):
        bits = bits // length if length else 0
    return Width(bits, said.endswith("+"))
