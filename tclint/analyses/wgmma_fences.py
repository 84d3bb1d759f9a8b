"""Registers of ``wgmma`` that were accessed since the last ``wgmma.fence`` (PTX ISA 9.7.15.7.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tclint.dataflow.kernel import Kernel
from tclint.dataflow.solver import Analysis
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Instruction, Vector, registers
from tclint.isa.effects import WGMMA, Fence

__all__ = ["WgmmaFences"]

WgmmaFencesState = tuple[bool, int]
"""Whether some path from the entry has no fence; and the tracked registers accessed since the last fence, one bit
each."""


class WgmmaFences(Analysis[WgmmaFencesState]):
    """The accumulators, A fragments, and registers moved into them, that were accessed since the last fence.

    A ``mov`` is not an access: nvcc puts the zeroing of an accumulator and the copies of its loop variables between the
    fence and the ``wgmma``, and ptxas treats both as renaming. A copy of an accessed register counts as accessed, too.
    Of a register that is only moved into those that a ``wgmma`` uses, only writes count as accesses.
    """

    def __init__(self, model: Kernel) -> None:
        self.model = model
        self._bits: dict[int, int] = {}
        self._registers: list[int] = []
        self.uses: dict[int, int] = {}
        """wgmma -> the registers of its accumulator and its A fragment."""
        self.sources: dict[int, int] = {}
        """wgmma -> its A fragment."""
        for site in model.begins(WGMMA):
            instruction = model.instruction(site)
            accumulator, fragment = instruction.role("d"), instruction.role("a")
            d = registers(accumulator) if accumulator is not None else ()
            a = registers(fragment) if isinstance(fragment, Vector) else ()
            self.sources[site] = self._mask(a)
            self.uses[site] = self._mask(d) | self.sources[site]
        self._used = (1 << len(self._registers)) - 1
        self._feeders = self._moves()

    def _moves(self) -> dict[int, set[int]]:
        """Tracked register -> the registers that a ``mov`` copies into it, which become tracked as well."""
        copied: dict[int, set[int]] = {}
        for instruction in self.model.function.instructions:
            if instruction.renames:
                copied.setdefault(instruction.writes[0], set()).add(instruction.reads[0])
        feeders: dict[int, set[int]] = {}
        work = list(self._registers)
        while work:
            register = work.pop()
            if register not in feeders:
                feeders[register] = copied.get(register, set())
                self._mask(tuple(feeders[register]))
                work += feeders[register]
        return feeders

    def feeding(self, mask: int) -> int:
        """The registers of *mask*, and all registers that moves may copy into them."""
        work = [register for register, bit in self._bits.items() if bit & mask]
        while work:
            for register in self._feeders.get(work.pop(), ()):
                if not self._bits[register] & mask:
                    mask |= self._bits[register]
                    work.append(register)
        return mask

    def _mask(self, wanted: tuple[int, ...]) -> int:
        mask = 0
        for register in wanted:
            if register not in self._bits:
                self._bits[register] = 1 << len(self._registers)
                self._registers.append(register)
            mask |= self._bits[register]
        return mask

    def bit(self, register: int) -> int:
        return self._bits.get(register, 0)

    def register(self, bit: int) -> int:
        return self._registers[bit.bit_length() - 1]

    def touches(self, instruction: Instruction) -> int:
        """The tracked registers that *instruction* accesses, unless it is a ``wgmma`` instruction or a move."""
        if instruction.group == WGMMA or _moves(instruction):
            return 0
        mask = 0
        bits = self._bits
        for register in instruction.reads:
            if register in bits:
                mask |= bits[register]
        mask &= self._used
        for register in instruction.writes:
            if register in bits:
                mask |= bits[register]
        return mask

    def webs(self) -> Callable[[int], int]:
        """A function that is equal for two tracked registers if moves and ordinary instructions compute one from the
        other, in several steps too."""
        parent = {register: register for register in self._registers}

        def root(register: int) -> int:
            while parent[register] != register:
                parent[register] = register = parent[parent[register]]
            return register

        for instruction in self.model.function.instructions:
            if instruction.group != WGMMA:
                first, *others = [r for r in (*instruction.writes, *instruction.reads) if r in parent] or [-1]
                for other in others if not parent.keys().isdisjoint(instruction.writes) else ():
                    parent[root(other)] = root(first)
        # The registers of one accumulator belong together.
        for site in self.uses:
            d = self.model.instruction(site).role("d")
            first, *others = registers(d) if d is not None else (-1,)
            for other in others:
                parent[root(other)] = root(first)
        return root

    def boundary(self) -> WgmmaFencesState:
        return True, 0

    def bottom(self) -> WgmmaFencesState:
        return False, 0

    def join(self, a: WgmmaFencesState, b: WgmmaFencesState) -> WgmmaFencesState:
        return a[0] or b[0], a[1] | b[1]

    def affecting(self, instruction: Instruction) -> bool:
        match = instruction.match
        if (
            match is not None
            and match.form.group == WGMMA
            and (match.form.effects.fence is Fence.REGISTERS or match.form.effects.begins is not None)
        ):
            return True
        if _moves(instruction):
            return not self._bits.keys().isdisjoint(instruction.writes)
        return bool(self.touches(instruction))

    def transfer(self, state: WgmmaFencesState, at: int, instruction: Instruction) -> WgmmaFencesState:
        if instruction.effects.fence is Fence.REGISTERS:
            return False, 0
        unfenced, accessed = state
        after = self._moved(accessed, instruction) | self.touches(instruction)
        return state if after == accessed else (unfenced, after)

    def _moved(self, accessed: int, instruction: Instruction) -> int:
        """The registers that count as accessed after *instruction* if it is a move; *accessed* otherwise."""
        if not _moves(instruction):
            return accessed
        target = sum(self._bits.get(register, 0) for register in instruction.writes)
        if any(accessed & self._bits.get(source, 0) for source in instruction.reads):
            return accessed | target
        return accessed & ~(target & ~self._used)

    def edge(self, state: WgmmaFencesState, edge: Edge) -> WgmmaFencesState:
        if edge.source not in self.model.reachability.dispatchers:
            return state
        if state[1]:
            self.model.drop_facts(self, self.model.cfg.blocks[edge.source].end - 1)
        return True, 0

    def alive(self, state: WgmmaFencesState, at: int, instruction: Instruction) -> WgmmaFencesState | None:
        """The state of one access and its copies after one more instruction of a path; None after a fence."""
        if instruction.effects.fence is Fence.REGISTERS:
            return None
        accessed = self._moved(state[1], instruction)
        return state if accessed == state[1] else (state[0], accessed)

    def accesses_before(self, site: int) -> Iterator[int]:
        """The accesses to tracked registers since a fence, nearest first, walking backwards from *site*."""
        cfg, instructions = self.model.cfg, self.model.function.instructions
        start = cfg.block_of[site]
        seen: set[tuple[int, bool]] = set()
        work = [(start, site)]
        while work:
            following: list[tuple[int, int]] = []
            for block, end in work:
                fenced = False
                for i in range(end - 1, cfg.blocks[block].start - 1, -1):
                    if instructions[i].effects.fence is Fence.REGISTERS and instructions[i].guard < 0:
                        fenced = True
                        break
                    if self.touches(instructions[i]):
                        yield i
                if not fenced:
                    for edge in cfg.predecessors[block]:
                        if (edge.source, True) not in seen:
                            seen.add((edge.source, True))
                            following.append((edge.source, cfg.blocks[edge.source].end))
            work = following


def _moves(instruction: Instruction) -> bool:
    """Whether *instruction* is a ``mov`` of a register or of an immediate."""
    return instruction.renames or (instruction.moves and not instruction.reads)
