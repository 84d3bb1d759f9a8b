"""Whether what an operation accesses later and what the thread accesses meanwhile have nothing in common.

True is a proof under the assumptions of :mod:`tclint.values`. Two addresses of one iteration can be subtracted; whether
they are of one iteration, the caller says with *passes*: whether the thread may pass a point at which a value changes
while the operation is pending. Otherwise the ranges over all iterations are compared.
"""

from __future__ import annotations

from collections.abc import Callable

from tclint.analyses.extents import Extent, Extents
from tclint.analyses.model import KernelModel
from tclint.analyses.tensor_memory import TensorMemory
from tclint.findings.verdicts import Assumption
from tclint.ir.nodes import Immediate
from tclint.isa.accesses import Via
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.addresses import Footprint
from tclint.values.nodes import CollectiveResult, Loaded, Phi, Unmodelled
from tclint.verdicts.matrices import Matrices, Range, ranges
from tclint.verdicts.rings import Numbers, Rings, State

__all__ = [
    "Bytes",
    "Passes",
    "column_ranges_apart",
    "columns_apart",
    "outside",
    "symbolically_apart",
]

_FROM_OTHERS = frozenset((Loaded, Unmodelled, CollectiveResult))
"""Nodes that what other threads do may decide."""
Passes = Callable[[str, int], bool]
"""Whether ``("block", b)`` may be entered, or ``("site", i)`` executed, while the operation is pending."""
MAX_CHOICES = 64
"""Ranges that the phis of an address may choose from. Their number doubles with each branch that adds to an address."""
_COLUMNS = 1 << 16
"""The columns that addresses of tensor memory distinguish."""
_FAR = 1 << 31
"""More than addresses of tensor memory differ by."""
_LARGEST_SPAN = 1 << 20
"""The distance of addresses of two threads up to which bytes are compared one by one: more than shared memory has."""


def columns_apart(model: KernelModel, first: int, second: int, passes: Passes) -> bool:
    """Whether two loads or stores of tensor memory have no column in common; their lanes are not compared."""
    a, b = _columns(model, first), _columns(model, second)
    return a is not None and b is not None and column_ranges_apart(model, a, b, passes)


def column_ranges_apart(model: KernelModel, a: Range, b: Range, passes: Passes) -> bool:
    """Whether two ranges of columns are disjoint, whatever the lanes, which the upper bits of an address select.

    The low bits of an address are its column (9.7.16.1.1), so addresses a multiple of 65536 apart have the same one: each
    range must end before the other one begins again.
    """
    values, (start, size) = model.values, b
    after = values.add(start, values.constant(_COLUMNS)), _FAR
    before = values.add(start, values.constant(size - _COLUMNS - _FAR)), _FAR
    return all(symbolically_apart(model, a, other, passes) for other in (b, after, before))


def _columns(model: KernelModel, site: int) -> Range | None:
    """The columns that a load or store of tensor memory accesses at most."""
    tensor = model.fact(TensorMemory)
    columns, width = tensor.range(site, "taddr"), tensor.exact_width(site, "taddr")
    if columns is None or width is None or "spcompress" in model.instruction(site).opcode:
        return None
    split = model.instruction(site).named("immHalfSplitoff")
    if split is not None:  # the upper lanes access other columns
        if not isinstance(split, Immediate) or not isinstance(split.value, int) or split.value < 0:
            return None
        width += split.value
    return columns.start, width


def symbolically_apart(model: KernelModel, a: Range, b: Range, passes: Passes) -> bool:
    """Whether two ranges of one thread are disjoint, by the difference of their addresses."""
    values = model.values
    if values.disjoint_in_all_iterations(*a, *b):
        return True
    return values.disjoint(*a, *b) is True and not _change(model, a, b, passes)


def _change(model: KernelModel, a: Range, b: Range, passes: Passes) -> bool:
    """Whether what the addresses depend on may change while the operation is pending."""
    varying_at = model.values.varying_at
    return any(passes(kind, at) for value, _ in (a, b) for kind, at in varying_at(value))


def outside(model: KernelModel, here: Extent | None, there: Extent | None) -> bool:
    """Whether two extents have no byte in common, and each is within the variable at its base or both have one base."""
    if here is None or there is None or model.fact(Extents).meet(here, there):
        return False
    return here.base == there.base or (_inside(model, here) and _inside(model, there))


def _inside(model: KernelModel, extent: Extent) -> bool:
    """Whether an extent is within the variable at its base: past its end follows another one."""
    variable = model.values.variable(extent.base)
    return variable is not None and extent.low >= 0 and (not variable.size or extent.high <= variable.size)


