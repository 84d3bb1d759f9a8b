"""State spaces as arrays of bytes, with bounds and alignment (PTX ISA 5.1, 6.4.1.1).

The *window* of a generic address, its bits from :data:`WINDOW` up, identifies the state space. Allocations of a recorded
launch keep their addresses, which are below 2^57, in any window but those of the other state spaces. A shared-memory
address has the rank of the CTA in its cluster from bit :data:`RANK` up, so the address of a variable identifies the CTA
that owns it. The first :data:`RESERVED` bytes of each CTA are reserved for the system, as on sm_90, so no variable of
rank 0 has address 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tclint.executor.tensor_maps import TensorMap

__all__ = [
    "GENERIC",
    "LOCAL",
    "PARAM",
    "RANK",
    "RESERVED",
    "SHARED",
    "UNSIGNED",
    "WINDOW",
    "Array",
    "Fault",
    "Global",
    "Misaligned",
    "SpaceMemory",
]  # fmt: skip

Array = NDArray[Any]

WINDOW = 40
SHARED, LOCAL, PARAM = (1 << 60 | 0x71 << WINDOW, 1 << 60 | 0x72 << WINDOW, 1 << 60 | 0x73 << WINDOW)
GENERIC = 32
"""An address with a bit from here up is a generic one; others are offsets in shared memory or in parameters."""
_GLOBAL_WINDOW = 0x7F
"""The window of allocations that may be anywhere, if no recorded one is in it."""
RANK = 24
RESERVED = 1024
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""The unsigned type of a register, by its size in bytes."""
_GUARD = 512
"""Bytes between two allocations, which belong to neither."""
_NOWHERE = 1 << 61
"""Marks an offset that is an address outside all allocations."""


class Fault(Exception):
    """An error that also ends the kernel on a GPU: an address that is out of bounds or misaligned, a trap."""

    def __init__(self, message: str, kind: str = "stopped") -> None:
        """*kind*: ``misaligned``, ``bounds``, ``address``, ``tensor-memory``, ``barrier``, ``cluster``, or ``stopped`` for any other reason."""
        super().__init__(message)
        self.kind = kind


class Misaligned(Fault):
    """An address, or a size, is not a multiple of what the instruction requires."""

    def __init__(self, what: str) -> None:
        super().__init__(f"misaligned address: {what}", "misaligned")


class SpaceMemory:
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
                f"{self.what}: offset {low if low < 0 else high - size} is out of bounds ({self.size} bytes)",
                "bounds",
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


class Global(SpaceMemory):
    """Global memory: allocations with gaps between them, at addresses that differ from their offsets in :attr:`data`."""

    what = "global memory"

    def __init__(self, sizes: dict[str, int], addresses: Mapping[str, int] | None = None) -> None:
        """*sizes*: the bytes of each allocation; *addresses*: where some of them are, which must not overlap."""
        fixed = addresses or {}
        self.earlier: Array | None = None
        """The bytes that the previous grid changed, while a grid executes that may start before that one ends."""
        self.recorded_map: Callable[[bytes], TensorMap | None] | None = None
        """The tensor map that 128 bytes in the format of a GPU are, if any, in any memory of a recorded launch."""
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.offsets: dict[str, int] = {}
        """Name of an allocation -> its offset."""
        taken = {(a + n) >> WINDOW for name, a in fixed.items() for n in (0, sizes[name] - 1)}
        window = next(window for window in range(_GLOBAL_WINDOW, 0, -1) if window not in taken)
        self.windows = frozenset((*taken, window))
        """The windows in which there is global memory."""
        self._base = window << WINDOW
        """The address of an allocation that may be anywhere is its offset added to this."""
        self._deltas: list[int] = []
        """By how much the addresses of each allocation exceed its offsets."""
        ordered = sorted((fixed[name], name, sizes[name]) for name in fixed)
        end = _GUARD
        for address, name, size in (*ordered, *((-1, n, s) for n, s in sizes.items() if n not in fixed)):
            start = end if address < 0 else end + address % _GUARD  # keeps the alignment
            self._deltas.append(self._base if address < 0 else address - start)
            self.offsets[name] = start
            self.starts.append(start)
            self.ends.append(start + size)
            end = (start + size + _GUARD - 1 & -_GUARD) + _GUARD
        self._recorded = len(ordered)
        super().__init__(end)
        bounds = [
            (start + d, stop + d, d)
            for start, stop, d in zip(self.starts, self.ends, self._deltas, strict=True)
        ]
        self._bounds = np.array(bounds[: self._recorded], np.int64).reshape(-1, 3)

    def located(self, addresses: Array) -> Array:
        """The offsets of *addresses*, int64. That of an address in no allocation is refused by :meth:`check`."""
        anywhere: Array = addresses - self._base
        if not self._recorded:
            return anywhere
        starts, ends, deltas = self._bounds.T
        at = np.searchsorted(starts, addresses, "right") - 1
        inside = (at >= 0) & (addresses < ends[at])
        other = np.where((anywhere >= 0) & (anywhere >> WINDOW == 0), anywhere, addresses | _NOWHERE)
        return np.where(inside, addresses - deltas[at], other)

    def check(self, offsets: Array, size: int) -> None:
        low, high = int(offsets.min()), int(offsets.max())
        at = bisect_right(self.starts, low) - 1
        if at >= 0 and high + size <= self.ends[at]:
            return
        for offset in offsets.ravel().tolist():  # several allocations, or none
            at = bisect_right(self.starts, offset) - 1
            if at < 0 or offset + size > self.ends[at]:
                where = self._address(offset)
                near = self._near(at, offset)
                raise Fault(f"global memory: address {where:#x} is not in a buffer{near}", "bounds")

    def _is_nowhere(self, offset: int) -> bool:
        """Whether an offset is an address outside all allocations."""
        return bool(self._recorded) and offset >= 0 and bool(offset & _NOWHERE)

    def _address(self, offset: int) -> int:
        """The address with this offset."""
        if self._is_nowhere(offset):
            return offset & ~_NOWHERE
        at = bisect_right(self.starts, offset) - 1
        inside = at >= 0 and offset < self.ends[at]
        return offset + (self._deltas[at] if inside else self._base)

    def _near(self, at: int, offset: int) -> str:
        """How far an offset lies beyond allocation number *at*, for a message."""
        if self._is_nowhere(offset):
            address = offset & ~_NOWHERE
            before = int(np.searchsorted(self._bounds[:, 0], address, "right")) - 1
            at, distance = before, address - int(self._bounds[before, 1])
        else:
            distance = offset - self.ends[at] if at >= 0 else 0
        if at < 0:
            return ""
        name = next(n for n, start in self.offsets.items() if start == self.starts[at])
        return f" ({distance} bytes past the end of {name})"

    def named(self, address: int) -> str:
        """The allocation that an address is in, and where, for a message."""
        offset = int(self.located(np.array([address], np.int64))[0])
        at = bisect_right(self.starts, offset) - 1
        name = next((n for n, start in self.offsets.items() if at >= 0 and start == self.starts[at]), "")
        return f"byte {offset - self.starts[at]} of {name}" if name else f"address {address:#x}"

    def address(self, name: str) -> int:
        """The generic address of an allocation."""
        return self._address(self.offsets[name])
