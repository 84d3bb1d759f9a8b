"""The program that decides whether a smaller text still fails: it exits with 0 if so."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tclint.driver.processes import kill
from tclint.text.reduce import Spent

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Command", "CommandError"]

_PLACE = "{}"
"""Where the path of a text is put into the arguments; at their end if it is in none of them."""
_NAME = "kernel.ptx"


class CommandError(Exception):
    """The command cannot be started. The message is for the user."""


class Command:
    """Runs a command on one text after the other, or on several at a time. To be used in a ``with`` statement."""

    def __init__(
        self, arguments: Sequence[str], seconds: float, jobs: int = 1, calls: int | None = None
    ) -> None:
        """Each call is killed after *seconds*, and then says no. *calls* is how many there may be."""
        self.calls = 0
        self._arguments = arguments if any(_PLACE in a for a in arguments) else (*arguments, _PLACE)
        self._seconds = seconds
        self._jobs = jobs
        self._most = calls
        self._folder = TemporaryDirectory(prefix="tclint-")
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.cleanup()

    def status(self, text: bytes) -> int | None:
        """The exit status for *text*, negative for a signal; None if it took too long. Raises CommandError and Spent."""
        self._stopped = False
        return self._status(text, self._counted())

    def first(self, texts: Iterator[bytes]) -> int | None:
        """The number of the first of the *texts* for which the command exits with 0 (see :data:`tclint.text.reduce.First`).

        With several jobs the next texts are asked about before the answer is known, which does not change it.
        """
        self._stopped = False
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                return self._first(texts, pool)
            finally:
                self._stop()  # those after the first one, or all of them after an interrupt

    def _first(self, texts: Iterator[bytes], pool: ThreadPoolExecutor) -> int | None:
        waiting: deque[Future[int | None]] = deque()
        number, spent = 0, None
        while True:
            while spent is None and len(waiting) < self._jobs and (text := next(texts, None)) is not None:
                try:
                    waiting.append(pool.submit(self._status, text, self._counted()))
                except Spent as limit:
                    spent = limit
            if not waiting and spent is not None:
                raise spent
            if not waiting:
                return None
            if waiting.popleft().result() == 0:
                return number
            number += 1

    def _counted(self) -> int:
        """The number of the next call. Raises Spent."""
        if self.calls == self._most:
            raise Spent
        self.calls += 1
        return self.calls

    def _status(self, text: bytes, call: int) -> int | None:
        folder = os.path.join(self._folder.name, str(call))
        os.mkdir(folder)
        path = os.path.join(folder, _NAME)
        Path(path).write_bytes(text)
        command = [argument.replace(_PLACE, path) for argument in self._arguments]
        null = subprocess.DEVNULL
        try:
            process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CommandError(f"{command[0]} cannot be run: {reason}") from None
        self._running.add(process)
        try:
            return None if self._stopped else process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            kill(process)
            self._running.discard(process)
            shutil.rmtree(folder, ignore_errors=True)

    def _stop(self) -> None:
        self._stopped = True
        for process in [*self._running]:
            kill(process)
