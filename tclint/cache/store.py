"""The folder of the cache: entries that any number of processes read and write at the same time.

An entry is a file that is named by its key and replaces an earlier one atomically. It begins with a checksum of the key and
the content, so half an entry, a damaged one, one of another version, or a file that is none, reads as if it were not there.
Nothing that is read can name code. Write access to the folder nevertheless decides what is reported, so it is
created for its owner alone.

The entries are in 256 folders by the first digits of their keys. A process that writes one removes those of its folder
that were not used for longest until the folder is within a 256th of the limit: no state is shared, no lock is taken, and the limit
holds at any time. A use sets the time of a file.

``diskcache`` does the same and more with SQLite. Importing it and opening a cache takes 16 ms, a seventh of the time of
checking a small file, where this module and a look-up take two. Its default form unpickles what it reads, which runs code
that another user may have put there, and a process that writes locks the others out. ``platformdirs``, for the one line that
names the folder, takes ten.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint._read import read_file
from tclint.cache.hashing import BYTES, digest_bytes

__all__ = ["DEFAULT_LIMIT", "Content", "Lookups", "Store", "default_folder"]

DEFAULT_LIMIT = 512 * 2**20
"""Bytes on disk that the entries may take."""
_FOLDERS = 256
_BLOCK = 4096
"""What the smallest file takes on disk."""
_HEAD = b"tclint cache 1\n"
_MAX_PLAIN = 256 * 2**20
"""The largest content, so that a small file cannot become a large object."""
_LOOKUPS = "lookups"
_MAX_LOOKUPS = 2**16
"""The size in bytes at which the list of lookups is summed up."""
_TAG = "CACHEDIR.TAG"
_TAGGED = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is a cache of tclint, which programs that make backups may leave out.\n"
)
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
"""Neither waits for the reader of a FIFO nor writes where a link in a hostile folder points."""
_HEX = frozenset("0123456789abcdef")
_ABANDONED_SECONDS = 3600
"""The age at which the file of a writer that was killed is removed."""


def default_folder() -> str:
    """The cache folder of the user for tclint, by the conventions of the platform; "" if there is no home folder."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):
            base = os.path.join(home, ".cache")
    return os.path.join(base, "tclint", "results") if os.path.isabs(base) else ""


class Content(NamedTuple):
    """What is in the folder."""

    entries: int
    size: int
    """Bytes on disk."""


