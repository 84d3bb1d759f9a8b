"""Build a corpus of real PTX, without a GPU, from packages on PyPI.

    python -m benchmarks.corpus [--only PRODUCER]... [--cache FOLDER] [--limit N] [--jobs N]

Each producer gets a virtual environment of its own in the cache and writes CACHE/PRODUCER/*.ptx. What is there and
unchanged is not built again. CACHE/manifest.json says what was made of what, and what is missing and why; the exit
status is 1 if anything is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.arguments import command_line
from benchmarks.corpus.builder import Builder, Skipped, default_cache, locked
from benchmarks.corpus.producers import PRODUCERS

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Build the producers that were asked for; the exit status."""
    parser = command_line("benchmarks.corpus", __doc__)
    parser.add_argument("--only", action="append", choices=PRODUCERS, metavar="PRODUCER", default=[])
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--limit", type=_positive, metavar="N", help="files of each producer at most")
    parser.add_argument("--jobs", type=_positive, metavar="N", default=1, help="compilers at a time")
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
    files = builder.manifest["files"]
    total = sum(entry["bytes"] for entry in files)
    producers = len({entry["producer"] for entry in files})
    print(f"{len(files)} files of {producers} producers, {total:,} bytes, in {builder.cache}")
    return 0 if whole else 1


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


if __name__ == "__main__":
    sys.exit(main())
