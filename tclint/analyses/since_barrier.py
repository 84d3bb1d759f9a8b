"""Accesses to shared memory since the threads of a CTA last heard of each other (PTX ISA 8.5, 9.7.13).

What one warp reads or writes and another one writes is ordered by a barrier or by nothing at all. The state says which
accesses no synchronisation stands behind; which of them meet, and in different warps, is asked of :class:`Meetings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial, reduce
from math import prod
from operator import or_

from tclint.analyses.access_classes import AccessClasses
from tclint.analyses.execution import Executed
from tclint.analyses.fact_set import FactSet
from tclint.analyses.happens_before import Order, Scope, strong
from tclint.analyses.model import KernelModel
from tclint.dataflow import Results
from tclint.ir.nodes import Instruction
from tclint.values import Level
from tclint.values import thread_masks as T
from tclint.values.cta_shape import AXES
from tclint.values.shared_memory import Access, Footprint, SharedMemory

__all__ = [
    "LOOSE",
    "ReadsSince",
    "SharedByBound",
    "SharedByWarps",
    "SinceBarrier",
    "State",
    "WritesSince",
    "news",
    "plain",
]

State = frozenset[tuple[int, bool]]
"""Accesses, and whether the thread has told others since, and heard of nobody."""

_NOTHING: State = frozenset()


class SharedByWarps(SharedMemory):
    """Shared memory as two warps have it at least, where nothing says how many there are."""

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model.function, model.values)
        self.model = model
        self.executed = model.made(Executed)
        self._counts: dict[Access, bool] = {}
        self._touching: dict[tuple[int, int, int, int], list[tuple[int, Footprint]]] = {}
        self._ends: dict[int, tuple[int, int]] = {}

    def sure(self, threads: int, beside: int = 0) -> int:
        """The same, or those of the first two warps: one warp alone needs no barrier."""
        return (super().sure(threads, beside) | threads & (1 << 64) - 1) & self.room

    @cached_property
    def room(self) -> int:
        """The threads that the kernel allows and shared memory has room for: more are not launched."""
        cta = self.model.cta
        if self.function.threads is not None:
            return cta
        outside = reduce(or_, map(self._outside, self._everywhere()), cta + 1)
        return T.full((outside & -outside).bit_length() - 1)

    @property
    def fits(self) -> bool:
        """Whether the kernel may be made for CTAs of this shape.

        Shared memory has room for what all threads touch; where all of them store to rows and columns that the shape
        numbers, no two do so to the same place; and they read nothing that none of them stores.
        """
        accesses = list[Access]()
        for access in self._everywhere():
            if self._outside(access) or (access.writes and not self._distinct(access.address)):
                return False
            accesses.append(access)
        return self._stored(accesses)

    def _stored(self, accesses: list[Access]) -> bool:
        """Whether what all threads read is stored, as far as it is known who stores and where."""
        if not {access.site for access in accesses if access.writes}.issuperset(self.writers):
            return True
        stored = self.together((a for a in accesses if a.writes), self.model.cta)
        for base, here in self.together((a for a in accesses if not a.writes), self.model.cta).items():
            there = stored.get(base)
            if here is not None and there is not None and there.union(here) != there:
                return False
        return True

    def _distinct(self, address: int) -> bool:
        """Whether an address that is a sum of positions of a thread differs between threads that differ in one of these."""
        values, shape = self.values, self.values.shape
        mine = self.split(address)[1]
        axes = set[int]()
        for term, _ in values.linear(mine)[0]:
            kind, name, *_ = values.node(term)
            if kind == "special" and name in AXES:
                axes.add(AXES.index(name))
            elif any(values.planes(term) or ()):
                return True
        offsets = self.offsets(mine, self.model.cta)
        return shape is None or offsets is None or len(offsets) == prod(shape[axis] for axis in axes)

    def _everywhere(self) -> Iterator[Access]:
        """What all threads access."""
        model = self.model
        every = T.full(self.values.threads)
        return (
            access
            for site in self.sites
            if model.cfg.block_of[site] in model.cfg.rank
            and model.views.at(site).threads == every
            and self.executed.certainly(site)
            for access in self.accesses(site)
        )

    def _outside(self, access: Access) -> int:
        """The threads for which shared memory has no room where they access it."""
        base, mine, constant = self.split(access.address)
        values, size, every = self.values, self.model.size(base), self.model.cta
        planes = values.planes(mine) if size and values.known(mine) is None else None
        if planes is None:
            return 0
        if mine not in self._ends:
            self._ends[mine] = T.extreme(planes, every, least=True), T.extreme(planes, every, least=False)
        low, high = -constant, size - constant - access.size
        least, greatest = self._ends[mine]
        if low <= least and greatest <= high:
            return 0
        n = values.threads
        below = T.compare("lt", planes, T.constant(low, n), True, n)
        return every & (below | T.compare("lt", T.constant(high, n), planes, True, n))

    def across(self, a: Access, b: Access, threads_a: int, threads_b: int) -> bool:
        """Whether bytes of *a* in one of *threads_a* are provably bytes of *b* in a thread of another warp."""
        if not self.meet(a, b, threads_a, threads_b):
            return False
        first = self._warps(a, self.sure(threads_a, threads_b))
        second = self._warps(b, self.sure(threads_b, threads_a))
        apart = self.split(b.address)[2] - self.split(a.address)[2]
        moved = [(j, two.moved(apart)) for j, two in second]
        return any(k != j and one.meets(two) for k, one in first for j, two in moved)

    def _warps(self, access: Access, threads: int) -> list[tuple[int, Footprint]]:
        """The bytes that each warp touches, relative to a base that all have in common, and without a constant."""
        mine = self.split(access.address)[1]
        key = mine, access.size, access.lanes, threads
        if key not in self._touching:
            warps = T.by_warp(threads)
            found = ((first, self._spread_of(mine, access, self.sure(warp))) for first, warp in warps)
            self._touching[key] = [(first, touched) for first, touched in found if touched is not None]
        return self._touching[key]

    def placed(self, access: Access, threads: int) -> bool:
        """Whether it is known which bytes *threads* touch, or may be on some path."""
        base = self.split(access.address)[0]
        return self.footprint(access, threads) is not None or (
            bool(self.values.volatile(base)) and not self._by_way(base)
        )

    def _by_way(self, base: int) -> bool:
        """Whether warps that come by other ways have another *base*: it is what it is on a path in none but those that take it."""
        values, loops = self.values, self.model.cfg.loops
        nodes = ((values.node(t), t) for t, _ in values.linear(base)[0])
        return any(n[0] == "phi" and n[1] not in loops and values.level(t) > Level.CTA for n, t in nodes)

    def counts(self, access: Access) -> bool:
        """Whether anything can be said of an access: a plain one, of bytes and of threads that are known."""
        if access not in self._counts:
            site = access.site
            self._counts[access] = (
                plain(self.model, site)
                and self.executed.certainly(site)
                and self.placed(access, self.model.views.at(site).threads)
            )
        return self._counts[access]


class SharedByBound(SharedByWarps):
    """The same, where a bound of the kernel is taken for the size of the CTA."""

    def sure(self, threads: int, beside: int = 0) -> int:
        bounded = self.function.most_threads is not None
        return threads & self.room if bounded else super().sure(threads, beside)


def plain(model: KernelModel, site: int) -> bool:
    """Whether an access to shared memory is a plain one: neither atomic nor volatile, and of this CTA's memory."""
    match = model.shared.sites[site]
    return not strong(match) and match.space in (".shared", ".shared::cta")


