"""Replays: what each warp of a group knows when one thread releases a stage."""

from __future__ import annotations

import pytest

from tclint.replay.sync import ReleasedWaiter
from tclint.replay.vector_clocks import (
    BOTTOM,
    Agent,
    event,
    happens_before,
    join_all,
    join_warps,
    map_warps,
    mask_warps,
    project,
    reconverge_clocks,
    select_warps,
)
from tests.tools.replay import GIVE, LOAD, WAIT, changed, replay, what

MEETS = "    bar.sync 1, 128;\n"
ONE = (
    changed("[empty], 128", "[empty], 1")
    .replace("[empty+8], 128", "[empty+8], 1")
    .replace("[empty+16], 128", "[empty+16], 1")
)
"""One thread gives back for all consumers."""
GIVES = {
    "a guard": "    setp.eq.u32 %p2, %r0, 0;\n    @%p2" + GIVE.removeprefix("   "),
    "a branch": f"    setp.ne.u32 %p2, %r0, 0;\n    @%p2 bra given;\n{GIVE}given:\n",
}


@pytest.mark.parametrize("meets", [True, False])
def test_one_warp_waits_for_all(meets: bool) -> None:
    """Reconvergence after a branch orders nothing, a barrier does."""
    waits = "    setp.ge.u32 %p2, %r0, 32;\n    @%p2 bra had;\n" + WAIT + "had:\n" + MEETS * meets
    run = replay(changed(WAIT, waits)).run
    assert run is None if meets else what(run) == {"race"}


@pytest.mark.parametrize("gives", GIVES)
@pytest.mark.parametrize("meets", [True, False])
def test_one_thread_releases_a_stage_for_all(gives: str, meets: bool) -> None:
    """It knows what its own warp has read, and what others have only after a barrier."""
    run = replay(changed(GIVE, MEETS * meets + GIVES[gives], ONE)).run
    assert run is None if meets else what(run) == {"early"}


def test_one_lane_of_a_single_warp_releases_a_stage() -> None:
    """Lanes of a warp are not distinguished where they reconverge."""
    code = changed(LOAD, LOAD + "    bar.warp.sync 0xffffffff;\n", ONE)
    code = code.replace("%r0, 128;", "%r0, 32;").replace("reqntid 160", "reqntid 64")
    assert replay(changed(GIVE, GIVES["a branch"], code)).run is None


MULTIPLY = """    shr.u32 %r32, %r30, 4;
    cvt.u64.u32 %desc, %r32;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %desc, %desc, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
"""
BEYOND = MULTIPLY.replace("%r30, 4;\n", "%r30, 4;\n    or.b32 %r32, %r32, 0x4000;\n")
MATRICES = changed("mad.lo.u32 %r30, %r0, 16, %r30;", "mad.lo.u32 %r31, %r0, 16, %r30;", ONE)
MATRICES = MATRICES.replace("sm_90", "sm_90a").replace(
    "%in, %out;", "%in, %out, %desc;\n    .reg .f32 %f<4>;", 1
)
MATRICES = MATRICES.replace(GIVE, GIVES["a branch"])
LOADS = "    ld.shared.u32 %r32, [%r31];\n"


@pytest.mark.parametrize(
    ("does", "early"),
    [
        (MULTIPLY, False),
        (MULTIPLY.replace("group.sync.aligned 0", "group.sync.aligned 1"), True),
        (LOADS + MULTIPLY, False),
        (MULTIPLY + LOADS, True),
        # An address that no descriptor has room for.
        (BEYOND.replace("group.sync.aligned 0", "group.sync.aligned 1"), False),
    ],
)
def test_one_thread_releases_what_a_warpgroup_multiplies(does: str, early: bool) -> None:
    """A wgmma is complete for all four warps, and only after each of them has issued it."""
    run = replay(changed("    " + LOAD, does, MATRICES)).run
    assert what(run) == {"early"} if early else run is None


