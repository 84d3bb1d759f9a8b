"""What is proved of proxies within a thread: a fence separates accesses of one location through two of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.isa.accesses import StateSpace
from tclint.verdicts import verdicts
from tclint.verdicts.checker import Refused
from tclint.verdicts.proxies import Proxies
from tclint.verdicts.proxy_checker import (
    FENCED,
    ProxyCertificate,
    ProxyFenced,
    ProxyPair,
    ProxyQuestions,
    check_proxies,
)
from tests.tools.support import HEADER, built, kernel, module

SHARED = (
    ".shared .align 1024 .b8 tile[8192];\n.shared .align 1024 .b8 other[8192];\n.shared .align 8 .b64 full;"
)
PLAIN = ".func plain()\n{\nret;\n}"
START = """ld.param.u64 %rd1, [pointer];
ld.param.u64 %rd2, [second];
ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
mov.u32 %r3, tile;
mov.u32 %r4, other;
mov.u32 %r8, full;
mov.b64 %rd9, map;
setp.eq.s32 %p0, %r9, 0;"""
PARAMETERS = ".param .u64 pointer, .param .u64 second, .param .u64 stride, .param .u32 number, .param .align 64 .b8 map[128]"
FENCE = "fence.proxy.async.shared::cta;"
WRITE = "st.shared.b32 [%r3], %r9;"
READ = "ld.shared.b32 %r10, [%r3];"
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 1024;"
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 1024, [%r8];"
TENSOR = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd9, {%r9}], [%r8];"
)
COPY = "cp.async.cg.shared.global [%r3], [%rd2], 16;"
WAITED = "cp.async.wait_all;"
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd5, %rd6, %r6, %p1;"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];"
POLL = "wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0;\n@!%p2 bra wait;"
USE_MAP = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1, {%r9}], [%r8];"
)
SET_MAP = "st.global.b64 [%rd1], %rd2;"
RELEASE = "fence.proxy.tensormap::generic.release.gpu;"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"


def model_of(body: str, shared: str = SHARED) -> KernelModel:
    text = kernel(f"{START}\n{body}\nret;")
    text = text[: text.index("(")] + f"({PARAMETERS})" + text[text.index(")") + 1 :]
    made = built(module(shared, PLAIN, text, header=HEADER))
    assert not made.errors, made.errors
    model = KernelModel(made.functions[-1], made)
    assert not any(use.match is None or use.match.problem for use in model.function.uses)
    return model


def proxies(
    body: str, assume: frozenset[Assumption] = frozenset(Assumption), shared: str = SHARED
) -> Verdict:
    (found,) = verdicts(model_of(body, shared), assume=assume, only=[HazardClass.PROXIES])
    return found


def loop(body: str) -> str:
    return f"top:\n{body}\nadd.s32 %r11, %r11, 1;\nsetp.lt.s32 %p3, %r11, %r9;\n@%p3 bra top;"


NEXT = "st.shared.b32 [%r12+1024], %r9;"
"""A store just after the bytes that a copy from %r12 reads."""
ADVANCE = "add.s32 %r12, %r12, 1024;"


def stages(body: str) -> str:
    """A loop in which %r12 is the address of one stage after the other."""
    return f"mov.b32 %r12, %r3;\n{loop(body)}"


PROVED = {
    "the next stage, with a fence before the next iteration": stages(
        f"{NEXT}\n{STORE.replace('%r3', '%r12')}\n{FENCE}\n{ADVANCE}"
    ),
    "a fence between a store and a copy out": f"{WRITE}\n{FENCE}\n{STORE}",
    "a fence for all memory": f"{WRITE}\nfence.proxy.async;\n{STORE}",
    "a fence for the cluster": f"{WRITE}\nfence.proxy.async.shared::cluster;\n{STORE}",
    "a fence at the start of each iteration": loop(f"{FENCE}\n{STORE}\n{WRITE}"),
    "two reads": f"{READ}\n{STORE}",
    "the copy is before the store": f"{STORE}\n{WRITE}",
    "other bytes": f"{WRITE.replace('%r3', '%r3+1024')}\n{STORE}",
    "another variable": f"{WRITE.replace('%r3', '%r4')}\n{STORE}",
    "a fence in each iteration": loop(f"{WRITE}\n{FENCE}\n{STORE}"),
    "a fence between a load and a copy over its bytes": f"{READ}\n{FENCE}\n{LOAD}",
    "a load of what a copy wrote": f"{LOAD}\n{POLL}\n{READ}",
    "a fence after the wait for a cp.async": f"{COPY}\n{WAITED}\n{FENCE}\n{STORE}",
    "a fence after the wait for a group": (
        f"{COPY}\ncp.async.commit_group;\ncp.async.wait_group 0;\n{FENCE}\n{STORE}"
    ),
    "a fence after the wait for a multiplication": f"{MMA}\n{COMMIT}\n{POLL}\n{FENCE}\n{WRITE}",
    "a store to global memory and a copy from another parameter": f"st.global.b32 [%rd1], %r9;\n{LOAD}",
    "a store at a distance that another parameter states": (
        "ld.param.u64 %rd4, [stride];\nshl.b64 %rd4, %rd4, 2;\nadd.s64 %rd4, %rd1, %rd4;\n"
        f"st.global.b32 [%rd4], %r9;\n{LOAD}"
    ),
    "read-only loads": f"ld.global.nc.b32 %r10, [%rd1];\n{STORE}",
    "a map in a parameter": f"st.global.b32 [%rd1], %r9;\n{TENSOR}",
    "a map that is released and acquired": f"{SET_MAP}\n{RELEASE}\n{ACQUIRE}\nfence.proxy.async;\n{USE_MAP}",
    "a map that an instruction for maps writes": (
        "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;\n"
        + f"{RELEASE}\n{ACQUIRE}\n{USE_MAP}"
    ),
    "guarded alike": f"@%p0 {WRITE}\n@%p0 {FENCE}\n@%p0 {STORE}",
    "a store on the other path": f"@%p0 bra a;\n{WRITE}\nbra b;\na:\n{STORE}\nb:",
    "a call with a fence after it": f"call plain;\nfence.proxy.async;\n{STORE}",
    "an allocation is read": (f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;\n{STORE}"),
    "a tensor copy that writes as much as is expected": (
        f"ld.shared.b32 %r10, [%r4];\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 8192;\n{TENSOR}"
    ),
    "an mbarrier is initialised": f"mbarrier.init.shared::cta.b64 [%r8], 1;\n{LOAD}",
}
UNKNOWN = {
    "no fence": f"{WRITE}\n{STORE}",
    "a fence before the store": f"{FENCE}\n{WRITE}\n{STORE}",
    "a fence after the copy": f"{WRITE}\n{STORE}\n{FENCE}",
    "a fence for global memory": f"{WRITE}\nfence.proxy.async.global;\n{STORE}",
    "a memory fence": f"{WRITE}\nfence.acq_rel.gpu;\n{STORE}",
    "a barrier": f"{WRITE}\nbar.sync 0;\n{STORE}",
    "a fence of another proxy": f"{WRITE}\nfence.proxy.alias;\n{STORE}",
    "a fence in one direction between threads": (
        f"{WRITE}\nfence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;\n{STORE}"
    ),
    "a fence on one of two paths": f"{WRITE}\n@%p0 bra a;\n{FENCE}\na:\n{STORE}",
    "a guarded fence": f"{WRITE}\n@%p0 {FENCE}\n{STORE}",
    "a guarded fence of the other threads": f"@%p0 {WRITE}\n@!%p0 {FENCE}\n@%p0 {STORE}",
    "the back edge": FENCE + "\n" + loop(f"{STORE}\n{WRITE}"),
    "the next stage, which the next iteration copies": stages(
        f"{STORE.replace('%r3', '%r12')}\n{NEXT}\n{ADVANCE}"
    ),
    "the last byte": f"st.shared.b8 [%r3+1023], %r9;\n{STORE}",
    "a vector that reaches into the copy": f"st.shared.v4.b32 [%r3+-8], {{%r9, %r9, %r9, %r9}};\n{STORE}",
    "an index from memory": f"ld.global.u32 %r12, [%rd1];\nadd.s32 %r12, %r12, %r4;\nst.shared.b32 [%r12], %r9;\n{STORE}",
    "a generic store": f"st.b32 [%rd3], %r9;\n{STORE}",
    "a load and a copy over its bytes": f"{READ}\n{LOAD}",
    "an atomic operation": f"atom.shared.add.u32 %r10, [%r3], 1;\n{STORE}",
    "a reduction": f"red.shared.add.u32 [%r3], 1;\n{STORE}",
    "stmatrix": f"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {{%r9}};\n{STORE}",
    "stmatrix to bytes of other lanes": f"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {{%r9}};\n{STORE}",
    "a cp.async that is not waited for": f"{COPY}\n{FENCE}\n{STORE}",
    "a fence before the wait for a cp.async": f"{COPY}\n{FENCE}\n{WAITED}\n{STORE}",
    "a wait that leaves the group": (
        f"{COPY}\ncp.async.commit_group;\ncp.async.wait_group 1;\n{FENCE}\n{STORE}"
    ),
    "a multiplication of what is stored": f"{WRITE}\n{MMA}",
    "a store over what a multiplication reads": f"{MMA}\n{COMMIT}\n{POLL}\n{WRITE}",
    "a fence before the wait for a multiplication": f"{MMA}\n{COMMIT}\n{FENCE}\n{POLL}\n{WRITE}",
    "a fence before the commit of a multiplication": f"{MMA}\n{FENCE}\n{COMMIT}\n{POLL}\n{WRITE}",
    "a store to global memory and a copy from it": f"st.global.b32 [%rd2], %r9;\n{LOAD}",
    "a fence for shared memory after a store to global memory": f"st.global.b32 [%rd2], %r9;\n{FENCE}\n{LOAD}",
    "a pointer from memory": f"ld.global.u64 %rd4, [%rd1];\nst.global.b32 [%rd4], %r9;\n{LOAD}",
    "either of two pointers": f"selp.b64 %rd4, %rd1, %rd2, %p0;\nst.global.b32 [%rd4], %r9;\n{LOAD}",
    "a store to global memory and a load by a map": f"ld.global.u64 %rd4, [%rd1];\nst.global.b32 [%rd4], %r9;\n{TENSOR}",
    "a map without fences": f"{SET_MAP}\nfence.proxy.async;\n{USE_MAP}",
    "a map that is not acquired": f"{SET_MAP}\n{RELEASE}\nfence.proxy.async;\n{USE_MAP}",
    "a map that is not released": f"{SET_MAP}\n{ACQUIRE}\nfence.proxy.async;\n{USE_MAP}",
    "a map that is acquired too early": f"{SET_MAP}\n{ACQUIRE}\n{RELEASE}\nfence.proxy.async;\n{USE_MAP}",
    "another map is acquired": (
        f"{SET_MAP}\n{RELEASE}\n{ACQUIRE.replace('%rd1', '%rd2')}\nfence.proxy.async;\n{USE_MAP}"
    ),
    "a map that is acquired on one path": (
        f"{SET_MAP}\n{RELEASE}\n@%p0 bra a;\n{ACQUIRE}\na:\nfence.proxy.async;\n{USE_MAP}"
    ),
    "a map that is written after its use": f"{USE_MAP}\n{SET_MAP}",
    "a map that is written again": loop(f"{RELEASE}\n{ACQUIRE}\n{USE_MAP}\n{SET_MAP}\nfence.proxy.async;"),
    "a call": f"call plain;\n{STORE}",
    "a call after a multiplication": f"{MMA}\ncall plain;",
    "an allocation is overwritten": f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;\n{LOAD}",
    "bytes in bulk that reach into the copy": (
        f"st.bulk.weak.shared::cta [%r3+-1024], 2048, 0;\n{STORE}"
    ),
    "bytes in bulk, whose number is unknown": f"st.bulk.weak.shared::cta [%r4], %rd5, 0;\n{STORE}",
    "numbers that are sent, more than a phase expects": (
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 8;\nld.shared.b32 %r10, [%r3+8];\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r3], {%r9, %r9, %r9, %r9}, [%r8];"
    ),
    "a pointer at a distance from another one": (
        "sub.s64 %rd4, %rd2, %rd1;\nand.b64 %rd4, %rd4, -16;\nadd.s64 %rd4, %rd1, %rd4;\n"
        f"st.global.b32 [%rd4], %r9;\n{LOAD}"
    ),
    "a pointer at a distance that was divided": (
        "sub.s64 %rd4, %rd2, %rd1;\nshr.s64 %rd4, %rd4, 2;\nmad.lo.s64 %rd4, %rd4, 4, %rd1;\n"
        f"st.global.b32 [%rd4], %r9;\n{LOAD}"
    ),
    "a pointer at the distance of two aligned ones": (
        "and.b64 %rd3, %rd2, -16;\nand.b64 %rd4, %rd1, -16;\nsub.s64 %rd4, %rd3, %rd4;\n"
        f"add.s64 %rd4, %rd1, %rd4;\nst.global.b32 [%rd4], %r9;\n{LOAD}"
    ),
    "a copy from a pointer at a distance": (
        f"st.global.b32 [%rd1], %r9;\nsub.s64 %rd4, %rd1, %rd2;\nand.b64 %rd4, %rd4, -16;\n"
        f"add.s64 %rd4, %rd2, %rd4;\n{LOAD.replace('%rd2', '%rd4')}"
    ),
    "a commit for a pair of CTAs": f"{MMA}\n{COMMIT.replace('group::1', 'group::2')}\n{POLL}\n{FENCE}\n{WRITE}",
    "an mbarrier is invalidated": f"mbarrier.inval.shared::cta.b64 [%r3];\n{LOAD}",
    "a tensor copy of unknown size": f"ld.shared.b32 %r10, [%r4];\n{TENSOR}",
    "a tensor copy that writes more": (
        f"ld.shared.b32 %r10, [%r4];\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 8196;\n{TENSOR}"
    ),
    "a store that leaves its variable": f"st.shared.b32 [%r4+8192], %r9;\n{STORE}",
    "shared memory of another CTA": (
        f"st.shared::cluster.b32 [%r12], %r9;\n{FENCE}\n"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r13], [%r4], 1024, [%r14];"
    ),
    "a fence in a loop that may not be entered": (
        f"{WRITE}\nmov.u32 %r11, 0;\nhead:\nsetp.ge.s32 %p3, %r11, %r9;\n@%p3 bra done;\n{FENCE}\n"
        f"add.s32 %r11, %r11, 1;\nbra head;\ndone:\n{STORE}"
    ),
    "a fence in one target of a branch table": (
        f"{WRITE}\nts: .branchtargets a, b;\nbrx.idx %r9, ts;\na:\n{FENCE}\nb:\n{STORE}"
    ),
    "tiles that two registers exchange in a loop": loop(
        f"{WRITE}\n{STORE.replace('%r3', '%r4')}\nmov.b32 %r12, %r3;\nmov.b32 %r3, %r4;\nmov.b32 %r4, %r12;"
    ),
    "pointers that two registers exchange in a loop": loop(
        f"st.global.b32 [%rd1], %r9;\n{LOAD}\nmov.b64 %rd5, %rd1;\nmov.b64 %rd1, %rd2;\nmov.b64 %rd2, %rd5;"
    ),
    "a map whose address moves after it was acquired": loop(
        f"{SET_MAP}\n{RELEASE}\n{ACQUIRE}\nfence.proxy.async;\nadd.s64 %rd1, %rd1, 128;\n{USE_MAP}"
    ),
    "a surface": f"sust.b.1d.b32.trap [%rd3, {{%r9}}], {{%r9}};\n{LOAD}",
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_accesses_that_a_fence_separates_are_proved(name: str) -> None:
    found = proxies(PROVED[name])
    assert found.status is Status.PROVED, found.reasons


@pytest.mark.parametrize("name", UNKNOWN)
def test_accesses_that_may_not_be_separated_are_unknown(name: str) -> None:
    assert proxies(UNKNOWN[name]).status is Status.UNKNOWN


def test_a_fence_alone_needs_no_assumption() -> None:
    found = proxies(PROVED["a fence between a store and a copy out"], frozenset())
    assert found.status is Status.PROVED
    assert {o.discharge for o in found.obligations} == {Discharge.FENCED}


@pytest.mark.parametrize(
    ("name", "assumption"),
    [
        ("other bytes", Assumption.NO_OVERFLOW),
        ("a store to global memory and a copy from another parameter", Assumption.NO_ALIAS),
        ("guarded alike", Assumption.SAME_LOADS),
        ("a tensor copy that writes as much as is expected", Assumption.EXPECTED),
    ],
)
def test_a_proof_names_what_it_assumes(name: str, assumption: Assumption) -> None:
    assert assumption in proxies(PROVED[name]).assumptions
    assert proxies(PROVED[name], frozenset(Assumption) - {assumption}).status is Status.UNKNOWN


RULES = {
    "_separated": "no fence",
    "_infeasible": "no fence",
    "_disjoint": "no fence",
    "_acquires": "another map is acquired",
    "_is_constant": "a map without fences",
    "_of_different_parameters": "a store to global memory and a copy from it",
    "_of_map_and_tensor": "a store to global memory and a copy from it",
    "_ranges_disjoint": "the last byte",
}


@pytest.mark.parametrize("rule", RULES)
def test_a_prover_whose_rule_always_holds_is_refused(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = UNKNOWN[RULES[rule]]
    monkeypatch.setattr(Proxies, rule, lambda self, *arguments: True)
    found = proxies(body)
    if rule == "_separated":  # the checker decides it itself
        assert found.status is Status.UNKNOWN
        assert all(o.discharge is not None for o in found.obligations)
        return
    assert (
        found.status is Status.PROVED
    )  # the checker asks the very rule, so the kernel must be one that shows it
    monkeypatch.undo()
    assert proxies(body).status is Status.UNKNOWN


def test_a_transfer_that_forgets_a_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    after = ProxyFenced.executed
    calls = iter(range(10_000))

    def forgets(self: ProxyFenced, state: frozenset[object], at: int) -> frozenset[object]:
        return frozenset() if next(calls) < 8 else after(self, state, at)  # type: ignore[arg-type]

    monkeypatch.setattr(ProxyFenced, "executed", forgets)
    assert proxies(UNKNOWN["a guarded fence"]).status is Status.UNKNOWN


# ---------------------------------------------------------------- the checker


def prover(body: str) -> tuple[Proxies, ProxyCertificate]:
    """The prover of a kernel that is proved, and its certificate."""
    model = model_of(body)
    of = Proxies(KernelModel(model.function, model.module, strict=True), frozenset(Assumption))
    found = {pair: of._discharge(pair, cheap=False) for pair in of.pairs()}
    claims = {pair: discharge for pair, discharge in found.items() if discharge is not None}
    assert len(claims) == len(found)
    return of, ProxyCertificate(of.unfenced.entry, claims)


def accepted(of: Proxies, claimed: ProxyCertificate) -> None:
    questions = ProxyQuestions(of._infeasible, of._disjoint, of._acquires)
    check_proxies(of.model.function, of.graph, claimed, questions)


def test_an_access_that_is_missing_at_an_entry_is_refused() -> None:
    of, claimed = prover(PROVED["a fence at the start of each iteration"])
    accepted(of, claimed)
    assert any(claimed.unfenced)
    for b, state in enumerate(claimed.unfenced):
        for fact in state:
            unfenced = list(claimed.unfenced)
            unfenced[b] = state - {fact}
            with pytest.raises(Refused, match="omits an access"):
                accepted(of, replace(claimed, unfenced=unfenced))


def test_the_claims_are_exactly_the_pairs_of_the_kernel() -> None:
    of, claimed = prover(PROVED["a fence in each iteration"])
    for pair in claimed.claims:
        with pytest.raises(Refused, match="nothing proves"):
            accepted(of, replace(claimed, claims={p: d for p, d in claimed.claims.items() if p != pair}))
    more = {**claimed.claims, ProxyPair(0, 0, StateSpace.SHARED, FENCED): Discharge.FENCED}
    with pytest.raises(Refused, match="does not have"):
        accepted(of, replace(claimed, claims=more))