class Bytes:
    """The bytes of shared memory that the instructions of one kernel access."""

    def __init__(self, model: KernelModel, rings: Rings) -> None:
        self.model, self.rings, self.values = model, rings, model.values
        self.matrices = Matrices(model)
        self.everyone = T.full(model.values.threads)
        self._known: dict[int, list[Range] | None] = {}
        self._split: dict[int, tuple[int, int] | None] = {}
        self._bounds: dict[int, tuple[int, int]] = {}
        self._footprints: dict[tuple[int, int], Footprint] = {}
        self._reached: dict[Range, Extent | None] = {}
        self._uniform: dict[int, bool] = {}
        self._distances: dict[tuple[int, int], tuple[int, int] | None] = {}

    def apart(self, copy: int, access: int, passes: Passes) -> bool:
        """Whether a ``cp.async`` and an access of shared memory have no byte in common, whatever threads of the CTA
        execute the two."""
        written, accessed = self.of(copy), self.of(access)
        if written is None or accessed is None:
            return False
        if not all(self._same_for_all(address) for address, _ in (*written, *accessed)):
            return False
        return all(
            self._ever_apart(a, b, passes) or self._stages_apart(copy, access, a, b, passes)
            for a in written
            for b in accessed
        )

    def of(self, site: int) -> list[Range] | None:
        """All bytes of shared memory that an instruction accesses; None if they are not all known."""
        if site not in self._known:
            self._known[site] = self._find(site)
        return self._known[site]

    def assumptions(self, site: int) -> frozenset[Assumption]:
        """What :meth:`of` rests on for an instruction."""
        described = any(a.via is Via.DESCRIPTOR for a in self.model.instruction(site).accesses)
        read = self.matrices.read(site) if described else None
        return frozenset() if read is None else read[1]

    def _find(self, site: int) -> list[Range] | None:
        accesses = self.model.instruction(site).accesses
        if any(a.via is Via.DESCRIPTOR for a in accesses):
            read = self.matrices.read(site)
            return None if read is None else read[0]
        return ranges(self.model, site, (a for a in accesses if a.shared))

    def _ever_apart(self, a: Range, b: Range, passes: Passes) -> bool:
        """Whether two ranges are disjoint in all iterations, or in those in which the operation can be pending."""
        if all(
            outside(self.model, self._reach(x), self._reach(y))
            for x in self._chosen_from(a)
            for y in self._chosen_from(b)
        ):
            return True
        return not _change(self.model, a, b, passes) and self._ranges_apart(a, b)

    def _chosen_from(self, of: Range) -> list[Range]:
        """Ranges one of which *of* is in any iteration: those that phis in its address choose from.

        *of* alone if that is not known, or if there are more than ``MAX_CHOICES``.
        """
        found, work = list[Range](), [(of, frozenset[int]())]
        while work:
            each, within = work.pop()
            phi, chosen = self._choice(each)
            if chosen and phi not in within:
                work += ((one, within | {phi}) for one in chosen)
            else:
                found.append(each)
            if len(found) + len(work) > MAX_CHOICES:
                return [of]
        return found

    def _choice(self, of: Range) -> tuple[int, list[Range]]:
        """The only phi in the address of a range, and the ranges that it chooses from; none if it is not the only unknown."""
        values = self.values
        terms, constant = values.linear(of[0])
        phis = [(values.representative(t), factor) for t, factor in terms if values.is_phi(t)]
        rest = [term for term in terms if type(values.node(term[0])) is not Phi]
        if self._reach(of) is not None or len(phis) != 1 or any(values.varying_at(t) for t, _ in rest):
            return -1, []
        ((phi, factor),) = phis
        base = values.total(tuple(rest), constant)
        arguments = (argument for argument in values.arguments(phi) if argument != phi)
        return phi, [(values.add(base, values.times(argument, factor)), of[1]) for argument in arguments]

    def _same_for_all(self, address: int) -> bool:
        """Whether no part of an address but the thread index may differ between threads, whatever memory holds."""
        return self.unknown(address) is None

    def unknown(self, address: int) -> int | None:
        """The first part of an address that may differ between threads and that their index does not decide; None if there
        is none.

        Values take a load from one address as uniform, but other threads may store between two threads' loads.
        """
        parts = self.values.subexpressions(*(term for term, _ in self.values.linear(address)[0]))
        return next((v for v in parts if type(self.values.node(v)) in _FROM_OTHERS), None)

    def _stages_apart(self, copy: int, access: int, a: Range, b: Range, passes: Passes) -> bool:
        """Whether two ranges are disjoint in all states of the loop that selects their stages."""
        states = self.rings.states(copy, access, (a[0], b[0]))
        if states is None:
            return False
        known = set[tuple[int, int]]()
        for first, then in states:
            here, there = self._selected(a[0], first, passes), self._selected(b[0], then, passes)
            if here is None or there is None:
                return False
            if (here, there) not in known:
                known.add((here, there))
                if not self._ranges_apart((here, a[1]), (there, b[1])):
                    return False
        return True

    def apart_when(self, a: Range, first: Numbers, b: Range, then: Numbers, passes: Passes) -> bool:
        """Whether two ranges are disjoint, whatever threads access them, if counters have these numbers at each."""
        here, there = (
            self._selected(address, State(numbers, {}), passes)
            for address, numbers in ((a[0], first), (b[0], then))
        )
        if here is None or there is None or not (self._same_for_all(here) and self._same_for_all(there)):
            return False
        return self._ranges_apart((here, a[1]), (there, b[1]))

    def _selected(self, address: int, state: State, passes: Passes) -> int | None:
        """*address* in a *state* of its loop; None if anything else in it may change."""
        terms, constant = self.values.linear(address)
        kept, carried = list[tuple[int, int]](), self.values.constant(0)
        for term, factor in terms:
            changes = self.values.varying_at(term)
            came_from = state.carried.get(self.values.representative(term))
            number = self.rings.evaluated(term, state.numbers) if changes else None
            if came_from is not None:
                value, numbers = came_from
                before = self._selected(value, State(numbers, {}), _always)
                if before is None:
                    return None
                carried = self.values.add(carried, self.values.times(before, factor))
            elif number is not None:
                constant += number * factor
            elif any(passes(kind, at) for kind, at in changes):
                return None
            else:
                kept.append((term, factor))
        return self.values.add(self.values.total(tuple(kept), constant), carried)

    def _ranges_apart(self, a: Range, b: Range) -> bool:
        """Whether two ranges of one iteration are disjoint, whatever threads of the CTA access them.

        Each address is a part that depends on the thread index alone, and a rest that all threads share.
        """
        here, there = self._parts(a[0]), self._parts(b[0])
        if here is None or there is None:
            return False
        (rest, mine), (other, its) = here, there
        if not (self._shared_by_all(rest) and self._shared_by_all(other)):
            return False
        between = self._between(rest, other)
        if between is None:
            return False
        (low, high), (other_low, other_high) = self._bounds_of(mine), self._bounds_of(its)
        if between[0] + low >= other_high + b[1] or between[1] + high + a[1] <= other_low:
            return True
        if between[0] != between[1] or max(high - low, other_high - other_low) > _LARGEST_SPAN:
            return False
        return not self._footprint(mine, a[1]).moved(between[0]).meets(self._footprint(its, b[1]))

    def _parts(self, address: int) -> tuple[int, int] | None:
        """What of an address does not depend on the thread index alone, and what does; None if that is unknown."""
        if address not in self._split:
            terms, constant = self.values.linear(address)
            mine = tuple(t for t in terms if self.values.bit_slices(t[0]) is not None)
            part = self.values.total(mine, 0)
            rest = self.values.total(tuple(t for t in terms if t not in mine), constant)
            self._split[address] = None if self.values.bit_slices(part) is None else (rest, part)
        return self._split[address]

    def _bounds_of(self, part: int) -> tuple[int, int]:
        """The bounds over all threads of a value that depends on the thread index alone."""
        if part not in self._bounds:
            planes = self.values.bit_slices(part)
            assert planes is not None
            low, high = (T.extreme(planes, self.everyone, least=least) for least in (True, False))
            self._bounds[part] = low, high
        return self._bounds[part]

    def _footprint(self, part: int, size: int) -> Footprint:
        """The bytes that all threads access together, relative to what they share."""
        if (part, size) not in self._footprints:
            planes = self.values.bit_slices(part)
            assert planes is not None
            low, _ = self._bounds_of(part)
            found = 0
            for number, _ in T.numbers(planes, self.everyone):
                found |= ((1 << size) - 1) << number - low
            self._footprints[part, size] = Footprint(low, found)
        return self._footprints[part, size]

    def _reach(self, of: Range) -> Extent | None:
        """The extent of a range over all threads and iterations; None if it is unknown."""
        if of not in self._reached:
            self._reached[of] = self.model.fact(Extents).reach(*of, self.everyone)
        return self._reached[of]

    def _shared_by_all(self, value: int) -> bool:
        """Whether a value is the same for all threads of the CTA."""
        if value not in self._uniform:
            self._uniform[value] = self.values.uniformity(value) is UniformityScope.CTA
        return self._uniform[value]

    def _between(self, a: int, b: int) -> tuple[int, int] | None:
        """The bounds of the difference of two values; None if they are unknown."""
        if (a, b) not in self._distances:
            distance = self.values.add(a, self.values.times(b, -1))
            number = self.values.constant_of(distance)
            self._distances[a, b] = (number, number) if number is not None else self.values.interval(distance)
        return self._distances[a, b]


def _always(kind: str, at: int) -> bool:
    """What changes in a loop has changed since the previous iteration."""
    return True
