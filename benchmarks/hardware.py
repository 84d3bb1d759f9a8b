"""Launch mutants of real kernels on a GPU beside their originals, and hold what happens against what tclint says.

    python -m benchmarks.hardware prepare FOLDER [--each 8] [--seed 7]
    python FOLDER/run.py FOLDER                     # on a machine with an H100 or H200
    python -m benchmarks.hardware collect FOLDER [--record]
    python -m benchmarks.hardware judge [--record]

*prepare* plants faults in the kernels of ``fixtures/kernels`` that ``benchmarks/launches`` has launches for, compiles
them with ptxas and puts all that a launch needs into FOLDER; *run* needs no more than that folder, numpy and
cuda-bindings. *collect* reads what came out and asks tclint about each mutant; *judge* asks it again about the mutants
of the record, which takes no GPU.

A GPU can prove a mutant wrong and no mutant right: what the ISA leaves undefined may come out right on one chip.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import launch, mutation, ptxas, results
from benchmarks.arguments import add_judgement, command_line
from benchmarks.corpus.fixtures import FOLDER as KERNELS
from benchmarks.equivalence import equivalent
from benchmarks.faults import OPERATORS, Fault, Kernel, apply
from benchmarks.hardware_page import ABOUT, COMMAND, SLICE, TITLE, figure, tables
from tclint import _toml
from tclint.findings.finding import Edit, FileReport
from tclint.findings.spans import Span

__all__ = ["ABOUT", "COMMAND", "LAUNCHES", "SLICE", "TITLE", "WANTED", "figure", "launches", "main", "tables"]

LAUNCHES = Path(__file__).resolve().parent / "launches"
ARCH = "sm_90a"
SAME, EQUIVALENT, REFUSED, TRIES = 2, 3, 2, 80
"""Of each operator: mutants with the same machine code, those proven to be equivalent, those that ptxas refuses, and
places to try."""

_RACE = "shared-memory-race"
WANTED = {
    "CTA barrier deleted": _RACE,
    "memory fence deleted": "mbarrier-init-not-published",
}
"""The rule that would find an operator's fault, where tclint has none that is about it on sm_90."""

Record = dict[str, Any]


def launches() -> dict[str, launch.Spec]:
    """Every launch file, by the name of its kernel."""
    return {
        path.name.partition(".")[0]: _toml.parse(path.read_text(encoding="utf-8"))
        for path in sorted(LAUNCHES.glob("*.launch.toml"))
    }


@cache
def kernels(ptx: str) -> dict[str, Kernel]:
    """The functions of a file of ``fixtures/kernels``."""
    return {kernel.function.name: kernel for kernel in mutation.kernels(KERNELS / ptx)}


@cache
def original(ptx: str) -> FileReport:
    path = KERNELS / ptx
    return mutation.lint(path, path.read_bytes())


def fault_of(record: Mapping[str, Any]) -> tuple[Kernel, Fault]:
    """A recorded fault and the kernel that it is planted in."""
    kernel = kernels(record["ptx"])[record["entry"]]
    edits = tuple(Edit(Span(start, end), text) for start, end, text in record["edits"])
    return kernel, Fault(edits, frozenset(), record["note"])


# ---------------------------------------------------------------- prepare


