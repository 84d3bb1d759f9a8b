"""A run that knows earlier states of a text says what a fresh run says, whatever was edited."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import inf
from random import Random
from time import monotonic, process_time
from typing import Any

import pytest

from benchmarks.edits import KINDS, edits
from tclint.findings.finding import FileReport
from tclint.findings.selection import Request, Selected
from tclint.ir import Function, Module, build, rebuild
from tclint.ir.functions import make_function
from tclint.ir.rebuild import Builds, same_program
from tclint.linting.cache import IncrementalCache
from tclint.linting.check import check_source
from tclint.syntax import TextChange, Tree, parse, reparse
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.support import HEADER, WGMMA, before_the_wait, built, checked_kernels, kernel, module

FIXTURES = ROOT / "fixtures"
SECONDS = 12
"""That the edits of this module may take."""


@pytest.fixture(autouse=True)
def every_function_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the functions of most kernels are; the ones here would be rebuilt after any edit."""
    monkeypatch.setattr(rebuild, "FEW_INSTRUCTIONS", 0)


def assert_same_function(one: Function, other: Function) -> None:
    for name, field in one.__dataclass_fields__.items():
        if field.compare and name not in ("instructions", "uses"):
            assert getattr(one, name) == getattr(other, name), name
    assert same_program(one, other)
    assert [(i.start, i.end) for i in one.instructions] == [(i.start, i.end) for i in other.instructions]
    uses = [[(u.opcode, u.match, u.sites, u.scalar, u.flow) for u in f.uses] for f in (one, other)]
    assert uses[0] == uses[1]


def assert_same_module(one: Module, other: Module) -> None:
    for name in one.__dataclass_fields__:
        if name != "functions":
            assert getattr(one, name) == getattr(other, name), name
    assert [f.name for f in one.functions] == [f.name for f in other.functions]
    for a, b in zip(one.functions, other.functions, strict=True):
        assert_same_function(a, b)


def said(report: FileReport) -> tuple[object, ...]:
    """All of a report but the object that holds the text."""
    return report.status, report.problems, report.findings, report.entries


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_findings_after_random_edits_are_those_of_a_fresh_run(seed: int) -> None:
    random = Random(seed)
    texts = sorted(FIXTURES.glob("*.ptx"))
    until, states = monotonic() + SECONDS / 4, 0
    while monotonic() < until:
        path = random.choice(texts)
        past, text = IncrementalCache(), path.read_bytes()
        check_source(Source(text, str(path)), past=past)
        for kind, state in islice(edits(text, random), 25):
            source = Source(state, str(path))
            past.until = 0.0  # a quick answer first, which must not change the complete one
            check_source(source, past=past)
            past.until = inf
            known = check_source(source, past=past)
            assert said(known) == said(check_source(source)), (path.name, kind, seed)
            _, kept = past.builds.build(state)
            assert_same_module(kept, build(parse(state), state))
            states += 1
    assert states > 20


