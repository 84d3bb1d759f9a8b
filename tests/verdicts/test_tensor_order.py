"""What is proved of accesses of different warps to tensor memory: CTA barriers order them, or their lanes differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Status, Verdict
from tclint.verdicts import tensor_space, verdicts
from tclint.verdicts.checker import Refused
from tclint.verdicts.epochs import check
from tclint.verdicts.tensor_order import TensorOrder, TensorOrderByLetter
from tests.tools.support import HEADER, kernel, last_kernel, loop

ALL = frozenset(Assumption)
LETTER = ALL - {Assumption.IMPLIED_FENCES}
START = """mov.u32 %r1, %tid.x;
ld.param.u32 %r9, [number];
setp.lt.u32 %p1, %r1, 32;
setp.eq.u32 %p3, %r9, 0;"""
ALLOC = "@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;"
DEALLOC = "@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
BARRIER = f"{BEFORE}\nbar.sync 0;\n{AFTER}"
ADDRESS = "ld.shared.b32 %r2, [slot];"
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r9};\ntcgen05.wait::st.sync.aligned;"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2];\ntcgen05.wait::ld.sync.aligned;"
BEGIN, END = f"{ALLOC}\n{BARRIER}\n{ADDRESS}", f"{BARRIER}\n{DEALLOC}"


def model_of(body: str, size: str = ".reqntid 256") -> KernelModel:
    text = kernel(f"{START}\n{body}\nret;", directives=size)
    return last_kernel(".shared .align 4 .b32 slot;", text, header=HEADER)


def tensor(body: str, assume: frozenset[Assumption] = LETTER, size: str = ".reqntid 256") -> Verdict:
    (found,) = verdicts(model_of(body, size), assume=assume, only=[HazardClass.TENSOR_MEMORY])
    return found


ARRIVE = "barrier.cluster.arrive.aligned;"
CLUSTER = f"{BEGIN}\n@!%p1 bra a;\n{STORE}\na:\n{BEFORE}\nARRIVE\nbarrier.cluster.wait.aligned;\n{AFTER}\n{LOAD}\n{END}"
PROVED = {
    "freed after a barrier": f"{BEGIN}\n{LOAD}\n{END}",
    "stored by one warp, loaded after a barrier": f"{BEGIN}\n@!%p1 bra a;\n{STORE}\na:\n{BARRIER}\n{LOAD}\n{END}",
    "only loads between two barriers": f"{BEGIN}\n{LOAD}\n{LOAD}\n{END}",
    "a loop with two barriers": f"{BEGIN}\n"
    + loop(f"@!%p1 bra a;\n{STORE}\na:\n{BARRIER}\n{LOAD}\n{BARRIER}")
    + f"\n{END}",
    "one warp does it all": f"@!%p1 bra done;\n{ALLOC}\n{ADDRESS}\n{STORE}\n{LOAD}\n{DEALLOC}\ndone:",
    "the cluster barrier": CLUSTER.replace("ARRIVE", ARRIVE),
    "a barrier under a parameter": f"{BEGIN}\n@%p3 bra a;\n@!%p1 bra b;\n{STORE}\nb:\n{BARRIER}\n{LOAD}\na:\n{END}",
}
ONE_WARPGROUP = {
    "stores and loads of four warps": f"{BEGIN}\n{STORE}\n{LOAD}\n{END}",
    "a store in a loop": f"{BEGIN}\n{loop(f'{STORE}{chr(10)}{LOAD}')}\n{END}",
}
UNKNOWN = {
    "freed without a barrier": f"{BEGIN}\n{LOAD}\n{DEALLOC}",
    "stored by warps of equal rank": f"{BEGIN}\n{STORE}\n{END}",
    "stored, then loaded without a barrier": f"{BEGIN}\n@!%p1 bra a;\n{STORE}\na:\n{LOAD}\n{END}",
    "a back edge without a barrier": f"{BEGIN}\n"
    + loop(f"@!%p1 bra a;\n{STORE}\na:\n{BARRIER}\n{LOAD}")
    + f"\n{END}",
    "a load pending at the barrier": f"{BEGIN}\n{LOAD.splitlines()[0]}\n{END}",
    "a store pending at the barrier": f"{BEGIN}\n@!%p1 bra a;\n{STORE.splitlines()[0]}\na:\n{BARRIER}\n{LOAD}\n{END}",
    "a barrier of some threads": f"{BEGIN}\n{LOAD}\n@!%p1 bra a;\n{BARRIER}\na:\n{DEALLOC}",
    "no fence before the barrier": f"{BEGIN}\n{LOAD}\nbar.sync 0;\n{AFTER}\n{DEALLOC}",
    "no fence after the barrier": f"{ALLOC}\n{BEFORE}\nbar.sync 0;\n{ADDRESS}\n{LOAD}\n{END}",
    "a fence after the load that follows": f"{ALLOC}\n{BEFORE}\nbar.sync 0;\n{ADDRESS}\n{LOAD}\n{AFTER}\n{END}",
    "a fence that some threads execute": f"{BEGIN}\n{LOAD}\n@%p1 {BEFORE}\nbar.sync 0;\n{AFTER}\n{DEALLOC}",
    "a wait after the fence": f"{BEGIN}\n{LOAD.splitlines()[0]}\n{BEFORE}\n{LOAD.splitlines()[1]}\nbar.sync 0;\n{AFTER}\n{DEALLOC}",
    "a multiplication": f"{BEGIN}\ntcgen05.mma.cta_group::1.kind::f16 [%r2], %rd1, %rd2, %r3, %p1;\n{END}",
    "a copy": f"{BEGIN}\ntcgen05.cp.cta_group::1.128x256b [%r2], %rd1;\n{END}",
    "the peer CTA": f"{BEGIN}\n{LOAD}\n{END}".replace("cta_group::1", "cta_group::2"),
    "the fences in the wrong order": f"{BEGIN}\n{LOAD}\n{AFTER}\nbar.sync 0;\n{BEFORE}\n{DEALLOC}",
    "a fence under a parameter": f"{BEGIN}\n{LOAD}\n@%p3 {BEFORE}\nbar.sync 0;\n{AFTER}\n{DEALLOC}",
    "a fence in the block before": f"{BEGIN}\n{LOAD}\n{BEFORE}\n@%p3 bra a;\nmov.b32 %r20, 0;\na:\nbar.sync 0;\n{AFTER}\n{DEALLOC}",
    "a wait for loads after a store": f"{BEGIN}\n@!%p1 bra a;\n{STORE.replace('wait::st', 'wait::ld')}\na:\n{BARRIER}\n{LOAD}\n{END}",
    "a barrier of half the CTA": f"{BEGIN}\n@!%p1 bra a;\n{STORE}\na:\n{BARRIER.replace('0;', '1, 128;')}\n{LOAD}\n{END}",
    "the cluster barrier with a fence after the arrival": CLUSTER.replace(
        f"{BEFORE}\nARRIVE", f"ARRIVE\n{BEFORE}"
    ).replace("ARRIVE", ARRIVE),
    "freed by two warps": f"{BEGIN}\n{LOAD}\n{BARRIER}\nsetp.lt.u32 %p1, %r1, 64;\n{DEALLOC}",
    "an unaligned barrier at which others only arrive": f"{BEGIN}\n{LOAD}\n{BEFORE}\n@%p1 bar.sync 1, 256;\n"
    f"@!%p1 bar.arrive 1, 256;\n{AFTER}\n{DEALLOC}",
}


@pytest.mark.parametrize("name", PROVED)
def test_accesses_that_barriers_and_fences_order_are_proved(name: str) -> None:
    verdict = tensor(PROVED[name])
    assert (verdict.status, verdict.reasons) == (Status.PROVED, ())
    assert verdict.obligations


@pytest.mark.parametrize("name", ONE_WARPGROUP)
def test_warps_of_one_warpgroup_access_different_lanes(name: str) -> None:
    for size in (".reqntid 128", ".maxntid 96"):
        verdict = tensor(ONE_WARPGROUP[name], size=size)
        assert (verdict.status, verdict.reasons) == (Status.PROVED, ())
        assert Assumption.THREADS in verdict.assumptions
    for size in (".reqntid 160", ".maxntid 256", ""):
        assert tensor(ONE_WARPGROUP[name], size=size).status is Status.UNKNOWN


@pytest.mark.parametrize("name", UNKNOWN)
def test_accesses_that_may_be_unordered_are_unknown(name: str) -> None:
    verdict = tensor(UNKNOWN[name])
    assert verdict.status is Status.UNKNOWN
    assert verdict.reasons


def test_allocation_is_not_ordered_by_lanes() -> None:
    text = UNKNOWN["freed without a barrier"]
    assert tensor(text, size=".reqntid 128").status is Status.UNKNOWN
    assert tensor(text, size=".reqntid 32").status is Status.PROVED


def test_refused_assumptions_leave_the_lanes_unknown() -> None:
    (text, _) = ONE_WARPGROUP.values()
    assert tensor(text, frozenset(), ".reqntid 128").status is Status.UNKNOWN


def test_the_reason_names_the_barrier_without_a_fence() -> None:
    first, *_ = tensor(UNKNOWN["no fence before the barrier"]).reasons
    assert first.at is not None
    assert "no tcgen05.fence::before_thread_sync precedes it" in first.what
    assert first.help == "execute both fences beside the barrier"


def test_the_reason_names_what_an_mbarrier_signals() -> None:
    first, *_ = tensor(UNKNOWN["a multiplication"]).reasons
    assert first.at is not None
    assert first.what.startswith("an mbarrier signals its completion")


@pytest.mark.parametrize("discharge", list(Discharge))
@pytest.mark.parametrize("name", ["freed without a barrier", "a load pending at the barrier"])
def test_no_claim_orders_what_may_race(name: str, discharge: Discharge) -> None:
    of = TensorOrderByLetter(model_of(UNKNOWN[name]), LETTER)
    walk = of.walk()
    assert walk is not None
    claimed = replace(walk.certificate, claims=dict.fromkeys(walk.pairs(), discharge))
    with pytest.raises(Refused, match="nothing proves"):
        check(of.function, of.uniform.of, [claimed], of.questions, of.space)


RULES = {
    "misses": ("", "no fence after the barrier"),
    "_foreign": ("", "the peer CTA"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_always_holds_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker and the prover share these rules, so a kernel must show that one is wrong."""
    always, name = RULES[rule]
    assert tensor(UNKNOWN[name]).status is Status.UNKNOWN
    monkeypatch.setattr(tensor_space, rule, lambda *arguments: always)
    if rule == "_foreign":
        space = tensor_space.TENSOR_MEMORY._replace(foreign=lambda *arguments: always)
        monkeypatch.setattr(TensorOrderByLetter, "space", space)
    assert tensor(UNKNOWN[name]).status is Status.PROVED


def test_a_prover_whose_lanes_always_differ_is_wrong_about_two_warpgroups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TensorOrder, "_one_warpgroup", True)
    assert tensor(UNKNOWN["stored by warps of equal rank"]).status is Status.PROVED


WITHOUT_FENCES = [
    "no fence before the barrier",
    "no fence after the barrier",
    "a fence after the load that follows",
    "a fence that some threads execute",
    "the fences in the wrong order",
    "a fence under a parameter",
    "a fence in the block before",
    "a wait after the fence",
    "the cluster barrier with a fence after the arrival",
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_barriers_alone_order_accesses_only_if_that_may_be_assumed(name: str) -> None:
    found = tensor(UNKNOWN[name], ALL)
    assert (found.status is Status.PROVED) is (name in WITHOUT_FENCES)
    assert name not in WITHOUT_FENCES or Assumption.IMPLIED_FENCES in found.assumptions
