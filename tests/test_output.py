from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import finding, report, span, step

from tclint.config import Config
from tclint.finding import Confidence, Edit, FileReport, Fix, Problem, Severity, SourceLocation
from tclint.output import formats, renderer
from tclint.report import Context, present
from tclint.source import Source

KERNEL = Source.from_bytes(
    b""".version 8.0
.entry gemm() {
\twgmma.mma_async {%f0}, %rd0, %rd1;
\tmov.b32 %r0, 0;
\twgmma.commit_group;
\tst.global.f32 [%rd2], %f0;
}
""",
    "gemm.ptx",
)
FULL = finding(
    KERNEL,
    "%f0;",
    message="%f0 is read too early",
    help="wait before it",
    count=3,
    steps=(
        step(KERNEL, "wgmma.mma_async", "starts to write %f0", role="warps 4-7"),
        step(KERNEL, "wgmma.commit_group", "commits it"),
        step(KERNEL, "%f0;", "reads it, and no wait lies on this path"),
    ),
    source_location=SourceLocation("mma.cuh", 10, 3, (SourceLocation("gemm.cu", 50),)),
    fixes=(Fix("insert a wait", (Edit(span(KERNEL, "st.global"), "wgmma.wait_group 0; st.global"),), True),),
)


def render(name: str, reports: Sequence[FileReport], *, pedantic: bool = False, **context: Any) -> str:
    shown, summary = present(reports, Config(pedantic=pedantic))
    return renderer(name)(shown, Context(summary, **context))


def test_the_formats_are_found_by_discovery() -> None:
    assert set(formats()) >= {"text", "concise", "json"}
    assert not any(name.startswith("_") for name in formats())


@pytest.mark.parametrize("name", formats())
@pytest.mark.parametrize(
    "reports",
    [
        [],
        [report(KERNEL)],
        [report(KERNEL, FULL)],
        [FileReport.failed("a.ptx", "not text", 3), FileReport.failed("b", "absent")],
        [report(KERNEL, FULL, status="partial", problems=(Problem(2, "unbalanced {"),), member="gemm.cubin")],
    ],
    ids=["nothing", "clean", "finding", "failed", "partial"],
)
def test_every_format_writes_every_kind_of_report(name: str, reports: list[FileReport]) -> None:
    text = render(name, reports)
    assert text == "" or text.endswith("\n")
    for item in reports:
        for problem in item.problems:
            assert problem.message in text


def test_text_shows_the_path_in_one_frame() -> None:
    assert (
        render("text", [report(KERNEL, FULL)])
        == """\
error[WG001] wgmma-unwaited-accumulator-read: %f0 is read too early
 --> gemm.ptx:6:24 in gemm
  |
3 |     wgmma.mma_async {%f0}, %rd0, %rd1;
  |     --------------- 1. [warps 4-7] starts to write %f0
. |
5 |     wgmma.commit_group;
  |     ------------------ 2. commits it
6 |     st.global.f32 [%rd2], %f0;
  |                           ^^^^ 3. reads it, and no wait lies on this path
  |
  = help: wait before it
  = note: 3 uses with this cause; the first is shown
  = note: PTX ISA 9.7.15.7.3
  = source: mma.cuh:10:3, inlined at gemm.cu:50

Found 1 error in 1 file.
"""
    )


def test_text_without_steps_marks_the_span_alone() -> None:
    text = render(
        "text", [report(KERNEL, finding(KERNEL, "mov.b32", confidence=Confidence.MEDIUM, entry=None))]
    )
    assert (
        text
        == """\
error[WG001] wgmma-unwaited-accumulator-read: mov.b32 is wrong
 --> gemm.ptx:4:2
  |
4 |     mov.b32 %r0, 0;
  |     ^^^^^^^
  |
  = note: PTX ISA 9.7.15.7.3; confidence: medium

Found 1 error in 1 file.
"""
    )


def test_text_follows_a_loop_backwards_and_names_another_function() -> None:
    steps = (
        step(KERNEL, "wgmma.commit_group", "later line"),
        step(KERNEL, "wgmma.mma_async", "x", entry="helper"),
    )
    lines = render("text", [report(KERNEL, finding(KERNEL, "mov.b32", steps=steps))]).splitlines()
    assert [line.split(" |")[0] for line in lines[3:10]] == ["5", " ", ".", "3", " ", "4", " "]
    assert lines[7].endswith("2. x (in helper)")


def test_text_of_a_span_over_several_lines() -> None:
    source = Source.from_bytes(b"  a {\n    b,\n    c};\n", "a.ptx")
    text = render("text", [report(source, finding(source, "a {\n    b,\n    c}", message="m"))])
    assert [line for line in text.splitlines() if "^" in line] == ["  |   ^^^", "  |     ^^", "  |     ^^"]


