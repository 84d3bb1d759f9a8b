"""CTA barriers, cluster barriers and mbarrier objects."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tools.execution import SCHEDULES, done, right, run

STORE = "st.global.u64 [%rd62], %rd0;\nret;"
RESULT = "cvt.u64.u32 %rd0, %r0;\n" + STORE
every_schedule = pytest.mark.parametrize("how", SCHEDULES)

DATA = np.arange(64, dtype=np.uint64)
LEADER = "setp.eq.u32 %p0, %r199, 0;\n"
WAIT = """
WAIT{0}:
    mbarrier.try_wait.parity.shared.b64 %p9, [{1}], {2};
    @!%p9 bra WAIT{0};
"""


# ---------------------------------------------------------------- CTA barriers


@every_schedule
@pytest.mark.parametrize(
    "barrier", ["bar.sync 0", "barrier.cta.sync 3", "bar.sync 1, 128", "barrier.sync.aligned 1, 128"]
)
def test_a_barrier_orders_what_precedes_it_before_what_follows(barrier: str, how: str) -> None:
    found = right(f"""
    mov.u32 %r1, smem;
    mad.lo.u32 %r2, %r199, 4, %r1;
    st.shared.u32 [%r2], %r199;
    {barrier};
    xor.b32 %r3, %r199, 96;
    mad.lo.u32 %r2, %r3, 4, %r1;
    ld.shared.u32 %r0, [%r2];
    """ + RESULT, block=128, how=how)  # fmt: skip
    assert found.out == [n ^ 96 for n in range(128)]


@every_schedule
def test_arrivals_do_not_wait(how: str) -> None:
    found = right("""
    mov.u32 %r1, smem;
    and.b32 %r4, %r199, 31;
    mad.lo.u32 %r2, %r4, 4, %r1;
    setp.ge.u32 %p0, %r199, 32;
    @%p0 bra CONSUMER;
    st.shared.u32 [%r2], %r199;
    bar.arrive 1, 64;
    bar.sync 2, 64;
    ld.shared.u32 %r0, [%r2];
    bra.uni DONE;
CONSUMER:
    bar.sync 1, 64;
    ld.shared.u32 %r3, [%r2];
    add.u32 %r0, %r3, 50;
    st.shared.u32 [%r2], %r0;
    bar.arrive 2, 64;
DONE:
    """ + RESULT, block=64, how=how)  # fmt: skip
    assert found.out == [n % 32 + 50 for n in range(64)]


def test_threads_that_name_different_counts_are_reported() -> None:
    body = "setp.lt.u32 %p0, %r199, 32;\n@%p0 bar.sync 1, 64;\n@!%p0 bar.sync 1{};\nret;"
    right(body.format(", 64"), block=64)
    right(body.format(""), block=64)
    found = run(body.format(", 96"), block=64)
    assert found.kinds == ["barrier-count"]
    assert found.messages == ["arrives at barrier 1 with a count of 96 threads, others with 64"]


def test_a_count_that_is_not_a_whole_number_of_warps_is_reported() -> None:
    found = run("add.u32 %r0, %r197, 1;\nbar.sync 1, %r0;\nret;", block=64)
    assert found.kinds == ["barrier-count"]


@every_schedule
def test_a_warp_counts_once_all_its_lanes_have_come(how: str) -> None:
    """Without .aligned lanes may come one after the other; a barrier with a count takes whole warps (9.7.13.1)."""
    found = right("""
    mov.u32 %r1, smem;
    mad.lo.u32 %r2, %r199, 4, %r1;
    and.b32 %r3, %r199, 1;
    setp.ne.u32 %p0, %r3, 0;
    @%p0 bra ODD;
    st.shared.u32 [%r2], %r199;
    barrier.cta.sync 1, 64;
    bra.uni DONE;
ODD:
    st.shared.u32 [%r2], %r199;
    barrier.cta.sync 1, 64;
