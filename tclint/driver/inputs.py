"""Where PTX lives: files, folders, patterns, standard input, compressed text, and what ``cuobjdump`` opens.

A fatbin, an object, a library or an executable is a *container*: NVIDIA's ``cuobjdump`` takes the PTX modules out of
it, each one a :class:`~tclint.syntax.source.Source` with the name of its container and of its own (``member``). A container
without PTX is an error, so that it never looks clean.
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

__all__ = ["STDIN", "LeftOut", "inputs", "origin", "read_sources"]

STDIN = "-"
SUFFIXES = (".ptx", ".ptx.gz", ".ptx.zst")
"""What a folder is searched for. Containers are opened when they are named: a cubin beside its PTX has nothing new."""

_ARCHITECTURE = re.compile(r"\bsm_\d+[af]?\b")


class LeftOut:
    """What the configuration excludes, and which paths it has been."""

    def __init__(self, config: Config | None = None) -> None:
        self._config = config or Config()
        self.paths: set[str] = set()
        self.times = 0

    def wanted(self, path: str) -> bool:
        """Whether a file of a folder is PTX by its name, or one that ``include`` asks for."""
        return path.lower().endswith(SUFFIXES) or (
            bool(self._config.include) and included(self._config, path)
        )

    def found(self, path: str) -> bool:
        """Whether a file or folder is to be left out that was found in one that is not."""
        if out := bool(self._config.exclude) and excluded(self._config, path):
            self.paths.add(os.path.abspath(path))
            self.times += 1
        return out

    def matched(self, path: str) -> bool:
        """The same for one that a pattern found: any of its folders may be excluded."""
        return bool(self._config.exclude) and any(map(self.found, _lineage(path)))

    def named(self, path: str) -> bool:
        """The same for an argument: what the user, or pre-commit, asks for is checked unless ``force-exclude``."""
        return self._config.force_exclude and self.matched(path)


def _lineage(path: str) -> Iterator[str]:
    """A path and its folders, but for those that the working folder is in: their names are nobody's choice here."""
    here = os.path.join(os.getcwd(), "")
    path = os.path.abspath(path)
    while not here.startswith(os.path.join(path, "")):
        yield path
        path, below = os.path.dirname(path), path
        if path == below:  # another drive
            return


def inputs(
    paths: Iterable[str], stdin_name: str, left_out: LeftOut | None = None
) -> Iterator[tuple[str, Source | SourceError]]:
    """What the arguments name, each file once and under its name: a source, or why there is none.

    A path is a file, a folder (every file with one of ``SUFFIXES`` below it, and every one that ``include`` asks for, in
    order), a pattern of ``glob``, or ``-`` for standard input, which is shown as *stdin_name*.
    """
    left_out = left_out or LeftOut()
    seen: set[str] = set()
    for argument in paths:
        if left_out.named(stdin_name if argument == STDIN else argument):
            continue
        for path in _expand(argument, left_out):
            key = path if path == STDIN else os.path.abspath(path)
            if key in seen:
                continue
            seen.add(key)
            name = stdin_name if path == STDIN else path
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
    packed, data = data, _unpacked(data)
    kind = next((kind for magic, kind in CONTAINERS if data.startswith(magic)), None)
    if kind is None:
        yield Source.from_bytes(data, name)
    else:
        # cuobjdump reads files: what is not one as it stands becomes one.
        on_disk = path != STDIN and data is packed
        yield from _members(data, path if on_disk else None, name, kind)


def origin(path: str) -> str | None:
    """What the metadata that Triton (and Inductor, which caches through Triton) writes beside a module says of it.

    ``matmul_kernel, Triton 3.9.0, 8 warps, 3 stages``; None where there is no such file.
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


def _expand(argument: str, left_out: LeftOut) -> Iterable[str]:
    """The files an argument stands for, sorted, or the argument itself where reading it will say what is wrong."""
    if argument == STDIN or not (has_magic(argument) or os.path.isdir(argument)):
        return [argument]
    times = left_out.times
    if os.path.lexists(argument):
        matches = [argument]
    else:
        matches = [match for match in sorted(glob(argument, recursive=True)) if not left_out.matched(match)]
    files: list[str] = []
    for match in matches:
        files += _walk(match, left_out) if os.path.isdir(match) else [match]
    if files or left_out.times > times:
        return files
    # A folder that a pattern matches along with files need not hold PTX; one that was named must.
    return matches if len(matches) == 1 else [argument]


def _walk(folder: str, left_out: LeftOut) -> Iterator[str]:
    """The files below a folder; also folders that cannot be read, so that reading them says why."""
    unreadable: list[str] = []
    for parent, folders, names in os.walk(folder, onerror=lambda error: unreadable.append(error.filename)):
        below = (name for name in sorted(folders) if name != ".git")
        folders[:] = [name for name in below if not left_out.found(os.path.join(parent, name))]
        paths = (os.path.join(parent, name) for name in sorted(names))
        # Not a FIFO, which would block.
        yield from (
            path
            for path in paths
            if left_out.wanted(path) and os.path.isfile(path) and not left_out.found(path)
        )
    yield from unreadable


def _nothing_in(folder: str) -> str:
    """Why a folder has nothing to check, with what might have been meant."""
    try:
        os.listdir(folder)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith((".cubin", ".fatbin", ".so")):
                path = os.path.relpath(os.path.join(parent, name), folder)
                return f"there is no .ptx file in this folder; containers such as {path} are opened when they are named"
    return "there is no .ptx file in this folder"


def _unpacked(data: bytes) -> bytes:
    """*data* without the compression that this Python's standard library reads."""
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
                "is a zstd file, which Python reads from version 3.14 on: unpack it first (zstd -d)"
            ) from None
        try:
            unpacked: bytes = zstd.decompress(data)
        except (zstd.ZstdError, EOFError) as error:
            raise SourceError(f"is a damaged zstd file: {error}") from None
        return unpacked
    return data


# ---------------------------------------------------------------- containers


def _members(data: bytes, path: str | None, name: str, kind: str) -> Iterator[Source]:
    """The PTX modules of a container, in its order."""
    from tempfile import TemporaryDirectory

    from tclint.driver.cuda_tools import candidates

    tool = next(candidates("cuobjdump"), None)
    if tool is None:
        raise SourceError(
            f"is {kind}; NVIDIA's cuobjdump takes the PTX out of it but was not found: put it on PATH, name it in "
            "TCLINT_CUOBJDUMP, or install nvidia-cuda-cuobjdump"
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
            what = f"only SASS for {', '.join(chips)}" if chips else "no device code that cuobjdump knows"
            raise SourceError(f"no PTX in it: {kind} with {what}")
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
    """Sorts ``a.2.ptx`` before ``a.10.ptx``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _run(tool: str, *arguments: str, folder: str) -> str:
    """The output of cuobjdump. Raises SourceError when it fails; that it found nothing is an exit code too, but no failure."""
    import subprocess

    try:
        done = subprocess.run(
            [tool, *arguments], cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise SourceError(f"{tool} cannot be run: {error.strerror or error}") from None
    if done.returncode < 0:
        raise SourceError(f"{tool} died of signal {-done.returncode}")
    if done.returncode and ("cuobjdump info" not in done.stderr or "cuobjdump fatal" in done.stderr):
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise SourceError(f"{tool} failed: {said}")
    return done.stdout
