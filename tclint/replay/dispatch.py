"""Branches that compare the index of a thread with the launch, and so decide which threads synchronise."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from tclint.dataflow.kernel import Kernel
from tclint.ir.nodes import Instruction
from tclint.replay.hypotheses import GRID, LaunchWord
from tclint.replay.launch_inputs import LaunchInputs
from tclint.values.nodes import Compare, Loaded, Node, ParameterRead, Select, SpecialRead
from tclint.values.thread_predicates import UniformityScope

__all__ = ["Dispatch"]

_THREAD_INDICES = ("%tid.x", "%tid.y", "%tid.z", "%warpid")
_FROM_LAUNCH = frozenset((ParameterRead, Loaded))
"""The kinds of values without which none is computed from the launch (``LaunchInputs.decide``): a load from shared memory
may read such a value.
"""


class Dispatch:
    """The dispatching branches of a kernel: those that decide which threads execute one of the *separating* blocks."""

    def __init__(self, model: Kernel, inputs: LaunchInputs, separating: Collection[int]) -> None:
        self.model = model
        self.inputs = inputs
        self._involving: dict[tuple[int, int], bool] = {}
        self._tests: dict[int, tuple[int, ...]] = {}
        self.blocks = self._dispatching(separating)
        """Blocks that end in a dispatching branch, with what it compares."""
        self.sharing = self._sharing()

    def _dispatching(self, separating: Collection[int]) -> dict[int, list[tuple[int, int]]]:
        cfg, values = self.model.cfg, self.model.values
        found = {}
        for block in {edge.source for b in separating for edge in cfg.control_dependences(b)}:
            last = cfg.blocks[block].end - 1
            guard = self.model.instruction(last).guard
            if guard >= 0 and (compared := self.compared(values.before(guard, last))):
                found[block] = compared
        return found

    def _sharing(self) -> frozenset[int]:
        """Dispatching blocks that only test whether a warp has iterations left, of a loop whose iterations warps
        share.

        The counter of each warp starts at a value of its own and advances by a constant, up to a bound from the
        launch. The same test may guard the loop.
        """
        found, ends = set[int](), set[tuple[int, int]]()
        for block, compared in self.blocks.items():
            counts_known = [self._warp_counter(block, *both) for both in compared]
            if None not in counts_known:
                found.add(block)
                ends.update(end for end in counts_known if end is not None)
        find = self.model.values.representative
        begun = ends.union((b, a) for a, b in ends)
        return frozenset(found).union(
            block
            for block, compared in self.blocks.items()
            if all((find(a), find(b)) in begun for a, b in compared)
        )

    def _warp_counter(self, block: int, a: int, b: int) -> tuple[int, int] | None:
        """The start and the bound of the counter of a warp in a loop that ends where *a* and *b* are compared; None:
        it is another kind of loop.
        """
        cfg, values = self.model.cfg, self.model.values
        for counter, bound in ((a, b), (b, a)):
            terms, _ = values.linear(counter)
            value = terms[0][0] if len(terms) == 1 and terms[0][1] == 1 else counter
            start, stride, modulus = values.induction(value) or (counter, 0, None)
            body = cfg.loops.get(values.phi(value).block, ()) if stride and modulus is None else ()
            ends = block in body and any(edge.target not in body for edge in cfg.successors[block])
            mine = values.uniformity(start) <= UniformityScope.WARP and not self.inputs.decide(start)
            if ends and mine and not self._from_thread_index(bound):
                return values.representative(start), values.representative(bound)
        return None

    def tests(self, block: int) -> tuple[int, ...]:
        """The predicates by which a dispatching branch compares threads with the launch; empty: they are not found.

        It may ask other questions as well: ``lane != 0 || warp >= warps``.
        """
        found = self._tests.get(block)
        if found is None:
            values, tests, seen = self.model.values, set[int](), set[int]()
            work = [self.model.instruction(self.model.cfg.blocks[block].end - 1).guard]
            while work:
                register = work.pop()
                if register in seen:
                    continue
                seen.add(register)
                site, *others = values.defs.get(register, [-1])
                instruction = self.model.instruction(site)
                if site < 0 or others or instruction.guard >= 0:
                    return self._tests.setdefault(block, ())
                if _combines(instruction):
                    work += instruction.reads
                elif self.compared(values.after(register, site)):
                    tests.add(register)
            found = self._tests[block] = tuple(sorted(tests))
        return found

    @cached_property
    def words(self) -> frozenset[LaunchWord]:
        """The words of the launch with which dispatching branches compare threads."""
        compared = [pair for block in self.blocks.keys() - self.sharing for pair in self.blocks[block]]
        return self.inputs.words(*(v for pair in compared for v in pair if self.inputs.decide(v))) - {GRID}

    def compared(self, predicate: int) -> list[tuple[int, int]]:
        """The pairs that a predicate compares of which one depends on a thread index and the other on the launch.

        The predicate may also be loaded as a flag that holds the result of such a comparison.
        """
        values = self.model.values
        parts = list(values.subexpressions(predicate))
        loads = [node.site for node in map(values.node, parts) if type(node) is Loaded]
        stored = (values.node(v) for load in loads for v in self.inputs.shared_stores.values(load))
        flags = [
            s.condition for s in stored if type(s) is Select and None not in map(values.constant_of, s.arms)
        ]
        if flags:
            parts = list(values.subexpressions(predicate, *flags))
        nodes = [values.node(v) for v in parts]
        if not (any(map(_is_thread_index, nodes)) and any(type(node) in _FROM_LAUNCH for node in nodes)):
            return []  # what a pair is computed from is among them
        return [
            node.operands
            for node in nodes
            if type(node) is Compare and self._involves_launch_and_thread(*node.operands)
        ]

    def _involves_launch_and_thread(self, one: int, two: int) -> bool:
        """Whether one of two compared values depends on the launch, and one on a thread index."""
        found = self._involving.get((one, two))
        if found is None:
            found = self.inputs.decide(one, two) and self._from_thread_index(one, two)
            self._involving[one, two] = found
        return found

    def _from_thread_index(self, *made: int) -> bool:
        """Whether values are computed from the index of a thread in its CTA."""
        values = self.model.values
        return any(_is_thread_index(values.node(v)) for v in values.subexpressions(*made))


def _combines(instruction: Instruction) -> bool:
    """Whether it computes a predicate of others alone."""
    match = instruction.match
    return match is not None and match.modes.of_predicates and match.form.compute in ("and", "or", "not")


def _is_thread_index(node: Node) -> bool:
    return type(node) is SpecialRead and node.name in _THREAD_INDICES
