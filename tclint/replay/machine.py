"""Executes the instructions of a replay (PTX ISA 9.7.9.25, 9.7.13, 9.7.15, 9.7.16)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from typing import Any, NamedTuple

from tclint.analyses.mbarriers import RESPONSE, transferred
from tclint.ir.nodes import Instruction, Memory, Not, Operand, Pair, Vector
from tclint.isa.table import Match
from tclint.replay.abstract_lanes import Lanes, apply, collapse, spread
from tclint.replay.groups import (
    Group,
    Groups,
    Limits,
    ManyRounds,
    Stuck,
    Unmade,
    Unresolved,
    places_of,
    warps_of,
)
from tclint.replay.launch import Launch
from tclint.replay.program import FILLING, LEAVING, Program, Step
from tclint.replay.sync import Arrival, Barrier, Flight, Mbarrier, Passed
from tclint.replay.vector_clocks import (
    NOTHING,
    Actor,
    Clock,
    Heard,
    both,
    each,
    event,
    heard_of,
    joined,
    known_by,
    last,
    news,
    of,
    only,
    together,
)

__all__ = ["Access", "Machine", "Overrun", "Touch", "shuffled"]

_CTA = 1 << 24
"""How far the shared memory of one CTA of a cluster is from that of the next."""
_OFFSET = _CTA - 1
"""The part of a shared-memory address that is the same in all CTAs of a cluster."""
_COLUMN = (1 << 21) - 1
"""The part of an address of tensor memory that is the same in all warps: each has 32 lanes of its own (9.7.16.8.1)."""
_DESCRIPTOR = (1 << 14) - 1
"""The start address in a matrix descriptor, in units of 16 bytes (9.7.15.5.1.2.2, 9.7.16.4.1)."""
_ALL = 0xFFFF
"""The mask that names all CTAs of a cluster."""
_OWN = -1
"""No mask: the CTA that the address is in."""
_ASKING = ("mbarrier-wait", "elect", "shuffle", "vote")
"""Steps that change nothing for anybody else: who does nothing but these asks an mbarrier the same again."""
_SPLIT = "some lanes of a warp come to a barrier without the others"
_DATA = frozenset("compute constant unknown move load store read tensor write fill".split())
"""Steps that neither wait nor tell anything."""


class Overrun(Exception):
    """More arrivals than the phase of an mbarrier counts."""

    def __init__(self, at: Stuck) -> None:
        super().__init__("more arrivals than the mbarrier counts")
        self.at = at


class Touch(NamedTuple):
    """Threads that go the same way, and read or write shared memory."""

    threads: tuple[int, ...]
    address: Lanes
    """Where each of them does."""
    heard: Clock
    """What each warp has heard of all others, those beside it too."""


class Access(NamedTuple):
    """A read of shared or tensor memory, or what an asynchronous operation writes there."""

    site: int
    writes: bool
    memory: tuple[int, int]
    """What the offset is in: of a CTA its shared memory, or its tensor memory, the quarter of the lanes that some warps have."""
    offset: int
    """In bytes, or in columns of tensor memory."""
    size: int | None
    """In bytes, or in columns."""
    actor: Actor
    number: int
    """Which event of its actor it is."""
    clock: Clock
    """What the issuing threads had heard of."""
    group: Group
    waited: Mapping[int, int]
    """Where these last waited for each mbarrier, by address, the latest last."""
    mbarrier: Mbarrier | None = None
    """Where a copy reports."""
    phase: int = 0
    """The phase of that when it was issued."""
    box: object = None
    """Copies that have this in common bring equally many bytes: it is of one tensor map."""
    touch: Touch | None = None
    """Where threads read or write themselves."""

    @property
    def tensor(self) -> bool:
        """Whether it is of tensor memory."""
        return self.memory[1] >= 0

    @property
    def plain(self) -> bool:
        """Whether threads do it themselves, to shared memory."""
        return not self.actor.kind and not self.tensor

    @property
    def own(self) -> bool:
        """Whether it is of threads alone, of one warp each: what they do themselves, or a copy that each of them makes."""
        return self.actor.kind in ("", FILLING) and not self.tensor

    @property
    def stores(self) -> bool:
        """Whether it is a plain store."""
        return self.writes and self.plain

    def unheard(self, clock: Clock, low: int, high: int) -> Sequence[Actor]:
        """Whom who has heard of so much has not heard of, of those that do this from *low* on before *high*."""
        if heard_of(clock, self.actor, self.number):
            return ()
        parts = self.actor.each
        if self.actor.parts and self.touch is not None and isinstance(self.touch.address, tuple):
            there = {
                t >> 5
                for t, a in zip(self.touch.threads, self.touch.address, strict=True)
                if a is not None and low <= a & _OFFSET < high
            }
            parts = [p for p in parts if p.threads[0] >> 5 in there]
        return [p for p in parts if not heard_of(clock, p, self.number)]


class Machine(Groups):
    """A cluster of CTAs that execute one kernel."""

    def __init__(self, program: Program, launch: Launch, limits: Limits) -> None:
        super().__init__(program, launch, limits)
        self.accesses: list[Access] = []
        self._mbarriers: dict[int, Mbarrier] = {}
        self.passed: dict[tuple[int, int], int] = {}
        """How many phases of an mbarrier, by its address, a wait has seen complete."""
        self.informed: set[int] = set()
        """Waits for mbarriers at which threads heard of something."""
        self._barriers: dict[tuple[int, int], Barrier] = {}
        self._meeting = Barrier()
        self._memory: dict[int, int | None] = {}
        """Shared memory, byte by byte, as far as the kernel itself wrote numbers that are known."""
        self._lost: set[int] = set()
        """Loads that may read what was written to places that are not known."""
        self._engines: dict[Actor, int] = {}
        """How many operations the tensor cores were given, by whom."""
        self.copies: dict[Actor, int] = {}
        """How many copies report to each mbarrier."""
        self._elected: dict[tuple[tuple[int, ...], tuple[int, ...], int], tuple[Lanes, Lanes] | None] = {}
        """What elections gave, by the threads of the group, those of them that took part, and the mask."""
        self._issued_at: dict[tuple[int, int], Clock] = {}
        """What threads knew of when they issued a copy, and those before it, by the index of the actor and its number."""
        self._behind: dict[Clock, Clock] = {}
        """What comes before those who have heard of so much."""
        self._cancelled: dict[int, int] = {}
        """How often each CTA has asked for the cancellation of another."""
        self._columns: dict[int, int] = {}
        """Columns of tensor memory that are allocated, by CTA."""
        self._taken: dict[int, int] = {}
        """How many tickets were taken from a counter in memory, by the instruction."""
        self._torn: list[Stuck] | None = None
        """Who waited when nobody could go on but for a barrier at which lanes wait for others of their warp."""

    def run(self) -> list[Stuck]:
        try:
            stuck = super().run()
        except (Overrun, Unmade):
            if self._torn is None:
                raise
            stuck = []
        if self._torn is None:
            return stuck
        ever = [
            s for s in stuck if isinstance(s.what, Mbarrier) and any(s is before for before in self._torn)
        ]
        if not ever:
            raise Unresolved(self._torn[0].site, _SPLIT)
        return ever

    @property
    def late(self) -> list[tuple[Mbarrier, Passed]]:
        """Waits that would be for a phase later, had they been asked a little later."""
        if self._torn is not None:
            return []
        return [
            (mbarrier, passed)
            for mbarrier in self._mbarriers.values()
            for passed, heard in mbarrier.overtaken
            if passed.overtaken(partial(self.behind, heard))
        ]

    def behind(self, heard: Clock, actor: Actor, number: int) -> bool:
        """Whether who has *heard* of so much comes later than an event of *actor*.

        A copy tells nobody what its thread has done before, but it is complete only after that.
        """
        known = self._behind.get(heard)
        if known is None:
            known, work = heard, [*news(NOTHING, heard)]
            while work:
                before = self._issued_at.get(work.pop(), NOTHING)
                work += news(known, before)
                known = joined(known, before)
            self._behind[heard] = known
        return heard_of(known, actor, number)

    @property
    def used(self) -> frozenset[int]:
        """The addresses of mbarriers of which a phase has completed."""
        return frozenset(m.address for m in self._mbarriers.values() if m.phase)

    def _land(self) -> bool:
        """Copies come, and of the commits first those that somebody waits for: a later one may well come later."""
        waited = {id(g.stuck.what) for g in self.groups if g.stuck is not None}
        for others in (False, True):
            landed = False
            for mbarrier in self._mbarriers.values():
                for flight in mbarrier.land(others or id(mbarrier) in waited):
                    landed = True
                    self._overrun(flight.site, flight.threads, mbarrier)
            if landed:
                return True
        # Where the launch says what is expected, it may be nothing; and copies may have brought it before.
        waiting = [m for m in self._mbarriers.values() if m.guessed and not m.pending and not m.flights]
        for mbarrier in waiting:
            mbarrier.open = True
            mbarrier.settle()
        return bool(waiting)

    # ------------------------------------------------------------ steps

    def _execute(self, group: Group, step: Step) -> bool:
        instruction = step.instruction
        where: Lanes = 1
        if instruction.guard >= 0:
            where = self._guard(group, instruction)
            if where == 0:
                return True
        handler = _handler(step.what)
        if step.what in _DATA:
            handler(self, group, step, where)
            return True
        if where is None or (isinstance(where, tuple) and None in where):
            raise Unresolved(step.site, "whether it is executed depends on what is not known")
        places: Sequence[int] = range(len(group.threads))
        if where != 1:
            places = [i for i, w in enumerate(spread(where, len(group.threads))) if w]
        if step.what not in _ASKING:
            group.asked = ()
        return handler(self, group, step, places, where) is not False

    def _guard(self, group: Group, instruction: Instruction) -> Lanes:
        """Which threads execute an instruction that has a guard."""
        return self._operand(group, Not(instruction.guard) if instruction.negated else instruction.guard)

    # ------------------------------------------------------------ data

    def _unknown(self, group: Group, step: Step, where: Lanes) -> None:
        for register in step.instruction.writes:
            self._set(group, register, None)

    def _constant(self, group: Group, step: Step, where: Lanes) -> None:
        assert step.compute is not None
        for register in step.instruction.writes:
            self._set(group, register, step.compute(), where)

    def _compute(self, group: Group, step: Step, where: Lanes) -> None:
        destination, sources, results = self.program.plan(step)
        held = [self._operand(group, o) for o in sources]
        found = results[held[0] if len(held) == 1 else tuple(held)]
        if isinstance(destination, int):
            self._set(group, destination, found, where)
        elif isinstance(destination, Vector):
            match = step.instruction.match
            assert match is not None
            width = _bits(match) // len(destination.items)
            for i, item in enumerate(destination.items):
                if isinstance(item, int):
                    self._set(group, item, _part(found, i, width), where)
        elif isinstance(destination, Pair):
            if isinstance(destination.second, int):
                self._set(group, destination.second, None, where)
            if isinstance(destination.first, int):
                self._set(group, destination.first, found, where)

    def _load(self, group: Group, step: Step, where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        operand = next(o for o in instruction.operands if isinstance(o, Memory))
        own = match.space.startswith(".shared")
        address = self._operand(group, operand) if own and step.site not in self._lost else None
        size = _bits(match) // 8
        for i, item in enumerate(_items(instruction.operands[0])):
            value: Lanes = None
            if own:
                at = [address] if isinstance(address, int | None) else address
                value = collapse([None if a is None else self._get(a + i * size, size) for a in at])
                if value is None and size == RESPONSE and None not in at:
                    value = 0  # what has not come yet
            elif self.launch.gives(match.space, operand) and match.element[1] != "f":
                base, offset = self.program.word(step)
                value = self.launch.data(base, offset + i * size, size)
                if step.site in self.program.tickets and _alone(where, len(group.threads)):
                    taken = self._taken.get(step.site, 0)
                    self._taken[step.site] = taken + 1
                    value = self.launch.ticket(taken, value, size)
            if isinstance(item, int):
                self._set(group, item, value, where)
        if own:
            if _strong(instruction):
                group.clock = both(group.clock, self._done())
            self._touch(group, step, where)

    def _done(self) -> Clock:
        """All that threads have done so far: a flag that one of them sets may tell others of it."""
        return (self.time + 1) * sum(self._lanes.values())

    def _store(self, group: Group, step: Step, where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        operand = next(o for o in instruction.operands if isinstance(o, Memory))
        self._touch(group, step, where)
        threads = len(group.threads)
        address, executing = spread(self._operand(group, operand), threads), spread(where, threads)
        if any(a is None and w != 0 for a, w in zip(address, executing, strict=True)):
            self._lost |= self.program.overwritten[step.site]
        size = _bits(match) // 8
        for i, item in enumerate(_items(instruction.operands[-1])):
            value = self._operand(group, item)
            stored: dict[int, int | None] = {}
            for w, a, v in zip(executing, address, spread(value, threads), strict=True):
                if w != 0 and a is not None:  # which of different ones stays is not known
                    number = v if w else None
                    stored[a] = number if stored.get(a, number) == number else None
            for a, number in stored.items():
                self._put(a + i * size, number, size)

    def _get(self, address: int, size: int) -> int | None:
        found = [self._memory.get(address + k) for k in range(size)]
        return None if None in found else sum(b << 8 * k for k, b in enumerate(found) if b is not None)

    def _put(self, address: int, number: int | None, size: int) -> None:
        for k in range(size):
            self._memory[address + k] = None if number is None else number >> 8 * k & 255

    def _forget(self, address: int, size: int | None) -> None:
        """Nobody knows what is in so many bytes. Where it is not known how many, as of tensors, all that was stored one behind the other."""
        end = address + (_CTA if size is None else size)
        while address < end and (size is not None or address in self._memory):
            self._memory[address] = None
            address += 1

    def _touch(self, group: Group, step: Step, where: Lanes) -> None:
        """A plain access to shared memory."""
        writes = step.what in ("store", "write")
        operand = next((o for o in step.instruction.operands if isinstance(o, Memory)), None)
        address = self._operand(group, operand)
        for clock, places, own in self._alike(group, step, address, where):
            actor, known = self._doing(group, group.warps_at(places), clock)
            touch = Touch(_at(group, places), own, clock)
            for a in _outermost(own, 1):
                self._access(group, step.site, divmod(a, _CTA), actor, self.time, known, writes, touch=touch)

    def _doing(self, group: Group, warps: Sequence[int], heard: Clock) -> tuple[Actor, Clock]:
        """The threads of some *warps* that do something themselves, and what they have *heard* and done by then."""
        actor = self._some(group, warps)
        return actor, joined(joined(heard, self._own(group, warps)), event(actor, self.time))

    def _alike(
        self, group: Group, step: Step, address: Lanes, where: Lanes
    ) -> Iterator[tuple[Clock, Sequence[int], Lanes]]:
        """The places of the threads that access an *address*, together those that have heard of the same, and their own addresses."""
        if address is None or where is None:
            return
        for clock, places in self._by_clock(group, step, address, where).items():
            if isinstance(address, tuple) and len(places) < len(address):
                yield clock, places, tuple(map(address.__getitem__, places))
            else:
                yield clock, places, address

    def _by_clock(
        self, group: Group, step: Step, address: int | tuple[int | None, ...], where: Lanes
    ) -> Mapping[Clock, Sequence[int]]:
        """The places of the threads that access an *address*, by what they have heard of.

        Where launch or memory has a part in it, numbers of another launch may lead all but the first elsewhere.
        """
        size, heard = len(group.threads), group.clock
        steady = isinstance(address, int) or self.program.steady(step.site)
        found: dict[Clock, list[int]] = {}
        if where == 1 and steady:
            if isinstance(heard, int):
                return {heard: range(size)}
            if None not in spread(address, size):
                for clock, places in zip(heard, places_of(group.threads), strict=True):
                    found.setdefault(clock, []).extend(places)
                return found
        clocks = dict(zip(group.warps, repeat(heard) if isinstance(heard, int) else heard, strict=False))
        rows = zip(group.threads, spread(address, size), spread(where, size), strict=True)
        for place, (thread, a, executes) in enumerate(rows):
            if executes and a is not None:
                found.setdefault(clocks[thread >> 5], []).append(place)
                if not steady:
                    break
        return found

    _read = _write = _touch

    def _fill(self, group: Group, step: Step, where: Lanes) -> None:
        """A copy of each thread into shared memory, under way until the thread waits for it, or an mbarrier that tracks it tells."""
        address, size = self._role(group, step, "destination"), self._role(group, step, "bytes")
        known = size if isinstance(size, int) else None
        for _, places, own in self._alike(group, step, address, where):
            actor, number, clock = self._issues(FILLING, group, places)
            for a in _outermost(own, 1):
                place = divmod(a, _CTA)
                self._access(group, step.site, place, actor, number, clock, True, known, box=step.site)

    def _tensor(self, group: Group, step: Step, where: Lanes) -> None:
        """A load of tensor memory, or a store: each warp has its lanes (9.7.16.8.1)."""
        instruction, followed = step.instruction, self.program.followed
        for register in instruction.writes:
            if register in followed:
                self._set(group, register, None)
        address = self._role(group, step, "taddr")
        writes = instruction.group == "tcgen05.st"
        if address is None or (writes and where != 1):
            return
        # Whole warps load and store.
        columns = address[::32] if isinstance(address, tuple) else repeat(address)
        clocks = repeat(group.clock) if isinstance(group.clock, int) else group.clock
        found: dict[tuple[int, int, Clock], list[int]] = {}
        for warp, column, clock in zip(group.warps, columns, clocks, strict=False):
            if column is not None:
                found.setdefault((warp % self.program.warps, column & _COLUMN, clock), []).append(warp)
        for (lanes, column, clock), warps in found.items():
            actor, known = self._doing(group, warps, clock)
            place = [(group.cta, lanes)]
            self._access_tensor(group, step, "taddr", column, place, actor, self.time, known, writes)

    def _access_tensor(
        self,
        group: Group,
        step: Step,
        role: str,
        address: int,
        places: Iterable[tuple[int, int]],
        actor: Actor,
        number: int,
        clock: Clock,
        writes: bool,
    ) -> None:
        """Takes down what *actor* does at an *address* of tensor memory: in which CTAs, and in the lanes of which warps."""
        size = self.program.columns.get((step.site, role))
        for cta, lanes in places if size is not None else ():
            place = cta, address & _COLUMN
            self._access(
                group, step.site, place, actor, number, clock, writes, size, box=step.site, lanes=lanes
            )

    def _access(
        self,
        group: Group,
        site: int,
        place: tuple[int, int],
        actor: Actor,
        number: int,
        clock: Clock,
        writes: bool = False,
        size: int | None = None,
        mbarrier: Mbarrier | None = None,
        box: object = None,
        lanes: int = -1,
        touch: Touch | None = None,
    ) -> None:
        """Takes down that *actor* reads or writes at a *place*: a CTA, and how far into its memory."""
        cta, offset = place
        if cta in self.alive and self._torn is None:
            phase = mbarrier.phase if mbarrier is not None else 0
            made = site, writes, (cta, lanes), offset, size, actor, number
            self.accesses.append(Access(*made, clock, group, group.waited, mbarrier, phase, box, touch))

    # ------------------------------------------------------------ lanes

    def _on_elect(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> bool:
        """The lowest lane of the mask, in each warp (9.7.13.14)."""
        destination = step.instruction.operands[0]
        mask = self._operand(group, step.instruction.operands[1])
        if not isinstance(mask, int):
            raise Unresolved(step.site, "the mask is not known")
        key = group.threads, _at(group, places), mask
        if key not in self._elected:
            self._elected[key] = _elected(*key, self.launch.shape.threads)
        elected = self._elected[key]
        if elected is None:
            return self._without(group, step, mask)
        if isinstance(destination, Pair):
            for register, value in zip(destination, elected, strict=True):
                if isinstance(register, int):
                    self._set(group, register, value, where)
        return True

    def _without(self, group: Group, step: Step, mask: int) -> bool:
        """Some lanes of *mask* are elsewhere, and the others wait for them (9.7.13.14)."""
        warps = {thread >> 5 for thread in group.threads}
        away = {w * 32 + lane for w in warps for lane in range(32) if mask >> lane & 1}.difference(
            group.threads
        )

        def come() -> bool:
            others = [g for g in self.living() if g.cta == group.cta and not away.isdisjoint(g.threads)]
            alive = away.issubset(t for g in others for t in g.threads)
            if not alive or any(g.stuck is not None and g.stuck.site == step.site for g in others):
                raise Unresolved(step.site, "some lanes of the mask are elsewhere")
            return False

        group.stuck = Stuck(step.site, group.threads, Barrier())
        group.waits = come
        return come()

    def _on_shuffle(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        source, *lanes = (self._operand(group, o) for o in instruction.operands[1:4])
        destination = instruction.operands[0]
        value: Lanes = source if isinstance(source, int) else None
        inside: Lanes = None
        if where == 1 and None not in lanes and (isinstance(source, tuple) or isinstance(destination, Pair)):
            key = match.modifiers, group.threads, *lanes
            if key not in self.program.shuffles:
                self.program.shuffles[key] = _exchanged(match, group.threads, lanes)
            inside, froms = self.program.shuffles[key]
            if isinstance(source, tuple):
                value = collapse([None if p is None else source[p] for p in froms])
        if isinstance(destination, Pair):
            if isinstance(destination.second, int):
                self._set(group, destination.second, inside, where)
            destination = destination.first
        if isinstance(destination, int):
            self._set(group, destination, value, where)

    def _on_vote(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        source = self._operand(group, instruction.operands[1])
        value: Lanes = None
        if source is not None:
            warps: dict[int, dict[int, int | None]] = {}
            for t, p in zip(group.threads, spread(source, len(group.threads)), strict=True):
                warps.setdefault(t >> 5, {})[t & 31] = p
            answers = {warp: _voted(match, lanes) for warp, lanes in warps.items()}
            value = collapse([answers[t >> 5] for t in group.threads])
        for register in instruction.writes:
            self._set(group, register, value, where)

    # ------------------------------------------------------------ mbarriers

    def _mbarrier(self, step: Step, address: int) -> Mbarrier:
        found = self._mbarriers.get(address)
        if found is None:
            made = {m.address & _OFFSET: m.site for m in self._mbarriers.values()}
            raise Unmade(step.site, "there is no mbarrier at this address", address & _OFFSET, made)
        return found

    def _each(
        self, step: Step, places: Sequence[int], *values: Lanes
    ) -> Mapping[tuple[int, ...], Sequence[int]]:
        """The different operands, and the places of the threads that have them."""
        if None in values:
            raise Unresolved(step.site, "an operand is not known")
        if tuple not in map(type, values):
            return {tuple(values): places}  # type: ignore[arg-type]
        columns = [map(v.__getitem__, places) if isinstance(v, tuple) else repeat(v) for v in values]
        found: dict[Any, list[int]] = {}
        for place, row in zip(places, zip(*columns, strict=False), strict=False):
            found.setdefault(row, []).append(place)
        if any(None in row for row in found):
            raise Unresolved(step.site, "an operand is not known")
        return found

    def _on_mbarrier_init(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        address, count = self._role(group, step, "mbarrier"), self._role(group, step, "count")
        many = self.program.many(step.site)
        for at, number in self._each(step, places, address, count):
            if many and at in self._mbarriers and self._mbarriers[at].site != step.site:
                if not many.issubset(self.limits.settled):
                    raise ManyRounds(many)
                raise Unmade(step.site, "the launch has more mbarriers than there is room for")
            self._mbarriers[at] = Mbarrier(step.site, at, number & 0xFFFFF, number & 0xFFFFF)

    def _on_mbarrier_arrive(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        instruction = step.instruction
        address = self._role(group, step, "mbarrier")
        count, tx, given = self._role(group, step, "count", 1), *self._tx(group, step)
        relaxed = _relaxed(instruction)
        if not relaxed:
            self._publish(group)
        tracks = instruction.group == FILLING
        if tracks:
            # It arrives when copies are done; without .noinc the phase waits for that beside all others (9.7.13.15.15).
            count = int(".noinc" in instruction.opcode)
        phases = set()
        for (at, number, bytes_), who in self._each(step, places, address, count, tx).items():
            mbarrier, threads = self._mbarrier(step, at), len(who)
            phases.add(mbarrier.phase)
            mbarrier.expect(None if given else bytes_ * threads)
            if "drop" in instruction.opcode:
                mbarrier.count -= number * threads  # first: the next phase takes fewer (9.7.13.15.14)
            clock = together(group.only(group.fenced, who)) if relaxed else self._say(group, who)
            clock = joined(clock, self._issued(FILLING, group, who)) if tracks else clock
            mbarrier.arrive(number * threads, clock)
            self._overrun(step.site, group.threads, mbarrier)
        state = instruction.role("state")
        if isinstance(state, int):
            self._set(group, state, phases.pop() if len(phases) == 1 else None, where)

    def _overrun(self, site: int, threads: tuple[int, ...], mbarrier: Mbarrier) -> None:
        if mbarrier.pending < 0:
            raise Overrun(Stuck(site, threads, mbarrier))

    def _on_mbarrier_expect(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        address, (tx, given) = self._role(group, step, "mbarrier"), self._tx(group, step)
        for (at, bytes_), who in self._each(step, places, address, tx).items():
            self._mbarrier(step, at).expect(None if given else bytes_ * len(who))

    def _tx(self, group: Group, step: Step) -> tuple[Lanes, bool]:
        """How many bytes an instruction is about, or 0 and that the launch says how many."""
        given = self.program.given(step.site, "tx")
        return 0 if given else self._role(group, step, "tx", 0), given

    def _on_mbarrier_complete(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        address, (tx, given) = self._role(group, step, "mbarrier"), self._tx(group, step)
        for (at, bytes_), who in self._each(step, places, address, tx).items():
            mbarrier = self._mbarrier(step, at)
            mbarrier.bytes -= bytes_ * len(who)
            mbarrier.open |= given
            mbarrier.settle()

    def _on_mbarrier_wait(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> bool:
        address = self._role(group, step, "mbarrier")
        token = step.instruction.role("state") is not None
        phase = self._role(group, step, "state" if token else "parity")
        rows = self._each(step, places, address, phase)
        asked = sorted(rows)

        def complete(row: tuple[int, ...]) -> bool:
            mbarrier = self._mbarrier(step, row[0])
            return mbarrier.phase > row[1] if token else mbarrier.complete(row[1] & 1)

        told = tuple(map(complete, asked))
        answers, question = dict(zip(asked, told, strict=True)), (step.site, *asked, *told)
        if not all(told) and group.asked == question:
            # Nothing was done since the same was asked: what comes is the same again until a phase is complete.
            at = asked[told.index(False)][0]
            group.stuck = Stuck(step.site, group.threads, self._mbarrier(step, at))
            group.waits = lambda: tuple(map(complete, asked)) != told
            return False
        group.asked = () if all(told) else question
        for (at, which), answer in answers.items():
            if answer:
                mbarrier = self._mbarrier(step, at)
                if token:
                    news: Heard = mbarrier.told[which + 1]
                else:
                    news = self._news(group, mbarrier, which & 1)
                self._hear(group, mbarrier, step, group.only(news, rows[at, which]))
                self.passed[step.site, at] = mbarrier.phase
                if not token and self.launch.shape.ranks == 1:
                    actor = self._some(group, group.warps_at(rows[at, which]))
                    mbarrier.passed[actor] = Passed(
                        step.site, actor, group.threads, self.time, mbarrier.phase
                    )
        destination = step.instruction.role("destination")
        if isinstance(destination, int):
            self._set(group, destination, self._answered(group, address, phase, answers), where)
        return True

    def _news(self, group: Group, mbarrier: Mbarrier, parity: int) -> Heard:
        """What a wait tells each warp."""
        heard = both(group.clock, group.rumours)
        if isinstance(heard, int) and known_by(mbarrier.told[mbarrier.phase], heard):
            return mbarrier.hears(parity, heard)  # whatever each has done
        return each(partial(mbarrier.hears, parity), both(self._known(group), group.rumours))

    def _answered(
        self, group: Group, address: Lanes, phase: Lanes, answers: Mapping[tuple[int, ...], bool]
    ) -> Lanes:
        """Whether the phase that each thread asks about is complete."""
        if len(different := set(answers.values())) == 1:
            return int(different.pop())
        size = len(group.threads)
        rows = zip(spread(address, size), spread(phase, size), strict=True)
        return collapse([int(answers.get(row, False)) for row in rows])  # type: ignore[arg-type]

    def _hear(self, group: Group, mbarrier: Mbarrier, step: Step, told: Heard) -> None:
        """A relaxed wait orders nothing without a fence (9.7.13.15.16), but operations of a tensor core, as MB013 has it."""
        if _relaxed(step.instruction):
            group.rumours = both(group.rumours, told)
            told = each(partial(of, self._engines), told)
        heard = both(group.clock, told)
        if heard != group.clock:
            self.informed.add(step.site)
            group.clock = heard
        before = {at: site for at, site in group.waited.items() if at != mbarrier.address}
        group.waited = {**before, mbarrier.address: step.site}

    # ------------------------------------------------------------ barriers

    def _on_memory_fence(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        self._fence(group)

    def _on_barrier_sync(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> bool:
        return self._meet(group, step, places, wait=True)

    def _on_barrier_arrive(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> bool:
        if step.instruction.group == "cluster":
            group.cluster = self._meeting.generation
            self._fence(group)
            self._meeting.come(len(places), self._say(group, places))
            self._meeting.settle(sum(self.alive.values()))
            return True
        return self._meet(group, step, places, wait=False)

    def _on_barrier_wait(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> bool:
        meeting, since = self._meeting, group.cluster

        def opened() -> bool:
            if meeting.generation == since:
                meeting.settle(sum(self.alive.values()))
            return meeting.generation > since

        if not opened():
            group.stuck = Stuck(step.site, group.threads, meeting)
            group.waits = opened
            return False
        group.clock = both(group.clock, group.only(meeting.told, places))
        return True

    def _meet(self, group: Group, step: Step, places: Sequence[int], wait: bool) -> bool:
        """A barrier of the CTA."""
        number = self._role(group, step, "id")
        if isinstance(number, tuple) and None not in number:
            self.split(group, number)
            return False
        if not isinstance(number, int):
            raise Unresolved(step.site, "the number of the barrier is not known")
        count = self._role(group, step, "count", 0)
        if count is None or isinstance(count, tuple):
            raise Unresolved(step.site, "the threads of the barrier are not known")
        threads = _at(group, places)
        full = _full(threads)
        away = set[int]() if full else self._away(group.cta, threads)
        if away and len(places) < len(group.threads):
            raise Unresolved(step.site, _SPLIT)
        warp = threads[0] >> 5
        if away and threads[-1] >> 5 != warp:
            self.split(group, tuple(t >> 5 if t >> 5 in away else -1 for t in threads))
            return False
        barrier = self._barriers.setdefault((group.cta, number), Barrier(number))
        arrival = barrier.lanes.setdefault(warp, Arrival()) if away else Arrival()
        self._fence(group)
        arrival.add(threads, self._say(group, places))

        def come(whole: bool = False) -> bool:
            """Whether the warps have arrived: each lane waits for those of its warp that have not ended (9.7.13.1)."""
            if arrival.generation < 0 and (
                whole or (arrival.changed(self.alive[group.cta]) and not self._away(group.cta, arrival.lanes))
            ):
                barrier.lanes.pop(warp, None)
                arrival.at(barrier, warps=count > 0 and not full)
            return arrival.generation >= 0

        def opened() -> bool:
            barrier.wanted = count or self.alive[group.cta]
            if come() and barrier.generation == arrival.generation:
                barrier.settle(barrier.wanted)
            return barrier.generation > arrival.generation >= 0 if wait else come()

        def passed() -> bool:
            if not opened():
                return False
            if wait:
                group.clock = both(group.clock, group.only(barrier.told, places))
            group.at += 1
            return True

        come(whole=not away)
        if opened():
            if wait:
                group.clock = both(group.clock, group.only(barrier.told, places))
            return True
        group.stuck = Stuck(step.site, group.threads, barrier)
        group.waits = passed
        return False

    def _part(self) -> bool:
        return super()._part() or self._tear()

    def _tear(self) -> bool:
        """Some lanes of a warp are at a barrier that needs no more than the warp, of which the others wait elsewhere for ever.

        By the manual they do so as well (9.7.13.1). But only who waits on when the barrier is taken to open is told of.
        """
        stuck = [g.stuck for g in self.groups if g.stuck is not None]
        for barrier in (s.what for s in stuck):
            if isinstance(barrier, Barrier) and barrier.lanes and barrier.lacking <= 32 * len(barrier.lanes):
                self._torn = self._torn or stuck
                for arrival in barrier.lanes.values():
                    arrival.at(barrier, warps=True)
                barrier.lanes.clear()
                return True
        return False

    def _away(self, cta: int, threads: Collection[int]) -> set[int]:
        """The warps of some *threads* of which other lanes are elsewhere, and have not ended."""
        here = set(threads)
        warps = {t >> 5 for t in here}
        others = (t for g in self.living() if g.cta == cta for t in g.threads if t >> 5 in warps)
        return {t >> 5 for t in others if t not in here}

    # ------------------------------------------------------------ asynchronous operations

    def _on_issue(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        kind = step.instruction.group
        if kind == "mbarrier":
            self._copy(group, step, places)
        elif kind == LEAVING:
            self._copy_out(group, step, places, where)
        else:
            self._publish(group)
            for who in _warpgroups(group, places) if kind == "wgmma" else (places,):
                self._compute_matrices(group, step, who)

    def _issues(self, kind: str, group: Group, places: Sequence[int]) -> tuple[Actor, int, Clock]:
        """Who works for the threads at *places*, the how many-th operation of these that is, and what they knew."""
        actor = self.actor(kind, group.cta, _at(group, places))
        self._engines[actor] = number = self._engines.get(actor, 0) + 1
        return actor, number, self._say(group, places)

    def _compute_matrices(self, group: Group, step: Step, places: Sequence[int]) -> None:
        kind = step.instruction.group
        actor, number, clock = self._issues(kind, group, places)
        for start in self._starts(group, step):
            self._access(group, step.site, (group.cta, start), actor, number, clock)
        if kind == "tcgen05":
            self._multiply(group, step, actor, number, clock)
        else:
            # It is of all four warps together, and complete only when each has issued it.
            before = self._issued_at.get((actor.index, number - 1), NOTHING)
            self._issued_at[actor.index, number] = joined(before, clock)

    def _multiply(self, group: Group, step: Step, actor: Actor, number: int, clock: Clock) -> None:
        """The matrices in tensor memory: A is read, and D is written, and read where it is added to (9.7.16.10.7)."""
        ctas = (group.cta, group.cta ^ 1) if ".cta_group::2" in step.instruction.opcode else (group.cta,)
        places = [(cta, lanes) for cta in ctas for lanes in range(self.program.warps)]
        adds = self.program.warps > 1 and self._role(group, step, "enable") == 1
        for role, writes in (("a", False), *((("d", False),) if adds else ()), ("d", True)):
            operand = step.instruction.role(role)
            address = self._operand(group, operand) if isinstance(operand, Memory) else None
            if isinstance(address, int):
                self._access_tensor(group, step, role, address, places, actor, number, clock, writes)

    def _starts(self, group: Group, step: Step) -> Iterable[int]:
        """Where the matrices in shared memory begin."""
        match = step.instruction.match
        assert match is not None
        for name in match.form.async_reads:
            operand = step.instruction.named(name.lstrip("*")) if name.endswith("desc") else None
            value = self._operand(group, operand) if operand is not None else None
            if isinstance(value, int):
                yield (value & _DESCRIPTOR) * 16

    def _copy(self, group: Group, step: Step, places: Sequence[int], response: int | None = None) -> None:
        """A copy into shared memory, of one CTA or of several, that reports to the mbarrier at the same offset there.

        Whichever CTA the address of the mbarrier names: an H200 does not look at that. With ``.cta_group::2``, it reports
        to the CTA of each pair that has the parity of the mbarrier's (9.7.9.27.1.2).
        """
        address, destination = self._role(group, step, "mbarrier"), self._role(group, step, "destination")
        size, ctas = self._size(group, step), self._role(group, step, "mask", _ALL)
        tensor_map = self._role(group, step, "tensormap")
        box = step.site if tensor_map is None else (step.instruction.opcode, tensor_map)
        several, pairs = (word in step.instruction.opcode for word in (".multicast", ".cta_group::2"))
        operands = address, _known(destination), _known(size), ctas
        self._publish(group)
        said: dict[tuple[int, ...], Clock] = {}
        for (at, to, many, mask), who in self._each(step, places, *operands).items():
            bytes_ = many if many >= 0 else None
            warps = group.warps_at(who)
            if warps not in said:
                said[warps] = self._say(group, who)
            known = said[warps]
            home = at if pairs or to < 0 else to
            for rank in self._ranks(step, mask) if several else (home >> 24,):
                reports = rank & ~1 | at >> 24 & 1 if several and pairs else rank
                mbarrier = self._mbarrier(step, at & _OFFSET | reports << 24)
                actor = self.actor("copy", reports, mbarrier=mbarrier.address)
                for _ in who:
                    self.copies[actor] = number = self.copies.get(actor, 0) + 1
                    before = self._issued_at.get((actor.index, number - 1), NOTHING)
                    self._issued_at[actor.index, number] = joined(before, known)
                    mbarrier.flights.append(Flight(event(actor, number), bytes_))
                if to < 0:
                    self._lost |= self.program.overwritten.get(step.site, set())
                else:
                    place = rank if several else to >> 24, to & _OFFSET
                    if step.site in self.program.overwritten:
                        self._forget(place[0] * _CTA + place[1], bytes_)
                    self._access(group, step.site, place, actor, number, known, True, bytes_, mbarrier, box)
                    if response is not None:
                        self._put(place[0] * _CTA + place[1], response, RESPONSE)

    def _copy_out(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        """A bulk copy of shared memory, which is read until the group that it is committed to is waited for."""
        size = self._size(group, step)
        self._publish(group)
        actor, number, clock = self._issues(LEAVING, group, places)
        for a in _outermost(self._role(group, step, "source"), where):
            known = size if isinstance(size, int) else None
            self._access(group, step.site, divmod(a, _CTA), actor, number, clock, size=known)

    def _size(self, group: Group, step: Step) -> Lanes:
        """The bytes of a copy, as far as it says."""
        match = step.instruction.match
        assert match is not None
        if "bytes" not in match.form.roles:
            return transferred(match)
        return None if self.program.given(step.site, "bytes") else self._role(group, step, "bytes")

    def _ranks(self, step: Step, mask: int) -> list[int]:
        """The CTAs of the cluster that a mask names."""
        if mask != _ALL and mask >> self.launch.shape.ranks:
            raise Unmade(step.site, "it is about a CTA that the cluster does not have")
        return [rank for rank in range(self.launch.shape.ranks) if mask >> rank & 1]

    def _on_clc_request(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        """Some CTAs are cancelled, and then there are none left (9.7.13.17)."""
        self._cancelled[group.cta] = number = self._cancelled.get(group.cta, 0) + 1
        self._copy(group, step, places, number if number <= self.launch.numbers.cancelled else 0)

    def _on_clc_query(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        match = step.instruction.match
        assert match is not None
        response = self._role(group, step, "source") if self.program.answered else 0
        if response is None:
            raise Unresolved(step.site, "the response is not known")
        first = apply(lambda number: number * self.launch.shape.cluster[0], [response])
        found: dict[str, Sequence[Lanes]] = {
            ".is_canceled": [apply(lambda number: int(number > 0), [response])],
            ".get_first_ctaid": [first, 0, 0, None],
            ".get_first_ctaid::x": [first],
        }
        values = next((v for name, v in found.items() if name in match.modifiers), [0])
        for item, value in zip(_items(step.instruction.operands[0]), values, strict=True):
            if isinstance(item, int):
                self._set(group, item, value, where)

    def _on_commit(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        kind = step.instruction.group
        issued = self._issued(kind, group, places)
        if kind != "tcgen05":
            group.committed = {**group.committed, kind: (*group.committed.get(kind, ()), issued)}
        else:
            self._publish(group)
            clock = joined(self._say(group, places), issued)
            address, ctas = self._role(group, step, "mbarrier"), self._role(group, step, "mask", _OWN)
            for (at, mask), who in self._each(step, places, address, ctas).items():
                threads = len(who)
                for rank in self._ranks(step, mask) if mask >= 0 else (at >> 24,):
                    mbarrier = self._mbarrier(step, at & _OFFSET | rank << 24)
                    flight = Flight(clock, arrivals=threads, site=step.site, threads=group.threads)
                    mbarrier.flights.append(flight)
                    if threads > mbarrier.count:  # whenever they come
                        raise Overrun(Stuck(step.site, group.threads, mbarrier))

    def _issued(self, kind: str, group: Group, places: Sequence[int]) -> Clock:
        """The operations that the threads at *places* have issued so far, alone or with others of their warp."""
        threads = {group.threads[i] for i in places}
        return sum(
            event(actor, number)
            for actor, number in self._engines.items()
            if actor.kind == kind and actor.cta == group.cta and not threads.isdisjoint(actor.threads)
        )

    def _on_wait(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        depth, match = self._role(group, step, "depth", 0), step.instruction.match
        kind = step.instruction.group
        committed = group.committed.get(kind, ())
        if match is not None and match.form.completion == "all":
            told = self._issued(kind, group, places)
        elif isinstance(depth, int) and len(committed) > depth:
            told = committed[-1 - depth]
        else:
            return
        group.clock = both(group.clock, self._completed(group, places, told))

    def _completed(self, group: Group, places: Sequence[int], told: Clock) -> Heard:
        """What those at *places* hear who wait for what they have committed: *told*, and what was done before it was issued."""
        found: Heard = NOTHING
        for actor in self._engines:
            number = last(told, actor)
            if number >= 0:
                issued = self._issued_at.get((actor.index, number), NOTHING)
                done = joined(event(actor, number), issued)
                found = both(found, only(done, group.warps, warps_of(actor.threads)))
        return group.only(found, places)

    def _on_tmem_alloc(self, group: Group, step: Step, places: Sequence[int], where: Lanes) -> None:
        address, columns = self._role(group, step, "destination"), self._role(group, step, "columns")
        if isinstance(address, int):
            start = self._columns.get(group.cta, 0)
            self._put(address, start, 4)
            self._columns[group.cta] = start + (columns if isinstance(columns, int) else 0)


@cache
def _handler(what: str) -> Callable[..., Any]:
    """What executes steps of a kind: a method of :class:`Machine`, not bound, so that no machine knows itself."""
    handler: Callable[..., Any] = getattr(
        Machine, "_" + what if what in _DATA else "_on_" + what.replace("-", "_")
    )
    return handler


def _outermost(address: Lanes, where: Lanes) -> set[int]:
    """The least and the farthest of the addresses in the threads *where* something is executed."""
    if isinstance(address, int):
        return {address} if where == 1 or (isinstance(where, tuple) and 1 in where) else set()
    if address is None or where is None:
        return set()
    seen: Sequence[Any] = address
    if where != 1 or None in address:
        executing = zip(address, spread(where, len(address)), strict=True)
        seen = [a for a, w in executing if w and a is not None]
    return {min(seen), max(seen)} if seen else set()


def _full(threads: tuple[int, ...]) -> bool:
    """Whether *threads* are warps, all of whose lanes there are."""
    first, size = threads[0], len(threads)
    return not first % 32 and not size % 32 and threads[-1] - first == size - 1


def _warpgroups(group: Group, places: Sequence[int]) -> Iterable[Sequence[int]]:
    """The places of each warpgroup: each multiplies matrices of its own (9.7.15)."""
    threads, found = group.threads, dict[int, list[int]]()
    if threads[places[0]] >> 7 == threads[places[-1]] >> 7:
        return (places,)
    for place in places:
        found.setdefault(threads[place] >> 7, []).append(place)
    return found.values()


def _alone(where: Lanes, threads: int) -> bool:
    """Whether one thread executes something."""
    return spread(where, threads).count(1) == 1 and where is not None


def _strong(instruction: Instruction) -> bool:
    """Whether a load may see what another thread stores at the same time: threads may synchronise by it (8.4, 8.7)."""
    words = instruction.opcode.split(".")
    return words[0] == "atom" or not {"volatile", "acquire", "relaxed"}.isdisjoint(words)


def _relaxed(instruction: Instruction) -> bool:
    return ".relaxed" in instruction.opcode


def _known(value: Lanes) -> Lanes:
    """*value*, or -1 where it is not known."""
    return -1 if value is None else value


def _at(group: Group, places: Sequence[int]) -> tuple[int, ...]:
    """The threads at *places*."""
    threads = group.threads
    return threads if len(places) == len(threads) else tuple(map(threads.__getitem__, places))


def _elected(
    group: tuple[int, ...], threads: tuple[int, ...], mask: int, size: int
) -> tuple[Lanes, Lanes] | None:
    """The lane that each of a *group* hears of, and whether it is that one; None when *threads* lack lanes of *mask*."""
    present = set(threads)
    leaders: dict[int, int] = {}
    for thread in threads:
        if mask >> (thread & 31) & 1:
            leaders.setdefault(thread >> 5, thread)
    lanes = [lane for lane in range(min(32, size)) if mask >> lane & 1]
    if not all(warp * 32 + lane in present for warp in leaders for lane in lanes):
        return None
    chosen = set(leaders.values())
    first = collapse([leaders.get(t >> 5, 0) & 31 for t in group])
    return first, collapse([int(t in chosen) for t in group])


def shuffled(match: Match, thread: int, by: int, bounds: int) -> tuple[int, bool]:
    """Of which thread *thread* gets the value in a shuffle, and whether that is in its part of the warp (9.7.9.6)."""
    lane, by, clamp, mask = thread & 31, by & 31, bounds & 31, bounds >> 8 & 31
    last = lane & mask | clamp & ~mask
    if ".up" in match.modifiers:
        other = lane - by
        inside = other >= last
    else:
        other = lane + by if ".down" in match.modifiers else lane ^ by
        if ".idx" in match.modifiers:
            other = lane & mask | by & ~mask
        inside = other <= last
    return thread - lane + (other if inside else lane), inside


def _exchanged(
    match: Match, threads: tuple[int, ...], lanes: Sequence[Lanes]
) -> tuple[Lanes, list[int | None]]:
    """Of a shuffle among *threads*: who gets a value from inside its part of the warp, and the place of the one it comes from."""
    rows = list(zip(threads, *(spread(v, len(threads)) for v in lanes), strict=True))
    if any(None in row for row in rows):
        return None, [None] * len(threads)
    at = {thread: place for place, thread in enumerate(threads)}
    froms = [shuffled(match, *row) for row in rows]
    return collapse([int(p) for _, p in froms]), [at.get(thread) for thread, _ in froms]


def _voted(match: Match, lanes: dict[int, int | None]) -> int | None:
    """The result of a vote (9.7.13.10); None when that of a lane is not known, or some are missing."""
    votes = {lane: p for lane, p in lanes.items() if p is not None}
    if len(votes) < 32:
        return None
    if ".ballot" in match.modifiers:
        return sum(p << lane for lane, p in votes.items())
    different = set(votes.values())
    if ".any" in match.modifiers:
        return int(1 in different)
    return int(different == {1} if ".all" in match.modifiers else len(different) == 1)


def _items(operand: Operand) -> Sequence[Operand]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _part(value: Lanes, index: int, width: int) -> Lanes:
    """The bits of *value* from *index* times *width* on."""
    return apply(lambda a: a >> index * width & (1 << width) - 1, [value])


def _bits(match: Match) -> int:
    """The bits of an element of a vector, or of a scalar."""
    return int(match.element[2:])
