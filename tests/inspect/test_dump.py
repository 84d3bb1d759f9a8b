"""What `tclint dump` shows: each stage as text and as a graph, for whole, broken and large input."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from time import perf_counter

import pytest

from tclint.analyses.groups import Groups
from tclint.analyses.model import KernelModel
from tclint.dataflow import Analysis
from tclint.inspect import dump
from tclint.ir.frontend import analyse
from tclint.ir.nodes import Instruction
from tclint.syntax.source import Source, SourceError
from tests.tools.project import ROOT

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
STAGES = ("tree", "ir", "cfg", "states")

LOOP = """\
.visible .entry loop(.param .u64 out)
.reqntid 128
{
    .reg .pred %p<3>;
    .reg .b32 %r<5>;
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %p0, %r0, 64;
    @%p0 bra done;
    mov.b32 %r1, 0;
again:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 4;
    @%p1 bra again;
done:
    ret;
}
"""

WGMMA = """\
.visible .entry gemm()
.reqntid 128
{
    .reg .pred %p<2>;
    .reg .f32 %f<8>;
    .reg .b64 %a, %b;
    mov.b64 %a, 0;
    mov.b64 %b, 0;
    wgmma.fence.sync.aligned;
    @%p1 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %a, %b, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    add.f32 %f4, %f0, %f1;
    ret;
}
"""


def source(text: str) -> Source:
    return Source.from_bytes((HEAD + text).encode(), "k.ptx")


def show(stage: str, text: str, *, dot: bool = False, entry: str | None = None) -> str:
    shown: str = getattr(dump, stage)(source(text), dot=dot, entry=entry)
    assert shown.endswith("\n")
    assert not shown.endswith("\n\n")
    return shown


def kernel(body: str, name: str = "k") -> str:
    return f".visible .entry {name}()\n{{\n{body}}}\n"


def check_dot(text: str) -> None:
    """That *text* is a graph, as far as Graphviz' grammar is used here."""
    string = r'"(?:[^"\\\n]|\\.)*"'
    name = rf"(?:\w+|{string})"
    line = (
        rf"//.*|digraph \w+ \{{|subgraph cluster_\d+ \{{|label={string};|\}}|"
        rf"{name} \[\w+={name}(?:, \w+={name})*\];|{name} -> {name}(?: \[label={string}\])?;"
    )
    depth = 0
    for row in text.splitlines():
        assert re.fullmatch(line, row.strip()), row
        if not row.lstrip().startswith("//"):
            bare = re.sub(string, "", row)
            depth += bare.count("{") - bare.count("}")
    assert depth == 0
    nodes = set(re.findall(rf"^\s*({name}) \[", text, re.MULTILINE))
    edges = re.findall(rf"^\s*({name}) -> ({name})", text, re.MULTILINE)
    assert {end for edge in edges for end in edge} <= nodes


# ---------------------------------------------------------------- tree


def test_the_tree_has_fields_positions_and_the_text_of_leaves() -> None:
    shown = show("tree", kernel("    ret;\n"))
    assert shown.startswith("(module [1:1 - 8:1]\n  (version_directive [1:1 - 1:13]\n")
    assert '    name: (identifier [4:17 - 4:18] "k")\n' in shown
    assert '      (instruction [6:5 - 6:9]\n        opcode: (opcode [6:5 - 6:8] "ret")))))\n' in shown
    quoteless = re.sub(r'"[^"]*"', "", shown)
    assert quoteless.count("(") == quoteless.count(")")


def test_the_tree_of_one_function() -> None:
    shown = show("tree", kernel("    ret;\n", "first") + kernel("    exit;\n", "second"), entry="second")
    assert shown.startswith("(function [8:1 - 11:2]\n")
    assert '"exit"' in shown
    assert '"ret"' not in shown


def test_columns_count_characters_and_long_leaves_are_cut() -> None:
    shown = show("tree", kernel("    /* é */ ret; // " + "x" * 99 + "\n"))
    assert '(opcode [6:13 - 6:16] "ret")' in shown
    assert f'"// {"x" * (dump.QUOTE - 3)}…"' in shown


def test_a_syntax_error_is_shown_first_and_in_the_tree() -> None:
    shown = show("tree", kernel("    mov.u32 %r1, ;\n"))
    assert shown.startswith("// line 6: ")
    assert "(ERROR [" in shown or "(MISSING " in shown
    check_dot(show("tree", kernel("    mov.u32 %r1, ;\n"), dot=True))


