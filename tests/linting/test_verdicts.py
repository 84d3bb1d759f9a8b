"""Verdicts: what findings, proofs and replays say together of each class of hazards in a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tclint.checks import Hit, RuleId
from tclint.findings.finding import FileReport
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Request, Selected
from tclint.findings.verdicts import Assumption, HazardClass, Status, Verdict
from tclint.ir.nodes import Function, Module
from tclint.linting import verdicts as linting
from tclint.linting.cache import IncrementalCache
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.pages import block
from tests.tools.replay import ALL_ARRIVE
from tests.tools.support import HEADER, HOPPER, before_the_wait, kernel, module

ALL = frozenset(Assumption)
WAITED = module(before_the_wait("    mov.b32 %r9, 0;"), header=HOPPER)
READ = module(before_the_wait("    st.global.f32 [%rd0], %f0;"), header=HOPPER)
SHARED = ".shared .align 4 .b32 slot;\n.shared .align 8 .b64 done[4];\n.shared .align 1024 .b8 tile[8192];\n"
TENSOR_KERNEL = """
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r8, done;
mov.u32 %r6, 136314896;
mov.u32 %r20, 0;
mov.u32 %r11, 0;
setp.eq.u32 %p0, %r1, 0;
setp.lt.u32 %p1, %r1, 32;
setp.gt.s32 %p9, %r9, 3;
@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;
@%p0 mbarrier.init.shared::cta.b64 [%r8], 1;
@%p0 mbarrier.init.shared::cta.b64 [%r8+8], 1;
bar.sync 0;
ld.shared.b32 %r2, [slot];
mov.b32 %r10, 0;
top:
@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd5, %rd6, %r6, %p4;
@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd5, %rd6, %r6, %p4;
@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];
w:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], %r20;
@!%p2 bra w;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r15}, [%r2];
tcgen05.wait::ld.sync.aligned;
bar.sync 0;
xor.b32 %r20, %r20, 1;
add.s32 %r10, %r10, 1;
setp.lt.s32 %p5, %r10, %r9;
@%p5 bra top;
bar.sync 0;
@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 256;
ret;"""
"""One thread multiplies in each iteration, and all threads wait and load, with barriers and without fences."""
FRAGMENT = all_rules()["WG009"].examples[0].code


def judged(text: str, selected: Selected | None = None) -> FileReport:
    return check_source(Source(text.encode(), "k.ptx"), Request(selected or Selected(), assume=ALL))


def of(text: str, hazard: HazardClass, selected: Selected | None = None) -> Verdict:
    """The verdict on one class in the only kernel."""
    (verdict,) = [v for v in judged(text, selected).verdicts if v.hazard is hazard]
    return verdict


def statuses(report: FileReport) -> dict[tuple[str, str], Status]:
    return {(verdict.kernel, verdict.hazard.value): verdict.status for verdict in report.verdicts}


def test_a_run_that_asks_for_no_verdicts_has_none() -> None:
    assert check_source(Source(WAITED.encode(), "k.ptx")).verdicts == ()


def test_a_class_whose_proof_is_accepted_is_proved() -> None:
    verdict = of(WAITED, HazardClass.WGMMA)
    assert verdict.status is Status.PROVED
    assert verdict.obligations
    assert all(one.discharge is not None for one in verdict.obligations)


@pytest.mark.parametrize(
    "selected",
    [
        Selected(),
        Selected(min_severity=Severity.ERROR),
        Selected(per_entry_ignores=(("k", ("ALL",)),)),
        Selected(per_file_ignores=(("*.ptx", ("WG001",)),)),
    ],
)
def test_a_finding_violates_its_class_even_if_a_setting_hides_it(selected: Selected) -> None:
    verdict = of(READ, HazardClass.WGMMA, selected)
    assert (verdict.status, verdict.rules) == (Status.VIOLATED, ("WG001",))


@pytest.mark.parametrize(
    ("assume", "strict", "status"),
    [
        (ALL, False, Status.PROVED),
        (ALL, True, Status.UNKNOWN),
        (ALL - {Assumption.IMPLIED_FENCES}, False, Status.UNKNOWN),
    ],
)
def test_a_note_that_denies_what_a_proof_assumes_leaves_it_as_it_is_but_for_strict(
    assume: frozenset[Assumption], strict: bool, status: Status
) -> None:
    text = module(SHARED, kernel(TENSOR_KERNEL, directives=".reqntid 128"), header=HEADER)
    for pedantic in (False, True):
        selected = Selected(strict=strict, min_confidence=Confidence.LOW if pedantic else Confidence.MEDIUM)
        report = check_source(Source(text.encode(), "k.ptx"), Request(selected, assume=assume))
        (verdict,) = [v for v in report.verdicts if v.hazard is HazardClass.TENSOR_MEMORY]
        found = {f.rule.id for f in report.findings} & {"TC013", "TC014"}
        assert found or not pedantic
        expected = Status.VIOLATED if strict and found else status
        assert (verdict.status, Assumption.IMPLIED_FENCES in verdict.assumptions) == (
            expected,
            expected is Status.PROVED,
        )


def test_a_suppressed_finding_violates_its_class() -> None:
    text = READ.replace("    st.global", "    // tclint: ignore[WG001] known\n    st.global")
    (finding,) = [f for f in judged(text).findings if f.rule.id == "WG001"]
    assert finding.suppressed == "known"
    assert of(text, HazardClass.WGMMA).status is Status.VIOLATED


def test_a_rule_that_is_off_violates_nothing_and_proves_nothing() -> None:
    verdict = of(READ, HazardClass.WGMMA, Selected(rules=frozenset({"TC001"})))
    assert verdict.status is Status.UNKNOWN
    assert verdict.reasons


def test_a_finding_below_the_confidence_leaves_a_proved_class_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Verdict(
        "fragment_stored_early", HazardClass.WGMMA, Status.PROVED, assumptions=(Assumption.THREADS,)
    )
    monkeypatch.setattr(linting, "proved", lambda *asked, **budget: (shown,))
    assert "WG009" not in {f.rule.id for f in judged(FRAGMENT).findings if f.confidence > Confidence.LOW}
    verdict = of(FRAGMENT, HazardClass.WGMMA)
    assert (verdict.status, verdict.assumptions) == (Status.UNKNOWN, ())
    at = verdict.reasons[0].at
    assert "WG009" in verdict.reasons[0].what
    assert at is not None
    assert FRAGMENT[at.start : at.end].startswith("st.global")
    with_it = of(FRAGMENT, HazardClass.WGMMA, Selected(min_confidence=Confidence.LOW))
    assert (with_it.status, with_it.reasons[0].what) == (Status.UNKNOWN, "a note of WG009 applies to it")


def test_a_note_violates_nothing_and_leaves_its_class_open() -> None:
    text = module(
        kernel("setmaxnreg.inc.sync.aligned.u32 232;\nret;", directives=".reqntid 384"), header=HOPPER
    ).replace("sm_100a", "sm_90a")
    (finding,) = judged(text).findings
    assert (finding.rule.id, finding.severity) == ("CV007", Severity.INFO)
    verdict = of(text, HazardClass.REGISTER_POOL)
    assert (verdict.status, verdict.rules) == (Status.UNKNOWN, ())
    assert verdict.reasons[0].what == "a note of CV007 applies to it"
    assert verdict.reasons[0].at == finding.span


def test_a_note_that_strict_makes_a_warning_violates_its_class() -> None:
    text = all_rules()["PR002"].examples[0].code
    note, strict = of(text, HazardClass.PROXIES), of(text, HazardClass.PROXIES, Selected(strict=True))
    assert (note.status, note.reasons[0].what) == (Status.UNKNOWN, "a note of PR002 applies to it")
    assert (strict.status, strict.rules) == (Status.VIOLATED, ("PR002",))


class Added:
    """An observer that adds one hit to those of each function."""

    def __init__(self, hit: Hit) -> None:
        self.hit = hit

    def __call__(self, module: Module, function: Function, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        return (self.hit,)

    def executed(self, function: Function) -> None:
        return None


@pytest.mark.parametrize(
    ("condition", "status"), [("", Status.VIOLATED), ("the loop runs twice", Status.UNKNOWN)]
)
def test_a_fault_that_only_some_launches_have_violates_nothing(condition: str, status: Status) -> None:
    hit = RuleId("WG001").hit(message="", site=0, condition=condition)
    report = check_source(Source(WAITED.encode(), "k.ptx"), Request(assume=ALL), observer=Added(hit))
    (verdict,) = [v for v in report.verdicts if v.hazard is HazardClass.WGMMA]
    assert verdict.status is status
    if condition:
        assert verdict.reasons[0].what == "WG001 reports a fault that occurs if the loop runs twice"


def test_a_finding_of_no_class_violates_nothing() -> None:
    report = judged(WAITED.replace("commit_group.sync.aligned", "commit_group.sync"))
    assert {f.rule.id for f in report.findings} == {"WG010"}
    assert Status.VIOLATED not in statuses(report).values()


def test_a_consequence_of_another_defect_violates_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where WG005 explains it, WG001 is not reported; what is not reported is in doubt no less."""
    from tclint.linting import check

    monkeypatch.setattr(check, "without_subsumed", lambda hits, *rest: ())
    report = judged(READ)
    assert report.findings == ()
    assert statuses(report)["k", "wgmma"] is Status.VIOLATED


