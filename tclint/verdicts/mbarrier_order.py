"""The phases of mbarriers in kernels whose threads all execute the same loops: the prover of what
:mod:`tclint.verdicts.mbarrier_checker` checks.

What a thread may have passed at each block is a least fixpoint of the functions that the checker uses. Which thread executes an
instruction, which mbarriers it may name and what writes to their bytes, the analyses of findings say; a proof trusts them, as
that of ``shared-memory`` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from tclint.analyses.mbarrier_addresses import SIZE, MbarrierLocation, same
from tclint.findings.spans import Span, span
from tclint.findings.verdicts import Assumption, Discharge, Obligation, Reason
from tclint.ir.cfg import Edge
from tclint.isa.effects import Barrier, Resource
from tclint.values import thread_masks as T
from tclint.values.addresses import MemoryRange
from tclint.values.nodes import Literal, Logic, Negation
from tclint.verdicts.checker import Refused
from tclint.verdicts.epochs import Between, Counters, Levels, Numbers
from tclint.verdicts.mbarrier_checker import (
    MbarrierCertificate,
    MbarrierQuestions,
    MbarrierWalk,
    Passed,
    check_mbarriers,
    first_passed,
)
from tclint.verdicts.outcome import Outcome
from tclint.verdicts.path_facts import PathFacts
from tclint.verdicts.phases import Event, Kind, Location, tracked
from tclint.verdicts.shared_order import SharedOrder
from tclint.verdicts.tracked import Tracked

__all__ = ["MbarrierOrder"]

LEAST_BOX = 16
"""The bytes that a tensor copy writes at least (9.7.9.27.1.2)."""
MAX_COPIES = 32
"""The threads that issue a copy by one instruction."""
MAX_ITERATIONS = 64
"""The iterations of a loop that are followed one by one, if their number is constant."""
MAX_PASSED = 2048
"""The alternatives of what a thread may have passed at one block."""
MAX_STEPS = 60_000
"""The visits of a block, each for one alternative."""

_WHAT = {
    Kind.BEGIN: ("the mbarrier is not in use", Discharge.BARRIER),
    Kind.END: ("no thread uses the mbarrier any more", Discharge.BARRIER),
    Kind.ARRIVAL: ("all threads have waited for the phase before", Discharge.WAIT),
    Kind.COMMIT: ("all threads have waited for the phase before", Discharge.WAIT),
    Kind.COPY: ("its phase expects its bytes", Discharge.TRACKED),
}
"""What an operation needs, and what discharges that."""
_WAIT = ("its phase completes, and none with its parity after that", Discharge.ENDS)


class Protocol(Tracked):
    """What one thread does to phases of mbarriers of its CTA, with what initialises and ends them."""

    @cached_property
    def events(self) -> Mapping[int, Event]:
        """The instructions that one thread executes, and that initialise and end mbarriers, arrive at them, or copy bytes."""
        found = {site: event for site, event in super().events.items() if event.kind is not Kind.OPERATION}
        if not found:
            return {}
        named = self.mbarriers.mbarriers.sites
        bounds = ((site, self._bound(site)) for site, effects in named.items() if effects.bounds_mbarrier)
        return {**found, **{site: event for site, event in bounds if event is not None}}

    def _bound(self, site: int) -> Event | None:
        """What initialises an mbarrier with a count of 1, or ends it; None if it is not known that one thread does."""
        threads = self.model.views.context_of(site).threads
        if threads == 0 or threads & (threads - 1) or not self.mbarriers.stays(site):
            return None
        if self.model.instruction(site).effects.resource is not Resource.MBARRIER_INIT:
            return Event(Kind.END, threads.bit_length() - 1)
        return (
            Event(Kind.BEGIN, threads.bit_length() - 1)
            if self.model.constant_of(site, "count") == 1
            else None
        )

    @cached_property
    def copies(self) -> dict[int, int]:
        """Copy -> how many threads may execute it."""
        context = self.model.views.context_of
        return {
            site: context(site).threads.bit_count()
            for site, event in self.events.items()
            if event.kind is Kind.COPY
        }

    def _event(self, site: int) -> Event | None:
        threads, instruction = self.model.views.context_of(site).threads, self.model.instruction(site)
        if instruction.effects.transacts and instruction.effects.query is None and self.mbarriers.stays(site):
            few = 0 < threads.bit_count() <= MAX_COPIES
            return self._copy(site, (threads & -threads).bit_length() - 1) if few else None
        completes = instruction.match is not None and instruction.match.may_complete
        return super()._event(site) if completes else None

    def _known(self, site: int) -> bool:
        return True  # what it accesses is of other classes

    def _copy(self, site: int, thread: int) -> Event | None:
        """A copy to shared memory of this CTA, with its bytes; 0 if a tensor map says how many."""
        instruction = self.model.instruction(site)
        match, address = instruction.match, self.model.value(site, "destination")
        if match is None:
            return None
        plain = not match.multicast and not match.of_pair and instruction.role("part") is None
        if not plain or address is None or not self._here(address):
            return None
        if match.form.roles.get("bytes") is None:
            return Event(Kind.COPY, thread) if "tensormap" in match.form.roles else None
        size = self._size(site)
        return Event(Kind.COPY, thread, size) if size is not None else None

    @cached_property
    def waits(self) -> frozenset[int]:
        """The instructions that wait for a parity, or test it."""
        sites = self.mbarriers.mbarriers.where(lambda e: e.awaits is Barrier.MBARRIER)
        return frozenset(i for i in sites if self.model.instruction(i).role("parity") is not None)

    def addresses(self) -> Iterator[int]:
        """The values on which it depends which mbarrier is meant, and which parity."""
        for site in self.mbarriers.mbarriers.sites:
            values = self.model.mbarrier(site), self.model.value(site, "parity")
            yield from (value for value in values if value is not None)

    @cached_property
    def followed(self) -> dict[MbarrierLocation, Location]:
        """The mbarriers of the CTA that overlap no other one."""
        if self.mbarriers.mbarriers.has_unseen_arrivals:
            return {}
        found = dict[MbarrierLocation, Location]()
        objects = [MbarrierLocation(o.base, o.offset) for o in self.mbarriers.mbarriers.objects.values()]
        for at in objects:
            location = self.mbarriers.location(at.base, at.offset)
            if location is not None and not self.mbarriers.is_inside(location):
                return {}  # it may be in the bytes of any other one
            if location is not None and all(at == o or same(self.model, at, o) is False for o in objects):
                found[at] = location
        places = list(found.values())
        return {at: on for at, on in found.items() if places.count(on) == 1}

    def writes(self, barriers: Collection[int]) -> dict[int, list[Location]]:
        """The instructions that may write data to the bytes of these while they are in use; all threads meet at *barriers*."""
        found = dict[int, list[Location]]()
        for at, on in self.followed.items():
            address = self.values.add(at.base, self.values.constant(at.offset)), SIZE
            if self.kept(at, barriers):
                continue
            for site in self._writing:
                if not self._misses(site, address):
                    found.setdefault(site, []).append(on)
        return found

    def _last(self, at: MbarrierLocation, barriers: Iterable[int]) -> list[int]:
        """No end of the mbarrier follows them either: what ends it is a use, too (9.7.13.15.10)."""
        ends = [i for i in self.mbarriers.naming(at) if self._bounds(i)]
        return [i for i in super()._last(at, barriers) if not any(self.model.reaches(i, end) for end in ends)]

    def data(self, site: int) -> list[MemoryRange] | None:
        """The bytes of shared memory that an instruction accesses, but for those of its mbarrier; None if they are not known.

        How far a tensor copy writes is in its tensor map, and taken to be no further than the next mbarrier.
        """
        event = self.events.get(site)
        if event is None or event.kind is not Kind.COPY or event.bytes or Assumption.BOXES not in self.assume:
            return super().data(site)
        address = self.model.value(site, "destination")
        self.assumed.add(Assumption.BOXES)
        return None if address is None else [(address, LEAST_BOX)]

    def unfit(self, writes: Collection[int]) -> Iterator[tuple[int, str]]:
        """The instructions of which it is not known what they do to mbarriers; those of *writes* may write to their bytes."""
        for site in self._writing:
            instruction = self.model.instruction(site)
            accesses = [a for a in instruction.accesses if a.writes and a.shared and not a.object]
            if not tracked(instruction) and not all(a.own for a in accesses):
                yield site, "it may write to an mbarrier of another CTA"
            elif site in writes and instruction.calls_program:
                yield site, "the callee may write to the bytes of an mbarrier"

    def exists(self, thread: int) -> bool:
        """Whether each CTA has a thread, if the shape of the CTA may be assumed."""
        size = self.model.function.threads
        return thread == 0 or (size is not None and thread < size)

    # ------------------------------------------------------------ conditions

    def condition(self, site: int, edges: tuple[Edge, ...]) -> tuple[Literal, ...] | None:
        """What all threads share and must hold for the one thread that may execute an event to do so, and suffices, where *edges*
        lead to it; None if that is not known."""
        instruction, definitions = self.model.instruction(site), self.across.bytes.definitions
        tested = [(e.predicate, self.model.cfg.blocks[e.source].end - 1, e.value) for e in edges]
        tested.append((instruction.guard, site, not instruction.negated))
        found = dict[Literal, None]()
        if not all(map(self.exists, self._threads(site))):
            return None
        for register, at, truth in tested:
            if register < 0:
                continue
            if not definitions.dominate(register, at):
                return None
            for thread in self._threads(site):
                parts = self._parts(self.values.before(register, at), truth, thread)
                if parts is None:
                    return None
                found.update(dict.fromkeys(parts))
        return tuple(found)

    def _threads(self, site: int) -> Iterator[int]:
        """The threads that may execute an event."""
        threads = self.model.views.context_of(site).threads
        while threads:
            yield (threads & -threads).bit_length() - 1
            threads &= threads - 1

    def _parts(self, value: int, truth: bool, thread: int) -> tuple[Literal, ...] | None:
        """What all threads share and makes a predicate have a truth in *thread*; None if it is not known."""
        value, node = self.values.representative(value), self.values.node(value)
        if type(node) is Negation:
            return self._parts(node.operand, not truth, thread)
        if (decided := self._decided(value, thread)) is not None:
            return () if decided is truth else None
        if type(node) is Logic and node.name in ("and", "or"):
            if node.name == ("and" if truth else "or"):
                both = [self._parts(operand, truth, thread) for operand in node.operands]
                return None if None in both else tuple(each for part in both for each in part or ())
            # One operand has to hold: the other one, if the index of the thread decides that one does not.
            left = [o for o in node.operands if self._decided(o, thread) is not (not truth)]
            return self._parts(left[0], truth, thread) if len(left) == 1 else None
        return ((value, truth),) if self.across.is_shared(value, lambda phi: True) else None

    def _decided(self, value: int, thread: int) -> bool | None:
        """The truth of a predicate in *thread*, if its index decides that."""
        mask = self.values.mask(value)
        return None if mask is None else bool(mask >> thread & 1)

    def place(self, site: int, numbers: Numbers, counters: Counters) -> Location | None:
        """Where a copy of one thread writes, where counters have these numbers; None if it is not known."""
        operand = self.model.instruction(site).role("destination")
        address = self._value(site, operand, numbers, counters) if self.copies.get(site) == 1 else None
        return None if address is None else self.mbarriers.location(address)

    def room(self, place: Location) -> int | None:
        """The bytes from a place to the next mbarrier, or to the end of the variable; None if they are not known."""
        name, offset = place
        ends = [at - offset for variable, at in self.followed.values() if variable == name and at > offset]
        variable = self.model.variable(name)
        if variable is not None and variable.size:
            ends.append(variable.size - offset)
        return min(ends, default=None)

    def box(self, site: int) -> tuple[object, ...]:
        """What decides how many bytes a tensor copy writes: the tensor map, and how the copy uses it."""
        instruction = self.model.instruction(site)
        map_ = self.model.value(site, "tensormap")
        constant = map_ is not None and not self.values.varying_at(map_)
        assert instruction.match is not None
        return (
            instruction.match.form.name,
            map_ if constant else -site - 1,
            tuple(instruction.match.modifiers),
        )


class MbarrierOrder(SharedOrder):
    """The operations on mbarriers of one kernel, and what they need."""

    def _tracks(self) -> Tracked:
        return self.protocol

    @cached_property
    def protocol(self) -> Protocol:
        """What one thread does to phases."""
        return Protocol(self.across, self.assume)

    def outcome(self) -> Outcome:
        """The obligations, and whether the checker accepts what discharges them."""
        if unfit := tuple(self._unfit()):
            return Outcome(reasons=unfit)
        self.assumed |= self.uniform.of_index | {Assumption.NO_OVERFLOW}
        walk, limit = self._fixpoint()
        obligations = list[Obligation]()
        if limit:
            return Outcome(reasons=(Reason(None, limit),))
        for site in walk.sites:
            why = walk.failed.get(site, "")
            event = walk.ask.events.get(site)
            what, discharge = _WHAT[event.kind] if event is not None else _WAIT
            at = self._span(site)
            obligations.append(Obligation(at, None, what, None if why else discharge, why=why))
        reasons = [Reason(self._span(site), why) for site, why in sorted(walk.failed.items())]
        if not reasons and (why := walk.unsolved()):
            reasons.append(Reason(self._span(walk.sites[0]), why))
        if not reasons:
            try:
                check_mbarriers(self.function, self.uniform.of, walk.certificate, walk.ask)
            except Refused as refused:
                reasons.append(Reason(self._span(refused.site), refused.why))
        if any(event.kind is Kind.COPY and not event.bytes for event in walk.ask.events.values()):
            self.assumed.add(Assumption.EXPECTED)
        assumed = self.assumed | self.uniform.assumed | self.protocol.assumed
        if not reasons and not assumed <= self.assume:
            reasons.append(Reason(None, "it may not be assumed what tensor copies write"))
        return Outcome(tuple(obligations), tuple(reasons), frozenset(assumed))

    def _span(self, site: int) -> Span:
        return span(self.function, site)

    def _unfit(self) -> Iterator[Reason]:
        """Why the kernel is none of which a proof speaks."""
        if not self.protocol.events:
            yield Reason(None, "no phase is known that one thread completes")
        elif not self.uniform.by_index:
            yield Reason(None, "the index of a thread does not say which one operates on mbarriers")
        yield from (Reason(self._span(site), why) for site, why in self.protocol.unfit(self._writes))

    # ------------------------------------------------------------ the certificate

    @cached_property
    def _tracking(self) -> Counters:
        found = self.across.counting.counters(self.protocol.addresses())
        return {**found, **dict.fromkeys(self.facts.short_counters(MAX_ITERATIONS), 0)}

    @cached_property
    def _phis(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for block, register in map(self._defined, self._tracking):
            found.setdefault(block, set()).add(register)
        for phi in self.facts.phis:
            found.setdefault(phi.block, set()).add(phi.register)
        return found

    @cached_property
    def facts(self) -> PathFacts:
        """What paths say about the conditions of operations on mbarriers."""
        sites = self.protocol.mbarriers.mbarriers.sites
        blocks = {self.cfg.block_of[site] for site in sites}
        edges = {edge for b in sorted(blocks) for edge in self.cfg.control_dependences(b)}
        deciding = {e.source for e in edges if e.predicate >= 0}
        literals = (self.protocol.condition(site, ()) for site in self.protocol.events)
        conditions = {value for found in literals for value, _ in found or ()}
        definitions = self.across.bytes.definitions
        return PathFacts(self.model, definitions, deciding, sorted(conditions), self.across.is_shared)

    @cached_property
    def _asked(self) -> MbarrierQuestions:
        """What the checker asks."""
        phases = self.protocol.questions
        return MbarrierQuestions(
            self.protocol.events,
            frozenset(self.protocol.followed.values()),
            self._writes,
            self.protocol.waits,
            phases.on,
            phases.parity,
            phases.awaited,
            self.protocol.condition,
            self.protocol.copies,
            self.protocol.place,
            self.protocol.room,
            self.protocol.box,
            self.facts.along,
            self.facts.begins_before_end,
            self.facts.choices,
            self._admitting,
            self.across.counting.after,
            self._defined,
            T.full(self.values.threads),
        )

    @cached_property
    def _writes(self) -> dict[int, list[Location]]:
        return self.protocol.writes(self._full)

    @cached_property
    def _full(self) -> frozenset[int]:
        """The CTA barriers at which all threads meet."""
        effects = {site: self.function.instructions[site].effects for site in self.barriers}
        return frozenset(site for site, each in effects.items() if each.synchronises is not None)

    def _fixpoint(self) -> tuple[MbarrierWalk, str]:
        """What threads may have passed at each block; and the limit that is exceeded, in words."""
        entry: list[dict[Passed, None]] = [{} for _ in self.cfg.blocks]
        levels = self.uniform.levels
        of = self.uniform.of
        uniform = Levels(of, levels, of.outer(levels), Between.THREADS)
        counters = {phi: bits for phi, bits in self._tracking.items() if uniform.uniform(*self._defined(phi))}
        certificate = MbarrierCertificate(levels, self._full, counters, entry)
        walk = MbarrierWalk(self.function, of.graph, certificate, self._asked, uniform)
        entry[0][first_passed()] = None
        work: dict[int, dict[Passed, None]] = {0: dict(entry[0])}
        steps = 0
        while work and not walk.failed:
            self.model.pause()
            b = min(work)
            states = work.pop(b)
            steps += len(states)
            try:
                found = list(walk.leaving(b, walk.through(b, states)))
            except Refused as refused:
                walk.failed[refused.site] = refused.why
                break
            for target, passed in found:
                if passed not in entry[target]:
                    entry[target][passed] = None
                    work.setdefault(target, {})[passed] = None
                    if len(entry[target]) > MAX_PASSED:
                        return (
                            walk,
                            f"a thread may pass more than {MAX_PASSED} combinations of phases and branches",
                        )
            if steps > MAX_STEPS:
                return walk, f"what a thread may pass takes more than {MAX_STEPS} steps"
        return walk, ""
