"""Replays: what threads do when the synchronisation of a kernel is executed, and what goes wrong then."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.analyses.model import KernelModel
from tclint.checks._deadlocks import parties
from tclint.checks.barrier_phases import _deadlock, deadlocked
from tclint.checks.replay import replayed
from tclint.dataflow import GaveUp
from tclint.findings.finding import Finding
from tclint.findings.scales import Confidence, Method
from tclint.ir.frontend import analyse
from tclint.ir.nodes import Immediate
from tclint.linting.check import check_source
from tclint.replay import hypotheses
from tclint.replay.abstract_lanes import Results, apply, collapse, gather, merge, select
from tclint.replay.accesses import Access
from tclint.replay.epochs import Epochs
from tclint.replay.hypotheses import LaunchHypothesis, rows
from tclint.replay.interface import Faulty, NoFault
from tclint.replay.lane_exchange import shuffled
from tclint.replay.launch import Launch, LaunchValues
from tclint.replay.launch_search import LaunchSearch
from tclint.replay.launches import LaunchResults, ReplayRun
from tclint.replay.machine import Machine
from tclint.replay.operations import Operations
from tclint.replay.plans import Plans
from tclint.replay.program import Program
from tclint.replay.races import races
from tclint.replay.reasons import Reason
from tclint.replay.scheduler import Limits, OutOfSteps, TooManyIterations
from tclint.replay.shared_stores import SharedStores
from tclint.replay.steps import defining_step
from tclint.replay.sync import Barrier, Mbarrier, ReleasedWaiter, Transfer
from tclint.replay.thread_groups import DivergencePoint, Registers, Stuck, ThreadGroup
from tclint.replay.vector_clocks import (
    BOTTOM,
    Agent,
    Clock,
    difference,
    event,
    happens_before,
    join,
    join_all,
    join_warps,
    last_event,
    leq,
    map_warps,
    mask_warps,
    project,
    reconverge_clocks,
    select_warps,
)
from tclint.replay.verdict import Replay
from tclint.syntax.source import Source
from tests.tools import pages
from tests.tools.replay import (
    ALL_ARRIVE,
    ELECTING,
    GIVE,
    MULTICAST,
    PAIR,
    RING,
    WAIT,
    WALK,
    alter,
    block,
    changed,
)
from tests.tools.support import analysed, by_rule, kernel, lint, model, module


def replay(code: str) -> Replay:
    return Replay(analysed(code))


def why(asked: Replay) -> str:
    """Why a replay gave up; "": it did not."""
    return asked.verdict.why if isinstance(asked.verdict, GaveUp) else ""


def reports(code: str) -> list[Finding]:
    return list(check_source(Source.from_bytes(code.encode(), "k.ptx")).findings)


# ---------------------------------------------------------------- what goes wrong


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
    at = made.sites("barrier-wait")[0]

    def ended(what: Barrier) -> ReplayRun:
        return ReplayRun([Stuck(at, (0, 1), what)], [], None, True, [], *[frozenset[int]()] * 4)

    hit = _deadlock(made, ended(Barrier(arrived=32, wanted=64)))
    assert hit is not None
    assert "the cluster barrier waits for 64 threads, of which only 32 arrive" in hit.message
    (party,) = hit.deadlock
    assert party.wait.message == "waits: 32 of 64 threads have arrived"
    assert _deadlock(made, ended(Barrier())) is None


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


def test_what_lanes_wait_for_whose_warp_would_open_the_barrier() -> None:
    """By the manual they wait there; that is reported if the other one waits in any case, whatever follows the barrier."""
    late = "meet:\n    bar.sync 0;\n    @%p1 mbarrier.arrive.shared::cta.b64 _, [empty];\n"
    code = changed(*FEWER, LANE)
    assert what(replay(code).run) == {"stuck"}
    asked = replay(changed("meet:\n    bar.sync 0;\n", late, code))
    assert asked.run is None
    assert why(asked) == Reason.SPLIT_WARP


def test_a_warp_of_which_some_lanes_have_ended() -> None:
    """No thread waits for these: the rest arrives for the warp."""
    code = changed("    bra meet;\nused", "    ret;\nused", LANE)
    assert replay(code).run is None
    named = changed("bar.sync 0;\n    ret", "barrier.sync 1, 64;\n    ret", code)
    assert replay(named).run is None
    assert what(replay(changed("1, 64;\n    ret", "1, 96;\n    ret", named)).run) == {"stuck"}


def shared(warps: int, first: str = "mov.u32 %r3, %r1;", following: str = "", full: int = 1) -> str:
    """Each of so many warps has a stage of a ring, which one thread of another warp fills."""
    stages = "".join(
        f"    mbarrier.init.shared::cta.b64 [m+{at}], {count};\n"
        for at, count in [*((8 * i, full) for i in range(warps)), *((64 + 8 * i, 32) for i in range(warps))]
    )
    return f""".version 8.0
.target sm_90
.address_size 64
.visible .entry shared(.param .u32 rounds)
.reqntid {32 * warps + 32}
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .shared .align 8 .b64 m[16];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    ld.param.u32 %r2, [rounds];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
{stages}ready:
    bar.sync 0;
    setp.lt.u32 %p1, %r1, {warps};
    @%p1 bra share;
    setp.ne.u32 %p1, %r0, {32 * warps};
    @%p1 bra end;
    mov.u32 %r3, 0;
fill:
    setp.ge.u32 %p3, %r3, %r2;
    @%p3 bra end;
    rem.u32 %r4, %r3, {warps};
    mov.u32 %r5, m;
    mad.lo.u32 %r5, %r4, 8, %r5;
    div.u32 %r6, %r3, {warps};
    xor.b32 %r6, %r6, 1;
    and.b32 %r6, %r6, 1;
free:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5+64], %r6;
    @!%p2 bra free;
    mbarrier.arrive.shared::cta.b64 _, [%r5];
    add.u32 %r3, %r3, 1;
    bra fill;
share:
    {first}
    setp.ge.u32 %p3, %r3, %r2;
    @%p3 bra end;
use:
    rem.u32 %r4, %r3, {warps};
    mov.u32 %r5, m;
    mad.lo.u32 %r5, %r4, 8, %r5;
    div.u32 %r6, %r3, {warps};
    and.b32 %r6, %r6, 1;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], %r6;
    @!%p2 bra wait;
    mbarrier.arrive.shared::cta.b64 _, [%r5+64];
    {following}
    add.u32 %r3, %r3, {warps};
    setp.lt.u32 %p3, %r3, %r2;
    @%p3 bra use;
end:
    ret;
}}
"""


@pytest.mark.parametrize("warps", [1, 2, 4, 7])
def test_rounds_that_warps_share(warps: int) -> None:
    """If the launch decides the trip count, some of them may have one iteration more than others."""
    assert not why(replay(shared(warps)))
    assert not reports(shared(warps))
    assert what(replay(shared(warps, full=2)).run) == {"stuck"}


def test_rounds_that_no_launch_shares_out() -> None:
    """Warps that meet in each iteration need equally many, and no value that is tried is a multiple of 7."""
    assert replay(shared(2, following="bar.sync 1, 64;")).run is None
    for warps in (3, 7):
        meets = f"bar.sync 1, {32 * warps};"
        asked = replay(shared(warps, following=meets))
        assert asked.run is None
        assert asked.runs
        assert warps == 3 or all(run.uneven and run.wrong for run in asked.runs)
    assert what(replay(shared(2, following="bar.sync 1, 96;")).run) == {"stuck"}


def test_the_launch_decides_which_threads_have_an_iteration() -> None:
    """There may be none for most lanes: how many of them take part is not made up."""
    few = "shr.u32 %r2, %r2, 5;\n    mov.u32 %r3, %r0;"
    asked = replay(shared(2, few, full=2))
    assert asked.run is None
    assert why(asked) == Reason.ROLES_FROM_LAUNCH


def test_a_bound_that_all_threads_meet_divides_no_roles() -> None:
    """The items of a grid, one for each warp: with many items no warp is left out, and with few the fault shows as well."""
    item = """mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r3, %r3, 2, %r1;
    add.u32 %r7, %r3, 1;
    setp.gt.u32 %p3, %r7, %r2;
    @%p3 bra end;"""
    release = "    mbarrier.arrive.shared::cta.b64 _, [%r5+64];\n"
    assert replay(shared(2, item)).run is None
    twice = replay(changed(release, release * 2, shared(2, item)))
    assert twice.run is not None
    assert twice.run.dispatched
    assert what(twice.run) == {"stuck"}


WORK = """.version 8.0
.target sm_90
.address_size 64
.visible .entry work(.param .u32 size)
.reqntid 128
{
    .reg .pred %p<6>;
    .reg .b32 %r<9>;
    .shared .align 8 .b64 m[4];
    ld.param.u32 %r2, [size];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    and.b32 %r3, %r0, 31;
    mov.u32 %r4, m;
    mad.lo.u32 %r4, %r1, 8, %r4;
    setp.ne.u32 %p0, %r3, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [%r4], 33;
ready:
    bar.warp.sync -1;
    shr.u32 %r5, %r2, 9;
    sub.u32 %r5, %r5, %r1;
    setp.lt.s32 %p1, %r5, 1;
    or.pred %p2, %p0, %p1;
    @%p2 bra all;
    mbarrier.arrive.shared::cta.b64 _, [%r4];
all:
    @%p1 bra end;
    mbarrier.arrive.shared::cta.b64 _, [%r4];
more:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], 0;
    @!%p3 bra more;
end:
    ret;
}
"""
"""Warps with an item each, as long as there are items."""


def test_work_that_is_too_little_for_all_warps() -> None:
    """The sizes that are tried first leave some warps without an item. The first lane of each has something else to do."""
    assert replay(WORK).run is None
    assert not why(replay(WORK))
    assert what(replay(changed("[%r4], 33;", "[%r4], 34;", WORK)).run) == {"stuck"}


def test_a_launch_that_uses_no_mbarrier_is_no_evidence_for_them() -> None:
    """One of the sizes that are tried is not a multiple of 16, and takes another path."""
    items = "and.b32 %r5, %r2, 15;\n    sub.u32 %r5, 1, %r5;"
    other = changed("shr.u32 %r5, %r2, 9;\n    sub.u32 %r5, %r5, %r1;", items, WORK)
    assert replay(other).run is None
    faulty = replay(changed("[%r4], 33;", "[%r4], 34;", other))
    assert [run.wrong for run in faulty.runs[:3]] == [True, True, False]
    assert what(faulty.run) == {"stuck"}


def test_work_for_some_lanes_of_a_warp_is_not_made_up() -> None:
    lanes = changed("sub.u32 %r5, %r5, %r1;", "sub.u32 %r5, %r5, %r0;", WORK)
    assert why(replay(changed("[%r4], 33;", "[%r4], 34;", lanes))) == Reason.ROLES_FROM_LAUNCH


def test_a_branch_on_a_predicate_whose_parts_are_shared_is_answered() -> None:
    """Each of 60 instructions combines the result of the one before it with itself."""
    combined = "or.pred %q0, %p2, %p2;\n" + "".join(
        f"    or.pred %q{n + 1}, %q{n}, %q{n};\n" for n in range(60)
    )
    code = changed("    @%p2 bra all;", f"    {combined}    @%q60 bra all;", WORK)
    assert replay(changed(".reg .pred %p<6>;", ".reg .pred %p<6>, %q<61>;", code)).run is None


def test_no_launch_fails_an_assertion() -> None:
    """Where threads continue after a failed assertion, what they have left out is missing."""
    asserted = changed(
        "all:\n    @%p1 bra end;\n",
        """all:
    @%p1 bra end;
    setp.lt.u32 %p4, %r2, 1000000;
    @%p4 bra fails;
""",
        changed(
            "more:\n",
            """    bra more;
fails:
    call.uni __assertfail, ();
more:
""",
            WORK,
        ),
    )
    asserted = asserted.replace(".visible", ".extern .func __assertfail ();\n.visible")

    def last(code: str) -> Replay:
        of, _ = analyse(Source.from_bytes(code.encode(), "k.ptx"))
        return Replay(KernelModel(of.functions[-1], of))

    assert last(asserted).run is None
    assert what(last(changed("[%r4], 33;", "[%r4], 34;", asserted)).run) == {"stuck"}


def summed(expected: str, shift: int = 4, later: str = "") -> set[str]:
    """What goes wrong where two copies of a size that the launch decides complete on an mbarrier that expects a sum."""
    run = replay(f""".version 8.0
.target sm_90
.address_size 64
.visible .entry summed(.param .u32 size, .param .u32 total, .param .u64 data)
.reqntid 32
{{
    .reg .pred %p<6>;
    .reg .b32 %r<9>;
    .reg .b64 %in;
    .shared .align 8 .b64 full;
    .shared .align 16 .b8 tile[65536];
    ld.param.u32 %r1, [size];
    ld.param.u32 %r7, [total];
    ld.param.u64 %in, [data];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    shl.b32 %r1, %r1, {shift};
    add.u32 %r2, %r1, 16;
    mov.u32 %r3, tile;
    mov.u32 %r4, 0;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], %r1, [full];
    setp.eq.u32 %p3, %r7, 0;
    @%p3 bra single;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+32768], [%in], %r2, [full];
    mov.u32 %r4, %r2;
single:
    {expected}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], %r5;
ready:
    bar.sync 0;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra wait;
    {later}
    ret;
}}
""").run
    return what(run) if run else set()


def test_the_expected_sum_of_the_bytes_of_copies_need_not_be_known() -> None:
    assert summed("add.u32 %r5, %r1, %r4;") == set()
    assert summed("add.u32 %r5, %r1, %r4;\n    add.u32 %r5, %r5, 16;") == {"stuck"}
    assert summed("add.u32 %r5, %r1, %r4;\n    sub.u32 %r5, %r5, 16;") == {"stuck"}


def test_a_phase_of_more_bytes_than_an_mbarrier_counts_does_not_excuse_one_of_fewer() -> None:
    """The sizes that are tried first are too large, and are reduced for the sake of a loop."""
    loop = """ld.param.u32 %r8, [size];
    mov.u32 %r6, 0;
