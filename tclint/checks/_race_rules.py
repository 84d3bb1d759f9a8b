"""The rules about races that a replay shows, and how their help has the first access observed."""

from __future__ import annotations

from tclint.checks import RuleId
from tclint.findings.rules import claims
from tclint.isa.effects import (
    BULK,
    CP_ASYNC,
    NO_ENGINE,
    TCGEN05,
    TCGEN05_LD,
    TCGEN05_ST,
    TRANSACTIONS,
    WGMMA,
    Engine,
)

__all__ = ["COMPLETION", "HAZARDS", "READERS_ARRIVE", "race_rule"]

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


COMPLETION = {
    BULK: "wait until its source has been read (cp.async.bulk.wait_group.read), then let that thread arrive at an mbarrier",
    CP_ASYNC: "wait for it (cp.async.wait_group), then let that thread arrive at an mbarrier, or let an mbarrier track it"
    " (cp.async.mbarrier.arrive)",
    TRANSACTIONS: "use the mbarrier on which the copy completes",
    TCGEN05: "commit that operation to an mbarrier (tcgen05.commit)",
    TCGEN05_LD: "let those threads arrive at an mbarrier after tcgen05.wait::ld",
    TCGEN05_ST: "let those threads arrive at an mbarrier after tcgen05.wait::st",
    WGMMA: "wait for its group (wgmma.wait_group), then let those threads arrive at an mbarrier",
}
"""How other threads can observe that an operation has completed, by its group."""
READERS_ARRIVE = "let the readers arrive at an mbarrier when they have finished"
"""The same for reads that are complete when the next instruction of their thread runs."""
