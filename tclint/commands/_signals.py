"""Signals that end the process, such as SIGTERM: worker processes and temporary files are cleaned up first."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_MAX_CLEANUP_SECONDS = 2.0
"""Time for the cleanup, after which the process is ended in any case."""


class _Exit(SystemExit):
    """Raised by a signal."""


class _Unwinding:
    """A handler that raises SystemExit, so that a run unwinds and cleans up."""

    def __init__(self) -> None:
        self.received: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.received:  # timeout(1) sends two signals; the second one must not interrupt the cleanup
            return
        self.received.append(number)
        if sys.platform != "win32":
            # Python drops an exception that a handler raises in a finaliser. The timer ends the process then too.
            signal.signal(signal.SIGALRM, lambda *_: self.end())
            signal.setitimer(signal.ITIMER_REAL, _MAX_CLEANUP_SECONDS)
        show = sys.unraisablehook
        sys.unraisablehook = lambda dropped: None if dropped.exc_type is _Exit else show(dropped)
        raise _Exit(128 + number)

    def end(self) -> None:
        """Ends the process by the signal that it received."""
        self.reset()
        os.kill(os.getpid(), self.received[0])
        sys.exit(128 + self.received[0])  # process 1 of a container survives signals from itself

    def reset(self) -> None:
        for number in _ENDING:
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_DFL)


@contextmanager
def unwound_by_signals() -> Iterator[None]:
    """In the ``with`` block, signals that would end the process raise SystemExit; afterwards, the signal ends it.

    A signal that is ignored (nohup) or already has a handler is left alone.
    """
    handler = _Unwinding()
    for number in _ENDING:
        with suppress(ValueError):  # only the main thread may set a handler
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, handler)
    try:
        yield
    finally:
        handler.reset()
        if handler.received:
            handler.end()


def ended_by_signals() -> None:
    """Makes signals end the process immediately from now on, for a command whose threads would block unwinding."""
    for number in _ENDING:
        if isinstance(handler := signal.getsignal(number), _Unwinding):
            handler.reset()
