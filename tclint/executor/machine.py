"""The machine: clusters of CTAs of warps that execute one kernel, one instruction of one warp at a time.

What goes wrong without stopping the kernel is an *observation*. What a GPU would stop at raises
:class:`~tclint.executor.memory.Fault`; threads that wait for what cannot come raise :class:`Deadlock`; a kernel that
does not end within its budget raises :class:`OutOfBudget`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from tclint.executor.memory import RANK, Array, Fault, Global
from tclint.executor.schedule import Schedule
from tclint.executor.signals import AGAIN, ENDED, MOVED
from tclint.executor.state import LANES, Barrier, Cluster, Cta, Flight, Geometry, Join, Range, Split, Warp
from tclint.executor.sync import Clocks, Mbarrier

if TYPE_CHECKING:
    from tclint.executor.code import Code

__all__ = [
    "Deadlock",
    "Machine",
    "Observation",
    "OutOfBudget",
]


_QUANTUM = 512
"""Instructions in a row of one warp, unless the schedule is random."""
_TRACED = 8
"""The same when a trace is made, whose times are as coarse as this."""
_PATIENCE = 64
"""Rounds of waits that time out, without anything else happening, after which threads wait for ever."""
_RESIDENT = 8
"""Clusters that are on the machine at once."""
_CROWD = 160
"""The same when threads poll memory: they may wait for a cluster that has not started."""
_POLLS = 2000
"""Polls of memory, while nobody who waits is woken, after which threads seem to need help."""
_VAIN = 4
"""Times that nobody could be helped, after which lanes no longer wait for others of their warp to come together."""


class Deadlock(Fault):
    """Threads wait for what cannot come any more."""

    def __init__(self, message: str, sites: Sequence[int], involved: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.sites = tuple(dict.fromkeys(sites))
        self.involved = frozenset(involved)
        """The instructions that named the mbarriers which are waited for."""


class OutOfBudget(Exception):
    """The kernel did not end within its instructions or seconds."""


_OTHERS = {
    "unordered": "the other access",
    "proxy": "the write",
    "wgmma-fence": "the write",
    "divergent": "what the others execute",
    "mbarrier-overrun": "the mbarrier is initialised",
}
"""What stands at the other instruction of an observation, by its kind; else an operation begins there."""


@dataclass(frozen=True)
class Observation:
    """Something that the ISA leaves undefined, or that went wrong, in one execution."""

    kind: str
    site: int
    """The instruction that met it; ``function.instructions[site]``."""
    message: str
    thread: str
    other: int = -1
    """The asynchronous operation or the access that it collides with, if it is about one."""
    step: int = 0

    @property
    def cause(self) -> str:
        """What stands at the *other* instruction."""
        return _OTHERS.get(self.kind, "the operation begins")


class Machine:
    """Executes a decoded kernel for one launch."""

    def __init__(
        self,
        code: Code,
        geometry: Geometry,
        memory: Global,
        schedule: Schedule,
        *,
        steps: int = 50_000_000,
        seconds: float = float("inf"),
    ) -> None:
        self.code = code
        self.geometry = geometry
        self.memory = memory
        self.parameters = code.parameters
        self.schedule = schedule
        self.budget = steps
        self.deadline = perf_counter() + seconds
        self.steps = 0
        self.observations: list[Observation] = []
        self._told: set[tuple[str, int, int]] = set()
        self.ctas = geometry.grid[0] * geometry.grid[1] * geometry.grid[2]
        self.clusters: list[Cluster] = []
        self._coming: Iterator[tuple[int, int, int]] = self._places()
        self.ready: deque[Split] = deque()
        self.parked: list[Split] = []
        self.flights: list[Flight] = []
        self.reports: dict[int, dict[int, Mbarrier]] = {}
        """The mbarriers that the asynchronous operations of an instruction report to."""
        self.clocks: dict[int, tuple[Cluster, Clocks]] = {}
        """What releasing accesses of global memory left, by address."""
        self._warp: Warp | None = None
        self._fruitless = 0
        self.polls = 0
        """Accesses that may be polls of memory, since somebody who waits was woken."""
        self._vain = 0
        """How often in a row nobody could be helped."""
        self._numbers = 0
        self.tracer: Callable[[str, Warp, int, str], None] | None = None
        self.notes: dict[str, int] = {}
        """What was not executed as on a GPU, by text, with the instruction that it was first met at."""

    def _places(self) -> Iterator[tuple[int, int, int]]:
        g, c = self.geometry.grid, self.geometry.cluster
        for z in range(g[2] // c[2]):
            for y in range(g[1] // c[1]):
                for x in range(g[0] // c[0]):
                    yield x, y, z

    # ------------------------------------------------------------ running

    def run(self) -> None:
        """Execute the kernel to its end. Raises what the module says."""
        with np.errstate(all="ignore"):
            self._admit()
            while True:
                if self.ready:
                    self._turn()
                elif not self._advance():
                    return

    def _admit(self, most: int = _RESIDENT) -> bool:
        """Start the next cluster, if there is one and room for it."""
        place = next(self._coming, None) if len(self.clusters) < most else None
        if place is None:
            return False
        cluster = Cluster(self, place)
        self.clusters.append(cluster)
        for cta in cluster.ctas:
            for warp in cta.warps:
                warp.regs = self.code.registers(warp)
                self._start(Split(warp, 0, warp.alive, None))
        return True

    def cancel(self) -> tuple[int, int, int] | None:
        """Let the next cluster not start, and give the place of its first CTA; None when all have started."""
        place = next(self._coming, None)
        if place is None:
            return None
        x, y, z = (a * b for a, b in zip(place, self.geometry.cluster, strict=True))
        return x, y, z

    def _start(self, split: Split, first: bool = False) -> None:
        split.warp.splits.append(split)
        self.ready.appendleft(split) if first else self.ready.append(split)

    def _turn(self) -> None:
        """Let one group of lanes execute until it waits, leaves, or has had its share."""
        at = self.schedule.choose(len(self.ready))
        split = self.ready[at]
        del self.ready[at]
        before = self.steps
        if self.tracer is None:
            self._execute(split, self.schedule.quantum(_QUANTUM))
        else:
            self.tracer("run", split.warp, split.pc, "")
            self._execute(split, self.schedule.quantum(_TRACED))
            if split.waits is None:
                self.tracer("stop", split.warp, split.pc, "")
        if self.steps >= self.budget or perf_counter() > self.deadline:
            what = "instructions" if self.steps >= self.budget else "seconds"
            raise OutOfBudget(
                f"the kernel did not end within its budget of {what} ({self.steps} instructions)"
            )
        if self.steps == before:
            self._fruitless += 1
        if self.polls > _POLLS:
            self._relieve()
        if self.flights and self.schedule.lands():
            able = [f for f in self.flights if self._able(f)]
            if able:
                self.land(able[self.schedule.choose(len(able))])

    def _execute(self, split: Split, quantum: int) -> None:
        w = self._warp = split.warp
        w.enter(split)
        ops = self.code.ops
        filling, draining, unfenced = w.filling, w.draining, self.code.unfenced
        touches = self.code.touches
        pc = split.pc
        stop = split.join.pc if split.join is not None else -1
        left = quantum
        while left:
            if pc == stop:
                self.steps += quantum - left
                self._arrive(split)
                return
            left -= 1
            w.site = pc
            if (filling or draining) and pc in touches:
                self._collide(w, pc)
            signal = ops[pc](w)
            if pc in unfenced:
                w.unfenced.update(unfenced[pc])
            if signal is None:
                pc += 1
            elif signal >= 0:
                pc = signal
            else:
                self.steps += quantum - left
                if signal == AGAIN:
                    split.pc = pc
                elif signal == MOVED:
                    split.pc = pc + 1
                return
        self.steps += quantum
        split.pc = pc
        self.ready.append(split)

    def _collide(self, w: Warp, pc: int) -> None:
        """See whether an instruction uses registers that an asynchronous operation is not done with."""
        reads, writes = self.code.touches[pc]
        for locks, registers, ends in ((w.filling, (*reads, *writes), True), (w.draining, writes, False)):
            met: dict[int, tuple[int, Flight]] = {}
            for register in registers:
                if (found := locks.get(register)) is not None:
                    met.setdefault(id(found), (register, found))
            for register, flight in met.values():
                if flight.dependent:
                    self.land(flight) if ends else self.capture(flight)
                    continue
                name = self.code.function.registers[register].name
                how = "reads" if ends and register in reads else "writes"
                does = "writes" if ends else "reads"
                self.observe(
                    "register-in-flight", w, f"{how} {name} before the {flight.what} that {does} it is complete",
                    flight.site,
                )  # fmt: skip

    def _relieve(self) -> None:
        """Threads poll memory, perhaps for what others do who cannot go on: help these although nobody is blocked."""
        self.polls = 0
        wanted = {id(s.waits) for s in self.parked}
        able = [f for f in self.flights if self._able(f) and (not wanted or {id(f), id(f.mbarrier)} & wanted)]
        if able:
            self.land(able[0])
        while self._admit(_CROWD):
            self._vain = 0
        self._vain = 0 if able else self._vain + 1
        if self._vain > _VAIN:
            self._vain = 0
            self._loosen()

    def _advance(self) -> bool:
        """Nobody can go on: complete an operation, start a cluster, or let waits time out. False: all have left."""
        self._retire()
        wanted = {id(s.waits) for s in self.parked}
        able = [
            f for f in self.flights if f.mbarrier is not None and id(f.mbarrier) in wanted and self._able(f)
        ]
        if able:
            self.land(able[self.schedule.choose(len(able))])
            return True
        if self._admit():
            return True
        if not self.parked:
            if any(c.running for c in self.clusters):
                raise self._stuck()
            return False
        for flight in self.flights:
            if self._able(flight):
                self.land(flight)
                return True
        if self._loosen():
            return True
        timed = [s for s in self.parked if isinstance(s.waits, Mbarrier)]
        self._fruitless += 1
        if not timed or self._fruitless > _PATIENCE:
            raise self._stuck()
        for split in timed:
            split.timeout = True
            self.resume(split)
        return True

    def _retire(self) -> None:
        for cluster in [c for c in self.clusters if not c.running]:
            for flight in [f for f in self.flights if f.warp.cta.cluster is cluster]:
                if self._able(flight):
                    self.land(flight)
            self.clusters.remove(cluster)

    def _stuck(self) -> Deadlock:
        lines: list[str] = []
        sites: list[int] = []
        involved: set[int] = set()
        for cluster in self.clusters:
            for cta in cluster.ctas:
                for warp in cta.warps:
                    for split in warp.splits:
                        if len(lines) < 16:
                            lines.append(f"{warp.name()} waits{self._at(split)}{self._for(split)}")
                        if isinstance(split.waits, Mbarrier):
                            involved |= {split.waits.site, *split.waits.users}
                        if isinstance(split.waits, Flight):
                            involved.add(split.waits.site)
                        sites.append(split.pc - isinstance(split.waits, Barrier))
        return Deadlock("threads wait for ever: " + "; ".join(lines), sites, involved)

    def _at(self, split: Split) -> str:
        return f" at {self.code.place(split.pc - isinstance(split.waits, Barrier))}"

    def _for(self, split: Split) -> str:
        waits = split.waits
        if isinstance(waits, Mbarrier):
            return (
                f" for phase {waits.phase} of the mbarrier at {waits.address & (1 << RANK) - 1:#x}:"
                f" {waits.pending} arrivals and {waits.tx} bytes are missing"
            )
        if isinstance(waits, Barrier):
            needed = waits.needed or split.warp.cta.threads
            return f" at a barrier: {waits.threads} of {needed} threads have come"
        if isinstance(waits, str):
            return f" for {waits}"
        return ""

    # ------------------------------------------------------------ waiting

    def park(self, split: Split, on: object) -> None:
        """*split* goes on when :meth:`wake` is called for *on*."""
        split.waits = on
        self.parked.append(split)
        if self.tracer is not None:
            self.tracer("park", split.warp, split.warp.site, "")

    def wake(self, on: object) -> None:
        for split in [s for s in self.parked if s.waits is on]:
            self.resume(split)

    def resume(self, split: Split) -> None:
        """A group of lanes that was parked may go on."""
        self.parked.remove(split)
        self.polls = 0
        split.waits = None
        self.ready.append(split)
        if self.tracer is not None:
            self.tracer("wake", split.warp, split.pc, "")

    def progress(self) -> None:
        """Something happened that others may wait for."""
        self._fruitless = 0

    def turn(self, mbarrier: Mbarrier) -> None:
        """Complete the phase of an mbarrier, if nothing is missing, and wake who waits for it."""
        self.progress()
        if mbarrier.turn():
            self.wake(mbarrier)

    # ------------------------------------------------------------ divergence

    def fork(self, split: Split, ways: Sequence[tuple[int, Array]], meet: int) -> None:
        """*split* goes several ways, which come together at instruction *meet* (-1: nowhere)."""
        w = split.warp
        w.splits.remove(split)
        join = split.join
        if meet >= 0 and (join is None or join.pc != meet):
            join = Join(meet, split.mask, join)
        for pc, mask in reversed(ways):
            if join is not None and pc == join.pc:
                join.arrived = join.arrived | mask
            else:
                self._start(Split(w, pc, mask, join), first=True)
        if join is not None:
            self._rejoin(w, join)

    def _arrive(self, split: Split) -> None:
        join = split.join
        assert join is not None
        split.warp.splits.remove(split)
        join.arrived = join.arrived | split.mask
        self._rejoin(split.warp, join)

    def _rejoin(self, w: Warp, join: Join) -> None:
        if join.arrived.any() and not (join.expected & ~join.arrived).any():
            mask, join.arrived = join.arrived, np.zeros(LANES, bool)
            join.expected = join.arrived
            outer = join.outer
            if outer is not None and outer.pc == join.pc:
                outer.arrived = outer.arrived | mask
                self._rejoin(w, outer)
            else:
                self._start(Split(w, join.pc, mask, outer), first=True)

    def _loosen(self) -> bool:
        """Let lanes that wait to come together with others of their warp go on alone: each thread makes progress, also
        when these others wait for it (3.1). False when there are none."""
        found = False
        for w in [w for cluster in self.clusters for cta in cluster.ctas for w in cta.warps]:
            for split in list(w.splits):
                join = split.join
                while join is not None:
                    if join.arrived.any():
                        found = True
                        w.loose = True
                        rest = join.expected & ~join.arrived
                        join.expected = join.arrived
                        self._rejoin(w, join)
                        join.expected = rest
                    join = join.outer
        return found

    def leave(self, split: Split, mask: Array) -> int | None:
        """Lanes end their execution (9.7.12.7)."""
        w = split.warp
        w.alive = w.alive & ~mask
        stays = split.mask & ~mask
        if stays.any():
            split.narrow(stays)
            w.enter(split)
        else:
            w.splits.remove(split)
        join = split.join
        while join is not None:
            join.expected = join.expected & ~mask
            self._rejoin(w, join)
            join = join.outer
        self.progress()
        if not w.alive.any():
            w.cta.running -= 1
            for site, came in w.cta.came.items():
                if w.index not in came and any(other >> 2 == w.index >> 2 for other in came):
                    name = self.code.function.instructions[site].name
                    text = f"not all warps of the warpgroup are there to execute {name}"
                    self.observe("divergent", w, text, site=site)
            if not w.cta.running:
                self._end(w)
        w.cta.cluster.forget(w, mask)
        for number, barrier in w.cta.barriers.items():
            barrier.count(w)
            self.pass_barrier(w.cta, number, barrier)
        self.pass_cluster(w.cta.cluster)
        for arrivals in list(w.meeting.values()):
            for arrival in arrivals:
                if arrival.split in self.parked:
                    self.resume(arrival.split)
        return None if stays.any() else ENDED

    def _end(self, w: Warp) -> None:
        """A CTA has come to its end: nobody may use its shared memory any more."""
        cta = w.cta
        for flight in list(cta.shared.flights):
            into = any(memory is cta.shared for memory, _ in flight.writes)
            if not flight.done and (into or not flight.captured):
                does = "into its shared memory is complete" if into else "has read its shared memory"
                self.observe(
                    "left-in-flight", w, f"the CTA ends before the {flight.what} {does}", flight.site
                )  # fmt: skip
                if self._able(flight):
                    self.land(flight)
        if cta.columns:
            self.observe("tensor-memory-leak", w, "the CTA ends with tensor memory that is still allocated")
        cta.shared.exited = True

    # ------------------------------------------------------------ barriers

    def pass_barrier(self, cta: Cta, number: int, barrier: Barrier) -> None:
        """Let the threads pass that wait at a barrier of a CTA, if all have come."""
        needed = barrier.needed or cta.threads
        if not barrier.threads or barrier.threads < needed:
            return
        if barrier.threads > needed:
            self.observe(
                "barrier-count", barrier.waiting[0].warp if barrier.waiting else cta.warps[0],
                f"{barrier.threads} threads come to barrier {number}, which waits for {needed}",
            )  # fmt: skip
        self.progress()
        waiting, votes, results = barrier.waiting, barrier.votes, barrier.results
        clocks = barrier.clocks
        cta.barriers[number] = Barrier(Clocks.new(cta.cluster.warps))
        for split in waiting:
            split.warp.clocks.join(clocks)
            split.warp.tick()
            if id(split) in results:
                results[id(split)](votes)
            self.resume(split)

    def pass_cluster(self, cluster: Cluster) -> None:
        """The same for the barrier of a cluster; threads that left count as arrived (9.7.13.4)."""
        barrier = cluster.barrier
        alive = sum(cta.threads for cta in cluster.ctas)
        if not barrier.threads or barrier.threads < alive:
            return
        self.progress()
        waiting, clocks = barrier.waiting, barrier.clocks
        barrier.results.clear()
        cluster.barrier = Barrier(Clocks.new(cluster.warps), round=barrier.round + 1)
        cluster.barrier.votes = [clocks.seen, clocks.fenced]
        for split in waiting:
            self.resume(split)

    # ------------------------------------------------------------ asynchronous operations

    def issue(self, flight: Flight) -> None:
        """An asynchronous operation begins."""
        w = flight.warp
        self._numbers += 1
        flight.number = self._numbers
        if flight.mbarrier is not None:
            self.reports.setdefault(flight.site, {})[id(flight.mbarrier)] = flight.mbarrier
        for written in flight.writes:
            self.check_fill(w, written, flight)
        self.check_drain(w, flight.reads, flight)
        if self.tracer is not None:
            self.tracer("issue", w, flight.site, f"{flight.number} {flight.what}")
        if self.schedule.at_once(flight.site) and self._able(flight):
            self.land(flight)
            return
        self.flights.append(flight)
        for memory, words in flight.writes:
            memory.filling[words] += 1
            if not flight.adds:
                memory.poison(words)
            memory.flights.append(flight)
        for memory, words in flight.reads:
            memory.draining[words] += 1
            memory.flights.append(flight)
        for warp, registers in flight.filling.items():
            warp.filling.update(dict.fromkeys(registers, flight))
        for warp, registers in flight.draining.items():
            warp.draining.update(dict.fromkeys(registers, flight))
        flight.locked = True

    def check_fill(self, w: Warp, written: Range, flight: Flight) -> None:
        """What an asynchronous write must not meet: operations that still use the bytes, and unordered accesses."""
        what = flight.what
        memory, words = written
        if memory.exited:
            self.observe("exited-cta", w, f"the {what} writes shared memory of a CTA that has ended")
        if memory.draining[words].any():
            other = memory.user(words, writes=False)
            self.observe(
                "source-overwritten", w,
                f"the {what} overwrites shared memory that a {other.what if other else 'copy'} still reads",
                other.site if other else -1,
            )  # fmt: skip
        elif memory.filling[words].any():
            other = memory.user(words, writes=True, adds=not flight.adds)
            if other is not None:
                self.observe(
                    "filled-twice", w,
                    f"the {what} writes shared memory that another {other.what} is still to write", other.site,
                )  # fmt: skip
        for writes, how in ((False, "read"), (True, "wrote")):
            if (met := memory.late(words, writes, w.clocks.seen)) is not None:
                self.observe(
                    "unordered", w,
                    f"the {what} writes shared memory that {self.who(w, met[0])} {how} without a barrier between them",
                    met[1],
                )  # fmt: skip

    def check_drain(self, w: Warp, reads: Sequence[Range], flight: Flight) -> None:
        """What an asynchronous read must not meet: bytes that are still to be written, or that it does not see."""
        what = flight.what
        for memory, words in reads:
            if memory.exited:
                self.observe("exited-cta", w, f"the {what} reads shared memory of a CTA that has ended")
            if memory.filling[words].any():
                other = memory.user(words, writes=True)
                self.observe(
                    "read-too-early", w,
                    f"the {what} reads shared memory that a {other.what if other else 'copy'} is still to write",
                    other.site if other else -1,
                )  # fmt: skip
            met = memory.late(words, True, w.clocks.fenced)
            if met is None:
                continue
            stamp, site = met
            if (stamp >> 10) > int(w.clocks.seen[stamp & 1023]):
                text = f"{self.who(w, stamp)} wrote without a barrier between them"
                self.observe("unordered", w, f"the {what} reads shared memory that {text}", site)
                continue
            self.observe(
                "proxy", w,
                f"the {what} reads, through the async proxy, shared memory that was written through the generic proxy"
                " without a proxy fence between them",
                site,
            )  # fmt: skip
            numbers = np.arange(words.start, words.stop) if isinstance(words, slice) else words
            stamps = memory.written[numbers]
            flight.unseen.append(Range(memory, numbers[(stamps >> 10) > w.clocks.fenced[stamps & 1023]]))

    def _able(self, flight: Flight) -> bool:
        return all(f.done or f.ready is None or f.ready() for f in (flight, *flight.before))

    def able(self, flight: Flight) -> bool:
        """Whether an operation may complete: all that take part in it, and in those before it, have come."""
        return flight.done or self._able(flight)

    def capture(self, flight: Flight) -> None:
        """An operation has read its sources, if it had not."""
        if flight.captured:
            return
        flight.captured = True
        if flight.capture is not None:
            _as_seen(flight, flight.capture)
        if flight.locked:
            for memory, words in flight.reads:
                memory.draining[words] -= 1
            for warp, registers in flight.draining.items():
                _release(warp.draining, registers, flight)
        for memory, words in flight.reads:
            memory.read_by[words] = flight.stamp or flight.warp.stamp
            memory.reader[words] = flight.site

    def unlock(self, w: Warp, flight: Flight) -> None:
        """A warp has waited for an operation that several warps take part in."""
        if "parts" in flight.note:
            for memory, words in flight.reads:
                memory.read_by[words] = w.stamp
            for locks in (w.filling, w.draining):
                for register in [r for r, f in locks.items() if f is flight]:
                    del locks[register]

    def land(self, flight: Flight) -> None:
        """Complete an operation, and those that complete before it."""
        waiting = [flight]
        while waiting:
            earlier = next((f for f in waiting[-1].before if not f.done), None)
            if earlier is not None:
                waiting.append(earlier)
                continue
            last = waiting.pop()
            if not last.done:
                self._complete(last)

    def _complete(self, flight: Flight) -> None:
        self.capture(flight)
        flight.done = True
        flight.before = []
        if flight.locked:
            self.flights.remove(flight)
            for memory, words in flight.writes:
                memory.filling[words] -= 1
            for memory in {id(m): m for m, _ in (*flight.writes, *flight.reads)}.values():
                memory.flights[:] = [f for f in memory.flights if f is not flight]
        written = flight.written
        if flight.mbarrier is not None and flight.writes:
            cluster = flight.warp.cta.cluster
            cluster.copies += 1
            written = 0 if flight.adds else cluster.copies << 10 | cluster.warps
            for clock in (flight.mbarrier.clocks.seen, flight.mbarrier.clocks.fenced):
                clock[cluster.warps] = cluster.copies
        for memory, words in flight.writes:
            memory.written[words] = written
            memory.writer[words] = flight.site
            memory.read_by[words] = 0
        if flight.finish is not None:
            _as_seen(flight, flight.finish)
        if flight.locked:
            for warp, registers in flight.filling.items():
                _release(warp.filling, registers, flight)
        if self.tracer is not None:
            self.tracer("land", flight.warp, flight.site, f"{flight.number} {flight.what}")
        self.progress()
        self.wake(flight)

    # ------------------------------------------------------------ telling

    def observe(self, kind: str, w: Warp, message: str, other: int = -1, site: int | None = None) -> None:
        """Keep an observation; once for each kind and pair of instructions."""
        at = w.site if site is None else site
        key = (kind, at, other)
        if key in self._told:
            return
        self._told.add(key)
        lanes = w.lanes
        thread = f"{w.name()}, lane {int(lanes[0])}" if len(lanes) == 1 else w.name()
        self.observations.append(Observation(kind, at, message, thread, other, self.steps))

    @property
    def at(self) -> int:
        """The instruction that is executed, or was last; -1 before the first one."""
        return self._warp.site if self._warp is not None else -1

    def who(self, w: Warp, stamp: int) -> str:
        """Whose access a stamp is."""
        number, warps = stamp & 1023, self.geometry.warps
        if number == w.cta.cluster.warps:
            return "an asynchronous copy"
        rank = f" of CTA {number // warps} of the cluster" if self.geometry.ranks > 1 else ""
        return f"warp {number % warps}{rank}"

    def note(self, text: str, site: int) -> None:
        self.notes.setdefault(text, site)


def _as_seen(flight: Flight, act: Callable[[], None]) -> None:
    """Let an operation read poison where it does not see what was written."""
    hidden = [(memory, words, memory.views[4][words]) for memory, words in flight.unseen]
    for memory, words, _ in hidden:
        memory.poison(words)
    act()
    for memory, words, values in hidden:
        memory.views[4][words] = values


def _release(locks: dict[int, Flight], registers: Iterable[int], flight: Flight) -> None:
    for register in registers:
        if locks.get(register) is flight:
            del locks[register]
