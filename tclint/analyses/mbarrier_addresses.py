"""The mbarriers that an address may name, and when two addresses name different mbarriers.

Every analysis, check and view of a kernel asks this module. It resolves an address in three steps:

1. :func:`home` removes what only selects a CTA of the cluster: ``mapa`` and the masks of a CTA pair (:data:`MASKS`).
   What remains is an address in the shared memory of each CTA. ``cvta``, and ``mapa`` with the CTA's own rank, do not
   change a value (:mod:`tclint.values.ssa`), so generic addresses resolve as well.
2. :meth:`MbarrierAddresses.of` returns an :class:`Address` for each alternative of a join or a ``selp``: a base, an
   offset, and the stages of a ring buffer that a loop selects.
3. :meth:`MbarrierAddresses.locations` enumerates the mbarriers, each a :class:`MbarrierLocation`, where they are
   finitely many.

An address is unresolved where it may differ between threads in an unknown manner, as after a load from memory, or where
the index of its stage has no bound. One that a caller passes is a base of its own, which compares with no variable.

:func:`same` compares two mbarriers and :meth:`MbarrierAddresses.same` those of two instructions. Both are three-valued:
True (one mbarrier), False (no byte in common) or None (unknown). A check must not take unknown for either of the
others.

Locations are compared within a CTA: the mbarriers at one offset in two CTAs of a cluster have one location.
:func:`may_leave` answers whether an address may be in another CTA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from math import gcd

from tclint._named_tuple import NamedTuple
from tclint.analyses.attained import AttainedValues
from tclint.analyses.model import KernelModel
from tclint.isa.effects import Resource
from tclint.values import Values
from tclint.values import thread_masks as T
from tclint.values.addresses import EVER, AddressForm
from tclint.values.nodes import AddressOf, Arithmetic, Masked, Opaque, Phi, Select, Terms, Undefined

__all__ = ["MASKS", "SIZE", "Address", "Array", "ClearedBits", "Home", "MbarrierAddresses", "MbarrierLocation", "array_of", "home", "mapped_by", "may_leave", "same"]  # fmt: skip

SIZE = 8
"""Bytes of an mbarrier object, and their alignment (9.7.13.15.1)."""
_MAX_STAGES = 64
"""The maximum number of mbarriers that one address may name; more are not a pipeline."""
_MAX_RANGE = 1 << 10
"""The maximum number of candidates that are examined for the possible values of a term."""
_MAX_DEPTH = 4
"""The maximum number of nested masks, joins and selects around a mapped address."""
_ADDRESS = (1 << 32) - 1
"""The bits of a shared-memory address."""


class ClearedBits(NamedTuple):
    """Bits of a ``shared::cluster`` address that a mask may clear such that the mbarrier keeps its offset."""

    bits: int
    reason: str
    leaves: bool
    """Whether the masked address may be in another CTA."""


MASKS = (
    ClearedBits(
        1 << 24,
        "The last bit of the CTA's rank in the cluster, which distinguishes the CTAs of a pair (9.7.16.5.1): without it,"
        " the address is in the even CTA. CUTLASS masks with 0xFEFFFFFF.",
        True,
    ),
    ClearedBits(
        0x3FF,
        "The alignment of the address, 8 bytes at least (9.7.13.15.1): a compiler also clears, in that mask, bits that"
        " are 0 anyway, as in 0xFEFFFFF8. Where they need not be 0, the mask also rounds the address.",
        False,
    ),
)
"""The bits that a mask of a CTA pair clears: all those that leave the CTA, and any of the others."""
_LEAVING = sum(cleared.bits for cleared in MASKS if cleared.leaves)
_ALIGNED = sum(cleared.bits for cleared in MASKS if not cleared.leaves)


class Home(NamedTuple):
    """An address in the CTA itself, for one that may have been mapped into the cluster."""

    address: int
    leaves: bool
    """Whether the original was mapped, so that it may be in another CTA."""


def home(values: Values, address: int) -> Home:
    """*address* without ``mapa`` and the masks of a CTA pair: the same offset in the memory of the CTA itself."""
    leaves = False
    while True:
        for term, factor in values.linear(address)[0]:
            own = _unmapped(values, term, factor)
            if own is not None:
                address = values.add(address, values.add(own, values.times(term, -factor)))
                leaves = leaves or not _to_itself(values, term)
                break
        else:
            return Home(values.representative(address), leaves)


def _to_itself(values: Values, term: int) -> bool:
    """Whether a CTA maps an address to its own rank, which names the same bytes."""
    node = values.node(term)
    if type(node) is not Opaque or node.name != "mapa":
        return False
    return values.representative(node.operands[1]) == values.special("%cluster_ctarank")


def _unmapped(values: Values, term: int, factor: int) -> int | None:
    """The address that a term of a sum, times its *factor*, was mapped from; None if it was not mapped."""
    node = values.node(term)
    if type(node) is Opaque and node.name == "mapa":
        return node.operands[0] if factor == 1 else None
    if type(node) is not Masked or factor <= 0 or factor & (factor - 1):
        return None
    # The mask of an address that is shifted left was divided by the factor.
    cleared = ~(node.mask * factor) & -factor & _ADDRESS
    if cleared & _LEAVING != _LEAVING or cleared & ~(_LEAVING | _ALIGNED):
        return None
    address, low = values.times(node.value, factor), cleared & _ALIGNED
    if low:
        low &= ~values.known_bits(address)[0]
    if (
        not values.linear(address)[1] % SIZE
    ):  # else it is rounded up to an mbarrier, by 7 that are added before
        low &= -SIZE
    return values.masked(address, _ADDRESS & ~low, 32)


def may_leave(values: Values, address: int) -> bool:
    """Whether some alternative of *address* is mapped, so that it may be in another CTA of the cluster."""
    work, seen = [(address, 0)], set[int]()
    while work:
        value, depth = work.pop()
        own = home(values, value)
        if own.leaves:
            return True
        for term, _ in values.linear(own.address)[0]:
            if term in seen or depth > _MAX_DEPTH:
                continue
            seen.add(term)
            node = values.node(term)
            inner = (node.value,) if type(node) is Masked else _arms(values, term, values.arguments)
            work += [(v, depth + 1) for v in inner]
    return False


def mapped_by(values: Values, address: int) -> tuple[int, int] | None:
    """The ``mapa`` in *address*, and the rank of the CTA that it maps to; None if there is no ``mapa``."""
    for term, _ in values.linear(address)[0]:
        node = values.node(term)
        if type(node) is Opaque and node.name == "mapa":
            return term, node.operands[1]
    return None


def _arms(values: Values, value: int, arguments: Callable[[int], tuple[int, ...]]) -> tuple[int, ...]:
    """The values that a select or a phi chooses between, of a phi its *arguments*; empty for other values."""
    node = values.node(value)
    if type(node) is Select:
        return node.arms
    return arguments(value) if type(node) is Phi else ()


# ---------------------------------------------------------------- two mbarriers


_ADDRESSES = frozenset((AddressOf, Masked, Arithmetic, Opaque, Phi, Select))
"""Terms of what is one address or another, rather than an index."""


class MbarrierLocation(NamedTuple):
    """The location of an mbarrier in the shared memory of its CTA."""

    base: int
    """A value that is the same wherever the mbarrier is named."""
    offset: int
    """The distance from the base in bytes."""


def same(model: KernelModel, a: MbarrierLocation, b: MbarrierLocation) -> bool | None:
    """Whether two locations are one mbarrier: True, False (they have no byte in common), None (unknown).

    Locations with different bases are different where the bases are different variables. Locations that overlap are not
    known to be one mbarrier: one of them is not aligned.
    """
    if a.base == b.base:
        if a.offset == b.offset:
            return True
        return False if abs(a.offset - b.offset) >= SIZE else None
    return False if model.values.separate(a.base, b.base) else None


def _agreed(answers: Iterable[bool | None]) -> bool | None:
    """The answer that all *answers* give; None if they differ, or if there are none."""
    found = set[bool | None]()
    for answer in answers:
        found.add(answer)
        if len(found) > 1:
            return None
    return found.pop() if found else None


Array = tuple[tuple[tuple[int, int], ...], int, tuple[int, ...]]
"""The start of the array that an address is in, and its strides. Two roles index one array by counters of their own."""


def array_of(values: Values, address: int) -> Array:
    """The invariant part of *address*, and the factors of the terms that vary in loops; no known object is required."""
    terms, constant = values.linear(address)
    fixed = tuple(term for term in terms if not values.varying_at(term[0]))
    return fixed, constant, tuple(sorted(factor for term, factor in terms if values.varying_at(term)))


# ---------------------------------------------------------------- one address


class Address(NamedTuple):
    """The locations that the address of an mbarrier may have."""

    form: AddressForm
    """Its steps are the stages. Unless their number is known, the offset is that of the first one if the index begins as
    counters do."""
    remote: bool
    """Whether the address may be in another CTA of the cluster."""
    constant: int
    """The offset where the terms that select a stage are 0."""
    moves: Terms
    """The terms that select a stage."""
    pointer: bool
    """Whether a loop advances a pointer from stage to stage."""
    period: int = 0
    """After how many stages a multiple is subtracted, as in ``i - i / 3 * 3``; 0: none is. Where the number of stages is
    unknown, the least index is as well, and only an array of so many stages is one that begins at its offset."""


class MbarrierAddresses:
    """The mbarriers that the instructions of a function name."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._of: dict[int, tuple[Address, ...]] = {}
        self._of_value: dict[tuple[int, bool], tuple[Address, ...]] = {}
        """An address, and whether it is that of an init -> what it may name."""
        self._locations: dict[int, frozenset[MbarrierLocation] | None] = {}
        self._enumerations: dict[tuple[int, tuple[Address, ...]], frozenset[MbarrierLocation] | None] = {}
        """Threads, and the addresses that they may name -> the mbarriers there."""
        self._each: dict[int, frozenset[MbarrierLocation]] = {}
        self._attained = model.fact(AttainedValues)
        self._same: dict[tuple[frozenset[MbarrierLocation], frozenset[MbarrierLocation]], bool | None] = {}

    def of(self, site: int) -> tuple[Address, ...]:
        """The addresses that the mbarrier operand of *site* may have, over all paths to it; empty if one is unknown."""
        if site not in self._of:
            value = self.model.mbarrier(site)
            self._of[site] = () if value is None else self._resolved(site, value)
        return self._of[site]

    def locations(self, site: int) -> frozenset[MbarrierLocation] | None:
        """Every mbarrier that the instruction at *site* may name; None if unknown.

        For a ring buffer, these are the stages at all values that the index may have.
        """
        if site not in self._locations:
            self._locations[site] = self._enumerated(site, self.of(site))
        return self._locations[site]

    def each(self, site: int) -> frozenset[MbarrierLocation]:
        """The mbarriers that the instruction at *site* is certain to name if it is executed often enough.

        It under-approximates :meth:`locations`: bounds that follow only from a width in bits do not guarantee that an
        index reaches each value, a branch may never take one of its alternatives, and a launch need not have every
        thread that the kernel allows.
        """
        if site not in self._each:
            found = self.of(site)
            self._each[site] = self._certain(site, found[0]) if len(found) == 1 else frozenset()
        return self._each[site]

    def at_first(self, site: int) -> MbarrierLocation | None:
        """The mbarrier that the instruction at *site* names when it is executed for the first time; None if unknown."""
        value, resolve = self.model.mbarrier(site), self.model.at_first(site).witness
        if value is None or resolve is None:
            return None
        found = self._enumerated(site, self._resolved(site, resolve(value)))
        return min(found) if found is not None and len(found) == 1 else None

    def same(self, site: int, other: int) -> bool | None:
        """Whether two instructions name one mbarrier: True, False (in no pair of iterations), None (unknown)."""
        mine, theirs = self.locations(site), self.locations(other)
        if mine is None or theirs is None:
            return self._disjoint(site, other)
        if (mine, theirs) not in self._same:
            self._same[mine, theirs] = _agreed(same(self.model, a, b) for a in mine for b in theirs)
        return self._same[mine, theirs]

    def _disjoint(self, site: int, other: int) -> bool | None:
        """False if the bytes are disjoint in all iterations, else None."""
        values = self.model.values
        a, b = self.model.mbarrier(site), self.model.mbarrier(other)
        if a is None or b is None:
            return None
        here, there = ((home(values, each).address, SIZE) for each in (a, b))
        return False if values.addresses.disjoint(here, there, EVER) else None

    def offsets(self, site: int, address: Address) -> Iterator[tuple[int, T.Threads]]:
        """The offsets of all stages, each with the threads that may name it; none if their number is unknown."""
        if address.form.count is None:
            return
        for start, threads in self.starts(site, address):
            for k in range(address.form.count):
                yield start + k * address.form.stride, threads

    def starts(self, site: int, address: Address) -> Iterator[tuple[int, T.Threads]]:
        """The offsets of the first stage, each with the threads that may name it."""
        values, threads = self.model.values, self.model.views.context_of(site).threads
        constant, planes = values.constant_of(address.form.index), values.bit_slices(address.form.index)
        per_thread: Iterable[tuple[int, int]] = ()
        if constant is not None:
            per_thread = ((constant, threads),)
        elif planes is not None:
            per_thread = T.numbers(planes, threads)
        for offset, threads_at in per_thread:
            yield address.form.offset + offset, threads_at

    # ------------------------------------------------------------ resolution

    def _resolved(self, site: int, value: int) -> tuple[Address, ...]:
        init = self.model.instruction(site).effects.resource is Resource.MBARRIER_INIT
        resolved = self._of_value.get((value, init))
        if resolved is None:
            found = [self._resolve(v, leaves, init) for v, leaves in self._alternatives(value)]
            known = tuple(a for a in found if a is not None)
            resolved = self._of_value[value, init] = known if len(known) == len(found) else ()
        return resolved

    def _alternatives(self, value: int) -> list[Home]:
        """The addresses that joins and selects choose between."""
        values, found = self.model.values, list[Home]()
        work, seen = [Home(value, False)], set[int]()
        while work:
            v, leaves = work.pop()
            own = home(values, v)
            v, leaves = own.address, leaves or own.leaves
            if v in seen:
                continue
            seen.add(v)
            joined = next((t for t, factor in values.linear(v)[0] if factor == 1 and self._joins(t)), None)
            if joined is None or len(seen) > _MAX_STAGES:
                if type(values.node(v)) is not Undefined:
                    found.append(Home(v, leaves))
                continue
            rest = values.minus(v, joined)
            work += [Home(values.add(x, rest), leaves) for x in self._arms(joined)]
        return found

    def _arms(self, value: int) -> tuple[int, ...]:
        """The values that a select or a phi chooses between, without those of edges that no thread takes."""
        return _arms(self.model.values, value, self.model.reachability.incoming)

    def _joins(self, value: int) -> bool:
        """Whether *value* is one address or another, rather than an index."""
        values = self.model.values
        arms = self._arms(value)
        return (
            bool(arms)
            and values.induction(value) is None
            and values.interval(value) is None
            and any(type(values.node(t)) in _ADDRESSES for arm in arms for t, _ in values.linear(arm)[0])
        )

    def _resolve(self, value: int, leaves: bool, init: bool) -> Address | None:
        values, addresses = self.model.values, self.model.values.addresses
        form = self._form(value, init)
        moves = tuple(t for t in form.moving if not addresses.is_pointer(t[0]))
        if any(not values.varying_at(t) and not addresses.is_shared(t) for t, _ in moves):
            return None
        pointer, constant = len(moves) < len(form.moving), values.linear(value)[1]
        count = None if form.count is None or form.count > _MAX_STAGES else form.count
        start = form.offset
        if count is None and not pointer:
            start = constant + sum(factor * self._first(t) for t, factor in moves if factor > 0)
        form = replace(form, offset=start, count=count)
        return Address(form, leaves, constant, moves, pointer, self._period(moves, form.stride))

    def _form(self, value: int, init: bool) -> AddressForm:
        """The form of an address over all iterations; the base of an init is preferred."""
        addresses = self.model.values.addresses
        form = addresses.over_iterations(value)
        terms = self.model.values.linear(form.base)[0]
        bases = () if init else self._bases
        base = next((b for b in bases if set(b).issubset(terms)), terms)
        if len(base) == len(terms):
            return form
        return addresses.decomposed(value, addresses.is_index, dict(base).__contains__, addresses.is_pointer)

    def _first(self, value: int) -> int:
        """The value that a term without bounds begins with: that of a loop counter, or 0, as an index is never negative."""
        values = self.model.values
        counter = values.induction(value)
        first = None if counter is None or counter[1] < 0 else values.constant_of(counter[0])
        return max(first or 0, 0)

    def _period(self, terms: Terms, stride: int) -> int:
        values = self.model.values
        subtracted = [
            factor * (~zeros & zeros + 1)
            for t, factor in terms
            if factor < 0
            for zeros, _ in (values.known_bits(t),)
        ]
        return gcd(*subtracted) // stride if subtracted and stride else 0

    @cached_property
    def _bases(self) -> list[Terms]:
        """The bases of the addresses of all inits, those of most terms first."""
        rank, block_of = self.model.cfg.rank, self.model.cfg.block_of
        inits = (i for i in self.model.sites(Resource.MBARRIER_INIT) if block_of[i] in rank)
        bases = dict.fromkeys(self.model.values.linear(a.form.base)[0] for i in inits for a in self.of(i))
        return sorted(bases, key=len, reverse=True)

    # ------------------------------------------------------------ enumeration

    def _enumerated(self, site: int, addresses: tuple[Address, ...]) -> frozenset[MbarrierLocation] | None:
        key = self.model.views.context_of(site).threads, addresses
        if key not in self._enumerations:
            self._enumerations[key] = self._enumerated_by(*key)
        return self._enumerations[key]

    def _enumerated_by(
        self, threads: T.Threads, addresses: tuple[Address, ...]
    ) -> frozenset[MbarrierLocation] | None:
        found = set[MbarrierLocation]()
        for address in addresses:
            stages = self._stages(address)
            per_thread = self.model.values.addresses.offsets(address.form.index, threads)
            if stages is None or per_thread is None or len(per_thread) > _MAX_STAGES:
                return None
            found.update(
                MbarrierLocation(address.form.base, stage + n) for stage in stages for n in per_thread
            )
        return frozenset(found) or None

    def _stages(self, address: Address) -> list[int] | None:
        """The offsets of the stages; None if unknown. Where no interval bounds the index, its known bits may."""
        if address.form.count is not None:
            return [address.form.offset + k * address.form.stride for k in range(address.form.count)]
        return self._selected(address)

    def _selected(self, address: Address) -> list[int] | None:
        """The offsets of the stages that one term selects; None if they are unknown, or several terms select them."""
        if len(address.moves) != 1 or address.pointer:
            return None
        ((term, factor),) = address.moves
        numbers = self._numbers(term)
        return None if numbers is None else [address.constant + n * factor for n in numbers]

    def _certain(self, site: int, address: Address) -> frozenset[MbarrierLocation]:
        values, threads = self.model.values, self.model.views.context_of(site).threads
        if any(not values.varying_at(t) or not self._attained.value(t) for t, _ in address.moves):
            return frozenset()
        stages = self._selected(address) if address.moves else self._stages(address)
        if self.model.function.most_threads is None:
            threads = self.model.shared.certain_threads(threads, self._initialising)
        per_thread = self.model.values.addresses.offsets(address.form.index, threads)
        if stages is None or per_thread is None or len(per_thread) > _MAX_STAGES:
            return frozenset()
        return frozenset(
            MbarrierLocation(address.form.base, stage + n) for stage in stages for n in per_thread
        )

    @cached_property
    def _initialising(self) -> int:
        """A thread that every launch must have: the highest one that is the first to execute an mbarrier init."""
        initialising = (
            self.model.views.context_of(i).threads for i in self.model.sites(Resource.MBARRIER_INIT)
        )
        return max((threads & -threads for threads in initialising), default=0)

    def _numbers(self, value: int) -> list[int] | None:
        """The values that a term may have, within its bounds and with its known bits; None if they are too many."""
        values = self.model.values
        value = self._attained.unmasked(value)
        zeros, ones = values.known_bits(value)
        bounds = values.interval(value)
        if bounds is None:
            unknown = ~(zeros | ones) & _ADDRESS
            bounds = 0, ones | unknown
        low, high = bounds
        if low < 0 or high - low > _MAX_RANGE:
            return None
        found = [n for n in range(low, high + 1) if not n & zeros and n & ones == ones]
        return found if len(found) <= _MAX_STAGES else None
