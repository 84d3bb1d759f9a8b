"""What the SASS says of an access that is outstanding at a signal, and how that is held against tclint."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ptxas
from benchmarks.studies import sass, scoreboards
from benchmarks.studies.scoreboards import Listing, Ordering, Pair, Said, judged, pairs, releases
from tclint.findings.rules import all_rules
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.support import model

PRINTED = """\
	.section	.text.first,"ax",@progbits
first:
.text.first:
	//## File ".nv_debug_ptx_txt", line 40
        /*0000*/                   BSSY.RECONVERGENT B0, `(.L_x_1) ;       /* 0x0000000000007945 */
                                                                           /* 0x000fe20003800000 */
	//## File ".nv_debug_ptx_txt", line 47
        /*0010*/                   LDTM.x128 R4, tmem[UR4] ;               /* 0x00000004000479ee */
                                                                           /* 0x000e2200083c0000 */
.L_x_0:
	//## File ".nv_debug_ptx_txt", line 54
        /*0020*/               @P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R0], RZ ;  /* 0x000080ff00ff19a7 */
                                                                           /* 0x0003e600081000ff */
        /*0030*/                   STG.E.NA desc[UR28][R144.64], R4 ;      /* 0x0000000490007986 */
                                                                           /* 0x001be2000c50191c */
        /*0040*/                   DEPBAR.LE SB1, 0x0, {3,2} ;             /* 0x000000000000791a */
                                                                           /* 0x000fc80000000000 */
        /*0050*/                   BRA.U !UP0, `(.L_x_0) ;                 /* 0x00000001ffc47547 */
                                                                           /* 0x000fea000b800000 */
        /*0060*/                   BSYNC.RECONVERGENT B0 ;                 /* 0x0000000000007941 */
                                                                           /* 0x000fea0003800000 */
        /*0070*/                   EXIT ;                                  /* 0x000000000000794d */
                                                                           /* 0x000fea0003800000 */
.L_x_1:
        /*0080*/                   BRX R2 -0x90 (*"BRANCH_TARGETS .L_x_0,.L_x_1"*) ;  /* 0x0000000002007949 */
                                                                           /* 0x000fea000383ffff */
"""


def test_what_nvdisasm_prints_is_read() -> None:
    (code,) = sass.parse(PRINTED)
    assert code.name == "first"
    assert [i.line for i in code.instructions] == [40, 47, *[54] * 7]
    load, arrival, store, counter = code.instructions[1:5]
    assert (load.opcode, load.written, load.read, load.waits) == ("LDTM.x128", 0, sass.NONE, 0)
    assert (arrival.opcode, arrival.guarded, arrival.read) == ("SYNCS.ARRIVE.TRANS64.A1T0", True, 1)
    assert store.waits == 0b1
    assert counter.waits == 0b1110
    assert code.successors == [(1,), (2,), (3,), (4,), (5,), (2, 6), (8,), (), (2, 8)]


def test_threads_reconverge_where_a_barrier_says_whatever_follows_its_name() -> None:
    (reconvergent,) = sass.parse(PRINTED)
    (plain,) = sass.parse(PRINTED.replace(".RECONVERGENT", ""))
    assert plain.successors == reconvergent.successors


def code(*rows: tuple[Any, ...]) -> sass.Code:
    """Code of rows of (text, scoreboard written, scoreboards waited for, label that is branched to); line = index."""
    made = sass.Code("k")
    for at, (text, *rest) in enumerate(rows):
        defaults: tuple[Any, ...] = (sass.NONE, 0, "")
        written, waits, target = (*rest, *defaults[len(rest) :])
        made.instructions.append(sass.Sass(text, at, written, sass.NONE, waits))
        if target:
            made.targets[at] = [target]
    return made


LOAD, STORE, ARRIVE = "LDTM.x2 R4, tmem[UR4]", "STTM.x2 tmem[UR4], R4", "SYNCS.ARRIVE.TRANS64 RZ, [UR4], RZ"
FENCE, USE = "FENCE.VIEW.ASYNC.T", "FADD R0, R4, R5"


@pytest.mark.parametrize(
    ("rows", "verdict", "why"),
    [
        ([(LOAD, 0), (ARRIVE,)], "ahead", ""),
        ([(LOAD, 0), (ARRIVE, 7, 0b1)], "ordered", "the signal itself waits"),
        ([(LOAD, 0), (USE, 7, 0b10), (ARRIVE,), (USE, 7, 0b1)], "ahead", ""),
        ([(LOAD, 0), (USE, 7, 0b1), (ARRIVE,)], "ordered", "a use of the value waits"),
        ([(LOAD,), (LOAD, 2), (USE, 7, 0b100), (ARRIVE,)], "ordered", "a use of the value waits"),
        ([(LOAD,), (LOAD, 2), (ARRIVE,)], "ahead", ""),
        (
            [(LOAD, 0), (FENCE, 1), (USE, 7, 0b10), (ARRIVE,)],
            "fenced",
            "only the fence of a wait::st intervenes",
        ),
        ([(STORE,), (ARRIVE,)], "ahead", ""),
        ([(STORE,), (FENCE, 1), (ARRIVE,)], "ahead", ""),
        ([(STORE,), (FENCE, 1), (ARRIVE, 7, 0b10)], "ordered", "the signal itself waits"),
        ([(STORE,), (FENCE, 1), (USE, 7, 0b10), (ARRIVE,)], "ordered", "the fence is waited for"),
        ([(LOAD, 0), ("EXIT",), (ARRIVE,)], "unknown", "no path leads from one to the other"),
    ],
)
def test_what_orders_an_operation_before_a_signal_is_found(
    rows: list[tuple[Any, ...]], verdict: str, why: str
) -> None:
    signal = len(rows) - 1 - (rows[-1][0] == USE)
    load = rows[0][0] == LOAD
    assert Listing(code(*rows)).ordering(range(1), range(signal, signal + 1), load) == Ordering(verdict, why)


def test_one_path_without_a_wait_is_enough() -> None:
    made = code((LOAD, 0), ("@P0 BRA `(.L)", 7, 0, ".L"), (USE, 7, 0b1), (ARRIVE,))
    made.labels[".L"] = 3
    assert Listing(made).ordering(range(1), range(3, 4), load=True).verdict == "ahead"
    made.instructions[1] = sass.Sass("@P0 BRA `(.L)", 1, 7, 7, 0b1)
    assert Listing(made).ordering(range(1), range(3, 4), load=True) == Ordering("ordered", "a branch waits")


def test_a_line_without_its_instruction_is_unknown() -> None:
    made = Listing(code((LOAD, 0), (ARRIVE,)))
    here, there = range(1), range(1, 2)
    assert made.ordering(here, there, load=True).verdict == "ahead"
    assert made.ordering(here, there, load=False).verdict == "unknown"
    assert made.ordering(here, here, load=True).verdict == "unknown"


ACCESS = """
    .shared .align 8 .b64 full;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r4, %r5}}, [%r3];
    {}
    mbarrier.arrive.shared::cta.b64 _, [full];
    bar.warp.sync 0xffffffff;
    ret;
