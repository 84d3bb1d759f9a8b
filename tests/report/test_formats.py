from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tclint.config.config import Config
from tclint.findings.finding import BlockedWait, Edit, FileReport, Fix, SourceLocation, Variant
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Method, Severity
from tclint.findings.verdicts import Assumption, HazardClass, Reason, Status, Verdict
from tclint.report.formats import formats, renderer
from tclint.report.locate import Locator
from tclint.report.summary import FormatContext, present
from tclint.syntax.source import Problem, Source
from tests.tools.command import invoke
from tests.tools.findings import finding, report, span, step
from tests.tools.project import ROOT

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
        step(
            KERNEL,
            "wgmma.mma_async",
            "starts to write %f0",
            role="warps 4-7",
            object="tile+0..2048",
            source_location=SourceLocation("src/mma.cuh", 12, 3, (SourceLocation("src/gemm.cu", 50),)),
        ),
        step(KERNEL, "wgmma.commit_group", "commits it"),
        step(KERNEL, "%f0;", "reads it, and no wait lies on this path"),
    ),
    source_location=SourceLocation("mma.cuh", 10, 3, (SourceLocation("gemm.cu", 50),)),
    fixes=(Fix("insert a wait", (Edit(span(KERNEL, "st.global"), "wgmma.wait_group 0; st.global"),), True),),
)


FORMATS = ["concise", "github", "gitlab", "json", "junit", "sarif", "text"]
VARIANTS = (
    Variant("gemm.ptx", None, "gemm", 4, 2, "1111111111111111:1"),
    *(Variant(f"v{n}.ptx", "m" if n == 2 else None, "gemm", n, 1, f"{n:016x}:1") for n in range(1, 8)),
)
ODD = "a%25:,b\udcff é𝄞\x01].ptx"
"""A file name with what some format has to escape: a byte that is not UTF-8, a control character, marks of its own."""


def render(name: str, reports: Sequence[FileReport], *, pedantic: bool = False, **context: Any) -> str:
    shown, summary = present(reports, Config(pedantic=pedantic).selected)
    return renderer(name)(shown, FormatContext(summary, **context))


def test_the_formats_are_found_by_discovery() -> None:
    assert set(formats()) >= set(FORMATS)
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


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_copes_with_odd_names_line_ends_and_characters(name: str) -> None:
    source = Source.from_bytes("// é𝄞 \t\x0c\r\n\tbad𝄞 é;\r\n".encode(), ODD)
    odd = finding(
        source,
        "bad𝄞 é;",
        message="50% of [x](1)\r\n<b>&\x00\ud800",
        entry="k\udcff",
        help="a, b: c",
        suppressed=None,
        steps=(step(source, "bad", "{0} [1](2)"),),
        source_location=SourceLocation("d\udcffir/é x.cu", 3, 2),
    )
    text = render(name, [report(source, odd, origin="Triton")])
    text.encode("utf-8", "replace").decode()
    assert "\x00" not in text
    assert "\x0c" not in text
    if name in ("json", "sarif", "gitlab"):
        json.loads(text)
    if name == "junit":
        ElementTree.fromstring(text.encode())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("reports", [[], [report(KERNEL)]], ids=["nothing", "clean"])
def test_a_run_without_findings_is_whole(name: str, reports: list[FileReport]) -> None:
    text = render(name, reports)
    if name in ("json", "sarif", "gitlab"):
        json.loads(text)
    if name == "junit":
        suites = ElementTree.fromstring(text)
        assert [suite.get("tests") for suite in suites] == ["1"] * len(reports)
    if name == "github":
        assert text == ""
    if name == "gitlab":
        assert text == "[]\n"


