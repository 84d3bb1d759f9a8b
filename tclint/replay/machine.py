"""Executes one launch of a cluster: its state, and the steps of :mod:`tclint.replay.instructions` (PTX ISA 9.7.13).

Model. Threads perform epochs; an instruction that releases ends one (``Epochs.end``). A wait
that succeeds joins what the barrier, the phase of the mbarrier or the completed operations release into the clocks of
the waiting warps. Asynchronous operations are events of agents of their own. They stay pending until no thread can
continue without them, so that a missing wait shows: then copies complete, with the commits to mbarriers that a thread
waits for, and other commits only after these. The completion of a copy releases the copy, not what its thread did
before it issued it; that this is nevertheless earlier in every run is what :meth:`IssuedOperations.ordered_in_time` answers.

Unsound, towards silence. A strong load of shared memory acquires everything that any thread has done so far, as a
flag that it reads may synchronise. Lanes of one warp share a clock where they reconverge. A phase whose tx-count is
unknown completes with any number of bytes. Only the lowest and the highest address of an access are recorded, and
only one thread of those whose addresses depend on the launch.

Unsound, towards a report. Parameters and memory have made-up values, and an unknown branch is taken not to trap.
Whatever else depends on an unknown value ends the replay (``reasons``). A barrier that some lanes of a warp never
reach is opened without them, and only what stays blocked even so is reported
(:meth:`ReplayMachine._release_split_barrier`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from tclint.isa.effects import Exchange
from tclint.replay.abstract_lanes import Lanes, negated
from tclint.replay.accesses import CTA_STRIDE, OFFSET, ReplayAccess
from tclint.replay.launch import ReplayLaunch
from tclint.replay.operations import IssuedOperations
from tclint.replay.program import ReplaySlice
from tclint.replay.reasons import NotReplayed
from tclint.replay.scheduler import Limits, ThreadGroupScheduler, UninitialisedMbarrier, Unresolved
from tclint.replay.shared_bytes import SharedBytes
from tclint.replay.steps import ReplayStep, Sync
from tclint.replay.sync import ORDER_OF_ARRIVALS, PhaseOverlap, ReleasedWaiter, ReplayBarrier, ReplayMbarrier
from tclint.replay.thread_groups import Stuck, ThreadGroup

__all__ = [
    "DATA",
    "SYNCHRONISATION",
    "Overrun",
    "ReplayMachine",
    "check_pending",
    "executes",
    "executes_data",
]

Synchronisation = Callable[["ReplayMachine", ThreadGroup, ReplayStep, Sequence[int], Lanes], bool | None]
"""Executes a step in the threads at some positions of a group, which are those *where* its guard is true. Returns False
if the group does not continue after it.
"""
Data = Callable[["ReplayMachine", ThreadGroup, ReplayStep, Lanes], None]
"""Executes a step in the threads *where* its guard is true, which may be unknown."""
SYNCHRONISATION: dict[Hashable, Synchronisation] = {}
"""The functions for steps that synchronise, release something or exchange values, by :attr:`ReplayStep.what`."""
DATA: dict[Hashable, Data] = {}
"""The functions for all other steps, by :attr:`ReplayStep.what`."""

_PURE_QUERIES = frozenset((*Exchange, Sync.TEST, "activemask"))
"""Steps without an effect on other threads: a test of an mbarrier that is repeated after only these has the same
result.
"""


def executes(what: Hashable) -> Callable[[Synchronisation], Synchronisation]:
    """Decorator that registers the function for a kind of step that synchronises. Raises ValueError for a second one."""

    def register(function: Synchronisation) -> Synchronisation:
        if what in SYNCHRONISATION:
            raise ValueError(f"two functions for {what}")
        SYNCHRONISATION[what] = function
        return function

    return register


def executes_data(*kinds: str) -> Callable[[Data], Data]:
    """Decorator that registers the function for *kinds* of steps on data. Raises ValueError for a second one of a kind."""

    def register(function: Data) -> Data:
        for what in kinds:
            if what in DATA:
                raise ValueError(f"two functions for {what}")
            DATA[what] = function
        return function

    return register


class Overrun(Exception):
    """An arrival at an mbarrier whose pending count is zero."""

    def __init__(self, at: Stuck) -> None:
        super().__init__("more arrivals than the mbarrier counts")
        self.at = at


def check_pending(site: int, threads: tuple[int, ...], mbarrier: ReplayMbarrier) -> None:
    """Raises Overrun if *threads* have arrived more often than an mbarrier counts."""
    if mbarrier.pending < 0:
        raise Overrun(Stuck(site, threads, mbarrier))


class ReplayMachine(ThreadGroupScheduler):
    """One launch of a cluster."""

    def __init__(self, program: ReplaySlice, launch: ReplayLaunch, limits: Limits) -> None:
        super().__init__(program, launch, limits)
        self.accesses: list[ReplayAccess] = []
        self.memory = SharedBytes()
        self.operations = IssuedOperations(self.epochs)
        self.executed: set[int] = set()
        """The instructions that synchronise and that a thread has executed."""
        self.misused: dict[int, str] = {}
        """How instructions use an mbarrier as the ISA does not admit, though the replay continues."""
        self.oversized = False
        """Copies have more bytes than an mbarrier counts, so the phases that they complete show nothing."""
        self.mbarriers: dict[int, ReplayMbarrier] = {}
        """By address."""
        self.completed_phases: dict[tuple[int, int], int] = {}
        """How many phases of an mbarrier each wait has seen complete, by the wait and the address."""
        self.acquiring_waits: set[int] = set()
        """Waits for mbarriers that acquired something."""
        self._unsettled: frozenset[int] = frozenset()
        self.barriers: dict[tuple[int, int], ReplayBarrier] = {}
        """By CTA and number."""
        self.cluster_barrier = ReplayBarrier()
        self.phase_overlaps: dict[tuple[int, int], PhaseOverlap] = {}
        """The first overlap of phases of a CTA barrier for each pair of instructions."""
        self._split_waiters: list[Stuck] | None = None
        """The blocked threads when a split barrier was first released; None: none was."""
        self.elected: dict[tuple[tuple[int, ...], tuple[int, ...], int], tuple[Lanes, Lanes] | None] = {}
        """The results of elections, by the threads of the group, those that execute, and the mask."""
        self.cancelled: dict[int, int] = {}
        """How often each CTA has executed ``try_cancel``."""
        self.columns: dict[int, int] = {}
        """The allocated columns of tensor memory by CTA."""
        self.counter_reads: dict[int, int] = {}
        """How often each atomic increment has read its counter."""
        self.begun_arrays: set[tuple[int, tuple[int, ...]]] = set()
        """The accesses that may leave their array in a later iteration, by the threads that have made them."""

    # ------------------------------------------------------------ steps

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
            if isinstance(s.what, ReplayMbarrier) and any(s is before for before in self._split_waiters)
        ]
        if not ever:
            raise Unresolved(self._split_waiters[0].site, NotReplayed.SPLIT_WARP)
        return ever

    def _execute(self, group: ThreadGroup, step: ReplayStep) -> bool:
        instruction = step.instruction
        where: Lanes = 1
        if instruction.guard >= 0:
            where = group.registers[instruction.guard]
            if instruction.negated:
                where = negated(where)
            if where == 0:
                return True
        data = DATA.get(step.what)
        if data is not None:
            data(self, group, step, where)
            return True
        if where is None or (isinstance(where, tuple) and None in where):
            raise Unresolved(step.site, NotReplayed.UNKNOWN_GUARD)
        positions = (
            self.program.plans.executing(where) if isinstance(where, tuple) else range(len(group.threads))
        )
        if step.what not in _PURE_QUERIES:
            group.failed_test = ()
        self.executed.add(step.site)
        return SYNCHRONISATION[step.what](self, group, step, positions, where) is not False

    def record(self, access: ReplayAccess) -> None:
        """Records an access.

        A copy outside the variable that its address is computed from is not recorded.
        """
        addressed = access.lane_addresses is None and not access.tensor
        extent = self.extent(access.site) if addressed else None
        if extent is not None and not extent[0] <= access.offset < extent[1]:
            return
        if access.memory[0] in self.alive and self._split_waiters is None and self.program.follows_memory:
            self.accesses.append(access)

    def extent(self, site: int) -> tuple[int, int] | None:
        """The first offset in the variable that the address of an access is computed from, and the first one after it.

        Only values that the replay makes up lead out of it, such as the trip count of a loop or the number of stages of a
        ring. Of a variable without a size, the end is unknown, and nothing follows it. None if there is no such variable,
        and in a recorded launch.
        """
        variable = self.program.accesses.variable(site) if self.program.model.recorded is None else None
        if variable is None:
            return None
        start = self.launch.address(variable.name, 0)
        return start, start + variable.size if variable.size else CTA_STRIDE

    # ------------------------------------------------------------ mbarriers

    def mbarrier(self, step: ReplayStep, address: int) -> ReplayMbarrier:
        """The mbarrier that an instruction uses. Raises UninitialisedMbarrier if there is none at the address."""
        found = self.mbarriers.get(address)
        if found is None:
            made = {m.address & OFFSET: m.site for m in self.mbarriers.values()}
            raise UninitialisedMbarrier(step.site, NotReplayed.UNINITIALISED_MBARRIER, address & OFFSET, made)
        return found

    def initialise(self, mbarrier: ReplayMbarrier) -> None:
        """Puts an mbarrier at its address, in place of one that may be there."""
        before = self.mbarriers.get(mbarrier.address)
        if before is not None and not before.settled:
            self._unsettled |= {before.site}
        self.mbarriers[mbarrier.address] = mbarrier

    @property
    def completed_mbarriers(self) -> dict[int, int]:
        """The mbarriers that have completed a phase: the ``mbarrier.init`` of each, by address."""
        return {m.address: m.site for m in self.mbarriers.values() if m.phase}

    def _complete_transfers(self) -> bool:
        """Completes copies, and those commits that a thread waits for. Others may well complete later."""
        waited = {id(g.stuck.what) for g in self.groups if g.stuck is not None}
        for others in (False, True):
            landed = False
            for mbarrier in self.mbarriers.values():
                for transfer in mbarrier.complete_transfers(others or id(mbarrier) in waited):
                    landed = True
                    check_pending(transfer.site, transfer.threads, mbarrier)
            if landed:
                return True
        # If the launch decides the expected bytes, it may expect none, or no more than the copies so far have completed.
        waiting = [m for m in self.mbarriers.values() if m.tx_guessed and not m.pending and not m.transfers]
        for mbarrier in waiting:
            mbarrier.received_unknown = True
            mbarrier.advance_phase()
        return bool(waiting)

    @property
    def unsettled(self) -> frozenset[int]:
        """The ``mbarrier.init`` of mbarriers that an asynchronous operation may still signal."""
        return self._unsettled.union(each.site for each in self.mbarriers.values() if not each.settled)

    @property
    def late(self) -> list[tuple[ReplayMbarrier, ReleasedWaiter]]:
        """Waits that would wait for a later phase if their thread were slower."""
        if self._split_waiters is not None:
            return []
        return [
            (mbarrier, waiter)
            for mbarrier in self.mbarriers.values()
            for waiter, clock in mbarrier.overtaken
            if waiter.may_be_late(partial(self.operations.ordered_in_time, clock))
        ]

    # ------------------------------------------------------------ barriers

    @property
    def overlaps(self) -> list[PhaseOverlap]:
        """Arrivals at CTA barriers that may count for a phase that they do not belong to, those with two counts first.

        Empty if threads poll global memory, which may order them and is not followed: the question is then left open.
        """
        found = sorted(self.phase_overlaps.values(), key=lambda overlap: not overlap.counts_differ)
        if self._split_waiters is None and not self.program.loops.polls:
            return found
        if found:
            why = (
                "threads poll memory"
                if self.program.loops.polls
                else "some lanes of a warp arrive without the others"
            )
            self.model.ledger.drop(ORDER_OF_ARRIVALS, found[0].second.site, why)
        return []

    def _release_parked(self) -> bool:
        return super()._release_parked() or self._release_split_barrier()

    def _release_split_barrier(self) -> bool:
        """Opens a barrier at which some lanes of a warp wait while the others are blocked elsewhere.

        By the manual all lanes must arrive (9.7.13.1), so the kernel deadlocks. A device may open the barrier, so
        only threads that stay blocked afterwards are reported.
        """
        stuck = [g.stuck for g in self.groups if g.stuck is not None]
        for barrier in (s.what for s in stuck):
            if (
                isinstance(barrier, ReplayBarrier)
                and barrier.lanes
                and barrier.missing <= 32 * len(barrier.lanes)
            ):
                self._split_waiters = self._split_waiters or stuck
                for arrival in barrier.lanes.values():
                    arrival.arrive_at(barrier, warps=True)
                barrier.lanes.clear()
                return True
        return False
