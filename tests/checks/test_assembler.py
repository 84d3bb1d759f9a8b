"""What every assembler refuses: instructions, modifiers, operands, names, versions, targets."""

from __future__ import annotations

import re

import pytest

from tclint.findings.scales import Severity
from tclint.isa.refusals import refusal_of
from tclint.isa.table import split_opcode, table
from tests.tools.support import HEADER, HOPPER, agrees, by_rule, found, kernel, lint, module


def one(statement: str, header: str = HEADER) -> list[tuple[str, str]]:
    """``(rule, help)`` of the findings about one statement."""
    report = lint(module(kernel(f"{statement}\nret;"), header=header))
    return [(f.rule.id, f.help) for f in report.findings]


@pytest.mark.parametrize(
    ("statement", "rule", "hint"),
    [
        ("addd.s32 %r1, %r2, %r3;", "PX001", "add"),
        ("wgma.fence.sync.aligned;", "PX001", "wgmma"),
        ("xyzzy %r1;", "PX001", ""),
        ("add.q32 %r1, %r2, %r3;", "PX002", ""),
        ("ld.gobal.u32 %r1, [%rd1];", "PX002", ".global"),
        ("tcgen05.wait::lt.sync.aligned;", "PX002", ""),
        ("add.s32 %r1, %r2;", "PX003", ""),
        ("ret %r1, %r2;", "PX003", ""),
        ("L: L: ret;", "PX007", ""),
        (".reg .b32 t; .reg .b64 t;", "PX007", ""),
        ("add.s32 %r1, %r2, %rd1;", "PX003", ""),
        ("add.s64 %rd1, %rd1, %r1;", "PX003", ""),
        ("ld.global.u64 %r1, [%rd1];", "PX003", ""),
        ("st.global.v2.u64 [%rd1], {%rd1, %r1};", "PX003", ""),
        ("mul.wide.u32 %r1, %r2, %r3;", "PX003", ""),
        ("mad.wide.u32 %rd1, %r2, %r3, %r4;", "PX003", ""),
        ("mov.b64 {%r1, %rd1}, %rd1;", "PX003", ""),
        ("shl.b64 %rd1, %rd1, %rd1;", "PX003", ""),
        ("selp.u32 %r1, %r2, %r3, %r4;", "PX003", ""),
        ("setp.eq.u32 %r1, %r2, %r3;", "PX003", ""),
        ("cvt.u64.u32 %r1, %r2;", "PX003", ""),
        ("cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r1, %r2, %r3}];", "PX003", ""),
        ("cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%rd1, {%r1, %r2}];", "PX003", ""),
        ("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r1, %r2, %r3}, [%r4];", "PX003", ""),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2}, %rd0, %rd1, %p0, 1, 1, 0, 0;", "PX003", ""),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 2, 1, 0, 0;", "PX004", ""),
    ],
)  # fmt: skip
def test_what_no_assembler_takes(statement: str, rule: str, hint: str) -> None:
    header = HEADER.replace("sm_100a", "sm_90a") if "wgm" in statement else HEADER
    hits = one(statement, header)
    assert [r for r, _ in hits if r.startswith("PX")] == [rule]
    assert hint in dict(hits)[rule]


@pytest.mark.parametrize(("scale", "rejected"), [("0xFFFFFFFFFFFFFFFF", 0), ("-1", 0), ("0xFFFFFFFF", 1)])
def test_an_immediate_is_compared_as_a_number_of_64_bits(scale: str, rejected: int) -> None:
    statement = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd0, %rd1, %p0, {scale}, 1, 0, 0;"
    text = module(kernel(f"{statement}\nret;"), header=HEADER.replace("sm_100a", "sm_90a"))
    assert len(by_rule(lint(text), "PX004")) == rejected


@pytest.mark.parametrize(
    ("statement", "severity"),
    [
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], -1;", Severity.WARNING),
        ("mbarrier.init.shared.b64 [%r1], -1;", Severity.ERROR),
        ("bar.sync 0, 1056;", Severity.WARNING),
        ("bar.sync 0, 1040;", Severity.ERROR),
        ("lop3.b32 %r1, %r2, %r3, %r4, 256;", Severity.WARNING),
        ("bfe.u32 %r1, %r2, 256, 1;", Severity.ERROR),
    ],
)
def test_a_value_that_ptxas_accepts_against_the_isa_is_a_warning(statement: str, severity: Severity) -> None:
    (finding,) = by_rule(lint(module(kernel(f"{statement}\nret;"), header=HEADER)), "PX004")
    assert finding.severity == severity


