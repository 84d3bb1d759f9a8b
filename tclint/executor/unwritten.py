"""Whether the outcome of a launch depends on shared memory that nothing has written (PTX ISA 5.1.7).

The contents of such memory are undefined, but reading it is harmless as long as the value is not used: an over-read
of padding, a lane whose result is dropped. The launch is therefore executed again with other initial contents. A read
is observed only if another result is stored, or another path taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tclint.executor.memory import Array
from tclint.executor.observations import Observation
from tclint.executor.run import End, Execution

__all__ = ["observe_unwritten"]

Outcome = tuple[Sequence[Execution], Mapping[str, Array]]
"""The executions of a launch file and the final contents of the buffers."""

_FILL = 0x45
"""A byte that is a finite number of moderate size in every floating-point type when repeated."""


def observe_unwritten(first: Outcome, again: Callable[[int], Outcome]) -> None:
    """Add an observation to the first execution of *first* that reads shared memory which nothing has written, if the
    outcome depends on it, or a note if the repetition ends too early to show this.

    *again* repeats the launches with an initial value for each byte of shared memory.
    """
    executions, arrays = first
    reader = next((execution for execution in executions if execution.unwritten), None)
    if reader is None or executions[-1].end == "budget":
        return
    others, changed = again(_FILL)
    sites = sorted(reader.unwritten)
    if _stopped_early(executions, others):
        text = "whether the outcome depends on what nothing has written is unknown: the repetition ran out of budget"
        reader.notes = {**reader.notes, text: sites[0]}
        return
    same = _ends(executions) == _ends(others) and all(
        array.tobytes() == changed[name].tobytes() for name, array in arrays.items()
    )
    if not same:
        more = f", or on one of {len(sites) - 1} others" if len(sites) > 1 else ""
        text = f"reads shared memory that nothing has written, and the outcome depends on this read{more}"
        reader.observations.append(Observation("unwritten", sites[0], text, ""))


def _stopped_early(executions: Sequence[Execution], others: Sequence[Execution]) -> bool:
    """Whether *others* end at a budget, and differ from *executions* in nothing up to there."""
    *before, last = others
    at = len(before)
    return (
        last.end == "budget"
        and _ends(executions[:at]) == _ends(before)
        and last.steps <= executions[at].steps
    )


def _ends(executions: Sequence[Execution]) -> list[tuple[End, int]]:
    return [(e.end, e.steps) for e in executions]