again:
    bar.sync 0;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p4, %r6, %r8;
    @%p4 bra again;"""
    assert summed("add.u32 %r5, %r1, %r4;", 12, loop) == set()
    assert summed("add.u32 %r5, %r1, %r4;\n    add.u32 %r5, %r5, 16;", 12, loop) == {"stuck"}


def test_expected_bytes_that_are_not_a_sum_of_those_of_copies_are_made_up() -> None:
    assert summed("add.u32 %r5, %r1, %r7;") == set()
    assert summed("mul.lo.u32 %r5, %r1, %r7;") == set()


def test_more_bytes_than_an_mbarrier_counts_are_those_of_no_launch() -> None:
    assert summed("add.u32 %r5, %r1, %r4;\n    add.u32 %r5, %r5, 1048576;") == set()


def test_a_ring_that_works() -> None:
    assert replay(RING).run is None


def what(run: ReplayRun | None) -> set[str]:
    assert run is not None
    found = {"early" if race.early else "race" for race in run.races}
    return found | ({"stuck"} if run.deadlocks else set()) | ({"overrun"} if run.overrun else set())


COMPLETES = """
    .shared .align 8 .b64 full;
    .shared .align 16 .b8 tile[128];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [full], 32;
    bar.sync 0;
    shl.b32 %r1, %r0, 2;
    and.b32 %r1, %r1, 127;
    mov.u32 %r2, tile;
    add.u32 %r2, %r2, %r1;
    setp.ge.u32 %p2, %r0, 32;
    @%p2 bra use;
    st.shared.u32 [%r2], %r0;
    FENCE
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 4;
    bra end;
use:
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra wait;
    ld.shared.u32 %r3, [%r2];
    ld.param.u64 %rd0, [pointer];
    st.global.u32 [%rd0], %r3;
end:
    ret;
"""


@pytest.mark.parametrize("fence", ["", "fence.acq_rel.cta;", "fence.proxy.async.shared::cta;"])
def test_complete_tx_orders_earlier_stores_to_the_same_cta_and_no_later_ones(fence: str) -> None:
    """It is relaxed, but on hardware it is not performed before them; MB013 has a note where no fence precedes it."""
    text = COMPLETES.replace("FENCE", fence)
    run = replay(module(kernel(text, directives=".reqntid 64"))).run
    assert run is None or not run.races
    store = "st.shared.u32 [%r2], %r0;"
    later = text.replace(store, "").replace("bra end;", f"{store} bra end;")
    run = replay(module(kernel(later, directives=".reqntid 64"))).run
    assert run is not None
    assert run.races


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
    assert deadlocks or why(asked) == Reason.ABORTED


REMOTE = """
    .shared .align 8 .b64 full, free;
    .shared .align 128 .b8 tile[128];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %cluster_ctarank;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [full], 1;
    @!%p0 mbarrier.init.shared::cta.b64 [free], 32;
    @!%p0 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    shl.b32 %r2, %r0, 2;
    mov.u32 %r3, tile;
    add.u32 %r2, %r2, %r3;
    ld.param.u64 %rd0, [pointer];
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra peer;
    @%p0 bra end;
room:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [free], 0;
    @!%p1 bra room;
    mov.b16 %h0, 2;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd0], 128, [full], %h0;
    bra end;
peer:
    @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
    ld.shared.u32 %r3, [%r2];
    FENCE
    mov.u32 %r4, free;
    mov.u32 %r5, 0;
    mapa.shared::cluster.u32 %r4, %r4, %r5;
    mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r4];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra wait;
    st.global.u32 [%rd0], %r3;
end:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
"""
"""CTA 0 copies to CTA 1 when that has read its memory."""


@pytest.mark.parametrize(
    ("fence", "races"),
    [
        ("", True),
        ("fence.acq_rel.cluster;", False),
        ("membar.gl;", False),
        ("fence.acq_rel.cta;", True),
        ("membar.cta;", True),
        # Only the CTA is synchronised by its barrier.
        ("bar.sync 0;", True),
    ],
)
def test_a_fence_whose_scope_is_the_cta_releases_nothing_to_a_peer(fence: str, races: bool) -> None:
    directives = ".reqntid 32\n.reqnctapercluster 2"
    asked = replay(module(kernel(REMOTE.replace("FENCE", fence), directives=directives)))
    assert why(asked) == ""
    assert (asked.run is not None and bool(asked.run.races)) == races


FREE = "free:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r28], %r23;\n    @!%p1 bra free;\n"


LOAD = "ld.shared.u32 %r32, [%r30];\n"


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


def test_lanes_that_agree_on_the_result_of_an_mbarrier_test() -> None:
    """A warp that only polls, and votes on the answer, is not executed again before a phase is complete."""
    agreed = WAIT.replace("    @!", "    vote.sync.all.pred %p1, %p1, -1;\n    @!")
    code = changed(WAIT, agreed)
    assert replay(code).run is None
    assert what(replay(changed("mov.u32 %r23, 1;", "mov.u32 %r23, 0;", code)).run) == {"stuck"}


TICKETS = """.version 8.6
.target sm_90
.address_size 64
.visible .entry tickets(.param .u64 counter, .param .u32 tiles)
.reqntid 64
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %counter;
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    .shared .align 4 .b32 tile;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %counter, [counter];
    ld.param.u32 %r1, [tiles];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
ready:
    bar.sync 0;
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bra first;
    setp.ne.u32 %p1, %r0, 32;
    @%p1 bra end;
    mov.u32 %r3, 1;
take:
    atom.global.add.u32 %r2, [%counter], 1;
free:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], %r3;
    @!%p2 bra free;
    xor.b32 %r3, %r3, 1;
    st.shared.u32 [tile], %r2;
    mbarrier.arrive.shared::cta.b64 _, [full];
    setp.lt.u32 %p2, %r2, %r1;
    @%p2 bra take;
    bra end;
first:
    mov.u32 %r3, 0;
use:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r3;
    @!%p2 bra use;
    xor.b32 %r3, %r3, 1;
    ld.shared.u32 %r2, [tile];
    mbarrier.arrive.shared::cta.b64 _, [empty];
    setp.lt.u32 %p2, %r2, %r1;
    @%p2 bra use;
end:
    ret;
}
"""


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("", "", "", id="right"),
        pytest.param("[empty], 32;", "[empty], 33;", "stuck", id="too few arrivals"),
        pytest.param("use:\n", "use:\n    mov.u32 %r3, 0;\n", "race", id="parity does not flip"),
        pytest.param("add.u32 %r2, [%counter], 1", "exch.b32 %r2, [%counter], 1", "", id="no counter"),
    ],
)  # fmt: skip
def test_tiles_that_a_counter_in_memory_hands_out(old: str, new: str, seen: str) -> None:
    """The first numbers are small, so that there is something to do, and others take the rest."""
    asked = replay(changed(old, new, TICKETS))
    assert seen in what(asked.run) if seen else asked.run is None
    assert not why(asked)


def test_the_numbers_of_a_counter() -> None:
    launch = Launch(model("ret;"), LaunchValues(512, 8), (32,))
    assert [launch.counter_value(taken, 512, 4) for taken in (0, 7, 8, 9, 40)] == [
        0,
        7,
        512,
        1024,
        (1 << 31) - 1,
    ]


PASSED = changed(".param .u32 rounds)", ".param .u32 rounds, .param .u32 size)").replace(
    "    mov.u32 %r0, %tid.x;\n", "    mov.u32 %r0, %tid.x;\n    ld.param.u32 %r12, [size];\n", 1
)


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("_, [%r29], 2048", "_, [%r29], %r12", "", id="expected bytes"),
        pytest.param("[%in], 2048, [%r29]", "[%in], %r12, [%r29]", "", id="bytes of the copy"),
        pytest.param("2048", "%r12", "", id="both"),
        pytest.param("_, [%r29], 2048", "_, [%r29], %r12", "overrun", id="and the producer does not wait"),
    ],
)
def test_byte_counts_from_the_launch(old: str, new: str, seen: str) -> None:
    """How many bytes are expected and how many come go together in real launches, whatever number each of them has here."""
    code = "\n".join(
        line.replace(old, new) if "complete_tx" in line or "expect_tx" in line else line
        for line in PASSED.splitlines()
    )
    assert code != PASSED
    run = replay(code.replace(FREE, "") if seen else code).run
    assert what(run) == {seen} if seen else run is None


def test_nothing_may_be_expected() -> None:
    """Where the launch says how many bytes come, there may be no copy."""
    copy = next(line for line in PASSED.splitlines() if "complete_tx" in line)
    code = PASSED.replace(copy, "").replace("_, [%r29], 2048", "_, [%r29], %r12")
    assert replay(code).run is None
    assert what(replay(PASSED.replace(copy, "")).run) == {"stuck"}


def test_trip_counts_from_different_values() -> None:
    """A number of tiles may be passed beside the size that it follows from: here both are 512, in no real launch."""
    fewer = "    shr.u32 %r20, %r20, 6;\n    shr.u32 %r12, %r12, 6;\n    add.u32 %r12, %r12, 2;\n"
    producer, consumer = PASSED.replace("[size];\n", f"[size];\n{fewer}").split("use:")
    code = f"{producer}use:{consumer.replace('%r21, %r20;', '%r21, %r12;')}"
    (hit,) = replayed(analysed(code))
    assert hit.confidence is Confidence.LOW
    assert "different values of the launch" in hit.doubt


PRODUCERS = """.version 8.6
.target sm_90
.address_size 64
.visible .entry two(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out)
.reqntid 96
{
    .reg .pred %p<9>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<4>, %map;
    .shared .align 128 .b8 tile[4096];
    .shared .align 128 .b8 word[16];
    .shared .align 8 .b64 full, turn;
    mov.b64 %map, map;
    ld.param.u64 %rd0, [in];
    ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra made;
    mbarrier.init.shared::cta.b64 [full], 2;
    mbarrier.init.shared::cta.b64 [turn], 1;
made:
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 64;
    @%p1 bra read;
    setp.eq.u32 %p2, %r0, 32;
    @%p2 bra second;
    @%p0 bra done;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%map, {%r0}], [full];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [turn], 16;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [word], [%rd0], 16, [turn];
    bra done;
second:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [turn], 0;
    @!%p3 bra second;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [turn], 0;
    @!%p3 bra again;
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile+2048], [%map, {%r0}], [full];
    bra done;
read:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0;
    @!%p4 bra read;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, tile;
    add.u32 %r1, %r1, %r2;
    ld.shared.u32 %r3, [%r1+2048];
    st.global.u32 [%rd1], %r3;
done:
    ret;
}
"""


def test_stores_that_are_alike_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unrolled copy of libcu++ has tens of thousands, and the parity of a wait may come from any of them."""
    asked = 0
    may_meet = SharedStores._may_meet

    def counted(self: SharedStores, *places: Any) -> bool:
        nonlocal asked
        asked += 1
        return may_meet(self, *places)

    monkeypatch.setattr(SharedStores, "_may_meet", counted)
    stores = "\n".join(f"st.shared.u32 [tile+{4 * (k % 2)}], %r{k % 7};" for k in range(200))
    loads = "\n".join("ld.shared.u32 %r8, [tile+4];" for _ in range(10))
    known = model(f".shared .align 8 .b8 tile[64];\n{stores}\n{loads}\nret;")
    stored = SharedStores(known)
    sites = [i for i in known.shared.sites if i not in set(known.shared.writers)]
    assert [len(stored.writers(i)) for i in sites] == [100] * 10
    assert asked == 20


@pytest.mark.parametrize(("waited", "wrong"), [("full", False), ("turn", True)])
def test_a_phase_expects_the_bytes_of_two_threads(waited: str, wrong: bool) -> None:
    """It is unknown how much tensor copies load; what is expected after one is still to come (CuTe DSL, TMA pipelines)."""
    found = replay(changed("%p4, [full], 0", f"%p4, [{waited}], 0", PRODUCERS)).run
    assert bool(found and found.races) is wrong


def test_a_copy_reports_to_the_cta_that_it_fills() -> None:
    """Mojo's kernels for sm_90a clear the bit of the CTA in each such address; an H200 does not look at it."""
    run = replay(
        changed(
            "    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r30], [%in], 2048, [%r29];",
            "    and.b32 %r32, %r29, 0xfeffffff;\n"
            "    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r30], [%in], 2048, [%r32];",
        ).replace(".reqntid 160", ".reqntid 160\n.reqnctapercluster 2")
    )
    assert run.run is None
    assert run.runs
    assert not any(run.wrong for run in run.runs)


def test_the_launch_whose_threads_get_farthest_is_reported() -> None:
    """Without .reqntid, CTAs of several sizes are tried; what is reported should be about those that the kernel is made for."""
    code = changed(GIVE, "")
    known, tried = (replay(c).run for c in (code, code.replace(".reqntid 160\n", "")))
    assert known is not None
    assert tried is not None
    assert tried.entered == known.entered
    assert {s.site for s in tried.deadlocks} == {s.site for s in known.deadlocks}


def test_clusters_that_the_kernel_does_not_state() -> None:
    """Clusters of another shape than the kernel is made for go wrong anyway: a fault is reported where no shape succeeds."""
    known = replay(MULTICAST.replace(".reqntid 160", ".reqntid 160\n.reqnctapercluster 2")).run
    assert known is not None
    assert known.deadlocks or known.races
    asked = replay(MULTICAST)
    assert what(asked.run) == what(known)
    assert isinstance(asked.verdict, Faulty)
    assert asked.verdict.assumed_cluster == (2,)
    (hit,) = replayed(asked.model)
    assert hit.message.endswith(" (if launched in clusters of 2; no other shape succeeds)")
    unbounded = replay(MULTICAST.replace(".reqntid 160\n", ""))
    assert unbounded.run is None
    assert why(unbounded) == Reason.NO_CLUSTER_SHAPE


def test_the_clusters_that_a_kernel_is_made_for() -> None:
    asked = replay(PAIR.replace(".reqnctapercluster 2\n", ""))
    assert asked.verdict == NoFault()
    assert [run.finished for run in asked.runs] == [True]


def test_clusters_of_which_one_shape_cannot_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the one that the kernel is made for."""
    alter(monkeypatch, "MAX_STEPS", 100)
    asked = replay(MULTICAST)
    assert asked.run is None
    assert why(asked) == Reason.TOO_LONG
    monkeypatch.undo()
    alter(monkeypatch, "MAX_CLUSTER_SEARCH_STEPS", 1_000)
    asked = replay(MULTICAST)
    assert asked.run is None
    assert why(asked) == Reason.TOO_LONG


def test_a_copy_that_reports_to_the_other_cta_of_its_pair() -> None:
    """For each CTA of the mask, the mbarrier is that of its pair with the rank, even or odd, of the named one."""
    asked = replay(PAIR)
    assert asked.run is None
    assert why(asked) == ""
    own = changed("    mapa.shared::cluster.u32 %r2, %r2, %r3;\n", "", PAIR)
    assert "stuck" in what(replay(own).run)


DRAIN = """    mov.u32 %r28, last;
    mbarrier.arrive.shared::cta.b64 _, [%r28];
drain:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r28], 0;
    @!%p1 bra drain;
