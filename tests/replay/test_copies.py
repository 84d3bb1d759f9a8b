"""Replays: copies into and out of shared memory, and what they overwrite."""

from __future__ import annotations

import pytest

from tclint.checks.replay import replayed
from tclint.replay.launch import LaunchValues, ReplayLaunch
from tclint.replay.machine import ReplayMachine
from tclint.replay.program import ReplaySlice
from tclint.replay.scheduler import Limits
from tests.tools.replay import FILLED, GIVE, LOADED, READ, STORED, TWO, WAIT, changed, replay, reports, what
from tests.tools.support import analysed


def test_a_copy_is_ordered_after_what_its_thread_has_waited_for() -> None:
    """A second producer that does not arrive: no phase can be over before its copy, and so not before its wait."""
    asks = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r28], %r23;"
    second = changed(
        "    setp.ne.u32 %p3, %r0, 128;\n    @%p3 bra done;\n", "    mov.u32 %r1, 128;\n"
    ).replace(
        "load:\n",
        "    and.b32 %r2, %r0, 31;\n    setp.ne.u32 %p3, %r2, 0;\n    @%p3 bra done;\n    setp.ne.u32 %p3, %r0, %r1;\nload:\n",
    )
    second = second.replace(".reqntid 160", ".reqntid 192").replace("%p<6>", "%p<7>")
    second = second.replace("    mbarrier.arrive.expect_tx", "    @!%p3 mbarrier.arrive.expect_tx").replace(
        "_, [%r29], 2048", "_, [%r29], 4096"
    )
    assert asks in second
    assert replay(second).run is None


def test_the_copies_of_a_phase_are_complete_together() -> None:
    """However many places they go to: clocks grow with the mbarriers, and not with the rows that are gathered."""
    copy = "    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r30], [%in], 2048, [%r29];\n"
    rows = "".join(copy.replace("[%r30]", f"[%r30+{at}]").replace("2048", "32") for at in range(0, 2048, 32))
    code = changed(copy, rows)
    made = analysed(code)
    machine = ReplayMachine(ReplaySlice(made), ReplayLaunch(made, LaunchValues(8, 8), (160,)), Limits(50_000))
    assert machine.run() == []
    assert len(machine.operations.copy_counts) == 3
    assert replay(code).run is None
    assert "race" in what(replay(changed(WAIT, "", code)).run)


def test_a_copy_awaited_by_its_thread_orders_its_earlier_reads() -> None:
    """A thread that waits for a copy issued after a read overwrites nothing that is still read."""
    expects = (
        "    mov.u32 %r33, spare;\n    @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r28], 4096;\n"
    )
    copies = "    @!%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r33], [%out], 4096, [%r28];\n"
    code = TWO.replace("[loaded], 128;", "[loaded], 1;").replace("[loaded+8], 128;", "[loaded+8], 1;")
    code = changed("operands[8192];", "operands[8192];\n    .shared .align 16 .b8 spare[4096];", code)
    following = changed(LOADED + GIVE, expects + LOADED + "    bar.sync 1, 128;\n" + copies, code)
    assert replay(following).run is None
    assert "early" in what(replay(changed(LOADED + GIVE, expects + copies + LOADED, code)).run)


OUT = "    cp.async.bulk.global.shared::cta.bulk_group [%out], [%r30], 2048;\n"
MADE = (
    "    st.shared.v4.b32 [%r30], {%r21, %r21, %r21, %r21};\n    fence.proxy.async.shared::cta;\n"
    "    mbarrier.arrive.shared::cta.b64 _, [%r29];\n"
)
OVERWRITTEN = "overwrites shared memory that cp.async.bulk may still be reading"
UNWRITTEN = "reads shared memory that st.shared may not have written yet"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param("", "", "", id="as it is"),
        pytest.param(READ, READ.replace("read 0", "read 1"), OVERWRITTEN, id="one copy may still read"),
        pytest.param(READ + GIVE, GIVE + READ, OVERWRITTEN, id="given back before the wait"),
        pytest.param(READ, "", OVERWRITTEN, id="no wait for the copy"),
        pytest.param("    cp.async.bulk.commit_group;\n" + READ, READ + "    cp.async.bulk.commit_group;\n", OVERWRITTEN, id="committed after the wait"),
        pytest.param(WAIT, "", UNWRITTEN, id="copied without a wait"),
        pytest.param(MADE, "\n".join([*MADE.split("\n")[2:], *MADE.split("\n")[:2]]), UNWRITTEN, id="signalled before it is stored"),
        pytest.param("    setp.ne.u32 %p3, %r0, 128;\n    @%p3 bra done;\n", "    setp.ne.u32 %p3, %r0, 130;\n    @%p3 bra done;\n", "", id="another lane copies"),
        pytest.param("mad.lo.u32 %r30, %r0, 16, %r30;", "mad.lo.u32 %r30, %r20, 16, %r30;", "", id="where it is stored depends on the launch"),
    ],
)  # fmt: skip
def test_what_a_fault_does_to_what_threads_store(old: str, new: str, said: str) -> None:
    code = changed(old, new, STORED)
    if "%r20, 16" in new:
        code = changed(READ, "", code)
    hits = list(replayed(analysed(code)))
    assert [said in hit.message for hit in hits] == ([True] if said else [])


