"""Which loops end whatever other threads do.

A thread stays in a strongly connected part of the control-flow graph until a branch lets it leave. What decides such a branch
is computed, from what the registers held when the thread entered the part, by the instructions in it. If none of them
*observes* others, by a load of memory that they may write or by the test of an mbarrier, then what other threads do does not
decide how often the thread passes the branch before it leaves.

A part decides itself in one of two ways.

- A *counter* ends it: a branch that leaves it compares a register with a value that does not change in the part, and one
  addition of a constant is executed from each pass of the branch to the next. So the register takes all numbers that are as far
  apart as the lowest bit of the constant, and if one of them lets a thread leave, whatever the value is, a thread that passes the
  branch again and again leaves in the end; or the comparison is signed and the counter is assumed not to wrap before it reaches the
  value. So the same is asked of the parts that are left without its block, inner loops for instance.
- Nothing observed decides *any* branch that leaves it. Then the same is asked of the parts that are left without the blocks by
  which threads enter it: these are inner loops, in which a thread may wait as well.

It is not enough that one branch is decided by the thread alone, since its condition may never hold: then another one ends the
loop. A branch on data that has its join before the deciding one is passed does not matter, unless what decides is computed in
between: which of its sides is executed is then decided by the data.

That a loop which decides itself ends is not shown, but taken for granted. This is the trusted side of a proof: from the
instructions and the edges of the graph alone, it enumerates the loops that may wait for others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property

from tclint._named_tuple import NamedTuple
from tclint.findings.verdicts import Assumption
from tclint.ir.cfg import LEAVING
from tclint.ir.loops import strongly_connected
from tclint.ir.nodes import Function, Immediate, Instruction, Memory, Operand, Symbol
from tclint.isa.accesses import StateSpace
from tclint.isa.effects import Exchange
from tclint.isa.semantics import RELATIONS
from tclint.verdicts.checker import Graph
from tclint.verdicts.uniform import MOVES

__all__ = ["ObservingLoop", "observing_loops"]


_MAX_COPIES = 4
"""The instructions that are followed from a counter to itself: one addition and copies."""
_LOCAL = -2
"""What stands for all of local memory among registers."""

Relation = tuple[str, bool, bool]
"""How a counter compares with a limit, as in :data:`~tclint.isa.semantics.RELATIONS`."""


class ObservingLoop(NamedTuple):
    """A loop in which a thread observes what others do, or that has no exit."""

    site: int
    """The branch by which a thread leaves it, or may leave it; the last instruction of one of its blocks if it has none."""
    by: int | None
    """The instruction that observes others and decides the branch; None if there is none: the loop decides itself.

    -1 if the loop has no exit."""
    assumed: frozenset[Assumption] = frozenset()
    """What is assumed if it decides itself."""


def observing_loops(
    function: Function,
    graph: Graph,
    unchanging: Callable[[int], bool] = lambda load: False,
    constant: Callable[[Operand, int], int | None] = lambda operand, site: None,
) -> Iterator[ObservingLoop]:
    """The loops of *function* that observe others or have no exit, each with whether it is shown to end whatever they do.

    *unchanging* says whether a load is from memory that no thread writes while the kernel runs, *constant* which number an operand
    is where an instruction reads it, if it is always the same.
    """
    reachable = graph.reached((0,) if graph.blocks else ())
    observing = {
        i
        for b in reachable
        for i in graph.blocks[b]
        if function.instructions[i].writes and _observes(function, i, unchanging)
    }
    work = list(_components(graph, reachable))
    while work:
        part = work.pop()
        loop = _Loop(function, graph, part, observing, constant)
        exits = [b for b in sorted(part) if loop.leaves(b)]
        if not exits:
            yield ObservingLoop(graph.blocks[max(part)][-1], -1)
        elif any(i in observing for b in part for i in graph.blocks[b]):
            found = {b: loop.decided_by(b) for b in exits}
            counts = {b: loop.counts(b) for b, by in found.items() if by is None}
            counted = {b: assumed for b, assumed in counts.items() if assumed is not None}
            first = min(counted, key=lambda b: len(counted[b]), default=None)
            site, by = next(((b, by) for b, by in found.items() if by is not None), (exits[0], None))
            if by is None and first is not None and counted[first]:
                first = None  # it decides itself without the assumption
            if first is not None:
                work += _components(graph, part - {first})
                site, by = exits[0], None
            elif by is None:
                work += _components(graph, part - loop.entered)
            assumed = frozenset[Assumption]() if first is None else counted[first]
            yield ObservingLoop(graph.blocks[site][-1], by, assumed)


def _reaches(relation: Relation, limit: int | None, step: int, width: int, *, signed: bool) -> bool:
    """Whether a counter of *width* bits that grows by *step* again and again, and wraps, reaches a number in this relation to
    *limit*, wherever it starts and, if *limit* is None, whatever the limit is."""
    numbers = 1 << width
    if step % numbers == 0:
        return False
    gap = step & -step  # it takes all numbers that are so far apart
    canonical, swapped, negated = relation
    if canonical == "eq":
        return negated or gap == 1
    if limit is None:  # only the limit itself is sure to be in the relation, if it admits equality
        return negated and gap == 1
    below = (limit + (numbers >> 1 if signed else 0)) % numbers
    related = numbers - 1 - below if swapped else below
    return (numbers - related if negated else related) >= gap


def _is_towards(relation: Relation, step: int, width: int) -> bool:
    """Whether a signed counter that grows by *step* and does not wrap reaches a number in this relation to any limit that it can
    pass."""
    rises = 0 < step % (1 << width) < 1 << (width - 1)
    canonical, swapped, negated = relation
    return step % (1 << width) != 0 and canonical == "lt" and (swapped != negated) == rises


def _observes(function: Function, site: int, unchanging: Callable[[int], bool]) -> bool:
    """Whether what an instruction writes to registers may depend on what other threads have done meanwhile.

    What lanes of a warp exchange is computed from their operands, and they execute it together.
    """
    instruction = function.instructions[site]
    match = instruction.match
    if match is None or match.problem:
        return True
    form = match.form
    if isinstance(form.effects.exchange, Exchange):
        return False
    if form.event or form.flow or form.async_writes or form.handled:
        return True
    if form.memory:
        return not (
            _reads_local(instruction) or _constant(function, instruction, match.space) or unchanging(site)
        )
    return not (form.from_operands or form.name.split(".")[0] in MOVES)


def _constant(function: Function, load: Instruction, space: str) -> bool:
    """Whether a load reads constant memory, or a parameter of a kernel."""
    if space == ".const":
        return True
    names = {p.name for p in function.parameters}
    bases = [o.base for o in load.operands if isinstance(o, Memory)]
    named = all(isinstance(base, Symbol) and base.name in names for base in bases)
    return function.entry and space.startswith(".param") and bool(bases) and named


def _reads_local(instruction: Instruction) -> bool:
    """Whether an instruction reads local memory of its thread, and nothing else."""
    reads = [a for a in instruction.accesses if not a.writes]
    return bool(reads) and all(a.space is StateSpace.LOCAL for a in reads)


class _Loop:
    """A strongly connected *part* of a graph."""

    def __init__(
        self,
        function: Function,
        graph: Graph,
        part: frozenset[int],
        observing: Collection[int],
        constant: Callable[[Operand, int], int | None],
    ) -> None:
        self.instructions, self.graph, self.constant = function.instructions, graph, constant
        self.part, self.observing = part, observing
        self.inside = {
            b: tuple({e.target: None for e in graph.successors[b] if e.target in part}) for b in part
        }
        self.writers: dict[int, list[int]] = {}
        """Register -> the instructions of the part that write it."""
        for b in sorted(part):
            for i in graph.blocks[b]:
                written = list(self.instructions[i].writes)
                if self._writes_local(self.instructions[i]):
                    written.append(_LOCAL)
                for register in written:
                    self.writers.setdefault(register, []).append(i)
        self.block_of = {i: b for b in part for i in graph.blocks[b]}

    @staticmethod
    def _writes_local(instruction: Instruction) -> bool:
        """Whether an instruction may write local memory of its thread."""
        spaces = {a.space for a in instruction.accesses if a.writes}
        return instruction.flow == "call" or not spaces.isdisjoint((StateSpace.LOCAL, StateSpace.GENERIC))

    def leaves(self, block: int) -> bool:
        """Whether a thread may leave the part at the end of *block*."""
        out = any(edge.target not in self.part for edge in self.graph.successors[block])
        return out or self.instructions[self.graph.blocks[block][-1]].flow in LEAVING

    def decided_by(self, block: int) -> int | None:
        """The first instruction found that observes others and decides the branch of *block*; None if there is none."""
        regions = self._regions(block)
        seen, work = set[int](), self._deciding(block)
        while work:
            register = work.pop()
            if register in seen:
                continue
            seen.add(register)
            for i in self.writers.get(register, ()):
                instruction = self.instructions[i]
                if i in self.observing or instruction.flow == "call":
                    return i
                if _reads_local(instruction):
                    work.append(_LOCAL)
                work += (r for r in (*instruction.reads, instruction.guard) if r >= 0)
                for branch in regions.get(self.block_of[i], ()):
                    work += self._deciding(branch)
        return None

    @cached_property
    def entered(self) -> frozenset[int]:
        """The blocks by which a thread enters the part."""
        outside = (
            edge.target
            for b, edges in enumerate(self.graph.successors)
            if b not in self.part
            for edge in edges
        )
        return self.part.intersection((0, *outside))

    def counts(self, block: int) -> frozenset[Assumption] | None:
        """What is assumed if the branch of *block* compares a counter with a value that does not change in the part, and the counter
        reaches a number with which a thread leaves there; None if that is not known."""
        guard = self.instructions[self.graph.blocks[block][-1]].guard
        tests = self.writers.get(guard, ()) if guard >= 0 else ()
        if len(tests) != 1 or not self._each_time(self.block_of[tests[0]], block):
            return None
        match, test = self.instructions[tests[0]].match, self.instructions[tests[0]]
        if match is None or match.form.compute != "setp" or test.guard >= 0:
            return None
        if (len(test.operands), len(test.writes)) != (3, 1):
            return None  # it combines the relation with another predicate, or writes its negation as well
        sides = test.named("a"), test.named("b")
        changing = [side for side in sides if isinstance(side, int) and side in self.writers]
        if len(changing) != 1 or match.element[1] not in "usb" or match.relation not in RELATIONS:
            return None
        width = int(match.element[2:])
        limit = sides[1] if changing[0] == sides[0] else sides[0]
        canonical, swapped, negated = RELATIONS[match.relation]
        swapped ^= changing[0] != sides[0]
        step = self._step(changing[0], block, width)
        number = None if limit is None else self.constant(limit, tests[0])
        signed = match.element[1] == "s"
        leaving = [(canonical, swapped, negated is truth) for truth in self._leaving(block)]
        if any(_reaches(each, number, step, width, signed=signed) for each in leaving):
            return frozenset()
        towards = signed and number is None and any(_is_towards(each, step, width) for each in leaving)
        return frozenset((Assumption.NO_OVERFLOW,)) if towards else None

    def _leaving(self, block: int) -> set[bool]:
        """The truth values of the guard of the branch of *block* with which a thread leaves the part."""
        last = self.instructions[self.graph.blocks[block][-1]]
        edges = self.graph.successors[block]
        found = {e.value for e in edges if e.target not in self.part and e.predicate == last.guard}
        return found | {not last.negated} if last.flow in LEAVING else found

    def _step(self, register: int, block: int, width: int) -> int:
        """What is added to *register*, an integer of so many bits, from each pass of *block* to the next, a constant; 0 if that is
        not known."""
        at, total = register, 0
        for _ in range(_MAX_COPIES):
            writers = self.writers.get(at, ())
            if len(writers) != 1 or not self._once(self.block_of[writers[0]], block):
                return 0
            instruction = self.instructions[writers[0]]
            match, a, b = instruction.match, instruction.named("a"), instruction.named("b")
            if match is None or instruction.guard >= 0 or not isinstance(a, int):
                return 0
            wraps = match.element in (f".s{width}", f".u{width}") and not match.modes.saturates
            if match.form.compute in ("add", "sub") and isinstance(b, Immediate) and wraps:
                total += int(b.value) if match.form.compute == "add" else -int(b.value)
            elif match.form.compute != "mov":
                return 0
            at = a
            if at == register:
                return total
        return 0

    def _each_time(self, block: int, end: int) -> bool:
        """Whether a thread passes *block* from each pass of *end* to the next."""
        return block == end or not any(end in part for part in _components(self.graph, self.part - {block}))

    def _once(self, block: int, end: int) -> bool:
        """Whether a thread passes *block* once from each pass of *end* to the next, and not in a loop within that."""
        inner = _components(self.graph, self.part - {end})
        return self._each_time(block, end) and not any(block in part for part in inner)

    def _deciding(self, block: int) -> list[int]:
        """The registers that decide by which edge a thread leaves *block*."""
        last = self.instructions[self.graph.blocks[block][-1]]
        found = [last.guard] if last.guard >= 0 else []
        return found + (list(last.reads) if last.flow == "branch-table" else [])

    def _regions(self, end: int) -> Mapping[int, list[int]]:
        """Block -> the branches that decide whether a thread passes it before it comes to *end*."""
        post = self._post_dominators(end)
        found: dict[int, list[int]] = {}
        for branch, targets in self.inside.items():
            if branch == end or len(targets) < 2:
                continue
            seen, work = set[int](), list(targets)
            while work:
                b = work.pop()
                if b in seen or b == end or (post[branch] >> b & 1 and b != branch):
                    continue
                seen.add(b)
                found.setdefault(b, []).append(branch)
                work += self.inside[b]
        return found

    def _post_dominators(self, end: int) -> dict[int, int]:
        """Block -> the blocks that a thread passes from there until it is at *end*, with one bit for each."""
        everything = sum(1 << b for b in self.part)
        post = {b: 1 << b if b == end else everything for b in self.part}
        changed = True
        while changed:
            changed = False
            for b in sorted(self.part - {end}, reverse=True):
                common = everything
                for target in self.inside[b]:
                    common &= post[target]
                common |= 1 << b
                if common != post[b]:
                    post[b], changed = common, True
        return post


def _components(graph: Graph, blocks: frozenset[int]) -> Iterator[frozenset[int]]:
    """The strongly connected parts of the graph of *blocks* that have a cycle."""

    def following(b: int) -> Iterator[int]:
        return (edge.target for edge in graph.successors[b] if edge.target in blocks)

    for part in strongly_connected(sorted(blocks), following):
        if len(part) > 1 or part[0] in following(part[0]):
            yield frozenset(part)
