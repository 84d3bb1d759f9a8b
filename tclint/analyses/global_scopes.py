"""Strong accesses to global memory whose scope lacks the other threads that access the word (PTX ISA 8.5, 8.7, 8.7.1).

Two accesses of one word are in a data race, whatever their order is, unless the scope of each includes the thread of the
other. An access of scope ``.cta`` includes no thread of another CTA. Whether other CTAs access the word follows from its
address: one that does not depend on the index of the CTA is the same word in all of them. One that data select may be,
which an access to it of a wider scope states. Where CTAs have elements of their own, and one waits for the element of
another one, the address of the poll is that of the write, a whole number of elements away.

A word that a CTA accesses alone is no such word: only one CTA is let to it by a test of its index, by a lock, or by a count
of which it is the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import gcd

from tclint._named_tuple import NamedTuple
from tclint.analyses.global_memory import GlobalRanges, Source, depends_on, global_operands
from tclint.analyses.global_signals import GlobalSignals, Word
from tclint.analyses.happens_before import HappensBefore
from tclint.ir.nodes import Site
from tclint.isa.forms import Match
from tclint.values import UniformityScope

__all__ = ["GlobalScopes", "NarrowAccess"]


class NarrowAccess(NamedTuple):
    """An access of scope ``.cta``, and an access to the same word in another CTA, which may be the same instruction."""

    site: Site
    other: Site
    waits: bool
    """Whether the first one is the poll of a loop."""


class GlobalScopes:
    """The accesses of scope ``.cta`` to words that other CTAs access."""

    def __init__(self, signals: GlobalSignals) -> None:
        self.signals, self.model = signals, signals.model
        self._ranges = GlobalRanges(signals.model)

    def too_narrow(self) -> Iterator[NarrowAccess]:
        """The accesses whose scope is too small, in the order of the text, each once.

        In a kernel that never asks which CTA it is, only an access of a wider scope shows that there are others.
        """
        narrow = [i for i in self._strong if self._match(i).order_scope == "cta"]
        shown = self._strong if self.signals.several_ctas else list(filter(self._is_wide, self._strong))
        for site in narrow:
            waits = site in self.model.fact(HappensBefore).points.spin_loads
            others = sorted(shown, key=lambda i: (i == site, i))
            found = next((i for i in others if self._race(site, i)), None)
            if found is not None:
                yield NarrowAccess(site, found, waits and not self._match(site).combination)

    @cached_property
    def _strong(self) -> list[Site]:
        """The strong accesses to integers and numbers in global memory, as far as it is known from where."""
        strong = self.model.matching(
            lambda match: match.strong and not match.form.event and _is_global(match)
        )
        return [i for i in strong if self._origins(i)]

    def _race(self, site: Site, other: Site) -> bool:
        """Whether *other*, in another CTA, accesses the word of *site*, and one of the two writes it."""
        if not (self._changes(site) or self._changes(other)) or not self._by_many(other):
            return False
        if site == other and not self._match(site).combination:  # many store one value
            return False
        if self._origins(site).isdisjoint(self._origins(other)):
            return False
        values, here, there = self.model.values, self._address(site), self._address(other)
        own, its = depends_on(values, here), depends_on(values, there)
        if own | its <= {Source.THREAD}:
            return here == there or not (own or its or self._disjoint(site, other))
        if site == other:
            return False
        if here == there:
            selected = Source.DATA in own and own <= {Source.DATA, Source.THREAD}
            alone = values.uniformity(here) <= UniformityScope.CTA
            return selected and not alone and self._match(other).wide
        return self._of_another(site, other)

    def _of_another(self, site: Site, other: Site) -> bool:
        """Whether one of the two waits for what the other writes in another CTA, a whole number of elements away."""
        for poll, write in ((site, other), (other, site)):
            if not self._changes(poll) and self._changes(write) and self._address(poll) in self._polled:
                if self._disjoint(poll, write):
                    return False
                to = self._address(write)
                return any(self._elements_apart(to, start) for start in self._starts(self._address(poll)))
        return False

    @cached_property
    def _polled(self) -> frozenset[int]:
        """The addresses that loops wait for."""
        return frozenset(map(self._address, self.model.fact(HappensBefore).points.spin_loads))

    def _starts(self, address: int) -> Iterator[int]:
        """*address*, and what it is when the loops begin by which it moves."""
        values = self.model.values
        yield address
        terms, constant = values.linear(address)
        for phi, factor in terms:
            for argument in values.arguments(phi) if values.is_phi(phi) else ():
                rest = tuple(each for each in terms if each[0] != phi)
                yield values.add(values.total(rest, constant), values.times(argument, factor))

    def _elements_apart(self, own: int, other: int) -> bool:
        """Whether two addresses are a whole number of the elements apart of which each CTA has one, and are not the same."""
        values = self.model.values
        (terms, start), (others, end) = values.linear(own), values.linear(other)
        unit = values.addresses.unit
        strides = (
            gcd(*(f * unit(t) for t, f in each if depends_on(values, t) - {Source.THREAD}))
            for each in (terms, others)  # the first CTA may write at a constant distance from the pointer
        )
        stride = next(filter(None, strides), 0)
        apart = dict(terms)
        for term, factor in others:
            apart[term] = apart.get(term, 0) - factor
        moved = {term: factor for term, factor in apart.items() if factor}
        if not stride or not (moved or start != end) or not all(depends_on(values, t) for t in moved):
            return False
        return (start - end) % stride == 0 and all(f * unit(t) % stride == 0 for t, f in moved.items())

    def _by_many(self, site: Site) -> bool:
        """Whether several CTAs may execute *site* at once."""
        return not self.signals.of_one_cta(site) and not any(
            self.model.cfg.dominates(block, self.model.cfg.block_of[site]) for block in self._exclusive
        )

    @cached_property
    def _exclusive(self) -> frozenset[int]:
        """The blocks that only the holder of a lock enters, or the CTA of which a count shows that it is the last."""
        signals = self.signals
        return frozenset(
            edge.target
            for seen in signals.observations
            if not seen.waits or signals.word(seen, *signals.signals(seen)) is Word.LOCK
            for edge in seen.passes
        )

    def _match(self, site: Site) -> Match:
        match = self.model.instruction(site).match
        assert match is not None
        return match

    def _is_wide(self, site: Site) -> bool:
        return self._match(site).wide

    def _origins(self, site: Site) -> frozenset[int]:
        return self.signals.origins(site, self._verb(site))

    def _changes(self, site: Site) -> bool:
        """Whether *site* may change the word, unlike an atomic operation that adds 0 to read it."""
        return self._verb(site) == "write" and not self.signals.changes_nothing(site)

    def _verb(self, site: Site) -> str:
        return "write" if global_operands(self._match(site), "write") else "read"

    def _address(self, site: Site) -> int:
        address = self.model.named_value(site, "a")
        return -1 if address is None else address

    def _disjoint(self, site: Site, other: Site) -> bool:
        return self._ranges.disjoint(site, self._verb(site), other, self._verb(other))


def _is_global(match: Match) -> bool:
    """Whether an operand is an address in global memory."""
    return bool(global_operands(match, "read") or global_operands(match, "write"))
