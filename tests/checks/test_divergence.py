"""Pairs of kernels: lanes of a warp part before a collective instruction, or do not although it looks like it."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Severity
from tests.tools.support import agrees, by_rule, kernel, lint, module

START = """
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mad.lo.s32 %r3, %r1, %r2, %r0;
    and.b32 %r4, %r0, 31;
    shr.u32 %r5, %r3, 5;
    mul.wide.s32 %rd1, %r3, 4;
    add.s64 %rd1, %rd0, %rd1;
    mul.wide.s32 %rd2, %r5, 4;
    add.s64 %rd2, %rd0, %rd2;
    mov.b32 %r10, 0; mov.b32 %r11, 0;
"""
MINE, OURS = "ld.global.u32 %r6, [%rd1];", "ld.global.u32 %r6, [%rd2];"
MMA = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r10, %r11}, {%r0}, {%r0}, {%r10, %r11};"
SHUFFLE = "shfl.sync.down.b32 %r12, %r0, 1, 31, {}; st.global.u32 [%rd1], %r12;"
LOOP = "mov.b32 %r7, 0;\nnext: setp.ge.s32 %p1, %r7, {};\n@%p1 bra done;\n{}\nadd.s32 %r7, %r7, 1;\nbra next;\ndone:"
HELD = "bar.sync 0;"
LAST = "st.global.u32 [%rd0], %r10;"  # so that no branch exits at once

# name: (what is wrong, the rule, what is right)
PAIRS = {
    "an exit past a bound": (
        f"setp.ge.s32 %p1, %r3, %r9;\n@%p1 ret;\n{MMA} // want CV003",
        f"setp.ge.s32 %p1, %r5, %r9;\n@%p1 ret;\n{MMA}",
    ),
    "a bound that a launch rounds up": (
        f"add.s32 %r8, %r9, 31;\nsetp.ge.s32 %p1, %r3, %r8;\n@%p1 ret;\n{MMA} // want CV003",
        f"add.s32 %r8, %r9, 31; and.b32 %r8, %r8, -32;\nsetp.ge.s32 %p1, %r3, %r8;\n@%p1 ret;\n{MMA}",
    ),
    "a word of each thread": (
        f"{MINE} setp.eq.s32 %p1, %r6, 0;\n@%p1 bra over;\n{MMA} // want CV001\nover: {LAST}",
        f"{OURS} setp.eq.s32 %p1, %r6, 0;\n@%p1 bra over;\n{MMA}\nover: {LAST}",
    ),
    "either of two conditions": (
        f"{MINE} setp.eq.s32 %p1, %r6, 0; setp.eq.s32 %p2, %r9, 3; or.pred %p3, %p1, %p2;\n@%p3 bra over;\n{MMA} // want CV001\nover: {LAST}",
        f"{OURS} setp.eq.s32 %p1, %r6, 0; setp.eq.s32 %p2, %r9, 3; or.pred %p3, %p1, %p2;\n@%p3 bra over;\n{MMA}\nover: {LAST}",
    ),
    "conditions within each other": (
        (f"setp.lt.s32 %p1, %r9, 4;\n@%p1 bra over;\n{MINE} setp.eq.s32 %p2, %r6, 0;\n@%p2 bra over;\nsetp.gt.s32 %p3, %r9, 100;\n"
        f"@%p3 bra over;\n{MMA} // want CV001\nover: {LAST}"),
        (f"setp.lt.s32 %p1, %r9, 4;\n@%p1 bra over;\n{OURS} setp.eq.s32 %p2, %r6, 0;\n@%p2 bra over;\nsetp.gt.s32 %p3, %r9, 100;\n"
        f"@%p3 bra over;\n{MMA}\nover: {LAST}"),
    ),
    "a chain of selections": (
        (f"{MINE} setp.gt.s32 %p1, %r6, 7; selp.b32 %r7, 2, 0, %p1; setp.gt.s32 %p2, %r9, 5; selp.b32 %r7, %r7, 2, %p2;\n"
        f"setp.ne.s32 %p3, %r7, 2;\n@%p3 bra over;\n{MMA} // want CV001\nover: {LAST}"),
        (f"{OURS} setp.gt.s32 %p1, %r6, 7; selp.b32 %r7, 2, 0, %p1; setp.gt.s32 %p2, %r9, 5; selp.b32 %r7, %r7, 2, %p2;\n"
        f"setp.ne.s32 %p3, %r7, 2;\n@%p3 bra over;\n{MMA}\nover: {LAST}"),
    ),
    "the result of an atomic operation": (
        f"atom.global.add.u32 %r6, [%rd0], 1; setp.ge.u32 %p1, %r6, 9;\n@%p1 bra over;\n{MMA} // want CV001\nover: {LAST}",
        ("atom.global.add.u32 %r6, [%rd0], 1; shfl.sync.idx.b32 %r6, %r6, 0, 31, -1;\n"
        f"setp.ge.u32 %p1, %r6, 9;\n@%p1 bra over;\n{MMA}\nover: {LAST}"),
    ),
    "iterations that data count": (
        MINE + LOOP.format("%r6", f"{MMA} // want CV001") + LAST,
        MINE + "redux.sync.max.s32 %r6, %r6, -1;\n" + LOOP.format("%r6", MMA) + LAST,
    ),
    "iterations by lane, up to a parameter": (
        "shr.u32 %r8, %r4, 3; add.s32 %r8, %r8, %r9;\n" + LOOP.format("%r8", f"{MMA} // want CV001") + LAST,
        "add.s32 %r8, %r1, %r9;\n" + LOOP.format("%r8", MMA) + LAST,
    ),
    "a break by lane past a barrier": (
        LOOP.format("%r9", f"{MINE} add.s64 %rd1, %rd1, 4; setp.lt.s32 %p2, %r6, 0;\n@%p2 bra done;\n{HELD} // want CV001")
        + f"\nadd.s32 %r7, %r7, 1;\n{HELD}",
        LOOP.format("%r9", f"ld.global.u32 %r6, [%rd0]; add.s64 %rd0, %rd0, 4; setp.lt.s32 %p2, %r6, 0;\n@%p2 bra done;\n{HELD}")
        + f"\nadd.s32 %r7, %r7, 1;\n{HELD}",
    ),
    "a barrier where data are positive": (
        (".shared .align 4 .b32 s[128]; shl.b32 %r7, %r0, 2; mov.u32 %r8, s; add.u32 %r7, %r7, %r8;\n"
            f"ld.global.f32 %f1, [%rd1]; setp.leu.f32 %p1, %f1, 0f00000000;\n@%p1 bra over;\nst.shared.f32 [%r7], %f1;\n"
            f"{HELD} // want CV001\nover:"),
        f"setp.ge.s32 %p1, %r3, %r9;\n@%p1 bra over;\n{HELD}\nover:",
    ),
    "warps up to a parameter": (
        f"shr.u32 %r7, %r0, 5; setp.ge.u32 %p1, %r7, %r9;\n@%p1 bra over;\n{HELD} // want CV001\nover: {LAST}",
        f"setp.ge.u32 %p1, %r1, %r9;\n@%p1 bra over;\n{HELD}\nover: {LAST}",
    ),
    "iterations by warp": (
        (f"shr.u32 %r7, %r0, 5;\nnext: setp.ge.s32 %p1, %r7, %r9;\n@%p1 bra done;\n{HELD} // want CV001\nadd.s32 %r7, %r7, 4;\n"
        f"bra next;\ndone: {LAST}"),
        f"mov.b32 %r7, 0;\nnext: setp.ge.s32 %p1, %r7, %r9;\n@%p1 bra done;\n{HELD}\nadd.s32 %r7, %r7, 4;\nbra next;\ndone: {LAST}",
    ),
    "roles of a number of warps that is a parameter": (
        (f"shr.u32 %r7, %r0, 5; setp.ge.u32 %p1, %r7, %r9;\n@%p1 bra else;\n{HELD} // want CV001\nbra over;\nelse: st.global.u32 [%rd1], %r7;\n"
        f"over: {LAST}"),
        f"shr.u32 %r7, %r0, 5; setp.ge.u32 %p1, %r7, %r9;\n@%p1 bra else;\n{HELD}\nbra over;\nelse: {HELD}\nover: {LAST}",
    ),
    "a part of the lanes that a barrier counts": (
        "setp.gt.u32 %p1, %r0, 79;\n@%p1 bra over;\nbar.sync 1, 96; // want CV003\nover:",
        "setp.gt.u32 %p1, %r0, 95;\n@%p1 bra over;\nbar.sync 1, 96;\nover:",
    ),
    "a shuffle without the lanes past a bound": (
        f"setp.ge.s32 %p1, %r3, %r9;\n@%p1 bra over;\n{SHUFFLE.format('-1')} // want CV005\nover:",
        "setp.lt.s32 %p1, %r3, %r9; vote.sync.ballot.b32 %r8, %p1, -1;\n@!%p1 bra over;\nvote.sync.any.pred %p2, %p1, %r8;\nover:",
    ),
    "a shuffle of which lanes past a bound are not used": (
        f"setp.ge.s32 %p1, %r3, %r9;\n@%p1 bra over;\n{SHUFFLE.format('-1')} // want CV005\nover:",
        ("setp.ge.s32 %p1, %r3, %r9;\n@%p1 bra over;\nshfl.sync.down.b32 %r12, %r0, 1, 31, -1; add.s32 %r14, %r12, 3;\n"
        "add.s32 %r13, %r3, 1; setp.lt.s32 %p2, %r13, %r9; setp.ne.s32 %p3, %r4, 31; and.pred %p2, %p2, %p3;\n"
        "selp.b32 %r15, %r14, 0, %p2; st.global.u32 [%rd1], %r15;\nover:"),
    ),
    "the active lanes before a branch": (
        f"activemask.b32 %r8; {MINE} setp.eq.s32 %p1, %r6, 0;\n@%p1 bra over;\n{SHUFFLE.format('%r8')} // want CV005\nover:",
        (f"{MINE} setp.eq.s32 %p1, %r6, 0;\n@%p1 bra over;\nactivemask.b32 %r8;\n"
        "brev.b32 %r13, %r8; bfind.shiftamt.u32 %r13, %r13; shfl.sync.idx.b32 %r12, %r0, %r13, 31, %r8; st.global.u32 [%rd1], %r12;\nover:"),
    ),
    "a ballot of another condition": (
        (f"{MINE} setp.gt.s32 %p1, %r6, 0; vote.sync.ballot.b32 %r8, %p1, -1; setp.gt.s32 %p2, %r6, 5;\n@!%p2 bra over;\n"
        f"{SHUFFLE.format('%r8')} // want CV005\nover:"),
        (f"{MINE} setp.gt.s32 %p1, %r6, 0; vote.sync.ballot.b32 %r8, %p1, -1;\n@!%p1 bra over;\n"
        "vote.sync.all.pred %p3, %p1, %r8;\nover:"),
    ),
    "tiles of 16 lanes": (
        ("and.b32 %r7, %r4, 16; mov.b32 %r8, 0xffff; shl.b32 %r8, %r8, %r7; shr.u32 %r12, %r3, 3; mul.wide.s32 %rd3, %r12, 4;\n"
        "add.s64 %rd3, %rd0, %rd3; ld.global.u32 %r6, [%rd3]; setp.eq.s32 %p1, %r6, 0;\n@%p1 bra over;\n"
        "shfl.sync.bfly.b32 %r12, %r0, 8, 31, %r8; st.global.u32 [%rd1], %r12; // want CV005\nover:"),
        ("and.b32 %r7, %r4, 16; mov.b32 %r8, 0xffff; shl.b32 %r8, %r8, %r7; shr.u32 %r12, %r3, 4; mul.wide.s32 %rd3, %r12, 4;\n"
        "add.s64 %rd3, %rd0, %rd3; ld.global.u32 %r6, [%rd3]; setp.eq.s32 %p1, %r6, 0;\n@%p1 bra over;\n"
        "shfl.sync.bfly.b32 %r12, %r0, 8, 31, %r8; st.global.u32 [%rd1], %r12;\nover:"),
    ),
    "one vote for each row": (
        ("ld.global.u32 %r7, [%rd2]; ld.global.u32 %r8, [%rd2+4]; add.s32 %r7, %r7, %r4;\nnext: setp.ge.s32 %p1, %r7, %r8;\n@%p1 bra done;\n"
        f"{SHUFFLE.format('-1')} // want CV005\nadd.s32 %r7, %r7, 32;\nbra next;\ndone:"),
        ("ld.global.u32 %r7, [%rd2]; ld.global.u32 %r8, [%rd2+4]; add.s32 %r7, %r7, %r4;\nnext: setp.ge.s32 %p1, %r7, %r8;\n@%p1 bra done;\n"
        f"add.s32 %r7, %r7, 32;\nbra next;\ndone: {SHUFFLE.format('-1')}"),
    ),
}  # fmt: skip


def text(body: str) -> str:
    return module(kernel(f"{START}{body}\nret;"), header=".version 8.0\n.target sm_80\n.address_size 64\n")


@pytest.mark.parametrize("name", PAIRS)
def test_lanes_that_part(name: str) -> None:
    agrees(text(PAIRS[name][0]), "CV")


@pytest.mark.parametrize("name", PAIRS)
def test_lanes_that_stay_together(name: str) -> None:
    agrees(text(PAIRS[name][1]), "CV")


def test_what_a_launch_or_data_decide_is_a_warning() -> None:
    for name in ("an exit past a bound", "a word of each thread"):
        severities = {f.severity for f in lint(text(PAIRS[name][0])).findings if f.rule.id[:2] == "CV"}
        assert severities == {Severity.WARNING}


@pytest.mark.parametrize(
    ("test", "last", "says"),
    [
        ("setp.gt.u32 %p1, %r0, 31;", LAST, "if the CTA has more than 32 threads"),
        ("setp.lt.u32 %p1, %r0, 64;", LAST, "if the CTA has more than 64 threads"),
        ("setp.gt.u32 %p1, %r0, 31;", "", ""),
    ],
)
def test_a_barrier_for_some_warps_of_a_cta_of_unknown_size(test: str, last: str, says: str) -> None:
    body = f"{START}{test}\n@%p1 bra over;\n{HELD}\nover: {last}\nret;"
    found = by_rule(lint(module(kernel(body, directives=""))), "CV001")
    assert [f.severity for f in found] == [Severity.WARNING] * bool(says)
    assert not found or found[0].message.endswith(says)
