"""The comparison with ptxas: what it reads out of the messages, and how it counts and explains differences."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import agreement
from benchmarks.agreement import ADVISORIES, UNEXPLAINED, Measurement, Text, figure, measure, tables
from benchmarks.corpus.builder import Skipped
from benchmarks.ptxas import Archive, Compilation, Ptxas
from tclint.findings.rules import all_rules
from tests.tools.ptxas import find_ptxas
from tests.tools.support import HOPPER, before_the_wait, kernel, module

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ptxas is asked with Unix's account of its time")

PROGRAM = f"""#!{sys.executable}
import re, sys
# wait_group is injected, reading accumulator registers
# warpgroup.arrive is injected
# insufficient register resources
if sys.argv[1] == "--version":
    sys.exit(print("Cuda compilation tools, release RELEASE, VRELEASE.37"))
if sys.argv[1] == "--help":
    sys.exit(print("'compute_90a' 'compute_110a'"))
text = open(sys.argv[3]).read()
open(__file__ + ".log", "a").write(sys.argv[2] + "\\n")
said = re.findall("//! (.*)", text)
print("\\n".join(said))
sys.exit(255 if any("error" in line or "fatal" in line for line in said) else 0)
"""
INJECTED = (
    "//! ptxas info    : (C7517) wgmma.wait_group is injected in around line 7 by compiler in function 'k'\n"
)
SERIALISED = "//! ptxas info    : (C7514) ... reading accumulator registers of  a wgmma in the function 'k' in line 9\n"
EARLY = module(before_the_wait("add.f32 %f9, %f0, %f1;"), header=HOPPER)
CLEAN = EARLY.replace("add.f32", "//")


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., Ptxas]:
    """A ptxas that prints what follows ``//!`` in a file."""

    def make(release: str = "13.5") -> Ptxas:
        path = tmp_path / f"ptxas-{release}"
        path.write_text(PROGRAM.replace("RELEASE", release))
        path.chmod(0o755)
        return Ptxas(path)

    return make


def compared(folder: Path, ptxas: Ptxas, each: int = 0, **texts: str) -> dict[str, object]:
    producer = folder / "texts" / "some"
    producer.mkdir(parents=True)
    for name, text in texts.items():
        (producer / f"{name}.ptx").write_text(text)
    return measure(folder / "texts", [ptxas], Archive(folder / "archive"), None, each)


# ------------------------------------------------------------ what ptxas says


def test_messages_have_a_code_a_function_and_a_line() -> None:
    done = Compilation(
        0,
        (
            "ptxas info    : (C7517) warpgroup.wait is injected in around line 21 by compiler in function 'a'",
            "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored",
            "ptxas info    : (C7514) Potential Performance Loss: serialized in the function 'b' in line 0",
            "ptxas /tmp/kernel.ptx, line 12; warning : too many",
            "and something else",
        ),
        0.1,
    )
    assert done.accepted
    assert not done.errors
    assert [(m.code, m.function, m.line) for m in done.advisories] == [("C7517", "a", 21), ("C7514", "b", 0)]
    assert done.messages[-1].line == 12


def test_a_fatal_error_counts_where_there_is_no_other() -> None:
    fatal = "ptxas fatal   : Ptx assembly aborted due to errors"
    error = "ptxas kernel.ptx, line 3; error   : Unknown symbol 'x'"
    assert [m.line for m in Compilation(255, (error, fatal), 0).errors] == [3]
    assert [m.text for m in Compilation(255, (fatal,), 0).errors] == ["Ptx assembly aborted due to errors"]


def test_a_file_is_compiled_once(fake: Callable[..., Ptxas], tmp_path: Path) -> None:
    ptxas = fake()
    for _ in range(2):
        done = Archive(tmp_path / "archive").compile(ptxas, (INJECTED + EARLY).encode())
        assert [m.code for m in done.advisories] == ["C7517"]
    Archive(tmp_path / "archive").compile(ptxas, EARLY.encode())
    assert Path(f"{ptxas.path}.log").read_text() == "sm_90a\nsm_90a\n"
    assert ptxas.build == "13.5.37"
    assert ptxas.arch(b".target sm_101a") == "sm_110a"
    with pytest.raises(ValueError, match=r"no \.target"):
        ptxas.compile(b".version 8.0\n")


