"""Floating-point instructions over the lanes of a warp.

Sections 9.7.3 (f32, f64), 9.7.4 (half precision), 9.7.5 (mixed precision), and 9.7.6 of PTX ISA 9.4 (four floats of 8
bits or less). Every result is rounded once. An approximate instruction (``.approx``, ``.full``) gives the correctly
rounded value, or that of double-precision arithmetic; the hardware may differ from it by as much as the manual allows.

A NaN result of f32, f16 or bf16 arithmetic is the canonical one, as on the hardware (0x7fffffff, 0x7fff); f64 preserves
the sign and the payload of the operand, also in ``neg`` and ``abs``. ``.ftz`` flushes a result
that is subnormal after rounding; the hardware also flushes one that rounding makes normal.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tclint.executor.errors import Unsupported
from tclint.executor.formats import Array, Type, decode, encode, types
from tclint.isa.forms import Match

__all__ = [
    "FLOATS",
    "canonical",
    "comparison",
    "directed",
    "flush",
    "load",
    "relu",
    "rounding_of",
    "saturated",
    "store",
]

Compute = Callable[..., Any]
Factory = Callable[[Match], Compute]

_F16, _F32, _F64 = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
_NANS: dict[Any, Any] = {
    _F16: np.array(0x7FFF, dtype=np.uint16).view(_F16),
    _F32: np.array(0x7FFFFFFF, dtype=np.uint32).view(_F32),
}
_QUIET = np.uint64(1 << 51)
"""The bit of a quiet NaN of f64."""


# ---------------------------------------------------------------- registers and values


def load(kind: Type) -> Callable[[Array], Array]:
    """A function that returns the values in a register: lane by lane, and in a lane the lowest element first."""
    if kind.width == 4:
        shifts = np.arange(0, 4 * kind.count, 4, dtype=np.uint8)
        return lambda a: decode(kind.name, (a[:, None] >> shifts).reshape(-1))
    element = kind.element
    if element.kind == "f":
        return lambda a: a.view(element)
    return lambda a: decode(kind.name, a.view(element))


def store(kind: Type) -> Callable[[Array], Array]:
    """A function that rounds values to nearest and packs them into a register: the inverse of :func:`load`."""
    whole = kind.register
    if kind.name == "bf16":
        return lambda r: encode("bf16", r).view(whole)
    if kind.name == "f16":
        return lambda r: canonical(r.astype(_F16, copy=False)).view(whole)
    if kind.name == "f32":
        return lambda r: canonical(r.astype(_F32, copy=False)).view(whole)
    return lambda r: r.view(whole)


def canonical(r: Array) -> Array:
    """*r*, of float16 or float32, with every NaN replaced by the canonical one."""
    if r.dtype == _F32 and not math.isnan(r.dot(r)):  # the cheapest test for the absence of NaNs
        return r
    other = np.isnan(r)
    return np.where(other, _NANS[r.dtype], r) if np.count_nonzero(other) else r


_SMALLEST: dict[Any, Any] = {_F16: np.array(2.0**-14, _F16), _F32: np.array(2.0**-126, _F32)}


def flush(x: Array) -> Array:
    """``.ftz``: subnormal numbers become zeros of the same sign; bf16 has the exponent range of float32."""
    small = np.abs(x) < _SMALLEST[x.dtype]
    return np.where(small, x * 0, x) if np.count_nonzero(small) else x


def saturated(r: Array) -> Array:
    """``.sat``: clamped to [0, 1], with +0 for -0 and NaN."""
    return np.where(r > 0, np.minimum(r, 1), 0).astype(r.dtype, copy=False)


def relu(r: Array) -> Array:
    """``.relu``: 0 for negative numbers and -0."""
    return np.where(r <= 0, 0, r).astype(r.dtype, copy=False)


def _loaded(match: Match, kind: Type) -> Callable[[Array], Array]:
    """:func:`load`, with ``.ftz`` of the instruction."""
    read = load(kind)
    if not match.modes.flushes:
        return read
    return lambda a: flush(read(a))


def _stored(match: Match, kind: Type) -> Callable[[Array], Array]:
    """:func:`store`, with ``.ftz``, ``.sat`` and ``.relu`` of the instruction."""
    write = store(kind)
    modes = match.modes
    rules = ((modes.flushes, flush), (modes.saturates, saturated), (modes.rectifies, relu))
    steps: list[Callable[[Array], Array]] = [step for applies, step in rules if applies]
    if not steps:
        return write
    element = kind.element
    if element.kind == "f":
        steps.insert(0, lambda r: r.astype(element, copy=False))

    def finish(r: Array) -> Array:
        for step in steps:
            r = step(r)
        return write(r)

    return finish


# ---------------------------------------------------------------- rounding

_ROUNDINGS = (".rn", ".rna", ".rz", ".rm", ".rp")


def rounding_of(match: Match) -> str:
    """The rounding modifier of an instruction; ``.rn`` if it has none."""
    return next((m for m in match.modifiers if m in _ROUNDINGS), ".rn")


def directed(r: Array, error: Array, rounding: str) -> Array:
    """*r*, which was rounded to nearest, corrected for ``.rz``, ``.rm`` or ``.rp``.

    *error* has the sign of the exact result minus *r*.
    """
    if rounding == ".rz":
        return np.where((r > 0) & (error < 0) | (r < 0) & (error > 0), np.nextafter(r, r.dtype.type(0)), r)
    if rounding == ".rm":
        return np.where(error < 0, np.nextafter(r, r.dtype.type(-np.inf)), r)
    return np.where(error > 0, np.nextafter(r, r.dtype.type(np.inf)), r)


def _sum(p: Array, c: Array) -> tuple[Array, Array]:
    """p + c in float64, and its exact error (Knuth's TwoSum)."""
    s = p + c
    t = s - p
    return s, (p - (s - t)) + (c - t)


def _odd(p: Array, c: Array) -> Array:
    """p + c in float64, rounded to odd, so that rounding it to fewer than 52 bits rounds the exact sum once."""
    s, error = _sum(p, c)
    pattern = s.view(np.int64)
    inexact = ((error > 0) | (error < 0)) & (pattern & 1 == 0)
    odd: Array = np.where(inexact, pattern + np.where((error > 0) == (s > 0), 1, -1), pattern)
    return odd.view(_F64)


# Arrays without dimensions, because numpy is slow to convert scalars.
_BELOW, _ABOVE = np.array(1 - 2.0**-52), np.array(1 + 2.0**-52)
_LOW_HALF, _TIE = np.array(0xFFFF, dtype=np.uint32), np.array(0x8000, dtype=np.uint32)


def _fma(kind: Type) -> Compute:
    """x * y + z of f32, f16 or bf16 values, rounded to nearest once: here, or when the result is stored."""
    half = kind.name == "bf16"
    brief = _F32 if half else kind.element

    def fma(x: Array, y: Array, z: Array) -> Array:
        p, c = x.astype(_F64) * y.astype(_F64), z.astype(_F64)  # the product is exact
        s = p + c
        if half:  # rounding to float32 first gives the same bf16, unless the float32 is a tie
            near: Array = s.astype(brief)
            close = near.view(np.uint32) & _LOW_HALF == _TIE
        else:
            near = (s * _ABOVE).astype(brief)
            close = (s * _BELOW).astype(brief) != near  # close to half-way between two numbers (or a NaN)
        return _odd(p, c) if np.count_nonzero(close) else near

    return fma


def _sum_directed(p: Array, c: Array, rounding: str) -> Array:
    """p + c of float64 arrays as float32, in a directed rounding mode."""
    s, error = _sum(p, c)
    r = _odd(p, c).astype(_F32)
    r = directed(r, (s - r.astype(_F64)) + error, rounding)
    if rounding == ".rm":  # an exact difference of zero is -0
        r = np.where((s == 0) & (np.signbit(p) | np.signbit(c)), -_F32.type(0), r)
    return r


def _div32_directed(x: Array, y: Array, rounding: str) -> Array:
    r = x / y
    error = x.astype(_F64) - r.astype(_F64) * y.astype(_F64)
    return directed(r, np.where(y < 0, -error, error), rounding)


def _sqrt32_directed(x: Array, rounding: str) -> Array:
    r = np.sqrt(x)
    root = r.astype(_F64)
    return directed(r, x.astype(_F64) - root * root, rounding)


_DIRECTED32: dict[str, Compute] = {
    "add": lambda x, y, rounding: _sum_directed(x.astype(_F64), y.astype(_F64), rounding),
    "sub": lambda x, y, rounding: _sum_directed(x.astype(_F64), -y.astype(_F64), rounding),
    "mul": lambda x, y, rounding: directed(x * y, x.astype(_F64) * y.astype(_F64) - (x * y), rounding),
    "fma": lambda x, y, z, rounding: _sum_directed(x.astype(_F64) * y.astype(_F64), z.astype(_F64), rounding),
    "div": _div32_directed,
    "rcp": lambda x, rounding: _div32_directed(np.ones_like(x), x, rounding),
    "sqrt": _sqrt32_directed,
}
_NEAREST: dict[str, Compute] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "rcp": lambda x: x.dtype.type(1) / x,
    "sqrt": np.sqrt,
}
"""Operations that numpy itself rounds to nearest in float16, float32 and float64."""


