"""Memory as the lanes of one warp have it: the bytes that two lanes are certain to have in common, shared or global.

What :mod:`.warp_memory` asks of warps is asked of lanes here. A condition that all lanes of a warp satisfy together, or
none, leaves it open which warps are there, but not which lanes; and an address need be the same in one warp only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property, reduce
from itertools import islice
from math import gcd

from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.mbarrier_addresses import may_leave
from tclint.analyses.warp_memory import SharedByBound
from tclint.isa import accesses as isa
from tclint.isa.accesses import Proxy, Via
from tclint.isa.effects import Order
from tclint.isa.forms import Match
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint
from tclint.values.nodes import Arithmetic, Loaded, Node, Opaque, ParameterRead, SpecialRead
from tclint.values.shared_memory import SharedAccess

__all__ = ["GlobalByLanes", "SharedByLanes", "WholeWarps"]

MAX_WARPS = 2
"""Warps in which two accesses are compared lane by lane: the first ones that make both."""
MAX_SUMS = 4
"""Operations within each other of which an address is taken to be a sum."""
_EXCHANGING = (Order.WEAK, Order.RELAXED, Order.VOLATILE)
"""The orders of accesses that order no other access."""


class WholeWarps(ExecutionGuarantee):
    """Whether the lanes that execute an instruction are known, or are the whole warp or none of it.

    A bound on a position may exceed those of one warp whatever the launch determines it by.
    """

    def _uniform(self, value: int) -> bool:
        return self.model.values.uniformity(value) <= UniformityScope.WARP

    def _may_exceed(self, limits: list[Node], uniform: list[int]) -> bool:
        return any(
            isinstance(limit, ParameterRead | Loaded)
            or (type(limit) is SpecialRead and not SPECIAL_REGISTERS[limit.name].distinguishes_threads)
            for limit in limits
        )


class SharedByLanes(SharedByBound):
    """Shared memory in which accesses of the lanes of one warp overlap."""

    guarantee = WholeWarps
    on_paths = False
    scope = UniformityScope.WARP
    group = 32
    spaces: tuple[str, ...] = (".shared", ".shared::cta")
    """The state spaces that an access states."""

    @cached_property
    def _numbers(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """The answers of :meth:`_of_lanes`: an unrolled loop has many accesses at a constant distance."""
        return {}

    def _find(self, site: int, match: Match) -> Iterator[SharedAccess]:
        for access in super()._find(site, match):
            yield access._replace(address=self._as_sum(access.address))

    def _as_sum(self, value: int, depth: int = MAX_SUMS) -> int:
        """*value* with what a warp shares apart from what its lanes add, where that is within another operation.

        Such are the addend of a product of two unknown numbers, as in ``%ctaid.x * %ntid.x + %tid.x``, and an ``or`` of
        numbers that have no bit in common.
        """
        values = self.values
        terms, constant = values.linear(value)
        parts_of = {term: parts for term, _ in terms if depth and (parts := self._parts(term))}
        if not parts_of:
            return value
        total = values.constant(constant)
        for term, factor in terms:
            parts = parts_of.get(term, ())
            for part in parts or (term,):
                own = self._as_sum(part, depth - 1) if parts else part
                total = values.add(total, values.times(own, factor))
        return total

    def _parts(self, term: int) -> tuple[int, ...]:
        """The numbers of which *term* is the sum; none if it is not a sum."""
        values, node = self.values, self.values.node(term)
        if type(node) is Opaque and node.name == "mad":
            product = self.addresses.table.intern(Opaque, "mul", node.modifiers, node.operands[:2])
            return (product, node.operands[2]) if values.uniformity(product) <= self.scope else ()
        if type(node) is Arithmetic and node.name in ("or", "xor"):
            one, two = map(self._clear_bits, node.operands)
            return node.operands if not ~(one | two) & T.full(int(node.type[2:])) else ()
        return ()

    def _clear_bits(self, value: int) -> int:
        """The bits of *value* that are 0 in all threads."""
        planes = self.values.bit_slices(value)
        if planes is None:
            return self.values.known_bits(value)[0]
        return ~sum(1 << bit for bit, plane in enumerate(planes) if plane) if not planes[-1] else 0

    def counts(self, access: SharedAccess) -> bool:
        """Whether *access* can be part of a proven conflict: its bytes and lanes are known, and it orders nothing."""
        if access not in self._counts:
            model, site = self.model, access.site
            self._counts[access] = (
                self._within_cta(access)
                and (
                    self.executed.certainly(site)
                    or (self.atomic(site) and self.executed.by_data(site))
                    or (self.compared(access) and not self.executed.varies(site))
                )
                and self.placed(access, model.views.context_of(site).threads)
            )
        return self._counts[access]

    def _within_cta(self, access: SharedAccess) -> bool:
        """Whether *access* orders nothing, and is to memory that this class is about."""
        match = self.sites[access.site]
        if match.order not in _EXCHANGING or match.multicast or match.space not in self.spaces:
            return False
        return match.own_shared or not may_leave(self.values, access.address)

    @cached_property
    def exchanges(self) -> bool:
        """Whether accesses of two lanes of a warp may overlap, on whatever path: a test that costs little."""
        if self.values.is_alone:
            return False
        moving, fixed = dict[frozenset[int], list[SharedAccess]](), dict[int, list[SharedAccess]]()
        for site in self.sites:
            if self.model.cfg.block_of[site] in self.model.cfg.rank:
                for access in (a for a in self.accesses(site) if not a.later):
                    base = self.addresses.form(access.address).base
                    if self.values.varying_at(base):
                        moving.setdefault(frozenset(self.origins(base)), []).append(access)
                    if self.values.uniformity(base) <= self.scope:
                        fixed.setdefault(base, []).append(access)
        groups = [(self._revisits, each) for each in moving.values()]
        groups += [(self._collide, each) for each in fixed.values()]
        return any(
            may_overlap(group) and may_overlap([access for access in group if self.counts(access)])
            for may_overlap, group in groups
        )

    @staticmethod
    def _revisits(accesses: list[SharedAccess]) -> bool:
        """Whether lanes may overlap through a pointer that a loop moves: what one has written is accessed later."""
        return any(access.writes for access in accesses)

    def _collide(self, accesses: list[SharedAccess]) -> bool:
        """Whether two lanes of a warp overlap in *accesses*, which have one base, and one of the two writes."""
        writers = [access for access in accesses if access.writes]
        if any(self.by_warp(access.site) for access in accesses):
            return bool(writers)
        context_of = self.model.views.context_of
        warps = {
            first for a in writers for first, _ in islice(T.by_warp(context_of(a.site).threads), MAX_WARPS)
        }
        for first in warps:
            lanes = T.full(32) << first
            places = [
                (range(start, start + access.size), some, access.writes)
                for access in accesses
                for start, some in self._places(access, context_of(access.site).threads & lanes)
            ]
            unit = reduce(gcd, (n for where, _, _ in places for n in (where.start, where.stop)), 0) or 1
            touched, written = defaultdict[int, int](int), set[int]()
            for where, some, writes in places:
                for byte in where[::unit]:
                    touched[byte] |= some
                    if writes:
                        written.add(byte)
            if any(touched[byte].bit_count() > 1 for byte in written):
                return True
        return False

    def atomic(self, site: int) -> bool:
        """Whether a site reads and writes in one operation."""
        return self.sites[site].form.updates

    def by_warp(self, site: int) -> bool:
        """Whether all lanes of a warp execute the access at *site* together, and wait for each other."""
        return self.sites[site].scope == "warp"

    def strong(self, site: int) -> bool:
        """Whether the access at *site* is one by which threads may communicate."""
        return self.sites[site].strong

    def may_meet(self, a: SharedAccess, b: SharedAccess) -> bool:
        return self.by_warp(a.site) or self.by_warp(b.site) or super().may_meet(a, b)

    def overlap_between_lanes(self, a: SharedAccess, b: SharedAccess, here: int, there: int) -> bool:
        """Whether bytes of *a* in one of *here* are provably bytes of *b* in another lane of its warp, one of *there*."""
        base = self.addresses.form(a.address).base
        if base != self.addresses.form(b.address).base or self.values.uniformity(base) > self.scope:
            return False
        here, there = self.certain_threads(here, there), self.certain_threads(there, here)
        warps = ((mine, there & T.whole(mine, 32)) for _, mine in T.by_warp(here))
        both = [pair for pair in warps if all(pair)][:MAX_WARPS]
        return any(self._in_warp(a, b, *pair) for pair in both)

    def _in_warp(self, a: SharedAccess, b: SharedAccess, here: int, there: int) -> bool:
        if any(self.by_warp(access.site) for access in (a, b)):
            # A lane supplies or receives elements of the rows of other lanes.
            one, two = (self._touched(access, lanes) for access, lanes in ((a, here), (b, there)))
            return one is not None and two is not None and one.overlaps(two)
        first, second = (self._places(access, lanes) for access, lanes in ((a, here), (b, there)))
        return any(
            start < begin + b.size and begin < start + a.size and (mine | theirs).bit_count() > 1
            for start, mine in first
            for begin, theirs in second
        )

    def _touched(self, access: SharedAccess, lanes: int) -> Footprint | None:
        form = self.addresses.form(access.address)
        found = self.addresses.footprint(form.index, access.size, self.addressing(access, lanes))
        return None if found is None else found.moved(form.offset)

    def _places(self, access: SharedAccess, lanes: int) -> list[tuple[int, int]]:
        """Where each group of *lanes* accesses, relative to the base."""
        form, lanes = self.addresses.form(access.address), self.addressing(access, lanes)
        if (form.index, lanes) not in self._numbers:
            self._numbers[form.index, lanes] = self._of_lanes(form.index, lanes)
        return [(at + form.offset, those) for at, those in self._numbers[form.index, lanes]]

    def _of_lanes(self, index: int, lanes: int) -> list[tuple[int, int]]:
        """The numbers that *index* has in *lanes*, each with those that have it; none if they are not known."""
        number, planes = self.values.constant_of(index), self.values.bit_slices(index)
        if number is not None:
            return [(number, lanes)] if lanes else []
        return [] if planes is None else list(T.numbers(planes, lanes))


class GlobalByLanes(SharedByLanes):
    """Global memory in which accesses of the lanes of one warp overlap."""

    spaces = (".global",)

    @staticmethod
    def within(access: isa.Access) -> bool:
        return access.outside and access.via is Via.ADDRESS and access.proxy is not Proxy.MAP

    @staticmethod
    def _revisits(accesses: list[SharedAccess]) -> bool:
        """Whether lanes may overlap through a pointer that a loop moves: one reads what is written through it.

        Whether lanes that only write do, is left open: a loop over the elements of a buffer would have to be searched.
        """
        return len({access.writes for access in accesses}) == 2

    @cached_property
    def room(self) -> int:
        return self.model.cta
