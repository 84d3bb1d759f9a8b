"""The fuzzer detects its seeded defects, finds nothing in the fixtures, and what it found before stays fixed."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from benchmarks import results
from benchmarks.fuzz import __main__ as part
from benchmarks.fuzz import commands, oracle, runs, structure, surfaces
from benchmarks.fuzz.commands import EXTREMES, Case, cases, extreme
from benchmarks.fuzz.kernels import Kernel, draw
from benchmarks.fuzz.oracle import Judge, Outcome, lint, message_class
from benchmarks.fuzz.runs import STRATEGIES, Tally, in_process, made, run
from benchmarks.fuzz.text import BYTES, TOKENS, Change
from benchmarks.ptxas import Ptxas
from tclint.findings.finding import FileReport
from tclint.report.formats import formats
from tclint.syntax import parse
from tclint.syntax.source import Problem, Source, SourceError
from tests.tools.project import ROOT
from tests.tools.ptxas import find_ptxas

FIXTURES = ROOT / "fixtures"
TEXT = (FIXTURES / "calls.ptx").read_bytes()
KERNELS = draw([FIXTURES], 12, seed=1)


# ---------------------------------------------------------------- what failed once

HEADER = """\
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k() {directive}
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .shared .align 8 .b64 bar;
{body}
ret;
}}
"""
DIGITS = "9" * 5000
FAILED_ONCE = {
    "an election among no lanes": "elect.sync _|%p1, 4294967296;\n@%p1 bra L;\nbar.warp.sync -1;\nL:",
    "an integer of thousands of digits": f"mov.u32 %r1, {DIGITS};",
    "one that is out of its range": f"wgmma.wait_group.sync.aligned {DIGITS};\nsetmaxnreg.inc.sync.aligned.u32 0x{DIGITS};",
    "an offset of thousands of digits": f"ld.shared.u32 %r1, [bar+{DIGITS}];\nld.global.u32 %r1, [%rd1+{DIGITS}];",
    "registers of thousands of digits": f".reg .b32 %x<{DIGITS}>;",
    "a variable of thousands of digits": f".shared .b8 x[{DIGITS}][{DIGITS}];\nmov.u32 %r1, x;",
    "a line of thousands of digits": f".loc 1 {DIGITS} 1\n.file {DIGITS} \"x\"",
    "labels of thousands of digits": f"L: .branchtargets X<{DIGITS}>;\nbrx.idx %r1, L;",
    "parentheses in parentheses": f"mov.u32 %r1, {'(' * 5000}1{')' * 5000};",
    "vectors in vectors": f"mov.b64 %rd1, {'{' * 5000}%r1{'}' * 5000};",
    "lists in lists": f"call k, {'(1,' * 5000}1{')' * 5000};",
    "pairs of pairs": f"setp.eq.s32 {'%p1|' * 5000}%p2, %r1, 0;",
    "an allocation that is jumped over": """bra.uni L;
mov.u32 %r1, bar;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;
L: ld.shared.b32 %r3, [%r1];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;""",
    "comments for tclint without end": "// tclint: ignore[WG001] x\n" * 2500,
    "copies in flight without end": "cp.async.ca.shared.global [%r1], [%rd1], 16;\ncp.async.commit_group;\n" * 150
    + "ld.shared.u32 %r2, [%r1];",
}  # fmt: skip
"""Crashes and hangs."""
DIRECTIVES_FAILED_ONCE = {
    "more threads than memory": (f".maxntid {DIGITS}, 7, 3", "setmaxnreg.inc.sync.aligned.u32 64;"),
    "more CTAs than a cluster has": (
        ".reqnctapercluster 2, 65536, 1",
        """mbarrier.init.shared.b64 [bar], 1;
