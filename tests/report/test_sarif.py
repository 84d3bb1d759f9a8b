"""The SARIF output: its objects, and what others say of it.

``TCLINT_SARIF_MULTITOOL`` names the folder of the npm package ``@microsoft/sarif-multitool-linux``, which holds the
validator and the final schema. Neither is part of this project, so without it these tests skip.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tclint.findings.finding import Confirmation, Edit, FileReport, Fix, SourceLocation, Variant
from tclint.findings.rules import all_rules
from tclint.findings.scales import Confidence, Severity
from tclint.findings.selection import Selected
from tclint.findings.verdicts import Assumption, HazardClass, Reason, Status, Verdict
from tclint.report.formats import renderer
from tclint.report.locate import Locator
from tclint.report.summary import FormatContext, present
from tclint.syntax.source import Problem, Source
from tests.tools.findings import RULE, finding, report, span, step
from tests.tools.project import ROOT
from tests.tools.support import lint

LINE = SourceLocation("lib/mma.cuh", 10, 3, (SourceLocation("gemm cu/é.cu", 50, 7),))
KERNEL = Source.from_bytes("// é𝄞\n start;\n é𝄞 use {0} [a](1);\n".encode(), "out/a b%.ptx")
FULL = finding(
    KERNEL,
    "use {0} [a](1);",
    message="é uses [a](1) and {0} [b]",
    help="wait",
    count=3,
    confidence=Confidence.CONFIRMED,
    confirmation=Confirmation("confirmed", schedule="lazy", observation="seen"),
    steps=(
        step(KERNEL, "start;", "starts [a]\\", role="warp 0", source_location=SourceLocation("gemm.cu", 40)),
        step(KERNEL, "use {0} [a](1);", "uses it"),
    ),
    source_location=LINE,
    fixes=(Fix("wait", (Edit(span(KERNEL, "use"), "wait; use"), Edit(span(KERNEL, "start;"), "")), False),),
    variants=tuple(Variant(f"v{n}.ptx", None, "gemm", n, 1, f"{n}:1") for n in range(1, 151)),
)
REPORTS = [
    report(
        KERNEL, FULL, replace(FULL, suppressed=""), status="partial", problems=(Problem(2, "unbalanced {"),)
    ),
    report(KERNEL, replace(FULL, severity=Severity.INFO, entry=None, steps=()), member="m.ptx"),
    FileReport.failed("/elsewhere/b.ptx", "no such file"),
]


def log(*reports: FileReport, root: Path | None = None, **context: Any) -> dict[str, Any]:
    shown, summary = present(reports, Selected())
    mode = context.pop("mode", "ptx")
    made = FormatContext(summary, locate=Locator(mode, str(root or os.getcwd())), **context)
    loaded: dict[str, Any] = json.loads(renderer("sarif")(shown, made))
    return loaded


def run(*reports: FileReport, **context: Any) -> dict[str, Any]:
    (only,) = log(*reports, **context)["runs"]
    return dict(only)


def test_the_rules_are_those_that_occur() -> None:
    driver = run(report(KERNEL, replace(FULL, rule=all_rules()["WG001"])))["tool"]["driver"]
    (rule,) = driver["rules"]
    assert (rule["id"], rule["name"]) == ("WG001", RULE.name)
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert rule["help"]["markdown"] == all_rules()["WG001"].body.strip()
    assert "tclint explain WG001" in rule["help"]["text"]
    assert rule["properties"] == {
        "tags": ["ptx", "wgmma", "correctness"],
        "precision": "high",
        "problem.severity": "error",
    }
    assert run()["tool"]["driver"].get("rules", []) == []


def test_every_rule_has_descriptions_that_github_shows_whole() -> None:
    every = [replace(FULL, rule=rule) for rule in all_rules().values()]
    driver = run(report(KERNEL, *every))["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == sorted(all_rules())
    for rule in driver["rules"]:
        assert 0 < len(rule["shortDescription"]["text"]) <= 1024
        assert 0 < len(rule["fullDescription"]["text"]) <= 1024


def test_a_rule_that_is_off_by_default_is_not_enabled() -> None:
    found = (replace(FULL, rule=all_rules()[id]) for id in ("AV003", "WG001"))
    driver = run(report(KERNEL, *found))["tool"]["driver"]
    assert [rule["defaultConfiguration"].get("enabled", True) for rule in driver["rules"]] == [False, True]


def test_a_few_results_take_less_than_200_kilobytes() -> None:
    few = [
        replace(FULL, rule=all_rules()[id], variants=())
        for id in ("WG001", "WG002", "MB016", "TC001", "SU001")
    ]
    assert len(json.dumps(log(report(KERNEL, *few)), indent=2)) < 200_000


def test_the_tool_and_its_rules_have_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TCLINT_DOCS_URL", raising=False)
    driver = run(report(KERNEL, FULL))["tool"]["driver"]
    assert driver["informationUri"].startswith("https://")
    assert driver["rules"][0]["helpUri"] == "https://docs.nvidia.com/cuda/parallel-thread-execution/"
    monkeypatch.setenv("TCLINT_DOCS_URL", "https://example.org/tclint")
    driver = run(report(KERNEL, FULL))["tool"]["driver"]
    assert driver["informationUri"] == "https://example.org/tclint/"
    assert driver["rules"][0]["helpUri"] == "https://example.org/tclint/rules/WG001/"


def test_a_result_in_the_ptx() -> None:
    result = run(*REPORTS)["results"][0]
    assert (result["ruleId"], result["level"]) == ("WG001", "error")
    assert result["ruleIndex"] == 0
    assert "kind" not in result
    assert "suppressions" not in result
    (location,) = result["locations"]
    assert location == {
        "physicalLocation": {
            "artifactLocation": {"uri": "out/a%20b%25.ptx", "uriBaseId": "%SRCROOT%"},
            "region": {
                "startLine": 3,
                "startColumn": 5,
                "endLine": 3,
                "endColumn": 20,
                "snippet": {"text": "use {0} [a](1);"},
            },
        },
        "logicalLocations": [{"name": "gemm", "fullyQualifiedName": "gemm", "kind": "function"}],
    }
    assert result["partialFingerprints"] == {
        "primaryLocationLineHash": "0123456789abcdef:1",
        "tclint/v1": "0123456789abcdef:1",
    }
    assert result["properties"] == {
        "tclint/confidence": "confirmed",
        "tclint/method": "static",
        "tclint/replayed": False,
        "tclint/uses": 3,
        "tclint/variants": 150,
        "tclint/confirmation": {
            "status": "confirmed",
            "reason": "",
            "schedule": "lazy",
            "launch": "",
            "observation": "seen",
        },
    }


def test_the_message_links_to_the_steps_and_to_nothing_else() -> None:
    result = run(*REPORTS)["results"][0]
    assert result["message"]["text"] == (
        "é uses \\[a\\](1) and {0} [b]. Path: [\\[warp 0\\] starts \\[a\\]\\\\](1), then [uses it](2). Help: wait. "
        "Also in 150 other compiled variants: v1.ptx:1, v2.ptx:2, v3.ptx:3, v4.ptx:4, v5.ptx:5 and 145 more."
    )
    related = result["relatedLocations"]
    assert [location["id"] for location in related] == list(range(1, 105))
    assert related[0]["message"]["text"] == "[warp 0] starts [a]\\"
    uris = [r["physicalLocation"]["artifactLocation"]["uri"] for r in related]
    assert uris[:5] == ["out/a%20b%25.ptx"] * 2 + ["lib/mma.cuh", "gemm%20cu/%C3%A9.cu", "v1.ptx"]
    ((flow,),) = (c["threadFlows"] for c in result["codeFlows"])
    assert [f["executionOrder"] for f in flow["locations"]] == [1, 2]
    assert [f["location"]["message"]["text"] for f in flow["locations"]] == [
        "[warp 0] starts [a]\\",
        "uses it",
    ]


def test_a_result_in_the_source_leads_to_the_ptx() -> None:
    result = run(*REPORTS, mode="source")["results"][2]
    assert result["level"] == "note"
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "gemm%20cu/%C3%A9.cu", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 50, "startColumn": 7},
    }
    assert "In the [PTX](1). Help" in result["message"]["text"]
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 3
    flow = run(*REPORTS, mode="source")["results"][0]["codeFlows"][0]["threadFlows"][0]["locations"]
    regions = [f["location"]["physicalLocation"]["region"]["startLine"] for f in flow]
    assert regions == [40, 3], "a step without a source line stays in the PTX"


def test_suppressed_results_fixes_and_levels() -> None:
    results = run(*REPORTS)["results"]
    assert [result.get("suppressions") for result in results] == [None, [{"kind": "inSource"}], None]
    (fix,) = results[0]["fixes"]
    (change,) = fix["artifactChanges"]
    assert [r.get("insertedContent") for r in change["replacements"]] == [{"text": "wait; use"}, None]
    downgraded = replace(FULL, severity=Severity.WARNING)
    assert run(report(KERNEL, downgraded))["results"][0]["level"] == "warning", "not left to the rule"


def test_a_run_that_is_not_complete_says_so() -> None:
    made = run(*REPORTS)
    (invocation,) = made["invocations"]
    assert invocation["executionSuccessful"] is False
    notes = invocation["toolExecutionNotifications"]
    assert [(n["level"], n["message"]["text"], n["descriptor"]) for n in notes] == [
        ("error", "unbalanced {", {"id": "TCLINT-INPUT", "index": 0}),
        ("error", "no such file", {"id": "TCLINT-INPUT", "index": 0}),
    ]
    places = [n["locations"][0]["physicalLocation"] for n in notes]
    assert places[0]["region"] == {"startLine": 2}
    assert places[1] == {"artifactLocation": {"uri": "file:///elsewhere/b.ptx"}}
    assert made["tool"]["driver"]["notifications"][0]["id"] == "TCLINT-INPUT"
    assert run(report(KERNEL))["invocations"][0]["executionSuccessful"] is True


def test_the_run_itself() -> None:
    made = run(*REPORTS, root=Path("/a b"))
    assert made["columnKind"] == "unicodeCodePoints"
    assert made["automationDetails"] == {"id": "tclint/"}
    assert made["originalUriBaseIds"] == {"%SRCROOT%": {"uri": "file:///a%20b/"}}
    assert [a["location"]["uri"].rsplit("/")[-1] for a in made["artifacts"]] == ["a%20b%25.ptx", "b.ptx"]
    assert len(made["artifacts"][0]["hashes"]["sha-256"]) == 64


def test_fingerprints_survive_a_recompilation() -> None:
    text = (ROOT / "fixtures" / "elected_through_integers.ptx").read_text()
    again = re.sub(r"%([a-z]+)(\d+)", lambda m: f"%{m[1]}{int(m[2]) + 90}", text)
    again = re.sub(r"(%[a-z]+)<(\d+)>", r"\1<200>", again)
    again = re.sub(r"\$L__BB(\d+)_(\d+)", r"$L__BB7\1_9\2", again).replace("\n", "\n\n// moved\n")

    def prints(of: str) -> list[str]:
        return [r["partialFingerprints"]["primaryLocationLineHash"] for r in run(lint(of))["results"]]

    assert again != text
    assert len(set(prints(text))) == len(prints(text)) == 2
    assert prints(again) == prints(text)


MULTITOOL = Path(os.environ.get("TCLINT_SARIF_MULTITOOL", "/nowhere"))
validated = pytest.mark.skipif(
    not (MULTITOOL / "Sarif.Multitool").is_file(),
    reason="TCLINT_SARIF_MULTITOOL does not name the folder of @microsoft/sarif-multitool-linux",
)
LOGS = {
    "full": lambda: log(*REPORTS),
    "source": lambda: log(*REPORTS, mode="source"),
    "empty": lambda: log(),
    "fixtures": lambda: log(*(lint(path.read_bytes(), f"fixtures/{path.name}") for path in FIXTURES)),
}
FIXTURES = sorted((ROOT / "fixtures").glob("*.ptx"))


@validated
@pytest.mark.parametrize("name", LOGS)
def test_the_final_schema_accepts_it(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((MULTITOOL / "sarif-2.1.0.json").read_text("utf-8-sig"))
    assert "status" in schema["definitions"]["suppression"]["properties"], "not a draft"
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(LOGS[name]())] == []


@validated
@pytest.mark.parametrize("name", LOGS)
def test_the_multitool_finds_no_error_with_the_rules_of_github(name: str, tmp_path: Path) -> None:
    made = LOGS[name]()
    assert complaints(made, tmp_path) == set()


@validated
def test_the_multitool_does_look(tmp_path: Path) -> None:
    made = log(*REPORTS)
    del made["runs"][0]["tool"]["driver"]["rules"][0]["help"]
    made["runs"][0]["results"][1]["suppressions"][0]["state"] = "accepted"
    assert {"JSON1005", "GH2012"} <= complaints(made, tmp_path)


def complaints(made: dict[str, Any], folder: Path) -> set[str]:
    """The rules of the multitool that found more than a note."""
    (folder / "in.sarif").write_text(json.dumps(made))
    command = [MULTITOOL / "Sarif.Multitool", "validate", "in.sarif", "--rule-kind", "Sarif;Ghas"]
    subprocess.run(
        [*command, "--level", "Error;Warning;Note", "-o", "out.sarif"],
        cwd=folder,
        env=os.environ | {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    (found,) = json.loads((folder / "out.sarif").read_text("utf-8-sig"))["runs"]
    assert found["results"], "it finds something to note in any file"
    return {result["ruleId"] for result in found["results"] if result.get("level", "warning") != "note"}


def test_the_run_has_the_verdicts_on_each_kernel_if_there_are_any() -> None:
    verdicts = (
        Verdict("gemm", HazardClass.WGMMA, Status.PROVED, assumptions=(Assumption.THREADS,)),
        Verdict(
            "gemm",
            HazardClass.BULK,
            Status.UNKNOWN,
            reasons=(Reason(span(KERNEL, "start"), "it is not known"),),
        ),
    )
    reports, summary = present([FileReport(path=KERNEL.path, source=KERNEL, verdicts=verdicts)], Selected())
    (run,) = json.loads(renderer("sarif")(reports, FormatContext(summary)))["runs"]
    first, second = run["properties"]["tclint/verdicts"]
    assert (first["class"], first["status"], first["assumptions"]) == ("wgmma", "proved", ["threads"])
    assert first["uri"] == run["artifacts"][0]["location"]["uri"]
    assert second["reasons"] == ["line 2: it is not known"]
    plain, summary = present([FileReport(path=KERNEL.path, source=KERNEL)], Selected())
    assert "properties" not in json.loads(renderer("sarif")(plain, FormatContext(summary)))["runs"][0]
