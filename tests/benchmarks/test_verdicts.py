"""The benchmark of what is proved counts kernels, and reports each mutant that is still proved."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from benchmarks import verdicts as benchmark
from benchmarks.faults import OPERATORS
from tclint.findings.verdicts import HazardClass
from tests.tools.project import ROOT

KERNEL = ROOT / "fixtures" / "wgmma_waited.ptx"


def test_every_class_with_faults_has_operators() -> None:
    for hazard, names in benchmark.ABOUT.items():
        assert [name for name in OPERATORS if re.search(names, name)], hazard


def test_a_fault_takes_the_proof_away() -> None:
    planted, lost, survivors = benchmark.mutants([KERNEL], HazardClass.WGMMA, 60, 7)
    assert sum(lost.values()) + len(survivors) == planted
    assert "wgmma.wait_group deleted" in lost


def test_a_mutant_that_is_still_proved_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = benchmark.proved
    (module, function), *_ = benchmark.kernels(benchmark.Source.read(KERNEL))
    always = everything(module, function, [HazardClass.WGMMA])
    monkeypatch.setattr(benchmark, "proved", lambda *arguments: always)
    monkeypatch.setattr(sys, "argv", ["verdicts", "--mutants", "1", "--class", "wgmma", str(KERNEL)])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 1
    assert "    proved: " in capsys.readouterr().out


def test_the_table_counts_classes_and_producers(tmp_path: Path) -> None:
    for producer, name in (("one", "wgmma_waited"), ("two", "wgmma_unwaited")):
        (tmp_path / producer).mkdir()
        (tmp_path / producer / "k.ptx").write_bytes((ROOT / "fixtures" / f"{name}.ptx").read_bytes())
    paths = benchmark.files([tmp_path], 1)
    rows = list(benchmark.rows(paths, [HazardClass.WGMMA], findings=True))
    lines = [line.split() for line in benchmark.table(rows).splitlines()]
    assert ["wgmma", "all", "2", "1", "1", "0", "0", "50%"] in lines
    assert ["one", "1", "0", "1", "0", "0", "100%"] in lines
    assert ["two", "1", "1", "0", "0", "0", "0%"] in lines
