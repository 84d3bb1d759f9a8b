"""Fixes: each removes its finding and adds no other, and ptxas accepts the changed module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.faults import OPERATORS
from benchmarks.fixes import DELETIONS, faults, fixed
from benchmarks.ptxas import Ptxas
from tclint.config.config import Config
from tclint.driver.fixing import Fixed, shown, tried
from tclint.findings.edits import Repair, after, before, inverted, joined, opcode, operand, resolve, without
from tclint.findings.finding import FileReport, Finding, Fix
from tclint.findings.rules import CodeBlock, Rule, all_rules
from tclint.findings.scales import Confidence
from tclint.ir.build import build
from tclint.syntax import parse
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.ptxas import find_ptxas
from tests.tools.support import HOPPER, WGMMA, kernel, lint, module

RULES = all_rules()

ADDS_MORE = {
    ("PX002", "misspelt_member"): "an instruction that was not known is seen for the first time",
    ("SU002", "misspelt_rule"): "the comment that is understood then hides nothing",
}
"""Examples in which every fix uncovers another finding, so that ``--fix`` does not keep it; the entry names the example."""


def _config(rule: Rule) -> Config:
    """What shows the findings of a rule that are of low confidence by default."""
    return Config(pedantic=rule.confidence is Confidence.LOW, toolkit=rule.toolkit)


def _examples(*ids: str) -> Iterator[tuple[Rule, CodeBlock, str]]:
    for rule in map(RULES.__getitem__, ids or RULES):
        for block in rule.examples:
            yield rule, block, re.findall(r"\.entry (\w+)", block.code)[-1]


@cache
def _found(rule: str, line: int) -> tuple[FileReport, tuple[Finding, ...]]:
    """The report on an example, and the findings in it of its rule."""
    block = next(b for b in RULES[rule].examples if b.line == line)
    report = shown(Source(block.code.encode(), f"{rule}.ptx"), _config(RULES[rule]))
    return report, tuple(f for f in report.findings if f.rule.id == rule)


def _holding(rule: Rule, report: FileReport, finding: Finding) -> list[tuple[Fix, Fixed]]:
    """The fixes of a finding that hold, with what they make of the text."""
    made = ((fix, tried(report, [(finding, fix)], _config(rule))) for fix in finding.fixes)
    return [(fix, result) for fix, result in made if isinstance(result, Fixed)]


@pytest.mark.parametrize("id", RULES)
def test_a_fix_of_an_example_removes_the_finding_and_adds_no_other(id: str) -> None:
    for rule, block, name in _examples(id):
        report, findings = _found(rule.id, block.line)
        for finding in findings:
            holding = [fix for fix, _ in _holding(rule, report, finding)]
            if (rule.id, name) in ADDS_MORE:
                assert finding.fixes
                assert not holding
            elif finding.fixes:
                assert holding, [tried(report, [(finding, fix)], _config(rule)) for fix in finding.fixes]
                assert {fix for fix in finding.fixes if fix.safe} <= set(holding)


@pytest.mark.slow
@pytest.mark.parametrize("id", RULES)
def test_ptxas_takes_what_a_fix_makes_of_an_example(id: str) -> None:
    ptxas = Ptxas(find_ptxas())
    for rule, block, _ in _examples(id):
        report, findings = _found(rule.id, block.line)
        for finding in findings:
            for _, result in _holding(rule, report, finding):
                done = ptxas.compile(result.source.data, 60)
                assert done.status == 0, done.said


# ---------------------------------------------------------------- planted faults

PLANTED = {
    "wgmma.wait_group deleted": "nvcc-wgmma_gemm.sm_90a",
    "wgmma.commit_group deleted": "nvcc-wgmma_gemm.sm_90a",
    "wgmma.fence deleted": "nvcc-wgmma_gemm.sm_90a",
    "wgmma.wait_group 0 to 1": "nvcc-wgmma_gemm.sm_90a",
    "cp.async.wait deleted": "nvcc-mma_gemm.sm_80",
    "cp.async.commit_group deleted": "nvcc-mma_gemm.sm_80",
    "cp.async.wait_group N to N+1": "nvcc-mma_gemm.sm_80",
    "bulk wait_group deleted": "nvcc-bulk_ring.sm_90",
    "proxy fence deleted": "nvcc-bulk_ring.sm_90",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_that_is_found_is_fixed(name: str) -> None:
    assert name in OPERATORS
    assert name in DELETIONS
    path = ROOT / "fixtures" / "kernels" / f"{PLANTED[name]}.ptx"
    outcomes = [fixed(kernel, fault, path.name) for kernel, fault in list(faults(path, name))[:2]]
    assert outcomes
    assert set(outcomes) <= {"clean", "silent"}
    assert "clean" in outcomes


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures").glob("*.ptx")), ids=lambda path: path.stem)
def test_a_safe_fix_of_a_fixture_holds(path: Path) -> None:
    report = shown(Source.read(path), Config())
    for finding in report.findings:
        for fix in finding.fixes:
            made = tried(report, [(finding, fix)], Config())
            assert isinstance(made, Fixed), made


# ---------------------------------------------------------------- where a fix may be inserted


def _texts(text: str, rule: str) -> list[str]:
    """What the first fix of each finding of *rule* makes of the text."""
    found = [f for f in lint(text).findings if f.rule.id == rule]
    assert found, rule
    return [joined(text.encode(), f.fixes[0].edits).decode() if f.fixes else "" for f in found]


ISSUED = f"""
    setp.ne.b32 %p0, 0, 0;
    wgmma.fence.sync.aligned;
    {WGMMA}
    wgmma.commit_group.sync.aligned;
