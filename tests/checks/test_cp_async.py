"""The rules of cp.async on small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence
from tclint.findings.selection import Selected
from tests.tools.support import agrees, by_rule, kernel, lint, module

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
START = """
    .shared .align 128 .b8 tile[8192];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    cvta.to.global.u64 %rd1, %rd0;
    mad.wide.u32 %rd2, %r0, 16, %rd1;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 4;
    add.u32 %r3, %r1, %r2;
"""
COPY = "cp.async.cg.shared.global [%r3], [%rd2], 16;"
NEXT = "cp.async.cg.shared.global [%r3+2048], [%rd2+2048], 16;"
AGAIN = "cp.async.cg.shared.global [%r3], [%rd2+2048], 16;"
COMMIT = "cp.async.commit_group;"
READ = "ld.shared.u32 %r4, [%r3];"
OTHERS = "ld.shared.u32 %r4, [tile+64];"
TRACK = "cp.async.mbarrier.arrive.noinc.shared.b64 [full];"
PASS = "wait: mbarrier.try_wait.parity.shared.b64 %p1, [full], 0;\n@!%p1 bra wait;"


def wait(depth: int = 0) -> str:
    return f"cp.async.wait_group {depth};"


def text(body: str, **options: str) -> str:
    table = ".global .align 16 .b8 table[64];\n"
    return module(table, kernel(f"{START}\n{body}\nret;", **options), header=HEADER)


def last(nothing: int, want: str = "") -> str:
    """Copies of a block of four tiles, of which a loop knows the last that it has waited for; it begins with *nothing*."""
    return f"""
    mov.u32 %r5, %ctaid.x;
    mov.u32 %r6, 0;
    mov.u32 %r7, {nothing};
    {COPY}
    {COMMIT}
loop:
    mad.lo.s32 %r8, %r5, %r9, %r6;
    shr.s32 %r8, %r8, 2;
    setp.eq.s32 %p0, %r8, %r7;
    @%p0 bra there;
    cp.async.wait_all;
    mov.u32 %r7, %r8;
there:
    add.s32 %r6, %r6, 1;
    mad.lo.s32 %r10, %r5, %r9, %r6;
    shr.s32 %r10, %r10, 2;
    setp.eq.s32 %p1, %r10, %r8;
    @%p1 bra same;
    {AGAIN}{want}
    {COMMIT}
same:
    setp.lt.s32 %p2, %r6, %r9;
    @%p2 bra loop;
    cp.async.wait_all;
    """


def outstanding(most: int) -> str:
    """A ring of four stages whose iterations nvcc unrolls: it waits for a stage once *most* copies are outstanding."""
    stages = "".join(
        f"""
    cp.async.cg.shared.global [%r3+{2048 * k}], [%rd2+{2048 * k}], 16;{{}}
    {COMMIT}
    add.s32 %r5, %r5, 1;
    setp.ne.s32 %p1, %r5, {most};
    @%p1 bra after{k};
    {wait(3)}
    mov.u32 %r5, {most - 1};
after{k}:"""
        for k in range(4)
    )
    return f"""
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
ring:{stages}
    add.s64 %rd2, %rd2, 65536;
    add.s32 %r6, %r6, 1;
    setp.lt.s32 %p2, %r6, %r9;
    @%p2 bra ring;
    cp.async.wait_all;"""


def near(distance: int) -> str:
    """A copy of a tile seven further on, which is not waited for where there is none so far on."""
    return f"""
    mov.u32 %r5, %ctaid.x;
    add.s32 %r6, %r5, 7;
    setp.lt.s32 %p0, %r6, %r9;
    @!%p0 bra on;
    {COPY}
    {COMMIT}
on: add.s32 %r7, %r5, {distance};
    setp.gt.s32 %p1, %r9, %r7;
    @%p1 bra far;
    {READ}{{}}
    bra end;
far:
    {wait()}
    {READ}
end:"""


def ring(stages: int, depth: int, *, read: str = "%r6", width: int = 2048) -> str:
    """A loop over a ring whose copies run *stages* - 1 rounds ahead."""
    ahead = "\n".join(
        f"cp.async.cg.shared.global [%r3+{k * width}], [%rd2+{k * 16}], 16;\n{COMMIT}"
        for k in range(stages - 1)
    )
    return f"""
    {ahead}
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
    mov.u32 %r7, {stages - 1};
loop:
    {wait(depth)}
    bar.sync 0;
    mad.lo.u32 %r10, {read}, {width}, %r3;
    ld.shared.u32 %r4, [%r10];{{}}
    bar.sync 0;
    mad.lo.u32 %r11, %r7, {width}, %r3;
    cp.async.cg.shared.global [%r11], [%rd2], 16;
    {COMMIT}
    add.u32 %r6, %r6, 1;
    setp.eq.u32 %p0, %r6, {stages};
    selp.b32 %r6, 0, %r6, %p0;
    add.u32 %r7, %r7, 1;
    setp.eq.u32 %p1, %r7, {stages};
    selp.b32 %r7, 0, %r7, %p1;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, %r9;
    @%p2 bra loop;
    {wait()}
    """


def rounds(body: str) -> str:
    """A loop that jumps to ``even`` in every second iteration, the first among them, and waits at the end of each."""
    return f"""
    {COPY}
    {COMMIT}
    mov.u32 %r5, 0;
