"""The headings under which ``--help`` lists the commands, and the options of the commands that have many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["COMMANDS", "GROUPS", "grouped"]

GROUPS: dict[str, tuple[str, ...]] = {
    "What to check": (
        "stdin-filename",
        "sources",
        "entry",
        "include",
        "exclude",
        "force-exclude",
        "shard",
        "since",
        "toolkit",
        "arch",
        "compile",
        "ptxas",
    ),
    "Which rules and findings": (
        "select",
        "extend-select",
        "ignore",
        "strict",
        "pedantic",
        "min-severity",
        "min-confidence",
        "baseline",
        "accept-ptxas-change",
        "fail-on",
        "exit-zero",
        "no-findings",
    ),
    "Changes to the inputs": ("fix", "unsafe-fixes", "add-ignore", "check", "diff", "normalize"),
    "Execution and proofs": (
        "confirm",
        "confirm-steps",
        "execute",
        "execute-steps",
        "launch",
        "verdict",
        "require",
        "assume",
    ),
    "Output": (
        "output-format",
        "output",
        "output-file",
        "log",
        "reports",
        "locate",
        "max-findings",
        "statistics",
        "quiet",
        "verbose",
        "timings",
        "color",
    ),
    "How to run": (
        "watch",
        "refuse",
        "prune",
        "jobs",
        "max-input",
        "cache",
        "config",
        "isolated",
        "show-settings",
        "help",
    ),
}
"""Heading -> the options below it, as they are written without the hyphens in front."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "Check kernels": ("check", "verdict", "baseline", "merge", "diff"),
    "As part of a compilation": ("nvcc", "ptxas"),
    "Look into a kernel": ("show", "barriers", "hang", "targets"),
    "Execute kernels": ("run", "capture"),
    "Rewrite kernels": ("format", "reduce"),
    "Look up": ("explain", "rules", "isa"),
    "For editors and programs": ("lsp", "mcp", "schema"),
    "About tclint": ("version", "report", "cache"),
}
"""Heading -> the commands below it."""
_OTHER = "Other"

Row = tuple[str, str]


def grouped(
    records: Iterable[tuple[str, Row]], groups: Mapping[str, Sequence[str]] | None = None
) -> Iterator[tuple[str, list[Row]]]:
    """Heading and rows, for the name and the row of each option, or of what *groups* has the headings; those without a heading
    come last."""
    left = dict(records)
    for title, names in (GROUPS if groups is None else groups).items():
        if rows := [left.pop(name) for name in names if name in left]:
            yield title, rows
    if left:
        yield _OTHER, [*left.values()]
