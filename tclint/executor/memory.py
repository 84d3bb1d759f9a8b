"""State spaces as arrays of bytes, with bounds and alignment (PTX ISA 5.1, 6.4.1.1).

The *window* of a generic address, its bits from :data:`WINDOW` up, identifies the state space. A shared-memory address
has the rank of the CTA in its cluster from bit :data:`RANK` up, so the address of a variable identifies the CTA that
owns it. The first :data:`RESERVED` bytes of each CTA are reserved for the system, as on sm_90, so no variable of rank 0
has address 0.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "GLOBAL", "LOCAL", "PARAM", "RANK", "RESERVED", "SHARED", "UNSIGNED", "WINDOW", "Array", "Fault", "Global",
    "Memory", "Misaligned",
]  # fmt: skip

Array = NDArray[Any]

WINDOW = 40
GLOBAL, SHARED, LOCAL, PARAM = (0x7F << WINDOW, 0x71 << WINDOW, 0x72 << WINDOW, 0x73 << WINDOW)
RANK = 24
RESERVED = 1024
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""The unsigned type of a register, by its size in bytes."""
_GUARD = 512
"""Bytes between two allocations, which belong to neither."""


class Fault(Exception):
    """An error that also ends the kernel on a GPU: an address that is out of bounds or misaligned, a trap."""

    def __init__(self, message: str, kind: str = "stopped") -> None:
        """*kind*: ``misaligned``, ``address``, ``tensor-memory``, ``barrier``, ``cluster``, or ``stopped`` for any other reason."""
        super().__init__(message)
        self.kind = kind


class Misaligned(Fault):
    """An address, or a size, is not a multiple of what the instruction requires."""

    def __init__(self, what: str) -> None:
        super().__init__(f"misaligned address: {what}", "misaligned")


class Memory:
    """Bytes of one state space; ``views`` are the same bytes as unsigned integers, by integer size."""

    what = "memory"

    def __init__(self, size: int) -> None:
        self.size = size
        self.data: Array = np.zeros(size + 15 & ~15, np.uint8)
        self.views = {n: self.data.view(kind) for n, kind in UNSIGNED.items()}

    def check(self, offsets: Array, size: int) -> None:
        """Raises :class:`Fault` unless *size* bytes at each of the offsets are in bounds."""
        low, high = int(offsets.min()), int(offsets.max()) + size
        if low < 0 or high > self.size:
            raise Fault(
                f"{self.what}: offset {low if low < 0 else high - size} is out of bounds ({self.size} bytes)"
            )

    def load(self, offsets: Array, size: int) -> Array:
        """The integers of *size* bytes at *offsets*. Raises :class:`Fault` for a misaligned one."""
        self.check(offsets, size)
        return self.views[size][_units(offsets, size)]

    def store(self, offsets: Array, size: int, values: Array) -> None:
        """Store integers; of several at the same offset the last one remains (9.7.9.11 leaves open which)."""
        self.check(offsets, size)
        self.views[size][_units(offsets, size)] = values

    def read(self, start: int, size: int) -> Array:
        """A copy of *size* bytes from *start* on."""
        self.check(np.array([start]), size)
        return self.data[start : start + size].copy()

    def write(self, start: int, values: Array) -> None:
        """Store bytes from *start* on."""
        self.check(np.array([start]), len(values))
        self.data[start : start + len(values)] = values


def _units(offsets: Array, size: int) -> Array:
    """Byte offsets as indices of integers of *size* bytes. Raises :class:`Fault` for a misaligned one."""
    if size == 1:
        return offsets
    if (offsets & (size - 1)).any():
        raise Misaligned(f"{size} bytes at {int(offsets[(offsets & (size - 1)) != 0][0]):#x}")
    return offsets >> size.bit_length() - 1


class Global(Memory):
    """Global memory: allocations with gaps between them."""

    what = "global memory"

    def __init__(self, sizes: dict[str, int]) -> None:
        self.earlier: Array | None = None
        """The bytes that the previous grid changed, while a grid executes that may start before that one ends."""
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.offsets: dict[str, int] = {}
        """Name of an allocation -> its offset."""
        end = _GUARD
        for name, size in sizes.items():
            self.offsets[name] = end
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
                    f"global memory: address {offset + GLOBAL:#x} is not in a buffer{self._near(at, offset)}"
                )

    def _near(self, at: int, offset: int) -> str:
        """How far an offset lies beyond allocation number *at*, for a message."""
        if at < 0:
            return ""
        name = next(n for n, start in self.offsets.items() if start == self.starts[at])
        return f" ({offset - self.ends[at]} bytes past the end of {name})"

    def named(self, offset: int) -> str:
        """The allocation that an offset is in, and where, for a message."""
        at = bisect_right(self.starts, offset) - 1
        name = next((n for n, start in self.offsets.items() if at >= 0 and start == self.starts[at]), "")
        return f"byte {offset - self.starts[at]} of {name}" if name else f"address {offset + GLOBAL:#x}"

    def address(self, name: str) -> int:
        """The generic address of an allocation."""
        return GLOBAL + self.offsets[name]