@pytest.mark.parametrize(
    "statement",
    [
        "add.s32 %r1, %r2, -3;",
        "ld.global.v2.u32 {%r1, %r2}, [%rd1];",
        "st.shared.u32 [%r1+4], 7;",
        "setp.lt.s32 %p1|%p2, %r1, %r2;",
        "bar.sync 0, 128;",
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r4];",
        "@%p1 bra L;\nL: mov.u32 %r1, WARP_SZ;",
        "call.uni f;",
        "mov.u32 %r1, %dynamic_smem_size;",
        "ld.global.u8 %rd1, [%rd1];",
        "st.global.u8 [%rd1], %rd1;",
        "cvt.u16.u32 %r1, %rd1;",
        "mul.wide.u32 %rd1, %r2, %r3;",
        "mov.b64 %rd1, {%r1, %r2};",
        "cp.async.bulk.prefetch.tensor.1d.L2.global [%rd1, {0}];",
        "{ .reg .v2 .b32 c;\ncp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, c]; }",
        "shl.b64 %rd1, %rd1, %r1;",
        "mov.b32 %f1, %r1;",
        "mov.u64 %rd1, f;",
    ],
)
def test_what_it_takes(statement: str) -> None:
    report = lint(module(".func f () { ret; }\n", kernel(f"{statement}\nret;")))
    assert [f.message for f in report.findings if f.rule.id.startswith(("PX", "AV001", "AV002"))] == []
    assert report.status == "analysed"


@pytest.mark.parametrize(("source", "rules"), [("%p1", []), ("!%p1", []), ("%r2", ["PX003"])])
def test_a_ballot_takes_a_predicate(source: str, rules: list[str]) -> None:
    header = HEADER.replace("8.6", "4.0").replace("sm_100a", "sm_30")
    hits = one(f"vote.ballot.b32 %r1, {source};", header)
    assert [r for r, _ in hits if r.startswith("PX")] == rules


def test_equal_mistakes_are_one_finding_each_function() -> None:
    body = "ad.s32 %r1, %r2, %r3;\n" * 5
    report = lint(module(kernel(body, "a"), kernel(body, "b")))
    assert [(f.entry, f.count) for f in by_rule(report, "PX001")] == [("a", 5), ("b", 5)]


def test_undefined_names_are_findings_and_problems() -> None:
    text = module(kernel("mov.u32 %r1, %q1; // here\n@%q2 bra L; // guard\nbra M; // label\nL: ret;"))
    report = lint(text)
    lines = [text[: text.index(w)].count("\n") + 1 for w in ("// here", "// guard", "// label")]
    assert [(r, n) for r, n in found(report) if r.startswith("PX")] == list(
        zip(("PX005", "PX005", "PX006"), lines, strict=True)
    )
    assert [p.line for p in report.problems] == lines or sorted(p.line for p in report.problems) == lines


@pytest.mark.parametrize(
    ("version", "target", "statement", "rules"),
    [
        ("8.6", "sm_100a", "tcgen05.wait::ld.sync.aligned;", []),
        ("8.6", "sm_100", "tcgen05.wait::ld.sync.aligned;", ["AV001"]),
        ("8.6", "sm_90a", "tcgen05.wait::ld.sync.aligned;", ["AV001"]),
        ("8.0", "sm_90a", "wgmma.fence.sync.aligned;", []),
        ("8.0", "sm_90", "wgmma.fence.sync.aligned;", ["AV001"]),
        ("7.8", "sm_90", "elect.sync _|%p1, -1;", ["AV002"]),
        ("8.0", "sm_90", "elect.sync _|%p1, -1;", []),
        ("8.0", "sm_80", "elect.sync _|%p1, -1;", ["AV001"]),
        ("7.0", "sm_80", "cp.async.wait_all;", []),
        ("7.0", "sm_75", "cp.async.wait_all;", ["AV001"]),
        ("8.0", "sm_100a", "mov.u32 %r1, 0;", ["AV002"]),
    ],
)
def test_availability(version: str, target: str, statement: str, rules: list[str]) -> None:
    header = f".version {version}\n.target {target}\n.address_size 64\n"
    assert [r for r, _ in one(statement, header) if r in ("AV001", "AV002")] == rules