"""


def test_a_wait_is_inserted_before_a_branch_that_splits_the_warp() -> None:
    text = module(
        kernel(f"""{ISSUED}
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p1, %r0, 0;
    @!%p1 bra done;
    st.global.f32 [%rd5], %f0;
done:
    wgmma.wait_group.sync.aligned 0;
    ret;"""),
        header=HOPPER,
    )
    (fixed,) = _texts(text, "WG001")
    assert "    wgmma.wait_group.sync.aligned 0;\n    @!%p1 bra done;" in fixed


def test_no_wait_is_put_where_it_is_not_shown_that_all_threads_come() -> None:
    text = module(
        kernel(f"""
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p1, %r0, 0;
    @!%p1 bra done;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r1}}, [%r2];
    add.u32 %r3, %r1, 1;
    st.global.u32 [%rd5], %r3;
done:
    ret;{ISSUED[:0]}""")
    )
    for finding in lint(text).findings:
        assert not any("tcgen05.wait" in edit.text for fix in finding.fixes[:1] for edit in fix.edits) or (
            finding.rule.id == "TC007"
        )


def test_a_wait_for_copies_is_inserted_before_the_barrier_that_publishes_them() -> None:
    """Each iteration copies for the next one, so that some copies do not pass the barrier before the reads."""
    copies = """
    cp.async.cg.shared.global [{}], [%rd1], 16;
    cp.async.commit_group;"""
    text = module(
        kernel(f"""
    .shared .align 128 .b8 tile[8192];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    cvta.to.global.u64 %rd1, %rd0;
    shl.b32 %r2, %r0, 4;
    mov.u32 %r1, tile;
    add.u32 %r3, %r1, %r2;
    mov.u32 %r6, 0;
{copies.format("%r3")}
loop:
    bar.sync 0;
    and.b32 %r7, %r6, 1;
    shl.b32 %r8, %r7, 12;
    add.u32 %r9, %r3, %r8;
    xor.b32 %r10, %r8, 4096;
    add.u32 %r11, %r3, %r10;
{copies.format("%r11")}
    ld.shared.u32 %r12, [%r9];
    ld.shared.u32 %r13, [%r9+4];
    add.s32 %r6, %r6, 1;
    setp.lt.s32 %p0, %r6, 8;
    @%p0 bra loop;
    cp.async.wait_all;""")
    )
    (fixed,) = _texts(text, "CA001")
    assert "cp.async.wait_all;\n    bar.sync 0;" in fixed


@pytest.mark.parametrize(
    ("barrier", "found"),
    [
        ("bar.sync 0;", "cp.async.wait_all;\n    bar.sync 0;\n    fence.proxy.async.shared::cta;"),
        ("", "cp.async.wait_all;\n    fence.proxy.async.shared::cta;"),
    ],
)
def test_a_wait_for_copies_is_inserted_before_the_barrier_not_before_a_fence_after_it(
    barrier: str, found: str
) -> None:
    text = module(
        kernel(f"""
    .shared .align 128 .b8 tile[4096];
    mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 4;
    mov.u32 %r2, tile;
    add.u32 %r3, %r2, %r1;
    cp.async.cg.shared.global [%r3], [%rd5], 16;
    cp.async.commit_group;
    {barrier}
    fence.proxy.async.shared::cta;
    ld.shared.u32 %r4, [%r3];
    ret;"""),
        header=HOPPER,
    )
    (fixed,) = _texts(text, "CA001")
    assert found in fixed


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_a_wait_after_a_loop_is_preferred_to_one_that_stalls_every_iteration(barrier: str) -> None:
    """A barrier in the loop releases what the multiplications of the previous iteration read."""
    text = module(
        kernel(f"""
    mov.u32 %r6, 0;
    setp.ne.b32 %p0, 0, 0;
    wgmma.fence.sync.aligned;
