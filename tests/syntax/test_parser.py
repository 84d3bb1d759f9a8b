"""The grammar: its corpus, what it does with broken text, and what it says about it."""

from __future__ import annotations

import filecmp
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tclint.syntax import Node, SyntaxProblem, parse, problems
from tests.tools.grammar import FIXTURES, SYNTAX, tree_sitter_command

HEADER = b".version 8.0\n.target sm_90a\n.address_size 64\n"
BEFORE = HEADER + b".visible .entry before() {\n mov.b32 %r9, 9;\n ret;\n}\n"
AFTER = b".visible .entry after() {\n mov.b32 %r8, 8;\n ret;\n}\n"


def corpus() -> list[tuple[str, str, str]]:
    """Name, text and expected tree of each test, in tree-sitter's own format for them."""
    found = []
    for path in sorted((SYNTAX / "test" / "corpus").glob("*.txt")):
        parts = re.split(r"^={3,}\n(.+)\n={3,}\n", path.read_text("utf-8"), flags=re.MULTILINE)
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            text, tree = re.split(r"^-{3,}\n", body, flags=re.MULTILINE)
            found.append((name, text, tree))
    return found


@pytest.mark.parametrize(("text", "expected"), [pytest.param(t, e, id=n) for n, t, e in corpus()])
def test_corpus(text: str, expected: str) -> None:
    tree = re.sub(r"\s+", " ", expected).replace(" )", ")").strip()
    assert str(parse(text.encode()).root_node) == tree


def test_corpus_is_read() -> None:
    assert len(corpus()) > 30


def test_committed_parser_is_what_the_grammar_generates(tmp_path: Path) -> None:
    cli = tree_sitter_command()
    for name in ("grammar.js", "tree-sitter.json"):
        shutil.copy(SYNTAX / name, tmp_path)
    subprocess.run([cli, "generate", "--abi", "15"], cwd=tmp_path, check=True)
    made = [str(p.relative_to(tmp_path)) for p in (tmp_path / "src").rglob("*") if p.is_file()]
    assert len(made) >= 6
    _, different, missing = filecmp.cmpfiles(tmp_path, SYNTAX, made, shallow=False)
    assert (different, missing) == ([], [])


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.name)
def test_fixtures_have_no_errors(path: Path) -> None:
    tree = parse(path.read_bytes())
    assert problems(tree) == []
    assert not tree.root_node.has_error


# ---- an error stays in its statement ----


def functions(text: bytes) -> dict[str, list[str]]:
    """The opcodes of the statements of each function that were read without an error."""
    root = parse(text).root_node
    found = {}
    for node in root.children:
        body = node.child_by_field_name("body") if node.type == "function" else None
        if body is not None:
            found[words(node.child_by_field_name("name"))] = [
                words(i.child_by_field_name("opcode"))
                for i in body.children
                if i.type == "instruction" and not i.has_error
            ]
    return found


def words(node: Node | None) -> str:
    assert node is not None
    assert node.text is not None
    return node.text.decode()


BROKEN_STATEMENTS = {
    "no semicolon": "add.s32 %r1, %r2, %r3",
    "no comma": "add.s32 %r1 %r2, %r3;",
    "two commas": "add.s32 %r1,, %r2, %r3;",
    "last comma": "add.s32 %r1, %r2,;",
    "open address": "ld.global.b32 %r1, [%rd1;",
    "closed address": "ld.global.b32 %r1, %rd1];",
    "open vector": "ld.global.v2.b32 {%r1, %r2, [%rd1];",
    "open group": "call (a, f, (b);",
    "characters": "~~ ^^ ?? ;",
    "bytes": "\x01\x02 !!",
    "string": '.pragma "nounroll;',
    "label": "L1 : :",
    "colon": ":",
    "semicolons": ";;",
    "opcode with a dot": "add. %r1, %r2;",
    "range": ".reg .b32 %r<;",
    "no name": ".reg .b32 %r1, ;",
    "no type": ".reg %r1;",
    "number": "123;",
    "words": "this is not ptx at all;",
    "location": ".loc 1 2",
    "short float": "mov.f32 %f1, 0f3F80000;",
}


@pytest.mark.parametrize("statement", BROKEN_STATEMENTS.values(), ids=BROKEN_STATEMENTS)
def test_error_leaves_the_neighbours(statement: str) -> None:
    body = f" mov.b32 %r1, 1;\n {statement}\n cvta.u64 %r2, 2;\n bra L;\nL:\n ret;\n"
    text = BEFORE + b".entry broken() {\n" + body.encode() + b"}\n" + AFTER
    found = functions(text)
    assert found["before"] == ["mov.b32", "ret"]
    assert found["after"] == ["mov.b32", "ret"]
    assert found["broken"][0] == "mov.b32"
    assert found["broken"][-3:] == ["cvta.u64", "bra", "ret"]
    start = text.index(statement.encode())
    reported = problems(parse(text))
    assert reported
    assert all(start <= p.start_byte <= p.end_byte <= start + len(statement) + 1 for p in reported)


