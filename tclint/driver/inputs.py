"""Reading of inputs: files, folders, patterns, standard input, compressed text, and containers.

No input is read, unpacked or extracted beyond a limit (``max-input``), since a small file may unpack to any size. Files that
are not regular, such as a FIFO, are read only if they are named.

A fatbin, an object, a library or an executable is a *container*: NVIDIA's ``cuobjdump`` extracts its PTX modules. Each
one becomes a :class:`~tclint.syntax.source.Source` with the name of its container and its own (``member``). A container
without PTX is an error, since otherwise it would look clean.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from tclint._pattern import pattern
from tclint._read import MAX_BYTES, bounded, read_file, size_words
from tclint.config.config import Config
from tclint.config.selection import excluded, included
from tclint.driver.folders import SUFFIXES, contents, walk
from tclint.inline.hosts import CPP, HEADERS, is_host, may_have_ptx
from tclint.syntax.source import (
    CONTAINERS,
    GZIP,
    ZSTD,
    Source,
    SourceError,
    read_bytes,
    unreadable,
)

if TYPE_CHECKING:
    from subprocess import Popen

__all__ = [
    "STDIN",
    "Exclusions",
    "files",
    "inputs",
    "nothing_in",
    "origin",
    "read",
    "read_sources",
    "shard",
]

STDIN = "-"
_INSIDE = "ptx"
"""The folder into which cuobjdump extracts modules, below a temporary one."""
_BLOCK = 4096
_SHELL = "/bin/sh"
_BOUND = 'ulimit -v "$0" 2>/dev/null; exec "$@"'
"""Runs a program with a limit on its memory in KiB, where the system has one: cuobjdump unpacks a module in memory."""
_TOOL_BYTES = 128 * 2**20
"""What cuobjdump needs besides the container and a module."""
_POLL_SECONDS = 0.1

_ARCHITECTURE = pattern(r"\bsm_\d+[af]?\b")


class Exclusions:
    """Decides which paths the configuration excludes, and records them and the folders that have nothing to check."""

    def __init__(self, config: Config | None = None, compiles: bool = False) -> None:
        """*compiles* says whether CUDA C++ is compiled. Without *config*, folders are searched for PTX only."""
        self._config = config or Config(include=())
        self._compiles = compiles
        self.paths: set[str] = set()
        self.times = 0
        self.empty: list[str] = []
        self.ignored: list[str] = []
        """Files of PTX that git ignores, in folders that it does not."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to say of the folders that have nothing to check, and of PTX that is left out beside other files."""
        notes = [f"warning: {folder}: {nothing_in(folder)}" for folder in self.empty]
        if self.ignored and not self.empty:
            others = f" and {len(self.ignored) - 1} more" if len(self.ignored) > 1 else ""
            notes.append(
                f"note: {self.ignored[0]}{others}: ignored by git and not checked; name what to check"
            )
        return tuple(notes)

    def wanted(self, path: str) -> bool:
        """Whether a file in a folder is PTX by its name, or matches ``include`` and may have PTX in it: in a language of
        strings, a word that these come with; with ``--compile``, no header."""
        name = path.lower()
        if name.endswith(SUFFIXES) or not (self._config.include and included(self._config, path)):
            return name.endswith(SUFFIXES)
        if self._compiles and name.endswith(CPP):
            return not name.endswith(HEADERS)
        try:
            return not is_host(path) or may_have_ptx(path, read_file(path, self._config.max_bytes))
        except (OSError, ValueError):
            return True  # reading it reports the error

    def found(self, path: str) -> bool:
        """Whether to leave out a file or folder, found in a folder that is not left out."""
        if out := bool(self._config.exclude) and excluded(self._config, path):
            self.paths.add(os.path.abspath(path))
            self.times += 1
        return out

    def matched(self, path: str) -> bool:
        """Whether to leave out a path that a pattern matched: one of its folders may be excluded."""
        return bool(self._config.exclude) and any(map(self.found, _lineage(path)))

    def named(self, path: str) -> bool:
        """Whether to leave out an argument. The user, or pre-commit, asked for it, so only ``force-exclude`` does."""
        return self._config.force_exclude and self.matched(path)