def test_ten_thousand_scopes_stay_small() -> None:
    shown = show("tree", kernel("{" * 10_000 + "ret;" + "}" * 10_000 + "\n"))
    assert len(shown) < 3_000_000
    assert shown.count("(") == shown.count(")")


def test_a_large_tree_is_cut_in_the_graph() -> None:
    text = kernel("    ret;\n" * dump.TREE_NODES)
    shown = show("tree", text, dot=True)
    check_dot(shown)
    total = len(re.findall(r"^\s*(?:\w+: )?\(", show("tree", text), re.MULTILINE))
    assert f"the first {dump.TREE_NODES} of {total} nodes" in shown
    assert "the first" not in show("tree", kernel("    ret;\n"), dot=True)


# ---------------------------------------------------------------- ir


def test_instructions_with_what_is_known_about_them() -> None:
    shown = show("ir", LOOP)
    assert shown.splitlines()[:4] == [
        ".entry loop .reqntid 128: line 4, 8 instructions",
        "  .param out: 8 bytes, aligned to 8",
        "     0  mov.u32 %r0, %tid.x  ; mov ; writes %r0 ; line 9",
        "     1  setp.ge.u32 %p0, %r0, 64  ; setp.int ; reads %r0 ; writes %p0 ; line 10",
    ]
    assert "     2  @%p0 bra done  ; bra ; branch to 7 ; line 11\n" in shown
    assert "again:\n     4  add.u32" in shown


def test_events_vectors_and_runs_of_registers() -> None:
    shown = show("ir", WGMMA)
    assert (
        "@%p1 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %a, %b, 0, 1" in shown
    )
    assert "; reads %f0..%f3 %a %b ; writes %f0..%f3 ; issue wgmma ; line 13\n" in shown
    assert "; commit wgmma ; line 14\n" in shown


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.global.v2.b32 {%r1, %r2}, [%rd1-8]",
        "mov.f32 %f1, -1.5",
        "mov.b64 %rd1, buffer+16",
        "@!%p1 st.shared.b32 [buffer], %r1",
        "elect.sync _|%p1, -1",
        "elect.sync %r1|%p1, -1",
        "selp.b32 %r1, -5, 0, %p1",
        "and.pred %p1, %p1, !%p1",
        "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd0",
        "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r1, %r2}]",
    ],
)
def test_every_kind_of_operand_is_written_as_it_is_read(instruction: str) -> None:
    names = ".reg .pred %p<2>; .reg .b32 %r<3>; .reg .f32 %f<2>; .reg .b64 %rd<2>; .shared .b8 buffer[64];"
    assert f"0  {instruction}  ; " in show("ir", kernel(f"{names}\n{instruction};\n"))


def test_an_instruction_without_a_form_is_shown_as_such() -> None:
    shown = show(
        "ir", kernel(".reg .b32 %r<3>;\nfrobnicate.s32 %r1, %r2;\nadd.s32 %r1, %r2;\nbra nowhere;\n")
    )
    assert "frobnicate.s32 %r1, %r2  ; NO FORM ; reads %r1 %r2 ; writes %r1 %r2 ; line 7\n" in shown
    assert re.search(r"add.s32 %r1, %r2  ; add.*operands", shown)
    assert "branch to ?" in shown
    assert "  line 9: label nowhere is not defined\n" in shown


def test_the_source_line_of_the_user_is_the_end_of_the_inlining_chain() -> None:
    text = (
        kernel(".loc 1 7 3\nret;\n.loc 1 8 3, function_name $f, inlined_at 2 40 1\nret;\n")
        + '.file 1 "/a/lib.cuh"\n.file 2 "/a/kernel.cu"\n'
    )
    shown = show("ir", text)
    assert "line 7 ; lib.cuh:7\n" in shown
    assert "line 9 ; kernel.cu:40\n" in shown


CALLS = (
    ".func callee() { ret; }\n.func absent();\n"
    + kernel("call callee;\ncall absent;\nret;\n", "caller")
    + kernel("ret;\n", "lonely")
)


def test_the_graph_of_the_instructions_is_the_call_graph() -> None:
    shown = show("ir", CALLS, dot=True)
    check_dot(shown)
    assert '  "caller" [label="caller", style=bold];' in shown
    assert '  "callee" [label="callee", style=solid];' in shown
    assert '  "absent" [label="absent", style=dashed];' in shown
    assert '  "caller" -> "callee";' in shown
    assert '"lonely"' in shown
    one = show("ir", CALLS, dot=True, entry="callee")
    assert '  "caller" -> "callee";' in one
    assert "absent" not in one


# ---------------------------------------------------------------- cfg