DONE:
    xor.b32 %r3, %r199, 33;
    mad.lo.u32 %r2, %r3, 4, %r1;
    ld.shared.u32 %r0, [%r2];
    """ + RESULT, block=64, how=how)  # fmt: skip
    assert found.out == [n ^ 33 for n in range(64)]


def test_an_aligned_barrier_in_a_branch_is_reported() -> None:
    body = "setp.lt.u32 %p0, %r199, 16;\n@%p0 bra HALF;\n{0} 0;\nret;\nHALF:\n{0} 0;\nret;"
    assert run(body.format("bar.sync")).kinds == ["divergent"]
    right(body.format("barrier.cta.sync"))


@every_schedule
@pytest.mark.parametrize(
    "body",
    [
        "@%p0 bra END;\nbar.sync 0;\nEND:\nret;",
        "@!%p0 bra WORK;\nret;\nWORK:\nbar.sync 0;\nret;",
        "@%p0 bra END;\nbar.sync 0;\nEND:",
    ],
)
def test_an_aligned_barrier_does_not_expect_threads_that_only_exit(body: str, how: str) -> None:
    right(f"setp.ge.u32 %p0, %r199, 40;\n{body}", block=64, how=how)


@every_schedule
def test_threads_that_do_something_before_they_exit_are_expected_at_an_aligned_barrier(how: str) -> None:
    body = "setp.ge.u32 %p0, %r199, 40;\n@%p0 bra END;\nbar.sync 0;\nEND:\nst.global.u32 [%rd1], %r199;\nret;"
    assert run(body, block=64, how=how).kinds == ["divergent"]


@every_schedule
def test_threads_that_left_are_not_waited_for(how: str) -> None:
    right(
        "setp.lt.u32 %p0, %r199, 40;\n@%p0 ret;\nbarrier.cta.sync 0;\nbarrier.cta.sync 1;\nret;",
        block=96,
        how=how,
    )


@every_schedule
@pytest.mark.parametrize("count", ["", ", 96"])
@pytest.mark.parametrize("few", [0, 1, 40, 96])
def test_reductions_at_a_barrier(few: int, count: str, how: str) -> None:
    found = right(f"""
    setp.lt.u32 %p0, %r199, {few};
    bar.red.popc.u32 %r1, 0{count}, %p0;
    bar.red.and.pred %p1, 1{count}, %p0;
    bar.red.or.pred %p2, 2{count}, %p0;
    barrier.cta.red.popc.u32 %r2, 3{count}, !%p0;
    selp.u32 %r3, 1000, 0, %p1;
    selp.u32 %r4, 10000, 0, %p2;
    add.u32 %r0, %r1, %r3;
    add.u32 %r0, %r0, %r4;
    mov.b64 %rd0, {{%r0, %r2}};
    """ + STORE, block=96, how=how)  # fmt: skip
    flags = 1000 * (few == 96) + 10000 * (few > 0)
    assert found.out == [96 - few << 32 | few + flags] * 96


# ---------------------------------------------------------------- cluster barriers


@every_schedule
@pytest.mark.parametrize("aligned", ["", ".aligned"])
def test_a_cluster_barrier_orders_both_sides(aligned: str, how: str) -> None:
    found = right(f"""
    mov.u32 %r1, smem;
    mad.lo.u32 %r2, %r199, 4, %r1;
    mov.u32 %r3, %cluster_ctarank;
    mad.lo.u32 %r4, %r3, 100, %r199;
    st.shared.u32 [%r2], %r4;
    barrier.cluster.arrive{aligned};
    barrier.cluster.wait{aligned};
    add.u32 %r5, %r3, 1;
    and.b32 %r5, %r5, 3;
    mapa.shared::cluster.u32 %r6, %r2, %r5;
    ld.shared::cluster.u32 %r0, [%r6];
    barrier.cluster.arrive.relaxed{aligned};
    barrier.cluster.wait{aligned};
    """ + RESULT, block=64, grid=4, cluster=4, how=how)  # fmt: skip
    assert found.out == [(c + 1) % 4 * 100 + n for c in range(4) for n in range(64)]


@every_schedule
def test_a_relaxed_arrival_orders_nothing(how: str) -> None:
    body = (
        """
    mov.u32 %r1, smem;
    mov.u32 %r3, %cluster_ctarank;
    st.shared.u32 [%r1], %r3;
    barrier.cluster.arrive{}.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %r5, %r3, 1;
    mapa.shared::cluster.u32 %r6, %r1, %r5;
    ld.shared::cluster.u32 %r0, [%r6];
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    """
        + RESULT
    )
    assert right(body.format(".release"), grid=2, cluster=2, how=how).out == [1] * 32 + [0] * 32
    assert done(body.format(".relaxed"), grid=2, cluster=2, how=how).kinds == ["unordered"]


HANDED_OVER = """
    mov.u32 %r1, smem;
    mov.u32 %r3, %cluster_ctarank;
    mov.u32 %r4, 0;
    st.shared.u32 [%r1], %r4;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %r5, %r3, 1;
    mapa.shared::cluster.u32 %r6, %r1, %r5;
    mapa.shared::cluster.u32 %r8, %r1, %r3;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra END;
    mov.u32 %r4, 7;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra WRITES;