loop:
    and.b32 %r6, %r5, 1;
    setp.eq.u32 %p0, %r6, 0;
    @%p0 bra even;
    {body}
    {wait()}
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, %r9;
    @%p2 bra loop;
    """


def pointers(committed: str) -> str:
    """A loop over a ring of three, as Triton writes it: a pointer advances, and is reset after so many iterations."""
    return f"""
    {COPY}
    {COMMIT}
    {NEXT}
    {committed}
    mov.u32 %r5, 0;
    mov.u32 %r6, %r3;
loop:
    mul.hi.u32 %r7, %r5, -1431655765;
    shr.u32 %r7, %r7, 1;
    mad.lo.u32 %r10, %r7, -6144, %r6;
    {wait(1)}
    bar.sync 0;
    ld.shared.u32 %r4, [%r10];{{}}
    {COMMIT}
    add.u32 %r6, %r6, 2048;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, %r9;
    @%p2 bra loop;
    """


def unrolled(committed: str) -> str:
    """A loop over a ring of three that another loop fills, two rounds ahead; it divides by a multiplication."""
    return f"""
    mov.u32 %r5, 0;
loop:
    {wait(0)}
    bar.sync 0;
    add.u32 %r6, %r5, 2;
    setp.ge.u32 %p0, %r6, %r9;
    @%p0 bra on;
    mul.wide.u32 %rd3, %r6, -1431655765;
    shr.u64 %rd3, %rd3, 33;
    cvt.u32.u64 %r7, %rd3;
    mad.lo.u32 %r7, %r7, -3, %r6;
    mad.lo.u32 %r7, %r7, 2048, %r1;
    mov.u32 %r10, %r0;
fill:
    shl.b32 %r11, %r10, 4;
    add.u32 %r11, %r11, %r7;
    cp.async.cg.shared.global [%r11], [%rd2], 16;
    add.u32 %r12, %r10, 512;
    setp.lt.s32 %p1, %r10, 0;
    mov.u32 %r10, %r12;
    @%p1 bra fill;
on:
    {committed}
    mul.wide.u32 %rd3, %r5, -1431655765;
    shr.u64 %rd3, %rd3, 33;
    cvt.u32.u64 %r7, %rd3;
    mad.lo.u32 %r7, %r7, -3, %r5;
    mad.lo.u32 %r7, %r7, 2048, %r1;
    ld.shared.u32 %r4, [%r7];{{}}
    bar.sync 0;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, %r9;
    @%p2 bra loop;
    """


def rest(threads: str) -> str:
    """Two rounds that each fill a stage of 2048 bytes; three more copies are there for other numbers of threads."""
    return f"""
    {threads}
    and.b32 %r12, %r12, 3;
    mov.u32 %r5, 0;
loop:
    mad.lo.u32 %r6, %r5, 2048, %r3;
    cp.async.cg.shared.global [%r6], [%rd2], 16;
    setp.ne.u32 %p0, %r12, 2;
    @%p0 bra on;
    cp.async.cg.shared.global [%r6+2048], [%rd2+16], 16;{{}}
on:
    {COMMIT}
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 2;
    @%p1 bra loop;
    cp.async.wait_all;
    """


def padded(*kept: str) -> str:
    """Two groups at least, as the kernels of cuSPARSELt have them: what there is to copy, then groups of nothing."""
    pads = f"""
    mov.u32 %r10, -2;
    sub.s32 %r10, %r10, %r9;
    max.s32 %r10, %r10, -3;
    add.s32 %r11, %r10, 3;
    add.s32 %r12, %r10, 2;
    and.b32 %r13, %r11, 3;
    setp.lt.u32 %p2, %r12, 3;
    @%p2 bra rest;
    sub.s32 %r14, %r11, %r13;
    four:
    {COMMIT * 4}
    add.s32 %r14, %r14, -4;
    setp.ne.s32 %p3, %r14, 0;
    @%p3 bra four;
    rest:
    setp.eq.s32 %p0, %r13, 0;
    @%p0 bra use;
    one:
    {COMMIT}
    add.s32 %r13, %r13, -1;
    setp.ne.s32 %p1, %r13, 0;
    @%p1 bra one;
    """
    return f"""
    {COPY}
    {COMMIT}
    setp.lt.s32 %p0, %r9, 1;
    @%p0 bra pad;
    {NEXT}
    {COMMIT}
    pad: setp.gt.s32 %p1, %r9, 0;
    @%p1 bra use;
    {pads if "pads" in kept else ""}
    use: {wait(1)}
    {READ}"""


def idle(more: str, less: str) -> str:
    """cuDNN's kernels for heads in pairs: a CTA of a pair that does not exist skips the wait in each iteration."""
    return f"""
    mov.u32 %r10, {more};
    mov.u32 %r11, {less};
    setp.ge.u32 %p0, %r10, %r11;
    mov.u32 %r5, 0;
    loop: bar.sync 0;
    {COPY}
    {COMMIT}
    @%p0 bra on;
    {wait()}
    on: {AGAIN}{{}}
    {COMMIT}
    {wait()}
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 9;
    @%p1 bra loop;"""


def head(inside: str) -> str:
    """A loop of Mojo's, which tests before each iteration whether there is one."""
    return f"""
    {COPY}
    {COMMIT}
    mov.u32 %r5, 0;
    round: setp.ge.u32 %p1, %r5, %r9;
    @%p1 bra on;
    {inside}
    add.u32 %r5, %r5, 1;
    bra round;
    on: {READ}"""


