"""Accesses to shared memory that no proxy fence orders with the async proxy (PTX ISA 8.6, 9.7.13.4).

The loads and stores of a thread use the *generic proxy*. A tensor core reads its matrices, and a bulk copy its source,
through the *async proxy*, to which a store is visible only after a ``fence.proxy.async``. Barriers order threads, not
proxies.

:class:`Unfenced` is a may analysis of the generic accesses with no fence since, one fact for each access class. A fact
also records what else has followed the access, since a wider memory fence (:data:`WIDE`) or a wait (:data:`WAITED`)
does not order proxies but makes a fault less likely. A call ends all facts, because a callee may execute the fence, so
faults after a call are missed. :class:`Overwritten` answers whether a bulk copy may have replaced the bytes in the
meantime.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tclint.analyses.access_classes import AccessClasses
from tclint.analyses.ages import Numbering
from tclint.analyses.bulk_rings import Rooms, filled_extent
from tclint.analyses.cp_async import CopyGroups
from tclint.analyses.extents import Extent, Extents
from tclint.analyses.fact_set import FactSet
from tclint.analyses.groups import GroupsState as GroupState
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.mbarriers import Mbarriers, Ring, largest_expected
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import dominated_by
from tclint.ir.nodes import Instruction
from tclint.isa.accesses import Proxy
from tclint.isa.effects import BULK, GENERIC_COPIES, Barrier, Fence, Order, Resource
from tclint.values.shared_memory import SharedAccess

__all__ = [
    "COMPLETED",
    "WAITED",
    "WIDE",
    "CompletedCopies",
    "Overwritten",
    "ProxyState",
    "Unfenced",
    "UnfencedReads",
    "fences",
    "is_wide",
    "through_async",
]

WIDE = 1
"""A memory fence of a wider scope than the CTA has followed: it orders no proxies, but was never seen to fail."""
WAITED = 2
"""A wait for an mbarrier has followed: a bulk copy may have replaced the bytes."""
COMPLETED = -4
"""The ``cp.async`` is complete for the thread that issued it."""

ProxyState = frozenset[tuple[int, int]]
"""``(access, since)``: the first access of a class, and what has followed it, a bit set of the above."""


def fences(instruction: Instruction, space: str = ".shared") -> bool:
    """Whether *instruction* orders the generic and the async proxy for accesses to *space*."""
    match = instruction.match
    return (
        match is not None
        and match.form.effects.fence is Fence.PROXY
        and match.form.proxy == "async"
        and (not match.space or match.space.startswith(space))
    )


def is_wide(instruction: Instruction) -> bool:
    """Whether *instruction* is a memory fence, or an arrival that orders memory, of a wider scope than the CTA."""
    effects = instruction.effects
    orders = effects.fence is Fence.MEMORY or effects.arrives in (Barrier.MBARRIER, Barrier.CLUSTER)
    return orders and instruction.wide and instruction.order is not Order.RELAXED


def through_async(model: KernelModel, *, writes: bool) -> frozenset[int]:
    """The instructions that read, or with *writes* write, shared memory through the async proxy."""
    shared = model.shared
    return frozenset(
        i
        for i, match in shared.sites.items()
        if any(a.proxy is Proxy.ASYNC and a.writes is writes and shared.within(a) for a in match.accesses)
    )


class Unfenced(FactSet[tuple[int, int]]):
    """Stores, ``stmatrix`` and atomic operations with no proxy fence since, one fact for each access class."""

    writes = True

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        shared = model.shared
        sites = shared.writers if self.writes else list(shared.sites)
        self.sites = frozenset(i for i in sites if any(map(self.begins, shared.accesses(i))))
        rank, block_of = model.cfg.rank, model.cfg.block_of
        reached = (i for i in self.sites if block_of[i] in rank)
        self.classes = AccessClasses(model, self._changing).partition(reached)
        """First access of a class -> all accesses of the class."""

    def begins(self, access: SharedAccess) -> bool:
        """Whether the analysis tracks *access*.

        The address that ``tcgen05.alloc`` writes is not tracked: it is meant for loads, and by the time an asynchronous
        operation reads these bytes, another store has written them.
        """
        allocates = self.model.instruction(access.site).effects.resource is Resource.TMEM_ALLOC
        return access.writes == self.writes and not access.later and not allocates

    @cached_property
    def _starting(self) -> frozenset[int]:
        return frozenset(id(self.model.instruction(i)) for i in self.classes)

    @cached_property
    def _changing(self) -> frozenset[int]:
        """The instructions that change the facts of earlier accesses."""
        function = self.model.function
        changing = (u for u in function.uses if u.sites and self._changes(function.instructions[u.sites[0]]))
        return frozenset(i for use in changing for i in use.sites)

    @staticmethod
    def _changes(instruction: Instruction) -> bool:
        return (
            instruction.effects.awaits is Barrier.MBARRIER
            or instruction.flow == "call"
            or fences(instruction)
            or is_wide(instruction)
        )

    def affecting_sites(self) -> Iterable[int]:
        return self._changing.union(self.classes)

    def affecting(self, instruction: Instruction) -> bool:
        return id(instruction) in self._starting or self._changes(instruction)

    def transfer(self, state: ProxyState, at: int, instruction: Instruction) -> ProxyState:
        if at in self.classes:
            return state | {(at, 0)}
        if not state:
            return state
        if instruction.flow == "call":
            self.model.drop_facts(self, at)
        if instruction.flow == "call" or fences(instruction):
            return frozenset()
        mark = WAITED if instruction.effects.awaits is Barrier.MBARRIER else WIDE
        return frozenset((site, since | mark) for site, since in state)

    @cached_property
    def numbering(self) -> Numbering:
        return Numbering(self.sites)

    def pending(self, state: ProxyState) -> int:
        """The bit set of the accesses in *state*."""
        return self.numbering.bits(site for site, _ in state)

    def stays_pending(self, state: ProxyState, site: int) -> bool:
        """Whether no fence has followed the access at *site*: what else follows ends nothing."""
        return any(s == site for s, _ in state)

    def begun(self, site: int) -> int:
        """What has followed an access at first."""
        return 0

    def follow(self, site: int, since: int, at: int, instruction: Instruction) -> int | None:
        """What has followed the access at *site*, after one more instruction; None after a fence or a call."""
        if at in self.classes:
            return since
        state = self.transfer(frozenset(((site, since),)), at, instruction)
        return next((after for _, after in state), None)


class UnfencedReads(Unfenced):
    """Loads and ``ldmatrix`` that no proxy fence has followed yet."""

    writes = False


class UnfencedWaits(Unfenced):
    """Acquire points with known signals that no proxy fence has followed yet."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        order = model.fact(HappensBefore)
        self.sites = order.points.acquire_points(OrderScope.WARPS) - order.unknown
        self.classes = {site: [site] for site in self.sites}


