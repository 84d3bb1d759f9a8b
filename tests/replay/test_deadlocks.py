"""Replays: barriers, mbarriers and warps whose threads do not all arrive."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tclint.checks.barrier_phases import _deadlock, deadlocked
from tclint.checks.replay import replayed
from tclint.isa.effects import Barrier
from tclint.replay.launches import ReplayRun
from tclint.replay.reasons import NotReplayed
from tclint.replay.sync import ReplayBarrier
from tclint.replay.thread_groups import DivergencePoint, GroupRegisters, Stuck, ThreadGroup
from tclint.replay.vector_clocks import BOTTOM
from tclint.replay.verdict import Replay
from tests.tools.replay import ELECTING, FREE, GIVE, MORE, PAIR, STEP, WAIT, changed, replay, what, why
from tests.tools.support import analysed, kernel, lint, model, module


@pytest.mark.parametrize(("left", "deadlocks"), [(64, False), (96, True)])
def test_threads_that_drop_out(left: int, deadlocks: bool) -> None:
    """A thread that drops out lowers the count before it arrives: the phase that this completes is followed by a smaller one."""
    code = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry dropped()
.reqntid 128
{{
    .reg .pred %p<4>;
    .reg .b32 %r<4>;
    .shared .align 8 .b64 m;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], 128;
ready:
    bar.sync 0;
    setp.lt.u32 %p1, %r0, {left};
    @%p1 bra stay;
    mbarrier.arrive_drop.shared::cta.b64 _, [m];
    ret;
stay:
    mov.u32 %r1, 0;
    setp.lt.u32 %p3, %r0, 64;
again:
    @%p3 mbarrier.arrive.shared::cta.b64 _, [m];
    @!%p3 mbarrier.arrive.shared::cta.b64 _, [m], 1;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], %r1;
    @!%p2 bra wait;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, 2;
    @%p2 bra again;
    ret;
}}
"""
    if deadlocks:
        code = code.replace(
            "@!%p3 mbarrier.arrive.", "setp.eq.and.u32 %p2, %r1, 0, !%p3;\n    @%p2 mbarrier.arrive."
        )
    run = replay(code).run
    assert what(run) == {"stuck"} if deadlocks else run is None


@pytest.mark.parametrize(("count", "deadlocks"), [(128, False), (160, True)])
def test_a_barrier_that_too_few_threads_reach_deadlocks(count: int, deadlocks: bool) -> None:
    """The 128 consumers meet after the loop, and the producer does not take part."""
    code = changed("    @%p5 bra use;\n", f"    @%p5 bra use;\n    barrier.sync 3, {count};\n")
    asked = replay(code)
    assert what(asked.run) == {"stuck"} if deadlocks else asked.run is None
    message = "deadlock: barrier 3 waits for 160 threads, of which only 128 arrive, and all remaining threads are blocked as well"
    assert [hit.message for hit in deadlocked(asked.model)] == [message] * deadlocks
    assert not list(replayed(asked.model))


SEVERAL = """
.version 9.5
.target sm_107a
.address_size 64
.visible .entry k()
.reqntid 32
.explicitcluster
.reqnctapercluster 2
{
    .reg .pred %p<3>;
    .reg .b32 %r<3>;
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, full;
    setp.ne.u32 %p0, %r0, 0;
    setp.ne.or.u32 %p1, %r1, 0, %p0;
    @!%p0 mbarrier.init.shared::cta.b64 [full], 1;
    @!%p0 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    @%p1 bra wait;
    mbarrier.arrive.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [%r2], 3;
wait:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra wait;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    ret;
}
"""
"""One thread arrives at the mbarriers of both CTAs."""


@pytest.mark.parametrize(
    ("arrival", "deadlocks"),
    [
        ("", False),
        ("_, [%r2], 1, 3;", False),
        ("_, [%r2], 1;", True),
        ("_, [%r2], 2;", True),
    ],
)
def test_an_arrival_signals_the_ctas_of_its_mask(arrival: str, deadlocks: bool) -> None:
    code = SEVERAL.replace("_, [%r2], 3;", arrival or "_, [%r2], 3;")
    assert [f.rule.id for f in lint(code).findings] == ["MB016"] * deadlocks


@pytest.mark.parametrize(("mask", "deadlocks"), [(3, False), (1, True)])
def test_an_expectation_raises_the_tx_count_in_the_ctas_of_its_mask(mask: int, deadlocks: bool) -> None:
    cluster = "relaxed.cluster.shared::cluster.multicast::cluster::32b.b64"
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [%r2], 3;"
    expect, complete = (
        f"mbarrier.expect_tx.{cluster} [%r2], 16, 3;",
        f"mbarrier.complete_tx.{cluster} [%r2], 16, {mask};",
    )
    assert arrive in SEVERAL
    found = [f.rule.id for f in lint(SEVERAL.replace(arrive, f"{expect}\n{arrive}\n{complete}")).findings]
    assert ("MB016" in found) == deadlocks


