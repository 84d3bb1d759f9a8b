"""A function as one kind of thread sees it.

A warp-specialised kernel is several programs in one graph. A :class:`ThreadContext` is the knowledge about the threads
that execute one instruction: the set of threads that can be there, and the predicates that hold for them as long as
they live (an elected lane stays elected, a parameter keeps its value). It excludes the branches that these threads do
not take. Thread sets and facts over-approximate: "no thread" and "False" are proofs, unknown is None.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from tclint.dataflow.loop_invariants import refuted_comparisons
from tclint.dataflow.reachability import Reachability
from tclint.ir.cfg import Edge
from tclint.values import Facts, Level, Values
from tclint.values import thread_masks as T

__all__ = ["View", "Views"]

Fact = TypeVar("Fact", bound=tuple[Any, ...])


@dataclass(frozen=True)
class View:
    """The threads that may execute an instruction, and the path condition that holds for them."""

    threads: int
    facts: Facts = field(default_factory=Facts)

    def lasting(self, values: Values) -> Facts:
        """The facts that hold for the whole life of a thread."""
        return values.lasting(self.facts)


class Views:
    """The thread contexts of one function's instructions, and what follows from them."""

    def __init__(self, reachability: Reachability) -> None:
        self.reachability = reachability
        self.cfg = reachability.cfg
        self.values = reachability.values
        self._contexts: dict[int, View] = {}
        self._unreachable: dict[Edge, tuple[set[int], set[int]]] = {}
        self._executes: dict[tuple[int, int], bool | None] = {}
        self._block_contexts: dict[int, View] = {}
        self._kinds: dict[int, int] = {}
        self._kind_numbers: dict[tuple[int, frozenset[tuple[int, bool]]], int] = {}
        """``(threads, lifetime facts)`` -> the number of the kind of threads that have them."""
        self._outcomes: dict[tuple[int, int, bool], bool | None] = {}
        self._disjoint_kinds: dict[tuple[int, int], bool] = {}
        self._exclusive: dict[tuple[int, int], bool] = {}
        self._iteration_facts: dict[int, Facts] = {}
        self._never: dict[int, list[int]] = {}
        self._never_above: dict[int, tuple[int, ...]] = {}

    def barred(self, edge: Edge, sites: AbstractSet[int]) -> AbstractSet[int]:
        """Those of *sites* such that a thread that has executed them can never take *edge*."""
        tested, barred = self._unreachable.setdefault(edge, (set(), set()))
        new = sites - tested
        if new:
            p = self.reachability.edge_value(edge)
            tested |= new
            if p is not None:
                barred |= {site for site in new if self._holds(site, p, edge.value) is False}
        return barred & sites

    def executes(self, site: int, at: int) -> bool | None:
        """Whether a thread that has executed *site* also executes the guarded instruction *at* when it reaches it."""
        key = (site, at)
        if key not in self._executes:
            instruction = self.cfg.function.instructions[at]
            p = self.values.before(instruction.guard, at)
            self._executes[key] = self._holds(site, p, not instruction.negated)
        return self._executes[key]

    def guarded(self, before: frozenset[Fact], after: frozenset[Fact], at: int) -> frozenset[Fact]:
        """The facts after the guarded instruction *at*, given those *before* it and those *after* it if it executes.

        A fact that the instruction ends survives in threads that may skip it; one that it generates exists in threads
        that may execute it. The first element of a fact is the operation that it is about.
        """
        executes = self.executes
        kept = {f for f in before if f in after or executes(f[0], at) is not True}
        made = {f for f in after if f in before or f[0] == at or executes(f[0], at) is not False}
        return frozenset(kept | made)

    def _holds(self, site: int, p: int, truth: bool) -> bool | None:
        """Whether *p* is *truth* for all threads that executed *site*, by what holds for their whole life.

        False if for none of them; None if unknown.
        """
        key = self._kind(site), p, truth
        if key not in self._outcomes:
            self._outcomes[key] = self._entailed(self.at(site), p, truth)
        return self._outcomes[key]

    def _kind(self, site: int) -> int:
        """The number of the context of *site*, equal for contexts with the same threads and lifetime facts."""
        kind = self._kinds.get(site)
        if kind is None:
            context = self.at(site)
            invariants = context.threads, context.lasting(self.values).pairs()
            kind = self._kinds[site] = self._kind_numbers.setdefault(invariants, len(self._kind_numbers))
        return kind

    def _entailed(self, context: View, p: int, truth: bool) -> bool | None:
        values = self.values
        decided = values.decide(p, context.lasting(values))
        if decided is not None:
            return decided is truth
        if not context.threads & values.may(p, truth):
            return False
        return None if context.threads & values.may(p, not truth) else True

    def apart(self, a: int, b: int) -> bool:
        """Whether no thread can execute both *a* and *b*."""
        key = self._kind(a), self._kind(b)
        if key not in self._disjoint_kinds:
            self._disjoint_kinds[key] = self._contradict(self.at(a), self.at(b))
        return self._disjoint_kinds[key]

    def _contradict(self, here: View, there: View) -> bool:
        if not here.threads & there.threads:
            return True
        facts = here.lasting(self.values)
        return any(self.values.decide(p, facts) is (not v) for p, v in there.lasting(self.values).items())

    def exclusive(self, a: int, b: int) -> bool:
        """Whether a CTA-uniform condition makes *a* and *b* mutually exclusive."""
        key = self._kind(a), self._kind(b)
        if key not in self._exclusive:
            values = self.values
            facts = self.at(b).lasting(values)
            self._exclusive[key] = any(
                values.decide(p, facts) is (not truth) and values.level(p) is Level.CTA
                for p, truth in self.at(a).lasting(values).items()
            )
        return self._exclusive[key]

    def at(self, site: int) -> View:
        """The context of the threads that execute instruction *site*, its guard assumed to be true."""
        if site not in self._contexts:
            self._contexts[site] = self._at(site)
        return self._contexts[site]

    def inside(self, block: int) -> View:
        """The context of the threads that reach *block*, with what is known for the current iteration of its loops."""
        return View(self.reachability.reach.get(block, 0), self._facts_in_iteration(block))

    def now(self, site: int) -> View:
        """The context of *site*, with what the dominating branches imply for the current iteration of its loops."""
        context = self.at(site)
        if site < 0:
            return context
        facts = self._facts_in_iteration(self.cfg.block_of[site])
        return View(context.threads, Facts((*facts.items(), *context.facts.items())))

    def _facts_in_iteration(self, block: int) -> Facts:
        """What the dominating branches of *block* imply for the current iteration, and the invariants of its loops."""
        facts = self._iteration_facts.get(block)
        if facts is None:
            facts = self.reachability.decided(block, in_iteration=True)
            for p in self._never_true_at(block):
                facts = self.values.assume(p, False, facts)
            self._iteration_facts[block] = facts
        return facts

    def _never_true_at(self, block: int) -> tuple[int, ...]:
        """:meth:`never_true` of all loops whose header dominates *block*."""
        idom, chain = self.cfg.idom, [block]
        while chain[-1] not in self._never_above and (above := idom.get(chain[-1], chain[-1])) != chain[-1]:
            chain.append(above)
        kept = self._never_above.get(chain[-1], ())
        for b in reversed(chain):
            if b not in self._never_above:
                never = self.never_true(b)
                kept = self._never_above[b] = (*kept, *never) if never else kept
        return kept

    def never_true(self, head: int) -> list[int]:
        """The comparisons that are false in every iteration of the loop with header *head*; empty for any other block.

        They are in terms of the values of the current iteration.
        """
        if head in self._nests and head not in self._never:
            self._never |= refuted_comparisons(self.reachability, self._nests[head])
        return self._never.get(head, [])

    @cached_property
    def _nests(self) -> dict[int, int]:
        """For each loop header, the header of the outermost loop that contains it."""
        loops = self.cfg.loops
        nests: dict[int, int] = {}
        for root in sorted(loops, key=lambda head: -len(loops[head])):
            if root not in nests:
                nests |= dict.fromkeys(loops.keys() & loops[root], root)
        return nests

    def _at(self, site: int) -> View:
        cfg, values = self.cfg, self.values
        if site < 0:
            return View(T.full(values.threads))
        block = cfg.block_of[site]
        context = self._block_contexts.get(block)
        if context is None:
            facts = self.reachability.decided(block)
            reach = 0 if self.reachability.closed(block) else self.reachability.reach.get(block, 0)
            context = self._block_contexts[block] = View(reach, facts)
        instruction = cfg.function.instructions[site]
        if instruction.guard < 0:
            return context
        p = values.before(instruction.guard, site)
        facts = values.assume(p, not instruction.negated, context.facts)
        return View(context.threads & values.may(p, not instruction.negated), facts)
