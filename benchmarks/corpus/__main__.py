"""Build a corpus of real PTX, without a GPU, from packages on PyPI.

    python -m benchmarks.corpus [--only PRODUCER]... [--cache FOLDER] [--limit N] [--jobs N] [--record]

Each producer gets a virtual environment of its own in the cache and writes CACHE/PRODUCER/*.ptx. What is there and
unchanged is not built again. CACHE/manifest.json says what was made of what, and what is missing and why; the exit
status is 1 if anything is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import Builder, Skipped, default_cache, locked
from benchmarks.corpus.producers import PRODUCERS

__all__ = ["ABOUT", "COMMAND", "SLICE", "TITLE", "figure", "main", "tables"]

TITLE = "Corpus"
COMMAND = "python -m benchmarks.corpus --record"
SLICE = "python -m benchmarks.corpus --only nvcc --limit 3 --cache {scratch}"
ABOUT = """\
PTX of real kernels, made without a GPU from packages on PyPI: what most parts below are measured on."""


def figure(data: Mapping[str, Any]) -> str:
    """How much there is, of the producers of a manifest."""
    made = [about for about in data.values() if about["files"]]
    size = sum(about["bytes"] for about in made) / 1e6
    return f"{sum(about['files'] for about in made)} files of {len(made)} producers, {size:.1f} MB."


def tables(data: Mapping[str, Any]) -> list[str]:
    """The producers with their packages, and why one was skipped."""
    rows = [
        [name, about["status"], about["files"], f"{about['bytes'] / 1e6:.1f}",
         about["reason"] or ", ".join(f"{package} {version}" for package, version in about["packages"].items())]
        for name, about in data.items()
    ]  # fmt: skip
    return results.table(["producer", "status", "files", "MB", "packages"], rows)


def main(arguments: list[str] | None = None) -> int:
    """Build the producers that were asked for; the exit status."""
    parser = command_line("benchmarks.corpus", __doc__)
    parser.add_argument("--only", action="append", choices=PRODUCERS, metavar="PRODUCER", default=[])
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--limit", type=_positive, metavar="N", help="files of each producer at most")
    parser.add_argument("--jobs", type=_positive, metavar="N", default=1, help="compilers at a time")
    parser.add_argument("--record", action="store_true", help="keep the result for docs/results.md")
    options = parser.parse_args(arguments)
    cache = options.cache.resolve()
    whole = True
    try:
        with locked(cache):
            builder = Builder(cache, options.limit, options.jobs)
            for name in options.only or PRODUCERS:
                whole &= builder.build(name, f"benchmarks.corpus.producers.{name}")
    except Skipped as skipped:
        parser.error(str(skipped))
    made = builder.manifest["producers"]
    print(figure(made), f"They are in {builder.cache}.")
    if options.record:
        left = [f"{name}: {about['reason']}" for name, about in made.items() if about["status"] == "skipped"]
        results.save("corpus", made, skipped=left)
    return 0 if whole else 1


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


if __name__ == "__main__":
    sys.exit(main())
