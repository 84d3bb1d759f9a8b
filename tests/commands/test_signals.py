"""Signals that end a run: nothing is left of it, and its exit status says which signal it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tclint.commands._cli import main
from tests.tools.project import PACKAGE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there, no signal can be handled")
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere processes do not inherit the fake driver"
)
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts Python with *program*, in which analysing a file creates a file ``at-work``, and then does *check*."""
    started = []

    def run(program: str, check: str = "time.sleep(30)", **options: object) -> subprocess.Popen[str]:
        fake = (
            "import os, signal, sys, time, types\n"
            f"def check(*args, **options):\n    open('at-work', 'w').close()\n    {check}\n"
            "driver = types.ModuleType('tclint.linting.check'); driver.check_source = check\n"
            "import tclint.linting; tclint.linting.check = driver; sys.modules['tclint.linting.check'] = driver\n"
            "from tclint.commands._cli import main\n"
        )
        process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-c", fake + program],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(PACKAGE.parent), "TMPDIR": str(tmp_path / "temporary")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        started.append(process)
        return process

    (tmp_path / "temporary").mkdir()
    (tmp_path / "a.ptx").write_text("fine")
    yield run
    for process in started:
        with process:  # closes its pipes
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(path: Path) -> None:
    for _ in range(1000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"there is no {path.name}")


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_processes_and_temporary_files_are_gone_when_a_run_ends(
    tmp_path: Path, start: Start, number: int
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the tests run where this signal is ignored, as below nohup, and tclint leaves it so")
    (tmp_path / "lib.so").write_bytes(b"\x7fELF")
    tool = tmp_path / "cuobjdump"
    tool.write_text(
        f"#!{sys.executable}\nfor n in range(20): open(f'{{n}}.sm_90.ptx', 'w').write('.version 8.0')\n"
    )
    tool.chmod(0o755)
    process = start(
        f"os.environ['TCLINT_CUOBJDUMP'] = {str(tool)!r}; main(['check', '--isolated', '--jobs', '2', 'lib.so'])"
    )
    wait_for(tmp_path / "at-work")
    assert os.listdir(tmp_path / "temporary") != []
    process.send_signal(number)
    assert process.wait(10) == -number
    assert os.listdir(tmp_path / "temporary") == []
    # Worker processes have these pipes too: they would block here.
    assert process.stdout is not None
    assert process.stderr is not None
    for stream in (process.stdout, process.stderr):
        os.set_blocking(stream.fileno(), False)
        assert os.read(stream.fileno(), 1000) == b""


@pytest.mark.parametrize(
    "check",
    [
        "try: print('in it', flush=True); time.sleep(30)\n    except SystemExit: time.sleep(30)",
        "type('T', (), {'__del__': lambda self: (print('in it', flush=True), time.sleep(30))})(); time.sleep(30)",
    ],
    ids=["caught", "in-a-finaliser"],
)
def test_a_run_ends_even_if_the_exception_is_lost(start: Start, check: str) -> None:
    process = start("main(['check', '--isolated', 'a.ptx'])", check)
    assert process.stdout is not None
    assert process.stdout.readline() == "in it\n"
    process.terminate()
    assert process.wait(10) == -signal.SIGTERM


def test_a_second_signal_does_not_disturb_the_cleanup(start: Start) -> None:
    """``timeout`` sends one to its child and one to its group."""
    process = start(
        "main(['check', '--isolated', 'a.ptx'])",
        "try: print('in it', flush=True); time.sleep(30)\n"
        "    finally: print('asked', flush=True); time.sleep(0.3); print('cleaned', flush=True)",
    )
    assert process.stdout is not None
    for line in ("in it", "asked"):
        assert process.stdout.readline() == f"{line}\n"
        process.terminate()
    assert process.communicate(timeout=10) == ("cleaned\n", "")
    assert process.returncode == -signal.SIGTERM


def test_what_is_ignored_stays_ignored(start: Start) -> None:
    """As under nohup."""
    process = start(
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); main(['check', '--isolated', 'a.ptx'])",
        "os.kill(os.getpid(), signal.SIGHUP); raise RuntimeError('still here')",
    )
    assert "still here" in process.communicate(timeout=10)[0]
    assert process.returncode == 2


def test_the_language_server_ends_at_once(start: Start) -> None:
    pytest.importorskip("pygls", reason="the language server needs pygls")
    process = start(
        "from tclint.lsp import requests\n"
        "make = requests.make_server\n"
        "requests.make_server = lambda: (print('ready', flush=True), make())[1]\n"
        "main(['lsp'])"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.terminate()
    assert process.wait(1) == -signal.SIGTERM


def test_handlers_are_those_of_the_caller_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert signal.getsignal(signal.SIGTERM) is before
    with ThreadPoolExecutor() as pool:  # only the main thread may set one
        assert isinstance(pool.submit(main, ["--version"]).exception(), SystemExit)


@pytest.mark.skipif(os.name == "nt", reason="there, a process is not ended with a signal")
def test_an_exit_that_python_drops_in_a_finaliser_is_not_shown() -> None:
    code = """
import os, signal
from tclint.commands._signals import unwound_by_signals

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

with unwound_by_signals():
    Finalised()
    print("continued", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "continued\n", "")