POLL:
    {acquire}.shared::cluster.u32 %r7, [%r8];
    setp.eq.u32 %p2, %r7, 0;
    @%p2 bra POLL;
    ld.shared::cluster.u32 %r4, [%r6+4];
    bra.uni END;
WRITES:
    st.shared.u32 [%r1+4], %r4;
    {fences}
    {release}.shared::cluster.u32 [%r6], %r4;
END:
    mov.u32 %r0, %r4;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    """
"""CTA 1 writes its shared memory and then a flag in CTA 0, which waits for the flag and reads what was written."""
RESTRICTED = "fence.release.sync_restrict::shared::cta.cluster;"


@pytest.mark.parametrize(
    ("release", "acquire", "fences", "ordered"),
    [
        ("st.release.cluster", "ld.acquire.cluster", "", True),
        ("st.release.cta", "ld.acquire.cluster", "", False),
        ("st.release.cluster", "ld.acquire.cta", "", False),
        ("st.release.cluster", "ld.acquire.cluster", "fence.acq_rel.cta;", True),
        ("st.relaxed.cluster", "ld.acquire.cluster", "fence.acq_rel.cluster;", True),
        ("st.relaxed.cluster", "ld.acquire.cluster", "membar.gl;", True),
        ("st.relaxed.cluster", "ld.acquire.cluster", "fence.acq_rel.cta;", False),
        ("st.relaxed.cluster", "ld.acquire.cluster", "membar.cta;", False),
        ("st.relaxed.cluster", "ld.acquire.cluster", "fence.acq_rel.cluster; fence.acq_rel.cta;", True),
        ("st.relaxed.cluster", "ld.acquire.cluster", "fence.acq_rel.cta; fence.acq_rel.cluster;", True),
        ("st.relaxed.cluster", "ld.acquire.cluster", f"fence.acq_rel.cta; {RESTRICTED}", True),
        ("st.relaxed.cluster", "ld.acquire.cluster", f"{RESTRICTED} fence.acq_rel.cta;", True),
    ],
)
def test_a_scope_that_excludes_the_other_cta_orders_nothing(
    release: str, acquire: str, fences: str, ordered: bool
) -> None:
    body = HANDED_OVER.format(release=release, acquire=acquire, fences=fences)
    found = done(body + RESULT, grid=2, cluster=2)
    assert found.kinds == ([] if ordered else ["unordered"])


@pytest.mark.parametrize("release", ["st.release.cta", "st.release.cluster"])
def test_a_cta_scope_orders_within_the_cta(release: str) -> None:
    body = f"""
    mov.u32 %r1, smem;
    mov.u32 %r0, %tid.x;
    mov.u32 %r4, 0;
    st.shared.u32 [%r1], %r4;
    bar.sync 0;
    setp.eq.u32 %p0, %r0, 0;
    setp.ne.u32 %p1, %r0, 32;
    @%p0 bra WRITES;
    @%p1 bra END;