"""
"""What the consumers do after the loop: they wait for each other."""


def drained(count: int, code: str = RING) -> str:
    """The ring, with an mbarrier after it that the consumers arrive at."""
    code = changed("    @%p5 bra use;\n", "    @%p5 bra use;\n" + DRAIN, code)
    code = changed("    mbarrier.init.shared::cta.b64 [full], 1;\n",
                   f"    mbarrier.init.shared::cta.b64 [last], {count};\n    mbarrier.init.shared::cta.b64 [full], 1;\n", code)  # fmt: skip
    return changed("    .shared .align 8 .b64 full[3];", "    .shared .align 8 .b64 last, full[3];", code)


LONG = RING.replace(".param .u32 rounds", ".param .u64 rounds").replace(
    "ld.param.u32 %r20, [rounds];", "ld.param.u64 %last, [rounds];\n    mov.u64 %i, 0;"
).replace(".reg .b64 %in, %out;", ".reg .b64 %in, %out, %i, %last;").replace(
    "    add.u32 %r21, %r21, 1;\n    setp.lt.u32 %p5, %r21, %r20;\n",
    "    add.u64 %i, %i, 1;\n    setp.lt.u64 %p5, %i, %last;\n",
)  # fmt: skip
"""A number of 64 bits bounds the loops."""


FLAG = RING.replace(
    "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;\n",
    "    mov.u32 %r1, 0;\n    setp.ge.u32 %p5, %r21, %r20;\n    @%p5 bra over;\n    mov.u32 %r1, 1;\nover:\n"
    "    setp.ne.u32 %p5, %r1, 0;\n    @%p5 bra use;\n",
)
"""A flag says whether there is more to do."""


@pytest.mark.parametrize("code", [pytest.param(c, id=i) for i, c in [("number", RING), ("64 bits", LONG), ("turns", WALK), ("flag", FLAG)]])  # fmt: skip
def test_what_follows_a_loop_of_many_iterations_is_replayed(code: str) -> None:
    """With the values that are tried first, the loop has more iterations than there are steps."""
    assert code.count("bra use;") == 1
    right = replay(drained(128, code))
    assert right.run is None
    assert why(right) == ""
    assert what(replay(drained(129, code)).run) == {"stuck"}


def test_what_makes_no_difference_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many iterations are left that a grid of sixteen times as many CTAs ends no sooner than the step limit."""
    seen = []

    def ran(self: LaunchSearch, machine: Machine) -> ReplayRun | None:
        seen.append((machine.launch.values.grid, *set(machine.launch.values.others.values())))
        return original(self, machine)

    original = LaunchSearch._run_machine
    monkeypatch.setattr(LaunchSearch, "_run_machine", ran)
    monkeypatch.setattr(Machine, "_extrapolate_trip_count", lambda *_: None)
    tried = replay(drained(128, WALK))
    assert tried.run is None
    assert why(tried) == ""
    assert seen[:3] == [(8,), (128,), (128, 512 // 4**2)]


BROADCAST = changed(
    "    @%p5 bra use;\n",
    "    selp.b32 %r1, 1, 0, %p5;\n    shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;\n    setp.ne.b32 %p5, %r1, 0;\n    @%p5 bra use;\n",
)
"""One lane broadcasts whether there is more to do."""


@pytest.mark.parametrize("code", [WALK, LONG, BROADCAST])
@pytest.mark.parametrize("extrapolates", [True, False])
def test_the_trip_count_of_a_long_loop_is_extrapolated(code: str, extrapolates: bool) -> None:
    """How far a counter is from its bound shows it after a few iterations."""
    made = analysed(code)
    machine = Machine(
        Program(made),
        Launch(made, LaunchValues(1 << 16, 8), (160,)),
        Limits(5_000, extrapolates=extrapolates),
    )
    with pytest.raises(TooManyIterations) as error:
        machine.run()
    assert (error.value.excess > 1) is extrapolates
    assert (machine.budget > 4_600) is extrapolates


def test_no_verdict_rests_on_iterations_that_were_only_extrapolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are right for a launch of 16 rounds or more, and this kernel may have no other."""

    def foresee(self: Machine, group: ThreadGroup, header: int) -> None:
        if self.limits.extrapolates and self._iterations[header] > 2:
            raise TooManyIterations(self.program.loops.bounds[header], 2)

    monkeypatch.setattr(Machine, "_extrapolate_trip_count", foresee)
    code = changed("_, [%r29], 2048;", "_, [%r29], %r1;").replace(
        "ld.param.u32 %r20, [rounds];",
        "ld.param.u32 %r20, [rounds];\n    setp.lt.u32 %p1, %r20, 16;\n    selp.u32 %r1, 4096, 2048, %p1;",
    )
    assert replay(code).run is None
    assert "stuck" in what(replay(changed("%r20, 16;", "%r20, 4096;", code)).run)


COUNTED = changed(
    "    .shared .align 8 .b64 full[3];",
    "    .shared .align 16 .b32 trips[160];\n    .shared .align 16 .b32 other[4];\n    .shared .align 8 .b64 full[3];\n"
    "    .shared .align 8 .b64 loaded;",
)
COUNTED = changed(
    "ready:\n    bar.sync 0;\n",
    "    mov.u32 %r1, trips;\n    mbarrier.init.shared::cta.b64 [loaded], 1;\n    st.shared.u32 [trips], 4;\nready:\n"
    "    bar.sync 0;\n    mad.lo.u32 %r1, %r0, 4, 0;\n    mov.u32 %r2, trips;\n    add.u32 %r1, %r1, %r2;\n"
    "    //\n    bar.sync 0;\n    ld.shared.u32 %r20, [trips];\n",
    COUNTED,
)
"""There are 4 iterations, as one thread passes to the others; %r1 is an address of each thread's own, from there on."""


@pytest.mark.parametrize(
    ("more", "known"),
    [
        pytest.param("", True, id="nothing else"),
        pytest.param("st.shared.u32 [other], %r20;", True, id="beside it"),
        pytest.param("atom.shared.add.u32 %r2, [other], %r20;", True, id="an addition beside it"),
        pytest.param("atom.shared.add.u32 %r2, [trips], %r20;", False, id="atom"),
        pytest.param("red.shared.max.u32 [trips], %r20;", False, id="red"),
        pytest.param("cp.async.ca.shared.global [trips], [%in], 4;\n    cp.async.wait_all;", False, id="cp.async"),
        pytest.param("mov.u32 %r2, %clock;\n    st.shared.u32 [%r1], %r2;", False, id="each thread stores its own"),
        pytest.param("mov.u32 %r2, %clock;\n    st.shared.u32 [%r1], %r2;\n    bar.sync 0;\n    st.shared.u32 [trips], 4;", True, id="and then it is known again"),
        pytest.param("mov.u32 %r32, %clock;\n    and.b32 %r32, %r32, 127;\n    mad.lo.u32 %r2, %r32, 4, %r1;\n    @!%p0 st.shared.u32 [%r2], 7;", False, id="to where is not known"),
        pytest.param("mov.u32 %r32, %clock;\n    and.b32 %r32, %r32, 3;\n    mov.u32 %r2, other;\n    mad.lo.u32 %r2, %r32, 4, %r2;\n    st.shared.u32 [%r2], 7;", True, id="where in another variable"),
        pytest.param("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r20};", False, id="stmatrix"),
        pytest.param("cvta.shared.u64 %in, trips;\n    mov.u32 %r2, %clock;\n    st.u32 [%in], %r2;\n    ld.param.u64 %in, [in];", False, id="a generic address"),
        pytest.param("st.u32 [%out], %r20;", True, id="a generic address of the launch"),
    ],
)  # fmt: skip
def test_a_number_in_shared_memory_that_something_may_change(more: str, known: bool) -> None:
    """A ring deadlocks when stages are not released, if the trip count is the stored one; any other value is unknown."""
    code = COUNTED.replace("//", more)
    right, wrong = replay(code), replay(changed(GIVE, "", code))
    assert right.run is None
    assert what(wrong.run) == {"stuck"} if known else wrong.run is None
    assert (why(right) == "") is known


@pytest.mark.parametrize(
    ("place", "size", "known"),
    [("trips", "16", False), ("other", "16", True), ("trips", "%r20", False), ("other", "%r20", True), ("%r2", "16", False)],
)  # fmt: skip
def test_a_value_that_a_copy_may_overwrite_is_unknown(place: str, size: str, known: bool) -> None:
    copy = f"""mov.u32 %r2, %clock;
    @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [loaded], {size};
    @!%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{place}], [%in], {size}, [loaded];
come:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [loaded], 0;
    @!%p1 bra come;"""
    right = replay(COUNTED.replace("//", copy))
    assert right.run is None
    assert (why(right) == "") is known


def test_roles_by_a_value_of_the_launch_in_shared_memory() -> None:
    """How many warps copy comes with the launch, and is loaded from where one thread has stored it."""
    code = changed(
        "setp.lt.u32 %p2, %r0, 128;",
        "ld.shared.u32 %r1, [trips+8];\n    setp.lt.u32 %p2, %r0, %r1;",
        COUNTED.replace(
            "st.shared.u32 [trips], 4;", "st.shared.u32 [trips], 4;\n    st.shared.u32 [trips+8], %r20;"
        ),
    )
    asked, constant = replay(code), replay(code.replace("[trips+8], %r20;", "[trips+8], 128;"))
    assert (asked.run, constant.run) == (None, None)
    assert asked.runs[0].wrong  # with 512 there are no consumers
    assert not why(constant)


@pytest.mark.parametrize(
    ("store", "asked"),
    [("st.shared.u32 [trips], %r20;", "ld.shared.u32 %r20, [trips];"),
     ("st.shared.v2.u32 [trips], {%r3, %r20};", "ld.shared.v2.u32 {%r3, %r20}, [trips];")],
)  # fmt: skip
def test_a_number_that_a_thread_leaves_to_the_others(store: str, asked: str) -> None:
    """The trip count is loaded from shared memory, where one thread has stored it."""
    code = changed(
        "    .shared .align 8 .b64 full[3];",
        "    .shared .align 8 .b32 trips[2];\n    .shared .align 8 .b64 full[3];",
    )
    code = changed("ready:\n    bar.sync 0;\n", f"    {store}\nready:\n    bar.sync 0;\n    {asked}\n", code)
    assert replay(code).run is None
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}


def test_a_number_that_one_lane_of_a_group_stores() -> None:
    """No thread branches, so the others pass the store and leave what is there."""
    code = changed(
        "    .shared .align 8 .b64 full[3];",
        "    .shared .align 8 .b32 trips;\n    .shared .align 8 .b64 full[3];",
    )
    both = "    @!%p0 st.shared.u32 [trips], %r20;\n    bar.sync 0;\n    ld.shared.u32 %r20, [trips];\n"
    code = changed("ready:\n    bar.sync 0;\n", "ready:\n" + both, code)
    assert replay(code).run is None
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}
    assert (
        replay(
            changed(
                GIVE, "", code.replace("@!%p0 st.", "@%p0 st.").replace("%r20;\n    bar", "%r32;\n    bar")
            )
        ).run
        is None
    )


def test_each_part_of_a_group_may_have_its_own_barrier() -> None:
    """Two warps meet at one barrier, and two at another."""
    meet = "    shr.u32 %r1, %r0, 6;\n    add.u32 %r1, %r1, 1;\n    bar.sync %r1, 64;\n"
    code = changed(GIVE, meet + GIVE)
    right, unknown = replay(code), replay(changed("%r1, 64;", "%r32, 64;", code))
    assert (right.run, why(right)) == (None, "")
    assert (unknown.run, why(unknown)) == (None, Reason.UNKNOWN_BARRIER)
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}


@pytest.mark.parametrize("how", ["bfly", "down", "idx"])
def test_a_number_that_lanes_add_up(how: str) -> None:
    """The first lane has the trip count, and the others nothing."""
    step = "    shfl.sync.{how}.b32 %r2, %r1, {by}, 31, 0xffffffff;\n    add.u32 %r1, %r1, %r2;\n"
    first = "    mov.u32 %r2, %laneid;\n    setp.eq.u32 %p1, %r2, 0;\n    selp.u32 %r1, %r20, 0, %p1;\n"
    steps = "" if how == "idx" else "".join(step.format(how=how, by=by) for by in (16, 8, 4, 2, 1))
    broadcast = "    shfl.sync.idx.b32 %r20, %r1, 0, 31, 0xffffffff;\n"
    code = changed("    mov.u32 %r24, tile;\n", first + steps + broadcast + "    mov.u32 %r24, tile;\n")
    right = replay(code)
    assert (right.run, why(right)) == (None, "")
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}


@pytest.mark.parametrize(
    ("how", "lane", "by", "bounds", "other", "inside"),
    [
        ("up", 5, 2, 0, 3, True),
        ("up", 1, 2, 0, 1, False),
        ("down", 30, 2, 31, 30, False),
        ("down", 5, 2, 31, 7, True),
        ("bfly", 5, 16, 31, 21, True),
        ("idx", 5, 9, 31, 9, True),
        ("idx", 21, 3, 0x101F, 19, True),  # parts of 16 lanes
        ("down", 14, 2, 0x100F, 14, False),
        ("up", 17, 2, 0x1000, 17, False),
    ],
)  # fmt: skip
def test_shuffles(how: str, lane: int, by: int, bounds: int, other: int, inside: bool) -> None:
    made = model(f"    shfl.sync.{how}.b32 %r1|%p1, %r2, {by}, {bounds}, 0xffffffff;\n    ret;")
    match = made.instruction(0).match
    assert match is not None
    assert shuffled(match, 64 + lane, by, bounds) == (64 + other, inside)


@pytest.mark.parametrize(
    ("constant", "above"),
    [
        pytest.param(
            "mov.f64 %fd, 0d4005BF0A8B145769;\n    mov.b64 {%r1, %r2}, %fd;", 0x4005BF09, id="upper half of e"
        ),
        pytest.param("mov.f32 %f, 0f3F800000;\n    mov.b32 %r2, %f;", 0x3F7FFFFF, id="one"),
    ],
)
def test_the_bits_of_a_floating_point_constant(constant: str, above: int) -> None:
    """They decide how a logarithm of it is computed."""
    code = changed(
        "    .reg .b64 %in, %out;", "    .reg .b64 %in, %out;\n    .reg .f32 %f;\n    .reg .f64 %fd;"
    )
    early = (
        f"    {constant}\n    setp.gt.s32 %p1, %r2, {above};\n    @!%p1 bra done;\n    mov.u32 %r24, tile;\n"
    )
    code = changed("    mov.u32 %r24, tile;\n", early, code)
    assert what(replay(changed(GIVE, "", code)).run) == {"stuck"}
    assert replay(changed(f"{above};", f"{above + 1};", changed(GIVE, "", code))).run is None


