"""A program under ``tclint capture``, with a driver whose GPU is the processor: what is recorded, what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tclint.injection.build import CaptureError
from tclint.injection.program import Captured, Wanted, launched, record
from tests.injection.conftest import compiled
from tests.tools.recordings import DOUBLE

WithStub = Callable[..., Path]


@pytest.fixture
def capture(with_stub: WithStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Captured]:
    """Records a launch of the program that launches *kernels*.

    Functions `without` which the driver is, and a `setting` of the stub, make it fail.
    """

    def run(
        *kernels: str, without: tuple[str, ...] = (), setting: str = "", value: str = "1", **wanted: Any
    ) -> Captured:
        stub = with_stub(*without)
        if setting:
            monkeypatch.setenv(setting, value)
        ptx = tmp_path / "double.ptx"
        ptx.write_text(DOUBLE)
        return record([str(stub / "host"), str(ptx), *kernels], tmp_path / "folder", Wanted(**wanted))

    return run


def refused(capture: Callable[..., Captured], *arguments: Any, **options: Any) -> str:
    """The reason for which nothing is recorded, of which no trace is left."""
    with pytest.raises(CaptureError) as error:
        capture(*arguments, **options)
    return str(error.value)


def test_a_launch_is_recorded_with_its_memory_before_and_after_it(
    capture: Callable[..., Captured], tmp_path: Path
) -> None:
    found = capture("double")
    launch = json.loads((tmp_path / "folder/launch.json").read_text())
    assert found.problems == ()
    assert (launch["kernel"], launch["grid"], launch["block"]) == ("double", [1, 1, 1], [64, 1, 1])
    assert launch["parameters"]["layout"] == [[0, 8], [8, 8], [16, 4]]
    to, source = launch["buffers"]
    assert bytes.fromhex(launch["parameters"]["bytes"])[:8] == to["address"].to_bytes(8, "little")
    assert (to["size"], source["size"]) == (4096, 256)
    before, after = ((tmp_path / "folder" / to[key]).read_bytes() for key in ("before", "after"))
    assert (len(before), set(before)) == (4096, {0})
    assert after[:12] == bytes.fromhex("000000000000004000008040")
    assert "after" not in source  # nothing of it has changed
    assert (tmp_path / "folder/kernel.ptx").read_text() == DOUBLE


def test_the_chosen_one_of_several_launches_is_recorded(capture: Callable[..., Captured]) -> None:
    found = capture("other", "double", "double", kernel="dou*", nth=2)
    to = found.launch["buffers"][0]
    assert found.launch["kernel"] == "double"
    assert "after" not in to  # the first launch has already written the same


def test_the_name_of_the_kernel_is_a_glob(capture: Callable[..., Captured]) -> None:
    assert capture("other", "double", kernel="*ub?e").launch["kernel"] == "double"


def test_a_name_that_is_not_ascii_is_recorded(capture: Callable[..., Captured], tmp_path: Path) -> None:
    assert capture("größe").launch["kernel"] == "größe"
    assert json.loads((tmp_path / "folder/launch.json").read_text("ascii"))["kernel"] == "größe"


def test_what_was_launched_is_named_if_nothing_matches(
    capture: Callable[..., Captured], tmp_path: Path
) -> None:
    assert "no kernel named 'gemm*'" in refused(capture, "double", "other", kernel="gemm*")
    assert "launched were double, other" in refused(capture, "double", "other", kernel="gemm*")
    assert [path.name for path in tmp_path.iterdir()] == ["double.ptx"]


@pytest.fixture
def listed(with_stub: WithStub, tmp_path: Path) -> Callable[..., tuple[list[str], list[str]]]:
    """The kernels of the program that launches *kernels*."""

    def run(*kernels: str) -> tuple[list[str], list[str]]:
        ptx = tmp_path / "double.ptx"
        ptx.write_text(DOUBLE)
        return launched([str(with_stub() / "host"), str(ptx), *kernels])

    return run


def test_the_kernels_of_a_program_are_listed(
    listed: Callable[..., tuple[list[str], list[str]]], tmp_path: Path
) -> None:
    assert listed("double", "other", "double") == (["double", "other"], [])
    assert listed("+double")[1] == ["double"]
    assert [path.name for path in tmp_path.iterdir() if "incomplete" in path.name] == []
    with pytest.raises(CaptureError, match=r"launched were no kernels$"):
        listed()


def test_fewer_launches_than_the_number_that_is_wanted_are_counted(capture: Callable[..., Captured]) -> None:
    assert "launched 2 times, not 3" in refused(capture, "double", "double", nth=3)


def test_an_allocation_above_the_limit_is_named(capture: Callable[..., Captured], tmp_path: Path) -> None:
    found = capture("double", limit=1000)
    (problem,) = found.problems
    assert re.fullmatch(
        r"the allocation of 4096 bytes at 0x[0-9a-f]+ is not recorded: 1000 of at most 1000 bytes are left",
        problem,
    )
    to, source = found.launch["buffers"]
    assert ("before" in to, "before" in source) == (False, True)


def test_memory_that_is_freed_while_the_kernel_runs_is_named(capture: Callable[..., Captured]) -> None:
    found = capture("free")
    assert any("256 bytes" in p and "freed while the kernel ran" in p for p in found.problems)


def test_memory_of_another_gpu_is_refused_by_name(capture: Callable[..., Captured]) -> None:
    found = capture("double", setting="STUB_DEVICE")
    assert any("it belongs to GPU 1, and the launch to GPU 0" in problem for problem in found.problems)


def test_a_launch_in_a_cuda_graph_is_refused_by_name(capture: Callable[..., Captured]) -> None:
    assert "double is launched by a CUDA graph (cuGraphLaunch)" in refused(capture, "+double")


def test_a_launch_beside_a_cuda_graph_is_recorded(capture: Callable[..., Captured]) -> None:
    assert capture("+other", "double", kernel="double").launch["end"] == "done"


def test_a_driver_without_a_function_is_named(capture: Callable[..., Captured]) -> None:
    reason = refused(capture, "double", without=("cuMemGetAddressRange_v2",))
    assert reason == "the driver has no cuMemGetAddressRange_v2"


def test_a_profiler_in_the_program_is_named(capture: Callable[..., Captured]) -> None:
    reason = refused(capture, "double", setting="STUB_SUBSCRIBED")
    assert reason.endswith(
        "refuses to report calls of the driver: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
    )


def test_another_injected_library_is_named(with_stub: WithStub, monkeypatch: pytest.MonkeyPatch) -> None:
    with_stub()
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/other.so")
    with pytest.raises(CaptureError, match=r"CUDA_INJECTION64_PATH is set: the driver loads /other\.so"):
        record(["true"], Path("folder"), Wanted())


def test_a_program_that_is_killed_leaves_nothing(capture: Callable[..., Captured], tmp_path: Path) -> None:
    reason = refused(capture, "kill")
    assert "the program ended before the launch was recorded completely" in reason
    assert "exit code -6" in reason
    assert [path.name for path in tmp_path.iterdir()] == ["double.ptx"]


def test_a_kernel_that_hangs_is_recorded_without_results(capture: Callable[..., Captured]) -> None:
    found = capture("hang", seconds=0.2)
    assert found.launch["end"] == "unfinished"
    assert all("before" in buffer and "after" not in buffer for buffer in found.launch["buffers"])


def test_a_kernel_that_traps_is_recorded_with_its_error(capture: Callable[..., Captured]) -> None:
    assert capture("trap").launch["end"] == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_parameters_that_cannot_be_read_do_not_crash_the_program(capture: Callable[..., Captured]) -> None:
    # The program itself ends with a signal, in the launch that follows.
    assert "parameter 0 cannot be read" in refused(capture, "wild")


def test_a_tensor_map_is_recorded_by_what_was_made_of_it(capture: Callable[..., Captured]) -> None:
    launch = capture("tensor").launch
    (found,) = launch["maps"]
    assert found["bytes"] == "a5" * 128 == launch["parameters"]["bytes"][:256]
    assert (found["dimensions"], found["strides"], found["box"]) == ([16, 4], [64], [8, 2])
    assert (found["mode"], found["type"], found["swizzle"]) == ("tile", 7, 1)
    assert launch["cluster"] == [2, 1, 1]
    # Only the map leads to this allocation.
    assert [buffer["address"] for buffer in launch["buffers"]] == [found["address"]]


def test_a_tensor_map_to_whose_memory_a_structure_points_is_recorded(
    capture: Callable[..., Captured], tmp_path: Path
) -> None:
    launch = capture("held").launch
    (made,) = launch["maps"]
    structure, *others = launch["buffers"]
    assert structure["address"].to_bytes(8, "little") == bytes.fromhex(launch["parameters"]["bytes"])[:8]
    (holder,) = (buffer for buffer in others if buffer["size"] == 512)
    held = (tmp_path / "folder" / holder["before"]).read_bytes()[128:256]
    assert held == bytes.fromhex(made["bytes"])
    # Only the map leads to the tensor.
    assert [buffer["address"] for buffer in others if buffer is not holder] == [made["address"]]


def test_a_variable_of_the_module_is_recorded(capture: Callable[..., Captured], tmp_path: Path) -> None:
    source, cubin = tmp_path / "cubin.c", tmp_path / "cubin"
    code = 'int table[4], other; __attribute__((section(".text.double"))) int f(void) { return table[0] + other; }'
    source.write_text(code)
    compiled("-c", source, "-o", cubin)
    found = capture("double", setting="STUB_CUBIN", value=str(cubin))
    named = [buffer for buffer in found.launch["buffers"] if "variable" in buffer]
    assert [(buffer["variable"], buffer["size"]) for buffer in named] == [("table", 16)]
    assert (tmp_path / "folder" / named[0]["before"]).read_bytes() == bytes.fromhex(
        "01000000020000000300000004000000"
    )
    assert (tmp_path / "folder/cubin").read_bytes() == cubin.read_bytes()


@pytest.mark.parametrize("end", range(0, 1000, 97))
def test_a_damaged_cubin_is_survived(capture: Callable[..., Captured], tmp_path: Path, end: int) -> None:
    test_data = tmp_path / "whole"
    (tmp_path / "cubin.c").write_text('__attribute__((section(".text.double"))) int f(void) { return 1; }')
    compiled("-c", tmp_path / "cubin.c", "-o", test_data)
    (tmp_path / "cubin").write_bytes(test_data.read_bytes()[:end] + b"\xff" * 64)
    assert capture("double", setting="STUB_CUBIN", value=str(tmp_path / "cubin")).problems == ()


def test_a_program_that_does_not_use_cuda_is_named(with_stub: WithStub, tmp_path: Path) -> None:
    with_stub()
    with pytest.raises(CaptureError, match="the program did not initialise CUDA"):
        record([sys.executable, "-c", ""], tmp_path / "folder", Wanted())


def test_a_program_that_does_not_exist_is_named(with_stub: WithStub, tmp_path: Path) -> None:
    with_stub()
    with pytest.raises(CaptureError, match="/no/such cannot be run: No such file"):
        record(["/no/such"], tmp_path / "folder", Wanted())


def test_an_existing_folder_is_not_overwritten(capture: Callable[..., Captured], tmp_path: Path) -> None:
    capture("double")
    assert refused(capture, "double") == f"{tmp_path / 'folder'} exists"


def test_kernels_without_ptx_say_how_to_get_it(capture: Callable[..., Captured]) -> None:
    (problem,) = capture("other").problems
    assert problem.startswith("only SASS of the kernel was found. Compile it with PTX")


def test_the_program_runs_as_without_capture(
    capture: Callable[..., Captured], with_stub: WithStub, tmp_path: Path
) -> None:
    capture("double")
    stub = with_stub()
    plain = subprocess.run([str(stub / "host"), str(tmp_path / "double.ptx"), "double"], check=False)
    assert plain.returncode == 0


def test_a_compiler_that_fails_is_named(
    with_stub: WithStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_stub()
    monkeypatch.setenv("CC", "false")
    with pytest.raises(CaptureError, match="the injection library cannot be compiled: exit code 1"):
        record(["true"], tmp_path / "folder", Wanted())


def test_missing_headers_are_named(
    with_stub: WithStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_stub()
    monkeypatch.setattr("tclint.injection.build._header_folders", lambda: iter(()))
    with pytest.raises(CaptureError, match=r"no header cupti\.h was found, which nvidia-cuda-cupti contains"):
        record(["true"], tmp_path / "folder", Wanted())
