"""Asynchronous operations: what they do, and what the machine observes when a kernel does not wait for them.

Every kind of observation has a kernel here (or in the tests of barriers and exchanges) that gives it, and a twin that is
right and gives none under any schedule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tclint.executor.run import Memories
from tclint.executor.tensor_maps import UNKNOWN, TensorMap
from tests.tools.execution import SCHEDULES, Run, done, right, run
from tests.tools.support import HOPPER

Array = Any
STORE = "st.global.u64 [%rd62], %rd0;\nret;"
RESULT = "cvt.u64.u32 %rd0, %r0;\n" + STORE
LEADER = "setp.eq.u32 %p0, %r199, 0;\nmov.u32 %r1, bars;\nmov.u32 %r2, smem;\nld.param.u64 %rd1, [data];\n"
INIT = "@%p0 mbarrier.init.shared.b64 [%r1], 1;\n@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
WAIT = """
WAIT{0}:
    mbarrier.try_wait.parity.shared.b64 %p9, [%r1], {0};
    @!%p9 bra WAIT{0};
"""
DATA = np.arange(1, 257, dtype=np.uint64)
every_schedule = pytest.mark.parametrize("how", SCHEDULES)


def arrive(size: int) -> str:
    return f"@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], {size};\n"


def load(size: int = 256, to: str = "%r2", source: str = "%rd1") -> str:
    return (
        "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        f" [{to}], [{source}], {size}, [%r1];\n"
    )


MINE = "mad.lo.u32 %r3, %r199, 8, %r2;\n"
TAKE = MINE + "ld.shared.u64 %rd0, [%r3];\n" + STORE


# ---------------------------------------------------------------- cp.async


@every_schedule
def test_copies_of_a_thread_and_their_groups(how: str) -> None:
    found = right(LEADER + """
    mad.lo.u32 %r3, %r199, 32, %r2;
    mul.wide.u32 %rd2, %r199, 16;
    add.u64 %rd1, %rd1, %rd2;
    cp.async.ca.shared.global [%r3], [%rd1], 8;
    cp.async.commit_group;
    cp.async.cg.shared.global [%r3+16], [%rd1], 16, 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.u64 %rd3, [%r3];
    cp.async.wait_group 0;
    ld.shared.u64 %rd4, [%r3+16];
    ld.shared.u64 %rd5, [%r3+24];
    mad.lo.u64 %rd0, %rd3, 1000, %rd4;
    add.u64 %rd0, %rd0, %rd5;
    """ + STORE, buffers={"data": DATA}, how=how)  # fmt: skip
    assert found.out == [1001 * (2 * n + 1) for n in range(32)]


@pytest.mark.parametrize("ignored", ["%p1", "!%p2"])
def test_a_copy_whose_source_is_ignored_writes_zeros(ignored: str) -> None:
    found = right(LEADER + MINE + f"""
    and.b32 %r4, %r199, 1;
    setp.eq.u32 %p1, %r4, 1;
    setp.eq.u32 %p2, %r4, 0;
    mul.wide.u32 %rd2, %r199, 8;
    add.u64 %rd1, %rd1, %rd2;
    cp.async.ca.shared.global [%r3], [%rd1], 8, {ignored};
    cp.async.wait_all;
    ld.shared.u64 %rd0, [%r3];
    """ + STORE, buffers={"data": DATA})  # fmt: skip
    assert found.out == [0 if n % 2 else n + 1 for n in range(32)]


@every_schedule
def test_a_commit_without_a_copy_makes_a_group_for_a_thread_that_has_copied_before_alone(how: str) -> None:
    found = right(LEADER + """
    @%p0 cp.async.ca.shared.global [%r2], [%rd1], 8;
    cp.async.commit_group;
    cp.async.commit_group;
    cp.async.wait_group 1;
    @%p0 ld.shared.u64 %rd0, [%r2];
    """ + STORE, buffers={"data": DATA}, how=how)  # fmt: skip
    assert found.out[0] == 1


# ---------------------------------------------------------------- bulk copies


@every_schedule
def test_a_bulk_copy_in_and_out(how: str) -> None:
    found = right(LEADER + INIT + arrive(256) + load() + WAIT.format(0) + MINE + """
    ld.shared.u64 %rd2, [%r3];
    add.u64 %rd2, %rd2, 1000;
    st.shared.u64 [%r3], %rd2;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd63], [%r2], 256;
    @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%rd1], [%r2], 256;
    @%p0 cp.async.bulk.commit_group;
    @%p0 cp.async.bulk.wait_group.read 0;
    bar.sync 0;
    st.shared.u64 [%r3], 0;
    @%p0 cp.async.bulk.wait_group 0;
    ret;
    """, buffers={"data": DATA}, how=how)  # fmt: skip
    assert found.out == [1001 + n for n in range(32)]
    assert found.buffers["data"].tolist()[:33] == [1002 + 2 * n for n in range(32)] + [33]


@every_schedule
def test_a_multicast_goes_to_every_cta_of_the_mask(how: str) -> None:
    found = right(LEADER + """
    mov.u32 %r10, %cluster_ctarank;
    setp.eq.u32 %p1, %r10, 1;
    and.pred %p1, %p1, %p0;
    mov.b16 %h0, 5;
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    setp.ne.u32 %p2, %r10, 1;
    and.pred %p3, %p2, %p0;
    @%p3 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd1], 256, [%r1], %h0;
    @!%p2 bra OUT;
    """ + WAIT.format(0) + MINE + """
    ld.shared.u64 %rd0, [%r3];
    st.global.u64 [%rd62], %rd0;