def test_rounds_that_no_launch_decides() -> None:
    """The trip count of this loop is fixed."""
    code = changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 4096;")
    asked = replay(drained(129, code))
    assert isinstance(asked.verdict, GaveUp)
    assert asked.verdict.why is Reason.TOO_MANY_ITERATIONS
    assert asked.verdict.site >= 0
    fewer = changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 64;")
    assert what(replay(drained(129, fewer)).run) == {"stuck"}


def test_a_kernel_of_many_steps_gets_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launch changes how many there are, and a second one is not tried when the first has not been enough."""
    code = drained(129, changed("ld.param.u32 %r20, [rounds];", "mov.u32 %r20, 300;"))
    assert what(replay(code).run) == {"stuck"}
    launches: list[int] = []
    run = Machine.run

    def counted(self: Machine) -> list[Stuck]:
        launches.append(self.limits.extra_steps)
        return run(self)

    monkeypatch.setattr(Machine, "run", counted)
    alter(monkeypatch, "MAX_EXTRA_STEPS", 100)
    assert replay(code).run is None
    assert launches == [100]


LEAVES = "    ld.param.u32 %r32, [tiles];\n    setp.ge.u32 %p5, %r20, %r32;\n    @%p5 bra rest;\n"
"""A later loop has iterations left where one value of the launch is less than another."""
REREAD = "    mad.lo.u32 %r30, %r0, 16, %r24;\n    ld.shared.u32 %r3, [%r30];\n"


@pytest.mark.parametrize(
    ("before", "rest", "said"),
    [("load:\n", "", "deadlock: "), ("use:\n", REREAD, "reads shared memory")],
)
def test_values_for_which_there_is_no_work(before: str, rest: str, said: str) -> None:
    """FlashAttention's backward pass has no tile where both lengths and the number of blocks are the same."""
    code = changed(".param .u32 rounds)", ".param .u32 rounds, .param .u32 tiles)")
    code = changed("    mad.wide.u32 %out", f"rest:\n{rest}    mad.wide.u32 %out", code)
    (hit,) = replayed(replay(changed(before, LEAVES + before, code)).model)
    assert said in hit.message
    assert hit.confidence is Confidence.LOW
    (hit,) = replayed(replay(changed(WAIT, "", code)).model)
    assert hit.confidence is not Confidence.LOW


FIRST = "    mov.u32 %r32, %ctaid.x;\n    mul.lo.u32 %r32, %r32, {};\n    setp.eq.u32 %p5, %r32, 0;\n    @%p5 bra rest;\n"
"""A later loop has iterations left in all CTAs but one."""
ALL_STAGES = REREAD.replace(", 16,", ", 48,")


@pytest.mark.parametrize(
    "size", [pytest.param("%r20", id="of the launch"), pytest.param("128", id="constant")]
)
@pytest.mark.parametrize(
    ("fewer", "wrong"), [pytest.param(0, False, id="right"), pytest.param(2, True, id="wrong")]
)
def test_a_launch_that_executes_what_others_skip(fewer: int, wrong: bool, size: str) -> None:
    """The first CTA has nothing to do in the loop, so what goes wrong after it is tried in the last one as well."""
    code = changed("use:\n", f"{FIRST.format(size)}    sub.u32 %r20, %r20, {fewer};\nuse:\n")
    code = changed("    mad.wide.u32 %out", f"rest:\n{ALL_STAGES}    mad.wide.u32 %out", code)
    asked = replay(code)
    assert (asked.run is not None) == wrong
    assert [run.wrong for run in asked.runs[:3]] == [True] * 3
    assert {run.wrong for run in asked.runs[3:]} == {wrong}
    assert [hit.confidence for hit in replayed(asked.model)] == [Confidence.MEDIUM] * wrong


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
    assert hit.message.startswith("reads shared memory that a bulk copy may still be writing")


TAIL = changed(
    "    @%p5 bra load;\n",
    "    @%p5 bra load;\n    shl.b32 %r27, %r22, 3;\n    add.u32 %r28, %r26, %r27;\n"
    + FREE.replace("free", "tail"),
)
"""After its loop the producer waits until the next stage is free."""


def test_a_wait_after_a_loop_of_many_iterations_is_not_reported() -> None:
    """No run has passed it with more iterations, so the smaller trip counts are not to blame."""
    assert replay(TAIL).run is None
    assert "stuck" in what(replay(changed("tail:\n", "    xor.b32 %r23, %r23, 1;\ntail:\n", TAIL)).run)


STEP = RING[RING.index("use:\n") : RING.index("    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;")]
MORE = WAIT.replace("wait:", "more:").replace("bra wait", "bra more")
REST = STEP.replace("use:", "rest:").replace(WAIT, MORE)
TILES = changed("ld.param.u32 %r20, [rounds];", "ld.param.u32 %r20, [rounds];\n    shr.u32 %r20, %r20, 6;")


def in_pairs(rest: str) -> str:
    """The consumer takes two stages in a round, and *rest* where the number of stages is odd."""
    return changed(
        "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;\n",
        "    and.b32 %r31, %r20, -2;\n    setp.lt.u32 %p5, %r21, %r31;\n    @%p5 bra use;\n"
        f"    and.b32 %r31, %r20, 1;\n    setp.eq.u32 %p5, %r31, 0;\n    @%p5 bra left;\n{rest}left:\n",
        TILES,
    )


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("rest:", "rest:", "", id="right"),
        pytest.param(MORE, "", "race", id="no wait"),
        pytest.param("more:\n", "    xor.b32 %r23, %r23, 1;\nmore:\n", "race", id="the other parity"),
    ],
)
def test_what_is_left_over_of_a_loop(old: str, new: str, seen: str) -> None:
    """No launch of the usual sizes comes there, and so none says that it goes right."""
    run = replay(in_pairs(changed(old, new, REST))).run
    assert what(run) == {seen} if seen else run is None


def persistent(stride: str, shift: int, consumer: str = "") -> str:
    """The ring for one tile after the other, as many as a parameter says; *consumer* is done by that before each."""
    code = changed(".param .u32 rounds)", ".param .u32 rounds, .param .u32 tiles)", TILES)
    code = changed(".reg .b32 %r<33>;", ".reg .b32 %r<37>;", code)
    code = changed(
        "    mov.u32 %r0, %tid.x;\n",
        "    mov.u32 %r0, %tid.x;\n    mov.u32 %r33, %ctaid.x;\n"
        f"    mov.u32 %r34, {stride};\n    ld.param.u32 %r35, [tiles];\n    shr.u32 %r35, %r35, {shift};\n",
        code,
    )
    for loop, begin in (("load", ""), ("use", consumer)):
        code = changed(f"{loop}:\n", f"{loop}tile:\n    mov.u32 %r21, 0;\n{begin}{loop}:\n", code)
        end = f"    @%p5 bra {loop};\n"
        code = changed(end, f"{end}    add.u32 %r33, %r33, %r34;\n    setp.lt.u32 %p5, %r33, %r35;\n    @%p5 bra {loop}tile;\n", code)  # fmt: skip
    return code


@pytest.mark.parametrize(
    ("stride", "shift"), [pytest.param("%nctaid.x", 6, id="grid"), pytest.param("132", 4, id="constant")]
)
def test_later_tiles_of_a_persistent_kernel(stride: str, shift: int) -> None:
    """The launch that is tried first has one tile for each CTA, and shows nothing about later tiles."""
    right = replay(persistent(stride, shift))
    assert right.run is None
    first, *others = right.runs
    assert len(others) == 1
    assert others[0].repeated > first.repeated
    wrong = replay(persistent(stride, shift, "    mov.u32 %r22, 0;\n    mov.u32 %r23, 0;\n"))
    assert wrong.run is not None
    assert not wrong.runs[0].wrong


TILED = """
    .shared .align 8 .b64 m[2];
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r2, [length];
    ld.param.u32 %r3, [tile];
    mov.u32 %r4, 0;
    mov.u32 %r5, 0;
    mov.u32 %r6, m;
    mov.u32 %r7, m;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], 128;
    mbarrier.init.shared::cta.b64 [m+8], 128;
ready:
    bar.sync 0;
next:
    mbarrier.arrive.shared::cta.b64 _, [%r7];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r5;
    @!%p2 bra wait;
    add.u32 %r4, %r4, %r3;
    div.u32 %r8, %r4, %r3;
    and.b32 %r9, %r8, 1;
    mad.lo.u32 %r7, %r9, 8, %r6;
    shr.u32 %r5, %r8, 1;
    and.b32 %r5, %r5, 1;
    setp.lt.u32 %p3, %r4, %r2;
    @%p3 bra next;
    ret;
"""
"""All threads arrive at a stage for each tile, and wait for it."""


def test_a_second_tile_needs_a_length_that_is_larger_than_a_tile() -> None:
    """The launches in which all words are equal have one tile, and use one stage of the ring."""
    parameters = ".param .u32 length, .param .u32 tile"
    assert Replay(model(TILED, parameters=parameters)).run is None
    late = changed(
        "    shr.u32 %r5, %r8, 1;\n    and.b32 %r5, %r5, 1;\n", "    and.b32 %r5, %r8, 1;\n", TILED
    )
    run = Replay(model(late, parameters=parameters)).run
    assert what(run) == {"stuck"}


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
    program = Program(found)
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
    assert why(Replay(model(small, directives=""))) == Reason.NO_CTA_SHAPE


@pytest.mark.parametrize(
    ("store", "load", "races"),
    [(".volatile", ".volatile", False), (".relaxed.cta", ".acquire.cta", False), ("", "", True)],
)  # fmt: skip
def test_strong_accesses_of_two_warps_do_not_race(store: str, load: str, races: bool) -> None:
    """The second thread reads what the first one has stored, or does not."""
    flags = f"""    .shared .align 4 .b32 flag;
    @%p0 bra reads;
    st{store}.shared.u32 [flag], 1;
    mbarrier.arrive.shared::cta.b64 _, [m];
    bra wait;
reads:
    setp.ne.u32 %p4, %r0, 64;
    @%p4 bra give;
    ld{load}.shared.u32 %r5, [flag];
give:
"""
    run = Replay(model(changed("    mbarrier.arrive", flags + "    mbarrier.arrive", ALL_ARRIVE))).run
    assert what(run) == {"race"} if races else run is None


def test_a_flag_at_an_address_of_the_launch_is_not_in_shared_memory() -> None:
    """Threads that have read it once poll it or do not, and meet again: what it holds decides nothing else."""
    poll = """    ld.param.u64 %rd0, [pointer];
    ld.acquire.gpu.u32 %r5, [%rd0];
    setp.eq.u32 %p3, %r5, 1;
    @%p3 bra polled;
again:
    nanosleep.u32 64;
    ld.acquire.gpu.u32 %r5, [%rd0];
    setp.ne.u32 %p3, %r5, 1;
    @%p3 bra again;
polled:
"""
    asked = Replay(model(changed("    bar.sync 0;\n", poll + "    bar.sync 0;\n", ALL_ARRIVE)))
    assert not why(asked)
    assert asked.run is None


def test_later_tiles_whose_work_is_in_memory() -> None:
    """Values in memory may not occur together in any launch, so what is right in the first iteration counts for all."""
    code = persistent("%nctaid.x", 6, "    mov.u32 %r22, 0;\n    mov.u32 %r23, 0;\n")
    listed = changed("    ld.param.u32 %r35, [tiles];\n", "    ld.global.u32 %r35, [%in];\n", code)
    assert replay(listed).run is None


def test_values_like_those_that_showed_nothing_new_are_tried_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = replay(RING)
    assert found.run is None
    odd = hypotheses.ODD_SIZES.value
    launches, same = LaunchResults(found.model, Program(found.model)), found.runs[0]
    last = {LaunchHypothesis(1280, 24, 23), LaunchHypothesis(512, 8, 7), LaunchHypothesis(1098, 5, 4)}
    monkeypatch.setattr(LaunchResults, "_promising", lambda *_: {*odd, *last})
    assert launches.add(LaunchHypothesis(512, 8), same) == {*odd, *last}
    assert launches.add(odd[0], same) == last
    assert launches.add(LaunchHypothesis(512, 8, 7), same) == set()
    more = same._replace(entered=same.entered | {99})
    assert launches.add(LaunchHypothesis(1280, 2), more) == {*odd, *last}


def test_launches_that_take_too_long_beside_others_that_go_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many others take their place."""
    code = changed(GIVE, "", TILES)
    known = replay(code)
    assert what(known.run) == {"stuck"}
    asked: list[int] = []
    launched = LaunchSearch._replay_once

    def short(self: LaunchSearch, tried: LaunchHypothesis, shape: tuple[int, ...]) -> ReplayRun | None:
        asked.append(tried.size)
        self.gave_up = GaveUp(Reason.TOO_LONG) if tried.size == 1280 else None
        return None if self.gave_up else launched(self, tried, shape)

    monkeypatch.setattr(LaunchSearch, "_replay_once", short)
    assert what(replay(code).run) == {"stuck"}
    assert asked[0] == 512
    assert {1280, 832} < set(asked)


def test_a_kernel_that_takes_even_numbers_only() -> None:
    """With an odd one its consumer waits for a stage that never comes, but at a wait that goes right with others."""
    even = changed(
        "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;\n",
        STEP.replace("use:", "").replace(WAIT, MORE)
        + "    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;\n",
        TILES,
    )
    assert replay(even).run is None
    unused = changed("    setp.lt.u32 %p2, %r0, 128;\n", "    setp.eq.u32 %p2, %r20, 8;\n    @%p2 bra done;\n"
                     "    setp.eq.u32 %p2, %r20, 20;\n    @%p2 bra done;\n    setp.lt.u32 %p2, %r0, 128;\n", even)  # fmt: skip
    assert replay(unused).run is None  # nothing is known to go right


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
    assert hit.message.startswith(
        "may wait for a later phase of the mbarrier: phase 0 can complete before this wait tests it"
    )
    assert [step.role for step in hit.steps] == [None, "warp 0"]
    ordered = changed("    @!%p2 bra wait;\n", "    @!%p2 bra wait;\n    bar.sync 1, 64;\n", code)
    assert replay(changed("give:\n", "give:\n    bar.sync 1, 64;\n", ordered)).run is None


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


def test_lanes_that_wait_for_the_elected_one() -> None:
    """While the elected lane is deadlocked, the others of its warp are at the next election, and not beyond."""
    right = replay(ELECTING)
    assert right.run is None
    assert why(right) == ""
    run = replay(ELECTING.replace(GIVE, "")).run
    assert what(run) == {"stuck"}
    assert run is not None
    assert {len(at.threads) for at in run.deadlocks} == {1, 31, 128}


def test_a_cta_size_that_the_kernel_does_not_state() -> None:
    open_ = changed(".reqntid 160\n", "")
    assert replay(open_).run is None  # right with 160
    assert "stuck" in what(replay(open_.replace(GIVE, "")).run)


def test_a_launch_that_fails_early_is_not_replayed_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says how many threads there are, so all numbers are tried: a glance is enough where it shows the same."""
    begun = list[int]()
    whole = LaunchSearch.replay

    def launched(self: LaunchSearch, tried: LaunchHypothesis, shape: tuple[int, ...]) -> ReplayRun | None:
        begun.append(shape[0])
        return whole(self, tried, shape)

    monkeypatch.setattr(LaunchSearch, "replay", launched)
    flips = "    xor.b32 %r23, %r23, %r31;\n    add.u32 %r21, %r21, 1;\n    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use"
    code = changed(".reqntid 160\n", "", changed(flips, flips.partition("\n")[2]))
    assert replay(code).run is not None
    assert max(begun) == 512  # of those that are tried first


