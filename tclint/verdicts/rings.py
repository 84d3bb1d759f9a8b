"""Copies into a ring buffer whose stages are selected by loop counters, and accesses of other stages meanwhile.

A loop counter that starts at a constant and whose next value depends on nothing but itself runs through a sequence of
numbers that repeats: the stages of a ring. Of a counter that grows without end, only the low bits count if addresses mask
the others away. An address that the loop carries from one iteration to the next is what it was computed from in the
previous one. If all that varies in two addresses are such values of one loop, the loop has finitely many states. From each state in which the copy may be issued, :class:`RingStates` follows all paths of the
control-flow graph on which the copy is pending, whether they are feasible or not, and yields for each access the states
of the loop at the copy and at the access. It uses the transfer functions of the checker, and knows no predicates.

An :class:`~tclint.values.addresses.AddressForm` would not do: it says which stages an address may select, and not which
one it selects while the copy has selected another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import lcm

from tclint._named_tuple import NamedTuple
from tclint.analyses.in_flight import Pending
from tclint.dataflow.kernel import Kernel
from tclint.sync.operations import OPEN
from tclint.values.integers import type_width
from tclint.values.nodes import Arithmetic, Compare, Constant, Masked, Negation, Select, Sum
from tclint.verdicts.checker import CompletionTransfer, touches_shared

__all__ = ["LARGEST", "RingStates"]

MAX_STATES = 64
"""The states of a loop that are distinguished; a loop with more is not followed."""
MAX_FOLLOWED = 20_000
"""The visits of blocks for one copy."""
_MAX_DEPTH = 32
LARGEST = 1 << 30
"""The magnitude up to which the numbers of a counter certainly do not wrap."""
Numbers = dict[int, int]
"""Counter -> its number in one state of its loop."""


class State(NamedTuple):
    """What varies in the addresses of one loop, in one of its states."""

    numbers: Numbers
    carried: dict[int, tuple[int, Numbers]]
    """A value that the loop carries -> what it was computed from, and the numbers of the counters there."""


class _Counter(NamedTuple):
    """A counter as a sequence of numbers that repeats."""

    sequence: list[int]
    back: int
    """The index that follows the last one."""

    def at(self, state: int) -> int:
        """The number in a *state* of the loop: 0 is the first one."""
        size = len(self.sequence)
        return self.sequence[state if state < size else self.back + (state - self.back) % (size - self.back)]


class _Position(NamedTuple):
    """Where a path is, in which state its loop is, and the age of the copy."""

    block: int
    at: int
    """The first instruction of the block that the path has not passed."""
    state: int
    age: int


class RingStates:
    """The loops of one kernel as sequences of states."""

    def __init__(self, model: Kernel, transfer: CompletionTransfer) -> None:
        self.model, self.transfer, self.values, self.cfg = model, transfer, model.values, model.cfg
        self._phis: dict[int, set[int]] = {}
        self._known: dict[tuple[int, int | None], _Counter | None] = {}
        self.limits: dict[tuple[int, int], str] = {}
        """A copy and an access -> the limit because of which their loop was not followed, in words."""
        self._long = set[int]()
        """The counters whose sequences do not repeat within the limit."""
        self._met: dict[tuple[int, int, int, int], dict[int, set[tuple[int, int]]] | None] = {}

    def states(
        self, copy: int, access: int, addresses: Sequence[int]
    ) -> Iterator[tuple[State, State]] | None:
        """The states of the loop of *addresses* at the *copy* and at an *access* while the copy may be pending.

        None if the addresses have counters of several loops or of none, or the loop has too many states.
        """
        phis = {c for address in addresses for c in self.counters(address)}
        heads = {self.values.phi(c).block for c in phis}
        if len(heads) != 1 or (head := min(heads)) not in self.cfg.loops:
            return None
        carried = {c: found for c in phis if (found := self._carried(c, head)) is not None}
        used = [*addresses, *(following for _, following in carried.values())]
        counters = {c for value in used for c in self.counters(value)} - carried.keys()
        repeating = {c: self._counter(c, self._bits(used, c)) for c in counters}
        known = {c: found for c, found in repeating.items() if found is not None}
        if not self._long.isdisjoint(counters - known.keys()):
            self.limits[copy, access] = f"its loop has more than {MAX_STATES} states"
        if len(known) < len(counters) or not known or any(self.values.phi(c).block != head for c in known):
            return None
        shape = _joint(list(known.values()))
        if shape is None:
            self.limits[copy, access] = f"its loop has more than {MAX_STATES} states"
            return None
        count, back = shape
        if carried:  # the first state that repeats has another one before it when it is reached again
            count, back = count + 1, back + 1
        met = self._follow(copy, head, count, back)
        if met is None:
            self.limits[copy, access] = f"it is pending for more than {MAX_FOLLOWED} visits of blocks"
            return None

        def state(index: int) -> State:
            if index < 0:
                return State({}, {})
            before = {c: each.at(index - 1) for c, each in known.items()} if index else {}
            came_from = {c: (both[1] if index else both[0], before) for c, both in carried.items()}
            return State({c: each.at(index) for c, each in known.items()}, came_from)

        return ((state(first), state(then)) for first, then in sorted(met.get(access, ())))

    def _carried(self, phi: int, head: int) -> tuple[int, int] | None:
        """What a value that the loop carries is before the loop, and what it is computed from in the previous iteration.

        None if it depends on itself or on another such value: it is a counter, or nothing that is known.
        """
        loop, arguments = self.cfg.loops[head], self.values.arguments(phi)
        sources = self.cfg.sources[head]
        if self.values.phi(phi).block != head or len(arguments) != len(sources):
            return None
        first = {
            self.values.representative(a) for a, b in zip(arguments, sources, strict=True) if b not in loop
        }
        following = {
            self.values.representative(a) for a, b in zip(arguments, sources, strict=True) if b in loop
        }
        if len(first) != 1 or len(following) != 1:
            return None
        (start,), (step,) = first, following
        counters = self.counters(step)
        if phi in counters or not counters or self.counters(start):
            return None
        return start, step

    # ------------------------------------------------------------ counters

    def evaluated(self, value: int, numbers: Numbers, depth: int = 0) -> int | None:
        """The number that *value* is, given those of counters; None if it depends on anything else.

        A number as large as one that has wrapped is not known either: it may stand for a negative one.
        """
        found = self._evaluated(self.values.representative(value), numbers, depth)
        return found if found is not None and abs(found) < LARGEST else None

    def _evaluated(self, value: int, numbers: Numbers, depth: int) -> int | None:
        if value in numbers:
            return numbers[value]
        node = self.values.node(value)
        if type(node) is Constant:
            return node.number
        if depth > _MAX_DEPTH:
            return None
        if type(node) is Sum:
            terms = [(self.evaluated(t, numbers, depth + 1), f) for t, f in node.terms]
            if any(n is None for n, _ in terms):
                return None
            return node.constant + sum(n * f for n, f in terms if n is not None)
        if type(node) is Select:
            holds = self.evaluated(node.condition, numbers, depth + 1)
            return (
                None if holds is None else self.evaluated(node.yes if holds else node.no, numbers, depth + 1)
            )
        if type(node) is Negation:
            inner = self.evaluated(node.operand, numbers, depth + 1)
            return None if inner is None else int(not inner)
        if type(node) is Compare:
            a, b = (self.evaluated(side, numbers, depth + 1) for side in node.operands)
            if a is None or b is None:
                return None
            if not node.signed and node.relation == "lt":
                a, b = (n & (1 << node.width) - 1 for n in (a, b))
            return int(a == b if node.relation == "eq" else a < b)
        if type(node) is Masked:
            inner = self.evaluated(node.value, numbers, depth + 1)
            return None if inner is None else inner & node.mask
        return None

    def counters(self, value: int) -> set[int]:
        """The phis on which *value* depends."""
        if value not in self._phis:
            is_phi = self.values.is_phi
            self._phis[value] = set(filter(is_phi, self.values.subexpressions(value, until=is_phi)))
        return self._phis[value]

    def _bits(self, values: Sequence[int], counter: int) -> int | None:
        """How many low bits of a *counter* decide *values*; None if all may."""
        found = [self.decisive(value, counter, None) for value in values]
        known = [bits for bits in found if bits is not None]
        return max(known) if len(known) == len(found) else None

    def decisive(self, value: int, counter: int, width: int | None, depth: int = 0) -> int | None:
        """How many low bits of *counter* decide the low *width* bits of *value*, or all of it; None if all may."""
        value = self.values.representative(value)
        if value == counter:
            return width
        if counter not in self.counters(value):
            return 0
        node = self.values.node(value)
        if depth > _MAX_DEPTH:
            return None
        if type(node) is Masked and node.mask >= 0:
            kept = node.mask.bit_length()
            return self.decisive(node.value, counter, kept if width is None else min(kept, width), depth + 1)
        if type(node) is Arithmetic and node.name == "shr" and width is not None:
            by = self.values.constant_of(node.operands[1])
            if by is None or by < 0 or width + by > type_width(node.type):
                return None
            return self.decisive(node.operands[0], counter, width + by, depth + 1)
        if type(node) is not Sum:
            return None
        bits = [self.decisive(t, counter, self._below(f, width), depth + 1) for t, f in node.terms]
        known = [each for each in bits if each is not None]
        return max(known) if len(known) == len(bits) else None

    @staticmethod
    def _below(factor: int, width: int | None) -> int | None:
        """How many low bits of a term decide the low *width* bits of its multiple by *factor*."""
        return None if width is None else max(0, width - ((factor & -factor).bit_length() - 1))

    def _counter(self, phi: int, bits: int | None) -> _Counter | None:
        """A loop counter, or its *bits* low bits if it does not repeat otherwise; None if it is not known."""
        if (phi, bits) not in self._known:
            found = self._run(phi, None)
            self._known[phi, bits] = self._run(phi, bits) if found is None and bits is not None else found
        return self._known[phi, bits]

    def _run(self, phi: int, bits: int | None) -> _Counter | None:
        values, block = self.values, self.values.phi(phi).block
        loop, arguments = self.cfg.loops.get(block), values.arguments(phi)
        sources = self.cfg.sources[block]
        if loop is None or len(arguments) != len(sources):
            return None
        first = {values.constant_of(a) for a, b in zip(arguments, sources, strict=True) if b not in loop}
        following = {a for a, b in zip(arguments, sources, strict=True) if b in loop}
        start = next(iter(first)) if len(first) == 1 else None
        if start is None or len(following) != 1:
            return None
        (step,) = following
        if bits is not None:
            if self.decisive(step, phi, bits) not in range(bits + 1):
                return None
            start &= (1 << bits) - 1
        sequence = [start]
        while len(sequence) <= MAX_STATES:
            number = self.evaluated(step, {phi: sequence[-1]})
            if number is None:
                return None
            if bits is not None:
                number &= (1 << bits) - 1
            if number in sequence:
                return _Counter(sequence, sequence.index(number))
            sequence.append(number)
        self._long.add(phi)
        return None

    # ------------------------------------------------------------ paths

    def _follow(self, copy: int, head: int, count: int, back: int) -> dict[int, set[tuple[int, int]]] | None:
        """For each instruction, the states of the loop at *head* when the copy was issued and when it is reached.

        The loop has *count* states; the one after the last is *back*. The state before the loop is -1.
        """
        key = copy, head, count, back
        if key not in self._met:
            met: dict[int, set[tuple[int, int]]] = {}
            starts = (
                range(count) if self.cfg.reachable_from[head] >> self.cfg.block_of[copy] & 1 else range(0)
            )
            inside = self.cfg.dominates(head, self.cfg.block_of[copy])
            followed = 0
            for start in (*starts, *(() if inside else (-1,))):
                followed += self._from(copy, head, start, count, back, met)
                if followed > MAX_FOLLOWED:
                    self._met[key] = None
                    break
            else:
                self._met[key] = met
        return self._met[key]

    def _from(
        self, copy: int, head: int, start: int, count: int, back: int, met: dict[int, set[tuple[int, int]]]
    ) -> int:
        """Adds to *met* what is reached from one *start*; returns the number of visits, too many if it gave up."""
        loop = self.cfg.loops[head]
        work = [_Position(self.cfg.block_of[copy], copy + 1, start, OPEN)]
        seen = set(work)
        while work and len(seen) <= MAX_FOLLOWED:
            block, at, state, age = work.pop()
            ages = {age}
            for i in range(at, self.cfg.blocks[block].end):
                if i in self._shared:
                    met.setdefault(i, set()).add((start, state))
                if i != copy and i in self.transfer.affecting:
                    pending = frozenset(Pending(copy, each) for each in ages)
                    ages = {p.age for p in self.transfer.after(pending, i) if p.site == copy}
                    if not ages:
                        break
            for edge in self.cfg.successors[block] if ages else ():
                then = state
                if edge.target == head:
                    then = 0 if block not in loop else state + 1 if state + 1 < count else back
                for each in ages:
                    position = _Position(edge.target, self.cfg.blocks[edge.target].start, then, each)
                    if position not in seen:
                        seen.add(position)
                        work.append(position)
        return len(seen)

    @cached_property
    def _shared(self) -> frozenset[int]:
        """The instructions that may access shared memory, now or later."""
        return frozenset(i for i, each in enumerate(self.transfer.instructions) if touches_shared(each))


def _joint(counters: Sequence[_Counter]) -> tuple[int, int] | None:
    """The number of states of several counters together, and the one after the last; None if there are too many."""
    back = max(each.back for each in counters)
    count = back + lcm(*(len(each.sequence) - each.back for each in counters))
    return (count, back) if count <= MAX_STATES else None