loop:
    {WGMMA}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    {barrier}
    add.s32 %r6, %r6, 1;
    setp.lt.s32 %p1, %r6, 8;
    @%p1 bra loop;
    bar.sync 0;
    st.global.f32 [%rd5], %f0;
    ret;"""),
        header=HOPPER,
    )
    (finding,) = [f for f in lint(text).findings if f.rule.id == "WG001"]
    first, *others = (joined(text.encode(), fix.edits).decode() for fix in finding.fixes)
    assert "@%p1 bra loop;\n    wgmma.wait_group.sync.aligned 0;\n    bar.sync 0;" in first
    assert "wgmma.wait_group.sync.aligned 1;" in first
    assert f"wgmma.wait_group.sync.aligned 0;\n    {barrier}\n    add.s32" in others[-1]


def test_a_barrier_after_the_initialisation_is_not_inserted_into_the_loop_that_uses_it() -> None:
    text = module(
        kernel("""
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared::cta.b64 [full], 1;
    @%p0 mbarrier.init.shared::cta.b64 [empty], 128;
    mov.u32 %r6, 0;
loop:
    @%p0 mbarrier.arrive.shared::cta.b64 _, [full];
    and.b32 %r7, %r6, 1;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], %r7;
    @!%p1 bra wait;
    add.s32 %r6, %r6, 1;
    setp.lt.s32 %p2, %r6, 8;
    @%p2 bra loop;
    ret;""", directives=".reqntid 128"),
        header=HOPPER,
    )  # fmt: skip
    (fixed,) = _texts(text, "MB002")
    assert "[empty], 128;\n    bar.sync 0;" in fixed


def test_a_barrier_after_the_initialisation_follows_the_fences_for_it() -> None:
    text = module(
        kernel("""
    .shared .align 8 .b64 full;
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared::cta.b64 [full], 128;
    fence.mbarrier_init.release.cluster;
    bar.warp.sync -1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared::cta.b64 _, [full];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra wait;
    ret;"""),
        header=HOPPER,
    )  # fmt: skip
    (fixed,) = _texts(text, "MB002")
    assert "fence.proxy.async.shared::cta;\n    bar.sync 0;\n    mbarrier.arrive" in fixed


def test_a_wait_for_wgmma_is_inserted_before_the_barrier_that_releases_what_it_reads() -> None:
    text = module(
        kernel(f"""
    .shared .align 8 .b64 empty;
    {ISSUED}
    mov.u32 %r1, 0;
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    st.global.f32 [%rd5], %f0;
    ret;"""),
        header=HOPPER,
    )
    (fixed,) = _texts(text, "WG001")
    assert "wgmma.wait_group.sync.aligned 0;\n    bar.sync 0;\n    mbarrier.arrive" in fixed


def test_a_wait_for_stores_follows_the_last_of_them() -> None:
    store = "tcgen05.st.sync.aligned.32x32b.x1.b32 [{}], {{%r2}};"
    text = module(
        kernel(f"""
    .shared .align 8 .b32 slot;
    ld.shared.b32 %r9, [slot];
    add.u32 %r10, %r9, 32;
    {store.format("%r9")}
    {store.format("%r10")}
    mov.u32 %r3, 0;
    bar.sync 0;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r9];
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r5}}, [%r10];
    tcgen05.wait::ld.sync.aligned;
    ret;""")
    )
    last = f"{store.format('%r10')}\n    tcgen05.wait::st.sync.aligned;\n    mov.u32 %r3, 0;"
    assert all(last in changed for changed in _texts(text, "TC004"))


TWICE = "{ .reg .b32 %q<2>; mov.u32 %q0, 1; } { .reg .b32 %q<2>; mov.u32 %q0, 1; }"


@pytest.mark.parametrize(
    ("body", "counts"),
    {
        "one more is needed": (".reg .pred %p7, %q<2>;\nsetp.eq.u32 %q2, 1, 0;", ["3"]),
        "in a guard": (".reg .pred %q<2>;\n@%q5 mov.u32 %r1, 0;", ["6"]),
        "another prefix": (".reg .b32 %qq<2>;\nmov.u32 %q2, 1;", []),
        "no range": (".reg .b32 %q1;\nmov.u32 %q2, 1;", []),
        "no number": (".reg .b32 %q<2>;\nmov.u32 %q, 1;", []),
        "a scope that has ended": ("{ .reg .b32 %q<3>; mov.u32 %q0, 1; }\nmov.u32 %q2, 1;", []),
        "several declarations": (f"{TWICE}\nmov.u32 %q2, 1;", []),
    }.values(),
)
def test_the_count_of_a_range_without_the_register_is_raised(body: str, counts: list[str]) -> None:
    text = module(kernel(f"{body}\nret;"))
    (finding,) = [f for f in lint(text).findings if f.rule.id == "PX005"]
    edits = [edit for fix in finding.fixes for edit in fix.edits]
    assert [edit.text for edit in edits] == counts
    assert all(text[edit.span.start : edit.span.end] == "2" for edit in edits)
    assert not any(fix.safe for fix in finding.fixes)  # the name may be the mistake


def test_a_wait_in_an_inlined_function_is_not_a_safe_fix() -> None:
    callee = f""".func issue()
{{
    .reg .f32 %f<8>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    setp.ne.b32 %p0, 0, 0;
    {WGMMA}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    ret;
}}
"""
    text = module(callee, kernel("    call issue;\n    ret;"), header=HOPPER)
    findings = [f for f in lint(text).findings if f.rule.id == "WG002" and f.entry == "k"]
    assert findings
    for finding in findings:
        for fix in finding.fixes:
            assert not fix.safe
            (edit,) = fix.edits
            assert text.encode()[edit.span.start :].startswith(b"wgmma.mma_async")


# ---------------------------------------------------------------- edits

PLAIN = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
start:  mov.u32 %r0, 1; mov.u32 %r1, 2;  // both
\tadd.u32 %r2, // the sum
\t\t%r0 /* first, */, %r1;
    @!%p0 mov.u32 %r3, {0};
    @%p1 bra start;
    ret; // the end
}
"""


