"""The rules about races that a replay shows."""

from __future__ import annotations

from tclint.checks import RuleId

__all__ = [
    "BK001",
    "BK002",
    "BK011",
    "CA001",
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

READERS_ARRIVE = "let the readers arrive at an mbarrier when they have finished"
"""How other threads can observe reads that are complete when the next instruction of their thread runs."""
