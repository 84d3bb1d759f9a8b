"""Comments that hide findings: what they are about, and what is said of those that are wrong."""

from __future__ import annotations

import json
import re
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.config.config import Selection
from tclint.config.selection import enabled
from tclint.findings.finding import FileReport
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Request, Selected
from tclint.linting.check import check_source
from tclint.report.formats import renderer
from tclint.report.summary import FormatContext, present
from tclint.syntax.source import Source
from tests.tools.support import HOPPER, kernel, module
from tests.tools.support import before_the_wait as wrong

ADD = "    add.f32 %f5, %f0, %f1;"


def run(text: str, selected: Selected = Selected(), header: str = HOPPER) -> FileReport:  # noqa: B008
    return check_source(
        Source.from_bytes(module(text, header=header).encode(), "t.ptx"), Request(selected or Selected())
    )


def reported(report: FileReport) -> list[str]:
    """Rules of the findings, with the reason of those that are suppressed."""
    return [
        f.rule.id if f.suppressed is None else f"{f.rule.id} suppressed: {f.suppressed}".rstrip()
        for f in report.findings
    ]


HIDDEN = ["WG001 suppressed: because"]


@pytest.mark.parametrize(
    "use",
    [
        f"{ADD} // tclint: ignore[WG001] because",
        f"// tclint: ignore[WG001] because\n{ADD}",
        f"  //tclint:ignore [ WG001 ] -- because\r\n{ADD}\r",
        f"/* tclint: ignore[WG001]\n because */\n{ADD}",
        f"    /* tclint: ignore[WG001] because */ {ADD}",
        f"// tclint: ignore[WG001] because\n\n// more\n\t.loc 1 2 3\n$L_1:\n{ADD}",
        "// tclint: ignore[WG001] because\n    add.f32 %f5,\n        %f0, // two\n        %f1;",
        "    add.f32 %f5,\n        %f0, // tclint: ignore[WG001] because\n        %f1;",
        "    add.f32 %f5,\n        // tclint: ignore[WG001] because\n        %f0, %f1;",
        "    add.f32 %f5,\n        %f0,\n        %f1; // tclint: ignore[WG001] because",
        f"    mov.b32 %r1, 0; {ADD} // late // tclint: ignore[WG001] because",
        f"// tclint: ignore[wgmma-unwaited-accumulator-read] because\n{ADD}",
        f"// tclint: ignore[wgmma] because\n{ADD}",
        f"// tclint: ignore[wg] because\n{ADD}",
        f"// tclint: ignore[ALL] because\n{ADD}",
        f"// tclint: ignore-entry[WG001] because\n{ADD}",
        f"// tclint: ignore[WG001] because\n// tclint: ignore[WG] and\n{ADD}",
    ],
)  # fmt: skip
def test_a_comment_hides_the_finding_of_its_statement(use: str) -> None:
    report = run(wrong(use))
    assert report.status == "analysed", report.problems
    assert reported(report) == HIDDEN


def test_a_reason_may_be_empty_or_hold_an_address() -> None:
    assert reported(run(wrong(f"{ADD} // tclint: ignore[WG001]"))) == ["WG001 suppressed:"]
    (found,) = run(wrong(f"{ADD} // tclint: ignore[WG001]: see https://x.y/z")).findings
    assert found.suppressed == "see https://x.y/z"


@pytest.mark.parametrize(
    "use",
    [
        f"    mov.b32 %r1, 0; // tclint: ignore[WG001] the line above\n{ADD}",
        f"{ADD}\n// tclint: ignore[WG001] below",
        f"// tclint: ignore[WG001] not the next statement\n    mov.b32 %r1, 0;\n{ADD}",
        f"// tclint: ignore[WG005] another rule\n{ADD}",
    ],
)
def test_a_comment_about_something_else_hides_nothing(use: str) -> None:
    assert sorted(reported(run(wrong(use)))) == ["SU001", "WG001"]


