"""Why an operation of a completion group is still in flight at the end of a path, in words."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tclint.analyses.groups import OVERDUE, Groups
from tclint.analyses.model import KernelModel
from tclint.checks import Mark
from tclint.checks._repairs import group_repairs
from tclint.dataflow import Path
from tclint.findings.edits import Repair
from tclint.ir.nodes import Immediate

__all__ = ["PendingReason"]


_SPELLED = {"bulk": ("cp.async.bulk", "wait_group.read")}
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
        cls, model: KernelModel, groups: Groups, path: Path, site: int, age: int, alike: Collection[int] = ()
    ) -> PendingReason:
        """The reason for the operation at *site*, whose age at the end of *path* is *age*.

        *alike* are further operations that the fix must complete.
        """
        name, waits_for = _SPELLED.get(groups.group, (groups.group, "wait_group"))
        aligned = ".sync.aligned" if name == "wgmma" else ""
        passed: dict[str, list[int]] = {"wait": [], "commit": []}
        later = 0  # commits after the last wait
        for i in path.sites(model.cfg, site):
            instruction = model.instruction(i)
            if instruction.group == groups.group and instruction.event in passed:
                passed[instruction.event].append(i)
                later = later + 1 if instruction.effects.commits is not None else 0
        waits, commits = passed["wait"], passed["commit"]
        fixes = group_repairs(model, groups, path, site, age, waits, later, alike)
        if age == OVERDUE:
            return cls(
                "it was never committed, so no wait_group covers it",
                f"add {name}.commit_group{aligned} after the operation and before the wait",
                tuple(Mark(i, "this wait completes committed groups only") for i in waits[:1]),
                None,
                fixes,
            )
        if age < 0:
            return cls(
                "it was neither committed nor waited for",
                f"commit the group and wait for it ({name}.commit_group, {name}.{waits_for} 0) before this instruction",
                (),
                None,
                fixes,
            )
        steps = [Mark(i, "committed here") for i in commits[:1]]
        if not waits:
            return cls(
                f"no intervening {name}.wait_group",
                f"add {name}.{waits_for}{aligned} 0 before this instruction",
                tuple(steps),
                None,
                fixes,
            )
        if age < later:
            return cls(
                f"it was committed after {name}.wait_group, which covers earlier groups only",
                f"commit it before the wait, or add {name}.{waits_for}{aligned} {age} before this instruction",
                (Mark(waits[-1], "completes earlier groups only"), *steps),
                waits[-1],
                fixes,
            )
        wait = model.instruction(waits[-1])
        depth, operand = groups.depth(wait), wait.role("depth")
        written = operand.value if isinstance(operand, Immediate) else depth
        enough = f"{name}.{waits_for} {f'{age} or less' if age else '0'} before this instruction"
        if later:  # one of them may be what precedes the later commits
            smaller = f"{age - later} or less" if age > later else "0"
            remedy = f"use {name}.{waits_for} {smaller} there, or add {enough}"
        else:
            remedy = f"use {enough}"
        newest = "the newest group" if depth == 1 else f"the newest {depth} groups"
        steps.append(Mark(waits[-1], f"waits for all but {newest}"))
        relation = "which is" if depth == 1 else "including"
        return cls(
            f"{name}.wait_group {written} leaves {newest} in flight, {relation} this one",
            remedy,
            tuple(steps),
            waits[-1],
            fixes,
        )