def _lineage(path: str) -> Iterator[str]:
    """A path and its parent folders, except those that contain the current folder: their names are irrelevant here."""
    here = os.path.join(os.getcwd(), "")
    path = os.path.abspath(path)
    while not here.startswith(os.path.join(path, "")):
        yield path
        path, below = os.path.dirname(path), path
        if path == below:  # another drive
            return


def inputs(
    paths: Iterable[str],
    stdin_name: str,
    exclusions: Exclusions | None = None,
    limit: int = MAX_BYTES,
) -> Iterator[tuple[str, Source | SourceError]]:
    """(name, source or error) for each module in the files that :func:`files` finds, and for each folder without any."""
    exclusions = exclusions or Exclusions()
    yield from read(files(paths, stdin_name, exclusions), limit)
    yield from ((folder, SourceError(nothing_in(folder))) for folder in exclusions.empty)


def files(
    paths: Iterable[str], stdin_name: str, exclusions: Exclusions | None = None
) -> list[tuple[str, str]]:
    """(path, name) of the files that the arguments name, each file once.

    An argument is a file, a folder (every file that :func:`walk` finds below it and that has one of ``SUFFIXES`` or matches
    ``include``, sorted), a pattern of ``glob``, or ``-`` for standard input, which is shown as *stdin_name*.
    """
    exclusions = exclusions or Exclusions()
    found: dict[str, tuple[str, str]] = {}
    for argument in paths:
        if exclusions.named(stdin_name if argument == STDIN else argument):
            continue
        for path in _expand(argument, exclusions):
            key = path if path == STDIN else os.path.abspath(path)
            found.setdefault(key, (path, stdin_name if path == STDIN else path))
    return list(found.values())


def shard(chosen: list[tuple[str, str]], number: int, shards: int) -> list[tuple[str, str]]:
    """The files among *chosen* that the shard *number*, from 1, of so many *shards* lints, in their order.

    The shards have about equal sizes, and each file is in one of them, as long as all are given the same files.
    """

    def size(index: int) -> int:
        path = chosen[index][0]
        return os.path.getsize(path) if os.path.isfile(path) else 0

    largest_first = sorted(range(len(chosen)), key=lambda index: (-size(index), index))
    return [chosen[index] for index in sorted(largest_first[number - 1 :: shards])]


def read(
    chosen: Iterable[tuple[str, str]], limit: int = MAX_BYTES
) -> Iterator[tuple[str, Source | SourceError]]:
    """(name, source or error) for each module in files that :func:`files` returned, which are read one at a time."""
    for path, name in chosen:
        try:
            for source in read_sources(path, name, limit):
                yield name, source
        except SourceError as error:
            yield name, error


def read_sources(path: str, name: str, limit: int = MAX_BYTES) -> Iterator[Source]:
    """The modules in the file at *path* (``-``: standard input), shown as *name*. Raises SourceError.

    *limit* are the bytes that the file may have, together with what it unpacks to. Of a container it limits the PTX.
    """
    if path == STDIN:
        if sys.stdin is None:
            raise SourceError("cannot be read: it is closed")
        try:
            data = bounded(sys.stdin.buffer, limit)
        except OSError as error:
            raise unreadable(error) from None
    elif os.path.isdir(path):
        raise SourceError(_unlisted(path) or "is a folder, where a file is needed")
    elif has_magic(path) and not os.path.lexists(path):
        raise SourceError("no file matches this pattern")
    elif kind := _container(_head(path)):
        yield from _members(path, name, kind, limit)
        return
    else:
        data = read_bytes(path, limit)
    data = _unpacked(data, limit)
    if kind := _container(data):
        # cuobjdump reads files, so standard input and unpacked data are written to one.
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="tclint-") as folder:
            container = os.path.join(folder, "stdin")
            Path(container).write_bytes(data)
            yield from _members(container, name, kind, limit)
    else:
        yield Source.from_bytes(data, name)


def _container(data: bytes) -> str | None:
    """What kind of container begins with *data*; None if it is not a container."""
    return next((kind for magic, kind in CONTAINERS if data.startswith(magic)), None)


