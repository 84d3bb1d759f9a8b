"""The fuzzer sees what it looks for, and finds nothing of it in the fixtures."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT

from benchmarks import fuzz
from benchmarks.fuzz import CHANGES, Change, changed, failure, runs
from tclint.finding import FileReport, Problem
from tclint.source import Source, SourceError

KERNELS = sorted((ROOT / "fixtures").glob("*.ptx"))
TEXT = KERNELS[0].read_bytes()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_changes_and_depends_on_the_seed_alone(change: Change) -> None:
    made = [change(random.Random(seed), TEXT) for seed in range(20)]
    assert made == [change(random.Random(seed), TEXT) for seed in range(20)]
    assert sum(data != TEXT for data in made) > 15
    for text in (b"", b"x", b";", b"{"):
        if text or change in CHANGES[4:]:
            change(random.Random(1), text)  # whatever was left of a kernel


def test_many_changes_leave_nothing_to_change() -> None:
    assert changed(random.Random(1), b"") == b""


def test_nothing_is_found_in_the_fixtures() -> None:
    found = [said for _, _, _, said in runs(KERNELS, 150, seed=3) if said]
    assert not found


HEADER = ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n.reg .pred %p<4>; .reg .b32 %r<9>;\n"
FAILED_ONCE = {
    "an election among no lanes": "elect.sync _|%p1, 4294967296;\n@%p1 bra L;\nbar.warp.sync -1;\nL: ret;\n}\n",
}


@pytest.mark.parametrize("name", FAILED_ONCE)
def test_what_failed_once(name: str) -> None:
    assert failure((HEADER + FAILED_ONCE[name]).encode(), 1e9) == ""


def crash(source: Source) -> FileReport:
    raise KeyError("x")


def refuse(source: Source) -> FileReport:
    raise SourceError("no")


def clean(source: Source) -> FileReport:
    return FileReport(path="a", source=source)


def partial(source: Source) -> FileReport:
    return FileReport(path="a", source=source, status="partial", problems=(Problem(1, "broken"),))


BROKEN = b".version 8.0\n.target sm_90\n.entry k() { @@@ ret; }"


@pytest.mark.parametrize(
    ("check", "data", "expected"),
    [
        (crash, TEXT, "KeyError in test_fuzz.py:"),
        (refuse, TEXT, ""),
        (clean, TEXT, ""),
        (clean, BROKEN, "broken text that looks clean"),
        (partial, BROKEN, ""),
    ],
)
def test_what_counts_as_a_failure(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[Source], FileReport], data: bytes, expected: str
) -> None:
    monkeypatch.setattr(fuzz, "check_source", check)
    said = failure(data, 1.0)
    assert said.startswith(expected) if expected else said == ""


def test_what_takes_far_longer_than_its_kernel_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((0.0, 3.0, 0.0, 3.0))
    monkeypatch.setattr(fuzz, "process_time", lambda: next(times))
    monkeypatch.setattr(fuzz, "check_source", clean)
    assert failure(TEXT, 0.2).startswith("slow")
    assert failure(TEXT, 1.0) == ""


def test_what_fails_is_kept_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*options: str) -> int:
        monkeypatch.setattr(sys, "argv", ["fuzz", str(ROOT / "fixtures"), "--runs", "5", *options])
        with pytest.raises(SystemExit) as exited:
            fuzz.main()
        return int(exited.value.code or 0)

    assert run() == 0
    monkeypatch.setattr(fuzz, "check_source", crash)
    assert run("--keep", str(tmp_path)) == 1
    assert "5 failures" in capsys.readouterr().out
    assert len(list(tmp_path.glob("1-*.ptx"))) == 3
