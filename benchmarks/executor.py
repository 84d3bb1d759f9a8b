"""Hold the executor to what a GPU did: kernels whose right results are known, and mutants that a GPU convicted.

    python -m benchmarks.executor prepare FOLDER
    python FOLDER/run.py FOLDER --launches 50 --digests    # on a machine with an H100 or H200
    python -m benchmarks.executor collect FOLDER
    python -m benchmarks.executor [--schedule lazy]... [--only REGEX] [--jobs N] [--record]

*prepare* compiles the kernels of ``benchmarks/launches`` and, of each operator, one mutant that
``benchmarks/records/hardware.json`` has as convicted; *collect* puts the SHA-256 of every result of every launch into
``benchmarks/records/executor.json``, where ``tests/executor/test_hardware.py`` finds them. The last line executes all
launches, all convicted mutants, and those that came out right although tclint finds an error in them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import hardware, launch, ptxas, results
from benchmarks.arguments import command_line
from benchmarks.corpus.fixtures import FOLDER as KERNELS
from benchmarks.executor_page import ABOUT, COMMAND, SLICE, TITLE, figure, tables
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source

if TYPE_CHECKING:
    from tclint.executor.run import Execution

__all__ = [
    "ABOUT",
    "COMMAND",
    "SLICE",
    "TITLE",
    "Outcome",
    "figure",
    "judged",
    "main",
    "mutated",
    "run",
    "tables",
    "twins",
]

Record = dict[str, Any]

PATH = results.RECORDS / "executor.json"
SCHEDULES = ("lazy", "eager", "random:1")
"""One after the other, until something is seen."""
HANGING = (
    "CTA barrier deleted", "aligned instruction guarded by one lane", "arrive.expect_tx too few bytes",
    "expect_tx too many bytes", "mbarrier arrive deleted", "mbarrier.init count raised",
)  # fmt: skip
"""Operators of which a twin that hangs is taken: each costs the GPU the limit of a launch."""
KEPT = ("launch", "ptx", "entry", "operator", "line", "note", "edits", "sha256")
STEPS = 5_000_000
"""Instructions of warps that a launch may take in the executor."""
FIRST = 10_000
"""Those after which a mutant has mostly shown what is wrong with it."""


# ---------------------------------------------------------------- what a GPU did


def convicted() -> list[Record]:
    """The mutants of ``benchmarks.hardware`` that a GPU showed to be wrong."""
    return [m for m in _mutants() if m["outcome"] != "right"]


def lucky() -> list[Record]:
    """Those that came out right, though tclint finds an error in them and no proof says that they are equivalent."""
    return [
        m for m in _mutants() if m["outcome"] == "right" and not m["equivalent"] and m["verdict"] == "found"
    ]


@cache
def _mutants() -> list[Record]:
    text = (results.RECORDS / "hardware.json").read_text(encoding="utf-8")
    found: list[Record] = json.loads(text)["data"]["mutants"]
    return found


def twins() -> list[Record]:
    """One convicted mutant of each operator, of as many kernels as can be, with few that hang."""
    order = ("wrong", "fault", "hang")
    found: dict[str, list[Record]] = defaultdict(list)
    for mutant in convicted():
        if mutant["outcome"] != "hang" or mutant["operator"] in HANGING:
            found[mutant["operator"]].append(mutant)
    used: Counter[str] = Counter()
    chosen = []
    for operator in sorted(found):
        mutant = min(found[operator], key=lambda m: (order.index(m["outcome"]), used[m["launch"]], m["line"]))
        used[mutant["launch"]] += 1
        chosen.append(mutant)
    return chosen


def mutated(mutant: Mapping[str, Any]) -> bytes:
    """The text of a recorded mutant."""
    data: bytes = (KERNELS / mutant["ptx"]).read_bytes()
    for start, end, text in sorted(mutant["edits"], reverse=True):
        data = data[:start] + text.encode() + data[end:]
    assert hashlib.sha256(data).hexdigest() == mutant["sha256"], f"{mutant['ptx']} has changed"
    return data


def prepare(folder: Path, tool: ptxas.Ptxas) -> Record:
    """Compile kernels and twins into *folder*, with the list of jobs."""
    jobs = hardware.originals(folder, tool)
    for index, mutant in enumerate(twins()):
        name = f"twin{index:02}"
        cubin, said = hardware.assemble(tool, mutated(mutant))
        assert cubin, f"{mutant['operator']}: {said}"
        (folder / f"{name}.cubin").write_bytes(cubin)
        jobs[name] = {key: mutant[key] for key in KEPT} | {
            "cubins": {**jobs[mutant["launch"]]["cubins"], "mutant": f"{name}.cubin"}
        }
    specs = hardware.launches()
    launched = {name: specs[name] for name in jobs if name in specs}
    plan = {"ptxas": tool.release, "launches": launched, "jobs": jobs}
    (folder / "jobs.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(launch.__file__, folder / "run.py")
    return plan


def collect(folder: Path) -> tuple[Record, list[str]]:
    """What came out, and what is missing."""
    plan = json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    machine, *said = map(json.loads, (folder / "results.jsonl").read_text(encoding="utf-8").splitlines())
    outcomes = {result.pop("job"): result for result in said}
    keys = ("device", "driver", "launches", "limit")
    data: Record = {**{key: machine[key] for key in keys}, "ptxas": plan["ptxas"], "kernels": {}, "twins": []}
    skipped = []
    for name, job in plan["jobs"].items():
        result = outcomes.get(name, {"trouble": "not run"})
        role = "mutant" if "mutant" in job["cubins"] else "original"
        if role not in result or result["original"]["outcome"] != "right":
            skipped.append(f"{name} ({job['launch']}): {result.get('trouble') or result['original']}")
        elif role == "original":
            data["kernels"][name] = result["original"]
        else:
            data["twins"].append({key: job[key] for key in job if key != "cubins"} | result["mutant"])
    return data, skipped


# ---------------------------------------------------------------- what the executor does


@dataclass
class Outcome:
    """What came of the launches of a launch file."""

    executions: list[Execution]
    observations: list[tuple[str, int, str]]
    """Kind, line and message of each."""
    wrong: int
    """Values that are not right."""
    found: dict[str, Any]
    """What the buffers hold."""
    seconds: float
    """Of the processor."""

    @property
    def end(self) -> str:
        return self.executions[-1].end

    @property
    def steps(self) -> int:
        return sum(execution.steps for execution in self.executions)

    @property
    def seen(self) -> str:
        """What shows that something is wrong; empty if nothing does, as yet."""
        if self.end in ("fault", "deadlock"):
            return self.end
        kinds = sorted({kind for kind, _, _ in self.observations})
        return ", ".join(kinds) or ("wrong result" if self.wrong else "")


def run(
    name: str,
    how: str = "lazy",
    data: bytes | None = None,
    *,
    number: int = 0,
    steps: int = STEPS,
    grid: tuple[int, int, int] | None = None,
) -> Outcome:
    """A launch file in the executor, with its kernel or with *data*, and with the inputs of launch *number*.

    With a *grid* it is only that part of the grid, and wrong values are not counted.
    """
    from tclint.executor.launch import read
    from tclint.executor.run import Policy, execute_file, line_of

    began = time.process_time()
    spec = hardware.launches()[name]
    path = KERNELS / spec["ptx"]
    source = Source(data or path.read_bytes(), path.name)
    module, _ = analyse(source)
    file = read(hardware.LAUNCHES / f"{name}.launch.toml")
    if grid is not None:
        file = replace(file, launches=tuple(replace(step, grid=grid) for step in file.launches))

    executions, found = execute_file(module, file, Policy(how, steps, source=source), number)
    observations = [
        (o.kind, line_of(source, execution.function, o.site), o.message)
        for execution in executions
        for o in execution.observations
    ]
    wrong = 0
    if executions[-1].end == "done" and grid is None:
        given = file.arrays(number)
        wrong, _ = launch.mistakes(spec, launch.expected(spec, given), found)
    return Outcome(executions, observations, wrong, found, time.process_time() - began)


def _kernel(name: str, schedules: Sequence[str]) -> Record:
    """One kernel, under each schedule."""
    outcomes = {how: run(name, how) for how in schedules}
    first = outcomes[schedules[0]]
    spec = hardware.launches()[name]
    return {
        "launch": name,
        "target": f"sm_{hardware.target(spec['ptx'])}",
        "seconds": round(first.seconds, 2),
        "instructions": first.steps,
        "ends": {how: outcome.seen or outcome.end for how, outcome in outcomes.items()},
        "digests": launch.digests(spec, first.found),
    }


def judged(mutant: Mapping[str, Any], how: str) -> Outcome:
    """A recorded mutant in the executor, until it has shown what is wrong with it."""
    data = mutated(mutant)
    outcome = run(mutant["launch"], how, data, steps=FIRST)
    if outcome.end == "budget" and not outcome.seen:
        outcome = run(mutant["launch"], how, data)
    return outcome


def _mutant(mutant: Record, schedules: Sequence[str]) -> Record:
    """One mutant, under one schedule after the other until something is seen."""
    keys = ("launch", "operator", "line", "outcome", "verdict", "sha256")
    said: Record = {key: mutant[key] for key in keys} | {"seen": ""}
    for how in schedules:
        outcome = judged(mutant, how)
        if outcome.end == "unsupported":
            return said | {"unsupported": outcome.executions[-1].reason}
        if outcome.seen:
            at = outcome.observations[0] if outcome.observations else ("", 0, outcome.executions[-1].reason)
            return said | {"seen": outcome.seen, "schedule": how, "message": at[2][:200]}
    return said | {"end": outcome.end}


def _task(kind: str, what: Any, schedules: Sequence[str]) -> tuple[str, Record]:
    return kind, _kernel(what, schedules) if kind == "kernels" else _mutant(what, schedules)


def runs(only: str, schedules: Sequence[str], jobs: int) -> Record:
    """Everything whose launch file has *only* in its name, in the executor."""
    names = [name for name in hardware.launches() if re.search(only, name)]
    tasks: list[tuple[str, Any]] = []
    for kind, mutants in (("convicted", convicted()), ("lucky", lucky())):
        tasks += [(kind, mutant) for mutant in mutants if mutant["launch"] in names]
    tasks += [("kernels", name) for name in names]
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # before numpy is imported
    found: Record = {"schedules": list(schedules), "kernels": [], "convicted": [], "lucky": []}
    with ProcessPoolExecutor(jobs) as pool:
        for kind, said in pool.map(_task, *zip(*tasks, strict=True), [schedules] * len(tasks)):
            found[kind].append(said)
            print(json.dumps(said), file=sys.stderr, flush=True)
    return found


# ---------------------------------------------------------------- command line


def main(arguments: list[str] | None = None) -> int:
    """Prepare a folder, read what came out of it, or run the executor; the exit status."""
    parser = command_line("benchmarks.executor", __doc__)
    parser.add_argument("command", nargs="?", choices=("run", "prepare", "collect"), default="run")
    parser.add_argument("folder", nargs="?", type=Path, help="of prepare and collect")
    parser.add_argument("--schedule", action="append", metavar="NAME", help=f"{', '.join(SCHEDULES)}")
    parser.add_argument("--only", default="", metavar="REGEX", help="launch files")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time (1)")
    parser.add_argument("--record", action="store_true", help="write the record and the page of results")
    options = parser.parse_args(arguments)
    if (options.command == "run") != (options.folder is None):
        parser.error("prepare and collect need a folder" if options.folder is None else "run needs no folder")
    if options.command == "prepare":
        with ptxas.needing_ptxas():
            plan = prepare(options.folder, ptxas.find())
        print(
            f"{len(plan['jobs'])} jobs; where the GPU is: python {options.folder}/run.py --digests {options.folder}"
        )
        return 0
    record = json.loads(PATH.read_text(encoding="utf-8")) if PATH.is_file() else {"data": {}, "skipped": []}
    data, skipped = record["data"], record["skipped"]
    if options.command == "collect":
        gathered, skipped = collect(options.folder)
        data = data | gathered
        print(f"{len(data['kernels'])} kernels, {len(data['twins'])} twins", *skipped, sep="\n")
    else:
        data = data | {"runs": runs(options.only, options.schedule or SCHEDULES, options.jobs)}
        print(figure(data), "", *tables(data), sep="\n")
    if options.record or options.command == "collect":
        results.save("executor", data, {"ptxas": data["ptxas"], "driver": data["driver"]}, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