OUT:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
    """, grid=3, cluster=3, buffers={"data": DATA}, how=how)  # fmt: skip
    assert found.out == [*range(1, 33), *[0] * 32, *range(1, 33)]


@every_schedule
def test_stores_and_reductions_into_another_cta(how: str) -> None:
    found = right(LEADER + """
    mov.u32 %r10, %cluster_ctarank;
    mul.lo.u32 %r3, %r199, 8;
    add.u32 %r3, %r3, %r2;
    st.shared.u64 [%r3], 100;
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    """ + arrive(32 * 12) + """
    fence.mbarrier_init.release.cluster;
    fence.proxy.async;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %r4, %r10, 1;
    mapa.shared::cluster.u32 %r5, %r3, %r4;
    mapa.shared::cluster.u32 %r6, %r1, %r4;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r5+4], %r199, [%r6];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r5], %r10, [%r6];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%r5], 200, [%r6];
    """ + WAIT.format(0) + """
    ld.shared.u64 %rd0, [%r3];
    st.global.u64 [%rd62], %rd0;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
    """, grid=2, cluster=2, buffers={"data": DATA}, how=how)  # fmt: skip
    assert found.out == [n << 32 | 102 - c for c in range(2) for n in range(32)]


# ---------------------------------------------------------------- tensor copies


def tensor(swizzle: int) -> Any:
    """A map of 64 rows of 32 words, in boxes of 8 rows."""

    def value(memories: Memories) -> bytes:
        return TensorMap(
            memories.memory.address("data"), "u32", (32, 64), (128,), (32, 8), swizzle=swizzle
        ).encode()  # fmt: skip

    return value


@every_schedule
@pytest.mark.parametrize("swizzle", [0, 128])
def test_a_tensor_copy_swizzles(swizzle: int, how: str) -> None:
    words = np.arange(32 * 64, dtype=np.uint32).view(np.uint64)
    found = right(LEADER + INIT + arrive(1024) + """
    mov.u64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
    @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd2, {0, 16}], [%r1];
    """ + WAIT.format(0) + """
    @!%p0 ret;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {0, 0}], [%r2];
    cp.async.bulk.global.shared::cta.bulk_group [%rd63], [%r2], 1024;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
    """, block=128, buffers={"data": words}, how=how, parameters=", .param .align 64 .b8 map[128]",
        values=[tensor(swizzle)])  # fmt: skip
    rows = np.arange(16 * 32, 24 * 32, dtype=np.uint32).reshape(8, 8, 4)  # rows of eight chunks of 16 bytes
    placed = rows.copy()
    for row in range(8):
        for chunk in range(8):
            placed[row, chunk ^ row if swizzle else chunk] = rows[row, chunk]
    assert found.buffers["out"].view(np.uint32).tolist() == placed.ravel().tolist()
    after = found.buffers["data"].view(np.uint32).reshape(64, 32)
    assert after[:8].tolist() == rows.reshape(8, 32).tolist()  # back through the same map: as it was


# ---------------------------------------------------------------- wgmma

ONES = """
    mad.lo.u32 %r3, %r199, 64, %r2;
    mov.u32 %r4, 0x3C003C00;
    st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4};
    st.shared.v4.u32 [%r3+16], {%r4, %r4, %r4, %r4};
    st.shared.v4.u32 [%r3+32], {%r4, %r4, %r4, %r4};
    st.shared.v4.u32 [%r3+48], {%r4, %r4, %r4, %r4};
    fence.proxy.async;
    bar.sync 0;
    shr.u32 %r5, %r2, 4;
    and.b32 %r5, %r5, 0x3fff;
    cvt.u64.u32 %rd2, %r5;
