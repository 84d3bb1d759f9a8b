"""Several processes give the same reports in the same order, and none of them can take the run down."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from types import ModuleType

import pytest

from tclint.commands import _progress
from tclint.config.config import Config
from tclint.driver import pool
from tclint.driver.one import Input
from tclint.driver.pool import Checked, reports
from tclint.findings.finding import FileReport
from tclint.findings.rules import all_rules
from tclint.syntax.source import Source, SourceError
from tests.tools.findings import finding
from tests.tools.project import PACKAGE

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere processes do not inherit the fake driver"
)


def fake_check(source: Source, *_: object, **__: object) -> FileReport:
    """A driver that takes its time, or its life, as the text says."""
    if "die" in source.text:
        os._exit(9)
    if "slow" in source.text:
        time.sleep(0.2)
    if "crash" in source.text:
        raise RuntimeError("out of cheese")
    found = finding(source, "error", rule=all_rules()["WG001"]) if "error" in source.text else ()
    return FileReport(path=source.path, findings=found and (found,), source=source)


@pytest.fixture
def _fake_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = ModuleType("tclint.linting.check")
    driver.check_source = fake_check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tclint.linting.check", driver)
    monkeypatch.setattr("tclint.linting.check", driver, raising=False)
    monkeypatch.delenv("TCLINT_DEBUG", raising=False)


def inputs(*texts: str) -> list[Input]:
    return [(f"{n}.ptx", Source.from_bytes(text.encode(), f"{n}.ptx")) for n, text in enumerate(texts)]


def reported(items: list[Input], jobs: int) -> list[tuple[str, str, int]]:
    return [
        (r.path, r.problems[0].message if r.problems else "", len(r.findings))
        for r, *_ in reports(iter(items), Config(jobs=jobs))
    ]


@linux
@pytest.mark.usefixtures("_fake_driver")
def test_order_and_reports_do_not_depend_on_the_number_of_processes() -> None:
    items = inputs("slow error", *["error"] * 20, "crash", "slow", "")
    items.insert(3, ("absent.ptx", SourceError("no such file or directory")))
    assert reported(items, 1) == reported(items, 3)
    assert len(reported(items, 3)) == len(items)
    assert reported(items, 3)[3] == ("absent.ptx", "no such file or directory", 0)


@linux
@pytest.mark.usefixtures("_fake_driver")
def test_a_rule_is_the_same_object_after_a_transfer_between_processes() -> None:
    (report, *_), *_ = reports(iter(inputs("error", "")), Config(jobs=2))
    assert report.findings[0].rule is all_rules()["WG001"]


@linux
@pytest.mark.usefixtures("_fake_driver")
def test_a_process_that_dies_is_a_problem_of_its_input_alone() -> None:
    items = inputs("error", "slow", "die", *["slow error"] * 3, "die", *["error"] * 12)
    expected = [
        (name, "the process that analysed it died (out of memory?)", 0)
        if source.text == "die"  # type: ignore[union-attr]
        else (name, "", "error" in source.text)  # type: ignore[union-attr]
        for name, source in items
    ]
    assert reported(items, 2) == expected


@pytest.mark.usefixtures("_fake_driver")
def test_few_inputs_get_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> Iterator[Checked]:
        raise AssertionError("several processes")

    monkeypatch.setattr(pool, "_in_processes", refuse)
    monkeypatch.setattr(pool, "cores", lambda: 8)
    assert len(reported(inputs("error", "error"), 0)) == 2
    assert len(reported(inputs("error"), 4)) == 1
    with pytest.raises(AssertionError, match="several"):
        reported(inputs("x" * pool.WORTH_IT, "error"), 0)
    assert len(reported(inputs("x" * pool.WORTH_IT, "error"), 1)) == 2


def test_there_are_no_more_processes_than_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def note(inputs: object, config: Config, jobs: int) -> Iterator[Checked]:
        started.append(jobs)
        return iter(())

    monkeypatch.setattr(pool, "_in_processes", note)
    for jobs in (2, 3, 5000):
        assert reported(inputs("", "", ""), jobs) == []
    assert started == [2, 3, 3]


def start(folder: Path, check: str = "time.sleep(30)", before: str = "") -> subprocess.Popen[str]:
    """``tclint check --jobs 2`` on the files of a folder, in which *check* takes the place of every analysis.

    Standard output and standard error end when the last process of the run does.
    """
    for n in range(4):
        (folder / f"{n}.ptx").write_text("fine")
    body = indent("open(f'at-work-{os.getpid()}', 'x').close()\n" + check, "    ")
    program = (
        "import os, signal, sys, threading, time, types; from tclint.commands._cli import main\n"
        f"def check(*args, **options):\n{body}\n"
        "driver = types.ModuleType('tclint.linting.check'); driver.check_source = check\n"
        "import tclint.linting; tclint.linting.check = driver; sys.modules['tclint.linting.check'] = driver\n"
        f"{before}\n"
        "print('ready', flush=True); main(['check', '--isolated', '--jobs', '2', '.'])"
    )
    return launched(folder, "-c", program)


def launched(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        # A shell starts what runs in the background with interrupts ignored, and Python leaves it so.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (no threads here)
    )


def wait_until_at_work(process: subprocess.Popen[str], folder: Path) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(300):
        if len(list(folder.glob("at-work-*"))) == 2:
            break
        time.sleep(0.1)


def rest(process: subprocess.Popen[str], seconds: float = 10) -> tuple[int, str, str]:
    """Exit status and output, when all processes of the run have ended; those of one that does not end are killed."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, out, err.strip()


