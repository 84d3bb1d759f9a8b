"""Accesses outside their variable, and misaligned ones, on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tclint.analyses.model import KernelModel
from tclint.checks.bounds import outside
from tclint.findings.scales import Confidence, Severity
from tclint.recording import Recording
from tests.tools.support import OWN_WORD, built, by_rule, kernel, lint, module

START = f"""
    .shared .align 16 .b8 tile[512];
    .local .align 16 .b8 depot[64];
    mov.u32 %r0, %tid.x;
    {OWN_WORD}
    mov.u32 %r8, 0;
"""
TABLE = (
    ".const .align 4 .b8 table[40];\n.global .align 8 .b8 words[32];\n.extern .global .align 4 .b8 there[];\n"
)


def text(body: str, **options: str) -> str:
    return module(TABLE, kernel(f"{START}\n{body}\nst.global.u32 [%rd1], %r8;\nret;", **options))


def messages(body: str, rule: str = "MA001", threads: str = "128", **options: str) -> list[str]:
    found = lint(text(body, directives=f".reqntid {threads}" if threads else "", **options))
    assert not found.problems
    return [f.message for f in by_rule(found, rule)]


def loop(last: int, relation: str = "lt", step: int = 1) -> str:
    return f"""
    mov.u32 %r4, 0;
