"""Dataflow over a control-flow graph: one solver for every analysis.

States are immutable values compared with ``==``. The solver keeps the state at
every block's entry only; :meth:`Results.before` recomputes inside a block.
Guarded instructions are the solver's business: under a guard nobody knows, the
state afterwards is the join of both outcomes.
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
from tclint.ir.nodes import Instruction

__all__ = ["Analysis", "LimitExceeded", "Results", "solve"]

D = TypeVar("D")


MAX_VISITS_PER_BLOCK = 200
"""How often :func:`solve` may visit one block before it concludes that an analysis has no fixpoint."""


class LimitExceeded(Exception):
    """An analysis did not settle within its limit of block visits."""


class Analysis(Generic[D]):
    """What an analysis says; :func:`solve` does the rest.

    ``join`` must be associative, commutative and idempotent with ``bottom``
    as its unit, and ``transfer`` and ``edge`` monotone in the order that
    ``join`` makes: then the solution is the least one and the solver ends.
    """

    direction: Literal["forward", "backward"] = "forward"
    by_opcode = False
    """Whether :meth:`relevant` asks for nothing but the opcode: then it is asked once for each."""

    def boundary(self) -> D:
        """The state at the entry, or at every exit when backward."""
        raise NotImplementedError

    def bottom(self) -> D:
        """The state of code that is never reached."""
        raise NotImplementedError

    def join(self, a: D, b: D) -> D:
        raise NotImplementedError

    def places(self) -> Iterable[int] | None:
        """The relevant instructions, where they are known without asking each one; else None."""
        return None

    def relevant(self, instruction: Instruction) -> bool:
        """Whether :meth:`transfer` can change a state at *instruction*; the solver skips the others."""
        return True

    def transfer(self, state: D, at: int, instruction: Instruction) -> D:
        """The state after *instruction* (before it when backward), its guard taken as true."""
        raise NotImplementedError

    def guarded(self, state: D, after: D, at: int) -> D:
        """The state after a guarded instruction, between *state* before it and *after* it when it executed.

        The default joins both; an analysis whose facts know their threads
        ends those whose threads execute the instruction for certain.
        """
        return self.join(state, after)

    def edge(self, state: D, edge: Edge) -> D:
        """The state as it passes *edge*."""
        return state

    def about(self, state: D) -> Iterable[int] | None:
        """The instructions that made the facts of *state*; None: nobody knows."""
        return None


class Results(Generic[D]):
    """The solution: a state at every point, recomputed inside blocks on demand."""

    def __init__(self, analysis: Analysis[D], cfg: CFG, entry: list[D], relevant: list[list[int]]) -> None:
        self.analysis = analysis
        self.cfg = cfg
        self.entry = entry
        self.relevant = relevant
        self._numbers: dict[int, int] = {}
        """Instruction that made a fact -> its place in a set of them."""
        self._carrying: tuple[int, set[int]] = -1, set()
        self._last: tuple[int, int, D] = -1, 0, analysis.bottom()
        """The block that was looked into last, how many of its relevant instructions were passed, and the state there."""

    def carrying(self, site: int) -> AbstractSet[int] | None:
        """The blocks that a fact made at *site* may enter; None: all of them."""
        about = self._origins
        if about is None:
            return None
        if self._carrying[0] != site:  # several paths are looked for from one instruction
            number = self._numbers.get(site)
            mine = 0 if number is None else 1 << number
            self._carrying = site, {b for b, sites in enumerate(about) if sites & mine}
        return self._carrying[1]

    @cached_property
    def _origins(self) -> list[int] | None:
        """For each block the set of instructions that made the facts at its entry: states are many, and share most."""
        known: dict[D, int] = {}
        numbers = self._numbers
        for state in self.entry:
            if state in known:
                continue
            about = self.analysis.about(state)
            if about is None:
                return None
            places = [numbers.setdefault(site, len(numbers)) for site in about]
            bits = bytearray(len(numbers) // 8 + 1)
            for place in places:
                bits[place >> 3] |= 1 << (place & 7)
            known[state] = int.from_bytes(bits, "little")
        return [known[state] for state in self.entry]

    def walk(self, block: int) -> Iterator[tuple[int, D]]:
        """``(instruction, state before it)`` for the relevant instructions of *block* in order of flow."""
        analysis, instructions = self.analysis, self.cfg.function.instructions
        state = self.entry[block]
        for at in self.relevant[block]:
            yield at, state
            state = _step(analysis, state, at, instructions[at])

    def before(self, at: int) -> D:
        """The state before instruction *at* in the direction of flow."""
        block = self.cfg.block_of[at]
        analysis, sites = self.analysis, self.relevant[block]
        backward = analysis.direction == "backward"
        passed = bisect_left(sites, -at, key=neg) if backward else bisect_left(sites, at)
        last, begin, state = self._last
        if last != block or begin > passed:  # else it goes on from where the last question was
            begin, state = 0, self.entry[block]
        for i in sites[begin:passed]:
            state = _step(analysis, state, i, self.cfg.function.instructions[i])
        self._last = block, passed, state
        return state

    def after(self, at: int) -> D:
        """The state after instruction *at* in the direction of flow."""
        instruction = self.cfg.function.instructions[at]
        state = self.before(at)
        return _step(self.analysis, state, at, instruction) if self.analysis.relevant(instruction) else state

    def leave(self, block: int) -> D:
        """The state at the end of *block* in the direction of flow."""
        state = self.entry[block]
        for at in self.relevant[block]:
            state = _step(self.analysis, state, at, self.cfg.function.instructions[at])
        return state


def _step(analysis: Analysis[D], state: D, at: int, instruction: Instruction) -> D:
    after = analysis.transfer(state, at, instruction)
    return analysis.guarded(state, after, at) if instruction.guard >= 0 and after != state else after


def _relevant(analysis: Analysis[D], cfg: CFG) -> list[list[int]]:
    """The relevant instructions of each block, in program order."""
    instructions, asked = cfg.function.instructions, analysis.relevant
    places = analysis.places()
    if places is None and not analysis.by_opcode:
        return [[i for i in range(b.start, b.end) if asked(instructions[i])] for b in cfg.blocks]
    if places is None:
        uses = [use for use in cfg.function.uses if use.sites and asked(instructions[use.sites[0]])]
        places = (i for use in uses for i in use.sites)
    relevant: list[list[int]] = [[] for _ in cfg.blocks]
    for i in sorted(places):
        relevant[cfg.block_of[i]].append(i)
    return relevant


def solve(analysis: Analysis[D], cfg: CFG, visits_per_block: int = MAX_VISITS_PER_BLOCK) -> Results[D]:
    """The least solution of *analysis* over *cfg*.

    Blocks are visited in reverse postorder (its reverse when backward).
    Raises :class:`LimitExceeded` when the states do not settle, which a
    monotone analysis over a finite domain does not do.
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
            raise LimitExceeded(f"{type(analysis).__name__} did not settle in {cfg.function.name}")
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
