"""``tcgen05`` operations that one thread has in flight (PTX ISA 9.7.16.6).

An MMA, copy or shift is in flight until a wait for the mbarrier of a later ``tcgen05.commit`` of the same thread, or
until an acquire point at which the thread may observe that another thread has waited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from tclint.analyses.fact_set import FactSet
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import KernelModel
from tclint.analyses.tensor_memory import TensorMemory, concerns
from tclint.dataflow import Path
from tclint.ir.nodes import Instruction
from tclint.isa.effects import TCGEN05, Barrier

__all__ = ["ISSUED", "OperationsState", "Outstanding", "Tcgen05Operations"]

ISSUED = 0
"""Neither waited for, nor tracked by a commit."""
OperationsState = frozenset[tuple[int, int]]
"""``(site, status)``: ``ISSUED``, or the site of a commit that tracks the operation plus one."""

_MAX_COMMITS = 4
"""Commits that may track one operation before it is dropped: following all of them is quadratic."""


class Tcgen05Operations(FactSet[tuple[int, int]]):
    """MMAs, copies and shifts, each until it is known to be complete, or a commit tracks one that is not :attr:`compared`."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.memory = model.fact(TensorMemory)
        self._order = model.fact(HappensBefore)
        self._barriers = self._order.points.barrier_sites(OrderScope.WARPS)
        self._completions: dict[int, frozenset[int]] = {}
        self._observations: dict[tuple[int, int], bool] = {}
        self.cta_groups = self._cta_groups()
        """Operation or commit -> its ``.cta_group``; "" if the kernel mixes both, which is a defect of its own."""

    def _cta_groups(self) -> dict[int, str]:
        model = self.model
        matches = {i: model.instruction(i).match for i in (*self.memory.operations, *model.commits(TCGEN05))}
        groups = {i: match.binding.get("cta_group", "") if match else "" for i, match in matches.items()}
        return groups if len(set(groups.values())) == 1 else dict.fromkeys(groups, "")

    def affecting(self, instruction: Instruction) -> bool:
        return concerns(instruction.match)

    def transfer(self, state: OperationsState, at: int, instruction: Instruction) -> OperationsState:
        effects = instruction.effects
        if effects.begins == TCGEN05:
            return state | {(at, ISSUED)}
        if not state:
            return state
        if effects.commits == TCGEN05:
            pair = self.cta_groups[at]
            tracked = {s for s, _ in state if self.cta_groups[s] == pair}
            # If several commits have tracked an operation, the wait for it is up to another role.
            commits = Counter(s for s, status in state if s in tracked and status != ISSUED)
            followed = {s for s in tracked if s in self.compared and commits[s] < _MAX_COMMITS}
            left = frozenset(f for f in state if f[0] not in tracked or (f[1] != ISSUED and f[0] in followed))
            return left | {(s, at + 1) for s in followed}
        if effects.awaits is Barrier.MBARRIER:
            complete = {s for s, status in state if status != ISSUED and at in self._completed(status - 1)}
            return (
                frozenset(f for f in state if f[1] == ISSUED or f[0] not in complete) if complete else state
            )
        if at in self._barriers:
            # Another thread may have waited for the mbarrier before it arrived here.
            return frozenset(f for f in state if f[1] == ISSUED or not self._observed(f[1] - 1, at))
        return state

    def _completed(self, commit: int) -> frozenset[int]:
        """The waits after which a thread may know, directly or from others, that what the commit tracks is complete."""
        if commit not in self._completions:
            self._completions[commit] = self._order.completed((commit,))
        return self._completions[commit]

    def _observed(self, commit: int, barrier: int) -> bool:
        """Whether a thread that reaches *barrier* may have waited for the phase of the commit's mbarrier.

        A wait that only precedes the commit is for an earlier phase, and one that only follows the barrier for a later
        one.
        """
        key = (commit, barrier)
        if key not in self._observations:
            self._observations[key] = any(
                not self._precedes(wait, commit) and not self._precedes(barrier, wait)
                for wait in self._order.waits_completed_by(commit).intersection(
                    self.model.awaits(Barrier.MBARRIER)
                )
            )
        return self._observations[key]

    def _precedes(self, first: int, second: int) -> bool:
        """Whether a path leads from *first* to *second*, and none back."""
        return self.model.reaches(first, second) and not self.model.reaches(second, first)

    def issued(self, site: int) -> OperationsState:
        """The state in which *site* alone is in flight, and no commit tracks it."""
        return frozenset(((site, ISSUED),))

    def follow(
        self, site: int, state: OperationsState, at: int, instruction: Instruction
    ) -> OperationsState | None:
        """The facts about one operation after one more instruction; None if it has ended or is issued again."""
        if at == site:
            return None
        after = self.transfer(state, at, instruction)
        if after is not state:
            after = frozenset(f for f in after if f[0] == site)
        return after or None

    def pending_causes(self, paths: Iterable[tuple[int, Path]]) -> frozenset[int]:
        """What leaves operations in flight at the ends of *paths*: the operation, or its commit without a wait."""
        return frozenset(
            status - 1 if status > ISSUED else site
            for site, path in paths
            for s, status in path.state
            if s == site
        )

    @cached_property
    def compared(self) -> frozenset[int]:
        """The operations whose result a load or store of the function has a chance of being proven to overlap."""
        memory, linear = self.memory, self.model.values.linear
        every, at_first = (
            {linear(columns.start)[0] for i in memory.loads | memory.stores if (columns := find(i, "taddr"))}
            for find in (memory.range, memory.at_first)
        )
        return frozenset(
            site
            for site in memory.operations
            if (columns := memory.range(site, "d"))
            and linear(columns.start)[0] in (every | at_first if self._is_mma(site) else every)
        )

    def _is_mma(self, site: int) -> bool:
        match = self.model.instruction(site).match
        return match is not None and match.form.name.startswith("tcgen05.mma")


class Outstanding(Tcgen05Operations):
    """MMAs, copies and shifts, each until it is known to be complete, whether or not its result is used."""

    @cached_property
    def compared(self) -> frozenset[int]:
        return self.memory.operations
