"""Bounded reading of files: none is read without a limit, and none that is not regular unless the caller permits it.

A file in an untrusted folder may be endless (a link to ``/dev/zero``) or block the process that opens it (a FIFO without a writer).
All errors are OSErrors whose ``strerror`` is a phrase for the user.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from typing import Protocol

__all__ = ["MAX_BYTES", "SETTINGS_LIMIT", "bounded", "read_file", "size_words"]

MAX_BYTES = 256 * 2**20
"""Bytes of the largest input, after decompression, unless the user says otherwise (``max-input``)."""
SETTINGS_LIMIT = 64 * 2**20
"""Bytes of a file that a person or a tool writes beside kernels: settings, a baseline, a launch file, metadata."""
_PIECE = 2**20
_MAX_FIFO_SECONDS = 10.0
"""How long to wait until a process opens the other end of a FIFO."""
_POLL_SECONDS = 0.05
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Readable(Protocol):
    """A file that returns up to *count* bytes, and none only at its end."""

    def read(self, count: int, /) -> bytes: ...


def read_file(path: str | os.PathLike[str], limit: int = SETTINGS_LIMIT, *, special: bool = False) -> bytes:
    """The contents of a file of up to *limit* bytes. Raises OSError, and ValueError for a NUL in *path*.

    With *special*, the file may be a FIFO or a device. A FIFO that no process opens for writing within ten seconds is an
    error; once one has, the data are waited for, as in a pipeline, with a note on standard error.
    """
    descriptor, first = os.open(path, _FLAGS), b""
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", os.fspath(path))
        if not stat.S_ISREG(mode):
            if not special:
                raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
            if sys.platform != "win32":
                first = _awaited(descriptor, path) if stat.S_ISFIFO(mode) else b""
                os.set_blocking(descriptor, True)
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return first + bounded(file, limit)
    finally:
        os.close(descriptor)


def bounded(file: Readable, limit: int, taken: int = 0) -> bytes:
    """The contents of *file*, in pieces of a MiB. Raises OSError (EFBIG) once they and *taken* exceed *limit* bytes."""
    found = io.BytesIO()
    while piece := file.read(_PIECE):
        found.write(piece)
        if found.tell() + taken > limit:
            raise OSError(errno.EFBIG, f"it has more than {size_words(limit)}")
    return found.getvalue()


def size_words(count: int) -> str:
    """A number of bytes in the largest unit that is exact: ``256 MiB``."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size and count % size == 0:
            return f"{count // size:,} {unit}"
    return f"{count:,} bytes"


if sys.platform != "win32":

    def _awaited(descriptor: int, path: str | os.PathLike[str]) -> bytes:
        """Waits until data or the end of a FIFO is there; returns what was read of it. Raises OSError without a writer."""
        import select
        from time import monotonic

        readiness = select.poll()
        readiness.register(descriptor, select.POLLIN)
        deadline = monotonic() + _MAX_FIFO_SECONDS
        while not readiness.poll(_POLL_SECONDS * 1000):
            if monotonic() < deadline:
                continue
            try:
                first = os.read(descriptor, 1)
            except BlockingIOError:  # there is a writer
                print(f"tclint: waiting for the process that writes to {os.fspath(path)!r}", file=sys.stderr)
                return b""
            if not first:
                reason = f"no process opened this FIFO for writing within {_MAX_FIFO_SECONDS:g} s"
                raise OSError(errno.ETIMEDOUT, reason, os.fspath(path))
            return first
        return b""
