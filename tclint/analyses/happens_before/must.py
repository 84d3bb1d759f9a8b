"""The must-order: what is ordered in every execution (PTX ISA 8.9, 9.7.13.1, 9.7.13.2, 9.7.13.3).

Four things order two threads for certain: a CTA barrier that exactly the threads that reach it complete together, the
cluster barrier, ``bar.warp.sync`` for the lanes of its mask, and an mbarrier of which one phase completes
(:mod:`.single_phase`). Which phase of another mbarrier a wait is for is not known here. An asynchronous operation is complete where a wait for all groups of its thread follows its commit.

A barrier *separates* two instructions if every path from the first to the second passes it, and it is passed once for
each time that the first is reached. Executions of the second after the barrier are then ordered after executions of the
first before it, however often a loop iterates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.happens_before.answers import OrderScope
from tclint.analyses.happens_before.points import SynchronisationPoints
from tclint.analyses.happens_before.single_phase import SinglePhaseMbarriers
from tclint.analyses.in_flight import depth
from tclint.isa.effects import Barrier, Order
from tclint.sync.operations import NO_GROUPS, OPEN
from tclint.values import UniformityScope
from tclint.values import thread_masks as T

__all__ = ["MustOrder"]

_LANES = (1 << 32) - 1


class MustOrder:
    """The certain edges between the points of a function."""

    def __init__(self, points: SynchronisationPoints) -> None:
        self.points = points
        self.model = points.model
        self.single_phase = SinglePhaseMbarriers(points)

    def ordering_barriers(
        self, first: Collection[int], then: int, scope: OrderScope = OrderScope.WARPS
    ) -> tuple[int, ...] | None:
        """Barriers and waits that order *then* after the completion of all of *first*, in threads *scope* apart.

        None if there are none for some of them.

        An execution of *then* counts if it is after the barrier, and one of *first* if it is before.
        """
        found = list[int]()
        for site in first:
            barrier = next(self._ordering(site, then, scope), None)
            if barrier is None:
                return None
            found.append(barrier)
        return tuple(sorted(set(found))) if found else None

    def _ordering(self, first: int, then: int, scope: OrderScope) -> Iterator[int]:
        views = self.model.views
        here, there = (views.context_of(site).threads for site in (first, then))
        # The threads themselves show whether a barrier of one warp is for both.
        for barrier in sorted(
            self.points.barrier_sites(scope if scope is OrderScope.CTAS else OrderScope.LANES)
        ):
            if (
                self._joins(barrier, first, here | there)
                and self.separates(barrier, first, then, here | there)
                and self._complete(first, barrier)
            ):
                yield barrier
        if scope < OrderScope.CTAS:
            yield from (
                wait
                for arrival, wait in self.single_phase.ordering(first, then)
                if self._complete(first, arrival)
            )

    def separates(self, barrier: int, first: int, then: int, threads: T.Threads) -> bool:
        """Whether *barrier* separates *first* from *then* for all *threads*, in every iteration."""
        model, cfg = self.model, self.model.cfg
        own = cfg.dominates(cfg.block_of[first], cfg.block_of[barrier])
        # Threads that skip *first* are taken to reach it where the branch that selects its threads is.
        start = first if own else cfg.blocks[cfg.idom[cfg.block_of[first]]].end - 1
        return not (
            threads & ~model.views.context_of(barrier).threads
            or model.reaches(first, then, (barrier,))
            or model.reaches(-1, barrier, (start,))
            or model.reaches(barrier, barrier, (start,))
        )

    def _joins(self, barrier: int, first: int, threads: T.Threads) -> bool:
        """Whether *threads* pass *barrier* together, and what they did at *first* is then visible to all of them."""
        model = self.model
        instruction = model.instruction(barrier)
        match = instruction.match
        if match is None or instruction.guard >= 0 or not model.fact(ExecutionGuarantee).certainly(barrier):
            return False
        if match.form.scope == "lanes":
            mask = model.constant_of(barrier, "mask")
            lanes = T.one_warp(threads) & threads
            return mask is not None and bool(lanes) and not _lanes(lanes) & ~mask
        if match.form.effects.synchronises is not None:
            return self.points.releases_together(barrier) and self._alone(barrier)
        arrivals = model.arrives(Barrier.CLUSTER)
        return (
            model.views.context_of(barrier).threads == T.full(model.values.threads)
            and not any(model.instruction(i).order is Order.RELAXED for i in arrivals)
            and not model.reaches(first, barrier, arrivals)
        )

    def _alone(self, barrier: int) -> bool:
        """Whether threads that wait at the CTA barrier *barrier* meet there, and none of them at another site.

        Other sites of the same barrier do no harm if the same threads pass all of them equally often.
        """
        model = self.model
        number, count = (model.constant_of(barrier, role) for role in ("id", "count"))
        threads, certainly = model.views.context_of(barrier).threads, model.fact(ExecutionGuarantee).certainly
        alike = [barrier]
        for site in model.arrives(Barrier.CTA):
            other = model.constant_of(site, "id")
            if site == barrier or (number is not None and other is not None and other != number):
                continue
            same = (
                model.views.context_of(site).threads == threads and model.constant_of(site, "count") == count
            )
            if not same or not certainly(site) or model.instruction(site).guard >= 0:
                return False
            alike.append(site)
        return number is not None and (len(alike) == 1 or all(map(self._iterates_uniformly, alike)))

    def _iterates_uniformly(self, site: int) -> bool:
        """Whether all threads of the CTA iterate the loops around *site* equally often."""
        cfg, values = self.model.cfg, self.model.values
        return all(
            edge.predicate < 0
            or values.uniformity(values.before(edge.predicate, cfg.blocks[edge.source].end - 1))
            is UniformityScope.CTA
            for head in cfg.nest.around(cfg.block_of[site])
            for edge in cfg.leaving[head]
        )

    def _complete(self, first: int, barrier: int) -> bool:
        """Whether *first* is complete where its thread reaches *barrier*."""
        model, instruction = self.model, self.model.instruction(first)
        if instruction.effects.begins is None:
            return True
        group = instruction.group
        commits = model.commits(group)
        left = {
            i: depth(wait)
            for i in model.waits(group)
            if (wait := model.instruction(i)).guard < 0 and not wait.effects.sources
        }
        waits = [
            i
            for i, groups in left.items()
            if groups == OPEN or (groups == NO_GROUPS and not model.reaches(first, i, commits))
        ]
        return bool(waits) and not model.reaches(first, barrier, waits)


def _lanes(threads: T.Threads) -> int:
    """The lanes of a warp that *threads* are, one bit each."""
    lanes = 0
    while threads:
        lanes |= threads & _LANES
        threads >>= 32
    return lanes
