"""MO010: accesses of scope .cta to words that other CTAs access."""

from __future__ import annotations

import pytest

from tclint.findings.finding import FileReport
from tclint.findings.scales import Severity
from tests.tools.support import by_rule, kernel, lint, module

START = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %r1, 128, %r0;
    ld.param.u64 %rd0, [words];
    ld.param.u64 %rd9, [keys];
    cvta.to.global.u64 %rd0, %rd0;
    cvta.to.global.u64 %rd9, %rd9;
    mul.wide.u32 %rd1, %r0, 4;
    mul.wide.u32 %rd2, %r1, 8;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd3, %rd9, %rd3;
    ld.global.nc.u32 %r3, [%rd3];
    mul.wide.u32 %rd4, %r3, 4;
    add.u64 %rd1, %rd0, %rd1;
    add.u64 %rd2, %rd0, %rd2;
    add.u64 %rd4, %rd0, %rd4;
    setp.eq.u32 %p0, %r0, 0;
    setp.eq.u32 %p2, %r1, 0;
"""
NOTE, WARNING = Severity.INFO, Severity.WARNING
ADD = "atom.{}.global.add.u32 %r4, [{}], 1;"
POLL = "poll:\nld.relaxed.{}.global.u32 %r5, [{}];\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra poll;"
LOOK = """
    sub.s64 %rd5, %rd2, %rd6;
look:
    ld.relaxed.{}.global.v2.u32 {{%r5, %r6}}, [%rd5];
    setp.eq.u32 %p3, %r5, 0;
    @%p3 bra look;
    add.u32 %r7, %r7, %r6;
    add.s64 %rd5, %rd5, -256;
    setp.ne.u32 %p4, %r5, 2;
    @%p4 bra look;