@pytest.mark.parametrize(
    ("version", "statement", "rules"),
    [
        ("9.5", "brandnew.u32 %r1;", ["PX001"]),
        ("9.6", "brandnew.u32 %r1;", ["PX008"]),
        ("9.6", "tcgen05.commit.brand::new.b64 [%r1];", ["PX008"]),
        ("9.5", "tcgen05.commit.brand::new.b64 [%r1];", ["PX002"]),
        ("10.0", "brandnew.u32 %r1;\nbrandnew.u32 %r2;\nadd.tight.u32 %r1, %r1, 1;", ["PX008"]),
        ("9.6", "add.u32 %r1, %r2;", ["PX008", "PX003"]),
        ("9.6", "bar.sync 16;", ["PX008", "PX004"]),
    ],
)
def test_what_a_newer_version_may_have_is_unknown_and_not_wrong(
    version: str, statement: str, rules: list[str]
) -> None:
    report = lint(module(kernel(f"{statement}\nret;"), header=HEADER.replace("8.6", version)))
    found = [f for f in report.findings if f.rule.id.startswith("PX")]
    assert [f.rule.id for f in found] == rules
    assert all((f.severity.label == "info") == (f.rule.id == "PX008") for f in found)


def test_one_note_lists_what_a_newer_module_has() -> None:
    bodies = ("brandnew.u32 %r1;\nbrandnew.u32 %r2;\nret;", "add.tight.u32 %r1, %r1, 1;\nret;")
    code = module(
        *(kernel(b, n) for b, n in zip(bodies, "ab", strict=True)), header=HEADER.replace("8.6", "9.6")
    )
    (found,) = by_rule(lint(code), "PX008")
    assert found.count == 3
    assert found.message.endswith("(9.5): brandnew.u32, add.tight.u32")


@pytest.mark.parametrize(
    ("unknown", "version", "confidence"),
    [
        ("", "9.6", "high"),
        ("tcgen05.dealloc.brand::new.b32 %r1, 32;", "9.6", "low"),  # may be what is missing
        ("brandnew.b32 %r1;", "9.6", "low"),
        ("add.tight.u32 %r1, %r1, 1;", "9.6", "low"),
        ("cvt.tight.u32.f32 %r1, %f1;", "9.6", "low"),
    ],
)
def test_what_an_unknown_instruction_may_do_is_not_missing(
    unknown: str, version: str, confidence: str
) -> None:
    body = f"""
    .shared .align 4 .b32 slot;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
    {unknown}
    ret;
    """
    report = lint(module(kernel(body, directives=".reqntid 32"), header=HEADER.replace("8.6", version)))
    assert [f.confidence.label for f in by_rule(report, "TM001")] == [confidence]


@pytest.mark.parametrize(
    ("unknown", "version", "confidence"),
    [
        ("", "9.6", "high"),
        ("mbarrier.init.brand::new.b64 [done], 1;", "9.6", "low"),
        ("mbarrier.init.brand::new.b64 [done], 1;", "9.5", "high"),
        ("add.tight.u32 %r1, %r1, 1;", "9.6", "high"),  # no addition synchronises anything
    ],
)
def test_findings_beside_an_unknown_synchronisation_are_doubtful(
    unknown: str, version: str, confidence: str
) -> None:
    body = f"""
    .shared .align 8 .b64 done;
    {unknown}
    mov.u32 %r3, 0;
    mbarrier.init.shared::cta.b64 [done], %r3;
    ret;
    """
    report = lint(module(kernel(body, directives=".reqntid 32"), header=HEADER.replace("8.6", version)))
    (found,) = [f for f in report.findings if f.rule.id.startswith("MB")]
    assert found.confidence.label == confidence


