"""How the steps of a kernel are executed: computations together, and what each branch decides.

Everything here is a function of the kernel, and the results of computations, shuffles and branches are keyed by all that
they depend on, so the replays of all launches share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import itemgetter
from typing import Any

from tclint._named_tuple import NamedTuple
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls
from tclint.ir.nodes import Immediate, Operand, Vector
from tclint.isa.callees import ASSERTION
from tclint.replay.abstract_lanes import LaneResults, Lanes, immediate
from tclint.replay.steps import ReplayStep

__all__ = ["Branch", "Plan", "Plans", "StepBatch"]


class Plan(NamedTuple):
    """What one computing instruction reads and writes."""

    destination: Operand
    sources: list[Operand]
    """The sources that are not constants."""
    results: LaneResults
    """The results by the values of the sources, for all replays, and for all instructions that compute the same."""


class FusedCompute(NamedTuple):
    """An unguarded computation on registers."""

    held: Callable[[Mapping[int, Lanes]], Any]
    """Gets the key of :attr:`results` from the registers."""
    results: LaneResults
    destination: int


class StepBatch(NamedTuple):
    """Steps of a block that are executed together."""

    steps: int
    """How many steps they count as."""
    fused: list[FusedCompute]
    step: ReplayStep | None
    """None: there are only computations."""


class Branch(NamedTuple):
    """The last instruction of a block, which decides where threads continue."""

    site: int
    guard: int
    negated: bool
    selector: Operand | None
    """The index into the branch table."""
    taken: dict[int, int]
    """The target of a taken branch by the index; -1: there is none."""
    other: int
    """The target of a branch that is not taken; -1: the thread exits."""


class Plans:
    """What the blocks of a kernel execute, with the results that are known so far."""

    def __init__(self, model: KernelModel, blocks: Sequence[Sequence[ReplayStep]]) -> None:
        self.model = model
        self.blocks = blocks
        """The steps of each block."""
        self._plans: dict[int, Plan] = {}
        self._results: dict[tuple[object, ...], LaneResults] = {}
        """What instructions share that compute the same of their sources: the function, and the sources that are constants."""
        self._batches: dict[int, list[StepBatch]] = {}
        self._branches: dict[int, Branch] = {}
        self._reconvergence: dict[int, int] = {}
        self._executing: dict[tuple[int | None, ...], list[int]] = {}
        """The positions of the threads that execute an instruction, by its guard."""
        self.shuffles: dict[tuple[object, ...], tuple[Lanes, list[int | None]]] = {}
        """For shuffles: which threads read a lane inside their segment, and the positions of the threads that each
        reads.
        """
        self.divergences: dict[tuple[int, Lanes, Lanes], dict[int, list[int]]] = {}
        """For branches: the positions of the threads that continue at each target, by the block and the values that
        decide.
        """
        self.merged_threads: dict[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], list[list[int]]]] = {}
        """For threads that reconverge: all of them, and the positions of each part."""

    def batches(self, block: int) -> list[StepBatch]:
        """The steps of a block: consecutive computations together, and every other step alone."""
        found = self._batches.get(block)
        if found is None:
            found, fused = [], list[FusedCompute]()
            for step in self.blocks[block]:
                if (made := self._fuse(step)) is not None:
                    fused.append(made)
                    continue
                if fused:
                    found.append(StepBatch(len(fused), fused, None))
                    fused = []
                found.append(StepBatch(1, [], step))
            if fused:
                found.append(StepBatch(len(fused), fused, None))
            self._batches[block] = found
        return found

    def _fuse(self, step: ReplayStep) -> FusedCompute | None:
        """A step as an unguarded computation on registers; None: it is not one."""
        if step.what != "compute" or step.instruction.guard >= 0:
            return None
        destination, sources, results = self.plan(step)
        registers = [o for o in sources if isinstance(o, int)]
        if not isinstance(destination, int) or len(registers) < len(sources):
            return None
        return FusedCompute(itemgetter(*registers) if registers else lambda _: (), results, destination)

    def plan(self, step: ReplayStep) -> Plan:
        """How to compute the result of a step."""
        found = self._plans.get(step.site)
        if found is None:
            instruction, match = step.instruction, step.instruction.match
            assert match is not None
            assert step.compute is not None
            destination, *sources = instruction.operands
            if sources and isinstance(sources[0], Vector):
                sources = list(sources[0].items)
            decisive = {"and": 0, "or": 1}.get(match.form.compute) if match.modes.of_predicates else None
            constants = tuple([(i, immediate(o)) for i, o in enumerate(sources) if isinstance(o, Immediate)])
            key = step.compute, decisive, len(sources), constants
            results = self._results.get(key)
            if results is None:
                results = self._results[key] = LaneResults(step.compute, sources, decisive)
            if constants:
                sources = [o for o in sources if not isinstance(o, Immediate)]
            found = self._plans[step.site] = Plan(destination, sources, results)
        return found

    def executing(self, where: tuple[int | None, ...]) -> Sequence[int]:
        """The positions of the threads *where* a guard is true."""
        found = self._executing.get(where)
        if found is None:
            found = self._executing[where] = [*compress(range(len(where)), where)]
        return found

    def branch(self, block: int) -> Branch:
        """The branch at the end of *block*. Threads do not continue where an assertion fails: no launch that counts does."""
        found = self._branches.get(block)
        if found is None:
            cfg = self.model.cfg
            site, edges = cfg.blocks[block].end - 1, cfg.successors[block]
            last = self.model.instruction(site)
            passing = [e.target for e in edges if e.target not in self._failed_assertions]
            if len(passing) == 1 < len(edges):
                found = Branch(site, -1, False, None, {-1: passing[0]}, -1)
            else:
                found = Branch(
                    site,
                    last.guard,
                    last.negated,
                    last.operands[0] if last.flow == "branch-table" else None,
                    {e.case: e.target for e in edges if e.predicate < 0 or e.value is not last.negated},
                    next((e.target for e in edges if e.predicate >= 0 and e.value is last.negated), -1),
                )
            self._branches[block] = found
        return found

    @cached_property
    def _failed_assertions(self) -> frozenset[int]:
        """The blocks that report the failure of an assertion, which ends the launch."""
        model = self.model
        failing = (i for i in calls(model) if model.instruction(i).callee == ASSERTION)
        return frozenset(model.cfg.block_of[i] for i in failing)

    def reconvergence(self, block: int) -> int:
        """Where threads that leave *block* reconverge if its branch does not matter; -1: nowhere."""
        found = self._reconvergence.get(block)
        if found is None:
            cfg = self.model.cfg
            edges = cfg.successors[block]
            alone = len(edges) == 1 and block not in cfg.exits
            found = self._reconvergence[block] = edges[0].target if alone else cfg.ipdom.get(block, -1)
        return found
