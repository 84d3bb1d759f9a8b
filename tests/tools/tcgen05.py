"""Kernels with tcgen05 instructions, made of statements that need the same setup."""

from __future__ import annotations

from tests.tools.support import kernel, module

SETUP = """
    .shared .align 8 .b64 done; .shared .align 8 .b64 other; .shared .align 4 .b32 slot;
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p1, %r0, 0;
    setp.ne.u32 %p0, %r0, %r0;
    ld.param.u32 %r8, [number];
    setp.eq.s32 %p3, %r8, 0;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;
    bar.sync 0;
    ld.shared.b32 %r9, [slot];
    add.s32 %r10, %r9, 64;
    add.s32 %r11, %r9, 4;
"""
MMA = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, %r7, %p0;"
COMMIT = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];"
WAIT = "W{}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [done], 0;\n@!%p2 bra W{};"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}, [%r9];"
STORE = "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r9], {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27};"
ZEROS = STORE.replace("%r2", "%r3")
LD_DONE, ST_DONE = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
OVERWRITES = f"{ZEROS}\n{ST_DONE}"
USE = "st.shared.b32 [slot], %r20;"
FAR = "[%r10]"


def wait(n: int = 0) -> str:
    """A loop that waits for phase 0 of the mbarrier ``done``; *n* keeps the labels of several apart."""
    return WAIT.format(n, n)


def text(body: str, threads: int = 128) -> str:
    """A module with one kernel: the setup, and *body*."""
    return module(kernel(f"{SETUP}{body}\nret;", directives=f".reqntid {threads}"))


def other_role(then: str) -> str:
    """Warp 4, which accesses the lanes of warp 0, executes *then*, and warps 0 to 3 what follows."""
    return f"""
    setp.lt.u32 %p5, %r0, 128;
    @%p5 bra load;
    {then}
    bra done_here;
load:
"""
