"""The findings of a set in Markdown, each with an excerpt, for those who judge them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.strangers.ledger import Ledger, Row
from benchmarks.strangers.measure import mutant

__all__ = ["table"]

AROUND = 3
"""Lines before and after a finding."""
NAME = 100
"""Characters of the longest mangled name that is shown."""


def table(ledger: Ledger, name: str, folder: Path) -> list[str]:
    """The findings of set *name*, whose kernels are in *folder*, then the planted faults that were not found."""
    own = {row["digest"]: row for row in ledger.rows("kernels") if row["set"] == name}
    lines = [f"# Findings of {name}", ""]
    for row in ledger.rows("findings"):
        if row["set"] == name:
            kernel = own[row["digest"]]
            lines += [
                f"## {row['digest']} {row['rule']} line {row['line']}",
                "",
                f"{row['severity']}/{row['confidence']}: {row['message']}",
                "",
                _where(kernel, folder),
                "",
                f"Verdict: {row['verdict'] or '?'}. {row['reason']}".rstrip(),
                "",
                *_excerpt(folder / f"{row['digest']}.ptx", int(row["line"])),
            ]
    lines += ["# Planted faults that were not found", ""]
    for row in ledger.rows("planted"):
        if row["set"] == name and row["result"] != "found" and not row["proof"]:
            lines += _missed(row, folder)
    return lines


def _where(kernel: Row, folder: Path) -> str:
    module = f"{kernel['source']}: {kernel['origin']}, `{kernel['name'][:NAME]}`, {kernel['target']}"
    return f"{module}; {folder / kernel['digest']}.ptx"


def _missed(row: Row, folder: Path) -> list[str]:
    path = mutant(folder, row["digest"], row["operator"], row["line"])
    head = f"## {row['digest']} {row['operator']} line {row['line']}: {row['result']}"
    return [
        head,
        "",
        row["findings"] or "No new finding.",
        "",
        f"{path}",
        "",
        *_excerpt(path, int(row["line"])),
    ]


def _excerpt(path: Path, line: int) -> list[str]:
    if not path.is_file() or not line:
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    first = max(line - AROUND, 1)
    shown = enumerate(lines[first - 1 : line + AROUND], first)
    return ["```", *(f"{number:6} {text}" for number, text in shown), "```", ""]
