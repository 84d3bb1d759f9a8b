"""Findings in the source of the user, in each format."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tclint.api import check_paths
from tclint.report.formats._details import step_words
from tclint.report.formats._rows import source_rows
from tclint.report.locate import Locator
from tests.tools.command import invoke
from tests.tools.sources import NAMES, edited, project

TRANSPOSE = """\
warning[SM001] smem-reuse-no-barrier (medium confidence, static and replay): ld.shared reads shared memory that another warp may \
still be writing: no barrier orders the two
  --> kernels/transpose.cu:12:5 in matrix::transposed<float, 16>
   |
11 |     put(tile, x, y, in[y * stride + x]);
   |     --- 1. one warp writes it (tile+0..1084)
12 |     out[x * stride + y] = get(tile, y, x);
   |                           ^^^ 2. another warp reads the same bytes (tile+0..1084)
   |
   = PTX: out/transpose.ptx:56:2: ld.shared.f32 %f2, [%r12];
   = help: """


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project(tmp_path))
    return tmp_path


def text(*arguments: str) -> str:
    return invoke("check", "--no-cache", "--color", "never", *arguments)[1]


def test_the_frame_has_the_lines_of_the_user(here: Path) -> None:
    assert text("out/transpose.ptx").startswith(TRANSPOSE)


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("", "", "get"),
        (".b8", ".b16", "out"),
        ("function_name $L__info_string", "function_name $L__other", "out"),
        (".b8 95,", ".b8 " + "9" * 5000 + ",95,", "get"),
        (".b8 95,", ".b8 96,", "out"),
    ],
)
def test_the_function_that_is_called_is_underlined_if_it_is_known(
    here: Path, old: str, new: str, marked: str
) -> None:
    """Compilers give the position of the statement, and the name of what was inlined there in the data for a debugger."""
    path = here / "out" / "transpose.ptx"
    path.write_text(path.read_text().replace(old, new))
    (report,) = check_paths([str(path)]).files
    locate = Locator.of("source", (report,))
    *_, row = source_rows(report, report.findings[0], locate)
    assert row.text[row.first : row.last] == marked


@pytest.mark.parametrize("name", NAMES)
def test_every_step_of_every_program_is_a_line_of_the_user(here: Path, name: str) -> None:
    (frame,) = text(f"out/{name}.ptx").split("\n\n")[:1]
    source = next((here / "kernels").glob(f"{name}.[cp][uy]")).read_text().split("\n")
    rows = [line.split(" | ", 1) for line in frame.split("\n") if line.lstrip()[:1].isdigit()]
    assert rows
    for number, shown in rows:
        assert shown == source[int(number) - 1].rstrip()


def test_steps_that_copies_of_one_statement_repeat_are_one_row(here: Path) -> None:
    result = check_paths(["out/copy.ptx"])
    (report,), locate = result.files, Locator.of("source", result.files)
    (finding,) = report.findings
    first, *others = finding.steps
    labels = [
        [row.label for row in source_rows(report, replace(finding, steps=steps), locate)]
        for steps in ((first, first, first, *others), (first, replace(first, object="x"), *others))
    ]
    words = step_words(first)
    assert labels[0][:2] == [f"1-3. {words}", f"4. {step_words(others[0])}"]
    assert len(labels[0]) == 1 + len(others)
    assert len(labels[1]) == 2 + len(others)


def test_a_deadlock_names_the_lines_of_the_user_once(here: Path) -> None:
    frame = text("out/phase.ptx")
    assert frame.count("phase.cu:39: [warp 0] would arrive, but only after the wait for mbarrier full") == 1
    assert "line 72" not in frame


def test_the_ptx_follows_if_it_is_wanted(here: Path) -> None:
    frame = text("-v", "out/transpose.ptx")
    assert frame.startswith(TRANSPOSE[: TRANSPOSE.index("   = PTX")])
    assert "  ::: out/transpose.ptx:56:2 in _ZN6matrix10transposedIfLi16EEEvPKT_PS1_i\n" in frame
    assert "56 |     ld.shared.f32  %f2, [%r12];" in frame


def test_a_step_without_a_line_is_shown_in_the_ptx(here: Path) -> None:
    edited(here / "out" / "copy.ptx", ".loc\t1 7 5", ".loc\t1 0 0")
    frame = text("out/copy.ptx")
    assert "  ::: out/copy.ptx\n" in frame
    assert "cp.async.commit_group;\n" in frame
    assert "  ::: kernels/copy.cu\n" in frame


def test_a_finding_without_a_line_is_at_the_last_step_that_has_one(here: Path) -> None:
    edited(here / "out" / "copy.ptx", ".loc\t1 8 5", ".loc\t1 0 0")
    assert "--> kernels/copy.cu:7:5 in doubled" in text("out/copy.ptx")
    edited(
        here / "kernels" / "copy.cu",
        '"cp.async.commit_group;" ::: "memory");',
        '"cp.async.commit_group;" ::: "memory"); // tclint: ignore[CA001]',
    )
    assert "1 finding suppressed" in text("out/copy.ptx")


def test_the_line_that_git_tracks_says_from_where_it_is_called(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = frozenset((str(here / "kernels" / "transpose.cuh"),))
    monkeypatch.setattr("tclint.report.locate._tracked", lambda *_: tracked)
    frame = text("out/transpose.ptx")
    assert "--> kernels/transpose.cuh:9:5" in frame
    assert "same bytes (tile+0..1084) [called in transpose.cu:12]" in " ".join(frame.replace("|", "").split())


def test_a_source_that_is_newer_has_a_note(here: Path) -> None:
    os.utime(here / "kernels" / "stale.cu")
    assert "= note: kernels/stale.cu is newer than the PTX: its lines may have moved" in text("out/stale.ptx")


@pytest.mark.parametrize("name", NAMES)
def test_without_the_sources_the_frame_is_that_of_the_ptx(here: Path, name: str) -> None:
    shutil.rmtree(here / "kernels")
    frame = text(f"out/{name}.ptx")
    assert f"  ::: out/{name}.ptx:" in frame
    assert "  --> /home/user/project/kernels/" in frame
    assert "= PTX: " not in frame


def test_the_ptx_can_be_asked_for(here: Path) -> None:
    frame = text("--locate", "ptx", "out/transpose.ptx")
    assert "--> out/transpose.ptx:56:2 in _ZN6matrix10transposedIfLi16EEEvPKT_PS1_i" in frame
    assert "= PTX: " not in frame


def test_control_characters_of_a_source_do_not_reach_the_terminal(here: Path) -> None:
    edited(here / "kernels" / "transpose.cu", "out[x * stride", "out\x1b[31m\u202e[x * stride")
    frame = text("out/transpose.ptx")
    assert "\x1b" not in frame
    assert "\u202e" not in frame


def test_sarif_points_to_the_source_and_has_the_ptx_too(here: Path) -> None:
    log = json.loads(check_paths(["out/transpose.ptx"]).render("sarif"))
    (result,) = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels/transpose.cu"
    assert place["region"] == {
        "startLine": 12,
        "startColumn": 5,
        "snippet": {"text": "    out[x * stride + y] = get(tile, y, x);"},
    }
    related = [location["physicalLocation"] for location in result["relatedLocations"]]
    assert [(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in related] == [
        ("out/transpose.ptx", 50),
        ("out/transpose.ptx", 56),
        ("kernels/transpose.cuh", 9),
    ]


def test_github_annotates_the_source(here: Path) -> None:
    assert (
        check_paths(["out/transpose.ptx"])
        .render("github")
        .startswith("::warning file=kernels/transpose.cu,line=12,col=5,title=tclint (SM001)::")
    )


def test_json_has_the_same_location_as_before(here: Path) -> None:
    (finding,) = json.loads(check_paths(["out/transpose.ptx"]).render("json"))["files"][0]["findings"]
    assert (finding["line"], finding["entry"]) == (56, "_ZN6matrix10transposedIfLi16EEEvPKT_PS1_i")
    assert finding["shown_at"] == {"kind": "source", "path": "kernels/transpose.cu", "line": 12, "column": 5}


def test_the_editor_is_given_the_line_of_the_source(here: Path) -> None:
    pytest.importorskip("pygls")
    from tclint.config.config import Config
    from tclint.lsp.diagnostics import diagnostics
    from tclint.lsp.document import Document
    from tclint.lsp.text import DocumentText

    path = here / "out" / "transpose.ptx"
    made = DocumentText.of(path.read_text(), "utf-16")
    document = Document(path.as_uri(), str(path), made, 1)
    (found,) = diagnostics(document, document.lint(1, made, Config()))
    first = (found.related_information or ())[0]
    assert first.location.uri == (here / "kernels" / "transpose.cu").as_uri()
    assert (first.location.range.start.line, first.location.range.start.character) == (11, 4)
    assert first.message == "out[x * stride + y] = get(tile, y, x);"
    edited(here / "kernels" / "transpose.cu", "get(tile, y, x);", "get(tile, y, x); // tclint: ignore[SM001]")
    document = Document(path.as_uri(), str(path), made, 1)
    assert diagnostics(document, document.lint(1, made, Config())) == []


def test_parts_of_a_run_have_the_lines_and_the_comments(here: Path) -> None:
    edited(here / "kernels" / "copy.cu", "float value", "/* tclint: ignore[CA001, WG001] */ float value")
    whole = text("out/copy.ptx", "out/stale.ptx")
    assert "copy.cu:8: ignore[WG001] hides nothing" in whole
    for number in ("1", "2"):
        text("--shard", f"{number}/2", "--output", f"json={number}.json", "out/copy.ptx", "out/stale.ptx")
    shutil.rmtree(here / "kernels")
    assert invoke("merge", "--color", "never", "1.json", "2.json")[1] == whole