@pytest.mark.parametrize(
    ("statement", "fix"),
    [
        ("addd.s32 %r1, %r2, %r3;", ""),  # add or addc
        ("addd.s16 %h1, %h2, %h3;", "add.s16"),
        ("add.s23 %r1, %r2, %r3;", "add.s32"),
        ("wgma.fence.sync.aligned;", "wgmma.fence.sync.aligned"),
        ("ad.s32 %r1, %r2;", ""),  # add has three operands
        ("sha.b32 %r1, %r2, %r3;", ""),  # shl or shr
        ("clmul.lo.u64 %rd1, %rd2, %rd3;", ""),  # mul computes something else
        ("fmad.rn.f32 %f1, %f2, %f3, %f4;", ""),  # fma or mad
        ("add.s3 %r1, %r2, %r3;", "add.s32"),
        ("add.q32 %r1, %r2, %r3;", ""),  # of several types
    ],
)
def test_a_fix_of_a_name_computes_what_was_meant(statement: str, fix: str) -> None:
    (found,) = (
        f
        for f in lint(module(kernel(f"{statement}\nret;"), header=HOPPER)).findings
        if f.rule.family == "ptx"
    )
    assert found.help.startswith("did you mean")
    assert [f.message for f in found.fixes] == ([f"write {fix}"] if fix else [])


def test_a_damaged_function_is_not_taken_at_its_word() -> None:
    report = lint(module(kernel("ad.s32 %r1,\n}\n"), kernel("sb.s32 %r1, %r2, %r3;\nret;", "b")))
    assert report.status == "partial"
    assert {f.entry for f in report.findings} <= {"b"}


def test_comments_are_no_code() -> None:
    agrees(module(kernel("// ad.s32 %r1;\n/* bra nowhere; */\nret;")), "PX")


def test_ptxas_takes_negative_numbers_of_groups() -> None:
    """Kernels of vLLM (hadacore) have some, in cases of a switch that never occur."""
    assert not [rule for rule, _ in one("cp.async.wait_group -27;") if rule.startswith("PX")]


@pytest.mark.parametrize("register_first", [True, False])
def test_a_vector_may_be_a_register_in_one_place_and_a_list_in_another(register_first: bool) -> None:
    moves = ["mov.v4.u16 %v, {%h4, %h3, %h2, %h1};", "mov.v4.u16 {%h5, %h6, %h7, %w}, %v;"]
    declared = ".reg .u16 %h<9>; .reg .u32 %w; .reg .v4.u16 %v;"
    body = f"{declared} {' '.join(moves if register_first else reversed(moves))} ret;"
    (hit,) = by_rule(lint(module(kernel(body))), "PX003")
    assert hit.message == "mov.v4.u16: operand 1 (d) is a 32-bit register, but must be a 16-bit register"


@pytest.mark.parametrize(
    ("statement", "target"),
    [
        ("wgmma.fence.sync.aligned;", "sm_90a"),
        ("cp.async.wait_all;", "sm_80"),
        ("elect.sync _|%p1, -1;", "sm_90"),
    ],
)
def test_a_fix_names_the_oldest_target_that_has_every_instruction(statement: str, target: str) -> None:
    text = module(kernel(f"{statement}\nret;"), header=".version 8.6\n.target sm_75\n.address_size 64\n")
    (finding,) = [f for f in lint(text).findings if f.rule.id == "AV001"]
    (fix,) = finding.fixes
    assert fix.message == f"use .target {target}"
    assert not fix.safe


def test_no_target_is_named_if_none_has_every_instruction() -> None:
    body = "wgmma.fence.sync.aligned;\ntcgen05.wait::ld.sync.aligned;\nret;"
    text = module(kernel(body), header=".version 8.6\n.target sm_100a\n.address_size 64\n")
    (finding,) = [f for f in lint(text).findings if f.rule.id == "AV001"]
    assert not finding.fixes


