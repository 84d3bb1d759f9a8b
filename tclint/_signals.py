"""Signals that end a process, held back where what their handlers raise would be lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ENDING", "signals_held"]

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""The signals that end a process, of those that the system has."""


@contextmanager
def signals_held() -> Iterator[set[signal.Signals] | None]:
    """Block the signals that end a process in the ``with`` block.

    Python drops an exception that a signal handler raises during a fork. Gives the signals that were blocked before, where a
    system can block some.
    """
    if sys.platform == "win32":  # has neither fork nor signal masks
        yield None
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield before  # type: ignore[misc]  # of its numbers, those that have names are members
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