def test_mbarriers_that_replays_follow_to_the_end_are_bounded_by_the_launches() -> None:
    verdict = of(module(kernel(ALL_ARRIVE)), HazardClass.MBARRIER)
    assert verdict.status is Status.BOUNDED
    assert verdict.launches == ("CTA 0 of 8 with 128 threads; 512 in parameters and memory",)
    assert not verdict.reasons


def test_mbarriers_are_not_bounded_in_a_kernel_with_an_unknown_call() -> None:
    text = module(".extern .func other();", kernel("    call.uni other, ();\n" + ALL_ARRIVE))
    verdict = of(text, HazardClass.MBARRIER)
    assert (verdict.status, verdict.launches) == (Status.UNKNOWN, ())
    assert "other" in verdict.reasons[0].what


def test_a_kernel_that_no_check_ran_on_is_unknown_in_every_class() -> None:
    broken = judged(WAITED.replace("mov.b32 %r9, 0;", "mov.b32 %r9, {{;"))
    assert broken.problems
    assert set(statuses(broken).values()) == {Status.UNKNOWN}
    assert {v.hazard for v in broken.verdicts} == set(HazardClass)
    unlabelled = statuses(judged(WAITED.replace("mov.b32 %r9, 0;", "bra nowhere;")))
    assert unlabelled.pop(("k", "availability")) is Status.VIOLATED
    assert len(unlabelled) == len(HazardClass) - 1
    assert set(unlabelled.values()) == {Status.UNKNOWN}


