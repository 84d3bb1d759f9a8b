"""Whether two threads of a CTA access no common byte of shared memory, each with one of two instructions.

True is a proof under the assumptions of :mod:`tclint.values`. What counts as the base of an
:class:`~tclint.values.addresses.AddressForm` is decided here, since two threads of one epoch share more than all threads
do for life: a counter is the same in both if both are in the same iteration. Which threads access a byte is kept as well,
since a thread may access its own bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from math import gcd

from tclint._named_tuple import NamedTuple
from tclint.dataflow.kernel import Kernel
from tclint.ir.nodes import MAX_SHARED_BYTES, specials
from tclint.isa.special_registers import SPECIAL_REGISTERS, WARP, Scope
from tclint.values import thread_masks as T
from tclint.values.addresses import AddressForm, MemoryRange
from tclint.values.integers import applied
from tclint.values.nodes import (
    COMPUTED,
    AddressOf,
    Broadcast,
    Constant,
    Opaque,
    ParameterRead,
    Phi,
    SpecialRead,
)
from tclint.verdicts.convergence import index_alone
from tclint.verdicts.counting import Counting
from tclint.verdicts.disjoint import AccessedBytes
from tclint.verdicts.epochs import Between, MemoryAccess, Numbers, View
from tclint.verdicts.guards import Guards
from tclint.verdicts.lanes import Lanes
from tclint.verdicts.strides import Strides
from tclint.verdicts.uniform import MOVED

__all__ = ["AcrossThreads", "elements_apart"]

_PURE = COMPUTED | {Constant, AddressOf, ParameterRead, Broadcast}
"""The kinds of expressions that are the same in all threads if their operands are."""
_OF_ANOTHER_CTA = ("mapa", "isspacep")
"""Operations whose result is not decided by their operands alone."""
_SHARED_SCOPES = frozenset((Scope.GRID, Scope.CLUSTER, Scope.CTA))
Owners = dict[int, int]
"""Byte -> the threads that access it, one bit for each."""


class _Bytes(NamedTuple):
    """The bytes that each thread accesses, relative to a base."""

    own: int
    """What the index of the thread alone decides."""
    low: int
    size: int


class AcrossThreads:
    """Comparisons of the bytes that threads of one kernel access."""

    def __init__(self, model: Kernel, bytes: AccessedBytes) -> None:
        self.model, self.values, self.bytes = model, model.values, bytes
        self.counting = Counting(model, bytes.rings, bytes.definitions)
        self._guards = Guards(model, bytes.definitions, self.is_index)
        self._owners: dict[tuple[_Bytes, int, bool, int, int], Owners] = {}
        self._compared: dict[tuple[object, ...], bool] = {}
        self._by_index: dict[int, bool] = {}
        self._known_lanes: Lanes | None = None
        self._strides = Strides(self.values)

    def disjoint(self, a: MemoryAccess, b: MemoryAccess, view: View) -> bool:
        """Whether two different threads access no common byte with *a* and *b*, in any epoch that has both."""
        threads = view.first | view.then
        if not view.first or not view.then or threads & (threads - 1) == 0:
            return True
        if view.between is Between.WARPS and T.one_warp(threads):
            return True
        here, there = self._at(a.site, view.here, view), self._at(b.site, view.there, view)
        if here is None or there is None:
            return False
        view = view._replace(first=view.first & self._addressing(a), then=view.then & self._addressing(b))
        if not view.first or not view.then:
            return False
        once = a.site == b.site and view.here == view.there and view.same(self.model.cfg.block_of[a.site])
        warp = (a.rows or b.rows) > 0 and not once
        alike = self._lanes(view).stored(a.site) if once else 0
        return all(
            self._ranges_disjoint(x, y, view, warp, alike)
            or (
                not warp
                and (
                    self._bounded_apart(a.site, x, b.site, y, view)
                    or self._numbered_apart(x, y, view)
                    or self._strided_apart(x, y)
                )
            )
            for x in here
            for y in there
        )

    def _addressing(self, of: MemoryAccess) -> T.Threads:
        """The threads whose addresses count: of an access to rows, the first lanes of each warp (9.7.14.5)."""
        every = T.full(self.values.threads)
        lanes = (1 << (of.rows or WARP)) - 1
        return every & sum(lanes << warp for warp in range(0, self.values.threads, WARP))

    def _bounded_apart(self, a: int, here: MemoryRange, b: int, there: MemoryRange, view: View) -> bool:
        """Whether comparisons that hold at two accesses bound one of two ranges before the other begins."""
        forms = self._split(here[0], view), self._split(there[0], view)
        if forms[0] is None or forms[1] is None:
            return False

        def is_shared(value: int) -> bool:
            return self._is_shared(value, view)

        begins, ends = self._guards.ends(a, forms[0], here[1], view.first, is_shared)
        its_begins, its_ends = self._guards.ends(b, forms[1], there[1], view.then, is_shared)
        return self._precedes(ends, its_begins) or self._precedes(its_ends, begins)

    def _numbered_apart(self, a: MemoryRange, b: MemoryRange, view: View) -> bool:
        """Whether threads access elements of their own by the number that each has in a CTA of any two dimensions."""
        distance = self.values.constant_of(self.values.minus(b[0], a[0]))
        if distance is None or self.values.shape is not None or not self._planar:
            return False
        terms = dict(self.values.linear(a[0])[0])
        x = self.values.special("%tid.x")
        parts = next((p for t in terms for p in ((t,), (t, x)) if self._is_number(t, within=len(p) > 1)), ())
        sizes = {terms.get(part, 0) for part in parts}
        if len(sizes) != 1 or 0 in sizes:
            return False
        rest = (term for term in terms if term not in parts)
        return elements_apart(abs(min(sizes)), a[1], distance, b[1]) and all(
            self._is_shared(term, view) for term in rest
        )

    def _strided_apart(self, a: MemoryRange, b: MemoryRange) -> bool:
        """Whether threads access elements of their own, as many apart as the CTA has threads, in whatever iterations."""
        first, then = self._strides.elements(a[0]), self._strides.elements(b[0])
        if first is None or then is None or first[:2] != then[:2] or not self.in_one_row:
            return False
        if abs(first.element) > MAX_SHARED_BYTES:
            return False  # in 32 bits, the elements of several threads may be one
        distance = then.offset - first.offset
        return elements_apart(abs(first.element), a[1], distance, b[1]) and all(
            self.is_shared(term, lambda phi: False) for term, _ in first.rest
        )

    @cached_property
    def in_one_row(self) -> bool:
        """Whether each thread has an index ``%tid.x`` of its own."""
        planes = self.values.bit_slices(self._strides.index)
        threads = T.full(self.values.threads)
        return planes is not None and all(who & (who - 1) == 0 for _, who in T.numbers(planes, threads))

    def _is_number(self, value: int, *, within: bool) -> bool:
        """Whether a value is the number of a thread, ``%tid.y * %ntid.x + %tid.x``, as one expression; with *within*, the
        product alone, to which the number within the row is added."""
        node = self.values.node(value)
        if type(node) is not Opaque or node.name != ("mul" if within else "mad"):
            return False
        if applied(node.name, node.modifiers, (3, 5) if within else (3, 5, 7)) != (15 if within else 22):
            return False  # the upper half of a product
        operands = [self.values.node(operand) for operand in node.operands]
        names = [each.name if type(each) is SpecialRead else "" for each in operands]
        return sorted(names[:2]) == ["%ntid.x", "%tid.y"] and (within or names[2] == "%tid.x")

    @cached_property
    def _planar(self) -> bool:
        """Whether the kernel is meant for CTAs of two dimensions: it never asks about the third one."""
        read = (s.name for each in self.model.function.instructions for s in specials(each.operands))
        return not {"%tid.z", "%ntid.z", "%tid", "%ntid"} & {*read}

    def _precedes(self, ends: list[int], begins: list[int]) -> bool:
        """Whether one of the values *ends* is certainly not greater than one of *begins*."""
        distances = (self.values.minus(begin, end) for end in ends for begin in begins)
        return any(map(self._positive, distances))

    def _positive(self, value: int) -> bool:
        """Whether a sum of a constant and of what special registers hold is certainly not negative."""
        terms, least = self.values.linear(value)
        for term, factor in terms:
            bounds = self.values.interval(term) if type(self.values.node(term)) is SpecialRead else None
            if bounds is None:
                return False
            least += factor * bounds[factor < 0]
        return least >= 0

    def _at(self, site: int, numbers: Numbers, view: View) -> list[MemoryRange] | None:
        """The bytes that an instruction accesses where counters have these *numbers*; None if they are not all known."""
        found = self.bytes.of(site)
        if found is None or not numbers:
            return found
        return [(self.counting.at(address, numbers, view.counters), size) for address, size in found]

    def _lanes(self, view: View) -> Lanes:
        """Which lanes hold one value, by what *view* says of the blocks that a warp executes together, and what decides others."""
        if self._known_lanes is None or self._known_lanes.together is not view.together:
            self._known_lanes = Lanes(self.model, view.together, view.deciding, view.unchanging)
        return self._known_lanes

    def _ranges_disjoint(self, a: MemoryRange, b: MemoryRange, view: View, warp: bool, alike: int) -> bool:
        """Whether two different threads access no common byte with two ranges.

        With *warp*, the byte that a thread accesses may be accessed by any of its warp. The lanes that differ in the bits
        *alike* alone execute one store of one value together, which counts as one.
        """
        first, then = self._split(a[0], view), self._split(b[0], view)
        if first is None or then is None:
            return False
        if self.values.addresses.disjoint_forms((first, a[1]), (then, b[1]), (view.first, view.then)):
            return True
        distance = self.values.constant_of(self.values.add(then.base, self.values.times(first.base, -1)))
        if distance is None:
            return False
        modulus = gcd(first.stride, then.stride)
        key = first.index, first.offset, a[1], then.index, then.offset + distance, b[1], modulus, view.first, view.then, view.between, warp, alike  # fmt: skip
        if key not in self._compared:
            self._compared[key] = self._no_owner_in_common(
                self._bytes(_Bytes(first.index, first.offset, a[1]), view.first, warp, alike, modulus),
                self._bytes(
                    _Bytes(then.index, then.offset + distance, b[1]), view.then, warp, alike, modulus
                ),
                view.between,
            )
        return self._compared[key]

    # ------------------------------------------------------------ addresses

    def _split(self, address: int, view: View) -> AddressForm | None:
        """The parts of an address; None if they are unknown."""
        form = self.values.addresses.decomposed(
            address, self.is_index, lambda term: self._is_shared(term, view), lambda term: True
        )
        return None if self.values.bit_slices(form.index) is None else form

    def is_index(self, value: int) -> bool:
        """Whether the index of the thread alone decides a value."""
        if value not in self._by_index:
            pure = index_alone(self.values, value)
            self._by_index[value] = pure and self.values.bit_slices(value) is not None
        return self._by_index[value]

    def _is_shared(self, value: int, view: View) -> bool:
        """Whether a value is the same in two threads of one epoch, at whatever accesses the two are."""
        return self.is_shared(
            value, lambda phi: view.uniform(phi.block, phi.register) and view.same(phi.block)
        )

    def is_shared(self, value: int, same: Callable[[Phi], bool]) -> bool:
        """Whether a value is the same in all threads of the CTA, if *same* says so of the phis in it."""
        values = self.values
        for part in values.subexpressions(value, until=values.is_phi):
            node = values.node(part)
            if type(node) is SpecialRead:
                register = SPECIAL_REGISTERS.get(node.name)
                known = register is not None and not register.varies and register.name not in MOVED
                if register is None or not known or register.scope not in _SHARED_SCOPES:
                    return False
            elif type(node) is Phi:
                if not same(node):
                    return False
            elif type(node) not in _PURE or (type(node) is Opaque and node.name in _OF_ANOTHER_CTA):
                return False
        return True

    def unknown(self, address: int, view: View) -> int | None:
        """The part of an address of which nothing is known; None if there is none."""
        terms, _ = self.values.linear(address)
        parts = {t: self._split(t, view) for t, _ in terms}
        return next((t for t, p in parts.items() if p is None or (p.stride == 1 and p.count is None)), None)

    def shared_by_lanes(self, site: int) -> bool:
        """Whether several threads may store to one address that their index decides, but for what all threads share."""
        for address, _ in self.bytes.of(site) or ():
            own = self.values.total(
                tuple(t for t in self.values.linear(address)[0] if self.is_index(t[0])), 0
            )
            planes = self.values.bit_slices(own)
            if planes is not None and any(
                who & (who - 1) for _, who in T.numbers(planes, T.full(self.values.threads))
            ):
                return True
        return False

    def phis(self, accesses: Iterable[int]) -> dict[int, set[int]]:
        """The blocks with phis on which the addresses of *accesses* depend, and the registers of these."""
        found: dict[int, set[int]] = {}
        values = self.values
        for site in accesses:
            for address, _ in self.bytes.of(site) or ():
                for part in values.subexpressions(address):
                    node = values.node(part)
                    if type(node) is Phi:
                        found.setdefault(node.block, set()).add(node.register)
        return found

    # ------------------------------------------------------------ bytes

    def _bytes(self, of: _Bytes, threads: T.Threads, warp: bool, alike: int, modulus: int) -> Owners:
        """The threads that access each byte, relative to the base, or modulo *modulus* unless it is 0."""
        own, low, size = of
        key = of, threads, warp, alike, modulus
        if key in self._owners:
            return self._owners[key]
        planes = self.values.bit_slices(own)
        assert planes is not None
        found = self._owners[key] = {}
        for number, who in T.numbers(planes, threads):
            owners = T.whole(who, WARP) if warp else _counted_once(who, alike)
            for byte in range(number + low, number + low + size):
                at = byte % modulus if modulus else byte
                found[at] = found.get(at, 0) | owners
        return found

    @staticmethod
    def _no_owner_in_common(a: Owners, b: Owners, between: Between) -> bool:
        """Whether no byte is accessed by two different threads as *between* says, one in *a* and one in *b*."""
        if len(b) < len(a):
            a, b = b, a
        return not any(_several(threads, b[at], between) for at, threads in a.items() if at in b)


def elements_apart(element: int, size: int, distance: int, other: int) -> bool:
    """Whether an access of *size* bytes in one element and one of *other* bytes, at a *distance* into another element, have no
    byte in common, whichever two elements these are; each has *element* bytes."""
    return element + distance >= size and distance + other <= element


def _several(a: T.Threads, b: T.Threads, between: Between) -> bool:
    """Whether two different threads, one of *a* and one of *b*, may be such as *between* says."""
    either = a | b
    if between is Between.WARPS:
        return not T.one_warp(either)
    if between is Between.THREADS:
        return bool(either & (either - 1))
    while either:
        warp = T.one_warp(either & -either)
        lanes = either & warp
        if a & warp and b & warp and lanes & (lanes - 1):
            return True
        either &= ~warp
    return False


def _counted_once(threads: T.Threads, alike: int) -> T.Threads:
    """The first of *threads* if they are lanes of one warp whose numbers differ in the bits *alike* alone, else all."""
    if not alike or not T.one_warp(threads):
        return threads
    first = (threads & -threads).bit_length() - 1
    rest = threads >> first
    while rest:
        lane = (rest & -rest).bit_length() - 1 + first
        if (lane ^ first) & ~alike:
            return threads
        rest &= rest - 1
    return 1 << first
