"""The signals of processes that are forked, and of those that work for their parent."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["POLL_SECONDS", "signals_held", "take_signals_of_worker"]

POLL_SECONDS = 0.5
"""Interval for checking conditions that no event announces."""
_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def signals_held() -> Iterator[set[signal.Signals] | None]:
    """Block the signals that end a process in the ``with`` block, which may fork: Python drops an exception that a signal
    handler raises during a fork. Gives the signals that were blocked before, where a system can block some."""
    if sys.platform == "win32":  # has neither fork nor signal masks
        yield None
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield before  # type: ignore[misc]  # of its numbers, those that have names are members
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take_signals_of_worker() -> None:
    """Set up signals in a process that works for its parent: it ignores interrupts, which the parent gets too."""
    for number in _ENDING:  # a forked process has the handlers of its parent
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
