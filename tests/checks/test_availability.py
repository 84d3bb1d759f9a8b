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


# ---------------------------------------------------------------- what was measured with ptxas

NOT_REFUSED = {
    ".attribute(.unified) before the name": "ptxas takes it with --compile-only",
    ".attribute(.unified) variable": "ptxas takes it with --compile-only",
    ".attribute(.managed, .unified)": "ptxas takes it with --compile-only",
    "forward declaration of an entry": "the linker refuses it, since no other module defines it",
    ".address_size 32": "ptxas takes it with --machine 32",
}
"""Features that ptxas refuses for a reason outside the module."""
_VALUE = "the table has the availability of an operand, not that of a value or kind of operand"
OPEN = {
    "tensormap.replace elemtype 13": _VALUE,
    "tensormap.replace elemtype 14": _VALUE,
    "tensormap.replace elemtype 15": _VALUE,
    "cp.async ignore-src": _VALUE,
    "mbarrier.arrive sink _": _VALUE,
    "indirect tex (.u64 handle), unified": _VALUE,
    "indirect tex, texmode_independent": _VALUE,
    "indirect suld (.u64)": _VALUE,
    "indirect txq": _VALUE,
    "suq indirect": _VALUE,
    "st.bulk 32-bit size register (register address)": _VALUE,
}
"""What tclint accepts in a version or on a target that does not have it yet, and why."""
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
    return [
        pytest.param(
            row,
            id=_id(row),
            marks=pytest.mark.xfail(reason=OPEN[row["feature"]], strict=True)
            if row["feature"] in OPEN
            else (),
        )
        for row in chosen
    ]


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
