"""Operations on mbarriers (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from tclint.ir.nodes import MAX_SHARED_BYTES
from tclint.isa.accesses import MBARRIER_BYTES
from tclint.isa.effects import CP_ASYNC, Order, Resource
from tclint.replay.abstract_lanes import Lanes, broadcast, collapse
from tclint.replay.accesses import CTA_STRIDE, OFFSET
from tclint.replay.machine import ReplayMachine, check_pending, executes
from tclint.replay.reasons import NotReplayed
from tclint.replay.scheduler import TooManyMbarriers, UninitialisedMbarrier, Unresolved
from tclint.replay.steps import ReplayStep, Sync
from tclint.replay.sync import ReleasedWaiter, ReplayMbarrier
from tclint.replay.thread_groups import Stuck, ThreadGroup
from tclint.replay.vector_clocks import WarpClocks, join, join_warps, leq, map_warps
from tclint.sync.mbarriers import MAX_COUNT

__all__ = ["ALL_CTAS", "by_operands", "ctas_of", "ranks", "signalled", "transaction_bytes"]

ALL_CTAS = 0xFFFF
"""The mask of all CTAs of a cluster."""
_OWN = -1
"""No mask: the CTA of the address."""


@executes(Resource.MBARRIER_INIT)
def _mbarrier_init(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    address, count = machine.operand(group, step.instruction.mbarrier), machine.role(group, step, "count")
    many = machine.program.operands.ring_words(step.site)
    for at, number in by_operands(step, positions, address, count):
        beyond = not 0 <= at - group.cta * CTA_STRIDE < MAX_SHARED_BYTES
        if many and (beyond or (at in machine.mbarriers and machine.mbarriers[at].site != step.site)):
            raise TooManyMbarriers(step.site, many)
        machine.initialise(ReplayMbarrier(number & MAX_COUNT, step.site, at))
        if at % MBARRIER_BYTES:
            machine.misused[step.site] = f"the mbarrier is not aligned to {MBARRIER_BYTES} bytes"
        elif not 0 < number <= MAX_COUNT:
            machine.misused[step.site] = f"an mbarrier cannot count {number} arrivals"


@executes(Sync.ARRIVE)
def _mbarrier_arrive(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    instruction = step.instruction
    address = machine.operand(group, step.instruction.mbarrier)
    count, tx, given = machine.role(group, step, "count", 1), *transaction_bytes(machine, group, step, "tx")
    match, relaxed = instruction.match, instruction.order is Order.RELAXED
    assert match is not None
    if not relaxed:
        machine.epochs.end(group)
    tracks = instruction.group == CP_ASYNC
    if tracks:
        # It arrives when the copies are complete. Without .noinc it first increments the pending count, so the
        # net count is 0 (9.7.13.15.15).
        count = int(not match.raises_pending)
    phases = set()
    operands = address, ctas_of(machine, group, step), count, tx
    for (at, mask, number, bytes_), who in by_operands(step, positions, *operands).items():
        threads = len(who)
        for mbarrier in signalled(machine, step, at, mask):
            phases.add(mbarrier.phase)
            mbarrier.expect(None if given else bytes_ * threads)
            clock = (
                machine.epochs.released_by_fence(group, who, mbarrier.address >> 24)
                if relaxed
                else machine.epochs.release_clock(group, who)
            )
            if tracks:
                clock = join(clock, machine.operations.issued(CP_ASYNC, group, who))
                mbarrier.signalled = mbarrier.phase + 1
            _check_tx(machine, step, mbarrier)
            phase = mbarrier.phase
            mbarrier.arrive(number * threads, drop=match.drops)
            mbarrier.release(clock)
            if mbarrier.phase > phase and not match.may_complete:
                machine.misused[step.site] = "it completes a phase although it is .noComplete"
            check_pending(step.site, group.threads, mbarrier)
    state = instruction.role("state")
    if isinstance(state, int):
        machine.assign(group, state, phases.pop() if len(phases) == 1 else None, where)


@executes(Sync.EXPECT)
def _mbarrier_expect(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    for mbarrier, _, bytes_ in _transactions(machine, group, step, positions):
        mbarrier.expect(bytes_)
        _check_tx(machine, step, mbarrier)


@executes(Sync.COMPLETE)
def _mbarrier_complete(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    machine.epochs.end(group)
    for mbarrier, who, bytes_ in _transactions(machine, group, step, positions):
        # It is relaxed, and releases if a fence precedes it (8.8). MB013 has a note about one without a fence: on an H100
        # it was never performed before the earlier stores of its thread to the same CTA.
        cta = mbarrier.address >> 24
        released = (
            machine.epochs.release_clock(group, who)
            if cta == group.cta
            else machine.epochs.released_by_fence(group, who, cta)
        )
        mbarrier.complete_tx(bytes_)
        mbarrier.release(released)
        _check_tx(machine, step, mbarrier)


def _transactions(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int]
) -> Iterator[tuple[ReplayMbarrier, Sequence[int], int | None]]:
    """The mbarriers whose tx-count the threads at *positions* change, with the threads and their bytes; None: made up."""
    address = machine.operand(group, step.instruction.mbarrier)
    tx, given = transaction_bytes(machine, group, step, "tx")
    operands = address, ctas_of(machine, group, step), tx
    for (at, mask, bytes_), who in by_operands(step, positions, *operands).items():
        for mbarrier in signalled(machine, step, at, mask):
            yield mbarrier, who, None if given else bytes_ * len(who)


@executes(Sync.TEST)
def _mbarrier_wait(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> bool:
    address = machine.operand(group, step.instruction.mbarrier)
    token = step.instruction.role("state") is not None
    phase = machine.role(group, step, "state" if token else "parity")
    rows = by_operands(step, positions, address, phase)
    tests = sorted(rows)

    def complete(row: tuple[int, ...]) -> bool:
        mbarrier = machine.mbarrier(step, row[0])
        return mbarrier.passed(row[1]) if token else mbarrier.complete(row[1])

    complete_now = tuple(map(complete, tests))
    answers, question = dict(zip(tests, complete_now, strict=True)), (step.site, *tests, *complete_now)
    if not all(complete_now) and group.failed_test == question:
        # Nothing was done since the same test: the result is the same until a phase completes.
        at = tests[complete_now.index(False)][0]
        group.stuck = Stuck(step.site, group.threads, machine.mbarrier(step, at))
        group.waits = (
            partial(complete, tests[0])
            if len(tests) == 1
            else lambda: tuple(map(complete, tests)) != complete_now
        )
        return False
    group.failed_test = () if all(complete_now) else question
    for (at, which), answer in answers.items():
        if answer:
            mbarrier = machine.mbarrier(step, at)
            if token:
                acquired: WarpClocks = mbarrier.release_clocks[which + 1]
                mbarrier.observed = max(mbarrier.observed, which + 1)
            else:
                acquired = _acquired_clocks(machine, group, mbarrier, which & 1)
            _acquire(machine, group, mbarrier, step, group.only_at(acquired, rows[at, which]))
            machine.completed_phases[step.site, at] = mbarrier.phase
            if not token and machine.launch.shape.ranks == 1:
                agent = machine.epochs.agent_of_warps(group, group.warps_at(rows[at, which]))
                mbarrier.released_waiters[agent] = ReleasedWaiter(
                    step.site, agent, group.threads, machine.epochs.time, mbarrier.phase
                )
    destination = step.instruction.role("destination")
    if isinstance(destination, int):
        machine.assign(group, destination, _test_results(machine, group, address, phase, answers), where)
    return True


def _acquired_clocks(
    machine: ReplayMachine, group: ThreadGroup, mbarrier: ReplayMbarrier, parity: int
) -> WarpClocks:
    """What a wait acquires for each warp."""
    observed = join_warps(group.clock, group.unfenced)
    if isinstance(observed, int) and leq(mbarrier.release_clocks[mbarrier.phase], observed):
        return mbarrier.acquired_clock(parity, observed)  # whatever each warp has done
    return map_warps(
        partial(mbarrier.acquired_clock, parity),
        join_warps(machine.epochs.full_clocks(group), group.unfenced),
    )


def _test_results(
    machine: ReplayMachine,
    group: ThreadGroup,
    address: Lanes,
    phase: Lanes,
    answers: Mapping[tuple[int, ...], bool],
) -> Lanes:
    """Whether the phase that each thread tests is complete."""
    if len(different := set(answers.values())) == 1:
        return int(different.pop())
    size = len(group.threads)
    rows = zip(broadcast(address, size), broadcast(phase, size), strict=True)
    return collapse([int(answers.get(row, False)) for row in rows])  # type: ignore[arg-type]


def _acquire(
    machine: ReplayMachine,
    group: ThreadGroup,
    mbarrier: ReplayMbarrier,
    step: ReplayStep,
    acquired: WarpClocks,
) -> None:
    """A relaxed wait acquires nothing without a fence (9.7.13.15.16), except tensor-core operations, as MB013
    assumes.
    """
    if step.instruction.order is Order.RELAXED:
        group.unfenced = join_warps(group.unfenced, acquired)
        acquired = map_warps(machine.operations.awaited_in, acquired)
    clock = join_warps(group.clock, acquired)
    if clock != group.clock:
        machine.acquiring_waits.add(step.site)
        group.clock = clock
    before = {at: site for at, site in group.waited.items() if at != mbarrier.address}
    group.waited = {**before, mbarrier.address: step.site}


def _check_tx(machine: ReplayMachine, step: ReplayStep, mbarrier: ReplayMbarrier) -> None:
    if abs(mbarrier.bytes) > MAX_COUNT:
        machine.misused[step.site] = f"the tx-count of an mbarrier cannot be {mbarrier.bytes}"


def ctas_of(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep) -> Lanes:
    """The mask of the CTAs that an operation signals, for :func:`signalled`; -1 without a mask."""
    return machine.role(group, step, "mask", _OWN)


def signalled(machine: ReplayMachine, step: ReplayStep, address: int, mask: int) -> list[ReplayMbarrier]:
    """The mbarrier at an address, or with a mask of CTAs the one at the same offset in each of them."""
    if mask == _OWN:
        return [machine.mbarrier(step, address)]
    return [machine.mbarrier(step, address & OFFSET | rank << 24) for rank in ranks(machine, step, mask)]


def ranks(machine: ReplayMachine, step: ReplayStep, mask: int) -> list[int]:
    """The CTAs of the cluster in a mask. Raises UninitialisedMbarrier if one of them does not exist."""
    if mask != ALL_CTAS and mask >> machine.launch.shape.ranks:
        raise UninitialisedMbarrier(step.site, NotReplayed.NO_SUCH_CTA)
    return [rank for rank in range(machine.launch.shape.ranks) if mask >> rank & 1]


def by_operands(
    step: ReplayStep, positions: Sequence[int], *values: Lanes
) -> Mapping[tuple[int, ...], Sequence[int]]:
    """The distinct values of operands, each with the positions of the threads that have them.

    Raises Unresolved if one is unknown.
    """
    if None in values:
        raise Unresolved(step.site, NotReplayed.UNKNOWN_OPERAND)
    if tuple not in map(type, values):
        return {tuple(values): positions}  # type: ignore[arg-type]
    columns = [map(v.__getitem__, positions) if isinstance(v, tuple) else repeat(v) for v in values]
    found: dict[Any, list[int]] = {}
    for position, row in zip(positions, zip(*columns, strict=False), strict=False):
        found.setdefault(row, []).append(position)
    if any(None in row for row in found):
        raise Unresolved(step.site, NotReplayed.UNKNOWN_OPERAND)
    return found


def transaction_bytes(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, role: str
) -> tuple[Lanes, bool]:
    """The bytes of a copy, an expect_tx or a complete_tx, and whether they are made up; then the bytes are 0.

    No kernel is made for a launch with more bytes than an mbarrier counts.
    """
    if machine.program.operands.makes_up_bytes(step.site, role):
        return 0, True
    bytes_ = machine.role(group, step, role, 0)
    if machine.program.operands.from_launch(step.site, role) and any(
        b is not None and b > MAX_COUNT for b in broadcast(bytes_, len(group.threads))
    ):
        machine.oversized = True
        return 0, True
    return bytes_, False
