"""Why parts of a protocol are unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tclint.analyses.mbarriers import MbarrierObject
from tclint.analyses.provenance import origin
from tclint.analyses.role_paths import calls, known_functions
from tclint.inspect.protocol.parts import MbarrierRing, UnknownPart
from tclint.inspect.protocol.regions import Regions
from tclint.inspect.protocol.rings import DescribedRings
from tclint.inspect.protocol.sites import Sites
from tclint.isa.callees import SYSTEM_CALLS

__all__ = ["Reasons"]

_OPERANDS = {
    "count": "the number of {}",
    "id": "the barrier number",
    "mask": "the CTA mask",
    "parity": "the parity",
    "tx": "the number of bytes",
    "bytes": "the number of bytes",
}
"""Names of operands by role, for ``unresolved``."""
_EXPRESSIONS = ("mask", "parity")
"""Roles of operands that are shown as expressions if they are not constant."""


class Reasons:
    """What a protocol leaves unknown, by reason."""

    def __init__(self, sites: Sites, rings: DescribedRings, regions: Regions) -> None:
        self.sites, self.model = sites, sites.model
        self.rings, self.regions = rings, regions

    def all(self, mbarriers: Iterable[MbarrierRing]) -> Iterator[UnknownPart]:
        """Each reason once, those that concern the whole kernel first."""
        found: dict[str, set[int]] = {}
        for site, why in (
            *self._not_analysed(),
            *self._unknown_operands(),
            *self._unknown_phases(mbarriers),
            *self._unknown_addresses(),
        ):
            found.setdefault(why, set()).update([site] if site >= 0 else ())
        unresolved = [UnknownPart(tuple(sorted(sites)), why) for why, sites in found.items()]
        yield from sorted(unresolved, key=lambda u: (u.sites[:1], u.why))

    def _not_analysed(self) -> Iterator[tuple[int, str]]:
        """Callers, dispatchers and calls that the analyses do not see through. Site -1 is the whole kernel."""
        model, cfg = self.model, self.model.cfg
        if not model.function.entry:
            yield -1, "not a kernel: what its callers do before and after it is unknown"
        for block in model.reachability.unresolved_dispatchers:
            yield (
                cfg.blocks[block].end - 1,
                "roles are dispatched by a value from memory: which warps form which partition is unknown",
            )
        known = known_functions(model.module)
        for i in calls(model):
            callee = model.instruction(i).callee
            if cfg.block_of[i] in cfg.rank and callee not in known:
                who = callee or "a function whose address is computed"
                yield i, f"calls {who}: its effect on barriers is unknown"
            elif cfg.block_of[i] in cfg.rank and callee not in SYSTEM_CALLS:
                yield i, f"calls {callee}, which is shown separately (--entry {callee})"

    def _unknown_operands(self) -> Iterator[tuple[int, str]]:
        for i in self.rings.mbarriers.unresolved:
            yield i, self._unnamed(i)
        for site, kind in self.sites.kinds.items():
            of = "threads of the barrier" if kind.startswith("barrier") else "arrivals"
            for role, what in _OPERANDS.items():
                value = self.model.value(site, role)
                if value is not None and not self._shown(role, value):
                    yield site, f"{what.format(of)} depends on {origin(self.model, value)}"

    def _shown(self, role: str, value: int) -> bool:
        """Whether an operand is shown, as a constant or, for some roles, as an expression."""
        known = self.model.values.constant_of(value) is not None
        return known or (role in _EXPRESSIONS and self.sites.words.text(value) is not None)

    def _unknown_phases(self, mbarriers: Iterable[MbarrierRing]) -> Iterator[tuple[int, str]]:
        for ring, made in zip(mbarriers, self.rings.found, strict=True):
            first = made.stages[0]
            if ring.count is None and all(None not in stage.counts for stage in made.stages):
                yield from ((i, "these initialise it with different arrival counts") for i in made.inits)
            if ring.delivered is None:
                for i, why in self.rings.mbarriers.unknown_bytes(first):
                    yield i, f"the bytes of a phase are unknown: {why}"
            if ring.arriving is None:
                for i, why in self._unknown_arrivals(ring, first):
                    yield i, f"the arrivals of a phase are unknown: {why}"

    def _unknown_arrivals(self, ring: MbarrierRing, first: MbarrierObject) -> Iterator[tuple[int, str]]:
        reasons = list(self.rings.mbarriers.unknown_arrivals(first))
        if reasons:
            yield from reasons
        elif self.model.function.most_threads is None:
            yield -1, "the launch determines the CTA size"
        elif not self.rings.mbarriers.has_unseen_arrivals and all(a.count is not None for a in ring.arrives):
            yield from (
                (i, "it is unknown which of these are in the same phase")
                for a in ring.arrives
                for i in a.sites
            )

    def _unknown_addresses(self) -> Iterator[tuple[int, str]]:
        for touch in self.regions.touches:
            if touch.hidden is not None:
                base = touch.base
                where = (
                    "an address in shared memory"
                    if base is None
                    else f"the offset from {self.sites.objects.short(base)}"
                )
                yield touch.access.site, f"{where} depends on {origin(self.model, touch.hidden)}"

    def _unnamed(self, site: int) -> str:
        """Why the mbarrier to which an instruction refers is unknown."""
        value = self.model.mbarrier(site)
        if (
            value is not None
            and self.rings.mbarriers.addresses.of(site)
            and self.regions.variable(value) is not None
        ):
            text = self.sites.words.text(value)
            where = f" at {text}" if text else " at this address"
            if self.sites.kinds.get(site) == "init":
                return "the number of mbarriers that this initialises is unknown"
            return f"no mbarrier.init for the mbarrier{where}"
        return f"the address of the mbarrier comes from {origin(self.model, value)}"
