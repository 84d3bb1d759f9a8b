"""The bit fields of matrix descriptors (PTX ISA 9.7.16.4), as data.

A descriptor is a register, often assembled at run time. A field is therefore compared with the known bits of it, and
unknown bits are not an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tclint._dataclass import dataclass
from tclint.isa.forms import Match
from tclint.isa.target import Target
from tclint.values import Bits

__all__ = ["INSTRUCTION", "SHARED", "Bits", "DescriptorForm", "Field", "Shape", "instruction_fields", "shape"]


@dataclass(frozen=True, slots=True)
class Field:
    """Bits ``low`` to ``low + size - 1`` of a descriptor, and the values allowed there (None: any)."""

    name: str
    low: int
    size: int
    allowed: frozenset[int] | None = None
    scale: int = 0
    """The number of low bits that the descriptor omits: it holds ``N >> 3``."""

    def read(self, bits: Bits) -> int | None:
        """The value of the field if all its bits are known, else None."""
        mask = (1 << self.size) - 1
        zeros, ones = (part >> self.low & mask for part in bits)
        return ones << self.scale if zeros | ones == mask else None

    def admits(self, bits: Bits, number: int) -> bool:
        """Whether the field may contain *number*."""
        mask = (1 << self.size) - 1
        zeros, ones = (part >> self.low & mask for part in bits)
        stored = number >> self.scale
        return not stored & zeros and not ~stored & ones

    def wrong(self, bits: Bits) -> bool:
        """Whether no allowed value agrees with the known bits."""
        return self.allowed is not None and not any(self.admits(bits, number) for number in self.allowed)

    def only(self, *allowed: int) -> Field:
        """The same field with fewer values allowed."""
        given = frozenset(allowed)
        return replace(self, allowed=given if self.allowed is None else given & self.allowed)

    @property
    def reserved(self) -> bool:
        """Whether the manual gives the bits no meaning, so that a newer target may have given them one."""
        return self.name.startswith(("reserved", "fixed zero"))

    def overlaps(self, other: Field) -> bool:
        """Whether the fields have a bit in common."""
        return self.low < other.low + other.size and other.low < self.low + self.size

    def where(self) -> str:
        """The position of the field in words."""
        last = self.low + self.size - 1
        return f"bit {self.low}" if last == self.low else f"bits {self.low}-{last}"


def _field(name: str, low: int, last: int, *allowed: int, scale: int = 0) -> Field:
    return Field(name, low, last - low + 1, frozenset(allowed) or None, scale)


def _table(*fields: Field) -> Mapping[str, Field]:
    return {field.name: field for field in fields}


SHARED = _table(
    _field("start address", 0, 13, scale=4),
    _field("leading dimension", 16, 29, scale=4),
    _field("stride dimension", 32, 45, scale=4),
    _field("fixed constant", 46, 48, 1),
    _field("base offset", 49, 51),
    _field("leading dimension mode", 52, 52),
    _field("fixed zero", 53, 60, 0),
    _field("swizzling mode", 61, 63, 0, 1, 2, 4, 6),
)
"""The shared memory descriptor of tcgen05 (table 40)."""

SWIZZLE_128_ATOM_32 = 1
SWIZZLE_128 = 2

# Tables 42 to 44, and 51 for negation.
_PLAIN = (
    _field("sparsity", 2, 2),
    _field("reserved bit", 6, 6, 0),
    _field("negation of A", 13, 13),
    _field("negation of B", 14, 14),
    _field("transposition of A", 15, 15),
    _field("transposition of B", 16, 16),
    _field("N", 17, 22, scale=3),
)
_DENSE_OR_SPARSE = (
    *_PLAIN,
    _field("sparsity selector", 0, 1),
    _field("reserved bit 23", 23, 23, 0),
    _field("M", 24, 28, scale=4),
    _field("reserved bit 29", 29, 29, 0),
)
_SCALED = (
    *_PLAIN,
    _field("reserved bits 0-1", 0, 1, 0),
    _field("saturation", 3, 3, 0),
    _field("scale factor id of B", 4, 5),
    _field("scale type", 23, 23),
    _field("reserved bits 24-26", 24, 26, 0),
    _field("M", 27, 28, scale=7),
    _field("scale factor id of A", 29, 30),
)
_EIGHT_BITS = (0, 1, 3, 4, 5)
_FOUR_BITS = (
    _field("type of A", 7, 9, 1),
    _field("type of B", 10, 11, 1),
    _field("reserved bit 12", 12, 12, 0),
    _field("transposition of A", 15, 15, 0),
    _field("transposition of B", 16, 16, 0),
    _field("K", 31, 31),
)


def _types(a_and_b: tuple[int, ...], *d: int) -> tuple[Field, ...]:
    return (
        _field("type of D", 4, 5, *d),
        _field("type of A", 7, 9, *a_and_b),
        _field("type of B", 10, 12, *a_and_b),
    )


INSTRUCTION: Mapping[str, Mapping[str, Field]] = {
    ".kind::tf32": _table(*_DENSE_OR_SPARSE, *_types((2,), 1), _field("saturation", 3, 3, 0)),
    ".kind::f16": _table(*_DENSE_OR_SPARSE, *_types((0, 1), 0, 1), _field("saturation", 3, 3, 0)),
    ".kind::f8f6f4": _table(*_DENSE_OR_SPARSE, *_types(_EIGHT_BITS, 0, 1), _field("saturation", 3, 3, 0)),
    ".kind::i8": _table(
        *_DENSE_OR_SPARSE,
        *_types((0, 1), 2),
        _field("saturation", 3, 3),
        _field("negation of A", 13, 13, 0),
        _field("negation of B", 14, 14, 0),
    ),
    ".kind::mxf8f6f4": _table(
        *_SCALED,
        *_types(_EIGHT_BITS)[1:],
        _field("scale type", 23, 23, 1),
        _field("reserved bit 31", 31, 31, 0),
    ),
    ".kind::mxf4": _table(*_SCALED, *_FOUR_BITS, _field("scale type", 23, 23, 1)),
    ".kind::mxf4nvf4": _table(*_SCALED, *_FOUR_BITS),
    ".kind::ti16": _table(),
}
"""The instruction descriptor by the kind of the multiplication; empty for one that is not documented."""

_SCALE_FORMAT = (_field("scale type", 23, 24), _field("reserved bits 25-26", 25, 26, 0))
_CHANGED: Mapping[int, Mapping[str, tuple[Field, ...]]] = {
    107: {
        ".kind::f8f6f4": (_field("K", 29, 29),),
        ".kind::mxf8f6f4": (_field("K", 31, 31), *_SCALE_FORMAT),
        ".kind::mxf4nvf4": (
            _field("K", 3, 3),
            _field("sparsity version", 12, 12),
            _field("K", 31, 31),
            *_SCALE_FORMAT,
        ),
    }
}
"""Target number -> the fields that it defines otherwise, by the kind of the multiplication (``mma_sm107_desc.hpp`` of
CUTLASS). Each replaces the fields of :data:`INSTRUCTION` with bits in common."""

TRANSPOSED_IN_STEPS = frozenset((".kind::f8f6f4", ".kind::mxf8f6f4", ".kind::i8"))
"""Kinds with 8-bit elements, for which a transposed B requires larger steps of N (table 52)."""


@dataclass(frozen=True, slots=True)
class DescriptorForm:
    """What the opcode of a multiplication implies for its descriptor."""

    kind: str
    pair: bool = False
    """``.cta_group::2``"""
    sparse: bool = False
    weights: bool = False
    """``.ws``"""
    shifted: bool = False
    """``.ashift``"""
    vector: str = ""
    """``.scale_vectorsize``"""

    @classmethod
    def of(cls, match: Match) -> DescriptorForm:
        """The form of a ``tcgen05.mma``."""
        return cls(
            match.binding.get("kind") or next(m for m in match.modifiers if m in INSTRUCTION),
            match.of_pair,
            match.modes.sparse,
            match.modes.weight_stationary,
            match.modes.shifts_a,
            next((m for m in match.modifiers if m.startswith((".scale_vec", ".block1", ".block3"))), ""),
        )

    @property
    def scaled(self) -> bool:
        """Whether the multiplication has scale factors."""
        return "scale type" in INSTRUCTION[self.kind]

    def __str__(self) -> str:
        words = (
            ".sp" * self.sparse,
            ".ws" * self.weights,
            f".cta_group::{1 + self.pair}",
            self.kind,
            self.vector,
        )
        return "tcgen05.mma" + "".join(words)


def _allowed_n(form: DescriptorForm) -> frozenset[int]:
    if form.weights:
        return frozenset((64, 128)) if form.sparse else frozenset((64, 128, 256))
    if form.kind == ".kind::i8":
        return frozenset(range(32, 257, 32)) if form.pair else frozenset((8, 24, *range(16, 257, 16)))
    step = 16 if form.pair else 8
    return frozenset(range(step, 257, step))


def _allowed_m(form: DescriptorForm) -> frozenset[int]:
    if form.weights:
        found = {32, 64, 128}
    elif form.scaled:
        found = ({256} if form.sparse else {128, 256}) if form.pair else {128}
    else:
        found = {128, 256} if form.pair else {64, 128}
    return frozenset(found & {128, 256} if form.shifted else found)


def instruction_fields(form: DescriptorForm, bits: Bits, target: Target | None = None) -> Iterator[Field]:
    """The fields of *form*'s instruction descriptor, with all values allowed in each (tables 39, 42 to 44, 52, 57).

    With a *target*, those that it defines otherwise have their meaning there.
    """
    changed = _CHANGED.get(target.number, {}).get(form.kind, ()) if target is not None else ()
    yield from changed
    for name, field in INSTRUCTION[form.kind].items():
        if any(field.overlaps(other) for other in changed):
            continue
        if name == "sparsity":
            yield field.only(int(form.sparse))
        elif name == "sparsity selector" and form.sparse and form.kind in (".kind::i8", ".kind::f8f6f4"):
            yield field.only(0)
        elif name == "M":
            yield field.only(*_allowed_m(form))
        elif name == "N":
            narrow = form.kind in TRANSPOSED_IN_STEPS and _reads_as(form.kind, "transposition of B", bits, 1)
            steps = range(32, 257, 32) if form.pair else range(16, 257, 16)
            yield field.only(*_allowed_n(form)).only(*steps) if narrow else field.only(*_allowed_n(form))
        elif (
            name in ("type of A", "type of B")
            and form.kind == ".kind::f16"
            and _reads_as(form.kind, "type of D", bits, 0)
        ):
            yield replace(field.only(0), name=f"{name}, with D of f16,")
        elif name == "scale type" and form.vector in (".scale_vec::2X", ".block32"):
            yield field.only(1)
        elif name.startswith("scale factor id") and form.kind != ".kind::mxf8f6f4" and not changed:
            if _reads_as(form.kind, "K", bits, 0):
                yield field.only(0) if form.vector in (".scale_vec::4X", ".block16") else field.only(0, 2)
        elif name == "K" and form.sparse:
            yield field.only(0)
        else:
            yield field


def _reads_as(kind: str, name: str, bits: Bits, number: int) -> bool:
    return INSTRUCTION[kind][name].read(bits) == number


@dataclass(frozen=True, slots=True)
class Shape:
    """M and N of a multiplication."""

    m: int
    n: int

    def columns(self, form: DescriptorForm) -> int:
        """The columns of tensor memory that D occupies in each CTA (9.7.16.10.5)."""
        if form.weights:
            return self.n * self.m // 128
        return self.n // 2 if form.pair and self.m == 128 and not form.sparse else self.n


def shape(form: DescriptorForm, bits: Bits) -> Shape | None:
    """The shape that the descriptor gives, if it is known; else None."""
    fields = INSTRUCTION[form.kind]
    m, n = (fields[side].read(bits) if fields else None for side in "MN")
    return None if m is None or n is None else Shape(m, n)
