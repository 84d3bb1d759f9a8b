"""A function as one kind of thread sees it.

A warp-specialised kernel is several programs in one graph. A :class:`View` is
the knowledge about the threads that execute one instruction: the set of
threads that can be there at all, and the predicates that hold for them as long
as they live (an elected lane stays elected, a parameter stays what it is).
A view prunes the branches that these threads do not take.
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
    """Who executes: a thread set, and facts about predicate values that stay true."""

    threads: int
    facts: Facts = field(default_factory=Facts)

    def lasting(self, values: Values) -> Facts:
        """The facts that hold for the whole life of a thread."""
        return values.lasting(self.facts)


class Views:
    """The views of one function: which threads reach which block, and what holds there."""

    def __init__(self, reachability: Reachability) -> None:
        self.reachability = reachability
        self.cfg = reachability.cfg
        self.values = reachability.values
        self._views: dict[int, View] = {}
        self._unreachable: dict[Edge, tuple[set[int], set[int]]] = {}
        self._executes: dict[tuple[int, int], bool | None] = {}
        self._inside: dict[int, View] = {}
        self._kinds: dict[int, int] = {}
        self._kind_numbers: dict[tuple[int, frozenset[tuple[int, bool]]], int] = {}
        self._outcomes: dict[tuple[int, int, bool], bool | None] = {}
        self._disjoint_kinds: dict[tuple[int, int], bool] = {}
        self._exclusive: dict[tuple[int, int], bool] = {}
        self._iteration_facts: dict[int, Facts] = {}
        self._never: dict[int, list[int]] = {}
        self._never_above: dict[int, tuple[int, ...]] = {}

    def barred(self, edge: Edge, sites: AbstractSet[int]) -> AbstractSet[int]:
        """Those of *sites* whose threads, having executed them, can never take *edge*."""
        asked, barred = self._unreachable.setdefault(edge, (set(), set()))
        fresh = sites - asked
        if fresh:
            p = self.reachability.edge_value(edge)
            asked |= fresh
            if p is not None:
                barred |= {site for site in fresh if self._holds(site, p, edge.value) is False}
        return barred & sites

    def executes(self, site: int, at: int) -> bool | None:
        """Whether a thread that has executed *site* executes the guarded instruction *at* when it comes there."""
        key = (site, at)
        if key not in self._executes:
            instruction = self.cfg.function.instructions[at]
            p = self.values.before(instruction.guard, at)
            self._executes[key] = self._holds(site, p, not instruction.negated)
        return self._executes[key]

    def guarded(self, before: frozenset[Fact], after: frozenset[Fact], at: int) -> frozenset[Fact]:
        """The facts after the guarded instruction *at*, given those *before* it and those *after* it when it executed.

        What it ends goes on in threads that may skip it, and what it makes is
        known of threads that may execute it. A fact starts with the operation
        that it is about.
        """
        executes = self.executes
        kept = {f for f in before if f in after or executes(f[0], at) is not True}
        made = {f for f in after if f in before or f[0] == at or executes(f[0], at) is not False}
        return frozenset(kept | made)

    def _holds(self, site: int, p: int, truth: bool) -> bool | None:
        """Whether *p* is *truth* in the threads that executed *site*, by what stays true of them."""
        key = self._kind(site), p, truth
        if key not in self._outcomes:
            self._outcomes[key] = self._entailed(self.at(site), p, truth)
        return self._outcomes[key]

    def _kind(self, site: int) -> int:
        """A number of the view of *site*, the same for those that say the same of the whole life of a thread."""
        kind = self._kinds.get(site)
        if kind is None:
            view = self.at(site)
            invariants = view.threads, view.lasting(self.values).pairs()
            kind = self._kinds[site] = self._kind_numbers.setdefault(invariants, len(self._kind_numbers))
        return kind

    def _entailed(self, view: View, p: int, truth: bool) -> bool | None:
        values = self.values
        decided = values.decide(p, view.lasting(values))
        if decided is not None:
            return decided is truth
        if not view.threads & values.may(p, truth):
            return False
        return None if view.threads & values.may(p, not truth) else True

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
        """Whether a condition that is the same in the whole CTA lets it execute only one of two instructions."""
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
        """The view of the threads that execute instruction *site*, its guard held true."""
        if site not in self._views:
            self._views[site] = self._at(site)
        return self._views[site]

    def inside(self, block: int) -> View:
        """The view of the threads that come to *block*, and what is known of this round of the loops that it is in."""
        return View(self.reachability.reach.get(block, 0), self._facts_in_iteration(block))

    def now(self, site: int) -> View:
        """The same view, and what the branches before decided for this round of a loop only."""
        view = self.at(site)
        if site < 0:
            return view
        facts = self._facts_in_iteration(self.cfg.block_of[site])
        return View(view.threads, Facts((*facts.items(), *view.facts.items())))

    def _facts_in_iteration(self, block: int) -> Facts:
        """What the branches before *block* decide for this round of a loop, and what holds in all of its rounds."""
        facts = self._iteration_facts.get(block)
        if facts is None:
            facts = self.reachability.decided(block, passing=True)
            for p in self._never_true_at(block):
                facts = self.values.assume(p, False, facts)
            self._iteration_facts[block] = facts
        return facts

    def _never_true_at(self, block: int) -> tuple[int, ...]:
        """The same as :meth:`never`, of all loops through whose head every way to *block* leads."""
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
        """The comparisons that hold in no round of the loop with this head, if it is one, of the numbers in that round."""
        if head in self._nests and head not in self._never:
            self._never |= refuted_comparisons(self.reachability, self._nests[head])
        return self._never.get(head, [])

    @cached_property
    def _nests(self) -> dict[int, int]:
        """For the head of each loop, that of the outermost one that it is in."""
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
        view = self._inside.get(block)
        if view is None:
            facts = self.reachability.decided(block)
            reach = 0 if self.reachability.closed(block) else self.reachability.reach.get(block, 0)
            view = self._inside[block] = View(reach, facts)
        instruction = cfg.function.instructions[site]
        if instruction.guard < 0:
            return view
        p = values.before(instruction.guard, site)
        facts = values.assume(p, not instruction.negated, view.facts)
        return View(view.threads & values.may(p, not instruction.negated), facts)
