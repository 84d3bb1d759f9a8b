"""The synchronisation protocol of a kernel as data: roles, their events in order, barriers, and shared memory.

This collects results of the other analyses for ``tclint barriers`` and adds no analysis of its own. Instructions are
given by site (instruction number). What is unknown is None, or an entry of ``unresolved`` with the reason, and never a
guess.

A *ring* is an mbarrier, or several that are used in turn as the stages of a ring buffer. A *role* is a set of warps
that take part in the same events. A *region* is a range of shared memory whose accesses may overlap.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice, pairwise
from math import prod
from typing import NamedTuple, TypeVar

from tclint._dataclass import dataclass
from tclint.analyses.mbarrier_addresses import home
from tclint.analyses.mbarriers import Arrivals, Mbarrier, Mbarriers, Ring, transferred
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.analyses.pretty import ValuePrinter
from tclint.analyses.provenance import origin
from tclint.analyses.role_paths import calls, controlling_predicates, known_functions
from tclint.inspect.region_order import region_ordering
from tclint.ir.cfg import CFG
from tclint.isa.callees import SYSTEM_CALLS
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.shared_memory import Access

__all__ = [
    "Arrive",
    "Barrier",
    "BarrierUse",
    "Bytes",
    "Changing",
    "Delivered",
    "Event",
    "Init",
    "MbarrierRing",
    "Multicast",
    "Next",
    "Protocol",
    "Region",
    "RegionUse",
    "Role",
    "Unresolved",
    "UseOrdering",
    "Wait",
    "partitions",
    "protocol",
]

_KINDS = {
    "mbarrier-init": "init",
    "mbarrier-inval": "inval",
    "mbarrier-arrive": "arrive",
    "mbarrier-expect": "expect",
    "mbarrier-complete": "complete",
    "mbarrier-wait": "wait",
    "barrier-sync": "barrier sync",
    "barrier-arrive": "barrier arrive",
    "barrier-wait": "barrier wait",
    "proxy-fence": "proxy fence",
    "memory-fence": "fence",
    "pdl-wait": "pdl wait",
    "pdl-launch": "pdl launch",
    "clc-request": "copy",
    "commit": "commit",
    "wait": "wait group",
}
"""The event kinds of the ISA table that are part of a protocol, and their names here. For ``issue``, see `_issued`."""
_SETUP = frozenset(("init", "inval", "fence", "proxy fence", "pdl wait", "pdl launch"))
"""Events that do not define a role, since any thread may execute them."""
_MAX_NAME = 1000
"""Characters of the name of a variable."""
_MAX_ADDRESS_VALUES = 64
"""Subexpressions of an address that are searched for the variable on which it is based."""
_MAX_MULTICAST_CTAS = 16
"""Bits of a CTA mask."""
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
_ALL = "all threads"

E = TypeVar("E")


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


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes that are expected, or for which a copy performs complete_tx."""

    sites: tuple[int, ...]
    who: str
    roles: tuple[int, ...]
    opcode: str
    bytes: int | None
    """None if not a constant. The size of a tensor copy is determined by its tensor map."""
    multicast: Multicast | None


@dataclass(frozen=True, slots=True)
class Delivered:
    """The bytes of a phase on one path between two waits. Copies of a peeled or unrolled loop have one each."""

    expected: int | None
    copied: int | None
    expects: tuple[int, ...]
    copies: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wait:
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
    expects: tuple[Bytes, ...]
    copies: tuple[Bytes, ...]
    delivered: tuple[Delivered, ...] | None
    waits: tuple[Wait, ...]
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
class Barrier:
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
class Unresolved:
    """A reason why something is unknown, and the instructions concerned."""

    sites: tuple[int, ...]
    """Empty if it concerns the whole kernel."""
    why: str


@dataclass(frozen=True, slots=True)
class Protocol:
    """The protocol of one kernel."""

    roles: tuple[Role, ...]
    mbarriers: tuple[MbarrierRing, ...]
    barriers: tuple[Barrier, ...]
    cluster: Barrier | None
    regions: tuple[Region, ...]
    events: tuple[Event, ...]
    names: tuple[Changing, ...]
    unresolved: tuple[Unresolved, ...]


def protocol(model: KernelModel) -> Protocol:
    """The protocol of a kernel, computed once per model."""
    return model.fact(_read)


def _read(model: KernelModel) -> Protocol:
    return _Reader(model).protocol()


