"""Comments in CUDA C++ and Python about findings in the PTX compiled from them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tclint.api import Report, check_paths
from tests.tools.sources import edited, project

STORE = "row[threadIdx.x] = rows[i * 256 + threadIdx.x];"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project(tmp_path))
    return tmp_path


def found(report: Report) -> list[str]:
    return [finding.rule.id for finding in report.findings]


def messages(report: Report) -> list[str]:
    return [finding.message for finding in report.findings]


def renumbered(ptx: Path, first: int, by: int) -> None:
    """Compiles again: the code of the lines from *first* on is now that of lines *by* further down."""
    text = ptx.read_text()
    for line in range(20, first - 1, -1):
        text = text.replace(f".loc\t1 {line} ", f".loc\t1 {line + by} ")
    ptx.write_text(text)


def test_each_program_has_its_finding(here: Path) -> None:
    names = ("copy", "named", "phase", "softmax", "stale", "transpose")
    expected = (["CA001"], ["CV011"], ["MB016"], ["SM001"], ["SM001"], ["SM001"])
    assert tuple(found(check_paths([f"out/{name}.ptx"])) for name in names) == expected


@pytest.mark.parametrize(
    "line",
    [
        f"{STORE} // tclint: ignore[SM001] because",
        f"// tclint: ignore[smem-reuse-no-barrier] because\n{STORE}",
        f"/* tclint: ignore[SM001] because */\n\n  // another comment\n{STORE}",
    ],
)
def test_a_comment_in_the_line_suppresses_all_copies_of_it(here: Path, line: str) -> None:
    edited(here / "kernels" / "stale.cu", STORE, line)
    renumbered(here / "out" / "stale.ptx", 7, line.count("\n"))
    report = check_paths(["out/stale.ptx"])
    assert found(report) == []
    assert {finding.suppressed for file in report.files for finding in file.findings} == {"because"}
    assert report.summary.suppressed == {"SM001": 5}


def test_a_comment_in_python(here: Path) -> None:
    edited(
        here / "kernels" / "softmax.py",
        "tl.sum(x, axis=0)",
        "tl.sum(x, axis=0)  # tclint: ignore[SM001] known",
    )
    assert found(check_paths(["out/softmax.ptx"])) == []


def test_a_comment_where_the_line_was_inlined(here: Path) -> None:
    edited(
        here / "kernels" / "transpose.cuh",
        "return tile[y * 17 + x];",
        "return tile[y * 17 + x];  // tclint: ignore[SM]",
    )
    assert found(check_paths(["out/transpose.ptx"])) == []


def test_a_mark_in_a_string_has_no_effect(here: Path) -> None:
    edited(here / "kernels" / "named.cu", "int* out)", 'int* out, char* = "// tclint: ignore[CV011]")')
    edited(here / "kernels" / "named.cu", "__shared__", "char c = '\"'; __shared__")
    assert found(check_paths(["out/named.ptx"])) == ["CV011"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("extern", "// tclint: ignore-entry[SM001] because\nextern"),
        ("float sum", "// tclint: ignore-entry[SM001]\nfloat sum"),
    ],
)
def test_a_comment_about_a_kernel(here: Path, old: str, new: str) -> None:
    edited(here / "kernels" / "stale.cu", old, new)
    renumbered(here / "out" / "stale.ptx", 2 if old == "extern" else 5, 1)
    assert found(check_paths(["out/stale.ptx"])) == []


def test_a_comment_about_another_rule_hides_nothing(here: Path) -> None:
    edited(here / "kernels" / "stale.cu", STORE, f"{STORE} // tclint: ignore[CA001, SM001]")
    report = check_paths(["out/stale.ptx"])
    assert messages(report) == ["stale.cu:7: ignore[CA001] hides nothing"]
    assert report.exit_code == 2
    assert "--> kernels/stale.cu:7:" in str(report)


def test_a_comment_for_what_comes_after_another_function_is_not_about_the_kernel(here: Path) -> None:
    edited(
        here / "kernels" / "stale.cu",
        "// Sums",
        "/* tclint: ignore-entry[SM001] */ int other() { return 0; } // Sums",
    )
    assert found(check_paths(["out/stale.ptx"])) == ["SM001"]


def test_a_malformed_comment_is_reported_once(here: Path) -> None:
    edited(here / "kernels" / "stale.cu", STORE, f"{STORE} // tclint: ignroe[SM001]")
    shutil.copy(here / "out" / "stale.ptx", here / "out" / "again.ptx")
    report = check_paths(["out/again.ptx", "out/stale.ptx"])
    wrong = [finding for finding in report.findings if finding.rule.id == "SU002"]
    assert [finding.message for finding in wrong] == [
        "stale.cu:7: unknown directive ignroe; did you mean ignore?"
    ]


def test_a_comment_is_used_if_one_of_several_inputs_uses_it(here: Path) -> None:
    ptx = here / "out" / "stale.ptx"
    with_barrier = ptx.read_text().replace("\tst.shared.f32", "\tbar.sync 0;\n\tst.shared.f32")
    (here / "out" / "right.ptx").write_text(with_barrier)
    assert found(check_paths(["out/right.ptx"])) == []
    edited(here / "kernels" / "stale.cu", STORE, f"{STORE} // tclint: ignore[SM001]")
    assert messages(check_paths(["out/right.ptx"])) == ["stale.cu:7: ignore[SM001] hides nothing"]
    assert found(check_paths(["out/right.ptx", "out/stale.ptx"])) == []


@pytest.mark.parametrize(
    "options", [{"entry": ["nothing*", "other"]}, {"select": ["CA"]}], ids=["other function", "other rules"]
)
def test_what_was_not_checked_is_not_unused(here: Path, options: dict[str, list[str]]) -> None:
    edited(here / "kernels" / "stale.cu", STORE, f"{STORE} // tclint: ignore[SM001]")
    assert found(check_paths(["out/stale.ptx"], **options)) == []  # type: ignore[arg-type]


def test_a_comment_in_a_source_that_is_newer_is_used_but_not_called_unused(here: Path) -> None:
    edited(here / "kernels" / "stale.cu", STORE, f"{STORE} // tclint: ignore[SM001, CA001]")
    os.utime(here / "kernels" / "stale.cu")
    assert found(check_paths(["out/stale.ptx"])) == []


def test_a_comment_counts_for_a_report_that_is_reused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCLINT_CACHE_DIR", str(here / "cache"))
    assert found(check_paths(["out/stale.ptx"], cache=True)) == ["SM001"]
    edited(here / "kernels" / "stale.cu", STORE, f"{STORE} // tclint: ignore[SM001]")
    assert found(check_paths(["out/stale.ptx"], cache=True)) == []
    edited(here / "kernels" / "stale.cu", "// tclint: ignore[SM001]", "")
    assert found(check_paths(["out/stale.ptx"], cache=True)) == ["SM001"]


def test_without_the_source_nothing_changes(here: Path) -> None:
    shutil.rmtree(here / "kernels")
    report = check_paths(["out/stale.ptx"])
    assert found(report) == ["SM001"]
    assert "::: out/stale.ptx:69:2 in reversed" in str(report)
