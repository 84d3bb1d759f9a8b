"""The command that decides: how it is run, what its answer is, and that nothing of it stays."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tclint.text.command import Command, CommandError
from tclint.text.reduce import Spent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
SIZE = ("sh", "-c", "test $(wc -c < {}) -lt 3")
TEXTS = [b"one", b"three", b"2", b"four", b"5"]


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_first_text_for_which_it_exits_with_0_is_found(jobs: int) -> None:
    with Command(SIZE, 10, jobs) as command:
        assert command.first(iter(TEXTS)) == 2
        assert command.first(iter(TEXTS[:2])) is None
        assert command.first(iter([])) is None
        assert command.calls >= 5


def test_the_path_takes_the_place_of_braces_or_follows(tmp_path: Path) -> None:
    with Command(["cp", "{}", str(tmp_path / "a")], 10) as command:
        assert command.status(b"text") == 0
    with Command(
        ["sh", "-c", f'cat "$1" > {tmp_path / "b"}; echo "$1" > {tmp_path / "c"}', "sh"], 10
    ) as command:
        assert command.status(b"text") == 0
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"text", b"text"]
    path = (tmp_path / "c").read_text().strip()
    assert path.endswith("/kernel.ptx")
    assert not os.path.exists(path)


def test_statuses() -> None:
    with Command(["sh", "-c", "exit 7"], 10) as command:
        assert command.status(b"") == 7
    with Command(["sh", "-c", "kill -9 $$"], 10) as command:
        assert command.status(b"") == -9


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_takes_too_long_is_killed_with_what_it_has_started(tmp_path: Path, jobs: int) -> None:
    with Command(["sh", "-c", f"(sleep 0.6; touch {tmp_path / 'late'}) & wait"], 0.1, jobs) as command:
        assert command.status(b"") is None
        assert command.first(iter([b"x", b"y"])) is None
    time.sleep(0.7)
    assert not (tmp_path / "late").exists()


def test_calls_that_are_not_needed_any_more_are_killed() -> None:
    began = time.monotonic()
    with Command(["sh", "-c", "grep -q yes {} || sleep 30"], 60, 2) as command:
        assert command.first(iter([b"yes", b"no"])) == 0
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_limit_of_calls_is_kept(jobs: int) -> None:
    with Command(["false"], 10, jobs, 3) as command:
        with pytest.raises(Spent):
            command.first(iter([b"1", b"2", b"3", b"4"]))
        assert command.calls == 3
    with Command(SIZE, 10, jobs, 3) as command:
        assert command.first(iter(TEXTS)) == 2


@pytest.mark.parametrize("name", ["absent-command", "/", "a\0b"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_command_that_cannot_be_run_is_an_error(name: str, jobs: int) -> None:
    with Command([name], 10, jobs) as command, pytest.raises(CommandError, match="cannot be run"):
        command.first(iter([b""]))
