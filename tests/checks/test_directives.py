"""Directives of functions: what contradicts itself, and that ptxas refuses exactly what is called an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tclint.findings.scales import Severity
from tclint.isa.directives import directives
from tclint.isa.target import Target
from tests.tools.ptxas import find_ptxas
from tests.tools.support import by_rule, lint

ENTRY, FUNC = ".visible .entry k(.param .u64 p)", ".visible .func k(.param .b64 p)"


def text(stated: str, version: str = "9.0", target: str = "sm_90", kind: str = ENTRY) -> str:
    return f".version {version}\n.target {target}\n.address_size 64\n{kind}\n{stated}\n{{\n    ret;\n}}\n"


CASES = {
    ".reqntid 128 .maxntid 128": "error: .maxntid cannot be used together with .reqntid",
    ".maxclusterrank 8 .reqnctapercluster 2": "error: .reqnctapercluster cannot be used together with .maxclusterrank",
    ".blocksareclusters": "error: .blocksareclusters requires .reqntid and .reqnctapercluster",
    ".blocksareclusters .maxntid 32 .reqnctapercluster 2": "error: .blocksareclusters requires .reqntid",
    ".blocksareclusters .reqntid 32 .reqnctapercluster 2": "",
    ".maxntid 128 .maxnctapersm 1": "error: .maxnctapersm was removed in .version 2.1",
    ".minnctapersm 2": "warning: .minnctapersm is ignored without .maxntid or .reqntid",
    ".minnctapersm 2 .reqntid 64": "",
    ".minnctapersm 2 .maxnreg 64 .maxntid 0x80": "",
    ".reqntid 128 .reqntid 128": "",
    ".reqntid 128 .reqntid 64": "warning: .reqntid 64 overrides the earlier .reqntid 128: only the last one is used",
    ".reqntid 0": "error: .reqntid 0: the values must be greater than 0",
    ".maxntid 2048": "",
    ".reqntid 64, 32": "warning: .reqntid 64, 32 cannot be launched: the product is 2048, but must be 1 to 1024",
    ".reqntid 32, 2, 2, 2": "error: .reqntid takes 1 to 3 values, not 4",
    ".maxntid": "error: .maxntid takes 1 to 3 values, not 0",
    ".explicitcluster 2": "error: .explicitcluster takes no value, not 1",
    ".maxnreg 1, 2": "error: .maxnreg takes one value, not 2",
    ".maxnreg 256": "",
    ".reqnctapercluster 32": "warning: .reqnctapercluster 32 cannot be launched: the product is 32, but must be 1 to 16",
    ".explicitcluster .reqnctapercluster 2, 2": "",
    ".noreturn": "error: .noreturn is a directive of .func, not of .entry",
    ".maxnitd 128": "error: unknown directive .maxnitd",
    ".ctas 4": "error: unknown directive .ctas",
    ".local_maxnreg 32": "",
    '.maxntid 128 .pragma "nounroll";': "",
}


@pytest.mark.parametrize("stated", CASES)
def test_directives_of_a_kernel(stated: str) -> None:
    found = by_rule(lint(text(stated)), "AV005")
    assert "; ".join(f"{f.severity.label}: {f.message}" for f in found) == CASES[stated]


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        (".noreturn", ""),
        (".abi_preserve 8 .abi_preserve 9", "appears twice"),
        (".reqntid 32", "is a directive of .entry"),
    ],
)
def test_directives_of_a_function(stated: str, says: str) -> None:
    found = by_rule(lint(text(stated, kind=FUNC)), "AV005")
    assert bool(found) == bool(says)
    assert not found or says in found[0].message


def test_a_finding_points_at_the_directive_and_names_what_was_meant() -> None:
    code = text(".maxnreg 64\n.maxnitd 128")
    (finding,) = by_rule(lint(code), "AV005")
    assert code[finding.span.start : finding.span.end] == ".maxnitd 128"
    assert (finding.entry, finding.help) == ("k", "did you mean .maxntid?")


@pytest.mark.parametrize(("version", "rule"), [("9.5", "AV005"), ("9.6", "PX008"), ("9.9", "PX008")])
def test_a_directive_that_a_newer_version_may_have_is_unknown(version: str, rule: str) -> None:
    report = lint(text(".brand_new 1", version=version))
    assert [f.rule.id for f in report.findings if f.rule.id in ("AV005", "PX008")] == [rule]


def refused(ptxas: Path, folder: Path, code: str, target: str) -> bool:
    (folder / "t.ptx").write_text(code)
    command = [ptxas, "-c", "-arch", target, folder / "t.ptx", "-o", folder / "t.cubin"]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode != 0


def test_ptxas_refuses_what_is_an_error(tmp_path: Path) -> None:
    ptxas = find_ptxas()
    for stated, wanted in CASES.items():
        assert refused(ptxas, tmp_path, text(stated), "sm_90") == wanted.startswith("error"), stated


def test_ptxas_takes_directives_where_the_table_does(tmp_path: Path) -> None:
    """Each example, in versions and on targets on both sides of what it needs."""
    ptxas = find_ptxas()
    for spec in directives().values():
        kind = ENTRY if "entry" in spec.on else FUNC
        for version in ("6.3", "6.4", "7.7", "7.8", "8.7", "8.8", "9.0", "9.3", "9.4"):
            for target in ("sm_75", "sm_80", "sm_90"):
                code = text(spec.example, version, target, kind)
                named = Target.parse(target)
                assert named is not None
                if named.introduced <= tuple(map(int, version.split("."))):
                    found = (f for f in lint(code).findings if f.rule.id.startswith("AV"))
                    errors = [f for f in found if f.severity is Severity.ERROR]
                    assert bool(errors) == refused(ptxas, tmp_path, code, target), code