barrier.cluster.arrive;
barrier.cluster.wait;
W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
@!%p1 bra W;""",
    ),
    "fewer than no threads": (".reqntid -7, 1, 1", "setmaxnreg.inc.sync.aligned.u32 64;"),
}
EXTREMES_FAILED_ONCE = {"calls in a row": 30_000}
LOOKED_CLEAN = {
    "no opcode": "%r1 {%r1, %r2}, %rd1;",
    "a guard without a predicate": "@ bra L; L:",
    "an address in an address": "ld.global.u32 %r1, [[%rd1]];",
    "a vector in a vector": "mov.b64 %rd1, {{%r1, %r2}};",
    "an unknown directive": ".u32 %r1;",
    "registers declared twice": ".reg .b32 %r<3>;",
    "a variable declared twice": ".shared .b32 bar;",
    "an odd alignment": ".shared .align 12 .b8 x[16];",
    "a function that is nowhere": "call nowhere, ();",
    "a function that comes too late": "call late, ();\n}\n.func late()\n{",
    "a function defined twice": "}\n.func twice() { ret; }\n.func twice()\n{",
    "a directive of the module that comes too late": "}\n.version 8.6\n.func f()\n{",
}
"""Text that ptxas refuses, and that tclint called analysed without an error."""
REFUSED_ONCE = {
    "a constant in parentheses": "mov.u32 %r1, (1);\nmov.u32 %r2, ((1 + 2));",
    "an offset in parentheses": "mov.u64 %rd1, 16;\nld.global.u32 %r1, [%rd1+(4*2)];\nld.shared.u32 %r1, [bar+(2*2)];",
    "a special register as an address": "ld.shared.u32 %r1, [%laneid];",
    "the name of an outer scope": "{ .shared .b32 bar; .reg .b32 %r<3>; }",
    "a modifier twice": "bar.sync.sync 0;\nadd.sat.s32.sat %r1, 1, 2;\ndiv.approx.ftz.f32.approx %f1, %f1, %f1;",
    "a modifier twice, elsewhere": "bra.uni.uni L;\nL:\nelect.sync.sync _|%p1, -1;",
    "a number of groups beyond 32 bits": "cp.async.wait_group 4294967296;\ncp.async.bulk.wait_group -2147483649;",
    "a range whose first register exists": "{ .reg .u32 %x0; .reg .b32 %x3; .reg .b32 %x<4>; }",
    "a declaration of nothing": ".reg .b32;\n.shared .align 8 .b64 ;\n.param .b32;",
    "registers of a range of vectors": "{ .reg .v2.b16 x<4>; mov.b32 x0, %r1; mov.b32 %r2, x3; mov.b16 x1.y, x2.x; }",
    "a prototype between statements": ".extern .func p(.reg .b32 a);\n{ .weak .func q() .noreturn; }\ncall p, (%r1);\ncall q, ();",
    "an alias and a target between statements": "}\n.func y() { ret; }\n.entry k2() { .func p();\n.alias p, y;\n.target sm_75",
    "a type": ".u64;\n.v2 .u32;\n.align 8 .b64;",
    "a padded number of a register": "mov.u32 %r01, %r00;",
    "SUB as a blank": "bar.sync\x1a0;\x1a",
    "a comment that is not UTF-8": "// caf\udce9\nbar.sync 0; /* \udcff */",
}
"""Text that ptxas takes, and in which tclint saw an error."""


def kernel(body: str, directive: str = "") -> bytes:
    return HEADER.format(body=body, directive=directive).encode(errors="surrogateescape")


@pytest.mark.parametrize("name", FAILED_ONCE)
def test_what_failed_once(name: str) -> None:
    assert not lint(kernel(FAILED_ONCE[name]), 0.2, ["concise", "junit"]).failure


@pytest.mark.parametrize("name", DIRECTIVES_FAILED_ONCE)
def test_what_a_directive_broke_once(name: str) -> None:
    directive, body = DIRECTIVES_FAILED_ONCE[name]
    assert not lint(kernel(body, directive), 0.2, formats(), ["states"]).failure


@pytest.mark.parametrize("name", EXTREMES_FAILED_ONCE)
def test_what_was_too_large_once(name: str) -> None:
    assert not lint(extreme(name, EXTREMES_FAILED_ONCE[name])).failure


@pytest.mark.parametrize("name", LOOKED_CLEAN)
def test_what_looked_clean_once(name: str) -> None:
    assert lint(kernel(LOOKED_CLEAN[name])).end == "partial"


@pytest.mark.parametrize("name", REFUSED_ONCE)
def test_what_was_refused_once(name: str) -> None:
    found = lint(kernel(REFUSED_ONCE[name]))
    assert found.end in ("clean", "notes")
    assert not found.refusals


# ---------------------------------------------------------------- changes


@pytest.mark.parametrize("change", [*BYTES, *TOKENS], ids=lambda change: change.__name__)
def test_a_change_changes_and_depends_on_the_seed_alone(change: Change) -> None:
    found = [change(random.Random(seed), TEXT) for seed in range(20)]
    assert found == [change(random.Random(seed), TEXT) for seed in range(20)]
    assert sum(data != TEXT for data in found) > 15
    for text in (b"", b"x", b";", b"{"):
        if text or change in TOKENS:
            change(random.Random(1), text)  # whatever was left of a kernel


@pytest.mark.parametrize("change", structure.CHANGES, ids=lambda change: change.__name__)
def test_a_change_of_the_structure_changes(change: structure.Change) -> None:
    def results_of() -> list[bytes]:
        pairs = [(k, change(random.Random(seed), k, KERNELS)) for k in KERNELS for seed in range(4)]
        return [structure.apply(k.data, edits) for k, edits in pairs]

    found = results_of()
    assert found == results_of()
    assert any(data != k.data for data, k in zip(found, (k for k in KERNELS for _ in range(4)), strict=True))
    for text in (b"", b".entry k() {}", b"x"):
        change(random.Random(1), Kernel("x", "x", text), KERNELS)


def test_edits_that_overlap_are_made_once() -> None:
    assert structure.apply(b"abcdef", [(4, 5, b"E"), (0, 3, b"A"), (1, 2, b"B")]) == b"AdEf"


def test_a_piece_of_a_kernel_is_ptx_and_small() -> None:
    every = [*FIXTURES.glob("*.ptx"), *FIXTURES.glob("*/*.ptx")]
    drawn = draw([FIXTURES], 2 * len(every), seed=2)
    assert len(drawn) == len(every)
    assert {k.producer for k in drawn} == {path.parent.name for path in every}
    pieces = [k for k in drawn if ":" in k.name]
    assert pieces
    assert all(len(k.data) < 12_000 for k in pieces)
    for k in drawn:
        assert not parse(k.data).root_node.has_error, k.name
        found = lint(k.data)
        assert found.end in ("clean", "notes", "findings"), k.name
        assert not found.refusals, k.name


def test_a_run_depends_on_its_number_and_the_seed() -> None:
    assert [made(KERNELS, 3, n) for n in range(30)] == [made(KERNELS, 3, n) for n in range(30)]
    assert {made(KERNELS, 3, n)[1] for n in range(30)} == set(STRATEGIES)


# ---------------------------------------------------------------- the oracle


def crash(source: Source) -> FileReport:
    raise KeyError("x")


def refuse(source: Source) -> FileReport:
    raise SourceError("no")


def clean(source: Source) -> FileReport:
    return FileReport(path="a", source=source)


def partial(source: Source) -> FileReport:
    return FileReport(path="a", source=source, status="partial", problems=(Problem(1, "broken"),))


BROKEN = b".version 8.0\n.target sm_90\n.entry k() { @@@ ret; }"


@pytest.mark.parametrize(
    ("check", "data", "end", "failure"),
    [
        (crash, TEXT, "", "KeyError in test_fuzz.py:crash"),
        (refuse, TEXT, "refused", ""),
        (clean, TEXT, "clean", ""),
        (clean, BROKEN, "clean", "broken text that looks clean"),
        (partial, BROKEN, "partial", ""),
    ],
)
def test_what_counts_as_a_failure(
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Source], FileReport],
    data: bytes,
    end: str,
    failure: str,
) -> None:
    monkeypatch.setattr(oracle, "check_source", check)
    found = lint(data)
    assert (found.end, found.failure) == (end, failure)


def test_what_takes_far_longer_than_its_kernel_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "check_source", clean)
    for usual, failure in ((0.2, "slow"), (1.0, "")):
        times = iter((0.0, 3.0))
        monkeypatch.setattr(oracle, "process_time", lambda times=times: next(times))
        assert lint(TEXT, usual).failure[:4] == failure


@pytest.mark.parametrize(
    ("name", "text", "failure"),
    [
        ("json", '{"a": 1', "json is malformed"),
        ("junit", "<a>\x01</a>\n", "junit is malformed"),
        ("text", "\ud800\n", "text is malformed"),
        ("concise", "no end", "concise does not end"),
    ],
)
def test_a_malformed_report_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, failure: str
) -> None:
    monkeypatch.setattr(oracle, "renderer", lambda name: lambda reports, context: text)
    assert lint(TEXT, 1e9, [name]).failure.startswith(failure)


def test_a_message_of_ptxas_loses_its_names_and_numbers() -> None:
    said = "Argument 2 of instruction 'mov': unexpected value '0x12'"
    assert message_class(said) == "Argument N of instruction '…': unexpected value '…'"


PRAGMA = b'.version 9.0\n.target sm_90\n.address_size 64\n.pragma "noabi";\n.entry k() { ret; }\n'


@pytest.mark.parametrize("refused", [False, True])
def test_ptxas_compiles_what_only_tclint_refuses(refused: bool) -> None:
    said = oracle.ask(Ptxas(find_ptxas()), PRAGMA, refused)
    assert said == ("Pragma 'noabi' not supported" if refused else "")


@pytest.mark.parametrize(
    ("said", "agreement", "limits"),
    [
        ("Arguments mismatch for instruction 'mov'", {"refuses/refuses": 1}, 0),
        ("", {"refuses/accepts": 1}, 0),
        ("Entry function 'k' uses too much shared data (0x1 bytes, 0x1 max)", {}, 1),
    ],
)
def test_limits_of_the_machine_are_counted_apart(
    said: str, agreement: dict[str, int], limits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "lint", lambda *_: Outcome("partial"))
    monkeypatch.setattr(runs, "ask", lambda *_: said)
    tally = Tally()
    run(KERNELS, 1, 7, {}, tally, Judge(Ptxas(Path("none")), every=7))
    run(KERNELS, 1, 8, {}, tally, Judge(Ptxas(Path("none")), every=7))
    assert (tally.asked, tally.agreement, tally.limits.total()) == (1, agreement, limits)


# ---------------------------------------------------------------- runs


def test_nothing_is_found_in_the_fixtures() -> None:
    tally, usual = Tally(), dict[str, float]()
    assert [run(KERNELS, 3, n, usual, tally) for n in range(100)] == [""] * 100
    assert tally.runs == sum(tally.strategies.values()) == sum(tally.ends.values()) == 100


def test_a_process_that_dies_costs_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    calls = runs.made(KERNELS, 1, 3)[3]

    def die(data: bytes, *rest: object) -> Outcome:
        if data == calls:
            os._exit(7)
        return Outcome("clean")

    monkeypatch.setattr(runs, "lint", die)
    total = Tally()
    for tally in in_process(KERNELS, 1, 0, 6, None, tmp_path):
        total.add(tally)
    assert total.runs == 6
    assert total.ends == {"clean": 5}
    assert total.failures == {"the interpreter ended with 7": 1}
    assert (tmp_path / "1-3.ptx").read_bytes() == calls


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(results, "PARTS", {"fuzz": "benchmarks.fuzz.__main__"})
    monkeypatch.setenv("TCLINT_PTXAS", str(tmp_path / "none"))
    folder = tmp_path / "corpus"
    folder.mkdir()
    shutil.copy(FIXTURES / "calls.ptx", folder)
    return tmp_path


def test_runs_add_up_in_the_record(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(home / "corpus")
    assert part.main([folder, "--runs", "8", "--record"]) == 0
    assert part.main([folder, "--runs", "5", "--record"]) == 0
    record = json.loads((home / "records" / "fuzz.json").read_text())
    assert [(s["seed"], s["runs"]) for s in record["data"]["sessions"]] == [(1, 8), (2, 5)]
    assert "were not shown to ptxas" in record["skipped"][0]
    assert results.PAGE.read_text().count("13 runs (goal: 200,000, **missed**), 0 failures") == 1
    with pytest.raises(SystemExit):
        part.main([folder, "--runs", "5", "--seed", "2", "--record"])


def test_what_fails_is_kept_and_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(oracle, "check_source", crash)
    kept = home / "kept"
    assert part.main([str(home / "corpus"), "--runs", "5", "--keep", str(kept), "--record"]) == 1
    assert "KeyError in test_fuzz.py:crash: runs 0, 1, 2 of seed 1" in capsys.readouterr().out
    assert len(list(kept.glob("1-*.ptx"))) == 3
    assert "| KeyError in test_fuzz.py:crash | 5 |" in "\n".join(
        part.tables(results.records()["fuzz"]["data"])
    )


def test_a_folder_without_kernels_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert part.main([str(home / "records")]) == 2
    assert "no .ptx file" in capsys.readouterr().err


# ---------------------------------------------------------------- commands


def test_cases_depend_on_the_seed_and_begin_with_the_extremes() -> None:
    some = list(cases(KERNELS, 1, len(EXTREMES) + 12))
    assert some == list(cases(KERNELS, 1, len(EXTREMES) + 12))
    assert [case.name for case in some[: len(EXTREMES)]] == [f"extreme: {name}" for name in EXTREMES]
    assert {case.name for case in some[len(EXTREMES) :]} == {
        "changed", "encoded", "contained", "settings", "commented", "file",
    }  # fmt: skip


def test_extremes_grow() -> None:
    assert all(len(extreme(name, 3000)) > len(extreme(name, 100)) for name in EXTREMES)


SCRIPT = "import sys; sys.stdout.write({said!r}); sys.exit({code})"


@pytest.mark.parametrize(
    ("code", "said", "data", "failure"),
    [
        (0, "No findings.\n", TEXT, ""),
        (0, "No findings.\n", BROKEN, "x: broken text that looks clean"),
        (0, "No findings.\n", b"\xff\xfe.\0", "x: broken text that looks clean"),
        (2, "no\n", BROKEN, ""),
        (2, "", BROKEN, "x: exit 2 without a word"),
        (
            2,
            "internal error: a (TCLINT_DEBUG=1 shows where)\n",
            TEXT,
            "x: internal error: a (TCLINT_DEBUG=1 shows where)",
        ),
        (2, "cuobjdump internal error\n", TEXT, ""),
        (1, "Traceback (most recent call last):\nKeyError\n", TEXT, "x: KeyError"),
        (3, "", TEXT, "x: exit 3"),
    ],
)
def test_what_counts_as_a_failure_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, data: bytes, failure: str
) -> None:
    package = tmp_path / "tclint"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SCRIPT.format(said=said, code=code))
    monkeypatch.setattr(commands, "ROOT", tmp_path)
    assert commands.failure(Case("x", data)) == (code, failure)


# ---------------------------------------------------------------- surfaces


@pytest.mark.parametrize("name", surfaces.SURFACES)
def test_a_surface_is_fuzzed_without_failure_and_coverage_grows(name: str) -> None:
    found = surfaces.session(name, 60, 3)
    assert not found.failures
    assert found.ends.total() == found.runs == 60
    lines = list(found.growth.values())
    assert lines == sorted(lines)
    assert lines[-1] > 50


def test_sessions_of_surfaces_add_up_in_the_record(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PARTS", {"fuzz": "benchmarks.fuzz.__main__", "surfaces": surfaces.__name__})
    assert part.main([str(home / "corpus"), "--runs", "8", "--record"]) == 0
    assert surfaces.main(["baseline", "--runs", "40", "--record"]) == 0
    assert surfaces.main(["config", "baseline", "--runs", "20", "--seed", "2", "--record"]) == 0
    record = json.loads((home / "records" / "surfaces.json").read_text())["data"]
    assert [(s["name"], s["seed"], s["runs"]) for s in record] == [
        ("baseline", 1, 40), ("baseline", 2, 20), ("config", 2, 20),
    ]  # fmt: skip
    page = results.PAGE.read_text()
    assert "88 inputs with the kernels of the part before (goal: 1,000,000, **missed**" in page
    page = "\n".join(surfaces.tables(record))
    assert "| baseline | 60 | 0 | " in page
    assert f"| 40 | {record[0]['growth']['16']} |  |  |  | {record[0]['growth']['40']} |" in page
    with pytest.raises(SystemExit):
        surfaces.main(["config", "--runs", "5", "--seed", "2", "--record"])


def test_an_interrupt_ends_a_session_that_is_recorded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PARTS", {"surfaces": surfaces.__name__})
    left = iter(range(8))

    def read(data: bytes, folder: Path) -> str:
        if next(left) == 7:
            raise KeyboardInterrupt
        return "read"

    monkeypatch.setitem(surfaces.SURFACES, "config", surfaces.Surface(lambda: [b"a = 1"], read))
    assert surfaces.main(["config", "--runs", "50", "--record"]) == 0
    (found,) = json.loads((home / "records" / "surfaces.json").read_text())["data"]
    assert (found["runs"], found["ends"], max(map(int, found["growth"]))) == (6, {"read": 6}, 6)


def test_a_failure_of_a_surface_is_on_the_page(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PARTS", {"surfaces": surfaces.__name__})
    answers = iter(["read", "read"])
    monkeypatch.setitem(
        surfaces.SURFACES, "config", surfaces.Surface(lambda: [b"a = 1"], lambda *_: next(answers))
    )
    assert surfaces.main(["config", "--runs", "2", "--record"]) == 1
    assert "Failures: config 1." in results.PAGE.read_text()
    record = results.records()["surfaces"]["data"]
    assert "| config | `StopIteration in " in "\n".join(surfaces.tables(record))


def test_a_container_that_is_read_as_nothing_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = surfaces.SURFACES["container"]
    assert container.read(b"!<arch>\n.version 8.0\n", tmp_path) == "accepted"
    monkeypatch.setattr(surfaces.inputs, "read_sources", lambda *_: iter(()))
    with pytest.raises(AssertionError, match="nothing was read"):
        container.read(b"!<arch>\n.version 8.0\n", tmp_path)


def test_a_long_line_is_split_into_statements_in_linear_time() -> None:
    data, began = b"a;" + b"x" * 200_000, process_time()
    assert TOKENS[0](random.Random(1), data) == data[2:]
    assert process_time() - began < 2


def test_some_runs_are_traced_after_all_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surfaces, "_ALL_TRACED", 3)
    coverage, traced = surfaces.Coverage(), []
    for number in range(1, 25):
        with coverage.traced():
            if sys.gettrace() == coverage._enter:
                traced.append(number)
    assert traced == [1, 2, 3, 8, 16, 24]


def test_a_reader_that_crashes_or_does_not_answer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(data: bytes, folder: Path) -> str:
        raise KeyError("x")

    monkeypatch.setitem(surfaces.SURFACES, "config", surfaces.Surface(lambda: [b"a = 1"], lambda *_: "read"))
    assert surfaces.session("config", 5, 1).failures.total() == 0
    seeds = iter((lambda *_: "read", *[crash] * 5))
    monkeypatch.setitem(
        surfaces.SURFACES, "config", surfaces.Surface(lambda: [b"a = 1"], lambda *given: next(seeds)(*given))
    )
    (what,) = surfaces.session("config", 5, 1).failures
    assert what.startswith("KeyError in ")
