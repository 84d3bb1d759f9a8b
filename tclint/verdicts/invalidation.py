"""Which ``mbarrier.inval`` follow all operations of threads on the mbarrier that they end (PTX ISA 9.7.13.15.10).

It is what a bound of the class *mbarrier* needs besides replays, which do not execute ``mbarrier.inval``. One thread executes
it, after a CTA barrier that all threads execute together; and on no path from either of the two is the mbarrier named again
before the same thread initialises it. That other threads wait for a new initialisation, and what asynchronous operations do,
is left to the replays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

from tclint.analyses.mbarrier_addresses import MbarrierAddresses
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import dominated_by
from tclint.findings.verdicts import Assumption
from tclint.isa.effects import Resource
from tclint.verdicts.convergence import Convergence
from tclint.verdicts.shared_order import barriers_of_all

__all__ = ["Invalidations"]


class Invalidations:
    """The ``mbarrier.inval`` of one kernel."""

    def __init__(self, model: KernelModel, assume: Collection[Assumption]) -> None:
        self.model, self.cfg, self.instructions = model, model.cfg, model.function.instructions
        self.addresses = model.fact(MbarrierAddresses)
        self.threads = Convergence(model, assume)
        self.named = [
            i
            for i, each in enumerate(self.instructions)
            if each.mbarrier is not None and self.cfg.block_of[i] in self.cfg.rank
        ]

    def last(self) -> frozenset[int]:
        """Those that follow all operations of threads on their mbarrier."""
        return frozenset(
            site
            for site in self.named
            if self.instructions[site].effects.resource is Resource.MBARRIER_INVAL
            and self._alone(site)
            and not self._named_again(site, site)
            and any(
                dominated_by(self.model, barrier, site) and not self._named_again(barrier, site)
                for barrier in self._barriers
            )
        )

    @property
    def assumed(self) -> frozenset[Assumption]:
        """What :meth:`last` rests on."""
        return frozenset(self.threads.assumed)

    @cached_property
    def _barriers(self) -> list[int]:
        return [
            b
            for b in sorted(barriers_of_all(self.threads))
            if self.instructions[b].guard < 0 and self.instructions[b].effects.synchronises is not None
        ]

    def _alone(self, site: int) -> bool:
        """Whether one thread executes *site*, on an mbarrier that the same thread has initialised."""
        threads = self.model.views.context_of(site).threads
        return threads & (threads - 1) == 0 and any(self._begins(i, site) for i in self.named)

    def _begins(self, init: int, site: int) -> bool:
        """Whether an instruction initialises the mbarrier that *site* ends, in the same thread."""
        context = self.model.views.context_of
        return (
            self.instructions[init].effects.resource is Resource.MBARRIER_INIT
            and self.addresses.same(init, site) is True
            and context(init).threads == context(site).threads
        )

    def _named_again(self, start: int, site: int) -> bool:
        """Whether a path leads from *start* to an operation that may name the mbarrier of *site*, other than *site* itself if
        that is not the start, with no initialisation of it before."""
        return any(
            self.addresses.same(i, site) is not False
            for i in self._before_next(start, site)
            if i != site or start == site
        )

    def _before_next(self, start: int, site: int) -> Iterator[int]:
        """The operations on mbarriers after *start* on paths that do not initialise the mbarrier of *site* before."""
        named, seen = set(self.named), set[int]()
        work = [(self.cfg.block_of[start], start + 1)]
        while work:
            block, first = work.pop()
            for i in range(first, self.cfg.blocks[block].end):
                if i in named and self._begins(i, site):
                    break
                if i in named:
                    yield i
            else:
                fresh = {edge.target for edge in self.cfg.successors[block]} - seen
                seen |= fresh
                work += [(target, self.cfg.blocks[target].start) for target in fresh]