def _head(path: str) -> bytes:
    """The first bytes of a regular file; b"" of any other, or if it cannot be read, which reading it reports."""
    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(8)
    except (OSError, ValueError):
        pass
    return b""


def origin(path: str) -> str | None:
    """A summary of the metadata that Triton (and Inductor, which uses Triton's cache) writes beside a module.

    ``matmul_kernel, Triton 3.9.0, 8 warps, 3 stages``; None if there is no such file.
    """
    try:
        beside = read_file(Path(path).with_suffix(".json"))
    except (OSError, ValueError):
        return None
    import json

    try:
        found = json.loads(beside)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str) or "num_warps" not in found:
        return None
    parts = [found["name"], " ".join(("Triton", str(found.get("triton_version", "")))).rstrip()]
    for key, noun in (("num_warps", "warp"), ("num_ctas", "CTA"), ("num_stages", "stage")):
        number = found.get(key)
        if isinstance(number, int) and (key != "num_ctas" or number > 1):
            parts.append(f"{number} {noun}{'' if number == 1 else 's'}")
    return ", ".join(parts)


# ---------------------------------------------------------------- files and folders


def _expand(argument: str, exclusions: Exclusions) -> Iterable[str]:
    """The files that an argument denotes, sorted; or the argument itself, if reading it reports the error."""
    if argument == STDIN or not (has_magic(argument) or os.path.isdir(argument)):
        return [argument]
    times = exclusions.times
    if os.path.lexists(argument):
        matches = [argument]
    else:
        found = filter(_readable, sorted(glob(argument, recursive=True)))
        matches = [match for match in found if not exclusions.matched(match)]
    files: list[str] = []
    for match in matches:
        files += _walk(match, exclusions) if os.path.isdir(match) else [match]
    if files or exclusions.times > times:
        return files
    if not os.path.isdir(argument):  # a pattern
        return [argument]
    exclusions.empty.append(argument)
    return []


def _readable(path: str) -> bool:
    """Whether to read a path that a pattern matches: not if it is a FIFO, a socket or a device."""
    return os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)


def _walk(folder: str, exclusions: Exclusions) -> Iterator[str]:
    """The files below a folder, and folders that cannot be read, so that reading them reports the error."""
    unreadable: list[str] = []
    for parent, names, out in walk(folder, exclusions.found, lambda error: unreadable.append(error.filename)):
        exclusions.ignored += [os.path.join(parent, name) for name in out if name.lower().endswith(SUFFIXES)]
        paths = (os.path.join(parent, name) for name in names)
        # isfile() excludes FIFOs, which would block.
        yield from (
            path
            for path in paths
            if os.path.isfile(path) and exclusions.wanted(path) and not exclusions.found(path)
        )
    yield from unreadable


def _unlisted(folder: str) -> str:
    """Why a folder cannot be listed; empty if it can."""
    try:
        os.listdir(folder)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def nothing_in(folder: str) -> str:
    """What to say of a folder without files to check: what it holds instead, and the commands for that."""
    return "; ".join(("nothing to check in this folder", *contents(folder)))


def _unpacked(data: bytes, limit: int) -> bytes:
    """*data*, decompressed if it is a format that Python's standard library can read.

    Raises SourceError, also if that and *data* would have more than *limit* bytes; it stops there.
    """
    if not data.startswith((GZIP, ZSTD)):
        return data
    from io import BytesIO

    try:
        if data.startswith(GZIP):
            import gzip
            import zlib

            try:
                return bounded(gzip.GzipFile(fileobj=BytesIO(data)), limit, len(data))
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise SourceError(f"is a damaged gzip file: {error}") from None
        try:
            from compression import zstd  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise SourceError(
                "is a zstd file, which needs Python 3.14 or later; unpack it first (zstd -d)"
            ) from None
        try:
            return bounded(zstd.ZstdFile(BytesIO(data)), limit, len(data))
        except (zstd.ZstdError, EOFError) as error:
            raise SourceError(f"is a damaged zstd file: {error}") from None
    except OSError as error:
        raise unreadable(error) from None


# ---------------------------------------------------------------- containers


