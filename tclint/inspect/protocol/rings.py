"""The mbarriers of a protocol: initialisation, arrivals, expected bytes and waits, with their threads."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise

from tclint.analyses.mbarriers import MbarrierObject, Mbarriers, Ring
from tclint.inspect.protocol.parts import (
    Arrive,
    Delivered,
    Init,
    MbarrierRing,
    ProtocolWait,
    TransactionBytes,
    merged,
)
from tclint.inspect.protocol.sites import Sites
from tclint.isa.effects import NO_ENGINE
from tclint.values.nodes import CollectiveResult, Loaded, Phi, Undefined, Unmodelled

__all__ = ["DescribedRings"]


class DescribedRings:
    """The rings of mbarriers, in the order of their initialisation, described."""

    def __init__(self, sites: Sites) -> None:
        self.sites, self.model = sites, sites.model
        self.mbarriers = sites.model.fact(Mbarriers)

    @property
    def found(self) -> list[Ring]:
        return self.mbarriers.rings_by_init

    @cached_property
    def number(self) -> dict[Ring, int]:
        return {ring: n for n, ring in enumerate(self.found)}

    def described(self, ring: Ring) -> MbarrierRing:
        """A ring without what its waiters do next."""
        offsets = tuple(stage.offset for stage in ring.stages)
        steps = {b - a for a, b in pairwise(offsets)}
        arriving = [i for i in self.mbarriers.arriving if ring in self.mbarriers.rings_at(i)]
        expects = self.mbarriers.expects(ring)
        first = ring.stages[0]
        return MbarrierRing(
            name=self.sites.objects.ring(ring),
            base=self.sites.base(ring.stages[0].base) or "?",
            offset=offsets[0],
            stride=next(iter(steps)) if len(steps) == 1 else None,
            offsets=offsets,
            count=ring.count,
            inits=tuple(merged(self._init(i) for i in sorted(ring.inits))),
            arrives=tuple(merged(self._arrive(i, ring) for i in arriving)),
            arrivals=self.mbarriers.arrivals(first),
            expects=tuple(merged(self._bytes(i, "tx") for i in sorted(expects))),
            copies=tuple(merged(self._bytes(i, "bytes") for i in self.mbarriers.copies(ring))),
            delivered=self._delivered(first),
            waits=tuple(merged(self._wait(i) for i in ring.waits)),
            then=(),
        )

    def _init(self, site: int) -> Init:
        return Init((site,), self.sites.who(site), self.sites.roles_of(site))

    def _arrive(self, site: int, ring: Ring) -> Arrive:
        model = self.model
        named = self.mbarriers.named(site)
        here = self.sites.threads(site)
        at_once = {(threads & here).bit_count() for m, threads in named.items() if m in ring.stages}
        every = self.sites.count(site)
        counted = model.instruction(site).role("count") is not None
        multicast, effects = self.sites.multicast(site), model.instruction(site).effects
        return Arrive(
            sites=(site,),
            who=self.sites.who(site),
            roles=self.sites.roles_of(site),
            opcode=self.sites.opcode(site),
            threads=max(at_once) if every is not None else None,
            count=model.constant_of(site, "count") if counted else 1,
            scope=self.sites.scope(site),
            remote=multicast is not None or any(a.remote for a in self.mbarriers.addresses.of(site)),
            multicast=multicast,
            after=effects.tracks or effects.commits or NO_ENGINE,
        )

    def _bytes(self, site: int, role: str) -> TransactionBytes:
        return TransactionBytes(
            sites=(site,),
            who=self.sites.who(site),
            roles=self.sites.roles_of(site),
            opcode=self.sites.opcode(site),
            bytes=self.sites.size(site, role),
            multicast=self.sites.multicast(site),
            via=self.sites.via(site),
        )

    def _delivered(self, object_: MbarrierObject) -> tuple[Delivered, ...] | None:
        found = self.mbarriers.deliveries(object_)
        if found is None:
            return None
        return tuple(
            Delivered(
                self._sum(d.expects, "tx", d.threads),
                self._sum(d.copies, "bytes", d.threads),
                tuple(d.expects),
                tuple(d.copies),
            )
            for d in found
        )

    def _sum(self, sites: Iterable[int], role: str, threads: int) -> int | None:
        numbers = [self.sites.size(i, role) for i in sites]
        known = [n for n in numbers if n is not None]
        return sum(known) * threads.bit_count() if len(known) == len(numbers) else None

    def _wait(self, site: int) -> ProtocolWait:
        model = self.model
        parity = model.value(site, "parity")
        return ProtocolWait(
            sites=(site,),
            who=self.sites.who(site),
            roles=self.sites.roles_of(site),
            parity=None if parity is None else self.sites.words.text(parity),
            first=None if parity is None else self._first(site, parity),
            token=parity is None,
            scope=self.sites.scope(site),
        )

    def _first(self, site: int, parity: int) -> int | None:
        """The parity when a thread waits at *site* for the first time, if it is the same on all paths; else None."""
        values = self.model.values
        if values.constant_of(parity) is not None:
            return values.constant_of(parity)
        resolve = self.model.at_first(site).witness if self._begins_alike(site, parity) else None
        number = None if resolve is None else values.constant_of(resolve(parity))
        return None if number is None else number & 1

    def _begins_alike(self, site: int, value: int) -> bool:
        """Whether *value* depends only on loops around *site* in whose every iteration *site* is executed.

        The first execution of *site* is then in the first iteration of all of these loops.
        """
        cfg, values = self.model.cfg, self.model.values
        here = cfg.block_of[site]
        if self.model.instruction(site).guard >= 0:
            return False
        work, seen = [value], set[int]()
        while work:
            v = values.representative(work.pop())
            if v in seen:
                continue
            seen.add(v)
            node = values.node(v)
            if isinstance(node, Unmodelled | Undefined | Loaded | CollectiveResult):
                return False
            if type(node) is not Phi:
                work += node.operands
                continue
            body = cfg.loops.get(node.block, ())
            incoming = list(zip(cfg.sources[node.block], values.arguments(v), strict=False))
            initial = {x for b, x in incoming if b not in body}
            if here not in body or len(initial) != 1 or not cfg.in_every_iteration(here, node.block):
                return False
            work += initial
        return True
