"""Barriers of warps, CTAs and clusters, and fences (PTX ISA 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes, executes_where
from tclint.executor.instructions.exchange import together
from tclint.executor.memory import Array, Fault
from tclint.executor.signals import AGAIN, MOVED
from tclint.executor.state import LANES, ExecutorBarrier, Warp
from tclint.executor.sync import Clocks
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Fence, Order

__all__: list[str] = []


def _barrier(d: Decoder, i: Instruction, arrives: bool = False) -> Op:
    """A CTA barrier. With a thread count it counts whole warps, once all their threads have arrived (9.7.13.1).

    Without one it counts threads. *arrives*: the threads do not wait.
    """
    match = i.match
    assert match is not None
    number, count = d.uniform(d.needed(i, "a")), _count(d, i)
    contribute = _reduction(d, i) if match.writes else None

    def op(w: Warp) -> int | None:
        name, cta, needed = number(w), w.cta, count(w)
        if name > 15:
            raise Fault(f"barrier {name} does not exist: a CTA has barriers 0 to 15", "barrier")
        barrier = cta.barriers.get(name)
        if barrier is None:
            barrier = cta.barriers[name] = ExecutorBarrier(Clocks.new(cta.cluster.agents))
        if barrier.busy and barrier.needed != needed and (barrier.needed or cta.full) != (needed or cta.full):
            w.machine.observe(
                "barrier-count", w,
                f"arrives at barrier {name} with a count of {needed or 'all'} threads, others with"
                f" {barrier.needed or 'all'}",
            )  # fmt: skip
        if needed > cta.full:
            text = f"a barrier for {needed} threads, more than the {cta.full} of the CTA"
            w.machine.observe("barrier-count", w, text)
        barrier.needed = needed
        barrier.enter(w)
        barrier.clocks.join(w.clocks)
        w.tick()
        w.machine.progress()
        if contribute is not None:
            contribute(w, barrier)
        if not arrives:
            barrier.waiting.append(w.split)
            w.machine.park(w.split, barrier)
        w.machine.pass_barrier(cta, name, barrier)
        return None if arrives else MOVED

    return op


def _count(d: Decoder, i: Instruction) -> Callable[[Warp], int]:
    """A function that returns the thread count of a barrier; 0 for all threads of the CTA."""
    given = i.named("b")
    if given is None:
        return lambda w: 0
    count = d.uniform(given)

    def threads(w: Warp) -> int:
        number = count(w)
        if number % LANES:
            w.machine.observe(
                "barrier-count", w, f"a barrier for {number} threads, which is not a whole number of warps"
            )
        return number

    return threads


def _reduction(d: Decoder, i: Instruction) -> Callable[[Warp, ExecutorBarrier], None]:
    """A function that contributes a warp's predicates to ``bar.red``, and registers how to write the result.

    The result is written when the barrier completes.
    """
    put, predicate = d.put(i.operands[0]), d.fetch(d.needed(i, "c"), 0)
    assert i.match is not None
    counts, every = i.match.modes.population, i.match.binding.get("op") == ".and"

    def contribute(w: Warp, barrier: ExecutorBarrier) -> None:
        mask = w.mask

        def take(votes: list[Array]) -> None:
            cast = np.concatenate(votes)
            result = np.uint32(np.count_nonzero(cast)) if counts else cast.all() if every else cast.any()
            before = w.mask, w.full
            w.mask, w.full = mask, False
            put(w, np.full(LANES, result))
            w.mask, w.full = before

        barrier.votes.append(predicate(w)[mask])
        barrier.results[id(w.split)] = take

    return contribute


@executes("bar.sync", "barrier.cta.sync", "bar.red", "barrier.cta.red")
def _sync(d: Decoder, i: Instruction) -> Op:
    return _barrier(d, i)


@executes("bar.arrive", "barrier.cta.arrive")
def _arrive(d: Decoder, i: Instruction) -> Op:
    return _barrier(d, i, arrives=True)


@executes("bar.warp.sync")
def _warp(d: Decoder, i: Instruction) -> Op:
    return together(d, i, (), 4, (), lambda w, mask: ())


# ---------------------------------------------------------------- clusters


@executes("barrier.cluster.arrive")
def _cluster_arrive(d: Decoder, i: Instruction) -> Op:
    relaxed = i.order is Order.RELAXED

    def op(w: Warp) -> None:
        barrier = w.cta.cluster.barrier
        for lane in w.lanes.tolist():
            key = w.number * LANES + lane
            if key in barrier.results:
                w.machine.observe(
                    "cluster-barrier", w, "arrives twice at the cluster barrier with no intervening wait"
                )
                break
            barrier.results[key] = _arrived
        barrier.arrive(int(np.count_nonzero(w.mask)))
        w.cluster_phase = barrier.phase
        w.cluster_arrived = w.cluster_arrived | w.mask
        if relaxed:
            for mbarrier in (m for cta in w.cta.cluster.ctas for m in cta.mbarriers.values()):
                if mbarrier.made & 1023 == w.number and mbarrier.offered is None:
                    mbarrier.offered = barrier.phase
            barrier.clocks.join(w.widely_fenced)
        else:
            barrier.clocks.join(w.clocks)
            w.tick()
        w.machine.progress()
        w.machine.pass_cluster(w.cta.cluster)

    return op


def _arrived(votes: list[Array]) -> None:
    """Placeholder in the results of a cluster barrier: its key is a thread that has arrived."""


@executes("barrier.cluster.wait")
def _cluster_wait(d: Decoder, i: Instruction) -> Op:
    def op(w: Warp) -> int | None:
        barrier = w.cta.cluster.barrier
        if (w.mask & ~w.cluster_arrived).any():
            w.machine.observe("cluster-barrier", w, "waits at the cluster barrier without having arrived")
        if barrier.phase > w.cluster_phase:
            w.cluster_arrived = w.cluster_arrived & ~w.mask
            seen, fenced = barrier.votes
            w.clocks.join(Clocks(seen, fenced))
            return None
        barrier.waiting.append(w.split)
        w.machine.park(w.split, barrier)
        return AGAIN

    return op


# ---------------------------------------------------------------- fences


@executes_where(lambda form: form.effects.fence is Fence.MEMORY)
def _memory_fence(d: Decoder, i: Instruction) -> Op:
    """Acquires what relaxed waits have observed, and bounds what later relaxed arrivals and writes release (8.8).

    Memory is coherent here, so a fence has no other effect, and a relaxed write to memory without any fence is not
    observed. Clocks order accesses to shared memory, to which ``.sync_restrict`` restricts a fence (9.7.13.4); one that
    is restricted to initialisations of mbarriers has no effect.
    """
    wide, order = i.wide, i.fence_order(shared=True)

    def op(w: Warp) -> None:
        if order.acquires:
            w.clocks.join(w.observed)
        if order.releases:
            w.narrowly_fenced = not wide
            w.released = w.clocks.copy()
            if wide:
                w.widely_fenced = w.released
            w.tick()

    return op


@executes(
    "fence.proxy.alias", "membar.proxy.alias", "fence.proxy.alias.ordered",
    "fence.proxy.async_generic", "fence.proxy.tensormap.release", "fence.proxy.tensormap.acquire",
)  # fmt: skip
def _fence(d: Decoder, i: Instruction) -> Op:
    """A no-op: memory is coherent here, and only generic writes have to be made visible to the async proxy."""
    return lambda w: None


@executes("fence.proxy.async")
def _fence_proxy(d: Decoder, i: Instruction) -> Op:
    """Makes all writes that happen before it visible to the async proxy (9.7.13.5); a no-op for global memory."""
    assert i.match is not None
    if i.match.spelled_space == ".global":
        return lambda w: None

    def op(w: Warp) -> None:
        np.maximum(w.clocks.fenced, w.clocks.seen, out=w.clocks.fenced)
        w.tick()

    return op


@executes("wgmma.fence")
def _wgmma_fence(d: Decoder, i: Instruction) -> Op:
    def op(w: Warp) -> None:
        w.unfenced.clear()
        w.fenced = True

    return op