def partitions(model: KernelModel) -> dict[int, int]:
    """Block -> case, for blocks that only one case of an unresolved role dispatcher reaches.

    Which warps take the case is then unknown.
    """
    cfg, found = model.cfg, dict[int, int]()
    for dispatcher in sorted(model.reachability.unresolved_dispatchers):
        cases: dict[int, int] = {}
        for edge in cfg.successors[dispatcher]:
            cases.setdefault(edge.target, edge.case)
        reached = {case: _from(cfg, target, dispatcher) for target, case in cases.items()}
        for case, blocks in reached.items():
            others = set[int]().union(*(b for c, b in reached.items() if c != case))
            found.update(dict.fromkeys(blocks - others, case))
    return found


def _from(cfg: CFG, start: int, without: int) -> set[int]:
    found, work = {start}, [start]
    while work:
        for edge in cfg.successors[work.pop()]:
            if edge.target != without and edge.target not in found:
                found.add(edge.target)
                work.append(edge.target)
    return found


class _Touch(NamedTuple):
    """An access to shared memory, and the range of offsets from a base that it may touch."""

    access: Access
    proxy: str
    base: str | None
    start: int | None
    end: int | None
    more: bool
    """Whether it may extend past the end."""
    hidden: int | None = None
    """The value that makes the offset unknown."""


