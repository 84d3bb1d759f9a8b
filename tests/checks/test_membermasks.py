"""Masks of lanes: lanes that must arrive and cannot, and lanes that arrive and must not."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence
from tests.tools.support import by_rule, kernel, lint, module

TID = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; shr.u32 %r3, %r1, 5; ld.param.u32 %r4, [number];"
END = "L: bar.sync 0;"


def text(body: str, directives: str = ".reqntid 128") -> str:
    return module(kernel(f"{TID}\n{body}\nret;", directives=directives))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (f"setp.ne.u32 %p1, %r1, 0; @%p1 bra L; elect.sync _|%p2, -1; {END}", "only thread 0 can reach it"),
        (
            f"elect.sync _|%p1, -1; @!%p1 bra L; bar.warp.sync -1; {END}",
            "only lane 0 of warps 0-3 can reach it",
        ),
        (
            "setp.lt.u32 %p1, %r2, 16; @%p1 shfl.sync.idx.b32 %r5, %r1, 0, 31, -1; bar.sync 0;",
            "only lanes 0-15 of warps 0-3 can",
        ),
        ("setp.lt.u32 %p1, %r2, 16; @%p1 vote.sync.any.pred %p2, %p3, 0xffff;", ""),
        ("setp.eq.u32 %p1, %r3, 2; @%p1 elect.sync _|%p2, -1;", ""),
        ("setp.lt.u32 %p1, %r2, %r4; @%p1 bar.warp.sync -1;", ""),
        ("setp.lt.u32 %p1, %r2, 16; vote.sync.ballot.b32 %r5, %p1, -1; @%p1 bar.warp.sync %r5;", ""),
        ("setp.lt.u32 %p1, %r2, 16; @%p1 bar.warp.sync -1; @!%p1 bar.warp.sync -1;", ""),
        ("setp.lt.u32 %p1, %r2, 16; @!%p1 exit; bar.warp.sync -1;", ""),
    ],
)
def test_lanes_that_cannot_come(body: str, says: str) -> None:
    found = by_rule(lint(text(body)), "CV005")
    assert len(found) == bool(says)
    assert not found or says in found[0].message


@pytest.mark.parametrize(
    ("body", "directives", "says"),
    [
        ("shfl.sync.idx.b32 %r5, %r1, 0, 31, 0x1f;", ".reqntid 128", "high: lanes 5-31 of warps 0-3"),
        ("shfl.sync.idx.b32 %r5, %r1, 0, 31, 0x1f;", "", "low: lanes 5-31 of warps 0-31"),
        (
            "bar.warp.sync -1; shfl.sync.idx.b32 %r5, %r1, 0, 31, 0x1f;",
            "",
            "medium: lanes 5-31 of warps 0-31",
        ),
        ("shfl.sync.idx.b32 %r5, %r1, 0, 31, 0x1f;", ".maxntid 1024", "medium: lanes 5-31 of warps 0-31"),
        ("shfl.sync.idx.b32 %r5, %r1, 0, 31, 0x1f;", ".reqntid 5", ""),
        ("shfl.sync.idx.b32 %r5, %r1, 0, 31, 0x1f;", ".maxntid 5", ""),
        (
            "mov.b32 %r6, 0xffff; match.any.sync.b32 %r5, %r1, %r6;",
            ".reqntid 32",
            "high: lanes 16-31 of warp 0",
        ),
        ("redux.sync.add.s32 %r5, %r1, 1;", ".reqntid 32", "high: lanes 1-31 of warp 0"),
        ("elect.sync _|%p1, 0;", ".reqntid 32", "high: all threads"),
        ("setp.eq.u32 %p1, %r4, 0; @%p1 bar.warp.sync 0xffff;", ".reqntid 32", "high: lanes 16-31 of warp 0"),
        ("setp.lt.u32 %p1, %r2, 8; @%p1 bar.warp.sync 0xff;", ".reqntid 32", ""),
        ("setp.lt.u32 %p1, %r2, %r4; @%p1 bar.warp.sync 0xff;", ".reqntid 32", ""),
        ("setp.eq.u32 %p1, %r3, %r4; @%p1 bar.warp.sync 0xffff;", ".reqntid 48", ""),
        # At the border of the grid, some lanes may stay away.
        (
            "mov.u32 %r5, %ctaid.x; mad.lo.s32 %r5, %r5, 32, %r2; setp.lt.s32 %p1, %r5, %r4; @%p1 bar.warp.sync 0xffff;",
            ".reqntid 32",
            "high: lanes 16-31 of warp 0",
        ),
        (
            "mov.u32 %r5, %ctaid.x; mad.lo.s32 %r5, %r5, 32, %r2; setp.ge.s32 %p1, %r5, %r4; @%p1 bar.warp.sync 0xffff;",
            ".reqntid 32",
            "",
        ),
        ("activemask.b32 %r5; bar.warp.sync %r5;", ".reqntid 32", ""),
        ("ret; bar.warp.sync 0xffff;", ".reqntid 32", ""),
        (
            "M: bar.warp.sync 0xffff; setp.lt.u32 %p1, %r2, %r4; @%p1 bra M;",
            ".reqntid 32",
            "high: lanes 16-31 of warp 0",
        ),
        (
            "M: setp.eq.u32 %p2, %r4, 1; @%p2 bra N; bar.warp.sync 0xffff; N: setp.lt.u32 %p1, %r2, %r4; @%p1 bra M;",
            ".reqntid 32",
            "high: lanes 16-31 of warp 0",
        ),
        (
            ".shared .b8 roles[4]; ld.shared.u8 %r5, [roles]; T: .branchtargets A, B; brx.idx %r5, T; A: bar.warp.sync 0xffff; B:",
            ".reqntid 32",
            "high: lanes 16-31 of warp 0",
        ),
        ("T: .branchtargets A, B; brx.idx %r2, T; A: bar.warp.sync 0xffff; B:", ".reqntid 32", ""),
    ],
)
def test_lanes_that_must_not_come(body: str, directives: str, says: str) -> None:
    found = by_rule(lint(text(body, directives)), "CV006")
    assert len(found) == bool(says)
    if found:
        who = found[0].message.partition(" is executed by ")[2].partition(", which")[0]
        assert f"{found[0].confidence.label}: {who}" == says


@pytest.mark.parametrize(
    ("barrier", "severity", "confidence"), [("", "error", "low"), ("bar.sync 0;", "info", "medium")]
)
def test_a_cta_barrier_shows_that_there_are_more_lanes_than_the_masks_name(
    barrier: str, severity: str, confidence: str
) -> None:
    """A kernel for less than a warp has no need of it, but may have one."""
    (found,) = by_rule(lint(text(f"{barrier} shfl.sync.down.b32 %r5, %r1, 8, 31, 0xffff;", "")), "CV006")
    assert (found.severity.label, found.confidence.label) == (severity, confidence)


def test_a_butterfly_is_one_finding() -> None:
    steps = "".join(f"shfl.sync.bfly.b32 %r5, %r1, {n}, 31, 0x1f;\n" for n in (16, 8, 4, 2, 1))
    (finding,) = by_rule(lint(text(steps)), "CV006")
    assert finding.count == 5


WAITING = {
    "elect": "elect.sync _|%p2, -1;",
    "shfl": "shfl.sync.idx.b32 %r5, %r1, 31, 31, -1;",
    "vote": "vote.sync.all.pred %p2, 1, -1;",
    "match": "match.any.sync.b32 %r5, %r1, -1;",
    "redux": "redux.sync.add.s32 %r5, %r1, -1;",
    "bar.warp": "bar.warp.sync -1;",
}
POLL = "M: ld{how}.global.u32 %r6, [%rd1]; setp.eq.u32 %p3, %r6, 0; @%p3 bra M;"
MEETING = "mbarrier.try_wait.shared::cta.b64 %p4, [full], %rd1;"


@pytest.mark.parametrize("instruction", WAITING.values(), ids=WAITING)
@pytest.mark.parametrize(
    ("around", "waits"),
    [
        ("@%p1 bra L; {} L: st.global.u32 [%rd1], %r5;", False),
        ("@!%p1 {} st.global.u32 [%rd1], %r5;", False),
        ("@%p1 bra M; {} bra L; M: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 9; @%p3 bra M; L:", False),
        ("@%p1 bra M; {} ret; M: bar.warp.sync 1; L:", True),
        ("@%p1 bra L; {} L: bar.sync 0;", True),
        ("@!%p1 {} bar.sync 0;", True),
        ("@%p1 bra M; {} bra L;" + POLL.format(how=".volatile") + "L:", True),
        ("@%p1 bra M; {} bra L;" + POLL.format(how="") + "L:", False),
        ("@%p1 bra M; {} bra L; M:" + MEETING + "L:", True),
        ("@!%p1 bra N; setp.ge.u32 %p3, %r2, 4; @%p3 exit; bar.sync 0; exit; N: {}", True),
        ("@%p1 exit; setp.eq.u32 %p3, %r2, 1; @%p3 bra L; {} L: bar.sync 0;", True),
        ("@%p1 exit; {} bar.sync 0;", False),
    ],
)
def test_lanes_that_exit_without_waiting_are_not_waited_for(
    instruction: str, around: str, waits: bool
) -> None:
    shared = ".shared .align 8 .b64 full; ld.param.u64 %rd1, [pointer]; setp.lt.u32 %p1, %r2, 1;"
    found = by_rule(lint(text(shared + around.format(instruction))), "CV005")
    assert bool(found) == waits


@pytest.mark.parametrize(
    ("shuffle", "found"),
    [
        ("bfly.b32 %r5, %r1, 16, 31", True),
        ("bfly.b32 %r5, %r1, 8, 31", False),
        ("down.b32 %r5, %r1, 8, 31", False),  # lane 0 of a reduction has the right result
        ("idx.b32 %r5, %r1, 31, 31", True),
        ("idx.b32 %r5, %r1, 0, 31", False),
        ("idx.b32 %r5, %r1, %r4, 31", False),
    ],
)
def test_a_shuffle_that_only_reads_lanes_that_have_exited_is_reported(shuffle: str, found: bool) -> None:
    body = f"setp.ge.u32 %p1, %r2, 16; @%p1 exit; shfl.sync.{shuffle}, -1; st.global.u32 [%rd0], %r5;"
    assert bool(by_rule(lint(text(body)), "CV005")) == found


@pytest.mark.parametrize(
    ("lane", "found"), [("setp.ne.u32 %p2, %r2, 0;", True), ("setp.ne.u32 %p2, %r1, 0;", False)]
)
def test_lanes_of_the_last_warp_that_reads_those_that_have_exited(lane: str, found: bool) -> None:
    """Of 40 threads, eight are in a second warp: what they sum up is wrong, if that is used at all."""
    body = f"""setp.ge.u32 %p1, %r1, 40; @%p1 exit; shfl.sync.down.b32 %r5, %r1, 16, 31, -1;
    {lane} @%p2 exit; st.global.u32 [%rd0], %r5;"""
    assert bool(by_rule(lint(text(body)), "CV005")) == found


def test_the_rows_of_the_cta_decide_which_lanes_come() -> None:
    """``for (r = tid.x; r < blockDim.z; ..)`` around a shuffle of the whole warp (llm.c)."""
    body = f"""
    mov.u32 %r6, %tid.x;
    mov.u32 %r7, %ntid.z;
    setp.ge.u32 %p1, %r6, %r7;
    @%p1 bra L;
    shfl.sync.down.b32 %r5, %r1, 1, 31, -1;
    st.global.u32 [%rd1], %r5;
    {END}
    bar.sync 0;"""
    (finding,) = by_rule(lint(text(body, directives="")), "CV005")
    assert finding.message.endswith("only thread 0 does if %ntid.z is 1")


@pytest.mark.parametrize(("other", "confidence"), [("size", Confidence.LOW), ("rounded", Confidence.MEDIUM)])
def test_a_bound_may_be_rounded_up_where_another_one_decides_what_a_lane_has(
    other: str, confidence: Confidence
) -> None:
    body = f"""
    ld.param.u64 %rd0, [data];
    ld.param.u32 %r1, [rounded];
    ld.param.u32 %r2, [{other}];
    mov.u32 %r3, %tid.x;
    setp.ge.s32 %p0, %r3, %r1;
    @%p0 exit;
    mul.wide.s32 %rd1, %r3, 4;
    add.s64 %rd1, %rd0, %rd1;
    mov.u32 %r4, 0;
    setp.ge.s32 %p1, %r3, %r2;
    @%p1 bra over;
    ld.global.u32 %r4, [%rd1];
    over:
    shfl.sync.bfly.b32 %r5, %r4, 16, 31, -1;
    st.global.u32 [%rd1], %r5;
    ret;
    """
    parameters = ".param .u64 data, .param .u32 rounded, .param .u32 size"
    (finding,) = by_rule(lint(module(kernel(body, directives="", parameters=parameters))), "CV005")
    assert finding.confidence is confidence
