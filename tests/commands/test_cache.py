"""Commands with results of earlier runs print what they print without, and import no analysis."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tclint import check_paths
from tclint.report.formats import formats
from tests.tools import command
from tests.tools.project import ROOT

UNWAITED = ROOT / "fixtures" / "wgmma_unwaited.ptx"
_TIMESTAMP = re.compile(r' timestamp="[^"]*"')
"""The time of a report in the format junit."""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(run_tclint: Run, tmp_path: Path) -> Run:
    """``tclint`` with a cache of its own."""
    own = {"TCLINT_NO_CACHE": "", "TCLINT_CACHE_DIR": str(tmp_path / "cache")}

    def with_cache(
        *arguments: str, env: dict[str, str] | None = None, **options: object
    ) -> subprocess.CompletedProcess[str]:
        return run_tclint(*arguments, env=own | (env or {}), **options)

    return with_cache


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    return Path(shutil.copy(UNWAITED, tmp_path / "kernel.ptx"))


def reused(done: subprocess.CompletedProcess[str]) -> str:
    return next(line for line in done.stderr.splitlines() if line.startswith("cache: ")).split(" reports")[0]


# ---------------------------------------------------------------- equal output


def rendered(folder: Path, **options: object) -> dict[str, str]:
    """Format -> the report on everything in a folder."""
    report = check_paths([folder], pedantic=True, include=["*.cu", "*.py"], **options)  # type: ignore[arg-type]
    return {name: _TIMESTAMP.sub("", report.render(name, locate="ptx")) for name in formats()}


def assert_equal_warm_and_cold(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, verdict: bool
) -> None:
    monkeypatch.chdir(folder)
    cold = rendered(folder, verdict=verdict)
    assert not cache.exists()  # the API uses no cache unless an option asks for it
    assert rendered(folder, verdict=verdict, cache=True) == cold
    from tclint.driver import pool

    def never(*_: object) -> None:
        raise AssertionError("it was linted again")

    monkeypatch.setattr(pool, "check", never)
    assert rendered(folder, verdict=verdict, cache=True) == cold


@pytest.mark.parametrize("verdict", [False, True], ids=["findings", "verdicts"])
def test_all_formats_are_equal_warm_and_cold(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, verdict: bool
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for path in (ROOT / "fixtures").glob("*.ptx"):
        shutil.copy(path, folder)
    (folder / "broken.ptx").write_text(".version 8.0\n.target sm_90\n.visible .entry k() { bogus \n")
    (folder / "host.cu").write_text('__device__ void f() { asm volatile("wgmma.fence.sync.alined;"); }\n')
    (folder / "kernel.json").write_text('{"name": "gemm", "num_warps": 4}')
    shutil.copy(UNWAITED, folder / "kernel.ptx")
    assert_equal_warm_and_cold(folder, own_cache, monkeypatch, verdict)


@pytest.mark.parametrize("options", [[], ["--statistics"], ["--strict", "--pedantic", "--verdict"]], ids=str)
def test_command_prints_the_same_warm_and_cold(run: Run, kernel: Path, options: list[str]) -> None:
    cold = run("check", "--no-cache", *options, str(kernel))
    for expected in ("cache: 0 of 1", "cache: 1 of 1"):
        done = run("check", "-v", *options, str(kernel))
        assert (done.stdout, done.returncode) == (cold.stdout, cold.returncode)
        assert reused(done) == expected


def test_fix_changes_the_same_bytes_warm_and_cold(run: Run, tmp_path: Path) -> None:
    source = UNWAITED.read_bytes()
    fixed = []
    for n in range(3):
        path = tmp_path / "k.ptx"
        path.write_bytes(source)
        if n == 1:  # its report is known when --fix begins
            run("check", str(path))
        done = run("check", "--fix", *(["--no-cache"] if n == 0 else []), str(path))
        fixed.append((path.read_bytes(), done.stdout, done.stderr, done.returncode))
    assert fixed[0][0] != source
    assert fixed[1] == fixed[2] == fixed[0]


def test_baseline_is_the_same_warm_and_cold(run: Run, kernel: Path, tmp_path: Path) -> None:
    texts = []
    for options in (["--no-cache"], [], ["-v"]):
        done = run("baseline", "--output", "b.json", *options, str(kernel))
        assert "1 new" in done.stdout
        texts.append((tmp_path / "b.json").read_text())
        assert run("check", "--baseline", "b.json", str(kernel)).returncode == 0
        (tmp_path / "b.json").unlink()
    assert reused(done) == "cache: 1 of 1"
    assert len(set(texts)) == 1


def test_ptxas_wrapper_reuses_results(run: Run, kernel: Path, tmp_path: Path) -> None:
    if os.name != "posix":
        pytest.skip("needs a shell")
    fake = tmp_path / "ptxas"
    fake.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.48'\n")
    fake.chmod(0o755)
    environment = {"TCLINT_PTXAS": str(fake), "TCLINT_PTXAS_FORMAT": "concise"}
    first = run("ptxas", "-arch=sm_90a", str(kernel), env=environment)
    second = run("ptxas", "-arch=sm_90a", str(kernel), env=environment)
    assert " error " in first.stderr
    assert (second.stdout, second.stderr) == (first.stdout, first.stderr)
    assert "1 of 2 lookups" in run("cache").stdout


def test_pytest_plugin_reuses_results(kernel: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "TCLINT_NO_CACHE": "",
        "TCLINT_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tclint.pytest_plugin", "--tclint", "--rootdir", str(tmp_path), str(kernel)]
    outputs = [
        subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        ).stdout
        for _ in range(2)
    ]
    assert "WG" in outputs[0]
    assert outputs[0].split("short test summary")[0] == outputs[1].split("short test summary")[0]
    assert (tmp_path / "cache" / "lookups").read_text() == "0 1\n1 0\n"


# ---------------------------------------------------------------- cost


def test_warm_run_imports_no_analysis(run: Run, kernel: Path) -> None:
    code = (
        "import sys\nfrom tclint.commands._cli import _run\n"
        "_run(['check', '--jobs', '1', sys.argv[1]])\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('tclint', 'networkx'))))\n"
    )
    run("check", str(kernel))
    environment = {
        "TCLINT_NO_CACHE": "",
        "TCLINT_CACHE_DIR": str(kernel.parent / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, str(kernel)],
        env=os.environ | environment, cwd=kernel.parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = set(done.stdout.splitlines()[-1].split())
    packages = {name.split(".")[1] for name in loaded if name.startswith("tclint.")}
    assert not packages & {
        "checks",
        "analyses",
        "values",
        "dataflow",
        "replay",
        "linting",
        "ir",
        "verdicts",
        "executor",
    }
    assert not loaded & {"networkx", "tclint.isa.table"}


# ---------------------------------------------------------------- options, and what goes wrong


def test_no_cache_neither_reads_nor_writes(run: Run, kernel: Path, tmp_path: Path) -> None:
    for options in (["--no-cache"], ["--timings"], ["--config", "cache=false"]):
        done = run("check", "-v", *options, str(kernel))
        assert "cache:" not in done.stderr
        assert not (tmp_path / "cache").exists()


def test_timings_show_stages_although_the_report_is_known(run: Run, kernel: Path) -> None:
    run("check", str(kernel))
    assert "parse and build" in run("check", "--timings", str(kernel)).stderr


def test_folder_that_cannot_be_written_costs_a_note_with_v_only(
    run: Run, kernel: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    environment = {"TCLINT_CACHE_DIR": str(tmp_path / "file" / "cache")}
    plain = run("check", "--no-cache", str(kernel))
    done = run("check", str(kernel), env=environment)
    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    verbose = run("check", "-v", str(kernel), env=environment)
    assert (verbose.stdout, verbose.returncode) == (plain.stdout, plain.returncode)
    assert f"cache: not kept: {tmp_path / 'file' / 'cache'}: Not a directory" in verbose.stderr


def test_cache_command_shows_what_is_kept(run: Run, kernel: Path, tmp_path: Path) -> None:
    empty = run("cache").stdout
    assert f"folder   {tmp_path / 'cache'}\n" in empty
    assert "files    0\n" in empty
    assert "hits     0 of 0 lookups\n" in empty
    for _ in range(3):
        run("check", str(kernel))
    full = run("cache", env={"TCLINT_CACHE_SIZE": "7"}).stdout
    assert "files    2\n" in full  # the report, and the digest of tclint
    assert "of 7 MiB\n" in full
    assert "hits     2 of 3 lookups (67%)\n" in full
    assert run("cache", "--folder").stdout == f"{tmp_path / 'cache'}\n"


def test_cache_command_clears(run: Run, kernel: Path, tmp_path: Path) -> None:
    run("check", str(kernel))
    assert run("cache", "--clear").stdout == "Removed 2 files.\n"
    assert "hits     0 of 0 lookups\n" in run("cache").stdout
    assert reused(run("check", "-v", str(kernel))) == "cache: 0 of 1"
    done = run("cache", "--clear", "--folder")
    assert (done.returncode, "Only one of --clear, --add and --folder" in done.stderr) == (2, True)


@pytest.mark.parametrize("output", ["text", "json", "sarif"])
def test_merged_shards_make_the_report_of_a_run_that_was_not_divided(
    run: Run, tmp_path: Path, output: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("wgmma_unwaited", "wgmma_waited", "predicated_exit", "inlined_loc", "branch_table"):
        shutil.copy(ROOT / "fixtures" / f"{name}.ptx", folder)
    (folder / "broken.ptx").write_text("not PTX\n")
    whole = run("check", "--no-cache", "--output-format", output, "in")
    for number in (1, 2, 3):
        part = run("check", "-v", "--shard", f"{number}/3", "in", env={"TCLINT_CACHE_DIR": f"shard-{number}"})
        assert reused(part) == "cache: 0 of 2"
    added = run("cache", "--add", "shard-1", "--add", "shard-2", "--add", "shard-3")
    assert added.returncode == 0, added.stderr
    merged = run("check", "-v", "--output-format", output, "in")
    assert (merged.stdout, merged.returncode) == (whole.stdout, whole.returncode)
    assert reused(merged) == "cache: 6 of 6"


def test_wrong_shards_and_folders_are_usage_errors(run: Run, kernel: Path) -> None:
    for text in ("0/2", "3/2", "1", "1/", "/2", "a/b", "-1/2", "1/2/3"):
        done = run("check", "--shard", text, str(kernel))
        assert (done.returncode, "is not of the form I/N" in done.stderr) == (2, True), text
    done = run("cache", "--add", "missing")
    assert (done.returncode, "missing is not a folder" in done.stderr) == (2, True)


def test_shard_without_files_and_without_the_wanted_function_is_clean(run: Run, kernel: Path) -> None:
    done = run("check", "--shard", "2/2", str(kernel))
    assert (done.stdout, done.returncode) == ("Nothing was analysed.\n", 0)
    name = run("check", "--shard", "1/2", "--entry", "nowhere", str(kernel))
    assert name.returncode == 0, name.stderr


def test_processes_that_check_the_same_files_at_once_agree(run: Run, tmp_path: Path) -> None:
    for n in range(4):
        shutil.copy(UNWAITED, tmp_path / f"{n}.ptx")
    expected = run("check", "--no-cache", ".").stdout
    environment = {
        "TCLINT_NO_CACHE": "",
        "TCLINT_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tclint", "check", "."],
            env=os.environ | environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    assert [process.communicate(timeout=120)[0] for process in running] == [expected] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_command_has_the_variables_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of this process among them, which it replaces: a server without them once used the cache of the user."""
    monkeypatch.setenv("TCLINT_CACHE_DIR", str(tmp_path / "given"))
    monkeypatch.delenv("TCLINT_NO_CACHE")
    assert command.forked(("cache", "--folder"), tmp_path, os.environ).stdout.strip() == str(
        tmp_path / "given"
    )
