"""What threads wait for when none of them can make progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tclint.executor.memory import GENERIC, RANK, SHARED, WINDOW, Global
from tclint.executor.observations import Deadlock, DeadlockedWait, Received
from tclint.executor.state import AsyncOperation, Cluster, ExecutorBarrier, LaneGroup, membermask
from tclint.executor.sync import ExecutorMbarrier

__all__ = ["deadlock"]


def deadlock(clusters: Iterable[Cluster], memory: Global, place: Callable[[int], str]) -> Deadlock:
    """The deadlock of all threads of *clusters*; *place* returns the location of an instruction."""
    warps = [warp for cluster in clusters for cta in cluster.ctas for warp in cta.warps]
    return Deadlock([_located(split, _wait(split, memory, place)) for warp in warps for split in warp.splits])


def _located(split: LaneGroup, wait: DeadlockedWait) -> DeadlockedWait:
    """The *wait* of a group of lanes, with the numbers of its threads."""
    warp = split.warp
    return replace(wait, cta=warp.cta.number, warp=warp.index, lanes=int(membermask(split.mask)))


def _wait(split: LaneGroup, memory: Global, place: Callable[[int], str]) -> DeadlockedWait:
    """What a group of lanes waits for."""
    waits, thread, cluster = split.waits, split.warp.name(), split.warp.cta.cluster
    # The wait of a cluster barrier is executed again when it completes, that of a CTA barrier is not.
    site = split.pc - (isinstance(waits, ExecutorBarrier) and waits is not cluster.barrier)
    at = f" at {place(site)}"
    if isinstance(waits, ExecutorMbarrier):
        what = (
            f"{at} for phase {waits.phase} of the mbarrier at {waits.address & (1 << RANK) - 1:#x}:"
            f" {waits.pending} arrivals and {waits.bytes} bytes are pending"
        )
        kind = "bytes" if not waits.pending else "arrivals"
        received = Received(waits.phase, waits.count - waits.pending, waits.count, waits.bytes)
        return DeadlockedWait(site, thread, what, kind, frozenset((waits.site, *waits.users)), received)
    if isinstance(waits, ExecutorBarrier):
        if waits is cluster.barrier:
            name, needed = "the cluster barrier", sum(cta.threads for cta in cluster.ctas)
        else:
            name, needed = "a barrier", waits.needed or split.warp.cta.threads
        what = f"{at} at {name}: {waits.arrived} of {needed} threads have arrived"
        return DeadlockedWait(
            site, thread, what, "barrier", received=Received(waits.phase, waits.arrived, needed)
        )
    if isinstance(waits, AsyncOperation):
        return DeadlockedWait(site, thread, at, "other", frozenset((waits.site,)))
    if isinstance(waits, str):
        kind = next((kind for kind in ("lanes", "registers") if waits.startswith(kind)), "other")
        return DeadlockedWait(site, thread, f"{at} for {waits}", kind)
    if waits is None and split.polled is not None:
        site, address = split.polled
        shared = not address >> GENERIC or address >> WINDOW == SHARED >> WINDOW
        where = f"shared memory at {address:#x}" if shared else memory.named(address)
        return DeadlockedWait(site, thread, f" at {place(site)}, polling {where}", "memory")
    return DeadlockedWait(site, thread, at, "other")
