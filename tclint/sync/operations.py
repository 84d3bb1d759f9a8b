"""Asynchronous operations: what an instruction of the thread that began one makes of its stage.

An operation is open until a commit puts it into a group. The newest group has age 0, each later commit makes it one older,
and a wait that leaves N groups completes those of age N or more (PTX ISA 9.7.9.25.3.3, 9.7.9.27.2, 9.7.15.7). A wait that
names no number completes the open operations too (9.7.9.25.3.4, 9.7.16.8.5).
"""

from __future__ import annotations

from collections.abc import Iterable

from tclint.isa.effects import Effects

__all__ = ["NO_GROUPS", "OPEN", "OVERDUE", "UNCLEAR", "completed", "oldest", "step"]

OPEN = -1
"""The stage of an operation that is not committed. A committed one has the age of its group."""
OVERDUE = -2
"""As :data:`OPEN`, but a wait has followed, which would have completed it in a group."""
NO_GROUPS, UNCLEAR = 0, 1 << 31
"""The groups that a wait is taken to leave if the number is unknown: none for findings, so that nothing is reported past
it; all for proofs and needless waits, which may rely on no wait that is unclear."""


def step(stage: int, effects: Effects, left: int, most: int, *, sources: bool = False) -> int | None:
    """The stage of an operation after an instruction about the engine of the operation; None if the operation is complete.

    A wait leaves *left* groups, or :data:`OPEN` if it leaves no operation. Ages saturate at *most*. With *sources*, an
    operation is complete when its sources have been read (9.7.9.27.2).
    """
    if effects.commits is not None:
        return 0 if stage < 0 else min(stage + 1, most)
    if effects.waits is None or (effects.sources and not sources):
        return stage
    if left <= max(stage, OPEN):
        return None
    return OVERDUE if stage < 0 else stage


def oldest(left: Iterable[int]) -> int:
    """The age that every wait completes which completes any group, given the groups that they leave."""
    return 1 + max((groups for groups in left if OPEN < groups < UNCLEAR), default=0)


def completed(closed: int, left: int) -> int:
    """The oldest groups that a wait completes which leaves *left*, of so many *closed* ones and the open one."""
    return max(0, closed - left)
