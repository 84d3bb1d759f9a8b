"""``tclint check --compile`` and ``tclint nvcc``: what nvcc is called with, and what is linted.

A script takes the place of nvcc; the last tests run the one that ``TCLINT_NVCC`` names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tclint.driver.compiling import find_nvcc
from tests.tools.command import invoke
from tests.tools.project import ROOT

if os.name != "posix":
    pytest.skip("the stand-in for nvcc is a shell script", allow_module_level=True)

NVCC = os.environ.get("TCLINT_NVCC", "")
GOOD = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n"
BAD = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text()
CODE = """\
__global__ void k(float *out, unsigned long long a, unsigned long long b) {
    float d[4] = {0, 0, 0, 0};
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;");
    out[threadIdx.x] = d[0];
}
"""
STAND_IN = """\
#!/bin/sh
here=$(dirname "$0")
printf '%s\\n' "$@" >"$here/said"
echo "from nvcc"
while [ $# -gt 0 ]; do
    case $1 in --keep-dir) folder=$2 ;; esac
    shift
done
[ -z "$folder" ] || cp "$here"/made/*.ptx "$folder" 2>/dev/null
[ ! -e "$here/fails" ] || { echo "k.cu(3): error: no" >&2; exit 3; }
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a script that makes the PTX in ``made`` of anything, and fails if there is a file ``fails``."""
    folder = tmp_path / "stand-in"
    (folder / "made").mkdir(parents=True)
    (folder / "nvcc").write_text(STAND_IN)
    (folder / "nvcc").chmod(0o755)
    monkeypatch.setenv("TCLINT_NVCC", str(folder / "nvcc"))
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text("__global__ void k() {}")
    return folder


def tclint(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tclint", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def said(folder: Path) -> list[str]:
    return (folder / "said").read_text().splitlines()


def test_the_modules_of_a_source_are_checked(stand_in: Path) -> None:
    (stand_in / "made" / "k.compute_80.ptx").write_text(GOOD)
    (stand_in / "made" / "k.compute_90a.ptx").write_text(BAD)
    done = tclint(
        "check", "--compile", "k.cu", "--output-format", "json", "--", "-I", "inc", "-c", "-o", "k.o"
    )
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(file["path"], file["member"]) for file in document["files"]] == [
        ("k.cu", "k.compute_80.ptx"),
        ("k.cu", "k.compute_90a.ptx"),
    ]
    assert {finding["id"] for finding in document["files"][1]["findings"]} >= {"WG001"}
    asked = said(stand_in)
    assert asked[:2] == ["-I", "inc"]
    assert {"-lineinfo", "--keep", "-fatbin", "k.cu"} <= set(asked)
    assert not {"-c", "k.o"} & set(asked)


def test_a_second_run_reuses_the_report_on_a_module(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCLINT_CACHE_DIR", str(stand_in / "cache"))
    monkeypatch.delenv("TCLINT_NO_CACHE", raising=False)
    (stand_in / "made" / "k.ptx").write_text(BAD)
    first, second = (tclint("check", "--compile", "k.cu", "-v") for _ in range(2))
    assert first.stdout == second.stdout
    assert "k.cu(k.ptx)" in first.stdout


def test_what_nvcc_rejects_is_an_error_beside_the_findings(stand_in: Path) -> None:
    (stand_in / "made" / "k.ptx").write_text(BAD)
    (stand_in / "fails").touch()
    done = tclint("check", "--compile", "k.cu", "--output-format", "concise")
    assert done.returncode == 2
    assert "k.cu: error: nvcc failed: k.cu(3): error: no" in done.stdout
    assert "WG001" in done.stdout


def test_a_source_without_ptx_is_not_clean(stand_in: Path) -> None:
    done = tclint("check", "--compile", "k.cu")
    assert done.returncode == 2
    assert "nvcc made no PTX of it" in done.stdout


def test_ptx_is_checked_as_ever_beside_a_source(stand_in: Path) -> None:
    (stand_in / "made" / "k.ptx").write_text(GOOD)
    Path("a.ptx").write_text(BAD)
    done = tclint("check", "--compile", "a.ptx", "k.cu", "--output-format", "concise")
    assert done.returncode == 1
    assert "in 1 of 2 files" in done.stdout


CMAKE = (
    "ccache /opt/cuda/bin/nvcc -forward-unknown-to-host-compiler -ccbin=./evil -DN=4 --options-file inc.rsp"
    ' "--generate-code=arch=compute_90a,code=[compute_90a,sm_90a]" -Xcompiler -fPIC -Xcompiler=-fplugin=evil.so'
    " -std=c++17 -O3 -MD -MT k.o -MF k.o.d --run --keep-dir /x -x cu -c ../k.cu -o k.o"
)
TAKEN = ["-DN=4", "-isystem", "/opt/include", "--generate-code=arch=compute_90a,code=[compute_90a,sm_90a]"]
TAKEN += ["-std=c++17", "-O3", "-x", "cu", "-fatbin", "-o"]


@pytest.fixture
def database(stand_in: Path) -> Path:
    """``build/compile_commands.json`` with ``k.cu`` and sources of other compilers."""
    (stand_in / "made" / "k.ptx").write_text(GOOD)
    path = Path("build") / "compile_commands.json"
    path.parent.mkdir()
    (path.parent / "inc.rsp").write_text('-isystem "/opt/include" --options-file inc.rsp')
    entry = {"directory": str(path.parent.resolve()), "command": CMAKE, "file": "../k.cu"}
    other = {"directory": ".", "arguments": ["clang++", "-c", "../other.cu"], "file": "../other.cu"}
    gone = entry | {"file": "gone.cu"}
    path.write_text(json.dumps([entry, entry | {"command": "nvcc -DTWICE ../k.cu"}, other, gone]))
    Path("other.cu").touch()
    return path


@pytest.mark.parametrize("path", ["k.cu", "build/compile_commands.json"])
def test_the_arguments_of_the_build_are_used(stand_in: Path, database: Path, path: str) -> None:
    code, out = invoke("check", "--compile", path)
    assert (code, out) == (0, "No findings in 1 file.\n")
    asked = said(stand_in)
    assert asked[: len(TAKEN)] == TAKEN
    assert asked[len(TAKEN) + 1] == os.path.abspath("k.cu")


def test_nothing_of_the_build_runs_a_program_or_writes_a_file(stand_in: Path, database: Path) -> None:
    invoke("check", "--compile", "k.cu")
    assert not [word for word in said(stand_in) if "evil" in word or word in ("--run", "/x", "k.o.d", "k.o")]


def test_arguments_on_the_command_line_take_the_place_of_those_of_the_build(
    stand_in: Path, database: Path
) -> None:
    invoke("check", "--compile", "k.cu", "--", "-DMINE")
    assert said(stand_in)[:2] == ["-DMINE", "-fatbin"]


def test_a_source_that_the_build_does_not_have_is_compiled_without_arguments(
    stand_in: Path, database: Path
) -> None:
    assert invoke("check", "--compile", "other.cu")[0] == 0
    assert said(stand_in)[0] == "-fatbin"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not a list of compilations"),
        ("[1]", "is not a list of compilations"),
        ('[{"file": 1, "directory": ".", "command": "nvcc"}]', "is not a list of compilations"),
        ('[{"file": "k.cu", "directory": ".", "arguments": [1]}]', "is not a list of compilations"),
        ('[{"file": "k.cu", "directory": ".", "command": "nvcc -optf absent"}]', "cannot be read"),
        ("[]", "has no source"),
    ],
)
def test_a_damaged_description_of_the_build_is_one_line(
    stand_in: Path, database: Path, text: str, words: str
) -> None:
    database.write_text(text)
    code, said = invoke("check", "--compile", str(database))
    assert (code, said.startswith(f"{database} {words}"), said.count("\n")) == (2, True, 0)
    if text != "[]":
        code, said = invoke("check", "--compile", "k.cu")
        assert (code, words in said) == (2, True)


def test_a_folder_stands_for_its_sources_and_not_for_headers(stand_in: Path) -> None:
    (stand_in / "made" / "k.ptx").write_text(GOOD)
    Path("src").mkdir()
    Path("k.cu").rename("src/k.cu")
    Path("src/h.cuh").write_text('inline void f() { asm("exit;"); }')
    assert invoke("check", "--compile", "src") == (0, "No findings in 1 file.\n")


@pytest.mark.parametrize("arguments", [("check", "--compile", "k.cu"), ("nvcc", "-c", "k.cu")])
def test_without_nvcc_it_says_how_to_get_one(
    stand_in: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TCLINT_NVCC")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(stand_in / "made"))
    if find_nvcc() is not None:
        pytest.skip("there is an nvcc that is found without PATH")
    done = tclint(*arguments)
    assert done.returncode == 2
    assert "TCLINT_NVCC" in done.stderr
    assert "nvidia-cuda-nvcc" in done.stderr


def test_the_last_line_about_strings_names_the_option(stand_in: Path) -> None:
    done = tclint("check", "k.cu")
    assert done.stdout.splitlines()[-1] == (
        "No findings in 1 file; nothing was compiled: only the strings with PTX are read, and there is none;"
        " 'tclint check --compile FILE' checks all PTX that nvcc makes of CUDA C++."
    )


def test_nvcc_runs_as_without_tclint_and_its_ptx_is_linted(stand_in: Path) -> None:
    (stand_in / "made" / "k.ptx").write_text(BAD)
    done = tclint("nvcc", "-arch=sm_90a", "-c", "k.cu", "-o", "k.o")
    assert (done.returncode, done.stdout) == (0, "from nvcc\n")
    assert "error[WG001]" in done.stderr
    assert "--fix" not in done.stderr
    assert said(stand_in)[:6] == ["-arch=sm_90a", "-c", "k.cu", "-o", "k.o", "-lineinfo"]
    assert not Path(said(stand_in)[-1]).exists()


def test_findings_fail_the_compilation_only_if_asked(stand_in: Path) -> None:
    (stand_in / "made" / "k.ptx").write_text(BAD)
    assert tclint("nvcc", "--refuse", "--", "-c", "k.cu").returncode == 1
    assert tclint("nvcc", "--refuse", "--ignore", "WG", "--", "-c", "k.cu").returncode == 0
    (stand_in / "fails").touch()
    assert tclint("nvcc", "--refuse", "--", "-c", "k.cu").returncode == 3
    assert tclint("nvcc", "-c", "k.cu").returncode == 3


def test_a_call_that_makes_no_ptx_has_no_report(stand_in: Path) -> None:
    done = tclint("nvcc", "k.o", "-o", "k")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_folder_of_the_call_is_used_and_line_information_asked_for_once(
    stand_in: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "old.ptx").write_text(BAD)
    (stand_in / "made" / "k.ptx").write_text(GOOD)
    done = tclint("nvcc", "-G", "--keep", "--keep-dir", str(own), "-c", "k.cu")
    assert (done.returncode, done.stderr) == (0, "")
    assert said(stand_in) == ["-G", "--keep", "--keep-dir", str(own), "-c", "k.cu"]


def test_what_a_call_makes_again_in_its_folder_is_checked_again(stand_in: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "old.ptx").write_text(BAD)
    (own / "k.ptx").write_text(GOOD)
    os.utime(own / "k.ptx", (0, 0))
    (stand_in / "made" / "k.ptx").write_text(BAD)
    done = tclint("nvcc", "--keep", "--keep-dir", str(own), "-c", "k.cu")
    assert done.returncode == 0
    assert "WG001" in done.stderr
    assert "k.ptx" in done.stderr
    assert "old.ptx" not in done.stderr


needs_nvcc = pytest.mark.skipif(shutil.which(NVCC) is None, reason="TCLINT_NVCC names no nvcc that compiles")
GENCODE = ("-gencode", "arch=compute_90a,code=sm_90a")


@needs_nvcc
def test_a_source_is_compiled_and_the_finding_names_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(CODE)
    done = tclint("check", "--compile", "k.cu", "--output-format", "concise", "--", *GENCODE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "k.cu:7:5: error WG001" in done.stdout
    done = tclint("nvcc", *GENCODE, "-c", "k.cu", "-o", "k.o")
    assert (done.returncode, Path("k.o").is_file()) == (0, True), done.stderr
    assert "--> k.cu:7:5" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.cu", "k.o"]


def test_what_was_compiled_for_the_run_has_lines_of_the_source_only(stand_in: Path) -> None:
    shutil.copy(ROOT / "fixtures" / "sources" / "stale.cu", "stale.cu")
    made = (ROOT / "fixtures" / "sources" / "stale.ptx").read_text()
    name = '.file\t1 "' + os.path.abspath("stale.cu")
    (stand_in / "made" / "stale.ptx").write_text(
        made.replace('.file\t1 "/home/user/project/kernels/stale.cu', name)
    )
    done = tclint("check", "--no-cache", "--compile", "--output", "sarif=log", "stale.cu")
    assert "--> stale.cu:7:9 in reversed\n" in done.stdout
    assert "= PTX: stale.cu(stale.ptx):69:2: st.shared.f32 [%r2], %f12;" in done.stdout
    (result,) = json.loads(Path("log").read_text())["runs"][0]["results"]
    assert "fixes" not in result  # its lines would be those of the PTX
    places = [location["physicalLocation"] for location in result["relatedLocations"]]
    assert all("region" not in place for place in places[:2])
    messages = [location["message"]["text"] for location in result["relatedLocations"]]
    assert messages[1].endswith("(row) (stale.ptx:69)")
    text = Path("stale.cu").read_text()
    Path("stale.cu").write_text(
        text.replace("i * 256 + threadIdx.x];", "i * 256 + threadIdx.x]; // tclint: ignore[SM001]")
    )
    assert tclint("check", "--no-cache", "--compile", "stale.cu").returncode == 0
    Path("stale.cu").write_text(text.replace("__syncthreads();", "__syncthreads(); // tclint: ignore[SM001]"))
    done = tclint("check", "--no-cache", "--compile", "stale.cu")
    assert "stale.cu:8: ignore[SM001] hides nothing" in done.stdout
    assert done.returncode == 2
