from __future__ import annotations

import json
from pathlib import Path

import pytest

from tclint.findings import front_matter, rules
from tclint.findings.figures import RULES as GATE
from tclint.findings.front_matter import RuleError
from tclint.findings.rules import (
    HEADINGS,
    Pages,
    UnknownRule,
    all_rules,
    default_rules,
    load_rules,
    parse_page,
    words_of,
)
from tclint.findings.scales import Confidence, Severity
from tclint.findings.verdicts import HazardClass
from tests.tools.project import ROOT

FRONT = """\
+++
name = "some-rule"
severity = "error"
confidence = "high"
family = "some"
hazards = ["wgmma"]
since = "0.1.0"
manual = ["9.7.15.7.3"]
words = "none"
+++
"""
TEXTS = dict.fromkeys(HEADINGS, "Text.") | {
    "What it finds": "An `accumulator` is read\nwhile *written*. More, e.g. this.",
    "Example": "```ptx\n// bad\n## not a heading\n```\nand\n```ptx\n// worse\n```",
    "Correct": "```ptx\n// good\n```\n```text\n# output\n```",
}
NO_WORDS = 'words = "none"'
WORDS = """\
[words]
CUTLASS = "call f()"
"CuTe DSL" = "call g()"
"CUDA C++" = "none"
Triton = "report it"
"""
BODY = "".join(f"## {heading}\n\n{text}\n\n" for heading, text in TEXTS.items())


def test_a_page_becomes_a_rule() -> None:
    rule = parse_page("AB001", FRONT + BODY)
    assert (rule.id, rule.name, rule.family, rule.since) == ("AB001", "some-rule", "some", "0.1.0")
    assert (rule.severity, rule.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert rule.hazards == ("wgmma",)
    assert rule.manual == ("9.7.15.7.3",)
    assert rule.summary == "An accumulator is read while written."
    assert rule.body == BODY.strip() + "\n"
    assert [block.code for block in rule.examples] == ["// bad\n## not a heading\n", "// worse\n"]
    assert [block.code for block in rule.corrections] == ["// good\n"]
    lines = (FRONT + BODY).splitlines()
    assert [lines[block.line - 1] for block in rule.examples] == ["// bad", "// worse"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("+++\nname", "name", "must start with TOML"),
        ('severity = "error"', 'severity = "fatal"', "severity must be one of info, warning, error"),
        ('confidence = "high"', 'confidence = "confirmed"', "only the executor"),
        ('name = "some-rule"', 'name = "Some_Rule"', "'Some_Rule' is malformed"),
        ('name = "some-rule"', "", "name must be a str"),
        ('since = "0.1.0"', 'since = "soon"', "'soon' is malformed"),
        ('family = "some"', 'family = "some"\ntags = 1', "unknown key tags"),
        ('["9.7.15.7.3"]', '["wgmma"]', "section numbers"),
        ('["9.7.15.7.3"]', "[]", "section numbers"),
        ('family = "some"', 'family = "some"\ntoolkit = "12"', "toolkit = '12' is not a version"),
        ('family = "some"', 'family = "some"\ntoolkit = 12.8', "toolkit must be a str"),
        ('family = "some"', "family = some", "front matter: "),
        ('family = "some"', 'family = "some"\nassembles = "no"', "assembles must be a bool"),
        ('family = "some"', 'family = "some"\ndefault = "no"', "default must be a bool"),
        (
            'family = "some"',
            'family = "some"\nstrict = "fatal"',
            "strict must be one of info, warning, error",
        ),
        ('family = "some"', 'family = "some"\nstrict = "error"', "strict must be above severity"),
        ('hazards = ["wgmma"]\n', "", "hazards must be a list"),
        ('["wgmma"]', "[1]", "hazards must list classes"),
        ('family = "some"', 'family = "some"\nsubsumed_by = ["wgmma"]', "subsumed_by must list rules"),
        ('family = "some"', 'family = "some"\nrace = 1', "race must be a bool"),
        ('family = "some"', 'family = "some"\nchecks = ["a-b"]', "checks must list modules"),
        ('family = "some"', 'family = "some"\nneeds = ["A"]', "needs must list what a kernel contains"),
        (
            'family = "some"',
            'family = "some"\nobserved_as = ["a in b"]',
            "observed_as must list observations",
        ),
        (
            'family = "some"',
            'family = "some"\nconfirmed_by = { pair = "unordered" }',
            "confirmed_by must have lists",
        ),
        ('family = "some"', 'family = "some"\ninline = "file"', "inline must be one of string, statement"),
        ('family = "some"', 'family = "some"\nmoved = { what = "all" }', "moved must have what, method,"),
        (NO_WORDS, "", "words must be a table, the id of a rule such as WG001, or"),
        (NO_WORDS, "words = 1", "words must be a table"),
        (NO_WORDS, 'words = "wgmma"', "words must be a table"),
        (
            NO_WORDS,
            WORDS + 'OpenCL = "x"',
            r"words: unknown producer OpenCL: must be one of CUTLASS, CuTe DSL, CUDA C\+\+, Triton",
        ),
        (NO_WORDS, WORDS.replace("Triton", "# Triton"), "words: Triton must be a text"),
        (NO_WORDS, WORDS.replace("call g()", ""), "words: CuTe DSL must be a text"),
        ("## Exceptions\n\nText.\n\n", "", r"missing: Exceptions"),
        ("## Exceptions", "## Except", "unknown heading 'Except'"),
        ("## Exceptions\n\nText.", "## Exceptions\n", "nothing under 'Exceptions'"),
        ("## Exceptions", "## Correct", "'Correct' appears twice"),
        ("## What it finds", "# AB001\n## What it finds", "the title is made from"),
        ("```ptx\n// good\n```", "", "'Correct' needs a ptx or cuda block"),
        ("# output\n```", "# output\n", "code block without an end"),
    ],
)
def test_a_page_that_is_not_as_it_must_be_is_refused(old: str, new: str, message: str) -> None:
    page = FRONT + BODY
    assert old in page
    with pytest.raises(RuleError, match=message) as caught:
        parse_page("AB001", page.replace(old, new, 1))
    assert str(caught.value).startswith("AB001.md:")