def ahead(more: int, waited: str = wait()) -> str:
    """A ring of two stages: i of n tiles are used, and f copied, up to *more* ahead, as nvcc does it two at a time."""
    step = "and.b32 %r10, {0}, 1;\nshl.b32 %r10, %r10, 11;\nadd.u32 %r11, %r3, %r10;\nmul.wide.s32 %rd4, {0}, 2048;\nadd.s64 %rd5, %rd2, %rd4;"
    copy = "cp.async.cg.shared.global [%r11], [%rd5], 16;"
    return f"""
    setp.lt.s32 %p0, %r9, 1;
    @%p0 bra done;
    mov.u32 %r5, 0;
    mov.u32 %r14, 0;
    mov.u32 %r6, %r14;
round:
    add.s32 %r8, %r5, {more};
    setp.ge.s32 %p1, %r14, %r8;
    setp.ge.s32 %p2, %r14, %r9;
    or.pred %p1, %p1, %p2;
    @%p1 bra filled;
    sub.s32 %r10, %r14, %r8;
    sub.s32 %r11, %r14, %r9;
    max.u32 %r12, %r10, %r11;
    neg.s32 %r13, %r12;
    and.b32 %r13, %r13, 1;
    setp.eq.s32 %p3, %r13, 0;
    mov.u32 %r6, %r14;
    @%p3 bra even;
    {step.format("%r14")}
    {copy}
    {COMMIT}
    add.s32 %r6, %r14, 1;
even:
    setp.gt.u32 %p4, %r12, -2;
    @%p4 bra filled;
two:
    {step.format("%r6")}
    {copy}{{}}
    {COMMIT}
    add.s32 %r7, %r6, 1;
    {step.format("%r7")}
    {copy}{{}}
    {COMMIT}
    add.s32 %r6, %r6, 2;
    setp.lt.s32 %p5, %r6, %r8;
    setp.lt.s32 %p2, %r6, %r9;
    and.pred %p5, %p5, %p2;
    @%p5 bra two;
filled:
    setp.eq.s32 %p6, %r6, %r9;
    @!%p6 bra some;
    {waited}
    bra ready;
some: {waited and wait(1)}
ready:
    bar.sync 0;
    and.b32 %r10, %r5, 1;
    shl.b32 %r10, %r10, 11;
    add.u32 %r11, %r3, %r10;
    ld.shared.u32 %r4, [%r11];{{}}
    bar.sync 0;
    add.s32 %r5, %r5, 1;
    setp.lt.s32 %p7, %r5, %r9;
    mov.u32 %r14, %r6;
    @%p7 bra round;
done:"""


