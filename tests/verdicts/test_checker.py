"""The checker refuses every certificate that does not prove what it claims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tclint.analyses.in_flight import Pending
from tclint.findings.verdicts import Assumption, Discharge
from tclint.verdicts.checker import (
    CompletionCertificate,
    CompletionQuestions,
    ProofObligation,
    Refused,
    check,
    names_shared,
    reads_result,
    touches_shared,
    writes_shared,
)
from tclint.verdicts.completion import TENSOR_GROUPS, WGMMA_GROUPS, Completion
from tests.tools.support import HEADER, HOPPER, WGMMA, analysed, function, kernel, module

NEVER = CompletionQuestions(lambda need, transfer: False, lambda need, pending: False)
BODY = f"""setp.ne.b32 %p0, 0, 0;
ld.param.u32 %r9, [number];
wgmma.fence.sync.aligned;
top:
{WGMMA}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 1;
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, %r9;
@%p1 bra top;
wgmma.wait_group.sync.aligned 0;
add.f32 %f9, %f0, %f1;
ret;"""
UNWAITED = BODY.replace("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;")
EARLY = BODY.replace("wgmma.fence.sync.aligned;\n", "")
COLUMNS = """ld.param.u32 %r9, [number];
tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9], {%r20, %r21};
tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r22, %r23}, [%r9];
tcgen05.wait::st.sync.aligned;
tcgen05.wait::ld.sync.aligned;
ret;"""


def prover(body: str, *, tensor: bool = False) -> Completion:
    model = analysed(module(kernel(body), header=HEADER if tensor else HOPPER))
    return Completion(model, TENSOR_GROUPS if tensor else WGMMA_GROUPS, frozenset(Assumption))


def certificate(of: Completion) -> CompletionCertificate:
    """The certificate of a prover; an obligation that it cannot discharge is claimed to be waited for."""
    return of.certificate({need: of._discharge(need) or Discharge.WAIT for need in of.needs()})


def refused(
    of: Completion, claimed: CompletionCertificate, questions: CompletionQuestions = NEVER
) -> Refused:
    with pytest.raises(Refused) as caught:
        check(of.model.function, of.graph, claimed, questions)
    return caught.value


def test_what_the_prover_claims_of_a_kernel_that_waits_is_accepted() -> None:
    of = prover(BODY)
    needs = check(of.model.function, of.graph, certificate(of), NEVER)
    assert {need.what for need in needs} == {"registers", "exit", "fence"}


def test_an_entry_with_something_missing_is_refused() -> None:
    of = prover(BODY)
    for b, state in enumerate(certificate(of).pending):
        for fact in state:
            claimed = certificate(of)
            pending = list(claimed.pending)
            pending[b] = state - {fact}
            assert "omits an operation" in refused(of, replace(claimed, pending=pending)).why


def test_more_pending_than_is_possible_proves_nothing_new() -> None:
    of = prover(BODY)
    claimed = certificate(of)
    site = of.model.begins()[0]
    pending = [state | {Pending(site, 0)} for state in claimed.pending]
    check(of.model.function, of.graph, replace(claimed, pending=pending), NEVER)


def test_a_missing_obligation_is_refused() -> None:
    of = prover(BODY)
    for need in of.needs():
        claims = {n: d for n, d in certificate(of).claims.items() if n != need}
        assert refused(of, of.certificate(claims)).need == need


def test_an_obligation_that_the_kernel_does_not_have_is_refused() -> None:
    of = prover(BODY)
    claims = {**certificate(of).claims, ProofObligation(3, 0, "registers"): Discharge.WAIT}
    assert "does not have" in refused(of, of.certificate(claims)).why


@pytest.mark.parametrize("discharge", list(Discharge))
def test_no_claim_makes_a_pending_operation_complete(discharge: Discharge) -> None:
    of = prover(UNWAITED)
    claims = {need: of._discharge(need) or discharge for need in of.needs()}
    assert refused(of, of.certificate(claims)).need is not None


@pytest.mark.parametrize("discharge", [Discharge.ORDERED, Discharge.INFEASIBLE, Discharge.DISJOINT])
def test_no_claim_separates_a_load_from_a_store_of_its_columns(discharge: Discharge) -> None:
    of = prover(COLUMNS, tensor=True)
    claims = {need: of._discharge(need) or discharge for need in of.needs()}
    caught = refused(of, of.certificate(claims))
    assert caught.need is not None
    assert caught.need.what == "columns"


def test_a_missing_fence_is_refused_whatever_is_claimed() -> None:
    of = prover(EARLY)
    claimed = certificate(of)
    assert "no wgmma.fence" in refused(of, claimed).why
    clean = [frozenset[int]() for _ in claimed.unfenced]
    assert "before the entry" in refused(of, replace(claimed, unfenced=clean)).why


def test_an_access_without_a_fence_cannot_be_left_out() -> None:
    of = prover(BODY.replace("ret;", "bra top;"))
    claimed = certificate(of)
    kept = [claimed.unfenced[0], *(frozenset[int]() for _ in claimed.unfenced[1:])]
    assert "omits an access" in refused(of, replace(claimed, unfenced=kept)).why


RULES = {
    Discharge.WAIT: ("_waited", UNWAITED, False),
    Discharge.ORDERED: ("_in_order", COLUMNS.replace("[%r9];", "[%r8];\nmov.b32 %r22, 0;"), True),
    Discharge.INFEASIBLE: ("_infeasible", UNWAITED, False),
    Discharge.DISJOINT: ("_disjoint", COLUMNS, True),
}


@pytest.mark.parametrize("discharge", RULES)
def test_a_prover_whose_rule_always_holds_is_refused(
    discharge: Discharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, body, tensor = RULES[discharge]
    monkeypatch.setattr(Completion, rule, lambda self, *arguments: True)
    of = prover(body, tensor=tensor)
    claims = {need: of._discharge(need) for need in of.needs()}
    assert discharge in claims.values()
    outcome = of.outcome()
    if rule in ("_waited", "_in_order"):  # the checker decides these itself
        assert outcome.reasons
    else:  # the checker asks the very rule that is wrong, so the kernel must be one that shows it
        assert not outcome.reasons
        monkeypatch.undo()
        assert prover(body, tensor=tensor).outcome().reasons


def test_a_prover_that_sees_fences_everywhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Completion, "_fenced_at", lambda self, site: True)
    assert prover(EARLY).outcome().reasons


@pytest.mark.parametrize(
    ("text", "named", "touched", "written", "read"),
    [
        ("ld.b32 %r1, [%rd1];", False, True, False, True),
        ("st.shared.b32 [%r1], %r2;", True, True, True, False),
        ("st.async.release.gpu.global.u32 [%rd1], %r2;", False, False, False, False),
        ("red.async.release.gpu.add.u32 [%rd1], %r2;", False, False, False, True),
        ("multimem.red.async.release.gpu.add.u64 [%rd1], %rd2;", False, False, False, True),
        ("tcgen05.shift.cta_group::1.down [%r1];", False, False, False, False),
        ("mbarrier.init.shared.b64 [%r1], 1;", True, True, True, False),
        ("mbarrier.arrive.shared.b64 _, [%r1];", True, True, False, False),
        ("mbarrier.pending_count.b64 %r1, %rd1;", False, False, False, False),
    ],
)
def test_accesses_decide_what_is_in_shared_memory_and_what_reads_a_result(
    text: str, named: bool, touched: bool, written: bool, read: bool
) -> None:
    """Of a reduction with a generic address too: that is one in global memory."""
    copy, instruction = function(
        module(
            kernel(f"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;\n{text}\nret;"),
            header=HEADER,
        )
    ).instructions[:2]
    assert instruction.match is not None
    assert not instruction.match.problem
    found = names_shared(instruction), touches_shared(instruction), writes_shared(instruction)
    assert (*found, reads_result(copy, instruction)) == (named, touched, written, read)