@pytest.mark.parametrize("name", FORMATS)
def test_a_suppressed_finding_is_marked_or_left_out(name: str) -> None:
    hushed = finding(KERNEL, "mov.b32", message="hushed words", suppressed="known: issue 7")
    text = render(name, [report(KERNEL, hushed)])
    if name == "json":
        assert json.loads(text)["files"][0]["findings"][0]["suppressed"] == "known: issue 7"
    elif name == "sarif":
        (result,) = json.loads(text)["runs"][0]["results"]
        assert result["suppressions"] == [{"kind": "inSource", "justification": "known: issue 7"}]
    else:
        assert "hushed" not in text


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_names_or_counts_the_variants(name: str) -> None:
    text = render(name, [report(KERNEL, replace(FULL, variants=VARIANTS))])
    assert ("8 duplicates" if name == "concise" else "v1.ptx") in text
    if name not in ("json", "concise"):
        assert "in 7 other compiled variants" in " ".join(text.split()).lower()


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_shows_the_location_that_it_is_given(name: str) -> None:
    text = render(name, [report(KERNEL, FULL)], locate=Locator("source", root=os.getcwd()))
    assert "gemm.cu" in text
    line = {
        "concise": r"^gemm\.cu:50: error",
        "github": r"file=gemm\.cu,line=50,title",
        "gitlab": r'"path": "gemm\.cu",\s+"lines": {\s+"begin": 50',
        "json": r'"kind": "source",\s+"path": "gemm\.cu",\s+"line": 50,\s+"column": null',
        "junit": r">gemm\.cu:50: %f0",
        "sarif": r'"uri": "gemm\.cu",\s+"uriBaseId": "%SRCROOT%"\s+},\s+"region": {\s+"startLine": 50\s+}',
        "text": r"--> gemm\.cu:50\n ::: gemm\.ptx:6:24 in gemm\n",
    }[name]
    assert re.search(line, text), text


def test_text_shows_the_path_in_one_frame() -> None:
    assert (
        render("text", [report(KERNEL, FULL)])
        == """\
error[WG001] wgmma-unwaited-accumulator-read (high confidence, static): %f0 is read too early
 --> gemm.ptx:6:24 in gemm
  |
3 |     wgmma.mma_async {%f0}, %rd0, %rd1;
  |     --------------- 1. [warps 4-7] starts to write %f0 (tile+0..2048) [gemm.cu:50]
. |
5 |     wgmma.commit_group;
  |     ------------------ 2. commits it
6 |     st.global.f32 [%rd2], %f0;
  |                           ^^^ 3. reads it, and no wait lies on this path
  |
  = help: wait before it
  = fix: line 6: insert a wait (--fix)
  = note: 3 places have this cause; the first is shown
  = source: mma.cuh:10:3
            inlined at gemm.cu:50
  = note: PTX ISA 9.1, §9.7.15.7.3; tclint explain WG001

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
error[WG001] wgmma-unwaited-accumulator-read (medium confidence, static): mov.b32 is wrong
 --> gemm.ptx:4:2
  |
4 |     mov.b32 %r0, 0;
  |     ^^^^^^^
  |
  = note: PTX ISA 9.1, §9.7.15.7.3; tclint explain WG001

Found 1 error in 1 file.
"""
    )


def test_the_doubt_about_a_finding_is_reported() -> None:
    doubtful = finding(KERNEL, "mov.b32", confidence=Confidence.LOW, doubt="the barrier may protect more")
    said = [report(KERNEL, doubtful)]
    text = render("text", said, pedantic=True)
    assert "(low confidence, static)" in text
    assert "\n  = doubt: the barrier may protect more\n" in text
    (shown,) = json.loads(render("json", said, pedantic=True))["files"][0]["findings"]
    assert shown["doubt"] == "the barrier may protect more"
    (result,) = json.loads(render("sarif", said, pedantic=True))["runs"][0]["results"]
    assert result["properties"]["tclint/doubt"] == "the barrier may protect more"
    (sure,) = json.loads(render("sarif", [report(KERNEL, finding(KERNEL, "mov.b32"))]))["runs"][0]["results"]
    assert "tclint/doubt" not in sure["properties"]


def test_text_follows_a_loop_backwards_and_names_another_function() -> None:
    steps = (
        step(KERNEL, "wgmma.commit_group", "later line"),
        step(KERNEL, "wgmma.mma_async", "x", entry="helper"),
    )
    lines = render("text", [report(KERNEL, finding(KERNEL, "mov.b32", steps=steps))]).splitlines()
    assert [line.split(" |")[0] for line in lines[3:10]] == ["5", " ", ".", "3", " ", "4", " "]
    assert lines[7].endswith("2. x (in helper)")


