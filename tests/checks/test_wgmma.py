"""The rules of wgmma on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence, Severity
from tests.tools.support import agrees, by_rule, kernel, lint, module

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
    "waited on the path that reads": (
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
    "a fragment moved from what is computed after the fence": f"{FENCE}\nadd.u32 %r8, %r9, 1;\nmov.b32 %r7, %r8;\nmov.b32 %r1, %r7;\n{FRAGMENT} // want WG002\n{COMMIT}\n{wait()}",
    "a fragment moved from what is computed before it": f"add.u32 %r8, %r9, 1;\n{FENCE}\nmov.b32 %r7, %r8;\nmov.b32 %r1, %r7;\n{FRAGMENT}\n{COMMIT}\n{wait()}\nadd.u32 %r6, %r7, 1;",
    "a fragment loaded after the fence": f"{FENCE}\nld.shared.u32 %r1, [%r9];\n{FRAGMENT} // want WG002\n{COMMIT}\n{wait()}",
    "a fragment copied from what was loaded after the fence": (
        f"{FENCE}\nld.shared.u32 %r9, [%r8];\nmov.b32 %r7, %r9;\nmov.b32 %r1, %r7;\n{FRAGMENT} // want WG002\n{COMMIT}\n{wait()}"
    ),
    "a fragment copied from what was loaded before the fence": (
        f"ld.shared.u32 %r9, [%r8];\n{FENCE}\nmov.b32 %r1, %r9;\n{FRAGMENT}\n{COMMIT}\n{wait()}"
    ),
    "a fragment copied from what is read after the fence": (
        f"{FENCE}\nst.shared.u32 [%r8], %r9;\nmov.b32 %r1, %r9;\n{FRAGMENT}\n{COMMIT}\n{wait()}"
    ),
    "a fragment copied from a constant in a register that was loaded": (
        f"{FENCE}\nld.shared.u32 %r9, [%r8];\nmov.b32 %r9, 0;\nmov.b32 %r1, %r9;\n{FRAGMENT}\n{COMMIT}\n{wait()}"
    ),
    "an accumulator copied from a sum after the fence": (
        f"{FENCE}\nadd.f32 %f9, %f8, %f8;\nmov.f32 %f0, %f9;\n{ISSUE} // want WG002\n{COMMIT}\n{wait()}"
    ),
    "a fragment copied before the fence": (
        f"ld.shared.u32 %r9, [%r8];\nmov.b32 %r1, %r9;\n{FENCE}\n{FRAGMENT}\n{COMMIT}\n{wait()}"
    ),
    "a wait that another one made superfluous": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{ISSUE}\n{COMMIT}\n{wait(1)}\n{wait(1)} // want WG005\n{wait()}",
    "a wait deeper than anything outstanding, and a deeper one at once": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{wait(2)} // want WG005\n{wait()}",
    "a wait deeper than anything outstanding": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{wait(2)} // want WG005\nadd.u32 %r8, %r9, 1;\n{wait()}",
    "a wait as deep as needed": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{OTHER}\n{COMMIT}\n{wait(1)}\n{wait()}",
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("not waited", "WG001"),
        ("a fragment loaded after the fence", "WG002"),
        ("an overwritten accumulator", "WG004"),
    ],
)
def test_registers_are_copied_in_a_debug_build(case: str, rule: str) -> None:
    code = text(CASES[case])
    (sure,) = by_rule(lint(code), rule)
    (doubtful,) = by_rule(lint(code.replace("sm_90a\n", "sm_90a, debug\n")), rule)
    assert sure.confidence > Confidence.LOW
    assert doubtful.confidence is Confidence.LOW
    assert doubtful.message == sure.message


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"{FENCE}\n{ISSUE}\n{COMMIT}\n{wait(1)}", 0),
        (f"{wait()}\n{FENCE}\n{ISSUE}\n{COMMIT}\n{wait(1)}\n{wait(0)}", 1),  # the first wait leaves none
        (f"{wait(1)}\n{FENCE}\n{ISSUE}\n{COMMIT}\n{wait(1)}\n{wait(0)}", 0),
    ],
)
def test_the_caller_of_a_function_may_have_groups_in_flight(body: str, found: int) -> None:
    code = text(body)
    assert len(by_rule(lint(code.replace(".visible .entry", ".visible .func")), "WG005")) == found
    if "wait_group" not in body.partition("mma_async")[0]:
        assert by_rule(lint(code), "WG005")  # a kernel starts with none


def test_a_wait_that_is_superfluous_is_a_note() -> None:
    """Not too shallow: what it would wait for has been waited for, or is waited for before anything else."""
    for case, severity in (
        ("a wait that another one made superfluous", Severity.INFO),
        ("a wait deeper than anything outstanding, and a deeper one at once", Severity.INFO),
        ("a wait deeper than anything outstanding", Severity.WARNING),
    ):
        (found,) = by_rule(lint(text(CASES[case])), "WG005")
        assert found.severity is severity


@pytest.mark.parametrize("case", CASES)
def test_wgmma(case: str) -> None:
    agrees(text(CASES[case]), "WG")


REPEATED = ISSUE.replace("%f1", "%f0")
ALIASED = (
    ISSUE.replace("m64n8k16.f32", "m64n16k16.f16")
    .replace("{%f0, %f1, %f2, %f3}, %rd0", "{%r0, %r1, %r2, %r3}, {%r3, %r4, %r5, %r6}")
    .replace(", 0, 0;", ", 0;")
)
ADDING = ISSUE.replace("%p0", "1")
WIDE = OTHER.replace("m64n8k16", "m64n16k16").replace("{%f4", "{%f0, %f1, %f2, %f3, %f4")
COPIED = "mov.f32 %f8, %f0;\n" + ISSUE.replace("%f0, %f1", "%f8, %f1")
COPIES = "".join(f"mov.b32 %r{n + 4}, %r{n};\n" for n in range(4))
SWAPPED = ISSUE.replace("%f0, %f1", "%f1, %f0")
HALVES = ISSUE.replace("m64n8k16.f32", "m64n16k16.f16").replace("%f0, %f1, %f2, %f3", "%r0, %r1, %r2, %r3")
FRAGMENTS = HALVES.replace(
    "{%r0, %r1, %r2, %r3}, %rd0", "{%r4, %r5, %r6, %r7}, {%r0, %r1, %r2, %r3}"
).replace(", 0, 0;", ", 0;")
ZERO = "\n".join(f"mov.f32 %f{i}, 0f00000000;" for i in range(4))

FLAGGED = f"""
    mov.u32 %r7, 0;
    mov.u32 %r8, 0;
