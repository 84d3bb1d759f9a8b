"""What is read before anything writes it; the pages of the rules hold the plain cases."""

from __future__ import annotations

from types import ModuleType

import pytest

from tclint.analyses import undefined
from tclint.checks import _undefined
from tclint.findings.finding import FileReport
from tclint.findings.scales import Severity
from tclint.findings.selection import Selected
from tests.tools import support
from tests.tools.support import HOPPER, by_rule, kernel, module

ON = Selected(frozenset(("UV001", "UV002", "WG013")))


def lint(text: str) -> FileReport:
    """What the rules say."""
    return support.lint(text, selected=ON)


def agrees(text: str) -> None:
    """The findings are exactly where ``// want RULE`` says so."""
    report = lint(text)
    assert report.status == "analysed", report.problems
    wanted = [(line.split()[-1], n) for n, line in enumerate(text.splitlines(), 1) if "// want" in line]
    shown = support.found(report)
    assert sorted(shown) == sorted(wanted), [f"{f.rule.id}: {f.message}" for f in report.findings]


START = """
    ld.param.u64 %rd1, [pointer];
    ld.param.u32 %r9, [number];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 16;
    add.u64 %rd2, %rd1, %rd2;
    setp.eq.u32 %p1, %r9, 0;
"""
STORE = "st.global.u32 [%rd2], %r3;"
LOOP = "mov.u32 %r5, 0;\nL: {}\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, %r9;\n@%p2 bra L;"