def test_a_fix_that_is_at_no_instruction_moves_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fix of CV007 is at a directive, which is located in the text as it is now: no check runs again for it."""
    asked = checked_kernels(monkeypatch)
    text = (
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k()\n.maxntid 256\n{\n"
        "setmaxnreg.dec.sync.aligned.u32 24;\nret;\n}\n"
    )
    past = IncrementalCache()
    for state in (
        text,
        text.replace(".visible", "// one more line\n.visible"),
        text.replace(".max", " .max"),
    ):
        source = Source(state.encode(), "k.ptx")
        known, fresh = check_source(source, past=past), check_source(source)
        assert any(finding.fixes for finding in fresh.findings)
        assert said(known) == said(fresh)
    assert len(asked) == 1 + 3  # the three fresh runs


def test_a_rule_that_was_turned_off_is_not_in_the_quick_answer() -> None:
    text = module(before_the_wait("    add.f32 %f5, %f0, %f1;"))
    past = IncrementalCache()
    before = {finding.rule.id for finding in check_source(Source(text.encode(), "k.ptx"), past=past).findings}
    assert "WG001" in before
    past.until = 0.0
    edited = Source(text.replace("    ret;", "    nanosleep.u32 1;\n    ret;").encode(), "k.ptx")
    known = check_source(edited, Request(Selected(rules=Selected().on - {"WG001"})), past=past)
    assert past.owing
    assert "WG001" not in {finding.rule.id for finding in known.findings}


def test_every_kind_of_edit_is_tried() -> None:
    random, text = Random(1), module(before_the_wait("    add.f32 %f5, %f0, %f1;")).encode()
    seen = {kind for kind, state in islice(edits(text, random), 300) if kind == "undo" or state != text}
    assert seen == {*KINDS, "undo"}


FEW = "    .reg .b32 %r<9>; // so few registers that each one is made at once, however short the function\n"
TWO = module(
    kernel("    mov.b32 %r1, 1; // one\n    mov.b32 %r2, 2;\n    ret;", "first", registers=FEW),
    kernel("    mov.b32 %r3, 3;\n    bra out;\nout:\n    ret;", "second", registers=FEW),
)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("// one", "// another one", "+++ +++"),
        ("%r1, 1", "%r1, 17", "-++ +++"),
        ("    mov.b32 %r2, 2;\n", "", "++ +++"),
        ("%r3, 3;\n", "%r3, 3;\n    mov.b32 %r4, 4;\n", "+++ +--+"),
        ("bra out", "bra out /* of it */", "+++ +-+"),
        (".version 8.6", ".version 8.7", "--- ---"),
        (".version 8.6", ".version 8.6 // ", "+++ +++"),
    ],
)
def test_what_an_edit_leaves_alone_is_kept(old: str, new: str, kept: str) -> None:
    """Branches are made anew where numbers change."""
    builds = Builds()
    _, before = builds.build(TWO.encode())
    known = [i for f in before.functions for i in f.instructions]
    text = TWO.replace(old, new)
    _, after = builds.build(text.encode())
    assert_same_module(after, built(text))
    assert kept == " ".join(
        "".join("+" if any(i is k for k in known) else "-" for i in f.instructions) for f in after.functions
    )


LABELLED = kernel(
    "    setp.eq.u32 %p1, %r1, 0;\ntop:\n    .loc 1 1 1\n    add.u32 %r1, %r1, 1;\n    @%p1 bra out;\n"
    "    {\ninner:\n        add.u32 %r2, %r2, 1;\n        @%p1 bra inner;\n        bra top;\n    }\nmid:\n"
    "    .loc 1 2 1\nalso:\n    mov.u32 %r3, 3;\nout:\n    ret;\n",
    "labelled",
    registers=FEW + "    .reg .pred %p<3>;\n",
)


TABLED = LABELLED.replace(
    "also:\n", "also:\n    brx.idx %r1, list;\n    {\n    list: .branchtargets mid, also, out;\n    }\n"
).replace("    brx.idx", "    list: .branchtargets mid, also, out;\n    brx.idx")
"""With a table of the labels around which the tests edit."""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    @%p1 bra out;\n", ""),
        ("bra out", "bra mid"),
        ("bra out", "bra inner"),  # no label of this scope
        ("bra inner", "bra out"),
        ("bra inner", "bra also"),
        ("bra top", "ret"),
        ("    add.u32 %r1", "    @!%p1 bra top;\n    add.u32 %r1"),
        ("top:\n", "    mov.u32 %r4, 4;\ntop:\n"),
        ("top:\n", "top:\n    mov.u32 %r4, 4;\n"),
        ("    .loc 1 1 1\n", "    .loc 1 1 1\n    bra out;\n"),
        ("    .loc 1 2 1\n", "    mov.u32 %r4, 4;\n    .loc 1 2 1\n"),
        ("    .loc 1 2 1\n", "    .loc 1 2 1\n    mov.u32 %r4, 4;\n"),
        ("    mov.u32 %r3, 3;\n", ""),
        ("    mov.u32 %r3, 3;\nout:\n", "out:\n    mov.u32 %r3, 3;\n"),
        ("inner:\n", "inner:\n        mov.u32 %r4, 4;\n"),
        ("    {\n", "    {\n    mov.u32 %r4, 4;\n"),
        ("    }\n", "    mov.u32 %r4, 4;\n    }\n"),
        ("    }\n", "    }\n    mov.u32 %r4, 4;\n"),
        ("    ret;", "    mov.u32 %r4, 4;\n    ret;"),
        ("    @%p1 bra out", "    bra out"),
        ("        @%p1 bra inner", "        bra inner"),
        ("    add.u32 %r1", "    @%p1 add.u32 %r1"),
        ("mid:", "amid:"),
        ("also:", "so:"),
        ("also:\n", "    .loc 1 9 1\n    @%p1 bra mid;\nalso:\n"),
        ("mid:\n    .loc 1 2 1\n", "mid:\n    .loc 1 2 1\n    @%p1 bra also;\n    .loc 1 3 1\n"),
        (
            "mid:\n    .loc 1 2 1\n",
            "mid:\n    .loc 1 2 1\n    @%p1 bra mid;\n    .loc 1 3 1 , function_name $L, inlined_at 1 2 1\n",
        ),
        (
            "mid:\n    .loc 1 2 1\n",
            "mid:\n    .loc 1 3 1 , function_name $L, inlined_at 1 2 1\n    @%p1 bra mid;\n    .loc 1 2 1\n",
        ),
        ("    {\ninner:\n", "    {\ntop:\n"),
        ("    {\ninner:\n", "    bra inner;\n    {\ninner:\n"),  # before the brace is outside
        ("bra top;\n    }\n", "bra top;\n    }bra inner;\n"),
    ],
)
def test_branches_and_labels_around_an_edit_are_those_of_a_fresh_build(old: str, new: str) -> None:
    """Also where it is undone: then the beginning of a statement is deleted where one was inserted."""
    text = module(LABELLED)
    edited = text.replace(old, new)
    assert edited != text
    builds = Builds()
    for state in (text, edited, text, edited):
        assert_same_module(builds.build(state.encode())[1], built(state))
    builds = Builds()
    for state in (edited, text):
        assert_same_module(builds.build(state.encode())[1], built(state))


def test_elements_of_an_array_follow_its_declaration() -> None:
    """The offset of an element depends on a type that is declared outside of the function, or the edited lines."""
    body = "mov.u32 %r1, 0;\n" * 40 + "mov.u64 %rd1, table[3];\n" + "mov.u32 %r1, 0;\n" * 40
    states = [f"{HEADER}.global .{kind} table[8];\n{kernel(body)}" for kind in ("u32", "u8", "u64", "u32")]
    states += [states[0].replace("table[3]", element) for element in ("table[4]", "table", "table[0x10]")]
    builds = Builds()
    for state in states:
        assert_same_module(builds.build(state.encode())[1], built(state))


@pytest.mark.parametrize("text", [module(LABELLED), module(TABLED)])
@pytest.mark.parametrize(
    "start", [("bra top", "bra nowhere"), ("mid:", "amid:"), ("@%p1 bra inner", "bra also")]
)
def test_labels_after_random_lines_are_those_of_a_fresh_build(text: str, start: tuple[str, str]) -> None:
    """Lines are inserted anywhere and deleted again, in any order: branches, with labels and without, and locations."""
    random, builds = Random(str(start)), Builds()
    builds.build(text.encode())
    lines = text.replace(*start).splitlines(keepends=True)
    first, last = lines.index("{\n"), len(lines) - 3
    inserted = (
        *(
            f"    {guard}bra {name};\n"
            for guard in ("", "@%p1 ")
            for name in ("top", "mid", "inner", "gone", "out")
        ),
        *(f"    .loc 1 {number} 1\n" for number in (7, 8)),
        "    mov.u32 %r4, 4;\n",
    )
    states = [lines]
    for _ in range(60):
        lines = states[-1][:]
        if random.random() < 0.3 and len(states) > 1:
            lines = states[random.randrange(len(states))][:]
        elif random.random() < 0.3:
            at = random.randrange(first + 1, len(lines) - 2)
            if lines[at].lstrip()[:1] in "am@b":
                del lines[at]
        else:
            lines.insert(random.randrange(first + 2, last), random.choice(inserted))
        states.append(lines)
        state = "".join(lines)
        assert_same_module(builds.build(state.encode())[1], built(state))


@pytest.mark.parametrize("seed", range(6))
def test_edits_in_several_places_are_those_of_a_fresh_build(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so little context that a short text has several places, and that much is taken for what it is not."""
    monkeypatch.setattr("tclint.syntax.CONTEXT", 8 + 4 * seed)
    random, together = Random(seed), 0
    patch = rebuild._edited

    def counted(function: Function, *about: Any) -> Function | None:
        nonlocal together
        found = patch(function, *about)
        together += found is not None and len(about[-1]) > 1
        return found

    monkeypatch.setattr(rebuild, "_edited", counted)
    texts = [module(LABELLED, LABELLED.replace("labelled", "again")), module(TABLED), TWO]
    inserted = (
        *("mov.u32 %r4, 4;", "bra out;", "@%p1 bra top;", "// a word") * 4,
        ".loc 1 7 1",
        "{ mov.u32 %r4, 5; }",
    )
    for text in texts:
        builds, lines = Builds(), text.splitlines(keepends=True)
        builds.build(text.encode())
        known = [lines]
        for _ in range(40):
            lines = known[random.choice((0, -1))][:]
            for _ in range(random.randrange(2, 5)):
                at = random.randrange(4, len(lines) - 1)
                if random.random() < 0.8 and lines[at].lstrip()[:1] in tuple("am@bt"):
                    lines.insert(at, f"    {random.choice(inserted)}\n")
                elif lines[at].lstrip()[:1] in tuple("am@b"):
                    del lines[at]
            known.append(lines)
            state = "".join(lines)
            assert_same_module(builds.build(state.encode())[1], built(state))
    assert together > 5