@pytest.mark.parametrize(
    ("opcode", "message", "hint"),
    [
        ("cvt.f16.f32", "cvt.f16.f32 lacks a rounding modifier (.rm, .rn, .rp or .rz)", "cvt(.rm|.rn|.rp|.rz){.ftz}{.sat}.f16.f32"),
        ("div.f32", "div.f32 lacks .approx, .full or a rounding modifier (.rm, .rn, .rp or .rz)", "div.approx"),
        ("mul.s32", "mul.s32 lacks .hi, .lo or .wide", "mul(.hi|.lo).s32 or mul.wide.s32 d, a, b"),
        ("setp.f32", "setp.f32 lacks a comparison (.eq, .equ, .ge, .geu, .gt, .gtu, .le, .leu or one of 6 more)", ""),
        ("shl", "shl lacks a type (.b16, .b32 or .b64)", ""),
        ("mma.sync.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.m16n8k16.row.col.f32.f16.f16.f32 lacks .aligned", ""),
        ("ld.acquire.global.u32", "ld.acquire.global.u32 lacks a scope (.cluster, .cta, .gpu or .sys)", ""),
        ("mov.rz.b64", "mov does not accept the modifier .rz here", "write mov.b64"),
        ("add.ftz.s32", "add does not accept the modifier .ftz here", ".ftz is for add.ftz.f32; without it, write add.s32"),
        ("div.approx.f64", "div does not accept the modifier .approx here", "it lacks a rounding modifier (.rm, .rn, .rp or .rz)"),
        ("st.v3.f32", "st does not accept the modifier .v3 here", "it accepts .v2, .v4 or .v8"),
        ("shl.f128", "shl does not accept the modifier .f128 here", "it accepts .b16, .b32 or .b64"),
        ("st.generic.u16", "st does not accept the modifier .generic here", "write st.u16"),
        ("add.fast.f32", "add does not accept the modifier .fast here", "write add.f32"),
        ("cp.async.bulk.tensor.2d.shared::cta.reg.mbarrier::complete_tx::bytes", "cp.async.bulk.tensor does not accept the modifier .reg here", "it accepts .global"),
        ("fma.rn.rz.f32", "fma.rn.rz.f32: .rn and .rz exclude each other", ""),
        ("ld.ca.cg.global.u32", "ld.ca.cg.global.u32: .ca and .cg exclude each other", ""),
        ("add.s32.s32", "add.s32.s32: .s32 appears twice", ""),
        ("cvta.global.to.u64", "cvta.global.to.u64: the modifiers are in the wrong order", "write cvta.to.global.u64"),
        ("cvt.rn.f32.f16x2", "cvt.rn.f32.f16x2: no form has its types in this order", "there is cvt.rn.f16x2.f32"),
        ("dad.f32", "unknown instruction dad", "did you mean add?"),
        ("ld.reg.nc.b16", "ld does not accept the modifier .reg here", "it accepts .global"),
        ("cp.async.bulk.shared.global", "cp.async.bulk does not accept the modifier .shared here", "it accepts .shared::cluster or .shared::cta"),
        ("ldmatrix.sync.aligned.m8n8.x3.shared.b16", "ldmatrix does not accept the modifier .x3 here", "it accepts .x1, .x2 or .x4"),
        ("griddepcontrol.launch", "griddepcontrol does not accept the modifier .launch here", "did you mean .launch_dependents?"),
        ("cvt.rz.s32.f32", "cvt does not accept the modifier .rz here", "it accepts .rmi, .rni, .rpi or .rzi"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16.f16", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16.f16: type .f16 is one too many", ""),
        ("ADD.u32", "unknown instruction ADD", "did you mean add?"),
        ("LBB0_2", "unknown instruction LBB0_2", "if it is a label, write LBB0_2:"),
        ("dad.u32", "unknown instruction dad", "did you mean"),
        ("tcgen05.sat.ld.sync.aligned.32x32b.x1.b32", "tcgen05 does not accept the modifier .sat here", "write tcgen05.ld.sync.aligned.32x32b.x1.b32"),
    ],
)  # fmt: skip
def test_an_unknown_opcode_says_what_is_wrong_and_what_is_legal(opcode: str, message: str, hint: str) -> None:
    refused = refusal_of(table(), opcode)
    assert refused.message == message
    assert hint in refused.help


def test_of_two_words_a_letter_away_the_one_that_takes_the_operands_is_meant() -> None:
    (finding,) = by_rule(lint(module(kernel("dd.s32 %r1, %r2, %r3;\nret;"))), "PX001")
    assert (finding.help, [fix.message for fix in finding.fixes]) == ("did you mean add?", ["write add.s32"])


def test_a_vector_that_does_not_divide_its_type() -> None:
    (finding,) = by_rule(lint(module(kernel("mov.b64 {%r1, %r2, %r3}, %rd1;\nret;"))), "PX003")
    assert finding.message == "mov.b64: operand 1 (d) is a vector of 3, which does not divide .b64"


def test_a_label_of_an_unknown_branch_is_one_finding() -> None:
    report = lint(module(kernel("bra.rz L;\nL: ret;")))
    assert [f.rule.id for f in report.findings if f.rule.id.startswith("PX")] == ["PX002"]


