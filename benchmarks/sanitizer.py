"""What compute-sanitizer reports of mutants of real kernels, beside what tclint says of them.

    python -m benchmarks.hardware prepare FOLDER --each 3 --seed 37
    python FOLDER/sanitize.py FOLDER                # on a machine with an H100 or H200
    python -m benchmarks.sanitizer collect FOLDER [--record]
    python -m benchmarks.sanitizer judge [--record]

Each mutant is launched once under racecheck and once under synccheck. *collect* reads what they reported and asks
tclint about each mutant; *judge* asks it again about the mutants of the record, which takes no GPU.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import hardware, results
from benchmarks.arguments import add_judgement, command_line
from benchmarks.sanitize import TOOLS, role_of

__all__ = [
    "ABOUT",
    "COMMAND",
    "ORIGINALS",
    "SLICE",
    "TITLE",
    "collect",
    "figure",
    "main",
    "reported",
    "tables",
]

TITLE = "A second opinion: compute-sanitizer"
COMMAND = "python -m benchmarks.sanitizer judge --record"
SLICE = ""
ABOUT = """\
Faults were planted in our own kernels for sm_90, and each mutant was launched once under racecheck and once under
synccheck. What a tool also reports of the original is not counted. A mutant of which neither reports anything is not
acquitted: it may give a wrong result or hang."""
ORIGINALS = {
    ("handed_over", "racecheck"): (
        "not a race: the readers execute `barrier.arrive` after each read, and the writer waits at a `barrier.sync` of "
        "the same number before it overwrites the stage, which orders the two (9.7.13.1). The number is in a register "
        "where racecheck reports the write"
    ),
    ("staged", "synccheck"): (
        "not a missing wait: `cp.async.mbarrier.arrive` without `.noinc` adds the arrival that it later makes "
        "(9.7.13.15.15), and the `mbarrier.arrive` after it is the one arrival of the thread in the phase. Without the "
        "first instruction synccheck reports nothing"
    ),
}
"""Kernel and tool -> what is true of the report about a kernel that gives the right results."""

Record = dict[str, Any]


def collect(folder: Path) -> tuple[Record, list[str]]:
    """What the tools reported, without what tclint says; and what was not launched.

    Raises OSError if a file is missing.
    """
    plan = json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    machine, *said = map(json.loads, (folder / "sanitizer.jsonl").read_text(encoding="utf-8").splitlines())
    launched: dict[str, Record] = defaultdict(dict)
    for result in said:
        if "trouble" not in result:
            launched[result["job"]][result["tool"]] = {key: result[key] for key in ("outcome", "reports")}
    data: Record = {
        **{key: value for key, value in machine.items() if key != "cuda-bindings"},
        "ptxas": plan["ptxas"],
        "seed": plan["seed"],
        "kernels": {},
        "mutants": [],
    }
    missing: Counter[str] = Counter()
    for name, job in plan["jobs"].items():
        tools = launched[name]
        missing.update(tool for tool in TOOLS if tool not in tools)
        if role_of(job) == "original":
            data["kernels"][name] = tools
        else:
            data["mutants"].append(
                {key: value for key, value in job.items() if key != "cubins"} | {"tools": tools}
            )
    return data, [f"{count} of {len(plan['jobs'])} launches under {tool}" for tool, count in missing.items()]


def reported(data: Mapping[str, Any], mutant: Mapping[str, Any], tool: str) -> list[str]:
    """What *tool* reports of a mutant and not of its original."""
    known = data["kernels"].get(mutant["launch"], {}).get(tool, {}).get("reports", ())
    return [kind for kind in mutant["tools"].get(tool, {}).get("reports", ()) if kind not in known]


def _failed(mutant: Mapping[str, Any]) -> bool:
    """Whether the mutant gave a wrong result, hung or faulted under a tool."""
    return any(said["outcome"] != "right" for said in mutant["tools"].values())


def _seen(data: Any) -> list[Record]:
    """The mutants that a tool reports."""
    return [m for m in data["mutants"] if any(reported(data, m, tool) for tool in TOOLS)]


def figure(data: Any) -> str:
    """What was launched, and what the tools and tclint report."""
    mutants, seen = data["mutants"], _seen(data)
    failed = [m for m in mutants if _failed(m) and m not in seen]
    counts = ", ".join(
        f"{sum(tool in m['tools'] for m in mutants)} under {tool}, which reports "
        f"{sum(bool(reported(data, m, tool)) for m in seen)}"
        for tool in TOOLS
    )
    programs = (("driver", "driver"), ("compute-sanitizer", "sanitizer"), ("cubins by ptxas", "ptxas"))
    versions = ", ".join(f"{what} {data[key]}" for what, key in programs if data.get(key))
    return (
        f"{len(mutants)} mutants of {len({m['launch'] for m in mutants})} kernels by "
        f"{len({m['operator'] for m in mutants})} operators on an {data['device']} "
        f"({versions}): {counts}. A launch that takes more than {data['limit']:g} s hangs. "
        f"The tools report {len(seen)} mutants, and tclint has a new finding in {_found(seen)} of them. Another "
        f"{len(failed)} gave a wrong result, hung or faulted without a report; tclint has a new finding in "
        f"{_found(failed)} of these."
    )


def tables(data: Any) -> list[str]:
    """The same by family of operators, what tclint misses, and what the tools report of kernels that are right."""
    return [
        *_families(data),
        "**Reported by a tool, and no new finding of tclint.**",
        "",
        *_missed(data, _seen(data)),
        "**Reported of kernels that are right.**",
        "",
        *_originals(data),
    ]


def _found(mutants: list[Record]) -> int:
    """In how many mutants tclint has a finding that it does not have in the original."""
    return sum(bool(m["new"]) for m in mutants)


def _families(data: Any) -> list[str]:
    families: dict[str, list[Record]] = defaultdict(list)
    for mutant in data["mutants"]:
        families[mutant["family"]].append(mutant)
    rows = [
        [
            family,
            len(members),
            *(sum(bool(reported(data, m, tool)) for m in members) for tool in TOOLS),
            sum(map(_failed, members)),
            _found(members),
        ]
        for family, members in sorted(families.items())
    ]
    return results.table(["operators", "mutants", *TOOLS, "failed or wrong", "tclint"], rows)


def _missed(data: Any, seen: list[Record]) -> list[str]:
    rows = [
        [
            m["operator"],
            f"{m['launch']}:{m['line']}",
            ", ".join(k for tool in TOOLS for k in reported(data, m, tool)),
        ]
        for m in seen
        if not m["new"]
    ]
    return results.table(["operator", "kernel and line", "report"], rows) or ["None.", ""]


def _originals(data: Any) -> list[str]:
    rows = [
        [name, tool, ", ".join(said["reports"]), ORIGINALS.get((name, tool), "not judged yet")]
        for name, tools in data["kernels"].items()
        for tool, said in tools.items()
        if said["reports"]
    ]
    return results.table(["kernel", "tool", "report", "what is true"], rows) or ["None.", ""]


def main(arguments: list[str] | None = None) -> int:
    """Read what the tools reported, and judge the mutants; the exit status."""
    parser = command_line("benchmarks.sanitizer", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_judgement(commands, "mutants")
    options = parser.parse_args(arguments)
    if options.command == "collect":
        data, skipped = collect(options.answer)
    else:
        record = results.recorded("sanitizer")
        data, skipped = record["data"], record["skipped"]
    hardware.judge({"mutants": data["mutants"], "refused": []})
    print(figure(data), "", *tables(data), sep="\n")
    print(*skipped, sep="\n", file=sys.stderr)
    if options.record:
        programs = {key: data[key] for key in ("sanitizer", "driver", "ptxas") if data.get(key)}
        results.save("sanitizer", data, programs, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
