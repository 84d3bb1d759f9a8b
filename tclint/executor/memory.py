"""State spaces as arrays of bytes, with bounds and alignment (PTX ISA 5.1, 6.4.1.1).

A generic address names its state space by its *window*, the bits from :data:`WINDOW` up. An address of shared memory
has the rank of a CTA in its cluster above bit :data:`RANK`, and the first :data:`RESERVED` bytes of each CTA belong to
the system, as on sm_90: so the address of a variable tells in whose shared memory it lies, and rank 0 is not null.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tclint.executor.flight import Flight

__all__ = [
    "GLOBAL", "LOCAL", "PARAM", "RANK", "RESERVED", "SHARED", "UNSIGNED", "WINDOW", "Array", "Fault", "Global",
    "Memory", "Shared", "Tensor",
]  # fmt: skip

Array = NDArray[Any]

WINDOW = 40
GLOBAL, SHARED, LOCAL, PARAM = (0x7F << WINDOW, 0x71 << WINDOW, 0x72 << WINDOW, 0x73 << WINDOW)
RANK = 24
RESERVED = 1024
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""The register type of so many bytes."""
_GUARD = 512
"""Bytes between two allocations that belong to none."""
_POISON = 0xFBFBFBFB
"""Fills what an asynchronous operation is still to write: as a floating-point number, large and negative."""


class Fault(Exception):
    """The kernel did what ends it on a GPU, too: an address out of bounds, a misaligned one, a trap."""


class Memory:
    """Bytes of one state space; ``views`` are the same bytes as unsigned integers, by their size."""

    what = "memory"

    def __init__(self, size: int) -> None:
        self.size = size
        self.data: Array = np.zeros(size + 15 & ~15, np.uint8)
        self.views = {n: self.data.view(kind) for n, kind in UNSIGNED.items()}

    def check(self, offsets: Array, size: int) -> None:
        """Raises :class:`Fault` unless *size* bytes at each of the offsets are there."""
        low, high = int(offsets.min()), int(offsets.max()) + size
        if low < 0 or high > self.size:
            raise Fault(f"{self.what}: offset {low if low < 0 else high - size} is out of {self.size} bytes")

    def load(self, offsets: Array, size: int) -> Array:
        """The integers of *size* bytes at *offsets*, each aligned to it."""
        self.check(offsets, size)
        return self.views[size][_units(offsets, size)]

    def store(self, offsets: Array, size: int, values: Array) -> None:
        """Store integers; of several at one place the last one stays (9.7.9.11 leaves open which)."""
        self.check(offsets, size)
        self.views[size][_units(offsets, size)] = values

    def read(self, start: int, size: int) -> Array:
        """A copy of a stretch of bytes."""
        self.check(np.array([start]), size)
        return self.data[start : start + size].copy()

    def write(self, start: int, values: Array) -> None:
        self.check(np.array([start]), len(values))
        self.data[start : start + len(values)] = values


def _units(offsets: Array, size: int) -> Array:
    if size == 1:
        return offsets
    if (offsets & (size - 1)).any():
        raise Fault(f"misaligned address: {size} bytes at {int(offsets[(offsets & (size - 1)) != 0][0]):#x}")
    return offsets >> size.bit_length() - 1


class Global(Memory):
    """Global memory: allocations with gaps between them."""

    what = "global memory"

    def __init__(self, sizes: dict[str, int]) -> None:
        self.earlier: Array | None = None
        """The bytes that the grid before wrote, while one runs that may begin before that ends."""
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.places: dict[str, int] = {}
        end = _GUARD
        for name, size in sizes.items():
            self.places[name] = end
            self.starts.append(end)
            self.ends.append(end + size)
            end += (size + _GUARD - 1 & -_GUARD) + _GUARD
        super().__init__(end)

    def check(self, offsets: Array, size: int) -> None:
        low, high = int(offsets.min()), int(offsets.max())
        at = bisect_right(self.starts, low) - 1
        if at >= 0 and high + size <= self.ends[at]:
            return
        for offset in offsets.ravel().tolist():  # several allocations, or none
            at = bisect_right(self.starts, offset) - 1
            if at < 0 or offset + size > self.ends[at]:
                raise Fault(
                    f"global memory: address {offset + GLOBAL:#x} is in no buffer{self._near(at, offset)}"
                )

    def _near(self, at: int, offset: int) -> str:
        if at < 0:
            return ""
        name = next(n for n, place in self.places.items() if place == self.starts[at])
        return f" ({offset - self.ends[at]} bytes behind the end of {name})"

    def address(self, name: str) -> int:
        """The generic address of an allocation."""
        return GLOBAL + self.places[name]


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
