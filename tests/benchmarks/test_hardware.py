"""Mutants on a GPU: the launches fit their kernels, hangs and faults are distinguished, and the record is consistent."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks import hardware, launch, ptxas, results
from benchmarks.faults import apply
from benchmarks.hardware_page import convicted, figure, tables
from tclint.findings.finding import Edit
from tclint.findings.spans import Span

PATH = results.RECORDS / "hardware.json"
LAUNCHES = hardware.launches()


@cache
def text(ptx: str) -> bytes:
    return (hardware.KERNELS / ptx).read_bytes()


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads(PATH.read_text(encoding="utf-8"))["data"]


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_fits_its_kernel(name: str) -> None:
    spec = LAUNCHES[name]
    names = {*spec["buffers"], *spec.get("maps", {})}
    for step in spec["launches"]:
        header = re.search(
            rf"\.entry {re.escape(step['entry'])}\((.*?)\)(.*?)\{{", text(spec["ptx"]).decode(), re.DOTALL
        )
        assert header is not None
        assert len(step["arguments"]) == header[1].count(".param")
        sizes = re.search(r"\.(?:req|max)ntid (\d+)", header[2])
        threads = 1
        for size in step["block"]:
            threads *= size
        assert not sizes or threads == int(sizes[1])
        cluster = re.search(r"\.reqnctapercluster (\d+)", header[2])
        assert step.get("cluster", [1]) == [int(cluster[1])] if cluster else "cluster" not in step
        for argument in step["arguments"]:
            assert argument in names if isinstance(argument, str) else argument.keys() <= launch.TYPES.keys()
    assert all(tensor["buffer"] in spec["buffers"] for tensor in spec.get("maps", {}).values())
    assert spec["expected"].keys() <= {*spec["buffers"], *spec.get("observed", {})}


@pytest.mark.parametrize("name", ["alone", "compact", "handed_over"])
def test_wrong_results_are_seen(name: str) -> None:
    pytest.importorskip("numpy", reason="results are computed with numpy")
    spec = LAUNCHES[name]
    given = launch.inputs(spec, 1)
    right = launch.expected(spec, given)
    kept = {"y": right["kept"]} if "kept" in right else {}
    assert launch.mistakes(spec, right, {**given, **right, **kept}) == (0, 0)
    assert launch.mistakes(spec, right, given)[0] > 0  # nothing was written
    other = launch.expected(spec, launch.inputs(spec, 2))
    kept = {"y": other["kept"]} if "kept" in other else {}
    assert launch.mistakes(spec, right, {**given, **other, **kept})[0] > 0


def done(role: str, number: int, wrong: int = 0, error: float = 0.0) -> list[dict[str, Any]]:
    return [
        {"role": role, "doing": number},
        {"role": role, "done": number, "wrong": wrong, "error": error},
    ]


@pytest.mark.parametrize(
    ("events", "hung", "said"),
    [
        (done("mutant", 0), False, {"outcome": "right", "launches": 1, "wrong": 0}),
        (
            [*done("mutant", 0), *done("mutant", 1, 7, 2.5)],
            False,
            {"outcome": "wrong", "launches": 2, "wrong": 1, "values": 7, "error": 2.5},
        ),
        (
            [*done("mutant", 0, 9, float("inf")), {"role": "mutant", "doing": 1}],
            True,
            {"outcome": "hang", "launches": 1, "wrong": 1, "values": 9, "error": "not a number"},
        ),
        (
            [{"role": "mutant", "doing": 0}, {"role": "mutant", "fault": "CUDA_ERROR_LAUNCH_FAILED"}],
            False,
            {"outcome": "fault", "fault": "CUDA_ERROR_LAUNCH_FAILED", "launches": 0, "wrong": 0},
        ),
        (
            [{"role": "mutant", "doing": 0}],
            False,
            {"outcome": "fault", "fault": "exit status -11", "launches": 0, "wrong": 0},
        ),
    ],
)
def test_what_happened_is_named(events: list[dict[str, Any]], hung: bool, said: dict[str, Any]) -> None:
    found = launch.summary([*done("original", 0), *events], hung, -11)
    assert found == {"original": {"outcome": "right", "launches": 1, "wrong": 0}, "mutant": said}


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "stands_still.py"
    lines = [json.dumps(event) for event in (*done("original", 0), {"role": "mutant", "doing": 0})]
    script.write_text(f"import time\nprint({chr(10).join(lines)!r}, flush=True)\ntime.sleep(60)\n")
    monkeypatch.setattr(launch, "__file__", str(script))
    said = launch.attend(tmp_path, "job", 1, 0.2)
    assert said["mutant"]["outcome"] == "hang"
    assert said["original"]["outcome"] == "right"


def test_mutants_are_prepared_and_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        tool = ptxas.find()
    except ptxas.PtxasMissing as error:
        pytest.skip(str(error))
    operators = ("griddepcontrol.wait deleted", "branch target renamed", "tcgen05.wait::ld deleted")
    monkeypatch.setattr(hardware, "launches", lambda: {"before_after": LAUNCHES["before_after"]})
    monkeypatch.setattr(hardware, "OPERATORS", {name: hardware.OPERATORS[name] for name in operators})
    plan = hardware.prepare(tmp_path, tool, each=1, seed=7)
    mutants = {name: job for name, job in plan["jobs"].items() if "mutant" in job["cubins"]}
    assert len(mutants) == 2
    assert plan["absent"] == ["tcgen05.wait::ld deleted"]
    assert {job["operator"] for job in plan["refused"]} == {"branch target renamed"}
    assert (tmp_path / "run.py").read_text() == Path(launch.__file__).read_text()
    right = {"outcome": "right", "launches": 5, "wrong": 0}
    lines: list[dict[str, Any]] = [{"device": "D", "driver": "1", "launches": 5, "limit": 10}]
    for name, job in plan["jobs"].items():
        assert all((tmp_path / cubin).read_bytes()[:4] == b"\x7fELF" for cubin in job["cubins"].values())
        lines.append({"job": name, "original": right, **({"mutant": right} if name in mutants else {})})
    lines[-1]["original"] = right | {"outcome": "wrong"}
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data, skipped = hardware.collect(tmp_path)
    assert len(data["mutants"]) == 1
    assert len(skipped) == 1
    assert "the original" in skipped[0]


def test_what_hopper_cannot_run_is_not_launched() -> None:
    left = LAUNCHES.keys() - hardware.for_hopper().keys()
    assert left
    assert all(re.search(rb"^\.target sm_1\d\d", text(LAUNCHES[name]["ptx"]), re.MULTILINE) for name in left)


def test_enough_mutants_were_launched(record: Any) -> None:
    assert len(record["mutants"]) >= 150
    assert {m["launch"] for m in record["mutants"]} <= LAUNCHES.keys()
    assert record["kernels"].keys() <= hardware.for_hopper().keys()
    assert all(said["outcome"] == "right" for said in record["kernels"].values())


def test_every_operator_was_launched_or_has_no_place(record: Any) -> None:
    launched = {m["operator"] for m in record["mutants"]}
    refused = {m["operator"] for m in record["refused"]}
    assert not {*launched, *refused} & set(record["absent"])
    assert not (hardware.OPERATORS.keys() & record["absent"]) & hardware.WANTED.keys()


def test_every_equivalent_mutant_came_out_right(record: Any) -> None:
    proven = [m for m in record["mutants"] if m["equivalent"]]
    assert proven
    assert not [(m["operator"], m["launch"], m["line"]) for m in proven if convicted(m)]


def test_the_same_machine_code_came_out_right(record: Any) -> None:
    assert not [m for m in record["mutants"] if m["same_code"] and convicted(m)]


def test_every_convicted_mutant_has_a_rule(record: Any) -> None:
    guilty = [m for m in record["mutants"] if convicted(m)]
    assert guilty
    assert all(re.fullmatch(r"new: [\w-]+|[A-Z]{2}\d{3}(, [A-Z]{2}\d{3})*", m["rule"]) for m in guilty)
    page = "\n".join(tables(record))
    for operator in {m["operator"] for m in guilty if m["verdict"] != "found"}:
        assert f"| {operator} |" in page


def test_the_page_counts_what_the_record_has(record: Any) -> None:
    outcomes = Counter(m["outcome"] for m in record["mutants"])
    assert outcomes.keys() <= {"right", "wrong", "hang", "fault"}
    page = figure(record)
    assert f"{len(record['mutants']) - outcomes['right']} mutants are convicted" in page


def test_the_recorded_mutants_are_those_of_the_kernels(record: Any) -> None:
    for mutant in (*record["mutants"], *record["refused"]):
        edits = tuple(Edit(Span(start, end), new) for start, end, new in mutant["edits"])
        changed = apply(text(mutant["ptx"]), edits)
        assert hashlib.sha256(changed).hexdigest() == mutant["sha256"], mutant["note"]


def test_without_a_record_there_is_nothing_to_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    with pytest.raises(SystemExit, match=r"no hardware\.json: prepare, run and collect first"):
        hardware.main(["judge"])
