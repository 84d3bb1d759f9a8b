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

__all__ = ["PendingReason"]


_SPELLED = {"bulk": ("cp.async.bulk", "wait_group.read")}
"""Group -> how its instructions begin, and the wait that is enough, where both are not as elsewhere."""


class PendingReason(NamedTuple):
    """What a path lacks that would complete the operation it begins with."""

    why: str
    remedy: str
    """It belongs before the instruction at the end of the path."""
    steps: tuple[Mark, ...]
    """What looks as if it did."""
    wait: int | None
    """The wait that leaves the operation in flight, if that is what is wrong."""
    fixes: tuple[Repair, ...] = ()

    @classmethod
    def of(
        cls, model: KernelModel, groups: Groups, path: Path, site: int, age: int, alike: Collection[int] = ()
    ) -> PendingReason:
        """The flight of the operation at *site*, which has *age* at the end of *path*, and of those *alike*."""
        name, waits_for = _SPELLED.get(groups.group, (groups.group, "wait_group"))
        aligned = ".sync.aligned" if name == "wgmma" else ""
        passed: dict[str, list[int]] = {"wait": [], "commit": []}
        later = 0
        for i in path.sites(model.cfg, site):
            instruction = model.instruction(i)
            if instruction.group == groups.group and instruction.event in passed:
                passed[instruction.event].append(i)
                later = later + 1 if instruction.event == "commit" else 0
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
                f"no {name}.wait_group completes it before",
                f"add {name}.{waits_for}{aligned} 0 before this instruction",
                tuple(steps),
                None,
                fixes,
            )
        depth = groups.depth(model.instruction(waits[-1]))
        newest = "the newest group" if depth == 1 else f"the newest {depth} groups"
        steps.append(Mark(waits[-1], f"waits for all but {newest}"))
        return cls(
            f"{name}.wait_group {depth} leaves {newest} in flight, {'and it is this one' if depth == 1 else 'this one among them'}",
            f"wait with {name}.{waits_for} {age} or less before this instruction",
            tuple(steps),
            waits[-1],
            fixes,
        )
