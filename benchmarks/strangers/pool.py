"""What the sources gave: one compressed file of kernels for each source in the cache."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.strangers import kernels
from benchmarks.strangers.compile import Toolkit
from benchmarks.strangers.containers import CannotRead, modules
from benchmarks.strangers.sources import HEADERS, Source, Unreachable, fetch

__all__ = ["LARGEST", "LARGEST_FILE", "Candidate", "gather", "held", "known"]

LARGEST = 400_000
"""Characters of the largest kernel that is drawn; larger ones are counted."""
LARGEST_FILE = 2_000_000
"""Characters of the largest file that is drawn."""
_FORMAT = 2
"""What a source gave is gathered again if it was kept in another form."""


@dataclass(frozen=True)
class Candidate:
    """A kernel, or a file with several, that may be drawn."""

    source: str
    """The source; of a collection of programs, also the program, which counts as a source of its own."""
    origin: str
    """The file of the source, and the module in it."""
    name: str
    """The entry; of a file, its first one."""
    target: str
    text: str
    skeleton: str
    asynchronous: bool
    kernels: int = 0
    """How many kernels the file has, as its authors compile it; 0 for a kernel that was cut out of a file with others."""

    def is_a(self, unit: str) -> bool:
        """Whether this is a ``file``, a file of a ``program`` in a collection, or a ``kernel`` alone in its module."""
        if unit == "program":
            return self.kernels >= 1 and len(self.text) <= LARGEST
        return self.kernels >= 1 if unit == "file" else self.kernels <= 1 and len(self.text) <= LARGEST

    @property
    def digest(self) -> str:
        return kernels.digest(self.text)


def gather(source: Source, cache: Path, toolkit: Toolkit) -> dict[str, Any]:
    """Fetch a source and keep its files and kernels, one of each skeleton; a summary of what it gave.

    Nothing is done for a source that the cache has in this version. ``failures`` of the summary has files that could
    not be read or compiled, ``unreachable`` why there is nothing at all.
    """
    about = _summary(cache, source.name)
    version = f"{source.version} format {_FORMAT}"
    if about and about["version"] == version and not about["unreachable"]:
        return about
    about = {
        "version": version,
        "unreachable": "",
        "modules": 0,
        "kernels": 0,
        "large": 0,
        "failures": [],
    }
    found: dict[str, Candidate] = {}
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="source-") as scratch:
        folder = cache / "made" / source.name if source.made else Path(scratch)
        try:
            if not source.made:
                fetch(source, folder)
            elif not folder.is_dir():
                raise Unreachable(f"{source.made} has left no PTX in {folder}")
        except Unreachable as why:
            about["unreachable"] = str(why)
        else:
            for origin, text in _modules(source, folder, toolkit):
                if isinstance(text, CannotRead):
                    about["failures"].append(f"{origin}: {text}")
                    continue
                about["modules"] += 1
                _split(source, origin, text, found, about)
        shutil.rmtree(folder / ".git", ignore_errors=True)
    about |= {
        "skeletons": len(found),
        "files": sum(c.is_a("file") for c in found.values()),
        "asynchronous": sum(c.asynchronous for c in found.values()),
    }
    path = _path(cache, source.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=3) as file:
        for line in (about, *map(asdict, found.values())):
            file.write(json.dumps(line) + "\n")
    return about


def _modules(source: Source, folder: Path, toolkit: Toolkit) -> Iterator[tuple[str, str | CannotRead]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        where = path.relative_to(folder).as_posix()
        if where.startswith((".git/", f"{HEADERS}/")):
            continue
        try:
            yield from ((f"{where}: {name}", text) for name, text in modules(path, toolkit.cuobjdump))
        except CannotRead as why:
            yield where, why
    for job in source.compile:
        yield from toolkit.modules(folder, job)


def _split(
    source: Source, origin: str, text: str, found: dict[str, Candidate], about: dict[str, Any]
) -> None:
    members = list(kernels.kernels(text))
    about["kernels"] += len(members)
    for kernel in members:
        if len(kernel.text) > LARGEST:
            about["large"] += 1
        elif len(members) > 1:
            _keep(source, origin, kernel, found, 0)
    if members and len(text) <= LARGEST_FILE:
        _keep(source, origin, members[0]._replace(text=text), found, len(members))


def _keep(
    source: Source, origin: str, kernel: kernels.Kernel, found: dict[str, Candidate], count: int
) -> None:
    """Add the first of the texts with one skeleton to *found*; a whole file takes the place of a part of another."""
    skeleton = kernels.skeleton(kernel.text)
    if skeleton not in found or (count and not found[skeleton].kernels):
        program = origin.split("/")[: source.programs]
        found[skeleton] = Candidate(
            "/".join((source.name, *program)), origin, kernel.name, kernel.target, kernel.text, skeleton,
            kernels.asynchronous(kernel.text), count,
        )  # fmt: skip


def _path(cache: Path, name: str) -> Path:
    return cache / "pool" / f"{name}.jsonl.gz"


def _summary(cache: Path, name: str) -> dict[str, Any]:
    path = _path(cache, name)
    if not path.is_file():
        return {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        about: dict[str, Any] = json.loads(file.readline())
    return about


def held(cache: Path, sources: Sequence[Source], unit: str) -> Iterator[Candidate]:
    """The files, or the kernels, that the cache has of *sources*."""
    for source in sources:
        path = _path(cache, source.name)
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                file.readline()
                candidates = (Candidate(**json.loads(line)) for line in file)
                yield from (candidate for candidate in candidates if candidate.is_a(unit))


def known(folders: Sequence[Path]) -> frozenset[str]:
    """The skeletons of the ``.ptx`` files at any depth below *folders*, and of their kernels: those that are no strangers."""
    skeletons: set[str] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*.ptx")):
            text = path.read_text(encoding="utf-8", errors="replace")
            skeletons.add(kernels.skeleton(text))
            skeletons.update(kernels.skeleton(kernel.text) for kernel in kernels.kernels(text))
    return frozenset(skeletons)
