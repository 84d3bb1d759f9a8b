"""Which questions about the order of two events have which answers (PTX ISA 8.8, 8.9)."""

from __future__ import annotations

from enum import IntEnum

from tclint._named_tuple import NamedTuple
from tclint.dataflow import Path

__all__ = ["OrderScope", "Ordered", "Ordering", "SynchronisedPair", "Unknown", "Unordered"]


class OrderScope(IntEnum):
    """How far apart two threads are."""

    LANES = 0
    """In one warp."""
    WARPS = 1
    """In different warps of a CTA."""
    CTAS = 2
    """In different CTAs of a cluster."""


class SynchronisedPair(NamedTuple):
    """A synchronised pair: what a thread does before *arrival* happens before what another does after *wait*."""

    arrival: int
    wait: int


class Ordered(NamedTuple):
    """On every path, a thread is ordered after the event by the time it reaches the instruction."""

    at: tuple[int, ...]
    """The acquire points at which it observes the event, the last one on each path."""
    assumptions: tuple[str, ...]
    """What the order rests on and is not shown; empty: it follows from the must-order alone."""


class Unordered(NamedTuple):
    """A thread may reach the instruction without being ordered after the event: not even the may-order has the pair."""

    path: Path
    """A feasible path to the instruction that passes no acquire point that may observe the event."""


class Unknown(NamedTuple):
    """Neither an order nor its absence is shown. Nothing may be concluded from it, least of all a defect."""

    at: tuple[int, ...]
    """The acquire points at which a thread may observe the event."""
    reasons: tuple[str, ...]


Ordering = Ordered | Unordered | Unknown
