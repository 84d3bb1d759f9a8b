"""Registers of wgmma that were accessed since the last ``wgmma.fence`` (PTX ISA 9.7.15.7.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.groups import is_move
from tclint.cfg import Edge
from tclint.dataflow.engine import Analysis
from tclint.ir.nodes import Instruction, Vector, registers
from tclint.model import KernelModel

__all__ = ["WgmmaFences"]

State = tuple[bool, int]
"""No fence since the entry on some path; the tracked registers accessed since the last fence, one bit each."""


class WgmmaFences(Analysis[State]):
    """Only accumulators, A fragments and what is moved into them are tracked, so a bit set stays small.

    ``mov`` is no access: nvcc puts the zeroing of an accumulator and the copies
    of its loop variables between the fence and the wgmma, and ptxas takes both
    for renaming. What is moved was written by the instruction that made it.
    """

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._bits: dict[int, int] = {}
        self._registers: list[int] = []
        self.uses: dict[int, int] = {}
        """wgmma -> the registers it takes."""
        self.sources: dict[int, int] = {}
        """wgmma -> its A fragment."""
        for site in model.sites("issue", "wgmma"):
            instruction = model.instruction(site)
            accumulator, fragment = instruction.role("d"), instruction.role("a")
            d = registers(accumulator) if accumulator is not None else ()
            a = registers(fragment) if isinstance(fragment, Vector) else ()
            self.sources[site] = self._mask(a)
            self.uses[site] = self._mask(d) | self.sources[site]
        self._taken = (1 << len(self._registers)) - 1
        """The registers that some wgmma takes."""
        self._origins: dict[int, int] = {}
        """Bit of a register -> the registers that are moved into it."""
        self._trace()

    def _trace(self) -> None:
        """Track the registers that a chain of ``mov`` leads from to one that a wgmma takes."""
        moves: dict[int, list[int]] = {}
        for instruction in self.model.function.instructions if self._bits else ():
            if is_move(instruction):
                moves.setdefault(instruction.writes[0], []).append(instruction.reads[0])
        work = [register for register in self._registers if register in moves]
        while work:
            register = work.pop()
            bit = self._bits[register]
            if bit not in self._origins:
                self._origins[bit] = self._mask(tuple(moves[register]))
                work += [source for source in moves[register] if source in moves]

    def before(self, registers: int) -> int:
        """*registers*, and those that may be moved into them."""
        found, work = registers, registers
        while work:
            bit = work & -work
            work ^= bit
            fresh = self._origins.get(bit, 0) & ~found
            found |= fresh
            work |= fresh
        return found

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
        """The registers of a wgmma that *instruction* accesses in the ordinary way, and what will be one that it writes."""
        if instruction.group == "wgmma" or _moves(instruction):
            return 0
        mask = 0
        bits = self._bits
        for register in instruction.reads:
            if register in bits:
                mask |= bits[register] & self._taken
        for register in instruction.writes:
            if register in bits:
                mask |= bits[register]
        return mask

    def boundary(self) -> State:
        return True, 0

    def bottom(self) -> State:
        return False, 0

    def join(self, a: State, b: State) -> State:
        return a[0] or b[0], a[1] | b[1]

    def relevant(self, instruction: Instruction) -> bool:
        match = instruction.match
        if (
            match is not None
            and match.form.group == "wgmma"
            and match.form.event in ("register-fence", "issue")
        ):
            return True
        if is_move(instruction):
            return bool(self._origins.get(self.bit(instruction.writes[0])))
        return bool(self.touches(instruction))

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        if instruction.event == "register-fence":
            return False, 0
        touched = self._moved(state[1], instruction) or self.touches(instruction)
        return (state[0], state[1] | touched) if touched else state

    def _moved(self, dirty: int, instruction: Instruction) -> int:
        """The register that *instruction* moves one of the *dirty* ones into."""
        moves = dirty and is_move(instruction) and dirty & self.bit(instruction.reads[0])
        return self.bit(instruction.writes[0]) if moves else 0

    def edge(self, state: State, edge: Edge) -> State:
        return (True, 0) if edge.source in self.model.views.dispatchers else state

    def alive(self, state: State, at: int, instruction: Instruction) -> State | None:
        """One fact followed along a path: it ends at a fence, and goes with what is moved."""
        if instruction.event == "register-fence":
            return None
        return state[0], state[1] | self._moved(state[1], instruction)

    def accesses_before(self, site: int) -> Iterator[int]:
        """Ordinary accesses to tracked registers, nearest first, walking backwards from *site*."""
        cfg, instructions = self.model.cfg, self.model.function.instructions
        start = cfg.block_of[site]
        seen: set[tuple[int, bool]] = set()
        work = [(start, site)]
        while work:
            following: list[tuple[int, int]] = []
            for block, end in work:
                fenced = False
                for i in range(end - 1, cfg.blocks[block].start - 1, -1):
                    if instructions[i].event == "register-fence" and instructions[i].guard < 0:
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
    return is_move(instruction) or (instruction.opcode.startswith("mov.") and not instruction.reads)