def test_modifiers_in_the_wrong_order_are_reordered_unless_their_order_has_a_meaning() -> None:
    report = lint(module(kernel("cvta.global.to.u64 %rd1, %rd2;\nret;")))
    (finding,) = by_rule(report, "PX002")
    assert [fix.message for fix in finding.fixes] == ["write cvta.to.global.u64"]
    report = lint(module(kernel("cvt.rn.f32.f16x2 %r1, %r2, %r3;\nret;")))
    (finding,) = by_rule(report, "PX002")
    assert finding.fixes == ()


def test_an_opcode_that_lacks_one_modifier_is_explained_by_one_of_its_lines() -> None:
    for form in table():
        root, modifiers = split_opcode(form.examples[0].split()[0].rstrip(";"))
        for at in range(len(modifiers)):
            opcode = root + "".join(modifiers[:at] + modifiers[at + 1 :])
            if not table().candidates(opcode):
                refused = refusal_of(table(), opcode)
                assert "cannot be combined" not in refused.message, opcode
                assert refused.help, opcode


@pytest.mark.parametrize(
    ("version", "rules"),
    [("9.5", []), ("9.6", ["PX008"]), ("10.0", ["PX008"]), ("12.8", ["PX008"]), ("42.1", ["PX008"])],
)
def test_a_newer_version_is_not_an_error(version: str, rules: list[str]) -> None:
    report = lint(module(kernel("ret;"), header=HEADER.replace("8.6", version)))
    assert report.status == "analysed"
    assert [f.rule.id for f in report.findings if f.rule.id.startswith("PX")] == rules


@pytest.mark.parametrize(
    ("target", "statement", "advice"),
    [
        ("sm_100a", "wgmma.fence.sync.aligned;", "on sm_100a use tcgen05.mma in place of wgmma"),
        ("sm_120a", "wgmma.fence.sync.aligned;", "on sm_120a use mma.sync in place of wgmma"),
        ("sm_90a", "tcgen05.wait::ld.sync.aligned;", "on sm_90a use wgmma, whose accumulators are registers"),
        ("sm_70", "redux.sync.add.s32 %r1, %r2, -1;", "on sm_70 exchange values with shfl.sync and combine them"),
        ("sm_80", "mbarrier.try_wait.shared.b64 %p1, [%r1], %rd1;", "on sm_80 use mbarrier.test_wait in a loop"),
        ("sm_75", "mbarrier.init.shared.b64 [%r1], 1;", "on sm_75 use bar.sync and bar.arrive"),
        ("sm_90a", "add.rn.f32x2 %rd1, %rd2, %rd3;", "on sm_90a use two .f32 instructions"),
        ("sm_90a", "ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r1}, [%rd1];", "use two accesses of half the size"),
        ("sm_75", "trace.mark 1;", "compile for sm_107f"),
    ],
)  # fmt: skip
def test_what_to_use_where_a_target_refuses_an_instruction(target: str, statement: str, advice: str) -> None:
    header = f".version 9.5\n.target {target}\n.address_size 64\n"
    hints = [hint for rule, hint in one(statement, header) if rule == "AV001"]
    assert len(hints) == 1, hints
    assert advice in hints[0]


@pytest.mark.parametrize(
    ("statement", "name"),
    [("redux.sync.max.f32 %f1, %f2, -1;", "redux.sync.max.f32"), ("redux.sync.max.s32 %r1, %r2, -1;", "")],
)
def test_a_form_is_named_in_full_where_others_of_its_name_are_available(statement: str, name: str) -> None:
    report = lint(module(kernel(f"{statement}\nret;"), header=HEADER.replace("sm_100a", "sm_90a")))
    messages = [f.message for f in by_rule(report, "AV001")]
    assert [m.partition(" is not available")[0] for m in messages] == ([name] if name else [])


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("cp.async.ca.shared.global [tile], [%rd1], 99999999999;", "the number of bytes is 99999999999, but must be 4, 8 or 16"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 99999999999;", "the number of bytes is 99999999999, but must be a multiple of 16 from 0 to 1048560"),
        ("bar.sync 4096;", "the barrier number is 4096, but must be 0 to 15"),
        ("barrier.sync -3, 128;", "the barrier number is -3, but must be 0 to 15"),
        ("bar.arrive 1, 33;", "the number of threads is 33, but must be a multiple of 32 from 32 to 1024"),
        ("mbarrier.init.shared.b64 [done], 0;", "the count is 0, but must be 1 to 1048575"),
        ("pmevent 77;", "operand 1 (a) is 77, but must be 0 to 15"),
    ],
)  # fmt: skip
def test_an_immediate_out_of_range_has_words_and_is_the_only_problem(statement: str, message: str) -> None:
    body = f".shared .align 16 .b8 tile[8];\n.shared .align 8 .b64 done;\n{statement}\nret;"
    report = lint(module(kernel(body, directives=".reqntid 128")))
    assert [
        (f.rule.id, f.message.partition(": ")[2]) for f in report.findings if f.severity.label == "error"
    ] == [("PX004", message)]


