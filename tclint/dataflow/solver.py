"""Dataflow analysis over a control-flow graph: one worklist solver for every analysis.

States are immutable values compared with ``==``. The solver keeps the state at each block's entry only;
:meth:`Results.before` recomputes inside a block. Guarded instructions are handled here: where nothing is known of the
guard, the state afterwards is the join of both outcomes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property
from heapq import heappop, heappush
from operator import neg
from typing import Generic, Literal, TypeVar

from tclint.ir.cfg import CFG, Edge
from tclint.ir.nodes import Instruction, Site

__all__ = ["Analysis", "LimitExceeded", "Results", "solve"]

D = TypeVar("D")


MAX_VISITS_PER_BLOCK = 200
"""How often :func:`solve` may visit one block before it concludes that an analysis has no fixpoint."""


class LimitExceeded(Exception):
    """An analysis did not reach its fixpoint within the limit of block visits."""


class Analysis(Generic[D]):
    """A lattice with transfer functions; :func:`solve` finds its least fixpoint.

    ``join`` must be associative, commutative and idempotent, with ``bottom`` as its unit, and ``transfer`` and ``edge``
    monotone in the order that ``join`` induces. Then the solution is the least one, and the solver terminates if no
    ascending chain of states is infinite.
    """

    direction: Literal["forward", "backward"] = "forward"
    by_opcode = False
    """Whether :meth:`affecting` depends on the opcode alone; it is then called once per opcode."""

    def __str__(self) -> str:
        """Its name in messages: ``the analysis 'wgmma groups'`` is of the class WgmmaGroups."""
        words = "".join(f" {c.lower()}" if c.isupper() else c for c in type(self).__name__)
        return f"the analysis '{words.strip(' _')}'"

    def boundary(self) -> D:
        """The state at the entry, or at every exit for a backward analysis."""
        raise NotImplementedError

    def bottom(self) -> D:
        """The state of unreachable code."""
        raise NotImplementedError

    def join(self, a: D, b: D) -> D:
        """The least upper bound of two states."""
        raise NotImplementedError

    def affecting_sites(self) -> Iterable[Site] | None:
        """The instructions that can change a state, if they are known without testing each one; else None."""
        return None

    def affecting(self, instruction: Instruction) -> bool:
        """Whether :meth:`transfer` can change a state at *instruction*; the solver skips all others."""
        return True

    def transfer(self, state: D, at: Site, instruction: Instruction) -> D:
        """The state after *instruction* (before it if backward), on the assumption that its guard is true."""
        raise NotImplementedError

    def guarded(self, state: D, after: D, at: Site) -> D:
        """The state after a guarded instruction, given *state* before it and *after* it if it executes.

        The default joins both. An analysis whose facts know their threads ends those whose threads certainly execute
        the instruction.
        """
        return self.join(state, after)

    def edge(self, state: D, edge: Edge) -> D:
        """The state after *edge* is taken."""
        return state

    def originating_sites(self, state: D) -> Iterable[Site] | None:
        """The sites that generated the facts in *state*; None if unknown."""
        return None


class Results(Generic[D]):
    """The solution: a state at every program point, recomputed inside blocks on demand."""

    def __init__(self, analysis: Analysis[D], cfg: CFG, entry: list[D], relevant: list[list[int]]) -> None:
        self.analysis = analysis
        self.cfg = cfg
        self.entry = entry
        self.affecting = relevant
        self._numbers: dict[int, int] = {}
        """Site that generated a fact -> its bit in the sets of :attr:`_origins`."""
        self._carrying: tuple[int, set[int]] = -1, set()
        self._last: tuple[int, int, D] = -1, 0, analysis.bottom()
        """``(block, affecting instructions passed, state)`` of the last question, from which the next one continues."""

    def blocks_reached_by(self, site: Site) -> AbstractSet[int] | None:
        """The blocks whose entry state may contain a fact generated at *site*; None: any block may."""
        about = self._origins
        if about is None:
            return None
        if self._carrying[0] != site:  # cached: several searches start at one instruction
            number = self._numbers.get(site)
            bit = 0 if number is None else 1 << number
            self._carrying = site, {b for b, sites in enumerate(about) if sites & bit}
        return self._carrying[1]

    @cached_property
    def _origins(self) -> list[int] | None:
        """For each block, the bit set of sites that generated the facts at its entry; None if unknown.

        Computed once per distinct state: there are many blocks, and most share a state.
        """
        known: dict[D, int] = {}
        numbers = self._numbers
        for state in self.entry:
            if state in known:
                continue
            about = self.analysis.originating_sites(state)
            if about is None:
                return None
            positions = [numbers.setdefault(site, len(numbers)) for site in about]
            bits = bytearray(len(numbers) // 8 + 1)
            for position in positions:
                bits[position >> 3] |= 1 << (position & 7)
            known[state] = int.from_bytes(bits, "little")
        return [known[state] for state in self.entry]

    def walk(self, block: int) -> Iterator[tuple[Site, D]]:
        """``(instruction, state before it)`` for the affecting instructions of *block*, in the analysis's direction."""
        analysis, instructions = self.analysis, self.cfg.function.instructions
        state = self.entry[block]
        for at in self.affecting[block]:
            yield at, state
            state = _step(analysis, state, at, instructions[at])

    def walk_to_end(self, block: int) -> Iterator[tuple[Site, D]]:
        """:meth:`walk`, and then the end of *block* with the state there; the analysis is a forward one.

        One after the other: together, the states of a block with many copies in flight would fill the memory.
        """
        analysis, instructions = self.analysis, self.cfg.function.instructions
        state = self.entry[block]
        for at in self.affecting[block]:
            yield at, state
            state = _step(analysis, state, at, instructions[at])
        yield self.cfg.blocks[block].end, state

    def before(self, at: Site) -> D:
        """The state before instruction *at* in the direction of the analysis."""
        block = self.cfg.block_of[at]
        analysis, sites = self.analysis, self.affecting[block]
        backward = analysis.direction == "backward"
        passed = bisect_left(sites, -at, key=neg) if backward else bisect_left(sites, at)
        last, begin, state = self._last
        if last != block or begin > passed:  # otherwise continue where the last question ended
            begin, state = 0, self.entry[block]
        for i in sites[begin:passed]:
            state = _step(analysis, state, i, self.cfg.function.instructions[i])
        self._last = block, passed, state
        return state

    def after(self, at: Site) -> D:
        """The state after instruction *at* in the direction of the analysis."""
        instruction = self.cfg.function.instructions[at]
        state = self.before(at)
        return _step(self.analysis, state, at, instruction) if self.analysis.affecting(instruction) else state

    def leave(self, block: int) -> D:
        """The state at the end of *block* in the direction of the analysis."""
        state = self.entry[block]
        for at in self.affecting[block]:
            state = _step(self.analysis, state, at, self.cfg.function.instructions[at])
        return state


