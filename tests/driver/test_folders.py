"""Which parts of a folder are searched, and what is said of one that has nothing to check."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tclint.driver.inputs import Exclusions, files, nothing_in


def made(root: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(folder: Path | str) -> list[str]:
    exclusions = Exclusions()
    return [os.path.relpath(path, folder) for path, _ in files([str(folder)], "", exclusions)]


@pytest.fixture(params=["git", "no git"])
def repository(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree, with git to ask and without."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    if request.param == "no git":
        monkeypatch.setattr("tclint._git._GIT", ("absent-program",))
    return tmp_path


def test_folders_of_other_people_are_searched_only_if_they_are_named(tmp_path: Path) -> None:
    skipped = (".hidden", ".venv", "node_modules", "build", "site-packages")
    made(tmp_path, "k.ptx", ".k.ptx", "builder/k.ptx", *(f"a/{name}/k.ptx" for name in skipped))
    assert found(tmp_path) == [".k.ptx", "k.ptx", "builder/k.ptx"]
    assert found(tmp_path / "a") == []
    for name in skipped:
        assert found(tmp_path / "a" / name) == ["k.ptx"]


def test_what_git_ignores_is_not_searched(repository: Path) -> None:
    made(repository, ".gitignore", text="*.tmp.ptx\nout/\n!kept.tmp.ptx\n/top.ptx\n")
    made(repository, "k.ptx", "k.tmp.ptx", "kept.tmp.ptx", "top.ptx", "out/k.ptx", "a/top.ptx", "a/out/k.ptx")
    made(repository, "b/.gitignore", text="!*.tmp.ptx\nk.ptx\n")
    made(repository, "b/k.ptx", "b/k.tmp.ptx", "b/c/k.ptx")
    assert found(repository) == ["k.ptx", "kept.tmp.ptx", "a/top.ptx", "b/k.tmp.ptx"]
    assert found(repository / "b") == ["k.tmp.ptx"]


def test_ptx_that_git_ignores_is_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    made(repository, ".gitignore", text="/x*\n")
    made(repository, "xa.ptx", "xb.ptx", "xc.txt", "sub/k.ptx")
    exclusions = Exclusions()
    assert files(["."], "", exclusions) == [("./sub/k.ptx", "./sub/k.ptx")]
    assert exclusions.warnings == (
        "note: ./xa.ptx and 1 more: ignored by git and not checked; name what to check",
    )
    (repository / "sub" / "k.ptx").unlink()
    exclusions = Exclusions()
    assert files(["."], "", exclusions) == []
    (warning,) = exclusions.warnings
    assert "xa.ptx and 1 more: tclint check '**/*.ptx'" in warning
    assert [path for path, _ in files(["**/*.ptx"], "", Exclusions())] == ["xa.ptx", "xb.ptx"]


def test_an_ignored_folder_is_searched_if_it_is_named(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(repository, ".gitignore", text="out/\n*.tmp.ptx\n")
    made(repository, "out/k.ptx", "out/deep/k.ptx")
    assert found(repository / "out") == ["k.ptx", "deep/k.ptx"]
    assert found(repository / "out" / "deep") == ["k.ptx"]
    monkeypatch.chdir(repository)
    assert (found("."), found("out")) == ([], ["k.ptx", "deep/k.ptx"])


def test_a_repository_in_a_folder_has_its_own_say(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    subprocess.run(["git", "init", "-q", str(inner)], check=True)
    made(inner, ".gitignore", text="out/\n")
    made(inner, "k.ptx", "out/k.ptx")
    assert found(tmp_path) == ["inner/k.ptx"]


def test_what_git_tracks_is_not_ignored(tmp_path: Path) -> None:
    made(tmp_path, "k.ptx", "other.ptx")
    for arguments in (("init", "-q"), ("add", "k.ptx")):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    made(tmp_path, ".gitignore", text="*.ptx\n")
    assert found(tmp_path) == ["k.ptx"]


def test_git_runs_nothing_of_the_repository_that_is_searched(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with (tmp_path / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {tmp_path}/ran; false"\n')
    made(tmp_path, "k.ptx")
    assert found(tmp_path) == ["k.ptx"]
    assert not (tmp_path / "ran").exists()


def test_a_folder_says_what_it_holds_and_the_command_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nothing = "nothing to check in this folder"
    assert nothing_in(".") == nothing
    made(tmp_path, "README", "plain.py", "node_modules/k.ptx", ".venv/k.ptx", "build/main.cu")
    assert nothing_in(".") == nothing
    made(tmp_path, "src/a.cu", "src/b.cu", "lib.so", "x.cubin")
    made(tmp_path, "t.py", text="import os\nfrom triton import jit\n")
    made(tmp_path, "c.py", text="import cutlass.cute as cute\n")
    made(tmp_path, "build/k.ptx")
    assert nothing_in(".").split("; ") == [
        nothing,
        "build/k.ptx: tclint check 'build/**/*.ptx'",
        "src/a.cu and 1 more: tclint check --compile .",
        "t.py: run it, then tclint check ~/.triton/cache",
        "c.py: run it with CUTE_DSL_KEEP_PTX=1, then tclint check *.ptx",
        "lib.so and 1 more: tclint check lib.so",
    ]
