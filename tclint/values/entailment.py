"""Which comparisons follow from known comparisons of the same values, of their operands, or of loop counters.

A *base* is a sum without its constant, with a positive first factor. A path condition is condensed into *known ranges*:
for each base, the interval to which comparisons with constants confine it; for a number that is read as unsigned, the
interval of that reading. A fact about a base is propagated to its operands where their range follows (masks that clear
low bits, divisions, minima and maxima, sums of two terms). A query computes the ranges of both sides bottom-up,
intersects them with the known ranges, and compares them. ``n - 1 < 3`` unsigned implies ``n & 3 == n``, and ``k >= 1``
implies ``max(-2 - k, -3) == -3``: this is how a loop unrolled by four and its remainder loop are related. The range of
a difference of maxima and minima may need no known range: ``max(min(i - 1, 5), 0) <= min(i + 1, 5)`` for i from 0 on.

Loops contribute to ranges by their bounds, by counters in lockstep and by the values at which counters start
(``loop_facts``). The counter of a remainder loop starts where the unrolled loop ended, or started if it was skipped.
Where ranges do not decide a comparison, these are tried:

- *exit*: the exit condition of a loop must hold once its counter has reached the limit;
- *contradiction*: the opposite leaves no value for a minimum, a maximum or some bits. A loop that waits in every fourth
  iteration, of which there are a multiple of four, has waited in the last one;
- *points*: the constants that a difference is known to equal or not to equal;
- *bits*: the bits of a value that are known from tests of other masks of it.

An unknown range is unbounded, and each ``MAX_...`` below costs precision only. Two assumptions are unsound. Signed
numbers do not wrap, as compilers assume. A loop that ends when a counter equals a limit starts on the right side of it
and does not step over it, since it would otherwise iterate until the counter wraps. It is taken to start there too if it
ends at a bound (``i < n``) or has another exit, but for *strict* values.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from tclint.isa.widths import width_of
from tclint.values.bit_tests import BitTests
from tclint.values.divisions import Divisions
from tclint.values.integers import Range, type_width
from tclint.values.intervals import Bounds
from tclint.values.loop_facts import LoopFacts
from tclint.values.nodes import (
    Applied,
    Arithmetic,
    Compare,
    Constant,
    Masked,
    Node,
    Phi,
    Sum,
    Terms,
    Value,
    extremum_type,
    is_choice,
)
from tclint.values.path_condition import KnownRanges, PathCondition
from tclint.values.ranges import (
    INFINITY,
    UNBOUNDED,
    as_read,
    intersect,
    may_be_congruent,
    ordered_as_unsigned,
)

__all__ = ["ConditionalIntervals"]

MAX_EXPRESSION_DEPTH = 6
"""Nesting of expressions that is followed; the range of a deeper one is unbounded."""
MAX_CHOICES_PER_SUM = 2
"""Maxima and minima in one sum that are split into their two arms: each of them needs the ranges of two more sums."""
MAX_VALUES_ENUMERATED = 8
"""The largest distance between the ends of a range whose values are tried one by one."""
MAX_PROPAGATION_DEPTH = 3
"""Nesting of operations to whose operands the range of a result is propagated."""
_BOUNDED_OPERATIONS = ("max", "min", "shr", "div")
"""Operations that lose information, so the range of the result does not give that of the operand."""


class ConditionalIntervals:
    """The ranges of the values of one function, under a path condition or without one."""

    def __init__(self, bounds: Bounds, loops: LoopFacts) -> None:
        self.bounds, self.loops, self.table = bounds, loops, bounds.table
        self._divisions = Divisions(bounds.table)
        self.bits = BitTests(bounds.table, self._divisions).decide
        self._part_cache: dict[int, frozenset[int]] = {}
        self._ranged: set[int] = set()
        """The bases that have a range in any known ranges, apart from unsigned readings."""
        self._sums_with: dict[int, set[int]] = {}
        """Term -> those of them that are the sum of it and one other term."""
        self._alternative_cache: dict[int, tuple[tuple[int, bool, int, int], ...]] = {}
        self._points: dict[int, tuple[int, int] | None] = {}
        self._unconditional: dict[tuple[int, int], Range] = {}
        """``(value, depth)`` -> range. The depth is part of the question: what is found near the limit is less precise."""
        self._remainder_form_cache: dict[int, list[tuple[Terms, int]]] = {}
        self._divisors: dict[int, int] = {}
        """Base -> the power of two of which it is a multiple, wherever it wraps; 0 for a constant."""
        self._needs_no_facts: dict[int, bool] = {}
        self._no_ranges = KnownRanges()
        self._refined: dict[tuple[int, int, bool], tuple[KnownRanges, KnownRanges]] = {}
        """``(id(known), fact, truth)`` -> ``(known, refined)``. Stores the key object so that its id stays unique."""
        self._entailed: dict[tuple[int, int, bool], bool | None] = {}
        """``(id(known), predicate, whether in its own form)`` -> answer. :attr:`_refined` keeps *known* alive."""
        self._additive: dict[int, bool] = {}
        """Whether only an unsigned reading can make :meth:`adds_ranges_of_terms` false."""
        self.read_as_unsigned: dict[int, dict[int, int]] = {}
        """Number -> width -> the value under which the known ranges hold its unsigned reading."""

    def entails(self, p: Value, node: Compare, facts: PathCondition) -> bool | None:
        """Whether *p* holds under *facts*; None when neither answer follows.

        *node* is the comparison itself, or *p* rewritten as a comparison of a difference. Signed numbers are assumed
        not to wrap, as compilers do.
        """
        known = self.known(facts)
        key = id(known), p, node is self.table.nodes[p]
        if key not in self._entailed:
            self._entailed[key] = self._entails(p, node, known)
        return self._entailed[key]

    def _entails(self, p: Value, node: Compare, known: KnownRanges) -> bool | None:
        left, right, signed, width = node.left, node.right, node.signed, node.width
        if not self.needs_no_facts(p) and not any(
            self.mentions(known, side) or self.loops.is_carried(side) for side in (left, right)
        ):
            return None
        if node.relation == "eq":
            return self._equality(p, node, known)
        known = self._with_lockstep_ranges(known, left, right)
        one, two = self._canonical_range_of(left, known), self.range_of(right, known, 0)
        if not signed and self.table.constant_of(right) is None:
            below = self._below(left, right, width, known)
            if below is not None:
                return below
        one, two = (
            as_read(bounds, width, signed, 1 if signed else self._step(side))
            for side, bounds in ((left, one), (right, two))
        )
        if one[1] < two[0]:
            return True
        if one[0] >= two[1]:
            return False
        # The caller asks about *p* in its own form as well, which is enough for this search.
        return self._by_contradiction(p, known) if node is self.table.nodes[p] else None

    def _equality(self, p: Value, node: Compare, known: KnownRanges) -> bool | None:
        """Whether two numbers are equal: by their ranges, or by that of their difference."""
        width, moved = node.width, self.loops.comparison(p)
        for left, right in (node.operands, *(() if moved is None else (moved[0].operands,))):
            here = self._with_lockstep_ranges(known, left, right)
            one, two = self._canonical_range_of(left, here), self.range_of(right, here, 0)
            if one[1] < two[0] or two[1] < one[0]:
                if not may_be_congruent(one, two, width, self._step(left)):
                    return False
            elif (one == two and one[0] == one[1]) or self._exit_reached(p, here):
                return True
        return self._by_contradiction(p, here) if node is self.table.nodes[p] else None

    def needs_no_facts(self, p: Value) -> bool:
        """Whether the form of the comparison *p* may decide it: a loop bounds the difference of its sides, or that
        contains a maximum or minimum, of which both sides may be bounds.
        """
        found = self._needs_no_facts.get(p)
        if found is None:
            left, right = self.table.nodes[p].operands
            base = self.loops.base(self.table.add(left, self.table.times(right, -1)))[0]
            found = bool(self._alternatives(base) or self.loops.bounds(base))
            self._needs_no_facts[p] = found
        return found

    def _below(self, left: Value, right: Value, width: int, known: KnownRanges) -> bool | None:
        """Whether *left* < *right*, both unsigned. b - m is below b if m is at most b, and not 0. None if unknown."""
        table = self.table
        for less, more in ((left, right), (right, left)):
            difference = table.add(more, table.times(less, -1))
            low, high = self._unsigned_range_of(difference, width, known, 0)
            node = table.node(difference)
            kind = extremum_type(node)
            least = (
                type(node) is Arithmetic
                and node.name == "min"
                and kind.startswith(".u")
                and type_width(kind) <= width
                and table.representative(more) in map(table.representative, node.operands)
            )
            if high == 0 or least or high <= self._unsigned_range_of(more, width, known, 0)[0]:
                if less == right or high == 0:
                    return False
                if low > 0:
                    return True
        return None

    def _by_contradiction(self, p: Value, known: KnownRanges) -> bool | None:
        """The truth of *p* if its opposite leaves no value for some bits, a maximum or a minimum; otherwise None.

        This relates a loop unrolled by two to the odd iteration that runs before it.
        """
        chosen = [b for b in known if is_choice(self.table.node(b))]
        comparison = self.loops.comparison(p) if chosen else None
        compared = comparison[0].left if comparison else -1
        bases = self.bases(compared) if comparison else frozenset()
        near = [b for b in chosen if not bases.isdisjoint(self._parts(b)) or self._is_of_term(b, compared)]
        for truth in (True, False) if near else ():
            there = self.refine(p, truth, known)
            for value in near:
                others = KnownRanges({b: r for b, r in there.items() if b != value})
                one, two = (
                    known[value],
                    intersect(self.range_of(value, others, 0), self._bits_of(value, others)),
                )
                if (one[1] < two[0] or two[1] < one[0]) and not may_be_congruent(
                    one, two, self._width(value)
                ):
                    return not truth
        return None

    def _step(self, value: Value) -> int:
        """The greatest power of two that divides *value* without its constant, whatever its terms are; 1 for a constant."""
        common = gcd(*(factor for _, factor in self.table.linear(value)[0]))
        return common & -common or 1

    def _exit_reached(self, p: Value, known: KnownRanges) -> bool | None:
        """Whether the loop exit condition *p* must hold, because the counter has reached its limit; None if unknown."""
        comparison = self.loops.comparison(p)
        if comparison is None:
            return None
        left, limit = comparison[0].left, self.table.constant_of(comparison[0].right)
        assert limit is not None
        by = self.loops.stride_to_end(p, left)
        low, high = self._canonical_range_of(left, known)
        return True if (by > 0 and low >= limit) or (by < 0 and high <= limit) else None

    def _is_of_term(self, bits: int, value: Value) -> bool:
        """Whether *bits* are those of a term of *value*."""
        table, node = self.table, self.table.node(bits)
        number = table.representative(node.value) if type(node) is Masked else -1
        return any(term == number for term, _ in table.linear(value)[0])

    def _bits_of(self, value: Value, known: KnownRanges) -> Range:
        """The range of some low bits of a number whose distance from other values is known.

        If i is n - 1 and n a multiple of 4, ``i & 3`` is 3.
        """
        table = self.table
        node = table.node(value)
        if type(node) is not Masked or not 0 < node.mask < 1 << 31:
            return UNBOUNDED
        number, found = table.representative(node.value), UNBOUNDED
        for base in known:
            factor = dict(table.linear(base)[0]).get(number)
            low, high = self.range_of(base, known, 0) if factor in (1, -1) and base != number else UNBOUNDED
            if low == high and factor is not None:
                others = table.times(table.add(base, table.times(number, -factor)), -1)
                distant = table.times(table.add(others, table.constant(low)), factor)
                bits = table.masked(distant, node.mask, 32)
                found = intersect(found, self.range_of(bits, known, 0))
        return found

    def _width(self, chosen: Value) -> int:
        """The width of a maximum or minimum; 32 for anything else, where it does not matter."""
        return type_width(extremum_type(self.table.node(chosen)) or ".b32")

    def known(self, facts: PathCondition) -> KnownRanges:
        """The ranges that *facts* imply."""
        if facts.ranges is None:
            facts.ranges = self._no_ranges
            for fact, truth in facts.items():
                facts.ranges = self.refine(fact, truth, facts.ranges)
        return facts.ranges

    def refine(self, fact: Value, truth: bool, known: KnownRanges) -> KnownRanges:
        """*known* refined by one more fact."""
        key = id(known), fact, truth
        if key not in self._refined:
            self._refined[key] = known, (refined := self._refine(fact, truth, known))
            if refined.computed is None:
                refined.computed = {}
        return self._refined[key][1]

    def _refine(self, fact: Value, truth: bool, known: KnownRanges) -> KnownRanges:
        comparison = self.loops.comparison(fact)
        if comparison is None:
            return known
        node, positive = comparison
        relation, left, width, truth = node.relation, node.left, node.width, truth is positive
        limit = self.table.constant_of(node.right)
        assert limit is not None
        if relation == "eq" and truth:
            bounds: Range = (limit, limit)
        elif relation == "eq" and (by := self.loops.stride_to_end(fact, left)):
            bounds = (-INFINITY, limit - by) if by > 0 else (limit - by, INFINITY)
        elif relation == "eq":  # an inequality narrows a range at its ends only
            low, high = self._end_range(left, known)
            if limit not in (low, high):
                return self._exclude_end(left, width, limit, known)
            bounds = (low + (low == limit), high - (high == limit))
        elif node.signed:
            bounds = (-INFINITY, limit - 1) if truth else (limit, INFINITY)
        elif truth and 0 < limit <= 1 << (width - 1):
            bounds = (0, limit - 1)
        elif not truth and limit >= 1 << (width - 1):
            bounds = (limit - (1 << width), -1)
        elif (found := self.range_of(left, known, 0))[0] >= 0:
            bounds = (0, limit - 1) if truth else (limit, INFINITY)
        elif found[1] < 0:
            limit -= 1 << width
            bounds = (-INFINITY, limit - 1) if truth else (limit, -1)
        else:  # the range has values of both signs
            known = KnownRanges(known)
            self._add_unsigned_range(
                left, width, (0, limit - 1) if truth else (limit, (1 << width) - 1), known
            )
            return known
        known = KnownRanges(known)
        self._add_range(left, bounds, known)
        if (canonical := self.loops.canonical(left)) != left:
            self._add_range(canonical, bounds, known)
        return known

    def _add_range(self, value: Value, bounds: Range, known: KnownRanges, depth: int = 0) -> None:
        """Record that *value* is within *bounds*, and what this implies for its operands.

        The arm of a maximum or minimum is narrowed where the other arm cannot be the result.
        """
        base, shift, negative = self.loops.base(value)
        low, high = bounds[0] - shift, bounds[1] - shift
        if negative:
            low, high = -high, -low
        low, high = known[base] = self._multiples(base, intersect(known.get(base, UNBOUNDED), (low, high)))
        if base not in self._ranged:
            self._ranged.add(base)
            terms, _ = self.table.linear(base)
            for term, _ in terms if len(terms) == 2 else ():
                self._sums_with.setdefault(term, set()).add(base)
        if depth < MAX_PROPAGATION_DEPTH:
            self._add_part_ranges(base, (low, high), known, depth + 1)
        for greatest, one, two in self._choices(base, known, 0) if depth < MAX_PROPAGATION_DEPTH else ():
            for arm, other in ((one, two), (two, one)):
                # The bound holds for one arm where the other arm cannot be the result.
                least, most = self.range_of(other, known, 0)
                bounds = (
                    low if not greatest or most < low else -INFINITY,
                    high if greatest or least > high else INFINITY,
                )
                if bounds != UNBOUNDED:
                    self._add_range(arm, bounds, known, depth + 1)

    def _multiples(self, base: Value, bounds: Range) -> Range:
        """*bounds* without ends that *base* cannot reach, as its factors have a common power of two."""
        by = self._divisors.get(base)
        if by is None:
            terms, _ = self.table.linear(base)
            common = gcd(*(factor * self.table.multiple(term) for term, factor in terms))
            by = self._divisors[base] = common & -common
        low, high = (
            -(-bounds[0] // by) * by if by > 1 and bounds[0] > -INFINITY else bounds[0],
            bounds[1] // by * by if by > 1 and bounds[1] < INFINITY else bounds[1],
        )
        return (low, high) if low <= high else bounds

    def _add_unsigned_range(self, value: Value, width: int, bounds: Range, known: KnownRanges) -> None:
        """Record that *value*, read as unsigned, is within *bounds*."""
        view = self.read_as_unsigned.setdefault(value, {}).setdefault(width, self.table.plain(value, width))
        known[view] = intersect(known.get(view, (0, (1 << width) - 1)), bounds)

    def _exclude_end(self, value: Value, width: int, number: int, known: KnownRanges) -> KnownRanges:
        """*known* where *value* is not *number*, which narrows its unsigned range if *number* is an end of it."""
        every = (1 << width) - 1
        low, high = known.get(self.table.plain(value, width), (0, every))
        number &= every
        if number in (low, high):
            known = KnownRanges(known)
            self._add_unsigned_range(value, width, (low + (number == low), high - (number == high)), known)
        return known

    def _add_part_ranges(self, base: Value, bounds: Range, known: KnownRanges, depth: int) -> None:
        """Record what *bounds* of *base* imply for its operands.

        These are the operands of a mask that clears low bits, of a mask of few values (tried one by one), of a
        division, and of a sum of two terms, one of which is known. Known sums of *base* and one other term narrow that
        term.
        """
        table, (low, high) = self.table, bounds
        node = table.node(base)
        if type(node) is Masked:
            self._add_range_under_mask(node, bounds, known, depth)
        elif (division := self._divisions.of(base)) is not None:
            number, _, width, signed, _ = division
            least, most = division.numbers((low if signed else max(low, 0), high))
            if signed or least <= most < 1 << width - 1:
                self._add_range(number, (least, most), known, depth)
            else:
                self._add_unsigned_range(number, width, (least, most), known)
        terms, _ = table.linear(base)
        if len(terms) == 2:
            for (one, factor), (other, times) in (terms, terms[::-1]):
                if factor in (1, -1) and other in known:
                    ends = sorted(end * times for end in known[other])
                    least, most = low - ends[1], high - ends[0]
                    self._add_range(one, (least, most) if factor == 1 else (-most, -least), known, depth)
        elif len(terms) == 1 and depth < MAX_PROPAGATION_DEPTH:
            sums = self._sums_with.get(base, ())
            for both in [b for b in known if b in sums] if sums else ():
                self._add_part_ranges(both, known[both], known, depth + 1)

    def _add_range_under_mask(self, node: Masked, bounds: Range, known: KnownRanges, depth: int) -> None:
        """Record what *bounds* of some bits imply for the value whose bits they are."""
        mask, (low, high) = node.mask, bounds
        if mask < 0 or mask >> 31 == 1:
            rest = ~mask if mask < 0 else ~mask & 0xFFFFFFFF
            if not rest & rest + 1:
                self._add_range(node.value, (low, high + rest), known, depth)
            return
        least, most = self.range_of(node.value, known, 0)
        if most - least <= MAX_VALUES_ENUMERATED:
            numbers = [x for x in range(least, most + 1) if low <= x & mask <= high]
            if numbers:
                self._add_range(node.value, (numbers[0], numbers[-1]), known, depth)

    def _choices(self, base: Value, known: KnownRanges, depth: int) -> Iterator[tuple[bool, int, int]]:
        """``(is the maximum, one, two)``: for each maximum or minimum in *base*, the sums of which *base* is that.

        An unsigned maximum or minimum counts only where both operands are known to have the same sign.
        """
        for term, greatest, one, two in self._alternatives(base):
            node = self.table.node(term)
            kind = extremum_type(node)
            if kind[1] == "s" or ordered_as_unsigned(
                [self.range_of(operand, known, depth) for operand in node.operands], type_width(kind)
            ):
                yield greatest, one, two

    def _alternatives(self, base: Value) -> tuple[tuple[int, bool, int, int], ...]:
        """The same for every maximum and minimum as if it were signed, with the operation itself first."""
        if base not in self._alternative_cache:
            table = self.table
            terms, _ = table.linear(base)
            operations = [
                (t, f, node)
                for t, f in terms
                if type(node := table.node(t)) is Arithmetic and extremum_type(node)
            ]
            found = []
            for term, factor, node in operations if len(operations) <= MAX_CHOICES_PER_SUM else ():
                rest = table.total(tuple(t for t in terms if t[0] != term), 0)
                one, two = (table.add(rest, table.times(operand, factor)) for operand in node.operands)
                found.append((term, (node.name == "max") is (factor > 0), one, two))
            self._alternative_cache[base] = tuple(found)
        return self._alternative_cache[base]

    def mentions(self, known: KnownRanges, value: Value) -> bool:
        """Whether *known* has a range of *value*, of its unsigned reading, or of a part of it."""
        return (
            self.loops.base(value)[0] in known
            or any(view in known for view in self.read_as_unsigned.get(value, {}).values())
            or not known.keys().isdisjoint(self._parts(value))
        )

    def bases(self, value: Value) -> frozenset[Value]:
        """The bases whose known ranges can narrow *value*: its own, and those of its parts."""
        return self._parts(value) | {self.loops.base(value)[0]}

    def _parts(self, value: Value) -> frozenset[Value]:
        """The bases of the subexpressions of *value* through sums and :data:`_BOUNDED_OPERATIONS`.

        Empty if there is no such operation: plain sums are related by their comparisons alone.
        """
        found = self._part_cache.get(value)
        if found is None:
            roots: set[int] = set()
            bounded = self._collect(value, roots, 0)
            found = self._part_cache[value] = frozenset(roots if bounded else ())
        return found

    def _end_range(self, value: Value, known: KnownRanges) -> Range:
        """The range of *value* if it is known or *value* is a choice; unbounded otherwise."""
        base = self.loops.base(value)[0]
        if base not in known and not is_choice(self.table.node(base)):
            return UNBOUNDED
        return self.range_of(value, known, 0)

    def _collect(self, value: Value, roots: set[int], depth: int) -> bool:
        """Add the parts of *value* to *roots*, and return whether there is a bounded operation among them."""
        node = self.table.node(value)
        if type(node) is Constant:
            return False
        roots.add(self.loops.base(value)[0])
        is_sum = type(node) is Sum
        bounded = type(node) is Masked or (isinstance(node, Applied) and node.name in _BOUNDED_OPERATIONS)
        if (division := self._divisions.of(value)) is not None and not division.signed:
            roots.add(self.table.plain(division.number, division.width))
        kind = extremum_type(node)
        if kind.startswith(".u"):
            roots.update(self.table.plain(part, type_width(kind)) for part in node.operands)
        found = bounded
        if depth < MAX_EXPRESSION_DEPTH and (bounded or is_sum):
            for part in node.operands:
                found |= self._collect(part, roots, depth + 1)
            for _, _, *arms in self._alternatives(self.loops.base(value)[0]) if is_sum else ():
                for arm in arms:
                    self._collect(arm, roots, depth + 2)
        return found

    def adds_ranges_of_terms(self, base: Value) -> bool:
        """Whether the range of the sum *base* is the sum of those of its terms, as long as none of its own is known."""
        found = self._additive.get(base)
        if found is None:
            found = self._additive[base] = not (
                self.loops.bounds(base) or self._alternatives(base) or self._remainder_forms(base)
            )
        return found and base not in self.read_as_unsigned

    def range_alone(self, base: Value) -> Range | None:
        """The range of *base* where none of its own is known; None if known ranges of other values narrow it."""
        return (
            None if self._parts(base) or self.loops.bounds(base) else self.range_of(base, self._no_ranges, 1)
        )

    def range_of(self, value: Value, known: KnownRanges, depth: int = 0) -> Range:
        """The range of *value* under *known*; with *depth* operations around it, less deep ones in it are followed."""
        node = self.table.node(value)
        if type(node) is Constant:
            return node.number, node.number
        computed = None
        if known.keys().isdisjoint(self._parts(value)):
            found = self._unconditional.get((value, depth))
            if found is None:
                nothing = self._no_ranges
                found = self._unconditional[value, depth] = self._computed_range(value, node, nothing, depth)
        else:
            computed = known.computed
            if computed is not None and (value, depth) in computed:
                return computed[value, depth]
            found = self._computed_range(value, node, known, depth)
        base, shift, negative = self.loops.base(value)
        if base in known:
            low, high = known[base]
            low, high = (-high, -low) if negative else (low, high)
            found = intersect(found, (low + shift, high + shift))
        if depth <= MAX_EXPRESSION_DEPTH and self.loops.bounds(base):
            low, high = self._loop_range(base, known, depth)
            low, high = (-high, -low) if negative else (low, high)
            found = intersect(found, (low + shift, high + shift))
        for width, view in self.read_as_unsigned.get(value, {}).items() if known else ():
            if view in known and ordered_as_unsigned([found], width):
                less = 1 << width if found[1] < 0 else 0
                low, high = known[view]
                # A bound at the limit of the register says nothing about a value that does not wrap.
                low, high = (
                    low - less if low else -INFINITY,
                    high - less if high + 1 < 1 << width else INFINITY,
                )
                found = intersect(found, (low, high))
        if computed is not None:
            computed[value, depth] = found
        return found

    def _computed_range(self, value: Value, node: Node, known: KnownRanges, depth: int) -> Range:
        """The range of *value* that follows from the ranges of its operands."""
        if depth > MAX_EXPRESSION_DEPTH:
            return UNBOUNDED
        if type(node) is Sum:
            low = high = node.constant
            terms = node.terms
            for rest, number in self._remainder_forms(value):
                if number < 0 or self.range_of(number, known, depth + 1)[0] >= 0:
                    terms = rest
                    break
            for term, factor in terms:
                ends = [end * factor for end in self.range_of(term, known, depth + 1)]
                low, high = low + min(ends), high + max(ends)
            found = max(low, -INFINITY), min(high, INFINITY)
            return self._narrowed(
                value, self._since_origin(value, node.terms, found, known, depth), known, depth + 2
            )
        if type(node) is Arithmetic and (kind := extremum_type(node)):
            found = UNBOUNDED
            if kind.startswith(".u"):
                width, choose = type_width(kind), min if node.name == "min" else max
                low, high = map(
                    choose,
                    *(self._unsigned_range_of(part, width, known, depth + 1) for part in node.operands),
                )
                found = (low, high) if high < 1 << width - 1 else UNBOUNDED
            return self._narrowed(value, found, known, depth + 1)
        if type(node) is Masked:
            low, high = self.range_of(node.value, known, depth + 1)
            mask = node.mask
            if low == high:
                return low & mask, low & mask
            if low >= 0 and high <= mask and not mask & (mask + 1):
                return low, high
            return (0, mask) if mask >= 0 else UNBOUNDED
        if (division := self._divisions.of(value)) is not None:
            number, _, width, signed, _ = division
            if not signed:
                return division.quotients(self._unsigned_range_of(number, width, known, depth + 1))
            return division.quotients(as_read(self.range_of(number, known, depth + 1), width, signed))
        found = self.bounds.interval(value) or UNBOUNDED
        return self._since_origin(value, ((value, 1),), found, known, depth)

    def _since_origin(
        self, value: Value, terms: Terms, found: Range, known: KnownRanges, depth: int
    ) -> Range:
        """*found* narrowed by the range that *value* has with a term in it replaced by the origins of that term.

        Of a sum, only a difference is narrowed: i - n is not positive if i starts at n and only shrinks.
        """
        if len(terms) > 1 and sorted(factor for _, factor in terms) != [-1, 1]:
            return found
        for term, factor in terms:
            origins = self.loops.origins(term)
            if origins is None:
                continue
            rest = self.table.add(value, self.table.times(term, -factor))
            replaced = (self.table.add(rest, self.table.times(o, factor)) for o in origins[0])
            low, high = zip(*(self.range_of(r, known, depth + 1) for r in replaced), strict=True)
            sign = origins[1] * factor
            found = intersect(
                found, (min(low) if sign >= 0 else -INFINITY, max(high) if sign <= 0 else INFINITY)
            )
        return found

    def _remainder_forms(self, value: Value) -> list[tuple[Terms, int]]:
        """The terms of a sum with ``x & 7`` in place of ``x - (x & ~7)``, for each width that the mask may have.

        With each, the value x if it must not be negative, because the mask clears its sign as well; otherwise -1.
        """
        found = self._remainder_form_cache.get(value)
        if found is None:
            table = self.table
            found = self._remainder_form_cache[value] = []
            factors = dict(table.linear(value)[0])
            for term, factor in factors.items():
                node = table.node(term)
                number = table.representative(node.value) if type(node) is Masked else -1
                if type(node) is not Masked or factors.get(number) != -factor:
                    continue
                for width in (0, 31, 32, 63, 64):
                    bits = ((1 << width) - 1 if width else -1) - node.mask
                    if bits > 0 and not bits & bits + 1:
                        rest = table.times(table.masked(number, bits, 64), -factor)
                        others = tuple((t, f) for t, f in factors.items() if t not in (term, number))
                        whole = table.linear(table.add(table.total(others, 0), rest))[0]
                        found.append((whole, number if width % 32 else -1))
        return found

    def _unsigned_range_of(self, value: Value, width: int, known: KnownRanges, depth: int) -> Range:
        """The range of *value* read as unsigned."""
        bounds = as_read(self.range_of(value, known, depth), width, False)
        view = self.read_as_unsigned.get(value, {}).get(width)
        return bounds if view is None or view not in known else intersect(bounds, known[view])

    def _narrowed(self, value: Value, found: Range, known: KnownRanges, depth: int) -> Range:
        """*found* narrowed by the maxima and minima in *value*, or by *value* being one."""
        base, shift, negative = self.loops.base(value)
        for greatest, *arms in self._choices(base, known, depth):
            one, two = (self.range_of(arm, known, depth) for arm in arms)
            choose = max if greatest else min
            least, most = choose(one[0], two[0]), choose(one[1], two[1])
            least, most = (-most, -least) if negative else (least, most)
            found = intersect(found, (least + shift, most + shift))
        return found

    def _with_lockstep_ranges(self, known: KnownRanges, *sides: int) -> KnownRanges:
        """*known* with the ranges of counters in *sides* that follow from those of counters in lockstep with them."""
        found = known
        for value in {term for side in sides for term, _ in self.table.linear(side)[0]}.difference(known):
            counter, phi = self.loops.counter(value), self.table.node(value)
            if counter is None or not counter.in_every_iteration or type(phi) is not Phi:
                continue
            for other in known:
                there = self.table.node(other)
                beside = type(there) is Phi and there.block == phi.block
                partner = self.loops.counter(other) if beside else None
                if partner is not None and partner.advances == counter.advances:
                    iterations = partner.iterations_to(known[other], self.range_of(partner.start, known, 0))
                    low, high = counter.after(iterations, self.range_of(counter.start, known, 0))
                    # Signed numbers do not wrap, so an end that the register cannot hold bounds nothing.
                    width = width_of(self.loops.registers.function.registers[phi.register].type) or 32
                    half = 1 << width - 1
                    low, high = low if low >= -half else -INFINITY, high if high < half else INFINITY
                    found = KnownRanges(found | {value: (low, high)})
        return found

    def _loop_range(self, base: Value, known: KnownRanges, depth: int) -> Range:
        """The range of *base* in all iterations of a loop that ends when a counter equals a limit.

        *base* is that counter, or a loop-invariant distance away from it: i is below n in a loop that ends at ``i == n
        - (n & 3)``.
        """
        found = UNBOUNDED
        for low, high, rest in self.loops.bounds(base):
            least, most = self.range_of(rest, known, depth + 1)
            found = intersect(found, (max(low + least, -INFINITY), min(high + most, INFINITY)))
        return found

    def equated(self, p: Value, facts: PathCondition) -> bool | None:
        """Whether the comparison *p* follows from facts about the equality of the same two values; None if not."""
        table = self.table
        node = table.nodes[p]
        equal = self._equal(p, facts)
        if type(node) is not Compare or node.relation == "eq" or equal is None:
            return equal
        if equal:
            return False
        # With steps of one, the two are equal before one exceeds the other.
        difference = table.add(node.left, table.times(node.right, -1))
        by = self.loops.stride_until(p, difference, False)
        return True if abs(by) == 1 and self._starts_before_end(difference, by, facts) else None

    def _starts_before_end(self, difference: Value, by: int, facts: PathCondition) -> bool:
        """Whether a loop that changes *difference* by *by* enters its first iteration before that has passed zero."""
        if not self.loops.strict:
            return True
        start = self.loops.started(difference)
        if start is None:
            return False
        low, high = self.range_of(start, self.known(facts), 0)
        return high <= 0 if by > 0 else low >= 0

    def _equal(self, p: Value, facts: PathCondition) -> bool | None:
        """Whether both sides of a comparison are equal, given other tests of their difference; None if unknown."""
        point = self.point(p)
        if point is None:
            return None
        if facts.points is None:
            facts.points = {}
            for fact, truth in facts.items():
                node = self.table.nodes[fact]
                if type(node) is Compare and node.relation == "eq" and (other := self.point(fact)):
                    facts.points.setdefault(other[0], {})[other[1]] = truth
        base, number = point
        known = facts.points.get(base)
        if known is None or number in known:
            return known[number] if known else None
        return False if True in known.values() else None

    def point(self, p: Value) -> tuple[Value, int] | None:
        """``(difference, constant)``: the sides of comparison *p* are equal where the difference is that constant.

        Lockstep counters are replaced by their representative, so ``i == n - 1`` and ``i - n + 1 != 0`` have the same
        point whichever counter the compiler uses. None if one side is a constant and the other does not contain a
        counter.
        """
        if p not in self._points:
            self._points[p] = self._point(self.table.nodes[p])
        return self._points[p]

    def _point(self, node: Node) -> tuple[Value, int] | None:
        table = self.table
        if type(node) is not Compare or node.width not in (32, 64):
            return None
        difference = table.add(node.left, table.times(node.right, -1))
        terms, constant = table.linear(self.loops.canonical(difference))
        counters = filter(None, (self.loops.counter(term) for term, _ in terms))
        if not terms or (
            table.constant_of(node.right) is not None
            and len(terms) == 1
            and not any(c.in_every_iteration for c in counters)
        ):
            return None
        negative = terms[0][1] < 0
        if negative:
            terms = tuple((t, -f) for t, f in terms)
        return table.total(terms, 0), constant if negative else -constant

    def _canonical_range_of(self, value: Value, known: KnownRanges) -> Range:
        """The range of *value*, intersected with that of its canonical form."""
        found = self.range_of(value, known, 0)
        canonical = self.loops.canonical(value)
        return found if canonical == value else intersect(found, self.range_of(canonical, known, 0))
