"""How many threads the variables of shared memory admit, in a kernel that does not state the size of its CTA.

A thread that exists and executes ``s[tid] = x`` accesses a word of ``s``, so a CTA has no more threads than ``s`` has words. Only
accesses count that certain threads make whatever parameters and memory hold: a condition that all threads share may choose
another code for large CTAs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tclint.dataflow.kernel import Kernel
from tclint.isa.special_registers import WARP
from tclint.values import thread_masks as T
from tclint.values.addresses import MemoryRange
from tclint.verdicts.uniform import Level, Uniform

__all__ = ["AdmittedThreads"]


class AdmittedThreads:
    """The accesses of one kernel to variables whose size is known.

    *of* and *levels* say what is uniform, *holding* in which threads a predicate is true just before an instruction if their
    index alone decides, and *is_index* what it decides.
    """

    def __init__(
        self,
        model: Kernel,
        of: Uniform,
        levels: Mapping[int, Level],
        holding: Callable[[int, int], T.Threads | None],
        is_index: Callable[[int], bool],
    ) -> None:
        self.model, self.values, self.cfg = model, model.values, model.cfg
        self.of, self.holding, self.is_index = of, holding, is_index
        self.parting = {b: region for b, region in of.regions.items() if of.branch(b, levels) > Level.CTA}
        """Block whose branch may differ between threads -> the blocks that it decides."""

    def most_threads(self, accesses: Iterable[tuple[int, Iterable[MemoryRange]]]) -> int | None:
        """The threads of the largest CTA of whole warps that makes none of *accesses*, an instruction and its bytes each, beyond
        the end of its variable.

        None if any CTA may, if two warps are too many, or if a thread accesses what precedes a variable, which no size admits.
        """
        every = T.full(self.values.threads)
        outside = 0
        for site, ranges in accesses:
            threads = self._certainly(site)
            for each in ranges if threads else ():
                outside |= self._outside(each, threads)
        most = ((outside & -outside & every).bit_length() - 1) // WARP * WARP
        return most if most > WARP else None

    def _certainly(self, site: int) -> T.Threads:
        """Threads that execute an instruction if they exist, whatever conditions hold that all threads share."""
        if self.model.function.instructions[site].guard >= 0:
            return 0
        here, threads = self.cfg.block_of[site], T.full(self.values.threads)
        for b, region in self.of.regions.items():
            if here not in region or (b not in self.parting and self.cfg.dominates(here, b)):
                continue  # what is executed before a branch is executed once, however it goes
            if b not in self.parting:
                return 0
            ways = [
                edge
                for edge in self.cfg.successors[b]
                if len(self.cfg.predecessors[edge.target]) == 1 and self.cfg.dominates(edge.target, here)
            ]
            last = self.cfg.blocks[b].end - 1
            mask = self.holding(ways[0].predicate, last) if ways and ways[0].predicate >= 0 else None
            if mask is None:
                return 0
            threads &= mask if ways[0].value else ~mask
        return threads

    def _outside(self, of: MemoryRange, threads: T.Threads) -> T.Threads:
        """Those of *threads* that access bytes beyond the end of the variable that their address is based on; all threads if
        one accesses what precedes it."""
        terms, offset = self.values.linear(of[0])
        bases = [t for t, factor in terms if factor == 1 and self.values.variable(t) is not None]
        variable = self.values.variable(bases[0]) if len(bases) == 1 else None
        index = self.values.total(tuple(each for each in terms if each[0] not in bases), offset)
        planes = self.values.bit_slices(index) if self.is_index(index) else None
        if variable is None or not variable.size or planes is None:
            return 0
        found = 0
        for number, who in T.numbers(planes, threads):
            if number < 0:
                return T.full(self.values.threads)
            if number + of[1] > variable.size:
                found |= who
        return found
