"""Values as expressions that a programmer would write: ``(i / 4) & 1``, ``align(raw, 1024)``, ``phase``.

Loop counters and bits that a loop flips get names, which are recorded with their meaning. A value with any part that
cannot be expressed has no expression.
"""

from __future__ import annotations

from tclint._named_tuple import NamedTuple
from tclint.values import Values
from tclint.values.nodes import (
    AddressOf,
    Applied,
    Arithmetic,
    Broadcast,
    Compare,
    Constant,
    Logic,
    Masked,
    Negation,
    Opaque,
    ParameterRead,
    Phi,
    Select,
    SpecialRead,
    Sum,
    Terms,
    Undefined,
)

__all__ = ["Name", "ValuePrinter"]

_MAX_DEPTH = 16
"""Nesting of an expression, which bounds the recursion. Deeper values have no expression."""
_MAX_PHASE_VALUES = 256
"""Subexpressions that are searched for the initial value of a phase bit."""
_MAX_LENGTH = 60
"""Characters of an expression that can still be read at a glance."""
_MASK_32 = (1 << 32) - 1
_OPERATORS = {"or": "|", "xor": "^", "and": "&"}


class Name(NamedTuple):
    """A name that expressions use for a value that changes in a loop."""

    name: str
    meaning: str
    block: int
    """The header of the loop."""


class _Unwritable(Exception):
    """A part of an expression cannot be written."""


