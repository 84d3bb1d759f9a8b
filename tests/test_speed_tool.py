"""The speed benchmark measures what it says: its stages add up, and its grown inputs are sound and grow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import process_time

import pytest
from conftest import ROOT
from support import HEADER, built, function, kernel, lint, module

pytest.importorskip("resource", reason="the benchmark measures processes as Unix does")

from benchmarks import speed
from benchmarks.ptxas import Ptxas

BODY = """\
    .shared .align 8 .b64 barrier;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 ret;
    { .reg .b32 temporary; mov.b32 temporary, %r1; }
$again:
    mbarrier.test_wait.parity.shared.b64 %p2, [barrier], 0;
    @!%p2 bra $again;
    bar.sync 0;
    ret;"""
TEXT = module(".global .b32 counter;\n", kernel(BODY))
DATA = TEXT.encode()


def spin(seconds: float) -> None:
    end = process_time() + seconds
    while process_time() < end:
        pass


def test_a_stage_does_not_count_what_is_inside_another() -> None:
    watch = speed.Stopwatch()
    watch.start()
    with watch.stage("outer"):
        spin(0.02)
        with watch.stage("inner"):
            spin(0.04)
    spin(0.01)
    watch.clock("rest", 0.0)
    assert watch.seconds["outer"] == pytest.approx(0.02, abs=0.008)
    assert watch.seconds["inner"] == pytest.approx(0.04, abs=0.008)
    assert watch.seconds["rest"] == pytest.approx(0.01, abs=0.008)


def test_the_stages_of_a_file_add_up(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(speed.repeated(DATA, 50))
    shares = []
    for _ in range(4):  # the first one imports; a collection or a page fault may hit any one
        watch = speed.Stopwatch()
        measured = speed.lint(path, watch)
        shares.append(sum(watch.seconds.values()) / measured.cpu)
    assert {"read", "parse", "build", "graph", "values"} <= watch.seconds.keys()
    assert any(share == pytest.approx(1, rel=0.2) for share in shares), shares
    assert measured.instructions == len(built(path.read_text()).functions[0].instructions)
    assert measured.status == "analysed"


def test_what_is_timed_is_put_back() -> None:
    from tclint import driver, model, syntax

    before = syntax.parse, driver.build, model.solve
    watch = speed.Stopwatch()
    with speed._split(watch, []):
        assert driver.build is not before[1]
    assert (syntax.parse, driver.build, model.solve) == before


def test_a_repeated_function_has_fresh_registers_and_labels() -> None:
    once = function(TEXT)
    text = speed.repeated(DATA, 4)
    grown = function(text)
    assert lint(text).status == "analysed"
    assert len(grown.instructions) == 4 * len(once.instructions) + 1
    written = [{f.registers[r].name for i in f.instructions for r in i.writes} for f in (once, grown)]
    assert len(written[1]) == 4 * len(written[0])
    assert len(set(grown.labels.values())) == len(grown.labels)
    left = [i for i in grown.instructions if i.flow == "return"]
    assert left == [grown.instructions[-1]]


def test_concatenated_kernels_are_one_sound_module() -> None:
    other = module(kernel("ret;", name="l")).encode()
    text = speed.concatenated([DATA, other], 6 * len(DATA), HEADER)
    made = built(text)
    names = [f.name for f in made.functions]
    assert len(set(names)) == len(names) > 6
    assert len(made.variables) == sum(name.startswith("k") for name in names)
    assert text.count(".version") == 1
    assert len(text) >= 6 * len(DATA)
    assert lint(text).status == "analysed"


@pytest.mark.parametrize(
    "text",
    [module(".extern .func f;\n", kernel("ret;")), module(kernel("mov.b32 %nowhere, 0;"))],
    ids=["declaration", "undefined"],
)
def test_modules_that_cannot_be_repeated_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="repeated"):
        speed.concatenated([text.encode()], 1000, HEADER)
    with pytest.raises(ValueError, match="repeated"):
        speed.repeated(text.encode(), 2)


def test_ratios_are_scaled_to_a_doubling() -> None:
    growth = speed.Growth("", [(100, speed.Run(1.0, 1, 1)), (400, speed.Run(4.0, 1, 1))])
    assert growth.ratios == [2.0]


def test_the_report_says_what_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.ptx").write_text(TEXT)
    (tmp_path / "binary.ptx").write_bytes(b"\x7fELF\0\0")
    output = tmp_path / "docs" / "performance.md"
    monkeypatch.setattr(sys, "argv", ["speed", str(tmp_path), "--ptxas", "--output", str(output)])
    monkeypatch.setattr(speed, "version_seconds", lambda: 0.5)
    monkeypatch.setenv("TCLINT_PTXAS", str(tmp_path / "none"))
    speed.main()
    text = output.read_text()
    assert "| the 1 largest |" in text
    assert "- binary.ptx is left out: SourceError: no PTX in it: it is an ELF file" in text
    assert "- ptxas is skipped: TCLINT_PTXAS names" in text
    assert "`tclint --version`: 0.500 s wall, median of 15 (≤ 0.15: **missed**)" in text


def test_a_fresh_process_measures_its_own_memory(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    kept = bytearray(os.urandom(1)) * 150_000_000  # what the parent holds is not the child's
    run = speed.fresh([path])
    assert len(kept) > run.peak > 10_000_000
    assert 0 < run.cpu < 2
    assert run.instructions == len(function(TEXT).instructions)
    assert sum(run.stages.values()) <= run.cpu
    with pytest.raises(RuntimeError, match="no such file"):
        speed.fresh([tmp_path / "missing.ptx"])


def test_ptxas_is_asked_for_the_target_of_the_file(tmp_path: Path) -> None:
    path, program = tmp_path / "k.ptx", tmp_path / "ptxas"
    path.write_text(TEXT)
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.exit(0 if sys.argv[2] == 'sm_100a' else 'refused')\n"
    )
    program.chmod(0o755)
    assert speed.ptxas_seconds(Ptxas(program), path) > 0
    path.write_text(TEXT.replace("sm_100a", "sm_90"))
    with pytest.raises(ValueError, match="refused"):
        speed.ptxas_seconds(Ptxas(program), path)


def test_a_folder_without_ptx_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.speed", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: there is no .ptx file below")
