"""Accepts or refuses a certificate that the phases of mbarriers follow each other as their waits take for granted.

The threads of a CTA that are not parted by roles execute the same blocks together, which follows from the levels of registers
(:mod:`tclint.verdicts.uniform`), and so pass the same positions of one-thread events in the same order
(:func:`~tclint.verdicts.phases.positions`). The certificate states what a thread may have passed at the entry of each block: of
each mbarrier, which phase is next and what it has got, with the counters and the branches on which that depends. The checker
trusts neither it nor what made it. From the instructions and the edges of the graph alone, it verifies that nothing is missing
at an entry; so by induction each path is covered. At each operation on an mbarrier, it then verifies that

- **initialised**: a thread that names an mbarrier has passed its initialisation, which one thread certainly executes, and a full
  barrier after that; nothing names it after its end before it is initialised again;
- **one phase at a time**: a thread that arrives has passed a wait for the phase before, and then a full barrier. So no thread still
  tests that phase when the next one may be complete, and a parity never stands for a phase two later. The mbarrier has a count of
  1, so this arrival alone completes the phase, with the bytes that it expects;
- **its bytes**: a copy follows the arrival of its phase, which is not complete before the copy is, since the phase expects the
  bytes of all its copies;
- **the wait ends**: a thread that waits for the next phase has passed the positions of its arrival and of copies of as many bytes
  as it expects, all of which their threads certainly execute. A wait for the phase before, of which the thread knows that it is
  complete, ends at once, if no arrival for the next one may be underway;
- **the end**: an ``mbarrier.inval`` follows a full barrier after the last wait, and nothing is underway.

**Progress.** Assume that a thread waits indefinitely for an mbarrier. Of all such waits, take one whose position is first. The arrival
and the copies that it needs have earlier positions, between which and the instructions that issue them are branches only, so the
threads that issue them are not held up by an mbarrier. They are issued, and the asynchronous operations end. That collective
instructions, and loops that wait for something else, end is the class of deadlock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Function
from tclint.isa.effects import Resource
from tclint.values.nodes import Literal
from tclint.verdicts.checker import Graph, Refused
from tclint.verdicts.definitions import Uniformly
from tclint.verdicts.epochs import Between, Levels, check_barriers
from tclint.verdicts.path_facts import History
from tclint.verdicts.phases import Counters, Event, Kind, Location, Numbers, positions
from tclint.verdicts.uniform import Level, Uniform, check_levels

__all__ = [
    "MbarrierCertificate",
    "MbarrierQuestions",
    "MbarrierWalk",
    "Passed",
    "Phase",
    "Progress",
    "check_mbarriers",
    "first_passed",
    "repeats",
    "solvable",
]

Boxes = tuple[tuple[object, int], ...]
"""How many copies of each size that is not known, in an order."""
WRITTEN, LOST = 1 << 32, 1 << 33
"""What stands for the thread that has ended an mbarrier, if data have been written to its bytes: at once, or perhaps later."""


class Progress(NamedTuple):
    """What a thread knows of one mbarrier that has been initialised."""

    parity: int = 0
    """That of the first phase which it has not found to be complete."""
    met: bool = False
    """Whether all threads have met since the mbarrier was initialised, and since a thread has last waited for it."""
    arrival: int = -1
    """The arrival for that phase; -1 if there was none."""
    copies: tuple[tuple[int, Location | None], ...] = ()
    """The copies that the phase tracks, in order, each with where it writes, if that is known."""
    new: bool = True
    """Whether threads may not know that it is initialised."""
    ended: int = -1
    """The thread that has ended it, or how its bytes have been written since; -1 if it is in use."""


class Passed(NamedTuple):
    """What a thread has passed."""

    now: Numbers = ()
    """The counters."""
    history: History = History()
    progress: tuple[tuple[Location, Progress], ...] = ()
    """The mbarriers that have been initialised, in order."""

    def of(self, on: Location) -> Progress | None:
        """What is known of an mbarrier; None if it has not been initialised."""
        return dict(self.progress).get(on)

    def with_(self, on: Location, progress: Progress) -> Passed:
        """The same with other progress of one mbarrier."""
        return self._replace(progress=tuple(sorted({**dict(self.progress), on: progress}.items())))


class MbarrierQuestions(NamedTuple):
    """What the checker asks of the values of registers; each answer is a proof."""

    events: Mapping[int, Event]
    """The instructions that one thread executes, and that initialise and end mbarriers, arrive at them, or copy bytes."""
    own: frozenset[Location]
    """The mbarriers, no two of which overlap."""
    writes: Mapping[int, Collection[Location]]
    """The instructions that may write data to the bytes of some of them."""
    waits: frozenset[int]
    """The instructions that wait for a parity, or test it."""
    on: Callable[[int, Numbers, Counters], Location | None]
    """The mbarrier that an instruction names, where counters have these numbers; None if it is not known."""
    parity: Callable[[int, Numbers, Counters], int | None]
    """The parity that an instruction waits for; None if it is not known."""
    awaited: Mapping[Edge, int]
    """The edges that are taken only because a wait, the last one before, has acquired a complete phase."""
    condition: Callable[[int, tuple[Edge, ...]], Sequence[Literal] | None]
    """What all threads share and must hold for the one thread that may execute an event to do so, and suffices, where these edges
    lead to it; None if that is not known."""
    copies: Mapping[int, int]
    """Copy -> how many threads execute it, each of which issues one, if its condition holds."""
    place: Callable[[int, Numbers, Counters], Location | None]
    """Where a copy of one thread writes, where counters have these numbers; None if it is not known."""
    room: Callable[[Location], int | None]
    """The bytes from a place to the next mbarrier, or to the end of the variable; None if they are not known."""
    box: Callable[[int], object]
    """What copies of one size have in common, for those whose size a tensor map decides."""
    along: Callable[[History, Edge, Uniformly], History | None]
    """The history after an edge; None if no thread takes it."""
    begins: Callable[[History, Edge], bool]
    """Whether a loop that an edge enters does not begin past the number at which it ends."""
    choices: Callable[[History, Sequence[Literal], Uniformly], Iterator[tuple[bool, History]]]
    """Whether all of the predicates may hold, or one of them may not, with the histories."""
    admitting: Callable[[int, int, bool, Numbers, Counters], int]
    """The threads in which a register may have a value just before an instruction, by their index and the counters."""
    counted: Callable[[Edge, Numbers, Counters], Collection[Numbers] | None]
    """What the counters may be after an edge; None if one of them is not known."""
    defined: Callable[[int], tuple[int, int]]
    """The block of a counter, which is a phi, and the register that it is the value of."""
    everyone: int
    """All threads that a CTA may have, one bit for each."""


@dataclass(frozen=True)
class MbarrierCertificate:
    """The claims of a proof about the mbarriers of one function."""

    levels: Mapping[int, Level]
    barriers: frozenset[int]
    """The barriers at which all threads of the CTA meet."""
    counters: Counters
    entry: Sequence[Collection[Passed]]
    """What a thread may have passed at the entry of each block."""


class Phase(NamedTuple):
    """What a phase is known to get that a thread waits for."""

    expected: int
    """The bytes that its arrival expects, but for those of copies whose size is known."""
    boxes: Boxes


class MbarrierWalk:
    """What follows within each block from what a certificate says about its entry: call :meth:`through` for all entries."""

    def __init__(
        self,
        function: Function,
        graph: Graph,
        certificate: MbarrierCertificate,
        questions: MbarrierQuestions,
        levels: Levels,
    ) -> None:
        self.graph, self.certificate, self.ask, self.levels = graph, certificate, questions, levels
        self.instructions = function.instructions
        self.order = sorted(graph.reached((0,)))
        self.block_of = {i: b for b in self.order for i in graph.blocks[b]}
        self.sites = [i for i in sorted(self.block_of) if self.instructions[i].mbarrier is not None]
        """The reachable operations on mbarriers, each of which is an obligation."""
        self.at, self.last = positions(graph, questions.events, levels.in_step)
        self._ends = {site: b for b, sites in self.last.items() for site in sites}
        marked = {*self.sites, *certificate.barriers, *questions.writes}
        self._marked = {b: [i for i in graph.blocks[b] if i in marked] for b in self.order}
        self.failed: dict[int, str] = {}
        """Operation -> why its obligation is not discharged."""
        self.phases = set[Phase]()
        """What phases get that threads wait for."""
        self._edges = {site: self._chain(site) for site in questions.events}
        for site in self.sites:
            if site not in questions.events and site not in questions.waits:
                self.failed[site] = "it is not known which one thread executes it, or what it does to a phase"
            elif site in questions.events and site not in self.at and site not in self._ends:
                self.failed[site] = (
                    "it is not known when threads pass it, since not all execute what leads to it"
                )

    def _chain(self, site: int) -> tuple[Edge, ...] | None:
        """The edges that lead to an event from the block at whose end threads pass it; None if its thread may have to
        wait on the way."""
        if site not in self._ends:
            return ()
        found, block = list[Edge](), self.block_of[site]
        before = range(self.graph.blocks[block].start, site)
        while True:
            if any(self.instructions[i].effects.may_block for i in before):
                return None
            if block == self._ends[site]:
                return tuple(reversed(found))
            edges = [e for b in self.order for e in self.graph.successors[b] if e.target == block]
            if len(edges) != 1:
                return None
            found.append(edges[0])
            block = edges[0].source
            before = range(0) if block == self._ends[site] else self.graph.blocks[block]

    def through(self, b: int, entry: Iterable[Passed]) -> list[Passed]:
        """What a thread may have passed at the end of a block, if *entry* at its beginning; obligations that fail are noted."""
        states = list(entry)
        for i in self._marked[b]:
            if i in self.at:
                states = [after for each in states for after in self._issue(i, each)]
            elif i in self.ask.waits:
                if not repeats(self.graph, self.ask.awaited, b, i):
                    self._fail(i, "it may not be repeated until it succeeds")
                states = [each for each in states if self._ends_here(i, each)]
            if i in self.ask.writes:
                states = [self._overwritten(i, each) for each in states]
            if i in self.certificate.barriers and self.instructions[i].guard < 0:
                states = [self._met(each) for each in states]
        for i in self.last.get(b, ()):
            states = [after for each in states for after in self._issue(i, each)]
        return list(dict.fromkeys(states))

    @staticmethod
    def _met(passed: Passed) -> Passed:
        return passed._replace(
            progress=tuple((on, known._replace(met=True, new=False)) for on, known in passed.progress)
        )

    def leaving(self, b: int, states: Iterable[Passed]) -> Iterator[tuple[int, Passed]]:
        """For each edge out of a block, its target, and what a thread that takes it has passed there.

        Raises ``Refused`` if a counter is not known after it.
        """
        last, counters = self.graph.blocks[b][-1], self.certificate.counters
        for passed in states:
            for edge in self.graph.successors[b]:
                if edge.predicate >= 0 and not self.ask.everyone & self.ask.admitting(
                    edge.predicate, last, edge.value, passed.now, counters
                ):
                    continue
                history = self.ask.along(passed.history, edge, self.levels.uniform)
                if history is None:
                    continue
                if not self.ask.begins(history, edge):
                    self._fail(last, "a loop that ends at a number may begin past it")
                numbers = self.ask.counted(edge, passed.now, counters)
                if numbers is None:
                    raise Refused(last, "the number of a counter is not known after this branch")
                after = self._waited(passed, edge)
                for now in numbers:
                    yield edge.target, after._replace(now=now, history=history)

    def _overwritten(self, site: int, passed: Passed) -> Passed:
        """What a thread has passed after a write of data to bytes of mbarriers, none of which may be in use in another thread."""
        later = any(a.writes and a.shared and a.later for a in self.instructions[site].accesses)
        for on in self.ask.writes[site]:
            known = passed.of(on)
            if known is not None and not (known.ended >= 0 and known.met) and known.ended < WRITTEN:
                self._fail(site, "it may write to the bytes of an mbarrier that is in use")
            lost = later or (known is not None and known.ended == LOST)
            passed = passed.with_(on, Progress(ended=LOST if lost else WRITTEN))
        return passed

    # ------------------------------------------------------------ operations

    def _fail(self, site: int, why: str) -> None:
        self.failed.setdefault(site, why)

    def _named(self, site: int, passed: Passed) -> Location | None:
        """The mbarrier that an operation names, if it is one that is followed."""
        on = self.ask.on(site, passed.now, self.certificate.counters)
        if on is not None and on in self.ask.own:
            return on
        self._fail(site, "which mbarrier of the CTA it names is not known, or it may overlap another one")
        return None

    def _ready(self, site: int, passed: Passed) -> tuple[Location, Progress] | None:
        """The mbarrier that an operation names, and what is known of it, if all threads know that it is initialised."""
        on = self._named(site, passed)
        known = None if on is None else passed.of(on)
        if on is None:
            return None
        if known is None or known.ended >= 0:
            self._fail(site, "a path leads to it on which the mbarrier is not initialised, or has been ended")
            return None
        return on, known

    def _issue(self, site: int, passed: Passed) -> Iterator[Passed]:
        """What a thread may have passed after the position of an event."""
        edges = self._edges[site]
        condition = None if edges is None else self.ask.condition(site, edges)
        if condition is None:
            self._fail(site, "it is not known under which condition its thread executes it")
            return
        for executed, history in self.ask.choices(passed.history, condition, self.levels.uniform):
            state = passed._replace(history=history)
            if not executed:
                yield state
            elif (after := self._executed(site, state)) is not None:
                yield after

    def _executed(self, site: int, passed: Passed) -> Passed | None:
        """What a thread has passed after the position of an event that its thread executes; None if an obligation fails."""
        event = self.ask.events[site]
        if event.kind is Kind.BEGIN:
            return self._begun(site, passed)
        found = self._ready(site, passed)
        if found is None:
            return None
        on, known = found
        if event.kind is Kind.COPY:
            if known.arrival < 0 or any(site == copy for copy, _ in known.copies):
                self._fail(site, "a path leads to it on which no arrival expects its bytes")
                return None
            place = self.ask.place(site, passed.now, self.certificate.counters)
            copies = sorted((*known.copies, (site, place)), key=lambda copy: copy[0])
            return passed.with_(on, known._replace(copies=tuple(copies)))
        if known.arrival >= 0 or known.copies:
            self._fail(site, "a phase may be underway that not all threads have waited for")
        elif not known.met:
            self._fail(
                site, "no barrier of all threads separates it from the wait or the initialisation before"
            )
        elif event.kind is Kind.END:
            return passed.with_(on, Progress(ended=event.thread))
        else:
            return passed.with_(on, known._replace(arrival=site))
        return None

    def _begun(self, site: int, passed: Passed) -> Passed | None:
        """What a thread has passed after the initialisation of an mbarrier."""
        on = self._named(site, passed)
        known = None if on is None else passed.of(on)
        if known is not None and known.ended == LOST:
            self._fail(site, "data may still be written to its bytes")
        elif known is not None and not (known.met or known.ended == self.ask.events[site].thread):
            self._fail(site, "no barrier separates it from the end of the mbarrier")
        elif known is not None and known.ended < 0:
            self._fail(site, "the mbarrier may be initialised already")
        elif on is not None:
            return passed.with_(on, Progress())
        return None

    def _ends_here(self, site: int, passed: Passed) -> bool:
        """Whether a wait ends, if a thread has passed this; it is noted if not."""
        found = self._ready(site, passed)
        if found is None:
            return False
        _, known = found
        parity = self.ask.parity(site, passed.now, self.certificate.counters)
        if parity not in (0, 1):
            self._fail(site, "which parity it waits for is not known")
        elif known.new:
            self._fail(site, "no barrier of all threads separates it from the initialisation")
        elif parity != known.parity:
            if known.arrival < 0 and not known.copies:
                return True
            self._fail(site, "the phase may be underway that follows the one with its parity")
        elif known.arrival < 0:
            self._fail(site, "a path leads to it on which nothing arrives for the phase")
        elif (phase := self._phase(known)) is None:
            self._fail(site, "the phase may get other bytes than it expects")
        else:
            self.phases.add(phase)
            return True
        return False

    def _phase(self, known: Progress) -> Phase | None:
        """What the phase expects beyond the copies whose size is known, and the other copies; None if that cannot be."""
        events = self.ask.events
        threads, boxes = self.ask.copies, Counter[object]()
        left = events[known.arrival].bytes - sum(events[c].bytes * threads[c] for c, _ in known.copies)
        others = [(site, place) for site, place in known.copies if not events[site].bytes]
        for site, _ in others:
            boxes[self.ask.box(site)] += threads[site]
        if left < 0 or (left > 0) != bool(boxes) or not self._fits(left, [place for _, place in others]):
            return None
        return Phase(left, tuple(sorted(boxes.items(), key=repr)))

    def _fits(self, size: int, places: Sequence[Location | None]) -> bool:
        """Whether copies to these places may write so many bytes together, none of them twice, and none of what follows."""
        known = sorted(place for place in places if place is not None)
        if not known or len(known) < len(places):
            return True
        rooms = list[int | None]()
        for place, following in zip(known, (*known[1:], None), strict=True):
            near = following is not None and following[0] == place[0]
            rooms.append(following[1] - place[1] if following is not None and near else self.ask.room(place))
        return None in rooms or size <= sum(room for room in rooms if room is not None)

    def _waited(self, passed: Passed, edge: Edge) -> Passed:
        """What a thread has passed after an edge, if it is taken only because a wait has succeeded."""
        wait = self.ask.awaited.get(edge)
        if wait is None:
            return passed
        on = self.ask.on(wait, passed.now, self.certificate.counters)
        known = None if on is None else passed.of(on)
        if on is None or known is None or known.ended >= 0:
            return passed
        if self.ask.parity(wait, passed.now, self.certificate.counters) != known.parity:
            return passed.with_(on, known._replace(met=False))
        return passed.with_(on, Progress(known.parity ^ 1, new=False))

    # ------------------------------------------------------------ all of it

    def unsolved(self) -> str:
        """Why phases cannot all get the bytes that they expect, whatever tensor maps say; "" if they can."""
        return (
            "" if solvable(self.phases) else "no sizes of tensor copies make each phase get what it expects"
        )


def repeats(graph: Graph, awaited: Mapping[Edge, int], block: int, wait: int) -> bool:
    """Whether a thread for which a *wait* in a block does not succeed does nothing but wait again.

    *awaited* are the edges that are taken only because a wait has succeeded.
    """
    again = [edge for edge in graph.successors[block] if awaited.get(edge) != wait]
    if len(again) == len(graph.successors[block]):
        return False
    seen = set[int]()
    while len(again) == 1 and again[0].target not in seen:
        seen.add(again[0].target)
        if wait in graph.blocks[again[0].target]:
            return True
        again = list(graph.successors[again[0].target])
    return False


def first_passed() -> Passed:
    """What a thread has passed when it begins."""
    return Passed()


def solvable(phases: Iterable[Phase]) -> bool:
    """Whether sizes of the copies may exist, all above 0, so that each of *phases* gets what it expects.

    It is decided as far as equations say so: True is no proof that all sizes are positive.
    """
    rows = list[tuple[dict[object, Fraction], Fraction]]()
    for phase in sorted(set(phases), key=repr):
        row, right = {box: Fraction(n) for box, n in phase.boxes}, Fraction(phase.expected)
        for known, number in rows:
            first = next(iter(known))
            if factor := row.get(first, Fraction(0)):
                right -= factor * number
                row = _minus(row, known, factor)
        if not row:
            if right:
                return False
            continue
        first = next(iter(row))
        lead = row[first]
        row, right = {box: n / lead for box, n in row.items()}, right / lead
        rows = [
            (_minus(known, row, known[first]), number - known[first] * right)
            if first in known
            else (known, number)
            for known, number in rows
        ]
        rows.append((row, right))
    return all(number > 0 for row, number in rows if len(row) == 1)


def _minus(
    row: Mapping[object, Fraction], other: Mapping[object, Fraction], factor: Fraction
) -> dict[object, Fraction]:
    """A row of equations without *factor* times another one; the first term of *row* stays first if it is left."""
    found = dict(row)
    for box, number in other.items():
        found[box] = found.get(box, Fraction(0)) - factor * number
    return {box: number for box, number in found.items() if number}


def check_mbarriers(
    function: Function, of: Uniform, certificate: MbarrierCertificate, questions: MbarrierQuestions
) -> frozenset[int]:
    """The operations on mbarriers of *function*, if *certificate* proves all that they need.

    Raises :class:`~tclint.verdicts.checker.Refused` if it does not.
    """
    outer = check_levels(of, certificate.levels)
    check_barriers(of, certificate.barriers, certificate.levels, outer)
    levels = Levels(of, certificate.levels, outer, Between.THREADS)
    if any(of.instructions[site].effects.synchronises is None for site in certificate.barriers):
        raise Refused(
            min(certificate.barriers), "the certificate takes for a barrier what is none of the CTA"
        )
    for counter in certificate.counters:
        if not levels.uniform(*questions.defined(counter)):
            raise Refused(0, "the certificate takes a counter for uniform that is not")
    walk = MbarrierWalk(function, of.graph, certificate, questions, levels)
    if first_passed() not in certificate.entry[0]:
        raise Refused(0, "the certificate omits the entry")
    for b in walk.order:
        for target, passed in walk.leaving(b, walk.through(b, certificate.entry[b])):
            if passed not in certificate.entry[target]:
                raise Refused(of.graph.blocks[b][-1], "the certificate omits what a thread may have passed")
    if walk.failed:
        site = min(walk.failed)
        raise Refused(site, walk.failed[site])
    if why := walk.unsolved():
        raise Refused(min(walk.sites, default=0), why)
    for site in walk.sites:
        instruction = of.instructions[site]
        kind = questions.events[site].kind if site in questions.events else None
        if (instruction.effects.resource is Resource.MBARRIER_INIT) != (kind is Kind.BEGIN):
            raise Refused(site, "the certificate does not say what initialises an mbarrier")
    return frozenset(walk.sites)