def test_a_page_may_name_the_toolkit_it_is_about() -> None:
    assert parse_page("AB001", FRONT + BODY).toolkit is None
    page = FRONT.replace('since = "0.1.0"', 'since = "0.1.0"\ntoolkit = "12.8"') + BODY
    assert parse_page("AB001", page).toolkit == (12, 8)


def test_a_page_may_raise_the_severity_where_the_isa_counts_to_the_letter() -> None:
    assert parse_page("AB001", FRONT + BODY).severity_if(strict=True) is Severity.ERROR
    page = FRONT.replace('severity = "error"', 'severity = "info"\nstrict = "warning"') + BODY
    rule = parse_page("AB001", page)
    assert (rule.severity_if(strict=False), rule.severity_if(strict=True)) == (
        Severity.INFO,
        Severity.WARNING,
    )


def test_the_rules_that_are_off_by_default_are_those_whose_pages_say_it() -> None:
    """They are found in the text, because parsing all pages would take longer than linting a small file."""
    assert parse_page("AB001", FRONT + BODY).default
    assert not parse_page("AB001", FRONT.replace(NO_WORDS, f"default = false\n{NO_WORDS}") + BODY).default
    rules_ = all_rules()
    assert (
        default_rules()
        == {id for id, rule in rules_.items() if rule.default}
        == rules_.keys()
        - {
            *GATE,
            "AV003",
            "MO006",
            "TC026",
            *(id for id in rules_ if id.startswith("CO")),
        }
    )


def test_examples_assemble_unless_the_page_denies_it() -> None:
    assert parse_page("AB001", FRONT + BODY).assembles
    assert not parse_page("AB001", FRONT.replace(NO_WORDS, f"{NO_WORDS}\nassembles = false") + BODY).assembles


