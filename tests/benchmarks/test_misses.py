"""Why a planted fault was not found, what ptxas makes of it, and the score."""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import mutation, mutation_score, results
from benchmarks.faults import OPERATORS, Fault, Kernel
from benchmarks.machine_code import Assembler, loaded
from benchmarks.misses import CAUSES, cause
from benchmarks.mutation import kernels
from benchmarks.ptxas import PtxasMissing, find
from tclint.dataflow import GaveUp
from tclint.replay.launch_search import LaunchSearch
from tclint.replay.reasons import NotReplayed
from tests.tools.project import ROOT

HEAD = """\
.version 8.7
.target {target}
.address_size 64
.extern .func f;
.visible .entry k(.param .u64 in) {directives}
{{
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .f32 %f<8>;
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b64 bar;
"""
PRODUCT = """wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
"""
PROXY = "fence.proxy.async.shared::cta;\n"
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 16;\n"
FILL = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [bar];\n"
WAIT = "wgmma.wait_group.sync.aligned 0;\n"
MULTIPLY = "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;\n"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"


def first(folder: Path, operator: str, text: str, directives: str = "") -> tuple[Kernel, Fault]:
    """A kernel, and the first fault of an operator in it."""
    target = "sm_100a" if "tcgen05" in text else "sm_90a"
    path = folder / "k.ptx"
    path.write_text(HEAD.format(target=target, directives=directives) + text + "ret;\n}\n")
    (kernel,) = (k for k in kernels(path) if k.function.entry)
    return kernel, next(OPERATORS[operator].plant(kernel))


@pytest.mark.parametrize(
    ("expected", "operator", "record", "text", "directives"),
    [
        ("equivalent", "wgmma.wait_group deleted", {"equivalent": "so"}, PRODUCT + WAIT, ""),
        ("accepted", "target without its suffix", {"code": "same"}, PRODUCT + WAIT, ""),
        ("no rule", "call while a wgmma is in flight", {}, PRODUCT + WAIT, ""),
        ("low", "wgmma.wait_group deleted", {"verdict": "low"}, PRODUCT + WAIT, ""),
        ("same code", "wgmma.wait_group deleted", {"code": "same"}, PRODUCT + WAIT, ""),
        ("refused by ptxas", "wgmma.wait_group deleted", {"code": "refused"}, PRODUCT + WAIT, ""),
        ("threads", "wgmma.wait_group deleted", {}, PRODUCT + WAIT + "bar.sync 0;\n", ""),
        ("reads", "proxy fence deleted", {}, f"ld.shared.u32 %r1, [tile];\n{PROXY}bar.sync 0;\n" + FILL, ""),
        ("reads", "proxy fence deleted", {}, f"ld.shared.u32 %r1, [tile];\n{PROXY}{PROXY}bar.sync 0;\n" + FILL, ""),
        ("threads", "proxy fence deleted", {},
         (f"@%p1 bra A;\nst.shared.u32 [tile], %r1;\nmbarrier.arrive.shared.b64 _, [bar];\nbra B;\n"
         f"A: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n{PROXY}{FILL}B:\n"), ""),
        ("memory", "proxy fence deleted", {}, f"st.shared.u32 [%r2], %r1;\n{PROXY}bar.sync 0;\n" + PRODUCT, ""),
        ("threads", "proxy fence deleted", {}, f"st.shared.u32 [tile], %r1;\n{PROXY}bar.sync 0;\n" + STORE, ""),
        ("threads", "proxy fence deleted", {},
         f"cp.async.ca.shared.global [tile], [%rd1], 4;\ncp.async.wait_all;\n{PROXY}bar.sync 0;\n" + STORE, ""),
        ("unexplained", "wgmma.wait_group deleted", {}, PRODUCT + WAIT + "add.f32 %f4, %f0, %f1;\n", ""),
        ("memory", "cp.async.wait deleted", {},
         "cp.async.ca.shared.global [tile], [%rd1], 4;\ncp.async.wait_all;\nld.shared.u32 %r1, [%r2];\n", ""),
        ("arrival", "tcgen05.commit deleted", {}, MULTIPLY + COMMIT + COMMIT, ""),
        ("arrival", "tcgen05.commit before the operation", {"verdict": "missed"},
         MULTIPLY + COMMIT + MULTIPLY + COMMIT + COMMIT, ""),
        ("launch", "tcgen05.commit deleted", {}, "st.shared.u32 [tile], %r1;\n" + MULTIPLY + COMMIT, ""),
        ("executed by", "vote mask narrowed", {},
         "@%p1 bra L;\nvote.sync.ballot.b32 %r1, %p2, 0xffffffff;\nL:\n", ""),
        ("unresolved", "mbarrier wait parity flipped", {},
         "ld.shared.u32 %r1, [%r2];\nmbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n", ""),
        ("threads", "mbarrier.init deleted", {},
         "mbarrier.init.shared.b64 [bar], 1;\nL: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;\n@!%p1 bra L;\nst.shared.b32 [tile], %r1;\n", ""),
        ("unexplained", "vote mask narrowed", {}, "vote.sync.ballot.b32 %r1, %p2, 0xffffffff;\n", ""),
        ("value", "setmaxnreg.dec to .inc", {}, "setmaxnreg.dec.sync.aligned.u32 24;\n", ""),
        ("count", "setmaxnreg.dec to .inc", {}, "setmaxnreg.dec.sync.aligned.u32 24;\n", ".maxnreg 24"),
        ("unexplained", "setmaxnreg.dec to .inc", {}, "setmaxnreg.dec.sync.aligned.u32 24;\n", ".maxnreg 96"),
        ("value", "descriptor of wgmma differs by lane", {}, "atom.shared.add.u64 %rd2, [tile], 1;\n" + PRODUCT, ""),
        ("unexplained", "descriptor of wgmma differs by lane", {}, "mov.b64 %rd2, 64;\n" + PRODUCT, ""),
        (
            "overlap",
            "griddepcontrol.wait deleted",
            {},
            "griddepcontrol.wait;\nld.global.u32 %r1, [%rd1];\ngriddepcontrol.wait;\n",
            "",
        ),
        ("value", "barrier count beyond the CTA", {}, "bar.sync 0, 64;\n", ""),
        ("unexplained", "barrier count beyond the CTA", {}, "bar.sync 0, 64;\n", ".reqntid 64"),
        ("value", "cp.async misaligned", {}, "cp.async.ca.shared.global [%r1], [%rd1], 4;\n", ""),
        ("unexplained", "cp.async misaligned", {}, "cp.async.ca.shared.global [tile], [%rd1], 4;\n", ""),
    ],
)  # fmt: skip
def test_a_miss_has_a_cause(
    tmp_path: Path, expected: str, operator: str, record: dict[str, str], text: str, directives: str
) -> None:
    kernel, fault = first(tmp_path, operator, text, directives)

    def said(known: frozenset[str]) -> str:
        return cause({"verdict": "missed"} | record, kernel, fault, OPERATORS[operator], known)

    assert expected in CAUSES
    assert said(frozenset()) == expected
    if expected == "unexplained":
        assert said(OPERATORS[operator].rules) == "already"


