"""Stages that a loop fills again while others may read them, and waits whose parity never changes."""

from __future__ import annotations

import pytest

from tclint.findings.finding import Finding
from tclint.findings.scales import Severity
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.pages import block


def reported(code: str) -> list[Finding]:
    found = check_source(Source.from_bytes(code.encode(), "k.ptx")).findings
    return [f for f in found if f.rule.id in ("BK011", "MB007", "TC012", "WG011")]


@pytest.mark.parametrize(
    ("page", "entry", "who", "help"),
    [
        ("BK011", "no_empty", "another thread", "let the readers arrive at an mbarrier"),
        ("WG011", "refilled_by_another_role", "wgmma.mma_async", "wait for its group (wgmma.wait_group)"),
        (
            "TC012",
            "refilled_by_another_role",
            "tcgen05.mma",
            "commit that operation to an mbarrier (tcgen05.commit)",
        ),
    ],
)
def test_a_refilled_stage_is_reported_with_its_reader(page: str, entry: str, who: str, help: str) -> None:
    (finding,) = reported(block(page, entry))
    assert finding.rule.id == page
    assert f"refills shared memory that {who} may still read: " in finding.message
    assert [step.message for step in finding.steps] == [
        "starts to fill a stage",
        "reads the stage",
        "refills the stage in a later iteration without waiting for the readers",
    ]
    assert finding.steps[0].role != finding.steps[1].role
    assert finding.help.startswith(help)


def test_a_finding_stands_for_all_reads_of_the_stage() -> None:
    """Each of them demonstrates it, although only one is shown."""
    code = block("BK011", "no_empty")
    read = next(line for line in code.splitlines() if "ld.shared" in line)
    (finding,) = reported(code.replace(read, f"{read}\n{read}"))
    assert len({pair.first for pair in finding.pairs}) == 2
    assert {pair.second for pair in finding.pairs} == {finding.span}
    assert finding.count == 1


def test_a_loop_that_fills_each_stage_once() -> None:
    code = block("BK011", "no_empty")
    assert reported(code)
    assert not reported(code.replace("setp.lt.u32 %p3, %r2, %r1;", "setp.lt.u32 %p3, %r2, 4;"))
    assert reported(code.replace("setp.lt.u32 %p3, %r2, %r1;", "setp.lt.u32 %p3, %r2, 64;"))


def test_readers_before_a_cta_barrier_are_not_reported() -> None:
    """Another channel than the mbarrier by which the producer is ordered after them."""
    code = block("BK011", "no_empty")
    following = code.replace("produce:\n", "produce:\n    bar.sync 1, 160;\n").replace(
        "    mov.u32 %r16, empty;", "    bar.sync 1, 160;\n    mov.u32 %r16, empty;"
    )
    assert not [f for f in reported(following) if f.rule.id == "BK011"]


def test_an_address_that_is_not_known() -> None:
    code = block("BK011", "no_empty").replace("add.u32 %r7, %r7, %r6;", "ld.shared.u32 %r7, [empty+32];")
    assert not reported(code)


def test_the_finding_about_a_constant_parity() -> None:
    (finding,) = reported(block("MB007", "same_parity"))
    assert "waits for parity 0 in every iteration" in finding.message
    assert [step.role for step in finding.steps] == ["thread 0", "all threads"]


TWICE = "if the loop runs twice, the second wait may return before the phase of its iteration completes, or wait for a later one"
ALWAYS = "from the second iteration on it may return before the phase of its iteration completes, or wait for a later one"


@pytest.mark.parametrize(
    ("change", "severity", "words"),
    [
        (("", ""), Severity.ERROR, TWICE),
        # The trip count is known: 4, and 1.
        (("setp.lt.u32 %p2, %r2, %r1", "setp.lt.u32 %p2, %r2, 4"), Severity.ERROR, ALWAYS),
        (("setp.lt.u32 %p2, %r2, %r1", "setp.lt.u32 %p2, %r2, 1"), None, ""),
        # Two phases in each iteration, and phases that only some iterations complete.
        (
            ("wait:\n", "    @%p0 mbarrier.arrive.shared::cta.b64 _, [full];\nwait:\n"),
            Severity.WARNING,
            TWICE,
        ),
        (
            ("again:\n", "again:\n    and.b32 %r7, %r2, 3;\n    setp.eq.and.u32 %p0, %r7, 0, %p0;\n"),
            Severity.WARNING,
            TWICE,
        ),
    ],
)
def test_a_parity_that_stays_the_same(change: tuple[str, str], severity: Severity | None, words: str) -> None:
    found = [f for f in reported(block("MB007", "same_parity").replace(*change, 1)) if f.rule.id == "MB007"]
    assert [f.severity for f in found] == ([] if severity is None else [severity])
    assert all(words in f.message for f in found)


def test_an_mbarrier_that_each_iteration_initialises_is_not_reported() -> None:
    code = block("MB007", "same_parity").replace(
        "again:\n", "again:\n    @%p0 mbarrier.init.shared::cta.b64 [full], 1;\n    bar.sync 0;\n"
    )
    assert not [f for f in reported(code) if f.rule.id == "MB007"]


COUNTED = "    and.b32 %r3, %r2, 3;\n    shl.b32 %r4, %r3, 3;\n"
"""The producer's index of a stage, and the offset of its mbarrier."""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("", "", True, id="counted"),
        pytest.param(COUNTED, COUNTED.replace("%r2", "%r17") + "    ld.global.u32 %r17, [%in];\n    and.b32 %r3, %r17, 3;\n", False, id="a page from memory"),
        pytest.param("    shl.b32 %r6, %r3, 9;\n", "    setp.eq.u32 %p6, %r3, %r1;\n    selp.b32 %r3, 0, %r3, %p6;\n    shl.b32 %r6, %r3, 9;\n", False, id="fewer stages by a parameter"),
        pytest.param("    shl.b32 %r6, %r3, 9;\n", "    setp.eq.u32 %p6, %r3, 3;\n    selp.b32 %r6, 1536, 0, %p6;\n", False, id="one of two stages"),
        pytest.param("[%in], 512, [%r5]", "[%in], 256, [%r5]", False, id="half of each stage"),
    ],
)  # fmt: skip
def test_what_a_copy_may_fill_is_no_evidence_of_what_it_fills(old: str, new: str, expected: bool) -> None:
    """Only a counter that goes through all stages shows that each of them is refilled."""
    code = block("BK011", "no_empty").replace("[rounds];", "[rounds];\n    mov.u32 %r17, 0;")
    assert old in code
    code = code.replace(old, new) if old else code
    assert any(f.rule.id == "BK011" and not f.replayed for f in reported(code)) == expected


@pytest.mark.parametrize(("offset", "expected"), [(0, True), (256, False)])
def test_a_read_between_the_parts_that_copies_fill(offset: int, expected: bool) -> None:
    """Half of each stage is copied, and the other half holds something else."""
    code = block("BK011", "no_empty").replace("_, [%r5], 512;", "_, [%r5], 256;")
    code = code.replace("[%in], 512, [%r5]", "[%in], 256, [%r5]")
    code = code.replace("shl.b32 %r14, %r0, 2;", "and.b32 %r14, %r0, 63;\n    shl.b32 %r14, %r14, 2;")
    code = code.replace("[%r13];", f"[%r13+{offset}];")
    assert any(f.rule.id == "BK011" and not f.replayed for f in reported(code)) == expected
