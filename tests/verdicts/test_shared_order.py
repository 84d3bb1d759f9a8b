"""What is proved of accesses of different threads to shared memory: CTA barriers order them, or they are apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.values.addresses import Addresses
from tclint.verdicts import shared_order, verdicts
from tclint.verdicts.across_threads import AcrossThreads, elements_apart
from tclint.verdicts.checker import Refused
from tclint.verdicts.epochs import AccessPair, OrderCertificate, Walk, check
from tclint.verdicts.shared_order import SharedOrder
from tests.tools.support import kernel, last_kernel, loop

ALL = frozenset(Assumption)
SHARED = """.shared .align 16 .b8 one[4096];
.shared .align 16 .b8 two[4096];
.extern .shared .align 16 .b8 dynamic[];
.extern .shared .align 16 .b8 alias[];
.const .b32 constants[4];
.extern .func __assertfail();
.func reads()
{
.reg .b32 %r;
ld.shared.b32 %r, [one];
ret;
}"""
START = """ld.param.u64 %rd1, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, one;
add.s32 %r4, %r3, %r2;
shl.b32 %r5, %r1, 4;
add.s32 %r6, %r3, %r5;
setp.eq.s32 %p1, %r1, 0;
setp.lt.s32 %p2, %r1, 32;
setp.eq.s32 %p3, %r9, 0;"""
STORE = "st.shared.b32 [%r4], %r9;"
LOAD = "ld.shared.b32 %r50, [%r4];"
OTHER = "ld.shared.b32 %r51, [%r4+4];"
BARRIER = "bar.sync 0;"


def shared(body: str, assume: frozenset[Assumption] = ALL, size: str = ".reqntid 128") -> Verdict:
    model = last_kernel(SHARED, kernel(f"{START}\n{body}\nret;", directives=size))
    (found,) = verdicts(model, assume=assume, only=[HazardClass.SHARED_MEMORY])
    return found


def skipped(condition: str, body: str, label: str = "over") -> str:
    return f"@{condition} bra {label};\n{body}\n{label}:"


def matrices(number: int, mask: int) -> str:
    """Matrices that each warp stores in a place of its own, where the bits *mask* of the lane number select the row."""
    values = ", ".join(["%r20"] * number)
    return (
        f"and.b32 %r11, %r1, {32 * 3 | mask};\nshl.b32 %r11, %r11, 4;\nadd.s32 %r12, %r3, %r11;\n"
        f"stmatrix.sync.aligned.m8n8.x{number}.shared.b16 [%r12], {{{values}}};"
    )


def rows(count: int) -> str:
    """A row of each of *count* iterations, and a read of the row after the fourth, one word further."""
    row = "shl.b32 %r11, %r10, 9;\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;"
    return f"{loop(row, str(count))}\nld.shared.b32 %r50, [%r4+2052];"


REDUCTION = f"""{STORE}
{BARRIER}
setp.ge.s32 %p6, %r1, 64;
@%p6 bra a;
ld.shared.b32 %r20, [%r4];
ld.shared.b32 %r21, [%r4+256];
add.s32 %r20, %r20, %r21;
st.shared.b32 [%r4], %r20;
a:
{BARRIER}
setp.ge.s32 %p7, %r1, 32;
@%p7 bra b;
ld.shared.b32 %r20, [%r4];
ld.shared.b32 %r21, [%r4+128];
add.s32 %r20, %r20, %r21;
st.shared.b32 [%r4], %r20;
b:"""
STAGE = f"""and.b32 %r11, %r10, 1;
shl.b32 %r12, %r11, 9;
add.s32 %r13, %r4, %r12;
st.shared.b32 [%r13], %r9;
{BARRIER}
xor.b32 %r14, %r2, 64;
add.s32 %r15, %r3, %r14;
add.s32 %r15, %r15, %r12;
ld.shared.b32 %r50, [%r15];"""
"""Each thread reads what another one has stored in the stage of the iteration."""
FLIPPED = f"""add.s32 %r13, %r4, %r14;
st.shared.b32 [%r13], %r9;
{BARRIER}
add.s32 %r15, %r3, %r14;
ld.shared.b32 %r50, [%r15];
xor.b32 %r14, %r14, 512;"""
WRAPPED = f"""mul.lo.s32 %r12, %r14, 512;
add.s32 %r13, %r4, %r12;
st.shared.b32 [%r13], %r9;
{BARRIER}
add.s32 %r15, %r3, %r12;
ld.shared.b32 %r50, [%r15];
add.s32 %r16, %r14, 1;
setp.eq.s32 %p6, %r16, 3;
selp.b32 %r14, 0, %r16, %p6;"""
HALVES = f"""{STORE}
mov.b32 %r14, 64;
{BARRIER}
again:
setp.ge.u32 %p6, %r1, %r14;
@%p6 bra over;
shl.b32 %r15, %r14, 2;
add.s32 %r16, %r4, %r15;
ld.shared.b32 %r20, [%r16];
ld.shared.b32 %r21, [%r4];
add.s32 %r20, %r20, %r21;
st.shared.b32 [%r4], %r20;
over:
{BARRIER}
shr.u32 %r14, %r14, 1;
setp.ne.s32 %p7, %r14, 0;
@%p7 bra again;"""
FLAG = f"""@%p1 st.shared.b32 [two], %r9;
{BARRIER}
ld.shared.b32 %r30, [two];
setp.lt.s32 %p6, %r30, 7;
@%p6 bra done;
{STORE}
{BARRIER}
{OTHER}
done:"""
"""One thread says whether all exchange their words."""
BOUNDED = """setp.ge.s32 %p6, %r1, %r9;
@%p6 bra over;
shl.b32 %r15, %r9, 2;
add.s32 %r16, %r4, %r15;
ld.shared.b32 %r20, [%r16];
st.shared.b32 [%r4], %r20;
over:"""
"""The threads below a parameter read what is as far from their own words, which they write."""
EXCHANGE = f"""{STORE}
bar.warp.sync -1;
xor.b32 %r12, %r2, 64;
add.s32 %r12, %r12, %r3;
ld.shared.b32 %r50, [%r12];"""
PREVIOUS = f"""@%p6 bra over;
shl.b32 %r15, %r14, 2;
add.s32 %r16, %r4, %r15;
ld.shared.b32 %r20, [%r16];
st.shared.b32 [%r4], %r20;
over:
{BARRIER}
setp.ge.s32 %p6, %r1, %r14;
shr.s32 %r14, %r14, 1;"""
ARRIVE, WAIT = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"
CLUSTER = f"{ARRIVE}\n{WAIT}"
PROVED = {
    "a word of each thread": f"{STORE}\n{LOAD}",
    "a neighbour after a barrier": f"{STORE}\n{BARRIER}\n{OTHER}",
    "a neighbour in a loop with two barriers": loop(f"{STORE}\n{BARRIER}\n{OTHER}\n{BARRIER}"),
    "one thread writes, all read": f"@%p1 st.shared.b32 [one], %r9;\n{BARRIER}\nld.shared.b32 %r50, [one];",
    "one thread alone": skipped("!%p1", "st.shared.b32 [one], %r9;\nld.shared.b32 %r50, [one];"),
    "a count in the state of an mbarrier": f"mbarrier.pending_count.b64 %r50, %rd1;\n{STORE}",
    "a buffer beside an mbarrier": (
        f"@%p1 mbarrier.init.shared.b64 [two], 128;\n{STORE}\n{BARRIER}\nmbarrier.arrive.shared.b64 %rd5, [two];\n{OTHER}"
    ),
    "an mbarrier alone": "@%p1 mbarrier.init.shared.b64 [two], 128;\nmbarrier.arrive.shared.b64 %rd5, [two];",
    "the bytes of an mbarrier after its end": f"@%p1 mbarrier.inval.shared.b64 [two];\n{BARRIER}\n@%p1 st.shared.b32 [two], 1;",
    "two variables": f"{STORE}\nld.shared.b32 %r50, [two+16];",
    "vectors of each thread": "st.shared.v4.b32 [%r6], {%r9, %r9, %r9, %r9};\nld.shared.b32 %r50, [%r6+12];",
    "a reduction": REDUCTION,
    "stages of a counter that threads end with different values": (
        f"{loop('', '%r1')}\nshl.b32 %r11, %r10, 9;\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;"
    ),
    "one iteration in each epoch": loop(
        f"shl.b32 %r11, %r10, 2;\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;\n{BARRIER}"
    ),
    "atomic operations": "atom.shared.add.u32 %r50, [one], 1;\nred.shared.add.u32 [one], 1;",
    "a stride of the CTA": loop(
        "shl.b32 %r11, %r10, 2;\nadd.s32 %r12, %r3, %r11;\nst.shared.b32 [%r12], %r9;", "1024", "%r1", "128"
    ),
    "a row of each iteration": loop(
        "shl.b32 %r11, %r10, 9;\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;\nld.shared.b32 %r50, [%r12];"
    ),
    "the row after the last iteration": rows(4),
    "a barrier under a parameter": skipped("%p3", f"{STORE}\n{BARRIER}\n{OTHER}"),
    "a barrier that reduces": f"{STORE}\nbar.red.or.pred %p9, 0, %p1;\n{OTHER}",
    "a barrier that counts all": f"{STORE}\nbar.sync 3, 128;\n{OTHER}",
    "an unaligned barrier": f"{STORE}\nbarrier.sync 1;\n{OTHER}",
    "a copy waited for before the barrier": (
        f"cp.async.ca.shared.global [%r4], [%rd1], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\n{BARRIER}\n{OTHER}"
    ),
    "only reads": f"{LOAD}\n{OTHER}",
    "rows written, then read after a barrier": (
        f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r6], {{%r20, %r21, %r22, %r23}};\n{BARRIER}\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r6];"
    ),
    "one matrix whose rows the first lanes name": matrices(1, 7),
    "two matrices whose rows the first lanes name": matrices(2, 15),
    "four matrices whose rows all lanes name": matrices(4, 31),
    "one matrix, and what other lanes name without effect": f"{matrices(1, 7)}\nld.shared.b32 %r50, [%r12+128];",
    "one thread, if a parameter says so": "and.pred %p6, %p1, %p3;\n@%p6 st.shared.b32 [one], %r9;",
    "one thread, unless a loaded word says otherwise": (
        "ld.global.b32 %r40, [%rd1];\nsetp.eq.s32 %p6, %r40, 0;\nnot.pred %p7, %p1;\nor.pred %p6, %p6, %p7;\n"
        + skipped("%p6", "st.shared.b32 [one], %r9;")
    ),
    "a system call": f"{STORE}\ncall __assertfail;",
    "stages by the parity of an iteration": loop(STAGE),
    "stages by a bit that is flipped": f"mov.b32 %r14, 512;\n{loop(FLIPPED)}",
    "stages that wrap": f"mov.b32 %r14, 0;\n{loop(WRAPPED)}",
    "half of the distance": HALVES,
    "a flag that all read": FLAG,
    "a flag in a loop": loop(f"{FLAG.replace('done', 'end')}\n{BARRIER}"),
    "a distance that is a parameter": BOUNDED,
    "a distance that is a parameter, counted down": BOUNDED.replace(
        "setp.ge.s32 %p6, %r1, %r9;", "sub.s32 %r18, %r9, 1;\nsetp.lt.s32 %p6, %r18, %r1;"
    ),
    "threads from a parameter on": (
        "setp.lt.s32 %p6, %r1, %r9;\n@!%p6 st.shared.b32 [%r4], %r9;\nshl.b32 %r15, %r9, 2;\nadd.s32 %r16, %r3, %r15;\n"
        "ld.shared.b32 %r20, [%r16+-4];"
    ),
    "half of an unknown distance": HALVES.replace(
        "mov.b32 %r14, 64;", "mov.u32 %r14, %ntid.x;\nshr.u32 %r14, %r14, 1;"
    ),
    "an exchange in each warp": EXCHANGE,
    "an exchange in each warp, in a loop": loop(f"{EXCHANGE}\nbar.warp.sync -1;"),
    "an exchange in one warp": skipped("!%p2", EXCHANGE),
    "an exchange in each warp after one in the CTA": f"{STORE}\n{BARRIER}\n{OTHER}\n{BARRIER}\n{EXCHANGE}",
    "an exchange in each warp by stages": loop(
        STAGE.replace(BARRIER, "bar.warp.sync -1;").replace("64;", "16;")
    ),
    "a cluster barrier": f"{STORE}\n{CLUSTER}\n{OTHER}",
    "a cluster barrier in a loop": loop(f"{STORE}\n{CLUSTER}\n{OTHER}\n{CLUSTER}"),
    "an unaligned cluster barrier": f"{STORE}\n{CLUSTER.replace('.aligned', '')}\n{OTHER}",
}
UNKNOWN = {
    "a neighbour without a barrier": f"{STORE}\n{OTHER}",
    "a neighbour read before": f"{OTHER}\n{STORE}",
    "all write one word": "st.shared.b32 [one], %r9;",
    "a back edge without a barrier": loop(f"{STORE}\n{BARRIER}\n{OTHER}"),
    "a back edge around the barrier": loop(f"{OTHER}\n{skipped('%p3', BARRIER)}\n{STORE}"),
    "a barrier of some warps": f"{STORE}\n{skipped('%p2', BARRIER)}\n{OTHER}",
    "a barrier on one path": f"{STORE}\n{skipped('%p3', BARRIER)}\n{OTHER}",
    "a guarded barrier": f"{STORE}\n@%p3 {BARRIER}\n{OTHER}",
    "a barrier under loaded data": (
        f"ld.global.b32 %r40, [%rd1];\nsetp.eq.s32 %p6, %r40, 0;\n{STORE}\n{skipped('%p6', BARRIER)}\n{OTHER}"
    ),
    "a barrier in a loop of loaded data": (
        f"ld.volatile.global.b32 %r40, [%rd1];\n{loop(f'{STORE}{BARRIER}{OTHER}{BARRIER}', '%r40')}"
    ),
    "a barrier of half the CTA": f"{STORE}\nbar.sync 0, 64;\n{OTHER}",
    "an arrival": f"{STORE}\nbar.arrive 0, 128;\n{OTHER}",
    "a barrier at which others arrive": f"{STORE}\n{skipped('!%p2', 'bar.arrive 0, 128;')}\n{BARRIER}\n{OTHER}",
    "another barrier of an unknown number": f"{STORE}\n{BARRIER}\n{OTHER}\nbar.sync %r9;",
    "a barrier of the warp": f"{STORE}\nbar.warp.sync -1;\n{OTHER}",
    "a warp in step": f"@%p2 {STORE}\n@%p2 {OTHER}",
    "some threads exit": f"@%p2 exit;\n{STORE}\n{BARRIER}\n{OTHER}",
    "a vector into the next thread's word": "st.shared.v2.b32 [%r4], {%r9, %r9};",
    "a type wider than the stride": "st.shared.b64 [%r4], %rd1;",
    "half the slots": "shr.u32 %r11, %r5, 3;\nadd.s32 %r11, %r11, %r3;\nst.shared.b16 [%r11], %h1;\nst.shared.b32 [%r11], %r9;",
    "a parameter as offset": f"add.s32 %r11, %r4, %r9;\nst.shared.b32 [%r11], %r9;\n{LOAD}",
    "half the bits of an offset": "shl.b32 %r11, %r1, 20;\nmul24.lo.u32 %r12, %r11, 4;\nadd.s32 %r12, %r3, %r12;\nst.shared.b32 [%r12], %r1;",
    "the word before, by a constant that wraps": (
        f"{STORE}\nmul.wide.s32 %rd5, %r1, 4;\ncvt.u64.u32 %rd6, %r3;\nadd.s64 %rd6, %rd6, %rd5;\n"
        "add.s64 %rd6, %rd6, 4294967292;\ncvt.u32.u64 %r12, %rd6;\nld.shared.b32 %r50, [%r12];"
    ),
    "a loaded offset": "ld.global.b32 %r11, [%rd1];\nadd.s32 %r12, %r3, %r11;\nst.shared.b32 [%r12], %r9;",
    "an offset loaded from constants": (
        f"ld.const.b32 %r11, [constants];\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;\n{LOAD}"
    ),
    "two names of the dynamic memory": "mov.u32 %r11, dynamic;\nadd.s32 %r11, %r11, %r2;\nst.shared.b32 [%r11], %r9;\nld.shared.b32 %r50, [alias+4];",
    "past the end of a variable": f"{STORE}\nld.shared.b32 %r50, [two+-3584];",
    "a dynamic address below its beginning": f"{STORE}\nld.shared.b32 %r50, [dynamic+-4];",
    "a generic address": "st.b32 [%rd9], %r9;\nld.shared.b32 %r50, [one];",
    "a converted address": f"cvta.shared.u32 %r11, %r3;\nst.b32 [%r11], %r9;\n{LOAD}",
    "an atomic operation and a load": "atom.shared.add.u32 %r50, [one], 1;\nld.shared.b32 %r51, [one];",
    "atomic operations of two sizes": "atom.shared.add.u32 %r50, [one], 1;\natom.shared.add.u64 %rd5, [one], %rd1;",
    "volatile accesses": "st.volatile.shared.b32 [one], %r9;\nld.volatile.shared.b32 %r50, [one];",
    "a call": f"{STORE}\ncall reads;",
    "a copy not waited for before the barrier": (
        f"cp.async.ca.shared.global [%r4], [%rd1], 4;\ncp.async.commit_group;\n{BARRIER}\ncp.async.wait_group 0;\n{OTHER}"
    ),
    "a copy over what is read": f"{OTHER}\ncp.async.ca.shared.global [%r4], [%rd1], 4;",
    "rows of the warp read by another lane": (
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r6], {%r20, %r21, %r22, %r23};\nld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r6];"
    ),
    "one thread, or a parameter says so": "or.pred %p6, %p1, %p3;\n@%p6 st.shared.b32 [one], %r9;",
    "not one thread, or a parameter says so": "and.pred %p6, %p1, %p3;\n@!%p6 st.shared.b32 [one], %r9;",
    "one thread, unless both are so": (
        "ld.global.b32 %r40, [%rd1];\nsetp.eq.s32 %p6, %r40, 0;\nnot.pred %p7, %p1;\nand.pred %p6, %p6, %p7;\n"
        + skipped("%p6", "st.shared.b32 [one], %r9;")
    ),
    "one thread, or else a parameter says so": "xor.pred %p6, %p1, %p3;\n@%p6 st.shared.b32 [one], %r9;",
    "one warp, if a parameter says so": "and.pred %p6, %p2, %p3;\n@%p6 st.shared.b32 [one], %r1;",
    "one matrix whose rows are named by a bit too few": matrices(1, 3),
    "two matrices whose rows are named by a bit too few": matrices(2, 7),
    "four matrices whose rows are named by a bit too few": matrices(4, 15),
    "one matrix in a place for all warps": matrices(1, 7).replace("103;", "7;"),
    "two matrices, and the second one read by another lane": f"{matrices(2, 15)}\nld.shared.b32 %r50, [%r12+128];",
    "one matrix, read by another lane": f"{matrices(1, 7)}\nld.shared.b32 %r50, [%r12];",
    "stages by the parity of an iteration, one barrier less": loop(
        "and.b32 %r11, %r10, 1;\nshl.b32 %r12, %r11, 9;\nadd.s32 %r13, %r4, %r12;\nst.shared.b32 [%r13], %r9;\nld.shared.b32 %r50, [%r13+4];"
    ),
    "stages by the parity of an iteration, a word further": loop(
        f"and.b32 %r11, %r10, 1;\nshl.b32 %r12, %r11, 9;\nadd.s32 %r13, %r4, %r12;\nst.shared.b32 [%r13], %r9;\n{BARRIER}\nld.shared.b32 %r50, [%r13+4];"
    ),
    "an address that the previous iteration computed": loop(
        f"setp.eq.s32 %p6, %r10, 0;\n@%p6 bra first;\nld.shared.b32 %r50, [%r13+4];\nfirst:\nshl.b32 %r12, %r10, 9;\n"
        f"add.s32 %r13, %r4, %r12;\nst.shared.b32 [%r13+-512], %r9;\n{BARRIER}"
    ),
    "a flag before the barrier": FLAG.replace(BARRIER, "", 1),
    "a flag that is cleared meanwhile": FLAG.replace("setp.lt", "@%p1 st.shared.b32 [two], 0;\nsetp.lt"),
    "a flag in a loop, one barrier short": loop(FLAG.replace("done", "end")),
    "a flag of each thread": FLAG.replace("%r30, [two]", "%r30, [%r2+2048]"),
    "a flag that is taken": FLAG.replace("ld.shared.b32 %r30, [two]", "atom.shared.add.u32 %r30, [two], 1"),
    "a flag at a generic address": FLAG.replace("@%p6", "st.b32 [%rd9], 0;\n@%p6"),
    "a distance that is a parameter, and one thread more": BOUNDED.replace("ge.s32", "gt.s32"),
    "a distance that is a parameter, a word less": BOUNDED.replace("[%r16];", "[%r16+-4];"),
    "a distance that is a parameter, for other threads": BOUNDED.replace("ge.s32", "lt.s32"),
    "a distance that is a parameter, read as unsigned": BOUNDED.replace("ge.s32", "ge.u32"),
    "a distance that is half a parameter": BOUNDED.replace("shl.b32 %r15, %r9, 2", "shl.b32 %r15, %r9, 1"),
    "a distance that other threads reach too": BOUNDED.replace(
        "@%p6 bra over;", "@%p3 bra into;\n@%p6 bra over;\ninto:"
    ),
    "a distance that is halved after the comparison": HALVES.replace(
        "mov.b32 %r14, 64;", "mov.u32 %r14, %ntid.x;"
    ).replace("@%p6 bra over;", "shr.u32 %r14, %r14, 1;\n@%p6 bra over;"),
    "a distance that was compared in the previous iteration": (
        f"mov.b32 %r14, %r9;\nsetp.ge.s32 %p6, %r1, %r14;\n{loop(PREVIOUS)}"
    ),
    "an exchange between warps": EXCHANGE.replace("64;", "128;"),
    "an exchange in each warp without a barrier": EXCHANGE.replace("bar.warp.sync -1;", ""),
    "an exchange in each warp, one barrier short": loop(EXCHANGE),
    "an exchange in half of each warp": EXCHANGE.replace("-1;", "0xffff;"),
    "an exchange in half of one warp": f"setp.lt.s32 %p9, %r1, 16;\n{skipped('!%p9', EXCHANGE.replace('64;', '32;'))}",
    "an exchange in each warp, and one with another": f"{EXCHANGE}\nxor.b32 %r12, %r4, 128;\nst.shared.b32 [%r12], %r9;",
    "an exchange in each warp by stages, one of which is missing": loop(
        STAGE.replace(BARRIER, "bar.warp.sync -1;").replace("64;", "16;").replace("%r10, 1", "%r10, 2")
    ),
    "a cluster barrier with a read before the wait": f"{STORE}\n{ARRIVE}\n{OTHER}\n{WAIT}",
    "a cluster barrier with a store after the arrival": f"{ARRIVE}\n{STORE}\n{WAIT}\n{OTHER}",
    "a relaxed arrival at a cluster barrier": f"{STORE}\n{ARRIVE.replace('.aligned', '.relaxed.aligned')}\n{WAIT}\n{OTHER}",
    "a cluster barrier of some threads": f"{STORE}\n{skipped('%p2', CLUSTER)}\n{OTHER}",
    "a cluster barrier of some CTAs": f"mov.u32 %r30, %cluster_ctarank;\nsetp.eq.u32 %p9, %r30, 0;\n{STORE}\n{skipped('%p9', CLUSTER)}\n{OTHER}",
    "a cluster barrier beside one of some threads": f"{STORE}\n{CLUSTER}\n{OTHER}\n{skipped('%p2', CLUSTER)}",
    "a guarded arrival at a cluster barrier": f"{STORE}\n@%p3 {ARRIVE}\n{WAIT}\n{OTHER}",
    "a wait for a cluster barrier alone": f"{STORE}\n{WAIT}\n{OTHER}",
    "two arrivals at a cluster barrier": f"{STORE}\n{ARRIVE}\n{ARRIVE}\n{WAIT}\n{OTHER}",
    "a copy waited for between arrival and wait": (
        f"cp.async.ca.shared.global [%r4], [%rd1], 4;\ncp.async.commit_group;\n{ARRIVE}\ncp.async.wait_group 0;\n{WAIT}\n{OTHER}"
    ),
    "stages by the parity of an iteration without a barrier": loop(STAGE.replace(BARRIER, "")),
    "stages of half the size": loop(STAGE.replace("shl.b32 %r12, %r11, 9", "shl.b32 %r12, %r11, 8")),
    "stages by the second bit of an iteration": loop(
        STAGE.replace("%r10, 1;", "%r10, 2;").replace(", 9;", ", 8;")
    ),
    "stages of a counter that grows by two": loop(STAGE, step="2"),
    "stages by a bit that is not flipped": f"mov.b32 %r14, 512;\n{loop(FLIPPED.replace('%r14, %r14, 512', '%r14, %r14, 0'))}",
    "stages of which one is left out": f"mov.b32 %r14, 0;\n{loop(WRAPPED.replace('%r16, 3', '%r16, 1'))}",
    "half of the distance, and one thread more": HALVES.replace("setp.ge.u32", "setp.gt.u32"),
    "half of the distance, a word less": HALVES.replace("[%r16];", "[%r16+-4];"),
    "half of the distance without a barrier": HALVES.replace(f"over:\n{BARRIER}", "over:"),
    "a third of the distance": HALVES.replace("mov.b32 %r14, 64", "mov.b32 %r14, 96").replace(
        "shl.b32 %r15, %r14, 2", "shl.b32 %r15, %r14, 1"
    ),
    "a stride smaller than the CTA": loop(
        "shl.b32 %r11, %r10, 2;\nadd.s32 %r12, %r3, %r11;\nst.shared.b32 [%r12], %r9;", "1024", "%r1", "64"
    ),
    "a row of each iteration that overlaps the next": loop(
        "shl.b32 %r11, %r10, 8;\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;"
    ),
    "the row of the last iteration": rows(5),
    "an elected lane": "elect.sync _|%p6, -1;\n@%p6 st.shared.b32 [one], %r9;\n@%p6 ld.shared.b32 %r50, [one];",
    "a reduction one barrier short": REDUCTION.replace(f"a:\n{BARRIER}", "a:"),
    "a reduction with a wrong offset": REDUCTION.replace("%r4+256", "%r4+252"),
    "a cluster address": "st.shared::cluster.b32 [%r4], %r9;",
    "an mbarrier that copies signal": f"cp.async.mbarrier.arrive.shared.b64 [two];\n{STORE}",
    "the bytes of an mbarrier": "@%p1 mbarrier.init.shared.b64 [two], 1;\nld.shared.b32 %r50, [two+4];",
    "the bytes of an mbarrier after a wait": f"@%p1 mbarrier.inval.shared.b64 [two];\n{BARRIER}\n@%p1 st.shared.b32 [two], 1;\nmbarrier.test_wait.shared.b64 %p9, [two], %rd1;",
    "a buffer that an mbarrier alone guards": f"{STORE}\nmbarrier.arrive.shared.b64 %rd5, [two];\nmbarrier.test_wait.shared.b64 %p9, [two], %rd5;\n{OTHER}",
    "an mbarrier at a generic address": f"mbarrier.arrive.b64 %rd5, [%rd1];\n{STORE}",
    "the async proxy": f"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 1024;\n{STORE}",
    "a value selected by a divergent branch": (
        f"mov.b32 %r11, 0;\n{skipped('%p1', 'mov.b32 %r11, 4;')}\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;"
    ),
    "a value selected by loaded data": (
        f"ld.volatile.global.b32 %r40, [%rd1];\nsetp.eq.s32 %p6, %r40, 0;\nmov.b32 %r11, 0;\n{skipped('%p6', 'mov.b32 %r11, 4;')}\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;"
    ),
    "the warp that moves": "mov.u32 %r11, %warpid;\nshl.b32 %r11, %r11, 2;\nadd.s32 %r12, %r3, %r11;\nst.shared.b32 [%r12], %r9;",
    "the dynamic memory and a static variable": f"{STORE}\nadd.s32 %r11, %r4, 8192;\nst.shared.b32 [%r11], %r9;\nst.shared.b32 [dynamic], %r9;",
}


@pytest.mark.parametrize("name", PROVED)
def test_accesses_that_are_ordered_or_apart_are_proved(name: str) -> None:
    found = shared(PROVED[name])
    assert found.status is Status.PROVED, found.reasons


@pytest.mark.parametrize("name", UNKNOWN)
def test_accesses_that_may_race_are_unknown(name: str) -> None:
    assert shared(UNKNOWN[name]).status is Status.UNKNOWN


def test_what_discharges_each_pair_is_named() -> None:
    found = {name: {o.discharge for o in shared(PROVED[name]).obligations} for name in PROVED}
    assert found["a word of each thread"] == {Discharge.DISJOINT}
    assert found["one thread writes, all read"] == {Discharge.DISJOINT, Discharge.BARRIER}
    assert found["atomic operations"] == {Discharge.ATOMIC}
    assert found["only reads"] == set()


def test_a_comparison_of_addresses_names_what_it_assumes() -> None:
    needed = {Assumption.NO_OVERFLOW, Assumption.THREADS}
    found = shared(PROVED["a word of each thread"])
    assert set(found.assumptions) == needed
    for each in needed:
        assert shared(PROVED["a word of each thread"], ALL - {each}).status is Status.UNKNOWN
    unstated = shared(PROVED["a word of each thread"], size="")
    assert set(unstated.assumptions) == needed | {Assumption.SHAPE}
    assert not shared(PROVED["atomic operations"], frozenset()).reasons


def test_threads_in_two_dimensions_have_the_index_that_the_shape_gives_them() -> None:
    body = (
        "mov.u32 %r11, %tid.y;\nshl.b32 %r11, %r11, 7;\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;"
    )
    assert shared(body, size=".reqntid 32, 4").status is Status.PROVED
    assert shared(body.replace("7;", "6;"), size=".reqntid 32, 4").status is Status.UNKNOWN
    assert shared(STORE, size=".reqntid 32, 4").status is Status.UNKNOWN
    assert shared(STORE, size=".maxntid 32, 4").status is Status.UNKNOWN
    assert shared(STORE, size=".maxntid 128, 1, 1").status is Status.PROVED
    assert shared(body, size="").status is Status.UNKNOWN


TILE = """mov.u32 %r11, %tid.y;
mov.u32 %r12, %ntid.x;
mad.lo.s32 %r13, %r11, %r12, %r1;
shl.b32 %r14, %r13, 2;
add.s32 %r15, %r3, %r14;
st.shared.b32 [%r15], %r11;
ld.shared.b32 %r50, [%r15];"""
"""Each thread of a CTA of two dimensions has a word. The index in y is stored too, so it is not the number alone that counts."""


def test_threads_in_two_dimensions_have_a_number_in_a_shape_that_is_not_known() -> None:
    found = shared(TILE, size="")
    assert found.status is Status.PROVED
    assert Assumption.SHAPE in found.assumptions
    assert shared(TILE, ALL - {Assumption.SHAPE}, size="").status is Status.UNKNOWN
    for old, new in (
        ("%r13, %r11, %r12, %r1;", "%r13, %r11, 16, %r1;"),
        ("%r13, %r11, %r12, %r1;", "%r13, %r1, %r12, %r11;"),
        ("%ntid.x", "%ntid.y"),
        ("%r14, %r13, 2;", "%r14, %r13, 1;"),
        ("ld.shared.b32 %r50, [%r15]", "ld.shared.b32 %r50, [%r15+4]"),
        ("ld.shared.b32 %r50, [%r15]", "ld.shared.b64 %rd5, [%r15]"),
        ("st.shared.b32 [%r15], %r11", "st.shared.b32 [%r15+-4], %r11"),
        ("st.shared.b32 [%r15]", "mov.u32 %r20, %tid.z;\nst.shared.b32 [%r15]"),
        ("%r3, %r14;", "%r14, %r20;\nld.global.b32 %r20, [%rd1];\nadd.s32 %r15, %r15, %r20;"),
    ):
        assert old in TILE
        assert shared(TILE.replace(old, new), size="").status is Status.UNKNOWN, new


def test_elements_are_apart_as_an_enumeration_has_it() -> None:
    for element, size, distance, other in product(range(1, 7), range(1, 7), range(-7, 8), range(1, 7)):
        one = set(range(size))
        others = (
            set(range(k * element + distance, k * element + distance + other)) for k in (-3, -2, -1, 1, 2, 3)
        )
        apart = all(one.isdisjoint(each) for each in others)
        if elements_apart(element, size, distance, other):
            assert apart, (element, size, distance, other)
    assert elements_apart(4, 4, 0, 4)


def test_a_barrier_of_the_warp_is_one_of_all_threads_in_a_cta_of_one_warp() -> None:
    warp = f"{STORE}\nbar.warp.sync -1;\n{OTHER}"
    assert shared(warp, size=".reqntid 32").status is Status.PROVED
    assert shared(loop(f"{warp}\nbar.warp.sync -1;"), size=".reqntid 32").status is Status.PROVED
    assert shared(loop(warp), size=".reqntid 32").status is Status.UNKNOWN
    assert shared(warp.replace("-1", "0xffff"), size=".reqntid 32").status is Status.UNKNOWN
    assert shared(warp, size=".reqntid 64").status is Status.UNKNOWN
    assert shared(warp, size=".reqntid 16").status is Status.UNKNOWN
    assert Assumption.SHAPE in shared(warp, size=".maxntid 32").assumptions
    assert shared(warp, ALL - {Assumption.SHAPE}, size=".maxntid 32").status is Status.UNKNOWN
    assert (
        shared(f"{STORE}\n{skipped('%p1', 'bar.warp.sync -1;')}\n{OTHER}", size=".reqntid 32").status
        is Status.UNKNOWN
    )


GIVEN = {
    "a parameter": "mad.wide.u32 %rd5, %r1, 4, %rd1;",
    "read-only memory": "ld.global.nc.b64 %rd5, [%rd1];",
    "memory that the kernel does not write": "ld.global.b64 %rd5, [%rd1];",
    "the driver": "mov.u32 %r60, %envreg2;\nmov.u32 %r61, %envreg1;\nmov.b64 %rd5, {%r61, %r60};\nadd.s64 %rd5, %rd5, 4;",
    "one of two": "ld.global.nc.b64 %rd6, [%rd1];\nselp.b64 %rd5, %rd1, %rd6, %p3;",
}
OWN = {
    "shared memory": "cvta.shared.u64 %rd5, %rd7;",
    "memory that a thread may change": "ld.volatile.global.b64 %rd5, [%rd1];",
    "memory that the kernel writes": "ld.global.b64 %rd5, [%rd1];\nst.global.b64 [%rd1], %rd7;",
    "shared memory that others write": "ld.shared.b64 %rd5, [two];",
    "a swizzled address and a number": (
        "mov.u64 %rd6, one;\ncvta.shared.u64 %rd6, %rd6;\nand.b64 %rd6, %rd6, -16;\nld.global.nc.b64 %rd5, [%rd1];\nadd.s64 %rd5, %rd6, %rd5;"
    ),
    "two addresses": "ld.global.nc.b64 %rd6, [%rd1];\nadd.s64 %rd5, %rd1, %rd6;",
    "one of two": "mov.u64 %rd6, one;\nselp.b64 %rd5, %rd1, %rd6, %p3;",
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_pointer_that_the_kernel_gets_is_none_to_its_shared_memory(name: str) -> None:
    for use in ("ld.b32 %r50, [%rd5];", "st.b32 [%rd5+4], %r9;", "atom.add.release.gpu.u32 %r50, [%rd5], 1;"):
        body = f"{GIVEN[name]}\n{STORE}\n{use}\n{LOAD}"
        if "does not write" in name and not use.startswith("ld"):
            continue
        found = shared(body)
        assert found.status is Status.PROVED, (use, found.reasons)
        for each in (Assumption.NO_ALIAS, Assumption.READ_ONLY):
            assert each in found.assumptions
            assert shared(body, ALL - {each}).status is Status.UNKNOWN


@pytest.mark.parametrize("name", OWN)
def test_another_generic_address_may_be_one_of_shared_memory(name: str) -> None:
    found = shared(f"{OWN[name]}\n{STORE}\nst.b32 [%rd5], %r9;\n{LOAD}")
    assert any("generic address" in reason.what for reason in found.reasons)


def test_reasons_name_what_is_not_known() -> None:
    for name, words in (
        ("a neighbour without a barrier", "no CTA barrier separates"),
        ("a loaded offset", "depends on memory"),
        ("an mbarrier that copies signal", "mbarrier"),
        ("the async proxy", "no CTA barrier separates"),
        ("a generic address", "generic address"),
        ("a call", "which is not inlined"),
    ):
        assert words in shared(UNKNOWN[name]).reasons[0].what


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a barrier of some warps", "a branch that decides whether it executes may differ"),
        ("a barrier of half the CTA", "not known to count all threads"),
        ("another barrier of an unknown number", "threads may wait or arrive at it elsewhere"),
    ],
)
def test_the_first_reason_is_why_a_barrier_orders_nothing(name: str, words: str) -> None:
    what = shared(UNKNOWN[name]).reasons[0].what
    assert what.startswith("this barrier orders nothing: ")
    assert words in what


def test_reasons_name_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_order, "MAX_PAIRS", 1)
    assert "more than 1 pairs" in shared(PROVED["a reduction"]).reasons[0].what
    monkeypatch.undo()
    monkeypatch.setattr(shared_order, "MAX_OPEN", 1)
    first, *others = shared(UNKNOWN["half the slots"]).reasons
    assert "beyond" not in first.what
    assert all("beyond 1 open" in each.what for each in others)
    monkeypatch.undo()
    monkeypatch.setattr(shared_order, "MAX_PASSED", 1)
    assert "more than 1 combinations" in shared(PROVED["one iteration in each epoch"]).reasons[0].what


# ---------------------------------------------------------------- the checker


def prover(body: str) -> SharedOrder:
    model = last_kernel(SHARED, kernel(f"{START}\n{body}\nret;"))
    return SharedOrder(KernelModel(model.function, model.module, strict=True), ALL)


def certificate(of: SharedOrder, otherwise: Discharge | None = None) -> OrderCertificate:
    """The certificate of a prover; what it cannot discharge is claimed to be *otherwise*."""
    walk = of.walk()
    assert walk is not None
    found = {pair: of._discharge(walk, pair, cheap=False) or otherwise for pair in walk.pairs()}
    return replace(walk.certificate, claims={pair: d for pair, d in found.items() if d is not None})


def accepted(of: SharedOrder, claimed: OrderCertificate) -> None:
    check(of.function, of.uniform.of, [claimed], of.questions)


KERNEL = loop(f"{STORE}\n{BARRIER}\n{skipped('%p1', OTHER)}\n{BARRIER}")


def test_a_certificate_that_is_complete_is_accepted() -> None:
    of = prover(KERNEL)
    accepted(of, certificate(of))


@pytest.mark.parametrize("name", ["a flag before the barrier", "a flag that is cleared meanwhile"])
@pytest.mark.parametrize("discharge", [Discharge.BARRIER, Discharge.DISJOINT, Discharge.ATOMIC])
def test_no_claim_makes_a_load_uniform_that_others_write_meanwhile(name: str, discharge: Discharge) -> None:
    model = prover(UNKNOWN[name]).model
    load = next(i for i, each in enumerate(model.function.instructions) if each.opcode == "ld.shared.b32")
    of = SharedOrder(model, ALL, frozenset((load,)))
    with pytest.raises(Refused, match="nothing proves"):
        accepted(of, certificate(of, discharge))
    with pytest.raises(Refused, match="same value"):
        accepted(of, replace(certificate(of), claims={}))


def test_a_proof_has_a_certificate() -> None:
    of = prover(KERNEL)
    with pytest.raises(Refused, match="no certificate"):
        check(of.function, of.uniform.of, [], of.questions)


def test_a_counter_that_differs_between_threads_is_refused() -> None:
    """Each thread counts to its own index, and stores to the stage that its counter selects."""
    stage = "shl.b32 %r11, %r10, 9;\nadd.s32 %r12, %r4, %r11;\nst.shared.b32 [%r12], %r9;"
    of = prover(f"{loop('', '%r1')}\n{loop(stage, '%r1', '%r10')}")
    walk = of.walk()
    assert walk is not None
    (store,) = walk.accesses
    counters = of.across.counting.counters(address for address, _ in of.across.bytes.of(store) or ())
    assert counters
    with pytest.raises(Refused, match="takes a counter for uniform"):
        accepted(of, replace(certificate(of), counters=counters))


def test_an_epoch_that_is_missing_at_an_entry_is_refused() -> None:
    of = prover(KERNEL)
    claimed = certificate(of)
    for b, epoch in enumerate(claimed.entry):
        for since in epoch:
            entry = list(claimed.entry)
            entry[b] = {each: reached for each, reached in epoch.items() if each != since}
            with pytest.raises(Refused, match="omits what"):
                accepted(of, replace(claimed, entry=entry))


def test_threads_that_are_missing_at_an_entry_are_refused() -> None:
    of = prover(KERNEL)
    claimed = certificate(of)
    for b, epoch in enumerate(claimed.entry):
        fewer = list(claimed.entry)
        fewer[b] = {since: reached._replace(threads=reached.threads & ~2) for since, reached in epoch.items()}
        if b in of.uniform.of.order:
            with pytest.raises(Refused, match="omits threads"):
                accepted(of, replace(claimed, entry=fewer))


def test_a_copy_that_is_missing_at_an_entry_is_refused() -> None:
    of = prover(f"cp.async.ca.shared.global [%r4], [%rd1], 4;\n@%p3 bra a;\na:\n{BARRIER}\n{OTHER}")
    claimed = certificate(of, Discharge.BARRIER)
    missing = [
        {since: reached._replace(pending=frozenset()) for since, reached in epoch.items()}
        for epoch in claimed.entry
    ]
    with pytest.raises(Refused, match="omits an operation"):
        accepted(of, replace(claimed, entry=missing))


@pytest.mark.parametrize("name", [n for n in UNKNOWN if "barrier" in n and "bar" in UNKNOWN[n]])
def test_no_claim_makes_a_barrier_full(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = prover(UNKNOWN[name])
    every = frozenset(
        i for i in of.uniform.of.block_of if of.function.instructions[i].event.startswith("barrier")
    )
    for barriers in ("barriers", "_lanes_meet"):
        monkeypatch.setattr(SharedOrder, barriers, property(lambda self: every))
    with pytest.raises(Refused):
        accepted(of, certificate(of, Discharge.BARRIER))


@pytest.mark.parametrize("name", ["a barrier at which others arrive", "another barrier of an unknown number"])
def test_no_claim_makes_a_barrier_full_that_others_may_use_elsewhere(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = prover(UNKNOWN[name])
    first = next(i for i, each in enumerate(of.function.instructions) if each.opcode.startswith("bar.sync"))
    monkeypatch.setattr(SharedOrder, "barriers", property(lambda self: frozenset((first,))))
    with pytest.raises(Refused, match="elsewhere"):
        accepted(of, certificate(of, Discharge.BARRIER))


@pytest.mark.parametrize("discharge", list(Discharge))
def test_no_claim_orders_what_may_race(discharge: Discharge) -> None:
    for name in (
        "a neighbour without a barrier",
        "a back edge without a barrier",
        "atomic operations of two sizes",
    ):
        of = prover(UNKNOWN[name])
        with pytest.raises(Refused, match="nothing proves"):
            accepted(of, certificate(of, discharge))


def test_the_claims_are_exactly_the_pairs_of_the_kernel() -> None:
    of = prover(KERNEL)
    claimed = certificate(of)
    for pair in claimed.claims:
        with pytest.raises(Refused, match="nothing proves"):
            accepted(of, replace(claimed, claims={p: d for p, d in claimed.claims.items() if p != pair}))
    with pytest.raises(Refused, match="does not have"):
        accepted(of, replace(claimed, claims={**claimed.claims, AccessPair(0, 0): Discharge.BARRIER}))


RULES = {
    "separated": (Walk, "a neighbour without a barrier"),
    "both_atomic": (Walk, "an atomic operation and a load"),
    "_no_owner_in_common": (AcrossThreads, "a neighbour without a barrier"),
    "disjoint_forms": (Addresses, "past the end of a variable"),
    "_inside": (Addresses, "past the end of a variable"),
    "_is_shared": (AcrossThreads, "a value selected by a divergent branch"),
    "_separates": (Walk, "a cluster barrier with a store after the arrival"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_always_holds_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker and the prover share these rules, so a kernel must show that one is wrong."""
    owner, name = RULES[rule]
    assert shared(UNKNOWN[name]).status is Status.UNKNOWN
    monkeypatch.setattr(owner, rule, lambda *arguments: True)
    assert shared(UNKNOWN[name]).status is Status.PROVED


@pytest.mark.parametrize("discharge", [Discharge.BARRIER, Discharge.ATOMIC, Discharge.DISJOINT])
def test_a_prover_that_always_discharges_is_refused(
    discharge: Discharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SharedOrder, "_discharge", lambda self, walk, pair, cheap: discharge)
    assert shared(UNKNOWN["a neighbour without a barrier"]).status is Status.UNKNOWN