def missed(folder: Path, operator: str, text: str) -> str:
    """The cause of the first fault of an operator, in a warp, that nothing finds."""
    kernel, fault = first(folder, operator, text, ".reqntid 32")
    return cause({"verdict": "missed"}, kernel, fault, OPERATORS[operator], frozenset())


def test_a_replay_that_ends_early_is_a_cause(tmp_path: Path) -> None:
    text = (
        ".shared .b64 m;\nmbarrier.init.shared.b64 [m], 1;\nmov.u32 %r1, %clock;\nsetp.eq.u32 %p2, %r1, 0;\n"
        "@%p2 mbarrier.arrive.shared.b64 _, [m];\nL: mbarrier.try_wait.parity.shared.b64 %p1, [m], 0;\n@!%p1 bra L;\n"
    )
    assert missed(tmp_path, "mbarrier arrive deleted", text) == "launch"


BULK = (
    "mov.u32 %r2, %tid.x;\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [m], 16;\n"
    "@%p3 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [d], [%rd1], 16, [m];\n"
)
COPY = "cp.async.ca.shared.global [d], [%rd1], 16;\n"


@pytest.mark.parametrize(
    ("data", "around", "expected"),
    [
        (BULK, "", "in order"),
        (BULK + COPY, "", "threads"),
        ("", "", "threads"),
        ("", "@%p2 bra E;\n", "unreached"),
    ],
)
def test_a_wait_that_orders_nothing_is_a_cause(tmp_path: Path, data: str, around: str, expected: str) -> None:
    """Another wait has released all that it releases; unknown where no launch reaches it, or the data is not followed."""
    wait = "{0}: mbarrier.try_wait.parity.shared.b64 %p1, [m], 0;\n@!%p1 bra {0};\n"
    text = (
        ".shared .b64 m;\n.shared .align 16 .b8 d[16];\nmov.u32 %r1, %tid.y;\nsetp.eq.u32 %p2, %r1, 0;\n"
        f"mbarrier.init.shared.b64 [m], 32;\nbar.sync 0;\n{data}mbarrier.arrive.shared.b64 _, [m];\n"
        f"{around}{wait.format('L')}E: {wait.format('M')}st.shared.u32 [m], %r1;\n"
    )
    assert missed(tmp_path, "mbarrier wait loop dropped", text) == expected


