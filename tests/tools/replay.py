"""Kernels whose synchronisation tests replay, and changes of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tclint.dataflow import GaveUp
from tclint.findings.finding import Finding
from tclint.linting.check import check_source
from tclint.replay import hypotheses
from tclint.replay.launches import ReplayRun
from tclint.replay.verdict import Replay
from tclint.syntax.source import Source
from tests.tools import pages
from tests.tools.support import analysed

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


def replay(code: str) -> Replay:
    return Replay(analysed(code))


def why(asked: Replay) -> str:
    """Why a replay gave up; "": it did not."""
    return asked.verdict.why if isinstance(asked.verdict, GaveUp) else ""


def reports(code: str) -> list[Finding]:
    return list(check_source(Source.from_bytes(code.encode(), "k.ptx")).findings)


def what(run: ReplayRun | None) -> set[str]:
    assert run is not None
    found = {"early" if race.early else "race" for race in run.races}
    return found | ({"stuck"} if run.deadlocks else set()) | ({"overrun"} if run.overrun else set())


FREE = "free:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r28], %r23;\n    @!%p1 bra free;\n"
LOAD = "ld.shared.u32 %r32, [%r30];\n"
PASSED = changed(".param .u32 rounds)", ".param .u32 rounds, .param .u32 size)").replace(
    "    mov.u32 %r0, %tid.x;\n", "    mov.u32 %r0, %tid.x;\n    ld.param.u32 %r12, [size];\n", 1
)
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


REREAD = "    mad.lo.u32 %r30, %r0, 16, %r24;\n    ld.shared.u32 %r3, [%r30];\n"
STEP = RING[RING.index("use:\n") : RING.index("    setp.lt.u32 %p5, %r21, %r20;\n    @%p5 bra use;")]
MORE = WAIT.replace("wait:", "more:").replace("bra wait", "bra more")
TILES = changed("ld.param.u32 %r20, [rounds];", "ld.param.u32 %r20, [rounds];\n    shr.u32 %r20, %r20, 6;")


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


TWO = pages.block("TC001", "accumulators_in_turn")
"""Two accumulators, computed by one warp and loaded by four others."""
LOADED = "    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r30];\n    tcgen05.wait::ld.sync.aligned;\n    tcgen05.fence::before_thread_sync;\n"
READ = "    cp.async.bulk.wait_group.read 0;\n"
STORED = pages.block("BK002", "buffer_given_back_unread").replace(
    "wait_group.read 1;      // leaves the copy under way", "wait_group.read 0;"
)
"""Four warps store what the first thread of the fifth copies to global memory, in two stages."""
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