def test_a_cluster_barrier_that_some_threads_do_not_reach_deadlocks() -> None:
    made = analysed(PAIR)
    at = made.awaits(Barrier.CLUSTER)[0]

    def ended(what: ReplayBarrier) -> ReplayRun:
        return ReplayRun([Stuck(at, (0, 1), what)], [], None, True, [], *[frozenset[int]()] * 4)

    half = ReplayBarrier(expected=64)
    half.arrive(32)
    hit = _deadlock(made, ended(half))
    assert hit is not None
    assert "the cluster barrier waits for 64 threads, of which only 32 arrive" in hit.message
    (party,) = hit.deadlock
    assert party.wait.message == "waits: 32 of 64 threads have arrived"
    assert _deadlock(made, ended(ReplayBarrier())) is None


LANE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry lane()
.reqntid 64
{
    .reg .pred %p<4>;
    .reg .b32 %r<4>;
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, 8;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
ready:
    bar.sync 0;
    mov.u32 %r2, 0;
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bra used;
    setp.ne.u32 %p1, %r0, 32;
    @%p1 bra meet;
fill:
    mbarrier.arrive.shared::cta.b64 _, [full];
free:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], %r2;
    @!%p2 bra free;
    xor.b32 %r2, %r2, 1;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p3, %r1, 0;
    @%p3 bra fill;
    bra meet;
used:
    mov.u32 %r2, 0;
use:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r2;
    @!%p2 bra use;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    xor.b32 %r2, %r2, 1;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p3, %r1, 0;
    @%p3 bra use;
