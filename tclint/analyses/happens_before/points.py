"""Where threads synchronise, and through which channels (PTX ISA 8.8, 9.7.13).

A *release point* makes known what a thread has done so far: a barrier, an arrival, a commit, a strong write. At an
*acquire point* a thread *observes* such events: a barrier, an mbarrier wait, a loop that polls memory. A *channel*
connects the two: one ring of mbarriers, one barrier number, the cluster barrier, or :data:`ANY` for everything that is
not resolved, such as a call.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from functools import cached_property

from tclint._named_tuple import NamedTuple
from tclint.analyses.happens_before.answers import OrderScope
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls
from tclint.isa.effects import TRANSACTIONS, Barrier, Order
from tclint.values import thread_masks as T

__all__ = ["ANY", "CLUSTER", "CtaBarrier", "SynchronisationPoints"]

_RELEASING = (Order.RELEASE, Order.BOTH, Order.VOLATILE)
"""The orders of a write that others may observe without a fence; a volatile one is taken for a release."""
_STRONG = (*_RELEASING, Order.RELAXED, Order.ACQUIRE)


class CtaBarrier(NamedTuple):
    """The channel of a CTA barrier."""

    number: int


CLUSTER = "cluster"
"""The channel of the cluster barrier."""
ANY = "any"
"""The channel of what cannot be resolved: a call, an access that releases or acquires, an address from memory."""


class SynchronisationPoints:
    """The release and acquire points of a function, and their channels.

    A *signal* is a release point or the completion of a copy; a *wait* is an acquire point between warps.
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model

    def acquire_points(self, scope: OrderScope) -> frozenset[int]:
        """The acquire points by which a thread may observe one at the distance *scope*.

        They are barriers, mbarrier waits, polling loads and, since a callee may wait, calls. A load whose scope excludes
        the other thread (8.7) may pass on what a third thread has acquired, so it counts if anything else does.
        """
        found = self._acquire_points[scope]
        return found if found - self.spin_loads or self.polls(scope) else frozenset()

    def barrier_sites(self, scope: OrderScope) -> frozenset[int]:
        """The acquire points of *scope* that are barriers, at which all threads, or as many as are counted, wait."""
        return self._barriers[scope]

    def releases_together(self, site: int) -> bool:
        """Whether the threads that reach the CTA barrier *site* leave it together: it waits for as many or more."""
        model = self.model
        if site not in self._barriers[OrderScope.WARPS]:
            return False
        if model.instruction(site).role("count") is None:
            return True
        count = model.constant_of(site, "count")
        return count is not None and count >= model.views.context_of(site).threads.bit_count()

    @cached_property
    def cta_wide_barriers(self) -> list[int]:
        """The barriers that every thread of the CTA waits at, once: with no count, no guard and no loop around them."""
        model = self.model
        return [
            i
            for i in sorted(self._barriers[OrderScope.WARPS].intersection(model.awaits(Barrier.CTA)))
            if model.instruction(i).role("count") is None
            and model.instruction(i).guard < 0
            and model.cfg.block_of[i] not in model.cfg.in_cycle
        ]

    @cached_property
    def release_points(self) -> frozenset[int]:
        """The release points between warps: barriers, arrivals, commits, releasing writes and calls.

        If some thread polls, every strong write is one, since a fence may precede it.
        """
        found = [*calls(self.model), *self._strong("write", _STRONG if self.spin_loads else _RELEASING)]
        found += (i for i in self.model.where(lambda e: e.signals) if self._scope(i) >= OrderScope.WARPS)
        # A commit without an mbarrier closes a group of the thread itself and signals nothing.
        found += (i for i in self.model.commits() if self.model.instruction(i).mbarrier is not None)
        return frozenset(found)

    @cached_property
    def collectives(self) -> frozenset[int]:
        """The events that the lanes of a warp execute together, and so synchronise at."""
        return frozenset(
            i
            for use in self.model.function.uses
            if use.match is not None and use.match.form.scope == "lanes" and use.match.form.event
            for i in use.sites
        )

    @cached_property
    def _acquire_points(self) -> tuple[frozenset[int], ...]:
        """The acquire points by :class:`OrderScope`."""
        return tuple(barriers | self.other_waits for barriers in self._barriers)

    @cached_property
    def other_waits(self) -> frozenset[int]:
        """The acquire points that are not barriers, of any scope: mbarrier waits, polling loads and calls."""
        called = calls(self.model)
        for site in called:
            self.model.ledger.drop("order past a call", site, "a callee may synchronise with any thread")
        return self.spin_loads.union(self.model.awaits(Barrier.MBARRIER), called)

    @cached_property
    def spin_loads(self) -> frozenset[int]:
        """Strong loads and atomics in loops whose result decides a branch: they wait until another thread writes."""
        model, cfg = self.model, self.model.cfg
        reads = (i for i in self._strong("read", _STRONG) if cfg.block_of[i] in cfg.in_cycle)
        return frozenset(
            i for i in reads if any(model.instruction(j).flow for j, _ in model.transitive_users(i))
        )

    def polls(self, scope: OrderScope) -> frozenset[int]:
        """The polling loads that may observe a write by a thread at the distance *scope*, by the scope that they state.

        The scopes of a release and an acquire must include each other's thread (8.7). ``.volatile`` has no narrower one
        than the system.
        """
        narrow = {OrderScope.LANES: (), OrderScope.WARPS: (), OrderScope.CTAS: (".cta",)}[scope]
        instruction = self.model.instruction
        return frozenset(
            i
            for i in self.spin_loads
            if (match := instruction(i).match) is not None and not {*narrow}.intersection(match.modifiers)
        )

    @cached_property
    def _barriers(self) -> tuple[frozenset[int], ...]:
        """The barriers at which threads wait, by the :class:`OrderScope` that they have at least.

        A thread that continues has observed what all of them have done.
        """
        waits = self.model.where(lambda e: e.awaits_threads and e.awaits is not Barrier.MBARRIER)
        scopes = {i: self._scope(i) for i in waits}
        return tuple(frozenset(i for i, scope in scopes.items() if scope >= least) for least in OrderScope)

    def _scope(self, site: int) -> OrderScope:
        """How far apart the threads may be that the barrier or signal *site* synchronises."""
        match = self.model.instruction(site).match
        assert match is not None
        form = match.form
        if form.scope == "lanes":
            return OrderScope.LANES
        return OrderScope.WARPS if form.effects.arrives is Barrier.CTA else OrderScope.CTAS

    def _strong(self, verb: str, orders: Collection[Order]) -> Iterator[int]:
        """The accesses that *verb*, ``read`` or ``write``, memory in one of the memory *orders*."""
        for use in self.model.function.uses:
            match = use.match
            if match is None or not match.form.effects.only_accesses:
                continue
            if any(v == verb for v, _ in match.form.memory) and match.order in orders:
                yield from use.sites

    @cached_property
    def mbarriers(self) -> Mbarriers:
        return self.model.fact(Mbarriers)

    @cached_property
    def signals(self) -> dict[int, frozenset[Hashable]]:
        # The completion of a copy implies that its thread has issued it.
        return {i: self.channels(i) for i in (*self.release_points, *self.model.begins(TRANSACTIONS))}

    @cached_property
    def waits(self) -> dict[int, frozenset[Hashable]]:
        return {i: self.channels(i) for i in self._acquire_points[OrderScope.WARPS]}

    def channels(self, site: int) -> frozenset[Hashable]:
        """The channels of a signal or a wait: rings of mbarriers, a CTA barrier, the cluster barrier, or any."""
        model = self.model
        instruction = model.instruction(site)
        match = instruction.match
        if match is None or not match.form.event or match.form.flow:
            return frozenset((ANY,))
        if match.form.mbarrier:
            return frozenset(self.mbarriers.rings_at(site)) or frozenset((self._variable(site),))
        if "id" in match.form.roles:
            numbers = self.barrier_numbers(site) or self._joined_numbers(site)
            return frozenset(map(CtaBarrier, numbers)) or frozenset((ANY,))
        return frozenset((CLUSTER if instruction.effects.barrier is Barrier.CLUSTER else ANY,))

    def barrier_numbers(self, site: int) -> dict[int, T.Threads]:
        """The numbers of the CTA barriers at *site*, each with the threads that use it; empty if unknown."""
        value = self.model.value(site, "id")
        if value is None:
            return {}
        values, threads = self.model.values, self.model.present(site)
        constant = values.constant_of(value)
        if constant is not None:
            return {constant: threads}
        planes = values.bit_slices(value)
        return dict(T.numbers(planes, threads)) if planes is not None else {}

    def _joined_numbers(self, site: int) -> frozenset[int]:
        """The numbers of the CTA barriers at *site* if each path to it sets a constant; empty if unknown."""
        values, found = self.model.values, set[int]()
        joined = self.model.value(site, "id")
        if joined is None:
            return frozenset()
        for value in values.subexpressions(joined, until=lambda v: not values.is_phi(v)):
            constant = values.constant_of(value)
            if constant is not None:
                found.add(constant)
            elif not values.is_phi(value) or not values.arguments(value):
                return frozenset()
        return frozenset(found)

    def _variable(self, site: int) -> Hashable:
        """The channel of an mbarrier in a shared variable that the kernel does not initialise; any if unresolved."""
        locations = self.mbarriers.addresses.locations(site) or ()
        if len(locations) == 1 and self.model.space((location := min(locations)).base).startswith(".shared"):
            return location
        return ANY
