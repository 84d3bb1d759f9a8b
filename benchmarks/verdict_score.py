"""The record of what is proved, what was planted into proofs and what other programs say of them.

A person reads what speaks against a proof.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results, verdict_shares
from benchmarks.verdict_oracles import Case

__all__ = ["ABOUT", "COMMAND", "SLICE", "TITLE", "figure", "read", "readings", "record", "tables"]

READINGS = Path(__file__).with_name("readings.tsv")
TITLE = "Proofs"
COMMAND = (
    "python -m benchmarks.verdicts --record && python -m benchmarks.verdicts --mutants 320 --kernels 40 --record"
    " && python -m benchmarks.verdicts --against ptxas --record"
)
SLICE = "python -m benchmarks.verdicts --mutants 8 --class wgmma fixtures/wgmma_waited.ptx"
ABOUT = """\
Each kernel is asked which classes of hazards it uses and whether they are proved ([verdicts.md](verdicts.md)). Faults are
planted, one at a time, into kernels that are proved, and ptxas and its SASS are asked about such kernels. Whatever then
speaks against a proof was read: it is a bug of the prover, or the class holds
([readings](../benchmarks/readings.tsv))."""


def readings() -> dict[tuple[str, ...], str]:
    """The key of each :class:`Case` that was read, and why its class still holds."""
    with READINGS.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, dialect="excel-tab")
        return {(r["class"], r["kernel"], r["what"], r["line"]): r["reason"] for r in rows}


def read(cases: Sequence[Case]) -> dict[str, Any]:
    """How often each reason was given for *cases*, and those that were not read."""
    known = readings()
    reasons = Counter(known[case.key] for case in cases if case.key in known)
    unread = [[*case.key, case.note] for case in cases if case.key not in known]
    return {"harmless": dict(reasons.most_common()), "unread": unread}


def record(kind: str, hazard: str, row: Mapping[str, Any], versions: Mapping[str, str]) -> None:
    """Puts a *row* about a class into the record; *kind* is ``shares``, ``mutants``, ``oracles``; or ``rules``, of ``provers``.

    Other rows stay.
    """
    path = results.RECORDS / "verdicts.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    data = {"shares": {}, "mutants": {}, "oracles": {}, "rules": {}, **known.get("data", {})}
    data[kind][hazard] = row
    kept = {
        name: version for name, version in known.get("versions", {}).items() if name in ("ptxas", "nvdisasm")
    }
    results.save("verdicts", data, {**kept, **versions})


def figure(data: Any) -> str:
    """The shares proved, and what was said against proofs."""
    shares = ", ".join(
        f"`{hazard}` {row['all']['proved'] / row['all']['kernels']:.0%} of {row['all']['kernels']}"
        for hazard, row in data["shares"].items()
    )
    planted, lost = (sum(row[key] for row in data["mutants"].values()) for key in ("planted", "lost"))
    judged = [_judged(row) for kind in ("mutants", "oracles") for row in data[kind].values()]
    harmless, unread = map(sum, zip(*judged, strict=True)) if judged else (0, 0)
    return (
        f"Proved, of the kernels that use each class: {shares or 'not measured'}. {planted:,} faults were planted; {lost:,}"
        f" take the proof away. Of what still speaks against a proof, {harmless:,} were read and are no fault, and"
        f" {unread:,} are not read."
    )


def tables(data: Any) -> list[str]:
    """The shares in full, and what was said against the proofs of each class."""
    rows = [
        (f"`{hazard}`", row["kernels"], row["planted"], row["lost"], *_judged(row))
        for hazard, row in data["mutants"].items()
    ]
    head = [
        "class",
        "kernels",
        "planted",
        "no longer proved",
        "still proved: no fault",
        "still proved: not read",
    ]
    lines = [*verdict_shares.section(data["shares"]), *results.table(head, rows)]
    asked = [
        (f"`{hazard}`", row["oracle"], row["kernels"], *_judged(row))
        for hazard, row in data["oracles"].items()
    ]
    lines += results.table(
        ["class", "asked", "kernels that are proved", "against: no fault", "against: not read"], asked
    )
    for kind in ("mutants", "oracles"):
        lines += [f"- `{hazard}`, {kind}: {row['sample']}" for hazard, row in data[kind].items()]
    for kind in ("mutants", "oracles"):
        for hazard, row in data[kind].items():
            lines += [f"- `{hazard}`, {number}: {reason}" for reason, number in row["harmless"].items()]
    for row in data.get("rules", {}).values():
        lines += _rules(row)
    return lines


def _rules(row: Mapping[str, Any]) -> list[str]:
    """What happens if a rule of the provers and checkers always gives one answer."""
    left = [*row["harmless"], *row["unread"]]
    first = f"The {row['rules']} rules of the provers and checkers are changed, one at a time, so that they always give one answer."
    caught = f"Of {row['changes']} changes, {row['changes'] - len(left)} make a test fail (`python -m benchmarks.prover_rules --record`)."
    named = [f"- `{rule}`: {reason}" for rule, reason in row["harmless"].items()]
    named += [f"- `{rule}`: not read" for rule in row["unread"]]
    return ["", f"{first} {caught}", *(["", "The others:", "", *named] if named else [])]


def _judged(row: Mapping[str, Any]) -> tuple[int, int]:
    return sum(row["harmless"].values()), len(row["unread"])
