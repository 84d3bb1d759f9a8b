"""Plain accesses to memory, and non-bulk copies into shared memory (PTX ISA 9.7.9.8, 9.7.9.11, 9.7.9.25.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, cast

from tclint.analyses.mbarriers import RESPONSE
from tclint.ir.nodes import Memory, Operand, Vector
from tclint.isa.special_registers import WARP
from tclint.replay.abstract_lanes import Lanes, broadcast, collapse
from tclint.replay.accesses import CTA_STRIDE, OFFSET, SHARED, LaneAddresses, ReplayAccess
from tclint.replay.machine import ReplayMachine, executes_data
from tclint.replay.steps import ReplayStep
from tclint.replay.thread_groups import ThreadGroup, positions_of
from tclint.replay.vector_clocks import Clock, join_warps

__all__ = ["items", "outermost"]


@executes_data("load")
def _load(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    instruction, match = step.instruction, step.instruction.match
    assert match is not None
    operand = next(o for o in instruction.operands if isinstance(o, Memory))
    own = match.space.startswith(".shared")
    address = (
        machine.operand(group, operand) if own and step.site not in machine.memory.clobbered_loads else None
    )
    size = int(match.element[2:]) // 8
    for i, item in enumerate(items(instruction.operands[0])):
        value: Lanes = None
        if own:
            at = [address] if isinstance(address, int | None) else address
            value = collapse([None if a is None else machine.memory.load(a + i * size, size) for a in at])
            if value is None and size == RESPONSE and None not in at:
                value = 0  # the response has not arrived
        elif machine.launch.provides(match.space, operand) and match.element[1] != "f":
            base, offset = machine.program.inputs.word(step.site)
            value = machine.launch.load(
                base,
                offset + i * size,
                size,
                machine.program.inputs.buffer(step.site),
                names_map=step.site in machine.program.map_loads,
            )
            if step.site in machine.program.atomic_counters and _single_thread(where, len(group.threads)):
                taken = machine.counter_reads.get(step.site, 0)
                machine.counter_reads[step.site] = taken + 1
                value = machine.launch.counter_value(taken, value, size)
        if isinstance(item, int):
            machine.assign(group, item, value, where)
    if own:
        if machine.program.accesses.is_strong(step.site):
            group.clock = join_warps(group.clock, machine.epochs.all_events())
        _plain_access(machine, group, step, where)


@executes_data("element")
def _element(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    """A load of global memory where each element has a value of its own."""
    instruction, match = step.instruction, step.instruction.match
    assert match is not None
    address = machine.operand(group, next(o for o in instruction.operands if isinstance(o, Memory)))
    size = int(match.element[2:]) // 8
    known = address if isinstance(address, tuple) else (address,)
    value = collapse([None if a is None else machine.launch.element(a, size) for a in known])
    for register in instruction.writes:
        machine.assign(group, register, value, where)


@executes_data("store")
def _store(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    instruction, match = step.instruction, step.instruction.match
    assert match is not None
    operand = next(o for o in instruction.operands if isinstance(o, Memory))
    _plain_access(machine, group, step, where)
    threads = len(group.threads)
    address, executing = broadcast(machine.operand(group, operand), threads), broadcast(where, threads)
    if any(a is None and w != 0 for a, w in zip(address, executing, strict=True)):
        machine.memory.clobbered_loads |= machine.program.overwritten[step.site]
    size = int(match.element[2:]) // 8
    for i, item in enumerate(items(instruction.operands[-1])):
        value = machine.operand(group, item)
        stored: dict[int, int | None] = {}
        for w, a, v in zip(executing, address, broadcast(value, threads), strict=True):
            if w != 0 and a is not None:  # which of several stored values remains is unknown
                number = v if w else None
                stored[a] = number if stored.get(a, number) == number else None
        for a, number in stored.items():
            machine.memory.store(a + i * size, number, size)


@executes_data("read")
def _read(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    """A load of what the replay does not compute: of a register that something else depends on, the value is unknown."""
    _plain_access(machine, group, step, where)
    for register in step.instruction.writes:
        if register in machine.program.sliced_registers:
            machine.assign(group, register, None)


@executes_data("write")
def _plain_access(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    """Records a plain access to shared memory.

    Without mbarriers, only the first one of some threads counts if later ones may be beyond the array.
    """
    if not machine.program.has_mbarriers and machine.program.accesses.leaves_array(step.site):
        key = step.site, group.threads
        if key in machine.begun_arrays:
            return
        machine.begun_arrays.add(key)
    writes = step.what in ("store", "write")
    operand = next((o for o in step.instruction.operands if isinstance(o, Memory)), None)
    address = machine.operand(group, operand)
    for clock, positions, own in _accesses_by_clock(
        machine, group, step, address, _addressing(machine, group, step, address, where)
    ):
        agent, known = machine.epochs.access(group, group.warps_at(positions), clock)
        lane_addresses = LaneAddresses(group.threads_at(positions), own, clock)
        for a in outermost(own, 1):
            cta, offset = divmod(a, CTA_STRIDE)
            machine.record(
                ReplayAccess(
                    step.site, writes, (cta, SHARED), offset, None, agent, machine.epochs.time, known, group,
                    group.waited, lane_addresses=lane_addresses,
                )
            )  # fmt: skip


def _addressing(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, address: Lanes, where: Lanes
) -> Lanes:
    """*where* without the threads whose address does not count, or is outside the variable that it is computed from.

    If the thread index alone leads there, the CTA is too large, and the whole launch is dropped.
    """
    match, size = step.instruction.match, len(group.threads)
    lanes = WARP if match is None else match.address_lanes
    if lanes < WARP:
        executing = broadcast(where, size)
        where = collapse(
            [w if t % WARP < lanes else 0 for t, w in zip(group.threads, executing, strict=True)]
        )
    by_index = machine.program.accesses.array(step.site) is not None
    extent = None if by_index else machine.extent(step.site)
    if extent is None:
        return where
    start, end = extent
    if _all_within(address, start, end):
        return where
    addresses = [a if a is None else a & OFFSET for a in broadcast(address, size)]
    executing = broadcast(where, size)
    return collapse(
        [w if a is None or start <= a < end else 0 for a, w in zip(addresses, executing, strict=True)]
    )


def _all_within(address: Lanes, start: int, end: int) -> bool:
    """Whether the addresses that are known are of one CTA, and from *start* to before *end* there; False may be wrong."""
    if address is None or isinstance(address, int):
        return address is None or start <= address & OFFSET < end
    known = [a for a in address if a is not None] if None in address else cast("Sequence[int]", address)
    if not known:
        return True
    low, high = min(known), max(known)
    return high - low < end - start and start <= low & OFFSET <= high & OFFSET < end


def _accesses_by_clock(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, address: Lanes, where: Lanes
) -> Iterator[tuple[Clock, Sequence[int], Lanes]]:
    """The positions of the threads that access an *address*, by equal clocks, with their own addresses."""
    if address is None or where is None:
        return
    for clock, positions in _positions_by_clock(machine, group, step, address, where).items():
        if isinstance(address, tuple) and len(positions) < len(address):
            yield clock, positions, tuple(map(address.__getitem__, positions))
        else:
            yield clock, positions, address


def _positions_by_clock(
    machine: ReplayMachine,
    group: ThreadGroup,
    step: ReplayStep,
    address: int | tuple[int | None, ...],
    where: Lanes,
) -> Mapping[Clock, Sequence[int]]:
    """The positions of the threads that access an *address*, by the clock of their warp.

    If the address depends on the launch, only the first: another launch may spread the others elsewhere.
    """
    size, observed = len(group.threads), group.clock
    steady = isinstance(address, int) or machine.program.accesses.launch_independent(step.site)
    found: dict[Clock, list[int]] = {}
    if where == 1 and steady:
        if isinstance(observed, int):
            return {observed: range(size)}
        if None not in broadcast(address, size):
            for clock, positions in zip(observed, positions_of(group.threads), strict=True):
                found.setdefault(clock, []).extend(positions)
            return found
    clocks = dict(zip(group.warps, repeat(observed) if isinstance(observed, int) else observed, strict=False))
    rows = zip(group.threads, broadcast(address, size), broadcast(where, size), strict=True)
    for position, (thread, a, executes) in enumerate(rows):
        if executes and a is not None:
            found.setdefault(clocks[thread >> 5], []).append(position)
            if not steady:
                break
    return found


@executes_data("fill")
def _fill(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    """A non-bulk copy, pending until its thread waits for it or an mbarrier that tracks it completes."""
    address, size = machine.role(group, step, "destination"), machine.role(group, step, "bytes")
    known = size if isinstance(size, int) else None
    for _, positions, own in _accesses_by_clock(machine, group, step, address, where):
        agent, number, clock = machine.operations.begin(step.instruction.group, group, positions)
        issued = machine.epochs.agent_of_warps(group, group.warps_at(positions)), machine.epochs.time
        for a in outermost(own, 1):
            cta, offset = divmod(a, CTA_STRIDE)
            machine.record(
                ReplayAccess(
                    step.site, True, (cta, SHARED), offset, known, agent, number, clock, group, group.waited,
                    box=step.site, issued=issued,
                )
            )  # fmt: skip


def items(operand: Operand) -> Sequence[Operand]:
    """The elements of a vector, or a single operand."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def _single_thread(where: Lanes, threads: int) -> bool:
    """Whether one thread executes an instruction."""
    return broadcast(where, threads).count(1) == 1 and where is not None


def outermost(address: Lanes, where: Lanes) -> set[int]:
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
