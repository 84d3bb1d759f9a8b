"""Asynchronous operations that phases of mbarriers track, in threads which pass the same instructions together.

A thread that continues after a wait for a phase is ordered after the operations which that phase tracks (PTX ISA 9.7.13.15,
9.7.9.25.2, 9.7.16.6.2.1.1). This module says what a thread knows of such operations, for
:mod:`tclint.verdicts.epochs`, which follows all threads from one CTA barrier to the next.

**Positions.** One thread issues an operation, but *when* it may do so is said of all threads: at the instruction, if all threads
execute its block together; else at the end of the last block before it that all do, if only branches lead from there to the
instruction (:func:`positions`). Threads pass the same positions in the same order. An operation is *underway* for a thread
from its position on, whether it is really issued or not, until the thread takes an edge that is taken only if it was not: its
condition and that of the edge exclude each other, both stated by what all threads share and as it was at the position
(:attr:`PhaseQuestions.skipped`).

**Phases.** Of an mbarrier with a count of 1 at which one thread alone arrives, by ``arrive.expect_tx`` or by a commit
(:attr:`PhaseQuestions.own`), a certificate claims that

- at the position of an arrival, no thread has an earlier arrival or copy underway: the thread that arrives has waited for it, or
  has skipped it, so each phase has one arrival, and phase *n* is that of the arrival *n* among those that are not skipped;
- where it is initialised again, or ended, nothing is underway on it; what other threads do with it is in other epochs;
- copies follow an arrival that is underway and together write no more bytes than it expects. So the phase is not complete while
  one of its copies is missing.

**Waits.** A thread that has found *n* phases complete, and passes a wait for the parity of phase *n*, has found one more
complete, since the number of complete phases never falls. It has then passed the positions of at most *n* + 1 arrivals that were
not skipped. Had the last one been skipped, the phase would not be complete: so that a copy is issued where its thread waits
needs no proof, and only what threads do without waiting depends on what was skipped. So the parity alone is followed: which one the next phase has of which
the thread has not found that it is complete. What is underway on the mbarrier is complete then. A wait for the other
parity says nothing.

No fence is implied when a ``tcgen05`` operation is complete (9.7.16.6.5): what it has read is *stale* until the thread executes a
proxy fence, and may not be accessed through the generic proxy before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum

from tclint._named_tuple import NamedTuple
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction
from tclint.verdicts.checker import Graph

__all__ = [
    "NO_PHASES",
    "Counters",
    "Event",
    "Issue",
    "Kind",
    "Known",
    "Location",
    "Numbers",
    "PhaseQuestions",
    "Phases",
    "positions",
    "tracked",
]

Numbers = tuple[tuple[int, int], ...]
"""What is known of counters: for each phi that has been entered, in order, its number or the low bits of it."""
Counters = Mapping[int, int]
"""The phis whose numbers are followed, each with how many low bits of it are; 0: all of it."""
MAX_TAKEN = 8
"""The edges that are kept for an operation which may have been skipped."""
MAX_WAYS = 6
"""The paths that are distinguished since such an operation."""
Location = tuple[str, int]
"""A variable, and an offset from it in bytes."""


class Kind(Enum):
    """What an instruction does to phases, or has one track."""

    ARRIVAL = "arrives and expects bytes"
    """One thread arrives, and expects bytes."""
    COPY = "copies bytes"
    """One thread begins a copy that completes bytes of a phase."""
    COMMIT = "arrives later"
    """One thread arrives once all ``tcgen05`` operations that it has issued are complete."""
    BEGIN = "initialises"
    """One thread initialises an mbarrier, whenever threads pass it: the next phase is the first one."""
    END = "invalidates"
    """One thread may end an mbarrier."""
    OPERATION = "is committed"
    """One thread issues a ``tcgen05`` operation that a commit may track."""


class Event(NamedTuple):
    """An instruction that one thread executes."""

    kind: Kind
    thread: int
    bytes: int = 0
    """The bytes that an arrival expects at least, or that a copy completes at most; 0 if those of a tensor map are taken to be
    no more than its phase expects, besides those of other copies."""

    @property
    def arrives(self) -> bool:
        """Whether a phase needs it."""
        return self.kind is Kind.ARRIVAL or self.kind is Kind.COMMIT


class Issue(NamedTuple):
    """An operation or an arrival that is underway."""

    site: int
    at: Numbers
    """The counters at its position."""
    on: Location | None
    """The mbarrier that tracks it; None if none does, or which one is not known."""
    stale: bool = False
    """Whether it is complete, with no proxy fence since."""
    taken: tuple[Edge, ...] | None = None
    """The edges since, of those that its condition depends on; None if it has no condition, or they are too many."""


class Known(NamedTuple):
    """What a thread knows of operations that mbarriers track, and of its own accesses that no proxy fence has followed."""

    underway: frozenset[Issue] = frozenset()
    unfenced: frozenset[tuple[int, Numbers]] = frozenset()
    """Its accesses through the generic proxy, each with the counters when it was executed."""
    parities: frozenset[tuple[Location, int]] = frozenset()
    """Mbarrier -> the parity of the first phase that it has not found to be complete, if that is known."""

    def joined(self, other: Known) -> Known:
        """What is certain of both, and what is possible in one."""
        if self == other:
            return self
        return Known(
            self.underway | other.underway, self.unfenced | other.unfenced, self.parities & other.parities
        )

    def covers(self, other: Known) -> bool:
        """Whether this claims no more than *other*."""
        return (
            other.underway <= self.underway
            and other.unfenced <= self.unfenced
            and self.parities <= other.parities
        )


class PhaseQuestions(NamedTuple):
    """What the checker asks about the operations that mbarriers track; each answer is a proof."""

    events: Mapping[int, Event]
    """The instructions that one thread executes, and that arrive at mbarriers or are tracked."""
    own: frozenset[Location]
    """The mbarriers with a count of 1, initialised once before all that names them, at which one thread alone arrives, and only
    by the events."""
    uses: Mapping[int, Collection[int]]
    """The instructions that initialise or end these, each with those that name the same mbarrier in other threads."""
    on: Callable[[int, Numbers, Counters], Location | None]
    """The mbarrier that an instruction names, where counters have these numbers; None if it is not known."""
    parity: Callable[[int, Numbers, Counters], int | None]
    """The parity that an instruction waits for; None if it is not known."""
    awaited: Mapping[Edge, int]
    """The edges that are taken only because a wait, the last one before, has acquired a complete phase."""
    apart: Callable[[int, Numbers, int, Numbers, Counters], bool]
    """Whether two instructions access no common byte of shared memory, each where counters have these numbers."""
    skipped: Callable[[int, tuple[Edge, ...], Edge, Callable[[int, int], bool]], bool]
    """Whether the one thread has certainly skipped an event, if threads that passed its position have then taken these edges, and
    now take this one; by what says whether a register on entry to a block is the same in all threads."""
    conditional: Collection[int]
    """The events of which that is asked."""
    steps: Collection[int]
    """The blocks the edges into which it asks for."""
    fences: Collection[int]
    """The proxy fences between what is done in shared memory of the CTA through the generic and the async proxy."""
    anew: frozenset[Location] = frozenset()
    """Those of the mbarriers that are followed which are initialised by events, perhaps repeatedly."""
    proxies: bool = True
    """Whether what is complete may not be accessed through the generic proxy before such a fence."""


NO_PHASES = PhaseQuestions(
    {},
    frozenset(),
    {},
    lambda *_: None,
    lambda *_: None,
    {},
    lambda *_: False,
    lambda *_: False,
    frozenset(),
    frozenset(),
    frozenset(),
)
"""Nothing is tracked."""


def tracked(instruction: Instruction) -> bool:
    """Whether an mbarrier tracks an access of *instruction* to shared memory, or it is a commit."""
    effects = instruction.effects
    return effects.arrives_later or (
        effects.until_phase and any(a.shared and a.later for a in instruction.accesses)
    )


def positions(
    graph: Graph, events: Iterable[int], together: Callable[[int], bool]
) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Where all threads pass *events*: at which instruction, or at the end of which block; one that is in neither is nowhere.

    *together* says of a block whether all threads execute it together.
    """
    before: dict[int, set[int]] = {}
    for b, edges in enumerate(graph.successors):
        for edge in edges:
            before.setdefault(edge.target, set()).add(b)
    block_of = {i: b for b in graph.reached((0,)) for i in graph.blocks[b]}
    at, ends = dict[int, int](), dict[int, list[tuple[int, int]]]()
    for site in events:
        block, passed = block_of[site], set[int]()
        while not together(block) and block not in passed and len(before.get(block, ())) == 1:
            passed.add(block)
            (block,) = before[block]
        if not together(block):
            continue
        if passed:
            ends.setdefault(block, []).append((len(passed), site))
        else:
            at[site] = block
    # Of two on one path the earlier one is in the block that fewer branches lead to, whatever the order of the text is.
    return at, {block: [site for _, site in sorted(found)] for block, found in ends.items()}


