"""One fault gives one finding: small kernels that are right but for one edit, and what tclint says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tclint.checks import Hit, Mark, RuleId
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Method, Severity
from tclint.findings.selection import Request, Selected
from tclint.linting.check import check_source
from tclint.linting.subsumption import related, without_subsumed
from tclint.syntax.source import Source
from tests.tools import pages
from tests.tools.support import found, kernel, lint, module

BLACKWELL = """
    .shared .align 8 .b64 done; .shared .align 4 .b32 slot;
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p1, %r0, 0;
    setp.ne.u32 %p0, %r0, %r0;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;
    bar.sync 0;
    ld.shared.b32 %r9, [slot];
    mov.b32 %r7, 0x08200490;
    ld.param.u64 %rd0, [pointer];
    @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd0, %r7, %p0;
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [done], 0;
    @!%p2 bra wait;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x64.b32 {RESULT}, [%r9+64];
    tcgen05.wait::ld.sync.aligned;
    st.global.b32 [%rd0], %r100;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 128;
    ret;
""".replace("RESULT", ", ".join(f"%r{100 + n}" for n in range(64)))
PAIR = """
    .shared .align 4 .b32 slot;
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p1, %r0, 32;
    ld.param.u64 %rd0, [pointer];
    @%p1 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;
    bar.sync 0;
    ld.shared.b32 %r9, [slot];
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r4, %r5}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    st.global.v2.b32 [%rd0], {%r4, %r5};
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p1 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r9, 128;
    ret;
"""
HOPPER = """
    .shared .align 128 .b8 tile[4096];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer]; mov.b64 %rd1, %rd0; mov.b64 %rd2, %rd0; mov.b64 %rd3, %rd0; mov.b64 %rd4, %rd0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    st.global.f32 [%rd0], %f0;
    mov.b32 %f1, 0f00000000;
    ret;
"""
LOAD = """
    .shared .align 128 .b8 tile[4096];
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
    @%p0 bra wait;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4096;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0], 2048, [full];
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+2048], [%rd0+2048], 2048, [full];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra wait;
    ld.shared.u32 %r1, [tile+2048];
    st.global.u32 [%rd0], %r1;
    ret;
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4096;"
BLACKWELL_KERNEL = module(kernel(BLACKWELL, directives=".reqntid 32"))
PAIR_KERNEL = module(kernel(PAIR, directives=".reqntid 128\n.reqnctapercluster 2"))
HOPPER_KERNEL = module(
    kernel(HOPPER, directives=".reqntid 128"), header=".version 8.0\n.target sm_90a\n.address_size 64\n"
)
CHAIN_KERNEL = HOPPER_KERNEL.replace(
    "    wgmma.commit_group",
    "    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd3, %rd4, 0, 1, 1, 0, 0;\n"
    "    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, %rd3, %rd4, 0, 1, 1, 0, 0;\n"
    "    wgmma.commit_group",
).replace("mov.b32 %f1", "mov.b32 %f4")
LOAD_KERNEL = module(kernel(LOAD), header=".version 8.6\n.target sm_90\n.address_size 64\n")
COMMIT = "@%p1 tcgen05.commit.cta_group::1"


