"""From positions to instructions: which threads are at which wait, or at an instruction that is not a wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from tclint._dataclass import dataclass
from tclint.analyses.setmaxnreg import raises
from tclint.findings.places import source_location
from tclint.hang.machine_code import LineTable
from tclint.hang.positions import CodePosition, PositionError
from tclint.inspect.locations import Locations
from tclint.inspect.protocol.sites import Sites
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Barrier, Resource
from tclint.values import thread_masks as T

__all__ = [
    "CLUSTER", "CTA_BARRIER", "GRID", "LANES", "MBARRIER", "REGISTERS", "RUNNING", "Stop", "Stops", "kind_of",
]  # fmt: skip

MBARRIER, CTA_BARRIER, CLUSTER, LANES = "mbarrier", "barrier", "cluster", "lanes"
GRID, REGISTERS, RUNNING = "grid", "registers", "running"
"""What an instruction waits for, in words and in JSON; the last: for nothing."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Threads that are at one instruction."""

    site: int
    kind: str
    """What the instruction waits for: :data:`MBARRIER` to :data:`REGISTERS`, or :data:`RUNNING`."""
    threads: int
    """The threads of a CTA that are here, or may if the positions do not name warps."""
    ctas: frozenset[int]
    """The CTAs whose threads are here; empty: not given."""
    warps: int
    """How many warps were counted here; 0: not given."""
    given: tuple[str, ...]
    """The positions as they were given."""
    expected: bool
    """Whether any of *threads* reaches this instruction, as far as is known of the kernel."""
    others: frozenset[int] = frozenset()
    """Other instructions at which these threads may be instead: a line of the source stands for several."""


_KINDS: dict[Barrier | None, str] = {
    Barrier.MBARRIER: MBARRIER, Barrier.CTA: CTA_BARRIER, Barrier.WARP: LANES, Barrier.CLUSTER: CLUSTER,
    Barrier.GRIDS: GRID,
}  # fmt: skip


def kind_of(instruction: Instruction) -> str:
    """What an instruction waits for, as in :attr:`Stop.kind`."""
    match = instruction.match
    if match is None or match.problem:
        return RUNNING
    if instruction.effects.resource is Resource.REGISTERS:
        return REGISTERS if raises(instruction) else RUNNING
    return _KINDS.get(instruction.effects.awaits, RUNNING)


