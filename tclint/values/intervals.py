"""Intervals and known bits of values, and trip counts of loops.

A counter of a loop with a known trip count has an exact interval. For any other phi, an interval that the constants and
tests around the loop suggest is kept if it is inductive: every argument stays within it. Known bits start at
"everything known" and lose what an argument contradicts, until a fixpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from tclint._named_tuple import NamedTuple
from tclint.ir.cfg import Edge
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.values.induction import Induction
from tclint.values.integers import EVERY, SHORT, trailing_zeros, type_width
from tclint.values.nodes import (
    COMPUTED,
    PREDICATES,
    AddressOf,
    Arithmetic,
    Broadcast,
    Compare,
    Constant,
    Masked,
    Node,
    Opaque,
    Packed,
    ParameterRead,
    PartOf,
    Phi,
    Select,
    SpecialRead,
    Sum,
    Value,
)
from tclint.values.ssa import MAX_DEFINITION_DEPTH, Registers
from tclint.values.substitution import Lifetimes

__all__ = ["Bits", "Bounds", "Interval"]

Bits = tuple[int, int]
"""The bits known to be 0, and those known to be 1. Bits that are in both are those of a phi not evaluated yet."""
Interval = tuple[int, int]
"""The least and the greatest value, as signed numbers."""
_BITWISE = COMPUTED - PREDICATES | {Broadcast}
"""Nodes whose bits follow from those of their operands."""
_OPERATIONS = frozenset((Masked, Arithmetic, Opaque))
MAX_INTERVAL_DEPTH = 16
"""Nesting of expressions through which an interval is computed."""
MAX_PHIS_PER_INTERVAL = 24
"""Phis that may carry a value whose interval is searched for."""
MAX_PRECISE_BIT_PASSES = 4
"""Passes towards the fixpoint after which the bits of a phi that still changes are widened: its lowest zeros remain."""
MAX_NARROWING_PASSES = 2
"""Passes over the phis that share an interval after which that of each is not narrowed further."""
MAX_TESTS_PER_ARGUMENT = 4
"""Branches before a join, one after the other, whose conditions bound the argument of a phi."""
_CLUSTER_INVARIANT_BITS = 0x3FF
"""The low bits of a shared address that ``mapa`` preserves: even the widest swizzle is aligned alike in all CTAs."""


class _Tested(NamedTuple):
    """What a condition says of a number: that it is factor * value + offset, and how value is related to a limit."""

    value: int
    relation: str
    """``eq``: the value differs from the limit; ``lt``: it is less."""
    limit: int
    factor: int
    offset: int


class _Choice(NamedTuple):
    """One of the values that a select or a phi may be."""

    arm: int
    tested: _Tested | None
    """What its condition says of it; None if nothing."""


class _CounterTest(NamedTuple):
    """A test of a loop counter: the loop iterates once more if it is *truth*."""

    relation: str
    truth: bool
    below: bool
    """Whether the counter is the left side."""
    start: Value
    stride: int
    limit: int
    """What the counter is compared with."""
    end: int
    """The constant in the test: the limit, and what is added to the counter."""

    def taken_from(self, first: int) -> int | None:
        """How often in succession the test succeeds if the counter starts at *first*; None if it is not known."""
        distance, stride = self.limit - first, self.stride
        if self.relation == "eq" and not self.truth:
            return distance // stride if distance % stride == 0 and distance // stride >= 0 else None
        counted = self.relation == "lt" and self.truth is self.below and stride > 0
        if not counted or not 0 <= self.end - distance <= self.end < 1 << 31:
            return None
        # Up to and including the limit, or only below it.
        return distance // stride + 1 if not self.truth else -(-distance // stride)


class Bounds:
    """Intervals of values, and the bits of them that are always the same."""

    def __init__(self, registers: Registers, lifetimes: Lifetimes, counters: Induction) -> None:
        self.registers, self.lifetimes, self.counters = registers, lifetimes, counters
        self.table, self.thread_sets, self.cfg = registers.table, registers.thread_sets, registers.cfg
        self._bits: dict[int, Bits] = {}
        self._intervals: dict[int, Interval | None] = {}
        self._trip_counts: dict[int, int | None] = {}
        self._compared: dict[int, bool | None] = {}
        self._guess: dict[int, Interval] = {}  # candidates that are being checked
        self._seen_bounds: dict[int, Interval | None] = {}  # memo of the current question

    def interval(self, value: Value, depth: int = 0) -> Interval | None:
        """The least and the greatest value of *value* as a signed number; None unless both are known."""
        value = self.table.representative(value)
        if not depth:
            self._seen_bounds.clear()
        elif depth > MAX_INTERVAL_DEPTH:
            return None
        elif value in self._seen_bounds:
            return self._seen_bounds[value]
        found = self._seen_bounds[value] = self._interval_of(value, depth)
        return found

    def _interval_of(self, value: Value, depth: int) -> Interval | None:
        node = self.table.nodes[value]
        if type(node) is Constant:
            return node.number, node.number
        if type(node) is Sum:
            return self._sum_interval(node, depth)
        if type(node) is Phi:
            return self._phi_interval(value)
        if type(node) is SpecialRead:
            register = SPECIAL_REGISTERS[node.name]
            bounds = register.bounds
            if register.vector == "%tid" and bounds is not None:
                return 0, min(bounds[1], self.thread_sets.threads - 1)
            return bounds
        if type(node) is Masked:
            inner = self.interval(node.value, depth + 1) if node.is_widened else None
            if inner is not None and 0 <= inner[0] <= inner[1] <= SHORT:
                return inner
            return (0, node.mask) if node.mask < 1 << 31 else None
        if type(node) is Arithmetic:
            return self._arithmetic_interval(value, node, depth)
        if type(node) is Opaque:
            return self._remainder_interval(node, depth) if node.name == "rem" else None
        if type(node) is Broadcast:
            return self.interval(node.source, depth + 1)
        if type(node) is Select:
            return self._hull(value, depth)
        return None

    def _hull(self, value: int, depth: int = 0) -> Interval | None:
        """The interval of the select or phi *value* that follows from those of what it may be; None if unknown."""
        choices = self._choices(value)
        chosen = [
            self._arm(choice, depth) for choice in choices if choice.arm != value
        ]  # itself: no other one
        if None in chosen or not chosen:
            return None
        return min(b[0] for b in chosen if b), max(b[1] for b in chosen if b)

    def _sum_interval(self, node: Sum, depth: int) -> Interval | None:
        rest = self.counters.remainder(node.terms) if len(node.terms) > 1 else None
        if rest is not None:
            each, least, n = rest
            return node.constant + least, node.constant + least + each * (n - 1)
        low = high = node.constant
        for term, factor in node.terms:
            bounds = self.interval(term, depth + 1)
            if bounds is None:
                return None
            ends = (bounds[0] * factor, bounds[1] * factor)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _arithmetic_interval(self, value: Value, node: Arithmetic, depth: int) -> Interval | None:
        if node.name == "shr":
            shifted, bits = node.operands
            inner, by = self.interval(shifted, depth + 1), self.table.constant_of(bits)
            if inner is None or by is None or inner[0] < 0 or not _fits(inner[1], node.type):
                return None
            by = min(by & 0xFFFFFFFF, 64)
            return inner[0] >> by, inner[1] >> by
        if node.name in ("or", "xor"):
            terms = [t for part in node.operands for t, _ in self.table.linear(part)[0]]
            zeros, ones = self.known_bits(value)
            # For a value that a loop carries, these bounds may be wider than its interval.
            exact = ~zeros & EVERY < 1 << 31 and all(type(self.table.node(t)) is Masked for t in terms)
            return (ones, ~zeros & EVERY) if exact else None
        return None

    def compared(self, p: Value) -> bool | None:
        """Whether the comparison *p* holds wherever its operands have values; None if their intervals and bits leave it open."""
        if p not in self._compared:
            node = self.table.nodes[p]
            self._compared[p] = self._compare(node) if type(node) is Compare else None
        return self._compared[p]

    def _compare(self, node: Compare) -> bool | None:
        relation, width, number = node.relation, node.width, self.table.constant_of(node.right)
        if relation == "eq" and number is not None:
            zeros, ones = self.known_bits(node.left)
            if (zeros & number | ones & ~number) & (1 << width) - 1:
                return False
        one, two = self.interval(node.left), self.interval(node.right)
        least, most = (-1 << width - 1, (1 << width - 1) - 1) if node.signed else (0, (1 << width) - 1)
        if one is None or two is None or not all(least <= end <= most for end in (*one, *two)):
            return None
        if one[1] < two[0]:
            return relation == "lt"
        if two[1] < one[0] or (relation == "lt" and two[1] == one[0]):
            return False
        return True if relation == "eq" and one == two and one[0] == one[1] else None

    def _remainder_interval(self, node: Opaque, depth: int) -> Interval | None:
        """The interval of the remainder of a division by a constant, which has the sign of the dividend (9.7.1.9)."""
        dividend, divisor = node.operands
        by = self.table.constant_of(divisor)
        if by is None or not 0 < by <= 1 << 31:
            return None
        if node.type in (".s32", ".s64"):
            inner = self.interval(dividend, depth + 1)
            positive = inner is not None and inner[0] >= 0 and _fits(inner[1], node.type)
            return 0 if positive else 1 - by, by - 1
        return (0, by - 1) if node.type in (".u32", ".u64") else None

    def _arm(self, choice: _Choice, depth: int) -> Interval | None:
        """The interval of a value where it is what is chosen; None if unknown."""
        arm, tested = choice
        bounds = self.interval(tested.value, depth + 1) if tested is not None else None
        if tested is None or bounds is None:
            return self.interval(arm, depth + 1)
        low, high = bounds
        if tested.relation == "eq":
            low, high = low + (low == tested.limit), high - (high == tested.limit)
        else:
            high = min(high, tested.limit - 1) if low >= 0 else high
        ends = [x * tested.factor + tested.offset for x in ((low, high) if low <= high else bounds)]
        return min(ends), max(ends)

    def _choices(self, value: int) -> list[_Choice]:
        """What the select or phi *value* may be, each with what is known of it there."""
        node, cfg = self.table.nodes[value], self.cfg
        if type(node) is Select:
            arms = (node.yes, True), (node.no, False)
            return [_Choice(arm, self._tested(node.condition, truth, arm)) for arm, truth in arms]
        assert type(node) is Phi
        arguments, sources = self.table.arguments(value), cfg.sources[node.block]
        if len(arguments) != len(sources):
            return [_Choice(arm, None) for arm in arguments]
        incoming = zip(arguments, sources, strict=True)
        return [_Choice(arm, self._tested_on_path(arm, source, node.block)) for arm, source in incoming]

    def _tested_on_path(self, arm: int, source: int, block: int) -> _Tested | None:
        """What the branches on the only path to *block* by way of *source* say of *arm*; None if nothing.

        ``if (++i == n) { ...; i = n - 1; }`` leaves i below n on either path, whether or not a select computes it.
        """
        for _ in range(MAX_TESTS_PER_ARGUMENT if self.table.linear(arm)[0] else 0):
            edges = [edge for edge in self.cfg.successors[source] if edge.target == block]
            if len(edges) == 1 and edges[0].predicate >= 0:
                p = self.registers.before(edges[0].predicate, self.cfg.blocks[source].end - 1)
                if (tested := self._tested(p, edges[0].value, arm)) is not None:
                    return tested
            before = self.cfg.sources[source]
            if len(edges) != 1 or len(before) != 1 or not source:
                break
            source, block = before[0], source
        return None

    def _tested(self, p: int, truth: bool, arm: int) -> _Tested | None:
        """What the predicate *p* being *truth* says of *arm*, a multiple of what it compares with a constant; None if nothing."""
        test, truth = self.table.comparison(p, truth)
        number = None if test is None else self.table.constant_of(test.right)
        if test is None or number is None or (test.relation == "eq") is truth:
            return None
        (tested, shift), (terms, offset) = self.table.linear(test.left), self.table.linear(arm)
        if not tested or tested[0][1] != 1:
            return None
        factor = terms[0][1] if terms else 0
        if terms != tuple((t, f * factor) for t, f in tested):
            return None
        return _Tested(self.table.total(tested, 0), test.relation, number - shift, factor, offset)

    def _phi_interval(self, value: Value) -> Interval | None:
        """The interval of a phi: that of a counter, or an inductive one that constants and tests suggest."""
        if self._guess:
            return self._guess.get(value)
        if value not in self._intervals:
            self._intervals[value] = counted = self._counter_interval(value)
            phis, numbers = self._interval_candidates(value) if counted is None else (set(), set())
            if numbers:
                self._intervals.update(self._inductive(phis, (min(numbers), max(numbers))))
        return self._intervals[value]

    def _inductive(self, phis: AbstractSet[int], guess: Interval) -> dict[int, Interval]:
        """The intervals of *phis*, if all arguments of each stay within *guess* where they all are; else none.

        Then those of the arguments narrow them further: a count is 2 or 3 after two increments of which each is undone
        where it leads to 4.
        """
        rank = self.cfg.rank
        ordered = sorted(phis, key=lambda phi: (rank.get(self.table.phi(phi).block, 0), phi))
        before, self._seen_bounds = self._seen_bounds, {}
        self._guess = found = dict.fromkeys(ordered, guess)
        hulls = [self._hull(phi) for phi in ordered]
        if all(b is not None and guess[0] <= b[0] and b[1] <= guess[1] for b in hulls):
            for phi in ordered * MAX_NARROWING_PASSES:
                (low, high), (least, most) = found[phi], self._hull(phi) or guess
                if (
                    found[phi] != (narrowed := (max(low, least), min(high, most)))
                    and least <= high
                    and low <= most
                ):
                    found[phi], self._seen_bounds = narrowed, {}
        else:
            found = {}
        self._guess, self._seen_bounds = {}, before
        return found

    def trip_count(self, head: int) -> int | None:
        """An upper bound of the trip count of the loop with header *head*; None if unknown.

        It is known if every back edge tests a counter that starts at a constant, or if a branch in every iteration does.
        """
        if head not in self._trip_counts:
            self._trip_counts[head] = None  # the answer to a recursive question of a test in the loop
            edges = self.cfg.back_edges.get(head, ())
            if any(edge.predicate < 0 for edge in edges):
                edges = list(self._staying(head))[:1]
            taken = [self._iterations_before(edge, head) for edge in edges]
            known = [n for n in taken if n is not None]
            self._trip_counts[head] = max(known) + 1 if known and len(known) == len(taken) else None
        return self._trip_counts[head]

    def _staying(self, head: int) -> Iterator[Edge]:
        """The edges within a loop from branches that every iteration passes, and that may leave the loop."""
        loop, latches = self.cfg.loops[head], [edge.source for edge in self.cfg.back_edges[head]]
        for edge in self.cfg.leaving[head]:
            if all(self.cfg.dominates(edge.source, latch) for latch in latches):
                yield from (e for e in self.cfg.successors[edge.source] if e.target in loop)

    def exact_trip_count(self, head: int) -> int | None:
        """The trip count of the loop with header *head* wherever its counter starts; None if it varies, or is unknown.

        It is known if one edge leaves the loop, and one repeats it.
        """
        repeating = self.cfg.back_edges.get(head, ())
        if len(repeating) != 1 or len(self.cfg.leaving[head]) != 1:
            return None
        edges = repeating if repeating[0].predicate >= 0 else list(self._staying(head))
        test = self._counted_by(edges[0], head) if edges else None
        starts = None if test is None else self.interval(test.start)
        if test is None or starts is None:
            return None
        taken = {test.taken_from(start) for start in starts}
        count = taken.pop() if len(taken) == 1 else None
        return None if count is None else count + 1

    def _iterations_before(self, edge: Edge, head: int) -> int | None:
        """How often in succession a back edge is taken, if it tests a counter that starts at a constant; else None."""
        test = self._counted_by(edge, head)
        first = None if test is None else self.table.constant_of(test.start)
        return None if test is None or first is None else test.taken_from(first)

    def _counted_by(self, edge: Edge, head: int) -> _CounterTest | None:
        """The test of a counter of the loop with header *head* on which an edge is taken; None if it is another one."""
        if edge.predicate < 0:
            return None
        p = self.registers.before(edge.predicate, self.cfg.blocks[edge.source].end - 1)
        test, truth = self.table.comparison(p, edge.value)
        if test is None:
            return None
        below = self.table.constant_of(test.left) is None
        tested, limit = (test.left, test.right) if below else (test.right, test.left)
        end, (terms, ahead) = self.table.constant_of(limit), self.table.linear(tested)
        counter = terms[0][0] if len(terms) == 1 and terms[0][1] == 1 else -1
        if end is None or counter < 0 or not self._is_carried_by(counter, head):
            return None
        start, stride, modulus = self.counters.induction(counter) or (-1, 0, None)
        if start < 0 or not stride or modulus is not None:
            return None
        return _CounterTest(test.relation, truth, below, start, stride, end - ahead, end)

    def _is_carried_by(self, value: Value, head: int) -> bool:
        """Whether *value* is a phi of the loop with header *head*."""
        node = self.table.nodes[value]
        return type(node) is Phi and node.block == head

    def _counter_interval(self, value: Value) -> Interval | None:
        """The interval of a counter that starts at a constant in a loop with a known trip count; else None."""
        start, stride, modulus = self.counters.induction(value) or (-1, 0, None)
        first = self.table.constant_of(start) if start >= 0 else None
        node = self.table.nodes[value]
        if first is None or modulus is not None or type(node) is not Phi:
            return None
        trip_count = self.trip_count(node.block)
        if trip_count is None:
            return None
        last = first + stride * (trip_count - 1)
        return min(first, last), max(first, last)

    def _interval_candidates(self, value: Value) -> tuple[set[int], set[int]]:
        """The phis that carry *value*, and the numbers that may bound it.

        Both are empty if there are too many phis, or an argument is unknown.
        """
        phis: set[int] = set()
        numbers: set[int] = set()
        work, seen = [value], {value}
        while work:
            v = work.pop()
            node = self.table.nodes[v]
            inner: tuple[int, ...] = ()
            if type(node) is Constant:
                numbers.add(node.number)
            elif type(node) is Phi or type(node) is Select:
                if type(node) is Phi:
                    phis.add(v)
                    if not self.table.arguments(v) or len(phis) > MAX_PHIS_PER_INTERVAL:
                        return set(), set()
                for arm, tested in self._choices(v):
                    if tested is None or len(self.table.linear(tested.value)[0]) == 1:
                        inner += (arm,)
                    if tested is not None and tested.factor == 1:
                        # The last number before the limit, on the side from which it is reached.
                        side = -1 if tested.relation == "lt" else (tested.offset < 0) - (tested.offset > 0)
                        numbers.add(tested.limit + tested.offset + side)
            elif type(node) is Sum:
                inner = node.operands if len(node.terms) == 1 else ()
                rest = self.counters.remainder(node.terms) if len(node.terms) > 1 else None
                if rest is not None:
                    least = node.constant + rest[1]
                    numbers.update((least, least + rest[0] * (rest[2] - 1)))
            elif type(node) in _OPERATIONS:
                numbers.update(self.interval(v, 1) or ())
            for x in map(self.table.representative, inner):
                if x not in seen:
                    seen.add(x)
                    work.append(x)
        return phis, numbers

    # ------------------------------------------------------------ known bits

    def known_bits(self, value: Value) -> Bits:
        """Of the low 64 bits of *value*, those known to be 0, and those known to be 1.

        A 32-bit number may have been widened with or without its sign: where it may be negative, nothing is known of
        the upper half.
        """
        value = self.table.representative(value)
        if value not in self._bits:
            assumed: dict[int, Bits] = {}
            stable, passes = False, 0
            while not stable:
                before, memo = dict(assumed), dict[int, Bits]()
                self._bits_of(value, memo, assumed, passes > MAX_PRECISE_BIT_PASSES, 0)
                stable, passes = before == assumed, passes + 1
            self._bits.update(memo)
        zeros, ones = self._bits[value]
        return (0, 0) if zeros & ones else (zeros, ones)

    def _bits_of(
        self, value: Value, memo: dict[int, Bits], assumed: dict[int, Bits], widen: bool, depth: int
    ) -> Bits:
        value = self.table.representative(value)
        found = self._bits.get(value, memo.get(value))
        if found is not None:
            return found
        if depth > MAX_DEFINITION_DEPTH // 2:
            return 0, 0
        node = self.table.nodes[value]
        inner = [
            self._bits_of(p, memo, assumed, widen, depth + 1)
            for p in (node.operands if type(node) in _BITWISE else ())
        ]
        if type(node) is Phi:
            # Optimistic start: every bit of a phi is assumed to be known, as 0 and as 1.
            memo[value] = assumed.setdefault(value, (EVERY, EVERY))
            zeros, ones = self._phi_bits(value, memo, assumed, widen, depth)
            if (zeros, ones) != assumed[value]:
                zeros, ones = zeros & assumed[value][0], ones & assumed[value][1]
                if (
                    widen
                ):  # carries only go up: the lowest zeros of a sum are stable, as of a pointer that strides
                    zeros, ones = (zeros ^ (zeros + 1)) >> 1, 0
                assumed[value] = zeros, ones
            result = assumed[value]
        else:
            result = self._computed_bits(value, node, inner)
        memo[value] = result
        return result

    def _phi_bits(
        self, value: Value, memo: dict[int, Bits], assumed: dict[int, Bits], widen: bool, depth: int
    ) -> Bits:
        bounds = self.interval(value)
        if bounds is not None and bounds[0] >= 0:
            return EVERY & -1 << bounds[1].bit_length(), 0
        zeros = ones = EVERY if self.table.arguments(value) else 0
        for argument in self.table.arguments(value):
            z, o = self._bits_of(argument, memo, assumed, widen, depth + 1)
            zeros, ones = zeros & z, ones & o
        return zeros, ones

    def _computed_bits(self, value: Value, node: Node, inner: list[Bits]) -> Bits:
        if type(node) is Constant:
            return _narrow(~node.number & EVERY, node.number & EVERY, self.table.is_wide(value))
        if type(node) is Sum:
            return self._sum_bits(value, node, inner)
        if type(node) is Masked:
            ((zeros, ones),) = inner
            return _narrow(zeros | (EVERY & ~node.mask), ones & node.mask, self.table.is_wide(value))
        if type(node) is Arithmetic:
            return self._arithmetic_bits(node, inner)
        if type(node) is Opaque and node.name == "mapa":
            zeros, ones = inner[0]
            return zeros & _CLUSTER_INVARIANT_BITS, ones & _CLUSTER_INVARIANT_BITS
        if type(node) is SpecialRead:
            bounds = SPECIAL_REGISTERS[node.name].bounds
            return (EVERY & -1 << bounds[1].bit_length(), 0) if bounds else (0, 0)
        if type(node) is AddressOf or type(node) is ParameterRead:
            return max(self.table.alignment(value) - 1, 0), 0
        if type(node) is Broadcast:
            return inner[0]
        if type(node) is Select:
            (z, o), (y, u) = inner[1:]
            return z & y, o & u
        if type(node) is Packed:
            low = (1 << node.width) - 1
            zeros, ones = (
                sum((bits[k] & low) << i * node.width for i, bits in enumerate(inner)) for k in (0, 1)
            )
            above = -1 << node.width * len(inner)
            return _narrow((zeros | above) & EVERY, ones & EVERY, self.table.is_wide(value))
        if type(node) is PartOf:
            low = (1 << node.width) - 1
            zeros, ones = (bits >> node.index * node.width & low for bits in inner[0])
            return _narrow((zeros | ~low) & EVERY, ones, False)
        return 0, 0

    def _arithmetic_bits(self, node: Arithmetic, inner: list[Bits]) -> Bits:
        (zeros, ones), (y, u) = inner
        if node.name == "shr":
            by = self.table.constant_of(node.operands[1])
            return (0, 0) if by is None else _shifted_bits(zeros, ones, by & 0xFFFFFFFF, node.type)
        if node.name == "and":
            return zeros | y, ones & u
        if node.name == "or":
            return zeros & y, ones | u
        return (zeros & y | ones & u, zeros & u | ones & y) if node.name == "xor" else (0, 0)

    def _sum_bits(self, value: Value, node: Sum, inner: list[Bits]) -> Bits:
        if any(z & o for z, o in inner):
            return EVERY, EVERY
        zeros, ones, most = ~node.constant & EVERY, node.constant & EVERY, node.constant
        exact = node.constant >= 0
        for (_, factor), (z, o) in zip(node.terms, inner, strict=True):
            by, largest = trailing_zeros(factor), ~z & EVERY
            exact &= factor > 0
            most += largest * factor
            if factor == 1 << by:
                z, o = (z << by | (1 << by) - 1) & EVERY, o << by & EVERY
            else:
                # A multiple has trailing zeros, and is at most the multiple of the largest value.
                unit = min(trailing_zeros(~z & EVERY) + by, 64)
                top = (largest * factor).bit_length() if factor > 0 else 64
                z, o = ((1 << unit) - 1 | -1 << min(top, 64)) & EVERY, 0
            zeros, ones = _added(zeros, ones, z, o)
        exact &= most < 1 << 31
        return (zeros, ones) if exact or self.table.is_wide(value) else _low(zeros, ones)


def _fits(number: int, type_name: str) -> bool:
    """Whether a register of a type holds a number, which is not negative, as it is."""
    return number < 1 << type_width(type_name) - (type_name[1] == "s")


def _low(zeros: int, ones: int) -> Bits:
    """The known bits without those of the upper half."""
    return zeros & 0xFFFFFFFF, ones & 0xFFFFFFFF


def _narrow(zeros: int, ones: int, wide: bool) -> Bits:
    """The known bits of a number that may have only 32 bits, and may have been widened with its sign."""
    return (zeros, ones) if wide or zeros >> 31 & 1 else _low(zeros, ones)


def _added(z: int, o: int, y: int, u: int) -> Bits:
    """The known bits of a sum: those of both operands where the carry is known, too."""
    most, least = (~z & EVERY) + (~y & EVERY), o + u
    carry = ~(most ^ z ^ y) | (least ^ o ^ u)
    known = (z | o) & (y | u) & carry
    return ~most & known & EVERY, least & known & EVERY


def _shifted_bits(zeros: int, ones: int, by: int, type_name: str) -> Bits:
    """The known bits of a number of *type_name* shifted right."""
    width = type_width(type_name)
    low = (1 << width) - 1
    zeros, ones, by = zeros & low, ones & low, min(by, width)
    if type_name[1] == "s" and not zeros >> (width - 1):
        return zeros >> by, (ones & low >> 1) >> by  # what is shifted in is unknown
    return (zeros >> by | -1 << (width - by)) & EVERY, ones >> by