POLL:
    ld.acquire.cta.shared.u32 %r7, [%r1];
    setp.eq.u32 %p2, %r7, 0;
    @%p2 bra POLL;
    ld.shared.u32 %r4, [%r1+4];
    bra.uni END;
WRITES:
    mov.u32 %r4, 7;
    st.shared.u32 [%r1+4], %r4;
    fence.acq_rel.cta;
    {release}.shared.u32 [%r1], %r4;
END:
    mov.u32 %r0, %r4;
    """
    assert not done(body + RESULT, block=64).kinds


@every_schedule
def test_threads_that_left_the_cluster_are_not_waited_for(how: str) -> None:
    """Nor do they count for those that have not come: the second CTA is waited for."""
    found = right("""
    mov.u32 %r3, %cluster_ctarank;
    setp.ne.u32 %p0, %r3, 0;
    setp.ge.u32 %p1, %r199, 32;
    barrier.cluster.arrive.aligned;
    @%p1 ret;
    barrier.cluster.wait.aligned;
    """ + "mov.u64 %rd0, 1;\n" + STORE, block=64, grid=2, cluster=2, how=how)  # fmt: skip
    assert found.out == ([1] * 32 + [0] * 32) * 2
    found = run("""
    mov.u32 %r3, %cluster_ctarank;
    setp.ne.u32 %p0, %r3, 0;
    @%p0 bra SECOND;
    barrier.cluster.arrive.aligned;
    ret;
SECOND:
    bar.sync 1, 64;
    ret;
    """, grid=2, cluster=2, how=how)  # fmt: skip
    assert found.execution.end == "deadlock"


def test_arriving_twice_and_waiting_without_arriving_are_reported() -> None:
    arrive, wait = "barrier.cluster.arrive.aligned;\n", "barrier.cluster.wait.aligned;\n"
    right(arrive + wait + arrive + wait + "ret;", grid=2, cluster=2)
    assert "cluster-barrier" in run(arrive + arrive + wait + "ret;", grid=2, cluster=2, block=64).kinds
    assert run(wait + "ret;", grid=2, cluster=2).kinds == ["cluster-barrier"]


def test_a_deadlock_at_the_cluster_barrier_counts_the_threads_of_the_cluster() -> None:
    found = run("""
    setp.eq.u32 %p0, %r198, 0;
    setp.lt.u32 %p1, %r199, 32;
    and.pred %p1, %p0, %p1;
    @!%p1 barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
""", block=64, grid=2, cluster=2).execution  # fmt: skip
    assert found.end == "deadlock"
    assert "at the cluster barrier: 96 of 128 threads have arrived" in found.reason
    assert {found.function.instructions[wait.site].opcode for wait in found.waits} == {"barrier.cluster.wait"}


# ---------------------------------------------------------------- stores


RACE = """
    mov.u32 %r1, smem;
    shr.u32 %r2, %r199, 5;
    and.b32 %r3, %r199, 31;
    mad.lo.u32 %r4, %r3, 4, %r1;