STAGE_OF_A_WARP = """.version 8.6
.target sm_90
.address_size 64
.visible .entry stages(.param .u64 in, .param .u32 rounds)
.reqntid 96
{
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    .reg .b64 %in;
    .shared .align 8 .b64 full[2];
    .shared .align 8 .b64 empty[2];
    .shared .align 128 .b8 tile[1024];
    ld.param.u64 %in, [in];
    ld.param.u32 %r9, [rounds];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
    mbarrier.init.shared::cta.b64 [empty+8], 32;
ready:
    bar.sync 0;
    mov.u32 %r1, full;
    mov.u32 %r2, empty;
    mov.u32 %r3, tile;
    mov.u32 %r4, 0;
    shr.u32 %r5, %r0, 5;
    setp.lt.u32 %p1, %r0, 64;
    @%p1 bra consumer;
    setp.ne.u32 %p1, %r0, 64;
    @%p1 bra done;
    mov.u32 %r6, 1;
load:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r6;
    @!%p2 bra load;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 512;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%in], 512, [%r1];
other:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+8], %r6;
    @!%p2 bra other;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8], 512;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3+512], [%in], 512, [%r1+8];
    xor.b32 %r6, %r6, 1;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, %r9;
    @%p3 bra load;
    bra done;
consumer:
    mov.u32 %r6, 0;
    mad.lo.u32 %r1, %r5, 8, %r1;
    mad.lo.u32 %r2, %r5, 8, %r2;
    mad.lo.u32 %r3, %r0, 16, %r3;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r6;
    @!%p2 bra wait;
    ld.shared.u32 %r8, [%r3];
    mbarrier.arrive.shared::cta.b64 _, [%r2];
    xor.b32 %r6, %r6, 1;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, %r9;
    @%p3 bra wait;
done:
    ret;
}
"""


def test_each_warp_has_a_stage_of_its_own() -> None:
    """Warps on the same path observe only what they wait for, and read only what is theirs."""
    assert replay(STAGE_OF_A_WARP).run is None
    reads = "    xor.b32 %r7, %r0, 32;\n    mad.lo.u32 %r3, %r7, 16, %r3;\n"
    assert what(replay(changed("    mad.lo.u32 %r3, %r0, 16, %r3;\n", reads, STAGE_OF_A_WARP)).run) == {
        "race",
        "early",
    }


@pytest.mark.parametrize("right", [True, False])
def test_a_kernel_that_is_made_for_one_warp_of_consumers(right: bool) -> None:
    """What only more threads read, as what is left over of a loop, does not say that it is made for more."""
    code = changed(GIVE, GIVES["a branch"].replace("%r0, 0", "%r0, 32"), ONE).replace(".reqntid 160\n", "")
    code = code.replace("setp.lt.u32 %p2, %r0, 128;", "setp.ge.u32 %p2, %r0, 32;").replace(
        "%r0, 128;", "%r0, 0;"
    )
    more = "    setp.lt.u32 %p2, %r0, 64;\n    @%p2 bra less;\n    " + LOAD + "less:\n"
    code = changed("    " + LOAD, more + "    " + LOAD, code)
    if not right:
        code = code.replace(WAIT, "")
    run = replay(code).run
    assert run is None if right else "race" in what(run)


def test_reconvergence_joins_no_clocks_of_different_warps() -> None:
    """Warps that reconverge keep what each knew, until a barrier joins their clocks."""
    one, other = Agent(0, "", 0, (0,)), Agent(1, "", 0, (32,))
    group = Agent(2, "", 0, (0, 32), (one, other))
    observed = reconverge_clocks([((0,), event(one, 3)), ((1,), event(other, 5))], (0, 1))
    assert observed == (event(one, 3), event(other, 5))
    assert select_warps(observed, (0, 1), (1,)) == event(other, 5)
    assert mask_warps(observed, (0, 1), {1}) == (BOTTOM, event(other, 5))
    assert join_warps(observed, join_all(observed)) == join_all(observed)
    assert happens_before(join_all(observed), group, 3)
    assert not happens_before(join_all(observed), group, 4)
    assert map_warps(lambda clock: project([one], clock), observed) == (event(one, 3), BOTTOM)


@pytest.mark.parametrize(("observed", "overtaken"), [((), True), ((0,), False), ((0, 1), False)])
def test_a_released_warp_is_not_late_if_all_its_warps_have_observed_the_phase(
    observed: tuple[int, ...], overtaken: bool
) -> None:
    warps = Agent(0, "", 0, (0,)), Agent(1, "", 0, (32,))
    passed = ReleasedWaiter(0, Agent(2, "", 0, (0, 32), warps), (0, 32), 0, 0)
    assert passed.may_be_late(lambda actor, number: actor.index in observed) is overtaken