def _edited(*repairs: Repair, text: str = PLAIN) -> str:
    data = text.replace("{0}", "0").encode()
    source = Source(data, "k.ptx")
    (function,) = build(parse(data), data).functions
    fixes = resolve(source, function, repairs)
    assert len(fixes) == len(repairs)
    return joined(data, [edit for fix in fixes for edit in fix.edits]).decode()


def _one(change: object, text: str = PLAIN) -> list[tuple[str, str]]:
    """The lines that a change removes, and those that it adds."""
    old = text.replace("{0}", "0").splitlines()
    new = _edited(Repair("", (change,)), text=text).splitlines()  # type: ignore[arg-type]
    return [("".join(l for l in old if l not in new), "|".join(l for l in new if l not in old))]


@pytest.mark.parametrize(
    ("change", "gone", "come"),
    [
        (before(2, "bar.sync 0;"), "", "\tbar.sync 0;"),
        (before(2, "a;", "b;"), "", "\ta;|\tb;"),
        (after(5, "a;"), "", "    a;"),
        (before(0, "a;"), "start:  mov.u32 %r0, 1; mov.u32 %r1, 2;  // both", "start:  a; mov.u32 %r0, 1; mov.u32 %r1, 2;  // both"),
        (after(0, "a;"), "start:  mov.u32 %r0, 1; mov.u32 %r1, 2;  // both", "start:  mov.u32 %r0, 1; a; mov.u32 %r1, 2;  // both"),
        (after(1, "a;"), "", "a;"),
        (opcode(2, "sub.u32"), "\tadd.u32 %r2, // the sum", "\tsub.u32 %r2, // the sum"),
        (operand(2, "b", "7"), "\t\t%r0 /* first, */, %r1;", "\t\t%r0 /* first, */, 7;"),
        (operand(2, "a", "7"), "\t\t%r0 /* first, */, %r1;", "\t\t7 /* first, */, %r1;"),
        (without(3), "    @!%p0 mov.u32 %r3, 0;", ""),
        (inverted(3), "    @!%p0 mov.u32 %r3, 0;", "    @%p0 mov.u32 %r3, 0;"),
        (inverted(4), "    @%p1 bra start;", "    @!%p1 bra start;"),
    ],
)  # fmt: skip
def test_an_edit_changes_its_instruction_and_nothing_else(change: object, gone: str, come: str) -> None:
    assert _one(change) == [(gone, come)]


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("\n\t// end inline asm\n", "\n\t// end inline asm\n\ta;\n"),
        ("\n\n\t// end inline asm\n", "\n\n\t// end inline asm\n\ta;\n"),
        ("\n\t}\n\t// end inline asm\n", "\n\t}\n\t// end inline asm\n\ta;\n"),
        ("\n\tmov.u32 %r1, 0;\n\t// end inline asm\n", "\n\ta;\n\tmov.u32 %r1, 0;\n\t// end inline asm\n"),
    ],
)
def test_nothing_is_inserted_into_the_inline_assembly_that_an_instruction_ends(end: str, found: str) -> None:
    scope = "{" if "}" in end else ""
    text = f".entry k()\n{{\n\t.reg .b32 %r<2>;\n\t// begin inline asm\n\t{scope}\n\tmov.u32 %r0, 0;{end}\tret;\n}}\n"
    assert _edited(Repair("", (after(0, "a;"),)), text=text) == text.replace(end, found)