def test_text_marks_the_first_line_of_a_span_over_several_lines() -> None:
    source = Source.from_bytes(b"  a {\n    b,\n    c}\n", "a.ptx")
    text = render("text", [report(source, finding(source, "a {\n    b,\n    c}", message="m"))])
    assert [line for line in text.splitlines() if line.startswith(("1 |", "2 |")) or "^" in line] == [
        "1 |   a {",
        "  |   ^^^",
    ]


@pytest.mark.parametrize(
    ("statement", "underlined"),
    [
        ("st.global.f32 [%rd2], %f0;", "st.global.f32"),
        ("@!%p1 mbarrier.arrive.b64 _, [%r1];", "@!%p1 mbarrier.arrive.b64"),
        ("@%p1\tbra end;", "@%p1 bra"),
        ("tcgen05.ld.b32{%r0}, [%r1];", "tcgen05.ld.b32"),
        ("ret;", "ret"),
        (".reqntid 128", ".reqntid 128"),
    ],
)
def test_text_underlines_the_guard_and_opcode_of_a_statement(statement: str, underlined: str) -> None:
    source = Source.from_bytes(f"\t{statement} // why\n".encode(), "a.ptx")
    lines = render("text", [report(source, finding(source, statement))]).splitlines()
    excerpt, carets = lines[3], lines[4]
    assert excerpt[carets.index("^") : carets.rindex("^") + 1] == underlined
    assert excerpt.endswith("// why")


def test_text_elides_long_lists_of_registers_but_not_the_operands_after_them() -> None:
    registers = ", ".join(f"%r{n}" for n in range(128))
    source = Source.from_bytes(
        f"ld.x128 {{{registers}}}, [%r200];\nst.v4 [%r1], {{a, b, c, d}};\n".encode(), "a.ptx"
    )
    steps = (step(source, "st.v4 [%r1], {a, b, c, d};", "four are not elided"),)
    text = render(
        "text", [report(source, finding(source, f"ld.x128 {{{registers}}}, [%r200];", steps=steps))]
    )
    assert "1 | ld.x128 {%r0, …, %r127}, [%r200];\n" in text
    assert "2 | st.v4 [%r1], {a, b, c, d};\n" in text


def test_text_puts_a_label_that_does_not_fit_below_the_line() -> None:
    label = "a label of more than forty characters, which fits"
    steps = (step(KERNEL, "mov.b32", label),)
    reports = [report(KERNEL, finding(KERNEL, "mov.b32", steps=steps))]
    assert f"    ^^^^^^^ {label}\n" in render("text", reports, width=80)
    assert f"    ^^^^^^^\n  |     {label}\n" in render("text", reports, width=60)


def test_a_deadlock_is_shown_as_its_cycle_before_the_help() -> None:
    wait = step(KERNEL, "wgmma.commit_group", "waits for phase 0", role="warp 1", object="mbarrier full[0]")
    arrival = step(
        KERNEL, "st.global", "would arrive, but only after the wait for mbarrier empty[0]", role="warp 0"
    )
    hang = finding(
        KERNEL,
        "mov.b32",
        help="start with parity 1",
        method=Method.REPLAY,
        deadlock=(BlockedWait(wait, (arrival,)), BlockedWait(replace(arrival, message="waits too"))),
    )
    reports = [report(KERNEL, hang)]
    text = render("text", reports)
    assert "(high confidence, replay): " in text
    assert (
        """\
  = deadlock: line 5: [warp 1] waits for phase 0 (mbarrier full[0])
                line 6: [warp 0] would arrive, but only after the wait for mbarrier empty[0]
              line 6: [warp 0] waits too
  = help: start with parity 1
"""
        in text
    )
    (found,) = json.loads(render("json", reports))["files"][0]["findings"]
    assert found["method"] == "replay"
    first, second = found["deadlock"]
    assert (first["wait"]["line"], first["wait"]["object"]) == (5, "mbarrier full[0]")
    assert [(a["line"], a["role"]) for a in first["arrivals"]] == [(6, "warp 0")]
    assert second["arrivals"] == []
    (result,) = json.loads(render("sarif", reports))["runs"][0]["results"]
    assert result["properties"]["tclint/method"] == "replay"
    assert "in the deadlock: [warp 1] waits for phase 0 (mbarrier full[0])" in [
        location["message"]["text"] for location in result["relatedLocations"]
    ]
    for name in ("github", "junit"):
        assert "deadlock: line 5: [warp 1] waits for phase 0 (mbarrier full[0])" in render(name, reports)


