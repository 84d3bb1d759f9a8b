"""PTX in the strings of CUDA C++ and Python: what is found there, where it is said to be, and what is left alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tclint
from tclint.findings.finding import FileReport
from tclint.findings.scales import Confidence, Severity
from tclint.findings.spans import Span
from tclint.inline import module as inline
from tclint.inline.asm import ptx_of
from tclint.inline.conditions import compiled
from tclint.inline.text import MappedText
from tclint.isa.target import Target
from tclint.syntax.source import Source
from tests.tools.project import ROOT

pytest.importorskip("tree_sitter_cpp")
pytest.importorskip("tree_sitter_python")

DOCS = ROOT / "docs" / "inline.md"


def check(text: str, name: str = "kernel.cu", **options: Any) -> FileReport:
    return inline.check(Source.from_bytes(text.encode(), name), **options)


def reported(report: FileReport) -> list[tuple[str, str]]:
    """The rules of the findings that no comment hides, each with the text that it points at."""
    assert report.source is not None
    assert not report.problems, report.problems
    data = report.source.data
    return [
        (f.rule.id, data[f.span.start : f.span.end].decode()) for f in report.findings if f.suppressed is None
    ]


def in_function(*statements: str) -> str:
    return (
        "__device__ void f(unsigned a, unsigned long long l, float x) {\n" + "\n".join(statements) + "\n}\n"
    )


# ---------------------------------------------------------------- what is found, and where


@pytest.mark.parametrize(
    ("statement", "rule", "word"),
    [
        ('asm volatile("mvo.u32 %0, %1;" : "=r"(a) : "r"(a));', "PX001", "mvo.u32"),
        ('__asm__ __volatile__("ld.globl.u32 %0, [%1];" : "=r"(a) : "l"(l));', "PX002", ".globl"),
        ('asm("add.s32 %0, %1;" : "=r"(a) : "r"(a));', "PX003", "add.s32 %0, %1;"),
        ('asm("add.s32 %0, %1, %2;" : "=r"(a) : "r"(a));', "PX005", "%2"),
        ('asm("add.s32 %0, %0, %1;" : "+r"(a) : "l"(l));', "PX003", "add.s32 %0, %0, %1;"),
        ('asm("add.s64 %0, %0, %[b];" : "+l"(l) : [b] "r"(a));', "PX003", "add.s64 %0, %0, %[b];"),
        ('asm("add.f64 %0, %1, %1;" : "=d"(d) : "f"(x));', "PX003", "add.f64 %0, %1, %1;"),
        ('asm("mov.u32 %0, 1; ld.u64 %0, [%1];" : "=r"(a) : "l"(l));', "PX003", "ld.u64 %0, [%1];"),
        ('asm("add.s32 %0, %[b], %0;" : "=r"(a) : [c] "r"(a));', "PX005", "%[b]"),
        ('asm("mov.u32 %0, %%r9;" : "=r"(a));', "PX005", "mov.u32 %0, %%r9;"),
        ('asm("bra DONE;");', "PX006", "bra DONE;"),
        ('asm("L: bra L;");', "PX007", "L"),
        (r'asm("mov.u32 %0, 1;\nL:\nbra L;" : "=r"(a));', "PX007", "L"),
        ('asm(".reg .u32 t1; mov.u32 t1, %0;" :: "r"(a));', "PX007", "t1"),
        ('asm volatile("bar.sync 99;" ::: "memory");', "PX004", "bar.sync 99;"),
        (r'asm("{\n\t.reg .pred p;\n\t@p mvo.u32 %0, 1;\n\t}" : "=r"(a));', "PX001", "mvo.u32"),
        ('asm(R"x(\n  mvo.u32 %0, 1;\n)x" : "=r"(a));', "PX001", "mvo.u32"),
        ('asm("mov.u32 %0, 1;"  // one\n    "mvo.u32 %0, 1;" : "=r"(a));', "PX001", "mvo.u32"),
        ('asm("mov.u32 %0, 1; mv" "o.u32 %0, 1;" : "=r"(a));', "PX001", 'mv" "o.u32'),
        ('asm("mov.u32 %0, 1;\\\n mvo.u32 %0, 1;" : "=r"(a));', "PX001", "mvo.u32"),
    ],
)
def test_a_mistake_is_found_at_its_place(statement: str, rule: str, word: str) -> None:
    assert reported(check(in_function(statement))) == [(rule, word)]


@pytest.mark.parametrize(
    "statement",
    [
        'asm volatile("mov.u32 %0, %%tid.x;" : "=r"(a));',
        'asm volatile("mov.u32 %0, %laneid;" : "=r"(a));',
        'asm volatile("exit;");',
        'asm volatile("");',
        'asm volatile("add.s32 %0, %0, %[n];" : "+r"(a) : [n] "n"(3));',
        'asm volatile("add.s32 %0, %1, 1;" : "=r"(a) : "0"(a));',
        'asm volatile("fma.rn.f32 %0, %1, %1, %1;" : "=f"(x) : "f"(x) : "memory");',
        'asm volatile("{\\n.reg .pred p%=;\\nsetp.eq.u32 p%=, %0, 1;\\n}" :: "r"(a));',
        'asm volatile("{.reg .b32 %r1; mov.u32 %r1, %0;}" :: "r"(a));',
        'asm volatile("L%=: bra L%=;");',
        'asm volatile("{L: bra L;}");',
        'asm volatile("{ /* } */ .reg .u32 t1; { } mov.u32 t1, %0; }" :: "r"(a));',
        'asm volatile("bar.sync %0, 32;" :: "n"(N) : "memory");',
        'asm volatile("ld.global%1.u32 %0, [%2];" : "=r"(a) : "C"(kind), "l"(l));',
        'asm volatile("{call (%0), foo, (%1);}" : "=r"(a) : "r"(a));',
        'asm volatile("mov.u32 %0, some_variable;" : "=r"(a));',
        'asm volatile("ld.global.u8 %0, [%1];" : "=r"(a) : "l"(l) : "memory");',
        'asm volatile("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));',
        'asm volatile("mov.b64 %0, {%1, %1};" : "=l"(l) : "r"(a));',
        'asm volatile("mov.b32 %0, %1;" : "=r"(a) : "f"(x));',
        # One name for registers of two sizes: which of them a later string means is not known.
        (
            'if (a) asm volatile(".reg .b64 t;"); else asm volatile(".reg .b32 t;");'
            ' asm volatile("mov.b64 t, %0;" :: "l"(l));'
        ),
        # A scope that is opened in one string and closed in another, as CCCL has it.
        (
            'asm volatile("{\\n.reg .pred p;"); asm volatile("setp.eq.u32 p, %0, 1;" :: "r"(a));'
            ' asm volatile("selp.u32 %0, 1, 0, p;\\n}" : "=r"(a));'
        ),
    ],
)
def test_what_is_right_is_left_alone(statement: str) -> None:
    assert reported(check(in_function(statement))) == []


def test_a_name_outside_of_braces_is_a_note() -> None:
    """Whether the compiler copies the statement is not known."""
    (finding,) = check(in_function('asm("L: bra L;");')).findings
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)
    assert "braces" in finding.help


@pytest.mark.parametrize(
    "statement",
    [
        'asm volatile("pause" ::: "memory");',
        'asm volatile("rdtsc" : "=a"(lo), "=d"(hi));',
        'asm volatile("mov %%rsp, %0; mvo %%rax, %%rbx;" : "=r"(a));',
        'asm volatile("dmb ish" ::: "memory");',
        'asm volatile("v_mov_b32 %0, %1" : "=v"(a) : "v"(a));',
        'asm volatile("s_waitcnt vmcnt(0)");',
    ],
)
def test_assembly_of_other_machines_is_passed_over(statement: str) -> None:
    report = check(in_function(statement))
    assert reported(report) == []
    assert report.asm is not None
    assert report.asm.strings == 0


@pytest.mark.parametrize(
    "statement",
    [
        'asm volatile("mma" SHAPE ".f32 {%0};" : "=f"(x));',
        'asm volatile("{" NAME(and) ".b32 %0, %0, %0;\\n}" : "=r"(a));',
        'asm volatile(DECLARE "mov.u32 %0, r1;" : "=r"(a));',
        'asm volatile("mov.u32 %0, " VALUE : "=r"(a));',
    ],
)
def test_a_piece_that_the_preprocessor_knows_is_unknown_not_wrong(statement: str) -> None:
    report = check(in_function(statement))
    assert reported(report) == []
    assert report.asm is not None
    assert (report.asm.strings, report.asm.unknown) == (1, 1)


def test_the_statements_beside_an_unknown_piece_are_checked() -> None:
    text = in_function(
        'asm("mov.u32 %0, 1;\\n" MACRO "; mvo.u32 %0, 1;\\n" "st.v2.u32 [a], {%0, " X "}; adt.u32 %0;" : "=r"(a));'
    )
    assert reported(check(text)) == [("PX001", "mvo.u32"), ("PX001", "adt.u32")]


def test_an_asm_in_a_macro_is_checked_at_its_place() -> None:
    text = '#define GET(x, y) \\\n  do { asm("mvo.u32 %0, %1; mov.u32 " #y ", 1;" \\\n  : "=r"(x) : "r"(x)); } while (0)\n'
    report = check(text)
    assert reported(report) == [("PX001", "mvo.u32")]
    assert report.source is not None
    assert report.source.position(report.findings[0].span.start) == (2, 13)


def test_what_is_not_ptx_is_a_problem_at_its_line() -> None:
    report = check(
        in_function("", 'asm("mov.u32 %0, 1;\\n"', '    "mov.u32 ]%0, 1;" : "=r"(a));', 'asm("exit;");')
    )
    assert [problem.line for problem in report.problems] == [4]
    assert report.status == "partial"


def test_one_string_that_is_not_ptx_does_not_hide_a_mistake_in_another() -> None:
    report = check(in_function('asm("mov.u32 ]%0;" : "=r"(a));', 'asm("{ mov.u32 %0, 1;" : "=r"(a));', 'asm("mvo.u32 %0, 1;" : "=r"(a));'))  # fmt: skip
    assert [problem.line for problem in report.problems] == [2, 3]
    assert [finding.rule.id for finding in report.findings] == ["PX001"]


def test_a_finding_names_the_function_of_the_host_and_keeps_its_fingerprint() -> None:
    before = check(in_function('asm("mvo.u32 %0, 1;" : "=r"(a));')).findings
    after = check("int other;\n" + in_function('asm("exit;");', 'asm("mvo.u32 %0, 1;" : "=r"(a));')).findings
    assert [f.entry for f in before] == ["f"]
    assert [f.fingerprint for f in before] == [f.fingerprint for f in after]


# ---------------------------------------------------------------- availability

WGMMA = 'asm volatile("wgmma.fence.sync.aligned;");'


def test_availability_is_checked_for_the_architecture_that_is_named() -> None:
    text = in_function(WGMMA)
    assert reported(check(text)) == []
    assert reported(check(text, arch="sm_90a")) == []
    assert reported(check(text, arch="sm_80")) == [("AV001", "wgmma.fence.sync.aligned;")]


def test_a_version_is_missing_only_where_the_toolkit_is_named() -> None:
    text = in_function('asm("cvt.rn.bf16x2.e4m3x2 %0, %1;" : "=r"(a) : "h"(h));')
    assert "AV002" not in {rule for rule, _ in reported(check(text, arch="sm_100a"))}
    assert "AV002" in {rule for rule, _ in reported(check(text, arch="sm_100a", toolkit=(12, 8)))}


@pytest.mark.parametrize(
    ("opening", "rules"),
    [
        ("#if __CUDA_ARCH__ >= 900", []),
        ("#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900)", ["AV001"]),
        ("#ifdef HAS_WGMMA", []),
        ("#if __CUDA_ARCH__ >= 800 || HAS_WGMMA", ["AV001"]),
        ("#if __CUDA_ARCH__ >= 900\n#else", ["AV001"]),
    ],
)
def test_conditions_of_the_preprocessor_decide_what_is_compiled(opening: str, rules: list[str]) -> None:
    text = in_function(opening, WGMMA, "#endif")
    assert [rule for rule, _ in reported(check(text, arch="sm_80"))] == rules


def test_the_guard_of_a_header_is_not_a_condition() -> None:
    text = f"#ifndef K_H\n#define K_H\n{in_function(WGMMA)}\n#endif\n"
    assert [rule for rule, _ in reported(check(text, "k.cuh", arch="sm_80"))] == ["AV001"]


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("__CUDA_ARCH__ == 900", True),
        ("!(__CUDA_ARCH__ == 900)", False),
        ("X && __CUDA_ARCH__ < 800", False),
        ("X && __CUDA_ARCH__ > 800", None),
        ("MACRO(1, 2) || __CUDA_ARCH__ > 800", None),
        ("__CUDA_ARCH__ + 1", None),
        ("?", None),
        ("", None),
    ],
)
def test_a_condition_is_decided_or_unknown(condition: str, answer: bool | None) -> None:
    assert compiled([condition], Target(90, "a")) is answer


# ---------------------------------------------------------------- Python

TRITON = '''
import triton.language as tl

def f(x, y):
    return tl.inline_asm_elementwise(
        asm="""
        mov.b32 $0, $1;
        {statement}
        """,
        constraints="=r,r,r",
        args=[x, y], dtype=tl.int32, is_pure=True, pack=1)
'''


@pytest.mark.parametrize(
    ("statement", "findings"),
    [
        ("add.s32 $0, $1, ${2};", []),
        ("mov.u32 $0, %tid.x;", []),
        ("adt.s32 $0, $1, $2;", [("PX001", "adt.s32")]),
        ("add.s32 $0, $1, $3;", [("PX005", "$3")]),
        ("add.s32 $0, $1;", [("PX003", "add.s32 $0, $1;")]),
        ("cvt.u64.u32 $0, $1;", [("PX003", "cvt.u64.u32 $0, $1;")]),
    ],
)
def test_a_call_of_triton(statement: str, findings: list[tuple[str, str]]) -> None:
    assert reported(check(TRITON.replace("{statement}", statement), "k.py")) == findings


CUDA = r'''
import cupy
# Python and C++ both have strings, and escapes in them.
kernel = cupy.RawKernel(r"""
extern "C" __global__ void f(unsigned *p, unsigned long long l) {
  unsigned a = p[0];
  asm volatile("{\n\t"
               "mvo.u32 %0, %1;\n\t}" : "=r"(a) : "r"(a));
  asm("add.s32 %0, %0, %1;" : "+r"(a) : "l"(l));  // tclint: ignore[PX003] known
}""", "f")
SOURCE = """__device__ void g(unsigned a) {
  asm("mov.u32 %0, 1;\\n"
      "adt.u32 %0, 1;" : "=r"(a)); }"""
load_inline("m", "", cuda_sources=[SOURCE, other], functions=["g"])
'''


def test_cuda_in_a_string_of_python() -> None:
    report = check(CUDA, "k.py")
    assert reported(report) == [("PX001", "mvo.u32"), ("PX001", "adt.u32")]
    assert report.source is not None
    lines = [report.source.position(f.span.start) for f in report.findings if f.suppressed is None]
    assert lines == [(8, 17), (13, 8)]
    assert [(f.rule.id, f.entry) for f in report.findings if f.suppressed] == [("PX003", "f")]


@pytest.mark.parametrize(
    "call",
    [
        "RawModule(code=TEXT)",
        "SourceModule(TEXT)",
        "load_inline('m', cpp, TEXT)",
        "Program(TEXT, 'c++')",
        "cupy.RawKernel(TEXT, 'g')",
    ],
)
def test_calls_that_take_cuda(call: str) -> None:
    text = "TEXT = '''__device__ void g(unsigned a) { asm(\"mvo.u32 %0, 1;\" : \"=r\"(a)); }'''\n"
    assert reported(check(text + call, "k.py")) == [("PX001", "mvo.u32")]
    assert reported(check(text.replace("TEXT = ", "TEXT = x + ") + call, "k.py")) == []
    assert reported(check(text + call.replace("TEXT", "text"), "k.py")) == []


@pytest.mark.parametrize(
    ("call", "findings"),
    [
        ('llvm.inline_asm(T.i32(), [a], "mvo.b32 $0, $1;", "=r,r", has_side_effects=True)', ["PX001"]),
        ('llvm.inline_asm(T.i32(), [a], "mov.b32 $0, $1;" "\\nadd.s32 $0;", constraints="=r,r")', ["PX003"]),
        ('llvm.inline_asm(T.i32(), [a], f"mov.{kind} $0, $1; mvo.b32 $0, $1;", "=r,r")', ["PX001"]),
        ('ir.InlineAsm(fnty, "mvo.b32 $0, $1;", "=r,r", side_effect=True)', ["PX001"]),
        ("ir.InlineAsm(fnty, text, '=r,r')", []),
        ('other("mvo.b32 $0, $1;", "=r,r")', []),
        ('TEXT = "mvo.b32 $0, $1;"\nir.InlineAsm(fnty, TEXT, "=r,r")', ["PX001"]),
        ('T = "mvo.b32 $0;"\nT += X\nir.InlineAsm(fnty, T, "=r,r")', []),
        ('x = "mvo.u32 a, b;"  # tclint: ptx', ["PX001"]),
        ('# tclint: ptx\nx = "mvo.u32 a, b;"', ["PX001"]),
    ],
)
def test_calls_of_other_libraries_and_the_marker(call: str, findings: list[str]) -> None:
    assert [rule for rule, _ in reported(check(call + "\n", "k.py"))] == findings


def test_a_whole_module_is_checked_by_all_rules_at_its_place() -> None:
    fixture = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text(encoding="utf-8")
    plain = tclint.check(fixture)
    report = check(f'import x\n# tclint: ptx\nK = r"""{fixture}"""\n', "k.py")
    assert report.source is not None
    lines = [(f.rule.id, report.source.position(f.span.start).line - 2) for f in report.findings]
    assert lines
    assert set(lines) >= {(f.rule.id, plain.position(f)[1].line) for f in plain.findings}


# ---------------------------------------------------------------- suppressions


@pytest.mark.parametrize(
    ("statements", "hidden"),
    [
        (['asm("mvo.u32 %0, 1;" : "=r"(a));  // tclint: ignore[PX001] why'], True),
        (["// tclint: ignore[PX001] why", 'asm("mov.u32 %0, 1;\\n"', '"mvo.u32 %0, 1;" : "=r"(a));'], True),
        (
            ['asm("mov.u32 %0, 1;\\n"', '"mvo.u32 %0, 1;"  /* tclint: ignore[PX001] why */', ': "=r"(a));'],
            True,
        ),
        (
            ['asm("mov.u32 %0, 1;\\n"  ', '"mvo.u32 %0, 1;" : "=r"(a));', "", "// tclint: ignore[PX002] no"],
            False,
        ),
        (['asm("mvo.u32 %0, 1; // tclint: ignore[PX001] why\\n" : "=r"(a));'], True),
        (["// tclint: ignore-entry[PX001] why", "", 'asm("mvo.u32 %0, 1;" : "=r"(a));'], True),
    ],
)
def test_comments_of_the_host_hide_findings(statements: list[str], hidden: bool) -> None:
    findings = check(in_function(*statements)).findings
    assert [f.suppressed is not None for f in findings if f.rule.id == "PX001"] == [hidden]
    assert {f.rule.id for f in findings} <= {"PX001", "SU001"}
    assert ("SU001" in {f.rule.id for f in findings}) != hidden


def test_comments_of_python_hide_findings() -> None:
    text = 'ir.InlineAsm(t, "mvo.b32 $0, $1;", "=r,r")  # tclint: ignore[PX001] why\n'
    assert [f.suppressed for f in check(text, "k.py").findings] == ["why"]


def test_comments_about_what_is_compiled_from_the_source_are_left_alone() -> None:
    text = (
        "// tclint: ignore-entry[SM001] why\n__global__ void k() { /* tclint: ignore[WG001] why */\n    int x;\n}\n"
        + in_function('asm("mov.u32 %0, 1;" : "=r"(a));')
    )
    assert check(text).findings == ()
    wrong = check(text.replace("ignore-entry[SM001]", "ignore-entry[PX001]")).findings
    assert [finding.rule.id for finding in wrong] == ["SU001"]


# ---------------------------------------------------------------- the command


def run(*arguments: str, code: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tclint", "check", "--isolated", *arguments],
        env={**os.environ, "PYTHONPATH": str(DOCS.parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    text = in_function('asm("mvo.u32 %0, 1;" : "=r"(a));')
    (tmp_path / "src" / "k.cu").write_text(text, encoding="utf-8")
    (tmp_path / "src" / "ok.ptx").write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n", encoding="utf-8"
    )
    return tmp_path


def test_a_folder_is_searched_for_sources_with_assembly(folder: Path) -> None:
    for name in ("plain.cu", "plain.py", "torch.version.py"):
        (folder / "src" / name).write_text("x = torch.version.cuda\n", encoding="utf-8")
    (folder / "src" / "h.h").write_text(in_function('asm("mvo.u32 %0, 1;" : "=r"(a));'), encoding="utf-8")
    said = run("--output-format", "concise", "src", code=1)
    assert "src/k.cu:2:6: error PX001" in said
    assert "Found 1 error in 1 of 2 files; " in said
    assert "No findings in 1 file." in run("src", "--config", "include = []", code=0)
    assert "src/h.h:2:6: error PX001" in run("--output-format", "concise", "--include", "*.h", "src", code=1)
    assert "src/k.cu:2:6: error PX001" in run("--output-format", "concise", "src/*.cu", code=1)


def test_a_word_in_a_source_decides_whether_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr("tclint.inline.module._found", lambda _, path: (parsed.append(path), ([], []))[1])
    texts = {
        "a.cu": b"__asm__",
        "plasma.cu": b"plasma",
        "b.py": b"tl.inline_asm_elementwise",
        "c.py": b'".version\\t8.0"',
        "d.py": b"f'.version {version}'",
        "e.py": b"torch.version.cuda; asm",
    }
    for name, data in texts.items():
        tclint.inline.check(Source(data, name))
    assert parsed == ["a.cu", "b.py", "c.py", "d.py"]


def test_the_last_line_says_what_was_not_checked(folder: Path) -> None:
    assert "1 asm string checked for syntax and operands only; use --arch sm_XX to check" in run(
        "src/k.cu", code=1
    )
    said = run("--arch", "sm_90a", "src/k.cu", code=1)
    assert "1 asm string checked for syntax, operands and availability only" in said


@pytest.mark.parametrize("output_format", ["json", "sarif", "github", "gitlab", "junit", "text"])
def test_every_format_points_into_the_source(folder: Path, output_format: str) -> None:
    said = run("--output-format", output_format, "src/k.cu", code=1)
    assert "src/k.cu" in said
    if output_format == "json":
        (file,) = json.loads(said)["files"]
        assert [(f["line"], f["column"], f["end_column"]) for f in file["findings"]] == [(2, 6, 13)]
        assert json.loads(said)["summary"]["asm"]["strings"] == 1
    if output_format == "sarif":
        (result,) = json.loads(said)["runs"][0]["results"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2


def test_an_architecture_that_is_none_is_refused(folder: Path) -> None:
    assert 'must be an architecture such as "sm_90a"' in run("--arch", "sm_9000", "src/k.cu", code=2)


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS.read_text(encoding="utf-8")
    (code,) = re.findall(r"```cuda\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```console\n\$ [^\n]*\n(.*?)```", page, re.DOTALL)
    Path("sum.cu").write_text(code, encoding="utf-8")
    assert run("--output-format", "concise", "sum.cu", code=1) == shown


@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        ('"st.globl.u32 [%0], %1;"', '"st.global.u32 [%0], %1;"'),
        ('"st." "globl.u32 [%0], %1;"', None),  # it is in two literals
        ('R"(st.globl.u32 [%0], %1;)"', 'R"(st.global.u32 [%0], %1;)"'),
    ],
)
def test_a_fix_is_made_in_the_string(tmp_path: Path, written: str, fixed: str | None) -> None:
    source = f'__device__ void f(int* p, int v) {{ asm({written} :: "l"(p), "r"(v)); }}\n'
    path = tmp_path / "k.cu"
    path.write_text(source, encoding="utf-8")
    run("--fix", "--unsafe-fixes", str(path), code=0 if fixed else 1)
    assert path.read_text(encoding="utf-8") == source.replace(written, fixed or written)


# ---------------------------------------------------------------- spans


def test_a_text_knows_where_its_bytes_came_from() -> None:
    first = MappedText()
    first.add(b"abc", Span(10, 13))
    first.add(b"\n", Span(13, 15))
    first.add(b"def", Span(15, 18))
    second = MappedText()
    second.add_part(first, 1, 6)
    assert bytes(second.data) == b"bc\nde"
    assert second.host(0, 5) == Span(11, 17)
    assert second.host(2, 3) == Span(13, 15)
    assert second.whole(0, 2) == Span(11, 13)
    assert second.whole(1, 4) is None


def test_every_byte_of_a_string_is_found_again() -> None:
    """What is mapped byte by byte must be the same byte in the host."""
    text = in_function(
        r'asm("{\n\t.reg .b32 t;\n\tmov.u32 t, %%tid.x;\n" R"(add.u32 %0, t, %1;)" "}" : "=r"(a) : "r"(a));'
    )
    source = Source.from_bytes(text.encode(), "k.cu")
    ((asm, ptx),) = inline.strings(source)
    assert bytes(ptx_of(asm).text.data) == b"{\n\t.reg .b32 t;\n\tmov.u32 t, %tid.x;\nadd.u32 %0, t, %1;}"
    same = 0
    for at in range(len(ptx.text.data)):
        span = ptx.text.host(at, at + 1)
        if (whole := ptx.text.whole(at, at + 1)) is not None:
            assert source.data[whole.start] == ptx.text.data[at]
            assert whole == span
            same += 1
    assert same > 40
