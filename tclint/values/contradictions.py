"""Whether a path condition is impossible because of what it says about sums and differences taken together.

The ranges of two values contradict that of their sum or difference if the sum of the ranges and that range have no value
in common. That needs a range of the sum which is more than the ranges of its terms: one that is known of it, or follows
from a maximum, a minimum, a remainder or a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain

from tclint._named_tuple import NamedTuple
from tclint.values.entailment import ConditionalIntervals
from tclint.values.integers import Range
from tclint.values.nodes import Sum, Terms, Value, is_choice
from tclint.values.path_condition import KnownRanges, PathCondition
from tclint.values.ranges import MAX_FINITE_BOUND, UNBOUNDED, may_be_congruent
from tclint.values.value_table import MAX_TERMS_PER_SUM

__all__ = ["Contradictions"]


class _Sum(NamedTuple):
    """The sum or difference of two bases."""

    base: Value
    """Its own base, as of :meth:`LoopFacts.base`, and so are the next two."""
    constant: int
    negative: bool
    bounded: bool
    """Whether the base may have a range where no range is known."""
    same_terms: bool
    """Whether the base has the terms of the two bases, and no other range than that of these terms by itself."""


class Contradictions:
    """The contradictions between the ranges that path conditions of one function imply."""

    def __init__(self, ranges: ConditionalIntervals) -> None:
        self.ranges, self.loops, self.table = ranges, ranges.loops, ranges.table
        self.compared = 0
        """The sums whose ranges were compared so far, which is what takes time here."""
        self._impossible: dict[int, tuple[KnownRanges, bool]] = {}
        """``id(known)`` -> ``(known, answer)``. Stores the key object so that its id stays unique."""
        self._known_values: dict[int, tuple[KnownRanges, dict[int, int]]] = {}
        """``id(known)`` -> ``(known, the results of :meth:`_values`)``."""
        self._sums: dict[tuple[int, int], dict[int, _Sum]] = {}
        """Two bases -> the factor of the second one -> :meth:`_sum`."""
        self._rests: dict[tuple[int, int], tuple[tuple[int, tuple[int, int, bool]], ...]] = {}
        """The results of :meth:`_without`."""
        self._alone: dict[int, Range | None] = {}
        """Base -> its range without what is known of it; None if that depends on other known ranges."""
        self._plain_terms: dict[int, Terms] = {}
        """Base -> its terms if each is one of many that :meth:`_adds` knows enough about; else none."""
        self._additive: dict[int, set[int]] = {}
        """Base -> bases such that the sum and the difference of the two have the ranges of their terms.

        Each has as long as no range of its own is known, and it is not read as unsigned.
        """
        self._additive_sums: dict[Terms, list[tuple[int, int]]] = {}
        """The terms of such a sum or difference -> the two bases, of all pairs."""

    def impossible(self, facts: PathCondition, before: PathCondition | None = None) -> bool:
        """Whether the known ranges of two bases contradict that of their sum or difference.

        If *facts* extend *before*, which is known to be possible, only pairs are compared about which more is known.
        """
        known = self.ranges.known(facts)
        if id(known) not in self._impossible:
            earlier = None if before is None else self._impossible.get(id(self.ranges.known(before)))
            since = KnownRanges() if earlier is None or earlier[1] else earlier[0]
            fresh = KnownRanges({b: ends for b, ends in known.items() if since.get(b) != ends})
            self._impossible[id(known)] = known, bool(fresh) and self._any(known, fresh)
        return self._impossible[id(known)][1]

    def excluded(self, facts: PathCondition, before: PathCondition | None = None) -> bool:
        """Whether the sum or difference of two bases with known values has a value that *facts* exclude.

        An inequality need not narrow a range. ``i != n`` contradicts ``i == m`` and ``n - m == 0``, in whatever order. If
        *facts* extend *before*, which is consistent, only what they add is looked at.
        """
        if not facts.consistent:
            facts.consistent = not self._excluded(facts, before)
        return not facts.consistent

    def _excluded(self, facts: PathCondition, before: PathCondition | None) -> bool:
        loops, values = self.loops, self._values(facts)
        if len(values) < 2:
            return False
        fresh: Iterable[tuple[int, bool]] = facts.items()
        if before is not None and before.consistent and self._values(before) == values:
            fresh = facts.items() - before.items()
        for fact, truth in fresh:
            comparison = None if truth else loops.comparison(fact)
            if comparison is None or comparison[0].relation != "eq":
                continue
            left, excluded = comparison[0].left, self.table.constant_of(comparison[0].right)
            for whole in {left, loops.canonical(left)}:
                for base, value in values.items():
                    for factor, (rest, shift, negative) in self._without(whole, base):
                        more = values.get(rest)
                        if (
                            more is not None
                            and factor * value + shift + (-more if negative else more) == excluded
                        ):
                            return True
        return False

    def _values(self, facts: PathCondition) -> dict[int, int]:
        """Base -> its value, if *facts* admit only one."""
        known = self.ranges.known(facts)
        found = self._known_values.get(id(known))
        if found is None:
            values = {base: low for base, (low, high) in known.items() if low == high}
            found = self._known_values[id(known)] = known, values
        return found[1]

    def _without(self, whole: Value, base: Value) -> tuple[tuple[int, tuple[int, int, bool]], ...]:
        """``(factor, *whole* less that multiple of *base*)``, for the factors 1 and -1 if the two have a common term."""
        found = self._rests.get((whole, base))
        if found is None:
            table = self.table
            common = {t for t, _ in table.linear(whole)[0]}.intersection(t for t, _ in table.linear(base)[0])
            found = self._rests[whole, base] = tuple(
                (factor, self.loops.base(table.add(whole, table.times(base, -factor))))
                for factor in ((1, -1) if common else ())
            )
        return found

    def _any(self, known: KnownRanges, fresh: KnownRanges) -> bool:
        """Whether there is a contradiction between two of the *known* ranges; without *fresh* ones there is none."""
        agreeing = {base for base, ends in known.items() if self._agrees(base, ends, known)}
        return any(self._contradict(pair, known, fresh, agreeing) for pair in self._pairs(known, agreeing))

    def _pairs(self, known: KnownRanges, agreeing: AbstractSet[int]) -> Iterator[tuple[int, int]]:
        """The pairs of *known* bases of which :meth:`_contradict` does not say no without a comparison of ranges.

        Almost all pairs are additive, so the others are found without asking about each pair. *agreeing* are the bases
        whose terms do not contradict them.
        """
        rest, additive = set(known), self._additive
        for one in sorted(known):
            rest.discard(one)
            yield from (
                (one, two) for two in rest.difference(additive.get(one, ())) if not self._adds(one, two)
            )
        for one in known.keys() - agreeing:
            yield from ((min(one, two), max(one, two)) for two in additive.get(one, ()) if two in known)
        nodes = self.table.nodes
        for base in chain(known, self.ranges.read_as_unsigned):
            if type(node := nodes[base]) is Sum:
                for one, two in self._additive_sums.get(node.terms, ()):
                    if one in known and two in known:
                        yield one, two

    def _adds(self, one: Value, two: Value) -> bool:
        """Whether the terms of two bases alone show that the pair is additive, which is then noted.

        So it is if they have no term in common, and none of the terms is a minimum, a maximum or some bits, which a sum
        may say more about, or a counter, whose loop may. No value is made of the sum: few are known of any.
        """
        if (one, two) in self._sums:
            return False
        ours, theirs = self._plain(one), self._plain(two)
        if (
            not ours
            or not theirs
            or len(ours) + len(theirs) > MAX_TERMS_PER_SUM
            or not {t for t, _ in ours}.isdisjoint(t for t, _ in theirs)
        ):
            return False
        less = sorted((*ours, *((t, -f) for t, f in theirs)))
        if less[0][1] < 0:
            less = [(t, -f) for t, f in less]
        self._note_additive(one, two, (tuple(sorted(ours + theirs)), tuple(less)))
        return True

    def _plain(self, base: Value) -> Terms:
        """The terms of *base* if :meth:`_adds` knows enough about each of them; none if not."""
        found = self._plain_terms.get(base)
        if found is None:
            found, constant = self.table.linear(base)
            if constant or any(self._is_special(term) for term, _ in found):
                found = ()
            self._plain_terms[base] = found
        return found

    def _is_special(self, term: Value) -> bool:
        """Whether a sum with *term* may have another range than that of its terms."""
        return is_choice(self.table.node(term)) or self.loops.counter(term) is not None

    def _note_additive(self, one: Value, two: Value, sums: Iterable[Terms]) -> None:
        """Record that the pair is additive, and the terms of its sum and difference."""
        self._additive.setdefault(one, set()).add(two)
        self._additive.setdefault(two, set()).add(one)
        for terms in sums:
            self._additive_sums.setdefault(terms, []).append((one, two))

    def _contradict(
        self, pair: tuple[int, int], known: KnownRanges, fresh: KnownRanges, agreeing: AbstractSet[int]
    ) -> bool:
        """Whether the ranges of a *pair* of bases contradict that of their sum or difference.

        The sum is looked at if the range of one of the three is *fresh*, or that of a part of the sum.
        """
        (one, two), ranges = pair, self.ranges
        first_look = one in fresh or two in fresh
        (low, high), (first, last) = known[one], known[two]
        agree = one in agreeing and two in agreeing
        sums = self._sums.setdefault(pair, {})
        additive = []
        for factor, least, most in ((1, low + first, high + last), (-1, low - last, high - first)):
            if least < -MAX_FINITE_BOUND and most > MAX_FINITE_BOUND:
                continue  # no range contradicts this one
            total = sums.get(factor)
            if total is None:
                total = sums[factor] = self._sum(one, two, factor)
            base = total.base
            if total.same_terms and ranges.adds_ranges_of_terms(base):
                additive.append(base)
                if agree and base not in known:
                    continue  # the range of the sum is that of terms which contradict neither of the two
            if not first_look and not ranges.mentions(fresh, base):
                continue
            if (total.bounded or ranges.mentions(known, base)) and self._contradicts(
                total, least, most, known
            ):
                return True
        if len(additive) == 2 and two not in self._additive.get(one, ()):
            sums_of = map(self.table.node, additive)
            self._note_additive(one, two, [node.terms for node in sums_of if type(node) is Sum])
        return False

    def _contradicts(self, total: _Sum, least: int, most: int, known: KnownRanges) -> bool:
        """Whether the range from *least* to *most* of a sum contradicts that of its base."""
        self.compared += 1
        there = (0, 0)
        if self.table.constant_of(total.base) is None:
            there = self.ranges.range_of(total.base, known)
        here = least - total.constant, most - total.constant
        here = (-here[1], -here[0]) if total.negative else here
        return not _overlap(here, there) and not may_be_congruent(here, there, 32)

    def _sum(self, one: Value, two: Value, factor: int) -> _Sum:
        """``one + factor * two``."""
        table = self.table
        base, constant, negative = self.loops.base(table.add(one, table.times(two, factor)))
        sign = -1 if negative else 1
        terms = {(t, f * sign) for t, f in table.linear(one)[0]}
        terms |= {(t, f * factor * sign) for t, f in table.linear(two)[0]}
        bounded = bool(self.loops.bounds(base)) or self.ranges.range_of(base, KnownRanges()) != UNBOUNDED
        node = table.node(base)
        same = (
            constant == 0 and type(node) is Sum and not node.constant and node.terms == tuple(sorted(terms))
        )
        return _Sum(base, constant, negative, bounded, same)

    def _agrees(self, base: Value, ends: Range, known: KnownRanges) -> bool:
        """Whether the range of *base* does not contradict those of its terms."""
        if base not in self._alone:
            single = self.table.linear(base) == (((base, 1),), 0)
            self._alone[base] = self.ranges.range_alone(base) if single else None
        alone = self._alone[base]
        return _overlap(self._of_terms(base, known) if alone is None else alone, ends)

    def _of_terms(self, base: Value, known: KnownRanges) -> Range:
        """The range of *base* that follows from the ranges of its terms."""
        terms, low = self.table.linear(base)
        high = low
        for term, factor in terms:
            ends = [end * factor for end in self.ranges.range_of(term, known, 1)]
            low, high = low + min(ends), high + max(ends)
        return low, high


def _overlap(one: Range, two: Range) -> bool:
    return one[0] <= two[1] and two[0] <= one[1]