# ---------------------------------------------------------------- f64: exact, in integers


def _integral(x: float) -> tuple[int, int]:
    """(n, k) such that x = n * 2**k."""
    fraction, exponent = math.frexp(x)
    return int(fraction * 2.0**53), exponent - 53


def _rounded(n: int, k: int, rounding: str) -> float:
    """n * 2**k rounded to a double; the lowest bit of an n of more than 54 bits may be a sticky bit."""
    magnitude = abs(n)
    dropped = max(magnitude.bit_length() - 53, -1074 - k)
    if dropped > 0:
        rest = magnitude & ((1 << dropped) - 1)
        magnitude >>= dropped
        half = 1 << (dropped - 1)
        if rounding == ".rn":
            magnitude += rest > half or (rest == half and magnitude & 1)
        elif rounding != ".rz":
            magnitude += rest > 0 and (n < 0) == (rounding == ".rm")
        k += dropped
    try:
        result = math.ldexp(magnitude, k)
    except OverflowError:
        outwards = rounding == ".rn" or (rounding != ".rz" and (n < 0) == (rounding == ".rm"))
        result = math.inf if outwards else math.ldexp(2**53 - 1, 971)
    return -result if n < 0 else result


def _exact_fma(x: float, y: float, z: float, rounding: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return float(np.float64(x) * np.float64(y) + np.float64(z))
    (a, i), (b, j), (c, k) = _integral(x), _integral(y), _integral(z)
    low = min(i + j, k)
    n = (a * b << (i + j - low)) + (c << (k - low))
    if n == 0:
        signs = math.copysign(1, x) * math.copysign(1, y), math.copysign(1, z)
        return -0.0 if max(signs) < 0 or (rounding == ".rm" and min(signs) < 0) else 0.0
    return _rounded(n, low, rounding)


def _exact_div(x: float, y: float, rounding: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y) and x and y):
        return float(np.float64(x) / np.float64(y))
    (a, i), (b, j) = _integral(x), _integral(y)
    n = (abs(a) << 113) // abs(b)  # enough bits to distinguish a quotient of 53-bit numbers from a tie
    return _rounded(-n if (a < 0) != (b < 0) else n, i - j - 113, rounding)