def _members(path: str, name: str, kind: str, limit: int) -> Iterator[Source]:
    """The PTX modules of a container, in the natural order of their names. Raises SourceError."""
    from tempfile import TemporaryDirectory

    from tclint.driver.cuda_tools import candidates

    tool = next(candidates("cuobjdump"), None)
    if tool is None:
        raise SourceError(
            f"is {kind}; extracting its PTX needs NVIDIA's cuobjdump, which was not found: put it on PATH, set "
            "TCLINT_CUOBJDUMP to its path, or install nvidia-cuda-cuobjdump"
        )
    with TemporaryDirectory(prefix="tclint-") as folder:
        container = os.path.abspath(path)
        failure: SourceError | None = None
        try:
            _run(tool, "-all", "-xptx", "all", container, folder=folder, limit=limit)
        except _TooMuch:
            raise
        except SourceError as error:  # a part of the container may be damaged
            failure = SourceError(f"is {kind}, but {error}")
        inside = os.path.join(folder, _INSIDE)
        found = sorted(os.listdir(inside), key=_natural)
        if not found and failure is None:
            listed = _run(tool, "-all", "-lelf", container, folder=folder, limit=limit)
            chips = sorted(set(_ARCHITECTURE.findall(listed)))
            what = (
                f"only SASS for {', '.join(chips)}" if chips else "no device code that cuobjdump recognises"
            )
            raise SourceError(f"contains no PTX: {kind} with {what}")
        for member in found:
            try:
                source = Source.from_bytes(read_bytes(os.path.join(inside, member), limit), name, member)
            except SourceError as error:
                failure = failure or SourceError(f"{member}: {error}", error.line)
                continue
            yield source
        if failure:
            raise failure


class _TooMuch(SourceError):
    """A container has more PTX than the limit."""


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts ``a.2.ptx`` before ``a.10.ptx``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _run(tool: str, *arguments: str, folder: str, limit: int) -> str:
    """The output of cuobjdump, run in the folder ``_INSIDE`` of *folder*. Raises SourceError if it fails.

    Its exit code is not 0 either if it finds nothing, which is not a failure; only its messages distinguish the two. It
    is ended once its files and its output exceed *limit*, which raises _TooMuch.
    """
    import subprocess

    inside, *outputs = (os.path.join(folder, part) for part in (_INSIDE, "stdout", "stderr"))
    os.makedirs(inside, exist_ok=True)
    try:
        os.stat(tool)
        memory = limit + 2 * os.path.getsize(arguments[-1]) + _TOOL_BYTES
        bound = (_SHELL, "-c", _BOUND, str(memory // 1024)) if os.path.exists(_SHELL) else ()
        with open(outputs[0], "wb") as out, open(outputs[1], "wb") as err:
            process = subprocess.Popen(
                [*bound, tool, *arguments], cwd=inside, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
            try:
                while _left(process):
                    _refuse_too_much(folder, limit)
            finally:
                process.kill()
                process.wait()
        _refuse_too_much(folder, limit)
        said, complaint = (read_file(path, limit).decode(errors="replace") for path in outputs)
    except OSError as error:
        raise SourceError(f"{tool} cannot be run: {error.strerror or error}") from None
    if process.returncode < 0:
        raise SourceError(f"{tool} was killed by signal {-process.returncode}")
    if process.returncode and "Memory allocation failure" in complaint:
        raise _TooMuch("is too large: a module in it exceeds the limit of max-input")
    if process.returncode and ("cuobjdump info" not in complaint or "cuobjdump fatal" in complaint):
        output = " ".join(complaint.split()) or f"exit code {process.returncode}"
        raise SourceError(f"{tool} failed: {output}")
    return said


def _left(process: Popen[bytes]) -> bool:
    """Whether a process is still running after a while."""
    from subprocess import TimeoutExpired

    try:
        process.wait(_POLL_SECONDS)
    except TimeoutExpired:
        return True
    return False


def _refuse_too_much(folder: str, limit: int) -> None:
    """Raises _TooMuch if the files below *folder* exceed *limit*, where each counts as at least a block of a disk."""
    paths = (os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)
    if sum(max(os.path.getsize(path), _BLOCK) for path in paths) > limit + 2 * _BLOCK:
        raise _TooMuch(f"is too large: its PTX has more than {size_words(limit)}, the limit of max-input")