def _step(analysis: Analysis[D], state: D, at: Site, instruction: Instruction) -> D:
    after = analysis.transfer(state, at, instruction)
    return analysis.guarded(state, after, at) if instruction.guard >= 0 and after != state else after


def _relevant(analysis: Analysis[D], cfg: CFG) -> list[list[int]]:
    """The affecting instructions of each block, in program order."""
    instructions, affects = cfg.function.instructions, analysis.affecting
    chosen = analysis.affecting_sites()
    if chosen is None and not analysis.by_opcode:
        return [[i for i in range(b.start, b.end) if affects(instructions[i])] for b in cfg.blocks]
    if chosen is None:
        uses = [use for use in cfg.function.uses if use.sites and affects(instructions[use.sites[0]])]
        chosen = (i for use in uses for i in use.sites)
    relevant: list[list[int]] = [[] for _ in cfg.blocks]
    for i in sorted(chosen):
        relevant[cfg.block_of[i]].append(i)
    return relevant


def solve(analysis: Analysis[D], cfg: CFG, visits_per_block: int = MAX_VISITS_PER_BLOCK) -> Results[D]:
    """The least fixpoint of *analysis* over *cfg*.

    Blocks are visited in reverse postorder of the graph (of the reversed order if backward). Raises
    :class:`LimitExceeded` if the states do not converge, which cannot happen to a monotone analysis over a finite
    lattice whose chains are shorter than the limit.
    """
    backward = analysis.direction == "backward"
    relevant = _relevant(analysis, cfg)
    if backward:
        for sites in relevant:
            sites.reverse()
    bottom = analysis.bottom()
    entry = [bottom] * len(cfg.blocks)
    results = Results(analysis, cfg, entry, relevant)
    order = cfg.order
    if not order:
        return results
    rank = cfg.rank
    if backward:
        size = len(order)
        priority = {b: size - rank[b] for b in order}
        starts = [b for b in order if b in cfg.exits or not cfg.successors[b]]
        for b in starts:
            entry[b] = analysis.boundary()
        work = [(priority[b], b) for b in order]
    else:
        priority = rank
        entry[0] = analysis.boundary()
        work = [(0, 0)]
    heap: list[tuple[int, int]] = []
    for item in work:
        heappush(heap, item)
    queued = {b for _, b in work}
    visits = [0] * len(cfg.blocks)
    while heap:
        _, block = heappop(heap)
        queued.discard(block)
        visits[block] += 1
        if visits[block] > visits_per_block:
            raise LimitExceeded(f"{analysis} reached no fixpoint in {cfg.function.name}")
        state = results.leave(block)
        for edge in cfg.predecessors[block] if backward else cfg.successors[block]:
            target = edge.source if backward else edge.target
            if target not in rank:
                continue
            before, passed = entry[target], analysis.edge(state, edge)
            joined = before if passed is before else analysis.join(before, passed)
            first = not backward and visits[target] == 0
            if (joined is not before and joined != before) or (first and target not in queued):
                entry[target] = joined
                if target not in queued:
                    queued.add(target)
                    heappush(heap, (priority[target], target))
    return results
