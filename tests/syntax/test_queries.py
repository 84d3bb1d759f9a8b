"""Each editor query compiles, runs, and captures what it is meant to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tree_sitter import Query, QueryCursor

from tclint._data import data
from tclint.syntax import LANGUAGE, parse

QUERIES = sorted(data("queries").glob("*.scm"))

TEXT = b"""// a kernel
.version 8.7
.target sm_100a
# 4 "x.cu"
.global .b8 table[4] = {1, 2, 3, 4};
.visible .entry kernel(.param .b64 arg) .maxntid 32
{
  .reg .b32 %r<5>, lane;
  .pragma "nounroll";
start:
  @!%p1 bra start;
  tcgen05.wait::ld.sync.aligned;
  mov.u32 lane, %tid.x;
  ld.global.v2.b32 {%r1, _}, [arg+8];
  { .reg .pred done; }
targets: .branchtargets start;
}
.func helper();
.section .debug_str { .b8 0 }
"""

# What only some pattern looks for.
MORE = b"""
.global .attribute(.managed) .b64 pointers[] = { kernel, generic(table) + 4 };
.alias other, helper;
.func caller() {
  .loc 1 2 3
  call_table: .calltargets helper;
  proto: .callprototype _ ;
  call (a), b, (c), proto;
  x -y, z[4];
}
/* no end
"""


def captures(name: str) -> dict[str, list[str]]:
    """The texts of each capture, in the order of the file."""
    query = Query(LANGUAGE, (data("queries") / f"{name}.scm").read_text("utf-8"))
    found = QueryCursor(query).captures(parse(TEXT).root_node)
    return {
        capture: [(n.text or b"").decode() for n in sorted(nodes, key=lambda n: n.start_byte)]
        for capture, nodes in found.items()
    }


def test_all_are_tested() -> None:
    assert [p.stem for p in QUERIES] == ["folds", "highlights", "indents", "injections", "locals", "tags"]


@pytest.mark.parametrize("path", QUERIES, ids=lambda p: p.stem)
def test_every_pattern_matches_something(path: Path) -> None:
    """A pattern that names what the grammar never builds compiles, but colours nothing."""
    query = Query(LANGUAGE, path.read_text("utf-8"))
    used = {pattern for pattern, _ in QueryCursor(query).matches(parse(TEXT + MORE).root_node)}
    unused = [query.start_byte_for_pattern(i) for i in range(query.pattern_count) if i not in used]
    assert [path.read_bytes()[start : start + 60] for start in unused] == []


def test_highlights() -> None:
    found = captures("highlights")
    assert found["function.builtin"] == [
        "bra",
        "tcgen05.wait::ld.sync.aligned",
        "mov.u32",
        "ld.global.v2.b32",
    ]
    assert found["comment"] == ["// a kernel"]
    assert found["function"] == ["kernel", "helper"]
    assert found["keyword.function"] == [".entry", ".func"]
    assert found["label"] == ["start", "targets", "start"]
    assert found["variable.parameter"] == ["arg"]
    assert found["string"] == ['"nounroll"']
    assert found["property"] == [".x"]
    assert found["constant"] == ["sm_100a"]
    assert found["attribute"] == [".maxntid"]
    assert found["variable.builtin"] == ["_"]
    assert found["keyword.conditional"] == ["@", "!"]
    assert {"8.7", "1, 2, 3, 4", "4", "32", "5", "8"} <= set(found["number"])
    assert {".b8", ".b64", ".b32", ".pred"} <= set(found["type.builtin"])
    assert {".reg", ".global", ".param", ".visible"} <= set(found["keyword.modifier"])
    assert ".section .debug_str { .b8 0 }" in found["keyword.directive"]


def test_highlights_name_no_instruction() -> None:
    """Opcodes are data of the ISA table alone, so no query may match the text of one."""
    for path in QUERIES:
        text = path.read_text("utf-8")
        assert not any(word in text for word in ("#eq?", "#match?", "#any-of?")), path.name


def test_locals() -> None:
    found = captures("locals")
    assert len(found["local.scope"]) == 5  # the module, two functions, two blocks
    assert found["local.definition.function"] == ["kernel", "helper"]
    assert found["local.definition.parameter"] == ["arg"]
    assert found["local.definition.var"] == ["table", "%r", "lane", "done"]
    assert found["local.definition.label"] == ["start", "targets"]
    assert found["local.reference"] == ["%p1", "start", "lane", "%tid", "%r1", "arg", "start"]


def test_tags() -> None:
    found = captures("tags")
    assert found["name"] == ["table", "kernel", "start", "targets"]
    assert [text.split("(")[0] for text in found["definition.function"]] == [".visible .entry kernel"]
    assert found["definition.variable"] == [".global .b8 table[4] = {1, 2, 3, 4};"]
    assert found["definition.label"] == ["start:", "targets: .branchtargets start;"]


def test_folds() -> None:
    starts = [text.split("\n")[0] for text in captures("folds")["fold"]]
    assert starts == [
        "// a kernel",
        "{1, 2, 3, 4}",
        "(.param .b64 arg)",
        "{",
        "{ .reg .pred done; }",
        "()",
        ".section .debug_str { .b8 0 }",
    ]


def test_injections() -> None:
    query = Query(LANGUAGE, (data("queries") / "injections.scm").read_text("utf-8"))
    assert captures("injections") == {"injection.content": ["// a kernel"]}
    assert query.pattern_settings(0) == {"injection.language": "comment"}


def test_indents() -> None:
    found = captures("indents")
    assert len(found["indent.begin"]) == 5
    assert found["indent.branch"] == ["}", ")", "}", "}", ")"]
    assert found["indent.ignore"][1].strip() == '# 4 "x.cu"'