def test_blocks_edges_dominators_loops_and_threads() -> None:
    assert show("cfg", LOOP).splitlines() == [
        ".entry loop .reqntid 128: line 4, 8 instructions",
        "  B0: 0-2, line 9-11; all threads; the entry; post-dominated by B3",
        "      -> B3 if %p0",
        "      -> B1 if !%p0",
        "  B1: 3, line 12; warps 0-1; dominated by B0; post-dominated by B2",
        "      -> B2",
        "  B2 again: 4-6, line 14-16; warps 0-1; dominated by B1; post-dominated by B3",
        "      -> B2 if %p1",
        "      -> B3 if !%p1",
        "  B3 done: 7, line 18; all threads; dominated by B0; post-dominated by the end",
        "      -> leaves the function",
        "  loop at B2: B2",
    ]


def test_tables_and_unreachable_code() -> None:
    text = kernel(
        ".reg .b32 %r<1>;\ntable: .branchtargets a, b;\nbrx.idx %r0, table;\nmov.b32 %r0, 1;\na: b: ret;\n"
    )
    shown = show("cfg", text)
    assert "-> B2 if case 0\n      -> B2 if case 1\n" in shown
    assert "  B1: 1, line 9; unreachable\n" in shown
    assert "style=dashed" in show("cfg", text, dot=True)


def test_the_graph_has_blocks_and_conditions() -> None:
    shown = show("cfg", LOOP + kernel("ret;\n"), dot=True)
    check_dot(shown)
    assert '  f0b0 -> f0b3 [label="%p0"];' in shown
    assert '  f0b0 -> f0b1 [label="!%p0"];' in shown
    assert r'f0b1 [label="B1: 3, line 12\lwarps 0-1\l", style=solid];' in shown
    assert "subgraph cluster_1 {" in shown


def test_callees_are_shown_inside_as_the_checks_see_them() -> None:
    text = ".func wait() { wgmma.wait_group.sync.aligned 0; ret; }\n" + kernel("call wait;\nret;\n")
    assert ".entry k: line 5, 2 instructions (3 with callees inlined)\n" in show("cfg", text)
    assert "wgmma.wait_group" in show("ir", text, entry="wait")
    assert "wgmma.wait_group" not in show("ir", text, entry="k")


# ---------------------------------------------------------------- states


def test_states_before_and_after() -> None:
    shown = show("states", WGMMA)
    groups = shown.partition("  WgmmaGroups\n")[2]
    assert groups.splitlines()[:10] == [
        "    B0: nothing in flight",
        "      2 wgmma.fence.sync.aligned, line 12: unchanged",
        "      3 @%p1 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16, line 13",
        "        before nothing in flight",
        "        after  not committed: 3",
        "      4 wgmma.commit_group.sync.aligned, line 14",
        "        before not committed: 3",
        "        after  in a group of age 0: 3",
        "      5 wgmma.wait_group.sync.aligned, line 15",
        "        before in a group of age 0: 3",
    ]
    assert "        after  at most 1 group pending\n" in shown.partition("  Depth\n")[2]
    fences = shown.partition("  WgmmaFences\n")[2]
    assert "before no fence since entry on some path; accessed since the last fence: nothing" in fences
    assert "after  accessed since the last fence: %f0 %f1\n" in fences
    assert "TmemTransfers" not in shown


def test_copies_and_depths_are_named() -> None:
    text = WGMMA.replace("    wgmma.wait_group.sync.aligned 0;\n", "    mov.f32 %f5, %f0;\n")
    shown = show("states", text.replace("@%p1 ", ""))
    assert "in a group of age 0: 3; copies: %f5 = %f0 of 3\n" in shown


def test_tensor_memory() -> None:
    text = kernel(
        ".reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n.reg .pred %p<1>;\n"
        "tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, %p0;\n"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r0];\n"
        "add.u32 %r3, %r2, 1;\n"
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd0];\n"
        "ret;\n"
    )
    shown = show("states", text)
    transfers, operations = (shown.partition(f"  {name}\n")[2] for name in ("TmemTransfers", "Outstanding"))
    assert "after  in flight: 1\n" in transfers
    assert "after  in flight, registers used: 1\n" in transfers
    assert "after  in flight: 0\n" in operations
    assert "after  committed by 3: 0\n" in operations


def test_a_kernel_without_anything_asynchronous() -> None:
    assert show("states", LOOP).splitlines()[1:] == ["  no analysis tracks anything in this function"]


