"""What the executor makes of kernels and mutants that a GPU has judged, in words and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import results

__all__ = ["ABOUT", "COMMAND", "SLICE", "TITLE", "UNSEEN", "figure", "tables"]

TITLE = "The executor against a GPU"
COMMAND = "python -m benchmarks.executor --record"
SLICE = ""
ABOUT = """\
`tclint.executor` runs the launch files of *Mutants on a GPU*, and further ones of kernels for sm_90 and sm_100. What is
right on the GPU must be right here, under every schedule and with nothing to report; what the GPU convicted should be seen
here: an observation, a fault, a deadlock, or a wrong result."""
SHOWN = 3
"""Kinds that a row names; the record has them all."""
UNSEEN: Mapping[str, str] = {
    "entry register count removed": "registers are not counted",
    "state space .shared dropped": (
        "an offset in shared memory is taken for a generic address of it by ldmatrix and stmatrix, as the GPU does"
    ),
    "cp.async misaligned": "in this launch the copy is not executed",
    "cp.async.commit_group deleted": "in this launch the group is empty: the copy in front of it is not executed",
}
"""Why the executor sees nothing of some mutants, by operator."""

Said = Mapping[str, Any]


def figure(data: Any) -> str:
    """What the GPU did, and what the executor sees of it."""
    said = [_recorded(data)] if "twins" in data else []
    if "runs" in data:
        convicted, lucky = data["runs"]["convicted"], data["runs"]["lucky"]
        said.append(
            f"Of {len(convicted)} mutants that the GPU convicted, the executor sees {_count(convicted)}. Of {len(lucky)} that"
            f" came out right and are an error to tclint, and that no proof says are equivalent, it sees {_count(lucky)}."
        )
    return " ".join(said)


def _count(mutants: Sequence[Said]) -> int:
    """How many the executor sees."""
    return sum(bool(mutant["seen"]) for mutant in mutants)


def tables(data: Any) -> list[str]:
    """Each kernel, and the mutants by operator."""
    if "runs" not in data:
        return []
    ran = data["runs"]
    return [*_kernels(ran, data.get("kernels", {})), *_convicted(ran), *_lucky(ran["lucky"])]


def _recorded(data: Any) -> str:
    outcomes = Counter(twin["outcome"] for twin in data["twins"])
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return (
        f"The record has the SHA-256 of every result of {data['launches']} launches of {len(data['kernels'])} kernels "
        f"on an {data['device']} (driver {data['driver']}, cubins by ptxas {data['ptxas']}), all right, and of "
        f"{len(data['twins'])} mutants of them, one of each operator ({counts}). `tests/executor/test_hardware.py` holds "
        "the executor to it."
    )


def _kernels(ran: Any, on_gpu: Mapping[str, Any]) -> list[str]:
    rows = []
    for said in ran["kernels"]:
        quiet = set(said["ends"].values()) == {"done"}
        end = ", ".join(f"{how}: {end}" for how, end in said["ends"].items())
        numbers = (f"{said['instructions']:,}", f"{said['seconds']:.1f}")
        rows.append(
            [said["launch"], said["target"], *numbers, "right" if quiet else end, _same(said, on_gpu)]
        )
    ends = f"ends ({', '.join(ran['schedules'])})"
    return results.table(
        ["launch file", "target", "instructions of warps", "CPU seconds", ends, "result"], rows
    )


def _same(said: Said, on_gpu: Mapping[str, Any]) -> str:
    """Whether the bytes are those of the GPU."""
    if said["launch"] not in on_gpu:
        return "not launched on a GPU"
    there = {name: found[0] for name, found in on_gpu[said["launch"]]["digests"].items()}
    return "the same bytes" if said["digests"] == there else "within the tolerance"


def _convicted(ran: Any) -> list[str]:
    mutants = ran["convicted"]
    rows = []
    for operator, members in results.grouped(mutants, "operator"):
        seen = Counter(m["schedule"] for m in members if m["seen"])
        left = len(members) - sum(seen.values())
        said = _kinds(members)
        rows.append([operator, len(members), *(seen[how] for how in ran["schedules"]), left, said])
    unseen = [m for m in mutants if not m["seen"]]
    head = ["operator", "convicted", *ran["schedules"], "not seen", "as"]
    lines = [
        "**Convicted.** Each is run under one schedule after the other until something is seen.",
        "",
        *results.table(head, rows),
    ]
    if unseen:
        lines += ["**Convicted, and not seen.**", "", *_unseen(unseen)]
    return lines


def _unseen(mutants: Sequence[Said]) -> list[str]:
    rows = []
    for operator, members in results.grouped(mutants, "operator"):
        why = {m["unsupported"] for m in members if "unsupported" in m} or {UNSEEN.get(operator, "not read")}
        rows.append([operator, results.places(members), "; ".join(sorted(why))])
    return results.table(["operator", "kernel and line", "why"], rows)


def _lucky(mutants: Sequence[Said]) -> list[str]:
    rows = []
    for operator, members in results.grouped(mutants, "operator"):
        unseen = [m for m in members if not m["seen"]]
        said = _kinds(members)
        why = UNSEEN.get(operator, "not read") if unseen else ""
        rows.append([operator, len(members), len(members) - len(unseen), said, results.places(unseen), why])
    head = ["operator", "mutants", "seen", "as", "not seen", "why"]
    return [
        "**Right on the GPU, and an error to tclint.** No proof says that they are equivalent.",
        "",
        *results.table(head, rows),
    ]


def _kinds(members: Sequence[Said]) -> str:
    """What they were seen as, the most frequent first."""
    kinds = Counter(kind for m in members if m["seen"] for kind in m["seen"].split(", "))
    return ", ".join(kind for kind, _ in kinds.most_common(SHOWN))
