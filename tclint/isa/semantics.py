"""The semantics of scalar integer instructions: one pure function per ``compute`` name of the ISA table.

``COMPUTE[name](binding, *values)`` takes the modifiers that the form bound (:attr:`Match.binding`) and the source
operands in their order as unsigned bit patterns, and returns the destination's bit pattern. Constant folding,
address arithmetic and the executor share these functions. They are built from arithmetic operators alone, so that
they also work on numpy arrays of Python ints (``dtype=object``), one element per lane; truth values are 0 and 1.

The result has the width of the instruction's type. A destination register may be wider (9.4.1): see :func:`widen`.
Division by zero, which the ISA leaves unspecified (9.7.1.8), raises ZeroDivisionError.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from tclint._dataclass import dataclass
from tclint._pattern import pattern

__all__ = ["COMPUTE", "RELATIONS", "Binding", "Compute", "bind", "widen"]

Binding = Mapping[str, str]
"""Choice name -> spelling, in the order of the syntax line."""

Compute = Callable[..., int]
"""``(binding, *values) -> value``."""

COMPUTE: dict[str, Compute] = {}
"""Every function of this module by the name that the ISA table uses."""

RELATIONS: Mapping[str, tuple[str, bool, bool]] = {
    "eq": ("eq", False, False), "ne": ("eq", False, True),
    "lt": ("lt", False, False), "ge": ("lt", False, True), "gt": ("lt", True, False), "le": ("lt", True, True),
    "lo": ("lt", False, False), "hs": ("lt", False, True), "hi": ("lt", True, False), "ls": ("lt", True, True),
}  # fmt: skip
"""A comparison of integers -> the canonical one, whether its operands are swapped, and whether it is negated (9.7.6.2)."""


@dataclass(frozen=True, slots=True)
class _Type:
    """An instruction type: ``.s16x2`` is signed, two lanes of 16 bits."""

    signed: bool
    width: int
    lanes: int = 1

    @property
    def mask(self) -> int:
        return (1 << self.width) - 1

    def read(self, pattern: int) -> int:
        """The number that the low bits of *pattern* represent."""
        return _field(pattern, self.width, self.signed)

    def reader(self) -> Callable[[int], int]:
        """:meth:`read` for an operation that is executed often."""
        mask, half = self.mask, (1 << self.width) >> 1
        return (lambda a: ((a & mask) ^ half) - half) if self.signed else lambda a: a & mask

    def clamp(self, number: int) -> int:
        """The nearest number that the type can represent."""
        top = self.mask >> self.signed
        return _min(_max(number, -(top + 1) if self.signed else 0), top)


_U32 = _Type(False, 32)
_S32 = _Type(True, 32)
_TYPE = pattern(r"\.([us]|b?f|b|p)(?:red)?(\d*)(?:x(\d))?")


@cache
def _parse(spelling: str) -> _Type | None:
    match = _TYPE.fullmatch(spelling)
    return _Type(match[1] == "s", int(match[2] or 1), int(match[3] or 1)) if match else None


def _types(binding: Binding) -> list[_Type]:
    """The types among the modifiers, in their order."""
    return _typed(tuple(binding.values()))


@cache
def _typed(modifiers: tuple[str, ...]) -> list[_Type]:
    return [t for t in map(_parse, modifiers) if t is not None]


def widen(binding: Binding, pattern: int, width: int) -> int:
    """The contents of a destination register of *width* bits for the result *pattern* of the instruction.

    Signed results are sign-extended, others zero-extended (9.4.1, and the notes of 9.7.9.21 on ``cvt``).
    """
    t = _types(binding)[0]
    if ".wide" not in binding and t.lanes == 1:  # otherwise the result is wider than the type, and complete
        pattern = t.read(pattern)
    return pattern & ((1 << width) - 1)


def bind(name: str, binding: Binding, width: int) -> Callable[..., int]:
    """``COMPUTE[name]`` with these modifiers, for a destination register of *width* bits (see :func:`widen`).

    An instruction that is executed often needs to be bound only once.
    """
    modifiers = tuple(binding.values())
    compute = _MAKERS[name](modifiers) if name in _MAKERS else partial(COMPUTE[name], binding)
    t = _typed(modifiers)[0]
    whole = t.lanes == 1 and (t.width == width or (t.width < width and not t.signed))
    if name.startswith("setp") or (whole and ".wide" not in binding):
        return compute  # the register is no wider than the result
    return lambda *values: widen(binding, compute(*values), width)


# ---------------------------------------------------------------- arithmetic that ints and arrays share


def _pick(condition: Any, yes: int, no: int) -> int:
    """*yes* where *condition* holds, else *no*."""
    chosen: int = condition * yes + (1 - condition) * no
    return chosen


def _min(a: int, b: int) -> int:
    return _pick(a < b, a, b)


def _max(a: int, b: int) -> int:
    return _pick(a < b, b, a)


def _abs(a: int) -> int:
    return _pick(a < 0, -a, a)


def _field(value: int, width: int, signed: bool) -> int:
    """The low *width* bits of *value* as a number; no bits are 0."""
    field = value & ((1 << width) - 1)
    half = (1 << width) >> 1
    return (field ^ half) - half if signed else field


def _popc(a: int, width: int) -> int:
    return sum((a >> i) & 1 for i in range(width))


def _length(a: int, width: int) -> int:
    """The number of bits up to the highest one bit."""
    for shift in (1, 2, 4, 8, 16, 32):
        a = a | (a >> shift)
    return _popc(a, width)


def _quotient(a: int, b: int) -> int:
    """Division that rounds towards zero."""
    magnitude = _abs(a) // _abs(b)
    return _pick((a < 0) ^ (b < 0), -magnitude, magnitude)


def _amount(binding: Binding, n: int, limit: int = 32) -> int:
    """A shift amount or width under ``.wrap`` (modulo) or ``.clamp`` (limited, the default)."""
    n = n & _U32.mask
    return n & (limit - 1) if ".wrap" in binding.values() else _min(n, limit)


# ---------------------------------------------------------------- registration


def _named(name: str) -> Callable[[Compute], Compute]:
    def register(function: Compute) -> Compute:
        COMPUTE[name] = function
        return function

    return register


_Maker = Callable[[tuple[str, ...]], Callable[..., int]]
"""Returns the function of the source operands for given modifiers: for the most frequently executed operations."""
_MAKERS: dict[str, _Maker] = {}


def _made(name: str) -> Callable[[_Maker], _Maker]:
    def register(maker: _Maker) -> _Maker:
        _MAKERS[name] = make = cache(maker)
        COMPUTE[name] = lambda binding, *values: make(tuple(binding.values()))(*values)
        return maker

    return register


def _lanewise(name: str, operation: Callable[..., int]) -> None:
    """Register *operation* on numbers for every lane of the type, with ``.sat`` and ``.relu``."""

    @_made(name)
    def make(modifiers: tuple[str, ...]) -> Callable[..., int]:
        t, saturates, relu = _typed(modifiers)[0], ".sat" in modifiers, ".relu" in modifiers
        read, mask = t.reader(), t.mask

        def lanes(*values: int) -> int:
            result = 0
            for shift in range(0, t.width * t.lanes, t.width):
                number = operation(*(read(v >> shift) for v in values))
                if saturates:
                    number = t.clamp(number)
                if relu:
                    number = _max(number, 0)
                result = result | ((number & mask) << shift)
            return result

        if t.lanes > 1 or saturates or relu:
            return lanes
        if name not in _MODULAR:
            return lambda *values: operation(*map(read, values)) & mask
        return (lambda a: operation(a) & mask) if name in _UNARY else lambda a, b: operation(a, b) & mask


_MODULAR = frozenset("mov add sub neg and or xor not".split())
"""Operations whose low result bits do not depend on higher operand bits."""
_UNARY = frozenset("mov neg not".split())
_LANEWISE: dict[str, Callable[..., int]] = {
    "mov": lambda a: a,
    "add": operator.add,
    "sub": operator.sub,
    "neg": operator.neg,
    "abs": _abs,
    "min": _min,
    "max": _max,
    "sad": lambda a, b, c: _abs(a - b) + c,
    "div": _quotient,
    "rem": lambda a, b: a - b * _quotient(a, b),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.invert,
    "cnot": lambda a: _pick(a == 0, 1, 0),
}
for _name, _operation in _LANEWISE.items():
    _lanewise(_name, _operation)


@_named("pack")
def _pack(binding: Binding, *values: int) -> int:
    """The elements of a vector packed into one register, the first one in the lowest bits (9.7.9.4)."""
    width = _types(binding)[0].width // len(values)
    return sum((v & ((1 << width) - 1)) << (width * i) for i, v in enumerate(values))


# ---------------------------------------------------------------- products


def _product(binding: Binding, a: int, b: int, c: int, narrow: int, high: int) -> int:
    """a * b + c over the low *narrow* bits of a and b; ``.hi`` drops *high* bits of the product, ``.wide`` none."""
    t = _types(binding)[0]
    modifiers = binding.values()
    result = _Type(t.signed, 2 * t.width) if ".wide" in modifiers else t
    product = _field(a, narrow, t.signed) * _field(b, narrow, t.signed)
    number = (product >> high if ".hi" in modifiers else product) + result.read(c)
    return (result.clamp(number) if ".sat" in modifiers else number) & result.mask


@_made("mul")
@_made("mad")
def _mad(modifiers: tuple[str, ...]) -> Callable[..., int]:
    t = _typed(modifiers)[0]
    mask = t.mask
    if ".lo" in modifiers:
        return lambda a, b, c=0: a * b + c & mask
    binding = {modifier: modifier for modifier in modifiers}
    return lambda a, b, c=0: _product(binding, a, b, c, t.width, t.width)


@_made("clmad")
def _clmad(modifiers: tuple[str, ...]) -> Callable[..., int]:
    """The product of two polynomials over one bit; c is added to one half of it, which has no carries either."""
    t = _typed(modifiers)[0]

    def compute(a: int, b: int, c: int) -> int:
        product = 0
        for bit in range(t.width):
            product ^= (a << bit) * (b >> bit & 1)
        return (product & t.mask if ".lo" in modifiers else product >> t.width) ^ c

    return compute


@_named("mul24")
@_named("mad24")
def _mad24(binding: Binding, a: int, b: int, c: int = 0) -> int:
    return _product(binding, a, b, c, 24, 16)


def _dot(binding: Binding, a: int, b: int, c: int, width: int) -> int:
    """c plus the products of the *width*-bit elements of a with the low bytes of b."""
    ta, tb = _types(binding)
    products = (
        _field(a >> width * i, width, ta.signed) * _field(b >> 8 * i, 8, tb.signed)
        for i in range(32 // width)
    )
    return (c + sum(products)) & _U32.mask


@_named("dp4a")
def _dp4a(binding: Binding, a: int, b: int, c: int) -> int:
    return _dot(binding, a, b, c, 8)


@_named("dp2a")
def _dp2a(binding: Binding, a: int, b: int, c: int) -> int:
    return _dot(binding, a, b >> 16 if ".hi" in binding.values() else b, c, 16)


# ---------------------------------------------------------------- shifts and bit fields


def _limited(width: int) -> Callable[[int], int]:
    """The shift amount for an operand of *width* bits: all bits are shifted out by as many or more."""
    mask = _U32.mask
    return lambda n: (fewer := (n := n & mask) < width) * n + (1 - fewer) * width


@_made("shl")
def _shl(modifiers: tuple[str, ...]) -> Callable[..., int]:
    t = _typed(modifiers)[0]
    mask, width = t.mask, t.width
    least = _limited(width)
    return lambda a, b: (a & mask) << least(b) & mask


@_made("shr")
def _shr(modifiers: tuple[str, ...]) -> Callable[..., int]:
    t = _typed(modifiers)[0]
    read, mask, least = t.reader(), t.mask, _limited(t.width)
    return lambda a, b: read(a) >> least(b) & mask


@_named("shf")
def _shf(binding: Binding, a: int, b: int, c: int) -> int:
    both, n = (b & _U32.mask) << 32 | (a & _U32.mask), _amount(binding, c)
    return (both << n >> 32 if ".l" in binding.values() else both >> n) & _U32.mask


@_named("bfe")
def _bfe(binding: Binding, a: int, b: int, c: int) -> int:
    t = _types(binding)[0]
    return _field(t.read(a) >> (b & 255), c & 255, t.signed) & t.mask


@_named("bfi")
def _bfi(binding: Binding, a: int, b: int, c: int, n: int) -> int:
    t = _types(binding)[0]
    position, field = c & 255, (1 << (n & 255)) - 1
    return ((b & ~(field << position)) | ((a & field) << position)) & t.mask


@_named("szext")
def _szext(binding: Binding, a: int, b: int) -> int:
    return _field(a, _amount(binding, b), _types(binding)[0].signed) & _U32.mask


@_named("bmsk")
def _bmsk(binding: Binding, a: int, b: int) -> int:
    return ((1 << _amount(binding, b)) - 1) << _amount(binding, a) & _U32.mask


@_named("popc")
def _popc_(binding: Binding, a: int) -> int:
    return _popc(a, _types(binding)[0].width)


@_named("clz")
def _clz(binding: Binding, a: int) -> int:
    t = _types(binding)[0]
    return t.width - _length(a & t.mask, t.width)


@_named("bfind")
def _bfind(binding: Binding, a: int) -> int:
    t = _types(binding)[0]
    number = t.read(a)
    length = _length(_pick(number < 0, ~number, number), t.width)
    found = t.width - length if ".shiftamt" in binding.values() else length - 1
    return _pick(length == 0, _U32.mask, found)


@_named("fns")
def _fns(binding: Binding, mask: int, base: int, offset: int) -> int:
    """Ints only: the search ends at a different bit in every lane."""
    count, step = _S32.read(offset), -1 if _S32.read(offset) < 0 else 1
    position = base & _U32.mask
    if count == 0:
        return position if position < 32 and mask >> position & 1 else _U32.mask
    while 0 <= position < 32:
        count -= step * (mask >> position & 1)
        if count == 0:
            return position
        position += step
    return _U32.mask


@_named("brev")
def _brev(binding: Binding, a: int) -> int:
    width = _types(binding)[0].width
    return sum(((a >> i) & 1) << (width - 1 - i) for i in range(width))


@_named("lop3")
def _lop3(binding: Binding, a: int, b: int, c: int, table: int) -> int:
    """Bit 4a + 2b + c of the immediate *table* is the result for the bits a, b and c."""
    result = 0
    for row in range(8):
        if table >> row & 1:
            result = result | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
    return result & _U32.mask


_PRMT: dict[str, Callable[[int, int], int]] = {
    ".f4e": lambda i, s: i + s,
    ".b4e": lambda i, s: (s - i) & 7,
    ".rc8": lambda i, s: s,
    ".ecl": lambda i, s: _max(i, s),
    ".ecr": lambda i, s: _min(i, s),
    ".rc16": lambda i, s: (i & 1) + 2 * (s & 1),
}
"""The source byte of result byte i under the selector s (9.7.9.7, the table of modes)."""


@_named("prmt")
def _prmt(binding: Binding, a: int, b: int, c: int) -> int:
    both = (b & _U32.mask) << 32 | (a & _U32.mask)
    mode = next((m for m in binding.values() if m in _PRMT), None)
    result = 0
    for i in range(4):
        select = (c >> 4 * i) & 15 if mode is None else _PRMT[mode](i, c & 3)
        byte = (both >> 8 * (select & 7)) & 255
        if mode is None:
            byte = _pick(select > 7, 255 * (byte >> 7), byte)
        result = result | byte << 8 * i
    return result


# ---------------------------------------------------------------- choice, comparison, conversion

_COMPARE: dict[str, Callable[[int, int], Any]] = {
    ".eq": operator.eq,
    ".ne": operator.ne,
    ".lt": operator.lt,
    ".le": operator.le,
    ".gt": operator.gt,
    ".ge": operator.ge,
}
_COMPARE |= {".lo": _COMPARE[".lt"], ".ls": _COMPARE[".le"], ".hi": _COMPARE[".gt"], ".hs": _COMPARE[".ge"]}
_BOOL: dict[str, Callable[[int, int], int]] = {
    ".and": operator.and_,
    ".or": operator.or_,
    ".xor": operator.xor,
}


@_made("selp")
def _selp(modifiers: tuple[str, ...]) -> Callable[..., int]:
    mask = _typed(modifiers)[0].mask
    return lambda a, b, c: _pick(c & 1, a, b) & mask


def _comparing(negate: int) -> _Maker:
    def make(modifiers: tuple[str, ...]) -> Callable[..., int]:
        t = _typed(modifiers)[0]
        # Signed numbers have the order of their patterns with the sign inverted.
        mask, sign = t.mask, (1 << t.width) >> 1 if t.signed else 0
        compare = next(_COMPARE[m] for m in modifiers if m in _COMPARE)
        combine = next((_BOOL[m] for m in modifiers if m in _BOOL), None)
        if combine is None:
            return lambda a, b: compare(a & mask ^ sign, b & mask ^ sign) ^ negate
        return lambda a, b, c: combine(compare(a & mask ^ sign, b & mask ^ sign) ^ negate, c & 1)

    return make


_made("setp")(_comparing(0))
"""The first destination, p."""
_made("setp.q")(_comparing(1))
"""The second destination, q: the comparison is negated, the Boolean operator is not (9.7.6.2)."""


@_named("cvt")
def _cvt(binding: Binding, a: int) -> int:
    """Between integers; from a wider register the low bits are taken (9.4.1)."""
    destination, source = _types(binding)
    number = source.read(a)
    return (destination.clamp(number) if ".sat" in binding.values() else number) & destination.mask
