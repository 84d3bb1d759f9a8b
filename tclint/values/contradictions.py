"""Whether a path condition is impossible because of what it says about sums and differences taken together.

The ranges of two values contradict that of their sum or difference if the sum of the ranges and that range have no value
in common. That needs a range of the sum which is more than the ranges of its terms: one that is known of it, or follows
from a maximum, a minimum, a remainder or a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import NamedTuple

from tclint.values.entailment import ConditionalIntervals, KnownRanges
from tclint.values.integers import Range
from tclint.values.path_condition import PathCondition
from tclint.values.ranges import MAX_FINITE_BOUND, UNBOUNDED, may_be_congruent

__all__ = ["Contradictions"]


class _Sum(NamedTuple):
    """The sum or difference of two bases."""

    base: int
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
        self._impossible: dict[int, tuple[KnownRanges, bool]] = {}
        """``id(known)`` -> ``(known, answer)``. Stores the key object so that its id stays unique."""
        self._sums: dict[tuple[int, int], dict[int, _Sum]] = {}
        """Two bases -> the factor of the second one -> :meth:`_sum`."""
        self._alone: dict[int, Range | None] = {}
        """Base -> its range without what is known of it; None if that depends on other known ranges."""
        self._additive: dict[int, set[int]] = {}
        """Base -> bases such that the sum and the difference of the two have the ranges of their terms.

        Each has as long as no range of its own is known, and it is not read as unsigned.
        """
        self._additive_sums: dict[int, list[tuple[int, int]]] = {}
        """The base of such a sum or difference -> the two bases, of all pairs."""

    def impossible(self, facts: PathCondition) -> bool:
        """Whether the known ranges of two bases contradict that of their sum or difference."""
        known = self.ranges.known(facts)
        if id(known) not in self._impossible:
            self._impossible[id(known)] = known, self._any(known)
        return self._impossible[id(known)][1]

    def _any(self, known: KnownRanges) -> bool:
        """Whether there is a contradiction between two of the *known* ranges."""
        agreeing = {base for base, ends in known.items() if self._agrees(base, ends, known)}
        return any(self._contradict(pair, known, agreeing) for pair in self._pairs(known, agreeing))

    def _pairs(self, known: KnownRanges, agreeing: AbstractSet[int]) -> Iterator[tuple[int, int]]:
        """The pairs of *known* bases of which :meth:`_contradict` does not say no without a comparison of ranges.

        Almost all pairs are additive, so the others are found without asking about each pair. *agreeing* are the bases
        whose terms do not contradict them.
        """
        bases = list(known)
        for k, one in enumerate(bases, 1):
            additive = self._additive.get(one, ()) if one in agreeing else ()
            yield from ((one, two) for two in bases[k:] if two not in additive or two not in agreeing)
        for base in chain(bases, self.ranges.read_as_unsigned):
            for one, two in self._additive_sums.get(base, ()):
                if one in known and two in known:
                    yield one, two

    def _contradict(self, pair: tuple[int, int], known: KnownRanges, agreeing: AbstractSet[int]) -> bool:
        """Whether the ranges of a *pair* of bases contradict that of their sum or difference."""
        (one, two), ranges = pair, self.ranges
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
            if (total.bounded or ranges.mentions(known, base)) and self._contradicts(
                total, least, most, known
            ):
                return True
        if len(additive) == 2 and two not in self._additive.setdefault(one, set()):
            self._additive[one].add(two)
            for base in additive:
                self._additive_sums.setdefault(base, []).append(pair)
        return False

    def _contradicts(self, total: _Sum, least: int, most: int, known: KnownRanges) -> bool:
        """Whether the range from *least* to *most* of a sum contradicts that of its base."""
        there = (0, 0)
        if self.table.constant_of(total.base) is None:
            there = self.ranges.range_of(total.base, known)
        here = least - total.constant, most - total.constant
        here = (-here[1], -here[0]) if total.negative else here
        return not _overlap(here, there) and not may_be_congruent(here, there, 32)

    def _sum(self, one: int, two: int, factor: int) -> _Sum:
        """``one + factor * two``."""
        table = self.table
        base, constant, negative = self.loops.base(table.add(one, table.times(two, factor)))
        sign = -1 if negative else 1
        terms = {(t, f * sign) for t, f in table.linear(one)[0]}
        terms |= {(t, f * factor * sign) for t, f in table.linear(two)[0]}
        bounded = bool(self.loops.bounds(base)) or self.ranges.range_of(base, {}) != UNBOUNDED
        same = constant == 0 and table.node(base)[:3] == ("sum", tuple(sorted(terms)), 0)
        return _Sum(base, constant, negative, bounded, same)

    def _agrees(self, base: int, ends: Range, known: KnownRanges) -> bool:
        """Whether the range of *base* does not contradict those of its terms."""
        if base not in self._alone:
            single = self.table.linear(base) == (((base, 1),), 0)
            self._alone[base] = self.ranges.range_alone(base) if single else None
        alone = self._alone[base]
        return _overlap(self._of_terms(base, known) if alone is None else alone, ends)

    def _of_terms(self, base: int, known: KnownRanges) -> Range:
        """The range of *base* that follows from the ranges of its terms."""
        terms, low = self.table.linear(base)
        high = low
        for term, factor in terms:
            ends = [end * factor for end in self.ranges.range_of(term, known, 1)]
            low, high = low + min(ends), high + max(ends)
        return low, high


def _overlap(one: Range, two: Range) -> bool:
    return one[0] <= two[1] and two[0] <= one[1]