def test_a_finding_that_a_replay_shows_too_says_so() -> None:
    reports = [report(KERNEL, finding(KERNEL, "mov.b32", replayed=True))]
    assert "(high confidence, static and replay): " in render("text", reports)
    (found,) = json.loads(render("json", reports))["files"][0]["findings"]
    assert (found["method"], found["replayed"]) == ("static", True)
    (result,) = json.loads(render("sarif", reports))["runs"][0]["results"]
    assert result["properties"]["tclint/replayed"] is True


@pytest.mark.parametrize("name", ["github", "junit", "sarif", "text"])
def test_formats_for_people_name_the_threads_and_the_object_of_a_step(name: str) -> None:
    text = render(name, [report(KERNEL, FULL)]).replace("%25", "%")
    assert "[warps 4-7] starts to write %f0 (tile+0..2048)" in text


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


@pytest.mark.parametrize(
    "line",
    [f"{'x ' * 300}first{' y' * 300} then{' z' * 300} last", "\tfirst\tthen\t\tlast;", "first\tthen last"],
)
def test_text_marks_the_right_words_of_one_line(line: str) -> None:
    source = Source.from_bytes(line.encode(), "a.ptx")
    steps = tuple(step(source, word, word.upper()) for word in ("first", "then"))
    lines = render("text", [report(source, finding(source, "last", steps=steps))], width=80).splitlines()
    excerpt, found = "", []
    for row in lines[3:-4]:
        if row.startswith("1 |"):
            excerpt = row
        elif (marks := re.search(r"-+|\^+", row)) is not None:
            found.append(excerpt[slice(*marks.span())])
    assert found == ["first", "then", "last"]


def test_text_wraps_long_labels_within_the_width() -> None:
    steps = (step(KERNEL, "mov.b32 %r0, 0;", "a long explanation " * 12),)
    text = render("text", [report(KERNEL, finding(KERNEL, "%f0;", steps=steps, help="word " * 40))], width=70)
    assert max(map(len, text.splitlines()[1:])) <= 70
    assert " ".join(text.split()).count("explanation") == 12


def test_text_contains_no_control_character() -> None:
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
        "b.ptx:7: error: is binary",
        "Found 1 error in 1 file; 1 input could not be analysed.",
    ]


