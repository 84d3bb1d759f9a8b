"""Why an operation of a completion group is still in flight at the end of a path, in words."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tclint.analyses.groups import OVERDUE, Groups
from tclint.checks import Mark
from tclint.checks._repairs import Pending, group_repairs
from tclint.dataflow import Path
from tclint.findings.edits import Repair
from tclint.ir.nodes import Immediate
from tclint.isa.effects import BULK, WGMMA

__all__ = ["PendingReason"]


_SPELLED = {BULK: ("cp.async.bulk", "wait_group.read")}
"""Group -> the prefix of its opcodes and the weakest sufficient wait, if not the group itself and ``wait_group``."""


class PendingReason(NamedTuple):
    """Why the operation at the start of a path is in flight at its end, and what would complete it."""

    why: str
    remedy: str
    """What to add or change before the instruction at the end of the path."""
    steps: tuple[Mark, ...]
    """The commit and the wait on the path that do not complete the operation."""
    wait: int | None
    """The last wait on the path, if its N or its position leaves the operation in flight; None otherwise."""
    fixes: tuple[Repair, ...] = ()

    @classmethod
    def of(
        cls, groups: Groups, path: Path, site: int, age: int, alike: Collection[int] = ()
    ) -> PendingReason:
        """The reason for the operation at *site*, whose age at the end of *path* is *age*.

        *alike* are further operations that the fix must complete.
        """
        pending = Pending.of(groups, path, site, age)
        reason = _uncommitted(groups, pending) if age < 0 else _committed(groups, pending)
        return reason._replace(fixes=group_repairs(groups.model, groups, pending, alike))


def _names(groups: Groups) -> tuple[str, str, str]:
    """The prefix of the opcodes of a group, the weakest wait that suffices, and the modifiers of both."""
    name, waits_for = _SPELLED.get(groups.group, (groups.group, "wait_group"))
    return name, waits_for, ".sync.aligned" if groups.group == WGMMA else ""


def _uncommitted(groups: Groups, pending: Pending) -> PendingReason:
    """The reason if no commit follows the operation, or none before the waits."""
    name, waits_for, aligned = _names(groups)
    if pending.age == OVERDUE:
        return PendingReason(
            "it was never committed, so no wait_group covers it",
            f"add {name}.commit_group{aligned} after the operation and before the wait",
            tuple(Mark(i, "this wait completes committed groups only") for i in pending.waits[:1]),
            None,
        )
    return PendingReason(
        "it was neither committed nor waited for",
        f"commit the group and wait for it ({name}.commit_group, {name}.{waits_for} 0) before this instruction",
        (),
        None,
    )


def _committed(groups: Groups, pending: Pending) -> PendingReason:
    """The reason if the operation is in a group: no wait, a wait before its commit, or one that leaves it in flight."""
    name, waits_for, aligned = _names(groups)
    steps = tuple(Mark(i, "committed here") for i in pending.commits[:1])
    if not pending.waits:
        return PendingReason(
            f"no intervening {name}.wait_group",
            f"add {name}.{waits_for}{aligned} 0 before this instruction",
            steps,
            None,
        )
    last = pending.waits[-1]
    if pending.age < pending.later:
        return PendingReason(
            f"it was committed after {name}.wait_group, which covers earlier groups only",
            f"commit it before the wait, or add {name}.{waits_for}{aligned} {pending.age} before this instruction",
            (Mark(last, "completes earlier groups only"), *steps),
            last,
        )
    return _left_in_flight(groups, pending, steps)


def _left_in_flight(groups: Groups, pending: Pending, steps: tuple[Mark, ...]) -> PendingReason:
    """The reason if the N of the last wait is too large."""
    name, waits_for, _ = _names(groups)
    age, last, later = pending.age, pending.waits[-1], pending.later
    wait = groups.model.instruction(last)
    depth, operand = groups.depth(wait), wait.role("depth")
    written = operand.value if isinstance(operand, Immediate) else depth
    enough = f"{name}.{waits_for} {f'{age} or less' if age else '0'} before this instruction"
    if later:  # one of them may be what precedes the later commits
        smaller = f"{age - later} or less" if age > later else "0"
        remedy = f"use {name}.{waits_for} {smaller} there, or add {enough}"
    else:
        remedy = f"use {enough}"
    newest = "the newest group" if depth == 1 else f"the newest {depth} groups"
    relation = "which is" if depth == 1 else "including"
    return PendingReason(
        f"{name}.wait_group {written} leaves {newest} in flight, {relation} this one",
        remedy,
        (*steps, Mark(last, f"waits for all but {newest}")),
        last,
    )
