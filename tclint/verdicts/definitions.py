"""Whether a register holds what its definition computes in the same iteration.

Values take a register with one definition for what that computes, wherever it is read. Where a path reaches the read without
the definition, around a loop, the register holds what an earlier iteration computed, and a phi in the expression stands for
its number then. So a comparison of two addresses of one iteration needs definitions that dominate what reads them.
"""

from __future__ import annotations

from collections.abc import Callable

from tclint.dataflow.kernel import Kernel

__all__ = ["Definitions", "Uniformly"]

Uniformly = Callable[[int, int], bool]
"""Whether a register that is defined on entry to a block is the same in all threads."""


class Definitions:
    """The definitions of the registers of one kernel."""

    def __init__(self, model: Kernel) -> None:
        self.instructions, self.cfg, self.defs = model.function.instructions, model.cfg, model.values.defs
        self._known: dict[tuple[int, int], bool] = {}

    def dominate(self, register: int, at: int) -> bool:
        """Whether all that a register depends on just before an instruction is defined on every path to where it is read.

        Of several definitions of one register, the values know which one reaches.
        """
        if (register, at) in self._known:
            return self._known[register, at]
        seen, work = set[tuple[int, int]](), [(register, at)]
        while work:
            each = work.pop()
            if each in seen:
                continue
            seen.add(each)
            if self._known.get(each) is False or not self._dominates(*each):
                self._known[register, at] = False
                return False
            for site in self.defs.get(each[0], ()):
                if self.cfg.block_of[site] in self.cfg.rank:
                    instruction = self.instructions[site]
                    work += [(r, site) for r in (*instruction.reads, instruction.guard) if r >= 0]
        self._known.update(dict.fromkeys(seen, True))
        return True

    def _dominates(self, register: int, at: int) -> bool:
        """Whether the definition of a register that has one is executed before *at* on every path."""
        found = self.defs.get(register, ())
        if len(found) != 1:
            return True
        here, there = self.cfg.block_of[found[0]], self.cfg.block_of[at]
        return found[0] < at if here == there else self.cfg.dominates(here, there)