"""


@every_schedule
@pytest.mark.parametrize(
    ("store", "raced"),
    [
        ("st.shared.u32 [%r4], %r2;", True),
        ("st.shared.u32 [%r4], 7;", False),
        ("add.u32 %r4, %r4, %r2;\nst.shared.u8 [%r4], %r2;", False),
        ("setp.eq.u32 %p0, %r2, 1;\n@!%p0 st.shared.u32 [%r4], %r2;\nbar.sync 0;\n@%p0 st.shared.u32 [%r4], 9;", False),
        ("setp.eq.u32 %p0, %r2, 1;\n@!%p0 st.shared.u8 [%r4], 3;\n@%p0 st.shared.u32 [%r4], 9;", False),
        ("atom.shared.add.u32 %r5, [%r4], %r2;", False),
        ("st.relaxed.cta.shared.u32 [%r4], %r2;", False),
    ],
)  # fmt: skip
def test_two_stores_of_different_values_to_a_word_are_a_race(store: str, raced: bool, how: str) -> None:
    found = done(RACE + store + "\nret;", block=64, how=how)
    assert found.kinds == ["unordered"] * raced
    if raced:
        (seen,) = found.execution.observations
        assert seen.site == seen.other
        assert "wrote another value" in seen.message


# ---------------------------------------------------------------- mbarriers


@every_schedule
def test_phases_of_an_mbarrier(how: str) -> None:
    """Four rounds of a hand-over from one warp to the other through two mbarriers."""
    found = right("""
    mov.u32 %r1, bars;
    mov.u32 %r2, smem;
    """ + LEADER + """
    @%p0 mbarrier.init.shared.b64 [%r1], 32;
    @%p0 mbarrier.init.shared.b64 [%r1+8], 32;
    bar.sync 0;
    and.b32 %r3, %r199, 31;
    mad.lo.u32 %r2, %r3, 4, %r2;
    setp.ge.u32 %p1, %r199, 32;
    mov.u32 %r4, 0;
    mov.u32 %r0, 0;
ROUND:
    and.b32 %r5, %r4, 1;
    xor.b32 %r6, %r5, 1;
    @%p1 bra CONSUMER;
    """ + WAIT.format("A", "%r1+8", "%r6") + """
    mad.lo.u32 %r7, %r4, 100, %r3;
    st.shared.u32 [%r2], %r7;
    mbarrier.arrive.shared.b64 _, [%r1];
    bra.uni NEXT;
CONSUMER:
    """ + WAIT.format("B", "%r1", "%r5") + """
    ld.shared.u32 %r8, [%r2];
    add.u32 %r0, %r0, %r8;
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1+8];
NEXT:
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p2, %r4, 4;
    @%p2 bra ROUND;
    """ + RESULT, block=64, how=how)  # fmt: skip
    assert found.out == [0] * 32 + [600 + 4 * n for n in range(32)]


@every_schedule
def test_bytes_that_are_expected(how: str) -> None:
    found = right(LEADER + """
    mov.u32 %r1, bars;
    mov.u64 %rd1, bars;
    cvta.shared.u64 %rd1, %rd1;
    @!%p0 bra OUT;
    mbarrier.init.b64 [%rd1], 1;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 48;
    mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r1], 16;
    mbarrier.test_wait.shared.b64 %p1, [%r1], %rd2;
    @%p1 trap;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 60;
    mbarrier.test_wait.shared.b64 %p1, [%r1], %rd2;
    @%p1 trap;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 4;
    mbarrier.test_wait.b64 %p1, [%rd1], %rd2;
    @!%p1 trap;
    mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0;
    @!%p1 trap;
    mbarrier.inval.shared.b64 [%r1];
    mov.u64 %rd0, 1;
    st.global.u64 [%rd62], %rd0;
