"""Which threads wait for what, which operations would complete it, and where the threads of these are.

The only premise is that the kernel hangs: the threads stay where they are. Then an operation that its threads reach
only after a wait is not executed before that wait completes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property, reduce
from operator import or_

from tclint._dataclass import dataclass
from tclint.analyses.mbarriers import Mbarriers, Ring
from tclint.analyses.role_paths import calls, dominated_by, whole_program
from tclint.analyses.setmaxnreg import raises
from tclint.hang.skipped import SkippedArrivals
from tclint.hang.stops import CLUSTER, CTA_BARRIER, GRID, LANES, MBARRIER, REGISTERS, RUNNING, Stop
from tclint.inspect.protocol.sites import Sites
from tclint.isa.callees import SYSTEM_CALLS
from tclint.isa.effects import Barrier, Resource
from tclint.values import thread_masks as T

__all__ = ["Completer", "CompletionStatus", "Object", "Share", "Waiter", "Waits"]

_BARRIERS = 16
"""How many CTA barriers there are (9.7.13.1)."""


class CompletionStatus(Enum):
    """Whether threads can still execute an operation that would complete a wait."""

    ARRIVED = "arrived"
    """They have executed it: they are at the barrier, or at the wait that follows it on every path."""
    BLOCKED = "blocked"
    """Only after another wait, at which they are."""
    OWN = "own"
    """Only after the wait that it would complete."""
    RUNNING = "running"
    """They are before it at an instruction that is not a wait: they may still execute it."""
    PASSED = "passed"
    """They are at an instruction from which no path leads to it."""
    ABSENT = "absent"
    """They are at none of the positions: they have exited, or the list is incomplete."""


@dataclass(frozen=True, slots=True)
class Object:
    """What threads wait for."""

    kind: str
    """As :attr:`Stop.kind`."""
    name: str
    ring: Ring | None = None
    """The mbarrier, or the ring of which it is a stage; None if it is unresolved or something else."""
    number: int | None = None
    """The number of a CTA barrier; None if it is unknown or something else."""

    @property
    def known(self) -> bool:
        """Whether it is known which object it is."""
        return {MBARRIER: self.ring is not None, CTA_BARRIER: self.number is not None}.get(
            self.kind, self.kind != GRID
        )


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the threads that may execute an operation, and where they are."""

    status: CompletionStatus
    threads: int
    at: int = -1
    """The index of their :class:`Stop`; -1: none."""


