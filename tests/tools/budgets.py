"""The gate on what ptxas makes, as the pages of its rules show it: without a ptxas."""

from __future__ import annotations

import json
import re

from tclint import _toml
from tclint.config import budget
from tclint.driver.assembling import understood
from tclint.findings.figures import (
    ANYWHERE,
    RULES,
    WORDS,
    Assembled,
    Budget,
    Figure,
    Judged,
    KernelFigures,
    Recorded,
)
from tclint.findings.rules import CodeBlock, Rule

PTXAS = "13.5.37"
"""The version that the pages speak of."""
_BLOCKS = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def judged(rule: Rule, block: CodeBlock) -> Judged | None:
    """What the page of a rule about figures says of a block: the section has its budget, what ptxas prints, and the baseline.
    A budget in the example is that of the whole page. None for another rule."""
    if rule.id not in RULES:
        return None
    example, _, rest = rule.body.partition("\n## Correct\n")
    section = example if block in rule.examples else rest
    blocks = dict(_BLOCKS.findall(section))
    table = _toml.parse(dict(_BLOCKS.findall(example)).get("toml", ""))
    names = re.findall(r"entry function '(\w+)'", blocks["text"])
    kernels = understood(blocks["text"], {f".text.{name}": 0 for name in names})
    before = [json.loads(blocks["json"])] if "json" in blocks else []
    return Judged(
        budget.read(table["ptxas-budget"]) if table else Budget(),
        Assembled(PTXAS, "sm_90a", kernels),
        tuple(_recorded(found) for found in before),
    )


def _recorded(found: dict[str, object]) -> Recorded:
    figures = tuple(Figure(name, int(str(found[name]))) for name in WORDS)
    return Recorded(
        *ANYWHERE, str(found["ptxas"]), str(found["target"]), KernelFigures(str(found["entry"]), figures)
    )