WRONG = {
    "an address": "add.u64 %rd3, %rd1, %rd9;\nld.global.u32 %r3, [%rd3]; // want UV001\nst.global.u32 [%rd2], %r3;",
    "a part of an address": "and.b32 %r2, %r3, 255;\nmul.wide.u32 %rd3, %r2, 4;\nadd.u64 %rd3, %rd1, %rd3;\nst.global.u32 [%rd3], %r9; // want UV001",
    "a branch": "setp.lt.u32 %p2, %r3, %r9;\n@%p2 bra L; // want UV001\nst.global.u32 [%rd2], %r9;\nL:",
    "a guard": "setp.lt.u32 %p2, %r3, %r9;\n@%p2 st.global.u32 [%rd2], %r9; // want UV001",
    "a stored number": "st.global.u32 [%rd2], %r3; // want UV001",
    "a stored sum": "add.u32 %r3, %r2, %r9;\nst.global.u32 [%rd2], %r3; // want UV001",
    "one of several": "st.global.v2.u32 [%rd2], {%r9, %r3}; // want UV001",
    "a number added to memory": "red.global.add.u32 [%rd2], %r3; // want UV001",
    "stored in shared memory by all": ".shared .align 4 .b32 word;\nst.shared.u32 [word], %r3; // want UV001",
    "what lanes add up": "shfl.sync.bfly.b32 %r2, %r3, 1, 31, -1;\nst.global.u32 [%rd2], %r2; // want UV001",
    "a mask of lanes": "shfl.sync.bfly.b32 %r2, %r9, 1, 31, %r3; // want UV001\nst.global.u32 [%rd2], %r2;",
    "a factor of a matrix": "mov.f32 %f9, 0f00000000;\nmma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r2, %r3}, {%r9}, {%f9, %f9, %f9, %f9};\nst.global.f32 [%rd2], %f0; // want UV001",
    "a sum from nothing": LOOP.format("add.u32 %r3, %r3, %r9;") + "\nst.global.u32 [%rd2], %r3; // want UV001",
    "a counter": "L: add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p2, %r3, %r9;\n@%p2 bra L; // want UV001",
    "the first iteration": LOOP.format("add.u32 %r4, %r3, 1;\nst.global.u32 [%rd2], %r4; // want UV001\nmov.u32 %r3, %r9;"),
    "the first of two reads": "@%p1 bra A;\nadd.u32 %r3, %r3, 1;\nbra B;\nA: add.u32 %r3, %r3, 2;\nB:\nst.global.u32 [%rd2], %r3; // want UV001",
    "lanes that a condition leaves out": "setp.lt.u32 %p2, %r1, 8;\n@%p2 mov.u32 %r3, 1;\nst.global.u32 [%rd2], %r3; // want UV001",
    "lanes that a branch leaves out": "setp.ge.u32 %p2, %r1, 8;\n@%p2 bra L;\nmov.u32 %r3, 1;\nL: add.u32 %r3, %r3, 1;\nst.global.u32 [%rd2], %r3; // want UV001",
    "a side of a branch that no definition reaches": "@%p1 bra L;\nmov.u32 %r3, 1;\nst.global.u32 [%rd2], %r3;\nret;\nL: st.global.u32 [%rd2], %r3; // want UV001",
    "read before it is written": "add.u32 %r2, %r3, 1;\nmov.u32 %r3, 1;\nst.global.u32 [%rd2], %r2; // want UV001",
}  # fmt: skip
RIGHT = {
    "a masked half": "mov.b32 %r3, {%h1, %h2};\nand.b32 %r3, %r3, 0;\n" + STORE,
    "a half that is shifted out": "cvt.u16.u32 %h1, %r9;\nmov.b32 %r2, {%h1, %h2};\nshl.b32 %r3, %r2, 16;\n" + STORE,
    "a half that is converted away": "cvt.u16.u32 %h1, %r9;\nmov.b32 %r2, {%h1, %h2};\ncvt.u32.u16 %r3, %r2;\n" + STORE,
    "a half of padding": "cvt.u16.u32 %h1, %r9;\nmov.b32 %r3, {%h1, %h2};\n" + STORE,
    "a lane that is never stored": "mov.b32 {%h3, %h4}, %r3;\nst.global.u32 [%rd2], %r9;",
    "a select that may leave it": "selp.b32 %r3, %r2, %r9, %p1;\n" + STORE,
    "a mask that is not known": "and.b32 %r3, %r2, %r9;\n" + STORE,
    "a maximum so far": "setp.eq.u32 %p2, %r9, 7;\n@%p2 bra M;\n" + LOOP.format("setp.gt.u32 %p3, %r5, 4;\nselp.b32 %r3, %r5, %r3, %p3;") + "\nM:\n" + STORE,
    "overwritten": "mov.u32 %r3, %r2;\nmov.u32 %r3, 0;\n" + STORE,
    "a register cleared by itself": "xor.b32 %r3, %r3, %r3;\n" + STORE,
    "the same guard": "@%p1 mov.u32 %r3, 1;\n@%p1 st.global.u32 [%rd2], %r3;",
    "the same condition again": "@%p1 mov.u32 %r3, 1;\nsetp.ne.u32 %p2, %r9, 0;\n@%p2 bra L;\n" + STORE + "\nL:",
    "a condition that may imply the other": "setp.gt.u32 %p2, %r9, 7;\n@%p2 mov.u32 %r3, 1;\nsetp.gt.u32 %p3, %r9, 8;\n@%p3 st.global.u32 [%rd2], %r3;",
    "data that may never be so": "ld.global.u32 %r4, [%rd1];\nsetp.ne.u32 %p2, %r4, 0;\n@%p2 mov.u32 %r3, 1;\n" + STORE,
    "defined in the first iteration": LOOP.format("setp.ne.u32 %p3, %r5, 0;\n@%p3 bra M;\nmov.u32 %r3, 1;\nM:\n" + STORE),
    "used from the second iteration on": LOOP.format("setp.eq.u32 %p3, %r5, 0;\n@%p3 bra M;\n" + STORE + "\nM: mov.u32 %r3, %r5;"),
    "exchanged by some lanes": "setp.lt.u32 %p2, %r1, 8;\n@%p2 mov.u32 %r3, 1;\nshfl.sync.idx.b32 %r2, %r3, 0, 31, -1;\nst.global.u32 [%rd2], %r2;",
    "shared by some lanes": ".shared .align 4 .b8 words[512];\nsetp.lt.u32 %p2, %r1, 8;\n@%p2 mov.u32 %r3, 1;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r4, words;\nadd.u32 %r2, %r2, %r4;\nst.shared.u32 [%r2], %r3;",
    "rows of a matrix that are dropped": "mov.f32 %f9, 0f00000000;\nmma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r9, %r3}, {%r9}, {%f9, %f9, %f9, %f9};\nst.global.f32 [%rd2], %f0;",
    "stored in local memory": ".local .align 4 .b32 own;\nst.local.u32 [own], %r3;",
    "a cache policy": "createpolicy.fractional.L2::evict_last.b64 %rd5, 1.0;\n@%p1 mov.u64 %rd4, %rd5;\nst.global.L2::cache_hint.u32 [%rd2], %r9, %rd4;",
    "a later side of a branch": "L: @%p1 bra M;\nmov.u32 %r3, 1;\nbra L;\nM:\n" + STORE,
    "threads that leave first": "setp.ge.u32 %p2, %r1, 8;\n@%p2 exit;\nmov.u32 %r3, 1;\n" + STORE,
}  # fmt: skip


