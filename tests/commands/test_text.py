"""``tclint format`` and ``tclint reduce`` as users run them: files, exit codes, messages, interrupts."""

from __future__ import annotations

import gzip
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tools.command import invoke, started
from tests.tools.project import ROOT

UNTIDY = b".version 8.0\r\n.target sm_90a\r\n.entry k(){ ret; }"
TIDY = b".version 8.0\r\n.target sm_90a\r\n.entry k()\r\n{\r\n\tret;\r\n}\r\n"
KERNEL = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_bytes()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_bytes(UNTIDY)
    return tmp_path


def test_files_are_rewritten_and_only_if_something_changes() -> None:
    Path("k.ptx").chmod(0o640)
    Path("link.ptx").symlink_to("k.ptx")
    assert invoke("format", "link.ptx")[0] == 0
    assert Path("k.ptx").read_bytes() == TIDY
    assert Path("link.ptx").is_symlink()
    assert stat.S_IMODE(os.stat("k.ptx").st_mode) == 0o640
    before = os.stat("k.ptx")
    assert "0 files formatted, 2 unchanged." in invoke("format")[1]
    after = os.stat("k.ptx")
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert sorted(os.listdir()) == ["k.ptx", "link.ptx"]


def test_check_and_diff_change_nothing() -> None:
    code, text = invoke("format", "--check", ".")
    assert (code, text) == (1, "would format ./k.ptx\n1 file would be formatted, 0 unchanged.\n")
    code, text = invoke("format", "--diff", "k.ptx")
    assert code == 1
    assert "--- k.ptx\n+++ k.ptx\n" in text
    assert "+\tret;\n" in text
    assert Path("k.ptx").read_bytes() == UNTIDY
    invoke("format", "k.ptx")
    assert invoke("format", "--check", "--diff", "k.ptx")[0] == 0


def test_standard_input_goes_to_standard_output(folder: Path) -> None:
    for options, wanted in ((("-",), TIDY), (("--normalize", "-"), TIDY)):
        done = started(("format", *options), folder, dict(os.environ), text=False, stdin=None, input=UNTIDY)
        assert (done.returncode, done.stdout) == (0, wanted)
    done = started(("format", "-"), folder, dict(os.environ), text=False, stdin=None, input=b".entry k() {\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.splitlines()[0].startswith(b"error: <stdin>:1: syntax error: ")


def test_the_normal_form_is_printed() -> None:
    Path("k.ptx").write_bytes(KERNEL)
    code, text = invoke("format", "--normalize", "k.ptx")
    assert (code, ".reg .pred \t%p<2>;" in text, "//" in text) == (0, True, False)
    assert Path("k.ptx").read_bytes() == KERNEL
    for arguments in (("k.ptx", "--check"), ("k.ptx", "k.ptx"), (".",), ()):
        code, text = invoke("format", "--normalize", *arguments)
        assert (code, len(text.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("b.ptx", b".entry k() {", "b.ptx:1: syntax error: "),
        ("b.ptx", b".version 8.0 \0 x", "is binary"),
        ("b.ptx", b".version\xff8.0", "not UTF-8"),
        ("b.ptx", b"\x7fELF", "is an ELF file"),
        ("b.cu", b"__global__ void k() {}", "is not PTX by its name"),
        ("b.ptx.gz", gzip.compress(UNTIDY, mtime=0), "the file is compressed"),
    ],
)
def test_what_cannot_be_formatted_is_left_as_it_is_with_a_line(name: str, data: bytes, reason: str) -> None:
    Path(name).write_bytes(data)
    code, text = invoke("format", "k.ptx", name)
    assert (code, Path(name).read_bytes(), Path("k.ptx").read_bytes()) == (2, data, TIDY)
    (line, _) = text.splitlines()
    assert reason in line


def test_a_file_with_another_hard_link_is_left_as_it_is() -> None:
    os.link("k.ptx", "other.ptx")
    code, text = invoke("format", "k.ptx")
    assert (code, "another hard link" in text, Path("k.ptx").read_bytes()) == (2, True, UNTIDY)


def test_what_ends_the_text_and_the_mark_that_begins_it_stay() -> None:
    Path("k.ptx").write_bytes(b"\xef\xbb\xbf" + UNTIDY + b"\0")
    assert invoke("format", "k.ptx")[0] == 0
    assert Path("k.ptx").read_bytes() == b"\xef\xbb\xbf" + TIDY + b"\0"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_fifo_is_not_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tclint._read._MAX_FIFO_SECONDS", 0.2)
    os.mkfifo("pipe.ptx")
    assert invoke("format", ".")[0] == 0
    code, text = invoke("format", "pipe.ptx")
    assert (code, "no process opened this FIFO" in text) == (2, True)


def test_excluded_files_are_not_formatted() -> None:
    assert invoke("format", "--exclude", "k.ptx", ".") == (0, "")
    assert Path("k.ptx").read_bytes() == UNTIDY


# ---------------------------------------------------------------- reduce

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
MMA = ("grep", "-q", "wgmma.mma_async")


@posix
@pytest.mark.parametrize("options", [(), ("--jobs", "2")])
def test_the_result_is_beside_the_kernel(options: tuple[str, ...]) -> None:
    Path("k.ptx").write_bytes(KERNEL)
    code, text = invoke("reduce", "k.ptx", *options, "--", *MMA)
    assert (code, text.count("\n")) == (0, 1)
    assert text.startswith("k.reduced.ptx: 1 of 27 instructions (3.7%), 2")
    assert text.endswith(" calls; no statement can be taken out.\n")
    left = Path("k.reduced.ptx").read_text()
    assert ("wgmma.mma_async" in left, left.count(";")) == (True, 3)
    assert Path("k.ptx").read_bytes() == KERNEL
    assert sorted(os.listdir()) == ["k.ptx", "k.reduced.ptx"]


@posix
def test_a_kernel_from_which_nothing_can_be_taken_is_the_result() -> None:
    Path("k.ptx").write_bytes(KERNEL)
    assert invoke("reduce", "k.ptx", "-o", "r.ptx", "--", "cmp", "-s", "k.ptx")[0] == 0
    assert Path("r.ptx").read_bytes() == KERNEL


@posix
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("false",), "the command exits with 1 for k.ptx as it is"),
        (("sh", "-c", "kill -9 $$"), "the command is killed by signal 9 for k.ptx as it is"),
        (("sleep 9 ; :", "{}"), "sleep 9 ; : cannot be run"),
        (("sh", "-c", "sleep 9"), "the command exceeds --seconds for k.ptx as it is"),
        (
            ("sh", "-c", "test -e once && exit 1; touch once"),
            "the command is flaky: for k.ptx it exits with 0 and then",
        ),
        ((), "There is no COMMAND"),
    ],
)
def test_a_command_of_no_use_is_refused(command: tuple[str, ...], reason: str) -> None:
    code, text = invoke("reduce", "k.ptx", "--seconds", "0.5", "--", *command)
    assert (code, reason in text) == (2, True), text
    assert not Path("k.reduced.ptx").exists()


