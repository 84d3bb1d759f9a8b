"""What a target or a version lacks: one message for instructions, special registers, directives and other features."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from benchmarks.ptxas import before
from tclint.findings.scales import Severity
from tclint.isa.target import dotted, parse_version
from tests.tools.project import ROOT
from tests.tools.support import lint

MEASURED = ROOT.parent / "shared" / "spec" / "features.tsv"


def text(body: str, version: str, target: str, head: str = "") -> str:
    return (
        f".version {version}\n.target {target}\n.address_size 64\n{head}\n.entry k()\n{{\n{body}\nret;\n}}\n"
    )


def messages(code: str) -> list[str]:
    return [f"{f.rule.id} {f.message}" for f in lint(code).findings if f.rule.id in ("AV001", "AV002")]


def test_a_special_register_is_reported_once_with_what_it_requires() -> None:
    body = ".reg .b32 %r<9>;\nmov.u32 %r1, %clusterid.x;\nmov.u32 %r2, %clusterid.y;\nmov.u32 %r3, %tid.x;"
    (finding,) = (f for f in lint(text(body, "8.0", "sm_80")).findings if f.rule.id == "AV001")
    assert finding.message == "%clusterid is not available on sm_80: it requires sm_90 or higher"
    assert finding.count == 2
    assert messages(text(body, "8.0", "sm_90")) == []


@pytest.mark.parametrize(
    "read", ["mov.v4.u32 {%r1, %r2, %r3, %r4}, %ctaid;", "mov.b64 %rd1, {%r1, %aggr_smem_size};"]
)
def test_a_special_register_in_a_vector_counts(read: str) -> None:
    body = f".reg .b32 %r<9>;\n.reg .b64 %rd<2>;\n{read}"
    assert bool(messages(text(body, "8.0", "sm_90"))) == ("aggr" in read)


@pytest.mark.parametrize("address", ["[%cluster_ctarank]", "[%cluster_ctarank+4]"])
def test_a_special_register_in_an_address_counts(address: str) -> None:
    body = f".reg .b32 %r<9>;\nld.shared.b32 %r1, {address};"
    assert messages(text(body, "8.0", "sm_80")) == [
        "AV001 %cluster_ctarank is not available on sm_80: it requires sm_90 or higher"
    ]
    assert messages(text(body, "8.0", "sm_90")) == []


def test_what_a_version_removed_names_no_older_target() -> None:
    vote = ".reg .pred %p<2>;\n.reg .b32 %r<2>;\nvote.ballot.b32 %r1, %p1;"
    (finding,) = (f for f in lint(text(vote, "8.0", "sm_90")).findings if f.rule.id.startswith("AV"))
    assert finding.message == "vote.ballot.b32 is not available on sm_90: .version 6.4 removed it"
    assert (finding.help, finding.fixes) == ("on sm_90 use vote.sync with a membermask", ())


def test_an_instruction_of_which_the_target_has_fewer_operands_is_named_with_its_operands() -> None:
    code = text(".reg .f32 %f<5>;\nmin.f32 %f1, %f2, %f3, %f4;\nret;", "8.8", "sm_90")
    (finding,) = (f for f in lint(code).findings if f.rule.id == "AV001")
    assert (
        finding.message == "min.f32 with 4 operands is not available on sm_90: it requires sm_100 or higher"
    )


@pytest.mark.parametrize(
    ("instruction", "remedy"),
    [
        ("fence.proxy.async;", "raise .version to 8.0, which has everything that this module uses"),
        ("membar.gl;", "raise .version to 7.8"),
        (
            "setmaxnreg.inc.sync.aligned.u32 128; fence.proxy.async;",
            "raise .version to 8.0, which has everything that this module uses",
        ),
    ],
)
def test_the_version_that_a_target_requires_is_one_that_has_all_that_the_module_uses(
    instruction: str, remedy: str
) -> None:
    first = min(
        (f for f in lint(text(instruction, "7.0", "sm_90")).findings if f.rule.id == "AV002"),
        key=lambda f: f.span.start,
    )
    assert (first.message, first.help) == (
        ".version 7.0 does not have .target sm_90, which requires .version 7.8",
        remedy,
    )


def test_an_instruction_that_a_target_lacks_requires_what_its_most_demanding_part_does() -> None:
    wait = (
        ".shared .b64 bar;\n.reg .pred %p<2>;\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;\nret;"
    )
    (finding,) = (f for f in lint(text(wait, "8.6", "sm_75")).findings if f.rule.id == "AV001")
    assert (
        finding.message == "mbarrier.try_wait.parity is not available on sm_75: it requires sm_90 or higher"
    )
    assert finding.help == "compile for sm_90 or higher, or on sm_75 use bar.sync and bar.arrive"


def test_targets_that_a_help_would_name_again_are_these() -> None:
    (finding,) = (
        f
        for f in lint(text("setmaxnreg.inc.sync.aligned.u32 128;\nret;", "8.8", "sm_90")).findings
        if f.rule.id == "AV001"
    )
    assert finding.help.startswith("compile for one of these, or on sm_90 ")


def test_a_directive_is_reported_with_the_fix_for_its_version() -> None:
    code = ".version 8.7\n.target sm_90\n.address_size 64\n.entry k()\n.local_maxnreg 32\n{ ret; }\n"
    (finding,) = (f for f in lint(code).findings if f.rule.id == "AV002")
    assert finding.message == ".local_maxnreg requires .version 8.8 on sm_90; this module has 8.7"
    assert code[finding.span.start : finding.span.end] == ".local_maxnreg 32"
    assert [fix.message for fix in finding.fixes] == ["raise .version to 8.8"]


@pytest.mark.parametrize(
    ("head", "body", "version", "target", "wanted"),
    [
        (".weak .global .b32 x;", "", "3.0", "sm_20", "AV002 .weak requires .version 3.1 on sm_20; this module has 3.0"),
        (".global .b128 x;", "", "8.3", "sm_62", "AV001 .b128 is not available on sm_62: it requires sm_70 or higher"),
        ("", '.pragma "frequency 2";', "8.8", "sm_90", "AV002 frequency requires .version 9.0 on sm_90; this module has 8.8"),
        (".func f() { ret; } .func g(); .alias g, f;", "", "6.2", "sm_30", "AV002 .alias requires .version 6.3 on sm_30; this module has 6.2"),
    ],
)  # fmt: skip
def test_a_feature_is_reported_with_what_it_requires(
    head: str, body: str, version: str, target: str, wanted: str
) -> None:
    assert messages(text(body, version, target, head)) == [wanted]


GIVEN = ".shared .align 128 .b8 s[256]; .shared .b64 m; .global .align 128 .b8 g[256]; .global .texref t;"


@pytest.mark.parametrize(
    ("instruction", "version", "target", "wanted"),
    [
        ("tensormap.replace.tile.elemtype.global.b1024.b32 [g], 13;", "8.6", "sm_100a",
         "AV002 13 to 15 as elemtype of tensormap.replace requires .version 8.7 on sm_100a; this module has 8.6"),
        ("tensormap.replace.tile.elemtype.global.b1024.b32 [g], 13;", "9.0", "sm_90a",
         "AV001 13 to 15 as elemtype of tensormap.replace is not available on sm_90a: it requires sm_100a, sm_101a, sm_120a, sm_100f, sm_101f, sm_120f or a later target of their families"),
        ("tensormap.replace.tile.elemtype.global.b1024.b32 [g], 12;", "8.6", "sm_100a", ""),
        ("tensormap.replace.tile.elemtype.global.b1024.b32 [g], %r1;", "8.6", "sm_100a", ""),
        ("tensormap.replace.tile.swizzle_mode.global.b1024.b32 [g], 4;", "8.8", "sm_103f",
         "AV001 4 as swizzle_mode of tensormap.replace is not available on sm_103f: it requires sm_103a, sm_107a"),
        ("tensormap.replace.tile.swizzle_mode.global.b1024.b32 [g], 3;", "8.8", "sm_103f", ""),
        ("cp.async.ca.shared.global [s], [g], 16, %p1;", "7.4", "sm_80",
         "AV002 a .pred register as src-size of cp.async requires .version 7.5 on sm_80; this module has 7.4"),
        ("cp.async.ca.shared.global [s], [g], 16, %r1;", "7.4", "sm_80", ""),
        ("mbarrier.arrive.shared.b64 _, [m];", "7.0", "sm_80",
         "AV002 .arrive with the sink _ as state of mbarrier.arrive requires .version 7.1 on sm_80; this module has 7.0"),
        ("mbarrier.arrive.shared.b64 %rd1, [m];", "7.0", "sm_80", ""),
        ("mbarrier.arrive_drop.shared.b64 _, [m];", "7.0", "sm_80", ""),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];", "3.0", "sm_20",
         "AV002 a register as a of tex requires .version 3.1 on sm_20; this module has 3.0"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f5, %f6}];", "3.0", "sm_20", ""),
        ("st.bulk.weak.shared::cta [%r1], %r2, 0;", "8.6", "sm_100",
         "AV002 a .b32 register as size of st.bulk requires .version 9.0 on sm_100; this module has 8.6"),
        ("st.bulk.weak.shared::cta [%r1], %rd2, 0;", "8.6", "sm_100", ""),
    ],
)  # fmt: skip
def test_what_an_operand_is_may_require_more_than_the_instruction(
    instruction: str, version: str, target: str, wanted: str
) -> None:
    registers = ".reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<9>;"
    assert messages(text(f"{registers}\n{instruction}", version, target, GIVEN)) == [wanted] * bool(wanted)


def test_a_suffix_that_lacks_the_value_of_an_operand_is_not_offered() -> None:
    body = "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [g], 4;"
    (finding,) = (f for f in lint(text(body, "8.8", "sm_103", GIVEN)).findings if f.rule.id == "AV001")
    assert [fix.message for fix in finding.fixes] == ["use .target sm_103a"]
    assert not [f for f in lint(text(body, "8.8", "sm_103a", GIVEN)).findings if f.rule.id == "AV003"]


# ---------------------------------------------------------------- what was measured with ptxas

NOT_REFUSED = {
    ".attribute(.unified) before the name": "ptxas takes it with --compile-only",
    ".attribute(.unified) variable": "ptxas takes it with --compile-only",
    ".attribute(.managed, .unified)": "ptxas takes it with --compile-only",
    "forward declaration of an entry": "the linker refuses it, since no other module defines it",
    ".address_size 32": "ptxas takes it with --machine 32",
}
"""Features that ptxas refuses for a reason outside the module."""
OTHER_RULES = ("FB", "MB", "TM", "MO")
"""Rules about what a module does, of which these modules have faults."""


def rows() -> list[dict[str, str]]:
    if not MEASURED.is_file():
        return []
    with MEASURED.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def refusals(row: dict[str, str], version: str, target: str) -> set[str]:
    code = row["module"].replace("\\n", "\n").replace("{V}", version).replace("{T}", target)
    if parse_version(version) < (2, 3):
        code = code.replace(".address_size 64\n", "")
    report = lint(code)
    found = {f.rule.id for f in report.findings if f.severity is Severity.ERROR}
    return {rule for rule in found if not rule.startswith(OTHER_RULES)} | (
        {"exit 2"} if report.problems else set()
    )


def _id(row: dict[str, str]) -> str:
    return f"{row['family']}: {row['feature']}"


def _marked(found: bool) -> list[Any]:
    """The rows of features that ptxas accepts somewhere, or nowhere."""
    chosen = (row for row in rows() if (row["min_version"] != "-") == found)
    return [pytest.param(row, id=_id(row)) for row in chosen]


@pytest.mark.skipif(
    not MEASURED.is_file(), reason="the measurements (../shared/spec) are not beside this checkout"
)
def test_the_measurements_are_read() -> None:
    assert len(rows()) > 300


@pytest.mark.parametrize("row", _marked(False))
def test_what_ptxas_refuses_everywhere_is_refused(row: dict[str, str]) -> None:
    assert bool(refusals(row, "9.2", "sm_100a")) == (row["feature"] not in NOT_REFUSED)


@pytest.mark.parametrize("row", _marked(True))
def test_a_feature_is_available_exactly_where_ptxas_takes_it(row: dict[str, str]) -> None:
    version, target = row["min_version"], row["min_version_target"]
    assert refusals(row, version, target) == set()
    if row["min_version_is_target_intro"] != "True":
        assert "AV002" in refusals(row, dotted(before(parse_version(version))), target)
    if (lower := row["first_refused_plain_target"]) != "-":
        assert "AV001" in refusals(row, "9.5", lower)


def test_a_version_that_lacks_the_target_is_refused_where_the_module_has_something() -> None:
    head = ".version 5.0\n.target sm_100a\n.address_size 64\n"
    assert messages(head) == []
    assert [m.split()[0] for m in messages(head + ".global .b32 x;\n")] == ["AV002"]
