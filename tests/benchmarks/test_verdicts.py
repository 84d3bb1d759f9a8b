"""The benchmark of what is proved counts kernels, and reports each mutant that is still proved."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import (
    prover_rules,
    ptxas,
    results,
    scoreboards,
    verdict_oracles,
    verdict_page,
    verdict_score,
    verdict_shares,
)
from benchmarks import verdicts as benchmark
from benchmarks.faults import OPERATORS
from benchmarks.proof_faults import PROOF_FAULTS
from tclint.findings.verdicts import HazardClass
from tclint.hang.machine_code import MachineCodeError
from tests.tools.project import ROOT
from tests.tools.support import HOPPER, kernel, module

KERNEL = ROOT / "fixtures" / "wgmma_waited.ptx"


def test_every_class_with_faults_has_operators() -> None:
    for hazard, names in benchmark.ABOUT.items():
        assert [name for name in OPERATORS if re.search(names, name)], hazard


def test_a_fault_takes_the_proof_away() -> None:
    done = benchmark.mutants([KERNEL], HazardClass.WGMMA, 60, 7)
    assert done.kernels == 1
    assert done.planted == sum(done.lost.values())
    assert "wgmma.wait_group deleted" in done.lost


POOL = """ld.param.u64 %rd1, [pointer];
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 128;
bar.sync 0;
@%p1 bra producer;
setmaxnreg.inc.sync.aligned.u32 232;
ret;
producer:
setmaxnreg.dec.sync.aligned.u32 40;
ret;"""
PARTIES = """mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 128;
setp.ge.u32 %p2, %r1, 128;
@!%p1 bra over;
bar.sync 1, 128;
over:
@%p2 bar.sync 2, 256;
bar.sync 0;
ret;"""
SHARED = """mov.u32 %r1, %tid.x;
setp.eq.s32 %p1, %r1, 0;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, one;
add.s32 %r4, %r3, %r2;
@%p1 st.shared.b32 [one+1024], %r1;
st.shared.b32 [%r4], %r1;
bar.sync 0;
ld.shared.b32 %r5, [%r4+4];
ret;"""


TENSOR = """mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 32;
@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.b32 %r2, [slot];
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;
ret;"""


@pytest.mark.parametrize(
    ("hazard", "text"),
    [
        (
            HazardClass.TENSOR_MEMORY,
            module(".shared .align 4 .b32 slot;", kernel(TENSOR)),
        ),
        (
            HazardClass.CONVERGENCE,
            module(kernel(PARTIES, directives=".reqntid 384"), header=HOPPER),
        ),
        (
            HazardClass.DEADLOCK,
            module(kernel(PARTIES, directives=".reqntid 384"), header=HOPPER),
        ),
        (
            HazardClass.REGISTER_POOL,
            module(kernel(POOL, directives=".reqntid 384\n.minnctapersm 1"), header=HOPPER),
        ),
        (
            HazardClass.SHARED_MEMORY,
            module(".shared .align 4 .b8 one[2048];", kernel(SHARED), header=HOPPER),
        ),
    ],
)
def test_each_fault_against_a_proof_is_planted_and_takes_it_away(
    hazard: HazardClass, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(text)
    done = benchmark.mutants([path], hazard, 100, 7)
    assert not done.survivors
    assert done.lost.keys() >= PROOF_FAULTS[hazard].keys()


def test_faults_are_planted_in_as_many_kernels_as_are_asked_for() -> None:
    others = [ROOT / "fixtures" / "kernels" / "nvcc-twice.sm_90a.ptx", KERNEL]
    assert benchmark.mutants(others, HazardClass.WGMMA, 2, 7, most=1).kernels == 1


def test_what_a_journal_has_of_a_mutant_is_not_judged_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    first = benchmark.mutants([KERNEL], HazardClass.WGMMA, 9, 7, journal=journal)
    assert len(journal.read_text().splitlines()) == 2 + first.planted  # the kernel, and by the letter
    monkeypatch.delattr(benchmark, "proved")
    assert benchmark.mutants([KERNEL], HazardClass.WGMMA, 9, 7, journal=journal) == first
    with pytest.raises(NameError):
        benchmark.mutants([KERNEL], HazardClass.WGMMA, 12, 7, journal=journal)


def test_faults_are_planted_in_no_larger_file_than_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["verdicts", "--mutants", "1", "--class", "wgmma", "--largest", "1000", str(KERNEL)]
    )
    with pytest.raises(SystemExit):
        benchmark.main()
    assert "wgmma: 0 faults planted" in capsys.readouterr().out


def test_a_mutant_that_is_still_proved_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = benchmark.proved
    (module, function), *_ = verdict_shares.kernels(benchmark.Source.read(KERNEL))
    always = everything(module, function, [HazardClass.WGMMA])
    monkeypatch.setattr(benchmark, "proved", lambda *arguments: always)
    monkeypatch.setattr(sys, "argv", ["verdicts", "--mutants", "1", "--class", "wgmma", str(KERNEL)])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 1
    unread = re.search(r"    not read: wgmma (\w+) (.+?) (\d+) ", capsys.readouterr().out)
    assert unread
    monkeypatch.setattr(verdict_score, "READINGS", tmp_path / "readings.tsv")
    row = "\t".join(("wgmma", *unread.groups(), "it is a test"))
    (tmp_path / "readings.tsv").write_text(f"class\tkernel\twhat\tline\treason\n{row}\n")
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert not ended.value.code
    assert "    no fault, 1: it is a test" in capsys.readouterr().out


def test_every_reading_names_a_class_and_has_a_reason() -> None:
    known = verdict_score.readings()
    assert known
    assert {hazard for hazard, *_ in known} <= {"prover", *(hazard.value for hazard in HazardClass)}
    asked = {*prover_rules.questions()}
    assert {key[1:3] for key in known if key[0] == "prover"} <= asked
    assert all(known.values())


def test_what_ptxas_repairs_and_what_runs_ahead_in_sass_speaks_against_a_proof() -> None:
    try:
        scoreboards.versions()
    except (ptxas.PtxasMissing, MachineCodeError):
        pytest.skip("no ptxas, or no nvdisasm")
    bad = ROOT / "fixtures" / "wgmma_unwaited.ptx"
    ask, _ = verdict_oracles.oracle(HazardClass.WGMMA)
    assert [case.what for case in ask(bad.read_bytes(), {"gemm_unwaited_bad"})] == ["ptxas C7517"]
    assert not list(ask(bad.read_bytes(), set()))
    early = (ROOT / "fixtures" / "tcgen05_gemm_released_early.ptx").read_bytes()
    assert list(scoreboards.compiled(early)["gemm_released_early_bad"].ahead())
    waits = (ROOT / "fixtures" / "tcgen05_gemm.ptx").read_bytes()
    assert not list(scoreboards.compiled(waits)["gemm_ok"].ahead())


def test_the_record_keeps_what_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    row = {
        "sample": "all of them",
        "kernels": 1,
        "planted": 3,
        "lost": 2,
        "harmless": {"it is a test": 1},
        "unread": [],
    }
    verdict_score.record("mutants", "wgmma", row, {})
    asked = {
        "sample": "some of them",
        "oracle": "what it says",
        "kernels": 4,
        "harmless": {},
        "unread": [["a", "b", "c", "1", "d"]],
    }
    verdict_score.record("oracles", "wgmma", asked, {"ptxas": "13"})
    verdict_score.record("mutants", "cp-async", {**row, "harmless": {}}, {})
    left = {"rules": 5, "changes": 9, "harmless": {"a.b": "it is a test"}, "unread": ["a.c"]}
    verdict_score.record("rules", "provers", left, {})
    page = (tmp_path / "results.md").read_text()
    assert "6 faults were planted; 4 take the proof away." in page
    assert "1 were read and are no fault, and 1 are not read." in page
    assert "ptxas 13" in page
    text = "\n".join(verdict_score.tables(results.records()["verdicts"]["data"]))
    assert "The 5 rules" in text
    assert "Of 9 changes, 7 make a test fail" in text
    assert "- `a.b`: it is a test\n- `a.c`: not read" in text
    assert "| `wgmma` | 1 | 3 | 2 | 1 | 0 |" in text
    assert "| `wgmma` | what it says | 4 | 0 | 1 |" in text
    assert "- `wgmma`, 1: it is a test" in text
    assert "- `wgmma`, oracles: some of them" in text


@pytest.fixture
def producers(tmp_path: Path) -> list[Path]:
    for producer, name in (("one", "wgmma_waited"), ("two", "wgmma_unwaited")):
        (tmp_path / producer).mkdir()
        (tmp_path / producer / "k.ptx").write_bytes((ROOT / "fixtures" / f"{name}.ptx").read_bytes())
    return verdict_shares.files([tmp_path], 1)


def test_the_table_counts_classes_and_producers(producers: list[Path]) -> None:
    rows = list(verdict_shares.rows(producers, [HazardClass.WGMMA]))
    lines = [line.split() for line in verdict_shares.table(verdict_shares.shares(rows)).splitlines()]
    assert ["wgmma", "all", "2", "1", "1", "0", "0", "0", "50%"] in lines
    assert ["one", "1", "0", "1", "0", "0", "0", "100%"] in lines
    assert ["two", "1", "1", "0", "0", "0", "0", "0%"] in lines


def test_processes_find_what_one_finds(producers: list[Path], tmp_path: Path) -> None:
    twin = tmp_path / "three" / "k.ptx"
    twin.parent.mkdir()
    twin.write_bytes(producers[0].read_bytes())
    empty = tmp_path / "three" / "none.ptx"
    empty.write_bytes(b"")
    paths = [*producers, twin, empty]
    classes = [HazardClass.WGMMA]
    alone = list(verdict_shares.rows(paths, classes))
    assert [(row.producer, row.status) for row in alone] == [
        ("one", "proved"),
        ("two", "violated"),
        ("three", "proved"),
    ]
    journal = tmp_path / "journal"
    assert list(verdict_shares.rows(paths, classes, journal, jobs=2)) == alone
    assert len(journal.read_text().splitlines()) == 2


def test_what_a_journal_has_is_not_proved_again(
    producers: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "journal"
    first = list(verdict_shares.rows(producers, [HazardClass.WGMMA], journal))
    assert {row.status for row in first} == {"proved", "violated"}
    asked = list[object]()
    monkeypatch.setattr(verdict_shares, "_of", lambda *arguments: asked.append(arguments) or ())
    assert list(verdict_shares.rows(producers, [HazardClass.WGMMA], journal)) == first
    assert not asked
    assert not list(verdict_shares.rows(producers, [HazardClass.BULK], journal))
    assert asked


def test_shares_are_on_the_page_of_results(
    producers: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    command = ["verdicts", "--record", "--class", "wgmma", *map(str, producers)]
    monkeypatch.setattr(sys, "argv", command)
    benchmark.main()
    assert "`wgmma` 50% of 2" in (tmp_path / "results.md").read_text()
    text = "\n".join(verdict_score.tables(results.records()["verdicts"]["data"]))
    assert "| `wgmma` | 2 files | 2 | 1 | 1 | 0 | 0 | 0 | 50% |" in text
    assert "| `wgmma` | 1 of 1 | 0 of 1 |" in text


def test_every_kernel_is_listed_and_counted_for_its_project(
    producers: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(verdict_page, "LISTING", tmp_path / "list.tsv")
    monkeypatch.setattr(verdict_page, "PAGE", tmp_path / "proved.md")
    monkeypatch.setattr(verdict_page, "PROJECTS", ((r"one/k", "First"),))
    monkeypatch.setattr(sys, "argv", ["verdicts", "--record", *map(str, producers)])
    benchmark.main()
    text = verdict_page.LISTING.read_text()
    first, second = verdict_page.read(text)
    assert (first.file, first.classes["wgmma"]) == ("one/k.ptx", "proved")
    assert (second.file, second.classes["wgmma"]) == ("two/k.ptx", "violated")
    assert verdict_page.listing([first, second]) == text
    page = verdict_page.PAGE.read_text()
    assert page == verdict_page.page([first, second])
    assert "Of 2 kernels, " in page
    assert "| class | First | two |" in page
    assert "| `wgmma` | 1 of 1 | 0 of 1 |" in page
    assert "| `wgmma` | 2 | 1 | 0 | 0 | 1 | 0 | 50% |" in page


def test_the_page_of_proofs_is_what_the_list_says() -> None:
    found = verdict_page.read(verdict_page.LISTING.read_text(encoding="utf-8"))
    assert len(found) > 1000
    assert verdict_page.PAGE.read_text(encoding="utf-8") == verdict_page.page(found)


def test_files_that_are_too_large_are_not_counted(
    producers: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    largest = producers[0].stat().st_size
    producers[1].write_bytes(producers[1].read_bytes() + b"//" + b" " * largest)
    command = ["verdicts", "--record", "--largest", str(largest), "--class", "wgmma", *map(str, producers)]
    monkeypatch.setattr(sys, "argv", command)
    benchmark.main()
    text = "\n".join(verdict_score.tables(results.records()["verdicts"]["data"]))
    assert f"| `wgmma` | 1 files up to {largest // 1000} kB | 1 | 0 | 1 |" in text


RULES = (
    "lanes.Lanes._same_in_warp",
    "mma.Multiplications._accumulates",
    "checker._Checker._fenced",
    "convergence.Convergence.refused",
)


def test_a_rule_that_always_gives_one_answer_makes_a_test_fail(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    tests = [f"tests/verdicts/test_{name}.py" for name in ("lanes", "checker")]
    command = [sys.executable, "-m", "benchmarks.prover_rules", "--journal", str(journal), *tests]
    command += [word for rule in RULES for word in ("--rule", rule)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    found = dict(line.split(": ", 1) for line in ended.stdout.splitlines() if ": " in line)
    assert "test_lanes.py" in found["lanes.Lanes._same_in_warp always true"]
    assert "test_lanes.py" in found["lanes.Lanes._same_in_warp always false"]
    refusal = "checker._Checker._fenced never raises 'no wgmma.fence follows the last access of its registers on every path'"
    assert "test_checker.py" in found[refusal]
    assert found["convergence.Convergence.refused always empty"] == "no test fails"
    assert found["mma.Multiplications._accumulates always true"] == "no test fails"
    known = journal.read_text()
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.stdout == ended.stdout
    assert journal.read_text() == known


def test_a_rule_answers_yes_or_no_states_why_or_refuses() -> None:
    every = {*prover_rules.questions()}
    for name in (
        "completion.Completion._waited",
        "completion.Completion._disjoint.passes",
        "mma_checker.in_order",
    ):
        assert {(name, "always true"), (name, "always false")} <= every
    assert ("uniform.Uniform.divergence", "always empty") in every
    assert ("warp_registers.Pool.waiting", "always empty") in every
    assert ("epochs._check_entries", "never raises why") in every
    assert "checker.check" not in {rule for rule, _ in every}


def test_rules_that_no_test_holds_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(
        prover_rules,
        "asked",
        lambda chosen, *_: {each: "" if "_waited" in each.rule else "a test" for each in chosen},
    )
    names = ("completion.Completion._waited", "disjoint.columns_disjoint")
    chosen = [each for each in prover_rules.questions() if each.rule in names]
    monkeypatch.setattr(prover_rules, "questions", lambda: chosen)
    monkeypatch.setattr(sys, "argv", ["prover_rules", "--record"])
    with pytest.raises(SystemExit) as ended:
        prover_rules.main()
    assert ended.value.code == 1
    assert "2 rules, 4 changes, 2 caught, 2 not read" in capsys.readouterr().out
    text = "\n".join(verdict_score.tables(results.records()["verdicts"]["data"]))
    assert "- `completion.Completion._waited always true`: not read" in text
