"""Signals that end the process, such as SIGTERM: worker processes and temporary files go first."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_GRACE = 2.0
"""Seconds that the process has to clean up before it is ended in any case."""


class _Unwinding:
    """A handler that raises SystemExit, so that what a run has begun is cleaned up."""

    def __init__(self) -> None:
        self.received: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.received:  # timeout(1) sends two signals: the second one must not disturb the cleanup
            return
        self.received.append(number)
        if sys.platform != "win32":
            # Python drops an exception that a handler raises in a finaliser. The process ends nevertheless.
            signal.signal(signal.SIGALRM, lambda *_: self.end())
            signal.setitimer(signal.ITIMER_REAL, _GRACE)
        raise SystemExit(128 + number)

    def end(self) -> None:
        """End the process by the signal that it has received."""
        self.reset()
        os.kill(os.getpid(), self.received[0])
        sys.exit(128 + self.received[0])  # process 1 of a container survives its own signal

    def reset(self) -> None:
        for number in _ENDING:
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_DFL)


@contextmanager
def unwound_by_signals() -> Iterator[None]:
    """Raise SystemExit in here where a signal would end the process; the signal ends it afterwards.

    A signal that is ignored (nohup) or has a handler already is left alone.
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
    """Let signals end the process at once from here on, for a command whose threads would keep it from unwinding."""
    for number in _ENDING:
        if isinstance(handler := signal.getsignal(number), _Unwinding):
            handler.reset()
