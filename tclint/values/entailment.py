"""What numbers may be where some comparisons of them, or of what they are made of, are known.

``n - 1 < 3`` as an unsigned number says that ``n & 3`` is n, and ``k >= 1`` that ``max(-2 - k, -3)`` is -3: so a
compiler's loop of four rounds at a time and the loop for the rest belong together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from tclint.values.integers import Range, type_width
from tclint.values.intervals import Bounds
from tclint.values.path_condition import Facts
from tclint.values.value_table import CHOOSING, Node

__all__ = ["Ranges"]

Bases = dict[int, Range]
"""The ranges that are known, by the sum without its constant, or by a number as it is read without a sign."""

_FAR = 1 << 80
_ANY: Range = (-_FAR, _FAR)
_KNOWN = 1 << 70
"""What is beyond it is a bound that is not known, and no number that a register would have to wrap for."""
_DEPTH = 6
"""Expressions within each other that are followed."""
_CHOICES = 2
"""Maxima and minima in one sum, for each of which there are two sums more to look at."""
_FEW = 8
"""Numbers that are still worth a look at what one of them alone would mean."""
_STEP = 1 << 20
"""A loop changes its numbers by so much at most, unless they are meant to wrap."""
_WITHIN = 3
"""Maxima and minima within each other of whose operands something is said."""
_WIDTHS = (8, 16, 32, 64)
"""Bits of numbers that are compared."""
_DIVIDING = (("op", "shr"), ("op", "div"))
"""Operations that divide, some by powers of two."""
_BOUNDED = ("max", "min", "mask", "shr", "div")
"""Operations whose result says less than their operand."""


class _Counter(NamedTuple):
    """A number that rounds of a loop change by the same."""

    start: int
    """What it begins with."""
    step: int
    turns: tuple[bool, ...]
    """For each way to the head of the loop, whether it changes the number."""

    @property
    def steady(self) -> bool:
        """Whether each round changes it."""
        return self.turns.count(False) == 1

    def rounds(self, found: Range, start: Range) -> Range:
        """After how many rounds it is in the range *found*."""
        low, high = found[0] - start[1], found[1] - start[0]
        least, most = (low, high) if self.step > 0 else (-high, -low)
        return max(0, -(-least // abs(self.step))), most // abs(self.step)

    def after(self, rounds: Range, start: Range) -> Range:
        """Where it is after so many rounds."""
        low, high = sorted(self.step * n for n in rounds)
        return max(start[0] + low, -_FAR), min(start[1] + high, _FAR)


def _both(a: Range, b: Range) -> Range:
    """Where both hold; what contradicts itself says nothing."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


def _read(a: Range, width: int, signed: bool) -> Range:
    """What a register of *width* bits with a number of that range is read as; a bound that is not known does not make it wrap."""
    half = 1 << width - 1
    least, most = (-half, half - 1) if signed else (0, 2 * half - 1)
    low = a[0] if a[0] > -_KNOWN else -half
    high = a[1] if a[1] < _KNOWN else half - 1 if low >= 0 else most
    if not signed and high < 0:
        low, high = low + 2 * half, high + 2 * half
    return (low, high) if least <= low <= high <= most else (least, most)


def _wraps(one: Range, two: Range, width: int) -> bool:
    """Whether numbers of two ranges that have none in common may be the same in a register."""
    return any(1 << width <= apart < _KNOWN for apart in (one[1] - two[0], two[1] - one[0]))


