"""How many bytes a tensor copy to shared memory writes at most, by where the copies of its phase begin.

The box of a tensor copy is in its tensor map and not in the PTX. What its phase expects says how many bytes its copies write
together. Where the distances from each of them to the next place at which a copy or an mbarrier begins are as many bytes
together, in each phase, a proof assumes that each writes no more than its distance (:attr:`.Assumption.BOXES`). All copies of
one tensor map must have one distance, since it has one box.

So it must be known what a phase expects, and which copies it has: nothing else may expect bytes in it, and all of these copies are
executed where the arrival is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from math import prod

from tclint.analyses.mbarrier_addresses import MbarrierLocation
from tclint.verdicts.own_mbarriers import Location, OwnMbarriers
from tclint.verdicts.rings import RingStates

__all__ = ["Boxes"]

MAX_NUMBERS = 64
"""The numbers of a counter, and the destinations of a copy, that are distinguished; of several counters, its square."""


class Boxes:
    """The tensor copies of one kernel that complete on mbarriers."""

    def __init__(self, rings: RingStates, mbarriers: OwnMbarriers) -> None:
        self.model, self.values, self.rings = mbarriers.model, mbarriers.values, rings
        self.mbarriers = mbarriers
        self._numbers: dict[int, frozenset[int] | None] = {}
        self._own: dict[int, Mapping[MbarrierLocation, Location]] = {}
        """Thread -> the mbarriers at which it alone arrives, each time with one arrival."""
        self._many = set[int]()
        """The counters that have too many numbers."""
        self.limits: dict[int, str] = {}
        """Copy -> the limit because of which it is not known where it begins, in words."""

    @cached_property
    def sizes(self) -> dict[int, int]:
        """The most bytes that each copy is taken to write, for those of which the distances say it."""
        found = dict[int, int]()
        for arrival, copies in self._phases.items():
            total = self.model.constant_of(arrival, "tx")
            if total is not None:
                found |= self._shared_out(total, copies)
        boxes: dict[int | None, set[int]] = {}
        for site, size in found.items():
            boxes.setdefault(self._map(site), set()).add(size)
        return {site: size for site, size in found.items() if len(boxes[self._map(site)]) == 1}

    def _map(self, copy: int) -> int | None:
        """The tensor map of a copy."""
        value = self.model.value(copy, "tensormap")
        return None if value is None else self.values.representative(value)

    def _shared_out(self, total: int, copies: list[int]) -> dict[int, int]:
        """The bytes of each of the *copies* of a phase that expects *total*; nothing if they do not add up."""
        gaps = {site: self._gap(site) for site in copies}
        known = [gap for gap in gaps.values() if gap]
        rest = total - sum(known)
        found = {site: rest if gap is None else gap for site, gap in gaps.items()}
        whole = sum(found.values()) == total and min(found.values()) > 0
        return found if whole and len(known) >= len(copies) - 1 else {}

    @cached_property
    def _copies(self) -> list[int]:
        """The tensor copies."""
        copies = self.model.where(lambda e: e.transacts and e.until_phase)
        return [site for site in copies if self.model.instruction(site).role("tensormap") is not None]

    @cached_property
    def _phases(self) -> dict[int, list[int]]:
        """What expects bytes, with the tensor copies of its phase."""
        found: dict[int, list[int]] = {}
        for site in self._copies:
            if (arrival := self._expecting(site)) is not None:
                found.setdefault(arrival, []).append(site)
        return {
            arrival: copies
            for arrival, copies in found.items()
            if self._is_alone(arrival) and all(self._is_executed(copy, arrival) for copy in copies)
        }

    def _is_executed(self, copy: int, arrival: int) -> bool:
        """Whether a copy that follows an arrival is executed whenever that is."""
        loops = self.model.cfg.loops.values()
        here, there = (self.model.cfg.block_of[site] for site in (copy, arrival))
        in_step = all((here in loop) == (there in loop) for loop in loops)
        return in_step and self.mbarriers.is_executed(copy, arrival)

    def _is_alone(self, arrival: int) -> bool:
        """Whether an arrival is all that its phase waits for, besides copies: one thread arrives once, and nothing else expects
        bytes."""
        threads, mbarriers = self.model.views.context_of(arrival).threads, self.mbarriers.mbarriers

        def admitted(site: int) -> bool:
            if mbarriers.sites[site].transacts:
                return True
            once = site in mbarriers.arriving and mbarriers.amount(site) == 1
            return once and self.model.views.context_of(site).threads == threads

        if threads not in self._own:
            self._own[threads] = (
                self.mbarriers.found(admitted) if threads and threads & (threads - 1) == 0 else {}
            )
        places = (MbarrierLocation(o.base, o.offset) for o in mbarriers.objects.values())
        named = [at for at in places if self.mbarriers.may_name(arrival, at)]
        return bool(named) and all(at in self._own[threads] for at in named)

    def _expecting(self, copy: int) -> int | None:
        """The last instruction before a copy, on every path, that expects bytes on its mbarrier; None if there is none."""
        block_of, dominates = self.model.cfg.block_of, self.model.cfg.dominates
        mbarrier, nearest = self._mbarrier(copy), None
        for site in sorted(self.mbarriers.mbarriers.arriving):
            here, there = block_of[site], block_of[copy]
            before = site < copy if here == there else dominates(here, there)
            tracked = self.model.instruction(site).role("tx") is not None and self._mbarrier(site) == mbarrier
            if before and tracked and (nearest is None or dominates(block_of[nearest], here)):
                nearest = site
        return nearest

    def _mbarrier(self, site: int) -> int | None:
        """The address of the mbarrier that an instruction names."""
        address = self.model.mbarrier(site)
        return None if address is None else self.values.representative(address)

    # ------------------------------------------------------------ distances

    def _gap(self, site: int) -> int | None:
        """The bytes from each place where a copy may begin to the next place; None if there is none, 0 if they are not known, or not
        the same."""
        starts = self._starts.get(site, frozenset())
        if not starts or any(offset % self._alignment(site) for _, offset in starts):
            return 0
        gaps = set[int]()
        for variable, offset in starts:
            later = (at - offset for name, at in self._places if name == variable and at > offset)
            gaps |= {min(later, default=0)}
        gaps -= {0}
        return None if not gaps else gaps.pop() if len(gaps) == 1 else 0

    def _alignment(self, site: int) -> int:
        """The bytes of which the place where a copy begins must be a multiple."""
        match = self.model.instruction(site).match
        found = match.form.align.get(match.form.roles["destination"], 1) if match is not None else 1
        return found if isinstance(found, int) else 1

    @cached_property
    def _starts(self) -> dict[int, frozenset[Location]]:
        """Where the copies may begin; nothing of a copy of which it is not known."""
        return {site: frozenset(self._destinations(site)) for site in self._copies}

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
        offsets = self._all_of((rest,), site) if len(variables) == 1 else None
        for offset in offsets or ():
            yield variables[0].name, offset

    # ------------------------------------------------------------ numbers

    def _all_of(self, values: Iterable[int], site: int = -1) -> frozenset[int] | None:
        """All numbers that *values* may be; None if they are not known, or too many, which is noted for the copy *site*."""
        found = set[int]()
        for value in values:
            counters = sorted(self.rings.counters(value))
            choices = [self._of_counter(counter) for counter in counters]
            if not self._many.isdisjoint(counters):
                self._note(site)
            known = [each for each in choices if each is not None]
            if len(known) < len(choices):
                return None
            if prod(map(len, known)) > MAX_NUMBERS**2:
                self._note(site)
                return None
            for chosen in product(*known):
                number = self.rings.evaluated(value, dict(zip(counters, chosen, strict=True)))
                if number is None:
                    return None
                found.add(number)
                if len(found) > MAX_NUMBERS:
                    self._note(site)
                    return None
        return frozenset(found)

    def _note(self, site: int) -> None:
        self.limits[site] = f"it may begin at more than {MAX_NUMBERS} places"

    def _of_counter(self, counter: int) -> frozenset[int] | None:
        """All numbers that a counter may be: the least fixpoint of what its block joins."""
        if counter in self._numbers:
            return self._numbers[counter]
        self._numbers[counter] = frozenset()
        known: frozenset[int] | None = frozenset()
        while known is not None and (found := self._all_of(self.values.arguments(counter))) != known:
            known = self._numbers[counter] = found if self.values.arguments(counter) else None
        if self.limits.pop(-1, ""):
            self._many.add(counter)
        self._numbers[counter] = known
        return known
