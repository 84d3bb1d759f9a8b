"""Configuration: what files and options say, in which order, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tclint.config.config import Config, settings
from tclint.config.settings import (
    COMMAND_LINE,
    Layer,
    Settings,
    SettingsError,
    discover,
    inline,
    load,
    resolve,
    schema,
    show,
)
from tclint.findings.figures import RULES, Budget, Limit
from tclint.findings.requirements import ALL_ASSUMPTIONS, requirements
from tclint.findings.scales import Confidence, Severity
from tclint.findings.verdicts import Assumption, HazardClass
from tests.tools.project import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path("/project")


def said(text: str, origin: str = "tclint-ptx.toml") -> Layer:
    return Layer(origin, tomllib.loads(text), HERE)


EVERYTHING = """
select = ["ALL"]
extend-select = ["WG001"]
ignore = ["TC001"]
fail-on = "never"
exit-zero = true
min-severity = "warning"
min-confidence = "low"
pedantic = true
strict = true
entry = ["gemm*"]
exclude = ["old", "build/", "out/*.ptx"]
force-exclude = true
toolkit = "12.8"
baseline = "known.json"
arch = "sm_90a"
include = ["*.cu", "src/*.py"]
jobs = 3
max-input = 64
cache = false
confirm = true
confirm-steps = 5
execute = true
execute-steps = 1000
verdict = true
require = ["proved:wgmma", "convergence", "bounded:mbarrier,bulk"]
assume = ["threads"]
accept-ptxas-change = true
[per-file-ignores]
"gen/*.ptx" = ["wgmma"]
"b.ptx" = ["PX"]
"**/cache/*" = ["PX"]
[per-entry-ignores]
"*_test" = ["ALL"]
[ptxas-budget]
options = ["--maxrregcount=64"]
timeout = 60
allowance = { registers = 4 }
[[ptxas-budget.limits]]
C75xx = 0
[[ptxas-budget.limits]]
kernels = ["gemm*"]
targets = ["sm_90a"]
registers = 168
"""


def test_every_setting_can_be_in_a_file() -> None:
    assert set(tomllib.loads(EVERYTHING)) == {setting.key for setting in settings()}
    config = resolve([said(EVERYTHING)]).config
    assert config.rules is not None
    assert "TC001" not in config.rules
    assert config == Config(
        fail_on=None,
        exit_zero=True,
        min_severity=Severity.WARNING,
        min_confidence=Confidence.LOW,
        pedantic=True,
        strict=True,
        entry=("gemm*",),
        exclude=("old", "build", "/project/out/*.ptx"),
        force_exclude=True,
        toolkit=(12, 8),
        arch="sm_90a",
        include=("*.cu", "/project/src/*.py"),
        per_file_ignores=(("/project/gen/*.ptx", ("wgmma",)), ("b.ptx", ("PX",)), ("**/cache/*", ("PX",))),
        per_entry_ignores=(("*_test", ("ALL",)),),
        baseline="/project/known.json",
        jobs=3,
        max_input=64,
        cache=False,
        confirm=True,
        confirm_steps=5,
        execute=True,
        execute_steps=1000,
        verdict=True,
        require=requirements(["proved:wgmma,convergence", "bounded:mbarrier,bulk"]),
        assume=frozenset({Assumption.THREADS}),
        ptxas_budget=Budget(
            (Limit(most=(("C75xx", 0),)), Limit(("gemm*",), ("sm_90a",), (("registers", 168),))),
            (("registers", 4),),
            ("--maxrregcount=64",),
            60,
        ),
        accept_ptxas_change=True,
        rules=config.rules,
    )


def test_a_budget_turns_its_rules_on_unless_others_are_selected() -> None:
    budget = said("ptxas-budget = {}")
    assert not resolve([]).config.selected.on.intersection(RULES)
    assert resolve([budget]).config.selected.on.issuperset(RULES)
    assert resolve([budget, said('ignore = ["PB003"]')]).config.selected.on.intersection(RULES) == {
        *RULES[:2]
    }
    assert not resolve([budget, said('select = ["WG"]')]).config.selected.on.intersection(RULES)
    assert resolve([budget]).config.selected.on - set(RULES) == resolve([]).config.selected.on


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ptxas-budget = 3", "ptxas-budget: it must be a table"),
        ("ptxas-budget = { limit = [] }", "unknown key limit; did you mean limits?"),
        ("ptxas-budget = { limits = { registers = 3 } }", "limits must be a list of tables"),
        ("ptxas-budget = { limits = [{ kernels = ['k'] }] }", "an entry of limits limits nothing"),
        ("ptxas-budget = { limits = [{ kernels = 'k', registers = 3 }] }", "kernels must be a list of texts"),
        ("ptxas-budget = { limits = [{ spills = 3 }] }", "unknown figure spills; did you mean spill-"),
        (
            "ptxas-budget = { limits = [{ local = 3 }] }",
            "unknown figure local; there are registers, barriers, stack",
        ),
        ("ptxas-budget = { limits = [{ C74 = 3 }] }", "unknown figure C74"),
        ("ptxas-budget = { limits = [{ stack = -1 }] }", "stack must be a number, at least 0"),
        ("ptxas-budget = { limits = [{ stack = true }] }", "stack must be a number, at least 0"),
        ("ptxas-budget = { allowance = { regs = 3 } }", "unknown figure regs"),
        ("ptxas-budget = { timeout = 0 }", "timeout must be a number of seconds"),
    ],
)
def test_a_wrong_budget_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        resolve([said(text)])


@pytest.mark.parametrize(
    "option", ["-o", "--output-file=x", "--options-file=x", "-O3", "--fmad=a/b", "--maxrregcount 3"]
)
def test_an_option_that_names_a_file_is_refused(option: str) -> None:
    with pytest.raises(SettingsError, match="is not one of the options of ptxas"):
        resolve([said(f"ptxas-budget = {{ options = [{option!r}] }}")])


def test_a_requirement_asks_for_verdicts_which_may_assume_everything_unless_a_setting_refuses_it() -> None:
    assert Config().assuming is None
    assert resolve([said('assume = ["none"]')]).config.assuming is None
    assert resolve([said("verdict = true")]).config.assuming == ALL_ASSUMPTIONS
    required = said('require = ["proved:wgmma"]')
    assert resolve([required]).config.assuming == ALL_ASSUMPTIONS
    assert resolve([required, said('assume = ["none"]')]).config.assuming == frozenset()


def test_an_assumption_of_checks_leaves_proofs_theirs() -> None:
    config = resolve([said('verdict = true\nassume = ["dependent"]')]).config
    assert config.dependent
    assert config.assuming == ALL_ASSUMPTIONS
    both = resolve([said('verdict = true\nassume = ["dependent", "threads"]')]).config
    assert both.assuming == {Assumption.THREADS}
    assert not Config().dependent


def test_a_missing_setting_has_its_default() -> None:
    assert resolve([]) == Settings(Config(), {})


@pytest.mark.parametrize(
    ("texts", "changes"),
    [
        (['min-severity = "error"', 'min-severity = "warning"'], {"min_severity": Severity.WARNING}),
        (['min-severity = "error"', 'fail-on = "warning"'], {"min_severity": Severity.ERROR}),
        (["pedantic = true", 'min-confidence = "high"'], {"min_confidence": Confidence.HIGH}),
        (
            ['min-confidence = "high"', "pedantic = true"],
            {"min_confidence": Confidence.HIGH, "pedantic": True},
        ),
        (["pedantic = true", "pedantic = false"], {}),
        (["exit-zero = true", 'fail-on = "error"'], {"fail_on": Severity.ERROR}),
        (["exit-zero = true", "exit-zero = false"], {}),
        (['jobs = "auto"'], {}),
        (["jobs = 0"], {}),
    ],
)
def test_a_later_setting_counts(texts: list[str], changes: dict[str, Any]) -> None:
    assert resolve(map(said, texts)).config == Config(**changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('min_severity = "error"', "t.toml: unknown setting min_severity; did you mean min-severity?"),
        (
            "[tool.tclint-ptx]\njobs = 1",
            "t.toml: [tool.tclint-ptx] is for pyproject.toml; in this file settings need no",
        ),
        ("banana = 1", "t.toml: unknown setting banana"),
        (
            'fail-on = "eror"',
            't.toml: fail-on must be one of error, warning, info, never, not "eror"; did you mean error?',
        ),
        ("fail-on = 1", "fail-on must be one of"),
        ("fail-on = []", "fail-on must be one of"),
        ("pedantic = 1", "pedantic must be true or false, not 1"),
        ('exit-zero = "yes"', "exit-zero must be true or false"),
        ('select = "WG"', 'select must be a list of rules, not "WG"'),
        ("ignore = [1]", "ignore must be a list of rules"),
        ('ignore = [""]', "ignore must be a list of rules"),
        ('select = ["wgma"]', "select: unknown rule 'wgma'; did you mean wgmma?"),
        ('entry = "gemm"', "entry must be a list of patterns"),
        ('exclude = "build"', "exclude must be a list of patterns"),
        ("toolkit = 12.8", "toolkit must be a CUDA version"),
        ('toolkit = "twelve"', "toolkit must be a CUDA version"),
        ("jobs = -1", "jobs must be a number"),
        ("jobs = true", "jobs must be a number"),
        ('jobs = "many"', "jobs must be a number"),
        ("jobs = 1979-05-27", "jobs must be a number"),
        ('per-file-ignores = ["WG"]', "per-file-ignores must be a table"),
        ('per-file-ignores = { "a" = "WG" }', "per-file-ignores must be a table"),
        ('per-entry-ignores = { "a" = ["WX"] }', "per-entry-ignores: unknown rule 'WX'"),
        ('select = ["WG"]\nignore = ["WG"]', "leave no rule"),
        ("select = []", "leave no rule"),
        ('pedantic = true\nmin-confidence = "medium"', "t.toml: pedantic and min-confidence contradict"),
        ('exit-zero = true\nfail-on = "error"', "exit-zero and fail-on contradict"),
        ('min-severity = "error"\nfail-on = "warning"', "fail-on is below min-severity"),
    ],
)
def test_what_is_wrong_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve([said(text, "t.toml")])
    assert message in str(caught.value)


def test_options_are_named_as_such() -> None:
    with pytest.raises(SettingsError, match=r"^--toolkit must be"):
        resolve([Layer(COMMAND_LINE, {"toolkit": "x"}, HERE)])


# ---------------------------------------------------------------- files


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.tclint-ptx]\nfail-on = "info"\n')
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    found = discover(deep)
    assert found is not None
    assert (found.values, found.folder) == ({"fail-on": "info"}, tmp_path)
    (tmp_path / "a" / "tclint-ptx.toml").write_text('fail-on = "error"\n')
    (tmp_path / "a" / "pyproject.toml").write_text('[tool.tclint-ptx]\nfail-on = "never"\n')
    found = discover(deep)
    assert found is not None
    assert found.values == {"fail-on": "error"}


def test_a_byte_order_mark_and_windows_newlines_are_fine(tmp_path: Path) -> None:
    (tmp_path / "tclint-ptx.toml").write_bytes(b"\xef\xbb\xbfpedantic = true\r\njobs = 2\r\n")
    layer = load(tmp_path / "tclint-ptx.toml")
    assert layer is not None
    assert layer.values == {"pedantic": True, "jobs": 2}


def test_a_broken_project_file_that_is_not_about_tclint_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.other\n")
    assert load(path) is None
    path.write_text("# tclint-ptx\n[tool]\n")
    assert load(path) is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tclint-ptx.toml", "a = ?\n", r"tclint-ptx.toml: is not TOML: .*line 1"),
        ("tclint-ptx.toml", "\xff", "cannot be read"),
        ("pyproject.toml", "tool.tclint-ptx = 3", r"\[tool.tclint-ptx\] must be a table"),
        ("absent.toml", "", "absent.toml: cannot be read: No such file"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    if text:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=message):
        load(path)


def test_a_setting_on_the_command_line() -> None:
    assert inline('min-severity = "error"').values == {"min-severity": "error"}
    assert inline('per-file-ignores = {"a" = ["WG"]}').values == {"per-file-ignores": {"a": ["WG"]}}
    with pytest.raises(SettingsError, match="a string needs quotes: --config 'fail-on = \"error\"'"):
        inline("fail-on=error")


# ---------------------------------------------------------------- what is shown of them


def test_show_is_toml_that_says_where_from() -> None:
    found = resolve([said(EVERYTHING), Layer(COMMAND_LINE, {"jobs": 2, "ignore": ["AV"]}, HERE)])
    text = show(found)
    assert "jobs = 2  # the command line" in text
    assert 'toolkit = "12.8"  # tclint-ptx.toml' in text
    assert "# rules: tclint-ptx.toml, the command line" in text
    assert resolve([said(text)]).config == found.config
    assert resolve([said(show(resolve([])))]).config.failing == Config().failing


def fits(value: Any, rule: dict[str, Any]) -> bool:
    """Whether a value is as a schema says, for the few words that ours uses."""
    kinds = {"string": str, "boolean": bool, "array": list, "object": dict, "integer": int}
    unknown = rule.keys() - {
        *("description", "default", "type", "items", "minLength", "enum", "anyOf", "pattern"),
        *("additionalProperties", "minimum", "const", "properties", "patternProperties"),
    }
    assert not unknown
    if "anyOf" in rule:
        return any(fits(value, option) for option in rule["anyOf"])
    if "enum" in rule or "const" in rule:
        return value in rule.get("enum", [rule.get("const")])
    if not isinstance(value, kinds[rule["type"]]) or (rule["type"] == "integer" and isinstance(value, bool)):
        return False
    if rule["type"] == "array":
        return all(fits(item, rule["items"]) for item in value)
    if rule["type"] == "object":
        return all(_fits_in(key, item, rule) for key, item in value.items())
    if rule["type"] == "string":
        return len(value) >= rule.get("minLength", 0) and bool(re.search(rule.get("pattern", ""), value))
    return rule["type"] == "boolean" or value >= rule["minimum"]


def _fits_in(key: str, value: Any, rule: dict[str, Any]) -> bool:
    """Whether *key* and its value may be in a table."""
    patterns = (
        other for pattern, other in rule.get("patternProperties", {}).items() if re.search(pattern, key)
    )
    known = rule.get("properties", {}).get(key) or next(patterns, rule["additionalProperties"])
    return bool(known) and fits(value, known)


@pytest.mark.parametrize("setting", list(settings()), ids=lambda setting: setting.key)
def test_the_schema_and_the_reader_agree(setting: Any) -> None:
    document = json.loads(schema())
    assert document["additionalProperties"] is False
    assert list(document["properties"]) == [each.key for each in settings()]
    rule = document["properties"][setting.key]
    assert rule["description"] == setting.help
    if setting.default is not None:
        assert setting.kind.read(rule["default"]) == setting.default
    assert fits(tomllib.loads(EVERYTHING)[setting.key], rule)
    wholes = [
        *tomllib.loads(EVERYTHING).values(),
        *rule.get("enum", ()),
        "auto",
        "12",
        0,
        -1,
        [],
        [""],
        [1],
        {},
        1.5,
    ]
    for value in (*wholes, {"a": "WG"}, {"a": [1]}, {"a": []}):
        try:
            setting.kind.read(value)
            readable = True
        except (TypeError, ValueError, KeyError, AttributeError, SettingsError):
            readable = False
        assert readable == fits(value, rule), value


def test_the_schema_names_every_class_and_every_assumption() -> None:
    properties = json.loads(schema())["properties"]
    for hazard in HazardClass:
        assert fits(
            [f"proved:{hazard.value}", f"bounded:{hazard.value}, {hazard.value}"], properties["require"]
        )
    assert not fits(["proved:wgma"], properties["require"])
    assert properties["assume"]["items"]["enum"] == [*(each.value for each in Assumption), "none"]


def test_the_documentation_names_every_setting() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `([\w-]+)` \| (.*?) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    expected = []
    for setting in settings():
        default = "" if setting.default is None else f"`{json.dumps(setting.kind.write(setting.default))}`"
        option = "" if setting.kind.option == "none" else f"`--{setting.key}`"
        expected.append((setting.key, default, option, setting.help))
    assert table == expected
