"""The counts of machine instructions: what is compared, and with which record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import instructions
from benchmarks.results import ROOT


def test_more_than_the_tolerance_is_a_failure() -> None:
    said = dict(instructions.compare({"a": 1_000_000_000}, {"a": 1_031_000_000}))
    assert said == {True: "a: 1,031 million instructions, +3.1% of the record"}
    assert [failed for failed, _ in instructions.compare({"a": 1000}, {"a": 1029})] == [False]
    assert [failed for failed, _ in instructions.compare({"a": 1000}, {"a": 500})] == [False]


def test_a_case_that_only_one_of_both_has_is_a_failure() -> None:
    assert [failed for failed, _ in instructions.compare({"old": 1}, {"new": 1})] == [True, True]


def test_the_record_has_every_case() -> None:
    record = json.loads(instructions.RECORD.read_text(encoding="utf-8"))
    assert record["counts"].keys() == {*instructions.CASES, f"{instructions.REPEATED}, again"}
    assert all((ROOT / "fixtures" / name).is_file() for name in instructions.CASES.values())


def test_a_record_of_other_software_is_not_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = json.loads(instructions.RECORD.read_text(encoding="utf-8"))["surroundings"]
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(instructions, "surroundings", lambda: {**recorded, "click": "0.1"})
    monkeypatch.setattr(instructions, "counts", lambda: pytest.fail("counted"))
    assert instructions.main([]) == 0
    assert capsys.readouterr().out == "nothing is compared: the record is of another click\n"


def test_without_valgrind_nothing_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert instructions.main([]) == 1
    assert capsys.readouterr().err == "Error: valgrind is not installed\n"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_run_is_counted_from_its_start(tmp_path: Path) -> None:
    fixture = instructions.CASES["start"]
    instructions._run(fixture, tmp_path)
    again = instructions._count(fixture, tmp_path)
    assert again > 100_000_000  # the interpreter alone takes 38 million
    with pytest.raises(ValueError, match="exit status 2"):
        instructions._run("no such fixture.ptx", tmp_path)
