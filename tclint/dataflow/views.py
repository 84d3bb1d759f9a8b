"""A function as one kind of thread sees it.

A warp-specialised kernel is several programs in one graph. A :class:`ThreadContext` is the knowledge about the threads
that execute one instruction: the set of threads that can be there, and the predicates that hold for them as long as
they live (an elected lane stays elected, a parameter keeps its value). It excludes the branches that these threads do
not take. Thread sets and facts over-approximate: "no thread" and "False" are proofs, unknown is None.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cached_property
from typing import Any, TypeVar

from tclint._dataclass import dataclass
from tclint.dataflow.loop_invariants import Invariant, loop_invariants
from tclint.dataflow.reachability import Reachability
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Site
from tclint.values import PathCondition, UniformityScope, Values
from tclint.values import thread_masks as T
from tclint.values.nodes import Value

__all__ = ["ThreadContext", "Views"]

MIN_TESTS, MAX_TESTS_PER_INSTRUCTION = 100_000, 100
"""The instructions for whose threads a predicate is looked up: so many, and so many more for each instruction of the function.
Real kernels come nowhere near."""
_TESTS_PER_OUTCOME = 10
"""The tests that take as long as to decide a predicate for the first time, of which real kernels need less than one for each
instruction."""

Fact = TypeVar("Fact", bound=tuple[Any, ...])


@dataclass(frozen=True)
class ThreadContext:
    """The threads that may execute an instruction, and the path condition that holds for them."""

    threads: T.Threads
    facts: PathCondition = field(default_factory=PathCondition)

    def invariant(self, values: Values) -> PathCondition:
        """The facts that hold for the whole life of a thread."""
        return values.invariant(self.facts)


class Views:
    """The thread contexts of one function's instructions, and what follows from them."""

    def __init__(self, reachability: Reachability, general: Views | None = None) -> None:
        """*general* are the views of the same function in more executions: what holds in all of these is not proved again."""
        self.reachability, self.general = reachability, general
        self.cfg = reachability.cfg
        self.values = reachability.values
        self._contexts: dict[int, ThreadContext] = {}
        self._unreachable: dict[Edge, tuple[set[int], set[int]]] = {}
        self._executes: dict[tuple[int, int], bool | None] = {}
        self._block_contexts: dict[int, ThreadContext] = {}
        self._kinds: dict[int, int] = {}
        self._kind_numbers: dict[tuple[int, frozenset[tuple[int, bool]]], int] = {}
        """``(threads, lifetime facts)`` -> the number of the kind of threads that have them."""
        self._outcomes: dict[tuple[int, int, bool], bool | None] = {}
        self._tests = 0
        """The tests so far."""
        self._disjoint_kinds: dict[tuple[int, int], bool] = {}
        self._exclusive: dict[tuple[int, int], bool] = {}
        self._iteration_facts: dict[int, PathCondition] = {}
        self._never: dict[int, list[int]] = {}
        self._known_invariants: dict[int, list[Invariant]] = {}
        self._never_above: dict[int, tuple[int, ...]] = {}

    def unreachable_after(self, edge: Edge, sites: AbstractSet[Site]) -> AbstractSet[Site]:
        """Those of *sites* such that a thread that has executed them can never take *edge*."""
        tested, barred = self._unreachable.setdefault(edge, (set(), set()))
        new = sites - tested
        if new and not self._spent:
            p = self.reachability.edge_predicate(edge)
            tested |= new
            self._tests += len(new)
            if p is not None:
                barred |= {site for site in new if self._holds(site, p, edge.value) is False}
        return barred & sites

    def executes(self, site: Site, at: Site) -> bool | None:
        """Whether a thread that has executed *site* also executes the guarded instruction *at* when it reaches it."""
        key = (site, at)
        if key not in self._executes:
            instruction = self.cfg.function.instructions[at]
            p = self.values.before(instruction.guard, at)
            self._executes[key] = self._holds(site, p, not instruction.negated)
        return self._executes[key]

    def guarded(self, before: frozenset[Fact], after: frozenset[Fact], at: Site) -> frozenset[Fact]:
        """The facts after the guarded instruction *at*, given those *before* it and those *after* it if it executes.

        A fact that the instruction ends survives in threads that may skip it; one that it generates exists in threads
        that may execute it. The first element of a fact is the operation that it is about.
        """
        executes = self.executes
        kept = {f for f in before if f in after or executes(f[0], at) is not True}
        made = {f for f in after if f in before or f[0] == at or executes(f[0], at) is not False}
        return frozenset(kept | made)

    def _holds(self, site: Site, p: Value, truth: bool) -> bool | None:
        """Whether *p* is *truth* for all threads that executed *site*, by what holds for their whole life.

        False if for none of them; None if unknown.
        """
        key = self.kind(site), p, truth
        if key not in self._outcomes:
            if self._spent:
                return None
            self._tests += _TESTS_PER_OUTCOME
            self._outcomes[key] = self._entailed(self.context_of(site), p, truth)
        return self._outcomes[key]

    @property
    def _spent(self) -> bool:
        """Whether no further predicate is decided: answers are then less precise, and searches close fewer paths."""
        limit = MIN_TESTS + MAX_TESTS_PER_INSTRUCTION * len(self.cfg.function.instructions)
        return self._tests >= limit

    def kind(self, site: Site) -> int:
        """The number of the context of *site*, equal for contexts with the same threads and lifetime facts."""
        kind = self._kinds.get(site)
        if kind is None:
            context = self.context_of(site)
            invariants = context.threads, context.invariant(self.values).pairs()
            kind = self._kinds[site] = self._kind_numbers.setdefault(invariants, len(self._kind_numbers))
        return kind

    def _entailed(self, context: ThreadContext, p: Value, truth: bool) -> bool | None:
        values = self.values
        decided = values.entails(p, context.invariant(values))
        if decided is not None:
            return decided is truth
        if not context.threads & values.feasible_threads(p, truth):
            return False
        return None if context.threads & values.feasible_threads(p, not truth) else True

    def mutually_exclusive(self, a: Site, b: Site) -> bool:
        """Whether no thread can execute both *a* and *b*."""
        key = self.kind(a), self.kind(b)
        if key not in self._disjoint_kinds:
            self._disjoint_kinds[key] = self._contradict(self.context_of(a), self.context_of(b))
        return self._disjoint_kinds[key]

    def _contradict(self, here: ThreadContext, there: ThreadContext) -> bool:
        if not here.threads & there.threads:
            return True
        facts = here.invariant(self.values)
        return any(self.values.entails(p, facts) is (not v) for p, v in there.invariant(self.values).items())

    def exclusive(self, a: Site, b: Site) -> bool:
        """Whether a CTA-uniform condition makes *a* and *b* mutually exclusive."""
        key = self.kind(a), self.kind(b)
        if key not in self._exclusive:
            values = self.values
            facts = self.context_of(b).invariant(values)
            self._exclusive[key] = any(
                values.entails(p, facts) is (not truth) and values.uniformity(p) is UniformityScope.CTA
                for p, truth in self.context_of(a).invariant(values).items()
            )
        return self._exclusive[key]

    def context_of(self, site: Site) -> ThreadContext:
        """The context of the threads that execute instruction *site*, its guard assumed to be true."""
        if site not in self._contexts:
            self._contexts[site] = self._at(site)
        return self._contexts[site]

    def block_context(self, block: int) -> ThreadContext:
        """The context of the threads that reach *block*, with what is known for the current iteration of its loops."""
        return ThreadContext(self.reachability.threads_at.get(block, 0), self._facts_in_iteration(block))

    def context_in_iteration(self, site: Site) -> ThreadContext:
        """The context of *site*, with what the dominating branches imply for the current iteration of its loops."""
        context = self.context_of(site)
        if site < 0:
            return context
        facts = self._facts_in_iteration(self.cfg.block_of[site])
        return ThreadContext(context.threads, PathCondition((*facts.items(), *context.facts.items())))

    def _facts_in_iteration(self, block: int) -> PathCondition:
        """What the dominating branches of *block* imply for the current iteration, and the invariants of its loops."""
        facts = self._iteration_facts.get(block)
        if facts is None:
            facts = self.reachability.path_condition(block, in_iteration=True)
            for p in self._never_true_at(block):
                facts = self.values.refine(p, False, facts)
            self._iteration_facts[block] = facts
        return facts

    def _never_true_at(self, block: int) -> tuple[Value, ...]:
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

    def never_true(self, head: int) -> list[Value]:
        """The comparisons that are false in every iteration of the loop with header *head*; empty for any other block.

        They are in terms of the values of the current iteration.
        """
        if head in self._nests and head not in self._never:
            root = self._nests[head]
            heads = self.cfg.loops.keys() & self.cfg.loops[root]
            self._never |= {each: [] for each in heads}
            for invariant in self._invariants(root):
                self._never[invariant.head].append(invariant.contradicted_by(self.values, self.cfg))
        return self._never.get(head, [])

    def _invariants(self, root: int) -> list[Invariant]:
        """The invariants of the nest of loops with outermost header *root*."""
        if self.general is not None:
            return self.general._invariants(root)
        if root not in self._known_invariants:
            self._known_invariants[root] = loop_invariants(self.reachability, root)
        return self._known_invariants[root]

    @cached_property
    def _nests(self) -> dict[int, int]:
        """For each loop header, the header of the outermost loop that contains it."""
        loops = self.cfg.loops
        nests: dict[int, int] = {}
        for root in sorted(loops, key=lambda head: -len(loops[head])):
            if root not in nests:
                nests |= dict.fromkeys(loops.keys() & loops[root], root)
        return nests

    def _at(self, site: Site) -> ThreadContext:
        cfg, values = self.cfg, self.values
        if site < 0:
            return ThreadContext(T.full(values.threads))
        block = cfg.block_of[site]
        context = self._block_contexts.get(block)
        if context is None:
            facts = self.reachability.path_condition(block)
            reach = 0 if self.reachability.closed(block) else self.reachability.threads_at.get(block, 0)
            context = self._block_contexts[block] = ThreadContext(reach, facts)
        instruction = cfg.function.instructions[site]
        if instruction.guard < 0:
            return context
        p, truth = values.before(instruction.guard, site), not instruction.negated
        never = values.entails(p, context.facts) is (not truth)
        return ThreadContext(
            0 if never else context.threads & values.feasible_threads(p, truth),
            values.refine(p, truth, context.facts),
        )