again:
    shl.b32 %r5, %r4, 4;
    add.u32 %r5, %r5, %r1;
    ld.shared.u32 %r8, [%r5];
    add.u32 %r4, %r4, {step};
    setp.{relation}.u32 %p0, %r4, {last};
    @%p0 bra again;
    """


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [(".align 16 .b8 beyond", 0), (".align 1 .b8 beyond", 1), (".align 16 .b32 beyond", 1)],
)
def test_an_array_of_no_elements_is_where_dynamic_shared_memory_begins(declared: str, wrong: int) -> None:
    assert len(messages(f".shared {declared};\nst.shared.u32 [beyond+32768], %r8;")) == wrong


@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.u32 %r8, [tile+512];",
        "ld.shared.u32 %r8, [tile+-4];",
        "st.shared.u32 [%r3+4], %r8;",
        "ld.const.u32 %r8, [table+40];",
        "ld.global.u32 %r8, [words+32];",
        "ld.local.u32 %r8, [depot+64];",
        "ld.param.u32 %r8, [number+4];",
        "atom.shared.add.u32 %r8, [%r3+128], 1;",
        "cp.async.cg.shared.global [tile+504], [%rd1], 16;",
        "cp.async.cg.shared.global [tile+504], [%rd1], 16, %r9;",
        "cp.async.cg.shared.global [tile], [words+32], 16, 16;",
        "setp.gt.u32 %p0, %r0, 99; @%p0 ld.shared.u32 %r8, [%r3+112];",
        "setp.lt.u32 %p0, %r0, 100; selp.u32 %r4, 0, 16, %p0; add.u32 %r4, %r4, %r3; ld.shared.u32 %r8, [%r4];",
        "min.u32 %r4, %r0, 100; shl.b32 %r4, %r4, 3; add.u32 %r4, %r4, %r1; ld.shared.u32 %r8, [%r4];",
        "cvta.shared.u32 %r4, tile; ld.u32 %r8, [%r4+512];",
        "and.b32 %r4, %r1, 15; setp.eq.u32 %p0, %r4, 0; @%p0 ld.shared.u32 %r8, [tile+512];",
        loop(33),
        loop(32, "le"),
        loop(36, "ne", 4),
        "mov.u32 %r3, tile;" + loop(32).replace("[%r5]", "[%r5+16]"),
    ],
)  # fmt: skip
def test_a_thread_leaves_the_variable(body: str) -> None:
    assert messages(body)


@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.u32 %r8, [tile+508];",
        "ld.shared.u32 %r8, [%r3];",
        "add.u32 %r4, %r1, 512; sub.u32 %r4, %r4, 4; ld.shared.u32 %r8, [%r4];",
        "ld.global.u32 %r8, [there+4096];",
        "ld.global.u32 %r8, [%rd1+-4];",
        "ld.param.u32 %r8, [pointer+4];",
        "cp.async.cg.shared.global [tile], [words+32], 16, %r9;",
        "setp.eq.u32 %p0, %r9, 7; cp.async.cg.shared.global [tile], [words+32], 16, %p0;",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [tile], [words+16], 32, 0, 16, [tile];",
        "setp.lt.u32 %p0, %r0, 127; @%p0 ld.shared.u32 %r8, [%r3+4];",
        "setp.lt.u32 %p0, %r0, 100; selp.u32 %r4, 16, 0, %p0; add.u32 %r4, %r4, %r3; ld.shared.u32 %r8, [%r4];",
        "min.u32 %r4, %r0, 63; shl.b32 %r4, %r4, 3; add.u32 %r4, %r4, %r1; ld.shared.u32 %r8, [%r4];",
        "ld.global.u32 %r4, [%rd1]; setp.eq.u32 %p0, %r4, 7; @%p0 ld.shared.u32 %r8, [%r3+4];",
        "setp.gt.u32 %p0, %r9, 3; @%p0 ld.shared.u32 %r8, [%r3+4];",
        "setp.lt.u32 %p0, %r0, %r9; @%p0 ld.shared.u32 %r8, [%r3+4];",
        "shl.b32 %r4, %r9, 2; add.u32 %r4, %r4, %r1; ld.shared.u32 %r8, [%r4];",
        "ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, %r1; ld.shared.u32 %r8, [%r4];",
        "setp.gt.u32 %p0, %r0, 200; @%p0 ld.shared.u32 %r8, [%r3+4];",
        "setp.gt.u32 %p0, %r0, 99; @%p0 trap; ld.shared.u32 %r8, [%r3+112];",
        "setp.gt.u32 %p0, %r0, 99; @%p0 ret; ld.shared.u32 %r8, [%r3+112];",
        "and.b32 %r4, %r1, 127; setp.eq.u32 %p0, %r4, 0; @%p0 ld.shared.u32 %r8, [tile+512];",
        "{ .local .b8 x[4]; st.local.b8 [x], %r8; } { .local .b8 x[8]; st.local.b8 [x+4], %r8; }",
        "{ .shared .align 8 .b8 words[4]; st.shared.b32 [words], %r8; } ld.global.u32 %r8, [words+28];",
        "and.b32 %r4, %r1, 127; setp.ne.u32 %p0, %r4, 0; @%p0 ld.shared.u32 %r8, [tile+512];",
        loop(32),
        loop(31, "le"),
        loop(32, "ne", 4),
        loop(33).replace("add.u32 %r4", "setp.eq.u32 %p1, %r8, 3; @%p1 bra out; add.u32 %r4") + "out:",
        loop(33).replace("33", "%r9"),
    ],
)  # fmt: skip
def test_nothing_is_reported_that_may_be_inside(body: str) -> None:
    assert not messages(body)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("ld.shared.u32 %r8, [tile+512];", True),
        ("ld.shared.u32 %r8, [%r3+4];", False),
        ("mov.u32 %r6, %ntid.x; setp.gt.u32 %p0, %r6, 128; @%p0 ld.shared.u32 %r8, [%r3+4];", False),
        ("and.b32 %r4, %r2, 508; add.u32 %r4, %r4, %r1; ld.shared.u32 %r8, [%r4];", False),
    ],
)
def test_a_cta_may_have_any_size(body: str, wrong: bool) -> None:
    assert bool(messages(body, threads="")) is wrong


def test_threads_that_stride_by_the_size_of_the_cta_leave_the_variable_whatever_it_is() -> None:
    body = """
    mov.u32 %r6, %ntid.x;
    mov.u32 %r4, %r0;
    setp.gt.u32 %p0, %r4, BOUND;
    @%p0 bra out;
