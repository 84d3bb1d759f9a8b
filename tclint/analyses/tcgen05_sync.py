"""Synchronisation between threads without an accompanying ``tcgen05.fence`` (PTX ISA 9.7.16.6.3)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from tclint.analyses.mbarrier_addresses import Array, array_of, home
from tclint.analyses.model import KernelModel
from tclint.dataflow.solver import Analysis
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction
from tclint.isa.effects import TCGEN05, TENSOR_MEMORY, Barrier, Fence

__all__ = ["ThreadSync", "ring_of", "waits_for_commits"]

ThreadSyncState = int
"""The waits for an mbarrier with no ``fence::after_thread_sync`` since, and the asynchronous ``tcgen05`` operations with no
``fence::before_thread_sync`` since. One bit each, because a kernel without fences keeps them all."""


class ThreadSync(Analysis[ThreadSyncState]):
    """The instructions that may lack a fence, as a bit set in program order."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        waits = model.awaits(Barrier.MBARRIER)
        operations = {i for group in TENSOR_MEMORY for i in model.begins(group)}
        self.sites = sorted(operations.union(waits))
        self.bits = {site: 1 << at for at, site in enumerate(self.sites)}
        self.waits, self.operations = self.set_of(waits), self.set_of(operations)

    def set_of(self, sites: Iterable[int]) -> ThreadSyncState:
        return sum(self.bits.get(site, 0) for site in sites)

    def nearest(self, state: ThreadSyncState, at: int, most: int) -> Iterator[int]:
        """Up to *most* members of *state*: those before instruction *at*, nearest first, then those after it."""
        cut = bisect_right(self.sites, at)
        before, after = state & (1 << cut) - 1, state >> cut << cut
        while (before or after) and most:
            one = 1 << before.bit_length() - 1 if before else after & -after
            before, after = before & ~one, after & ~one
            most -= 1
            yield self.sites[one.bit_length() - 1]

    def boundary(self) -> ThreadSyncState:
        return 0

    def bottom(self) -> ThreadSyncState:
        return 0

    def join(self, a: ThreadSyncState, b: ThreadSyncState) -> ThreadSyncState:
        return a | b

    def affecting(self, instruction: Instruction) -> bool:
        effects = instruction.effects
        return (
            effects.fence in (Fence.TCGEN05_AFTER, Fence.TCGEN05_BEFORE)
            or effects.barrier is Barrier.MBARRIER
            or effects.begins in TENSOR_MEMORY
        )

    def transfer(self, state: ThreadSyncState, at: int, instruction: Instruction) -> ThreadSyncState:
        fence = instruction.effects.fence
        if fence is Fence.TCGEN05_AFTER:
            return state & ~self.waits
        if fence is Fence.TCGEN05_BEFORE:
            return state & ~self.operations
        return state | self.bits.get(at, 0)

    def edge(self, state: ThreadSyncState, edge: Edge) -> ThreadSyncState:
        # Which threads take the edge is left to the search for a path, since few facts become candidates.
        if not state or edge.source not in self.model.reachability.dispatchers:
            return state
        self.model.drop_facts(self, self.model.cfg.blocks[edge.source].end - 1)
        return 0

    def originating_sites(self, state: ThreadSyncState) -> Iterable[int]:
        return list(self.nearest(state, -1, len(self.sites)))

    def follow(
        self, site: int, state: ThreadSyncState, at: int, instruction: Instruction
    ) -> ThreadSyncState | None:
        """The fact about *site* after one more instruction; None if a fence ends it or *site* executes again."""
        return None if at == site else self.transfer(state, at, instruction) & self.bits[site] or None


def waits_for_commits(model: KernelModel) -> frozenset[int]:
    """The waits for an mbarrier that a ``tcgen05.commit`` of the kernel signals, or for one of the same ring."""

    signalled = {ring_of(model, site) for site in model.commits(TCGEN05)} - {None}
    waits = model.awaits(Barrier.MBARRIER) if signalled else ()
    return frozenset(site for site in waits if ring_of(model, site) in signalled)


def ring_of(model: KernelModel, site: int) -> Array | None:
    """The mbarrier that *site* names, or its ring; None if its address is unknown."""
    value = model.mbarrier(site)
    return None if value is None else array_of(model.values, home(model.values, value).address)
