"""Whether what a ``tcgen05.ld`` has loaded is read later."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from tclint.analyses.model import KernelModel
from tclint.analyses.tmem_transfers import TmemTransfers

__all__ = ["LoadLiveness"]


class LoadLiveness:
    """Liveness of the registers of one load at a time: few loads are asked about, and most are read soon."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        transfers, _ = model.solution(TmemTransfers)
        self.bits = transfers.bits
        self._filled, self._derived = _by_loads(transfers.filled), _by_loads(transfers.derived)

    def read_after(self, load: int, at: int, *, computed: bool) -> bool:
        """Whether a register that *load* fills may be read after *at*, before it is written again.

        With *computed*, so may a register that is computed from those.
        """
        cfg, readers, writers = self.model.cfg, self.model.readers, self.model.values.defs
        groups, bit = self._derived if computed else self._filled, self.bits[load]
        registers = frozenset(r for loads, some in groups.items() if loads & bit for r in some)
        sites = sorted({i for r in registers for i in (*readers.get(r, ()), *writers[r])})
        seen: dict[int, frozenset[int]] = {}
        work = [(cfg.block_of[at], at + 1, registers)]
        while work:
            block, start, live = work.pop()
            for i in sites[bisect_left(sites, start) : bisect_left(sites, cfg.blocks[block].end)]:
                instruction = self.model.instruction(i)
                if not live.isdisjoint(instruction.reads):
                    return True
                if instruction.guard < 0:
                    live = live.difference(instruction.writes)
            for target in cfg.targets[block]:
                known = seen.get(target, frozenset())
                if not live <= known:
                    seen[target] = known | live
                    work.append((target, cfg.blocks[target].start, live - known))
        return False


def _by_loads(registers: Mapping[int, int]) -> dict[int, list[int]]:
    """Set of loads -> the *registers* that belong to just these."""
    found: dict[int, list[int]] = {}
    for register, loads in registers.items():
        found.setdefault(loads, []).append(register)
    return found
