"""Arrivals that a branch skips although each phase needs them: after a wait, threads may wait again without having arrived."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.provenance import origin
from tclint.inspect.protocol.sites import Sites
from tclint.ir.cfg import Edge
from tclint.isa.effects import Barrier

__all__ = ["SkippedArrivals"]


class SkippedArrivals:
    """Which branches on data skip an arrival, in one kernel.

    A branch that the launch, the thread or a loop counter decides is part of a protocol, such as that of a consumer that
    releases the previous stage, and is none of these.
    """

    def __init__(self, sites: Sites) -> None:
        self.sites, self.model = sites, sites.model
        self._mbarriers = sites.model.fact(Mbarriers)

    def needs_all(self, ring: Ring) -> bool:
        """Whether each arrival that a phase of *ring* may receive is needed; copies of an unrolled loop are for one each."""
        found = [(stage.count, self._mbarriers.arrivals(stage)) for stage in ring.stages]
        return all(
            count is not None
            and arrivals is not None
            and arrivals.most is not None
            and count >= max(arrivals.known, default=0) + arrivals.open
            for count, arrivals in found
        )

    def branches(
        self, arrival: int, arrivals: Collection[int], threads: int, awaited: Ring
    ) -> tuple[int, ...]:
        """The instructions that decide on data whether *arrival* is executed after a wait, in program order.

        *arrivals* are all those at its object by *threads*, which wait for *awaited* before them. An arrival with a guard
        decides for itself.
        """
        model, cfg = self.model, self.model.cfg
        waits = [i for i in awaited.waits if self.sites.threads(i) & threads]
        bounds = {*arrivals, *waits}
        found = [
            cfg.blocks[edge.source].end - 1
            for edge in cfg.control_dependences(cfg.block_of[arrival])
            if self._skips(edge, arrivals, waits, bounds)
        ]
        guard = model.instruction(arrival).guard
        if guard >= 0 and self._is_data(guard, arrival) and self._follows(arrival, waits, bounds - {arrival}):
            found.append(arrival)
        return tuple(sorted(dict.fromkeys(found)))

    def _skips(
        self, edge: Edge, arrivals: Collection[int], waits: Collection[int], bounds: Collection[int]
    ) -> bool:
        """Whether the branch of *edge*, after a wait, also leads to a wait with no arrival before."""
        branch = self.model.cfg.blocks[edge.source].end - 1
        if edge.predicate < 0 or not self._is_data(edge.predicate, branch):
            return False
        others = (e.target for e in self.model.cfg.successors[edge.source] if e.target != edge.target)
        return self._follows(branch, waits, bounds) and any(
            (met := self._first(other, bounds)) and met.isdisjoint(arrivals) for other in others
        )

    def _follows(self, site: int, waits: Collection[int], bounds: Collection[int]) -> bool:
        """Whether *site* follows one of *waits*, with none of *bounds* between."""
        return any(self.model.reaches(wait, site, bounds) for wait in waits)

    def _first(self, block: int, bounds: Collection[int]) -> set[int]:
        """Those of *bounds* that a thread may meet first from the start of *block* on."""
        cfg, found, seen, work = self.model.cfg, set[int](), {block}, [block]
        while work:
            here = cfg.blocks[work.pop()]
            met = [i for i in bounds if here.start <= i < here.end]
            if met:
                found.add(min(met))
                continue
            for edge in cfg.successors[cfg.block_of[here.start]]:
                if edge.target not in seen:
                    seen.add(edge.target)
                    work.append(edge.target)
        return found

    def _is_data(self, predicate: int, site: int) -> bool:
        """Whether a predicate depends on memory or on other lanes, and not on a wait."""
        model, values = self.model, self.model.values
        value = values.before(predicate, site)
        changes = [at for kind, at in values.varying_at(value) if kind == "site"]
        polled = any(model.instruction(at).effects.awaits is Barrier.MBARRIER for at in changes)
        return not polled and values.mask(value) is None and origin(model, value) in _DATA

    def origins(self, branches: Collection[int]) -> Iterator[str]:
        """What each of *branches* depends on, in words."""
        for branch in branches:
            guard = self.model.instruction(branch).guard
            yield origin(self.model, self.model.values.before(guard, branch))


_DATA = ("memory", "other lanes of the warp")
"""What data is, in the words of :func:`~tclint.analyses.provenance.origin`."""
