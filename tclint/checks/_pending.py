"""Operations of completion groups that are still in flight: at the end of a path, with the reason in words, and at the
end of a thread."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from tclint._named_tuple import NamedTuple
from tclint.analyses.groups import Groups
from tclint.analyses.model import FactQuery
from tclint.analyses.plausibility import NO_DOUBT, Doubt, DoubtAbout, most_plausible_path
from tclint.checks import Mark
from tclint.checks._repairs import PendingInGroup, group_repairs
from tclint.checks._wording import avoided
from tclint.dataflow import EXIT, Path
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.dataflow.kernel import Kernel
from tclint.findings.edits import Repair
from tclint.ir.nodes import Immediate, Instruction
from tclint.sync.operations import OPEN, OVERDUE

__all__ = ["PendingReason", "left_at_the_end"]

MAX_TRIES = 4
"""Operations for which a path to the end of the thread is searched, the last one first."""


def left_at_the_end(
    groups: Groups,
    operations: Iterable[int],
    known: Collection[int],
    doubt: DoubtAbout = lambda start, path: NO_DOUBT,
) -> tuple[int, Path, Doubt] | None:
    """One of *operations* that is in flight when its thread ends, the path to there, and what else there is to doubt of it.

    An operation of an age in *known* is not: the thread, or another one, knows that it is complete. *doubt* is about the path.
    """
    model = groups.model
    _, results = model.solution(type(groups))

    def step(site: int, age: int, at: int, instruction: Instruction) -> int | None:
        after = groups.follow(site, age, at, instruction)
        return None if after in known else after

    ends = [results.leave(b)[0] for b in model.cfg.order if b in model.cfg.exits]
    left = (
        i for i in sorted(operations, reverse=True) if any(a not in known for end in ends for a in end.of(i))
    )
    for site in model.ledger.at_most(MAX_TRIES, left, FEASIBLE_PATH, -1, "copies"):
        query = FactQuery(site, OPEN, results, partial(step, site), lambda state, i: i == EXIT, ())
        found = most_plausible_path(model, query, doubt).witness
        if found is not None and model.confidence(found[0], site) is None:
            return (site, *found)
    return None


class PendingReason(NamedTuple):
    """Why the operation at the start of a path is in flight at its end, and what would complete it."""

    why: str
    remedy: str
    """What to add or change before the instruction at the end of the path."""
    steps: tuple[Mark, ...]
    """The commit and the wait on the path that do not complete the operation, and the wait that it skips or that follows it."""
    wait: int | None
    """The last wait on the path, if its N or its position leaves the operation in flight; None otherwise."""
    fixes: tuple[Repair, ...] = ()

    @classmethod
    def of(
        cls, groups: Groups, path: Path, site: int, age: int, equivalent: Collection[int] = ()
    ) -> PendingReason:
        """The reason for the operation at *site*, whose age at the end of *path* is *age*.

        *equivalent* are further operations that the fix must complete.
        """
        pending = PendingInGroup.of(groups, path, site, age)
        name = groups.model.name(site)
        reason = _uncommitted(groups, pending, name) if age < 0 else _committed(groups, pending, name)
        if age >= 0 and reason.wait is None:
            waits = groups.model.waits(groups.group)
            skipped = avoided(groups.model, path, waits)
            late = () if skipped else _late(groups.model, path.end, waits)
            moved = "move the later wait up, or " if late else ""
            reason = reason._replace(steps=(*reason.steps, *skipped, *late), remedy=moved + reason.remedy)
        return reason._replace(fixes=group_repairs(groups.model, groups, pending, equivalent))


def _late(model: Kernel, end: int, waits: Collection[int]) -> tuple[Mark, ...]:
    """The step about the first of *waits* that only executes after *end*."""
    cfg = model.cfg
    here = cfg.block_of[end]
    after = (i for i in sorted(waits) if i > end and cfg.dominates(here, cfg.block_of[i]))
    return tuple(Mark(i, "this wait comes too late", role="", aside=True) for i in list(after)[:1])


def _uncommitted(groups: Groups, pending: PendingInGroup, name: str) -> PendingReason:
    """The reason if no commit follows the operation, or none before the waits."""
    words = groups.group.words
    if pending.age == OVERDUE:
        return PendingReason(
            f"{name} was never committed, so no wait_group covers it",
            f"add {words.commit}{words.modifiers} after the operation and before the wait",
            tuple(Mark(i, "this wait completes committed groups only") for i in pending.waits[:1]),
            None,
        )
    return PendingReason(
        f"{name} was neither committed nor waited for",
        f"commit the group and wait for it ({words.commit}, {words.enough} 0) before this instruction",
        (),
        None,
    )


def _committed(groups: Groups, pending: PendingInGroup, name: str) -> PendingReason:
    """The reason if the operation is in a group: no wait, a wait before its commit, or one that leaves it in flight."""
    words = groups.group.words
    steps = tuple(Mark(i, "committed here") for i in pending.commits[:1])
    if not pending.waits:
        return PendingReason(
            f"no intervening {words.wait}",
            f"add {words.enough}{words.modifiers} 0 before this instruction",
            steps,
            None,
        )
    last = pending.waits[-1]
    if pending.age < pending.later:
        return PendingReason(
            f"{name} was committed after {words.wait}, which covers earlier groups only",
            f"commit it before the wait, or add {words.enough}{words.modifiers} {pending.age} before this instruction",
            (Mark(last, "completes earlier groups only"), *steps),
            last,
        )
    return _left_in_flight(groups, pending, name, steps)


def _left_in_flight(
    groups: Groups, pending: PendingInGroup, name: str, steps: tuple[Mark, ...]
) -> PendingReason:
    """The reason if the N of the last wait is too large."""
    words = groups.group.words
    age, last, later = pending.age, pending.waits[-1], pending.later
    wait = groups.model.instruction(last)
    depth, operand = groups.left[last], wait.role("depth")
    written = operand.value if isinstance(operand, Immediate) else depth
    enough = f"{words.enough} {f'{age} or less' if age else '0'} before this instruction"
    # What precedes the later commits may be one of them.
    smaller = f"{age - later} or less" if age > later else "0"
    relation = "that" if depth == 1 else "including that"
    newest = "the newest group" if depth == 1 else f"the newest {depth} groups"
    return PendingReason(
        f"{words.wait} {written} leaves {newest} in flight, {relation} of {name}",
        f"use {words.enough} {smaller} there, or add {enough}",
        (*steps, Mark(last, f"waits for all but {newest}")),
        last,
    )
