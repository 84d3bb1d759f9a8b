"""What a state of an edited text takes over from the one before are answers that still hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tclint.checks._operand_types import Misfit, OperandTypes
from tclint.ir import rebuild
from tclint.ir.nodes import FormUse
from tclint.isa.forms import Match
from tclint.linting.cache import IncrementalCache
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.support import kernel, module

BODY = """\
    ld.global.b32 %r1, [table];
    add.u32 %r4, %r1, %rd1;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %nsmid;
    mul.lo.u32 %r3, %r2, %r1;
    ret;"""
FEW = "    .reg .b32 %r<9>; // so few that the function is not built anew for their sake\n    .reg .b64 %rd<4>;\n"
TEXT = module(".global .b32 table[4];", kernel(BODY, registers=FEW))


@pytest.fixture(autouse=True)
def every_function_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "FEW_INSTRUCTIONS", 0)


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The opcodes whose operands are looked at, from now on."""
    found: list[str] = []
    misfits = OperandTypes.misfits

    def noted(self: OperandTypes, use: FormUse, match: Match) -> Iterator[Misfit]:
        found.append(use.opcode)
        return misfits(self, use, match)

    monkeypatch.setattr(OperandTypes, "misfits", noted)
    return found


def findings(text: str, past: IncrementalCache | None = None) -> list[tuple[str, int, str]]:
    report = check_source(Source(text.encode(), "k.ptx"), past=past)
    return [(f.rule.id, f.span.start, f.message) for f in report.findings]


def test_only_what_an_edit_changed_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    past = IncrementalCache()
    first = findings(TEXT, past)
    assert ("PX003", "add.u32") in {(rule, message.partition(":")[0]) for rule, _, message in first}
    states = {
        TEXT.replace("%r2, %r1;", "%r2, %r2;"): {"mul.lo.u32"},
        TEXT.replace("    mov.u32 %r2", "    sub.u32 %r5, %r4, %r3;\n    mov.u32 %r2"): {"sub.u32"},
        TEXT.replace("    mov.u32 %r3, %nsmid;\n", ""): {"mov.u32", "mul.lo.u32"},  # both begin with an m
        TEXT.replace("[table]", "[table + 4]"): {"ld.global.b32"},
        TEXT.replace("    ld.global", "    // a comment\n    ld.global"): set(),
    }
    for state, opcodes in states.items():
        findings(TEXT, past)
        with monkeypatch.context() as patch:
            found = asked(patch)
            again = findings(state, past)
        assert set(found) == opcodes, state
        assert again == findings(state)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".global .b32 table", ".shared .b32 table"),
        (".global .b32 table", ".global .b32 other"),
        (".reg .b64", ".reg .b32"),
    ],
)
def test_an_answer_that_depends_on_something_else_is_given_anew(old: str, new: str) -> None:
    past = IncrementalCache()
    edited = TEXT.replace(old, new)
    assert edited != TEXT
    for state in (TEXT, edited, TEXT):
        assert findings(state, past) == findings(state)
    assert findings(edited) != findings(TEXT)


def test_a_run_ended_within_a_question_leaves_the_answers_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    past = IncrementalCache()
    findings(TEXT, past)
    edited = TEXT.replace("%r2, %r1;", "%rd1, %r1;")
    with monkeypatch.context() as patch:
        patch.setattr(OperandTypes, "misfits", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            findings(edited, past)
    assert findings(edited, past) == findings(edited)
    assert findings(TEXT, past) == findings(TEXT)


def test_a_function_that_no_edit_is_expected_of_keeps_no_answers() -> None:
    once, edited = IncrementalCache(edited=False), IncrementalCache()
    for past in (once, edited):
        findings(TEXT, past)
    (kept,), (known,) = (past.builds.build(TEXT.encode())[1].functions for past in (once, edited))
    assert kept.answers is None
    assert known.answers
