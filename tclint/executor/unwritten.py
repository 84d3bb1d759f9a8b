"""Whether the outcome of a launch depends on shared memory (PTX ISA 5.1.7) or registers (5.1.1) that nothing has written.

Their contents are undefined, but reading them is harmless as long as the value is not used: an over-read of padding, a
lane whose result is dropped. The launch is therefore executed again with other initial contents. A read is observed only
if another result is stored, or another path taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from tclint._named_tuple import NamedTuple
from tclint.executor.memory import Array
from tclint.executor.observations import Observation
from tclint.executor.policy import FILL
from tclint.executor.run import End, Execution

__all__ = ["FirstRead", "Outcome", "observe_undefined", "observe_unwritten"]

MAX_REGISTERS = 8
"""The registers of an entry that are tried one by one."""
Outcome = tuple[Sequence[Execution], Mapping[str, Array]]
"""The executions of a launch file and the final contents of the buffers."""


class FirstRead(NamedTuple):
    """A register that may be read before anything has written it."""

    register: int
    name: str
    site: int
    """Where it is read first."""


def observe_unwritten(first: Outcome, again: Callable[[int], Outcome]) -> None:
    """Add an observation to the first execution of *first* that reads shared memory which nothing has written, if the
    outcome depends on it, or a note if the repetition ends too early to show this.

    *again* repeats the launches with an initial value for each byte of shared memory.
    """
    executions, _ = first
    reader = next((execution for execution in executions if execution.unwritten), None)
    if reader is None or executions[-1].end == "budget":
        return
    sites = sorted(reader.unwritten)
    differs = _differs(first, again(FILL))
    if differs is None:
        text = "whether the outcome depends on what nothing has written is unknown: the repetition ran out of budget"
        reader.notes = {**reader.notes, text: sites[0]}
    elif differs:
        more = f", or on one of {len(sites) - 1} others" if len(sites) > 1 else ""
        text = f"reads shared memory that nothing has written, and the outcome depends on this read{more}"
        reader.observations.append(Observation("unwritten", sites[0], text, ""))


def observe_undefined(
    first: Outcome, reader: Execution, reads: Iterable[FirstRead], again: Callable[[frozenset[int]], Outcome]
) -> None:
    """Add an observation to *reader* for each of the registers that *reads* names on which the outcome of *first* depends.

    *again* repeats the launches with other initial contents of some registers of the entry.
    """
    executions, _ = first
    tried = list(islice(reads, MAX_REGISTERS))
    if not tried or executions[-1].end == "budget":
        return
    if not _differs(first, again(frozenset(read.register for read in tried))):
        return
    for register, name, site in tried:
        if len(tried) == 1 or _differs(first, again(frozenset((register,)))):
            text = f"reads {name}, which nothing has written, and the outcome depends on it"
            reader.observations.append(Observation("undefined", site, text, ""))


def _differs(first: Outcome, second: Outcome) -> bool | None:
    """Whether two executions of the same launches store other results or take other paths; None if the second one ran out
    of budget before that shows."""
    (executions, arrays), (others, changed) = first, second
    if _stopped_early(executions, others):
        return None
    return _ends(executions) != _ends(others) or any(
        array.tobytes() != changed[name].tobytes() for name, array in arrays.items()
    )


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
