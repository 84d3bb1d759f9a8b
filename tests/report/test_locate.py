from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tclint.findings.finding import FileReport, SourceLocation, Step
from tclint.report import locate
from tclint.report.locate import Locator, Mode
from tclint.syntax.source import Source
from tests.tools.findings import finding, report

INLINED = SourceLocation(
    "lib/mma.cuh", 10, 3, (SourceLocation("src/gemm.cu", 50), SourceLocation("lib/launch.h", 123))
)


def made(location: SourceLocation | None, path: str = "out/gemm.ptx") -> FileReport:
    source = Source.from_bytes(b"a\n  defect", path)
    return report(source, finding(source, "defect", source_location=location))


def pointed(locator: Locator, of: FileReport) -> tuple[str, int, int]:
    return locator(of, of.findings[0])[:3]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git work tree that tracks one PTX file and one CUDA file."""
    for name in ("out/gemm.ptx", "out/other.ptx", "src/gemm.cu", "lib/mma.cuh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for command in (["init", "-q"], ["add", "out/gemm.ptx", "src/gemm.cu"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=20)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("mode", "location", "path", "expected"),
    [
        ("ptx", INLINED, "out/gemm.ptx", ("out/gemm.ptx", 2, 3)),
        ("source", INLINED, "out/gemm.ptx", ("src/gemm.cu", 50, 0)),
        ("source", None, "out/gemm.ptx", ("out/gemm.ptx", 2, 3)),
        ("auto", INLINED, "out/gemm.ptx", ("out/gemm.ptx", 2, 3)),
        ("auto", INLINED, "out/other.ptx", ("src/gemm.cu", 50, 0)),
        ("auto", None, "out/other.ptx", ("out/other.ptx", 2, 3)),
    ],
)
def test_where_a_finding_is_shown(
    repository: Path, mode: Mode, location: SourceLocation | None, path: str, expected: tuple[str, int, int]
) -> None:
    of = made(location, path)
    assert pointed(Locator.of(mode, [of]), of) == expected


def test_without_git_the_outermost_call_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    of = made(INLINED)
    assert pointed(Locator.of("auto", [of]), of) == ("lib/launch.h", 123, 0)


@pytest.mark.parametrize("failure", [OSError("no git"), subprocess.TimeoutExpired("git", 10)])
def test_a_git_that_fails_tracks_nothing(
    repository: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(subprocess, "run", fail)
    assert Locator.of("auto", [made(INLINED)]).tracked == frozenset()


def test_git_is_asked_only_where_the_answer_counts(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    Locator.of("ptx", [made(INLINED)])
    Locator.of("auto", [made(None)])
    Locator.of("source", [made(SourceLocation("/usr/include/mma.h", 1), "/elsewhere/a.ptx")])


def test_many_files_are_asked_for_in_parts(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "_MAX_GIT_PATHS", 1)
    expected = {str(repository / name) for name in ("out/gemm.ptx", "src/gemm.cu")}
    assert Locator.of("auto", [made(INLINED)]).tracked == expected


def test_names_that_git_could_take_for_something_else(repository: Path) -> None:
    odd = ["-v", ":(glob)*", "*", "a\nb.ptx", "n\0l"]
    assert Locator.of("auto", [made(INLINED, name) for name in odd]).tracked == {
        str(repository / "src/gemm.cu")
    }


def test_paths_are_relative_to_the_project(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "out")
    locator = Locator()
    assert locator.root == str(repository)
    assert locator.relative("gemm.ptx") == "out/gemm.ptx"
    assert locator.relative("../src/./gemm.cu") == "src/gemm.cu"
    assert locator.relative(str(repository / "src/gemm.cu")) == "src/gemm.cu"
    assert locator.relative("/usr/include/mma.h") == "/usr/include/mma.h"
    assert locator.relative(str(repository) + "2/a.cu") == str(repository) + "2/a.cu"
    of = made(SourceLocation(os.path.join(str(repository), "src", "gemm.cu"), 7))
    assert pointed(Locator.of("source", [of]), of) == (str(repository / "src/gemm.cu"), 7, 0)


def test_a_folder_may_be_reached_through_a_link(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("elsewhere") / "link"
    link.symlink_to(repository, target_is_directory=True)
    of = made(INLINED, str(link / "out" / "gemm.ptx"))
    assert pointed(Locator.of("auto", [of]), of) == (str(link / "out" / "gemm.ptx"), 2, 3)
    assert Locator().relative(of.path) == "out/gemm.ptx"


def test_a_step_has_a_line_of_its_own(repository: Path) -> None:
    of = made(None)
    there = Step(of.findings[0].span, "begins", source_location=INLINED)
    of = report(of.source, replace(of.findings[0], steps=(there,)))  # type: ignore[arg-type]
    assert Locator.of("source", [of])(of, there)[:2] == ("src/gemm.cu", 50)
