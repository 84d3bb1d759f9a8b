"""What is proved of setmaxnreg: every .inc gets the registers that it requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.verdicts import verdicts
from tclint.verdicts.checker import Refused
from tclint.verdicts.register_pool import RegisterPool
from tclint.verdicts.warp_registers import Pool, PoolCertificate, check
from tests.tools.support import WGMMA, kernel, last_kernel

ALL = frozenset(Assumption)
SIZE = ".reqntid 384\n.minnctapersm 1"
BODY = """.func waits()
{
.reg .pred %p;
.reg .b32 %r;
top: ld.shared.b32 %r, [slot];
setp.eq.s32 %p, %r, 0;
@%p bra top;
ret;
}"""
SLOT = ".shared .align 16 .b8 slot[32];\n.global .surfref image;\n.global .texref picture;"
START = """ld.param.u32 %r9, [number];
ld.param.u64 %rd1, [pointer];
mov.u32 %r1, %tid.x;
mov.u32 %r3, slot;
setp.lt.u32 %p1, %r1, 128;
setp.lt.u32 %p2, %r1, 256;
setp.lt.u32 %p3, %r1, 64;
setp.eq.s32 %p4, %r9, 0;
and.b32 %r4, %r1, 31;
setp.eq.s32 %p5, %r4, 0;"""
BARRIER = "bar.sync 0;"
WAIT = "spin:\nmbarrier.try_wait.parity.shared::cta.b64 %p6, [%r3], 0;\n@!%p6 bra spin;"
REQUEST = """\
mbarrier.init.shared::cta.b64 [%r3], 1;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3+16], [%r3];"""
POLL = "poll:\nld.acquire.gpu.global.b32 %r8, [%rd1];\nsetp.ne.s32 %p7, %r8, 0;\n@%p7 bra poll;"


def dec(count: int) -> str:
    return f"setmaxnreg.dec.sync.aligned.u32 {count};"


def inc(count: int) -> str:
    return f"setmaxnreg.inc.sync.aligned.u32 {count};"


def roles(producer: str = dec(40), consumer: str = inc(232), before: str = "", condition: str = "%p1") -> str:
    """A kernel whose first warpgroup executes *producer*, and the others *consumer*."""
    return f"{before}\n@{condition} bra producer;\n{consumer}\nst.global.b32 [%rd1], %r1;\nret;\nproducer:\n{producer}"


def pool(body: str, assume: frozenset[Assumption] = ALL, size: str = SIZE) -> Verdict:
    model = last_kernel(SLOT, BODY, kernel(f"{START}\n{body}\nret;", directives=size))
    (found,) = verdicts(model, assume=assume, only=[HazardClass.REGISTER_POOL])
    return found


ALLOCATE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 512;"
FIRST_WARP = "setp.lt.u32 %p10, %r1, 32;\n"


def repeated(body: str) -> str:
    """A loop that ends when *body* has cleared %p11 in all lanes."""
    return f"again:\n{body}\nvote.sync.any.pred %p12, %p11, -1;\n@%p12 bra again;"


PROVED = {
    "a producer and two consumers": roles(),
    "a consumer that needs less": roles(consumer=inc(208)),
    "a launch with what the consumers need": roles(consumer=inc(160)),
    "a barrier before": roles(before=BARRIER),
    "a request to cancel a cluster before": roles(before=REQUEST),
    "an arrival at another barrier": roles(before=f"@%p1 bar.arrive 1, 384;\n{BARRIER}"),
    "an arrival at the barrier after": roles(before=f"{BARRIER}\n@%p1 bar.arrive 0, 384;"),
    "a smaller barrier of its number after it": roles(dec(40) + "\nbar.sync 0, 256;", before=BARRIER),
    "one of two barriers of a parameter": roles(before="bar.sync %r9;"),
    "a cluster barrier before": roles(
        before="barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
    ),
    "a wait after": roles(dec(40) + f"\n{WAIT}", inc(232) + f"\n{BARRIER}"),
    "an initialisation by one thread": roles(before=f"@%p5 mbarrier.init.shared.b64 [%r3], 1;\n{BARRIER}"),
    "the previous grid": roles(before="griddepcontrol.wait;"),
    "a loop that counts": roles(
        before="mov.b32 %r10, 0;\ntop:\nadd.s32 %r10, %r10, 1;\nsetp.lt.s32 %p8, %r10, 4;\n@%p8 bra top;"
    ),
    "a guard": f"@%p1 {dec(40)}\n@!%p1 {inc(232)}",
    "all release": dec(40),
    "a warpgroup that keeps its registers": f"@%p2 bra a;\nret;\na:\n{roles(dec(96), inc(240))}",
    "an allocation of tensor memory by one warp": roles(
        before=f"{FIRST_WARP}@!%p10 bra shared;\n{ALLOCATE}\nshared:\n{BARRIER}"
    ),
    "tensor memory that is read once": roles(before="tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r9];"),
    "one vote of a warp": roles(before="vote.sync.any.pred %p9, %p5, -1;"),
}
UNKNOWN = {
    "too many in the pool": roles(consumer=inc(240)),
    "none released": roles(consumer=inc(176), producer=""),
    "a producer that keeps its registers": roles(producer="@%p4 bra end;\n" + dec(40) + "\nend:"),
    "a producer that keeps them under a guard": roles(producer=f"@%p4 {dec(40)}"),
    "half a warpgroup": roles(condition="%p3"),
    "a condition of loaded data": roles(
        before="ld.global.b32 %r8, [%rd1];\nsetp.eq.s32 %p9, %r8, 0;", condition="%p9"
    ),
    "a condition of a lane": roles(condition="%p5"),
    "a barrier between the roles": roles(f"{BARRIER}\n{dec(40)}", f"{inc(232)}\n{BARRIER}"),
    "a barrier in the producer": roles(f"{BARRIER}\n{dec(40)}"),
    "a barrier in a loop before": roles(
        before=f"mov.b32 %r10, 0;\ntop:\n{BARRIER}\nadd.s32 %r10, %r10, 1;\nsetp.lt.s32 %p8, %r10, 4;\n@%p8 bra top;"
    ),
    "a barrier of some threads before": roles(before="bar.sync 1, 256;"),
    "a guarded barrier before": roles(before=f"@%p4 {BARRIER}"),
    "an arrival at a barrier before": roles(before=f"@%p1 bar.arrive 0, 384;\n{BARRIER}"),
    "an arrival between two barriers": roles(before=f"{BARRIER}\n@%p1 bar.arrive 0, 384;\n{BARRIER}"),
    "an arrival at a barrier that may be the same": roles(before=f"@%p1 bar.arrive %r9, 384;\n{BARRIER}"),
    "an arrival at a barrier of an unknown number": roles(before="@%p1 bar.arrive 1, 384;\nbar.sync %r9;"),
    "other warps arrive again and again": (
        f"@%p2 bra a;\nbar.arrive 0, 384;\nbar.arrive 0, 384;\nret;\na:\n{BARRIER}\n{roles(dec(96), inc(240))}"
    ),
    "a cluster barrier at which no thread has arrived": roles(before="barrier.cluster.wait.aligned;"),
    "a cluster barrier at which some threads have not arrived": roles(
        before="@%p1 barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
    ),
    "an mbarrier waited for before the release": roles(f"{WAIT}\n{dec(40)}"),
    "an mbarrier waited for before the request": roles(consumer=f"{WAIT}\n{inc(232)}"),
    "a poll of memory before": roles(f"{POLL}\n{dec(40)}"),
    "a poll of a surface before": roles(
        before=repeated("suld.b.1d.b32.trap %r8, [image, {%r9}];\nsetp.eq.s32 %p11, %r8, 0;")
    ),
    "a poll of a texture before": roles(
        before=repeated(
            "tex.1d.v4.s32.s32 {%r8, %r10, %r11, %r12}, [picture, {%r9}];\nsetp.eq.s32 %p11, %r8, 0;"
        )
    ),
    "a poll of tensor memory before": roles(
        before=repeated(
            "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r9];\ntcgen05.wait::ld.sync.aligned;\nsetp.eq.s32 %p11, %r8, 0;"
        )
    ),
    "a poll of the sums of a wgmma before": roles(
        before=repeated(f"{WGMMA}\nwgmma.wait_group.sync.aligned 0;\nsetp.eq.f32 %p11, %f0, %f1;")
    ),
    "an allocation of tensor memory by all warps": roles(before=ALLOCATE),
    "an allocation of tensor memory in a loop": roles(
        before=f"{FIRST_WARP}@!%p10 bra shared;\n{repeated(ALLOCATE)}\nshared:"
    ),
    "two allocations of tensor memory": roles(
        f"{dec(40)}\n@%p3 bra end;\n{ALLOCATE}\nend:",
        before=f"{FIRST_WARP}@!%p10 bra shared;\n{ALLOCATE}\nshared:",
    ),
    "a call before": roles(f"call waits;\n{dec(40)}"),
    "twice": roles(f"{dec(96)}\n{BARRIER}\n{dec(40)}"),
    "in a loop": f"mov.b32 %r10, 0;\ntop:\n{dec(40)}\nadd.s32 %r10, %r10, 1;\nsetp.lt.s32 %p8, %r10, 4;\n@%p8 bra top;",
    "a release of more than a warp owns": dec(176),
    "a request of less than a warp owns": roles(
        dec(40) + f"\n{WAIT}", f"@%p2 bra a;\n{inc(176)}\nret;\na:\n{inc(160)}"
    ),
    "a count that is not a multiple": dec(44),
    "a count that is too small": dec(16),
    "one warpgroup too many": f"@%p2 bra a;\nret;\na:\n{roles(dec(104), inc(240))}",
}


@pytest.mark.parametrize("name", PROVED)
def test_requests_that_can_be_met_are_proved(name: str) -> None:
    found = pool(PROVED[name])
    assert found.status is Status.PROVED, found.reasons
    assert {o.discharge for o in found.obligations} == {Discharge.UNIFORM, Discharge.POOL}


@pytest.mark.parametrize("name", UNKNOWN)
def test_requests_that_may_block_are_unknown(name: str) -> None:
    assert pool(UNKNOWN[name]).status is Status.UNKNOWN


def test_a_launch_with_an_unknown_count_is_unknown() -> None:
    found = pool(roles(), size=".reqntid 384")
    assert found.status is Status.UNKNOWN
    assert ".minnctapersm" in found.reasons[0].help


def test_the_count_at_launch_is_an_assumption() -> None:
    needed = {Assumption.REGISTERS, Assumption.NO_OVERFLOW, Assumption.THREADS}
    assert set(pool(roles()).assumptions) == needed
    for each in needed:
        assert pool(roles(), ALL - {each}).status is Status.UNKNOWN


def test_a_setmaxnreg_after_a_divergent_branch_rests_on_reconvergence() -> None:
    body = roles(before="@%p5 bra one;\nadd.s32 %r8, %r9, 1;\none:")
    assert Assumption.RECONVERGENCE not in pool(roles()).assumptions
    assert Assumption.RECONVERGENCE in pool(body).assumptions
    assert pool(body, ALL - {Assumption.RECONVERGENCE}).status is Status.UNKNOWN


LAST = roles(condition="!%p2")
MAXIMUM = ".maxntid 384\n.minnctapersm 1"


def test_the_maximum_is_the_size_of_a_kernel_that_never_asks_for_it() -> None:
    found = pool(LAST, size=MAXIMUM)
    assert found.status is Status.PROVED, found.reasons
    assert Assumption.FULL_CTA in found.assumptions
    assert pool(LAST, ALL - {Assumption.FULL_CTA}, size=MAXIMUM).status is Status.UNKNOWN


def test_without_a_size_every_number_of_warpgroups_must_do() -> None:
    asks = "mov.u32 %r40, %ntid.x;\n"
    assert pool(asks + roles(), size=MAXIMUM).status is Status.PROVED
    assert pool(asks + LAST).status is Status.PROVED
    assert pool(asks + LAST, size=MAXIMUM).status is Status.UNKNOWN


def test_a_barrier_that_may_count_some_threads_is_unknown() -> None:
    counted = roles(before="mov.u32 %r8, %ntid.x;\nbar.sync 1, %r9;")
    assert pool(counted, size=".maxntid 384\n.minnctapersm 1").status is Status.UNKNOWN


def test_incomplete_warpgroups_are_unknown() -> None:
    assert pool(roles(), size=".reqntid 352\n.minnctapersm 1").status is Status.UNKNOWN


# ---------------------------------------------------------------- the checker


def prover(body: str) -> RegisterPool:
    model = last_kernel(SLOT, BODY, kernel(f"{START}\n{body}\nret;", directives=SIZE))
    return RegisterPool(KernelModel(model.function, model.module, strict=True), ALL)


def accepted(of: RegisterPool, claimed: PoolCertificate) -> None:
    made, launch = of.pool(), of.launch()
    assert launch is not None
    check(Pool(of.function, of.uniform.of, claimed, made.ask), launch)


def test_threads_that_a_certificate_omits_are_noticed() -> None:
    of = prover(roles(before=BARRIER))
    claimed = of.pool().certificate
    accepted(of, claimed)
    for name in ("before", "after"):
        known: Sequence[int] = getattr(claimed, name)
        for b, threads in enumerate(known):
            if threads:
                fewer = [0 if at == b else each for at, each in enumerate(known)]
                with pytest.raises(Refused, match="omits threads"):
                    accepted(of, replace(claimed, **{name: fewer}))


@pytest.mark.parametrize("name", UNKNOWN)
def test_the_checker_refuses_by_itself(name: str) -> None:
    of = prover(UNKNOWN[name])
    with pytest.raises(Refused):
        accepted(of, of.pool().certificate)


RULES = {
    "_joins": ("an arrival at a barrier before", lambda *arguments: False),
    "_in_turn": ("a cluster barrier at which no thread has arrived", True),
    "excess": ("too many in the pool", lambda *arguments: ""),
    "wrong": ("a count that is too small", lambda *arguments: ""),
    "waiting": ("a poll of memory before", lambda *arguments: iter(())),
    "_by_all": ("a barrier between the roles", lambda *arguments: True),
}


def test_no_warp_releases_down_to_more_than_a_thread_may_have() -> None:
    size = ".reqntid 256\n.minnctapersm 1"
    assert pool(roles(dec(32), dec(248)), size=size).status is Status.PROVED
    verdict = pool(roles(dec(32), dec(256)), size=size)
    assert verdict.status is Status.UNKNOWN
    assert "may not request 256" in verdict.reasons[0].what


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_always_holds_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker and the prover share these rules, so a kernel must show that one is wrong."""
    name, always = RULES[rule]
    assert pool(UNKNOWN[name]).status is Status.UNKNOWN
    monkeypatch.setattr(Pool, rule, always)
    assert pool(UNKNOWN[name]).status is Status.PROVED


def test_a_prover_that_takes_all_threads_for_together_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegisterPool, "_divergence", lambda self, of: "")
    found = pool(UNKNOWN["a condition of loaded data"])
    assert found.status is Status.UNKNOWN
    assert all(o.discharge is not None for o in found.obligations)
