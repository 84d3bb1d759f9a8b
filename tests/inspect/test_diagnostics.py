"""Remarks of ptxas and errors of the driver: `tclint explain C7510`, `tclint explain 222 kernel.ptx`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tclint.findings.rules import all_rules
from tclint.inspect.diagnostics import needed_driver
from tclint.isa.diagnostics import diagnostic, diagnostics, driver_for
from tclint.isa.target import KNOWN, RELEASED
from tclint.syntax.source import Source
from tests.tools.command import invoke
from tests.tools.project import ROOT
from tests.tools.ptxas import find_ptxas
from tests.tools.support import HOPPER, kernel, module


def test_every_rule_of_a_remark_exists_and_names_it_on_its_page() -> None:
    rules = all_rules()
    for one in diagnostics().values():
        assert set(one.rules) <= rules.keys(), one.code
        if one.code.startswith("C"):
            for rule in one.rules:
                assert one.code in rules[rule].body, (one.code, rule)


def test_every_code_that_a_page_names_is_known() -> None:
    named = {code for rule in all_rules().values() for code in re.findall(r"\bC75\d\d\b", rule.body)}
    assert named <= diagnostics().keys()


def test_ptxas_has_the_text_of_every_remark() -> None:
    program = re.sub(rb" +", b" ", find_ptxas().read_bytes())
    missing = [
        d.code for d in diagnostics().values() if d.text and d.text.split(" N ")[0].encode() not in program
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("C7510", "C7510"), ("c7510", "C7510"), ("(C7510)", "C7510"), ("716", "716"), ("CUDA_ERROR_MISALIGNED_ADDRESS", "716"),
        ("cudaErrorUnsupportedPtxVersion", "222"), ("WG001", None), ("7510", None), ("", None),
    ],
)  # fmt: skip
def test_what_names_a_diagnostic(word: str, code: str | None) -> None:
    found = diagnostic(word)
    assert (found.code if found is not None else None) == code


def test_newer_versions_require_newer_drivers() -> None:
    numbers = [
        [int(part) for part in driver.split(".")]
        for version in RELEASED
        if version >= (6, 0) and (driver := driver_for(version)) is not None
    ]
    assert numbers == sorted(numbers)
    assert len(numbers) == len([v for v in RELEASED if (6, 0) <= v < KNOWN])
    assert (driver_for((8, 5)), driver_for((3, 0)), driver_for((99, 0))) == ("555.42.02", None, None)


def test_the_driver_that_a_file_requires_and_the_one_that_would_do() -> None:
    text = module(kernel("wgmma.fence.sync.aligned;\nret;"), header=HOPPER.replace("8.0", "9.3"))
    lines = [*needed_driver(Source.from_bytes(text.encode(), "k.ptx"))]
    assert lines == [
        ".version 9.3 requires driver 610.43.02 or a newer one (Linux)",
        "it uses nothing newer than .version 8.0 on sm_90a, which requires driver 525.60.13 or a newer one",
    ]
    future = text.replace("9.3", "9.9")
    assert "that tclint does not know" in next(needed_driver(Source.from_bytes(future.encode(), "k.ptx")))
    broken = text.replace("ret;", "ret")
    assert len([*needed_driver(Source.from_bytes(broken.encode(), "k.ptx"))]) == 1
    assert [*needed_driver(Source.from_bytes(b"// nothing", "k.ptx"))] == [
        "no .version: the driver cannot compile it"
    ]


def test_explaining_a_code_with_a_file_shows_where_it_is() -> None:
    path = str(ROOT / "fixtures" / "wgmma_unwaited.ptx")
    code, text = invoke("explain", "C7514", path)
    assert code == 0
    assert text.startswith("# C7514\n")
    assert f"{path}:51:5: error WG001" in text
    code, text = invoke("explain", "222", path)
    assert (code, text.count("\n" + path)) == (0, 1)
    assert ".version 8.0 requires driver 525.60.13" in text
    code, text = invoke("explain", "718", path)
    assert text.endswith("not checked, because no rule looks for this\n")


def test_the_other_forms_of_an_explanation() -> None:
    assert invoke("explain", "--short", "C7508")[1].startswith("C7508\n  Every setmaxnreg")
    first, second = json.loads(invoke("explain", "--output-format", "json", "716", "WG001")[1])
    assert (first["names"], first["rules"], second["id"]) == (
        ["CUDA_ERROR_MISALIGNED_ADDRESS", "cudaErrorMisalignedAddress"], ["CA004", "MA002"], "WG001",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("C7999",), "unknown code C7999; known are C7501,"),
        (("999",), "unknown code 999"),
        (("nosuch.ptx",), "unknown rule nosuch.ptx"),
        (("WG001", "nosuch"), "unknown rule nosuch"),
        (("fixtures/wgmma_unwaited.ptx", "WG001"), "Name a rule before the file fixtures/wgmma_unwaited.ptx"),
        (("WG001", "nosuch.ptx"), "nosuch.ptx: error: no such file or directory"),
        (("222", "nosuch.ptx"), "nosuch.ptx: no such file or directory"),
        (("WG001", "--output-format", "json", "fixtures/wgmma_unwaited.ptx"), "A KERNEL cannot be combined"),
    ],
)
def test_what_cannot_be_explained(
    arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code, text = invoke("explain", *arguments)
    assert code == 2
    assert words in text


@pytest.mark.parametrize("code", ["222", "C7514"])
def test_a_file_that_is_not_text_is_an_error(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tool = tmp_path / "k.cubin", tmp_path / "cuobjdump"
    path.write_bytes(b"\x7fELF")
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("TCLINT_CUOBJDUMP", str(tool))
    status, text = invoke("explain", code, str(path))
    assert status == 2
    assert f"is an ELF file (cubin, object, library or executable), but {tool} failed" in text