@pytest.mark.parametrize("text", [BLACKWELL_KERNEL, PAIR_KERNEL, HOPPER_KERNEL, CHAIN_KERNEL, LOAD_KERNEL])
def test_the_kernels_are_right(text: str) -> None:
    assert found(lint(text), low=False) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "rule"),
    [
        # No thread observes that the operation is complete, and its result is loaded.
        (BLACKWELL_KERNEL, COMMIT, "// @%p1 tcgen05.commit", "TC005"),
        # All lanes but the one that issued the operation commit: none of them has anything to commit.
        (BLACKWELL_KERNEL, COMMIT, COMMIT.replace("@", "@!"), "TC008"),
        # The lanes that no commit follows are the lanes that should not have issued it.
        (BLACKWELL_KERNEL, "@%p1 tcgen05.mma", "tcgen05.mma", "TC010"),
        # A commit of the other kind of operation tracks nothing.
        (BLACKWELL_KERNEL, COMMIT, COMMIT.replace("::1", "::2"), "TC006"),
        # Half the allocation: what is loaded, and what is freed, is of the whole.
        (BLACKWELL_KERNEL, "[slot], 128", "[slot], 64", "TC017"),
        # Without any barrier the peer is not waited for either, but a CTA barrier alone is not enough.
        (PAIR_KERNEL, "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;", "//\n", "TM006"),
        (PAIR_KERNEL, "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;", "bar.sync 0;\n", "TM011"),
        # The wait that completes nothing, the read, the write and the end of the kernel are one fault.
        (HOPPER_KERNEL, "wait_group.sync.aligned 0", "wait_group.sync.aligned 1", "WG001"),
        # A register that appears twice in the accumulator makes it another one than that of the next link.
        (CHAIN_KERNEL, "{%f0, %f1, %f2, %f3}, %rd1, %rd2", "{%f0, %f1, %f2, %f2}, %rd1, %rd2", "WG006"),
        # One commit is missing for two accumulators: one is cleared, the other one is read.
        (CHAIN_KERNEL, "wgmma.commit_group.sync.aligned;", "//", "WG003"),
        (
            HOPPER_KERNEL.replace("st.global.f32 [%rd0], %f0;", "").replace("mov.b32 %f1, 0f00000000;", ""),
            "wait_group.sync.aligned 0",
            "wait_group.sync.aligned 1",
            "WG005",
        ),
        # Neither an arrival nor bytes: one instruction is missing.
        (LOAD_KERNEL, EXPECT, "//", "MB005"),
        (LOAD_KERNEL, EXPECT, EXPECT + EXPECT, "MB008"),
        (LOAD_KERNEL, EXPECT, EXPECT.replace("4096", "2048"), "MB004"),
        (LOAD_KERNEL, "[full], 1;", "[full], 2;", "MB006"),
        # No thread waits, or none tests again.
        (LOAD_KERNEL, "mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;\n    @!%p1 bra wait;", "//\n", "BK001"),
        (LOAD_KERNEL, "@!%p1 bra wait;", "//", "MB001"),
    ],
)  # fmt: skip
def test_one_edit_one_finding(text: str, old: str, new: str, rule: str) -> None:
    assert old in text
    report = lint(text.replace(old, new))
    assert [r for r, _ in found(report, low=False)] == [rule]


@pytest.mark.parametrize(
    "selected",
    [
        Selected(rules=frozenset(all_rules()) - {"TC005"}),
        Selected(per_file_ignores=(("t.ptx", ("TC005",)),)),
        Selected(per_entry_ignores=(("k", ("TC005",)),)),
    ],
)
def test_consequences_are_reported_where_their_cause_is_not_selected(selected: Selected) -> None:
    text = BLACKWELL_KERNEL.replace(COMMIT, "// @%p1 tcgen05.commit")
    report = check_source(Source.from_bytes(text.encode(), "t.ptx"), Request(selected))
    assert "TC001" in [r for r, _ in found(report, low=False)]


def test_a_cause_that_is_too_doubtful_to_be_shown_hides_nothing() -> None:
    doubtful = replace(CAUSE, confidence=Confidence.MEDIUM)
    sure = replace(FOLLOWS, confidence=Confidence.HIGH)
    hits = [sure, doubtful]
    assert len(list(without_subsumed(hits, Confidence.MEDIUM))) == 1
    assert len(list(without_subsumed(hits, Confidence.HIGH))) == 2
    assert len(list(without_subsumed(hits, Confidence.MEDIUM, {"WG001"}))) == 2
    hits = [sure, replace(CAUSE, confidence=Confidence.LOW)]
    assert len(list(without_subsumed(hits, Confidence.LOW))) == 2


def test_rules_are_related_to_their_causes_and_consequences_and_to_those_of_these() -> None:
    assert related(["CL002"]) == related(["CL001"]) == {"CL001", "CL002"}
    assert related(["TM003"]) == {"TM003", "TC017"}
    assert related(["MB016", "MB004"]) > {"MB016", "MB006", "MB008", "TC010"}
    assert related(["PX001"]) == {"PX001"}


CAUSE = RuleId("WG001").hit(site=9, message="", about=frozenset((1, 2)))
FOLLOWS = RuleId("WG005").hit(site=5, message="", about=frozenset((1,)))


