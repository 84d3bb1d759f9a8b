"""Warps: registers of 32 lanes, and the groups of lanes that diverge and come together (PTX ISA 3.1, 9.7.12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tclint.executor.memory import Array, Memory
from tclint.executor.sync import Clocks

if TYPE_CHECKING:
    from tclint.executor.flight import Flight
    from tclint.executor.machine import Cta, Machine

__all__ = ["LANES", "Arrival", "Join", "Split", "Warp"]

LANES = 32
_NUMBERS = np.arange(LANES)


class Join:
    """Where the ways of a branch come together: the lanes that are expected there, and those that have come."""

    __slots__ = ("arrived", "expected", "outer", "pc")

    def __init__(self, pc: int, expected: Array, outer: Join | None) -> None:
        self.pc = pc
        self.expected = expected
        self.arrived: Array = np.zeros(LANES, bool)
        self.outer = outer


class Split:
    """Lanes of a warp that execute together."""

    __slots__ = ("asked", "full", "join", "mask", "pc", "timeout", "waits", "warp")

    def __init__(self, warp: Warp, pc: int, mask: Array, join: Join | None) -> None:
        self.warp = warp
        self.pc = pc
        self.join = join
        self.waits: object | None = None
        """What it is blocked on."""
        self.timeout = False
        """The next try of a wait may say that it is not complete."""
        self.asked = (-1, -1)
        """The mbarrier and the phase that it last asked for in vain."""
        self.narrow(mask)

    def narrow(self, mask: Array) -> None:
        self.mask = mask
        self.full = bool(mask.all())


class Arrival(NamedTuple):
    """Lanes that have come to a collective instruction: what they bring, and how they take what it gives."""

    split: Split
    mask: Array
    site: int
    sources: Sequence[Array]
    puts: Sequence[Callable[[Warp, Array], None]]


class Warp:
    """A warp, and the group of its lanes that executes now (``split``, ``mask``)."""

    def __init__(self, cta: Cta, index: int, threads: int, number: int) -> None:
        self.cta = cta
        self.machine: Machine = cta.machine
        self.index = index
        """Within its CTA."""
        self.number = number
        """Within its cluster: its place in clocks."""
        self.alive: Array = threads > _NUMBERS
        self.started = self.alive
        """Its lanes, those that have left included."""
        self.regs: list[Array] = []
        self.local: Memory | None = None
        self.clocks = Clocks.new(cta.cluster.warps)
        self.epoch = 1
        self.clocks.seen[number] = 1
        self.clocks.fenced[number] = 0
        self.stamp = 1 << 10 | number
        self.splits: list[Split] = []
        self.filling: dict[int, Flight] = {}
        """Registers that an asynchronous operation is still to write."""
        self.draining: dict[int, Flight] = {}
        """Registers that one is still to read."""
        self.groups: dict[tuple[str, bytes], list[list[Flight]]] = {}
        """Asynchronous operations by mechanism and lanes: a list for each group, the last one not committed yet."""
        self.unfenced: dict[int, int] = {}
        """Operands of ``wgmma`` that were written since the last ``wgmma.fence``, and where."""
        self.meeting: dict[tuple[str, int], list[Arrival]] = {}
        """Groups of lanes that wait at an instruction for the others that its mask names."""
        self.carry: Array = np.zeros(LANES, np.uint32)
        self.loose = False
        """Whether lanes were let go on alone, so that nothing follows from whom they meet."""
        self.waited_for_grid = False
        """Whether it has executed ``griddepcontrol.wait``."""
        self.owned = 0
        """Registers that ``setmaxnreg`` left it with; 0: none has."""
        self.fenced = False
        """Whether it has executed ``wgmma.fence``."""
        self.issued = 0
        """How many ``wgmma`` it has issued."""
        self.cluster_phase = 0
        self.site = 0
        self.mask: Array = self.alive
        self.full = False

    def enter(self, split: Split) -> None:
        self.split = split
        self.mask = split.mask
        self.full = split.full

    @property
    def lanes(self) -> Array:
        """The numbers of the lanes that execute."""
        return _NUMBERS[self.mask]

    def tick(self) -> None:
        """Begin a new epoch: what comes is not known to whoever takes up the clock now."""
        self.epoch += 1
        self.clocks.seen[self.number] = self.epoch
        self.stamp = self.epoch << 10 | self.number

    def name(self) -> str:
        where = f" of CTA {self.cta.number}" if self.machine.ctas > 1 else ""
        return f"warp {self.index}{where}"