class ValuePrinter:
    """Prints the values of one function as expressions."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.names: dict[int, Name] = {}
        """The names given so far, by value."""
        self._pending: set[int] = set()

    def text(self, value: int, limit: int = _MAX_LENGTH) -> str | None:
        """*value* as an expression; None if it has none of at most *limit* characters. Variable names may be longer."""
        before = dict(self.names)
        named = type(self.values.node(value)) is AddressOf
        try:
            found = self._text(value, 0)
        except _Unwritable:
            found = ""
        if not found or (len(found) > limit and not named):
            self.names = before
            return None
        return found

    def _text(self, value: int, depth: int) -> str:
        values = self.values
        value = values.representative(value)
        node = values.node(value)
        if depth > _MAX_DEPTH:
            raise _Unwritable
        divided = values.quotient(value)
        if divided is not None:
            return f"{self._atom(divided[0], depth)} / {divided[1]}"
        if type(node) is Constant:
            return str(node.number)
        if isinstance(node, AddressOf | SpecialRead):
            return node.name
        if type(node) is Sum:
            return self._sum(value, depth)
        if type(node) is Phi:
            return self._named(value, node.block, depth)
        if type(node) is Masked:
            return self._masked(node.value, node.mask, depth)
        if isinstance(node, Applied):
            return self._operation(node, depth)
        if type(node) is Select:
            if tuple(map(values.constant_of, node.arms)) in ((1, 0), (-1, 0)):
                return self._text(node.condition, depth + 1)
            condition, yes, no = (self._atom(x, depth) for x in node.operands)
            return f"{condition} ? {yes} : {no}"
        if type(node) is Compare:
            return self._comparison(node, "==" if node.relation == "eq" else "<", depth)
        if type(node) is Negation:
            inner = values.node(node.operand)
            if type(inner) is Compare:
                return self._comparison(inner, "!=" if inner.relation == "eq" else ">=", depth)
            return f"!{self._atom(node.operand, depth)}"
        if type(node) is Logic:
            return f" {_OPERATORS[node.name]} ".join(self._atom(x, depth) for x in node.operands)
        if type(node) is ParameterRead:
            return self._text(node.address, depth + 1)
        if type(node) is Broadcast:
            return self._text(node.source, depth + 1)
        raise _Unwritable

    def _comparison(self, node: Compare, sign: str, depth: int) -> str:
        return f"{self._atom(node.left, depth)} {sign} {self._atom(node.right, depth)}"

    def _atom(self, value: int, depth: int) -> str:
        text = self._text(value, depth + 1)
        return f"({text})" if " " in text and not text.startswith("align(") else text

    def _sum(self, value: int, depth: int) -> str:
        terms, constant = self.values.linear(value)
        parts: list[str] = []
        for term, factor in sorted(terms, key=lambda t: t[1] < 0):
            text = self._text(term, depth + 1)
            if "+" in text or "-" in text or "&" in text or "?" in text or abs(factor) != 1:
                text = self._atom(term, depth)
            size = text if abs(factor) == 1 else f"{abs(factor)} * {text}"
            parts.append(f"{'-' if factor < 0 else '+'} {size}")
        if constant:
            parts.append(f"{'-' if constant < 0 else '+'} {abs(constant)}")
        return " ".join(parts).removeprefix("+ ") or "0"

    def _operation(self, node: Applied, depth: int) -> str:
        values, name = self.values, node.name
        if name == "cvt" and len(node.operands) == 1:
            return self._text(node.operands[0], depth + 1)
        if len(node.operands) != 2:
            raise _Unwritable
        first, second = node.operands
        if name in _OPERATORS:
            if values.constant_of(first) is not None:
                first, second = second, first
            return f"{self._atom(first, depth)} {_OPERATORS[name]} {self._atom(second, depth)}"
        if name == "shr" and (by := values.constant_of(second)) is not None and 0 < by < 32:
            return f"{self._atom(first, depth)} >> {by}"
        if name == "shl":
            return f"{self._atom(first, depth)} << {self._atom(second, depth)}"
        if name == "rem":
            return f"{self._atom(first, depth)} % {self._atom(second, depth)}"
        raise _Unwritable

    def _masked(self, inner: int, mask: int, depth: int) -> str:
        values = self.values
        divided = values.quotient(inner)
        if mask == 1 and divided is not None:
            node = values.node(divided[0])
            if type(node) is Opaque and node.name == "not":
                return f"({self._atom(node.operands[0], depth)} / {divided[1]} + 1) & 1"
        if mask == 1:  # only the parity of the terms of a sum matters
            terms, constant = self._with_same_parity(inner)
            inner = values.total(tuple((t, 1) for t, factor in terms if factor & 1), constant & 1)
        clears = (mask ^ (_MASK_32 if mask <= _MASK_32 else (1 << 64) - 1)) + 1
        if clears > 1 and clears & (clears - 1) == 0:
            terms, constant = values.linear(inner)
            start = values.total(terms, constant - clears + 1)
            return f"align({self._text(start, depth + 1)}, {clears})"
        return f"{self._atom(inner, depth)} & {mask}"

    def _with_same_parity(self, value: int) -> tuple[Terms, int]:
        """A sum, as terms and constant, with the same lowest bit as *value*.

        For the lowest bit, a complement is an addition of 1, and an xor with a constant is an addition of the constant.
        """
        values, odd = self.values, 0
        while True:
            node = values.node(value)
            if type(node) is Opaque and node.name == "not":
                value, odd = node.operands[0], odd + 1
            elif (
                type(node) is Arithmetic
                and node.name == "xor"
                and (n := next(filter(None, map(values.constant_of, node.operands)), 0))
            ):
                value = next(x for x in node.operands if values.constant_of(x) is None)
                odd += n
            else:
                terms, constant = values.linear(value)
                return terms, constant + odd

    # ------------------------------------------------------------ values that loops change

    def _named(self, phi: int, block: int, depth: int) -> str:
        if phi not in self.names:
            if phi in self._pending:
                raise _Unwritable
            self._pending.add(phi)
            try:
                name, meaning = self._counter(phi) or self._phase_bit(phi, depth) or ("", "")
            finally:
                self._pending.discard(phi)
            if not name:
                raise _Unwritable
            self.names[phi] = Name(name, meaning, block)
        return self.names[phi].name

    def _fresh(self, wanted: str) -> str:
        taken = {name.name for name in self.names.values()}
        names = [*"ijklmn"] if wanted == "i" else [wanted]
        names += [f"{wanted}{number}" for number in range(2, len(taken) + 3)]
        return next(name for name in names if name not in taken)

    def _counter(self, phi: int) -> tuple[str, str] | None:
        found = self.values.induction(phi)
        if found is None:
            return None
        start, step, modulus = found
        try:
            initial = self._text(start, 1)
        except _Unwritable:
            initial = "?"
        if modulus is not None:
            meaning = f"{initial}, then {_by(step)} each iteration, wraps to 0 at {modulus}"
            return self._fresh("stage"), meaning
        return self._fresh("i"), f"{initial}, then {_by(step)} each iteration"

    def _phase_bit(self, phi: int, depth: int) -> tuple[str, str] | None:
        """Name and meaning if *phi* is a bit that iterations of a loop flip; None if it is not."""
        values = self.values
        carried: set[tuple[int | None]] = set()
        starts: dict[int, None] = {}
        for argument in map(values.representative, values.arguments(phi)):
            when = self._flip_of(argument, phi)
            if when is not None:
                carried.add(when)
            elif argument != phi:
                starts[argument] = None
        if len(carried) == len(starts) == 1:
            ((condition,),), (start,) = carried, starts
            return self._phase(start, self._when(condition, depth), depth)
        initial = self._initial(phi)
        return None if initial is None else self._phase(initial, "in some iterations", depth)

    def _phase(self, start: int, when: str, depth: int) -> tuple[str, str]:
        try:
            initial = self._text(start, depth + 1).removeprefix("-")
        except _Unwritable:
            initial = "?"
        return self._fresh("phase"), f"{initial}, flips {when}"

    def _flip_of(self, value: int, phi: int) -> tuple[int | None] | None:
        """When *value* is the complement of *phi*: ``(None,)`` always, ``(p,)`` if p holds, and else *phi* itself.

        None for any other value.
        """
        values, node = self.values, self.values.node(value)
        flipped = self._flip(value)
        if flipped is not None:
            return flipped[1:] if values.representative(flipped[0]) == phi else None
        if type(node) is Select:
            arms = [self._flip_of(arm, phi) for arm in node.arms]
            for arm, other, when in (
                (arms[0], node.no, node.condition),
                (arms[1], node.yes, values.negate(node.condition)),
            ):
                if arm == (None,) and values.representative(other) == phi:
                    return (when,)
        return None

    def _initial(self, phi: int) -> int | None:
        """The initial value of a bit that several loops, or several points of one, flip; None if *phi* is not one."""
        values, starts, flips = self.values, dict[int, None](), False
        work, seen = list(values.arguments(phi)), {phi}
        while work:
            v = values.representative(work.pop())
            if v in seen:
                continue
            seen.add(v)
            if len(seen) > _MAX_PHASE_VALUES:
                return None
            node, flipped = values.node(v), self._flip(v)
            if flipped is not None:
                flips = True
                work.append(flipped[0])
            elif type(node) is Phi:
                work += values.arguments(v)
            elif type(node) is Select and any(map(self._may_flip, node.arms)):
                work += node.arms
            elif type(node) is not Undefined:
                starts[v] = None
        return next(iter(starts)) if flips and len(starts) == 1 else None

    def _when(self, condition: int | None, depth: int) -> str:
        if condition is None:
            return "each iteration"
        try:
            return f"when {self._text(condition, depth + 1)}"
        except _Unwritable:
            return "in some iterations"

    def _may_flip(self, value: int) -> bool:
        """Whether *value* may be a phase bit that is not its initial value."""
        return self.values.is_phi(value) or self._flip(value) is not None

    def _flip(self, value: int) -> tuple[int, int | None] | None:
        """``(bit, p)`` if *value* is the complement of *bit* where p holds, or always if p is None; else None."""
        values = self.values
        node = values.node(value)
        if type(node) is Masked and node.mask == 1:
            return self._flip(node.value)
        if type(node) is Negation:
            return node.operand, None
        if type(node) is Sum:
            terms, constant = values.linear(value)
            return (terms[0][0], None) if len(terms) == 1 and terms[0][1] == -1 and constant == 1 else None
        if isinstance(node, Arithmetic | Logic) and node.name == "xor":
            left, right = node.operands
            for bit, other in ((left, right), (right, left)):
                chosen = values.node(other)
                if values.constant_of(other) == 1:
                    return bit, None
                if type(chosen) is Select:
                    numbers = tuple(map(values.constant_of, chosen.arms))
                    if numbers in ((1, 0), (0, 1)):
                        p = chosen.condition
                        return bit, p if numbers[0] else values.negate(p)
                if type(chosen) is Masked and chosen.mask == 1:
                    return bit, other
        return None


def _by(step: int) -> str:
    return f"{'-' if step < 0 else '+'}{abs(step)}"