def follows_its_schema(document: object) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(
        document, json.loads((ROOT / "docs" / "check.schema.json").read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize(
    "options",
    [(), ("--pedantic", "--verdict", "--require", "proved:wgmma"), ("--execute", "--execute-steps", "1000")],
)
def test_json_follows_its_schema(options: tuple[str, ...]) -> None:
    files = (
        ROOT / "fixtures" / name for name in ("wgmma_unwaited.ptx", "inlined_loc.ptx", "predicated_exit.ptx")
    )
    _, out = invoke(
        "check", "--isolated", "--no-cache", "--output-format", "json", *options, *map(str, files), "absent"
    )
    follows_its_schema(json.JSONDecoder().raw_decode(out)[0])  # errors follow it


@pytest.mark.parametrize(
    ("words", "fail_on", "outcome", "fails"),
    [
        ({"severity": Severity.WARNING}, Severity.WARNING, "findings", True),
        ({"severity": Severity.WARNING}, Severity.ERROR, "clean", False),
        ({"severity": Severity.ERROR}, None, "clean", False),
        ({"severity": Severity.ERROR, "suppressed": "known"}, Severity.WARNING, "clean", False),
        ({"rule": all_rules()["SU001"]}, None, "not-analysed", True),
    ],
)
def test_json_has_the_outcome_and_what_fails(
    words: dict[str, Any], fail_on: Severity | None, outcome: str, fails: bool
) -> None:
    one = report(KERNEL, finding(KERNEL, "mov.b32", **words))
    document = json.loads(render("json", [one], fail_on=fail_on))
    (found,) = document["files"][0]["findings"]
    assert (document["outcome"], found["fails"]) == (outcome, fails)


def test_the_command_that_verifies_a_finding_names_its_function_alone() -> None:
    odd = report(KERNEL, finding(KERNEL, "mov.b32", entry="k[1]*"), finding(KERNEL, "mov.b32", entry=None))
    first, second = json.loads(render("json", [odd]))["files"][0]["findings"]
    assert first["verify"] == ["tclint", "check", "--entry", "k[[]1][*]", "gemm.ptx"]
    assert second["verify"] == ["tclint", "check", "gemm.ptx"]


def test_json_is_schema_1() -> None:
    low = finding(KERNEL, "mov.b32", confidence=Confidence.LOW, severity=Severity.INFO)
    document = json.loads(render("json", [report(KERNEL, FULL, low), FileReport.failed("b.ptx", "absent")]))
    assert document["schema"] == 1
    assert list(document) == ["schema", "outcome", "files", "summary"]
    assert document["outcome"] == "not-analysed"
    follows_its_schema(document)
    good, bad = document["files"]
    assert bad == {
        "path": "b.ptx",
        "member": None,
        "origin": None,
        "status": "failed",
        "problems": [{"line": None, "message": "absent"}],
        "findings": [],
        "open_questions": [],
    }
    assert (good["path"], good["status"], good["problems"]) == ("gemm.ptx", "analysed", [])
    (found,) = good["findings"]
    steps = found.pop("steps")
    assert found == {
        "id": "WG001",
        "name": "wgmma-unwaited-accumulator-read",
        "severity": "error",
        "confidence": "high",
        "doubt": None,
        "fails": True,
        "entry": "gemm",
        "line": 6,
        "column": 24,
        "end_line": 6,
        "end_column": 28,
        "shown_at": {"kind": "ptx", "path": "gemm.ptx", "line": 6, "column": 24},
        "message": "%f0 is read too early",
        "help": "wait before it",
        "help_source": None,
        "manual": ["9.7.15.7.3"],
        "method": "static",
        "replayed": False,
        "deadlock": [],
        "count": 3,
        "fingerprint": "0123456789abcdef:1",
        "source_location": {
            "file": "mma.cuh",
            "line": 10,
            "column": 3,
            "inlined_at": [{"file": "gemm.cu", "line": 50, "column": None, "inlined_at": []}],
        },
        "variants": [],
        "duplicate_of": None,
        "fixes": [
            {
                "message": "insert a wait",
                "safe": True,
                "verified": True,
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
        "verify": ["tclint", "check", "--entry", "gemm", "gemm.ptx"],
        "suppressed": None,
        "confirmation": None,
    }
    assert [(s["line"], s["column"], s["role"], s["object"], s["entry"]) for s in steps] == [
        (3, 2, "warps 4-7", "tile+0..2048", "gemm"),
        (5, 2, None, None, "gemm"),
        (6, 24, None, None, "gemm"),
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
        "folded": 0,
        "hidden": {"total": 1, "rules": {"WG001": 1}},
        "below_severity": {"total": 0, "rules": {}},
        "ignored": {"total": 0, "rules": {}},
        "suppressed": {"total": 0, "rules": {}},
        "baselined": {"total": 0, "rules": {}},
        "gone": [],
        "excluded": 0,
        "fixed": 0,
        "fixed_duplicates": 0,
        "fixable": 0,
        "unsafe_fixable": 0,
        "asm": {"strings": 0, "unknown": 0, "unsure": 0, "modules": 0, "cpp": 0, "arch": None},
        "executed": {"kernels": 0, "incomplete": 0},
    }


def test_text_says_what_was_folded_where_it_came_from_and_that_a_line_is_not_known() -> None:
    made = report(
        KERNEL, replace(FULL, variants=VARIANTS), replace(FULL, source_location=None), origin="Triton 3.9"
    )
    text = render("text", [made], locate=Locator("source", root=os.getcwd()))
    assert "  = note: 3 places have this cause, among them line 4\n" in text
    assert (
        "  = note: also in 7 other compiled variants: v1.ptx:1, v2.ptx(m):2, v3.ptx:3, v4.ptx:4, v5.ptx:5 and 2 more\n"
        in text
    )
    assert " ::: gemm.ptx:6:24 in gemm (Triton 3.9)\n" in text
    assert text.count("no .loc directive gives its source line") == 1


def test_text_with_links_only_adds_escapes_and_only_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = Source.from_bytes(KERNEL.data, "a b\x1b\\\udcff.ptx")
    stdin = Source.from_bytes(KERNEL.data, "<stdin>")
    for name in ("gemm.ptx", odd.path):
        Path(name).touch()
    reports = [report(of, finding(of, "mov.b32")) for of in (KERNEL, odd, stdin)]
    linked = render("text", reports, links=True)
    assert re.sub("\x1b]8;;[^\x1b]*\x1b\\\\", "", linked) == render("text", reports)
    urls = re.findall("\x1b]8;;([^\x1b]+)\x1b", linked)
    assert [url.rsplit("/")[-1] for url in urls] == [
        "WG001.md",
        "gemm.ptx",
        "WG001.md",
        "a%20b%1B%5C%FF.ptx",
        "WG001.md",
    ]


def test_text_shortens_mangled_names_and_long_chains() -> None:
    calls = tuple(SourceLocation(f"c{n}.cuh", n) for n in range(2, 20))
    long = replace(
        FULL, entry="_Z" + "N7cutlass" * 300, source_location=SourceLocation("c1.cuh", 1, 0, calls)
    )
    text = render("text", [report(KERNEL, replace(long, steps=()))], width=80)
    assert max(map(len, text.splitlines())) <= 120
    assert " in _ZN7cutlassN7cutlass" in text
    assert text.partition("= source: ")[2].partition("\n  = note")[0].split("\n            ") == [
        "c1.cuh:1",
        "inlined at c2.cuh:2",
        "… 15 more calls",
        "inlined at c18.cuh:18",
        "inlined at c19.cuh:19",
    ]


def test_github_escapes_data_and_properties_and_sorts_by_severity() -> None:
    source = Source.from_bytes(b"a\nbc\nd", "a%,:b.ptx")
    text = render(
        "github",
        [
            report(source, finding(source, "a", severity=Severity.INFO, message="i")),
            report(
                source,
                finding(source, "bc\nd", severity=Severity.WARNING, message="100%\r\nx:,y", entry=None),
            ),
            FileReport.failed("c.ptx", "no\nPTX", 3),
            FileReport.failed("d.ptx", "absent"),
        ],
    )
    end = "%0APTX: a%25,:b.ptx:{}%0Arule: wgmma-unwaited-accumulator-read (high confidence, static), PTX ISA 9.1, §9.7.15.7.3"
    assert text.splitlines() == [
        "::error file=c.ptx,line=3,title=tclint::c.ptx: no%0APTX",
        "::error file=d.ptx,title=tclint::d.ptx: absent",
        "::warning file=a%25%2C%3Ab.ptx,line=2,endLine=3,title=tclint (WG001)::100%25%0D%0Ax:,y"
        + end.format("2:1"),
        "::notice file=a%25%2C%3Ab.ptx,line=1,endLine=1,col=1,endColumn=2,title=tclint (WG001)::i"
        + end.format("1:1 in gemm"),
    ]


def test_gitlab_has_one_fingerprint_for_each_finding() -> None:
    other = Source.from_bytes(KERNEL.data, "other.ptx")
    reports = [
        report(KERNEL, FULL, replace(FULL, severity=Severity.WARNING)),
        report(KERNEL, replace(FULL, severity=Severity.INFO), member="m"),
        report(
            other, FULL, status="partial", problems=(Problem(2, "unbalanced {"), Problem(0, "unbalanced {"))
        ),
    ]
    entries = json.loads(render("gitlab", reports))
    assert entries == json.loads(render("gitlab", reports))
    assert len({entry["fingerprint"] for entry in entries}) == 6
    assert [entry["severity"] for entry in entries] == [
        "critical",
        "major",
        "info",
        "blocker",
        "blocker",
        "critical",
    ]
    assert {frozenset(entry) for entry in entries} == {
        frozenset(("description", "check_name", "fingerprint", "severity", "location"))
    }
    assert entries[0]["location"] == {"path": "gemm.ptx", "lines": {"begin": 6}}
    assert entries[0]["description"] == "%f0 is read too early; help: wait before it"
    assert entries[2]["description"] == "%f0 is read too early; in member m; help: wait before it"
    assert entries[4]["location"] == {"path": "other.ptx", "lines": {"begin": 1}}
    moved = Source.from_bytes(b"\n\n" + KERNEL.data, "gemm.ptx")
    (entry,) = json.loads(render("gitlab", [report(moved, finding(moved, "%f0;"))]))
    assert (entry["fingerprint"], entry["location"]["lines"]["begin"]) == (entries[0]["fingerprint"], 8)


def test_junit_has_a_suite_for_each_file_and_fails_what_fails_the_run() -> None:
    low = finding(KERNEL, "mov.b32", severity=Severity.INFO, message='a <b> & "c"', fingerprint="2:1")
    reports = [report(KERNEL, FULL, low), report(KERNEL, member="m"), FileReport.failed("b.ptx", "absent")]
    suites = ElementTree.fromstring(render("junit", reports))
    assert [
        [suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped", "id")]
        for suite in suites
    ] == [
        ["gemm.ptx", "2", "1", "0", "1", "0"],
        ["gemm.ptx(m)", "1", "0", "0", "0", "1"],
        ["b.ptx", "1", "0", "1", "0", "2"],
    ]
    cases = suites.findall("*/testcase")
    assert [case.get("name") for case in cases] == [
        "WG001 wgmma-unwaited-accumulator-read [2:1]",
        "WG001 wgmma-unwaited-accumulator-read [0123456789abcdef:1]",
        "tclint",
        "problem 1",
    ]
    outcomes = [(part.tag, part.get("type"), part.get("message")) for case in cases for part in case]
    assert outcomes == [
        ("skipped", None, 'a <b> & "c"'),
        ("failure", "error", "%f0 is read too early"),
        ("error", "problem", "absent"),
    ]
    assert cases[1][0].text == (
        "gemm.ptx:6:24: %f0 is read too early\n"
        "1. line 3: [warps 4-7] starts to write %f0 (tile+0..2048)\n"
        "2. line 5: commits it\n"
        "3. line 6: reads it, and no wait lies on this path\n"
        "help: wait before it\n"
        "note: 3 places have this cause; the first is shown\n"
        "PTX: gemm.ptx:6:24 in gemm\n"
        "source: mma.cuh:10:3, inlined at gemm.cu:50\n"
        "rule: wgmma-unwaited-accumulator-read (high confidence, static), PTX ISA 9.1, §9.7.15.7.3"
    )
    never = ElementTree.fromstring(render("junit", reports, fail_on=None))
    assert [suite.get("failures") for suite in never] == ["0", "0", "0"]


def test_classes_of_which_the_same_is_known_are_named_together() -> None:
    reason = Reason(span(KERNEL, "st.global"), "the address is unknown", "resolve it")
    verdicts = (
        Verdict("gemm", HazardClass.WGMMA, Status.PROVED),
        Verdict("gemm", HazardClass.CP_ASYNC, Status.UNKNOWN, reasons=(reason, Reason(None, "too large"))),
        Verdict("gemm", HazardClass.BULK, Status.VIOLATED, rules=("BK001", "BK004")),
        Verdict("gemm", HazardClass.MBARRIER, Status.BOUNDED, launches=("a", "b")),
        Verdict("gemm", HazardClass.AVAILABILITY, Status.PROVED),
        Verdict("x\x1b[31m", HazardClass.AVAILABILITY, Status.PROVED, assumptions=(Assumption.THREADS,)),
    )
    reports, summary = present(
        [FileReport(path="gemm.ptx", source=KERNEL, verdicts=verdicts)], Config().selected
    )
    lines = renderer("text")(reports, FormatContext(summary)).splitlines()
    assert lines[:2] == [
        "kernel gemm in gemm.ptx: wgmma, availability proved; cp-async unknown (line 6: the address is unknown; "
        + "resolve it; and 1 more); bulk violated (BK001, BK004); mbarrier bounded (2 launches)",
        "kernel x\ufffd[31m in gemm.ptx: availability proved (assuming threads)",
    ]
