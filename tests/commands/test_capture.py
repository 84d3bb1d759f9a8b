"""``tclint capture``: what it says, and its exit codes. What it records: ``tests/injection``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tclint.commands._cli import cli
from tclint.injection import program
from tclint.injection.build import CaptureError
from tclint.injection.program import Captured, Wanted

LAUNCH: dict[str, Any] = {
    "kernel": "double", "end": "done", "ptx_origin": "double.ptx",
    "buffers": [{"size": 1 << 20, "before": "x"}, {"size": 5 << 20}],
}  # fmt: skip


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command, whose program is replaced; returns the exit code, both outputs, and what was asked for."""

    def run(*arguments: str, launch: Any = LAUNCH, problems: tuple[str, ...] = (), code: int = 0) -> Any:
        asked: list[Any] = []

        def record(command: tuple[str, ...], folder: Path, wanted: Wanted) -> Captured:
            asked.extend((command, str(folder), wanted))
            if isinstance(launch, Exception):
                raise launch
            return Captured(folder, launch, problems, code)

        monkeypatch.setattr(program, "record", record)
        result = CliRunner().invoke(cli, ["capture", *arguments], standalone_mode=False)
        if result.exception is not None:
            return 2, "", str(result.exception), asked
        return result.return_value, result.stdout, result.stderr, asked

    return run


def test_the_program_keeps_its_own_options(invoke: Any) -> None:
    code, out, err, asked = invoke(
        "--kernel", "gemm*", "--nth", "3", "--limit", "2K", "--", "python", "x.py", "--nth", "9"
    )
    assert (code, err) == (0, "")
    assert out == "tclint.capture: launch 3 of double, 1 allocations, 1.0 MiB; PTX: double.ptx\n"
    assert asked == [("python", "x.py", "--nth", "9"), "tclint.capture", Wanted("gemm*", 3, 2048, 10.0)]


def test_kernels_are_listed_one_a_line(invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "launched", lambda command: (["init", "gemm\x1b"], ["gemm"]))
    code, out, err, asked = invoke("--list", "--", "x")
    assert (code, asked) == (0, [])
    assert out.splitlines()[0] == "init"
    assert "\x1b" not in out
    assert err == "gemm: launched by a CUDA graph, which cannot be recorded\n"


@pytest.mark.parametrize(
    ("text", "count"), [("4096", 4096), ("3M", 3 << 20), ("1GiB", 1 << 30), ("2kb", 2048)]
)
def test_a_limit_has_units(invoke: Any, text: str, count: int) -> None:
    assert invoke("--limit", text, "--", "x")[3][2].limit == count


def test_a_limit_that_is_not_a_number_is_refused(invoke: Any) -> None:
    assert (
        "'many' is not a number of bytes such as 4096, 512M or 2GiB"
        in invoke("--limit", "many", "--", "x")[2]
    )


def test_what_was_not_recorded_is_named_and_fails(invoke: Any) -> None:
    code, out, err, _ = invoke("--output", "f", "--", "x", problems=("the allocation is not recorded",))
    assert (code, err) == (2, "f: the allocation is not recorded\n")
    assert out.startswith("f: launch 1 of double")


def test_a_launch_that_hangs_or_fails_is_a_recording(invoke: Any) -> None:
    code, _, err, _ = invoke("--seconds", "2", "--", "x", launch={**LAUNCH, "end": "unfinished"}, code=-15)
    assert code == 0
    assert err.splitlines() == [
        "tclint.capture: note: the kernel did not end within 2 s; its results are not recorded",
        "tclint.capture: note: the program ended with exit code -15",
    ]
    code, _, err, _ = invoke("--", "x", launch={**LAUNCH, "end": "CUDA_ERROR_ILLEGAL_ADDRESS"})
    assert (code, "the launch failed with CUDA_ERROR_ILLEGAL_ADDRESS" in err) == (0, True)


def test_nothing_recorded_is_an_error(invoke: Any) -> None:
    assert invoke("--", "x", launch=CaptureError("no kernel was launched"))[:3] == (
        2,
        "",
        "no kernel was launched",
    )


def test_a_program_is_needed(invoke: Any) -> None:
    assert invoke()[2] == "Missing parameter: program"
