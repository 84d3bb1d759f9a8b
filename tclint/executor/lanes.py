"""Pure scalar instructions, computed for all lanes of a warp at once.

The factory of a form takes the :class:`Match` of an instruction and returns the function that computes it: from the
source operands, in order, to the destination, or to both of ``d|p``. Operands are registers of a warp, contiguous
arrays of 32 elements with the types of :data:`~tclint.executor.formats.REGISTERS` and the widths that :func:`sources`
returns; only ``cvt`` and ``mov`` accept other widths (9.4.1). The result has the width of the instruction's type;
:func:`signed` decides how it is extended to a wider destination register. The functions are stateless and do not modify
their arguments.

Integers, bits, comparisons and moves are implemented here; rare variants use :mod:`tclint.isa.semantics` for one lane
after another. The ISA leaves integer division by zero open: here it and its remainder give all ones (9.7.1.8, 9.7.1.9).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tclint.executor import converts, floats
from tclint.executor.errors import Unsupported
from tclint.executor.formats import REGISTERS, Array, Type, types
from tclint.isa.forms import Match
from tclint.isa.semantics import COMPUTE

__all__ = ["LANES", "carry", "signed", "sources"]

Compute = Callable[..., Any]
Factory = Callable[[Match], Compute]

_U8, _U32, _U64, _OBJECT = REGISTERS[8], REGISTERS[32], REGISTERS[64], REGISTERS[128]


# ---------------------------------------------------------------- operands


def sources(match: Match) -> tuple[np.dtype[Any], ...]:
    """The numpy type of each source operand, in order; for a vector, that of an element.

    The elements of ``mov.pack`` can have any width, because only the operand determines their number.
    """
    kinds = types(match.modifiers)
    names = [o.name for o in match.syntax.operands if match.named.get(o.name) in match.reads]
    return tuple(_source(match, name, kinds) for name in names)


_AMOUNTS = {"shl": "b", "shr": "b", "bfe": "bc", "bfi": "cn"}
_PREDICATES = {
    "c": ("selp", "setp.int", "setp.float", "setp.half", "setp.half2", "set", "set.half"),
    "q": ("lop3.bool",),
}


def _source(match: Match, name: str, kinds: tuple[Type, ...]) -> np.dtype[Any]:
    form = match.form.name
    if form in _PREDICATES.get(name, ()):
        return REGISTERS[1]
    if name in _AMOUNTS.get(form, "") or name == "immLut":
        return _U32
    if name == "scale":
        return REGISTERS[16]
    if form == "mad.int" and name == "c" and match.modes.widens:
        return REGISTERS[2 * kinds[0].width]
    if (form == "slct" and name != "c") or (form.endswith(".mixed") and name == "c"):
        return kinds[0].register
    if form.endswith(".f8x4"):
        return kinds[0 if name == "c" and form != "mul.f8x4" else 1 if name == "a" else 2].register
    return kinds[-1].register


def signed(match: Match) -> bool:
    """Whether a result is sign-extended, rather than zero-extended, to a wider destination register (9.4.1)."""
    return types(match.modifiers)[0].signed and match.form.name not in ("cvt.pack", "bfind")


def _typeless(operation: Compute) -> Factory:
    """A factory that returns the same operation for every type, because signedness does not matter."""
    return lambda match: operation


def _lane_by_lane(match: Match) -> Compute:
    """The slow implementation: :mod:`tclint.isa.semantics` for one lane after another."""
    compute, binding = COMPUTE[match.form.compute], match.binding
    dtype = types(match.modifiers)[0].register

    def run(*values: Array) -> Array:
        return np.array(
            [compute(binding, *row) for row in zip(*(v.tolist() for v in values), strict=True)], dtype=dtype
        )

    return run


def _viewed(operation: Compute, kind: Type) -> Compute:
    """*operation* on the elements of two operands, as the signed or unsigned numbers of *kind*."""
    element, whole = kind.element, kind.register
    if element == whole:
        return operation
    return lambda a, b: operation(a.view(element), b.view(element)).view(whole)


# ---------------------------------------------------------------- integer arithmetic, 9.7.1


def _sum(operation: Compute) -> Factory:
    def make(match: Match) -> Compute:
        if match.modes.saturates:
            return _lane_by_lane(match)
        kind = types(match.modifiers)[0]
        return operation if kind.count == 1 else _viewed(operation, kind)

    return make


def _extreme(operation: Compute) -> Factory:
    def make(match: Match) -> Compute:
        kind = types(match.modifiers)[0]
        if match.modes.rectifies:
            element = kind.element
            return lambda a, b: np.maximum(operation(a.view(element), b.view(element)), 0).view(a.dtype)
        return _viewed(operation, kind)

    return make


def _product(kind: Type, mode: str) -> Compute:
    """The low half (``.lo``), the high half (``.hi``) or the whole (``.wide``) of a product."""
    if mode == ".lo":
        return operator.mul
    width, element, narrow = kind.width, kind.element, kind.register
    if width == 64:

        def high64(a: Array, b: Array) -> Array:
            product = a.view(element).astype(_OBJECT) * b.view(element).astype(_OBJECT)
            high: Array = (product >> 64 & 0xFFFFFFFFFFFFFFFF).astype(_U64)
            return high

        return high64
    wide = np.dtype(f"{element.kind}{width // 4}")
    if mode == ".wide":
        result = REGISTERS[2 * width]
        if not kind.signed:
            return lambda a, b: np.multiply(a, b, dtype=wide)
        return lambda a, b: np.multiply(a.view(element), b.view(element), dtype=wide).view(result)
    return lambda a, b: (np.multiply(a.view(element), b.view(element), dtype=wide) >> width).astype(narrow)


def _mode(match: Match) -> str:
    return next(m for m in match.modifiers if m in (".lo", ".hi", ".wide"))


def _mul(match: Match) -> Compute:
    return _product(types(match.modifiers)[0], _mode(match))


def _mad(match: Match) -> Compute:
    if match.modes.saturates:
        return _lane_by_lane(match)
    product = _mul(match)
    return lambda a, b, c: product(a, b) + c


def _division(remainder: bool) -> Factory:
    """Division or remainder, rounded towards zero."""

    def make(match: Match) -> Compute:
        kind = types(match.modifiers)[0]
        element, whole = kind.element, kind.register
        ones = whole.type((1 << kind.width) - 1)

        def divide(a: Array, b: Array) -> Array:
            x, y = a.view(element), b.view(element)
            rest = np.fmod(x, y)
            result: Array = rest if remainder else (x - rest) // y
            return np.where(b == 0, ones, result.view(whole))

        return divide

    return make


def _abs(match: Match) -> Compute:
    kind = types(match.modifiers)[0]
    return lambda a: np.abs(a.view(kind.element)).view(kind.register)


def _neg(match: Match) -> Compute:
    kind = types(match.modifiers)[0]
    if kind.count == 1:
        return operator.neg
    return lambda a: (-a.view(kind.element)).view(kind.register)


def _length(a: Array) -> Array:
    """The bit length of each element, as int32: 0 for 0, else the position of the highest one bit plus 1."""
    if a.dtype == _U64:
        # Clearing the bit below the highest one prevents float64 from rounding up to the next power of two.
        a = a & ~(a >> 1)
    length: Array = np.frexp(a.astype(np.float64))[1]
    return length


def _clz(match: Match) -> Compute:
    width = types(match.modifiers)[0].width
    return lambda a: (width - _length(a)).view(_U32)


def _bfind(match: Match) -> Compute:
    kind = types(match.modifiers)[0]
    width, element = kind.width, kind.element
    shift = match.modes.counts_shift

    def find(a: Array) -> Array:
        if kind.signed:
            number = a.view(element)
            a = (number ^ (number >> (width - 1))).view(a.dtype)
        length = _length(a)
        found = np.where(length == 0, -1, width - length) if shift else length - 1
        return found.astype(np.int32, copy=False).view(_U32)

    return find


_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], dtype=np.uint8)


def _brev(match: Match) -> Compute:
    whole = types(match.modifiers)[0].register
    return lambda a: _REVERSED[a.view(_U8)].view(whole).byteswap()


_MASKS = {
    dtype: np.array([(1 << min(n, 8 * dtype.itemsize)) - 1 for n in range(256)], dtype=dtype)
    for dtype in (_U32, _U64)
}
"""Masks of the low n bits, for n up to 255."""


def _bfe(match: Match) -> Compute:
    kind = types(match.modifiers)[0]
    width, element, whole = kind.width, kind.element, kind.register
    masks = _MASKS[whole]

    def unsigned(a: Array, b: Array, c: Array) -> Array:
        field: Array = (a >> (b & 255)) & masks[c & 255]
        return field

    def sign_extended(a: Array, b: Array, c: Array) -> Array:
        unused = np.maximum(width - (c & 255).astype(element), 0)
        field: Array = a.view(element) >> (b & 255).astype(element)
        field = (field << unused) >> unused
        return field.view(whole)

    return sign_extended if kind.signed else unsigned


def _bfi(match: Match) -> Compute:
    masks = _MASKS[types(match.modifiers)[0].register]

    def insert(a: Array, b: Array, c: Array, n: Array) -> Array:
        position, field = c & 255, masks[n & 255]
        result: Array = (b & ~(field << position)) | ((a & field) << position)
        return result

    return insert


def _bmsk(match: Match) -> Compute:
    masks = _MASKS[_U32]
    if match.modes.wraps:
        return lambda a, b: masks[b & 31] << (a & 31)
    return lambda a, b: masks[np.minimum(b, 32)] << a


def _dp4a(match: Match) -> Compute:
    left, right = (np.int8 if kind.signed else np.uint8 for kind in types(match.modifiers))

    def dot(a: Array, b: Array, c: Array) -> Array:
        products = np.multiply(a.view(left), b.view(right), dtype=np.int32)
        total: Array = products.reshape(-1, 4).sum(axis=1, dtype=np.int32)
        return total.view(_U32) + c

    return dot


def carry(match: Match) -> Compute:
    """The function ``(a, b[, c], carry_in) -> (d, carry_out)`` of an extended-precision instruction (9.7.2).

    The carry is a predicate, the contents of CC.CF; for ``sub`` it is the borrow. Instructions without a carry-in
    ignore *carry_in*. Raises :class:`Unsupported` for any other form.
    """
    name, kind = match.form.name, types(match.modifiers)[0]
    takes = name in ("addc", "subc", "madc")

    def add(a: Array, b: Array, carry_in: Array) -> tuple[Array, Array]:
        d = a + b
        out = d < a
        if takes:
            d = d + carry_in
            out = out | (carry_in & (d == 0))
        return d, out

    def sub(a: Array, b: Array, carry_in: Array) -> tuple[Array, Array]:
        d = a - b
        out = a < b
        if takes:
            out = out | (carry_in & (d == 0))
            d = d - carry_in
        return d, out

    if name in ("add.cc", "addc"):
        return add
    if name in ("sub.cc", "subc"):
        return sub
    if name not in ("mad.cc", "madc"):
        raise Unsupported(f"{name}: not an extended-precision instruction")
    product = _product(kind, _mode(match))
    return lambda a, b, c, carry_in: add(product(a, b), c, carry_in)


# ---------------------------------------------------------------- logic and shifts, 9.7.8, and prmt, 9.7.9.7


def _cnot(match: Match) -> Compute:
    dtype = types(match.modifiers)[0].register
    return lambda a: (a == 0).astype(dtype)


_PAIRS: tuple[Callable[[Array, Array], Any], ...] = (
    lambda b, c: np.zeros_like(b), lambda b, c: ~(b | c), lambda b, c: ~b & c, lambda b, c: ~b,
    lambda b, c: b & ~c, lambda b, c: ~c, lambda b, c: b ^ c, lambda b, c: ~(b & c),
    lambda b, c: b & c, lambda b, c: ~(b ^ c), lambda b, c: c, lambda b, c: ~b | c,
    lambda b, c: b, lambda b, c: b | ~c, lambda b, c: b | c, lambda b, c: ~np.zeros_like(b),
)  # fmt: skip
"""The function of two bits for each truth table: bit 2b + c of the table is the result for the bits b and c."""


def _lop3(a: Array, b: Array, c: Array, table: Array) -> Array:
    """Bit 4a + 2b + c of the immediate *table* is the result for the bits a, b and c."""
    number = int(table[0])
    without = number & 15  # the function where a is 0
    change = (number ^ number >> 4) & 15  # where setting a inverts it
    result: Array = _PAIRS[without](b, c)
    return result ^ (a & _PAIRS[change](b, c)) if change else result


def _lop3_bool(match: Match) -> Compute:
    combine = _BOOLEANS[match.binding["bool"]]

    def logic(a: Array, b: Array, c: Array, table: Array, q: Array) -> tuple[Array, Array]:
        d = _lop3(a, b, c, table)
        return d, combine(d != 0, q)

    return logic


def _shf(match: Match) -> Compute:
    left, wraps = match.modes.leftward, match.modes.wraps

    def shift(a: Array, b: Array, c: Array) -> Array:
        amount = c & 31 if wraps else np.minimum(c, 32)
        both = b.astype(_U64) << 32 | a
        return ((both << amount) >> 32 if left else both >> amount).astype(_U32)

    return shift


# An amount of at least the width shifts out all bits; numpy, unlike C, defines this too.
def _shl(match: Match) -> Compute:
    whole = types(match.modifiers)[0].register
    return lambda a, b: (a << b).astype(whole, copy=False)


def _shr(match: Match) -> Compute:
    kind = types(match.modifiers)[0]
    whole, element = kind.register, kind.element
    if not kind.signed:
        return lambda a, b: (a >> b).astype(whole, copy=False)
    if kind.width == 32:
        return lambda a, b: (a.view(element) >> b.view(element)).view(whole)
    return lambda a, b: (a.view(element) >> b).astype(element, copy=False).view(whole)


@lru_cache(maxsize=1024)
def _selected(selectors: bytes) -> tuple[Array, Array | None]:
    """For each byte of the result, its index among the source bytes of all lanes, and whether its sign is replicated.

    None if no sign is. Cached, because selectors are nearly always constants.
    """
    nibbles = np.frombuffer(selectors, dtype=np.uint32)[:, None] >> np.arange(0, 16, 4, dtype=np.uint32)
    signs = nibbles & 8 != 0
    indices = np.arange(0, 8 * len(nibbles), 8)[:, None] + (nibbles & 7)
    return indices.reshape(-1), signs.reshape(-1) if np.count_nonzero(signs) else None


def _prmt(match: Match) -> Compute:
    if "mode" in match.binding:
        return _lane_by_lane(match)

    def permute(a: Array, b: Array, c: Array) -> Array:
        both = np.empty((32, 2), dtype=_U32)
        both[:, 0] = a
        both[:, 1] = b
        indices, signs = _selected(c.tobytes())
        chosen: Array = both.reshape(-1).view(_U8)[indices]
        if signs is not None:
            chosen = np.where(signs, (chosen.view(np.int8) >> 7).view(_U8), chosen)
        return chosen.view(_U32)

    return permute


# ---------------------------------------------------------------- comparison and selection, 9.7.6

_COMPARISONS: dict[str, Compute] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_BOOLEANS: dict[str, Compute] = {".and": operator.and_, ".or": operator.or_, ".xor": operator.xor}


def _integer_test(match: Match) -> Compute:
    """The comparison of an instruction: a function (a, b) -> predicate."""
    compare = _COMPARISONS[match.relation]
    kind = types(match.modifiers)[-1]
    if not kind.signed or compare in (operator.eq, operator.ne):
        return compare
    element = kind.element
    return lambda a, b: compare(a.view(element), b.view(element))


def _test(match: Match) -> tuple[Compute, Compute | None]:
    """The comparison, and the Boolean operator that combines its result with c; None without one."""
    test = _integer_test(match) if types(match.modifiers)[-1].integer else floats.comparison(match)
    return test, next((_BOOLEANS[m] for m in match.modifiers if m in _BOOLEANS), None)


def _setp(match: Match) -> Compute:
    """Predicate p, and, if there is a q, the same for the negated comparison in q."""
    test, combine = _test(match)
    if "q" not in match.named:
        if combine is None:
            return test
        return lambda a, b, c: combine(test(a, b), c)

    def both(a: Array, b: Array, *c: Array) -> tuple[Array, Array]:
        p = test(a, b)
        return (combine(p, *c), combine(~p, *c)) if combine else (p, ~p)

    return both


def _setp_half2(match: Match) -> Compute:
    """Predicate p for the lower elements, q for the upper ones."""
    test, combine = _test(match)
    alone = "q" not in match.named

    def both(a: Array, b: Array, *c: Array) -> Any:
        p, q = np.ascontiguousarray(test(a, b).reshape(-1, 2).T)
        if combine:
            p, q = combine(p, *c), combine(q, *c)
        return p if alone else (p, q)

    return both


def _set(match: Match) -> Compute:
    """All ones, or 1.0, in the destination type if the comparison holds; two results share a register (9.7.7.1)."""
    test, combine = _test(match)
    to, of = types(match.modifiers)
    true = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000}.get(
        to.name, (1 << to.width // of.count * to.count) - 1
    )
    element, whole = REGISTERS[to.register.itemsize * 8 // of.count], to.register
    values = np.array([0, true], dtype=element)

    def choose(a: Array, b: Array, *c: Array) -> Array:
        t = test(a, b)
        if combine:
            t = combine(t, *(np.repeat(p, of.count) for p in c))
        chosen: Array = values[t.view(_U8)]
        return chosen.view(whole)

    return choose


def _set_packed(match: Match) -> Compute:
    """All ones in each byte or half of the result where the comparison holds (9.7.7.1 of PTX ISA 9.4)."""
    compare = _COMPARISONS[match.relation]
    kind = types(match.modifiers)[0]
    element, whole = kind.element, kind.register
    values = np.array([0, (1 << kind.width) - 1], dtype=REGISTERS[kind.width])

    def choose(a: Array, b: Array) -> Array:
        chosen: Array = values[compare(a.view(element), b.view(element)).view(_U8)]
        return chosen.view(whole)

    return choose


def _selp(a: Array, b: Array, c: Array) -> Array:
    return np.where(c, a, b)


def _slct(match: Match) -> Compute:
    if types(match.modifiers)[-1].signed:
        return lambda a, b, c: np.where(c.view(np.int32) >= 0, a, b)
    prepare = floats.flush if match.modes.flushes else lambda c: c
    return lambda a, b, c: np.where(prepare(c.view(np.float32)) >= 0, a, b)


# ---------------------------------------------------------------- moves, 9.7.9.3 and 9.7.9.4


def _mov(match: Match) -> Compute:
    dtype = types(match.modifiers)[0].register
    return lambda a: a.astype(dtype, copy=False)


def _pack(match: Match) -> Compute:
    """A function that packs a tuple of elements, the first one lowest."""
    kind = types(match.modifiers)[0]
    if kind.width == 128:

        def pack128(elements: tuple[Array, ...]) -> Array:
            result, width = elements[0].astype(_OBJECT), 128 // len(elements)
            for i, element in enumerate(elements[1:], 1):
                result = result | element.astype(_OBJECT) << width * i
            return result

        return pack128
    whole, width = kind.register, kind.width

    def pack(elements: tuple[Array, ...]) -> Array:
        parts = np.empty((32, len(elements)), dtype=REGISTERS[width // len(elements)])
        for i, element in enumerate(elements):
            parts[:, i] = element
        return parts.view(whole).reshape(-1)

    return pack


def _unpack(match: Match) -> Compute:
    """A function that unpacks a register into *count* elements, as many as the destination vector has."""
    width = types(match.modifiers)[0].width
    if width == 128:

        def unpack128(a: Array, count: int) -> tuple[Array, ...]:
            part = 128 // count
            return tuple((a >> part * i & (1 << part) - 1).astype(REGISTERS[part]) for i in range(count))

        return unpack128

    def unpack(a: Array, count: int) -> tuple[Array, ...]:
        return tuple(np.ascontiguousarray(a.view(REGISTERS[width // count]).reshape(32, count).T))

    return unpack


_INTEGERS: dict[str, Factory] = {
    "add.int": _sum(operator.add),
    "sub.int": _sum(operator.sub),
    "mul.int": _mul,
    "mad.int": _mad,
    "clmad": _lane_by_lane,
    "mul24": _lane_by_lane,
    "mad24": _lane_by_lane,
    "sad": _lane_by_lane,
    "div.int": _division(remainder=False),
    "rem": _division(remainder=True),
    "abs.int": _abs,
    "neg.int": _neg,
    "min.int": _extreme(np.minimum),
    "max.int": _extreme(np.maximum),
    "popc": _typeless(lambda a: np.bitwise_count(a).astype(_U32)),
    "clz": _clz,
    "bfind": _bfind,
    "fns": _lane_by_lane,
    "brev": _brev,
    "bfe": _bfe,
    "bfi": _bfi,
    "szext": _lane_by_lane,
    "bmsk": _bmsk,
    "dp4a": _dp4a,
    "dp2a": _lane_by_lane,
    "and": _typeless(operator.and_),
    "or": _typeless(operator.or_),
    "xor": _typeless(operator.xor),
    "not": _typeless(operator.invert),
    "cnot": _cnot,
    "lop3": _typeless(_lop3),
    "lop3.bool": _lop3_bool,
    "shf": _shf,
    "shl": _shl,
    "shr": _shr,
    "prmt": _prmt,
    "setp.int": _setp,
    "setp.float": _setp,
    "setp.half": _setp,
    "setp.half2": _setp_half2,
    "set": _set,
    "set.packed": _set_packed,
    "set.half": _set,
    "selp": _typeless(_selp),
    "slct": _slct,
    "mov": _mov,
    "mov.pack": _pack,
    "mov.unpack": _unpack,
    "mov.vector": _typeless(lambda a: a),
}

LANES: dict[str, Factory] = {**_INTEGERS, **floats.FLOATS, **converts.CONVERTS}
"""Form name -> factory. The function of ``mov.unpack`` takes a further argument ``count``, the number of elements."""