class _Reader:
    """Builds the protocol of a model."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.mbarriers = model.fact(Mbarriers)
        self.words = ValuePrinter(model.values)
        self.objects = model.fact(ObjectNames)

    def protocol(self) -> Protocol:
        mbarriers = tuple(self._ring(n) for n in range(len(self.rings)))
        events = tuple(self._events())
        return Protocol(
            roles=self.roles,
            mbarriers=tuple(replace(ring, then=tuple(self._next(n))) for n, ring in enumerate(mbarriers)),
            barriers=tuple(self._barriers()),
            cluster=self._cluster(),
            regions=self.regions,
            events=events,
            names=tuple(self._names()),
            unresolved=tuple(self._unresolved(mbarriers)),
        )

    def _names(self) -> Iterator[Changing]:
        for name in sorted(self.words.names.values(), key=lambda name: (name.block, name.name)):
            yield Changing(name.name, name.meaning, self.model.cfg.blocks[name.block].start)

    # ------------------------------------------------------------ threads and roles

    @cached_property
    def sites(self) -> dict[int, str]:
        """The events of the protocol in program order, each with its kind."""
        model, found = self.model, dict[int, str]()
        for event in model.events:
            match = model.instruction(event.site).match
            if match is None or match.problem or match.form.scope == "lanes":
                continue
            kind = self._issued(event.site) if event.kind == "issue" else _KINDS.get(event.kind, "")
            if kind and self._threads(event.site):
                found[event.site] = kind
        return found

    def _issued(self, site: int) -> str:
        """The kind of an asynchronous operation: ``mma`` if it has the roles ``b`` and ``d``, or ``copy``; else empty."""
        instruction = self.model.instruction(site)
        form = instruction.match.form if instruction.match else None
        if form is None or form.group in ("tcgen05.ld", "tcgen05.st", "none"):
            return ""
        if "b" in form.roles and "d" in form.roles:
            return "mma"
        return "copy" if "*" in "".join((*form.async_reads, *form.async_writes)) else ""

    def _threads(self, site: int) -> int:
        return self.model.views.context_of(site).threads & self.model.cta

    def _who(self, site: int) -> str:
        """The threads that may execute an instruction, in words."""
        threads = self._threads(site)
        partition = self._partitions.get(self.model.cfg.block_of[site])
        if partition is not None:
            lanes = "" if T.whole(threads, 32) == threads else "some lanes of "
            return f"{'a lane of ' if T.at_most_one_lane(threads) else lanes}partition {partition}"
        words = self.model.describe_threads(threads)
        if not self._some(site) or words.startswith("some "):
            return words
        return "some threads" if words == _ALL else f"some of {words}"

    def _some(self, site: int) -> bool:
        """Whether an unknown predicate decides which of the threads execute it. Results of waits do not count."""
        if site not in self._split:
            model, threads = self.model, self._threads(site)
            values = model.values
            self._split[site] = threads & (threads - 1) != 0 and any(
                values.mask(p) is None
                and values.uniformity(p) > UniformityScope.WARPGROUP
                and not any(
                    self.sites.get(at) == "wait" for kind, at in values.varying_at(p) if kind == "site"
                )
                for p in controlling_predicates(model, site)
            )
        return self._split[site]

    @cached_property
    def _split(self) -> dict[int, bool]:
        return {}

    @cached_property
    def roles(self) -> tuple[Role, ...]:
        block_of = self.model.cfg.block_of
        warps: dict[int, list[int]] = {}
        dispatched: dict[int, int] = {}
        for number, (site, kind) in enumerate(self.sites.items()):
            threads = self._threads(site)
            partition = self._partitions.get(block_of[site])
            if partition is not None:
                dispatched[partition] = dispatched.get(partition, 0) | T.whole(threads, 32)
            elif kind not in _SETUP:
                for w in _warps(threads):
                    warps.setdefault(w, []).append(number)
        alike: dict[tuple[int, ...], list[int]] = {}
        for w in _warps(self.model.cta):
            alike.setdefault(tuple(warps.get(w, ())), []).append(w)
        found = []
        for members in alike.values():
            threads = sum(0xFFFFFFFF << 32 * w for w in members) & self.model.cta
            found.append(Role(self.model.describe_threads(threads), tuple(members), threads))
        for partition, threads in sorted(dispatched.items()):
            found.append(Role(f"partition {partition}", tuple(_warps(threads)), threads, partition))
        return tuple(found)

    @cached_property
    def _partitions(self) -> dict[int, int]:
        return partitions(self.model)

    def _part(self, site: int) -> tuple[int, ...]:
        """The roles that take part in an event."""
        partition = self._partitions.get(self.model.cfg.block_of[site])
        threads = self._threads(site)
        return tuple(
            n for n, role in enumerate(self.roles) if role.partition == partition and role.threads & threads
        )

    def _many(self, site: int) -> int | None:
        """The number of threads that execute an instruction; None if it or the CTA size is unknown."""
        threads = self._threads(site)
        known = threads.bit_count() <= 1 or self.model.function.most_threads is not None
        return threads.bit_count() if known and not self._some(site) else None

    # ------------------------------------------------------------ mbarriers

    @property
    def rings(self) -> list[Ring]:
        return self.mbarriers.rings_by_init

    @cached_property
    def _number(self) -> dict[Ring, int]:
        return {ring: n for n, ring in enumerate(self.rings)}

    @cached_property
    def _bases(self) -> list[str]:
        """The base of the addresses of each ring, as text."""
        return [self.words.text(ring.stages[0].base, _MAX_NAME) or "?" for ring in self.rings]

    def _ring(self, number: int) -> MbarrierRing:
        ring = self.rings[number]
        offsets = tuple(stage.offset for stage in ring.stages)
        steps = {b - a for a, b in pairwise(offsets)}
        arriving = [i for i in self.mbarriers.arriving if ring in self.mbarriers.rings_at(i)]
        expects = [
            i
            for event in ("mbarrier-arrive", "mbarrier-expect")
            for i in ring.uses.get(event, ())
            if self.model.instruction(i).role("tx") is not None
        ]
        first = ring.stages[0]
        return MbarrierRing(
            name=self.objects.ring(ring),
            base=self._bases[number],
            offset=offsets[0],
            stride=next(iter(steps)) if len(steps) == 1 else None,
            offsets=offsets,
            count=ring.count,
            inits=tuple(_merged(self._init(i) for i in sorted(ring.inits))),
            arrives=tuple(_merged(self._arrive(i, ring) for i in arriving)),
            arrivals=self.mbarriers.arrivals(first),
            expects=tuple(_merged(self._bytes(i, "tx") for i in sorted(expects))),
            copies=tuple(_merged(self._bytes(i, "bytes") for i in self.mbarriers.copies(ring))),
            delivered=self._delivered(first),
            waits=tuple(_merged(self._wait(i) for i in ring.uses.get("mbarrier-wait", ()))),
            then=(),
        )

    def _init(self, site: int) -> Init:
        return Init((site,), self._who(site), self._part(site))

    def _arrive(self, site: int, ring: Ring) -> Arrive:
        model = self.model
        named = self.mbarriers.named(site)
        here = self._threads(site)
        at_once = {(threads & here).bit_count() for m, threads in named.items() if m in ring.stages}
        every = self._many(site)
        counted = model.instruction(site).role("count") is not None
        multicast = self._multicast(site)
        return Arrive(
            sites=(site,),
            who=self._who(site),
            roles=self._part(site),
            opcode=_opcode(model, site),
            threads=max(at_once) if every is not None else None,
            count=model.constant_of(site, "count") if counted else 1,
            scope=_scope(model, site),
            remote=multicast is not None or any(a.remote for a in self.mbarriers.addresses.of(site)),
            multicast=multicast,
        )

    def _multicast(self, site: int) -> Multicast | None:
        """The destination CTAs; None without multicast. Bit *r* of the mask is the CTA of rank *r* (9.7.9.25.4.1)."""
        model = self.model
        match = model.instruction(site).match
        modifiers = match.modifiers if match is not None else ()
        if ".multicast::cluster::all" in modifiers:
            size = model.function.directives.get(".reqnctapercluster")
            return Multicast("all CTAs", tuple(range(prod(size))) if size else None)
        value = model.value(site, "mask") if ".multicast::cluster" in modifiers else None
        if value is None:
            return None
        mask = model.values.constant_of(value)
        if mask is None:
            words = self.words.text(value)
            return Multicast(f"CTAs of mask {words}" if words else "unknown CTAs", None)
        ctas = tuple(rank for rank in range(_MAX_MULTICAST_CTAS) if mask >> rank & 1)
        ranks = ", ".join(map(str, ctas))
        return Multicast({0: "no CTA", 1: f"CTA {ranks}"}.get(len(ctas), f"CTAs {ranks}"), ctas)

    def _bytes(self, site: int, role: str) -> Bytes:
        return Bytes(
            sites=(site,),
            who=self._who(site),
            roles=self._part(site),
            opcode=_opcode(self.model, site),
            bytes=self._size(site, role),
            multicast=self._multicast(site),
        )

    def _size(self, site: int, role: str) -> int | None:
        """The number of bytes that are expected or copied; None if unknown."""
        match = self.model.instruction(site).match
        own = None if match is None else transferred(match)
        return self.model.constant_of(site, role) if own is None else own

    def _delivered(self, object_: Mbarrier) -> tuple[Delivered, ...] | None:
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
        numbers = [self._size(i, role) for i in sites]
        known = [n for n in numbers if n is not None]
        return sum(known) * threads.bit_count() if len(known) == len(numbers) else None

    def _wait(self, site: int) -> Wait:
        model = self.model
        parity = model.value(site, "parity")
        return Wait(
            sites=(site,),
            who=self._who(site),
            roles=self._part(site),
            parity=None if parity is None else self.words.text(parity),
            first=None if parity is None else self._first(site, parity),
            token=parity is None,
            scope=_scope(model, site),
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
            if node[0] in ("unknown", "undefined", "load", "collective"):
                return False
            if node[0] != "phi":
                work += values.parts(node)
                continue
            body = cfg.loops.get(node[1], frozenset())
            incoming = list(zip(cfg.sources[node[1]], values.arguments(v), strict=False))
            latches = [b for b, _ in incoming if b in body]
            initial = {x for b, x in incoming if b not in body}
            if here not in body or len(initial) != 1 or not all(cfg.dominates(here, b) for b in latches):
                return False
            work += initial
        return True

    # ------------------------------------------------------------ order in an iteration

    def _next(self, number: int) -> Iterator[Next]:
        """The rings that threads signal after they have waited on ring *number*."""
        ring = self.rings[number]
        found: list[Next] = []
        for wait in ring.uses.get("mbarrier-wait", ()):
            for signal, rings in self._signals.items():
                threads = self._threads(wait) & self._threads(signal)
                if not threads or wait not in self._before(signal):
                    continue
                for other in rings:
                    if other is not ring:
                        same = self._same_stage(wait, ring, signal, other)
                        found.append(
                            Next(
                                self._number[other],
                                (signal,),
                                self._who(signal),
                                self._part(signal),
                                same,
                            )
                        )
        yield from _merged(sorted(dict.fromkeys(found), key=lambda n: (n.ring, n.sites)))

    @cached_property
    def _signals(self) -> dict[int, list[Ring]]:
        """Site -> rings, of arrivals and copies that complete phases, in program order."""
        sites = [*self.mbarriers.arriving, *(i for ring in self.rings for i in self.mbarriers.copies(ring))]
        return {
            i: sorted(self.mbarriers.rings_at(i), key=self._number.__getitem__) for i in sorted(set(sites))
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
        cfg, threads = self.model.cfg, self._threads(signal)
        work = [(cfg.block_of[signal], signal, False)]
        visited: set[tuple[int, bool]] = set()
        while work:
            block, end, waited = work.pop()
            for site in reversed(self._exchanges.get(block, ())):
                if site >= end or not threads & self._threads(site):
                    continue
                if self.sites[site] == "wait":
                    waited = True
                    yield site
                elif waited:
                    break
            else:
                if waited and block in self._loops:
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
        for site in sorted({*self._signals, *(i for i, kind in self.sites.items() if kind == "wait")}):
            if site in self.sites:
                found.setdefault(block_of[site], []).append(site)
        return found

    def _same_stage(self, wait: int, ring: Ring, signal: int, other: Ring) -> bool | None:
        """Whether *wait* and *signal* refer to stages with the same index; None if unknown."""
        if len(ring.stages) != len(other.stages) or len(ring.stages) == 1:
            return None
        values = self.model.values
        a, b = self.model.value(wait, "mbarrier"), self.model.value(signal, "mbarrier")
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
        if node[:2] != ("op", "mask"):
            return values.representative(value)
        inner, rest = values.linear(node[2])
        mask = node[3]
        while mask & 1 == 0 and rest % 2 == 0 and all(f % 2 == 0 for _, f in inner):
            inner, rest = tuple((t, f // 2) for t, f in inner), rest // 2
            mask, factor = mask >> 1, factor * 2
        return values.total(inner, rest), mask, factor

    # ------------------------------------------------------------ barriers

    def _barriers(self) -> Iterator[Barrier]:
        model, found = self.model, dict[int | None, list[BarrierUse]]()
        for site in self.sites:
            match = model.instruction(site).match
            if match is not None and "id" in match.form.roles:
                found.setdefault(model.constant_of(site, "id"), []).append(self._barrier_use(site))
        for number, uses in sorted(found.items(), key=lambda item: (item[0] is None, item[0] or 0)):
            yield Barrier(number, tuple(_merged(uses)))

    def _cluster(self) -> Barrier | None:
        uses = [self._barrier_use(i) for i in self.sites if self._of_cluster(i)]
        return Barrier(None, tuple(_merged(uses))) if uses else None

    def _of_cluster(self, site: int) -> bool:
        return self.model.instruction(site).group == "cluster"

    def _barrier_use(self, site: int) -> BarrierUse:
        return BarrierUse(
            self.sites[site].removeprefix("barrier "),
            (site,),
            self._who(site),
            self._part(site),
            self._many(site),
            self.model.constant_of(site, "count"),
        )

    # ------------------------------------------------------------ shared memory

    @cached_property
    def _accesses(self) -> list[_Touch]:
        model, found = self.model, []
        for site, match in sorted(model.shared.sites.items()):
            if model.cfg.block_of[site] not in model.cfg.rank or not self._threads(site):
                continue
            for access in model.shared.accesses(site):
                touch = self._touch(access, match.form.proxy or "generic")
                # A generic address without a known base may not be in shared memory.
                if touch.base is not None or access.later or match.space.startswith(".shared"):
                    found.append(touch)
        return found

    def _touch(self, access: Access, proxy: str) -> _Touch:
        values = self.model.values
        terms, constant = values.linear(access.address)
        variable = next((t for t, factor in terms if factor == 1 and self._is_shared(t)), None)
        exact = variable is not None
        variable = self._variable(access.address) if variable is None else variable
        base = None if variable is None else self.words.text(variable, _MAX_NAME)
        if base is None or variable is None:
            return _Touch(access, proxy, None, None, None, False, access.address)
        size = self.model.size(variable)
        offset = values.total(tuple(t for t in terms if t[0] != variable), constant)
        bounds = self._bounds(offset, access) if exact else None
        if bounds is None:
            if size:
                return _Touch(access, proxy, base, 0, size, False)
            return _Touch(access, proxy, base, None, None, False, self._unbounded(offset))
        start, end = bounds
        known = self.model.constant_of(access.site, "bytes") if access.later else None
        end += known or access.size
        if size and (start < 0 or end > size):  # assumes that accesses stay in bounds of their variable
            start, end = max(start, 0), min(end, size)
        return _Touch(access, proxy, base, start, end, access.later and known is None and end != size)

    def _bounds(self, offset: int, access: Access) -> tuple[int, int] | None:
        """The least and greatest offset of the threads of an access; None if unbounded."""
        model = self.model
        common, mine, constant = model.shared.split(offset)
        low = high = constant
        if model.values.constant_of(mine) is None:
            planes = model.values.bit_slices(mine)
            if planes is None or model.function.most_threads is None:
                return model.values.interval(offset)
            threads = self._threads(access.site)
            low, high = (
                low + T.extreme(planes, threads, least=True),
                high + T.extreme(planes, threads, least=False),
            )
        else:
            number = model.values.constant_of(mine) or 0
            low, high = low + number, high + number
        interval = model.values.interval(common)
        return None if interval is None else (low + interval[0], high + interval[1])

    def _unbounded(self, offset: int) -> int:
        """The terms of an offset that have no known interval; the whole offset if all have one."""
        values = self.model.values
        terms = tuple(t for t in values.linear(offset)[0] if values.interval(t[0]) is None)
        return values.total(terms, 0) if terms else offset

    def _variable(self, address: int) -> int | None:
        """The shared variable from which an address is computed; None if there is not exactly one."""
        values = self.model.values
        parts = values.subexpressions(
            address, until=lambda v: values.node(v)[0] == "load" or self._is_shared(v)
        )
        followed = list(islice(parts, _MAX_ADDRESS_VALUES + 1))
        found = [v for v in followed if self._is_shared(v)]
        return found[0] if len(found) == 1 and len(followed) <= _MAX_ADDRESS_VALUES else None

    def _is_shared(self, value: int) -> bool:
        """Whether *value* is the address of a shared variable, possibly aligned."""
        values = self.model.values
        node = values.node(value)
        if node[:2] == ("op", "mask"):
            return any(self._is_shared(t) for t, factor in values.linear(node[2])[0] if factor == 1)
        return self.model.space(value).startswith(".shared")

    @cached_property
    def _areas(self) -> list[tuple[str | None, int | None, int | None]]:
        """(base, start, end) of the regions: overlapping ranges are merged.

        A read of unknown size is added to the range before it, which is the copy that fills it.
        """
        known: dict[str, list[tuple[int, int, bool]]] = {}
        unbounded: set[str | None] = set()
        for touch in self._accesses:
            if touch.base is None or touch.start is None or touch.end is None:
                unbounded.add(touch.base)
            else:
                # A matrix has an address but no known end, so a read of one starts no range.
                starts = touch.access.writes or not touch.more
                known.setdefault(touch.base, []).append((touch.start, touch.end, starts))
        found: list[tuple[str | None, int | None, int | None]] = []
        for base in sorted(known):
            runs: list[tuple[int, int, bool]] = []
            for start, end, starts in sorted(known[base]):
                last = runs[-1] if runs else None
                if last is not None and (start < last[1] or not starts):
                    runs[-1] = (last[0], max(last[1], end), last[2] or starts)
                else:
                    runs.append((start, end, starts))
            found += [(base, start, end) for start, end, _ in runs]
        return found + [(base, None, None) for base in sorted(unbounded, key=lambda b: (b is None, b or ""))]

    @cached_property
    def _area(self) -> dict[tuple[str | None, int | None], int]:
        """(base, start) of an access -> the index of its area."""
        areas: dict[str | None, list[tuple[int, int, int]]] = {}
        found: dict[tuple[str | None, int | None], int] = {}
        for n, (base, start, end) in enumerate(self._areas):
            if start is None or end is None:
                found[base, None] = n
            else:
                areas.setdefault(base, []).append((start, end, n))
        for touch in self._accesses:
            at = touch.start
            if at is not None:
                inside = (n for low, high, n in areas[touch.base] if low <= at < high)
                found[touch.base, at] = next(inside)
        return found

    @cached_property
    def _touched(self) -> dict[int, list[int]]:
        """Site -> the indices of the regions that it accesses."""
        found: dict[int, list[int]] = {}
        for touch in self._accesses:
            found.setdefault(touch.access.site, []).append(self._area[touch.base, touch.start])
        return found

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        uses: list[list[RegionUse]] = [[] for _ in self._areas]
        more = [False for _ in self._areas]
        for touch in self._accesses:
            site, area = touch.access.site, self._area[touch.base, touch.start]
            verb = "write" if touch.access.writes else "read"
            part = self._part(site)
            uses[area].append(RegionUse(verb, touch.proxy, self._who(site), part, (site,)))
            more[area] |= touch.more
        return tuple(
            Region(
                self.objects.short(base or ""),
                base,
                start,
                end,
                more[n],
                self._with_orderings(
                    _merged(sorted(uses[n], key=lambda use: (use.verb != "write", use.sites)))
                ),
            )
            for n, (base, start, end) in enumerate(self._areas)
        )

    def _with_orderings(self, uses: list[RegionUse]) -> tuple[RegionUse, ...]:
        """The uses of one region, each with its order after the others."""

        def orders(use: RegionUse) -> Iterator[UseOrdering]:
            for n, other in enumerate(uses):
                if other.verb != use.verb:
                    ordering = region_ordering(self.model, other.sites, use.sites, again=use.verb == "write")
                    if ordering is not None:
                        yield UseOrdering(n, *ordering)

        return tuple(replace(use, orderings=tuple(orders(use))) for use in uses)

    # ------------------------------------------------------------ events

    def _events(self) -> Iterator[Event]:
        run: list[Event] = []
        for site, kind in self.sites.items():
            event = self._event(site, kind)
            if run and (run[0].kind, run[0].who, run[0].loops) != (event.kind, event.who, event.loops):
                yield from _merged(run)
                run = []
            run.append(event)
        yield from _merged(run)

    def _event(self, site: int, kind: str) -> Event:
        model = self.model
        parity = model.value(site, "parity")
        role = next((r for r in ("tx", "bytes") if model.instruction(site).role(r) is not None), None)
        rings = self.mbarriers.rings_at(site)
        counted = model.instruction(site).role("count") is not None
        return Event(
            kind="cluster " + kind.removeprefix("barrier ") if self._of_cluster(site) else kind,
            sites=(site,),
            who=self._who(site),
            roles=self._part(site),
            loops=self._around(site),
            opcode=_opcode(model, site),
            rings=tuple(sorted(self._number[ring] for ring in rings)),
            regions=tuple(sorted(set(self._touched.get(site, ())))) if kind in ("copy", "mma") else (),
            count=model.constant_of(site, "count") if counted else 1 if kind == "arrive" else None,
            bytes=self._size(site, role or "bytes"),
            parity=None if parity is None else self.words.text(parity),
            group=model.instruction(site).group if kind in ("commit", "wait group") else "",
            depth=model.constant_of(site, "depth"),
            sources=kind == "wait group" and _completion(model, site) == "read",
            barrier=model.constant_of(site, "id"),
            scope=_scope(model, site),
            multicast=self._multicast(site),
        )

    def _around(self, site: int) -> tuple[int, ...]:
        cfg = self.model.cfg
        inside = sorted(
            (-len(body), head) for head, body in self._loops.items() if cfg.block_of[site] in body
        )
        return tuple(cfg.blocks[head].start for _, head in inside)

    @cached_property
    def _loops(self) -> dict[int, frozenset[int]]:
        """The loops, by header, except those that only spin on one phase."""
        cfg, found = self.model.cfg, dict[int, frozenset[int]]()
        for head, body in cfg.loops.items():
            inside = [i for i in self.sites if cfg.block_of[i] in body]
            if any(self.sites[i] != "wait" or self._moves(i, body) for i in inside):
                found[head] = body
        return found

    def _moves(self, wait: int, body: frozenset[int]) -> bool:
        """Whether a loop changes the mbarrier, parity or state of a wait in it."""
        cfg = self.model.cfg
        for role in ("mbarrier", "parity", "state"):
            value = self.model.value(wait, role)
            for kind, at in self.model.values.varying_at(value) if value is not None else ():
                if (at if kind == "block" else cfg.block_of[at]) in body:
                    return True
        return False

    # ------------------------------------------------------------ unresolved

    def _unresolved(self, mbarriers: Iterable[MbarrierRing]) -> Iterator[Unresolved]:
        """Each reason once, those that concern the whole kernel first."""
        found: dict[str, set[int]] = {}
        for site, why in (
            *self._not_analysed(),
            *self._unknown_operands(),
            *self._unknown_phases(mbarriers),
            *self._unknown_addresses(),
        ):
            found.setdefault(why, set()).update([site] if site >= 0 else ())
        unresolved = [Unresolved(tuple(sorted(sites)), why) for why, sites in found.items()]
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
        for i in self.mbarriers.unresolved:
            yield i, self._unnamed(i)
        for site, kind in self.sites.items():
            of = "threads of the barrier" if kind.startswith("barrier") else "arrivals"
            for role, what in _OPERANDS.items():
                value = self.model.value(site, role)
                if value is not None and not self._shown(role, value):
                    yield site, f"{what.format(of)} depends on {origin(self.model, value)}"

    def _shown(self, role: str, value: int) -> bool:
        """Whether an operand is shown, as a constant or, for some roles, as an expression."""
        known = self.model.values.constant_of(value) is not None
        return known or (role in _EXPRESSIONS and self.words.text(value) is not None)

    def _unknown_phases(self, mbarriers: Iterable[MbarrierRing]) -> Iterator[tuple[int, str]]:
        for ring, made in zip(mbarriers, self.rings, strict=True):
            first = made.stages[0]
            if ring.count is None and all(None not in stage.counts for stage in made.stages):
                yield from ((i, "these initialise it with different arrival counts") for i in made.inits)
            if ring.delivered is None:
                for i, why in self.mbarriers.unknown_bytes(first):
                    yield i, f"the bytes of a phase are unknown: {why}"
            if ring.arriving is None:
                for i, why in self._unknown_arrivals(ring, first):
                    yield i, f"the arrivals of a phase are unknown: {why}"

    def _unknown_arrivals(self, ring: MbarrierRing, first: Mbarrier) -> Iterator[tuple[int, str]]:
        reasons = list(self.mbarriers.unknown_arrivals(first))
        if reasons:
            yield from reasons
        elif self.model.function.most_threads is None:
            yield -1, "the launch determines the CTA size"
        elif not self.mbarriers.has_unseen_arrivals and all(a.count is not None for a in ring.arrives):
            yield from (
                (i, "it is unknown which of these are in the same phase")
                for a in ring.arrives
                for i in a.sites
            )

    def _unknown_addresses(self) -> Iterator[tuple[int, str]]:
        for touch in self._accesses:
            if touch.hidden is not None:
                base = touch.base
                where = (
                    "an address in shared memory"
                    if base is None
                    else f"the offset from {self.objects.short(base)}"
                )
                yield touch.access.site, f"{where} depends on {origin(self.model, touch.hidden)}"

    def _unnamed(self, site: int) -> str:
        """Why the mbarrier to which an instruction refers is unknown."""
        value = self.model.value(site, "mbarrier")
        if value is not None and self.mbarriers.addresses.of(site) and self._variable(value) is not None:
            text = self.words.text(value)
            where = f" at {text}" if text else " at this address"
            if self.sites.get(site) == "init":
                return "the number of mbarriers that this initialises is unknown"
            return f"no mbarrier.init for the mbarrier{where}"
        return f"the address of the mbarrier comes from {origin(self.model, value)}"


def _warps(threads: int) -> Iterator[int]:
    return (w for w in range((threads.bit_length() + 31) // 32) if threads >> 32 * w & 0xFFFFFFFF)


def _opcode(model: KernelModel, site: int) -> str:
    """The name of the instruction's form in the ISA table; without a form, its own name."""
    match = model.instruction(site).match
    return match.form.name if match is not None else model.instruction(site).name


def _completion(model: KernelModel, site: int) -> str:
    match = model.instruction(site).match
    return match.form.completion if match is not None else ""


def _scope(model: KernelModel, site: int) -> str:
    """The scope of an operation's release or acquire; ``cta`` by default (9.7.13.15.13), or ``relaxed``."""
    match = model.instruction(site).match
    modifiers = match.modifiers if match is not None else ()
    if ".relaxed" in modifiers:
        return "relaxed"
    return next((m[1:] for m in (".cluster", ".gpu", ".sys") if m in modifiers), "cta")


def _merged(items: Iterable[E]) -> list[E]:
    """*items* with those merged that differ only in their sites, in the order of their first occurrence."""
    found: dict[Hashable, E] = {}
    for item in items:
        key = replace(item, sites=())  # type: ignore[type-var]
        old = found.get(key)
        sites = (*(old.sites if old is not None else ()), *item.sites)  # type: ignore[attr-defined]
        found[key] = replace(item, sites=tuple(dict.fromkeys(sites)))  # type: ignore[type-var]
    return list(found.values())
