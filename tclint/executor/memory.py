"""State spaces as arrays of bytes, with bounds and alignment (PTX ISA 5.1, 6.4.1.1).

A generic address names its state space by its *window*, the bits from :data:`WINDOW` up. An address of shared memory
has the rank of a CTA in its cluster above bit :data:`RANK`, and the first :data:`RESERVED` bytes of each CTA belong to
the system, as on sm_90: so the address of a variable tells in whose shared memory it lies, and rank 0 is not null.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "GLOBAL", "LOCAL", "PARAM", "RANK", "RESERVED", "SHARED", "UNSIGNED", "WINDOW", "Array", "Fault", "Global",
    "Memory",
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