def test_a_page_has_words_for_each_producer_but_for_those_without() -> None:
    assert parse_page("AB001", FRONT + BODY).words == {}
    words = parse_page("AB001", FRONT.replace(NO_WORDS, WORDS) + BODY).words
    assert words == {"CUTLASS": "call f()", "CuTe DSL": "call g()", "Triton": "report it"}


def _pages(folder: Path, *words: str) -> Path:
    """Pages AB001, AB002, ... with these words."""
    for number, text in enumerate(words, 1):
        front = FRONT.replace("some-rule", f"rule-{number}").replace(NO_WORDS, text)
        (folder / f"AB{number:03}.md").write_text(front + BODY)
    return folder


def test_a_page_that_names_another_one_has_its_words(tmp_path: Path) -> None:
    rules = load_rules(_pages(tmp_path, WORDS, 'words = "AB001"', NO_WORDS))
    assert [words_of(rule, rules) for rule in rules.values()] == [
        rules["AB001"].words,
        rules["AB001"].words,
        {},
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("words = 'AB009'",), r"AB001\.md:1: front matter: words: unknown rule AB009"),
        (("words = 'AB001'",), r"AB001\.md:1: front matter: words: AB001 has no table of words"),
        ((NO_WORDS, "words = 'AB001'"), r"AB002\.md:1: front matter: words: AB001 has no table of words"),
        ((WORDS, "words = 'AB001'", "words = 'AB002'"), r"AB003\.md:1: .*: AB002 has no table of words"),
    ],
)
def test_a_page_that_names_one_without_words_is_refused(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(RuleError, match=message):
        load_rules(_pages(tmp_path, *words))


def test_an_observation_is_reported_under_one_rule(tmp_path: Path) -> None:
    words = f'{NO_WORDS}\nobserved_as = ["proxy", "proxy of cp.async"]'
    load_rules(_pages(tmp_path, words, words.replace('"proxy", ', "").replace("cp.async", "wgmma")))
    with pytest.raises(
        RuleError, match=r"AB002\.md:1: front matter: AB001 already claims proxy of cp\.async"
    ):
        load_rules(_pages(tmp_path, words, words.replace('"proxy", ', "")))


def test_all_pages_of_tclint_are_valid_together() -> None:
    assert list(load_rules(ROOT / "rules")) == list(rules.all_rules())


def test_a_class_of_hazards_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "AB001.md").write_text(FRONT.replace('["wgmma"]', '["wgmma", "wgma"]') + BODY)
    with pytest.raises(RuleError, match=r"AB001\.md:1: front matter: hazards: unknown class wgma"):
        load_rules(tmp_path)


@pytest.mark.parametrize(
    ("causes", "message"),
    [
        ((["AB009"],), r"AB001\.md:1: front matter: subsumed_by: unknown rule AB009"),
        ((["AB001"],), r"AB001\.md:1: front matter: subsumed_by: a rule subsumes itself"),
        ((["AB002"], ["AB003"], ["AB001"]), "subsumed_by: a rule subsumes itself"),
    ],
)
def test_a_cause_that_does_not_exist_or_has_itself_as_cause_is_refused(
    tmp_path: Path, causes: tuple[list[str], ...], message: str
) -> None:
    with pytest.raises(RuleError, match=message):
        load_rules(_pages(tmp_path, *(f"{NO_WORDS}\nsubsumed_by = {json.dumps(each)}" for each in causes)))


@pytest.mark.parametrize(
    ("rule", "hazards"),
    [
        ("WG001", {"wgmma"}),
        ("CV001", {"convergence", "deadlock"}),
        ("TC001", {"tcgen05-mma", "tensor-memory"}),
        ("MB016", {"mbarrier", "deadlock"}),
        ("TC007", set()),
        ("PX008", set()),
        ("SU001", set()),
    ],
)
def test_a_rule_violates_the_classes_that_its_page_names(rule: str, hazards: set[str]) -> None:
    assert set(all_rules()[rule].hazards) == hazards


def test_every_class_of_hazards_is_violated_by_some_rule() -> None:
    named = {name for rule in all_rules().values() for name in rule.hazards}
    assert named == {hazard.value for hazard in HazardClass}