"""
"""8 KiB of halves that are one, so that every sum of products is as long as K, whatever the layout."""
FENCE = "wgmma.fence.sync.aligned;"


def wgmma(fence: str = FENCE, before: str = "", scale: int = 0) -> str:
    """A product of 64 by 8 by 16, added to tens if *scale*; every thread stores the sum of two of its results."""
    return f"""{ONES}
    or.b64 %rd2, %rd2, 0x0000001000080000;
    setp.ne.u32 %p1, {scale}, 0;
    mov.f32 %f9, 0f40A00000;
    add.f32 %f0, %f9, %f9;
    mov.f32 %f1, %f0;
    mov.f32 %f2, %f0;
    mov.f32 %f3, %f0;
    {fence}
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd2, %rd2, %p1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    {before}
    wgmma.wait_group.sync.aligned 0;
    add.f32 %f0, %f0, %f3;
    cvt.rni.u32.f32 %r0, %f0;
    {RESULT}
"""


@every_schedule
@pytest.mark.parametrize(("scale", "result"), [(0, 32), (1, 52)])
def test_wgmma(scale: int, result: int, how: str) -> None:
    found = right(LEADER + wgmma(scale=scale), block=128, buffers={"data": DATA}, header=HOPPER, how=how)
    assert found.out == [result] * 128


def refilled(wait: str, arriving: int) -> str:
    """A warpgroup multiplies, and one of its threads then releases the matrix to a fifth warp, which overwrites it."""
    return f"""{LEADER}
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    @%p0 mbarrier.init.shared.b64 [%r1+8], 1;
    {ONES}
    or.b64 %rd2, %rd2, 0x0000001000080000;
    setp.ne.u32 %p1, 0, 0;
    setp.ge.u32 %p4, %r199, 128;
    @%p4 bra LOADER;
    {FENCE}
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd2, %rd2, %p1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    {wait}
    setp.eq.u32 %p5, %r199, {arriving};
    @%p5 mbarrier.arrive.shared.b64 _, [%r1+8];
    wgmma.wait_group.sync.aligned 0;
    ret;
LOADER:
    setp.ne.u32 %p5, %r199, 128;
    @%p5 ret;
EMPTY:
    mbarrier.try_wait.parity.shared.b64 %p9, [%r1+8], 0;
    @!%p9 bra EMPTY;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 256, [%r1];
    {WAIT.format(0)}
    ret;
"""


@every_schedule
@pytest.mark.parametrize("arriving", [0, 33, 127])
def test_a_wait_of_one_warp_covers_what_its_whole_warpgroup_reads(arriving: int, how: str) -> None:
    """As in CUTLASS, where one thread of the consumer warpgroup releases a stage."""
    waited = refilled("wgmma.wait_group.sync.aligned 0;", arriving)
    right(waited, block=160, buffers={"data": DATA}, header=HOPPER, how=how)


@pytest.mark.parametrize("arriving", [0, 33, 127])
def test_an_arrival_before_the_wait_releases_the_matrix_too_early(arriving: int) -> None:
    found = run(refilled("", arriving), block=160, buffers={"data": DATA}, header=HOPPER)
    (seen,) = found.execution.observations
    assert (seen.kind, "that warpgroup 0 read" in seen.message) == ("unordered", True)


# ---------------------------------------------------------------- tcgen05

ALLOC = """
    setp.lt.u32 %p2, %r199, 32;
    @!%p2 bra NOALLOC;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+64], 32;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
NOALLOC:
    bar.sync 0;
    ld.shared.u32 %r20, [%r1+64];
    shr.u32 %r21, %r199, 5;
    shl.b32 %r21, %r21, 21;
    add.u32 %r21, %r20, %r21;
"""
FREE = """
    bar.sync 0;
    @!%p2 bra NOFREE;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;
NOFREE:
"""


@every_schedule
def test_tensor_memory_keeps_what_is_stored(how: str) -> None:
    found = right(LEADER + ALLOC + """
    add.u32 %r22, %r199, 1000;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r21+4], {%r199, %r22};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r23}, [%r21+5];
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r24}, [%r21+4];
    tcgen05.wait::ld.sync.aligned;
    mov.b64 %rd0, {%r24, %r23};
    """ + FREE + STORE, block=128, buffers={"data": DATA}, how=how)  # fmt: skip
    assert found.out == [1000 + n << 32 | n for n in range(128)]


def shift(wait: str, lane: int = 0) -> str:
    """Every thread stores its number in column 3 of its lane; the rows of one warp are shifted, and all are read."""
    return f"""{ALLOC}
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r21+3], {{%r199}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    add.u32 %r22, %r20, {lane << 16};
    @%p0 tcgen05.shift.cta_group::1.down [%r22];
    @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];
    {wait}
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r23}}, [%r21+3];
    tcgen05.wait::ld.sync.aligned;
    cvt.u64.u32 %rd0, %r23;
    {FREE}
    {STORE}