def test_a_word_in_a_string_or_in_prose_is_not_a_comment() -> None:
    text = f'    .pragma "// tclint: ignore[WG001]";\n    // as tclint: ignore[WG001] would\n{ADD}'
    assert reported(run(wrong(text))) == ["WG001"]


def test_entry_comments_are_about_the_function_that_follows() -> None:
    text = (
        wrong(ADD, "a")
        + "// tclint: ignore-entry[WG001, WG005] b\n// more\n"
        + wrong(ADD, "b")
        + wrong(ADD, "c")
    )
    report = run(text)
    assert reported(report) == ["WG001", "SU001", "WG001 suppressed: b", "WG001"]
    (unused,) = (f for f in report.findings if f.rule.id == "SU001")
    assert (unused.message, unused.entry) == ("ignore-entry[WG005] hides nothing", "b")
    assert unused.help == "remove this from the list"


@pytest.mark.parametrize(
    "comment", ["{}// tclint: ignore[AV002] tried", "// tclint: ignore[AV002] tried\n{}"]
)
def test_a_finding_of_the_module_is_hidden_at_its_line(comment: str) -> None:
    header = comment.format(".version 8.0 ") + "\n.target sm_100a\n.address_size 64\n"
    assert reported(run(kernel("ret;"), header=header)) == ["AV002 suppressed: tried"]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("ignroe[WG001]", "unknown directive ignroe; did you mean ignore?"),
        ("[WG001]", "a directive is missing"),
        ("ignore", "ignore names no rule"),
        ("ignore this", "ignore names no rule"),
        ("ignore[]", "ignore[] names no rule"),
        ("ignore[ , ]", "ignore[] names no rule"),
        ("ignore[WG001", "the list of rules after ignore has no closing ]"),
        ("ignore[WG0001] x", "unknown rule 'WG0001'; did you mean WG001?"),
        ("ignore[SU001] x", "SU001 cannot be ignored by a comment"),
    ],
)
def test_what_cannot_be_understood_is_a_finding(comment: str, message: str) -> None:
    report = run(kernel(f"mov.b32 %r1, 0; // tclint: {comment}\nret;"))
    (found,) = report.findings
    assert (found.rule.id, found.message, found.entry) == ("SU002", message, "k")
    assert found.help


def test_an_entry_comment_at_the_end_is_about_nothing() -> None:
    report = run(kernel("ret;") + "// tclint: ignore-entry[WG001]\n")
    assert [(f.rule.id, f.message) for f in report.findings] == [("SU002", "no function follows")]


def test_the_known_rules_of_a_list_count() -> None:
    assert reported(run(wrong(f"{ADD} // tclint: ignore[WG999, WG001] because"))) == [*HIDDEN, "SU002"]


# ---------------------------------------------------------------- unused, or not checked


STALE = "mov.b32 %r1, 0; // tclint: ignore[WG001] once\nret;"


def on(**words: tuple[str, ...]) -> frozenset[str]:
    return enabled([Selection(**words)])  # type: ignore[arg-type]


def test_a_comment_that_hides_nothing_is_a_finding() -> None:
    (found,) = run(kernel(STALE)).findings
    assert (found.rule.id, found.message) == ("SU001", "ignore[WG001] hides nothing")
    assert (found.severity, found.confidence, found.entry) == (Severity.WARNING, Confidence.HIGH, "k")


@pytest.mark.parametrize(
    "selected",
    [
        Selected(rules=on(ignore=("WG001",))),
        Selected(rules=on(ignore=("SU001",))),
        Selected(rules=on(select=("TC", "SU"))),
        Selected(entry=("other",)),
    ],
)
def test_a_suppression_is_not_unused_if_its_rule_did_not_run(selected: Selected) -> None:
    assert reported(run(kernel(STALE), selected)) == []


