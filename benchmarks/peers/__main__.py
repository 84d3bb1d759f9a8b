"""The command line: ``python -m benchmarks.peers [FOLDER] [--record] [--limit N] [--each N] [--seed N]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import results
from benchmarks.corpus.builder import default_cache
from benchmarks.peers import __doc__, section
from benchmarks.peers.measure import measure


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables, and with ``--record`` keep them; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, nargs="?", default=default_cache(), help="the corpus")
    parser.add_argument("--limit", type=int, default=60, help="files drawn from the corpus (60)")
    parser.add_argument("--each", type=int, default=3, help="faults of each operator (3)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--cache", type=Path, default=default_cache().parent / "peers", help="for environments"
    )
    parser.add_argument(
        "--record", action="store_true", help="keep what was measured, and write docs/results.md"
    )
    options = parser.parse_args(arguments)
    data, versions, skipped = measure(
        options.folder,
        options.cache,
        limit=options.limit,
        each=options.each,
        seed=options.seed,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    print("\n".join(section(data)))
    if options.record:
        print(results.save("peers", data, versions, skipped))
    return 0


if __name__ == "__main__":
    sys.exit(main())