def make_function_calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A function that counts the functions that were built anew since."""
    made = 0

    def counted(*about: Any) -> Any:
        nonlocal made
        made += 1
        return make_function(*about)

    monkeypatch.setattr(rebuild, "make_function", counted)
    return lambda: made


def test_statements_in_several_places_cost_no_building(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the fixes of several findings at once: also in two functions, around labels, and where they are undone."""
    made = make_function_calls(monkeypatch)
    wide = "".join(f"    add.u32 %r{n % 9}, %r{n * 4 % 9}, {n};\n" for n in range(40))
    body = LABELLED.replace("top:\n", f"{wide}top:\n").replace("mid:\n", f"{wide}mid:\n")
    text = module(body, body.replace("labelled", "again"))
    builds = Builds(edited=False)
    before = builds.build(text.encode())[1]
    wait = "    mov.u32 %r4, 4;\n"
    states = [
        text.replace("top:\n", f"top:\n{wait}").replace("out:\n", f"out:\n{wait}"),
        text.replace("mid:\n", f"{wait}mid:\n").replace("        @%p1 bra inner;\n", ""),
        text.replace("%r2, %r2, 1;\n", f"%r2, %r2, 1;\n{wait}"),
        text.replace("%r7, %r1, 7;\n", f"%r7, %r1, 7;\n{wait}{wait}"),
    ]
    assert len({text, *states}) == 5
    for state in (*states, text, *reversed(states)):
        assert_same_module(builds.build(state.encode())[1], built(state))
    assert made() == len(before.functions)


