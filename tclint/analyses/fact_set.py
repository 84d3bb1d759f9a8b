"""The base of may analyses whose state is a set of facts, each about one instruction, its first element."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from tclint.analyses.model import KernelModel
from tclint.dataflow.solver import Analysis
from tclint.ir.cfg import Edge

__all__ = ["FactSet"]

Fact = TypeVar("Fact", bound=tuple[Any, ...])


class FactSet(Analysis[frozenset[Fact]]):
    """Facts ``(site, ...)`` that hold on some path; one ends at an edge that no thread that executes its site can take.

    A dispatcher of roles ends all facts (:attr:`Reachability.dispatchers`).
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model

    def boundary(self) -> frozenset[Fact]:
        return frozenset()

    def bottom(self) -> frozenset[Fact]:
        return frozenset()

    def join(self, a: frozenset[Fact], b: frozenset[Fact]) -> frozenset[Fact]:
        return a | b

    def guarded(self, state: frozenset[Fact], after: frozenset[Fact], at: int) -> frozenset[Fact]:
        return self.model.views.guarded(state, after, at)

    def edge(self, state: frozenset[Fact], edge: Edge) -> frozenset[Fact]:
        if not state:
            return state
        views = self.model.views
        if edge.source in views.reachability.dispatchers:
            self.model.drop_facts(self, self.model.cfg.blocks[edge.source].end - 1)
            return frozenset()
        if edge.predicate < 0:
            return state
        gone = views.unreachable_after(edge, {fact[0] for fact in state})
        return frozenset(fact for fact in state if fact[0] not in gone) if gone else state

    def originating_sites(self, state: frozenset[Fact]) -> Iterable[int]:
        return {fact[0] for fact in state}
