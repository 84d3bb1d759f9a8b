"""The steps about a wait that a path skips, or that comes after its end."""

from __future__ import annotations

import pytest

from tclint.findings.finding import FileReport, Finding, Step
from tclint.findings.selection import Request
from tclint.linting.check import check_source
from tclint.report.fold import causes
from tclint.syntax.source import Source

COPY = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 key)
{{
    .reg .f32 %f<2>;
    .reg .b64 %rd<4>;
    .reg .b32 %r<8>;
    .reg .pred %p<3>;
    .shared .align 16 .b8 tile[4096];
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    ld.param.u32 %r2, [key];
    mov.u32 %r3, %tid.x;
    shl.b32 %r4, %r3, 4;
    mov.u32 %r5, tile;
    add.u32 %r6, %r5, %r4;
    setp.eq.u32 %p1, %r2, 7;
    cp.async.cg.shared.global [%r6], [%rd1], 16;
    cp.async.commit_group;
    {between}
    ld.shared.f32 %f1, [%r6];
    {after}
    st.global.f32 [%rd2], %f1;
    ret;
}}
"""
WAIT = "cp.async.wait_group 0;"


def checked(text: str) -> FileReport:
    return check_source(Source.from_bytes(text.encode(), "k.ptx"), Request())


def found(between: str, after: str = "") -> Finding:
    (finding,) = [
        f for f in checked(COPY.format(between=between, after=after)).findings if f.rule.id == "CA001"
    ]
    return finding


def aside(finding: Finding) -> list[tuple[str, str]]:
    return [(step.message, step.role or "") for step in finding.steps if step.aside]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (f"@%p1 bra DONE; {WAIT} DONE:", ["skips the wait when key == 7", "the wait that is skipped"]),
        (f"@!%p1 bra DONE; {WAIT} DONE:", ["skips the wait when key != 7", "the wait that is skipped"]),
        (f"@%p1 {WAIT}", ["is not executed when key != 7"]),
        (f"@!%p1 {WAIT}", ["is not executed when key == 7"]),
        (
            f"@%p1 bra L; bra DONE; L: {WAIT} DONE:",
            ["skips the wait when key != 7", "the wait that is skipped"],
        ),
        ("", []),
        ("@%p1 bra DONE; add.u32 %r6, %r6, 0; DONE:", []),
    ],
)
def test_the_branch_that_skips_the_wait(between: str, expected: list[str]) -> None:
    finding = found(between)
    assert [message for message, _ in aside(finding)] == expected
    assert finding.message.endswith("no intervening cp.async.wait_group")


def test_a_wait_that_is_executed_is_not_skipped() -> None:
    text = COPY.format(between=f"@%p1 bra DONE; add.u32 %r6, %r6, 0; DONE: {WAIT}", after="")
    assert [f.rule.id for f in checked(text).findings if f.rule.id == "CA001"] == []


def test_a_wait_that_comes_too_late() -> None:
    assert aside(found("", WAIT)) == [("this wait comes too late", "")]
    assert found("", WAIT).help.startswith("move the later wait up, or add ")
    assert found("", "").help.startswith("add ")
    assert aside(found("", f"@%p1 bra END; {WAIT} END:")) == [("this wait comes too late", "")]
    assert aside(found(f"@%p1 bra DONE; {WAIT} DONE:", WAIT))[0][0] == "skips the wait when key == 7"


def test_these_steps_do_not_identify_the_finding() -> None:
    plain, late = found(""), found("", WAIT)
    assert plain.fingerprint == late.fingerprint
    assert [step.message for step in late.steps if not step.aside] == [step.message for step in plain.steps]


def test_two_uses_with_one_cause_stay_one_finding() -> None:
    text = COPY.format(between="", after=f"ld.shared.f32 %f0, [%r6+4]; {WAIT}")
    assert len([f for f in causes(checked(text)) if f.rule.id == "CA001"]) == 1


CLUSTER = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u32 n) .reqntid 64 .explicitcluster .reqnctapercluster 2
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    barrier.cluster.arrive.aligned;
    @%p1 bra SKIP;
    barrier.cluster.wait;
SKIP:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}
"""


def test_threads_that_arrive_again_without_having_waited() -> None:
    (finding,) = [f for f in checked(CLUSTER).findings if f.rule.id == "CL001"]
    steps: list[Step] = list(finding.steps)
    assert [step.message for step in steps] == [
        "arrives here",
        "skips the wait when %tid.x < 32",
        "the wait that is skipped",
        "arrives again with no intervening wait",
    ]
    assert steps[1].role == "warp 0"


def test_these_steps_are_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an execution observes at the wait that is skipped does not confirm the finding."""
    pytest.importorskip("numpy")
    from tclint.driver import confirm
    from tclint.driver.evidence import Claim

    claims: list[Claim] = []
    made = Claim.__init__
    monkeypatch.setattr(
        Claim, "__init__", lambda self, *a, **k: (made(self, *a, **k), claims.append(self))[0]
    )
    finding = found(f"@%p1 bra DONE; {WAIT} DONE:", WAIT)
    report = checked(COPY.format(between=f"@%p1 bra DONE; {WAIT} DONE:", after=WAIT))
    confirm.confirm(report)
    spans = {step.span for step in finding.steps if step.aside}
    assert spans
    assert claims
    (claim,) = {claim.sites for claim in claims if claim.rule == "CA001"}
    assert len(claim) == len({step.span for step in finding.steps} - spans)
