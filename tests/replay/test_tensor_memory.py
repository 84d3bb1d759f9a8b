"""Replays: accumulators and operands in tensor memory."""

from __future__ import annotations

import pytest

from tclint.checks.replay import replayed
from tests.tools.replay import GIVE, LOADED, TWO, WAIT, changed, replay, reports, what


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
    assert "reads tensor memory that tcgen05.mma may not have written yet" in found.message
    assert [step.role for step in found.steps] == ["warp 4", "warp 4", "warps 0-3", "warps 0-3"]


def test_the_finding_about_a_result_that_is_overwritten_too_early() -> None:
    (found,) = reports(changed(LOADED + GIVE, GIVE + LOADED, TWO))
    assert found.rule.id == "TC002"
    assert "overwrites tensor memory that tcgen05.ld may still be reading" in found.message
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


def test_operands_in_tensor_memory_that_are_handed_over() -> None:
    assert replay(HANDED).run is None


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
