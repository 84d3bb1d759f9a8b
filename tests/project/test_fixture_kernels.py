"""The compiled kernels in ``fixtures/kernels``: tclint finds nothing, ptxas accepts them, their sources are beside them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.corpus import fixtures
from tclint.findings.scales import Confidence
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tests.tools.ptxas import find_ptxas

KERNELS = sorted(fixtures.FOLDER.glob("*.ptx"))
NOTES = {path.name: {"TC007"} for path in KERNELS if re.fullmatch(r"triton-.*\.sm_100\.ptx", path.name)}
NOTES |= {path.name: {"PR004"} for path in KERNELS if path.name.startswith("nvcc-bulk_ring.")}
"""True notes: Triton waits for ``tcgen05.ld`` where the tensor memory is used again, and not before; the ring has no proxy
fence between the reads of a stage and the copy that fills it again."""


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_correct_kernel_has_no_findings(path: Path) -> None:
    report = check_source(Source.from_bytes(path.read_bytes(), path.name))
    assert report.status == "analysed"
    assert not report.problems
    found = [
        f
        for f in report.findings
        if f.confidence > Confidence.LOW and f.rule.id not in NOTES.get(path.name, ())
    ]
    assert not [f"{f.rule.id}: {f.message}" for f in found]


@pytest.mark.slow
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_ptxas_takes_the_kernel(path: Path, tmp_path: Path) -> None:
    target = re.search(r"^\.target (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert target is not None
    command = [find_ptxas(), "-arch", target[1], path, "-o", tmp_path / "kernel.cubin"]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_kernels_are_those_that_are_listed() -> None:
    listed = {f"{producer}-{name}.ptx" for producer, names in fixtures.KERNELS.items() for name in names}
    assert {path.name for path in KERNELS} == listed
    others = {path.name for path in fixtures.FOLDER.iterdir() if path.is_file()} - listed
    assert others == {"README.md", *fixtures.files()}


def test_the_source_is_beside_its_kernel() -> None:
    for name, origin in fixtures.files().items():
        same = (fixtures.FOLDER / name).read_bytes() == origin.read_bytes()
        assert same, f"{name} has changed: python -m benchmarks.corpus.fixtures"


def test_a_kernel_names_no_folder_of_the_machine_that_made_it() -> None:
    for path in KERNELS:
        text = path.read_text(encoding="utf-8")
        debugged = bytes(int(byte) & 255 for byte in re.findall(r"\.b8[ \t]+(\d+)", text))
        assert not re.search(r'\.file\s+\d+\s+"/', text), path.name
        assert not re.search(rb"/[\w.-]+/[\w.-]+/", debugged.replace(b"benchmarks/kernels/", b"")), path.name


def test_kernels_that_are_not_built_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fixtures.main(["--cache", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "nvcc" / "stream.sm_80.ptx") in said
    assert "build them first: python -m benchmarks.corpus" in said
