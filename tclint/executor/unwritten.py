"""Whether the outcome of a launch depends on shared memory that nothing has written (PTX ISA 5.1.7).

The contents of such memory are undefined, but reading it is harmless as long as the value is not used: an over-read
of padding, a lane whose result is dropped. The launch is therefore executed again with other initial contents. A read
is observed only if another result is stored, or another path taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tclint.executor.memory import Array
from tclint.executor.observations import Observation
from tclint.executor.run import Execution

__all__ = ["observe_unwritten"]

Outcome = tuple[Sequence[Execution], Mapping[str, Array]]
"""The executions of a launch file and the final contents of the buffers."""

_FILL = 0x45
"""A byte that is a finite number of moderate size in every floating-point type when repeated."""


def observe_unwritten(first: Outcome, again: Callable[[int], Outcome]) -> None:
    """Add an observation to the first execution of *first* that reads shared memory which nothing has written, if the
    outcome depends on it.

    *again* repeats the launches with an initial value for each byte of shared memory.
    """
    executions, arrays = first
    reader = next((execution for execution in executions if execution.unwritten), None)
    if reader is None:
        return
    others, changed = again(_FILL)
    same = [(e.end, e.steps) for e in executions] == [(e.end, e.steps) for e in others] and all(
        array.tobytes() == changed[name].tobytes() for name, array in arrays.items()
    )
    if not same:
        sites = sorted(reader.unwritten)
        more = f", or on one of {len(sites) - 1} others" if len(sites) > 1 else ""
        text = f"reads shared memory that nothing has written, and the outcome depends on this read{more}"
        reader.observations.append(Observation("unwritten", sites[0], text, ""))