def test_a_label_that_is_missing_costs_no_building() -> None:
    """It is what a branch that was copied to another scope lacks, and stays until it is repaired."""
    text = module(LABELLED).replace("bra top", "bra nowhere")
    builds = Builds()
    _, first = builds.build(text.encode())
    other = text.replace("%r3, 3", "%r3, 4")
    _, second = builds.build(other.encode())
    assert_same_module(second, built(other))
    pairs = zip(first.functions[0].instructions, second.functions[0].instructions, strict=True)
    assert sum(a is not b for a, b in pairs) == 1


def test_an_error_that_is_undone_costs_no_building() -> None:
    """The statement with the error is read before the rest of the function is found to depend on it."""
    text = module(LABELLED)
    builds = Builds()
    _, first = builds.build(text.encode())
    edits = (
        ("add.u32 %r1, %r1", "add.u32 %unknown17, %r1"),
        ("bra out", "bra nowhere"),
        ("mov.u32 %r3,", "mov.u32 %r3}"),
    )
    for number, edit in enumerate(edits, 1):
        broken = text.replace(*edit)
        assert_same_module(builds.build(broken.encode())[1], built(broken))
        _, again = builds.build(text.encode())
        assert_same_module(again, built(text))
        pairs = zip(first.functions[0].instructions, again.functions[0].instructions, strict=True)
        assert sum(a is not b for a, b in pairs) <= number, edit  # the statements of the edits themselves