meet:
    bar.sync 0;
    ret;
}
"""
"""One lane of warp 1 has a role; the others reach the last barrier before it."""
FEWER = "use:\n", "    shr.u32 %r1, %r1, 1;\nuse:\n"


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("", "", "", id="right"),
        pytest.param("bar.sync 0;\n    ret", "barrier.sync 1, 64;\n    ret", "", id="named"),
        pytest.param("[empty], 32;", "[empty], 33;", "stuck", id="everybody waits"),
        pytest.param(*FEWER, "stuck", id="only the lane waits"),
        pytest.param("    sub.u32 %r1, %r1, 1;\n    setp.ne.u32 %p3, %r1, 0;\n    @%p3 bra fill;\n    bra meet;\n",
                     "    sub.u32 %r1, %r1, 1;\n    setp.ne.u32 %p3, %r1, 0;\n    @%p3 bra fill;\n    bar.sync 1, 64;\n    bra meet;\n", "", id="at another barrier"),
        pytest.param("meet:\n    bar.sync 0;\n", "meet:\n    bar.sync 0;\n    setp.eq.u32 %p3, %r0, 33;\n    @%p3 mbarrier.arrive.shared::cta.b64 _, [full];\n",
                     "", id="the others arrive after it"),
    ],
)  # fmt: skip
def test_lanes_wait_for_their_warp_at_a_barrier(old: str, new: str, seen: str) -> None:
    """A warp arrives when all of its lanes have come that have not ended (9.7.13.1)."""
    run = replay(changed(old, new, LANE)).run
    assert what(run) == {seen} if seen else run is None


@pytest.mark.parametrize(
    ("own", "others", "deadlocks"),
    [("rounds", "rounds", True), ("rounds", "tiles", False), ("tiles", "tiles", True)],
)
def test_a_deadlock_in_the_last_iterations_is_reported_if_one_value_is_the_trip_count_of_all(
    own: str, others: str, deadlocks: bool
) -> None:
    """If one value is the trip count of all, a deadlock at the end shows with that many iterations."""
    code = changed(".entry lane()", ".entry lane(.param .u32 rounds, .param .u32 tiles)", LANE)
    code = changed("    mov.u32 %r1, 8;\n", "", code)
    code = changed("fill:\n", f"    ld.param.u32 %r1, [{own}];\nfill:\n", code)
    code = changed("use:\n", f"    ld.param.u32 %r1, [{others}];\nuse:\n", code)
    asked = replay(code)
    assert asked.run is None
    assert not why(asked) or not deadlocks
    asked = replay(changed(*FEWER, code))
    assert what(asked.run) == {"stuck"} if deadlocks else asked.run is None


ROUNDS = "ld.param.u32 %r1, [rounds];\n    shr.u32 %r1, %r1, 6;"
TILES = "ld.param.u32 %r3, [tiles];"


@pytest.mark.parametrize(
    ("own", "others", "decided"),
    [
        # One quotient of a size, spelled otherwise, or rounded up.
        (ROUNDS, "ld.param.u32 %r1, [rounds];\n    div.u32 %r1, %r1, 64;", "right"),
        (ROUNDS, "ld.param.u32 %r1, [rounds];\n    add.u32 %r1, %r1, 63;\n    shr.u32 %r1, %r1, 6;", "right"),
        # A size of a tile, or of an element, that is a parameter; a number of tiles that is a constant.
        (ROUNDS, f"{TILES}\n    ld.param.u32 %r1, [rounds];\n    div.u32 %r1, %r1, %r3;", "open"),
        (ROUNDS, f"{TILES}\n    ld.param.u32 %r1, [rounds];\n    mul.lo.u32 %r1, %r1, %r3;\n    shr.u32 %r1, %r1, 7;", "open"),
        (ROUNDS, f"{TILES}\n    ld.param.u32 %r1, [rounds];\n    shr.u32 %r1, %r1, 6;\n    max.u32 %r1, %r1, %r3;", "open"),
        (ROUNDS, "mov.u32 %r1, 16;", "open"),
        # One more than the other in every launch.
        (ROUNDS, f"{ROUNDS}\n    add.u32 %r1, %r1, 1;", "stuck"),
        (ROUNDS, f"{TILES}\n    {ROUNDS}\n    min.u32 %r3, %r3, 1;\n    add.u32 %r1, %r1, %r3;", "stuck"),
        # They agree if neither has anything to do.
        (ROUNDS, "ld.param.u32 %r1, [rounds];\n    shr.u32 %r1, %r1, 5;", "stuck"),
    ],
)  # fmt: skip
def test_trip_counts_that_agree_in_some_launches_only(own: str, others: str, decided: str) -> None:
    """Two roles whose trip counts are different expressions of the launch: a deadlock is shown if they never agree."""
    code = changed(".entry lane()", ".entry lane(.param .u32 rounds, .param .u32 tiles)", LANE)
    code = changed("    mov.u32 %r1, 8;\n", "", code)
    code = changed("fill:\n", f"    {own}\n    setp.eq.u32 %p3, %r1, 0;\n    @%p3 bra meet;\nfill:\n", code)
    code = changed("@!%p2 bra use;", "@!%p2 bra wait;", code)
    code = changed(
        "use:\n",
        f"    {others}\n    setp.eq.u32 %p3, %r1, 0;\n    @%p3 bra meet;\nuse:\n    add.u32 %r1, %r1, 0;\nwait:\n",
        code,
    )
    asked = replay(code)
    assert (what(asked.run) if decided == "stuck" else asked.run) == (
        {"stuck"} if decided == "stuck" else None
    )
    assert why(asked) == (NotReplayed.UNRELATED_TRIP_COUNTS if decided == "open" else "")


def test_what_lanes_wait_for_whose_warp_would_open_the_barrier() -> None:
    """By the manual they wait there; that is reported if the other one waits in any case, whatever follows the barrier."""
    late = "meet:\n    bar.sync 0;\n    @%p1 mbarrier.arrive.shared::cta.b64 _, [empty];\n"
    code = changed(*FEWER, LANE)
    assert what(replay(code).run) == {"stuck"}
    asked = replay(changed("meet:\n    bar.sync 0;\n", late, code))
    assert asked.run is None
    assert why(asked) == NotReplayed.SPLIT_WARP


def test_a_warp_of_which_some_lanes_have_ended() -> None:
    """No thread waits for these: the rest arrives for the warp."""
    code = changed("    bra meet;\nused", "    ret;\nused", LANE)
    assert replay(code).run is None
    named = changed("bar.sync 0;\n    ret", "barrier.sync 1, 64;\n    ret", code)
    assert replay(named).run is None
    assert what(replay(changed("1, 64;\n    ret", "1, 96;\n    ret", named)).run) == {"stuck"}


ENDS = """
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [full], 64;
    bar.sync 0;
    setp.ge.u32 %p2, %r0, 32;
    @%p2 bra use;
    mbarrier.arrive.shared::cta.b64 _, [full];
    END
use:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra use;
    ret;