CASES = {
    "a ring with a count of copies that are outstanding": outstanding(4).format("", "", "", ""),
    "a ring with a count that is reached too late": outstanding(5).format(" // want CA003", "", "", ""),
    "a ring that is filled ahead": ahead(2).format("", "", ""),
    "a ring that is filled too far ahead": ahead(3).format("", " // want CA003", ""),
    "a ring that is filled ahead, and not waited for": ahead(2, "").format("", "", " // want CA001"),
    "a ring that is filled ahead, a group short": ahead(2, wait(1)).format("", "", " // want CA001"),
    "groups of nothing": padded("pads"),
    "waited for in a CTA that has something to do": idle("%ctaid.x", "%r9").format(""),
    "waited for in a CTA that is given something to do": idle("%r9", "%ctaid.x").format(" // want CA003"),
    "a loop that asks at its head": head(wait()),
    "a loop that asks at its head, and does not wait": head("") + " // want CA001",
    "groups of nothing that lack": padded() + " // want CA001",
    "waited": f"{COPY}\n{COMMIT}\n{wait()}\n{READ}",
    "not waited": f"{COPY}\n{COMMIT}\n{READ} // want CA001",
    "not committed": f"{COPY}\n{READ} // want CA001",
    "committed too late": f"{COPY}\n{wait()}\n{READ} // want CA002\n{COMMIT}",
    "waited for all": f"{COPY}\ncp.async.wait_all;\n{READ}",
    "another thread's bytes": f"{COPY}\n{COMMIT}\nbar.sync 0;\n{OTHERS} // want CA001",
    "other bytes": f"{COPY}\n{COMMIT}\nld.shared.u32 %r4, [%r3+2048];",
    "bytes that no thread copies": f"{COPY}\n{COMMIT}\nld.shared.u32 %r4, [tile+2048];",
    "the last byte": f"{COPY}\n{COMMIT}\nld.shared.u8 %r4, [tile+2047]; // want CA001",
    "an unknown address": f"st.shared.u32 [tile+4096], %r9;\n{COPY}\n{COMMIT}\nadd.u32 %r5, %r1, %r9;\nld.shared.u32 %r4, [%r5];",
    "an address that is loaded": f"st.shared.u32 [tile+4096], %r9;\n{COPY}\n{COMMIT}\nld.shared.u32 %r5, [tile+4096];\nadd.u32 %r5, %r5, %r1;\nld.shared.u32 %r4, [%r5];",
    "another variable": f".shared .align 16 .b8 two[2048];\n{COPY}\n{COMMIT}\nld.shared.u32 %r4, [two];",
    "a generic read": f"{COPY}\n{COMMIT}\nmov.u64 %rd4, tile;\ncvta.shared.u64 %rd3, %rd4;\nld.u32 %r4, [%rd3]; // want CA001",
    "ldmatrix": f"{COPY}\n{COMMIT}\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r3]; // want CA001",
    "the younger group": f"{COPY}\n{COMMIT}\n{NEXT}\n{COMMIT}\n{wait(1)}\nld.shared.u32 %r4, [%r3+2048]; // want CA001",
    "the older group": f"{COPY}\n{COMMIT}\n{NEXT}\n{COMMIT}\n{wait(1)}\n{READ}",
    "a store over the own copy": f"{COPY}\n{COMMIT}\nst.shared.u32 [%r3], %r0; // want CA001",
    "a store elsewhere": f"{COPY}\n{COMMIT}\nst.shared.u32 [%r3+2048], %r0;",
    "zeros instead of a copy": f"setp.lt.u32 %p0, %r0, %r9;\n@%p0 {COPY}\n@!%p0 st.shared.u32 [%r3], %r9;\n{COMMIT}\n{wait()}\n{READ}",
    "tracked by an mbarrier": f"{COPY}\n{TRACK}\n{PASS}\n{READ}",
    "tracked, and another mbarrier waited for": f"{COPY}\n{TRACK}\n{PASS.replace('[full]', '[full+8]')}\n{READ} // want CA001",
    "tracked, not waited for": f"{COPY}\n{TRACK}\n{READ} // want CA001",
    "tracked, and waited for by another thread": f"{COPY}\n{TRACK}\nsetp.lt.u32 %p2, %r0, 64;\n@%p2 bra on;\n{PASS}\non: bar.sync 0;\n{OTHERS}",
    "tracked, and a barrier before anybody waits": f"{COPY}\n{TRACK}\nbar.sync 0;\n{READ} // want CA001\n{PASS}",
    "tracked, and a barrier of the threads that have waited": f"{COPY}\n{TRACK}\nsetp.lt.u32 %p2, %r0, 64;\n@%p2 bra on;\n{PASS}\nbar.sync 1, 128;\nbra later;\non: bar.sync 1, 128;\n{OTHERS}\nlater:",
    "a barrier is not a wait": f"{COPY}\n{COMMIT}\nbar.sync 0;\n{READ} // want CA001\n{TRACK}",
    "tracked too early": f"{TRACK}\n{COPY}\n{PASS}\n{READ} // want CA001",
    "waited for on one way": f"{COPY}\n{COMMIT}\nsetp.eq.u32 %p0, %r9, 0;\n@%p0 bra on;\n{wait()}\non: {READ} // want CA001",
    "waited for in a loop that may have no iterations": f"{COPY}\n{COMMIT}\nsetp.eq.u32 %p0, %r9, 0;\n@%p0 bra past;\nmov.u32 %r5, 0;\nloop: {wait()}\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, %r9;\n@%p1 bra loop;\npast: {READ}",
    "waited for in each case of a switch": f"{COPY}\n{COMMIT}\nsetp.eq.u32 %p0, %r9, 1;\n@%p0 bra one;\nsetp.eq.u32 %p1, %r9, 2;\n@%p1 bra two;\nbra on;\none: {wait()}\nbra on;\ntwo: {wait()}\non: {READ}",
    "waited for in the other cases": f"{COPY}\n{COMMIT}\nsetp.eq.u32 %p0, %r9, 1;\n@%p0 bra one;\nsetp.eq.u32 %p1, %r9, 2;\n@%p1 bra two;\nsetp.eq.u32 %p2, %r9, 3;\n@%p2 bra three;\n{wait(-27)}\nbra on;\none: {wait()}\nbra on;\ntwo: {wait()}\nbra on;\nthree: {wait()}\non: {READ}",
    "a copy in all iterations but the last one, never waited for": f"mov.u32 %r5, %r9;\nloop: bar.sync 0;\nsetp.eq.s32 %p0, %r5, 0;\n@%p0 bra on;\n{COPY}\n{COMMIT}\non: setp.gt.s32 %p1, %r5, 0;\nsub.u32 %r5, %r5, 1;\n@%p1 bra loop;\n{READ} // want CA001",
    "a copy in each iteration": f"mov.u32 %r5, %r9;\nloop: bar.sync 0;\n{COPY}\n{COMMIT}\nsetp.gt.s32 %p1, %r5, 0;\nsub.u32 %r5, %r5, 1;\n@%p1 bra loop;\n{READ} // want CA001",
    "a copy for a tile that there is": near(6).format(""),
    "a copy for a tile that there may be": near(8).format(" // want CA001"),
    "a copy of which a loop knows whether it has waited": last(-1),
    "a copy of which a loop seems to know that": last(0, " // want CA003"),
    "an earlier copy that may not be made": f"setp.lt.u32 %p0, %r9, 7;\n@%p0 {COPY}\n{AGAIN}\ncp.async.wait_all;\n{READ}",
    "two copies that are made together": f"setp.lt.u32 %p0, %r9, 7;\n@%p0 {COPY}\n@%p0 {AGAIN} // want CA003\ncp.async.wait_all;\n{READ}",
    "read on the path that waits": f"{COPY}\n{COMMIT}\nsetp.eq.u32 %p0, %r9, 0;\n@%p0 bra on;\n{wait()}\n{READ}\non: {wait()}",
    "a stage too few waited for": ring(3, 2).format(" // want CA001"),
    "a ring of three": ring(3, 1).format(""),
    "a ring of four": ring(4, 2).format(""),
    "a ring of four that is never committed": "".join(ring(4, 0).format(" // want CA002").rsplit(COMMIT, 1)),
    "read in the first iteration": rounds(f"bra on;\neven: setp.eq.u32 %p3, %r0, 0;\n@%p3 bra one;\nadd.u32 %r7, %r7, 1;\none: add.u32 %r7, %r7, 1;\non: {READ} // want CA001"),
    "read in the second iteration": rounds(f"{READ}\neven: add.u32 %r7, %r7, 1;"),
    "a stage that is not filled now": ring(3, 1, read="%r7").format(""),
    "a ring that a pointer goes through": pointers(COMMIT).format(""),
    "a ring that a pointer goes through, a group short": pointers("").format(" // want CA001"),
    "a ring that another loop fills": unrolled(COMMIT).format(""),
    "a ring that another loop fills, never committed": unrolled("").format(" // want CA002"),
    "a copy for more work than there is": rest("sub.u32 %r12, 255, %r0; min.u32 %r12, %r12, 128; shr.u32 %r12, %r12, 7;").format(""),
    "a copy for as much work as there may be": rest("mov.u32 %r12, %ntid.x; div.u32 %r12, 384, %r12;").format(""),
    "a copy for as much work as is asked for": rest("mov.u32 %r12, %r9;").format("").replace("[%r6],", "[%r6], // want CA003\n"),
    "the second iteration of two": f"mov.u32 %r5, 0;\nloop: setp.ne.u32 %p0, %r5, 1;\n@%p0 bra on;\nmad.lo.u32 %r6, %r5, 2048, %r3;\ncp.async.cg.shared.global [%r6], [%rd2], 16;\n{COMMIT}\nld.shared.u32 %r4, [tile+2112]; // want CA001\non: add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 2;\n@%p1 bra loop;",
    "two copies to one place": f"{COPY}\n{AGAIN} // want CA003\ncp.async.wait_all;\n{READ}",
    "two groups to one place": f"{COPY}\n{COMMIT}\n{AGAIN} // want CA003\ncp.async.wait_all;\n{READ}",
    "the same copy twice": f"{COPY}\n{COPY}\ncp.async.wait_all;\n{READ}",
    "a wait between two copies": f"{COPY}\ncp.async.wait_all;\n{AGAIN}\ncp.async.wait_all;\n{READ}",
    "copies side by side": f"{COPY}\n{NEXT}\ncp.async.wait_all;\n{READ}",
    "one of two copies": f"setp.lt.u32 %p0, %r9, 7;\n@%p0 {COPY}\n@!%p0 {AGAIN}\ncp.async.wait_all;\n{READ}",
    "one of two copies on two ways": f"setp.lt.u32 %p0, %r9, 7;\n@%p0 bra two;\n{COPY}\nbra on;\ntwo: {AGAIN}\non: cp.async.wait_all;\n{READ}",
    "a misaligned copy": "cp.async.cg.shared.global [%r3+8], [%rd2], 16; // want CA004\ncp.async.wait_all;",
    "a copy aligned for its size": "cp.async.ca.shared.global [%r3+8], [%rd2+4], 4;\ncp.async.wait_all;",
    "a misaligned source": "cp.async.cg.shared.global [%r3], [table+4], 16; // want CA004\ncp.async.wait_all;",
    "a misaligned mbarrier": "mbarrier.init.shared.b64 [full+4], 1; // want CA004",
    "an mbarrier after another": "mbarrier.init.shared.b64 [full+8], 1;",
    "an address of which nothing is known": "cp.async.cg.shared.global [%r9], [%rd0], 16;\ncp.async.wait_all;",
    "a stage of unknown number": "mad.lo.u32 %r5, %r9, 2048, %r3;\ncp.async.cg.shared.global [%r5], [%rd2], 16;\ncp.async.wait_all;",
    "a stage of unknown number, misaligned": "mad.lo.u32 %r5, %r9, 2048, %r3;\ncp.async.cg.shared.global [%r5+4], [%rd2], 16; // want CA004\ncp.async.wait_all;",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_cp_async(case: str) -> None:
    agrees(text(CASES[case]), "CA")


def test_reads_of_one_cause_are_one_finding() -> None:
    (finding,) = by_rule(lint(text(f"{COPY}\n{NEXT}\n{COMMIT}\n{READ}\n{READ}\n{OTHERS}")), "CA001")
    assert [s.message for s in finding.steps] == [
        "starts to write these bytes",
        "committed here",
        "reads the same bytes",
    ]
    assert finding.count == 1


def test_a_shallow_wait_says_how_deep_it_must_be() -> None:
    body = f"{COPY}\n{COMMIT}\n{NEXT}\n{COMMIT}\n{wait(2)}\n{READ}"
    (finding,) = by_rule(lint(text(body)), "CA001")
    assert "wait_group 2 leaves the newest 2 groups in flight" in finding.message
    assert "wait_group 1 or less" in finding.help


@pytest.mark.parametrize(("depth", "rules"), [(1, ["CA002"]), (2, ["CA001", "CA002"])])
def test_a_group_that_is_never_committed_is_one_finding(depth: int, rules: list[str]) -> None:
    """With its commit, a wait for all but one group would complete the first one, too; one for all but two would not."""
    report = lint(text(f"{COPY}\n{COMMIT}\n{NEXT}\n{wait(depth)}\n{READ}\nld.shared.u32 %r5, [%r3+2048];"))
    assert sorted(f.rule.id for f in report.findings) == rules


def test_a_wait_without_a_commit_names_the_wait() -> None:
    (finding,) = by_rule(lint(text(f"{COPY}\n{wait()}\n{READ}")), "CA002")
    assert "this wait completes committed groups only" in [s.message for s in finding.steps]
    assert "commit_group" in finding.help


@pytest.mark.parametrize(
    ("directives", "size", "found"),
    [
        (".reqntid 128", "", [Confidence.HIGH]),
        ("", "", []),
        (".maxntid 128", "", [Confidence.MEDIUM]),
        (".maxntid 128", "mov.u32 %r5, %ntid.x;", []),  # it asks for its size, which may be smaller
    ],
)
def test_threads_that_may_not_be_there_copy_nothing(
    directives: str, size: str, found: list[Confidence]
) -> None:
    """The last 16 bytes of the tile are copied by thread 127 alone."""
    body = f"{size}\nst.shared.u32 [tile+2032], %r9;\n{COPY}\n{COMMIT}\nbar.sync 0;\nld.shared.u32 %r4, [tile+2032];"
    hits = by_rule(lint(text(body, directives=directives)), "CA001")
    assert [hit.confidence for hit in hits] == found


def test_what_overlaps_in_a_smaller_cta_too_is_certain() -> None:
    """The first 16 bytes are copied by thread 0, which every launch has."""
    body = f"{COPY}\n{COMMIT}\nbar.sync 0;\nld.shared.u32 %r4, [tile];"
    (hit,) = by_rule(lint(text(body, directives=".maxntid 128")), "CA001")
    assert hit.confidence is Confidence.HIGH


@pytest.mark.parametrize("rounds", [1, 3, 16])
def test_copies_in_a_loop_of_constant_trip_count_are_reported_where_they_are_read(rounds: int) -> None:
    """No path leaves in the first iteration, and the bytes that are read are copied in it."""
    loop = (
        "mov.u32 %r7, %r0;\nmov.u32 %r8, %r3;\nnext: cp.async.cg.shared.global [%r8], [%rd2], 16;\n"
        f"add.u32 %r7, %r7, 128;\nadd.u32 %r8, %r8, 2048;\nsetp.lt.u32 %p3, %r7, {128 * rounds};\n@%p3 bra next;"
    )
    for done, rule in (("", "CA001"), (wait(), "CA005")):
        body = f"{loop}\n{COMMIT}\n{done}\n{{}}\nld.shared.u32 %r4, [tile+1024];"
        assert by_rule(lint(text(body.format(""))), rule)
        assert not by_rule(lint(text(body.format(f"{wait()}\nbar.sync 0;"))), rule)


@pytest.mark.parametrize(("bound", "found"), [("%r9", Confidence.LOW), ("4096", Confidence.HIGH)])
def test_rounds_that_lead_out_of_an_array(bound: str, found: Confidence) -> None:
    """cuSOLVER copies parts of two arrays in each iteration; only more iterations than there are let the first reach the second."""
    body = f"""
    mov.u32 %r8, 0;
    more:
    add.s32 %r5, %r3, %r8;
    cp.async.cg.shared.global [%r5], [%rd2], 16;
    cp.async.cg.shared.global [%r5+2048], [%rd2+2048], 16;
    add.s32 %r8, %r8, 2048;
    setp.lt.s32 %p1, %r8, {bound};
    @%p1 bra more;
    cp.async.wait_all;"""
    (finding,) = by_rule(lint(text(body)), "CA003")
    assert finding.confidence is found


@pytest.mark.parametrize(
    ("mask", "found"), [("selp.b32 %r9, 0, %r9, %p1;", Confidence.LOW), ("", Confidence.HIGH)]
)
def test_a_copy_whose_mask_earlier_iterations_clear_may_not_be_in_flight_after_the_loop(
    mask: str, found: Confidence
) -> None:
    """CUTLASS clears the mask of the copies one iteration before the last; no wait follows the loop."""
    body = f"""
    more:
    setp.ne.b32 %p2, %r9, 0;
    @%p2 {COPY}
    {COMMIT}
    {wait(1)}
    bar.sync 0;
    add.s32 %r8, %r8, -1;
    setp.eq.s32 %p1, %r8, 0;
    {mask}
    setp.ge.s32 %p1, %r8, 0;
    @%p1 bra more;
    {READ}"""
    (finding,) = by_rule(lint(text(body)), "CA001")
    assert finding.confidence is found


def test_some_threads_are_misaligned_with_less_confidence() -> None:
    body = "mad.lo.u32 %r5, %r0, 24, %r1;\ncp.async.cg.shared.global [%r5], [%rd2], 16;\ncp.async.wait_all;"
    (finding,) = by_rule(lint(text(body)), "CA004")
    assert finding.confidence is Confidence.MEDIUM
    assert finding.message.startswith("cp.async.cg: dst is 8 bytes past a multiple of 16")


def test_a_copy_that_is_not_committed_may_be_fixed_by_a_commit_after_it() -> None:
    code = text(f"{COPY}\n{wait()}\n{READ}")
    (finding,) = by_rule(lint(code), "CA002")
    waited, committed = finding.fixes
    assert (waited.safe, committed.safe) == (True, False)
    (edit,) = committed.edits
    assert code[: edit.span.start].endswith(COPY)
    assert edit.text.strip() == COMMIT


def test_the_help_about_a_wait_before_later_commits_names_no_depth_that_is_there_already() -> None:
    more = f"{NEXT}\n{COMMIT}"
    (finding,) = by_rule(
        lint(text(f"{COPY}\n{COMMIT}\n{more}\n{wait(2)}\n{more}\n{READ}\n{wait()}")), "CA001"
    )
    assert finding.help == (
        "use cp.async.wait_group 1 or less there, or add cp.async.wait_group 2 or less before this instruction"
    )
    smaller, another = finding.fixes
    assert smaller.message == "wait for all but the newest group: cp.async.wait_group 1"
    assert another.message == "add cp.async.wait_all"


STAGES = """
    .shared .align 8 .b64 empty;
    mov.u32 %r5, %ntid.y;
    ld.global.u32 %r6, [%rd1];
    and.b32 %r6, %r6, 1;
    mad.lo.u32 %r6, %r6, 4096, %r3;
    mad.lo.u32 %r6, %r5, 16, %r6;
    ld.global.u32 %r7, [%rd1+4];
    mad.lo.u32 %r7, %r7, 16, %r3;
"""
STAGE = "cp.async.cg.shared.global [%r6], [%rd2], 16;"
OF_STAGE = "ld.shared.u32 %r4, [%r7];"
FREE = "free: mbarrier.try_wait.parity.shared.b64 %p1, [empty], 0;\n@!%p1 bra free;"


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (f"{STAGE}\nbar.sync 0;\n{OF_STAGE}", True),
        (f"{STAGE}\n{COMMIT}\n{OF_STAGE}", True),
        (f"{STAGE}\n{TRACK}\n{FREE}\n{OF_STAGE}", True),  # the wait is for another mbarrier
        (f"{STAGE}\n{TRACK}\n{PASS}\n{OF_STAGE}", False),
        (f"{STAGE}\n{COMMIT}\n{wait()}\nbar.sync 0;\n{OF_STAGE}", False),
        (f"{STAGE}\n{COMMIT}\ncall (), callee, ();\n{OF_STAGE}", False),
        (f"{STAGE}\nst.shared.u32 [tile], %r5;\n{OF_STAGE}", False),  # which may be what is read
        (f"{STAGE}\nst.shared.u32 [empty], %r5;\n{OF_STAGE}", True),
        (f"{STAGE}\nst.u32 [%rd1], %r5;\n{OF_STAGE}", False),
        (f"{STAGE}\nld.shared.u32 %r4, [empty];", False),
        (f"{OF_STAGE}\n{COMMIT}", False),
    ],
)
def test_what_only_a_copy_without_any_wait_writes_is_not_read(body: str, wrong: bool) -> None:
    """Neither the stage nor the words of each thread are known, but nothing else writes the array."""
    declared = ".extern .func callee ();\n"
    report = lint(module(declared, kernel(f"{START}\n{STAGES}\n{body}\nret;"), header=HEADER))
    assert [f.message.partition(",")[0] for f in by_rule(report, "CA001")] == (
        ["ld.shared reads shared memory that only a cp.async writes"] if wrong else []
    )