@posix
def test_a_command_that_says_something_else_in_the_end_is_reported() -> None:
    Path("k.ptx").write_bytes(KERNEL)
    flaky = "echo >> calls; test $(wc -l < calls) -le 4"
    code, text = invoke("reduce", "k.ptx", "--", "sh", "-c", flaky)
    assert (code, "the command is flaky: for k.reduced.ptx it exited with 0, and now" in text) == (2, True)


@posix
def test_no_input_is_overwritten() -> None:
    os.link("k.ptx", "hard.ptx")
    Path("link.ptx").symlink_to("k.ptx")
    for output in ("k.ptx", "./k.ptx", "hard.ptx", "link.ptx", "absent/x.ptx", "."):
        code, text = invoke("reduce", "k.ptx", "-o", output, "--", "true")
        assert (code, "--output: " in text, Path("k.ptx").read_bytes()) == (2, True, UNTIDY)
    assert "--output is needed" in invoke("reduce", "-", "--", "true")[1]


@posix
def test_the_name_of_the_kernel_never_reaches_the_command() -> None:
    name = "-rf $(touch owned) `touch owned`;\n.ptx"
    Path(name).write_bytes(KERNEL)
    record = "echo {} >> paths; grep -q wgmma.mma_async {}"
    assert invoke("reduce", "-o", "r.ptx", f"./{name}", "--", "sh", "-c", record)[0] == 0
    paths = Path("paths").read_text().split()
    assert all(os.path.isabs(path) and path.endswith("/kernel.ptx") for path in paths)
    assert sorted(os.listdir()) == sorted([name, "k.ptx", "paths", "r.ptx"])


@posix
def test_a_kernel_that_cannot_be_read_or_parsed_is_an_error() -> None:
    for name, data in (("absent.ptx", None), ("b.ptx", b".entry k() {")):
        if data is not None:
            Path(name).write_bytes(data)
        code, text = invoke("reduce", name, "--", "true")
        assert (code, len(text.splitlines())) == (2, 1)
        assert text.startswith(name)


@posix
def test_the_limit_of_calls_ends_the_run() -> None:
    Path("k.ptx").write_bytes(KERNEL)
    code, text = invoke("reduce", "k.ptx", "--max-calls", "6", "--", *MMA)
    assert (code, "after 6 calls; stopped before nothing more can be taken out." in text) == (0, True)
    assert b"wgmma.mma_async" in Path("k.reduced.ptx").read_bytes()


@posix
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_keeps_the_best_result(folder: Path, number: int, status: int, jobs: str) -> None:
    Path("k.ptx").write_bytes(KERNEL)
    slow = "grep -q wgmma.mma_async {} || exit 1; echo >> calls; test $(wc -l < calls) -lt 6 || sleep 60"
    # A shell that starts the tests in the background has them ignore SIGINT, which their processes inherit.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from tclint.commands._cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", heeding, "reduce", "k.ptx", "--jobs", jobs, "--", "sh", "-c", slow],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONPATH": str(ROOT)},
    )
    deadline = time.monotonic() + 40
    while Path("calls").read_text().count("\n") < 6 if Path("calls").exists() else True:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == status
    assert "stopped before nothing more can be taken out" in said
    left = Path("k.reduced.ptx").read_bytes()
    assert (b"wgmma.mma_async" in left, len(left) < len(KERNEL)) == (True, True)
    assert sorted(os.listdir()) == ["calls", "k.ptx", "k.reduced.ptx"]
