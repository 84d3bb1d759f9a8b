"""For each thread of a CTA, values and predicates that depend on the thread index alone.

One assumption is unsound: ``elect.sync`` may elect any lane of its mask, and is taken to elect the lowest.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from enum import IntEnum
from functools import cached_property

from tclint.values import thread_masks as T
from tclint.values.cta_shape import (
    cta_size,
    is_alone,
    is_one_dimensional,
    may_be_alone,
    position,
    shape_of,
    thread_count,
)
from tclint.values.integers import type_width
from tclint.values.value_table import Node, ValueTable

__all__ = ["ThreadSets", "UniformityScope"]

_BITWISE = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


class UniformityScope(IntEnum):
    """The scope in which a value is the same for all threads. A smaller level is a wider scope."""

    CTA = 0
    WARPGROUP = 1
    WARP = 2
    UNKNOWN = 3
    """Neither uniform nor divergent is proven; never a reason for a finding."""
    DIVERGENT = 4
    """Proven to differ between threads of one warp."""


class ThreadSets:
    """Expressions evaluated in every thread of a CTA at once (:mod:`tclint.values.thread_masks`)."""

    def __init__(self, table: ValueTable) -> None:
        self.table = table
        self.function = function = table.function
        defs = defaultdict[int, list[int]](list)
        for i, instruction in enumerate(function.instructions):
            for register in instruction.writes:
                defs[register].append(i)
        self.defs: dict[int, list[int]] = dict(defs)
        """Register -> the instructions that write it, in program order."""
        self.threads = thread_count(function)
        self.cta_size = cta_size(function)
        self.one_dimensional = is_one_dimensional(function, self.defs)
        self.shape = shape_of(function, self.threads, self.one_dimensional)
        self._planes: dict[int, T.BitSlices | None] = {}
        self._masks: dict[int, int | None] = {}

    @cached_property
    def may_be_alone(self) -> bool:
        """Whether the kernel may be launched with CTAs of one thread."""
        return may_be_alone(self.function)

    @cached_property
    def is_alone(self) -> bool:
        """Whether it is meant for such CTAs only: it never asks which thread it is."""
        return self.may_be_alone and is_alone(self.function)

    def bit_slices(self, value: int) -> T.BitSlices | None:
        """*value* in every thread if it depends on the thread index alone, else None."""
        value = self.table.representative(value)
        if value not in self._planes:
            self._planes[value] = None  # the answer to a recursive question
            self._planes[value] = self._compute_planes(value)
        return self._planes[value]

    def _compute_planes(self, value: int) -> T.BitSlices | None:
        node, n = self.table.nodes[value], self.threads
        kind = node[0]
        if kind == "const":
            return T.constant(node[1], n)
        if kind == "special":
            return None if self.shape is None else position(node[1], self.shape, n)
        if kind == "sum":
            total = T.constant(node[2], n)
            for term, factor in node[1]:
                planes = self.bit_slices(term)
                if planes is None:
                    return None
                total = T.add(total, T.scale(planes, factor, n))
            return total
        if kind == "broadcast":
            planes = self.bit_slices(node[1])
            return None if planes is None else T.broadcast(planes, node[2], n)
        if kind == "select":
            mask = self.mask(node[1])
            left, right = self.bit_slices(node[2]), self.bit_slices(node[3])
            if mask is None or left is None or right is None:
                return None
            every = T.full(n)
            return tuple((x & mask) | (y & (every ^ mask)) for x, y in zip(left, right, strict=True))
        return self._operation_planes(node) if kind == "op" else None

    def _operation_planes(self, node: Node) -> T.BitSlices | None:
        """The planes of an operation whose operands have planes, or are constants where they must be."""
        name, n = node[1], self.threads
        if name in ("and", "or", "xor", "min", "max"):
            return self._pairwise(node)
        if name == "cvt":
            return self._converted(node)
        if name == "shl" and ".b16" not in node[2]:  # tests of a set of roles: 1 << warp & mask
            number, planes = self.table.constant_of(node[3]), self.bit_slices(node[4])
            return None if number is None or planes is None else T.shifted(number, planes, n)
        if name == "bfi" and ".b32" in node[2]:
            return self._inserted(node)
        if name not in ("mask", "not", "shr", "div", "rem", "bfe"):
            return None
        planes = self.bit_slices(node[2] if name == "mask" else node[3])
        if planes is None:
            return None
        if name == "mask":
            return tuple(p if node[3] >> bit & 1 else 0 for bit, p in enumerate(planes))
        if name == "not":
            return tuple(T.full(n) & ~p for p in planes)
        by = self.table.constant_of(node[4])
        if name == "shr" and by is not None:
            signed, width = str(node[2])[1] == "s", type_width(str(node[2]))
            if width < T.WIDTH:
                planes = T.narrow(planes, width, signed)
            return T.shift_right(planes, by & 0xFFFFFFFF, signed)
        if name in ("div", "rem") and node[2] in ((".s32",), (".u32",)):
            if by is None or by <= 0 or by & by - 1 or (node[2] == (".s32",) and planes[-1]):
                return None  # division of a negative number rounds towards zero, unlike a shift (9.7.1.8)
            shift = by.bit_length() - 1
            rest = tuple(p if bit < shift else 0 for bit, p in enumerate(planes))
            return rest if name == "rem" else T.shift_right(planes, shift, False)
        if name == "bfe" and by is not None and str(node[2][-1]) != ".s64":
            length = self.table.constant_of(node[5])
            return None if length is None else _extracted(planes, by, length, str(node[2][-1]) == ".s32")
        return None

    def _pairwise(self, node: Node) -> T.BitSlices | None:
        """The planes of a bitwise operation, of a minimum or of a maximum."""
        left, right = self.bit_slices(node[3]), self.bit_slices(node[4])
        if left is None or right is None:
            return None
        if node[1] in ("min", "max"):
            if node[2] not in (".s32", ".u32"):
                return None
            every = T.full(self.threads)
            taken = T.compare("lt", left, right, node[2] == ".s32", self.threads) ^ (
                every * (node[1] == "max")
            )
            return tuple(x & taken | y & ~taken for x, y in zip(left, right, strict=True))
        return tuple(map(_BITWISE[node[1]], left, right))

    def _inserted(self, node: Node) -> T.BitSlices | None:
        """The planes of the insertion of a bit field (9.7.1.20)."""
        new, old = self.bit_slices(node[3]), self.bit_slices(node[4])
        at, length = self.table.constant_of(node[5]), self.table.constant_of(node[6])
        if new is None or old is None or at is None or length is None:
            return None
        begin, end = at & 0xFF, (at & 0xFF) + (length & 0xFF)
        return tuple(new[bit - begin] if begin <= bit < end else plane for bit, plane in enumerate(old))

    def _converted(self, node: Node) -> T.BitSlices | None:
        """The planes of a conversion between integers: read as the source type, truncated to the result type."""
        types, planes = node[2], self.bit_slices(node[3])
        if planes is None or len(types) != 2 or any(t[1] not in "usb" for t in types):
            return None
        for type_name in reversed(types):
            if type_width(type_name) < T.WIDTH:
                planes = T.narrow(planes, type_width(type_name), type_name[1] == "s")
        return planes

    def mask(self, p: int) -> int | None:
        """The threads in which predicate *p* holds if it depends on the thread index alone, else None."""
        p = self.table.representative(p)
        if p not in self._masks:
            self._masks[p] = None
            self._masks[p] = self._compute_mask(p)
        return self._masks[p]

    def _compute_mask(self, p: int) -> int | None:
        node, n = self.table.nodes[p], self.threads
        kind = node[0]
        every = T.full(n)
        if kind == "const":
            return every if node[1] else 0
        if kind == "elect":
            # Any lane of the mask in each warp; in practice the lowest.
            members = (self.table.constant_of(node[1]) or 0) & 0xFFFFFFFF or 1
            return T.lane_zero(n) << (members & -members).bit_length() - 1
        if kind == "not":
            inner = self.mask(node[1])
            return None if inner is None else every ^ inner
        if kind == "logic":
            left, right = self.mask(node[2]), self.mask(node[3])
            if left is None or right is None:
                return None
            return left & right if node[1] == "and" else left | right if node[1] == "or" else left ^ right
        if kind == "compare":
            a, b = self.bit_slices(node[2]), self.bit_slices(node[3])
            if a is None or b is None:
                return None
            width = int(node[5])
            if width < T.WIDTH:
                a, b = (T.narrow(x, width, bool(node[4])) for x in (a, b))
            elif width > T.WIDTH and (a[-1] or b[-1] or not all(map(self._fits_31_bits, node[2:4]))):
                return None  # the planes hold the low half only
            return T.compare(str(node[1]), a, b, bool(node[4]), n)
        if kind == "select":
            condition, left, right = (self.mask(x) for x in node[1:4])
            if condition is None or left is None or right is None:
                return None
            return (condition & left) | (every ^ condition) & right
        return None

    def _fits_31_bits(self, value: int) -> bool:
        """Whether *value* is not a constant outside [0, 2^31)."""
        number = self.table.constant_of(value)
        return number is None or 0 <= number < 1 << 31

    def plane_level(self, planes: T.BitSlices) -> UniformityScope:
        """The uniformity of a value with these planes."""
        every = T.full(self.threads)
        for level, size in (
            (UniformityScope.CTA, self.threads),
            (UniformityScope.WARPGROUP, 128),
            (UniformityScope.WARP, 32),
        ):
            if not any(T.partial_groups(plane, every, size) for plane in planes):
                return level
        return UniformityScope.DIVERGENT


def _extracted(planes: T.BitSlices, at: int, length: int, signed: bool) -> T.BitSlices:
    """The planes of a bit field (9.7.1.19)."""
    field = T.shift_right(planes, at & 0xFF, signed)
    if signed and 0 < length & 0xFF < T.WIDTH:
        return T.narrow(field, length & 0xFF, True)
    return tuple(p if bit < length & 0xFF else 0 for bit, p in enumerate(field))
