"""The bytes that a launch has written to shared memory, as far as threads load them again."""

from __future__ import annotations

from itertools import takewhile

from tclint.replay.accesses import CTA_STRIDE

__all__ = ["SharedBytes"]


class SharedBytes:
    """The shared memory of all CTAs of a cluster, by address."""

    def __init__(self) -> None:
        self._bytes: dict[int, int | None] = {}
        """None: it was written, with an unknown value."""
        self.clobbered_loads: set[int] = set()
        """Loads that may read what was stored to an unknown address."""

    def load(self, address: int, size: int) -> int | None:
        """The number in *size* bytes, the lowest byte first; None if one of them is unknown."""
        found = [self._bytes.get(address + k) for k in range(size)]
        return None if None in found else sum(b << 8 * k for k, b in enumerate(found) if b is not None)

    def store(self, address: int, number: int | None, size: int) -> None:
        """Stores the low *size* bytes of a number; None: it is unknown."""
        if number is None:
            self._bytes.update(dict.fromkeys(range(address, address + size)))
        else:
            stored = (number & (1 << 8 * size) - 1).to_bytes(size, "little")
            self._bytes.update(enumerate(stored, address))

    def invalidate(self, address: int, size: int | None) -> None:
        """Makes *size* bytes unknown.

        If the size is unknown too, as for a tensor, all bytes that were stored contiguously.
        """
        touched = range(address, address + (CTA_STRIDE if size is None else size))
        stored = touched if size is not None else takewhile(self._bytes.__contains__, touched)
        self._bytes.update(dict.fromkeys(stored))
