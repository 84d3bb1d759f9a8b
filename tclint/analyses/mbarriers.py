"""The mbarrier objects of a function: which of them an instruction names, and how many arrivals a phase gets.

An object is where an ``mbarrier.init`` makes one. A pipeline has an array of
them, of which an address that a loop changes names one after the other: a
*ring*. Roles name the same ring by loop counters of their own, so rings are
compared, not the expressions (PTX ISA 9.7.13.15).

Addresses are resolved in :mod:`tclint.analyses.mbarrier_addresses`. What
cannot be resolved is unknown: an address that is loaded from memory, passed by
a caller, or made by an array of inits whose end is not known.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tclint.analyses.mbarrier_addresses import Address, MbarrierAddresses
from tclint.analyses.model import KernelModel
from tclint.analyses.phases import Stretches
from tclint.analyses.provenance import origin
from tclint.analyses.role_paths import deciding, whole_program
from tclint.isa.table import Match
from tclint.values import Level
from tclint.values import thread_masks as T

__all__ = ["RESPONSE", "Arrivals", "Delivery", "Mbarrier", "Mbarriers", "Ring", "first_parity", "transferred"]  # fmt: skip

RESPONSE = 16
"""Bytes of the response to a request to cancel a launch, which it completes at an mbarrier (9.7.13.17)."""
_TOTALS = 256
"""Numbers of arrivals that are told apart."""


class Arrivals(NamedTuple):
    """How many arrivals a phase may get."""

    least: int
    most: int | None
    """None: without limit, or not known."""
    open: int
    """So many of them by threads of which it is not known whether they take part."""
    known: frozenset[int]
    """Without these, the numbers that come about when each thread arrives at one of the places that are alike: a loop
    that was peeled or unrolled has several."""

    def usual(self, count: int) -> bool:
        """Whether a phase may get *count* arrivals in that way."""
        return self.most is None or any(n <= count <= n + self.open for n in self.known)


@dataclass(slots=True, eq=False)
class Mbarrier:
    """An mbarrier object."""

    base: int
    offset: int
    inits: list[int] = field(default_factory=list)
    counts: set[int | None] = field(default_factory=set)
    """The arrivals that its inits ask for."""

    @property
    def count(self) -> int | None:
        """The arrivals that complete a phase; None where that is not known."""
        return next(iter(self.counts)) if len(self.counts) == 1 else None


@dataclass(slots=True, eq=False)
class Ring:
    """Objects that take turns: an address names each of them in some round of a loop. Most rings are one object."""

    stages: tuple[Mbarrier, ...]
    uses: dict[str, list[int]] = field(default_factory=dict)
    """What names one of them, by event."""

    @property
    def inits(self) -> list[int]:
        return [i for stage in self.stages for i in stage.inits]

    @property
    def count(self) -> int | None:
        """The arrivals that complete a phase of any stage."""
        counts = {stage.count for stage in self.stages}
        return next(iter(counts)) if len(counts) == 1 else None


@dataclass(slots=True)
class Delivery:
    """What one group of threads does about the bytes of a phase, between two waits."""

    threads: int
    expects: list[int]
    copies: list[int]


class Mbarriers:
    """All mbarrier objects of a function, and what each instruction does to them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.addresses = model.made(MbarrierAddresses)
        self._named: dict[int, dict[Mbarrier, int]] = {}
        self._counted: dict[tuple[Ring, tuple[tuple[int, int], ...]], Arrivals | None] = {}
        self._delivered: dict[Mbarrier, list[Delivery] | None] = {}

    @cached_property
    def sites(self) -> dict[str, list[int]]:
        """The reachable instructions that name an mbarrier, by event."""
        found: dict[str, list[int]] = {}
        rank, block_of = self.model.cfg.rank, self.model.cfg.block_of
        for use in self.model.function.uses:
            match = use.match
            if match is not None and not match.problem and "mbarrier" in match.form.roles:
                event = match.form.event
                found.setdefault(event, []).extend(i for i in use.sites if block_of[i] in rank)
        return {event: sorted(sites) for event, sites in found.items()}

    # ------------------------------------------------------------ objects

    @cached_property
    def objects(self) -> dict[tuple[int, int], Mbarrier]:
        """The objects by base and offset."""
        found: dict[tuple[int, int], Mbarrier] = {}
        for site in self.sites.get("mbarrier-init", ()):
            count = self._number(site, "count")
            for address in self.addresses.of(site):
                for place, _ in self.addresses.offsets(site, address):
                    made = found.setdefault((address.base, place), Mbarrier(address.base, place))
                    made.inits.append(site)
                    made.counts.add(count)
        return found

    @cached_property
    def unresolved(self) -> list[int]:
        """The instructions of which it is not known which mbarrier they name."""
        return sorted(
            i
            for event, sites in self.sites.items()
            for i in sites
            if (event == "mbarrier-init" and not self._made(i))
            or (event != "mbarrier-init" and not self.named(i))
        )

    def _made(self, site: int) -> bool:
        return any(True for address in self.addresses.of(site) for _ in self.addresses.offsets(site, address))

    def named(self, site: int) -> dict[Mbarrier, int]:
        """The objects that the instruction may name, each with the threads that may name it; none: not known which."""
        if site not in self._named:
            self._named[site] = self._find(site)
        return self._named[site]

    def _find(self, site: int) -> dict[Mbarrier, int]:
        found: dict[Mbarrier, int] = {}
        for address in self.addresses.of(site):
            there = list(self._there(site, address))
            if not there:
                return {}
            for object_, threads in there:
                found[object_] = found.get(object_, 0) | threads
        return found

    def _there(self, site: int, address: Address) -> Iterator[tuple[Mbarrier, int]]:
        """The objects at an address, each with the threads that may name it."""
        if address.stages is None:
            for start, threads in self.addresses.starts(site, address):
                for object_ in self._run(address, start):
                    yield object_, threads
            return
        for place, threads in self.addresses.offsets(site, address):
            there = self.objects.get((address.base, place))
            if there is not None:
                yield there, threads

    def _run(self, address: Address, start: int) -> Iterator[Mbarrier]:
        """The objects from *start* on that look like one array: alike, a stride apart, none of them the start of another.

        One of another count is of it too where there would be no array without it, or where threads arrive at it and
        nobody would ever wait.
        """
        object_ = self.objects.get((address.base, start))
        counts = object_.counts if object_ is not None else set[int | None]()
        alone = True
        while object_ is not None and (
            object_.counts <= counts or self._left_over(address.base, start, alone)
        ):
            yield object_
            alone = object_.counts == counts and start == address.start
            counts = counts | object_.counts
            start += address.stride
            if not address.stride or (address.base, start) in self._starts:
                return
            object_ = self.objects.get((address.base, start))

    def _left_over(self, base: int, offset: int, unused: bool) -> bool:
        """Whether no wait names an object by itself; something else does, unless it may be *unused*."""
        named = self._by_themselves
        return (
            named is not None
            and (base, offset) not in named["mbarrier-wait"]
            and (unused or any((base, offset) in found for found in named.values()))
        )

    @cached_property
    def _by_themselves(self) -> dict[str, set[tuple[int, int]]] | None:
        """The objects that are named by what names no array, by event; None: some are not known."""
        found: dict[str, set[tuple[int, int]]] = {"mbarrier-wait": set()}
        for event, sites in self.sites.items():
            for site in sites if event not in ("mbarrier-init", "mbarrier-inval") else ():
                if not self.addresses.of(site):
                    return None
                for address in self.addresses.of(site):
                    places = self.addresses.offsets(site, address)
                    found.setdefault(event, set()).update((address.base, place) for place, _ in places)
        return found

    @cached_property
    def _starts(self) -> set[tuple[int, int]]:
        """Where the arrays begin that addresses name.

        One stage behind where another one begins, and of the same count, is the next stage of that: what an index is added
        to has two at least.
        """
        found: dict[tuple[int, int], int] = {}
        for event, sites in self.sites.items():
            for site in sites if event != "mbarrier-init" else ():
                for address in self.addresses.of(site):
                    if address.stages != 1:
                        stride = 0 if address.stages is not None else address.stride
                        found[address.base, address.start] = stride
        return {place for place, stride in found.items() if not self._next(found, place, stride)}

    def _next(self, starts: Container[tuple[int, int]], place: tuple[int, int], stride: int) -> bool:
        """Whether the object at *place* is one like another that is one of *starts*, and a *stride* before it."""
        before = place[0], place[1] - stride
        one, two = self.objects.get(before), self.objects.get(place)
        return (
            stride != 0
            and before in starts
            and one is not None
            and two is not None
            and one.counts == two.counts
        )

    @cached_property
    def rings(self) -> list[Ring]:
        """The rings in order of their addresses."""
        return list(dict.fromkeys(self._ring_of.values()))

    @cached_property
    def made(self) -> list[Ring]:
        """The rings in the order in which they are made."""
        return sorted(self.rings, key=lambda ring: (min(ring.inits), ring.stages[0].offset))

    @cached_property
    def _ring_of(self) -> dict[Mbarrier, Ring]:
        leader: dict[Mbarrier, Mbarrier] = {m: m for m in self.objects.values()}

        def find(m: Mbarrier) -> Mbarrier:
            while leader[m] is not m:
                m = leader[m]
            return m

        for event, sites in self.sites.items():
            for site in sites if event != "mbarrier-init" else ():
                for address in self.addresses.of(site):
                    if address.stages != 1:
                        alike = [m for m, _ in self._there(site, address)]
                        for other in alike[1:]:
                            leader[find(other)] = find(alike[0])
        groups: dict[Mbarrier, list[Mbarrier]] = {}
        for object_ in leader:
            groups.setdefault(find(object_), []).append(object_)
        rings = [
            Ring(tuple(sorted(alike, key=lambda m: m.offset)))
            for group in groups.values()
            for alike in self._alike(group)
        ]
        rings.sort(key=lambda ring: (ring.stages[0].base, ring.stages[0].offset))
        of = {m: ring for ring in rings for m in ring.stages}
        for event, sites in self.sites.items():
            for site in sites:
                for ring in dict.fromkeys(of[m] for m in self.named(site)):
                    ring.uses.setdefault(event, []).append(site)
        return of

    def _alike(self, group: list[Mbarrier]) -> list[list[Mbarrier]]:
        """*group* in parts that count alike: an index may be known less well than it is, if none names them all."""
        counts = {frozenset(m.counts) for m in group}
        every = set(group)
        if len(counts) == 1 or any(
            every == set(self.named(i))
            for e, sites in self.sites.items()
            if e != "mbarrier-init"
            for i in sites
        ):
            return [group]
        return [[m for m in group if frozenset(m.counts) == alike] for alike in counts]

    def rings_at(self, site: int) -> set[Ring]:
        """The rings of the objects that an instruction may name; none: not known which."""
        return {self._ring_of[m] for m in self.named(site)}

    # ------------------------------------------------------------ arrivals

    @cached_property
    def elsewhere(self) -> bool:
        """Whether arrivals may come from what is not seen: a callee, or an address that is not resolved."""
        return not whole_program(self.model) or any(not self.named(i) for i in self.arriving)

    @cached_property
    def arriving(self) -> list[int]:
        """What arrives at an mbarrier for the threads that execute it (9.7.13.15.13, 9.7.16.12.1)."""
        sites = self.sites
        found = [*sites.get("mbarrier-arrive", ()), *sites.get("commit", ())]
        return sorted(i for i in found if not self._nets(i))

    def _nets(self, site: int) -> bool:
        """Whether an arrival raises the count by one before it arrives, so that it changes nothing (9.7.9.25.3.4)."""
        instruction = self.model.instruction(site)
        return instruction.group == "cp.async" and ".noinc" not in instruction.opcode

    def arrivals(self, object_: Mbarrier) -> Arrivals | None:
        """How many arrivals a phase of the object may get from this CTA; None when that is not known.

        A thread arrives in one phase at those places between which it waits for nothing. What a condition decides that
        is the same for all threads happens, or else nothing does.
        """
        ring = self._ring_of[object_]
        sites = self._arriving_at.get(object_, [])
        # What the stages of a ring have in common is counted once.
        key = ring, tuple((i, self.named(i)[object_]) for i in sites)
        if key not in self._counted:
            self._counted[key] = self._arrivals(object_, sites)
        return self._counted[key]

    @cached_property
    def _arriving_at(self) -> dict[Mbarrier, list[int]]:
        found: dict[Mbarrier, list[int]] = {}
        for i in self.arriving:
            for object_ in self.named(i):
                found.setdefault(object_, []).append(i)
        return found

    def hiding_arrivals(self, object_: Mbarrier) -> Iterator[tuple[int, str]]:
        """The instructions for which it is not known how many arrivals a phase gets, each with the reason.

        What arrives where nobody sees it, or so often as nobody knows, is none of them.
        """
        for i in self._leaving(object_):
            yield i, "other CTAs may arrive as well"
        for i in self._arriving_at.get(object_, ()):
            if why := self._unsure(i, object_, self._ended, "arrive"):
                yield i, why

    def _leaving(self, object_: Mbarrier) -> list[int]:
        """The arrivals at the ring of the object that may be in another CTA."""
        stages = self._ring_of[object_].stages
        sites = dict.fromkeys(i for stage in stages for i in self._arriving_at.get(stage, ()))
        return [i for i in sites if self._leaves(i)]

    def _arrivals(self, object_: Mbarrier, sites: list[int]) -> Arrivals | None:
        if self._leaving(object_):
            return None
        here = {i: self._takes_part(i, object_) for i in sites}
        least, most = 0, 0
        known, open_ = {0}, 0
        for threads, places in _classes({i: many for i, (_, many) in here.items()}):
            sure = [
                sum(self._amount(i) or 1 for i in bunch if not threads & ~here[i][0])
                for bunch in self._in_a_row(places)
            ]
            # Other threads may take turns with these.
            least = max(least, self._launched(threads).bit_count() * max(sure))
            alike: dict[Hashable, int] = {}
            for bunch in self._ended.together(places):
                many = self._at_most(bunch)
                if many is None or len(known) > _TOTALS:
                    return Arrivals(least, None, least, frozenset())
                most += many * threads.bit_count()
                alike[tuple((here[i][1], self.model.instruction(i).opcode) for i in bunch)] = many
            # Those that no launch need have are open as well.
            there = self._launched(threads) if all(threads & here[i][0] == threads for i in places) else 0
            for many in alike.values():
                known |= {total + many * there.bit_count() for total in known}
                open_ += many * (threads & ~there).bit_count()
        return Arrivals(least, None if self.elsewhere else most, open_, frozenset(known))

    def deliveries(self, object_: Mbarrier) -> list[Delivery] | None:
        """Who expects bytes in a phase of the object, and who brings them; None when that is not known.

        There may be one for each copy of a loop that was peeled or unrolled.
        """
        if object_ not in self._delivered:
            self._delivered[object_] = self._deliveries(object_)
        return self._delivered[object_]

    def stretches(self, ring: Ring) -> list[Delivery]:
        """What this CTA expects and brings between two waits at a ring of which other CTAs may do the rest."""
        every = [*self.expects(ring), *self.copies(ring)]
        copies = frozenset(self.copies(ring))
        return [
            Delivery(0, [i for i in bunch if i not in copies], [i for i in bunch if i in copies])
            for bunch in self.between_waits(every)
            if not any(self._repeated(i, self._phases) for i in bunch)
        ]

    def between_waits(self, sites: Iterable[int]) -> list[list[int]]:
        """*sites* in parts: one holds those that a thread may pass without a wait for an mbarrier between."""
        return self._phases.together(sites)

    def expects(self, ring: Ring) -> list[int]:
        """What expects bytes at an object of the ring."""
        return [
            i
            for e in ("mbarrier-arrive", "mbarrier-expect")
            for i in ring.uses.get(e, ())
            if self.model.instruction(i).role("tx") is not None
        ]

    def _deliveries(self, object_: Mbarrier) -> list[Delivery] | None:
        if not whole_program(self.model) or any(self.hiding_bytes(object_)):
            return None
        ring = self._ring_of[object_]
        copies = self.copies(ring)
        here = {
            i: self._takes_part(i, object_)[1]
            for i in (*self.expects(ring), *copies)
            if object_ in self.named(i)
        }
        found = []
        for threads, places in _classes(here):
            for bunch in self._phases.together(places):
                mine = [i for i in bunch if i in copies]
                found.append(Delivery(self._launched(threads), [i for i in bunch if i not in mine], mine))
        return found

    def hiding_bytes(self, object_: Mbarrier) -> Iterator[tuple[int, str]]:
        """The instructions for which it is not known who expects and brings the bytes of a phase, each with the reason."""
        ring = self._ring_of[object_]
        every = [*self.expects(ring), *self.copies(ring)]
        for i in every:
            if self._leaves(i):
                yield i, "other CTAs may expect or bring some as well"
        for i in ring.uses.get("mbarrier-complete", ()):
            yield i, "it completes some that no copy brings"
        for i in every:
            if object_ in self.named(i) and (why := self._unsure(i, object_, self._phases, "take part")):
                yield i, why

    def _unsure(self, site: int, object_: Mbarrier, parted: Stretches, deed: str) -> str:
        """Why it is not known which threads do that at *site* in one phase, or how often; "": it is."""
        chosen = self._choosing(site, object_)
        if chosen is not None:
            return f"which threads {deed} depends on {origin(self.model, chosen)}"
        return "a loop comes there several times in one phase" if self._repeated(site, parted) else ""

    def copies(self, ring: Ring) -> list[int]:
        """What completes transactions at an object of the ring."""
        return sorted(i for event in ("issue", "clc-request") for i in ring.uses.get(event, ()))

    def _launched(self, threads: int) -> int:
        """Those of *threads* that there are: a bound of the kernel is taken for the size of a CTA, else there is one warp."""
        return threads if self.model.function.most_threads else self.model.shared.sure(threads)

    def _at_most(self, bunch: list[int]) -> int | None:
        amounts = [self._amount(i) for i in bunch]
        known = [a for a in amounts if a is not None]
        repeated = any(self._repeated(i, self._ended) for i in bunch)
        return sum(known) if len(known) == len(amounts) and not repeated else None

    def _leaves(self, site: int) -> bool:
        """Whether the arrival may be at an object of another CTA; then other CTAs may arrive at that of this one."""
        remote = any(a.remote for a in self.addresses.of(site))
        return remote or ".multicast" in self.model.instruction(site).opcode

    def _amount(self, site: int) -> int | None:
        """How often one thread arrives there at once."""
        return 1 if self.model.instruction(site).role("count") is None else self._number(site, "count")

    def _number(self, site: int, role: str) -> int | None:
        """A count that is a number, or made of the size of the CTA where the kernel has a bound for that."""
        values, value = self.model.values, self.model.value(site, role)
        if value is None:
            return None
        terms, constant = values.linear(value)
        size = self.model.function.most_threads
        if terms == ((values.special("%ntid.x"), 1),) and size and values.one_dimensional:
            return size + constant
        return constant if not terms else None

    def _takes_part(self, site: int, object_: Mbarrier) -> tuple[int, int]:
        """The threads that execute *site* for the object when it is executed at all, and those that may."""
        many = self.named(site)[object_] & self.model.present(site)
        return many if self._choosing(site, object_) is None else 0, many

    def _choosing(self, site: int, object_: Mbarrier) -> int | None:
        """A value that is not known and decides which threads execute *site* for the object; None: all of them do."""
        model = self.model
        values = model.values
        many = self.named(site)[object_] & model.present(site)
        if not many:
            return None
        alike = _scope(many)
        address = model.value(site, "mbarrier")
        if any(a.stages is None for a in self.addresses.of(site)) and not self._names_all(site, object_):
            return address
        if not many & (many - 1):
            return None
        for t, _ in () if address is None else values.linear(address)[0]:
            if values.planes(t) is None and values.level(t) > alike:
                return t  # groups of threads may take turns at the stages
        return next(
            (p for p in deciding(model, site) if values.mask(p) is None and values.level(p) > alike), None
        )

    def _names_all(self, site: int, object_: Mbarrier) -> bool:
        """Whether the instruction may name each stage of the ring, and nothing else."""
        return set(self.named(site)) == set(self._ring_of[object_].stages)

    def _in_a_row(self, sites: list[int]) -> list[list[int]]:
        """*sites* in parts: one holds those at which a thread arrives at one object, with no wait between."""
        parts: list[list[int]] = []
        for site in sites:
            last = parts[-1][-1] if parts else -1
            if parts and self._parted.alike(last, site) and self._same(last, site):
                parts[-1].append(site)
            else:
                parts.append([site])
        return parts

    def _same(self, first: int, then: int) -> bool:
        a, b = self.model.value(first, "mbarrier"), self.model.value(then, "mbarrier")
        return a is not None and b is not None and self.model.values.find(a) == self.model.values.find(b)

    def _repeated(self, site: int, parted: Stretches) -> bool:
        """Whether a loop may bring a thread there several times in one phase: at the same stage, and it waits for nothing."""
        cfg, value = self.model.cfg, self.model.value(site, "mbarrier")
        if not parted.returns(site):
            return False
        loop = cfg.innermost(cfg.block_of[site])
        places = () if value is None else self.model.values.volatile(value)
        return not any((at if kind == "block" else cfg.block_of[at]) in loop for kind, at in places)

    @cached_property
    def _heeded(self) -> list[int]:
        """The waits of which the answer decides where a thread goes: behind others the phase need not be over."""
        model = self.model
        return [
            i
            for i in self.sites.get("mbarrier-wait", ())
            if any(guards or model.instruction(at).flow for at, guards in model.takers(i))
        ]

    @cached_property
    def _phases(self) -> Stretches:
        """What lies between two of these waits."""
        return Stretches(self.model.cfg, self._heeded)

    @cached_property
    def _barriers(self) -> list[int]:
        return [*self.model.sites("barrier-sync"), *self.model.sites("barrier-wait")]

    @cached_property
    def _ended(self) -> Stretches:
        """What lies between two of these waits, or at barriers: no phase goes on for longer."""
        return Stretches(self.model.cfg, (*self._heeded, *self._barriers))

    @cached_property
    def _parted(self) -> Stretches:
        """What lies between two waits for mbarriers or at barriers: behind both another thread may know of a phase."""
        return Stretches(self.model.cfg, (*self.sites.get("mbarrier-wait", ()), *self._barriers))


