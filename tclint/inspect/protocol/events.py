"""The events of a protocol in program order, with what they refer to, and its CTA and cluster barriers."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.inspect.protocol.parts import BarrierUse, Event, ProtocolBarrier, merged
from tclint.inspect.protocol.regions import Regions
from tclint.inspect.protocol.rings import DescribedRings
from tclint.inspect.protocol.sites import Sites
from tclint.isa.effects import Barrier

__all__ = ["Events"]


class Events:
    """The events of each role and the barriers, with the rings and regions to which they refer."""

    def __init__(self, sites: Sites, rings: DescribedRings, regions: Regions) -> None:
        self.sites, self.model = sites, sites.model
        self.rings, self.regions = rings, regions

    def all(self) -> Iterator[Event]:
        """The events in program order; equal ones in a row are one."""
        run: list[Event] = []
        for site, kind in self.sites.kinds.items():
            event = self._event(site, kind)
            if run and (run[0].kind, run[0].who, run[0].loops) != (event.kind, event.who, event.loops):
                yield from merged(run)
                run = []
            run.append(event)
        yield from merged(run)

    def _event(self, site: int, kind: str) -> Event:
        model = self.model
        parity = model.value(site, "parity")
        role = next((r for r in ("tx", "bytes") if model.instruction(site).role(r) is not None), None)
        rings = self.rings.mbarriers.rings_at(site)
        counted = model.instruction(site).role("count") is not None
        return Event(
            kind="cluster " + kind.removeprefix("barrier ") if self._of_cluster(site) else kind,
            sites=(site,),
            who=self.sites.who(site),
            roles=self.sites.roles_of(site),
            loops=self.sites.around(site),
            opcode=self.sites.opcode(site),
            rings=tuple(sorted(self.rings.number[ring] for ring in rings)),
            regions=tuple(sorted(set(self.regions.touched.get(site, ())))) if kind in ("copy", "mma") else (),
            count=model.constant_of(site, "count") if counted else 1 if kind == "arrive" else None,
            bytes=self.sites.size(site, role or "bytes"),
            parity=None if parity is None else self.sites.words.text(parity),
            group=model.instruction(site).group if kind in ("commit", "wait group") else "",
            depth=model.constant_of(site, "depth"),
            sources=kind == "wait group" and model.instruction(site).effects.sources,
            barrier=model.constant_of(site, "id"),
            scope=self.sites.scope(site),
            multicast=self.sites.multicast(site),
            via=self.sites.via(site),
            expects=role == "tx",
        )

    def barriers(self) -> Iterator[ProtocolBarrier]:
        """The CTA barriers by number, those of unknown number last."""
        model, found = self.model, dict[int | None, list[BarrierUse]]()
        for site in self.sites.kinds:
            match = model.instruction(site).match
            if match is not None and "id" in match.form.roles:
                found.setdefault(model.constant_of(site, "id"), []).append(self._barrier_use(site))
        for number, uses in sorted(found.items(), key=lambda item: (item[0] is None, item[0] or 0)):
            yield ProtocolBarrier(number, tuple(merged(uses)))

    def cluster(self) -> ProtocolBarrier | None:
        """The cluster barrier; None if the kernel does not use it."""
        uses = [self._barrier_use(i) for i in self.sites.kinds if self._of_cluster(i)]
        return ProtocolBarrier(None, tuple(merged(uses))) if uses else None

    def _of_cluster(self, site: int) -> bool:
        return self.model.instruction(site).effects.barrier is Barrier.CLUSTER

    def _barrier_use(self, site: int) -> BarrierUse:
        return BarrierUse(
            self.sites.kinds[site].removeprefix("barrier "),
            (site,),
            self.sites.who(site),
            self.sites.roles_of(site),
            self.sites.count(site),
            self.model.constant_of(site, "count"),
        )