SHARED = """
    .shared .align 16 .b8 tile[1024];
    .shared .align 8 .b64 bar;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
"""
OUT = "\nst.global.u32 [%rd2], %r5;"
UNWRITTEN = {
    "by a load": "ld.shared.u32 %r5, [%r4]; // want UV002" + OUT,
    "by a load in a loop": LOOP.replace("%r5", "%r7").format("add.u32 %r4, %r4, 4;\nld.shared.u32 %r6, [%r4]; // want UV002\nadd.u32 %r8, %r8, %r6;").replace("L:", "mov.u32 %r8, 0;\nL:") + "\nst.global.u32 [%rd2], %r8;",
    "by the rows of a matrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4]; // want UV002" + OUT,
    "by a copy": "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], 16; // want UV002\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
    "by an atomic operation": "atom.shared.add.u32 %r5, [%r3], 1; // want UV002" + OUT,
    "before the store": "ld.shared.u32 %r5, [%r4]; // want UV002\nbar.sync 0;\nst.shared.u32 [%r4], %r9;" + OUT,
    "beside what is stored": "st.shared.u32 [%r4], %r9;\nbar.sync 0;\nld.shared.u32 %r5, [%r4+512]; // want UV002" + OUT,
    "beside what a loop stores": LOOP.format("add.u32 %r6, %r3, 16;\nst.shared.u32 [%r6], %r9;") + "\nbar.sync 0;\nld.shared.u32 %r5, [tile]; // want UV002" + OUT,
    "of a variable without a size": "ld.shared.u32 %r5, [dynamic]; // want UV002" + OUT,
    "at a generic address": "cvta.shared.u64 %rd4, %rd3;\nld.u32 %r5, [%rd4]; // want UV002" + OUT,
}  # fmt: skip
WRITTEN = {
    "by a store": "st.shared.u32 [%r4], %r9;\nbar.sync 0;\nld.shared.u32 %r5, [%r4];" + OUT,
    "by other threads": "@%p1 st.shared.u32 [%r4+512], %r9;\nbar.sync 0;\nld.shared.u32 %r5, [%r4+512];" + OUT,
    "by another role": "setp.lt.u32 %p2, %r1, 32;\n@%p2 bra C;\nst.shared.u32 [%r4], %r9;\nbar.sync 0;\nret;\nC: bar.sync 0;\nld.shared.u32 %r5, [%r4+128];" + OUT,
    "in the iteration before": LOOP.replace("%r5", "%r7").format("setp.eq.u32 %p3, %r7, 0;\n@%p3 bra M;\nld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd2], %r5;\nM: st.shared.u32 [%r4], %r7;"),
    "by an asynchronous copy": "cp.async.ca.shared.global [%r4], [%rd2], 4;\ncp.async.wait_all;\nld.shared.u32 %r5, [%r4];" + OUT,
    "by a bulk copy of unknown size": "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd2], %r9, [bar];\nld.shared.u32 %r5, [%r3+512];" + OUT,
    "at an unknown address": "ld.global.u32 %r6, [%rd1];\nst.shared.u32 [%r6], %r9;\nld.shared.u32 %r5, [%r4];" + OUT,
    "at an unknown index": "ld.global.u32 %r6, [%rd1];\nadd.u32 %r6, %r6, %r3;\nst.shared.u32 [%r6], %r9;\nld.shared.u32 %r5, [%r4+512];" + OUT,
    "at a generic address": "cvta.shared.u64 %rd4, %rd3;\nst.u32 [%rd4], %r9;\nld.shared.u32 %r5, [tile];" + OUT,
    "at an unknown generic address": "cvta.shared.u64 %rd4, %rd3;\nst.global.u64 [%rd2], %rd4;\nld.global.u64 %rd5, [%rd1];\nst.u32 [%rd5], %r9;\nld.shared.u32 %r5, [tile];" + OUT,
    "by another CTA": "mapa.shared::cluster.u32 %r6, %r3, 1;\nst.shared::cluster.u32 [%r6], %r9;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nld.shared.u32 %r5, [tile];" + OUT,
    "as an mbarrier": "mbarrier.init.shared.b64 [bar], 1;\nld.shared.u32 %r5, [bar];" + OUT,
    "to one of two variables of a name": "{ .shared .align 4 .b8 x[4];\nst.shared.u32 [x], %r9; }\n{ .shared .align 4 .b8 x[64];\nmov.u32 %r6, x;\n" + LOOP.replace("%r5", "%r7").format("st.shared.u32 [%r6], %r9;\nadd.u32 %r6, %r6, 4;") + "\nbar.sync 0;\nld.shared.u32 %r5, [x+4]; }" + OUT,
    "but never used": "ld.shared.u32 %r5, [%r4];",
    "of another variable without a size": "mov.u32 %r6, other;\nst.shared.u32 [%r6], %r9;\nld.shared.u32 %r5, [dynamic];" + OUT,
    "by an atomic operation that all execute": "@%p1 st.shared.u32 [%r3], 0;\nbar.sync 0;\natom.shared.add.u32 %r5, [%r3], 1;" + OUT,
}  # fmt: skip
DYNAMIC = ".extern .shared .align 16 .b8 dynamic[];\n.extern .shared .align 16 .b8 other[];"