class Stops:
    """Resolves positions in one kernel."""

    def __init__(self, sites: Sites, locations: Locations, first: int, last: int, name: str) -> None:
        self.sites, self.model = sites, sites.model
        self.locations = locations
        self._lines = first, last
        self._name = name

    def all(self, positions: Iterable[CodePosition], table: LineTable | None) -> list[Stop]:
        """The threads that are at each instruction, in program order. Raises PositionError."""
        found: dict[int, list[CodePosition]] = {}
        others: dict[int, set[int]] = {}
        for position in positions:
            sites = self._reached(self._sites_of(position, table), position)
            for site in sites:
                found.setdefault(site, []).append(position)
                others.setdefault(site, set()).update(
                    i
                    for i in sites
                    if i != site and self._threads(site, position) & self._threads(i, position)
                )
        return [self._stop(site, at, frozenset(others[site])) for site, at in sorted(found.items())]

    def _threads(self, site: int, position: CodePosition) -> int:
        """The threads of a position that reach an instruction, as far as is known of the kernel."""
        here = -1 if position.warp is None else position.lanes << 32 * position.warp
        return self.sites.threads(site) & here

    def _reached(self, sites: list[int], position: CodePosition) -> list[int]:
        """Those of *sites* that threads of the position reach; all of them if there is none."""
        return [site for site in sites if self._threads(site, position)] or sites

    def _sites_of(self, position: CodePosition, table: LineTable | None) -> list[int]:
        """The instruction of a position, or the copies of it that were inlined."""
        if position.offset >= 0:
            if table is None:
                raise PositionError(f"{position} is an offset, which needs the machine code")
            line, file = table.at(position.offset, position.kernel or self._name)
        else:
            line, file = position.line, position.file
        here = self._of_source(file, line, position.offset >= 0) if file else self._by_line.get(line, [])
        if not here and file:
            raise PositionError(f"no instruction of {self._name} is from {file}:{line}")
        if not here:
            first, last = self._lines
            lines = (
                "has no instruction" if first <= line <= last else f"is outside of lines {first} to {last}"
            )
            raise PositionError(f"line {line} {lines} of {self._name}")
        waits = list(dict.fromkeys(wait for site in here for wait in self._waits(site)))
        return waits or [here[0]]

    @cached_property
    def _by_line(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for site in range(len(self.model.function.instructions)):
            found.setdefault(self.locations.line(site), []).append(site)
        return found

    def _of_source(self, file: str, line: int, counter: bool) -> list[int]:
        """The instructions of a line of the source; without one, those that were inlined from calls in it.

        If none of its own waits, it may also stand for the waits that were inlined, unless the line is that of a program
        *counter*: the line of the kernel may have been given, and not that of the function which waits.
        """
        function, module = self.model.function, self.model.module
        own: list[int] = []
        called: list[int] = []
        for site in range(len(function.instructions)):
            location = function.location(site)
            found = source_location(module, location)
            below = location.below if location is not None else 0  # a debugger knows the line of the .loc
            for depth, place in enumerate((found, *found.inlined_at) if found is not None else ()):
                lines = (place.line,) if depth else (place.line, place.line + below)
                if line in lines and (place.file == file or place.file.endswith(f"/{file}")):
                    (called if depth else own).append(site)
        if own and not counter and not any(map(self._is_wait, own)):
            return [*own, *filter(self._is_wait, called)]
        return own or called

    def _is_wait(self, site: int) -> bool:
        return kind_of(self.model.instruction(site)) != RUNNING

    def _waits(self, site: int) -> Iterator[int]:
        """The instruction if it waits; an instruction of a loop that only polls stands for the wait of the loop.

        The instruction after a barrier stands for the barrier: there is the program counter of a warp that waits.
        """
        if self._is_wait(site):
            yield site
            return
        cfg = self.model.cfg
        block = cfg.block_of[site]
        if site > cfg.blocks[block].start and kind_of(self.model.instruction(site - 1)) in (
            CTA_BARRIER,
            CLUSTER,
        ):
            yield site - 1
            return
        for head in cfg.enclosing_loops(block):
            body = cfg.loops[head]
            if head in self.sites.loops:
                continue
            waits = [i for i in self.model.awaits(Barrier.MBARRIER) if cfg.block_of[i] in body]
            yield from waits if len(waits) == 1 else ()

    def _stop(self, site: int, positions: Sequence[CodePosition], others: frozenset[int]) -> Stop:
        """The threads at an instruction, by its *positions*. Raises PositionError if a CTA does not have such a warp."""
        may = self.sites.threads(site)
        named = 0
        for position in positions:
            if position.warp is not None:
                here = position.lanes << 32 * position.warp & self.model.cta
                if not here:
                    warps = warps_of(self.model.cta)
                    raise PositionError(f"{position}: a CTA of {self._name} has {warps} warps")
                named |= here
        every = all(position.warp is not None for position in positions)
        threads = named & may or named if every else may
        ctas = frozenset(p.cta for p in positions if p.cta is not None) if every else frozenset()
        return Stop(
            site=site,
            kind=kind_of(self.model.instruction(site)),
            threads=threads,
            ctas=ctas,
            warps=self._counted(positions),
            given=tuple(dict.fromkeys(map(str, positions))),
            expected=not every or named & may != 0,
            others=others,
        )

    @staticmethod
    def _counted(positions: Sequence[CodePosition]) -> int:
        named = len({(p.cta, p.warp) for p in positions if p.warp is not None})
        return named + sum(p.warps for p in positions)


def warps_of(threads: int) -> int:
    """How many warps *threads* are in."""
    return sum(1 for _ in T.by_warp(threads))
