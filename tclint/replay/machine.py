"""Executes the instructions of one launch of a cluster (PTX ISA 9.7.9.25, 9.7.13, 9.7.15, 9.7.16).

Model. Threads perform epochs; an instruction that releases ends one (``Epochs.end``). A wait
that succeeds joins what the barrier, the phase of the mbarrier or the completed operations release into the clocks of
the waiting warps. Asynchronous operations are events of agents of their own. They stay pending until no thread can
continue without them, so that a missing wait shows: then copies complete, with the commits to mbarriers that a thread
waits for, and other commits only after these. The completion of a copy releases the copy, not what its thread did
before it issued it; that this is nevertheless earlier in every run is what :meth:`Machine.ordered_in_time` answers.

Unsound, towards silence. A strong load of shared memory acquires everything that any thread has done so far, as a
flag that it reads may synchronise. Lanes of one warp share a clock where they reconverge. A phase whose tx-count is
unknown completes with any number of bytes. Only the lowest and the highest address of an access are recorded, and
only one thread of those whose addresses depend on the launch.

Unsound, towards a report. Parameters and memory have made-up values, and an unknown branch is taken not to trap.
Whatever else depends on an unknown value ends the replay (``reasons``). A barrier that some lanes of a warp never
reach is opened without them, and only what stays blocked even so is reported
(:meth:`Machine._release_split_barrier`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from typing import Any

from tclint.analyses.mbarriers import MAX_COUNT, RESPONSE, transaction_unit, transferred
from tclint.ir.nodes import MAX_SHARED_BYTES, Instruction, Memory, Not, Operand, Pair, Vector
from tclint.isa.forms import Match
from tclint.replay.abstract_lanes import Lanes, apply, broadcast, collapse
from tclint.replay.accesses import CTA_STRIDE, OFFSET, Access, LaneAddresses
from tclint.replay.lane_exchange import (
    barrier_result,
    elected_lanes,
    match_result,
    reduced,
    shuffle_sources,
    vote_result,
)
from tclint.replay.launch import Launch
from tclint.replay.program import BULK, CP_ASYNC, Program, Step
from tclint.replay.reasons import Reason
from tclint.replay.scheduler import (
    Limits,
    ThreadGroupScheduler,
    TooManyMbarriers,
    UninitialisedMbarrier,
    Unresolved,
)
from tclint.replay.sync import (
    Arrival,
    Barrier,
    BarrierArrival,
    Mbarrier,
    PhaseOverlap,
    ReleasedWaiter,
    Transfer,
)
from tclint.replay.thread_groups import Stuck, ThreadGroup, positions_of, warps_of
from tclint.replay.vector_clocks import (
    BOTTOM,
    Agent,
    Clock,
    WarpClocks,
    difference,
    event,
    happens_before,
    join,
    join_warps,
    last_event,
    leq,
    map_warps,
    mask_warps,
    project,
    select_warps,
)

__all__ = ["Machine", "Overrun"]

_COLUMN = (1 << 21) - 1
"""The part of a tensor-memory address that is the column. Each warp has 32 lanes of its own (9.7.16.8.1)."""
_DESCRIPTOR = (1 << 14) - 1
"""The part of a matrix descriptor that is the start address, in units of 16 bytes (9.7.15.5.1.2.2, 9.7.16.4.1)."""
_ALL = 0xFFFF
"""The mask of all CTAs of a cluster."""
_OWN = -1
"""No mask: the CTA of the address."""
ALIGNMENT = 8
"""The alignment of an mbarrier in bytes (9.7.13.15.1)."""
_PURE_QUERIES = ("mbarrier-wait", "elect", "shuffle", "vote", "match", "redux", "activemask")
"""Steps without an effect on other threads: a test of an mbarrier that is repeated after only these has the same
result.
"""
_DATA = frozenset("compute constant unknown move load store read tensor write fill".split())
"""Steps that neither synchronise nor release anything."""


class Overrun(Exception):
    """An arrival at an mbarrier whose pending count is zero."""

    def __init__(self, at: Stuck) -> None:
        super().__init__("more arrivals than the mbarrier counts")
        self.at = at


class Machine(ThreadGroupScheduler):
    """One launch of a cluster."""

    def __init__(self, program: Program, launch: Launch, limits: Limits) -> None:
        super().__init__(program, launch, limits)
        self.accesses: list[Access] = []
        self._mbarriers: dict[int, Mbarrier] = {}
        self.completed_phases: dict[tuple[int, int], int] = {}
        """How many phases of an mbarrier each wait has seen complete, by the wait and the address."""
        self.acquiring_waits: set[int] = set()
        """Waits for mbarriers that acquired something."""
        self.executed: set[int] = set()
        """The instructions that synchronise and that a thread has executed."""
        self.misused: dict[int, str] = {}
        """How instructions use an mbarrier as the ISA does not admit, though the replay continues."""
        self._unsettled: frozenset[int] = frozenset()
        self._barriers: dict[tuple[int, int], Barrier] = {}
        self._cluster_barrier = Barrier()
        self._overlaps: dict[tuple[int, int], PhaseOverlap] = {}
        """The first overlap of phases of a CTA barrier for each pair of instructions."""
        self._memory: dict[int, int | None] = {}
        """The bytes of shared memory that the kernel has written; None: unknown."""
        self._clobbered_loads: set[int] = set()
        """Loads that may read what was stored to an unknown address."""
        self._operation_counts: dict[Agent, int] = {}
        """How many operations each agent has issued."""
        self.copy_counts: dict[Agent, int] = {}
        """How many copies complete on each mbarrier."""
        self._elected: dict[tuple[tuple[int, ...], tuple[int, ...], int], tuple[Lanes, Lanes] | None] = {}
        """The results of elections, by the threads of the group, those that execute, and the mask."""
        self._issue_clocks: dict[tuple[int, int], Clock] = {}
        """What happens before the issue of an operation and of those before it, by the index of the agent and the
        number.
        """
        self._time_closures: dict[Clock, Clock] = {}
        """The closure of a clock under what precedes the issue of the copies in it."""
        self._cancelled: dict[int, int] = {}
        """How often each CTA has executed ``try_cancel``."""
        self._columns: dict[int, int] = {}
        """The allocated columns of tensor memory by CTA."""
        self._counter_reads: dict[int, int] = {}
        """How often each atomic increment has read its counter."""
        self._begun_arrays: set[tuple[int, tuple[int, ...]]] = set()
        """The accesses that may leave their array in a later iteration, by the threads that have made them."""
        self.oversized = False
        """Copies have more bytes than an mbarrier counts, so the phases that they complete show nothing."""
        self._split_waiters: list[Stuck] | None = None
        """The blocked threads when a split barrier was first released; None: none was."""

    def run(self) -> list[Stuck]:
        try:
            stuck = super().run()
        except (Overrun, UninitialisedMbarrier):
            if self._split_waiters is None:
                raise
            stuck = []
        if self._split_waiters is None:
            return stuck
        ever = [
            s
            for s in stuck
            if isinstance(s.what, Mbarrier) and any(s is before for before in self._split_waiters)
        ]
        if not ever:
            raise Unresolved(self._split_waiters[0].site, Reason.SPLIT_WARP)
        return ever

    @property
    def late(self) -> list[tuple[Mbarrier, ReleasedWaiter]]:
        """Waits that would wait for a later phase if their thread were slower."""
        if self._split_waiters is not None:
            return []
        return [
            (mbarrier, waiter)
            for mbarrier in self._mbarriers.values()
            for waiter, clock in mbarrier.overtaken
            if waiter.may_be_late(partial(self.ordered_in_time, clock))
        ]

    @property
    def overlaps(self) -> list[PhaseOverlap]:
        """Arrivals at CTA barriers that may count for a phase that they do not belong to.

        Empty if threads poll global memory, which may order them and is not followed.
        """
        if not self._overlaps or self._split_waiters is not None or self.program.polls:
            return []
        return list(self._overlaps.values())

    def ordered_in_time(self, observed: Clock, agent: Agent, number: int) -> bool:
        """Whether a point with the clock *observed* follows an event of *agent* in every run.

        The completion of a copy does not release what its thread did before. But it is later in time, so no access
        that follows the completion can come before that.
        """
        if happens_before(observed, agent, number):
            return True
        known = self._time_closures.get(observed)
        if known is None:
            known, work = observed, [*difference(BOTTOM, observed)]
            while work:
                before = self._issue_clocks.get(work.pop(), BOTTOM)
                work += difference(known, before)
                known = join(known, before)
            self._time_closures[observed] = known
        return happens_before(known, agent, number)

    @property
    def completed_mbarriers(self) -> dict[int, int]:
        """The mbarriers that have completed a phase: the ``mbarrier.init`` of each, by address."""
        return {m.address: m.site for m in self._mbarriers.values() if m.phase}

    def _complete_transfers(self) -> bool:
        """Completes copies, and those commits that a thread waits for. Others may well complete later."""
        waited = {id(g.stuck.what) for g in self.groups if g.stuck is not None}
        for others in (False, True):
            landed = False
            for mbarrier in self._mbarriers.values():
                for transfer in mbarrier.complete_transfers(others or id(mbarrier) in waited):
                    landed = True
                    self._overrun(transfer.site, transfer.threads, mbarrier)
            if landed:
                return True
        # If the launch decides the expected bytes, it may expect none, or no more than the copies so far have completed.
        waiting = [m for m in self._mbarriers.values() if m.tx_guessed and not m.pending and not m.transfers]
        for mbarrier in waiting:
            mbarrier.received_unknown = True
            mbarrier.advance_phase()
        return bool(waiting)

    @property
    def unsettled(self) -> frozenset[int]:
        """The ``mbarrier.init`` of mbarriers that an asynchronous operation may still signal."""
        return self._unsettled.union(each.site for each in self._mbarriers.values() if not each.settled)

    # ------------------------------------------------------------ steps

    def _execute(self, group: ThreadGroup, step: Step) -> bool:
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
            raise Unresolved(step.site, Reason.UNKNOWN_GUARD)
        positions: Sequence[int] = range(len(group.threads))
        if where != 1:
            positions = [i for i, w in enumerate(broadcast(where, len(group.threads))) if w]
        if step.what not in _PURE_QUERIES:
            group.failed_test = ()
        self.executed.add(step.site)
        return handler(self, group, step, positions, where) is not False

    def _guard(self, group: ThreadGroup, instruction: Instruction) -> Lanes:
        """The threads that execute an instruction with a guard."""
        return self._operand(group, Not(instruction.guard) if instruction.negated else instruction.guard)

    # ------------------------------------------------------------ data

    def _unknown(self, group: ThreadGroup, step: Step, where: Lanes) -> None:
        for register in step.instruction.writes:
            self._set(group, register, None)

    def _constant(self, group: ThreadGroup, step: Step, where: Lanes) -> None:
        assert step.compute is not None
        for register in step.instruction.writes:
            self._set(group, register, step.compute(), where)

    def _compute(self, group: ThreadGroup, step: Step, where: Lanes) -> None:
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

    def _load(self, group: ThreadGroup, step: Step, where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        operand = next(o for o in instruction.operands if isinstance(o, Memory))
        own = match.space.startswith(".shared")
        address = self._operand(group, operand) if own and step.site not in self._clobbered_loads else None
        size = _bits(match) // 8
        for i, item in enumerate(_items(instruction.operands[0])):
            value: Lanes = None
            if own:
                at = [address] if isinstance(address, int | None) else address
                value = collapse([None if a is None else self._load_bytes(a + i * size, size) for a in at])
                if value is None and size == RESPONSE and None not in at:
                    value = 0  # the response has not arrived
            elif self.launch.provides(match.space, operand) and match.element[1] != "f":
                base, offset = self.program.word(step)
                value = self.launch.load(base, offset + i * size, size, self.program.buffer(step))
                if step.site in self.program.atomic_counters and _single_thread(where, len(group.threads)):
                    taken = self._counter_reads.get(step.site, 0)
                    self._counter_reads[step.site] = taken + 1
                    value = self.launch.counter_value(taken, value, size)
            if isinstance(item, int):
                self._set(group, item, value, where)
        if own:
            if self.program.is_strong(step.site):
                group.clock = join_warps(group.clock, self.epochs.all_events())
            self._plain_access(group, step, where)

    def _store(self, group: ThreadGroup, step: Step, where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        operand = next(o for o in instruction.operands if isinstance(o, Memory))
        self._plain_access(group, step, where)
        threads = len(group.threads)
        address, executing = broadcast(self._operand(group, operand), threads), broadcast(where, threads)
        if any(a is None and w != 0 for a, w in zip(address, executing, strict=True)):
            self._clobbered_loads |= self.program.overwritten[step.site]
        size = _bits(match) // 8
        for i, item in enumerate(_items(instruction.operands[-1])):
            value = self._operand(group, item)
            stored: dict[int, int | None] = {}
            for w, a, v in zip(executing, address, broadcast(value, threads), strict=True):
                if w != 0 and a is not None:  # which of several stored values remains is unknown
                    number = v if w else None
                    stored[a] = number if stored.get(a, number) == number else None
            for a, number in stored.items():
                self._store_bytes(a + i * size, number, size)

    def _load_bytes(self, address: int, size: int) -> int | None:
        found = [self._memory.get(address + k) for k in range(size)]
        return None if None in found else sum(b << 8 * k for k, b in enumerate(found) if b is not None)

    def _store_bytes(self, address: int, number: int | None, size: int) -> None:
        for k in range(size):
            self._memory[address + k] = None if number is None else number >> 8 * k & 255

    def _invalidate(self, address: int, size: int | None) -> None:
        """Makes *size* bytes unknown.

        If the size is unknown too, as for a tensor, all bytes that were stored contiguously.
        """
        end = address + (CTA_STRIDE if size is None else size)
        while address < end and (size is not None or address in self._memory):
            self._memory[address] = None
            address += 1

    def _plain_access(self, group: ThreadGroup, step: Step, where: Lanes) -> None:
        """Records a plain access to shared memory.

        Without mbarriers, only the first one of some threads counts if later ones may be beyond the array.
        """
        if not self.program.has_mbarriers and self.program.leaves_array(step.site):
            key = step.site, group.threads
            if key in self._begun_arrays:
                return
            self._begun_arrays.add(key)
        writes = step.what in ("store", "write")
        operand = next((o for o in step.instruction.operands if isinstance(o, Memory)), None)
        address = self._operand(group, operand)
        for clock, positions, own in self._accesses_by_clock(group, step, address, where):
            agent, known = self._thread_access(group, group.warps_at(positions), clock)
            lane_addresses = LaneAddresses(_threads_at(group, positions), own, clock)
            for a in _outermost(own, 1):
                self._record(
                    group,
                    step.site,
                    divmod(a, CTA_STRIDE),
                    agent,
                    self.epochs.time,
                    known,
                    writes,
                    lane_addresses=lane_addresses,
                )

    def _thread_access(
        self, group: ThreadGroup, warps: Sequence[int], observed: Clock
    ) -> tuple[Agent, Clock]:
        """The agent of some *warps* that make an access themselves, and the clock of the access."""
        agent = self.epochs.agent_of_warps(group, warps)
        return agent, join(
            join(observed, self.epochs.own_clock(group, warps)), event(agent, self.epochs.time)
        )

    def _accesses_by_clock(
        self, group: ThreadGroup, step: Step, address: Lanes, where: Lanes
    ) -> Iterator[tuple[Clock, Sequence[int], Lanes]]:
        """The positions of the threads that access an *address*, by equal clocks, with their own addresses."""
        if address is None or where is None:
            return
        for clock, positions in self._positions_by_clock(group, step, address, where).items():
            if isinstance(address, tuple) and len(positions) < len(address):
                yield clock, positions, tuple(map(address.__getitem__, positions))
            else:
                yield clock, positions, address

    def _positions_by_clock(
        self, group: ThreadGroup, step: Step, address: int | tuple[int | None, ...], where: Lanes
    ) -> Mapping[Clock, Sequence[int]]:
        """The positions of the threads that access an *address*, by the clock of their warp.

        If the address depends on the launch, only the first: another launch may spread the others elsewhere.
        """
        size, observed = len(group.threads), group.clock
        steady = isinstance(address, int) or self.program.launch_independent(step.site)
        found: dict[Clock, list[int]] = {}
        if where == 1 and steady:
            if isinstance(observed, int):
                return {observed: range(size)}
            if None not in broadcast(address, size):
                for clock, positions in zip(observed, positions_of(group.threads), strict=True):
                    found.setdefault(clock, []).extend(positions)
                return found
        clocks = dict(
            zip(group.warps, repeat(observed) if isinstance(observed, int) else observed, strict=False)
        )
        rows = zip(group.threads, broadcast(address, size), broadcast(where, size), strict=True)
        for position, (thread, a, executes) in enumerate(rows):
            if executes and a is not None:
                found.setdefault(clocks[thread >> 5], []).append(position)
                if not steady:
                    break
        return found

    _read = _write = _plain_access

    def _fill(self, group: ThreadGroup, step: Step, where: Lanes) -> None:
        """A non-bulk copy, pending until its thread waits for it or an mbarrier that tracks it completes."""
        address, size = self._role(group, step, "destination"), self._role(group, step, "bytes")
        known = size if isinstance(size, int) else None
        for _, positions, own in self._accesses_by_clock(group, step, address, where):
            agent, number, clock = self._new_operation(CP_ASYNC, group, positions)
            for a in _outermost(own, 1):
                location = divmod(a, CTA_STRIDE)
                self._record(group, step.site, location, agent, number, clock, True, known, box=step.site)

    def _tensor(self, group: ThreadGroup, step: Step, where: Lanes) -> None:
        """A load or a store of tensor memory, in the lanes of each warp (9.7.16.8.1)."""
        instruction, followed = step.instruction, self.program.sliced_registers
        for register in instruction.writes:
            if register in followed:
                self._set(group, register, None)
        address = self._role(group, step, "taddr")
        writes = instruction.group == "tcgen05.st"
        if address is None or (writes and where != 1):
            return
        # Whole warps execute it.
        columns = address[::32] if isinstance(address, tuple) else repeat(address)
        clocks = repeat(group.clock) if isinstance(group.clock, int) else group.clock
        found: dict[tuple[int, int, Clock], list[int]] = {}
        for warp, column, clock in zip(group.warps, columns, clocks, strict=False):
            if column is not None:
                found.setdefault((warp % self.program.warps, column & _COLUMN, clock), []).append(warp)
        for (lanes, column, clock), warps in found.items():
            agent, known = self._thread_access(group, warps, clock)
            locations = [(group.cta, lanes)]
            self._record_tensor(
                group, step, "taddr", column, locations, agent, self.epochs.time, known, writes
            )

    def _record_tensor(
        self,
        group: ThreadGroup,
        step: Step,
        role: str,
        address: int,
        locations: Iterable[tuple[int, int]],
        agent: Agent,
        number: int,
        clock: Clock,
        writes: bool,
    ) -> None:
        """Records an access to tensor memory at *locations*: a CTA and a quarter of the lanes each."""
        size = self.program.columns.get((step.site, role))
        for cta, lanes in locations if size is not None else ():
            location = cta, address & _COLUMN
            self._record(
                group, step.site, location, agent, number, clock, writes, size, box=step.site, lanes=lanes
            )

    def _record(
        self,
        group: ThreadGroup,
        site: int,
        location: tuple[int, int],
        agent: Agent,
        number: int,
        clock: Clock,
        writes: bool = False,
        size: int | None = None,
        mbarrier: Mbarrier | None = None,
        box: object = None,
        lanes: int = -1,
        lane_addresses: LaneAddresses | None = None,
    ) -> None:
        """Records that *agent* reads or writes at a *location*: a CTA and an offset."""
        cta, offset = location
        if cta in self.alive and self._split_waiters is None and self.program.follows_memory:
            phase = mbarrier.phase if mbarrier is not None else 0
            self.accesses.append(
                Access(
                    site, writes, (cta, lanes), offset, size, agent, number, clock, group, group.waited,
                    mbarrier, phase, box, lane_addresses,
                )
            )  # fmt: skip

    # ------------------------------------------------------------ lanes

    def _on_elect(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> bool:
        """The lowest lane of the mask, in each warp (9.7.13.14)."""
        destination = step.instruction.operands[0]
        mask = self._operand(group, step.instruction.operands[1])
        if not isinstance(mask, int):
            raise Unresolved(step.site, Reason.UNKNOWN_MASK)
        key = group.threads, _threads_at(group, positions), mask
        if key not in self._elected:
            self._elected[key] = elected_lanes(*key, self.launch.shape.threads)
        elected = self._elected[key]
        if elected is None:
            return self._await_lanes(group, step, mask)
        if isinstance(destination, Pair):
            for register, value in zip(destination, elected, strict=True):
                if isinstance(register, int):
                    self._set(group, register, value, where)
        return True

    def _await_lanes(self, group: ThreadGroup, step: Step, mask: int) -> bool:
        """Blocks until the missing lanes of *mask* arrive (9.7.13.14)."""
        warps = {thread >> 5 for thread in group.threads}
        away = {w * 32 + lane for w in warps for lane in range(32) if mask >> lane & 1}.difference(
            group.threads
        )

        def arrived() -> bool:
            others = [g for g in self.living() if g.cta == group.cta and not away.isdisjoint(g.threads)]
            alive = away.issubset(t for g in others for t in g.threads)
            if not alive or any(g.stuck is not None and g.stuck.site == step.site for g in others):
                raise Unresolved(step.site, Reason.LANES_ELSEWHERE)
            return False

        group.stuck = Stuck(step.site, group.threads, Barrier())
        group.waits = arrived
        return arrived()

    def _on_shuffle(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        source, *lanes = (self._operand(group, o) for o in instruction.operands[1:4])
        destination = instruction.operands[0]
        value: Lanes = source if isinstance(source, int) else None
        inside: Lanes = None
        if where == 1 and None not in lanes and (isinstance(source, tuple) or isinstance(destination, Pair)):
            key = match.modifiers, group.threads, *lanes
            if key not in self.program.shuffles:
                self.program.shuffles[key] = shuffle_sources(match, group.threads, lanes)
            inside, froms = self.program.shuffles[key]
            if isinstance(source, tuple):
                value = collapse([None if p is None else source[p] for p in froms])
        if isinstance(destination, Pair):
            if isinstance(destination.second, int):
                self._set(group, destination.second, inside, where)
            destination = destination.first
        if isinstance(destination, int):
            self._set(group, destination, value, where)

    def _on_vote(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        source = self._operand(group, instruction.operands[1])
        value: Lanes = None
        if source is not None:
            answers = {warp: vote_result(match, lanes) for warp, lanes in _by_warp(group, source).items()}
            value = collapse([answers[t >> 5] for t in group.threads])
        for register in instruction.writes:
            self._set(group, register, value, where)

    def _on_match(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        instruction, match = step.instruction, step.instruction.match
        assert match is not None
        source, mask = self._role(group, step, "source"), self._role(group, step, "mask")
        found: list[tuple[int | None, int | None]] = [(None, None)] * len(group.threads)
        if where == 1 and source is not None and isinstance(mask, int):
            answers = {
                warp: match_result(match, lanes, mask) for warp, lanes in _by_warp(group, source).items()
            }
            found = [(answers[t >> 5] or {}).get(t & 31, (None, None)) for t in group.threads]
        destination = instruction.operands[0]
        both = destination if isinstance(destination, Pair) else (destination,)
        for register, value in zip(both, zip(*found, strict=True), strict=False):
            if isinstance(register, int):
                self._set(group, register, collapse(value), where)

    def _on_redux(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        match = step.instruction.match
        assert match is not None
        source, mask = self._role(group, step, "source"), self._role(group, step, "mask")
        value: Lanes = None
        if where == 1 and source is not None and isinstance(mask, int):
            answers = {warp: reduced(match, lanes, mask) for warp, lanes in _by_warp(group, source).items()}
            value = collapse([answers[t >> 5] for t in group.threads])
        for register in step.instruction.writes:
            self._set(group, register, value, where)

    def _on_activemask(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        active: dict[int, int] = {}
        for thread in _threads_at(group, positions):
            active[thread >> 5] = active.get(thread >> 5, 0) | 1 << (thread & 31)
        for register in step.instruction.writes:
            self._set(group, register, collapse([active.get(t >> 5, 0) for t in group.threads]), where)

    # ------------------------------------------------------------ mbarriers

    def _mbarrier(self, step: Step, address: int) -> Mbarrier:
        found = self._mbarriers.get(address)
        if found is None:
            made = {m.address & OFFSET: m.site for m in self._mbarriers.values()}
            raise UninitialisedMbarrier(step.site, Reason.UNINITIALISED_MBARRIER, address & OFFSET, made)
        return found

    def _ctas(self, group: ThreadGroup, step: Step) -> Lanes:
        """The mask of the CTAs that an operation signals; _OWN without a mask."""
        return self._role(group, step, "mask", _OWN)

    def _signalled(self, step: Step, address: int, mask: int) -> list[Mbarrier]:
        """The mbarrier at an address, or with a mask of CTAs the one at the same offset in each of them."""
        if mask == _OWN:
            return [self._mbarrier(step, address)]
        return [self._mbarrier(step, address & OFFSET | rank << 24) for rank in self._ranks(step, mask)]

    def _by_operands(
        self, step: Step, positions: Sequence[int], *values: Lanes
    ) -> Mapping[tuple[int, ...], Sequence[int]]:
        """The distinct values of operands, each with the positions of the threads that have them."""
        if None in values:
            raise Unresolved(step.site, Reason.UNKNOWN_OPERAND)
        if tuple not in map(type, values):
            return {tuple(values): positions}  # type: ignore[arg-type]
        columns = [map(v.__getitem__, positions) if isinstance(v, tuple) else repeat(v) for v in values]
        found: dict[Any, list[int]] = {}
        for position, row in zip(positions, zip(*columns, strict=False), strict=False):
            found.setdefault(row, []).append(position)
        if any(None in row for row in found):
            raise Unresolved(step.site, Reason.UNKNOWN_OPERAND)
        return found

    def _on_mbarrier_init(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> None:
        address, count = self._role(group, step, "mbarrier"), self._role(group, step, "count")
        many = self.program.mbarrier_count_words(step.site)
        for at, number in self._by_operands(step, positions, address, count):
            beyond = not 0 <= at - group.cta * CTA_STRIDE < MAX_SHARED_BYTES
            if many and (beyond or (at in self._mbarriers and self._mbarriers[at].site != step.site)):
                raise TooManyMbarriers(step.site, many)
            if at in self._mbarriers and not self._mbarriers[at].settled:
                self._unsettled |= {self._mbarriers[at].site}
            self._mbarriers[at] = Mbarrier(step.site, at, number & MAX_COUNT, number & MAX_COUNT)
            if at % ALIGNMENT:
                self.misused[step.site] = f"the mbarrier is not aligned to {ALIGNMENT} bytes"
            elif not 0 < number <= MAX_COUNT:
                self.misused[step.site] = f"an mbarrier cannot count {number} arrivals"

    def _on_mbarrier_arrive(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> None:
        instruction = step.instruction
        address = self._role(group, step, "mbarrier")
        count, tx, given = self._role(group, step, "count", 1), *self._bytes(group, step, "tx")
        relaxed = _relaxed(instruction)
        if not relaxed:
            self.epochs.end(group)
        tracks = instruction.group == CP_ASYNC
        if tracks:
            # It arrives when the copies are complete. Without .noinc it first increments the pending count, so the
            # net count is 0 (9.7.13.15.15).
            count = int(".noinc" in instruction.opcode)
        phases = set()
        operands = address, self._ctas(group, step), count, tx
        for (at, mask, number, bytes_), who in self._by_operands(step, positions, *operands).items():
            threads = len(who)
            for mbarrier in self._signalled(step, at, mask):
                phases.add(mbarrier.phase)
                mbarrier.expect(None if given else bytes_ * threads)
                if "drop" in instruction.opcode:
                    mbarrier.count -= number * threads  # first: the next phase counts fewer (9.7.13.15.14)
                clock = (
                    self.epochs.released_by_fence(group, who, mbarrier.address >> 24)
                    if relaxed
                    else self.epochs.release_clock(group, who)
                )
                if tracks:
                    clock = join(clock, self._issued_operations(CP_ASYNC, group, who))
                    mbarrier.signalled = mbarrier.phase + 1
                self._check_tx(step, mbarrier)
                phase = mbarrier.phase
                mbarrier.arrive(number * threads, clock)
                if mbarrier.phase > phase and ".noComplete" in instruction.opcode:
                    self.misused[step.site] = "it completes a phase although it is .noComplete"
                self._overrun(step.site, group.threads, mbarrier)
        state = instruction.role("state")
        if isinstance(state, int):
            self._set(group, state, phases.pop() if len(phases) == 1 else None, where)

    def _check_tx(self, step: Step, mbarrier: Mbarrier) -> None:
        if abs(mbarrier.bytes) > MAX_COUNT:
            self.misused[step.site] = f"the tx-count of an mbarrier cannot be {mbarrier.bytes}"

    def _overrun(self, site: int, threads: tuple[int, ...], mbarrier: Mbarrier) -> None:
        if mbarrier.pending < 0:
            raise Overrun(Stuck(site, threads, mbarrier))

    def _on_mbarrier_expect(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> None:
        address, (tx, given) = self._role(group, step, "mbarrier"), self._bytes(group, step, "tx")
        operands = address, self._ctas(group, step), tx
        for (at, mask, bytes_), who in self._by_operands(step, positions, *operands).items():
            for mbarrier in self._signalled(step, at, mask):
                mbarrier.expect(None if given else bytes_ * len(who))
                self._check_tx(step, mbarrier)

    def _bytes(self, group: ThreadGroup, step: Step, role: str) -> tuple[Lanes, bool]:
        """The bytes of a copy, an expect_tx or a complete_tx, and whether they are made up; then the bytes are 0.

        No kernel is made for a launch with more bytes than an mbarrier counts.
        """
        if self.program.makes_up_bytes(step.site, role):
            return 0, True
        bytes_ = self._role(group, step, role, 0)
        if self.program.depends_on_launch(step.site, role) and any(
            b is not None and b > MAX_COUNT for b in broadcast(bytes_, len(group.threads))
        ):
            self.oversized = True
            return 0, True
        return bytes_, False

    def _on_mbarrier_complete(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> None:
        address, (tx, given) = self._role(group, step, "mbarrier"), self._bytes(group, step, "tx")
        operands = address, self._ctas(group, step), tx
        self.epochs.end(group)
        for (at, mask, bytes_), who in self._by_operands(step, positions, *operands).items():
            for mbarrier in self._signalled(step, at, mask):
                # It is relaxed, and releases if a fence precedes it (8.8). MB013 has a note about one without a fence: on
                # an H100 it was never performed before the earlier stores of its thread to the same CTA.
                released = (
                    self.epochs.release_clock(group, who)
                    if mbarrier.address >> 24 == group.cta
                    else self.epochs.released_by_fence(group, who, mbarrier.address >> 24)
                )
                mbarrier.complete_tx(None if given else bytes_ * len(who), released)
                self._check_tx(step, mbarrier)

    def _on_mbarrier_wait(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> bool:
        address = self._role(group, step, "mbarrier")
        token = step.instruction.role("state") is not None
        phase = self._role(group, step, "state" if token else "parity")
        rows = self._by_operands(step, positions, address, phase)
        tests = sorted(rows)

        def complete(row: tuple[int, ...]) -> bool:
            mbarrier = self._mbarrier(step, row[0])
            return mbarrier.phase > row[1] if token else mbarrier.complete(row[1] & 1)

        complete_now = tuple(map(complete, tests))
        answers, question = dict(zip(tests, complete_now, strict=True)), (step.site, *tests, *complete_now)
        if not all(complete_now) and group.failed_test == question:
            # Nothing was done since the same test: the result is the same until a phase completes.
            at = tests[complete_now.index(False)][0]
            group.stuck = Stuck(step.site, group.threads, self._mbarrier(step, at))
            group.waits = lambda: tuple(map(complete, tests)) != complete_now
            return False
        group.failed_test = () if all(complete_now) else question
        for (at, which), answer in answers.items():
            if answer:
                mbarrier = self._mbarrier(step, at)
                if token:
                    acquired: WarpClocks = mbarrier.release_clocks[which + 1]
                    mbarrier.observed = max(mbarrier.observed, which + 1)
                else:
                    acquired = self._acquired_clocks(group, mbarrier, which & 1)
                self._acquire(group, mbarrier, step, group.only_at(acquired, rows[at, which]))
                self.completed_phases[step.site, at] = mbarrier.phase
                if not token and self.launch.shape.ranks == 1:
                    agent = self.epochs.agent_of_warps(group, group.warps_at(rows[at, which]))
                    mbarrier.released_waiters[agent] = ReleasedWaiter(
                        step.site, agent, group.threads, self.epochs.time, mbarrier.phase
                    )
        destination = step.instruction.role("destination")
        if isinstance(destination, int):
            self._set(group, destination, self._test_results(group, address, phase, answers), where)
        return True

    def _acquired_clocks(self, group: ThreadGroup, mbarrier: Mbarrier, parity: int) -> WarpClocks:
        """What a wait acquires for each warp."""
        observed = join_warps(group.clock, group.unfenced)
        if isinstance(observed, int) and leq(mbarrier.release_clocks[mbarrier.phase], observed):
            return mbarrier.acquired_clock(parity, observed)  # whatever each warp has done
        return map_warps(
            partial(mbarrier.acquired_clock, parity),
            join_warps(self.epochs.full_clocks(group), group.unfenced),
        )

    def _test_results(
        self, group: ThreadGroup, address: Lanes, phase: Lanes, answers: Mapping[tuple[int, ...], bool]
    ) -> Lanes:
        """Whether the phase that each thread tests is complete."""
        if len(different := set(answers.values())) == 1:
            return int(different.pop())
        size = len(group.threads)
        rows = zip(broadcast(address, size), broadcast(phase, size), strict=True)
        return collapse([int(answers.get(row, False)) for row in rows])  # type: ignore[arg-type]

    def _acquire(self, group: ThreadGroup, mbarrier: Mbarrier, step: Step, acquired: WarpClocks) -> None:
        """A relaxed wait acquires nothing without a fence (9.7.13.15.16), except tensor-core operations, as MB013
        assumes.
        """
        if _relaxed(step.instruction):
            group.unfenced = join_warps(group.unfenced, acquired)
            acquired = map_warps(partial(project, self._operation_counts), acquired)
        clock = join_warps(group.clock, acquired)
        if clock != group.clock:
            self.acquiring_waits.add(step.site)
            group.clock = clock
        before = {at: site for at, site in group.waited.items() if at != mbarrier.address}
        group.waited = {**before, mbarrier.address: step.site}

    # ------------------------------------------------------------ barriers

    def _on_memory_fence(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> None:
        self.epochs.fence(group, cluster="cta" not in step.instruction.opcode.split("."))

    def _on_barrier_sync(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> bool:
        return self._cta_barrier(group, step, positions, where, wait=True)

    def _on_barrier_arrive(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> bool:
        if step.instruction.group == "cluster":
            group.cluster = self._cluster_barrier.generation
            self.epochs.fence(group, cluster=True)
            self._cluster_barrier.add_threads(len(positions), self.epochs.release_clock(group, positions))
            self._cluster_barrier.open_if_complete(sum(self.alive.values()))
            return True
        return self._cta_barrier(group, step, positions, where, wait=False)

    def _on_barrier_wait(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
    ) -> bool:
        barrier, since = self._cluster_barrier, group.cluster

        def opened() -> bool:
            if barrier.generation == since:
                barrier.open_if_complete(sum(self.alive.values()))
            return barrier.generation > since

        if not opened():
            group.stuck = Stuck(step.site, group.threads, barrier)
            group.waits = opened
            return False
        group.clock = join_warps(group.clock, group.only_at(barrier.release_clock, positions))
        return True

    def _cta_barrier(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes, wait: bool
    ) -> bool:
        """A CTA barrier."""
        number = self._role(group, step, "id")
        if isinstance(number, tuple) and None not in number:
            self.split(group, number)
            return False
        if not isinstance(number, int):
            raise Unresolved(step.site, Reason.UNKNOWN_BARRIER)
        count = self._role(group, step, "count", 0)
        if count is None or isinstance(count, tuple):
            raise Unresolved(step.site, Reason.UNKNOWN_BARRIER_COUNT)
        threads = _threads_at(group, positions)
        full = _whole_warps(threads)
        away = set[int]() if full else self._warps_elsewhere(group.cta, threads)
        if away and len(positions) < len(group.threads):
            raise Unresolved(step.site, Reason.SPLIT_WARP)
        warp = threads[0] >> 5
        if away and threads[-1] >> 5 != warp:
            self.split(group, tuple(t >> 5 if t >> 5 in away else -1 for t in threads))
            return False
        barrier = self._barriers.setdefault((group.cta, number), Barrier(number))
        arrival = barrier.lanes.setdefault(warp, Arrival()) if away else Arrival()
        self.epochs.fence(group, cluster=False)
        arrival.add(threads, self.epochs.release_clock(group, positions), self._votes(group, step, positions))

        def arrived(whole: bool = False) -> bool:
            """Opens a barrier at which some lanes of a warp wait while the others are blocked elsewhere.

            By the manual the lanes at the barrier deadlock too (9.7.13.1). Only threads that stay blocked although
            the barrier is taken to open are reported.
            """
            if arrival.generation < 0 and (
                whole
                or (
                    arrival.changed(self.alive[group.cta])
                    and not self._warps_elsewhere(group.cta, arrival.lanes)
                )
            ):
                barrier.lanes.pop(warp, None)
                arrival.arrive_at(barrier, warps=count > 0 and not full)
            return arrival.generation >= 0

        def opened() -> bool:
            barrier.wanted = count or self.alive[group.cta]
            if arrived() and barrier.generation == arrival.generation:
                barrier.open_if_complete(barrier.wanted)
            return barrier.generation > arrival.generation >= 0 if wait else arrived()

        def passed() -> None:
            if wait:
                group.clock = join_warps(group.clock, group.only_at(barrier.release_clock, positions))
                self._set_reduction(group, step, barrier.votes.get(arrival.generation, ()), where)

        def completed_phases() -> bool:
            if not opened():
                return False
            passed()
            group.at += 1
            return True

        arrived(whole=not away)
        if count and not away:
            self._count_in_phase(group, step.site, positions, barrier, count)
        if opened():
            passed()
            return True
        group.stuck = Stuck(step.site, group.threads, barrier)
        group.waits = completed_phases
        return False

    def _votes(self, group: ThreadGroup, step: Step, positions: Sequence[int]) -> Iterable[int | None]:
        """The predicates of the threads at *positions* that a barrier reduces; empty if it reduces none."""
        source = step.instruction.role("source")
        if source is None:
            return ()
        return map(broadcast(self._operand(group, source), len(group.threads)).__getitem__, positions)

    def _set_reduction(
        self, group: ThreadGroup, step: Step, votes: Collection[int | None], where: Lanes
    ) -> None:
        """The result of a barrier that reduces *votes*."""
        destination, match = step.instruction.role("destination"), step.instruction.match
        if isinstance(destination, int) and match is not None:
            self._set(group, destination, barrier_result(match, votes), where)

    def _count_in_phase(
        self, group: ThreadGroup, site: int, positions: Sequence[int], barrier: Barrier, count: int
    ) -> None:
        """Notes the arrival of whole warps at a barrier with a thread count, and whether it may share the phase with
        one that it should not.
        """
        warps = group.warps_at(positions)
        known = select_warps(join_warps(self.epochs.full_clocks(group), group.unfenced), group.warps, warps)
        arrival = BarrierArrival(
            site,
            self.epochs.agent_of_warps(group, warps),
            self.epochs.time - 1,
            _threads_at(group, positions),
        )
        found = barrier.overlapping(
            arrival, (known,) if isinstance(known, int) else known, count, self.ordered_in_time
        )
        if found is not None:
            self._overlaps.setdefault((found.first.site, site), found)

    def _release_parked(self) -> bool:
        return super()._release_parked() or self._release_split_barrier()

    def _release_split_barrier(self) -> bool:
        """Opens a barrier at which some lanes of a warp wait while the others are blocked elsewhere.

        By the manual all lanes must arrive (9.7.13.1), so the kernel deadlocks. A device may open the barrier, so
        only threads that stay blocked afterwards are reported.
        """
        stuck = [g.stuck for g in self.groups if g.stuck is not None]
        for barrier in (s.what for s in stuck):
            if isinstance(barrier, Barrier) and barrier.lanes and barrier.missing <= 32 * len(barrier.lanes):
                self._split_waiters = self._split_waiters or stuck
                for arrival in barrier.lanes.values():
                    arrival.arrive_at(barrier, warps=True)
                barrier.lanes.clear()
                return True
        return False

    def _warps_elsewhere(self, cta: int, threads: Collection[int]) -> set[int]:
        """The warps of some *threads* that have other lanes elsewhere which have not exited."""
        here = set(threads)
        warps = {t >> 5 for t in here}
        others = (t for g in self.living() if g.cta == cta for t in g.threads if t >> 5 in warps)
        return {t >> 5 for t in others if t not in here}

    # ------------------------------------------------------------ asynchronous operations

    def _on_issue(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        kind = step.instruction.group
        if kind == "mbarrier":
            self._copy(group, step, positions)
        elif kind == BULK:
            self._copy_out(group, step, positions, where)
        else:
            self.epochs.end(group)
            for who in _warpgroups(group, positions) if kind == "wgmma" else (positions,):
                self._matrix_operation(group, step, who)

    def _new_operation(
        self, kind: str, group: ThreadGroup, positions: Sequence[int]
    ) -> tuple[Agent, int, Clock]:
        """The agent that works for the threads at *positions*, the number of its new operation, and what happens
        before it.
        """
        agent = self.epochs.agent(kind, group.cta, _threads_at(group, positions))
        self._operation_counts[agent] = number = self._operation_counts.get(agent, 0) + 1
        return agent, number, self.epochs.release_clock(group, positions)

    def _matrix_operation(self, group: ThreadGroup, step: Step, positions: Sequence[int]) -> None:
        kind = step.instruction.group
        agent, number, clock = self._new_operation(kind, group, positions)
        for start in self._matrix_addresses(group, step):
            self._record(group, step.site, (group.cta, start), agent, number, clock)
        if kind == "tcgen05":
            self._multiply(group, step, agent, number, clock)
        else:
            # All four warps issue it together, and it is complete only after each has.
            before = self._issue_clocks.get((agent.index, number - 1), BOTTOM)
            self._issue_clocks[agent.index, number] = join(before, clock)

    def _multiply(self, group: ThreadGroup, step: Step, agent: Agent, number: int, clock: Clock) -> None:
        """The matrices in tensor memory:

        A is read, D is written, and D is read if it is accumulated (9.7.16.10.7).
        """
        ctas = (group.cta, group.cta ^ 1) if ".cta_group::2" in step.instruction.opcode else (group.cta,)
        locations = [(cta, lanes) for cta in ctas for lanes in range(self.program.warps)]
        adds = self.program.warps > 1 and self._role(group, step, "enable") == 1
        for role, writes in (("a", False), *((("d", False),) if adds else ()), ("d", True)):
            operand = step.instruction.role(role)
            address = self._operand(group, operand) if isinstance(operand, Memory) else None
            if isinstance(address, int):
                self._record_tensor(group, step, role, address, locations, agent, number, clock, writes)

    def _matrix_addresses(self, group: ThreadGroup, step: Step) -> Iterable[int]:
        """The start addresses of the matrices in shared memory."""
        match = step.instruction.match
        assert match is not None
        for name in match.form.async_reads:
            operand = step.instruction.named(name.lstrip("*")) if name.endswith("desc") else None
            value = self._operand(group, operand) if operand is not None else None
            if isinstance(value, int):
                yield (value & _DESCRIPTOR) * 16

    def _copy(
        self, group: ThreadGroup, step: Step, positions: Sequence[int], response: int | None = None
    ) -> None:
        """A copy into the shared memory of one or several CTAs, which completes on the mbarrier at the same offset in
        each.

        An H200 ignores the CTA in the address of the mbarrier. With ``.cta_group::2`` the copy completes in the CTA
        of each pair that has the parity of the mbarrier's CTA (9.7.9.27.1.2).
        """
        address, destination = self._role(group, step, "mbarrier"), self._role(group, step, "destination")
        size, ctas = self._size(group, step), self._role(group, step, "mask", _ALL)
        tensor_map = self._role(group, step, "tensormap")
        if size is None and "::gather4" not in step.instruction.opcode:
            size = self.launch.copied_bytes(tensor_map)
        box = step.site if tensor_map is None else (step.instruction.opcode, tensor_map)
        several, pairs = (word in step.instruction.opcode for word in (".multicast", ".cta_group::2"))
        match = step.instruction.match
        assert match is not None
        together, unit = match.scope == "warp", transaction_unit(match)
        operands = address, _known(destination), _known(size), ctas
        self.epochs.end(group)
        clocks: dict[tuple[int, ...], Clock] = {}
        for (at, to, many, mask), who in self._by_operands(step, positions, *operands).items():
            bytes_ = many if many >= 0 else None
            warps = group.warps_at(who)
            if warps not in clocks:
                clocks[warps] = self.epochs.release_clock(group, who)
            known = clocks[warps]
            home = at if pairs or to < 0 else to
            for rank in self._ranks(step, mask) if several else (home >> 24,):
                reports = rank & ~1 | at >> 24 & 1 if several and pairs else rank
                mbarrier = self._mbarrier(step, at & OFFSET | reports << 24)
                agent = self.epochs.agent("copy", reports, mbarrier=mbarrier.address)
                for _ in warps if together else who:
                    self.copy_counts[agent] = number = self.copy_counts.get(agent, 0) + 1
                    before = self._issue_clocks.get((agent.index, number - 1), BOTTOM)
                    self._issue_clocks[agent.index, number] = join(before, known)
                    completed = None if bytes_ is None else bytes_ // unit
                    mbarrier.transfers.append(Transfer(event(agent, number), completed))
                if to < 0:
                    self._clobbered_loads |= self.program.overwritten.get(step.site, set())
                else:
                    location = rank if several else to >> 24, to & OFFSET
                    if step.site in self.program.overwritten:
                        self._invalidate(location[0] * CTA_STRIDE + location[1], bytes_)
                    self._record(
                        group, step.site, location, agent, number, known, True, bytes_, mbarrier, box
                    )
                    if response is not None:
                        self._store_bytes(location[0] * CTA_STRIDE + location[1], response, RESPONSE)

    def _copy_out(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        """A bulk copy out of shared memory, which is read until a wait for its bulk group."""
        size = self._size(group, step)
        self.epochs.end(group)
        agent, number, clock = self._new_operation(BULK, group, positions)
        for a in _outermost(self._role(group, step, "source"), where):
            known = size if isinstance(size, int) else None
            self._record(group, step.site, divmod(a, CTA_STRIDE), agent, number, clock, size=known)

    def _size(self, group: ThreadGroup, step: Step) -> Lanes:
        """A copy's size in bytes; None: unknown."""
        match = step.instruction.match
        assert match is not None
        if "bytes" not in match.form.roles:
            return transferred(match)
        bytes_, made_up = self._bytes(group, step, "bytes")
        return None if made_up else bytes_

    def _ranks(self, step: Step, mask: int) -> list[int]:
        """The CTAs of the cluster in a mask."""
        if mask != _ALL and mask >> self.launch.shape.ranks:
            raise UninitialisedMbarrier(step.site, Reason.NO_SUCH_CTA)
        return [rank for rank in range(self.launch.shape.ranks) if mask >> rank & 1]

    def _on_clc_request(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        """The first few requests are granted, later ones find no cluster left (9.7.13.17)."""
        self._cancelled[group.cta] = number = self._cancelled.get(group.cta, 0) + 1
        self._copy(group, step, positions, number if number <= self.launch.values.cancelled else 0)

    def _on_clc_query(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        match = step.instruction.match
        assert match is not None
        response = self._role(group, step, "source") if self.program.answered else 0
        if response is None:
            raise Unresolved(step.site, Reason.UNKNOWN_RESPONSE)
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

    def _on_commit(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        kind = step.instruction.group
        issued = self._issued_operations(kind, group, positions)
        if kind != "tcgen05":
            group.committed = {**group.committed, kind: (*group.committed.get(kind, ()), issued)}
        else:
            self.epochs.end(group)
            clock = join(self.epochs.release_clock(group, positions), issued)
            address, ctas = self._role(group, step, "mbarrier"), self._ctas(group, step)
            for (at, mask), who in self._by_operands(step, positions, address, ctas).items():
                threads = len(who)
                for mbarrier in self._signalled(step, at, mask):
                    transfer = Transfer(clock, arrivals=threads, site=step.site, threads=group.threads)
                    mbarrier.transfers.append(transfer)
                    if threads > mbarrier.count:  # in any order
                        raise Overrun(Stuck(step.site, group.threads, mbarrier))

    def _issued_operations(self, kind: str, group: ThreadGroup, positions: Sequence[int]) -> Clock:
        """The operations that the threads at *positions* have issued so far, alone or with others of their warp."""
        threads = {group.threads[i] for i in positions}
        return sum(
            event(agent, number)
            for agent, number in self._operation_counts.items()
            if agent.kind == kind and agent.cta == group.cta and not threads.isdisjoint(agent.threads)
        )

    def _on_wait(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        depth, match = self._role(group, step, "depth", 0), step.instruction.match
        kind = step.instruction.group
        committed = group.committed.get(kind, ())
        if match is not None and match.form.completion == "all":
            completed = self._issued_operations(kind, group, positions)
        elif isinstance(depth, int) and len(committed) > depth:
            completed = committed[-1 - depth]
        else:
            return
        group.clock = join_warps(group.clock, self._completed_clocks(group, positions, completed))

    def _completed_clocks(self, group: ThreadGroup, positions: Sequence[int], completed: Clock) -> WarpClocks:
        """What the warps at *positions* acquire that wait for the *completed* operations: these, and what happens
        before their issue.
        """
        found: WarpClocks = BOTTOM
        for agent in self._operation_counts:
            number = last_event(completed, agent)
            if number >= 0:
                issued = self._issue_clocks.get((agent.index, number), BOTTOM)
                done = join(event(agent, number), issued)
                found = join_warps(found, mask_warps(done, group.warps, warps_of(agent.threads)))
        return group.only_at(found, positions)

    def _on_tmem_alloc(self, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes) -> None:
        address, columns = self._role(group, step, "destination"), self._role(group, step, "columns")
        if isinstance(address, int):
            start = self._columns.get(group.cta, 0)
            self._store_bytes(address, start, 4)
            self._columns[group.cta] = start + (columns if isinstance(columns, int) else 0)


@cache
def _handler(what: str) -> Callable[..., Any]:
    """The unbound method of :class:`Machine` that executes a kind of step: unbound, so that no machine refers to
    itself.
    """
    handler: Callable[..., Any] = getattr(
        Machine, "_" + what if what in _DATA else "_on_" + what.replace("-", "_")
    )
    return handler


def _outermost(address: Lanes, where: Lanes) -> set[int]:
    """The lowest and the highest address of the threads *where* an instruction is executed."""
    if isinstance(address, int):
        return {address} if where == 1 or (isinstance(where, tuple) and 1 in where) else set()
    if address is None or where is None:
        return set()
    seen: Sequence[Any] = address
    if where != 1 or None in address:
        executing = zip(address, broadcast(where, len(address)), strict=True)
        seen = [a for a, w in executing if w and a is not None]
    return {min(seen), max(seen)} if seen else set()


def _whole_warps(threads: tuple[int, ...]) -> bool:
    """Whether *threads* are consecutive warps with all their lanes."""
    first, size = threads[0], len(threads)
    return not first % 32 and not size % 32 and threads[-1] - first == size - 1


def _warpgroups(group: ThreadGroup, positions: Sequence[int]) -> Iterable[Sequence[int]]:
    """The positions of each warpgroup, which multiplies matrices of its own (9.7.15)."""
    threads, found = group.threads, dict[int, list[int]]()
    if threads[positions[0]] >> 7 == threads[positions[-1]] >> 7:
        return (positions,)
    for position in positions:
        found.setdefault(threads[position] >> 7, []).append(position)
    return found.values()


def _single_thread(where: Lanes, threads: int) -> bool:
    """Whether one thread executes an instruction."""
    return broadcast(where, threads).count(1) == 1 and where is not None


def _relaxed(instruction: Instruction) -> bool:
    return ".relaxed" in instruction.opcode


def _known(value: Lanes) -> Lanes:
    """*value*, or -1 if it is unknown."""
    return -1 if value is None else value


def _threads_at(group: ThreadGroup, positions: Sequence[int]) -> tuple[int, ...]:
    """The threads at *positions*."""
    threads = group.threads
    return threads if len(positions) == len(threads) else tuple(map(threads.__getitem__, positions))


def _by_warp(group: ThreadGroup, value: Lanes) -> dict[int, dict[int, int | None]]:
    """The value of each lane of each warp of a group."""
    warps: dict[int, dict[int, int | None]] = {}
    for thread, own in zip(group.threads, broadcast(value, len(group.threads)), strict=True):
        warps.setdefault(thread >> 5, {})[thread & 31] = own
    return warps


def _items(operand: Operand) -> Sequence[Operand]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _part(value: Lanes, index: int, width: int) -> Lanes:
    """*width* bits of *value*, from bit *index* times *width* on."""
    return apply(lambda a: a >> index * width & (1 << width) - 1, [value])


def _bits(match: Match) -> int:
    """The width of an element of a vector, or of a scalar."""
    return int(match.element[2:])
