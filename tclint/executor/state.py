"""The state of a launch: lanes and warps, CTAs and clusters, their memory, barriers and asynchronous operations.

These refer to each other (a warp knows the operations that write its registers, an operation the warp that issued it),
so they are one module. What happens to them is in :mod:`tclint.executor.machine`; what instructions may ask of the
machine is :class:`Services`.

Until an asynchronous operation completes, what it writes holds poison and what it reads is still to be read: a
:class:`Flight` keeps both, and says how to read (``capture``) and how to write (``finish``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from tclint.executor.memory import RESERVED, Array, Fault, Global, Memory
from tclint.executor.schedule import Schedule
from tclint.executor.sync import Clocks, Mbarrier
from tclint.isa.special_registers import LaunchShape

__all__ = [
    "LANES",
    "Arrival",
    "Barrier",
    "Cluster",
    "Cta",
    "Flight",
    "Geometry",
    "Join",
    "Range",
    "Services",
    "Shared",
    "Split",
    "Tensor",
    "Warp",
    "stretch",
    "stretches",
    "three",
]


class Sizes(Protocol):
    """What the state must know of a decoded kernel (:class:`tclint.executor.code.Code`)."""

    shared_size: int
    """Bytes of static shared memory."""
    local_size: int
    """Bytes of local memory of a thread."""


class Services(Protocol):
    """What instructions may ask of the machine that executes them (:class:`tclint.executor.machine.Machine`)."""

    ctas: int
    """CTAs of the grid."""
    steps: int
    """Instructions executed so far, by all warps."""
    polls: int
    """Accesses that may be polls of memory since a waiting group of lanes was last woken."""
    geometry: Geometry
    memory: Global
    parameters: Array
    schedule: Schedule
    parked: list[Split]
    flights: list[Flight]
    clocks: dict[int, tuple[Cluster, Clocks]]

    @property
    def code(self) -> Sizes: ...
    @property
    def at(self) -> int: ...
    def cancel(self) -> tuple[int, int, int] | None: ...
    def park(self, split: Split, on: object) -> None: ...
    def wake(self, on: object) -> None: ...
    def resume(self, split: Split) -> None: ...
    def progress(self) -> None: ...
    def turn(self, mbarrier: Mbarrier) -> None: ...
    def fork(self, split: Split, ways: Sequence[tuple[int, Array]], meet: int) -> None: ...
    def leave(self, split: Split, mask: Array) -> int | None: ...
    def pass_barrier(self, cta: Cta, number: int, barrier: Barrier) -> None: ...
    def pass_cluster(self, cluster: Cluster) -> None: ...
    def issue(self, flight: Flight) -> None: ...
    def check_drain(self, w: Warp, reads: Sequence[Range], flight: Flight) -> None: ...
    def able(self, flight: Flight) -> bool: ...
    def capture(self, flight: Flight) -> None: ...
    def unlock(self, w: Warp, flight: Flight) -> None: ...
    def land(self, flight: Flight) -> None: ...
    def observe(self, kind: str, w: Warp, message: str, other: int = -1, site: int | None = None) -> None: ...
    def who(self, w: Warp, stamp: int) -> str: ...
    def note(self, text: str, site: int) -> None: ...


LANES = 32


_NUMBERS = np.arange(LANES)


class Range(NamedTuple):
    """Words of four bytes of the shared memory of a CTA: a stretch of them, or some, by their numbers."""

    memory: Shared
    words: slice | Array


def stretch(memory: Shared, start: int, end: int) -> Range:
    """The words of the bytes from *start* to before *end*."""
    return Range(memory, slice(start >> 2, end + 3 >> 2))


def stretches(memory: Shared, pieces: tuple[tuple[int, int], ...]) -> Range:
    """The words of several disjoint pieces. Raises :class:`Fault` for one that is not there."""
    memory.check(np.array([min(start for start, _ in pieces), max(end for _, end in pieces) - 1]), 1)
    return stretch(memory, *pieces[0]) if len(pieces) == 1 else Range(memory, _numbers(pieces))


@lru_cache(1024)
def _numbers(pieces: tuple[tuple[int, int], ...]) -> Array:
    """Rows of a swizzled matrix lie apart, and the same ones come in every round of a loop."""
    return np.unique(np.concatenate([np.arange(start >> 2, end + 3 >> 2) for start, end in pieces]))


_POISON = 0xFBFBFBFB
"""Fills what an asynchronous operation is still to write: as a floating-point number, large and negative."""


class Shared(Memory):
    """Shared memory of a CTA, and what is known about each of its words of four bytes.

    ``written`` and ``read_by`` are stamps of the last plain write and read (``epoch << 10 | warp``), ``writer`` and
    ``reader`` the instructions; ``filling`` and ``draining`` count the asynchronous operations that are still to write
    or read a word.
    """

    what = "shared memory"

    def __init__(self, size: int, rank: int) -> None:
        super().__init__(RESERVED + size)
        self.rank = rank
        self.exited = False
        words = (self.size + 15 & ~15) // 4
        self.written: Array = np.zeros(words, np.int64)
        self.read_by: Array = np.zeros(words, np.int64)
        self.writer: Array = np.zeros(words, np.int32)
        self.reader: Array = np.zeros(words, np.int32)
        self.filling: Array = np.zeros(words, np.int16)
        self.draining: Array = np.zeros(words, np.int16)
        self.flights: list[Flight] = []

    def check(self, offsets: Array, size: int) -> None:
        low, high = int(offsets.min()), int(offsets.max()) + size
        if low < RESERVED or high > self.size:
            bad = low if low < RESERVED else high - size
            raise Fault(
                f"shared memory: offset {bad - RESERVED} is out of {self.size - RESERVED} bytes"
                + (" (dynamic shared memory comes with the launch)" if high > self.size else "")
            )

    def poison(self, words: slice | Array) -> None:
        """Fill what an asynchronous operation is still to write."""
        self.views[4][words] = _POISON

    def late(self, words: slice | Array, writes: bool, known: Array) -> tuple[int, int] | None:
        """One of the last plain writes of these words, or reads, that is not *known*: its stamp and instruction."""
        stamps, sites = (self.written, self.writer) if writes else (self.read_by, self.reader)
        found = stamps[words]
        if not found.any():
            return None
        missed = (found >> 10) > known[found & 1023]
        if not missed.any():
            return None
        at = int(missed.argmax())
        return int(found.flat[at]), int(sites[words].flat[at])

    def user(self, words: slice | Array, writes: bool, adds: bool = True) -> Flight | None:
        """The oldest asynchronous operation that is still to write, or to read, one of these words.

        Those that add to what is there count only with *adds*.
        """
        counts = self.filling if writes else self.draining
        numbers = np.arange(words.start, words.stop) if isinstance(words, slice) else words.ravel()
        busy = numbers[counts[numbers] != 0]
        if not len(busy):
            return None
        word = int(busy[0])
        for flight in [f for f in self.flights if adds or not f.adds]:
            for memory, mine in flight.writes if writes else flight.reads:
                if memory is self and (
                    mine.start <= word < mine.stop if isinstance(mine, slice) else bool((mine == word).any())
                ):
                    return flight
        return None


class Tensor:
    """Tensor memory of a CTA: 128 lanes of 512 columns of 32 bits (9.7.16.1), and what is still to use each cell."""

    LANES, COLUMNS = 128, 512

    def __init__(self) -> None:
        shape = (self.LANES, self.COLUMNS)
        self.data: Array = np.zeros(shape, np.uint32)
        self.filling: Array = np.zeros(shape, np.int16)
        self.draining: Array = np.zeros(shape, np.int16)
        self.allocated: Array = np.zeros(self.COLUMNS, bool)
        self.flights: list[Flight] = []
        self.permitted = True
        """Whether the CTA may still allocate."""


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


@dataclass
class Barrier:
    """A named barrier of a CTA, or the barrier of a cluster: who arrived in this round."""

    clocks: Clocks
    threads: int = 0
    """That have arrived."""
    waiting: list[Split] = field(default_factory=list)
    votes: list[Array] = field(default_factory=list)
    """Predicates that ``bar.red`` brought."""
    results: dict[int, Callable[[list[Array]], None]] = field(default_factory=dict)
    needed: int = 0
    """Threads of this round; 0 for all of the CTA."""
    parts: dict[Warp, Array] = field(default_factory=dict)
    """Lanes that have come of warps that are not counted yet."""
    round: int = 0

    @property
    def busy(self) -> bool:
        """Whether some thread has come in this round."""
        return bool(self.threads or self.parts)

    def come(self, w: Warp) -> None:
        """Count the lanes that execute; a barrier of so many threads counts whole warps once all their lanes came."""
        if not self.needed:
            self.threads += int(np.count_nonzero(w.mask))
            return
        self.parts[w] = self.parts.get(w, w.mask) | w.mask
        self.count(w)

    def count(self, w: Warp) -> None:
        """Count a warp, if all its lanes that have not left have come."""
        part = self.parts.get(w)
        if part is not None and not (w.alive & ~part).any():
            del self.parts[w]
            self.threads += len(part)


class Warp:
    """A warp, and the group of its lanes that executes now (``split``, ``mask``)."""

    def __init__(self, cta: Cta, index: int, threads: int, number: int) -> None:
        self.cta = cta
        self.machine: Services = cta.machine
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


@dataclass(eq=False)
class Flight:
    """An asynchronous operation between its issue and its completion."""

    site: int
    warp: Warp
    what: str
    number: int = 0
    reads: list[Range] = field(default_factory=list)
    writes: list[Range] = field(default_factory=list)
    capture: Callable[[], None] | None = None
    """Read the sources."""
    finish: Callable[[], None] | None = None
    """Write the results, and signal."""
    mbarrier: Mbarrier | None = None
    """That its completion is signalled on."""
    filling: dict[Warp, tuple[int, ...]] = field(default_factory=dict)
    draining: dict[Warp, tuple[int, ...]] = field(default_factory=dict)
    """Registers that it writes and reads, by warp."""
    before: list[Flight] = field(default_factory=list)
    """Operations of the same pipeline that complete first."""
    ready: Callable[[], bool] | None = None
    """Whether all that take part in it have come."""
    dependent: bool = False
    """Whether using its registers waits for it, as for ``tcgen05.ld`` and ``.st`` (9.7.16.6.4.5)."""
    adds: bool = False
    """Whether it combines with what is there, so that it may meet others that do."""
    stamp: int = 0
    """Of the reads of its sources, when whoever waits for it learns no more than its issue; 0: of whoever waits."""
    written: int = 0
    """Of its writes; 0: they are not plain ones."""
    locked: bool = False
    """Whether what it uses counts as used: not when it completes at its issue."""
    captured: bool = False
    done: bool = False
    unseen: list[Range] = field(default_factory=list)
    """What it reads of generic writes that no proxy fence has made visible to it."""
    note: dict[str, Any] = field(default_factory=dict)
    """What the instructions that make such an operation keep with it."""


def three(sizes: Sequence[int]) -> tuple[int, int, int]:
    """Sizes in three dimensions; those that are not said are 1."""
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


@dataclass(frozen=True)
class Geometry(LaunchShape):
    """The shape of a launch, and its bytes of dynamic shared memory."""

    dynamic: int = 0
    explicit: bool = False
    """Whether the kernel was launched with a cluster size."""


class Cta:
    """A CTA: its shared and tensor memory, barriers, mbarriers and warps."""

    def __init__(self, cluster: Cluster, rank: int, ctaid: tuple[int, int, int], number: int) -> None:
        self.cluster = cluster
        self.machine = machine = cluster.machine
        self.rank = rank
        self.ctaid = ctaid
        self.number = number
        self.shared = Shared(machine.code.shared_size + machine.geometry.dynamic, rank)
        self.mbarriers: dict[int, Mbarrier] = {}
        self.barriers: dict[int, Barrier] = {}
        self.tensor: Tensor | None = None
        self.engine: list[Flight] = []
        """What its tensor core was given by ``tcgen05`` and has not done, in order."""
        self.columns: dict[int, int] = {}
        """Allocations of tensor memory: first column -> number of them."""
        self.came: dict[int, set[int]] = {}
        """The warps that executed an instruction of a warpgroup."""
        self.warpgroups: dict[int, list[Flight]] = {}
        """The ``wgmma`` of each warpgroup, in order."""
        self.warps: list[Warp] = []
        threads = machine.geometry.threads
        for index in range(machine.geometry.warps):
            number = rank * machine.geometry.warps + index
            self.warps.append(Warp(self, index, min(LANES, threads - index * LANES), number))
        self.running = len(self.warps)

    @property
    def full(self) -> int:
        """Threads of all its warps, if they were full."""
        return len(self.warps) * LANES

    @property
    def threads(self) -> int:
        """Threads that have not left."""
        return sum(int(np.count_nonzero(w.alive)) for w in self.warps)


class Cluster:
    """CTAs that see each other's shared memory (2.2.2)."""

    def __init__(self, machine: Services, place: tuple[int, int, int]) -> None:
        self.machine = machine
        geometry = machine.geometry
        self.warps = geometry.ranks * geometry.warps
        self.copies = 0
        """How many asynchronous copies into its shared memory are complete: the clock of whoever makes them, which has
        the place behind those of the warps."""
        self.barrier = Barrier(Clocks.new(self.warps))
        self.place = place
        self.ctas: list[Cta] = []
        width, height, depth = geometry.cluster
        for rank in range(geometry.ranks):
            x, y, z = rank % width, rank // width % height, rank // (width * height)
            ctaid = (place[0] * width + x, place[1] * height + y, place[2] * depth + z)
            number = ctaid[0] + geometry.grid[0] * (ctaid[1] + geometry.grid[1] * ctaid[2])
            self.ctas.append(Cta(self, rank, ctaid, number))

    def forget(self, w: Warp, mask: Array) -> None:
        """Lanes that leave are not waited for, so that they do not count among those that have come, either."""
        keys = [w.number * LANES + lane for lane in np.flatnonzero(mask).tolist()]
        self.barrier.threads -= sum(self.barrier.results.pop(key, None) is not None for key in keys)

    @property
    def running(self) -> int:
        return sum(cta.running for cta in self.ctas)
