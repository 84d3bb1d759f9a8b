"""What an access to shared or global memory costs, by the addresses of the lanes of a warp.

Shared memory has 32 banks of 4 bytes, and one *wavefront* moves at most one word of each. The lanes of a warp that read
the same word share it. What a warp accesses is divided by the width of the access, and each part takes as many wavefronts
as the words that lie in one bank:

* up to 4 bytes: the whole warp; 8 bytes: each half of it; 16 bytes: each quarter.
* A load of 8 or 16 bytes moves two of these parts as one if all active lanes of the warp agree with their neighbour, the
  lane whose number differs in the lowest bit or in the next one: the registers that go to both are returned once.
* ``ldmatrix`` and ``stmatrix``: the eight rows of each matrix, at the addresses of eight lanes.
* An atomic operation takes a wavefront for each lane of a bank, also where these are at one word.

The *ideal* is the number that the same parts would take if no two words were in one bank. The difference are bank
conflicts. Global memory is accessed in sectors of 32 bytes; the ideal number of them is that which would hold the bytes if
these were contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from functools import lru_cache

import numpy as np

from tclint._dataclass import dataclass
from tclint.executor.memory import Array
from tclint.executor.state import LANES

__all__ = ["BANKS", "SECTOR", "Count", "Kind", "sectors", "wavefronts"]

BANKS, _WORD = 32, 4
SECTOR = 32
"""The bytes that global memory is accessed in."""
_ROWS = 8
"""The rows of a matrix."""
_CACHED = 1 << 16
"""Patterns of addresses whose cost is kept: a loop has the same ones in every iteration."""


class Kind(Enum):
    """What decides how an access to shared memory is divided."""

    LOAD = auto()
    STORE = auto()
    ROWS = auto()
    """Of the rows of matrices, at an address for each of them."""
    ATOMIC = auto()


@dataclass(slots=True)
class Count:
    """What the executions of one instruction have cost, by all warps together."""

    executions: int = 0
    """How often a warp has executed it with at least one lane."""
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    sectors: int = 0
    ideal_sectors: int = 0

    def add(self, other: Count) -> None:
        """Add what *other* has cost."""
        self.executions += other.executions
        self.wavefronts += other.wavefronts
        self.ideal_wavefronts += other.ideal_wavefronts
        self.sectors += other.sectors
        self.ideal_sectors += other.ideal_sectors


# ---------------------------------------------------------------- the costs


def wavefronts(lanes: Array, offsets: Array, size: int, kind: Kind) -> tuple[int, int]:
    """The wavefronts of one access to shared memory, and the ideal number of them.

    *lanes* are the active lanes, in order, *offsets* the offsets in shared memory of the *size* bytes that each accesses.
    """
    start = int(offsets.min()) & -BANKS * _WORD
    return _wavefronts(
        lanes.astype(np.uint8).tobytes(), (offsets - start).astype(np.int64).tobytes(), size, kind
    )


@lru_cache(_CACHED)
def _wavefronts(which: bytes, where: bytes, size: int, kind: Kind) -> tuple[int, int]:
    lanes, offsets = np.frombuffer(which, np.uint8), np.frombuffer(where, np.int64)
    total = ideal = 0
    for part in _parts(lanes, offsets, size, kind):
        words = (offsets[part, None] >> 2) + np.arange(max(size // _WORD, 1))
        distinct = words.ravel() if kind is Kind.ATOMIC else np.unique(words)
        total += int(np.bincount(distinct % BANKS).max())
        ideal += -(-len(distinct) // BANKS)
    return total, ideal


def _parts(lanes: Array, offsets: Array, size: int, kind: Kind) -> Iterator[Array]:
    """The indices of the *lanes* whose accesses are moved together."""
    width = _ROWS if kind is Kind.ROWS else LANES * _WORD // max(size, _WORD)
    if kind is Kind.LOAD and size > _WORD and _paired(lanes, offsets):
        width *= 2
    for first in range(0, LANES, width):
        part = np.flatnonzero((lanes >= first) & (lanes < first + width))
        if len(part):
            yield part


def _paired(lanes: Array, offsets: Array) -> bool:
    """Whether each of the *lanes* is at the address of its neighbour, or that is not active."""
    at = dict(zip(lanes.tolist(), offsets.tolist(), strict=True))
    return any(all(at.get(lane ^ bit, offset) == offset for lane, offset in at.items()) for bit in (1, 2))


def sectors(addresses: Array, lengths: Array) -> tuple[int, int]:
    """The sectors that accesses of *lengths* bytes at *addresses* touch, and the number that would hold as many bytes."""
    start = int(addresses.min()) & -SECTOR
    return _sectors((addresses - start).astype(np.int64).tobytes(), lengths.astype(np.int64).tobytes())


@lru_cache(_CACHED)
def _sectors(where: bytes, length: bytes) -> tuple[int, int]:
    addresses, lengths = np.frombuffer(where, np.int64), np.frombuffer(length, np.int64)
    every = np.arange(int(lengths.max()))
    accessed = np.unique((addresses[:, None] + every)[every < lengths[:, None]])
    return len(np.unique(accessed // SECTOR)), -(-len(accessed) // SECTOR)