@pytest.mark.parametrize("directive", ["", ".maxntid 1024\n"])
def test_fewer_threads_than_the_bound(directive: str) -> None:
    """A bound is not a size: 288 threads are one launch of many, and for this kernel the right one."""
    wide = changed("], 128;", "], 256;").replace("setp.lt.u32 %p2, %r0, 128;", "setp.lt.u32 %p2, %r0, 256;")
    wide = wide.replace("setp.ne.u32 %p3, %r0, 128;", "setp.ne.u32 %p3, %r0, 256;")
    wide = wide.replace("%r30, %r0, 16, %r30", "%r30, %r0, 8, %r30").replace(".reqntid 160\n", directive)
    assert replay(wide).run is None
    assert "stuck" in what(replay(wide.replace(GIVE, "")).run)


def test_a_bound_below_which_the_kernel_cannot_be_launched() -> None:
    """With fewer threads the mbarriers are not initialised, so these are no launches that could be right."""
    last = changed("setp.ne.u32 %p0, %r0, 0;", "setp.ne.u32 %p0, %r0, 159;").replace(".reqntid", ".maxntid")
    assert replay(last).run is None
    assert "stuck" in what(replay(last.replace(GIVE, "")).run)


@pytest.mark.parametrize(("count", "right"), [(1024, True), (1056, False)])
def test_threads_that_get_farther_and_cannot_be_followed_to_the_end(count: int, right: bool) -> None:
    """They may be those of the launch; the others wait for arrivals that only so many threads make."""
    body = f"""
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [all], {count};
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [all];
    wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [all], 0;
    @!%p1 bra wait;
    cvt.rzi.u32.f32 %r2, %f1;
    bar.sync %r2;
    ret;
    """
    run = Replay(model(body, before=".shared .b64 all;", directives="")).run
    assert (run is None) is right


@pytest.mark.parametrize(
    ("directives", "found"), [("", False), (".maxntid 160, 1, 1\n", False), (".maxntid 32, 5, 1\n", True)]
)
def test_a_bound_on_the_threads_states_no_shape_of_a_cta_in_two_dimensions(
    directives: str, found: bool
) -> None:
    code = changed(".reqntid 160\n", directives).replace(
        "    mov.u32 %r0, %tid.x;\n",
        "    mov.u32 %r0, %tid.x;\n    mov.u32 %r1, %tid.y;\n    mad.lo.u32 %r0, %r1, 32, %r0;\n",
    )
    asked = replay(code.replace(GIVE, ""))
    assert (asked.run is not None) == found
    assert found or why(asked) == Reason.NO_CTA_SHAPE


TWO = pages.block("TC001", "accumulators_in_turn")
"""Two accumulators, computed by one warp and loaded by four others."""
LOADED = "    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r30];\n    tcgen05.wait::ld.sync.aligned;\n    tcgen05.fence::before_thread_sync;\n"


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("", "", "", id="as it is"),
        pytest.param(WAIT, "", "race", id="loaded without a wait"),
        pytest.param(WAIT, WAIT.replace("    @!%p1 bra wait;\n", ""), "race", id="asked once"),
        pytest.param("    add.u32 %r30, %r9, %r30;\n    add.u32 %r30, %r30, %r8;",
                     "    xor.b32 %r30, %r30, 32;\n    add.u32 %r30, %r9, %r30;\n    add.u32 %r30, %r30, %r8;", "race", id="the other's columns"),
        pytest.param(LOADED + GIVE, GIVE + LOADED, "early", id="given back before the load"),
        pytest.param("[loaded], 128;", "[loaded], 32;", "overrun", id="given back by a warp"),
        pytest.param("@%p3 tcgen05.commit", "tcgen05.commit", "overrun", id="committed by a warp"),
        pytest.param("add.u32 %r30, %r30, %r8;", "add.u32 %r30, %r30, %r8;\n    add.u32 %r30, %r30, 0x100000;", "", id="other lanes"),
    ],
)  # fmt: skip
def test_what_a_fault_does_to_accumulators(old: str, new: str, seen: str) -> None:
    run = replay(changed(old, new, TWO)).run
    if seen:
        assert seen in what(run)
    else:
        assert run is None


def test_the_finding_about_a_result_that_is_loaded_too_early() -> None:
    """A reader that begins with the parity of the phase before."""
    begins = "epilogue:\n    mov.u32 %r23, "
    (found,) = reports(changed(begins + "0;", begins + "1;", TWO))
    assert found.rule.id == "TC001"
    assert found.message.startswith("reads tensor memory that tcgen05.mma may not have written yet")
    assert [step.role for step in found.steps] == ["warp 4", "warp 4", "warps 0-3", "warps 0-3"]


def test_the_finding_about_a_result_that_is_overwritten_too_early() -> None:
    (found,) = reports(changed(LOADED + GIVE, GIVE + LOADED, TWO))
    assert found.rule.id == "TC002"
    assert found.message.startswith("overwrites tensor memory that tcgen05.ld may still be reading")
    assert [step.role for step in found.steps] == ["warps 0-3", "warps 0-3", "warp 4", "warp 4"]


HANDED = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry handed(.param .u32 rounds)
.reqntid 160
{
    .reg .pred %p<7>;
    .reg .b32 %r<34>;
    .reg .b64 %b;
    .shared .align 8 .b64 stored;
    .shared .align 8 .b64 computed;
    .shared .align 4 .b32 slot;
    .shared .align 1024 .b8 operands[4096];
    ld.param.u32 %r20, [rounds];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [stored], 128;
    mbarrier.init.shared::cta.b64 [computed], 1;
ready:
    setp.lt.u32 %p2, %r0, 128;
    @%p2 bra allocated;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
allocated:
    bar.sync 0;
    ld.shared.b32 %r9, [slot];
    add.u32 %r8, %r9, 32;
    mov.u32 %r21, 0;
    mov.u32 %r23, 0;
    @%p2 bra make;
    setp.eq.u32 %p3, %r0, 128;
    mov.u32 %r24, operands;
    shr.u32 %r24, %r24, 4;
    cvt.u64.u32 %b, %r24;
    or.b64 %b, %b, 0x4000404000010000;
    mov.b32 %r7, 0x08080490;
take:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [stored], %r23;
    @!%p1 bra take;
    setp.ne.u32 %p6, %r21, 0;
    @%p3 tcgen05.mma.cta_group::1.kind::f16 [%r9], [%r8], %b, %r7, %p6;
    @%p3 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [computed];
    xor.b32 %r23, %r23, 1;
    add.u32 %r21, %r21, 1;
    setp.lt.u32 %p5, %r21, %r20;
    @%p5 bra take;
    bra done;
make:
    shr.u32 %r1, %r0, 5;
    shl.b32 %r1, %r1, 21;
    add.u32 %r8, %r8, %r1;
    add.u32 %r9, %r9, %r1;
    mov.u32 %r3, 0;
again:
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r8], {%r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3};
    tcgen05.wait::st.sync.aligned;
    mbarrier.arrive.shared::cta.b64 _, [stored];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [computed], %r23;
    @!%p1 bra wait;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r4};
    tcgen05.wait::st.sync.aligned;
    xor.b32 %r23, %r23, 1;
    add.u32 %r21, %r21, 1;
    setp.lt.u32 %p5, %r21, %r20;
    @%p5 bra again;
done:
    ret;
}
"""
"""Four warps store what the fifth multiplies by, and change what it has computed."""
EARLY = "reads tensor memory that tcgen05.st may not have written yet"
STORE = """    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r8], {%r3, %r3, %r3, %r3, %r3, %r3, %r3, %r3};
    tcgen05.wait::st.sync.aligned;
"""
GIVEN = "    mbarrier.arrive.shared::cta.b64 _, [stored];\n"
TAKE = "take:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [stored], %r23;\n    @!%p1 bra take;\n"
DONE = "wait:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [computed], %r23;\n    @!%p1 bra wait;\n"
NEXT = "    xor.b32 %r23, %r23, 1;\n    add.u32 %r21, %r21, 1;\n    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra again;\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(TAKE, "take:\n", EARLY, id="multiplied without a wait"),
        pytest.param(STORE + GIVEN, GIVEN + STORE, EARLY, id="given before it is stored"),
        pytest.param(DONE, "", EARLY, id="no wait for the product"),
        pytest.param(NEXT, STORE + NEXT, "", id="stored twice"),
        pytest.param(GIVEN, GIVEN + STORE, EARLY, id="stored twice too early"),
    ],
)  # fmt: skip
def test_what_a_fault_does_to_operands_in_tensor_memory(old: str, new: str, said: str) -> None:
    hits = list(replayed(replay(changed(old, new, HANDED)).model))
    assert [said in hit.message for hit in hits] == ([True] if said else [])


def test_the_copies_of_a_phase_are_complete_together() -> None:
    """However many places they go to: clocks grow with the mbarriers, and not with the rows that are gathered."""
    copy = "    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r30], [%in], 2048, [%r29];\n"
    rows = "".join(copy.replace("[%r30]", f"[%r30+{at}]").replace("2048", "32") for at in range(0, 2048, 32))
    code = changed(copy, rows)
    made = analysed(code)
    machine = Machine(Program(made), Launch(made, LaunchValues(8, 8), (160,)), Limits(50_000))
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


def test_operands_in_tensor_memory_that_are_handed_over() -> None:
    assert replay(HANDED).run is None


READ = "    cp.async.bulk.wait_group.read 0;\n"
STORED = pages.block("BK002", "buffer_given_back_unread").replace(
    "wait_group.read 1;      // leaves the copy under way", "wait_group.read 0;"
)
"""Four warps store what the first thread of the fifth copies to global memory, in two stages."""
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
    assert hit.message.startswith("overwrites shared memory that ")
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


@pytest.mark.parametrize(("phase", "races_found"), [(0, [(1, 2)]), (1, [])])
def test_a_tensor_copy_loads_no_more_than_its_phase_expects(
    phase: int, races_found: list[tuple[int, int]]
) -> None:
    """CUTLASS loads two operands in the first phase of an mbarrier, and one in all others."""
    mbarrier = Mbarrier(0, 64, 1, 1)
    for bytes_ in (4096, 2048):
        mbarrier.expect(bytes_)
        mbarrier.transfers.append(Transfer(BOTTOM, None))
        mbarrier.arrive(1, BOTTOM)
        assert [*mbarrier.complete_transfers()]
    group = ThreadGroup(0, (0,), Registers(), BOTTOM)
    copies = [
        Access(1, True, (0, -1), at, None, Agent(at, "copy", 0), 1, BOTTOM, group, {}, mbarrier, phase, 1)
        for at in (0, 8192)
    ]
    read = Access(2, False, (0, -1), 2048, None, Agent(1, "", 0, (0,)), 1, BOTTOM, group, {})
    found = races([*copies, read], lambda *_: False, Program(analysed(RING)))
    assert [race.key for race in found] == races_found


def test_a_copy_whose_size_the_launch_decides() -> None:
    """With another number of bytes it may end before what is stored."""
    code = changed("[%out], [%r30], 2048;", "[%out], [%r24], %r20;", changed(READ, "", STORED))
    code = changed(
        "mad.lo.u32 %r30, %r0, 16, %r30;",
        "mad.lo.u32 %r30, %r0, 16, %r30;\n    add.u32 %r30, %r30, 64;",
        code,
    )
    code = changed("tile[4096]", "tile[4160]", code)
    assert replay(code).run is None
    assert replay(changed("[%r24], %r20;", "[%r24], 512;", code)).run is not None


FLAGGED = """.version 8.6
.target sm_90
.address_size 64
.visible .entry flagged(.param .u64 out)
.reqntid 64
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .shared .align 8 .b64 m;
    .shared .align 4 .b32 flag;
    .shared .align 4 .b32 data[32];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], 32;
ready:
    bar.sync 0;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, data;
    setp.lt.u32 %p1, %r0, 32;
    @!%p1 bra reader;
    add.u32 %r1, %r1, %r2;
    st.shared.u32 [%r1], %r0;
    bar.warp.sync 0xffffffff;
    st.release.cta.shared.u32 [flag], 1;
    mbarrier.arrive.shared::cta.b64 _, [m];
    bra done;
reader:
    ld.acquire.cta.shared.u32 %r3, [flag];
    setp.ne.u32 %p2, %r3, 1;
    @%p2 bra reader;
    sub.u32 %r1, %r1, 128;
    add.u32 %r1, %r1, %r2;
    ld.shared.u32 %r4, [%r1];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], 0;
    @!%p2 bra wait;
done:
    ret;
}
"""
"""One warp stores, and another reads: a flag in shared memory orders the two."""


@pytest.mark.parametrize(
    ("load", "ordered"),
    [("ld.acquire.cta.shared.u32", True), ("ld.volatile.shared.u32", True), ("ld.shared.u32", False)],
)
def test_a_flag_by_which_threads_synchronise(load: str, ordered: bool) -> None:
    run = replay(changed("ld.acquire.cta.shared.u32", load, FLAGGED)).run
    assert (run is None) is ordered


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


CANCELLING = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry persistent()
.reqntid 64
{
    .reg .pred %p<6>;
    .reg .b32 %r<3>;
    .reg .b128 %q<1>;
    .shared .align 16 .b8 response[16];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
ready:
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra work;
    @%p0 bra done;
    mov.u32 %r1, 1;
    mov.u32 %r2, 0;
ask:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], %r1;
    @!%p2 bra ask;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [full];
answer:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r2;
    @!%p2 bra answer;
    ld.shared.b128 %q0, [response];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
    xor.b32 %r1, %r1, 1;
    xor.b32 %r2, %r2, 1;
    @%p3 bra ask;
    bra done;
work:
    mov.u32 %r2, 0;
more:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r2;
    @!%p2 bra more;
    ld.shared.b128 %q0, [response];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    xor.b32 %r2, %r2, 1;
    @%p3 bra more;
done:
    ret;
}
"""