def test_copies_of_inline_assembly_are_one_comment() -> None:
    def inline(statement: str, reason: str = "because") -> str:
        comment = f"// begin inline asm\n// tclint: ignore[WG001] {reason}\n"
        return f"{comment}{statement}\n// end inline asm\n"

    copied = wrong(inline(ADD) + inline("mov.b32 %r1, 0;")) + kernel(inline("mov.b32 %r1, 0;") + "ret;", "b")
    assert reported(run(copied)) == HIDDEN
    other = kernel(inline("mov.b32 %r1, 0;", "else") * 3 + "ret;", "b")
    assert reported(run(wrong(inline(ADD)) + other)) == [*HIDDEN, "SU001"]
    assert reported(run(wrong(inline(ADD)) + other, Selected(entry=("k",)))) == HIDDEN
    by_hand = "// begin inline asm\n// end inline asm\n// tclint: ignore[WG001] because\nmov.b32 %r1, 0;\n"
    assert reported(run(wrong(inline(ADD) + by_hand))) == [*HIDDEN, "SU001"]


def test_a_comment_in_a_function_that_is_left_out_is_not_judged() -> None:
    text = kernel("ret; // tclint: ignore")
    assert reported(run(text)) == ["SU002"]
    assert reported(run(text, Selected(entry=("other",)))) == []


def test_a_family_is_unused_only_when_all_of_it_was_looked_for() -> None:
    text = kernel("ret; // tclint: ignore[wgmma]")
    assert reported(run(text)) == ["SU001"]
    assert reported(run(text, Selected(rules=on(ignore=("WG003",))))) == []


def test_it_is_not_unused_in_an_input_that_was_analysed_in_part() -> None:
    report = run(kernel(STALE) + kernel("bra nowhere;\nret;", "broken"))
    assert report.status == "partial"
    assert "SU001" not in reported(report)


def test_it_is_not_unused_when_it_hides_what_would_not_be_shown() -> None:
    report = run(wrong(f"{ADD} // tclint: ignore[WG001] because"), Selected(min_confidence=Confidence.HIGH))
    _, summary = present(
        [report], Selected(min_severity=Severity.ERROR, per_entry_ignores=(("k", ("WG001",)),))
    )
    assert (summary.suppressed, summary.ignored, summary.by_rule) == ({"WG001": 1}, {}, {})


def test_suppressed_findings_are_shown_by_the_formats_that_mark_them() -> None:
    shown, summary = present([run(wrong(f"{ADD} // tclint: ignore[WG001] because"))], Selected())
    assert [f.suppressed for f in shown[0].findings] == ["because"]
    assert (summary.files_with_findings, summary.by_rule, summary.suppressed) == (0, {}, {"WG001": 1})
    assert (
        renderer("concise")(shown, FormatContext(summary))
        == "No findings in 1 file; 1 finding suppressed by comments.\n"
    )
    document = json.loads(renderer("json")(shown, FormatContext(summary)))
    assert document["files"][0]["findings"][0]["suppressed"] == "because"
    assert document["summary"]["suppressed"] == {"total": 1, "rules": {"WG001": 1}}


def test_fingerprints_of_two_comments_differ() -> None:
    report = run(kernel(STALE.replace("ret;", "") + STALE))
    assert len({f.fingerprint for f in report.findings}) == 2


def test_nothing_is_searched_without_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tclint.linting.suppress.LEXICAL", re.compile("never"))  # would fail on bytes
    assert reported(run(wrong(ADD))) == ["WG001"]


@given(
    st.text('ignore-ty[]WG01,ALL :/*\n\r"é;{}', max_size=40),
    st.sampled_from(("// tclint:", "/* tclint:", "tclint:")),
)
@settings(max_examples=60, deadline=None)
def test_no_comment_is_a_crash(text: str, start: str) -> None:
    for whole in (f"mov.b32 %r1, 0; {start}{text}", f"{start}{text}\nret;"):
        report = run(kernel(whole))
        assert {f.rule.id for f in report.findings if f.suppressed is None} <= set(all_rules())


def test_many_comments_cost_little() -> None:
    lines = "mov.b32 %r1, 0; // tclint: ignore[WG001] x\n" * 4000
    began = process_time()
    assert len(run(kernel(lines + "ret;")).findings) == 4000
    assert process_time() - began < 5
