"""What is committed of the sets: their seeds, the kernels that were seen, the findings with verdicts, the planted faults.

Tables are tab-separated, ordered by set and digest. No text of a kernel is committed.
"""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FINDINGS", "KERNELS", "PLANTED", "Ledger", "Row", "uncommitted", "unit"]

HERE = Path(__file__).parent
Row = Mapping[str, str]

KERNELS = ("set", "digest", "skeleton", "source", "origin", "name", "target", "asynchronous", "status")
"""``status`` is the exit status of ``tclint check``; 3 is an internal error."""
FINDINGS = ("set", "digest", "rule", "severity", "confidence", "line", "message", "verdict", "reason")
"""``verdict`` is true, false or undecidable, and empty before it is known."""
PLANTED = ("set", "digest", "operator", "line", "result", "proof", "findings")
"""``result`` as in ``benchmarks.mutation``; ``proof``: why the change is none."""


def unit(entry: Mapping[str, Any]) -> str:
    """What the members of a set in ``sets.toml`` are, ``kernel``, ``file`` or ``program``."""
    name: str = entry.get("unit", "kernel")
    return name


@dataclass(frozen=True)
class Ledger:
    """The tables in a folder."""

    folder: Path = HERE

    def sets(self) -> tuple[dict[str, Any], ...]:
        """The entries of ``sets.toml``, in order."""
        from benchmarks.strangers.sources import load  # tomli, which the environments of the corpus lack

        return tuple(load(self.folder / "sets.toml")["set"])

    def rows(self, table: str) -> list[dict[str, str]]:
        """The rows of ``kernels``, ``findings`` or ``planted``."""
        path = self.folder / f"{table}.tsv"
        if not path.is_file():
            return []
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, dialect="excel-tab"))

    def add(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Append *rows* to a table."""
        path = self.folder / f"{table}.tsv"
        new = not path.is_file()
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, dialect="excel-tab", lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerows(rows)

    def verdicts(self) -> dict[tuple[str, str, str], str]:
        """The verdicts by rule, name in the corpus, and line."""
        return {
            (row["rule"], f"{row['set']}-{row['digest']}", row["line"]): row["verdict"]
            for row in self.rows("findings")
            if row["verdict"]
        }

    def sources(self) -> frozenset[str]:
        """The sources of all members of sets."""
        return frozenset(row["source"] for row in self.rows("kernels"))

    def seen(self) -> frozenset[str]:
        """The skeletons of all kernels that were in a set."""
        return frozenset(row["skeleton"] for row in self.rows("kernels"))


def uncommitted(paths: Sequence[Path]) -> list[str]:
    """Those of *paths* that differ from the last commit, or are not in it: a seed counts only if it is."""
    git = ["git", "-C", str(HERE), "status", "--porcelain", "--untracked-files=all", "--"]
    run = subprocess.run([*git, *map(str, paths)], check=False, capture_output=True, text=True)
    if run.returncode:
        return [path.name for path in paths]
    return [line[3:] for line in run.stdout.splitlines()]