ASIDE = "    and.b32 %r1, %r0, 8;\n    shl.b32 %r1, %r1, 8;\n    add.u32 %r30, %r30, %r1;\n"
"""The addresses of lanes 8 to 15 and 24 to 31 are in the next stage."""


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize(
    ("number", "registers", "races"), [("x1", "%r21", False), ("x2", "%r21, %r21", True)]
)
def test_lanes_whose_address_does_not_count_access_nothing(
    loads: bool, number: str, registers: str, races: bool
) -> None:
    """The rows are at the addresses of the first lanes (9.7.14.5.15, 9.7.14.5.16)."""
    if loads:
        registers = registers.replace("21", "32", 1).replace("21", "1")
        rows = f"ldmatrix.sync.aligned.m8n8.{number}.shared.b16 {{{registers}}}, [%r30];"
        code = changed("    ld.shared.u32 %r32, [%r30];", ASIDE + "    " + rows)
    else:
        rows = f"stmatrix.sync.aligned.m8n8.{number}.shared.b16 [%r30], {{{registers}}};"
        old = "    st.shared.v4.b32 [%r30], {%r21, %r21, %r21, %r21};"
        code = changed(old, ASIDE + "    " + rows, STORED)
    assert bool(list(replayed(analysed(code)))) == races


def test_what_a_copy_overwrites_that_threads_store() -> None:
    """The stage is loaded by a bulk copy into what other warps store to, and no thread waits for either."""
    copy = (
        "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [spare], 2048;\n"
        "    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r30], [%out], 2048, [spare];\n"
    )
    code = changed(
        "    .shared .align 128", "    .shared .align 8 .b64 spare;\n    .shared .align 128", STORED
    )
    code = changed("[empty+8], 1;\n", "[empty+8], 1;\n    mbarrier.init.shared::cta.b64 [spare], 1;\n", code)
    early = changed(WAIT, "", changed(OUT, copy, code))
    (hit,) = replayed(analysed(early))
    assert "overwrites shared memory that " in hit.message
    assert "may still be writing" in hit.message


def test_a_tensor_copy_does_not_reach_what_follows_its_destination() -> None:
    """How much a tensor copy loads is not in the text; the next copy may begin far beyond it."""
    tensor = "    cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [{}], [%map, {{%r21}}], [spare];\n"
    copies = (
        "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [spare], 8192;\n"
        + tensor.format("low")
        + tensor.format("high")
    )
    code = changed(
        "    .shared .align 128 .b8 tile[4096];",
        "    .shared .align 128 .b8 low[128];\n    .shared .align 128 .b8 tile[4096];\n"
        "    .shared .align 128 .b8 high[128];\n    .shared .align 8 .b64 spare;\n    .reg .b64 %map;",
        STORED,
    )
    code = changed("[empty+8], 1;\n", "[empty+8], 1;\n    mbarrier.init.shared::cta.b64 [spare], 1;\n", code)
    begin = "    @%p3 bra done;\n"
    asked = replay(changed(begin, begin + copies, code))
    assert asked.run is None
    assert [run.finished for run in asked.runs] == [True]


HALVES = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) .reqntid 64
{
    .shared .align 8 .b64 m;
    .shared .align 128 .b8 buffer[1024];
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .b64 %out;
    ld.param.u64 %out, [p];
    ld.param.u32 %r9, [n];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    add.u32 %r2, %r1, 1;
    and.b32 %r3, %r0, 31;
    mov.u32 %r4, buffer;
    setp.ne.u32 %p0, %r0, 0;
    setp.ne.u32 %p1, %r3, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [m], 64;
    bar.sync 0;
    mov.u32 %r7, 0;
    mov.u32 %r8, 0;
again:
    mbarrier.arrive.shared::cta.b64 _, [m];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], %r7;
    @!%p2 bra wait;
    xor.b32 %r7, %r7, 1;
    @%p1 bra read;
    cp.async.bulk.wait_group.read 0;
read:
    bar.sync %r2, 32;
    mov.u32 %r10, %tid.x;
    mad.lo.u32 %r5, %r10, 16, %r4;
    st.shared.v4.b32 [%r5], {%r8, %r8, %r8, %r8};
    fence.proxy.async.shared::cta;
    bar.sync %r2, 32;
    @%p1 bra next;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [%r5], 512;
    cp.async.bulk.commit_group;
