"""The texts of ``tclint rules``, ``tclint explain`` and ``tclint isa``."""

from __future__ import annotations

import json
import re

import pytest

from tclint.findings.rules import all_rules, find, words_of
from tclint.inspect.explain import (
    UnknownOpcode,
    isa,
    rule_list,
    rules_json,
    rules_markdown,
    rules_short,
    rules_table,
)
from tclint.isa.table import table
from tests.tools.project import ROOT

TABLE = table()


def test_rules_as_json_and_markdown() -> None:
    rules = list(all_rules().values())
    documents = json.loads(rules_json(rules))
    assert [document["id"] for document in documents] == list(all_rules())
    assert documents[-1]["explanation"].startswith("## What it finds")
    assert {document["severity"] for document in documents} <= {"error", "warning", "info"}
    text = rules_markdown(rules)
    assert all(f"# {rule.id} {rule.name}\n\nSeverity" in text for rule in rules)
    assert len(rule_list(rules).splitlines()) == len(rules)


def test_a_rule_that_is_off_and_one_that_strict_raises_are_marked() -> None:
    rules = [find("AV003"), find("TC011")]
    assert [line.split("  ")[1] for line in rule_list(rules).splitlines()] == ["info, off", "info"]
    assert [(d["severity"], d["strict"], d["default"]) for d in json.loads(rules_json(rules))] == [
        ("info", "info", False),
        ("info", "warning", True),
    ]
    for text in (rules_markdown(rules), rules_table(rules)):
        assert "info, off by default" in text
        assert "info (warning with --strict)" in text


def test_programs_learn_what_confirms_a_rule() -> None:
    documents = json.loads(rules_json([find("CV001"), find("WG010")]))
    assert [document["confirmed_by"] for document in documents] == [
        {"instruction": ["divergent", "warpgroup"], "wait": ["deadlock-barrier"]},
        {},
    ]


def test_the_list_of_all_rules_is_current() -> None:
    """``tclint rules --output-format markdown`` makes it."""
    rules = list(all_rules().values())
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == rules_table(rules)


@pytest.mark.parametrize("width", [72, 80, 100])
def test_lists_and_descriptions_fit_the_width(width: int) -> None:
    texts = (
        rule_list(list(all_rules().values()), width),
        rules_short(all_rules().values(), width),
        isa(table(), "mbarrier", width),
        isa(table(), "wgmma.fence", width),
    )
    for text in texts:
        assert max(map(len, text.splitlines())) <= width, text
        assert min(len(line.strip()) for line in text.splitlines() if line) > 0


def test_a_list_without_a_width_has_a_line_for_each_rule() -> None:
    every = list(all_rules().values())
    assert [line.split()[0] for line in rule_list(every).splitlines()] == [rule.id for rule in every]


def test_the_short_text_has_the_summary_and_what_to_write_instead() -> None:
    rule = all_rules()["WG001"]
    first, *rest = rules_short([rule], 1000).splitlines()
    assert first == f"WG001 {rule.name}: error, confidence high"
    assert rest[0].strip() == rule.summary
    assert [line.strip().partition(":")[0] for line in rest[1:-1]] == list(words_of(rule, all_rules()))
    assert rest[-1].endswith("tclint explain WG001")


@pytest.mark.parametrize(
    ("opcode", "forms"),
    [
        ("tcgen05.ld", ["tcgen05.ld"]),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", ["wgmma.mma_async.f16"]),
        ("add.s32 %r1, %r2, %r3;", ["add.int"]),
        ("wgmma.wait_group", ["wgmma.wait_group"]),
        ("wgmma.mma_async.f16", ["wgmma.mma_async.f16"]),
        ("wgmma.wai", ["wgmma.wait_group"]),
        ("elect", ["elect.sync"]),
        ("mbarrier.try_wait", ["mbarrier.wait", "mbarrier.wait.parity"]),
        ("WGMMA.Wait_Group", ["wgmma.wait_group"]),
        ("MBARRIER.ARRIVE.NOCOMPLETE", ["mbarrier.arrive.noComplete"]),
    ],
)
def test_an_instruction_is_described(opcode: str, forms: list[str]) -> None:
    lines = isa(TABLE, opcode).splitlines()
    assert [line.partition(":")[0] for line in lines if line and line[0] != " " and ": " in line][
        : len(forms)
    ] == forms
    for title in ("syntax", "since", "targets", "manual", "example"):
        assert sum(line.startswith(f"  {title} ") for line in lines) == len(forms)


def test_a_description_says_what_the_table_knows() -> None:
    assert re.search(r"  event +commit\n  group +bulk\n", isa(TABLE, "cp.async.bulk.commit_group"))
    described = isa(TABLE, "wgmma.mma_async.f16")
    for words in (
        "PTX ISA 9.1, §9.7.15.5.2",
        "sm_90a",
        ".m64n8k16 ... .m64n256k16 (32 spellings)",
        "asynchronous, completed by wgmma, in the async proxy",
        "reads d, a, the memory of a-desc, the memory of b-desc until then",
        "all threads of the warpgroup together",
        "imm-scale-a: read, an integer in -1, 1",
    ):
        assert words in described


def test_many_forms_are_listed() -> None:
    text = isa(TABLE, "mbar")
    assert "mbarrier.init  " in text
    assert "forms; `tclint isa NAME` describes one." in text
    assert "other forms: ld.volatile" in isa(TABLE, "ld")


@pytest.mark.parametrize("name", [form.name for form in TABLE])
def test_every_form_can_be_described(name: str) -> None:
    text = isa(TABLE, name)
    assert TABLE.forms[name].manual in text
    assert "  example " in text or not TABLE.forms[name].examples


@pytest.mark.parametrize(("opcode", "suggestion"), [("wgma", "; did you mean wgmma?"), ("", ""), ("@@", "")])
def test_an_unknown_one_suggests(opcode: str, suggestion: str) -> None:
    with pytest.raises(UnknownOpcode) as caught:
        isa(TABLE, opcode)
    assert str(caught.value) == f"unknown instruction '{opcode}' in the table of PTX ISA 9.5{suggestion}"


def test_what_becomes_of_an_instruction_where_it_is_not_implemented() -> None:
    text = isa(TABLE, "cp.async.bulk.load")
    assert re.search(
        r"machine code +\.multicast::cluster becomes a call of the driver on sm_120 or higher\n", text
    )
    assert re.search(r"\n +\.shared::cluster becomes a call of the driver on sm_120 or higher\n", text)
    assert re.search(r"machine code +becomes a trap on sm_120 or higher\n", isa(TABLE, "fabric.try_get"))
    assert "machine code" not in isa(TABLE, "cp.async.bulk.store")
