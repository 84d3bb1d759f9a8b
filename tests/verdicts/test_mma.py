"""What is proved of ``tcgen05.mma``, ``cp`` and ``shift``: the issuing thread waits before it relies on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tclint.analyses.model import KernelModel
from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.ir.nodes import Function
from tclint.verdicts import mma as module_of_prover
from tclint.verdicts import verdicts
from tclint.verdicts.checker import Graph, Refused
from tclint.verdicts.mma import Multiplications
from tclint.verdicts.mma_checker import MmaCertificate, MmaQuestions, Progress, check_mma
from tclint.verdicts.own_mbarriers import OwnMbarriers
from tests.tools.support import built, kernel, module

SHARED = ".shared .align 1024 .b8 tile[8192];\n.shared .align 8 .b64 done[4];\n.shared .align 4 .b32 holder;"
PLAIN = ".func plain()\n{\nret;\n}\n.func writing()\n{\n.reg .b32 %a;\nmov.u32 %a, done;\nst.shared.b32 [%a], 5;\nret;\n}"
START = """ld.param.u64 %rd1, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
mov.u32 %r8, done;
mov.u32 %r3, tile;
ld.shared.b32 %r5, [holder];
mov.u32 %r6, 136314896;
setp.ne.s32 %p0, %r1, 0;
setp.gt.s32 %p5, %r9, 3;
mov.u32 %r20, 0;
mov.u32 %r21, 0;
@%p0 bra ready;
mbarrier.init.shared::cta.b64 [%r8], 1;
mbarrier.init.shared::cta.b64 [%r8+8], 1;
ready:
bar.sync 0;
@%p0 bra others;"""
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd5, %rd6, %r6, %p1;"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];"
LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r10}, [%r5];\ntcgen05.wait::ld.sync.aligned;"
ST = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r10};\ntcgen05.wait::st.sync.aligned;"
CP = "tcgen05.cp.cta_group::1.128x256b [%r5], %rd5;"
SHIFT = "tcgen05.shift.cta_group::1.down [%r5];"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 128;"
WRITE = "st.shared.b32 [%r3], %r9;"
FLIP = "xor.b32 %r20, %r20, 1;"


def second(commit: str = COMMIT) -> str:
    return commit.replace("[%r8]", "[%r8+8]")


def wait(parity: str = "0", at: str = "%r8", label: str = "w") -> str:
    return f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [{at}], {parity};\n@!%p2 bra {label};"


def loop(body: str, label: str = "top") -> str:
    return f"{label}:\n{body}\nadd.s32 %r11, %r11, 1;\nsetp.lt.s32 %p3, %r11, %r9;\n@%p3 bra {label};"


RING = f"""{MMA}
{COMMIT}
mov.u32 %r24, done;
mov.u32 %r25, 0;
mov.u32 %r21, 1;
top:
{MMA}
shl.b32 %r22, %r21, 3;
add.s32 %r23, %r22, %r8;
{COMMIT.replace("%r8", "%r23")}
WAIT
mov.u32 %r24, %r23;
mov.u32 %r25, %r20;
add.s32 %r26, %r21, 1;
setp.gt.s32 %p6, %r26, 1;
selp.b32 %r21, 0, %r26, %p6;
selp.b32 %r27, 1, 0, %p6;
xor.b32 %r20, %r20, %r27;
add.s32 %r11, %r11, 1;
setp.lt.s32 %p3, %r11, %r9;
@%p3 bra top;"""
"""A commit on each of two mbarriers in turn, and a wait for the one before."""


def ring(parity: str = "%r25", at: str = "%r24") -> str:
    return RING.replace("WAIT", wait(parity, at))


def mma(
    body: str,
    assume: frozenset[Assumption] = frozenset(Assumption),
    start: str = START,
    after: str = "",
    shared: str = SHARED,
) -> Verdict:
    text = kernel(f"{start}\n{body}\nothers:\n{after}\nret;")
    made = built(module(shared, PLAIN, text))
    assert not made.errors, made.errors
    model = KernelModel(made.functions[-1], made)
    assert not any(use.match is None or use.match.problem for use in model.function.uses)
    (found,) = verdicts(model, assume=assume, only=[HazardClass.TCGEN05_MMA])
    return found


PROVED = {
    "waited for": f"{MMA}\n{COMMIT}\n{wait()}\n{LD}",
    "a store after the wait": f"{MMA}\n{COMMIT}\n{wait()}\n{ST}",
    "freed after the wait": f"{MMA}\n{COMMIT}\n{wait()}\n{DEALLOC}",
    "its operands overwritten after the wait": f"{MMA}\n{COMMIT}\n{wait()}\n{WRITE}",
    "a wait that jumps over a jump back": (
        f"{MMA}\n{COMMIT}\nw:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n@%p2 bra d;\nbra w;\nd:\n{LD}"
    ),
    "other columns meanwhile": f"{MMA}\n{LD.replace('[%r5]', '[%r5+128]')}\n{COMMIT}\n{wait()}",
    "columns before it meanwhile": f"{MMA}\n{LD.replace('[%r5]', '[%r5+-1]')}\n{COMMIT}\n{wait()}",
    "two multiplications in the pipeline": f"{MMA}\n{MMA}\n{COMMIT}\n{wait()}",
    "an operand from other columns": f"{MMA}\n{MMA.replace('%rd5', '[%r5+128]')}\n{COMMIT}\n{wait()}"
    .replace(MMA, MMA.replace("%rd5", "[%r5+136]")),
    "a copy, then a multiplication": f"{CP}\n{MMA}\n{COMMIT}\n{wait()}",
    "a shift, then a multiplication": f"{SHIFT}\n{MMA}\n{COMMIT}\n{wait()}",
    "a multiplication, then a shift": f"{MMA}\n{SHIFT}\n{COMMIT}\n{wait()}",
    "a later commit": f"{MMA}\n{second()}\n{COMMIT}\n{wait()}\n{LD}",
    "a parity that alternates": loop(f"{MMA}\n{COMMIT}\n{wait('%r20')}\n{LD}\n{FLIP}"),
    "two waits in turn": f"{MMA}\n{COMMIT}\n{wait()}\n{LD}\n{MMA}\n{COMMIT}\n{wait('1', label='v')}\n{LD}",
    "two commits, the older one waited for": (
        f"{MMA}\n{COMMIT}\n{MMA.replace('[%r5]', '[%r7]')}\n{COMMIT}\n{wait('0')}\n{wait('1', label='v')}\n{LD}"
        .replace("[%r7]", "[%r5]")
    ),
    "a ring that waits one iteration late": f"{ring()}\n{wait('%r25', '%r24', 'v')}\n{LD}",
    "the same test twice": f"@!%p5 bra a;\n{MMA}\n{COMMIT}\na:\n@!%p5 bra b;\n{wait()}\nb:\n{LD}",
    "guarded alike": f"@%p5 {MMA}\n@%p5 {COMMIT}\n@!%p5 bra b;\n{wait()}\nb:\n{LD}",
    "elected": f"elect.sync %r12|%p7, -1;\n@%p7 {MMA}\n@%p7 {COMMIT}\n{wait()}\n{LD}",
}  # fmt: skip
UNKNOWN = {
    "no wait": f"{MMA}\n{COMMIT}",
    "no commit": f"{MMA}\n{wait()}\n{LD}",
    "a store to the mbarrier": f"st.shared.b32 [%r8], %r0;\n{MMA}\n{COMMIT}\n{wait()}\n{LD}",
    "a commit before it": f"{COMMIT}\n{MMA}\n{wait()}\n{LD}",
    "read before the wait": f"{MMA}\n{COMMIT}\n{LD}\n{wait()}",
    "stored before the wait": f"{MMA}\n{COMMIT}\n{ST}\n{wait()}",
    "read before the wait by a load of four columns that compresses": (
        f"{MMA}\ntcgen05.ld.spcompress.sync.aligned.32x32b.x4.sp::2:4.max.f32.b2 {{%r10}}, {{%r11,%r12}}, [%r5+-3];\n"
        f"tcgen05.wait::ld.sync.aligned;\n{COMMIT}\n{wait()}"
    ),
    "freed before the wait": f"{MMA}\n{COMMIT}\n{DEALLOC}\n{wait()}",
    "its operands overwritten before the wait": f"{MMA}\n{COMMIT}\n{WRITE}\n{wait()}",
    "operands of a copy overwritten": f"{CP}\n{COMMIT}\n{WRITE}\n{wait()}",
    "a copy into its operands": (
        f"{MMA}\n{COMMIT}\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 64, [%r8+16];\n{wait()}"
    ),
    "a call": f"{MMA}\n{COMMIT}\ncall plain;\n{wait()}",
    "an exit": f"{MMA}\n{COMMIT}\n@%p5 exit;\n{wait()}",
    "the wrong parity": f"{MMA}\n{COMMIT}\n{wait('1')}\n{LD}",
    "a parity from memory": f"ld.shared.b32 %r20, [%r3];\n{MMA}\n{COMMIT}\n{wait('%r20')}\n{LD}",
    "a parity that a sum of floating-point numbers has": (
        "mov.b32 %f1, 0x3F800000;\nmov.b32 %f2, 0x40000000;\nadd.f32 %f3, %f1, %f2;\nmov.b32 %r40, %f3;\n"
        f"shr.u32 %r40, %r40, 22;\nand.b32 %r20, %r40, 1;\n{MMA}\n{COMMIT}\n{wait('%r20')}\n{LD}"
    ),
    "another mbarrier": f"{MMA}\n{COMMIT}\n{wait(at='%r8+8')}\n{LD}",
    "a wait that is not repeated": (
        f"{MMA}\n{COMMIT}\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n{LD}"
    ),
    "a wait that gives up": (
        f"{MMA}\n{COMMIT}\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n@!%p2 bra a;\na:\n{LD}"
    ),
    "a parity that is none": f"{MMA}\n{COMMIT}\n{wait('2')}\n{LD}",
    "a wait whose result is overwritten": (
        f"{MMA}\n{COMMIT}\nw:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\nsetp.eq.s32 %p2, 0, 0;\n@!%p2 bra w;\n{LD}"
    ),
    "a wait that is repeated when it succeeds": (
        f"{MMA}\n{COMMIT}\nw:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n@%p2 bra w;\n{LD}"
    ),
    "a guarded wait": (
        f"{MMA}\n{COMMIT}\nw:\n@%p5 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n@!%p2 bra w;\n{LD}"
    ),
    "a relaxed wait": (
        f"{MMA}\n{COMMIT}\nw:\nmbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p2, [%r8], 0;\n@!%p2 bra w;\n{LD}"
    ),
    "a wait on one path": f"{MMA}\n{COMMIT}\n@%p5 bra a;\n{wait()}\na:\n{LD}",
    "a commit on one path": f"{MMA}\n@%p5 bra a;\n{COMMIT}\na:\n{LD}",
    "issued on one path after the commit": f"{MMA}\n{COMMIT}\n@%p5 {MMA}\n{wait()}\n{LD}",
    "committed under another guard": f"@%p5 {MMA}\n@!%p5 {COMMIT}\n@!%p5 bra b;\n{wait()}\nb:\n{LD}",
    "a guard that changes": (
        loop(f"setp.gt.s32 %p6, %r11, 5;\n@%p6 {MMA}\nsetp.gt.s32 %p6, %r11, 6;\n@%p6 {COMMIT}") + f"\n{wait()}"
    ),
    "a parity that stays": loop(f"{MMA}\n{COMMIT}\n{wait('%r20')}\n{LD}"),
    "a parity that alternates too often": loop(f"{MMA}\n{COMMIT}\n{wait('%r20')}\n{LD}\n{FLIP}\n{FLIP}"),
    "a parity that starts wrong": "mov.u32 %r20, 1;\n" + loop(f"{MMA}\n{COMMIT}\n{wait('%r20')}\n{LD}\n{FLIP}"),
    "a parity that alternates on one path": loop(f"{MMA}\n{COMMIT}\n{wait('%r20')}\n{LD}\n@%p5 {FLIP}"),
    "a wait only after the loop": loop(f"{MMA}\n{COMMIT}") + f"\n{wait()}",
    "two commits in an iteration": loop(f"{MMA}\n{COMMIT}\n{COMMIT}\n{wait('%r20')}\n{LD}\n{FLIP}"),
    "two in flight, one waited for": f"{MMA}\n{COMMIT}\n{MMA}\n{second()}\n{wait()}\n{LD}",
    "two commits, and a wait for the older one": f"{MMA}\n{COMMIT}\n{MMA}\n{COMMIT}\n{wait()}\n{LD}",
    "two commits, and a wait for the newer one alone": f"{MMA}\n{COMMIT}\n{MMA}\n{COMMIT}\n{wait('1')}\n{LD}",
    "three commits": f"{MMA}\n{COMMIT}\n{COMMIT}\n{COMMIT}\n{wait()}\n{LD}",
    "a ring that does not wait for the last one": f"{ring()}\n{LD}",
    "a ring that waits for the wrong parity": f"{ring('%r20')}\n{wait('%r25', '%r24', 'v')}\n{LD}",
    "a ring that always waits for the first one": f"{ring(at='%r8')}\n{wait('%r25', '%r24', 'v')}\n{LD}",
    "another shape": f"{MMA}\n{MMA.replace('%r6', '%r13')}\n{COMMIT}\n{wait()}",
    "another kind": f"{MMA}\n{MMA.replace('f16', 'tf32')}\n{COMMIT}\n{wait()}",
    "an mbarrier that ends": (
        f"{MMA}\n{COMMIT}\n{wait()}\nmbarrier.inval.shared::cta.b64 [%r8];\n"
        f"{MMA}\n{COMMIT}\n{wait('1', label='v')}\n{LD}"
    ),
    "another mbarrier of the same name": (
        f"{{\n.shared .align 8 .b64 done[2];\nmov.u32 %r15, done;\n}}\n{MMA}\n{COMMIT}\n{wait(at='%r15')}\n{LD}"
    ),
    "an accumulator beside it": f"{MMA}\n{MMA.replace('[%r5]', '[%r5+1]')}\n{COMMIT}\n{wait()}",
    "an unknown accumulator": f"{MMA}\n{MMA.replace('[%r5]', '[%r14]')}\n{COMMIT}\n{wait()}",
    "an operand at the end of its accumulator": f"{MMA}\n{MMA.replace('%rd5', '[%r5+127]')}\n{COMMIT}\n{wait()}",
    "an operand that reaches its accumulator": f"{MMA}\n{MMA.replace('%rd5', '[%r5+-7]')}\n{COMMIT}\n{wait()}",
    "an operand from its accumulator": f"{MMA}\n{MMA.replace('%rd5', '[%r5]')}\n{COMMIT}\n{wait()}",
    "a copy over the accumulator": f"{MMA}\n{CP}\n{COMMIT}\n{wait()}",
    "two copies": f"{CP}\n{CP}\n{COMMIT}\n{wait()}",
    "a shift, then a wide copy": f"{SHIFT}\n{CP}\n{COMMIT}\n{wait()}",
    "columns that reach its first one": f"{MMA}\n{LD.replace('x1', 'x2').replace('{%r10}, [%r5]', '{%r10, %r12}, [%r5+-1]')}\n{COMMIT}\n{wait()}",
    "columns in other lanes": (
        f"selp.b32 %r40, 2097153, 4194305, %p5;\nadd.s32 %r40, %r5, %r40;\n{MMA}\n{LD.replace('%r5', '%r40')}\n{COMMIT}\n{wait()}"
    ),
    "columns at its end": f"{MMA}\n{LD.replace('[%r5]', '[%r5+127]')}\n{COMMIT}\n{wait()}",
    "a pair of CTAs": f"{MMA}\n{COMMIT}\n{wait()}\n{LD}".replace("::1", "::2"),
    "a commit for several CTAs": (
        f"{MMA}\n{COMMIT.replace('.b64 [%r8]', '.multicast::cluster.b64 [%r8], %h1')}\n{wait()}\n{LD}"
    ),
    "a commit in another CTA": (
        f"mapa.shared::cluster.u32 %r15, %r8, %r9;\n{MMA}\n{COMMIT.replace('%r8', '%r15')}\n{wait()}\n{LD}"
    ),
    "an unknown mbarrier": f"ld.shared.b32 %r15, [%r3];\n{MMA}\n{COMMIT.replace('%r8', '%r15')}\n{wait()}\n{LD}",
    "another commit on an unknown mbarrier": (
        f"ld.shared.b32 %r15, [%r3];\n{MMA}\n{COMMIT.replace('%r8', '%r15')}\n{COMMIT}\n{wait()}\n{LD}"
    ),
    "another lane commits": f"elect.sync %r12|%p7, -1;\n@%p7 {MMA}\nelect.sync %r12|%p8, 0xfffffffe;\n@%p8 {COMMIT}\n{wait()}\n{LD}",
    "a parity of the next iteration": "mov.u32 %r11, 1;\n" + loop(f"{MMA}\n{COMMIT}\nand.b32 %r20, %r11, 1;\n{wait('%r20')}\n{LD}"),
    "a parity of every second iteration": (
        "mov.u32 %r11, 0;\n" + loop(f"{MMA}\n{COMMIT}\nshr.u32 %r20, %r11, 1;\nand.b32 %r20, %r20, 1;\n{wait('%r20')}\n{LD}")
    ),
    "a count of two": (
        f"mbarrier.init.shared::cta.b64 [%r8+16], 2;\n{MMA}\n{COMMIT.replace('[%r8]', '[%r8+16]')}\n{wait(at='%r8+16')}\n{LD}"
    ),
    "an mbarrier initialised again before the wait": (
        f"{MMA}\n{COMMIT}\nmbarrier.init.shared::cta.b64 [%r8], 1;\n{wait()}\n{LD}"
    ),
    "a wait that is given up": (
        f"{MMA}\n{COMMIT}\nw:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n@%p2 bra d;\n"
        f"add.s32 %r30, %r30, 1;\nsetp.lt.s32 %p9, %r30, 100;\n@%p9 bra w;\nd:\n{LD}"
    ),
    "a store in the loop of a wait": (
        f"{MMA}\n{COMMIT}\nw:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n{WRITE}\n@!%p2 bra w;\n{LD}"
    ),
    "the thread arrives as well": f"mbarrier.arrive.shared::cta.b64 _, [%r8];\n{MMA}\n{COMMIT}\n{wait()}\n{LD}",
    "bytes arrive as well": f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r8], 64;\n{MMA}\n{COMMIT}\n{wait()}\n{LD}",
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_operations_that_their_thread_waits_for_are_proved(name: str) -> None:
    found = mma(PROVED[name])
    assert found.status is Status.PROVED, found.reasons
    assert found.obligations


@pytest.mark.parametrize("name", UNKNOWN)
def test_operations_that_may_be_pending_are_unknown(name: str) -> None:
    found = mma(UNKNOWN[name])
    assert found.status is Status.UNKNOWN
    assert found.reasons


HANDED = f"{MMA}\n{COMMIT}"
"""What a thread issues and leaves to others, which wait for the mbarrier."""
OBSERVED = f"{wait(label='v')}\n{LD}"
NOT_HANDED = {
    "no commit": (MMA, OBSERVED),
    "a commit before it": (f"{COMMIT}\n{MMA}", OBSERVED),
    "another multiplication after the commit": (f"{HANDED}\n@%p5 {MMA}", OBSERVED),
    "a commit on one path": (f"{MMA}\n@%p5 {COMMIT}", OBSERVED),
    "an exit before the commit": (f"{MMA}\n@%p5 exit;\n{COMMIT}", OBSERVED),
    "a commit for a pair of CTAs": (f"{MMA}\n{COMMIT.replace('::1', '::2')}", OBSERVED),
    "a commit in another CTA": (
        f"mapa.shared::cluster.u32 %r15, %r8, %r9;\n{MMA}\n{COMMIT.replace('%r8', '%r15')}",
        OBSERVED,
    ),
    "a commit on an unknown mbarrier": (
        f"ld.shared.b32 %r15, [%r3];\n{MMA}\n{COMMIT.replace('%r8', '%r15')}",
        OBSERVED,
    ),
    "a commit on another mbarrier": (f"{MMA}\n{second()}", OBSERVED),
    "a wait for another mbarrier": (HANDED, f"{wait(at='%r8+8', label='v')}\n{LD}"),
    "no wait of another thread": (HANDED, LD),
    "a commit on one of two mbarriers, and a wait for the first": (
        f"selp.b32 %r15, 0, 8, %p5;\nadd.s32 %r15, %r8, %r15;\n{MMA}\n{COMMIT.replace('%r8', '%r15')}",
        OBSERVED,
    ),
    "a wait for an unknown mbarrier": (
        HANDED,
        f"ld.shared.b32 %r15, [%r3];\n{wait(at='%r15', label='v')}\n{LD}",
    ),
    "a wait in another CTA": (
        HANDED,
        f"mapa.shared::cluster.u32 %r15, %r8, %r9;\n{wait(at='%r15', label='v')}\n{LD}",
    ),
    "a wait whose result is ignored": (
        HANDED,
        f"mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n{LD}",
    ),
    "a relaxed wait": (HANDED, f"{OBSERVED.replace('.parity', '.parity.relaxed.cluster')}"),
    "a wait of the same thread alone": (f"{HANDED}\n@%p5 exit;\n{wait()}", LD),
    "its columns read": (f"{HANDED}\n{LD}", OBSERVED),
    "its columns freed": (f"{HANDED}\n{DEALLOC}", OBSERVED),
    "its operands overwritten": (f"{HANDED}\n{WRITE}", OBSERVED),
    "a copy over its columns": (f"{HANDED}\n{CP}\n{COMMIT}", OBSERVED),
    "a call": (f"{HANDED}\ncall plain;", OBSERVED),
}


@pytest.mark.parametrize(
    "body",
    [HANDED, f"{MMA}\n{HANDED}", loop(HANDED), f"{CP}\n{HANDED}", f"@%p5 {MMA}\n{COMMIT}"],
    ids=["once", "twice", "in a loop", "after a copy", "guarded"],
)
def test_a_thread_may_exit_once_a_commit_has_handed_its_operations_to_others_that_wait(body: str) -> None:
    found = mma(f"{body}\nret;", after=OBSERVED)
    assert found.status is Status.PROVED, found.reasons
    assert Discharge.TRACKED in {each.discharge for each in found.obligations}


def test_a_commit_on_a_ring_hands_operations_to_a_thread_that_waits_for_the_ring() -> None:
    stage = "and.b32 %r15, %r9, 3;\nshl.b32 %r15, %r15, 3;\nadd.s32 %r15, %r8, %r15;"
    body = f"{stage}\n{MMA}\n{COMMIT.replace('%r8', '%r15')}\nret;"
    assert mma(body, after=f"{stage}\n{wait(at='%r15', label='v')}\n{LD}").status is Status.PROVED
    fewer = stage.replace("%r9, 3", "%r9, 1")
    assert mma(body, after=f"{fewer}\n{wait(at='%r15', label='v')}\n{LD}").status is Status.UNKNOWN


def test_a_budget_may_end_the_search_for_the_states_of_a_thread_at_each_block() -> None:
    made = built(module(SHARED, PLAIN, kernel(f"{START}\n{PROVED['waited for']}\nothers:\nret;")))
    model, asked = KernelModel(made.functions[-1], made), list[None]()
    (found,) = verdicts(model, only=[HazardClass.TCGEN05_MMA], pause=lambda: asked.append(None))
    assert found.status is Status.PROVED
    assert len(asked) > 2 * len(model.cfg.blocks)  # to find the states, and to find what is pending in them


@pytest.mark.parametrize("name", NOT_HANDED)
def test_what_no_commit_hands_to_others_is_unknown_at_the_exit(name: str) -> None:
    body, after = NOT_HANDED[name]
    assert mma(f"{body}\nret;", after=after).status is Status.UNKNOWN


STAGED = """mov.u32 %r20, 0;
top:
shl.b32 %r40, %r20, 7;
add.s32 %r41, %r5, %r40;
tcgen05.mma.cta_group::1.kind::f16 [%r41], %rd5, %rd6, %r6, %p1;
tcgen05.mma.cta_group::1.kind::f16 [%r41], %rd7, %rd8, %r6, %p1;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
xor.b32 %r20, %r20, 1;
add.s32 %r11, %r11, 1;
setp.lt.s32 %p3, %r11, %r9;
@%p3 bra top;
ret;"""
"""Accumulators of 128 columns in two stages, one after the other."""


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("", ""),
        ("%r20, 7", "%r20, 8"),
        ("xor.b32 %r20, %r20, 1", "add.s32 %r20, %r20, 1;\nand.b32 %r20, %r20, 3"),
        ("shl.b32 %r40, %r20, 7", "selp.b32 %r40, 128, 0, %p5"),
        ("shl.b32 %r40, %r20, 7", "and.b32 %r40, %r11, 1;\nshl.b32 %r40, %r40, 7"),
    ],
)
def test_accumulators_in_stages_are_the_same_or_apart(was: str, now: str) -> None:
    found = mma(STAGED.replace(was, now) if was else STAGED, after=OBSERVED)
    assert found.status is Status.PROVED, found.reasons


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("%r20, 7", "%r20, 6"),
        ("shl.b32 %r40, %r20, 7", "mul.lo.s32 %r40, %r20, 96"),
        ("shl.b32 %r40, %r20, 7", "mul.lo.s32 %r40, %r20, 192"),
        ("%r20, 7", "%r20, 16"),
        ("%r20, 7", "%r20, 21"),
        ("shl.b32 %r40, %r20, 7", "shl.b32 %r40, %r11, 7"),
        ("shl.b32 %r40, %r20, 7", "shl.b32 %r40, %r9, 7;\nmul.lo.s32 %r40, %r40, %r20"),
        ("[%r41], %rd7", "[%r41+64], %rd7"),
        ("[%r41], %rd7", "[%r5+1], %rd7"),
        ("[%r41], %rd7", "[%r14], %rd7"),
        ("[%r41], %rd7, %rd8, %r6", "[%r41], %rd7, %rd8, %r13"),
        ("[%r41], %rd7", "[%r41], [%r5]"),
        ("kind::f16 [%r41], %rd7", "kind::tf32 [%r41], %rd7"),
        ("mov.u32 %r20, 0", "ld.shared.b32 %r20, [%r3]"),
        ("mov.u32 %r20, 0", "mov.u32 %r20, 65536"),
        ("shl.b32 %r40, %r20, 7", "shl.b32 %r40, %r20, 7;\nneg.s32 %r40, %r40"),
        ("shl.b32 %r40, %r20, 7", "shl.b32 %r40, %r20, 7;\nor.b32 %r6, %r6, %r40"),
    ],
)
def test_accumulators_that_may_overlap_in_part_are_not(was: str, now: str) -> None:
    assert STAGED.replace(was, now) != STAGED
    assert mma(STAGED.replace(was, now), after=OBSERVED).status is Status.UNKNOWN


CLOBBERED = "st.shared.b32 [%r8], %r9;"
ROLES = START.replace("@%p0 bra ready;", "@%p0 bra others;").replace(
    "ready:\nbar.sync 0;\n@%p0 bra others;", "bar.sync 0;"
)
"""Thread 0 initialises the mbarriers and issues; the others meet it at a barrier of their own."""
WRITTEN = {
    "a role that never uses the mbarrier": (START, f"bar.sync 0;\n{CLOBBERED}"),
    "a role that does not follow the initialisation": (ROLES, f"bar.sync 0;\n{CLOBBERED}"),
    "another branch than the initialisation": (
        START.replace("@%p0 bra ready;", "@%p0 bra other;").replace(
            "ready:", f"bra ready;\nother:\n{CLOBBERED}\nready:"
        ),
        "",
    ),
    "a role that calls a function": (START, "call writing;"),
    "all threads before the initialisation": (
        START.replace("@%p0 bra ready;", f"{CLOBBERED}\n@%p0 bra ready;"),
        "",
    ),
    "a bulk copy before the initialisation": (
        START.replace(
            "@%p0 bra ready;",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd1], 16, [%r8+24];\nbar.sync 0;\n@%p0 bra ready;",
        ),
        "",
    ),
    "a copy that is pending at the initialisation": (
        START.replace("@%p0 bra ready;", "cp.async.ca.shared.global [%r8], [%rd1], 8;\nbar.sync 0;\n@%p0 bra ready;"),
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_an_mbarrier_that_another_thread_may_write_to_completes_nothing(name: str) -> None:
    start, after = WRITTEN[name]
    body = f"{PROVED['waited for']}\nret;"
    assert mma(body, start=ROLES, after="bar.sync 0;").status is Status.PROVED
    assert mma(body, start=start, after=after).status is Status.UNKNOWN


@pytest.mark.parametrize(
    "before",
    [
        f"{CLOBBERED}\nbar.sync 0;",
        f"@!%p0 {CLOBBERED}",
        "cp.async.ca.shared.global [%r8], [%rd1], 8;\ncp.async.wait_all;\nbar.sync 0;",
    ],
)
def test_what_is_written_before_the_initialisation_in_all_threads_does_not_matter(before: str) -> None:
    start = START.replace("@%p0 bra ready;", f"{before}\n@%p0 bra ready;")
    assert mma(PROVED["waited for"], start=start).status is Status.PROVED


INIT_ELSEWHERE = START.replace("@%p0 bra ready;", "setp.ne.s32 %p8, %r1, 32;\n@%p8 bra ready;")


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (START.replace("bar.sync 0;", ""), Status.PROVED),
        (INIT_ELSEWHERE, Status.PROVED),
        (INIT_ELSEWHERE.replace("bar.sync 0;", ""), Status.UNKNOWN),
        (INIT_ELSEWHERE.replace("bar.sync 0;", "bar.warp.sync -1;"), Status.UNKNOWN),
        (INIT_ELSEWHERE.replace("bar.sync 0;", "bar.arrive 0, 128;"), Status.UNKNOWN),
        (INIT_ELSEWHERE.replace("bar.sync 0;", "@%p5 bar.sync 0;"), Status.UNKNOWN),
        (INIT_ELSEWHERE.replace("@%p8", "bar.sync 0;\n@%p8").replace("ready:\nbar.sync 0;", "ready:"), Status.UNKNOWN),
        (INIT_ELSEWHERE.replace("ready:\nbar.sync 0;", "bar.sync 0;\nbra others;\nready:"), Status.UNKNOWN),
    ],
)  # fmt: skip
def test_a_barrier_is_between_the_initialisation_and_a_use_by_another_thread(
    start: str, status: Status
) -> None:
    assert mma(f"{PROVED['waited for']}\nret;", start=start).status is status


INVAL = "mbarrier.inval.shared::cta.b64 [%r8];"


@pytest.mark.parametrize(
    ("body", "after", "status"),
    [
        (INVAL, "", Status.PROVED),
        ("", f"bar.sync 0;\nsetp.eq.s32 %p6, %r1, 32;\n@%p6 {INVAL}", Status.PROVED),
        ("", f"setp.eq.s32 %p6, %r1, 32;\n@%p6 {INVAL}\nbar.sync 0;", Status.UNKNOWN),
        ("ret;", f"setp.eq.s32 %p6, %r1, 32;\n@%p6 {INVAL}", Status.UNKNOWN),
    ],
)
def test_another_thread_ends_an_mbarrier_after_a_barrier(body: str, after: str, status: Status) -> None:
    assert mma(f"{PROVED['waited for']}\n{body}", after=after).status is status


INIT = "mbarrier.init.shared::cta.b64 [%r8], 1;"
UNMADE = START.replace(f"{INIT}\n", "")
"""Without an initialisation of the first mbarrier."""
RENEWED = f"top:\n{INIT}\n{MMA}\n{COMMIT}\n{wait()}\n{LD}\n{INVAL}\nadd.s32 %r11, %r11, 1;\nsetp.lt.s32 %p3, %r11, %r9;\n@%p3 bra top;"
"""In each iteration, the issuing thread initialises the mbarrier, waits for the first phase, and ends it."""


@pytest.mark.parametrize(
    ("was", "now", "status"),
    [
        ("", "", Status.PROVED),
        (INVAL, f"{MMA}\n{COMMIT}\n{wait('1', label='v')}\n{LD}\n{INVAL}", Status.PROVED),
        ("top:", f"{INIT}\n{MMA}\n{COMMIT}\n{wait(label='v')}\n{LD}\n{INVAL}\ntop:", Status.PROVED),
        ("top:", f"{INIT}\n{COMMIT}\n{wait(label='v')}\n{INVAL}\ntop:", Status.PROVED),
        (INVAL, "", Status.UNKNOWN),
        (INVAL, f"@%p5 {INVAL}", Status.UNKNOWN),
        (INVAL, INVAL.replace("[%r8]", "[%r8+8]"), Status.UNKNOWN),
        (f"{LD}\n{INVAL}", f"{INVAL}\n{LD}", Status.PROVED),
        (f"{wait()}\n{LD}\n{INVAL}", f"{INVAL}\n{LD}", Status.UNKNOWN),
        (INVAL, f"{MMA}\n{COMMIT}\n{INVAL}", Status.UNKNOWN),
        (f"{MMA}\n", f"{COMMIT}\n{INVAL}\n{INIT}\n{MMA}\n", Status.UNKNOWN),
        (INIT, f"@%p5 {INIT}", Status.UNKNOWN),
        (f"{INIT}\n{MMA}\n{COMMIT}", f"{MMA}\n{COMMIT}\n{INIT}", Status.UNKNOWN),
        (INIT, f"{INIT}\n{INIT}", Status.UNKNOWN),
        (INIT, f"ld.shared.b32 %r15, [%r3];\n{INIT}\n{INIT.replace('%r8', '%r15')}", Status.UNKNOWN),
        (INIT, INIT.replace("1;", "2;"), Status.UNKNOWN),
        (INVAL, f"{FLIP}\n{INVAL}\n", Status.PROVED),
        ("[%r8], 0;", "[%r8], %r20;", Status.PROVED),
        ("[%r8], 0;\n@!%p2 bra w;", f"[%r8], %r20;\n@!%p2 bra w;\n{FLIP}", Status.UNKNOWN),
        (INVAL, f"{CLOBBERED}\n{INVAL}", Status.UNKNOWN),
        (INVAL, f"{INVAL}\n{CLOBBERED}", Status.UNKNOWN),
    ],
)  # fmt: skip
def test_a_thread_may_renew_the_mbarrier_of_its_commits(was: str, now: str, status: Status) -> None:
    assert was in RENEWED
    found = mma(RENEWED.replace(was, now, 1), start=UNMADE)
    assert found.status is status, found.reasons


@pytest.mark.parametrize("by", [f"setp.eq.s32 %p6, %r1, 32;\n@%p6 {INIT}", f"{INVAL}", f"{INIT}"])
def test_an_mbarrier_that_another_thread_may_renew_completes_nothing(by: str) -> None:
    assert mma(f"{RENEWED}\nret;", start=UNMADE).status is Status.PROVED
    assert mma(f"{RENEWED}\nret;", start=UNMADE, after=by).status is Status.UNKNOWN


def test_low_bits_of_a_counter_distinguish_stages() -> None:
    """The counter grows without end, and the two low bits of it select a stage of 32 KB."""
    counted = STAGES.replace("shl.b32 %r30, %r21, 15;", "and.b32 %r30, %r21, 3;\nshl.b32 %r30, %r30, 15;")
    counted = counted.replace("setp.gt.s32 %p6, %r32, 2;\nselp.b32 %r32, 0, %r32, %p6;\n", "")
    assert counted.count("%p6") == 0
    filled = counted.replace(
        "shl.b32 %r33, STAGE, 15;",
        "add.s32 %r33, %r21, NEXT;\nand.b32 %r33, %r33, 3;\nshl.b32 %r33, %r33, 15;",
    )
    for ahead, status in ((1, Status.PROVED), (3, Status.PROVED), (0, Status.UNKNOWN), (4, Status.UNKNOWN)):
        assert mma(filled.replace("NEXT", str(ahead)), shared=LARGE).status is status, ahead
    wider = filled.replace("NEXT", "1").replace("and.b32 %r33, %r33, 3", "and.b32 %r33, %r33, 63")
    assert mma(wider, shared=LARGE).status is Status.UNKNOWN


@pytest.mark.parametrize(("between", "status"), [("bar.sync 0;", Status.PROVED), ("", Status.UNKNOWN)])
def test_what_is_written_after_a_barrier_that_no_use_follows_does_not_matter(
    between: str, status: Status
) -> None:
    assert mma(PROVED["waited for"], after=f"{between}\n{CLOBBERED}").status is status


def test_an_mbarrier_that_several_threads_initialise_completes_nothing() -> None:
    every = START.replace("@%p0 bra ready;", "")
    assert mma(PROVED["waited for"]).status is Status.PROVED
    assert mma(PROVED["waited for"], start=every).status is Status.UNKNOWN


def test_a_wait_for_a_phase_before_the_initialisation_completes_nothing() -> None:
    again = f"{MMA}\n{COMMIT}\n{wait('1', label='v')}\n{LD}"
    init = "mbarrier.init.shared::cta.b64 [%r8], 1;\n"
    first = f"{MMA}\n{COMMIT}\n{wait()}\n{LD}"
    assert mma(f"{first}\n{again}").status is Status.PROVED
    assert mma(f"{first}\n{init}{again}", start=START.replace(init, "")).status is Status.UNKNOWN


DESCRIPTOR = """add.s32 %r30, {0}, {1};
shr.u32 %r30, %r30, 4;
and.b32 %r30, %r30, 16383;
cvt.u64.u32 {2}, %r30;
or.b64 {2}, {2}, 0x4000404000010000;"""
DESCRIPTORS = f"{DESCRIPTOR.format('%r3', 0, '%rd5')}\n{DESCRIPTOR.format('%r3', 16384, '%rd6')}"
"""A and B at 0 and 16384, both 128 rows of a line of 128 bytes, swizzled."""
LARGE = SHARED.replace("tile[8192]", "tile[131072]")
STAGES = f"""mov.u32 %r21, 0;
top:
shl.b32 %r30, %r21, 15;
add.s32 %r30, %r30, %r3;
mov.u32 %r31, %r30;
{DESCRIPTOR.format("%r31", 0, "%rd5")}
{DESCRIPTOR.format("%r31", 16384, "%rd6")}
{MMA}
{COMMIT}
add.s32 %r32, %r21, 1;
setp.gt.s32 %p6, %r32, 2;
selp.b32 %r32, 0, %r32, %p6;
shl.b32 %r33, STAGE, 15;
add.s32 %r33, %r33, %r3;
cp.async.cg.shared.global [%r33+16384], [%rd1], 16;
{wait("%r20")}
mov.u32 %r21, %r32;
{FLIP}
add.s32 %r11, %r11, 1;
setp.lt.s32 %p3, %r11, %r9;
@%p3 bra top;"""
"""A ring of three stages of 32 KB, one of which is filled during a multiplication of another one."""


def written(address: str, descriptors: str = DESCRIPTORS) -> Verdict:
    """A store to shared memory during a multiplication."""
    body = f"{descriptors}\n{MMA}\n{COMMIT}\nst.shared.b32 [{address}], %r9;\n{wait()}"
    return mma(body, shared=LARGE)


@pytest.mark.parametrize(
    ("expected", "status"), [(512, Status.PROVED), (520, Status.UNKNOWN), (1024, Status.UNKNOWN)]
)
def test_a_tensor_copy_may_cover_an_mbarrier_beyond_its_first_byte(expected: int, status: Status) -> None:
    """The mbarrier of the commits is 512 bytes after the place where the copy begins."""
    copy = f"""mbarrier.init.shared::cta.b64 [done], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [done], {expected};
cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r3], [%rd1, {{%r9}}], [done];"""
    start = START.replace("mov.u32 %r8, done;", "mov.u32 %r8, tile;\nadd.u32 %r8, %r8, 512;")
    assert start != START
    found = mma(f"{copy}\n{MMA}\n{COMMIT}\n{wait()}\n{LD}", start=start)
    assert found.status is status, found.reasons
    if status is Status.PROVED:
        assert Assumption.BOXES in found.assumptions


BY_TWO_WARPS = """and.b32 %r40, %r1, 31;
setp.eq.s32 %p6, %r40, 0;
setp.lt.s32 %p7, %r1, 64;
and.pred %p6, %p6, %p7;
and.b32 %r41, %r1, 32;
shl.b32 %r41, %r41, 3;
add.s32 %r41, %r3, %r41;
@!%p0 mbarrier.init.shared::cta.b64 [done], 1;
bar.sync 0;
@!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [done], 512;
@%p6 cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r41], [%rd1, {%r9}], [done];"""
"""Two warps copy half of 512 bytes each, which the mbarrier of the commits follows."""


@pytest.mark.parametrize(
    ("was", "now", "status"),
    [
        ("", "", Status.PROVED),
        ("512;", "768;", Status.UNKNOWN),
        ("%r1, 64", "%r1, 96", Status.UNKNOWN),
        ("and.pred %p6, %p6, %p7", "and.pred %p6, %p6, %p5", Status.UNKNOWN),
        ("%r41, 3;", "%r41, 4;", Status.UNKNOWN),
        ("[done], 512;", "[done], 512;\n@!%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [done], 256;", Status.UNKNOWN),
    ],
)  # fmt: skip
def test_the_threads_of_a_tensor_copy_share_what_its_phase_expects(
    was: str, now: str, status: Status
) -> None:
    assert was in BY_TWO_WARPS
    start = START.replace("mov.u32 %r8, done;", "mov.u32 %r8, tile;\nadd.u32 %r8, %r8, 512;")
    start = start.replace("@%p0 bra others;", f"{BY_TWO_WARPS.replace(was, now)}\n@%p0 bra others;")
    found = mma(f"{MMA}\n{COMMIT}\n{wait()}\n{LD}", start=start)
    assert found.status is status, found.reasons


@pytest.mark.parametrize(
    ("role", "status"),
    [
        ("st.shared.b32 [%r3], %r0;", Status.PROVED),
        ("st.shared.b32 [%r8+4], %r0;", Status.UNKNOWN),
        ("mbarrier.inval.shared::cta.b64 [%r8];", Status.UNKNOWN),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd1], 16, [%r8+16];",
            Status.UNKNOWN,
        ),
    ],
)
@pytest.mark.parametrize("forks_at", ["@%p0 bra ready;", "@%p0 bra others;"])
def test_another_role_may_write_to_an_mbarrier_at_any_time(role: str, status: Status, forks_at: str) -> None:
    """No path leads from the uses of the mbarrier to what the role does, nor back; it begins before the mbarrier is made, or after."""
    start = START.replace(forks_at, f"setp.eq.s32 %p7, %r1, 32;\n@%p7 bra role;\n{forks_at}")
    found = mma(f"{MMA}\n{COMMIT}\n{wait()}\n{LD}", start=start, after=f"ret;\nrole:\n{role}")
    assert found.status is status, found.reasons


@pytest.mark.parametrize(
    ("between", "observed"),
    [
        ("bar.sync 0;", True),
        ("barrier.cluster.arrive;\nbarrier.cluster.wait;", True),
        ("", False),
        ("bar.warp.sync -1;", False),
        ("bar.arrive 0, 128;", False),
        ("barrier.cluster.arrive;", False),
        ("@%p5 bar.sync 0;", False),
        ("bar.sync 1, 64;", False),
    ],
)
@pytest.mark.parametrize("thread", [0, 32])
def test_a_thread_observes_an_mbarrier_of_another_one_after_a_barrier(
    between: str, observed: bool, thread: int
) -> None:
    start = START.replace("bar.sync 0;", between)
    start = start.replace("@%p0 bra others;", f"setp.ne.s32 %p0, %r1, {thread};\n@%p0 bra others;")
    found = mma(f"{MMA}\n{COMMIT}\n{wait()}\n{LD}", start=start)
    assert (found.status is Status.PROVED) == (observed or thread == 0), found.reasons


def test_a_barrier_before_an_mbarrier_is_made_does_not_show_it_to_other_threads() -> None:
    start = START.replace("bar.sync 0;", "").replace("@%p0 bra ready;", "bar.sync 0;\n@%p0 bra ready;")
    start = start.replace("@%p0 bra others;", "setp.ne.s32 %p0, %r1, 32;\n@%p0 bra others;")
    assert mma(f"{MMA}\n{COMMIT}\n{wait()}\n{LD}", start=start).status is Status.UNKNOWN


@pytest.mark.parametrize(("thread", "status"), [(0, Status.PROVED), (32, Status.UNKNOWN)])
def test_a_word_of_each_thread_may_decide_what_its_thread_initialises_and_uses(
    thread: int, status: Status
) -> None:
    """Thread 0 initialises the mbarriers if its word is not 0, and another thread has another word."""
    word = "mul.wide.u32 %rd7, %r1, 4;\nadd.s64 %rd7, %rd1, %rd7;\nld.global.b32 %r40, [%rd7];\nsetp.eq.s32 %p7, %r40, 0;"
    either = "or.pred %p8, %p0, %p7;\n@%p8 bra"
    apart = START.replace("@%p0 bra ready;", f"{word}\n{either} ready;")
    apart = apart.replace("@%p0 bra others;", f"setp.ne.s32 %p0, %r1, {thread};\n{either} others;")
    at_once = START.replace("@%p0 bra ready;", f"{word}\n@%p7 bra others;\n@%p0 bra ready;")
    at_once = at_once.replace("@%p0 bra others;", f"setp.ne.s32 %p0, %r1, {thread};\n@%p0 bra others;")
    for start in (apart, at_once):
        assert mma(f"{MMA}\n{COMMIT}\n{wait()}\n{LD}", start=start).status is status


@pytest.mark.parametrize("address", ["%r3+32768", "%r4"])
def test_bytes_that_no_matrix_spans_may_be_overwritten(address: str) -> None:
    found = written(address, f"{DESCRIPTORS}\nadd.s32 %r4, %r3, 65536;")
    assert found.status is Status.PROVED, found.reasons
    assert Assumption.ALIGNED in found.assumptions


@pytest.mark.parametrize(
    ("address", "was", "now"),
    [
        ("%r3", "", ""),
        ("%r3+16380", "", ""),
        ("%r3+16384", "", ""),
        ("%r3+32764", "", ""),
        ("%r12", "", ""),
        ("%r4", "", ""),
        ("%r3", "%r3, 0;", "%r3, 32;"),
        ("%r3+32764", "%r3, 16384;", "%r3, 16480;"),
        ("%r3+32768", "%r3, 16384;", "%r3, 16512;"),
        ("%r3+32768", "%r3, 16384;", "%r3, %r9;"),
        ("%r3+32768", "0x4000404000010000", "0x4000404100010000"),
        ("%r3+32768", "0x4000404000010000", "0x4010404000010000"),
        ("%r3+32768", "0x4000404000010000", "%rd1"),
        ("%r3+32768", "and.b32 %r30, %r30, 16383;", ""),
    ],
)
def test_bytes_that_a_matrix_may_span_may_not_be_overwritten(address: str, was: str, now: str) -> None:
    assert was in DESCRIPTORS
    assert written(address, DESCRIPTORS.replace(was, now) if was else DESCRIPTORS).status is Status.UNKNOWN


def test_a_matrix_without_an_aligned_variable_is_nowhere_in_particular() -> None:
    body = f"{DESCRIPTORS}\n{MMA}\n{COMMIT}\nst.shared.b32 [%r3+32768], %r9;\n{wait()}"
    assert mma(body, frozenset(Assumption) - {Assumption.ALIGNED}, shared=LARGE).status is Status.UNKNOWN


def test_a_store_in_bulk_may_reach_a_matrix() -> None:
    body = f"{DESCRIPTORS}\n{MMA}\n{COMMIT}\nst.bulk.weak.shared::cta [%r3+32768], %rd9, 0;\n{wait()}"
    assert mma(body, shared=LARGE).status is Status.UNKNOWN


DESCRIBED = """mov.u32 %r21, 0;
top:
and.b32 %r50, %r21, 3;
shl.b32 %r50, %r50, 15;
add.s32 %r50, %r50, %r3;
shr.u32 %r51, %r50, 4;
and.b32 %r51, %r51, 16383;
cvt.u64.u32 %rd50, %r51;
or.b64 %rd5, %rd50, 0x4000404000010000;
add.s32 %r54, %r50, 16384;
shr.u32 %r55, %r54, 4;
and.b32 %r55, %r55, 16383;
cvt.u64.u32 %rd54, %r55;
or.b64 %rd6, %rd54, 0x4000404000010000;
add.s32 %r52, %r21, 1; // the stage
and.b32 %r52, %r52, 3;
shl.b32 %r52, %r52, 15;
add.s32 %r53, %r52, %r3;
st.shared.b32 [%r53], %r9;
w:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], %r20;
@!%p2 bra w;
add.s32 %r21, %r21, 1;
xor.b32 %r20, %r20, 1;
setp.lt.s32 %p3, %r21, %r9;
@%p3 bra top;"""
FIRST_MMA = f"setp.gt.s32 %p9, %r21, 0;\n@!%p9 bra none;\n{MMA}\nnone:\n{COMMIT}\n"


@pytest.mark.parametrize(
    ("before", "stage", "status"),
    [
        ("add.s32 %r52", 1, Status.PROVED),
        ("add.s32 %r52", 0, Status.UNKNOWN),
        ("and.b32 %r50", 3, Status.UNKNOWN),
    ],
)
def test_a_descriptor_is_that_of_its_own_iteration(before: str, stage: int, status: Status) -> None:
    """Before it is computed again, it is that of the iteration before, whose stage is three further on."""
    body = DESCRIBED.replace(before, FIRST_MMA + before, 1).replace(
        "%r21, 1; // the stage", f"%r21, {stage};"
    )
    assert mma(body, shared=SHARED.replace("8192", "131072")).status is status


def test_another_stage_may_be_filled_during_a_multiplication() -> None:
    found = mma(STAGES.replace("STAGE", "%r32"), shared=LARGE)
    assert found.status is Status.PROVED, found.reasons
    assert Discharge.DISJOINT in {o.discharge for o in found.obligations}


@pytest.mark.parametrize(
    ("stage", "was", "now"),
    [
        ("%r21", "", ""),
        ("%r34", "", ""),
        ("%r32", "%r32, 2;", "%r32, 0;"),
        ("%r32", "selp.b32 %r32, 0, %r32, %p6;", "selp.b32 %r32, %r21, %r32, %p6;"),
        ("%r32", "[%r33+16384]", "[%r33+-1024]"),
        ("%r32", wait("%r20"), ""),
        ("%r32", FLIP, ""),
    ],
)
def test_a_stage_that_is_read_may_not_be_filled(stage: str, was: str, now: str) -> None:
    body = STAGES.replace("STAGE", stage)
    assert was in body
    assert mma(body.replace(was, now) if was else body, shared=LARGE).status is Status.UNKNOWN


COMPLETE = PROVED["waited for"]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("[%r8], 1;", "[%r8], 2;"),
        ("[%r8], 1;", "[%r8], %r9;"),
        ("ready:", "mbarrier.init.shared::cta.b64 [%r8], 1;\nready:"),
        ("@%p0 bra others;", ""),
        ("@%p0 bra others;", "setp.gt.s32 %p0, %r1, 1;\n@%p0 bra others;"),
        ("@%p0 bra others;", "and.b32 %r16, %r1, 31;\nsetp.ne.s32 %p0, %r16, 0;\n@%p0 bra others;"),
        ("@%p0 bra others;", "setp.ne.s32 %p0, %r1, %r9;\n@%p0 bra others;"),
    ],
)
def test_a_phase_that_other_arrivals_complete_proves_nothing(was: str, now: str) -> None:
    assert was in START
    assert mma(COMPLETE, start=START.replace(was, now, 1)).status is Status.UNKNOWN


@pytest.mark.parametrize(
    "after",
    [
        "mbarrier.arrive.shared::cta.b64 _, [done];",
        "mbarrier.arrive.shared::cta.b64 _, [%r17];",
        f"setp.ne.s32 %p8, %r1, 32;\n@%p8 bra end;\n{MMA}\nend:",
        f"setp.ne.s32 %p8, %r1, 32;\n@%p8 bra end;\n{COMMIT}\nend:",
        f"setp.ne.s32 %p8, %r1, 32;\n@%p8 bra end;\n{MMA}\n{second()}\nend:",
    ],
)
def test_what_other_threads_issue_and_signal_counts(after: str) -> None:
    assert mma(COMPLETE, after=after).status is Status.UNKNOWN


def test_two_threads_that_wait_for_mbarriers_of_their_own_are_proved() -> None:
    after = f"setp.ne.s32 %p8, %r1, 32;\n@%p8 bra end;\n{MMA}\n{second()}\n{wait('0', '%r8+8', 'z')}\nend:"
    found = mma(COMPLETE, after=after)
    assert found.status is Status.PROVED, found.reasons


def test_arrays_at_one_base_are_one_mbarrier() -> None:
    shared = SHARED.replace(".shared .align 8 .b64 done[4]", ".extern .shared .align 8 .b64 done[]")
    shared += "\n.extern .shared .align 8 .b64 same[];"
    body = f"mov.u32 %r18, same;\n{COMMIT.replace('%r8', '%r18')}\n{COMPLETE}"
    assert mma(COMPLETE, shared=shared).status is Status.PROVED
    assert mma(body, shared=shared).status is Status.UNKNOWN


def test_variables_of_two_scopes_are_two_mbarriers() -> None:
    """They have one name in the text."""
    inner = "{\n.shared .align 8 .b64 done[4];\nmov.u32 %r19, done;\n"
    body = f"{inner}{MMA}\n{COMMIT.replace('%r8', '%r19')}\n}}\n{COMMIT}\n{MMA}\n{wait()}\n{LD}"
    assert mma(body).status is Status.UNKNOWN


def test_a_proof_rests_on_the_threads_that_are_known() -> None:
    assert Assumption.THREADS in mma(COMPLETE).assumptions
    assert mma(COMPLETE, frozenset()).status is Status.UNKNOWN
    assert Assumption.ELECT in mma(PROVED["elected"]).assumptions
    assert mma(PROVED["elected"], frozenset(Assumption) - {Assumption.ELECT}).status is Status.UNKNOWN


def test_obligations_name_what_discharges_them() -> None:
    kinds = {o.discharge for name in PROVED for o in mma(PROVED[name]).obligations}
    assert {Discharge.WAIT, Discharge.ORDERED, Discharge.DISJOINT} <= kinds


def test_a_kernel_with_too_many_obligations_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(mma(PROVED["waited for"]).obligations)
    for limit, status in ((count, Status.PROVED), (count - 1, Status.UNKNOWN)):
        monkeypatch.setattr(module_of_prover, "MAX_OBLIGATIONS", limit)
        found = mma(PROVED["waited for"])
        assert found.status is status
    assert [reason.what for reason in found.reasons] == [f"it has more than {count - 1} obligations"]


def test_another_role_is_not_reached_by_the_issuing_thread() -> None:
    body = f"@%p0 bra store;\n{MMA}\nstore:\n@!%p0 bra end;\n{ST}\nend:\n@%p0 bra others;\n{COMMIT}\n{wait()}"
    found = mma(body, start=START.replace("@%p0 bra others;", ""))
    assert found.status is Status.PROVED, found.reasons
    assert Discharge.INFEASIBLE in {o.discharge for o in found.obligations}


COUNTED = f"""setp.lt.s32 %p8, %r9, 1;
@%p8 bra none;
mov.u32 %r11, 0;
top:
and.b32 %r22, %r11, 1;
shl.b32 %r22, %r22, 3;
add.s32 %r23, %r22, %r8;
shr.u32 %r25, %r11, 1;
and.b32 %r25, %r25, 1;
{MMA}
{COMMIT.replace("%r8", "%r23")}
{wait("%r25", "%r23")}
add.s32 %r11, %r11, 1;
setp.ne.b32 %p3, %r11, %r9;
@%p3 bra top;
add.s32 %r40, %r9, 0;
and.b32 %r41, %r40, 1;
shl.b32 %r42, %r41, 3;
add.s32 %r42, %r42, %r8;
shr.u32 %r43, %r40, 1;
and.b32 %r43, %r43, 1;
{MMA}
{COMMIT.replace("%r8", "%r42")}
{wait("%r43", "%r42", "v")}
{LD}
none:"""
"""A commit on each of two mbarriers in turn, and a wait for it; after the loop, the trip count says which one is next."""


def test_a_loop_that_ends_at_its_trip_count_says_which_phase_is_next() -> None:
    found = mma(COUNTED)
    assert found.status is Status.PROVED, found.reasons


SIGNED = """shr.u32 %r41, %r40, 30;
add.s32 %r41, %r40, %r41;
and.b32 %r41, %r41, -4;
sub.s32 %r41, %r40, %r41;
and.b32 %r41, %r41, 1;"""
"""The remainder of a number that may be negative, of which the low bit selects a stage."""


@pytest.mark.parametrize(
    ("was", "now", "status"),
    [
        ("", "", Status.PROVED),
        ("-4;", "-2;", Status.PROVED),
        ("-4;", "-1;", Status.UNKNOWN),
        ("%r41, 1;", "%r41, 2;", Status.UNKNOWN),
    ],
)
def test_the_sign_of_a_trip_count_that_is_not_negative_is_known(was: str, now: str, status: Status) -> None:
    signed = COUNTED.replace("and.b32 %r41, %r40, 1;", SIGNED.replace(was, now))
    assert mma(f"shr.s32 %r9, %r9, 6;\n{signed}").status is status


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("setp.ne.b32 %p3", "setp.lt.s32 %p3"),
        ("setp.ne.b32 %p3, %r11, %r9;", "setp.ne.b32 %p3, %r11, %r9;\n@%p5 add.s32 %r9, %r9, 1;"),
        ("setp.ne.b32 %p3, %r11, %r9;", "setp.ne.and.b32 %p3, %r11, %r9, %p5;"),
        ("setp.ne.b32 %p3, %r11, %r9;", "@%p5 setp.ne.b32 %p3, %r11, %r9;"),
        ("setp.ne.b32 %p3, %r11, %r9;", "setp.eq.b32 %p3, %r11, %r9;"),
        ("setp.ne.b32 %p3, %r11, %r9;", "setp.ne.b32 %p3, %r11, %r9;\nmov.pred %p3, %p5;"),
        ("setp.ne.b32 %p3, %r11, %r9;", "add.s32 %r44, %r9, 1;\nsetp.ne.b32 %p3, %r11, %r44;"),
        ("%r9, 0;", "%r9, 2;"),
        ("%r9, 0;", "%r9, -1;"),
        ("shr.u32 %r43, %r40, 1;", "shr.u32 %r43, %r40, 2;"),
        ("and.b32 %r41, %r40, 1;", "and.b32 %r41, %r40, 2;"),
        (f"{wait('%r43', '%r42', 'v')}\n{LD}", f"{LD}\n{wait('%r43', '%r42', 'v')}"),
    ],
)
def test_a_loop_that_may_end_otherwise_does_not(was: str, now: str) -> None:
    assert was in COUNTED
    assert mma(COUNTED.replace(was, now)).status is Status.UNKNOWN


DISPATCHED = """.extern .shared .align 1024 .b8 global_smem[];
.visible .entry k(.param .u64 a)
.reqntid 256
{
.reg .pred %p<9>;
.reg .b32 %r<16>;
.reg .b64 %rd<9>;
mov.u32 %r0, %tid.x;
shr.u32 %r1, %r0, 5;
shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;
mov.u32 %r2, global_smem;
add.s32 %r3, %r2, 4104;
ld.param.u64 %rd1, [a];
setp.ne.s32 %p1, %r0, 0;
@!%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
bar.sync 0;
ld.shared.b32 %r5, [global_smem+4112];
setp.gt.u32 %p2, %r1, 3;
@%p2 bra dispatch;
st.shared.b32 [global_smem+4096], 0x02020100;
barrier.sync 1;
waits:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
@!%p3 bra waits;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5];
tcgen05.wait::ld.sync.aligned;
st.shared.b32 [global_smem+4096], 0x02020202;
barrier.sync 1;
ret;
dispatch:
barrier.sync 1;
add.s32 %r7, %r2, %r1;
ld.shared.b8 %r8, [%r7+4092];
targets: .branchtargets writes, multiplies, end;
brx.idx %r8, targets;
writes:
st.shared.b32 [global_smem], %r0;
bra dispatch;
multiplies:
elect.sync _|%p5, -1;
mov.u32 %r9, 136314896;
mov.u64 %rd5, %rd1;
@%p5 tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd5, %rd5, %r9, %p1;
@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];
bra dispatch;
end:
ret;
}
"""
"""Warp 4 writes what the multiplication of warp 5 reads, each in a role that a table says."""


def dispatched(*changes: tuple[str, str], assume: frozenset[Assumption] = ALL_ASSUMPTIONS) -> Verdict:
    text = DISPATCHED
    for was, now in changes:
        assert was in text
        text = text.replace(was, now)
    made = built(f".version 8.7\n.target sm_100a\n.address_size 64\n{text}")
    assert not made.errors, made.errors
    model = KernelModel(made.functions[-1], made)
    (found,) = verdicts(model, assume=assume, only=[HazardClass.TCGEN05_MMA])
    return found


def test_what_a_table_says_of_roles_is_an_assumption() -> None:
    found = dispatched()
    assert found.status is Status.PROVED, found.reasons
    assert Assumption.TABLES in found.assumptions
    assert dispatched(assume=ALL_ASSUMPTIONS - {Assumption.TABLES}).status is Status.UNKNOWN


COMMITTED = next(line for line in DISPATCHED.splitlines() if "tcgen05.commit" in line)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("0x02020202", "0x02020002"),
        ("0x02020100", "%r6"),
        ("writes:", "writes:\nst.shared.b8 [%r6], %r1;"),
        ("[%r7+4092]", "[global_smem+4096]"),
        (COMMITTED, ""),
        (COMMITTED, COMMITTED.replace("%r3", "%r3+8")),
        ("[%r3], 0;", "[%r3+8], 0;"),
        ("multiplies:", "multiplies:\nst.shared.b32 [global_smem], %r0;"),
    ],
)
def test_a_table_that_may_send_the_issuing_warp_to_another_role_proves_nothing(was: str, now: str) -> None:
    assert dispatched((was, now)).status is Status.UNKNOWN


RULES = {
    "_accumulates": UNKNOWN["another shape"],
    "_disjoint": UNKNOWN["columns at its end"],
    "_only": UNKNOWN["the thread arrives as well"],
    "_clear": UNKNOWN["its operands overwritten before the wait"],
}


@pytest.mark.parametrize("rule", RULES)
def test_a_question_that_is_always_answered_is_shown_by_a_kernel(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Multiplications if hasattr(Multiplications, rule) else OwnMbarriers
    monkeypatch.setattr(owner, rule, lambda self, *arguments: True)
    assert mma(RULES[rule]).status is Status.PROVED  # the checker asks the very rule
    monkeypatch.undo()
    assert mma(RULES[rule]).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("owner", "rule", "body"),
    [
        (Multiplications, "_same_or_apart", STAGED.replace("%r20, 7", "%r20, 6")),
        (Progress, "_tracks", f"{NOT_HANDED['a commit for a pair of CTAs'][0]}\nret;"),
    ],
)
def test_a_rule_about_what_others_wait_for_is_shown_by_a_kernel(
    owner: type, rule: str, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mma(body, after=OBSERVED).status is Status.UNKNOWN
    monkeypatch.setattr(owner, rule, lambda self, *arguments: True)
    assert mma(body, after=OBSERVED).status is Status.PROVED


@pytest.mark.parametrize(
    "discharge",
    [Discharge.WAIT, Discharge.INFEASIBLE, Discharge.ORDERED, Discharge.DISJOINT, Discharge.TRACKED],
)
@pytest.mark.parametrize(
    "name", ["read before the wait", "its operands overwritten before the wait", "no wait"]
)
def test_no_claim_makes_a_pending_operation_complete(
    name: str, discharge: Discharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Multiplications, "_discharge", lambda self, *arguments: discharge)
    found = mma(UNKNOWN[name])
    assert found.status is Status.UNKNOWN
    assert all(o.discharge is discharge for o in found.obligations)


@pytest.mark.parametrize("name", ["the wrong parity", "a wait on one path", "a parity that stays"])
def test_a_state_that_the_prover_leaves_out_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    explore = Multiplications._explore

    def forgets(self: Multiplications, progress: Progress) -> object:
        found = explore(self, progress)
        assert found is not None
        return [{key: frozenset() for key in entry} for entry in found]

    monkeypatch.setattr(Multiplications, "_explore", forgets)
    monkeypatch.setattr(Multiplications, "_discharge", lambda self, *arguments: Discharge.WAIT)
    assert mma(UNKNOWN[name]).status is Status.UNKNOWN


Checked = tuple[Function, Graph, MmaCertificate, MmaQuestions]


def checked(name: str, monkeypatch: pytest.MonkeyPatch) -> Checked:
    """What the checker is given for a kernel that is proved."""
    given = list[Checked]()
    monkeypatch.setattr(module_of_prover, "check_mma", lambda *arguments: given.append(arguments))
    assert mma(PROVED[name]).status is Status.PROVED
    monkeypatch.undo()
    check_mma(*given[-1])
    return given[-1]


def test_the_claims_are_exactly_the_obligations_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    function, graph, claimed, ask = checked("waited for", monkeypatch)
    for need in claimed.claims:
        claims = {n: d for n, d in claimed.claims.items() if n != need}
        with pytest.raises(Refused, match="does not list"):
            check_mma(function, graph, replace(claimed, claims=claims), ask)


def test_a_thread_that_a_certificate_omits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    function, graph, claimed, ask = checked("waited for", monkeypatch)
    with pytest.raises(Refused, match="omits a thread"):
        check_mma(function, graph, replace(claimed, threads={}), ask)


def test_a_state_that_a_certificate_omits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    function, graph, claimed, ask = checked("a parity that alternates", monkeypatch)
    ((thread, states),) = claimed.threads.items()
    for b, entry in enumerate(states):
        for key in entry:
            fewer = list(states)
            fewer[b] = {k: facts for k, facts in entry.items() if k != key}
            with pytest.raises(Refused, match="omits the entry" if b == 0 else "omits a state"):
                check_mma(function, graph, replace(claimed, threads={thread: fewer}), ask)


def test_no_claim_orders_operations_that_the_isa_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    function, graph, claimed, ask = checked("other columns meanwhile", monkeypatch)
    disjoint = {need for need, discharge in claimed.claims.items() if discharge is Discharge.DISJOINT}
    assert disjoint
    for need in disjoint:
        claims = {**claimed.claims, need: Discharge.ORDERED}
        with pytest.raises(Refused, match="neither executed in order"):
            check_mma(function, graph, replace(claimed, claims=claims), ask)