def test_clusters_that_are_cancelled_for_a_running_one() -> None:
    """The second iteration of a persistent kernel shows what the first cannot."""
    assert replay(CANCELLING).run is None
    late = changed("    xor.b32 %r2, %r2, 1;\n    @%p3 bra more;", "    @%p3 bra more;", CANCELLING)
    assert what(replay(late).run) & {"stuck", "overrun", "race", "early"}
    parted = "    ld.shared.v2.b64 {%d0, %d1}, [response];\n    mov.b128 %q0, {%d0, %d1};"
    other = late.replace("    ld.shared.b128 %q0, [response];", parted).replace(
        "    .reg .b128 %q<1>;", "    .reg .b128 %q<1>;\n    .reg .b64 %d<2>;"
    )
    assert replay(other).run is None  # such a response is taken to be empty


def executed_by(skips: str, parities: str) -> set[str]:
    """What goes wrong in a ring in which the CTAs that do not take a branch *skips* also wait for some parities."""
    waits = "".join(
        f"more{p}:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], {p};\n    @!%p1 bra more{p};\n"
        for p in parities
    )
    begin = f"    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %nctaid.x;\n    sub.u32 %r2, %r2, %r1;\n{skips}"
    end = "    @%p5 bra use;\n"
    run = replay(changed(end, f"{end}{begin}    bar.sync 1, 128;\n{waits}store:\n")).run
    return what(run) if run else set()


@pytest.mark.parametrize(("parities", "seen"), [("01", {"stuck"}), ("", set())])
def test_what_only_the_last_cta_executes(parities: str, seen: set[str]) -> None:
    """As with causal attention: the others have nothing to do after the diagonal. One of two parities does not occur."""
    assert executed_by("    setp.ne.u32 %p3, %r2, 1;\n    @%p3 bra store;\n", parities) == seen


@pytest.mark.parametrize(("parities", "seen"), [("01", {"stuck"}), ("", set())])
def test_what_neither_the_first_nor_the_last_cta_executes(parities: str, seen: set[str]) -> None:
    """As where these two copy the ends of an array, which are not aligned, by other means."""
    ends = "    setp.eq.u32 %p3, %r1, 0;\n    @%p3 bra store;\n    setp.eq.u32 %p3, %r2, 1;\n    @%p3 bra store;\n"
    assert executed_by(ends, parities) == seen


def test_what_another_branch_guards_that_only_a_cta_in_the_middle_executes() -> None:
    ends = "    setp.eq.u32 %p3, %r1, 0;\n    @%p3 bra store;\n    setp.eq.u32 %p3, %r2, 1;\n    @%p3 bra store;\n"
    inner = "    setp.eq.u32 %p3, %r20, 7;\n    @%p3 bra store;\n"
    assert executed_by(ends + inner, "01") == {"stuck"}
    assert executed_by(ends + inner, "") == set()


@pytest.mark.parametrize(("count", "seen"), [(128, set()), (129, {"stuck"})])
def test_a_wait_that_ctas_share_does_not_excuse_another_init(count: int, seen: set[str]) -> None:
    """The first CTA initialises the mbarrier on a path of its own, and passes the wait at which the others deadlock."""
    init = "mbarrier.init.shared::cta.b64 [m], {};"
    own = f"""mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra first;
    {init.format(count)}
    bra ready;
first:
    {init.format(128)}"""
    run = Replay(model(changed(init.format(128), own, ALL_ARRIVE))).run
    assert (what(run) if run else set()) == seen


@pytest.mark.parametrize("kind", ["u32", "u64"])
def test_rounds_that_are_a_difference_in_memory(kind: str) -> None:
    """A sequence length is its end minus its beginning: where all of memory is equal, there is nothing to do."""
    size = int(kind[1:]) // 8
    lengths = f"""    ld.global.{kind} %a, [%in];
    ld.global.{kind} %b, [%in+{size}];
    sub.{kind} %b, %b, %a;
    cvt.u32.{kind} %r20, %b;
    setp.eq.u32 %p3, %r20, 0;
    @%p3 bra done;
"""
    code = changed("    ld.param.u32 %r20, [rounds];\n", lengths).replace(
        "    .reg .b64 %in, %out;", f"    .reg .b64 %in, %out;\n    .reg .b{kind[1:]} %a, %b;"
    )
    if kind == "u32":
        code = code.replace("cvt.u32.u32 %r20, %b", "mov.u32 %r20, %b")
    assert replay(code).run is None
    assert "stuck" in what(replay(code.replace(GIVE, "")).run)


ITEMS = """
.version 8.6
.target sm_90
.address_size 64

.visible .entry items(.param .u64 table, .param .u64 out)
.reqntid 64
{
    .reg .pred %p<8>;
    .reg .b32 %r<16>, %full, %empty, %item;
    .reg .b64 %table, %out, %rd<4>;
    .shared .align 8 .b64 bars[3];
    .shared .align 4 .b32 cell;

    ld.param.u64 %table, [table];
    ld.param.u64 %out, [out];
    mov.u32 %full, bars;
    add.u32 %empty, %full, 8;
    add.u32 %item, %full, 16;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [%full], 32;
    mbarrier.init.shared::cta.b64 [%empty], 32;
    mbarrier.init.shared::cta.b64 [%item], 32;
ready:
    bar.sync 0;
    ld.global.u32 %r1, [%table];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra finish;
    setp.lt.u32 %p2, %r0, 32;
    @%p2 bra producer;
consumer:
    mul.wide.u32 %rd1, %r2, 8;
    add.s64 %rd1, %table, %rd1;
    ld.global.v2.u32 {%r7, %r8}, [%rd1+8];
    sub.s32 %r9, %r8, %r7;
    setp.lt.s32 %p3, %r9, 1;
    @%p3 bra consumed;
chunk:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%full], %r5;
    @!%p4 bra chunk;
    ld.shared.u32 %r10, [cell];
    st.global.u32 [%out], %r10;
    mbarrier.arrive.shared::cta.b64 _, [%empty];
    xor.b32 %r5, %r5, 1;
    sub.s32 %r9, %r9, 1;
    setp.gt.s32 %p5, %r9, 0;
    @%p5 bra chunk;
consumed:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%item], %r6;
    @!%p4 bra consumed;
    xor.b32 %r6, %r6, 1;
    add.s32 %r2, %r2, 148;
    setp.lt.s32 %p6, %r2, %r1;
    @%p6 bra consumer;
    bra finish;
producer:
    mul.wide.u32 %rd1, %r2, 8;
    add.s64 %rd1, %table, %rd1;
    ld.global.v2.u32 {%r7, %r8}, [%rd1+8];
    sub.s32 %r9, %r8, %r7;
    setp.lt.s32 %p3, %r9, 1;
    @%p3 bra produced;
    xor.b32 %r11, %r5, 1;
room:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%empty], %r11;
    @!%p4 bra room;
    @!%p0 st.shared.u32 [cell], %r9;
    bar.warp.sync -1;
    mbarrier.arrive.shared::cta.b64 _, [%full];
    xor.b32 %r11, %r11, 1;
    xor.b32 %r5, %r5, 1;
    sub.s32 %r9, %r9, 1;
    setp.gt.s32 %p5, %r9, 0;
    @%p5 bra room;
produced:
    mbarrier.arrive.shared::cta.b64 _, [%item];
    add.s32 %r2, %r2, 148;
    setp.lt.s32 %p6, %r2, %r1;
    @%p6 bra producer;
finish:
    ret;
}
"""
"""Both roles walk the same items. With items that are not empty, the consumer holds the producer back by each chunk."""


def test_words_of_memory_that_must_be_equal_for_a_fault() -> None:
    """Where all items are empty, the producer may be two phases ahead; nothing is wrong where none is."""
    found = replay(ITEMS).verdict
    assert isinstance(found, Faulty)
    assert found.equal is not None
    assert sorted(found.equal.names) == ["%r7", "%r8"]
    assert found.equal.tested
    full = replay(ITEMS.replace("    mbarrier.arrive.shared::cta.b64 _, [%empty];\n", "")).verdict
    assert isinstance(full, Faulty)
    assert full.equal is None


def test_a_fault_of_equal_words_is_reported_with_its_condition() -> None:
    (hit,) = by_rule(lint(ITEMS), "MB016")
    assert hit.message.endswith("(only if %r8 == %r7, neighbouring words of memory, as of an empty item)")
    assert (hit.severity.label, hit.confidence.label) == ("warning", "medium")
    assert "loads %r8 or %r7, which are equal in this launch" in [step.message for step in hit.steps]
    (always,) = by_rule(
        lint(ITEMS.replace("    mbarrier.arrive.shared::cta.b64 _, [%empty];\n", "")), "MB016"
    )
    assert "only if" not in always.message


SENTINEL = """
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [all], 128;
    bar.sync 0;
    ld.param.u64 %rd0, [pointer];
    ld.param.u64 %rd1, [other];
    ld.global.u32 %r1, [%rd0];
    ld.global.u32 %r2, [{second}];
    setp.{relation}.u32 %p1, %r1, %r2;
    @%p1 bra wait;
    mbarrier.arrive.shared::cta.b64 _, [all];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [all], 0;
    @!%p2 bra wait;
    ret;
"""


@pytest.mark.parametrize(
    ("second", "relation", "found", "condition"),
    [
        ("%rd1", "eq", False, False),  # words of two buffers, which nothing relates
        ("%rd0+4", "eq", True, True),  # neighbours
        ("%rd1", "ne", False, False),
    ],
)
def test_words_of_two_buffers_are_equal_in_no_launch_that_confirms(
    second: str, relation: str, found: bool, condition: bool
) -> None:
    body = SENTINEL.format(second=second, relation=relation)
    asked = Replay(
        model(body, before=".shared .b64 all;", parameters=".param .u64 pointer, .param .u64 other")
    )
    assert isinstance(asked.verdict, Faulty) == found
    assert not isinstance(asked.verdict, Faulty) or (asked.verdict.equal is not None) == condition


def test_roles_that_a_parameter_decides() -> None:
    code = changed(
        "setp.lt.u32 %p2, %r0, 128;", "ld.param.u32 %r1, [rounds];\n    setp.lt.u32 %p2, %r0, %r1;"
    )
    asked = replay(code)
    assert asked.run is None
    assert asked.runs[0].wrong  # with 512 there are no consumers


def test_arrivals_that_a_parameter_counts() -> None:
    code = changed(
        "mbarrier.init.shared::cta.b64 [empty], 128;", "mbarrier.init.shared::cta.b64 [empty], %r20;"
    )
    asked = replay(code)
    assert asked.run is None
    assert why(asked) == Reason.COUNT_FROM_LAUNCH
    either = "selp.b32 %r1, 128, 96, %p1;\n    mbarrier.init.shared::cta.b64 [empty], %r1;"
    chosen = code.replace(
        "mbarrier.init.shared::cta.b64 [empty], %r20;", "setp.ne.u32 %p1, %r20, 0;\n    " + either
    )
    assert replay(chosen).run is None
    assert "stuck" in what(replay(chosen.replace(GIVE, "")).run)


def test_phases_that_a_parameter_names() -> None:
    """Parities that the host passes go with each other; those of a launch that is made up need not."""
    code = changed(".param .u32 rounds)", ".param .u32 rounds, .param .u32 parity)")
    given = code.replace("    mov.u32 %r23, 1;\n", "    ld.param.u32 %r23, [parity];\n")
    asked = replay(given)
    assert asked.run is None
    assert why(asked) == Reason.PHASE_FROM_LAUNCH
    chosen = given.replace(
        "    ld.param.u32 %r23, [parity];\n",
        "    ld.param.u32 %r1, [rounds];\n    setp.ne.u32 %p1, %r1, 0;\n    selp.b32 %r23, 1, 1, %p1;\n",
    )
    assert replay(chosen).run is None
    assert "stuck" in what(replay(chosen.replace(GIVE, "")).run)


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


def test_what_depends_on_memory_is_not_reported() -> None:
    code = changed(
        GIVE,
        "    mov.u32 %r32, %clock;\n    setp.eq.u32 %p3, %r32, 7;\n    @%p3 mbarrier.arrive.shared::cta.b64 _, [%r28];\n",
    )
    asked = replay(code)
    assert asked.run is None
    assert why(asked) == Reason.UNKNOWN_GUARD


def test_roles_by_a_table_in_shared_memory() -> None:
    """Warps that look up their role: bytes of a word that another thread stored."""
    code = changed(
        "    setp.lt.u32 %p2, %r0, 128;\n    @%p2 bra consumer;\n",
        (
            "    shr.u32 %r1, %r0, 5;\n    mov.u32 %r2, roles;\n    add.u32 %r2, %r2, %r1;\n"
            "    ld.shared.u8 %r2, [%r2];\n    setp.eq.u32 %p2, %r2, 1;\n    @%p2 bra consumer;\n"
        ),
    ).replace(
        "ready:\n",
        "    mov.u64 %in, 0x0000000001010101;\n    st.shared.b64 [roles], %in;\n    ld.param.u64 %in, [in];\nready:\n",
    )
    code = code.replace(
        "    .shared .align 8 .b64 full[3];",
        "    .shared .align 8 .b8 roles[8];\n    .shared .align 8 .b64 full[3];",
    )
    assert replay(code).run is None
    assert "stuck" in what(replay(code.replace(GIVE, "")).run)


def test_the_producer_may_be_chosen_by_a_table_that_the_launch_fills() -> None:
    """A hypothetical launch may name a warp that does not exist, and then no warp produces."""
    looked_up = """    shr.u32 %r1, %r0, 5;
    mov.u32 %r2, roles;
    mad.lo.u32 %r2, %r1, 4, %r2;
    ld.shared.u32 %r2, [%r2];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra consumer;
"""
    filled = """ready:
    setp.ge.u32 %p3, %r0, 5;
    @%p3 bra assigned;
    {asked}
    selp.u32 %r1, 1, 0, %p3;
    mov.u32 %r2, roles;
    mad.lo.u32 %r2, %r0, 4, %r2;
    st.shared.u32 [%r2], %r1;
assigned:
    bar.sync 0;
"""
    code = changed("    setp.lt.u32 %p2, %r0, 128;\n    @%p2 bra consumer;\n", looked_up)
    code = code.replace(
        "    .shared .align 8 .b64 full[3];",
        "    .shared .align 4 .b32 roles[5];\n    .shared .align 8 .b64 full[3];",
    ).replace(".param .u32 rounds)", ".param .u32 rounds, .param .u32 chosen)")
    fixed = code.replace("ready:\n", filled.format(asked="setp.eq.u32 %p3, %r0, 4;"))
    assert replay(fixed).run is None
    assert "stuck" in what(replay(fixed.replace(GIVE, "")).run)
    given = code.replace(
        "ready:\n", filled.format(asked="ld.param.u32 %r1, [chosen];\n    setp.eq.u32 %p3, %r0, %r1;")
    )
    assert replay(given).run is None


