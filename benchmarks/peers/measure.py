"""The measurements: time, memory and coverage on the same files, and the same planted faults for every tool."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.corpus.builder import Skipped
from benchmarks.faults import OPERATORS, apply
from benchmarks.mutation import lint, verdict
from benchmarks.peers.respell import respelled
from benchmarks.peers.sample import FIXTURES, Launch, drawn, launches, of_kernels, planted
from benchmarks.peers.tools import Answer, PtxasTool, Pyptx, SentryWard, Tclint, Tool, fresh, judged
from benchmarks.processes import Launcher
from benchmarks.ptxas import PtxasMissing
from tclint.findings.finding import Edit, FileReport
from tclint.findings.spans import Span

__all__ = ["measure", "tools"]

ROOT = Path(__file__).resolve().parents[2]
Say = Callable[[str], None]
Data = dict[str, Any]


def tools(cache: Path) -> tuple[list[Tool], SentryWard | None, list[str]]:
    """What can be used here: those that take any file, SentryWard, and why the others are skipped."""
    found: list[Tool] = [Tclint()]
    skipped = []
    try:
        ptxas = PtxasTool()
        ptxas.version  # noqa: B018  (does it run?)
        found.append(ptxas)
    except PtxasMissing as error:
        skipped.append(f"ptxas: {error}")
    try:
        found.append(Pyptx(cache))
    except Skipped as why:
        skipped.append(f"pyptx: {why}")
    try:
        ward = SentryWard(cache)
    except Skipped as why:
        return found, None, [*skipped, f"SentryWard: {why}"]
    return found, ward, skipped


def measure(
    folder: Path,
    cache: Path,
    *,
    limit: int = 60,
    each: int = 3,
    seed: int = 7,
    say: Say = print,
) -> tuple[Data, dict[str, str], list[str]]:
    """What the record holds, the versions of the tools, and what was skipped and why.

    *limit* files are drawn from *folder*, *each* faults planted of every operator.
    """
    present, ward, skipped = tools(cache)
    for reason in skipped:
        say(f"skipped: {reason}")
    sample = drawn(folder, limit, seed)
    if not sample:
        skipped.append(
            f"the sample of the corpus: no PTX in the subfolders of {folder}; only fixtures/kernels were read"
        )
        say(f"skipped: {skipped[-1]}")
    files = [*sorted(FIXTURES.glob("*.ptx")), *sample]
    data: Data = {"seed": seed, "each": each, "files": [], "launches": [], "mutants": []}
    with Launcher() as launcher, tempfile.TemporaryDirectory() as scratch:
        answers = _files(data, files, present, launcher, say)
        _in_process(data, files, present)
        described = _launches(data, launches(), ward, launcher, Path(scratch), say)
        plan = planted(files, each, seed, Path(scratch, "sample"))
        passed = {
            (str(launch.file), launch.entry): launch
            for launch, about in described
            if about["respelled"]["result"] == SentryWard.PASSED
        }
        # Many are drawn because few of them lie in kernels that SentryWard can be asked about.
        wide = planted(
            sorted({launch.file for launch in passed.values()}), 40 * each, seed, Path(scratch, "described")
        )
        ours = of_kernels(wide, set(passed), each)
        for group, records in (("sample", plan), ("described", ours)):
            for number, record in enumerate(sorted(records, key=lambda r: (r["file"], r["operator"]))):
                say(
                    f"{group} {number + 1}/{len(records)}: {record['operator']} in {Path(record['file']).name}"
                )
                launch = passed.get((record["file"], record["entry"])) if group == "described" else None
                one = _mutant(record, present, answers, launcher, Path(scratch))
                if launch is not None and ward is not None:
                    one["sentryward"] = _ward(record, ward, launch, launcher, Path(scratch))
                data["mutants"].append({"group": group} | one)
    versions = {tool.name: tool.version for tool in present if tool.name != "tclint"}
    return data, versions | ({ward.name: ward.version} if ward else {}), skipped


def _name(path: Path) -> str:
    """Producer and file, without the folder of this machine."""
    return f"{path.parent.name}/{path.name}"


def _files(
    data: Data, files: Sequence[Path], present: Sequence[Tool], launcher: Launcher, say: Say
) -> dict[tuple[str, str], Answer]:
    """Each tool on each file, in a process of its own. The answers by tool and file."""
    answers = {}
    for number, path in enumerate(files):
        say(f"file {number + 1}/{len(files)}: {_name(path)}")
        row: Data = {"file": _name(path), "bytes": path.stat().st_size, "tools": {}}
        for tool in present:
            run, answer = judged(tool, launcher, path)
            answers[tool.name, str(path)] = answer
            row["tools"][tool.name] = {
                "wall": run.wall,
                "cpu": run.cpu,
                "peak": run.peak,
                "refused": answer.refused,
                "said": len(answer.said),
                "examples": sorted({s[:160] for s in answer.said})[:3],
            }
        data["files"].append(row)
    return answers


def _in_process(data: Data, files: Sequence[Path], present: Sequence[Tool]) -> None:
    """tclint and pyptx once more, each with all files in one process, which leaves the start out of the seconds."""
    readers = {"tclint": [sys.executable, "-m", "benchmarks.peers.tclint_reader"]}
    readers |= {t.name: [str(t.python), str(t.reader)] for t in present if isinstance(t, Pyptx)}
    for name, command in readers.items():
        names = [str(path) for path in files]
        run = subprocess.run([*command, *names], check=True, capture_output=True, text=True, cwd=ROOT)
        for row, line in zip(data["files"], run.stdout.splitlines(), strict=True):
            said = json.loads(line)
            if not said["refused"]:
                seconds = {k: round(v, 5) for k, v in said.items() if isinstance(v, float)}
                row["tools"][name]["in process"] = seconds


def _launches(
    data: Data,
    found: Sequence[Launch],
    ward: SentryWard | None,
    launcher: Launcher,
    scratch: Path,
    say: Say,
) -> list[tuple[Launch, Data]]:
    """SentryWard on the described kernels: the files as they stand, and respelled."""
    if ward is None:
        return []
    described = []
    for launch in found:
        say(f"sentryward: {launch.entry} of {launch.file.name}")
        other = scratch / launch.file.name
        other.write_text(respelled(launch.file.read_text()))
        about = {
            "file": _name(launch.file),
            "entry": launch.entry,
            "as it stands": ward.verdict(launcher, launch.file, launch.input),
            "respelled": ward.verdict(launcher, other, launch.input),
        }
        data["launches"].append(about)
        described.append((launch, about))
    return described


def _mutant(
    record: Data,
    present: Sequence[Tool],
    answers: dict[tuple[str, str], Answer],
    launcher: Launcher,
    scratch: Path,
) -> Data:
    """What each tool says of one planted fault that it did not say of the original."""
    path = Path(record["file"])
    data = path.read_bytes()
    changed = apply(data, _edits(record))
    rules = OPERATORS[record["operator"]].rules
    ours = verdict(_linted(path), lint(path, changed), rules, frozenset(record["places"]))
    one: Data = {
        "operator": record["operator"],
        "file": _name(path),
        "entry": record["entry"],
        "line": record["line"],
        "note": record["note"][:100],
        "edits": [(a, b, text.strip()[:200]) for a, b, text in record["edits"]],
        "tclint": {
            "found": ours.result == "found",
            "verdict": ours.result,
            "new": [s[:160] for s in ours.new[:3]],
        },
    }
    mutant = scratch / path.name  # the same name, so that messages that quote it do not differ
    mutant.write_bytes(changed)
    for tool in present[1:]:
        before = answers[tool.name, str(path)]
        if before.refused:
            one[tool.name] = {"found": False, "verdict": "refuses the original"}
            continue
        said = fresh(before, judged(tool, launcher, mutant)[1])
        one[tool.name] = {"found": bool(said), "new": [s[:160] for s in said[:3]]}
    return one


@cache
def _linted(path: Path) -> FileReport:
    return lint(path, path.read_bytes())


def _ward(record: Data, ward: SentryWard, launch: Launch, launcher: Launcher, scratch: Path) -> Data:
    """SentryWard's result for one planted fault in a kernel that it passes."""
    mutant = scratch / launch.file.name
    changed = apply(launch.file.read_bytes(), _edits(record))
    mutant.write_text(respelled(changed.decode()))
    said = ward.verdict(launcher, mutant, launch.input)
    return {
        "found": said["result"] not in (ward.PASSED, *ward.SILENT),
        "defect": said["result"] in ward.DEFECTS,
        "result": said["result"],
        "reason": said["reason"].replace(str(scratch), "")[:160],
        "cpu": said["cpu"],
    }


def _edits(record: Data) -> tuple[Edit, ...]:
    return tuple(Edit(Span(a, b), text) for a, b, text in record["edits"])
