"""The mbarrier objects of a function, the instructions that name them, and the arrivals and bytes of their phases.

An *object* is a location that an ``mbarrier.init`` initialises. A pipeline has an array of objects, and an address that
varies in a loop names one after the other: a *ring*. Each role names the ring by its own loop counter, so rings are
compared and not expressions (PTX ISA 9.7.13.15).

What one phase gets is counted by wait-free regions (:mod:`tclint.analyses.phases`): operations of one region on one
object belong to one phase. The counts are bounds where threads or conditions are unknown (:class:`Arrivals`), and None
where peer CTAs take part.

Addresses are resolved in :mod:`tclint.analyses.mbarrier_addresses`. An address is unknown if it is loaded from memory,
passed by a caller, or initialised by an array of inits whose end is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from dataclasses import field
from functools import cached_property
from itertools import chain
from math import prod

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.analyses.mbarrier_addresses import Address, MbarrierAddresses
from tclint.analyses.model import KernelModel
from tclint.analyses.phases import WaitFreeRegions
from tclint.analyses.provenance import origin
from tclint.analyses.role_paths import controlling_predicates, whole_program
from tclint.ir.nodes import MAX_CLUSTER_CTAS
from tclint.isa.effects import BARRIERS, Barrier, Effects, Query, Resource
from tclint.isa.forms import Match
from tclint.sync.mbarriers import MAX_COUNT
from tclint.values import UniformityScope
from tclint.values import thread_masks as T

__all__ = ["RESPONSE", "Arrivals", "Delivery", "MbarrierObject", "Mbarriers", "Ring", "first_waits_for", "largest_expected", "transferred"]  # fmt: skip

RESPONSE = 16
"""Bytes of the response to a request to cancel a launch; the request completes them on an mbarrier (9.7.13.17)."""
_MAX_TOTALS = 256
"""Possible totals of arrivals that are enumerated for one phase before the enumeration is given up."""


class Arrivals(NamedTuple):
    """The number of arrivals that a phase may get."""

    least: int
    most: int | None
    """None if unbounded or unknown."""
    open: int
    """The number of these by threads that need not take part."""
    known: frozenset[int]
    """The possible totals without the open arrivals. Each group of threads arrives at one of several equivalent sites,
    or at none; a peeled or unrolled loop has such a site in each of its copies."""

    def usual(self, count: int) -> bool:
        """Whether a phase may get *count* arrivals: a known total and some of the open ones."""
        return self.most is None or any(n <= count <= n + self.open for n in self.known)


@dataclass(slots=True, eq=False)
class MbarrierObject:
    """An mbarrier object: the location, and its inits."""

    base: int
    offset: int
    inits: list[int] = field(default_factory=list)
    counts: set[int | None] = field(default_factory=set)
    """The arrival counts that the inits set."""

    @property
    def count(self) -> int | None:
        """The number of arrivals that completes a phase; None if unknown."""
        return next(iter(self.counts)) if len(self.counts) == 1 else None


@dataclass(slots=True, eq=False)
class Ring:
    """Objects that one address names in different iterations of a loop. Most rings consist of a single object."""

    stages: tuple[MbarrierObject, ...]
    uses: dict[int, Effects] = field(default_factory=dict)
    """The instructions that name an object of the ring, in program order, each with what it does."""

    def where(self, holds: Callable[[Effects], bool]) -> list[int]:
        """Those of :attr:`uses` with effects for which *holds* is true, in program order."""
        return [site for site, effects in self.uses.items() if holds(effects)]

    @property
    def waits(self) -> list[int]:
        """The instructions that wait for a phase, or test it, in program order."""
        return self.where(lambda effects: effects.awaits is Barrier.MBARRIER)

    @property
    def inits(self) -> list[int]:
        """The inits of all stages."""
        return [i for stage in self.stages for i in stage.inits]

    @property
    def count(self) -> int | None:
        """The number of arrivals that completes a phase of any stage; None if unknown, or if the stages differ."""
        counts = {stage.count for stage in self.stages}
        return next(iter(counts)) if len(counts) == 1 else None


@dataclass(slots=True)
class Delivery:
    """The instructions in one wait-free region by which the same threads take part in the bytes of a phase."""

    threads: T.Threads
    expects: list[int]
    """Those that perform expect_tx."""
    copies: list[int]
    """Those that perform complete_tx."""


class Mbarriers:
    """The mbarrier objects and rings of a function, and the operations on them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.addresses = model.fact(MbarrierAddresses)
        self._named: dict[int, dict[MbarrierObject, int]] = {}
        self._counted: dict[tuple[Ring, tuple[tuple[int, int], ...]], Arrivals | None] = {}
        self._delivered: dict[MbarrierObject, list[Delivery] | None] = {}

    @cached_property
    def sites(self) -> dict[int, Effects]:
        """The reachable instructions that name an mbarrier, in program order, each with what it does."""
        found = self.model.matching(lambda match: not match.problem and bool(match.form.mbarrier))
        return {i: self.model.instruction(i).effects for i in found}

    def where(self, holds: Callable[[Effects], bool]) -> list[int]:
        """Those of :attr:`sites` with effects for which *holds* is true, in program order."""
        return [site for site, effects in self.sites.items() if holds(effects)]

    @cached_property
    def _inits(self) -> frozenset[int]:
        return frozenset(self.where(lambda effects: effects.resource is Resource.MBARRIER_INIT))

    # ------------------------------------------------------------ objects

    @cached_property
    def objects(self) -> dict[tuple[int, int], MbarrierObject]:
        """``(base, offset)`` -> the object at that location."""
        found: dict[tuple[int, int], MbarrierObject] = {}
        for site in sorted(self._inits):
            count = self._number(site, "count")
            for address in self.addresses.of(site):
                for offset, _ in self.addresses.offsets(site, address):
                    object_ = found.setdefault(
                        (address.form.base, offset), MbarrierObject(address.form.base, offset)
                    )
                    object_.inits.append(site)
                    object_.counts.add(count)
        return found

    @cached_property
    def unresolved(self) -> list[int]:
        """The reachable instructions for which it is unknown which mbarrier they name, in program order."""
        return [i for i in self.sites if not (self._initialises(i) if i in self._inits else self.named(i))]

    def _initialises(self, site: int) -> bool:
        """Whether the init at *site* initialises known objects."""
        return any(True for address in self.addresses.of(site) for _ in self.addresses.offsets(site, address))

    def named(self, site: int) -> dict[MbarrierObject, T.Threads]:
        """The objects that the instruction may name, each with the threads that may name it; empty if unknown."""
        if site not in self._named:
            self._named[site] = self._find(site)
        return self._named[site]

    def _find(self, site: int) -> dict[MbarrierObject, int]:
        found: dict[MbarrierObject, int] = {}
        for address in self.addresses.of(site):
            objects = list(self._objects_at(site, address))
            if not objects:
                return {}
            for object_, threads in objects:
                found[object_] = found.get(object_, 0) | threads
        return found

    def _objects_at(self, site: int, address: Address) -> Iterator[tuple[MbarrierObject, T.Threads]]:
        """The objects at an address, each with the threads that may name it; none if it is unknown where its array begins."""
        if address.form.count is None:
            for start, threads in self.addresses.starts(site, address):
                array = list(self._array(address, start))
                if (address.form.base, start) in self._later_stages or len(array) not in (
                    address.period or len(array),
                    0,
                ):
                    continue
                for object_ in array:
                    yield object_, threads
            return
        for offset, threads in self.addresses.offsets(site, address):
            if (address.form.base, offset) in self.objects:
                yield self.objects[address.form.base, offset], threads

    def _array(self, address: Address, start: int) -> Iterator[MbarrierObject]:
        """The objects from *start* on that look like one array: equal counts, a stride apart, no other array's start.

        An object with another count belongs to it too if no wait names that object by itself (:attr:`_named_alone`),
        and either the array would be a single object without it, or another instruction names it by itself: no thread
        would ever wait for it otherwise.
        """
        object_ = self.objects.get((address.form.base, start))
        counts = object_.counts if object_ is not None else set[int | None]()
        single = True
        while object_ is not None and (
            object_.counts <= counts or self._unwaited(address.form.base, start, single)
        ):
            yield object_
            single = object_.counts == counts and start == address.form.offset
            counts = counts | object_.counts
            start += address.form.stride
            if not address.form.stride or (address.form.base, start) in self._starts:
                return
            object_ = self.objects.get((address.form.base, start))

    def _unwaited(self, base: int, offset: int, may_be_unused: bool) -> bool:
        """Whether no wait names an object by itself, and another instruction does, unless it *may_be_unused*."""
        if self._named_alone is None:
            return False
        waited, named = self._named_alone
        return (base, offset) not in waited and (may_be_unused or (base, offset) in named)

    @cached_property
    def _named_alone(self) -> tuple[set[tuple[int, int]], set[tuple[int, int]]] | None:
        """The locations that addresses with a known number of stages name, in waits and in all uses; None if an address
        is unknown."""
        waited, named = set[tuple[int, int]](), set[tuple[int, int]]()
        for site in self._used:
            if not self.addresses.of(site):
                return None
            for address in self.addresses.of(site):
                locations = {
                    (address.form.base, offset) for offset, _ in self.addresses.offsets(site, address)
                }
                named |= locations
                waited |= locations if self.sites[site].awaits is Barrier.MBARRIER else set()
        return waited, named

    @cached_property
    def _used(self) -> list[int]:
        """The instructions that need an initialised mbarrier."""
        return self.where(lambda effects: not effects.bounds_mbarrier)

    @cached_property
    def _later_stages(self) -> frozenset[tuple[int, int]]:
        """The locations within an array with a known number of stages, after its first one: no array begins there."""
        found = set[tuple[int, int]]()
        for site in self._used:
            for address in self.addresses.of(site):
                for start, _ in self.addresses.starts(site, address):
                    later = range(1, address.form.count or 1)
                    found.update((address.form.base, start + k * address.form.stride) for k in later)
        return frozenset(found)

    @cached_property
    def _starts(self) -> set[tuple[int, int]]:
        """The locations at which arrays begin.

        An address begins one where it has several stages, or differs between threads, which initialise or use an array
        together. A start one stride after another start, with the same count, is the second stage of that array and begins
        none: an array that is indexed has at least two stages.
        """
        found: dict[tuple[int, int], int] = {}
        for site in self.sites:
            for address in self.addresses.of(site):
                if address.form.count != 1 and site not in self._inits:
                    stride = 0 if address.form.count is not None else address.form.stride
                    found[address.form.base, address.form.offset] = stride
                elif (
                    len(offsets := sorted({offset for offset, _ in self.addresses.offsets(site, address)}))
                    > 1
                ):
                    found.setdefault((address.form.base, offsets[0]), 0)
        return {
            location
            for location, stride in found.items()
            if location not in self._later_stages and not self._is_next(found, location, stride)
        }

    def _is_next(self, starts: Container[tuple[int, int]], location: tuple[int, int], stride: int) -> bool:
        """Whether one of *starts* is a *stride* before *location*, and the objects at both have the same count."""
        before = location[0], location[1] - stride
        one, two = self.objects.get(before), self.objects.get(location)
        return (
            stride != 0
            and before in starts
            and one is not None
            and two is not None
            and one.counts == two.counts
        )

    @cached_property
    def rings(self) -> list[Ring]:
        """The rings, ordered by address."""
        return list(dict.fromkeys(self._ring_of.values()))

    @cached_property
    def rings_by_init(self) -> list[Ring]:
        """The rings, ordered by their first init."""
        return sorted(self.rings, key=lambda ring: (min(ring.inits), ring.stages[0].offset))

    @cached_property
    def _ring_of(self) -> dict[MbarrierObject, Ring]:
        leader: dict[MbarrierObject, MbarrierObject] = {m: m for m in self.objects.values()}

        def find(m: MbarrierObject) -> MbarrierObject:
            while leader[m] is not m:
                m = leader[m]
            return m

        for site in self.sites.keys() - self._inits:
            for address in self.addresses.of(site):
                if address.form.count != 1:
                    array = [m for m, _ in self._objects_at(site, address)]
                    for other in array[1:]:
                        leader[find(other)] = find(array[0])
        groups: dict[MbarrierObject, list[MbarrierObject]] = {}
        for object_ in leader:
            groups.setdefault(find(object_), []).append(object_)
        rings = [
            Ring(tuple(sorted(stages, key=lambda m: m.offset)))
            for group in groups.values()
            for stages in self._by_count(group)
        ]
        rings.sort(key=lambda ring: (ring.stages[0].base, ring.stages[0].offset))
        of = {m: ring for ring in rings for m in ring.stages}
        for site, effects in self.sites.items():
            for m in self.named(site):
                of[m].uses[site] = effects
        return of

    def _by_count(self, group: list[MbarrierObject]) -> list[list[MbarrierObject]]:
        """*group*, split by arrival count unless some instruction names all of it.

        Without such an instruction, different counts suggest that an index was bounded too loosely.
        """
        counts = {frozenset(m.counts) for m in group}
        every = set(group)
        if len(counts) == 1 or any(every == set(self.named(i)) for i in self.sites.keys() - self._inits):
            return [group]
        return [[m for m in group if frozenset(m.counts) == count] for count in counts]

    def rings_at(self, site: int) -> set[Ring]:
        """The rings of the objects that an instruction may name; empty if unknown."""
        return {self._ring_of[m] for m in self.named(site)}

    # ------------------------------------------------------------ arrivals

    @cached_property
    def has_unseen_arrivals(self) -> bool:
        """Whether there may be arrivals that the analysis does not see: in a callee, or at an unresolved address."""
        return not whole_program(self.model) or any(not self.named(i) for i in self.arriving)

    @cached_property
    def arriving(self) -> list[int]:
        """The instructions that arrive at an mbarrier for the threads that execute them (9.7.13.15.13, 9.7.16.12.1)."""
        found = self.where(lambda effects: effects.arrival is Barrier.MBARRIER)
        return [i for i in found if not self._is_neutral(i)]

    def _is_neutral(self, site: int) -> bool:
        """Whether an arrival also increments the pending count, so that both cancel out (9.7.9.25.3.4)."""
        match = self.model.instruction(site).match
        return match is not None and match.raises_pending

    def arrivals(self, object_: MbarrierObject) -> Arrivals | None:
        """The number of arrivals that a phase of the object may get; None if CTAs may arrive at objects of their peers.

        Arrivals of one thread in one wait-free region belong to the same phase. A uniform condition makes all threads
        concerned arrive, or none of them.
        """
        ring = self._ring_of[object_]
        sites = self.arriving_at(object_)
        # Stages of a ring that the same threads arrive at by the same instructions share one count.
        key = ring, tuple((i, self.named(i)[object_]) for i in sites)
        if key not in self._counted:
            self._counted[key] = self._arrivals(object_, sites)
        return self._counted[key]

    @cached_property
    def _arriving_at(self) -> dict[MbarrierObject, list[int]]:
        found: dict[MbarrierObject, list[int]] = {}
        for i in self.arriving:
            for object_ in self.named(i):
                found.setdefault(object_, []).append(i)
        return found

    def arriving_at(self, object_: MbarrierObject) -> list[int]:
        """The instructions of :attr:`arriving` that may name the object."""
        return self._arriving_at.get(object_, [])

    def unknown_arrivals(self, object_: MbarrierObject) -> Iterator[tuple[int, str]]:
        """The instructions that make the number of arrivals of a phase unknown, each with the reason.

        Unseen arrivals (:attr:`has_unseen_arrivals`) and unknown arrival counts are not among them.
        """
        for i in self._leaving(object_):
            yield i, "peer CTAs may also arrive"
        for i in self.arriving_at(object_):
            if why := self._uncertainty(i, object_, self._between_waits, "arrive"):
                yield i, why

    def _leaving(self, object_: MbarrierObject) -> list[int]:
        """The arrivals at the ring of the object that may be at an mbarrier of a peer CTA."""
        stages = self._ring_of[object_].stages
        sites = dict.fromkeys(i for stage in stages for i in self.arriving_at(stage))
        return [i for i in sites if self._leaves(i)]

    def _arrivals(self, object_: MbarrierObject, sites: list[int]) -> Arrivals | None:
        if self._leaving(object_):
            return None
        participants = {i: self._participants(i, object_) for i in sites}
        least, most = 0, 0
        known, open_ = {0}, 0
        for threads, members in _classes({i: possible for i, (_, possible) in participants.items()}):
            certain = [
                sum(self.amount(i) or 1 for i in run if not threads & ~participants[i][0])
                for run in self._consecutive(members)
            ]
            # Other threads may alternate with these, so the minimum is not a sum over classes.
            least = max(least, self._launched(threads).bit_count() * max(certain))
            # Copies of one loop body wait and arrive alike, each for a phase of its own. Others may be for the same phase.
            times: dict[Hashable, Counter[tuple[int, Hashable]]] = {}
            for region in self._between_waits.together(members):
                alike = Counter[tuple[int, Hashable]]()
                for part in self._between_barriers.together(region):
                    amount = self._at_most(part)
                    if amount is None or len(known) > _MAX_TOTALS:
                        return Arrivals(least, None, least, frozenset())
                    most += amount * threads.bit_count()
                    alike[
                        amount, tuple((participants[i][1], self.model.instruction(i).opcode) for i in part)
                    ] += 1
                waited = self._last_waited(region)
                times[waited] = times.get(waited, Counter()) | alike
            # Threads that a launch need not have are open too.
            all_certain = all(threads & participants[i][0] == threads for i in members)
            present = self._launched(threads) if all_certain else 0
            for amount, _ in chain.from_iterable(map(Counter.elements, times.values())):
                known |= {total + amount * present.bit_count() for total in known}
                open_ += amount * (threads & ~present).bit_count()
        return Arrivals(least, None if self.has_unseen_arrivals else most, open_, frozenset(known))

    def _last_waited(self, region: list[int]) -> frozenset[Hashable]:
        """The rings that threads may have waited for last when they enter *region*; a wait itself where it is unresolved."""
        waits = frozenset[int]().union(*map(self._between_waits.last_waits, region))
        return frozenset(chain.from_iterable(self.rings_at(i) or (i,) for i in waits))

    def deliveries(self, object_: MbarrierObject) -> list[Delivery] | None:
        """The expectations and copies of bytes in a phase of the object, by threads and region; None if unknown.

        A loop that was peeled or unrolled may have one for each of its copies.
        """
        if object_ not in self._delivered:
            self._delivered[object_] = self._deliveries(object_)
        return self._delivered[object_]

    def wait_free_deliveries(self, ring: Ring) -> list[Delivery]:
        """The expectations and copies of this CTA in each wait-free region, for a ring that peer CTAs may also use.

        Threads are not distinguished, and regions that a loop may repeat in one phase are left out.
        """
        every = [*self.expects(ring), *self.copies(ring)]
        copies = frozenset(self.copies(ring))
        return [
            Delivery(0, [i for i in region if i not in copies], [i for i in region if i in copies])
            for region in self.between_waits(every)
            if not any(self._repeated(i, self._between_waits) for i in region)
        ]

    def between_waits(self, sites: Iterable[int]) -> list[list[int]]:
        """The *sites* of each region that mbarrier waits bound."""
        return self._between_waits.together(sites)

    def expects(self, ring: Ring) -> list[int]:
        """The instructions that perform expect_tx on an object of the ring."""
        expecting = ring.where(lambda effects: effects.expects or effects.arrives is Barrier.MBARRIER)
        return [i for i in expecting if self.model.instruction(i).role("tx") is not None]

    def _deliveries(self, object_: MbarrierObject) -> list[Delivery] | None:
        if not whole_program(self.model) or any(self.unknown_bytes(object_)):
            return None
        ring = self._ring_of[object_]
        copies = self.copies(ring)
        participants = {
            i: self._participants(i, object_)[1]
            for i in (*self.expects(ring), *copies)
            if object_ in self.named(i)
        }
        found = []
        for threads, members in _classes(participants):
            for region in self._between_waits.together(members):
                completing = [i for i in region if i in copies]
                expecting = [i for i in region if i not in completing]
                found.append(Delivery(self._launched(threads), expecting, completing))
        return found

    def unknown_bytes(self, object_: MbarrierObject) -> Iterator[tuple[int, str]]:
        """The instructions that make the bytes of a phase unknown, each with the reason."""
        ring = self._ring_of[object_]
        every = [*self.expects(ring), *self.copies(ring)]
        for i in every:
            if self._leaves(i):
                yield i, "peer CTAs may also expect or transfer bytes"
        for i in ring.where(lambda effects: effects.completes):
            yield i, "it performs complete_tx without a copy"
        for i in every:
            if object_ in self.named(i) and (
                why := self._uncertainty(i, object_, self._between_waits, "take part")
            ):
                yield i, why

    def _uncertainty(self, site: int, object_: MbarrierObject, regions: WaitFreeRegions, verb: str) -> str:
        """Why it is unknown which threads execute *site* in one phase, or how often; "" if it is known."""
        unknown = self._deciding_value(site, object_)
        if unknown is not None:
            return f"which threads {verb} depends on {origin(self.model, unknown)}"
        return "a loop may execute it several times in one phase" if self._repeated(site, regions) else ""

    def copies(self, ring: Ring) -> list[int]:
        """The instructions that complete transactions on an object of the ring, in program order."""
        return ring.where(lambda effects: effects.transacts)

    def _launched(self, threads: T.Threads) -> T.Threads:
        """Those of *threads* that a launch has: as many as the kernel's bound, if there is one, else one warp."""
        return threads if self.model.function.most_threads else self.model.shared.certain_threads(threads)

    def _at_most(self, region: list[int]) -> int | None:
        """The arrivals that a thread makes in *region*; None if an amount is unknown, or a loop may repeat one."""
        amounts = [self.amount(i) for i in region]
        known = [a for a in amounts if a is not None]
        repeated = any(self._repeated(i, self._between_waits) for i in region)
        return sum(known) if len(known) == len(amounts) and not repeated else None

    def _leaves(self, site: int) -> bool:
        """Whether the operation may be on an mbarrier of a peer CTA; then peers may operate on those of this CTA."""
        match = self.model.instruction(site).match
        return any(a.remote for a in self.addresses.of(site)) or (match is not None and match.multicast)

    def amount(self, site: int) -> int | None:
        """The number of arrivals that one execution by one thread makes; None if unknown."""
        return 1 if self.model.instruction(site).role("count") is None else self._number(site, "count")

    def _number(self, site: int, role: str) -> int | None:
        """The constant that the operand *role* is, with the bound of the kernel for the CTA size; None if unknown."""
        values, value = self.model.values, self.model.value(site, role)
        if value is None:
            return None
        terms, constant = values.linear(value)
        size = self.model.function.most_threads
        if terms == ((values.special("%ntid.x"), 1),) and size and values.one_dimensional:
            return size + constant
        return constant if not terms else None

    def _participants(self, site: int, object_: MbarrierObject) -> tuple[T.Threads, T.Threads]:
        """The threads that are certain to execute *site* for the object if it is executed, and those that may."""
        possible = self.named(site)[object_] & self.model.present(site)
        return possible if self._deciding_value(site, object_) is None else 0, possible

    def _deciding_value(self, site: int, object_: MbarrierObject) -> int | None:
        """An unknown value that decides which threads execute *site* for the object; None if all of them do."""
        model = self.model
        values = model.values
        possible = self.named(site)[object_] & model.present(site)
        if not possible:
            return None
        common = _scope(possible)
        address = model.mbarrier(site)
        if any(a.form.count is None for a in self.addresses.of(site)) and not self._names_all(site, object_):
            return address
        if not possible & (possible - 1):
            return None
        for t, _ in () if address is None else values.linear(address)[0]:
            if values.bit_slices(t) is None and values.uniformity(t) > common:
                return t  # groups of threads may alternate between the stages
        return next(
            (
                p
                for p in controlling_predicates(model, site)
                if values.mask(p) is None and values.uniformity(p) > common
            ),
            None,
        )

    def executions(self, site: int) -> range:
        """How many threads may execute *site* in one phase of an object that it names, those of peer CTAs included.

        The tx-count bounds it where a loop may repeat *site* in a phase, or where the object is unknown.
        """
        objects = self.named(site)
        if not objects or self._repeated(site, self._between_waits):
            return range(1, MAX_COUNT + 1)
        numbers = [self._participants(site, object_) for object_ in objects]
        least = min(self._launched(certain).bit_count() for certain, _ in numbers)
        most = max(possible.bit_count() for _, possible in numbers)
        if self._leaves(site):
            least, most = 1, most * prod(self.model.function.cluster or (MAX_CLUSTER_CTAS,))
        return range(max(least, 1), max(most, 1) + 1)

    def _names_all(self, site: int, object_: MbarrierObject) -> bool:
        """Whether the objects that the instruction may name are exactly the stages of the ring."""
        return set(self.named(site)) == set(self._ring_of[object_].stages)

    def _consecutive(self, sites: list[int]) -> list[list[int]]:
        """*sites*, split into runs at one address in one block, with no wait or barrier between."""
        runs: list[list[int]] = []
        for site in sites:
            last = runs[-1][-1] if runs else -1
            if runs and self._before_any_wait.same_segment(last, site) and self._same(last, site):
                runs[-1].append(site)
            else:
                runs.append([site])
        return runs

    def _same(self, first: int, then: int) -> bool:
        """Whether both instructions have the same mbarrier address, as a value."""
        a, b = self.model.mbarrier(first), self.model.mbarrier(then)
        return (
            a is not None
            and b is not None
            and self.model.values.representative(a) == self.model.values.representative(b)
        )

    def _repeated(self, site: int, regions: WaitFreeRegions) -> bool:
        """Whether a loop may execute *site* several times in a phase: for the same stage, with no wait between."""
        cfg, value = self.model.cfg, self.model.mbarrier(site)
        if not regions.returns(site):
            return False
        loop = cfg.innermost(cfg.block_of[site])
        changes = () if value is None else self.model.values.varying_at(value)
        return not any((at if kind == "block" else cfg.block_of[at]) in loop for kind, at in changes)

    @cached_property
    def _waits(self) -> list[int]:
        return self.where(lambda effects: effects.awaits is Barrier.MBARRIER)

    @cached_property
    def _tested_waits(self) -> list[int]:
        """The waits whose result decides a branch or a guard. After another wait the phase need not be complete."""
        model = self.model
        return [
            i
            for i in self._waits
            if any(guards or model.instruction(at).flow for at, guards in model.transitive_users(i))
        ]

    @cached_property
    def _between_waits(self) -> WaitFreeRegions:
        """The regions that tested waits bound."""
        return WaitFreeRegions(self.model.cfg, self._tested_waits)

    @cached_property
    def _barriers(self) -> list[int]:
        return self.model.where(lambda effects: effects.awaits in BARRIERS)

    @cached_property
    def _between_barriers(self) -> WaitFreeRegions:
        """The regions that tested waits and barriers bound. A phase may end at a barrier, as others may wait, or outlast it."""
        return WaitFreeRegions(self.model.cfg, (*self._tested_waits, *self._barriers))

    @cached_property
    def _before_any_wait(self) -> WaitFreeRegions:
        """The regions bounded by barriers and all mbarrier waits: after either, a phase may have completed."""
        return WaitFreeRegions(self.model.cfg, (*self._waits, *self._barriers))


