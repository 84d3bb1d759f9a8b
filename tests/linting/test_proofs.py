"""Proofs of edited texts: which edits are offered, and which hits depend on a proof."""

from __future__ import annotations

from tclint.findings.edits import joined
from tclint.findings.moved import subjects
from tclint.findings.rules import all_rules
from tclint.findings.selection import Selected
from tests.tools.support import HOPPER, WGMMA, by_rule, found, kernel, lint, module

FAMILY = Selected(rules=subjects(id for id in all_rules() if id.startswith("CO")))
MULTIPLY = f"setp.ne.b32 %p0, 0, 0;\nwgmma.fence.sync.aligned;\n{WGMMA}\nwgmma.commit_group.sync.aligned;\n"
WAITS = "wgmma.wait_group.sync.aligned 0;\n" * 2


def fixes(text: str) -> list[bytes]:
    """The texts that the fixes of the notes make."""
    report = lint(text, selected=FAMILY)
    assert report.source is not None
    return [joined(report.source.data, fix.edits) for f in report.findings for fix in f.fixes]


def test_an_edit_is_offered_where_the_class_is_proved_after_it() -> None:
    (edited,) = fixes(module(kernel(f"{MULTIPLY}{WAITS}ret;"), header=HOPPER))
    assert edited.count(b"wait_group") == 1
    assert not lint(edited, selected=FAMILY).findings


def test_no_edit_is_offered_where_the_class_is_not_proved() -> None:
    text = module(kernel(f"{MULTIPLY}add.f32 %f9, %f0, %f1;\n{WAITS}ret;"), header=HOPPER)
    assert by_rule(lint(text, selected=FAMILY), "CO001")
    assert fixes(text) == []


def test_a_hit_that_depends_on_a_proof_is_dropped_where_it_fails() -> None:
    (example,) = all_rules()["CO008"].examples
    assert [rule for rule, _ in found(lint(example.code, selected=FAMILY))].count("CO008") == 1
    newest = example.code.replace("ld.shared.u32 %r7, [%r6];", "ld.shared.u32 %r7, [%r8];")
    assert newest != example.code
    assert "CO008" not in [rule for rule, _ in found(lint(newest, selected=FAMILY))]


def test_a_wait_that_another_one_follows_is_not_said_to_wait_for_too_much() -> None:
    (example,) = all_rules()["CO008"].examples
    wait = "cp.async.wait_group 0;\n"
    twice = example.code.replace(f"{wait}    ld.shared", f"{wait}    {wait}    ld.shared")
    assert twice != example.code
    notes = [f for f in lint(twice, selected=FAMILY).findings if f.rule.id == "CO008"]
    assert not notes
