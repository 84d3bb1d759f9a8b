"""What the corpus holds, for the results page: ``python -m benchmarks.corpus.summary [--cache FOLDER] [--record]``.

It reads ``manifest.json`` and compiles nothing.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.corpus.producers import PRODUCERS

__all__ = ["ABOUT", "COMMAND", "TITLE", "figure", "main", "summary", "tables"]

TITLE = "Corpus"
COMMAND = "python -m benchmarks.corpus && python -m benchmarks.corpus.summary --record"
SLICE = "python -m benchmarks.corpus --only nvcc --limit 3 --cache {scratch}"
ABOUT = """\
PTX of real kernels, made without a GPU from packages on PyPI: what most parts below are measured on."""

LARGE = 1_000_000
"""Bytes; a file above this is counted as large."""


def summary(manifest: Any) -> dict[str, Any]:
    """Counts for each producer, and what could not be made."""
    producers = {}
    for name in PRODUCERS:
        about = manifest["producers"].get(name)
        if about is None:
            continue
        sizes = [e["bytes"] for e in manifest["files"] if e["producer"] == name]
        failures = Counter(_kind(e["reason"]) for e in manifest["failures"] if e["producer"] == name)
        producers[name] = {
            **{
                key: about[key]
                for key in ("status", "reason", "packages", "files", "bytes", "targets", "seconds")
            },
            "largest": max(sizes, default=0),
            "large": sum(size > LARGE for size in sizes),
            "failures": dict(failures.most_common()),
        }
    return producers


def _kind(reason: str) -> str:
    """The first line of a failure without what differs from file to file."""
    return re.sub(r"\S*/\S+|\d+", "…", reason.splitlines()[0] if reason else "")[:160]


def figure(data: Any) -> str:
    """How much there is."""
    totals: Counter[str] = Counter()
    for about in data.values():
        totals.update({key: about[key] for key in ("files", "bytes", "large")})
    return (
        f"{totals['files']} files of {sum(bool(a['files']) for a in data.values())} producers,"
        f" {totals['bytes'] / 1e6:.1f} MB; {totals['large']} files are larger than 1 MB."
    )


def tables(data: Any) -> list[str]:
    """The producers with their packages, and what was not made."""
    rows = [
        [name, a["status"], a["files"], f"{a['bytes'] / 1e6:.1f}", f"{a['largest'] / 1e6:.2f}", a["large"],
         sum(a["failures"].values()), _main_packages(a["packages"])]
        for name, a in data.items()
    ]  # fmt: skip
    head = ["producer", "status", "files", "MB", "largest, MB", "> 1 MB", "not made", "packages"]
    lines = results.table(head, rows)
    reasons = [
        f"- {name}: {count} files: {why}" for name, a in data.items() for why, count in a["failures"].items()
    ]
    lines += [f"- {name}: {a['reason']}" for name, a in data.items() if a["status"] == "skipped"]
    return [*lines, *reasons]


def _main_packages(packages: dict[str, str]) -> str:
    """The first few packages with their versions: the compiler is among them."""
    compilers = (
        "triton",
        "nvcc",
        "numba-cuda",
        "pyptx",
        "cutlass",
        "tilelang",
        "flashinfer",
        "cuml",
        "cusparselt",
        "cue",
        "vllm",
    )
    named = {n: v for n, v in packages.items() if any(word in n for word in compilers)}
    return ", ".join(f"{name} {version}" for name, version in sorted(named.items()))


def main(arguments: list[str] | None = None) -> int:
    """Print the figures, and record them; the exit status."""
    parser = command_line("benchmarks.corpus.summary", __doc__)
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--record", action="store_true", help="keep the result for docs/results.md")
    options = parser.parse_args(arguments)
    path = options.cache / "manifest.json"
    if not path.is_file():
        print(f"there is no {path}: python -m benchmarks.corpus builds it", file=sys.stderr)
        return 2
    manifest = json.loads(path.read_text(encoding="utf-8"))
    data = summary(manifest)
    print(figure(data), "", *tables(data), sep="\n")
    if options.record:
        results.save(
            "corpus",
            data,
            skipped=[f"{n}: {a['reason']}" for n, a in data.items() if a["status"] == "skipped"],
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