def test_what_a_function_lacks_violates_the_kernels_that_may_call_it() -> None:
    helper = ".func helper()\n{\n    tcgen05.fence::after_thread_sync;\n    ret;\n}\n"
    text = module(helper, kernel("    call.uni helper, ();\n    ret;"), header=HOPPER)
    assert of(text, HazardClass.AVAILABILITY).status is Status.VIOLATED


def test_what_another_kernel_lacks_violates_nothing() -> None:
    other = kernel("    tcgen05.fence::after_thread_sync;\n    ret;", "other")
    found = statuses(judged(WAITED + other))
    assert found["other", "availability"] is Status.VIOLATED
    assert found["k", "availability"] is Status.PROVED


def test_functions_have_no_verdicts_and_kernels_only_if_selected() -> None:
    text = module(kernel("    ret;", "a"), kernel("    ret;", "b"), ".func f()\n{\n    ret;\n}\n")
    assert {v.kernel for v in judged(text).verdicts} == {"a", "b"}
    assert {v.kernel for v in judged(text, Selected(entry=("b",))).verdicts} == {"b"}


def test_verdicts_change_nothing_else_in_the_report() -> None:
    for text in (WAITED, READ, module(kernel(ALL_ARRIVE))):
        with_them = judged(text)
        assert with_them.verdicts
        assert replace(with_them, verdicts=()) == check_source(with_them.source or Source(b"", ""))


def test_verdicts_after_an_edit_are_those_of_the_whole_text() -> None:
    past = IncrementalCache()
    states = [
        WAITED,
        WAITED.replace(".visible", "// a line\n.visible"),
        READ,
        WAITED.replace("sm_90a", "sm_80"),
        WAITED,
    ]
    for state in states:
        source = Source(state.encode(), "k.ptx")
        known = check_source(source, Request(assume=ALL), past=past)
        assert known.verdicts == check_source(source, Request(assume=ALL)).verdicts
        assert check_source(source, past=past).verdicts == ()


def test_a_kernel_that_a_deadline_left_unchecked_is_unknown() -> None:
    past = IncrementalCache()
    check_source(Source(WAITED.encode(), "k.ptx"), Request(assume=ALL), past=past)
    past.until = 0.0
    report = check_source(Source(READ.encode(), "k.ptx"), Request(assume=ALL), past=past)
    assert past.owing
    assert set(statuses(report).values()) == {Status.UNKNOWN}


def test_refused_assumptions_are_passed_to_the_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        linting, "proved", lambda model, violated, assume, **budget: asked.append(assume) or ()
    )
    some = frozenset({Assumption.THREADS})
    check_source(Source(WAITED.encode(), "k.ptx"), Request(assume=some))
    assert asked == [some]


def test_a_class_is_violated_only_if_the_loop_of_a_fault_is_known_to_run_twice() -> None:
    code, hazard = block("MB007", "same_parity"), HazardClass.MBARRIER
    again = code.replace("setp.lt.u32 %p2, %r2, %r1", "setp.lt.u32 %p2, %r2, 4")
    assert of(again, hazard).status is Status.VIOLATED
    verdict = of(code, hazard)
    assert verdict.status is Status.UNKNOWN
    assert verdict.reasons[0].what == "MB007 reports a fault that occurs if the loop runs twice"
