"""What is proved of public kernels, kernel by kernel: ``kernel_verdicts.tsv``, and the page that is made of it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks import results
from benchmarks.verdict_shares import Row
from tclint.findings.verdicts import HazardClass, Status

__all__ = ["ASSUMING", "LISTING", "PAGE", "Judged", "listing", "page", "project", "read", "write"]

LISTING = Path(__file__).with_name("kernel_verdicts.tsv")
PAGE = results.ROOT / "docs" / "proved.md"
ASSUMING = "assuming"
"""The word for a proof that rests on assumptions."""
PROJECTS = (
    (r"nvcc/drv__cutlass", "CUTLASS"),
    (r"nvcc/", "FlashInfer"),
    (r"triton-libs/\w+-fla-", "flash-linear-attention"),
    (r"triton-libs/\w+-liger-", "Liger Kernel"),
    (r"triton-libs/\w+-fa-", "FlashAttention"),
    (r"triton/", "Triton"),
    (r"triton-gluon/", "Gluon"),
    (r"triton-tlx/", "TLX"),
    (r"cutedsl/", "CuTe DSL"),
    (r"llvm-nvptx/", "LLVM"),
    (r"numba/", "Numba"),
    (r"warp/", "Warp"),
)
"""Where the source of a file is from, by its folder and name; the folder itself of others."""
ABOUT = """\
# What is proved of public kernels

For each class of hazards that a kernel uses, tclint says whether it is proved absent, shown absent up to a bound,
violated, or unknown ([verdicts.md](verdicts.md) has what each word claims and trusts). This page has the answers for all
kernels of the corpus of [real-kernels.md](real-kernels.md). They were compiled from public sources, and none was chosen
because of its answer. Unknown says nothing against a kernel: no proof that tclint has covers it.

[benchmarks/kernel_verdicts.tsv](../benchmarks/kernel_verdicts.tsv) lists every kernel with its classes. One command asks
all of them again and writes the list, this page and [results.md](results.md):

```sh
python -m benchmarks.verdicts --record --jobs 2 FOLDER...
```
"""

Classes = Mapping[str, str]
"""The word for each class that a kernel uses."""


class Judged(NamedTuple):
    """One kernel of a file, and what is known of its classes."""

    file: str
    """With its folder."""
    kernel: str
    classes: Classes


def project(file: str) -> str:
    """Where the source of *file*, which has its folder before it, is from."""
    return next((name for pattern, name in PROJECTS if re.match(pattern, file)), file.partition("/")[0])


def judged(rows: Iterable[Row]) -> Iterator[Judged]:
    """The kernels of *rows*, of which those of one kernel follow each other."""
    for (producer, file, kernel), found in groupby(rows, key=lambda row: row[:3]):
        yield Judged(
            f"{producer}/{file}",
            kernel,
            {row.hazard: ASSUMING if row.assuming else row.status for row in found},
        )


def listing(found: Iterable[Judged]) -> str:
    """One line for each kernel, with a column for each class."""
    text = io.StringIO()
    writer = csv.writer(text, dialect="excel-tab", lineterminator="\n")
    hazards = [hazard.value for hazard in HazardClass]
    writer.writerow(["project", "file", "kernel", *hazards])
    for each in found:
        writer.writerow(
            [project(each.file), each.file, each.kernel, *(each.classes.get(h, "") for h in hazards)]
        )
    return text.getvalue()


def read(text: str) -> list[Judged]:
    """The kernels of a :func:`listing`."""
    rows = csv.DictReader(io.StringIO(text), dialect="excel-tab")
    hazards = [hazard.value for hazard in HazardClass]
    return [Judged(row["file"], row["kernel"], {h: row[h] for h in hazards if row[h]}) for row in rows]


def page(found: Sequence[Judged]) -> str:
    """The text of ``docs/proved.md``."""
    proofs = (Status.PROVED.value, ASSUMING)
    whole = sum(all(word in proofs for word in each.classes.values()) for each in found)
    violated = sum(Status.VIOLATED.value in each.classes.values() for each in found)
    words = (*proofs, Status.BOUNDED.value, Status.VIOLATED.value, Status.UNKNOWN.value)
    head = ("class", "kernels", "proved", "proved under assumptions", *words[2:], "share proved")
    of_classes, of_projects = list[tuple[object, ...]](), list[tuple[object, ...]]()
    projects: dict[str, list[Judged]] = {}
    for each in found:
        projects.setdefault(project(each.file), []).append(each)
    for hazard in HazardClass:
        mine = _words(found, hazard)
        if mine:
            of_classes.append((f"`{hazard.value}`", len(mine), *map(mine.count, words), _share(mine, proofs)))
            shares = (_of(_words(some, hazard), proofs) for some in projects.values())
            of_projects.append((f"`{hazard.value}`", *shares))
    lines = [
        ABOUT,
        (
            f"Of {len(found):,} kernels, {whole:,} are proved for every class that they use, and {violated:,} have a finding"
            " that violates one."
        ),
        "",
        *results.table(head, of_classes),
        "Proved, with and without assumptions, of the kernels of each project that use the class:",
        "",
        *results.table(("class", *projects), of_projects),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _words(found: Iterable[Judged], hazard: HazardClass) -> list[str]:
    return [each.classes[hazard.value] for each in found if hazard.value in each.classes]


def _share(words: Sequence[str], proofs: Sequence[str]) -> str:
    return f"{sum(map(words.count, proofs)) / len(words):.0%}"


def _of(words: Sequence[str], proofs: Sequence[str]) -> str:
    return f"{sum(map(words.count, proofs))} of {len(words)}" if words else ""


def write(rows: Iterable[Row]) -> None:
    """Writes the list and the page."""
    found = list(judged(rows))
    LISTING.write_text(listing(found), encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")