def assemble(tool: ptxas.Ptxas, data: bytes, *options: str) -> tuple[bytes, str]:
    """The cubin of a module and the numbers of ptxas' remarks, ``"C7517"``; or no cubin and what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_bytes(data)
        command: list[str | Path] = [tool.path, "-arch", ARCH, *options, source, "-o", cubin]
        run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        said = (run.stdout + run.stderr).replace(folder + "/", "")
        if run.returncode == 0:
            return cubin.read_bytes(), " ".join(sorted(set(re.findall(r"\((C\d+)\)", said))))
    wrong = (line for line in said.splitlines() if re.search("error|fatal", line))
    return b"", next(wrong, f"exit status {run.returncode}")


def planted(specs: Mapping[str, launch.Spec], operator: str) -> dict[str, list[Record]]:
    """Every place of an operator in the kernels that are launched, by launch."""
    found: dict[str, list[Record]] = defaultdict(list)
    for name, spec in specs.items():
        for entry in dict.fromkeys(step["entry"] for step in spec["launches"]):
            kernel = kernels(spec["ptx"])[entry]
            for fault in OPERATORS[operator].plant(kernel):
                edits = [(e.span.start, e.span.end, e.text) for e in fault.edits]
                first = min(start for start, _, _ in edits)
                record = {
                    "launch": name,
                    "ptx": spec["ptx"],
                    "entry": entry,
                    "operator": operator,
                    "line": kernel.line(first),
                    "note": " ".join(fault.note.split()),
                    "places": sorted({kernel.line(kernel.span(i).start) for i in fault.places}),
                    "edits": edits,
                }
                if all(edits != other["edits"] for other in found[name]):
                    found[name].append(record)
    return found


def in_turn(places: Mapping[str, list[Record]], rng: random.Random) -> Iterator[Record]:
    """One place of each kernel, then a second one of each, and so on."""
    left = [rng.sample(records, len(records)) for _, records in sorted(places.items()) if records]
    rng.shuffle(left)
    while left:
        for records in left:
            yield records.pop()
        left = [records for records in left if records]


def for_hopper() -> dict[str, launch.Spec]:
    """The launches of kernels that an H100 or H200 can run."""
    return {name: spec for name, spec in launches().items() if target(spec["ptx"]) <= 90}


@cache
def target(ptx: str) -> int:
    """The number of the architecture that a file of ``fixtures/kernels`` is for."""
    found = re.search(r"^\.target sm_(\d+)", (KERNELS / ptx).read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return int(found[1])


def originals(folder: Path, tool: ptxas.Ptxas) -> dict[str, Record]:
    """Compile the kernels that are launched into *folder*: a job for each launch file."""
    folder.mkdir(parents=True, exist_ok=True)
    specs = for_hopper()
    for ptx in sorted({spec["ptx"] for spec in specs.values()}):
        code, said = assemble(tool, (KERNELS / ptx).read_bytes())
        assert code, f"{ptx}: {said}"
        (folder / ptx).with_suffix(".cubin").write_bytes(code)
    return {
        name: {"launch": name, "cubins": {"original": Path(spec["ptx"]).with_suffix(".cubin").name}}
        for name, spec in specs.items()
    }


def prepare(folder: Path, tool: ptxas.Ptxas, each: int, seed: int) -> Record:
    """Compile originals and mutants into *folder*, with the list of jobs."""
    specs = for_hopper()
    jobs = originals(folder, tool)
    codes = {
        spec["ptx"]: (folder / spec["ptx"]).with_suffix(".cubin").read_bytes() for spec in specs.values()
    }
    refused: list[Record] = []
    absent: list[str] = []
    for operator in OPERATORS:
        rng = random.Random(f"{seed} {operator}")
        found = planted(specs, operator)
        if not any(found.values()):
            absent.append(operator)
            continue
        taken: Counter[str] = Counter()
        limits = {"changed": each, "same": SAME, "equivalent": EQUIVALENT, "refused": REFUSED}
        for record in islice(in_turn(found, rng), TRIES):
            kernel, fault = fault_of(record)
            kind = "equivalent" if equivalent(kernel, fault) else ""
            if taken[kind or "changed"] >= limits[kind or "changed"]:
                continue
            mutant = apply(kernel.data, fault.edits)
            record["sha256"] = hashlib.sha256(mutant).hexdigest()
            cubin, said = assemble(tool, mutant)
            record |= {"said": said, "same_code": cubin == codes[record["ptx"]]}
            kind = kind if cubin else "refused"
            kind = kind or ("same" if record["same_code"] else "changed")
            if taken[kind] >= limits[kind]:
                continue
            taken[kind] += 1
            if kind == "refused":
                refused.append(record)
                continue
            name = f"m{len(jobs):04}"
            (folder / f"{name}.cubin").write_bytes(cubin)
            cubins = {**jobs[record["launch"]]["cubins"], "mutant": f"{name}.cubin"}
            jobs[name] = record | {"cubins": cubins}
        print(f"{operator}: {dict(taken)}", flush=True)
    plan = {
        "ptxas": tool.release,
        "seed": seed,
        "launches": specs,
        "jobs": jobs,
        "refused": refused,
        "absent": absent,
    }
    (folder / "jobs.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(launch.__file__, folder / "run.py")
    return plan


# ---------------------------------------------------------------- collect and judge


def _role_of(job: dict[str, Any]) -> str:
    """Which cubin of a job is launched."""
    return "mutant" if "mutant" in job["cubins"] else "original"


def collect(folder: Path) -> tuple[Record, list[str]]:
    """What was launched and came out, without what tclint says; and what is missing."""
    plan = json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    machine, *said = map(json.loads, lines)
    outcomes = {result.pop("job"): result for result in said}
    data: Record = {
        **{key: value for key, value in machine.items() if key != "cuda-bindings"},
        "ptxas": plan["ptxas"],
        "seed": plan["seed"],
        "kernels": {},
        "mutants": [],
        "refused": [],
        "absent": plan["absent"],
    }
    skipped = []
    for name, job in plan["jobs"].items():
        result = outcomes.get(name, {"trouble": "not run"})
        role = _role_of(job)
        first = result.get("original", {})
        if role not in result or first.get("outcome") != "right":
            skipped.append(f"{name} ({job['launch']}): {result.get('trouble') or f'the original: {first}'}")
        elif role == "original":
            data["kernels"][name] = first
        else:
            left = {key: value for key, value in job.items() if key != "cubins"}
            data["mutants"].append(left | result["mutant"])
    data["refused"] = plan["refused"]
    return data, skipped


def rule(operator: str, kernel: Kernel) -> str:
    """The rules that are about an operator's fault in that kernel, or the one that tclint would need."""
    rules, wanted = OPERATORS[operator].rules, WANTED.get(operator)
    if "BK001" in rules and not kernel.sites("issue", "mbarrier"):
        wanted = _RACE  # the mbarrier is about what threads wrote
    return f"new: {wanted}" if wanted else ", ".join(sorted(rules))