@dataclass(frozen=True, slots=True)
class Completer:
    """An instruction that would complete a wait, or help to."""

    site: int
    deed: str
    """``arrive``, ``commit``, ``copy``, ``complete``, ``sync`` or ``release``."""
    certain: bool
    """Whether it is known to be on the object."""
    shares: tuple[Share, ...]
    skipping: tuple[int, ...] = ()
    """The instructions that decide on data whether a needed arrival is executed."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """Threads at a wait, with one object that they wait for."""

    stop: int
    object: Object
    threads: int
    operations: tuple[Completer, ...]
    short: bool = False
    """Whether a CTA barrier counts more threads than use it, so that it never completes."""
    placed: bool = True
    """Whether the threads are at this wait; False: the positions leave several, not all of which are short."""
    next: tuple[int, ...] = ()
    """The indices of the waiters after whose waits an operation would follow."""

    @property
    def shares(self) -> Iterator[Share]:
        for operation in self.operations:
            yield from operation.shares

    @property
    def users(self) -> int:
        """All threads of the warps that may execute an operation: a CTA barrier counts whole warps (9.7.13.1)."""
        return T.whole(reduce(or_, (share.threads for share in self.shares), 0), 32)

    @property
    def open(self) -> bool:
        """Whether an operation may still be executed, or it is unknown which operations there are, or which wait it is."""
        unknown = not self.object.known or any(not operation.certain for operation in self.operations)
        running = any(share.status is CompletionStatus.RUNNING for share in self.shares)
        return not self.placed or (not self.short and (unknown or running))


class Waits:
    """The waits at which the threads of one kernel are."""

    def __init__(self, sites: Sites, stops: Sequence[Stop]) -> None:
        self.sites, self.model = sites, sites.model
        self.stops = stops
        self._mbarriers = sites.model.fact(Mbarriers)
        self.skipped = SkippedArrivals(sites)

    @cached_property
    def waiters(self) -> list[Waiter]:
        """The waiters, each with the operations that would complete its wait."""
        found = [
            self._counted(
                Waiter(
                    index, object_, threads, self._skipped(object_, self._operations(index, object_, threads))
                )
            )
            for index, stop in enumerate(self.stops)
            for object_, threads in self._objects(stop)
        ]
        short = {self.stops[waiter.stop].site for waiter in found if waiter.short}
        return [
            replace(waiter, placed=self._placed(waiter, short), next=self._next(n, found))
            for n, waiter in enumerate(found)
        ]

    def _skipped(self, object_: Object, operations: Iterable[Completer]) -> tuple[Completer, ...]:
        """*operations*, with what skips those that each phase of an mbarrier needs."""
        every = tuple(operations)
        if object_.ring is None or not self.skipped.needs_all(object_.ring):
            return every
        return tuple(
            replace(operation, skipping=self._skipping(operation, every))
            if operation.deed == "arrive"
            else operation
            for operation in every
        )

    def _skipping(self, operation: Completer, every: Collection[Completer]) -> tuple[int, ...]:
        """What skips an arrival of threads that are blocked at a wait before it."""
        found: list[int] = []
        for share in operation.shares:
            if share.status is not CompletionStatus.BLOCKED:
                continue
            alike = [
                each.site
                for each in every
                if each.deed == "arrive"
                and any(s.at == share.at and s.threads & share.threads for s in each.shares)
            ]
            for ring in self._mbarriers.rings_at(self.stops[share.at].site):
                found += self.skipped.branches(operation.site, alike, share.threads, ring)
        return tuple(sorted(dict.fromkeys(found)))

    def _placed(self, waiter: Waiter, short: Collection[int]) -> bool:
        """Whether the threads are at the wait, or at one of several that are all *short*."""
        others = self.stops[waiter.stop].others
        return not others or (waiter.short and others <= set(short))

    def _counted(self, waiter: Waiter) -> Waiter:
        """*waiter*, short if each operation on its CTA barrier counts more threads than use it."""
        if waiter.object.number is None or not self.closed:
            return waiter
        counts = [self.count(operation.site) for operation in waiter.operations]
        users = waiter.users.bit_count()
        return replace(waiter, short=all(count is not None and count > users for count in counts))

    @cached_property
    def closed(self) -> bool:
        """Whether all that the kernel executes is here: a function that it calls may use a barrier as well."""
        called = {self.model.instruction(i).callee for i in calls(self.model)}
        return whole_program(self.model) and called <= SYSTEM_CALLS

    def count(self, site: int) -> int | None:
        """The threads that a CTA barrier counts; None if unknown."""
        if self.model.instruction(site).role("count") is None:
            return self.model.function.threads
        return self.model.constant_of(site, "count")

    @staticmethod
    def _next(number: int, every: Sequence[Waiter]) -> tuple[int, ...]:
        """The waiters that a waiter waits for, those that may have skipped an arrival first; itself only if no other one."""
        waiter = every[number]
        ordered = sorted(waiter.operations, key=lambda operation: not operation.skipping)
        blocking = [
            s for operation in ordered for s in operation.shares if s.status is CompletionStatus.BLOCKED
        ]
        own = any(share.status is CompletionStatus.OWN for share in waiter.shares)
        after = dict.fromkeys(
            n
            for share in blocking
            for n, other in enumerate(every)
            if other.stop == share.at and other.threads & share.threads
        )
        return tuple(after) if after or not own else (number,)

    # ------------------------------------------------------------ objects

    def _objects(self, stop: Stop) -> Iterator[tuple[Object, int]]:
        """What the threads of a stop wait for, each with those of them that do."""
        if stop.kind == RUNNING:
            return
        if stop.kind == CTA_BARRIER:
            for number, threads in self._numbers(stop.site):
                if here := threads & stop.threads:
                    yield self._barrier(number), here
            return
        if stop.kind == MBARRIER:
            rings = sorted(self._mbarriers.rings_at(stop.site), key=lambda ring: min(ring.inits))
            for ring in rings:
                yield Object(MBARRIER, f"mbarrier {self.sites.objects.ring(ring)}", ring), stop.threads
            if not rings:
                yield Object(MBARRIER, "an mbarrier whose address is unresolved"), stop.threads
            return
        names = {
            CLUSTER: "the cluster barrier",
            LANES: "the other lanes of the warp",
            REGISTERS: "registers of the CTA",
            GRID: "the grids before this one",
        }
        yield Object(stop.kind, names[stop.kind]), stop.threads

    @staticmethod
    def _barrier(number: int | None) -> Object:
        name = "a barrier of unknown number" if number is None else f"barrier {number}"
        return Object(CTA_BARRIER, name, number=number)

    def _numbers(self, site: int) -> list[tuple[int | None, int]]:
        """The numbers of the CTA barrier at *site*, each with the threads that use it; None if iterations differ."""
        threads, number = self.sites.threads(site), self.model.constant_of(site, "id")
        if number is not None:
            return [(number, threads)]
        value = self.model.value(site, "id")
        planes = None if value is None else self.model.values.bit_slices(value)
        return [(None, threads)] if planes is None else list(T.numbers(planes, threads))

    def _counted_through(self, site: int) -> range:
        """The numbers of the CTA barrier at *site* that a loop counts through; empty if there is no such loop."""
        values, value = self.model.values, self.model.value(site, "id")
        terms = () if value is None else values.linear(value)[0]
        if value is None or len(terms) != 1 or terms[0][1] != 1 or values.induction(terms[0][0]) is None:
            return range(0)
        low, high = values.interval(value) or (0, _BARRIERS)
        return range(low, high + 1) if 0 <= low <= high < _BARRIERS else range(0)

    # ------------------------------------------------------------ operations

    def _operations(self, waiting: int, object_: Object, threads: int) -> Iterator[Completer]:
        """The operations that would complete the wait for *object_* by *threads*, in program order."""
        found: list[tuple[int, str, bool, int]] = []
        if object_.kind == MBARRIER:
            found = list(self._on_mbarrier(object_))
        elif object_.kind == CTA_BARRIER:
            found = list(self._on_barrier(object_))
        elif object_.kind == CLUSTER:
            arrives = self.model.arrives(Barrier.CLUSTER)
            found = [(i, "arrive", True, self.sites.threads(i)) for i in arrives]
        elif object_.kind == REGISTERS:
            released = [
                i for i in self.model.sites(Resource.REGISTERS) if not raises(self.model.instruction(i))
            ]
            found = [(i, "release", True, self.sites.threads(i)) for i in released]
        elif object_.kind == LANES:
            site = self.stops[waiting].site
            found = [(site, "sync", True, self.sites.threads(site) & T.whole(threads, 32))]
        for site, deed, certain, who in sorted(found):
            shares = tuple(self._shares(waiting, object_, site, deed, who, threads))
            yield Completer(site, deed, certain, shares)

    def _on_mbarrier(self, object_: Object) -> Iterator[tuple[int, str, bool, int]]:
        mbarriers = self._mbarriers
        completing = mbarriers.where(lambda effects: effects.transacts or effects.completes)
        for site in {*mbarriers.arriving, *completing}:
            rings = mbarriers.rings_at(site)
            if object_.ring is not None and rings and object_.ring not in rings:
                continue
            effects = mbarriers.sites[site]
            if effects.transacts:
                deed = "copy"
            elif effects.completes:
                deed = "complete"
            else:
                deed = "arrive" if effects.commits is None else "commit"
            certain = rings == {object_.ring}
            yield site, deed, certain or len(rings) > 1, self.sites.threads(site)

    def _on_barrier(self, object_: Object) -> Iterator[tuple[int, str, bool, int]]:
        for site in self.model.arrives(Barrier.CTA):
            waits = self.model.instruction(site).effects.awaits is Barrier.CTA
            deed = "sync" if waits else "arrive"
            for number, threads in self._numbers(site):
                counted = self._counted_through(site) if number is None else range(0)
                if number == object_.number or object_.number is None or (number is None and not counted):
                    yield site, deed, number is not None, threads
                elif object_.number in counted:  # threads at a sync may be at it for another number
                    yield site, deed, not waits, threads

    # ------------------------------------------------------------ where its threads are

    def _shares(
        self, waiting: int, object_: Object, site: int, deed: str, threads: int, waiters: int
    ) -> Iterator[Share]:
        """Where the *threads* of an operation are, of which *waiters* wait for the object."""
        ctas, local = self.stops[waiting].ctas, not self._leaves(object_, site)
        seen = 0
        for index, stop in enumerate(self.stops):
            apart = local and ctas and stop.ctas and ctas.isdisjoint(stop.ctas)
            here = threads & stop.threads
            if apart or not here:
                continue
            seen |= here
            status = self._status(object_, site, deed, index)
            if status is CompletionStatus.BLOCKED and index == waiting:
                if own := here & waiters:
                    yield Share(CompletionStatus.OWN, own, index)
                here &= ~waiters
            if here:
                yield Share(status, here, index)
        if absent := threads & ~seen:
            yield Share(CompletionStatus.ABSENT, absent)

    def _leaves(self, object_: Object, site: int) -> bool:
        """Whether threads of other CTAs may execute the operation on the object."""
        if object_.kind != MBARRIER:
            return object_.kind == CLUSTER
        remote = any(address.remote for address in self._mbarriers.addresses.of(site))
        match = self.model.instruction(site).match
        return remote or (match is not None and match.multicast)

    def _status(self, object_: Object, site: int, deed: str, index: int) -> CompletionStatus:
        """Whether threads that are at the stop *index* can still execute the operation at *site*."""
        model, here = self.model, self.stops[index]
        if deed == "sync" and here.site == site:
            return CompletionStatus.ARRIVED
        if object_.kind == here.kind == CLUSTER and self.arrived(site, here.site):
            return CompletionStatus.ARRIVED
        if not model.may_follow(here.site, site):
            return CompletionStatus.PASSED
        return CompletionStatus.RUNNING if here.kind == RUNNING else CompletionStatus.BLOCKED

    def arrived(self, arrive: int, wait: int) -> bool:
        """Whether all threads at a wait for the cluster barrier have executed *arrive* for it."""
        model = self.model
        others = [i for i in model.awaits(Barrier.CLUSTER) if i != wait]
        return (
            model.instruction(arrive).guard < 0
            and dominated_by(model, arrive, wait)
            and model.reaches(arrive, wait, others)
        )
