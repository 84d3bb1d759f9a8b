"""What the protocol of a kernel consists of.

Instructions are given by site (instruction number). What is unknown is None, or an entry of
:attr:`Protocol.unresolved` with the reason, and never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TypeVar

from tclint._dataclass import dataclass
from tclint.analyses.mbarriers import Arrivals
from tclint.isa.accesses import Via
from tclint.isa.effects import NO_ENGINE, Engine

__all__ = [
    "ON_MBARRIER",
    "Arrive",
    "BarrierUse",
    "Changing",
    "Delivered",
    "Event",
    "Init",
    "MbarrierRing",
    "Multicast",
    "Next",
    "Protocol",
    "ProtocolBarrier",
    "ProtocolWait",
    "Region",
    "RegionUse",
    "Role",
    "TransactionBytes",
    "UnknownPart",
    "UseOrdering",
    "merged",
    "used",
]

E = TypeVar("E")
ON_MBARRIER = ("init", "inval", "arrive", "expect", "complete", "wait")
"""Kinds of events that are always on an mbarrier."""


@dataclass(frozen=True, slots=True)
class Role:
    """Warps that take part in the same events."""

    name: str
    warps: tuple[int, ...]
    threads: int
    partition: int | None = None
    """Its case in a dispatcher's branch table; its warps are then those that may be dispatched to it."""


@dataclass(frozen=True, slots=True)
class Multicast:
    """The CTAs of the cluster to which a copy writes, or in which a commit arrives."""

    to: str
    """In words."""
    ctas: tuple[int, ...] | None
    """Their ranks; None if unknown."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or several equal ones in a row, of some roles. The events of a protocol are in program order."""

    kind: str
    sites: tuple[int, ...]
    who: str
    roles: tuple[int, ...]
    """Indices in :attr:`Protocol.roles` of those that take part."""
    loops: tuple[int, ...] = ()
    """The first sites of the enclosing loops, the outermost first. Loops that only wait are left out."""
    opcode: str = ""
    rings: tuple[int, ...] = ()
    """Indices in :attr:`Protocol.mbarriers` of those it may refer to; empty if it refers to none or to unknown ones."""
    regions: tuple[int, ...] = ()
    """Indices in :attr:`Protocol.regions` of those that it accesses."""
    count: int | None = None
    """Arrivals per thread, or the threads of a barrier."""
    bytes: int | None = None
    parity: str | None = None
    group: str = ""
    depth: int | None = None
    """The number of newest groups that a wait may leave pending."""
    sources: bool = False
    """Whether it waits only until the sources of stores have been read."""
    barrier: int | None = None
    """The number of a CTA barrier."""
    scope: str = "cta"
    multicast: Multicast | None = None
    via: Via = Via.ADDRESS
    """See :attr:`TransactionBytes.via`."""
    expects: bool = False
    """Whether an arrival also expects bytes."""


@dataclass(frozen=True, slots=True)
class Init:
    sites: tuple[int, ...]
    who: str
    roles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrive:
    """Arrivals of one kind by the same threads."""

    sites: tuple[int, ...]
    who: str
    roles: tuple[int, ...]
    opcode: str
    threads: int | None
    """Threads that arrive at each site; None if unknown."""
    count: int | None
    """Arrivals per thread; None if unknown."""
    scope: str
    remote: bool
    """Whether the mbarrier may be that of a peer CTA."""
    multicast: Multicast | None
    after: Engine = NO_ENGINE
    """The engine whose earlier operations must be complete first."""


@dataclass(frozen=True, slots=True)
class TransactionBytes:
    """Bytes that are expected, or for which a copy performs complete_tx."""

    sites: tuple[int, ...]
    who: str
    roles: tuple[int, ...]
    opcode: str
    bytes: int | None
    """None if not a constant. The size of a tensor copy is determined by its tensor map."""
    multicast: Multicast | None
    via: Via = Via.ADDRESS
    """How a copy says where its bytes are."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The bytes of a phase on one path between two waits. Copies of a peeled or unrolled loop have one each."""

    expected: int | None
    copied: int | None
    expects: tuple[int, ...]
    copies: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProtocolWait:
    sites: tuple[int, ...]
    who: str
    roles: tuple[int, ...]
    parity: str | None
    """As an expression; None if unknown, or if it waits on a state token."""
    first: int | None
    """The parity of the first wait; None if unknown."""
    token: bool
    """Whether it waits for the phase denoted by a state that an arrival returned."""
    scope: str


@dataclass(frozen=True, slots=True)
class Next:
    """Threads that wait on one ring and then signal another one, whose stages they release or fill."""

    ring: int
    sites: tuple[int, ...]
    who: str
    roles: tuple[int, ...]
    same_stage: bool | None
    """Whether the stage has the same index in both rings; None if unknown."""


