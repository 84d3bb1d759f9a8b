"""Synchronisation with other threads that no tcgen05.fence stands beside (PTX ISA 9.7.16.6.3)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.values import Values
from tclint.cfg import Edge
from tclint.dataflow.engine import Analysis
from tclint.ir.nodes import Instruction
from tclint.model import KernelModel

__all__ = ["ThreadSync", "waits_for_commits"]

State = frozenset[tuple[int]]
"""Waits for a tcgen05.commit, with no ``fence::after_thread_sync`` behind them yet, and asynchronous tcgen05 operations,
with no ``fence::before_thread_sync`` behind them yet."""


class ThreadSync(Analysis[State]):
    """Facts ``(site,)``."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.waits = frozenset((i,) for i in waits_for_commits(model))
        self.operations = frozenset(
            (i,) for group in ("tcgen05.ld", "tcgen05.st") for i in model.sites("issue", group)
        )

    def boundary(self) -> State:
        return frozenset()

    def bottom(self) -> State:
        return frozenset()

    def join(self, a: State, b: State) -> State:
        return a | b

    def relevant(self, instruction: Instruction) -> bool:
        event, group = instruction.event, instruction.group
        return event in (
            "tcgen05-fence-after",
            "tcgen05-fence-before",
            "mbarrier-wait",
            "mbarrier-arrive",
        ) or (event == "issue" and group in ("tcgen05.ld", "tcgen05.st"))

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        event = instruction.event
        if event == "tcgen05-fence-after":
            return state - self.waits
        if event == "tcgen05-fence-before":
            return state - self.operations
        if (at,) in self.waits or (at,) in self.operations:
            return state | {(at,)}
        return state

    def edge(self, state: State, edge: Edge) -> State:
        # Who takes it is left to the search for a path: few facts come to that.
        return frozenset() if edge.source in self.model.views.dispatchers else state

    def mentions(self, state: State, site: int) -> bool:
        return (site,) in state

    def follow(self, site: int, state: State, at: int, instruction: Instruction) -> State | None:
        """One fact followed along a path; None when a fence has ended it, or its instruction is executed anew."""
        return None if at == site else self.transfer(state, at, instruction) & {(site,)} or None


def waits_for_commits(model: KernelModel) -> frozenset[int]:
    """The waits on an mbarrier that a tcgen05.commit of the kernel signals, or on one of the same ring."""

    def rings(sites: list[int]) -> Iterator[tuple[int, object]]:
        for site in sites:
            value = model.value(site, "mbarrier")
            if value is not None:
                yield site, _ring(model.values, value)

    signalled = {ring for _, ring in rings(model.sites("commit", "tcgen05"))}
    if not signalled:
        return frozenset()
    return frozenset(site for site, ring in rings(model.sites("mbarrier-wait")) if ring in signalled)


def _ring(values: Values, address: int) -> tuple[object, ...]:
    """Where the array starts that *address* lies in, and its stride: two roles count its elements for themselves."""
    terms, constant = values.linear(address)
    fixed = tuple(term for term in terms if not values.volatile(term[0]))
    return fixed, constant, tuple(sorted(factor for term, factor in terms if values.volatile(term)))