def test_headings_have_an_order() -> None:
    page = FRONT + BODY.replace("Why it is wrong", "X").replace("References", "Why it is wrong").replace(
        "X", "References"
    )
    with pytest.raises(RuleError, match="out of order"):
        parse_page("AB001", page)


def test_the_file_name_is_the_id() -> None:
    with pytest.raises(RuleError, match="file name"):
        parse_page("some-rule", FRONT + BODY)


def test_front_matter_is_parsed_again_only_when_a_page_has_changed(tmp_path: Path) -> None:
    pages, kept = _pages(tmp_path, f"{NO_WORDS}\nrace = true", NO_WORDS), tmp_path / "kept"
    assert Pages(pages, kept).front.declared("race") == {"AB001": True}
    written = kept.read_bytes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(front_matter._toml, "parse", None)
        assert Pages(pages, kept).front.declared("race") == {"AB001": True}
        assert Pages(pages, kept)["AB002"].name == "rule-2"
    page = pages / "AB001.md"
    page.write_text(page.read_text() + "More.\n")
    Pages(pages, kept).front.keep()
    assert kept.read_bytes() == written  # the text below is not kept
    page.write_text(page.read_text().replace("rule-1", "rule-9").replace("race = true", "race = false"))
    assert Pages(pages, kept).front.declared("race") == {"AB001": False}
    assert Pages(pages, kept)["AB001"].name == "rule-9"
    page.write_text(page.read_text().replace('"rule-9"', "rule-9"))
    with pytest.raises(RuleError, match=r"AB001\.md:1: front matter"):
        Pages(pages, kept).front.declared("race")


def test_names_are_unique(tmp_path: Path) -> None:
    (tmp_path / "AB001.md").write_text(FRONT + BODY)
    assert list(load_rules(tmp_path)) == ["AB001"]
    (tmp_path / "AB002.md").write_text(FRONT + BODY)
    with pytest.raises(RuleError, match="AB001 already has the name some-rule"):
        load_rules(tmp_path)


def test_rules_are_found_by_id_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = parse_page("AB001", FRONT + BODY)
    monkeypatch.setattr(rules, "all_rules", lambda: {"AB001": rule})
    assert rules.find("AB001") is rules.find("ab001") is rules.find("some-rule") is rule
    suggestions = {
        "AB1": "did you mean AB001?", "AB010": "there are AB001 to AB001", "XX1": "tclint rules lists them",
        "some-role": "did you mean some-rule?", "zzz": "tclint rules lists them",
    }  # fmt: skip
    for text, suggestion in suggestions.items():
        with pytest.raises(UnknownRule) as caught:
            rules.find(text)
        assert str(caught.value) == f"unknown rule {text}; {suggestion}"


@pytest.mark.parametrize(
    ("words", "first"),
    [("race", "SM001"), ("leak", "TM001"), ("wait commit", "CA002"), ("deadlock", "CV014")],
)
def test_words_that_name_no_rule_lead_to_the_rules_about_them(words: str, first: str) -> None:
    with pytest.raises(UnknownRule) as caught:
        rules.find(words)
    about = str(caught.value).partition("about it: ")[2].split(", ")
    assert first in about
    assert len(about) <= 5


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("WG1", "WG001"),
        ("wg-12", "WG012"),
        ("wg001", "WG001"),
        ("Wgmma Fence", "wgmma-fence"),
        ("wgmma-unw", "wgmma-unwaited-read"),
        ("wgmma-fnce", "wgmma-fence"),
        ("WG" + "0" * 5000 + "1", "WG001"),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_what_a_misspelt_word_stands_for(text: str, meant: str) -> None:
    words = ["WG001", "WG010", "WG011", "WG012", "WG013", "wgmma-unwaited-read", "wgmma-fence", "fence"]
    assert rules.closest(text, words) == meant


def test_without_pages_nothing_looks_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "data", lambda name: tmp_path / name)
    with pytest.raises(RuleError, match="incomplete installation of tclint"):
        rules.all_rules.__wrapped__()