"""


def test_lanes_of_another_warp_are_observed_and_those_of_the_warp_itself_are_used() -> None:
    """Every warp addresses the first 32 lanes, as libraries do that leave the warp out of the address."""
    found = done(LEADER + ALLOC + """
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r20], {%r199};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r23}, [%r21];
    tcgen05.wait::ld.sync.aligned;
    cvt.u64.u32 %rd0, %r23;
    """ + FREE + STORE, block=128, buffers={"data": DATA})  # fmt: skip
    assert found.out == list(range(128))
    assert found.kinds == ["tensor-memory-lanes"]
    (seen,) = found.execution.observations
    assert "addresses lane 0 of tensor memory, but may access lanes 32 to 63" in seen.message
    assert "tcgen05.st" in found.lines[seen.site]


def test_lanes_beyond_those_of_the_warp_are_a_fault() -> None:
    found = run(LEADER + ALLOC + """
    add.u32 %r21, %r21, 65536;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r23}, [%r21];
    ret;""", block=128, buffers={"data": DATA})  # fmt: skip
    assert (found.execution.end, found.execution.fault) == ("fault", "tensor-memory")
    assert "may access lanes 0 to 31, not those from lane 1 on" in found.execution.reason


@every_schedule
def test_tcgen05_shift_moves_31_rows_of_a_warp(how: str) -> None:
    found = right(LEADER + shift(WAIT.format(0), 32), block=128, buffers={"data": DATA}, how=how)
    assert found.out == [n + (32 <= n < 63) for n in range(128)]


def test_tcgen05_shift_without_a_wait_or_at_an_odd_lane() -> None:
    found = run(LEADER + shift(""), block=128, buffers={"data": DATA})
    assert "tensor-memory" in {o.kind for o in found.execution.observations}
    found = run(LEADER + shift("", 16), block=128, buffers={"data": DATA})
    assert (found.execution.end, "lane 16 is not a multiple of 32" in found.execution.reason) == (
        "fault",
        True,
    )


def mma(wait: str) -> str:
    """Two products of 128 by 16 by 16, the second one added to the first; every thread stores two of its results."""
    return f"""{ALLOC}{ONES}
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    bar.sync 0;
    or.b64 %rd2, %rd2, 0x0000401000080000;
    mov.u32 %r30, 0x8040010;
    setp.ne.u32 %p3, 0, 0;
    @%p0 tcgen05.mma.cta_group::1.kind::f16 [%r20], %rd2, %rd2, %r30, %p3;
    setp.eq.u32 %p3, 0, 0;
    @%p0 tcgen05.mma.cta_group::1.kind::f16 [%r20], %rd2, %rd2, %r30, %p3;
    @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];
    {wait}
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r23, %r24}}, [%r21+14];
    tcgen05.wait::ld.sync.aligned;
    mov.b64 %rd0, {{%r24, %r23}};
    {FREE}
    {STORE}
"""


@every_schedule
def test_tcgen05_mma(how: str) -> None:
    found = right(LEADER + mma(WAIT.format(0)), block=128, buffers={"data": DATA}, how=how)
    assert found.out == [0x42000000_42000000] * 128


# ---------------------------------------------------------------- work that is taken over


def test_a_response_that_is_read_before_the_wait_names_its_request() -> None:
    found = run(LEADER + INIT + arrive(16) + """
    @%p0 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r1];
    ld.shared.u64 %rd0, [%r2];
    ret;
    """, buffers={"data": DATA})  # fmt: skip
    assert (
        "reads shared memory that the pending clusterlaunchcontrol.try_cancel has yet to write"
        in found.messages
    )


@every_schedule
@pytest.mark.parametrize("multicast", ["", ".multicast::cluster::all"])
def test_clusters_that_do_not_start_because_others_take_their_work(multicast: str, how: str) -> None:
    """Each cluster works on its own place, then asks for another one until there are none; every place is worked on once."""
    body = (
        LEADER
        + """
    mov.u32 %r10, %cluster_ctarank;
    setp.eq.u32 %p4, %r10, 0;
    and.pred %p4, %p4, %p0;
    @%p0 mbarrier.init.shared.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mov.u32 %r11, 0;
    mov.u32 %r12, %r198;