def test_the_graph_has_states_at_block_entries() -> None:
    text = WGMMA.replace("    wgmma.commit_group", "    bra next;\nnext:\n    wgmma.commit_group")
    shown = show("states", text, dot=True)
    check_dot(shown)
    assert re.search(r'f0b1 \[label="B1 next: .*WgmmaGroups: not committed: 3\\l', shown)


def test_all_analyses_are_found_and_none_that_is_only_a_base() -> None:
    found = dump.analyses_of()
    assert {one.__name__ for one in found} >= {"WgmmaGroups", "Depth", "WgmmaFences", "TmemTransfers"}
    assert Groups not in found
    assert Analysis not in found


def test_an_analysis_without_words_of_its_own_shows_its_state() -> None:
    class Seen(Analysis[frozenset[int]]):
        def boundary(self) -> frozenset[int]:
            return frozenset()

        bottom = boundary

        def join(self, a: frozenset[int], b: frozenset[int]) -> frozenset[int]:
            return a | b

        def transfer(self, state: frozenset[int], at: int, instruction: Instruction) -> frozenset[int]:
            return state | {at}

    module, _ = analyse(source(WGMMA))
    model = KernelModel(module.functions[0], module)
    assert dump.describe(Seen(), frozenset({2, 1}), model) == "{1, 2}"


def test_an_analysis_without_a_fixpoint_is_shown_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    from tclint.dataflow import LimitExceeded

    def never(self: KernelModel, analysis: type[Analysis[object]]) -> None:
        raise LimitExceeded(analysis.__name__)

    monkeypatch.setattr(KernelModel, "solution", never)
    assert "  Depth\n    no fixpoint" in show("states", WGMMA)
    check_dot(show("states", WGMMA, dot=True))


# ---------------------------------------------------------------- what all stages share


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dot", [False, True])
def test_one_function_or_all(stage: str, dot: bool) -> None:
    text = LOOP + WGMMA
    both = show(stage, text, dot=dot)
    assert "loop" in both
    one = show(stage, text, dot=dot, entry="gemm")
    assert "gemm" in one
    if not dot:
        assert "loop" not in one
    with pytest.raises(SourceError, match=r"no function 'gem' in this file; did you mean gemm\?"):
        show(stage, text, dot=dot, entry="gem")
    with pytest.raises(SourceError, match="no function 'zzz' in this file; available: loop, gemm"):
        show(stage, text, dot=dot, entry="zzz")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dot", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "not PTX at all",
        HEAD + LOOP[:150],
        HEAD + LOOP.replace("add.u32 %r1, %r1, 1;", "add.u32 %r1, ( %r1;") + WGMMA,
        HEAD + ".func only(.param .b32 a);\n",
        HEAD + kernel(""),
        HEAD + kernel("    x: x: bra x;\n"),
    ],
    ids=["empty", "prose", "truncated", "damaged", "declared", "no instruction", "labels"],
)
def test_whatever_the_input(stage: str, dot: bool, text: str) -> None:
    shown: str = getattr(dump, stage)(Source.from_bytes(text.encode(), "k.ptx"), dot=dot, entry=None)
    assert shown.endswith("\n")
    if dot:
        check_dot(shown)


def test_intact_functions_of_a_broken_file_are_shown_and_the_damage_is_named() -> None:
    text = LOOP.replace("add.u32 %r1, %r1, 1;", "add.u32 %r1, ( %r1;") + WGMMA
    for stage in STAGES[1:]:
        shown = show(stage, text)
        assert shown.startswith("// line 14: ")
        assert "damaged by a syntax error" in shown
        assert ".entry gemm .reqntid 128: line " in shown
    assert "after  in a group of age 0: 3" in show("states", text)


@pytest.mark.parametrize("stage", STAGES)
def test_ten_thousand_instructions(stage: str) -> None:
    step = """
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %a, %b, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    @%p1 bra next;
    next:
"""
    body = "".join(step.replace("next", f"l{n}") for n in range(2000))
    text = kernel(".reg .pred %p<2>; .reg .f32 %f<4>; .reg .b64 %a, %b;\n" + body + "ret;\n")
    began = perf_counter()
    shown = show(stage, text)
    assert perf_counter() - began < 20
    assert len(shown) < 20 * len(text)


def test_the_command(run_tclint: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    path = str(ROOT / "fixtures" / "wgmma_unwaited.ptx")
    done = run_tclint("dump", "cfg", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "-> leaves the function" in done.stdout
    done = run_tclint("dump", "ir", path, "--entry", "absent")
    assert done.returncode == 2
    assert "no function 'absent'" in done.stderr