def test_a_copy_outside_its_variable_is_reported_with_its_size() -> None:
    body = """
    .shared .align 16 .b8 tile[8192];
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 1048560;
    ret;
    """
    (found,) = by_rule(lint(module(kernel(body))), "MA001")
    assert "bytes 0 to 1048559 of tile" in found.message


@pytest.mark.parametrize(
    ("target", "statement", "name"),
    [
        ("sm_75", "cp.async.bulk.commit_group;", "cp.async.bulk"),
        ("sm_75", "redux.sync.add.s32 %r1, %r2, -1;", "redux.sync"),
        ("sm_80", "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;", "cp.async.bulk"),
        ("sm_75", "trace.mark 1;", "trace.mark"),
    ],
)
def test_an_instruction_that_a_target_lacks_is_named_by_all_words_of_its_name(
    target: str, statement: str, name: str
) -> None:
    text = module(kernel(f"{statement}\nret;"), header=f".version 9.5\n.target {target}\n.address_size 64\n")
    (found,) = by_rule(lint(text), "AV001")
    assert found.message.startswith(f"{name} is not available on {target}: ")
    assert "use another instruction" not in found.help


WITH_TYPES = (
    ".reg .b16 %h<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .f64 %fd<9>; .reg .pred %p<9>;"
)