def test_a_wait_after_one_for_later_products_is_a_cause(tmp_path: Path) -> None:
    """Whatever memory is passed: a thread that has waited for the second commit has observed both."""
    wait = "{0}: mbarrier.try_wait.parity.shared.b64 %p1, [{1}], 0;\n@!%p1 bra {0};\n"
    commit = COMMIT.replace("tcgen05", "@%p3 tcgen05").replace("[bar]", "[{}]")
    text = (
        ".shared .b64 m;\n.shared .b64 n;\n.shared .align 16 .b8 d[16];\nmov.u32 %r3, %tid.x;\nsetp.eq.u32 %p3, %r3, 0;\n"
        "mov.u32 %r1, 0;\n@%p3 mbarrier.init.shared.b64 [m], 1;\n@%p3 mbarrier.init.shared.b64 [n], 1;\nbar.sync 0;\n"
        f"@%p3 {MULTIPLY}{commit.format('m')}@%p3 {MULTIPLY}{commit.format('n')}"
        f"{wait.format('L', 'n')}{wait.format('M', 'm')}{COPY}st.shared.u32 [d], %r1;\n"
    )
    operator = OPERATORS["mbarrier wait loop dropped"]
    kernel, _ = first(tmp_path, operator.name, text, ".reqntid 32")
    assert [
        cause({"verdict": "missed"}, kernel, fault, operator, frozenset()) for fault in operator.plant(kernel)
    ] == ["threads", "in order"]


@pytest.mark.parametrize(("turns", "expected"), [("0", "once"), ("1", "threads")])
def test_a_loop_with_one_iteration_is_a_cause(tmp_path: Path, turns: str, expected: str) -> None:
    text = (
        ".shared .b64 m;\n.shared .align 16 .b8 d[16];\nmov.u32 %r4, 0;\nmbarrier.init.shared.b64 [m], 32;\nbar.sync 0;\n"
        f"A: {BULK}{COPY}mbarrier.arrive.shared.b64 _, [m];\n"
        "L: mbarrier.try_wait.parity.shared.b64 %p1, [m], %r4;\n@!%p1 bra L;\nst.shared.u32 [m], %r1;\n"
        f"add.u32 %r4, %r4, 1;\nsetp.le.u32 %p2, %r4, {turns};\n@%p2 bra A;\n"
    )
    assert missed(tmp_path, "mbarrier wait loop dropped", text) == expected


def test_a_replay_that_takes_too_long_is_a_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def launched(search: LaunchSearch, *launch: object) -> None:
        search.gave_up = GaveUp(NotReplayed.TOO_LONG)

    monkeypatch.setattr(LaunchSearch, "replay", launched)
    text = (
        ".shared .b64 m;\nmbarrier.init.shared.b64 [m], 32;\nbar.sync 0;\nmbarrier.arrive.shared.b64 _, [m];\n"
        "L: mbarrier.try_wait.parity.shared.b64 %p1, [m], 0;\n@!%p1 bra L;\nst.shared.u32 [tile], %r1;\n"
    )
    assert missed(tmp_path, "mbarrier wait loop dropped", text) == "long"


def test_a_barrier_between_threads_on_one_path_is_not_replayed(tmp_path: Path) -> None:
    text = (
        ".shared .b64 m;\n.shared .align 16 .b8 d[16];\n.shared .align 16 .b8 e[128];\nmov.u32 %r1, %tid.x;\n"
        f"mbarrier.init.shared.b64 [m], 32;\nbar.sync 0;\n{BULK}mbarrier.arrive.shared.b64 _, [m];\n"
        "L: mbarrier.try_wait.parity.shared.b64 %p1, [m], 0;\n@!%p1 bra L;\n"
        "shl.b32 %r2, %r1, 2;\nadd.u32 %r2, %r2, e;\nst.shared.u32 [%r2], %r1;\nbar.sync 0;\nld.shared.u32 %r3, [e];\n"
    )
    kernel, _ = first(tmp_path, "CTA barrier deleted", text, ".reqntid 32")
    operator = OPERATORS["CTA barrier deleted"]
    causes = {
        cause({"verdict": "missed"}, kernel, fault, operator, frozenset()) for fault in operator.plant(kernel)
    }
    assert "in order" not in causes