def test_a_line_ends_as_its_neighbours_do() -> None:
    text = PLAIN.replace("\n", "\r\n")
    fixed = _edited(Repair("", (before(2, "a;"), after(5, "b;"))), text=text)
    assert "\ta;\r\n\tadd.u32" in fixed
    assert "ret; // the end\r\n    b;\r\n}" in fixed
    assert fixed.count("\n") == fixed.count("\r\n")


def test_what_cannot_be_found_makes_no_fix() -> None:
    data = PLAIN.replace("{0}", "0").encode()
    (function,) = build(parse(data), data).functions
    repairs = [Repair("", (operand(2, "nothing", "1"),)), Repair("", (inverted(2),)), Repair("", ())]
    assert resolve(Source(data, "k.ptx"), function, repairs) == ()


def test_edits_that_overlap_make_no_fix_and_are_not_joined() -> None:
    data = PLAIN.replace("{0}", "0").encode()
    (function,) = build(parse(data), data).functions
    source = Source(data, "k.ptx")
    assert resolve(source, function, [Repair("", (without(2), operand(2, "b", "7")))]) == ()
    one, two = (resolve(source, function, [Repair("", (c,))])[0] for c in (without(2), operand(2, "b", "7")))
    with pytest.raises(ValueError, match="overlap"):
        joined(data, (*one.edits, *two.edits))