WORK:
    mad.lo.u32 %r13, %r12, 32, %r199;
    mul.wide.u32 %rd3, %r13, 8;
    add.u64 %rd3, %rd63, %rd3;
    red.global.add.u64 [%rd3], 1;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @ASKS clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytesCAST.b128 [%r2], [%r1];
LOOP:
    mbarrier.try_wait.parity.shared.b64 %p9, [%r1], %r11;
    @!%p9 bra LOOP;
    xor.b32 %r11, %r11, 1;
    ld.shared.b128 %q0, [%r2];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p5, %q0;
    fence.proxy.async;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @!%p5 ret;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r14, %r15, %r16, _}, %q0;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r12, %q0;
    setp.ne.u32 %p6, %r12, %r14;
    @%p6 trap;
    add.u32 %r12, %r12, %r10;
    bra.uni WORK;
    """.replace("CAST", multicast).replace("ASKS", "%p4" if multicast else "%p0")
    )
    size = 2 if multicast else 1
    found = right(body, grid=24, cluster=size, buffers={"data": DATA}, how=how)
    assert found.out == [1] * 24 * 32


# ---------------------------------------------------------------- observations

SENT = """@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd63], [%r2], 512;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
ret;"""
CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "a copy of a thread is read too early": (
        "read-too-early",
        MINE + "cp.async.ca.shared.global [%r3], [%rd1], 8;\nHOLEld.shared.u64 %rd0, [%r3];\ncp.async.wait_all;\nret;",
        "cp.async.wait_all;\n", {},
    ),
    "a bulk copy is read too early": (
        "read-too-early", INIT + arrive(256) + load() + "HOLEld.shared.u64 %rd0, [%r2];\n" + WAIT.format(0) + "ret;",
        WAIT.format(0).replace("WAIT0", "BEFORE"), {},
    ),
    "the source of a store is overwritten": (
        "source-overwritten",
        ("@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd63], [%r2], 256;\n@%p0 cp.async.bulk.commit_group;\nHOLE"
        "@%p0 st.shared.u32 [%r2+16], 1;\n@%p0 cp.async.bulk.wait_group 0;\nret;"),
        "@%p0 cp.async.bulk.wait_group.read 0;\n", {},
    ),
    "two copies fill one place": (
        "filled-twice", INIT + arrive(512) + load() + load(to="%r2HOLE") + WAIT.format(0) + "ret;", "+256", {},
    ),
    "a store into what a copy fills": (
        "filled-twice", INIT + arrive(256) + load() + "@%p0 st.shared.u32 [%r2HOLE], 1;\n" + WAIT.format(0) + "ret;",
        "+256", {},
    ),
    "a copy without a wait": ("left-in-flight", INIT + arrive(256) + load() + "HOLEret;", WAIT.format(0), {}),
    "no proxy fence before a store": (
        "proxy",
        ("@!%p0 ret;\nst.shared.u32 [%r2], 1;\nHOLEcp.async.bulk.global.shared::cta.bulk_group [%rd63], [%r2], 16;\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;"),
        "fence.proxy.async.shared::cta;\n", {},
    ),
    "a proxy fence of the issuing thread alone, before the barrier": (
        "proxy", MINE + "st.shared.u32 [%r3], 1;\n@%p0 fence.proxy.async.shared::cta;\nHOLEbar.sync 0;\n" + SENT,
        "fence.proxy.async.shared::cta;\n", {"block": 64},
    ),
    "a proxy fence of another warp alone, after the barrier": (
        "proxy", MINE + "st.shared.u32 [%r3], 1;\nbar.sync 0;\nsetp.eq.u32 %p1, %r199, 32;\n"
        "@%p1 fence.proxy.async.shared::cta;\nHOLE" + SENT, "@%p0 fence.proxy.async.shared::cta;\n", {"block": 64},
    ),
    "no barrier between a write and a read": (
        "unordered", MINE + "st.shared.u32 [%r3], 1;\nHOLExor.b32 %r4, %r199, 32;\nmad.lo.u32 %r3, %r4, 8, %r2;\n"
        "ld.shared.u32 %r0, [%r3];\nret;", "bar.sync 0;\n", {"block": 64},
    ),
    "no barrier between a read and a write": (
        "unordered", MINE + "ld.shared.u32 %r0, [%r3];\nHOLExor.b32 %r4, %r199, 32;\nmad.lo.u32 %r3, %r4, 8, %r2;\n"
        "st.shared.u32 [%r3], 1;\nret;", "bar.sync 0;\n", {"block": 64},
    ),
    "an accumulator is read before the wait": (
        "register-in-flight", wgmma(before="HOLE\nmov.f32 %f9, %f0;"),
        "wgmma.wait_group.sync.aligned 0;\n", {"block": 128, "header": HOPPER},
    ),
    "no fence before wgmma": (
        "wgmma-fence", wgmma(fence="HOLE"),
        FENCE, {"block": 128, "header": HOPPER},
    ),
    "half a warp at an aligned instruction": (
        "divergent", "setp.lt.u32 %p1, %r199, 16;\nHOLE@%p1 bra SOME;\nret;\nSOME:\nwgmma.fence.sync.aligned;\nbar.sync 0;\nret;",
        "", {"header": HOPPER, "block": 128},
    ),
    "three warps of a warpgroup": (
        "warpgroup", "setp.ge.u32 %p1, %r199, 96;\nHOLE@%p1 ret;\nwgmma.fence.sync.aligned;\nret;", "", {"header": HOPPER, "block": 128},
    ),
    "tensor memory is not allocated": (
        "tensor-memory-unallocated", ALLOC + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r23}, [%r21+HOLE];\n"
        "tcgen05.wait::ld.sync.aligned;\n" + FREE + "ret;", "", {"block": 128},
    ),
    "tensor memory is freed with another size": (
        "tensor-memory-allocation", ALLOC + "bar.sync 0;\n@!%p2 bra NOFREE;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 64;\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;\nNOFREE:\nret;", "", {"block": 128},
    ),
    "a product is read before it is complete": (
        "tensor-memory", mma("HOLE"), WAIT.format(0), {"block": 128},
    ),
    "tensor memory is left allocated": ("tensor-memory-leak", ALLOC + "HOLEret;", FREE, {"block": 128}),
    "an mbarrier is taken away from a copy": (
        "mbarrier-inval", INIT + arrive(256) + load() + "HOLE@%p0 mbarrier.inval.shared.b64 [%r1];\nret;",
        WAIT.format(0), {},
    ),
    "a CTA that has ended is written to": (
        "exited-cta", ("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        "mov.u32 %r10, %cluster_ctarank;\nsetp.eq.u32 %p1, %r10, 0;\n@%p1 bra OUT;\n"
        "mapa.shared::cluster.u32 %r3, %r2, 0;\nmov.u32 %r4, 0;\nSLOW:\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r4, 3000;\n"
        "@%p2 bra SLOW;\n@%p0 st.shared::cluster.u32 [%r3], 1;\nOUT:\nHOLEret;"),
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n", {"grid": 2, "cluster": 2},
    ),
    "a CTA that may not have started is written to": (
        "unstarted-cta", ("HOLEmov.u32 %r10, %cluster_ctarank;\nxor.b32 %r10, %r10, 1;\n"
        "mapa.shared::cluster.u32 %r3, %r2, %r10;\n@%p0 st.shared::cluster.u32 [%r3], 1;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;"),
        "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n", {"grid": 2, "cluster": 2},
    ),
    "a thread waits for the cluster a second time": (
        "cluster-barrier", ("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        "HOLEbarrier.cluster.wait.aligned;\nret;"),
        "barrier.cluster.arrive.aligned;\n", {"grid": 2, "cluster": 2},
    ),
}  # fmt: skip
"""What goes wrong -> the observation, the kernel with a hole, and what fixes it there."""
FIXED = {
    "half a warp at an aligned instruction": ("setp.lt.u32 %p1, %r199, 16", "setp.lt.u32 %p1, %r199, 128"),
    "three warps of a warpgroup": ("setp.ge.u32 %p1, %r199, 96", "setp.ge.u32 %p1, %r199, 128"),
    "tensor memory is not allocated": ("[%r21+]", "[%r21+31]"),
    "tensor memory is freed with another size": (
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 64;",
        "",
    ),
}
"""Where the twins differ in something else than the hole."""


def twins(name: str) -> tuple[str, str]:
    _, text, fix, _ = CASES[name]
    bad, good = text.replace("HOLE", ""), text.replace("HOLE", fix)
    if name in FIXED:
        good = bad.replace(*FIXED[name])
        bad = bad.replace("[%r21+]", "[%r21+32]")
    return LEADER + bad, LEADER + good


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_observed_when_operations_are_late(name: str) -> None:
    kind, _, _, options = CASES[name]
    found = run(twins(name)[0], buffers={"data": DATA}, **options)
    assert kind in found.kinds, (found.execution.end, found.execution.reason, found.messages)


@every_schedule
@pytest.mark.parametrize("name", CASES)
def test_what_is_right_gives_no_observation(name: str, how: str) -> None:
    right(twins(name)[1], buffers={"data": DATA}, how=how, **CASES[name][3])


@pytest.mark.parametrize("address", ["%r2+8", "%r2"])
def test_a_misaligned_copy_is_a_fault(address: str) -> None:
    found = run(
        LEADER + INIT + arrive(256) + load(to=address) + WAIT.format(0) + "ret;", buffers={"data": DATA}
    )
    assert found.execution.end == ("fault" if "+8" in address else "done")
    assert done("ret;").execution.end == "done"


@pytest.mark.parametrize(("convert", "end"), [("", "fault"), ("cvta.shared.u64 %rd9, %rd9;\n", "done")])
def test_a_matrix_instruction_without_a_space_takes_generic_addresses(convert: str, end: str) -> None:
    found = run(
        f"mov.u64 %rd9, smem;\n{convert}stmatrix.sync.aligned.m8n8.x1.b16 [%rd9], {{%r0}};\nret;"
    ).execution
    assert (found.end, found.fault) == (end, "address" if end == "fault" else "")


def test_an_mbarrier_that_was_invalidated_is_named_by_its_initialisation() -> None:
    body = LEADER + INIT + "@%p0 mbarrier.inval.shared.b64 [%r1];\n" + arrive(0) + "ret;"
    found = run(body, buffers={"data": DATA}).execution
    (seen,) = found.observations
    assert seen.kind == "mbarrier-absent"
    assert found.function.instructions[seen.other].name == "mbarrier.init"


def test_an_access_conflicts_with_every_operation_that_is_pending_there() -> None:
    copies = load(128) + load(128, "%r2+128", "%rd1+128")
    text = LEADER + INIT + arrive(256) + copies + "ld.shared.v2.u64 {%rd2, %rd3}, [%r2+120];\n" + TAKE
    text = text.replace("[%r2+120]", "[%r3]").replace(
        "ld.shared.v2", "mad.lo.u32 %r3, %r199, 16, %r2;\nld.shared.v2"
    )
    found = run(text, buffers={"data": DATA}).execution
    early = [o for o in found.observations if o.kind == "read-too-early"]
    assert len({o.other for o in early if o.site == early[0].site}) == 2


def test_an_observation_names_all_instructions_that_use_its_mbarrier() -> None:
    """Also the wait, which is executed after the arrival that is one too many."""
    found = run(LEADER + INIT + arrive(256) * 2 + load() + WAIT.format(0) + "ret;", buffers={"data": DATA})
    (seen,) = (o for o in found.execution.observations if o.kind == "mbarrier-overrun")
    names = {found.execution.function.instructions[site].event for site in seen.users | seen.later}
    assert names == {"mbarrier-init", "mbarrier-arrive", "mbarrier-wait", "issue"}


@pytest.mark.parametrize(("fence", "result"), [("", 0xFBFBFBFB), ("fence.proxy.async.shared::cta;", 7)])
def test_a_generic_write_is_invisible_to_the_async_proxy_until_a_fence(fence: str, result: int) -> None:
    body = f"""
    mov.u32 %r2, smem;
    setp.ne.u32 %p0, %r199, 0;
    @%p0 ret;
    st.shared.u32 [%r2], 7;
    {fence}
    cp.async.bulk.global.shared::cta.bulk_group [%rd63], [%r2], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ld.shared.u32 %r3, [%r2];
    st.global.u32 [%rd63+16], %r3;
    ret;"""
    found = done(body)
    assert [found.out[0], found.out[2]] == [result, 7]


@pytest.mark.parametrize(
    ("steps", "seen"),
    [
        (["dec 40", "inc 200"], []),
        (["inc 232", "dec 24"], []),
        (["dec 40", "dec 48"], ["requests to lower its 40 registers to 48"]),
        (["inc 200", "inc 160"], ["requests to raise its 200 registers to 160"]),
    ],
)
def test_setmaxnreg_changes_in_the_direction_of_its_name(steps: list[str], seen: list[str]) -> None:
    body = "".join(f"setmaxnreg.{way}.sync.aligned.u32 {n};\n" for way, n in map(str.split, steps))
    assert done(body + "ret;", block=128).messages == seen


@pytest.mark.parametrize(
    ("directives", "seen"),
    [
        (".maxntid 384", []),  # ptxas may drop the instruction, and what a thread holds is unknown
        (".maxntid 384\n.minnctapersm 1", ["requests to lower its 168 registers to 232"]),
    ],
)
def test_registers_at_launch_are_known_from_a_bound_only(directives: str, seen: list[str]) -> None:
    body = "setp.lt.u32 %p0, %r199, 128;\n@%p0 bra A;\nsetmaxnreg.inc.sync.aligned.u32 240;\nret;\nA:\n"
    body += "setmaxnreg.dec.sync.aligned.u32 232;\nret;"
    found = run(body, block=384, header=HOPPER, directives=directives)
    assert found.messages == seen


def roles(producer: str, count: int) -> Run:
    """Four warps execute *producer*, eight others request *count* registers; 168 are theirs at launch."""
    return run(
        f"setp.lt.u32 %p0, %r199, 128;\n@%p0 bra P;\nsetmaxnreg.inc.sync.aligned.u32 {count};\nret;\nP:\n{producer}\nret;",
        block=384, header=HOPPER, directives=".reqntid 384\n.maxnreg 168",
    )  # fmt: skip


LATE = "L: add.u32 %r0, %r0, 1;\nsetp.lt.u32 %p1, %r0, 3000;\n@%p1 bra L;\n"
DEC = "setmaxnreg.dec.sync.aligned.u32 40;\n"


@pytest.mark.parametrize("producer", [DEC, LATE + DEC])
def test_registers_that_others_release_suffice(producer: str) -> None:
    found = roles(producer, 232).execution
    assert (found.end, found.observations) == ("done", [])


@pytest.mark.parametrize(("producer", "count"), [("", 232), (LATE, 232), (DEC, 240)])
def test_registers_that_nothing_releases_are_waited_for_indefinitely(producer: str, count: int) -> None:
    found = roles(producer, count).execution
    assert found.end == "deadlock"
    assert {wait.kind for wait in found.waits} == {"registers"}


def test_a_warp_has_the_registers_of_its_role() -> None:
    """The warps of a warpgroup need not execute the same setmaxnreg."""
    found = right(
        "setp.lt.u32 %p0, %r199, 32;\n@%p0 bra A;\nsetmaxnreg.dec.sync.aligned.u32 40;\nret;\nA:\n"
        "setmaxnreg.dec.sync.aligned.u32 48;\nret;",
        block=128, header=HOPPER,
    )  # fmt: skip
    assert found.execution.steps > 0


# ---------------------------------------------------------------- copies of unknown size

TENSOR = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    " [%r2+512], [%rd2, {%r9}], [%r1];\n"
)


@every_schedule
@pytest.mark.parametrize("first", [load(), TENSOR])
def test_a_phase_with_a_copy_of_unknown_size_waits_for_its_other_copies(how: str, first: str) -> None:
    """The second copy is of another warp, which has more to do before it issues the copy."""
    second = TENSOR if first != TENSOR else load().replace("@%p0 ", "")
    found = right(LEADER + """
    mov.u32 %r9, 0;
    mov.u32 %r8, 0;
    ld.param.u64 %rd2, [maps];
    """ + INIT + f"""
    setp.ge.u32 %p2, %r199, 32;
    @%p2 bra OTHER;
    {arrive(512)}
    @!%p0 bra WAITING;
    {first}
    bra.uni WAITING;
