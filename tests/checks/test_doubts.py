"""Every lowered confidence has its reason, which the report gives, and a safe fix of a note changes spelling alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tclint.checks import RuleId
from tclint.findings.edits import joined
from tclint.findings.rules import Rule, all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Request, Selected
from tclint.ir.frontend import analyse
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.project import ROOT


def _lowered() -> Iterator[str]:
    """Where a check names the lowest confidence itself, instead of giving a doubt."""
    for path in sorted((ROOT / "tclint").rglob("checks/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr == "LOW":
                yield f"{path.name}:{node.lineno}"


def test_only_a_doubt_lowers_a_confidence_to_low() -> None:
    (only,) = _lowered()
    assert only.startswith("__init__.py:")
    hit = RuleId("WG001").hit(message="reads it", site=0)
    doubted = hit.doubted("it may not")
    assert (doubted.confidence, doubted.doubt) == (Confidence.LOW, "it may not")
    assert hit.doubted("") is hit


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_a_low_confidence_has_a_doubt_and_no_safe_fix_of_a_note_changes_more_than_spelling(
    rule: Rule,
) -> None:
    """A finding below the confidence of its rule says why. The code of a note works: another wait, fence, barrier or commit
    could only slow it down."""
    selected = Selected(rules=frozenset(all_rules()))
    for block in (*rule.examples, *rule.corrections):
        text = block.code.encode()
        for finding in check_source(Source(text, "k.ptx"), Request(selected, rule.toolkit)).findings:
            lowered = finding.confidence is Confidence.LOW < finding.rule.confidence
            assert not lowered or finding.doubt, finding.message
            for fix in finding.fixes if finding.severity is Severity.INFO else ():
                assert not fix.safe or _operands(joined(text, fix.edits)) == _operands(text), finding.rule.id


def _operands(text: bytes) -> list[object]:
    """The first words and the operands of all instructions, without the modifiers of the former."""
    module, _ = analyse(Source(text, "k.ptx"))
    return [
        (instruction.opcode.partition(".")[0], instruction.operands)
        for function in module.functions
        for instruction in function.instructions
    ]
