"""The Python API: what ``tclint.check`` takes, returns and refuses, and that its options are the settings."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tclint
from tclint.api import Options
from tclint.config.config import settings
from tclint.syntax.source import Source
from tests.tools.pages import block
from tests.tools.project import ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]

WRONG = ROOT / "fixtures" / "wgmma_unwaited.ptx"
RIGHT = ROOT / "fixtures" / "wgmma_waited.ptx"


@pytest.mark.parametrize(
    "source",
    [WRONG, str(WRONG), WRONG.read_text(), WRONG.read_bytes(), Source.read(WRONG)],
    ids=["path", "path as text", "text", "bytes", "source"],
)
def test_every_kind_of_input_gives_the_same_findings(source: object) -> None:
    report = tclint.check(source)  # type: ignore[arg-type]
    assert [finding.rule.id for finding in report] == ["WG001"]
    assert (report.exit_code, report.ok, report.problems) == (1, False, ())


def test_a_clean_kernel_is_ok() -> None:
    report = tclint.check(RIGHT)
    assert report.ok
    assert report.findings == ()
    assert str(report) == "No findings in 1 file.\n"


@pytest.mark.parametrize(
    ("strict", "severity", "level", "code"), [(False, "info", "note", 0), (True, "warning", "warning", 1)]
)
def test_strict_decides_the_severity_of_what_only_the_letter_of_the_isa_forbids(
    strict: bool, severity: str, level: str, code: int, tmp_path: Path
) -> None:
    kernel = block("TC011", "overwritten")
    report = tclint.check(kernel, strict=strict)
    assert [(f.rule.id, f.severity.label) for f in report] == [("TC011", severity)]
    assert (report.exit_code, tclint.check(kernel, strict=strict, fail_on="error").exit_code) == (code, 0)
    assert json.loads(report.render("json"))["files"][0]["findings"][0]["severity"] == severity
    (result,) = json.loads(report.render("sarif"))["runs"][0]["results"]
    assert result["level"] == level
    hidden = tclint.check(kernel, strict=strict, min_severity="warning")
    assert len(hidden.findings) == (1 if strict else 0)
    comment = kernel.replace("mov.b32 %r4, 1;", "mov.b32 %r4, 1; // tclint: ignore[TC011] the value is lost")
    assert tclint.check(comment, strict=strict).exit_code == 0


def test_a_baseline_does_not_depend_on_strict(run_tclint: Run, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(block("TC011", "overwritten"))
    assert run_tclint("check", "--strict", "k.ptx").returncode == 1
    assert run_tclint("check", "--strict", "--no-strict", "k.ptx").returncode == 0
    assert run_tclint("baseline", "k.ptx").returncode == 0
    assert run_tclint("check", "--strict", "--baseline", "tclint-baseline.json", "k.ptx").returncode == 0


def test_positions_and_formats() -> None:
    report = tclint.check(WRONG.read_text(), name="kernel.ptx")
    (finding,) = report
    path, position = report.position(finding)
    assert path == "kernel.ptx"
    assert report.render("concise").startswith(f"kernel.ptx:{position.line}:{position.column}: error WG001")
    with pytest.raises(ValueError, match="unknown output format 'yaml'"):
        report.render("yaml")
    (other,) = tclint.check(WRONG)
    with pytest.raises(ValueError, match="not a finding of this report"):
        report.position(other)


def test_settings_are_those_of_a_file(tmp_path: Path) -> None:
    assert tclint.check(WRONG, ignore=["WG"]).ok
    assert tclint.check(WRONG, fail_on="never").exit_code == 0
    (tmp_path / "tclint-ptx.toml").write_text('ignore = ["WG001"]\n')
    assert tclint.check(WRONG, config=tmp_path / "tclint-ptx.toml").ok
    assert not tclint.check(WRONG, config=tmp_path / "tclint-ptx.toml", select=["WG001"], ignore=()).ok
    (tmp_path / "pyproject.toml").write_text("")
    with pytest.raises(tclint.SettingsError, match="has no table"):
        tclint.check(WRONG, config=tmp_path / "pyproject.toml")
    with pytest.raises(tclint.SettingsError, match="did you mean select"):
        tclint.check(WRONG, selct=["WG"])  # type: ignore[call-arg]
    with pytest.raises(tclint.SettingsError, match="the call: fail-on must be one of"):
        tclint.check(WRONG, fail_on="erorr")


def test_no_configuration_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tclint-ptx.toml").write_text('ignore = ["ALL"]\n')
    monkeypatch.chdir(tmp_path)
    assert not tclint.check(WRONG).ok


def test_options_are_the_settings() -> None:
    assert set(Options.__annotations__) == {setting.name for setting in settings()}


def test_what_cannot_be_analysed_is_a_problem_and_not_clean(tmp_path: Path) -> None:
    for source in (b"\xff\xfe.", "int main() {\n}", tmp_path / "missing.ptx", tmp_path):
        report = tclint.check(source)
        assert (report.exit_code, report.ok, bool(report.problems)) == (2, False, True)


def test_paths(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "wrong.ptx").write_bytes(WRONG.read_bytes())
    (tmp_path / "right.ptx.gz").write_bytes(gzip.compress(RIGHT.read_bytes()))
    report = tclint.check_paths([tmp_path / "a", tmp_path / "right.ptx.gz"])
    assert (len(report.files), len(report.findings)) == (2, 1)
    report = tclint.check_paths([tmp_path], exclude=[str(tmp_path / "a")])
    assert (len(report.files), report.summary.excluded, report.ok) == (1, 1, True)


def test_importing_the_package_imports_nothing() -> None:
    code = "import sys, tclint; print(*(m for m in sys.modules if m.startswith('tclint.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tclint._version\n"
    with pytest.raises(AttributeError, match="has no attribute 'chek'"):
        _ = tclint.chek  # type: ignore[attr-defined]
