"""Addresses as sums of what threads share, what the thread index decides, and what loops add; and whether two overlap.

Everything that compares addresses of several threads or iterations asks this module for their :class:`AddressForm`, so
that what is a base and what is an offset is decided in one place. Two questions have two answers:

- *At one time*, all that is not decided by the thread index is in the base, and two addresses are compared where their
  bases are a known distance apart. It is not said that threads share the base.
- *Over all iterations*, the base is what all threads of the CTA share for their whole life, and the rest is bounded.

What depends on the thread index alone is evaluated in every thread (:mod:`~tclint.values.thread_masks`), so a swizzle
costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import gcd
from typing import final

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.values import thread_masks as T
from tclint.values.integers import trailing_zeros
from tclint.values.intervals import Bounds
from tclint.values.nodes import AddressOf, Terms, Value
from tclint.values.thread_predicates import UniformityScope
from tclint.values.uniformity import Uniformity

__all__ = ["AT_ONCE", "EVER", "AddressForm", "Addresses", "Footprint", "MemoryRange", "Pairs", "Passes"]

MAX_SPAN = 1 << 20
"""The distance of addresses up to which bytes are compared one by one: more than shared memory has."""
MemoryRange = tuple[Value, int]
"""The value of an address, and the number of bytes or columns from there on."""
Pairs = tuple[T.Threads, T.Threads]
"""The threads that make each of two accesses. Any of them may meet any other, and itself."""
Passes = Callable[[str, int], bool]
"""Whether a thread may enter ``("block", b)``, or execute ``("site", i)``, after one of two accesses and before the other."""


Steps = tuple[int, int, int | None]
"""``(stride, first, count)``: first + stride * k, for k from 0 on. The count bounds how many there are, and not all need
occur; None: k may be any integer."""
Predicate = Callable[[Value], bool]
"""Whether something holds of a value."""


def AT_ONCE(kind: str, at: int) -> bool:
    """Nothing changes between the two accesses."""
    return False


def EVER(kind: str, at: int) -> bool:
    """The two accesses are made in any iterations."""
    return True


@final
@dataclass(frozen=True, slots=True)
class AddressForm:
    """``base + index + offset + stride * k``, for some k of 0 up to, and not including, *count*."""

    base: Value
    """A value; not all threads need have the same one."""
    index: Value
    """A value that the thread index alone decides."""
    offset: int
    stride: int = 0
    """0: all is at one place."""
    count: int | None = 1
    """None: k may be any integer."""
    moving: Terms = ()
    """The terms that decide k."""

    def moved(self, by: int) -> AddressForm:
        """The form of the address plus *by*."""
        return AddressForm(self.base, self.index, self.offset + by, self.stride, self.count, self.moving)


class Footprint(NamedTuple):
    """The bytes that threads access, relative to a base that they share: one bit for each from *low* on."""

    low: int
    bytes: int

    def union(self, other: Footprint) -> Footprint | None:
        """The bytes of both; None if they are farther apart than addresses of shared memory are."""
        if abs(self.low - other.low) > MAX_SPAN:
            return None
        low = min(self.low, other.low)
        return Footprint(low, self.bytes << self.low - low | other.bytes << other.low - low)

    def moved(self, by: int) -> Footprint:
        return Footprint(self.low + by, self.bytes)

    def without(self, other: Footprint) -> int:
        """The bytes that *other* does not have, one bit for each from :attr:`low` on."""
        distance = other.low - self.low
        return self.bytes & ~(other.bytes << distance if distance >= 0 else other.bytes >> -distance)

    def overlaps(self, other: Footprint) -> bool:
        distance = other.low - self.low
        if distance >= 0:
            return bool(self.bytes >> distance & other.bytes)
        return bool(other.bytes >> -distance & self.bytes)


class Addresses:
    """The forms of the addresses of one function, and comparisons of what is at them."""

    def __init__(self, bounds: Bounds, uniformity: Uniformity) -> None:
        self.bounds, self.uniformity, self.counters = bounds, uniformity, bounds.counters
        self.table, self.thread_sets, self.lifetimes = bounds.table, bounds.thread_sets, bounds.lifetimes
        self._forms: dict[int, AddressForm] = {}
        self._over_iterations: dict[int, AddressForm] = {}
        self._of_terms: dict[Terms, AddressForm] = {}
        """The terms of addresses -> their form over all iterations; those of a loop differ in a constant."""
        self._in_one_thread: dict[int, AddressForm] = {}
        self._distances: dict[tuple[int, int], tuple[int, int] | None] = {}
        self._footprints: dict[tuple[int, int, int], Footprint | None] = {}
        self._extremes: dict[tuple[int, int], tuple[int, int] | None] = {}

    # ------------------------------------------------------------ forms

    def form(self, address: Value) -> AddressForm:
        """The form of *address* at one time: the base is all that the thread index does not decide."""
        found = self._forms.get(address)
        if found is None:
            terms, offset = self.table.linear(address)
            index = tuple(t for t in terms if self.is_index(t[0]))
            base = tuple(t for t in terms if t not in index)
            total = self.table.total
            found = self._forms[address] = AddressForm(total(base, 0), total(index, 0), offset)
        return found

    def over_iterations(self, address: Value) -> AddressForm:
        """The form of *address* over all iterations: the base is the same in all threads of the CTA, and never changes."""
        found = self._over_iterations.get(address)
        if found is None:
            terms, offset = self.table.linear(address)
            if terms not in self._of_terms:
                follows = self.is_pointer
                self._of_terms[terms] = self._form_of(terms, 0, self.is_index, self.is_invariant, follows)
            found = self._over_iterations[address] = self._of_terms[terms].moved(offset)
        return found

    def decomposed(
        self, address: Value, is_index: Predicate, is_base: Predicate, follows: Predicate
    ) -> AddressForm:
        """The form of *address* over all iterations, by which terms are decided by the thread index, and which are a base.

        A loop counter that *follows* holds for is what it begins with, and a number of steps.
        """
        return self._form_of(*self.table.linear(address), is_index, is_base, follows)

    def _form_of(
        self, terms: Terms, offset: int, is_index: Predicate, is_base: Predicate, follows: Predicate
    ) -> AddressForm:
        """:meth:`decomposed` of the sum of *terms* and *offset*."""
        index, base, rest, followed = dict[int, int](), dict[int, int](), dict[int, int](), dict[int, int]()
        terms, constant = self.counters.in_step(terms)
        offset += constant
        steps, work = list[Steps](), list(terms)
        while work:
            term, factor = work.pop()
            part = index if is_index(term) else base if is_base(term) else rest
            start, stride = self._counter(term) if part is rest and follows(term) else (-1, 0)
            if start < 0 or term in followed:
                part[term] = part.get(term, 0) + factor
                continue
            followed[term] = factor
            more, constant = self.table.linear(start)
            work += ((t, f * factor) for t, f in more)
            offset += constant * factor
            steps.append((stride * factor, 0, self.bounds.trip_count(self.table.phi(term).block)))
        steps.append(self.steps(_terms(rest)))
        by, low, count = _sum_of_steps(steps)
        total = self.table.total
        moving = _terms(rest | followed)
        return AddressForm(total(_terms(base), 0), total(_terms(index), 0), offset + low, by, count, moving)

    def _counter(self, value: Value) -> tuple[Value, int]:
        """What a loop counter that does not wrap begins with, and its stride; -1 and 0 if *value* is not one."""
        start, stride, modulus = self.counters.induction(value) or (-1, 0, None)
        return (start, stride) if modulus is None else (-1, 0)

    def is_index(self, value: Value) -> bool:
        """Whether the thread index alone decides *value*."""
        return self.thread_sets.bit_slices(value) is not None

    def is_invariant(self, value: Value) -> bool:
        """Whether *value* is the same in all threads of the CTA, and never changes."""
        return not self.lifetimes.varying_at(value) and self.is_shared(value)

    def is_shared(self, value: Value) -> bool:
        """Whether *value* is the same in all threads of the CTA, at one time."""
        return self.uniformity.uniformity(value) is UniformityScope.CTA

    def is_pointer(self, value: Value) -> bool:
        """Whether *value* is a pointer that a loop advances, not an index: it begins with an address."""
        start, _ = self._counter(value)
        terms = self.table.linear(start)[0] if start >= 0 else ()
        return any(type(self.table.node(term)) is AddressOf for term, _ in terms)

    def steps(self, terms: Terms) -> Steps:
        """The values of a sum that varies in loops."""
        ring = self.counters.remainder(terms) if terms else None
        return _sum_of_steps(self._steps_of(*term) for term in terms) if ring is None else ring

    def _steps_of(self, term: Value, factor: int) -> Steps:
        """The values of a term: an interval need not begin or end with a multiple of the lowest bit that may be set."""
        unit, bounds = self.unit(term), self.bounds.interval(term)
        if bounds is None:
            return unit * factor, 0, None
        least, greatest = -(-bounds[0] // unit), bounds[1] // unit
        return unit * factor, least * unit * factor, greatest - least + 1

    def unit(self, term: Value) -> int:
        """The lowest bit of *term* that may be set."""
        zeros, _ = self.bounds.known_bits(term)
        return ~zeros & (zeros + 1)

    # ------------------------------------------------------------ the thread index

    def offsets(self, index: Value, threads: T.Threads) -> set[int] | None:
        """The values in *threads* of *index*, which depends on the thread index alone; None if unknown."""
        number, planes = self.table.constant_of(index), self.thread_sets.bit_slices(index)
        if number is not None:
            return {number}
        return None if planes is None else set(numbers(planes, threads))

    def extremes(self, index: Value, threads: T.Threads) -> tuple[int, int] | None:
        """The least and the greatest value in *threads* of *index*; None if unknown, or if there are no threads."""
        key = index, threads
        if key not in self._extremes:
            number, planes = self.table.constant_of(index), self.thread_sets.bit_slices(index)
            if number is not None:
                self._extremes[key] = number, number
            elif planes is None or not threads:
                self._extremes[key] = None
            else:
                least, greatest = (T.extreme(planes, threads, least=least) for least in (True, False))
                self._extremes[key] = least, greatest
        return self._extremes[key]

    def footprint(self, index: Value, size: int, threads: T.Threads) -> Footprint | None:
        """The bytes that *threads* access, *size* each from *index* on; None if unknown or too far apart."""
        key = index, size, threads
        if key not in self._footprints:
            offsets = self.offsets(index, threads) if threads else None
            self._footprints[key] = None if offsets is None else _covered(offsets, size)
        return self._footprints[key]

    # ------------------------------------------------------------ comparison

    def disjoint(
        self, a: MemoryRange, b: MemoryRange, passes: Passes = AT_ONCE, pairs: Pairs | None = None
    ) -> bool | None:
        """Whether two ranges have nothing in common; False: they overlap; None: unknown.

        Both are those of one thread or, with *pairs*, of any two: False then means of some two, if these exist. What
        *passes* says may change between the accesses is taken to be unrelated.
        """
        if passes is AT_ONCE or not self.may_change(a, b, passes):
            found = self._of_one_thread(a, b) if pairs is None else self._of_threads(a, b, pairs)
            if found is not None:
                return found
        form = self._form_in_one_thread if pairs is None else self.over_iterations
        return self.disjoint_forms((form(a[0]), a[1]), (form(b[0]), b[1]), pairs or (1, 1)) or None

    def may_change(self, a: MemoryRange, b: MemoryRange, passes: Passes) -> bool:
        """Whether what the addresses depend on may change between the accesses."""
        varying_at = self.lifetimes.varying_at
        return any(passes(kind, at) for address, _ in (a, b) for kind, at in varying_at(address))

    def _of_one_thread(self, a: MemoryRange, b: MemoryRange) -> bool | None:
        """:meth:`disjoint` at one time. An address that is based on a variable is taken to be within it."""
        (start, size), (other, its) = a, b
        difference = self.table.add(start, self.table.times(other, -1))
        terms, constant = self.table.linear(difference)
        if not terms:
            return constant >= its or -constant >= size
        ends = self.bounds.interval(difference)
        if ends is not None and (ends[0] >= its or -ends[1] >= size):
            return True
        zeros, ones = self.bounds.known_bits(difference)
        modulus = 1 << trailing_zeros(~(zeros | ones))
        remainder = ones & (modulus - 1)
        if modulus > 1 and remainder >= its and modulus - remainder >= size:
            return True
        opposite = len(terms) == 2 and {f for _, f in terms} == {1, -1}
        return True if opposite and self.table.separate(terms[0][0], terms[1][0]) else None

    def overlapping(self, a: MemoryRange, b: MemoryRange) -> T.Threads | None:
        """The threads in which two ranges overlap, if the thread index decides how far they are apart; else None."""
        if self.form(a[0]).base != self.form(b[0]).base:
            return None
        planes = self.thread_sets.bit_slices(self.table.add(b[0], self.table.times(a[0], -1)))
        if planes is None:
            return None
        n = self.thread_sets.threads
        below = T.compare("lt", planes, T.constant(a[1], n), n)
        return below & T.compare("lt", T.constant(-b[1], n), planes, n)

    def _of_threads(self, a: MemoryRange, b: MemoryRange, pairs: Pairs) -> bool | None:
        """:meth:`disjoint` at one time, of any two threads."""
        here, there = self.form(a[0]), self.form(b[0])
        if not (self.is_shared(here.base) and self.is_shared(there.base)):
            return None
        between = self._distance(here.base, there.base)
        ends, its_ends = self.extremes(here.index, pairs[0]), self.extremes(there.index, pairs[1])
        if between is None or ends is None or its_ends is None:
            return None
        least, greatest = (each + there.offset - here.offset for each in between)
        if ends[1] + a[1] <= least + its_ends[0] or greatest + its_ends[1] + b[1] <= ends[0]:
            return True
        if least != greatest:
            return None
        own, its = (
            self.footprint(f.index, s, t) for f, s, t in ((here, a[1], pairs[0]), (there, b[1], pairs[1]))
        )
        return None if own is None or its is None else not own.overlaps(its.moved(least))

    def _distance(self, base: Value, other: Value) -> tuple[int, int] | None:
        """The bounds of the distance from one value to another; None if unknown."""
        if base == other:
            return 0, 0
        key = base, other
        if key not in self._distances:
            difference = self.table.add(other, self.table.times(base, -1))
            self._distances[key] = self.bounds.interval(difference)
        return self._distances[key]

    def _form_in_one_thread(self, address: Value) -> AddressForm:
        """The form of *address* over all iterations of one thread: the base is all that never changes."""
        found = self._in_one_thread.get(address)
        if found is None:
            found = self._in_one_thread[address] = self.decomposed(
                address, _never, lambda term: not self.lifetimes.varying_at(term), self.is_pointer
            )
        return found

    def disjoint_forms(self, a: tuple[AddressForm, int], b: tuple[AddressForm, int], pairs: Pairs) -> bool:
        """Whether all that any two threads access, each a number of bytes from an address on, is disjoint.

        Past the end of a variable follows another one, so two variables are compared where neither is left.
        """
        base, other = a[0].base, b[0].base
        if base != other and not self.table.separate(base, other):
            return False
        here, there = self.span(*a, pairs[0]), self.span(*b, pairs[1])
        if here is None or there is None:
            return False
        if base == other:
            return here[1] <= there[0] or there[1] <= here[0]
        return self._inside(base, here) and self._inside(other, there)

    def span(self, form: AddressForm, size: int, threads: T.Threads) -> tuple[int, int] | None:
        """Where the *size* bytes begin and end that *threads* access, relative to the base; None if that is not bounded."""
        ends = None if form.count is None else self.extremes(form.index, threads)
        if form.count is None or ends is None:
            return None
        low = form.offset + ends[0]
        return low, form.offset + ends[1] + (form.count - 1) * form.stride + size

    def _inside(self, base: Value, span: tuple[int, int]) -> bool:
        """Whether *span* is within the variable at *base*."""
        variable = self.table.variable(base)
        return variable is not None and span[0] >= 0 and (not variable.size or span[1] <= variable.size)


def _terms(factors: Mapping[int, int]) -> Terms:
    return tuple(sorted((term, factor) for term, factor in factors.items() if factor))


def _never(value: Value) -> bool:
    return False


def _sum_of_steps(parts: Iterable[Steps]) -> Steps:
    """The values of a sum whose parts have these."""
    stride, first, most = 0, 0, 0
    known = True
    for step, low, count in parts:
        stride, first = gcd(stride, step), first + low
        if count is None:
            known = False
        else:
            first, most = first + min(step * (count - 1), 0), most + abs(step) * (count - 1)
    if not known:
        return stride, first, None
    return stride, first, most // stride + 1 if stride else 1


def _covered(offsets: set[int], size: int) -> Footprint | None:
    """The bytes from each of *offsets* on; None if they are farther apart than :data:`MAX_SPAN`."""
    low = min(offsets)
    if max(offsets) - low > MAX_SPAN:
        return None
    found, one = 0, (1 << size) - 1
    for offset in offsets:
        found |= one << offset - low
    return Footprint(low, found)


def numbers(planes: T.BitSlices, threads: T.Threads) -> Iterator[int]:
    """The value of *planes* in each of *threads*, in their order."""
    start = max((threads & -threads).bit_length() - 1, 0)
    threads >>= start
    planes = tuple(plane >> start for plane in planes)
    planes += planes[-1:] * (-len(planes) % 4)
    # Four planes make one hexadecimal digit of each thread's number. The digits are zipped into numbers.
    count = threads.bit_length()
    digits = []
    for k in range(0, len(planes), 4):
        joined = sum(
            int(f"{plane & threads:b}", 16) << j for j, plane in enumerate(planes[k : k + 4]) if plane
        )
        digits.append(f"{joined:0{count}x}"[::-1])
    existing = f"{threads:b}"[::-1]
    for number, there in zip(map("".join, zip(*reversed(digits), strict=True)), existing, strict=True):
        if there == "1":
            value = int(number, 16)
            yield value - (value >> len(planes) - 1 << len(planes))
