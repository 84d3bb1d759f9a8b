"""Kernels from the pages of the rules."""

from __future__ import annotations

import re

from tests.tools.project import ROOT


def block(page: str, entry: str) -> str:
    """The code block of the rule *page* whose kernel is called *entry*."""
    text = (ROOT / "rules" / f"{page}.md").read_text(encoding="utf-8")
    return str(next(c for c in re.findall(r"```ptx\n(.*?)```", text, re.DOTALL) if f".entry {entry}(" in c))
