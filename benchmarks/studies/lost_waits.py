"""A ``tcgen05.wait`` is taken out of real kernels: does tclint find it, and would the hardware run ahead?

    python -m benchmarks.studies.lost_waits [FOLDER...] [--each 40] [--seed 7] [--record]

The waits are deleted, or moved past the next arrival, by the operators of :mod:`benchmarks.faults`; what becomes
outstanding at a signal thereby is looked up in the SASS as :mod:`benchmarks.studies.scoreboards` does it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import mutation, ptxas, results
from benchmarks.corpus.builder import default_cache
from benchmarks.faults import OPERATORS, apply
from benchmarks.studies import sass
from benchmarks.studies.scoreboards import COLUMNS, WORST, Refused, Tools, find, outstanding, pairs
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.syntax.source import Source

__all__ = ["main", "measure", "section"]

_WAITS = re.compile(r"tcgen05\.wait::")
"""The operators, by their names."""


def measure(
    folders: Iterable[Path], tools: Tools, each: int, seed: int, skipped: list[str]
) -> list[dict[str, Any]]:
    """Take waits out, *each* times for every operator and folder: what tclint and the SASS then say."""
    done = []
    for folder in folders:
        for path, records in mutation.choose(folder, _WAITS, each, seed).items():
            source = Source.read(path)
            before = {one[:3] for one in outstanding(source)[1]}
            report = mutation.lint(path, source.data)
            for record in records:
                edits = tuple(Edit(Span(start, end), text) for start, end, text in record["edits"])
                data = apply(source.data, edits)
                rules = OPERATORS[record["operator"]].rules
                after = mutation.lint(path, data)
                said = mutation.verdict(report, after, rules, frozenset(record["places"]))
                try:
                    new = pairs(Source(data, str(path)), tools, before)
                except Refused as error:
                    skipped.append(f"{path.name}, {record['operator']} in line {record['line']}: {error}")
                    continue
                worst = min(new, key=lambda pair: WORST.index(pair.ordering.verdict), default=None)
                row = {
                    "operator": record["operator"],
                    "file": "/".join(path.parts[-2:]),
                    "line": record["line"],
                }
                row |= {"tclint": said.result, "sass": worst.ordering.verdict if worst else "no release"}
                if worst:
                    about = worst.said
                    row |= {"operation": worst.operation, "signal": worst.signal, "event": worst.event}
                    row["why"] = worst.ordering.why or about.doubt or f"{about.verdict} {about.rule}".strip()
                done.append(row)
                print(*row.values(), file=sys.stderr, flush=True)
    return done


# ---------------------------------------------------------------- the page

TITLE = "Scoreboards: waits taken out"
COMMAND = "python -m benchmarks.studies.lost_waits --record"
SLICE = "python -m benchmarks.studies.lost_waits fixtures --each 1"
ABOUT = (
    "A `tcgen05.wait` is deleted, or moved past the next arrival, in kernels that have it, one at a time. What becomes "
    "outstanding at a signal is looked up in the SASS as above. *No release follows*: another wait is on every path "
    "to the next signal, or what was deleted only guarded what the same thread does. *Runs ahead* is what a fault is; "
    "*ordered* is one by the ISA, which this ptxas happens to fix. A wait can also be lost without harm, where the signal "
    "hands over something else."
)

_VERDICTS = ("found", "low", "note", "other", "missed", "refused")


def section(data: Any) -> list[str]:
    """The part of ``docs/results.md``."""
    columns = {**COLUMNS, "no release": "no release follows"}
    counts = Counter((row["operator"], row["tclint"], row["sass"]) for row in data)
    rows = [
        (name, verdict, *(counts[name, verdict, column] for column in columns))
        for name in dict.fromkeys(row["operator"] for row in data)
        for verdict in _VERDICTS
        if any(counts[name, verdict, column] for column in columns)
    ]
    lines = results.table(["planted", "tclint", *columns.values()], rows)
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for row in data:
        if row["sass"] == "ahead" and row["tclint"] != "found":
            key = row["operator"], row["tclint"], row["event"], row["why"]
            groups.setdefault(key, []).append(f"{row['file']}:{row['line']}")
    if groups:
        lines += ["Not found although the hardware may run ahead:", ""]
        ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
        hidden = [(*key, len(places), ", ".join(places[:2])) for key, places in ranked]
        lines += results.table(
            ["planted", "tclint", "at", "what tclint says there", "times", "such as"], hidden
        )
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the section; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.lost_waits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", metavar="FOLDER", nargs="*", type=Path, default=[default_cache()])
    parser.add_argument("--each", type=int, default=40, help="faults of each operator and folder (40)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--record", action="store_true", help="leave a record, and write docs/results.md")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f"{folder} is not a folder")
    try:
        tools = find()
        versions = tools.versions
    except (ptxas.PtxasMissing, sass.NvdisasmMissing) as error:
        print(f"lost waits are not measured: {error}", file=sys.stderr)
        return 2
    skipped: list[str] = []
    data = measure(options.folders, tools, options.each, options.seed, skipped)
    print("\n".join([*section(data), *(f"skipped: {reason}" for reason in skipped)]))
    if options.record:
        results.save("lost_waits", data, versions, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
