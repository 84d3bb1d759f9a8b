"""SM002 on small kernels; its page holds the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tests.tools.support import HEADER, by_rule, kernel, lint, module

START = """
    .shared .align 128 .b8 tile[8192];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    and.b32 %r1, %r0, 31;
    shr.u32 %r2, %r0, 5;
    shl.b32 %r2, %r2, 10;
    mov.u32 %r3, tile;
    add.u32 %r3, %r3, %r2;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
    xor.b32 %r6, %r4, 124;
    add.u32 %r6, %r6, %r3;
    setp.eq.u32 %p0, %r1, 0;
"""
WRITE = "st.shared.u32 [%r5], %r0;"
READ = "ld.shared.u32 %r7, [%r6];"
MATRIX = (
    "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r3], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, %r9;"
)
STRIDE = "mov.u32 %r9, {};\n"


def reported(body: str, target: str = "sm_80", strict: bool = False) -> list[Severity]:
    text = module(
        kernel(f"{START}\n{body}\nst.global.u32 [%rd0], %r7;\nret;"),
        header=f".version 7.1\n.target {target}\n.address_size 64\n",
    )
    findings = by_rule(lint(text, selected=Selected(strict=strict)), "SM002")
    return [finding.severity for finding in findings if finding.confidence.label == "medium"]


def exchanged(body: str, target: str = "sm_80") -> bool:
    assert len(reported(body, target)) == len(reported(body, target, strict=True))
    return bool(reported(body, target))


LARGER = """
    setp.gt.u32 %p1, %r1, 15;
    @%p1 bra smaller;
    ld.shared.f32 %f0, [%r5];
    ld.shared.f32 %f1, [%r5+64];
    setp.geu.f32 %p1, %f0, %f1;
    @%p1 bra smaller;
    st.shared.f32 [%r5], %f1;