# ---------------------------------------------------------------- waits under guards


def counted(body: str, before: str = "") -> str:
    """The body in a loop whose counter %r8 goes from 0 to the parameter."""
    return f"""{before}
    mov.u32 %r8, 0;
LOOP:
    {body}
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p7, %r8, %r9;
    @%p7 bra LOOP;"""


def guarded(guard: str, *code: str) -> str:
    return "\n".join(f"@{guard} {line}" for line in code)


TESTS = """
    and.b32 %r10, %r9, 7;
    setp.eq.s32 %p1, %r9, 5;
    setp.ne.s32 %p2, %r9, 5;
    setp.lt.s32 %p3, %r10, 3;
    or.pred %p4, %p1, %p3;
    and.pred %p5, %p1, %p3;"""


@pytest.mark.parametrize(
    ("issue", "waits", "use", "safe"),
    [
        ("%p1", ["%p1"], "!%p0", True),
        ("%p1", ["!%p2"], "!%p0", True),
        ("%p1", ["%p2"], "!%p0", False),
        ("!%p0", ["%p2"], "!%p1", True),
        ("!%p0", ["%p2"], "%p1", False),
        ("%p5", ["%p1"], "!%p0", True),
        ("%p1", ["%p5"], "!%p0", False),
        ("%p4", ["%p1", "%p3"], "!%p0", True),
        ("%p4", ["%p1"], "!%p0", False),
        ("!%p0", ["%p1", "%p3"], "%p4", True),
        ("!%p0", ["%p1", "%p3"], "!%p0", False),
        ("!%p5", ["!%p1", "!%p3"], "!%p0", True),
    ],
)
def test_a_wait_under_a_guard_that_holds_wherever_it_matters(
    issue: str, waits: list[str], use: str, safe: bool
) -> None:
    code = [
        "setp.ne.b32 %p0, 0, 0;",
        TESTS,
        guarded(issue, COPY, COMMIT),
        *(guarded(guard, wait()) for guard in waits),
        guarded(use, READ),
    ]
    assert bool(by_rule(lint(text("\n".join(code))), "CA001")) is not safe


