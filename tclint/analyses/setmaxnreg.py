"""How many registers a warp owns: who set the count last (PTX ISA 9.7.19.5)."""

from __future__ import annotations

from tclint.analyses.fact_set import FactSet
from tclint.analyses.model import KernelModel
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Function, Immediate, Instruction

State = frozenset[tuple[int, int]]
"""``(site, count)``: the setmaxnreg that may have been the last one, or -1 for the launch."""

START = -1
UNKNOWN = 0
"""The count of a warp of which nothing says with how many it was launched."""
_POOL = 65536
"""Registers of an SM, on every target that has setmaxnreg."""
_MOST = 255


def bound(function: Function) -> int | None:
    """The most registers of a thread that the directives of *function* allow, where ptxas goes by them."""
    stated = function.directives
    counts = [stated[".maxnreg"][0]] if stated.get(".maxnreg") else []
    if function.most_threads and stated.get(".minnctapersm"):
        counts.append(_share(function.most_threads, stated[".minnctapersm"][0]))
    return min(counts, default=None)


def _share(threads: int, ctas: int) -> int:
    """The most registers of a thread when *ctas* of *threads* each share an SM."""
    warps = -(-threads // 32) * ctas
    return min(_POOL // max(32 * warps, 1) // 8 * 8, _MOST)


def launched(function: Function) -> int | None:
    """The registers of a thread at launch, where ptxas hears setmaxnreg at all.

    Without a bound that is in a kernel which needs all that its threads leave to each. Few leave as many as a
    thread can have, and nobody can say whether it needs these.
    """
    if not function.entry:
        return None
    found, threads = bound(function), function.most_threads
    if found is None and threads and _share(threads, 1) < _MOST:
        found = _share(threads, 1)
    return found


def pool(function: Function) -> int | None:
    """The registers that a CTA has for all its threads, at most; None where nothing says how many threads it has."""
    threads = function.most_threads
    if not function.entry or threads is None:
        return None
    warps = -(-threads // 32)
    return 32 * warps * (bound(function) or _share(threads, 1))


def requested(instruction: Instruction) -> int:
    """The count that a setmaxnreg asks for."""
    count = instruction.role("count")
    return count.value if isinstance(count, Immediate) and isinstance(count.value, int) else 0


def raises(instruction: Instruction) -> bool:
    return instruction.match is not None and instruction.match.binding.get("action") == ".inc"


class RegisterCounts(FactSet[tuple[int, int]]):
    """The counts that a warp may own."""

    by_opcode = True

    def __init__(self, model: KernelModel) -> None:
        super().__init__(model)
        self.launch = launched(model.function)
        asked = [model.instruction(i) for i in model.sites("setmaxnreg")]
        most = max((requested(i) for i in asked if raises(i)), default=None)
        if self.launch is not None and most is not None:
            # ptxas starts the kernel with no more than it ever asks for (seen with 13.0 and 13.5).
            self.launch = min(self.launch, most)

    def boundary(self) -> State:
        return frozenset(((START, self.launch or UNKNOWN),))

    def edge(self, state: State, edge: Edge) -> State:
        """A warp owns what it owns, whatever role it takes on next."""
        return state if edge.source in self.model.reachability.dispatchers else super().edge(state, edge)

    def relevant(self, instruction: Instruction) -> bool:
        return instruction.event == "setmaxnreg"

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        return frozenset(((at, requested(instruction)),))
