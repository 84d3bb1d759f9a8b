"""Conversions over the lanes of a warp: ``cvt`` (9.7.9.21) and ``cvt.pack`` (9.7.9.22).

Every conversion rounds once. If a source register is wider than the type, its low bits are used (9.4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tclint.executor.floats import canonical, directed, flush, load, relu, rounding_of, saturated, store
from tclint.executor.formats import REGISTERS, Array, Type, decode, encode, types
from tclint.isa.forms import Match

__all__ = ["CONVERTS"]

Compute = Callable[..., Any]
Factory = Callable[[Match], Compute]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_INTEGRAL: dict[str, Any] = {".rni": np.rint, ".rzi": np.trunc, ".rmi": np.floor, ".rpi": np.ceil}


def _integral(match: Match) -> Any:
    """The numpy function that rounds to an integral value as the modifiers specify; None without such a modifier."""
    return next((_INTEGRAL[m] for m in match.modifiers if m in _INTEGRAL), None)


def _source(kind: Type) -> Callable[[Array], Array]:
    """A function that decodes the elements, lowest first, of registers that may be wider than *kind*."""
    whole = kind.register
    if kind.name == "f16":
        return lambda a: decode("f16", a.astype(whole, copy=False).view(np.uint16))
    read = load(kind)
    return lambda a: read(a.astype(whole, copy=False))


# ---------------------------------------------------------------- integers


def _int(match: Match) -> Compute:
    """Extends by the signedness of the source, truncates, or with ``.sat`` clamps to the destination's range."""
    to, of = types(match.modifiers)
    target, element, whole = to.register, of.element, of.register
    if match.modes.saturates:
        limits, range_ = np.iinfo(element), np.iinfo(to.element)
        low, high = max(limits.min, range_.min), min(limits.max, range_.max)
        return lambda a: np.clip(a.astype(whole, copy=False).view(element), low, high).astype(target)
    if to.width <= of.width or not of.signed:
        narrow = REGISTERS[min(to.width, of.width)]
        return lambda a: a.astype(narrow, copy=False).astype(target, copy=False)
    return lambda a: a.astype(whole, copy=False).view(element).astype(target)


def _float_to_int(match: Match) -> Compute:
    """Rounds to an integral value and clamps it; a NaN gives 0, or the highest bit if either type has 64 bits."""
    to, of = types(match.modifiers)
    read, integral = _source(of), _integral(match)
    target = to.register
    low, above = float(np.iinfo(to.element).min), 2.0 ** (to.width - to.signed)
    nan = 1 << (to.width - 1) if 64 in (to.width, of.width) else 0
    wide = np.dtype(np.int64 if to.signed else np.uint64)
    most, bad = target.type((1 << to.width - to.signed) - 1), target.type(nan)

    def convert(a: Array) -> Array:
        x = read(a)
        if match.modes.flushes:
            x = flush(x)
        whole = np.maximum(integral(x.astype(_F64, copy=False)), low)
        number = np.where(whole >= above, most, np.where(whole < above, whole, 0).astype(wide).astype(target))
        return np.where(np.isnan(whole), bad, number)

    return convert


def _odd(number: Array) -> Array:
    """64-bit integers rounded to odd as float64, so that rounding to a narrower format does not round twice."""
    bits = number.view(np.uint64)
    large = np.abs(number) >> 53 if number.dtype.kind == "i" else number >> 53
    low = bits & 0x7FF
    sticky = np.where((large != 0) & (low != 0), (bits - low) | 0x800, bits)
    odd: Array = sticky.view(number.dtype).astype(_F64)
    return odd


def _int_to_float(match: Match) -> Compute:
    to, of = types(match.modifiers)
    element, whole, rounding = of.element, of.register, rounding_of(match)
    limit = saturated if match.modes.saturates else None
    if to.name == "f64":
        if rounding != ".rn" and of.width == 64:
            return _int_to_double(of, rounding, limit)
        write = _narrow(to, ".rn", False)
        return lambda a: write(_limited(a.astype(whole, copy=False).view(element).astype(_F64), limit))
    write = _narrow(to, rounding, False)

    def convert(a: Array) -> Array:
        number = a.astype(whole, copy=False).view(element)
        return write(_limited(_odd(number) if whole.itemsize == 8 else number.astype(_F64), limit))

    return convert


def _limited(x: Array, limit: Callable[[Array], Array] | None) -> Array:
    return limit(x) if limit else x


def _int_to_double(of: Type, rounding: str, limit: Callable[[Array], Array] | None) -> Compute:
    """64-bit integers to f64 in a directed rounding mode; narrower integers are exact in f64."""

    def convert(a: Array) -> Array:
        number = a.view(of.element)
        r = number.astype(_F64)
        # The exact error of the double, computed with Python integers.
        error = np.array([n - int(x) for n, x in zip(number.tolist(), r.tolist(), strict=True)], dtype=_F64)
        return _limited(directed(r, error, rounding), limit).view(np.uint64)

    return convert


# ---------------------------------------------------------------- floating point