OUT:
    ret;
    """, how=how)  # fmt: skip
    assert found.out == [1] + [0] * 31


@every_schedule
def test_counts_of_arrivals_and_what_was_pending_before(how: str) -> None:
    found = right(LEADER + """
    mov.u32 %r1, bars;
    @!%p0 ret;
    mbarrier.init.shared.b64 [%r1], 10;
    mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1], 3;
    mbarrier.arrive_drop.noComplete.shared.b64 %rd2, [%r1], 2;
    mbarrier.pending_count.b64 %r2, %rd1;
    mbarrier.pending_count.b64 %r3, %rd2;
    mbarrier.arrive.shared.b64 %rd3, [%r1], 5;
    mbarrier.test_wait.shared.b64 %p1, [%r1], %rd3;
    @!%p1 trap;
    mbarrier.arrive_drop.shared.b64 %rd4, [%r1];
    mbarrier.arrive.noComplete.shared.b64 %rd5, [%r1], 6;
    mbarrier.pending_count.b64 %r4, %rd5;
    mbarrier.arrive.shared.b64 _, [%r1];
    mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 1;
    @!%p1 trap;
    mbarrier.arrive.noComplete.shared.b64 %rd5, [%r1], 1;
    mbarrier.pending_count.b64 %r5, %rd5;
    mad.lo.u32 %r0, %r2, 100, %r3;
    mad.lo.u32 %r0, %r0, 100, %r4;
    mad.lo.u32 %r0, %r0, 100, %r5;
    """ + RESULT, how=how)  # fmt: skip
    # 10 pending, 7 after three, two of which drop out: the next phase has 8, of which one drops out: 7.
    assert found.out[0] == 10070707


@every_schedule
def test_an_mbarrier_of_another_cta(how: str) -> None:
    found = right(LEADER + """
    mov.u32 %r1, bars;
    mov.u32 %r3, %cluster_ctarank;
    @%p0 mbarrier.init.shared.b64 [%r1], 2;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %r2, smem;
    mapa.shared::cluster.u32 %r4, %r2, 0;
    mapa.shared::cluster.u32 %r5, %r1, 0;
    mad.lo.u32 %r6, %r3, 4, %r4;
    add.u32 %r7, %r3, 5;
    @%p0 st.shared::cluster.u32 [%r6], %r7;
    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra LAST;
    """ + WAIT.replace(".parity", ".parity.acquire.cluster").format("", "%r1", "0") + """
    ld.shared.u32 %r8, [%r2];
    ld.shared.u32 %r9, [%r2+4];
    mad.lo.u32 %r0, %r8, 10, %r9;
    cvt.u64.u32 %rd0, %r0;
    st.global.u64 [%rd62], %rd0;
LAST:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
    """, grid=2, cluster=2, how=how)  # fmt: skip
    assert found.out == [56] * 32 + [0] * 32


@every_schedule
def test_lanes_that_wait_for_different_mbarriers(how: str) -> None:
    """A thread that is done continues, and may be the one that completes the phase of the others."""
    found = right(LEADER + """
    mov.u32 %r1, bars;
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    @%p0 mbarrier.init.shared.b64 [%r1+8], 1;
    @%p0 mbarrier.arrive.shared.b64 _, [%r1];
    bar.sync 0;
    and.b32 %r2, %r199, 1;
    mad.lo.u32 %r3, %r2, 8, %r1;
    setp.eq.u32 %p2, %r199, 2;
LOOP:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;
    @%p1 bra THROUGH;
    bra.uni LOOP;
