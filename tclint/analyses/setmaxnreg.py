"""The number of registers that a warp owns, by the ``setmaxnreg`` that set it last (PTX ISA 9.7.19.5)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Function, Immediate, Instruction, Vector, registers
from tclint.isa.effects import WGMMA, Resource
from tclint.isa.target import (
    MAX_REGISTERS_PER_THREAD,
    PARTITIONS_PER_SM,
    REGISTERS_PER_SM,
    allocated_registers,
)

SetmaxnregState = frozenset[tuple[int, int]]
"""``(site, count)``: a ``setmaxnreg`` that may be the last one executed, or :data:`START` for the launch."""

START = -1
UNKNOWN = 0
"""The count of a warp if its number of registers at launch is unknown."""


_OVERHEAD, _WGMMA_OVERHEAD = 18, 26
"""The registers that ``ptxas`` 13.5 wants for an instruction besides those of its vectors (C7602)."""


def bound(function: Function) -> int | None:
    """The maximum registers per thread for which ``ptxas`` compiles ``setmaxnreg``; None if it drops all of them (C7508).

    The directives state it. Without a bound in them, ``ptxas`` 13.5 knows the count only if an instruction needs so many
    registers that two CTAs of the stated size do not fit on an SM: then it is the share of one CTA.
    """
    stated, threads = function.directives, function.most_threads
    counts = [stated[".maxnreg"][0]] if stated.get(".maxnreg") else []
    if threads and stated.get(".minnctapersm"):
        counts.append(_share(threads, stated[".minnctapersm"][0]))
    if threads and not counts and _least(function) > _share(threads, 2):
        counts.append(_share(threads, 1))
    return min(counts, default=None)


def _share(threads: int, ctas: int) -> int:
    """The maximum registers per thread if *ctas* CTAs of *threads* threads each share an SM, whose warps are divided among
    its partitions."""
    warps = -(-(-(-threads // 32) * ctas) // PARTITIONS_PER_SM)
    return min(REGISTERS_PER_SM // PARTITIONS_PER_SM // max(32 * warps, 1) // 8 * 8, MAX_REGISTERS_PER_THREAD)


def _least(function: Function) -> int:
    """The fewest registers per thread with which ``ptxas`` compiles every instruction of *function*."""
    return max(
        (
            len({r for o in i.operands if isinstance(o, Vector) for r in registers(o)})
            + (_WGMMA_OVERHEAD if i.group == WGMMA else _OVERHEAD)
            for i in function.instructions
        ),
        default=0,
    )


def launched(function: Function) -> int | None:
    """The registers that a thread may hold at launch, if ``ptxas`` honours ``setmaxnreg`` in the kernel; else None."""
    found = bound(function) if function.entry else None
    return None if found is None else allocated_registers(found)


def pool(function: Function) -> int | None:
    """The maximum registers that a CTA has for all its threads; None if ``setmaxnreg`` is dropped, or the number of threads
    is not bounded."""
    threads, each = function.most_threads, launched(function)
    return None if threads is None or each is None else 32 * -(-threads // 32) * each


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
        instructions = [model.instruction(i) for i in model.sites(Resource.REGISTERS)]
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
        return instruction.effects.resource is Resource.REGISTERS

    def transfer(self, state: SetmaxnregState, at: int, instruction: Instruction) -> SetmaxnregState:
        return frozenset(((at, requested(instruction)),))
