"""Loop counters, and quotients and remainders in the forms that compilers emit."""

from __future__ import annotations

from tclint.isa.modes import Modes
from tclint.values.integers import SHORT, type_width
from tclint.values.nodes import Arithmetic, Compare, Masked, Opaque, PartOf, Phi, Select, Terms, Value
from tclint.values.value_table import ValueTable

__all__ = ["Induction"]


class Induction:
    """Recognises loop counters, and the arithmetic that computes an index into a ring buffer."""

    def __init__(self, table: ValueTable) -> None:
        self.table = table

    def induction(self, value: Value) -> tuple[Value, int, int | None] | None:
        """``(start, stride, modulus)`` if *value* is a loop counter, else None.

        The modulus is None unless the counter wraps to 0, as that of a ring buffer does: ``next = i + 1; i = next == N
        ? 0 : next``.
        """
        value = self.table.representative(value)
        if type(self.table.nodes[value]) is not Phi:
            return None
        start: int | None = None
        stride: int | None = None
        modulus: int | None = None
        for argument in self.table.arguments(value):
            step, wraps = argument, None
            inner = self.table.nodes[argument]
            if type(inner) is Select:
                condition = self.table.nodes[self.table.representative(inner.condition)]
                if (
                    type(condition) is Compare
                    and condition.relation == "eq"
                    and self.table.representative(condition.left) == value
                    and self.table.constant_of(inner.yes) == 0
                ):
                    step = self.table.representative(inner.no)
                    bound = self.table.constant_of(condition.right)
                    terms, constant = self.table.linear(step)
                    wraps = bound + constant if bound is not None and terms == ((value, 1),) else None
            terms, constant = self.table.linear(step)
            if terms == ((value, 1),):
                if stride is not None and (stride, modulus) != (constant, wraps):
                    return None
                stride, modulus = constant, wraps
            elif value in (t for t, _ in terms):
                return None
            else:
                if start is not None and start != argument:
                    return None
                start = argument
        return (start, stride, modulus) if start is not None and stride is not None else None

    def steps(self, value: Value) -> set[int]:
        """The non-zero constants that iterations of a loop add to *value*; empty if no loop carries it."""
        is_phi = type(self.table.node(value)) is Phi
        ends = map(self.table.linear, self.table.arguments(value) if is_phi else ())
        return {by for terms, by in ends if by and terms == ((value, 1),)}

    def quotient(self, value: Value) -> tuple[Value, int] | None:
        """``(x, n)`` if *value* is the quotient of an unsigned x of 31 bits and a constant n, rounded down; else None.

        Compilers shift by a power of two. For any other n, they multiply by its rounded reciprocal and shift the upper
        half of the product (Granlund and Montgomery, *Division by Invariant Integers using Multiplication*, 1994). If
        the reciprocal has 33 bits, t is the upper half of the product with its low 32, and ``(x - t) / 2 + t`` is
        shifted.
        """
        node, by = self.table.node(value), 0
        if type(node) is Opaque and node.name == "div" and node.type == ".u32":
            dividend, divisor = node.operands
            n = self.table.constant_of(divisor)
            return (self.table.representative(dividend), n) if n else None
        if type(node) is Arithmetic and node.name == "shr" and node.type[1] in "ub":
            shifted, bits = node.operands
            number = self.table.constant_of(bits)
            if number is None:
                return None
            inner = self.table.representative(shifted)
            long = self._long_reciprocal(inner)
            if long is not None:
                return self._divided(long[0], (1 << 32) + long[1], number + 33)
            if number >= 32 and (scaled := self._scaled(inner)) is not None:
                return self._divided(*scaled, number)
            if number < 32:
                value, by = inner, number
        upper = self._upper_half(value)
        if upper is not None:
            return self._divided(upper[0], upper[1], by + 32)
        return (value, 1 << by) if 0 < by < 32 else None

    def _divided(self, x: Value, factor: int, by: int) -> tuple[Value, int] | None:
        """``(x, n)`` if ``x * factor >> by`` is x divided by n, rounded down, for every x of 31 bits; else None."""
        n = -(-(1 << by) // factor)
        exact = factor * n - (1 << by) <= 1 << by - 31
        return (self.table.representative(x), n) if n > 1 and exact else None

    def _upper_half(self, value: Value) -> tuple[Value, int] | None:
        """``(x, factor)`` if *value* is the upper half of x times a 32-bit constant, else None."""
        node = self.table.node(value)
        if type(node) is Opaque and node.name == "mul" and Modes(node.modifiers).upper_half:
            numbers = [self.table.constant_of(x) for x in node.operands]
            if (numbers[0] is None) is (numbers[1] is None):
                return None
            factor = next(n for n in numbers if n is not None) & SHORT
            return node.operands[0 if numbers[0] is None else 1], factor
        product = self._shifted_right(value, 32)
        if product is None and type(node) is PartOf and (node.index, node.width) == (1, 32):
            product = node.whole
        return None if product is None else self._scaled(product)

    def _scaled(self, product: Value) -> tuple[Value, int] | None:
        """``(x, factor)`` if *product*, of 64 bits, is an unsigned 32-bit x times a constant, else None."""
        terms, constant = self.table.linear(product)
        factors = {factor for _, factor in terms}
        (factor,) = factors if len(factors) == 1 else (1,)
        if factor < 2 or constant % factor:
            return None
        x = self.table.total(tuple((t, 1) for t, _ in terms), constant // factor)
        node = self.table.node(x)
        return node.value if type(node) is Masked and node.is_widened else x, factor

    def _shifted_right(self, value: Value, by: int) -> Value | None:
        """What *value* is shifted right by *by* bits; None if it is not."""
        node = self.table.node(value)
        if type(node) is not Arithmetic or node.name != "shr":
            return None
        shifted, bits = node.operands
        return shifted if self.table.constant_of(bits) == by else None

    def _long_reciprocal(self, value: Value) -> tuple[Value, int] | None:
        """``(x, factor)`` if *value* is ``(x - t) / 2 + t``, t the upper half of x times a constant; else None."""
        terms, constant = self.table.linear(value)
        if len(terms) != 2 or constant or any(factor != 1 for _, factor in terms):
            return None
        for (t, _), (half, _) in (terms, terms[::-1]):
            upper, rest = self._upper_half(t), self._shifted_right(half, 1)
            if upper is not None and rest is not None:
                x = self.table.add(rest, t)
                if self.table.representative(x) == self.table.representative(upper[0]) or self.table.linear(
                    x
                ) == self.table.linear(upper[0]):
                    return upper
        return None

    def remainder(self, terms: Terms) -> tuple[int, int, int] | None:
        """``(f, low, n)`` if a sum is low + f * (x % n) for a constant n, in the form that compilers emit; else None.

        That is ``f * x - f * n * (x / n)``, and for a signed x and a power of two ``f * x - f * (x + s & -n)``, where s
        is derived from the sign of x. An index is never negative, unless it is a counter that begins with a negative number,
        so s is ignored. Of the mask, only those bits count that multiplication by f leaves in 32 bits: LLVM clears the others.
        """
        whole = self.table.total(terms, 0)
        for term, factor in terms:
            if factor >= 0:
                continue
            node, divided = self.table.node(term), self.quotient(term)
            if divided is not None and factor % divided[1] == 0:
                x, n = divided
                each = -factor // n
            elif type(node) is Masked and (n := node.mask & -node.mask) > 1:
                x, each = node.value, -factor
                if (node.mask + n) * each & SHORT:
                    continue  # the mask clears bits of the quotient that the factor does not shift out of 32 bits
            else:
                continue
            rest = self.table.add(
                self.table.add(whole, self.table.times(term, -factor)), self.table.times(x, -each)
            )
            signs, low = self.table.linear(rest)
            corrects = all(self._corrects(*sign, x, term, each, n) for sign in signs)
            if corrects and not (signs and self._begins_negative(x)):
                return each, low, n
        return None

    def in_step(self, terms: Terms) -> tuple[Terms, int]:
        """A sum in which the counters that advance with the dividend of a quotient are multiples of that dividend.

        An unrolled loop advances a pointer into a ring by the size of several stages and divides a counter of its own:
        ``p - 24 * (i / 3)``, where p grows by 32 and i by 4, is ``p0 + 8 * (i - i0) - 24 * (i / 3)``.
        """
        whole = self.table.total(terms, 0)
        for term, factor in terms:
            divided = self.quotient(term) if factor < 0 else None
            if divided is None:
                continue
            for counter, _ in self.table.linear(divided[0])[0]:
                for other, times in self.table.linear(whole)[0]:
                    same = self._by_counter(other, counter)
                    if same is not None:
                        whole = self.table.add(whole, self.table.times(self.table.minus(same, other), times))
        return self.table.linear(whole)

    def _by_counter(self, value: Value, counter: Value) -> Value | None:
        """A loop counter in terms of another one of the same loop, of which its stride is a multiple; else None."""
        found, by = self.induction(value), self.induction(counter)
        if value == counter or found is None or by is None:
            return None
        (start, stride, modulus), (first, step, wraps) = found, by
        apart = self.table.phi(value).block != self.table.phi(counter).block
        if apart or modulus is not None or wraps is not None or stride % step:
            return None
        advanced = self.table.minus(counter, first)
        return self.table.add(start, self.table.times(advanced, stride // step))

    def _corrects(self, value: Value, factor: int, x: Value, quotient: Value, each: int, n: int) -> bool:
        """Whether a term of a sum with the *quotient* of *x* by *n* is 0 unless x is negative, and rounds the quotient towards 0:
        a sign that is added to x before, or that of x or of the quotient, which is added to the quotient."""
        of = self._signed(value)
        added = dict(self.table.linear(x)[0]).get(self.table.representative(value), 0)
        if of is None or added:
            return of is not None and factor == -each * added
        node = self.table.node(quotient)
        likewise = [x, quotient, *(node.operands[:1] if type(node) is Arithmetic else ())]
        return abs(factor) == each * n and self.table.linear(of) in map(self.table.linear, likewise)

    def _signed(self, value: Value) -> Value | None:
        """What *value* is the sign of, perhaps shifted right; None if it is not a sign."""
        of, bits, width = value, 0, 1
        while type(node := self.table.node(of)) is Arithmetic and node.name == "shr":
            of, by = node.operands
            bits, width = self.table.constant_of(by) or 0, type_width(node.type)
        return of if bits >= width - 1 else None

    def _begins_negative(self, x: Value) -> bool:
        """Whether *x* is a multiple of loop counters, or a sum of them, that begins with a negative number."""
        terms, least = self.table.linear(x)
        for term, factor in terms:
            counter = self.induction(term)
            start = None if counter is None else self.table.constant_of(counter[0])
            if start is None and self._signed(term) is None:
                return False
            least += (start or 0) * factor
        return least < 0
