"""Replays: rings of stages, and what one fault does to them."""

from __future__ import annotations

import pytest

from tclint.checks.replay import replayed
from tclint.replay.program import ReplaySlice
from tclint.replay.reasons import NotReplayed
from tclint.replay.verdict import Replay
from tests.tools.replay import FREE, GIVE, LOAD, RING, WAIT, changed, replay, reports, what, why
from tests.tools.support import analysed, kernel, model, module


def test_a_ring_that_works() -> None:
    assert replay(RING).run is None


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param(FREE, "", "overrun", id="producer does not wait"),
        pytest.param(GIVE, "", "stuck", id="stage not given back"),
        pytest.param(GIVE, GIVE.replace("%r28", "%r29"), "overrun", id="arrival at the wrong mbarrier"),
        pytest.param(GIVE, GIVE + GIVE, "stuck", id="stage given back twice"),
        pytest.param("    xor.b32 %r23, %r23, %r31;\n    add.u32 %r21, %r21, 1;\n    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use",
                     "    add.u32 %r21, %r21, 1;\n    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use", "race", id="parity does not flip"),
        pytest.param("mov.u32 %r23, 1;", "mov.u32 %r23, 0;", "stuck", id="producer begins with parity 0"),
        pytest.param("    mov.u32 %r3, 0;\n", "    mov.u32 %r3, 0;\n    mov.u32 %r23, 1;\n", "stuck", id="consumer begins with parity 1"),
        pytest.param("_, [%r29], 2048", "_, [%r29], 2064", "stuck", id="bytes that do not come"),
        pytest.param("[full+8], 1;", "[full+8], 2;", "stuck", id="count of one stage"),
        pytest.param(WAIT, WAIT.replace(".parity.", ".parity.relaxed.cta."), "race", id="relaxed wait"),
        pytest.param(WAIT, WAIT.replace(".parity.", ".parity.relaxed.cta.") + "    fence.acq_rel.cta;\n", "", id="and a fence"),
        pytest.param(GIVE, GIVE.replace(".arrive.", ".arrive.relaxed.cta."), "early", id="relaxed arrival"),
        pytest.param(GIVE, "    fence.acq_rel.cta;\n" + GIVE.replace(".arrive.", ".arrive.relaxed.cta."), "", id="after a fence"),
        pytest.param(GIVE, "    fence.mbarrier_init.release.cluster;\n" + GIVE.replace(".arrive.", ".arrive.relaxed.cta."), "early",
                     id="after a fence that orders nothing but inits"),
        pytest.param("setp.eq.u32 %p4, %r22, 3;", "setp.eq.u32 %p4, %r22, 2;", "", id="two stages of three"),
        pytest.param(GIVE, f"    {LOAD.replace(']', '+8]')}{GIVE}    {LOAD.replace(']', '+4]')}", "early", id="one of three reads after the arrival"),
    ],
)  # fmt: skip
def test_what_a_fault_does_to_a_ring(old: str, new: str, seen: str) -> None:
    run = replay(changed(old, new)).run
    if seen:
        assert seen in what(run)
    else:
        assert run is None


