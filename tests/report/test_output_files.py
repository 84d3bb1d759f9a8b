"""``--output FORMAT=FILE``: what is refused, what is written, and that nothing is ever half written."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from time import sleep

import click
import pytest

from tclint import _write
from tclint._write import OutputError, locked, refuse, write
from tclint.commands._reports import Output
from tests.tools.project import ROOT

Process = Callable[..., subprocess.CompletedProcess[str]]
FIXTURE = str(ROOT / "fixtures" / "wgmma_unwaited.ptx")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parse(*requests: str) -> dict[str, str]:
    return Output("text", requests, None, "never", False, None, False).files(())


def test_requests_are_read() -> None:
    assert parse() == {}
    assert parse("sarif=a.sarif", "JSON=b=c.json", "text=../x.txt") == {
        "a.sarif": "sarif",
        "b=c.json": "json",
        "../x.txt": "text",
    }


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (["a.sarif"], "'a.sarif' is not of the form FORMAT=FILE"),
        (["sarif="], "is not of the form FORMAT=FILE"),
        (["=a"], "unknown format ''; available: concise, github"),
        (["sarf=a"], "unknown format 'sarf'; did you mean sarif?"),
        (["json=-"], "use --output-format json"),
        (["json=/dev/stdout"], "use --output-format json"),
        (["json=sub"], "sub is a folder"),
        (["json=new/"], "new/ is a folder"),
        (["json=no/a"], "no/a cannot be written: there is no folder no"),
        (["json=a\0b"], "cannot be written: embedded null"),
        (["json=a", "sarif=a"], "two outputs for the same file: a and a"),
        (["json=a", "json=a"], "two outputs for the same file"),
        (["json=a", "sarif=./sub/../a"], "two outputs for the same file: a and ./sub/../a"),
        (["json=old", "sarif=link"], "two outputs for the same file: old and link"),
        (["json=old", "sarif=hard"], "two outputs for the same file: old and hard"),
        (["json=new", "sarif=dangling"], "two outputs for the same file: new and dangling"),
        (["json=sub/a", "sarif=elsewhere/a"], "two outputs for the same file: sub/a and elsewhere/a"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_analysis(requests: list[str], message: str) -> None:
    Path("sub").mkdir()
    Path("old").touch()
    Path("link").symlink_to("old")
    Path("dangling").symlink_to("new")
    Path("elsewhere").symlink_to("sub", target_is_directory=True)
    os.link("old", "hard")
    with pytest.raises(click.UsageError) as raised:
        parse(*requests)
    assert message in raised.value.message


def test_an_input_is_not_overwritten() -> None:
    Path("a.ptx").touch()
    os.link("a.ptx", "hard")
    Path("link").symlink_to("a.ptx")
    refuse(["b.json"], ["a.ptx", "<stdin>", "a\0b", "no/where"])
    for output in ("./a.ptx", "hard", "link"):
        with pytest.raises(OutputError, match=rf"{re.escape(output)} is an input"):
            refuse([output], ["b.ptx", "a.ptx"])
    refuse([os.devnull], [os.devnull])


def test_files_are_replaced_and_keep_their_mode_and_links_stay() -> None:
    Path("old").write_text("before")
    os.chmod("old", 0o640)
    Path("link").symlink_to("old")
    write({"link": "é\udcff\n", "new": "x"})
    assert Path("link").is_symlink()
    assert Path("old").read_bytes() == "é?\n".encode()
    assert stat.S_IMODE(os.stat("old").st_mode) == 0o640
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(os.stat("new").st_mode) == 0o666 & ~umask
    assert sorted(os.listdir()) == ["link", "new", "old"]


def test_leftovers_of_a_killed_run_do_not_matter(folder: Path) -> None:
    program = (
        "import os, signal; from tclint import _write\n"
        "_write._encoded = lambda text: os.kill(os.getpid(), signal.SIGKILL)\n"
        "_write.write({'a': '1'})"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as process:
        process.wait(60)
    (left,) = os.listdir()
    # The process ids of containers repeat.
    Path(left).rename(left.replace(str(process.pid), str(os.getpid())))
    write({"a": "2"})
    assert Path("a").read_text() == "2"


def test_a_text_is_on_the_disk_before_it_replaces_another(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("replace"), replace(*paths)))
    write({"a": "1"})
    write({"a": "2"})
    assert done == ["replace", "fsync", "replace"]


def test_a_device_is_written_to_and_not_replaced() -> None:
    write({os.devnull: "text"})
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_a_pipe_is_written_to_as_a_shell_hands_it_over() -> None:
    read_end, write_end = os.pipe()
    try:
        path = f"/dev/fd/{write_end}"
        assert parse(f"json={path}") == {path: "json"}
        write({path: "text", "a": "b"})
        assert os.read(read_end, 100) == b"text"
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device_is_a_message() -> None:
    with pytest.raises(OutputError, match="/dev/full cannot be written: No space left on device"):
        write({"/dev/full": "text"})


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_nothing_changes_when_one_of_them_fails(monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    Path("a").write_text("before")
    left = [failing]
    encode = _write._encoded

    def full(text: str) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return encode(text)

    monkeypatch.setattr(_write, "_encoded", full)
    with pytest.raises(OutputError, match="No space left"):
        write({"a": "1", "b": "2", "c": "3"})
    assert os.listdir() == ["a"]
    assert Path("a").read_text() == "before"


def test_an_interrupt_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(text: str) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(_write, "_encoded", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write({"a": "1"})
    assert os.listdir() == []


def test_a_lock_excludes_others_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sub").mkdir()
    Path("link").symlink_to("a")
    with locked("a"):
        with locked("sub/a"):
            pass
        monkeypatch.setattr(_write, "_MAX_LOCK_SECONDS", 0.05)
        with (
            pytest.raises(OutputError, match="link cannot be written: another process has locked "),
            locked("link"),
        ):
            pass
        write({"a": "1"})
    with locked("a"):
        assert Path("a").read_text() == "1"
    assert sorted(os.listdir()) == ["a", "link", "sub"]
    with (
        pytest.raises(OutputError, match=r"no/a cannot be written: .* cannot be locked: No such"),
        locked("no/a"),
    ):
        pass


def test_a_lock_ends_with_its_process() -> None:
    program = (
        "import time; from tclint._write import locked\n"
        "with locked('a'): print('locked', flush=True); time.sleep(60)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"locked"
        Timer(0.3, process.kill).start()
        with locked("a"):
            assert process.wait(10) != 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_meanwhile_has_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_write, "_MAX_LOCK_SECONDS", 0.05)
    with locked("a"):
        started = os.fork()
        if started == 0:
            sleep(60)
            os._exit(0)
    try:
        with locked("a"):
            pass
    finally:
        os.kill(started, signal.SIGKILL)
        os.waitpid(started, 0)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("path", ["shut/a", "fixed"])
def test_what_may_not_be_written_is_refused(path: str) -> None:
    Path("shut").mkdir(mode=0o500)
    Path("fixed").touch(mode=0o400)
    with pytest.raises(OutputError, match="Permission denied"):
        parse(f"json={path}")


def test_the_command_writes_all_reports_in_one_run(run_tclint: Process, folder: Path) -> None:
    names = ["sarif", "json", "junit", "gitlab", "github", "concise", "text"]
    options = [part for name in names for part in ("--output", f"{name}={name}.out")]
    done = run_tclint("check", FIXTURE, *options, "--output-format", "concise", "--color", "always")
    assert (done.returncode, done.stderr) == (1, "")
    assert "Found 1 error in 1 file; 1 fixable with --fix." in done.stdout
    assert sorted(os.listdir()) == sorted(f"{name}.out" for name in names)
    assert done.stdout == (folder / "concise.out").read_text()
    assert "\x1b" not in (folder / "text.out").read_text()
    assert json.loads((folder / "sarif.out").read_text())["version"] == "2.1.0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "sarf=a"], "Error: --output: unknown format 'sarf'; did you mean sarif?\n"),
        (
            ["--output", "json=a", "--output", "sarif=./a"],
            "Error: --output: two outputs for the same file: a and ./a.",
        ),
        (["--output", "json=no/a"], "Error: --output: no/a cannot be written: there is no folder no."),
        (["--output", "json=in.ptx"], "Error: --output: in.ptx is an input and would be overwritten."),
        (["--locate", "cuda"], "Invalid value for '--locate'"),
    ],
)
def test_the_command_says_what_is_wrong(
    run_tclint: Process, folder: Path, options: list[str], message: str
) -> None:
    (folder / "in.ptx").write_text(".version 8.0\n.target sm_90a\n")
    done = run_tclint("check", "in.ptx", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert os.listdir() == ["in.ptx"]
    assert (folder / "in.ptx").read_text().startswith(".version")


def test_a_closed_pipe_does_not_cost_the_files(run_tclint: Process, folder: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = run_tclint(
            "check",
            FIXTURE,
            "--output",
            "json=a.json",
            capture_output=False,
            stdout=write_end,
            stderr=subprocess.PIPE,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (2, "")
    assert json.loads((folder / "a.json").read_text())["summary"]["files"] == 1


def test_links_are_for_terminals(run_tclint: Process) -> None:
    assert "\x1b]8;;" not in run_tclint("check", FIXTURE).stdout
    assert "\x1b]8;;" in run_tclint("check", FIXTURE, env={"FORCE_HYPERLINK": "1"}).stdout
    assert "\x1b]8;;" not in run_tclint("check", FIXTURE, env={"FORCE_HYPERLINK": "0"}).stdout


@pytest.mark.parametrize("name", ["text", "concise", "json"])
def test_sarif_om_is_imported_for_sarif_only(name: str) -> None:
    code = f"import sys; from tclint.report.formats import renderer; renderer({name!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "sarif_om" not in done.stdout.split()