def places(record: Record, kernel: Kernel, fault: Fault) -> frozenset[int]:
    """The lines at which a finding is in the right place: as the operator has them today, or as it had them."""
    for other in OPERATORS[record["operator"]].plant(kernel):
        if other.edits == fault.edits:
            return frozenset(kernel.line(kernel.span(i).start) for i in other.places)
    return frozenset(record["places"])


def judge(data: Record) -> None:
    """Ask tclint about every mutant, and whether it is proven to be equivalent."""
    for record in (*data["mutants"], *data["refused"]):
        kernel, fault = fault_of(record)
        mutant = apply(kernel.data, fault.edits)
        assert hashlib.sha256(mutant).hexdigest() == record["sha256"], f"{record['ptx']} has changed"
        rules, lines = OPERATORS[record["operator"]].rules, places(record, kernel, fault)
        before = original(record["ptx"])
        after = mutation.lint(KERNELS / record["ptx"], mutant)
        said = mutation.verdict(before, after, rules, lines)
        record["verdict"], record["new"] = said.result, said.new
        record["family"] = OPERATORS[record["operator"]].family
        record["rule"] = rule(record["operator"], kernel)
        proof = equivalent(kernel, fault)
        record["equivalent"] = proof.reason if proof else None


# ---------------------------------------------------------------- command line


def main(arguments: list[str] | None = None) -> int:
    """Prepare a folder, or read what came out of it; the exit status."""
    parser = command_line("benchmarks.hardware", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="plant, compile, list the jobs")
    first.add_argument("folder", type=Path)
    first.add_argument("--each", type=int, default=8, help="mutants of each operator (8)")
    first.add_argument("--seed", type=int, default=7)
    add_judgement(commands, "mutants")
    options = parser.parse_args(arguments)
    if options.command == "prepare":
        with ptxas.needing_ptxas():
            plan = prepare(options.folder, ptxas.find(), options.each, options.seed)
        count = sum("mutant" in job["cubins"] for job in plan["jobs"].values())
        print(f"{count} mutants; next, where the GPU is: python {options.folder}/run.py {options.folder}")
        return 0
    if options.command == "collect":
        data, skipped = collect(options.answer)
    else:
        record = results.recorded("hardware")
        data, skipped = record["data"], record["skipped"]
    judge(data)
    print(figure(data), "", *tables(data), sep="\n")
    print(*skipped, sep="\n", file=sys.stderr)
    if options.record:
        results.save("hardware", data, {"ptxas": data["ptxas"], "driver": data["driver"]}, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