next:
    bar.warp.sync -1;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, %r9;
    @%p3 bra again;
    ret;
}
"""
"""Two warps, of which each has a barrier of its own, and a thread that copies what the warp has stored."""


@pytest.mark.parametrize("depth", [0, 1])
def test_each_of_two_warps_waits_for_its_own_copy(depth: int) -> None:
    """What one of the threads has committed is not lost where both continue together."""
    run = replay(changed("wait_group.read 0", f"wait_group.read {depth}", HALVES)).run
    assert (run is None) is (depth == 0)


def test_the_finding_about_a_stage_that_is_released_too_early() -> None:
    (found,) = reports(changed(READ, READ.replace("read 0", "read 1"), STORED))
    assert found.rule.id == "BK002"
    assert [step.role for step in found.steps] == [
        "lane 0 of warp 4",
        "lane 0 of warp 4",
        "warps 0-3",
        "warps 0-3",
    ]
    assert found.steps[0].message == "starts to read it"
    assert "cp.async.bulk.wait_group.read" in (found.help or "")


COMMIT = "cp.async.commit_group;\n"
TRACK = "cp.async.mbarrier.arrive.shared::cta.b64 [%r9];"


@pytest.mark.parametrize(
    ("done", "seen"),
    [
        ("cp.async.wait_all;", ""),
        (f"{COMMIT}cp.async.wait_group 0;", ""),
        (f"{COMMIT}cp.async.wait_group 1;", "race"),
        (f"{COMMIT}{COMMIT}cp.async.wait_group 1;", ""),
        ("cp.async.wait_group 0;", "race"),  # of no group
        (COMMIT, "race"),
        (TRACK, ""),
        (TRACK.replace("%r9", "%r7"), "race"),  # another mbarrier
        (TRACK.replace("arrive.", "arrive.noinc."), "stuck"),  # twice as many arrivals
    ],
)
def test_copies_of_threads_that_another_role_reads(done: str, seen: str) -> None:
    """A thread that arrives releases a copy only if it has waited for it, or lets the mbarrier track it (9.7.9.25.3, 9.7.13.15.15)."""
    run = replay(changed("DONE", done, FILLED)).run
    assert what(run) == {seen} if seen else run is None


@pytest.mark.parametrize(
    ("done", "why"),
    [
        (f"{COMMIT}cp.async.wait_group 1;", "cp.async.wait_group 1 leaves the newest group in flight"),
        (TRACK.replace("%r9", "%r7"), "no cp.async.wait_group before it covers the copy"),
    ],
)
def test_an_arrival_before_a_copy_is_complete_is_what_is_wrong(done: str, why: str) -> None:
    (finding,) = [f for f in reports(changed("DONE", done, FILLED)) if f.rule.id == "CA001"]
    assert "arrives at an mbarrier although a cp.async of this thread may not have" in finding.message
    assert finding.message.endswith(why)
    assert finding.steps[-1].message == "reads it"


def test_what_is_loaded_into_a_register_that_held_a_parity() -> None:
    """nvcc takes a register that is 0 for the first stage, and then adds up there what the threads load."""
    reused = changed(
        "mov.u32 %r1, 0;\n    mov.u32 %r2, 0;",
        "mov.u32 %r11, 0;\n    mov.u32 %r1, %r11;\n    mov.u32 %r2, 0;",
        FILLED,
    )
    assert what(replay(changed("DONE", f"{COMMIT}cp.async.wait_group 1;", reused)).run) == {"race"}
    assert replay(changed("DONE", f"{COMMIT}cp.async.wait_group 0;", reused)).run is None


def test_copies_that_arrive_are_arrivals() -> None:
    only = changed("DONE\n    mbarrier.arrive.shared::cta.b64 _, [%r9];", "DONE", FILLED)
    assert replay(changed("DONE", TRACK.replace("arrive.", "arrive.noinc."), only)).run is None
    assert what(replay(changed("DONE", TRACK, only)).run) == {"stuck"}


def test_copies_of_threads_into_what_others_may_still_read() -> None:
    read, gives = "ld.shared.u32 %r11, [%r10];\n", "mbarrier.arrive.shared::cta.b64 _, [%r9];\n"
    frees = f"    add.u32 %r9, %r8, %r7;\n    {gives}"
    code = changed(f"    {read}{frees}", f"{frees}    {read}", changed("DONE", "cp.async.wait_all;", FILLED))
    (finding,) = [f for f in reports(code) if f.rule.id == "SM001"]
    assert "overwrites shared memory that ld.shared may still be reading" in finding.message
    code = changed("DONE", COMMIT, FILLED)
    (finding,) = [f for f in reports(code) if f.rule.id == "CA001"]
    assert "reads shared memory that only a cp.async writes" in finding.message
    assert "cp.async.wait_group" in finding.help
    # Whether lanes of one warp have waited is not followed: CA001 does.
    own = changed(".reqntid 64", ".reqntid 32", changed("@%p1 bra use;", "", code))
    assert replay(own).run is None or "race" not in what(replay(own).run)