def transferred(match: Match) -> int | None:
    """The bytes that an instruction completes at an mbarrier, if its form says how many: no operand does, nor a tensor map."""
    form = match.form
    if form.event == "clc-request":
        return RESPONSE
    if form.event != "issue" or "mbarrier" not in form.roles or form.roles.keys() & {"bytes", "tensormap"}:
        return None
    return int(match.element[2:]) // 8 * int((match.binding.get("vec") or ".v1")[2:])  # st.async


def _scope(threads: int) -> Level:
    """The scope in which a value must be the same, so that all of *threads* have it in common."""
    if T.one_warp(threads):
        return Level.WARP
    return Level.WARPGROUP if T.whole(threads, 128).bit_count() == 128 else Level.CTA


def _classes(sites: dict[int, int]) -> Iterator[tuple[int, list[int]]]:
    """The threads that execute the same of *sites*, and these; each site comes with its threads."""
    classes: dict[int, list[int]] = {}
    for site, threads in sorted(sites.items()):
        made: dict[int, list[int]] = {}
        for others, places in classes.items():
            if others & threads:
                made[others & threads] = [*places, site]
            if others & ~threads:
                made[others & ~threads] = places
            threads &= ~others
        if threads:
            made[threads] = [site]
        classes = made
    yield from classes.items()


def first_parity(model: KernelModel, wait: int) -> int | None:
    """The parity that a wait has when it is executed for the first time, where that is known."""
    value, resolve = model.value(wait, "parity"), model.at_first(wait).witness
    number = None if value is None or resolve is None else model.values.known(resolve(value))
    return None if number is None else number & 1
