"""Types of PTX instructions, and conversion of bit patterns to values and back for formats other than f32 and f64.

The formats are defined in 5.2.3 (alternate floating-point formats) and 5.2.4 (the fixed-point ``s2f6``). A pattern of
fewer than 8 bits is in the low bits of its byte; ``tf32`` is an ``.f32`` pattern whose low 13 bits are ignored.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tclint._dataclass import dataclass
from tclint.executor.errors import Unsupported

__all__ = ["REGISTERS", "Array", "Type", "decode", "encode", "types"]

Array = NDArray[Any]

REGISTERS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_), 8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32),
    64: np.dtype(np.uint64), 128: np.dtype(object),
}  # fmt: skip
"""The numpy type of a register, by its width in bits; a predicate has one bit, and ``.b128`` is a Python int."""


@dataclass(frozen=True, slots=True)
class Type:
    """An instruction type; ``.s16x2`` has two elements of the format ``s16``."""

    name: str
    width: int
    """Bits from one element to the next; the 6-bit formats and ``e2m1p4`` take a byte each (5.2.5.1)."""
    count: int = 1

    @property
    def integer(self) -> bool:
        """Whether it is an integer or untyped."""
        return self.name[0] in "usb" and self.name[1:].isdigit()

    @property
    def signed(self) -> bool:
        """Whether it is a signed integer type: one that is sign-extended (9.4.1)."""
        return self.integer and self.name[0] == "s"

    @property
    def register(self) -> np.dtype[Any]:
        """The numpy type of a register that holds all elements."""
        return REGISTERS[self.width * self.count]

    @property
    def element(self) -> np.dtype[Any]:
        """The numpy type in which one element is computed: float for f16, f32 and f64, else an integer type."""
        kind = "f" if self.name in ("f16", "f32", "f64") else "i" if self.signed else "u"
        return np.dtype(f"{kind}{self.width // 8}") if self.width > 1 else REGISTERS[1]


_TYPE = re.compile(r"\.((?:[usb]|b?f)\d+|tf32|u?e\dm\d|s2f6|pred)(p4)?(?:x(\d))?")
_WIDTHS = {"pred": 1, "e2m1": 4, "tf32": 32}


@cache
def types(modifiers: tuple[str, ...]) -> tuple[Type, ...]:
    """The types among *modifiers*, in order."""
    found = []
    for match in filter(None, map(_TYPE.fullmatch, modifiers)):
        name = match[1]
        width = _WIDTHS.get(name) or (8 if "m" in name or name == "s2f6" else int(name.lstrip("usbf")))
        found.append(Type(name, 8 if match[2] else width, int(match[3] or 1)))
    return tuple(found)


_ROUNDINGS = frozenset((".rn", ".rna", ".rz", ".rm", ".rp"))
_HUGE = 2.0**130
"""A value that overflows every format; larger magnitudes are replaced by it."""


@dataclass(frozen=True, slots=True)
class _Format:
    """A binary floating-point format. A *code* is a bit pattern without the sign bit."""

    width: int
    mantissa: int
    bias: int
    top: int
    """The code of the largest finite number (MAX_NORM)."""
    nan: int | None = None
    """The code of the canonical NaN."""
    infinite: bool = False
    """Whether the code above :attr:`top` is infinity; otherwise it is a NaN, or does not exist."""
    signed: bool = True
    zero: bool = True
    """Whether code 0 is zero and the following ones are subnormal; false for ``ue8m0``."""

    @property
    def smallest(self) -> int:
        """The exponent of the smallest normal number."""
        return 1 - self.bias if self.zero else -self.bias

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if self.width <= 8 else np.uint16 if self.width == 16 else np.uint32)


_FORMATS = {
    "f16": _Format(16, 10, 15, 0x7BFF, 0x7FFF, infinite=True),
    "bf16": _Format(16, 7, 127, 0x7F7F, 0x7FFF, infinite=True),
    "tf32": _Format(19, 10, 127, 0x3FBFF, 0x3FFFF, infinite=True),
    "e5m2": _Format(8, 2, 15, 0x7B, 0x7F, infinite=True),
    "e4m3": _Format(8, 3, 7, 0x7E, 0x7F),
    "e3m2": _Format(6, 2, 3, 0x1F),
    "e2m3": _Format(6, 3, 1, 0x1F),
    "e2m1": _Format(4, 1, 1, 0x7),
    "ue4m3": _Format(7, 3, 7, 0x7E, 0x7F, signed=False),
    "ue8m0": _Format(8, 0, 127, 0xFE, 0xFF, signed=False, zero=False),
}


def decode(name: str, bits: Array) -> Array:
    """The values, as float32, of the patterns *bits* in the format *name* (``"f16"``, ``"e4m3"``, ...).

    Bits above the width of the format are ignored.
    """
    if name == "f16":
        return bits.astype(np.uint16, copy=False).view(np.float16).astype(np.float32)
    if name == "bf16":
        return (bits.astype(np.uint32) << _HALF).view(np.float32)
    if name == "tf32":
        return (bits.astype(np.uint32, copy=False) & np.uint32(0xFFFFE000)).view(np.float32)
    values: Array = _values(name)[bits.astype(np.uint8, copy=False)]
    return values


def encode(name: str, values: Array, rounding: str = ".rn", *, saturate: bool = False) -> Array:
    """The bit patterns of float32 or float64 *values* in the format *name*, rounded once.

    *rounding* is ``.rn``, ``.rna``, ``.rz``, ``.rm`` or ``.rp``. A value that overflows becomes the largest finite
    number or infinity, as IEEE 754 specifies, or NaN in a format without infinity. With *saturate*, which is
    ``.satfinite`` (9.7.9.21), it becomes the largest finite number, and so does an infinity. Formats without NaN always
    saturate, and encode NaN as the positive largest number; other formats encode NaN as the canonical one. Formats
    without a sign encode the magnitude. Raises :class:`Unsupported` for any other rounding.
    """
    if rounding not in _ROUNDINGS:
        raise Unsupported(f"{rounding} to {name}")
    if name == "s2f6":
        return _fixed(values, rounding)
    form = _FORMATS[name]
    if (
        rounding == ".rn"
        and not saturate
        and (name == "f16" or (name == "bf16" and values.dtype == np.float32))
    ):
        nearest = _halves(values) if name == "f16" else _upper_halves(values)
        other = np.isnan(values)
        return np.where(other, np.uint16(form.nan or 0), nearest) if np.count_nonzero(other) else nearest
    wide = values.astype(np.float64, copy=False)
    code = _codes(form, wide, rounding, saturate)
    if form.signed:
        code |= np.signbit(wide).astype(np.int64) << (form.width - 1)
    code = np.where(np.isnan(wide), form.top if form.nan is None else form.nan, code)
    if name == "tf32":
        code <<= 13
    return code.astype(form.dtype)


# Arrays without dimensions, because numpy is slow to convert scalars.
_HALF, _ONE, _BELOW_TIE = (np.array(n, dtype=np.uint32) for n in (16, 1, 0x7FFF))


def _halves(values: Array) -> Array:
    return values.astype(np.float16).view(np.uint16)


def _upper_halves(values: Array) -> Array:
    """The upper 16 bits of float32 values, rounded to nearest even."""
    pattern = values.view(np.uint32)
    rounded: Array = (pattern + ((pattern >> _HALF) & _ONE) + _BELOW_TIE) >> _HALF
    return rounded.astype(np.uint16)


def _codes(form: _Format, wide: Array, rounding: str, saturate: bool) -> Array:
    """The codes that float64 values round to."""
    magnitude = np.fmin(np.abs(wide), _HUGE)
    exponent = np.maximum((magnitude.view(np.int64) >> 52) - 1023, form.smallest)
    steps = np.ldexp(magnitude, form.mantissa - exponent)  # in units of the last place, exactly
    down = np.floor(steps)
    upwards: Array | bool = False  # whether the value is rounded away from zero
    if rounding == ".rn":
        steps = np.rint(steps)
    elif rounding == ".rna":
        steps = down + (steps - down >= 0.5)
    else:
        if rounding != ".rz":
            upwards = (np.signbit(wide) & form.signed) == (rounding == ".rm")
        steps = np.where(upwards, np.ceil(steps), down)
    code = ((exponent - form.smallest) << form.mantissa) + steps.astype(np.int64)
    if not form.zero:
        code = np.maximum(code - 1, 0)
    above: Array | bool = not saturate and form.nan is not None
    if above and form.infinite and rounding not in (".rn", ".rna"):
        above = upwards | np.isinf(wide)
    clipped: Array = np.minimum(code, form.top + above)
    return clipped


def _fixed(values: Array, rounding: str) -> Array:
    """``s2f6``: a multiple of 1/64 in two's complement. Saturates; NaN gives the largest value."""
    if rounding not in (".rn", ".rz"):
        raise Unsupported(f"{rounding} to s2f6")
    steps = values.astype(np.float64, copy=False) * 64
    steps = np.trunc(steps) if rounding == ".rz" else np.rint(steps)
    return np.clip(np.where(np.isnan(steps), 127, steps), -128, 127).astype(np.int8).view(np.uint8)


@cache
def _values(name: str) -> Array:
    """The value of each of the 256 bytes; a narrower format uses their low bits."""
    if name == "s2f6":
        return np.arange(256, dtype=np.uint8).view(np.int8) * np.float32(1 / 64)
    return np.array([_value(_FORMATS[name], byte) for byte in range(256)], dtype=np.float32)


def _value(form: _Format, byte: int) -> float:
    """The value of a bit pattern."""
    magnitude = form.width - form.signed
    code = byte & ((1 << magnitude) - 1)
    sign = -1.0 if form.signed and byte >> magnitude & 1 else 1.0
    if code > form.top:
        return sign * float("inf" if form.infinite and code == form.top + 1 else "nan")
    exponent, fraction = divmod(code, 1 << form.mantissa)
    if exponent == 0 and form.zero:
        exponent = 1
    else:
        fraction += 1 << form.mantissa
    return sign * fraction * 2.0 ** (exponent - form.bias - form.mantissa)
