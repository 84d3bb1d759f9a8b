"""The part of a protocol that is about some mbarriers and barriers: ``tclint barriers --object`` and ``--at``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace

from tclint.inspect.protocol.parts import ON_MBARRIER, Event, MbarrierRing, Protocol, used

__all__ = ["CLUSTER", "about", "names"]

CLUSTER = "cluster"
"""What the cluster barrier is called in a selection."""


def names(found: Protocol) -> list[str]:
    """What can be selected in a protocol: the mbarriers, the numbers of the CTA barriers, and :data:`CLUSTER`."""
    numbers = [str(barrier.number) for barrier in found.barriers if barrier.number is not None]
    return [*(ring.name for ring in found.mbarriers), *numbers, *([CLUSTER] if found.cluster else [])]


def about(
    found: Protocol, objects: Collection[str], lines: Collection[int], line_of: Callable[[int], int]
) -> Protocol | None:
    """*found* without what is not about one of *objects*, or not about one that an instruction in *lines* uses.

    An object is the name of an mbarrier, with or without a stage, its variable, ``variable+offset`` or the offset, the
    number of a CTA barrier, or :data:`CLUSTER`. *line_of* gives the line of an instruction. An event on an unresolved object
    may be about any of its kind, so it remains beside one; so does what is unresolved in the whole kernel. The regions
    remain, as events refer to them by index. None if nothing else remains.
    """
    here = [event for event in found.events if any(line_of(site) in lines for site in event.sites)]
    rings = {n for n, ring in enumerate(found.mbarriers) if any(_called(ring, name) for name in objects)}
    rings.update(n for event in here for n in event.rings)
    numbers = {int(name) for name in objects if name.isdecimal()}
    numbers.update(event.barrier for event in here if event.barrier is not None)
    clustered = CLUSTER in objects or any(_at_cluster(event) for event in here)
    at_barrier = any(b.number in numbers for b in found.barriers) or any(map(_unnumbered, here))
    on_mbarrier = bool(rings) or any(map(_unnamed, here))
    barriers = tuple(b for b in found.barriers if b.number in numbers or (b.number is None and at_barrier))
    cluster = found.cluster if clustered else None
    if not (on_mbarrier or barriers or cluster):
        return None

    def wanted(event: Event) -> bool:
        if _at_cluster(event):
            return clustered
        if _unnumbered(event):
            return at_barrier
        if _unnamed(event):
            return on_mbarrier
        return event.barrier in numbers or not rings.isdisjoint(event.rings)

    events = tuple(event for event in found.events if wanted(event))
    sites = {site for event in events for site in event.sites}
    return replace(
        found,
        selected=frozenset(rings),
        barriers=barriers,
        cluster=cluster,
        events=events,
        names=used(found.names, (event.parity for event in events)),
        unresolved=tuple(u for u in found.unresolved if not u.sites or not sites.isdisjoint(u.sites)),
    )


def _at_cluster(event: Event) -> bool:
    return event.kind.startswith("cluster ")


def _unnumbered(event: Event) -> bool:
    """Whether *event* is at a CTA barrier of unknown number."""
    return event.kind.startswith("barrier") and event.barrier is None


def _unnamed(event: Event) -> bool:
    """Whether *event* is on an unresolved mbarrier."""
    return event.kind in ON_MBARRIER and not event.rings


def _called(ring: MbarrierRing, name: str) -> bool:
    """Whether *name* denotes a ring or one of its stages."""
    short = re.sub(r"\[\d+\]$", "", ring.name)
    if stage := re.fullmatch(r"(.+)\[(\d+)\]", name):
        return stage[1] in (short, ring.base) and (int(stage[2]) < ring.stages or name == ring.name)
    if re.fullmatch(r"0x[0-9a-fA-F]+", name):
        return int(name, 16) in ring.offsets
    if place := re.fullmatch(r"(.+)\+(0x[0-9a-fA-F]+|\d+)", name):
        base = place[1] in (ring.base, short.partition("+")[0])
        return base and int(place[2], 0) in ring.offsets
    return name in (ring.name, short, ring.base)
