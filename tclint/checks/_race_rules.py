"""The rules about races that a replay shows."""

from __future__ import annotations

from tclint.checks import RuleId
from tclint.findings.rules import claims
from tclint.isa.effects import NO_ENGINE, Engine

__all__ = ["AWAIT", "AWAIT_HERE", "HAZARDS", "READERS_ARRIVE", "UNWAITED", "race_rule"]

_RACES = (
    "read-too-early", "source-overwritten", "tensor-memory", "tensor-memory-across-warps", "unordered", "unordered-operand",
    "unordered-refill",
)  # fmt: skip
"""What a replay shows of two unordered accesses, in the terms of the observations of an execution."""
HAZARDS = tuple(
    sorted(RuleId(rule) for name, rule in claims().items() if name.partition(" of ")[0] in _RACES)
)
"""The rules about two unordered accesses to shared or tensor memory."""


def race_rule(kind: str, of: Engine = NO_ENGINE, otherwise: str = "") -> RuleId:
    """The rule about an observation of a *kind*: of a pending operation *of* an engine, if there is one, or *otherwise*."""
    return RuleId(claims().get(f"{kind} of {of}") or claims()[otherwise or kind])


READERS_ARRIVE = "let the readers arrive at an mbarrier when they have finished"
"""How other threads can observe reads that are complete when the next instruction of their thread runs."""
UNWAITED = "no wait for its mbarrier on this path"
"""Why a read of what a bulk copy writes comes too early."""
AWAIT = "wait for the phase that the copy completes on its mbarrier"
AWAIT_HERE = f"{AWAIT} (mbarrier.try_wait) before this instruction"