@linux
def test_an_interrupt_ends_all_processes_quietly(tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_until_at_work(process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    assert rest(process) == (130, "", "")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_a_fork_is_not_lost(tmp_path: Path, number: int) -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); "
    kill = f"os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), {int(number)}))"
    process = start(tmp_path, before=handler + kill)
    assert rest(process) == (130 if number == signal.SIGINT else 2, "ready\n", "")


@linux
def test_an_interrupt_does_not_wait_for_the_rest_of_a_result(tmp_path: Path) -> None:
    """A process may be killed while it writes one."""
    process = start(
        tmp_path,
        "frame = sys._getframe()\n"
        "while 'result_queue' not in frame.f_locals: frame = frame.f_back\n"
        "os.write(frame.f_locals['result_queue']._writer.fileno(), bytes([0, 1, 0, 0])); time.sleep(30)",
    )
    wait_until_at_work(process, tmp_path)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert rest(process) == (130, "", "")


@linux
def test_an_interrupt_does_not_wait_for_room_for_an_input(tmp_path: Path) -> None:
    """The pool may be writing one that no process reads any more. Python 3.10 does not notice by itself."""
    for n in range(4, 12):
        (tmp_path / f"{n}.ptx").write_text("fine" * 100_000)
    process = start(tmp_path)
    wait_until_at_work(process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    assert rest(process) == (130, "", "")


@linux
def test_an_interrupt_does_not_wait_for_an_input_that_is_retried_alone(tmp_path: Path) -> None:
    process = start(tmp_path, "os._exit(9) if len(os.listdir()) < 6 else time.sleep(30)")
    wait_until_at_work(process, tmp_path)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    assert rest(process) == (130, "", "")


@linux
@pytest.mark.parametrize(
    "check", ["time.sleep(30)", "any(n for n in iter(int, 1))"], ids=["asleep", "computing"]
)
def test_processes_end_when_their_parent_is_killed(tmp_path: Path, check: str) -> None:
    process = start(tmp_path, check)
    wait_until_at_work(process, tmp_path)
    process.kill()
    assert rest(process, 2) == (-signal.SIGKILL, "", "")


@linux
def test_no_other_process_keeps_them_alive(tmp_path: Path) -> None:
    """One that the parent forked later has all its descriptors, those that would show its end among them."""
    process = start(
        tmp_path,
        before="def later():\n"
        "    while len([n for n in os.listdir() if n.startswith('at-work')]) < 2: time.sleep(0.01)\n"
        "    if os.fork() == 0:\n"
        "        for n in (1, 2): os.dup2(os.open(os.devnull, os.O_WRONLY), n)\n"
        "        open('other', 'w').close(); time.sleep(30)\n"
        "threading.Thread(target=later, daemon=True).start()",
    )
    wait_until_at_work(process, tmp_path)
    for _ in range(300):
        if (tmp_path / "other").exists():
            break
        time.sleep(0.1)
    process.kill()
    assert rest(process, 2)[0] == -signal.SIGKILL
    os.killpg(process.pid, signal.SIGKILL)  # raises an error if the other one has ended too


@pytest.mark.skipif(os.name == "nt", reason="needs sessions")
def test_no_process_is_left_whenever_the_parent_ends(tmp_path: Path) -> None:
    """For kills at random times: while processes start, compute, pass results and end."""
    for kernel in (PACKAGE.parent / "fixtures" / "kernels").glob("*.ptx"):
        (tmp_path / kernel.name).symlink_to(kernel)
    rng = random.Random(3)
    for number in (signal.SIGKILL, signal.SIGTERM) * 3:
        process = launched(tmp_path, "-m", "tclint", "check", "--isolated", "--jobs", "2", ".")
        time.sleep(rng.uniform(0.1, 1))
        process.send_signal(number)
        status, _, err = rest(process, 5)
        assert (status in (0, -number), err) == (True, "")


class Terminal:
    def __init__(self, tty: bool) -> None:
        self.tty = tty
        self.written: list[str] = []

    def isatty(self) -> bool:
        return self.tty

    def write(self, text: str) -> None:
        self.written.append(text)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        raise OSError("not a real one")


def test_progress_estimates_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERM", raising=False)
    times = iter([0.0, 0.0, *(float(second) for second in range(10, 100))])
    monkeypatch.setattr(_progress, "monotonic", lambda: next(times))
    items = [Checked(FileReport(path=str(n)), Counter()) for n in range(3)]
    stream = Terminal(True)
    list(_progress.shown_on(stream, items, 60))  # type: ignore[arg-type]
    first, second, third, _ = (text.partition(", ")[2] for text in stream.written)
    assert first == "about 10 min left, 0"
    assert second.startswith("about 6 min left")
    assert third.startswith("about 5 min left")
    assert _progress._left(9.0, 3, 10) == ", about 21 s left"
    assert _progress._left(9.0, 10, 10) == ""


def test_progress_is_shown_on_a_terminal_in_a_long_run_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Checked(FileReport(path=f"{n}\x1b" + "x" * 100), Counter()) for n in range(3)]
    monkeypatch.delenv("TERM", raising=False)
    for tty, patience in ((False, 0.0), (True, 60.0)):
        monkeypatch.setattr(_progress, "_DELAY_SECONDS", patience)
        stream = Terminal(tty)
        assert list(_progress.shown_on(stream, items, 60)) == items  # type: ignore[arg-type]
        assert stream.written == []
    monkeypatch.setattr(_progress, "_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(_progress, "monotonic", lambda: 5.0)
    stream = Terminal(True)
    assert list(_progress.shown_on(stream, items, 60)) == items  # type: ignore[arg-type]
    first, *_, last = stream.written
    assert first.startswith("\r\x1b[2Ktclint: 1/60 files, 0\ufffdxxx")
    assert (len(first.splitlines()), len(first) < 90, last) == (1 + 1, True, "\r\x1b[2K")
    monkeypatch.setattr(Terminal, "fileno", lambda stream: 2)
    monkeypatch.setattr(os, "get_terminal_size", lambda file: os.terminal_size((30, 24)))
    stream = Terminal(True)
    assert list(_progress.shown_on(stream, items, 60)) == items  # type: ignore[arg-type]
    assert stream.written[0] == "\r\x1b[2Ktclint: 1/60 files, 0\ufffdxxxxxx…"
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal(True)
    assert list(_progress.shown_on(stream, items, 60)) == items  # type: ignore[arg-type]
    assert stream.written == []
