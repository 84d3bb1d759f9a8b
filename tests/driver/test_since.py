"""``tclint check --since``: which files count as changed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tclint.driver.since import SinceError, changed
from tests.tools.command import invoke
from tests.tools.project import ROOT

if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)

GOOD = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n"
BAD = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text()


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def since(ref: str, *paths: str) -> list[str]:
    return [path for path, _ in changed([(path, path) for path in paths], ref, 2**20)]


@pytest.fixture
def branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree on a branch that has changed ``b.ptx``, while main has changed ``a.ptx``."""
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet", "--initial-branch", "main")
    for name in ("a", "b", "c"):
        Path(f"{name}.ptx").write_text(GOOD)
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    git("checkout", "--quiet", "-b", "topic")
    Path("b.ptx").write_text(BAD)
    git("commit", "--quiet", "--all", "--message", "second")
    git("checkout", "--quiet", "main")
    Path("a.ptx").write_text(GOOD + "// main\n")
    git("commit", "--quiet", "--all", "--message", "third")
    git("checkout", "--quiet", "topic")
    return tmp_path


def test_what_the_branch_has_changed_is_checked(branch: Path) -> None:
    assert since("main", "a.ptx", "b.ptx", "c.ptx") == ["b.ptx"]
    assert since("HEAD", "a.ptx", "b.ptx", "c.ptx") == []
    Path("c.ptx").write_text(GOOD + "\n")  # not committed
    assert since("main", "a.ptx", str(branch / "b.ptx"), "./c.ptx") == [str(branch / "b.ptx"), "./c.ptx"]


def test_what_git_does_not_know_counts_as_changed(
    branch: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "a.ptx"
    outside.write_text(GOOD)
    Path("new.ptx").write_text(GOOD)
    Path("link.ptx").symlink_to("a.ptx")
    names = ("-", str(outside), "new.ptx", "link.ptx", "absent.ptx")
    assert since("main", *names) == list(names)
    assert [path for path, _ in changed([("a.ptx", "a.ptx")], "main", 4)] == ["a.ptx"]  # above the limit


def test_git_runs_no_filter_of_the_repository(branch: Path) -> None:
    Path(".gitattributes").write_text("*.ptx filter=x diff=x\n")
    run = f"touch {branch}/ran; cat"
    for key in ("filter.x.clean", "diff.x.textconv", "diff.external", "core.fsmonitor"):
        git("config", key, run)
    Path("c.ptx").touch()
    assert since("main", "b.ptx", "c.ptx") == ["b.ptx"]
    assert not Path("ran").exists()


def test_without_a_commit_to_compare_with_it_says_so(branch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ref in ("absent", "--output=x", ""):
        with pytest.raises(SinceError, match="git knows no commit"):
            since(ref, "a.ptx")
    assert not Path("x").exists()
    monkeypatch.setattr("tclint.driver.since.repository", lambda _: None)
    with pytest.raises(SinceError, match="in no git repository"):
        since("main", "a.ptx")


def test_the_run_counts_what_is_unchanged(branch: Path) -> None:
    code, said = invoke("check", "--since", "main", "--output-format", "concise")
    assert (code, "./b.ptx:51" in said) == (1, True)
    assert "in 1 file" in said
    assert said.endswith("note: 2 of 3 files are as in main\n")
    code, said = invoke("check", "--since", "HEAD")
    assert (code, said) == (0, "Nothing was analysed.\nnote: 3 of 3 files are as in HEAD\n")
    assert invoke("check", "--since", "absent") == (2, "--since: git knows no commit 'absent' here.")


def test_findings_of_unchanged_files_stay_in_the_baseline(branch: Path) -> None:
    assert invoke("baseline", ".")[0] == 0
    code, said = invoke("check", "--since", "HEAD", "--baseline", "tclint-baseline.json", ".")
    assert (code, "gone" in said) == (0, False)


def test_a_header_may_change_what_is_compiled(branch: Path) -> None:
    assert invoke("check", "--since", "main", "--compile", "k.cu")[0] == 2