loop:
    setp.ge.u32 %p1, %r8, %r9;
    setp.eq.u32 %p2, %r7, 0;
    @%p2 bra none;
    {wait()}
none:
    @%p1 bra end;
    {FENCE}
    {ISSUE}
    {COMMIT}
    mov.u32 %r7, 1;
    add.u32 %r8, %r8, 1;
    bra loop;
end:
    """
"""A round stores what the one before has multiplied, if there was one."""
FOURTH = f"""
    setp.eq.u32 %p1, %r9, 0;
    @%p1 bra end;
    mov.u32 %r8, 0;
loop:
    {FENCE}
    {ISSUE}
    {COMMIT}
    add.u32 %r8, %r8, 1;
    and.b32 %r7, %r8, 3;
    setp.eq.u32 %p1, %r7, 0;
    setp.eq.or.u32 %p2, %r8, %r9, %p1;
    @!%p2 bra next;
    {wait()}
next:
    setp.lt.u32 %p3, %r8, %r9;
    @%p3 bra loop;
end:
    """

OPERANDS = {
    "a register twice in D": f"{FENCE}\n{REPEATED} // want WG006\n{COMMIT}\n{wait()}",
    "a register of A in D": f"{FENCE}\n{ALIASED} // want WG006\n{COMMIT}\n{wait()}",
    "a register twice in A": f"{FENCE}\n{FRAGMENT.replace('%r3', '%r2')}\n{COMMIT}\n{wait()}",
    "no .aligned": f"wgmma.fence.sync; // want WG010\n{ISSUE}\nwgmma.commit_group.sync;\n{wait()}",
    "the end without a wait": f"{FENCE}\n{ISSUE} // want WG007\n{COMMIT}",
    "the end without a commit": f"{FENCE}\n{ISSUE} // want WG007",
    "a wait that leaves one": f"{FENCE}\n{OTHER}\n{COMMIT}\n{ISSUE} // want WG007\n{COMMIT}\n{wait(1)}",
    "read in flight, and not waited for": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{USE} // want WG001",
    "a trap on the way": f"{FENCE}\n{ISSUE}\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 trap;\n{wait()}",
    "an exit on the way": f"{FENCE}\n{ISSUE} // want WG007\n{COMMIT}\nsetp.eq.s32 %p1, %r9, 0;\n@%p1 exit;\n{wait()}",
    "an exit of those that issued nothing": f"setp.eq.s32 %p1, %r9, 0;\n@!%p1 {FENCE}\n@!%p1 {ISSUE}\n@!%p1 {COMMIT}\n@%p1 exit;\n{wait()}",
    "one shape after another": f"{FENCE}\n{ISSUE}\n{WIDE} // want WG008\n{COMMIT}\n{wait()}",
    "one shape after another, committed": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{WIDE} // want WG008\n{COMMIT}\n{wait()}",
    "one shape after another, fenced": f"{FENCE}\n{ISSUE}\n{FENCE}\n{WIDE}\n{COMMIT}\n{wait()}",
    "one shape after another, waited for": f"{FENCE}\n{ISSUE}\n{COMMIT}\n{wait()}\n{WIDE}\n{COMMIT}\n{wait()}",
    "copies of some accumulators": f"{FENCE}\n{ISSUE}\n{COPIED}\n{COMMIT}\n{wait()}",
    "copies in another order": f"{FENCE}\n{ISSUE}\n{COPIED.replace('%f8, %f1', '%f1, %f8')} // want WG008\n{COMMIT}\n{wait()}",
    "another order": f"{FENCE}\n{ISSUE}\n{SWAPPED} // want WG008\n{COMMIT}\n{wait()}",
    "a result as A": f"{FENCE}\n{HALVES}\n{COMMIT}\n{FENCE}\n{FRAGMENT} // want WG008\n{COMMIT}\n{wait()}",
    "a result as A, that copies of it are added to": f"{FENCE}\n{HALVES}\n{COPIES}{FRAGMENTS} // want WG008\n{COMMIT}\n{wait()}",
    "a fragment as D": f"{FENCE}\n{FRAGMENT}\n{COMMIT}\n{FENCE}\n{HALVES} // want WG008\n{COMMIT}\n{wait()}",
    "a fragment as D, waited for": f"{FENCE}\n{FRAGMENT}\n{COMMIT}\n{wait()}\n{FENCE}\n{HALVES}\n{COMMIT}\n{wait()}",
    "in the next iteration of a loop": f"""
    mov.u32 %r8, 0;
