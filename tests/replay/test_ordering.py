"""Replays: flags, fences and relaxed operations: what orders the accesses of two threads."""

from __future__ import annotations

import pytest

from tclint.isa.effects import Fence
from tclint.replay import races
from tclint.replay.program import ReplaySlice
from tclint.replay.vector_clocks import Agent, Clock, happens_before
from tclint.replay.verdict import Replay
from tests.tools.project import ROOT
from tests.tools.replay import ALL_ARRIVE, changed, replay, what, why
from tests.tools.support import analysed, kernel, model, module

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
    steps = [step.what for steps in ReplaySlice(made).plans.blocks for step in steps]
    assert steps.count(Fence.MEMORY) == fences


def test_a_race_that_is_found_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a loop without a barrier each access overlaps those of all iterations before."""
    text = (ROOT / "fixtures" / "proofs" / "halves.ptx").read_text()
    text = changed("add.s32 \t%r2, %r10, %r9;", "shr.u32 \t%r2, %r10, %r9;", text)
    text = changed("bar.sync \t0;\n\tshr.u32 \t%r14, %r14, 1;", "add.s32 \t%r14, %r14, 1;", text)
    asked = 0

    def counted(clock: Clock, agent: Agent, number: int) -> bool:
        nonlocal asked
        asked += 1
        return happens_before(clock, agent, number)

    monkeypatch.setattr(races, "happens_before", counted)
    found = Replay(analysed(text))
    assert found.run is not None
    assert found.run.races
    assert 0 < asked < 100
