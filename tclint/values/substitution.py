"""Where values may change, and what they become along a path."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Container, Sequence

from tclint.ir.cfg import CFG, Edge
from tclint.values.integers import applied
from tclint.values.value_table import Node, ValueTable

__all__ = ["AtSize", "Lifetimes", "PathSubstitution"]

MAX_EXPRESSIONS_PER_QUESTION = 4000
"""Expressions that one question about a path may substitute, in addition to those that earlier questions did."""
_NOWHERE: frozenset[tuple[str, int]] = frozenset()


class _BudgetExhausted(Exception):
    """A question has substituted all the expressions that it may."""


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

    def __call__(self, value: int) -> int:
        return self.walk(value, len(self.edges))

    def extended(self, edge: Edge) -> PathSubstitution:
        """The substitution for the path extended by *edge*, with no more instructions in :attr:`passed`."""
        return PathSubstitution(self._lifetimes, (*self.edges, edge), self.passed, self)

    def walk(self, value: int, end: int) -> int:
        """*value* after the first *end* edges; *value* itself if that exceeds the budget."""
        lifetimes, memo = self._lifetimes, self._memo
        value = lifetimes.table.representative(value)
        if not lifetimes.varying_at(value):
            return value
        before = self._before
        if before is not None and end <= len(before.edges):
            return before.walk(value, end)
        found = memo.get((value, end))
        if found is None:
            if not self._max_memo:
                return self._walk_within_budget(value, end)
            if len(memo) >= self._max_memo:
                raise _BudgetExhausted
            memo[value, end] = value  # breaks cycles: a value in terms of itself is opaque
            found = memo[value, end] = lifetimes.substituted(value, self, end)
        return found

    def _walk_within_budget(self, value: int, end: int) -> int:
        """:meth:`walk` as one question with a budget of its own.

        Truncated results are not cached, so an answer does not depend on how many questions were asked before.
        """
        memo = self._memo
        known = len(memo)
        self._max_memo = known + MAX_EXPRESSIONS_PER_QUESTION
        try:
            return self.walk(value, end)
        except _BudgetExhausted:
            while len(memo) > known:
                memo.popitem()
            memo[value, end] = value
            self._lifetimes.gave_up(f"more than {MAX_EXPRESSIONS_PER_QUESTION} expressions")
            return value
        finally:
            self._max_memo = 0


class AtSize(PathSubstitution):
    """The values of expressions in a CTA of a given number of threads."""

    __slots__ = ()

    def __init__(self, lifetimes: Lifetimes, threads: int) -> None:
        super().__init__(lifetimes, (), frozenset())
        table = lifetimes.table
        self._memo[table.special("%ntid.x"), 0] = table.constant(threads)

    def walk(self, value: int, end: int) -> int:
        table, memo = self._lifetimes.table, self._memo
        value = table.representative(value)
        if (value, end) not in memo:
            memo[value, end] = value
            if len(memo) < MAX_EXPRESSIONS_PER_QUESTION and table.node(value)[0] in (
                "sum",
                "op",
                "select",
                "compare",
                "logic",
                "not",
                "part",
            ):
                memo[value, end] = self._lifetimes.substituted(value, self, end)
        return memo[value, end]


class Lifetimes:
    """Where values change, and how."""

    def __init__(self, table: ValueTable, cfg: CFG, gave_up: Callable[[str], object]) -> None:
        self.table, self.cfg = table, cfg
        self.gave_up = gave_up
        """Called with the reason when a question about a path is not answered."""
        self._volatile: dict[int, frozenset[tuple[str, int]]] = {}
        self._renewed: dict[int, frozenset[tuple[str, int]]] = {}
        self.invalidated: dict[tuple[str, int], set[int]] = {}
        """Location, as in :meth:`varying_at` -> the values that vary there, among those asked for so far."""
        self.invalidating_sites: list[int] = []

    def varying_at(self, value: int) -> frozenset[tuple[str, int]]:
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
        kind = node[0]
        result: frozenset[tuple[str, int]]
        if kind == "phi":
            result = frozenset((("block", node[1]),))
        elif kind in ("unknown", "collective"):
            result = frozenset((("site", node[1]),))
        elif kind == "load":
            result = frozenset((("site", node[1]),)) | self.varying_at(node[3])
        else:
            result = _NOWHERE
            for part in self.table.parts(node):
                varying = self.varying_at(part)
                if not varying <= result:
                    result = result | varying if result else varying
        self._volatile[value] = result
        return result

    def loop_varying_at(self, value: int) -> frozenset[tuple[str, int]]:
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

    def substituted(self, value: int, path: PathSubstitution, end: int) -> int:
        """One step of :meth:`along`: *value* after the first *end* edges of *path*."""
        edges, walk = path.edges, path.walk
        node = self.table.nodes[value]
        kind = node[0]
        if kind == "phi":
            block, arguments = node[1], self.table.arguments(value)
            for at in range(end - 1, -1, -1):
                if edges[at].target == block:
                    sources = self.cfg.sources[block]
                    if len(arguments) != len(sources):
                        return self.table.intern("later", value, at)
                    return walk(arguments[sources.index(edges[at].source)], at)
            return value
        if kind in ("unknown", "collective", "load"):
            return self.table.intern("later", value, end) if node[1] in path.passed else value
        if kind == "sum":
            total = self.table.constant(node[2])
            for term, factor in node[1]:
                total = self.table.add(total, self.table.times(walk(term, end), factor))
            return total
        if kind == "select":
            return self.table.select(*(walk(x, end) for x in node[1:4]))
        if kind == "not":
            return self.table.negate(walk(node[1], end))
        if kind == "logic":
            return self.table.logic(node[1], walk(node[2], end), walk(node[3], end))
        if kind == "compare":
            return self.table.compare(node[1], walk(node[2], end), walk(node[3], end), node[4], node[5])
        if kind == "op" and node[1] == "mask":
            inner = walk(node[2], end)
            number = self.table.constant_of(inner)
            return (
                self.table.masked(inner, node[3], 64)
                if number is None
                else self.table.constant(number & node[3])
            )
        if kind == "op":
            return self._reapplied(node, [walk(x, end) for x in node[3:]])
        if kind == "part":
            return self.table.part(node[1], node[2], walk(node[3], end))
        if kind == "pack":
            return self.table.pack(node[1], [walk(x, end) for x in node[2:]])
        if kind == "vector":
            return self.table.intern(kind, *(walk(x, end) for x in node[1:]))
        return self.table.intern("later", value, end)

    def _reapplied(self, node: Node, arguments: list[int]) -> int:
        """The operation of *node* on other arguments, folded if these are constants."""
        numbers = [n for n in map(self.table.constant_of, arguments) if n is not None]
        number = applied(node[1], node[2], numbers) if len(numbers) == len(arguments) else None
        return self.table.intern(*node[:3], *arguments) if number is None else self.table.constant(number)
