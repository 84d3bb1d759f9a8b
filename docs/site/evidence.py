"""The tables in docs/executor.md: ``python docs/site/evidence.py`` writes them anew. A test compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tclint.driver.evidence import CAUSED_BY
from tclint.executor.missing import MISSING
from tclint.executor.observations import KINDS
from tclint.findings.rules import Rule, all_rules

PAGE = Path(__file__).resolve().parent.parent / "executor.md"
_KINDS = "| observation | meaning |\n|---|---|\n"
_RULES = "| rule | observations | at |\n|---|---|---|\n"
_MISSING = "| not executed | forms |\n|---|---|\n"
_CAUSES = "| assumption | observations that confirm nothing |\n|---|---|\n"
_WHERE = {
    "pair": "the pair of instructions of the finding",
    "instruction": "the instruction where the finding is reported",
    "operation": "the pending operation or allocation of the finding",
    "mbarrier": "the mbarrier of the finding",
    "wait": "the wait of the finding",
}


def tables() -> dict[str, str]:
    """The head of each table of the page, and its rows."""
    missing: dict[str, list[str]] = {}
    for form, reason in MISSING.items():
        missing.setdefault(reason, []).append(form)
    confirmable = [row for rule in all_rules().values() for row in _rows(rule)]
    return {
        _KINDS: "".join(f"| `{kind}` | {meaning} |\n" for kind, meaning in KINDS.items()),
        _RULES: "".join(confirmable),
        _MISSING: "".join(f"| {reason} | {_list(forms)} |\n" for reason, forms in missing.items()),
        _CAUSES: "".join(f"| {what} | {_list(sorted(kinds))} |\n" for what, kinds in CAUSED_BY.items()),
    }


def _rows(rule: Rule) -> Iterator[str]:
    for where, kinds in rule.confirmed_by.items():
        yield f"| [{rule.id}](../rules/{rule.id}.md) | {_list(kinds)} | {_WHERE[where]} |\n"


def _list(kinds: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in kinds)


def page() -> str:
    """docs/executor.md with the tables in place of those that it has. Raises ValueError where one is missing."""
    text = PAGE.read_text(encoding="utf-8")
    for head, rows in tables().items():
        text, number = re.subn(re.escape(head) + r"(?:\|.*\n)*", (head + rows).replace("\\", r"\\"), text)
        if number != 1:
            raise ValueError(f"{PAGE} has {number} tables with the head {head!r}, not one")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
