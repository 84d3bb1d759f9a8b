"""Whether one thread has certainly skipped an instruction that has a condition, by the branches that all threads take later.

The last copies of a pipeline have a condition, ``i + 2 < n``, and the loop ends with ``i + 1 == n``. So the copies of the last
two iterations are skipped, which the condition of the branch says that leaves the loop, once it is expressed by what the
counters were when the copy was issued or skipped. A condition that decides whether a loop is entered, and never changes, holds for
what the loop contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from tclint.dataflow.kernel import Kernel
from tclint.ir.cfg import Edge
from tclint.values.nodes import Literal, Logic, Negation, Phi
from tclint.verdicts.definitions import Definitions, Uniformly

__all__ = ["Skipped"]


class Skipped:
    """The instructions *sites* of one kernel, and the conditions under which one thread executes them.

    *shared* says of a value whether it is the same in all threads, with what says so of a phi.
    """

    def __init__(
        self,
        model: Kernel,
        definitions: Definitions,
        sites: Iterable[int],
        shared: Callable[[int, Callable[[Phi], bool]], bool],
    ) -> None:
        self.model, self.values, self.cfg = model, model.values, model.cfg
        self.definitions, self.shared = definitions, shared
        self.sites = tuple(sites)
        self._before: dict[tuple[tuple[Edge, ...], Edge], int | None] = {}
        self._known: dict[tuple[int, int, bool, Uniformly], bool] = {}

    @cached_property
    def phis(self) -> frozenset[Phi]:
        """What the conditions depend on and paths change."""
        return self.values.phis_of(value for site in self.sites for value, _ in self._conditions[site])

    @cached_property
    def blocks(self) -> frozenset[int]:
        """The blocks whose entries change what the conditions depend on."""
        return frozenset(phi.block for phi in self.phis)

    @cached_property
    def _conditions(self) -> dict[int, list[Literal]]:
        return {site: list(self._of(site)) for site in self.sites}

    def conditional(self, site: int) -> bool:
        """Whether an instruction has a condition that other threads may know."""
        return bool(self._conditions.get(site))

    def certainly(self, site: int, taken: tuple[Edge, ...], edge: Edge, uniform: Uniformly) -> bool:
        """Whether the thread that may execute *site* has not executed it, if threads that passed its position have then taken
        the edges *taken*, the last ones into each of :attr:`blocks`, and now take *edge*.

        *uniform* says of a register that is defined on entry to a block whether it is the same in all threads.
        """
        if edge.predicate < 0 or (then := self._then(taken, edge)) is None:
            return False
        key = site, then, edge.value, uniform
        if key not in self._known:
            self._known[key] = self._excludes(site, then, edge.value, uniform)
        return self._known[key]

    def _then(self, taken: tuple[Edge, ...], edge: Edge) -> int | None:
        """The predicate of *edge* in terms of what was there before the edges *taken*; None if anything else may change it."""
        if (taken, edge) not in self._before:
            last = self.cfg.blocks[edge.source].end - 1
            predicate = self.values.before(edge.predicate, last)
            found = None
            if self.definitions.dominate(edge.predicate, last) and self._follows(predicate):
                then = self.values.along(taken, frozenset())(predicate)
                found = then if self._follows(then) else None
            self._before[taken, edge] = found
        return self._before[taken, edge]

    def _excludes(self, site: int, then: int, truth: bool, uniform: Uniformly) -> bool:
        """Whether a predicate that has a truth excludes the conditions of an instruction, each by what all threads share."""

        def same(phi: Phi) -> bool:
            return uniform(phi.block, phi.register)

        if not self.shared(then, same):
            return False
        literals = [each for each in self._conditions[site] if self.shared(each[0], same)]
        wanted = then if truth else self.values.negate(then)
        return bool(literals) and next(iter(self.values.contradicted((wanted,), literals)))

    def _follows(self, value: int) -> bool:
        """Whether nothing but entries of :attr:`blocks` changes a value."""
        return all(kind == "block" and at in self.blocks for kind, at in self.values.varying_at(value))

    def _of(self, site: int) -> Iterator[Literal]:
        """What holds where an instruction executes, of what can be followed."""
        instruction, block = self.model.function.instructions[site], self.cfg.block_of[site]
        if instruction.guard >= 0 and self.definitions.dominate(instruction.guard, site):
            yield from self._parts(self.values.before(instruction.guard, site), not instruction.negated)
        near = True
        while (above := self.cfg.idom[block]) != block:
            before, block = self.cfg.predecessors[block], above
            near = near and len(before) == 1
            if len(before) == 1 and before[0].predicate >= 0:
                last = self.cfg.blocks[above].end - 1
                predicate = self.values.before(before[0].predicate, last)
                lasts = near or not self.values.varying_at(
                    predicate
                )  # beyond a join, it may be of another iteration
                if lasts and self.definitions.dominate(before[0].predicate, last):
                    yield from self._parts(predicate, before[0].value)

    def _parts(self, value: int, truth: bool) -> Iterator[Literal]:
        """What follows from a predicate and does not depend on the thread or on memory."""
        node = self.values.node(value)
        if type(node) is Negation:
            yield from self._parts(node.operand, not truth)
        elif type(node) is Logic and node.name == ("and" if truth else "or"):
            for operand in node.operands:
                yield from self._parts(operand, truth)
        elif self.shared(value, lambda phi: True):
            yield self.values.representative(value), truth