THROUGH:
    @%p2 mbarrier.arrive.shared.b64 _, [%r1+8];
    mov.u64 %rd0, 1;
    """ + STORE, how=how)  # fmt: skip
    assert found.out == [1] * 32


@pytest.mark.parametrize(
    ("bad", "good", "kind"),
    [
        ("mbarrier.arrive.shared.b64 _, [%r1], 3;", "mbarrier.arrive.shared.b64 _, [%r1], 2;", "mbarrier-overrun"),
        (
            "mbarrier.arrive.noComplete.shared.b64 _, [%r1], 2;",
            "mbarrier.arrive.noComplete.shared.b64 _, [%r1], 1;",
            "mbarrier-overrun",
        ),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 1048576;",
         "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 1048575;", "mbarrier-overrun"),
        ("mbarrier.init.shared.b64 [%r1+8], 0;", "mbarrier.init.shared.b64 [%r1+8], 1;", "mbarrier-count"),
        ("mbarrier.init.shared.b64 [%r1], 1;", "mbarrier.inval.shared.b64 [%r1];\nmbarrier.init.shared.b64 [%r1], 1;",
         "mbarrier-init"),
    ],
)  # fmt: skip
def test_what_the_manual_leaves_undefined(bad: str, good: str, kind: str) -> None:
    body = LEADER + "mov.u32 %r1, bars;\n@!%p0 ret;\nmbarrier.init.shared.b64 [%r1], 2;\n{}\nret;"
    right(body.format(good))
    assert done(body.format(bad)).kinds == [kind]


@pytest.mark.parametrize(
    "use", ["mbarrier.arrive.shared.b64 _, [%r1+8];", "mbarrier.inval.shared.b64 [%r1+8];"]
)
def test_an_uninitialised_mbarrier_is_a_fault(use: str) -> None:
    found = run(LEADER + f"mov.u32 %r1, bars;\n@%p0 mbarrier.init.shared.b64 [%r1], 2;\n{use}\nret;")
    assert found.execution.end == "fault"
    assert "no mbarrier is initialised at" in found.execution.reason
    assert run("mov.u32 %r1, bars;\nmbarrier.init.shared.b64 [%r1+4], 1;\nret;").execution.end == "fault"


# ---------------------------------------------------------------- mbarriers and cp.async


@every_schedule
@pytest.mark.parametrize(("noinc", "count"), [("", 1), (".noinc", 33)])
def test_arrivals_of_copies_of_a_thread(noinc: str, count: int, how: str) -> None:
    """Without .noinc the pending count is raised first, so that the copies do not count (9.7.13.15.14)."""
    found = right(LEADER + f"""
    mov.u32 %r1, bars;
    mov.u32 %r2, smem;
    @%p0 mbarrier.init.shared.b64 [%r1], {count};
    bar.sync 0;
    mad.lo.u32 %r3, %r199, 16, %r2;
    ld.param.u64 %rd1, [data];
    mul.wide.u32 %rd2, %r199, 16;
    add.u64 %rd1, %rd1, %rd2;
    cp.async.ca.shared.global [%r3], [%rd1], 16;
    cp.async.mbarrier.arrive{noinc}.shared.b64 [%r1];
    bar.warp.sync 0xffffffff;
    @%p0 mbarrier.arrive.shared.b64 _, [%r1];
    """ + WAIT.format("", "%r1", "0") + """
    xor.b32 %r4, %r199, 5;
    mad.lo.u32 %r3, %r4, 16, %r2;
    ld.shared.u64 %rd0, [%r3+8];
    """ + STORE, how=how, buffers={"data": DATA})  # fmt: skip
    assert found.out == [2 * (n ^ 5) + 1 for n in range(32)]


@every_schedule
@pytest.mark.parametrize(
    "wait", ["primary.acquire.cta.shared::cta.b64 %p1|%p2, %b0,", "conditional.shared::cta.b64 %p1,"]
)
def test_a_wait_of_a_phase_type_waits_and_reports_nothing(how: str, wait: str) -> None:
    found = right(f"""
    .reg .b8 %b<1>;
    setp.ne.u32 %p2, %r199, 999;
    setp.ne.u32 %p0, %r199, 0;
    @!%p0 mbarrier.init.layout::v1.shared::cta.b64 [bars], 64;
    bar.sync 0;
    mbarrier.check_layout.layout::v1.shared::cta.b64 %p3, [bars];
    mbarrier.arrive.shared::cta.b64 _, [bars];
WAIT:
    mbarrier.try_wait.parity.phase_type::{wait} [bars], 0;
    @!%p1 bra WAIT;
    selp.u32 %r1, 1, 0, %p2;
    selp.u32 %r0, 2, 0, %p3;
    add.u32 %r0, %r0, %r1;
    """ + RESULT, block=64, how=how)  # fmt: skip
    assert found.out == [2 + ("conditional" in wait)] * 64


@pytest.mark.parametrize(
    "older", ["mbarrier.init.shared::cta.b64", "mbarrier.init.layout::v0.shared::cta.b64"]
)
def test_the_layout_of_an_mbarrier_is_the_older_one_unless_stated(older: str) -> None:
    found = right(f"""
    {older} [bars], 1;
    mbarrier.check_layout.layout::v0.shared::cta.b64 %p0, [bars];
    mbarrier.check_layout.layout::v1.shared::cta.b64 %p1, [bars];
    selp.u32 %r0, 1, 0, %p0;
    selp.u32 %r1, 2, 0, %p1;
    add.u32 %r0, %r0, %r1;
    """ + RESULT, block=1)  # fmt: skip
    assert found.out == [1]