def cubin(**sections: bytes) -> bytes:
    """An ELF file with these sections (``__`` in a name stands for a dot)."""
    texts = [b"", *(name.replace("__", ".").encode() for name in sections), b".shstrtab"]
    names = b"".join(text + b"\0" for text in texts)
    data, headers = bytearray(64), []
    for text, content in zip(texts, [b"", *sections.values(), names], strict=True):
        at = names.index(b"\0" + text + b"\0") + 1 if text else 0
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, len(data), len(content), 0, 0, 0, 0))
        data += content
    data[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", data, 0x28, len(data))
    struct.pack_into("<HH", data, 0x3C, len(headers), len(headers) - 1)
    return bytes(data) + b"".join(headers)


def test_what_is_loaded_of_a_cubin() -> None:
    file = cubin(__text__k=b"code", __debug_line=b"lines", __nv__constant0__k=b"0", __nv_debug_ptx_txt=b"ptx")
    assert loaded(file) == {".text.k": (4, b"code"), ".nv.constant0.k": (1, b"0")}
    with pytest.raises(ValueError, match="not a cubin"):
        loaded(b"\x7fELF\x01" + bytes(100))


def test_ptxas_compares_two_texts() -> None:
    try:
        assembler = Assembler(find())
    except PtxasMissing as error:
        pytest.skip(str(error))
    text = (ROOT / "fixtures" / "kernels" / "nvcc-plain.sm_75.ptx").read_bytes()
    assert assembler.compare(text, text + b"// the end\n") == "same"
    assert assembler.compare(text, re.sub(rb"\.target\s+sm_75", b".target sm_80", text)) == "different"
    assert assembler.compare(text, text.replace(b"ret;", b"rot;")) == "refused"
    assert assembler.compare(text.replace(b"ret;", b"rot;"), text) == "unknown"


def test_the_score_is_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    written = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(4))
    cleared = f"ld.param.u64 %rd1, [in];\nmov.b64 %rd2, %rd1;\n{written}{PRODUCT}"
    adds = "add.f32 %f4, %f0, %f1;\n"  # the last kernel has a finding as it is, and no fault is planted there
    for at, text in enumerate((cleared + WAIT + adds, cleared + WAIT + WAIT, PRODUCT + WAIT + adds)):
        (folder / f"hand-{at}.ptx").write_text(
            HEAD.format(target="sm_90a", directives="") + text + "ret;\n}\n"
        )
    monkeypatch.setattr(results, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(results, "PARTS", {"mutation": "benchmarks.mutation"})
    monkeypatch.setattr(
        sys,
        "argv",
        ["mutation", str(folder), "--record", "--no-ptxas", "--operator", "wait_group deleted|fence"],
    )
    mutation.main()
    assert "| wgmma.wait_group deleted | 3 | 2 | 1 |" in capsys.readouterr().out
    record = json.loads((tmp_path / "records" / "mutation.json").read_text())["data"]
    assert record["contradictions"] == []
    assert {miss["file"] for miss in record["misses"]} == {"hand-1.ptx"}
    assert {miss["cause"] for miss in record["misses"]} == {"equivalent"}
    page = (tmp_path / "results.md").read_text()
    assert "2 are proven to be no fault" in page
    assert "100.0%" in page
    assert "All found: wgmma.wait_group deleted (1)" in "\n".join(mutation_score.tables(record))


def row(operator: str, verdict: str, why: str = "", **more: Any) -> dict[str, Any]:
    """A record of a mutant."""
    where = {"producer": "hand", "file": "a.ptx", "line": 7, "note": "this", "new": []}
    return {"operator": operator, "verdict": verdict, **({"cause": why} if why else {}), **where, **more}


def test_the_tables_list_what_was_missed_and_why() -> None:
    wait = "wgmma.wait_group deleted"
    records = [
        row(wait, "found"), row(wait, "missed", "unexplained"), row(wait, "missed", "unexplained", file="b.ptx", line=9),
        row(wait, "missed", "threads"),
        row(wait, "found", equivalent="it is none", manual="9.7", new=["WG001 error/high line 3: x"]),
        row("call while a wgmma is in flight", "missed", "no rule"),
    ]  # fmt: skip
    data = json.loads(json.dumps(mutation_score.summary(records, each=3, seed=1, assembler="ptxas 1.0")))
    assert "Of the other 5, tclint finds 2: 40.0%" in mutation_score.figure(data)
    text = "\n".join(mutation_score.tables(data))
    assert f"| {wait} | 5 | 0 | 2 | 0 | 0 | 0 | 0 | 3 | 0 | 0 | 0 | 40% | 40% | 40% |" in text
    assert "No rule yet: call while a wgmma is in flight (1)." in text
    assert (
        f"- *only other threads can observe it: what orders them is not analysed*, 1: {wait} (1: a.ptx:7)"
        in text
    )
    assert f"- *not explained*, 2: {wait} (2: a.ptx:7, b.ptx:9)" in text
    assert "1 changes have such a proof and a finding nevertheless:" in text
