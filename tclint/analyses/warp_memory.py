"""Shared memory as the warps of a CTA have it: the bytes that threads of different warps are certain to have in common.

Whether the threads access them at the same time is asked elsewhere (:mod:`.since_barrier`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, reduce
from math import gcd, prod
from operator import or_

from tclint.analyses.cta_stores import stored_twice
from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarrier_addresses import may_leave
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Special, Variable
from tclint.isa.effects import Barrier, Order
from tclint.isa.special_registers import ALL_LANES, WARP
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint
from tclint.values.cta_shape import AXES
from tclint.values.nodes import Phi, SpecialRead
from tclint.values.shared_memory import SharedAccess, SharedMemory

__all__ = [
    "SharedByBound",
    "SharedByWarps",
    "atomic",
    "has_warps",
    "made_for_one_warp",
    "may_be_one_warp",
    "plain",
    "volatile",
]

Steps = tuple[tuple[int, int], ...]
"""The strides and trip counts of loops."""
Swept = tuple[SharedAccess, Steps]
"""An access in the first iteration of loops, and these."""


class SharedByWarps(SharedMemory):
    """Shared memory in CTAs of two warps at least, if the kernel does not determine their number."""

    guarantee: type[ExecutionGuarantee] = ExecutionGuarantee
    """What knows the threads that execute an access."""
    on_paths = True
    """Whether accesses count whose threads are known on a path only."""
    group = T.LIMIT
    """Threads from a multiple of this number on that are compared with each other."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model.function, model.values)
        self.model = model
        self.executed = model.fact(self.guarantee)
        self._counts: dict[SharedAccess, bool] = {}
        self._by_input: dict[SharedAccess, bool] = {}
        self._member_footprints: dict[tuple[int, int, int, int], list[tuple[int, Footprint]]] = {}

    def certain_threads(self, threads: int, beside: int = 0) -> int:
        """Those of *threads* that every launch has, or that are in the first two warps: one warp needs no barrier."""
        return (super().certain_threads(threads, beside) | threads & (1 << 64) - 1) & self.room

    @cached_property
    def room(self) -> int:
        """The threads that the kernel allows, up to the first one whose accesses are out of bounds, or that stores to global
        memory where another one does: no launch has more.

        In whole warps, if it has room for one: an array with a margin has room for some threads of a warp that no launch has.
        """
        cta = self.model.cta
        if self.function.threads is not None:
            return cta
        beyond = self._stored_twice | cta + 1
        outside = reduce(
            or_, (self._outside(access) & threads for access, threads in self._by_the_last()), beyond
        )
        threads = (outside & -outside).bit_length() - 1
        return T.full(threads // WARP * WARP or threads)

    @property
    def _stored_twice(self) -> int:
        return self.model.fact(stored_twice, self.model.fact(ExecutionGuarantee))

    def _by_the_last(self) -> Iterator[tuple[SharedAccess, int]]:
        """The accesses that all threads from some index on make, with these threads."""
        every = T.full(self.values.threads)
        for site in self.sites:
            if self.model.cfg.block_of[site] not in self.model.cfg.rank:
                continue
            threads = self.model.views.context_of(site).threads
            if threads and threads == every & -(threads & -threads) and self.executed.certainly(site):
                yield from ((access, threads) for access in self.accesses(site))

    @property
    def fits(self) -> bool:
        """Whether the kernel may be meant for CTAs of this shape.

        All accesses of all threads are in bounds; where all threads store by their position in the CTA, no two of them
        store to the same address, in global memory not even those of two CTAs; and they read nothing that none of them
        stores.
        """
        if self._stored_twice or self._reads_unstored():
            return False
        for access in self._everywhere():
            if self._outside(access) or (access.writes and not self._distinct(access.address)):
                return False
        return not self.unstored

    def _reads_unstored(self) -> bool:
        """Whether threads read a variable that only threads which the CTA does not have store before."""
        rank, block_of, context_of = self.model.cfg.rank, self.model.cfg.block_of, self.model.views.context_of
        if all(context_of(i).threads & self.model.cta for i in self.writers if block_of[i] in rank):
            return False
        stores: dict[Variable | None, list[tuple[int, bool]]] = {}
        reads: list[tuple[Variable | None, int]] = []
        for site in self.sites:
            made = context_of(site).threads & self.model.cta != 0
            for access in self.accesses(site) if block_of[site] in rank else ():
                terms = self.values.linear(access.address)[0]
                variable = next(filter(None, (self.values.variable(term) for term, _ in terms)), None)
                if access.writes:
                    stores.setdefault(variable, []).append((site, made))
                elif made and variable is not None:
                    reads.append((variable, site))
        if None in stores or all(made for own in stores.values() for _, made in own):
            return False
        for variable, read in reads:
            before = [made for site, made in stores.get(variable, ()) if self.model.reaches(site, read)]
            if before and not any(before):
                return True
        return False

    @cached_property
    def unstored(self) -> frozenset[int]:
        """The sites at which threads are certain to read what none of them stores; none if it is not known what is stored.

        What a thread may store counts as stored. Of what is read, half is enough, for an array may have a margin, but where
        all threads store and read, everything is stored.
        """
        stored: dict[int, Footprint] = {}
        ways: dict[Variable, set[int]] = {}
        """Variable -> the bases by which it is stored to."""
        partly = set[int]()
        """The bases from which not all threads store."""
        for access, threads in self._made(self.writers):
            base, variable, touched = self._in_all_iterations(access, threads)
            known = stored.get(base, touched)
            together = touched and known and known.union(touched)
            if together is None or variable is None:
                return frozenset()
            ways.setdefault(variable, set()).add(base)
            stored[base] = together
            if threads != self.model.cta or not self.executed.certainly(access.site):
                partly.add(base)
        if partly and not self.values.one_dimensional:
            return frozenset()  # a tile may have margins in every shape
        found = set[int]()
        for access, threads in self._made(self.sites):
            if access.writes or access.later or not self.executed.certainly(access.site):
                continue
            base, variable, touched = self._in_all_iterations(access, threads)
            if touched is None or variable is None or ways.get(variable) != {base}:
                continue
            missing = touched.without(stored[base]).bit_count()
            exact = threads == self.model.cta and base not in partly
            if missing and (exact or 2 * missing >= touched.bytes.bit_count()):
                found.add(access.site)
        return frozenset(found)

    def _made(self, sites: Iterable[int]) -> Iterator[tuple[SharedAccess, int]]:
        """The accesses at *sites*, each with the threads of a CTA of this size that may make it, if there are any."""
        for site in sites:
            if self.model.cfg.block_of[site] in self.model.cfg.rank:
                threads = self.model.views.context_of(site).threads & self.model.cta
                yield from ((access, threads) for access in self.accesses(site) if threads)

    def _in_all_iterations(
        self, access: SharedAccess, threads: int
    ) -> tuple[int, Variable | None, Footprint | None]:
        """The base of *access*, its variable if it has one, and the bytes that *threads* touch from the base on.

        In all iterations of the loops that :meth:`sweep` finds.
        """
        first, steps = self.sweep(access)
        base, touched = self.addresses.form(first.address).base, self._footprint_of(first, threads)
        found = set(filter(None, map(self.values.variable, (t for t, _ in self.values.linear(base)[0]))))
        return base, found.pop() if len(found) == 1 else None, touched and swept(touched, steps)

    def sweep(self, access: SharedAccess, ends: Collection[int] = ()) -> Swept:
        """*access* in the first iteration of the loops that advance its address by a constant, and these loops.

        A loop is left out if it does not iterate as often in all threads, if it contains one of the instructions *ends*, or
        if *access* is not made in every iteration. None counts if one of them changes the address in another way, too.
        """
        values, cfg = self.values, self.model.cfg
        address, block, inside = access.address, cfg.block_of[access.site], set[int]()
        strides, counts = Counter[int](), dict[int, int]()
        for term, factor in values.linear(access.address)[0]:
            counter = values.induction(term) if values.is_phi(term) else None
            if counter is None:
                continue
            (start, stride, modulus), head = counter, values.phi(term).block
            count = None if modulus is not None else values.exact_trip_count(head)
            if (
                count is None
                or block not in cfg.loops[head]
                or not cfg.dominates(block, cfg.leaving[head][0].source)
                or not cfg.loops[head].isdisjoint(map(cfg.block_of.__getitem__, ends))
            ):
                continue
            address = values.add(address, values.times(values.add(start, values.times(term, -1)), factor))
            strides[head] += stride * factor
            counts[head] = count
            inside |= cfg.loops[head]
        changing = (at if kind == "block" else cfg.block_of[at] for kind, at in values.varying_at(address))
        if inside.intersection(changing):
            return access, ()
        return access._replace(address=address), tuple((strides[head], n) for head, n in counts.items())

    def _distinct(self, address: int) -> bool:
        """Whether threads at different positions have different values of *address*, if it is a sum of positions."""
        values, shape = self.values, self.values.shape
        per_thread = self.addresses.form(address).index
        axes = set[int]()
        for term, _ in values.linear(per_thread)[0]:
            node = values.node(term)
            if type(node) is SpecialRead and node.name in AXES:
                axes.add(AXES.index(node.name))
            elif any(values.bit_slices(term) or ()):
                return True
        cta = self.model.cta
        offsets = self.addresses.offsets(per_thread, cta)
        if shape is None or offsets is None:
            return True
        return len(offsets) == min(prod(shape[axis] for axis in axes), cta.bit_count())

    def _everywhere(self) -> Iterator[SharedAccess]:
        """The accesses that all threads make."""
        every = T.full(self.values.threads)
        return (access for access, threads in self._by_the_last() if threads == every)

    @cached_property
    def has_room_for_warps(self) -> bool:
        """Whether an array has elements of a second warp, which are not those of the first one."""
        first, second = T.full(WARP), T.full(WARP) << WARP
        for site in self.sites:
            for access in self.accesses(site):
                form = self.addresses.form(access.address)
                if self.model.size(form.base) and not self._outside(access) & second:
                    here, there = (self.addresses.offsets(form.index, warp) for warp in (first, second))
                    if here != there:
                        return True
        return False

    def _outside(self, access: SharedAccess) -> int:
        """The threads whose *access* is out of bounds of the variable; none if that is unknown."""
        form = self.addresses.form(access.address)
        values, size, every = self.values, self.model.size(form.base), self.model.cta
        planes = values.bit_slices(form.index) if size and values.constant_of(form.index) is None else None
        within = None if planes is None else self.addresses.extremes(form.index, every)
        if planes is None or within is None:
            return 0
        low, high = -form.offset, size - form.offset - access.size
        if low <= within[0] and within[1] <= high:
            return 0
        n = values.threads
        below = T.compare("lt", planes, T.constant(low, n), n)
        return self.checked(access, every & (below | T.compare("lt", T.constant(high, n), planes, n)))

    def across(self, a: SharedAccess, b: SharedAccess, threads_a: int, threads_b: int) -> bool:
        """Whether bytes of *a* in one of *threads_a* are provably bytes of *b* in a thread of another warp."""
        return self.overlap(a, b, threads_a, threads_b) and self._meet((a, ()), (b, ()), threads_a, threads_b)

    def across_iterations(self, a: Swept, b: Swept, threads_a: int, threads_b: int) -> bool:
        """:meth:`across`, in some of the iterations of each access."""
        base, other = (self.addresses.form(access.address).base for access, _ in (a, b))
        shared = base == other and self.values.uniformity(base) <= self.scope
        return shared and self._meet(a, b, threads_a, threads_b)

    def _meet(self, a: Swept, b: Swept, threads_a: int, threads_b: int) -> bool:
        """Whether bytes of two accesses with the same base are the same in different warps."""
        first = self.warps(a[0], self.certain_threads(threads_a, threads_b))
        second = self.warps(b[0], self.certain_threads(threads_b, threads_a))
        form = self.addresses.form
        distance = form(b[0].address).offset - form(a[0].address).offset
        here = [(k, swept(one, a[1])) for k, one in first]
        there = [(j, swept(two.moved(distance), b[1])) for j, two in second]
        return any(
            self.shares(k, j) and one is not None and two is not None and one.overlaps(two)
            for k, one in here
            for j, two in there
        )

    @staticmethod
    def shares(first: int, other: int) -> bool:
        """Whether accesses of two warps, given by their first threads, may race: they are not the same warp."""
        return first != other

    def may_meet(self, a: SharedAccess, b: SharedAccess) -> bool:
        """Whether bytes of *a* in one thread may be bytes of *b* in another one, on whatever path: a test that costs little."""
        forms = self.values.path_forms
        here, there = forms.form(a.address), forms.form(b.address)
        if here is None or there is None:
            return True
        if not forms.may_be_apart(here, there):
            return False
        if here.index != there.index or a.lanes != ALL_LANES or b.lanes != ALL_LANES:
            return True
        stride, distance = gcd(here.stride, there.stride), there.offset - here.offset
        distance = min(distance % stride, -distance % stride) if stride else abs(distance)
        least, greatest = forms.spacing(here.index, stride, self.group)
        size = max(a.size, b.size)
        return least < distance + size and distance < greatest + size

    def warps(self, access: SharedAccess, threads: int) -> list[tuple[int, Footprint]]:
        """The bytes that each warp touches, relative to the common base, without the constant offset."""
        index, size = self.addresses.form(access.address).index, access.size
        key = index, size, access.lanes, threads
        if key not in self._member_footprints:
            known = self._member_footprints[key] = []
            for first, warp in T.by_warp(threads):
                members = self.addressing(access, self.certain_threads(warp))
                touched = self.addresses.footprint(index, size, members)
                if touched is not None:
                    known.append((first, touched))
        return self._member_footprints[key]

    def placed(self, access: SharedAccess, threads: int) -> bool:
        """Whether the bytes that *threads* touch are known, or may be known on a given path."""
        base = self.addresses.form(access.address).base
        return self.footprint(access, threads) is not None or (
            bool(self.values.varying_at(base))
            and not (self._path_dependent(base) or self._parts_threads(base))
        )

    def _parts_threads(self, base: int) -> bool:
        """Whether *base* contains what no path makes the same in threads that are compared, so it is never a common base."""
        form = self.values.path_forms.form(base)
        return form is not None and self.values.path_forms.differs(form, self.scope)

    def _path_dependent(self, base: int) -> bool:
        """Whether *base* depends on the path of each warp, so its value on one path is not that of warps on another."""
        values, loops = self.values, self.model.cfg.loops
        nodes = ((values.node(t), t) for t, _ in values.linear(base)[0])
        return any(
            type(n) is Phi and n.block not in loops and values.uniformity(t) > self.scope for n, t in nodes
        )

    def varies(self, site: int) -> bool:
        """Whether the threads that execute the instruction at *site* may be known on a path, although they are not elsewhere."""
        return self.on_paths and self.executed.varies(site)

    def may_count(self, access: SharedAccess) -> bool:
        """Whether *access* can be part of a race that is proven on a path: it counts, or its threads vary from iteration
        to iteration, and it is plain."""
        return self.counts(access) or (
            self.varies(access.site)
            and plain(self.model, access.site)
            and (access.writes or not self.executed.by_comparison(access.site))
            and self.placed(access, self.model.views.context_of(access.site).threads)
        )

    def counts(self, access: SharedAccess) -> bool:
        """Whether *access* can be part of a proven race: its bytes and threads are known, and it is plain, volatile or atomic.

        That several threads may execute an atomic operation at the same time is what it is for, so data may select them.
        What is volatile may be a flag that warps poll, unless each thread has an element of its own.
        The input may select those that set or test a flag, and a comparison of data those that store, in a race with what
        others execute in any case.
        """
        if access not in self._counts:
            model, site = self.model, access.site
            self._counts[access] = (
                self.executed.certainly(site) or (self.selected(access) and not self.executed.varies(site))
                if plain(model, site)
                else self._exchanges(access)
                if volatile(model, site)
                else atomic(model, site) and self.executed.by_data(site)
            ) and self.placed(access, model.views.context_of(site).threads)
        return self._counts[access]

    def _exchanges(self, access: SharedAccess) -> bool:
        """Whether all threads that may make a volatile *access* do, each to an element of its own, and none waits for it."""
        return (
            self.executed.certainly(access.site)
            and self.values.uniformity(access.address) > UniformityScope.WARP
            and access.site not in self.model.fact(HappensBefore).points.spin_loads
        )

    def selected(self, access: SharedAccess) -> bool:
        """Whether data select the threads that make a plain access: the input, or a comparison of data."""
        return self.by_input(access) or self.compared(access)

    def compared(self, access: SharedAccess) -> bool:
        """Whether a comparison of data selects the threads that make a weak store."""
        site = access.site
        return (
            access.writes
            and site in self.sites
            and not self.sites[site].strong
            and self.executed.by_comparison(site)
        )

    def by_input(self, access: SharedAccess) -> bool:
        """Whether it is a plain access to the same bytes by whichever threads the input of the kernel selects."""
        if access not in self._by_input:
            site, executed = access.site, self.executed
            self._by_input[access] = (
                site in self.sites
                and plain(self.model, site)
                and self.values.uniformity(access.address) <= UniformityScope.CTA
                and (
                    executed.by_input(site)
                    if access.writes
                    else not executed.takers(site) and executed.takers_by_input(site) != 0
                )
            )
        return self._by_input[access]

    def users(self, access: SharedAccess) -> int:
        """The threads in whose warps an access matters: all for a store, those that use its result for a load."""
        if access.writes:
            return T.full(self.values.threads)
        takers = self.executed.takers(access.site)
        return takers or (self.executed.takers_by_input(access.site) if self.by_input(access) else 0)


class SharedByBound(SharedByWarps):
    """:class:`SharedByWarps`, with a bound of the kernel on the CTA size taken for the size itself."""

    def certain_threads(self, threads: int, beside: int = 0) -> int:
        bounded = self.function.most_threads is not None
        return threads & self.room if bounded else super().certain_threads(threads, beside)


def swept(touched: Footprint, steps: Steps) -> Footprint | None:
    """What *touched* is of, in all iterations of loops of these strides and trip counts; None if that is too far apart."""
    found: Footprint | None = touched
    for stride, count in steps:
        done = 1
        while found is not None and done < count:  # as many iterations again, or the rest
            more = min(done, count - done)
            found, done = found.union(found.moved(stride * more)), done + more
    return found


def has_warps(model: KernelModel) -> bool:
    """Whether the text shows that a CTA has several warps: it states the size of the CTA, or has a CTA barrier."""
    return model.function.most_threads is not None or bool(model.awaits(Barrier.CTA))


def may_be_one_warp(model: KernelModel) -> bool:
    """Whether nothing in the text shows that a CTA has several warps.

    Neither does it ask for their number, nor has an array in shared memory room for what a second warp accesses.
    """
    if has_warps(model):
        return False
    if any(
        isinstance(operand, Special) and operand.name.startswith("%ntid")
        for instruction in model.function.instructions
        for operand in instruction.operands
    ):
        return False
    return not model.fact(SharedByBound).has_room_for_warps


def made_for_one_warp(model: KernelModel) -> bool:
    """Whether an index counts 32 for each CTA and one for each thread: of larger CTAs, two would have the same.

    So it is with one row of threads only.
    """
    values, function = model.values, model.function
    if has_warps(model) or any(
        isinstance(operand, Special) and operand.name in ("%tid.y", "%tid.z")
        for instruction in function.instructions
        for operand in instruction.operands
    ):
        return False
    for use in function.uses:
        for i in use.sites if use.match is not None and use.match.form.compute in ("add", "mad") else ():
            factors = {
                node.name: factor
                for term, factor in values.linear(values.after(model.instruction(i).writes[0], i))[0]
                if type(node := values.node(term)) is SpecialRead
            }
            if factors.get("%tid.x") and factors.get("%ctaid.x") == WARP * factors["%tid.x"]:
                return True
    return False


def plain(model: KernelModel, site: int) -> bool:
    """Whether an access to shared memory is plain: neither atomic nor volatile, and to the memory of this CTA.

    Without ``mapa`` and a multicast, an address in the ``shared::cluster`` window is one of this CTA (5.1.6).
    """
    match = model.shared.sites[site]
    if match.strong or match.multicast or not match.space.startswith(".shared"):
        return False
    return match.own_shared or not any(
        may_leave(model.values, access.address) for access in model.shared.accesses(site)
    )


def volatile(model: KernelModel, site: int) -> bool:
    """Whether an access to shared memory is volatile, which orders nothing, and to the memory of this CTA."""
    match = model.shared.sites[site]
    return match.order is Order.VOLATILE and match.space.startswith(".shared") and match.own_shared


def atomic(model: KernelModel, site: int) -> bool:
    """Whether a site is a relaxed atomic operation or reduction, which orders nothing, on memory of this CTA."""
    match = model.shared.sites[site]
    read, written = (
        {name for verb, name in match.form.memory if verb == which} for which in ("read", "write")
    )
    return bool(read & written) and match.order is Order.RELAXED and match.own_shared
