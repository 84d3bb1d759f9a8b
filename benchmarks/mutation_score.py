"""The score of the planted faults: by operator, by producer, and what was missed why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from benchmarks import locations, results
from benchmarks.faults import OPERATORS
from benchmarks.misses import CAUSES

__all__ = ["ABOUT", "COMMAND", "TITLE", "figure", "summary", "table", "tables"]

TITLE = "Planted faults"
COMMAND = "python -m benchmarks.mutation --record"
SLICE = "python -m benchmarks.mutation fixtures/kernels --each 1 --no-ptxas --operator wait"
ABOUT = """\
One change at a time in real kernels: does linting the changed kernel give a new error or warning of a fitting rule at the
right place? A change that is proven to make no difference is not a fault, and does not count. A fault that only
a note or a finding of low confidence names counts as missed, and so does one of which ptxas makes the same machine code."""

Counts = list[tuple[str, str, str, str, int]]
"""Operator, producer, verdict, cause ("" when found), and how many."""


def counted(records: Iterable[dict[str, Any]]) -> Counts:
    """How often each verdict and cause was given, by operator and producer, in the order of the operators."""
    counts = Counter((r["operator"], r["producer"], r["verdict"], r.get("cause", "")) for r in records)
    order = list(OPERATORS)
    return sorted(((*key, n) for key, n in counts.items()), key=lambda c: (order.index(c[0]), c[1:]))


LISTED = "unexplained"
"""The cause of which the page lists every fault."""

UNRESOLVED = ("unresolved", "box", "launch")
"""Causes for which the text of the kernel does not determine what an mbarrier counts, or which one it is."""

IN_ORDER = ("in order", "unreached")
"""Causes that say that replays to the end show no difference."""

NO_FAULT = ("equivalent", "accepted")
"""Causes that say that a change is none."""


def _scores(counts: Counts, column: int) -> list[list[object]]:
    """A row for each operator (column 0) or producer (1): planted, no fault, verdicts, share found."""
    rows: dict[str, Counter[str]] = {}
    for count in counts:
        _, _, result, why, n = count
        row = rows.setdefault(str(count[column]), Counter())
        row["planted"] += n
        row["same code"] += n * (why == "same code")
        row["in order"] += n * (why in IN_ORDER)
        row["unresolved"] += n * (why in UNRESOLVED)
        row["no fault" if why in NO_FAULT and result != "found" else result] += n
    table = []
    for name, row in rows.items():
        faults = row["planted"] - row["no fault"]
        resolved = faults - row["unresolved"]
        shares = [
            f"{100 * row['found'] / many:.0f}%" if many else ""
            for many in (resolved - row["same code"] - row["in order"], resolved, faults)
        ]
        cells = (
            "planted", "no fault", "found", "note", "low", "other", "refused", "missed", "same code", "in order",
            "unresolved",
        )  # fmt: skip
        table.append([name, *(row[cell] for cell in cells), *shares])
    return table


_HEAD = (
    "planted", "no fault", "found", "note", "low", "elsewhere", "refused", "missed", "same code", "in order",
    "unresolved", "found of what differs", "found of resolved", "found of faults",
)  # fmt: skip


def _split(counts: Counts, bare: Iterable[str]) -> tuple[Counts, Counts]:
    """The counts of operators with a rule, and those of the *bare* ones."""
    without = set(bare)
    return [c for c in counts if c[0] not in without], [c for c in counts if c[0] in without]


def table(records: Collection[dict[str, Any]]) -> str:
    """The score by operator, and what locates the changes that were found, as Markdown."""
    ruled, bare = _split(counted(records), {name for name, o in OPERATORS.items() if not o.rules})
    rows = _scores(ruled, 0)
    head: tuple[str, ...] = ("operator", *_HEAD)
    if any("default" in r for r in records):
        head += ("without --strict",)
        default = Counter(r["operator"] for r in records if r["default"] == "found")
        rows = [[*row, default[str(row[0])]] for row in rows]
    lines = results.table(head, rows)
    if bare:
        lines += results.table(("operator without a rule", *_HEAD), _scores(bare, 0))
    lines += locations.table(locations.counted(records))
    return "\n".join(lines)


def summary(records: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
    """What is recorded: the counts, and each fault that was not found."""
    keys = (
        "operator",
        "producer",
        "file",
        "line",
        "note",
        "verdict",
        "cause",
        "equivalent",
        "manual",
        "code",
    )
    misses = [{k: r[k] for k in keys if k in r} for r in records if r["verdict"] != "found"]
    for miss, record in zip(misses, (r for r in records if r["verdict"] != "found"), strict=True):
        miss["note"] = " ".join(record["note"].split())[:100]
        if record["new"]:
            miss["new"] = [new.partition(":")[0] for new in record["new"][:3]]
    return {
        **about,
        "files": len({r["file"] for r in records}),
        "without_rule": [name for name, o in OPERATORS.items() if not o.rules],
        "counts": counted(records),
        "contradictions": [
            {k: r[k] for k in (*keys[:5], "equivalent", "new")}
            for r in records
            if "equivalent" in r and r["verdict"] == "found"
        ],
        "misses": misses,
    }


def figure(data: Mapping[str, Any]) -> str:
    """How many faults are found."""
    counts: Counts = [tuple(count) for count in data["counts"]]
    ruled, bare = _split(counts, data["without_rule"])
    planted, asked, unasked = (sum(c[4] for c in some) for some in (counts, ruled, bare))
    none = sum(c[4] for c in ruled if c[2] != "found" and c[3] in NO_FAULT)
    found = sum(c[4] for c in ruled if c[2] == "found")
    faults = asked - none
    return (
        f"{planted:,} changes by {len({c[0] for c in counts})} operators in {data['files']} files of "
        f"{len({c[1] for c in counts})} producers, at most {data['each']} of an operator, drawn with seed {data['seed']}. "
        f"{unasked} are of operators for which there is no rule yet, and {none} are proven to be no fault. Of the other "
        f"{faults:,}, tclint finds {found:,}: {100 * found / max(faults, 1):.1f}%."
    )


def tables(data: Mapping[str, Any]) -> list[str]:
    """The score by producer and by operator, and what was missed."""
    counts: Counts = [tuple(count) for count in data["counts"]]
    ruled, bare = _split(counts, data["without_rule"])
    lines = [
        (
            "*No fault*: proven to make no difference, by the ISA, or a target that ptxas accepts. *Note* and *low*: found, "
            "as a note or with low confidence. *Elsewhere*: another rule, or at another place. *Same code*: of those not "
            f"found, how many {data['assembler'] or 'ptxas (not asked)'} makes the same machine code of; they count as missed. "
            "*In order*: so do those for which a replay executes the change and ends with everything in order that it models: "
            "bulk copies, MMAs, and the outermost of the threads' own stores and reads; or which no replayed launch executes. "
            "*Found of what differs* is the share of the resolved ones without these two. "
            "*Unresolved*: of those missed, how many are about an mbarrier of which the text does not say which one it is, how "
            "many CTAs arrive at it, or how many bytes are copied to it."
        ),
        "",
        "By producer, without the operators for which there is no rule:",
        "",
        *results.table(("producer", *_HEAD), _scores(ruled, 1)),
    ]
    rows, bare_rows = _scores(ruled, 0), _scores(bare, 0)
    whole = [f"{row[0]} ({row[3]})" for row in rows if row[-1] == "100%"]
    lines += ["By operator, those of which some faults were not found:", ""]
    lines += results.table(("operator", *_HEAD), [row for row in rows if row[-1] != "100%"])
    lines += [f"All found: {', '.join(whole) or 'of no operator'}.", ""]
    lines += [
        "No rule yet: "
        + (
            ", ".join(
                f"{row[0]} ({row[1]}" + (f", {row[2]} no fault)" if row[2] else ")") for row in bare_rows
            )
            or "none"
        )
        + ".",
        "",
    ]
    why: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for miss in data["misses"]:
        if miss["cause"] not in ("equivalent", "accepted", "no rule"):
            why[miss["cause"]].append(miss)
    lines += ["Why the others were not found, with a place for each operator (the record has them all):", ""]
    for name, meaning in CAUSES.items():
        if why[name]:
            lines.append(
                f"- *{meaning}*, {len(why[name])}: {_places(why[name], len(why[name]) if name == LISTED else 1)}"
            )
    lines.append("")
    reasons = Counter(f"{m['equivalent']} ({m['manual']})" for m in data["misses"] if "equivalent" in m)
    lines += ["What proves a change to be no fault:", ""]
    lines += results.table(("proof (PTX ISA)", "changes"), reasons.most_common())
    lines += [
        f"{len(data['contradictions'])} changes have such a proof and a finding nevertheless"
        + (":" if data["contradictions"] else "."),
        "",
    ]
    lines += [
        f"- {c['operator']}: {c['file']}, line {c['line']}: {c['new'][0]}" for c in data["contradictions"]
    ]
    return lines


def _places(misses: Iterable[Mapping[str, Any]], most: int) -> str:
    """Operators with how many of their faults, and where the first *most* are."""
    places: dict[str, list[str]] = defaultdict(list)
    for miss in misses:
        places[miss["operator"]].append(f"{miss['file']}:{miss['line']}")
    return "; ".join(f"{name} ({len(at)}: {', '.join(at[:most])})" for name, at in places.items())
