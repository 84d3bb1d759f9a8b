"""``tclint report``: what is in the archive, and what is not."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import tclint
from tclint._version import __version__
from tests.tools.command import invoke
from tests.tools.project import ROOT

SECRET = "/home/somebody/secret"
UNWAITED = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text(encoding="utf-8")
OTHER = ".visible .entry other()\n{\n    .shared .b32 unused;\n    braid.u32;\n    ret;\n}\n"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with a kernel beside the one with the finding, comments, line information and settings of the user."""
    monkeypatch.chdir(tmp_path)
    text = UNWAITED + f'// {SECRET}\n.file 1 "{SECRET}/kernel.cu"\n' + OTHER
    Path("k.ptx").write_text(text, encoding="utf-8")
    Path("tclint-ptx.toml").write_text(
        f'strict = true\nexclude = ["{SECRET}"]\nbaseline = "{SECRET}"\nper-file-ignores = {{ "{SECRET}" = ["WG"] }}\n'
        'ignore = ["CA"]\ninclude = ["*.h"]\n'
    )
    return Path("k.ptx")


def contents(path: str | Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_archive_has_the_kernel_the_finding_settings_and_versions(kernel: Path) -> None:
    code, said = invoke("report", str(kernel), "WG001")
    found = contents("tclint-report-WG001.zip")
    assert code == 0
    assert [line.split()[0] for line in said.splitlines()[1:]] == list(found)
    assert list(found) == ["kernel.ptx", "finding.txt", "tclint-ptx.toml", "version.json"]
    assert "error[WG001]" in found["finding.txt"]
    assert "kernel.ptx:" in found["finding.txt"]
    assert json.loads(found["version.json"])["version"] == __version__
    assert "strict = true" in found["tclint-ptx.toml"]
    assert '"WG001"' in found["tclint-ptx.toml"]
    assert '"CA001"' not in found["tclint-ptx.toml"]


def test_a_search_that_the_time_ends_says_so(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = (3600.0 * n for n in range(10**6))
    with monkeypatch.context() as patched:
        patched.setattr("time.monotonic", lambda: next(hours))
        code, said = invoke("report", str(kernel), "WG001")
    assert code == 0
    assert said.endswith("stopped after --seconds: the finding may need less than that\n")
    code, said = invoke("report", "--seconds", "600", str(kernel), "WG001")
    assert (code, "stopped" in said) == (0, False)


def test_it_has_nothing_else(kernel: Path) -> None:
    invoke("report", str(kernel), "WG001")
    found = contents("tclint-report-WG001.zip")
    assert not [name for name, text in found.items() if SECRET in text or str(Path.cwd()) in text]
    assert "other" not in found["kernel.ptx"]
    assert "//" not in found["kernel.ptx"]


def test_the_kernel_is_whole_and_has_the_finding_with_the_settings_of_the_archive(
    kernel: Path, tmp_path: Path
) -> None:
    """A statement that the finding does not need may be what makes it wrong."""
    invoke("report", str(kernel), "wgmma-unwaited-accumulator-read", "-o", "x.zip")
    with zipfile.ZipFile("x.zip") as archive:
        archive.extractall(tmp_path / "x")
    report = tclint.check(tmp_path / "x" / "kernel.ptx", config=tmp_path / "x" / "tclint-ptx.toml")
    assert [finding.rule.id for finding in report.findings].count("WG001") == 1
    opcodes = [line.split()[0] for line in UNWAITED.splitlines() if line.strip().endswith(";")]
    text = contents("x.zip")["kernel.ptx"]
    assert all(opcode in text for opcode in opcodes if opcode.startswith(("wgmma", "st.", "ld.", "mov")))


def test_equal_findings_are_equal_bytes(kernel: Path) -> None:
    invoke("report", str(kernel), "WG001", "-o", "a.zip")
    invoke("report", str(kernel), "WG001", "-o", "b.zip")
    assert Path("a.zip").read_bytes() == Path("b.zip").read_bytes()


def test_a_note_and_a_finding_of_low_confidence_are_found(kernel: Path) -> None:
    kernel.write_text(
        (ROOT / "rules" / "PR004.md").read_text(encoding="utf-8").partition("```ptx\n")[2].partition("```")[0]
    )
    assert invoke("report", str(kernel), "PR004", "--isolated")[0] == 0
    assert "info[PR004]" in contents("tclint-report-PR004.zip")["finding.txt"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("k.ptx", "WG002"), "k.ptx: has no finding of WG002"),
        (("k.ptx", "WG001", "--at", "3"), "has no finding of WG001 in line 3; there is one in: 51"),
        (("k.ptx", "WG0011"), "did you mean"),
        (("absent.ptx", "WG001"), "absent.ptx: no such file or directory"),
        (("k.cu", "WG001"), "k.cu: is not PTX by its name"),
        ((".", "WG001"), ".: is a folder"),
        (("k.ptx", "WG001", "-o", "k.ptx"), "k.ptx is an input and would be overwritten"),
        (("k.ptx", "WG001", "-o", "tclint-ptx.toml"), "is an input and would be overwritten"),
    ],
)
def test_what_cannot_be_reported_is_one_line(kernel: Path, arguments: tuple[str, ...], words: str) -> None:
    Path("k.cu").write_text('void f() { asm("exit;"); }')
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, said = invoke("report", *arguments)
    assert (code, words in said, said.count("\n")) == (2, True, 0)
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