@pytest.mark.parametrize(
    ("body", "safe"),
    [
        (counted(f"setp.ne.s32 %p1, %r8, 0;\n@%p1 {wait()}\n{READ}\n{COPY}\n{COMMIT}"), True),
        (counted(f"setp.eq.s32 %p1, %r8, 0;\n@!%p1 {wait()}\n{READ}\n{COPY}\n{COMMIT}"), True),
        (counted(f"setp.gt.s32 %p1, %r8, 0;\n@%p1 {wait()}\n{READ}\n{COPY}\n{COMMIT}"), True),
        (counted(f"setp.eq.s32 %p1, %r8, 0;\n@%p1 {wait()}\n{READ}\n{COPY}\n{COMMIT}"), False),
        (counted(f"setp.ne.s32 %p1, %r8, 1;\n@%p1 {wait()}\n{READ}\n{COPY}\n{COMMIT}"), False),
        (
            counted(
                f"setp.ne.s32 %p1, %r10, 0;\n@%p1 {wait()}\n{READ}\nxor.b32 %r11, %r8, %r9;\n"
                f"setp.eq.s32 %p2, %r11, 6;\nselp.u32 %r10, 1, 0, %p2;\n@%p2 {COPY}\n@%p2 {COMMIT}",
                "mov.u32 %r10, 0;",
            ),
            True,
        ),
        (
            counted(
                f"setp.eq.s32 %p1, %r10, 0;\n@%p1 {wait()}\n{READ}\nxor.b32 %r11, %r8, %r9;\n"
                f"setp.eq.s32 %p2, %r11, 6;\nselp.u32 %r10, 1, 0, %p2;\n@%p2 {COPY}\n@%p2 {COMMIT}",
                "mov.u32 %r10, 0;",
            ),
            False,
        ),
    ],
)
def test_a_guard_has_the_value_of_its_iteration(body: str, safe: bool) -> None:
    assert bool(by_rule(lint(text(body)), "CA001")) is not safe