@pytest.mark.parametrize(
    ("target", "statement", "message", "hint", "fix"),
    [
        ("sm_90", "sub.b64 %fd1, %fd2, %fd3;", "sub does not accept the modifier .b64 here", "did you mean .f64?", "sub.f64"),
        ("sm_90", "sub.b64 %rd1, %rd2, %rd3;", "sub does not accept the modifier .b64 here", "did you mean .s64, .u64 or .f64?", ""),
        ("sm_90", "add.b32 %f1, %f2, %f3;", "add does not accept the modifier .b32 here", "did you mean .f32?", "add.f32"),
        ("sm_90", "neg.u64 %rd1, %rd2;", "neg does not accept the modifier .u64 here", "did you mean .s64?", "neg.s64"),
        ("sm_90", "mul.wide.f32 %rd2, %r2, %r3;", "mul.wide does not accept the modifier .f32 here", "it accepts .s32 or .u32", ""),
        ("sm_90", "mul.f32.wide %f1, %f2, %f3;", "mul does not accept the modifier .wide here", ".wide is for mul.wide(.s16|.s32|.u16|.u32); without it, write mul.f32", ""),
        ("sm_90", "mov.rz.b64 %r1, %r2;", "mov does not accept the modifier .rz here", "the syntax is mov.b64 d, a", ""),
        ("sm_90", "cvt.rn.f64.f32 %f1, %fd1;", "cvt.rn.f64.f32: its operands have these types in another order", "write cvt.rn.f32.f64", ""),
        ("sm_90", "cvt.rn.s32.f32 %r1, %r2;", "cvt does not accept the modifier .rn here", "it accepts .rmi, .rni, .rpi or .rzi", ""),
        ("sm_90", "ld.shared.v3.b32 {%r1, %r2, %r3}, [%r4];", "ld does not accept the modifier .v3 here", "it accepts .v2 or .v4", ""),
        ("sm_100a", "ld.global.v3.b32 {%r1, %r2, %r3}, [%rd4];", "ld does not accept the modifier .v3 here", "it accepts .v2, .v4 or .v8", ""),
        ("sm_90", "st.global.v8.f64 [%rd1], {%fd1, %fd2};", "st.global.v8.f64: .v8 and .f64 exclude each other", "in place of .v8, it accepts .v2", ""),
        ("sm_100a", "st.global.v8.f64 [%rd1], {%fd1};", "st.global.v8.f64: .v8 and .f64 exclude each other", "in place of .v8, it accepts .v2 or .v4", ""),
        ("sm_90", "ld.texture.nc.v2.u32 {%r1, %r2}, [%rd1];", "ld does not accept the modifier .texture here", "it accepts .global", ""),
        ("sm_100a", "tcgen05.alloc.cta_group::1.sync.aligned.texture.b32 [%r1], 32;", "tcgen05.alloc does not accept the modifier .texture here", "it accepts .shared::cta", ""),
        ("sm_90", "multimem.ld_reduce.relaxed.sys.texture.add.u32 %r1, [%rd1];", "multimem.ld_reduce does not accept the modifier .texture here", "it accepts .global", ""),
        ("sm_90", "atom.global.sub.u32 %r1, [%rd1], %r2;", "atom does not accept the modifier .sub here", "in its place, it needs .add, .dec, .inc, .max or .min", ""),
        ("sm_90", "fma.f32 %f1, %f2, %f3, %f4;", "fma.f32 lacks a rounding modifier (.rm, .rn, .rp or .rz)", "the syntax is fma(.rm|.rn|.rp|.rz){.ftz}{.sat}.f32 d, a, b, c", ""),
        ("sm_90", "sqrt.f32 %f1, %f2;", "sqrt.f32 lacks .approx or a rounding modifier (.rm, .rn, .rp or .rz)", "the syntax is sqrt.approx{.ftz}.f32 or sqrt(.rm|.rn|.rp|.rz){.ftz}.f32 d, a", ""),
        ("sm_90", "wmma.mma.sync.aligned.row.col.m8n32k16.f32.bf16.bf16 %r1;", "wmma.mma.sync.aligned.row.col.m8n32k16.f32.bf16.bf16 lacks the type .f32", "the syntax is wmma.mma.sync.aligned.row.col.m8n32k16.f32.bf16.bf16.f32 d, a, b, c", ""),
        ("sm_90", "add.rn %fd1, %fd2, %fd3;", "add.rn lacks the type .f64", "the syntax is add.rn.f64 d, a, b", ""),
    ],
)  # fmt: skip
def test_what_may_be_written_instead_has_these_operands_on_this_target(
    target: str, statement: str, message: str, hint: str, fix: str
) -> None:
    text = f".version 8.8\n.target {target}\n.address_size 64\n.entry k()\n{{\n{WITH_TYPES}\n{statement}\nret;\n}}\n"
    (finding,) = by_rule(lint(text), "PX002")
    assert (finding.message, finding.help) == (message, hint)
    assert [f.message for f in finding.fixes] == ([f"write {fix}"] if fix else [])


def test_no_message_shows_the_name_of_a_choice() -> None:
    """A choice of the table, such as ``rnd``, is not something that could be written."""
    for form in table():
        choices = {
            f".{slot.name}"
            for line in form.syntax
            for slot in line.slots
            if f".{slot.name}" not in slot.spellings
        }
        choices = {name for name in choices if not name.endswith(tuple("0123456789"))}
        root, modifiers = split_opcode(form.examples[0].split()[0].rstrip(";"))
        for opcode in (root, *("".join((root, *modifiers[:at], ".zz", *modifiers[at:])) for at in (1, 9))):
            if choices and not table().candidates(opcode):
                refused = refusal_of(table(), opcode)
                shown = set(re.findall(r"\.[\w:]+", f"{refused.message} {refused.help}"))
                assert not shown & choices, (opcode, refused)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("%R1", "%r1"), ("r1", "%r1"), ("$r1", "%r1"), ("%rr1", "%r1"), ("%x1", ""), ("%rs1", "")],
)
def test_a_register_that_differs_in_sigil_case_or_a_doubled_letter_is_suggested(
    name: str, meant: str
) -> None:
    code = f".version 8.8\n.target sm_90\n.entry k()\n{{\n.reg .b32 %r<9>;\nadd.u32 {name}, %r2, %r3;\nret;\n}}\n"
    (found,) = by_rule(lint(code), "PX005")
    assert found.message.partition(" is not declared")[2] == (f"; did you mean {meant}?" if meant else "")