def test_text_of_a_span_over_very_many_lines_shows_its_ends() -> None:
    source = Source.from_bytes(b"a {\n" + b"  x,\n" * 500 + b"  z}\n", "a.ptx")
    text = render("text", [report(source, finding(source, source.text.strip(), message="m"))])
    assert len(text.splitlines()) < 15
    assert "502 |   z}" in text


@pytest.mark.parametrize("at", [0, 40, 5_000, 499_990])
@pytest.mark.parametrize("length", [1, 10, 300])
def test_text_trims_a_huge_line_around_the_span(at: int, length: int) -> None:
    line = "".join(chr(ord("a") + index % 26) for index in range(500_000))
    source = Source.from_bytes(line.encode(), "a.ptx")
    words = line[at : at + length]
    spot = finding(source, words, message="m", span=type(span(source, "a"))(at, at + len(words)))
    lines = render("text", [report(source, spot)], width=80).splitlines()
    excerpt, carets = lines[3], lines[4]
    assert len(excerpt) <= 80
    assert len(carets) <= 80
    marked = excerpt[carets.index("^") : carets.rindex("^") + 1]
    assert words.startswith(marked.removesuffix("…"))
    assert marked == words or length == 300


def test_text_wraps_long_labels_within_the_width() -> None:
    steps = (step(KERNEL, "mov.b32 %r0, 0;", "a long explanation " * 12),)
    text = render("text", [report(KERNEL, finding(KERNEL, "%f0;", steps=steps, help="word " * 40))], width=70)
    assert max(map(len, text.splitlines())) <= 70
    assert " ".join(text.split()).count("explanation") == 12


def test_text_lets_no_control_character_through() -> None:
    source = Source.from_bytes(b"x // \x1b[2Jgone\x07 \xe2\x80\xae\n", "a\x1b.ptx")
    text = render("text", [report(source, finding(source, "x", message="m\x1b[31m"))])
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_color_only_adds_escapes() -> None:
    plain = render("text", [report(KERNEL, FULL)])
    colored = render("text", [report(KERNEL, FULL)], color=True)
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_concise_is_one_line_per_finding() -> None:
    text = render("concise", [report(KERNEL, FULL), FileReport.failed("b.ptx", "is\nbinary", 7)])
    assert text.splitlines() == [
        "gemm.ptx:6:24: error WG001 %f0 is read too early [wgmma-unwaited-accumulator-read]",
        "b.ptx:7: problem: is binary",
        "Found 1 error in 1 file; 1 input could not be analysed.",
    ]


def test_json_is_schema_1() -> None:
    low = finding(KERNEL, "mov.b32", confidence=Confidence.LOW, severity=Severity.INFO)
    document = json.loads(render("json", [report(KERNEL, FULL, low), FileReport.failed("b.ptx", "absent")]))
    assert document["schema"] == 1
    assert list(document) == ["schema", "files", "summary"]
    good, bad = document["files"]
    assert bad == {
        "path": "b.ptx",
        "member": None,
        "status": "failed",
        "problems": [{"line": None, "message": "absent"}],
        "findings": [],
    }
    assert (good["path"], good["status"], good["problems"]) == ("gemm.ptx", "analysed", [])
    (found,) = good["findings"]
    steps = found.pop("steps")
    assert found == {
        "id": "WG001",
        "name": "wgmma-unwaited-accumulator-read",
        "severity": "error",
        "confidence": "high",
        "entry": "gemm",
        "line": 6,
        "column": 24,
        "end_line": 6,
        "end_column": 28,
        "message": "%f0 is read too early",
        "help": "wait before it",
        "manual": ["9.7.15.7.3"],
        "count": 3,
        "fingerprint": "0123456789abcdef:1",
        "source_location": {
            "file": "mma.cuh",
            "line": 10,
            "column": 3,
            "inlined_at": [{"file": "gemm.cu", "line": 50, "column": None, "inlined_at": []}],
        },
        "fixes": [
            {
                "message": "insert a wait",
                "safe": True,
                "edits": [
                    {
                        "line": 6,
                        "column": 2,
                        "end_line": 6,
                        "end_column": 11,
                        "text": "wgmma.wait_group 0; st.global",
                    }
                ],
            }
        ],
        "suppressed": None,
        "confirmation": None,
    }
    assert [(s["line"], s["column"], s["role"], s["entry"]) for s in steps] == [
        (3, 2, "warps 4-7", "gemm"),
        (5, 2, None, "gemm"),
        (6, 24, None, "gemm"),
    ]
    summary = document["summary"]
    assert summary.pop("version")
    assert summary == {
        "files": 2,
        "analysed": 1,
        "partial": 0,
        "failed": 1,
        "severities": {"error": 1, "warning": 0, "info": 0},
        "rules": {"WG001": 1},
        "hidden": {"total": 1, "rules": {"WG001": 1}},
        "below_severity": {"total": 0, "rules": {}},
        "ignored": {"total": 0, "rules": {}},
        "suppressed": {"total": 0, "rules": {}},
    }