def _exact_sqrt(x: float, rounding: str) -> float:
    if not (math.isfinite(x) and x > 0):
        return float(np.sqrt(np.float64(x)))
    a, i = _integral(x)
    a, i = (a << 1, i - 1) if i % 2 else (a, i)
    a, i = a << 64, i - 64
    root = math.isqrt(a)
    return _rounded(root << 1 | (root * root != a), i // 2 - 1, rounding)


def _exact_mul(x: float, y: float, rounding: str) -> float:
    # Adding a zero with the sign of the product does not change the product.
    return _exact_fma(x, y, math.copysign(0.0, math.copysign(1, x) * math.copysign(1, y)), rounding)


_EXACT64: dict[str, Callable[..., float]] = {
    "add": lambda x, y, rounding: _exact_fma(x, 1.0, y, rounding),
    "sub": lambda x, y, rounding: _exact_fma(x, 1.0, -y, rounding),
    "mul": _exact_mul,
    "fma": _exact_fma,
    "div": _exact_div,
    "rcp": lambda x, rounding: _exact_div(1.0, x, rounding),
    "sqrt": _exact_sqrt,
}


def _each64(name: str, rounding: str) -> Compute:
    """The exact operation *name* on float64 arrays, one element after another."""
    exact = _EXACT64[name]
    return lambda *values: np.array(
        [exact(*row, rounding) for row in zip(*(v.tolist() for v in values), strict=True)], dtype=_F64
    )


# ---------------------------------------------------------------- arithmetic


def _rule(name: str, kind: Type, rounding: str) -> Compute:
    """The operation *name* on values of a type, rounded such that storing its result rounds correctly.

    Raises :class:`Unsupported` for a directed rounding of f16 or bf16.
    """
    if rounding == ".rn" and name in _NEAREST:
        return _NEAREST[name]
    if kind.name == "f64":
        return _each64(name, rounding)
    if rounding == ".rn":
        return _fma(kind)
    if kind.name != "f32":
        raise Unsupported(f"{rounding} of .{kind.name}")
    apply = _DIRECTED32[name]
    return lambda *values: apply(*values, rounding)


def _arithmetic(name: str) -> Factory:
    def make(match: Match) -> Compute:
        kind = types(match.modifiers)[0]
        rule, read, write = _rule(name, kind, rounding_of(match)), _loaded(match, kind), _stored(match, kind)
        if name in ("rcp", "sqrt"):
            return lambda a: write(rule(read(a)))
        if name != "fma":
            return lambda a, b: write(rule(read(a), read(b)))
        if match.modes.zero_out_of_bounds:
            return _out_of_bounds(lambda a, b, c: write(rule(read(a), read(b), read(c))))
        return lambda a, b, c: write(rule(read(a), read(b), read(c)))

    return make


def _out_of_bounds(fma: Compute) -> Compute:
    """``.oob``: +0 where a factor is the OOB-NaN, 0x7ff7 of either sign (as an H200; 9.7.4.4 defines no pattern)."""

    def compute(a: Array, b: Array, c: Array) -> Array:
        x, y, d = a.view(np.uint16), b.view(np.uint16), fma(a, b, c).view(np.uint16)
        outside = (x & 0x7FFF == 0x7FF7) | (y & 0x7FFF == 0x7FF7)
        return np.where(outside, np.uint16(0), d).view(a.dtype)

    return compute


def _mixed(name: str) -> Factory:
    """Mixed precision: the last source is an f32, the others are half-precision."""

    def make(match: Match) -> Compute:
        to, half = types(match.modifiers)
        rule, write = _rule(name, to, rounding_of(match)), _stored(match, to)

        def widen(a: Array) -> Array:
            return decode(half.name, a)

        if name == "fma":
            return lambda a, b, c: write(rule(widen(a), widen(b), c.view(_F32)))
        return lambda a, c: write(rule(widen(a), c.view(_F32)))

    return make


def _small(name: str) -> Factory:
    """Four floats of 8 bits or less (9.7.6 of PTX ISA 9.4): c has the type of the result, but in ``mul`` its own.

    The manual leaves the sign of a NaN open: that of an overflow is kept, and any other NaN is positive.
    """

    def make(match: Match) -> Compute:
        to, *others = types(match.modifiers)
        kinds = others if name == "mul" else [*others, to]
        reads, saturate = [load(kind) for kind in kinds], match.modes.saturates_finite

        def compute(*registers: Array) -> Array:
            x, *rest = (read(a).astype(_F64) for read, a in zip(reads, registers, strict=True))
            if name in ("mul", "fma"):
                x = x * rest.pop(0)  # exact
            for addend in rest:  # exact as well, unless it overflows or one of both is negligible
                x = x - addend if name == "sub" else x + addend
            return encode(to.name, x, saturate=saturate).view(to.register)

        return compute

    return make


def _div(match: Match) -> Compute:
    if not match.modes.approximate:
        return _arithmetic("div")(match)
    kind = types(match.modifiers)[0]
    read, write = _loaded(match, kind), _stored(match, kind)

    def divide(a: Array, b: Array) -> Array:
        x, y = read(a), read(b)
        # The reciprocal of a large number would be subnormal: the manual specifies 0 instead.
        large = (np.abs(y) > 2.0**126) & np.isfinite(y)
        return write(x * np.where(large, np.copysign(_F32.type(0), y), 1) / np.where(large, 1, y))

    return divide


# ---------------------------------------------------------------- signs, classes, extremes


def _signs(kind: Type) -> Array:
    """A mask of the sign bits of a register."""
    bit = 1 << (kind.width - 1)
    return np.array(sum(bit << kind.width * i for i in range(kind.count)), dtype=kind.register)


def _neg(match: Match) -> Compute:
    kind = types(match.modifiers)[0]
    signs, read, write = _signs(kind), _loaded(match, kind), _stored(match, kind)
    if kind.name == "f64":
        return lambda a: np.where(np.isnan(a.view(_F64)), a | _QUIET, a ^ signs)
    return lambda a: write(-read(a))


def _abs(match: Match) -> Compute:
    kind = types(match.modifiers)[0]
    rest, read, write = ~_signs(kind), _loaded(match, kind), _stored(match, kind)
    if kind.name == "f64":
        return lambda a: np.where(np.isnan(a.view(_F64)), a | _QUIET, a & rest)
    return lambda a: write(np.abs(read(a)))


def _copysign(match: Match) -> Compute:
    signs = _signs(types(match.modifiers)[0])
    rest = ~signs
    return lambda a, b: (a & signs) | (b & rest)


_CLASSES: dict[str, Callable[[Array], Any]] = {
    ".finite": np.isfinite,
    ".infinite": np.isinf,
    ".number": lambda x: ~np.isnan(x),
    ".notanumber": np.isnan,
    ".normal": lambda x: np.isfinite(x) & ~_subnormal(x),
    ".subnormal": lambda x: _subnormal(x),
}


def _subnormal(x: Array) -> Array:
    found: Array = (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0)
    return found


def _testp(match: Match) -> Compute:
    element, test = types(match.modifiers)[0].element, _CLASSES[match.binding["op"]]
    return lambda a: test(a.view(element))


def _extreme(largest: bool) -> Factory:
    """``max`` and ``min`` of two or three values; -0 is less than +0."""

    def make(match: Match) -> Compute:
        kind, modes = types(match.modifiers)[0], match.modes
        read, write = _loaded(match, kind), _stored(match, kind)
        choose: Any = np.fmax if largest else np.fmin
        if modes.propagates_nan:
            choose = np.maximum if largest else np.minimum

        def extreme(x: Array, y: Array) -> Array:
            r: Array = choose(x, y)
            if np.count_nonzero(r) < r.size:
                zeros = x + y if largest else -(-x - y)
                r = np.where((x == 0) & (y == 0), zeros, r)
            return r

        if modes.multiplies_signs:
            signs = _signs(kind)

            def signed(a: Array, b: Array) -> Array:
                r = extreme(np.abs(read(a)), np.abs(read(b)))
                sign = read((a ^ b) & signs | write(np.ones_like(r)))
                return write(np.where(np.isnan(r), r, np.copysign(r, sign)))

            return signed
        if modes.absolute:
            plain = read

            def read(a: Array) -> Array:
                return np.abs(plain(a))

        if "c" in match.named:
            return lambda a, b, c: write(extreme(extreme(read(a), read(b)), read(c)))
        return lambda a, b: write(extreme(read(a), read(b)))

    return make


_ORDERED: dict[str, Compute] = {
    "eq": operator.eq, "ne": lambda x, y: (x < y) | (x > y), "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
    "equ": lambda x, y: ~((x < y) | (x > y)), "neu": operator.ne, "ltu": lambda x, y: ~(x >= y),
    "leu": lambda x, y: ~(x > y), "gtu": lambda x, y: ~(x <= y), "geu": lambda x, y: ~(x < y),
    "num": lambda x, y: ~(np.isnan(x) | np.isnan(y)), "nan": lambda x, y: np.isnan(x) | np.isnan(y),
}  # fmt: skip
"""The comparisons of 9.3.1.2. Those with a ``u`` are true if an operand is NaN, the others are false."""


def comparison(match: Match) -> Compute:
    """The comparison of ``set`` or ``setp``: a function (a, b) -> one Boolean per element."""
    compare = _ORDERED[match.relation]
    read = _loaded(match, types(match.modifiers)[-1])
    return lambda a, b: compare(read(a), read(b))


# ---------------------------------------------------------------- approximations


def _approximate(function: Callable[[Array], Any]) -> Factory:
    """*function* in double precision, rounded to the type of the instruction."""

    def make(match: Match) -> Compute:
        kind = types(match.modifiers)[0]
        read, write = _loaded(match, kind), _stored(match, kind)
        if kind.name == "f64":
            return lambda a: write(function(read(a)))
        return lambda a: write(function(read(a).astype(_F64)).astype(_F32))

    return make


def _periodic(function: Callable[[Array], Any]) -> Factory:
    """The sine or cosine; with ``.2pi``, of an argument in turns."""
    plain = _approximate(function)
    turns = _approximate(lambda x: function(2 * np.pi * (x - np.round(x))))
    return lambda match: (turns if match.modes.in_turns else plain)(match)


def _upper_word(function: Callable[[Array], Any]) -> Factory:
    """The f64 approximations, which read and write only the upper 32 bits (9.7.3.14, 9.7.3.17)."""
    upper = np.array(0xFFFFFFFF00000000, dtype=np.uint64)
    smallest = 2.0**-1022

    def flushed(x: Array) -> Array:
        return np.where(np.abs(x) < smallest, np.copysign(0.0, x), x)

    def compute(a: Array) -> Array:
        r = flushed(function(flushed((a & upper).view(_F64))))
        return np.where(np.isnan(r), np.uint64(0x7FFFFFFF00000000), r.view(np.uint64) & upper)

    return lambda match: compute


FLOATS: dict[str, Factory] = {
    "testp": _testp,
    "copysign": _copysign,
    "add.float": _arithmetic("add"),
    "sub.float": _arithmetic("sub"),
    "mul.float": _arithmetic("mul"),
    "fma.float": _arithmetic("fma"),
    "mad.float": _arithmetic("fma"),
    "div.float": _div,
    "abs.float": _abs,
    "neg.float": _neg,
    "min.float": _extreme(largest=False),
    "max.float": _extreme(largest=True),
    "min.float.3": _extreme(largest=False),
    "max.float.3": _extreme(largest=True),
    "rcp": _arithmetic("rcp"),
    "rcp.approx.f64": _upper_word(lambda x: 1 / x),
    "sqrt": _arithmetic("sqrt"),
    "rsqrt": _approximate(lambda x: 1 / np.sqrt(x)),
    "rsqrt.ftz.f64": _upper_word(lambda x: 1 / np.sqrt(x)),
    "sin": _periodic(np.sin),
    "cos": _periodic(np.cos),
    "lg2": _approximate(np.log2),
    "ex2.float": _approximate(np.exp2),
    "tanh.float": _approximate(np.tanh),
    "add.mixed": _mixed("add"),
    "sub.mixed": _mixed("sub"),
    "fma.mixed": _mixed("fma"),
    "add.f8x4": _small("add"),
    "sub.f8x4": _small("sub"),
    "mul.f8x4": _small("mul"),
    "fma.f8x4": _small("fma"),
    "add.half": _arithmetic("add"),
    "sub.half": _arithmetic("sub"),
    "mul.half": _arithmetic("mul"),
    "fma.half": _arithmetic("fma"),
    "neg.half": _neg,
    "abs.half": _abs,
    "min.half": _extreme(largest=False),
    "max.half": _extreme(largest=True),
    "tanh.half": _approximate(np.tanh),
    "ex2.half": _approximate(np.exp2),
}
"""Form name -> factory, as in :mod:`tclint.executor.lanes`."""
