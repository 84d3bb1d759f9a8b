"""The rules about the statement around inline assembly: qualifiers, clobbers, constraints, addresses, registers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tclint.config.config import Config
from tclint.driver.fixing import Fixed, shown, tried
from tclint.findings.finding import FileReport
from tclint.findings.rules import CodeBlock, Rule, all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.inline import module as inline
from tclint.syntax.source import Source

pytest.importorskip("tree_sitter_cpp")
pytest.importorskip("tree_sitter_python")


def check(text: str, name: str = "kernel.cu") -> FileReport:
    return inline.check(Source.from_bytes(text.encode(), name))


def reported(text: str, name: str = "kernel.cu") -> list[tuple[str, str]]:
    """The rules of all findings, each with the text that it points at."""
    report = check(text, name)
    assert not report.problems, report.problems
    return [(f.rule.id, text[f.span.start : f.span.end]) for f in report.findings]


def in_function(statement: str) -> str:
    return f"__device__ void f(unsigned a, unsigned b, unsigned* p, float x) {{ {statement} }}\n"


def rules(statement: str) -> list[str]:
    return [rule for rule, _ in reported(in_function(statement))]


# ---------------------------------------------------------------- the pages

PAGES = {id: all_rules()[id] for id in sorted(inline.STATEMENT)}


def blocks(part: str) -> Iterator[object]:
    for rule in PAGES.values():
        for number, block in enumerate(getattr(rule, part)):
            yield pytest.param(rule, block, id=f"{rule.id}-{number}")


@pytest.mark.parametrize(("rule", "block"), list(blocks("statements")))
def test_an_example_is_found_and_a_fix_of_it_holds(rule: Rule, block: CodeBlock) -> None:
    report = shown(Source(block.code.encode(), "block.cu"), Config(pedantic=True))
    assert {f.rule.id for f in report.findings} == {rule.id}
    assert {f.severity for f in report.findings} >= {rule.severity}
    for finding in report.findings:
        for fix in finding.fixes:
            assert isinstance(tried(report, [(finding, fix)], Config()), Fixed)


@pytest.mark.parametrize(("rule", "block"), list(blocks("corrected_statements")))
def test_a_correction_is_clean(rule: Rule, block: CodeBlock) -> None:
    assert reported(block.code) == []


# ---------------------------------------------------------------- volatile


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ('asm("atom.global.add.u32 %0, [%1], 1;" : "=r"(a) : "l"(p));', "atom.global.add.u32 %0, [%1], 1;"),
        ('asm("mov.u32 %0, %%clock;" : "=r"(a));', "mov.u32 %0, %%clock;"),
        ('asm("ld.acquire.gpu.u32 %0, [%1];" : "=r"(a) : "l"(p));', "ld.acquire.gpu.u32 %0, [%1];"),
        ('asm("ld.volatile.u32 %0, [%1];" : "=r"(a) : "l"(p));', "ld.volatile.u32 %0, [%1];"),
        (
            'asm("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(b));',
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];",
        ),
        ('asm("mov.u32 %0, 1; st.shared.u32 [%1], %0;" : "=&r"(a) : "r"(b));', "st.shared.u32 [%1], %0;"),
    ],
)
def test_an_effect_without_volatile_is_reported_at_its_instruction(statement: str, word: str) -> None:
    assert reported(in_function(statement)) == [("IA001", word)]


def test_a_load_from_shared_memory_is_a_note() -> None:
    """It is right if no thread writes the memory any more."""
    load = 'asm("ld{}.shared.u32 %0, [%1];" : "=r"(a) : "r"(b));'
    found = [check(in_function(load.replace("{}", kind))).findings for kind in ("", ".volatile")]
    assert [f.severity for (f,) in found] == [Severity.INFO, Severity.WARNING]


@pytest.mark.parametrize(
    "statement",
    [
        'asm("mov.u32 %0, %%tid.x;" : "=r"(a));',
        'asm("mov.u32 %0, %%smid;" : "=r"(a));',
        'asm("ld.global.nc.u32 %0, [%1];" : "=r"(a) : "l"(p));',
        'asm("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(p));',
        'asm("shfl.sync.bfly.b32 %0, %1, 1, 31, -1;" : "=r"(a) : "r"(b));',
        'asm("st.global.u32 [%0], %1;" :: "l"(p), "r"(a) : "memory");',
        'asm("atom.global.add.u32 %0, [%1], 1;" : "=r"(a) : "l"(p) : "memory");',
        '__asm__ __volatile__("mov.u32 %0, %%clock;" : "=r"(a));',
        'asm VOLATILE("mov.u32 %0, %%clock;" : "=r"(a));',
        'asm("mov.u32 %0, %%clock;" : "=r"(a) :: CLOBBERS);',
    ],
)
def test_a_statement_without_effect_or_with_unknown_qualifiers_is_not_reported(statement: str) -> None:
    assert rules(statement) == []


ATOM = '"atom.global.add.u32 $0, [$1], 1;", "=r,l"'


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (f"llvm.inline_asm(t, [a], {ATOM}, has_side_effects=True)", False),
        (f"llvm.inline_asm(t, [a], {ATOM}, has_side_effects=False)", True),
        (f"llvm.inline_asm(t, [a], {ATOM}, has_side_effects=flag)", False),
        (f"llvm.inline_asm(t, [a], {ATOM}, **options)", False),
        (f"llvm.inline_asm(t, [a], {ATOM})", True),
        (f"ir.InlineAsm(t, {ATOM})", True),
        (f"ir.InlineAsm(t, {ATOM}, True)", False),
        (f"ir.InlineAsm(t, {ATOM}, side_effect=True)", False),
        (f"tl.inline_asm_elementwise({ATOM}, [a], dtype=t, is_pure=True, pack=1)", True),
        (f"tl.inline_asm_elementwise({ATOM}, [a], dtype=t, is_pure=False, pack=1)", False),
        (f"tl.inline_asm_elementwise({ATOM}, [a], t, True, 1)", True),
    ],
)
def test_the_calls_of_python_state_whether_there_are_effects(call: str, found: bool) -> None:
    assert [rule for rule, _ in reported(f"{call}\n", "k.py")] == ["IA001"] * found


def test_a_fix_changes_the_argument_of_a_call() -> None:
    text = f"tl.inline_asm_elementwise({ATOM}, [a], dtype=t, is_pure=True, pack=1)\n"
    report = shown(Source(text.encode(), "k.py"), Config())
    (finding,) = report.findings
    made = tried(report, [(finding, finding.fixes[0])], Config())
    assert isinstance(made, Fixed)
    assert made.source.data.decode() == text.replace("is_pure=True", "is_pure=False")


def test_a_memory_clobber_counts_in_python() -> None:
    text = 'ir.InlineAsm(t, "atom.global.add.u32 $0, [$1], 1;", "=r,l,~{memory}")\n'
    assert reported(text, "k.py") == []


# ---------------------------------------------------------------- the clobber


@pytest.mark.parametrize(
    ("instruction", "confidence"),
    [
        ("bar.sync 0;", Confidence.MEDIUM),
        ("fence.acq_rel.gpu;", Confidence.MEDIUM),
        ("cp.async.wait_all;", Confidence.LOW),
        ("st.release.gpu.global.u32 [%0], %1;", Confidence.MEDIUM),
        ("st.global.u32 [%0], %1;", Confidence.LOW),
        ("wgmma.wait_group.sync.aligned 0;", None),
        ("barrier.cluster.arrive.relaxed.aligned;", None),
        ("nanosleep.u32 20;", None),
    ],
)
def test_what_orders_memory_needs_the_clobber(instruction: str, confidence: Confidence | None) -> None:
    report = check(in_function(f'asm volatile("{instruction}" :: "l"(p), "r"(a));'))
    assert [(f.rule.id, f.severity, f.confidence) for f in report.findings] == [
        ("IA002", Severity.INFO, confidence)
    ] * (confidence is not None)


def test_the_clobber_is_a_warning_in_strict_mode() -> None:
    source = Source(in_function('asm volatile("bar.sync 0;");').encode(), "kernel.cu")
    (finding,) = inline.check(source, Selected(strict=True)).findings
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("statement", "fixed"),
    [
        ('asm volatile("bar.sync 0;")', 'asm volatile("bar.sync 0;" ::: "memory")'),
        ('asm volatile("bar.sync 0;" :)', 'asm volatile("bar.sync 0;" : :: "memory")'),
        ('asm volatile("bar.sync 0;" : :)', 'asm volatile("bar.sync 0;" : : : "memory")'),
        ('asm volatile("bar.sync 0;" :::)', 'asm volatile("bar.sync 0;" :::"memory")'),
        ('asm volatile("bar.sync %0;" :: "r"(a))', 'asm volatile("bar.sync %0;" :: "r"(a) : "memory")'),
        (
            'asm volatile("bar.sync 0;" ::: "cc" /* why */)',
            'asm volatile("bar.sync 0;" ::: "cc" /* why */, "memory")',
        ),
        ('asm("mov.u32 %0, %%clock;" : "=r"(a))', 'asm volatile("mov.u32 %0, %%clock;" : "=r"(a))'),
        (
            'asm volatile("mov.u32 %0, 5;add.u32 %0, %0, %1;" : "+r"(a) : "r"(a))',
            'asm volatile("mov.u32 %0, 5;add.u32 %0, %0, %1;" : "+&r"(a) : "r"(a))',
        ),
    ],
)
def test_a_fix_edits_the_statement(statement: str, fixed: str) -> None:
    report = shown(Source(in_function(f"{statement};").encode(), "kernel.cu"), Config())
    (finding,) = report.findings
    made = tried(report, [(finding, finding.fixes[0])], Config())
    assert isinstance(made, Fixed)
    assert made.source.data.decode() == in_function(f"{fixed};")


def test_a_basic_statement_with_a_percent_sign_gets_no_clobber() -> None:
    """With a colon, the percent sign would begin a placeholder."""
    (finding,) = check(in_function('asm volatile("bar.sync 0; // 100%");')).findings
    assert (finding.rule.id, finding.fixes) == ("IA002", ())


def test_a_statement_in_braces_is_not_defined_twice() -> None:
    text = in_function('asm volatile(".reg .pred q; L: @q bra L;\\n" ::: "memory");')
    report = shown(Source(text.encode(), "kernel.cu"), Config())
    assert [f.rule.id for f in report.findings] == ["PX007", "PX007"]
    finding = report.findings[1]
    made = tried(report, [(finding, finding.fixes[0])], Config())
    assert isinstance(made, Fixed)
    assert b'"{.reg .pred q; L: @q bra L;\\n}"' in made.source.data
    assert made.report.findings == ()


# ---------------------------------------------------------------- operands


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ('asm("add.u32 %1, %1, 1; mov.u32 %0, %1;" : "=r"(a) : "r"(b));', ["IA003"]),
        ('asm("{.reg .pred q; setp.eq.u32 q, %1, 0; @q mov.u32 %1, 1; mov.u32 %0, %1;}" : "=r"(a) : "r"(b));', ["IA003"]),
        ('asm("add.u32 %1, %1, 1; mov.u32 %0, %1;" : "=r"(a) : "0"(b));', []),
        ('asm("add.u32 %0, %0, 1;" : "+r"(a));', []),
        ('asm("mov.b64 {%0, %1}, %2;" : "=r"(a), "=r"(b) : "l"(p));', []),
        ('asm("mov.u32 %0, %1;" : "=r"(a), "=r"(b) : );', ["IA004"]),
        ('asm("" : "=r"(a));', []),
        ('asm("" : "+r"(a));', []),
        ('asm("{.reg .pred q; setp.eq.u32 q, %1, 0; @q mov.u32 %0, 1;}" : "=r"(a) : "r"(b));', ["IA004"]),
        ('asm("{.reg .pred q; setp.eq.u32 q, %1, 0; @q mov.u32 %0, 1;}" : "+r"(a) : "r"(b));', []),
        (
            'asm("{.reg .pred q; setp.eq.u32 q, %1, 0; @q mov.u32 %0, 1; @!q mov.u32 %0, 2;}" : "=r"(a) : "r"(b));',
            [],
        ),
        ('asm("{call (%0), g, (%1);}" : "=r"(a) : "r"(b));', []),
        ('asm("mov.u32 %0, 1;" MACRO : "=r"(a), "=r"(b));', []),
        ('asm("mov.u32 %0, 5; add.u32 %0, %0, %1;" : "=r"(a) : "r"(a));', ["IA005"]),
        ('asm("mov.u32 %0, 5; add.u32 %0, %0, %1;" : "=r"(a) : "r"( a ));', ["IA005"]),
        ('asm("mov.u32 %0, 5; add.u32 %0, %0, %1;" : "=r"(a) : "r"(b));', []),
        ('asm("mov.u32 %0, 5; add.u32 %0, %0, %1;" : "=r"(a) : "0"(a));', []),
        ('asm("mov.u32 %0, 5; add.u32 %0, %0, %1;" : "=&r"(a) : "r"(a));', []),
        ('asm("add.u32 %0, %1, %1;" : "=r"(a) : "r"(a));', []),
        ('asm("mov.u32 %0, %1; add.u32 %0, %0, %1;" : "=r"(a) : "r"(a));', []),
        (
            'asm("{.reg .pred q; setp.eq.u32 q, %2, 0; @q mov.u32 %0, 1; @!q mov.u32 %0, %1;}" : "=r"(a) : "r"(a), "r"(b));',
            [],
        ),
        (
            'asm("{.reg .pred q; setp.eq.u32 q, %2, 0; @q mov.u32 %0, 1; add.u32 %0, 1, %1;}" : "=r"(a) : "r"(a), "r"(b));',
            ["IA005"],
        ),
        (
            ('asm("{.reg .pred q; setp.eq.u32 q, %2, 0; @q bra L; mov.u32 %0, 1; bra M; L: mov.u32 %0, %1; M:}"'
            ' : "=r"(a) : "r"(a), "r"(b));'),
            [],
        ),
    ],
)  # fmt: skip
def test_operands_are_written_as_their_constraints_state(statement: str, found: list[str]) -> None:
    assert rules(statement) == found


def test_a_guarded_write_is_a_note_and_a_missing_one_a_warning() -> None:
    guarded = 'asm("{.reg .pred q; setp.eq.u32 q, %1, 0; @q mov.u32 %0, 1;}" : "=r"(a) : "r"(b));'
    missing = 'asm("mov.u32 %0, %1;" : "=r"(a), "=r"(b));'
    (note,), (warning,) = (check(in_function(text)).findings for text in (guarded, missing))
    assert (note.severity, note.confidence) == (Severity.INFO, Confidence.LOW)
    assert (warning.severity, warning.confidence) == (Severity.WARNING, Confidence.HIGH)


def test_a_call_of_python_may_have_a_result_that_nothing_writes() -> None:
    text = 'llvm.inline_asm(t, [p, a], "st.global.u32 [$1], $2;", "=r,l,r", has_side_effects=True)\n'
    assert reported(text, "k.py") == []


# ---------------------------------------------------------------- addresses and registers


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("p", True),
        ("&p[1]", True),
        ("p + 1", True),
        ("(unsigned long long)p", True),
        ("reinterpret_cast<uint64_t>(&table)", True),
        ("__cvta_generic_to_shared(p)", False),
        ("to_shared(&p[1])", False),
        ("static_cast<uint64_t>(__cvta_generic_to_shared(p))", False),
        ("a", False),
        ("q", False),
    ],
)
@pytest.mark.parametrize(
    "instruction",
    [
        "ld.shared.u32 %0, [%1];",
        "atom.shared::cta.add.u32 %0, [%1+4], 1;",
        "mov.u32 %0, 1; mbarrier.init.shared.b64 [%1], %0;",
        "mov.u32 %0, 1; st.bulk.shared::cta [%1], 64, 0;",
        "mov.u32 %0, 1; cp.async.ca.shared.global [%1], [%2], 16;",
    ],
)
def test_a_generic_address_is_reported_in_shared_memory(
    instruction: str, expression: str, found: bool
) -> None:
    operands = f'"=&r"(a) : "l"({expression}), "l"(b)'
    report = check(in_function(f'asm volatile("{instruction}" : {operands} : "memory");'))
    assert [(f.rule.id, f.severity) for f in report.findings] == [("IA006", Severity.INFO)] * found


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.u32 %0, [%1];",
        "ld.global.u32 %0, [%1];",
        "mov.u32 %0, 1; st.bulk.weak [%1], 64, 0;",
        "mov.u32 %0, 1; clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%1], [%1];",
        (
            "mov.u32 %0, 1; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
            " [%1], [%0], 128;"
        ),
    ],
)
def test_a_generic_address_is_right_in_other_memory(instruction: str) -> None:
    assert rules(f'asm volatile("{instruction}" : "=r"(a) : "l"(p) : "memory");') == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{.reg .pred q, r; setp.eq.u32 q, %0, 0;}", ["r"]),
        ("{.reg .b32 %%t<4>; mov.u32 %%t2, %0;}", []),
        ("{.reg .b32 %%t<4>;}", ["%t"]),
        ("{.reg .b32 t; /* t */ // t\\n}", ["t"]),
    ],
)
def test_a_register_that_is_never_used_is_a_note(text: str, names: list[str]) -> None:
    findings = check(in_function(f'asm volatile("{text}" :: "r"(a));')).findings
    assert [(f.rule.id, f.message.split()[1]) for f in findings] == [("IA007", name) for name in names]


def test_a_register_of_another_string_is_used() -> None:
    assert rules('asm volatile("{.reg .u32 t;"); asm volatile("mov.u32 t, %0;}" :: "r"(a));') == []


# ---------------------------------------------------------------- places


def test_a_statement_in_a_macro_is_reported_and_fixed_at_its_place() -> None:
    text = (
        "#define GET(d, p) \\\n"
        '  asm("{\\n" \\\n'
        '      "atom.global.add.u32 %0, [%1], 1;" \\\n'
        '      "}" : "=r"(d) : "l"(p))\n'
    )
    report = shown(Source(text.encode(), "kernel.cuh"), Config())
    (finding,) = report.findings
    assert report.source is not None
    assert report.source.position(finding.span.start) == (3, 8)
    made = tried(report, [(finding, finding.fixes[0])], Config())
    assert isinstance(made, Fixed)
    assert made.source.data.decode() == text.replace('asm("', 'asm volatile("')


def test_a_statement_with_a_piece_of_a_macro_is_not_reported() -> None:
    """The piece may write the output, or be the barrier."""
    for statement in (
        '#define M(x, y) asm volatile("bar.sync 0; " #y "; " : "=r"(x));\n',
        '#define M(x, y) asm volatile("bar.sync 0; " : "=r"(x) y);\n',
    ):
        assert reported(statement) == []


def test_cuda_in_a_string_of_python_is_reported_at_its_place() -> None:
    text = "import cupy\nk = cupy.RawKernel(r'''\n__global__ void f(unsigned* p) { unsigned a, b = 1;\n" + (
        '  asm("atom.global.add.u32 %0, [%1], 1;" : "=r"(a) : "l"(p));\n'
        '  asm("mov.u32 %0, 5; add.u32 %0, %0, %1;" : "=r"(b) : "r"(b)); }\'\'\', "f")\n'
    )
    report = shown(Source(text.encode(), "k.py"), Config())
    assert [f.rule.id for f in report.findings] == ["IA001", "IA005"]
    source = report.source
    assert source is not None
    assert [source.position(f.span.start).line for f in report.findings] == [4, 5]
    made = tried(report, [(f, f.fixes[0]) for f in report.findings], Config())
    assert isinstance(made, Fixed)
    fixed = text.replace('asm("atom', 'asm volatile("atom').replace('"=r"(b)', '"=&r"(b)')
    assert made.source.data.decode() == fixed


def test_a_comment_hides_a_finding_about_the_statement() -> None:
    text = in_function('asm volatile("bar.sync 0;");  // tclint: ignore[IA002] nothing is in memory\n')
    assert [f.suppressed for f in check(text).findings] == ["nothing is in memory"]
