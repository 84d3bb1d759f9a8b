"""Barriers of CTAs and clusters, and fences (PTX ISA 9.7.13)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tclint._dataclass import dataclass
from tclint.isa.effects import Fence, Order
from tclint.replay.abstract_lanes import Lanes, broadcast
from tclint.replay.lane_exchange import barrier_result
from tclint.replay.machine import ReplayMachine, executes
from tclint.replay.reasons import NotReplayed
from tclint.replay.scheduler import Unresolved
from tclint.replay.steps import ReplayStep, Sync
from tclint.replay.sync import BarrierArrival, ReplayBarrier, WarpArrival
from tclint.replay.thread_groups import Stuck, ThreadGroup
from tclint.replay.vector_clocks import join_warps, select_warps

__all__: list[str] = []


@executes(Fence.MEMORY)
def _memory_fence(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    instruction = step.instruction
    memory = (
        instruction.effects.fence is Fence.MEMORY
    )  # or one of tcgen05, taken for one that orders all memory
    order = instruction.order if memory else Order.BOTH
    machine.epochs.fence(group, cluster=instruction.wide or not memory, order=order)


@executes(Sync.JOIN)
def _barrier_sync(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> bool:
    return _cta_barrier(machine, group, step, positions, where, wait=True)


@executes(Sync.ARRIVE_AT_CTA)
def _barrier_arrive(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> bool:
    return _cta_barrier(machine, group, step, positions, where, wait=False)


@executes(Sync.ARRIVE_AT_CLUSTER)
def _cluster_arrive(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    group.cluster = machine.cluster_barrier.phase
    machine.epochs.fence(group, cluster=True)
    machine.cluster_barrier.arrive(len(positions))
    machine.cluster_barrier.release(machine.epochs.release_clock(group, positions))
    machine.cluster_barrier.open_if_complete(sum(machine.alive.values()))


@executes(Sync.AWAIT_CLUSTER)
def _cluster_wait(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> bool:
    barrier, since = machine.cluster_barrier, group.cluster

    def opened() -> bool:
        if barrier.phase == since:
            barrier.open_if_complete(sum(machine.alive.values()))
        return barrier.phase > since

    if not opened():
        group.stuck = Stuck(step.site, group.threads, barrier)
        group.waits = opened
        return False
    group.clock = join_warps(group.clock, group.only_at(barrier.release_clock, positions))
    return True


def _cta_barrier(
    machine: ReplayMachine,
    group: ThreadGroup,
    step: ReplayStep,
    positions: Sequence[int],
    where: Lanes,
    wait: bool,
) -> bool:
    """A CTA barrier."""
    number = machine.role(group, step, "id")
    if isinstance(number, tuple) and None not in number:
        machine.split(group, number)
        return False
    if not isinstance(number, int):
        raise Unresolved(step.site, NotReplayed.UNKNOWN_BARRIER)
    count = machine.role(group, step, "count", 0)
    if count is None or isinstance(count, tuple):
        raise Unresolved(step.site, NotReplayed.UNKNOWN_BARRIER_COUNT)
    threads = group.threads_at(positions)
    full = _whole_warps(threads)
    away = set[int]() if full else _warps_elsewhere(machine, group.cta, threads)
    if away and len(positions) < len(group.threads):
        raise Unresolved(step.site, NotReplayed.SPLIT_WARP)
    warp = threads[0] >> 5
    if away and threads[-1] >> 5 != warp:
        machine.split(group, tuple(t >> 5 if t >> 5 in away else -1 for t in threads))
        return False
    barrier = machine.barriers.setdefault((group.cta, number), ReplayBarrier(number))
    arrival = barrier.lanes.setdefault(warp, WarpArrival()) if away else WarpArrival()
    machine.epochs.fence(group, cluster=False)
    arrival.add(
        threads, machine.epochs.release_clock(group, positions), _votes(machine, group, step, positions)
    )
    here = _AtBarrier(machine, group, step, positions, where, barrier, arrival, count, warp, full, wait)
    here.arrived(whole=not away)
    if count and not away:
        _count_in_phase(machine, group, step.site, positions, barrier, count)
    if here.opened():
        here.pass_on()
        return True
    group.stuck = Stuck(step.site, group.threads, barrier)
    group.waits = here.resumes
    return False


@dataclass(frozen=True, slots=True)
class _AtBarrier:
    """Threads of one group at a CTA barrier."""

    machine: ReplayMachine
    group: ThreadGroup
    step: ReplayStep
    positions: Sequence[int]
    where: Lanes
    barrier: ReplayBarrier
    arrival: WarpArrival
    expected: int
    """The threads that the instruction names; 0: all of the CTA."""
    warp: int
    whole_warps: bool
    wait: bool
    """Whether they wait for the barrier to open."""

    def arrived(self, whole: bool = False) -> bool:
        """Opens a barrier at which some lanes of a warp wait while the others are blocked elsewhere.

        By the manual the lanes at the barrier deadlock too (9.7.13.1). Only threads that stay blocked although
        the barrier is taken to open are reported.
        """
        arrival, cta = self.arrival, self.group.cta
        if arrival.phase < 0 and (
            whole
            or (
                arrival.changed(self.machine.alive[cta])
                and not _warps_elsewhere(self.machine, cta, arrival.lanes)
            )
        ):
            self.barrier.lanes.pop(self.warp, None)
            arrival.arrive_at(self.barrier, warps=self.expected > 0 and not self.whole_warps)
        return arrival.phase >= 0

    def opened(self) -> bool:
        """Whether the threads need not wait, or no longer."""
        barrier, arrival = self.barrier, self.arrival
        barrier.expected = self.expected or self.machine.alive[self.group.cta]
        if self.arrived() and barrier.phase == arrival.phase:
            barrier.open_if_complete(barrier.expected)
        return barrier.phase > arrival.phase >= 0 if self.wait else self.arrived()

    def pass_on(self) -> None:
        """What the threads learn at an open barrier for which they waited."""
        group, barrier = self.group, self.barrier
        if self.wait:
            group.clock = join_warps(group.clock, group.only_at(barrier.release_clock, self.positions))
            votes = barrier.votes.get(self.arrival.phase, ())
            _set_reduction(self.machine, group, self.step, votes, self.where)

    def resumes(self) -> bool:
        """Lets the threads continue if the barrier is open."""
        if not self.opened():
            return False
        self.pass_on()
        self.group.at += 1
        return True


def _votes(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int]
) -> Iterable[int | None]:
    """The predicates of the threads at *positions* that a barrier reduces; empty if it reduces none."""
    source = step.instruction.role("source")
    if source is None:
        return ()
    return map(broadcast(machine.operand(group, source), len(group.threads)).__getitem__, positions)


def _set_reduction(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, votes: Collection[int | None], where: Lanes
) -> None:
    """The result of a barrier that reduces *votes*."""
    destination, match = step.instruction.role("destination"), step.instruction.match
    if isinstance(destination, int) and match is not None:
        machine.assign(group, destination, barrier_result(match, votes), where)


def _count_in_phase(
    machine: ReplayMachine,
    group: ThreadGroup,
    site: int,
    positions: Sequence[int],
    barrier: ReplayBarrier,
    count: int,
) -> None:
    """Notes the arrival of whole warps at a barrier with a thread count, and whether it may share the phase with
    one that it should not.
    """
    warps = group.warps_at(positions)
    known = select_warps(join_warps(machine.epochs.full_clocks(group), group.unfenced), group.warps, warps)
    arrival = BarrierArrival(
        site,
        machine.epochs.agent_of_warps(group, warps),
        machine.epochs.time - 1,
        group.threads_at(positions),
        count,
    )
    found = barrier.overlapping(
        arrival, (known,) if isinstance(known, int) else known, machine.operations.ordered_in_time
    )
    if found is not None:
        machine.phase_overlaps.setdefault((found.first.site, site), found)


def _warps_elsewhere(machine: ReplayMachine, cta: int, threads: Collection[int]) -> set[int]:
    """The warps of some *threads* that have other lanes elsewhere which have not exited."""
    here = set(threads)
    warps = {t >> 5 for t in here}
    others = (t for g in machine.living() if g.cta == cta for t in g.threads if t >> 5 in warps)
    return {t >> 5 for t in others if t not in here}


def _whole_warps(threads: tuple[int, ...]) -> bool:
    """Whether *threads* are consecutive warps with all their lanes."""
    first, size = threads[0], len(threads)
    return not first % 32 and not size % 32 and threads[-1] - first == size - 1