again:
    shl.b32 %r5, %r4, 2;
    add.u32 %r5, %r5, %r1;
    st.shared.u32 [%r5], %r4;
    add.u32 %r4, %r4, %r6;
    setp.le.u32 %p0, %r4, BOUND;
    @%p0 bra again;
out:
    """
    assert messages(body.replace("BOUND", "128"), threads="")
    assert not messages(body.replace("BOUND", "127"), threads="")


def test_the_size_that_maxntid_states_is_a_condition() -> None:
    (found,) = by_rule(lint(text("ld.shared.u32 %r8, [%r3+4];", directives=".maxntid 128")), "MA001")
    assert found.severity is Severity.WARNING
    assert found.message.endswith("if the CTA has 128 threads")


def test_a_count_that_the_launch_states_is_a_condition() -> None:
    body = "setp.eq.u32 %p0, %r9, 0; @%p0 bra out; ld.shared.u32 %r8, [tile+512]; out:"
    (found,) = by_rule(lint(text(body)), "MA001")
    assert found.severity is Severity.WARNING
    assert found.message.endswith("if number is positive")


def test_a_position_in_the_grid_is_below_its_bound() -> None:
    body = """
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mad.lo.u32 %r4, %r4, %r5, %r0;
    setp.ge.u32 %p0, %r4, %r9;
    @%p0 ret;
    ld.shared.u32 %r8, [%r3+4];
    """
    assert messages(body) == [
        "ld.shared reads bytes 512 to 515 of tile in thread 127, but tile has 512 bytes",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [tile+8];",
        "ld.shared.v2.u32 {%r4, %r5}, [tile+4];",
        "ld.shared.u32 %r4, [tile+2];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [tile+8];",
        "mad.lo.u32 %r4, %r0, 20, %r1; ld.shared.v2.u32 {%r4, %r5}, [%r4];",
        "mul.wide.u32 %rd2, %r0, 20; add.u64 %rd2, %rd2, %rd1; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2];",
        ("ld.global.u32 %r4, [%rd1]; ld.global.v2.u32 {%r4, %r5}, [%rd1+24]; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];"
        "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+40];"),
        ("mul.wide.u32 %rd2, %r9, 16; add.u64 %rd2, %rd2, %rd1; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2];"
        "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+8];"),
        "ld.global.u32 %r6, [%rd1]; shl.b32 %r6, %r6, 4; add.u32 %r6, %r6, %r1; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r6+4];",
    ],
)  # fmt: skip
def test_an_address_is_misaligned(body: str) -> None:
    assert len(messages(body, "MA002")) == 1


@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [tile+16];",
        "ld.shared.v2.u32 {%r4, %r5}, [tile+8];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [tile+16];",
        "mad.lo.u32 %r4, %r0, 24, %r1; setp.lt.u32 %p0, %r0, 20; @%p0 ld.shared.v2.u32 {%r4, %r5}, [%r4];",
        ("mul.wide.u32 %rd2, %r9, 4; add.u64 %rd2, %rd2, %rd1; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2];"
        "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+8];"),
        "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+8];",
        ("setp.eq.u32 %p0, %r9, 1; @%p0 ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];"
        "@!%p0 ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+8];"),
        "ld.global.u32 %r6, [%rd1]; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r1; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r6];",
    ],
)  # fmt: skip
def test_nothing_is_reported_that_may_be_aligned(body: str) -> None:
    assert not messages(body, "MA002")


@pytest.mark.parametrize(
    ("access", "found"), [("%r2+-128", ""), ("tile+400", "MA001"), ("tile+398", "MA001 MA002")]
)
def test_some_threads_may_call_a_function(access: str, found: str) -> None:
    called = f"""