def test_a_text_is_not_parsed_from_scratch_once_its_errors_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when the edit that made them is undone, nor when another one completes it; and no function is built anew."""
    parsed: list[bool] = []

    def counted(text: bytes, old_tree: Tree | None = None) -> Tree:
        parsed.append(old_tree is None)
        return parse(text, old_tree)

    made, builds = make_function_calls(monkeypatch), Builds()
    for broken in ("/*", "{", "}", '"', ";{"):
        text = module(LABELLED, LABELLED.replace("labelled", "again"))
        builds.build(text.encode())
        builds.build(text.replace("add.u32", f"{broken} add.u32").encode())
        before = made()
        with monkeypatch.context() as patch:
            patch.setattr("tclint.syntax.parse", counted)
            _, again = builds.build(text.encode())
        assert True not in parsed
        parsed.clear()
        assert made() == before
        assert_same_module(again, built(text))

        builds.build(text.replace("%r3, 3;", "%r3, 3").encode())
        with monkeypatch.context() as patch:
            patch.setattr("tclint.syntax.parse", counted)
            text = text.replace("%r3, 3;", "%r3, 33;")
            _, completed = builds.build(text.encode())
        assert parsed == [False]
        assert_same_module(completed, built(text))
        parsed.clear()


@pytest.mark.parametrize("edited", [True, False])
def test_small_functions_and_those_without_a_tree_are_those_of_a_fresh_build(
    edited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "FEW_INSTRUCTIONS", 4)
    text = module(LABELLED, kernel("    mov.b32 %r1, unknown;\n    ret;", "small"))
    builds = Builds(edited=edited)
    for state in (
        text,
        text.replace("%r3, 3", "%r3, 33"),
        text,
        text.replace("unknown", "known"),
        text.replace("top:", "   top:"),
        text,
    ):
        tree, found = builds.build(state.encode())
        assert_same_module(found, built(state))
        assert str(tree.root_node) == str(parse(state.encode()).root_node)
        assert_same_module(builds.build(state.encode())[1], built(state))


def test_a_branch_that_changes_is_all_that_is_made_anew() -> None:
    text = module(LABELLED)
    builds = Builds()
    _, before = builds.build(text.encode())
    known = {id(instruction) for instruction in before.functions[0].instructions}
    _, after = builds.build(text.replace("@%p1 bra out", "bra mid").encode())
    assert sum(id(instruction) not in known for instruction in after.functions[0].instructions) == 1


def test_the_last_statement_of_a_block_that_is_deleted_costs_no_building(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in inline assembly, whose blocks have few statements: what begins after the edit is the end of the block."""
    made, builds = make_function_calls(monkeypatch), Builds()
    text = module(LABELLED.replace("    mov.u32 %r3, 3;\n", "    {\n    mov.u32 %r3, 3;\n}\n"))
    states = (text, text.replace("    mov.u32 %r3, 3;\n", ""), text, text.replace("mov.u32 %r3, 3;\n}", "}"))
    assert len(set(states)) == 3
    for state in states:
        assert_same_module(builds.build(state.encode())[1], built(state))
    assert made() == 1


