"""Accesses to shared and tensor memory, as a replay records them for :mod:`tclint.replay.races`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tclint._named_tuple import NamedTuple
from tclint.isa.effects import GENERIC_COPIES
from tclint.replay.abstract_lanes import Lanes
from tclint.replay.sync import ReplayMbarrier
from tclint.replay.thread_groups import ThreadGroup
from tclint.replay.vector_clocks import Agent, Clock, happens_before

__all__ = ["CTA_STRIDE", "OFFSET", "SHARED", "LaneAddresses", "ReplayAccess"]

CTA_STRIDE = 1 << 24
"""The distance between the shared memories of consecutive CTAs of a cluster."""
OFFSET = CTA_STRIDE - 1
"""The part of a shared-memory address that is the offset in the CTA."""


class LaneAddresses(NamedTuple):
    """The addresses that the threads of one group access together."""

    threads: tuple[int, ...]
    address: Lanes
    """The address of each thread."""
    observed: Clock
    """What each warp has observed of the others, the warps of its own group included."""


SHARED = -1
"""Stands for shared memory in :attr:`ReplayAccess.memory`."""


class ReplayAccess(NamedTuple):
    """A read of shared or tensor memory, or a write by a store or an asynchronous operation."""

    site: int
    writes: bool
    memory: tuple[int, int]
    """The memory of *offset*: a CTA, and :data:`SHARED` or the quarter of the lanes of its tensor memory."""
    offset: int
    """In bytes, or in columns of tensor memory."""
    size: int | None
    """In bytes, or in columns; None: unknown."""
    agent: Agent
    number: int
    """The event of *agent*."""
    clock: Clock
    """What happens before the access."""
    group: ThreadGroup
    waited: Mapping[int, int]
    """The last wait of the issuing threads for each mbarrier, by address, the latest last."""
    mbarrier: ReplayMbarrier | None = None
    """Where a copy completes."""
    phase: int = 0
    """The phase of the mbarrier when the copy was issued."""
    box: object = None
    """Copies with an equal box have equal sizes: they use one tensor map."""
    lane_addresses: LaneAddresses | None = None
    """The addresses of a plain access by thread."""
    issued: tuple[Agent, int] | None = None
    """Of a non-bulk copy, the event of the threads during which they issued it."""

    @property
    def tensor(self) -> bool:
        """Whether it accesses tensor memory."""
        return self.memory[1] >= 0

    @property
    def plain(self) -> bool:
        """Whether it is a plain access to shared memory."""
        return not self.agent.kind and not self.tensor

    @property
    def own(self) -> bool:
        """Whether single threads make it, of one warp each: a plain access, or a non-bulk copy."""
        return self.agent.kind in ("", *GENERIC_COPIES) and not self.tensor

    @property
    def stores(self) -> bool:
        """Whether it is a plain store."""
        return self.writes and self.plain

    def released_early(self, clock: Clock) -> bool:
        """Whether *clock* contains what the threads have done since they issued this copy, which may not be complete."""
        return self.issued is not None and happens_before(clock, *self.issued)

    def unordered_agents(self, clock: Clock, low: int, high: int) -> Sequence[Agent]:
        """The agents that make this access between *low* and *high* and whose part is not in *clock*."""
        if happens_before(clock, self.agent, self.number):
            return ()
        parts = self.agent.components
        if (
            self.agent.warps
            and self.lane_addresses is not None
            and isinstance(self.lane_addresses.address, tuple)
        ):
            there = {
                t >> 5
                for t, a in zip(self.lane_addresses.threads, self.lane_addresses.address, strict=True)
                if a is not None and low <= a & OFFSET < high
            }
            parts = [p for p in parts if p.threads[0] >> 5 in there]
        return [p for p in parts if not happens_before(clock, p, self.number)]
