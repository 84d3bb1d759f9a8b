"""Barriers of warps, CTAs and clusters, and fences (PTX ISA 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tclint.executor.code import Op
from tclint.executor.decode import Decoder, executes
from tclint.executor.instructions.exchange import together
from tclint.executor.memory import Array, Fault
from tclint.executor.signals import AGAIN, MOVED
from tclint.executor.state import LANES, Barrier, Warp
from tclint.executor.sync import Clocks
from tclint.ir.nodes import Instruction

__all__: list[str] = []


def _barrier(d: Decoder, i: Instruction, arrives: bool = False) -> Op:
    """A barrier of the CTA: with a count it counts warps, of which all threads have come, else threads (9.7.13.1)."""
    match = i.match
    assert match is not None
    number, count = d.uniform(d.needed(i, "a")), _count(d, i)
    give = _reduction(d, i) if match.writes else None

    def op(w: Warp) -> int | None:
        name, cta, needed = number(w), w.cta, count(w)
        if name > 15:
            raise Fault(f"there is no barrier {name}")
        barrier = cta.barriers.get(name)
        if barrier is None:
            barrier = cta.barriers[name] = Barrier(Clocks.new(cta.cluster.warps))
        if barrier.busy and barrier.needed != needed and (barrier.needed or cta.full) != (needed or cta.full):
            w.machine.observe(
                "barrier-count", w,
                f"comes to barrier {name} with {needed or 'all'} threads, others with {barrier.needed or 'all'}",
            )  # fmt: skip
        barrier.needed = needed
        barrier.come(w)
        barrier.clocks.join(w.clocks)
        w.tick()
        w.machine.progress()
        if give is not None:
            give(w, barrier)
        if not arrives:
            barrier.waiting.append(w.split)
            w.machine.park(w.split, barrier)
        w.machine.pass_barrier(cta, name, barrier)
        return None if arrives else MOVED

    return op


def _count(d: Decoder, i: Instruction) -> Callable[[Warp], int]:
    """What gives the number of threads; 0 for all of the CTA."""
    given = i.named("b")
    if given is None:
        return lambda w: 0
    count = d.uniform(given)

    def threads(w: Warp) -> int:
        number = count(w)
        if number % LANES:
            w.machine.observe("barrier-count", w, f"a barrier of {number} threads, which are no whole warps")
        return number

    return threads


def _reduction(d: Decoder, i: Instruction) -> Callable[[Warp, Barrier], None]:
    """What brings a warp's predicates to ``bar.red``, and leaves word how to take the outcome once all have come."""
    put, brings = d.put(i.operands[0]), d.fetch(d.needed(i, "c"), 0)
    operation = next((m for m in (".popc", ".and", ".or") if m in i.opcode), "")

    def give(w: Warp, barrier: Barrier) -> None:
        mask = w.mask

        def take(votes: list[Array]) -> None:
            every = np.concatenate(votes)
            result = {
                ".popc": np.uint32(np.count_nonzero(every)), ".and": every.all(), ".or": every.any()
            }[operation]  # fmt: skip
            before = w.mask, w.full
            w.mask, w.full = mask, False
            put(w, np.full(LANES, result))
            w.mask, w.full = before

        barrier.votes.append(brings(w)[mask])
        barrier.results[id(w.split)] = take

    return give


@executes("bar.sync", "barrier.cta.sync", "bar.red", "barrier.cta.red")
def _sync(d: Decoder, i: Instruction) -> Op:
    return _barrier(d, i)


@executes("bar.arrive", "barrier.cta.arrive")
def _arrive(d: Decoder, i: Instruction) -> Op:
    return _barrier(d, i, arrives=True)


@executes("bar.warp.sync")
def _warp(d: Decoder, i: Instruction) -> Op:
    return together(d, i, i.operands[0], (), 4, (), lambda w, mask: ())


# ---------------------------------------------------------------- clusters


@executes("barrier.cluster.arrive")
def _cluster_arrive(d: Decoder, i: Instruction) -> Op:
    relaxed = ".relaxed" in i.opcode

    def op(w: Warp) -> None:
        barrier = w.cta.cluster.barrier
        for lane in w.lanes.tolist():
            key = w.number * LANES + lane
            if key in barrier.results:
                w.machine.observe(
                    "cluster-barrier", w, "arrives twice at the barrier of the cluster without waiting"
                )
                break
            barrier.results[key] = _nobody
        barrier.threads += int(np.count_nonzero(w.mask))
        w.cluster_phase = barrier.round
        if not relaxed:
            barrier.clocks.join(w.clocks)
            w.tick()
        w.machine.progress()
        w.machine.pass_cluster(w.cta.cluster)

    return op


def _nobody(votes: list[Array]) -> None:
    """Stands for a thread that has come."""


@executes("barrier.cluster.wait")
def _cluster_wait(d: Decoder, i: Instruction) -> Op:
    def op(w: Warp) -> int | None:
        barrier = w.cta.cluster.barrier
        if barrier.round > w.cluster_phase:
            seen, fenced = barrier.votes
            w.clocks.join(Clocks(seen, fenced))
            return None
        if w.number * LANES + int(w.mask.argmax()) not in barrier.results:
            w.machine.observe(
                "cluster-barrier", w, "waits at the barrier of the cluster without having arrived"
            )
        barrier.waiting.append(w.split)
        w.machine.park(w.split, barrier)
        return AGAIN

    return op


# ---------------------------------------------------------------- fences


@executes(
    "fence", "membar", "fence.sync_restrict", "fence.proxy.alias", "fence.mbarrier_init", "fence.proxy.async_generic",
    "fence.proxy.tensormap.release", "fence.proxy.tensormap.acquire",
)  # fmt: skip
def _fence(d: Decoder, i: Instruction) -> Op:
    """Memory is coherent here: what a fence orders is in order already."""
    return lambda w: None


@executes("fence.proxy.async")
def _fence_proxy(d: Decoder, i: Instruction) -> Op:
    """What the thread knows of is visible to the async proxy from here on (9.7.13.5), unless it is about global memory."""
    if i.opcode.endswith(".global"):
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