OTHER:
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, 2000;
    @%p3 bra OTHER;
    setp.eq.u32 %p4, %r199, 32;
    @!%p4 bra WAITING;
    {second}
WAITING:
    """ + WAIT.format(0) + MINE.replace("%r199", "%r10").replace("mad", "and.b32 %r10, %r199, 31;\nmad") + """
    ld.shared.u64 %rd0, [%r3];
    """ + STORE, block=64, how=how, buffers={"data": DATA, "maps": np.frombuffer(UNKNOWN, np.uint8)},
    header=HOPPER)  # fmt: skip
    assert found.out == [*range(1, 33), *range(1, 33)]


@every_schedule
def test_a_copy_of_unknown_size_does_not_hide_that_no_thread_can_arrive(how: str) -> None:
    """The phase needs two arrivals, and the waits of its threads time out again and again."""
    found = run(LEADER + """
    mov.u32 %r9, 0;
    ld.param.u64 %rd2, [maps];
    """ + INIT.replace("[%r1], 1", "[%r1], 2") + f"""
    {arrive(512)}
    @%p0 {TENSOR}
    """ + WAIT.format(0), how=how, buffers={"data": DATA, "maps": np.frombuffer(UNKNOWN, np.uint8)},
    header=HOPPER)  # fmt: skip
    assert found.execution.end == "deadlock", found.execution.reason
    assert found.execution.steps < 1000
