"""Reading of inputs: files, folders, patterns, standard input, compressed text, and containers.

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

from tclint.config.config import Config
from tclint.config.selection import excluded, included
from tclint.syntax.source import CONTAINERS, GZIP, ZSTD, Source, SourceError, read_bytes

__all__ = ["STDIN", "Exclusions", "files", "inputs", "origin", "read", "read_sources", "shard"]

STDIN = "-"
SUFFIXES = (".ptx", ".ptx.gz", ".ptx.zst")
"""Names of the files that are read in a folder. Containers must be named: a cubin beside its PTX adds nothing."""

_ARCHITECTURE = re.compile(r"\bsm_\d+[af]?\b")


class Exclusions:
    """Decides which paths the configuration excludes, and records them."""

    def __init__(self, config: Config | None = None) -> None:
        self._config = config or Config()
        self.paths: set[str] = set()
        self.times = 0

    def wanted(self, path: str) -> bool:
        """Whether a file in a folder is PTX by its name or matches ``include``."""
        return path.lower().endswith(SUFFIXES) or (
            bool(self._config.include) and included(self._config, path)
        )

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
    paths: Iterable[str], stdin_name: str, exclusions: Exclusions | None = None
) -> Iterator[tuple[str, Source | SourceError]]:
    """(name, source or error) for each module in the files that :func:`files` finds."""
    return read(files(paths, stdin_name, exclusions))


def files(
    paths: Iterable[str], stdin_name: str, exclusions: Exclusions | None = None
) -> list[tuple[str, str]]:
    """(path, name) of the files that the arguments name, each file once.

    An argument is a file, a folder (every file below it that has one of ``SUFFIXES`` or matches ``include``, sorted), a
    pattern of ``glob``, or ``-`` for standard input, which is shown as *stdin_name*.
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


def read(chosen: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Source | SourceError]]:
    """(name, source or error) for each module in files that :func:`files` returned, which are read one at a time."""
    for path, name in chosen:
        try:
            for source in read_sources(path, name):
                yield name, source
        except SourceError as error:
            yield name, error


def read_sources(path: str, name: str) -> Iterator[Source]:
    """The modules in the file at *path* (``-``: standard input), shown as *name*. Raises SourceError."""
    if path == STDIN:
        if sys.stdin is None:
            raise SourceError("cannot be read: it is closed")
        try:
            data = sys.stdin.buffer.read()
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror}") from None
    elif os.path.isdir(path):
        raise SourceError(_nothing_in(path))
    elif has_magic(path) and not os.path.lexists(path):
        raise SourceError("no file matches this pattern")
    else:
        data = read_bytes(path)
    raw, data = data, _unpacked(data)
    kind = next((kind for magic, kind in CONTAINERS if data.startswith(magic)), None)
    if kind is None:
        yield Source.from_bytes(data, name)
    else:
        # cuobjdump reads files, so standard input and unpacked data are written to one.
        on_disk = path != STDIN and data is raw
        yield from _members(data, path if on_disk else None, name, kind)


def origin(path: str) -> str | None:
    """A summary of the metadata that Triton (and Inductor, which uses Triton's cache) writes beside a module.

    ``matmul_kernel, Triton 3.9.0, 8 warps, 3 stages``; None if there is no such file.
    """
    try:
        beside = Path(path).with_suffix(".json").read_bytes()
    except (OSError, ValueError):
        return None
    import json

    try:
        found = json.loads(beside)
    except ValueError:
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
        matches = [match for match in sorted(glob(argument, recursive=True)) if not exclusions.matched(match)]
    files: list[str] = []
    for match in matches:
        files += _walk(match, exclusions) if os.path.isdir(match) else [match]
    if files or exclusions.times > times:
        return files
    # A folder that a pattern matches among others need not contain PTX; one that was named must.
    return matches if len(matches) == 1 else [argument]


def _walk(folder: str, exclusions: Exclusions) -> Iterator[str]:
    """The files below a folder, and folders that cannot be read, so that reading them reports the error."""
    unreadable: list[str] = []
    for parent, folders, names in os.walk(folder, onerror=lambda error: unreadable.append(error.filename)):
        below = (name for name in sorted(folders) if name != ".git")
        folders[:] = [name for name in below if not exclusions.found(os.path.join(parent, name))]
        paths = (os.path.join(parent, name) for name in sorted(names))
        # isfile() excludes FIFOs, which would block.
        yield from (
            path
            for path in paths
            if exclusions.wanted(path) and os.path.isfile(path) and not exclusions.found(path)
        )
    yield from unreadable


def _nothing_in(folder: str) -> str:
    """The error for a folder without files to check, with a hint at a container in it."""
    try:
        os.listdir(folder)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith((".cubin", ".fatbin", ".so")):
                path = os.path.relpath(os.path.join(parent, name), folder)
                return f"there is no .ptx file in this folder; containers such as {path} must be named explicitly"
    return "there is no .ptx file in this folder"


def _unpacked(data: bytes) -> bytes:
    """*data*, decompressed if it is a format that Python's standard library can read. Raises SourceError."""
    if data.startswith(GZIP):
        import gzip
        import zlib

        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(f"is a damaged gzip file: {error}") from None
    if data.startswith(ZSTD):
        try:
            from compression import zstd  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise SourceError(
                "is a zstd file, which needs Python 3.14 or later; unpack it first (zstd -d)"
            ) from None
        try:
            unpacked: bytes = zstd.decompress(data)
        except (zstd.ZstdError, EOFError) as error:
            raise SourceError(f"is a damaged zstd file: {error}") from None
        return unpacked
    return data


# ---------------------------------------------------------------- containers


def _members(data: bytes, path: str | None, name: str, kind: str) -> Iterator[Source]:
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
        inside = os.path.join(folder, "ptx")
        os.mkdir(inside)
        container = os.path.abspath(path or os.path.join(folder, "stdin"))
        if path is None:
            Path(container).write_bytes(data)
        failure: SourceError | None = None
        try:
            _run(tool, "-all", "-xptx", "all", container, folder=inside)
        except SourceError as error:  # a part of the container may be damaged
            failure = SourceError(f"is {kind}, but {error}")
        found = sorted(os.listdir(inside), key=_natural)
        if not found and failure is None:
            listed = _run(tool, "-all", "-lelf", container, folder=inside)
            chips = sorted(set(_ARCHITECTURE.findall(listed)))
            what = (
                f"only SASS for {', '.join(chips)}" if chips else "no device code that cuobjdump recognises"
            )
            raise SourceError(f"contains no PTX: {kind} with {what}")
        for member in found:
            try:
                source = Source.from_bytes(Path(inside, member).read_bytes(), name)
            except SourceError as error:
                failure = failure or SourceError(f"{member}: {error}", error.line)
                continue
            source.container, source.member = name, member
            yield source
        if failure:
            raise failure


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts ``a.2.ptx`` before ``a.10.ptx``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _run(tool: str, *arguments: str, folder: str) -> str:
    """The output of cuobjdump. Raises SourceError if it fails.

    Its exit code is not 0 either if it finds nothing, which is not a failure; only its messages distinguish the two.
    """
    import subprocess

    try:
        done = subprocess.run(
            [tool, *arguments], cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise SourceError(f"{tool} cannot be run: {error.strerror or error}") from None
    if done.returncode < 0:
        raise SourceError(f"{tool} was killed by signal {-done.returncode}")
    if done.returncode and ("cuobjdump info" not in done.stderr or "cuobjdump fatal" in done.stderr):
        output = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise SourceError(f"{tool} failed: {output}")
    return done.stdout