.shared .align 16 .b8 tile[400];
.visible .func f()
{{
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mad.lo.u32 %r2, %r1, 4, %r2;
    st.shared.u32 [{access}], %r1;
    ret;
}}
"""
    report = lint(module(called))
    assert {f.rule.id for f in report.findings} == set(found.split())
    assert all(f.severity is Severity.WARNING for f in by_rule(report, "MA001"))


def test_two_iterations_contradict_each_other() -> None:
    body = """
    mov.u64 %rd2, %rd1;
    mov.u32 %r6, 0;
again:
    ld.global.v4.u32 {%r4, %r5, %r7, %r8}, [%rd2];
    add.u64 %rd2, %rd2, STRIDE;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p0, %r6, 9;
    @%p0 bra again;
    """
    (message,) = messages(body.replace("STRIDE", "24"), "MA002")
    assert message.endswith("those of two iterations are 24 bytes apart")
    assert not messages(body.replace("STRIDE", "32"), "MA002")


@pytest.mark.parametrize(("promise", "wrong"), [(".ptr .global .align 16", 1), (".ptr .align 1", 0), ("", 0)])
def test_a_pointer_has_the_alignment_that_its_parameter_promises(promise: str, wrong: int) -> None:
    whole = text("ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+8];").replace(
        ".param .u64 pointer", f".param .u64 {promise} pointer"
    )
    assert promise in whole
    assert len(by_rule(lint(whole), "MA002")) == wrong


def test_a_loop_of_which_nothing_is_known_may_have_a_second_iteration() -> None:
    body = """
    mov.u64 %rd2, %rd1;