class _Division(NamedTuple):
    """A number divided by a constant."""

    number: int
    by: int
    width: int
    signed: bool
    floor: bool
    """Whether it is rounded down, and not towards zero."""

    def quotients(self, numbers: Range) -> Range:
        """What numbers of that range give."""
        low, high = (x // self.by if self.floor or x >= 0 else -(-x // self.by) for x in numbers)
        return low, high

    def numbers(self, quotients: Range) -> Range:
        """What gives quotients of that range."""
        low, high = (x * self.by if abs(x) < _KNOWN else x for x in quotients)
        rest = self.by - 1
        return low - (0 if self.floor or low > 0 else rest), high + (rest if self.floor or high >= 0 else 0)


class Ranges:
    """The ranges of the values of one function."""

    def __init__(self, values: Bounds) -> None:
        self.values = values
        self._made_of: dict[int, frozenset[int]] = {}
        self._bases: dict[int, tuple[int, int, bool]] = {}
        self._choices: dict[int, tuple[tuple[int, bool, int, int], ...]] = {}
        self._counters: dict[int, _Counter | None] = {}
        self._lasts: dict[int, dict[int, bool]] = {}
        self._points: dict[int, tuple[int, int] | None] = {}
        self._mates: dict[tuple[int, int, tuple[bool, ...]], int] = {}
        """One of the numbers that each loop changes in step, by its head and how it changes them."""
        self._same: dict[int, int] = {}
        self._bits: dict[int, tuple[int, int, int] | None] = {}
        self._said: dict[int, tuple[Node, bool] | None] = {}
        self._alone: dict[int, Range] = {}
        self._limits: dict[int, tuple[tuple[int, int, int], ...]] = {}
        self._limited: dict[int, bool] = {}
        self._remains: dict[int, list[tuple[tuple[tuple[int, int], ...], int]]] = {}
        self._divisions: dict[int, _Division | None] = {}
        self._nothing: Bases = {}
        self._learnt: dict[tuple[int, int, bool], tuple[Bases, Bases]] = {}
        """What is known, by its identity, and one fact more to what is known then; and what was known, so that it stays the one."""
        self._decided: dict[tuple[int, int, bool], bool | None] = {}
        """What that says of a comparison, as it stands or moved to one side."""
        self._plain: dict[int, dict[int, int]] = {}
        """What is known in place of numbers that are read without a sign, by how wide these are."""

    def decide(self, p: int, node: Node, facts: Facts) -> bool | None:
        """Whether *p*, a comparison as *node* has it, holds, given what is known of others; None when that does not follow.

        Signed numbers are taken not to wrap, as compilers do.
        """
        known = self.known(facts)
        key = id(known), p, node is self.values.nodes[p]
        if key not in self._decided:
            self._decided[key] = self._decide(p, node, known)
        return self._decided[key]

    def _decide(self, p: int, node: Node, known: Bases) -> bool | None:
        _, relation, left, right, signed, width = node
        if not any(self._concerns(known, side) or self._counting(side) for side in (left, right)):
            return None
        known = self._in_step(known, left, right)
        one, two = self._stated_of(left, known), self._of(right, known, 0)
        if not signed and self.values.known(right) is None:
            below = self._below(left, right, width, known)
            if below is not None:
                return below
        if relation == "eq":
            if one[1] < two[0] or two[1] < one[0]:
                return None if _wraps(one, two, width) else False
            return True if one == two and one[0] == one[1] else self._over(p, known)
        one, two = _read(one, width, signed), _read(two, width, signed)
        if one[1] < two[0]:
            return True
        if one[0] >= two[1]:
            return False
        # Of a comparison that is moved to one side, or negated, that is asked as it stands.
        return self._excluded(p, known) if node is self.values.nodes[p] else None

    def _below(self, left: int, right: int, width: int, known: Bases) -> bool | None:
        """Whether *left* is below *right*, both read without a sign: b - m is below b if m is at most b, and not 0."""
        values = self.values
        for less, more in ((left, right), (right, left)):
            apart = values.add(more, values.times(less, -1))
            low, high = self._plain_of(apart, width, known, 0)
            node = values.node(apart)
            least = (
                node[:2] == ("op", "min")
                and (node[2][1] == "u" and type_width(node[2]) <= width)
                and values.find(more) in map(values.find, node[3:])
            )
            if high == 0 or least or high <= self._plain_of(more, width, known, 0)[0]:
                if less == right or high == 0:
                    return False
                if low > 0:
                    return True
        return None

    def impossible(self, facts: Facts) -> bool:
        """Whether two sums or differences that are within bounds leave nothing of the bounds of a third one, or of few values."""
        values, known = self.values, self.known(facts)
        for (one, (low, high)), (two, ends) in combinations(known.items(), 2):
            for factor in (1, -1):
                base, shift, negative = self._base(values.add(one, values.times(two, factor)))
                there = (0, 0) if values.known(base) is not None else self._of(base, known, 0)
                if there != _ANY:
                    least, most = sorted(end * factor for end in ends)
                    least, most = low + least - shift, high + most - shift
                    least, most = (-most, -least) if negative else (least, most)
                    if (most < there[0] or there[1] < least) and not _wraps((least, most), there, 32):
                        return True
        return False

    def _excluded(self, p: int, known: Bases) -> bool | None:
        """What *p* must be, as otherwise low bits of a number, or a maximum or minimum, were not what it is known to be.

        A loop of two rounds at a time has another one before it for the odd round.
        """
        chosen = [b for b in known if self._chooses(b, known)]
        said = self._comparison(p) if chosen else None
        bases = self.bases(said[0][2]) if said else frozenset()
        near = [b for b in chosen if not bases.isdisjoint(self._parts(b))]
        for truth in (True, False) if near else ():
            there = self.learn(p, truth, known)
            for value in near:
                one, two = known[value], self._of(value, {b: r for b, r in there.items() if b != value}, 0)
                if (one[1] < two[0] or two[1] < one[0]) and not _wraps(one, two, self._width(value)):
                    return not truth
        return None

    def _over(self, p: int, known: Bases) -> bool | None:
        """Whether a loop that ends when *p* holds is at its end, as what it counts is there at least; None: who knows."""
        said = self._comparison(p)
        if said is None:
            return None
        _, _, left, right, *_ = said[0]
        by = self._until(p, left)
        low, high = self._stated_of(left, known)
        limit: int = self.values.nodes[right][1]
        return True if (by > 0 and low >= limit) or (by < 0 and high <= limit) else None

    def _chooses(self, base: int, known: Bases) -> bool:
        """Whether *base* is a maximum or minimum, or bits of what has few values."""
        kind = self.values.node(base)[:2]
        return kind in CHOOSING or (kind == ("op", "mask") and self._few(base, known))

    def _width(self, chosen: int) -> int:
        """The bits of a maximum or minimum; those of others do not matter."""
        node = self.values.node(chosen)
        return type_width(node[2]) if node[:2] in CHOOSING else 32

    def _few(self, bits: int, known: Bases) -> bool:
        """Whether what *bits* are of has few values, so that one more fact can leave a single one."""
        low, high = self._of(self.values.node(bits)[2], known, 0)
        return high - low <= _FEW

    def known(self, facts: Facts) -> Bases:
        """The ranges that *facts* say."""
        if facts.ranges is None:
            facts.ranges = self._nothing
            for fact, truth in facts.items():
                facts.ranges = self.learn(fact, truth, facts.ranges)
        return facts.ranges

    def learn(self, fact: int, truth: bool, known: Bases) -> Bases:
        """*known* with what one more fact says."""
        key = id(known), fact, truth
        if key not in self._learnt:
            self._learnt[key] = known, self._learn(fact, truth, known)
        return self._learnt[key][1]

    def _learn(self, fact: int, truth: bool, known: Bases) -> Bases:
        said = self._comparison(fact)
        if said is None:
            return known
        (_, relation, left, right, signed, width), positive = said
        truth = truth is positive
        limit: int = self.values.nodes[right][1]
        if relation == "eq" and truth:
            bounds: Range = (limit, limit)
        elif relation == "eq" and (by := self._until(fact, left)):
            bounds = (-_FAR, limit - by) if by > 0 else (limit - by, _FAR)
        elif relation == "eq":  # it says something of a number at the end of its range
            low, high = self._ends_of(left, known)
            if limit not in (low, high):
                return self._without(left, width, limit, known)
            bounds = (low + (low == limit), high - (high == limit))
        elif signed:
            bounds = (-_FAR, limit - 1) if truth else (limit, _FAR)
        elif truth and 0 < limit <= 1 << (width - 1):
            bounds = (0, limit - 1)
        elif not truth and limit >= 1 << (width - 1):
            bounds = (limit - (1 << width), -1)
        elif (found := self._of(left, known, 0))[0] >= 0:
            bounds = (0, limit - 1) if truth else (limit, _FAR)
        elif found[1] < 0:
            limit -= 1 << width
            bounds = (-_FAR, limit - 1) if truth else (limit, -1)
        else:  # among them are numbers with either sign
            known = known.copy()
            self._put_plain(left, width, (0, limit - 1) if truth else (limit, (1 << width) - 1), known)
            return known
        known = known.copy()
        self._put(left, bounds, known)
        if (stated := self._stated(left)) != left:
            self._put(stated, bounds, known)
        return known

    def _comparison(self, fact: int) -> tuple[Node, bool] | None:
        if fact not in self._said:
            self._said[fact] = self._compares(fact)
        return self._said[fact]

    def _compares(self, fact: int) -> tuple[Node, bool] | None:
        """The comparison with a constant that *fact* is, and whether it is not the negation; None: it is none."""
        values = self.values
        node, positive = values.nodes[fact], True
        if node[0] != "compare":
            return None
        moved = values.difference(fact)
        if moved is not None:
            node, positive = moved[0], not moved[1]
        elif node[1] == "eq" and values.known(node[3]) is None:
            apart = values.add(node[2], values.times(node[3], -1))
            terms, constant = values.linear(apart)
            node = ("compare", "eq", values.total(terms, 0), values.constant(-constant), *node[4:])
        return (node, positive) if values.known(node[3]) is not None and node[5] in _WIDTHS else None

    def _put(self, value: int, bounds: Range, known: Bases, depth: int = 0) -> None:
        """Adds that *value* is within *bounds*, and what this says of the operand of a maximum or minimum."""
        base, shift, negative = self._base(value)
        low, high = bounds[0] - shift, bounds[1] - shift
        if negative:
            low, high = -high, -low
        low, high = known[base] = _both(known.get(base, _ANY), (low, high))
        if depth < _WITHIN:
            self._put_parts(base, (low, high), known, depth + 1)
        for greatest, one, two in self._chosen(base, known, 0) if depth < _WITHIN else ():
            for way, other in ((one, two), (two, one)):
                # One of two decides where the other one is out of the question.
                least, most = self._of(other, known, 0)
                bounds = (
                    low if not greatest or most < low else -_FAR,
                    high if greatest or least > high else _FAR,
                )
                if bounds != _ANY:
                    self._put(way, bounds, known, depth + 1)

    def _put_plain(self, value: int, width: int, bounds: Range, known: Bases) -> None:
        """Adds that *value*, read without a sign, is within *bounds*."""
        place = self._plain.setdefault(value, {}).setdefault(width, self.values.plain(value, width))
        known[place] = _both(known.get(place, (0, (1 << width) - 1)), bounds)

    def _without(self, value: int, width: int, number: int, known: Bases) -> Bases:
        """*known* where *value* is not *number*, if that is the least or the greatest that it may be read as without a sign."""
        every = (1 << width) - 1
        low, high = known.get(self.values.plain(value, width), (0, every))
        number &= every
        if number in (low, high):
            known = known.copy()
            self._put_plain(value, width, (low + (number == low), high - (number == high)), known)
        return known

    def _put_parts(self, base: int, bounds: Range, known: Bases, depth: int) -> None:
        """What it says of what *base* is made of that this is within *bounds*: of a number of which low bits are left out.

        And of one of two numbers, where the other one is known.
        """
        values, (low, high) = self.values, bounds
        node = values.node(base)
        if node[:2] == ("op", "mask") and (node[3] < 0 or node[3] >> 31 == 1):
            rest = ~node[3] if node[3] < 0 else ~node[3] & 0xFFFFFFFF
            if not rest & rest + 1:
                self._put(node[2], (low, high + rest), known, depth)
        elif node[:2] == ("op", "mask") and self._few(base, known):
            least, most = self._of(node[2], known, 0)
            numbers = [x for x in range(least, most + 1) if low <= x & node[3] <= high]
            if numbers:
                self._put(node[2], (numbers[0], numbers[-1]), known, depth)
        elif (division := self._division(base)) is not None:
            number, _, width, signed, _ = division
            least, most = division.numbers((low if signed else max(low, 0), high))
            if signed or least <= most < 1 << width - 1:
                self._put(number, (least, most), known, depth)
            else:
                self._put_plain(number, width, (least, most), known)
        terms, _ = values.linear(base)
        if len(terms) == 2:
            for (one, factor), (other, times) in (terms, terms[::-1]):
                if factor in (1, -1) and other in known:
                    ends = sorted(end * times for end in known[other])
                    least, most = low - ends[1], high - ends[0]
                    self._put(one, (least, most) if factor == 1 else (-most, -least), known, depth)
        elif len(terms) == 1 and depth < _WITHIN:
            for both in [b for b in known if b != base]:
                there, _ = values.linear(both)
                if len(there) == 2 and any(t == base for t, _ in there):
                    self._put_parts(both, known[both], known, depth + 1)

    def _chosen(self, base: int, known: Bases, depth: int) -> Iterator[tuple[bool, int, int]]:
        """For each maximum or minimum in it the two sums of which *base* is the greatest (else the least).

        One of unsigned numbers is one where both are known to have the same sign.
        """
        for term, greatest, one, two in self._ways(base):
            _, _, kind, *operands = self.values.node(term)
            bounds = [self._of(operand, known, depth) for operand in operands if kind[1] != "s"]
            if all(low >= 0 for low, _ in bounds) or all(high < 0 for _, high in bounds):
                yield greatest, one, two

    def _ways(self, base: int) -> tuple[tuple[int, bool, int, int], ...]:
        """The same, with the maximum or minimum, as if all numbers were signed."""
        if base not in self._choices:
            values = self.values
            terms, _ = values.linear(base)
            limited = [(t, f) for t, f in terms if values.node(t)[:2] in CHOOSING]
            found = []
            for term, factor in limited if len(limited) <= _CHOICES else ():
                _, name, _, *operands = values.node(term)
                rest = values.total(tuple(t for t in terms if t[0] != term), 0)
                one, two = (values.add(rest, values.times(operand, factor)) for operand in operands)
                found.append((term, (name == "max") is (factor > 0), one, two))
            self._choices[base] = tuple(found)
        return self._choices[base]

    def _concerns(self, known: Bases, value: int) -> bool:
        return (
            self._base(value)[0] in known
            or any(place in known for place in self._plain.get(value, {}).values())
            or not known.keys().isdisjoint(self._parts(value))
        )

    def bases(self, value: int) -> frozenset[int]:
        """What *value* is within a range because of: itself and its parts, each without its constant."""
        return self._parts(value) | {self._base(value)[0]}

    def _parts(self, value: int) -> frozenset[int]:
        """What *value* is made of by sums and :data:`_BOUNDED` operations, each sum without its constant.

        Nothing where there is no such operation: what follows of plain sums, comparisons say of each other.
        """
        found = self._made_of.get(value)
        if found is None:
            roots: set[int] = set()
            bounded = self._collect(value, roots, 0)
            found = self._made_of[value] = frozenset(roots if bounded else ())
        return found

    def _ends_of(self, value: int, known: Bases) -> Range:
        """The range of what is known to have one, of a maximum or minimum, or of bits of what has few values."""
        base = self._base(value)[0]
        return self._of(value, known, 0) if base in known or self._chooses(base, known) else _ANY

    def _collect(self, value: int, roots: set[int], depth: int) -> bool:
        """Adds to *roots*; whether there is a bounded operation."""
        node = self.values.node(value)
        if node[0] == "const":
            return False
        roots.add(self._base(value)[0])
        bounded = node[0] == "op" and node[1] in _BOUNDED
        if (division := self._division(value)) is not None and not division.signed:
            roots.add(self.values.plain(division.number, division.width))
        if node[:2] in CHOOSING and node[2][1] == "u":
            roots.update(self.values.plain(part, type_width(node[2])) for part in node[3:])
        found = bounded
        if depth < _DEPTH and (bounded or node[0] == "sum"):
            for part in self.values.parts(node):
                found |= self._collect(part, roots, depth + 1)
            for _, _, *ways in self._ways(self._base(value)[0]) if node[0] == "sum" else ():
                for way in ways:
                    self._collect(way, roots, depth + 2)
        return found

    def _base(self, value: int) -> tuple[int, int, bool]:
        """*value* as a sum without a constant, which may be negated, and the constant."""
        found = self._bases.get(value)
        if found is None:
            terms, constant = self.values.linear(value)
            negative = bool(terms) and terms[0][1] < 0
            if negative:
                terms = tuple((t, -f) for t, f in terms)
            found = self._bases[value] = self.values.total(terms, 0), constant, negative
        return found

    def _of(self, value: int, known: Bases, depth: int) -> Range:
        """The range of *value*."""
        node = self.values.node(value)
        if node[0] == "const":
            return node[1], node[1]
        if known.keys().isdisjoint(self._parts(value)):
            found = self._alone.get(value)
            if found is None:
                found = self._alone[value] = self._computed(value, node, {}, depth)
        else:
            found = self._computed(value, node, known, depth)
        base, shift, negative = self._base(value)
        if base in known:
            low, high = known[base]
            low, high = (-high, -low) if negative else (low, high)
            found = _both(found, (low + shift, high + shift))
        met = self._limits.get(base)
        if met or met is None:
            low, high = self._within(base, known, depth)
            low, high = (-high, -low) if negative else (low, high)
            found = _both(found, (low + shift, high + shift))
        for width, place in self._plain.get(value, {}).items() if known else ():
            if place in known and (found[0] >= 0 or found[1] < 0):
                less = 1 << width if found[1] < 0 else 0
                low, high = known[place]
                # The ends of a register are none of a number that does not wrap.
                low, high = low - less if low else -_FAR, high - less if high + 1 < 1 << width else _FAR
                found = _both(found, (low, high))
        return found

    def _computed(self, value: int, node: Node, known: Bases, depth: int) -> Range:
        """What the ranges of its operands say of *value*."""
        values = self.values
        if depth > _DEPTH:
            return _ANY
        if node[0] == "sum":
            low = high = node[2]
            terms = node[1]
            for rest, number in self._rests(value):
                if number < 0 or self._of(number, known, depth + 1)[0] >= 0:
                    terms = rest
                    break
            for term, factor in terms:
                ends = [end * factor for end in self._of(term, known, depth + 1)]
                low, high = low + min(ends), high + max(ends)
            return self._narrowed(value, (max(low, -_FAR), min(high, _FAR)), known, depth + 2)
        if node[:2] in CHOOSING:
            found = _ANY
            if node[2][1] == "u":
                width, choose = type_width(node[2]), min if node[1] == "min" else max
                low, high = map(choose, *(self._plain_of(part, width, known, depth + 1) for part in node[3:]))
                found = (low, high) if high < 1 << width - 1 else _ANY
            return self._narrowed(value, found, known, depth + 1)
        if node[0] == "op" and node[1] == "mask":
            low, high = self._of(node[2], known, depth + 1)
            mask = node[3]
            if low == high:
                return low & mask, low & mask
            if low >= 0 and high <= mask and not mask & (mask + 1):
                return low, high
            return (0, mask) if mask >= 0 else _ANY
        if (division := self._division(value)) is not None:
            number, _, width, signed, _ = division
            if not signed:
                return division.quotients(self._plain_of(number, width, known, depth + 1))
            return division.quotients(_read(self._of(number, known, depth + 1), width, signed))
        found = values.interval(value) or _ANY
        counter = self._counter(value)
        if counter is not None:
            low, high = self._of(counter.start, known, depth + 1)
            found = _both(found, (low, _FAR) if counter.step > 0 else (-_FAR, high))
        return found

    def _rests(self, value: int) -> list[tuple[tuple[tuple[int, int], ...], int]]:
        """The terms of a sum in which a number is taken from itself without some low bits: with these bits instead of the two.

        Each with the number if that must not be negative, as its sign is left out as well, or -1.
        """
        found = self._remains.get(value)
        if found is None:
            values = self.values
            found = self._remains[value] = []
            factors = dict(values.linear(value)[0])
            for term, factor in factors.items():
                node = values.node(term)
                number = values.find(node[2]) if node[:2] == ("op", "mask") else -1
                if factors.get(number) != -factor:
                    continue
                for width in (0, 31, 32, 63, 64):
                    bits = ((1 << width) - 1 if width else -1) - node[3]
                    if bits > 0 and not bits & bits + 1:
                        rest = values.times(values.masked(number, bits, 64), -factor)
                        others = tuple((t, f) for t, f in factors.items() if t not in (term, number))
                        whole = values.linear(values.add(values.total(others, 0), rest))[0]
                        found.append((whole, number if width % 32 else -1))
        return found

    def _plain_of(self, value: int, width: int, known: Bases, depth: int) -> Range:
        """The range of *value*, read without a sign."""
        bounds = _read(self._of(value, known, depth), width, False)
        place = self._plain.get(value, {}).get(width)
        return bounds if place not in known else _both(bounds, known[place])

    def _division(self, value: int) -> _Division | None:
        """*value* as a quotient, rounded as its instruction does; None: it is none."""
        if value not in self._divisions:
            found: _Division | None = None
            node = self.values.node(value)
            by = self.values.known(node[4]) if node[:2] in _DIVIDING and len(node) == 5 else None
            if by is not None and by > 0:
                kind = node[2] if isinstance(node[2], str) else node[2][-1]
                width, signed, shifts = type_width(kind), kind[1] == "s", node[1] == "shr"
                by = (1 << by if by < width else 0) if shifts else by
                if kind[1] in "bus" and 1 < by < 1 << width - (signed and not shifts):
                    found = _Division(node[3], by, width, signed, shifts)
            self._divisions[value] = found
        return self._divisions[value]

    def _narrowed(self, value: int, found: Range, known: Bases, depth: int) -> Range:
        """*found* with what the maxima and minima in *value*, or that it is, say of it."""
        base, shift, negative = self._base(value)
        for greatest, *ways in self._chosen(base, known, depth):
            one, two = (self._of(way, known, depth) for way in ways)
            choose = max if greatest else min
            least, most = choose(one[0], two[0]), choose(one[1], two[1])
            least, most = (-most, -least) if negative else (least, most)
            found = _both(found, (least + shift, most + shift))
        return found

    def _counter(self, value: int) -> _Counter | None:
        """How a loop counts *value*; None: it does not."""
        if value not in self._counters:
            found: _Counter | None = None
            values = self.values
            steps = values.steps(value)
            if len(steps) == 1 and abs(min(steps)) <= _STEP:
                arguments = values.arguments(value)
                ends = [values.linear(a) for a in arguments]
                starts = {a for a, (terms, _) in zip(arguments, ends, strict=True) if terms != ((value, 1),)}
                turns = tuple(by in steps and terms == ((value, 1),) for terms, by in ends)
                found = _Counter(starts.pop(), min(steps), turns) if len(starts) == 1 else None
            self._counters[value] = found
        return self._counters[value]

    def _in_step(self, known: Bases, *sides: int) -> Bases:
        """*known* with the ranges of numbers in *sides* that a loop changes in the same rounds as one that it has."""
        node = self.values.node
        found = known
        for value in {term for side in sides for term, _ in self.values.linear(side)[0]}.difference(known):
            counter = self._counter(value)
            if counter is None or not counter.steady:
                continue
            for other in known:
                mate = self._counter(other) if node(other)[:2] == node(value)[:2] else None
                if mate is not None and mate.turns == counter.turns:
                    rounds = mate.rounds(known[other], self._of(mate.start, known, 0))
                    found = found | {value: counter.after(rounds, self._of(counter.start, known, 0))}
        return found

    def _until(self, fact: int, value: int, truth: bool = True) -> int:
        """By how much *value* grows in each round of a loop that goes on until *fact* is *truth* of it; 0: there is none.

        One by one, or where nothing else ends the loop: that begins before the end of its count then, and does not go past
        it. Otherwise it would go on until the number wraps.
        """
        values = self.values
        counted = [(t, f, c.step) for t, f in values.linear(value)[0] if (c := self._counter(t)) is not None]
        if len(counted) != 1:
            return 0
        ((counter, factor, step),) = counted
        head = values.node(counter)[1]
        by: int = factor * step
        if self._ends(head).get(fact) is not truth or self._moves(head, value):
            return 0
        return by if abs(by) == 1 or (abs(factor) == 1 and self._sole(head)) else 0

    def counts_the_rest(self, head: int, p: int) -> bool:
        """Whether a loop goes round for the rest of a division by a power of two, and *p* is not what ends it.

        Compilers put one behind a loop that is unrolled.
        """
        values, ends = self.values, self._ends(head)
        if values.find(p) in ends:
            return False
        for fact in ends:
            said = self._comparison(fact)
            for term, _ in values.linear(said[0][2])[0] if said is not None else ():
                counter = self._counter(term)
                for start, _ in values.linear(counter.start)[0] if counter is not None else ():
                    node = values.node(start)
                    if node[:2] == ("op", "mask") and node[3] > 0 and not node[3] & node[3] + 1:
                        return True
        return False

    def _moves(self, head: int, value: int) -> bool:
        """Whether something else of *value* changes in a loop than what counts its rounds."""
        cfg, values = self.values.cfg, self.values
        loop = cfg.loops.get(head, frozenset())
        return any(
            (at if kind == "block" else cfg.block_of[at]) in loop
            for term, _ in values.linear(value)[0]
            if self._counter(term) is None
            for kind, at in values.volatile(term)
        )

    def _sole(self, head: int) -> bool:
        """Whether a loop is left in one place only."""
        cfg = self.values.cfg
        loop = cfg.loops.get(head, frozenset())
        leaving = sum(edge.target not in loop for block in loop for edge in cfg.successors[block])
        return leaving == 1 and loop.isdisjoint(cfg.exits)

    def limited(self, p: int) -> bool:
        """Whether a loop says something of what *p* compares, whatever is known."""
        found = self._limited.get(p)
        if found is None:
            node = self.values.nodes[p]
            apart = self.values.add(node[2], self.values.times(node[3], -1))
            found = self._limited[p] = bool(self._met(self._base(apart)[0]))
        return found

    def _within(self, base: int, known: Bases, depth: int) -> Range:
        """Where a sum without its constant is in all rounds of a loop that ends when it has got to a number.

        Or when a sum has that this one is not far from: ``i`` is below n where it ends at ``n - (n & 3)``.
        """
        found = _ANY
        for low, high, rest in self._met(base) if depth <= _DEPTH else ():
            least, most = self._of(rest, known, depth + 1)
            found = _both(found, (max(low + least, -_FAR), min(high + most, _FAR)))
        return found

    def _met(self, base: int) -> tuple[tuple[int, int, int], ...]:
        """Ranges of sums in all rounds of a loop, and how far *base* is from each, which no round changes."""
        found = self._limits.get(base)
        if found is None:
            values = self.values
            heads = {values.node(t)[1] for t, _ in values.linear(base)[0] if self._counter(t) is not None}
            ends = ((head, fact) for head in heads for fact, truth in self._ends(head).items() if truth)
            each = (self._until_met(head, fact, base) for head, fact in ends)
            found = self._limits[base] = tuple(bound for bound in each if bound is not None)
        return found

    def _until_met(self, head: int, fact: int, base: int) -> tuple[int, int, int] | None:
        """The same of one loop, if that is left where *fact* says that two numbers are equal, and nowhere else."""
        values, said = self.values, self._comparison(fact)
        if said is None or said[0][1] != "eq":
            return None
        left, limit = said[0][2], values.known(said[0][3])
        by, (own, shift, negative) = self._until(fact, left), self._base(left)
        if not by or limit is None or not self._sole(head):
            return None
        end = shift - limit if negative else limit - shift
        low, high = (-_FAR, end) if (by > 0) is not negative else (end, _FAR)
        for factor in (1, -1):
            rest = values.add(self._stated(base), values.times(self._stated(own), -factor))
            if not any(self._counter(t) for t, _ in values.linear(rest)[0]):
                return (low, high, rest) if factor == 1 else (-high, -low, rest)
        return None

    def bits(self, p: int, facts: Facts) -> bool | None:
        """Whether bits of a number are what *p* compares them with, as others say of bits of the same; None: they do not.

        ``n & 1`` is not 0, so ``n & 3`` is not 2.
        """
        asked = self._tested_bits(p)
        if asked is None:
            return None
        if facts.bits is None:
            facts.bits = {}
            for fact, truth in facts.items():
                said = self._tested_bits(fact)
                if said is None:
                    continue
                value, mask, bits = said
                # That one bit is not what it is compared with says what it is.
                if truth or not mask & mask - 1:
                    zeros, ones = facts.bits.get(value, (0, 0))
                    bits = bits if truth else bits ^ mask
                    facts.bits[value] = zeros | mask & ~bits, ones | bits
        value, mask, bits = asked
        zeros, ones = facts.bits.get(value, (0, 0))
        if zeros & bits or ones & mask & ~bits:
            return False
        return True if mask & ~(zeros | ones) == 0 else None

    def _tested_bits(self, p: int) -> tuple[int, int, int] | None:
        """``(value, mask, bits)`` when *p* asks whether bits of a value, those of the mask, are the same as these."""
        if p not in self._bits:
            found, values = None, self.values
            node = values.nodes[p]
            number = values.known(node[3]) if node[:2] == ("compare", "eq") else None
            masked = values.node(node[2]) if number is not None else ()
            if number is not None and masked[:2] == ("op", "mask"):
                value, mask = values.find(masked[2]), masked[3] & (1 << node[5]) - 1
                bits = number & (1 << node[5]) - 1
                division = self._division(value)
                if division is not None and division.floor and mask * division.by < 1 << division.width:
                    value, mask, bits = values.find(division.number), mask * division.by, bits * division.by
                found = (value, mask, bits) if not bits & ~mask else None
            self._bits[p] = found
        return self._bits[p]

    def equated(self, p: int, facts: Facts) -> bool | None:
        """Whether *p*, a comparison, holds, as it is known of others whether the same two numbers are equal."""
        values = self.values
        _, relation, left, right, *_ = values.nodes[p]
        equal = self._equal(p, facts)
        if relation == "eq" or equal is None:
            return equal
        if equal:
            return False
        # One by one, they become equal before one is beyond the other.
        apart = values.add(left, values.times(right, -1))
        return True if abs(self._until(p, apart, False)) == 1 else None

    def _equal(self, p: int, facts: Facts) -> bool | None:
        """Whether the two sides of a comparison are equal, as others of the same difference say; None: they do not."""
        place = self.point(p)
        if place is None:
            return None
        if facts.points is None:
            facts.points = {}
            for fact, truth in facts.items():
                if self.values.nodes[fact][:2] == ("compare", "eq") and (point := self.point(fact)):
                    facts.points.setdefault(point[0], {})[point[1]] = truth
        base, number = place
        known = facts.points.get(base)
        if known is None or number in known:
            return known[number] if known else None
        return False if True in known.values() else None

    def point(self, p: int) -> tuple[int, int] | None:
        """Of a comparison of two numbers, the difference, and what this is without its constant where both are equal.

        Numbers that a loop changes in step are all expressed by one of them: ``i == n - 1`` and ``i - n + 1 != 0`` are about
        the same, whatever the compiler counts. None: one side is a constant, and the other no counter.
        """
        if p not in self._points:
            self._points[p] = self._point(self.values.nodes[p])
        return self._points[p]

    def _point(self, node: Node) -> tuple[int, int] | None:
        values = self.values
        if node[0] != "compare" or node[5] not in (32, 64):
            return None
        apart = values.add(node[2], values.times(node[3], -1))
        terms, constant = values.linear(self._stated(apart))
        counters = filter(None, (self._counter(term) for term, _ in terms))
        if not terms or (
            values.known(node[3]) is not None and len(terms) == 1 and not any(c.steady for c in counters)
        ):
            return None
        negative = terms[0][1] < 0
        if negative:
            terms = tuple((t, -f) for t, f in terms)
        return values.total(terms, 0), constant if negative else -constant

    def _stated(self, value: int) -> int:
        """*value*, where of the numbers in it that a loop changes in step all are expressed by one of them."""
        found = self._same.get(value)
        if found is None:
            values = self.values
            total = dict[int, int]()
            terms, constant = values.linear(value)
            work = list(terms)
            while work:
                term, factor = work.pop()
                if (moved := values.taken_out(term)) is not None:
                    term, by = moved
                    constant += by * factor
                counter = self._counter(term)
                if counter is not None and counter.steady:
                    way = values.node(term)[1], abs(counter.step), counter.turns
                    mate = self._mates.setdefault(way, term)
                    if mate != term and (other := self._counter(mate)) is not None:
                        same = counter.step // other.step
                        more, apart = values.linear(
                            values.add(counter.start, values.times(other.start, -same))
                        )
                        constant += apart * factor
                        work += [(t, f * factor) for t, f in more]
                        term, factor = mate, factor * same
                total[term] = total.get(term, 0) + factor
            terms = tuple(sorted((t, f) for t, f in total.items() if f))
            found = self._same[value] = values.total(terms, constant)
        return found

    def _stated_of(self, value: int, known: Bases) -> Range:
        """The range of *value*, as what a loop changes in step with it says as well."""
        found = self._of(value, known, 0)
        stated = self._stated(value)
        return found if stated == value else _both(found, self._of(stated, known, 0))

    def _ends(self, head: int) -> dict[int, bool]:
        """What each round of a loop asks to know whether it is the last one, and what the answer is then."""
        if head not in self._lasts:
            values, cfg = self.values, self.values.cfg
            loop = cfg.loops.get(head, frozenset())
            back = [edge.source for edge in cfg.predecessors[head] if edge.source in loop]
            found = dict[int, bool]()
            for block in loop:
                for edge in cfg.successors[block]:
                    if (
                        edge.target not in loop
                        and edge.predicate >= 0
                        and all(cfg.dominates(block, b) for b in back)
                    ):
                        p = values.find(values.before(edge.predicate, cfg.blocks[block].end - 1))
                        found[p] = edge.value
                        if values.node(p)[0] == "not":
                            found[values.find(values.node(p)[1])] = not edge.value
            self._lasts[head] = found
        return self._lasts[head]

    def _counting(self, value: int) -> bool:
        """Whether there is a number of a loop in *value* that only gets greater, or only less."""
        return any(self._counter(term) is not None for term, _ in self.values.linear(value)[0])
