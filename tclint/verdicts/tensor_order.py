"""Tensor memory between the warps of a CTA, where CTA barriers alone order it: the prover for :mod:`.epochs`.

Two loads or stores of different warps are of different lanes in a CTA of one warpgroup; otherwise columns are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

from tclint.findings.spans import span
from tclint.findings.verdicts import Assumption, Reason
from tclint.values import thread_masks as T
from tclint.verdicts.epochs import AccessPair, MemoryAccess, Space, View, Walk
from tclint.verdicts.shared_order import SharedOrder
from tclint.verdicts.tensor_space import TENSOR_MEMORY, WARPGROUP, misses

__all__ = ["TensorOrder"]


class TensorOrder(SharedOrder):
    """The pairs of accesses to tensor memory in one kernel, and what proves them ordered or disjoint."""

    space: ClassVar[Space] = TENSOR_MEMORY
    what: ClassVar[str] = "no other warp accesses the columns before or after without an intervening barrier"

    @cached_property
    def _phis(self) -> dict[int, set[int]]:
        return {}  # no addresses are compared

    def _together(self, of: MemoryAccess) -> bool:
        return False

    def _refined(self, pair: AccessPair) -> None:
        return None

    def _disjoint(self, a: MemoryAccess, b: MemoryAccess, view: View) -> bool:
        """Whether one warp executes both accesses, or two warps access different lanes."""
        threads = view.first | view.then
        if self.uniform.by_index and (not view.first or not view.then or T.one_warp(threads)):
            self.assumed |= self.uniform.of_index
            return True
        return a.later and b.later and self._one_warpgroup

    @cached_property
    def _one_warpgroup(self) -> bool:
        most = self.function.most_threads
        if most is None or most > WARPGROUP or Assumption.THREADS not in self.assume:
            return False
        self.assumed.add(Assumption.THREADS)
        return True

    # ------------------------------------------------------------ explanations

    def _partial(self) -> Iterator[Reason]:
        yield from super()._partial()
        for site in sorted(self.barriers):
            block = self.cfg.blocks[self.cfg.block_of[site]]
            fence = misses(self.function.instructions, range(block.start, block.end), site, site)
            if fence:
                yield Reason(
                    span(self.function, site),
                    f"this barrier does not order loads and stores of tensor memory: {fence}",
                    "execute both fences beside the barrier",
                )
                return

    def _why(self, walk: Walk, pair: AccessPair, *, cheap: bool) -> str:
        name = self.model.name(pair.first)
        return f"another warp may access the same columns with {name}, and no CTA barrier separates the two"
