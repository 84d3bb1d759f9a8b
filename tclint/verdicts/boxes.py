"""How many bytes a tensor copy to shared memory writes at most, by where the copies of its phase begin.

The box of a tensor copy is in its tensor map and not in the PTX. What its phase expects says how many bytes its copies write
together. Where the distances from each of them to the next place at which a copy or an mbarrier begins are as many bytes
together, in each phase, a proof assumes that each writes no more than its distance (:attr:`.Assumption.BOXES`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import product

from tclint.verdicts.own_mbarriers import Location, OwnMbarriers
from tclint.verdicts.rings import RingStates

__all__ = ["Boxes"]

MAX_NUMBERS = 64
"""The numbers of a counter, and the destinations of a copy, that are distinguished."""


class Boxes:
    """The tensor copies of one kernel that complete on mbarriers."""

    def __init__(self, rings: RingStates, mbarriers: OwnMbarriers) -> None:
        self.model, self.values, self.rings = mbarriers.model, mbarriers.values, rings
        self.mbarriers = mbarriers
        self._numbers: dict[int, frozenset[int] | None] = {}

    @cached_property
    def sizes(self) -> dict[int, int]:
        """The most bytes that each copy is taken to write, for those of which the distances say it."""
        found = dict[int, int]()
        for mbarrier, copies in self._phases.items():
            expected = {self.model.constant_of(site, "tx") for site in self._arrivals.get(mbarrier, ())}
            if len(expected) == 1 and (total := min(expected, key=str)) is not None:
                found |= self._shared_out(total, copies)
        return found

    def _shared_out(self, total: int, copies: list[int]) -> dict[int, int]:
        """The bytes of each of the *copies* of a phase that expects *total*; nothing if they do not add up."""
        gaps = {site: self._gap(site) for site in copies}
        known = [gap for gap in gaps.values() if gap]
        rest = total - sum(known)
        found = {site: rest if gap is None else gap for site, gap in gaps.items()}
        whole = sum(found.values()) == total and min(found.values()) > 0
        return found if whole and len(known) >= len(copies) - 1 else {}

    @cached_property
    def _phases(self) -> dict[int, list[int]]:
        """The tensor copies, by the address of their mbarrier."""
        copies = self.model.where(lambda e: e.transacts and e.until_phase)
        found: dict[int, list[int]] = {}
        for site in copies:
            mbarrier = self.model.mbarrier(site)
            if mbarrier is not None and self.model.instruction(site).role("tensormap") is not None:
                found.setdefault(self.values.representative(mbarrier), []).append(site)
        return found

    @cached_property
    def _arrivals(self) -> dict[int, list[int]]:
        """What expects bytes, by the address of the mbarrier."""
        found: dict[int, list[int]] = {}
        for site in self.mbarriers.mbarriers.arriving:
            mbarrier = self.model.mbarrier(site)
            if mbarrier is not None and self.model.instruction(site).role("tx") is not None:
                found.setdefault(self.values.representative(mbarrier), []).append(site)
        return found

    # ------------------------------------------------------------ distances

    def _gap(self, site: int) -> int | None:
        """The bytes from each place where a copy may begin to the next place, at least; None if there is none, 0 if it is not
        known where it begins."""
        gaps = list[int]()
        for variable, offset in self._starts.get(site, ()):
            later = [at for name, at in self._places if name == variable and at > offset]
            if not later:
                return None
            gaps.append(min(later) - offset)
        return min(gaps, default=0)

    @cached_property
    def _starts(self) -> dict[int, frozenset[Location]]:
        """Where the copies may begin; nothing of a copy of which it is not known."""
        sites = (site for copies in self._phases.values() for site in copies)
        return {site: frozenset(self._destinations(site)) for site in sites}

    @cached_property
    def _places(self) -> frozenset[Location]:
        """Where copies and mbarriers begin."""
        objects = self.mbarriers.mbarriers.objects.values()
        found = {location for o in objects if (location := self.mbarriers.location(o.base, o.offset))}
        return frozenset(found.union(*self._starts.values()))

    def _destinations(self, site: int) -> Iterator[Location]:
        address = self.model.value(site, "destination")
        terms, constant = self.values.linear(address) if address is not None else ((), 0)
        variables = [v for t, f in terms if f == 1 and (v := self.values.variable(t)) is not None]
        rest = self.values.total(tuple(t for t in terms if self.values.variable(t[0]) is None), constant)
        offsets = self._all_of((rest,)) if len(variables) == 1 else None
        for offset in offsets or ():
            yield variables[0].name, offset

    # ------------------------------------------------------------ numbers

    def _all_of(self, values: Iterable[int]) -> frozenset[int] | None:
        """All numbers that *values* may be; None if they are not known, or too many."""
        found = set[int]()
        for value in values:
            counters = sorted(self.rings.counters(value))
            choices = [self._of_counter(counter) for counter in counters]
            if any(each is None for each in choices):
                return None
            for chosen in product(*(each for each in choices if each is not None)):
                number = self.rings.evaluated(value, dict(zip(counters, chosen, strict=True)))
                if number is None or len(found) >= MAX_NUMBERS:
                    return None
                found.add(number)
        return frozenset(found)

    def _of_counter(self, counter: int) -> frozenset[int] | None:
        """All numbers that a counter may be: the least fixpoint of what its block joins."""
        if counter in self._numbers:
            return self._numbers[counter]
        self._numbers[counter] = frozenset()
        known: frozenset[int] | None = frozenset()
        while known is not None and (found := self._all_of(self.values.arguments(counter))) != known:
            known = self._numbers[counter] = found if self.values.arguments(counter) else None
        self._numbers[counter] = known
        return known