"""


@pytest.mark.parametrize(("end", "deadlocks"), [("ret;", True), ("trap;", False), ("brkpt;", False)])
def test_a_launch_that_a_thread_aborts_does_not_deadlock(end: str, deadlocks: bool) -> None:
    asked = replay(module(kernel(ENDS.replace("END", end), directives=".reqntid 64")))
    assert (asked.run is not None and bool(asked.run.deadlocks)) == deadlocks
    assert deadlocks or why(asked) == NotReplayed.ABORTED


def test_lanes_that_agree_on_the_result_of_an_mbarrier_test() -> None:
    """A warp that only polls, and votes on the answer, is not executed again before a phase is complete."""
    agreed = WAIT.replace("    @!", "    vote.sync.all.pred %p1, %p1, -1;\n    @!")
    code = changed(WAIT, agreed)
    assert replay(code).run is None
    assert what(replay(changed("mov.u32 %r23, 1;", "mov.u32 %r23, 0;", code)).run) == {"stuck"}


def test_each_part_of_a_group_may_have_its_own_barrier() -> None:
    """Two warps meet at one barrier, and two at another."""
    meet = "    shr.u32 %r1, %r0, 6;\n    add.u32 %r1, %r1, 1;\n    bar.sync %r1, 64;\n"
    code = changed(GIVE, meet + GIVE)
    right, unknown = replay(code), replay(changed("%r1, 64;", "%r32, 64;", code))
    assert (right.run, why(right)) == (None, "")
    assert (unknown.run, why(unknown)) == (None, NotReplayed.UNKNOWN_BARRIER)
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}


def test_what_follows_a_deadlocked_wait_is_not_reported() -> None:
    """The consumers never release a stage, so the loader does not reach what follows its loop."""
    following = "    @%p5 bra load;\n" + STEP.replace("use:", "more:").replace(
        WAIT, MORE.replace("more:", "late:").replace("bra more", "bra late")
    )
    code = changed(
        "    @%p5 bra load;\n",
        following + "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra more;\n",
        changed(GIVE, ""),
    )
    (hit,) = replayed(analysed(code))
    assert "deadlock: " in hit.message
    assert hit.confidence is None


def test_a_kernel_that_waits_for_nothing() -> None:
    """Without any wait left, what is copied is read too early."""
    code = changed(FREE, "").replace(WAIT, "")
    assert "mbarrier.try_wait" not in code
    (hit,) = replayed(analysed(code))
    assert hit.rule == "BK001"
    assert "a bulk copy may still be writing: no wait for its mbarrier on this path" in hit.message
    assert "parity" not in hit.help


def test_lanes_that_wait_for_the_elected_one() -> None:
    """While the elected lane is deadlocked, the others of its warp are at the next election, and not beyond."""
    right = replay(ELECTING)
    assert right.run is None
    assert why(right) == ""
    run = replay(ELECTING.replace(GIVE, "")).run
    assert what(run) == {"stuck"}
    assert run is not None
    assert {len(at.threads) for at in run.deadlocks} == {1, 31, 128}


@pytest.mark.parametrize(
    ("parked", "split"),
    [
        ([range(32)], False),
        ([range(16)], True),
        ([range(16), range(16, 32)], False),
        ([range(64)], False),
        ([range(40)], True),
        ([range(64, 80)], False),
        ([[0], range(1, 31)], True),
    ],
)
def test_parked_lanes_that_wait_for_others_of_their_warp(parked: list[Sequence[int]], split: bool) -> None:
    groups = [ThreadGroup(0, tuple(threads), GroupRegisters(), BOTTOM) for threads in parked]
    point = DivergencePoint(0, None, GroupRegisters(), tuple(range(80)), 80, groups)
    assert point.splits_a_warp is split


APART = """
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [first], 32;
    mbarrier.init.shared::cta.b64 [second], 64;
    mbarrier.init.shared::cta.b64 [third], 128;
ready:
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 64;
    @%p1 bra other;
    mov.u32 %r10, third;
    setp.ge.u32 %p2, %r0, 32;
    @%p2 bra inner;
wait_second:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [second], 0;
    @!%p3 bra wait_second;
inner:
    @%p2 mbarrier.arrive.shared::cta.b64 _, [first];
    bra.uni outer;
other:
    mov.u32 %r10, third;
wait_first:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [first], 0;
    @!%p3 bra wait_first;
    mbarrier.arrive.shared::cta.b64 _, [second];
outer:
    mbarrier.arrive.shared::cta.b64 _, [%r10];
wait_third:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0;
    @!%p3 bra wait_third;
    ret;
"""


def test_threads_that_could_not_wait_for_each_other() -> None:
    """Warp 1 continues without warp 0, which waits for what follows from that; all meet after both branches."""
    made = model(APART, before=".shared .b64 first;\n.shared .b64 second;\n.shared .b64 third;")
    asked = Replay(made)
    assert asked.run is None
    assert why(asked) == ""
    short = model(
        APART.replace("[third], 128", "[third], 129"),
        before=".shared .b64 first;\n.shared .b64 second;\n.shared .b64 third;",
    )
    assert what(Replay(short).run) == {"stuck"}


def test_kernels_without_an_mbarrier_are_not_replayed() -> None:
    assert replay(".version 8.6\n.target sm_90\n.address_size 64\n" + kernel("    ret;")).run is None
