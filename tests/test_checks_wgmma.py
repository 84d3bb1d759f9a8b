"""The rules of wgmma on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest
from support import agrees, by_rule, kernel, lint, module

from tclint.finding import Severity

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
ISSUE = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;"
OTHER = ISSUE.replace("%f0, %f1, %f2, %f3", "%f4, %f5, %f6, %f7")
FRAGMENT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, %rd1, %p0, 1, 1, 0;"
USE = "add.f32 %f9, %f0, %f1;"


def wait(depth: int = 0) -> str:
    return f"wgmma.wait_group.sync.aligned {depth};"


def text(body: str) -> str:
    return module(kernel(f"setp.ne.b32 %p0, 0, 0;\nld.param.u32 %r9, [number];\n{body}\nret;"), header=HEADER)


CASES = {
    "waited": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{wait()}\n{USE}",
    "not waited": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{USE} // want WG001\n{wait()}",
    "not committed, not waited": f"{FENCE}\n{ISSUE}\n{USE} // want WG001",
    "waited without a commit": f"{FENCE}\n{ISSUE}\n{wait()}\n{USE} // want WG003",
    "the other group is read": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{OTHER}\n{COMMIT}\n{wait(1)}\n{USE}\n{wait()}",
    "the newer group is read": f"{FENCE}\n{OTHER}\n{COMMIT}\n{ISSUE}\n{COMMIT}\n{wait(1)}\n{USE} // want WG001\n{wait()}",
    "a copy is no use, its use is": f"{FENCE}\n{ISSUE}\n{COMMIT}\nmov.f32 %f8, %f0;\nadd.f32 %f9, %f8, %f8; // want WG001\n{wait()}",
    "a copy that is overwritten": f"{FENCE}\n{ISSUE}\n{COMMIT}\nmov.f32 %f8, %f0;\nmov.f32 %f8, 0f00000000;\nadd.f32 %f9, %f8, %f8;\n{wait()}",
    "a copy read after the wait": f"{FENCE}\n{ISSUE}\n{COMMIT}\nmov.f32 %f8, %f0;\n{wait()}\nadd.f32 %f9, %f8, %f8;",
    "one use of many is reported": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{USE} // want WG001\n{USE}\n{USE}\n{wait()}",
    "an overwritten accumulator": f"{FENCE}\n{ISSUE}\n{COMMIT}\nmov.f32 %f1, 0f00000000; // want WG004\n{wait()}",
    "an overwritten fragment": f"{FENCE}\n{FRAGMENT}\n{COMMIT}\nmov.u32 %r2, 0; // want WG004\n{wait()}",
    "a read fragment": f"{FENCE}\n{FRAGMENT}\n{COMMIT}\nadd.s32 %r8, %r2, 1;\n{wait()}",
    "an accumulator as a guard's neighbour": f"{FENCE}\n{ISSUE}\n{COMMIT}\n@%p0 add.f32 %f9, %f1, %f1; // want WG001\n{wait()}".replace(
        "@%p0", "@%p3"
    ),
    "waited on one way only": (
        f"{FENCE}\n{ISSUE}\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 bra on;\n{wait()}\non: {USE} // want WG001\n{wait()}"
    ),
    "waited on the way that reads": (
        f"{FENCE}\n{ISSUE}\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 bra on;\n{wait()}\non: @!%p1 {USE}\n{wait()}"
    ),
    "a guarded wait, and the same guard at the use": (
        f"{FENCE}\n{ISSUE}\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\nsetp.ne.s32 %p2, %r9, 0;\n@%p1 {wait()}\n@!%p2 {USE}\n{wait()}"
    ),
    "a pipelined loop": f"""
    {FENCE}
    {ISSUE}
    {COMMIT}
    mov.u32 %r8, 0;
loop:
    {FENCE}
    {OTHER}
    {COMMIT}
    {wait(1)}
    {USE}
    {FENCE}
    {ISSUE}
    {COMMIT}
    {wait(1)}
    add.f32 %f9, %f4, %f5;
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p1, %r8, 9;
    @%p1 bra loop;
    {wait()}
    """,
    "a loop that reads what the round before began": f"""
    mov.u32 %r8, 0;
loop:
    {FENCE}
    {ISSUE}
    {COMMIT}
    {wait(1)}
    {USE} // want WG001
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p1, %r8, 9;
    @%p1 bra loop;
    {wait()}
    """,
    "no fence at all": f"{ISSUE} // want WG002\n{COMMIT}\n{wait()}\n{USE}",
    "a fence before the last access": f"{FENCE}\nadd.f32 %f0, %f9, %f9;\n{ISSUE} // want WG002\n{COMMIT}\n{wait()}",
    "a fence after the last access": f"add.f32 %f0, %f9, %f9;\n{FENCE}\n{ISSUE}\n{COMMIT}\n{wait()}",
    "an accumulator that a tcgen05.ld fills": (
        f"{FENCE}\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {{%f0}}, [%r9];\ntcgen05.wait::ld.sync.aligned;\n{FENCE}\n{ISSUE}\n{COMMIT}\n{wait()}"
    ),
    "an access to another register": f"{FENCE}\nadd.f32 %f8, %f9, %f9;\n{ISSUE}\n{COMMIT}\n{wait()}",
    "zeroing between fence and wgmma": f"{FENCE}\nmov.f32 %f0, 0f00000000;\n{ISSUE}\n{COMMIT}\n{wait()}",
    "wgmmas in a row need one fence": f"{FENCE}\n{ISSUE}\n{ISSUE}\n{COMMIT}\n{wait()}",
    "a fragment loaded after the fence": f"{FENCE}\nld.shared.u32 %r1, [%r9];\n{FRAGMENT} // want WG002\n{COMMIT}\n{wait()}",
    "a wait deeper than anything outstanding": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{wait(2)} // want WG005\n{wait()}",
    "a wait as deep as needed": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{OTHER}\n{COMMIT}\n{wait(1)}\n{wait()}",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_wgmma(case: str) -> None:
    agrees(text(CASES[case]), "WG")


def test_uses_of_one_cause_are_counted() -> None:
    (finding,) = by_rule(lint(text(f"{FENCE}\n{ISSUE}\n{COMMIT}\n{USE}\n{USE}\n{USE}\n{wait()}")), "WG001")
    assert finding.count == 3
    assert finding.severity is Severity.ERROR
    assert [s.message for s in finding.steps][-1].startswith("reads %f")


def test_a_missing_wait_says_where_the_wait_is_too_shallow() -> None:
    (finding,) = by_rule(
        lint(text(f"{FENCE}\n{OTHER}\n{COMMIT}\n{ISSUE}\n{COMMIT}\n{wait(1)}\n{USE}\n{wait()}")), "WG001"
    )
    assert "wait_group 1" in finding.message
    assert "wait_group 0" in finding.help or "0 or less" in finding.help


def test_each_defect_of_a_kernel_is_found() -> None:
    whole = f"{FENCE}\n{ISSUE}\n{COMMIT}\n{USE}\n{wait()}\n"
    report = lint(text(whole + whole.replace("add.f32 %f9", "sub.f32 %f8")))
    assert len(by_rule(report, "WG001")) >= 1