WAITS = """.func wait(.param .b32 at, .param .b32 parity)
{
    .reg .pred %p0;
    .reg .b32 %r<2>;
    ld.param.u32 %r0, [at];
    ld.param.u32 %r1, [parity];
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], %r1;
    @!%p0 bra again;
    ret;
}
.func (.param .b32 next) used(.param .align 8 .b8 both[8])
{
    .reg .pred %p0;
    .reg .b32 %r<2>;
    ld.param.v2.u32 {%r0, %r1}, [both];
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], %r1;
    @!%p0 bra again;
    st.param.b32 [next], %r1;
    ret;
}
"""
CALLS = (
    (FREE, """    {
    .param .b32 a;
    .param .b32 b;
    st.param.b32 [a], %r28;
    st.param.b32 [b+0], %r23;
    call.uni wait, (a, b);
    }
"""),
    (WAIT, """    {
    .param .align 8 .b8 a[8];
    .param .b32 b;
    .reg .b64 %both;
    st.param.v2.b32 [a], {%r29, %r23};
    call.uni (b), used, (a);
    ld.param.b32 %r23, [b];
    }
"""),
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("", "", False, id="right"),
        pytest.param("mov.u32 %r23, 1;", "mov.u32 %r23, 0;", True, id="producer begins with parity 0"),
        pytest.param("st.param.b32 [next], %r1", "st.param.b32 [next], 1", True, id="what is returned"),
        pytest.param("st.param.v2.b32 [a], {%r29, %r23};", "mov.b64 %both, {%r29, %r23};\n    st.param.b64 [a], %both;", False, id="halves"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrong", [False, True])
def test_a_kernel_with_calls_is_replayed_as_without_them(old: str, new: str, seen: bool, wrong: bool) -> None:
    """Calls in different scopes have parameters of one name, of other sizes; of one given as a whole, no half is known."""
    code = RING
    for before, call in CALLS:
        code = changed(before, call, code)
    code = changed(".visible", WAITS + ".visible", code)
    if wrong:
        code = changed("[full+8], 1;", "[full+8], 2;", code)
    found = reports(changed(old, new, code))
    known = "both" not in new
    assert [f.rule.id for f in found] == ["MB006"] * (wrong and known) + ["MB016"] * (seen and not wrong)


STAGES = """
    .shared .align 8 .b64 m[16];
    .shared .align 16 .b8 tile[16];
    ld.param.u32 %r2, [number];
    mov.u32 %r0, %tid.x;
    mov.u32 %r3, m;
    mad.lo.u32 %r3, %r2, 32768, %r3;
    mad.lo.u32 %r4, %r0, 8, %r3;
    mov.u32 %r5, %r0;
    setp.ge.s32 %p0, %r0, %r2;
    @%p0 bra ready;
next:
    mbarrier.init.shared::cta.b64 [%r4], 1;
    add.u32 %r4, %r4, 1024;
    add.u32 %r5, %r5, 128;
    setp.lt.s32 %p1, %r5, %r2;
    @%p1 bra next;
ready:
    bar.sync 0;
    setp.ne.u32 %p3, %r0, 0;
    @%p3 bra wait;
    ld.param.u64 %rd0, [pointer];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 16, [%r3];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra wait;
    ret;
"""
"""Threads initialise as many mbarriers as a parameter states, one or several each, after so many stages of 32 KB."""


def test_a_ring_whose_depth_the_launch_decides() -> None:
    """How many threads initialise mbarriers depends on the launch, and divides no roles."""
    right = Replay(model(STAGES))
    assert right.incomplete == ""
    assert right.run is None
    assert what(Replay(model(changed("[%r4], 1;", "[%r4], 2;", STAGES))).run) == {"stuck"}


SLOTS = """
    .shared .align 8 .b64 m;
    .shared .align 4 .b8 given[1024];
    .shared .align 4 .b8 taken[1024];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ntid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], %r1;
ready:
    bar.sync 0;
    shl.b32 %r2, %r0, 2;
    mov.u32 %r3, given;
    add.u32 %r3, %r3, %r2;
    mov.u32 %r4, taken;
    add.u32 %r4, %r4, %r2;
    st.shared.u32 [%r3], %r0;
    ld.shared.u32 %r5, [%r3];
    st.shared.u32 [%r4], %r5;
    mbarrier.arrive.shared::cta.b64 _, [m];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], 0;
    @!%p2 bra wait;
    ret;
"""
"""Each thread of a CTA of at most 256 threads has a slot in two arrays."""


def test_what_a_loop_moves_beyond_an_array_says_nothing_about_the_threads() -> None:
    fill = """    ld.param.u32 %r6, [number];
    mov.u32 %r7, given;
    mov.u32 %r8, 0;
fill:
    st.shared.u32 [%r7], %r8;
    add.u32 %r7, %r7, 4;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, %r6;
    @%p3 bra fill;
"""
    found = model(changed("    mbarrier.arrive", fill + "    mbarrier.arrive", SLOTS), directives="")
    program = ReplaySlice(found)
    assert [program.accesses.array(i) for i in found.shared.writers] == [
        ("given", 1024),
        ("taken", 1024),
        None,
    ]


def test_a_cta_with_more_threads_than_its_arrays_have_slots_shows_nothing() -> None:
    assert Replay(model(SLOTS, directives="")).run is None
    stuck = changed(
        "[m], %r1;", "[m], %r2;", changed("%ntid.x;\n", "%ntid.x;\n    add.u32 %r2, %r1, 1;\n", SLOTS)
    )
    assert what(Replay(model(stuck, directives="")).run) == {"stuck"}
    small = SLOTS.replace("[1024]", "[128]")
    assert why(Replay(model(small, directives=""))) == NotReplayed.NO_CTA_SHAPE


LATE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry late()
.reqntid 64
{
    .reg .pred %p<3>;
    .reg .b32 %r<2>;
    .shared .align 8 .b64 given;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [given], 32;
ready:
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra give;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [given], 0;
    @!%p2 bra wait;
    ret;
give:
    mbarrier.arrive.shared::cta.b64 _, [given];
    ret;
}
"""


def test_a_wait_that_may_come_too_late() -> None:
    """The other parity is that of the previous phase: a late thread waits for a phase that no thread completes."""
    assert replay(LATE).run is None
    code = changed("[given], 0;", "[given], 1;", LATE)
    run = replay(code).run
    assert run is not None
    assert run.late
    assert not run.deadlocks
    (hit,) = replayed(analysed(code))
    assert hit.rule == "MB016"
    assert (
        "may wait for a later phase of the mbarrier: phase 0 can complete before this wait tests it"
        in hit.message
    )
    assert [(step.role, step.aside) for step in hit.steps] == [
        (None, False),
        ("warp 1", True),  # what completes the phase
        ("warp 0", False),
    ]
    ordered = changed("    @!%p2 bra wait;\n", "    @!%p2 bra wait;\n    bar.sync 1, 64;\n", code)
    assert replay(changed("give:\n", "give:\n    bar.sync 1, 64;\n", ordered)).run is None


ROOM = """    mov.u32 %r1, full;
    mov.u32 %r2, empty;
    mov.u32 %r21, 0;
more:
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.init.shared::cta.b64 [%r2], 128;
    add.u32 %r1, %r1, 8;
    add.u32 %r2, %r2, 8;
    add.u32 %r21, %r21, 1;
    setp.lt.u32 %p1, %r21, {depth};
    @%p1 bra more;
ready:
"""


def with_depth() -> str:
    """RING with {depth} stages, and room for three."""
    first, _, rest = RING.partition("    mbarrier.init")
    code = first + ROOM + rest.partition("ready:\n")[2]
    return code.replace(".param .u32 rounds)", ".param .u32 rounds, .param .u32 depth)").replace(
        "setp.eq.u32 %p4, %r22, 3;", "setp.eq.u32 %p4, %r22, {depth};"
    )


def with_given_depth() -> str:
    """RING whose depth is a number of the launch."""
    return (
        with_depth()
        .replace("{depth}", "%r1")
        .replace("setp.lt.u32 %p1, %r21, %r1;", "ld.param.u32 %r3, [depth];\n    setp.lt.u32 %p1, %r21, %r3;")
        .replace("setp.eq.u32 %p4, %r22, %r1;", "ld.param.u32 %r1, [depth];\n    setp.eq.u32 %p4, %r22, %r1;")
    )


def test_a_ring_that_is_deeper_than_there_is_room_for() -> None:
    """The depth is a number of the launch; where an init of one more mbarrier hits one of the others, it is smaller."""
    constant = with_depth().replace("{depth}", "3")
    assert replay(constant).run is None
    assert "stuck" in what(replay(constant.replace(GIVE, "")).run)
    given = with_given_depth()
    asked = replay(given)
    assert asked.run is None
    assert [run.wrong for run in asked.runs] == [False]
    assert "stuck" in what(replay(given.replace(GIVE, "")).run)


@pytest.mark.parametrize(("least", "sound"), [(3, True), (4, False)])
def test_a_ring_is_as_deep_as_there_is_room_for(least: int, sound: bool) -> None:
    """Consumers that release no stage of a ring with fewer stages than *least*."""
    given = (
        f"    ld.param.u32 %r1, [depth];\n    setp.ge.u32 %p3, %r1, {least};\n"
        "    @%p3 mbarrier.arrive.shared::cta.b64 _, [%r28];\n"
    )
    asked = replay(with_given_depth().replace(GIVE, given))
    assert (asked.run is None) == sound
    assert any(not run.wrong for run in asked.runs) == sound


STAGES_OF_THE_LAUNCH = """
    .shared .align 8 .b64 full[4];
    .shared .align 128 .b8 tile[8192];
    .shared .align 128 .b8 other[512];
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r1, [number];
    ld.param.u64 %rd0, [pointer];
    cvta.to.global.u64 %rd1, %rd0;
    shl.b32 %r5, %r0, 2;
    mov.u32 %r6, other;
    add.u32 %r6, %r6, %r5;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mov.u32 %r2, 0;
    mov.u32 %r3, full;
init:
    mbarrier.init.shared::cta.b64 [%r3], 1;
    add.u32 %r3, %r3, 8;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra init;
ready:
    st.shared.u32 [%r6], %r0;
    bar.sync 0;
    @%p0 bra use;
    mov.u32 %r2, 0;
    mov.u32 %r3, full;
    mov.u32 %r4, tile;
fill:
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 2048;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 2048, [%r3];
    add.u32 %r3, %r3, 8;
    add.u32 %r4, %r4, 2048;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra fill;
use:
    mov.u32 %r2, 0;
    mov.u32 %r3, full;
    mov.u32 %r4, tile;
    add.u32 %r4, %r4, %r5;
next:
    ld.shared.u32 %r7, [%r6];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra wait;
    ld.shared.u32 %r8, [%r4];
    add.u32 %r9, %r7, %r8;
    st.global.u32 [%rd1], %r9;
    add.u32 %r3, %r3, 8;
    add.u32 %r4, %r4, 2048;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra next;
    ret;
"""
"""A ring of as many stages as a parameter states, of at most four."""


def test_a_made_up_number_of_stages_leads_to_no_other_array() -> None:
    header = ".version 8.6\n.target sm_90a\n.address_size 64\n"
    assert not reports(module(kernel(STAGES_OF_THE_LAUNCH), header=header))
