"""What mbarriers track in one kernel: the answers about values that :mod:`tclint.verdicts.phases` asks for.

Which thread executes an instruction and which mbarriers it may name, the analyses of findings say; a proof trusts them, as the
one of ``tcgen05-mma`` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from tclint.analyses.in_flight import InFlight
from tclint.analyses.mbarrier_addresses import SIZE, MbarrierLocation, may_leave
from tclint.analyses.mbarriers import Mbarriers
from tclint.findings.verdicts import Assumption
from tclint.ir.cfg import Edge
from tclint.ir.nodes import MAX_SHARED_BYTES, Instruction, Operand, registers
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import SELF_AWAITED, Barrier
from tclint.sync.mbarriers import MAX_COUNT
from tclint.values.addresses import MemoryRange
from tclint.verdicts.across_threads import AcrossThreads
from tclint.verdicts.boxes import Boxes
from tclint.verdicts.epochs import Counters, Numbers, releases_to_cluster
from tclint.verdicts.matrices import ranges
from tclint.verdicts.own_mbarriers import OwnMbarriers
from tclint.verdicts.paths import path_assumptions
from tclint.verdicts.phases import Event, Kind, Location, PhaseQuestions, tracked
from tclint.verdicts.skipped import Skipped

__all__ = ["Tracked"]


class Tracked:
    """The instructions of one kernel that mbarriers track, or that arrive at them for one thread."""

    def __init__(self, across: AcrossThreads, assume: Collection[Assumption]) -> None:
        self.model, self.across = across.bytes.model, across
        self.values = self.model.values
        self.assume = frozenset(assume)
        self.assumed = set[Assumption]()
        self.mbarriers = OwnMbarriers(self.model.fact(Mbarriers))
        self._boxes = Boxes(across.bytes.rings, self.mbarriers)
        self._apart: dict[tuple[object, ...], bool] = {}

    @cached_property
    def sites(self) -> list[int]:
        """The reachable instructions that mbarriers track."""
        return [
            i
            for b in sorted(self.model.cfg.order)
            for i in self._block(b)
            if tracked(self.model.instruction(i))
        ]

    def _block(self, b: int) -> range:
        block = self.model.cfg.blocks[b]
        return range(block.start, block.end)

    # ------------------------------------------------------------ what is asked

    @cached_property
    def questions(self) -> PhaseQuestions:
        """What the checker asks."""
        return PhaseQuestions(
            self.events,
            frozenset(self._own.values()),
            self._uses,
            self._on,
            self._parity,
            self._awaited,
            self._disjoint,
            self.skipped.certainly,
            frozenset(filter(self.skipped.conditional, self.events)),
            self.skipped.blocks,
            self._fences,
        )

    @cached_property
    def skipped(self) -> Skipped:
        """The conditions of the events."""
        definitions = self.across.bytes.definitions
        return Skipped(self.model, definitions, self.events, self.across.is_shared)

    @cached_property
    def events(self) -> Mapping[int, Event]:
        """The instructions that one thread executes, and that arrive at mbarriers of the CTA or that these track."""
        needed = self.model.fact(path_assumptions)
        if not self.sites or needed is None or not needed <= self.assume:
            return {}
        self.assumed |= needed
        arriving = self.mbarriers.mbarriers.arriving
        found = {site: self._event(site) for site in sorted({*self.sites, *arriving})}
        return {site: event for site, event in found.items() if event is not None}

    def _event(self, site: int) -> Event | None:
        """What an instruction does to phases of mbarriers in this CTA; None if it is not known that one thread executes it, or what
        it accesses."""
        threads, instruction = self.model.views.context_of(site).threads, self.model.instruction(site)
        if threads == 0 or threads & (threads - 1) or instruction.match is None:
            return None
        thread, effects = threads.bit_length() - 1, instruction.effects
        if effects.arrives_later:
            return Event(Kind.COMMIT, thread) if self.mbarriers.commits(site, thread) else None
        if effects.until_phase and not effects.transacts:
            alone = instruction.match.binding.get("cta_group") == ".cta_group::1"
            return Event(Kind.OPERATION, thread) if alone and self._known(site) else None
        if not self.mbarriers.stays(site):
            return None
        if effects.transacts:
            return self._copy(site, thread) if effects.query is None else None
        size, amount = self.model.constant_of(site, "tx"), self.mbarriers.mbarriers.amount(site)
        alone = size is not None and size <= MAX_COUNT and amount == 1 and not instruction.match.drops
        return Event(Kind.ARRIVAL, thread, size or 0) if alone else None

    def _known(self, site: int) -> bool:
        """Whether it is known what a ``tcgen05`` operation accesses."""
        return self.bytes(site) is not None

    def _copy(self, site: int, thread: int) -> Event | None:
        """A copy to shared memory of this CTA, whose bytes are known; None if it is another one."""
        match = self.model.instruction(site).match
        assert match is not None
        address = self.model.value(site, "destination")
        known = self.model.instruction(site).role("part") is None and self.bytes(site) is not None
        known = known and bool(match.form.roles.keys() & {"bytes", "tensormap"})
        if match.multicast or match.of_pair or address is None or not known or not self._here(address):
            return None
        if any(a.shared and not a.writes and not a.object for a in self.model.instruction(site).accesses):
            return None  # what it reads there is underway as well, and only what it writes is followed
        if match.form.roles.get("bytes") is None:
            return Event(Kind.COPY, thread)
        size = self._size(site)
        return Event(Kind.COPY, thread, size) if size is not None else None

    def _size(self, site: int) -> int | None:
        """The bytes of a copy, if they are known and so many as it can have."""
        match, size = self.model.instruction(site).match, self.model.constant_of(site, "bytes")
        unit = match.form.align.get(match.form.roles["bytes"], 1) if match is not None else 1
        valid = size is not None and 0 < size <= MAX_COUNT and isinstance(unit, int) and size % unit == 0
        return size if valid else None

    def _here(self, address: int) -> bool:
        """Whether an address is one of a variable in shared memory of this CTA."""
        terms, constant = self.values.linear(address)
        if abs(constant) > MAX_SHARED_BYTES:
            return False
        variables = [self.values.variable(term) for term, _ in terms]
        return any(each is not None for each in variables) and not may_leave(self.values, address)

    @cached_property
    def _own(self) -> dict[MbarrierLocation, Location]:
        """The mbarriers at which one thread alone arrives, by the events, and whose bytes nothing else writes while they are
        used."""
        found: dict[MbarrierLocation, Location] = {}
        for thread in sorted({event.thread for event in self.events.values() if event.arrives}):

            def admitted(site: int, thread: int = thread) -> bool:
                event = self.events.get(site)
                return event is not None and (event.kind is Kind.COPY or event.thread == thread)

            found |= self.mbarriers.found(admitted, self.events.__contains__)
        return {at: location for at, location in found.items() if self._kept(at)}

    def _kept(self, at: MbarrierLocation) -> bool:
        """Whether nothing writes to the bytes of an mbarrier, but operations on it, and what is executed only after all its uses.

        What another role does may come at any time: no path leads from it to the uses, or from them to it."""
        reaches, naming = self.model.reaches, self.mbarriers.naming(at)
        writing = [
            i for i in self._writing if not all(reaches(use, i) and not reaches(i, use) for use in naming)
        ]
        return self._untouched(at, writing)

    def kept(self, at: MbarrierLocation, barriers: Iterable[int]) -> bool:
        """Whether no thread writes to the bytes of an mbarrier from its initialisation to its last use, but by operations on it. All
        threads of the CTA meet at *barriers*.

        A write follows all uses if each path to it passes a barrier which none of them follows, since none of another thread does,
        either.
        """
        full, inits = self._full(barriers), self.mbarriers.inits(at)
        last = self._last(at, full)
        meanwhile = [
            i
            for i in self._writing
            if self.model.reaches(-1, i, last)
            and not (inits and all(self._precedes(i, init, full) for init in inits))
        ]
        return self._untouched(at, meanwhile)

    def lives(self, at: MbarrierLocation, thread: int, barriers: Iterable[int]) -> bool:
        """Whether an mbarrier is initialised before *thread* uses it, and not ended before it no longer does, where the thread
        itself does so, or one of the *barriers*, at which all threads of the CTA meet, is between the two."""
        model, full, inits = self.model, self._full(barriers), self.mbarriers.inits(at)
        context, last = model.views.context_of, self._last(at, full)
        naming = {i: context(i).threads for i in self.mbarriers.naming(at)}
        uses = [i for i, by in naming.items() if by >> thread & 1 and not self._bounds(i)]
        ends = [i for i in naming if self._bounds(i) and i not in inits]
        met = [*((i, i) for i in full), *self._in_cluster(barriers)]
        begun = [wait for arrival, wait in met if not any(model.reaches(arrival, init) for init in inits)]
        alone = all(context(init).threads == 1 << thread for init in inits)
        return (alone or not any(model.reaches(-1, use, begun) for use in uses)) and all(
            naming[end] == 1 << thread or not model.reaches(-1, end, last) for end in ends
        )

    def _full(self, barriers: Iterable[int]) -> list[int]:
        """Those of these barriers of all threads at which each of them arrives and waits, whatever a guard says."""
        every = ((i, self.model.instruction(i)) for i in barriers)
        return [i for i, each in every if each.effects.synchronises is not None and each.guard < 0]

    def _in_cluster(self, barriers: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Those of these barriers at which all threads of the cluster meet: the arrival, which releases, and the wait after it in
        its block."""
        cluster = Barrier.CLUSTER
        for wait in barriers:
            before = range(self.model.cfg.blocks[self.model.cfg.block_of[wait]].start, wait)
            each = [(i, self.model.instruction(i)) for i in (*before, wait)]
            arrivals = [i for i, e in each if releases_to_cluster(e)]
            if arrivals and each[-1][1].effects.awaits is cluster and each[-1][1].guard < 0:
                yield arrivals[-1], wait

    def _last(self, at: MbarrierLocation, barriers: Iterable[int]) -> list[int]:
        """Those of the *barriers* that no initialisation and no use of an mbarrier follows."""
        used = [*self.mbarriers.inits(at), *(i for i in self.mbarriers.naming(at) if not self._bounds(i))]
        return [i for i in barriers if not any(self.model.reaches(i, use) for use in used)]

    def _bounds(self, site: int) -> bool:
        """Whether an instruction initialises or ends an mbarrier."""
        return self.model.instruction(site).effects.bounds_mbarrier

    def _precedes(self, write: int, init: int, barriers: Iterable[int]) -> bool:
        """Whether a write is complete in all threads, and none follows, when one thread initialises an mbarrier.

        That thread alone writes, before it, or each path to the initialisation passes one of the *barriers* that no such write
        follows and before which each is complete.
        """
        model, instruction = self.model, self.model.instruction(write)
        barriers = [i for i in barriers if not model.reaches(i, write)]
        if any(a.shared and a.writes and a.later for a in instruction.accesses):
            if instruction.effects.begins not in SELF_AWAITED:
                return False
            _, pending = model.solution(InFlight)
            barriers = [i for i in barriers if all(p.site != write for p in pending.before(i))]
        elif model.views.context_of(write).threads == model.views.context_of(init).threads:
            return not model.reaches(init, write)
        return not model.reaches(-1, init, barriers)

    def _untouched(self, at: MbarrierLocation, writing: Iterable[int]) -> bool:
        """Whether none of these instructions writes to the bytes of an mbarrier."""
        address = self.values.add(at.base, self.values.constant(at.offset)), SIZE
        return all(self._misses(site, address) for site in writing)

    def _misses(self, site: int, address: MemoryRange) -> bool:
        """Whether an instruction writes no byte of a range, in any iteration."""
        if self.model.instruction(site).calls_program:
            return False
        found = self.data(site)
        return found is not None and all(self.across.bytes.ever_apart(each, address) for each in found)

    @cached_property
    def _writing(self) -> list[int]:
        """The instructions that write data to shared memory, or call what may."""
        return [
            i
            for b in sorted(self.model.cfg.order)
            for i in self._block(b)
            if any(a.writes and a.shared and not a.object for a in self.model.instruction(i).accesses)
            or self.model.instruction(i).calls_program
        ]

    @cached_property
    def _uses(self) -> dict[int, list[int]]:
        """What initialises or ends one of the mbarriers that are followed, each with what may name the same one in other threads."""
        sites, context = self.mbarriers.mbarriers.sites, self.model.views.context_of
        named = {site: {at for at in self._own if self.mbarriers.may_name(site, at)} for site in sites}
        bounds = [site for site, effects in sites.items() if effects.bounds_mbarrier and named[site]]
        return {
            bound: [
                site
                for site in sites
                if site != bound
                and not named[site].isdisjoint(named[bound])
                and context(site).threads != context(bound).threads
            ]
            for bound in bounds
        }

    # ------------------------------------------------------------ mbarriers

    def _on(self, site: int, numbers: Numbers, counters: Counters) -> Location | None:
        """The mbarrier that an instruction names where counters have these numbers."""
        address = self._value(site, self.model.instruction(site).mbarrier, numbers, counters)
        return None if address is None else self.mbarriers.location(address)

    def _parity(self, site: int, numbers: Numbers, counters: Counters) -> int | None:
        """The parity that an instruction waits for."""
        parity = self._value(site, self.model.instruction(site).role("parity"), numbers, counters)
        return None if parity is None else self.values.constant_of(parity)

    def _value(self, site: int, operand: Operand | None, numbers: Numbers, counters: Counters) -> int | None:
        """An operand where counters have these numbers; None if it may be of another iteration."""
        if operand is None:
            return None
        if not all(self.across.bytes.definitions.dominate(register, site) for register in registers(operand)):
            return None
        value = self.values.operand(operand, site)
        return self.across.counting.at(value, numbers, counters) if numbers else value

    @cached_property
    def _waits(self) -> list[int]:
        return self.mbarriers.mbarriers.where(lambda e: e.awaits_threads)

    @cached_property
    def _awaited(self) -> dict[Edge, int]:
        """The edges that a thread takes only if a wait before them has acquired a complete phase."""
        found: dict[Edge, int] = {}
        for wait in self._waits:
            instruction = self.model.instruction(wait)
            tested = instruction.role("parity") is not None and instruction.order.acquires
            ready = instruction.role("destination")
            if tested and instruction.guard < 0 and isinstance(ready, int):
                block = self.model.cfg.block_of[wait]
                edges = self.model.cfg.successors[block]
                found |= {edge: wait for edge in edges if self._succeeds(edge, wait, ready)}
        return found

    def _succeeds(self, edge: Edge, wait: int, ready: int) -> bool:
        """Whether an edge out of the block of a wait is taken only if the wait writes true to *ready*."""
        if edge.predicate < 0:
            return False
        last = self.model.cfg.blocks[edge.source].end - 1
        later = range(wait + 1, last + 1)
        if edge.predicate == ready:
            return edge.value and not any(ready in self.model.instruction(i).writes for i in later)
        success = self.values.representative(self.values.after(ready, wait))
        tested = self.values.representative(self.values.before(edge.predicate, last))
        return tested == success if edge.value else self.values.negate(tested) == success

    @cached_property
    def _fences(self) -> frozenset[int]:
        """The fences between the generic and the async proxy, for shared memory of the CTA at least."""
        fences = self.model.where(lambda e: e.fence is not None)
        return frozenset(site for site in fences if self._fences_shared(self.model.instruction(site)))

    @staticmethod
    def _fences_shared(instruction: Instruction) -> bool:
        match = instruction.match
        if match is None or match.form.proxy != "async" or match.restricted:
            return False
        return not match.space or match.space.startswith(f".{StateSpace.SHARED.value}")

    # ------------------------------------------------------------ bytes

    def bytes(self, site: int) -> list[MemoryRange] | None:
        """All bytes of shared memory that an instruction accesses, those of its mbarrier too; None if they are not known."""
        own, data = self._of_mbarrier(site), self.data(site)
        return None if data is None else [*data, *own]

    def _of_mbarrier(self, site: int) -> list[MemoryRange]:
        accesses = self.model.instruction(site).accesses
        return ranges(self.model, site, [a for a in accesses if a.shared and a.object]) or []

    def data(self, site: int) -> list[MemoryRange] | None:
        """The bytes of shared memory that an instruction accesses, but for those of its mbarrier; None if they are not known."""
        instruction = self.model.instruction(site)
        accesses = [a for a in instruction.accesses if a.shared and not a.object]
        if not accesses:
            return []
        if not instruction.effects.transacts:
            needed = self.across.bytes.assumptions(site)
            self.assumed |= needed
            return self.across.bytes.of(site) if needed <= self.assume else None
        operand = instruction.role("destination")
        if operand is None or not all(
            self.across.bytes.definitions.dominate(register, site) for register in registers(operand)
        ):
            return None
        written = self.written(site)
        if written is None or not written[1] <= self.assume:
            return None
        self.assumed |= written[1]
        return written[0]

    def written(self, site: int) -> tuple[list[MemoryRange], frozenset[Assumption]] | None:
        """The bytes of shared memory that an instruction writes at most, and what that rests on; None if they are unknown."""
        return self._box(site) or self.across.bytes.matrices.written(site)

    def _box(self, site: int) -> tuple[list[MemoryRange], frozenset[Assumption]] | None:
        """The bytes that a tensor copy writes by the distances between copies; None if these do not say it."""
        address, size = self.model.value(site, "destination"), self._boxes.sizes.get(site)
        if address is None or size is None or Assumption.BOXES not in self.assume:
            return None
        return [(address, size)], frozenset((Assumption.BOXES, Assumption.EXPECTED))

    def limit(self, site: int) -> str:
        """The limit because of which it is not known which bytes a tensor copy writes, in words; "" if there is none."""
        return self._boxes.limits.get(site, "")

    def addresses(self) -> Iterator[int]:
        """The values on which it depends what is tracked, by which phase, and which phase a wait is for."""
        for site in (*self.events, *self._waits):
            values = self.model.mbarrier(site), self.model.value(site, "parity")
            yield from (value for value in values if value is not None)
        for site in self.sites:
            yield from (address for address, _ in self.data(site) or ())

    def _disjoint(self, first: int, here: Numbers, then: int, there: Numbers, counters: Counters) -> bool:
        """Whether two instructions access no common byte, each where counters have these numbers; what two operations do to one
        mbarrier is another question."""
        key = first, here, then, there, tuple(counters.items())
        if key not in self._apart:
            at = (first, here), (then, there)
            data = [self._selected(self.data(site), numbers, counters) for site, numbers in at]
            own = [self._selected(self._of_mbarrier(site), numbers, counters) for site, numbers in at]
            a, b = data
            self._apart[key] = (
                a is not None
                and b is not None
                and self._all_apart(a, [*b, *(own[1] or ())])
                and self._all_apart(own[0] or (), b)
            )
        return self._apart[key]

    def _all_apart(self, first: Iterable[MemoryRange], then: Collection[MemoryRange]) -> bool:
        """Whether none of the *first* ranges overlaps one of the others."""
        return all(self.across.bytes.ever_apart(x, y) for x in first for y in then)

    def _selected(
        self, found: list[MemoryRange] | None, numbers: Numbers, counters: Counters
    ) -> list[MemoryRange] | None:
        """Ranges where counters have these numbers."""
        if found is None or not numbers:
            return found
        return [(self.across.counting.at(address, numbers, counters), size) for address, size in found]
