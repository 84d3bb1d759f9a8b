"""What SECURITY.md promises: each attempt in its table has a test, and the ones that no other module makes are here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.command import invoke
from tests.tools.project import ROOT

PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
DEFECT = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text(encoding="utf-8")


def test_each_attempt_has_a_test_that_exists() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith(("| a", "| the"))]
    named = [re.findall(r"`(test_\w+)`", row) for row in rows]
    assert len(rows) >= 14
    assert all(named), rows
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {name for names in named for name in names} <= there


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCLINT_NO_CACHE", "1")


@pytest.mark.parametrize("name", ["json", "sarif", "gitlab", "junit"])
@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_lone_surrogates_never_reach_json(tmp_path: Path, name: str) -> None:
    (tmp_path / "k\udcff.ptx").write_text(DEFECT)
    (tmp_path / "k\udcff.json").write_text('{"name": "\\ud800k", "num_warps": 4}')
    _, text = invoke("check", "--output-format", name, str(tmp_path))
    assert "k" in text
    text.encode()
    assert not re.search(r"\\ud[89a-f]", text)
    baseline = tmp_path / "b.json"
    assert invoke("baseline", "--output", str(baseline), str(tmp_path))[0] == 0
    assert not re.search(r"\\ud[89a-f]", baseline.read_text())
    assert (
        json.loads(invoke("check", "--output-format", "json", "--baseline", str(baseline), str(tmp_path))[1])[
            "summary"
        ]["rules"]
        == {}
    )


HOSTILE = [
    b"x = " + b"9" * 5000,
    b"x = " + b"[" * 100_000,
    b"\xff\xfe",
    b"[[select]]",
    b"select = [[[]]]",
    b'import = "os"',
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_configuration_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(DEFECT)
    Path("tclint-ptx.toml").write_bytes(data)
    code, text = invoke("check", "k.ptx")
    assert (code, len(text.splitlines())) == (2, 1), text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_fifo_is_not_read_as_a_configuration_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tclint._read._MAX_FIFO_SECONDS", 0.2)
    Path("k.ptx").write_text(DEFECT)
    os.mkfifo("tclint-ptx.toml")
    assert invoke("check", "k.ptx")[0] == 1
    code, text = invoke("check", "--config", "tclint-ptx.toml", "k.ptx")
    assert (code, len(text.splitlines())) == (2, 1), text
    assert "no process opened this FIFO" in text


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"\xff",
        b'{"schema": 1, "findings": [7]}',
        b'{"schema": 1e999, "findings": []}',
        b"1" * 5000,
        None,
    ],
    ids=range(6),
)
def test_a_hostile_baseline_is_one_line(tmp_path: Path, data: bytes | None) -> None:
    (tmp_path / "k.ptx").write_text(DEFECT)
    path = tmp_path / "b.json"
    if data is not None or not hasattr(os, "mkfifo"):
        path.write_bytes(data or b"\xff")
    else:
        os.mkfifo(path)
    code, text = invoke("check", "--baseline", str(path), str(tmp_path / "k.ptx"))
    assert (code, len(text.splitlines())) == (2, 1), text


@pytest.mark.skipif(shutil.which("git") is None or sys.platform == "win32", reason="needs git and a shell")
def test_git_runs_nothing_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    hook.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(hook)], check=True)
    Path("k.ptx").write_text(DEFECT.replace("{\n", "{\n    .loc 1 12 3\n", 1) + '.file 1 "k.cu"\n')
    assert invoke("check", "--locate", "auto", "k.ptx")[0] == 1
    assert not (tmp_path / "ran").exists()
    subprocess.run(["git", "ls-files"], check=True, capture_output=True)
    subprocess.run(["git", "status"], check=False, capture_output=True)
    assert (tmp_path / "ran").exists()  # else the hook would prove nothing
