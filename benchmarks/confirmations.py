"""Whether a ``confirmed`` finding is right: faults planted in real kernels, and what ``--confirm`` says of them.

    python -m benchmarks.confirmations FOLDER... [--operator REGEX] [--each 5] [--seed 7] [--steps 200000]
                                       [--output FILE.jsonl]

FOLDER and the places of the faults are as for :mod:`benchmarks.mutation`. Each finding that the fault adds is confirmed
with assumed launches. The same finding is then made up about the kernel as it was: an execution that demonstrates it
there shows that the observation is not about the fault, and the verdict counts as *refuted*. The records, one JSON
object a line, have what a reader needs to judge the others: the lines of the finding, its steps and the observation.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.faults import apply
from benchmarks.mutation import choose, fresh, lint
from tclint.driver.confirm import STEPS, confirm
from tclint.driver.evidence import EVIDENCE
from tclint.findings.finding import Edit, FileReport, Finding
from tclint.findings.spans import Span

__all__ = ["main", "moved", "table"]


def run(path: Path, records: Iterable[dict[str, Any]], steps: int) -> Iterator[dict[str, Any]]:
    """A record for each finding that a fault adds, with the verdict on it."""
    data = path.read_bytes()
    before = lint(path, data)
    for record in records:
        edits = [Edit(Span(a, b), text) for a, b, text in record["edits"]]
        after = lint(path, apply(data, tuple(edits)))
        added = [f for f in fresh(before, after) if f.rule.id in EVIDENCE]
        for found in confirm(replace(after, findings=tuple(added)), None, steps).findings:
            verdict = found.confirmation
            if verdict is None:
                continue
            status: str = verdict.status
            if status == "confirmed" and _demonstrated(before, moved(found, edits), steps):
                status = "refuted"
            yield record | {
                "rule": found.rule.id,
                "message": found.message,
                "status": status,
                "reason": verdict.reason,
                "observation": verdict.observation,
                "launch": verdict.launch,
                "schedule": verdict.schedule,
                "lines": [(_line(after, found.span), ""), *((_line(after, s.span), s.message) for s in found.steps)],
            }  # fmt: skip


def moved(finding: Finding, edits: Sequence[Edit]) -> Finding:
    """*finding* without its verdict, at the same instructions of the text that the *edits* changed."""
    own = len(finding.steps) - len(finding.confirmation.steps if finding.confirmation else ())
    steps = tuple(replace(s, span=_original(s.span, edits)) for s in finding.steps[:own])
    return replace(finding, span=_original(finding.span, edits), steps=steps, confirmation=None)


def _original(span: Span, edits: Sequence[Edit]) -> Span:
    """Where *span* was before the edits; what an edit has inserted was at its end."""
    shift = 0
    for edit in sorted(edits, key=lambda e: e.span.start):
        start, length = edit.span.start + shift, len(edit.text.encode())
        if span.start < start:
            break
        if span.start < start + length:
            return Span(edit.span.end, edit.span.end)
        shift += length - (edit.span.end - edit.span.start)
    return Span(span.start - shift, span.end - shift)


def _demonstrated(report: FileReport, finding: Finding, steps: int) -> bool:
    """Whether an execution of the kernel of *report* demonstrates a finding that was made up about it."""
    (found,) = confirm(replace(report, findings=(finding,)), None, steps).findings
    return found.confirmation is not None and found.confirmation.status == "confirmed"


def _line(report: FileReport, span: Span) -> int:
    assert report.source is not None
    return report.source.position(span.start).line


def table(records: Iterable[dict[str, Any]]) -> str:
    """The verdicts by rule."""
    counts = Counter((r["rule"], r["status"]) for r in records)
    statuses = ("confirmed", "refuted", "not-reproduced", "unsupported")
    lines = [f"| rule | {' | '.join(statuses)} |", "|---|" + "---|" * len(statuses)]
    for rule in sorted({rule for rule, _ in counts}):
        lines.append(f"| {rule} | {' | '.join(str(counts[rule, status]) for status in statuses)} |")
    total = [sum(n for (_, s), n in counts.items() if s == status) for status in statuses]
    return "\n".join([*lines, f"| all | {' | '.join(map(str, total))} |"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Plant, confirm, print the verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", metavar="FOLDER", type=Path, nargs="+")
    parser.add_argument(
        "--operator", default="", help="only operators whose name this regular expression finds"
    )
    parser.add_argument("--each", type=int, default=5, help="faults of each operator in a folder (5)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"instructions for each finding ({STEPS:,})")
    parser.add_argument("--output", type=Path, help="where the records go, one JSON object a line")
    options = parser.parse_args(arguments)
    done: list[dict[str, Any]] = []
    with options.output.open("w") if options.output else nullcontext() as stream:
        for folder in options.folders:
            chosen = choose(folder, re.compile(options.operator), options.each, options.seed)
            for path, records in chosen.items():
                for record in run(path, records, options.steps):
                    done.append(record)
                    if stream:
                        print(json.dumps(record), file=stream, flush=True)
    print(table(done))


if __name__ == "__main__":
    main()
