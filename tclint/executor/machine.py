"""The machine: it interleaves the warps of one launch, one instruction of one warp at a time.

Undefined behaviour that does not stop the kernel is recorded as an *observation*. What stops a GPU raises
:class:`~tclint.executor.memory.Fault`, threads that can never be woken raise :class:`Deadlock`, and a kernel that does
not terminate within its budget raises :class:`OutOfBudget`.

*Scheduling.* The unit is a :class:`~tclint.executor.state.LaneGroup`, a group of lanes with one program counter. A group
executes until it blocks, diverges, exits or has used up its quantum. When no group can run, the machine completes an
asynchronous operation, starts another cluster, forces apart lanes that wait to reconverge, or lets mbarrier waits time
out (:meth:`Machine._advance`); only if none of these leads to progress is the launch deadlocked.

*Conflicts.* They are detected in two ways. An operation that is in flight is counted on every word that it reads or
writes, so an access to such a word conflicts with it. For completed accesses each word keeps a *stamp* of the last
write and the last read, ``epoch << 10 | agent``, which is compared with the vector clock of the accessing warp
(:mod:`tclint.executor.sync`): an access that the clock does not cover is unordered, whichever of the two came first in
this run.

*What is missed.* Only the last write and the last read of a word are kept, so a race with an earlier access of another
warp goes unnoticed. Two plain stores are compared only if they are of whole words and store different values. The lanes
of a warp share one clock, and races in global memory are not checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from tclint.executor.deadlocks import deadlock
from tclint.executor.memory import Array, Global
from tclint.executor.observations import Deadlock, Observation, OutOfBudget
from tclint.executor.policy import Policy
from tclint.executor.schedule import Schedule
from tclint.executor.signals import AGAIN, ENDED, MOVED
from tclint.executor.state import (
    LANES,
    AsyncOperation,
    Cluster,
    Cta,
    ExecutorBarrier,
    Geometry,
    LaneGroup,
    Range,
    ReconvergencePoint,
    Released,
    Shared,
    Warp,
)
from tclint.executor.sync import Box, ExecutorMbarrier

if TYPE_CHECKING:
    from tclint.executor.code import Code

__all__ = ["Machine"]

_QUANTUM = 512
"""Consecutive instructions of one warp, unless the schedule is random."""
_TRACED_QUANTUM = 8
"""The quantum while a trace is recorded: the resolution of its times."""
MAX_TIMEOUTS_WITHOUT_PROGRESS = 64
"""Times that mbarrier waits may time out with no other event in between; after that the launch is deadlocked."""
MAX_RESIDENT_CLUSTERS = 8
"""Clusters that execute at once."""
MAX_RESIDENT_CLUSTERS_WHEN_POLLING = 160
"""The same while threads poll memory, because they may be waiting for a cluster that has not started."""
MAX_POLLS_BEFORE_RELIEF = 2000
"""Polls of memory since a blocked group of lanes was last woken, after which :meth:`Machine._relieve` intervenes."""
MAX_POLL_LOOP = 4096
"""Instructions of a loop that polls memory for which :meth:`Machine._polls_forever` looks for a repetition."""
MAX_FAILED_RELIEFS = 4
"""Consecutive interventions without effect, after which lanes that wait to reconverge are forced apart."""


class Machine:
    """Executes a decoded kernel for one launch."""

    def __init__(
        self,
        code: Code,
        geometry: Geometry,
        memory: Global,
        schedule: Schedule,
        policy: Policy,
    ) -> None:
        self.code = code
        self.geometry = geometry
        self.fill = policy.fill
        self._noted = policy.noted
        self.memory = memory
        self.parameters = code.parameters
        self.schedule = schedule
        self.budget = policy.steps
        self.deadline = perf_counter() + policy.seconds
        self.steps = 0
        self._observed: list[tuple[Observation, tuple[ExecutorMbarrier, ...]]] = []
        """What was observed, with the mbarriers that it concerns."""
        self._reported: set[tuple[str, int, int]] = set()
        self.ctas = geometry.grid[0] * geometry.grid[1] * geometry.grid[2]
        self.clusters: list[Cluster] = []
        self._unstarted: Iterator[tuple[int, int, int]] = self._positions()
        self.ready: deque[LaneGroup] = deque()
        self.held: deque[LaneGroup] = deque()
        """Those that could run, but do so only when no others can."""
        self.parked: list[LaneGroup] = []
        self.operations: list[AsyncOperation] = []
        self.released: dict[int, Released] = {}
        """What the releasing accesses of an address published."""
        self._warp: Warp | None = None
        self._idle_turns = 0
        """Timeouts, and turns that executed no instruction, since the last :meth:`progress`."""
        self.polls = 0
        """Accesses that may be polls of memory, since a blocked group of lanes was last woken."""
        self.changes = 0
        """Events that other threads may wait for, and stores to memory."""
        self._failed_reliefs = 0
        """Consecutive calls of :meth:`_relieve` without effect."""
        self._issued = 0
        self.tracer: Callable[[str, Warp, int, str], None] | None = None
        """Called with an event, the warp, the instruction and a text (:class:`tclint.executor.trace.Trace`)."""
        self._bytes_of_boxes: dict[frozenset[tuple[Box, int]], tuple[int, int]] = {}
        """The bytes that a phase expected of copies of unknown size, and the instruction that performed expect_tx."""
        self.notes: dict[str, int] = {}
        """Deviations from what a GPU does: the text, with the first instruction that it applies to."""
        self.unwritten: dict[int, int] = {}
        """Bytes of shared memory that were read although nothing had written them, by the instruction that read them
        first."""

    def _positions(self) -> Iterator[tuple[int, int, int]]:
        """The position of each cluster in the grid, counted in clusters."""
        g, c = self.geometry.grid, self.geometry.cluster
        for z in range(g[2] // c[2]):
            for y in range(g[1] // c[1]):
                for x in range(g[0] // c[0]):
                    yield x, y, z

    # ------------------------------------------------------------ running

    def run(self) -> None:
        """Execute the kernel until all threads have exited.

        Raises :class:`~tclint.executor.memory.Fault`, :class:`Deadlock`, :class:`OutOfBudget` or
        :class:`~tclint.executor.errors.Unsupported`.
        """
        with np.errstate(all="ignore"):
            self._admit()
            while True:
                if self.ready:
                    self._turn()
                elif self.held:
                    self.ready.append(self.held.popleft())
                elif not self._advance():
                    return

    def _admit(self, limit: int = MAX_RESIDENT_CLUSTERS) -> bool:
        """Start the next cluster; False if none is left or *limit* clusters are resident."""
        position = next(self._unstarted, None) if len(self.clusters) < limit else None
        if position is None:
            return False
        cluster = Cluster(self, position)
        self.clusters.append(cluster)
        for cta in cluster.ctas:
            for warp in cta.warps:
                warp.regs = self.code.registers(warp)
                self._start(LaneGroup(warp, 0, warp.alive, None))
        return True

    def cancel(self) -> tuple[int, int, int] | None:
        """Cancel the next cluster that has not started: the ``%ctaid`` of its first CTA, or None if all have."""
        position = next(self._unstarted, None)
        if position is None:
            return None
        x, y, z = (a * b for a, b in zip(position, self.geometry.cluster, strict=True))
        return x, y, z

    def _start(self, split: LaneGroup, first: bool = False) -> None:
        split.warp.splits.append(split)
        self.ready.appendleft(split) if first else self.ready.append(split)

    def _turn(self) -> None:
        """Execute one group of lanes until it blocks, diverges, exits, or has used up its quantum."""
        at = self.schedule.choose(len(self.ready))
        split = self.ready[at]
        del self.ready[at]
        before = self.steps
        if self.tracer is None:
            self._execute(split, self.schedule.quantum(_QUANTUM))
        else:
            self.tracer("run", split.warp, split.pc, "")
            self._execute(split, self.schedule.quantum(_TRACED_QUANTUM))
            if split.waits is None:
                self.tracer("stop", split.warp, split.pc, "")
        if self.steps >= self.budget or perf_counter() > self.deadline:
            what = "instructions" if self.steps >= self.budget else "seconds"
            raise OutOfBudget(
                f"the kernel did not terminate within its budget of {what} ({self.steps} instructions)"
            )
        if self.steps == before:
            self._idle_turns += 1
        if self.polls > MAX_POLLS_BEFORE_RELIEF:
            self._relieve()
        if self.operations and self.schedule.lands():
            able = [f for f in self.operations if self._able(f)]
            if able:
                self.complete(able[self.schedule.choose(len(able))])

    def _execute(self, split: LaneGroup, quantum: int) -> None:
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
        """Report registers that an instruction uses while an asynchronous operation still reads or writes them.

        An operation whose registers are interlocked (:attr:`~tclint.executor.state.AsyncOperation.dependent`) is
        completed instead.
        """
        reads, writes = self.code.touches[pc]
        for locks, registers, written in ((w.filling, (*reads, *writes), True), (w.draining, writes, False)):
            conflicts: dict[int, tuple[int, AsyncOperation]] = {}
            for register in registers:
                if (found := locks.get(register)) is not None:
                    conflicts.setdefault(id(found), (register, found))
            for register, operation in conflicts.values():
                if operation.dependent:
                    self.complete(operation) if written else self.capture(operation)
                    continue
                name = self.code.function.registers[register].name
                how = "reads" if written and register in reads else "writes"
                does = "writes" if written else "reads"
                self.observe(
                    "register-in-flight", w, f"{how} {name} before the {operation.what} that {does} it completes",
                    operation,
                )  # fmt: skip

    def _relieve(self) -> None:
        """Intervene although some group of lanes can run: it may poll memory that blocked lanes are to write.

        Completes an operation, or a phase with copies of unknown size, that blocked lanes wait for, starts clusters and,
        if none of these was possible several times in a row, forces apart lanes that wait to reconverge. Raises
        :class:`Deadlock` if all lanes that can run poll memory that no thread is left to write.
        """
        self.polls = 0
        if self.held:
            self.ready.append(self.held.popleft())
            return
        wanted = {id(s.waits) for s in self.parked}
        able = [
            f for f in self.operations if self._able(f) and (not wanted or {id(f), id(f.mbarrier)} & wanted)
        ]
        if able:
            self.complete(able[0])
        while self._admit(MAX_RESIDENT_CLUSTERS_WHEN_POLLING):
            self._failed_reliefs = 0
        relieved = bool(able) or self._settle()
        self._failed_reliefs = 0 if relieved else self._failed_reliefs + 1
        if self._failed_reliefs > MAX_FAILED_RELIEFS:
            self._failed_reliefs = 0
            if not self._force_apart() and self._all_poll() and not self._time_out():
                raise self._stuck()

    def _advance(self) -> bool:
        """Unblock some group of lanes when none can run; False if all threads have exited.

        Tries, in this order: an operation that completes on an mbarrier that lanes wait for, the next cluster, another
        operation that lanes wait for, a phase with copies of unknown size, any other operation, forcing lanes apart, and
        timeouts of mbarrier waits. Raises :class:`Deadlock`.
        """
        self._retire()
        wanted = {id(s.waits) for s in self.parked}
        able = [
            f
            for f in self.operations
            if f.mbarrier is not None and id(f.mbarrier) in wanted and self._able(f)
        ]
        if able:
            self.complete(able[self.schedule.choose(len(able))])
            return True
        if self._admit():
            return True
        if not self.parked:
            if any(c.running for c in self.clusters):
                raise self._stuck()
            return False
        # An operation that no thread waits for stays pending as long as a phase can complete without it.
        for operation in self.operations:
            if id(operation) in wanted and self._able(operation):
                self.complete(operation)
                return True
        if self._settle():
            return True
        for operation in self.operations:
            if self._able(operation):
                self.complete(operation)
                return True
        if self._force_apart():
            return True
        if not self._time_out():
            raise self._stuck()
        return True

    def _time_out(self) -> bool:
        """Let the waits for mbarriers return false; False if there is none, or if that has not helped for long."""
        timed = [s for s in self.parked if isinstance(s.waits, ExecutorMbarrier)]
        self._idle_turns += 1
        if not timed or self._idle_turns > MAX_TIMEOUTS_WITHOUT_PROGRESS:
            return False
        for split in timed:
            split.timeout = True
            self.resume(split)
        return True

    def _retire(self) -> None:
        for cluster in [c for c in self.clusters if not c.running]:
            for operation in [f for f in self.operations if f.warp.cta.cluster is cluster]:
                if self._able(operation):
                    self.complete(operation)
            self.clusters.remove(cluster)

    def _stuck(self) -> Deadlock:
        return deadlock(self.clusters, self.memory, self.code.place)

    def _all_poll(self) -> bool:
        """Whether every group of lanes that can run polls memory that no thread is left to write."""
        return not self.operations and all(self._polls_forever(split) for split in list(self.ready))

    def _polls_forever(self, split: LaneGroup) -> bool:
        """Execute *split* until it polls memory for the second time with the same registers: whether it does.

        Until then nothing may have changed memory, so nothing but another thread can end its loop.
        """
        w, changes, count = split.warp, self.changes, 0
        known: tuple[object, ...] = ()
        for _ in range(MAX_POLL_LOOP):
            if split not in self.ready:
                return False
            self.ready.remove(split)
            polls = self.polls
            self._execute(split, 1)
            if self.changes != changes:
                return False
            if self.polls == polls:
                continue
            split.polled = w.site, w.polled
            state: tuple[object, ...] = (w.site, *(register.tobytes() for register in w.regs))
            if state == known:
                return True
            count += 1
            if not count & (count - 1):  # keeps few states, and still finds every repetition (Brent)
                known = state
        return False

    # ------------------------------------------------------------ waiting

    def park(self, split: LaneGroup, on: object) -> None:
        """Block *split* until :meth:`wake` is called for *on*."""
        split.waits = on
        self.parked.append(split)
        if self.tracer is not None:
            self.tracer("park", split.warp, split.warp.site, "")

    def hold(self, split: LaneGroup) -> None:
        """Let *split* continue only when no others can, as the schedule has it."""
        self.held.append(split)

    def wake(self, on: object) -> None:
        """Unblock all groups of lanes that wait for *on*."""
        for split in [s for s in self.parked if s.waits is on]:
            self.resume(split)

    def resume(self, split: LaneGroup) -> None:
        """Unblock a group of lanes that was parked."""
        self.parked.remove(split)
        self.polls = 0
        split.waits = None
        self.ready.append(split)
        if self.tracer is not None:
            self.tracer("wake", split.warp, split.pc, "")

    def progress(self) -> None:
        """Reset the count of turns without progress: other threads may have been waiting for this event."""
        self._idle_turns = 0
        self.changes += 1

    def advance_phase(self, mbarrier: ExecutorMbarrier) -> None:
        """Complete the phase of an mbarrier that has received something if nothing is pending in it, and wake its waiters."""
        self.progress()
        if mbarrier.advance_phase():
            self.wake(mbarrier)

    def _settle(self) -> bool:
        """Complete a phase that has received copies of unknown size, when no thread can issue another one.

        How many bytes such a copy completes is unknown, and so is how many copies the phase consists of. All of them
        have been issued once every thread waits, because threads that issue copies for the next phase wait for this one.
        """
        pending = {id(f.mbarrier) for f in self.operations}
        wanted = {
            id(s.waits): s for s in self.parked
            if isinstance(s.waits, ExecutorMbarrier) and s.waits.boxes and id(s.waits) not in pending
        }  # fmt: skip
        for split in wanted.values():
            mbarrier = split.waits
            assert isinstance(mbarrier, ExecutorMbarrier)
            boxes, size, expects = frozenset(mbarrier.boxes.items()), mbarrier.bytes, mbarrier.expects
            if mbarrier.advance_phase(settled=True):
                if len(wanted) == 1 and not self.ready:
                    self._compare_bytes(split.warp, mbarrier, boxes, size, expects)
                self.progress()
                self.wake(mbarrier)
                return True
        return False

    def _compare_bytes(
        self, w: Warp, mbarrier: ExecutorMbarrier, boxes: frozenset[tuple[Box, int]], size: int, expects: int
    ) -> None:
        """Report a phase that expects *size* bytes of the copies *boxes*, if another phase expects a different number.

        A map has one box, and a copy completes all its bytes (9.7.9.27.1.2), so one of the two phases never completes,
        or does so too early. The phase must be the only one that threads wait for: otherwise a thread that waits for
        another one may have a copy of this phase to issue.
        """
        other, at = self._bytes_of_boxes.setdefault(boxes, (size, expects))
        if other != size:
            text = f"{size} bytes are expected of copies of which another phase expects {other}"
            self.observe("box-bytes", w, text, at, expects)

    # ------------------------------------------------------------ divergence

    def fork(self, split: LaneGroup, paths: Sequence[tuple[int, Array]], meet: int) -> None:
        """Divide *split* into the groups of *paths*, (instruction, lanes), which reconverge at *meet* (-1: nowhere)."""
        w = split.warp
        w.splits.remove(split)
        join = split.join
        if meet >= 0 and (join is None or join.pc != meet):
            join = ReconvergencePoint(meet, split.mask, join)
        for pc, mask in reversed(paths):
            if join is not None and pc == join.pc:
                join.arrived = join.arrived | mask
            else:
                self._start(LaneGroup(w, pc, mask, join), first=True)
        if join is not None:
            self._rejoin(w, join)

    def _arrive(self, split: LaneGroup) -> None:
        """*split* has reached its reconvergence point."""
        join = split.join
        assert join is not None
        split.warp.splits.remove(split)
        join.arrived = join.arrived | split.mask
        self._rejoin(split.warp, join)

    def _rejoin(self, w: Warp, join: ReconvergencePoint) -> None:
        """Continue as one group if all lanes that *join* expects have arrived."""
        if join.arrived.any() and not (join.expected & ~join.arrived).any():
            mask, join.arrived = join.arrived, np.zeros(LANES, bool)
            join.expected = join.arrived
            outer = join.outer
            if outer is not None and outer.pc == join.pc:
                outer.arrived = outer.arrived | mask
                self._rejoin(w, outer)
            else:
                self._start(LaneGroup(w, join.pc, mask, outer), first=True)

    def _force_apart(self) -> bool:
        """Resume lanes that wait at a reconvergence point without the lanes that are missing there.

        Every thread must make progress, even if the missing lanes wait for it (3.1). False if no lane is waiting.
        """
        found = False
        for w in [w for cluster in self.clusters for cta in cluster.ctas for w in cta.warps]:
            for split in list(w.splits):
                join = split.join
                while join is not None:
                    if join.arrived.any():
                        found = True
                        w.forced_apart = True
                        rest = join.expected & ~join.arrived
                        join.expected = join.arrived
                        self._rejoin(w, join)
                        join.expected = rest
                    join = join.outer
        return found

    def leave(self, split: LaneGroup, mask: Array) -> int | None:
        """The lanes of *mask* exit (9.7.12.7): ENDED if they are the whole *split*, else None."""
        w = split.warp
        w.alive = w.alive & ~mask
        remaining = split.mask & ~mask
        if remaining.any():
            split.narrow(remaining)
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
            for operation in w.cta.uncommitted:
                # Another thread may commit a copy or a shift, after it has issued a multiplication (9.7.16.6.4.3).
                if not w.cta.running or (operation.warp is w and operation.what == "tcgen05.mma"):
                    text = f"exits, and no commit tracks the {operation.what}"
                    self.observe("uncommitted", w, text, operation, operation.site)
            for site, arrived in w.cta.warpgroup_arrivals.items():
                if w.index not in arrived and any(other >> 2 == w.index >> 2 for other in arrived):
                    name = self.code.function.instructions[site].name
                    text = f"not all warps of the warpgroup execute {name}"
                    self.observe("warpgroup", w, text, site=site)
            if not w.cta.running:
                self._end(w)
        w.cta.cluster.forget(w, mask)
        for number, barrier in w.cta.barriers.items():
            barrier.count(w)
            self.pass_barrier(w.cta, number, barrier)
        self.pass_cluster(w.cta.cluster)
        for arrivals in list(w.collectives.values()):
            for arrival in arrivals:
                if arrival.split in self.parked:
                    self.resume(arrival.split)
        return None if remaining.any() else ENDED

    def _end(self, w: Warp) -> None:
        """The last warp of a CTA, *w*, has exited: from now on its shared memory must not be accessed."""
        cta = w.cta
        for operation in list(cta.shared.operations):
            into = any(memory is cta.shared for memory, _ in operation.writes)
            if not operation.done and (into or not operation.captured):
                does = "into its shared memory completes" if into else "has read its shared memory"
                self.observe(
                    "left-in-flight", w, f"the CTA exits before the {operation.what} {does}", operation
                )  # fmt: skip
                if self._able(operation):
                    self.complete(operation)
        for allocation in cta.columns.values():
            text = "the CTA exits with tensor memory still allocated"
            self.observe("tensor-memory-leak", w, text, allocation.site)
        cta.shared.exited = True

    # ------------------------------------------------------------ barriers

    def pass_barrier(self, cta: Cta, number: int, barrier: ExecutorBarrier) -> None:
        """Complete CTA barrier *number* if enough threads have arrived, and release the threads that wait there."""
        needed = barrier.needed or cta.threads
        complete = barrier.completed(needed)
        if complete is None:
            return
        if complete.arrived:
            self.observe(
                "barrier-count", complete.waiting[0].warp if complete.waiting else cta.warps[0],
                f"{needed + complete.arrived} threads arrive at barrier {number}, which expects {needed}",
            )  # fmt: skip
        self.progress()
        for split in complete.waiting:
            split.warp.clocks.join(complete.clocks)
            split.warp.tick()
            if id(split) in complete.results:
                complete.results[id(split)](complete.votes)
            self.resume(split)

    def pass_cluster(self, cluster: Cluster) -> None:
        """The same for the cluster barrier, where threads that have exited count as arrived (9.7.13.4)."""
        complete = cluster.barrier.completed(sum(cta.threads for cta in cluster.ctas))
        if complete is None:
            return
        self.progress()
        cluster.barrier.votes = [complete.clocks.seen, complete.clocks.fenced]
        for split in complete.waiting:
            self.resume(split)

    # ------------------------------------------------------------ asynchronous operations

    def issue(self, operation: AsyncOperation) -> None:
        """Issue an asynchronous operation: report its conflicts, then complete it at once or put it in flight."""
        w = operation.warp
        self._issued += 1
        operation.number = self._issued
        for written in operation.writes:
            self.check_fill(w, written, operation)
        self.check_drain(w, operation.reads, operation)
        if self.tracer is not None:
            self.tracer("issue", w, operation.site, f"{operation.number} {operation.what}")
        if self.schedule.at_once(operation.site) and self._able(operation):
            self.complete(operation)
            return
        self.operations.append(operation)
        for memory, words in operation.writes:
            memory.filling[words] += 1
            if not operation.adds:
                memory.poison(words)
            memory.operations.append(operation)
        for memory, words in operation.reads:
            memory.draining[words] += 1
            memory.operations.append(operation)
        for warp, registers in operation.filling.items():
            warp.filling.update(dict.fromkeys(registers, operation))
        for warp, registers in operation.draining.items():
            warp.draining.update(dict.fromkeys(registers, operation))
        operation.locked = True

    def check_fill(self, w: Warp, written: Range, operation: AsyncOperation) -> None:
        """Report what conflicts with an asynchronous write: pending operations on its bytes, and unordered accesses."""
        what = operation.what
        memory, words = written
        if memory.exited:
            self.observe("exited-cta", w, f"the {what} writes shared memory of a CTA that has exited")
        if memory.draining[words].any():
            for other in memory.pending_operations(words, writes=False):
                text = f"the {what} overwrites shared memory that a pending {other.what} still reads"
                self.observe("source-overwritten", w, text, other)
        elif memory.filling[words].any():
            for other in memory.pending_operations(words, writes=True, adds=not operation.adds):
                text = f"the {what} writes shared memory that another pending {other.what} has yet to write"
                self.observe("filled-twice", w, text, other)
        for writes, how in ((False, "read"), (True, "wrote")):
            for stamp, site in memory.unordered_accesses(words, writes, w.clocks.seen):
                self.observe(
                    "unordered", w,
                    f"the {what} writes shared memory that {self.who(w, stamp)} {how}, and nothing orders the two",
                    site,
                )  # fmt: skip

    def check_drain(self, w: Warp, reads: Sequence[Range], operation: AsyncOperation) -> None:
        """Report what conflicts with an asynchronous read: pending writes of its bytes, unordered ones, and ones that
        no proxy fence has made visible to the async proxy."""
        what = operation.what
        for memory, words in reads:
            if memory.exited:
                self.observe("exited-cta", w, f"the {what} reads shared memory of a CTA that has exited")
            self.count_unwritten(w, memory, words)
            if memory.filling[words].any():
                for other in memory.pending_operations(words, writes=True):
                    text = f"the {what} reads shared memory that a pending {other.what} has yet to write"
                    self.observe("read-too-early", w, text, other)
            invisible = memory.unordered_accesses(words, True, w.clocks.fenced)
            unordered = [(s, at) for s, at in invisible if (s >> 10) > int(w.clocks.seen[s & 1023])]
            for stamp, site in unordered:
                text = f"{self.who(w, stamp)} wrote, and nothing orders the two"
                self.observe("unordered", w, f"the {what} reads shared memory that {text}", site)
            if not invisible or unordered:
                continue
            for _, site in invisible:
                self.observe(
                    "proxy", w,
                    f"the {what} reads, through the async proxy, shared memory that was written through the generic"
                    " proxy, with no intervening proxy fence",
                    site,
                )  # fmt: skip
            if self.schedule.kind == "eager":
                continue  # it reads what a GPU usually reads
            numbers = np.arange(words.start, words.stop) if isinstance(words, slice) else words
            stamps = memory.written[numbers]
            unseen = (stamps >> 10) > w.clocks.fenced[stamps & 1023]
            operation.unseen.append(
                Range(memory, numbers[unseen & self._hidden(w.site, memory.writer[numbers])])
            )

    def _hidden(self, site: int, writers: Array) -> Array | bool:
        """Which of the words that *writers* have written an asynchronous read at *site* does not see without a proxy fence."""
        if self._noted is None:
            return True
        function = self.code.function
        seen = [
            at
            for at in np.unique(writers).tolist()
            if self._noted(Observation("proxy", site, "", "", at), function)
        ]
        hidden: Array = ~np.isin(writers, seen)
        return hidden

    def _able(self, operation: AsyncOperation) -> bool:
        """Whether all participants of an operation, and of those that complete before it, have arrived."""
        return all(f.done or f.ready is None or f.ready() for f in (operation, *operation.before))

    def can_complete(self, operation: AsyncOperation) -> bool:
        """Whether an operation has completed, or may complete now."""
        return operation.done or self._able(operation)

    def capture(self, operation: AsyncOperation) -> None:
        """Read the sources of an operation, unless it has; they may be overwritten from now on."""
        if operation.captured:
            return
        operation.captured = True
        if operation.capture is not None:
            _as_seen(operation, operation.capture)
        if operation.locked:
            for memory, words in operation.reads:
                memory.draining[words] -= 1
            for warp, registers in operation.draining.items():
                _release(warp.draining, registers, operation)
        for memory, words in operation.reads:
            memory.read_by[words] = operation.stamp or operation.warp.stamp
            memory.reader[words] = operation.site

    def unlock(self, w: Warp, operation: AsyncOperation) -> None:
        """Order warp *w* after an operation of its warpgroup that it has waited for, and release its registers in it.

        The four warps issue one operation (9.7.15): when one of them has waited for it, the reads of all are complete.
        For an operation other than ``wgmma`` this does nothing.
        """
        if "parts" in operation.note:
            w.clocks.seen[w.warpgroup] = max(w.clocks.seen[w.warpgroup], operation.stamp >> 10)
            for locks in (w.filling, w.draining):
                for register in [r for r, f in locks.items() if f is operation]:
                    del locks[register]

    def complete(self, operation: AsyncOperation) -> None:
        """Complete an operation, after those that complete before it."""
        waiting = [operation]
        while waiting:
            earlier = next((f for f in waiting[-1].before if not f.done), None)
            if earlier is not None:
                waiting.append(earlier)
                continue
            last = waiting.pop()
            if not last.done:
                self._complete(last)

    def _complete(self, operation: AsyncOperation) -> None:
        self.capture(operation)
        operation.done = True
        operation.before = []
        if operation.locked:
            self.operations.remove(operation)
            for memory, words in operation.writes:
                memory.filling[words] -= 1
            for memory in {id(m): m for m, _ in (*operation.writes, *operation.reads)}.values():
                memory.operations[:] = [f for f in memory.operations if f is not operation]
        written = operation.written
        if operation.mbarrier is not None and operation.writes:
            cluster = operation.warp.cta.cluster
            cluster.copies += 1
            written = 0 if operation.adds else cluster.copies << 10 | cluster.warps
            for clock in (operation.mbarrier.clocks.seen, operation.mbarrier.clocks.fenced):
                clock[cluster.warps] = cluster.copies
        for memory, words in operation.writes:
            memory.written[words] = written
            memory.writer[words] = operation.site
            memory.read_by[words] = 0
        if operation.finish is not None:
            _as_seen(operation, operation.finish)
        if operation.locked:
            for warp, registers in operation.filling.items():
                _release(warp.filling, registers, operation)
        if self.tracer is not None:
            self.tracer("land", operation.warp, operation.site, f"{operation.number} {operation.what}")
        self.progress()
        self.wake(operation)

    # ------------------------------------------------------------ reporting

    def observe(
        self,
        kind: str,
        w: Warp,
        message: str,
        other: int | AsyncOperation | ExecutorMbarrier = -1,
        site: int | None = None,
    ) -> None:
        """Record an observation, once for each kind and pair of instructions.

        *other* is what is involved: the conflicting operation, the mbarrier, or the instruction of the other access.
        *site* is the instruction, if it is not the one that *w* executes.
        """
        at = w.site if site is None else site
        signals = (other.mbarrier, *other.tracked) if isinstance(other, AsyncOperation) else (other,)
        mbarriers = tuple(m for m in signals if isinstance(m, ExecutorMbarrier))
        crosses = other.warp is not w if isinstance(other, AsyncOperation) else kind.endswith("unordered")
        cause = other if isinstance(other, int) else other.site
        key = (kind, at, cause)
        if key in self._reported:
            return
        self._reported.add(key)
        lanes = w.lanes
        thread = f"{w.name()}, lane {int(lanes[0])}" if len(lanes) == 1 else w.name()
        users = frozenset(use for m in mbarriers for use in (m.site, *m.users))
        found = Observation(kind, at, message, thread, cause, self.steps, users, crosses)
        self._observed.append((found, mbarriers))

    @property
    def observations(self) -> list[Observation]:
        """What was observed so far."""
        return [
            replace(found, later=frozenset(use for m in mbarriers for use in m.users) - found.users)
            for found, mbarriers in self._observed
        ]

    @property
    def at(self) -> int:
        """The instruction executed last; -1 before the first one."""
        return self._warp.site if self._warp is not None else -1

    def who(self, w: Warp, stamp: int) -> str:
        """The warp, warpgroup or asynchronous copy that a stamp identifies, for a message."""
        number, cluster, what, each = stamp & 1023, w.cta.cluster, "warp", self.geometry.warps
        if number == cluster.warps:
            return "an asynchronous copy"
        if number > cluster.warps:
            what, each = "warpgroup", cluster.warpgroups
            number -= cluster.warps + 1
        rank = f" of CTA {number // each} of the cluster" if self.geometry.ranks > 1 else ""
        return f"{what} {number % each}{rank}"

    def count_unwritten(self, w: Warp, memory: Shared, words: slice | Array) -> None:
        """Record a read of *words* if nothing has written some of them."""
        if count := memory.first_reads(words):
            self.unwritten[w.site] = self.unwritten.get(w.site, 0) + 4 * count

    def note(self, text: str, site: int) -> None:
        """Record a deviation from what a GPU does, once for each text."""
        self.notes.setdefault(text, site)


def _as_seen(operation: AsyncOperation, act: Callable[[], None]) -> None:
    """Call *act* with poison in the words whose generic writes are not visible to the operation."""
    invisible = [(memory, words, memory.views[4][words]) for memory, words in operation.unseen]
    for memory, words, _ in invisible:
        memory.poison(words)
    act()
    for memory, words, values in invisible:
        memory.views[4][words] = values


def _release(locks: dict[int, AsyncOperation], registers: Iterable[int], operation: AsyncOperation) -> None:
    for register in registers:
        if locks.get(register) is operation:
            del locks[register]