smaller:
"""
"""A step of a maximum by halves: whether a lane stores is decided by what it compares."""


@pytest.mark.parametrize(
    ("between", "wrong"),
    [("", True), ("bar.warp.sync -1;", False), ("shfl.sync.idx.b32 %r8, %r0, 0, 31, -1;", True)],
)
def test_a_comparison_of_data_may_select_any_lane_that_stores(between: str, wrong: bool) -> None:
    assert exchanged(f"{LARGER}\n{between}\nld.shared.u32 %r7, [%r5+32];") is wrong


@pytest.mark.parametrize(
    "test",
    [
        "setp.eq.s32 %p1, %r10, %r11;",  # may be a protocol
        "setp.lt.s32 %p1, %r10, 16;",
        "cvt.rn.f32.u32 %f0, %r10;\nsetp.lt.f32 %p1, %f0, 0f41800000;",
    ],
)
def test_other_conditions_on_data_select_no_known_lanes(test: str) -> None:
    loads = "ld.shared.u32 %r10, [%r5];\nld.shared.u32 %r11, [%r5+64];"
    body = f"{loads}\n{test}\n@%p1 st.shared.u32 [%r5], %r11;\n{READ}"
    assert not exchanged(body)
    assert exchanged(body.replace(test, "setp.lt.s32 %p1, %r10, %r11;"))


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (f"{WRITE}\n{READ}", True),
        (f"@%p0 {WRITE}\nld.shared.u32 %r7, [%r3];", True),
        (f"@%p0 {WRITE}\n@!%p0 ld.shared.u32 %r7, [%r3];", False),
        ("red.shared.add.u32 [%r3], 1;\nld.shared.u32 %r7, [%r3];", True),
        (f"{WRITE}\nbar.warp.sync -1;\n{READ}", False),
        (f"{WRITE}\nbar.sync 0;\n{READ}", False),
        (f"{WRITE}\nshfl.sync.idx.b32 %r8, %r0, 0, 31, -1;\n{READ}", True),
        (f"{WRITE}\nvote.sync.any.pred %p1, %p0, -1;\n{READ}", True),
        (f"{WRITE}\nmembar.cta;\n{READ}", False),
        (f"{WRITE}\nld.shared.u32 %r7, [%r5];", False),
        (f"@%p0 {WRITE}\n@%p0 ld.shared.u32 %r7, [%r3];", False),
        (f"{WRITE}\nld.shared.u32 %r7, [%r5+4096];", False),
        (f"{WRITE}\nld.volatile.shared.u32 %r7, [%r6];", True),
        ("st.volatile.shared.u32 [%r5], %r0;\nld.volatile.shared.u32 %r7, [%r6];", True),
        (f"{READ}\n{WRITE}", True),
        (f"{READ}\nst.shared.u32 [%r6], %r7;", False),
        (f"{READ}\nbar.warp.sync -1;\n{WRITE}", False),
        (f"{WRITE}\n@%p0 st.shared.u32 [%r3+4], %r4;", True),
        ("st.shared.u32 [%r3], 1;\nst.shared.u32 [%r3], 1;", False),
        ("st.shared.u32 [%r3], %r2;\nst.shared.u32 [%r3], %r2;", False),
        ("red.shared.add.u32 [%r3], 1;\natom.shared.add.u32 %r7, [%r3], 1;", False),
        ("@%p0 st.shared.u32 [%r3], 0;\nred.shared.add.u32 [%r3], 1;", True),
        (
            "ld.global.u32 %r8, [%rd0];\nsetp.eq.u32 %p1, %r8, 0;\n@%p1 red.shared.add.u32 [%r3], 1;\nld.shared.u32 %r7, [%r3];",
            True,
        ),
        (f"{WRITE}\nbar.sync 1, 64;\n{READ}", False),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r5];\nst.shared.u32 [%r6], %r7;", False),
        ("ld.shared.u32 %r7, [%r3];\nadd.u32 %r7, %r7, 1;\nst.shared.u32 [%r3], %r7;", False),
        ("ld.shared.u32 %r7, [%r3];\n@%p0 st.shared.u32 [%r3], 0;", True),
    ],
)
def test_a_lane_reads_what_another_lane_wrote(body: str, wrong: bool) -> None:
    assert exchanged(body) is wrong


def test_lanes_of_old_targets_run_in_step() -> None:
    assert exchanged(f"{WRITE}\n{READ}", "sm_70")
    assert not exchanged(f"{WRITE}\n{READ}", "sm_60")


@pytest.mark.parametrize(
    ("stride", "offset", "wrong"), [(16, 512, True), (32, 32, True), (32, 512, False), (16, 1024, False)]
)
def test_the_bytes_of_a_matrix_depend_on_its_stride(stride: int, offset: int, wrong: bool) -> None:
    """Rows with gaps between them count with the first row only."""
    assert exchanged(f"{STRIDE.format(stride)}{MATRIX}\nld.shared.u32 %r7, [%r3+{offset}];") is wrong


COPY = "cp.async.ca.shared.global [%r5], [%rd0], 4;\ncp.async.commit_group;"
WAIT = "cp.async.wait_group 0;"


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (f"{COPY}\n{WAIT}\n{READ}", True),
        (f"{COPY}\nbar.sync 0;\n{WAIT}\n{READ}", True),
        (f"{COPY}\ncp.async.wait_all;\n{READ}", True),
        (f"{COPY}\n{WAIT}\nbar.warp.sync -1;\n{READ}", False),
        (f"{COPY}\n{WAIT}\nbar.sync 0;\n{READ}", False),
        (f"{COPY}\n{WAIT}\nld.shared.u32 %r7, [%r5];", False),
        (f"{COPY}\n{WAIT}\nld.shared.u32 %r7, [%r5+4096];", False),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_lane_reads_what_another_lane_copied_and_waited_for(body: str, wrong: bool, strict: bool) -> None:
    """The manual demands a barrier of the lanes; hardware waits for the copies of the warp, so it is a note."""
    text = module(
        kernel(f"{START}\n{body}\nst.global.u32 [%rd0], %r7;\nret;", directives=".reqntid 32"),
        header=".version 7.1\n.target sm_80\n.address_size 64\n",
    )
    severity = Severity.WARNING if strict else Severity.INFO
    findings = by_rule(lint(text, selected=Selected(strict=strict)), "SM002")
    expected = (severity, Confidence.MEDIUM if strict else Confidence.LOW)
    assert [(f.severity, f.confidence) for f in findings] == ([expected] if wrong else [])


def apart(first: str, second: str, after: str = "") -> str:
    """Lane 0 executes *first* and the others *second*, on two sides of a branch; *after* follows where they join."""
    return f"@%p0 bra leader;\n{second}\nbra.uni joined;\nleader:\n{first}\njoined:\n{after}"


STORE, LOAD = "st.shared.u32 [%r3], 7;", "ld.shared.u32 %r7, [%r3];"


@pytest.mark.parametrize(
    ("body", "severities"),
    [
        (apart(STORE, LOAD), [Severity.WARNING]),
        (apart(LOAD, STORE), [Severity.WARNING]),
        (apart(STORE, "st.shared.u32 [%r3], 8;"), [Severity.WARNING]),
        (apart(STORE, STORE), []),
        (apart(STORE, "ld.shared.u32 %r7, [%r3+4];"), []),
        (apart(f"{STORE}\nbar.warp.sync -1;", f"bar.warp.sync -1;\n{LOAD}"), []),
        (apart(STORE, f"shfl.sync.idx.b32 %r8, %r0, 0, 31, -2;\n{LOAD}"), [Severity.WARNING]),
        (apart(STORE, "", LOAD), [Severity.INFO]),
        (apart(STORE, "", f"bar.warp.sync -1;\n{LOAD}"), []),
        (apart("st.volatile.shared.u32 [%r3], 7;", "ld.volatile.shared.u32 %r7, [%r3];"), [Severity.INFO]),
        (apart("red.shared.add.u32 [%r3], 1;", "red.shared.add.u32 [%r3], 1;"), []),
        (
            apart(
                "st.volatile.shared.u32 [%r3], 7;",
                "poll:\nld.volatile.shared.u32 %r7, [%r3];\nsetp.ne.u32 %p1, %r7, 7;\n@%p1 bra poll;",
            ),
            [],
        ),
    ],
)
def test_lanes_on_two_sides_of_a_branch_are_a_warning(body: str, severities: list[Severity]) -> None:
    assert reported(body) == severities


def test_a_branch_that_whole_warps_take_sends_no_two_lanes_different_ways() -> None:
    whole = "setp.lt.u32 %p0, %r0, 32;\n"
    assert not exchanged(whole + apart(STORE, LOAD))


def test_conditions_of_a_warp_may_select_one_of_two_sides() -> None:
    """Under one value of a parameter the leader stores, under the other the rest of the warp loads."""
    some = "ld.param.u32 %r8, [number];\nsetp.eq.u32 %p1, %r8, 0;\n"
    body = apart(f"@%p1 {STORE}", f"@!%p1 {LOAD}")
    assert not exchanged(some + body)


GLOBAL = "mad.wide.u32 %rd1, %r1, 4, %rd0;\nst.global.u32 [%rd1], %r0;\n{}ld.global.u32 %r7, [%rd1+4];"


@pytest.mark.parametrize(("between", "wrong"), [("", True), ("bar.warp.sync -1;\n", False)])
def test_global_memory_is_exchanged_like_shared_memory(between: str, wrong: bool) -> None:
    assert exchanged(GLOBAL.format(between)) is wrong


@pytest.mark.parametrize(
    ("bound", "wrong"),
    [
        ("ld.param.u32 %r8, [number];\nsetp.lt.u32 %p1, %r0, %r8;", True),
        ("ld.param.u32 %r8, [number];\nsetp.ge.u32 %p1, %r0, %r8;", False),
        ("mov.u32 %r8, %ntid.x;\nadd.u32 %r9, %r0, 1;\nsetp.lt.u32 %p1, %r9, %r8;", True),
        ("ld.global.u32 %r8, [%rd1+4096];\nsetp.lt.u32 %p1, %r8, 5;", False),
    ],
)
def test_a_bound_that_the_launch_determines_may_let_all_lanes_pass(bound: str, wrong: bool) -> None:
    body = f"mad.wide.u32 %rd1, %r0, 4, %rd0;\n{bound}\n@!%p1 bra skip;\n{WRITE}\n{READ}\nskip:"
    assert exchanged(body) is wrong


@pytest.mark.parametrize(
    ("index", "wrong"),
    [
        ("mad.lo.s32 %r8, %ctaid.x, %ntid.x, %r0;", True),
        ("shl.b32 %r8, %ctaid.x, 7;\nor.b32 %r8, %r8, %r0;", True),
        ("mul.lo.s32 %r8, %ctaid.x, %r0;", False),
    ],
)
def test_what_lanes_add_to_an_address_is_known_although_the_rest_is_not(index: str, wrong: bool) -> None:
    address = f"{index}\nmul.wide.s32 %rd1, %r8, 4;\nadd.u64 %rd1, %rd1, %rd0;"
    body = f"{address}\nst.global.u32 [%rd1], %r0;\nld.global.u32 %r7, [%rd1+4];"
    assert exchanged(body) is wrong


def test_copies_that_a_compiler_makes_of_one_line_are_one_finding() -> None:
    line = ".loc 1 7 3\n{}"
    body = "\n".join(f"{line.format(READ)}\n@%p1 bra next{k};\n{WRITE}\nnext{k}:" for k in range(3))
    some = "ld.param.u32 %r8, [number];\nsetp.eq.u32 %p1, %r8, 0;"
    text = module(
        kernel(f"{START}\n{some}\n{WRITE}\n{body}\nst.global.u32 [%rd0], %r7;\nret;"),
        header=HEADER + '.file 1 "k.cu"\n',
    )
    (finding,) = by_rule(lint(text), "SM002")
    assert finding.count == 6


def test_an_atomic_operation_in_a_loop_is_not_a_poll_unless_it_ends_the_loop() -> None:
    """An atomic operation in a loop whose result decides a branch inside it waits for nothing."""
    body = """
    mov.u32 %r8, 0;
again:
    atom.global.add.u32 %r9, [%rd0], 1;
    setp.eq.u32 %p1, %r9, 3;
    @%p1 bra next;
    st.global.u32 [%rd0+4], %r9;
next:
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p2, %r8, 4;
    @%p2 bra again;
    red.shared.add.u32 [%r3], 1;
    ld.shared.u32 %r7, [%r3];
"""
    assert exchanged(body)
