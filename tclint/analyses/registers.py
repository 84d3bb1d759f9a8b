"""How many registers a warp owns: who set the count last (PTX ISA 9.7.19.5)."""

from __future__ import annotations

from tclint.cfg import Edge
from tclint.dataflow.engine import Analysis
from tclint.ir.nodes import Function, Immediate, Instruction
from tclint.model import KernelModel

State = frozenset[tuple[int, int]]
"""``(site, count)``: the setmaxnreg that may have been the last one, or -1 for the launch."""

START = -1
_POOL = 65536
"""Registers of an SM, on every target that has setmaxnreg."""
_MOST = 255


def bound(function: Function) -> int | None:
    """The most registers of a thread that the directives of *function* allow, where ptxas goes by them."""
    stated = function.directives
    counts = [stated[".maxnreg"][0]] if stated.get(".maxnreg") else []
    threads = function.most_threads
    if threads and stated.get(".minnctapersm"):
        warps = -(-threads // 32) * stated[".minnctapersm"][0]
        counts.append(min(_POOL // max(32 * warps, 1) // 8 * 8, _MOST))
    return min(counts, default=None)


def requested(instruction: Instruction) -> int:
    """The count that a setmaxnreg asks for."""
    count = instruction.role("count")
    return count.value if isinstance(count, Immediate) and isinstance(count.value, int) else 0


def raises(instruction: Instruction) -> bool:
    return instruction.match is not None and instruction.match.binding.get("action") == ".inc"


class RegisterCounts(Analysis[State]):
    """The counts that a warp may own."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.launch = bound(model.function) if model.function.entry else None
        asked = [model.instruction(i) for i in model.sites("setmaxnreg")]
        most = max((requested(i) for i in asked if raises(i)), default=None)
        if self.launch is not None and most is not None:
            # ptxas starts the kernel with no more than it ever asks for (seen with 13.0 and 13.5).
            self.launch = min(self.launch, most)

    def boundary(self) -> State:
        return frozenset(() if self.launch is None else ((START, self.launch),))

    def bottom(self) -> State:
        return frozenset()

    def join(self, a: State, b: State) -> State:
        return a | b

    def relevant(self, instruction: Instruction) -> bool:
        return instruction.event == "setmaxnreg"

    def transfer(self, state: State, at: int, instruction: Instruction) -> State:
        return frozenset(((at, requested(instruction)),))

    def guarded(self, state: State, after: State, at: int) -> State:
        return self.model.views.guarded(state, after, at)

    def edge(self, state: State, edge: Edge) -> State:
        views = self.model.views
        if edge.source in views.dispatchers:
            return frozenset()
        if edge.predicate < 0 or not state:
            return state
        gone = views.barred(edge, {site for site, _ in state})
        return frozenset(f for f in state if f[0] not in gone) if gone else state

    def mentions(self, state: State, site: int) -> bool:
        return any(f[0] == site for f in state)
