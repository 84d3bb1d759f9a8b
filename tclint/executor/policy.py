"""How a kernel is executed, whichever it is: the schedule, the limits, and what is watched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from tclint._dataclass import dataclass
from tclint.executor.observations import Observation
from tclint.executor.schedule import Schedule
from tclint.ir.nodes import Function
from tclint.syntax.source import Source

__all__ = ["FILL", "STEPS", "Policy", "line_of"]

STEPS = 50_000_000
"""Instructions of warps after which an execution ends, unless another limit is given."""
FILL = 0x45
"""A byte that is a finite number of moderate size in every floating-point type when repeated."""


def line_of(source: Source, function: Function, site: int) -> int:
    """The line of an instruction; for a *site* past the end, the line of the last instruction."""
    instructions = function.instructions
    at = instructions[min(site, len(instructions) - 1)].start if instructions else 0
    return source.position(function.start + at).line


@dataclass(frozen=True, slots=True)
class Policy:
    """How a kernel is executed, whatever its launch and its memory."""

    how: str | Schedule = "lazy"
    """The schedule, or its name."""
    steps: int = STEPS
    """Instructions of warps after which the execution ends."""
    seconds: float = float("inf")
    """The time after which it ends."""
    source: Source | None = None
    """The text whose lines are named in messages; without one, they name numbers of instructions."""
    watched: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By entry, the instructions that :attr:`~tclint.executor.run.Execution.reached` is about."""
    tracer: Callable[[Any], None] | None = None
    """Called with each :class:`~tclint.executor.machine.Machine` before it runs."""
    counts: bool = False
    """Whether what accesses to memory cost is counted (:attr:`~tclint.executor.run.Execution.counts`)."""
    fill: int = 0
    """The initial value of each byte of shared memory."""
    noted: Callable[[Observation, Function], bool] | None = None
    """Whether an observation is of what hardware was never seen to get wrong, so that it hides no data; None: none is."""
    filled: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By entry, the registers that do not begin as zero: all their bytes are :data:`FILL`."""

    def place(self, function: Function, site: int) -> str:
        """What messages call an instruction."""
        if self.source is None:
            return f"instruction {site}"
        return f"line {line_of(self.source, function, site)}"
