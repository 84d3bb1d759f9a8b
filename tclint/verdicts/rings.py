"""Copies into a ring buffer whose stages are selected by loop counters, and accesses of other stages meanwhile.

A loop counter that starts at a constant and whose next value depends on nothing but itself runs through a sequence of
numbers that repeats: the stages of a ring. If all that varies in two addresses are such counters of one loop, the loop
has finitely many states. From each state in which the copy may be issued, :class:`Rings` follows all paths of the
control-flow graph on which the copy is pending, whether they are feasible or not, and yields for each access the states
of the loop at the copy and at the access. It uses the transfer functions of the checker, and knows no predicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import lcm
from typing import NamedTuple

from tclint.analyses.model import KernelModel
from tclint.verdicts.checker import OPEN, Pending, Transfer, touches_shared

__all__ = ["Rings"]

MAX_STATES = 64
"""The states of a loop that are distinguished; a loop with more is not followed."""
MAX_FOLLOWED = 20_000
"""The visits of blocks for one copy."""
_MAX_DEPTH = 32
_LARGEST = 1 << 30
"""The magnitude up to which the numbers of a counter certainly do not wrap."""
Numbers = dict[int, int]
"""Counter -> its number in one state of its loop."""


class _Position(NamedTuple):
    """Where a path is, in which state its loop is, and the age of the copy."""

    block: int
    at: int
    """The first instruction of the block that the path has not passed."""
    state: int
    age: int


class Rings:
    """The loops of one kernel as sequences of states."""

    def __init__(self, model: KernelModel, transfer: Transfer) -> None:
        self.model, self.transfer, self.values, self.cfg = model, transfer, model.values, model.cfg
        self._phis: dict[int, set[int]] = {}
        self._sequences: dict[int, list[int] | None] = {}
        self._repeats: dict[int, int] = {}
        """Counter -> the index of its sequence that follows the last one."""
        self.limits: dict[tuple[int, int], str] = {}
        """A copy and an access -> the limit because of which their loop was not followed, in words."""
        self._long = set[int]()
        """The counters whose sequences do not repeat within the limit."""
        self._met: dict[tuple[int, int, int, int], dict[int, set[tuple[int, int]]] | None] = {}

    def states(
        self, copy: int, access: int, addresses: Sequence[int]
    ) -> Iterator[tuple[Numbers, Numbers]] | None:
        """The numbers of the counters in *addresses* at the *copy* and at an *access* while the copy may be pending.

        None if the addresses have counters of several loops or of none, or the loop has too many states.
        """
        counters = {c for address in addresses for c in self._counters(address)}
        heads = {self.values.node(c)[1] for c in counters}
        if len(heads) != 1 or (head := min(heads)) not in self.cfg.loops:
            return None
        sequences = {c: self._sequence(c) for c in counters}
        known = {c: s for c, s in sequences.items() if s is not None}
        if not self._long.isdisjoint(sequences):
            self.limits[copy, access] = f"its loop has more than {MAX_STATES} states"
        if len(known) < len(sequences) or not known:
            return None
        shape = _joint([len(s) for s in known.values()], [self._repeats[c] for c in known])
        if shape is None:
            self.limits[copy, access] = f"its loop has more than {MAX_STATES} states"
            return None
        count, back = shape
        met = self._follow(copy, head, count, back)
        if met is None:
            self.limits[copy, access] = f"it is pending for more than {MAX_FOLLOWED} visits of blocks"
            return None

        def numbers(state: int) -> Numbers:
            return {c: _at(s, self._repeats[c], state) for c, s in known.items()} if state >= 0 else {}

        return ((numbers(first), numbers(then)) for first, then in sorted(met.get(access, ())))

    # ------------------------------------------------------------ counters

    def evaluated(self, value: int, numbers: Numbers, depth: int = 0) -> int | None:
        """The number that *value* is, given those of counters; None if it depends on anything else."""
        value = self.values.representative(value)
        if value in numbers:
            return numbers[value]
        kind, *parts = self.values.node(value)
        if kind == "const":
            return int(parts[0])
        if depth > _MAX_DEPTH:
            return None
        if kind == "sum":
            terms = [(self.evaluated(t, numbers, depth + 1), f) for t, f in parts[0]]
            if any(n is None for n, _ in terms):
                return None
            total = int(parts[1]) + sum(n * f for n, f in terms if n is not None)
            return total if abs(total) < _LARGEST else None
        if kind == "select":
            chosen = self.evaluated(parts[0], numbers, depth + 1)
            return None if chosen is None else self.evaluated(parts[1 if chosen else 2], numbers, depth + 1)
        if kind == "not":
            inner = self.evaluated(parts[0], numbers, depth + 1)
            return None if inner is None else int(not inner)
        if kind == "compare":
            a, b = (self.evaluated(p, numbers, depth + 1) for p in parts[1:3])
            if a is None or b is None:
                return None
            if not parts[3] and parts[0] == "lt":
                a, b = (n & (1 << parts[4]) - 1 for n in (a, b))
            return int(a == b if parts[0] == "eq" else a < b)
        if kind == "op" and parts[0] == "mask":
            inner = self.evaluated(parts[1], numbers, depth + 1)
            return None if inner is None else inner & parts[2] & 0xFFFFFFFF
        return None

    def _counters(self, value: int) -> set[int]:
        """The phis on which *value* depends."""
        if value not in self._phis:
            self._phis[value] = set(
                filter(self._is_phi, self.values.subexpressions(value, until=self._is_phi))
            )
        return self._phis[value]

    def _is_phi(self, value: int) -> bool:
        return bool(self.values.node(value)[0] == "phi")

    def _sequence(self, phi: int) -> list[int] | None:
        """The numbers of a loop counter from the entry of its loop on, until they repeat; None if they are unknown."""
        if phi not in self._sequences:
            self._sequences[phi] = self._run(phi)
        return self._sequences[phi]

    def _run(self, phi: int) -> list[int] | None:
        values, block = self.values, self.values.node(phi)[1]
        loop, arguments = self.cfg.loops.get(block), values.arguments(phi)
        sources = self.cfg.sources[block]
        if loop is None or len(arguments) != len(sources):
            return None
        first = {values.constant_of(a) for a, b in zip(arguments, sources, strict=True) if b not in loop}
        following = {a for a, b in zip(arguments, sources, strict=True) if b in loop}
        start = next(iter(first)) if len(first) == 1 else None
        if start is None or len(following) != 1:
            return None
        (step,), sequence = following, [start]
        while len(sequence) <= MAX_STATES:
            number = self.evaluated(step, {phi: sequence[-1]})
            if number is None:
                return None
            if number in sequence:
                self._repeats[phi] = sequence.index(number)
                return sequence
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


def _at(sequence: list[int], back: int, state: int) -> int:
    """The number of a counter in a *state* of its loop: 0 is the first, and *back* the one after the last number."""
    size = len(sequence)
    return sequence[state if state < size else back + (state - back) % (size - back)]


def _joint(sizes: list[int], backs: list[int]) -> tuple[int, int] | None:
    """The number of states of several counters together, and the one after the last; None if there are too many."""
    back = max(backs)
    count = back + lcm(*(size - b for size, b in zip(sizes, backs, strict=True)))
    return (count, back) if count <= MAX_STATES else None
