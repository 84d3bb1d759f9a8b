"""What a GPU said about mutants, in words and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks import results

__all__ = ["ABOUT", "COMMAND", "TITLE", "convicted", "figure", "tables"]

TITLE = "Mutants on a GPU"
COMMAND = "python -m benchmarks.hardware judge --record"
SLICE = ""
ABOUT = """\
Faults were planted in our own kernels for sm_90, whose right results are known, and each mutant was launched beside its
original. One that gives a wrong result, hangs or faults is convicted: tclint should find it. One that comes out right is
not acquitted, unless it is proven to be equivalent."""
OUTCOMES = ("right", "wrong", "hang", "fault")
INJECTED, SERIALISED = "C7517", "C7514"
"""What ptxas remarks when it waits for a wgmma by itself."""

Mutant = Mapping[str, Any]


def convicted(mutant: Mutant) -> bool:
    """Whether the hardware showed that it is wrong."""
    return bool(mutant["outcome"] != "right")


def figure(data: Any) -> str:
    """What was launched, convicted and found."""
    mutants = data["mutants"]
    lucky = [m for m in mutants if not convicted(m) and m["verdict"] == "found"]
    proven = sum(bool(m["equivalent"]) for m in lucky)
    said = _summary(data, mutants, [m for m in mutants if convicted(m)])
    return " ".join(
        [*said, f"tclint also finds {len(lucky)} that came out right, {proven} of them equivalent."]
    )


def tables(data: Any) -> list[str]:
    """The same by family of operators, and what was missed, came out right or was not launched."""
    mutants = data["mutants"]
    guilty = [m for m in mutants if convicted(m)]
    return [
        *_families(mutants),
        *_remarks(mutants, guilty),
        "",
        (
            "**Convicted, and missed by tclint.** The rule is one of tclint's that should have found it, or, after *new*, one "
            "that it does not have."
        ),
        "",
        *_missed(guilty),
        "**Found by tclint, and right here.** " + _lucky(mutants),
        "",
        "**Not launched.** " + _refused(data),
        "",
    ]


def _summary(data: Any, mutants: list[Mutant], guilty: list[Mutant]) -> list[str]:
    found = sum(m["verdict"] == "found" for m in guilty)
    proven = [m for m in mutants if m["equivalent"]]
    right = sum(not convicted(m) for m in proven)
    return [
        (
            f"{len(mutants)} mutants of {len({m['launch'] for m in mutants})} kernels by "
            f"{len({m['operator'] for m in mutants})} operators were launched on an {data['device']} (driver {data['driver']}, "
            f"cubins by ptxas {data['ptxas']}), {data['launches']} times each, with other inputs each time. A launch that "
            f"takes more than {data['limit']:g} s hangs. The originals of {len(data['kernels'])} launch files were right "
            "every time."
        ),
        f"{len(guilty)} mutants are convicted, and tclint finds {found} of them.",
        f"{len(proven)} mutants are proven to be equivalent, and {right} of these came out right.",
    ]


def _families(mutants: list[Mutant]) -> list[str]:
    rows = []
    for family, members in results.grouped(mutants, "family"):
        outcomes = Counter(m["outcome"] for m in members)
        guilty = [m for m in members if convicted(m)]
        found = sum(m["verdict"] == "found" for m in guilty)
        rows.append([family, len(members), *(outcomes[o] for o in OUTCOMES), len(guilty), found])
    return results.table(["operators", "mutants", *OUTCOMES, "convicted", "found"], rows)


def _remarks(mutants: list[Mutant], guilty: list[Mutant]) -> list[str]:
    partly = sum(m["outcome"] == "wrong" and m["wrong"] < m["launches"] for m in guilty)
    same = sum(m["same_code"] for m in mutants)
    right = [m["said"] for m in mutants if m["family"] == "wgmma" and not convicted(m)]
    injected = sum(INJECTED in said for said in right)
    serialised = sum(SERIALISED in said for said in right)
    return [
        (
            f"{partly} of the wrong mutants were wrong in some of their launches only. ptxas makes the same machine code of "
            f"{same} mutants as of the original. Of the {len(right)} mutants of wgmma that came out right, ptxas put a wait "
            f"back into {injected} ({INJECTED}) and serialised {serialised} ({SERIALISED})."
        ),
    ]


def _missed(guilty: list[Mutant]) -> list[str]:
    rows = []
    for (rule, operator), members in results.grouped(
        (m for m in guilty if m["verdict"] != "found"), "rule", "operator"
    ):
        outcomes = Counter(m["outcome"] for m in members)
        said = ", ".join(f"{outcomes[o]} {o}" for o in OUTCOMES if outcomes[o])
        rows.append([rule, operator, said, results.places(members)])
    return results.table(["rule", "operator", "outcome", "kernel and line"], rows) or ["None.", ""]


def _lucky(mutants: list[Mutant]) -> str:
    lucky = [m for m in mutants if not convicted(m) and m["verdict"] == "found"]
    proven = sum(bool(m["equivalent"]) for m in lucky)
    return f"{len(lucky)} mutants, {proven} of them proven to be equivalent: {_counted(lucky)}."


def _refused(data: Any) -> str:
    refused = data["refused"]
    found = sum(m["verdict"] == "found" for m in refused)
    return (
        f"ptxas refuses {len(refused)} further mutants, and tclint finds {found} of them: {_counted(refused)}. "
        f"{len(data['absent'])} operators have no place in these kernels"
        + (f": {', '.join(data['absent'])}." if data["absent"] else ".")
    )


def _counted(mutants: Iterable[Mutant]) -> str:
    counts = Counter(m["operator"] for m in mutants)
    return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
