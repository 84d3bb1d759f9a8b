"""Findings that moved to other rules: their former id still denotes them, and a note names the present one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tclint.config.config import Config
from tclint.findings.finding import FileReport
from tclint.findings.moved import all_moved, former
from tclint.findings.rules import all_rules
from tclint.findings.scales import Method
from tclint.findings.selection import Request
from tclint.linting.check import check_source
from tclint.report.summary import present
from tclint.syntax.source import Source
from tests.tools import pages

Process = Callable[..., subprocess.CompletedProcess[str]]
OVERWRITTEN = pages.block("BK002", "buffer_given_back_unread")
"""A replay shows that a store overwrites the source of a bulk copy."""
STORE = "    st.shared.v4.b32 [%r30], {%r21, %r21, %r21, %r21};\n"
STATIC = pages.block("BK002", "barrier_is_no_wait")


def lint(code: str, config: Config = Config()) -> FileReport:  # noqa: B008
    return check_source(Source.from_bytes(code.encode(), "k.ptx"), Request(config.selected))


def suppressed(comment: str, code: str = OVERWRITTEN) -> FileReport:
    assert STORE in code
    return lint(code.replace(STORE, f"    // tclint: {comment}\n{STORE}"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.ptx").write_text(OVERWRITTEN)
    return tmp_path


def test_what_a_replay_shows_is_a_finding_of_the_rule_of_the_hazard() -> None:
    (found,) = lint(OVERWRITTEN).findings
    assert (found.rule.id, found.method) == ("BK002", Method.REPLAY)
    assert found.former is not None
    assert found.former.rule == "MB016"


def test_what_follows_from_the_code_has_not_moved() -> None:
    found = lint(STATIC).findings
    assert {f.rule.id for f in found} == {"BK002"}
    assert [f.former for f in found] == [None] * len(found)
    assert all(f.former is None for f in lint(pages.block("MB016", "producer_begins_with_parity_0")).findings)


@pytest.mark.parametrize("id", all_moved()["MB016"].rules)
def test_each_rule_to_which_findings_moved_has_an_example_that_only_a_replay_shows(id: str) -> None:
    methods = {
        f.method for block in all_rules()[id].examples for f in lint(block.code).findings if f.rule.id == id
    }
    assert Method.REPLAY in methods
    assert former(id, Method.REPLAY) == "MB016"
    assert former(id, Method.STATIC) == ""


@pytest.mark.parametrize("selector", ["MB016", "mbarrier-protocol-broken", "BK002", "bulk"])
def test_a_comment_hides_a_finding_by_its_present_and_its_former_id(selector: str) -> None:
    report = suppressed(f"ignore[{selector}] because")
    assert [(f.rule.id, f.suppressed) for f in report.findings] == [("BK002", "because")]
    _, summary = present([report], Config().selected)
    note = (
        "k.ptx: a comment: MB016 no longer reports unordered accesses that a replay shows; "
        "name BK002 before tclint 0.2.0"
    )
    assert summary.notes == ((note,) if selector.lower().startswith("mb") else ())


@pytest.mark.parametrize("selector", ["BK001", "mbarrier"])
def test_a_comment_that_names_another_rule_or_the_former_family_hides_nothing(selector: str) -> None:
    report = suppressed(f"ignore[{selector}] because")
    assert {(f.rule.id, f.suppressed) for f in report.findings} == {("BK002", None), ("SU001", None)}


@pytest.mark.parametrize("place", ["per_file_ignores", "per_entry_ignores"])
def test_ignores_of_files_and_functions_may_use_the_former_id(place: str) -> None:
    config = replace(Config(), **{place: (("*", ("MB016",)),)})  # type: ignore[arg-type]
    (found,) = lint(OVERWRITTEN, config).findings
    assert config.selected.hidden(lint(OVERWRITTEN, config), found) == "ignored"
    shown = lint(STATIC, config)
    assert [config.selected.hidden(shown, f) for f in shown.findings] == [""] * len(shown.findings)


@pytest.mark.parametrize(
    ("options", "code", "noted"),
    [
        (["--ignore", "MB016"], 0, "BK001, BK002, BK011"),
        (["--select", "MB016"], 1, "BK001, BK002, BK011"),
        (["--select", "MB016,BK,CA,PR,SM,TC001,TC012,WG"], 1, "name TC002 before"),
        (["--select", "MB016,ALL"], 1, ""),
        (["--select", "MB"], 0, ""),
        (["--select", "BK002"], 1, ""),
        (["--ignore", "BK002"], 0, ""),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_setting_that_names_a_former_id_works_on_with_a_note(
    run_tclint: Process, options: list[str], code: int, noted: str
) -> None:
    done = run_tclint("check", "--isolated", *options, "k.ptx")
    assert done.returncode == code
    if noted:
        assert done.stderr.startswith(f"{options[0]}: MB016 no longer reports unordered accesses")
        assert noted in done.stderr
    else:
        assert done.stderr == ""


@pytest.mark.parametrize(
    "options", [["--ignore", "MB016"], ["--ignore", "BK002"], ["--select", "MB016", "--ignore", "SM001"], []]
)
def test_settings_that_are_shown_select_the_same(
    run_tclint: Process, folder: Path, options: list[str]
) -> None:
    shown = run_tclint("check", "--isolated", *options, "--show-settings").stdout
    (folder / "tclint-ptx.toml").write_text(shown)
    assert (
        run_tclint("check", "--show-settings").stdout.partition("select")[2] == shown.partition("select")[2]
    )
    assert run_tclint("check", "k.ptx").stdout == run_tclint("check", "--isolated", *options, "k.ptx").stdout


def test_a_baseline_with_the_former_id_hides_the_finding_until_it_is_recorded_again(
    run_tclint: Process, folder: Path
) -> None:
    baseline = folder / "tclint-baseline.json"
    assert run_tclint("baseline", "k.ptx").returncode == 0
    written = baseline.read_text()
    (found,) = lint(OVERWRITTEN).findings
    assert found.former is not None
    old = written.replace('"BK002"', '"MB016"').replace(found.fingerprint, found.former.fingerprint)
    assert old != written
    baseline.write_text(old)
    done = run_tclint("check", "--isolated", "--baseline", str(baseline), "k.ptx")
    assert done.returncode == 0
    assert done.stderr.startswith("k.ptx: the baseline: MB016 no longer reports unordered accesses")
    assert "record it again before tclint 0.2.0" in done.stderr
    assert "1 finding hidden by the baseline." in done.stdout
    again = run_tclint("baseline", "k.ptx")
    assert "1 finding (0 new, 0 gone)" in again.stdout
    assert json.loads(baseline.read_text()) == json.loads(written)
    assert run_tclint("check", "--isolated", "--baseline", str(baseline), "k.ptx").stderr == ""


@pytest.mark.parametrize("option", ["BK002", "MB016"])
def test_an_entry_is_not_gone_if_its_finding_is_not_looked_for(
    run_tclint: Process, folder: Path, option: str
) -> None:
    assert run_tclint("baseline", "k.ptx").returncode == 0
    written = (folder / "tclint-baseline.json").read_text()
    assert "(0 new, 0 gone)" in run_tclint("baseline", "--ignore", option, "k.ptx").stdout
    assert (folder / "tclint-baseline.json").read_text() == written


def test_an_entry_with_the_former_id_hides_nothing_that_follows_from_the_code(
    run_tclint: Process, tmp_path: Path
) -> None:
    (tmp_path / "k.ptx").write_text(STATIC)
    baseline = tmp_path / "tclint-baseline.json"
    assert run_tclint("baseline", "k.ptx").returncode == 0
    baseline.write_text(
        baseline.read_text().replace('"BK002"', '"MB016"').replace('"fingerprint": "', '"fingerprint": "0')
    )
    assert run_tclint("check", "--isolated", "--baseline", str(baseline), "k.ptx").returncode == 1
