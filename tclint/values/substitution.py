"""Where values may change, and what they become along a path."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Container, Mapping, Sequence

from tclint.ir.cfg import CFG, Edge
from tclint.values.integers import applied
from tclint.values.nodes import (
    COMPUTED,
    Applied,
    Arithmetic,
    CollectiveResult,
    Compare,
    Later,
    Loaded,
    Logic,
    Masked,
    Negation,
    Packed,
    PartOf,
    Phi,
    Select,
    Sum,
    Unmodelled,
    Value,
    VectorOf,
)
from tclint.values.value_table import ValueTable

__all__ = ["Lifetimes", "PathSubstitution", "Replacement"]

MAX_EXPRESSIONS_PER_QUESTION = 4000
"""Expressions that one question about a path may substitute, in addition to those that earlier questions did."""
MAX_SUBSTITUTION_DEPTH = 150
"""Expressions inside one another that a question about a path may substitute: each takes up to five calls of Python."""
_NOWHERE: frozenset[tuple[str, int]] = frozenset()
_REPLACED = COMPUTED - {Packed}
"""What is computed again from operands that are replaced."""
_SUBSTITUTED = COMPUTED - {Sum} | {VectorOf}
"""What is computed again from operands after a path."""


class _BudgetExhausted(Exception):
    """A question has substituted all the expressions that it may, or as deep as it may."""


class PathSubstitution:
    """The values of expressions at the end of a path (:meth:`Lifetimes.along`).

    A class and not a recursive closure: that would keep the whole function alive until the garbage collector runs.
    """

    __slots__ = ("_before", "_lifetimes", "_max_memo", "_memo", "edges", "passed")

    def __init__(
        self,
        lifetimes: Lifetimes,
        edges: Sequence[Edge],
        passed: Container[int],
        before: PathSubstitution | None = None,
    ) -> None:
        self._lifetimes = lifetimes
        self._before = before
        self._memo: dict[tuple[int, int], int] = {}
        self._max_memo = 0
        """The size of the memo at which the current question exceeds its budget; 0: no question is being answered."""
        self.edges = edges
        self.passed = passed

    def __call__(self, value: Value) -> Value:
        return self.walk(value, len(self.edges))

    def extended(self, edge: Edge) -> PathSubstitution:
        """The substitution for the path extended by *edge*, with no more instructions in :attr:`passed`."""
        return PathSubstitution(self._lifetimes, (*self.edges, edge), self.passed, self)

    def walk(self, value: Value, end: int) -> Value:
        """*value* after the first *end* edges; *value* itself if that exceeds the budget."""
        lifetimes, memo = self._lifetimes, self._memo
        value = lifetimes.table.representative(value)
        if not lifetimes.varying_at(value):
            return value
        owner = self
        while (before := owner._before) is not None and end <= len(before.edges):
            owner = before
        if owner is not self:
            return owner.walk(value, end)
        found = memo.get((value, end))
        if found is None:
            if not self._max_memo:
                return self._walk_within_budget(value, end)
            if len(memo) >= self._max_memo:
                raise _BudgetExhausted(f"more than {MAX_EXPRESSIONS_PER_QUESTION} expressions")
            if lifetimes.depth >= MAX_SUBSTITUTION_DEPTH:
                raise _BudgetExhausted(f"more than {MAX_SUBSTITUTION_DEPTH} expressions inside one another")
            memo[value, end] = value  # breaks cycles: a value in terms of itself is opaque
            lifetimes.depth += 1
            found = memo[value, end] = lifetimes.substituted(value, self, end)
            lifetimes.depth -= 1
        return found

    def _walk_within_budget(self, value: Value, end: int) -> Value:
        """:meth:`walk` as one question with a budget of its own.

        Truncated results are not cached, so an answer does not depend on how many questions were asked before.
        """
        memo, lifetimes = self._memo, self._lifetimes
        known, depth = len(memo), lifetimes.depth
        self._max_memo = known + MAX_EXPRESSIONS_PER_QUESTION
        try:
            return self.walk(value, end)
        except _BudgetExhausted as exhausted:
            while len(memo) > known:
                memo.popitem()
            lifetimes.depth = depth
            if depth:  # a part of the question that another path asks
                raise
            memo[value, end] = value
            lifetimes.gave_up(str(exhausted))
            return value
        finally:
            self._max_memo = 0


class Replacement(PathSubstitution):
    """The values of expressions in which some values are others."""

    __slots__ = ()

    def __init__(self, lifetimes: Lifetimes, others: Mapping[Value, Value]) -> None:
        super().__init__(lifetimes, (), frozenset())
        self._memo.update(((value, 0), other) for value, other in others.items())

    def walk(self, value: Value, end: int) -> Value:
        table, memo = self._lifetimes.table, self._memo
        value = table.representative(value)
        if (value, end) not in memo:
            memo[value, end] = value
            if len(memo) < MAX_EXPRESSIONS_PER_QUESTION and type(table.node(value)) in _REPLACED:
                memo[value, end] = self._lifetimes.substituted(value, self, end)
        return memo[value, end]


class Lifetimes:
    """Where values change, and how."""

    def __init__(self, table: ValueTable, cfg: CFG, gave_up: Callable[[str], object]) -> None:
        self.table, self.cfg = table, cfg
        self.gave_up = gave_up
        """Called with the reason when a question about a path is not answered."""
        self.depth = 0
        """The expressions inside one another that are being substituted."""
        self._volatile: dict[int, frozenset[tuple[str, int]]] = {}
        self._renewed: dict[int, frozenset[tuple[str, int]]] = {}
        self.invalidated: dict[tuple[str, int], set[int]] = {}
        """Location, as in :meth:`varying_at` -> the values that vary there, among those asked for so far."""
        self.invalidating_sites: list[int] = []

    def at_size(self, threads: int) -> Replacement:
        """The values of expressions in a CTA of so many threads in x."""
        return self.replacing({self.table.special("%ntid.x"): self.table.constant(threads)})

    def replacing(self, others: Mapping[Value, Value]) -> Replacement:
        """The values of expressions in which representative values are *others*."""
        return Replacement(self, others)

    def varying_at(self, value: Value) -> frozenset[tuple[str, int]]:
        """Where *value* may change: ``("block", b)`` for a phi, ``("site", i)`` for a load or an unknown value.

        The set is empty if the value is the same for the whole life of a thread.
        """
        alias = self.table.alias
        while value in alias:
            value = alias[value]
        found = self._volatile.get(value)
        if found is not None:
            return found
        self._volatile[value] = _NOWHERE
        node = self.table.nodes[value]
        result: frozenset[tuple[str, int]]
        if type(node) is Phi:
            result = frozenset((("block", node.block),))
        elif type(node) is Unmodelled or type(node) is CollectiveResult:
            result = frozenset((("site", node.site),))
        elif type(node) is Loaded:
            result = frozenset((("site", node.site),)) | self.varying_at(node.address)
        else:
            result = _NOWHERE
            for part in node.operands:
                varying = self.varying_at(part)
                if not varying <= result:
                    result = result | varying if result else varying
        self._volatile[value] = result
        return result

    def loop_varying_at(self, value: Value) -> frozenset[tuple[str, int]]:
        """Where *value* may change after it was computed: the locations of :meth:`varying_at` that are in a loop."""
        found = self._renewed.get(value)
        if found is None:
            cfg = self.cfg
            found = self._renewed[value] = frozenset(
                (kind, at)
                for kind, at in self.varying_at(value)
                if (at if kind == "block" else cfg.block_of[at]) in cfg.in_cycle
            )
            for location in found:
                if location not in self.invalidated and location[0] == "site":
                    insort(self.invalidating_sites, location[1])
                self.invalidated.setdefault(location, set()).add(value)
        return found

    def along(self, edges: Sequence[Edge], passed: Container[int]) -> PathSubstitution:
        """The substitution for a path: expressions at its end in terms of values at its start.

        The path takes *edges* and executes the instructions *passed*. A phi is the argument that belongs to the last
        edge into its block; a load that the path executes again is a new value.
        """
        return PathSubstitution(self, edges, passed)

    def substituted(self, value: Value, path: PathSubstitution, end: int) -> Value:
        """One step of :meth:`along`: *value* after the first *end* edges of *path*."""
        table, node = self.table, self.table.nodes[value]
        if type(node) is Phi:
            return self._at_phi(value, node.block, path, end)
        if type(node) is Unmodelled or type(node) is CollectiveResult or type(node) is Loaded:
            return table.intern(Later, value, end) if node.site in path.passed else value
        if type(node) is Sum:
            total = table.constant(node.constant)
            for term, factor in node.terms:
                total = table.add(total, table.times(path.walk(term, end), factor))
            return total
        if type(node) not in _SUBSTITUTED:
            return table.intern(Later, value, end)
        inner = [path.walk(x, end) for x in node.operands]
        if type(node) is Select:
            return table.select(*inner)
        if type(node) is Negation:
            return table.negate(*inner)
        if type(node) is Logic:
            return table.logic(node.name, *inner)
        if type(node) is Compare:
            left, right = inner
            return table.compare(node.relation, left, right, node.signed, node.width)
        if type(node) is Masked:
            number = table.constant_of(inner[0])
            if number is not None:
                return table.constant(number & node.mask)
            return table.masked(inner[0], node.mask, 64)
        if isinstance(node, Applied):
            return self._reapplied(node, inner)
        if type(node) is PartOf:
            return table.part(node.index, node.width, *inner)
        if type(node) is Packed:
            return table.pack(node.width, inner)
        return table.intern(VectorOf, tuple(inner))

    def _at_phi(self, phi: Value, block: int, path: PathSubstitution, end: int) -> Value:
        """The argument of a phi that the last edge into its block chooses; the phi if there is no such edge."""
        edges, arguments = path.edges, self.table.arguments(phi)
        for at in range(end - 1, -1, -1):
            if edges[at].target == block:
                sources = self.cfg.sources[block]
                if len(arguments) != len(sources):
                    return self.table.intern(Later, phi, at)
                return path.walk(arguments[sources.index(edges[at].source)], at)
        return phi

    def _reapplied(self, node: Applied, arguments: list[Value]) -> Value:
        """The operation of *node* on other arguments, folded if these are constants."""
        numbers = [n for n in map(self.table.constant_of, arguments) if n is not None]
        number = applied(node.name, node.modifiers, numbers) if len(numbers) == len(arguments) else None
        if number is not None:
            return self.table.constant(number)
        modifiers = node.type if type(node) is Arithmetic else node.modifiers
        return self.table.intern(type(node), node.name, modifiers, tuple(arguments))