def test_an_undone_edit_costs_no_building() -> None:
    """As where fixes are tried one after the other, each in the same text."""
    builds = Builds()
    _, first = builds.build(TWO.encode())
    known = [i for f in first.functions for i in f.instructions]
    states = [
        TWO.replace(*edit)
        for edit in (
            ("out:\n", "out:\nhere:\n"),
            ("%r3, 3;\n", "%r3, 3;\n    mov.b32 %r4, 4;\n"),
            ("mov.b32 %r3, 3;", "{ mov.b32 %r3, 3; }"),
            ("bra out", "@%p1 bra out"),
            ("first", "another"),
            ("%r2, 2;", "%r2, 2"),
            ("second", "third"),
        )
    ]
    for text in (states[0], states[2], states[0]):
        assert_same_module(builds.build(text.encode())[1], built(text))
        _, again = builds.build(TWO.encode())
        assert_same_module(again, built(TWO))
        kept = [i for f in again.functions for i in f.instructions if any(i is k for k in known)]
        assert len(kept) >= 6, text
    random = Random(1)
    for _ in range(60):
        text = random.choice([TWO, *states])
        assert_same_module(builds.build(text.encode())[1], built(text))


@pytest.mark.parametrize("lines", [0, 90])
def test_the_ranges_of_a_kernel_that_moved_are_those_of_a_fresh_build(lines: int) -> None:
    """The quick fix of an undeclared register changes the kernel that has it, and no other one."""
    moved = kernel(
        "    mov.b32 %a5, 1;\n    ret;\n    .reg .b32 %b<2>;\n    mov.b32 %b2, 1;", "moved", registers=""
    )
    other = kernel("    ret;", "other", registers="    .reg .b32 %a<2>;\n")
    before, after = (module("// a line\n" * count, moved, other) for count in (30, lines))
    builds = Builds()
    builds.build(before.encode())
    _, found = builds.build(after.encode())
    assert_same_module(found, built(after))
    assert [t.declared and t.declared.needed for t in found.functions[0].errors] == [None, 3]


def test_prototypes_between_statements_move_with_their_function() -> None:
    first = kernel("    ret;\n    .func f();\n    ret;", "first")
    second = kernel("    mov.b32 %r1, 1;\n    .func g();\n    call f;\n    call g;\n    ret;", "second")
    text = module("// a line\n", first, second)
    builds = Builds()
    for state in (text, text.replace("// a", "// no"), text.replace("b32 %r1, 1", "b32 %r1, 12345")):
        _, found = builds.build(state.encode())
        assert [p.name for p in found.prototypes] == ["f", "g"]
        assert_same_module(found, built(state))


