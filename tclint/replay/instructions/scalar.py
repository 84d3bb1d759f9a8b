"""Registers that are computed from registers and constants."""

from __future__ import annotations

from tclint.ir.nodes import OperandPair, Vector
from tclint.replay.abstract_lanes import Lanes, apply
from tclint.replay.machine import ReplayMachine, executes_data
from tclint.replay.steps import ReplayStep
from tclint.replay.thread_groups import ThreadGroup

__all__: list[str] = []


@executes_data("unknown")
def _unknown(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    for register in step.instruction.writes:
        machine.assign(group, register, None)


@executes_data("constant")
def _constant(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    assert step.compute is not None
    for register in step.instruction.writes:
        machine.assign(group, register, step.compute(), where)


@executes_data("compute")
def _compute(machine: ReplayMachine, group: ThreadGroup, step: ReplayStep, where: Lanes) -> None:
    destination, sources, results = machine.program.plans.plan(step)
    held = [machine.operand(group, o) for o in sources]
    found = results[held[0] if len(held) == 1 else tuple(held)]
    if isinstance(destination, int):
        machine.assign(group, destination, found, where)
    elif isinstance(destination, Vector):
        match = step.instruction.match
        assert match is not None
        width = int(match.element[2:]) // len(destination.items)
        for i, item in enumerate(destination.items):
            if isinstance(item, int):
                machine.assign(group, item, _part(found, i, width), where)
    elif isinstance(destination, OperandPair):
        if isinstance(destination.second, int):
            machine.assign(group, destination.second, None, where)
        if isinstance(destination.first, int):
            machine.assign(group, destination.first, found, where)


def _part(value: Lanes, index: int, width: int) -> Lanes:
    """*width* bits of *value*, from bit *index* times *width* on."""
    return apply(lambda a: a >> index * width & (1 << width) - 1, [value])
