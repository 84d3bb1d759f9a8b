"""How many bytes a tensor copy to shared memory writes at most, by where the copies of its phase begin.

The box of a tensor copy is in its tensor map and not in the PTX. What its phase expects says how many bytes its copies write
together, each as often as threads execute it. All copies of one tensor map have one box: the least distance from one of them to
the next place at which a copy or an mbarrier begins. Where these distances are as many bytes together as each phase expects, a
proof assumes that no copy writes more (:attr:`.Assumption.BOXES`).

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
        times = {site: self.model.views.context_of(site).threads.bit_count() for site in copies}
        gaps = {site: self._distance(site) for site in copies}
        known = sum(times[site] * gap for site, gap in gaps.items() if gap)
        without = [site for site, gap in gaps.items() if gap is None]
        if len(without) > 1 or (without and times[without[0]] > 1):
            return {}
        found = {site: total - known if gap is None else gap for site, gap in gaps.items()}
        whole = sum(times[site] * size for site, size in found.items()) == total
        return found if whole and min(found.values()) > 0 else {}

    def _distance(self, copy: int) -> int | None:
        """The least distance from a copy of the same tensor map to the next place, if the map never changes, or else from this copy;
        None if there is no next place, 0 if it is not known."""
        of = self._map(copy)
        same = {copy} if of is None or self.values.varying_at(of) else self._of_map[of]
        gaps = [self._gap(site) for site in same]
        return 0 if 0 in gaps else min((gap for gap in gaps if gap), default=None)

    @cached_property
    def _of_map(self) -> Mapping[int | None, set[int]]:
        """Tensor map -> its copies."""
        found: dict[int | None, set[int]] = {}
        for site in self._copies:
            found.setdefault(self._map(site), set()).add(site)
        return found

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
        return in_step and self.mbarriers.are_executed(copy, arrival)

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
            alone = threads and threads & (threads - 1) == 0
            self._own[threads] = self.mbarriers.found(admitted, self._by_one) if alone else {}
        places = (MbarrierLocation(o.base, o.offset) for o in mbarriers.objects.values())
        named = [at for at in places if self.mbarriers.may_name(arrival, at)]
        return bool(named) and all(at in self._own[threads] for at in named)

    def _by_one(self, site: int) -> bool:
        """Whether one thread executes an instruction, at most."""
        threads = self.model.views.context_of(site).threads
        return threads & (threads - 1) == 0

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
        """The least bytes from a place where a copy may begin to the next place; None if there is none, 0 if they are not known."""
        starts = self._starts.get(site, frozenset())
        if not starts or any(offset % self._alignment(site) for _, offset in starts):
            return 0
        later = (
            min((at - offset for name, at in self._places if name == variable and at > offset), default=0)
            for variable, offset in starts
        )
        return min(filter(None, later), default=None)

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
        """Where the threads that execute a copy may have it begin, in all iterations; nothing if that is not known."""
        address, addresses = self.model.value(site, "destination"), self.values.addresses
        form = None if address is None else addresses.over_iterations(address)
        variable = None if form is None else self.values.variable(form.base)
        if address is None or form is None or variable is None:
            return
        terms, constant = self.values.linear(address)
        moving = tuple(
            t for t in terms if self.values.variable(t[0]) is None and not addresses.is_index(t[0])
        )
        moves = self._all_of((self.values.total(moving, constant),), site)
        if moves is None and form.count is not None and form.count <= MAX_NUMBERS:
            moves = frozenset(form.offset + k * form.stride for k in range(form.count))
            self.limits.pop(site, None)
        indices = addresses.offsets(form.index, self.model.views.context_of(site).threads)
        for index in indices or ():
            yield from ((variable.name, index + move) for move in moves or ())

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