def _narrow(to: Type, rounding: str, saturate: bool) -> Callable[[Array], Array]:
    """A function that rounds float32 or float64 values to the type *to* and packs them, the first element lowest."""
    whole = to.register
    if to.name == "f64":
        return lambda x: x.astype(_F64, copy=False).view(whole)
    if to.name == "f32":

        def single(x: Array) -> Array:
            r = x.astype(_F32, copy=False)
            if rounding != ".rn" and r is not x:
                r = directed(r, x - r, rounding)
            return r.view(whole)

        return single
    name = to.name
    if to.width == 4:

        def nibbles(x: Array) -> Array:
            codes = encode(name, x, rounding, saturate=saturate).reshape(-1, to.count).astype(np.uint32)
            packed = sum(codes[:, i] << np.uint32(4 * i) for i in range(to.count))
            return np.asarray(packed, dtype=whole)

        return nibbles
    return lambda x: encode(name, x, rounding, saturate=saturate).view(whole)


def _steps(match: Match, of: Type) -> list[Callable[[Array], Array]]:
    """The functions to apply to the values before rounding; all of them commute with it."""
    steps: list[Callable[[Array], Array]] = []
    if match.modes.flushes and of.name in ("f32", "bf16"):  # an f16 is never subnormal as f32
        steps.append(flush)
    if match.modes.saturates:
        steps.append(saturated)
    if match.modes.rectifies:
        steps.append(relu)
    integral = _integral(match)
    return [*steps, integral] if integral else steps


def _pairs(low: Array, high: Array) -> Array:
    """The f32 values of two registers, interleaved by lane."""
    both = np.empty((32, 2), dtype=np.uint32)
    both[:, 0] = low
    both[:, 1] = high
    values: Array = both.view(_F32).reshape(-1)
    return values


def _factors(scale: Array) -> Array:
    """The two ``ue8m0`` scale factors of each lane as float64, which makes products and quotients exact."""
    return decode("ue8m0", scale.view(np.uint8)).astype(_F64)


_MANTISSAS = {"f16": 10, "bf16": 7}
"""The bits of the mantissa of a number of 16 bits."""


def _shortened(a: Array, name: str) -> Array:
    """The quiet NaNs of 16 bits with the signs, and the upper bits of the payloads, of those of f64."""
    bits = _MANTISSAS[name]
    upper = (a.view(np.uint64) >> np.uint64(52 - bits)).astype(np.uint16) & ((1 << bits) - 1)
    sign = (a.view(np.uint64) >> np.uint64(48)).astype(np.uint16) & 0x8000
    found: Array = sign | upper | (0x7FFF & -1 << bits - 1)
    return found


def _float(match: Match) -> Compute:
    """Converts one register, or two f32 registers: *a* becomes the upper element, *b* the lower one."""
    to, of = types(match.modifiers)
    read, steps = _source(of), _steps(match, of)
    write = _narrow(to, rounding_of(match), match.modes.saturates_finite)
    if to.name == "f32" and (of.name == "f16" or _integral(match)):
        write = store(to)  # canonicalises NaNs; one from f64 or bf16 keeps its payload
    elif match.modes.flushes and (to.name, of.name) == ("f64", "f32"):
        steps.append(canonical)
    elif match.modes.flushes and of.name == "f64":
        rounded = write

        def write(x: Array) -> Array:
            return flush(rounded(x).view(_F32)).view(to.register)

    def finish(x: Array) -> Array:
        for step in steps:
            x = step(x)
        return write(x)

    if of.name == "f64" and to.name in _MANTISSAS:
        return lambda a: np.where(np.isnan(read(a)), _shortened(a, to.name), finish(read(a)))
    scaled = "scale" in match.named
    if "b" in match.named:
        if scaled:
            return lambda a, b, scale: finish(_pairs(b, a) / _factors(scale))
        return lambda a, b: finish(_pairs(b, a))
    if scaled and to.name == "s2f6":
        return lambda a, scale: finish(read(a) / _factors(scale))
    if scaled:
        return lambda a, scale: finish(read(a) * _factors(scale))
    return lambda a: finish(read(a))


def _cvt(match: Match) -> Compute:
    to, of = types(match.modifiers)
    if of.integer:
        return _int(match) if to.integer else _int_to_float(match)
    return _float_to_int(match) if to.integer else _float(match)


def _pack(match: Match) -> Compute:
    """Clamps a and b to a narrower type and packs them, a above b, with the low bits of c, if present, above both."""
    narrow = types(match.modifiers)[0]
    width, top = narrow.width, (1 << narrow.width - narrow.signed) - 1
    low, mask = -(top + 1) if narrow.signed else 0, (1 << narrow.width) - 1

    def pack(a: Array, b: Array, *c: Array) -> Array:
        upper, lower = (
            np.minimum(np.maximum(v.view(np.int32), low), top).view(np.uint32) & mask for v in (a, b)
        )
        d: Array = upper << width | lower
        return d | c[0] << 2 * width if c else d

    return pack


CONVERTS: dict[str, Factory] = {
    "cvt.int": _cvt,
    "cvt.float.int": _cvt,
    "cvt.int.float": _cvt,
    "cvt.float": _cvt,
    "cvt.f32.bf16": _cvt,
    "cvt.bf16.f32": _cvt,
    "cvt.bf16": _cvt,
    "cvt.x2.f32": _cvt,
    "cvt.tf32.f32": _cvt,
    "cvt.f8x2": _cvt,
    "cvt.f6x2": _cvt,
    "cvt.fxx2.x2": _cvt,
    "cvt.bf16x2.fxx2": _cvt,
    "cvt.ue8m0x2": _cvt,
    "cvt.s2f6x2": _cvt,
    "cvt.pack": _pack,
}
"""Form name -> factory, as in :mod:`tclint.executor.lanes`."""