@pytest.mark.parametrize(
    ("cause", "follows", "silent"),
    [
        (CAUSE, FOLLOWS, True),
        (CAUSE, replace(FOLLOWS, about=frozenset((1, 3))), False),
        (CAUSE, replace(FOLLOWS, about=frozenset()), False),
        (replace(CAUSE, missing_before=True), FOLLOWS, False),
        (replace(CAUSE, missing_before=True), replace(FOLLOWS, site=12), True),
        (replace(CAUSE, confidence=Confidence.LOW), FOLLOWS, False),
        (replace(CAUSE, confidence=Confidence.LOW), replace(FOLLOWS, confidence=Confidence.LOW), True),
        (replace(CAUSE, severity=Severity.INFO), FOLLOWS, False),
    ],
)
def test_what_follows_is_silent_where_the_cause_is_as_loud(cause: Hit, follows: Hit, silent: bool) -> None:
    reported = [hit.rule for hit in without_subsumed([follows, cause], Confidence.MEDIUM)]
    assert reported == (["WG001"] if silent else ["WG005", "WG001"])


SEEN = RuleId("BK001").hit(
    site=7,
    message="",
    steps=(Mark(3, "starts", object="tile"), Mark(7, "reads", object="tile+0..64")),
    severity=Severity.ERROR,
    confidence=Confidence.MEDIUM,
    method=Method.REPLAY,
)
"""What a replay shows."""
FOUND = RuleId("SM001").hit(site=7, message="", steps=(Mark(3, "writes"), Mark(7, "reads")))
"""The same two accesses, as the code shows them; a warning."""


def reported(*hits: Hit, ignored: frozenset[str] = frozenset()) -> list[Hit]:
    return list(without_subsumed(hits, Confidence.MEDIUM, ignored))


def test_a_defect_that_the_code_and_a_replay_show_is_one_finding_with_the_path_in_the_code() -> None:
    (hit,) = reported(SEEN, FOUND)
    assert hit == replace(FOUND, severity=Severity.ERROR, confidence=Confidence.HIGH, replayed=True)
    (hit,) = reported(replace(FOUND, confidence=Confidence.LOW, doubt="may not happen"), SEEN)
    assert (hit.rule, hit.confidence, hit.doubt) == ("SM001", Confidence.MEDIUM, "")


def test_a_hit_that_explains_a_replay_by_itself_keeps_its_severity() -> None:
    (hit,) = reported(replace(FOUND, rule=RuleId("BK003")), SEEN)
    assert (hit.rule, hit.severity, hit.replayed) == ("BK003", None, True)


def test_what_the_letter_alone_forbids_explains_no_replay() -> None:
    letter = replace(FOUND, rule=RuleId("BK003"), site=8, steps=(Mark(3, "writes"),)).unshown(
        Severity.WARNING
    )
    assert set(without_subsumed([letter, SEEN], Confidence.MEDIUM, strict=True)) == {letter, SEEN}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(FOUND, rule=RuleId("PR001")), id="another defect of the same accesses"),
        pytest.param(replace(FOUND, site=8, steps=(Mark(3, "writes"), Mark(8, "reads"))), id="another read"),
        pytest.param(replace(FOUND, steps=(Mark(4, "writes"), Mark(7, "reads"))), id="another operation"),
    ],
)
def test_other_accesses_and_other_defects_are_other_findings(other: Hit) -> None:
    assert reported(other, SEEN) == [other, SEEN]


def test_accesses_to_one_object_are_the_same_defect() -> None:
    steps = Mark(3, "writes"), Mark(8, "reads", object="tile+0..64")
    assert [hit.replayed for hit in reported(replace(FOUND, site=8, steps=steps), SEEN)] == [True]


def test_what_another_hit_explains_is_no_evidence() -> None:
    assert reported(FOUND, SEEN, RuleId("BK004").hit(site=1, message="")) == [
        FOUND,
        RuleId("BK004").hit(site=1, message=""),
    ]


def test_a_replay_shows_one_defect_of_a_function() -> None:
    second = replace(SEEN, rule=RuleId("BK002"))
    assert reported(SEEN, second) == [SEEN]
    assert reported(second, SEEN) == [second]
    # The first one is counted as ignored elsewhere.
    assert reported(SEEN, second, ignored=frozenset((SEEN.subject,))) == [second]
    assert reported(SEEN, FOUND, ignored=frozenset((SEEN.subject,))) == [SEEN, FOUND]


def test_a_refill_that_the_code_and_a_replay_show_is_reported_once() -> None:
    freed = pages.block("TC012", "stage_freed_by_commit")
    commit = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [empty];\n"
    assert commit in freed
    (finding,) = lint(freed.replace(commit, "    mbarrier.arrive.shared::cta.b64 _, [empty];\n")).findings
    assert (finding.rule.id, finding.method, finding.replayed) == ("TC012", Method.STATIC, True)
    assert finding.confidence is Confidence.HIGH