class Lookups(NamedTuple):
    """How often something was looked up, over all processes since the cache was last cleared."""

    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class Store:
    """The entries below a folder. None of its methods raises an exception for what the file system or the entries do."""

    folder: str
    limit: int = DEFAULT_LIMIT

    def get(self, key: str) -> bytes | None:
        """The content of an entry; None if there is no valid one."""
        path = self._path(key)
        try:
            found = read_file(path, _MAX_PLAIN)
        except (OSError, ValueError):
            return None
        start = len(_HEAD) + BYTES
        packed = found[start:]
        if found[: len(_HEAD)] != _HEAD or found[len(_HEAD) : start] != digest_bytes(key, packed):
            return None
        unpacker = zlib.decompressobj()
        try:
            content = unpacker.decompress(packed, _MAX_PLAIN)
        except zlib.error:
            return None
        if not unpacker.eof:
            return None
        with suppress(OSError):  # the folder may be read-only, or the entry just evicted
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> str:
        """Writes an entry. Returns why it was not written; "" if it was."""
        packed = zlib.compress(content, 1)
        entry = b"".join((_HEAD, digest_bytes(key, packed), packed))
        if len(content) > _MAX_PLAIN or _on_disk(len(entry)) > self.limit // _FOLDERS:
            return f"{len(entry):,} bytes are too many for one entry"
        path = self._path(key)
        folder = os.path.dirname(path)
        try:
            if os.path.islink(folder):  # else what is evicted would be files of another folder
                return f"{folder}: it is a link"
            try:
                _replace(path, entry)
            except FileNotFoundError:
                self._create()
                os.makedirs(folder, exist_ok=True)
                _replace(path, entry)
            _trim(folder, self.limit // _FOLDERS)
        except (OSError, ValueError) as error:
            return f"{self.folder}: {getattr(error, 'strerror', None) or error}"
        return ""

    def content(self) -> Content:
        """The number and the size of the entries."""
        sizes = [_on_disk(at.st_size) for folder in self._folders() for _, at in _files(folder)]
        return Content(len(sizes), sum(sizes))

    def add(self, folder: str) -> tuple[int, str]:
        """Adds the valid entries of another cache. Returns how many these are, and why others were not added, or ""."""
        other = Store(os.path.abspath(folder))
        added, problem = 0, ""
        for inside in other._folders():
            for path, _ in _files(inside):
                key = os.path.basename(inside) + os.path.basename(path)
                if (content := other.get(key)) is not None:
                    why = self.put(key, content)
                    added, problem = added + (not why), problem or why
        return added, problem

    def clear(self) -> str:
        """Removes everything that :meth:`put` and :meth:`count` wrote, and nothing else in the folder.

        Returns why something is left; "" if nothing is.
        """
        left = ""
        paths = [path for folder in self._folders() for path, _ in _files(folder)]
        for path in (*paths, os.path.join(self.folder, _LOOKUPS)):
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                left = f"{path}: {error.strerror}"
        for folder in self._folders():
            with suppress(OSError):  # a foreign file is in it
                os.rmdir(folder)
        return left

    def count(self, hits: int, misses: int) -> None:
        """Adds to :attr:`lookups`. Of counts that two processes add while the list is summed up, one may be lost."""
        if (not hits and not misses) or not os.path.isdir(self.folder):
            return
        path = os.path.join(self.folder, _LOOKUPS)
        with suppress(OSError):
            descriptor = os.open(path, _APPEND, 0o600)
            try:
                os.write(descriptor, b"%d %d\n" % (hits, misses))
                size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            if size > _MAX_LOOKUPS:
                _replace(path, b"%d %d\n" % self.lookups())

    def lookups(self) -> Lookups:
        """How often something was looked up."""
        hits = misses = 0
        with suppress(OSError):
            for line in read_file(os.path.join(self.folder, _LOOKUPS), 2 * _MAX_LOOKUPS).splitlines():
                numbers = line.split()
                if len(numbers) == 2 and all(number.isdigit() and len(number) < 16 for number in numbers):
                    hits, misses = hits + int(numbers[0]), misses + int(numbers[1])
        return Lookups(hits, misses)

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key[:2], key[2:])

    def _create(self) -> None:
        """Makes the folder, for its user alone, with a tag that has programs for backups skip it."""
        os.makedirs(self.folder, 0o700, exist_ok=True)
        tag = os.path.join(self.folder, _TAG)
        if not os.path.lexists(tag):
            _replace(tag, _TAGGED.encode())

    def _folders(self) -> list[str]:
        """The folders with entries."""
        try:
            with os.scandir(self.folder) as entries:
                return [
                    entry.path
                    for entry in entries
                    if len(entry.name) == 2
                    and _HEX.issuperset(entry.name)
                    and entry.is_dir(follow_symlinks=False)
                ]
        except OSError:
            return []


def _replace(path: str, data: bytes) -> None:
    """Writes a file, which readers see whole or not at all. Raises OSError."""
    temporary = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """The entries in one of the folders, and what writers have left there, with their sizes and times."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.removeprefix(".")
            if _HEX.issuperset(name):
                with suppress(OSError):  # another process may have removed it
                    if entry.is_file(follow_symlinks=False):
                        yield entry.path, entry.stat(follow_symlinks=False)


def _trim(folder: str, limit: int) -> None:
    """Removes the entries of a folder that were not used for longest until the others fit into *limit* bytes."""
    entries = []
    for path, at in _files(folder):
        if not os.path.basename(path).startswith("."):
            entries.append((at.st_mtime_ns, path, _on_disk(at.st_size)))
        elif at.st_mtime < time.time() - _ABANDONED_SECONDS:
            _remove(path)
    total = sum(size for _, _, size in entries)
    if total <= limit:
        return
    for _, path, size in sorted(entries):
        _remove(path)
        total -= size
        if total <= limit:
            return


def _remove(path: str) -> None:
    with suppress(OSError):  # another process may have removed it
        os.unlink(path)


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
