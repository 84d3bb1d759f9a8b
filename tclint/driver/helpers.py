"""Forked processes that take over part of the work of one: kernels of a module that this process has parsed and built.

A run has as many slots as it may have processes at work (``jobs``). A process that checks a module takes those that are free,
when it begins and before each kernel, and forks a process for each, which has the module without reading it again. All of
them take the kernels in the same order, the largest first. What a helper that dies has made is made again where it is asked
for, so a kernel that takes a process down takes down the process that checks the module, as without helpers.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Generic, NoReturn, TypeVar

from tclint._signals import signals_held
from tclint.driver.signals import POLL_SECONDS, take_signals_of_worker

__all__ = ["Helpers", "Slots", "slots"]

T = TypeVar("T")
WORTH_IT = 2_000
"""Instructions beyond which starting one more process pays off: about a third of a second of work."""
_MAX_SLOTS = 4096
_TICKET = 4
"""Bytes of the number of a piece of work. Reads and writes of a pipe are atomic for these."""
_MAX_TICKETS = 4096
"""Pieces of work that are shared: what a pipe of any system holds."""


@contextmanager
def slots(number: int, *, workers: bool) -> Iterator[Slots | None]:
    """The slots of a run that may have *number* processes at work; None if helpers cannot be forked.

    They can on Linux, by *workers*, or by a process that has one thread, those of libraries included.
    """
    if sys.platform != "linux" or number < 2 or not (workers or _threads() == 1):
        yield None
        return
    made = Slots(number)
    try:
        yield made
    finally:
        made.close()


def _threads() -> int:
    """The threads of this process; 0 if the system does not say."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


class Slots:
    """How many more processes may work: a pipe with a byte for each, which all processes of a run inherit."""

    def __init__(self, number: int) -> None:
        self._number = min(number, _MAX_SLOTS)
        self._free, self._given = os.pipe()
        os.set_blocking(self._free, False)
        self.reset()

    def reset(self) -> None:
        """Free all of them, as processes that held some have died."""
        while self.take():
            pass
        os.write(self._given, bytes(self._number))

    def take(self) -> bool:
        """Take a slot; False if none is free."""
        with suppress(BlockingIOError):
            return bool(os.read(self._free, 1))
        return False

    def give(self) -> None:
        """Return a slot."""
        os.write(self._given, b"\0")

    def close(self) -> None:
        """Close the pipe in this process."""
        os.close(self._free)
        os.close(self._given)


class Helpers:
    """Shares work with processes that it forks while there are free slots."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Hold a slot for this process in the ``with`` block, if one is free."""
        held = self._slots.take()
        try:
            yield
        finally:
            if held:
                self._slots.give()

    def __call__(
        self, sizes: Sequence[int], make: Callable[[int], T], same: Sequence[object]
    ) -> dict[int, T]:
        """What *make* returns for the number of each of *sizes*, which are in instructions.

        It is called here or in a forked process, whose other effects are lost. What it returns is pickled there, but for the
        objects of *same*, which both processes have. A number is missing if *make* raised an exception for it, if its
        process died, or if there is too little work for more than one process.
        """
        work = _Work(sizes, make, same)
        try:
            return self._made(work) if work.worth(0) else {}
        finally:
            work.close()

    def _made(self, work: _Work[T]) -> dict[int, T]:
        team: list[_Helper] = []
        found: dict[int, T] = {}
        try:
            while True:
                started = 0
                while work.worth(started) and self._slots.take():
                    with signals_held():  # what a handler raises, it raises when the process is noted
                        team.append(self._forked(work))
                    started += 1
                if not work.do_next(found):
                    break
            for helper in team:
                if data := helper.result():
                    found |= work.restored(data)
                else:
                    self._slots.give()
        finally:
            for helper in team:
                helper.end()
        return found

    def _forked(self, work: _Work[T]) -> _Helper:
        import warnings

        parent = os.getpid()
        read, write = os.pipe()
        with warnings.catch_warnings():
            # The one thread that a worker has besides waits for the end of its parent, and holds no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
            if not pid:
                self._help(work, parent, write)
        os.close(write)
        return _Helper(pid, read)

    def _help(self, work: _Work[T], parent: int, write: int) -> NoReturn:
        """Take part in *work* as a process of its own, and end."""
        status = 1
        try:
            from threading import Thread

            take_signals_of_worker()
            Thread(target=_end_with, args=(parent,), daemon=True).start()
            found: dict[int, T] = {}
            while work.do_next(found):
                pass
            data = work.pickled(found)
            self._slots.give()
            with open(write, "wb") as file:
                file.write(data)
            status = 0
        finally:
            os._exit(status)


class _Helper:
    """A forked process."""

    def __init__(self, pid: int, output: int) -> None:
        self._pid, self._output = pid, output

    def result(self) -> bytes:
        """What it has written, once it has ended; nothing if it died."""
        with open(self._output, "rb", closefd=False) as file:
            data = file.read()
        return data if self._ended() == 0 else b""

    def end(self) -> None:
        """Kill it if it still runs."""
        os.close(self._output)
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._ended()

    def _ended(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return status


class _Work(Generic[T]):
    """Pieces of work that several processes share, the largest first: a pipe has the numbers of those that are left."""

    def __init__(self, sizes: Sequence[int], make: Callable[[int], T], same: Sequence[object]) -> None:
        self._make, self._same = make, same
        largest = sorted(range(len(sizes)), key=lambda number: -sizes[number])[:_MAX_TICKETS]
        self._after = [0, *accumulate(sizes[number] for number in reversed(largest))]
        """Number of pieces that are left -> the size of all of them."""
        self._tickets, write = os.pipe()
        with open(write, "wb", buffering=0) as file:
            file.write(b"".join(number.to_bytes(_TICKET, "little") for number in largest))

    def close(self) -> None:
        """Close the pipe in this process."""
        os.close(self._tickets)

    def worth(self, started: int) -> bool:
        """Whether one more process pays off, if this one and *started* others are about to take a piece each."""
        import fcntl
        import termios

        left = int.from_bytes(fcntl.ioctl(self._tickets, termios.FIONREAD, bytes(4)), sys.byteorder)
        return self._after[max(left // _TICKET - 1 - started, 0)] >= WORTH_IT

    def do_next(self, found: dict[int, T]) -> bool:
        """Do the next piece of work and note the result in *found*; False if none is left."""
        ticket = os.read(self._tickets, _TICKET)
        if not ticket:
            return False
        number = int.from_bytes(ticket, "little")
        with suppress(Exception):  # the caller makes it again, and raises the exception
            found[number] = self._make(number)
        return True

    def pickled(self, found: dict[int, T]) -> bytes:
        """*found* for another process, with references to what both have."""
        import pickle
        from io import BytesIO

        known = {id(each): number for number, each in enumerate(self._same)}
        output = BytesIO()
        pickler = pickle.Pickler(output, pickle.HIGHEST_PROTOCOL)
        pickler.persistent_id = lambda each: known.get(id(each))  # type: ignore[method-assign]
        pickler.dump(found)
        return output.getvalue()

    def restored(self, data: bytes) -> dict[int, T]:
        """What another process has :meth:`pickled`."""
        import pickle
        from io import BytesIO

        unpickler = pickle.Unpickler(BytesIO(data))
        unpickler.persistent_load = self._same.__getitem__  # type: ignore[method-assign]
        found: dict[int, T] = unpickler.load()
        return found


def _end_with(parent: int) -> None:
    """End this process once its *parent* has ended, even if that was killed."""
    import time

    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)  # sys.exit() would end only this thread
