"""The comparison with other tools: its descriptions fit the kernels, its helpers measure and judge what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus.builder import Skipped
from benchmarks.peers import measure, report, section
from benchmarks.peers.respell import respelled
from benchmarks.peers.sample import Launch, drawn, launches, of_kernels, planted
from benchmarks.peers.tools import Answer, PtxasTool, Pyptx, SentryWard, fresh
from benchmarks.processes import Launcher, Run
from benchmarks.ptxas import Ptxas, PtxasMissing, find
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source
from tests.tools.project import ROOT

WIDTH = {
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "u64": 8,
    "s32": 4,
    "s64": 8,
    "f32": 4,
    "f64": 8,
    "pointer": 8,
    "tensor_map": 128,
}


def named(launch: Launch) -> str:
    return f"{launch.file.name} {launch.entry}"


def test_enough_kernels_are_described() -> None:
    assert len({launch.input for launch in launches()}) >= 5


@pytest.mark.parametrize("launch", launches(), ids=named)
def test_a_described_kernel_is_the_one_in_the_file(launch: Launch) -> None:
    said = json.loads(launch.input.read_text())
    module, problems = analyse(Source.read(launch.file))
    assert not problems
    (kernel,) = (f for f in module.functions if f.name == launch.entry == said["entry"])
    described = [*said["declarations"], *said["arguments"]]
    assert {d["parameter"]: WIDTH[d["type"]] for d in described} == {
        i: p.size for i, p in enumerate(kernel.parameters) if i in {d["parameter"] for d in described}
    }
    maps = {d["parameter"]: d["object"] for d in said["declarations"] if d["type"] == "tensor_map"}
    assert maps == {d["parameter"]: d["object"] for d in said.get("tma_descriptors", ())}
    block = said["launch"]["block_dim"]
    assert block[0] * block[1] * block[2] == kernel.most_threads
    cluster = kernel.directives.get(".reqnctapercluster")
    assert said["launch"].get("cluster_dim", [1, 1, 1]) == list((*(cluster or ()), 1, 1, 1)[:3])
    # Omitted: what the host may not choose, and what is not read.
    text = launch.file.read_text()
    for number, parameter in enumerate(kernel.parameters):
        if number not in {d["parameter"] for d in described}:
            assert text.count(f"[{parameter.name}") == 0, parameter.name


NESTED = """\
.visible .entry k()
{
    .reg .pred p;
    .reg .b32 %r<4>;
    {
    .reg .pred p;
    elect.sync _|p, 0xffffffff;
    selp.u32 %r1, 1, 0, p; // p stays in words
    }
    .loc 1 2 3
    { .reg .b32 a, b; { .reg .b32 a; mov.b32 a, %r1; } mov.b64 {a, b}, %rd1; }
    @p bra L;
L:  ret;
}
"""


def test_registers_of_blocks_are_renamed_apart() -> None:
    text = respelled(NESTED)
    assert text.count("\n") == NESTED.count("\n")
    outer, _, rest = text.partition("}")
    assert ".reg .pred p;" in outer
    assert "elect.sync _|p_in2, 0xffffffff;" in outer
    assert "selp.b32 %r1, 1, 0, p_in2; // p stays in words" in outer
    assert "{ .reg .b32 a_in3, b_in3; { .reg .b32 a_in4; mov.b32 a_in4, %r1; }" in rest
    assert "mov.b64 {a_in3, b_in3}, %rd1; }" in rest
    assert "@p bra L;" in rest


def test_ptxas_makes_the_same_code_of_a_respelled_kernel(tmp_path: Path) -> None:
    try:
        oracle = find()
        if "sm_100a" not in oracle.targets:
            pytest.skip(f"ptxas {oracle.release} does not know sm_100a")
    except PtxasMissing as error:
        pytest.skip(str(error))
    text = (ROOT / "fixtures/kernels/nvcc-tcgen05_gemm.sm_100a.ptx").read_text()
    assert respelled(text) != text
    cubins = []
    for number, version in enumerate((text, respelled(text))):
        path = tmp_path / "kernel.ptx"
        path.write_text(version)
        out = tmp_path / f"{number}.cubin"
        subprocess.run([oracle.path, "-arch", "sm_100a", path, "-o", out], check=True)
        cubins.append(out.read_bytes())
    assert cubins[0] == cubins[1]


def test_a_process_is_measured_with_its_children() -> None:
    child = "print('said', len(b'x' * 80_000_000))"
    with Launcher() as launcher:
        big = launcher.run(
            [
                sys.executable,
                "-c",
                f"import subprocess; subprocess.run([{sys.executable!r}, '-c', {child!r}])",
            ],
            60,
        )
        small = launcher.run([sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"], 60)
        late = launcher.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
        missing = launcher.run(["/no/such/program"], 60)
    assert big.output.strip() == "said 80000000"
    assert big.peak > 80e6
    assert small.peak < 40e6
    assert (big.status, small.status, late.status, missing.status) == (0, 3, None, 127)
    assert "No such file" in missing.output
    assert late.wall < 30
    assert big.cpu > 0


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for producer, count in (("few", 3), ("many", 40), ("more", 41)):
        (tmp_path / producer).mkdir()
        for number in range(count):
            (tmp_path / producer / f"{number:02}.ptx").write_text("x" * (number + 1))
    (tmp_path / "logs").mkdir()
    return tmp_path


def test_the_sample_is_even_and_always_the_same(corpus: Path) -> None:
    files = drawn(corpus, 23, 7)
    assert files == drawn(corpus, 23, 7) != drawn(corpus, 23, 8)
    assert len(files) == len(set(files)) == 23
    count = {p: sum(f.parent.name == p for f in files) for p in ("few", "many", "more")}
    assert count == {"few": 3, "many": 10, "more": 10}
    sizes = sorted(f.stat().st_size for f in files if f.parent.name == "many")
    assert all(4 * i < size <= 4 * i + 4 for i, size in enumerate(sizes))


@pytest.mark.parametrize("count", [0, 200])
def test_the_sample_is_as_large_as_can_be(corpus: Path, count: int) -> None:
    assert len(drawn(corpus, count, 7)) == min(count, 84)
    assert drawn(corpus / "nowhere", count, 7) == []


def test_faults_are_drawn_for_the_kernels_asked_for(tmp_path: Path) -> None:
    path = ROOT / "fixtures/kernels/nvcc-tcgen05_gemm.sm_100a.ptx"
    records = planted([path], 4, 7, tmp_path / "scratch")
    assert {r["file"] for r in records} == {str(path)}
    kept = of_kernels(records, {(str(path), "tcgen05_gemm_bf16")}, 1)
    assert {r["entry"] for r in kept} == {"tcgen05_gemm_bf16"}
    assert len(kept) == len({r["operator"] for r in kept}) > 10


def test_only_what_is_new_counts() -> None:
    before = Answer(said=("warning a", "warning b"))
    assert fresh(before, Answer(said=("warning b", "warning a"))) == []
    assert fresh(before, Answer(said=("warning a", "warning a"))) == ["warning a"]
    assert fresh(before, Answer(refused="no", said=("error no",))) == ["no", "error no"]
    assert fresh(Answer(refused="no"), Answer(refused="no again")) == []


def ran(output: str, status: int = 0) -> Run:
    return Run(status, 0.1, 0.1, 1, output)


def test_answers_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    ptxas = PtxasTool(ptxas=Ptxas(Path("ptxas")))
    path.write_text(".version 9.0\n.target sm_90a, debug\n")
    assert ptxas.command(path)[1:3] == ["-arch", "sm_90a"]
    advice = "ptxas info    : (C7510) Potential Performance Loss: serialized in function 'k'"
    assert ptxas.answer(ran(advice), path) == Answer(said=(advice,))
    error = f"ptxas {path}, line 3; error   : Not a name\nptxas fatal   : Ptx assembly aborted due to errors"
    refusal = ptxas.answer(ran(error, 255), path)
    assert refusal.refused == "Not a name"
    assert refusal.said[0] == "ptxas k.ptx, line 3; error   : Not a name"

    pyptx = object.__new__(Pyptx)
    said = {"seconds": 0.1, "refused": "", "said": ["error: x: y"]}
    assert pyptx.answer(ran(json.dumps(said)), path) == Answer(said=("error: x: y",))
    assert pyptx.answer(ran("Traceback\nKeyError: 3", 1), path) == Answer(refused="KeyError: 3")


def test_what_is_missing_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_environment(*_: Any) -> Path:
        raise Skipped("no network: none at all")

    def no_ptxas() -> Ptxas:
        raise PtxasMissing("no ptxas: set TCLINT_PTXAS to one")

    monkeypatch.setattr("benchmarks.peers.tools.environment", no_environment)
    monkeypatch.setattr(measure, "PtxasTool", no_ptxas)
    monkeypatch.setattr(measure, "FIXTURES", tmp_path)
    (tmp_path / "small.ptx").write_text((ROOT / "fixtures/wgmma_unwaited.ptx").read_text())
    said: list[str] = []
    data, versions, skipped = measure.measure(
        tmp_path / "corpus", tmp_path / "cache", each=0, say=said.append
    )
    assert versions == {}
    assert [s.partition(":")[0] for s in skipped] == [
        "ptxas",
        "pyptx",
        "SentryWard",
        "the sample of the corpus",
    ]
    assert [f"skipped: {s}" for s in skipped] == [line for line in said if line.startswith("skipped")]
    (row,) = data["files"]
    assert row["tools"].keys() == {"tclint"}
    assert row["tools"]["tclint"]["in process"]["findings"] > 0
    assert row["tools"]["tclint"]["said"] == len(row["tools"]["tclint"]["examples"]) == 1
    assert "error: WG001 line" in row["tools"]["tclint"]["examples"][0]
    assert "| tclint | 1 | 1 |" in "\n".join(section(data))


def fault(operator: str, result: str, **found: bool) -> dict[str, Any]:
    about: dict[str, Any] = {name: {"found": yes, "new": []} for name, yes in found.items()}
    about["tclint"]["verdict"] = "found" if found["tclint"] else "low"
    defect = result in SentryWard.DEFECTS
    reason = f"{result}_code: in words"
    passed = {"found": result != "race_free", "defect": defect, "result": result, "reason": reason}
    about["sentryward"] = passed
    return {"group": "described", "operator": operator, "file": "kernels/a.sm_100a.ptx", **about}


def test_the_tables_count_what_was_found() -> None:
    mutants = [
        fault("wgmma.fence deleted", "race_free", tclint=True, ptxas=False),
        fault("tcgen05.alloc deleted", "potential_race", tclint=False, ptxas=False),
        fault("tcgen05.alloc deleted", "unsupported", tclint=True, ptxas=True),
    ]
    text = "\n".join(section({"files": [], "launches": [], "mutants": mutants, "each": 2}))
    assert "| family | planted | tclint | ptxas | SentryWard | SentryWard, as a defect |" in text
    assert (
        "| wgmma | 1 | 1 | 0 | 0 | 0 |\n| tcgen05 | 2 | 1 | 1 | 2 | 1 |\n| all | 3 | 2 | 1 | 2 | 1 |" in text
    )
    assert "Found by tclint and not by SentryWard: 1: wgmma.fence deleted (1)." in text
    assert "Found by SentryWard and not by tclint: 1: tcgen05.alloc deleted (1)." in text
    assert "Found by neither: none." in text
    assert "tclint would have at least 2" in text
    assert "Its results: race free 1, potential race 1, unsupported 1." in text
    assert "name the fault: unsupported code (1)." in text


def test_refusals_of_one_kind_are_one() -> None:
    assert report.reason("ptxas k.ptx, line 30; Not a name") == "Not a name"
    assert report.reason("ptxas warning : Too many in entry k_3, ignored") == "Too many in entry …, ignored"
    assert report.reason("error: TC002 line 17: late") == "error: TC002 : late"


def test_sentryward_is_given_the_launch(tmp_path: Path) -> None:
    ward = object.__new__(SentryWard)
    ward.python = Path("python")
    command = ward.command(tmp_path / "a.ptx", tmp_path / "a.json")
    assert command[3:6] == [str(tmp_path / "a.ptx"), "--input", str(tmp_path / "a.json")]
