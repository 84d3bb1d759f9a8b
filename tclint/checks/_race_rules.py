"""The rules about races that a replay shows, and how their help has the first access observed."""

from __future__ import annotations

from tclint.checks import RuleId
from tclint.isa.effects import BULK, CP_ASYNC, TCGEN05, TCGEN05_LD, TCGEN05_ST, TRANSACTIONS, WGMMA

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
