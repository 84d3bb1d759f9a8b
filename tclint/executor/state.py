"""The state of a launch: lanes and warps, CTAs and clusters, their memory, barriers and asynchronous operations.

These refer to each other (a warp knows the operations that write its registers, an operation the warp that issued it),
so they are one module. What happens to them is in :mod:`tclint.executor.machine`; what instructions may ask of the
machine is :class:`Services`.

A :class:`AsyncOperation` is an asynchronous operation: the bytes and registers that it reads and writes, and how to read
(``capture``) and write them (``finish``). Until it completes, its destination holds poison and its sources may still be
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.executor.memory import RESERVED, Array, Fault, Global, SpaceMemory
from tclint.executor.schedule import Schedule
from tclint.executor.sync import Clocks, ExecutorMbarrier
from tclint.isa.effects import Engine
from tclint.isa.special_registers import LaunchShape
from tclint.sync import barriers

__all__ = [
    "LANES",
    "AsyncOperation",
    "Cluster",
    "Cta",
    "ExecutorBarrier",
    "Geometry",
    "LaneArrival",
    "LaneGroup",
    "Range",
    "ReconvergencePoint",
    "Released",
    "Services",
    "Shared",
    "Tensor",
    "TmemBlock",
    "Warp",
    "as_dim3",
    "membermask",
    "stretch",
    "stretches",
]


class Sizes(Protocol):
    """What the state needs of a decoded kernel (:class:`tclint.executor.code.Code`)."""

    shared_size: int
    """Bytes of static shared memory."""
    local_size: int
    """Bytes of local memory for each thread."""


class Services(Protocol):
    """The interface of :class:`tclint.executor.machine.Machine` for the instructions that it executes."""

    ctas: int
    """CTAs of the grid."""
    steps: int
    """Instructions executed so far, by all warps."""
    changes: int
    """Events that other threads may wait for, and stores to memory."""
    polls: int
    """Accesses that may be polls of memory since a waiting group of lanes was last woken."""
    geometry: Geometry
    fill: int
    """The initial value of each byte of shared memory."""
    memory: Global
    parameters: Array
    schedule: Schedule
    parked: list[LaneGroup]
    operations: list[AsyncOperation]
    released: dict[int, Released]

    @property
    def code(self) -> Sizes: ...
    @property
    def at(self) -> int: ...
    def cancel(self) -> tuple[int, int, int] | None: ...
    def park(self, split: LaneGroup, on: object) -> None: ...
    def hold(self, split: LaneGroup) -> None: ...
    def wake(self, on: object) -> None: ...
    def resume(self, split: LaneGroup) -> None: ...
    def progress(self) -> None: ...
    def advance_phase(self, mbarrier: ExecutorMbarrier) -> None: ...
    def fork(self, split: LaneGroup, paths: Sequence[tuple[int, Array]], meet: int) -> None: ...
    def leave(self, split: LaneGroup, mask: Array) -> int | None: ...
    def pass_barrier(self, cta: Cta, number: int, barrier: ExecutorBarrier) -> None: ...
    def pass_cluster(self, cluster: Cluster) -> None: ...
    def issue(self, operation: AsyncOperation) -> None: ...
    def check_drain(self, w: Warp, reads: Sequence[Range], operation: AsyncOperation) -> None: ...
    def can_complete(self, operation: AsyncOperation) -> bool: ...
    def capture(self, operation: AsyncOperation) -> None: ...
    def unlock(self, w: Warp, operation: AsyncOperation) -> None: ...
    def complete(self, operation: AsyncOperation) -> None: ...
    def count_unwritten(self, w: Warp, memory: Shared, words: slice | Array) -> None: ...
    def observe(
        self,
        kind: str,
        w: Warp,
        message: str,
        other: int | AsyncOperation | ExecutorMbarrier = -1,
        site: int | None = None,
    ) -> None: ...
    def who(self, w: Warp, stamp: int) -> str: ...
    def note(self, text: str, site: int) -> None: ...


LANES = 32


_NUMBERS = np.arange(LANES)


def membermask(lanes: Array) -> Array:
    """*lanes*, booleans along the last axis, as the integers that instructions name them by: lane 0 is the lowest bit."""
    words: Array = np.packbits(lanes, axis=-1, bitorder="little").view("<u4")[..., 0]
    return words


class Range(NamedTuple):
    """Words of four bytes in the shared memory of a CTA: consecutive ones (a slice), or an array of their numbers."""

    memory: Shared
    words: slice | Array


def stretch(memory: Shared, start: int, end: int) -> Range:
    """The words that contain the bytes from *start* up to, but not including, *end*."""
    return Range(memory, slice(start >> 2, end + 3 >> 2))


def stretches(memory: Shared, pieces: tuple[tuple[int, int], ...]) -> Range:
    """The words of several disjoint pieces ``(start, end)``. Raises :class:`Fault` for one that is out of bounds."""
    memory.check(np.array([min(start for start, _ in pieces), max(end for _, end in pieces) - 1]), 1)
    return stretch(memory, *pieces[0]) if len(pieces) == 1 else Range(memory, _numbers(pieces))


@lru_cache(1024)
def _numbers(pieces: tuple[tuple[int, int], ...]) -> Array:
    """The numbers of the words of several pieces.

    Cached: the rows of a swizzled matrix are not contiguous, and a loop uses the same ones in every iteration.
    """
    return np.unique(np.concatenate([np.arange(start >> 2, end + 3 >> 2) for start, end in pieces]))


_POISON = 0xFBFBFBFB
"""Fills words that an asynchronous operation has yet to write; as a floating-point number, large and negative."""


_UNTOUCHED, _READ_ONLY = -1, -2
"""In place of the last writer of a word that nothing has written, before and after it is first read."""


class Shared(SpaceMemory):
    """Shared memory of a CTA, with the state of each of its words of four bytes.

    ``written`` and ``read_by`` are the stamps of the last plain write and read (``epoch << 10 | agent``; 0: none),
    ``writer`` and ``reader`` their instructions. ``filling`` and ``draining`` count the pending asynchronous operations
    that write or read a word.
    """

    what = "shared memory"

    def __init__(self, size: int, rank: int, fill: int) -> None:
        """*fill* is the initial value of each byte."""
        super().__init__(RESERVED + size)
        if fill:
            self.data[:] = fill
        self.rank = rank
        self.exited = False
        words = (self.size + 15 & ~15) // 4
        self.written: Array = np.zeros(words, np.int64)
        self.read_by: Array = np.zeros(words, np.int64)
        self.writer: Array = np.full(words, _UNTOUCHED, np.int32)
        self.reader: Array = np.zeros(words, np.int32)
        self.filling: Array = np.zeros(words, np.int16)
        self.draining: Array = np.zeros(words, np.int16)
        self.operations: list[AsyncOperation] = []
        self.tiles: Any = None
        """The boxes that tensor copies have written (:class:`tclint.executor.tiles.Tiles`); None before the first one."""
        self.narrow: set[int] = set()
        """The plain stores of less than a word."""

    def check(self, offsets: Array, size: int) -> None:
        low, high = int(offsets.min()), int(offsets.max()) + size
        if low < RESERVED or high > self.size:
            bad = low if low < RESERVED else high - size
            raise Fault(
                f"shared memory: offset {bad - RESERVED} is out of bounds ({self.size - RESERVED} bytes"
                + ("; the launch sets the size of dynamic shared memory)" if high > self.size else ")"),
                "bounds",
            )

    def poison(self, words: slice | Array) -> None:
        """Fill *words*, which an asynchronous operation has yet to write."""
        self.views[4][words] = _POISON

    def first_reads(self, words: slice | Array) -> int:
        """The number of *words* that nothing has written or is writing, each counted only when it is first read."""
        if not (fresh := self.writer[words] == _UNTOUCHED).any():
            return 0
        numbers = np.arange(words.start, words.stop) if isinstance(words, slice) else words
        untouched = np.unique(numbers[fresh & (self.filling[words] == 0)])
        self.writer[untouched] = _READ_ONLY
        return len(untouched)

    def presume_written(self, start: int, site: int) -> None:
        """Treat what nothing has written from byte *start* on as written by the instruction *site*, a copy of unknown
        size."""
        rest = self.writer[start >> 2 :]
        rest[rest < 0] = site

    def unordered_accesses(self, words: slice | Array, writes: bool, known: Array) -> list[tuple[int, int]]:
        """The stamp of the last plain write of *words* (read, unless *writes*) that *known* does not cover.

        One for each instruction that made such an access, with the instruction.
        """
        stamps, sites = (self.written, self.writer) if writes else (self.read_by, self.reader)
        found = stamps[words]
        if not found.any():
            return []
        unordered = (found >> 10) > known[found & 1023]
        if not unordered.any():
            return []
        last = dict(zip(sites[words][unordered].tolist(), found[unordered].tolist(), strict=True))
        return [(stamp, site) for site, stamp in last.items()]

    def pending_operations(
        self, words: slice | Array, writes: bool, adds: bool = True
    ) -> list[AsyncOperation]:
        """The pending operations that write (read, unless *writes*) any of *words*, the oldest first.

        Operations that add to the contents are skipped unless *adds*.
        """
        touched = np.zeros(len(self.filling), bool)
        touched[words] = True
        return [
            operation
            for operation in self.operations
            if (adds or not operation.adds) and not (operation.done if writes else operation.captured)
            for memory, mine in (operation.writes if writes else operation.reads)
            if memory is self and touched[mine].any()
        ]


class Tensor:
    """Tensor memory of a CTA: 128 lanes by 512 columns of 32 bits (9.7.16.1).

    ``filling`` and ``draining`` count the pending operations that write or read a cell.
    """

    LANES, COLUMNS = 128, 512

    def __init__(self) -> None:
        shape = (self.LANES, self.COLUMNS)
        self.data: Array = np.zeros(shape, np.uint32)
        self.filling: Array = np.zeros(shape, np.int16)
        self.draining: Array = np.zeros(shape, np.int16)
        self.allocated: Array = np.zeros(self.COLUMNS, bool)
        self.operations: list[AsyncOperation] = []
        self.permitted = True
        """Whether the CTA still has the permit to allocate."""


class ReconvergencePoint:
    """The reconvergence point of a branch: the lanes that are expected there, and those that have arrived."""

    __slots__ = ("arrived", "expected", "outer", "pc")

    def __init__(self, pc: int, expected: Array, outer: ReconvergencePoint | None) -> None:
        self.pc = pc
        self.expected = expected
        self.arrived: Array = np.zeros(LANES, bool)
        self.outer = outer


class LaneGroup:
    """A group of lanes of a warp that execute together, with their program counter."""

    __slots__ = ("asked", "full", "join", "mask", "pc", "polled", "timeout", "waits", "warp")

    def __init__(self, warp: Warp, pc: int, mask: Array, join: ReconvergencePoint | None) -> None:
        self.warp = warp
        self.pc = pc
        self.join = join
        self.waits: object | None = None
        """What it is blocked on: an mbarrier, a barrier, an operation or a text; None if it can run."""
        self.timeout = False
        """Whether the next mbarrier wait may return false although its phase is not complete."""
        self.asked = (-1, -1)
        """The mbarrier and the phase of its last wait that returned false."""
        self.polled: tuple[int, int] | None = None
        """The instruction and the address of its last poll of memory, if it polls without end."""
        self.narrow(mask)

    def narrow(self, mask: Array) -> None:
        self.mask = mask
        self.full = bool(mask.all())


class LaneArrival(NamedTuple):
    """Lanes that have arrived at a collective instruction: their source values, and how to write their results."""

    split: LaneGroup
    mask: Array
    site: int
    sources: Sequence[Array]
    puts: Sequence[Callable[[Warp, Array], None]]


@dataclass
class Released:
    """The clocks that the warps of a cluster have released to an address."""

    cluster: Cluster
    beyond: Clocks
    """For every CTA of the cluster."""
    within: dict[int, Clocks] = field(default_factory=dict)
    """Of the warps of each CTA, by its rank, for that CTA."""


@dataclass
class ExecutorBarrier(barriers.BarrierArrivals):
    """The current phase of a CTA barrier or a cluster barrier."""

    clocks: Clocks
    """The join of the clocks of the threads that have arrived."""
    waiting: list[LaneGroup] = field(default_factory=list)
    votes: list[Array] = field(default_factory=list)
    """The predicates that threads contributed to ``bar.red``. Of a cluster barrier: the two clocks of the previous
    phase, which its waiters acquire."""
    results: dict[int, Callable[[list[Array]], None]] = field(default_factory=dict)
    """What each waiting group of lanes does with the votes, by its ``id``. Of a cluster barrier: the threads that have
    arrived, as keys."""
    needed: int = 0
    """Threads that this phase expects; 0 for all of the CTA."""
    parts: dict[Warp, Array] = field(default_factory=dict)
    """Lanes that have arrived, of warps that are not counted yet."""

    @property
    def busy(self) -> bool:
        """Whether some thread has arrived in this phase."""
        return bool(self.arrived or self.parts)

    def enter(self, w: Warp) -> None:
        """Count the active lanes of *w*; with a thread count, only whole warps, once all their lanes have arrived."""
        if not self.needed:
            self.arrive(int(np.count_nonzero(w.mask)))
            return
        self.parts[w] = self.parts.get(w, w.mask) | w.mask
        self.count(w)

    def count(self, w: Warp) -> None:
        """Count a warp, with all its lanes, if those that have not exited have arrived."""
        part = self.parts.get(w)
        if part is not None and not (w.alive & ~part).any():
            del self.parts[w]
            self.arrive(len(part))

    def completed(self, wanted: int) -> ExecutorBarrier | None:
        """The phase that is complete now if *wanted* threads have arrived, with those that are too many; None if not.

        The barrier is then in the next phase, in which no thread has arrived.
        """
        if not self.arrived or not self.complete_phase(wanted):
            return None
        before = copy(self)
        self.arrived, self.needed, self.clocks = 0, 0, Clocks.new(len(self.clocks.seen))
        self.waiting, self.votes, self.results, self.parts = [], [], {}, {}
        return before


class Warp:
    """A warp, and the group of its lanes that executes at present (``split``, ``mask``)."""

    def __init__(self, cta: Cta, index: int, threads: int, number: int) -> None:
        self.cta = cta
        self.machine: Services = cta.machine
        self.index = index
        """Its number in its CTA."""
        self.number = number
        """Its number in its cluster, which is its component of clocks."""
        self.warpgroup = cta.cluster.warpgroup(cta.rank, index)
        """The component of clocks of its warpgroup."""
        self.alive: Array = threads > _NUMBERS
        self.started = self.alive
        """Its lanes, including those that have exited."""
        self.regs: list[Array] = []
        self.local: SpaceMemory | None = None
        self.clocks = Clocks.new(cta.cluster.agents)
        self.epoch = 1
        self.clocks.seen[number] = 1
        self.clocks.fenced[number] = 0
        self.stamp = 1 << 10 | number
        self.splits: list[LaneGroup] = []
        self.filling: dict[int, AsyncOperation] = {}
        """Registers that a pending asynchronous operation writes."""
        self.draining: dict[int, AsyncOperation] = {}
        """Registers that a pending asynchronous operation reads."""
        self.groups: dict[tuple[Engine, bytes], list[list[AsyncOperation]]] = {}
        """Asynchronous operations by mechanism and lanes: one list per group, the last one not committed yet."""
        self.unfenced: dict[int, int] = {}
        """Operands of ``wgmma`` written, and accumulators read, since the last ``wgmma.fence``, with the instruction."""
        self.collectives: dict[tuple[str, int], list[LaneArrival]] = {}
        """Groups of lanes that wait at a collective instruction for others in its membermask, by opcode and mask."""
        self.carry: Array = np.zeros(LANES, np.uint32)
        self.forced_apart = False
        """Whether lanes have resumed without reconverging: missing lanes at an instruction are then no evidence of
        divergence in the program."""
        self.waited_for_grid = False
        """Whether it has executed ``griddepcontrol.wait``."""
        self.owned = 0
        """The register count that the last ``setmaxnreg`` set; 0 before the first one."""
        self.fenced = False
        """Whether it has executed ``wgmma.fence``."""
        self.observed = Clocks.new(cta.cluster.agents)
        """What its relaxed waits have observed: a fence acquires it (8.8)."""
        self.released = Clocks.new(cta.cluster.agents)
        """Its clocks at its last memory fence that releases, which a later relaxed arrival releases."""
        self.widely_fenced = Clocks.new(cta.cluster.agents)
        """The same at the last one of a scope that includes other CTAs."""
        self.narrowly_fenced = False
        """Whether a memory fence of CTA scope follows that fence."""
        self.issued = 0
        """How many ``wgmma`` it has issued."""
        self.polled = 0
        """The address of its last access that may be a poll of memory."""
        self.cluster_phase = 0
        """The phase of the cluster barrier at its last arrival."""
        self.cluster_arrived: Array = np.zeros(LANES, bool)
        """The lanes that have arrived at the cluster barrier and have not waited for it since."""
        self.site = 0
        self.mask: Array = self.alive
        self.full = False

    def enter(self, split: LaneGroup) -> None:
        """Make *split* the group of lanes that executes."""
        self.split = split
        self.mask = split.mask
        self.full = split.full

    @property
    def lanes(self) -> Array:
        """The numbers of the active lanes."""
        return _NUMBERS[self.mask]

    def join_group(self, engine: Engine, operation: AsyncOperation) -> None:
        """Adds *operation* to the group that its threads commit next."""
        self.groups.setdefault((engine, self.mask.tobytes()), [[]])[-1].append(operation)

    def groups_of(self, engine: Engine) -> Iterable[list[list[AsyncOperation]]]:
        """The groups that belong to any active thread."""
        mine = self.mask.tobytes()
        for (name, mask), groups in self.groups.items():
            if name == engine and (mask == mine or (np.frombuffer(mask, bool) & self.mask).any()):
                yield groups

    def tick(self) -> None:
        """Begin a new epoch, so that clocks released before do not cover later accesses."""
        self.epoch += 1
        self.clocks.seen[self.number] = self.epoch
        self.stamp = self.epoch << 10 | self.number

    def name(self) -> str:
        where = f" of CTA {self.cta.number}" if self.machine.ctas > 1 else ""
        return f"warp {self.index}{where}"


@dataclass(eq=False)
class AsyncOperation:
    """An asynchronous operation between its issue and its completion."""

    site: int
    warp: Warp
    what: str
    number: int = 0
    reads: list[Range] = field(default_factory=list)
    writes: list[Range] = field(default_factory=list)
    capture: Callable[[], None] | None = None
    """Reads the sources."""
    finish: Callable[[], None] | None = None
    """Writes the results and signals completion."""
    mbarrier: ExecutorMbarrier | None = None
    """The mbarrier that it completes on."""
    tracked: list[ExecutorMbarrier] = field(default_factory=list)
    """The mbarriers on which commits that track it arrive."""
    filling: dict[Warp, tuple[int, ...]] = field(default_factory=dict)
    draining: dict[Warp, tuple[int, ...]] = field(default_factory=dict)
    """Registers that it writes and reads, by warp."""
    before: list[AsyncOperation] = field(default_factory=list)
    """Operations of the same pipeline that must complete first."""
    ready: Callable[[], bool] | None = None
    """Whether all its participants have arrived; None if it has only one."""
    dependent: bool = False
    """Whether an access to its registers waits for it, as with ``tcgen05.ld`` and ``.st`` (9.7.16.6.4.5)."""
    adds: bool = False
    """Whether it adds to the contents of its destination, so that it does not conflict with others that do."""
    stamp: int = 0
    """The stamp of its reads, for an operation whose waiters are ordered after its issue, or of a warpgroup; 0: the
    stamp of the issuing warp when its sources are read."""
    written: int = 0
    """The stamp of its writes; 0: they are not plain writes."""
    locked: bool = False
    """Whether its bytes and registers are counted as in use; not if it completed when it was issued."""
    captured: bool = False
    done: bool = False
    unseen: list[Range] = field(default_factory=list)
    """Words that it reads although no proxy fence has made the last generic write visible to it."""
    note: dict[str, Any] = field(default_factory=dict)
    """Further state that the instructions of its kind keep."""


def as_dim3(sizes: Sequence[int]) -> tuple[int, int, int]:
    """Sizes in three dimensions; omitted ones are 1."""
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


@dataclass(frozen=True)
class Geometry(LaunchShape):
    """The shape of a launch, and its bytes of dynamic shared memory."""

    dynamic: int = 0
    explicit: bool = False
    """Whether the kernel was launched with a cluster size."""


class TmemBlock(NamedTuple):
    """An allocation of tensor memory."""

    columns: int
    site: int
    """The instruction that allocated it."""


class Cta:
    """A CTA: its shared and tensor memory, barriers, mbarriers and warps."""

    def __init__(self, cluster: Cluster, rank: int, ctaid: tuple[int, int, int], number: int) -> None:
        self.cluster = cluster
        self.machine = machine = cluster.machine
        self.rank = rank
        self.ctaid = ctaid
        self.number = number
        self.shared = Shared(machine.code.shared_size + machine.geometry.dynamic, rank, machine.fill)
        self.mbarriers: dict[int, ExecutorMbarrier] = {}
        self.invalidated: dict[int, ExecutorMbarrier] = {}
        """The mbarriers that ``mbarrier.inval`` has ended, by address."""
        self.barriers: dict[int, ExecutorBarrier] = {}
        self.tensor: Tensor | None = None
        self.engine: list[AsyncOperation] = []
        """The ``tcgen05`` operations that its tensor core has yet to complete, in the order of issue."""
        self.uncommitted: dict[AsyncOperation, Array] = {}
        """Of those that were issued, the ones that no commit tracks yet, with the lanes that issued them."""
        self.columns: dict[int, TmemBlock] = {}
        """Allocations of tensor memory, by their first column."""
        self.register_pool = 0
        """Registers per thread of one warp that ``setmaxnreg.dec`` has released and no ``.inc`` has taken."""
        self.warpgroup_arrivals: dict[int, set[int]] = {}
        """The warps that have executed each instruction that a whole warpgroup must execute."""
        self.warpgroups: dict[int, list[AsyncOperation]] = {}
        """The ``wgmma`` of each warpgroup, in order."""
        self.warps: list[Warp] = []
        threads = machine.geometry.threads
        for index in range(machine.geometry.warps):
            number = rank * machine.geometry.warps + index
            self.warps.append(Warp(self, index, min(LANES, threads - index * LANES), number))
        self.running = len(self.warps)

    @property
    def full(self) -> int:
        """Threads that its warps have room for."""
        return len(self.warps) * LANES

    @property
    def threads(self) -> int:
        """Threads that have not exited."""
        return sum(int(np.count_nonzero(w.alive)) for w in self.warps)


class Cluster:
    """CTAs that can access each other's shared memory (2.2.2)."""

    def __init__(self, machine: Services, position: tuple[int, int, int]) -> None:
        self.machine = machine
        geometry = machine.geometry
        self.warps = geometry.ranks * geometry.warps
        self.warpgroups = -(-geometry.warps // 4)
        """Warpgroups of each CTA."""
        self.agents = self.warps + 1 + geometry.ranks * self.warpgroups
        """The components of its clocks."""
        self.copies = 0
        """Asynchronous copies into its shared memory that are complete. They act as one more agent: this is its
        epoch, and its component of clocks follows those of the warps."""
        self.barrier = ExecutorBarrier(Clocks.new(self.agents))
        self.position = position
        self.ctas: list[Cta] = []
        width, height, depth = geometry.cluster
        for rank in range(geometry.ranks):
            x, y, z = rank % width, rank // width % height, rank // (width * height)
            ctaid = (position[0] * width + x, position[1] * height + y, position[2] * depth + z)
            number = ctaid[0] + geometry.grid[0] * (ctaid[1] + geometry.grid[1] * ctaid[2])
            self.ctas.append(Cta(self, rank, ctaid, number))

    def warpgroup(self, rank: int, index: int) -> int:
        """The component of clocks of the warpgroup of a warp, given its number in the CTA *rank*."""
        return self.warps + 1 + rank * self.warpgroups + index // 4

    def forget(self, w: Warp, mask: Array) -> None:
        """Discount the arrivals of exiting lanes at the cluster barrier, which no longer expects them."""
        keys = [w.number * LANES + lane for lane in np.flatnonzero(mask).tolist()]
        self.barrier.arrive(-sum(self.barrier.results.pop(key, None) is not None for key in keys))

    @property
    def running(self) -> int:
        return sum(cta.running for cta in self.ctas)
