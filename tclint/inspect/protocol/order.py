"""What threads signal after they have waited: the order of waits and signals within an iteration."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property

from tclint.analyses.mbarrier_addresses import home
from tclint.analyses.mbarriers import Ring
from tclint.inspect.protocol.parts import Next, merged
from tclint.inspect.protocol.rings import DescribedRings
from tclint.inspect.protocol.sites import Sites
from tclint.values.nodes import Masked

__all__ = ["Successions"]


class Successions:
    """Which rings threads signal after they have waited on another one."""

    def __init__(self, sites: Sites, rings: DescribedRings) -> None:
        self.sites, self.model, self.rings = sites, sites.model, rings

    def after(self, ring: Ring) -> Iterator[Next]:
        """The rings that threads signal after they have waited on *ring*."""
        found: list[Next] = []
        for wait in ring.waits:
            for signal, rings in self._signals.items():
                threads = self.sites.threads(wait) & self.sites.threads(signal)
                if not threads or wait not in self._before(signal):
                    continue
                for other in rings:
                    if other is not ring:
                        same = self._same_stage(wait, ring, signal, other)
                        found.append(
                            Next(
                                self.rings.number[other],
                                (signal,),
                                self.sites.who(signal),
                                self.sites.roles_of(signal),
                                same,
                            )
                        )
        yield from merged(sorted(dict.fromkeys(found), key=lambda n: (n.ring, n.sites)))

    @cached_property
    def _signals(self) -> dict[int, list[Ring]]:
        """Site -> rings, of arrivals and copies that complete phases, in program order."""
        sites = [
            *self.rings.mbarriers.arriving,
            *(i for ring in self.rings.found for i in self.rings.mbarriers.copies(ring)),
        ]
        return {
            i: sorted(self.rings.mbarriers.rings_at(i), key=self.rings.number.__getitem__)
            for i in sorted(set(sites))
        }

    def _before(self, signal: int) -> frozenset[int]:
        """The last waits that an iteration passes before the signal, with no other signal between these waits.

        Waits in an enclosing loop of these waits belong to an earlier time, and are left out.
        """
        if signal not in self._waited:
            self._waited[signal] = frozenset(self._passed(signal))
        return self._waited[signal]

    @cached_property
    def _waited(self) -> dict[int, frozenset[int]]:
        return {}

    def _passed(self, signal: int) -> Iterator[int]:
        cfg, threads = self.model.cfg, self.sites.threads(signal)
        work = [(cfg.block_of[signal], signal, False)]
        visited: set[tuple[int, bool]] = set()
        while work:
            block, end, waited = work.pop()
            for site in reversed(self._exchanges.get(block, ())):
                if site >= end or not threads & self.sites.threads(site):
                    continue
                if self.sites.waits(site):
                    waited = True
                    yield site
                elif waited:
                    break
            else:
                if waited and block in self.sites.loops:
                    continue
                for edge in cfg.predecessors[block]:
                    before = edge.source
                    if (
                        cfg.rank.get(before, cfg.rank[block]) < cfg.rank[block]
                        and (before, waited) not in visited
                    ):
                        visited.add((before, waited))
                        work.append((before, cfg.blocks[before].end, waited))

    @cached_property
    def _exchanges(self) -> dict[int, list[int]]:
        """The waits on mbarriers and the signals to them, by block."""
        block_of, found = self.model.cfg.block_of, dict[int, list[int]]()
        for site in self.sites.kinds:
            if site in self._signals or self.sites.waits(site):
                found.setdefault(block_of[site], []).append(site)
        return found

    def _same_stage(self, wait: int, ring: Ring, signal: int, other: Ring) -> bool | None:
        """Whether *wait* and *signal* refer to stages with the same index; None if unknown."""
        if len(ring.stages) != len(other.stages) or len(ring.stages) == 1:
            return None
        values = self.model.values
        a, b = self.model.mbarrier(wait), self.model.mbarrier(signal)
        if a is None or b is None:
            return None
        indices = []
        for value, of in ((a, ring), (b, other)):
            first = values.add(of.stages[0].base, values.constant(of.stages[0].offset))
            indices.append(values.add(home(values, value).address, values.times(first, -1)))
        if self._index(indices[0]) == self._index(indices[1]):
            return True
        terms, constant = values.linear(values.add(indices[1], values.times(indices[0], -1)))
        return constant == 0 if not terms else None

    def _index(self, value: int) -> Hashable:
        """A canonical form of an offset in a ring: compilers scale an index either before or after masking it."""
        values = self.model.values
        terms, constant = values.linear(value)
        if len(terms) != 1 or constant:
            return values.representative(value)
        ((term, factor),) = terms
        node = values.node(term)
        if type(node) is not Masked:
            return values.representative(value)
        inner, rest = values.linear(node.value)
        mask = node.mask
        while mask & 1 == 0 and rest % 2 == 0 and all(f % 2 == 0 for _, f in inner):
            inner, rest = tuple((t, f // 2) for t, f in inner), rest // 2
            mask, factor = mask >> 1, factor * 2
        return values.total(inner, rest), mask, factor