again:
    ld.global.v4.u32 {%r4, %r5, %r7, %r8}, [%rd2];
    add.u64 %rd2, %rd2, STRIDE;
    setp.lt.u32 %p0, %r4, 9;
    @%p0 bra again;
    """
    (message,) = messages(body.replace("STRIDE", "24"), "MA002")
    assert message.endswith("those of two iterations are 24 bytes apart, if the loop runs twice")
    assert not messages(body.replace("STRIDE", "32"), "MA002")


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r8, [%r3+4];", 128),
        ("setp.lt.u32 %p0, %r0, 100; @%p0 ld.shared.u32 %r8, [%r3+116];", 100),
        (
            "and.b32 %r4, %r0, 31; shl.b32 %r4, %r4, 4; add.u32 %r4, %r4, %r1; ld.shared.u32 %r8, [%r4+16];",
            32,
        ),
        ("st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r8, [%r3+256];", 0),
        ("setp.lt.u32 %p0, %r0, 100; @%p0 ld.shared.u32 %r8, [%r3+112];", 0),
        ("and.b32 %r4, %r0, 31; shl.b32 %r4, %r4, 4; add.u32 %r4, %r4, %r1; ld.shared.u32 %r8, [%r4+12];", 0),
    ],
)
def test_a_kernel_is_evidently_made_for_so_many_threads(body: str, size: int) -> None:
    found = messages(body, threads="")
    assert [f"if the CTA has at least {size} threads" in message for message in found] == [True] * (size > 0)


@pytest.mark.parametrize(("offsets", "wrong"), [((512,), True), ((508, 512), False), ((0, 4, 512), True)])
def test_all_executions_of_an_access_are_outside_unless_a_compiler_unrolled_a_loop(
    offsets: tuple[int, ...], wrong: bool
) -> None:
    loads = "\n".join(f"@%p0 ld.shared.u32 %r8, [tile+{offset}];" for offset in offsets)
    own = "mul.wide.u32 %rd2, %r0, 4; add.u64 %rd2, %rd2, %rd1; ld.global.u32 %r4, [%rd2];"
    found = messages(f"{own} setp.eq.u32 %p0, %r4, 7; {loads}")
    assert [message.endswith("if a thread executes it") for message in found] == [True] * wrong
    assert not messages(f"ld.global.u32 %r4, [%rd1]; setp.eq.u32 %p0, %r4, 7; {loads}")
    assert not messages(f"setp.gt.u32 %p0, %r9, 512; {loads}")


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("add.s32 %r4, %r9, -1; mul.lo.s32 %r4, %r4, %r9; setp.lt.s32 %p0, %r4, 0;", True),
        ("add.s32 %r4, %r9, 15; shr.s32 %r4, %r4, 4; setp.lt.s32 %p0, %r4, 1;", True),
        ("add.s32 %r4, %r9, -1; setp.lt.s32 %p0, %r4, 1;", False),
        ("and.b32 %r4, %r9, 3; setp.eq.s32 %p0, %r4, 0;", False),
        ("setp.lt.s32 %p0, %r9, 4;", False),
    ],
)
def test_only_what_holds_for_every_positive_count_is_taken_for_granted(condition: str, wrong: bool) -> None:
    found = messages(f"{condition} @%p0 bra out; ld.shared.u32 %r8, [%r3+4]; out:")
    assert [message.endswith("if number is positive") for message in found] == [True] * wrong


@pytest.mark.parametrize(("threads", "number", "shared", "wrong"), [
    (128, 128, 512, 1), (127, 127, 512, 0), (128, 127, 512, 0), (128, 128, 516, 0),
])  # fmt: skip
def test_a_recorded_launch_states_its_sizes(threads: int, number: int, shared: int, wrong: int) -> None:
    body = """
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r9, [number];
    mov.u32 %r1, dynamic;
    mad.lo.u32 %r3, %r0, 4, %r1;
    setp.ge.u32 %p0, %r0, %r9;
    @%p0 ret;
    st.shared.u32 [%r3+4], %r0;
    ret;
    """
    made = built(module(".extern .shared .align 16 .b8 dynamic[];", kernel(body, directives="")))
    launch = Recording(
        path=Path(),
        kernel="k",
        grid=(1, 1, 1),
        block=(threads, 1, 1),
        cluster=None,
        shared=shared,
        parameters=bytes(8) + number.to_bytes(4, "little"),
        layout=((0, 8), (8, 4)),
        maps=(),
        allocations=(),
        ptx=None,
        end="done",
    )
    assert not list(outside(KernelModel(made.functions[0], made)))
    found = list(outside(KernelModel(made.functions[0], made, recorded=launch)))
    assert [hit.severity for hit in found] == [None] * wrong


@pytest.mark.parametrize(
    ("words", "outside"), [(128, False), (127, True), (97, True), (96, False), (68, False), (33, False)]
)
def test_another_array_has_room_for_some_warps_fewer(words: int, outside: bool) -> None:
    """A kernel that does not state its size is not made for 128 threads if the last of four warps has no room at all."""
    body = f".shared .align 16 .b8 less[{4 * words}];\nst.shared.u32 [%r3], %r8;\nmov.u32 %r4, less;\n"
    body += "add.u32 %r4, %r4, %r2;\nst.shared.u32 [%r4], %r8;"
    found = messages(body, threads="")
    assert bool(found) == outside
    assert all("if the CTA has at least 128 threads" in message for message in found)


@pytest.mark.parametrize(
    ("formats", "confidence"),
    [((2,), Confidence.HIGH), ((0, 2), Confidence.HIGH), ((0, 1, 2), Confidence.LOW)],
)
def test_what_one_of_three_formats_needs_may_be_of_no_launch(
    formats: tuple[int, ...], confidence: Confidence
) -> None:
    tests = "".join(f"setp.eq.s32 %p{n}, %r9, {n};\n@%p{n} bra format{n};\n" for n in formats)
    body = f"{tests}ret;\n" + "".join(
        f"format{n}:\nld.shared.u32 %r4, [tile+{n}];\nst.global.u32 [%rd1], %r4;\nret;\n"
        for n in formats
        if n != 1
    )
    body += "format1:\nret;\n" if 1 in formats else ""
    (finding,) = by_rule(lint(text(body, directives=".reqntid 128")), "MA002")
    assert finding.confidence is confidence