@pytest.mark.parametrize(
    ("edit", "runs"),
    [
        (("// early", "// late, or so"), 0),
        (("    add.f32 %f5", "\n\n  add.f32 %f5"), 0),
        (("add.f32 %f5, %f0, %f1", "add.f32 %f5, %f2, %f1"), 1),
        (("entry other", "entry third"), 2),
        (("sm_90a", "sm_100a"), 2),
    ],
)
def test_checks_run_where_the_program_changed(
    edit: tuple[str, str], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = checked_kernels(monkeypatch)
    text = module(before_the_wait("    add.f32 %f5, %f0, %f1; // early"), kernel("    ret;", "other"))
    text = text.replace("sm_100a", "sm_90a")
    past = IncrementalCache()
    check_source(Source(text.encode(), "k.ptx"), past=past)
    assert len(asked) == 2
    after = Source(text.replace(*edit).encode(), "k.ptx")
    known = check_source(after, past=past)
    assert len(asked) == 2 + runs
    assert said(known) == said(check_source(after))
    asked.clear()
    for state in (Source(text.encode(), "k.ptx"), after):  # undone, and done again
        assert said(check_source(state, past=past)) == said(check_source(state))
    forgotten = 2 if "entry" in edit[0] else 0  # a name that is gone is forgotten
    assert len(asked) == 4 + forgotten  # the others are those of the fresh runs


@pytest.mark.parametrize(
    ("edit", "runs"),
    [
        (("1; // leaf", "2;"), "leaf middle caller"),
        (("3; // middle", "4;"), "middle caller"),
        (("5; // other", "6;"), "other"),
    ],
)
def test_checks_run_where_a_function_that_is_called_changed(
    edit: tuple[str, str], runs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuDNN's modules have kernels that all call one function of the compiler: a change in one of them is not about the others."""
    asked = checked_kernels(monkeypatch)
    text = module(
        ".extern .func outside;",
        ".func leaf { .reg .b32 %r<2>; mov.u32 %r1, 1; // leaf\nret; }",
        ".func middle { .reg .b32 %r<2>; call leaf; mov.u32 %r1, 3; // middle\nret; }",
        kernel("    call middle;\n    call outside;\n    ret;", "caller"),
        kernel("    call outside;\n    mov.u32 %r1, 5; // other\n    ret;", "other"),
    )
    past = IncrementalCache()
    check_source(Source(text.encode(), "k.ptx"), past=past)
    assert sorted(asked) == ["caller", "leaf", "middle", "other"]
    asked.clear()
    after = Source(text.replace(*edit).encode(), "k.ptx")
    known = check_source(after, past=past)
    assert asked == runs.split()
    assert said(known) == said(check_source(after))


def test_a_function_that_is_gone_is_forgotten() -> None:
    past = IncrementalCache()
    for n in range(5):
        check_source(Source(module(kernel("    ret;", f"k{n}")).encode(), "k.ptx"), past=past)
    assert list(past._checked) == [("k4", 0)]
    check_source(Source(module(kernel("    ret", "k4")).encode(), "k.ptx"), past=past)
    assert list(past._checked) == [("k4", 0)]


def test_settings_are_part_of_what_is_known() -> None:
    source = Source(module(before_the_wait("    add.f32 %f5, %f0, %f1;")).encode(), "k.ptx")
    past = IncrementalCache()
    assert any(f.rule.id == "WG001" for f in check_source(source, past=past).findings)
    off = Selected(rules=frozenset(("PX001",)))
    assert not check_source(source, Request(off), past=past).findings
    assert any(f.rule.id == "WG001" for f in check_source(source, past=past).findings)


@pytest.mark.parametrize("other", [Request(Selected(strict=True)), Request(dependent=True)])
def test_what_only_a_setting_finds_is_not_known_from_a_run_without_it(other: Request) -> None:
    store = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r8};"
    multiply = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd0, %rd1, %r7, %p0;"
    pending = f"{store}\nbar.sync 0;\ntcgen05.wait::st.sync.aligned;\n{multiply}"
    early = "ld.global.u32 %r5, [%rd2];\ngriddepcontrol.wait;\nst.global.u32 [%rd2], %r5;"
    setup = "mov.u32 %r0, %tid.x;\nsetp.eq.u32 %p1, %r0, 0;\nld.param.u64 %rd2, [pointer];"
    text = module(kernel(f"{setup}\n{pending}\n{early}\nret;", directives=".reqntid 128"))
    source, past = Source(text.encode(), "k.ptx"), IncrementalCache()
    without = check_source(source, past=past)
    known = check_source(source, other, past=past)
    assert said(known) != said(without)
    assert said(known) == said(check_source(source, other))
    assert said(check_source(source, past=past)) == said(without)


def test_a_run_that_was_ended_can_be_followed_by_others() -> None:
    text = module(before_the_wait("    add.f32 %f5, %f0, %f1;")).encode()
    past, stages = IncrementalCache(), 0

    def stop(stage: str, seconds: float) -> None:
        nonlocal stages
        stages += 1
        if stages % 3 == 0:
            raise KeyboardInterrupt

    random = Random(5)
    for _, state in islice(edits(text, random), 60):
        source = Source(state, "k.ptx")
        for _ in range(2):
            try:
                check_source(source, clock=stop, past=past)
            except KeyboardInterrupt:
                continue
        assert said(check_source(source, past=past)) == said(check_source(source))


def test_the_program_is_more_than_its_operands_compare() -> None:
    """Operands are tuples, and 0.0 is -0.0 for ==."""
    texts = ["mov.f32 %f1, 0f00000000;", "mov.f32 %f1, 0f80000000;", "mov.f32 %f1, %f2;", "mov.f32 %f2, %f2;"]
    made = [built(module(kernel(f"    {text}\n    ret;"))).functions[0] for text in texts]
    for i, one in enumerate(made):
        assert [same_program(one, other) for other in made] == [i == j for j in range(len(made))]


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (b"", b"", (0, 0, 0)), (b"abc", b"abc", (3, 3, 3)), (b"abc", b"abxc", (2, 2, 3)), (b"aaa", b"aa", (2, 3, 2)),
        (b"", b"x", (0, 0, 1)), (b"abab", b"ab", (2, 4, 2)),
    ],
)  # fmt: skip
def test_the_smallest_change(old: bytes, new: bytes, change: tuple[int, int, int]) -> None:
    found = TextChange.between(old, new)
    assert (found.start, found.old_end, found.new_end) == change
    assert old[: found.start] + new[found.start : found.new_end] + old[found.old_end :] == new