def _shared(body: str) -> str:
    return module(DYNAMIC, kernel(f"{START}{SHARED}\nmov.u64 %rd3, tile;\n{body}\nret;"))


@pytest.mark.parametrize("case", UNWRITTEN)
def test_reads_of_shared_memory_that_nothing_has_written(case: str) -> None:
    agrees(_shared(UNWRITTEN[case]))


@pytest.mark.parametrize("case", WRITTEN)
def test_reads_of_shared_memory_that_may_be_written(case: str) -> None:
    agrees(_shared(WRITTEN[case]))


def test_the_store_that_comes_too_late_is_shown() -> None:
    (finding,) = by_rule(lint(_shared(UNWRITTEN["before the store"])), "UV002")
    assert finding.message == "ld.shared reads bytes of tile in shared memory that nothing writes before"
    assert [step.message for step in finding.steps] == ["read here", "written here, after the read"]


def test_a_call_may_write_shared_memory() -> None:
    callee = ".extern .func f;"
    body = f"{START}{SHARED}\ncall f;\n{UNWRITTEN['by a load']}\nret;".replace("// want UV002", "")
    agrees(module(callee, DYNAMIC, kernel(body)))


def _text(body: str) -> str:
    return module(kernel(f"{START}\n{body}\nret;"))


@pytest.mark.parametrize("case", WRONG)
def test_undefined_bits_that_decide_something(case: str) -> None:
    agrees(_text(WRONG[case]))


@pytest.mark.parametrize("case", RIGHT)
def test_undefined_bits_that_decide_nothing(case: str) -> None:
    agrees(_text(RIGHT[case]))


