"""The asynchronous operations of one launch: how many were issued, what happens before each, what a wait acquires.

Bulk copies out of shared memory, non-bulk copies and matrix operations are events of an agent that works for the threads
which issue them, and copies that complete on an mbarrier are events of an agent of that mbarrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from tclint.isa.effects import Engine
from tclint.replay.epochs import Epochs
from tclint.replay.thread_groups import ThreadGroup, warps_of
from tclint.replay.vector_clocks import (
    BOTTOM,
    Agent,
    Clock,
    WarpClocks,
    event,
    happens_before,
    join,
    join_warps,
    last_event,
    mask_warps,
    project,
)

__all__ = ["IssuedOperations"]


class IssuedOperations:
    """The asynchronous operations that threads have issued so far."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        self._counts: dict[Agent, int] = {}
        """How many operations each agent has issued."""
        self.copy_counts: dict[Agent, int] = {}
        """How many copies complete on each mbarrier."""
        self._issue_clocks: dict[tuple[int, int], Clock] = {}
        """What happens before the issue of an operation and of those before it, by the index of the agent and the
        number.
        """
        self._issued: list[tuple[Agent, int]] = []
        """The operations that :attr:`_issue_clocks` has and :attr:`_closed_issue_clocks` has not, in the order of their
        issue.
        """
        self._closed_issue_clocks: dict[Agent, list[Clock]] = {}
        """The closures of the issue clocks of each agent, by the number of the operation, under what precedes the issue of
        the operations in them. The first operation has number 1.
        """

    def begin(self, kind: Engine, group: ThreadGroup, positions: Sequence[int]) -> tuple[Agent, int, Clock]:
        """The agent that works for the threads at *positions*, the number of its new operation, and what happens
        before it.
        """
        agent = self._epochs.agent(kind, group.cta, group.threads_at(positions))
        self._counts[agent] = number = self._counts.get(agent, 0) + 1
        return agent, number, self._epochs.release_clock(group, positions)

    def begin_copy(self, agent: Agent, clock: Clock) -> int:
        """The number of a new copy that completes on the mbarrier of *agent*; *clock* happens before its issue."""
        self.copy_counts[agent] = number = self.copy_counts.get(agent, 0) + 1
        self.precede(agent, number, clock)
        return number

    def precede(self, agent: Agent, number: int, clock: Clock) -> None:
        """Notes what happens before the issue of an operation, which its completion releases with it, as that of the
        operations of *agent* before it.
        """
        before = self._issue_clocks.get((agent.index, number - 1), BOTTOM)
        self._issue_clocks[agent.index, number] = join(before, clock)
        self._issued.append((agent, number))

    def issued(self, kind: Engine, group: ThreadGroup, positions: Sequence[int]) -> Clock:
        """The operations that the threads at *positions* have issued so far, alone or with others of their warp."""
        threads = {group.threads[i] for i in positions}
        return sum(
            event(agent, number)
            for agent, number in self._counts.items()
            if agent.kind == kind and agent.cta == group.cta and not threads.isdisjoint(agent.threads)
        )

    def completed_clocks(self, group: ThreadGroup, positions: Sequence[int], completed: Clock) -> WarpClocks:
        """What the warps at *positions* acquire that wait for the *completed* operations: these, and what happens
        before their issue.
        """
        found: WarpClocks = BOTTOM
        for agent in self._counts:
            number = last_event(completed, agent)
            if number >= 0:
                issued = self._issue_clocks.get((agent.index, number), BOTTOM)
                done = join(event(agent, number), issued)
                found = join_warps(found, mask_warps(done, group.warps, warps_of(agent.threads)))
        return group.only_at(found, positions)

    def awaited_in(self, clock: Clock) -> Clock:
        """The operations in *clock* that complete on no mbarrier of their own, without the events of threads."""
        return project(self._counts, clock)

    def ordered_in_time(self, observed: Clock, agent: Agent, number: int) -> bool:
        """Whether a point with the clock *observed* follows an event of *agent* in every run.

        The completion of a copy does not release what its thread did before. But it is later in time, so no access
        that follows the completion can come before that.
        """
        return happens_before(observed, agent, number) or happens_before(
            self._closed(observed), agent, number
        )

    def _closed(self, clock: Clock) -> Clock:
        """The closure of *clock* under what precedes the issue of the operations in it.

        What precedes an issue contains only operations that were issued before, so one pass in the order of the issues
        closes the clocks of all of them.
        """
        issued, self._issued = self._issued, []
        for agent, number in issued:
            closed = self._closed_issue_clocks.setdefault(agent, [BOTTOM])
            closed.append(self._joined_issues(join(closed[-1], self._issue_clocks[agent.index, number])))
        return self._joined_issues(clock)

    def _joined_issues(self, clock: Clock) -> Clock:
        """*clock* with the closed issue clocks of the operations in it."""
        found = clock
        for agent, closed in self._closed_issue_clocks.items():
            found = join(found, closed[max(last_event(clock, agent), 0)])
        return found
