"""The rules about races that a replay shows, and how their help has the first access observed."""

from __future__ import annotations

from tclint.checks import RuleId

__all__ = [
    "BK001",
    "BK002",
    "BK011",
    "CA001",
    "COMPLETION",
    "HAZARDS",
    "PR005",
    "READERS_ARRIVE",
    "SM001",
    "TC001",
    "TC002",
    "TC012",
    "WG011",
]

BK001, BK002, BK011, CA001, PR005, SM001, TC001, TC002, TC012, WG011 = HAZARDS = tuple(
    map(RuleId, "BK001 BK002 BK011 CA001 PR005 SM001 TC001 TC002 TC012 WG011".split())
)
"""The rules about two unordered accesses to shared or tensor memory."""

COMPLETION = {
    "bulk": "wait until its source has been read (cp.async.bulk.wait_group.read), then let that thread arrive at an mbarrier",
    "cp.async": "wait for it (cp.async.wait_group), then let that thread arrive at an mbarrier, or let an mbarrier track it"
    " (cp.async.mbarrier.arrive)",
    "mbarrier": "use the mbarrier on which the copy completes",
    "tcgen05": "commit that operation to an mbarrier (tcgen05.commit)",
    "tcgen05.ld": "let those threads arrive at an mbarrier after tcgen05.wait::ld",
    "tcgen05.st": "let those threads arrive at an mbarrier after tcgen05.wait::st",
    "wgmma": "wait for its group (wgmma.wait_group), then let those threads arrive at an mbarrier",
}
"""How other threads can observe that an operation has completed, by its group."""
READERS_ARRIVE = "let the readers arrive at an mbarrier when they have finished"
"""The same for reads that are complete when the next instruction of their thread runs."""
