"""The grammar used alone: by the tree-sitter command, as `tree-sitter.json` describes it, without tclint."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import ROOT
from test_syntax import FIXTURES, GENERATOR, SYNTAX, tree_sitter_command
from tree_sitter import Query, QueryCursor

from tclint._data import data
from tclint.syntax import LANGUAGE, parse

GRAMMAR = json.loads((SYNTAX / "tree-sitter.json").read_text("utf-8"))["grammars"][0]
HIGHLIGHTS = Query(LANGUAGE, (data("queries") / "highlights.scm").read_text("utf-8"))

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def tree_sitter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the command in a copy of the grammar, with the files and folders that it needs and no others."""
    cli = tree_sitter_command()
    folder = tmp_path_factory.mktemp("grammar")
    shutil.copytree(data("queries"), folder / "queries")
    copy = folder / "tclint" / "syntax"
    for part in ("src", "test"):
        shutil.copytree(SYNTAX / part, copy / part)
    for part in ("grammar.js", "tree-sitter.json"):
        shutil.copy(SYNTAX / part, copy)
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    # Its settings and what it compiles stay there too. It knows the captures that its theme has a colour for.
    names = [HIGHLIGHTS.capture_name(i) for i in range(HIGHLIGHTS.capture_count)]
    settings = folder / "config" / "tree-sitter" / "config.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"parser-directories": [], "theme": dict.fromkeys(names, 1)}))
    homes = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [cli, *arguments],
            check=False,
            cwd=copy,
            env=os.environ | homes,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_its_own_tests_pass(tree_sitter: Run) -> None:
    """Trees, colours and tags: `test/corpus`, `test/highlight` and `test/tags`."""
    run = tree_sitter("test")
    assert run.returncode == 0, run.stdout + run.stderr
    for heading in ("syntax highlighting:", "tags:"):
        assert heading in run.stdout
    assert "✗" not in run.stdout


def test_it_parses_every_fixture(tree_sitter: Run) -> None:
    run = tree_sitter("parse", "--quiet", "--stat", *FIXTURES)
    assert run.returncode == 0, run.stdout
    assert f"successful parses: {len(FIXTURES)}; failed parses: 0" in run.stdout


def test_it_says_that_a_file_is_broken(tree_sitter: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.ptx").write_text(".version 8.0\nfoo bar {\n")
    run = tree_sitter("parse", "--quiet", tmp_path / "broken.ptx")
    assert run.returncode == 1
    assert "ERROR" in run.stdout


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


class Spans(HTMLParser):
    """The text of `tree-sitter highlight --html`, and for each character the classes around it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = ""
        self.classes: list[str | None] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "span":
            self._open.append(dict(attributes)["class"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "span":
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        self.classes += [self._open[-1] if self._open else None] * len(data)


@pytest.mark.parametrize("name", ["tcgen05_gemm", "wgmma_pipelined", "inlined_loc", "branch_table", "calls"])
def test_it_colours_what_the_queries_capture(tree_sitter: Run, name: str) -> None:
    path = ROOT / "fixtures" / f"{name}.ptx"
    run = tree_sitter("highlight", "--html", "--layout", "fragment", "--style", "minimal", path)
    assert run.returncode == 0, run.stderr
    spans = Spans(run.stdout)
    source = path.read_text("ascii")
    start = spans.text.index(source[:40])
    shown = spans.text[start : start + len(source)]
    assert shown == source
    for at, (capture, found) in enumerate(
        zip(captures(source.encode()), spans.classes[start:], strict=False)
    ):
        if not source[at].isspace():
            assert found == (capture and capture.replace(".", " ")), source[max(at - 20, 0) : at + 20]


def test_the_queries_are_where_it_says() -> None:
    for kind in ("highlights", "tags", "injections"):
        assert (SYNTAX / GRAMMAR[kind]).resolve() == (ROOT / "queries" / f"{kind}.scm")


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("//", True),
        ("// Generated by LLVM NVPTX Back-End", True),
        (".version 8.7", True),
        ("// a library for everything", False),
        ("#include <stdio.h>", False),
        (".version of something", False),
    ],
)
def test_files_are_known_by_their_first_line(line: str, known: bool) -> None:
    """nvcc and LLVM begin with an empty comment."""
    assert bool(re.search(GRAMMAR["first-line-regex"], line)) == known


def test_its_name_is_its_own() -> None:
    """The grammars that editors bring for PTX are called `ptx`, and two parsers of one name exclude each other."""
    assert GRAMMAR["name"] == "ptx_isa"
    assert "tree_sitter_ptx_isa(void)" in (SYNTAX / "src" / "parser.c").read_text("utf-8")
    assert re.fullmatch(GRAMMAR["injection-regex"], "ptx")


# ---- docs/grammar.md ----

PAGE = (ROOT / "docs" / "grammar.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page(tree_sitter: Run) -> None:
    (commands,) = blocks("sh")
    for command in commands.splitlines():
        words = shlex.split(command)
        assert words.pop(0) == "tree-sitter"
        files = [
            path
            for word in words
            if "*" in word
            for path in sorted((ROOT / "fixtures").glob(Path(word).name))
        ]
        run = tree_sitter(*(word for word in words if "*" not in word), *files)
        assert run.returncode == 0, f"{command}\n{run.stdout}{run.stderr}"


def test_the_python_of_the_page() -> None:
    (code,) = blocks("python")
    environment = os.environ | {"PYTHONPATH": str(SYNTAX.parent.parent)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def test_the_numbers_of_the_page() -> None:
    assert f"with {HIGHLIGHTS.capture_count} captures" in PAGE
    assert f"| captures of `highlights.scm` | {HIGHLIGHTS.capture_count} |" in PAGE
    assert f"tree-sitter-cli@{GENERATOR}" in PAGE