# ------------------------------------------------------------ accepted or refused


def test_rules_that_explain_advisories_exist() -> None:
    assert {rule for advisory in ADVISORIES for rule in advisory.rules} <= set(all_rules())


def test_files_are_refused_by_both_by_one_or_by_none(fake: Callable[..., Ptxas], tmp_path: Path) -> None:
    error = "//! ptxas kernel.ptx, line 1; error   : "
    data = compared(
        tmp_path,
        fake("12.9"),
        fine=module(kernel("ret;"), header=HOPPER),
        newer=module(
            kernel("ret;"), header=f"{error}Unsupported .version 9.4\n{HOPPER}".replace("8.0", "9.4")
        ),
        wrong=module(kernel("braid.u32 %r1, %r2;\nret;"), header=f"{error}Unknown\n{HOPPER}"),
        extern=module(kernel("ret;"), header=f"//! ptxas fatal   : Unresolved extern function 'f'\n{HOPPER}"),
        odd=module(kernel("ret;"), header=f"{error}It is Monday\n{HOPPER}"),
        lenient=module(kernel("braid.u32 %r1, %r2;\nret;"), header=HOPPER),
    )
    tally = data["accepted"]["12.9.37"]["as it is"]  # type: ignore[index]
    assert (tally["both"], tally["neither"]) == ({"refused": 2}, {"refused": 1})
    found = {Path(d["file"]).stem: (d["only"], d["cause"]) for d in tally["differences"]}
    assert found == {
        "extern": ("ptxas", "it needs another module: this is not a link step"),
        "odd": ("ptxas", UNEXPLAINED),
        "lenient": ("tclint", UNEXPLAINED),
    }
    lowered = data["accepted"]["12.9.37"]["with a lower .version"]  # type: ignore[index]
    assert [Path(d["file"]).stem for d in lowered["differences"]] == ["newer"]  # the fake says it of 8.8 too
    text = "\n".join(tables(data))
    assert "| 12.9.37 | as it is | 1 | 2 | 1 | 2 |" in text
    assert "- ptxas alone, refused, `some/odd.ptx` (12.9.37, as it is): line 1: It is Monday" in text


def test_a_lower_version_changes_nothing_else() -> None:
    text = Text(Path("k.ptx"), EARLY.replace("8.0", "9.4").encode())
    assert text.lowered((8, 0)).data == EARLY.encode()
    assert text.lowered((8, 0)).module.version == (8, 0)
    assert text.module.version == (9, 4)
    assert text.refusals((13, 0)) == ["TL001"]
    assert text.refusals((13, 5)) == []


def test_a_limit_takes_files_from_everywhere() -> None:
    paths = [Path(str(number)) for number in range(10)]
    assert [int(path.name) for path in agreement.spread(paths, 3)] == [0, 3, 6]
    assert agreement.spread(paths, None) == agreement.spread(paths, 10) == paths
    assert not agreement.spread(paths, 0)


# ------------------------------------------------------------ registers


def differences(
    data: dict[str, object], part: str = "kernels", build: str = "13.5.37"
) -> dict[str, tuple[str, str]]:
    tally = data["registers"][build][part]  # type: ignore[index]
    return {d["what"]: (d["only"], d["cause"]) for d in tally["differences"]}


def test_a_finding_predicts_an_advisory(fake: Callable[..., Ptxas], tmp_path: Path) -> None:
    data = compared(tmp_path, fake(), early=INJECTED + EARLY, clean=CLEAN)
    tally = data["registers"]["13.5.37"]["kernels"]  # type: ignore[index]
    assert tally["both"] == {"functions": 2, "wait injected": 1, agreement.EARLY: 1}
    assert tally["neither"][agreement.EARLY] == 1
    assert differences(data) == {
        agreement.READ: ("tclint", "the same fault: ptxas reports it as the other one of C7514 and C7517")
    }
    text = "\n".join(tables(data))
    assert f"| {agreement.EARLY} | C7517 | 13.5.37 | WG001, WG007 | 1 | 1 | 0 | 0 |" in text
    assert "Neither said nor predicted anywhere: serialised: accumulator written, fence injected" in text


