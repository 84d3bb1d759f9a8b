"""Writing of files that a user names: what is refused, and that none is ever half written.

:func:`refuse` decides whether a file may be written, and every command that writes one asks it. SECURITY.md lists
everything that tclint writes; no other module may open a file for writing, which a test holds.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic, sleep

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_MAX_LOCK_SECONDS = 60.0
"""How long to wait for a lock, which is held only while one file is read and written."""
_LOCK_POLL_SECONDS = 0.01


__all__ = ["OutputError", "append", "beside", "locked", "refuse", "write"]


class OutputError(Exception):
    """A file that cannot or must not be written. The message is for the user."""


def refuse(outputs: Iterable[str], inputs: Iterable[str] = ()) -> None:
    """The guard of every file that a user or a file names as an output. Raises OutputError.

    Refuses, before any work is done, a file that cannot be written, two outputs that are one file, and an output that is
    one of the *inputs*, however their paths are spelled: relative, through links, or as another name of the same file.
    An input that is not a regular file, such as a terminal, may be an output as well.
    """
    found: dict[str, str] = {}
    for path in outputs:
        _refuse_unwritable(path)
        if (other := found.get(_identity(path))) is not None:
            raise OutputError(f"two outputs for the same file: {other} and {path}")
        found[_identity(path)] = path
    for path in inputs if found else ():
        if (output := found.get(_identity(path))) is not None and os.path.isfile(path):
            raise OutputError(f"{output} is an input and would be overwritten")


def write(texts: Mapping[str, str | bytes]) -> None:
    """Writes each text to its file. Raises OutputError; if one of them cannot be stored, no file is changed.

    A text is first written to a temporary file beside the target, which then replaces the target atomically, so no
    reader sees half a report. Files that are not regular (/dev/null, a pipe) are written last.
    """
    staged: list[tuple[str, str, str]] = []
    try:
        for path, text in texts.items():
            target = os.path.realpath(path)
            if not _special(path):
                staged.append((path, beside(path, target, text), target))
        for path, temporary, target in staged:
            try:
                os.replace(temporary, target)
            except OSError as error:
                raise _cannot(path, error) from None
    finally:
        for _, temporary, _ in staged:
            with suppress(OSError):
                os.unlink(temporary)  # absent if it has replaced its target
    for path, text in texts.items():
        if _special(path):
            try:
                with open(path, "wb") as file:
                    file.write(_encoded(text))
            except OSError as error:
                raise _cannot(path, error) from None


def append(path: str, text: str) -> None:
    """Appends *text* to a file in a single write, so that the texts of concurrent processes do not mix. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, _encoded(text))
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds a lock on *path* that excludes other runs on this machine, while the file is read, changed and replaced.

    The lock ends with the process that holds it. Raises OutputError if *path* cannot be locked, or if another process
    holds the lock for a minute.
    """
    target = os.path.realpath(path)
    deadline = monotonic() + _MAX_LOCK_SECONDS
    try:
        while (descriptor := _lock(target)) is None:
            if monotonic() > deadline:
                raise OutputError(
                    f"{path} cannot be written: another process has locked {_lock_path(target)}"
                )
            sleep(_LOCK_POLL_SECONDS)
    except OSError as error:
        reason = f"{_lock_path(target)} cannot be locked: {error.strerror or error}"
        raise OutputError(f"{path} cannot be written: {reason}") from None
    try:
        yield
    finally:
        _unlock(descriptor, target)


if sys.platform == "win32":

    def _lock_path(target: str) -> str:
        """A file beside the target: Windows locks no folders, and a locked file can neither be read nor replaced."""
        return f"{target}.lock"

    def _lock(target: str) -> int | None:
        """A descriptor that holds the lock; None while another process holds it. Raises OSError."""
        descriptor = os.open(_lock_path(target), os.O_RDWR | os.O_CREAT)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def _unlock(descriptor: int, target: str) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        os.close(descriptor)
        with suppress(OSError):  # another process has opened it and will remove it
            os.unlink(_lock_path(target))

else:

    def _lock_path(target: str) -> str:
        """The folder of the target: unlike the target it is not replaced, and unlike a lock file it exists already."""
        return os.path.dirname(target)

    def _lock(target: str) -> int | None:
        """A descriptor that holds the lock; None while another process holds it. Raises OSError."""
        descriptor = os.open(_lock_path(target), os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _unlock(descriptor: int, target: str) -> None:
        # Closing does not unlock if a forked process has the descriptor too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _refuse_unwritable(path: str) -> None:
    """Raises OutputError if nothing can be written to *path*."""
    try:
        folder = os.path.dirname(os.path.realpath(path))
        if os.path.isdir(path) or path.endswith(("/", os.sep)):
            raise OutputError(f"{path} is a folder, not a file")
        if not os.path.isdir(folder):
            raise OutputError(f"{path} cannot be written: there is no folder {os.path.dirname(path)}")
        written = [path] if _special(path) else [folder, path] if os.path.exists(path) else [folder]
        if not all(os.access(name, os.W_OK) for name in written):
            raise OutputError(f"{path} cannot be written: Permission denied")
    except ValueError as error:  # a NUL in the name
        raise OutputError(f"{path!r} cannot be written: {error}") from None


def _identity(path: str) -> str:
    """A text that is equal for all spellings of one file, even if the file does not exist yet."""
    try:
        real = os.path.realpath(path)
    except ValueError:  # a NUL in the name
        return path
    try:
        found = os.stat(real)
        return f"{found.st_dev}:{found.st_ino}"
    except OSError:
        pass
    try:
        folder = os.stat(os.path.dirname(real))
        return f"{folder.st_dev}:{folder.st_ino}:{os.path.normcase(os.path.basename(real))}"
    except OSError:
        return os.path.normcase(real)


def _special(path: str) -> bool:
    """Whether *path* is a device, a pipe or a socket."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def beside(path: str, target: str, text: str | bytes) -> str:
    """Writes *text* to a new file in the folder of *target*, with its permissions; returns the path of the new file.

    Raises OutputError, naming *path*.
    """
    folder, name = os.path.split(target)
    # Not the process id: containers reuse them, and a killed run may have left its temporary file here.
    temporary = os.path.join(folder, f".{name[:100]}.{os.urandom(4).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            try:
                replaces = False
                with suppress(FileNotFoundError):
                    os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
                    replaces = True
                file.write(_encoded(text))
                file.flush()
                if replaces:  # without this, a power failure may lose both the old and the new text
                    os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
    except OSError as error:
        raise _cannot(path, error) from None
    return temporary


def _encoded(text: str | bytes) -> bytes:
    """A *text* in UTF-8. Bytes of file names that were not UTF-8 become question marks."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")


def _cannot(path: str, error: OSError) -> OutputError:
    return OutputError(f"{path} cannot be written: {error.strerror or error}")
