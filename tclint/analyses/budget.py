"""What judging one file may cost: a backstop for the limits that count obligations, states and paths.

Those limits give the same result on every machine. This one depends on how fast a machine is, so it is beyond what nearly
all files need.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import process_time

__all__ = ["MAX_BYTES", "MAX_SECONDS", "Budget", "Spent"]

MAX_SECONDS = 25
"""CPU of the process after which nothing more is analysed; what follows takes less than five seconds more."""
MAX_BYTES = 1 << 30
"""Memory of the process."""
_STEP = 0.25
"""CPU seconds between two looks at the memory, which takes a system call."""


class Spent(Exception):
    """The budget is spent; the message says what of it, in words that end a sentence."""


class Budget:
    """The budget of one file, from now on. It is a pause hook of models: a call raises :class:`Spent` if it is spent."""

    def __init__(self, pause: Callable[[], None], memory: Callable[[], int] | None = None) -> None:
        """*pause* is called before, and may raise on its own. *memory* gives the bytes that the process has."""
        self._pause, self._memory = pause, memory or _resident
        self._began = self._looked = process_time()

    def __call__(self) -> None:
        self._pause()
        now = process_time()
        if now - self._began > MAX_SECONDS:
            raise Spent(f"{MAX_SECONDS} s of CPU for one file")
        if now - self._looked >= _STEP:
            self._looked = now
            if self._memory() > MAX_BYTES:
                raise Spent(f"{MAX_BYTES >> 20} MiB of memory")


def _resident() -> int:
    """The bytes of memory that the process has; 0 where the system does not say it as Linux does."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0
