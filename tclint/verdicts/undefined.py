"""The registers that a thread may read before anything has written them: they may hold another value in each thread.

A register is *needed* at a point if a path from there reads it before anything writes it. Where a guard or a branch decides
that, it is needed under a condition: a predicate and its truth. So ``@p ld r; @!p mov r, 0`` writes r in any case, and
``@p mov r, 1`` writes it for what reads it under the same guard, or where a branch on the guard leads there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from tclint.ir.nodes import Instruction
from tclint.verdicts.checker import Graph

__all__ = ["undefined"]


def undefined(instructions: Sequence[Instruction], graph: Graph, order: Iterable[int]) -> int:
    """The registers that may be read before they are written, one bit for each, in the blocks *order* of *graph*."""
    return _Needed(instructions, graph, order).found


class _Needed:
    """The needs at the entry of each block: one bit for each register, and for each condition under which one is needed."""

    def __init__(self, instructions: Sequence[Instruction], graph: Graph, order: Iterable[int]) -> None:
        self.instructions, self.graph, self.order = instructions, graph, list(order)
        self.registers = 1 + max(
            (r for b in self.order for i in graph.blocks[b] for r in self._all(instructions[i])), default=0
        )
        self.conditional = self._conditions()
        """Register, guard and its truth -> the bit that stands for the register under this condition."""
        self.of_guard: dict[int, list[tuple[int, int]]] = {}
        """Guard -> the bits of the registers under a condition of it, each with the register."""
        self.of_register: dict[int, int] = {}
        """Register -> all its bits."""
        for (register, guard, _), bit in self.conditional.items():
            self.of_guard.setdefault(guard, []).append((bit, register))
            self.of_register[register] = self.of_register.get(register, 0) | bit
        self.found = self._solve()

    @staticmethod
    def _all(instruction: Instruction) -> Iterable[int]:
        return (r for r in (*instruction.reads, *instruction.writes, instruction.guard) if r >= 0)

    def _conditions(self) -> dict[tuple[int, int, bool], int]:
        """A bit for each register and each guard under which it is written, for both truth values."""
        found: dict[tuple[int, int, bool], int] = {}
        for b in self.order:
            for i in self.graph.blocks[b]:
                instruction = self.instructions[i]
                for register in instruction.writes if instruction.guard >= 0 else ():
                    for truth in (False, True):
                        key = register, instruction.guard, truth
                        found.setdefault(key, 1 << self.registers + len(found))
        return found

    def _solve(self) -> int:
        """The registers that are needed at the entry of the function."""
        needed = dict.fromkeys(self.order, 0)
        before: dict[int, list[int]] = {b: [] for b in self.order}
        for b in self.order:
            for edge in self.graph.successors[b]:
                before[edge.target].append(b)
        work = set(self.order)
        while work:
            b = max(work)
            work.remove(b)
            if (fresh := self._entry(b, needed)) != needed[b]:
                needed[b] = fresh
                work.update(before[b])
        entry = needed.get(0, 0)
        under = (register for (register, _, _), bit in self.conditional.items() if entry & bit)
        return reduce(lambda found, register: found | 1 << register, under, entry & (1 << self.registers) - 1)

    def _entry(self, b: int, needed: Mapping[int, int]) -> int:
        """What is needed at the entry of a block."""
        found = 0
        for edge in self.graph.successors[b]:
            found |= self._if(needed[edge.target], edge.predicate, edge.value)
        for i in reversed(self.graph.blocks[b]):
            found = self._before(found, self.instructions[i])
        return found

    def _if(self, needed: int, guard: int, truth: bool) -> int:
        """What is needed where a guard has a truth value: nothing under the other one."""
        for bit, register in self.of_guard.get(guard, ()):
            if bit != self.conditional[register, guard, truth]:
                needed &= ~bit
            elif needed >> register & 1:
                needed = needed & ~(1 << register) | bit
        return needed

    def _before(self, needed: int, instruction: Instruction) -> int:
        """What is needed before an instruction, if *needed* is after it."""
        # What is needed under a condition does not depend on what its guard held before.
        for guard in instruction.writes:
            for bit, register in self.of_guard.get(guard, ()):
                if needed & bit:
                    needed = needed & ~bit | 1 << register
        truth = not instruction.negated
        for register in instruction.writes:
            if instruction.guard < 0:
                needed &= ~(1 << register | self.of_register.get(register, 0))
                continue
            if needed >> register & 1:
                needed = needed & ~(1 << register) | self.conditional[register, instruction.guard, not truth]
            needed &= ~self.conditional[register, instruction.guard, truth]
        for register in instruction.reads:
            needed |= self.conditional.get((register, instruction.guard, truth), 1 << register)
        return needed | 1 << instruction.guard if instruction.guard >= 0 else needed