def news(model: KernelModel) -> frozenset[int]:
    """Where threads of different warps may hear of each other, or tell others; what is not known counts."""
    order = model.made(Order)
    found = {*order.hears(Scope.WARPS), *order.tells}
    if order.polls or not all(map(partial(_by_warps, model), model.sites("mbarrier-wait"))):
        # One lane may have waited for its warp.
        found.update(model.sites("barrier-sync"))
    return frozenset(found)


def _by_warps(model: KernelModel, site: int) -> bool:
    """Whether all lanes of a warp come to *site*, or none."""
    threads = model.views.at(site).threads
    return threads == T.whole(threads, 32) and model.made(Executed).certainly(site)


_TELLS = ("barrier-arrive", "mbarrier-arrive", "commit")
"""After these a thread goes on at once."""
LOOSE = -1
"""The fact that threads may have come here one after the other, as a wait let them."""


def of_one_phase(model: KernelModel, site: int) -> bool:
    """Whether all threads wait at *site* for the same phase of the same mbarrier: none has to wait for another's turn."""
    named = [model.value(site, role) for role in ("mbarrier", "parity")]
    return all(value is not None and model.values.level(value) is Level.CTA for value in named)


_LOOSE: State = frozenset(((LOOSE, False),))


class SinceBarrier(FactSet[tuple[int, bool]]):
    """The accesses that no barrier follows: of each class, the first.

    They count where the threads began together. Behind a wait of another kind one warp may come much later than another,
    when its turn is.
    """

    writes = False

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.ends = news(model)
        self.joining = frozenset(filter(model.made(Order).joins, self.ends))
        self.telling = self.ends.intersection(i for event in _TELLS for i in model.sites(event))
        """After these threads that came together are together still."""
        waited = frozenset(i for i in model.sites("mbarrier-wait") if of_one_phase(model, i))
        self._apart = self.ends - self.joining - self.telling - waited
        self.memory = model.made(SharedByBound)
        self.executed = self.memory.executed
        self.counts = self.memory.counts
        self.operations = frozenset(
            i
            for i in model.shared.sites
            if model.cfg.block_of[i] in model.cfg.rank
            and any(
                a.writes == self.writes and not a.later and self.counts(a) for a in model.shared.accesses(i)
            )
        )
        self.firsts = frozenset(AccessClasses(model, self.ends).partition(self.operations))
        self._changing = frozenset(map(model.instruction, self.ends | self.firsts))

    def places(self) -> frozenset[int]:
        return self.ends | self.firsts

    def relevant(self, instruction: Instruction) -> bool:
        return instruction in self._changing

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        if at in self.telling:
            return frozenset((site, site != LOOSE) for site, _ in state)
        if at in self.ends:
            return _NOTHING if at in self.joining else _LOOSE if at in self._apart else state & _LOOSE
        return state | {(at, False)} if at in self.firsts else state

    def follow(self, site: int, told: bool, at: int, instruction: Instruction) -> bool | None:
        """The fact about *site* on a path; None where threads hear of each other."""
        return True if at in self.telling else None if at in self.ends else told

    @staticmethod
    def loose(state: State) -> bool:
        """Whether threads may be there one after the other."""
        return not _LOOSE.isdisjoint(state)

    def together(self, results: Results[State]) -> frozenset[int]:
        """The first accesses to which the threads come together."""
        return frozenset(site for site in self.firsts if not self.loose(results.before(site)))


class ReadsSince(SinceBarrier):
    """What was read."""


class WritesSince(SinceBarrier):
    """What was written."""

    writes = True