@pytest.mark.parametrize(("first", "certain"), [(0, False), (4, True)])
def test_a_counter_with_an_unknown_step_does_not_return_to_its_first_value(first: int, certain: bool) -> None:
    """nvcc unrolls ``for (i = 0; i < n; i += step) { if (i) wait; ... }``."""
    copy = f"{COPY}\n{COMMIT}"
    body = f"""
    ld.global.u32 %r12, [%rd1];
    mov.u32 %r8, 0;
LOOP:
    setp.eq.s32 %p1, %r8, {first};
    @%p1 bra FIRST;
    {wait()}
FIRST:
    {copy}
    add.s32 %r8, %r8, %r12;
    setp.ge.s32 %p2, %r8, %r9;
    @%p2 bra DONE;
    setp.eq.s32 %p3, %r8, {first};
    @%p3 bra SECOND;
    {wait()}
SECOND:
    {AGAIN}
    {COMMIT}
    add.s32 %r8, %r8, %r12;
    setp.lt.s32 %p4, %r8, %r9;
    @%p4 bra LOOP;
DONE:
    {wait()}"""
    confidences = {finding.confidence for finding in by_rule(lint(text(body)), "CA003")}
    assert (Confidence.HIGH in confidences) is certain


@pytest.mark.parametrize(
    ("read", "ordered", "found"),
    [
        ("xor.b32 %r6, %r0, 127;", wait(), {"CA005"}),  # an element that another warp copied
        ("xor.b32 %r6, %r0, 127;", f"{wait()}\nbar.sync 0;", set()),
        ("xor.b32 %r6, %r0, 127;", f"{wait(1)}\nbar.sync 0;", {"CA001"}),
        ("xor.b32 %r6, %r0, 31;", wait(), set()),  # one of its own warp
    ],
)
def test_what_other_warps_copied_is_found_in_ctas_of_unknown_size(
    read: str, ordered: str, found: set[str]
) -> None:
    body = f"""{COPY}\n{COMMIT}\n{ordered}
    {read}
    shl.b32 %r6, %r6, 4;
    mov.u32 %r7, tile;
    add.u32 %r7, %r7, %r6;
    ld.shared.u32 %r4, [%r7];
    st.global.u32 [%rd2], %r4;"""
    assert {f.rule.id for f in lint(text(body, directives="")).findings} & {"CA001", "CA005"} == found


@pytest.mark.parametrize(
    ("after", "end"),
    [
        ((COMMIT,), "no wait follows"),
        ((COMMIT, wait()), ""),
        ((COMMIT, "cp.async.wait_all;"), ""),
        (("cp.async.wait_all;",), ""),
        ((COMMIT, wait(1)), "no later wait covers it"),
        ((wait(), COMMIT), "no later wait covers it"),
        # A thread that waits for the mbarrier knows that the copy is complete.
        ((TRACK,), ""),
        # What reads the bytes is the defect.
        ((READ,), "reads shared memory"),
    ],
)
def test_by_the_letter_a_copy_is_complete_before_its_thread_ends(after: tuple[str, ...], end: str) -> None:
    """Shared memory lives as long as the CTA."""
    source = text("\n".join((COPY, *after)))
    messages = [f.message for f in by_rule(lint(source, selected=Selected(strict=True)), "CA001")]
    assert [end in message for message in messages] == ([True] if end else [])
    default = [f.message for f in by_rule(lint(source), "CA001")]
    assert default == [one for one in messages if "may end" not in one]