MOVED = CLEAN.replace("// %f9, %f0, %f1;", "mov.f32 %f9, %f0;")
FENCED = INJECTED.replace("C7517", "C7519").replace("wgmma.wait_group", "warpgroup.arrive")
OPEN = CLEAN.replace("wgmma.fence.sync.aligned;", "")
CALLED = CLEAN.replace("// %f9, %f0, %f1;", "call.uni f;").replace(".visible", ".func f() { ret; }\n.visible")
LATE_COMMIT = EARLY.replace(
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;\n    wgmma.commit_group.sync.aligned;",
    1,
)
CASES = {
    "a commit after the wait": (
        LATE_COMMIT,
        agreement.EARLY,
        "tclint",
        "a wait intervenes, and the commit follows it: ptxas waits for uncommitted operations too",
    ),
    "a register twice in an accumulator that is not read": (
        CLEAN.replace("{%f0, %f1", "{%f0, %f0"),
        agreement.REGISTERS,
        "tclint",
        "the accumulator that is named twice is only written there (scale-d is 0)",
    ),
    "a wait that is too shallow": (
        INJECTED + CLEAN.replace("wait_group.sync.aligned 0", "wait_group.sync.aligned 1"),
        agreement.EARLY,
        "ptxas",
        "tclint names the wait that is too shallow (WG005)",
    ),
    "read, and ptxas is silent": (EARLY, agreement.EARLY, "tclint", UNEXPLAINED),
    "clean, and ptxas is not": (SERIALISED + CLEAN, agreement.READ, "ptxas", UNEXPLAINED),
    "moved": (SERIALISED + MOVED, agreement.READ, "ptxas", agreement._MOVED),
    "no fence, and ptxas is silent": (OPEN, agreement.FENCE, "tclint", UNEXPLAINED),
    "a fence that is missing, on a divergent path": (
        "//! ptxas info    : (C7520) ... compiler-inserted WG.AR in divergent path in the function 'k'\n"
        + OPEN,
        agreement.DIVERGENT,
        "ptxas",
        "ptxas puts in the fence that tclint misses too, on a path that it takes for divergent",
    ),
    "a wait that is missing, on a divergent path": (
        "//! ptxas info    : (C7518) ... compiler-inserted WG.DP in divergent path in the function 'k'\n"
        + EARLY,
        agreement.DIVERGENT,
        "ptxas",
        "ptxas puts in the wait that tclint misses too, on a path that it takes for divergent",
    ),
    "a fence that is not asked for": (
        FENCED + CLEAN,
        agreement.FENCE,
        "ptxas",
        "only wgmma accesses the registers after the fence: the manual requires no other one (9.7.15.7.1)",
    ),
    "a fence in front of the access": (
        CLEAN.replace("setp.ne.b32 %p0, 0, 0;", "").replace(
            "wgmma.mma_async", "ld.shared.f32 %f0, [%r9];\n    wgmma.mma_async"
        ),
        agreement.FENCE,
        "tclint",
        "a fence immediately precedes the access: in a sample, ptxas moves the access before it",
    ),
    "a fence that ptxas alone asks for, where a copy is made": (
        FENCED + CLEAN.replace("wgmma.mma_async", "mov.f32 %f0, %f9;\n    wgmma.mma_async"),
        agreement.FENCE,
        "ptxas",
        agreement._MOVED,
    ),
    "a call": (
        "//! ptxas info    : (C7510) ... crossing function boundary at a function call in the function 'k'\n"
        + CALLED,
        agreement.CALL,
        "ptxas",
        "a call while a wgmma is in flight: legal, only slow",
    ),
    "registers run out": (
        "//! ptxas info    : (C7511) ... insufficient register resources for the wgmma pipeline in the function 'k'\n"
        + CLEAN,
        agreement.REGISTERS,
        "ptxas",
        "registers run out in its own allocation: nothing in the PTX",
    ),
    "what no release said before": (
        "//! ptxas info    : (C7506) wgmma.mma_async is fine in the function 'k'\n" + CLEAN,
        "C7506",
        "ptxas",
        UNEXPLAINED,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_difference_has_a_cause(fake: Callable[..., Ptxas], tmp_path: Path, case: str) -> None:
    text, advisory, only, cause = CASES[case]
    assert differences(compared(tmp_path, fake(), text=text))[advisory] == (only, cause)


def test_a_release_without_the_words_differs_from_a_silent_one(
    fake: Callable[..., Ptxas], tmp_path: Path
) -> None:
    ptxas = fake()
    ptxas.path.write_text(ptxas.path.read_text().replace("# warpgroup.arrive is injected", ""))
    found = differences(compared(tmp_path, ptxas, text=OPEN))
    assert found == {agreement.FENCE: ("tclint", "this ptxas fixes it and has no message for it")}


def test_faults_are_planted_where_ptxas_was_silent(fake: Callable[..., Ptxas], tmp_path: Path) -> None:
    talked_of = INJECTED + CLEAN.replace("entry k", "entry spoken").replace("'k'", "'spoken'")
    data = compared(tmp_path, fake(), each=1, clean=CLEAN, talked_of=talked_of.replace("'k'", "'spoken'"))
    operators = data["operators"]
    deleted = operators["wgmma.wait_group deleted"]  # type: ignore[index]
    assert deleted["planted"] == {"faults": 1}
    assert deleted["tclint"] == {"WG007": 1}
    answers = [by for by in operators.values() if "13.5.37" in by]  # type: ignore[attr-defined]
    assert {tuple(by["13.5.37"]) for by in answers} == {("nothing",)}
    left_out = data["left_out"]["ptxas had something to say before the fault was planted"]  # type: ignore[index]
    functions = data["registers"]["13.5.37"]["planted"]["both"]["functions"]  # type: ignore[index]
    assert functions + left_out <= len(operators)  # type: ignore[arg-type]
    assert functions > 5
    assert "planted faults" in figure(data)
    text = "\n".join(tables(data))
    assert "| wgmma.wait_group deleted | 1 | WG007 1 |" in text
    assert text.count("| wgmma.wait_group deleted |") == 1


# ------------------------------------------------------------ the command


def test_without_network_or_ptxas_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(folder: Path, packages: tuple[str, ...]) -> Path:
        raise Skipped("no network")

    monkeypatch.setattr(agreement, "environment", unreachable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert agreement.main([str(tmp_path)]) == 1
    assert "skipped: ptxas 13.5.37 (nvidia-cuda-nvcc==13.5.37): no network" in capsys.readouterr().err
    assert agreement.main([str(tmp_path), "--ptxas", str(tmp_path / "none")]) == 1
    assert "none does not run" in capsys.readouterr().err
    assert agreement.main([str(tmp_path / "absent")]) == 1


def test_the_command_prints_the_tables(
    fake: Callable[..., Ptxas],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "k.ptx").write_text(INJECTED + EARLY)
    assert agreement.main([str(tmp_path), "--ptxas", str(fake().path), "--each", "0"]) == 0
    assert "Functions compared: 1 with ptxas 13.5.37." in capsys.readouterr().out
    assert (tmp_path / "cache" / "tclint" / "corpus" / "ptxas" / "13.5.37.jsonl").is_file()


def test_ptxas_says_what_is_predicted(tmp_path: Path) -> None:
    """The examples of the rules' pages: some of each kind, whatever ptxas makes of the others."""
    ptxas = Ptxas(find_ptxas())
    folder = tmp_path / "pages"
    folder.mkdir()
    for id in ("WG001", "WG006"):
        for number, block in enumerate(all_rules()[id].examples[:1]):
            (folder / f"{id}-{number}.ptx").write_text(block.code)
    measurement = Measurement(tmp_path, [ptxas], Archive(tmp_path / "archive"))
    for path in sorted(folder.iterdir()):
        measurement.file(path)
    data = json.loads(json.dumps(measurement.data()))
    both = data["registers"][ptxas.build]["kernels"]["both"]
    assert both[agreement.EARLY] == 1
    assert both[agreement.REGISTERS] == 1
    assert data["accepted"][ptxas.build]["as it is"]["neither"] == {"refused": 2}
