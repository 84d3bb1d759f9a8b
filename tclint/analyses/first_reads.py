"""Registers that a path from the entry reads before it writes them, and whether threads are certain to do so.

That a path leads past all definitions does not say that a launch takes it: the program may know that one condition implies
another. So a read counts only if nothing can have been written when it is executed for the first time, by any thread or by
threads that every launch has and that execute no definition (:meth:`FirstReads.unwritten_at`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property, reduce
from operator import or_

from tclint.dataflow.kernel import Kernel
from tclint.ir.nodes import Site, registers
from tclint.isa.special_registers import WARP
from tclint.values import thread_masks as T

__all__ = ["FirstReads", "Kept", "UnwrittenRegisters", "threads_without"]

Kept = Callable[[Site, int], bool]
"""Whether an instruction that writes a register leaves it undefined if it was: a sum is, a select need not be."""


class UnwrittenRegisters:
    """The registers of an entry that some path reads before it writes them; guards and branches are ignored."""

    def __init__(self, model: Kernel) -> None:
        self.model = model
        found = self._at_entry() if model.function.entry else frozenset[int]()
        self.registers = found - _passed(model) if found and not _passes_registers(model) else frozenset()

    def _at_entry(self) -> frozenset[int]:
        """The registers that are live at the entry."""
        suspect = set(self._not_dominated())
        if not suspect:
            return frozenset()
        exposed, written = self._by_block(suspect)
        cfg, live, work = self.model.cfg, dict(exposed), [*exposed]
        while work:
            block = work.pop()
            for source in cfg.sources[block]:
                had = live.get(source, set())
                if source in cfg.rank and (more := live[block] - written.get(source, set()) - had):
                    live[source] = had | more
                    work.append(source)
        return frozenset(live.get(0, ()))

    def _not_dominated(self) -> Iterator[int]:
        """The registers that are read, but for those of which a definition dominates all reads: most are such.

        It is looked for among those in the first block alone, in reverse post-order.
        """
        cfg, instructions, defs = self.model.cfg, self.model.function.instructions, self.model.values.defs
        block_of, rank, dominates = cfg.block_of, cfg.rank, cfg.dominates
        for register, readers in self.model.readers.items():
            certain = [
                (rank[block_of[i]], i)
                for i in defs.get(register, ())
                if instructions[i].guard < 0 and block_of[i] in rank
            ]
            definition = min(certain, default=(0, -1))[1]
            if definition >= 0:
                block = block_of[definition]
                for at in readers:
                    if block_of[at] != block:
                        if not dominates(block, block_of[at]):
                            break
                    elif at <= definition:
                        break
                else:
                    continue
            yield register

    def _by_block(self, suspect: Collection[int]) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        """Block -> which of *suspect* it reads before it writes them, and which it writes; without unreachable blocks."""
        model, exposed, written = self.model, dict[int, set[int]](), dict[int, set[int]]()
        block_of, reachable, instructions = model.cfg.block_of, model.cfg.rank, model.function.instructions
        for register in suspect:
            first = dict[int, Site]()
            """Block -> the first definition in it that has no guard."""
            for site in model.values.defs.get(register, ()):
                if instructions[site].guard < 0 and block_of[site] in reachable:
                    first.setdefault(block_of[site], site)
            for block in first:
                written.setdefault(block, set()).add(register)
            for at in model.readers[register]:
                block = block_of[at]
                if block in reachable and at <= first.get(block, at):
                    exposed.setdefault(block, set()).add(register)
        return exposed, written


class FirstReads:
    """Which reads of *unwritten* registers by some threads find nothing; *threads* is None if they are all of the kernel."""

    def __init__(
        self, model: Kernel, unwritten: Collection[int], kept: Kept, threads: T.Threads | None = None
    ) -> None:
        self.model, self.unwritten, self.threads, self.kept = model, unwritten, threads, kept
        self._known: dict[tuple[int, Site], bool] = {}

    def counting(self, some: Iterable[int]) -> list[int]:
        """Those of *some* registers that a read finds without a value."""
        readers = self.model.readers
        return [r for r in some if r in self.read_first or any(self.unwritten_at(r, at) for at in readers[r])]

    def unwritten_at(self, register: int, at: Site) -> bool:
        """Whether nothing has written a register when one of the threads executes *at* for the first time, or reads the
        register for the first time there."""
        key = register, at
        if key not in self._known:
            self._known[key] = register in self.read_first or not any(
                d != at and self._precedes(d, at) for d in self.definitions(register)
            )
        return self._known[key]

    def definitions(self, register: int) -> Iterator[Site]:
        """What may write *register* for one of the threads."""
        contexts = self.model.views.context_of
        for at in self.model.values.defs.get(register, ()):
            if self.threads is None or contexts(at).threads & self.threads:
                yield at

    def _precedes(self, definition: Site, at: Site) -> bool:
        """Whether a thread may execute a definition before *at* for the first time; where *at* has a guard, before it reads
        anything there."""
        cfg = self.model.cfg
        first, second = cfg.block_of[at], cfg.block_of[definition]
        if first == second and definition < at:
            return True
        if self.model.instruction(at).guard < 0 and (first == second or cfg.dominates(first, second)):
            return False
        return bool(cfg.reachable_from[second] >> first & 1)

    @cached_property
    def read_first(self) -> frozenset[int]:
        """The registers that each of the threads that accesses them reads first.

        All registers are followed from the entry at once, until they are read.
        """
        cfg, numbered = self.model.cfg, dict(enumerate(self.unwritten))
        reading, writing = [0] * len(cfg.blocks), [0] * len(cfg.blocks)
        for number, register in numbered.items():
            first = dict[int, Site]()
            for at in self.model.readers[register]:
                if self.model.instruction(at).guard < 0:
                    first.setdefault(cfg.block_of[at], at)
            for block in first:
                reading[block] |= 1 << number
            for at in self.definitions(register):
                if at <= first.get(cfg.block_of[at], at) and not self.kept(at, register):
                    writing[cfg.block_of[at]] |= 1 << number
        arriving, work = [0] * len(cfg.blocks), [0]
        arriving[0] = every = (1 << len(numbered)) - 1
        while work:
            block = work.pop()
            leaving = arriving[block] & ~reading[block]
            for target in cfg.targets[block]:
                if leaving & ~arriving[target]:
                    arriving[target] |= leaving
                    work.append(target)
        written = reduce(or_, (a & w for a, w in zip(arriving, writing, strict=True)), 0)
        return frozenset(r for number, r in numbered.items() if (every & ~written) >> number & 1)


def threads_without(model: Kernel, unwritten: Iterable[int], kept: Kept) -> Iterator[T.Threads]:
    """The threads that every launch has, that read one of these registers, and that execute no definition of it."""
    tried, context = {0}, model.views.context_of
    for register in unwritten:
        definitions = [d for d in model.values.defs.get(register, ()) if not kept(d, register)]
        defining = reduce(or_, (context(d).threads for d in definitions), 0)
        if not definitions or not model.cta & ~defining:
            continue
        for reading in dict.fromkeys(context(at).threads for at in model.readers[register]):
            threads = _of_first_warp(model, reading) & ~defining
            if threads not in tried:
                tried.add(threads)
                yield threads


def _of_first_warp(model: Kernel, threads: T.Threads) -> T.Threads:
    """Those of *threads* that a launch has in which one of them exists, if its warps are full."""
    last = ((threads & -threads).bit_length() + WARP - 1) // WARP * WARP
    return model.shared.certain_threads(threads) | threads & T.full(last) & model.cta


def _passed(model: Kernel) -> frozenset[int]:
    """The registers that a call passes or returns (11.2): what becomes of them is not known."""
    calls = (model.instruction(site) for use in model.function.uses if use.flow for site in use.sites)
    return frozenset(
        r for i in calls if i.flow == "call" for operand in i.operands for r in registers(operand)
    )


def _passes_registers(model: Kernel) -> bool:
    """Whether a function of the module has parameters or results in registers: a call that is inlined writes none."""
    declared = (variables for f in model.module.functions for variables in f.formals or ())
    return any(v.space == ".reg" for variables in declared for v in variables)
