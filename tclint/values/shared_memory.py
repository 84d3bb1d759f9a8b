"""Which bytes of shared memory an instruction accesses, and whether two accesses overlap.

An address is a sum. The part of it that depends on the thread index alone is evaluated in every thread, so a swizzle
costs nothing; the rest (a variable, a stage of a ring buffer) must cancel out. Only *proven* overlaps are reported as
such: addresses that cannot be compared are unknown, not wrong. The size of an access is a lower bound where an
instruction accesses a matrix or copies in bulk, so overlaps may be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from tclint._named_tuple import NamedTuple
from tclint.ir.nodes import Function, Memory, Site
from tclint.isa import accesses as isa
from tclint.isa.accesses import Proxy, Via
from tclint.isa.forms import Match
from tclint.isa.special_registers import ALL_LANES, WARP
from tclint.values import UniformityScope, Values
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint, numbers
from tclint.values.nodes import Applied, Constant, Masked, Packed, Sum, Value

__all__ = ["SharedAccess", "SharedMemory"]

_MIN_BYTES = 16
"""A lower bound of what a matrix instruction or a bulk copy accesses at its address (9.7.15.5.1.2, 9.7.9.25.4)."""
_MAX_ADDRESS = (1 << 18) - 1
"""The greatest address of shared memory, as the fields of a descriptor limit it (9.7.15.5.1.2.2)."""
_START_MASK = 0x3FFF
"""The start address in a matrix descriptor, in units of 16 bytes."""


class SharedAccess(NamedTuple):
    """Bytes of shared memory that an instruction reads or writes: address, minimum size, and accessing lanes."""

    site: Site
    writes: bool
    address: Value
    size: int
    lanes: int = ALL_LANES
    """The lanes of a warp whose address counts."""
    later: bool = False
    """Whether the access is asynchronous, and happens at some time after the instruction."""
    proxy: Proxy = Proxy.GENERIC


class SharedMemory:
    """The accesses of one function to shared memory.

    A CTA has as many threads as ``Values.cta_size`` states; with *smaller*, a launch may have fewer than a bound.
    """

    scope = UniformityScope.CTA
    """Within which the threads are that are compared."""
    greatest = _MAX_ADDRESS
    """The greatest address of the memory."""

    def __init__(self, function: Function, values: Values, *, smaller: bool = False) -> None:
        self.function = function
        self.values, self.addresses = values, values.addresses
        self._cta_size = function.threads if smaller else values.cta_size
        self._accesses: dict[int, tuple[SharedAccess, ...]] = {}
        self._own_overlaps: dict[tuple[int, ...], bool] = {}
        self._origins: dict[int, set[int]] = {}
        self._known_remainders: dict[tuple[int, int], tuple[int, int]] = {}

    @cached_property
    def sites(self) -> dict[Site, Match]:
        """The instructions that may access this memory."""
        return {
            i: use.match
            for use in self.function.uses
            if use.match is not None and not use.match.problem and self.touches(use.match)
            for i in use.sites
        }

    @cached_property
    def writers(self) -> list[Site]:
        """Those of :attr:`sites` that may write it."""
        writing = {
            id(match): any(access.writes and self.within(access) for access in match.accesses)
            for match in self.sites.values()
        }
        return [i for i, match in self.sites.items() if writing[id(match)]]

    def accesses(self, site: Site) -> tuple[SharedAccess, ...]:
        """The accesses of the instruction at *site* to shared memory."""
        found = self._accesses.get(site)
        if found is None:
            match = self.sites.get(site)
            found = self._accesses[site] = () if match is None else tuple(self._find(site, match))
        return found

    def _find(self, site: Site, match: Match) -> Iterator[SharedAccess]:
        instruction, values = self.function.instructions[site], self.values
        for access in filter(self.within, match.accesses):
            operand = instruction.named(access.operand)
            if operand is None:
                continue
            address = values.operand(operand, site)
            if access.via is Via.DESCRIPTOR:
                address = self.start(address)
            elif not isinstance(operand, Memory):
                continue
            lanes = (1 << match.address_lanes) - 1 if access.rows else ALL_LANES
            least = self._least(site, match, access)
            yield SharedAccess(site, access.writes, address, least, lanes, access.later, access.proxy)

    @classmethod
    def touches(cls, match: Match) -> bool:
        """Whether the instruction may access data in this memory."""
        return any(map(cls.within, match.accesses))

    @staticmethod
    def within(access: isa.Access) -> bool:
        """Whether an access is one of data that may be in this memory."""
        return access.shared and not access.object

    def _least(self, site: Site, match: Match, access: isa.Access) -> int:
        """A lower bound of the bytes of an access."""
        size = self.extent(site, access.extent)
        if size:
            return min(size, self.greatest)
        if access.later or match.scope == "warp":
            return self._matrix_size(site, match) or _MIN_BYTES
        return int(match.element[2:]) // 8

    def extent(self, site: Site, extent: int | str) -> int | None:
        """The bytes of an access (:attr:`tclint.isa.accesses.Access.extent`); None if they are not known to be a constant."""
        if isinstance(extent, int):
            return extent
        operand = self.function.instructions[site].named(extent)
        size = None if operand is None else self.values.constant_operand(operand, site)
        return None if size is None or size < 0 else size

    def _matrix_size(self, site: Site, match: Match) -> int:
        """The contiguous bytes that a ``wmma.store`` writes: all rows if nothing separates them, else the first one."""
        if match.form.name != "wmma.store":
            return 0
        rows, row, _ = match.shape
        if match.modes.by_columns:
            rows, row = row, rows
        operand = self.function.instructions[site].named("stride")
        stride = row if operand is None else self.values.constant_operand(operand, site)
        return (rows if stride == row else 1) * row * int(match.element[2:]) // 8

    # ------------------------------------------------------------ descriptors

    def start(self, descriptor: Value) -> Value:
        """The start address of a matrix descriptor (9.7.15.5.1.2.2, 9.7.16.4.1): 16 times its low 14 bits."""
        values = self.values
        node = values.node(descriptor)
        if type(node) is Constant:
            return values.constant((node.number & _START_MASK) * 16)
        if type(node) is Packed:
            return self.start(node.operands[0])
        if type(node) is Sum:
            total = values.constant((node.constant & _START_MASK) * 16)
            for term, factor in node.terms:
                total = values.add(total, values.times(self.start(term), factor))
            return total
        if type(node) is Masked:
            if node.mask & _START_MASK == 0:
                return values.constant(0)
            cleared = _START_MASK & ~node.mask  # possibly bits that are zero anyway
            kept = not cleared & ~values.known_bits(node.value)[0]
            return self.start(node.value) if kept else values.times(descriptor, 16)
        start = self._start_of_operation(node) if isinstance(node, Applied) else None
        return values.times(descriptor, 16) if start is None else start

    def _start_of_operation(self, node: Applied) -> Value | None:
        """:meth:`start` of the result of an instruction; None if it is not recognised."""
        values, name, operands = self.values, node.name, node.operands
        numbers = [values.constant_of(x) for x in operands]
        if name == "shr" and numbers[1] == 4:
            return self._without_window_mask(operands[0])
        if name == "bfe" and numbers[1] == 4 and (numbers[2] or 0) >= 14:
            return self._without_window_mask(operands[0])
        if name == "bfi" and (numbers[2] or 0) >= 14:
            return self.start(operands[1])
        if name == "bfi" and numbers[2] == 0 and (numbers[3] or 0) >= 14:
            return self.start(operands[0])
        if name == "or":
            clear = [values.known_bits(x)[0] & _START_MASK == _START_MASK for x in operands]
            if any(clear):
                return self.start(operands[1] if clear[0] else operands[0])
        return None

    def _without_window_mask(self, address: Value) -> Value:
        """An address without the mask that confines it to the address range of shared memory.

        A compiler that knows the alignment of the address leaves the bits that are zero anyway out of the mask.
        """
        node = self.values.node(address)
        if type(node) is Masked and self._is_window_mask(node.value, node.mask):
            return self._without_window_mask(node.value)
        return self.values.representative(address)

    def _is_window_mask(self, address: Value, mask: int) -> bool:
        """Whether *mask* clears no bit of *address*, except for the lowest four and those beyond shared memory."""
        cleared = _MAX_ADDRESS & ~mask & ~15
        form = self.addresses.form(address)
        modulus, ones = self._known_remainder(form.base, 1 << cleared.bit_length())
        number = self.values.constant_of(form.index)
        return number is not None and cleared < modulus and (number + form.offset + ones) & cleared == 0

    # ------------------------------------------------------------ comparison

    def along(self, access: SharedAccess, resolve: Callable[[int], int]) -> SharedAccess:
        """*access* at the end of a path, in terms of the values at its start (:meth:`Values.along`)."""
        form, values = self.addresses.form(access.address), self.values
        if not values.varying_at(form.base):
            return access
        rest = values.add(form.index, values.constant(form.offset))
        return access._replace(address=values.add(resolve(form.base), rest))

    def may_alias(self, earlier: Value, later: Value) -> bool:
        """Whether two different bases may be equal on some path.

        A loop must change one of them, and they must have an origin in common, or none at all.
        """
        if not self.values.varying_at(earlier) and not self.values.varying_at(later):
            return False
        first, second = self.origins(earlier), self.origins(later)
        return not first.isdisjoint(second) or not (first or second)

    def origins(self, base: Value) -> set[Value]:
        """The values of which *base* may be an offset: loop-invariant terms, and initial values of moved pointers."""
        found = self._origins.get(base)
        if found is None:
            values = self.values
            found = self._origins[base] = set()
            seen, work = set[int](), [base]
            while work:
                for term, factor in values.linear(work.pop())[0]:
                    if factor != 1 or term in seen:
                        continue
                    seen.add(term)
                    if not values.varying_at(term):
                        found.add(term)
                    elif values.is_phi(term):
                        work += values.arguments(term)
        return found

    def remainder(self, value: Value, modulus: int, threads: Callable[[], T.Threads]) -> tuple[int, int, int]:
        """``(least, greatest, modulus)``: the remainders of *value* in *threads* modulo a power of two.

        The modulus is the largest one up to the parameter for which they are known; 1 if not even the lowest bit is.
        """
        values = self.values
        form = self.addresses.form(value)
        modulus, ones = self._known_remainder(form.base, modulus)
        constant = form.offset + ones
        number = values.constant_of(form.index)
        if number is not None or modulus == 1:
            rest = ((number or 0) + constant) % modulus
            return rest, rest, modulus
        planes = values.exact_slices(values.add(form.index, values.constant(constant % modulus)))
        active = self.certain_threads(threads())
        if planes is None:
            return 0, 0, 1
        low = T.narrow(planes, modulus.bit_length() - 1, False)
        found = set(numbers(low, active)) if any(plane & active for plane in low) else {0}
        return min(found), max(found), modulus

    def _known_remainder(self, base: Value, modulus: int) -> tuple[int, int]:
        """The power of two, at most *modulus*, modulo which *base* is known, and the remainder."""
        key = (base, modulus)
        if key not in self._known_remainders:
            values, total = self.values, 0
            for term, factor in values.linear(base)[0]:
                zeros, ones = values.known_bits(values.times(term, factor))
                unknown = ~(zeros | ones) | modulus
                modulus = min(modulus, unknown & -unknown)
                total += ones
            self._known_remainders[key] = modulus, total
        return self._known_remainders[key]

    def combined_footprints(
        self, accesses: Iterable[SharedAccess], threads: T.Threads
    ) -> dict[int, Footprint | None]:
        """For each base, the bytes that *threads*, all of which exist, access with all *accesses*.

        None for a base that differs between threads.
        """
        found: dict[int, Footprint | None] = {}
        for access in accesses:
            base = self.addresses.form(access.address).base
            here = self._footprint_of(access, threads)
            if base in found:
                known = found[base]
                found[base] = here and known and known.union(here)
            else:
                found[base] = here
        return found

    def overlap_in_one_thread(self, a: SharedAccess, b: SharedAccess, threads: T.Threads) -> bool:
        """Whether the bytes of both provably overlap in one of *threads*."""
        key = (a.address, a.size, a.lanes, b.address, b.size, b.lanes, threads)
        if key not in self._own_overlaps:
            self._own_overlaps[key] = self._own(a, b, threads)
        return self._own_overlaps[key]

    def _own(self, a: SharedAccess, b: SharedAccess, threads: T.Threads) -> bool:
        threads = self.certain_threads(self.addressing(a, self.addressing(b, threads)))
        found = self.addresses.overlapping((a.address, a.size), (b.address, b.size)) if threads else None
        return found is not None and found & threads != 0

    def overlap(self, a: SharedAccess, b: SharedAccess, threads_a: T.Threads, threads_b: T.Threads) -> bool:
        """Whether bytes of *a* in one of *threads_a* are provably bytes of *b* in one of *threads_b*."""
        addresses = self.addresses
        if addresses.form(a.address).base != addresses.form(b.address).base:
            return False
        here = self.addressing(a, self.certain_threads(threads_a, threads_b))
        there = self.addressing(b, self.certain_threads(threads_b, threads_a))
        return addresses.disjoint((a.address, a.size), (b.address, b.size), pairs=(here, there)) is False

    def footprint(self, access: SharedAccess, threads: T.Threads, beside: T.Threads = 0) -> Footprint | None:
        """The bytes that *threads* access, relative to their base; None unless they share it within :attr:`scope`.

        At least one of the threads *beside* exists (:meth:`certain_threads`).
        """
        return self._footprint_of(access, self.certain_threads(threads, beside))

    def _footprint_of(self, access: SharedAccess, threads: T.Threads) -> Footprint | None:
        """:meth:`footprint` for threads that are known to exist."""
        form = self.addresses.form(access.address)
        if self.values.uniformity(form.base) > self.scope:
            return None
        found = self.addresses.footprint(form.index, access.size, self.addressing(access, threads))
        return None if found is None else found.moved(form.offset)

    def certain_threads(self, threads: T.Threads, beside: T.Threads = 0) -> T.Threads:
        """Those of *threads* that exist in every launch in which one of them does, and one of *beside*.

        Unless the size of the CTA is known, these are the ones up to the end of the warp of the higher one of their
        first threads, or up to that thread itself in a kernel that may be launched with a single one.
        """
        most = self.function.most_threads
        if most is not None:  # the last warp may be partial
            threads &= T.full(most)
        if self._cta_size is not None or not threads:
            return threads
        last = max((threads & -threads).bit_length(), (beside & -beside).bit_length())
        return threads & T.full(last if self.values.may_be_alone else (last + 31) // 32 * 32)

    def checked(self, access: SharedAccess, threads: T.Threads) -> T.Threads:
        """Those of *threads* whose address must be valid."""
        lanes = self.sites[access.site].checked_lanes(self.function.target)
        return threads if lanes == WARP else self.addressing(access, threads)

    def addressing(self, access: SharedAccess, threads: T.Threads) -> T.Threads:
        """Those of *threads* whose address counts."""
        if access.lanes == ALL_LANES:
            return threads
        return threads & access.lanes * T.lane_zero(self.values.threads)