"""
"""Each lane waits for the status of another CTA before its own one, and then for the one 32 before that."""
BEFORE = "mul.wide.u32 %rd6, %r0, 8;\nadd.u64 %rd6, %rd6, 8;"
STATUS = "@%p0 st.relaxed.{}.global.v2.u32 [%rd2], {{%r8, %r7}};"
LOCK = "take:\natom.gpu.global.cas.b32 %r5, [%rd9], 0, 1;\nsetp.ne.u32 %p3, %r5, 0;\n@%p3 bra take;"


def report(*body: str) -> FileReport:
    text = "\n".join((START, *body, "ret;"))
    return lint(module(kernel(text, parameters=".param .u64 words, .param .u64 keys")))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        # One word for all CTAs, or one for each position in them.
        ([ADD.format("cta", "%rd0")], [NOTE]),
        ([ADD.format("cta", "%rd1")], [NOTE]),
        (["red.cta.global.add.u32 [%rd0], 1;"], [NOTE]),
        (["atom.cta.add.u32 %r4, [%rd0], 1;"], [NOTE]),
        ([ADD.format("gpu", "%rd0")], []),
        ([ADD.format("sys", "%rd0"), ADD.format("cta", "%rd0+4")], [NOTE]),
        # A word of each CTA, or one that data select.
        ([ADD.format("cta", "%rd2")], []),
        ([ADD.format("cta", "%rd4")], []),
        ([ADD.format("cta", "%rd4"), ADD.format("gpu", "%rd4")], [NOTE]),
        ([ADD.format("cta", "%rd2"), ADD.format("gpu", "%rd2")], []),
        # One CTA alone: by its index, as the holder of a lock, or as the last one.
        (["@!%p2 bra over;", ADD.format("cta", "%rd0"), "over:"], []),
        (["setp.lt.u32 %p3, %r1, 1;\n@%p3", ADD.format("cta", "%rd0")], []),
        (["mov.u32 %r9, %nctaid.x;\nsetp.ne.u32 %p3, %r9, 1;\n@%p3 bra over;", ADD.format("cta", "%rd0"), "over:"], []),
        (["mov.u32 %r9, %nctaid.x;\nsetp.ne.u32 %p3, %r9, 2;\n@%p3 bra over;", ADD.format("cta", "%rd0"), "over:"], [NOTE]),
        ([LOCK, ADD.format("cta", "%rd0"), "atom.gpu.global.exch.b32 %r5, [%rd9], 0;"], []),
        (["atom.global.add.u32 %r5, [%rd9], 1;\nsetp.ne.u32 %p3, %r5, 99;\n@%p3 bra over;", ADD.format("cta", "%rd0"), "over:"],
         []),
        # A store by many alone, and one that others read.
        (["st.relaxed.cta.global.u32 [%rd0], 1;"], []),
        (["ld.relaxed.gpu.global.u32 %r5, [%rd0];", "st.relaxed.cta.global.u32 [%rd0], 1;"], [NOTE]),
        (["ld.relaxed.cta.global.u32 %r5, [%rd0];", ADD.format("gpu", "%rd0")], [NOTE]),
        (["ld.relaxed.cta.global.u32 %r5, [%rd0];", ADD.format("gpu", "%rd0+64")], []),
        # Waits.
        ([ADD.format("gpu", "%rd0"), POLL.format("cta", "%rd0")], [WARNING]),
        ([ADD.format("gpu", "%rd0"), POLL.format("gpu", "%rd0")], []),
        ([ADD.format("gpu", "%rd2"), POLL.format("cta", "%rd2")], []),
        ([STATUS.format("gpu"), BEFORE, LOOK.format("gpu")], []),
        ([STATUS.format("cta"), BEFORE, LOOK.format("gpu")], [NOTE]),
        ([STATUS.format("gpu"), BEFORE, LOOK.format("cta")], [WARNING]),
        (["@%p2 st.relaxed.cta.global.v2.u32 [%rd0], {%r8, %r7};", BEFORE, LOOK.format("gpu")], [NOTE]),
        (["@%p2 st.relaxed.cta.global.v2.u32 [%rd0+4], {%r8, %r7};", BEFORE, LOOK.format("gpu")], []),
        # A poll that adds 0, and the word of the next CTA.
        (["poll:\natom.gpu.global.add.u32 %r5, [%rd2], 0;\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra poll;", ADD.format("cta", "%rd2+8")], [NOTE]),
        (["poll:\natom.gpu.global.add.u32 %r5, [%rd2], 0;\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra poll;", ADD.format("cta", "%rd2+4")], []),
        # Another array, at a distance that is not known, and words of one CTA.
        ([STATUS.format("cta"), "mul.wide.u32 %rd6, %r20, 8;", LOOK.format("gpu")], []),
        (["shl.b64 %rd6, %rd1, 0;\nst.relaxed.cta.global.u32 [%rd2], 1;", POLL.format("cta", "%rd2+4")], []),
    ],
)  # fmt: skip
def test_a_scope_lacks_the_other_ctas(body: list[str], found: list[Severity]) -> None:
    hits = by_rule(report("ld.param.u32 %r20, [words];", *body), "MO010")
    assert [hit.severity for hit in hits] == found


def test_a_kernel_that_asks_for_no_cta_may_have_one() -> None:
    source = module(
        kernel(
            "ld.param.u64 %rd0, [words];\natom.cta.global.add.u32 %r4, [%rd0], 1;\nret;",
            parameters=".param .u64 words",
        )
    )
    assert not by_rule(lint(source), "MO010")


def test_a_narrow_flag_that_announces_data_is_one_finding() -> None:
    """It is reported as what it leaves unordered, which is worse."""
    found = report(
        "st.global.u32 [%rd3+4096], %r3;",
        "fence.acq_rel.gpu;",
        ADD.format("gpu", "%rd0"),
        POLL.format("cta", "%rd0"),
        "ld.global.u32 %r8, [%rd3+4096];",
        "st.global.u32 [%rd3+8192], %r8;",
    )
    assert by_rule(found, "MO003")
    assert not by_rule(found, "MO010")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ([ADD.format("cta", "%rd0")], []),
        ([ADD.format("cta", "%rd0"), ADD.format("gpu", "%rd0")], [NOTE]),
        ([ADD.format("cta", "%rd0"), ADD.format("gpu", "%rd0+4")], []),
        ([ADD.format("cta", "%rd0"), "ld.relaxed.cta.global.u32 %r5, [%rd0];"], []),
    ],
)
def test_a_kernel_that_never_asks_which_cta_it_is_states_a_wider_scope(
    body: list[str], found: list[Severity]
) -> None:
    text = "\n".join(("ld.param.u64 %rd0, [words];\ncvta.to.global.u64 %rd0, %rd0;", *body, "ret;"))
    hits = by_rule(lint(module(kernel(text, parameters=".param .u64 words"))), "MO010")
    assert [hit.severity for hit in hits] == found
