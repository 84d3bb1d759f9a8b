"""What may hold on any path of the control-flow graph: no fact ends at an edge, whatever a branch decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tclint.dataflow.solver import Analysis
from tclint.ir.nodes import Instruction, Site

__all__ = ["May"]

F = TypeVar("F")


class May(Analysis[frozenset[F]]):
    """The facts that hold on some path; *executed* is the transfer function, the identity but at the sites *affecting*."""

    def __init__(
        self,
        affecting: Iterable[Site],
        executed: Callable[[frozenset[F], int, Instruction], frozenset[F]],
        entry: frozenset[F] = frozenset(),
    ) -> None:
        self.sites, self.executed, self.entry = affecting, executed, entry

    def boundary(self) -> frozenset[F]:
        return self.entry

    def bottom(self) -> frozenset[F]:
        return frozenset()

    def join(self, a: frozenset[F], b: frozenset[F]) -> frozenset[F]:
        return a if b <= a else a | b

    def affecting_sites(self) -> Iterable[Site]:
        return self.sites

    def transfer(self, state: frozenset[F], at: Site, instruction: Instruction) -> frozenset[F]:
        return self.executed(state, at, instruction)
