"""``tclint verdict``: the classes of a kernel, the obligations and what discharges each, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tclint.findings.finding import FileReport
from tclint.findings.spans import Span
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Obligation, Reason, Status, Verdict
from tclint.inspect.verdicts import (
    MAX_OBLIGATIONS,
    KernelVerdicts,
    ShownVerdicts,
    read,
    render_json,
    render_text,
)
from tclint.syntax.source import Source
from tests.tools.command import invoke
from tests.tools.project import ROOT
from tests.tools.schema import strict
from tests.tools.support import HOPPER, before_the_wait, kernel, module

WAITED = module(before_the_wait("    mov.b32 %r9, 0;"), header=HOPPER)
READ = module(before_the_wait("    st.global.f32 [%rd0], %f0;"), header=HOPPER)
TEXT = Source(b"issue\nwait\nuse\nend\n", "k.ptx")
ISSUE, WAIT, USE = (Span(n, n + 3) for n in (0, 6, 11))


def shown(*verdicts: Verdict) -> ShownVerdicts:
    """Made-up verdicts on the kernel ``k``."""
    return ShownVerdicts(
        FileReport(path="k.ptx", source=TEXT, verdicts=verdicts), (KernelVerdicts("k", verdicts),)
    )


def text_of(text: str) -> str:
    return render_text([read(Source(text.encode(), "k.ptx"))])


def test_each_class_has_its_status_and_what_supports_it() -> None:
    lines = render_text(
        [
            shown(
                Verdict(
                    "k",
                    HazardClass.WGMMA,
                    Status.PROVED,
                    (
                        Obligation(ISSUE, USE, "it has completed", Discharge.WAIT, (WAIT,)),
                        Obligation(ISSUE, None, "it is there", Discharge.TABLE),
                    ),
                    (Assumption.THREADS,),
                ),
                Verdict("k", HazardClass.BULK, Status.VIOLATED, rules=("BK001", "BK002")),
                Verdict("k", HazardClass.MBARRIER, Status.BOUNDED, launches=("CTA 0 of 8",)),
                Verdict(
                    "k",
                    HazardClass.CP_ASYNC,
                    Status.UNKNOWN,
                    (
                        Obligation(ISSUE, None, "it is disjoint", Discharge.DISJOINT),
                        Obligation(ISSUE, USE, "it has completed", None, why="no wait"),
                    ),
                    reasons=(Reason(USE, "the address is unknown", "resolve it"), Reason(None, "too large")),
                ),
            )
        ]
    )
    assert lines.splitlines() == [
        "kernel k  k.ptx",
        "  wgmma: proved (assuming threads)",
        "    line 1, for line 3: it has completed: wait in line 2",
        "    line 1: it is there: table",
        "  bulk: violated (BK001, BK002)",
        "  mbarrier: bounded",
        "    CTA 0 of 8",
        "  cp-async: unknown",
        "    line 3: the address is unknown; resolve it",
        "    too large",
        "    line 1, for line 3: it has completed: not shown: no wait",
        "    line 1: it is disjoint: disjoint",
    ]


def test_a_long_list_is_cut_and_says_how_to_get_the_rest() -> None:
    many = tuple(Obligation(ISSUE, None, f"number {n}", Discharge.TABLE) for n in range(MAX_OBLIGATIONS + 3))
    found = [shown(Verdict("k", HazardClass.AVAILABILITY, Status.PROVED, many))]
    assert "    and 3 more obligations; --all lists them\n" in render_text(found)
    whole = render_text(found, most=None)
    assert f"number {MAX_OBLIGATIONS + 2}:" in whole
    assert "--all" not in whole
    assert len(json.loads(render_json(found))["files"][0]["kernels"][0]["verdicts"][0]["obligations"]) == len(
        many
    )


def test_the_verdicts_of_a_kernel_are_those_of_its_findings_and_proofs() -> None:
    assert "  wgmma: proved\n" in text_of(WAITED)
    assert "  wgmma: violated (WG001)\n" in text_of(READ)


def test_the_json_follows_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = strict(json.loads((ROOT / "docs" / "verdicts.schema.json").read_text(encoding="utf-8")))
    defined = schema["$defs"]["verdict"]["properties"]
    assert defined["class"]["enum"] == [hazard.value for hazard in HazardClass]
    assert defined["status"]["enum"] == [status.value for status in Status]
    assert defined["assumptions"]["items"]["enum"] == [assumption.value for assumption in Assumption]
    discharged = defined["obligations"]["items"]["properties"]["discharge"]["enum"]
    assert discharged == [*(discharge.value for discharge in Discharge), None]
    texts = [WAITED, READ, WAITED.replace("mov.b32 %r9, 0;", "mov.b32 %r9, {{;")]
    found = [read(Source(text.encode(), "k.ptx")) for text in texts]
    absent = ShownVerdicts(FileReport.failed("absent.ptx", "no such file"))
    document = json.loads(render_json([*found, absent]))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert [file["status"] for file in document["files"]] == ["analysed", "analysed", "partial", "failed"]


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    (tmp_path / "waited.ptx").write_text(WAITED + kernel("    ret;", "other"))
    return [str(tmp_path / "waited.ptx")]


def test_a_kernel_and_a_class_are_chosen_by_name(paths: list[str]) -> None:
    code, output = invoke("verdict", *paths, "--entry", "k", "--class", "wgmma")
    assert code == 0
    assert output.startswith(f"kernel k  {paths[0]}\n  wgmma: proved\n    line ")
    assert "availability" not in output
    assert "other" not in output
    assert "  uses no such class" in invoke("verdict", *paths, "--entry", "other", "--class", "wgmma")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--class", "wgma"], "Did you mean 'wgmma'?"),
        (["--assume", "luck"], "unknown assumption 'luck'; must be one of no-overflow"),
        (["--entry", "nothing"], "no function matches 'nothing'"),
    ],
)
def test_a_name_that_does_not_exist_is_a_usage_error(
    paths: list[str], arguments: list[str], message: str
) -> None:
    code, output = invoke("verdict", *paths, *arguments)
    assert code == 2
    assert message in output


def test_an_input_that_cannot_be_read_is_an_error() -> None:
    code, output = invoke("verdict", "absent.ptx")
    assert (code, output) == (2, "error: absent.ptx: no such file or directory\n")
