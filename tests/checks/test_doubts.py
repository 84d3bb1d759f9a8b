"""Every lowered confidence has its reason, which the report gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tclint.checks import RuleId
from tclint.findings.rules import Rule, all_rules
from tclint.findings.scales import Confidence
from tclint.findings.selection import Selected
from tests.tools.project import ROOT
from tests.tools.support import lint


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
def test_findings_below_the_confidence_of_their_rule_have_a_doubt(rule: Rule) -> None:
    selected = Selected(rules=frozenset(all_rules()))
    for block in (*rule.examples, *rule.corrections):
        for finding in lint(block.code, selected=selected).findings:
            lowered = finding.confidence is Confidence.LOW < finding.rule.confidence
            assert not lowered or finding.doubt, finding.message
