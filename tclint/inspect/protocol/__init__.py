"""The synchronisation protocol of a kernel as data: roles, their events in order, barriers, and shared memory.

This collects results of the other analyses for ``tclint barriers`` and adds no analysis of its own. Instructions are
given by site (instruction number). What is unknown is None, or an entry of ``unresolved`` with the reason, and never a
guess.

A *ring* is an mbarrier, or several that are used in turn as the stages of a ring buffer. A *role* is a set of warps
that take part in the same events. A *region* is a range of shared memory whose accesses may overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tclint.analyses.model import KernelModel
from tclint.inspect.protocol.events import Events
from tclint.inspect.protocol.order import Successions
from tclint.inspect.protocol.parts import Changing, Protocol
from tclint.inspect.protocol.regions import Regions
from tclint.inspect.protocol.rings import DescribedRings
from tclint.inspect.protocol.sites import Sites, partitions
from tclint.inspect.protocol.unresolved import Reasons

__all__ = ["changing", "partitions", "protocol"]


def protocol(model: KernelModel) -> Protocol:
    """The protocol of a kernel, computed once per model."""
    return model.fact(_read)


def _read(model: KernelModel) -> Protocol:
    sites = Sites(model)
    rings, regions = DescribedRings(sites), Regions(sites)
    next_rings, happenings = Successions(sites, rings), Events(sites, rings, regions)
    described = tuple(rings.described(ring) for ring in rings.found)
    events = tuple(happenings.all())
    mbarriers = tuple(
        replace(each, then=tuple(next_rings.after(ring)))
        for each, ring in zip(described, rings.found, strict=True)
    )
    return Protocol(
        roles=sites.roles,
        mbarriers=mbarriers,
        barriers=tuple(happenings.barriers()),
        cluster=happenings.cluster(),
        regions=regions.all,
        events=events,
        names=tuple(changing(sites)),
        unresolved=tuple(Reasons(sites, rings, regions).all(described)),
    )


def changing(sites: Sites) -> Iterator[Changing]:
    """The names that the expressions printed so far use for what a loop changes."""
    for name in sorted(sites.words.names.values(), key=lambda name: (name.block, name.name)):
        yield Changing(name.name, name.meaning, sites.model.cfg.blocks[name.block].start)
