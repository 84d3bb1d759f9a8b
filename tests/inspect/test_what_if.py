"""``tclint verdict``: what would decide a class, and ``--what-if``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.command import invoke
from tests.tools.project import ROOT
from tests.tools.schema import strict
from tests.tools.support import HOPPER, module

COUNTED = module(
    """.visible .entry k(.param .u32 n)
.maxntid 128
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [n];
    bar.sync 0, %r1;
    ret;
}""",
    """.visible .entry other()
{
    bar.sync 0;
    ret;
}""",
    header=HOPPER,
)
LAUNCH = """[buffers]
a = { type = "u32", shape = [4] }

[[launches]]
entry = "k"
grid = [1]
block = [%d]
arguments = [{ u32 = %d }]
"""
CONVERGENCE = ("--class", "convergence")


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "k.ptx").write_text(COUNTED)
    return str(tmp_path / "k.ptx")


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    pytest.importorskip("numpy")
    return tmp_path / "k.launch.toml"


def test_an_unknown_class_names_the_fact_that_proves_it(path: str) -> None:
    code, output = invoke("verdict", path, *CONVERGENCE, "--entry", "k")
    assert code == 0
    assert output.splitlines()[1:] == [
        "  convergence: unknown; 1 obligation: 1 not shown",
        "    proved with n=128 (assuming full-cta)",
        "    not shown: all threads of the CTA execute it together",
        "      line 9: it is not known to count all threads of the CTA",
        "  for one launch, check --verdict --execute may bound convergence",
    ]


def test_facts_that_prove_nothing_are_counted(path: str) -> None:
    output = invoke("verdict", path, *CONVERGENCE, "--assume", "elect")[1]
    assert "  of 7 facts about its launches, none proves convergence\n" in output


def test_what_if_compares_what_is_known_now_with_what_would_be(path: str) -> None:
    code, output = invoke("verdict", path, *CONVERGENCE, "--what-if", "n=128")
    assert code == 0
    assert output == (
        f"kernel k  {path}\n"
        "  with n=128\n"
        "  class        now      with it\n"
        "  convergence  unknown  proved (assuming full-cta)\n"
        "\n"
        f"kernel other  {path}\n"
        "  no launch of it is like that\n"
    )
    assert "  convergence  unknown  unknown" in invoke("verdict", path, *CONVERGENCE, "--what-if", "n=64")[1]


def test_a_launch_file_proves_and_bounds(path: str, launch: Path) -> None:
    launch.write_text(LAUNCH % (128, 128))
    output = invoke("verdict", path, *CONVERGENCE, "--what-if", str(launch))[1]
    assert f"  with {launch}\n" in output
    assert "  convergence  unknown  proved\n" in output
    assert output.endswith(f"kernel other  {path}\n  no launch of it is like that\n")
    launch.write_text(LAUNCH % (64, 64))
    bounded = invoke("verdict", path, "--entry", "k", *CONVERGENCE, "--what-if", str(launch))[1]
    assert "  convergence  unknown  proved\n" in bounded


def test_the_json_has_both(path: str, launch: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    launch.write_text(LAUNCH % (128, 128))
    schema = strict(json.loads((ROOT / "docs" / "verdicts.schema.json").read_text(encoding="utf-8")))
    for words in ([], ["--what-if", "n=128"], ["--what-if", str(launch)]):
        document = json.loads(invoke("verdict", path, *words, "--output-format", "json")[1])
        jsonschema.Draft202012Validator(schema).validate(document)
        first, *_ = document["files"][0]["kernels"]
        if words:
            known = {each["class"]: each["status"] for each in first["what_if"]["verdicts"]}
            assert known["convergence"] == "proved"
        else:
            assert "what_if" not in first
            assert {each["class"]: each["decided_by"] for each in first["verdicts"]}["convergence"] == "n=128"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["luck"], "--what-if: unknown assumption 'luck'"),
        (["n=4294967296"], "less than"),
        (["absent.launch.toml"], "absent.launch.toml"),
        (["a.toml", "b.toml"], "only one launch file"),
    ],
)
def test_another_word_is_a_usage_error(path: str, words: list[str], message: str) -> None:
    options = [option for word in words for option in ("--what-if", word)]
    code, output = invoke("verdict", path, *options)
    assert code == 2
    assert message in output


def test_a_launch_file_that_does_not_fit_is_an_error(path: str, launch: Path) -> None:
    launch.write_text(LAUNCH % (256, 128))
    code, output = invoke("verdict", path, "--what-if", str(launch))
    assert code == 2
    assert "more than the .maxntid of 128" in output
