"""Kernels of sets that were linted as strangers (``benchmarks.strangers``): they count as any others from then on.

Nothing is compiled: the kernels are copied from the cache of that program, as far as it has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.corpus.builder import default_cache
from benchmarks.corpus.protocol import Job
from benchmarks.strangers.ledger import Ledger

__all__ = ["PACKAGES", "jobs", "obstacle"]

PACKAGES: tuple[str, ...] = ()


def obstacle() -> str:
    """Nothing is needed. A set that is not in the cache has no jobs."""
    return ""


def jobs() -> Iterator[Job]:
    """Each kernel in the ledger that is in the cache."""
    folder = default_cache().with_name("strangers") / "sets"
    for row in Ledger().rows("kernels"):
        path = folder / row["set"] / f"{row['digest']}.ptx"
        if path.is_file():
            command = f"{row['source']}: {row['origin']}, {row['name']}"
            yield Job(
                f"{row['set']}-{row['digest']}",
                row["target"],
                command,
                (path,),
                partial(path.read_text, "utf-8"),
            )
