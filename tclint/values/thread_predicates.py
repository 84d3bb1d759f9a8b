"""For each thread of a CTA, values and predicates that depend on the thread index alone.

One assumption is unsound: ``elect.sync`` may elect any lane of its mask, and is taken to elect the lowest.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property

from tclint._pattern import pattern
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
from tclint.values.integers import SHORT, applied, type_width
from tclint.values.nodes import (
    Applied,
    Broadcast,
    Compare,
    Constant,
    Elected,
    Logic,
    Masked,
    Negation,
    Select,
    SpecialRead,
    Sum,
    Value,
)
from tclint.values.value_table import ValueTable

__all__ = ["ThreadSets", "UniformityScope"]

_BITWISE = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_PAIRWISE = (*_BITWISE, "min", "max")
_INTEGER = pattern(r"\.[bus](8|16|32|64)")


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
        self._planes: dict[int, T.BitSlices] = {}
        self._masks: dict[int, int] = {}
        self._no_planes: dict[int, int] = {}
        """A value without planes -> the number of aliases in the table when that was found."""
        self._no_mask: dict[int, int] = {}

    @cached_property
    def may_be_alone(self) -> bool:
        """Whether the kernel may be launched with CTAs of one thread."""
        return may_be_alone(self.function)

    @cached_property
    def is_alone(self) -> bool:
        """Whether it is meant for such CTAs only: it never asks which thread it is."""
        return self.may_be_alone and is_alone(self.function)

    def bit_slices(self, value: Value) -> T.BitSlices | None:
        """*value* in every thread if it depends on the thread index alone, else None.

        None also unless all of these are signed numbers of 32 bits. The table does not have the width of a sum, and larger
        numbers are others in a register of 32 bits.
        """
        found = self.exact_slices(value)
        return None if found is None or len(found) > 32 else found

    def exact_slices(self, value: Value) -> T.BitSlices | None:
        """*value* in every thread if it depends on the thread index alone, else None.

        A register holds as many of the low bits of these numbers as it has.
        """
        value = self.table.representative(value)
        found = self._planes.get(value)
        if found is None and self._no_planes.get(value) != (aliases := len(self.table.alias)):
            self._no_planes[value] = (
                aliases  # the answer to a recursive question, and until another phi is replaced
            )
            found = self._compute_planes(value)
            if found is not None:
                self._planes[value] = found
        return found

    def _compute_planes(self, value: Value) -> T.BitSlices | None:
        node, n = self.table.nodes[value], self.threads
        if type(node) is Constant:
            return T.constant(node.number, n)
        if type(node) is SpecialRead:
            return None if self.shape is None else position(node.name, self.shape, n)
        if type(node) is Sum:
            total = T.constant(node.constant, n)
            for term, factor in node.terms:
                planes = self.exact_slices(term)
                if planes is None:
                    return None
                total = T.add(total, T.scale(planes, factor, n))
            return total
        if type(node) is Masked:
            bits = self.exact_slices(self.table.constant(node.mask))
            planes = self.exact_slices(node.value)
            return None if planes is None or bits is None else T.bitwise(operator.and_, planes, bits)
        if type(node) is Broadcast:
            planes = self.exact_slices(node.source)
            return None if planes is None else T.broadcast(planes, node.lane, n)
        if type(node) is Select:
            mask = self.mask(node.condition)
            left, right = map(self.exact_slices, node.arms)
            return None if mask is None or left is None or right is None else T.choose(mask, left, right)
        return self._operation_planes(node) if isinstance(node, Applied) else None

    def _operation_planes(self, node: Applied) -> T.BitSlices | None:
        """The planes of an operation whose operands have planes.

        A number of 32 bits or more is read as a signed one, as that of :func:`~tclint.values.integers.applied` is: ``-1 ^ 1``
        is -2 for ``xor.b32`` and ``xor.s32`` alike.
        """
        name, operands, modifiers = node.name, node.operands, node.modifiers
        planes = [p for p in map(self.exact_slices, operands) if p is not None]
        if len(planes) < len(operands):
            return None
        if len(modifiers) != (2 if name == "cvt" else 1) or any(
            _INTEGER.fullmatch(m) is None for m in modifiers
        ):
            return self._by_thread(node, planes)
        found = self._integer_planes(name, modifiers[-1], operands, planes)
        if found is None:
            return self._by_thread(node, planes)
        kind = modifiers[0]
        width, signed = type_width(kind), kind[1] == "s"
        return T.narrow(found, width, signed or width >= 32)

    def _integer_planes(
        self, name: str, kind: str, operands: Sequence[int], planes: Sequence[T.BitSlices]
    ) -> T.BitSlices | None:
        """The planes of an operation on operands of type *kind*, all bits of them; None if it is not computed in planes."""
        n, width, signed = self.threads, type_width(kind), kind[1] == "s"
        left, right = (T.narrow(p, width, signed) for p in (planes[0], planes[1 if name in _PAIRWISE else 0]))
        if name in _BITWISE:
            return T.bitwise(_BITWISE[name], left, right)
        if name in ("min", "max"):
            less = T.compare("lt", left, right, n)
            return T.choose(less, left, right) if name == "min" else T.choose(less, right, left)
        if name == "not":
            return T.bitwise(operator.xor, left, T.constant(-1, n))
        if name == "cvt":
            return left
        numbers = [0 if number is None else number for number in map(self.table.constant_of, operands[1:])]
        if name == "shr" and planes[1] == T.constant(numbers[0], n):
            return T.shift_right(left, min(numbers[0] & SHORT, width))
        if name in ("div", "rem"):
            by = numbers[0] & (1 << width) - 1
            if planes[1] == T.constant(numbers[0], n) and 0 < by < 1 << width - signed:
                return T.divide(left, by, n)[name == "rem"]
        return None

    def _by_thread(self, node: Applied, planes: Sequence[T.BitSlices]) -> T.BitSlices | None:
        """The planes of an operation, computed for the operands *planes* of one thread after the other."""
        combinations: list[tuple[tuple[int, ...], int]] = [((), T.full(self.threads))]
        for operand in planes:
            combinations = [
                ((*numbers, number), those)
                for numbers, threads in combinations
                for number, those in T.numbers(operand, threads)
            ]
        results = [
            (applied(node.name, node.modifiers, numbers), threads) for numbers, threads in combinations
        ]
        known = [(number, threads) for number, threads in results if number is not None]
        return T.gathered(known) if len(known) == len(results) else None

    def mask(self, p: Value) -> T.Threads | None:
        """The threads in which predicate *p* holds if it depends on the thread index alone, else None."""
        p = self.table.representative(p)
        found = self._masks.get(p)
        if found is None and self._no_mask.get(p) != (aliases := len(self.table.alias)):
            self._no_mask[p] = aliases
            found = self._compute_mask(p)
            if found is not None:
                self._masks[p] = found
        return found

    def _compute_mask(self, p: Value) -> int | None:
        node, n = self.table.nodes[p], self.threads
        every = T.full(n)
        if type(node) is Constant:
            return every if node.number else 0
        if type(node) is Elected:
            # Any lane of the mask in each warp; in practice the lowest.
            members = (self.table.constant_of(node.members) or 0) & 0xFFFFFFFF or 1
            return T.lane_zero(n) << (members & -members).bit_length() - 1
        if type(node) is Negation:
            inner = self.mask(node.operand)
            return None if inner is None else every ^ inner
        if type(node) is Logic:
            left, right = self.mask(node.left), self.mask(node.right)
            if left is None or right is None:
                return None
            name = node.name
            return left & right if name == "and" else left | right if name == "or" else left ^ right
        if type(node) is Compare:
            a, b = self.exact_slices(node.left), self.exact_slices(node.right)
            if a is None or b is None:
                return None
            a, b = (T.narrow(x, node.width, node.signed) for x in (a, b))
            return T.compare(node.relation, a, b, n)
        if type(node) is Select:
            condition, left, right = map(self.mask, node.operands)
            if condition is None or left is None or right is None:
                return None
            return (condition & left) | (every ^ condition) & right
        return None

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
