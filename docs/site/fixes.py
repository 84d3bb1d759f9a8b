"""The table in docs/fixes.md: ``python docs/site/fixes.py`` writes it anew. A test compares the two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tclint.config.config import Config
from tclint.driver.fixing import shown
from tclint.findings.finding import Fix
from tclint.findings.rules import Rule, all_rules
from tclint.syntax.source import Source

PAGE = Path(__file__).resolve().parent.parent / "fixes.md"
_HEAD = "| rule | fix | what it does in the examples |\n|---|---|---|\n"


def table() -> str:
    """Markdown with a row for each rule and kind of fix, safe before unsafe, that the findings in its examples carry."""
    return _HEAD + "".join(row for rule in all_rules().values() for row in _rows(rule))


def page() -> str:
    """docs/fixes.md with the table in place of the one that it has. Raises ValueError where it has none."""
    text = PAGE.read_text(encoding="utf-8")
    made, number = re.subn(re.escape(_HEAD) + r"(?:\|.*\n)*", lambda _: table(), text)
    if number != 1:
        raise ValueError(f"{PAGE} has {number} tables of fixes, not one")
    return made


def _rows(rule: Rule) -> Iterator[str]:
    fixes = list(_fixes(rule))
    for kind, safe in (("safe", True), ("unsafe", False)):
        if messages := dict.fromkeys(fix.message for fix in fixes if fix.safe is safe):
            yield f"| [{rule.id}](../rules/{rule.id}.md) | {kind} | {'; '.join(messages)} |\n"


def _fixes(rule: Rule) -> Iterator[Fix]:
    """The fixes of the rule's findings in its examples, those of low confidence too."""
    config = Config(pedantic=True, rules=frozenset(all_rules()), toolkit=rule.toolkit)
    sources = [(block, f"{rule.id}.ptx") for block in rule.examples]
    sources += [(block, f"{rule.id}.cu") for block in rule.statements]
    for block, name in sources:
        report = shown(Source(block.code.encode(), name), config)
        for finding in report.findings:
            if finding.rule.id == rule.id:
                yield from finding.fixes


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
