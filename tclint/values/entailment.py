"""Which comparisons follow from known comparisons of the same values, of their operands, or of loop counters.

A *base* is a sum without its constant, with a positive first factor. A path condition is condensed into *known ranges*:
for each base, the interval to which comparisons with constants confine it; for a number that is read as unsigned, the
interval of that reading. A fact about a base is propagated to its operands where their range follows (masks that clear
low bits, divisions, minima and maxima, sums of two terms). A query computes the ranges of both sides bottom-up,
intersects them with the known ranges, and compares them. ``n - 1 < 3`` unsigned implies ``n & 3 == n``, and ``k >= 1``
implies ``max(-2 - k, -3) == -3``: this is how a loop unrolled by four and its remainder loop are related.

Loops contribute to ranges in two ways. In a loop whose only exit is ``i == n``, i does not pass n (a *loop bound*).
Counters that the same iterations change are linear functions of each other (*lockstep*); in the *canonical* form of a
sum, one of them represents all. Where ranges do not decide a comparison, these are tried:

- *exit*: the exit condition of a loop must hold once its counter has reached the limit;
- *contradiction*: the opposite leaves no value for a minimum, a maximum or a few bits;
- *points*: the constants that a difference is known to equal or not to equal;
- *bits*: the bits of a value that are known from tests of other masks of it.

An unknown range is unbounded, and each ``MAX_...`` below costs precision only. Two assumptions are unsound. Signed
numbers do not wrap, as compilers assume. A loop that ends when a counter equals a limit starts on the right side of it
and does not step over it, since it would otherwise iterate until the counter wraps.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from tclint.values.integers import Range, type_width
from tclint.values.intervals import Bounds
from tclint.values.path_condition import PathCondition
from tclint.values.value_table import MIN_MAX, Node

__all__ = ["ConditionalIntervals"]

KnownRanges = dict[int, Range]
"""Known ranges: by base, or by a number read as unsigned (:meth:`ValueTable.plain`)."""

_INFINITY = 1 << 80
"""The absolute value of an unbounded end of a range."""
_UNBOUNDED: Range = (-_INFINITY, _INFINITY)
_MAX_FINITE_BOUND = 1 << 70
"""An end of a range beyond this is unbounded, and not a value that would have to wrap in a register."""
MAX_EXPRESSION_DEPTH = 6
"""Nesting of expressions that is followed; the range of a deeper one is unbounded."""
MAX_CHOICES_PER_SUM = 2
"""Maxima and minima in one sum that are split into their two arms: each of them needs the ranges of two more sums."""
MAX_VALUES_ENUMERATED = 8
"""The largest distance between the ends of a range whose values are tried one by one."""
MAX_COUNTER_STEP = 1 << 20
"""The largest step of a loop counter. A value that changes by more is meant to wrap, and is not a counter."""
MAX_PROPAGATION_DEPTH = 3
"""Nesting of operations to whose operands the range of a result is propagated."""
_COMPARED_WIDTHS = (8, 16, 32, 64)
"""Widths in bits of the integer comparisons that are understood."""
_DIVISIONS = (("op", "shr"), ("op", "div"))
"""Operations that divide; a shift divides by a power of two."""
_BOUNDED_OPERATIONS = ("max", "min", "mask", "shr", "div")
"""Operations that lose information, so the range of the result does not give that of the operand."""


class _Counter(NamedTuple):
    """A value that a loop changes by a constant: by the same in every iteration that changes it."""

    start: int
    """Its value on entry to the loop."""
    step: int
    advances: tuple[bool, ...]
    """For each edge into the loop header, whether the counter advances along it."""

    @property
    def in_every_iteration(self) -> bool:
        """Whether every iteration advances the counter: only the entry does not."""
        return self.advances.count(False) == 1

    def iterations_to(self, found: Range, start: Range) -> Range:
        """The numbers of iterations after which the counter is in the range *found*."""
        low, high = found[0] - start[1], found[1] - start[0]
        least, most = (low, high) if self.step > 0 else (-high, -low)
        return max(0, -(-least // abs(self.step))), most // abs(self.step)

    def after(self, iterations: Range, start: Range) -> Range:
        """The range of the counter after that many iterations."""
        low, high = sorted(self.step * n for n in iterations)
        return max(start[0] + low, -_INFINITY), min(start[1] + high, _INFINITY)


def _intersect(a: Range, b: Range) -> Range:
    """The intersection of two ranges; the first one if they are disjoint, so a contradiction implies nothing."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


def _as_read(a: Range, width: int, signed: bool) -> Range:
    """The range of a register of *width* bits that holds a value in *a*; an unbounded end does not make it wrap."""
    half = 1 << width - 1
    least, most = (-half, half - 1) if signed else (0, 2 * half - 1)
    low = a[0] if a[0] > -_MAX_FINITE_BOUND else -half
    high = a[1] if a[1] < _MAX_FINITE_BOUND else half - 1 if low >= 0 else most
    if not signed and high < 0:
        low, high = low + 2 * half, high + 2 * half
    return (low, high) if least <= low <= high <= most else (least, most)


def _may_be_congruent(one: Range, two: Range, width: int) -> bool:
    """Whether values of two disjoint ranges can still be equal modulo the size of a register."""
    return any(
        1 << width <= difference < _MAX_FINITE_BOUND for difference in (one[1] - two[0], two[1] - one[0])
    )


