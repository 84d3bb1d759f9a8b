"""What the current phase of each object of a hang has received: in a replay, or in the execution of a launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tclint._dataclass import dataclass
from tclint.analyses.model import KernelModel
from tclint.hang.launched import DeadlockedLaunch
from tclint.hang.stops import Stop
from tclint.hang.waits import Waiter
from tclint.inspect.locations import Locations
from tclint.replay.launches import ReplayRun
from tclint.replay.sync import ReplayMbarrier
from tclint.replay.thread_groups import Stuck
from tclint.replay.verdict import Replay

__all__ = ["CurrentPhase", "Phases", "executed", "replayed"]


@dataclass(frozen=True, slots=True)
class CurrentPhase:
    """The current phase of an mbarrier or a barrier."""

    number: int
    """The phases that are complete."""
    arrived: int
    count: int
    """The arrivals that the phase needs; of a barrier, the threads."""
    bytes: int | None = None
    """The tx-count of an mbarrier; None for a barrier."""
    init: int = -1
    """The ``mbarrier.init``; -1 if it is unknown."""

    def is_first_for(self, waiter: Waiter) -> bool:
        """Whether no thread but those of *waiter* has arrived, in this phase or an earlier one."""
        waiting = 0 if self.bytes is not None else waiter.threads.bit_count()
        return not self.number and self.arrived <= waiting and not self.bytes


Phases = Mapping[int, tuple[CurrentPhase, ...]]
"""Index of a waiter -> the different phases that its threads wait for, in several CTAs or stages of a ring."""


def replayed(model: KernelModel, stops: Sequence[Stop], waiters: Sequence[Waiter]) -> tuple[Phases, str]:
    """The phases in a replay whose threads are blocked at exactly the same instructions; without one, why not."""
    replay = model.fact(Replay)
    wanted = {stops[waiter.stop].site for waiter in waiters}
    runs: list[ReplayRun] = [run for run in (replay.run, *replay.runs) if run is not None]
    for run in runs:
        if {stuck.site for stuck in run.deadlocks} != wanted:
            continue
        found = {n: _replayed(stops[w.stop].site, w, run.deadlocks) for n, w in enumerate(waiters)}
        return {n: (phase,) for n, phase in found.items() if phase is not None}, ""
    return {}, replay.incomplete


def _replayed(site: int, waiter: Waiter, deadlocks: Sequence[Stuck]) -> CurrentPhase | None:
    """That of the last of *deadlocks* that is at *site*, at the barrier that *waiter* waits for if it waits for one."""
    number = waiter.object.number
    for stuck in reversed(deadlocks):
        what = stuck.what
        if stuck.site != site:
            continue
        if isinstance(what, ReplayMbarrier):
            return CurrentPhase(what.phase, what.count - what.pending, what.count, what.bytes, what.site)
        if number is None or what.number == number:
            return CurrentPhase(what.phase, what.arrived, what.expected)
    return None


def executed(
    launch: DeadlockedLaunch, locations: Locations, stops: Sequence[Stop], waiters: Sequence[Waiter]
) -> Phases:
    """The phases in the deadlock that the execution of *launch* ends in."""
    found: dict[int, tuple[CurrentPhase, ...]] = {}
    for n, waiter in enumerate(waiters):
        line = locations.line(stops[waiter.stop].site)
        here = [
            wait for at, wait in launch.waits if at == line and wait.lanes << 32 * wait.warp & waiter.threads
        ]
        phases = [CurrentPhase(*wait.received) for wait in here if wait.received is not None]
        if phases:
            found[n] = tuple(dict.fromkeys(phases))
    return found
