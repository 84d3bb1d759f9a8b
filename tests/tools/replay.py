"""Kernels whose synchronisation tests replay, and changes of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tclint.replay import hypotheses
from tests.tools import pages

block = partial(pages.block, "MB016")


RING = block("ring_with_flips")


def changed(old: str, new: str, code: str = RING) -> str:
    assert old in code
    return code.replace(old, new)


def alter(monkeypatch: pytest.MonkeyPatch, row: str, value: object) -> None:
    """Replaces the value of a row of the table of hypotheses."""
    monkeypatch.setattr(hypotheses, row, replace(getattr(hypotheses, row), value=value))


ALL_ARRIVE = """
    .shared .align 8 .b64 m;
    .shared .align 8 .b8 n[16];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [m], 128;
ready:
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [m];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], 0;
    @!%p2 bra wait;
    ret;
"""
"""All threads of the CTA arrive at an mbarrier, and wait for it."""


WAIT = "wait:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r29], %r23;\n    @!%p1 bra wait;\n"


GIVE = "    mbarrier.arrive.shared::cta.b64 _, [%r28];\n"


MULTICAST = changed(
    "    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r30], [%in], 2048, [%r29];",
    "    mov.b16 %h0, 3;\n    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    ".multicast::cluster [%r30], [%in], 2048, [%r29], %h0;",
).replace("    .reg .b64 %in, %out;", "    .reg .b64 %in, %out;\n    .reg .b16 %h<1>;")
"""Each copy goes to both CTAs of a cluster, so each full barrier gets twice the bytes that it expects."""


PAIR = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry pair(.param .align 64 .b8 map[128])
.reqntid 32
.reqnctapercluster 2
{
    .reg .pred %p<3>;
    .reg .b16 %h<1>;
    .reg .b32 %r<4>;
    .reg .b64 %m<1>;
    .shared .align 8 .b64 full;
    .shared .align 128 .b8 tile[2048];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
ready:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p0 bra done;
    mov.u32 %r1, %cluster_ctarank;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra peer;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra wait;
    bra done;
peer:
    mov.u64 %m0, map;
    cvta.param.u64 %m0, %m0;
    mov.u32 %r2, full;
    mov.u32 %r3, 0;
    mapa.shared::cluster.u32 %r2, %r2, %r3;
    mov.b16 %h0, 2;
    cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [tile], [%m0, {%r3}], [%r2], %h0;
done:
    ret;
}
"""
"""CTA 1 copies to itself, and signals CTA 0."""


WALK = RING.replace("ld.param.u32 %r20, [rounds];", "ld.param.u32 %r20, [rounds];\n    shl.b32 %r20, %r20, 9;\n    mov.u32 %r1, %nctaid.x;").replace(
    "    add.u32 %r21, %r21, 1;\n", "    add.u32 %r21, %r21, %r1;\n"
)  # fmt: skip
"""The CTAs take turns."""


ELECTING = changed(
    "    setp.ne.u32 %p3, %r0, 128;\n    @%p3 bra done;\n", ""
).replace("load:\n", "load:\n    elect.sync _|%p3, -1;\n    @!%p3 bra next;\n").replace(
    "    add.s64 %in, %in, 2048;\n", "    add.s64 %in, %in, 2048;\nnext:\n"
)  # fmt: skip
"""The producer warp elects a lane in each iteration."""
