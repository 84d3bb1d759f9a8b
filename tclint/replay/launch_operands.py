"""What the launch decides of the operands of barriers, mbarriers and copies."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from tclint.dataflow.kernel import Kernel
from tclint.isa.effects import TRANSACTIONS, Barrier, Resource
from tclint.replay.hypotheses import LaunchWord
from tclint.replay.launch_inputs import LaunchInputs
from tclint.replay.loops import Loops
from tclint.values.nodes import Select

__all__ = ["LaunchOperands"]


class LaunchOperands:
    """Counts, phases and bytes that depend on the launch."""

    def __init__(self, model: Kernel, inputs: LaunchInputs, loops: Loops) -> None:
        self.model = model
        self._inputs = inputs
        self._loops = loops
        self._from_launch: dict[tuple[int, str], bool] = {}

    def from_launch(self, site: int, role: str) -> bool:
        """Whether the launch decides an operand. Two such values need not go together in any real launch."""
        key = site, role
        if key not in self._from_launch:
            value = self.model.value(site, role)
            self._from_launch[key] = value is not None and self._inputs.decide(value)
        return self._from_launch[key]

    def makes_up_bytes(self, site: int, role: str) -> bool:
        """Whether the launch decides the bytes of a copy or an expect_tx, and no sum of the kernel relates the two."""
        if not self.from_launch(site, role):
            return False
        value = self.model.value(site, role)
        related = self._related_bytes
        return value is None or not related.issuperset(self._summands(value, related))

    @cached_property
    def _related_bytes(self) -> frozenset[int]:
        """The values that copies state as their bytes and of which the sums are composed that are expected.

        A copy in a loop of its own, of which the launch decides how often it iterates, states none.
        """
        model, cfg = self.model, self.model.cfg
        expecting = model.where(lambda effects: effects.expects or effects.arrives is Barrier.MBARRIER)
        around = set(cfg.loops).intersection(*(cfg.enclosing_loops(cfg.block_of[i]) for i in expecting))
        stated = set[int]()
        for copy in model.begins(TRANSACTIONS):
            loops = set(cfg.enclosing_loops(cfg.block_of[copy])) - around
            if (size := model.value(copy, "bytes")) is not None and not any(
                map(self._loops.bounds.get, loops)
            ):
                stated.update(model.values.representative(t) for t, _ in model.values.linear(size)[0])
        sums = [
            self._summands(value, stated) for i in expecting if (value := model.value(i, "tx")) is not None
        ]
        return frozenset().union(*(terms for terms in sums if terms <= stated))

    def _summands(self, value: int, known: Collection[int]) -> set[int]:
        """The terms of a sum; in place of a term that is not *known* and chooses among values, the terms of these."""
        values, found, seen, work = self.model.values, set[int](), set[int](), [value]
        while work:
            for term in {values.representative(t) for t, _ in values.linear(work.pop())[0]} - seen:
                seen.add(term)
                node = values.node(term)
                chosen: tuple[int, ...] = node.arms if type(node) is Select else values.arguments(term)
                if chosen and term not in known:
                    work += chosen
                else:
                    found.add(term)
        return found

    def ring_words(self, site: int) -> frozenset[LaunchWord]:
        """The words of the launch that decide how many mbarriers the loop around *site* initialises."""
        cfg, address = self.model.cfg, self.model.mbarrier(site)
        moves = address is not None and bool(self.model.values.varying_at(address))
        around = cfg.enclosing_loops(cfg.block_of[site]) if moves else ()
        return frozenset().union(*map(self._loops.bounds.__getitem__, around))

    @property
    def counts_known(self) -> bool:
        """Whether no launch decides the count of an mbarrier or a barrier."""
        model = self.model
        sites = model.where(lambda e: e.at_barrier or e.resource is Resource.MBARRIER_INIT)
        counts = [value for i in sites if (value := model.value(i, "count")) is not None]
        return not any(map(self._inputs.decide, counts))

    @property
    def phases_known(self) -> bool:
        """Whether no launch decides a parity that is waited for, other than by the trip count of a loop."""
        values = {i: self.model.value(i, "parity") for i in self.model.awaits(Barrier.MBARRIER)}
        depends_on_launch = [v for i, v in values.items() if v is not None and self.from_launch(i, "parity")]
        return (
            frozenset().union(*self._loops.bounds.values()).issuperset(self._inputs.words(*depends_on_launch))
        )