@pytest.mark.parametrize(
    ("case", "limit", "why"),
    [
        ("a stored sum", (undefined, "MAX_FOLLOWED"), "more than 0 definitions followed"),
        ("lanes that a branch leaves out", (_undefined, "MAX_SEARCHES"), "more than 0 searches for paths"),
    ],
)
def test_a_search_that_gives_up_says_so(
    case: str, limit: tuple[ModuleType, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _text(WRONG[case])
    assert not lint(text).open_questions
    monkeypatch.setattr(*limit, 0)
    assert why in {each.why for each in lint(text).open_questions}


def test_the_finding_says_what_lacks_a_value_and_where_it_is_read() -> None:
    (finding,) = by_rule(lint(_text(WRONG["a sum from nothing"])), "UV001")
    assert finding.message == "st.global: what it stores depends on %r3, which nothing has written before"
    assert finding.severity is Severity.WARNING
    assert [step.message for step in finding.steps] == ["%r3 is read here", "what it stores depends on it"]


def test_the_branch_that_skips_the_definition_is_named() -> None:
    (finding,) = by_rule(lint(_text(WRONG["lanes that a branch leaves out"])), "UV001")
    assert finding.message.endswith("%r3, which nothing writes in threads 8-127")
    assert finding.steps[0].message == "this branch skips what would write it"


def test_the_size_of_the_cta_is_a_condition() -> None:
    body = f"{START}\n{WRONG['lanes that a condition leaves out']}\nret;"
    (finding,) = by_rule(lint(module(kernel(body, directives=""))), "UV001")
    assert "(if the CTA has more than 8 threads)" in finding.message


def test_registers_of_one_instruction_are_one_finding() -> None:
    body = "ld.global.v2.u32 {%r4, %r5}, [%rd2];\nadd.u32 %r2, %r3, %r4;\nadd.u32 %r6, %r7, %r3;\nst.global.v2.u32 [%rd2], {%r2, %r6};"
    (finding,) = by_rule(lint(_text(body)), "UV001")
    assert finding.count == 1


def test_an_accumulator_of_wgmma_is_reported_once() -> None:
    body = """
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    st.global.f32 [%rd2], %f0;
    """
    text = module(kernel(f"{START}\n{body}\nret;"), header=HOPPER)
    assert [f.rule.id for f in lint(text).findings if f.rule.id in ("UV001", "WG013")] == ["WG013"]


def test_what_a_call_returns_in_a_register_is_written() -> None:
    agrees(module(kernel(f"{START}\ncall (%r3), _optix_get_launch_index_x, ();\n{STORE}\nret;")))


def test_a_function_that_is_no_entry_is_left_alone() -> None:
    code = ".visible .func f()\n{\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nld.b32 %r1, [%rd1];\nst.b32 [%rd1], %r1;\nret;\n}"
    agrees(module(code))


def test_a_function_with_parameters_in_registers_is_left_alone() -> None:
    callee = ".func (.reg .b32 %o) f(.reg .b32 %i)\n{\nadd.u32 %o, %i, 1;\nret;\n}"
    body = f"{START}\nmov.u32 %r2, 1;\ncall (%r3), f, (%r2);\n{STORE}\nret;"
    agrees(module(callee, kernel(body)))


def test_rows_and_columns_of_one_index_are_written() -> None:
    """``tile[i / 2][i % 2]``, as nvcc computes it for a signed i: the loop writes all rows, and the first of them is read, too."""
    loop = """.shared .align 16 .b8 tile[4096];
mov.u32 %r8, %r1;
L: shr.u32 %r2, %r8, 31;
add.s32 %r2, %r8, %r2;
shr.s32 %r3, %r2, 1;
and.b32 %r2, %r2, -2;
sub.s32 %r2, %r8, %r2;
shl.b32 %r2, %r2, 4;
shl.b32 %r3, %r3, 5;
add.s32 %r3, %r3, %r2;
mov.u32 %r2, tile;
add.s32 %r3, %r3, %r2;
st.shared.u32 [%r3], %r9;
mov.u32 %r2, %ntid.x;
add.s32 %r8, %r8, %r2;
setp.lt.s32 %p2, %r8, 256;
@%p2 bra L;
bar.sync 0;
ld.shared.u32 %r3, [tile+1024];
st.global.u32 [%rd2], %r3;"""
    agrees(module(kernel(START + loop + "\nret;")))