@pytest.mark.parametrize("opened", ["", "{ ", "{ { ", "{ " * 50])
def test_missing_braces_leave_the_next_function(opened: str) -> None:
    text = BEFORE + b".entry broken() {\n mov.b32 %r1, 1;\n" + opened.encode() + b" ret;\n" + AFTER
    found = functions(text)
    assert list(found) == ["before", "broken", "after"]
    assert found["after"] == ["mov.b32", "ret"]
    (problem,) = problems(parse(text))
    assert "unbalanced `{` in `broken`" in problem.message
    assert text[problem.start_byte : problem.end_byte] == b"{"


def test_truncated_at_every_byte_keeps_what_was_whole() -> None:
    """A cut file is never clean, unless the cut falls between two items, and the functions before it stay."""
    text = (
        BEFORE
        + b".entry cut(.param .b32 a) .maxntid 32 {\n{ @%p1 mov.b32 {%r1, _}, [a+4]; } // end\n ret;\n}"
    )
    for end in range(len(BEFORE) + 2, len(text)):
        tree = parse(text[:end])
        assert functions(text[:end])["before"] == ["mov.b32", "ret"]
        assert problems(tree), text[:end]


# ---- messages ----


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        (".entry k() {\n add.s32 %r1, %r2\n mov.b32 %r1, 0;\n}", "", "expected `;` after `add.s32 %r1, %r2`"),
        (".entry k() { ld.b32 %r1, [%rd1; }", "", "expected `]` after `[%rd1`"),
        (".entry k() { st.b32 [%rd1, %r1; }", "", "expected `]` after `[%rd1`"),
        (
            ".entry k() { st.v4.b32 [%rd1], {%r1 %r2, %r3, %r4}; }",
            "%r2",
            "unexpected `%r2`: expected `,` or `}` after `%r1`",
        ),
        (".entry k() { ld.b32 %r1, %rd1]; }", "]", "unbalanced `]`"),
        (".entry k() { mov.u32 %r1 %tid.x; }", "%r1", "expected `,` after `%r1`"),
        (".entry k() { cp.async.ca [x] [%rd1], 16; }", "[x]", "expected `,` after `[x]`"),
        (".entry k() { ld.v2.b32 {%r1, %r2}[x]; }", "{%r1, %r2}", "expected `,` after `{%r1, %r2}`"),
        (".entry k() { add.s32 %r1, , %r3; }", ",", "expected an operand before `,`"),
        (".entry k() { bar.sync 0 // x\nret; }", "", "expected `;` after `bar.sync 0`"),
        (".entry k() { shl.b32 %r1, %r2, -1\nret; }", "", "expected `;` after `shl.b32 %r1, %r2, -1`"),
        (
            ".entry k() { mul.f32 %f1, %f2, 0f3F800000 // x\nret; }",
            "",
            "expected `;` after `mul.f32 %f1, %f2, 0f3F800000`",
        ),
        (
            ".entry k() { shl.b32 %r1, %r2, 4 4\n, ret; }",
            "4",
            "unexpected `4`: expected `,` or `;` after `4`",
        ),
        (
            ".entry k() { $L\nadd.s32 %r1, 2; }",
            "$L",
            "expected `:` after label `$L`, or `;` after an instruction",
        ),
        (
            ".entry k() { mov.u32 %r1, 08; }",
            "08",
            "`08` is neither a name nor a constant: a constant that begins with 0 is octal",
        ),
        (".entry k() { mov.u32 %r1, 12abc; }", "12abc", "`12abc` is neither a name nor a constant"),
        (".entry k() { .reg x; ret; }", ".reg", "expected a type after `.reg`"),
        (".entry k() { .reg .b32 %r<>; ret; }", "<>", "expected a number between `<` and `>`"),
        (
            ".visible .entri k(\n.param .u64 p)\n{\nret; }",
            ".entri",
            "unknown directive `.entri`; did you mean `.entry`?",
        ),
        ("version 8.0\n.target sm_90", "version", "unknown directive `version`; did you mean `.version`?"),
        (".entry k(.param .u64 p .param .u64 q) { ret; }", "", "expected `,` after `.param .u64 p`"),
        (
            ".entry k(.param .u64 p,\n.loc 1 2 3\n.param .u64 q) { ret; }",
            ".loc 1 2 3",
            "unexpected `.loc 1 2 3`",
        ),
        (".entry k() { ret\nL: bra L; }", "", "expected `;` after `ret`"),
        (".entry k() { ret\nadd.u32 %r1, %r2, %r3; }", "", "expected `;` after `ret`"),
        (
            ".entry k() { add.u32 %r1, %r2, %r3\nst.u32 [%rd1], %r1; }",
            "",
            "expected `;` after `add.u32 %r1, %r2, %r3`",
        ),
        (
            ".entry k() { cp.async.commit_group\n.loc 1 9 5\nadd.u32 %r1, %r2, %r3; }",
            "",
            "expected `;` after `cp.async.commit_group`",
        ),
        (
            ".entry k() {\n%p1 st.global.v4.b32 [%rd1+4], { %r1, %r2, %r3, %r4 };\nret; }",
            "",
            "expected `;` after `%p1 st.global`",
        ),
        (".entry k() { bra L\nL: ret; }", "", "expected `;` after `bra L`"),
        (".entry k() { ret\n$L: @%p1 bra $L; }", "", "expected `;` after `ret`"),
        (".entry k() { .reg .b32 %r1\nret; }", "", "expected `;` after `.reg .b32 %r1`"),
        (".entry k() { add.u32 %r1, %r2, ; ret; }", ",", "expected an operand after `,`"),
        (".entry k() { .regx .b32 %r<3>; ret; }", ".regx", "unknown directive `.regx`; did you mean `.reg`?"),
        (
            ".entry k(.param .u64 p,\n.parm .u64 q) { ret; }",
            ".parm",
            "unknown directive `.parm`; did you mean `.param`?",
        ),
        (
            ".entry k()\n.reg .b32 %r<4>;\nmov.b32 %r1, 0; }",
            ".reg .b32 %r<4>;\nmov.b32 %r1, 0; }",
            "expected `{` before `.reg`: the body of `k` has not begun",
        ),
        (".entry k() { add.s32 %r1 %r2, %r3; }", "%r2", "unexpected `%r2`: expected `,` or `;` after `%r1`"),
        (".entry k() { .reg .b32 %r1, ; }", ",", "unexpected `,`"),
        (".entry k() { .loc 1 2\n ret; }", "", "expected an integer after `.loc 1 2`"),
        (
            ".entry k() { ret;",
            "{",
            "unbalanced `{` in `k`: its body is not closed before the end of the file",
        ),
        (
            ".entry k() {{ ret;\n.entry b() {}",
            "{",
            "unbalanced `{` in `k`: 2 nested blocks are not closed before what follows it",
        ),
        *(
            (
                f"{head} {{ ret; {statement}",
                "{",
                "unbalanced `{` in `k`: its body is not closed before the end of the file",
            )
            for head in (".entry k()", ".func (.reg .b32 %o) k(.reg .b32 %i)")
            for statement in (
                "mov.b32 %r1",
                "@%p1",
                "L",
                "call (%r1), f, (%r2",
                ".loc 1 2",
                "mov.b32 %r1 // end\n",
            )
        ),
        (
            ".entry k(.param .b32 a",
            "(",
            "unbalanced `(` in `k`: its head is not closed before the end of the file",
        ),
        (".global .b8 x[4] = {1, 2", "{", "unbalanced `{`"),
        (
            ".entry k() { ret; } }\n",
            "}",
            "unbalanced `}`",
        ),
        (".entry k() { ret; /* and { so on }", "/*", "the comment that starts here has no `*/`"),
        ('.file 1 "a.cu\n.file 2 "b.cu"', '"', "the string that starts here has no end on its line"),
        ("\x01\x02\x03", "\x01\x02\x03", "unexpected `\\x01\\x02\\x03`"),
    ],
)
def test_message(text: str, marked: str, message: str) -> None:
    (problem,) = problems(parse(text.encode()))
    assert problem.message == message
    assert text[problem.start_byte : problem.end_byte] == marked


