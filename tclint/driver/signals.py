"""The signals of processes that are forked, and of those that work for their parent."""

from __future__ import annotations

import signal
import sys

from tclint._signals import ENDING

__all__ = ["POLL_SECONDS", "take_signals_of_worker"]

POLL_SECONDS = 0.5
"""Interval for checking conditions that no event announces."""


def take_signals_of_worker() -> None:
    """Set up signals in a process that works for its parent: it ignores interrupts, which the parent gets too."""
    for number in ENDING:  # a forked process has the handlers of its parent
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
