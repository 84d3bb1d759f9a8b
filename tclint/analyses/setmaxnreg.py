"""The number of registers that a warp owns, by the ``setmaxnreg`` that set it last (PTX ISA 9.7.19.5)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Function, Immediate, Instruction
from tclint.isa.target import MAX_REGISTERS_PER_THREAD, REGISTERS_PER_SM, allocated_registers

SetmaxnregState = frozenset[tuple[int, int]]
"""``(site, count)``: a ``setmaxnreg`` that may be the last one executed, or :data:`START` for the launch."""

START = -1
UNKNOWN = 0
"""The count of a warp if its number of registers at launch is unknown."""


def bound(function: Function) -> int | None:
    """The maximum registers per thread that the directives of *function* make ptxas use; None if they set no bound."""
    stated = function.directives
    counts = [stated[".maxnreg"][0]] if stated.get(".maxnreg") else []
    if function.most_threads and stated.get(".minnctapersm"):
        counts.append(_share(function.most_threads, stated[".minnctapersm"][0]))
    return min(counts, default=None)


def _share(threads: int, ctas: int) -> int:
    """The maximum registers per thread if *ctas* CTAs of *threads* threads each share an SM."""
    warps = -(-threads // 32) * ctas
    return min(REGISTERS_PER_SM // max(32 * warps, 1) // 8 * 8, MAX_REGISTERS_PER_THREAD)


def launched(function: Function) -> int | None:
    """The registers that a thread holds at launch, if ptxas honours ``setmaxnreg`` in the kernel; None if unknown.

    Without a bound in the directives, the kernel is taken to need the full share that the number of its threads leaves
    to each. With few threads, that share is the maximum of the ISA, and whether the kernel needs so many is unknown.
    """
    if not function.entry:
        return None
    found, threads = bound(function), function.most_threads
    if found is None and threads and _share(threads, 1) < MAX_REGISTERS_PER_THREAD:
        found = _share(threads, 1)
    return None if found is None else allocated_registers(found)


def pool(function: Function) -> int | None:
    """The maximum registers that a CTA has for all its threads; None if the number of its threads is not bounded."""
    threads = function.most_threads
    if not function.entry or threads is None:
        return None
    warps = -(-threads // 32)
    return 32 * warps * allocated_registers(bound(function) or _share(threads, 1))


def requested(instruction: Instruction) -> int:
    """The count that a ``setmaxnreg`` requests."""
    count = instruction.role("count")
    return count.value if isinstance(count, Immediate) and isinstance(count.value, int) else 0


def raises(instruction: Instruction) -> bool:
    """Whether *instruction* is a ``setmaxnreg.inc``."""
    return instruction.match is not None and instruction.match.binding.get("action") == ".inc"


class RegisterCounts(FactSet[tuple[int, int]]):
    """The numbers of registers per thread that a warp may own."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.launch = launched(model.function)
        instructions = [model.instruction(i) for i in model.sites("setmaxnreg")]
        most = max((requested(i) for i in instructions if raises(i)), default=None)
        if self.launch is not None and most is not None:
            # ptxas launches a kernel with at most the largest count that it requests (seen with 13.0 and 13.5).
            self.launch = min(self.launch, most)

    def boundary(self) -> SetmaxnregState:
        return frozenset(((START, self.launch or UNKNOWN),))

    def edge(self, state: SetmaxnregState, edge: Edge) -> SetmaxnregState:
        """A dispatcher does not end the facts: a warp keeps its registers whatever role it takes next."""
        return state if edge.source in self.model.reachability.dispatchers else super().edge(state, edge)

    def affecting(self, instruction: Instruction) -> bool:
        return instruction.event == "setmaxnreg"

    def transfer(self, state: SetmaxnregState, at: int, instruction: Instruction) -> SetmaxnregState:
        return frozenset(((at, requested(instruction)),))