def test_instruction_without_semicolon_before_a_location() -> None:
    text = b".entry k() { add.s64 %rd1, %rd2, %rd3\n.loc 1 92 44\nret; }"
    first = problems(parse(text))[0]
    assert first.message == "expected `;` after `add.s64 %rd1, %rd2, %rd3`"
    assert text[: first.start_byte].endswith(b"%rd3")


def test_character_outside_ascii() -> None:
    text = ".entry k() { mov.u32 %r1ü, 2; }".encode()
    (problem,) = problems(parse(text))
    name = "LATIN SMALL LETTER U WITH DIAERESIS"
    assert problem.message == f"unexpected character `ü` (U+00FC {name}), which is not ASCII"
    assert text[problem.start_byte : problem.end_byte] == "ü".encode()


def test_what_else_is_wrong_in_a_function_that_is_cut() -> None:
    text = BEFORE + b"/* so */ .visible .entry k() {\n add.s32 %r1 %r2, %r3;\n{ mov.b32 {%r1, %r2"
    cut, other = problems(parse(text))
    assert cut.message == "unbalanced `{` in `k`: its body is not closed before the end of the file"
    assert text[cut.function :].startswith(b".entry k()")
    assert other.message.startswith("unexpected `%r2`")
    assert other.function == -1


def test_statement_after_one_brace_too_many() -> None:
    first, *_ = problems(parse(b".entry k() { ret; }\n add.s32 %r1, %r2, %r3;\n}"))
    assert first.message.endswith("outside a function, which an unbalanced `}` may have closed")


