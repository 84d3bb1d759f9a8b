"""``tclint verdict``: the classes of a kernel, the obligations and what discharges each, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tclint.findings.finding import FileReport
from tclint.findings.spans import Span
from tclint.findings.verdicts import Assumption, Discharge, HazardClass, Obligation, Reason, Status, Verdict
from tclint.inspect.verdicts import (
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
ISSUE, WAIT, USE, END = (Span(n, n + 3) for n in (0, 6, 11, 15))


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
        "  wgmma: proved (assuming threads); 2 obligations: 1 wait, 1 table",
        "  bulk: violated (BK001, BK002)",
        "  mbarrier: bounded",
        "    CTA 0 of 8",
        "  cp-async: unknown; 2 obligations: 1 not shown, 1 disjoint",
        "    line 3: the address is unknown; resolve it",
        "    too large",
        "    not shown: it has completed",
        "      line 1, for line 3: no wait",
        "  for one launch, check --verdict --execute may bound cp-async",
    ]


def not_waited(*places: Span, why: str = "no wait") -> tuple[Obligation, ...]:
    """Open obligations that operations at *places* have completed before line 3."""
    return tuple(Obligation(at, USE, "it has completed", None, why=why) for at in places)


def test_what_differs_in_its_places_alone_is_shown_once_with_its_count_and_its_help() -> None:
    many = shown(
        Verdict(
            "k",
            HazardClass.BULK,
            Status.UNKNOWN,
            (*not_waited(ISSUE, WAIT, ISSUE), *not_waited(END, why="no path")),
            reasons=(
                Reason(USE, "no wait", "wait"),
                Reason(WAIT, "it is not known", also=(ISSUE, END)),
            ),
        )
    )
    assert render_text([many]).splitlines()[1:] == [
        "  bulk: unknown; 4 obligations: 4 not shown",
        "    lines 1, 2, 4: it is not known",
        "    not shown 3 times: it has completed",
        "      lines 1, 2, for line 3: no wait",
        "      wait",
        "    not shown: it has completed",
        "      line 4, for line 3: no path",
    ]
    (verdict,) = json.loads(render_json([many]))["files"][0]["kernels"][0]["verdicts"]
    assert [reason["lines"] for reason in verdict["reasons"]] == [[3], [2, 1, 4]]
    assert [one["line"] for one in verdict["obligations"]] == [1, 2, 1, 4]


def test_classes_that_are_unknown_for_one_reason_are_one_entry() -> None:
    why = (Reason(ISSUE, "not analysed: it is too large"),)
    unknown = [
        Verdict("k", each, Status.UNKNOWN, reasons=why)
        for each in (HazardClass.BULK, HazardClass.AVAILABILITY)
    ]
    proofs = [Verdict("k", each, Status.PROVED) for each in (HazardClass.WGMMA, HazardClass.PROXIES)]
    assert render_text([shown(unknown[0], *proofs, unknown[1])]).splitlines()[1:] == [
        "  bulk, availability: unknown",
        "    line 1: not analysed: it is too large",
        "  wgmma: proved",
        "  proxies: proved (within each thread; PR001 and PR004 are about fences between threads)",
    ]


def test_what_a_finding_violates_is_shown_with_its_obligations() -> None:
    violated = shown(Verdict("k", HazardClass.WGMMA, Status.VIOLATED, not_waited(ISSUE), rules=("WG001",)))
    assert render_text([violated]).splitlines()[1:] == [
        "  wgmma: violated (WG001); 1 obligation: 1 not shown",
        "    not shown: it has completed",
        "      line 1, for line 3: no wait",
    ]


def test_all_lists_every_obligation_and_every_line_of_a_reason() -> None:
    proof = tuple(Obligation(ISSUE, None, f"number {n}", Discharge.TABLE) for n in range(9))
    lines = tuple(Span(n, n + 1) for n in range(1, 20, 2))
    source = Source(b"\n" * 20, "k.ptx")
    verdicts = (
        Verdict("k", HazardClass.AVAILABILITY, Status.PROVED, (*not_waited(ISSUE), *proof)),
        Verdict("k", HazardClass.BULK, Status.UNKNOWN, reasons=(Reason(lines[0], "why", also=lines[1:]),)),
    )
    found = [ShownVerdicts(FileReport(path="k.ptx", source=source), (KernelVerdicts("k", verdicts),))]
    short, whole = render_text(found), render_text(found, every=True)
    assert "number" not in short
    assert whole.splitlines()[2] == "    line 1, for line 12: it has completed: not shown: no wait"
    assert [f"number {n}: table" in whole for n in range(9)] == [True] * 9
    assert "lines 2, 4, 6, 8 and 6 more: why" in short
    assert "lines 2, 4, 6, 8, 10, 12, 14, 16, 18, 20: why" in whole


def test_the_verdicts_of_a_kernel_are_those_of_its_findings_and_proofs() -> None:
    assert "  wgmma: proved; " in text_of(WAITED)
    assert "  wgmma: violated (WG001); " in text_of(READ)


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
    assert output.startswith(f"kernel k  {paths[0]}\n  wgmma: proved; ")
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
