"""Barriers of CTAs and clusters, and fences (PTX ISA 9.7.13)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tclint.replay.abstract_lanes import Lanes, broadcast
from tclint.replay.lane_exchange import barrier_result
from tclint.replay.machine import Machine, executes
from tclint.replay.reasons import Reason
from tclint.replay.scheduler import Unresolved
from tclint.replay.steps import Step
from tclint.replay.sync import Arrival, Barrier, BarrierArrival
from tclint.replay.thread_groups import Stuck, ThreadGroup
from tclint.replay.vector_clocks import join_warps, select_warps

__all__: list[str] = []


@executes("memory-fence")
def _memory_fence(
    machine: Machine, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
) -> None:
    machine.epochs.fence(group, cluster="cta" not in step.instruction.opcode.split("."))


@executes("barrier-sync")
def _barrier_sync(
    machine: Machine, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
) -> bool:
    return _cta_barrier(machine, group, step, positions, where, wait=True)


@executes("barrier-arrive")
def _barrier_arrive(
    machine: Machine, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
) -> bool:
    if step.instruction.group == "cluster":
        group.cluster = machine.cluster_barrier.phase
        machine.epochs.fence(group, cluster=True)
        machine.cluster_barrier.arrive(len(positions))
        machine.cluster_barrier.release(machine.epochs.release_clock(group, positions))
        machine.cluster_barrier.open_if_complete(sum(machine.alive.values()))
        return True
    return _cta_barrier(machine, group, step, positions, where, wait=False)


@executes("barrier-wait")
def _barrier_wait(
    machine: Machine, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes
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
    machine: Machine, group: ThreadGroup, step: Step, positions: Sequence[int], where: Lanes, wait: bool
) -> bool:
    """A CTA barrier."""
    number = machine.role(group, step, "id")
    if isinstance(number, tuple) and None not in number:
        machine.split(group, number)
        return False
    if not isinstance(number, int):
        raise Unresolved(step.site, Reason.UNKNOWN_BARRIER)
    count = machine.role(group, step, "count", 0)
    if count is None or isinstance(count, tuple):
        raise Unresolved(step.site, Reason.UNKNOWN_BARRIER_COUNT)
    threads = group.threads_at(positions)
    full = _whole_warps(threads)
    away = set[int]() if full else _warps_elsewhere(machine, group.cta, threads)
    if away and len(positions) < len(group.threads):
        raise Unresolved(step.site, Reason.SPLIT_WARP)
    warp = threads[0] >> 5
    if away and threads[-1] >> 5 != warp:
        machine.split(group, tuple(t >> 5 if t >> 5 in away else -1 for t in threads))
        return False
    barrier = machine.barriers.setdefault((group.cta, number), Barrier(number))
    arrival = barrier.lanes.setdefault(warp, Arrival()) if away else Arrival()
    machine.epochs.fence(group, cluster=False)
    arrival.add(
        threads, machine.epochs.release_clock(group, positions), _votes(machine, group, step, positions)
    )

    def arrived(whole: bool = False) -> bool:
        """Opens a barrier at which some lanes of a warp wait while the others are blocked elsewhere.

        By the manual the lanes at the barrier deadlock too (9.7.13.1). Only threads that stay blocked although
        the barrier is taken to open are reported.
        """
        if arrival.phase < 0 and (
            whole
            or (
                arrival.changed(machine.alive[group.cta])
                and not _warps_elsewhere(machine, group.cta, arrival.lanes)
            )
        ):
            barrier.lanes.pop(warp, None)
            arrival.arrive_at(barrier, warps=count > 0 and not full)
        return arrival.phase >= 0

    def opened() -> bool:
        barrier.wanted = count or machine.alive[group.cta]
        if arrived() and barrier.phase == arrival.phase:
            barrier.open_if_complete(barrier.wanted)
        return barrier.phase > arrival.phase >= 0 if wait else arrived()

    def passed() -> None:
        if wait:
            group.clock = join_warps(group.clock, group.only_at(barrier.release_clock, positions))
            _set_reduction(machine, group, step, barrier.votes.get(arrival.phase, ()), where)

    def completed_phases() -> bool:
        if not opened():
            return False
        passed()
        group.at += 1
        return True

    arrived(whole=not away)
    if count and not away:
        _count_in_phase(machine, group, step.site, positions, barrier, count)
    if opened():
        passed()
        return True
    group.stuck = Stuck(step.site, group.threads, barrier)
    group.waits = completed_phases
    return False


def _votes(
    machine: Machine, group: ThreadGroup, step: Step, positions: Sequence[int]
) -> Iterable[int | None]:
    """The predicates of the threads at *positions* that a barrier reduces; empty if it reduces none."""
    source = step.instruction.role("source")
    if source is None:
        return ()
    return map(broadcast(machine.operand(group, source), len(group.threads)).__getitem__, positions)


def _set_reduction(
    machine: Machine, group: ThreadGroup, step: Step, votes: Collection[int | None], where: Lanes
) -> None:
    """The result of a barrier that reduces *votes*."""
    destination, match = step.instruction.role("destination"), step.instruction.match
    if isinstance(destination, int) and match is not None:
        machine.assign(group, destination, barrier_result(match, votes), where)


def _count_in_phase(
    machine: Machine, group: ThreadGroup, site: int, positions: Sequence[int], barrier: Barrier, count: int
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


def _warps_elsewhere(machine: Machine, cta: int, threads: Collection[int]) -> set[int]:
    """The warps of some *threads* that have other lanes elsewhere which have not exited."""
    here = set(threads)
    warps = {t >> 5 for t in here}
    others = (t for g in machine.living() if g.cta == cta for t in g.threads if t >> 5 in warps)
    return {t >> 5 for t in others if t not in here}


def _whole_warps(threads: tuple[int, ...]) -> bool:
    """Whether *threads* are consecutive warps with all their lanes."""
    first, size = threads[0], len(threads)
    return not first % 32 and not size % 32 and threads[-1] - first == size - 1