class Phases:
    """How what a thread knows changes; *own* are the mbarriers that are followed, and *uniform* says of a register that is defined
    on entry to a block whether it is the same in all threads."""

    def __init__(
        self,
        ask: PhaseQuestions,
        own: frozenset[Location],
        counters: Counters,
        uniform: Callable[[int, int], bool],
    ) -> None:
        self.ask, self.own, self.counters, self.uniform = ask, own, counters, uniform
        self.broken = set[Location]()
        """The mbarriers of which what is claimed does not hold."""
        self.limits: dict[int, str] = {}
        """Event -> the limit because of which it is not known where it was skipped, in words."""
        self.first = Known(parities=frozenset((each, 0) for each in own - ask.anew))
        """What a thread knows when it begins."""

    def issued(self, known: Known, site: int, now: Numbers) -> Known:
        """What is known after the position of an event."""
        event = self.ask.events[site]
        on = None if event.kind is Kind.OPERATION else self.ask.on(site, now, self.counters)
        underway = known.underway
        if event.kind in (Kind.BEGIN, Kind.END):
            return self._bounded(known, on, begins=event.kind is Kind.BEGIN)
        if event.kind is not Kind.OPERATION:
            if on is None:  # it may name any of them
                self.broken |= self.own
            elif not self._in_turn(event, site, on, underway):
                self.broken.add(on)
        if event.kind is Kind.COMMIT and on is not None:
            underway = frozenset(self._tracked(each, on, event.thread) for each in underway)
        taken = () if site in self.ask.conditional else None
        return known._replace(underway=underway | {Issue(site, now, on, taken=taken)})

    def _bounded(self, known: Known, on: Location | None, *, begins: bool) -> Known:
        """What is known after the position of what initialises or ends an mbarrier, with which nothing may be underway."""
        if on is None:
            self.broken |= self.own
        elif begins and any(each == on for each, _ in known.parities):
            self.broken.add(on)  # it has not been ended
        elif any(each.on == on and not each.stale for each in known.underway):
            self.broken.add(on)
        rest = frozenset(each for each in known.parities if each[0] != on)
        return known._replace(parities=rest | {(on, 0)} if on in self.own and begins else rest)

    def followed(self, known: Known, edge: Edge) -> Known:
        """What is known after an edge of what may have been skipped."""
        if edge.predicate < 0 and edge.target not in self.ask.steps:
            return known
        found, paths = set[Issue](), dict[Issue, set[tuple[Edge, ...]]]()
        for each in known.underway:
            if each.taken is None or each.stale:
                found.add(each)
            elif not self.ask.skipped(each.site, each.taken, edge, self.uniform):
                taken = (*each.taken, edge) if edge.target in self.ask.steps else each.taken
                paths.setdefault(each._replace(taken=None), set()).add(taken)
        for issue, ways in paths.items():
            if limit := _limit(ways):
                self.limits[issue.site] = limit
            forgotten = limit or issue in found
            found |= {issue} if forgotten else {issue._replace(taken=each) for each in ways}
        return known._replace(underway=frozenset(found))

    def _in_turn(self, event: Event, site: int, on: Location, underway: frozenset[Issue]) -> bool:
        """Whether an arrival begins a phase, or a copy is one of those that its phase expects."""
        if on not in self.own:
            return True
        events = self.ask.events
        mine = [each for each in underway if each.on == on and not each.stale]
        arrivals = [each for each in mine if events[each.site].arrives]
        if event.kind is not Kind.COPY:
            return all(events[each.site].kind is Kind.OPERATION for each in mine)
        copies = [each for each in mine if events[each.site].kind is Kind.COPY]
        # What a tensor map says is some bytes: more than a phase expects that expects none, or those of other copies alone.
        written = sum(max(1, each.bytes) for each in (event, *(events[copy.site] for copy in copies)))
        expected = min((events[each.site].bytes for each in arrivals), default=-1)
        return site not in {each.site for each in copies} and written <= expected

    def _tracked(self, each: Issue, on: Location, thread: int) -> Issue:
        """An operation after a commit of a thread on an mbarrier."""
        event = self.ask.events[each.site]
        mine = event.kind is Kind.OPERATION and event.thread == thread and each.on is None
        return each._replace(on=on) if mine else each

    def waited(self, known: Known, edge: Edge, now: Numbers) -> Known:
        """What is known after an edge."""
        wait = self.ask.awaited.get(edge)
        if wait is None:
            return known
        on, parity = self.ask.on(wait, now, self.counters), self.ask.parity(wait, now, self.counters)
        if on is None or (on, parity) not in known.parities:
            return known
        events = self.ask.events
        mine = {each for each in known.underway if each.on == on and not each.stale}
        if not any(events[each.site].arrives for each in mine):
            self.broken.add(on)
        operations = (each for each in mine if self.ask.proxies and events[each.site].kind is Kind.OPERATION)
        stale = {each._replace(stale=True, taken=None) for each in operations}
        parities = {(each, p ^ 1 if each == on else p) for each, p in known.parities}
        return known._replace(underway=known.underway - mine | stale, parities=frozenset(parities))

    def fenced(self, known: Known, pending: Collection[tuple[int, Numbers]]) -> Known:
        """What is known after a proxy fence, where the copies *pending* may not be complete, each with the counters when it was
        issued."""
        return known._replace(
            underway=frozenset(each for each in known.underway if not each.stale),
            unfenced=known.unfenced.intersection(pending),
        )


def _limit(ways: Collection[tuple[Edge, ...]]) -> str:
    """The limit that the paths since an operation exceed, in words; "" if there is none."""
    if len(ways) > MAX_WAYS:
        return f"more than {MAX_WAYS} paths lead on from it"
    if max(map(len, ways)) > MAX_TAKEN:
        return f"a path from it takes more than {MAX_TAKEN} edges"
    return ""
