"""What of a finding locates a planted fault: the primary location, a step, or an edit that it suggests.

:mod:`benchmarks.mutation` finds it out with the score.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks import results
from benchmarks.faults import OPERATORS
from tclint.findings.finding import Finding
from tclint.syntax.source import Source

__all__ = ["NEAR", "counted", "located", "table"]

NEAR = 3
"""Lines between a change and what a finding names, up to which the finding locates the change."""
_NO_CODE = re.compile(rb"\s*(//.*|\.loc\b.*|[{}])?\s*")
"""A line without code: a blank, a comment, a ``.loc``, a brace."""

LOCATORS = ("primary", "step", "edit", "code")
"""What may locate a change, from the most to the least direct; *code* is any of the others if only lines of code
count."""

Counts = list[tuple[str, str, int]]
"""Operator, what locates the change ("" when nothing does), and how many of those found."""


def located(source: Source, findings: Iterable[Finding], changed: Iterable[int]) -> str:
    """The first of :data:`LOCATORS` of one of the *findings* that lies within :data:`NEAR` lines of a *changed* one;
    empty if none does. A deleted instruction has no code left on its line, which is numbered as the next line of
    code."""
    shown = list(findings)
    parties = [party for f in shown for party in f.deadlock]
    spans = {
        "primary": [f.span for f in shown],
        "step": [
            *(step.span for f in shown for step in f.steps),
            *(step.span for party in parties for step in (party.wait, *party.arrivals)),
        ],
        "edit": [edit.span for f in shown for fix in f.fixes for edit in fix.edits],
    }
    lines = {how: [source.position(span.start).line for span in at] for how, at in spans.items()}
    changes = list(changed)
    for how, named in lines.items():
        if any(abs(line - change) <= NEAR for line in named for change in changes):
            return how
    code = [n for n, line in enumerate(source.data.split(b"\n"), 1) if not _NO_CODE.fullmatch(line)]
    numbered = [bisect_left(code, change) for change in changes]
    every = [bisect_left(code, line) for named in lines.values() for line in named]
    return "code" if any(abs(n - change) <= NEAR for n in every for change in numbered) else ""


def counted(records: Iterable[Mapping[str, Any]]) -> Counts:
    """How often each locator names a change that was found, in the order of the operators."""
    counts = Counter((r["operator"], r["located"]) for r in records if r["verdict"] == "found")
    order = list(OPERATORS)
    return sorted(((*key, n) for key, n in counts.items()), key=lambda c: (order.index(c[0]), c[1]))


def table(counts: Counts) -> list[str]:
    """A row for each operator and one for all: how many were found, and how many and what share of these are named by
    each locator or one before it."""
    rows: dict[str, Counter[str]] = {}
    total = Counter[str]()
    for operator, how, n in counts:
        for row in (rows.setdefault(operator, Counter()), total):
            row[how] += n
    cells: list[list[object]] = []
    for name, row in (*rows.items(), ("all", total)) if rows else ():
        sums = [sum(row[how] for how in LOCATORS[: i + 1]) for i in range(len(LOCATORS))]
        cells.append([name, row.total(), *sums, *(f"{100 * n / row.total():.0f}%" for n in sums)])
    head = ("primary location", "or a step", "or an edit", "in lines of code")
    return results.table(("operator", "found", *head, *head), cells)