class _Division(NamedTuple):
    """A value divided by a constant."""

    number: int
    by: int
    width: int
    signed: bool
    floor: bool
    """Whether the quotient is rounded down, and not towards zero."""

    def quotients(self, numbers: Range) -> Range:
        """The range of the quotients of *numbers*."""
        low, high = (x // self.by if self.floor or x >= 0 else -(-x // self.by) for x in numbers)
        return low, high

    def numbers(self, quotients: Range) -> Range:
        """The range of the dividends whose quotients are in *quotients*."""
        low, high = (x * self.by if abs(x) < _MAX_FINITE_BOUND else x for x in quotients)
        rest = self.by - 1
        return low - (0 if self.floor or low > 0 else rest), high + (rest if self.floor or high >= 0 else 0)


class ConditionalIntervals:
    """The ranges of the values of one function, under a path condition or without one."""

    def __init__(self, values: Bounds) -> None:
        self.values = values
        self._part_cache: dict[int, frozenset[int]] = {}
        self._bases: dict[int, tuple[int, int, bool]] = {}
        self._alternative_cache: dict[int, tuple[tuple[int, bool, int, int], ...]] = {}
        self._counters: dict[int, _Counter | None] = {}
        self._exit_condition_cache: dict[int, dict[int, bool]] = {}
        self._points: dict[int, tuple[int, int] | None] = {}
        self._mates: dict[tuple[int, int, tuple[bool, ...]], int] = {}
        """A representative of each class of lockstep counters, by loop header, step size and advancing edges."""
        self._canonical_cache: dict[int, int] = {}
        self._bits: dict[int, tuple[int, int, int] | None] = {}
        self._comparison_cache: dict[int, tuple[Node, bool] | None] = {}
        self._unconditional: dict[tuple[int, int], Range] = {}
        """``(value, depth)`` -> range. The depth is part of the question: what is found near the limit is less precise."""
        self._loop_bound_cache: dict[int, tuple[tuple[int, int, int], ...]] = {}
        self._bounded_by_loop: dict[int, bool] = {}
        self._remainder_form_cache: dict[int, list[tuple[tuple[tuple[int, int], ...], int]]] = {}
        self._divisions: dict[int, _Division | None] = {}
        self._no_ranges: KnownRanges = {}
        self._refined: dict[tuple[int, int, bool], tuple[KnownRanges, KnownRanges]] = {}
        """``(id(known), fact, truth)`` -> ``(known, refined)``. Stores the key object so that its id stays unique."""
        self._entailed: dict[tuple[int, int, bool], bool | None] = {}
        """``(id(known), predicate, whether in its own form)`` -> answer. :attr:`_refined` keeps *known* alive."""
        self._unsigned_views: dict[int, dict[int, int]] = {}
        """Number -> width -> the value under which the known ranges hold its unsigned reading."""

    def entails(self, p: int, node: Node, facts: PathCondition) -> bool | None:
        """Whether *p* holds under *facts*; None when neither answer follows.

        *node* is the comparison itself, or *p* rewritten as a comparison of a difference. Signed numbers are assumed
        not to wrap, as compilers do.
        """
        known = self.known(facts)
        key = id(known), p, node is self.values.nodes[p]
        if key not in self._entailed:
            self._entailed[key] = self._entails(p, node, known)
        return self._entailed[key]

    def _entails(self, p: int, node: Node, known: KnownRanges) -> bool | None:
        _, relation, left, right, signed, width = node
        if not any(self._mentions(known, side) or self._has_counter(side) for side in (left, right)):
            return None
        known = self._with_lockstep_ranges(known, left, right)
        one, two = self._canonical_range_of(left, known), self._range_of(right, known, 0)
        if not signed and self.values.constant_of(right) is None:
            below = self._below(left, right, width, known)
            if below is not None:
                return below
        if relation == "eq":
            if one[1] < two[0] or two[1] < one[0]:
                return None if _may_be_congruent(one, two, width) else False
            return True if one == two and one[0] == one[1] else self._exit_reached(p, known)
        one, two = _as_read(one, width, signed), _as_read(two, width, signed)
        if one[1] < two[0]:
            return True
        if one[0] >= two[1]:
            return False
        # The caller asks about *p* in its own form as well, which is enough for this search.
        return self._by_contradiction(p, known) if node is self.values.nodes[p] else None

    def _below(self, left: int, right: int, width: int, known: KnownRanges) -> bool | None:
        """Whether *left* < *right*, both unsigned. b - m is below b if m is at most b, and not 0. None if unknown."""
        values = self.values
        for less, more in ((left, right), (right, left)):
            difference = values.add(more, values.times(less, -1))
            low, high = self._unsigned_range_of(difference, width, known, 0)
            node = values.node(difference)
            least = (
                node[:2] == ("op", "min")
                and (node[2][1] == "u" and type_width(node[2]) <= width)
                and values.representative(more) in map(values.representative, node[3:])
            )
            if high == 0 or least or high <= self._unsigned_range_of(more, width, known, 0)[0]:
                if less == right or high == 0:
                    return False
                if low > 0:
                    return True
        return None

    def impossible(self, facts: PathCondition) -> bool:
        """Whether the known ranges of two bases contradict that of their sum or difference."""
        values, known = self.values, self.known(facts)
        for (one, (low, high)), (two, ends) in combinations(known.items(), 2):
            for factor in (1, -1):
                base, shift, negative = self._base(values.add(one, values.times(two, factor)))
                there = (0, 0) if values.constant_of(base) is not None else self._range_of(base, known, 0)
                if there != _UNBOUNDED:
                    least, most = sorted(end * factor for end in ends)
                    least, most = low + least - shift, high + most - shift
                    least, most = (-most, -least) if negative else (least, most)
                    if (most < there[0] or there[1] < least) and not _may_be_congruent(
                        (least, most), there, 32
                    ):
                        return True
        return False

    def _by_contradiction(self, p: int, known: KnownRanges) -> bool | None:
        """The truth of *p* if its opposite leaves no value for some bits, a maximum or a minimum; otherwise None.

        This relates a loop unrolled by two to the odd iteration that runs before it.
        """
        chosen = [b for b in known if self._is_choice(b, known)]
        comparison = self._comparison(p) if chosen else None
        bases = self.bases(comparison[0][2]) if comparison else frozenset()
        near = [b for b in chosen if not bases.isdisjoint(self._parts(b))]
        for truth in (True, False) if near else ():
            there = self.refine(p, truth, known)
            for value in near:
                one, two = (
                    known[value],
                    self._range_of(value, {b: r for b, r in there.items() if b != value}, 0),
                )
                if (one[1] < two[0] or two[1] < one[0]) and not _may_be_congruent(
                    one, two, self._width(value)
                ):
                    return not truth
        return None

    def _exit_reached(self, p: int, known: KnownRanges) -> bool | None:
        """Whether the loop exit condition *p* must hold, because the counter has reached its limit; None if unknown."""
        comparison = self._comparison(p)
        if comparison is None:
            return None
        _, _, left, right, *_ = comparison[0]
        by = self._stride_until(p, left)
        low, high = self._canonical_range_of(left, known)
        limit: int = self.values.nodes[right][1]
        return True if (by > 0 and low >= limit) or (by < 0 and high <= limit) else None

    def _is_choice(self, base: int, known: KnownRanges) -> bool:
        """Whether *base* is a maximum or minimum, or some bits of a value that has few possible values."""
        kind = self.values.node(base)[:2]
        return kind in MIN_MAX or (kind == ("op", "mask") and self._has_few_values(base, known))

    def _width(self, chosen: int) -> int:
        """The width of a maximum or minimum; 32 for anything else, where it does not matter."""
        node = self.values.node(chosen)
        return type_width(node[2]) if node[:2] in MIN_MAX else 32

    def _has_few_values(self, bits: int, known: KnownRanges) -> bool:
        """Whether the operand of the mask *bits* has so few values that one more fact can leave a single one."""
        low, high = self._range_of(self.values.node(bits)[2], known, 0)
        return high - low <= MAX_VALUES_ENUMERATED

    def known(self, facts: PathCondition) -> KnownRanges:
        """The ranges that *facts* imply."""
        if facts.ranges is None:
            facts.ranges = self._no_ranges
            for fact, truth in facts.items():
                facts.ranges = self.refine(fact, truth, facts.ranges)
        return facts.ranges

    def refine(self, fact: int, truth: bool, known: KnownRanges) -> KnownRanges:
        """*known* refined by one more fact."""
        key = id(known), fact, truth
        if key not in self._refined:
            self._refined[key] = known, self._refine(fact, truth, known)
        return self._refined[key][1]

    def _refine(self, fact: int, truth: bool, known: KnownRanges) -> KnownRanges:
        comparison = self._comparison(fact)
        if comparison is None:
            return known
        (_, relation, left, right, signed, width), positive = comparison
        truth = truth is positive
        limit: int = self.values.nodes[right][1]
        if relation == "eq" and truth:
            bounds: Range = (limit, limit)
        elif relation == "eq" and (by := self._stride_until(fact, left)):
            bounds = (-_INFINITY, limit - by) if by > 0 else (limit - by, _INFINITY)
        elif relation == "eq":  # an inequality narrows a range at its ends only
            low, high = self._end_range(left, known)
            if limit not in (low, high):
                return self._exclude_end(left, width, limit, known)
            bounds = (low + (low == limit), high - (high == limit))
        elif signed:
            bounds = (-_INFINITY, limit - 1) if truth else (limit, _INFINITY)
        elif truth and 0 < limit <= 1 << (width - 1):
            bounds = (0, limit - 1)
        elif not truth and limit >= 1 << (width - 1):
            bounds = (limit - (1 << width), -1)
        elif (found := self._range_of(left, known, 0))[0] >= 0:
            bounds = (0, limit - 1) if truth else (limit, _INFINITY)
        elif found[1] < 0:
            limit -= 1 << width
            bounds = (-_INFINITY, limit - 1) if truth else (limit, -1)
        else:  # the range has values of both signs
            known = known.copy()
            self._add_unsigned_range(
                left, width, (0, limit - 1) if truth else (limit, (1 << width) - 1), known
            )
            return known
        known = known.copy()
        self._add_range(left, bounds, known)
        if (canonical := self._canonical(left)) != left:
            self._add_range(canonical, bounds, known)
        return known

    def _comparison(self, fact: int) -> tuple[Node, bool] | None:
        """*fact* as ``(comparison with a constant, whether it is not negated)``; None if it is not one."""
        if fact not in self._comparison_cache:
            self._comparison_cache[fact] = self._compute_comparison(fact)
        return self._comparison_cache[fact]

    def _compute_comparison(self, fact: int) -> tuple[Node, bool] | None:
        """See :meth:`_comparison`."""
        values = self.values
        node, positive = values.nodes[fact], True
        if node[0] != "compare":
            return None
        moved = values.difference(fact)
        if moved is not None:
            node, positive = moved[0], not moved[1]
        elif node[1] == "eq" and values.constant_of(node[3]) is None:
            difference = values.add(node[2], values.times(node[3], -1))
            terms, constant = values.linear(difference)
            node = ("compare", "eq", values.total(terms, 0), values.constant(-constant), *node[4:])
        return (
            (node, positive)
            if values.constant_of(node[3]) is not None and node[5] in _COMPARED_WIDTHS
            else None
        )

    def _add_range(self, value: int, bounds: Range, known: KnownRanges, depth: int = 0) -> None:
        """Record that *value* is within *bounds*, and what this implies for its operands.

        The arm of a maximum or minimum is narrowed where the other arm cannot be the result.
        """
        base, shift, negative = self._base(value)
        low, high = bounds[0] - shift, bounds[1] - shift
        if negative:
            low, high = -high, -low
        low, high = known[base] = _intersect(known.get(base, _UNBOUNDED), (low, high))
        if depth < MAX_PROPAGATION_DEPTH:
            self._add_part_ranges(base, (low, high), known, depth + 1)
        for greatest, one, two in self._choices(base, known, 0) if depth < MAX_PROPAGATION_DEPTH else ():
            for arm, other in ((one, two), (two, one)):
                # The bound holds for one arm where the other arm cannot be the result.
                least, most = self._range_of(other, known, 0)
                bounds = (
                    low if not greatest or most < low else -_INFINITY,
                    high if greatest or least > high else _INFINITY,
                )
                if bounds != _UNBOUNDED:
                    self._add_range(arm, bounds, known, depth + 1)

    def _add_unsigned_range(self, value: int, width: int, bounds: Range, known: KnownRanges) -> None:
        """Record that *value*, read as unsigned, is within *bounds*."""
        view = self._unsigned_views.setdefault(value, {}).setdefault(width, self.values.plain(value, width))
        known[view] = _intersect(known.get(view, (0, (1 << width) - 1)), bounds)

    def _exclude_end(self, value: int, width: int, number: int, known: KnownRanges) -> KnownRanges:
        """*known* where *value* is not *number*, which narrows its unsigned range if *number* is an end of it."""
        every = (1 << width) - 1
        low, high = known.get(self.values.plain(value, width), (0, every))
        number &= every
        if number in (low, high):
            known = known.copy()
            self._add_unsigned_range(value, width, (low + (number == low), high - (number == high)), known)
        return known

    def _add_part_ranges(self, base: int, bounds: Range, known: KnownRanges, depth: int) -> None:
        """Record what *bounds* of *base* imply for its operands.

        These are the operands of a mask that clears low bits, of a mask of few values (tried one by one), of a
        division, and of a sum of two terms, one of which is known. Known sums of *base* and one other term narrow that
        term.
        """
        values, (low, high) = self.values, bounds
        node = values.node(base)
        if node[:2] == ("op", "mask") and (node[3] < 0 or node[3] >> 31 == 1):
            rest = ~node[3] if node[3] < 0 else ~node[3] & 0xFFFFFFFF
            if not rest & rest + 1:
                self._add_range(node[2], (low, high + rest), known, depth)
        elif node[:2] == ("op", "mask") and self._has_few_values(base, known):
            least, most = self._range_of(node[2], known, 0)
            numbers = [x for x in range(least, most + 1) if low <= x & node[3] <= high]
            if numbers:
                self._add_range(node[2], (numbers[0], numbers[-1]), known, depth)
        elif (division := self._division(base)) is not None:
            number, _, width, signed, _ = division
            least, most = division.numbers((low if signed else max(low, 0), high))
            if signed or least <= most < 1 << width - 1:
                self._add_range(number, (least, most), known, depth)
            else:
                self._add_unsigned_range(number, width, (least, most), known)
        terms, _ = values.linear(base)
        if len(terms) == 2:
            for (one, factor), (other, times) in (terms, terms[::-1]):
                if factor in (1, -1) and other in known:
                    ends = sorted(end * times for end in known[other])
                    least, most = low - ends[1], high - ends[0]
                    self._add_range(one, (least, most) if factor == 1 else (-most, -least), known, depth)
        elif len(terms) == 1 and depth < MAX_PROPAGATION_DEPTH:
            for both in [b for b in known if b != base]:
                there, _ = values.linear(both)
                if len(there) == 2 and any(t == base for t, _ in there):
                    self._add_part_ranges(both, known[both], known, depth + 1)

    def _choices(self, base: int, known: KnownRanges, depth: int) -> Iterator[tuple[bool, int, int]]:
        """``(is the maximum, one, two)``: for each maximum or minimum in *base*, the sums of which *base* is that.

        An unsigned maximum or minimum counts only where both operands are known to have the same sign.
        """
        for term, greatest, one, two in self._alternatives(base):
            _, _, kind, *operands = self.values.node(term)
            bounds = [self._range_of(operand, known, depth) for operand in operands if kind[1] != "s"]
            if all(low >= 0 for low, _ in bounds) or all(high < 0 for _, high in bounds):
                yield greatest, one, two

    def _alternatives(self, base: int) -> tuple[tuple[int, bool, int, int], ...]:
        """The same for every maximum and minimum as if it were signed, with the operation itself first."""
        if base not in self._alternative_cache:
            values = self.values
            terms, _ = values.linear(base)
            operations = [(t, f) for t, f in terms if values.node(t)[:2] in MIN_MAX]
            found = []
            for term, factor in operations if len(operations) <= MAX_CHOICES_PER_SUM else ():
                _, name, _, *operands = values.node(term)
                rest = values.total(tuple(t for t in terms if t[0] != term), 0)
                one, two = (values.add(rest, values.times(operand, factor)) for operand in operands)
                found.append((term, (name == "max") is (factor > 0), one, two))
            self._alternative_cache[base] = tuple(found)
        return self._alternative_cache[base]

    def _mentions(self, known: KnownRanges, value: int) -> bool:
        """Whether *known* has a range of *value*, of its unsigned reading, or of a part of it."""
        return (
            self._base(value)[0] in known
            or any(view in known for view in self._unsigned_views.get(value, {}).values())
            or not known.keys().isdisjoint(self._parts(value))
        )

    def bases(self, value: int) -> frozenset[int]:
        """The bases whose known ranges can narrow *value*: its own, and those of its parts."""
        return self._parts(value) | {self._base(value)[0]}

    def _parts(self, value: int) -> frozenset[int]:
        """The bases of the subexpressions of *value* through sums and :data:`_BOUNDED_OPERATIONS`.

        Empty if there is no such operation: plain sums are related by their comparisons alone.
        """
        found = self._part_cache.get(value)
        if found is None:
            roots: set[int] = set()
            bounded = self._collect(value, roots, 0)
            found = self._part_cache[value] = frozenset(roots if bounded else ())
        return found

    def _end_range(self, value: int, known: KnownRanges) -> Range:
        """The range of *value* if it is known or *value* is a choice; unbounded otherwise."""
        base = self._base(value)[0]
        return (
            self._range_of(value, known, 0) if base in known or self._is_choice(base, known) else _UNBOUNDED
        )

    def _collect(self, value: int, roots: set[int], depth: int) -> bool:
        """Add the parts of *value* to *roots*, and return whether there is a bounded operation among them."""
        node = self.values.node(value)
        if node[0] == "const":
            return False
        roots.add(self._base(value)[0])
        bounded = node[0] == "op" and node[1] in _BOUNDED_OPERATIONS
        if (division := self._division(value)) is not None and not division.signed:
            roots.add(self.values.plain(division.number, division.width))
        if node[:2] in MIN_MAX and node[2][1] == "u":
            roots.update(self.values.plain(part, type_width(node[2])) for part in node[3:])
        found = bounded
        if depth < MAX_EXPRESSION_DEPTH and (bounded or node[0] == "sum"):
            for part in self.values.parts(node):
                found |= self._collect(part, roots, depth + 1)
            for _, _, *arms in self._alternatives(self._base(value)[0]) if node[0] == "sum" else ():
                for arm in arms:
                    self._collect(arm, roots, depth + 2)
        return found

    def _base(self, value: int) -> tuple[int, int, bool]:
        """``(base, constant, negated)`` such that *value* is the base, negated or not, plus the constant."""
        found = self._bases.get(value)
        if found is None:
            terms, constant = self.values.linear(value)
            negative = bool(terms) and terms[0][1] < 0
            if negative:
                terms = tuple((t, -f) for t, f in terms)
            found = self._bases[value] = self.values.total(terms, 0), constant, negative
        return found

    def _range_of(self, value: int, known: KnownRanges, depth: int) -> Range:
        """The range of *value* under *known*."""
        node = self.values.node(value)
        if node[0] == "const":
            return node[1], node[1]
        if known.keys().isdisjoint(self._parts(value)):
            found = self._unconditional.get((value, depth))
            if found is None:
                found = self._unconditional[value, depth] = self._computed_range(value, node, {}, depth)
        else:
            found = self._computed_range(value, node, known, depth)
        base, shift, negative = self._base(value)
        if base in known:
            low, high = known[base]
            low, high = (-high, -low) if negative else (low, high)
            found = _intersect(found, (low + shift, high + shift))
        loop_bounds = self._loop_bound_cache.get(base)
        if loop_bounds or loop_bounds is None:
            low, high = self._loop_range(base, known, depth)
            low, high = (-high, -low) if negative else (low, high)
            found = _intersect(found, (low + shift, high + shift))
        for width, view in self._unsigned_views.get(value, {}).items() if known else ():
            if view in known and (found[0] >= 0 or found[1] < 0):
                less = 1 << width if found[1] < 0 else 0
                low, high = known[view]
                # A bound at the limit of the register says nothing about a value that does not wrap.
                low, high = (
                    low - less if low else -_INFINITY,
                    high - less if high + 1 < 1 << width else _INFINITY,
                )
                found = _intersect(found, (low, high))
        return found

    def _computed_range(self, value: int, node: Node, known: KnownRanges, depth: int) -> Range:
        """The range of *value* that follows from the ranges of its operands."""
        values = self.values
        if depth > MAX_EXPRESSION_DEPTH:
            return _UNBOUNDED
        if node[0] == "sum":
            low = high = node[2]
            terms = node[1]
            for rest, number in self._remainder_forms(value):
                if number < 0 or self._range_of(number, known, depth + 1)[0] >= 0:
                    terms = rest
                    break
            for term, factor in terms:
                ends = [end * factor for end in self._range_of(term, known, depth + 1)]
                low, high = low + min(ends), high + max(ends)
            return self._narrowed(value, (max(low, -_INFINITY), min(high, _INFINITY)), known, depth + 2)
        if node[:2] in MIN_MAX:
            found = _UNBOUNDED
            if node[2][1] == "u":
                width, choose = type_width(node[2]), min if node[1] == "min" else max
                low, high = map(
                    choose, *(self._unsigned_range_of(part, width, known, depth + 1) for part in node[3:])
                )
                found = (low, high) if high < 1 << width - 1 else _UNBOUNDED
            return self._narrowed(value, found, known, depth + 1)
        if node[0] == "op" and node[1] == "mask":
            low, high = self._range_of(node[2], known, depth + 1)
            mask = node[3]
            if low == high:
                return low & mask, low & mask
            if low >= 0 and high <= mask and not mask & (mask + 1):
                return low, high
            return (0, mask) if mask >= 0 else _UNBOUNDED
        if (division := self._division(value)) is not None:
            number, _, width, signed, _ = division
            if not signed:
                return division.quotients(self._unsigned_range_of(number, width, known, depth + 1))
            return division.quotients(_as_read(self._range_of(number, known, depth + 1), width, signed))
        found = values.interval(value) or _UNBOUNDED
        counter = self._counter(value)
        if counter is not None:
            low, high = self._range_of(counter.start, known, depth + 1)
            found = _intersect(found, (low, _INFINITY) if counter.step > 0 else (-_INFINITY, high))
        return found

    def _remainder_forms(self, value: int) -> list[tuple[tuple[tuple[int, int], ...], int]]:
        """The terms of a sum with ``x & 7`` in place of ``x - (x & ~7)``, for each width that the mask may have.

        With each, the value x if it must not be negative, because the mask clears its sign as well; otherwise -1.
        """
        found = self._remainder_form_cache.get(value)
        if found is None:
            values = self.values
            found = self._remainder_form_cache[value] = []
            factors = dict(values.linear(value)[0])
            for term, factor in factors.items():
                node = values.node(term)
                number = values.representative(node[2]) if node[:2] == ("op", "mask") else -1
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

    def _unsigned_range_of(self, value: int, width: int, known: KnownRanges, depth: int) -> Range:
        """The range of *value* read as unsigned."""
        bounds = _as_read(self._range_of(value, known, depth), width, False)
        view = self._unsigned_views.get(value, {}).get(width)
        return bounds if view not in known else _intersect(bounds, known[view])

    def _division(self, value: int) -> _Division | None:
        """*value* as a quotient, rounded as its instruction does; None if it is not a division by a constant."""
        if value not in self._divisions:
            found: _Division | None = None
            node = self.values.node(value)
            by = self.values.constant_of(node[4]) if node[:2] in _DIVISIONS and len(node) == 5 else None
            if by is not None and by > 0:
                kind = node[2] if isinstance(node[2], str) else node[2][-1]
                width, signed, shifts = type_width(kind), kind[1] == "s", node[1] == "shr"
                by = (1 << by if by < width else 0) if shifts else by
                if kind[1] in "bus" and 1 < by < 1 << width - (signed and not shifts):
                    found = _Division(node[3], by, width, signed, shifts)
            self._divisions[value] = found
        return self._divisions[value]

    def _narrowed(self, value: int, found: Range, known: KnownRanges, depth: int) -> Range:
        """*found* narrowed by the maxima and minima in *value*, or by *value* being one."""
        base, shift, negative = self._base(value)
        for greatest, *arms in self._choices(base, known, depth):
            one, two = (self._range_of(arm, known, depth) for arm in arms)
            choose = max if greatest else min
            least, most = choose(one[0], two[0]), choose(one[1], two[1])
            least, most = (-most, -least) if negative else (least, most)
            found = _intersect(found, (least + shift, most + shift))
        return found

    def _counter(self, value: int) -> _Counter | None:
        """The counter that *value* is in its loop; None if it is not one."""
        if value not in self._counters:
            found: _Counter | None = None
            values = self.values
            steps = values.steps(value)
            if len(steps) == 1 and abs(min(steps)) <= MAX_COUNTER_STEP:
                arguments = values.arguments(value)
                ends = [values.linear(a) for a in arguments]
                starts = {a for a, (terms, _) in zip(arguments, ends, strict=True) if terms != ((value, 1),)}
                advances = tuple(by in steps and terms == ((value, 1),) for terms, by in ends)
                found = _Counter(starts.pop(), min(steps), advances) if len(starts) == 1 else None
            self._counters[value] = found
        return self._counters[value]

    def _with_lockstep_ranges(self, known: KnownRanges, *sides: int) -> KnownRanges:
        """*known* with the ranges of counters in *sides* that follow from those of counters in lockstep with them."""
        node = self.values.node
        found = known
        for value in {term for side in sides for term, _ in self.values.linear(side)[0]}.difference(known):
            counter = self._counter(value)
            if counter is None or not counter.in_every_iteration:
                continue
            for other in known:
                partner = self._counter(other) if node(other)[:2] == node(value)[:2] else None
                if partner is not None and partner.advances == counter.advances:
                    iterations = partner.iterations_to(known[other], self._range_of(partner.start, known, 0))
                    found = found | {
                        value: counter.after(iterations, self._range_of(counter.start, known, 0))
                    }
        return found

    def _stride_until(self, fact: int, value: int, truth: bool = True) -> int:
        """The change of *value* in each iteration of a loop that exits as soon as *fact* is *truth*; 0 if unknown.

        Only where the exit is not stepped over: the change is 1 or -1, or the loop has no other exit. Then the counter
        starts before its end and reaches it exactly, since it would wrap otherwise.
        """
        values = self.values
        counted = [(t, f, c.step) for t, f in values.linear(value)[0] if (c := self._counter(t)) is not None]
        if len(counted) != 1:
            return 0
        ((counter, factor, step),) = counted
        head = values.node(counter)[1]
        by: int = factor * step
        if self._exit_conditions(head).get(fact) is not truth or self._varies_otherwise(head, value):
            return 0
        return by if abs(by) == 1 or (abs(factor) == 1 and self._has_single_exit(head)) else 0

    def is_remainder_loop(self, head: int, p: int) -> bool:
        """Whether a loop runs the remainder of a division by a power of two, and *p* is not its exit condition.

        Compilers emit such a loop after an unrolled one.
        """
        values, ends = self.values, self._exit_conditions(head)
        if values.representative(p) in ends:
            return False
        for fact in ends:
            comparison = self._comparison(fact)
            for term, _ in values.linear(comparison[0][2])[0] if comparison is not None else ():
                counter = self._counter(term)
                for start, _ in values.linear(counter.start)[0] if counter is not None else ():
                    node = values.node(start)
                    if node[:2] == ("op", "mask") and node[3] > 0 and not node[3] & node[3] + 1:
                        return True
        return False

    def _varies_otherwise(self, head: int, value: int) -> bool:
        """Whether a term of *value* other than a counter changes in the loop."""
        cfg, values = self.values.cfg, self.values
        loop = cfg.loops.get(head, frozenset())
        return any(
            (at if kind == "block" else cfg.block_of[at]) in loop
            for term, _ in values.linear(value)[0]
            if self._counter(term) is None
            for kind, at in values.varying_at(term)
        )

    def _has_single_exit(self, head: int) -> bool:
        """Whether exactly one edge leaves the loop, and no block in it ends the function."""
        cfg = self.values.cfg
        loop = cfg.loops.get(head, frozenset())
        leaving = sum(edge.target not in loop for block in loop for edge in cfg.successors[block])
        return leaving == 1 and loop.isdisjoint(cfg.exits)

    def bounded_by_loop(self, p: int) -> bool:
        """Whether a loop bounds the difference that *p* compares, whatever the path condition is."""
        found = self._bounded_by_loop.get(p)
        if found is None:
            node = self.values.nodes[p]
            difference = self.values.add(node[2], self.values.times(node[3], -1))
            found = self._bounded_by_loop[p] = bool(self._loop_bounds(self._base(difference)[0]))
        return found

    def _loop_range(self, base: int, known: KnownRanges, depth: int) -> Range:
        """The range of *base* in all iterations of a loop that ends when a counter equals a limit.

        *base* is that counter, or a loop-invariant distance away from it: i is below n in a loop that ends at ``i == n
        - (n & 3)``.
        """
        found = _UNBOUNDED
        for low, high, rest in self._loop_bounds(base) if depth <= MAX_EXPRESSION_DEPTH else ():
            least, most = self._range_of(rest, known, depth + 1)
            found = _intersect(found, (max(low + least, -_INFINITY), min(high + most, _INFINITY)))
        return found

    def _loop_bounds(self, base: int) -> tuple[tuple[int, int, int], ...]:
        """``(low, high, rest)`` for each loop that bounds ``base - rest`` to [low, high]; rest is loop-invariant."""
        found = self._loop_bound_cache.get(base)
        if found is None:
            values = self.values
            heads = {values.node(t)[1] for t, _ in values.linear(base)[0] if self._counter(t) is not None}
            ends = (
                (head, fact) for head in heads for fact, truth in self._exit_conditions(head).items() if truth
            )
            each = (self._loop_bound(head, fact, base) for head, fact in ends)
            found = self._loop_bound_cache[base] = tuple(bound for bound in each if bound is not None)
        return found

    def _loop_bound(self, head: int, fact: int, base: int) -> tuple[int, int, int] | None:
        """The same for one loop, if *fact*, an equality, is its only exit condition."""
        values, comparison = self.values, self._comparison(fact)
        if comparison is None or comparison[0][1] != "eq":
            return None
        left, limit = comparison[0][2], values.constant_of(comparison[0][3])
        by, (own, shift, negative) = self._stride_until(fact, left), self._base(left)
        if not by or limit is None or not self._has_single_exit(head):
            return None
        end = shift - limit if negative else limit - shift
        low, high = (-_INFINITY, end) if (by > 0) is not negative else (end, _INFINITY)
        for factor in (1, -1):
            rest = values.add(self._canonical(base), values.times(self._canonical(own), -factor))
            if not any(self._counter(t) for t, _ in values.linear(rest)[0]):
                return (low, high, rest) if factor == 1 else (-high, -low, rest)
        return None

    def bits(self, p: int, facts: PathCondition) -> bool | None:
        """Whether the equality test *p* of some bits of a value follows from tests of other bits of it; None if not.

        ``n & 1 != 0`` implies ``n & 3 != 2``.
        """
        tested = self._tested_bits(p)
        if tested is None:
            return None
        if facts.bits is None:
            facts.bits = {}
            for fact, truth in facts.items():
                test = self._tested_bits(fact)
                if test is None:
                    continue
                value, mask, bits = test
                # For a single bit, an inequality determines it as well.
                if truth or not mask & mask - 1:
                    zeros, ones = facts.bits.get(value, (0, 0))
                    bits = bits if truth else bits ^ mask
                    facts.bits[value] = zeros | mask & ~bits, ones | bits
        value, mask, bits = tested
        zeros, ones = facts.bits.get(value, (0, 0))
        if zeros & bits or ones & mask & ~bits:
            return False
        return True if mask & ~(zeros | ones) == 0 else None

    def _tested_bits(self, p: int) -> tuple[int, int, int] | None:
        """``(value, mask, bits)`` if *p* tests ``value & mask == bits``; None for any other predicate."""
        if p not in self._bits:
            found, values = None, self.values
            node = values.nodes[p]
            number = values.constant_of(node[3]) if node[:2] == ("compare", "eq") else None
            masked = values.node(node[2]) if number is not None else ()
            if number is not None and masked[:2] == ("op", "mask"):
                value, mask = values.representative(masked[2]), masked[3] & (1 << node[5]) - 1
                bits = number & (1 << node[5]) - 1
                division = self._division(value)
                if division is not None and division.floor and mask * division.by < 1 << division.width:
                    value, mask, bits = (
                        values.representative(division.number),
                        mask * division.by,
                        bits * division.by,
                    )
                found = (value, mask, bits) if not bits & ~mask else None
            self._bits[p] = found
        return self._bits[p]

    def equated(self, p: int, facts: PathCondition) -> bool | None:
        """Whether the comparison *p* follows from facts about the equality of the same two values; None if not."""
        values = self.values
        _, relation, left, right, *_ = values.nodes[p]
        equal = self._equal(p, facts)
        if relation == "eq" or equal is None:
            return equal
        if equal:
            return False
        # With steps of one, the two are equal before one exceeds the other.
        difference = values.add(left, values.times(right, -1))
        return True if abs(self._stride_until(p, difference, False)) == 1 else None

    def _equal(self, p: int, facts: PathCondition) -> bool | None:
        """Whether both sides of a comparison are equal, given other tests of their difference; None if unknown."""
        point = self.point(p)
        if point is None:
            return None
        if facts.points is None:
            facts.points = {}
            for fact, truth in facts.items():
                if self.values.nodes[fact][:2] == ("compare", "eq") and (other := self.point(fact)):
                    facts.points.setdefault(other[0], {})[other[1]] = truth
        base, number = point
        known = facts.points.get(base)
        if known is None or number in known:
            return known[number] if known else None
        return False if True in known.values() else None

    def point(self, p: int) -> tuple[int, int] | None:
        """``(difference, constant)``: the sides of comparison *p* are equal where the difference is that constant.

        Lockstep counters are replaced by their representative, so ``i == n - 1`` and ``i - n + 1 != 0`` have the same
        point whichever counter the compiler uses. None if one side is a constant and the other does not contain a
        counter.
        """
        if p not in self._points:
            self._points[p] = self._point(self.values.nodes[p])
        return self._points[p]

    def _point(self, node: Node) -> tuple[int, int] | None:
        values = self.values
        if node[0] != "compare" or node[5] not in (32, 64):
            return None
        difference = values.add(node[2], values.times(node[3], -1))
        terms, constant = values.linear(self._canonical(difference))
        counters = filter(None, (self._counter(term) for term, _ in terms))
        if not terms or (
            values.constant_of(node[3]) is not None
            and len(terms) == 1
            and not any(c.in_every_iteration for c in counters)
        ):
            return None
        negative = terms[0][1] < 0
        if negative:
            terms = tuple((t, -f) for t, f in terms)
        return values.total(terms, 0), constant if negative else -constant

    def _canonical(self, value: int) -> int:
        """The canonical form of *value*: constants hoisted out of minima and maxima, lockstep counters merged."""
        found = self._canonical_cache.get(value)
        if found is None:
            values = self.values
            total = dict[int, int]()
            terms, constant = values.linear(value)
            work = list(terms)
            while work:
                term, factor = work.pop()
                if (moved := values.hoisted_constant(term)) is not None:
                    term, by = moved
                    constant += by * factor
                counter = self._counter(term)
                if counter is not None and counter.in_every_iteration:
                    key = values.node(term)[1], abs(counter.step), counter.advances
                    partner = self._mates.setdefault(key, term)
                    if partner != term and (other := self._counter(partner)) is not None:
                        same = counter.step // other.step
                        more, difference = values.linear(
                            values.add(counter.start, values.times(other.start, -same))
                        )
                        constant += difference * factor
                        work += [(t, f * factor) for t, f in more]
                        term, factor = partner, factor * same
                total[term] = total.get(term, 0) + factor
            terms = tuple(sorted((t, f) for t, f in total.items() if f))
            found = self._canonical_cache[value] = values.total(terms, constant)
        return found

    def _canonical_range_of(self, value: int, known: KnownRanges) -> Range:
        """The range of *value*, intersected with that of its canonical form."""
        found = self._range_of(value, known, 0)
        canonical = self._canonical(value)
        return found if canonical == value else _intersect(found, self._range_of(canonical, known, 0))

    def _exit_conditions(self, head: int) -> dict[int, bool]:
        """The predicates by which every iteration of a loop decides whether to leave it, with the truth that does."""
        if head not in self._exit_condition_cache:
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
                        p = values.representative(values.before(edge.predicate, cfg.blocks[block].end - 1))
                        found[p] = edge.value
                        if values.node(p)[0] == "not":
                            found[values.representative(values.node(p)[1])] = not edge.value
            self._exit_condition_cache[head] = found
        return self._exit_condition_cache[head]

    def _has_counter(self, value: int) -> bool:
        """Whether *value* contains a loop counter, which only grows or only shrinks."""
        return any(self._counter(term) is not None for term, _ in self.values.linear(value)[0])
