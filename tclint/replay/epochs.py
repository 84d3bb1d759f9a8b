"""Epochs: the events of threads and engines, and what threads release and have observed of them.

Threads perform epochs. An instruction that releases ends one, so that a thread that acquires from it does not observe
what its threads do later. Asynchronous operations are events of agents of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tclint.isa.effects import Order
from tclint.replay.program import ReplaySlice
from tclint.replay.thread_groups import ThreadGroup, threads_by_warp, warps_of
from tclint.replay.vector_clocks import (
    BOTTOM,
    Agent,
    Clock,
    WarpClocks,
    event,
    field_mask,
    join,
    join_all,
    join_warps,
    select_warps,
)

__all__ = ["Epochs"]


class Epochs:
    """The agents of one launch, and the clocks of its threads."""

    def __init__(self, program: ReplaySlice) -> None:
        self._relaxed = program.relaxed
        self._agents: dict[tuple[object, ...], Agent] = {}
        self._warp_fields: dict[tuple[int, int], Clock] = {}
        """The fields of the agents that are lanes of a warp, by CTA and warp."""
        self._own_fields: dict[tuple[int, tuple[int, ...]], Clock] = {}
        """Masks of these fields, by CTA and warps."""
        self._sub_agents: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Agent] = {}
        """The agents of some threads of a group, by its warps."""
        self.time = 0
        """The number of the current epoch of threads: an event with a smaller number is over."""

    def agent(self, kind: str, cta: int, threads: tuple[int, ...] = (), mbarrier: int = -1) -> Agent:
        """The engine of a *kind* that works for *threads* or for an *mbarrier*; with kind "" the threads themselves."""
        key = kind, cta, threads, mbarrier
        found = self._agents.get(key)
        if found is None:
            warps = () if kind else warps_of(threads)
            parts = [self.agent("", cta, own) for own in threads_by_warp(threads)] if len(warps) > 1 else ()
            found = self._agents[key] = Agent(len(self._agents), kind, cta, threads, parts)
            if len(warps) == 1:
                warp = cta, *warps
                self._warp_fields[warp] = self._warp_fields.get(warp, BOTTOM) + found.fields
                self._own_fields.clear()
        return found

    def agent_of_warps(self, group: ThreadGroup, warps: Collection[int]) -> Agent:
        """The agent of the threads of a group that are in some of its *warps*."""
        if len(warps) == len(group.warps):
            return self.agent_of(group)
        key = group.cta, group.threads, tuple(warps)
        if key not in self._sub_agents:
            self._sub_agents[key] = self.agent(
                "", group.cta, tuple(t for t in group.threads if t >> 5 in warps)
            )
        return self._sub_agents[key]

    def own_clock(self, group: ThreadGroup, warps: Sequence[int]) -> Clock:
        """The own events of some *warps* of a group."""
        if len(warps) == len(group.warps):
            return group.own
        key = group.cta, tuple(warps)
        mask = self._own_fields.get(key)
        if mask is None:
            fields = sum([self._warp_fields.get((group.cta, warp), BOTTOM) for warp in warps])
            mask = self._own_fields[key] = field_mask(fields)
        return group.own & mask

    def agent_of(self, group: ThreadGroup) -> Agent:
        if group.agent is None:
            group.agent = self.agent("", group.cta, group.threads)
        return group.agent

    def access(self, group: ThreadGroup, warps: Sequence[int], observed: Clock) -> tuple[Agent, Clock]:
        """The agent of some *warps* of a group that make an access themselves, and the clock of the access."""
        agent = self.agent_of_warps(group, warps)
        return agent, join(join(observed, self.own_clock(group, warps)), event(agent, self.time))

    def end(self, group: ThreadGroup) -> None:
        """Ends the epoch of a group: a thread that acquires from it now does not observe what it does later."""
        group.own = join(group.own, event(self.agent_of(group), self.time))
        self.time += 1

    def release_clock(self, group: ThreadGroup, positions: Sequence[int]) -> Clock:
        """What the threads at *positions* release: all that their warps have observed and done."""
        warps = group.warps_at(positions)
        return join(join_all(select_warps(group.clock, group.warps, warps)), self.own_clock(group, warps))

    def full_clocks(self, group: ThreadGroup) -> WarpClocks:
        """What each warp has observed and done."""
        warps = group.warps
        if len(warps) == 1 and isinstance(group.clock, int):
            return join(group.clock, group.own)
        return join_warps(group.clock, tuple(self.own_clock(group, (warp,)) for warp in warps))

    def fence(self, group: ThreadGroup, *, cluster: bool, order: Order = Order.BOTH) -> None:
        """Orders what is before the fence with what is after it (8.8), for threads of its scope: a *cluster*, or a CTA.

        What a relaxed wait has observed is acquired by a fence that acquires, and what precedes one that releases may be
        released by a relaxed write.

        A relaxed write to another CTA after a fence of CTA scope releases nothing, since the scope of the fence does
        not include the thread that observes the write (8.7).
        """
        self.end(group)
        if self._relaxed:
            if order.acquires:
                group.clock = join_warps(group.clock, group.unfenced)
            if order.releases:
                group.fenced = self.full_clocks(group)
                if cluster:
                    group.fenced_cluster = group.fenced

    @staticmethod
    def released_by_fence(group: ThreadGroup, positions: Sequence[int], cta: int) -> Clock:
        """What a relaxed arrival of the threads at *positions* releases, on an mbarrier of *cta*."""
        fenced = group.fenced if cta == group.cta else group.fenced_cluster
        return join_all(group.only_at(fenced, positions))

    def all_events(self) -> Clock:
        """All events of threads so far, which a flag that one of them sets may release."""
        return (self.time + 1) * sum(self._warp_fields.values())
