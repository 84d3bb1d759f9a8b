"""The layout: what it is, that it changes white space only, and that a text in it stays as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tclint.config.config import Config
from tclint.driver.one import lint
from tclint.syntax.source import Source, SourceError
from tclint.text.layout import formatted, tokens
from tclint.text.normal import without_debug_data
from tests.tools.project import ROOT
from tests.tools.rewriting import Identity, identities

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
FIXTURES = sorted((ROOT / "fixtures").glob("*.ptx"))


def laid_out(text: str) -> str:
    """The layout of *text*, which stays as it is if it is laid out again."""
    once = formatted(text.encode())
    assert formatted(once) == once
    assert b"".join(once.split()) == b"".join(text.encode().split())
    return once.decode()


def body(statements: str) -> str:
    """The lines of the body of a kernel with *statements*."""
    text = laid_out(f"{HEAD}.entry k()\n{{\n{statements}\n}}\n")
    return text.partition("\n{\n")[2].removesuffix("}\n")


@pytest.mark.parametrize(
    ("statements", "lines"),
    [
        ("ld.global.u32   %r1 , [ %rd1 + 8 ];", "\tld.global.u32 \t%r1, [%rd1+8];\n"),
        ("ld .global\t.u32 %r1,[%rd1+-8];", "\tld.global.u32 \t%r1, [%rd1+-8];\n"),
        ("@ ! %p1 bra L1; L1: ret;", "\t@!%p1 bra \tL1;\nL1:\n\tret;\n"),
        (
            "shfl.sync.idx.b32 %r1 | %p1, %r2, 0, 31, - 1;",
            "\tshfl.sync.idx.b32 \t%r1|%p1, %r2, 0, 31, - 1;\n",
        ),
        ("mov.u32 %r1, %tid .x;", "\tmov.u32 \t%r1, %tid.x;\n"),
        ("mov.u32 %r1, (1<<4)|3;", "\tmov.u32 \t%r1, (1 << 4)|3;\n"),
        ("mov.u32 %r1, 7 % 3;", "\tmov.u32 \t%r1, 7 % 3;\n"),
        ("mov.b64 %rd1,{%r1,\n%r2} ;", "\tmov.b64 \t%rd1, {%r1, %r2};\n"),
        (".reg .b32 %r<4>,x; .reg .pred p;", "\t.reg .b32 \t%r<4>, x;\n\t.reg .pred \tp;\n"),
        (".shared .align 8 .b8 a [ 16 ];", "\t.shared .align 8 .b8 a[16];\n"),
        ("{ .reg .pred p; L: }", "\t{\n\t\t.reg .pred \tp;\nL:\n\t}\n"),
        ("{ // callseq 0\n} // callseq 0", "\t{ // callseq 0\n\t} // callseq 0\n"),
        (
            "call.uni (retval0), \n\tf, \n\t(\n\tparam0, \n\tparam1\n\t);",
            "\tcall.uni \t(retval0), f, (param0, param1);\n",
        ),
        (
            "P: .callprototype (.param .b32 _)_(.param .b64 _);",
            "P: .callprototype (.param .b32 _) _ (.param .b64 _);\n",
        ),
        ("T: .branchtargets A,\n B;", "T: .branchtargets A, B;\n"),
        (".loc 1  5 \t7", "\t.loc\t1 5 7\n"),
        (
            ".loc 1 5 7,function_name $L0+3 , inlined_at 1 2 3",
            "\t.loc\t1 5 7, function_name $L0+3, inlined_at 1 2 3\n",
        ),
        (
            ".loc 1 5 7, function_name.debug_str+3, inlined_at 1 2 3",
            "\t.loc\t1 5 7, function_name .debug_str+3, inlined_at 1 2 3\n",
        ),
        ('.pragma "nounroll" ;', '\t.pragma "nounroll";\n'),
        ("ret;ret;", "\tret;\n\tret;\n"),
    ],
)
def test_a_statement_has_one_layout(statements: str, lines: str) -> None:
    assert body(statements) == lines


@pytest.mark.parametrize(
    ("statements", "lines"),
    [
        (
            "// begin inline asm\nret;\n    // end inline asm",
            "\t// begin inline asm\n\tret;\n\t// end inline asm\n",
        ),
        ("ret;            // done  ", "\tret; // done\n"),
        ("L: // %loop\nret;", "L: // %loop\n\tret;\n"),
        ("/* a */ ret; /* b */ ret;", "\t/* a */ ret; /* b */\n\tret;\n"),
        (
            "add.u32 %r1, // the sum\n %r2,\n// of two\n%r3;",
            "\tadd.u32 \t%r1, // the sum\n\t\t%r2,\n\t\t// of two\n\t\t%r3;\n",
        ),
        ("mov.u32 %r1,/* x */%r2;", "\tmov.u32 \t%r1, /* x */ %r2;\n"),
        ("/* 1\n     2 */ ret;", "\t/* 1\n     2 */ ret;\n"),
        ("// größer\nret;", "\t// größer\n\tret;\n"),
        ('ret;\n# 7 "k.cu" 1 \nret;', '\tret;\n# 7 "k.cu" 1\n\tret;\n'),
        ("\n\n\nret;\n\n\n\nret;\n\n", "\tret;\n\n\tret;\n"),
        (".loc 1 2 3 /* x */, function_name f, inlined_at 1 2 3", None),
    ],
)
def test_a_comment_stays_where_it_is(statements: str, lines: str | None) -> None:
    assert lines is None or body(statements) == lines
    assert tokens(f".entry k(){{{statements}\n}}".encode()) == tokens(
        f".entry k()\n{{\n{body(statements)}}}".encode()
    )


def test_a_function_has_a_parameter_and_a_directive_on_a_line() -> None:
    given = ".visible   .entry k ( .param .u64 a,.param .align 64 .b8 b[128] ) .maxntid 128,1,1 .minnctapersm 2 { ret; }"
    assert laid_out(given) == (
        ".visible .entry k(\n\t.param .u64 a,\n\t.param .align 64 .b8 b[128]\n)\n.maxntid 128, 1, 1\n.minnctapersm 2\n"
        "{\n\tret;\n}\n"
    )
    assert laid_out(".extern .func(.param .b32 r) f\n(\n.param .b64 p\n)\n;") == (
        ".extern .func (.param .b32 r) f(\n\t.param .b64 p\n);\n"
    )
    assert laid_out(".func f(\n\n){}.func g(){}") == ".func f()\n{\n}\n\n.func g()\n{\n}\n"


def test_a_table_keeps_its_lines() -> None:
    given = ".global .b32 t[2][3] = {\n    {1,2,3},  {4, 5,\n 6} };\n.global .u64 p[2] = {generic(t)+4 , t};"
    assert laid_out(given) == (
        ".global .b32 t[2][3] = {\n\t{1, 2, 3}, {4, 5,\n\t\t6}};\n.global .u64 p[2] = {generic(t)+4, t};\n"
    )


def test_what_is_not_ptx_is_kept_as_it_is() -> None:
    section = ".section .debug_str {\n$L_s0:\n.b8 107   // a }\n.b8 0\n}"
    source = ".nv_intermediate_source_section { a  =  { b } }"
    assert laid_out(f'.file   1  "a  b.cu",  1, 2\n{section}\n{source}') == (
        f'.file\t1 "a  b.cu", 1, 2\n{section}\n{source}\n'
    )
    assert laid_out("@@DWARF .section x  \n.version 1.4") == "@@DWARF .section x\n.version 1.4\n"


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_line_ends_are_those_of_the_first_line(end: str) -> None:
    given = f"// a{end}.version 8.0\n/* 1\r\n2 */{end}// b\r\n.target sm_90"
    assert formatted(given.encode()).decode() == end.join(
        ("// a", ".version 8.0", "/* 1", "2 */", "// b", ".target sm_90", "")
    )


def test_bytes_of_comments_that_are_not_utf8_stay() -> None:
    assert formatted(b".version  8.0 // \xff\xfe\n") == b".version 8.0 // \xff\xfe\n"


def test_an_empty_text_stays_empty() -> None:
    assert formatted(b"") == b""
    assert formatted(b" \n\n") == b""


def test_a_syntax_error_is_refused_with_its_line() -> None:
    with pytest.raises(SourceError, match=r"unbalanced `\{`") as refused:
        formatted(b".version 8.0\n.entry k() { ret;\n")
    assert refused.value.line == 2


def test_deep_nesting_needs_no_recursion() -> None:
    depth = 1500
    text = f".entry k(){{{'{' * depth}ret;{'}' * depth} mov.u32 %r1, {'(' * depth}1{')' * depth};}}"
    assert formatted(text.encode()).count(b"\n") == 2 * depth + 5


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_line_breaks_between_tokens_change_nothing(path: Path) -> None:
    data = without_debug_data(path.read_bytes())
    broken = b"\n".join(tokens(data))
    assert formatted(broken) == formatted(re.sub(rb"\n\s*\n", b"\n", data), blank_lines=False)


def found(data: bytes) -> list[Identity]:
    return identities(lint(Source(data, "k.ptx"), Config()))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_findings_stay(path: Path) -> None:
    data = path.read_bytes()
    assert found(formatted(data)) == found(data)


def test_comments_that_hide_findings_still_hide_them() -> None:
    text = (
        HEAD
        + """.entry k() { .reg .b32 %r<3>;
braid.u32 %r1, %r2; // tclint: ignore[PX001] new
  // tclint: ignore[PX001] new, too
  weave.u32 %r1,
     %r2;
ret; }"""
    )
    for data in (text.encode(), formatted(text.encode())):
        findings = lint(Source(data, "k.ptx"), Config()).findings
        assert [finding.suppressed is not None for finding in findings] == [True] * 2


PIECES = [
    "/* c */", "// x\n", "\n\n", "\r\n", " ", "\x1a", "\f", "{", "}", "(", "[", "-", " % ", "!", '# 1 "x.cu"\n',
    "L1: ", ".loc 1 2 3\n", "/*\r\n*/", '"a\r\nb"', ",", "<", "|", "1", "- 1", "{1,\n2,3}", "= {{1,2},\n{3}}", "?1:2",
    "@@DWARF x\n", "call (r), f, (a,\nb);", ".reg .b32 a;", "é",
]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from(PIECES)), max_size=6))
def test_whatever_parses_is_formatted_once(pieces: list[tuple[int, str]]) -> None:
    text = f"{HEAD}.entry k(.param .u64 a)\n{{\n.reg .b32 %r<4>;\nL0: @%p1 add.u32 %r1, %r2, (1+2);\n{{ ret; }}\n}}\n"
    for at, piece in pieces:
        text = text[:at] + piece + text[at:]
    try:
        once = formatted(text.encode())
    except SourceError:
        return
    assert formatted(once) == once


def test_the_example_of_the_page_is_laid_out() -> None:
    page = (ROOT / "docs" / "text.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```ptx\n(.*?)```", page, re.DOTALL)
    assert laid_out(example) == example
    plain = example.replace(" // the element", "").replace("\n\n", "\n")
    assert laid_out(" ".join(plain.split())) == plain
