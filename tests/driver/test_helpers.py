"""Processes that share the kernels of one module give the report of one process, and none of them can take it down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tclint.config.config import Config
from tclint.driver import helpers
from tclint.driver.helpers import Helpers, Slots
from tclint.driver.one import lint
from tclint.findings.rules import Rule, all_rules
from tclint.linting.cache import IncrementalCache
from tclint.syntax.source import Source
from tests.tools.project import PACKAGE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="helpers are forked, on Linux only")

T = TypeVar("T")
FIXTURES = PACKAGE.parent / "fixtures"
MODULES = ["kernels/nvcc-twice.sm_90a.ptx", "kernels/nvcc-bulk_ring.sm_90.ptx"]


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slots]:
    """Two slots, with which any work is worth a process."""
    monkeypatch.setattr(helpers, "WORTH_IT", 1)
    made = Slots(2)
    yield made
    made.close()


def free(slots: Slots) -> int:
    number = 0
    while slots.take():
        number += 1
    return number


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def test_the_work_is_done_by_several_processes_the_largest_piece_first(slots: Slots) -> None:
    first = time.monotonic()

    def make(number: int) -> tuple[int, int, float]:
        began = time.monotonic() - first
        time.sleep(0.1)
        return number * number, os.getpid(), began

    found = Helpers(slots)([1, 9, 5, 7], make, ())
    assert {number: value for number, (value, *_) in found.items()} == {0: 0, 1: 1, 2: 4, 3: 9}
    assert len({pid for _, pid, _ in found.values()}) == 3
    assert max(found[n][2] for n in (1, 3, 2)) < found[0][2]
    assert free(slots) == 2
    assert children() == ""


def test_there_are_no_more_processes_than_slots(slots: Slots) -> None:
    assert slots.take()

    def make(number: int) -> int:
        time.sleep(0.02)
        return os.getpid()

    assert len(set(Helpers(slots)([1] * 9, make, ()).values())) == 2


def test_a_slot_that_becomes_free_is_taken(slots: Slots) -> None:
    while slots.take():
        pass

    def make(number: int) -> int:
        if not number:
            slots.give()
        time.sleep(0.05)
        return os.getpid()

    assert len(set(Helpers(slots)([9, *[1] * 9], make, ()).values())) == 2


def test_little_work_is_left_to_the_caller(slots: Slots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "WORTH_IT", 100)
    assert Helpers(slots)([10_000, 99], lambda number: number, ()) == {}
    assert set(Helpers(slots)([10_000, 100], lambda number: number, ())) == {0, 1}
    assert Helpers(slots)([], lambda number: number, ()) == {}


def test_what_a_process_has_made_is_missing_if_it_dies(slots: Slots) -> None:
    own = os.getpid()

    def make(number: int) -> int:
        time.sleep(0.05)
        if os.getpid() != own:
            os._exit(9)
        return number

    found = Helpers(slots)([1] * 6, make, ())
    assert 0 < len(found) < 6
    assert free(slots) == 2


def test_what_raises_an_exception_is_missing(slots: Slots) -> None:
    def make(number: int) -> float:
        time.sleep(0.01)
        return 1 / (number % 3)

    assert set(Helpers(slots)([1] * 9, make, ())) == {1, 2, 4, 5, 7, 8}


def test_what_ends_the_caller_ends_the_processes(slots: Slots) -> None:
    own = os.getpid()

    def make(number: int) -> int:
        if os.getpid() == own:
            raise KeyboardInterrupt
        time.sleep(60)
        return number

    with pytest.raises(KeyboardInterrupt):
        Helpers(slots)([1] * 4, make, ())
    assert children() == ""


def test_objects_that_both_processes_have_are_not_copied(slots: Slots) -> None:
    rule, here = all_rules()["WG001"], [object(), object()]

    def make(number: int) -> tuple[Rule, object]:
        time.sleep(0.02)
        return rule, here[number % 2]

    found = Helpers(slots)([1] * 8, make, here)
    assert all(each[1] is here[number % 2] for number, each in found.items())
    assert all(each[0] == rule for each in found.values())


@pytest.mark.parametrize("verdict", [False, True], ids=["findings", "verdicts"])
@pytest.mark.parametrize("name", [*MODULES, "several"])
def test_the_report_is_that_of_one_process(slots: Slots, name: str, verdict: bool) -> None:
    source = Source.read(str(FIXTURES / name)) if name != "several" else several()
    config = Config(verdict=verdict, pedantic=True)
    past, alone = IncrementalCache(edited=False), IncrementalCache(edited=False)
    calls: list[int] = []

    def share(sizes: Sequence[int], make: Callable[[int], T], same: Sequence[object]) -> dict[int, T]:
        found = Helpers(slots)(sizes, make, same)
        calls.append(len(found))
        return found

    past.share = share
    shared, expected = lint(source, config, past=past), lint(source, config, past=alone)
    assert calls[0] > 1
    assert shared == expected
    assert len(expected.findings) > 6 or name != "several"
    assert lint(source, config, past=past) == expected
    assert calls[1:] == [0], "what is known is not shared"


def several() -> Source:
    """Kernels with findings and fixes, one of them with a fault of the module."""
    head, entry, body = (FIXTURES / "wgmma_unwaited.ptx").read_text().partition(".visible .entry ")
    kernels = [f"{entry}k{number}_{body}" for number in range(6)]
    kernels[3] = kernels[3].replace("ret;", "bar.synch 0;\n    ret;")
    return Source.from_bytes("\n".join((head, *kernels)).encode(), "several.ptx")


def run(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tclint", "check", "--isolated", "--no-cache", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (no threads here)
    )


def test_the_output_does_not_depend_on_the_number_of_processes() -> None:
    outputs = set()
    for jobs in ("1", "3"):
        process = run(
            FIXTURES / "kernels", "--jobs", jobs, "--output-format", "json", "nvcc-hopper.sm_90a.ptx"
        )
        out, err = process.communicate()
        assert (process.returncode, err) == (0, b"")
        outputs.add(out)
    assert len(outputs) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_process_is_left_when_the_run_ends(tmp_path: Path, number: int) -> None:
    text = (FIXTURES / "kernels" / "nvcc-hopper.sm_90a.ptx").read_text()
    (tmp_path / "module.ptx").write_text(text)
    process = run(tmp_path, "--jobs", "2", "module.ptx")
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for _ in range(3000):
        if task.read_text():
            break
        time.sleep(0.01)
    else:
        pytest.fail("no process was forked")
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    out, err = process.communicate(timeout=10)  # once the last one has closed its output
    assert (process.returncode, out, err.strip()) == (130 if number == signal.SIGINT else -number, b"", b"")
    if number != signal.SIGKILL:  # then the system waits for the others, at its leisure
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
