"""Accepts or refuses a certificate that accesses of different threads to one memory are ordered by CTA barriers: to shared
memory, or to another :class:`Space`.

A *full barrier* is one that all threads of the CTA execute together, which follows from the levels of registers
(:mod:`tclint.verdicts.uniform`); no thread waits for the same barrier elsewhere. In a CTA of one warp, ``bar.warp.sync``
of all lanes is one, too, and so is a wait for the cluster barrier, if each thread arrives in the same block before it and
accesses nothing in between. So all threads execute the same sequence
of full barriers, and accesses that two consecutive ones separate are ordered (PTX ISA 9.7.13.1). What remains are
accesses of one *epoch*: of two threads that passed the same execution of a full barrier last, or none. The checker trusts
neither the certificate nor what made it. From the instructions and the edges of the control-flow graph alone, it verifies
that

- the levels hold, and the barriers are full;
- nothing is missing at an entry of a block: a barrier that may be the last one that a thread has passed, an asynchronous
  operation that may be pending, or a thread that may get there; by induction, each path is covered;
- each pair of accesses of which one writes, which the checker enumerates itself, is claimed, and the claim holds: the two
  are in no common epoch, both are atomic, or no two threads access a common byte with them (:attr:`OrderQuestions.disjoint`).

**Instances.** Two threads of one epoch have executed the same number of uniform instructions before it. So a register
that is uniform has the same value in both where they have entered the block that defines it equally often in this epoch,
once or not at all; if one may have entered it more often, its values are those of different iterations.

**Warps.** The lanes of one warp also meet at its ``bar.warp.sync`` of all lanes. So a certificate may be about two threads of
one warp alone, with these barriers among the full ones, and another one about two threads of different warps. Together, they
prove a pair.

**Counters.** Of some uniform phis, a certificate states the number, or its low bits: when the epoch began and now. Each edge
into the block of the phi makes one number of another, by the argument that belongs to the edge
(:attr:`OrderQuestions.counted`), and a branch that no thread takes with a number is not followed. All threads of one epoch
began it with the same number. So epochs that began with different ones are different epochs, and the addresses of two
accesses of one epoch are compared for the numbers that the counters have at each: the stage of a double buffer, the
distance of a reduction. Several certificates, with other counters, may prove the pairs of one kernel.

**Asynchronous operations.** The bytes of a ``cp.async`` are written in any epoch in which it may be pending, and those of a
``wgmma`` or of a bulk group read until the thread has waited for it. Where they are is what the counters said when it was issued.
An access through the async proxy needs a proxy fence after what threads have accessed before through the generic one
(:mod:`tclint.verdicts.meetings`); when it is complete, a fence is implied (9.7.9.25.2, 9.7.15.4).

**Mbarriers.** An operation on an mbarrier is an access of its bytes like any other, but what two of them do to each other is
the class of mbarriers. What phases track is ordered as :mod:`tclint.verdicts.phases` and :mod:`tclint.verdicts.meetings` say:
the checker compares the bytes of two accesses wherever the two meet.

**Loads.** That a barrier is full may rest on a load of shared memory which is taken to be uniform. Each thread that executes
the load in an epoch reads the same value if no other one may write these bytes in that epoch. This needs full barriers before
the load alone, so by induction over the steps of an execution, both hold.

Whatever else may access shared memory ends the proof: other operations of the async proxy, other CTAs, generic addresses, calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from enum import Enum

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.analyses.in_flight import Pending, Strict
from tclint.findings.verdicts import Discharge
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Function, Instruction
from tclint.isa.accesses import Proxy, StateSpace
from tclint.isa.effects import GROUPED, Barrier, Engine
from tclint.isa.special_registers import WARP
from tclint.sync.operations import OPEN
from tclint.verdicts.checker import Graph, Refused
from tclint.verdicts.meetings import Meetings
from tclint.verdicts.phases import (
    NO_PHASES,
    Counters,
    Kind,
    Known,
    Location,
    Numbers,
    PhaseQuestions,
    Phases,
    tracked,
)
from tclint.verdicts.uniform import Collective, Level, Uniform, check_levels, collective

__all__ = [
    "ENTRY",
    "SHARED",
    "AccessPair",
    "Between",
    "Counters",
    "Epoch",
    "Levels",
    "MemoryAccess",
    "Numbers",
    "OrderCertificate",
    "OrderQuestions",
    "Reached",
    "Since",
    "Space",
    "View",
    "Walk",
    "access",
    "check",
    "check_barriers",
    "check_loads",
    "entered",
    "first_epoch",
    "foreign",
    "full_barriers",
    "of_all_threads",
    "of_cluster",
    "releases_to_cluster",
    "uniform_if_stable",
    "untracked",
]

ENTRY = -1
"""The entry of the kernel, as the beginning of an epoch."""
Pendings = frozenset[tuple[Pending, Numbers]]
"""Asynchronous operations that may be pending, with the counters when each was issued."""


class Since(NamedTuple):
    """What a thread has passed in its epoch."""

    start: int
    """The full barrier at which the epoch began, or :data:`ENTRY`."""
    passed: tuple[tuple[int, int], ...] = ()
    """The blocks that are counted and were entered since, each with 1, or with 2 for more than once."""
    begun: Numbers = ()
    """The counters when the epoch began."""
    now: Numbers = ()
    """The counters now."""


class Reached(NamedTuple):
    """The threads that may have passed the same in their epoch."""

    threads: int
    """One bit for each."""
    pending: Pendings = frozenset()
    known: Known = Known()
    """What they know of operations that mbarriers track."""

    def joined(self, other: Reached | None) -> Reached:
        """Both of them."""
        if other is None or other == self:
            return self
        return Reached(
            self.threads | other.threads, self.pending | other.pending, self.known.joined(other.known)
        )


Epoch = Mapping[Since, Reached]


class Between(Enum):
    """Two threads, as a certificate is about them."""

    THREADS = "threads"
    """Any two of the CTA."""
    WARPS = "warps"
    """Of different warps."""
    LANES = "lanes"
    """Of one warp."""


class MemoryAccess(NamedTuple):
    """An instruction that accesses the memory."""

    site: int
    writes: bool
    atomic: bool = False
    later: bool = False
    """Whether it is asynchronous, such as a ``cp.async``, and accesses the memory until it has completed."""
    rows: int = 0
    """How many lanes of a warp, from lane 0 on, have the address of a row of a matrix, which any lane may access; 0 if each
    accesses its own."""
    object: bool = False
    """Whether it is an operation on an mbarrier."""
    tracked: bool = False
    """Whether a phase of an mbarrier tracks it."""
    fenced: bool = False
    """Whether it needs a proxy fence after what other threads have accessed before: it is through the async proxy."""


class AccessPair(NamedTuple):
    """Two accesses, of which at least one writes; an access and itself, if two threads execute it."""

    first: int
    then: int


class View(NamedTuple):
    """What is known of the threads that execute the two accesses of a pair in one epoch."""

    first: int
    then: int
    """The threads that may execute each, one bit for each."""
    here: Numbers
    there: Numbers
    """The counters at each, or where it was issued."""
    counters: Counters
    """What these numbers are of."""
    between: Between
    """Which of the threads are meant."""
    same: Callable[[int], bool]
    """Whether both have entered a block equally often in their epoch, and not more than once."""
    uniform: Callable[[int, int], bool]
    """Whether a register that is defined on entry to a block is the same in all threads that meet at the barriers."""
    together: Callable[[int], bool]
    """Whether the threads of a warp execute a block together."""
    deciding: Callable[[int], Sequence[int]]
    """The blocks whose branches decide whether a block executes, and may differ in a warp."""
    unchanging: Callable[[int], bool]
    """Whether a load is from memory that no thread writes while the kernel runs."""


class Levels:
    """What is uniform, by the levels of registers and of the branches that decide whether a block executes."""

    def __init__(
        self, of: Uniform, registers: Mapping[int, Level], outer: Mapping[int, Level], between: Between
    ) -> None:
        self.registers, self.outer = registers, outer
        self.unchanging = of.unchanging
        self.whole = Level.WARP if between is Between.LANES else _whole(of)
        self.together = frozenset(b for b, level in outer.items() if level <= Level.WARP).__contains__
        self.divergent = {
            b: region for b, region in of.regions.items() if of.branch(b, registers) > Level.WARP
        }
        """Block whose branch may differ in a warp -> the blocks that it decides."""
        self.in_step = frozenset(b for b, level in outer.items() if level <= self.whole).__contains__
        """Whether all threads that meet at the barriers execute a block together."""

    def deciding(self, block: int) -> Sequence[int]:
        """The blocks whose branches decide whether *block* executes, and may differ in a warp."""
        return [b for b, region in self.divergent.items() if block in region]

    def uniform(self, block: int, register: int) -> bool:
        """Whether a register that is defined on entry to a block is the same in all threads that meet at the barriers."""
        level = self.registers.get(register, Level.NONE)
        return max(level, self.outer.get(block, Level.NONE)) <= self.whole


class OrderQuestions(NamedTuple):
    """What the checker asks of the values of registers; each answer is a proof."""

    disjoint: Callable[[MemoryAccess, MemoryAccess, View], bool]
    """Whether two accesses of different threads have no byte in common."""
    everyone: int
    """All threads that a CTA may have, one bit for each."""
    admitting: Callable[[int, int, bool, Numbers, Counters], int]
    """The threads in which a register may have a value just before an instruction, by their index and the counters."""
    counted: Callable[[Edge, Numbers, Counters], Collection[Numbers] | None]
    """What the counters may be after an edge; None if one of them is not known."""
    defined: Callable[[int], tuple[int, int]]
    """The block of a counter, which is a phi, and the register that it is the value of."""
    phases: PhaseQuestions = NO_PHASES
    outside: frozenset[int] = frozenset()
    """The instructions whose generic addresses are not in shared memory."""


@dataclass(frozen=True)
class OrderCertificate:
    """The claims of a proof about one memory of one function."""

    levels: Mapping[int, Level]
    barriers: frozenset[int]
    """The full barriers."""
    counted: frozenset[int]
    """The blocks whose entries are counted."""
    counters: Counters
    entry: Sequence[Epoch]
    """What a thread may have passed in its epoch at the entry of each block."""
    claims: Mapping[AccessPair, Discharge]
    between: Between = Between.THREADS
    """The threads that it is about."""
    own: frozenset[Location] = frozenset()
    """The mbarriers whose phases are followed."""


def foreign(instruction: Instruction) -> str:
    """Why CTA barriers alone do not order what *instruction* may do to shared memory; "" if they do, or it does nothing."""
    match = instruction.match
    if instruction.flow == "call":
        return "the callee may access shared memory" if instruction.calls_program else ""
    if match is None:
        return f"{instruction.opcode} is not an instruction that is known"
    if tracked(instruction):
        return ""
    found = [a for a in instruction.accesses if a.shared]
    effects = instruction.effects
    if any(a.object for a in found) and (effects.tracks or effects.begins or effects.commits):
        return "it arrives at an mbarrier later, and CTA barriers alone do not order that"
    later = [a for a in found if a.later]
    if (later and effects.begins not in GROUPED) or any(
        a.writes and a.proxy is not Proxy.GENERIC for a in later
    ):
        return "what completes it is not known"
    if any(a.space is StateSpace.GENERIC for a in found):
        return "its generic address may be in shared memory"
    if not all(a.own for a in found):
        return "it may access the shared memory of another CTA"
    if any(not a.later and not isinstance(a.extent, int) for a in found):
        return "which bytes of shared memory it accesses is not known"
    return ""


def releases_to_cluster(instruction: Instruction) -> bool:
    """Whether each thread that reaches an instruction arrives at the cluster barrier, and releases what it has done before."""
    arrives = instruction.effects.arrives is Barrier.CLUSTER and instruction.guard < 0
    return arrives and instruction.order.releases


def untracked(space: Space, site: int, instruction: Instruction, events: Container[int]) -> str:
    """Why no phase of an mbarrier is known to track what it should track; "" if one is, or it should not."""
    if not space.tracks(instruction) or site in events:
        return ""
    return "it is not known that one thread executes it, at which mbarrier of the CTA it arrives, or which bytes it accesses"


def access(site: int, instruction: Instruction) -> MemoryAccess | None:
    """How an instruction that is not :func:`foreign` accesses shared memory; None if it does not."""
    found = [a for a in instruction.accesses if a.shared]
    if not found:
        return None
    writes, object = any(a.writes for a in found), any(a.object for a in found)
    if tracked(instruction):
        data = [a for a in found if not a.object]
        return MemoryAccess(site, any(a.writes for a in data or found), object=not data, tracked=True)
    atomic = writes and not object and not all(a.writes for a in found)
    later = any(a.later for a in found)
    rows = instruction.match.address_lanes if any(a.rows for a in found) and instruction.match else 0
    fenced = any(a.proxy is not Proxy.GENERIC for a in found)
    return MemoryAccess(site, writes, atomic, later, rows, object, fenced=fenced)


class Space(NamedTuple):
    """A memory that all threads of a CTA share."""

    groups: tuple[Engine, ...]
    """The groups of the asynchronous operations that access it."""
    foreign: Callable[[Instruction], str]
    """Why CTA barriers alone do not order what an instruction may do to it; "" if they do, or it does nothing."""
    access: Callable[[int, Instruction], MemoryAccess | None]
    """How an instruction that is not foreign accesses it; None if it does not."""
    separates: Callable[[Sequence[Instruction], range, int, int], bool]
    """Whether the barrier in a block, by where a thread arrives and where it waits, orders the accesses before and after."""
    tracks: Callable[[Instruction], bool]
    """Whether a phase of an mbarrier should track an instruction, since it is not complete for its own thread otherwise."""

    def concerns(self, instruction: Instruction) -> bool:
        """Whether an instruction may access it."""
        return bool(self.foreign(instruction)) or self.access(0, instruction) is not None


SHARED = Space(GROUPED, foreign, access, lambda instructions, block, arrival, wait: True, tracked)


def full_barriers(of: Uniform, candidates: Collection[int]) -> frozenset[int]:
    """Those of the barriers *candidates* for whose barrier no thread waits or arrives elsewhere."""
    numbers: dict[int, int | None] = {}
    for site in of.block_of:
        instruction = of.instructions[site]
        if instruction.effects.arrives in (Barrier.CTA, Barrier.WARP):
            operand = instruction.role("id")
            if operand is not None:
                numbers[site] = of.ask.constant(operand, site)
    others = {number for site, number in numbers.items() if site not in candidates}
    without_number = frozenset(candidates) - numbers.keys()
    if None in others:
        return without_number
    return without_number | {s for s in candidates if numbers.get(s) is not None and numbers[s] not in others}


def of_all_threads(of: Uniform, site: int, between: Between = Between.THREADS) -> Collective | None:
    """The barrier *site* as one at which all threads of the CTA meet; None if it is not one.

    A barrier of a warp is, in a CTA that is known to have no more than one, or if *between* is about one warp. Of the cluster
    barrier, it is the wait.
    """
    match = of.instructions[site].match
    if match is None:
        return None
    if match.form.effects.awaits is Barrier.CLUSTER:
        return Collective(site, Level.CLUSTER, match.scope != "thread")
    if match.form.effects.synchronises is None:
        return None
    if match.form.scope == "cta":
        return Collective(site, Level.CTA, match.scope != "thread")
    if between is Between.LANES or _whole(of) is Level.WARP:
        return Collective(site, Level.WARP, False)
    return None


def of_cluster(of: Uniform) -> Iterator[Collective]:
    """The operations on the cluster barrier, all of which matter to a wait for it."""
    for site in of.block_of:
        found = collective(site, of.instructions[site])
        if found is not None and of.instructions[site].effects.barrier is Barrier.CLUSTER:
            yield found


def _whole(of: Uniform) -> Level:
    """The level of the whole CTA: that of a warp if there is only one."""
    threads = of.function.threads
    return Level.WARP if threads is not None and threads <= WARP else Level.CTA


def entered(since: Since, block: int, counted: Collection[int], now: Numbers) -> Since:
    """What a thread has passed once it has entered *block*, where the counters are *now*."""
    passed = _counted(since.passed, block) if block in counted else since.passed
    return Since(since.start, passed, since.begun, now)


def first_epoch(counted: Collection[int], everyone: int, known: Known) -> Epoch:
    """What a thread has passed, and knows, when it begins."""
    return {entered(Since(ENTRY), 0, counted, ()): Reached(everyone, known=known)}


def _counted(passed: tuple[tuple[int, int], ...], block: int) -> tuple[tuple[int, int], ...]:
    times = dict(passed)
    times[block] = min(times.get(block, 0) + 1, 2)
    return tuple(sorted(times.items()))


class _Instances:
    """Executions of one access in one epoch, with the same numbers of the counters."""

    def __init__(self) -> None:
        self.threads = 0
        self.passed = set[tuple[tuple[int, int], ...]]()

    def times(self, block: int) -> set[int]:
        """How often a thread may have entered *block* in its epoch."""
        return {dict(passed).get(block, 0) for passed in self.passed}


_Begun = tuple[int, Numbers]
"""An epoch: where it began, and the counters there."""


class Walk:
    """What follows within each block from what a certificate says about its entry: call :meth:`through` for all entries."""

    def __init__(
        self,
        function: Function,
        graph: Graph,
        certificate: OrderCertificate,
        questions: OrderQuestions,
        levels: Levels,
        space: Space = SHARED,
    ) -> None:
        self.graph, self.certificate, self.ask, self.space = graph, certificate, questions, space
        self.instructions = function.instructions
        self.phases = Phases(questions.phases, certificate.own, certificate.counters, levels.uniform)
        self.meetings = Meetings(graph, self.phases, levels.in_step, self._begins)
        self.order = sorted(graph.reached((0,)))
        sites = [i for b in self.order for i in graph.blocks[b]]
        self.transfer = Strict(function, space.groups, sites, sources=True)
        found = ((i, space.access(i, self.instructions[i])) for i in sites if i not in questions.outside)
        self.accesses: dict[int, MemoryAccess] = {i: each for i, each in found if each is not None}
        """The reachable accesses, by instruction."""
        self._by_proxies = any(each.tracked or each.fenced for each in self.accesses.values())
        marked = self.accesses.keys() | certificate.barriers | self.transfer.affecting
        bounds = questions.phases.uses.items()
        self._bounding = {site for bound, uses in bounds for site in (bound, *uses)} - self.accesses.keys()
        """What initialises, ends and names mbarriers without an access of this memory."""
        marked = marked | self.meetings.at.keys() | set(questions.phases.fences) | self._bounding
        self._marked = {b: [i for i in graph.blocks[b] if i in marked] for b in self.order}
        self._now: dict[int, dict[_Begun, dict[Numbers, _Instances]]] = {i: {} for i in self.accesses}
        self._followed: dict[tuple[int, Numbers, Pendings], Pendings] = {}
        self._later: dict[int, dict[_Begun, set[Numbers]]] = {}
        """Asynchronous access -> the epochs in which it may happen, with the counters when it was issued."""

    def through(self, b: int, epoch: Epoch) -> Epoch:
        """What a thread may have passed at the end of a block, if *epoch* at its entry; the accesses in it are noted."""
        self._pend(epoch)
        for i in self._marked[b]:
            if i in self.accesses and not self.accesses[i].tracked:
                epoch = self._note(i, epoch)
            for s in epoch if i in self._bounding else ():
                self.meetings.reached(i, (s.start, s.begun), s.now)
            if i in self.meetings.at:
                epoch = self._issue(i, epoch)
            if i in self.transfer.affecting:
                epoch = {s: r._replace(pending=self._after(s, r, i)) for s, r in epoch.items()}
            if i in self.ask.phases.fences:
                epoch = self._fence(i, epoch)
            if i in self.certificate.barriers and self._separates(b, i):
                after: dict[Since, Reached] = {}
                for s, reached in epoch.items():
                    begun = Since(i, (), s.now, s.now)
                    after[begun] = reached.joined(after.get(begun))
                self._pend(after)
                for s, reached in after.items():
                    self.meetings.begins((s.start, s.begun), {(p.site, at) for p, at in reached.pending})
                epoch = {**epoch, **after} if self.instructions[i].guard >= 0 else after
        for i in self.meetings.last.get(b, ()):
            epoch = self._issue(i, epoch)
        return epoch

    def _begins(self, b: int, site: int) -> bool:
        """Whether each thread that executes an instruction of a block begins an epoch."""
        return (
            site in self.certificate.barriers
            and self.instructions[site].guard < 0
            and self._separates(b, site)
        )

    def _issue(self, site: int, epoch: Epoch) -> Epoch:
        """What is known after the position of what a phase tracks."""
        return {
            s: r._replace(known=self.meetings.issued(site, (s.start, s.begun), r.known, s.now))
            for s, r in epoch.items()
        }

    def _fence(self, site: int, epoch: Epoch) -> Epoch:
        """What is known after a proxy fence; one that has a guard may not be executed."""
        if self.instructions[site].guard >= 0:
            return epoch
        return {
            s: r._replace(known=self.phases.fenced(r.known, {(p.site, at) for p, at in r.pending}))
            for s, r in epoch.items()
        }

    def _separates(self, b: int, wait: int) -> bool:
        """Whether the barrier at *wait* orders what is before its arrival and what is after it, with nothing in between."""
        arrival = wait
        if self.instructions[wait].effects.arrives is None:
            block = self.graph.blocks[b]
            before = range(wait - 1, block.start - 1, -1)
            arrival = next(
                (i for i in before if i in self._marked[b] or releases_to_cluster(self.instructions[i])), wait
            )
            if arrival == wait or not releases_to_cluster(self.instructions[arrival]):
                return False
        return self.space.separates(self.instructions, self.graph.blocks[b], arrival, wait)

    def about(self, between: Between) -> Walk:
        """The same walk for a certificate about other threads, at which the same barriers meet."""
        other = copy(self)
        other.certificate = replace(self.certificate, between=between)
        return other

    def _note(self, site: int, epoch: Epoch) -> Epoch:
        """Notes an access, which is executed after *epoch*; what is known after it."""
        instruction, access = self.instructions[site], self.accesses[site]
        after = dict(epoch)
        for s, reached in epoch.items():
            at = self._now[site].setdefault((s.start, s.begun), {}).setdefault(s.now, _Instances())
            at.threads |= self._narrowed(
                reached.threads, site, instruction.guard, not instruction.negated, s.now
            )
            at.passed.add(s.passed)
            if access.later:
                self._later.setdefault(site, {}).setdefault((s.start, s.begun), set()).add(s.now)
            if self._by_proxies:
                known = self.meetings.accessed(access, (s.start, s.begun), reached.known, s.now)
                after[s] = reached._replace(known=known)
        return after

    def _after(self, since: Since, reached: Reached, site: int) -> Pendings:
        """What may be pending after an instruction."""
        begins = site in self.transfer.begun
        if not begins and not reached.pending:
            return reached.pending
        key = site, since.now if begins else (), reached.pending
        if key not in self._followed:
            states: dict[Numbers, set[Pending]] = {since.now: set()} if begins else {}
            for each, at in reached.pending:
                states.setdefault(at, set()).add(each)
            found = set[tuple[Pending, Numbers]]()
            for at, state in states.items():
                after = self.transfer.after(frozenset(state), site)
                if begins and at != since.now:  # it is issued with other numbers
                    after -= {Pending(site, OPEN)} - state
                found.update((each, at) for each in after)
            self._followed[key] = frozenset(found)
        return self._followed[key]

    def _pend(self, epoch: Epoch) -> None:
        for s, reached in epoch.items():
            for each, at in reached.pending:
                self._later.setdefault(each.site, {}).setdefault((s.start, s.begun), set()).add(at)

    def leaving(self, b: int, epoch: Epoch) -> Iterator[tuple[int, Since, Reached]]:
        """For each edge out of a block, its target, and what a thread that takes it has passed there.

        Raises ``Refused`` if a counter is not known after it.
        """
        last = self.graph.blocks[b][-1]
        for edge in self.graph.successors[b]:
            for s, reached in epoch.items():
                threads = self._narrowed(reached.threads, last, edge.predicate, edge.value, s.now)
                if not threads:
                    continue
                numbers = self.ask.counted(edge, s.now, self.certificate.counters)
                if numbers is None:
                    raise Refused(last, "the number of a counter is not known after this branch")
                known = self.phases.followed(self.phases.waited(reached.known, edge, s.now), edge)
                for now in numbers:
                    since = entered(s, edge.target, self.certificate.counted, now)
                    yield edge.target, since, Reached(threads, reached.pending, known)

    def _narrowed(self, threads: int, at: int, register: int, value: bool, numbers: Numbers) -> int:
        """Those of *threads* in which a predicate may have a *value* just before an instruction; all for the register -1."""
        if register < 0:
            return threads
        return threads & self.ask.admitting(register, at, value, numbers, self.certificate.counters)

    # ------------------------------------------------------------ pairs

    def pairs(self) -> Iterator[AccessPair]:
        """The pairs of accesses of which at least one writes, and one is not an operation on an mbarrier."""
        sites = sorted(self.accesses)
        for n, a in enumerate(sites):
            for b in sites[n:]:
                both = self.accesses[a], self.accesses[b]
                if any(each.writes for each in both) and not all(each.object for each in both):
                    yield AccessPair(a, b)

    def tracks(self, pair: AccessPair) -> bool:
        """Whether a phase of an mbarrier tracks one of the two accesses."""
        return any(self.accesses[site].tracked for site in pair)

    def unfit(self) -> frozenset[Location]:
        """The mbarriers that are followed and of which what is claimed does not hold."""
        found, ask = set(self.phases.broken), self.ask.phases
        if not ask.own >= self.certificate.own:
            return self.certificate.own
        begun = {site for site, event in ask.events.items() if event.kind is Kind.BEGIN}
        for site in (ask.events.keys() - self.meetings.passed) | (begun - self.meetings.at.keys()):
            # When threads pass this arrival is not known, nor thus which phase is that of another one.
            on = ask.on(site, (), self.certificate.counters)
            found |= self.certificate.own if on is None else {on}
        for bound, uses in ask.uses.items():
            here = self.meetings.epochs(bound)
            if any(not self.meetings.epochs(site).isdisjoint(here) for site in uses):
                found |= self.certificate.own
        return frozenset(found)

    def apart(self, pair: AccessPair) -> bool:
        """Whether two accesses, one of them through the async proxy, have no byte in common wherever they meet."""
        counters = self.certificate.counters
        met = sorted(self.meetings.of(*pair))
        return all(self.ask.phases.apart(pair.first, a, pair.then, b, counters) for a, b in met)

    def _epochs(self, site: int) -> Collection[_Begun]:
        """The epochs in which an access may happen."""
        return self._later.get(site) or self._now[site]

    def separated(self, pair: AccessPair) -> bool:
        """Whether the two accesses are in no common epoch."""
        return set(self._epochs(pair.first)).isdisjoint(self._epochs(pair.then))

    def both_atomic(self, pair: AccessPair) -> bool:
        """Whether both are atomic operations of one type, to whose size their addresses are aligned."""
        matches = [self.instructions[site].match for site in pair]
        types = {(m.modifiers[-1:], m.binding.get("vec")) for m in matches if m is not None}
        return len(types) == 1 and all(self.accesses[site].atomic for site in pair)

    def views(self, pair: AccessPair, levels: Levels) -> Iterator[View]:
        """What is known of the threads that execute the two in one epoch: for all numbers that the counters may have at them."""
        late = any(self.accesses[site].later for site in pair)
        found: dict[tuple[Numbers, Numbers], list[tuple[_Instances, _Instances]]] = {}
        for begun in set(self._epochs(pair.first)) & set(self._epochs(pair.then)):
            for here, first in self._executed(pair.first, begun):
                for there, then in self._executed(pair.then, begun):
                    found.setdefault((here, there), []).append((first, then))
        for (here, there), instances in sorted(found.items(), key=lambda each: each[0]):

            def same(block: int, instances: list[tuple[_Instances, _Instances]] = instances) -> bool:
                if late or block not in self.certificate.counted:
                    return False
                times = [first.times(block) | then.times(block) for first, then in instances]
                return all(len(each) == 1 and max(each) <= 1 for each in times)

            first_threads = then_threads = 0
            for first, then in instances:
                first_threads |= first.threads
                then_threads |= then.threads
            yield View(
                first_threads,
                then_threads,
                here=here,
                there=there,
                counters=self.certificate.counters,
                between=self.certificate.between,
                same=same,
                uniform=levels.uniform,
                together=levels.together,
                deciding=levels.deciding,
                unchanging=levels.unchanging,
            )

    def _executed(self, site: int, begun: _Begun) -> Iterator[tuple[Numbers, _Instances]]:
        """The executions of an access that may happen in an epoch, by the numbers of the counters."""
        if site not in self._later:
            yield from self._now[site][begun].items()
            return
        for numbers in self._later[site][begun]:
            issued = _Instances()
            for instances in self._now[site].values():
                issued.threads |= instances[numbers].threads if numbers in instances else 0
            yield numbers, issued


def check(
    function: Function,
    of: Uniform,
    certificates: Sequence[OrderCertificate],
    questions: OrderQuestions,
    space: Space = SHARED,
) -> frozenset[AccessPair]:
    """The pairs of *function*, each of which one of *certificates* proves ordered or disjoint.

    Raises ``Refused`` if they do not.
    """
    needed, proved = _proved(function, of, certificates, questions, space)
    both = proved[Between.WARPS] & proved[Between.LANES]
    if missing := needed - proved[Between.THREADS] - both:
        raise Refused(min(missing).then, "nothing proves that the two accesses are ordered or apart")
    return needed


def check_loads(
    function: Function, of: Uniform, certificates: Sequence[OrderCertificate], questions: OrderQuestions
) -> None:
    """Raises ``Refused`` if *certificates* do not prove that the loads of shared memory which *of* takes for uniform are."""
    _proved(function, of, certificates, questions, SHARED)


def uniform_if_stable(instruction: Instruction) -> bool:
    """Whether an instruction reads shared memory of its CTA and nothing else, at once."""
    found = instruction.accesses
    return bool(found) and all(
        each.space is StateSpace.SHARED
        and each.own
        and not (each.writes or each.later or each.object or each.rows)
        for each in found
    )


def _proved(
    function: Function,
    of: Uniform,
    certificates: Sequence[OrderCertificate],
    questions: OrderQuestions,
    space: Space,
) -> tuple[frozenset[AccessPair], Mapping[Between, set[AccessPair]]]:
    """The pairs of *function*, and which of them are proved of which threads."""
    needed, proved = set[AccessPair](), {each: set[AccessPair]() for each in Between}
    for certificate in certificates:
        outer = check_levels(of, certificate.levels)
        check_barriers(of, certificate.barriers, certificate.levels, outer, certificate.between)
        levels = Levels(of, certificate.levels, outer, certificate.between)
        _check_counters(certificate, levels, questions)
        walk = Walk(function, of.graph, certificate, questions, levels, space)
        _check_entries(walk)  # after it, all accesses are noted
        needed.update(walk.pairs())
        for pair, claimed in certificate.claims.items():
            if pair not in needed:
                raise Refused(pair.then, "the certificate claims a pair that the kernel does not have")
            if not _holds(walk, pair, claimed, levels):
                raise Refused(pair.then, "nothing proves that the two accesses are ordered or apart")
            proved[certificate.between].add(pair)
    if not certificates:
        raise Refused(0, "there is no certificate")
    for site in of.stable:
        pairs = {pair for pair in needed if site in pair}
        if (
            space is not SHARED
            or not uniform_if_stable(of.instructions[site])
            or pairs - proved[Between.THREADS]
        ):
            raise Refused(site, "nothing proves that all threads read the same value")
    return frozenset(needed), proved


def _holds(walk: Walk, pair: AccessPair, claimed: Discharge, levels: Levels) -> bool:
    """Whether what a certificate claims of a pair is so."""
    if walk.tracks(pair):
        there = walk.certificate.between is Between.THREADS and claimed in (
            Discharge.WAIT,
            Discharge.DISJOINT,
        )
        return there and walk.apart(pair)
    if not walk.apart(pair):
        return False
    if claimed is Discharge.BARRIER:
        return walk.separated(pair)
    if claimed is Discharge.ATOMIC:
        return walk.both_atomic(pair)
    accesses = walk.accesses[pair.first], walk.accesses[pair.then]
    return claimed is Discharge.DISJOINT and all(
        walk.ask.disjoint(*accesses, view) for view in walk.views(pair, levels)
    )


def _check_counters(certificate: OrderCertificate, levels: Levels, questions: OrderQuestions) -> None:
    """Raises ``Refused`` if threads of one epoch need not have one number of a counter."""
    for counter in certificate.counters:
        block, register = questions.defined(counter)
        if not levels.uniform(block, register):
            raise Refused(0, "the certificate takes a counter for uniform that is not")


def check_barriers(
    of: Uniform,
    barriers: frozenset[int],
    levels: Mapping[int, Level],
    outer: Mapping[int, Level],
    between: Between = Between.THREADS,
) -> None:
    """Raises ``Refused`` if one of *barriers* is not full, by the *levels* of registers and those of blocks, *outer*."""
    for site in barriers:
        barrier = of_all_threads(of, site, between) if site in of.block_of else None
        needed = [] if barrier is None else [barrier]
        if barrier is not None and barrier.level is Level.CLUSTER:
            needed += of_cluster(of)
            if any(of.phases()):
                raise Refused(site, "some threads may arrive twice in one phase of the cluster barrier")
        if not needed or any(of.divergence(each, levels, outer) for each in needed):
            raise Refused(site, "the certificate takes a barrier for full that some threads may not execute")
    if full_barriers(of, barriers) != barriers:
        raise Refused(min(barriers), "some threads may wait for this barrier elsewhere")


def _check_entries(walk: Walk) -> None:
    """Raises ``Refused`` if the certificate omits something at an entry, or an instruction is foreign."""
    certificate, graph = walk.certificate, walk.graph
    for since, reached in first_epoch(certificate.counted, walk.ask.everyone, walk.phases.first).items():
        _check_entry(0, certificate.entry[0].get(since), reached)
    for b in walk.order:
        last = graph.blocks[b][-1]
        epoch = walk.through(b, certificate.entry[b])
        for i in graph.blocks[b]:
            foreign = "" if i in walk.ask.outside else walk.space.foreign(walk.instructions[i])
            if why := foreign or untracked(walk.space, i, walk.instructions[i], walk.meetings.passed):
                raise Refused(i, why)
        for target, since, reached in walk.leaving(b, epoch):
            _check_entry(last, certificate.entry[target].get(since), reached)
    if walk.unfit():
        raise Refused(0, "the certificate follows the phases of an mbarrier that has others")


def _check_entry(at: int, known: Reached | None, reached: Reached) -> None:
    if known is None:
        raise Refused(at, "the certificate omits what a thread may have passed in its epoch")
    if not reached.pending <= known.pending:
        raise Refused(at, "the certificate omits an operation that may be pending")
    if reached.threads & ~known.threads:
        raise Refused(at, "the certificate omits threads that may get to a block")
    if not known.known.covers(reached.known):
        raise Refused(at, "the certificate claims to know too much of operations that mbarriers track")
