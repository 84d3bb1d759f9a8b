"""What loops imply about values, whatever the path condition: counters, exit conditions, and bounds.

In a loop whose only exit is ``i == n``, i does not pass n (a *loop bound*). A value to which some iterations add and
from which none subtracts, such as the number of copies issued, is never below its start (its *trend*). Values that the
same iterations change by the same amounts stay a fixed distance apart (*lockstep*), whether the amounts are constants
or not; in the *canonical* form of a sum, one of them represents all.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tclint._named_tuple import NamedTuple
from tclint.values.induction import Induction
from tclint.values.integers import Range
from tclint.values.nodes import Compare, Masked, Negation, Phi, Select, Value
from tclint.values.ranges import INFINITY
from tclint.values.ssa import Registers
from tclint.values.substitution import Lifetimes

__all__ = ["Counter", "LoopFacts"]

MAX_COUNTER_STEP = 1 << 20
"""The largest step of a loop counter. A value that changes by more is meant to wrap, and is not a counter."""
MAX_JOINS_PER_ITERATION = 16
"""Joins through which one iteration may carry a value that only grows or only shrinks."""
_COMPARED_WIDTHS = (8, 16, 32, 64)
"""Widths in bits of the integer comparisons that are understood."""


class Counter(NamedTuple):
    """A value that a loop changes by a constant: by the same in every iteration that changes it."""

    start: Value
    """Its value on entry to the loop."""
    step: int
    advances: tuple[bool, ...]
    """For each edge into the loop header, whether the counter advances along it."""

    @property
    def in_every_iteration(self) -> bool:
        """Whether every iteration advances the counter: only the entry does not."""
        return self.advances.count(False) == 1

    def iterations_to(self, found: Range, start: Range) -> Range:
        """The numbers of iterations after which the counter is in the range *found*."""
        low, high = found[0] - start[1], found[1] - start[0]
        least, most = (low, high) if self.step > 0 else (-high, -low)
        return max(0, -(-least // abs(self.step))), most // abs(self.step)

    def after(self, iterations: Range, start: Range) -> Range:
        """The range of the counter after that many iterations."""
        low, high = sorted(self.step * n for n in iterations)
        return max(start[0] + low, -INFINITY), min(start[1] + high, INFINITY)


class _Pace(NamedTuple):
    """How a loop changes a value. Values with equal keys are in lockstep."""

    key: tuple[object, ...]
    sign: int
    """-1: it shrinks by what others with this key grow by."""
    start: Value
    """The value on entry to the loop."""


class LoopFacts:
    """The counters of loops, and what holds in all iterations because of how a loop ends."""

    def __init__(
        self, registers: Registers, lifetimes: Lifetimes, induction: Induction, strict: bool = False
    ) -> None:
        self.registers, self.lifetimes, self.induction = registers, lifetimes, induction
        self.strict = strict
        """Whether a loop that ends at a bound, and not at a number, may start past it."""
        self.table, self.cfg = registers.table, registers.cfg
        self._bases: dict[int, tuple[int, int, bool]] = {}
        self._counters: dict[int, Counter | None] = {}
        self._exit_condition_cache: dict[int, dict[int, bool]] = {}
        self._trends: dict[int, tuple[tuple[int, ...], int] | None] = {}
        self._paces: dict[int, _Pace | None] = {}
        self._mates: dict[tuple[object, ...], int] = {}
        """A representative of each class of values in lockstep, by the key of their pace."""
        self._canonical_cache: dict[int, int] = {}
        self._comparison_cache: dict[int, tuple[Compare, bool] | None] = {}
        self._bounds: dict[int, tuple[tuple[int, int, int], ...]] = {}

    def base(self, value: Value) -> tuple[Value, int, bool]:
        """``(base, constant, negated)`` such that *value* is the base, negated or not, plus the constant."""
        found = self._bases.get(value)
        if found is None:
            terms, constant = self.table.linear(value)
            negative = bool(terms) and terms[0][1] < 0
            if negative:
                terms = tuple((t, -f) for t, f in terms)
            found = self._bases[value] = self.table.total(terms, 0), constant, negative
        return found

    def comparison(self, fact: Value) -> tuple[Compare, bool] | None:
        """*fact* as ``(comparison with a constant, whether it is not negated)``; None if it is not one."""
        if fact not in self._comparison_cache:
            self._comparison_cache[fact] = self._compute_comparison(fact)
        return self._comparison_cache[fact]

    def _compute_comparison(self, fact: Value) -> tuple[Compare, bool] | None:
        """See :meth:`comparison`."""
        table = self.table
        node, positive = table.nodes[fact], True
        if type(node) is not Compare:
            return None
        moved = table.difference(fact)
        if moved is not None:
            node, positive = moved[0], not moved[1]
        elif node.relation == "eq" and table.constant_of(node.right) is None:
            difference = table.add(node.left, table.times(node.right, -1))
            terms, constant = table.linear(difference)
            node = Compare("eq", table.total(terms, 0), table.constant(-constant), node.signed, node.width)
        return (
            (node, positive)
            if table.constant_of(node.right) is not None and node.width in _COMPARED_WIDTHS
            else None
        )

    def counter(self, value: Value) -> Counter | None:
        """The counter that *value* is in its loop; None if it is not one."""
        if value not in self._counters:
            found: Counter | None = None
            table = self.table
            steps = self.induction.steps(value)
            if len(steps) == 1 and abs(min(steps)) <= MAX_COUNTER_STEP:
                arguments = table.arguments(value)
                ends = [table.linear(a) for a in arguments]
                starts = {a for a, (terms, _) in zip(arguments, ends, strict=True) if terms != ((value, 1),)}
                advances = tuple(by in steps and terms == ((value, 1),) for terms, by in ends)
                found = Counter(starts.pop(), min(steps), advances) if len(starts) == 1 else None
            self._counters[value] = found
        return self._counters[value]

    def is_carried(self, value: Value) -> bool:
        """Whether *value* contains one that has origins, or that may be in lockstep with others."""
        return any(
            self.origins(term) is not None or self._pace(term) is not None
            for term, _ in self.table.linear(value)[0]
        )

    def origins(self, value: Value) -> tuple[tuple[Value, ...], int] | None:
        """``(values, sign)`` if *value* is one of the values, or on that side of one; None if nothing is known of it.

        A value with a trend has its starts; a phi outside loop headers has its arguments. None of them is defined again
        between the definition of *value* and a use of it, so a bound of their distance from a third value at that use
        bounds the distance of *value* as well.
        """
        trend = self.trend(value)
        if trend is not None:
            return trend
        node = self.table.node(value)
        joins = type(node) is Phi and node.block not in self.cfg.loops
        joined = self.table.arguments(value) if joins else ()
        return (joined, 0) if joined else None

    def trend(self, value: Value) -> tuple[tuple[Value, ...], int] | None:
        """``(starts, sign)`` if *value* is never below where it starts (1), or never above it (-1); None if unknown.

        That holds for a value that a loop only lets grow or shrink, and for one that branches in the loop join.
        """
        if value not in self._trends:
            counter = self.counter(value)
            found = self._compute_trend(value) if counter is None else ((counter.start,), counter.step)
            self._trends[value] = None if found is None else (found[0], 1 if found[1] > 0 else -1)
        return self._trends[value]

    def _compute_trend(self, value: Value) -> tuple[tuple[Value, ...], int] | None:
        """``(starts, some step)`` if every path around the loop adds constants of one sign to *value*, or nothing."""
        table = self.table
        node, arguments = table.node(value), table.arguments(value)
        if type(node) is not Phi or not arguments:
            return None
        loop = self.cfg.loops.get(node.block)
        if loop is None:
            return self._joined_trend(value)
        incoming = list(zip(self.cfg.sources[node.block], arguments, strict=True))
        starts = {argument for source, argument in incoming if source not in loop}
        work = [argument for source, argument in incoming if source in loop]
        steps, seen = set[int](), {value}
        while work:
            terms, step = table.linear(work.pop())
            if len(terms) != 1 or terms[0][1] != 1 or abs(step) > MAX_COUNTER_STEP:
                return None
            steps.add(step)
            ((term, _),) = terms
            if term not in seen:
                seen.add(term)
                joined = self._joined(term, loop)
                if not joined or len(seen) > MAX_JOINS_PER_ITERATION:
                    return None
                work += joined
        steps.discard(0)
        if not starts or not steps or min(steps) < 0 < max(steps):
            return None
        return tuple(sorted(starts)), steps.pop()

    def _joined_trend(self, value: Value) -> tuple[tuple[Value, ...], int] | None:
        """The trend of *value*, a phi of branches: that of the loop's own value, to which each branch adds a constant."""
        table = self.table
        heads, steps, seen, work = set[int](), set[int](), {value}, [value]
        while work and len(seen) <= MAX_JOINS_PER_ITERATION:
            for terms, step in map(table.linear, table.arguments(work.pop())):
                term = terms[0][0] if len(terms) == 1 and terms[0][1] == 1 else -1
                if term < 0 or abs(step) > MAX_COUNTER_STEP:
                    return None
                node = table.node(term)
                if type(node) is not Phi or not table.arguments(term):
                    return None
                steps.add(step)
                if node.block in self.cfg.loops:
                    heads.add(term)
                elif term not in seen:
                    seen.add(term)
                    work.append(term)
        found = self.trend(heads.pop()) if len(heads) == 1 and not work else None
        return found if found is not None and all(step * found[1] >= 0 for step in steps) else None

    def _joined(self, value: Value, loop: AbstractSet[int]) -> tuple[Value, ...]:
        """The values one of which *value* is because of a branch in *loop* or a select; empty for any other value."""
        node = self.table.node(value)
        if type(node) is Select:
            return node.arms
        return self.table.arguments(value) if type(node) is Phi and node.block in loop else ()

    def _pace(self, value: Value) -> _Pace | None:
        """How a loop changes *value* in every iteration; None if it is not known to add something in each of them."""
        if value not in self._paces:
            self._paces[value] = self._compute_pace(value)
        return self._paces[value]

    def _compute_pace(self, value: Value) -> _Pace | None:
        """See :meth:`_pace`."""
        table = self.table
        node, arguments = table.node(value), table.arguments(value)
        loop = self.cfg.loops.get(node.block) if type(node) is Phi else None
        if type(node) is not Phi or loop is None or not arguments:
            return None
        counter = self.counter(value)
        if counter is not None:
            step = counter.step
            key = node.block, abs(step), counter.advances
            return _Pace(key, 1 if step > 0 else -1, counter.start) if counter.in_every_iteration else None
        starts, added = set[int](), list[int]()
        for source, argument in zip(self.cfg.sources[node.block], arguments, strict=True):
            if source not in loop:
                starts.add(argument)
                continue
            by = table.add(argument, table.times(value, -1))
            if any(term == value for term, _ in table.linear(by)[0]):
                return None
            added.append(by)
        return _Pace((node.block, *added), 1, starts.pop()) if len(starts) == 1 else None

    def canonical(self, value: Value) -> Value:
        """The canonical form of *value*: constants hoisted out of minima and maxima, values in lockstep merged."""
        found = self._canonical_cache.get(value)
        if found is None:
            table = self.table
            total = dict[int, int]()
            terms, constant = table.linear(value)
            work = list(terms)
            while work:
                term, factor = work.pop()
                if (moved := table.hoisted_constant(term)) is not None:
                    term, by = moved
                    constant += by * factor
                pace = self._pace(term)
                partner = term if pace is None else self._mates.setdefault(pace.key, term)
                if pace is not None and partner != term and (other := self._pace(partner)) is not None:
                    same = pace.sign * other.sign
                    more, difference = table.linear(table.add(pace.start, table.times(other.start, -same)))
                    constant += difference * factor
                    work += [(t, f * factor) for t, f in more]
                    term, factor = partner, factor * same
                total[term] = total.get(term, 0) + factor
            terms = tuple(sorted((t, f) for t, f in total.items() if f))
            found = self._canonical_cache[value] = table.total(terms, constant)
        return found

    def exit_conditions(self, head: int) -> dict[Value, bool]:
        """The predicates by which every iteration of a loop decides whether to leave it, with the truth that does."""
        if head not in self._exit_condition_cache:
            table, cfg = self.table, self.cfg
            found = dict[int, bool]()
            for edge in cfg.leaving.get(head, ()):
                if edge.predicate >= 0 and cfg.in_every_iteration(edge.source, head):
                    p = table.representative(
                        self.registers.before(edge.predicate, cfg.blocks[edge.source].end - 1)
                    )
                    found[p] = edge.value
                    if type(node := table.node(p)) is Negation:
                        found[table.representative(node.operand)] = not edge.value
            self._exit_condition_cache[head] = found
        return self._exit_condition_cache[head]

    def _has_single_exit(self, head: int) -> bool:
        """Whether exactly one edge leaves the loop, and no block in it ends the function."""
        cfg = self.cfg
        return len(cfg.leaving.get(head, ())) == 1 and cfg.loops[head].isdisjoint(cfg.exits)

    def _varies_otherwise(self, head: int, value: Value) -> bool:
        """Whether a term of *value* other than a counter changes in the loop."""
        cfg, table = self.cfg, self.table
        loop = cfg.loops.get(head, ())
        return any(
            (at if kind == "block" else cfg.block_of[at]) in loop
            for term, _ in table.linear(value)[0]
            if self.counter(term) is None
            for kind, at in self.lifetimes.varying_at(term)
        )

    def stride_until(self, fact: Value, value: Value, truth: bool = True) -> int:
        """The change of *value* in each iteration of a loop that exits as soon as *fact* is *truth*; 0 if unknown.

        Only where the exit is not stepped over: the change is 1 or -1, or the loop has no other exit.
        """
        counted = self._only_counter(value)
        if counted is None:
            return 0
        term, factor, counter = counted
        head = self.table.phi(term).block
        by = factor * counter.step
        if self.exit_conditions(head).get(fact) is not truth or self._varies_otherwise(head, value):
            return 0
        return by if abs(by) == 1 or (abs(factor) == 1 and self._has_single_exit(head)) else 0

    def stride_to_end(self, fact: Value, value: Value) -> int:
        """The same for a loop that *value* enters before its end; 0 if unknown.

        It does where the loop has no other exit, since it would wrap otherwise. Values that are not *strict* take it to do
        so in any loop.
        """
        by = self.stride_until(fact, value)
        counted = self._only_counter(value) if by and self.strict else None
        return 0 if counted and not self._has_single_exit(self.table.phi(counted[0]).block) else by

    def started(self, value: Value) -> Value | None:
        """*value* on entry to the loop whose counter it contains; None unless it contains exactly one."""
        table, counted = self.table, self._only_counter(value)
        if counted is None:
            return None
        term, factor, counter = counted
        return table.add(value, table.times(table.add(counter.start, table.times(term, -1)), factor))

    def _only_counter(self, value: Value) -> tuple[Value, int, Counter] | None:
        """The only counter among the terms of *value*, with its factor; None unless there is exactly one."""
        counted = [(t, f, c) for t, f in self.table.linear(value)[0] if (c := self.counter(t)) is not None]
        return counted[0] if len(counted) == 1 else None

    def is_remainder_loop(self, head: int, p: Value) -> bool:
        """Whether a loop runs the remainder of a division by a power of two, and *p* is not its exit condition.

        Compilers emit such a loop after an unrolled one.
        """
        table, ends = self.table, self.exit_conditions(head)
        if table.representative(p) in ends:
            return False
        for fact in ends:
            comparison = self.comparison(fact)
            for term, _ in table.linear(comparison[0].left)[0] if comparison is not None else ():
                counter = self.counter(term)
                for start, _ in table.linear(counter.start)[0] if counter is not None else ():
                    node = table.node(start)
                    if type(node) is Masked and node.mask > 0 and not node.mask & node.mask + 1:
                        return True
        return False

    def bounds(self, base: Value) -> tuple[tuple[int, int, int], ...]:
        """``(low, high, rest)`` for each loop that bounds ``base - rest`` to [low, high]; rest is loop-invariant."""
        found = self._bounds.get(base)
        if found is None:
            table = self.table
            heads = {table.phi(t).block for t, _ in table.linear(base)[0] if self.counter(t) is not None}
            ends = ((head, *end) for head in heads for end in self.exit_conditions(head).items())
            each = (self._bound(head, fact, truth, base) for head, fact, truth in ends)
            found = self._bounds[base] = tuple(bound for bound in each if bound is not None)
        return found

    def _bound(self, head: int, fact: Value, truth: bool, base: Value) -> tuple[int, int, int] | None:
        """The same for one loop, if *fact* being *truth* is its only exit condition."""
        table, until = self.table, self._until(head, fact, truth)
        if until is None:
            return None
        left, limit, by = until
        own, shift, negative = self.base(left)
        end = shift - limit if negative else limit - shift
        low, high = (-INFINITY, end) if (by > 0) is not negative else (end, INFINITY)
        for factor in (1, -1):
            rest = table.add(self.canonical(base), table.times(self.canonical(own), -factor))
            if not any(self.counter(t) for t, _ in table.linear(rest)[0]):
                return (low, high, rest) if factor == 1 else (-high, -low, rest)
        return None

    def _until(self, head: int, fact: Value, truth: bool) -> tuple[int, int, int] | None:
        """``(value, limit, step)`` if a loop whose only exit is *fact* lets *value* reach *limit* and not pass it.

        A loop that ends at a bound is left by the first value that is not within it. Each iteration begins with a value
        that is one step further than one within the bound.
        """
        comparison = self.comparison(fact)
        limit = None if comparison is None else self.table.constant_of(comparison[0].right)
        if comparison is None or limit is None or not self._has_single_exit(head):
            return None
        node, positive = comparison
        left = node.left
        by = self.stride_until(fact, left, truth)
        if node.relation == "eq":
            return (left, limit, by) if by and truth else None
        if self.strict or not node.signed:
            return None
        if by > 0 and truth is not positive:  # it continues while left < limit
            return left, limit - 1 + by, by
        return (left, limit + by, by) if by < 0 and truth is positive else None
