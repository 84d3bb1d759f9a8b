"""PR005 on small kernels; its page holds the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence, Severity
from tests.tools.support import by_rule, kernel, lint, module

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
START = """
    .shared .align 1024 .b8 tile[8192];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd4, [pointer];
    ld.param.u32 %r9, [number];
    cvta.to.global.u64 %rd5, %rd4;
    mad.wide.u32 %rd6, %r0, 16, %rd5;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 4;
    add.u32 %r3, %r1, %r2;
    shr.u32 %r4, %r1, 4;
    and.b32 %r4, %r4, 16383;
    cvt.u64.u32 %rd0, %r4;
    or.b64 %rd0, %rd0, 68720001024;
    add.s64 %rd1, %rd0, 128;
    and.b32 %r8, %r0, 31;
    setp.eq.u32 %p0, %r8, 0;
    setp.eq.u32 %p1, %r0, 0;
    setp.lt.u32 %p2, %r0, 32;
"""
STORE = "st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};"
COPY = "cp.async.cg.shared.global [%r3], [%rd6], 16;"
DONE = "cp.async.commit_group;\ncp.async.wait_group 0;"
FENCE = "fence.proxy.async.shared::cta;"
SYNC = "bar.sync 0;"
MEET = "bar.warp.sync -1;"
OUT = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r1], {};"
PART = "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd6], [%r3], {};"
BOX = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {%r9, %r9}], [%r1];"
TILE = f"@%p1 {BOX}"
MMA = """
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;"""
SENT = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
ELECT = "elect.sync _|%p3, -1;"
FLAG = f"mov.pred %p3, 0;\n@!%p2 bra chosen;\n{ELECT}\nchosen:"
PASS = "wait: mbarrier.try_wait.parity.shared.b64 %p4, [full], 0;\n@!%p4 bra wait;"


def found(body: str, threads: int = 128) -> list[tuple[Severity, Confidence, str]]:
    code = kernel(f"{START}\n{body}\n{SENT}\nret;", directives=f".reqntid {threads}" if threads else "")
    findings = by_rule(lint(module(code, header=HEADER)), "PR005")
    return [(f.severity, f.confidence, f.message) for f in findings]


@pytest.mark.parametrize(
    ("body", "confidence"),
    [
        (f"{STORE}\n{FENCE}\n{OUT.format(2048)}", Confidence.HIGH),
        (f"{STORE}\n{FENCE}\n{OUT.format(528)}", Confidence.HIGH),
        (f"{STORE}\n{OUT.format(2048)}", Confidence.HIGH),  # and there is no fence
        (f"{COPY}\n{DONE}\n{FENCE}\n{OUT.format(2048)}", Confidence.HIGH),
        (f"{STORE}\n{FENCE}\n{TILE}", Confidence.MEDIUM),
        (f"{COPY}\n{DONE}\n{FENCE}\n{TILE}", Confidence.MEDIUM),
        # The warp may have a part of its own.
        (f"{STORE}\n{FENCE}\n{MEET}\n{TILE}", Confidence.LOW),
        (f"{STORE}\n{FENCE}\n{MEET}\n{OUT.format(2048)}", Confidence.HIGH),
        (f"{STORE}\n{FENCE}\n@!%p2 bra end;\n{ELECT}\n@!%p3 bra end;\n{BOX}\nend:", Confidence.MEDIUM),
        (f"{FLAG}\n{STORE}\n{FENCE}\n@!%p3 bra end;\n{BOX}\nend:", Confidence.MEDIUM),
        # To arrive is not to wait.
        (f"{STORE}\n{FENCE}\nmbarrier.arrive.shared.b64 _, [full];\n{TILE}", Confidence.MEDIUM),
        # A barrier that comes too early.
        (f"{SYNC}\n{STORE}\n{FENCE}\n{TILE}", Confidence.MEDIUM),
    ],
)
def test_other_warps_write(body: str, confidence: Confidence) -> None:
    ((severity, said, message),) = found(body)
    assert (severity, said) == (Severity.ERROR, confidence)
    assert "other warps" in message


def test_warps_of_a_warpgroup_wait_for_each_other() -> None:
    """``wgmma.fence`` becomes WARPGROUP.ARRIVE: on an H100 it was never wrong, and the ISA promises nothing."""
    ((severity, confidence, _),) = found(f"{STORE}\n{FENCE}\n{MMA}")
    assert (severity, confidence) == (Severity.INFO, Confidence.HIGH)


def test_the_other_warpgroup_writes() -> None:
    body = f"{STORE}\n{FENCE}\nsetp.lt.u32 %p3, %r0, 128;\n@!%p3 bra end;\n{MMA}\nend:"
    ((severity, confidence, _),) = found(body, 256)
    assert (severity, confidence) == (Severity.ERROR, Confidence.MEDIUM)


HALF = "and.b32 %r5, %r0, 128;\ncvt.u64.u32 %rd2, %r5;\nadd.s64 %rd0, %rd0, %rd2;\nadd.s64 %rd1, %rd1, %rd2;"
"""Moves the descriptors to the bytes that the warpgroup itself writes."""


@pytest.mark.parametrize(
    ("moved", "severity"), [("", Severity.ERROR), (HALF, Severity.INFO)], ids=["the same", "its own"]
)
@pytest.mark.parametrize("write", [STORE, f"{COPY}\n{SYNC}\n{DONE}"])
def test_each_warpgroup_reads_what_the_other_one_writes(write: str, moved: str, severity: Severity) -> None:
    ((said, confidence, _),) = found(f"{moved}\n{write}\n{FENCE}\n{MMA}", 256)
    assert (said, confidence) == (severity, Confidence.HIGH)


@pytest.mark.parametrize(
    ("body", "threads", "confidence"),
    [
        (f"{STORE}\n{FENCE}\n{OUT.format(512)}", 32, Confidence.HIGH),
        (f"{STORE}\n{FENCE}\n{OUT.format(512)}", 128, Confidence.HIGH),
        (f"{STORE}\n{FENCE}\n{TILE}", 32, Confidence.MEDIUM),
        (f"{STORE}\n{FENCE}\n{PART.format(512)}", 128, Confidence.HIGH),
    ],
)
def test_other_lanes_write(body: str, threads: int, confidence: Confidence) -> None:
    ((severity, said, message),) = found(body, threads)
    assert (severity, said) == (Severity.WARNING, confidence)
    assert "other lanes of its warp" in message


@pytest.mark.parametrize(
    "body",
    [
        f"{STORE}\n{FENCE}\n{SYNC}\n{TILE}",
        f"{STORE}\n{FENCE}\nbarrier.sync 3, 128;\n{TILE}",
        f"{STORE}\n{FENCE}\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n{TILE}",
        f"{STORE}\n{FENCE}\nmbarrier.arrive.shared.b64 _, [full];\n{PASS}\n{TILE}",
        # The issuing thread has a fence of its own, after the barrier.
        f"{STORE}\n{SYNC}\n{FENCE}\n{TILE}",
        f"{COPY}\n{DONE}\n{SYNC}\n{FENCE}\n{TILE}",
        # Each thread copies what it has written itself.
        f"{STORE}\n{FENCE}\ncp.async.bulk.global.shared::cta.bulk_group [%rd6], [%r3], 16;",
        f"{STORE}\n{FENCE}\n{OUT.format(16)}",
        # Each warp has a part of its own.
        f"{STORE}\n{FENCE}\n{MEET}\n{PART.format(512)}",
        f"{STORE}\n{FENCE}\n{MEET}\n{OUT.format(512)}",
        f"{STORE}\n{FENCE}\n{ELECT}\n{PART.format(512)}",
        # Not more than the warp has written, whatever the launch says.
        f"and.b32 %r7, %r9, 31;\nshl.b32 %r7, %r7, 4;\n{STORE}\n{FENCE}\n{MEET}\n{OUT.format('%r7')}",
        f"{STORE}\n{FENCE}\n{MEET}\n@%p0 {BOX.replace('%r1', '%r3')}",
        # All write the same to the same place.
        f"st.shared.b32 [%r1], %r9;\n{FENCE}\n{TILE}",
        f"st.shared.b32 [%r1], %r9;\n{FENCE}\n{MMA}",
        f"st.shared.b32 [%r1], %r9;\n{FENCE}\n{OUT.format(16)}",
        # Which thread writes the others' bytes is unknown.
        f"ld.global.u32 %r7, [%rd6];\nsetp.eq.u32 %p3, %r7, 0;\n@%p3 {STORE}\n{FENCE}\n{TILE}",
        # The others see to other bytes, with no fence.
        f"@!%p2 bra own;\nst.shared.b32 [%r3+4096], %r9;\nbra on;\nown: {STORE}\n{FENCE}\n{MEET}\non: {TILE}",
        # Elsewhere.
        f"{STORE}\n{FENCE}\n{TILE.replace('[%r1]', '[tile+4096]')}",
        # A call may wait.
        f"{STORE}\n{FENCE}\ncall other;\n{TILE}",
    ],
)
def test_ordered_or_not_known(body: str) -> None:
    assert not found(body)


def test_how_many_threads_there_are() -> None:
    """Two warps may be one, but a kernel of one warp needs no proxy fence in front of a barrier that it lacks."""
    body = f"{STORE}\n{FENCE}\n{OUT.format(2048)}"
    ((_, confidence, message),) = found(body, 0)
    assert confidence is Confidence.MEDIUM
    assert "other warps" in message


def test_the_fence_may_be_added_first() -> None:
    """Two things are missing here, and both are reported at once: the fix of one must not add the other."""
    text = module(kernel(f"{START}\n{STORE}\n{OUT.format(2048)}\n{SENT}\nret;"), header=HEADER)
    findings = lint(text).findings
    assert [f.rule.id for f in findings if f.rule.id.startswith("PR")] == ["PR001", "PR005"]
    assert all(f.fixes for f in findings if f.rule.id.startswith("PR"))


def test_a_loop_with_a_barrier_may_always_iterate() -> None:
    rounds = (
        f"setp.eq.u32 %p3, %r9, 0;\n@%p3 bra past;\nmov.u32 %r7, 0;\nround:\n{SYNC}\nadd.u32 %r7, %r7, 1;"
    )
    body = f"{STORE}\n{FENCE}\n{rounds}\nsetp.lt.u32 %p4, %r7, %r9;\n@%p4 bra round;\npast:\n{TILE}"
    ((_, confidence, _),) = found(body)
    assert confidence is Confidence.LOW


def test_the_writing_and_the_issuing_threads_are_named() -> None:
    text = module(kernel(f"{START}\n{STORE}\n{FENCE}\n{TILE}\n{SENT}\nret;"), header=HEADER)
    (finding,) = by_rule(lint(text), "PR005")
    assert [step.role for step in finding.steps] == ["all threads", "all threads", "thread 0"]
