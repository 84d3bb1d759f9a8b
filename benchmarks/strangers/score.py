"""The share of false findings in every set, on the results page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import Any

from benchmarks import results
from benchmarks.strangers.families import FAMILIES, of_operator, of_rule
from benchmarks.strangers.ledger import Ledger, Row, unit

__all__ = ["ABOUT", "COMMAND", "SLICE", "TITLE", "figure", "score", "tables", "wilson"]

TITLE = "False findings on kernels that no rule has seen"
COMMAND = "python -m benchmarks.strangers score --record"
SLICE = ""
ABOUT = """\
Kernels of packages and repositories that are in no corpus, drawn by a seed that is committed before the run, linted once,
and judged by reading the PTX; *hard* ones have mbarriers, wgmma, tcgen05 or bulk copies. A set counts for one run only.
In a set of *kernels*, each was cut out of its module, so many are instances of one template; in a set of *files*, each is
as its authors compile it, and so in one of *programs*, which are ordinary CUDA. Sets 1 and 2 were measured before this
program existed, on kernels not drawn by its rules. In parentheses are intervals of Wilson, for 95%."""

_Z = 1.959964


def wilson(count: int, total: int) -> tuple[float, float]:
    """The bounds of a share of *count* in *total*, with a confidence of 95%; the share is unknown if *total* is 0."""
    if not total:
        return 0.0, 1.0
    share, spread = count / total, _Z * _Z / total
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * sqrt(share * (1 - share) / total + spread / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def score(ledger: Ledger) -> list[dict[str, Any]]:
    """What each set showed, in order. A set that was not drawn yet is left out."""
    kernels, findings, planted = (ledger.rows(table) for table in ("kernels", "findings", "planted"))
    rows = []
    for entry in ledger.sets():
        if "result" in entry:
            rows.append({"set": entry["name"], **entry["result"]})
            continue
        own = [row for row in kernels if row["set"] == entry["name"]]
        if own:
            judged = [row for row in findings if row["set"] == entry["name"]]
            faults = [row for row in planted if row["set"] == entry["name"] and not row["proof"]]
            faults = [row for row in faults if row["result"] != "crash"]
            rows.append({**_row(entry["name"], own, judged, faults), "unit": unit(entry)})
    return rows


def _row(
    name: str, kernels: Sequence[Row], findings: Sequence[Row], planted: Sequence[Row]
) -> dict[str, Any]:
    wrong = [row for row in findings if row["verdict"] == "false"]
    false = {row["digest"] for row in wrong}
    hard = [row for row in kernels if row["asynchronous"] == "yes"]
    by_confidence = {
        confidence: [
            sum(row["confidence"] == confidence for row in wrong),
            sum(row["confidence"] == confidence for row in findings),
        ]
        for confidence in ("high", "medium")
    }
    return {
        "set": name,
        "files": len(kernels),
        "sources": len({row["source"] for row in kernels}),
        "asynchronous": len(hard),
        "files with false findings": len(false),
        "hard": {
            "sources": len({row["source"] for row in hard}),
            "files with false findings": sum(row["digest"] in false for row in hard),
        },
        "false": len(wrong),
        "findings": len(findings),
        "not judged": sum(not row["verdict"] for row in findings),
        "by confidence": by_confidence,
        "planted": len(planted),
        "found": sum(row["result"] == "found" for row in planted),
        "rules": dict(Counter(row["rule"] for row in wrong).most_common()),
        "families": {
            family: {
                "false": sum(of_rule(row["rule"]) == family for row in wrong),
                "findings": sum(of_rule(row["rule"]) == family for row in findings),
                "planted": len(own := [row for row in planted if of_operator(row["operator"]) == family]),
                "found": sum(row["result"] == "found" for row in own),
            }
            for family in FAMILIES
        },
    }


def figure(data: Any) -> str:
    """What the judged sets of files showed, or of kernels if there is none."""
    judged = [row for row in data if not row.get("not judged") and row.get("planted")]
    files = [row for row in judged if row.get("unit", "kernel") != "kernel"]
    earlier = "; ".join(
        f"set {row['set']} {row['files with false findings']} of {row['files']} ({row['files with false findings'] / row['files']:.1%}),"
        f" {row['found'] / row['planted']:.1%}"
        for row in judged
        if files and row.get("unit", "kernel") == "kernel"
    )
    before = (
        f" Sets of kernels, with a false finding, and planted faults found: {earlier}." if earlier else ""
    )
    return f"{len(data)} sets so far. {' '.join(map(_figure, files or judged))}{before}"


def _figure(row: dict[str, Any]) -> str:
    unit, hard = row.get("unit", "kernel"), ""
    if unit == "file":
        hard = f", of the hard ones {_share(row['hard']['files with false findings'], row['asynchronous'])}"
    return (
        f"Set {row['set']}, {unit}s of {row['sources']} sources: a false finding in"
        f" {_share(row['files with false findings'], row['files'])}{hard}; {row['false']} of {row['findings']} findings are"
        f" false; of the planted faults, tclint finds {_share(row['found'], row['planted'])}."
    )


def tables(data: Any) -> list[str]:
    """A table of the sets, one by confidence, and one by what tclint is for."""
    rows, confidence, families = [], [], []
    for row in data:
        unknown = row.get("not judged", 0)
        rows.append(
            [
                row["set"], row.get("unit", "kernel"), row["files"], row.get("sources", ""), row.get("asynchronous", ""),
                "not judged" if unknown else _share(row["files with false findings"], row["files"]),
                f"{unknown} of {row['findings']} not judged" if unknown else f"{row['false']} of {row['findings']}",
                _share(row["found"], row["planted"]) if row.get("planted") else "",
            ]
        )  # fmt: skip
        if unknown:
            continue
        if row.get("unit") == "file":
            hard, total = row["hard"], row["asynchronous"]
            share = _share(hard["files with false findings"], total)
            rows.append([f"{row['set']}, hard", "file", total, hard["sources"], total, share, "", ""])
        confidence += [
            [row["set"], name, _share(wrong, total)]
            for name, (wrong, total) in row.get("by confidence", {}).items()
        ]
        families += [
            [row["set"], name, _share(own["found"], own["planted"]), _share(own["false"], own["findings"])]
            for name, own in row.get("families", {}).items()
        ]
    head = ["set", "unit", "members", "sources", "hard", "with a false finding", "false findings", "planted faults found"]  # fmt: skip
    lines = results.table(head, rows)
    lines += results.table(["set", "confidence", "false findings"], confidence)
    return lines + results.table(["set", "family", "planted faults found", "false findings"], families)


def _share(count: int, total: int) -> str:
    if not total:
        return "none"
    low, high = wilson(count, total)
    return f"{count} of {total}: {count / total:.1%} ({low:.1%} to {high:.1%})"
