"""Which source files are opened, and what is read of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tclint.driver.user_sources import UserSources
from tclint.findings.finding import FileReport, SourceLocation
from tclint.syntax.source import Source
from tests.tools.findings import finding, report


def at(line: int, file: str, *outer: SourceLocation, path: str = "out/k.ptx") -> SourceLocation:
    """The location of a finding after its sources were looked for."""
    source = Source.from_bytes(b"a\n  defect", path)
    found = report(source, finding(source, "defect", source_location=SourceLocation(file, line, 0, outer)))
    (completed,) = UserSources().completed(found).findings
    assert completed.source_location is not None
    return completed.source_location


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree with a source, in which the working folder is ``out``; and files outside of it."""
    root = tmp_path / "project"
    for name in ("kernels", "out", ".git", ".venv", "lib/site-packages"):
        (root / name).mkdir(parents=True)
        (root / name / "k.cu").write_text("first\nsecond \xe9\n", encoding="latin-1")
    (tmp_path / "secret.cu").write_text("secret\n")
    (root / "kernels" / "plain.txt").write_text("text\n")
    monkeypatch.chdir(root / "out")
    return root


def test_a_line_below_the_root_is_read(tree: Path) -> None:
    assert at(1, str(tree / "kernels" / "k.cu")).text == "first"
    assert at(2, str(tree / "kernels" / "k.cu")).text == "second \ufffd"
    assert at(1, "kernels/k.cu").text == "first"
    assert at(1, "k.cu").text == "first"


@pytest.mark.parametrize("line", [0, 4, 10**9])
def test_a_line_that_is_not_there_is_left_out(tree: Path, line: int) -> None:
    assert at(line, str(tree / "kernels" / "k.cu")).text is None


def test_a_build_elsewhere_is_recognised_by_the_end_of_the_name(tree: Path) -> None:
    found = at(1, "/build/of/somebody/kernels/k.cu")
    assert (found.text, found.file) == ("first", str(tree / "kernels" / "k.cu"))
    assert at(1, "/build/k.cu").text is None  # many files have this name


@pytest.mark.parametrize(
    "name",
    [
        "../../secret.cu",
        "kernels/../../secret.cu",
        "/proc/self/../../etc/passwd",
        "kernels/plain.txt",
        "nothing.cu",
        ".venv/k.cu",
        ".git/k.cu",
        "lib/site-packages/k.cu",
        "",
        "/",
        "kernels",
        "n\0l.cu",
        "x" * 5000 + ".cu",
    ],
)
def test_what_is_not_a_source_of_the_user_is_not_read(tree: Path, name: str) -> None:
    os.chdir(tree)
    assert at(1, name) == SourceLocation(name, 1)
    assert at(1, str(tree / name.replace("\0", "\1"))).text is None


def test_a_link_does_not_lead_out(tree: Path) -> None:
    (tree / "kernels" / "link.cu").symlink_to(tree.parent / "secret.cu")
    (tree / "kernels" / "loop.cu").symlink_to(tree / "kernels" / "loop.cu")
    (tree / "away").symlink_to(tree.parent)
    for name in ("kernels/link.cu", "kernels/loop.cu", "away/secret.cu"):
        assert at(1, name).text is None
        assert at(1, str(tree / name)).text is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_fifo_and_a_huge_file_are_not_read(tree: Path) -> None:
    os.mkfifo(tree / "kernels" / "fifo.cu")
    with open(tree / "kernels" / "huge.cu", "wb") as file:
        file.truncate(10**10)
    assert at(1, "kernels/fifo.cu").text is None
    assert at(1, "kernels/huge.cu").text is None


def test_a_long_line_is_cut(tree: Path) -> None:
    (tree / "kernels" / "long.cu").write_text("x" * 10**6)
    assert at(1, "kernels/long.cu").text == "x" * 4000


def test_every_call_has_its_line(tree: Path) -> None:
    found = at(7, "/usr/include/mma.h", SourceLocation("kernels/k.cu", 2, 3), SourceLocation("gone.cu", 1))
    assert [call.text for call in (found, *found.inlined_at)] == [None, "second \ufffd", None]


def test_a_source_that_is_newer_than_the_ptx_is_noted(tree: Path) -> None:
    source, ptx = tree / "kernels" / "k.cu", tree / "out" / "k.ptx"
    ptx.touch()

    def newer(age: int) -> tuple[str, ...]:
        os.utime(source, (ptx.stat().st_mtime + age,) * 2)
        text = Source.from_bytes(b"a\n  defect", str(ptx))
        found: FileReport = report(
            text, finding(text, "defect", source_location=SourceLocation("kernels/k.cu", 1))
        )
        return UserSources().completed(found).newer

    assert newer(10) == (str(source),)
    assert newer(-10) == ()


def test_a_report_without_source_lines_stays_the_same(tree: Path) -> None:
    text = Source.from_bytes(b"a\n  defect", "k.ptx")
    found = report(text, finding(text, "defect", source_location=SourceLocation("/usr/include/mma.h", 7)))
    assert UserSources().completed(found) is found


def test_a_working_folder_that_is_gone_has_no_sources(tree: Path) -> None:
    gone = tree / "out" / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert at(1, "k.cu").text is None