def test_many_problems_are_counted() -> None:
    found = problems(parse(HEADER + b".entry k() {" + b"add.s32 %r1,, %r3;\n" * 100 + b"}"))
    assert len(found) == 21
    assert found[-1].message == "and 80 more syntax errors"
    assert [p.start_byte for p in found] == sorted(p.start_byte for p in found)


def test_empty_and_comments_only_are_clean() -> None:
    for text in (
        b"",
        b"\n\n",
        b"// nothing",
        b"/* nothing */",
        b"\xef\xbb\xbf.version 8.0\r\n.target sm_90\r\n",
    ):
        assert problems(parse(text)) == []


def test_trailing_nul_bytes_are_ignored() -> None:
    assert problems(parse(BEFORE + b"\0\0")) == []
    assert problems(parse(b"\0" + BEFORE)) != []


def test_edited_tree() -> None:
    """Parsing again after an edit gives the tree of a fresh parse; a problem needs no text of the old tree."""
    old = BEFORE + AFTER
    at = old.index(b"9;")
    new = old[:at] + b"99;" + old[at + 2 :]
    tree = parse(old)
    tree.edit(at, at + 1, at + 2, (4, at), (4, at + 1), (4, at + 2))
    again = parse(new, tree)
    assert str(again.root_node) == str(parse(new).root_node)
    assert functions(new)["after"] == ["mov.b32", "ret"]


# ---- no input is slow ----

KERNEL = HEADER + b".entry k() { "
SHAPES: dict[str, Callable[[int], bytes]] = {
    "open braces": lambda n: KERNEL + b"{" * n,
    "balanced braces": lambda n: KERNEL + b"{" * n + b"}" * n + b"}",
    "braces outside": lambda n: b"{" * n,
    "closing braces": lambda n: b"}" * n,
    "open groups": lambda n: KERNEL + b"add (" * n,
    "open addresses": lambda n: KERNEL + b"add " + b"[" * n,
    "minus signs": lambda n: KERNEL + b"add " + b"-" * n,
    "one name": lambda n: KERNEL + b"a" * 100 * n,
    "one line": lambda n: KERNEL + b"add.s32 %r1, %r2, %r3; " * n + b"}",
    "one vector": lambda n: KERNEL + b"add {" + b"%r1, " * n + b"0}; }",
    "no semicolons": lambda n: KERNEL + b"add.s32 %r1, %r2, %r3\n" * n + b"}",
    "errors": lambda n: KERNEL + b"add.s32 %r1,, %r3;\n" * n + b"}",
    "open comments": lambda n: KERNEL + b"/* " * n,
    "open strings": lambda n: KERNEL + b'" ' * n,
    "open sections": lambda n: HEADER + b".section .x { " * n,
    "statements outside": lambda n: HEADER + b"add.s32 %r1, %r2, %r3;\n" * n,
    "numbers": lambda n: HEADER + b".global .b8 a[] = {" + b"1, " * n + b"1};",
    "bytes": lambda n: random.Random(1).randbytes(10 * n),
    "bytes in a kernel": lambda n: KERNEL + random.Random(1).randbytes(10 * n),
}


def seconds(text: bytes) -> float:
    best = 1e9
    for _ in range(2):
        start = time.process_time()
        problems(parse(text))
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_time_is_linear(shape: Callable[[int], bytes]) -> None:
    """Eight times the text takes well below the 64 times of a quadratic behaviour."""
    small, large = seconds(shape(625)), seconds(shape(5_000))
    assert large < 24 * max(small, 0.002)


def test_problem_is_immutable() -> None:
    problem = SyntaxProblem(1, 2, "x")
    with pytest.raises(AttributeError):
        problem.start_byte = 3  # type: ignore[misc]