"""


@pytest.mark.parametrize(
    ("between", "outstanding"),
    [
        ("", True),
        ("add.u32 %r6, %r4, %r5; st.global.b32 [%rd0], %r6;", True),
        ("tcgen05.wait::st.sync.aligned;", True),
        ("tcgen05.wait::ld.sync.aligned;", False),
    ],
)
def test_only_the_wait_ends_an_access(between: str, outstanding: bool) -> None:
    made = model(ACCESS.format(between))
    expected = [(made.sites("issue")[0], made.sites("mbarrier-arrive")[0])]
    assert releases(made) == (expected if outstanding else [])


def pair(signal: int, said: Said, way: str) -> Pair:
    return Pair(
        "k", 10, signal, True, "mbarrier-arrive", said, Ordering(way, "" if way == "ahead" else "a use waits")
    )


def test_an_operation_counts_where_tclint_speaks_of_it_or_where_it_is_worst() -> None:
    note, error = Said("note", "TC007", 11), Said("error", "TC002", 20)
    group = [("ordered", 20), ("ahead", 30)]
    assert [p.signal for p in judged(pair(s, note, way) for way, s in group)] == [30]
    assert [p.signal for p in judged(pair(s, error, way) for way, s in group)] == [20]


def test_the_page_says_where_the_two_differ() -> None:
    row = {
        "file": "p/k.ptx", "operation": 10, "signal": 20, "what": "ld", "event": "mbarrier-arrive",
        "tclint": "error", "sass": "ordered", "why": "a branch waits",
    }  # fmt: skip
    data = {
        "files": 3,
        "outstanding": 9,
        "operations": 4,
        "matrix": {"ld": {"error": {"ahead": 2, "ordered": 1}, "note": {"ordered": 1}}},
        "unknown": {"no LDTM": 1},
        "differences": [row | {"also": {"12.9": "ahead"}}],
    }
    assert "4 loads and stores in 3 files" in scoreboards.figure(data)
    assert "run ahead of 2: 2 are errors, and of 0 tclint says nothing" in scoreboards.figure(data)
    text = "\n".join(scoreboards.tables(data))
    assert "| `ld`: error | 2 | 0 | 1 | 0 |" in text
    assert "| error, ordered | `ld` at mbarrier-arrive | a branch waits | 1 | 1 | k.ptx:20 |" in text
    assert "| operations | such as | ptxas 12.9 |" in text
    assert "| 1 | k.ptx:20 | runs ahead |" in text


@pytest.fixture
def tools() -> scoreboards.Tools:
    try:
        return scoreboards.Tools(ptxas.find(), sass.find())
    except (ptxas.PtxasMissing, sass.NvdisasmMissing) as error:
        pytest.skip(str(error))


def test_the_examples_of_the_rule_run_ahead_on_the_hardware(tools: scoreboards.Tools) -> None:
    rule = all_rules()["TC002"]
    for block in rule.examples[:3]:
        found = judged(pairs(Source(block.code.encode(), "t.ptx"), tools))
        assert [(p.said.verdict, p.ordering.verdict) for p in found] == [("error", "ahead")], block.code


def test_the_line_table_changes_no_instruction(tools: scoreboards.Tools, tmp_path: Path) -> None:
    source = ROOT / "fixtures" / "tcgen05_gemm_released_early.ptx"
    texts = []
    for options in ([], ["-lineinfo"]):
        subprocess.run(
            [tools.assembler.path, "-arch", "sm_100a", *options, source, "-o", tmp_path / "t.cubin"],
            check=True,
        )
        texts.append(
            [
                i.text
                for code in tools.disassembler.disassemble(tmp_path / "t.cubin")
                for i in code.instructions
            ]
        )
    assert texts[0] == texts[1]
    assert texts[0]


def test_missing_tools_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TCLINT_NVDISASM", str(tmp_path / "absent"))
    monkeypatch.setenv("TCLINT_PTXAS", str(tmp_path / "absent"))
    assert scoreboards.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("scoreboards are not measured: TCLINT_PTXAS names")