class CompletedCopies(CopyGroups):
    """``cp.async`` operations, in flight or complete, whose completion no proxy fence has followed yet.

    They write through the generic proxy (9.7.9.25.2), and a fence orders only what has been written before it.
    """

    def affecting(self, instruction: Instruction) -> bool:
        return super().affecting(instruction) or instruction.flow == "call" or fences(instruction)

    def aged(self, age: int, at: int, instruction: Instruction) -> int | None:
        if instruction.flow == "call":
            return None
        if fences(instruction):
            return None if age == COMPLETED else age
        return (
            COMPLETED if age == COMPLETED or (after := super().aged(age, at, instruction)) is None else after
        )

    def pending(self, state: GroupState) -> int:
        """The bit set of the copies in *state* that are complete."""
        return state[0].having(COMPLETED)

    def transfer(self, state: GroupState, at: int, instruction: Instruction) -> GroupState:
        if instruction.flow == "call" and state[0]:
            self.model.drop_facts(self, at)
        return super().transfer(state, at, instruction)


class Overwritten:
    """The bytes of shared memory that copies may write."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.copies = frozenset(i for engine in GENERIC_COPIES for i in model.begins(engine))
        self._known: dict[int, list[SharedAccess]] = {}
        self._filled: dict[SharedAccess, Extent | None] = {}

    @cached_property
    def _loads(self) -> list[SharedAccess]:
        """The writes of operations through the async proxy."""
        shared = self.model.shared
        return [
            access
            for site in shared.writers
            for access in shared.accesses(site)
            if access.writes and access.proxy is Proxy.ASYNC
        ]

    @cached_property
    def _max_expected(self) -> int | None:
        """The maximum bytes that one load may write, as many as some phase expects; None if that is unknown."""
        return largest_expected(self.model)

    def may(self, address: int) -> bool:
        """Whether a bulk copy may write the bytes at *address*."""
        return bool(self._writing(address))

    def filled(self, read: SharedAccess) -> bool:
        """Whether *read* may read what a bulk copy has written, of the same threads or of others."""
        model, context_of = self.model, self.model.views.context_of
        threads = context_of(read.site).threads
        for load in self._writing(read.address):
            copying = context_of(load.site).threads
            if model.reaches(load.site, read.site) or (copying and not copying & threads):
                return True
        return False

    def between(self, sites: Iterable[int], address: int) -> bool:
        """Whether a copy of a thread for itself at one of *sites* may write the bytes at *address*, so that these are read instead."""
        shared = self.model.shared
        return any(
            access.writes and self._may(access, address)
            for site in self.copies.intersection(sites)
            for access in shared.accesses(site)
        )

    def before(self, site: int, use: SharedAccess) -> bool:
        """Whether bulk loads that may write the bytes of *use* are complete before *site*, and the next follow *use*.

        That is the case where one role waits for the loads and modifies their bytes for another role, which does not
        wait for the loads. If *use* is a bulk copy out of a stage, it is enough that the first role may observe a
        thread that has waited for them: it takes a stage that is free.
        """
        model = self.model
        mbarriers, extents = model.fact(Mbarriers), model.fact(Extents)
        used = extents.of(use)
        waits = {i: mbarriers.rings_at(i) for i in model.awaits(Barrier.MBARRIER)}
        loads: dict[Ring, list[int]] = {}
        for load in self._writing(use.address):
            rings = mbarriers.rings_at(load.site)
            for ring in rings:
                filled = filled_extent(model, ring, load)
                if used is None or filled is None or extents.may_overlap(used, filled):
                    loads.setdefault(ring, []).append(load.site)
            if not rings:
                return False
        waited = {ring for i, rings in waits.items() if dominated_by(model, i, site) for ring in rings}
        waited_by_user = {
            ring for i, rings in waits.items() if model.may_follow(i, use.site) for ring in rings
        }
        if model.instruction(use.site).group == BULK:
            observers = {ring: model.fact(HappensBefore).completed(sites) for ring, sites in loads.items()}
            waited |= {
                ring for ring, at in observers.items() if any(dominated_by(model, i, site) for i in at)
            }
        return all(waits.values()) and loads.keys() <= waited and waited_by_user.isdisjoint(loads)

    def _writing(self, address: int) -> list[SharedAccess]:
        """The loads that may write the bytes at *address*."""
        if address not in self._known:
            self._known[address] = [load for load in self._loads if self._may(load, address)]
        return self._known[address]

    def _may(self, load: SharedAccess, address: int) -> bool:
        extents = self.model.fact(Extents)
        read = extents.of(load._replace(address=address, size=1))
        if load not in self._filled:
            self._filled[load] = self._fills(load)
        filled = self._filled[load]
        return filled is None or read is None or extents.may_overlap(filled, read)

    def _fills(self, load: SharedAccess) -> Extent | None:
        """The bytes that a copy fills over all iterations, at most; None if unknown."""
        model, site = self.model, load.site
        place = model.fact(Extents).of(load)
        if place is None or site in self.copies:
            return place
        size = model.constant_of(site, "bytes")
        if size is None and place.stride:  # the stages of a ring
            every = model.fact(Rooms).every
            rooms = [every(ring).get(site) for ring in model.fact(Mbarriers).rings_at(site)]
            size = min((s for s in (self._max_expected, *rooms) if s), default=None)
        size = size or self._max_expected
        return place._replace(high=place.high - load.size + size) if size else None
