"""Which files and which faults all tools are asked about."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.mutation import choose

__all__ = ["FIXTURES", "Launch", "drawn", "launches", "of_kernels", "planted"]

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "kernels"
LAUNCHES = Path(__file__).with_name("launches")


@dataclass(frozen=True)
class Launch:
    """What SentryWard is given to verify one kernel."""

    file: Path
    """The PTX."""
    entry: str
    input: Path
    """The JSON."""


def launches(folder: Path = FIXTURES) -> list[Launch]:
    """The described kernels: ``KERNEL.ENTRY.json`` is about every target of ``KERNEL.TARGET.ptx`` in *folder*."""
    found = []
    for path in sorted(LAUNCHES.glob("*.json")):
        kernel, _, entry = path.stem.partition(".")
        found += [Launch(file, entry, path) for file in sorted(folder.glob(f"{kernel}.*.ptx"))]
    return found


def drawn(folder: Path, count: int, seed: int) -> list[Path]:
    """*count* files of the producers (subfolders) of *folder*, evenly over producers and, in each, over sizes."""
    rng = random.Random(seed)
    producers = [sorted(p.glob("*.ptx"), key=lambda f: (f.stat().st_size, f.name)) for p in _folders(folder)]
    producers = sorted(filter(None, producers), key=len)
    files: list[Path] = []
    for left, pool in zip(range(len(producers), 0, -1), producers, strict=True):
        share = min(len(pool), round((count - len(files)) / left))
        # One of each of as many equal parts of the pool, which is sorted by size.
        bounds = [len(pool) * i // share for i in range(share + 1)] if share else []
        files += [pool[rng.randrange(a, b)] for a, b in pairwise(bounds)]
    return sorted(files)


def _folders(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def planted(files: Iterable[Path], each: int, seed: int, scratch: Path) -> list[dict[str, Any]]:
    """*each* faults of every operator in *files*, as :func:`benchmarks.mutation.choose` draws them.

    The records name their file as a path. *scratch* is a folder for links to the files, by producer.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    origin = {}
    for file in files:
        link = scratch / file.parent.name / file.name
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, link)
        origin[link] = file
    if not origin:
        return []
    chosen = choose(scratch, re.compile(""), each, seed)
    return [record | {"file": str(origin[link])} for link, records in chosen.items() for record in records]


def of_kernels(
    records: Sequence[dict[str, Any]], kernels: set[tuple[str, str]], each: int
) -> list[dict[str, Any]]:
    """The first *each* records of every operator that lie in *kernels*: pairs of file and entry."""
    taken: dict[str, int] = {}
    kept = []
    for record in records:
        if (record["file"], record["entry"]) in kernels and taken.get(record["operator"], 0) < each:
            taken[record["operator"]] = taken.get(record["operator"], 0) + 1
            kept.append(record)
    return kept
