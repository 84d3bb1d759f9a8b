"""Bad input: a clear message on the right line, and everything that is intact still checked. Never an exception."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.commands._cli import cli
from tclint.findings.finding import FileReport, SourceLocation
from tclint.findings.selection import Request, Selected
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.support import (
    HEADER,
    HOPPER,
    before_the_wait,
    by_rule,
    found,
    kernel,
    line_of,
    lint,
    module,
)


def wrong(name: str = "wrong") -> str:
    """A kernel with one defect: an accumulator is read in flight."""
    return before_the_wait("    add.f32 %f5, %f0, %f1; // early", name)


def right(name: str = "right") -> str:
    return wrong(name).replace("    add.f32 %f5, %f0, %f1; // early\n", "")


def hopper(*functions: str) -> str:
    return module(*functions, header=HOPPER)


def check(tmp_path: Path, *texts: str | bytes) -> Result:
    """``tclint check`` over files with these texts, through the command line."""
    paths = []
    for n, text in enumerate(texts):
        path = tmp_path / f"f{n}.ptx"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        paths.append(str(path))
    result = CliRunner().invoke(cli, ["check", "--output-format", "concise", *paths], standalone_mode=False)
    assert result.exception is None, result.exception
    assert "internal error" not in result.output
    assert "Traceback" not in result.output
    return result


def messages(report: FileReport) -> list[tuple[int, str]]:
    return [(p.line, p.message) for p in report.problems]


def test_the_kernels_of_this_module_are_what_they_say() -> None:
    text = hopper(right(), wrong())
    assert found(lint(text)) == [("WG001", line_of(text, "add.f32 %f5"))]
    assert lint(text).status == "analysed"


# ---------------------------------------------------------------- one kind of damage after the other

LONG = "x" * 1_000_000
BAD: dict[str, tuple[str, str, str]] = {
    # what is damaged -> the text, the words whose line the message names, words of the message
    "nothing in it": ("", "", "no PTX"),
    "blanks only": ("\n\n  \n", "", "no PTX"),
    "comments only": ("// a kernel\n/* was\nhere */\n", "", "no PTX"),
    "a comment without end": (hopper(right()) + "/* open\n" + wrong(), "/* open", "*/"),
    "prose": ("This is not PTX at all, is it?\n", "", ""),
    "no .version": (".target sm_90a\n.address_size 64\n" + right(), "", ".version"),
    "no .target": (".version 8.0\n.address_size 64\n" + right(), "", ".target"),
    "an unknown target": (HOPPER.replace("sm_90a", "sm_91z") + right(), "sm_91z", "sm_91z; did you mean sm_90?"),
    "a target of the future": (HOPPER.replace("sm_90a", "sm_300") + right(), "sm_300", "sm_300; the newest known ones are sm_107,"),
    "a version between two": (HOPPER.replace("8.0", "8.9") + right(), "8.9", "8.9; the newest known one is 9.5"),
    "a version that is none": (HOPPER.replace("8.0", "80") + right(), ".version", ".version must be two numbers, such as 9.5"),
    "an open brace": (hopper(right("a"), kernel("{\nret;", "broken")), "", "{"),
    "a closing brace too many": (hopper(right("a"), kernel("ret;\n}", "broken"), right("b")), "", "}"),
    "a branch to nowhere": (hopper(kernel("bra nowhere;\nret;")), "bra nowhere", "nowhere"),
    "a branch table of nowhere": (hopper(kernel("t: .branchtargets gone;\nbrx.idx %r1, t;")), "brx.idx", "gone"),
    "an unused branch table of nowhere": (hopper(kernel("t: .branchtargets gone;\nret;")), "t: ", "gone"),
    "a branch table after its use": (hopper(kernel("brx.idx %r1, t;\nt: .branchtargets L;\nL: ret;")), "brx", "t is not defined"),
    "a constant subtracted from an address": (hopper(kernel("ld.global.u32 %r1, [%rd1-16];")), "[%rd1", "%rd1-16 is not an operand: a constant is added, as in %rd1+-16"),
    "a label as an operand": (hopper(kernel("L: mov.u32 %r1, L;")), "L: mov", "label L is not an operand"),
    "an instruction without its semicolon": (
        hopper(kernel("cp.async.commit_group // all of them\nret;")),
        "cp.async.commit_group // all of them\nret",
        "expected ; after cp.async.commit_group",
    ),
    "an expression that is none": (hopper(kernel("mov.u32 %r1, 1/0;")), "1/0", "1/0 is neither a name nor a constant"),
    "an alias of a kernel": (hopper(right("a")) + ".func f();\n.alias f, a;\n", ".alias", "a is a kernel"),
    "an alias of nothing": (hopper(right("a")) + ".func f();\n.alias f, g;\n", ".alias", "g is not declared"),
    "a variable with the name of a special register": (hopper(".global .b32 %laneid;\n", right()), ".global", "%laneid is a special"),
    "a label twice": (hopper(kernel("L: ret;\nL: ret;")), "L: ret;\n}", "L"),
    "an undefined register": (hopper(kernel("mov.u32 %r1, 0;\nmov.u32 %r1, %q7;")), "%q7", "%q7"),
    "an undefined guard": (hopper(kernel("mov.u32 %r1, 0;\n@%q7 ret;\nret;")), "%q7", "%q7"),
    "an undefined variable": (hopper(kernel("mov.u64 %rd1, gone;")), "gone", "gone"),
    "a line of 1 MB": (hopper(kernel(f"mov.u32 %r1, 0;\nmov.u32 %r1, {LONG};")), "mov.u32 %r1, x", ""),
    "a name of 1 MB": (hopper(kernel(f"%r{'1' * 1_000_000} add %r1;\nret;")), "%r111", ""),
    "half an instruction": (hopper(kernel("mov.u32 %r1,\nret;"), right("b")), "mov.u32", ""),
    "two commas": (hopper(kernel("add.s32 %r1, , %r2;")), "add.s32", ""),
    "a register that is multiplied": (hopper(kernel("mov.u32 %r1, 0;\nmov.u32 %r2, %r1*2;")), "%r1*2", "%r1*2 is not an operand: only constants"),
    "a register with an index": (hopper(kernel("mov.u32 %r1, 0;\nmov.u32 %r2, %r1[0];")), "%r1[0]", "%r1 is a register, not an array"),
    "a misspelt special register": (hopper(kernel("mov.u32 %r1, %ctaids.x;")), "%ctaids", "did you mean %ctaid.x?"),
    "a register without its percent sign": (hopper(kernel("mov.u32 %r1, 0;\nmov.u32 %r2, r1;")), "r2, r1", "did you mean %r1?"),
    "a misspelt label": (hopper(kernel("bra LOOOP;\nLOOP: ret;")), "bra", "did you mean LOOP?"),
    "a label of a section twice": (hopper(right()) + ".section .debug_str\n{\n$L1:\n.b8 1\n$L2:\n$L1:\n.b8 1\n}\n", "$L1:\n.b8 1\n}", "$L1 is defined twice in the sections"),
    "a label of a section without a colon": (hopper(right()) + ".section .debug_str\n{\n$L1\n.b8 1\n}\n", "$L1", "expected `:` after label $L1"),
    "a bracket": (hopper(kernel("ld.global.u32 %r1, [%rd1;\nret;")), "ld.global", ""),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_damage_is_reported(what: str, tmp_path: Path) -> None:
    text, where, words = BAD[what]
    report = lint(text)
    assert report.status != "analysed"
    assert any(words in message for _, message in messages(report)), messages(report)[:3]
    if where:
        lines = {line for line, message in messages(report) if words in message}
        last = text[: text.rindex(where)].count("\n") + 1 if what == "a label twice" else line_of(text, where)
        assert last in lines, messages(report)[:3]
    assert all(0 <= line <= text.count("\n") + 1 for line, _ in messages(report))
    assert all(len(message) < 1000 for _, message in messages(report)), "a message of the length of the file"
    result = check(tmp_path, text, hopper(wrong("other")))
    assert result.return_value == 2
    assert "f0.ptx" in result.output
    assert "WG001" in result.output, "the other file is still checked"
    assert len(result.output) < 20_000


@pytest.mark.parametrize(
    "text",
    [
        hopper(kernel("mov.u32 %r1, 0;\nadd.s32 %r2, %r1 %r1;\nret;")),
        hopper(kernel("ld.global.u32 %r1, [%rd1;\nret;")),
        hopper(kernel(".reg .b32 %x<>;\nmov.u32 %x1, 0;\nmov.u32 %r1, %x1;\nret;")),
        hopper(kernel("bra $L1;\n$L1\nmov.u32 %r1, 0;\nret;")),
        ".target sm_90a\n.address_size 64\n" + right(),
        ".version 8.0\n.address_size 64\n" + right(),
        ".version 8.0\n.target sm_90a\n.adress_size 64\n.extern .shared .align 16 .b8 s[];\n"
        + kernel("mov.u64 %rd1, s;\nret;"),
        hopper(
            ".visible .entry k(.param .u64 p,\n.parm .u64 q)\n{ .reg .b64 %a;\nld.param.u64 %a, [q];\nret; }\n"
        ),
        hopper(right().replace(".entry", ".entri")),
        hopper(".visible .entry k(.param .u64 p)\n.reg .b64 %a;\nld.param.u64 %a, [p];\nret; }\n"),
    ],
)
def test_what_only_follows_from_a_syntax_error_is_not_an_error(text: str) -> None:
    report = lint(text)
    assert (len(report.problems), by_rule(report, "PX009")) == (1, [])


def test_labels_of_sections_and_references_to_them() -> None:
    text = (
        hopper(kernel("$L1: ret;"))
        + ".section .debug_str\n{\n$L1:\n.b8 1\n$L2:\n.b64 $L1\n.b64\n$L1\n}\n.section .debug_abbrev\n{\n$L3:\n.b8 1\n}\n"
    )
    assert lint(text).status == "analysed"


@pytest.mark.parametrize(
    "broken",
    [
        kernel("mov.u32 %r1,\nret;", "broken"),
        kernel("bra nowhere;", "broken"),
        kernel("L: ret;\nL: ret;", "broken"),
        kernel("mov.u32 %r1, %q7;\nret;", "broken"),
        kernel("frobnicate.u32 %r1;\nret;", "broken"),
        kernel("add.s32 %r1, %r2;\nret;", "broken"),
        ".visible .entry broken(.param .u64\n{ ret; }\n",
        ".shared .b8 x[;\n",
        kernel("ret;", "broken")[:-2] + "\n}}\n",
        kernel("{ ret;", "broken"),
        "%^&*\n",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_an_intact_function_of_a_broken_file_is_checked(broken: str, first: bool) -> None:
    text = hopper(*([broken, wrong()] if first else [wrong(), broken]))
    report = lint(text)
    assert report.status == "partial" or found(report)[0][0].startswith("PX") or len(found(report)) > 1
    assert [report.source.position(f.span.start).line for f in by_rule(report, "WG001") if report.source] == [
        line_of(text, "add.f32 %f5")
    ]


@pytest.mark.parametrize("defect", ["mov.u32 %r1,\n", "{\n", "bra nowhere;\n", "L: L:\n", "@%q7 "])
def test_a_broken_function_has_no_findings_of_dataflow(defect: str) -> None:
    text = hopper(wrong().replace("    wgmma.commit", f"{defect}    wgmma.commit"))
    report = lint(text)
    assert report.status != "analysed"
    assert [f.rule.id for f in report.findings if not f.rule.id.startswith("PX")] == []


def test_a_truncated_kernel_is_never_clean() -> None:
    data = hopper(right()).encode()
    end = data.rindex(b"}")
    for size in range(0, end, 37):
        report = lint(data[:size])
        assert report.status != "analysed", data[:size][-40:]
        assert not [f for f in report.findings if f.rule.id[:2] in ("WG", "TC", "CV")], data[:size][-40:]


def test_a_truncated_file_keeps_the_findings_of_what_is_whole() -> None:
    text = hopper(wrong("a"))
    whole = len(text)
    data = (text + right("b")).encode()
    for size in range(whole + 5, len(data) - 3, 37):
        report = lint(data[:size])
        assert report.status == "partial", data[:size][-40:]
        assert [f.rule.id for f in report.findings if f.entry == "a"] == ["WG001"], data[:size][-40:]


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 10_000), st.sampled_from(list(b'{}();,.@%[]|!_0aZ \n/*"')), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_flipped_bytes_never_raise(changes: list[tuple[int, int, bool]]) -> None:
    data = bytearray(hopper(wrong(), right()).encode())
    for at, byte, insert in changes:
        at %= len(data)
        if insert:
            data.insert(at, byte)
        else:
            data[at] = byte
    lint(bytes(data))


PAGES = sorted(path.read_text() for path in (ROOT / "rules").glob("*.md"))
EXAMPLES = [block for page in PAGES for block in re.findall(r"```ptx\n(.*?)```", page, re.DOTALL)]
WORDS = sorted({word for text in EXAMPLES for word in re.findall(r"[%\w.:]+|[^\s\w]", text)})


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_exchanged_words_and_lines_never_raise(random: Random) -> None:
    text = random.choice(EXAMPLES)
    if random.random() < 0.5:
        parts = re.split(r"(\W+)", text)
        for _ in range(random.randint(1, 5)):
            parts[random.randrange(len(parts))] = random.choice(WORDS)
        text = "".join(parts)
    else:
        lines = text.splitlines(keepends=True)
        for _ in range(random.randint(1, 5)):
            lines[random.randrange(len(lines))] = random.choice(
                random.choice(EXAMPLES).splitlines(keepends=True)
            )
        text = "".join(lines)
    lint(text)


# ---------------------------------------------------------------- size


def test_ten_thousand_nested_scopes() -> None:
    inner = "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra L;\n"
    text = hopper(kernel("{\n" * 10_000 + inner + "}\n" * 10_000 + "L: ret;"), wrong())
    report = lint(text)
    assert report.status == "analysed", messages(report)
    assert [f.rule.id for f in report.findings] == ["WG001"]


def test_ten_thousand_unclosed_scopes(tmp_path: Path) -> None:
    text = hopper(wrong(), kernel("{\n" * 10_000 + "ret;", "deep"))
    report = lint(text)
    assert report.status == "partial"
    assert [f.rule.id for f in report.findings] == ["WG001"]
    assert check(tmp_path, text).return_value == 2


def work(text: str) -> int:
    """How many functions, of Python and of C, are called while *text* is checked."""
    count = 0

    def watch(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    old = sys.getprofile()
    sys.setprofile(watch)
    try:
        lint(text)
    finally:
        sys.setprofile(old)
    return count


def chain(statement: str, count: int) -> str:
    return "\n".join(statement.format(n=n, m=n + 1) for n in range(count))


SHAPES: dict[str, Callable[[int], str]] = {
    "nested scopes": lambda n: kernel("{ mov.u32 %r1, %r2;\n@%p1 bra L;\n" * n + "}" * n + "L: ret;"),
    "nested scopes with undefined names": lambda n: kernel("{ mov.u32 %r1, x;\n" * n + "}" * n + "L: ret;"),
    "labels and branches": lambda n: kernel(chain("L{n}: @%p1 bra L{m};", n) + f"\nL{n}: bar.sync 0;\nret;"),
    "early exits": lambda n: kernel(chain("@%p1 ret;\nmov.u32 %r1, %r2;", n) + "\nbar.sync 0;"),
    "early jumps to the end": lambda n: kernel(
        chain("ld.shared.u32 %r1, [%r2];\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra end;", n)
        + "\nbar.sync 0;\nend: ret;"
    ),
    "loops": lambda n: kernel(
        chain("L{n}: add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 9;\n@%p1 bra L{n};", n)
        + "\nbar.sync 0;\nret;"
    ),
    "ways in an endless loop": lambda n: kernel(
        "again:\nld.shared.u32 %r1, [%r2];\nsetp.eq.s32 %p1, %r1, 0;\n"
        + chain("@%p1 bra L{n};\n@%p2 bra stop;\nL{n}: mov.u32 %r3, {n};", n)
        + "\nbar.sync 0;\nbra again;\nstop: trap;"
    ),
    "a chain of sums": lambda n: kernel(
        "mov.u32 %r1, %tid.x;\n"
        + chain("xor.b32 %r1, %r1, %r2;\nadd.s32 %r2, %r2, %r1;", n)
        + "\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bar.sync 0;\nret;"
    ),
    "barriers that count some of the threads": lambda n: kernel(
        chain("bar.sync 1, 128;\nst.shared.u32 [%r1], %r2;\nbar.sync 2, 256;", n) + "\nret;"
    ),
    "a chain of predicates": lambda n: kernel(
        chain(
            "and.pred %p1, %p1, %p2;\nor.pred %p3, %p1, %p4;\nxor.pred %p1, %p3, %p1;\n@%p1 bra L{n};\nmov.u32 %r1, 0;\nL{n}:",
            n,
        )
        + "\n@%p1 bar.sync 0;\nret;"
    ),
    "a chain of guarded moves": lambda n: kernel(
        "mov.u32 %r1, 0;\n"
        + chain("@%p1 mov.u32 %r1, {n};\nsetp.ne.s32 %p1, %r1, 5;", n)
        + "\n@%p1 bar.sync 0;\nret;"
    ),
    "statements without a semicolon": lambda n: kernel("mov.u32 %r1, %r2\n" * n),
    "ranges after registers": lambda n: kernel(chain(".reg .b32 a{n};\n.reg .b32 b{n}<2>;", n) + "\nret;"),
    "undeclared registers": lambda n: kernel(chain("mov.u32 %x{n}, %y{m};", n) + "\nret;"),
    "quotes": lambda n: '"' * n,
    "open parentheses": lambda n: kernel("mov.u32 %r1, " + "(" * n + ";"),
    "a long expression": lambda n: kernel("mov.u32 %r1, " + "1+" * n + "1;"),
    "a long vector": lambda n: kernel("mov.b64 %rd1, {" + "%r1, " * n + "%r1};"),
}

ANALYSED = (
    "loops", "early exits", "early jumps to the end", "ways in an endless loop", "a chain of sums", "a chain of predicates"
)  # fmt: skip
"""Shapes of which few take long; ``benchmarks.grow`` has larger ones of loops, branches, exits and chains."""


@pytest.mark.parametrize("shape", SHAPES)
def test_work_is_linear_in_the_input(shape: str) -> None:
    make = SHAPES[shape]
    lint(module(make(10)))
    size = 75 if shape in ANALYSED else 150
    small, large = (work(module(make(n))) for n in (size, 2 * size))
    assert large < 2.5 * small + 2000, (small, large)


@pytest.mark.parametrize("name", ["nvcc-tcgen05_gemm.sm_103a", "triton-matmul-bf16-128x128x64-w4s3.sm_100"])
def test_hardly_anything_is_left_to_the_collector(name: str) -> None:
    """It rests while a source is checked: what knows itself stays in memory, and is searched for again and again."""
    source = Source.read(ROOT / "fixtures" / "kernels" / f"{name}.ptx")
    check_source(source)  # imports leave something too
    gc.collect()
    gc.disable()
    try:
        report = check_source(source)
        left = gc.collect()
    finally:
        gc.enable()
    assert report.status == "analysed"
    assert left < 500


# ---------------------------------------------------------------- the command line


def test_one_bad_file_among_good_ones(tmp_path: Path) -> None:
    result = check(
        tmp_path, hopper(right()), b"\x7fELF\0\0", b"\xff\xfe\0", hopper(wrong()), b"caf\xe9\n", ""
    )
    assert result.return_value == 2
    for n, words in ((1, "ELF"), (2, "UTF-16"), (4, "UTF-8"), (5, "no PTX")):
        assert any(f"f{n}.ptx" in line and words in line for line in result.output.splitlines()), words
    assert "f3.ptx" in result.output
    assert "WG001" in result.output


def test_exit_codes(tmp_path: Path) -> None:
    assert check(tmp_path, hopper(right())).return_value == 0
    assert check(tmp_path, hopper(right()), hopper(wrong())).return_value == 1
    assert check(tmp_path, hopper(right()), hopper(kernel("bra nowhere;"))).return_value == 2


# ---------------------------------------------------------------- what a finding carries


def test_a_finding_knows_its_place_and_steps() -> None:
    text = hopper(right(), wrong()).replace(
        "    add.f32 %f5",
        "    .loc 1 10 3\n    .loc 1 42 7, function_name n, inlined_at 1 10 3\n    add.f32 %f5",
    )
    text = HOPPER + '.file 1 "gemm.cu"\n' + text.removeprefix(HOPPER)
    report = lint(text)
    (finding,) = report.findings
    assert finding.entry == "wrong"
    assert finding.source_location is not None
    assert (finding.source_location.file, finding.source_location.line, finding.source_location.column) == (
        "gemm.cu",
        42,
        7,
    )
    assert [(s.file, s.line) for s in finding.source_location.inlined_at] == [("gemm.cu", 10)]
    assert report.source is not None
    lines = [report.source.position(s.span.start).line for s in finding.steps]
    issue = text[: text.rindex("wgmma.mma_async")].count("\n") + 1
    assert lines[0] == issue
    assert lines[-1] == line_of(text, "add.f32 %f5")
    assert all(s.entry == "wrong" for s in finding.steps)
    assert [s.source_location for s in finding.steps if not s.aside] == [None, None, finding.source_location]


@pytest.mark.parametrize(
    ("locs", "expected"),
    [
        ("    .loc 1 0 0", None),
        ("    .loc 1 10 3\n    .loc 1 0 0, function_name n, inlined_at 1 10 3", ("gemm.cu", 10, 3, ())),
        ("    .loc 2 42 7", None),
        ("    .loc 1 10 3\n    .loc 2 42 7, function_name n, inlined_at 1 10 3", ("gemm.cu", 10, 3, ())),
    ],
)
def test_line_0_and_a_line_of_a_file_without_a_name_are_no_lines(
    locs: str, expected: tuple[object, ...] | None
) -> None:
    """Compilers write line 0 for what they made themselves; a file that was stripped of .file names none."""
    text = hopper(wrong()).replace("    add.f32 %f5", f"{locs}\n    add.f32 %f5")
    (finding,) = lint(HOPPER + '.file 1 "gemm.cu"\n' + text.removeprefix(HOPPER)).findings
    assert finding.source_location == (expected and SourceLocation(*expected))  # type: ignore[arg-type]


def test_names_comments_and_order_do_not_change_what_is_found() -> None:
    text = hopper(wrong(), right())
    renamed = text.replace("%f", "%acc_").replace("%rd", "%desc").replace("%p", "$q")
    commented = text.replace(", ", " /* , */ ,\n\t").replace(";", " // ;\n;")
    swapped = hopper(right(), wrong())
    prints = [
        [(f.rule.id, f.entry, f.fingerprint) for f in lint(t).findings]
        for t in (text, renamed, commented, swapped)
    ]
    assert prints[0]
    assert prints[1:] == prints[:1] * 3


def test_a_declaration_without_a_body_is_not_a_problem() -> None:
    report = lint(
        HEADER + ".extern .func printf (.param .b64 a);\n.extern .shared .b8 smem[];\n" + kernel("ret;")
    )
    assert report.status == "analysed"
    assert not found(report, low=False)


# ---------------------------------------------------------------- what the configuration leaves out


def ran(text: str, selected: Selected) -> set[str]:
    """The checks that ran, by the first rule of each."""
    stages: list[str] = []
    check_source(
        Source.from_bytes(text.encode(), "t.ptx"),
        Request(selected),
        clock=lambda stage, _: stages.append(stage),
    )
    return {stage.removeprefix("check ") for stage in stages if stage.startswith("check ")}


def test_a_check_runs_only_when_one_of_its_rules_is_on() -> None:
    text = hopper(wrong())
    assert {"WG001", "PX001"} <= ran(text, Selected())
    assert ran(text, Selected(rules=frozenset({"WG001"}))) == {"WG001"}
    assert ran(text, Selected(rules=frozenset({"PX006"}))) == {"PX001"}
    report = check_source(
        Source.from_bytes(text.encode(), "t.ptx"), Request(Selected(rules=frozenset({"WG004"})))
    )
    assert report.findings == ()


def test_only_the_functions_that_are_asked_for_are_checked() -> None:
    text = hopper(wrong("first"), wrong("second"), kernel("addd.s32 %r1, %r1, 1;\nret;", "third"))
    report = check_source(Source.from_bytes(text.encode(), "t.ptx"), Request(Selected(entry=("sec*", "x"))))
    assert [f.entry for f in report.findings] == ["second"]
    assert report.entries == ("first", "second", "third")
    assert "WG001" not in ran(text, Selected(entry=("none",)))