@dataclass(frozen=True, slots=True)
class MbarrierRing:
    """An mbarrier, or several that are used in turn."""

    name: str
    base: str
    offset: int
    stride: int | None
    """Bytes from one stage to the next; None if there is only one stage, or if they are not evenly spaced."""
    offsets: tuple[int, ...]
    count: int | None
    inits: tuple[Init, ...]
    arrives: tuple[Arrive, ...]
    arrivals: Arrivals | None
    """The arrivals that a phase may receive; None if unknown."""
    expects: tuple[TransactionBytes, ...]
    copies: tuple[TransactionBytes, ...]
    delivered: tuple[Delivered, ...] | None
    waits: tuple[ProtocolWait, ...]
    then: tuple[Next, ...]

    @property
    def stages(self) -> int:
        return len(self.offsets)

    @property
    def arriving(self) -> int | None:
        """The number of arrivals that a phase receives; None if it is not known exactly."""
        found = self.arrivals
        if found is None or found.most is None:
            return None
        if self.count is not None and self.count in found.known:
            return self.count
        return found.least if found.least == found.most else None


@dataclass(frozen=True, slots=True)
class UseOrdering:
    """Whether a use of a region is ordered after another use of it."""

    of: int
    """The index of the other use in :attr:`Region.uses`."""
    ordered: bool | None
    """Whether it is ordered after the completion of the other one on every path; None if unknown."""
    at: tuple[int, ...]
    """The acquire points that order it."""
    way: tuple[int, ...]
    """The branches of a path on which it is not ordered."""


@dataclass(frozen=True, slots=True)
class RegionUse:
    verb: str
    """``read`` or ``write``."""
    proxy: str
    who: str
    roles: tuple[int, ...]
    sites: tuple[int, ...]
    orderings: tuple[UseOrdering, ...] = ()
    """For a read, its order after the writes; for a write, its order after the reads of the previous iteration."""


@dataclass(frozen=True, slots=True)
class Region:
    """A range of shared memory whose accesses may overlap each other."""

    name: str
    base: str | None
    """None if the address is unresolved."""
    start: int | None
    end: int | None
    """Offsets from the base; None if unknown."""
    more: bool
    """Whether accesses of unknown size may extend past the end."""
    uses: tuple[RegionUse, ...]


@dataclass(frozen=True, slots=True)
class BarrierUse:
    kind: str
    """``sync``, ``arrive`` or ``wait``."""
    sites: tuple[int, ...]
    who: str
    roles: tuple[int, ...]
    threads: int | None
    count: int | None
    """The number of participating threads; None if all, or if unknown."""


@dataclass(frozen=True, slots=True)
class ProtocolBarrier:
    """A CTA barrier, or the cluster barrier."""

    number: int | None
    """None for the cluster barrier, and for a CTA barrier of unknown number."""
    uses: tuple[BarrierUse, ...]


@dataclass(frozen=True, slots=True)
class Changing:
    """A name in expressions for a value that a loop changes."""

    name: str
    meaning: str
    site: int
    """The first instruction of the loop."""


@dataclass(frozen=True, slots=True)
class UnknownPart:
    """A reason why something is unknown, and the instructions concerned."""

    sites: tuple[int, ...]
    """Empty if it concerns the whole kernel."""
    why: str


@dataclass(frozen=True, slots=True)
class Protocol:
    """The protocol of one kernel."""

    roles: tuple[Role, ...]
    mbarriers: tuple[MbarrierRing, ...]
    barriers: tuple[ProtocolBarrier, ...]
    cluster: ProtocolBarrier | None
    regions: tuple[Region, ...]
    events: tuple[Event, ...]
    names: tuple[Changing, ...]
    unresolved: tuple[UnknownPart, ...]
    selected: frozenset[int] | None = None
    """The indices of the mbarriers that are shown; None: all of them."""

    @property
    def shown_mbarriers(self) -> list[MbarrierRing]:
        chosen = self.selected
        return [ring for n, ring in enumerate(self.mbarriers) if chosen is None or n in chosen]


def used(names: Iterable[Changing], parities: Iterable[str | None]) -> tuple[Changing, ...]:
    """Those of *names* that occur in *parities*."""
    words = {word for parity in parities for word in re.findall(r"\w+", parity or "")}
    return tuple(name for name in names if name.name in words)


def merged(items: Iterable[E]) -> list[E]:
    """*items* with those merged that differ only in their sites, in the order of their first occurrence."""
    found: dict[Hashable, E] = {}
    for item in items:
        key = replace(item, sites=())  # type: ignore[type-var]
        old = found.get(key)
        sites = (*(old.sites if old is not None else ()), *item.sites)  # type: ignore[attr-defined]
        found[key] = replace(item, sites=tuple(dict.fromkeys(sites)))  # type: ignore[type-var]
    return list(found.values())
