"""Reports in files, for ``--output FORMAT=FILE``: every one of them is written, or none is."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from tclint.report.formats import formats

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_PATIENCE = 60.0
"""Seconds to wait for a lock, which is held while one file is read and written."""
_PAUSE = 0.01


class OutputError(Exception):
    """A file that cannot be written, or a request that makes no sense; the message is meant for the user."""


def parse(requests: Iterable[str]) -> dict[str, str]:
    """The format for each file of some ``FORMAT=FILE``. Raises OutputError.

    What can be known before the analysis is checked here: an unknown format, a folder that is not there, two reports
    for one file however it is spelled.
    """
    files: dict[str, str] = {}
    seen: dict[str, str] = {}
    for request in requests:
        name, equals, path = request.partition("=")
        if not equals or not path:
            raise OutputError(f"{request!r} is not FORMAT=FILE, such as sarif=tclint.sarif")
        if name.lower() not in formats():
            raise OutputError(f"{name!r} is no format{_suggestion(name)}")
        if path in ("-", "/dev/stdout"):
            raise OutputError(f"{request!r}: for standard output there is --output-format {name.lower()}")
        refuse_unwritable(path)
        identity = _identity(path)
        if (other := seen.setdefault(identity, path)) != path or path in files:
            raise OutputError(f"two reports for one file: {other} and {path}")
        files[path] = name.lower()
    return files


def refuse_inputs(files: Iterable[str], inputs: Sequence[str]) -> None:
    """Raises OutputError where a report would replace one of the inputs."""
    outputs = {_identity(path): path for path in files}
    for path in inputs:
        if (output := outputs.get(_identity(path))) is not None and os.path.isfile(path):
            raise OutputError(f"{output} is an input and would be overwritten")


def write(texts: Mapping[str, str]) -> None:
    """Writes each text to its file. Raises OutputError; where there is no room for one of them, none is changed.

    A text goes to a file beside the target first, which then takes the target's place in one step: nobody ever sees half
    a report. What is no regular file (/dev/null, a pipe) is written to last.
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
                os.unlink(temporary)  # gone already where it took its place
    for path, text in texts.items():
        if _special(path):
            try:
                with open(path, "wb") as file:
                    file.write(_encoded(text))
            except OSError as error:
                raise _cannot(path, error) from None


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Exclude other runs on this machine from here, for a file that is read, changed and replaced.

    The lock ends with the process that holds it. Raises OutputError where there can be no lock, and where another
    process holds it for a minute.
    """
    target = os.path.realpath(path)
    deadline = monotonic() + _PATIENCE
    try:
        while (descriptor := _lock(target)) is None:
            if monotonic() > deadline:
                raise OutputError(
                    f"{path} cannot be written: another process has locked {_lock_path(target)}"
                )
            sleep(_PAUSE)
    except OSError as error:
        reason = f"{_lock_path(target)} cannot be locked: {error.strerror or error}"
        raise OutputError(f"{path} cannot be written: {reason}") from None
    try:
        yield
    finally:
        _unlock(descriptor, target)


if sys.platform == "win32":

    def _lock_path(target: str) -> str:
        """A file beside the target: folders cannot be locked, and what is locked cannot be read or replaced."""
        return f"{target}.lock"

    def _lock(target: str) -> int | None:
        """A descriptor that holds the lock, or None while another one does. Raises OSError."""
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
        with suppress(OSError):  # another process has opened it, and will remove it
            os.unlink(_lock_path(target))

else:

    def _lock_path(target: str) -> str:
        """The folder of the target: unlike the target it stays the same file, and unlike a lock file it is there."""
        return os.path.dirname(target)

    def _lock(target: str) -> int | None:
        """A descriptor that holds the lock, or None while another one does. Raises OSError."""
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
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough if a process was forked meanwhile
        os.close(descriptor)


def refuse_unwritable(path: str) -> None:
    """Raises OutputError where a report cannot be put."""
    try:
        folder = os.path.dirname(os.path.realpath(path))
        if os.path.isdir(path) or path.endswith(("/", os.sep)):
            raise OutputError(f"{path} is a folder, not a file")
        if not os.path.isdir(folder):
            raise OutputError(f"{path} cannot be written: there is no folder {os.path.dirname(path)}")
        places = [path] if _special(path) else [folder, path] if os.path.exists(path) else [folder]
        if not all(os.access(place, os.W_OK) for place in places):
            raise OutputError(f"{path} cannot be written: Permission denied")
    except ValueError as error:  # a NUL in the name
        raise OutputError(f"{path!r} cannot be written: {error}") from None


def _identity(path: str) -> str:
    """The same text for two spellings of one file, also where it does not exist yet."""
    real = os.path.realpath(path)
    try:
        found = os.stat(real)
        return f"{found.st_dev}:{found.st_ino}"
    except (OSError, ValueError):
        pass
    try:
        folder = os.stat(os.path.dirname(real))
        return f"{folder.st_dev}:{folder.st_ino}:{os.path.normcase(os.path.basename(real))}"
    except OSError:
        return os.path.normcase(real)


def _special(path: str) -> bool:
    """A device, a pipe or a socket."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def beside(path: str, target: str, text: str | bytes) -> str:
    """A new file in the folder of the target, with its permissions, that holds the text. Raises OutputError."""
    folder, name = os.path.split(target)
    # Not by the process id: in a container it is often that of a killed run which has left its file here.
    temporary = os.path.join(folder, f".{name[:100]}.{os.urandom(4).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            try:
                replaces = False
                with suppress(FileNotFoundError):
                    os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
                    replaces = True
                file.write(text if isinstance(text, bytes) else _encoded(text))
                file.flush()
                if replaces:  # or after a power failure neither text may be on the disk
                    os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
    except OSError as error:
        raise _cannot(path, error) from None
    return temporary


def _encoded(text: str) -> bytes:
    """UTF-8; bytes of file names that were none become question marks."""
    return text.encode("utf-8", "replace")


def _cannot(path: str, error: OSError) -> OutputError:
    return OutputError(f"{path} cannot be written: {error.strerror or error}")


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), formats(), n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(formats())}"
