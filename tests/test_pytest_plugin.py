"""The pytest plugin, as another project uses it: pytest in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.project import PROJECT, ROOT

pytest_plugins = ["pytester"]

WRONG = ROOT / "fixtures" / "wgmma_unwaited.ptx"
RIGHT = ROOT / "fixtures" / "wgmma_waited.ptx"

TESTS = f"""\
from pathlib import Path

WRONG, RIGHT = Path({str(WRONG)!r}), Path({str(RIGHT)!r})

def test_clean(assert_clean_ptx):
    assert assert_clean_ptx(RIGHT).findings == ()
    assert_clean_ptx(RIGHT.read_text())
    assert_clean_ptx(WRONG, ignore=["WG001"])

def test_findings(assert_clean_ptx):
    assert_clean_ptx(WRONG.read_bytes(), name="gemm.ptx")

def test_not_analysed(assert_clean_ptx):
    assert_clean_ptx("not\\nPTX")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that has tclint's plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    pytester.makeini("[pytest]\naddopts = -p tclint.pytest_plugin --strict-markers\nfilterwarnings = error\n")
    return pytester


def test_the_plugin_is_found_by_pytest() -> None:
    assert PROJECT["project"]["entry-points"]["pytest11"] == {"tclint": "tclint.pytest_plugin"}


def test_a_kernel_with_findings_fails_its_test_with_the_report(project: pytest.Pytester) -> None:
    project.makepyfile(TESTS)
    result = project.runpytest_subprocess("-q")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "    def test_findings(assert_clean_ptx):",
            ">       assert_clean_ptx(WRONG.read_bytes(), name=*",
            "E       Failed: error?WG001? wgmma-unwaited-accumulator-read (high confidence, static): *",
            "E         --> gemm.ptx:51:5 in gemm_unwaited_bad",
            "E       Found 1 error in 1 file; 1 fixable with --fix.",
            "E       Failed: error: <string>:1: unexpected*",
        ]
    )
    assert "pytest_plugin.py" not in result.stdout.str()  # no frame of it is shown


def test_the_settings_of_the_project_count(project: pytest.Pytester) -> None:
    project.makepyfile(TESTS)
    project.path.joinpath("tclint-ptx.toml").write_text('ignore = ["WG001"]\n')
    project.runpytest_subprocess("-k", "findings").assert_outcomes(passed=1)
    on_top = "tclint_options=extend-select = ['WG001']"
    project.runpytest_subprocess("-k", "findings", "-o", on_top).assert_outcomes(failed=1)
    result = project.runpytest_subprocess("-k", "findings", "-o", "tclint_options=fail-on = never")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * tclint_options: is not TOML: *a string needs quotes: *"])


def test_ptx_files_are_collected_when_asked(project: pytest.Pytester) -> None:
    for name, text in (("a/right.ptx", RIGHT), ("a/wrong.ptx", WRONG), ("old/bad.ptx", WRONG)):
        path = project.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.read_bytes())
    project.path.joinpath("tclint-ptx.toml").write_text('exclude = ["old"]\n')
    assert project.runpytest_subprocess().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result = project.runpytest_subprocess("--tclint", "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "a/right.ptx::tclint PASSED*",
            "a/wrong.ptx::tclint FAILED*",
            "*error?WG001?*",
            "  --> a/wrong.ptx:51:5 in gemm_unwaited_bad",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    project.runpytest_subprocess("--tclint", "-m", "not tclint").assert_outcomes(deselected=2)
    project.path.joinpath("tclint-ptx.toml").write_text("slect = 1\n")
    result = project.runpytest_subprocess("--tclint")
    result.stderr.fnmatch_lines(["ERROR: tclint: *unknown setting slect; did you mean select?*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_without_use_nothing_of_tclint_is_imported(project: pytest.Pytester) -> None:
    project.makepyfile(
        "import sys\n"
        "def test_modules():\n"
        "    assert {m for m in sys.modules if m.partition('.')[0] in ('tclint', 'click', 'tree_sitter')}"
        " == {'tclint', 'tclint._version', 'tclint.pytest_plugin'}\n"
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)


USER = """\
from pathlib import Path
import tclint
from tclint.pytest_plugin import AssertCleanPtx

report = tclint.check("ptx\\n", name="k.ptx", ignore=["WG"], fail_on="error", config=Path("x.toml"))
reveal_type(report)
reveal_type(report.ok)
reveal_type(report.exit_code)
reveal_type(report.problems)
reveal_type(str(report))
for finding in report:
    reveal_type(finding)
    reveal_type(finding.rule.id)
    reveal_type(finding.severity >= tclint.Severity.WARNING)
    reveal_type(report.position(finding))
    for fix in finding.fixes:
        reveal_type(fix.edits)
reveal_type(tclint.check_paths(["a", Path("b")]).render("json", locate="source"))
reveal_type(tclint.__version__)

def test_kernel(assert_clean_ptx: AssertCleanPtx) -> None:
    reveal_type(assert_clean_ptx(b"", pedantic=True))

tclint.check("ptx", jobs="many")
tclint.check(3)
tclint.check("ptx", selct=[])
report.render("text", locate="ptxx")
"""
TYPES = """\
tclint.api.Report
bool
int
tuple[tclint.syntax.source.Problem, ...]
str
tclint.findings.finding.Finding
str
bool
tuple[str, tuple[int, int, fallback=tclint.syntax.source.Position]]
tuple[tclint.findings.finding.Edit, ...]
str
str
tclint.api.Report
"""


@pytest.mark.slow
def test_the_types_are_those_that_a_user_needs(tmp_path: Path) -> None:
    """As mypy sees them from outside, with all its checks."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = true\nmypy_path = {ROOT}\nfollow_imports = silent\n"
    )
    command = [sys.executable, "-m", "mypy", "--cache-dir", ROOT / ".mypy_cache" / "user", "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = done.stdout.replace("builtins.", "").splitlines()
    revealed = [line.split('"')[1] for line in said if "Revealed" in line]
    assert revealed == TYPES.splitlines()
    errors = [line.split(":")[1] for line in said if "error:" in line]
    first = USER[: USER.index('tclint.check("ptx", jobs')].count("\n") + 1
    assert errors == [str(first + i) for i in range(4)], done.stdout
