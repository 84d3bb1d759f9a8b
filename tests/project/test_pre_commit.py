"""The hooks, as pre-commit itself runs them in another repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.project import ROOT

pytest.importorskip("pre_commit", reason="pre-commit is not installed")
if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)

GOOD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n"
BAD = GOOD.replace("ret;", "braid.u32;\n    ret;")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files of this project, as pre-commit would clone it."""
    folder = tmp_path_factory.mktemp("project") / "tclint"
    skipped = shutil.ignore_patterns(
        ".git",
        "build",
        "dist",
        "*.so",
        "*.egg-info",
        "__pycache__",
        ".*_cache",
        ".venv",
        "tests",
        "benchmarks",
        "node_modules",
    )
    shutil.copytree(ROOT, folder, ignore=skipped, symlinks=True)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x")


def repository(folder: Path, project: Path, hook: str) -> Run:
    """A repository that uses *hook*, and how to run pre-commit in it."""
    git(folder, "init", "--quiet")
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {project}\n  rev: {git(project, 'rev-parse', 'HEAD').strip()}\n  hooks:\n  - id: {hook}\n"
    )
    (folder / "good.ptx").write_text(GOOD)
    (folder / "notes.txt").write_text(BAD)
    (folder / "generated").mkdir()
    (folder / "generated" / "bad.ptx").write_text(BAD)
    (folder / "tclint-ptx.toml").write_text('exclude = ["generated"]\n')
    commit(folder)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        beside = os.path.dirname(sys.executable)
        environment = os.environ | {
            "PRE_COMMIT_HOME": str(project.parent / "cache"),
            "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
        }
        environment.pop("GIT_DIR", None)
        environment.pop("GIT_INDEX_FILE", None)
        command = [sys.executable, "-m", "pre_commit", "run", "--color", "never", *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return run


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["tclint-ptx", "tclint-ptx-system"])
def test_a_commit_with_a_finding_is_held_back(tmp_path: Path, project: Path, hook: str) -> None:
    if hook == "tclint-ptx-system" and not (Path(sys.executable).parent / "tclint").exists():
        pytest.skip("tclint is not installed beside this Python")
    run = repository(tmp_path, project, hook)
    clean = run("--all-files")
    if "Could not find a version" in clean.stdout + clean.stderr and not os.environ.get("CI"):
        pytest.skip("pip cannot reach a package index")
    assert clean.returncode == 0, clean.stdout + clean.stderr
    assert "Passed" in clean.stdout
    (tmp_path / "bad.ptx").write_text(BAD)
    git(tmp_path, "add", "bad.ptx")
    found = run()
    assert found.returncode == 1, found.stdout + found.stderr
    assert "bad.ptx:6:5" in found.stdout
    assert "PX001" in found.stdout
    assert "notes.txt" not in found.stdout


@pytest.mark.slow
def test_a_commit_of_another_layout_is_held_back_and_formatted(tmp_path: Path, project: Path) -> None:
    if not (Path(sys.executable).parent / "tclint").exists():
        pytest.skip("tclint is not installed beside this Python")
    run = repository(tmp_path, project, "tclint-ptx-format-system")
    found = run("--all-files")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "files were modified by this hook" in found.stdout
    assert (tmp_path / "good.ptx").read_text() == GOOD.replace("    ret", "\tret")
    assert (tmp_path / "generated" / "bad.ptx").read_text() == BAD
    git(tmp_path, "add", "good.ptx")
    assert run("--all-files").returncode == 0


@pytest.mark.slow
def test_a_commit_with_a_finding_in_a_string_is_held_back(tmp_path: Path, project: Path) -> None:
    if not (Path(sys.executable).parent / "tclint").exists():
        pytest.skip("tclint is not installed beside this Python")
    run = repository(tmp_path, project, "tclint-inline-system")
    (tmp_path / "good.cu").write_text("int main() {}\n")
    (tmp_path / "bad.ptx").write_text(BAD)
    git(tmp_path, "add", "--all")
    clean = run("--all-files")
    assert (clean.returncode, "Passed" in clean.stdout) == (0, True), clean.stdout + clean.stderr
    (tmp_path / "bad.cuh").write_text('inline void f() { asm("braid.u32 a, b;"); }\n')
    git(tmp_path, "add", "bad.cuh")
    found = run()
    assert found.returncode == 1, found.stdout + found.stderr
    assert "bad.cuh:1:24" in found.stdout
    assert "bad.ptx" not in found.stdout
