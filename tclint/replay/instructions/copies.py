"""Bulk and tensor copies, and requests for the work of other clusters (PTX ISA 9.7.9.25, 9.7.9.27, 9.7.13.17)."""

from __future__ import annotations

from collections.abc import Sequence

from tclint.analyses.mbarriers import RESPONSE, transferred
from tclint.isa.effects import BULK, Query
from tclint.replay.abstract_lanes import Lanes, apply
from tclint.replay.accesses import CTA_STRIDE, OFFSET, SHARED, ReplayAccess
from tclint.replay.instructions.mbarriers import ALL_CTAS, by_operands, ranks, transaction_bytes
from tclint.replay.instructions.memory import items, outermost
from tclint.replay.machine import ReplayMachine, executes
from tclint.replay.reasons import NotReplayed
from tclint.replay.scheduler import Unresolved
from tclint.replay.steps import ReplayStep
from tclint.replay.sync import PendingTransfer
from tclint.replay.thread_groups import ThreadGroup
from tclint.replay.vector_clocks import Clock, event

__all__ = ["copy", "copy_out"]


def copy(
    machine: ReplayMachine,
    group: ThreadGroup,
    step: ReplayStep,
    positions: Sequence[int],
    response: int | None = None,
) -> None:
    """A copy into the shared memory of one or several CTAs, which completes on the mbarrier at the same offset in
    each.

    An H200 ignores the CTA in the address of the mbarrier. With ``.cta_group::2`` the copy completes in the CTA
    of each pair that has the parity of the mbarrier's CTA (9.7.9.27.1.2).
    """
    address, destination = (
        machine.operand(group, step.instruction.mbarrier),
        machine.role(group, step, "destination"),
    )
    size, ctas = _size(machine, group, step), machine.role(group, step, "mask", ALL_CTAS)
    tensor_map = machine.role(group, step, "tensormap")
    match = step.instruction.match
    assert match is not None
    if size is None and not match.modes.gathers:
        size = machine.launch.copied_bytes(tensor_map)
    box = step.site if tensor_map is None else (step.instruction.opcode, tensor_map)
    several, pairs = match.multicast, match.of_pair
    together, unit = match.scope == "warp", match.transaction_unit
    operands = address, _known(destination), _known(size), ctas
    machine.epochs.end(group)
    clocks: dict[tuple[int, ...], Clock] = {}
    for (at, to, many, mask), who in by_operands(step, positions, *operands).items():
        bytes_ = many if many >= 0 else None
        warps = group.warps_at(who)
        if warps not in clocks:
            clocks[warps] = machine.epochs.release_clock(group, who)
        known = clocks[warps]
        home = at if pairs or to < 0 else to
        for rank in ranks(machine, step, mask) if several else (home >> 24,):
            reports = rank & ~1 | at >> 24 & 1 if several and pairs else rank
            mbarrier = machine.mbarrier(step, at & OFFSET | reports << 24)
            agent = machine.epochs.agent("copy", reports, mbarrier=mbarrier.address)
            for _ in warps if together else who:
                number = machine.operations.begin_copy(agent, known)
                completed = None if bytes_ is None else bytes_ // unit
                mbarrier.transfers.append(PendingTransfer(event(agent, number), completed))
            if to < 0:
                machine.memory.clobbered_loads |= machine.program.overwritten.get(step.site, set())
            else:
                location = rank if several else to >> 24, to & OFFSET
                if step.site in machine.program.overwritten:
                    machine.memory.invalidate(location[0] * CTA_STRIDE + location[1], bytes_)
                machine.record(
                    ReplayAccess(
                        step.site, True, (location[0], SHARED), location[1], bytes_, agent, number, known, group,
                        group.waited, mbarrier, mbarrier.phase, box,
                    )
                )  # fmt: skip
                if response is not None:
                    machine.memory.store(location[0] * CTA_STRIDE + location[1], response, RESPONSE)


def copy_out(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    """A bulk copy out of shared memory, which is read until a wait for its bulk group."""
    size = _size(machine, group, step)
    machine.epochs.end(group)
    agent, number, clock = machine.operations.begin(BULK, group, positions)
    for a in outermost(machine.role(group, step, "source"), where):
        known = size if isinstance(size, int) else None
        cta, offset = divmod(a, CTA_STRIDE)
        machine.record(
            ReplayAccess(
                step.site, False, (cta, SHARED), offset, known, agent, number, clock, group, group.waited
            )
        )


def _size(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep) -> Lanes:
    """A copy's size in bytes; None: unknown."""
    match = step.instruction.match
    assert match is not None
    if "bytes" not in match.form.roles:
        return transferred(match)
    bytes_, made_up = transaction_bytes(machine, group, step, "bytes")
    return None if made_up else bytes_


@executes(Query.CANCEL)
def _clc_request(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    """The first few requests are granted, later ones find no cluster left (9.7.13.17)."""
    machine.cancelled[group.cta] = number = machine.cancelled.get(group.cta, 0) + 1
    copy(machine, group, step, positions, number if number <= machine.launch.values.cancelled else 0)


@executes(Query.CANCELLED)
def _clc_query(
    machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, positions: Sequence[int], where: Lanes
) -> None:
    match = step.instruction.match
    assert match is not None
    response = machine.role(group, step, "source") if machine.program.answered else 0
    if response is None:
        raise Unresolved(step.site, NotReplayed.UNKNOWN_RESPONSE)
    first = apply(lambda number: number * machine.launch.shape.cluster[0], [response])
    coordinate = match.binding.get("coordinate")
    values: Sequence[Lanes] = [first, 0, 0, None]
    if match.modes.tests_cancellation:
        values = [apply(lambda number: int(number > 0), [response])]
    elif coordinate is not None:
        values = [first if coordinate.endswith("x") else 0]
    for item, value in zip(items(step.instruction.operands[0]), values, strict=True):
        if isinstance(item, int):
            machine.assign(group, item, value, where)


def _known(value: Lanes) -> Lanes:
    """*value*, or -1 if it is unknown."""
    return -1 if value is None else value
