"""compute-sanitizer: what its tools print is read, launches are ended, and the record is consistent."""

from __future__ import annotations

import hashlib
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import hardware, launch, results, sanitize, sanitizer
from benchmarks.faults import apply

PATH = results.RECORDS / "sanitizer.json"
RACE = """
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at staged+0x640
=========     and Read access at staged+0x920 [1216512 hazards]
========= Warning: Race reported between Write access at staged+0x870
=========     and Read access at staged+0xb80 [230400 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
BARRIER = """
========= COMPUTE-SANITIZER
========= Barrier error detected. Missing wait.
=========     at staged+0x760
=========     by thread (96,0,0) in block (8,0,0)
========= Barrier error detected. Missing wait.
========= ERROR SUMMARY: 32986 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""
EXITED = """
========= Potential invalid __shared__ read of size 4 bytes
=========     Address 0x400 is located in a block that might have already exited
"""


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads(PATH.read_text(encoding="utf-8"))["data"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> None:
    """``launch.py`` under the name that it has in the folder of a launch."""
    monkeypatch.setitem(sys.modules, "run", launch)


@pytest.mark.parametrize(
    ("output", "kinds"),
    [
        (RACE, ["race (error)", "race (warning)"]),
        (BARRIER, ["missing wait"]),
        (EXITED, ["potential invalid __shared__ read"]),
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", []),
        ("========= ERROR SUMMARY: 0 errors", []),
    ],
)
def test_each_kind_of_report_is_read_once(output: str, kinds: list[str]) -> None:
    assert sanitize.reports(output.splitlines()) == kinds


def events(*last: dict[str, Any]) -> str:
    return "\n".join(json.dumps({"role": "mutant", **event}) for event in ({"doing": 0}, *last))


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("output", "hung", "said"),
    [
        (events({"done": 0, "wrong": 0, "error": 0.0}), False, {"outcome": "right", "reports": []}),
        (
            f"{RACE}\n{events({'done': 0, 'wrong': 9, 'error': 1.0})}",
            False,
            {"outcome": "wrong", "reports": ["race (error)", "race (warning)"]},
        ),
        (
            f"{events({'fault': 'CUDA_ERROR_LAUNCH_FAILED'})}\n{BARRIER}",
            False,
            {"outcome": "fault", "reports": ["missing wait"]},
        ),
        (events(), True, {"outcome": "hang", "reports": []}),
        ("========= COMPUTE-SANITIZER", True, {"trouble": "no launch"}),
        ("Device not supported", False, {"trouble": "Device not supported"}),
    ],
)
def test_an_outcome_is_that_of_the_launch_and_not_of_the_tool(
    output: str, hung: bool, said: dict[str, Any]
) -> None:
    assert sanitize.outcome(output.splitlines(), hung, 1) == said


@pytest.mark.usefixtures("run")
@pytest.mark.skipif(sys.platform == "win32", reason="process groups of POSIX")
def test_a_launch_that_hangs_is_ended_with_its_processes(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\necho '{events()}'\nsleep 60 & wait\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    said = sanitize.attend(tmp_path, "m0001", "racecheck", str(tool), 1)
    assert said == {"job": "m0001", "tool": "racecheck", "outcome": "hang", "reports": []}


def folder(tmp_path: Path) -> Path:
    """The folder of a kernel and a mutant of it, of which one tool was not run."""
    jobs = {
        "staged": {"launch": "staged", "cubins": {"original": "a.cubin"}},
        "m0001": {
            "launch": "staged",
            "operator": "o",
            "cubins": {"original": "a.cubin", "mutant": "b.cubin"},
        },
    }
    plan = {"ptxas": "13.5", "seed": 37, "launches": {}, "jobs": jobs}
    (tmp_path / "jobs.json").write_text(json.dumps(plan))
    lines: list[dict[str, Any]] = [
        {"device": "D", "driver": "1", "cuda-bindings": "2", "sanitizer": "3", "limit": 9},
        {"job": "staged", "tool": "racecheck", "outcome": "right", "reports": []},
        {"job": "staged", "tool": "synccheck", "outcome": "fault", "reports": ["missing wait"]},
        {
            "job": "m0001",
            "tool": "synccheck",
            "outcome": "fault",
            "reports": ["barrier overflow", "missing wait"],
        },
        {"job": "m0001", "tool": "racecheck", "trouble": "no launch"},
    ]
    (tmp_path / "sanitizer.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def test_reports_of_the_original_are_not_counted(tmp_path: Path) -> None:
    data, skipped = sanitizer.collect(folder(tmp_path))
    (mutant,) = data["mutants"]
    assert sanitizer.reported(data, mutant, "synccheck") == ["barrier overflow"]
    assert sanitizer.reported(data, mutant, "racecheck") == []
    assert skipped == ["1 of 2 launches under racecheck"]
    assert "cuda-bindings" not in data


@pytest.mark.parametrize(("new", "row"), [([], "| o | staged:7 | barrier overflow |"), (["MB006"], "None.")])
def test_a_mutant_that_only_a_tool_reports_has_a_row(tmp_path: Path, new: list[str], row: str) -> None:
    data, _ = sanitizer.collect(folder(tmp_path))
    data["mutants"][0] |= {"family": "mbarrier", "line": 7, "new": new}
    page = "\n".join(sanitizer.tables(data))
    assert row in page
    assert f"| mbarrier | 1 | 0 | 1 | 1 | {len(new)} |" in page
    assert "| staged | synccheck | missing wait | not a missing wait" in page


def test_every_report_of_a_kernel_that_is_right_is_judged(record: Any) -> None:
    reports = {
        (name, tool)
        for name, tools in record["kernels"].items()
        for tool, said in tools.items()
        if said["reports"]
    }
    assert reports == sanitizer.ORIGINALS.keys()
    assert record["kernels"].keys() == hardware.for_hopper().keys()


def test_the_recorded_mutants_are_those_of_the_kernels(record: Any) -> None:
    for mutant in record["mutants"]:
        kernel, fault = hardware.fault_of(mutant)
        assert hashlib.sha256(apply(kernel.data, fault.edits)).hexdigest() == mutant["sha256"], mutant["note"]


def test_tclint_finds_what_the_tools_report(record: Any) -> None:
    assert "None." in sanitizer.tables(record)


def test_without_a_record_no_mutant_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    with pytest.raises(SystemExit, match=r"no sanitizer\.json"):
        sanitizer.main(["judge"])