# ---------------------------------------------------------------- findings


def test_the_finding_about_a_deadlocked_wait() -> None:
    (finding,) = reports(block("producer_begins_with_parity_0"))
    assert finding.rule.id == "MB016"
    assert finding.message == (
        "deadlock: phase 0 of mbarrier empty[0] receives 0 of 128 arrivals, and all remaining threads are blocked as"
        " well"
    )
    assert finding.method is Method.REPLAY
    assert [(s.message, s.role, s.object) for s in finding.steps] == [
        ("expects 128 arrivals in each phase", "thread 0", "mbarrier empty[0]"),
        ("blocked: waits for phase 0", "warps 0-3", "mbarrier full[0]"),
        ("blocked: waits for phase 0", "lane 0 of warp 4", "mbarrier empty[0]"),
    ]
    assert finding.help.startswith("start with parity 1")


def test_a_deadlock_is_a_cycle_of_waits_and_the_arrivals_that_follow_them() -> None:
    (finding,) = reports(block("producer_begins_with_parity_0"))
    producer, consumer = finding.deadlock
    assert (producer.wait.role, producer.wait.object) == ("lane 0 of warp 4", "mbarrier empty[0]")
    assert producer.wait.message == "waits for phase 0, which receives 0 of 128 arrivals"
    assert [(a.role, a.message) for a in producer.arrivals] == [
        ("warps 0-3", "would arrive, but only after the wait for mbarrier full[0]")
    ]
    assert (consumer.wait.role, consumer.wait.object) == ("warps 0-3", "mbarrier full[0]")
    assert [(a.role, a.message) for a in consumer.arrivals] == [
        ("lane 0 of warp 4", "would arrive, but only after the wait for mbarrier empty[0]")
    ]


def test_threads_that_wait_for_their_own_arrival_are_the_last_party() -> None:
    wait = "again:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r28], 0;\n    @!%p1 bra again;\n"
    (hit,) = replayed(replay(changed(GIVE, f"{wait}{GIVE}")).model)
    party = hit.deadlock[-1]
    assert (party.wait.role, party.wait.object) == ("warps 0-3", "mbarrier empty[0]")
    assert [a.message for a in party.arrivals] == ["would arrive, but only after this wait"]


def test_a_party_for_which_no_instruction_arrives_has_no_arrivals() -> None:
    (hit,) = replayed(replay(changed(GIVE, "")).model)
    first = hit.deadlock[0]
    assert first.wait.object == "mbarrier empty[0]"
    assert first.arrivals == ()


def test_a_deadlock_states_why_an_arrival_does_not_come() -> None:
    asked = replay(block("producer_begins_with_parity_0"))
    model, run = asked.model, asked.run
    assert run is not None
    producer, consumers = sorted(run.deadlocks, key=lambda s: s.site)
    give = next(i for i in model.sites("mbarrier-arrive") if i > consumers.site)

    def why(*deadlocks: Stuck, executed: bool) -> list[str]:
        entered = frozenset({model.cfg.block_of[give]}) if executed else frozenset[int]()
        first, *_ = parties(model, run._replace(deadlocks=list(deadlocks), entered=entered), producer)
        return [arrival.message for arrival in first.arrivals]

    blocked = "but only after the wait for mbarrier full[0]"
    assert why(producer, consumers, executed=False) == [f"would arrive, {blocked}"]
    assert why(producer, consumers, executed=True) == [f"would arrive again, {blocked}"]
    assert why(producer, executed=False) == ["would arrive, but does not reach this"]
    assert why(producer, executed=True) == ["arrived before, but does not reach this again"]


def test_the_finding_about_one_arrival_too_many() -> None:
    (hit,) = replayed(replay(changed(GIVE, GIVE.replace("%r28", "%r29"))).model)
    assert hit.rule == "MB016"
    assert hit.message == "arrives in excess of the count of the mbarrier: phase 1 takes 1 arrival"
    assert [step.message for step in hit.steps] == [
        "expects 1 arrival in each phase",
        "arrives once more in phase 1",
    ]


def test_the_finding_about_a_stage_that_is_read_too_early() -> None:
    (hit,) = replayed(replay(pages.block("BK001", "parity_not_flipped")).model)
    assert hit.message.startswith("reads shared memory that a bulk copy may still be writing")
    assert [(step.message, step.role) for step in hit.steps] == [
        ("starts to fill it", "lane 0 of warp 4"),
        ("waits for its mbarrier; this does not cover the copy", "warps 0-3"),
        ("reads it", "warps 0-3"),
    ]


def test_the_finding_about_a_stage_that_is_filled_too_early() -> None:
    relaxed = changed(GIVE, GIVE.replace(".arrive.", ".arrive.relaxed.cta."))
    (hit,) = replayed(analysed(relaxed))
    assert [(step.message, step.role) for step in hit.steps] == [
        ("reads what was copied there before", "warps 0-3"),
        ("arrives at the mbarrier; this does not order the access before the wait", "warps 0-3"),
        ("waits for an mbarrier; this does not cover the read", "lane 0 of warp 4"),
        ("starts to refill it", "lane 0 of warp 4"),
    ]
    assert hit.help.endswith("a .relaxed arrival or wait orders no memory without a fence")


def test_a_phase_that_only_a_copy_reaches_is_shown_with_the_copy() -> None:
    expects = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r29], 2048;"
    bytes_ = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r29], 2048;"
    (hit,) = [h for h in replayed(replay(changed(expects, bytes_)).model) if h.rule == "MB016"]
    assert [(step.message, step.object) for step in hit.steps][1] == (
        "completes its bytes on the mbarrier, but does not arrive",
        "mbarrier full[0]",
    )


def test_what_another_rule_explains_is_not_reported_again() -> None:
    code = changed(FREE, "")
    assert replay(code).run is not None
    assert [f.rule.id for f in reports(code)] == ["BK011"]


# ---------------------------------------------------------------- parts


@pytest.mark.parametrize("kind", [".f16x2", ".bf16", ".b128", ".pred", ".f16"])
def test_registers_of_any_type(kind: str) -> None:
    body = f"""
    .reg {kind} %x;
    .shared .align 8 .b64 ready;
    setp.eq.u32 %p0, %r1, 0;
    @%p0 mbarrier.init.shared.b64 [ready], 1;
    bar.sync 0;
again:
    mbarrier.try_wait.parity.shared.b64 %p1, [ready], 0;
    @!%p1 bra again;
    ret;"""
    assert {hit.rule for hit in replayed(model(body))} <= {"MB006", "MB016"}


def test_results_are_computed_once() -> None:
    asked = []

    def quotient(a: int, b: int) -> int:
        asked.append((a, b))
        return a // b

    by_two = Results(quotient, [1, Immediate(2)])
    lanes = 8, 6, None, 6
    assert [by_two[held] for held in (8, lanes, 8, lanes, None)] == [
        4,
        (4, 3, None, 3),
        4,
        (4, 3, None, 3),
        None,
    ]
    assert asked == [(8, 2), (8, 2), (6, 2), (6, 2)]
    assert Results(quotient, [1, 2])[(8, 6), (0, 1)] is None
    assert Results(quotient, [Immediate(9), Immediate(3)])[()] == 3
    either = Results(lambda a, b: a | b, [1, 2], decisive=1)
    assert [either[held] for held in ((None, 1), (None, 0), (0, 0))] == [1, None, 0]


def test_instructions_share_results_only_if_they_compute_the_same() -> None:
    body = """
    add.u32 %r1, %r9, 4;
    add.u32 %r2, %r8, 4;
    add.u32 %r3, %r9, 8;
    add.u32 %r4, 4, %r9;
    add.s64 %rd1, %rd2, 4;
    sub.u32 %r5, %r9, 4;
    add.u32 %r6, %r9, %r8;
    mov.b32 %r7, 1;
    mov.b32 %r10, 0f3F800000;
    ret;
"""
    made = model(body)
    plans = Plans(made, [])
    computing = [defining_step(made, i) for i in range(len(made.function.instructions) - 1)]
    results = [plans.plan(step).results for step in computing]
    assert results[0] is results[1]
    assert len(set(map(id, results))) == len(results) - 1
    assert results[7][()] == 1
    assert results[8][()] is None


@pytest.mark.parametrize("seed", range(20))
def test_what_precedes_an_issue_in_time_is_closed_over_all_earlier_issues(seed: int) -> None:
    random, operations = Random(seed), Operations(Epochs(Program(model("ret;"))))
    engines = [Agent(i, "copy", 0) for i in range(4)]
    warps = [Agent(4 + i, "", 0, (32 * i,)) for i in range(3)]
    preceding: dict[tuple[Agent, int], Clock] = {}
    events: list[tuple[Agent, int]] = []

    def clock() -> Clock:
        chosen = [*random.choices(events, k=2), (random.choice(warps), random.randrange(9))] if events else []
        return reduce(join, [event(*each) for each in chosen], BOTTOM)

    def closure(observed: Clock) -> Clock:
        known = BOTTOM
        while known != observed:
            known = observed
            for agent, number in events:
                if happens_before(known, agent, number):
                    observed = join(observed, preceding[agent, number])
        return known

    for _ in range(30):
        before, agent = clock(), random.choice(engines)
        number = operations.begin_copy(agent, before)
        preceding[agent, number] = before
        events.append((agent, number))
        observed = clock()
        for other in (*engines, *warps):
            for n in range(9):
                assert operations.ordered_in_time(observed, other, n) == happens_before(
                    closure(observed), other, n
                )


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
    groups = [ThreadGroup(0, tuple(threads), Registers(), BOTTOM) for threads in parked]
    point = DivergencePoint(0, None, Registers(), tuple(range(80)), 80, groups)
    assert point.splits_a_warp is split


@pytest.mark.parametrize("steps", range(1, 12))
def test_no_more_steps_are_taken_than_there_are(steps: int) -> None:
    """Whether they are executed one by one or at once."""
    made = model(
        "mov.u32 %r1, 64; mov.u32 %r2, 1; add.u32 %r3, %r2, 1; mbarrier.init.shared.b64 [%r1], %r3; bra over; over: ret;"
    )
    launch = Launch(made, LaunchValues(512, 8), (1,))
    machine = Machine(Program(made), launch, Limits(steps))
    patient = Machine(Program(made), launch, Limits(steps, extra_steps=100))
    whole = Machine(Program(made), launch, Limits(100))
    whole.run()
    patient.run()
    taken = 100 - whole.budget
    assert patient.limits.steps - patient.budget == taken
    if steps < taken:
        with pytest.raises(OutOfSteps):
            machine.run()
        assert machine.budget == -1
    else:
        machine.run()
        assert machine.budget == steps - taken


def test_lanes() -> None:
    assert collapse([3, 3, 3]) == 3
    assert collapse([3, None, 3]) == (3, None, 3)
    assert apply(lambda a, b: a + b, [1, (1, None, 3)]) == (2, None, 4)
    assert apply(lambda a, b: a + b, [None, 1]) is None
    assert apply(lambda a: a >> 1, [(2, 3)]) == 1
    assert select((1, 0, 1), 5, (1, 5, 5), 3) == 5
    assert select(None, 1, 2, 3) is None
    assert gather((1, 2, 3), [0, 2]) == (1, 3)
    assert gather(7, [0, 2]) == 7
    assert merge([((0, 2), (5, 6)), ((1,), 7)], 3) == (5, 7, 6)
    assert merge([((0, 2), 5), ((1,), 5)], 3) == 5


A, B, C = (Agent(index, "", 0) for index in range(3))

OBSERVED = st.dictionaries(st.integers(0, 9) | st.integers(30, 40), st.integers(0, 2**31 - 2))
"""The numbers of the last events of actors, by the index of the actor."""


def clock(observed: dict[int, int]) -> Clock:
    return sum(event(Agent(index, "", 0), number) for index, number in observed.items())


@given(OBSERVED, OBSERVED)
def test_clocks(a: dict[int, int], b: dict[int, int]) -> None:
    """A number does what a dict would do."""
    both = {index: max(a.get(index, -1), b.get(index, -1)) for index in {*a, *b}}
    assert join(clock(a), clock(b)) == clock(both)
    assert leq(clock(a), clock(b)) == all(b.get(index, -1) >= number for index, number in a.items())
    assert dict(difference(clock(a), clock(b))) == {i: n for i, n in b.items() if n > a.get(i, -1)}
    for index in (*range(10), *range(30, 41)):
        actor = Agent(index, "", 0)
        assert last_event(clock(a), actor) == a.get(index, -1)
        assert project([actor], clock(a)) == clock({i: n for i, n in a.items() if i == index})


def test_an_mbarrier_waits_for_arrivals_and_bytes() -> None:
    mbarrier = Mbarrier(0, 0, 2, 2)
    assert mbarrier.complete(1)  # the phase before the first
    assert not mbarrier.complete(0)
    mbarrier.expect(32)
    mbarrier.arrive(1, event(A, 1))
    mbarrier.transfers.append(Transfer(event(C, 1), 16))
    mbarrier.arrive(1, event(B, 1))
    assert [*mbarrier.complete_transfers()]
    assert mbarrier.phase == 0  # 16 bytes are missing
    mbarrier.transfers.append(Transfer(event(C, 2), None))
    assert [*mbarrier.complete_transfers()]
    assert (mbarrier.phase, mbarrier.pending, mbarrier.bytes) == (1, 2, 0)
    assert mbarrier.release_clocks == [BOTTOM, clock({0: 1, 1: 1, 2: 2})]
    assert mbarrier.complete(0)
    assert not [*mbarrier.complete_transfers()]


def test_a_wait_acquires_only_what_is_certain() -> None:
    """A thread that waits late observes no more than one that waited in time."""
    mbarrier = Mbarrier(0, 0, 1, 1)
    for time in range(3):
        mbarrier.arrive(1, event(A, time))
    assert mbarrier.complete(0)
    assert mbarrier.acquired_clock(0, BOTTOM) == event(A, 0)
    assert mbarrier.acquired_clock(0, event(A, 1)) == event(A, 2)
    mbarrier.arrive(1, event(A, 3))
    assert mbarrier.acquired_clock(1, BOTTOM) == BOTTOM  # the phase before the first
    assert mbarrier.acquired_clock(1, event(A, 0)) == event(A, 1)


