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

__all__ = ["LARGEST", "Candidate", "gather", "held", "known"]

LARGEST = 400_000
"""Characters of the largest kernel that is drawn; larger ones are counted."""


@dataclass(frozen=True)
class Candidate:
    """A kernel that may be drawn."""

    source: str
    origin: str
    """The file of the source, and the module in it."""
    name: str
    """The entry."""
    target: str
    text: str
    skeleton: str
    asynchronous: bool

    @property
    def digest(self) -> str:
        return kernels.digest(self.text)


def gather(source: Source, cache: Path, toolkit: Toolkit) -> dict[str, Any]:
    """Fetch a source and keep its kernels, one of each skeleton; a summary of what it gave.

    Nothing is done for a source that the cache has in this version. ``failures`` of the summary has files that could
    not be read or compiled, ``unreachable`` why there is nothing at all.
    """
    about = _summary(cache, source.name)
    if about and about["version"] == source.version and not about["unreachable"]:
        return about
    about = {
        "version": source.version,
        "unreachable": "",
        "modules": 0,
        "kernels": 0,
        "large": 0,
        "failures": [],
    }
    found: dict[str, Candidate] = {}
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="source-") as scratch:
        folder = Path(scratch)
        try:
            fetch(source, folder)
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
    about |= {"skeletons": len(found), "asynchronous": sum(c.asynchronous for c in found.values())}
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
    for kernel in kernels.kernels(text):
        about["kernels"] += 1
        if len(kernel.text) > LARGEST:
            about["large"] += 1
            continue
        skeleton = kernels.skeleton(kernel.text)
        if skeleton not in found:
            found[skeleton] = Candidate(
                source.name, origin, kernel.name, kernel.target, kernel.text, skeleton, kernels.asynchronous(kernel.text)
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


def held(cache: Path, sources: Sequence[Source]) -> Iterator[Candidate]:
    """The kernels that the cache has of *sources*."""
    for source in sources:
        path = _path(cache, source.name)
        if path.is_file():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                file.readline()
                for line in file:
                    yield Candidate(**json.loads(line))


def known(folders: Sequence[Path]) -> frozenset[str]:
    """The skeletons of the kernels in the ``.ptx`` files at any depth below *folders*: those that are no strangers."""
    texts = (
        path.read_text(encoding="utf-8", errors="replace")
        for f in folders
        for path in sorted(f.rglob("*.ptx"))
    )
    return frozenset(kernels.skeleton(kernel.text) for text in texts for kernel in kernels.kernels(text))
