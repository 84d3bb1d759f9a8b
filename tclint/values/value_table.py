"""The table of expressions: hash-consed, so equal numbers mean equal values, and simplified on construction.

Integers are sums of terms with constant factors, plus a constant: numbers of which a register holds as many low bits as it
has. Compilers' assumption that signed arithmetic does not wrap is shared, so a signed number of 32 bits is what it is in
64; this can merge values that differ only after an overflow. An unsigned one is a mask of it, unless it is evidently not
negative. Predicates are comparisons (``eq`` and ``lt`` alone), logic and negation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import Any

from tclint.ir.nodes import Function, Variable
from tclint.values.integers import SHORT, as_signed

__all__ = ["Comparisons", "Node", "ValueTable", "extremum_type"]

Node = tuple[Any, ...]
"""A kind and its operands: values (int), constants, and names, as the kind requires."""
Comparisons = dict[int, tuple[tuple[Node, bool], ...]]
"""Compared value -> its comparisons with constants, each with its truth."""
_MIN_MAX = (("op", "max"), ("op", "min"))
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


def extremum_type(node: Node) -> str:
    """The type of the maximum or minimum of two integers that *node* is; empty for any other value.

    That with ``.relu``, that of two lanes and that of floating-point numbers have all their modifiers instead of a type.
    """
    kind = node[2] if node[:2] in _MIN_MAX else ""
    return kind if isinstance(kind, str) else ""


class ValueTable:
    """The expressions of one function. A value is an index into :attr:`nodes`."""

    def __init__(self, function: Function, variables: Mapping[str, Variable]) -> None:
        self._differences: dict[int, tuple[Node, bool] | None] = {}
        self.function = function
        self.variables = variables
        """The variables of the module."""
        self.nodes: list[Node] = []
        self._ids: dict[Node, int] = {}
        self.alias: dict[int, int] = {}
        """Value -> the one that it turned out to equal."""
        self.phi_arguments: dict[int, tuple[int, ...]] = {}
        """Phi -> its incoming values."""

    def intern(self, *parts: object) -> int:
        """The value of the expression *parts*: a kind and its operands, as they are."""
        found = self._ids.get(parts)
        if found is None:
            found = self._ids[parts] = len(self.nodes)
            self.nodes.append(parts)
        return found

    def representative(self, value: int) -> int:
        """The representative of *value*: itself, or the value that it turned out to equal."""
        alias = self.alias
        while value in alias:
            value = alias[value]
        return value

    def node(self, value: int) -> Node:
        """The expression of *value*: a kind and its operands."""
        alias = self.alias
        while value in alias:
            value = alias[value]
        return self.nodes[value]

    def special(self, name: str) -> int:
        """The value of a special register that does not change."""
        return self.intern("special", name)

    def constant(self, number: int) -> int:
        """The value of an integer constant."""
        return self.intern("const", number)

    def constant_of(self, value: int) -> int | None:
        """The integer that *value* is; None if it is not a constant."""
        alias = self.alias
        while value in alias:
            value = alias[value]
        node = self.nodes[value]
        if node[0] != "const":
            return None
        number: int = node[1]
        return number

    def arguments(self, phi: int) -> tuple[int, ...]:
        """The incoming values of a phi, in the order of the block's sources; empty if they were not followed."""
        return tuple(self.representative(a) for a in self.phi_arguments.get(phi, ()))

    def parts(self, node: Node) -> list[int]:
        """The operands of an expression that are values."""
        kind = node[0]
        if kind == "sum":
            return [t for t, _ in node[1]]
        if kind == "op":
            if node[1] == "mask":
                return [node[2]]
            return [x for x in node[3:] if isinstance(x, int)]
        if kind == "compare":
            return [node[2], node[3]]
        if kind == "logic":
            return [node[2], node[3]]
        if kind == "not":
            return [node[1]]
        if kind == "part":
            return [node[3]]
        if kind in ("broadcast", "plain"):
            return [node[1]]
        if kind == "elect":
            return [node[1]]
        if kind == "parameter":
            return [node[1]]
        if kind == "load":
            return [node[3]]
        if kind == "pack":
            return list(node[2:])
        if kind in ("select", "vector"):
            return [x for x in node[1:] if isinstance(x, int)]
        return []

    def subexpressions(
        self, *values: int, until: Callable[[int], bool] = lambda value: False
    ) -> Iterator[int]:
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
                work += self.arguments(value) if node[0] == "phi" else self.parts(node)

    # ------------------------------------------------------------ sums

    def difference(self, p: int) -> tuple[Node, bool] | None:
        """The comparison *p* as ``difference < constant``, and whether that is negated.

        ``i + 7 < n`` and ``i + 8 >= n`` are both about ``n - i``. None if *p* has that form already, or is not a signed
        ``lt``: signed arithmetic is assumed not to wrap, as compilers assume.
        """
        if p not in self._differences:
            self._differences[p] = self._compute_difference(self.nodes[p])
        return self._differences[p]

    def _compute_difference(self, node: Node) -> tuple[Node, bool] | None:
        """See :meth:`difference`. The sign is chosen so that the first factor is positive."""
        _, relation, a, b, signed, width = node
        if relation != "lt" or not signed:
            return None
        (ours, constant), (theirs, limit) = self._terms(a), self._terms(b)
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
            return ("compare", "lt", self.total(negative, 0), self.constant(1 - limit), True, width), True
        return ("compare", "lt", self.total(terms, 0), self.constant(limit), True, width), False

    def _terms(self, value: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """See :meth:`linear`."""
        alias = self.alias
        while value in alias:
            value = alias[value]
        node = self.nodes[value]
        if node[0] == "const":
            return (), node[1]
        if node[0] == "sum":
            terms: tuple[tuple[int, int], ...] = node[1]
            for changed, _ in terms:
                if changed in alias:
                    total: dict[int, int] = {}
                    for term, factor in terms:
                        total[self.representative(term)] = total.get(self.representative(term), 0) + factor
                    return tuple(sorted((t, f) for t, f in total.items() if f)), node[2]
            return terms, node[2]
        return ((value, 1),), 0

    def total(self, terms: tuple[tuple[int, int], ...], constant: int) -> int:
        """The sum of *terms* (values with their factors) and a constant."""
        if not terms:
            return self.constant(constant)
        if constant == 0 and len(terms) == 1 and terms[0][1] == 1:
            return terms[0][0]
        return self.intern("sum", terms, constant)

    def linear(self, value: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """*value* as ``(terms with their factors, constant)``. Values with equal terms are a known distance apart."""
        return self._terms(self.representative(value))

    def add(self, a: int, b: int, width: int = 64) -> int:
        """a + b as a sum of terms."""
        if (number := self.constant_of(b)) is None and (number := self.constant_of(a)) is not None:
            a = b
        if number is not None:
            terms, constant = self._terms(a)
            return self.total(terms, as_signed(constant + number, width))
        ta, ca = self._terms(a)
        tb, cb = self._terms(b)
        if not tb:
            return self.total(ta, as_signed(ca + cb, width))
        if not ta:
            return self.total(tb, as_signed(ca + cb, width))
        total = dict(ta)
        for term, factor in tb:
            total[term] = total.get(term, 0) + factor
        if len(total) > MAX_TERMS_PER_SUM:
            return self.intern("op", "add", ".s64", *sorted((a, b)))
        terms = tuple(sorted((t, f) for t, f in total.items() if f))
        return self.total(terms, as_signed(ca + cb, width))

    def times(self, a: int, factor: int, width: int = 64) -> int:
        """*a* times a constant."""
        if factor == 0:
            return self.constant(0)
        terms, constant = self._terms(a)
        if factor == 1 and width >= 32 and _INT32_MIN <= constant < -_INT32_MIN:
            return self.total(terms, constant)
        return self.total(
            tuple((t, by) for t, f in terms if (by := as_signed(f * factor, width))),
            as_signed(constant * factor, width),
        )

    def hoisted_constant(self, value: int) -> tuple[int, int] | None:
        """For ``min(x + c, k)`` or ``max`` of the same form: ``(min(x, k - c), c)``; None for any other value.

        ``min(n - 1, 3)`` is ``min(n, 4) - 1``. Assumes no overflow, as compilers do.
        """
        node = self.node(value)
        if not extremum_type(node) or (limit := self.constant_of(node[4])) is None:
            return None
        terms, by = self.linear(node[3])
        if not by or not terms:
            return None
        return self.intern(*node[:3], self.total(terms, 0), self.constant(limit - by)), by

    def multiply(self, a: int, b: int, width: int) -> int | None:
        """a * b if one of them is a constant, else None."""
        for x, y in ((a, b), (b, a)):
            number = self.constant_of(x)
            if number is not None:
                return self.times(y, number, width)
        return None

    # ------------------------------------------------------------ bits

    def masked(self, value: int, mask: int, width: int) -> int:
        """*value* & *mask*, where *value* has *width* bits."""
        every = (1 << width) - 1
        mask &= every
        if mask == 0:
            return self.constant(0)
        if mask == every:
            return value
        node = self.node(value)
        if node[0] == "op" and node[1] == "mask":
            return self.masked(node[2], mask & node[3], width)
        if node[0] == "sum":
            common = gcd(node[2], *(factor for _, factor in node[1]))
            low = common & -common  # a common power of two leaves zeros below
            if low > 1:
                terms = tuple((t, factor // low) for t, factor in node[1])
                return self.times(self.masked(self.total(terms, node[2] // low), mask // low, width), low)
        if node[0] == "op" and node[1] == "shr" and (by := self.constant_of(node[4])) is not None:
            if 0 <= by <= width - mask.bit_length():
                value = self.shifted(
                    self.without_aligned(node[3], mask.bit_length() + by), by, node[4], node[2]
                )
        elif node[:2] == ("op", "or"):
            parts = [self.masked(part, mask, width) for part in node[3:5]]
            if 0 in map(self.constant_of, parts):
                return parts[0] if self.constant_of(parts[1]) == 0 else parts[1]
        else:
            value = self.without_aligned(value, mask.bit_length())
            if (number := self.constant_of(value)) is not None:
                return self.constant(number & mask)
        return self.intern("op", "mask", self.representative(value), mask)

    def shifted(self, value: int, number: int | None, by: int, type_name: str) -> int:
        return value if number == 0 else self.intern("op", "shr", type_name, value, by)

    def without_aligned(self, value: int, bits: int) -> int:
        """*value* without the terms on which its low *bits* do not depend: multiples, and addresses aligned so well."""
        terms, constant = self._terms(value)
        kept = tuple((t, f) for t, f in terms if self.multiple(t) * f % (1 << bits))
        return self.total(kept, constant) if len(kept) < len(terms) else value

    def multiple(self, value: int) -> int:
        """A power of two of which *value* is a multiple: of an aligned address, or of bits without the lowest ones."""
        node = self.node(value)
        if node[:2] == ("op", "mask"):
            return int(node[3] & -node[3])
        return self.alignment(value) or 1

    def alignment(self, value: int) -> int:
        """The alignment of the variable whose address *value* is; 0 if it is not the address of a variable."""
        variable = self.variable(value)
        return variable.align if variable is not None else 0

    def variable(self, value: int) -> Variable | None:
        """The variable whose address *value* is, or None."""
        node = self.node(value)
        if node[0] != "symbol":
            return None
        return self.function.variables.get(node[1]) or self.variables.get(node[1])

    def separate(self, a: int, b: int) -> bool:
        """Whether *a* and *b* are the addresses of different variables that do not overlap.

        Variables without a size all name the same memory, which follows that of all others (5.1.7).
        """
        variables = self.variable(a), self.variable(b)
        return (
            a != b
            and {self.nodes[v][0] for v in (a, b)} == {"symbol"}
            and any(v and v.size for v in variables)
        )

    def max_bit_length(self, value: int) -> int:
        """The number of low bits that *value* can have set; 0 if that is not evident from its node alone."""
        node = self.node(value)
        if node[:2] == ("op", "mask"):
            return int(node[3]).bit_length()
        return int(node[1]).bit_length() if node[0] == "const" and node[1] > 0 else 0

    def part(self, index: int, width: int, whole: int) -> int:
        """The *width* bits of *whole* from bit *index* * *width* on."""
        node, number = self.node(whole), self.constant_of(whole)
        if number is not None:
            return self.constant(as_signed(number >> index * width, width))
        if node[0] == "pack" and node[1] == width:
            return self.representative(node[2 + index])
        return self.intern("part", index, width, self.representative(whole))

    def pack(self, width: int, parts: list[int]) -> int:
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
        nodes = [self.node(part) for part in parts]
        if all(n[:3] == ("part", i, width) and n[3] == nodes[0][3] for i, n in enumerate(nodes)):
            return self.representative(nodes[0][3])  # unpacked and packed again
        return self.intern("pack", width, *map(self.representative, parts))

    def widened(self, value: int) -> int:
        """*value* zero-extended from 32 bits."""
        return value if self.is_unsigned(value) else self.masked(value, SHORT, 64)

    def is_unsigned(self, value: int, depth: int = 0) -> bool:
        """Whether a value of 32 bits is the number that it is without a sign: an address, or evidently not negative.

        A sum of such numbers is, since it is taken not to wrap.
        """
        node = self.node(value)
        kind = node[0]
        if kind in ("special", "symbol"):
            return True
        if kind == "const":
            return bool(0 <= node[1] <= SHORT)
        if depth > MAX_TERMS_PER_SUM:
            return False
        if kind == "sum":
            terms: tuple[tuple[int, int], ...] = node[1]
            if [f for t, f in terms if self.node(t)[0] == "symbol"] == [1]:
                return True
            return bool(node[2] >= 0) and all(f > 0 and self.is_unsigned(t, depth + 1) for t, f in terms)
        if kind == "select":
            return all(self.is_unsigned(x, depth + 1) for x in node[2:4])
        if kind == "broadcast":
            return self.is_unsigned(node[1], depth + 1)
        if kind in ("load", "parameter"):
            match = self.function.instructions[node[1]].match if kind == "load" else None
            return (match.element if match is not None else str(node[-1]))[1:] in _UNSIGNED_PARTS
        return kind == "op" and self._is_unsigned_result(node, depth + 1)

    def _is_unsigned_result(self, node: Node, depth: int) -> bool:
        """See :meth:`is_unsigned`, for an operation."""
        name = node[1]
        if name == "mask":
            return bool(node[3] <= SHORT)
        number = self.constant_of(node[-1])
        kind = str(node[2] if isinstance(node[2], str) else node[2][-1])
        if name == "cvt":
            return kind[1:] in _UNSIGNED_PARTS
        if name in ("shr", "div", "rem") and kind in (".u32", ".b32"):
            return (
                number is not None
                and (0 if name == "shr" else 1 if name == "div" else 0) < number <= -_INT32_MIN
            )
        if name in ("min", "max") and kind == ".s32":
            operands = [self.is_unsigned(x, depth) for x in node[3:5]]
            return all(operands) if name == "min" else any(operands)
        return False

    def truncated(self, value: int) -> int:
        """*value* in a register of 32 bits. A constant that is added wraps; what it is added to is taken not to."""
        terms, constant = self._terms(value)
        wraps = terms and not _INT32_MIN <= constant < -_INT32_MIN
        return self.total(terms, as_signed(constant, 32)) if wraps else value

    def is_wide(self, value: int, depth: int = 0) -> bool:
        """Whether *value* is certain to have been computed in 64 bits."""
        node = self.node(value)
        kind = node[0]
        if kind == "const":
            return not -1 << 31 <= node[1] < 1 << 32
        if kind == "sum":
            return not -1 << 31 <= node[2] < 1 << 32 or (
                depth < 4 and any(self.is_wide(t, depth + 1) for t, _ in node[1])
            )
        if kind == "op":
            if node[1] == "mask":
                return bool(node[3] >= SHORT)
            types = node[2] if isinstance(node[2], tuple) else (node[2],)
            return any(t in (".b64", ".u64", ".s64", ".wide") for t in types)
        if kind == "pack":
            return bool(node[1] * (len(node) - 2) >= 64)
        return bool(kind == "parameter" and node[2] == 8)

    def may_wrap(self, value: int) -> bool:
        """Whether *value* is a 32-bit sum with so large a constant that small terms make it wrap, unlike an address."""
        node = self.node(value)
        return node[0] == "sum" and not -_WRAPPING_CONSTANT <= node[2] < _WRAPPING_CONSTANT

    def plain(self, value: int, width: int) -> int:
        """*value* with its low *width* bits read as an unsigned number, as a value of its own."""
        return self.intern("plain", self.representative(value), width)

    def is_widened(self, node: Node) -> bool:
        """Whether *node* is just a zero-extended 32-bit number."""
        return node[:2] == ("op", "mask") and node[3] == SHORT

    # ------------------------------------------------------------ predicates

    def negate(self, p: int) -> int:
        """not *p*."""
        node = self.node(p)
        if node[0] == "not":
            inner: int = node[1]
            return inner
        number = self.constant_of(p)
        if number is not None:
            return self.constant(int(not number))
        return self.intern("not", self.representative(p))

    def logic(self, root: str, p: int, q: int) -> int:
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
        return self.intern("logic", root, *sorted((p, q)))

    def _implied_by(self, q: int, p: int, truth: bool) -> bool | None:
        """Whether comparison *q* holds where *p*, a comparison of the same value with a constant, is *truth*.

        None if neither answer follows.
        """
        (one, first), (two, second) = self._without_not(p), self._without_not(q)
        if one[0] != "compare" or two[0] != "compare" or one[2] != two[2]:
            return None
        known: Comparisons = (
            {one[2]: ((one, truth is first),)} if self.constant_of(one[3]) is not None else {}
        )
        found = self.implied_comparison(two, known)
        return None if found is None else found is second

    def _without_not(self, p: int) -> tuple[Node, bool]:
        """A predicate without its negation, and whether it had none."""
        node = self.node(p)
        return (self.node(node[1]), False) if node[0] == "not" else (node, True)

    def select(self, p: int, a: int, b: int) -> int:
        """*a* where *p* holds, else *b*."""
        p, a, b = self.representative(p), self.representative(a), self.representative(b)
        number = self.constant_of(p)
        if number is not None:
            return a if number else b
        if a == b:
            return a
        node = self.node(p)
        if node[0] == "not":
            return self.select(node[1], b, a)
        return self.intern("select", p, a, b)

    def compare(self, relation: str, a: int, b: int, signed: bool, width: int = 32) -> int:
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
        if y is not None and 0 <= y <= SHORT and self.is_widened(self.node(a)):
            return self.compare(relation, self.node(a)[2], b, signed and width == 32, 32)
        if relation == "eq":
            if x is not None:
                a, b, x, y = b, a, y, x
            # Recovers a predicate that was materialised as an integer: setp.ne (p ? 1 : 0), 0.
            node = self.node(a)
            if y is not None and node[0] == "select":
                p: int = node[1]
                u, v = self.constant_of(node[2]), self.constant_of(node[3])
                if u is not None and v is not None:
                    first, second = (as_signed(n, width) == y for n in (u, v))
                    if first is not second:
                        return p if first else self.negate(p)
                    return self.constant(int(first))
            if y == 0 and (divided := self._signed_remainder(node, width)) is not None:
                number, by = divided  # its sign does not matter
                return self.compare("eq", self.masked(number, by - 1, width), b, signed, width)
            if y == 0 and node[:2] == ("op", "or"):
                return self.logic("and", *(self.compare("eq", part, b, signed, width) for part in node[3:5]))
            if y is not None and node[0] == "sum" and node[2]:
                # Equality is preserved when the constant moves across; order is not (wrap-around).
                return self.compare("eq", self.total(node[1], 0), self.constant(y - node[2]), signed, width)
            if y is None:
                a, b = sorted((a, b))
            return self.intern("compare", "eq", a, b, True, width)
        if x is not None and x < (every >> 1 if signed else every):
            # c < b is not b < c+1: one canonical form for r > 0 and r < 1.
            return self.negate(self.compare("lt", b, self.constant(x + 1), signed, width))
        return self.intern("compare", "lt", a, b, signed, width)

    def _indexes(self, index: int, size: int) -> bool:
        """Whether *size* is the number of threads or CTAs along an axis, and *index* the position there: it is less."""
        one, two = self.node(index), self.node(size)
        return one[0] == two[0] == "special" and (one[1], two[1]) in _POSITIONS

    def _signed_remainder(self, node: Node, width: int) -> tuple[int, int] | None:
        """The dividend and the divisor, a power of two, if a value is what a signed division leaves; None if it is not.

        Compilers subtract the multiple that is next towards zero: ``x - (x + (x >> 31 >>> 32 - k) & -2**k)``.
        """
        if node[:2] == ("op", "rem"):
            by = self.constant_of(node[4])
            return (node[3], by) if by is not None and by > 1 and not by & by - 1 else None
        if node[0] != "sum" or node[2] or sorted(factor for _, factor in node[1]) != [-1, 1]:
            return None
        (number, _), (multiple, _) = sorted(node[1], key=lambda term: -term[1])
        masked = self.node(multiple)
        by = (1 << width) - masked[3] if masked[:2] == ("op", "mask") else 0
        if by < 2 or by & by - 1:
            return None
        sign = self.intern("op", "shr", f".s{width}", number, self.constant(width - 1))
        bias = self.intern("op", "shr", f".u{width}", sign, self.constant(width - by.bit_length() + 1))
        return (number, by) if self.representative(masked[2]) == self.add(number, bias, width) else None

    def implied_comparison(self, node: Node, others: Comparisons) -> bool | None:
        """Whether a comparison with a constant follows from comparisons of the same value in *others*.

        None if neither answer follows.
        """
        _, relation, value, right, signed, width = node
        bound = self.constant_of(right)
        if bound is None:
            return None
        every = (1 << width) - 1
        # The remaining range of the value, read as a signed (True) and as an unsigned (False) number.
        left = {True: (-1 - (every >> 1), every >> 1), False: (0, every)}
        gaps = list[int]()
        for other, truth in others.get(value, ()):
            limit = self.constant_of(other[3])
            assert limit is not None
            if other[5] != width:
                continue
            if other[1] == "eq":
                if truth:
                    left = {True: (limit, limit), False: (limit & every, limit & every)}
                else:
                    gaps.append(limit)
                continue
            low, high = left[other[4]]
            left[other[4]] = (low, min(high, limit - 1)) if truth else (max(low, limit), high)
        for sign, excluded in ((True, gaps), (False, [gap & every for gap in gaps])):
            low, high = left[sign]
            while low in excluded:
                low += 1
            while high in excluded:
                high -= 1
            left[sign] = low, high
        if relation == "lt":
            low, high = left[signed]
            return True if high < bound else False if low >= bound else None
        for (low, high), number in ((left[True], bound), (left[False], bound & every)):
            if not low <= number <= high:
                return False
            if low == high:
                return True
        return None
