"""What all threads of a CTA know of the branches that they have taken together, for certificates that follow paths.

A *history* holds predicates that all threads share, each with its truth, as they were where the threads passed them, and the last
edges since into the blocks whose phis such predicates depend on. A predicate that is tested later is expressed by what the
registers held before these edges, so facts of different iterations of a loop are compared: ``i + 2 < n`` was false two iterations
ago, so ``i < n`` is now.

A fact that is forgotten admits more paths, and never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from tclint._named_tuple import NamedTuple
from tclint.dataflow.kernel import Kernel
from tclint.ir.cfg import Edge
from tclint.values.nodes import Literal, Phi
from tclint.verdicts.definitions import Definitions, Uniformly

__all__ = ["History", "PathFacts"]


MAX_TAKEN = 10
"""The edges that a history holds."""
MAX_FACTS = 40
"""The facts that a history holds."""


class Fact(NamedTuple):
    """A predicate that had a truth after the first of the edges that a history holds."""

    value: int
    truth: bool
    after: int
    """How many edges."""


class History(NamedTuple):
    """The branches that all threads have taken."""

    taken: tuple[Edge, ...] = ()
    facts: tuple[Fact, ...] = ()


class PathFacts:
    """How histories of one kernel grow; the blocks *deciding* end in the branches that matter, and *conditions* are predicates that
    matter besides.

    *shared* says of a value whether it is the same in all threads, with what says so of a phi.
    """

    def __init__(
        self,
        model: Kernel,
        definitions: Definitions,
        deciding: Collection[int],
        conditions: Iterable[int],
        shared: Callable[[int, Callable[[Phi], bool]], bool],
    ) -> None:
        self.model, self.values, self.cfg = model, model.values, model.cfg
        self.definitions, self.shared = definitions, shared
        self.deciding, self.conditions = frozenset(deciding), tuple(conditions)
        self._known: dict[tuple[tuple[Edge, ...], tuple[Fact, ...], int, bool], bool] = {}
        self._before: dict[tuple[tuple[Edge, ...], int], int | None] = {}

    @cached_property
    def phis(self) -> frozenset[Phi]:
        """What the predicates depend on and paths change."""
        tested = [value for b in sorted(self.deciding) if (value := self._tested(b)) is not None]
        return self.values.phis_of((*tested, *self.conditions))

    @cached_property
    def blocks(self) -> frozenset[int]:
        """The blocks whose entries change the predicates."""
        return frozenset(phi.block for phi in self.phis)

    def short_counters(self, most: int) -> Iterator[int]:
        """The phis that count loops which *most* iterations at most are executed of, by constants."""
        for block in sorted(self.deciding):
            test = self._tested(block)
            node = None if test is None else self.values.comparison(test)[0]
            if node is None:
                continue
            terms, constant = self.values.linear(self.values.minus(*node.operands))
            if len(terms) != 1 or not self.values.is_phi(terms[0][0]):
                continue
            phi, factor = terms[0]
            starts = {n for a in self.values.arguments(phi) if (n := self.values.constant_of(a)) is not None}
            steps = self.values.steps(phi)
            if len(steps) == len(starts) == 1:
                first, each = factor * next(iter(starts)) + constant, factor * next(iter(steps))
                if each and 0 < -first / each <= most:
                    yield phi

    def _tested(self, block: int) -> int | None:
        """The predicate by which a block ends; None if there is none, or it may be of another iteration."""
        last = self.cfg.blocks[block].end - 1
        guard = self.model.function.instructions[last].guard
        if guard < 0 or not self.definitions.dominate(guard, last):
            return None
        return self.values.before(guard, last)

    def follows(self, value: int) -> bool:
        """Whether nothing but entries of :attr:`blocks` changes a value."""
        return all(kind == "block" and at in self.blocks for kind, at in self.values.varying_at(value))

    def along(self, history: History, edge: Edge, uniform: Uniformly) -> History | None:
        """The history after an edge; None if no thread takes it."""
        found: History | None = history
        if edge.predicate >= 0 and edge.source in self.deciding:
            last = self.cfg.blocks[edge.source].end - 1
            if self.definitions.dominate(edge.predicate, last):
                value = self.values.before(edge.predicate, last)
                found = self.supposing(history, (value, edge.value), uniform)
        if found is None or edge.target not in self.blocks:
            return found
        taken = (*found.taken, edge)
        return History(taken, found.facts) if len(taken) <= MAX_TAKEN else self._shortened(taken, found.facts)

    def begins_before_end(self, history: History, edge: Edge) -> bool:
        """Whether a loop that *edge*, the last one of *history*, enters and that ends when a counter equals a number begins with no
        greater one, if it grows.

        What the values say about counters of loops takes that for granted, since the counter would wrap otherwise; but a thread
        that waits indefinitely in the loop does not get there.
        """
        head = edge.target
        if head not in self.blocks or head not in self.cfg.loops or edge.source in self.cfg.loops[head]:
            return True
        leaving = [edge for edge in self.cfg.leaving.get(head, ()) if edge.predicate >= 0]
        ends = [(e.predicate, self.cfg.blocks[e.source].end - 1) for e in leaving]
        return all(self._begins_before(history, head, self.values.before(*end)) for end in ends)

    def _begins_before(self, history: History, head: int, test: int) -> bool:
        """The same for one test by which threads leave the loop."""
        node, _ = self.values.comparison(test)
        if node is None or node.relation != "eq":
            return True
        left, right = node.operands
        by = self._step(self.values.minus(left, right), head)
        if by == 0:
            return True  # the loop does not change it
        first = [self._then(history.taken, side) for side in (left, right)]
        if by is None or None in first:
            return False
        here, there = (side for side in first if side is not None)
        distance = self.values.constant_of(self.values.minus(here, there))
        if abs(by) > 1 and (distance is None or distance % by):
            return False
        low, high = (there, here) if by > 0 else (here, there)
        passed = self.values.compare("lt", low, high, True, node.width)
        return self._impossible(history, passed)

    def _step(self, value: int, head: int) -> int | None:
        """By how much a value grows in each iteration of a loop; None if that is not known."""
        total = 0
        for term, factor in self.values.linear(value)[0]:
            if ("block", head) in self.values.varying_at(term):
                steps = self.values.steps(term) if self.values.is_phi(term) else frozenset[int]()
                if len(steps) != 1:
                    return None
                total += factor * next(iter(steps))
        return total

    def _impossible(self, history: History, value: int) -> bool:
        """Whether a predicate in terms of what was there before all edges of a history cannot hold."""
        facts = [(self._then(history.taken[: f.after], f.value), f.truth) for f in history.facts]
        known = [(fact, truth) for fact, truth in facts if fact is not None]
        return next(iter(self.values.contradicted((value,), known)))

    def _shortened(self, taken: tuple[Edge, ...], facts: tuple[Fact, ...]) -> History:
        """A history without its first edge, and what was known before that alone."""
        kept = (
            fact._replace(after=max(0, fact.after - 1))
            for fact in facts
            if fact.after or not self.values.varying_at(fact.value)
        )
        return History(taken[1:], tuple(dict.fromkeys(kept)))

    def choices(
        self, history: History, literals: Iterable[Literal], uniform: Uniformly
    ) -> Iterator[tuple[bool, History]]:
        """Whether all of *literals* may hold, with the history if they do; and the histories with which one does not."""
        held: History | None = history
        for value, truth in literals:
            if held is None:
                return
            if (failed := self.supposing(held, (value, not truth), uniform)) is not None:
                yield False, failed
            held = self.supposing(held, (value, truth), uniform)
        if held is not None:
            yield True, held

    def supposing(self, history: History, literal: Literal, uniform: Uniformly) -> History | None:
        """The history once a predicate has had a truth; None if it cannot."""
        value, truth = literal

        def same(phi: Phi) -> bool:
            return uniform(phi.block, phi.register)

        if not (self.follows(value) and self.shared(value, same)):
            return history
        if self._excludes(history, value, truth):
            return None
        if self.values.varying_at(value):  # what it may follow from is forgotten earlier
            fact = Fact(value, truth, len(history.taken))
        elif self._excludes(History((), self._lasting(history)), value, not truth):
            return history
        else:
            fact = Fact(value, truth, 0)
        kept = tuple(each for each in history.facts if each != fact)
        return history._replace(facts=(*kept, fact)[-MAX_FACTS:])

    def _lasting(self, history: History) -> tuple[Fact, ...]:
        """The facts that hold for the whole life of a thread."""
        return tuple(fact for fact in history.facts if not self.values.varying_at(fact.value))

    def _excludes(self, history: History, value: int, truth: bool) -> bool:
        """Whether a predicate cannot have a truth now: by what was known since the last of the edges, or the first one."""
        key = history.taken, history.facts, value, truth
        if key not in self._known:
            starts = dict.fromkeys((len(history.taken), 0))
            self._known[key] = any(self._excluded(history, value, truth, start) for start in starts)
        return self._known[key]

    def _excluded(self, history: History, value: int, truth: bool, start: int) -> bool:
        """The same, where all is expressed by what was there after the first *start* edges."""
        then, facts = self._then(history.taken[start:], value), list[Literal]()
        for fact in history.facts:
            lasting = not self.values.varying_at(fact.value)
            if lasting or fact.after >= start:
                taken = () if lasting else history.taken[start : fact.after]
                known = self._then(taken, fact.value)
                facts += [] if known is None else [(known, fact.truth)]
        wanted = then if then is None or truth else self.values.negate(then)
        return wanted is not None and next(iter(self.values.contradicted((wanted,), facts)))

    def _then(self, taken: tuple[Edge, ...], value: int) -> int | None:
        """A value in terms of what was there before the edges *taken*; None if it is not known."""
        key = taken, value
        if key not in self._before:
            entered = {("block", edge.target) for edge in taken}
            found = self.values.along(taken, frozenset())(value) if taken else value
            # A search that is given up yields the value as it is, which stands for another one where a path changes it.
            same = self.values.representative(value) == found and bool(
                self.values.varying_at(value) & entered
            )
            self._before[key] = None if same or not self.follows(found) else found
        return self._before[key]