def test_a_phase_that_expects_no_bytes_does_not_wait_for_a_copy() -> None:
    mbarrier = Mbarrier(0, 0, 1, 1)
    mbarrier.transfers.append(Transfer(event(C, 1), 16))
    mbarrier.arrive(1, event(A, 1))
    assert mbarrier.phase == 1
    assert mbarrier.release_clocks == [BOTTOM, event(A, 1)]


def test_a_barrier_opens_for_all_that_it_counts() -> None:
    barrier = Barrier()
    barrier.add_threads(32, event(A, 1))
    assert not barrier.open_if_complete(64)
    barrier.add_threads(64, event(B, 1))
    assert barrier.open_if_complete(64)
    assert (barrier.arrived, barrier.generation, barrier.release_clock) == (32, 1, clock({0: 1, 1: 1}))


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


def test_only_what_synchronisation_depends_on_is_executed() -> None:
    made = model(
        """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, 0;
    mbarrier.init.shared::cta.b64 [m], 1;
again:
    add.f32 %f1, %f1, %f1;
    add.u32 %r3, %r2, 9;
    mbarrier.arrive.shared::cta.b64 _, [m];
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra again;
    st.global.u32 [%rd1], %r3;
    ret;
    """,
        before=".shared .b64 m;",
    )
    steps = [made.instruction(step.site).opcode for steps in Program(made).plans.blocks for step in steps]
    assert steps == [
        "ld.param.u32", "mov.u32", "mbarrier.init.shared::cta.b64", "mbarrier.arrive.shared::cta.b64", "add.u32", "setp.lt.u32",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wait", "fences"), [("mbarrier.test_wait.parity.shared::cta.b64", 0), ("mbarrier.test_wait.parity.relaxed.cta.shared::cta.b64", 1)]
)  # fmt: skip
def test_fences_count_where_something_is_relaxed(wait: str, fences: int) -> None:
    made = model(
        f"""
    mbarrier.init.shared::cta.b64 [m], 128;
    mbarrier.arrive.shared::cta.b64 _, [m];
    {wait} %p1, [m], 0;
    fence.acq_rel.cta;
    ret;
    """,
        before=".shared .b64 m;",
    )
    steps = [step.what for steps in Program(made).plans.blocks for step in steps]
    assert steps.count("memory-fence") == fences


def test_an_unknown_value_is_not_executed() -> None:
    made = model(
        """
    mbarrier.init.shared::cta.b64 [m], 1;
    cvt.rzi.s32.f32 %r1, %f1;
    add.u32 %r2, %r1, 1;
    mov.u32 %r4, 0;
    setp.eq.u32 %p2, %r2, 0;
    @%p2 mov.u32 %r4, %r2;
    st.shared.v2.u32 [stored], {%r2, %r4};
    ld.shared.u32 %r3, [stored];
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra over;
    mbarrier.arrive.shared::cta.b64 _, [m];
over:
    ret;
    """,
        before=".shared .b64 m; .shared .align 8 .b32 stored[2];",
    )
    steps = [made.instruction(step.site).opcode for steps in Program(made).plans.blocks for step in steps]
    assert steps == [
        "mbarrier.init.shared::cta.b64", "mov.u32", "mov.u32", "st.shared.v2.u32", "ld.shared.u32", "setp.eq.u32", "mbarrier.arrive.shared::cta.b64",
    ]  # fmt: skip


FILLED = """.version 8.0
.target sm_90
.address_size 64
.visible .entry filled(.param .u64 in, .param .u64 out)
.reqntid 64
{
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    .reg .b64 %in, %out;
    .shared .align 128 .b8 tile[256];
    .shared .align 8 .b64 full[2];
    .shared .align 8 .b64 empty[2];
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 32;
    mbarrier.init.shared::cta.b64 [full+8], 32;
    mbarrier.init.shared::cta.b64 [empty], 32;
    mbarrier.init.shared::cta.b64 [empty+8], 32;
ready:
    bar.sync 0;
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
    and.b32 %r4, %r0, 31;
    shl.b32 %r4, %r4, 2;
    mov.u32 %r5, tile;
    mov.u32 %r6, full;
    mov.u32 %r7, empty;
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bra use;
    mov.u32 %r3, 1;
fill:
    shl.b32 %r8, %r1, 3;
    add.u32 %r9, %r8, %r7;
free:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], %r3;
    @!%p2 bra free;
    shl.b32 %r10, %r1, 7;
    add.u32 %r10, %r10, %r5;
    add.u32 %r10, %r10, %r4;
    add.u32 %r9, %r8, %r6;
    cp.async.ca.shared.global [%r10], [%in], 4;
    DONE
    mbarrier.arrive.shared::cta.b64 _, [%r9];
    xor.b32 %r1, %r1, 1;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 xor.b32 %r3, %r3, 1;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p3, %r2, 8;
    @%p3 bra fill;
    ret;
use:
    shl.b32 %r8, %r1, 3;
    add.u32 %r9, %r8, %r6;
come:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9], %r3;
    @!%p2 bra come;
    shl.b32 %r10, %r1, 7;
    add.u32 %r10, %r10, %r5;
    add.u32 %r10, %r10, %r4;
    ld.shared.u32 %r11, [%r10];
    add.u32 %r9, %r8, %r7;
    mbarrier.arrive.shared::cta.b64 _, [%r9];
    st.global.u32 [%out], %r11;
    xor.b32 %r1, %r1, 1;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 xor.b32 %r3, %r3, 1;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p3, %r2, 8;
    @%p3 bra use;
    ret;
}
"""
"""One warp fills the stages of a ring by copies of each thread, and another one reads them."""
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


def test_copies_that_arrive_are_arrivals() -> None:
    only = changed("DONE\n    mbarrier.arrive.shared::cta.b64 _, [%r9];", "DONE", FILLED)
    assert replay(changed("DONE", TRACK.replace("arrive.", "arrive.noinc."), only)).run is None
    assert what(replay(changed("DONE", TRACK, only)).run) == {"stuck"}


TWO_ROUNDS = """\
.version 8.6
.target sm_100a
.address_size 64

.visible .entry k(.param .u64 out, .param .u64 desc_a, .param .u64 desc_b)
.reqntid 64
{
    .reg .pred %warp0, %leader, %add, %ready;
    .reg .b32 %r<6>, %d, %idesc;
    .reg .b64 %a, %b, %out;
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    .shared .align 4 .b32 slot;
    ld.param.u64 %a, [desc_a];
    ld.param.u64 %b, [desc_b];
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %out, %r0, 8, %out;
    setp.lt.u32 %warp0, %r0, 32;
    setp.eq.u32 %leader, %r0, 32;
    setp.ne.u32 %add, %r0, %r0;
    mov.b32 %idesc, 0x08200490;
    @%leader mbarrier.init.shared::cta.b64 [full], 1;
    @%leader mbarrier.init.shared::cta.b64 [empty], 32;
    @!%warp0 bra.uni allocated;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
allocated:
    bar.sync 0;
    ld.shared.b32 %d, [slot];
    @!%warp0 bra.uni issue;
wait_full:
    mbarrier.try_wait.parity.shared::cta.b64 %ready, [full], 0;
    @!%ready bra wait_full;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r4, %r5}, [%d];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.fence::before_thread_sync;
    mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [empty];
    st.global.v2.b32 [%out], {%r4, %r5};
wait_again:
    mbarrier.try_wait.parity.shared::cta.b64 %ready, [full], 1;
    @!%ready bra wait_again;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 128;
    ret;
issue:
    @!%leader bra finish;
    tcgen05.mma.cta_group::1.kind::f16 [%d], %a, %b, %idesc, %add;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];
wait_empty:
    mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %ready, [empty], 0;
    @!%ready bra wait_empty;
    tcgen05.fence::after_thread_sync;
    tcgen05.mma.cta_group::1.kind::f16 [%d], %a, %b, %idesc, %add;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];
finish:
    ret;
}
"""
BEFORE = "    tcgen05.fence::before_thread_sync;\n"


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        pytest.param("", "", False, id="relaxed arrival and wait"),  # 9.7.16.6.4.4, the first example
        pytest.param(".relaxed.cluster", "", False, id="release and acquire"),
        pytest.param(BEFORE, "", True, id="no fence before the arrival"),
        pytest.param(
            "    tcgen05.wait::ld.sync.aligned;\n" + BEFORE, BEFORE, True, id="no wait before the arrival"
        ),
    ],
)
def test_relaxed_operations_order_tensor_memory_between_its_fences(old: str, new: str, wrong: bool) -> None:
    code = TWO_ROUNDS.replace(old, new) if old else TWO_ROUNDS
    assert bool([f for f in reports(code) if f.rule.id == "TC002"]) == wrong


def test_copies_of_threads_into_what_others_may_still_read() -> None:
    read, gives = "ld.shared.u32 %r11, [%r10];\n", "mbarrier.arrive.shared::cta.b64 _, [%r9];\n"
    frees = f"    add.u32 %r9, %r8, %r7;\n    {gives}"
    code = changed(f"    {read}{frees}", f"{frees}    {read}", changed("DONE", "cp.async.wait_all;", FILLED))
    (finding,) = [f for f in reports(code) if f.rule.id == "SM001"]
    assert finding.message.startswith("overwrites shared memory that ld.shared may still be reading")
    code = changed("DONE", COMMIT, FILLED)
    (finding,) = [f for f in reports(code) if f.rule.id == "CA001"]
    assert finding.message.startswith("reads shared memory that only a cp.async writes")
    assert "cp.async.wait_group" in finding.help
    # Whether lanes of one warp have waited is not followed: CA001 does.
    own = changed(".reqntid 64", ".reqntid 32", changed("@%p1 bra use;", "", code))
    assert replay(own).run is None or "race" not in what(replay(own).run)


def test_where_something_is_that_all_threads_compute_before_they_part() -> None:
    """What the address of a read is made of is known of the threads of each role."""
    waits = "    @!%p2 bra come;\n"
    code = changed(waits, "", changed("DONE", "cp.async.wait_all;", FILLED))
    assert "race" in what(replay(code).run)
    swapped = changed("setp.lt.u32 %p1, %r0, 32;", "setp.ge.u32 %p1, %r0, 32;", code)
    assert "race" in what(replay(swapped).run)


def test_kernels_without_an_mbarrier_are_not_replayed() -> None:
    assert replay(".version 8.6\n.target sm_90\n.address_size 64\n" + kernel("    ret;")).run is None


@pytest.mark.parametrize(("stride", "right"), [("%r34", True), ("128", True), ("64", False)])
def test_a_grid_of_the_size_of_a_loop_step(stride: str, right: bool) -> None:
    """One role advances by a constant and the other by the size of the grid: the host launches so many CTAs."""
    code = changed(".reg .b32 %r<33>;", ".reg .b32 %r<35>;")
    code = changed(
        "    mov.u32 %r21, 0;\n", "    mov.u32 %r21, %ctaid.x;\n    mov.u32 %r34, %nctaid.x;\n", code
    )
    producer, _, consumer = code.partition("consumer:")
    step = "add.u32 %r21, %r21, 1;"
    ring = changed(step, "add.u32 %r21, %r21, 128;", producer) + "consumer:"
    ring += changed(step, f"add.u32 %r21, %r21, {stride};", consumer)
    assert (replay(ring).run is None) is right
    assert "stuck" in what(replay(ring.replace(GIVE, "")).run)


# ---------------------------------------------------------------- what each warp knows

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
    code = changed("[%r30];\n    add.u32 %r3", "[%r30];\n    bar.warp.sync 0xffffffff;\n    add.u32 %r3", ONE)
    code = code.replace("%r0, 128;", "%r0, 32;").replace("reqntid 160", "reqntid 64")
    assert replay(changed(GIVE, GIVES["a branch"], code)).run is None


MULTIPLY = """    shr.u32 %r32, %r30, 4;
    cvt.u64.u32 %desc, %r32;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %desc, %desc, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
"""
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


# ---------------------------------------------------------------- the table of hypotheses


ALTERED: dict[str, object] = {
    "SIZES": hypotheses.SIZES.value[:1],
    "ODD_SIZES": (),
    "LAST_CTAS": (),
    "MIDDLE_CTAS": (),
    "ROLES": (),
    "WORK_FOR_ALL": 512,
    "FEW_CTAS": (),
    "MANY_TILES": 1,
    "ELEMENTS_THAT_INCREASE": 0,
    "COUNTER_READS": 0,
    "DISTINCT_ELEMENTS": 0,
    "DISTINCT_BUFFERS": 0,
    "CANCELLED_CLUSTERS": 0,
    "CTA_SHAPES": (),
    "CLUSTER_SHAPES": ((1,),),
    "MAX_STEPS": 100,
    "MAX_EXTRA_STEPS": 100,
    "MAX_EXTENDED_REPLAYS": 2,
    "MAX_PREVIEW_STEPS": 1,
    "MAX_CLUSTER_SEARCH_STEPS": 1,
    "STEPS_PER_ITERATION": 1,
    "MAX_REDUCTIONS": 2,
    "MAX_ITERATIONS": 1,
    "MIN_ITERATIONS": 1_000,
    "MIN_EXCESS": 1 << 20,
    "MAX_GRID": 1,
    "GRID_FACTOR": 2,
    "VALUE_DIVISOR": 2,
    "MIN_FAILING_LAUNCHES": 3,
}
"""A value for each row with which the test that it names must fail."""


def cases(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The arguments of a parametrised test."""
    axes = []
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            single = isinstance(mark.args[0], str)
            names = (mark.args[0],) if single else mark.args[0]
            values = [getattr(v, "values", (v,) if single else v) for v in mark.args[1]]
            axes.append([dict(zip(names, v, strict=True)) for v in values])
    for choice in product(*axes):
        yield {name: value for part in choice for name, value in part.items()}


def run(test: Callable[..., None]) -> None:
    """Runs a test with all of its arguments."""
    for arguments in cases(test):
        with pytest.MonkeyPatch.context() as patch:
            own = {"monkeypatch": patch} if "monkeypatch" in inspect.signature(test).parameters else {}
            test(**arguments, **own)


def test_every_row_is_altered() -> None:
    assert ALTERED.keys() == rows().keys()


@pytest.mark.parametrize("row", ALTERED)
def test_a_row_is_needed_by_the_test_that_it_names(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(monkeypatch, row, ALTERED[row])
    test = globals()[rows()[row].needed_by]
    with pytest.raises((AssertionError, StopIteration, ValueError)):
        run(test)


@pytest.mark.parametrize("name", sorted({row.needed_by for row in rows().values()}))
def test_the_test_that_a_row_names_passes_with_the_table(name: str) -> None:
    run(globals()[name])