@pytest.mark.parametrize("seed", range(3))
def test_changes_in_several_places_make_the_new_text(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random, several = Random(seed), 0
    for _ in range(300):
        monkeypatch.setattr("tclint.syntax.CONTEXT", random.choice([1, 3, 9]))
        old = bytes(random.choice(b"aab;") for _ in range(random.randrange(120)))
        new = old
        for _ in range(random.randrange(6)):
            at = random.randrange(len(new) + 1)
            new = new[:at] + random.choice([b"", b"xy", b"a;", b"baab;b"]) + new[at + random.randrange(4) :]
        changes = TextChange.all_between(old, new)
        text, end = old, 0
        for change in changes:
            assert change.start >= end, "in order"
            assert change.start < max(change.old_end, change.new_end) or old == new
            text, end = (
                text[: change.start] + new[change.start : change.new_end] + text[change.old_end :],
                change.new_end,
            )
        assert text == new
        several += len(changes) > 1
    assert several > 50


def test_the_tree_after_a_change_is_that_of_the_text() -> None:
    random = Random(3)
    text = module(kernel(f"    {WGMMA}\n    {{\n    mov.b32 %r1, 1;\n    }}\n    ret;")).encode()
    tree, before = parse(text), text
    sound: tuple[Tree, bytes] | None = None
    resumed = 0
    for _, state in islice(edits(text, random), 300):
        if not tree.root_node.has_error:
            sound = tree.copy(), before
        elif sound is not None and sound[1] != before:
            resumed += 1
        tree, _ = reparse(tree, before, state, TextChange.all_between(before, state), sound)
        assert str(tree.root_node) == str(parse(state).root_node)
        before = state
    assert resumed > 20


def test_a_brace_in_a_long_table_costs_no_more_than_the_table() -> None:
    """What follows the brace looks like one declaration of many names; looked through for each, it takes 15 seconds."""
    table = ", ".join("7" * 20 for _ in range(40_000))
    broken = module(f".global .b8 table[40000] = {{1, 2}}, {table}}};").encode()
    began = process_time()
    build(parse(broken), broken)
    assert process_time() - began < 5


def test_one_run_keeps_nothing_that_small_functions_were_built_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "FEW_INSTRUCTIONS", 32)
    text = b".version 8.7\n.target sm_90a\n.address_size 64\n.func f()\n{\nret;\n}\n"
    once, edited = Builds(edited=False), Builds()
    for builds in (once, edited):
        builds.build(text)
    assert not once._made
    assert edited._made
    assert once.build(text.replace(b"ret", b"trap"))[1].functions[0].instructions[0].opcode == "trap"
