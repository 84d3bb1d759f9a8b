"""The grammar's files, the command that generates them, and what its queries capture."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tree_sitter import Query, QueryCursor

import tclint.syntax
from tclint._data import data
from tclint.syntax import LANGUAGE, parse
from tests.tools.project import ROOT

SYNTAX = Path(tclint.syntax.__file__).resolve().parent
FIXTURES = sorted((ROOT / "fixtures").rglob("*.ptx"))
HIGHLIGHTS = Query(LANGUAGE, (data("queries") / "highlights.scm").read_text("utf-8"))
GENERATOR = "0.27.1"
"""The version of the tree-sitter command that made the committed `src/`."""


def tree_sitter_command() -> str:
    """The command that made the committed files; a test that needs it skips without."""
    cli = shutil.which("tree-sitter")
    if cli is None:
        pytest.skip("the tree-sitter command is not installed (cargo install tree-sitter-cli --locked)")
    version = subprocess.run([cli, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if version != GENERATOR:
        pytest.skip(f"tree-sitter {GENERATOR} made the committed files; {version} is installed")
    return cli


def captures(text: bytes) -> list[str | None]:
    """The capture of each byte: that of the innermost node and, of patterns for one node, the last, as in editors."""
    spans = [
        (node.start_byte - node.end_byte, pattern, node.start_byte, node.end_byte, capture)
        for pattern, nodes in QueryCursor(HIGHLIGHTS).matches(parse(text).root_node)
        for capture, captured in nodes.items()
        for node in captured
    ]
    found: list[str | None] = [None] * len(text)
    for _, _, start, end, capture in sorted(spans):
        found[start:end] = [capture] * (end - start)
    return found
