"""The speed benchmark measures what it says: its stages add up, and its grown inputs are sound and grow."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from time import process_time

import pytest

from tests.tools.support import HEADER, built, function, kernel, lint, module

pytest.importorskip("resource", reason="the benchmark measures processes as Unix does")

from benchmarks import grow, processes, results, speed
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
    path.write_text(grow.repeated(DATA, 50))
    shares = []
    for _ in range(4):  # the first one imports; a collection or a page fault may hit any one
        watch = speed.Stopwatch()
        measured, report = speed.lint(path, watch)
        shares.append(sum(watch.seconds.values()) / measured.cpu)
    assert {"read", "parse", "IR", "CFG", "values"} <= watch.seconds.keys()
    assert any(share == pytest.approx(1, rel=0.2) for share in shares), shares
    assert measured.instructions == len(built(path.read_text()).functions[0].instructions)
    assert report.status == "analysed"


def test_what_is_timed_is_put_back() -> None:
    from tclint.analyses import model
    from tclint.ir import rebuild

    before = rebuild.parse, rebuild.build, model.solve
    watch = speed.Stopwatch()
    with speed.split(watch, []):
        assert rebuild.build is not before[1]
    assert (rebuild.parse, rebuild.build, model.solve) == before


def test_a_repeated_function_has_fresh_registers_and_labels() -> None:
    once = function(TEXT)
    text = grow.repeated(DATA, 4)
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
    text = grow.concatenated([DATA, other], 6 * len(DATA), HEADER)
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
        grow.concatenated([text.encode()], 1000, HEADER)
    with pytest.raises(ValueError, match="repeated"):
        grow.repeated(text.encode(), 2)


def test_ratios_are_scaled_to_a_doubling() -> None:
    growth = speed.Growth("", [(100, speed.Run(1.0, 1, 1)), (400, speed.Run(4.0, 1, 1))])
    assert growth.ratios == [2.0]


def test_what_is_measured_is_recorded_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "good.ptx").write_text(TEXT)
    (folder / "binary.ptx").write_bytes(b"\x7fELF\0\0")
    run = speed.Run(0.2, 10, 10**7, {"IR": 0.1}, 0.1)
    monkeypatch.setattr(speed, "process", lambda command: processes.Run(0, 0.5, 0.4, 10**7, ""))
    monkeypatch.setattr(speed, "fresh", lambda files, repeat=1: run)
    monkeypatch.setattr(results, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setenv("TCLINT_PTXAS", str(tmp_path / "none"))
    assert speed.main([str(folder), "--ptxas", "--growth", "--jobs", "--record"]) == 0
    page = results.PAGE.read_text()
    assert "`tclint --version` takes 0.500 s wall (goal: 0.15, **missed**)." in page
    assert "- binary.ptx is left out: SourceError: no PTX in it: it is an ELF file" in page
    assert "- ptxas is skipped: TCLINT_PTXAS names" in page
    assert "- No function with `wgmma` can be repeated inside itself." in page
    text = "\n".join(speed.tables(results.records()["speed"]["data"]))
    assert "| all 1 files |" in text
    assert "| good.ptx |" in text
    assert "`tclint --version`: 0.500 s wall (≤ 0.15: **missed**)." in text
    assert "| good.ptx | 0.001 | sarif | 0.500 | 0.400 | 10 |" in text
    assert "| 1 | 0.50 | 0.40 | 1.00 | 100% |" in text
    assert re.search(r"Output, all findings at once: .*\bjson\b", text)
    assert re.search(r"Each rule.*\bPX001, PX002\b", text)
    assert re.search(r"Each analysis: \w", text)


def test_growth_and_ptxas_are_shown_where_they_were_measured() -> None:
    small, large = (speed.Run(s, 100, 10**9, {"IR": s}) for s in (1.0, 3.0))
    growth = speed.Growth("kernels", [(100, small), (200, large)])
    lines = speed._growth(json.loads(json.dumps(speed.asdict(growth) | {"ratios": growth.ratios})))
    assert "| 0.00 | 100 | 3.00 | 3000.00 | 3.00 | **missed** | 1000 | 40 | **missed** |" in lines
    assert "Most of the largest, with the growth over the last doubling: IR 3.00 s (3.0 times)." in lines
    one = speed.Measured("k.ptx", 100, 10, 1.0, 1.0, ptxas=4.0)
    assert speed._against(speed.asdict(one)) == ["4.00", "0.250", "**missed**"]
    assert speed._sum([one, speed.Measured("l.ptx", 100, 10, 1.0, 1.0)], 0.0)["ptxas"] is None
    summed, listed = speed._sum([one], 0.0), [speed.asdict(one)]
    shown = speed._files(
        {"all": summed, "compiled": summed, "largest": listed, "slower": 3, "slowest": listed}
    )
    assert "3 files take longer than ptxas does (goal: none)." in shown


def test_a_fresh_process_measures_its_own_memory(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    kept = bytearray(os.urandom(1)) * 150_000_000  # what the parent holds is not the child's
    run = speed.fresh([path])
    assert len(kept) > run.peak > 10_000_000
    assert 0 < run.cpu < 2
    assert run.start > 0.01
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


def test_a_process_is_measured_by_itself() -> None:
    kept = bytearray(os.urandom(1)) * 150_000_000
    done = speed.process([sys.executable, "-c", "print('x' * 9); raise SystemExit(3)"])
    assert (done.status, done.output.strip()) == (3, "xxxxxxxxx")
    assert 0 < done.cpu < 2
    assert len(kept) > done.peak > 1_000_000


def test_a_folder_without_ptx_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert speed.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("Error: there is no .ptx file below")
