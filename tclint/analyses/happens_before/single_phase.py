"""Mbarriers of which one phase completes, and what a wait for it orders for certain (PTX ISA 9.7.13.15).

If no more threads can arrive at an object than one phase needs, the phase completes only when all of them have
arrived, and a thread that continues after a wait for it is ordered after whatever they did before. Where an object has
further phases, which of them a wait is for depends on counters of two threads, so nothing is certain.
"""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.happens_before.points import SynchronisationPoints
from tclint.analyses.mbarriers import MbarrierObject
from tclint.analyses.role_paths import dominated_by
from tclint.isa.effects import Barrier
from tclint.values import thread_masks as T

__all__ = ["SinglePhaseMbarriers"]

_FIRST_PHASE = 0
"""The parity of the first phase."""


class SinglePhaseMbarriers:
    """The waits that can only be for the one phase of their object that completes."""

    def __init__(self, points: SynchronisationPoints) -> None:
        self.points = points
        self.model = points.model
        self._arrivals: dict[MbarrierObject, dict[int, int]] = {}

    def ordering(self, first: int, then: int) -> Iterator[tuple[int, int]]:
        """The arrivals that follow *first* in its threads, each with a wait for it that precedes *then*.

        All executions of *first* precede the arrival, and those of *then* follow the wait.
        """
        model = self.model
        threads = model.views.context_of(first).threads
        for wait in model.awaits(Barrier.MBARRIER):
            if not (dominated_by(model, wait, then) and self._succeeds_before(wait, then)):
                continue
            objects = [*self.points.mbarriers.named(wait)]
            for arrival, arriving in self._all_arrivals(objects[0]).items() if len(objects) == 1 else ():
                if (
                    not threads & ~arriving
                    and model.reaches(first, arrival)
                    and not model.reaches(arrival, first)
                ):
                    yield arrival, wait

    def _succeeds_before(self, wait: int, then: int) -> bool:
        """Whether *wait* acquires the first phase, and *then* is reached only from the branch on its success."""
        model, cfg = self.model, self.model.cfg
        instruction, block = model.instruction(wait), cfg.block_of[wait]
        ready, parity = instruction.role("destination"), model.constant_of(wait, "parity")
        if parity != _FIRST_PHASE or instruction.guard >= 0 or not instruction.order.acquires:
            return False
        later = range(wait + 1, cfg.blocks[block].end)
        return not any(ready in model.instruction(i).writes for i in later) and any(
            edge.predicate == ready
            and edge.value
            and len(cfg.predecessors[edge.target]) == 1
            and cfg.dominates(edge.target, cfg.block_of[then])
            for edge in cfg.successors[block]
        )

    def _all_arrivals(self, mbarrier: MbarrierObject) -> dict[int, T.Threads]:
        """The arrivals at *mbarrier*, each with its threads, if together they complete one phase; otherwise none."""
        if mbarrier not in self._arrivals:
            self._arrivals[mbarrier] = self._only_arrivals(mbarrier)
        return self._arrivals[mbarrier]

    def _only_arrivals(self, mbarrier: MbarrierObject) -> dict[int, int]:
        model, mbarriers = self.model, self.points.mbarriers
        once = (*mbarrier.inits, *(sites := mbarriers.arriving_at(mbarrier)))
        if (
            mbarriers.has_unseen_arrivals
            or len(mbarrier.inits) != 1
            or any(model.cfg.block_of[i] in model.cfg.in_cycle for i in once)
            or any(len(mbarriers.named(i)) != 1 or not self._releases(i) for i in sites)
        ):
            return {}
        found = {i: mbarriers.named(i)[mbarrier] & model.present(i) for i in sites}
        amounts = {i: mbarriers.amount(i) for i in sites}
        total = sum((amounts[i] or 0) * threads.bit_count() for i, threads in found.items())
        return found if total == mbarrier.count and None not in amounts.values() else {}

    def _releases(self, site: int) -> bool:
        """Whether *site* is an arrival of its thread, in its own CTA, that releases what the thread has done."""
        instruction = self.model.instruction(site)
        return (
            instruction.effects.arrives is Barrier.MBARRIER
            and instruction.match is not None
            and instruction.match.order.releases
            and not instruction.match.drops
            and not any(address.remote for address in self.points.mbarriers.addresses.of(site))
        )
