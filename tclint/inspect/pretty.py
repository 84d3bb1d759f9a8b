"""Values in words, as a programmer would write them: ``(i / 4) & 1``, ``align(raw, 1024)``, ``phase``.

A loop counter and a bit that a loop flips get names, and what the names mean
is kept beside them. What cannot be written is left out as a whole.
"""

from __future__ import annotations

from typing import NamedTuple

from tclint.values import Values

__all__ = ["Name", "ValuePrinter"]

_DEEP = 16
_FOLLOWED = 256
"""Expressions that a phase is made of, of which more are not looked at."""
_LONG = 60
"""An expression of more characters says nothing at a glance."""
_SHORT = (1 << 32) - 1
_OPERATORS = {"or": "|", "xor": "^", "and": "&"}


class Name(NamedTuple):
    """A name that an expression uses for what changes in a loop."""

    name: str
    meaning: str
    block: int
    """The head of the loop."""


class _Unwritable(Exception):
    """Some part of an expression has no words."""


class ValuePrinter:
    """Words for the values of one function."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.names: dict[int, Name] = {}
        """The names given so far, by value."""
        self._pending: set[int] = set()

    def text(self, value: int, most: int = _LONG) -> str | None:
        """*value* in words; None where it has none that are short enough, which the name of a variable always is."""
        before = dict(self.names)
        kind = self.values.node(value)[0]
        try:
            found = self._text(value, 0)
        except _Unwritable:
            found = ""
        if not found or (len(found) > most and kind != "symbol"):
            self.names = before
            return None
        return found

    def _text(self, value: int, depth: int) -> str:
        values = self.values
        value = values.representative(value)
        node = values.node(value)
        kind = node[0]
        if depth > _DEEP:
            raise _Unwritable
        divided = values.quotient(value)
        if divided is not None:
            return f"{self._atom(divided[0], depth)} / {divided[1]}"
        if kind == "const":
            return str(node[1])
        if kind in ("symbol", "special"):
            return str(node[1])
        if kind == "sum":
            return self._sum(value, depth)
        if kind == "phi":
            return self._named(value, depth)
        if kind == "op":
            return self._operation(value, depth)
        if kind == "select":
            if (values.constant_of(node[2]), values.constant_of(node[3])) in ((1, 0), (-1, 0)):
                return self._text(node[1], depth + 1)
            condition, yes, no = (self._atom(x, depth) for x in node[1:4])
            return f"{condition} ? {yes} : {no}"
        if kind == "compare":
            sign = "==" if node[1] == "eq" else "<"
            return f"{self._atom(node[2], depth)} {sign} {self._atom(node[3], depth)}"
        if kind == "not":
            inner = values.node(node[1])
            if inner[0] == "compare":
                sign = "!=" if inner[1] == "eq" else ">="
                return f"{self._atom(inner[2], depth)} {sign} {self._atom(inner[3], depth)}"
            return f"!{self._atom(node[1], depth)}"
        if kind == "logic":
            return f" {_OPERATORS[node[1]]} ".join(self._atom(x, depth) for x in node[2:4])
        if kind == "parameter":
            return self._text(node[1], depth + 1)
        if kind == "broadcast":
            return self._text(node[1], depth + 1)
        raise _Unwritable

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

    def _operation(self, value: int, depth: int) -> str:
        values, node = self.values, self.values.node(value)
        name = node[1]
        if name == "mask":
            return self._masked(node[2], node[3], depth)
        if name == "cvt" and len(node) == 4:
            return self._text(node[3], depth + 1)
        if name in _OPERATORS and len(node) == 5:
            first, second = node[3:5]
            if values.constant_of(first) is not None:
                first, second = second, first
            return f"{self._atom(first, depth)} {_OPERATORS[name]} {self._atom(second, depth)}"
        if name == "shr" and (by := values.constant_of(node[4])) is not None and 0 < by < 32:
            return f"{self._atom(node[3], depth)} >> {by}"
        if name == "shl":
            return f"{self._atom(node[3], depth)} << {self._atom(node[4], depth)}"
        if name == "rem" and len(node) == 5:
            return f"{self._atom(node[3], depth)} % {self._atom(node[4], depth)}"
        raise _Unwritable

    def _masked(self, inner: int, mask: int, depth: int) -> str:
        values = self.values
        divided = values.quotient(inner)
        if mask == 1 and divided is not None and values.node(divided[0])[:2] == ("op", "not"):
            return f"({self._atom(values.node(divided[0])[3], depth)} / {divided[1]} + 1) & 1"
        if mask == 1:  # of a sum, only the parity of its parts counts
            terms, constant = self._odd(inner)
            inner = values.total(tuple((t, 1) for t, factor in terms if factor & 1), constant & 1)
        clears = (mask ^ (_SHORT if mask <= _SHORT else (1 << 64) - 1)) + 1
        if clears > 1 and clears & (clears - 1) == 0:
            terms, constant = values.linear(inner)
            start = values.total(terms, constant - clears + 1)
            return f"align({self._text(start, depth + 1)}, {clears})"
        return f"{self._atom(inner, depth)} & {mask}"

    def _odd(self, value: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """A sum with the same lowest bit: a complement, or a 1 that is added bit by bit, changes it as an odd number does."""
        values, odd = self.values, 0
        while True:
            node = values.node(value)
            if node[:2] == ("op", "not"):
                value, odd = node[3], odd + 1
            elif node[:2] == ("op", "xor") and (
                n := next(filter(None, map(values.constant_of, node[3:5])), 0)
            ):
                value = next(x for x in node[3:5] if values.constant_of(x) is None)
                odd += n
            else:
                terms, constant = values.linear(value)
                return terms, constant + odd

    # ------------------------------------------------------------ what loops change

    def _named(self, phi: int, depth: int) -> str:
        if phi not in self.names:
            if phi in self._pending:
                raise _Unwritable
            self._pending.add(phi)
            try:
                name, meaning = self._counter(phi) or self._flipping(phi, depth) or ("", "")
            finally:
                self._pending.discard(phi)
            if not name:
                raise _Unwritable
            self.names[phi] = Name(name, meaning, self.values.node(phi)[1])
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
            began = self._text(start, 1)
        except _Unwritable:
            began = "?"
        if modulus is not None:
            return self._fresh("stage"), f"{began}, then {_by(step)} each round, 0 instead of {modulus}"
        return self._fresh("i"), f"{began}, then {_by(step)} each round"

    def _flipping(self, phi: int, depth: int) -> tuple[str, str] | None:
        """A bit that rounds of a loop flip, and when, if that can be said."""
        values = self.values
        carried: set[tuple[int | None]] = set()
        starts: dict[int, None] = {}
        for argument in map(values.representative, values.arguments(phi)):
            when = self._turned(argument, phi)
            if when is not None:
                carried.add(when)
            elif argument != phi:
                starts[argument] = None
        if len(carried) == len(starts) == 1:
            ((condition,),), (start,) = carried, starts
            return self._phase(start, self._when(condition, depth), depth)
        begins = self._beginning(phi)
        return None if begins is None else self._phase(begins, "in some rounds", depth)

    def _phase(self, start: int, when: str, depth: int) -> tuple[str, str]:
        try:
            began = self._text(start, depth + 1).removeprefix("-")
        except _Unwritable:
            began = "?"
        return self._fresh("phase"), f"{began}, flips {when}"

    def _turned(self, value: int, phi: int) -> tuple[int | None] | None:
        """When *value* is *phi* flipped, and else *phi*: ``(None,)`` always, ``(p,)`` where p holds; None: it is neither."""
        values, node = self.values, self.values.node(value)
        flipped = self._flip(value)
        if flipped is not None:
            return flipped[1:] if values.representative(flipped[0]) == phi else None
        if node[0] == "select":
            arms = [self._turned(arm, phi) for arm in node[2:4]]
            for arm, other, when in ((0, 3, node[1]), (1, 2, values.negate(node[1]))):
                if arms[arm] == (None,) and values.representative(node[other]) == phi:
                    return (when,)
        return None

    def _beginning(self, phi: int) -> int | None:
        """What a bit begins as that several loops, or several places of one, flip; None: that is not what it is."""
        values, starts, flips = self.values, dict[int, None](), False
        work, seen = list(values.arguments(phi)), {phi}
        while work:
            v = values.representative(work.pop())
            if v in seen:
                continue
            seen.add(v)
            if len(seen) > _FOLLOWED:
                return None
            node, flipped = values.node(v), self._flip(v)
            if flipped is not None:
                flips = True
                work.append(flipped[0])
            elif node[0] == "phi":
                work += values.arguments(v)
            elif node[0] == "select" and any(map(self._turns, node[2:4])):
                work += node[2:4]
            elif node[0] != "undefined":
                starts[v] = None
        return next(iter(starts)) if flips and len(starts) == 1 else None

    def _when(self, condition: int | None, depth: int) -> str:
        if condition is None:
            return "each round"
        try:
            return f"when {self._text(condition, depth + 1)}"
        except _Unwritable:
            return "in some rounds"

    def _turns(self, value: int) -> bool:
        """Whether *value* may be a phase, and is none that begins."""
        return self.values.node(value)[0] == "phi" or self._flip(value) is not None

    def _flip(self, value: int) -> tuple[int, int | None] | None:
        """The bit that *value* is the opposite of, and when; no predicate: always."""
        values = self.values
        node = values.node(value)
        if node[:2] == ("op", "mask") and node[3] == 1:
            return self._flip(node[2])
        if node[0] == "not":
            return node[1], None
        if node[0] == "sum":
            terms, constant = values.linear(value)
            return (terms[0][0], None) if len(terms) == 1 and terms[0][1] == -1 and constant == 1 else None
        if node[:2] in (("op", "xor"), ("logic", "xor")):
            for bit, other in (node[-2:], node[:-3:-1]):
                chosen = values.node(other)
                numbers = tuple(map(values.constant_of, chosen[2:4])) if chosen[0] == "select" else ()
                if values.constant_of(other) == 1:
                    return bit, None
                if numbers in ((1, 0), (0, 1)):
                    return bit, chosen[1] if numbers[0] else values.negate(chosen[1])
                if chosen[:2] == ("op", "mask") and chosen[3] == 1:
                    return bit, other
        return None


def _by(step: int) -> str:
    return f"{'-' if step < 0 else '+'}{abs(step)}"
