"""Accesses of two warps of a CTA to the same bytes of global memory, a write and a read, that nothing orders (PTX ISA 8.7.1).

A tile of global memory that a CTA reads and overwrites, or exchanges through, is like one of shared memory: which bytes
two warps have in common is decided by the thread index, if they reach them through one pointer. Accesses of different
CTAs are not compared, nor two writes: all threads of a CTA often store one result.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product

from tclint.analyses.global_memory import Source, depends_on, sources
from tclint.analyses.overlaps import Conflict, Route
from tclint.analyses.since_barrier import ReadsSince, SinceBarrier, WritesSince, unordered_threads
from tclint.analyses.unchanging_stores import stored_by_all, written_back
from tclint.analyses.warp_memory import SharedByBound
from tclint.isa import accesses as isa
from tclint.isa.accesses import Proxy, Via
from tclint.isa.effects import Order
from tclint.values import thread_masks as T
from tclint.values.nodes import ParameterRead
from tclint.values.shared_memory import SharedAccess

__all__ = ["GlobalByWarps", "GlobalReadsSince", "GlobalWritesSince", "global_races"]

_POINTER = 8
"""The size in bytes of a pointer."""
_MAX_PAIRS = 1000
"""Pairs of a write and a read that are compared to find out whether a kernel may have a race; with more, it may."""

_MAX_TESTED = 20_000
"""Pairs that are tested for whether any path may make them overlap, before it is known which accesses count."""


class GlobalByWarps(SharedByBound):
    """Global memory as the warps of a CTA have it: plain accesses through pointers that are parameters."""

    on_paths = False

    @staticmethod
    def within(access: isa.Access) -> bool:
        """Whether an access is one of data that may be in this memory, at the address of an operand."""
        own = access.outside and access.via is Via.ADDRESS and access.proxy is Proxy.GENERIC
        return own and not access.object and not access.later

    @cached_property
    def room(self) -> int:
        """All threads: how large a buffer is, is not in the code."""
        return self.model.cta

    def counts(self, access: SharedAccess) -> bool:
        """Whether *access* can be part of a proven race: its bytes and threads are known, and it is plain.

        What each thread reads from an element of its own, once, may be volatile: no other thread signals by it.
        """
        if access not in self._counts:
            match = self.sites[access.site]
            volatile = match.order is Order.VOLATILE and not access.writes
            self._counts[access] = (
                (self._exchanges(access) if volatile else not match.strong)
                and not match.form.unchanging
                and self._through_parameter(access)
                and self.executed.certainly(access.site)
                and self.placed(access, self.model.views.context_of(access.site).threads)
            )
        return self._counts[access]

    @cached_property
    def _pointers(self) -> dict[int, bool]:
        """Base -> whether it is that of a pointer which counts, for the bases that were asked for so far."""
        return {}

    def _through_parameter(self, access: SharedAccess) -> bool:
        """Whether a parameter is the pointer of *access*, or that from which a loop begins, and no data select the place.

        Where data lead a thread from place to place, as in a union-find, programs are made to bear the race.
        """
        base = self.addresses.form(access.address).base
        if base not in self._pointers:
            nodes = map(self.values.node, self.origins(base))
            self._pointers[base] = all(source is Source.CTA for source in sources(self.values, base)) and any(
                type(node) is ParameterRead and node.size == _POINTER for node in nodes
            )
        return self._pointers[base]

    @cached_property
    def contended(self) -> bool:
        """Whether warps may have bytes in common of which one writes some and another reads them, in whatever order."""
        found: tuple[set[SharedAccess], set[SharedAccess]] = set(), set()
        for site in self.sites:
            if self.model.cfg.block_of[site] in self.model.cfg.rank:
                for access in self.accesses(site):
                    found[access.writes].add(access)
        reads, writes = found
        bases = [{self._origin(each) for each in group} for group in (reads, writes)]
        common = bases[0] & bases[1]
        reads, writes = ({a for a in group if self._origin(a) in common} for group in found)
        if len(reads) * len(writes) > _MAX_TESTED:
            reads, writes = (set(filter(self.counts, group)) for group in (reads, writes))
            if len(reads) * len(writes) > _MAX_PAIRS:
                return True
        pairs = [pair for pair in product(writes, reads) if self.may_meet(*pair)]
        pairs = [pair for pair in pairs if all(map(self.counts, pair))]
        return len(pairs) > _MAX_PAIRS or any(self._may_overlap(*pair) for pair in pairs)

    @cached_property
    def by_position(self) -> bool:
        """Whether any access goes by the index of the thread: else several threads would all do the same."""
        return any(
            Source.THREAD in depends_on(self.values, access.address)
            for site in self.sites
            for access in self.accesses(site)
        )

    def _origin(self, access: SharedAccess) -> frozenset[int]:
        return frozenset(self.origins(self.addresses.form(access.address).base))

    def _may_overlap(self, write: SharedAccess, read: SharedAccess) -> bool:
        varying = any(self.values.varying_at(self.addresses.form(a.address).base) for a in (write, read))
        every = T.full(self.values.threads)
        return varying or self.across(write, read, every, every)


class GlobalReadsSince(ReadsSince):
    """The reads of global memory with no acquire point since."""

    kind = GlobalByWarps
    on_paths = False


class GlobalWritesSince(WritesSince):
    """The writes of global memory with no acquire point since."""

    kind = GlobalByWarps
    on_paths = False


def global_races(since: SinceBarrier, starts: frozenset[int]) -> Iterator[Conflict]:
    """The conflicts of plain accesses to global memory that begin at one of *starts*."""
    model, memory = since.model, since.memory

    def races(first: SharedAccess, second: SharedAccess, route: Route) -> bool:
        views = model.views
        here, there = (
            views.context_of(access.site).threads
            & (T.full(model.values.threads) if access.writes else memory.executed.takers(access.site))
            for access in (first, second)
        )
        if not (here and there) or (first.writes and stored_by_all(memory, first)):
            return False
        path = since.by_warps(first.site, second.site, route.path)

        def overlap(there: T.Threads) -> bool:
            return any(memory.across(first, second, *pair) for pair in unordered_threads(here, there, path))

        # What is stored is followed along the path only where bytes overlap.
        return overlap(there) and (
            not second.writes or overlap(there & ~written_back(memory, first, second, route))
        )

    yield from since.conflicts(starts, lambda access: access.writes is not since.writes, races)