def largest_expected(model: KernelModel) -> int | None:
    """The largest number of bytes that one operation on an mbarrier expects; None if it is unknown, or none expects any."""
    most = 0
    for site in model.where(lambda e: e.expects or e.arrives is Barrier.MBARRIER):
        if model.instruction(site).role("tx") is not None:
            size = model.constant_of(site, "tx")
            if size is None:
                return None
            most = max(most, size)
    return most or None


def transferred(match: Match) -> int | None:
    """The bytes that an instruction completes on an mbarrier, if its form determines them; None otherwise.

    An operand or a tensor map determines them for bulk copies.
    """
    form = match.form
    if form.effects.query is Query.CANCEL:
        return RESPONSE
    if form.effects.begins is None or not form.mbarrier or form.roles.keys() & {"bytes", "tensormap"}:
        return None
    if match.transaction_unit != 1:
        return None
    return int(match.element[2:]) // 8 * int((match.binding.get("vec") or ".v1")[2:])  # st.async


def _scope(threads: T.Threads) -> UniformityScope:
    """The scope in which a value must be uniform so that all of *threads* have it in common."""
    if T.one_warp(threads):
        return UniformityScope.WARP
    return UniformityScope.WARPGROUP if T.whole(threads, 128).bit_count() == 128 else UniformityScope.CTA


def _classes(sites: dict[int, int]) -> Iterator[tuple[T.Threads, list[int]]]:
    """The partition of the threads by the sites that they execute: the threads and the sites of each class."""
    classes: dict[int, list[int]] = {}
    for site, threads in sorted(sites.items()):
        refined: dict[int, list[int]] = {}
        for others, members in classes.items():
            if others & threads:
                refined[others & threads] = [*members, site]
            if others & ~threads:
                refined[others & ~threads] = members
            threads &= ~others
        if threads:
            refined[threads] = [site]
        classes = refined
    yield from classes.items()


def first_waits_for(model: KernelModel, wait: int, parity: int) -> bool:
    """Whether *wait* is certain to test *parity* when it is executed for the first time."""
    value, values = model.value(wait, "parity"), model.values
    if value is None or values.known_bits(value)[1 - parity] & 1:
        return False  # it always tests the other one, for which no path is needed
    resolve = model.at_first(wait).witness
    constant = None if resolve is None else values.constant_of(resolve(value))
    return constant is not None and constant & 1 == parity
