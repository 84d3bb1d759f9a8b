"""What SECURITY.md promises: each attempt in its table has a test, and the ones that no other module makes are here."""

from __future__ import annotations

import ast
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
    rows = [
        line
        for line in PAGE.splitlines()
        if line.startswith("| ") and not line.startswith(("| with", "| what |"))
    ]
    named = [re.findall(r"`(test_\w+)`", row) for row in rows]
    assert len(rows) >= 32
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


# ---------------------------------------------------------------- what is written

WRITERS = frozenset(
    "write_text write_bytes touch mkdir makedirs rename symlink_to hardlink_to mkstemp mkdtemp TemporaryDirectory"
    " TemporaryFile NamedTemporaryFile save savez tofile".split()
)
WRITERS_OF = {
    "os": frozenset("replace link symlink mkfifo truncate renames".split()),
    "shutil": frozenset("copy copy2 copyfile copytree move".split()),
}
C_WRITERS = re.compile(
    r"\b(?:mkdir|rename|creat|mkstemp|fopen\([^)]*\"[wa]e?\"|open\([^)]*O_(?:WRONLY|RDWR))"
)


def _writes(call: ast.Call) -> bool:
    """Whether a call creates or changes a file."""
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    of = (
        function.value.id
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
        else ""
    )
    if name == "open" and of == "os":
        return any(
            "O_WRONLY" in text or "O_RDWR" in text or "_APPEND" in text
            for text in map(ast.unparse, call.args)
        )
    if name in ("open", "fdopen"):
        texts = [
            a.value for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Constant)
        ]
        return any(
            isinstance(text, str) and re.fullmatch(r"[rwxab+t]*[wxa+][rwxab+t]*", text) for text in texts
        )
    return name in WRITERS or name in WRITERS_OF.get(of, ())


def test_only_the_listed_modules_write() -> None:
    table = PAGE.partition("## What tclint writes")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(tclint/[\w/]+\.\w+)`", table))
    python = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tclint").rglob("*.py")
        if any(
            isinstance(n, ast.Call) and _writes(n)
            for n in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    }
    c = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tclint").rglob("*.c")
        if path.parent.name == "injection" and C_WRITERS.search(path.read_text(encoding="utf-8"))
    }
    assert {"tclint/_write.py", "tclint/cache/store.py", "tclint/injection/build.py"} <= python
    assert c
    assert python | c <= listed
    assert all((ROOT / path).is_file() for path in listed)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_no_command_overwrites_its_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(DEFECT)
    Path("link").symlink_to("k.ptx")
    Path("hard").hardlink_to("k.ptx")
    Path("tclint-ptx.toml").write_text('baseline = "b.json"\n')
    assert invoke("baseline", "k.ptx", "--config", "pedantic = true")[0] == 0
    assert invoke("check", "k.ptx", "--output", "json=part.json", "--shard", "1/1")[0] == 0
    Path("s.toml").write_text("")
    Path("k.launch.toml").write_text("")
    kernel = ("k.ptx", "./k.ptx", "link", "hard", "tclint-ptx.toml", "b.json")
    attempts = [
        *(
            ("check", "k.ptx", *options)
            for name in kernel
            for options in (("-o", name), ("--output", f"json={name}"))
        ),
        ("check", "k.ptx", "--config", "s.toml", "-o", "s.toml"),
        ("check", "k.ptx", "--execute", "--launch", "k.launch.toml", "-o", "k.launch.toml"),
        ("merge", "part.json", "-o", "./part.json"),
        ("merge", "part.json", "-o", "b.json"),
        *(("show", "k.ptx", "-o", name) for name in kernel),
        *(("report", "k.ptx", "WG001", "-o", name) for name in kernel[:-1]),
        *(("baseline", "k.ptx", "-o", name) for name in kernel[:-1]),
    ]
    before = _files(tmp_path)
    for attempt in attempts:
        code, text = invoke(*attempt)
        assert code == 2, (attempt, text)
        assert _files(tmp_path) == before, attempt


def test_a_page_overwrites_no_source_that_it_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text("__global__ void k() {}\n" * 20)
    Path("k.ptx").write_text(DEFECT.replace("{\n", "{\n    .loc 1 12 3\n", 1) + '.file 1 "k.cu"\n')
    before = _files(tmp_path)
    code, text = invoke("show", "k.ptx", "--sources", ".", "-o", "k.cu")
    assert (code, "would be overwritten" in text) == (2, True), text
    assert _files(tmp_path) == before
    assert invoke("show", "k.ptx", "--sources", ".", "-o", "k.html")[0] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_the_log_and_the_reports_are_no_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "assembler"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    Path("k.ptx").write_text(DEFECT)
    before = _files(tmp_path)
    environment = os.environ | {"TCLINT_PTXAS": str(program)}
    for options in (["--log", "./k.ptx"], ["--reports", "k.ptx"]):
        command = [sys.executable, "-m", "tclint", "ptxas", *options, "--", "k.ptx"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert _files(tmp_path) == before
