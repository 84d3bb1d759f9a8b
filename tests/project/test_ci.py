"""What docs/ci.md offers for CI systems, and the workflows of this project: each is carried out as its file has it.

A step of ``action.yml`` runs with the environment that GitHub would give it. What it uses of others (Python, the upload)
is left out; actionlint and zizmor look at the rest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tclint._version import __version__
from tclint.findings.rules import all_rules
from tests.tools.project import PACKAGE, ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
if os.name != "posix" or shutil.which("bash") is None:
    pytest.skip("bash is not installed", allow_module_level=True)

FIXTURES = ROOT / "fixtures"
CI = ROOT / "docs" / "ci"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
WORKFLOWS = [*sorted((ROOT / ".github/workflows").glob("*.yml")), *sorted(CI.glob("github-*.yml"))]


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


# ---------------------------------------------------------------- the steps of the action


class Outcome(NamedTuple):
    code: int
    """The exit code of the step that failed, or 0."""
    log: str
    outputs: Mapping[str, str]
    """Of the step ``lint``."""
    uploaded: Mapping[str, str] | None
    """The inputs of the upload, where it took place."""
    summary: str


class Runner:
    """Runs the steps of a composite action in *workspace* as GitHub documents it."""

    def __init__(self, workspace: Path, **inputs: str) -> None:
        self.workspace = workspace
        self.temporary = workspace.parent / f"{workspace.name} temp"
        self.temporary.mkdir(exist_ok=True)
        unknown = inputs.keys() - ACTION["inputs"].keys()
        assert not unknown, unknown
        values = {name: described["default"] for name, described in ACTION["inputs"].items()}
        self.known = {f"inputs.{name}": value for name, value in (values | inputs).items()}
        self.known |= {"github.action_path": str(ROOT), "runner.temp": str(self.temporary)}

    def value(self, expression: str) -> str:
        return self.known.get(expression.strip(), "")

    def filled(self, text: str) -> str:
        return re.sub(r"\$\{\{(.*?)\}\}", lambda found: self.value(found[1]), text)

    def condition(self, text: str) -> bool:
        """``a.b == 'x' && ...``: all that the action needs."""
        outcomes = []
        for term in text.split("&&"):
            left, sign, right = re.fullmatch(r"\s*([\w.-]+) (==|!=) '(.*)'\s*", term).groups()  # type: ignore[union-attr]
            outcomes.append((self.value(left) == right) == (sign == "=="))
        return all(outcomes)

    def run(self, *, skip: tuple[str, ...] = ("Set up Python", "Install tclint")) -> Outcome:
        code, log, uploaded, outputs = 0, "", None, {}
        summary = self.temporary / "summary.md"
        summary.write_text("")
        for step in ACTION["runs"]["steps"]:
            if step["name"] in skip or not self.condition(step.get("if", "x != 'y'")):
                continue
            if "uses" in step:
                assert step["name"] == "Upload the report", "a step that this test does not know"
                uploaded = {key: self.filled(text) for key, text in step["with"].items()}
                continue
            assert "${{" not in step["run"], "an input could become a part of the script"
            written = self.temporary / "output"
            written.write_text("")
            script = self.temporary / "step.sh"
            script.write_text(step["run"])
            environment = {"GITHUB_OUTPUT": str(written), "GITHUB_STEP_SUMMARY": str(summary)}
            environment |= {key: self.filled(text) for key, text in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=self.workspace / self.filled(step.get("working-directory", "")),
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
                check=False,
            )
            log += done.stdout
            new = dict(read_outputs(written.read_text()))
            self.known |= {f"steps.{step.get('id')}.outputs.{key}": value for key, value in new.items()}
            if step.get("id") == "lint":
                outputs = new
            if code := done.returncode:
                break
        return Outcome(code, log, outputs, uploaded, summary.read_text())


def read_outputs(text: str) -> Iterator[tuple[str, str]]:
    """``name=value`` and ``name<<END`` with lines up to ``END``."""
    lines = iter(text.splitlines())
    for line in lines:
        if found := re.fullmatch(r"([\w-]+)<<(.+)", line):
            yield (
                found[1],
                "\n".join(iter(lambda end=found[2]: None if (at := next(lines)) == end else at, None)),
            )
        else:
            name, _, value = line.partition("=")
            yield name, value


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with kernels, and a tclint where the action would have installed it."""
    folder = tmp_path / "work space"
    (folder / "out put").mkdir(parents=True)
    shutil.copy(FIXTURES / "wgmma_unwaited.ptx", folder / "out put" / "a b.ptx")
    shutil.copy(FIXTURES / "wgmma_waited.ptx", folder / "clean.ptx")
    (folder / "broken.ptx").write_text((FIXTURES / "wgmma_waited.ptx").read_text().replace("{", "(", 1))
    executable(
        tmp_path / "work space temp" / "tclint" / "bin" / "tclint",
        f'#!/bin/sh\nexec "{sys.executable}" -m tclint "$@"\n',
    )
    return folder


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE.parent))
    for name in ("FORCE_COLOR", "GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)


def results(workspace: Path, name: str = "tclint.sarif") -> list[dict[str, Any]]:
    """The results of a report, which must be SARIF by its schema where that is at hand."""
    log = json.loads((workspace / name).read_text(encoding="utf-8"))
    if (schema := Path(os.environ.get("TCLINT_SARIF_MULTITOOL", "/nowhere")) / "sarif-2.1.0.json").is_file():
        pytest.importorskip("jsonschema").validate(log, json.loads(schema.read_text("utf-8-sig")))
    (run,) = log["runs"]
    assert run["tool"]["driver"]["name"] == "tclint"
    return list(run["results"])


def test_findings_fail_the_job_after_the_upload(workspace: Path) -> None:
    done = Runner(workspace, paths="  out put\nclean.ptx\n\n").run()
    assert done.code == 1
    assert done.outputs == {"exit-code": "1", "sarif-file": "tclint.sarif"}
    assert done.uploaded == {"sarif_file": "tclint.sarif", "category": "tclint"}
    assert {result["ruleId"] for result in results(workspace)} == {"WG001"}
    assert results(workspace)[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (
        "out%20put/a%20b.ptx"
    )
    assert "error[WG001]" in done.log
    assert "\n    out put/a b.ptx:" in done.summary
    assert "tclint has findings" in done.log


def test_a_clean_run_passes_and_is_uploaded_so_that_old_alerts_close(workspace: Path) -> None:
    done = Runner(workspace, paths="clean.ptx").run()
    assert (done.code, done.outputs["exit-code"]) == (0, "0")
    assert done.uploaded is not None
    assert results(workspace) == []


def test_what_was_not_analysed_fails_whatever_fail_on_says(workspace: Path) -> None:
    done = Runner(workspace, **{"fail-on": "never", "sarif-file": "re port.sarif"}).run()
    assert (done.code, done.outputs["exit-code"]) == (2, "2")
    assert done.uploaded is not None
    assert done.uploaded["sarif_file"] == "re port.sarif"
    assert {result["ruleId"] for result in results(workspace, "re port.sarif")} >= {"WG001"}
    assert "::error title=tclint::an input was not analysed" in done.log


def test_fail_on_decides_what_findings_do(workspace: Path) -> None:
    assert Runner(workspace, paths="out put", **{"fail-on": "never"}).run().code == 0
    assert Runner(workspace, paths="out put", args="--ignore\nWG001").run().code == 0


def test_a_wrong_argument_fails_and_an_older_report_is_not_uploaded(workspace: Path) -> None:
    (workspace / "tclint.sarif").write_text("{}")
    done = Runner(workspace, args="--no-such-option").run()
    assert (done.code, done.uploaded, done.outputs["sarif-file"]) == (2, None, "")
    assert "No such option" in done.log
    assert Runner(workspace, paths="").run().code == 2


def test_the_report_is_named_from_the_root_of_the_repository(workspace: Path) -> None:
    done = Runner(workspace, paths="a b.ptx", **{"working-directory": "out put"}).run()
    assert done.code == 1
    assert done.uploaded is not None
    assert (workspace / done.uploaded["sarif_file"]).is_file()


def test_without_upload_the_log_can_annotate(workspace: Path) -> None:
    done = Runner(workspace, paths="out put", upload="false", annotations="true").run()
    assert (done.code, done.uploaded) == (1, None)
    assert "::error file=out put/a b.ptx,line=" in done.log


@pytest.mark.parametrize(
    "text", ['$(touch pwned)"; touch pwned #', "`touch pwned`", "--output\njson=x; touch pwned"]
)
def test_no_input_becomes_a_command(workspace: Path, text: str) -> None:
    every = {name: text for name in ACTION["inputs"] if name not in ("working-directory", "python-version")}
    assert Runner(workspace, **every).run().code != 0
    assert not list(workspace.parent.rglob("pwned"))


def test_the_action_installs_its_own_checkout(workspace: Path) -> None:
    """The step itself, with a pip that says what it was asked for: .ci/run installs the checkout for real."""
    temporary = workspace.parent / "work space temp"
    executable(
        workspace.parent / "python",
        f'#!/bin/sh\nprintf "%s|" "$@" >> "{workspace.parent}/asked"\n'
        f'[ "$2" != venv ] || {{ mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/tclint"; }}\n',
    )
    for version, wanted in (("", str(ROOT)), ("1.2.3", "tclint-ptx==1.2.3")):
        runner = Runner(workspace, version=version)
        runner.known["steps.python.outputs.python-path"] = str(workspace.parent / "python")
        (workspace.parent / "asked").write_text("")
        assert runner.run(skip=("Set up Python", "Lint", "Verdict")).code == 0
        asked = (workspace.parent / "asked").read_text()
        assert asked.startswith(f"-m|venv|{temporary}/tclint|")
        assert f"|--no-input|{wanted}|" in asked


# ---------------------------------------------------------------- the files to copy


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line of a job, with this tclint on PATH and a pip that does nothing."""
    executable(folder / ".bin" / "pip", "#!/bin/sh\n[ \"$*\" = 'install tclint-ptx' ]\n")
    executable(folder / ".bin" / "tclint", f'#!/bin/sh\nexec "{sys.executable}" -m tclint "$@"\n')
    path = os.pathsep.join((str(folder / ".bin"), os.environ["PATH"]))
    return subprocess.run(
        ["bash", "-ec", line], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository as the files to copy expect it: PTX below out/, here one file with findings."""
    (tmp_path / "out").mkdir()
    shutil.copy(FIXTURES / "wgmma_unwaited.ptx", tmp_path / "out")
    (tmp_path / ".github").mkdir()
    shutil.copy(CI / "tclint-matcher.json", tmp_path / ".github")
    return tmp_path


def test_the_gitlab_job_reports_what_it_finds(project: Path) -> None:
    (job,) = yaml.safe_load((CI / "gitlab.yml").read_text(encoding="utf-8")).values()
    codes = [shell(line, project).returncode for line in job["script"]]
    assert codes == [0] * (len(codes) - 1) + [1]
    assert job["artifacts"]["when"] == "always", "a job with findings fails, and must not lose its report"
    quality = json.loads((project / job["artifacts"]["reports"]["codequality"]).read_text())
    assert [(issue["check_name"], issue["location"]["path"]) for issue in quality] == [
        ("WG001", "out/wgmma_unwaited.ptx")
    ]
    for name in job["artifacts"]["paths"]:
        assert {result["ruleId"] for result in results(project, name)} == {"WG001"}


@pytest.mark.skipif(shutil.which("ctest") is None, reason="CMake is not installed")
def test_ctest_fails_where_the_build_leaves_findings(project: Path) -> None:
    (project / "CMakeLists.txt").write_text(
        f'cmake_minimum_required(VERSION 3.15)\nproject(k NONE)\nenable_testing()\ninclude("{CI}/tclint.cmake")\n'
    )
    for name, code in (("wgmma_waited.ptx", 0), ("wgmma_unwaited.ptx", 8)):
        (project / "build" / "ptx").mkdir(parents=True, exist_ok=True)
        shutil.copy(FIXTURES / name, project / "build" / "ptx")
        done = shell("cmake -S . -B build && cd build && ctest --output-on-failure", project)
        assert done.returncode == code, done.stdout + done.stderr
        assert ("error WG001" in done.stdout) == bool(code)


def steps(path: Path) -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    return list(job["steps"])


def test_the_workflow_for_the_action_gives_it_inputs_that_it_has(workspace: Path) -> None:
    (step,) = [step for step in steps(CI / "github-action.yml") if "tclint" in step.get("uses", "")]
    (workspace / "out put").rename(workspace / "out")
    done = Runner(workspace, **step["with"]).run()
    assert (done.code, done.outputs["exit-code"]) == (1, "1")


def test_the_page_shows_what_the_files_say() -> None:
    page = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"\(ci/([\w-]+\.yml)\)(?:(?!\n## ).)*?^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    assert sorted(name for name, _ in shown) == sorted(path.name for path in CI.glob("*.yml"))
    for name, block in shown:
        lines = [line.strip() for line in (CI / name).read_text(encoding="utf-8").splitlines()]
        wanted = [line.strip() for line in block.splitlines()]
        assert [line for line in wanted if line not in lines and "uses: actions/checkout@" not in line] == []
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == ACTION["inputs"].keys()


MATCHERS = json.loads((CI / "tclint-matcher.json").read_text(encoding="utf-8"))["problemMatcher"]


def matched(line: str) -> dict[str, Any] | None:
    """What GitHub's runner makes of a line of the log; ECMAScript and Python read these patterns alike."""
    for matcher in MATCHERS:
        (pattern,) = matcher["pattern"]
        if found := re.search(pattern["regexp"], line):
            named = {key: found[number] for key, number in pattern.items() if key != "regexp"}
            return {"severity": matcher.get("severity")} | named
    return None


@pytest.mark.slow
def test_the_problem_matcher_reads_every_line_of_the_concise_format(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in FIXTURES.glob("*.ptx"):
        shutil.copy(path, project / "out")
    for rule in all_rules().values():
        for example in rule.examples[:1]:
            if ".file" not in example.code:  # two of one line of a source are shown once
                (project / "out" / f"{rule.id}.ptx").write_text(example.code)
    # Both commands report what one run has found.
    monkeypatch.setenv("TCLINT_NO_CACHE", "")
    monkeypatch.setenv("TCLINT_CACHE_DIR", str(project / "cache"))
    text = (FIXTURES / "wgmma_waited.ptx").read_text()
    (project / "out" / "broken: 1.ptx").write_text(text.replace("{", "(", 1))
    lines = [step["run"] for step in steps(CI / "github-matcher.yml") if "run" in step]
    added = [found[1] for line in lines if (found := re.search(r"::add-matcher::([\w./-]+)", line))]
    assert [(project / name).is_file() for name in added] == [True]
    done = shell(lines[-1], project)
    assert done.returncode == 2
    found = json.loads(shell("tclint check out --output-format json || true", project).stdout)
    shown = [finding for file in found["files"] for finding in file["findings"]]
    problems = [  # those that no finding is about
        problem
        for file in found["files"]
        for problem in file["problems"]
        if problem["line"] not in {finding["line"] for finding in file["findings"]}
    ]
    *body, tally = done.stdout.splitlines()
    read = [matched(line) for line in body]
    assert None not in read
    assert matched(tally) is None
    kinds = [found["severity"] for found in read if found is not None]
    assert len(kinds) == len(shown) + len(problems)
    assert {"error", "notice"} <= set(kinds) <= {"error", "warning", "notice"}
    for finding in shown:
        at = finding["shown_at"]
        assert [
            (r["line"], r["code"])
            for r in read
            if r is not None and r["file"] == at["path"] and r["line"] == str(at["line"]) and "code" in r
        ], finding


@pytest.mark.parametrize(
    ("line", "file", "severity"),
    [
        (r"C:\a b\k.ptx:3:14: warning WG001 x [y]", r"C:\a b\k.ptx", "warning"),
        ("gemm.cu:50: info TC007 x [y]", "gemm.cu", "notice"),
        ("k.ptx: error: no such file", "k.ptx", "error"),
        ("k.ptx:7: error: error WG001", "k.ptx", "error"),
    ],
)
def test_the_problem_matcher_reads_other_lines(line: str, file: str, severity: str) -> None:
    read = matched(line)
    assert read is not None
    assert (read["file"], read["severity"]) == (file, severity)


# ---------------------------------------------------------------- workflows


def test_every_action_of_others_is_pinned() -> None:
    used = [
        line
        for path in (*WORKFLOWS, ROOT / "action.yml")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\buses: ", line) and "uses: ./" not in line
    ]
    assert len(used) > 10
    pinned = re.compile(r"uses: [\w/.-]+@([0-9a-f]{40} # v\d+\.\d+\.\d+|REF # .*)$")
    assert [line for line in used if not pinned.search(line)] == []


def test_the_release_builds_for_all_systems_and_publishes_tags_alone() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    systems = {name.split("-")[0] for name in jobs["wheels"]["strategy"]["matrix"]["os"]}
    assert systems == {"ubuntu", "macos", "windows"}
    assert set(jobs["publish"]["needs"]) == {"sdist", "wheels", "check"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "ref_type == 'tag'" in jobs["publish"]["if"]


def test_ci_and_the_release_check_distributions_with_the_same_tools() -> None:
    local = (ROOT / ".ci/run").read_text(encoding="utf-8")
    release = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    checks = (ROOT / ".ci/check-dist").read_text(encoding="utf-8")
    for tool in ("twine", "check-wheel-contents", "abi3audit"):
        (version,) = set(re.findall(rf"{tool}==([\d.]+)", release))
        assert f"{tool.replace('-', '_')}_version={version}\n" in local
        assert tool in checks
    assert ".ci/check-dist" in local
    assert ".ci/check-dist" in release


def test_a_release_has_the_addresses_of_the_repository_that_builds_it(tmp_path: Path) -> None:
    names = ("pyproject.toml", "CITATION.cff", "editors/vscode/package.json")
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/addresses", tmp_path / ".ci")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
        assert "github.com/OWNER/tclint" in (tmp_path / name).read_text()
    for wrong in ("", "tclint", "a/b; touch pwned", "a/b|g"):
        assert (
            subprocess.run([tmp_path / ".ci/addresses", wrong], check=False, capture_output=True).returncode
            == 2
        )
    subprocess.run([tmp_path / ".ci/addresses", "some-one/ptx.lint"], check=True)
    for name in names:
        text = (tmp_path / name).read_text()
        assert "github.com/some-one/ptx.lint" in text
        assert text == (ROOT / name).read_text().replace("OWNER/tclint", "some-one/ptx.lint").replace(
            "# some-one/ptx.lint", "# OWNER/tclint"
        )


def test_the_forms_for_issues_are_what_github_reads() -> None:
    forms = [path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) >= 3
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert form.keys() >= {"name", "description", "body"}
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids))
        assert "version" in ids
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))["updates"]
    for update in updates:
        assert (ROOT / update["directory"].lstrip("/")).is_dir()


def test_the_version_is_in_the_changelog_and_the_citation() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {__version__}\n" in changelog
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_zizmor_reports_nothing(tmp_path: Path) -> None:
    tool = shutil.which("zizmor", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if tool is None:
        pytest.skip("zizmor is not installed")
    for path in (ROOT / "action.yml", *WORKFLOWS):
        folder = tmp_path if path.name == "action.yml" else tmp_path / ".github/workflows"
        folder.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8").replace("@REF #", f"@{'0' * 40} #")
        (folder / path.name).write_text(text)
    command = [tool, "--offline", "--no-progress", "--color", "never", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


def test_actionlint_reports_nothing() -> None:
    tool = shutil.which("actionlint")
    if tool is None:
        pytest.skip("actionlint is not installed")
    command = [tool, "-no-color", *map(str, WORKFLOWS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