loop:
    {WIDE} // want WG008 WG002
    {FENCE}
    {ISSUE}
    {COMMIT}
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p1, %r8, 9;
    @%p1 bra loop;
    {wait()}
    """,
    "waited for in the next iteration, depending on a flag": FLAGGED,
    "a flag that is not set": FLAGGED.replace("mov.u32 %r7, 1;", "").replace(ISSUE, f"{ISSUE} // want WG007"),
    "waited for in every fourth round, and in the last": FOURTH,
    "waited for in every fourth round, and in all but the last": FOURTH.replace("eq.or", "ne.or").replace(
        ISSUE, f"{ISSUE} // want WG007"
    ),
    "waited for in every fourth round": FOURTH.replace("eq.or", "lt.or").replace(ISSUE, f"{ISSUE} // want WG007"),
    "a sum that starts from nothing": f"{FENCE}\n{ADDING} // want WG013\n{COMMIT}\n{wait()}",
    "a sum that starts from zero": f"{ZERO}\n{FENCE}\n{ADDING}\n{COMMIT}\n{wait()}",
    "a sum that starts from one register too few": f"{ZERO.replace('%f3', '%f4')}\n{FENCE}\n{ADDING} // want WG013\n{COMMIT}\n{wait()}",
    "a sum that starts with the first wgmma": f"{FENCE}\n{ISSUE}\n{ADDING}\n{COMMIT}\n{wait()}",
    "an unknown scale-d": f"setp.ne.s32 %p1, %r9, 0;\n{FENCE}\n{ISSUE.replace('%p0', '%p1')}\n{COMMIT}\n{wait()}",
    "zeroed on one way only": f"setp.ne.s32 %p1, %r9, 0;\n@%p1 bra on;\n{ZERO}\non: {FENCE}\n{ADDING} // want WG013\n{COMMIT}\n{wait()}",
    "zeroed on the path that adds": f"setp.ne.s32 %p1, %r9, 0;\n@%p1 bra on;\n{ZERO}\n{FENCE}\n{ADDING}\n{COMMIT}\n{wait()}\non: mov.u32 %r1, 0;",
}  # fmt: skip


@pytest.mark.parametrize("case", OPERANDS)
def test_operands_order_and_end(case: str) -> None:
    agrees(text(OPERANDS[case]), "WG")


WARP = "mov.u32 %r8, %tid.x;\nshr.u32 %r8, %r8, 5;"
ENCODE = "add.u32 %r8, %r8, %r9;\nand.b32 %r8, %r8, 0x3ffff;\nshr.u32 %r8, %r8, 4;\nor.b32 %r8, %r8, 0x10000;"
DESCRIPTORS = {
    "lane": ("mov.u32 %r8, %laneid;", True),
    "warp": ("mov.u32 %r8, %tid.x;\nshr.u32 %r8, %r8, 5;", True),
    "warp, through lane 0": ("mov.u32 %r8, %tid.x;\nshr.u32 %r8, %r8, 5;\nshfl.sync.idx.b32 %r8, %r8, 0, 31, -1;", True),
    "warpgroup": ("mov.u32 %r8, %tid.x;\nshr.u32 %r8, %r8, 7;", False),
    "warps rounded down to warpgroups": ("mov.u32 %r8, %tid.x;\nshr.u32 %r8, %r8, 5;\nand.b32 %r8, %r8, 60;", False),
    "warp, in an address of shared memory": (f"{WARP}\nshl.b32 %r8, %r8, 11;\n{ENCODE}", True),
    "lane, in an address of shared memory": (f"mov.u32 %r8, %laneid;\nshl.b32 %r8, %r8, 4;\n{ENCODE}", True),
    "lane, below what a descriptor holds": (f"mov.u32 %r8, %laneid;\n{ENCODE}", False),
    "warp, above what a descriptor holds": (f"{WARP}\nshl.b32 %r8, %r8, 18;\n{ENCODE}", False),
    "warp, over set bits": (f"{WARP}\nand.b32 %r8, %r8, 3;\nor.b32 %r8, %r8, %r9;\nor.b32 %r8, %r8, 3;", False),
    "warp, beside set bits": (f"{WARP}\nand.b32 %r8, %r8, 3;\nor.b32 %r8, %r8, 4;", True),
    "warp, in the first warpgroup alone": (f"{WARP}\nmin.u32 %r8, %r8, 4;", True),
    "warp, counted in leading zeros": (f"{WARP}\nclz.b32 %r8, %r8;", True),
    "warp, through what is not computed": (f"{WARP}\ncvt.rn.f32.u32 %f0, %r8;\ncvt.rzi.u32.f32 %r8, %f0;", False),
    "vote": ("setp.eq.u32 %p1, %r9, 1;\nvote.sync.ballot.b32 %r8, %p1, -1;", False),
    "clock": ("mov.u32 %r8, %clock;", False),
    "a word of shared memory": ("ld.shared.u32 %r8, [%r9];", False),
    "a word of each lane's own": ("mov.u32 %r7, %tid.x;\nshl.b32 %r7, %r7, 2;\nld.shared.u32 %r8, [%r7];", False),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_descriptors(name: str) -> None:
    code, different = DESCRIPTORS[name]
    issue = ISSUE.replace("%rd1,", "%rd3,")
    body = f"{code}\nld.param.u64 %rd1, [pointer];\ncvt.u64.u32 %rd2, %r8;\nadd.s64 %rd3, %rd1, %rd2;\n{FENCE}\n{issue}"
    agrees(
        text(f"{body}{' // want WG012' if different else ''}\n{COMMIT}\n{wait()}").replace(
            "128\n{", "256\n{"
        ),
        "WG",
    )


def test_a_loaded_descriptor_is_of_low_confidence() -> None:
    code, _ = DESCRIPTORS["a word of each lane's own"]
    issue = ISSUE.replace("%rd1,", "%rd2,")
    body = f"{code}\ncvt.u64.u32 %rd2, %r8;\n{FENCE}\n{issue}\n{COMMIT}\n{wait()}"
    (finding,) = by_rule(lint(text(body)), "WG012")
    assert finding.confidence is Confidence.LOW


def test_a_read_fragment_has_low_confidence_and_is_reported_once() -> None:
    reads = "add.s32 %r8, %r2, 1;\nadd.s32 %r7, %r2, %r1;"
    (finding,) = by_rule(lint(text(f"{FENCE}\n{FRAGMENT}\n{COMMIT}\n{reads}\n{wait()}")), "WG009")
    assert (finding.severity, finding.confidence, finding.count) == (Severity.INFO, Confidence.LOW, 2)


def test_an_accumulator_without_registers_is_left_to_the_operand_check() -> None:
    opcode = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    report = lint(
        text(
            f"{FENCE}\n{opcode} {{0f00000000, 0f00000000, 0f00000000, 0f00000000}}, %rd1, %rd1, 1, 1, 1, 0, 0;"
        )
    )
    assert [f.message for f in by_rule(report, "PX003")] == [
        f"{opcode}: operand 1 (d) is a result, but contains a constant"
    ]


def test_an_end_in_flight_says_what_is_missing() -> None:
    (finding,) = by_rule(lint(text(f"{FENCE}\n{ISSUE}\n{OTHER}")), "WG007")
    assert finding.count == 2
    assert "never committed" in finding.message
    assert "commit_group" in finding.help
    (finding,) = by_rule(lint(text(f"{FENCE}\n{ISSUE}\n{COMMIT}")), "WG007")
    assert "no wgmma.wait_group" in finding.message
    assert [s.message for s in finding.steps] == ["wgmma.mma_async starts here", "the kernel exits here"]


def test_a_commit_after_the_wait_is_reported_as_such() -> None:
    code = text(f"{FENCE}\n{ISSUE}\nwgmma.wait_group.sync.aligned 0;\n{COMMIT}\nst.global.f32 [%rd2], %f0;")
    (finding,) = by_rule(lint(code), "WG001")
    assert finding.message.endswith(
        ": wgmma.mma_async was committed after wgmma.wait_group, which covers earlier groups only"
    )
    assert [s.message for s in finding.steps][1:3] == ["completes earlier groups only", "committed here"]


def test_a_function_may_leave_the_wait_to_its_caller() -> None:
    whole = text(f"{FENCE}\n{ISSUE}\n{COMMIT}")
    part = whole.replace(
        ".visible .entry k(.param .u64 pointer, .param .u32 number)\n.reqntid 128",
        ".func k(.param .u32 number)",
    )
    assert by_rule(lint(whole), "WG007")
    assert part != whole
    assert not by_rule(lint(part), "WG007")


def test_a_change_of_shape_names_both() -> None:
    (finding,) = by_rule(lint(text(f"{FENCE}\n{ISSUE}\n{WIDE}\n{COMMIT}\n{wait()}")), "WG008")
    assert ".m64n16k16.f32 after .m64n8k16.f32" in finding.message
    assert "wgmma.fence" in finding.help
    assert finding.count == 4


def test_registers_without_a_value_are_counted() -> None:
    (finding,) = by_rule(
        lint(text(f"mov.f32 %f1, 0f00000000;\n{FENCE}\n{ADDING}\n{COMMIT}\n{wait()}")), "WG013"
    )
    assert finding.count == 3


def test_uses_of_one_cause_are_counted() -> None:
    (finding,) = by_rule(lint(text(f"{FENCE}\n{ISSUE}\n{COMMIT}\n{USE}\n{USE}\n{USE}\n{wait()}")), "WG001")
    assert finding.count == 3
    assert finding.severity is Severity.ERROR
    assert [s.message for s in finding.steps if not s.aside][-1].startswith("reads %f")


def test_a_missing_wait_says_where_the_wait_is_too_shallow() -> None:
    (finding,) = by_rule(
        lint(text(f"{FENCE}\n{OTHER}\n{COMMIT}\n{ISSUE}\n{COMMIT}\n{wait(1)}\n{USE}\n{wait()}")), "WG001"
    )
    assert "wait_group 1" in finding.message
    assert finding.help == "use wgmma.wait_group 0 there, or add wgmma.wait_group 0 before this instruction"


@pytest.mark.parametrize("ends", ["lt.s32", "ne.s32"])
@pytest.mark.parametrize("multiple", [1, 2, 4, 8])
@pytest.mark.parametrize(("mask", "waits"), [(1, 0), (1, 1), (3, 1), (3, 3)])
def test_a_wait_in_some_iterations_is_enough_exactly_if_the_last_one_is_among_them(
    mask: int, waits: int, multiple: int, ends: str
) -> None:
    """The loop waits in the iterations i with ``i & mask == waits``, of which there are a multiple of *multiple*."""
    report = lint(
        text(
            f"mul.lo.s32 %r9, %r9, {multiple};\nsetp.lt.s32 %p1, %r9, 1;\n@%p1 ret;\nmov.u32 %r1, 0;\n"
            f"loop:\n{FENCE}\n{ISSUE}\n{COMMIT}\nand.b32 %r2, %r1, {mask};\nsetp.ne.s32 %p2, %r2, {waits};\n"
            f"@%p2 bra next;\n{wait()}\nnext:\nadd.s32 %r1, %r1, 1;\nsetp.{ends} %p3, %r1, %r9;\n"
            f"@%p3 bra loop;\n{USE}"
        )
    )
    pending = any((number - 1) & mask != waits for number in range(multiple, 64, multiple))
    assert bool(by_rule(report, "WG001")) is pending


def test_each_defect_of_a_kernel_is_found() -> None:
    whole = f"{FENCE}\n{ISSUE}\n{COMMIT}\n{USE}\n{wait()}\n"
    report = lint(text(whole + whole.replace("add.f32 %f9", "sub.f32 %f8")))
    assert len(by_rule(report, "WG001")) >= 1


def test_a_missing_fence_is_shown_between_the_last_ordering_instruction_and_the_wgmma() -> None:
    body = f"bar.sync 0;\nadd.u32 %r1, %r9, 1;\n{ISSUE}\n{COMMIT}\n{wait()}\n{USE}"
    code = text(body)
    (finding,) = by_rule(lint(code), "WG002")
    assert [(code[s.span.start : s.span.end], s.message) for s in finding.steps] == [
        ("bar.sync 0;", "no wgmma.fence between this and the wgmma.mma_async"),
        (ISSUE, "the first wgmma.mma_async on the path"),
    ]


def test_a_missing_fence_after_a_wait_is_shown_where_the_wait_ends() -> None:
    wait_loop = "poll: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0;\n@!%p4 bra poll;"
    code = text(
        f".shared .align 8 .b64 full;\n{wait_loop}\nadd.u32 %r1, %r9, 1;\n{ISSUE}\n{COMMIT}\n{wait()}\n{USE}"
    )
    (finding,) = by_rule(lint(code), "WG002")
    assert [code[s.span.start : s.span.end] for s in finding.steps] == ["@!%p4 bra poll;", ISSUE]


def _scaled(first: int) -> str:
    """The accumulator that begins at a register is scaled, and multiplied with no fence in between."""
    registers = ", ".join(f"%f{first + n}" for n in range(4))
    scaled = "\n".join(f"mul.f32 %f{first + n}, %f{first + n}, 0f3F000000;" for n in range(4))
    return f"{scaled}\n{ISSUE.replace('%f0, %f1, %f2, %f3', registers).replace('%p0', '1')}\n{COMMIT}\n{wait()}\n"


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        (f"{FENCE}\n{_scaled(0)}", [1]),
        # Unrolled by three, with a remainder loop.
        (f"{FENCE}\ntop:\n{_scaled(0) * 3}setp.lt.u32 %p1, %r9, 3;\n@!%p1 bra top;\nrest:\n{_scaled(0)}@%p2 bra rest;", [4]),
        # Two accumulators, of which each lacks a fence of its own.
        (f"{FENCE}\n{_scaled(0)}{_scaled(4)}{_scaled(0)}{_scaled(4)}", [2, 2]),
        # The same accumulator, changed by another instruction.
        (f"{FENCE}\n{_scaled(0)}{_scaled(0).replace('mul.f32', 'add.f32')}", [1, 1]),
    ],
)  # fmt: skip
def test_copies_of_one_missing_fence_are_one_finding(body: str, counts: list[int]) -> None:
    found = by_rule(lint(text(body)), "WG002")
    assert [finding.count for finding in found] == counts
    assert [len(finding.fixes[0].edits) for finding in found] == counts
    assert {finding.severity for finding in found} == {Severity.ERROR}
