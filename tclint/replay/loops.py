"""The loops of a replayed kernel: what bounds them, and where threads wait or poll."""

from __future__ import annotations

from functools import cached_property

from tclint._named_tuple import NamedTuple
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Immediate, Operand
from tclint.isa.effects import Barrier
from tclint.isa.forms import floating
from tclint.replay.hypotheses import GRID, LaunchWord
from tclint.replay.launch_inputs import LaunchInputs
from tclint.replay.steps import of_shared
from tclint.values.nodes import Loaded, SpecialRead

__all__ = ["LoopComparison", "Loops"]


class LoopComparison(NamedTuple):
    """Two operands of so many bits that are compared."""

    a: Operand
    b: Operand
    bits: int


class Loops:
    """The loops of a kernel, with those branches that are *branching*: a replay executes them."""

    def __init__(self, model: KernelModel, inputs: LaunchInputs, branching: set[int]) -> None:
        self.model = model
        self.inputs = inputs
        self.branching = branching

    @cached_property
    def bounds(self) -> dict[int, frozenset[LaunchWord]]:
        """The words of the launch that bound each loop, by its header."""
        cfg = self.model.cfg
        conditions = {
            header: {
                condition
                for block in self.branching.intersection(edge.source for edge in ends)
                if (condition := self._condition(cfg.blocks[block].end - 1)) is not None
            }
            for header, ends in cfg.leaving.items()
        }
        words = self.inputs.words_of(set().union(*conditions.values()))
        return {
            header: frozenset().union(*map(words.__getitem__, found)) for header, found in conditions.items()
        }

    @cached_property
    def strides(self) -> dict[str, int]:
        """The number of CTAs or clusters that the constant strides of loops imply, by ``%ctaid.x`` or
        ``%clusterid.x``.

        Only if other loops stride by the size of the grid, and if the constants agree: all loops iterate over the
        same tiles.
        """
        model, values = self.model, self.model.values
        if not any(GRID in words for words in self.bounds.values()):
            return {}
        found: dict[str, set[int]] = {}
        ends = (model.cfg.blocks[block].end - 1 for block in self.branching & model.cfg.in_cycle)
        guards = [(guard, end) for end in ends if (guard := model.instruction(end).guard) >= 0]
        for value in values.subexpressions(*(values.before(guard, end) for guard, end in guards)):
            start, stride, _ = values.induction(value) or (None, 0, None)
            node = values.node(start) if start is not None else None
            if type(node) is SpecialRead and node.name in ("%ctaid.x", "%clusterid.x") and stride > 1:
                found.setdefault(node.name, set()).add(stride)
        return {name: min(by) for name, by in found.items() if len(by) == 1}

    @cached_property
    def waiting(self) -> list[int]:
        """The headers of loops in which threads wait for an mbarrier."""
        cfg = self.model.cfg
        waiting = cfg.nest.having(cfg.block_of[i] for i in self.model.awaits(Barrier.MBARRIER))
        return [header for header in cfg.loops if header in waiting]

    @cached_property
    def tests(self) -> dict[int, LoopComparison]:
        """The comparison that decides whether a loop iterates again, by the block of its back edge."""
        cfg, found = self.model.cfg, dict[int, LoopComparison]()
        ends = {
            e.source
            for header in cfg.loops
            for e in cfg.predecessors[header]
            if e.source in cfg.loops[header]
        }
        for block in ends & self.branching:
            last = cfg.blocks[block].end - 1
            compared = self._compared(self.model.instruction(last).guard, last, cfg.blocks[block].start)
            if compared is not None:
                found[block] = compared
        return found

    def _compared(self, register: int, last: int, start: int) -> LoopComparison | None:
        """The comparison that a predicate, or a flag of 0 or 1, is computed from between *start* and *last*."""
        found = None
        for i in range(last - 1, start - 1, -1):
            instruction = self.model.instruction(i)
            if register not in instruction.writes:
                continue
            match, operands = instruction.match, instruction.operands
            if match is None or floating(match.modifiers):
                return found
            name = match.syntax.root
            if name == "setp":
                found = LoopComparison(operands[1], operands[2], int(match.element[2:]))
                source = operands[1] if isinstance(operands[2], Immediate) else None
            elif name == "selp" and all(isinstance(o, Immediate) for o in operands[1:3]):
                source = operands[3]
            else:
                source = operands[1] if name in ("mov", "shfl") else None
            if not isinstance(source, int):
                return found
            register = source
        return found

    def _condition(self, branch: int) -> int | None:
        """The condition of a branch; None: it is unconditional."""
        guard = self.model.instruction(branch).guard
        return (
            None if guard < 0 else self.model.values.representative(self.model.values.before(guard, branch))
        )

    @cached_property
    def polls(self) -> bool:
        """Whether threads wait for words of memory."""
        return bool(self.model.fact(HappensBefore).points.spin_loads)

    @cached_property
    def poll_exits(self) -> dict[int, int]:
        """Where threads continue after they have polled memory until another thread writes it, by the block that tests.

        Such a loop has no other effect, and the loaded word alone decides when it ends.
        """
        model, cfg, found = self.model, self.model.cfg, dict[int, int]()
        for load in self.model.fact(HappensBefore).points.spin_loads:
            body = cfg.innermost(cfg.block_of[load])
            if of_shared(self.model.instruction(load)) or any(
                self._acts(i) for b in body for i in range(cfg.blocks[b].start, cfg.blocks[b].end)
            ):
                continue
            for block in body:
                leaving = [edge for edge in cfg.successors[block] if edge.target not in body]
                predicate = model.reachability.edge_predicate(leaving[0]) if len(leaving) == 1 else None
                if predicate is not None and any(
                    type(node) is Loaded and node.site == load
                    for node in map(model.values.node, model.values.subexpressions(predicate))
                ):
                    found[block] = leaving[0].target
        return found

    def _acts(self, site: int) -> bool:
        """Whether an instruction does more than compute, load and branch."""
        match = self.model.instruction(site).match
        if match is None or self.model.instruction(site).flow == "call" or match.form.event:
            return True
        return any(verb != "read" for verb, _ in match.form.memory) and match.form.name != "atom"
