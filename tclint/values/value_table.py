"""The table of expressions: hash-consed, so equal numbers mean equal values, and simplified on construction.

Integers are sums of terms with constant factors, plus a constant: numbers of which a register holds as many low bits as it
has. Compilers' assumption that signed arithmetic does not wrap is shared, so a signed number of 32 bits is what it is in
64; this can merge values that differ only after an overflow. An unsigned one is a mask of it, unless it is evidently not
negative. Predicates are comparisons (``eq`` and ``lt`` alone), logic and negation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import gcd

from tclint.ir.nodes import Function, Variable
from tclint.values.integers import SHORT, as_signed
from tclint.values.nodes import (
    AddressOf,
    Applied,
    Arithmetic,
    Broadcast,
    Compare,
    Constant,
    Loaded,
    Logic,
    Masked,
    Negation,
    Node,
    Opaque,
    Packed,
    ParameterRead,
    PartOf,
    Phi,
    Select,
    SpecialRead,
    Sum,
    Terms,
    UnsignedReading,
    Value,
    extremum_type,
)

__all__ = ["Comparisons", "ValueTable"]

Comparisons = dict[int, tuple[tuple[Compare, bool], ...]]
"""Compared value -> its comparisons with constants, each with its truth."""
_UNSIGNED_PARTS = ("u8", "b8", "u16", "b16")
"""Types that are zero-extended to 32 bits."""
MAX_TERMS_PER_SUM = 12
"""A sum of more terms becomes an opaque operation; real addresses have fewer."""
_POSITIONS = frozenset(
    (f"%{vector}.{axis}", f"%n{vector}.{axis}") for vector in ("tid", "ctaid", "clusterid") for axis in "xyz"
)
"""The special registers with a position along an axis, each with the one that has the size there (10.1 to 10.8)."""
_INT32_MIN = -1 << 31
_WRAPPING_CONSTANT = 1 << 30
"""A 32-bit sum with a constant of this magnitude overflows even for small terms."""


class ValueTable:
    """The expressions of one function. A value is an index into :attr:`nodes`."""

    def __init__(self, function: Function, variables: Mapping[str, Variable]) -> None:
        self._differences: dict[int, tuple[Compare, bool] | None] = {}
        self.function = function
        self.variables = variables
        """The variables of the module."""
        self.nodes: list[Node] = []
        self._ids: defaultdict[type[Node], dict[tuple[object, ...], int]] = defaultdict(dict)
        """Class of nodes -> its attributes -> the value."""
        self.alias: dict[int, int] = {}
        """Value -> the one that it turned out to equal."""
        self.phi_arguments: dict[int, tuple[int, ...]] = {}
        """Phi -> its incoming values."""

    def intern(self, kind: type[Node], *attributes: object) -> Value:
        """The value of the expression of a class with these attributes, as they are."""
        ids = self._ids[kind]
        found = ids.get(attributes)
        if found is None:
            found = ids[attributes] = len(self.nodes)
            self.nodes.append(kind(*attributes))
        return found

    def representative(self, value: Value) -> Value:
        """The representative of *value*: itself, or the value that it turned out to equal."""
        alias = self.alias
        while value in alias:
            value = alias[value]
        return value

    def node(self, value: Value) -> Node:
        """The expression of *value*."""
        alias = self.alias
        while value in alias:
            value = alias[value]
        return self.nodes[value]

    def special(self, name: str) -> Value:
        """The value of a special register that does not change."""
        return self.intern(SpecialRead, name)

    def is_special(self, value: Value, name: str) -> bool:
        """Whether *value* is that of the special register *name*."""
        node = self.node(value)
        return type(node) is SpecialRead and node.name == name

    def phi(self, value: Value) -> Phi:
        """The phi that *value* is known to be."""
        node = self.node(value)
        assert type(node) is Phi
        return node

    def is_phi(self, value: Value) -> bool:
        """Whether *value* is a phi."""
        return type(self.node(value)) is Phi

    def constant(self, number: int) -> Value:
        """The value of an integer constant."""
        return self.intern(Constant, number)

    def constant_of(self, value: Value) -> int | None:
        """The integer that *value* is; None if it is not a constant."""
        alias = self.alias
        while value in alias:
            value = alias[value]
        node = self.nodes[value]
        return node.number if type(node) is Constant else None

    def arguments(self, phi: Value) -> tuple[Value, ...]:
        """The incoming values of a phi, in the order of the block's sources; empty if they were not followed."""
        arguments = self.phi_arguments.get(phi, ())
        if self.alias.keys().isdisjoint(arguments):
            return arguments
        return tuple(map(self.representative, arguments))

    def subexpressions(
        self, *values: int, until: Callable[[int], bool] = lambda value: False
    ) -> Iterator[Value]:
        """*values* and all their subexpressions, through every argument of a phi, each once.

        The operands of a value for which *until* holds are not visited.
        """
        work, seen = list(values), set[int]()
        while work:
            value = self.representative(work.pop())
            if value in seen:
                continue
            seen.add(value)
            yield value
            if not until(value):
                node = self.nodes[value]
                work += self.arguments(value) if type(node) is Phi else node.operands

    # ------------------------------------------------------------ sums

    def phis_of(self, values: Iterable[Value]) -> frozenset[Phi]:
        """The phis on which *values* depend, by whatever other phis."""
        found, seen, work = set[Phi](), set[Value](), list(values)
        while work:
            for part in self.subexpressions(work.pop()):
                if self.is_phi(part) and part not in seen:
                    seen.add(part)
                    found.add(self.phi(part))
                    work += self.arguments(part)
        return frozenset(found)

    def comparison(self, p: Value, truth: bool = True) -> tuple[Compare | None, bool]:
        """The comparison that a predicate is, negated or not, with its truth if that of *p* is *truth*; None for any other one."""
        node = self.node(p)
        while type(node) is Negation:
            node, truth = self.node(node.operand), not truth
        return node if type(node) is Compare else None, truth

    def difference(self, p: Value) -> tuple[Compare, bool] | None:
        """The comparison *p* as ``difference < constant``, and whether that is negated.

        ``i + 7 < n`` and ``i + 8 >= n`` are both about ``n - i``. None if *p* has that form already, or is not a signed
        ``lt``: signed arithmetic is assumed not to wrap, as compilers assume.
        """
        if p not in self._differences:
            node = self.nodes[p]
            self._differences[p] = self._compute_difference(node) if type(node) is Compare else None
        return self._differences[p]

    def _compute_difference(self, node: Compare) -> tuple[Compare, bool] | None:
        """See :meth:`difference`. The sign is chosen so that the first factor is positive."""
        if node.relation != "lt" or not node.signed:
            return None
        (ours, constant), (theirs, limit) = self.linear(node.left), self.linear(node.right)
        if not theirs and not constant:
            return None
        total = dict(ours)
        for term, factor in theirs:
            total[term] = total.get(term, 0) - factor
        terms = tuple(sorted((t, f) for t, f in total.items() if f))
        limit -= constant
        if not terms:
            return None
        if terms[0][1] < 0:
            # -d < limit is d > -limit, and so not d < 1 - limit.
            negative = tuple((t, -f) for t, f in terms)
            return Compare("lt", self.total(negative, 0), self.constant(1 - limit), True, node.width), True
        return Compare("lt", self.total(terms, 0), self.constant(limit), True, node.width), False

    def linear(self, value: Value) -> tuple[Terms, int]:
        """*value* as ``(terms with their factors, constant)``. Values with equal terms are a known distance apart."""
        alias = self.alias
        while value in alias:
            value = alias[value]
        node = self.nodes[value]
        if type(node) is Sum:
            terms = node.terms
            for changed, _ in terms:
                if changed in alias:
                    total: dict[int, int] = {}
                    for term, factor in terms:
                        total[self.representative(term)] = total.get(self.representative(term), 0) + factor
                    return tuple(sorted((t, f) for t, f in total.items() if f)), node.constant
            return terms, node.constant
        return ((), node.number) if type(node) is Constant else (((value, 1),), 0)

    def total(self, terms: Terms, constant: int) -> Value:
        """The sum of *terms* (values with their factors) and a constant."""
        if not terms:
            return self.constant(constant)
        if constant == 0 and len(terms) == 1 and terms[0][1] == 1:
            return terms[0][0]
        return self.intern(Sum, terms, constant)

    def based_on(self, value: Value) -> Value | None:
        """The address of a variable from which *value* is an offset; None if it is one from none, or from several."""
        bases = [(t, factor) for t, factor in self.linear(value)[0] if type(self.node(t)) is AddressOf]
        return bases[0][0] if len(bases) == 1 and bases[0][1] == 1 else None

    def add(self, a: Value, b: Value, width: int = 64) -> Value:
        """a + b as a sum of terms."""
        if (number := self.constant_of(b)) is None and (number := self.constant_of(a)) is not None:
            a = b
        if number is not None:
            terms, constant = self.linear(a)
            return self.total(terms, as_signed(constant + number, width))
        ta, ca = self.linear(a)
        tb, cb = self.linear(b)
        if not tb:
            return self.total(ta, as_signed(ca + cb, width))
        if not ta:
            return self.total(tb, as_signed(ca + cb, width))
        total = dict(ta)
        for term, factor in tb:
            total[term] = total.get(term, 0) + factor
        if len(total) > MAX_TERMS_PER_SUM:
            return self.intern(Arithmetic, "add", ".s64", tuple(sorted((a, b))))
        terms = tuple(sorted((t, f) for t, f in total.items() if f))
        return self.total(terms, as_signed(ca + cb, width))

    def minus(self, a: Value, b: Value) -> Value:
        """a - b as a sum of terms."""
        return self.add(a, self.times(b, -1))

    def times(self, a: Value, factor: int, width: int = 64) -> Value:
        """*a* times a constant."""
        if factor == 0:
            return self.constant(0)
        terms, constant = self.linear(a)
        if factor == 1 and width >= 32 and _INT32_MIN <= constant < -_INT32_MIN:
            return self.total(terms, constant)
        return self.total(
            tuple((t, by) for t, f in terms if (by := as_signed(f * factor, width))),
            as_signed(constant * factor, width),
        )

    def hoisted_constant(self, value: Value) -> tuple[Value, int] | None:
        """For ``min(x + c, k)`` or ``max`` of the same form: ``(min(x, k - c), c)``; None for any other value.

        ``min(n - 1, 3)`` is ``min(n, 4) - 1``. Assumes no overflow, as compilers do.
        """
        node = self.node(value)
        if type(node) is not Arithmetic or not extremum_type(node):
            return None
        left, right = node.operands
        if (limit := self.constant_of(right)) is None:
            return None
        terms, by = self.linear(left)
        if not by or not terms:
            return None
        moved = self.total(terms, 0), self.constant(limit - by)
        return self.intern(Arithmetic, node.name, node.type, moved), by

    def multiply(self, a: Value, b: Value, width: int) -> Value | None:
        """a * b if one of them is a constant, else None."""
        for x, y in ((a, b), (b, a)):
            number = self.constant_of(x)
            if number is not None:
                return self.times(y, number, width)
        return None

    # ------------------------------------------------------------ bits

    def masked(self, value: Value, mask: int, width: int) -> Value:
        """*value* & *mask*, where *value* has *width* bits."""
        return self._masked(value, mask, width, {})

    def _masked(self, value: Value, mask: int, width: int, known: dict[tuple[Value, int], Value]) -> Value:
        """As :meth:`masked`; what is *known* of disjunctions is asked once, though many share it."""
        every = (1 << width) - 1
        mask &= every
        if mask == 0:
            return self.constant(0)
        if mask == every:
            return value
        node = self.node(value)
        if type(node) is Masked:
            return self._masked(node.value, mask & node.mask, width, known)
        if type(node) is Sum:
            common = gcd(node.constant, *(factor for _, factor in node.terms))
            low = common & -common  # a common power of two leaves zeros below
            if low > 1:
                terms = tuple((t, factor // low) for t, factor in node.terms)
                rest = self.total(terms, node.constant // low)
                return self.times(self._masked(rest, mask // low, width, known), low)
        if (
            type(node) is Arithmetic
            and node.name == "shr"
            and (by := self.constant_of(node.operands[1])) is not None
        ):
            if 0 <= by <= width - mask.bit_length():
                shifted, number = node.operands
                value = self.shifted(
                    self.without_aligned(shifted, mask.bit_length() + by), by, number, node.type
                )
        elif type(node) is Arithmetic and node.name == "or":
            if (value, mask) not in known:
                parts = [self._masked(part, mask, width, known) for part in node.operands]
                known[value, mask] = value
                if 0 in map(self.constant_of, parts):
                    known[value, mask] = parts[0] if self.constant_of(parts[1]) == 0 else parts[1]
            if known[value, mask] != value:
                return known[value, mask]
        else:
            value = self.without_aligned(value, mask.bit_length())
            if (whole := self.constant_of(value)) is not None:
                return self.constant(whole & mask)
        return self.intern(Masked, self.representative(value), mask)

    def shifted(self, value: Value, number: int | None, by: int, type_name: str) -> Value:
        return value if number == 0 else self.intern(Arithmetic, "shr", type_name, (value, by))

    def without_aligned(self, value: Value, bits: int) -> Value:
        """*value* without the terms on which its low *bits* do not depend: multiples, and addresses aligned so well."""
        terms, constant = self.linear(value)
        kept = tuple((t, f) for t, f in terms if self.multiple(t) * f % (1 << bits))
        return self.total(kept, constant) if len(kept) < len(terms) else value

    def multiple(self, value: Value) -> int:
        """A power of two of which *value* is a multiple: of an aligned address, or of bits without the lowest ones."""
        node = self.node(value)
        return node.mask & -node.mask if type(node) is Masked else self.alignment(value) or 1

    def alignment(self, value: Value) -> int:
        """The alignment of the variable whose address *value* is, or what a parameter promises of the pointer in it; else 0."""
        node = self.node(value)
        if type(node) is ParameterRead:
            parameter = self.variable(node.address)
            return parameter.pointee if parameter is not None and parameter.size == node.size else 0
        variable = self.variable(value)
        return variable.align if variable is not None else 0

    def variable(self, value: Value) -> Variable | None:
        """The variable whose address *value* is, or None."""
        node = self.node(value)
        if type(node) is not AddressOf:
            return None
        return self.function.variables.get(node.name) or self.variables.get(node.name)

    def separate(self, a: Value, b: Value) -> bool:
        """Whether *a* and *b* are the addresses of different variables that do not overlap.

        Variables without a size all name the same memory, which follows that of all others (5.1.7).
        """
        variables = self.variable(a), self.variable(b)
        return (
            a != b
            and {type(self.nodes[v]) for v in (a, b)} == {AddressOf}
            and any(v and v.size for v in variables)
        )

    def max_bit_length(self, value: Value) -> int:
        """The number of low bits that *value* can have set; 0 if that is not evident from its node alone."""
        node = self.node(value)
        if type(node) is Masked:
            return node.mask.bit_length()
        return node.number.bit_length() if type(node) is Constant and node.number > 0 else 0

    def part(self, index: int, width: int, whole: int) -> Value:
        """The *width* bits of *whole* from bit *index* * *width* on."""
        node = self.node(whole)
        if type(node) is Constant:
            return self.constant(as_signed(node.number >> index * width, width))
        if type(node) is Packed and node.width == width:
            return self.representative(node.operands[index])
        return self.intern(PartOf, index, width, self.representative(whole))

    def pack(self, width: int, parts: list[Value]) -> Value:
        """The concatenation of *parts* of *width* bits each, the first one lowest."""
        numbers = [self.constant_of(part) for part in parts]
        if None not in numbers:
            mask = (1 << width) - 1
            whole = sum((n & mask) << i * width for i, n in enumerate(numbers) if n is not None)
            return self.constant(as_signed(whole, width * len(parts)))
        if len(parts) == 2 and numbers[1] == 0:
            return (
                self.widened(parts[0]) if width == 32 else self.masked(parts[0], (1 << width) - 1, 2 * width)
            )
        wholes = {
            node.whole if type(node) is PartOf and (node.index, node.width) == (i, width) else -1
            for i, node in enumerate(map(self.node, parts))
        }
        if len(wholes) == 1 and -1 not in wholes:
            return self.representative(wholes.pop())  # unpacked and packed again
        return self.intern(Packed, width, tuple(map(self.representative, parts)))

    def widened(self, value: Value) -> Value:
        """*value* zero-extended from 32 bits."""
        return value if self.is_unsigned(value) else self.masked(value, SHORT, 64)

    def is_unsigned(self, value: Value, depth: int = 0) -> bool:
        """Whether a value of 32 bits is the number that it is without a sign: an address, or evidently not negative.

        A sum of such numbers is, since it is taken not to wrap.
        """
        node = self.node(value)
        if type(node) is SpecialRead or type(node) is AddressOf:
            return True
        if type(node) is Constant:
            return 0 <= node.number <= SHORT
        if depth > MAX_TERMS_PER_SUM:
            return False
        if type(node) is Sum:
            terms = node.terms
            if [f for t, f in terms if type(self.node(t)) is AddressOf] == [1]:
                return True
            return node.constant >= 0 and all(f > 0 and self.is_unsigned(t, depth + 1) for t, f in terms)
        if type(node) is Select:
            return all(self.is_unsigned(x, depth + 1) for x in node.arms)
        if type(node) is Broadcast:
            return self.is_unsigned(node.source, depth + 1)
        if type(node) is ParameterRead:
            return node.extended[1:] in _UNSIGNED_PARTS
        if type(node) is Loaded:
            match = self.function.instructions[node.site].match
            return match is not None and match.element[1:] in _UNSIGNED_PARTS
        if type(node) is Masked:
            return node.mask <= SHORT
        return isinstance(node, Applied) and self._is_unsigned_result(node, depth + 1)

    def _is_unsigned_result(self, node: Applied, depth: int) -> bool:
        """See :meth:`is_unsigned`, for an operation."""
        name, kind = node.name, node.type
        number = self.constant_of(node.operands[-1])
        if name == "cvt":
            return kind[1:] in _UNSIGNED_PARTS
        if name in ("shr", "div", "rem") and kind in (".u32", ".b32"):
            return (
                number is not None
                and (0 if name == "shr" else 1 if name == "div" else 0) < number <= -_INT32_MIN
            )
        if name in ("min", "max") and kind == ".s32":
            operands = [self.is_unsigned(x, depth) for x in node.operands]
            return all(operands) if name == "min" else any(operands)
        return False

    def truncated(self, value: Value) -> Value:
        """*value* in a register of 32 bits. A constant that is added wraps; what it is added to is taken not to."""
        terms, constant = self.linear(value)
        wraps = terms and not _INT32_MIN <= constant < -_INT32_MIN
        return self.total(terms, as_signed(constant, 32)) if wraps else value

    def is_wide(self, value: Value, depth: int = 0) -> bool:
        """Whether *value* is certain to have been computed in 64 bits."""
        node = self.node(value)
        if type(node) is Constant:
            return not -1 << 31 <= node.number < 1 << 32
        if type(node) is Sum:
            return not -1 << 31 <= node.constant < 1 << 32 or (
                depth < 4 and any(self.is_wide(t, depth + 1) for t, _ in node.terms)
            )
        if type(node) is Masked:
            return node.mask >= SHORT
        if isinstance(node, Applied):
            return any(m in (".b64", ".u64", ".s64", ".wide") for m in node.modifiers)
        if type(node) is Packed:
            return node.width * len(node.operands) >= 64
        return type(node) is ParameterRead and node.size == 8

    def may_wrap(self, value: Value) -> bool:
        """Whether *value* is a 32-bit sum with so large a constant that small terms make it wrap, unlike an address."""
        node = self.node(value)
        return type(node) is Sum and not -_WRAPPING_CONSTANT <= node.constant < _WRAPPING_CONSTANT

    def plain(self, value: Value, width: int) -> Value:
        """*value* with its low *width* bits read as an unsigned number, as a value of its own."""
        return self.intern(UnsignedReading, self.representative(value), width)

    # ------------------------------------------------------------ predicates

    def negate(self, p: Value) -> Value:
        """not *p*."""
        node = self.node(p)
        if type(node) is Negation:
            return node.operand
        if type(node) is Constant:
            return self.constant(int(not node.number))
        return self.intern(Negation, self.representative(p))

    def logic(self, root: str, p: Value, q: Value) -> Value:
        """*p* ``and``, ``or`` or ``xor`` *q*, simplified."""
        p, q = self.representative(p), self.representative(q)
        for x, y in ((p, q), (q, p)):
            number = self.constant_of(x)
            if number is not None:
                truth = bool(number)
                if root == "and":
                    return y if truth else self.constant(0)
                if root == "or":
                    return self.constant(1) if truth else y
                return self.negate(y) if truth else y
        if p == q:
            return p if root != "xor" else self.constant(0)
        if self.negate(p) == q:
            return self.constant(0 if root == "and" else 1)
        for x, y in ((p, q), (q, p)) if root != "xor" else ():
            # x < 1 and x < 2 is x < 1: one operand is redundant if the other implies it where it matters.
            follows = self._implied_by(y, x, root == "and")
            if follows is not None:
                return x if follows is (root == "and") else self.constant(follows)
        return self.intern(Logic, root, *sorted((p, q)))

    def _implied_by(self, q: Value, p: Value, truth: bool) -> bool | None:
        """Whether comparison *q* holds where *p*, a comparison of the same value with a constant, is *truth*.

        None if neither answer follows.
        """
        (one, first), (two, second) = self._without_not(p), self._without_not(q)
        if type(one) is not Compare or type(two) is not Compare or one.left != two.left:
            return None
        known: Comparisons = (
            {one.left: ((one, truth is first),)} if self.constant_of(one.right) is not None else {}
        )
        found = self.implied_comparison(two, known)
        return None if found is None else found is second

    def _without_not(self, p: Value) -> tuple[Node, bool]:
        """A predicate without its negation, and whether it had none."""
        node = self.node(p)
        return (self.node(node.operand), False) if type(node) is Negation else (node, True)

    def select(self, p: Value, a: Value, b: Value) -> Value:
        """*a* where *p* holds, else *b*."""
        p, a, b = self.representative(p), self.representative(a), self.representative(b)
        number = self.constant_of(p)
        if number is not None:
            return a if number else b
        if a == b:
            return a
        node = self.node(p)
        if type(node) is Negation:
            return self.select(node.operand, b, a)
        return self.intern(Select, p, a, b)

    def compare(self, relation: str, a: Value, b: Value, signed: bool, width: int = 32) -> Value:
        """``a eq b`` or ``a lt b`` as a predicate. Constants are folded, or moved to the right."""
        a, b = self.representative(a), self.representative(b)
        x, y = self.constant_of(a), self.constant_of(b)
        signed = signed or relation == "eq"  # one canonical constant for all tests of equality
        every = (1 << width) - 1
        if x is not None:
            x = as_signed(x, width) if signed else x & every
            a = self.constant(x)
        if y is not None:
            y = as_signed(y, width) if signed else y & every
            b = self.constant(y)
        if x is not None and y is not None:
            return self.constant(int(x == y if relation == "eq" else x < y))
        if a == b:
            return self.constant(int(relation == "eq"))
        if relation == "lt" and not signed and y == 0:
            return self.constant(0)
        if self._indexes(a, b) or self._indexes(b, a):
            return self.constant(int(relation == "lt" and self._indexes(a, b)))
        if y is not None and 0 <= y <= SHORT and type(node := self.node(a)) is Masked and node.is_widened:
            return self.compare(relation, node.value, b, signed and width == 32, 32)
        if relation == "eq":
            if x is not None:
                a, b, x, y = b, a, y, x
            # Recovers a predicate that was materialised as an integer: setp.ne (p ? 1 : 0), 0.
            node = self.node(a)
            if y is not None and type(node) is Select:
                u, v = self.constant_of(node.yes), self.constant_of(node.no)
                if u is not None and v is not None:
                    first, second = (as_signed(n, width) == y for n in (u, v))
                    if first is not second:
                        return node.condition if first else self.negate(node.condition)
                    return self.constant(int(first))
            if y == 0 and (divided := self._signed_remainder(node, width)) is not None:
                number, by = divided  # its sign does not matter
                return self.compare("eq", self.masked(number, by - 1, width), b, signed, width)
            if y == 0 and type(node) is Arithmetic and node.name == "or":
                return self.logic(
                    "and", *(self.compare("eq", part, b, signed, width) for part in node.operands)
                )
            if y is not None and type(node) is Sum and node.constant:
                # Equality is preserved when the constant moves across; order is not (wrap-around).
                rest = self.total(node.terms, 0), self.constant(y - node.constant)
                return self.compare("eq", *rest, signed, width)
            if y is None:
                a, b = sorted((a, b))
            return self.intern(Compare, "eq", a, b, True, width)
        if x is not None and x < (every >> 1 if signed else every):
            # c < b is not b < c+1: one canonical form for r > 0 and r < 1.
            return self.negate(self.compare("lt", b, self.constant(x + 1), signed, width))
        return self.intern(Compare, "lt", a, b, signed, width)

    def _indexes(self, index: int, size: int) -> bool:
        """Whether *size* is the number of threads or CTAs along an axis, and *index* the position there: it is less."""
        one, two = self.node(index), self.node(size)
        return type(one) is SpecialRead and type(two) is SpecialRead and (one.name, two.name) in _POSITIONS

    def _signed_remainder(self, node: Node, width: int) -> tuple[Value, int] | None:
        """The dividend and the divisor, a power of two, if a value is what a signed division leaves; None if it is not.

        Compilers subtract the multiple that is next towards zero: ``x - (x + (x >> 31 >>> 32 - k) & -2**k)``.
        """
        if type(node) is Opaque and node.name == "rem":
            number, divisor = node.operands
            by = self.constant_of(divisor)
            return (number, by) if by is not None and by > 1 and not by & by - 1 else None
        if type(node) is not Sum or node.constant or sorted(factor for _, factor in node.terms) != [-1, 1]:
            return None
        (number, _), (multiple, _) = sorted(node.terms, key=lambda term: -term[1])
        masked = self.node(multiple)
        by = (1 << width) - masked.mask if type(masked) is Masked else 0
        if type(masked) is not Masked or by < 2 or by & by - 1:
            return None
        sign = self.intern(Arithmetic, "shr", f".s{width}", (number, self.constant(width - 1)))
        last = self.constant(width - by.bit_length() + 1)
        bias = self.intern(Arithmetic, "shr", f".u{width}", (sign, last))
        return (number, by) if self.representative(masked.value) == self.add(number, bias, width) else None

    def implied_comparison(self, node: Compare, others: Comparisons) -> bool | None:
        """Whether a comparison with a constant follows from comparisons of the same value in *others*.

        None if neither answer follows.
        """
        relation, width = node.relation, node.width
        bound = self.constant_of(node.right)
        if bound is None:
            return None
        every = (1 << width) - 1
        # The remaining range of the value, read as a signed (True) and as an unsigned (False) number.
        left = {True: (-1 - (every >> 1), every >> 1), False: (0, every)}
        gaps = list[int]()
        for other, truth in others.get(node.left, ()):
            limit = self.constant_of(other.right)
            assert limit is not None
            if other.width != width:
                continue
            if other.relation == "eq":
                if truth:
                    left = {True: (limit, limit), False: (limit & every, limit & every)}
                else:
                    gaps.append(limit)
                continue
            low, high = left[other.signed]
            left[other.signed] = (low, min(high, limit - 1)) if truth else (max(low, limit), high)
        for sign, excluded in ((True, gaps), (False, [gap & every for gap in gaps])):
            low, high = left[sign]
            while low in excluded:
                low += 1
            while high in excluded:
                high -= 1
            left[sign] = low, high
        if relation == "lt":
            low, high = left[node.signed]
            return True if high < bound else False if low >= bound else None
        for (low, high), number in ((left[True], bound), (left[False], bound & every)):
            if not low <= number <= high:
                return False
            if low == high:
                return True
        return None
