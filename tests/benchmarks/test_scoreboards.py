"""What SASS says of a load or store of tensor memory and the signals after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import ptxas, sass, scoreboards
from benchmarks.scoreboards import Listing
from tclint.findings.rules import all_rules
from tclint.hang.machine_code import MachineCodeError, printed
from tests.tools.project import ROOT

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
    ("rows", "overtakes"),
    [
        ([(LOAD, 0), (ARRIVE,)], True),
        ([(LOAD, 0), (ARRIVE, 7, 0b1)], False),
        ([(LOAD, 0), (USE, 7, 0b10), (ARRIVE,), (USE, 7, 0b1)], True),
        ([(LOAD, 0), (USE, 7, 0b1), (ARRIVE,)], False),
        ([(LOAD,), (LOAD, 2), (USE, 7, 0b100), (ARRIVE,)], False),
        ([(LOAD,), (LOAD, 2), (ARRIVE,)], True),
        ([(LOAD, 0), (FENCE, 1), (USE, 7, 0b10), (ARRIVE,)], False),
        ([(STORE,), (ARRIVE,)], True),
        ([(STORE,), (FENCE, 1), (ARRIVE,)], True),
        ([(STORE,), (FENCE, 1), (ARRIVE, 7, 0b10)], False),
        ([(STORE,), (FENCE, 1), (USE, 7, 0b10), (ARRIVE,)], False),
        ([(LOAD, 0), ("EXIT",), (ARRIVE,)], False),
    ],
)
def test_a_signal_overtakes_what_nothing_waits_for(rows: list[tuple[Any, ...]], overtakes: bool) -> None:
    signal = len(rows) - 1 - (rows[-1][0] == USE)
    assert ((0, signal) in Listing(code(*rows)).ahead()) == overtakes


def test_one_path_without_a_wait_is_enough() -> None:
    made = code((LOAD, 0), ("@P0 BRA `(.L)", 7, 0, ".L"), (USE, 7, 0b1), (ARRIVE,))
    made.labels[".L"] = 3
    assert list(Listing(made).ahead()) == [(0, 3)]
    made.instructions[1] = sass.Sass("@P0 BRA `(.L)", 1, 7, 7, 0b1)
    assert list(Listing(made).ahead()) == []


@pytest.fixture
def tools() -> None:
    """Skips the test where ptxas or nvdisasm is not installed."""
    try:
        scoreboards.versions()
    except (ptxas.PtxasMissing, MachineCodeError) as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("tools")
def test_the_examples_of_the_rule_run_ahead_on_the_hardware() -> None:
    for block in all_rules()["TC002"].examples[:3]:
        kernels = scoreboards.compiled(block.code.encode()).values()
        assert [pair for kernel in kernels for pair in kernel.ahead()], block.code


@pytest.mark.usefixtures("tools")
def test_the_line_table_changes_no_instruction(tmp_path: Path) -> None:
    source, cubin = ROOT / "fixtures" / "tcgen05_gemm_released_early.ptx", str(tmp_path / "t.cubin")
    texts = []
    for options in ([], ["-lineinfo"]):
        printed("ptxas", "-arch", "sm_100a", *options, str(source), "-o", cubin)
        codes = sass.parse(printed("nvdisasm", "-c", "-gp", "-hex", cubin))
        texts.append([i.text for code in codes for i in code.instructions])
    assert texts[0] == texts[1]
    assert texts[0]
